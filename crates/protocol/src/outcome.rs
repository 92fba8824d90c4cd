//! The outcomes of candidates: a measurement, or the cause of its absence.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Digest, MachineClass, NodeId};
use crate::messages::{ArtifactRef, CandidateRef};
use crate::technique::TechniqueSet;

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every reason of this set.
            pub const ALL: &[$name] = &[$($name::$variant),+];
            /// The name used on the wire and in reports.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

closed_set!(
    /// The fault of a candidate. Everything that a candidate can cause is its own fault.
    CandidateFault {
        /// No program could be found in the answer.
        Format => "format",
        /// The source is larger than the problem allows.
        SourceTooLarge => "source_too_large",
        /// A header outside the problem's list is included.
        ForbiddenInclude => "forbidden_include",
        /// The source or the object refers to a library or symbol that is not permitted.
        ForbiddenSymbol => "forbidden_symbol",
        /// Inline assembly, section attributes, constructors and other constructs that no plain kernel needs.
        ForbiddenConstruct => "forbidden_construct",
        /// A technique the task forbids was detected.
        ForbiddenTechnique => "forbidden_technique",
        /// The compiler refused the source.
        CompileError => "compile_error",
        /// The compiler did not finish in its time, memory or output limit.
        CompileLimit => "compile_limit",
        /// The object does not define the entry function.
        MissingEntry => "missing_entry",
        /// The entry function has another type than the problem's.
        WrongSignature => "wrong_signature",
        /// A call did not return in time.
        Timeout => "timeout",
        /// The program died from a signal.
        Crash => "crash",
        /// The program ended its process itself.
        Exited => "exited",
        /// The program asked for more memory than it may have.
        MemoryLimit => "memory_limit",
        /// The program made a system call that the jail forbids.
        ForbiddenSyscall => "forbidden_syscall",
        /// Threads, processes or processor time went on after the call returned.
        LeftRunning => "left_running",
        /// The result differs from the reference by more than the problem's bound.
        WrongResult => "wrong_result",
        /// The same input gave different results.
        Nondeterministic => "nondeterministic",
        /// Memory outside the buffers was written.
        OutOfBounds => "out_of_bounds",
        /// An input was changed.
        InputModified => "input_modified",
        /// A timed call did not do its work.
        SkippedWork => "skipped_work",
        /// The source is no text: bytes that are no UTF-8, control characters.
        NotText => "not_text",
        /// Built with sanitizers, the program was seen to use memory it may not, to do what C leaves undefined, or to race.
        UndefinedBehaviour => "undefined_behaviour",
    }
);

closed_set!(
    /// A failure that no candidate can cause. Such an outcome has no reward.
    InfrastructureCause {
        /// The jail could not be set up.
        Jail => "jail",
        /// The compiler is missing or does not start.
        Compiler => "compiler",
        /// The harness did not start or broke its protocol before the candidate was called.
        Harness => "harness",
        /// The baseline failed.
        Baseline => "baseline",
        /// An artifact could not be stored or read.
        Store => "store",
        /// The message bus failed.
        Bus => "bus",
        /// The node was shut down with the work in its hands.
        Shutdown => "shutdown",
        /// No space or no file handles were left.
        Resources => "resources",
        /// The generator could not write the candidate.
        Generator => "generator",
        /// Faster than this machine can be: an error of the measurement, whoever caused it.
        Implausible => "implausible",
    }
);

closed_set!(
    /// Why it cannot be told whether a candidate or the infrastructure is to blame.
    UnknownCause {
        /// The stage panicked.
        Panicked => "panicked",
        /// A measurement ended without samples.
        NoSamples => "no_samples",
        /// The raw samples of a measurement could not be written.
        UnwritableSamples => "unwritable_samples",
        /// Built with sanitizers, under which the problem's reference runs clean, the program could not be built or came to no
        /// end that says anything: undefined behaviour in it would not have been found.
        Unchecked => "unchecked",
    }
);

/// The rung of the reward ladder a candidate's fault stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultClass {
    /// Format, library or technique violations.
    Violation,
    /// It does not build.
    Compile,
    /// It does not end.
    Timeout,
    /// It dies.
    Runtime,
    /// It computes something else.
    Wrong,
}

impl CandidateFault {
    /// The rung of this fault.
    pub fn class(self) -> FaultClass {
        use CandidateFault as F;
        match self {
            F::Format
            | F::SourceTooLarge
            | F::ForbiddenInclude
            | F::ForbiddenSymbol
            | F::ForbiddenConstruct
            | F::ForbiddenTechnique
            | F::ForbiddenSyscall
            | F::LeftRunning
            | F::SkippedWork
            | F::NotText => FaultClass::Violation,
            F::CompileError | F::CompileLimit | F::MissingEntry | F::WrongSignature => {
                FaultClass::Compile
            }
            F::Timeout => FaultClass::Timeout,
            F::Crash | F::Exited | F::MemoryLimit => FaultClass::Runtime,
            F::WrongResult
            | F::Nondeterministic
            | F::OutOfBounds
            | F::InputModified
            | F::UndefinedBehaviour => FaultClass::Wrong,
        }
    }

    /// Did the program build before it failed?
    pub fn built(self) -> bool {
        use CandidateFault as F;
        !matches!(
            self,
            F::Format
                | F::SourceTooLarge
                | F::NotText
                | F::ForbiddenInclude
                | F::ForbiddenSymbol
                | F::ForbiddenConstruct
                | F::CompileError
                | F::CompileLimit
                | F::MissingEntry
                | F::WrongSignature
        )
    }
}

/// A two-sided confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The share of intervals that cover the true value, e.g. 0.95.
    pub confidence: f64,
}

impl Interval {
    /// Does it say anything? One that is wider than a factor of two comes from a measurement that was over at once.
    pub fn is_telling(&self) -> bool {
        self.low > 0.0 && self.high <= 2.0 * self.low
    }
}

closed_set!(
    /// Why a measurement ended.
    StopReason {
        /// The interval became narrow enough.
        Precise => "precise",
        /// The decision at hand was clear before the interval was narrow.
        Decided => "decided",
        /// The time budget was spent; the interval says how good the number is.
        Budget => "budget",
        /// The time budget was spent, and the number is far less sure than was aimed at. It confirms nothing: a second
        /// measurement may.
        Unconverged => "unconverged",
    }
);

/// The measured speed of a verified program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Useful floating-point operations per second at the timed size, in 10⁹/s: `ratio` times those of the plain reference.
    pub gflops: f64,
    /// Seconds of an undisturbed call, by `gflops`.
    pub seconds_per_call: f64,
    /// Seconds of the fastest timed call by the clock; none if no call counts. One call decides it, so it repeats worse than
    /// `seconds_per_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_seconds: Option<f64>,
    /// Median of the seconds of the timed calls, disturbances included; none if no call counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The plain reference's time divided by the candidate's: above 1 is faster. Each of the two is measured against the baseline.
    pub ratio: f64,
    /// Interval of `ratio`.
    pub interval: Interval,
    /// Standard error of ln(ratio) without the error of the plain reference, which all programs of a timer share: `interval` holds
    /// that as well, but it moves no program past another one.
    pub log_ratio_se: f64,
    /// Timed calls of the candidate.
    pub calls: u32,
    /// Bursts of calls, which candidate and baseline make in turns.
    pub blocks: u32,
    /// Median absolute deviation of the candidate's call times from their median, as a share of it; of a certification the
    /// largest of all its processes.
    pub mdape: f64,
    /// Why it ended.
    pub stop: StopReason,
    /// Raw samples of both sides, as an artifact.
    pub samples: Option<ArtifactRef>,
    /// Digest of the machine attestation that holds for this measurement.
    pub attestation: Digest,
    /// Share of the machine's measured peak at the same thread count for the numbers of the problem: of multiply-adds for floats, of
    /// additions of bytes for whole numbers.
    pub share_of_peak: f64,
    /// True when an identical program had been measured before in this run.
    pub reused: bool,
    /// How far the number holds in other layouts and without caches, for certified measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Number of rounds in which both sides have calls that count; a round is a burst of each side after the other.
    pub rounds: u32,
    /// Number of outlying rounds, which had no weight. The raw samples hold them with all others.
    pub outlying: u32,
    /// The sizes at which the program was verified, where that was done in full; a screening does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<VerifiedSizes>,
}

impl Measurement {
    /// Is it about as sure as was aimed at? A number that is not confirms nothing.
    pub fn converged(&self) -> bool {
        self.stop != StopReason::Unconverged
    }

    /// Lower end of the 95 % interval of `ratio` without the plain reference's part, which all programs of a timer share: what the
    /// program reaches at least.
    pub fn reaches(&self) -> f64 {
        let low = self.ratio * (-1.96 * self.log_ratio_se).exp();
        if low.is_nan() { 0.0 } else { low }
    }

    /// The speed that other programs may be compared with, 10⁹ operations a second: `gflops` where that converged, else the lower end
    /// of its interval. A number that is hardly known would make all others look slow.
    pub fn known_gflops(&self) -> f64 {
        if self.converged() {
            return self.gflops;
        }
        let share = self.reaches() / self.ratio;
        if share.is_finite() {
            self.gflops * share
        } else {
            0.0
        }
    }

    /// Orders programs by how fast they are known to be. A number that did not converge comes before one that did.
    /// Otherwise the speeds decide that the programs reach at least: the largest of many estimates is mostly one that
    /// noise made large.
    pub fn compare(&self, other: &Self) -> Ordering {
        let known = self.converged().cmp(&other.converged());
        known.then(self.reaches().total_cmp(&other.reaches()))
    }
}

/// The sizes at which a program was verified before it counted. A size is a value for each parameter that varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedSizes {
    /// Different sizes that it was called with.
    pub met: u64,
    /// Sizes that the problem permits.
    pub legal: u64,
    /// A program that is wrong at one size in so many, whichever these are, is found with a probability of
    /// [`VerifiedSizes::PROBABILITY`] or more; none where every size was met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_in: Option<u32>,
}

impl VerifiedSizes {
    /// How probable it is at least that a program is found that is wrong at one size in [`VerifiedSizes::one_in`].
    pub const PROBABILITY: f64 = 0.99;

    /// The result of a verification that met `met` of `legal` sizes, `drawn` of which were drawn at random, one from
    /// each of as many equal parts of all sizes: a program that is wrong at a share p of them passes with a probability
    /// of (1 - p) to the power of `drawn` at most (by the inequality of the means, whatever parts the wrong sizes lie
    /// in).
    pub fn of(met: u64, legal: u64, drawn: u32) -> Self {
        let share = 1.0 - (1.0 - Self::PROBABILITY).powf(1.0 / f64::from(drawn.max(1)));
        // A rounding error must not turn 20 into 19.
        let one_in = (1.0 / share + 1e-9).floor().max(1.0) as u32;
        Self {
            met,
            legal,
            one_in: (met < legal).then_some(one_in),
        }
    }
}

impl std::fmt::Display for VerifiedSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { met, legal, one_in } = self;
        match one_in {
            None if *legal == 1 => f.write_str("the only size"),
            None => write!(f, "all {legal} sizes"),
            Some(one_in) => write!(
                f,
                "{met} of {legal} sizes: a program that is wrong at 1 in {one_in} sizes is found with a probability of {} or more",
                Self::PROBABILITY
            ),
        }
    }
}

/// How far a number holds in other layouts, and without caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// The measurement's `ratio` for each layout: the median of two or three processes.
    pub layout_ratios: Vec<f64>,
    /// Largest of them divided by the smallest, minus 1.
    pub layout_spread: f64,
    /// Floor of the seconds of one call that finds none of its arrays in a cache; none where caches cannot be emptied.
    pub cold_seconds_per_call: Option<f64>,
    /// The plain reference's time divided by the candidate's where neither finds anything in a cache, for problems that are
    /// timed so (`[timed] caches`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_ratio: Option<f64>,
    /// Interval of `cold_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_interval: Option<Interval>,
    /// The reason why the calls without caches ended; none if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_stop: Option<StopReason>,
}

impl Certificate {
    /// Are the numbers of calls without caches about as sure as was aimed at, as far as is known?
    pub fn cold_converged(&self) -> bool {
        self.cold_stop != Some(StopReason::Unconverged)
    }
}

/// The verdict on one candidate.
#[expect(
    clippy::large_enum_variant,
    reason = "most verdicts of a run are measurements, and each is one of many in a message"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Verdict {
    /// Verified and timed.
    Measured {
        /// Its speed.
        measurement: Measurement,
    },
    /// The candidate's own fault.
    Rejected {
        /// The fault.
        fault: CandidateFault,
        /// Diagnostics for people and models, at most a few kilobytes.
        detail: String,
    },
    /// Nobody can blame the candidate: it is tried again on another node or leaves its group.
    Infrastructure {
        /// The part that failed.
        cause: InfrastructureCause,
        /// Diagnostics for people.
        detail: String,
    },
    /// Neither can be told; treated like an infrastructure failure and counted apart.
    Unknown {
        /// The reason.
        cause: UnknownCause,
        /// Diagnostics for people.
        detail: String,
    },
}

impl Verdict {
    /// A short name for counting: `measured`, a fault's or a cause's name, or `unknown`.
    pub fn kind(&self) -> &'static str {
        match self {
            Verdict::Measured { .. } => "measured",
            Verdict::Rejected { fault, .. } => fault.name(),
            Verdict::Infrastructure { cause, .. } => cause.name(),
            Verdict::Unknown { .. } => "unknown",
        }
    }

    /// The measurement of a verified program.
    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Verdict::Measured { measurement } => Some(measurement),
            _ => None,
        }
    }

    /// Does this verdict say something about the candidate?
    pub fn counts(&self) -> bool {
        matches!(self, Verdict::Measured { .. } | Verdict::Rejected { .. })
    }
}

/// The end of a candidate's journey. The id of an outcome is its candidate's id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Identifies the candidate.
    pub candidate: CandidateRef,
    /// Its source.
    pub source: String,
    /// Techniques detected in it, once it was preprocessed.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object, bits; none where nothing was built, it has none, or its code cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_bits: Option<u32>,
    /// Its verdict.
    pub verdict: Verdict,
    /// Seconds of work in each stage: compile, verify, time.
    pub stage_seconds: [f32; 3],
    /// Where it was decided.
    pub node: NodeId,
    /// The machine class whose cells it may enter.
    pub machine_class: MachineClass,
    /// Wall clock of the deciding node, milliseconds since 1970, for reports only.
    pub decided_unix_ms: u64,
}
