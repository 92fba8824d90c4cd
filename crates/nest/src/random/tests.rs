//! Properties of the problems of many seeds; `FLOPSMITH_NEST_SEEDS` sets another number of them.

use std::collections::BTreeSet;

use flopsmith_problem::{ArgKind, Element, Finding, Problem, Role, check};
use flopsmith_protocol::TechniqueSet;

use super::*;
use crate::generate::Space;
use crate::{read, space};

/// Seeds that a test tries.
const SEEDS: u64 = 150;
/// Schedules that are drawn of a nest until two programs differ.
const SCHEDULES: usize = 40;

fn seeds() -> std::ops::Range<u64> {
    let named = std::env::var("FLOPSMITH_NEST_SEEDS").ok();
    0..named.and_then(|n| n.parse().ok()).unwrap_or(SEEDS)
}

fn files(seed: u64) -> ProblemFiles {
    problem(seed).expect("the name is an id")
}

fn load(seed: u64) -> Problem {
    let files = files(seed);
    let shown = format!("{}\n{}", files.definition, files.reference);
    Problem::from_files(files).unwrap_or_else(|e| unreachable!("{e}\n{shown}"))
}

#[test]
fn every_problem_is_sound_and_has_several_programs() {
    let mut alone = Vec::new();
    for seed in seeds() {
        let problem = load(seed);
        let source = &problem.reference_source;
        assert_eq!(problem.entry.name, "nest");
        assert_eq!(problem.suite.as_deref(), Some("random"));
        let wrong: Vec<Finding> = check(&problem)
            .into_iter()
            .filter(Finding::is_error)
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{}", problem.definition);
        let program = read::read(&problem).unwrap_or_else(|e| unreachable!("{e}\n{source}"));
        let space = Space::new(program);
        let plain = space.render(&space.plain());
        let plain = plain.unwrap_or_else(|e| unreachable!("{e}\n{source}"));
        assert!(plain.text.len() < problem.max_source_bytes, "{source}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let several = (0..SCHEDULES).any(|_| {
            let schedule = space::draw(&space, problem.techniques, &mut rng);
            space.render(&schedule).is_ok_and(|r| r.text != plain.text)
        });
        if !several {
            alone.push(seed);
        }
    }
    assert!(alone.is_empty(), "one program only for {alone:?}");
}

#[test]
fn a_folder_of_the_files_is_the_same_problem() {
    let place = tempfile::tempdir().expect("a folder");
    for seed in [0, 1, u64::MAX] {
        let files = files(seed);
        let folder = place.path().join(files.id.as_str());
        std::fs::create_dir(&folder).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect(name);
        write("problem.toml", &files.definition);
        write("reference.c", &files.reference);
        if let Some(magnitude) = &files.magnitude {
            write("magnitude.c", magnitude);
        }
        let loaded = Problem::load(&folder).expect("a sound problem");
        assert_eq!(loaded.digest, load(seed).digest);
    }
}

#[test]
fn a_seed_gives_the_same_bytes_and_other_seeds_give_other_nests() {
    let mut seen = BTreeSet::new();
    for seed in seeds() {
        let first = files(seed);
        assert_eq!(first, files(seed));
        seen.insert(first.reference.replace(&name(seed), "f"));
    }
    let (different, all) = (seen.len() as u64, seeds().end);
    assert!(different * 100 >= all * 95, "{different} of {all}");
}

/// A kind of nest, and whether a problem is of that kind.
type Kind = (&'static str, fn(&Problem) -> bool);

/// Nests of all kinds occur, and none of them is rare.
#[test]
fn nests_are_of_many_kinds() {
    let kinds: [Kind; 14] = [
        ("doubles", |p| elements(p).contains(&Some(Element::F64))),
        ("floats", |p| elements(p).contains(&Some(Element::F32))),
        ("integers", |p| elements(p).contains(&Some(Element::I32))),
        ("scalars", |p| elements(p).contains(&None)),
        ("arrays in place", |p| has_role(p, Role::InOut)),
        ("sums in a local number", |p| {
            p.reference_source.contains("double ") && p.reference_source.contains(" = 0;\n")
        }),
        ("triangles", |p| p.reference_source.contains(" <= ")),
        ("stencils", |p| p.definition.contains("+2\"")),
        ("windows", |p| p.definition.contains("-1\"")),
        ("graded inputs", |p| p.definition.contains("graded = true")),
        ("one loop", |p| most_iterators(p) == 1),
        ("three loops", |p| most_iterators(p) == 3),
        ("three statements", |p| {
            p.prompt_text
                .as_ref()
                .is_some_and(|t| t.matches(" for all ").count() == 3)
        }),
        ("three parameters", |p| p.timed.len() == 3),
    ];
    let problems: Vec<Problem> = (0..300).map(load).collect();
    for (what, holds) in kinds {
        let count = problems.iter().filter(|p| holds(p)).count();
        assert!(count >= 6, "{what}: {count} of {}", problems.len());
    }
}

/// The elements of all arrays; none stands for a scalar.
fn elements(problem: &Problem) -> Vec<Option<Element>> {
    let kinds = problem.entry.args.iter().filter_map(|arg| match &arg.kind {
        ArgKind::Int { .. } => None,
        ArgKind::Scalar { .. } => Some(None),
        ArgKind::Array { element, .. } => Some(Some(*element)),
    });
    kinds.collect()
}

fn has_role(problem: &Problem, wanted: Role) -> bool {
    let mut args = problem.entry.args.iter();
    args.any(|arg| matches!(&arg.kind, ArgKind::Array { role, .. } if *role == wanted))
}

fn most_iterators(problem: &Problem) -> usize {
    let program = read::read(problem).expect("it is affine");
    let each = program.statements.iter().map(|s| s.iterators.len());
    each.max().unwrap_or(0)
}

#[test]
fn schedules_within_no_technique_exist() {
    for seed in 0..20 {
        let problem = load(seed);
        let space = Space::new(read::read(&problem).expect("it is affine"));
        let rendered = space.render(&space.plain()).expect("the plain order");
        let techniques = crate::labels::techniques(&space, &rendered);
        assert_eq!(
            techniques,
            TechniqueSet::EMPTY,
            "{}",
            problem.reference_source
        );
    }
}

/// C = A·B, and then the sum of squares of each row of C.
fn chain() -> model::Nest {
    use super::model::{
        Access, Array, Extent, Loop, More, Nest, Size, Statement, Style, Subscript, Term, Update,
    };
    let size = |name| Size {
        name,
        window: false,
        cap: 100,
        even: 64,
        odd: 51,
        most: 80,
    };
    let array = |name, role, sizes: &[usize]| {
        let extents = sizes.iter().map(|size| Extent {
            size: *size,
            more: More::Nothing,
        });
        Array {
            name,
            role,
            extents: extents.collect(),
            graded: false,
        }
    };
    let access = |array, loops: &[usize]| Access {
        array,
        subscripts: loops.iter().map(|l| Subscript::of(*l)).collect(),
    };
    let read = |array, loops: &[usize]| Term::Read(access(array, loops));
    let statement = |sizes: &[usize], target: Access, value: Term| Statement {
        loops: sizes
            .iter()
            .map(|size| Loop {
                size: *size,
                up_to: None,
            })
            .collect(),
        sums: 1,
        shares: false,
        target,
        update: Update::Set,
        whole: None,
        style: Style::Memory,
        value,
    };
    let product = read(0, &[0, 2]).times(read(1, &[2, 1]));
    let square = read(2, &[0, 1]).times(read(2, &[0, 1]));
    Nest {
        element: Element::F64,
        sizes: ["n", "m", "p"].map(size).into(),
        iterators: ["i", "j", "k", "l"],
        local: "sum",
        scalars: Vec::new(),
        arrays: vec![
            array("A", Role::Input, &[0, 2]),
            array("B", Role::Input, &[2, 1]),
            array("C", Role::Output, &[0, 1]),
            array("y", Role::Output, &[0]),
        ],
        statements: vec![
            statement(&[0, 1, 2], access(2, &[0, 1]), product),
            statement(&[0, 1], access(3, &[0]), square),
        ],
    }
}

/// Each product adds a rounding and each sum its terms under the root; a square has the errors of its factor twice.
#[test]
fn the_bound_counts_the_operations_on_the_way_to_an_element() {
    let nest = chain();
    let definition = definition::definition(&nest, "f", 0);
    for part in [
        "c = 4.0\noperations = \"3+sqrt(m+2*p)\"",
        "Each element of C and y must be within 4·(3+√(m+2·p))·eps",
        "C[i][j] = (sum over k < p of A[i][k]·B[k][j]) for all i < n, j < m;\n",
        "work = \"2*n*m*p+2*n*m\"\nbytes = \"8*(n*p+p*m+n*m+n)\"",
    ] {
        assert!(definition.contains(part), "{part}\n{definition}");
    }
    let reference = text::reference(&nest, "f");
    assert!(
        reference.contains("C[i * m + j] += A[i * p + k] * B[k * m + j];"),
        "{reference}"
    );
    let magnitude = text::magnitude(&nest, "f");
    for part in [
        "sum += fabs(A[i * p + k]) * fabs(B[k * m + j]);",
        "sum += C[i * m + j] * C[i * m + j];",
    ] {
        assert!(magnitude.contains(part), "{part}\n{magnitude}");
    }
    assert!(accuracy::is_moderate(&nest));
}
