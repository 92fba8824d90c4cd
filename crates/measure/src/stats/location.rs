//! The location of a few comparisons and its uncertainty, when some values are far off and successive values correlate.
//!
//! Tukey's biweight gives every value a weight that falls from 1 in the middle to 0 at some distance, so that a round
//! that met an interruption neither moves the result nor has to be recognised and thrown away (Mosteller and Tukey,
//! Data Analysis and Regression, 1977, chapter 10). Its interval is Student's with 0.7 (n - 1) degrees of freedom
//! (ibid.; Gross, Confidence interval robustness with long-tailed symmetric distributions, JASA 71, 1976).

use super::median;

/// Values this many median absolute deviations from the middle have no weight; some six standard deviations of a
/// normal distribution. Six, the book's other choice, gives intervals that are too narrow for a dozen rounds.
const REACH: f64 = 9.0;
/// Steps of the iteration, which starts at the median and settles in three or four.
const STEPS: usize = 8;
/// Fewer values than this say nothing about their own spread.
const LEAST: usize = 3;
/// Share of the usual degrees of freedom that is left when the spread, too, is estimated robustly.
const FREEDOM: f64 = 0.7;
/// Correlations of successive values above this leave nothing to estimate from.
const CORRELATED: f64 = 0.8;

/// 97.5 % quantile of the normal distribution.
pub const NORMAL: f64 = 1.959_964;

/// 97.5 % quantiles of Student's t, by degrees of freedom.
const STUDENT: [(f64, f64); 14] = [
    (1.0, 12.706),
    (2.0, 4.303),
    (3.0, 3.182),
    (4.0, 2.776),
    (5.0, 2.571),
    (6.0, 2.447),
    (7.0, 2.365),
    (8.0, 2.306),
    (10.0, 2.228),
    (12.0, 2.179),
    (15.0, 2.131),
    (20.0, 2.086),
    (30.0, 2.042),
    (60.0, 2.000),
];

/// 97.5 % quantile of Student's t. Between the lines of the table it is nearly linear in 1 / `freedom`.
fn student(freedom: f64) -> f64 {
    let freedom = freedom.max(1.0);
    let (mut below, mut above) = (STUDENT[0], (f64::INFINITY, NORMAL));
    for line in STUDENT {
        if line.0 <= freedom {
            below = line;
        } else {
            above = line;
            break;
        }
    }
    let (near, far) = (below.0.recip(), above.0.recip());
    let share = ((near - freedom.recip()) / (near - far)).clamp(0.0, 1.0);
    below.1 + (above.1 - below.1) * share
}

/// The location of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Location {
    /// The biweight.
    pub value: f64,
    /// Its standard error.
    pub se: f64,
    /// Degrees of freedom of `se`.
    pub freedom: f64,
    /// Values too far off to have any weight.
    pub outlying: usize,
}

impl Location {
    /// The location of `values`, which are in the order of measurement. None for fewer than three values.
    ///
    /// # Formulas
    /// With u = (x - T) / (9 MAD), T = Σ x (1 - u²)² / Σ (1 - u²)² over |u| < 1, and
    /// se² = Σ (x - T)² (1 - u²)⁴ / (D max(1, D - 1)), D = Σ (1 - u²)(1 - 5 u²) (Mosteller and Tukey).
    /// If successive values correlate by r > 0, se² becomes (1 + r) / (1 - r) times as large and the degrees of freedom
    /// become as many times fewer: the variance of the mean of a first-order autoregressive series (Priestley, Spectral
    /// Analysis and Time Series, 1981). A negative r is not believed, since so few values show one by chance.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < LEAST {
            return None;
        }
        let mut value = median(values.iter().copied())?;
        let deviations: Vec<f64> = values.iter().map(|x| (x - value).abs()).collect();
        let freedom = (FREEDOM * (n as f64 - 1.0)).max(1.0);
        // With a coarse clock more than half of the values may be equal.
        let mean = deviations.iter().sum::<f64>() / n as f64;
        let mad = median(deviations.iter().copied()).filter(|mad| *mad > 0.0);
        let scale = REACH * mad.unwrap_or(mean);
        if scale <= 0.0 {
            return Some(Self {
                value,
                se: 0.0,
                freedom,
                outlying: 0,
            });
        }
        // 1 - u², and 0 for |u| ≥ 1.
        let nearness = |x: f64, middle: f64| (1.0 - ((x - middle) / scale).powi(2)).max(0.0);
        for _ in 0..STEPS {
            let (mut weights, mut sum) = (0.0, 0.0);
            for &x in values {
                let weight = nearness(x, value).powi(2);
                weights += weight;
                sum += weight * x;
            }
            if weights > 0.0 {
                value = sum / weights;
            }
        }
        let pulls: Vec<f64> = values
            .iter()
            .map(|&x| (x - value) * nearness(x, value).powi(2))
            .collect();
        let slope: f64 = values
            .iter()
            .map(|&x| nearness(x, value) * (5.0 * nearness(x, value) - 4.0))
            .sum();
        let squares: f64 = pulls.iter().map(|p| p * p).sum();
        let se = (squares / (slope.max(0.1) * (slope - 1.0).max(1.0))).sqrt();
        let inflation = inflation(&pulls, squares);
        Some(Self {
            value,
            se: se * inflation.sqrt(),
            freedom: (freedom / inflation).max(freedom.min(2.0)),
            outlying: values
                .iter()
                .filter(|&&x| nearness(x, value) <= 0.0)
                .count(),
        })
    }

    /// Half of the 95 % interval.
    pub fn half(&self) -> f64 {
        student(self.freedom) * self.se
    }
}

/// The factor by which correlated successive values increase the variance of the location.
fn inflation(pulls: &[f64], squares: f64) -> f64 {
    if squares <= 0.0 {
        return 1.0;
    }
    let products: f64 = pulls.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let r = (products / squares).clamp(0.0, CORRELATED);
    (1.0 + r) / (1.0 - r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        // Abramowitz and Stegun, table 26.10.
        for (freedom, t) in [
            (1.0, 12.706),
            (4.0, 2.776),
            (9.0, 2.262),
            (25.0, 2.060),
            (120.0, 1.980),
        ] {
            assert!(
                (student(freedom) - t).abs() < 2e-3,
                "{freedom}: {}",
                student(freedom)
            );
        }
        assert!((student(f64::INFINITY) - NORMAL).abs() < 1e-9);
        assert!((student(0.2) - 12.706).abs() < 1e-9);
    }

    #[test]
    fn outliers_are_counted_and_do_not_move_the_location() {
        let quiet = [0.99, 1.0, 1.01, 1.005, 0.995, 1.002, 0.998];
        let own = Location::of(&quiet).expect("seven values");
        let mut hit = quiet.to_vec();
        hit.extend([30.0, -4.0]);
        let with = Location::of(&hit).expect("nine values");
        assert_eq!((own.outlying, with.outlying), (0, 2));
        assert!((own.value - with.value).abs() < 2e-3, "{own:?} {with:?}");
        assert!(with.half() < 0.02, "{with:?}");
    }

    #[test]
    fn equal_values_are_one_and_a_coarse_clock_is_not_certainty() {
        let equal = Location::of(&[2.0; 5]).expect("five values");
        assert_eq!((equal.value, equal.se, equal.outlying), (2.0, 0.0, 0));
        let coarse = Location::of(&[2.0, 2.0, 2.0, 2.1, 2.0, 2.0, 1.9]).expect("seven values");
        assert!(coarse.se > 0.005, "{coarse:?}");
        assert_eq!(Location::of(&[1.0, 2.0]), None);
    }

    #[test]
    fn neighbours_that_go_together_make_it_less_sure() {
        let apart = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        let together = [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0];
        let half = |x: &[f64]| Location::of(x).map_or(0.0, |l| l.half());
        assert!(half(&together) > 1.5 * half(&apart));
    }

    proptest! {
        #[test]
        fn it_moves_and_scales_with_the_values(x in prop::collection::vec(-1.0f64..1.0, 3..40), shift in -5.0f64..5.0, scale in 0.1f64..10.0) {
            let moved: Vec<f64> = x.iter().map(|v| v * scale + shift).collect();
            let none = || TestCaseError::fail("none");
            let (a, b) = (Location::of(&x).ok_or_else(none)?, Location::of(&moved).ok_or_else(none)?);
            prop_assert!((a.value * scale + shift - b.value).abs() < 1e-6);
            prop_assert!((a.half() * scale - b.half()).abs() < 1e-6 * (1.0 + b.half()));
            prop_assert!(x.iter().any(|v| *v <= a.value + 1e-9) && x.iter().any(|v| *v >= a.value - 1e-9));
        }
    }
}
