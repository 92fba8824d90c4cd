//! Sums up a run's outcomes: a line for each step, and the data of the live view.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use flopsmith_archive::identity::source_digest;
use flopsmith_archive::{BestSoFar, Claim, Fastest};
use flopsmith_protocol::{
    Digest, MachineFacts, Outcome, ProblemId, Purpose, TechniqueSet, Verdict,
};
use serde::{Deserialize, Serialize};

/// The data of the live view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    /// The newest step with an outcome.
    pub step: u64,
    /// Its purpose.
    pub purpose: Option<Purpose>,
    /// Its stage.
    pub stage: u32,
    /// Permission sets seen in it.
    pub permitted: Vec<TechniqueSet>,
    /// Outcomes of it so far, and the number that is expected.
    pub outcomes: (u32, u32),
    /// The last complete step.
    pub last: Option<StepLine>,
    /// The fastest program so far.
    pub best: Option<Claim>,
    /// Technique sets with a verified program whose measurement was repeated; those of different problems count apart.
    pub cells: usize,
    /// Problems with a verified program. With more than one, `best` is none: their speeds cannot be compared.
    pub solved: usize,
    /// Problems with an outcome.
    pub tried: usize,
    /// Outcomes in all.
    pub total: u64,
    /// Infrastructure failures in all; outcomes of unknown cause are not among them.
    pub infrastructure: u64,
    /// The machine, once a timer has published its facts.
    pub machine: Option<MachineFacts>,
    /// The faults for which the last complete step's programs were refused, the most frequent first, each with the
    /// newest example.
    pub refused: Vec<Refused>,
}

impl Progress {
    fn so_far(&self) -> SoFar {
        SoFar {
            best: self.best.as_ref().map(|best| best.speed),
            cells: self.cells as u64,
            solved: self.solved as u64,
            tried: self.tried as u64,
        }
    }
}

/// A fault of some programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub kind: String,
    /// Number of programs with this fault.
    pub count: u64,
    /// The detail of one of them: compiler messages, or the answer that holds no program.
    pub example: String,
}

/// Longest example that is kept, bytes.
const EXAMPLE: usize = 600;

/// One line of `metrics.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The step.
    pub step: u64,
    /// Its purpose.
    pub purpose: Option<Purpose>,
    /// The highest stage of its tasks.
    pub stage: u32,
    /// Milliseconds since 1970 of its last outcome.
    pub ended_unix_ms: u64,
    /// Outcomes that count.
    pub samples: u32,
    /// Share of them that was verified and measured.
    pub correct_rate: f64,
    /// Share of them that built.
    pub build_rate: f64,
    /// Mean GFLOPS of all, failures counting 0.
    pub mean_gflops: f64,
    /// Best converged speed of the step; 0 without one.
    pub best_gflops: f64,
    /// Distinct correct programs; comments and layout make no other one.
    pub distinct_correct: u32,
    /// Outcomes by kind.
    pub outcomes: BTreeMap<String, u64>,
    /// The state of the run when the recorder wrote the line; none in those of [`step_lines`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub so_far: Option<SoFar>,
}

/// A run when a step was over. All displays of the step show these numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SoFar {
    /// See [`Progress::best`].
    pub best: Option<BestSoFar>,
    /// See [`Progress::cells`].
    pub cells: u64,
    /// See [`Progress::solved`].
    pub solved: u64,
    /// See [`Progress::tried`].
    pub tried: u64,
}

/// The lines of the steps that these outcomes belong to, in the order of the steps. Each outcome is passed once; second
/// measurements are of no step.
pub fn step_lines<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<StepLine> {
    let mut steps: BTreeMap<u64, Sum> = BTreeMap::new();
    for outcome in outcomes.filter(|o| o.candidate.purpose != Purpose::Certify) {
        let step = outcome.candidate.step;
        steps.entry(step).or_default().add(outcome);
    }
    steps.values().map(Sum::line).collect()
}

/// Sums up steps. Pure.
#[derive(Default)]
pub(super) struct Book {
    steps: BTreeMap<u64, Sum>,
    lines_written: HashSet<u64>,
    /// The results of each problem that has a verified program.
    found: BTreeMap<ProblemId, Found>,
    tried: HashSet<ProblemId>,
    /// True if further tasks may come once all outcomes of a training step are here.
    draws_again: bool,
    trained: HashSet<u64>,
    /// The newest example of each fault. An example of several lines is preferred to one of a single line.
    examples: BTreeMap<&'static str, String>,
    pub(super) progress: Progress,
}

#[derive(Default)]
struct Found {
    cells: HashSet<TechniqueSet>,
    fastest: Fastest,
}

#[derive(Default)]
struct Sum {
    line: StepLine,
    expected: u32,
    arrived: u32,
    correct: u32,
    built: u32,
    gflops: f64,
    distinct: HashSet<Digest>,
    permitted: BTreeSet<TechniqueSet>,
}

impl Book {
    /// A book that continues after lines that are written already.
    pub(super) fn behind(lines: &[StepLine]) -> Self {
        let mut book = Self {
            lines_written: lines.iter().map(|l| l.step).collect(),
            ..Self::default()
        };
        book.progress.last = lines.last().cloned();
        book
    }

    /// The same for a run that may draw groups of a step again. A step of such a run is over once it was trained, or
    /// once a later one has begun.
    pub(super) fn drawing_again(self, draws_again: bool) -> Self {
        Self {
            draws_again,
            ..self
        }
    }

    /// Notes that a step was trained, so no further outcome of it comes.
    pub(super) fn trained(&mut self, step: u64) {
        self.trained.insert(step);
    }

    fn is_over(&self, step: u64, sum: &Sum) -> bool {
        let open = self.draws_again
            && sum.line.purpose == Some(Purpose::Train)
            && !self.trained.contains(&step)
            && self.progress.step <= step;
        sum.arrived >= sum.expected && !open
    }

    /// Adds an outcome. The caller passes each outcome once.
    pub(super) fn note(&mut self, outcome: &Outcome) {
        let progress = &mut self.progress;
        progress.total += 1;
        if !self.tried.contains(&outcome.candidate.problem) {
            self.tried.insert(outcome.candidate.problem.clone());
            progress.tried = self.tried.len();
        }
        if matches!(outcome.verdict, Verdict::Infrastructure { .. }) {
            progress.infrastructure += 1;
        }
        if let (Some(m), Some(techniques)) = (outcome.verdict.measurement(), outcome.techniques) {
            let repeated = outcome.candidate.purpose == Purpose::Certify;
            let confirmed = repeated && !m.reused && m.converged();
            let problem = outcome.candidate.problem.clone();
            let found = self.found.entry(problem).or_default();
            if confirmed {
                found.cells.insert(techniques);
            }
            progress.solved = self.found.len();
            progress.cells = self.found.values().map(|found| found.cells.len()).sum();
        }
        if let Some(found) = self.found.get_mut(&outcome.candidate.problem) {
            found.fastest.note(outcome);
            let mut all = self.found.values();
            let only = all.next().filter(|_| progress.solved == 1);
            progress.best = only.and_then(|found| found.fastest.best().cloned());
        }
        let candidate = &outcome.candidate;
        if candidate.purpose == Purpose::Certify {
            return;
        }
        if let Verdict::Rejected { fault, detail } = &outcome.verdict {
            let example = self.examples.entry(fault.name()).or_default();
            if detail.contains('\n') || !example.contains('\n') {
                let end = detail.floor_char_boundary(EXAMPLE);
                detail[..end].clone_into(example);
            }
        }
        let sum = self.steps.entry(candidate.step).or_default();
        sum.add(outcome);
        if candidate.step >= progress.step {
            progress.step = candidate.step;
            progress.purpose = Some(candidate.purpose);
            progress.stage = sum.line.stage;
            progress.permitted = sum.permitted.iter().copied().collect();
            progress.outcomes = (sum.arrived, sum.expected);
        }
    }

    /// The faults for which a step's programs were refused.
    fn refused(&self, line: &StepLine) -> Vec<Refused> {
        let mut refused: Vec<Refused> = line
            .outcomes
            .iter()
            // Only faults have examples.
            .filter_map(|(kind, count)| {
                let example = self.examples.get(kind.as_str())?;
                Some(Refused {
                    kind: kind.clone(),
                    count: *count,
                    example: example.clone(),
                })
            })
            .collect();
        refused.sort_by_key(|of| std::cmp::Reverse(of.count));
        refused
    }

    /// Lines of steps that have become complete.
    pub(super) fn complete(&mut self) -> Vec<StepLine> {
        let done: Vec<u64> = self
            .steps
            .iter()
            .filter(|(step, sum)| self.is_over(**step, sum))
            .map(|(step, _)| *step)
            .collect();
        let mut lines = Vec::new();
        for step in done {
            let Some(sum) = self.steps.remove(&step) else {
                continue;
            };
            let line = StepLine {
                so_far: Some(self.progress.so_far()),
                ..sum.line()
            };
            if self.lines_written.insert(step) {
                self.progress.refused = self.refused(&line);
                self.progress.last = Some(line.clone());
                lines.push(line);
            }
        }
        lines
    }
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        let expected = candidate.tasks_in_step * candidate.group_size;
        self.expected = self.expected.max(expected);
        self.arrived += 1;
        self.line.step = candidate.step;
        self.line.purpose = Some(candidate.purpose);
        self.line.stage = self.line.stage.max(candidate.stage);
        self.line.ended_unix_ms = self.line.ended_unix_ms.max(outcome.decided_unix_ms);
        *self
            .line
            .outcomes
            .entry(outcome.verdict.kind().to_owned())
            .or_default() += 1;
        self.permitted.insert(candidate.permitted);
        let measured = outcome.verdict.measurement();
        if let Some(measurement) = measured.filter(|m| m.converged()) {
            self.line.best_gflops = self.line.best_gflops.max(measurement.gflops);
        }
        // The rates and means of a step describe the policy. The sampler altered the answer of an exploration sample,
        // so that answer does not count in them.
        match &outcome.verdict {
            _ if candidate.exploration => {}
            Verdict::Measured { measurement } => {
                self.line.samples += 1;
                self.correct += 1;
                self.built += 1;
                self.gflops += measurement.gflops;
                self.distinct.insert(source_digest(&outcome.source));
            }
            Verdict::Rejected { fault, .. } => {
                self.line.samples += 1;
                self.built += u32::from(fault.built());
            }
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {}
        }
    }

    fn line(&self) -> StepLine {
        let n = f64::from(self.line.samples.max(1));
        StepLine {
            correct_rate: f64::from(self.correct) / n,
            build_rate: f64::from(self.built) / n,
            mean_gflops: self.gflops / n,
            distinct_correct: u32::try_from(self.distinct.len()).unwrap_or(u32::MAX),
            ..self.line.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_archive::Certainty;
    use flopsmith_protocol::{CandidateFault, CandidateRef, InfrastructureCause, Technique};
    use flopsmith_test_support::{
        Measured, candidate, infrastructure, measured as measured_at, outcome, remeasured, unknown,
        wrong,
    };

    fn measured(candidate: CandidateRef, techniques: TechniqueSet) -> Outcome {
        Outcome {
            techniques: Some(techniques),
            ..Measured::at(10.0).outcome(candidate)
        }
    }

    #[test]
    fn a_technique_set_counts_once_a_measurement_of_it_was_repeated() {
        let simd = TechniqueSet::EMPTY.with(Technique::Simd);
        let first = candidate(1, 0, 0);
        let again = remeasured(&first, 1);
        let mut book = Book::default();
        book.note(&measured(first, simd));
        book.note(&measured(candidate(1, 0, 1), TechniqueSet::EMPTY));
        assert_eq!(book.progress.cells, 0);
        book.note(&measured(again, simd));
        assert_eq!(book.progress.cells, 1);
    }

    #[test]
    fn only_failures_of_the_infrastructure_count_as_such() {
        let mut book = Book::default();
        let verdicts = [
            measured_at(10.0),
            wrong(),
            infrastructure(InfrastructureCause::Bus),
            unknown(),
            infrastructure(InfrastructureCause::Store),
        ];
        for (sample, verdict) in (0..).zip(verdicts) {
            book.note(&outcome(candidate(1, 0, sample), verdict));
        }
        assert_eq!((book.progress.infrastructure, book.progress.total), (2, 5));
    }

    #[test]
    fn a_comment_or_another_layout_makes_no_other_program() {
        let of = |sample, source: &str| Outcome {
            source: source.into(),
            ..Measured::at(10.0).outcome(CandidateRef {
                tasks_in_step: 1,
                group_size: 4,
                ..candidate(1, 0, sample)
            })
        };
        let mut book = Book::default();
        book.note(&of(0, "int f(int n) { return n; }"));
        book.note(&of(1, "int f(int n)\n{\n    return n; // as it is\n}\n"));
        book.note(&of(2, "int f(int n) { /* n */ return n; }"));
        book.note(&of(3, "int f(int n) { return n + 1; }"));
        assert_eq!(book.complete().remove(0).distinct_correct, 2);
    }

    #[test]
    fn the_best_is_one_that_was_measured_again() {
        let simd = TechniqueSet::EMPTY.with(Technique::Simd);
        let of = |measured: Measured, candidate| Outcome {
            techniques: Some(simd),
            ..measured.outcome(candidate)
        };
        let mut book = Book::default();
        let best = |book: &Book| book.progress.best.as_ref().map(|best| best.speed.gflops);
        book.note(&of(Measured::at(90.0), candidate(1, 0, 0)));
        assert_eq!(best(&book), Some(90.0));
        let again = |sample| remeasured(&candidate(1, 0, sample), 1);
        book.note(&of(Measured::at(95.0).unconverged(), again(0)));
        assert_eq!((best(&book), book.progress.cells), (Some(90.0), 0));
        book.note(&of(Measured::at(60.0), again(1)));
        assert_eq!((best(&book), book.progress.cells), (Some(60.0), 1));
        book.note(&of(Measured::at(99.0), candidate(2, 0, 0)));
        assert_eq!(best(&book), Some(60.0));
        book.note(&of(Measured::at(70.0), again(2)));
        assert_eq!(best(&book), Some(70.0));
    }

    #[test]
    fn an_unconverged_speed_is_not_the_best_of_a_step() {
        let unsure = |step| {
            Measured::at(95.0)
                .unconverged()
                .outcome(candidate(step, 0, 0))
        };
        let explored = |sample| CandidateRef {
            exploration: true,
            ..candidate(2, 0, sample)
        };
        let outcomes = [
            unsure(1),
            unsure(2),
            Measured::at(50.0).outcome(explored(1)),
            Measured::at(96.0).unconverged().outcome(explored(2)),
        ];
        let lines = step_lines(outcomes.iter());
        let bests: Vec<f64> = lines.iter().map(|line| line.best_gflops).collect();
        assert_eq!(bests, [0.0, 50.0]);
    }

    #[test]
    fn speeds_of_different_problems_are_not_compared() {
        let simd = TechniqueSet::EMPTY.with(Technique::Simd);
        let other = ProblemId::new("other").expect("an id");
        let mut book = Book::default();
        book.note(&measured(remeasured(&candidate(1, 0, 0), 1), simd));
        assert!(book.progress.best.is_some());
        let of_other = CandidateRef {
            problem: other,
            ..remeasured(&candidate(1, 1, 0), 1)
        };
        book.note(&measured(of_other, simd));
        assert_eq!((&book.progress.best, book.progress.solved), (&None, 2));
        assert_eq!(book.progress.cells, 2, "one set of each problem");
    }

    #[test]
    fn the_lines_of_steps_are_those_that_a_recorder_writes() {
        let sized = |sample| CandidateRef {
            tasks_in_step: 1,
            group_size: 2,
            ..candidate(1, 0, sample)
        };
        let outcomes = [
            outcome(sized(0), measured_at(10.0)),
            outcome(sized(1), wrong()),
            outcome(remeasured(&sized(0), 1), measured_at(9.0)),
        ];
        let mut book = Book::default();
        outcomes.iter().for_each(|outcome| book.note(outcome));
        let mut written = book.complete();
        let so_far = written[0].so_far.take().expect("it is known");
        let best = so_far.best.expect("a program was measured");
        assert_eq!((best.gflops, best.certainty), (9.0, Certainty::Again));
        assert_eq!((so_far.cells, so_far.solved, so_far.tried), (1, 1, 1));
        assert_eq!(step_lines(outcomes.iter()), written);
    }

    #[test]
    fn the_worst_workload_is_that_of_the_best_program() {
        let of = |times: &[(&str, f64)], sample| Outcome {
            techniques: Some(TechniqueSet::EMPTY),
            verdict: Verdict::Measured {
                measurement: Measured::at(20.0).over(times),
            },
            ..Measured::at(20.0).outcome(candidate(1, 0, sample))
        };
        let mut book = Book::default();
        let worst = |book: &Book| book.progress.best.clone().and_then(|best| best.worst);
        book.note(&of(&[("a", 1.0), ("b", 4.0)], 0));
        assert_eq!(worst(&book), Some(("a".into(), 20.0)));
        // A slower program is not the best one.
        book.note(&of(&[("a", 1.0), ("b", 0.5)], 1));
        assert_eq!(worst(&book), Some(("a".into(), 20.0)));
        book.note(&Outcome {
            techniques: Some(TechniqueSet::EMPTY),
            ..Measured::at(90.0).outcome(candidate(1, 0, 2))
        });
        assert_eq!(worst(&book), None);
    }

    #[test]
    fn a_step_that_may_be_drawn_again_is_over_once_it_was_trained_or_another_began() {
        let of = |step, group, tasks_in_step| {
            Measured::at(10.0).outcome(CandidateRef {
                tasks_in_step,
                group_size: 1,
                ..candidate(step, group, 0)
            })
        };
        let mut book = Book::default().drawing_again(true);
        book.note(&of(1, 0, 1));
        assert!(book.complete().is_empty());
        book.note(&of(1, 1, 2));
        assert!(book.complete().is_empty());
        book.trained(1);
        assert_eq!(book.complete().remove(0).samples, 2);
        book.note(&of(2, 0, 1));
        assert!(book.complete().is_empty());
        book.note(&of(3, 0, 2));
        let over: Vec<u64> = book.complete().iter().map(|line| line.step).collect();
        assert_eq!(over, [2]);
        let mut plain = Book::default();
        plain.note(&of(1, 0, 1));
        assert_eq!(plain.complete().len(), 1);
    }

    #[test]
    fn the_log_of_a_step_counts_its_faults_with_an_example_of_each() {
        let said = |fault, words: &str| Verdict::Rejected {
            fault,
            detail: words.into(),
        };
        let (format, compile) = (CandidateFault::Format, CandidateFault::CompileError);
        let verdicts = [
            said(format, "no program (40 bytes):\nI am sorry"),
            said(compile, "x.c:1: error"),
            said(format, "no program (9 bytes)"),
            infrastructure(InfrastructureCause::Jail),
        ];
        let mut book = Book::default();
        for (sample, verdict) in (0..).zip(verdicts) {
            let candidate = CandidateRef {
                tasks_in_step: 1,
                group_size: 4,
                ..candidate(1, 0, sample)
            };
            assert!(book.progress.refused.is_empty());
            book.note(&outcome(candidate, verdict));
        }
        assert_eq!(book.complete().len(), 1);
        let refused: Vec<(&str, u64, &str)> = book
            .progress
            .refused
            .iter()
            .map(|r| (r.kind.as_str(), r.count, r.example.as_str()))
            .collect();
        assert_eq!(
            refused,
            [
                ("format", 2, "no program (40 bytes):\nI am sorry"),
                ("compile_error", 1, "x.c:1: error"),
            ]
        );
    }

    #[test]
    fn an_exploration_sample_is_in_no_rate_and_the_step_still_becomes_complete() {
        let (mut with, mut without) = (Book::default(), Book::default());
        let policy = [Measured::at(10.0), Measured::at(20.0)];
        let sized = |sample: u32, of: u32| CandidateRef {
            tasks_in_step: 1,
            group_size: of,
            ..candidate(1, 0, sample)
        };
        for (sample, measured) in (0..).zip(&policy) {
            with.note(&measured.outcome(sized(sample, 3)));
            without.note(&measured.outcome(sized(sample, 2)));
        }
        assert!(with.complete().is_empty());
        let exploration = CandidateRef {
            exploration: true,
            ..sized(2, 3)
        };
        with.note(&Measured::at(90.0).outcome(exploration));
        let (with, without) = (with.complete().remove(0), without.complete().remove(0));
        assert_eq!(with.samples, 2);
        assert_eq!(with.mean_gflops, without.mean_gflops);
        assert_eq!(with.distinct_correct, without.distinct_correct);
        assert_eq!(with.best_gflops, 90.0);
    }
}
