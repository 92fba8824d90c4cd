//! Combines several processes into one number: at one place of code and data, and over all places.

use flopsmith_protocol::StopReason;

use super::decision::Limits;
use crate::stats::{Estimate, SYSTEMATIC_LOG_SE, median};

/// 97.5 % quantile of Student's t with 4 degrees of freedom, for the mean over five layouts.
const T_OF_LAYOUTS: f64 = 2.776;
/// 97.5 % quantile of the normal distribution. A standard error is half of an interval divided by this, here as in
/// [`Estimate`].
const NORMAL: f64 = 1.96;
/// Standard error of the median of three normally distributed numbers, divided by that of their mean: the variance of
/// the median is 0.4487 times that of one number.
const OF_MEDIAN: f64 = 1.1602;

/// Most passes through all places of a certification, each in fresh processes: some processes are slower than others
/// because of where their pages happen to lie, which a longer look at the same process does not show.
const MOST_LOOKS: usize = 3;
/// No further look is needed if the standard error of ln(ratio), from the differences between processes at the same
/// places, is at most this.
const REPEATED_LOG_SE: f64 = 0.0012;

/// Measures at each place, given with its number, again and again, until the differences between processes at the same
/// place average out or are not worth more time. Returns one estimate for each place.
pub(super) fn look_repeatedly<P, E>(
    places: &[P],
    mut once: impl FnMut(u64, &P) -> Result<Estimate, E>,
) -> Result<Vec<Estimate>, E> {
    let mut looks = vec![Vec::new(); places.len()];
    for look in 0..MOST_LOOKS {
        for ((n, place), looks) in (0u64..).zip(places).zip(&mut looks) {
            looks.push(once(n, place)?);
        }
        if look > 0 && repeated_log_se(&looks) <= REPEATED_LOG_SE {
            break;
        }
    }
    Ok(looks.iter().filter_map(|l| over_looks(l)).collect())
}

/// One estimate of several processes at the same place: medians, since now and then the pages of a process, or of a
/// baseline, lie so badly that its ratio is ten per cent off. None without processes.
pub(super) fn over_looks(looks: &[Estimate]) -> Option<Estimate> {
    let (first, rest) = looks.split_first()?;
    if rest.is_empty() {
        return Some(*first);
    }
    let n = looks.len() as f64;
    let log_ratio = median(looks.iter().map(|e| e.log_ratio))?;
    let loss = if looks.len() > 2 { OF_MEDIAN } else { 1.0 };
    let own = looks.iter().map(|e| e.log_se * e.log_se).sum::<f64>() / n;
    let mut log_se = loss * (own / n).sqrt();
    // Errors that no scatter shows are in part the same for all processes. A standard error of NaN stays NaN.
    if log_se < SYSTEMATIC_LOG_SE {
        log_se = SYSTEMATIC_LOG_SE;
    }
    let half = NORMAL * log_se;
    let shown = looks.iter().map(|e| e.sampling_log_se.powi(2)).sum::<f64>() / n;
    Some(Estimate {
        candidate: median(looks.iter().map(|e| e.candidate.ln()))?.exp(),
        baseline: median(looks.iter().map(|e| e.baseline.ln()))?.exp(),
        log_ratio,
        log_se,
        low: log_ratio - half,
        high: log_ratio + half,
        sampling_log_se: loss * (shown / n).sqrt(),
        rounds: looks.iter().map(|e| e.rounds).sum(),
        outlying: looks.iter().map(|e| e.outlying).sum(),
        supported: looks.iter().all(|e| e.supported),
    })
}

/// Number of processes of one of our own programs, of which the middle one counts.
pub(super) const PROCESSES: usize = 7;
/// The 95 % interval of the median of this many normally distributed numbers is that of a normal distribution whose
/// standard deviation is this share of the distance between the second smallest and the second largest (2 × 10⁵ draws).
const OF_MIDDLE: f64 = 0.39;

/// One estimate of [`PROCESSES`] processes of one program: the median, and an error that covers the differences between
/// the processes. The second smallest and the second largest ratio give the size of these differences, so a process
/// whose pages lie badly moves neither median nor error. None for another number of processes.
pub(super) fn over_processes(all: &[Estimate]) -> Option<Estimate> {
    if all.len() != PROCESSES {
        return None;
    }
    let of_their_own = over_looks(all)?;
    let mut ratios: Vec<f64> = all.iter().map(|e| e.log_ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let apart = ratios.get(PROCESSES - 2)? - ratios.get(1)?;
    let log_se = if of_their_own.log_se < OF_MIDDLE * apart {
        OF_MIDDLE * apart
    } else {
        of_their_own.log_se
    };
    Some(Estimate {
        log_se,
        low: of_their_own.log_ratio - NORMAL * log_se,
        high: of_their_own.log_ratio + NORMAL * log_se,
        ..of_their_own
    })
}

/// The standard error of the mean over all places, from the differences between processes at the same place; infinite
/// if each place had one process only.
fn repeated_log_se(places: &[Vec<Estimate>]) -> f64 {
    let (mut squares, mut freedom, mut processes) = (0.0, 0usize, 0usize);
    for looks in places.iter().filter(|looks| !looks.is_empty()) {
        let mean = looks.iter().map(|e| e.log_ratio).sum::<f64>() / looks.len() as f64;
        squares += looks
            .iter()
            .map(|e| (e.log_ratio - mean).powi(2))
            .sum::<f64>();
        freedom += looks.len() - 1;
        processes += looks.len();
    }
    if freedom == 0 {
        return f64::INFINITY;
    }
    (squares / freedom as f64 / processes as f64).sqrt()
}

/// The stop reason of all places together, of which `mean` was made: the worst reason of a place, and never a better
/// one than [`StopReason::Budget`] if the places differ so much that `mean` is not usable. `limits` are those of one
/// place, `whole` those of all. None without places.
pub(super) fn worst(
    limits: &Limits,
    whole: &Limits,
    places: &[Estimate],
    mean: &Estimate,
) -> Option<StopReason> {
    let said = places.iter().map(|place| {
        if place.supported && place.log_se <= limits.target_log_se {
            StopReason::Precise
        } else {
            limits.at_the_end(place.log_se)
        }
    });
    // The order of [`StopReason`] is that of falling certainty.
    let worst = said.max()?;
    Some(if mean.log_se > whole.usable_log_se {
        worst.max(StopReason::Budget)
    } else {
        worst
    })
}

/// One estimate over several places: geometric means, and an interval that covers both the errors of the measurements
/// and the differences between the layouts. The standard error is half of that interval divided by 1.96, so a caller
/// that takes it for a normal distribution's gets the interval back.
pub(super) fn over_layouts(estimates: &[Estimate]) -> Estimate {
    let n = estimates.len() as f64;
    let mean = |value: &dyn Fn(&Estimate) -> f64| estimates.iter().map(value).sum::<f64>() / n;
    let log_ratio = mean(&|e| e.log_ratio);
    // Errors that no scatter shows are in part the same for all layouts, and do not average out.
    let within = (mean(&|e| e.log_se * e.log_se) / n).max(SYSTEMATIC_LOG_SE.powi(2));
    let between = if estimates.len() > 1 {
        mean(&|e| (e.log_ratio - log_ratio).powi(2)) * n / (n - 1.0) / n
    } else {
        0.0
    };
    let half = (NORMAL * within.sqrt()).max(T_OF_LAYOUTS * between.sqrt());
    Estimate {
        candidate: mean(&|e| e.candidate.ln()).exp(),
        baseline: mean(&|e| e.baseline.ln()).exp(),
        log_ratio,
        log_se: half / NORMAL,
        low: log_ratio - half,
        high: log_ratio + half,
        sampling_log_se: (mean(&|e| e.sampling_log_se.powi(2)) / n).sqrt(),
        rounds: estimates.iter().map(|e| e.rounds).sum(),
        outlying: estimates.iter().map(|e| e.outlying).sum(),
        supported: estimates.iter().all(|e| e.supported),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn estimate(log_ratio: f64, log_se: f64) -> Estimate {
        Estimate {
            candidate: 1e-3 * (-log_ratio).exp(),
            baseline: 1e-3,
            log_ratio,
            log_se,
            low: log_ratio - 2.0 * log_se,
            high: log_ratio + 2.0 * log_se,
            sampling_log_se: log_se,
            rounds: 10,
            outlying: 0,
            supported: true,
        }
    }

    #[test]
    fn layouts_that_differ_widen_the_interval() {
        let alike = over_layouts(&[0.5; 5].map(|r| estimate(r, 0.002)));
        assert!((alike.log_ratio - 0.5).abs() < 1e-12);
        assert!((alike.high - alike.low - 2.0 * 1.96 * 0.002 / 5f64.sqrt()).abs() < 1e-9);
        let apart = over_layouts(&[0.4, 0.45, 0.5, 0.55, 0.6].map(|r| estimate(r, 0.002)));
        assert!((apart.log_ratio - 0.5).abs() < 1e-12);
        assert!(apart.low < 0.41 && apart.high > 0.59, "{apart:?}");
        for e in [alike, apart] {
            // A caller that uses only the standard error gets the interval back.
            assert!(
                (e.high - e.low - 2.0 * NORMAL * e.log_se).abs() < 1e-12,
                "{e:?}"
            );
        }
        let alone = over_layouts(&[estimate(0.3, 0.01)]);
        assert!((alone.log_se - 0.01).abs() < 1e-12);
        assert!((alone.candidate - 1e-3 * (-0.3f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn systematic_errors_are_not_averaged_away() {
        let sure = over_layouts(&[0.5; 5].map(|r| estimate(r, SYSTEMATIC_LOG_SE)));
        assert!((sure.log_se - SYSTEMATIC_LOG_SE).abs() < 1e-12, "{sure:?}");
    }

    #[test]
    fn one_bad_process_does_not_move_what_is_said_of_its_place() {
        let looks = [0.5, 0.501, 0.84].map(|r| estimate(r, 0.003));
        assert_eq!(looks.len(), MOST_LOOKS);
        let all = over_looks(&looks).unwrap();
        assert!((all.log_ratio - 0.501).abs() < 1e-12, "{all:?}");
        assert!((all.candidate / (1e-3 * (-0.501f64).exp()) - 1.0).abs() < 1e-9);
        assert_eq!(all.rounds, 30);
        assert!((all.log_se - OF_MEDIAN * 0.003 / 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(over_looks(&looks[..1]).unwrap(), looks[0]);
        assert_eq!(over_looks(&[]), None);
        let of_two = over_looks(&looks[..2]).unwrap();
        assert!((of_two.log_ratio - 0.5005).abs() < 1e-12);
        assert!((of_two.log_se - 0.003 / 2f64.sqrt()).abs() < 1e-12);
        // A third process makes the mean more certain, not less.
        assert!(all.log_se < of_two.log_se);
        let none = over_looks(&[estimate(0.5, f64::NAN), looks[0]]).unwrap();
        assert!(none.log_se.is_nan());
    }

    #[test]
    fn the_error_of_a_median_includes_the_spread_between_processes() {
        let of = |ratios: [f64; PROCESSES], se: f64| {
            over_processes(&ratios.map(|r| estimate(r, se))).unwrap()
        };
        let apart = of([0.50, 0.52, 0.51, 0.49, 0.48, 0.53, 0.47], 0.003);
        assert!((apart.log_ratio - 0.50).abs() < 1e-12);
        assert!((apart.log_se - OF_MIDDLE * 0.04).abs() < 1e-12, "{apart:?}");
        assert!((apart.high - apart.low - 2.0 * NORMAL * apart.log_se).abs() < 1e-12);
        // A process that is far off moves neither.
        let with_one = of([0.50, 0.52, 0.51, 0.49, 0.48, 0.53, 0.10], 0.003);
        assert!((with_one.log_ratio - 0.50).abs() < 1e-12);
        assert!((with_one.log_se - apart.log_se).abs() < 1e-12);
        // If the processes agree, each one's own error remains.
        let alike = of([0.5; PROCESSES], 0.01);
        assert!((alike.log_se - OF_MEDIAN * 0.01 / 7f64.sqrt()).abs() < 1e-12);
        assert!(of([0.5; PROCESSES], f64::NAN).log_se.is_nan());
        assert_eq!(over_processes(&[estimate(0.5, 0.003); 3]), None);
    }

    #[test]
    fn the_interval_of_several_processes_covers_the_truth() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let mut covered = 0;
        for _ in 0..4000 {
            let mut all = [0.0; PROCESSES].map(|_| {
                // A sum of twelve uniform numbers is close enough to a normal one here.
                let normal: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
                estimate(0.5 + 0.02 * normal, 0.001)
            });
            // In one of ten cases a process is far off.
            if rng.random_ratio(1, 10) {
                all[3] = estimate(0.9, 0.001);
            }
            let found = over_processes(&all).unwrap();
            covered += u32::from(found.low <= 0.5 && 0.5 <= found.high);
        }
        assert!((3720..=3880).contains(&covered), "{covered} of 4000");
    }

    #[test]
    fn processes_are_repeated_until_what_they_differ_by_averages_out() {
        let place = |values: &[f64]| -> Vec<Estimate> {
            values.iter().map(|r| estimate(*r, 0.003)).collect()
        };
        // Differences between places have no part in it.
        let once: Vec<_> = [0.4, 0.5, 0.6].iter().map(|r| place(&[*r])).collect();
        assert_eq!(repeated_log_se(&once), f64::INFINITY);
        assert_eq!(repeated_log_se(&[]), f64::INFINITY);
        let alike: Vec<_> = [0.4, 0.5, 0.6].iter().map(|r| place(&[*r, *r])).collect();
        assert!(repeated_log_se(&alike) < 1e-12);
        // Four deviations of 0.01, two degrees of freedom, four processes.
        let apart = [place(&[0.39, 0.41]), place(&[0.51, 0.49])];
        let expected = (4.0 * 1e-4 / 2.0 / 4.0f64).sqrt();
        assert!((repeated_log_se(&apart) - expected).abs() < 1e-12);
    }

    #[test]
    fn every_place_is_looked_at_twice_and_more_often_where_processes_differ() {
        // Returns which of the five places is measured, in order, and the estimate of each.
        let looks = |of: &dyn Fn(u64, usize) -> f64| {
            let mut asked = Vec::new();
            let all = look_repeatedly(&[(); 5], |n, ()| {
                let look = asked.iter().filter(|asked| **asked == n).count();
                asked.push(n);
                Ok::<_, ()>(estimate(of(n, look), 0.003))
            });
            (asked, all.unwrap())
        };
        let once: Vec<u64> = (0..5).collect();
        let (asked, all) = looks(&|n, _| n as f64);
        assert_eq!(asked, once.repeat(2));
        let ratios: Vec<f64> = all.iter().map(|e| e.log_ratio).collect();
        assert_eq!(ratios, [0.0, 1.0, 2.0, 3.0, 4.0]);
        // One process of the first look is off, and has no weight in the result.
        let (asked, all) = looks(&|n, look| if (n, look) == (2, 0) { 0.3 } else { 0.0 });
        assert_eq!(asked, once.repeat(MOST_LOOKS));
        assert!(all.iter().all(|e| e.log_ratio == 0.0), "{all:?}");
        let failed = look_repeatedly(&[()], |_, ()| Err::<Estimate, _>("no process"));
        assert_eq!(failed.unwrap_err(), "no process");
    }

    #[test]
    fn one_bad_place_is_said_of_all() {
        use StopReason as S;
        let limits = Limits {
            min: std::time::Duration::ZERO,
            max: std::time::Duration::ZERO,
            target_log_se: 0.003,
            usable_log_se: 0.006,
        };
        let whole = Limits {
            usable_log_se: 0.003,
            ..limits
        };
        let of =
            |places: &[Estimate], mean: f64| worst(&limits, &whole, places, &estimate(0.5, mean));
        let places = |all: &[f64]| -> Vec<_> { all.iter().map(|se| estimate(0.5, *se)).collect() };
        let said = |all: &[f64]| of(&places(all), 0.001);
        assert_eq!(said(&[0.002, 0.003]), Some(S::Precise));
        assert_eq!(said(&[0.002, 0.005, 0.001]), Some(S::Budget));
        assert_eq!(said(&[0.002, 0.007, 0.005]), Some(S::Unconverged));
        assert_eq!(said(&[0.002, f64::NAN]), Some(S::Unconverged));
        assert_eq!(said(&[]), None);
        // Each place is known precisely, but the places are far apart.
        assert_eq!(of(&places(&[0.002; 5]), 0.02), Some(S::Budget));
        assert_eq!(of(&places(&[0.007; 5]), 0.02), Some(S::Unconverged));
        let unsupported = Estimate {
            supported: false,
            ..estimate(0.5, 0.002)
        };
        assert_eq!(of(&[unsupported], 0.001), Some(S::Budget));
    }
}
