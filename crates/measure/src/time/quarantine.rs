//! Decides whether the machine is quiet enough to time on. A pure state machine.
//!
//! Every measurement times the baseline as well, so the baseline's floor is a canary that costs nothing: if the same
//! program takes a quarter longer than in the measurements before, again and again, the machine has changed, and ratios
//! taken on it are worth less. The caller shall then wait (quarantine) and time the baseline alone now and then, until
//! it is as fast as before. Floors hardly change when other processes run for a moment, so the use of the cores by
//! other processes leads to a message but not to a quarantine.
//!
//! No machine is shut out for good. A level that lasts is the new normal, whatever the reason. If the canaries are good
//! from the first, the programs slowed the baseline (wide vectors lower the clock of some processors), and the next
//! quarantine needs twice as much trouble. A caller that waits may give up ([`Quarantine::go_on`]).

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use flopsmith_machine::environment::{OTHERS, STOLEN, Shares, Surroundings};

use crate::stats::median;

/// A floor this many times the usual one is a sign of trouble. Floors of short measurements scatter by a few per cent.
const SLOWER: f64 = 1.25;
/// A floor of at most this many times the usual one is normal again. This is lower than [`SLOWER`], so that a
/// quarantine that ends does not start the next one.
const CALM: f64 = 1.12;
/// Number of floors whose median is the usual one.
const USUAL: usize = 31;
/// Fewer floors than this give no usual one.
const LEARNING: usize = 5;
/// This many troubled measurements in a row make a quarantine ...
const MEASUREMENTS: u32 = 5;
/// ... if all measurements of at least this period were troubled. Compilers and browsers have bursts of a second.
const LASTING: Duration = Duration::from_secs(2);
/// Both are multiplied by at most this, after quarantines that were in vain.
const MOST_PATIENCE: u32 = 64;
/// This many good canaries in a row end the quarantine.
const GOOD_CANARIES: u32 = 3;
/// This many canaries that agree ...
const STEADY_CANARIES: usize = 12;
/// ... to this factor ...
const STEADY: f64 = 1.05;
/// ... over this period are a new normal.
const STEADY_FOR: Duration = Duration::from_secs(5);
/// Shares are judged over this many core seconds: 25 ticks of the kernel's accounting.
const JUDGED_SECONDS: f64 = 0.25;
/// Once a machine was found to be steady in spite of the hypervisor's share, that share may grow by this factor.
const MORE_STOLEN: f64 = 1.5;

/// The disturbance of a machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// The baseline's floor is longer than the usual one.
    Slower {
        /// Floor divided by the usual one.
        times: f64,
    },
    /// The hypervisor takes this share of the timed cores.
    Stolen {
        /// Between 0 and 1.
        share: f64,
    },
    /// Other processes use this share of the timed cores.
    Used {
        /// Between 0 and 1.
        share: f64,
    },
    /// Other processes use this share of the hardware threads that share a core with the timed ones.
    Beside {
        /// Between 0 and 1.
        share: f64,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Slower { times } => {
                write!(f, "the baseline takes {times:.2} times as long as usual")
            }
            Why::Stolen { share } => write!(
                f,
                "the hypervisor takes {:.0} % of the timed cores",
                share * 100.0
            ),
            Why::Used { share } => {
                write!(
                    f,
                    "other processes use {:.0} % of the timed cores",
                    share * 100.0
                )
            }
            Why::Beside { share } => write!(
                f,
                "other processes use {:.0} % of the hardware threads that share a core with the timed ones",
                share * 100.0
            ),
        }
    }
}

/// The state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum State {
    /// Nothing speaks against timing on the machine.
    #[default]
    Idle,
    /// Numbers are less certain than usual, but still useful.
    Disturbed {
        /// The disturbance.
        why: Why,
    },
    /// A caller that can wait times nothing but canaries.
    Quarantined {
        /// The disturbance when the quarantine began.
        why: Why,
        /// Time at which the quarantine began, on the caller's clock.
        since: Duration,
    },
}

impl State {
    /// True if a caller that can wait shall do so.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, State::Quarantined { .. })
    }

    /// The disturbance, if there is one.
    pub fn why(&self) -> Option<Why> {
        match *self {
            State::Idle => None,
            State::Disturbed { why } | State::Quarantined { why, .. } => Some(why),
        }
    }
}

/// A change that is worth a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// A quarantine began.
    Entered {
        /// The disturbance.
        why: Why,
    },
    /// The quarantine ended: the machine is as it was before.
    Left {
        /// How long it lasted.
        after: Duration,
    },
    /// The quarantine ended: the machine is taken as it is now.
    Adopted {
        /// How long it lasted.
        after: Duration,
        /// The baseline's floor divided by the floor before.
        times: f64,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Entered { why } => write!(f, "the machine is not quiet: {why}"),
            Change::Left { after } => {
                write!(
                    f,
                    "the machine is quiet again after {:.1} s",
                    after.as_secs_f64()
                )
            }
            Change::Adopted { after, times } => write!(
                f,
                "the machine did not become quiet within {:.1} s; from now on its present speed is normal, at which the baseline takes {times:.2} times as long as before",
                after.as_secs_f64()
            ),
        }
    }
}

/// Troubled measurements in a row.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: Duration,
    count: u32,
}

/// Decides whether a machine is quiet enough. The caller reports every measurement, and every canary during a
/// quarantine.
#[derive(Debug, Clone)]
pub struct Quarantine {
    state: State,
    /// Floors of untroubled measurements, seconds.
    usual: VecDeque<f64>,
    /// The last floor, troubled or not.
    last: Option<f64>,
    /// Readings that are not judged yet. `shares` is the last judgement.
    gathered: Surroundings,
    shares: Shares,
    /// The largest share of the hypervisor that is tolerated.
    tolerated: f64,
    trouble: Option<Trouble>,
    patience: u32,
    canaries: VecDeque<(Duration, f64)>,
    /// Good canaries in a row.
    good: u32,
    /// True if no canary of this quarantine was bad.
    in_vain: bool,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self {
            state: State::Idle,
            usual: VecDeque::new(),
            last: None,
            gathered: Surroundings::default(),
            shares: Shares::default(),
            tolerated: STOLEN,
            trouble: None,
            patience: 1,
            canaries: VecDeque::new(),
            good: 0,
            in_vain: true,
        }
    }
}

impl Quarantine {
    /// The state of the machine.
    pub fn state(&self) -> State {
        self.state
    }

    /// How much longer a floor is than the usual one, as a share of the usual one; none while that is unknown.
    pub fn drift(&self, floor: f64) -> Option<f64> {
        self.usual().map(|usual| floor / usual - 1.0)
    }

    /// Records a measurement that ended at `now`: the baseline's floor in it, seconds, and the disturbances around it.
    /// During a quarantine it counts as a canary, for callers that cannot wait.
    pub fn measured(&mut self, now: Duration, floor: f64, around: &Surroundings) -> Option<Change> {
        if self.state.is_quarantine() {
            return self.canary(now, floor, around);
        }
        if !makes_sense(floor) {
            return None;
        }
        self.look(floor, around);
        let Some(why) = self.wrong(floor) else {
            self.trouble = None;
            self.learn(floor);
            self.state = self
                .busy()
                .map_or(State::Idle, |why| State::Disturbed { why });
            return None;
        };
        if matches!(why, Why::Stolen { .. }) {
            // The floor itself is as usual.
            self.learn(floor);
        }
        let before = self.trouble.unwrap_or(Trouble {
            since: now,
            count: 0,
        });
        let trouble = Trouble {
            count: before.count + 1,
            ..before
        };
        self.trouble = Some(trouble);
        let lasted = now.saturating_sub(trouble.since);
        if trouble.count < MEASUREMENTS * self.patience || lasted < LASTING * self.patience {
            self.state = State::Disturbed { why };
            return None;
        }
        self.settle(State::Quarantined { why, since: now });
        // Canaries are judged by the disturbances around them. The judgement before holds until there are enough
        // readings.
        self.gathered = Surroundings::default();
        Some(Change::Entered { why })
    }

    /// Records the baseline's floor, seconds, in a canary that ended at `now`, and the disturbances around it. Outside
    /// of a quarantine it counts as a measurement.
    pub fn canary(&mut self, now: Duration, floor: f64, around: &Surroundings) -> Option<Change> {
        let State::Quarantined { since, .. } = self.state else {
            return self.measured(now, floor, around);
        };
        if !makes_sense(floor) {
            return None;
        }
        self.look(floor, around);
        let times = self.usual().map_or(1.0, |usual| floor / usual);
        let good = times <= CALM && self.stolen().is_none();
        self.good = if good { self.good + 1 } else { 0 };
        self.in_vain &= good;
        self.canaries.push_back((now, floor));
        if self.canaries.len() > STEADY_CANARIES {
            self.canaries.pop_front();
        }
        let after = now.saturating_sub(since);
        if self.good >= GOOD_CANARIES {
            self.patience = if self.in_vain {
                (self.patience * 2).min(MOST_PATIENCE)
            } else {
                (self.patience / 2).max(1)
            };
            self.settle(State::Idle);
            return Some(Change::Left { after });
        }
        self.is_steady(now).then(|| self.adopt(after, State::Idle))
    }

    /// Ends a quarantine because the caller waits no longer at `now`: the level found last is the new normal.
    pub fn go_on(&mut self, now: Duration) -> Option<Change> {
        let State::Quarantined { why, since } = self.state else {
            return None;
        };
        let after = now.saturating_sub(since);
        Some(self.adopt(after, State::Disturbed { why }))
    }

    fn look(&mut self, floor: f64, around: &Surroundings) {
        self.last = Some(floor);
        self.gathered += *around;
        if self.gathered.core_seconds >= JUDGED_SECONDS {
            self.shares = self.gathered.shares();
            self.gathered = Surroundings::default();
        }
    }

    /// A disturbance that may become a quarantine.
    fn wrong(&self, floor: f64) -> Option<Why> {
        let times = self.usual().map(|usual| floor / usual);
        times
            .filter(|times| *times > SLOWER)
            .map(|times| Why::Slower { times })
            .or_else(|| self.stolen())
    }

    fn stolen(&self) -> Option<Why> {
        let share = self.shares.stolen.filter(|s| *s > self.tolerated)?;
        Some(Why::Stolen { share })
    }

    /// A disturbance that leads to a message only.
    fn busy(&self) -> Option<Why> {
        let much = |share: &f64| *share > OTHERS;
        let used = self.shares.others.filter(much);
        used.map(|share| Why::Used { share }).or_else(|| {
            let beside = self.shares.siblings.filter(much);
            beside.map(|share| Why::Beside { share })
        })
    }

    fn usual(&self) -> Option<f64> {
        (self.usual.len() >= LEARNING)
            .then(|| median(self.usual.iter().copied()))
            .flatten()
    }

    fn learn(&mut self, floor: f64) {
        self.usual.push_back(floor);
        if self.usual.len() > USUAL {
            self.usual.pop_front();
        }
    }

    /// True if the last canaries have agreed for long enough.
    fn is_steady(&self, now: Duration) -> bool {
        let floors = || self.canaries.iter().map(|c| c.1);
        let (least, most) = (
            floors().fold(f64::MAX, f64::min),
            floors().fold(0.0, f64::max),
        );
        self.canaries.len() >= STEADY_CANARIES
            && most <= STEADY * least
            && self
                .canaries
                .front()
                .is_some_and(|c| now.saturating_sub(c.0) >= STEADY_FOR)
    }

    /// Ends a quarantine. The level of its canaries, or without any the floor that led to it, is the new usual one.
    fn adopt(&mut self, after: Duration, state: State) -> Change {
        let before = self.usual();
        let level = median(self.canaries.iter().map(|c| c.1)).or(self.last);
        if let Some(level) = level {
            self.usual = VecDeque::from(vec![level; LEARNING]);
        }
        if let Some(share) = self.shares.stolen {
            self.tolerated = self.tolerated.max((MORE_STOLEN * share).min(1.0));
        }
        self.settle(state);
        let times = before.zip(level).map_or(1.0, |(before, now)| now / before);
        Change::Adopted { after, times }
    }

    /// Enters another state and resets the counters.
    fn settle(&mut self, state: State) {
        self.state = state;
        self.trouble = None;
        self.canaries.clear();
        self.good = 0;
        self.in_vain = true;
    }
}

/// False for a floor that is no time.
fn makes_sense(floor: f64) -> bool {
    floor.is_finite() && floor > 0.0
}

#[cfg(test)]
mod tests;
