//! The simulated machines.

use super::world::Part;

/// A named combination of parts.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Its name in messages.
    pub name: &'static str,
    /// Its parts, in the order in which they change a call.
    pub parts: &'static [Part],
    /// True if programs 1 % apart can be ordered here.
    pub quiet: bool,
}

const fn quiet(name: &'static str, parts: &'static [Part]) -> Model {
    Model {
        name,
        parts,
        quiet: true,
    }
}

const fn loud(name: &'static str, parts: &'static [Part]) -> Model {
    Model {
        name,
        parts,
        quiet: false,
    }
}

/// Scatter that every machine has.
const JITTER: Part = Part::Jitter(0.01);
/// Another process, which runs for a fifth of the time.
const NEIGHBOUR: Part = Part::Switching {
    factor: 1.3,
    slow: 5e-3,
    fast: 20e-3,
};
const SOME_ONE_SIDED: Part = Part::OneSided {
    share: 0.15,
    most: 1.0,
};
const CLOCK: Part = Part::Switching {
    factor: 1.15,
    slow: 20e-3,
    fast: 20e-3,
};
const TAIL: Part = Part::Pareto {
    scale: 0.003,
    shape: 1.5,
};
const OUTLIERS: Part = Part::Outliers {
    share: 0.02,
    most: 50.0,
};
const MEMORY: Part = Part::Memory {
    sd: 0.02,
    seconds: 5e-3,
};

/// The models in which intervals are compared with the truth.
pub const MODELS: [Model; 23] = [
    quiet("quiet", &[Part::Jitter(0.003)]),
    quiet("white", &[JITTER]),
    loud("noisy", &[Part::Jitter(0.05)]),
    loud("skewed", &[Part::Skewed(0.03)]),
    quiet(
        "drift",
        &[
            JITTER,
            Part::Wave {
                depth: 0.05,
                seconds: 0.4,
            },
            Part::Trend(0.3),
        ],
    ),
    quiet("random walk", &[JITTER, Part::Walk(0.05)]),
    quiet("neighbour of both", &[JITTER, NEIGHBOUR]),
    quiet("neighbour of one", &[JITTER, SOME_ONE_SIDED]),
    loud(
        "loaded",
        &[
            JITTER,
            Part::OneSided {
                share: 0.5,
                most: 1.0,
            },
        ],
    ),
    loud(
        "quick clock",
        &[
            JITTER,
            Part::Switching {
                factor: 1.15,
                slow: 1e-3,
                fast: 1e-3,
            },
        ],
    ),
    quiet("middling clock", &[JITTER, CLOCK]),
    quiet(
        "slow clock",
        &[
            JITTER,
            Part::Switching {
                factor: 1.3,
                slow: 0.2,
                fast: 0.2,
            },
        ],
    ),
    loud(
        "two clocks",
        &[
            JITTER,
            Part::Switching {
                factor: 1.1,
                slow: 8e-3,
                fast: 8e-3,
            },
            Part::Switching {
                factor: 1.2,
                slow: 30e-3,
                fast: 60e-3,
            },
        ],
    ),
    quiet("tail", &[JITTER, TAIL]),
    loud(
        "heavy tail",
        &[
            JITTER,
            Part::Pareto {
                scale: 0.005,
                shape: 0.9,
            },
        ],
    ),
    quiet("outliers", &[JITTER, OUTLIERS]),
    loud("memory", &[JITTER, MEMORY]),
    loud(
        "memories of their own",
        &[
            JITTER,
            Part::OwnMemory {
                sd: 0.01,
                seconds: 2e-3,
            },
        ],
    ),
    quiet(
        "warming up",
        &[
            JITTER,
            Part::Ramp {
                extra: 0.4,
                seconds: 0.03,
            },
        ],
    ),
    quiet(
        "interrupted",
        &[
            JITTER,
            Part::Interrupts {
                per_second: 300.0,
                seconds: 100e-6,
            },
        ],
    ),
    quiet("coarse clock", &[JITTER, Part::Ticks(3e-6)]),
    loud(
        "busy",
        &[JITTER, NEIGHBOUR, SOME_ONE_SIDED, CLOCK, TAIL, OUTLIERS],
    ),
    loud(
        "cloud",
        &[
            JITTER,
            Part::Walk(0.05),
            SOME_ONE_SIDED,
            MEMORY,
            Part::Ticks(1e-6),
        ],
    ),
];
