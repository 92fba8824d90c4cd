//! Evaluation, and the standards of measurement.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::not_negative;

/// Evaluation of candidates.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluate {
    /// Leave compiling, verifying and timing to the workers of a cluster (`flopsmith worker`); this process then takes
    /// no part in them. Needs `nats` and `store`.
    pub workers: bool,
    /// C compiler: `gcc` or `clang`, or a path. Programs in other languages are built with the compilers of its family.
    pub compiler: String,
    /// Compiler flags of all programs instead of the problem's, e.g. `-O2 -march=native`; empty means the problem's.
    /// Functions and loops are aligned (`-falign-functions=64 -falign-loops=64`) unless the flags say otherwise.
    pub flags: String,
    /// Standard of the first measurement of each training sample.
    pub purpose: Standard,
    /// Standard of the second measurement of a program, before it counts as an elite. A `screen` that leaves a standard
    /// error above 2 % is followed by a `rank`.
    pub again: Standard,
    /// Run untrusted programs even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Build a program once more with sanitizers before it counts as an elite, and call it with a few small secret
    /// cases: with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer if it uses OpenMP and
    /// `threads` is above 1. A program that reads outside its arrays, has undefined behaviour or has a data race is
    /// refused, even if its results are right. A sanitizer that this machine lacks is left out; `flopsmith doctor`
    /// reports it. Programs for clang are checked in a gcc build.
    pub sanitize: bool,
    /// Wait while the machine is disturbed: the baseline takes 25 % longer than before in measurement after
    /// measurement, or the hypervisor takes more than a tenth of the timed cores. The timer times the baseline alone
    /// now and then, and continues once the baseline is as fast as before or steady on another level.
    pub quarantine: bool,
    /// Longest wait for a disturbed machine, seconds. On one machine this limits the sum of a session's waits for a problem,
    /// on a cluster each wait. After this time the timer times all the same and says so in its log.
    #[serde(deserialize_with = "not_negative")]
    pub quarantine_limit_seconds: f64,
    /// Certify this many of the fastest programs after the run, at ten to thirty seconds each, and report the best of
    /// them. More than one, because the program that is fastest in short measurements may not be the fastest in long
    /// ones. 0: none.
    pub finalists: u32,
    /// The folder of a finished run, whose outcomes replace compiling, verifying and timing; `flopsmith replay` sets
    /// it. The policy samples and trains as in any run, and has to write the same programs as in that run. An outcome
    /// without a source is that of any program.
    #[serde(skip_serializing_if = "is_nowhere")]
    pub recorded: PathBuf,
}

impl Evaluate {
    /// True if a recorded run is repeated.
    pub fn replays(&self) -> bool {
        !is_nowhere(&self.recorded)
    }
}

fn is_nowhere(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl Default for Evaluate {
    fn default() -> Self {
        Self {
            workers: false,
            compiler: "gcc".into(),
            flags: String::new(),
            purpose: Standard::Screen,
            again: Standard::Rank,
            allow_weaker_jail: false,
            sanitize: true,
            quarantine: true,
            quarantine_limit_seconds: 60.0,
            finalists: 4,
            recorded: PathBuf::new(),
        }
    }
}

/// The standards of measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standard {
    /// Decide whether a program is worth more time.
    Screen,
    /// Resolve the order within a group.
    Rank,
    /// Measure a number to publish: at five layouts of the code, each built anew.
    Certify,
}
