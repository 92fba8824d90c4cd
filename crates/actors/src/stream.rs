//! Fresh random loop nests as the problems of a run: of all training tasks with `suite = "random"`, of some with `random`.
//! Pure.
//!
//! Each of these tasks has a nest of its own, which occurs in no other step. The nests of both evaluations are
//! the same. No nest is trained on whose [`form`] is held out: that of an evaluated nest or of a problem of `hold_out`. All
//! nests follow from the run's settings, the step and the number of the task, so a resumed run has the nests of an
//! undisturbed one. The name of a nest is its seed: a node makes the files from the name and needs no list.

use flopsmith_config::Settings;
use flopsmith_nest::canonical::canonical;
use flopsmith_nest::prompt::program_of;
use flopsmith_nest::random;
use flopsmith_problem::{Problem, flags};
use flopsmith_protocol::{Digest, ProblemFiles, ProblemId, Task};

use crate::error::Error;
use crate::node::Context;

/// Nests that are drawn for one task at most. A form is that of a few nests in a hundred, so this number is never reached
/// unless most forms are held out.
const DRAWS: u64 = 100;

/// A whole number that depends on all bits of the given ones (the last steps of SplitMix64; Steele, Lea and Flood, 2014).
fn mixed(numbers: [u64; 3]) -> u64 {
    numbers.into_iter().fold(0, |state, number| {
        let mut z = (state ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The name of the nest of a seed.
fn id(seed: u64) -> Result<ProblemId, Error> {
    ProblemId::new(random::name(seed)).map_err(|e| Error::Settings(e.to_string()))
}

/// The nest of a task of a training step: the first of its draws whose form is not held out. Its seed is odd.
///
/// # Errors
/// All draws are held out.
pub fn trained(settings: &Settings, step: u64, number: u32) -> Result<ProblemId, Error> {
    for draw in 0..DRAWS {
        // The number of the task has 32 bits.
        let of_task = u64::from(number) | (draw << 32);
        let nest = id(mixed([settings.seed, step, of_task]) | 1)?;
        if !is_held_out(settings, &nest) {
            return Ok(nest);
        }
    }
    Err(Error::Settings(format!(
        "each of {DRAWS} fresh nests has the loops of a held-out problem; hold out fewer, or lower `evaluate_tasks`"
    )))
}

/// True if the form of a nest is held out.
fn is_held_out(settings: &Settings, nest: &ProblemId) -> bool {
    let held_out = &settings.hold_out_forms;
    if held_out.is_empty() {
        return false;
    }
    let problem = files(nest).and_then(|files| Problem::from_files(files).ok());
    let form = problem.and_then(|problem| form(&problem));
    form.is_some_and(|form| held_out.contains(&form))
}

/// The digest of a form in which problems are equal that differ by names, sizes, precision or constants
/// ([`mod@flopsmith_nest::canonical`]); none of a problem whose reference is no affine loop nest, which no nest is like.
pub fn form(problem: &Problem) -> Option<String> {
    let program = program_of(problem).ok()?;
    let digest = Digest::of(canonical(&program).as_bytes());
    Some(digest.short().to_owned())
}

/// The nests of both evaluations, one for each of `evaluate_tasks`. Their seeds are even, so no step trains on them.
pub fn evaluated(settings: &Settings) -> Result<Vec<ProblemId>, Error> {
    let numbers = 0..u64::from(settings.evaluate_tasks);
    numbers
        .map(|number| id(mixed([settings.seed, u64::MAX, number]) & !1))
        .collect()
}

/// True for a nest that occurs in one training step of a run with these settings.
pub fn is_fresh(settings: &Settings, problem: &ProblemId) -> bool {
    settings.has_fresh() && seed(problem).is_some_and(|seed| seed % 2 == 1)
}

/// The seed in the name of a nest.
fn seed(problem: &ProblemId) -> Option<u64> {
    let seed = problem.as_str().strip_prefix("random_")?.parse().ok()?;
    // `random_007` and `random_+7` are other names.
    (random::name(seed) == problem.as_str()).then_some(seed)
}

/// The files of a nest by its name; none if the name is not that of a random nest.
pub fn files(problem: &ProblemId) -> Option<ProblemFiles> {
    random::problem(seed(problem)?).ok()
}

/// A nest as a run with these settings has it.
pub fn problem(settings: &Settings, id: &ProblemId) -> Result<Problem, Error> {
    let unusable = |detail: String| Error::Settings(format!("{id}: {detail}"));
    let files = files(id).ok_or_else(|| unusable("it is not the name of a random nest".into()))?;
    let problem = Problem::from_files(files).map_err(|e| unusable(e.to_string()))?;
    if settings.evaluate.flags.trim().is_empty() {
        return Ok(problem);
    }
    let flags = flags::parse(&settings.evaluate.flags);
    Ok(problem.with_flags(flags.map_err(|e| unusable(e.to_string()))?))
}

/// The nests of these tasks that the context does not have; none for a run with named problems alone.
pub fn of_tasks(context: &Context, tasks: &[Task]) -> Result<Vec<Problem>, Error> {
    if !context.settings.has_fresh() {
        return Ok(Vec::new());
    }
    let fresh = tasks.iter().map(|task| &task.problem);
    let mut fresh: Vec<&ProblemId> = fresh.filter(|id| context.of(id).is_none()).collect();
    fresh.sort_unstable();
    fresh.dedup();
    let made = fresh.into_iter().map(|id| problem(&context.settings, id));
    made.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn settings(seed: u64) -> Settings {
        Settings {
            seed,
            evaluate_tasks: 8,
            ..Settings::default()
        }
    }

    proptest! {
        /// No nest is trained on twice, none is trained on and evaluated, and the same run has the same ones.
        #[test]
        fn every_nest_of_a_run_is_another_one_and_the_same_in_a_resumed_run(seed in any::<u64>()) {
            let settings = settings(seed);
            let all = || {
                let steps = (0..20).flat_map(|step| (0..8).map(move |number| (step, number)));
                let trained = steps.map(|(step, number)| trained(&settings, step, number));
                let evaluated = evaluated(&settings).expect("ids");
                let trained = trained.collect::<Result<Vec<_>, _>>().expect("ids");
                [evaluated, trained].concat()
            };
            let first = all();
            prop_assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 8 + 20 * 8);
            prop_assert_eq!(first, all());
        }
    }

    /// Most nests of a run are as they were, and those with a held-out form are replaced by others, each time the same.
    #[test]
    fn nests_with_a_held_out_form_are_replaced_by_others() {
        let tasks = || (1..15).flat_map(|step| (0..4).map(move |number| (step, number)));
        let all = |settings: &Settings| -> Vec<ProblemId> {
            let ids = tasks().map(|(step, number)| trained(settings, step, number));
            ids.collect::<Result<_, _>>().expect("ids")
        };
        let of = |settings: &Settings, ids: &[ProblemId]| -> Vec<String> {
            let problems = ids.iter().map(|id| problem(settings, id).expect("a nest"));
            let forms = problems.map(|problem| form(&problem).expect("an affine nest"));
            forms.collect()
        };
        let free = settings(5);
        let before = all(&free);
        let forms = of(&free, &before);
        let held_out = Settings {
            hold_out_forms: vec![forms[3].clone(), forms[40].clone()],
            ..free
        };
        let after = all(&held_out);
        assert_eq!(after, all(&held_out));
        for form in of(&held_out, &after) {
            assert!(!held_out.hold_out_forms.contains(&form), "{form}");
        }
        for (n, form) in forms.iter().enumerate() {
            let is_held_out = held_out.hold_out_forms.contains(form);
            assert_eq!(before[n] != after[n], is_held_out, "{n}");
            assert!(is_fresh(
                &Settings {
                    random: 1,
                    ..held_out.clone()
                },
                &after[n]
            ));
        }
        let distinct: BTreeSet<&ProblemId> = after.iter().collect();
        assert_eq!(distinct.len(), after.len());
    }

    #[test]
    fn a_run_that_holds_out_all_that_it_draws_says_so() {
        let free = settings(5);
        let drawn = (0..DRAWS).map(|draw| id(mixed([5, 1, 2 | (draw << 32)]) | 1).expect("an id"));
        let problems = drawn.map(|id| problem(&free, &id).expect("a nest"));
        let held_out = Settings {
            hold_out_forms: problems.filter_map(|problem| form(&problem)).collect(),
            ..free.clone()
        };
        let error = trained(&held_out, 1, 2).expect_err("all are held out");
        assert!(error.to_string().contains("held-out"), "{error}");
    }

    #[test]
    fn fresh_nests_are_told_from_the_others_by_their_names() {
        let settings = Settings {
            suite: "random".into(),
            ..settings(3)
        };
        let none = Settings::default();
        for step in 1..9 {
            let trained = trained(&settings, step, 0).expect("an id");
            assert!(is_fresh(&settings, &trained) && !is_fresh(&none, &trained));
        }
        let others = evaluated(&settings).expect("ids");
        let others = others.iter().map(ProblemId::as_str);
        for name in others.chain(["dgemm", "random_007", "random_x"]) {
            let id = ProblemId::new(name).expect("an id");
            assert!(!is_fresh(&settings, &id), "{name}");
        }
    }

    #[test]
    fn a_name_alone_gives_the_files_of_its_nest() {
        let id = trained(&settings(7), 3, 1).expect("an id");
        let files = files(&id).expect("a nest");
        assert_eq!(files.id, id);
        let made = problem(&settings(7), &id).expect("a problem");
        assert_eq!(made.id, id);
        assert_eq!(made.files(), files);
    }

    #[test]
    fn no_other_name_is_one_of_a_nest() {
        for name in [
            "dgemm",
            "random_",
            "random_007",
            "random_x",
            "random_99999999999999999999",
        ] {
            let id = ProblemId::new(name).expect("an id");
            assert_eq!(files(&id), None, "{name}");
            let error = problem(&settings(1), &id).expect_err("no nest").to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn two_seeds_of_a_run_have_no_nest_in_common() {
        let of = |seed| evaluated(&settings(seed)).expect("ids");
        let (one, other) = (of(1), of(2));
        assert!(
            one.iter().all(|id| !other.contains(id)),
            "{one:?} {other:?}"
        );
    }
}
