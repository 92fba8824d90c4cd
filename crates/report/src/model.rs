//! The data of a report.

use std::collections::BTreeMap;

use flopsmith_protocol::{Interval, PpoMetrics, TechniqueSet, VerifiedSizes, WorkloadMeasurement};

use crate::clock::Clock;

/// A run. Everything but the title may be missing; the page then leaves that part out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// Heading, e.g. `dgemm 256³: GRPO with Staged Quality-Diversity`.
    pub title: String,
    /// Name of the run.
    pub run: String,
    /// When it began, as a person reads it.
    pub started: String,
    /// The run in numbers.
    pub summary: Summary,
    /// Its steps in order.
    pub steps: Vec<StepMetrics>,
    /// The problems of a run over many, in the order of its settings; empty in a run with one.
    pub problems: Vec<OfProblem>,
    /// Stage changes in order.
    pub stage_changes: Vec<StageChange>,
    /// Techniques of the archive view; those found in `cells` when empty.
    pub techniques: TechniqueSet,
    /// The archive.
    pub cells: Vec<CellRow>,
    /// The archive in numbers.
    pub archive: Option<ArchiveStats>,
    /// The best verified program.
    pub best: Option<Best>,
    /// Measured floating-point peak at the run's thread count, 10⁹ operations a second.
    pub peak_gflops: Option<f64>,
    /// Speed of the plain reference, 10⁹ operations a second.
    pub reference_gflops: Option<f64>,
    /// The library it is compared with.
    pub openblas: Option<OpenBlas>,
    /// The fastest program of those tried of the starter model's corpus, measured here.
    pub corpus_best_gflops: Option<f64>,
    /// A sentence about that program which a reader of the comparison must know.
    pub corpus_best_note: Option<String>,
    /// The user's own program, with which a search began.
    pub start_gflops: Option<f64>,
    /// The roofs of the machine, and which of them the problem's programs lie under.
    pub roofline: Option<Roofline>,
    /// The sizes of the problem's programs; none in a run over many problems, and if the problem is gone.
    pub sizes: Option<Sizes>,
    /// How quiet the machine was; none before the first measurement.
    pub noise: Option<Noise>,
    /// The machine, as its timing role attested it; an `advice` list of strings in it is shown as such.
    pub attestation: serde_json::Value,
    /// The run's configuration with every default.
    pub config_toml: String,
    /// How to do it again.
    pub commands: Vec<Command>,
}

/// The sizes of a problem, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Those at which programs are timed, e.g. `n = 256`.
    pub timed: String,
    /// Those that programs are not told, e.g. `n from 64 to 512, multiples of 64`.
    pub hidden: String,
}

/// The noise of a run's measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Noise {
    /// Measurements, without cached ones.
    pub measurements: u64,
    /// Those that were far less precise than their target when their time was over.
    pub unconverged: u64,
    /// Median over the measurements of the median absolute deviation of a program's call times, as a share of their median.
    pub deviation: Option<f64>,
    /// Rounds of all measurements.
    pub rounds: u64,
    /// Those that had no weight, because they were outliers.
    pub outlying: u64,
    /// Programs of the whole run that were timed while other processes were at work on the timed cores; none if this is not
    /// known, because workers timed them or a recorded run was repeated.
    pub disturbed: Option<u64>,
    /// Time of the whole run in which nothing was timed because the machine was not quiet, seconds.
    pub waited_seconds: f64,
    /// The disturbance of the last measurement of the best program, if the machine did not become quiet.
    pub best_disturbed: Option<String>,
}

/// A run in numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Steps done.
    pub steps: u64,
    /// Seconds it took, with the measurements before its roles begin and after its end.
    pub seconds: f64,
    /// Those that count for the budget.
    pub spent_seconds: Option<f64>,
    /// The policy before training.
    pub start: Option<Moment>,
    /// The policy after training.
    pub end: Option<Moment>,
    /// Technique sets with a verified program whose measurement was repeated.
    pub coverage: u64,
    /// Further technique sets, whose programs were measured once only.
    pub coverage_unconfirmed: u64,
    /// Outcomes by kind.
    pub outcomes: BTreeMap<String, u64>,
    /// Lines of the run's outcomes that cannot be read.
    pub unreadable_outcomes: u64,
    /// Infrastructure failures.
    pub infrastructure_errors: u64,
    /// Messages that no role could process.
    pub dead_letters: u64,
    /// Share of wall time by role, and `idle`, of the time in which roles could be at work.
    pub share_of_time: BTreeMap<String, f64>,
    /// Peak memory of all processes of the run together.
    pub peak_memory_bytes: u64,
    /// True if it reached its planned end.
    pub finished: bool,
}

/// Samples of the policy at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moment {
    /// Outcomes that count.
    pub samples: u64,
    /// Share that was verified and measured.
    pub correct_rate: f64,
    /// Share that built.
    pub build_rate: f64,
    /// Mean GFLOPS over all samples, failures counting 0.
    pub mean_gflops: f64,
    /// Mean GFLOPS over the correct ones.
    pub mean_gflops_correct: f64,
    /// Distinct correct programs.
    pub distinct_correct: u64,
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepMetrics {
    /// Its number.
    pub step: u64,
    /// The highest stage of its tasks.
    pub stage: u32,
    /// That stage's name.
    pub stage_name: String,
    /// Seconds from the start of the run to the end of the step.
    pub seconds: f64,
    /// Outcomes that count.
    pub samples: u64,
    /// Share that was verified and measured.
    pub correct_rate: f64,
    /// Mean GFLOPS, failures counting 0.
    pub mean_gflops: f64,
    /// Best of the step's converged measurements; 0 without one.
    pub best_gflops: f64,
    /// Mean reward, where something learns.
    pub mean_reward: Option<f64>,
    /// KL divergence, nats per token.
    pub kl: Option<f64>,
    /// Entropy of the sampling distribution, nats per token.
    pub entropy: Option<f64>,
    /// The part of the metrics that only PPO has.
    pub ppo: Option<PpoMetrics>,
    /// Distinct correct programs.
    pub distinct_correct: Option<u64>,
    /// Outcomes by kind.
    pub outcomes: BTreeMap<String, u64>,
}

/// One problem of a run over many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfProblem {
    /// Its name.
    pub problem: String,
    /// Programs for it that were judged for the first time.
    pub judged: u64,
    /// Those that were verified and measured.
    pub correct: u64,
    /// Technique sets with a program whose measurement was repeated.
    pub coverage: u64,
    /// Its best program.
    pub best: Option<Best>,
    /// Why it has no best program; empty if it has one.
    pub lacks: String,
    /// The file of its own page in the run's folder.
    pub page: String,
    /// The steps that had tasks of it, in order.
    pub steps: Vec<ProblemStep>,
}

/// A step of one problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProblemStep {
    /// Its number.
    pub step: u64,
    /// Share of the problem's samples that was verified and measured.
    pub correct_rate: f64,
    /// Best converged ratio to the plain reference among them; none without one.
    pub best_ratio: Option<f64>,
}

/// A change of stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StageChange {
    /// The step after which it happened.
    pub step: u64,
    /// Name of the stage before.
    pub from: String,
    /// Name of the stage after.
    pub to: String,
    /// The rule's words.
    pub reason: String,
}

/// One cell of the archive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CellRow {
    /// Its techniques.
    pub techniques: TechniqueSet,
    /// Programs in which exactly these were detected.
    pub tried: u64,
    /// Those that were verified and measured.
    pub correct: u64,
    /// Speed of the best whose measurement was repeated, by the second one, 10⁹ operations a second.
    pub best_gflops: Option<f64>,
    /// Where there is none: the best that was measured once only.
    pub unconfirmed_gflops: Option<f64>,
    /// Interval of that program's ratio to the reference.
    pub interval: Option<Interval>,
    /// Width of the widest vector register in its object, bits.
    pub vector_bits: Option<u32>,
    /// Its source.
    pub source: Option<String>,
}

/// An archive in the terms of the literature on quality diversity; the objective is the GFLOPS of a cell's best confirmed program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArchiveStats {
    /// Cells that hold a confirmed program.
    pub filled: u64,
    /// Cells there can be.
    pub cells: u64,
    /// `filled / cells`.
    pub coverage: f64,
    /// Sum of the objective over filled cells.
    pub qd_score: f64,
    /// `qd_score / cells`.
    pub norm_qd_score: f64,
    /// Largest objective.
    pub objective_max: Option<f64>,
    /// Mean objective of filled cells.
    pub objective_mean: Option<f64>,
    /// Programs whose techniques were known.
    pub tried: u64,
    /// Those that were verified and measured.
    pub correct: u64,
}

/// The best verified program.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Its speed, 10⁹ operations a second.
    pub gflops: f64,
    /// Reference time divided by its time.
    pub ratio: f64,
    /// Interval of that ratio.
    pub interval: Interval,
    /// Techniques detected in it.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in its object, bits.
    pub vector_bits: Option<u32>,
    /// The step that wrote it.
    pub step: Option<u64>,
    /// True if it was measured again before it was called the best.
    pub measured_again: bool,
    /// Where its raw samples lie: a file of the run's folder, or a digest in its store.
    pub samples: Option<String>,
    /// Its source.
    pub source: String,
    /// Its speed at each of several workloads; empty where there is one.
    pub workloads: Vec<WorkloadMeasurement>,
    /// The sizes of its verification; none if that was a screening.
    pub sizes: Option<VerifiedSizes>,
    /// Seconds of its calls; none over several workloads, each of which has its own.
    pub call: Option<Clock>,
    /// Bytes that its calls move at least, 10⁹/s, where the bandwidth of memory limits it.
    pub gb_per_second: Option<f64>,
}

impl Best {
    /// True if the speed was measured after the end of the run: the samples of such measurements are in the run's
    /// folder.
    pub fn certified(&self) -> bool {
        self.samples
            .as_deref()
            .is_some_and(|samples| samples.starts_with("certified/"))
    }
}

/// OpenBLAS on this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpenBlas {
    /// Its speed with the core type that is fastest here.
    pub gflops: f64,
    /// That core type; none when detected by the library itself.
    pub core: Option<String>,
    /// Its version; none if the library does not say.
    pub version: Option<String>,
}

/// The limits of a machine by the roofline model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Roofline {
    /// Threads that programs were timed with.
    pub threads: u32,
    /// Operations of a call for each byte it must move at least, FLOP/byte; none where that is not known.
    pub intensity: Option<f64>,
    /// The limit at this intensity with so many threads, 10⁹ operations a second.
    pub roof_gflops: f64,
    /// The resource that sets that roof: `compute` or `memory`.
    pub bound: String,
    /// The smallest cache that holds all bytes a call must move; they need not come from memory then.
    pub cached_in: Option<String>,
    /// Rates of multiply-adds.
    pub ceilings: Vec<Ceiling>,
    /// Rates of reading. The one that sets the roof is called `memory`.
    pub bandwidths: Vec<Bandwidth>,
    /// The roof at each of several workloads, of which intensity and roof above are the geometric means; empty where there is
    /// one.
    pub workloads: Vec<WorkloadRoof>,
}

/// The limit of a machine at one workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkloadRoof {
    /// Name of the workload.
    pub name: String,
    /// Operations of a call for each byte it must move at least, FLOP/byte; none where that is not known.
    pub intensity: Option<f64>,
    /// The limit at this intensity, 10⁹ operations a second.
    pub roof_gflops: f64,
    /// The resource that sets that roof.
    pub bound: String,
    /// Speed of the best program there.
    pub best_gflops: Option<f64>,
}

/// How fast multiply-adds are with vectors of one width.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ceiling {
    /// `scalar`, `256 bits` and so on.
    pub name: String,
    /// Threads that ran at once.
    pub threads: u32,
    /// 10⁹ operations a second, for elements of the problem's size.
    pub gflops: f64,
}

/// How fast one level of the memory hierarchy is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bandwidth {
    /// `L2`, `L3`, `memory`.
    pub name: String,
    /// Threads that read at once.
    pub threads: u32,
    /// 10⁹ bytes a second.
    pub gb_s: f64,
}

/// A command line and its effect.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Command {
    /// Its effect.
    pub what: String,
    /// The command line.
    pub line: String,
}
