//! The problems of a run over many in its summary: each has a row, whatever became of its programs.

use std::path::Path;

use anyhow::Result;
use flopsmith_protocol::{CandidateId, MachineFacts, Outcome, ProblemId};
use serde::{Deserialize, Serialize};

use super::{Best, EarlyStage, Facts, Refusal, Samples, Summary, by_problem, refusals, sum};
use crate::console::table;
use crate::digits::{between, counted, four, percent};

/// One problem of a run over many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfProblem {
    /// Its name.
    pub problem: ProblemId,
    /// The policy's samples for it before training; none if it was not evaluated.
    pub start: Option<Samples>,
    /// The same after training.
    pub end: Option<Samples>,
    /// Number of its programs that were judged for the first time.
    pub judged_programs: u64,
    /// Number of these programs that were verified and measured.
    pub correct_programs: u64,
    /// Number of its samples that failed without their own fault.
    pub failures: u64,
    /// Its best program.
    pub best: Option<Best>,
    /// Measured speed of its plain reference, GFLOPS.
    pub reference_gflops: Option<f64>,
    /// Measured peak for its elements, GFLOPS.
    pub peak_gflops: Option<f64>,
    /// Number of technique sets with a program for it whose measurement was repeated.
    pub coverage: u64,
    /// Number of further technique sets, whose programs were measured only once.
    pub coverage_unconfirmed: u64,
    /// Sum over technique sets of the speed of the best program for it whose measurement was repeated, GFLOPS.
    #[serde(default)]
    pub qd_score: f64,
    /// Faults for which programs were refused, the three most frequent first.
    pub refusals: Vec<Refusal>,
    /// The stage in which the run ended for it, if it did not come to its last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stage: Option<EarlyStage>,
}

/// The policy over all problems of a run over many, before and after training. Speeds are ratios to the plain references, and
/// those of a problem are the mean over all of its samples, of which failures count as 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OverProblems {
    /// Number of problems that were evaluated at both times; others are in none of these numbers.
    pub problems: u64,
    /// Mean of their ratios before training.
    pub start_ratio: f64,
    /// Mean of their ratios after training.
    pub end_ratio: f64,
    /// Geometric mean of the ratio after training, divided by that before, over the problems with a correct sample at both
    /// times; none if there are none.
    pub gain: Option<f64>,
    /// Number of these problems.
    pub gain_problems: u64,
    /// Number of problems with a correct sample after training only.
    pub gained: u64,
    /// Number of problems with a correct sample before training only.
    pub lost: u64,
}

impl OverProblems {
    fn of(problems: &[OfProblem]) -> Option<Self> {
        let both = |of: &OfProblem| {
            let (start, end) = of.start.as_ref().zip(of.end.as_ref())?;
            Some((start.mean_ratio, end.mean_ratio))
        };
        let ratios: Vec<(f64, f64)> = problems.iter().filter_map(both).collect();
        if ratios.is_empty() {
            return None;
        }
        let mean =
            |of: fn(&(f64, f64)) -> f64| ratios.iter().map(of).sum::<f64>() / ratios.len() as f64;
        let count = |wanted: fn(bool, bool) -> bool| {
            let found = ratios.iter();
            let found = found.filter(|(start, end)| wanted(*start > 0.0, *end > 0.0));
            found.count() as u64
        };
        let gains = ratios
            .iter()
            .filter(|(start, end)| *start > 0.0 && *end > 0.0);
        let logs: Vec<f64> = gains.map(|(start, end)| (end / start).ln()).collect();
        Some(Self {
            problems: ratios.len() as u64,
            start_ratio: mean(|(start, _)| *start),
            end_ratio: mean(|(_, end)| *end),
            gain: (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp()),
            gain_problems: logs.len() as u64,
            gained: count(|start, end| !start && end),
            lost: count(|start, end| start && !end),
        })
    }

    fn line(&self) -> String {
        let mut line = format!(
            "all samples, of which failures count 0: {}× → {}× the plain references in the mean over {}",
            four(self.start_ratio),
            four(self.end_ratio),
            counted(self.problems, "problem")
        );
        if let Some(gain) = self.gain {
            line += &format!(
                ", {}× the start in the geometric mean over {}",
                four(gain),
                counted(self.gain_problems, "problem")
            );
        }
        for (count, when) in [(self.gained, "after"), (self.lost, "before")] {
            if count > 0 {
                let problems = counted(count, "problem");
                line += &format!(", {problems} with a correct sample only {when} training");
            }
        }
        line
    }
}

/// The problems of a run that have no row of their own: the nests that a stream was trained on, each in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fresh {
    /// Number of these problems.
    pub problems: u64,
    /// Number of them with a correct program.
    pub solved: u64,
    /// Number of programs for them that were judged for the first time.
    pub judged_programs: u64,
    /// Number of these programs that were verified and measured.
    pub correct_programs: u64,
}

impl Fresh {
    /// The sums over the outcomes of these problems; none if there are none.
    fn of<'a>(problems: impl Iterator<Item = &'a Vec<Outcome>>) -> Option<Self> {
        let mut fresh = Self::default();
        for outcomes in problems {
            let (judged, correct) = refusals::judged(outcomes);
            fresh.problems += 1;
            fresh.solved += u64::from(correct > 0);
            fresh.judged_programs += judged;
            fresh.correct_programs += correct;
        }
        (fresh.problems > 0).then_some(fresh)
    }

    fn line(&self) -> String {
        format!(
            "{} {} trained on, {} of them with a correct program ({} of {} correct)",
            counted(self.problems, "fresh nest"),
            if self.problems == 1 { "was" } else { "were" },
            self.solved,
            self.correct_programs,
            counted(self.judged_programs, "program"),
        )
    }
}

impl OfProblem {
    fn of(problem: ProblemId, summary: Summary) -> Self {
        let unknown = summary.outcomes.get("unknown").copied().unwrap_or(0);
        Self {
            problem,
            start: summary.start,
            end: summary.end,
            judged_programs: summary.judged_programs,
            correct_programs: summary.correct_programs,
            failures: unknown + summary.infrastructure_errors,
            best: summary.best,
            reference_gflops: summary.reference_gflops,
            peak_gflops: summary.peak_gflops,
            coverage: summary.coverage,
            coverage_unconfirmed: summary.coverage_unconfirmed,
            qd_score: summary.qd_score.unwrap_or_default(),
            refusals: summary.refusals,
            early_stage: summary.early_stage,
        }
    }

    /// The reason why there is no best program.
    pub(crate) fn lacks(&self) -> String {
        match (self.judged_programs, self.refusals.first()) {
            (0, _) if self.failures > 0 => {
                format!(
                    "no program was judged: {} failed",
                    counted(self.failures, "sample")
                )
            }
            (0, _) => "no program was tried yet".to_owned(),
            (judged, Some(commonest)) => format!(
                "none of {} is correct: {} × {}",
                counted(judged, "program"),
                commonest.count,
                commonest.kind
            ),
            // A program that was correct once was refused later, at its second measurement.
            (judged, None) => format!("none of {} counts", counted(judged, "program")),
        }
    }
}

/// The sums of one problem; `outcomes` are its own, and `begun` is that of the run.
pub(super) fn one(
    run: &str,
    folder: &Path,
    facts: &Facts,
    problem: &ProblemId,
    (outcomes, begun): (&[Outcome], bool),
    machines: &[MachineFacts],
) -> Result<Summary> {
    let mine = |candidate: &CandidateId| outcomes.iter().any(|o| o.candidate.id == *candidate);
    let early_stage = EarlyStage::of(folder, facts, Some(problem), outcomes);
    let facts = Facts {
        problem: problem.to_string(),
        problems: Vec::new(),
        certified: facts
            .certified
            .iter()
            .filter(|certified| mine(&certified.candidate))
            .cloned()
            .collect(),
        ..facts.clone()
    };
    let measured = machines
        .iter()
        .filter(|machine| machine.problem.as_ref() == Some(problem))
        .cloned();
    let machines: Vec<MachineFacts> = measured.collect();
    Ok(Summary {
        early_stage,
        ..sum(run, folder, &facts, (outcomes, begun), 0, &machines)?
    })
}

/// Divides the summary of a run among its problems. The best program, its roof and the reference cannot be compared across
/// problems and are left out of the whole.
pub(super) fn divided(
    whole: Summary,
    folder: &Path,
    facts: &Facts,
    (outcomes, begun): (Vec<Outcome>, bool),
    machines: &[MachineFacts],
) -> Result<Summary> {
    let mut sorted = by_problem(outcomes);
    let mut problems = Vec::new();
    for problem in &facts.problems {
        let outcomes = sorted.remove(problem).unwrap_or_default();
        let of_problem = (&outcomes[..], begun);
        let summary = one(&whole.run, folder, facts, problem, of_problem, machines)?;
        problems.push(OfProblem::of(problem.clone(), summary));
    }
    let total = |of: fn(&OfProblem) -> u64| -> u64 { problems.iter().map(of).sum() };
    Ok(Summary {
        coverage: total(|problem| problem.coverage),
        coverage_unconfirmed: total(|problem| problem.coverage_unconfirmed),
        qd_score: None,
        over_problems: OverProblems::of(&problems),
        best: None,
        roofline: None,
        rooflines: Vec::new(),
        roof_vector_bits: None,
        peak_gflops: None,
        reference_gflops: None,
        openblas_gflops: None,
        openblas_core: None,
        openblas_version: None,
        corpus_best_gflops: None,
        corpus_best_wider: None,
        fresh: Fresh::of(sorted.values()),
        problems,
        ..whole
    })
}

impl Summary {
    /// Number of problems of a run over many with a best program.
    pub fn solved(&self) -> usize {
        self.problems.iter().filter(|p| p.best.is_some()).count()
    }

    /// The geometric mean of the best programs' ratios to the plain references over the problems that have one; none if
    /// no problem has one.
    pub fn mean_ratio(&self) -> Option<f64> {
        let bests = self.problems.iter().filter_map(|p| p.best.as_ref());
        let logs: Vec<f64> = bests.map(|best| best.ratio_to_reference.ln()).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }

    /// The sizes of the verification of a best program that is the least certain to find a wrong one.
    fn least_verified(&self) -> Option<String> {
        let bests = self.problems.iter().filter_map(|of| of.best.as_ref());
        let sizes = bests.filter_map(|best| best.sizes);
        // A verification at every size has no `one_in`, and is certain.
        let least = sizes.min_by_key(|sizes| sizes.one_in.unwrap_or(u32::MAX))?;
        Some(format!(
            "the least certain of their verifications met {least}"
        ))
    }

    /// The rows of the problems, one for each, and their sums.
    pub(super) fn about_problems(&self) -> Vec<String> {
        if self.problems.is_empty() {
            return Vec::new();
        }
        let columns = [
            ("problem", false),
            ("correct", true),
            ("start", true),
            ("end", true),
            ("mean", true),
            ("best", true),
            ("GFLOPS", true),
            ("", false),
        ];
        let rate = |samples: &Option<Samples>| {
            let of = samples.as_ref();
            of.map_or_else(|| "–".to_owned(), |samples| percent(samples.correct_rate))
        };
        let rows = self.problems.iter().map(|of| {
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
            let best = of.best.as_ref();
            vec![
                of.problem.to_string(),
                format!("{}/{}", of.correct_programs, of.judged_programs),
                rate(&of.start),
                rate(&of.end),
                match (&of.start, &of.end) {
                    (Some(start), Some(end)) => {
                        format!("{}× → {}×", four(start.mean_ratio), four(end.mean_ratio))
                    }
                    _ => or_dash(None),
                },
                or_dash(best.map(|best| format!("{}×", four(best.ratio_to_reference)))),
                or_dash(best.map(|best| four(best.gflops))),
                best.map_or_else(
                    || of.lacks(),
                    |best| format!("{} {}", between(&best.interval), best.techniques.words()),
                ),
            ]
        });
        let mut lines = table(&columns, rows);
        lines.extend(self.least_verified());
        let solved = self.solved();
        lines.push(format!(
            "{} of {} {} a verified kernel{}",
            solved,
            counted(self.problems.len() as u64, "problem"),
            if solved == 1 { "has" } else { "have" },
            self.mean_ratio().map_or_else(String::new, |mean| format!(
                ", {}× the plain reference in the geometric mean over {}",
                four(mean),
                if solved == 1 { "it" } else { "them" }
            ))
        ));
        lines.extend(self.over_problems.as_ref().map(OverProblems::line));
        lines.extend(self.fresh.as_ref().map(Fresh::line));
        lines
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_actors::role::recorder::files;
    use flopsmith_protocol::{CandidateRef, InfrastructureCause, Purpose, Verdict, VerifiedSizes};
    use flopsmith_test_support::{
        ATTESTED, Measured, candidate, infrastructure, machine, outcome, wrong,
    };

    use super::super::summarise;
    use super::*;

    fn id(name: &str) -> ProblemId {
        ProblemId::new(name).unwrap()
    }

    /// The summary of a run over `right`, `wrong`, `lost` and `idle` with these samples in its only step.
    fn summary() -> Summary {
        let folder = tempfile::tempdir().unwrap();
        let of = |problem: &str, sample: u32, verdict: Verdict| {
            let candidate = CandidateRef {
                problem: id(problem),
                purpose: Purpose::Train,
                ..candidate(1, 0, sample)
            };
            let outcome = outcome(candidate, verdict);
            serde_json::to_string(&outcome).unwrap() + "\n"
        };
        let lost = infrastructure(InfrastructureCause::Jail);
        let lines = [
            of("right", 0, Measured::at(40.0).ratio(8.0).verdict()),
            of("right", 1, wrong()),
            of("wrong", 2, wrong()),
            of("wrong", 3, wrong()),
            of("lost", 4, lost),
        ];
        std::fs::write(folder.path().join(files::OUTCOMES), lines.concat()).unwrap();
        let machine = MachineFacts {
            problem: Some(id("right")),
            reference_gflops: 5.0,
            ..machine(ATTESTED)
        };
        let line = serde_json::to_string(&machine).unwrap() + "\n";
        std::fs::write(folder.path().join(files::MACHINES), line).unwrap();
        let facts = Facts {
            problems: ["right", "wrong", "lost", "idle"].map(id).to_vec(),
            finished: true,
            ..Facts::default()
        };
        summarise("r", folder.path(), &facts).unwrap()
    }

    #[test]
    fn every_problem_of_a_run_has_a_row_with_its_best_program_or_the_reason_why_there_is_none() {
        let summary = summary();
        assert_eq!(summary.best, None, "speeds of different problems");
        assert_eq!(summary.problems.len(), 4);
        let right = &summary.problems[0];
        assert_eq!((right.judged_programs, right.correct_programs), (2, 1));
        assert_eq!(right.best.as_ref().unwrap().gflops, 40.0);
        assert_eq!(right.reference_gflops, Some(5.0));
        assert_eq!(summary.problems[1].reference_gflops, None);
        assert_eq!(summary.problems[2].failures, 1);
        let table = summary.table().join("\n");
        for part in [
            "none of 2 programs is correct: 2 × wrong_result",
            "no program was judged: 1 sample failed",
            "no program was tried yet",
            "1 of 4 problems has a verified kernel, 8.000× the plain reference",
        ] {
            assert!(table.contains(part), "`{part}` is not in\n{table}");
        }
        assert!(!table.contains("no verified kernel yet"), "{table}");
    }

    #[test]
    fn the_least_certain_verification_of_the_best_programs_has_a_line() {
        let mut summary = summary();
        let said = |summary: &Summary| summary.table().join("\n");
        assert!(
            !said(&summary).contains("verifications"),
            "only a screening"
        );
        let right = summary.problems[0].clone();
        let verified = |sizes| {
            let best = right.best.clone();
            OfProblem {
                best: best.map(|best| Best {
                    sizes: Some(sizes),
                    ..best
                }),
                ..right.clone()
            }
        };
        summary.problems = vec![
            verified(VerifiedSizes::of(8, 8, 8)),
            verified(VerifiedSizes::of(97, 400, 90)),
        ];
        let line = "\nthe least certain of their verifications met 97 of 400 sizes: a program that is wrong at 1 in 20 sizes is found with a probability of 0.99 or more\n";
        assert!(said(&summary).contains(line), "{}", said(&summary));
    }

    #[test]
    fn problems_without_a_row_are_counted_in_a_line() {
        let of = |sample, verdict| vec![outcome(candidate(1, 0, sample), verdict)];
        let solved = Measured::at(40.0).verdict();
        let problems = [of(0, solved), of(1, wrong())];
        let fresh = Fresh::of(problems.iter()).unwrap();
        let line = fresh.line();
        assert!(
            line.starts_with("2 fresh nests were trained on, 1 of them"),
            "{line}"
        );
        assert!(line.ends_with("(1 of 2 programs correct)"), "{line}");
        assert_eq!(Fresh::of([].iter()), None);
        assert_eq!(summary().fresh, None, "every problem of a list has a row");
    }

    #[test]
    fn a_problem_without_a_training_task_has_its_first_evaluation_once_the_run_trains() {
        let of = |problem: &str, purpose, step| {
            let candidate = CandidateRef {
                problem: id(problem),
                purpose,
                ..candidate(step, 0, 0)
            };
            serde_json::to_string(&outcome(candidate, wrong())).unwrap() + "\n"
        };
        let evaluated = of("a", Purpose::EvaluateStart, 0);
        let trained = of("b", Purpose::Train, 1);
        let facts = Facts {
            problems: vec![id("a"), id("b")],
            ..Facts::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let start = |lines: &str| {
            std::fs::write(folder.path().join(files::OUTCOMES), lines).unwrap();
            let summary = summarise("r", folder.path(), &facts).unwrap();
            summary.problems[0].start.clone().map(|start| start.samples)
        };
        assert_eq!(start(&evaluated), None, "other samples may be missing");
        assert_eq!(start(&(evaluated.clone() + &trained)), Some(1));
    }

    #[test]
    fn the_change_of_the_policy_is_told_over_all_problems_with_failures_as_0() {
        let at = |ratio: f64| Measured::at(40.0).ratio(ratio).verdict();
        let (start, end) = (Purpose::EvaluateStart, Purpose::EvaluateEnd);
        let all = [
            ("faster", start, at(2.0)),
            ("faster", start, wrong()),
            ("faster", end, at(4.0)),
            ("faster", end, at(4.0)),
            ("gained", start, wrong()),
            ("gained", Purpose::Train, wrong()),
            ("gained", end, at(3.0)),
            ("same", start, at(2.0)),
            ("same", end, at(2.0)),
            // A mean over other problems at the end than at the start would compare nothing.
            ("half", start, at(100.0)),
        ];
        let lines = all
            .into_iter()
            .zip(0..)
            .map(|((problem, purpose, verdict), sample)| {
                let step = match purpose {
                    Purpose::EvaluateStart => 0,
                    Purpose::EvaluateEnd => 2,
                    _ => 1,
                };
                let candidate = CandidateRef {
                    problem: id(problem),
                    purpose,
                    ..candidate(step, 0, sample)
                };
                serde_json::to_string(&outcome(candidate, verdict)).unwrap() + "\n"
            });
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = lines.collect();
        std::fs::write(folder.path().join(files::OUTCOMES), lines.concat()).unwrap();
        let facts = Facts {
            problems: ["faster", "gained", "same", "half", "idle"]
                .map(id)
                .to_vec(),
            finished: true,
            ..Facts::default()
        };
        let summary = summarise("r", folder.path(), &facts).unwrap();
        let found = summary.over_problems.unwrap();
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}");
        near(found.start_ratio, 1.0);
        near(found.end_ratio, 3.0);
        near(found.gain.unwrap(), 2.0);
        let counts = [
            found.problems,
            found.gain_problems,
            found.gained,
            found.lost,
        ];
        assert_eq!(counts, [3, 2, 1, 0]);
        let table = summary.table().join("\n");
        let line = "1.000× → 3.000× the plain references in the mean over 3 problems, 2.000× the start in the geometric mean over 2 problems, 1 problem with a correct sample only after training";
        assert!(table.contains(line), "{table}");
        assert!(table.contains("1.000× → 4.000×"), "{table}");
        assert_eq!(OverProblems::of(&[]), None);
        assert_eq!(self::summary().over_problems, None, "nothing was evaluated");
    }

    #[test]
    fn the_qd_score_is_that_of_each_problem() {
        let first = |problem: &str, sample, gflops: f64| {
            let candidate = CandidateRef {
                problem: id(problem),
                purpose: Purpose::Train,
                ..candidate(1, 0, sample)
            };
            Outcome {
                techniques: "simd".parse().ok(),
                ..outcome(candidate, Measured::at(gflops).verdict())
            }
        };
        let again = |of: &Outcome| {
            let candidate = CandidateRef {
                purpose: Purpose::Certify,
                remeasures: Some(of.candidate.id.clone()),
                id: of.candidate.id.remeasured(1),
                ..of.candidate.clone()
            };
            Outcome {
                candidate,
                ..of.clone()
            }
        };
        let (a, once) = (first("a", 0, 30.0), first("b", 1, 7.0));
        let lines = [&a, &again(&a), &once].map(|o| serde_json::to_string(o).unwrap() + "\n");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(files::OUTCOMES), lines.concat()).unwrap();
        let facts = Facts {
            problems: vec![id("a"), id("b")],
            ..Facts::default()
        };
        let summary = summarise("r", folder.path(), &facts).unwrap();
        let scores: Vec<f64> = summary.problems.iter().map(|p| p.qd_score).collect();
        assert_eq!(scores, [30.0, 0.0]);
        assert_eq!(summary.qd_score, None, "speeds of different problems");
    }

    #[test]
    fn the_sums_of_a_run_are_those_of_its_problems() {
        let summary = summary();
        let judged: u64 = summary.problems.iter().map(|p| p.judged_programs).sum();
        assert_eq!(judged, summary.judged_programs);
        assert_eq!((summary.solved(), summary.infrastructure_errors), (1, 1));
        assert!((summary.mean_ratio().unwrap() - 8.0).abs() < 1e-9);
    }
}
