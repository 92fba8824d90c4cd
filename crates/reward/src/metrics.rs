//! Numbers that evaluations report.
//!
//! A slice of samples holds one `Option<f64>` per sample that counts: the speedup S = time of the plain reference /
//! time of the candidate for a correct sample, `None` for an incorrect one. The caller leaves out infrastructure
//! failures. All samples belong to one problem; the caller computes means over problems, since these weigh problems and
//! not samples.

use std::collections::BTreeSet;

/// The treatment of incorrect samples in an expected maximum. Every report names the one it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// Incorrect samples are dropped, as in ParEval.
    Drop,
    /// Incorrect samples count with a speedup of 0.
    CountZero,
}

/// Probability that at least one of `k` samples, drawn without replacement from `n` of which `c` pass, passes: 1 −
/// C(n−c, k)/C(n, k) (Chen et al. 2021).
///
/// `None` if `k` is 0 or above `n`, or `c` above `n`. With "builds" in the place of "passes" this is [`build_at_k`].
pub fn pass_at_k(n: usize, c: usize, k: usize) -> Option<f64> {
    if k == 0 || k > n || c > n {
        return None;
    }
    // C(n−c, k)/C(n, k) = Π_{i<k} (n−c−i)/(n−i), which needs no binomial.
    let none_passes: f64 = (0..k)
        .map(|i| (n - c).saturating_sub(i) as f64 / (n - i) as f64)
        .product();
    Some(1.0 - none_passes)
}

/// [`pass_at_k`] for programs that build.
pub fn build_at_k(n: usize, built: usize, k: usize) -> Option<f64> {
    pass_at_k(n, built, k)
}

/// The expected largest speedup of `k` samples drawn without replacement: Σ_j C(j−1, k−1)/C(N, k)·S_j with the slowest
/// first (Nichols et al., equation 10).
///
/// `None` if fewer than `k` samples are left after `invalid` is applied.
pub fn speedup_n_at_k(samples: &[Option<f64>], k: usize, invalid: Invalid) -> Option<f64> {
    let mut speedups = chosen(samples, invalid);
    let n = speedups.len();
    if k == 0 || k > n {
        return None;
    }
    speedups.sort_by(f64::total_cmp);
    // The weight of the fastest is C(n−1, k−1)/C(n, k) = k/n; the weight of each slower one is (j−k)/(j−1) of the next
    // faster one's.
    let mut weight = k as f64 / n as f64;
    let mut sum = 0.0;
    for j in (k..=n).rev() {
        sum += weight * speedups[j - 1];
        if j > 1 {
            weight *= (j - k) as f64 / (j - 1) as f64;
        }
    }
    Some(sum)
}

/// [`speedup_n_at_k`] divided by the number of threads or ranks.
pub fn efficiency_n_at_k(
    samples: &[Option<f64>],
    k: usize,
    invalid: Invalid,
    threads: usize,
) -> Option<f64> {
    (threads > 0).then_some(())?;
    speedup_n_at_k(samples, k, invalid).map(|s| s / threads as f64)
}

/// speedup_n@k as ParEval's released code computes it: with the *fastest* first, and with a binomial of 1 if there are
/// too few samples to choose from.
///
/// The result is no expected maximum; it serves the comparison with published tables only.
pub fn pareval_compat_speedup(samples: &[Option<f64>], k: usize) -> Option<f64> {
    let mut speedups = chosen(samples, Invalid::Drop);
    let n = speedups.len();
    if n == 0 || k == 0 {
        return None;
    }
    speedups.sort_by(|a, b| b.total_cmp(a));
    let binomial = |n: usize, r: usize| -> f64 {
        if n < r {
            1.0
        } else {
            (0..r).map(|i| (n - i) as f64 / (r - i) as f64).product()
        }
    };
    let all = binomial(n, k);
    Some(
        speedups
            .iter()
            .enumerate()
            .map(|(i, s)| binomial(i, k - 1) / all * s)
            .sum(),
    )
}

/// Share of all samples that are correct and strictly faster than `p` times the plain reference. `None` without
/// samples.
pub fn fast_p(samples: &[Option<f64>], p: f64) -> Option<f64> {
    share(samples, |s| s.is_some_and(|s| s > p))
}

/// Share of all samples that are correct but not faster than the plain reference. `None` without samples.
pub fn slow_share(samples: &[Option<f64>]) -> Option<f64> {
    share(samples, |s| s.is_some_and(|s| s <= 1.0))
}

/// Geometric mean of the speedups of correct samples. `None` without correct samples or with a speedup that is not
/// above zero.
pub fn geometric_mean_speedup(samples: &[Option<f64>]) -> Option<f64> {
    geometric_mean(samples.iter().flatten().copied())
}

/// Geometric mean of the speedups of samples that are correct and faster than the plain reference.
pub fn geometric_mean_of_faster(samples: &[Option<f64>]) -> Option<f64> {
    geometric_mean(samples.iter().flatten().copied().filter(|s| *s > 1.0))
}

/// Number of different items, e.g. digests of the correct programs among the last samples.
pub fn distinct<T: Ord>(items: impl IntoIterator<Item = T>) -> usize {
    items.into_iter().collect::<BTreeSet<T>>().len()
}

fn chosen(samples: &[Option<f64>], invalid: Invalid) -> Vec<f64> {
    match invalid {
        Invalid::Drop => samples.iter().flatten().copied().collect(),
        Invalid::CountZero => samples.iter().map(|s| s.unwrap_or(0.0)).collect(),
    }
}

fn share(samples: &[Option<f64>], counts: impl Fn(Option<f64>) -> bool) -> Option<f64> {
    (!samples.is_empty())
        .then(|| samples.iter().filter(|s| counts(**s)).count() as f64 / samples.len() as f64)
}

fn geometric_mean(speedups: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut n) = (0.0, 0_u64);
    for s in speedups {
        if !(s.is_finite() && s > 0.0) {
            return None;
        }
        sum += s.ln();
        n += 1;
    }
    (n > 0).then(|| (sum / n as f64).exp())
}
