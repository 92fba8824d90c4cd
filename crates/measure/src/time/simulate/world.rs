//! Simulated machines: call times with a known truth under noise of every kind that was seen on real machines.
//!
//! A call takes its base time, changed by the parts of a model one after the other. Every part changes either side with
//! the same probability: the noise-free target of an estimator is therefore ln of the ratio of the base times,
//! whichever quantile it compares. Parts that keep a state for some time (clocks, other processes, drift) follow the
//! world's own time, which passes with the calls, so bursts that follow each other find the machine in the same state.
//!
//! The exceptions are [`Part::Process`] and an [`Part::OwnMemory`] that outlasts a measurement. They belong to a
//! process, and no interval from one process can cover an error that is the same in all its calls; for that reason a
//! certification starts fresh processes.

use std::f64::consts::TAU;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::course::Who;

/// Time passes this much faster than the timed calls: inputs are prepared between them.
const PREPARING: f64 = 1.3;

/// One source of noise. Shares and factors are of the call time, times are seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    /// Log-normal, for each call by itself: standard deviation.
    Jitter(f64),
    /// Exponential, above the base time only: mean.
    Skewed(f64),
    /// A slow wave: its depth and length.
    Wave { depth: f64, seconds: f64 },
    /// Slower by this share a second.
    Trend(f64),
    /// A random walk: standard deviation after a second.
    Walk(f64),
    /// Two states, as of a clock or of another process that comes and goes: how many times as slow one is, and the mean
    /// times spent in it and outside of it.
    Switching { factor: f64, slow: f64, fast: f64 },
    /// Whole bursts of one side are slower: how many of them, and by how much at most.
    OneSided { share: f64, most: f64 },
    /// Pareto's heavy tail above the base time. Below a shape of 1 it has no mean.
    Pareto { scale: f64, shape: f64 },
    /// Single calls that take many times as long: how many, and how many times at most.
    Outliers { share: f64, most: f64 },
    /// Autocorrelated, the same for both sides: standard deviation and memory.
    Memory { sd: f64, seconds: f64 },
    /// The same for each side by itself.
    OwnMemory { sd: f64, seconds: f64 },
    /// Slower in the beginning: by how much, and for how long.
    Ramp { extra: f64, seconds: f64 },
    /// Interruptions of a certain length that come at random.
    Interrupts { per_second: f64, seconds: f64 },
    /// A clock that counts in steps: their length.
    Ticks(f64),
    /// Constant in each process, by where its code and its stack happen to lie: standard deviation.
    Process(f64),
    /// Part of every call, in seconds, and in each process longer or shorter by a share of itself: the standard
    /// deviation of that share.
    HandShake { seconds: f64, sd: f64 },
}

/// A part with its state.
struct Running {
    part: Part,
    /// Level of each side, or of both in the first element.
    level: [f64; 2],
    /// Time of `level`.
    at: [f64; 2],
    slow: bool,
    until: f64,
}

/// A simulated machine with the two processes of one measurement.
pub struct World {
    rng: ChaCha8Rng,
    now: f64,
    running: Vec<Running>,
}

impl World {
    /// A machine of a model. Worlds of one seed are the same.
    pub fn new(parts: &[Part], seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let running = parts
            .iter()
            .map(|&part| Running::new(part, &mut rng))
            .collect();
        Self {
            rng,
            now: 0.0,
            running,
        }
    }

    /// The seconds of each call in a burst of a program whose undisturbed calls take `base`.
    pub fn burst(&mut self, who: Who, base: f64, calls: u32) -> Vec<f64> {
        for running in &mut self.running {
            running.begin(who, &mut self.rng);
        }
        (0..calls).map(|_| self.call(who, base)).collect()
    }

    fn call(&mut self, who: Who, base: f64) -> f64 {
        let mut seconds = base;
        for running in &mut self.running {
            seconds = running.changes(seconds, who, self.now, &mut self.rng);
        }
        self.now += PREPARING * seconds;
        seconds
    }
}

impl Running {
    fn new(part: Part, rng: &mut ChaCha8Rng) -> Self {
        let mut running = Self {
            part,
            level: [0.0; 2],
            at: [0.0; 2],
            slow: false,
            until: 0.0,
        };
        match part {
            Part::Wave { .. } => running.level[0] = rng.random(),
            Part::Switching { slow, fast, .. } => {
                running.slow = rng.random::<f64>() * (slow + fast) < slow;
                running.until = waiting(rng, if running.slow { slow } else { fast });
            }
            Part::Memory { sd, .. } | Part::OwnMemory { sd, .. } => {
                running.level = [sd * normal(rng), sd * normal(rng)];
            }
            Part::Process(sd) | Part::HandShake { sd, .. } => {
                running.level = [sd * normal(rng), sd * normal(rng)];
            }
            _ => {}
        }
        running
    }

    /// A burst begins.
    fn begin(&mut self, who: Who, rng: &mut ChaCha8Rng) {
        if let Part::OneSided { share, most } = self.part {
            let hit = rng.random::<f64>() < share;
            let extra = most * rng.random::<f64>();
            self.level[side(who)] = if hit { extra } else { 0.0 };
        }
    }

    /// How long a call takes that would take `seconds` without this part.
    fn changes(&mut self, seconds: f64, who: Who, now: f64, rng: &mut ChaCha8Rng) -> f64 {
        let own = side(who);
        match self.part {
            Part::Jitter(sd) => seconds * (sd * normal(rng)).exp(),
            Part::Skewed(mean) => seconds * (1.0 + waiting(rng, mean)),
            Part::Wave {
                depth,
                seconds: length,
            } => seconds * (depth * (TAU * (now / length + self.level[0])).sin()).exp(),
            Part::Trend(share) => seconds * (share * now).exp(),
            Part::Walk(sd) => {
                self.level[0] += sd * (now - self.at[0]).sqrt() * normal(rng);
                self.at[0] = now;
                seconds * self.level[0].exp()
            }
            Part::Switching { factor, slow, fast } => {
                while now >= self.until {
                    self.slow = !self.slow;
                    self.until += waiting(rng, if self.slow { slow } else { fast });
                }
                seconds * if self.slow { factor } else { 1.0 }
            }
            Part::OneSided { .. } => seconds * (1.0 + self.level[own]),
            Part::Pareto { scale, shape } => {
                let above = (1.0 - rng.random::<f64>()).powf(-shape.recip()) - 1.0;
                seconds * (1.0 + scale * above)
            }
            Part::Outliers { share, most } => {
                let hit = rng.random::<f64>() < share;
                let times = 1.0 + (most - 1.0) * rng.random::<f64>();
                seconds * if hit { times } else { 1.0 }
            }
            Part::Memory {
                sd,
                seconds: memory,
            } => seconds * self.remembered(0, sd, memory, now, rng).exp(),
            Part::OwnMemory {
                sd,
                seconds: memory,
            } => seconds * self.remembered(own, sd, memory, now, rng).exp(),
            Part::Ramp {
                extra,
                seconds: length,
            } => seconds * (1.0 + extra * (-now / length).exp()),
            Part::Interrupts {
                per_second,
                seconds: length,
            } => {
                let mut next = waiting(rng, per_second.recip());
                let mut interrupted = seconds;
                while next < seconds {
                    interrupted += length * (0.5 + rng.random::<f64>());
                    next += waiting(rng, per_second.recip());
                }
                interrupted
            }
            Part::Ticks(tick) => {
                // The difference of two readings: a call begins anywhere within a step.
                let begin: f64 = rng.random();
                ((begin + seconds / tick).floor() * tick).max(tick)
            }
            Part::Process(_) => seconds * self.level[own].exp(),
            Part::HandShake { seconds: usual, .. } => seconds + usual * self.level[own].exp(),
        }
    }

    /// An Ornstein-Uhlenbeck process, exact for any step of time.
    fn remembered(
        &mut self,
        of: usize,
        sd: f64,
        memory: f64,
        now: f64,
        rng: &mut ChaCha8Rng,
    ) -> f64 {
        let kept = ((self.at[of] - now) / memory).exp();
        let fresh = sd * (1.0 - kept * kept).max(0.0).sqrt();
        self.level[of] = kept * self.level[of] + fresh * normal(rng);
        self.at[of] = now;
        self.level[of]
    }
}

fn side(who: Who) -> usize {
    match who {
        Who::Candidate => 0,
        Who::Baseline => 1,
    }
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    flopsmith_test_support::normal(|| rng.random())
}

/// An exponential number.
fn waiting(rng: &mut ChaCha8Rng, mean: f64) -> f64 {
    -mean * (1.0 - rng.random::<f64>()).ln()
}
