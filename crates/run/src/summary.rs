//! The summary of a run, computed from the files in its folder.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::journal::Lines;
use flopsmith_actors::pool::Shares;
use flopsmith_actors::role::recorder::{DeadLine, files};
use flopsmith_actors::role::timer::QUARANTINE;
use flopsmith_actors::source::endpoint::spending;
use flopsmith_archive::identity::source_digest;
use flopsmith_archive::{BestSoFar, Certainty, Claim, Fastest};
use flopsmith_endpoint::Spending;
use flopsmith_machine::roofline::Place;
use flopsmith_measure::Chains;
use flopsmith_protocol::{
    CandidateFault, CandidateId, Digest, Interval, MachineFacts, Measurement, Outcome,
    PolicyPublished, ProblemId, Purpose, TechniqueSet, Verdict, VerifiedSizes, WorkloadMeasurement,
};
use flopsmith_report::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::{archive_view, roofline};

/// Samples of the policy at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Number of outcomes that count.
    pub samples: u64,
    /// Share of the samples that was verified and measured.
    pub correct_rate: f64,
    /// Share of the samples that built.
    pub build_rate: f64,
    /// Mean GFLOPS over all samples; failures count as 0.
    pub mean_gflops: f64,
    /// Mean GFLOPS over the correct samples.
    pub mean_gflops_correct: f64,
    /// Mean ratio to the plain reference over all samples; failures count as 0.
    #[serde(default)]
    pub mean_ratio: f64,
    /// Number of distinct correct programs. Programs that differ only in comments and layout count once.
    pub distinct_correct: u64,
}

/// The best verified program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its speed, GFLOPS.
    pub gflops: f64,
    /// Reference time divided by its time.
    pub ratio_to_reference: f64,
    /// Interval of that ratio.
    pub interval: Interval,
    /// Techniques found in it.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in its object, bits.
    pub vector_bits: Option<u32>,
    /// Its source.
    pub source: String,
    /// True if it was measured again before it was reported as the best.
    pub measured_again: bool,
    /// The last speed of a best program, perhaps of another one, that displays of the running run named; none unless the speed
    /// above was measured after the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during_run: Option<BestSoFar>,
    /// Training step that wrote it.
    pub step: u64,
    /// Digest of the machine's attestation at its measurement, see `machines.jsonl`.
    pub attestation: Digest,
    /// Place of its raw samples: a file of the run's folder, or the digest of an artifact in the run's store.
    pub samples: Option<String>,
    /// The disturbance of its last measurement, if the machine did not become quiet.
    pub machine_busy: Option<String>,
    /// True if that measurement ended before its interval was narrow enough.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconverged: bool,
    /// Its speed at each of several workloads; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadMeasurement>,
    /// The sizes of its verification, and the probability of finding a wrong program there; none if that was a screening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<VerifiedSizes>,
    /// Seconds of its calls; none over several workloads, each of which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Clock>,
}

/// The object on the last line of stdout with `--format json`, which also names the run's `folder`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The run.
    pub run: String,
    /// Number of training or search steps done.
    pub steps: u64,
    /// Duration of the run over all its sessions, with the measurements before its roles begin and after its end,
    /// seconds.
    pub seconds: f64,
    /// The part of it that counts for the budget, which displays of the running run show, seconds; none if no roles have begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_seconds: Option<f64>,
    /// The policy before training; none if it was not evaluated, as in a search.
    pub start: Option<Samples>,
    /// The policy after training; none if it was not evaluated.
    pub end: Option<Samples>,
    /// Share of a search's judged programs that were verified and measured; none in training, where `end` has it.
    pub search_correct_rate: Option<f64>,
    /// The best program. None in a run over many problems, whose speeds cannot be compared: `problems` has their best ones.
    pub best: Option<Best>,
    /// Each problem of a run over many, in the order of the settings, also those without any correct program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<OfProblem>,
    /// The policy over all of these problems before and after training; none if no problem was evaluated at both times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_problems: Option<OverProblems>,
    /// The fresh nests that a stream was trained on; none in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<Fresh>,
    /// The user's own program, with which a search began (`--start`), beside the best one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_program: Option<StartProgram>,
    /// Place of the best program under the roofs of the machine that it was measured on; none if the machine's
    /// attestation does not contain the roofs, or if the problem was edited since.
    pub roofline: Option<Place>,
    /// The same at each of several workloads, in the order of `best.workloads`; `roofline` is their mean then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rooflines: Vec<Place>,
    /// Width of the vectors of the compute roof, bits.
    pub roof_vector_bits: Option<u32>,
    /// Measured peak of the machine that the best program was measured on, at the run's thread count. Each session
    /// measures its own peak.
    pub peak_gflops: Option<f64>,
    /// Thread count of that peak; none if the machine's attestation does not contain it.
    pub peak_threads: Option<u32>,
    /// Measured speed of the plain reference.
    pub reference_gflops: Option<f64>,
    /// Speed of OpenBLAS with its fastest core type on this machine.
    pub openblas_gflops: Option<f64>,
    /// The core type of `openblas_gflops`.
    pub openblas_core: Option<String>,
    /// The version of OpenBLAS, if it says it.
    #[serde(default)]
    pub openblas_version: Option<String>,
    /// Speed on this machine of the fastest tried program of the starter's corpus (`command::corpus_best` says how many
    /// were tried).
    pub corpus_best_gflops: Option<f64>,
    /// Vectors that this program was written for and that the machine does not have; none if the machine has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus_best_wider: Option<WiderVectors>,
    /// Number of technique sets with a verified program whose measurement was repeated.
    pub coverage: u64,
    /// Number of further technique sets, whose programs were measured only once.
    pub coverage_unconfirmed: u64,
    /// Sum over technique sets of the speed of the best program whose measurement was repeated, GFLOPS. None in a run over
    /// many problems: `problems` has that of each.
    #[serde(default)]
    pub qd_score: Option<f64>,
    /// Number of outcomes by kind.
    pub outcomes: BTreeMap<String, u64>,
    /// Number of programs that were judged for the first time.
    pub judged_programs: u64,
    /// Number of these programs that were verified and measured.
    pub correct_programs: u64,
    /// Faults for which the other programs were refused, the three most frequent first.
    pub refusals: Vec<Refusal>,
    /// Number of last training or search steps, in a row, without a correct program.
    pub fruitless_steps: u64,
    /// Number of unreadable lines of `outcomes.jsonl`. Their contents are in none of these numbers.
    pub unreadable_outcomes: u64,
    /// Number of infrastructure failures. Failures that are the fault of neither the program nor the infrastructure are
    /// counted only in `outcomes`, as `unknown`.
    pub infrastructure_errors: u64,
    /// Number of messages that left their queues without having been processed, see `dead_letters.jsonl`.
    pub dead_letters: u64,
    /// Number of updates that were left out because their gradient was not finite.
    pub skipped_updates: u64,
    /// The stage in which the run ended, if it did not come to its last one; in a run over many problems, each row has
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stage: Option<EarlyStage>,
    /// Requests to the search's endpoint, and what they cost; none if a source of this machine wrote the programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Spending>,
    /// Share of wall time by role, and `idle`, of the time in which roles could be at work. Measurements before this
    /// time and after the run's end are in `seconds` only.
    pub share_of_time: BTreeMap<String, f64>,
    /// Time in which nothing was timed because the machine was not quiet, seconds.
    pub quarantine_seconds: f64,
    /// Number of programs that were timed while other processes were at work on the timed cores.
    pub disturbed: u64,
    /// Peak memory of this process and of all processes it started (broker, compilers, jails), see
    /// [`crate::machine::Watch`].
    pub peak_memory_bytes: u64,
    /// True when the run reached its planned end.
    pub finished: bool,
}

/// Facts that cannot be read from the run's outcomes; kept in `run.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// `train` or `search`.
    pub job: String,
    /// The problem.
    pub problem: String,
    /// Names of the workloads, if not all of the problem's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Digest of the user's own program, with which a search began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Digest>,
    /// The names of the problems of a run over many; `problem` is then empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemId>,
    /// Start of the run, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Duration of all sessions so far, with the measurements after the end, seconds.
    pub seconds: f64,
    /// Seconds of the budget that are spent: without measurements before the roles begin and after the end; none before the roles
    /// of the first session begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_seconds: Option<f64>,
    /// Number of sessions so far.
    pub sessions: u64,
    /// Speed on this machine of the fastest tried program of the starter's corpus (`command::corpus_best` says how many
    /// were tried).
    pub corpus_best_gflops: Option<f64>,
    /// The ratio of the plain reference to the baseline, as the first session measured it; all ratios of the run's loop
    /// use it. The ratios of the last measurements use a longer measurement.
    pub reference: Option<Chains>,
    /// Shares of the time in which roles could be at work, over all sessions so far.
    pub shares: Shares,
    /// Number of programs that were timed while other processes were at work on the timed cores, over all sessions so
    /// far.
    pub disturbed: u64,
    /// Largest peak memory of a session, with all processes it started.
    pub peak_memory_bytes: u64,
    /// True if the run reached its planned end.
    pub finished: bool,
    /// The fastest programs, certified after the end.
    pub certified: Vec<Certified>,
    /// The fastest programs that were then refused by their own fault; the run's measurements of them do not count.
    pub refused: Vec<CandidateId>,
    /// True if the measurements after the end are made.
    pub concluded: bool,
}

/// A program that was measured after the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certified {
    /// Name of the candidate, whose outcome contains the program.
    pub candidate: CandidateId,
    /// The last measurement.
    pub measurement: Measurement,
    /// File of the run's folder with its raw samples and the machine's attestation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The disturbance of the measurement, if the machine did not become quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_busy: Option<String>,
}

/// The readable lines of a JSON-lines file; empty if there is no file.
pub fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>> {
    Ok(read(path)?.items)
}

fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Lines<T>> {
    let lines = match std::fs::File::open(path) {
        Ok(file) => Lines::read(path, file),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Lines::default()),
        Err(e) => Err(e),
    };
    lines.with_context(|| format!("cannot read {}", path.display()))
}

/// Every outcome of a run, without duplicates.
pub fn outcomes(folder: &Path) -> Result<Vec<Outcome>> {
    Ok(read_outcomes(folder)?.items)
}

fn read_outcomes(folder: &Path) -> Result<Lines<Outcome>> {
    let mut seen: HashSet<CandidateId> = HashSet::new();
    let mut all: Lines<Outcome> = read(&folder.join(files::OUTCOMES))?;
    all.items.retain(|o| seen.insert(o.candidate.id.clone()));
    Ok(all)
}

/// The timing machine as each session attested it, the latest last.
pub fn machines(folder: &Path) -> Result<Vec<MachineFacts>> {
    lines(&folder.join(files::MACHINES))
}

/// The machine that the best program was measured on; the latest machine if there is no best program or its machine is
/// unknown.
pub fn machine_of<'a>(
    machines: &'a [MachineFacts],
    best: Option<&Best>,
) -> Option<&'a MachineFacts> {
    best.and_then(|b| machines.iter().find(|m| m.attestation == b.attestation))
        .or(machines.last())
}

/// The outcomes of each problem, in their order.
pub fn by_problem(outcomes: Vec<Outcome>) -> BTreeMap<ProblemId, Vec<Outcome>> {
    let mut sorted: BTreeMap<ProblemId, Vec<Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        let problem = outcome.candidate.problem.clone();
        sorted.entry(problem).or_default().push(outcome);
    }
    sorted
}

/// Summarises a run.
pub fn summarise(run: &str, folder: &Path, facts: &Facts) -> Result<Summary> {
    let Lines {
        items: outcomes,
        unreadable,
        ..
    } = read_outcomes(folder)?;
    let machines = machines(folder)?;
    let begun = has_begun(&outcomes);
    let whole = sum(
        run,
        folder,
        facts,
        (&outcomes[..], begun),
        unreadable,
        &machines,
    )?;
    match facts.problems.is_empty() {
        true => Ok(Summary {
            early_stage: EarlyStage::of(folder, facts, None, &outcomes),
            ..whole
        }),
        false => problems::divided(whole, folder, facts, (outcomes, begun), &machines),
    }
}

/// Summarises one problem of a run over many, whose outcomes these are. Facts that the problems share, such as the time, are
/// those of the run. `begun` as by [`has_begun`] for the whole run.
pub fn summarise_problem(
    run: &str,
    folder: &Path,
    facts: &Facts,
    problem: &ProblemId,
    (outcomes, begun): (&[Outcome], bool),
) -> Result<Summary> {
    let machines = machines(folder)?;
    problems::one(run, folder, facts, problem, (outcomes, begun), &machines)
}

/// True once a run trains or searches, so that its first evaluation is over.
pub fn has_begun(outcomes: &[Outcome]) -> bool {
    let mut purposes = outcomes.iter().map(|outcome| outcome.candidate.purpose);
    purposes.any(|purpose| matches!(purpose, Purpose::Train | Purpose::Search))
}

/// The sums over these outcomes, which were measured on these machines. `begun` as by [`has_begun`] for the whole run.
fn sum(
    run: &str,
    folder: &Path,
    facts: &Facts,
    (outcomes, begun): (&[Outcome], bool),
    unreadable: u64,
    machines: &[MachineFacts],
) -> Result<Summary> {
    let dead: Vec<DeadLine> = lines(&folder.join(files::DEAD))?;
    let trained: Vec<PolicyPublished> = lines(&folder.join(files::TRAINING))?;
    let best = best(outcomes, &facts.certified, &facts.refused);
    let machine = machine_of(machines, best.as_ref());
    let placed = best
        .as_ref()
        .zip(machine)
        .and_then(|(best, machine)| roofline::of_best(folder, facts, machine, best));
    let placed = placed.unwrap_or_default();
    let start_program = facts.start.as_ref().and_then(|digest| {
        let (certified, refused) = (&facts.certified, &facts.refused);
        StartProgram::of(digest, outcomes, certified, refused, best.as_ref())
    });
    let coverage = archive_view::coverage(outcomes);
    let (judged_programs, correct_programs) = refusals::judged(outcomes);
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    let mut infrastructure = 0;
    let mut steps: HashSet<u64> = HashSet::new();
    for outcome in outcomes {
        *kinds.entry(outcome.verdict.kind().to_owned()).or_default() += 1;
        infrastructure += u64::from(matches!(outcome.verdict, Verdict::Infrastructure { .. }));
        if matches!(outcome.candidate.purpose, Purpose::Train | Purpose::Search) {
            steps.insert(outcome.candidate.step);
        }
    }
    // An interrupted evaluation has no share of correct programs: programs that are slow to write or to run come in
    // last, so the first part is biased.
    let of = |purpose: Purpose, closed: bool| {
        let of_it = || outcomes.iter().filter(|o| o.candidate.purpose == purpose);
        let whole = of_it().next().is_some_and(|o| {
            let expected = u64::from(o.candidate.tasks_in_step) * u64::from(o.candidate.group_size);
            of_it().count() as u64 >= expected
        });
        (whole || closed)
            .then(|| samples(of_it()))
            .filter(|s| s.samples > 0)
    };
    let searched = || {
        let of_it = outcomes.iter();
        samples(of_it.filter(|o| o.candidate.purpose == Purpose::Search))
    };
    let mut share_of_time = facts.shares.by_role.clone();
    let waited = share_of_time.get(QUARANTINE).copied().unwrap_or(0.0);
    share_of_time.insert("idle".into(), facts.shares.idle);
    Ok(Summary {
        run: run.to_owned(),
        steps: steps.len() as u64,
        seconds: facts.seconds,
        spent_seconds: facts.spent_seconds,
        start: of(Purpose::EvaluateStart, begun),
        end: of(Purpose::EvaluateEnd, facts.finished),
        search_correct_rate: Some(searched())
            .filter(|s| s.samples > 0)
            .map(|s| s.correct_rate),
        roofline: Place::over(&placed.places),
        rooflines: match placed.places.len() {
            0 | 1 => Vec::new(),
            _ => placed.places,
        },
        roof_vector_bits: placed.vector_bits,
        peak_gflops: machine.map(|m| m.peak_gflops),
        peak_threads: machine.and_then(roofline::threads),
        reference_gflops: machine.map(|m| m.reference_gflops),
        openblas_gflops: machine.and_then(|m| m.openblas_gflops),
        openblas_core: machine.and_then(|m| m.openblas_core.clone()),
        openblas_version: machine.and_then(|m| m.openblas_version.clone()),
        best,
        problems: Vec::new(),
        over_problems: None,
        fresh: None,
        start_program,
        corpus_best_gflops: facts.corpus_best_gflops,
        corpus_best_wider: facts
            .corpus_best_gflops
            .and_then(|_| WiderVectors::of_run(folder)),
        coverage: coverage.confirmed,
        coverage_unconfirmed: coverage.unconfirmed,
        qd_score: Some(archive_view::qd_score(outcomes)),
        judged_programs,
        correct_programs,
        refusals: refusals::refusals(outcomes),
        fruitless_steps: refusals::fruitless_steps(outcomes),
        outcomes: kinds,
        unreadable_outcomes: unreadable,
        infrastructure_errors: infrastructure,
        dead_letters: dead.len() as u64,
        skipped_updates: trained
            .iter()
            .filter_map(|p| p.metrics.as_ref())
            .map(|m| u64::from(m.skipped_updates))
            .sum(),
        early_stage: None,
        endpoint: spending(folder)
            .with_context(|| format!("cannot read {}", folder.join(files::REQUESTS).display()))?,
        share_of_time,
        quarantine_seconds: waited * facts.shares.seconds,
        disturbed: facts.disturbed,
        peak_memory_bytes: facts.peak_memory_bytes,
        finished: facts.finished,
    })
}

/// The statistics of some outcomes.
pub fn samples<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Samples {
    let mut sum = Samples::default();
    let (mut correct, mut built, mut gflops, mut ratio) = (0u64, 0u64, 0.0, 0.0);
    let mut distinct = HashSet::new();
    for outcome in outcomes.filter(|o| o.verdict.counts()) {
        sum.samples += 1;
        match &outcome.verdict {
            Verdict::Measured { measurement } => {
                correct += 1;
                built += 1;
                gflops += measurement.gflops;
                ratio += measurement.ratio;
                distinct.insert(source_digest(&outcome.source));
            }
            Verdict::Rejected { fault, .. } => built += u64::from(fault.built()),
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {}
        }
    }
    let n = sum.samples.max(1) as f64;
    sum.correct_rate = correct as f64 / n;
    sum.build_rate = built as f64 / n;
    sum.mean_gflops = gflops / n;
    sum.mean_gflops_correct = gflops / correct.max(1) as f64;
    sum.mean_ratio = ratio / n;
    sum.distinct_correct = distinct.len() as u64;
    sum
}

/// True unless this is a repeated measurement (`again`) that did not converge: such a measurement confirms nothing.
fn confirms(measurement: &Measurement, again: bool) -> bool {
    !again || measurement.converged()
}

/// The sources in which sanitizers found faults. Such a program was measured first and checked by the sanitizers just
/// before it became an elite, so its first measurement exists and does not count.
fn broken(outcomes: &[Outcome]) -> HashSet<&str> {
    let found = outcomes.iter().filter(|o| {
        let fault = CandidateFault::UndefinedBehaviour;
        matches!(&o.verdict, Verdict::Rejected { fault: f, .. } if *f == fault)
    });
    found.map(|o| o.source.as_str()).collect()
}

/// The `count` fastest different programs: first those with a repeated measurement, then the others, each group by
/// speed.
pub fn finalists(outcomes: &[Outcome], count: usize) -> Vec<&Outcome> {
    let broken = broken(outcomes);
    let measured = |again: bool| {
        let mut all: Vec<(&Measurement, &Outcome)> = outcomes
            .iter()
            .filter(|o| (o.candidate.purpose == Purpose::Certify) == again)
            .filter_map(|o| Some((o.verdict.measurement()?, o)))
            .filter(|(m, _)| confirms(m, again))
            .collect();
        all.sort_by(|(a, _), (b, _)| b.compare(a));
        all
    };
    let mut seen = HashSet::new();
    measured(true)
        .into_iter()
        .chain(measured(false))
        .filter(|(_, o)| !broken.contains(o.source.as_str()) && seen.insert(o.source.as_str()))
        .map(|(_, o)| o)
        .take(count)
        .collect()
}

/// The fastest program: of those measured after the end of the run; else of those whose measurement was repeated; else
/// (in a run cut short) of all programs, and `measured_again` is then false.
///
/// Many programs are close to the fastest, and the fastest of many short measurements owes its rank partly to luck. The
/// measurement after the end has no part in choosing the programs that it measures. A program that was refused after
/// the end is never the best, whichever outcome brought it.
fn best(outcomes: &[Outcome], certified: &[Certified], refused: &[CandidateId]) -> Option<Best> {
    let last = certified
        .iter()
        .max_by(|a, b| a.measurement.compare(&b.measurement))
        .and_then(|c| {
            let outcome = outcomes.iter().find(|o| o.candidate.id == c.candidate)?;
            Some((c, outcome))
        });
    if let Some((certified, outcome)) = last {
        return Some(Best {
            samples: certified.record.clone(),
            machine_busy: certified.machine_busy.clone(),
            during_run: fastest(outcomes, &[]).map(|claim| claim.speed),
            ..Best::of(outcome, &certified.measurement, true)
        });
    }
    let claim = fastest(outcomes, refused)?;
    let outcome = outcomes
        .iter()
        .find(|o| o.candidate.id == claim.candidate)?;
    let again = claim.speed.certainty == Certainty::Again;
    Some(Best::of(outcome, outcome.verdict.measurement()?, again))
}

/// The fastest program by the measurements of the run itself, by the rule of the live view, without the refused ones.
fn fastest(outcomes: &[Outcome], refused: &[CandidateId]) -> Option<Claim> {
    let refused = outcomes
        .iter()
        .filter(|o| refused.contains(&o.candidate.id))
        .map(|o| o.source.as_str());
    let mut fastest = Fastest::without(refused.chain(broken(outcomes)));
    outcomes.iter().for_each(|outcome| fastest.note(outcome));
    fastest.best().cloned()
}

impl Best {
    fn of(outcome: &Outcome, measurement: &Measurement, measured_again: bool) -> Self {
        Self {
            gflops: measurement.gflops,
            ratio_to_reference: measurement.ratio,
            interval: measurement.interval,
            techniques: outcome.techniques.unwrap_or_default(),
            vector_bits: outcome.vector_bits,
            source: outcome.source.clone(),
            measured_again,
            during_run: None,
            step: outcome.candidate.step,
            attestation: measurement.attestation.clone(),
            samples: measurement.samples.as_ref().map(|a| a.digest.to_string()),
            machine_busy: None,
            unconverged: !measurement.converged(),
            workloads: measurement.workloads.clone(),
            sizes: measurement.sizes,
            call: measurement
                .workloads
                .is_empty()
                .then(|| Clock::of(measurement)),
        }
    }
}

mod corpus;
mod family;
mod problems;
mod refusals;
mod stages;
mod start;
mod table;

pub use corpus::WiderVectors;
pub use family::{Family, FastestVariant, Origin};
pub use problems::{Fresh, OfProblem, OverProblems};
pub use refusals::Refusal;
pub use stages::EarlyStage;
pub(crate) use start::measurement_of;
pub use start::{StartProgram, to_certify};

#[cfg(test)]
mod tests;
