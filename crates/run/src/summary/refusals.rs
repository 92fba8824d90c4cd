//! The faults that the programs of a run were refused for, whether any program was correct, and advice if none was.

use std::collections::BTreeMap;

use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_protocol::{CandidateFault, CandidateId, Outcome, Purpose, Verdict};
use serde::{Deserialize, Serialize};

use super::Summary;
use crate::fruitless::{EXAMPLE, Entry, KINDS, Remedies, Successes, refused};

/// A fault, and the number of programs with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Name of the fault.
    pub kind: String,
    /// Number of programs with this fault.
    pub count: u64,
    /// One of these programs; its line in `outcomes.jsonl` has all details.
    pub candidate: CandidateId,
    /// Detail of this program's refusal: a message of the compiler, or the beginning of an answer that contains no
    /// program.
    pub example: String,
}

/// The faults that programs were refused for, the commonest first. Second measurements are skipped: they are of
/// programs that were correct.
pub fn refusals(outcomes: &[Outcome]) -> Vec<Refusal> {
    let mut kinds: BTreeMap<CandidateFault, (u64, &Outcome, &str)> = BTreeMap::new();
    for outcome in outcomes {
        if outcome.candidate.purpose == Purpose::Certify {
            continue;
        }
        let Verdict::Rejected { fault, detail } = &outcome.verdict else {
            continue;
        };
        let (count, example, words) = kinds.entry(*fault).or_insert((0, outcome, detail));
        *count += 1;
        // A detail of several lines is a better example.
        if detail.contains('\n') && !words.contains('\n') {
            (*example, *words) = (outcome, detail);
        }
    }
    let mut refusals: Vec<Refusal> = kinds
        .into_iter()
        .map(|(fault, (count, outcome, words))| Refusal {
            kind: fault.name().to_owned(),
            count,
            candidate: outcome.candidate.id.clone(),
            example: words[..words.floor_char_boundary(EXAMPLE)].to_owned(),
        })
        .collect();
    refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.count));
    refusals.truncate(KINDS);
    refusals
}

/// Number of consecutive training or search steps at the end of a run in which programs were judged and none was
/// correct.
pub fn fruitless_steps(outcomes: &[Outcome]) -> u64 {
    let mut steps: BTreeMap<u64, bool> = BTreeMap::new();
    for outcome in outcomes {
        let candidate = &outcome.candidate;
        let of_course = matches!(candidate.purpose, Purpose::Train | Purpose::Search);
        if of_course && outcome.verdict.counts() {
            *steps.entry(candidate.step).or_default() |= outcome.verdict.measurement().is_some();
        }
    }
    let in_vain = steps.values().rev().take_while(|correct| !**correct);
    in_vain.count() as u64
}

/// Number of programs that were judged for the first time, and number of correct ones among them.
pub fn judged(outcomes: &[Outcome]) -> (u64, u64) {
    let first = |o: &&Outcome| o.candidate.purpose != Purpose::Certify && o.verdict.counts();
    let judged = outcomes.iter().filter(first);
    let correct = judged.clone().filter(|o| o.verdict.measurement().is_some());
    (judged.count() as u64, correct.count() as u64)
}

impl Summary {
    /// The lines of the table about refusals; none if enough programs are correct.
    pub(super) fn about_refusals(&self) -> Vec<String> {
        let faults = self.refusals.iter().map(|refusal| Entry {
            kind: &refusal.kind,
            count: refusal.count,
            of: refusal.candidate.as_str(),
            example: &refusal.example,
        });
        refused(self.judged_programs, self.correct_programs, faults)
    }

    /// The reason why a finished run counts as a failure of its programs, with advice. `None` if the run is no failure.
    pub fn fruitless(&self, job: Job, settings: &Settings) -> Option<String> {
        let successes = Successes {
            work: "run",
            correct: self.correct_programs,
            fruitless_steps: self.fruitless_steps,
            limit: u64::from(settings.fruitless_steps_limit),
        };
        let failure = successes.failure().filter(|_| self.finished)?;
        let advice = match job {
            Job::Train => {
                let commonest = self.refusals.first().map(|refusal| refusal.kind.as_str());
                successes.advice(commonest, &remedies(settings))
            }
            Job::Search => {
                "give a longer --budget, or read in outcomes.jsonl why programs were refused"
                    .to_owned()
            }
        };
        Some(format!("{failure}\n  try: {advice}"))
    }
}

/// The remedies of a training run.
fn remedies(settings: &Settings) -> Remedies {
    let named = settings.named_problems();
    let problem = named.iter().find(|name| !name.is_empty());
    Remedies {
        sample: format!(
            "flopsmith model sample {} --problem {}",
            settings.generator.model.display(),
            problem.map_or("PROBLEM", String::as_str),
        ),
        longest: ("generator.max_tokens", settings.generator.max_tokens),
        temperature: ("generator.temperature", settings.generator.temperature),
        fenced: "generator.prompt = \"full\"",
        again: "start a new run with a smaller `learner.learning_rate` or a larger `learner.kl_beta`",
        folder: "the run's folder".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::InfrastructureCause;
    use flopsmith_test_support::{candidate, infrastructure, measured, outcome, remeasured};

    use super::*;
    use crate::summary::{Facts, summarise};

    fn of(step: u64, sample: u32, purpose: Purpose, verdict: Verdict) -> Outcome {
        let candidate = flopsmith_protocol::CandidateRef {
            purpose,
            ..candidate(step, 0, sample)
        };
        outcome(candidate, verdict)
    }

    fn said(fault: CandidateFault, words: &str) -> Verdict {
        Verdict::Rejected {
            fault,
            detail: words.to_owned(),
        }
    }

    fn no_program() -> Verdict {
        said(
            CandidateFault::Format,
            "no program was found in the answer (7 bytes):\nsorry, \x1b[2Jno",
        )
    }

    /// The sums of a run with these outcomes that came to its end.
    fn summary(outcomes: &[Outcome]) -> Summary {
        let folder = tempfile::tempdir().expect("a folder");
        let lines: Vec<String> = outcomes
            .iter()
            .map(|o| serde_json::to_string(o).expect("JSON") + "\n")
            .collect();
        std::fs::write(folder.path().join("outcomes.jsonl"), lines.concat()).expect("written");
        let facts = Facts {
            finished: true,
            ..Facts::default()
        };
        summarise("r", folder.path(), &facts).expect("sums")
    }

    fn steps(of_steps: &[&[Verdict]]) -> Vec<Outcome> {
        let mut all = vec![of(0, 0, Purpose::EvaluateStart, no_program())];
        for (step, verdicts) in (1..).zip(of_steps) {
            for (sample, verdict) in (0..).zip(*verdicts) {
                all.push(of(step, sample, Purpose::Train, verdict.clone()));
            }
        }
        all
    }

    #[test]
    fn a_run_without_a_correct_program_says_why_with_an_example_that_no_terminal_obeys() {
        let compile = said(CandidateFault::CompileError, "x.c:1: error");
        let all = steps(&[&[no_program(), compile, no_program()]]);
        let summary = summary(&all);
        let kinds: Vec<(&str, u64)> = summary
            .refusals
            .iter()
            .map(|r| (r.kind.as_str(), r.count))
            .collect();
        assert_eq!(kinds, [("format", 3), ("compile_error", 1)]);
        let table = summary.table().join("\n");
        for part in [
            "100.0 % of 4 programs refused:",
            "  3 × format\n    r-s0-g0-c0: no program was found in the answer (7 bytes): sorry, [2Jno",
            "  1 × compile_error\n    r-s1-g0-c1: x.c:1: error",
        ] {
            assert!(table.contains(part), "`{part}` is not in\n{table}");
        }
        let settings = Settings::default();
        let words = summary.fruitless(Job::Train, &settings).expect("it failed");
        for part in [
            "no program of this run was correct",
            "flopsmith model sample models/starter --problem dgemm",
            "generator.max_tokens",
            "flopsmith sft",
        ] {
            assert!(words.contains(part), "`{part}` is not in {words}");
        }
    }

    #[test]
    fn steps_in_vain_are_those_at_the_end_in_which_somebody_was_to_blame() {
        let wrong = || vec![no_program(), no_program()];
        let lost = infrastructure(InfrastructureCause::Jail);
        let (right, away) = (vec![no_program(), measured(9.0)], vec![lost]);
        let count = |of_steps: &[&[Verdict]]| fruitless_steps(&steps(of_steps));
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[&wrong(), &wrong()]), 2);
        assert_eq!(count(&[&wrong(), &right, &wrong(), &away, &wrong()]), 2);
        assert_eq!(count(&[&wrong(), &right]), 0);
    }

    #[test]
    fn a_run_fails_when_it_was_ended_for_its_programs_and_when_none_ever_was_correct() {
        let wrong = vec![no_program()];
        let right = vec![measured(9.0)];
        let settings = |fruitless_steps_limit| Settings {
            fruitless_steps_limit,
            ..Settings::default()
        };
        let told = |of_steps: &[&[Verdict]], limit| {
            summary(&steps(of_steps)).fruitless(Job::Train, &settings(limit))
        };
        let ended = told(&[&wrong, &wrong], 2).expect("ended");
        assert!(
            ended.contains("after 2 steps in which no program"),
            "{ended}"
        );
        let collapsed = told(&[&right, &wrong, &wrong], 2).expect("ended");
        assert!(collapsed.contains("learner.learning_rate"), "{collapsed}");
        assert_eq!(told(&[&right, &wrong], 2), None);
        assert_eq!(told(&[&right, &wrong, &wrong], 0), None);
        assert!(told(&[&wrong], 20).is_some());
        // A run without training steps is no failure here; the table reports its evaluation.
        assert_eq!(told(&[], 20), None);
        // A search has no model to teach.
        let search = summary(&steps(&[&wrong])).fruitless(Job::Search, &settings(0));
        assert!(search.expect("in vain").contains("outcomes.jsonl"));
    }

    #[test]
    fn where_much_is_correct_nothing_is_explained() {
        let all = steps(&[&[measured(9.0), no_program()]]);
        let again = outcome(remeasured(&all[1].candidate, 1), no_program());
        let summary = summary(&[all, vec![again]].concat());
        assert_eq!(summary.refusals[0].count, 2, "{:?}", summary.refusals);
        assert!(!summary.table().join("\n").contains("refused"));
    }
}
