//! Programs of the schedule space compute what the reference computes: they are compiled and run beside it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flopsmith_nest::generate::{Rendered, Space};
use flopsmith_nest::schedule::Schedule;
use flopsmith_nest::{random, read, space};
use flopsmith_problem::{ArgKind, Content, Element, ErrorBound, Params, Problem, Role};
use flopsmith_protocol::TechniqueSet;
use flopsmith_test_support::sample::Part;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Programs of each problem; `FLOPSMITH_NEST_PROGRAMS` sets another number.
const PROGRAMS: usize = 24;
/// Random problems; `FLOPSMITH_NEST_RANDOM` sets another number.
const RANDOM: u64 = 6;
/// Programs of each random problem.
const RANDOM_PROGRAMS: usize = 8;
/// Programs of each problem with tiles of two levels.
const TILED_TWICE: usize = 8;
/// Skewed programs of each problem that goes through time.
const SKEWED: usize = 12;
/// So many of them may be skewed without need.
const SKEWED_ANYHOW: usize = 8;
/// Schedules that are drawn for these. One in a few hundred has an order that only its skew permits.
const SKEW_DRAWS: usize = 3000;
/// Tiles of this size do not close at the smaller sizes of [`sizes`].
const WIDE_TILE: u32 = 96;
/// One in so many problems of a suite is tried by a commit.
const SUITE: usize = 3;
/// Draws for one program at most.
const DRAWS: usize = 40;
/// Programs in one file: starting a compiler costs more than a program does.
const TOGETHER: usize = 12;

fn problems() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems")
}

fn load(name: &str) -> Problem {
    Problem::load(&problems().join(name)).expect("a shipped problem is sound")
}

/// How results are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// Roughly.
    Roughly,
    /// By the bound of the problem, which must refuse half of the digits.
    ByBound,
}

/// A driver that calls every program and the reference with the same inputs, and prints the number of each program that differs.
struct Driver<'a> {
    problem: &'a Problem,
    compared: Compared,
    text: String,
}

impl<'a> Driver<'a> {
    fn new(problem: &'a Problem, compared: Compared) -> Self {
        let mut text = String::from(
            "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n",
        );
        let name = &problem.entry.name;
        let _ = writeln!(
            text,
            "#define {name} reference_{name}\n{}\n#undef {name}",
            problem.reference_source
        );
        if compared == Compared::ByBound {
            text.push_str(problem.magnitude_source.as_deref().unwrap_or_default());
        }
        Self {
            problem,
            compared,
            text,
        }
    }

    /// The factor of the magnitudes in the bound; none if results are compared otherwise.
    fn factor(&self, params: &Params) -> Option<f64> {
        match &self.problem.bound {
            ErrorBound::Scaled { c, operations } if self.compared == Compared::ByBound => {
                Some(c * operations.value(params).unwrap())
            }
            _ => None,
        }
    }

    fn prototype(&self, number: usize) -> String {
        let name = &self.problem.entry.name;
        self.problem
            .entry
            .prototype
            .replacen(&format!("{name}("), &format!("{name}_{number}("), 1)
    }

    /// The whole driver for programs `0..count` and these sizes.
    fn finish(mut self, count: usize, sizes: &[Params]) -> String {
        let name = &self.problem.entry.name;
        for number in 0..count {
            let _ = writeln!(self.text, "{}", self.prototype(number));
        }
        self.text.push_str(
            "static uint64_t state = 1;\nstatic double next(void) { state = state * 6364136223846793005u + 1442695040888963407u; return (double)(state >> 11) / 9007199254740992.0; }\nint main(void) {\ndouble coarse = 0;\n",
        );
        for params in sizes {
            self.size(params, count, &name.clone());
        }
        self.text
            .push_str("printf(\"coarse %g\\n\", coarse);\nreturn 0;\n}\n");
        self.text
    }

    fn size(&mut self, params: &Params, count: usize, name: &str) {
        let factor = self.factor(params);
        let small = self.compared == Compared::ByBound;
        let mut magnitudes = Vec::new();
        let text = &mut self.text;
        text.push_str("{\n");
        let (mut inputs, mut renew, mut keep, mut compare) =
            (String::new(), String::new(), String::new(), String::new());
        let mut shares = String::new();
        let mut call = Vec::new();
        for argument in &self.problem.entry.args {
            let own = &argument.name;
            match &argument.kind {
                ArgKind::Scalar { low, high, .. } => {
                    let (low, high) = (low.value(params).unwrap(), high.value(params).unwrap());
                    call.push(format!("{:?}", low + 0.3 * (high - low)));
                    magnitudes.extend(call.last().cloned());
                }
                ArgKind::Int { value } => {
                    call.push(format!("{}", value.value(params).unwrap() as i64));
                    magnitudes.extend(call.last().cloned());
                }
                ArgKind::Array {
                    element,
                    role,
                    shape,
                    content,
                    ..
                } => {
                    let dims: Vec<usize> = shape.iter().map(|f| f.count(params).unwrap()).collect();
                    let elements: usize = dims.iter().product();
                    let kind = match element {
                        Element::F64 => "double",
                        Element::F32 => "float",
                        _ => "int",
                    };
                    let bytes = (elements.max(1) * 8 + 64).next_multiple_of(64);
                    let columns = dims.last().copied().unwrap_or(1).max(1);
                    let value = match (element, content) {
                        (Element::I32, Content::Distances { high }) => {
                            format!("1 + (int)(next() * {:?})", high.value(params).unwrap())
                        }
                        (element, Content::Range { low, high }) => {
                            let (low, high) =
                                (low.value(params).unwrap(), high.value(params).unwrap());
                            let width = high - low;
                            match element {
                                Element::I32 => {
                                    format!("(int)floor({low:?} + next() * {:?})", width + 1.0)
                                }
                                _ => format!("{low:?} + next() * {width:?}"),
                            }
                        }
                        (Element::I32, _) if small => "(int)(next() * 16) - 8".to_owned(),
                        (Element::I32, _) => "(int)(next() * 100) - 50".to_owned(),
                        (_, Content::Dominant) => format!(
                            "(next() - 0.5) + (x / {columns} == x % {columns} ? {columns} : 0)"
                        ),
                        _ => "next() - 0.5".to_owned(),
                    };
                    let _ = writeln!(text, "{kind} *a_{own} = aligned_alloc(64, {bytes});");
                    let fill = |name: &str| {
                        format!("for (long x = 0; x < {elements}; x++) {name}[x] = {value};\n")
                    };
                    match role {
                        Role::Input => inputs.push_str(&fill(&format!("a_{own}"))),
                        Role::Output => {
                            let _ = writeln!(
                                renew,
                                "memset(a_{own}, 0x7f, {elements} * sizeof *a_{own});"
                            );
                        }
                        Role::InOut => {
                            let _ = writeln!(text, "{kind} *p_{own} = malloc({bytes});");
                            inputs.push_str(&fill(&format!("p_{own}")));
                            let _ = writeln!(
                                renew,
                                "memcpy(a_{own}, p_{own}, {elements} * sizeof *a_{own});"
                            );
                        }
                    }
                    if *role != Role::Input {
                        let _ = writeln!(text, "{kind} *r_{own} = malloc({bytes});");
                        let _ = writeln!(
                            keep,
                            "memcpy(r_{own}, a_{own}, {elements} * sizeof *a_{own});"
                        );
                        let (eps, half) = match element {
                            Element::F64 => ("0x1p-52", "0x1p-24"),
                            _ => ("0x1p-23", "0x1p-12"),
                        };
                        let near = match (element, factor) {
                            (Element::F64 | Element::F32, Some(factor)) => {
                                let tolerance = format!("{factor:?} * {eps} * m_{own}[x]");
                                let _ = writeln!(text, "{kind} *m_{own} = malloc({bytes});");
                                if *role == Role::InOut {
                                    let _ = writeln!(
                                        keep,
                                        "memcpy(m_{own}, p_{own}, {elements} * sizeof *a_{own});"
                                    );
                                }
                                let _ = writeln!(
                                    shares,
                                    "{{ double most = 0; for (long x = 0; x < {elements}; x++) if (r_{own}[x]) most = fmax(most, {half} * fabs(r_{own}[x]) / ({tolerance})); coarse = fmin(coarse, most); }}"
                                );
                                format!("fabs(a - b) <= {tolerance}")
                            }
                            (Element::F64, None) => {
                                "fabs(a - b) <= 1e-8 * (1 + fabs(b))".to_owned()
                            }
                            (Element::F32, None) => {
                                "fabs(a - b) <= 2e-3 * (1 + fabs(b))".to_owned()
                            }
                            _ => "a == b".to_owned(),
                        };
                        let _ = writeln!(
                            compare,
                            "for (long x = 0; x < {elements}; x++) {{ double a = a_{own}[x], b = r_{own}[x]; if (!({near} || isnan(a) && isnan(b))) wrong = 1; }}"
                        );
                    }
                    call.push(format!("a_{own}"));
                    magnitudes.push(match (*role, factor) {
                        (Role::Output | Role::InOut, Some(_)) => format!("m_{own}"),
                        _ => format!("a_{own}"),
                    });
                }
            }
        }
        let call = call.join(", ");
        text.push_str(&inputs);
        text.push_str(&renew);
        let _ = writeln!(text, "reference_{name}({call});\n{keep}");
        if factor.is_some() {
            let call = magnitudes.join(", ");
            let _ = writeln!(
                text,
                "{name}_magnitude({call});\ncoarse = INFINITY;\n{shares}"
            );
        }
        for number in 0..count {
            let _ = writeln!(
                text,
                "{{ int wrong = 0; {renew} {name}_{number}({call}); {compare} if (wrong) printf(\"{number}\\n\"); }}"
            );
        }
        text.push_str("fflush(stdout);\n}\n");
    }
}

/// Sizes at which loops, tiles and vectors are empty, ragged and whole.
fn sizes(problem: &Problem, rng: &mut ChaCha8Rng) -> Vec<Params> {
    let mut all = Vec::new();
    for most in [1, 7, 40, 90] {
        let mut params = problem.timed.clone();
        for hidden in &problem.verify.hidden {
            let legal = hidden.between(hidden.min, most.max(hidden.min));
            let size = match most {
                1 => hidden.min,
                _ => legal[rng.random_range(0..legal.len())],
            };
            params.insert(hidden.param.clone(), size);
        }
        all.push(params);
    }
    all
}

/// A size at which one loop closes tiles of [`WIDE_TILE`] and the others are short, so that a program takes milliseconds; none if no
/// parameter is ever that large.
fn closing_size(problem: &Problem, rng: &mut ChaCha8Rng) -> Option<Params> {
    let least = i64::from(WIDE_TILE) + 1;
    let hidden = &problem.verify.hidden;
    let large: Vec<usize> = (0..hidden.len())
        .filter(|n| hidden[*n].max >= least)
        .collect();
    if large.is_empty() {
        return None;
    }
    let large = large[rng.random_range(0..large.len())];
    let mut params = problem.timed.clone();
    for (number, hidden) in hidden.iter().enumerate() {
        let legal = match number == large {
            true => hidden.between(least, least + 33),
            false => hidden.between(hidden.min, hidden.min.max(24)),
        };
        let size = legal[rng.random_range(0..legal.len())];
        params.insert(hidden.param.clone(), size);
    }
    Some(params)
}

fn programs(space: &Space, rng: &mut ChaCha8Rng, wanted: usize) -> Vec<(Schedule, String)> {
    let plain = space.plain();
    let text = space
        .render(&plain)
        .unwrap_or_else(|e| panic!("the plain order is refused: {e}"))
        .text;
    let mut all = vec![(plain, text)];
    for _ in 0..wanted * DRAWS {
        if all.len() >= wanted {
            break;
        }
        let schedule = if rng.random_bool(0.5) {
            space::draw(space, TechniqueSet::all(), rng)
        } else {
            let at = rng.random_range(0..all.len());
            space::neighbour(space, &all[at].0, TechniqueSet::all(), rng)
        };
        if let Ok(Rendered { text, .. }) = space.render(&schedule)
            && all.iter().all(|(_, known)| *known != text)
        {
            all.push((schedule, text));
        }
    }
    all
}

/// Programs with tiles of two levels, of sizes that do and do not divide each other. Small ones, so that sizes of tests have several.
fn programs_tiled_twice(
    space: &Space,
    rng: &mut ChaCha8Rng,
    wanted: usize,
) -> Vec<(Schedule, String)> {
    let mut all: Vec<(Schedule, String)> = Vec::new();
    for _ in 0..wanted * DRAWS / 2 {
        if all.len() >= wanted {
            break;
        }
        let mut schedule = space::draw(space, TechniqueSet::all(), rng);
        for group in &mut schedule.groups {
            group.outer = vec![0; group.tiles.len()];
            for (tile, outer) in group.tiles.iter_mut().zip(&mut group.outer) {
                if rng.random_bool(0.7) {
                    *tile = [3, 4, 8][rng.random_range(0..3)];
                    *outer = [9, 12, 20, 32][rng.random_range(0..4)];
                }
            }
        }
        if let Ok(Rendered { text, .. }) = space.render(&schedule)
            && text.contains("_outer")
            && all.iter().all(|(_, known)| *known != text)
        {
            all.push((schedule, text));
        }
    }
    all
}

/// True if a group of statements is skewed.
fn is_skewed(schedule: &Schedule) -> bool {
    schedule.groups.iter().any(|group| group.skew.is_some())
}

/// True if the space refuses the order of a schedule without its skews.
fn needs_its_skew(space: &Space, schedule: &Schedule) -> bool {
    let mut straight = schedule.clone();
    for group in &mut straight.groups {
        group.skew = None;
    }
    space.render(&straight).is_err()
}

/// Skewed programs that the space draws, and how many of them dependences would forbid without the skew.
fn programs_skewed(space: &Space, rng: &mut ChaCha8Rng) -> (Vec<(Schedule, String)>, usize) {
    let (mut all, mut needed): (Vec<(Schedule, String)>, usize) = (Vec::new(), 0);
    for _ in 0..SKEW_DRAWS {
        if all.len() >= SKEWED {
            break;
        }
        let schedule = space::draw(space, TechniqueSet::all(), rng);
        if !is_skewed(&schedule) {
            continue;
        }
        let Ok(Rendered { text, .. }) = space.render(&schedule) else {
            continue;
        };
        let needs = needs_its_skew(space, &schedule);
        if (needs || all.len() < SKEWED_ANYHOW) && all.iter().all(|(_, known)| *known != text) {
            needed += usize::from(needs);
            all.push((schedule, text));
        }
    }
    (all, needed)
}

/// The number that an environment variable has.
fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Checks programs of a shipped problem, and returns their schedules.
fn check(name: &str) -> Vec<Schedule> {
    let wanted = number("FLOPSMITH_NEST_PROGRAMS").unwrap_or(PROGRAMS);
    check_problem(&load(name), wanted, Compared::Roughly)
}

fn check_problem(problem: &Problem, wanted: usize, compared: Compared) -> Vec<Schedule> {
    let space = space_of(problem);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let all = programs(&space, &mut rng, wanted);
    check_programs(problem, &all, compared, &mut rng);
    let name = &problem.id;
    assert!(all.len() >= 2, "{name}: only {} programs", all.len());
    all.into_iter().map(|(schedule, _)| schedule).collect()
}

fn space_of(problem: &Problem) -> Space {
    let program = read::read(problem).unwrap_or_else(|e| panic!("{}: {e}", problem.id));
    Space::new(program)
}

/// Compiles the programs and runs them beside the reference.
fn check_programs(
    problem: &Problem,
    all: &[(Schedule, String)],
    compared: Compared,
    rng: &mut ChaCha8Rng,
) {
    let name = problem.id.as_str();
    let folder = tempfile::tempdir().unwrap();
    let entry = &problem.entry.name;
    let mut objects = Vec::new();
    let gcc = |arguments: &[&str], inputs: &[PathBuf]| {
        let output = Command::new("gcc")
            .args(arguments)
            .args(inputs)
            .output()
            .expect("gcc runs");
        assert!(
            output.status.success(),
            "{name}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            inputs
                .iter()
                .map(|p| std::fs::read_to_string(p).unwrap_or_default())
                .collect::<String>()
        );
    };
    // A loop that claims to be independent is wrong only where the compiler turns it into vectors, which it does from -O1 on. Other
    // programs take a third of the time with fewer passes, and have the same warnings.
    let (vectors, others): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|number| all[*number].1.contains("omp simd"));
    let levels: [(&[usize], &[&str]); 2] =
        [(&vectors, &["-O1", "-fno-ivopts"]), (&others, &["-Og"])];
    let chunks = levels
        .into_iter()
        .flat_map(|(numbers, level)| numbers.chunks(TOGETHER).map(move |chunk| (chunk, level)));
    for (chunk, (numbers, level)) in chunks.enumerate() {
        let mut source = String::new();
        for number in numbers {
            let renamed = all[*number]
                .1
                .replace(&format!("{entry}("), &format!("{entry}_{number}("))
                .replace("least(", &format!("least_of_program_{number}("))
                .replace("most(", &format!("most_of_program_{number}("))
                .replace("ceiling(", &format!("ceiling_of_program_{number}("))
                .replace("floored(", &format!("floored_of_program_{number}("));
            source.push_str(&renamed);
        }
        let path = folder.path().join(format!("programs_{chunk}.c"));
        std::fs::write(&path, source).unwrap();
        let object = path.with_extension("o");
        let out = object.to_str().unwrap().to_owned();
        let flags = [
            "-march=native",
            "-fopenmp",
            "-Wall",
            "-Werror",
            "-Wno-unknown-pragmas",
            "-Wno-unused-function",
            "-c",
            "-o",
            &out,
        ];
        gcc(&[level, &flags[..]].concat(), &[path]);
        objects.push(object);
    }
    let driver = {
        let mut sizes = sizes(problem, rng);
        match compared {
            Compared::Roughly => sizes.extend(closing_size(problem, rng)),
            Compared::ByBound => sizes.push(problem.timed.clone()),
        }
        Driver::new(problem, compared).finish(all.len(), &sizes)
    };
    let path = folder.path().join("driver.c");
    std::fs::write(&path, driver).unwrap();
    let binary = folder.path().join("driver");
    let out = binary.to_str().unwrap().to_owned();
    objects.insert(0, path);
    objects.push("-lm".into());
    // The driver calls every program at every size, so it is long; it computes much only at timed sizes.
    let level = match compared {
        Compared::Roughly => "-O0",
        Compared::ByBound => "-O1",
    };
    gcc(
        &[level, "-march=native", "-fopenmp", "-w", "-o", &out],
        &objects,
    );
    let output = Command::new(&binary).output().expect("the driver runs");
    let wrong = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = wrong.lines().next().and_then(|l| l.parse::<usize>().ok());
    if let Some(first) = first {
        panic!(
            "{name}: program {first} is wrong: {:?}\n{}",
            all[first].0, all[first].1
        );
    }
    assert!(output.status.success(), "{name}: {:?}", output.status);
    let coarse = wrong.lines().find_map(|l| l.strip_prefix("coarse "));
    let coarse: f64 = coarse.and_then(|share| share.parse().ok()).unwrap();
    let scaled = matches!(problem.bound, ErrorBound::Scaled { .. });
    assert!(
        compared == Compared::Roughly || !scaled || coarse > 1.0,
        "{name}: half of the digits err by {coarse} of the bound at the timed size\n{}",
        problem.reference_source
    );
    eprintln!("{name}: {} programs are right ({coarse:.0})", all.len());
}

/// Products, and what moves elements.
const PRODUCTS: [&str; 9] = [
    "dgemm",
    "dgemv",
    "dot",
    "dsyrk",
    "dtrsm",
    "transpose",
    "batched_dgemm",
    "conv2d",
    "stencil3d",
];
/// Loops whose bounds or order follow from other loops.
const FACTORIZATIONS: [&str; 5] = ["cholesky", "lu", "stencil2d", "layernorm", "floyd_warshall"];
/// Single precision, several results of one loop, and values that call functions.
const CALLS: [&str; 4] = ["sgemm", "nbody", "softmax", "black_scholes"];

#[test]
fn programs_of_products_are_right() {
    let is_wide = |schedule: &Schedule| {
        let mut tiles = schedule.groups.iter().flat_map(|group| &group.tiles);
        tiles.any(|tile| *tile == WIDE_TILE)
    };
    let mut wide = 0;
    for name in PRODUCTS {
        wide += check(name).iter().filter(|s| is_wide(s)).count();
    }
    assert!(wide > 0, "no program has tiles of {WIDE_TILE}");
}

#[test]
fn programs_of_factorizations_are_right() {
    for name in FACTORIZATIONS {
        check(name);
    }
}

#[test]
fn programs_of_sums_and_calls_are_right() {
    for name in CALLS {
        check(name);
    }
}

/// An affine problem that no list names would have programs that nothing compares with its reference.
#[test]
fn every_affine_problem_outside_suites_is_in_a_list() {
    let mut affine = Vec::new();
    for folder in flopsmith_test_support::shipped::problems() {
        let problem = Problem::load(&folder).expect("a shipped problem is sound");
        // The search varies a template where there is one.
        let own = problem.suite.is_none() && problem.template.is_none();
        if own && read::read(&problem).is_ok() {
            affine.push(problem.id.to_string());
        }
    }
    let mut listed = [&PRODUCTS[..], &FACTORIZATIONS, &CALLS].concat();
    affine.sort_unstable();
    listed.sort_unstable();
    assert_eq!(affine, listed);
}

/// Programs of time loops are drawn in skewed orders, among them orders that dependences forbid without the skew.
#[test]
fn skewed_programs_are_drawn_and_are_right() {
    let mut needed = 0;
    for name in [
        "polybench/polybench_jacobi_1d",
        "polybench/polybench_seidel_2d",
        "stencil2d",
    ] {
        let problem = load(name);
        let space = space_of(&problem);
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let (all, of_these) = programs_skewed(&space, &mut rng);
        assert!(all.len() >= 2, "{name}: only {} skewed programs", all.len());
        check_programs(&problem, &all, Compared::Roughly, &mut rng);
        eprintln!("{name}: {of_these} of {} need their skew", all.len());
        needed += of_these;
    }
    assert!(
        needed > 0,
        "no program has an order that only its skew permits"
    );
}

#[test]
fn programs_of_polybench_are_right() {
    let suite = problems().join("polybench");
    let mut names: Vec<String> = std::fs::read_dir(&suite)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut affine = Vec::new();
    for name in &names {
        let name = format!("polybench/{name}");
        match read::read(&load(&name)) {
            Ok(_) => affine.push(name),
            Err(why) => eprintln!("{name} is not affine: {why}"),
        }
    }
    let read = affine.len();
    eprintln!("{read} of {} are affine loop nests", names.len());
    assert!(read >= 25, "{read}");
    for name in Part::of_commit(SUITE).of(&affine) {
        check(name);
    }
}

/// The bounds of random problems hold for programs of their schedule spaces, and refuse half of the digits.
#[test]
fn programs_of_random_problems_are_right() {
    for seed in 0..number("FLOPSMITH_NEST_RANDOM").unwrap_or(RANDOM) {
        let files = random::problem(seed).unwrap();
        let problem = Problem::from_files(files).expect("a random problem is sound");
        check_problem(&problem, RANDOM_PROGRAMS, Compared::ByBound);
    }
}

#[test]
fn programs_with_tiles_of_two_levels_are_right() {
    let wanted = number("FLOPSMITH_NEST_PROGRAMS").unwrap_or(TILED_TWICE);
    for name in ["dgemm", "transpose", "dsyrk", "stencil3d"] {
        let problem = load(name);
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let all = programs_tiled_twice(&space_of(&problem), &mut rng, wanted);
        assert!(all.len() >= 2, "{name}: only {} programs", all.len());
        check_programs(&problem, &all, Compared::Roughly, &mut rng);
    }
}

/// Dependences of a random nest may forbid all tiles, but those of most nests do not.
#[test]
fn programs_of_random_problems_with_tiles_of_two_levels_are_right() {
    let mut count = 0;
    let problems = number("FLOPSMITH_NEST_RANDOM").unwrap_or(RANDOM);
    for seed in 0..problems {
        let files = random::problem(seed).unwrap();
        let problem = Problem::from_files(files).expect("a random problem is sound");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let all = programs_tiled_twice(&space_of(&problem), &mut rng, RANDOM_PROGRAMS);
        if !all.is_empty() {
            check_programs(&problem, &all, Compared::ByBound, &mut rng);
        }
        count += all.len() as u64;
    }
    assert!(count >= problems, "{count} programs of {problems} problems");
}
