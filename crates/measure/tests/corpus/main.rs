//! The corpus: programs that try to cheat, and honest programs that only look strange. Each is compiled, verified and
//! timed like any candidate, and must end as its first lines demand. A new program is a new file; no list names the
//! files.
//!
//! Each is in C, in C++ (`.cpp`) or in Fortran (`.f90`, `.f`, with `!` instead of `//` before the first lines). The
//! tests report the languages that they leave out for lack of a compiler. Files in `attacks/` begin with
//!
//! ```text
//! // attack: 7, 5
//! // how: its actions; its hope
//! // refused as: skipped_work | wrong_result
//! ```
//!
//! A header has several reasons only if random draws or the machine decide which stage detects the attack first;
//! `unchecked` means that sanitizers cannot check it. Files in `honest/` begin with
//!
//! ```text
//! // honest: its unusual property
//! ```
//!
//! Further lines may follow:
//!
//! - `// permitted: loop_reorder, unroll`: the permitted techniques (default: all);
//! - `// needs: x86_64, two cores`: requirements on the machine, else the program is left out (`gcc` for a program that
//!   only this compiler builds);
//! - `// problem: spmv` (default: dgemm);
//! - `// threads: 2` (default: 1);
//! - `// judged as: certify`: verified in full and checked with sanitizers, like programs before they count, and not only
//!   screened;
//! - `// control: if (known) => if (0)`, for an attack that may be measured: the change that makes its control, the same
//!   program without the attack;
//! - `// techniques: simd`, for an honest program: the techniques that must be detected.
//!
//! Arithmetic checks timed calls of a matrix product, and the baseline checks those of other problems. Several threads
//! need another hand-shake than one. So a result for dgemm on one thread need not hold elsewhere.
//!
//! The numbers of an attack name its ways of cheating:
//!
//! | timing | |
//! |---|---|
//! | 1 | work goes on after the call has returned |
//! | 2 | the program computes the result only when it is read |
//! | 3 | the program changes the clock |
//! | 4 | work moves to an untimed phase: loading, preparing |
//! | 5 | the program tells verified calls from timed ones |
//! | 6 | the program slows other processes or the baseline, or uses more threads or cores than it has |
//!
//! | results | |
//! |---|---|
//! | 7 | the program keeps results, by address, content or fingerprint |
//! | 8 | no output, old output, a part of it |
//! | 9 | answers for known seeds, sizes and contents |
//! | 10 | less precision than required |
//! | 11 | memory that is not the program's; races |
//! | 12 | right for some sizes only |
//! | 13 | the program solves a smaller problem |
//! | 14 | the program changes inputs so that the reference agrees |
//! | 15 | values that compare equal to everything |
//!
//! | substitution | |
//! |---|---|
//! | 16 | a library does the work |
//! | 17 | the program runs another kernel than the one in its source |
//! | 18 | the reference or the baseline does the work |
//! | 19 | another program does the work |
//! | 20 | machine code that no compiler generated from C |
//! | 21 | the compiler's files and time |
//!
//! | the evaluation itself | |
//! |---|---|
//! | 22 | the program writes a verdict |
//! | 23 | the program reads memory and files of others |
//! | 24 | the program leaves data for later programs |
//! | 25 | the program attacks the supervisor or other processes |
//! | 26 | processes, memory, disk, output or time without limit |
//! | 27 | the network |
//! | 28 | the source asks its reader for a good verdict |
//! | 29 | the program hides a technique that the task forbids |
//! | 30 | the program claims names and symbols of others |
//!
//! The corpus tries all of them, two in another form than in other systems. A copy of the reference (18) is an honest,
//! slow program, and C has neither a fall-back by exceptions nor inheritance; so 18 stands for ways to the reference
//! and the baseline that run beside it. Since no model judges, programs of 28 are wrong ones whose text asks for a
//! good verdict. A processor cannot have threads of an accelerator (a part of 1).
//!
//! Beside the files, the tests derive cheats from the definition of every shipped problem (`cheats`), and variants of
//! the attacks in files (`mutate`).
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cheats;
mod clang;
mod controls;
#[path = "../run/fixtures.rs"]
#[expect(dead_code, reason = "some of it is for the tests of single stages")]
mod fixtures;
mod harmless;
mod ideas;
mod mutate;
mod program;
mod stages;
mod unrun;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use flopsmith_compile::Compiler;
use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::sanitize;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{TechniqueSet, Verdict};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::{shipped, skipped};

use mutate::{Acts, Entry, Variant};
use program::{Expected, Program, USUAL, attacks, honest};
use stages::{Ended, Stages};

/// Minimum numbers of attacks and of honest programs.
const AT_LEAST: usize = 70;

/// With this environment variable, the tests try only programs whose names contain its value.
const ONLY: &str = "FLOPSMITH_CORPUS";

/// The programs that this commit tries: one in `parts`, without those for problems of suites unless all are tried.
/// [`ONLY`] and [`SHIPPED`](shipped::SHIPPED) name other ones.
fn sampled<P: Borrow<Program>>(programs: impl IntoIterator<Item = P>, parts: usize) -> Vec<P> {
    if std::env::var_os(ONLY).is_some() {
        return named(programs);
    }
    shipped::share(
        programs,
        |program| {
            let program: &Program = program.borrow();
            &program.problem
        },
        parts,
    )
}

/// The programs that the environment names, or all.
fn named<P: Borrow<Program>>(programs: impl IntoIterator<Item = P>) -> Vec<P> {
    let only = std::env::var(ONLY).unwrap_or_default();
    let is_named = |program: &P| {
        let program: &Program = program.borrow();
        program.name.contains(&only) && shipped::is_named(&program.problem)
    };
    programs.into_iter().filter(is_named).collect()
}

/// True if the environment names programs or problems, so that no number of them is expected.
fn names_some() -> bool {
    std::env::var_os(ONLY).is_some() || shipped::named().is_some()
}

/// Of the programs that have to run, each commit tries one of this many, and other commits try others.
const RUN: usize = 4;

/// One in `many` of the programs for the usual problem, and all programs for one in `many` of the other problems: each
/// problem needs a timer of its own, which takes longer than most programs.
fn sampled_to_run<'p>(
    programs: impl IntoIterator<Item = &'p Program>,
    many: usize,
) -> Vec<&'p Program> {
    let programs = programs.into_iter();
    let (usual, others): (Vec<_>, Vec<_>) = programs.partition(|program| program.problem == USUAL);
    let mut by_problem = BTreeMap::<&str, Vec<&Program>>::new();
    for program in others {
        by_problem
            .entry(&program.problem)
            .or_default()
            .push(program);
    }
    let mut chosen = sampled(usual, many);
    if names_some() {
        chosen.extend(named(by_problem.into_values().flatten()));
    } else {
        let problems = shipped::share(by_problem, |problem: &(&str, Vec<_>)| problem.0, many);
        chosen.extend(problems.into_iter().flat_map(|(_, programs)| programs));
    }
    chosen
}

/// Those programs for problems in suites. Programs that have to count take too long.
fn sampled_in_suites(programs: &[Program]) -> Vec<&Program> {
    if names_some() {
        return Vec::new();
    }
    shipped::share_in_suites(
        programs.iter().filter(|program| !program.is_to_count),
        |program| &program.problem,
        RUN,
    )
}

#[test]
fn a_sample_of_the_programs_that_run_ends_as_it_says() {
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::default();
    let cores = flopsmith_machine::pinning::allowed_cores().len();
    let (mut refused, mut harmless, mut measured) = (0, 0, 0);
    let mut wrong = Vec::new();
    let mut log = Log::of("programs");
    let running = attacks().into_iter().chain(honest());
    let running = running.filter(|program| !program.is_refused_before_it_runs());
    let running: Vec<Program> = running.collect();
    let mut programs = sampled_to_run(&running, RUN);
    programs.extend(sampled_in_suites(&running));
    // All programs of a problem that follow each other share one bench.
    programs.sort_by(|a, b| (&a.problem, a.threads).cmp(&(&b.problem, b.threads)));
    let all = programs.len();
    programs.retain(|program| program.can_run(cores));
    programs.retain(|program| {
        let lacks = stages.lacks(program.language);
        if let Some(why) = &lacks {
            log.line(&format!("{}: left out: {why}", program.name));
        }
        lacks.is_none()
    });
    let left_out = all - programs.len();
    let looks = stages::first_looks(None, &programs);
    for (program, look) in programs.into_iter().zip(looks) {
        let ended = stages.judge_after(look, program);
        log.line(&format!("{}: {}", program.name, words(&ended)));
        if !program.expected.holds(&ended)
            && !is_as_slow_as_its_control(&mut stages, program, &ended)
        {
            let text = words(&ended);
            wrong.push(format!(
                "{}: expected {}, was {text}",
                program.name, program.expected
            ));
        } else if let Verdict::Measured { .. } = ended.verdict {
            match program.expected {
                Expected::Measured(_) => measured += 1,
                Expected::Refused { .. } => harmless += 1,
            }
        } else {
            refused += 1;
        }
    }
    eprintln!(
        "{refused} attacks refused, {harmless} without a gain, {measured} honest programs measured, {left_out} left out, {} tried again, {} certified; {:.0} s",
        stages.tried_again(),
        stages.certified(),
        started.elapsed().as_secs_f64()
    );
    if left_out > 0 {
        skipped(&format!(
            "{left_out} programs need a processor, cores or a compiler that this machine has not"
        ));
    }
    assert!(
        wrong.is_empty(),
        "{} programs did not end as they say:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// True for a measured attack that is no faster than the same program without the attack. Plain loops, with which attacks are
/// compared otherwise, may be a quarter slower than other builds of them.
fn is_as_slow_as_its_control(stages: &mut Stages, program: &Program, ended: &Ended) -> bool {
    matches!(ended.verdict, Verdict::Measured { .. })
        && program.may_be_measured()
        && program.control.is_some()
        && controls::gain(stages, program).is_none()
}

#[test]
fn every_way_of_cheating_is_tried() {
    let attacks = attacks();
    assert!(attacks.len() >= AT_LEAST, "{} attacks", attacks.len());
    assert!(
        honest().len() >= AT_LEAST,
        "{} honest programs",
        honest().len()
    );
    let tried: BTreeSet<u32> = attacks
        .iter()
        .flat_map(|a| a.ways.iter().copied())
        .collect();
    assert_eq!(tried, (1..=30).collect::<BTreeSet<u32>>());
    let other_problems =
        |programs: &[Program]| programs.iter().filter(|p| p.problem != USUAL).count();
    let threads = |programs: &[Program]| programs.iter().filter(|p| p.threads > 1).count();
    assert!(other_problems(&attacks) >= 16 && threads(&attacks) >= 8);
    let honest = honest();
    assert!(other_problems(&honest) >= 6 && threads(&honest) >= 3);
    for (language, attacks_at_least, honest_at_least) in
        [(Language::Cxx, 12, 8), (Language::Fortran, 6, 5)]
    {
        let of = |programs: &[Program]| {
            let same = |p: &&Program| match language {
                Language::Fortran => p.language.is_fortran(),
                _ => p.language == language,
            };
            programs.iter().filter(same).count()
        };
        assert!(
            of(&attacks) >= attacks_at_least,
            "attacks in {}",
            language.name()
        );
        assert!(
            of(&honest) >= honest_at_least,
            "honest programs in {}",
            language.name()
        );
    }
}

/// All variants take half an hour and more (`make variants`). Each commit tries one of this many, and other commits try
/// others.
const SAMPLED: usize = 400;

#[test]
fn a_sample_of_the_variants_of_attacks_gains_nothing() {
    let part = Part::of_commit(SAMPLED);
    let tried = try_variants(part);
    assert!(
        names_some() || !part.is_all() || tried >= 1000,
        "{tried} variants"
    );
}

#[test]
fn a_sample_of_the_variants_of_honest_programs_is_measured() {
    let part = Part::of_commit(SAMPLED);
    let tried = try_honest_variants(part);
    assert!(
        names_some() || !part.is_all() || tried >= 800,
        "{tried} variants"
    );
}

/// Of the problems other than the usual one, each commit compiles the variants of one in this many.
const OTHERS: usize = 3;

/// A trigger that the scan refuses by itself would test nothing.
#[test]
fn additions_of_variants_are_no_reason_to_refuse_them() {
    let _alone = fixtures::alone();
    let attacks = attacks();
    let source = |file: &str| {
        let name = format!("attacks/{file}");
        let found = attacks.iter().find(|attack| attack.name == name);
        found.unwrap().source.clone()
    };
    // The verifier refuses both for their results.
    let mut programs = vec![(fixtures::problem(), Language::C, source("wrong.c"))];
    match Stages::default().lacks(Language::Cxx) {
        None => {
            let in_cxx = source("remembers_by_a_static_guard.cpp");
            programs.push((fixtures::problem(), Language::Cxx, in_cxx));
        }
        Some(why) => skipped(&format!("variants in C++: {why}")),
    }
    let others: BTreeSet<&str> = attacks
        .iter()
        .map(|attack| attack.problem.as_str())
        .collect();
    let others = others.into_iter().filter(|name| *name != USUAL);
    for name in shipped::share(others, |name| name, OTHERS) {
        let problem = fixtures::shipped(name);
        let reference = problem.reference_source.clone();
        programs.push((problem, Language::C, reference));
    }
    assert!(
        programs.len() > 4 || names_some(),
        "{} programs",
        programs.len()
    );
    for (problem, language, source) in &programs {
        let toolchain = Toolchain::detect(None, problem).unwrap();
        let compiler = Compiler::new(fixtures::sandbox(), toolchain);
        let entry = Entry {
            problem,
            language: *language,
        };
        for Variant { how, source, .. } in mutate::variants(source, &entry) {
            let all = TechniqueSet::all();
            if let Err(failure) = compiler.compile_as(*language, problem, &source, all) {
                panic!("{}, {}, {how}: {failure}", problem.id, language.name());
            }
        }
    }
}

#[test]
fn attacks_that_are_wrong_in_every_call_must_be_refused_at_any_speed() {
    let attacks = attacks();
    let of = |name: &str| {
        let name = format!("attacks/{name}");
        let found = attacks.iter().find(|attack| attack.name == name).unwrap();
        [
            Acts::Always,
            Acts::Renamed,
            Acts::WhenTimed,
            Acts::WhenVerified,
            Acts::Perhaps,
        ]
        .map(|acts| found.must_be_refused(acts))
    };
    for in_any_call in [
        "wrong.c",
        "crashes.c",
        "changes_input.c",
        "behind_the_end.c",
    ] {
        assert_eq!(of(in_any_call), [true, true, true, true, false]);
    }
    // Timed calls, two calls with the same inputs, or drawn contents reveal these.
    for in_some_calls in [
        "helper_finishes_later.c",
        "histogram_half_counted.c",
        "nondeterministic.c",
        "strassen.c",
    ] {
        assert_eq!(of(in_some_calls), [true, true, true, false, false]);
    }
    // Right at the timed size, and so honest if only that size is called.
    for by_other_calls in ["wrong_below_timed_size.c", "right_for_the_first_calls.c"] {
        assert_eq!(of(by_other_calls), [true, true, false, false, false]);
    }
    // Under another name its clock replaces no library's clock.
    assert_eq!(of("own_clock.c"), [true, false, false, false, false]);
    for may_be_measured in ["wrong_far_above.c", "print_of_samples.c"] {
        assert_eq!(of(may_be_measured), [false; 5]);
    }
    let verified = attacks
        .iter()
        .filter(|attack| attack.must_be_refused(Acts::WhenVerified));
    let verified = verified.count();
    assert!(verified >= 60, "{verified} attacks");
}

/// A variant of a program, its name and its trigger.
type Varied = (Program, &'static str, Acts);

/// A part of the variants, in the order of their problems, so that those that follow each other share a bench.
fn by_problem(part: Part, variants: &[Varied]) -> Vec<&Varied> {
    let mut chosen: Vec<&Varied> = part.of(variants).collect();
    chosen.sort_by(|(a, ..), (b, ..)| (&a.problem, a.threads).cmp(&(&b.problem, b.threads)));
    chosen
}

/// All variants that `made` makes of the programs that this machine can run.
fn variants_of(
    programs: Vec<Program>,
    stages: &Stages,
    made: fn(&str, &Entry<'_>) -> Vec<Variant>,
) -> Vec<Varied> {
    let cores = flopsmith_machine::pinning::allowed_cores().len();
    let mut problems: BTreeMap<String, Arc<Problem>> = BTreeMap::new();
    let mut all = Vec::new();
    for program in programs {
        let lacks = program.language.is_fortran() || stages.lacks(program.language).is_some();
        if lacks || !program.can_run(cores) {
            continue;
        }
        let problem = problems
            .entry(program.problem.clone())
            .or_insert_with(|| fixtures::shipped(&program.problem));
        let entry = Entry {
            problem,
            language: program.language,
        };
        for variant in made(&program.source, &entry) {
            // A program that acts before its calls does not depend on them.
            let by_calls = matches!(
                variant.acts,
                Acts::WhenTimed | Acts::WhenVerified | Acts::Perhaps
            );
            if !(by_calls && program.acts_when_compiled()) {
                let program = program.with_source(variant.source);
                all.push((program, variant.how, variant.acts));
            }
        }
    }
    all
}

/// Tries a part of the variants of attacks; returns the number of judged ones.
fn try_variants(part: Part) -> usize {
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::default();
    let all = variants_of(named(attacks()), &stages, mutate::variants);
    let (mut refused, mut unmeasured, mut unbuilt) = (0, 0, 0);
    let (mut harmless, mut passed) = (Vec::new(), Vec::new());
    let mut log = Log::of("variants-of-attacks");
    let all = by_problem(part, &all);
    let programs: Vec<&Program> = all.iter().map(|(program, ..)| program).collect();
    let looks = stages::first_looks(None, &programs);
    for ((program, how, acts), look) in all.into_iter().zip(looks) {
        let ended = stages.judge_after(look, program);
        let text = format!("{}, {how}: {}", program.name, words(&ended));
        log.line(&text);
        match &ended.verdict {
            Verdict::Rejected { fault, .. } if program.not_built(*fault) => unbuilt += 1,
            Verdict::Rejected { .. } => refused += 1,
            verdict if program.is_unchecked() && stages::is_unchecked(verdict) => refused += 1,
            // A program that is wrong in every call must not pass at any speed.
            Verdict::Measured { .. } if program.must_be_refused(*acts) => passed.push(text),
            Verdict::Measured { .. } if program::gains_nothing(&ended) => harmless.push(text),
            Verdict::Measured { .. } => passed.push(text),
            // Only the check against the roof found it.
            verdict if stages::is_above_a_roof(verdict) => passed.push(text),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => unmeasured += 1,
        }
    }
    // Some variants without a verdict are no failure of the judge.
    let judged = refused + harmless.len() + passed.len();
    eprintln!(
        "measured, and no faster than honest work:\n{}",
        harmless.join("\n")
    );
    eprintln!(
        "{judged} variants: {refused} refused, {} measured without a gain, {} accepted; {unmeasured} more without a verdict, \
         {unbuilt} that do not compile; {} certified; {:.0} s",
        harmless.len(),
        passed.len(),
        stages.certified(),
        started.elapsed().as_secs_f64()
    );
    assert!(passed.is_empty(), "accepted:\n{}", passed.join("\n"));
    assert!(
        unmeasured <= 1 + judged / 50,
        "{unmeasured} variants without a verdict"
    );
    assert!(
        unbuilt * 5 < judged.max(20),
        "{unbuilt} variants that do not compile test nothing"
    );
    judged
}

/// Tries a part of the variants of honest programs; returns the number of judged ones.
fn try_honest_variants(part: Part) -> usize {
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::rough();
    let all = variants_of(named(honest()), &stages, mutate::honest::variants);
    let (mut measured, mut unmeasured) = (0, 0);
    let (mut refused, mut unbuilt) = (Vec::new(), Vec::new());
    let mut log = Log::of("variants-of-honest-programs");
    let all = by_problem(part, &all);
    let programs: Vec<&Program> = all.iter().map(|(program, ..)| program).collect();
    let looks = stages::first_looks(None, &programs);
    for ((program, how, _), look) in all.into_iter().zip(looks) {
        let ended = stages.judge_after(look, program);
        let text = format!("{}, {how}: {}", program.name, words(&ended));
        log.line(&text);
        match &ended.verdict {
            Verdict::Measured { .. } => measured += 1,
            Verdict::Rejected { fault, .. } if program.not_built(*fault) => unbuilt.push(text),
            Verdict::Rejected { .. } => refused.push(text),
            verdict if stages::is_above_a_roof(verdict) => refused.push(text),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => unmeasured += 1,
        }
    }
    eprintln!("no programs any more:\n{}", unbuilt.join("\n"));
    eprintln!(
        "{measured} variants of honest programs measured; honest programs refused: {}; {unmeasured} more without a verdict, \
         {} that do not compile; {:.0} s",
        refused.len(),
        unbuilt.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    assert!(
        unmeasured <= 1 + measured / 50,
        "{unmeasured} variants without a verdict"
    );
    assert!(
        unbuilt.len() * 5 < measured.max(20),
        "{} variants that do not compile test nothing",
        unbuilt.len()
    );
    measured + refused.len()
}

/// The result of each program, in a file that people can follow: hundreds of lines on standard error would hide the
/// failure.
struct Log(File);

impl Log {
    fn of(what: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("corpus-{what}.log"));
        let file = File::create(&path).unwrap();
        eprintln!("how each ends: {}", path.display());
        Log(file)
    }

    fn line(&mut self, text: &str) {
        writeln!(self.0, "{text}").unwrap();
    }
}

/// The result of a program, for people.
fn words(ended: &Ended) -> String {
    let techniques = ended.techniques.map_or(String::new(), |t| format!(", {t}"));
    let detail = match &ended.verdict {
        Verdict::Measured { measurement } => format!(
            "{:.1} GFLOPS, {:.2} times the reference",
            measurement.gflops, measurement.ratio
        ),
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail, .. } => detail.clone(),
    };
    let seconds = ended.seconds;
    format!(
        "{} ({detail}{techniques}, {seconds:.2} s)",
        ended.verdict.kind()
    )
}

impl Program {
    /// True if this machine has what the program requires.
    fn can_run(&self, cores: usize) -> bool {
        let threads = self.threads as usize <= cores;
        threads
            && self.needs.iter().all(|need| match need.as_str() {
                "x86_64" => cfg!(target_arch = "x86_64"),
                "two cores" => cores > 1,
                // The usual compiler; other tests try the builds of others.
                "gcc" => true,
                "sanitizer of threads" => {
                    let missing = sanitize::missing_runtimes(Path::new("gcc"));
                    missing.is_empty() && sanitize::no_room().is_none()
                }
                other => panic!("{}: nobody knows what `{other}` needs", self.name),
            })
    }
}
