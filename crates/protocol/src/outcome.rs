//! The outcomes of candidates: a measurement, or the cause of its absence.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{Digest, MachineClass, NodeId};
use crate::messages::{ArtifactRef, CandidateRef};
use crate::question::Request;
use crate::technique::TechniqueSet;
use crate::workload::WorkloadMeasurement;

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All values of this set.
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
    /// The fault of a candidate. All failures that a candidate can cause are its own fault.
    CandidateFault {
        /// The answer contains no program.
        Format => "format",
        /// The source is larger than the problem allows.
        SourceTooLarge => "source_too_large",
        /// The source includes a header outside the problem's list.
        ForbiddenInclude => "forbidden_include",
        /// The source or the object refers to a library or symbol that the problem does not permit.
        ForbiddenSymbol => "forbidden_symbol",
        /// The source has inline assembly, section attributes, constructors or other constructs that no plain kernel
        /// needs.
        ForbiddenConstruct => "forbidden_construct",
        /// The program uses a technique that the task forbids.
        ForbiddenTechnique => "forbidden_technique",
        /// The compiler refused the source.
        CompileError => "compile_error",
        /// The compiler exceeded its limit on time, memory or output.
        CompileLimit => "compile_limit",
        /// The object does not define the entry function.
        MissingEntry => "missing_entry",
        /// The entry function has another type than the problem's entry.
        WrongSignature => "wrong_signature",
        /// A call did not return in time.
        Timeout => "timeout",
        /// A signal ended the program.
        Crash => "crash",
        /// The program ended its process itself.
        Exited => "exited",
        /// The program requested more memory than permitted.
        MemoryLimit => "memory_limit",
        /// The program made a system call that the jail forbids.
        ForbiddenSyscall => "forbidden_syscall",
        /// Threads, processes or processor time continued after the call returned.
        LeftRunning => "left_running",
        /// The result differs from the reference by more than the problem's bound.
        WrongResult => "wrong_result",
        /// The same input gave different results.
        Nondeterministic => "nondeterministic",
        /// The program wrote memory outside the buffers.
        OutOfBounds => "out_of_bounds",
        /// The program changed an input.
        InputModified => "input_modified",
        /// A timed call did not do its work.
        SkippedWork => "skipped_work",
        /// The source is not text: it has bytes that are not UTF-8, or control characters.
        NotText => "not_text",
        /// The program, built with sanitizers, used forbidden memory, did something that C leaves undefined, or had a
        /// data race.
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
        /// The node was shut down while it held the work.
        Shutdown => "shutdown",
        /// The machine ran out of space or file handles.
        Resources => "resources",
        /// The generator could not write the candidate.
        Generator => "generator",
        /// The measured speed is above the limit of this machine: an error of the measurement.
        Implausible => "implausible",
    }
);

closed_set!(
    /// The reason why the fault cannot be assigned to the candidate or to the infrastructure.
    UnknownCause {
        /// The stage panicked.
        Panicked => "panicked",
        /// A measurement ended without samples.
        NoSamples => "no_samples",
        /// The raw samples of a measurement could not be written.
        UnwritableSamples => "unwritable_samples",
        /// The program could not be built with sanitizers, or its run with them gave no verdict, although the problem's
        /// reference runs clean. So undefined behaviour in it may have stayed undetected.
        Unchecked => "unchecked",
        /// The program was verified or compiled, and no node of its machine class can time it: it is for a GPU.
        NotTimed => "not_timed",
        /// The answer makes a request in place of writing a program, and the next prompt of its conversation shows the result.
        /// There is nothing to judge.
        Asked => "asked",
    }
);

/// The rung of the reward ladder for a candidate's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultClass {
    /// Violation of the format, or of the permitted libraries or techniques.
    Violation,
    /// The program does not build.
    Compile,
    /// The program does not end.
    Timeout,
    /// It dies.
    Runtime,
    /// The program computes another result.
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

    /// True if the program was built before it failed.
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
    /// True if the interval is informative. One wider than a factor of two comes from a measurement that ended at once.
    pub fn is_telling(&self) -> bool {
        self.low > 0.0 && self.high <= 2.0 * self.low
    }
}

closed_set!(
    /// The reason why a measurement ended.
    StopReason {
        /// The interval became narrow enough.
        Precise => "precise",
        /// The decision was clear before the interval was narrow.
        Decided => "decided",
        /// The time budget was spent; the interval gives the error of the number.
        Budget => "budget",
        /// The time budget was spent, and the number is far less precise than its target. It confirms nothing; a second
        /// measurement may.
        Unconverged => "unconverged",
    }
);

/// The measured speed of a verified program. Of a problem with several workloads the speeds, times, ratios and shares are
/// geometric means over all of them, `interval` and `log_ratio_se` are those of the mean, calls, blocks and rounds are sums,
/// `mdape` is the largest, and `stop` the worst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Useful floating-point operations per second at the timed size, in 10⁹/s: `ratio` times those of the plain
    /// reference.
    pub gflops: f64,
    /// Seconds of an undisturbed call, by `gflops`.
    pub seconds_per_call: f64,
    /// Seconds of the fastest timed call by the clock; none if no call counts. It repeats worse than
    /// `seconds_per_call`, because a single call decides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_seconds: Option<f64>,
    /// Median of the seconds of the timed calls, with disturbances; none if no call counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The plain reference's time divided by the candidate's: above 1 is faster. Each of the two is measured against
    /// the baseline. The reference of a module is its fastest baseline.
    pub ratio: f64,
    /// Interval of `ratio`.
    pub interval: Interval,
    /// Standard error of ln(ratio) without the error of the plain reference, which all programs of a timer share.
    /// `interval` includes that error, but it does not change the order of programs.
    pub log_ratio_se: f64,
    /// Timed calls of the candidate.
    pub calls: u32,
    /// Number of bursts of calls, which candidate and baseline make in turns.
    pub blocks: u32,
    /// Median absolute deviation of the candidate's call times from their median, as a share of the median; for a
    /// certification the largest of all its processes.
    pub mdape: f64,
    /// Why it ended.
    pub stop: StopReason,
    /// Artifact with the raw samples of both sides.
    pub samples: Option<ArtifactRef>,
    /// Digest of the machine attestation that holds for this measurement.
    pub attestation: Digest,
    /// Share of the machine's measured peak at the same thread count for the numbers of the problem: of multiply-adds
    /// for floats, of additions of bytes for whole numbers.
    pub share_of_peak: f64,
    /// True if an identical program had been measured before in this run.
    pub reused: bool,
    /// Stability of the number in other layouts and without caches, for certified measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// Number of rounds in which both sides have calls that count; a round is a burst of each side after the other.
    pub rounds: u32,
    /// Number of outlying rounds, which had no weight. The raw samples include them.
    pub outlying: u32,
    /// The sizes of the program's verification, if that was a full one; none for a screening.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<VerifiedSizes>,
    /// The single workloads, in the problem's order; empty where there is one only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadMeasurement>,
}

impl Measurement {
    /// True if the number is about as precise as its target. Another number confirms nothing.
    pub fn converged(&self) -> bool {
        self.stop != StopReason::Unconverged
    }

    /// Lower end of the 95 % interval of `ratio` without the plain reference's part, which all programs of a timer
    /// share: the program's least ratio.
    pub fn reaches(&self) -> f64 {
        let low = self.ratio * (-1.96 * self.log_ratio_se).exp();
        if low.is_nan() { 0.0 } else { low }
    }

    /// The speed for comparisons with other programs, 10⁹ operations a second: `gflops` if that converged, else the
    /// lower end of its interval. An imprecise number would make all others look slow.
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

    /// `ratio` for comparisons with other programs: if it did not converge, the lower end of its interval.
    pub fn known_ratio(&self) -> f64 {
        match self.converged() {
            true => self.ratio,
            false => self.reaches(),
        }
    }

    /// `seconds_per_call` for comparisons with other programs: if it did not converge, the upper end of its interval.
    /// None if that end is unknown.
    pub fn known_seconds_per_call(&self) -> Option<f64> {
        if self.converged() {
            return Some(self.seconds_per_call);
        }
        let seconds = self.seconds_per_call * (self.ratio / self.reaches());
        seconds.is_finite().then_some(seconds)
    }

    /// Orders programs by their least known speed. A number that did not converge comes before one that did. Among the
    /// others the lower ends of the intervals decide: the largest of many estimates is mostly one that noise made
    /// large.
    pub fn compare(&self, other: &Self) -> Ordering {
        let known = self.converged().cmp(&other.converged());
        known.then(self.reaches().total_cmp(&other.reaches()))
    }
}

/// The sizes of a program's verification before it counted. A size is a value for each parameter that varies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedSizes {
    /// Number of different sizes of its calls.
    pub met: u64,
    /// Number of sizes that the problem permits.
    pub legal: u64,
    /// Verification detects a program that is wrong at one size in this many, whichever these sizes are, with a
    /// probability of at least `probability`; none if it called every size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_in: Option<u32>,
    /// Least probability of that detection; none if it called every size, and in messages of earlier nodes, for which it is
    /// 0.99 as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

impl VerifiedSizes {
    /// Least probability of detecting a program that is wrong at one size in [`VerifiedSizes::one_in`].
    pub const PROBABILITY: f64 = 0.99;
    /// The rarest wrong sizes that a verification detects with this probability if time does not end it early.
    pub const ONE_IN: u32 = 20;

    /// The result of a verification that called `met` of `legal` sizes. `drawn` of these were drawn at random, one from
    /// each of as many equal parts of all sizes. A program that is wrong at a share p of the sizes passes with a
    /// probability of at most (1 - p) to the power of `drawn`, by the inequality of the means, for any distribution of
    /// the wrong sizes over the parts.
    pub fn of(met: u64, legal: u64, drawn: u32) -> Self {
        let share = 1.0 - (1.0 - Self::PROBABILITY).powf(1.0 / f64::from(drawn.max(1)));
        // A rounding error must not turn 20 into 19.
        let one_in = (1.0 / share + 1e-9).floor().max(1.0) as u32;
        let some_are_left = met < legal;
        Self {
            met,
            legal,
            one_in: some_are_left.then_some(one_in),
            probability: some_are_left.then_some(Self::PROBABILITY),
        }
    }
}

impl std::fmt::Display for VerifiedSizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { met, legal, .. } = self;
        let probability = self.probability.unwrap_or(Self::PROBABILITY);
        match self.one_in {
            None if *legal == 1 => f.write_str("the only size"),
            None => write!(f, "all {legal} sizes"),
            Some(one_in) => {
                write!(
                    f,
                    "{met} of {legal} sizes: a program that is wrong at 1 in {one_in} sizes is found with a probability of {probability} or more"
                )?;
                if one_in < Self::ONE_IN {
                    let claimed = Self::ONE_IN;
                    write!(
                        f,
                        ", but not one that is wrong at 1 in {claimed}: time ended the verification"
                    )?;
                }
                Ok(())
            }
        }
    }
}

/// Stability of a number in other layouts and without caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Certificate {
    /// The measurement's `ratio` for each layout: the median of two or three processes.
    pub layout_ratios: Vec<f64>,
    /// Largest of them divided by the smallest, minus 1.
    pub layout_spread: f64,
    /// Floor of the seconds of one call that finds none of its arrays in a cache; none if caches cannot be emptied.
    pub cold_seconds_per_call: Option<f64>,
    /// The plain reference's time divided by the candidate's, both without cached data, for problems that are timed so
    /// (`[timed] caches`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_ratio: Option<f64>,
    /// Interval of `cold_ratio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_interval: Option<Interval>,
    /// The reason why the calls without caches ended; none without such calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_stop: Option<StopReason>,
}

impl Certificate {
    /// True if the numbers of the calls without caches are about as precise as their target, as far as is known.
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
    /// The candidate is not at fault: another node tries it again, or it leaves its group.
    Infrastructure {
        /// The part that failed.
        cause: InfrastructureCause,
        /// Diagnostics for people.
        detail: String,
    },
    /// The fault cannot be assigned; treated like an infrastructure failure and counted apart.
    Unknown {
        /// The reason.
        cause: UnknownCause,
        /// Diagnostics for people.
        detail: String,
    },
}

impl Verdict {
    /// A short name for counting: `measured`, a fault's or a cause's name, `asked` for a request, or `unknown`.
    pub fn kind(&self) -> &'static str {
        match self {
            Verdict::Measured { .. } => "measured",
            Verdict::Rejected { fault, .. } => fault.name(),
            Verdict::Infrastructure { cause, .. } => cause.name(),
            // It is no failure, and must not count as one.
            Verdict::Unknown {
                cause: cause @ UnknownCause::Asked,
                ..
            } => cause.name(),
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

    /// True if this verdict says something about the candidate.
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
    /// The techniques detected in it, if it was preprocessed.
    pub techniques: Option<TechniqueSet>,
    /// Width of the widest vector register in its object, bits; none if nothing was built, it uses none, or its code
    /// cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_bits: Option<u32>,
    /// Its verdict.
    pub verdict: Verdict,
    /// The request of an answer that makes one in place of writing a program ([`UnknownCause::Asked`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Seconds of work in each stage: compile, verify, time.
    pub stage_seconds: [f32; 3],
    /// The node that decided it.
    pub node: NodeId,
    /// The machine class whose cells it may enter.
    pub machine_class: MachineClass,
    /// Wall clock of the deciding node, milliseconds since 1970, for reports only.
    pub decided_unix_ms: u64,
}

impl Outcome {
    /// The request of the answer. None beside another verdict than [`UnknownCause::Asked`]: no outcome is both a judged program and
    /// a request, whatever a node published.
    pub fn asked(&self) -> Option<&Request> {
        match self.verdict {
            Verdict::Unknown {
                cause: UnknownCause::Asked,
                ..
            } => self.request.as_ref(),
            _ => None,
        }
    }

    /// Digest of what was read from the answer: the line of its request, or else its program.
    pub fn answer_digest(&self) -> Digest {
        let of_source = || Digest::of(self.source.as_bytes());
        self.asked().map_or_else(of_source, Request::digest)
    }
}
