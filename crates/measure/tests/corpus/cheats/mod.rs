//! Cheats that the tests derive from the definition of every shipped problem: its own fast kernel behind an entry that
//! skips some calls, or that spoils the result.
//!
//! The attacks in files are designed for one problem each. These exist for every problem, including new ones, whose
//! bounds, sizes and contents no attack in a file covers.

mod form;
mod kinds;
mod sizes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{TechniqueSet, Verdict};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::shipped;

use crate::program::{Expected, Program, honest};
use crate::stages::{Stages, first_looks};
use crate::{Log, fixtures, words};
use form::Form;
use kinds::{CHEATS, Cheat};
use sizes::SIZES;

/// Each commit tries one of this many, and other commits try others; every problem has some.
const SHARE: usize = 4;
/// The same for programs that are right for some sizes only.
const HALF: usize = 2;
/// Minimum number of cheats for each problem.
const OF_EACH: usize = 12;

/// The problems in these folders.
fn loaded(folders: &[PathBuf]) -> Vec<Arc<Problem>> {
    let names = folders.iter().map(|folder| shipped::name(folder));
    names.map(fixtures::shipped).collect()
}

/// All shipped problems.
fn all() -> Vec<Arc<Problem>> {
    loaded(&shipped::problems())
}

/// The problems that this commit tries: all outside suites, and those in suites if all cases are tried.
fn tried() -> Vec<Arc<Problem>> {
    loaded(&shipped::tried(1))
}

/// The cheats of some kinds that make sense for a problem.
fn programs(problem: &Problem, kinds: &[Cheat]) -> Vec<Program> {
    let form = Form::of(problem);
    let sensible = kinds.iter().filter(|c| (c.senseless)(&form).is_none());
    sensible
        .map(|cheat| Program {
            name: format!("{}, {}", problem.id, cheat.name),
            language: Language::C,
            source: (cheat.source)(&form),
            permitted: TechniqueSet::all(),
            needs: Vec::new(),
            problem: problem.id.as_str().to_owned(),
            threads: 1,
            is_to_count: false,
            control: None,
            ways: cheat.ways.iter().copied().collect(),
            expected: if cheat.faults.is_empty() {
                Expected::Measured(None)
            } else {
                Expected::Refused {
                    faults: cheat.faults.to_vec(),
                    harmless: false,
                    unchecked: false,
                    unmeasured: false,
                }
            },
        })
        .collect()
}

#[test]
fn every_problem_has_cheats_and_a_reason_for_each_that_it_lacks() {
    for problem in all() {
        let form = Form::of(&problem);
        let lacks: Vec<(&str, &str)> = CHEATS
            .iter()
            .filter_map(|cheat| (cheat.senseless)(&form).map(|why| (cheat.name, why)))
            .collect();
        assert!(lacks.iter().all(|(_, why)| why.len() > 20), "{lacks:?}");
        let mut all = programs(&problem, &CHEATS);
        assert_eq!(all.len() + lacks.len(), CHEATS.len());
        let cheats = all.iter().filter(|p| !p.ways.is_empty()).count();
        assert!(cheats >= OF_EACH, "{}: {cheats} cheats", problem.id);
        assert!(all.len() > cheats, "{}: nothing is right", problem.id);
        all.extend(programs(&problem, &SIZES));
        for program in &all {
            let (name, bytes) = (&program.name, program.source.len());
            assert!(bytes <= problem.max_source_bytes, "{name}: {bytes} bytes");
        }
    }
}

/// For every problem, the pipeline must also measure the honest program of the same form.
#[test]
fn every_problem_has_an_honest_program() {
    let honest = honest();
    for problem in all() {
        let id = problem.id.as_str();
        assert!(honest.iter().any(|p| p.problem == id), "{id}");
    }
}

#[test]
fn cheats_without_sense_for_a_problem_are_left_out() {
    let lacks = |name: &str| -> Vec<&'static str> {
        let problem = fixtures::shipped(name);
        let form = Form::of(&problem);
        let senseless = CHEATS.iter().filter(|c| (c.senseless)(&form).is_some());
        senseless.map(|cheat| cheat.name).collect()
    };
    let of_integers = ["fewer_digits", "one_element_is_no_number"];
    assert_eq!(lacks("sort64"), of_integers);
    assert_eq!(lacks("spmv"), [""; 0]);
    assert_eq!(lacks("dot"), ["half_from_the_call_before"]);
    assert_eq!(lacks("polybench_lu"), ["changes_its_input"]);
}

#[test]
fn a_problem_is_written_out_for_its_largest_call() {
    let problem = fixtures::shipped("conv2d");
    let form = Form::of(&problem);
    let most: Vec<usize> = form.inputs.iter().map(|array| array.most).collect();
    assert_eq!(most, [(320 + 7 - 1) * (320 + 7 - 1), 7 * 7]);
    assert_eq!(form.inputs[0].count, "(size_t)(h+k-1) * (size_t)(w+k-1)");
    assert_eq!(form.last_output().most, 320 * 320);
    assert_eq!(form.timed(), "h == 256 && w == 256 && k == 5");
    assert_eq!(form.above_timed(), "h > 256 && w > 256 && k > 5");
    assert_eq!(form.above_visible(), "h > 256 && w > 256 && k > 5");
    assert_eq!(
        form.compute("low_", "kept_", "[1]"),
        "  computed(h, w, k, low_in, low_weight, kept_out[1]);\n"
    );
    // The first and the last row start are the same in every call, so they cannot tell calls apart.
    let sparse = fixtures::shipped("spmv");
    assert_eq!(Form::of(&sparse).varied().name, "column");
}

#[test]
fn a_share_of_the_cheats_for_every_problem_is_refused() {
    let part = Part::of_commit(SHARE);
    let _alone = fixtures::alone();
    let started = Instant::now();
    let mut stages = Stages::rough();
    let (mut refused, mut measured) = (0, 0);
    let mut wrong = Vec::new();
    let mut log = Log::of("cheats");
    let problems = tried();
    // Each problem starts at another cheat.
    let cheats: Vec<Program> = (0..)
        .zip(&problems)
        .flat_map(|(number, problem)| part.shifted(number).of(programs(problem, &CHEATS)))
        .collect();
    let looks = first_looks(None, &cheats.iter().collect::<Vec<_>>());
    for (program, look) in cheats.iter().zip(looks) {
        let ended = stages.judge_after(look, program);
        let text = format!("{}: {}", program.name, words(&ended));
        log.line(&text);
        if !program.expected.holds(&ended) {
            wrong.push(format!("{text}, expected {}", program.expected));
        } else if matches!(ended.verdict, Verdict::Measured { .. }) {
            measured += 1;
        } else {
            refused += 1;
        }
    }
    eprintln!(
        "{refused} cheats refused, {measured} programs that are right measured, {} tried again; {:.0} s",
        stages.tried_again(),
        started.elapsed().as_secs_f64()
    );
    assert!(
        wrong.is_empty(),
        "{} programs did not end as they should:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let (tried, least) = (refused + measured, problems.len() * OF_EACH);
    assert!(!part.is_all() || tried > least, "{tried} programs");
}

/// Programs that are right for some sizes only, above all those that do nothing at the timed size.
#[test]
fn cheats_that_are_right_for_some_sizes_only_are_never_measured() {
    let _alone = fixtures::alone();
    let mut stages = Stages::rough();
    let (mut tried, mut refused) = (0, 0);
    let mut wrong = Vec::new();
    let part = Part::of_commit(HALF);
    // Each problem starts at another cheat.
    let problems = self::tried();
    for (number, problem) in (0..).zip(&problems) {
        for program in part.shifted(number).of(programs(problem, &SIZES)) {
            let ended = stages.judge(&program);
            tried += 1;
            if program.expected.holds(&ended) {
                refused += 1;
            } else {
                wrong.push(format!("{}: {}", program.name, words(&ended)));
            }
        }
    }
    eprintln!("ParEval's hole: {refused} of {tried} refused");
    let of_each = if part.is_all() { SIZES.len() } else { 2 };
    assert!(tried >= problems.len() * of_each, "{tried} programs");
    assert_eq!(refused, tried, "not refused:\n{}", wrong.join("\n"));
}
