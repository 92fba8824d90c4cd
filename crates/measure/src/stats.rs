//! The statistics of a measurement: floors, the ratio of the two sides, and its uncertainty.
//!
//! Calls that follow each other share the state of the machine. A round (one burst of each side, right after each
//! other) is therefore one observation: ln of the ratio of the lower quartiles of its bursts. Disturbances that last
//! longer than a round affect both sides and cancel, and the random order of the two bursts makes the remaining errors
//! symmetric. The biweight (`location.rs`) estimates the location of the rounds and its uncertainty. Seconds themselves
//! are low quantiles over all bursts, since on a shared machine only the low end of many short samples repeats. If
//! other processes disturb so many bursts of one side that the rounds say little when the budget is spent, the ratio is
//! that of the floors, too. Everything here is pure.

mod location;

use serde::{Deserialize, Serialize};

use location::{Location, NORMAL};

/// The quantile that counts as the floor.
const FLOOR_QUANTILE: f64 = 0.05;

/// The quantile of a burst that is compared with that of the other side's burst. On machines whose single calls scatter
/// by some percent the lower quartile repeats better than the fastest call: its spread is a fifth less in measurements
/// of a kernel against itself.
const PAIR_QUANTILE: f64 = 0.25;

/// Number of parts of a measurement whose floors are compared if the rounds disagree.
const PARTS: usize = 5;

/// Least number of rounds in each of these parts.
const ROUNDS_OF_PART: usize = 4;

/// Rounds disagree if half of their interval is longer than this.
const DISAGREEING: f64 = 0.01;

/// The floors are believed over the rounds if their interval is this many times shorter: five values that say no more
/// than the rounds hardly ever agree so well by chance.
const CLEARLY: f64 = 3.0;

/// The floors are believed over the rounds only if the ratio that they give exceeds the one of the lower quartiles of all
/// calls by at most this much. Other processes hardly favour one side's fastest calls. A program does, if it is fast in
/// a few calls and pauses at random in all others, so that its rounds disagree.
const FAVOURED: f64 = 0.01;

/// The rounds may exceed the ratio of the floors by at most this much, ln. A candidate that slows the baseline in most of
/// its turns and spares it in the others keeps the baseline's floor.
const SPARED: f64 = 0.077;

/// Least number of rounds for this limit: in a few rounds one side alone may meet a fast moment of the machine.
const ROUNDS_OF_LIMIT: u32 = 20;

/// Samples lie on the floor if they exceed it by at most this share.
const FLOOR_WIDTH: f64 = 0.005;

/// No measurement claims a smaller standard error of ln(ratio): code layout, physical pages and
/// the clock's own reach cost about this much even where samples agree perfectly.
pub const SYSTEMATIC_LOG_SE: f64 = 0.0008;

/// Timed calls of one side that ran right after each other, in seconds, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Burst {
    /// Seconds of each call. The first ones warm the caches.
    pub seconds: Vec<f64>,
    /// Number of first calls that only warmed up and do not count.
    pub warm_up: usize,
}

impl Burst {
    /// The calls that count.
    pub fn counted(&self) -> &[f64] {
        self.seconds.get(self.warm_up..).unwrap_or(&[])
    }
}

/// The `q`-quantile of an ascending slice, interpolated linearly between adjacent values. None for an empty slice.
pub fn quantile(ascending: &[f64], q: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    Some(ascending[below] * (1.0 - share) + ascending[above] * share)
}

/// The median. None without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut ascending: Vec<f64> = values.into_iter().collect();
    ascending.sort_unstable_by(f64::total_cmp);
    quantile(&ascending, 0.5)
}

/// The floor of some samples: their low quantile.
pub fn floor(samples: &[f64]) -> Option<f64> {
    let mut ascending = samples.to_vec();
    ascending.sort_by(f64::total_cmp);
    quantile(&ascending, FLOOR_QUANTILE)
}

/// Median absolute deviation from the median, as a share of the median.
pub fn mdape(samples: &[f64]) -> f64 {
    let mut values = samples.to_vec();
    values.sort_by(f64::total_cmp);
    let Some(median) = quantile(&values, 0.5) else {
        return 0.0;
    };
    for x in &mut values {
        *x = (*x - median).abs();
    }
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).map_or(0.0, |deviation| deviation / median)
}

/// The estimates of both sides and of their ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Floor of the candidate, seconds.
    pub candidate: f64,
    /// Floor of the baseline, seconds.
    pub baseline: f64,
    /// ln(baseline / candidate): above 0 the candidate is faster.
    pub log_ratio: f64,
    /// Half of the interval divided by 1.96. With few rounds this is somewhat more than the standard error of
    /// `log_ratio`, so that the interval of a normal distribution with this standard error is the interval of the
    /// ratio.
    pub log_se: f64,
    /// A bound of the 95 % interval of `log_ratio`.
    pub low: f64,
    /// A bound of the 95 % interval of `log_ratio`.
    pub high: f64,
    /// The part of `log_se` that the scatter of the rounds shows. The rest comes from errors that no scatter shows.
    pub sampling_log_se: f64,
    /// Number of rounds in which both sides have calls that count.
    pub rounds: u32,
    /// Number of outlying rounds, which had no weight. They are kept with all others.
    pub outlying: u32,
    /// True if both floors rest on several samples of several bursts.
    pub supported: bool,
}

/// Estimates the ratio of the two sides. The `n`-th bursts of both sides belong together: they ran right after each
/// other. None while a side has no counted call.
///
/// With fewer than three rounds, as with calls that take most of the budget, the ratio is that of the floors, and its
/// interval comes from the general experience with such measurements.
pub fn estimate(candidate: &[Burst], baseline: &[Burst]) -> Option<Estimate> {
    let sides = Sides::of(candidate, baseline)?;
    let rounds = log_ratios(candidate, baseline);
    let location = Location::of(&rounds);
    let estimate = Estimate {
        candidate: sides.ours.floor,
        baseline: sides.theirs.floor,
        log_ratio: sides.log_ratio(),
        log_se: 0.0,
        low: 0.0,
        high: 0.0,
        sampling_log_se: 0.0,
        rounds: rounds.len() as u32,
        outlying: location.map_or(0, |l| l.outlying as u32),
        supported: sides.ours.supported && sides.theirs.supported,
    };
    Some(sides.with(estimate, location))
}

/// The result of a measurement that came to the end of its budget: `estimate`, unless its rounds disagree, the floors
/// clearly agree, and the lower quartiles of all calls support them. That happens if other processes disturb most
/// bursts of either side.
///
/// Call this only once, at the end: five parts agree by chance in a few of a hundred looks, and a rule that looks until
/// the parts agree finds intervals that are far too narrow.
pub fn last_resort(candidate: &[Burst], baseline: &[Burst], estimate: Estimate) -> Estimate {
    let half = NORMAL * estimate.sampling_log_se;
    if half <= DISAGREEING {
        return estimate;
    }
    let Some(sides) = Sides::of(candidate, baseline) else {
        return estimate;
    };
    match floors(candidate, baseline, sides.log_ratio()) {
        Some(floors)
            if CLEARLY * floors.half() < half
                && floors.value <= sides.log_ratio_of_quartiles() + FAVOURED =>
        {
            sides.with(estimate, Some(floors))
        }
        _ => estimate,
    }
}

/// The ratio of the floors: `overall`, the ratio over the whole measurement, with an interval from the differences
/// between the parts of the measurement. If only one part met the floor of a side, as when the machine sped up between
/// two bursts, the parts outvote `overall`. None if the parts would have too few rounds.
fn floors(candidate: &[Burst], baseline: &[Burst], overall: f64) -> Option<Location> {
    let rounds = candidate.len().min(baseline.len());
    if rounds < PARTS * ROUNDS_OF_PART {
        return None;
    }
    let mut ratios = Vec::with_capacity(PARTS);
    for part in 0..PARTS {
        let range = part * rounds / PARTS..(part + 1) * rounds / PARTS;
        let low = |bursts: &[Burst]| {
            let calls = bursts.iter().flat_map(Burst::counted).copied();
            floor(&calls.collect::<Vec<f64>>())
        };
        ratios.push((low(&baseline[range.clone()])? / low(&candidate[range])?).ln());
    }
    let parts = Location::of(&ratios)?;
    let agree = (overall - parts.value).abs() <= parts.half();
    Some(Location {
        value: if agree { overall } else { parts.value },
        ..parts
    })
}

/// ln of the ratio of the lower quartiles of each round, in their order.
fn log_ratios(candidate: &[Burst], baseline: &[Burst]) -> Vec<f64> {
    candidate
        .iter()
        .zip(baseline)
        .filter_map(|(ours, theirs)| {
            let (ours, theirs) = (ours.counted(), theirs.counted());
            // The quartile of few calls has another bias than that of many. The comparison therefore takes equally many
            // calls from both sides, except if one side has a single slow call, where the bias makes no difference.
            let same = match ours.len().min(theirs.len()) {
                0 => return None,
                1 => usize::MAX,
                n => n,
            };
            let low = |calls: &[f64]| {
                let mut calls: Vec<f64> = calls.iter().take(same).copied().collect();
                calls.sort_unstable_by(f64::total_cmp);
                quantile(&calls, PAIR_QUANTILE)
            };
            Some((low(theirs)? / low(ours)?).ln())
        })
        .collect()
}

/// Both sides over all their bursts.
struct Sides {
    ours: Side,
    theirs: Side,
}

impl Sides {
    fn of(candidate: &[Burst], baseline: &[Burst]) -> Option<Self> {
        Some(Self {
            ours: Side::of(candidate)?,
            theirs: Side::of(baseline)?,
        })
    }

    /// ln of the ratio of the floors.
    fn log_ratio(&self) -> f64 {
        (self.theirs.floor / self.ours.floor).ln()
    }

    /// ln of the ratio of the lower quartiles of all calls.
    fn log_ratio_of_quartiles(&self) -> f64 {
        (self.theirs.quartile / self.ours.quartile).ln()
    }

    /// `estimate` with the ratio at `location`, if there is one, and an interval that also covers errors that no
    /// scatter shows.
    fn with(&self, estimate: Estimate, location: Option<Location>) -> Estimate {
        let of_rounds = location.map_or(estimate.log_ratio, |l| l.value);
        let most = match estimate.rounds {
            0..ROUNDS_OF_LIMIT => f64::INFINITY,
            _ => self.log_ratio() + SPARED,
        };
        let log_ratio = of_rounds.min(most);
        let sampling_log_se = location.map_or(0.0, |l| l.half() / NORMAL);
        let log_se = sampling_log_se
            .hypot(self.ours.prior_log_se())
            .hypot(self.theirs.prior_log_se())
            .hypot(SYSTEMATIC_LOG_SE);
        Estimate {
            log_ratio,
            log_se,
            low: log_ratio - NORMAL * log_se,
            high: log_ratio + NORMAL * log_se,
            sampling_log_se,
            ..estimate
        }
    }
}

/// One side over all its bursts.
struct Side {
    calls: usize,
    bursts: usize,
    floor: f64,
    quartile: f64,
    /// ln of the ratio of the two fastest calls.
    gap: f64,
    supported: bool,
}

impl Side {
    fn of(bursts: &[Burst]) -> Option<Self> {
        let mut samples: Vec<(f64, usize)> = bursts
            .iter()
            .enumerate()
            .flat_map(|(round, burst)| burst.counted().iter().map(move |&s| (s, round)))
            .collect();
        samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let ascending: Vec<f64> = samples.iter().map(|s| s.0).collect();
        let floor = quantile(&ascending, FLOOR_QUANTILE)?;
        let on_floor: Vec<usize> = samples
            .iter()
            .take_while(|s| s.0 <= floor * (1.0 + FLOOR_WIDTH))
            .map(|s| s.1)
            .collect();
        let several_bursts = on_floor.iter().any(|b| Some(b) != on_floor.first());
        Some(Self {
            calls: samples.len(),
            bursts: bursts.iter().filter(|b| !b.counted().is_empty()).count(),
            floor,
            quartile: quantile(&ascending, PAIR_QUANTILE)?,
            gap: match ascending.as_slice() {
                [first, second, ..] => (second / first).ln(),
                _ => 0.0,
            },
            supported: on_floor.len() >= 3 && several_bursts,
        })
    }

    /// The uncertainty that few samples cannot show in their own spread: the larger one of 2 % divided by the
    /// square root of calls times bursts and, below 8 calls, the gap between the lowest two divided by the square root
    /// of calls.
    fn prior_log_se(&self) -> f64 {
        let n = self.calls as f64;
        let gap = if self.calls < 8 { self.gap } else { 0.0 };
        (0.02 / (n * self.bursts as f64).sqrt()).max(gap / n.sqrt())
    }
}

#[cfg(test)]
mod tests;
