//! The programs of policies and the results of evaluations: pure functions of numbers, so that a run's result is known
//! in advance.

use crate::config::Config;
use crate::message::{Program, Sample, Verdict};

/// Mixes numbers into one (splitmix64's finalizer).
pub fn mix(parts: &[u64]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for part in parts {
        state = state
            .wrapping_add(*part)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

/// The program that policy `version` writes for a sample. There are fewer programs than samples, so that many programs
/// have duplicates.
pub fn program(config: &Config, seed: u64, sample: Sample, version: u32) -> Program {
    let drawn = mix(&[seed, u64::from(sample.0), u64::from(version), 1]);
    let many = u64::from(config.samples_in_step() * config.steps) * 2 / 3 + 1;
    Program(u32::try_from(drawn % many).unwrap_or(0))
}

/// The stage at which a program fails, if it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The compiler refuses it.
    Uncompiled,
    /// It gives wrong results.
    Wrong,
    /// The program is right and has this speed.
    Right(u32),
}

/// The fate of a program.
pub fn fate(program: Program) -> Fate {
    let drawn = mix(&[u64::from(program.0), 2]);
    match drawn % 10 {
        0 => Fate::Uncompiled,
        1 | 2 => Fate::Wrong,
        _ => Fate::Right(u32::try_from(drawn >> 40).unwrap_or(0) % 10_000 + 1),
    }
}

/// The verdict of an evaluation of the program.
pub fn verdict(program: Program) -> Verdict {
    match fate(program) {
        Fate::Uncompiled | Fate::Wrong => Verdict::Rejected,
        Fate::Right(speed) => Verdict::Measured(speed),
    }
}

/// The archive's cell of a program.
pub fn cell(program: Program) -> u32 {
    u32::try_from(mix(&[u64::from(program.0), 3]) % 16).unwrap_or(0)
}

/// The weights after a gradient step: a digest of the previous weights and of all samples of the step.
pub fn weights(before: u64, learnt: impl Iterator<Item = (Sample, Verdict)>) -> u64 {
    learnt.fold(mix(&[before, 4]), |digest, (sample, verdict)| {
        let verdict = match verdict {
            Verdict::Rejected => 0,
            Verdict::Measured(speed) => u64::from(speed),
            Verdict::Infrastructure(_) => u64::MAX,
        };
        mix(&[digest, u64::from(sample.0), verdict])
    })
}
