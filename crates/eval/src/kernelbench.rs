//! Results for modules in KernelBench's format: for a model at a number of threads a folder for each level, with the
//! `eval_results.json` that its `scripts/benchmark_eval_analysis.py` reads in the folder of a run.
//!
//! An outcome knows one speedup, that over the fastest baseline of each workload.

use std::collections::BTreeMap;

use flopsmith_bench::modules::kernelbench::{Entry, results};
use flopsmith_problem::Language;
use flopsmith_protocol::CandidateFault;
use serde_json::Value;

use crate::answer::Answer;
use crate::folder::{Evaluation, OfModel, OfProblem};
use crate::outcome::{Outcome, State};
use crate::results::outcomes;

/// The file of a level.
pub const FILE: &str = "eval_results.json";

/// The answers of a model to modules, by level. Answers that could not be evaluated are left out, and so are programs that are
/// not timed here: an outcome does not tell whether they are right.
pub fn levels(
    evaluation: &Evaluation,
    model: &OfModel,
    threads: u32,
) -> BTreeMap<u8, BTreeMap<String, Vec<Value>>> {
    let mut levels: BTreeMap<u8, Vec<Entry<'_>>> = BTreeMap::new();
    for problem in &evaluation.config.problems {
        let Some(level) = level(problem) else {
            continue;
        };
        let id = problem.problem.as_str();
        let known = outcomes(evaluation, id, threads);
        let facts = evaluation.facts(id, threads).unwrap_or_default();
        let of = |a: &&Answer| a.problem == id && a.model == model.name;
        let entries = evaluation.answers.iter().filter(of).filter_map(|answer| {
            let outcome = match answer.digest() {
                Some(digest) => Some(*known.get(&digest).filter(|outcome| outcome.is_final())?),
                None => None,
            };
            Some(Entry {
                problem: id,
                level,
                hardware: facts.cpu_model.clone(),
                ..entry(answer, outcome)
            })
        });
        let entries: Vec<Entry<'_>> = entries.collect();
        if !entries.is_empty() {
            levels.entry(level).or_default().extend(entries);
        }
    }
    let levels = levels.into_iter();
    levels
        .map(|(level, entries)| (level, results(entries)))
        .collect()
}

/// The level of a module; none for a kernel.
fn level(problem: &OfProblem) -> Option<u8> {
    let of_module = problem.language == Language::Python.fence();
    let suite = problem.suite.as_deref().filter(|_| of_module)?;
    suite.strip_prefix("level_")?.parse().ok()
}

/// The entry of an answer, without its problem and machine; one without an outcome holds no program.
fn entry(answer: &Answer, outcome: Option<&Outcome>) -> Entry<'static> {
    let speed = outcome.and_then(|outcome| outcome.speed);
    let ratio = outcome.zip(speed);
    let ratio = ratio.map(|(of, speed)| (speed.log_ratio + of.reference.log_ratio).exp());
    let said = |fault: &str, detail: &str| (fault.to_owned(), format!("{fault}: {detail}"));
    let fault = match outcome {
        None => Some(said(CandidateFault::Format.name(), "it holds no program")),
        Some(of) if of.outcome == State::Rejected => {
            let reason = of.reason.as_deref().unwrap_or("unknown");
            Some(said(reason, of.detail.trim()))
        }
        Some(_) => None,
    };
    Entry {
        problem: "",
        level: 0,
        // KernelBench counts from 0.
        number: answer.number.saturating_sub(1),
        origin: (
            "answer",
            format!("number {} of {}", answer.number, answer.model),
        ),
        hardware: String::new(),
        compiled: outcome.is_some_and(|outcome| outcome.built),
        correct: speed.is_some(),
        fault,
        speedups: ratio.map(|ratio| ("fastest", ratio)).into_iter().collect(),
        milliseconds: speed.map(|speed| 1e3 * speed.seconds_per_call),
        rounds: None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) mod tests {
    use flopsmith_protocol::Digest;
    use serde_json::json;

    use super::*;
    use crate::folder::tests::answer;
    use crate::results::tests::{evaluation, outcome};

    /// Five answers to a module with KernelBench's number 7 in level 2.
    pub(crate) fn example() -> Evaluation {
        const ID: &str = "level2_7_dot";
        let programs = [
            Some("fast"),
            None,
            Some("wrong"),
            Some("lost"),
            Some("never"),
        ];
        let answers = (1..).zip(programs).map(|(number, program)| Answer {
            problem: ID.into(),
            ..answer("a", number, program)
        });
        let outcomes = [
            outcome("fast", State::Measured, 0.0),
            outcome("wrong", State::Rejected, 0.0),
            outcome("lost", State::Unknown, 0.0),
        ];
        let outcomes = outcomes.map(|outcome| Outcome {
            problem: ID.into(),
            ..outcome
        });
        let mut evaluation = evaluation(answers.collect(), outcomes.into());
        let problem = &mut evaluation.config.problems[0];
        problem.problem = ID.into();
        problem.suite = Some("level_2".into());
        problem.language = "python".into();
        let machine = (Digest::of(b"machine"), r#"{"cpu_model": "a processor"}"#);
        evaluation.machines.insert(machine.0, machine.1.to_owned());
        evaluation
    }

    #[test]
    fn a_level_has_every_answer_that_was_found_right_or_wrong() {
        let evaluation = example();
        let [a, b] = &evaluation.config.models[..] else {
            unreachable!("two models")
        };
        let found = levels(&evaluation, a, 1);
        assert_eq!(found.keys().copied().collect::<Vec<u8>>(), [2]);
        let [fast, none, wrong] = &found[&2]["7"][..] else {
            unreachable!("{found:?}")
        };
        assert_eq!(fast["sample_id"], 0);
        assert_eq!(
            (&fast["compiled"], &fast["correctness"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(fast["runtime"], 1000.0);
        assert_eq!(fast["runtime_stats"]["mean"], 1000.0);
        assert_eq!(fast["metadata"]["hardware"], "a processor");
        let speedup = fast["metadata"]["speedup"]["fastest"].as_f64().unwrap();
        assert!((speedup - 2.0).abs() < 1e-12, "{speedup}");
        assert_eq!(none["metadata"]["fault"], "format");
        assert_eq!(
            (&none["compiled"], &none["runtime"]),
            (&json!(false), &json!(-1.0))
        );
        assert_eq!(wrong["metadata"]["fault"], "wrong_result");
        assert_eq!(
            (&wrong["sample_id"], &wrong["correctness"]),
            (&json!(2), &json!(false))
        );
        assert_eq!(wrong["runtime_stats"], json!({}));
        assert!(levels(&evaluation, b, 1).is_empty(), "it has no answers");
        assert!(
            levels(&evaluation, a, 2)
                .values()
                .all(|level| level["7"].len() == 1)
        );
    }

    #[test]
    fn kernels_have_no_level() {
        let mut evaluation = example();
        evaluation.config.problems[0].language = "c".into();
        let model = evaluation.config.models[0].clone();
        assert!(levels(&evaluation, &model, 1).is_empty());
    }
}
