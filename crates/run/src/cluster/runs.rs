//! The runs of a cluster: the progress and the health of each.

use std::collections::{BTreeMap, VecDeque};

use flopsmith_actors::stream;
use flopsmith_config::Settings;
use flopsmith_protocol::{
    InfrastructureCause, Interval, Outcome, ProblemId, Purpose, RunId, RunSpec, Verdict,
    WorkloadMeasurement,
};
use serde::Serialize;

use super::board::age;
use crate::console::{Column, table};
use crate::digits::{four, give_or_take, share};

/// A run without an outcome for this long is reported as standing still, milliseconds.
const STILL_MS: u64 = 180_000;
/// Number of the newest outcomes of a run that its health is judged by.
const NEWEST: usize = 256;
/// With fewer outcomes the health is not judged.
const TELLING: usize = 16;

/// A run at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Its name.
    pub run: String,
    /// `training` or `search`.
    pub job: &'static str,
    /// Machines that time its programs.
    pub class: String,
    /// The newest step with an outcome; none before the first.
    pub step: Option<u64>,
    /// Steps at most, where its settings limit them.
    pub max_steps: Option<u64>,
    /// The purpose of the step.
    pub phase: Option<&'static str>,
    /// The step's stage.
    pub stage: Option<u32>,
    /// The fastest program of its outcomes looked at, 10⁹ operations a second.
    pub best_gflops: Option<f64>,
    /// The worst workload of that program and its ratio to the plain reference there; none where there is one workload.
    pub worst: Option<(String, f64)>,
    /// Interval of that ratio.
    pub worst_interval: Option<Interval>,
    /// Each problem of a run over many, also those without a program so far; empty in a run with one problem, whose numbers
    /// are those of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<OfProblem>,
    /// Share of its newest programs that was correct; none where none was judged.
    pub correct_rate: Option<f64>,
    /// Seconds that are left of its budget; none where the run does not say when it began.
    pub left_seconds: Option<f64>,
    /// Since its last outcome, seconds.
    pub silent_seconds: Option<f64>,
    /// The run's health; if it is not well, with the reason.
    pub health: Health,
}

/// A problem of a run over many at a moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfProblem {
    /// Its name.
    pub problem: ProblemId,
    /// Programs for it among the outcomes looked at that were judged, and the correct ones among these.
    pub judged: u64,
    /// See `judged`.
    pub correct: u64,
    /// The best ratio to its plain reference among these; none without a measurement that converged.
    pub best_ratio: Option<f64>,
    /// Interval of that ratio.
    pub best_interval: Option<Interval>,
}

/// Whether a run is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum Health {
    /// It goes on.
    Well,
    /// Nothing was decided yet.
    Begins,
    /// The run needs attention, for this reason.
    Ill(String),
}

/// The outcomes of each run.
#[derive(Debug, Default)]
pub struct Runs(BTreeMap<RunId, Seen>);

#[derive(Debug, Default)]
struct Seen {
    last_unix_ms: u64,
    step: u64,
    purpose: Option<Purpose>,
    stage: u32,
    best: Option<f64>,
    worst: Option<WorkloadMeasurement>,
    problems: BTreeMap<ProblemId, Tally>,
    /// Verdicts of the newest programs, the newest last.
    newest: VecDeque<&'static str>,
}

/// The programs of a problem.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    judged: u64,
    correct: u64,
    /// The best ratio that converged, and its interval.
    best: Option<(f64, Interval)>,
}

impl Runs {
    /// Counts an outcome.
    pub fn note(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        let seen = self.0.entry(candidate.run.clone()).or_default();
        seen.last_unix_ms = seen.last_unix_ms.max(outcome.decided_unix_ms);
        if let Verdict::Measured { measurement } = &outcome.verdict
            && measurement.converged()
        {
            let faster = seen.best.is_none_or(|best| best < measurement.gflops);
            if faster {
                seen.best = Some(measurement.gflops);
                seen.worst = measurement.worst().cloned();
            }
        }
        // A second measurement belongs to a program of an earlier step.
        if candidate.purpose == Purpose::Certify {
            return;
        }
        if outcome.verdict.counts() {
            let problem = candidate.problem.clone();
            let tally = seen.problems.entry(problem).or_default();
            tally.judged += 1;
            if let Some(measurement) = outcome.verdict.measurement() {
                tally.correct += 1;
                let ratio = measurement.ratio;
                let better = tally.best.is_none_or(|(best, _)| best < ratio);
                if measurement.converged() && better {
                    tally.best = Some((ratio, measurement.interval));
                }
            }
        }
        if candidate.step >= seen.step {
            seen.step = candidate.step;
            seen.purpose = Some(candidate.purpose);
            seen.stage = candidate.stage;
        }
        // A request is no program.
        if outcome.asked().is_none() {
            seen.newest.push_back(outcome.verdict.kind());
        }
        if seen.newest.len() > NEWEST {
            seen.newest.pop_front();
        }
    }

    /// Forgets the runs that the bus does not know any more and whose last outcome is older.
    pub fn forget(&mut self, known: &[RunSpec], before_unix_ms: u64) {
        self.0.retain(|run, seen| {
            seen.last_unix_ms >= before_unix_ms || known.iter().any(|spec| spec.run == *run)
        });
    }

    /// The state of a run that the bus knows.
    pub fn run(&self, spec: &RunSpec, now_unix_ms: u64) -> Run {
        let settings: Option<Settings> = serde_json::from_str(&spec.settings_json).ok();
        let seen = self.0.get(&spec.run).filter(|seen| seen.purpose.is_some());
        let listed = listed(spec, settings.as_ref());
        // A stream may evaluate one nest, and is trained on many.
        let many = settings.as_ref().is_some_and(Settings::has_many) || !spec.others.is_empty();
        let silent = seen.map(|seen| now_unix_ms.saturating_sub(seen.last_unix_ms));
        let left = spec.session.zip(settings.as_ref()).map(|(session, of)| {
            let now = now_unix_ms.saturating_sub(session.began_unix_ms);
            of.budget_seconds - (session.before_ms + now) as f64 / 1000.0
        });
        // Speeds of different problems cannot be compared.
        let of_one = seen.filter(|_| !many);
        let worst = of_one.and_then(|seen| seen.worst.as_ref());
        Run {
            run: spec.run.to_string(),
            job: if spec.trains { "training" } else { "search" },
            class: spec.machine_class.to_string(),
            step: seen.map(|seen| seen.step),
            max_steps: settings.map(|of| of.max_steps).filter(|most| *most > 0),
            phase: seen.and_then(|seen| seen.purpose).map(phase),
            stage: seen.map(|seen| seen.stage),
            best_gflops: of_one.and_then(|seen| seen.best),
            worst: worst.map(|worst| (worst.name.clone(), worst.ratio)),
            worst_interval: worst.map(|worst| worst.interval),
            problems: match many {
                true => problems(listed, seen),
                false => Vec::new(),
            },
            correct_rate: seen.and_then(Seen::correct_rate),
            left_seconds: left.map(|left| left.max(0.0)),
            silent_seconds: silent.map(|ms| ms as f64 / 1000.0),
            health: health(seen, silent),
        }
    }
}

/// The names of a run's problems. The announcement of a stream has the first of its evaluated nests only.
fn listed(spec: &RunSpec, settings: Option<&Settings>) -> Vec<ProblemId> {
    let stream = settings.filter(|settings| settings.is_stream());
    let evaluated = stream.and_then(|settings| stream::evaluated(settings).ok());
    let announced = || spec.problems().map(|files| files.id.clone()).collect();
    evaluated.unwrap_or_else(announced)
}

/// The problems of a run over many, in the run's order.
fn problems(ids: Vec<ProblemId>, seen: Option<&Seen>) -> Vec<OfProblem> {
    let rows = ids.into_iter().map(|problem| {
        let of = seen.and_then(|seen| seen.problems.get(&problem));
        let of = of.copied().unwrap_or_default();
        OfProblem {
            problem,
            judged: of.judged,
            correct: of.correct,
            best_ratio: of.best.map(|(ratio, _)| ratio),
            best_interval: of.best.map(|(_, interval)| interval),
        }
    });
    rows.collect()
}

/// The name of a step's purpose.
fn phase(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::EvaluateStart => "evaluation before",
        Purpose::EvaluateEnd => "evaluation after",
        Purpose::Train => "training",
        Purpose::Search => "search",
        Purpose::Certify => "measuring again",
    }
}

impl Seen {
    fn judged(&self) -> impl Iterator<Item = &'static str> {
        let blameless = |kind: &str| kind == "unknown" || is_infrastructure(kind);
        self.newest
            .iter()
            .copied()
            .filter(move |kind| !blameless(kind))
    }

    fn correct_rate(&self) -> Option<f64> {
        let judged = self.judged().count();
        let correct = self.judged().filter(|kind| *kind == "measured").count();
        (judged > 0).then(|| correct as f64 / judged as f64)
    }

    /// The commonest verdict among those of the newest programs that `wanted` accepts.
    fn commonest(&self, wanted: impl Fn(&str) -> bool) -> Option<&'static str> {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for kind in self.newest.iter().filter(|kind| wanted(kind)) {
            *counts.entry(kind).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.map(|(kind, _)| kind)
    }
}

fn is_infrastructure(kind: &str) -> bool {
    InfrastructureCause::ALL
        .iter()
        .any(|cause| cause.name() == kind)
}

/// Judges a run by its newest outcomes.
fn health(seen: Option<&Seen>, silent_ms: Option<u64>) -> Health {
    let (Some(seen), Some(silent)) = (seen, silent_ms) else {
        return Health::Begins;
    };
    if silent > STILL_MS {
        let words = age(silent as f64 / 1000.0);
        return Health::Ill(format!("no program was decided for {words}"));
    }
    if seen.newest.len() < TELLING {
        return Health::Well;
    }
    let failures = seen.newest.len() - seen.judged().count();
    if 4 * failures > seen.newest.len() {
        let kind = seen.commonest(|kind| kind == "unknown" || is_infrastructure(kind));
        let part = share(failures as f64 / seen.newest.len() as f64);
        return Health::Ill(format!(
            "{part} failed on nodes, mostly {}",
            kind.unwrap_or("unknown")
        ));
    }
    if seen.correct_rate() == Some(0.0) {
        let kind = seen.commonest(|kind| !is_infrastructure(kind));
        return Health::Ill(format!(
            "no program is correct, mostly {}",
            kind.unwrap_or("refused")
        ));
    }
    Health::Well
}

impl Run {
    /// The headings of [`Run::rows`], and which of them are above numbers.
    pub const COLUMNS: [Column<'static>; 7] = [
        ("run", false),
        ("phase", false),
        ("step", true),
        ("correct", true),
        ("best", true),
        ("left", true),
        ("health", false),
    ];

    /// The row of the run, and one for each of its problems if it has many.
    pub fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        std::iter::once(self.cells()).chain(self.of_problems())
    }

    /// The step, and the greatest number of steps if it is limited.
    fn steps(&self) -> String {
        match (self.step, self.max_steps) {
            (None, _) => "–".to_owned(),
            (Some(step), None) => step.to_string(),
            (Some(step), Some(most)) => format!("{step}/{most}"),
        }
    }

    /// How many of many problems have a correct program.
    fn solved(&self) -> Option<String> {
        let solved = self.problems.iter().filter(|of| of.correct > 0).count();
        let all = self.problems.len();
        (all > 0).then(|| format!("{solved} of {all} problems"))
    }

    /// A line for each problem of a run over many.
    fn of_problems(&self) -> impl Iterator<Item = Vec<String>> {
        self.problems.iter().map(|of| {
            let rate = match of.judged {
                0 => "–".to_owned(),
                judged => share(of.correct as f64 / judged as f64),
            };
            let best = match (of.best_ratio.zip(of.best_interval), of.judged) {
                (Some((ratio, interval)), _) => times(ratio, &interval),
                (None, 0) => "not tried".to_owned(),
                (None, judged) if of.correct == 0 => format!("none of {judged}"),
                (None, _) => "not converged".to_owned(),
            };
            let empty = String::new;
            let name = format!("  {}", of.problem);
            vec![name, empty(), empty(), rate, best, empty(), empty()]
        })
    }

    /// The worst workload of the fastest program and its ratio.
    fn worst_words(&self) -> Option<String> {
        let (name, ratio) = self.worst.as_ref()?;
        let ratio = times(*ratio, self.worst_interval.as_ref()?);
        Some(format!("worst {name} {ratio}"))
    }

    fn cells(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let health = match &self.health {
            Health::Well => "well".to_owned(),
            Health::Begins => "no program is decided yet".to_owned(),
            Health::Ill(why) => why.clone(),
        };
        vec![
            self.run.clone(),
            self.phase.unwrap_or(self.job).to_owned(),
            self.steps(),
            or_dash(self.correct_rate.map(share)),
            or_dash(
                self.solved()
                    .or(self.best_gflops.map(|best| match self.worst_words() {
                        Some(worst) => format!("{} ({worst})", four(best)),
                        None => four(best),
                    })),
            ),
            or_dash(self.left_seconds.map(age)),
            health,
        ]
    }
}

/// A ratio and the half width of its interval.
fn times(ratio: f64, interval: &Interval) -> String {
    format!("{}× {}", four(ratio), give_or_take(ratio, interval))
}

/// The runs as lines of text.
pub fn lines(runs: &[Run]) -> Vec<String> {
    let mut lines = table(&Run::COLUMNS, runs.iter().flat_map(|run| run.rows()));
    if runs.is_empty() {
        lines.push("no run is known".to_owned());
    }
    lines
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use flopsmith_protocol::{CandidateFault, CandidateRef, ProblemFiles, Request, Session};
    use flopsmith_test_support::{
        Measured, asked, candidate, infrastructure, machine_class, measured, outcome, problem_id,
        rejected, run_id,
    };

    use super::*;

    const NOW: u64 = 1_000_000_000;

    fn spec(settings: &Settings, session: Option<Session>) -> RunSpec {
        RunSpec {
            run: run_id(),
            version: "1".into(),
            problem: ProblemFiles {
                id: problem_id(),
                definition: String::new(),
                reference: String::new(),
                baseline: None,
                magnitude: None,
            },
            others: Vec::new(),
            settings_json: serde_json::to_string(settings).unwrap(),
            machine_class: machine_class(),
            trains: true,
            model: Vec::new(),
            store: None,
            session,
        }
    }

    /// A run after these verdicts, eight in each step, decided `ago_ms` before.
    fn after(verdicts: &[Verdict], ago_ms: u64) -> Run {
        let mut runs = Runs::default();
        for (number, verdict) in (0u64..).zip(verdicts) {
            let candidate = CandidateRef {
                purpose: Purpose::Train,
                ..candidate(number / 8, 0, (number % 8) as u32)
            };
            runs.note(&Outcome {
                decided_unix_ms: NOW - ago_ms,
                ..outcome(candidate.clone(), verdict.clone())
            });
            // A policy may also make requests.
            let document = "gemm.md".to_owned();
            runs.note(&Outcome {
                decided_unix_ms: NOW - ago_ms,
                ..asked(candidate, Request::Read { document })
            });
        }
        let settings = Settings {
            budget_seconds: 600.0,
            max_steps: 40,
            ..Settings::default()
        };
        let session = Session {
            began_unix_ms: NOW - 60_000,
            before_ms: 120_000,
        };
        runs.run(&spec(&settings, Some(session)), NOW)
    }

    #[test]
    fn a_run_says_how_far_it_is_and_how_long_it_may_go_on() {
        let mut verdicts = vec![measured(40.0), rejected(CandidateFault::Crash)];
        verdicts.extend(vec![measured(30.0); 21]);
        // The speed of an unconverged measurement is unknown.
        verdicts.push(Measured::at(300.0).unconverged().verdict());
        let run = after(&verdicts, 5_000);
        assert_eq!((run.step, run.max_steps), (Some(2), Some(40)));
        assert_eq!(run.best_gflops, Some(40.0));
        assert_eq!(run.left_seconds, Some(420.0));
        assert_eq!(run.silent_seconds, Some(5.0));
        assert_eq!(run.health, Health::Well);
        let line = lines(&[run]).pop().unwrap();
        for part in ["training", "2/40", "95.8 %", "40.00", "7 min", "well"] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        // The first session of this run has not been announced yet.
        let old = Runs::default().run(&spec(&Settings::default(), None), NOW);
        assert_eq!((old.left_seconds, old.step), (None, None));
        assert_eq!(old.health, Health::Begins);
        assert!(lines(&[old])[1].ends_with("no program is decided yet"));
    }

    #[test]
    fn a_run_over_many_problems_has_a_line_for_each() {
        let names = ["solved", "failing", "unsure", "idle"];
        let [solved, failing, unsure, idle] = names.map(|name| ProblemFiles {
            id: ProblemId::new(name).unwrap(),
            definition: String::new(),
            reference: String::new(),
            baseline: None,
            magnitude: None,
        });
        let unconverged = || Measured::at(300.0).unconverged().verdict();
        let mut runs = Runs::default();
        let outcomes = [
            (&solved, Measured::at(40.0).ratio(8.0).verdict()),
            (&solved, rejected(CandidateFault::Crash)),
            (&solved, unconverged()),
            (&failing, rejected(CandidateFault::Format)),
            (&unsure, unconverged()),
        ];
        for (sample, (of, verdict)) in (0..).zip(outcomes) {
            let candidate = CandidateRef {
                problem: of.id.clone(),
                purpose: Purpose::Train,
                ..candidate(1, 0, sample)
            };
            runs.note(&outcome(candidate, verdict));
        }
        let spec = RunSpec {
            problem: solved,
            others: vec![failing, unsure, idle],
            ..spec(&Settings::default(), None)
        };
        let run = runs.run(&spec, NOW);
        assert_eq!(run.best_gflops, None);
        let lines = lines(&[run]);
        assert_eq!(lines.len(), 1 + 1 + 4, "{lines:?}");
        for (line, parts) in lines[1..].iter().zip([
            ["2 of 4 problems", ""],
            ["solved", "8.000× ±2.0 %"],
            ["failing", "none of 1"],
            ["unsure", "not converged"],
            ["idle", "not tried"],
        ]) {
            for part in parts {
                assert!(line.contains(part), "{part} is not in {line}");
            }
        }
    }

    #[test]
    fn the_ratio_of_the_worst_workload_has_its_error() {
        let measurement = Measured::at(40.0).over(&[("n=8", 0.5), ("n=16", 2.0)]);
        let line = lines(&[after(&[Verdict::Measured { measurement }], 0)]).remove(1);
        assert!(line.contains("40.00 (worst n=8 20.00× ±2.0 %)"), "{line}");
    }

    #[test]
    fn speeds_of_fresh_nests_are_not_compared_beside_one_evaluated_nest() {
        let mut runs = Runs::default();
        let candidate = CandidateRef {
            problem: ProblemId::new("random_3").unwrap(),
            purpose: Purpose::Train,
            ..candidate(1, 0, 0)
        };
        runs.note(&outcome(candidate, measured(40.0)));
        let stream = Settings {
            problem: String::new(),
            suite: "random".into(),
            evaluate_tasks: 1,
            ..Settings::default()
        };
        let run = runs.run(&spec(&stream, None), NOW);
        assert_eq!((run.best_gflops, run.problems.len()), (None, 1));
        // The announcement has the first of the evaluated nests, and all have a row.
        let several = Settings {
            evaluate_tasks: 3,
            ..stream
        };
        let rows = runs.run(&spec(&several, None), NOW).problems;
        assert_eq!(rows.len(), 3, "{rows:?}");
    }

    #[test]
    fn a_run_that_needs_somebody_says_why() {
        let jail = || infrastructure(InfrastructureCause::Jail);
        let many = |verdict: Verdict| vec![verdict; 20];
        let ill = |verdicts: &[Verdict], ago| match after(verdicts, ago).health {
            Health::Ill(why) => why,
            other => panic!("{other:?}"),
        };
        let format = rejected(CandidateFault::Format);
        assert_eq!(
            ill(&many(format.clone()), 0),
            "no program is correct, mostly format"
        );
        assert!(ill(&many(jail()), 0).starts_with("100.0 % failed on nodes, mostly jail"));
        assert_eq!(
            ill(&many(measured(1.0)), 600_000),
            "no program was decided for 10 min"
        );
        // A few outcomes are not judged, and a node that failed once is no reason for concern.
        assert_eq!(after(&[format.clone(), format], 0).health, Health::Well);
        let mut some = many(measured(1.0));
        some.push(jail());
        assert_eq!(after(&some, 0).health, Health::Well);
    }
}
