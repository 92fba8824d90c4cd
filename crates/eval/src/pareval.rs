//! Results in the format of ParEval's drivers (`drivers/driver_wrapper.py`), which its `analysis/create-dataframe.py` and
//! `analysis/metrics.py` read.
//!
//! A file has one model at one number of threads. The time of a program is the time of the reference divided by its
//! speedup, so that ParEval's numbers rest on one measurement of the reference, as Flopsmith's do.

use std::collections::BTreeMap;

use flopsmith_protocol::{CandidateFault, Digest, FaultClass};
use serde::Serialize;

use crate::answer::Answer;
use crate::folder::{Evaluation, OfModel, OfProblem};
use crate::outcome::{Outcome, State};
use crate::results::{outcomes, reference};

/// The type of problems without a suite.
const NO_SUITE: &str = "flopsmith";

/// A problem with all answers of a model.
#[derive(Debug, Serialize)]
pub struct Prompt {
    problem_type: String,
    language: String,
    name: String,
    parallelism_model: &'static str,
    prompt: String,
    temperature: f32,
    top_p: f32,
    do_sample: bool,
    max_new_tokens: u32,
    prompted: bool,
    outputs: Vec<Output>,
}

/// An answer.
#[derive(Debug, Serialize)]
struct Output {
    generated_output: String,
    source_write_success: bool,
    did_build: bool,
    is_source_valid: bool,
    did_any_run: bool,
    did_all_run: bool,
    are_any_valid: bool,
    are_all_valid: bool,
    best_sequential_runtime: Option<f64>,
    /// None for a program that was not built.
    runs: Option<Vec<Run>>,
}

/// The run of a program.
#[derive(Debug, Serialize)]
struct Run {
    did_run: bool,
    is_valid: bool,
    runtime: Option<f64>,
    num_procs: u32,
    num_threads: u32,
}

/// The prompts of a model. Answers that could not be evaluated are left out.
pub fn prompts(evaluation: &Evaluation, model: &OfModel, threads: u32) -> Vec<Prompt> {
    let config = &evaluation.config;
    let problems = config.problems.iter();
    problems
        .map(|problem| {
            let id = problem.problem.as_str();
            let of = |a: &&Answer| a.problem == id && a.model == model.name;
            let answers = evaluation.answers.iter().filter(of);
            let prompt = answers.clone().find_map(|answer| answer.prompt.clone());
            Prompt {
                problem_type: problem.suite.clone().unwrap_or_else(|| NO_SUITE.to_owned()),
                language: problem.language.clone(),
                name: problem.problem.clone(),
                parallelism_model: if threads == 1 { "serial" } else { "omp" },
                prompt: prompt.unwrap_or_default(),
                temperature: config.temperature,
                top_p: config.top_p,
                do_sample: config.temperature > 0.0,
                max_new_tokens: config.max_tokens,
                prompted: false,
                outputs: outputs(evaluation, problem, threads, answers),
            }
        })
        .collect()
}

fn outputs<'a>(
    evaluation: &Evaluation,
    problem: &OfProblem,
    threads: u32,
    answers: impl Iterator<Item = &'a Answer>,
) -> Vec<Output> {
    let id = problem.problem.as_str();
    let known: BTreeMap<&Digest, &Outcome> = outcomes(evaluation, id, threads);
    let reference = reference(evaluation, id, threads);
    // Seconds of the reference, by the first program that was measured.
    let mut measured = evaluation.outcomes.iter().filter(|outcome| {
        outcome.problem == id && outcome.threads == threads && outcome.is_final()
    });
    let base = measured.find_map(|outcome| {
        let speed = outcome.speed?;
        Some(speed.seconds_per_call * (speed.log_ratio + outcome.reference.log_ratio).exp())
    });
    answers
        .filter_map(|answer| {
            let digest = answer.digest();
            let outcome = match &digest {
                Some(digest) => Some(known.get(digest).filter(|outcome| outcome.is_final())?),
                None => None,
            };
            let fault = outcome.and_then(|outcome| fault(outcome));
            let is_source_valid = digest.is_some()
                && fault.is_none_or(|fault| fault.class() != FaultClass::Violation);
            let did_build = outcome.is_some_and(|outcome| outcome.built);
            let speedup = outcome.and_then(|outcome| {
                let speed = outcome.speed?;
                Some((speed.log_ratio + reference?.log_ratio).exp())
            });
            let is_valid = speedup.is_some();
            let ran = |fault: CandidateFault| fault.class() == FaultClass::Wrong;
            let did_run = is_valid || did_build && fault.is_some_and(ran);
            let run = Run {
                did_run,
                is_valid,
                runtime: base.zip(speedup).map(|(base, speedup)| base / speedup),
                num_procs: 1,
                num_threads: threads,
            };
            let text = answer.program.as_ref().or(answer.answer.as_ref());
            Some(Output {
                generated_output: text.cloned().unwrap_or_default(),
                source_write_success: true,
                did_build,
                is_source_valid,
                did_any_run: did_run,
                did_all_run: did_run,
                are_any_valid: is_valid,
                are_all_valid: is_valid,
                best_sequential_runtime: base.filter(|_| did_run),
                runs: did_build.then(|| vec![run]),
            })
        })
        .collect()
}

/// The fault of a refused program.
fn fault(outcome: &Outcome) -> Option<CandidateFault> {
    let reason = outcome.reason.as_deref()?;
    let mut faults = CandidateFault::ALL.iter().copied();
    faults.find(|fault| outcome.outcome == State::Rejected && fault.name() == reason)
}

/// The names of the files of the models at these numbers of threads, in their order.
pub fn names(models: &[OfModel], threads: &[u32]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for model in models {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let word: String = model.name.chars().map(plain).collect();
        let word = word.trim_matches('-');
        for threads in threads {
            let wanted = format!("{word}-{threads}");
            let (mut name, mut number) = (wanted.clone(), 1);
            while names.contains(&name) {
                number += 1;
                name = format!("{wanted}-{number}");
            }
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_reward::metrics::Metric;
    use serde_json::{Value, json};

    use super::*;
    use crate::evaluation::Troubles;
    use crate::folder::tests::answer;
    use crate::results::Results;
    use crate::results::tests::{evaluation, outcome};

    fn example() -> Evaluation {
        let answers = vec![
            answer("a", 1, Some("fast")),
            answer("a", 2, None),
            answer("a", 3, Some("wrong")),
            answer("a", 4, Some("slow")),
            answer("a", 5, Some("lost")),
        ];
        let outcomes = vec![
            outcome("wrong", State::Rejected, 0.0),
            outcome("slow", State::Measured, -1.0),
            outcome("fast", State::Measured, 1.0),
            outcome("lost", State::Infrastructure, 0.0),
        ];
        evaluation(answers, outcomes)
    }

    fn written() -> Value {
        let evaluation = example();
        serde_json::to_value(prompts(&evaluation, &evaluation.config.models[0], 1)).unwrap()
    }

    /// The fields that ParEval's `create-dataframe.py` reads.
    #[test]
    fn an_entry_has_what_parevals_analysis_reads() {
        let all = written();
        let prompt = &all[0];
        assert_eq!(prompt["name"], "dot");
        assert_eq!(prompt["parallelism_model"], "serial");
        for key in ["prompt", "problem_type", "language"] {
            assert!(prompt[key].is_string(), "{key}");
        }
        for key in ["temperature", "top_p", "max_new_tokens"] {
            assert!(prompt[key].is_number(), "{key}");
        }
        assert_eq!(
            (&prompt["do_sample"], &prompt["prompted"]),
            (&json!(true), &json!(false))
        );
        let outputs = prompt["outputs"].as_array().unwrap();
        // The machine failed at one of five.
        assert_eq!(outputs.len(), 4);
        let [fast, none, wrong, _] = &outputs[..] else {
            unreachable!("four outputs")
        };
        assert_eq!(fast["runs"][0]["is_valid"], true);
        assert_eq!(
            (&none["did_build"], &none["runs"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(none["is_source_valid"], false);
        assert_eq!(wrong["did_build"], true);
        assert_eq!(wrong["runs"][0]["did_run"], true);
        assert_eq!(wrong["runs"][0]["is_valid"], false);
        assert_eq!(wrong["are_all_valid"], false);
        for output in outputs {
            assert!(output["generated_output"].is_string(), "{output}");
            assert!(output.get("best_sequential_runtime").is_some(), "{output}");
        }
    }

    /// ParEval's speedup@1 is the mean of these ratios over the valid runs.
    #[test]
    fn its_ratios_are_the_speedups_of_the_results() {
        let all = written();
        let ratios: Vec<f64> = all[0]["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|output| output["runs"][0]["is_valid"] == true)
            .map(|output| {
                let base = output["best_sequential_runtime"].as_f64().unwrap();
                base / output["runs"][0]["runtime"].as_f64().unwrap()
            })
            .collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let results = Results::of(&example(), Troubles::new());
        let ours = results.models[0].all.number(Metric::ParevalSpeedup(1));
        assert!((ours.unwrap().value / mean - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn files_of_different_models_have_different_names() {
        let config = example().config;
        let named = |name: &str| OfModel {
            name: name.into(),
            ..config.models[0].clone()
        };
        let models = [named("./a/b"), named("a-b"), named("c")];
        let expected = ["a-b-1", "a-b-2", "a-b-1-2", "a-b-2-2", "c-1", "c-2"];
        assert_eq!(names(&models, &[1, 2]), expected);
    }
}
