//! The statistics of a measurement: floors, their ratio, and how sure it is.
//!
//! On a shared machine only the low end of many short samples repeats; means
//! and medians follow the neighbours. So the estimate is the ratio of two low
//! quantiles, and its uncertainty comes from resampling whole rounds of
//! bursts, because calls that follow each other share their luck. Everything here is pure: the seed
//! of the bootstrap comes in.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The quantile that counts as the floor.
pub const FLOOR_QUANTILE: f64 = 0.05;

/// The quantile of a burst that is compared with its partner's. On machines whose single calls scatter by some percent
/// the lower quartile repeats better than the fastest call: a fifth less spread in measurements of a kernel against itself.
const PAIR_QUANTILE: f64 = 0.25;

/// Samples lie on the floor when they are within this share above it.
pub const FLOOR_WIDTH: f64 = 0.005;

/// No measurement claims a smaller standard error of ln(ratio): code layout, physical pages and
/// the clock's own reach cost about this much even where samples agree perfectly.
pub const SYSTEMATIC_LOG_SE: f64 = 0.0008;

/// Timed calls of one side that ran right after each other, in seconds, in order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Burst {
    /// Seconds of each call. The first ones warm the caches.
    pub seconds: Vec<f64>,
    /// How many of the first calls only warmed up and do not count.
    pub warm_up: usize,
}

impl Burst {
    /// The calls that count.
    pub fn counted(&self) -> &[f64] {
        self.seconds.get(self.warm_up..).unwrap_or(&[])
    }
}

/// The `q`-quantile of an ascending slice, interpolated linearly between neighbours. None when it is empty.
pub fn quantile(ascending: &[f64], q: f64) -> Option<f64> {
    let last = ascending.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    Some(ascending[below] * (1.0 - share) + ascending[above] * share)
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

/// Two floors and what they say about each other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Floor of the candidate, seconds.
    pub candidate: f64,
    /// Floor of the baseline, seconds.
    pub baseline: f64,
    /// ln(baseline / candidate): above 0 the candidate is faster. On a quiet machine it is the ratio of the floors.
    pub log_ratio: f64,
    /// Standard error of `log_ratio`.
    pub log_se: f64,
    /// 95 % interval of `log_ratio`.
    pub low: f64,
    /// 95 % interval of `log_ratio`.
    pub high: f64,
    /// Both floors rest on several samples of several bursts.
    pub supported: bool,
}

/// Estimates the ratio of the two sides, with an interval from `resamples` bootstrap rounds. The `n`-th bursts
/// of both sides belong together: they ran right after each other. None while a side has no counted call.
///
/// Two estimates are weighted by how well they repeat under resampling. The ratio of the floors over all
/// bursts is the best one when both sides found quiet moments. The median over rounds of the ratio of each
/// round's lower quartiles still holds when the whole machine changes its speed for seconds, since both sides
/// of a round see the same speed.
pub fn estimate(
    candidate: &[Burst],
    baseline: &[Burst],
    resamples: u32,
    seed: u64,
) -> Option<Estimate> {
    let ours = Side::of(candidate)?;
    let theirs = Side::of(baseline)?;
    let rounds = candidate.len().max(baseline.len());
    let pairs = Pairs::of(candidate, baseline);
    let once = vec![1u32; rounds];
    let floors = (theirs.floor / ours.floor).ln();
    let paired = pairs.median(&once).unwrap_or(floors);

    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let resampled: Vec<(f64, f64)> = (0..resamples.max(2))
        .map(|_| {
            let mut times = vec![0u32; rounds];
            for _ in 0..rounds {
                times[rng.random_range(0..rounds)] += 1;
            }
            // A draw may leave a side without any call; what is known then is the estimate itself.
            let floors = match (theirs.resampled(&times), ours.resampled(&times)) {
                (Some(theirs), Some(ours)) => (theirs / ours).ln(),
                _ => floors,
            };
            (floors, pairs.median(&times).unwrap_or(paired))
        })
        .collect();
    // Around the estimate, not around the bootstrap's own mean: a resampled floor lies above the floor of all
    // samples more often than below it.
    let spread = |centre: f64, of: fn(&(f64, f64)) -> f64| {
        let squares: f64 = resampled.iter().map(|r| (of(r) - centre).powi(2)).sum();
        (squares / resampled.len() as f64).sqrt()
    };
    let of_floors = spread(floors, |r| r.0).max(SYSTEMATIC_LOG_SE);
    let of_pairs = spread(paired, |r| r.1).max(SYSTEMATIC_LOG_SE);
    let weight = if pairs.len() < 3 {
        1.0
    } else {
        of_floors.powi(-2) / (of_floors.powi(-2) + of_pairs.powi(-2))
    };
    let mixed = |floors: f64, paired: f64| weight * floors + (1.0 - weight) * paired;

    let log_ratio = mixed(floors, paired);
    let mut ratios: Vec<f64> = resampled.iter().map(|&(f, p)| mixed(f, p)).collect();
    ratios.sort_by(f64::total_cmp);
    let squares: f64 = ratios.iter().map(|r| (r - log_ratio).powi(2)).sum();
    let spread = (squares / ratios.len() as f64).sqrt();
    // Resampling n rounds sees a share (n - 1) / n of their variance. And two estimates of the same thing that
    // disagree say themselves how far off each may be.
    let few = (rounds as f64 / (rounds as f64 - 1.0).max(1.0)).sqrt();
    let disagreement = if pairs.len() < 3 {
        0.0
    } else {
        (floors - paired).abs() / 2.0
    };
    let own = ours
        .prior_log_se()
        .hypot(theirs.prior_log_se())
        .hypot(SYSTEMATIC_LOG_SE);
    let log_se = (few * spread).hypot(own).hypot(disagreement);
    let half = 1.96 * log_se;
    Some(Estimate {
        candidate: ours.floor,
        baseline: theirs.floor,
        log_ratio,
        log_se,
        low: quantile(&ratios, 0.025)
            .unwrap_or(log_ratio)
            .min(log_ratio - half),
        high: quantile(&ratios, 0.975)
            .unwrap_or(log_ratio)
            .max(log_ratio + half),
        supported: ours.supported && theirs.supported,
    })
}

/// The ratio of each round's lower quartiles.
struct Pairs {
    /// (ln of the ratio, round), in ascending order of the ratio.
    ratios: Vec<(f64, usize)>,
}

impl Pairs {
    fn of(candidate: &[Burst], baseline: &[Burst]) -> Self {
        let mut ratios: Vec<(f64, usize)> = candidate
            .iter()
            .zip(baseline)
            .enumerate()
            .filter_map(|(round, (ours, theirs))| {
                let (ours, theirs) = (ours.counted(), theirs.counted());
                // Few calls scatter more than many: equally many on both sides, except beside a single slow
                // call, where that makes no difference.
                let same = match ours.len().min(theirs.len()) {
                    0 => return None,
                    1 => usize::MAX,
                    n => n,
                };
                let low = |calls: &[f64]| {
                    let mut calls: Vec<f64> = calls.iter().take(same).copied().collect();
                    calls.sort_by(f64::total_cmp);
                    quantile(&calls, PAIR_QUANTILE)
                };
                Some(((low(theirs)? / low(ours)?).ln(), round))
            })
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { ratios }
    }

    fn len(&self) -> usize {
        self.ratios.len()
    }

    /// The median when round `n` is taken `times[n]` times.
    fn median(&self, times: &[u32]) -> Option<f64> {
        let total: u32 = self.ratios.iter().map(|r| times[r.1]).sum();
        let at = |rank: u32| {
            let mut seen = 0;
            self.ratios.iter().find_map(|&(ratio, round)| {
                seen += times[round];
                (seen > rank).then_some(ratio)
            })
        };
        let last = total.checked_sub(1)?;
        Some((at(last / 2)? + at(last.div_ceil(2))?) / 2.0)
    }
}

/// One side, sorted once so that a bootstrap round needs no sorting.
struct Side {
    /// (seconds, round) in ascending order of seconds.
    samples: Vec<(f64, usize)>,
    bursts: usize,
    floor: f64,
    supported: bool,
}

impl Side {
    fn of(bursts: &[Burst]) -> Option<Self> {
        let mut samples: Vec<(f64, usize)> = bursts
            .iter()
            .enumerate()
            .flat_map(|(round, burst)| burst.counted().iter().map(move |&s| (s, round)))
            .collect();
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ascending: Vec<f64> = samples.iter().map(|s| s.0).collect();
        let floor = quantile(&ascending, FLOOR_QUANTILE)?;
        let on_floor: Vec<usize> = samples
            .iter()
            .take_while(|s| s.0 <= floor * (1.0 + FLOOR_WIDTH))
            .map(|s| s.1)
            .collect();
        let several_bursts = on_floor.iter().any(|b| Some(b) != on_floor.first());
        Some(Self {
            supported: on_floor.len() >= 3 && several_bursts,
            samples,
            bursts: bursts.iter().filter(|b| !b.counted().is_empty()).count(),
            floor,
        })
    }

    /// The floor when round `n` is taken `times[n]` times; none when nothing is taken.
    fn resampled(&self, times: &[u32]) -> Option<f64> {
        let total: u32 = self.samples.iter().map(|s| times[s.1]).sum();
        let position = FLOOR_QUANTILE * f64::from(total.checked_sub(1)?);
        let mut seen = 0u32;
        let mut below = None;
        for &(seconds, round) in &self.samples {
            seen += times[round];
            // `seen - 1` is the rank of the last copy of this sample.
            if below.is_none() && f64::from(seen) > position.floor() {
                below = Some(seconds);
            }
            if f64::from(seen) > position.floor() + 1.0 {
                let share = position.fract();
                return below.map(|b| b * (1.0 - share) + seconds * share);
            }
        }
        below
    }

    /// What few samples cannot know about their own spread: the gap between the lowest ones,
    /// and 2 % shared out over calls and bursts.
    fn prior_log_se(&self) -> f64 {
        let n = self.samples.len();
        let gap = match self.samples.as_slice() {
            [first, second, ..] if n < 8 => (second.0 / first.0).ln(),
            _ => 0.0,
        };
        (0.02 / (n as f64 * self.bursts as f64).sqrt()).max(gap / (n as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::Rng;

    fn bursts(rng: &mut ChaCha8Rng, true_seconds: f64, count: usize, load: f64) -> Vec<Burst> {
        (0..count)
            .map(|_| {
                // Some bursts meet a busy neighbour; single calls are interrupted.
                let slow = if rng.random::<f64>() < load {
                    1.0 + rng.random::<f64>()
                } else {
                    1.0
                };
                let seconds = (0..8)
                    .map(|_| {
                        let jitter = -rng.random::<f64>().max(1e-12).ln() * 0.002;
                        let hit = if rng.random::<f64>() < 0.05 {
                            rng.random::<f64>()
                        } else {
                            0.0
                        };
                        true_seconds * slow * (1.0 + jitter + hit)
                    })
                    .collect();
                Burst {
                    seconds,
                    warm_up: 1,
                }
            })
            .collect()
    }

    #[test]
    fn the_interval_covers_the_truth() {
        for load in [0.0, 0.3, 0.6] {
            let mut covered = 0;
            let mut close = 0;
            let runs = 200;
            for run in 0..runs {
                let mut rng = ChaCha8Rng::seed_from_u64(run);
                let candidate = bursts(&mut rng, 0.7e-3, 20, load);
                let baseline = bursts(&mut rng, 1.1e-3, 20, load);
                let e = estimate(&candidate, &baseline, 200, run).expect("an estimate");
                let truth = (1.1f64 / 0.7).ln();
                covered += u32::from(e.low <= truth && truth <= e.high);
                close += u32::from((e.log_ratio - truth).abs() < 0.01);
                assert!(e.low <= e.log_ratio && e.log_ratio <= e.high);
            }
            assert!(
                covered >= 184,
                "load {load}: {covered} of {runs} intervals cover the truth"
            );
            assert!(close >= 184, "load {load}: {close} of {runs} within 1 %");
        }
    }

    #[test]
    fn a_machine_that_changes_its_speed_for_both_does_not_matter() {
        // Few rounds, each at another speed of the whole machine: one side may have met the fast one only once.
        let (mut close, runs) = (0, 200);
        for run in 0..runs {
            let mut rng = ChaCha8Rng::seed_from_u64(run);
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..6 {
                let speed = [1.0, 1.2, 1.55][rng.random_range(0..3)];
                ours.extend(bursts(&mut rng, 1.0e-3 * speed, 1, 0.0));
                theirs.extend(bursts(&mut rng, 1.3e-3 * speed, 1, 0.0));
            }
            let e = estimate(&ours, &theirs, 60, run).expect("an estimate");
            close += u32::from((e.log_ratio - 1.3f64.ln()).abs() < 0.01);
        }
        assert!(close >= 180, "{close} of {runs} within 1 %");
    }

    #[test]
    fn the_interval_is_not_absurdly_wide() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let a = bursts(&mut rng, 1e-3, 40, 0.2);
        let b = bursts(&mut rng, 1e-3, 40, 0.2);
        let e = estimate(&a, &b, 300, 1).expect("an estimate");
        assert!(e.log_se < 0.004, "standard error {}", e.log_se);
        assert!(e.supported);
    }

    #[test]
    fn two_calls_are_no_certainty() {
        let few = |s: f64| {
            vec![
                Burst {
                    seconds: vec![s],
                    warm_up: 0
                };
                2
            ]
        };
        let e = estimate(&few(0.03), &few(0.001), 100, 3).expect("an estimate");
        assert!(e.log_se > 0.005, "standard error {}", e.log_se);
        assert!(!e.supported);
    }

    #[test]
    fn a_floor_of_one_burst_is_not_supported() {
        let mut all = vec![Burst {
            seconds: vec![1.0; 8],
            warm_up: 0,
        }];
        all.extend(vec![
            Burst {
                seconds: vec![1.3; 8],
                warm_up: 0
            };
            5
        ]);
        let e = estimate(&all, &all, 50, 3).expect("an estimate");
        assert!(!e.supported);
    }

    #[test]
    fn warm_up_calls_do_not_count() {
        let side = vec![
            Burst {
                seconds: vec![0.5, 1.0, 1.0, 1.0],
                warm_up: 1
            };
            4
        ];
        let e = estimate(&side, &side, 50, 3).expect("an estimate");
        assert!((e.candidate - 1.0).abs() < 1e-12);
        assert!(
            estimate(
                &side,
                &[Burst {
                    seconds: vec![1.0],
                    warm_up: 1
                }],
                50,
                3
            )
            .is_none()
        );
    }

    proptest! {
        #[test]
        fn quantiles_are_monotone_and_bounded(mut x in prop::collection::vec(0.0f64..10.0, 1..60), p in 0.0f64..1.0, q in 0.0f64..1.0) {
            x.sort_by(f64::total_cmp);
            let (low, high) = (p.min(q), p.max(q));
            let (a, b) = (quantile(&x, low).unwrap_or(f64::NAN), quantile(&x, high).unwrap_or(f64::NAN));
            prop_assert!(a <= b + 1e-12);
            prop_assert!(a >= x[0] && b <= x[x.len() - 1] + 1e-12);
        }

        #[test]
        fn the_ratio_scales_and_the_same_seed_repeats(scale in 0.1f64..10.0, seed: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let a = bursts(&mut rng, 1.0, 6, 0.2);
            let b = bursts(&mut rng, 1.0, 6, 0.2);
            let scaled: Vec<Burst> = a.iter().map(|x| Burst { seconds: x.seconds.iter().map(|s| s * scale).collect(), warm_up: x.warm_up }).collect();
            let one = estimate(&a, &b, 60, seed).ok_or_else(|| TestCaseError::fail("none"))?;
            let two = estimate(&scaled, &b, 60, seed).ok_or_else(|| TestCaseError::fail("none"))?;
            prop_assert!((one.log_ratio - scale.ln() - two.log_ratio).abs() < 1e-9);
            prop_assert_eq!(estimate(&a, &b, 60, seed), Some(one));
        }

        #[test]
        fn resampling_every_burst_once_gives_the_floor(seed: u64) {
            // With a single burst there is only one way to resample.
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let one = bursts(&mut rng, 1.0, 1, 0.0);
            let side = Side::of(&one).ok_or_else(|| TestCaseError::fail("none"))?;
            let again = side.resampled(&[1]).ok_or_else(|| TestCaseError::fail("none"))?;
            prop_assert!((again - side.floor).abs() < 1e-12);
            prop_assert_eq!(side.resampled(&[0]), None);
        }

        #[test]
        fn spread_is_relative(x in prop::collection::vec(1.0f64..2.0, 2..50), scale in 0.1f64..10.0) {
            let y: Vec<f64> = x.iter().map(|v| v * scale).collect();
            prop_assert!((mdape(&x) - mdape(&y)).abs() < 1e-9);
            prop_assert!(mdape(&x) >= 0.0);
        }
    }
}
