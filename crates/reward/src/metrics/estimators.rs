//! Unbiased estimators of what happens in `k` draws, from more samples than `k`.

/// Probability that at least one of `k` different samples is good, where `good` of `samples` are:
/// 1 − C(N − c, k) / C(N, k) (Chen et al., arXiv:2107.03374). None if there are fewer than `k` samples or if `k` is 0.
pub fn at_least_one(samples: usize, good: usize, k: usize) -> Option<f64> {
    if k == 0 || k > samples {
        return None;
    }
    let bad = samples.saturating_sub(good);
    let none: f64 = (0..k)
        .map(|drawn| bad.saturating_sub(drawn) as f64 / (samples - drawn) as f64)
        .product();
    Some(1.0 - none)
}

/// Expected speedup of the fastest of `k` different samples: Σ C(j − 1, k − 1) / C(N, k) · s_j with the speedups s
/// sorted slowest first (Nichols et al., arXiv:2401.12554). `speedups` are those of the correct samples in this order;
/// all others count 0. None if there are fewer than `k` samples or if `k` is 0.
pub fn expected_best(samples: usize, speedups: &[f64], k: usize) -> Option<f64> {
    if k == 0 || k > samples {
        return None;
    }
    // The fastest of all samples is the fastest of the draws if it is drawn.
    let mut weight = k as f64 / samples as f64;
    let mut expected = 0.0;
    for (before, speedup) in (k - 1..samples).rev().zip(speedups.iter().rev()) {
        expected += weight * speedup;
        // C(j − 2, k − 1) / C(j − 1, k − 1), where `before` is j − 1.
        weight *= (before + 1 - k) as f64 / before.max(1) as f64;
    }
    Some(expected)
}

/// The number that ParEval's released code (`analysis/metrics.py`) computes as `speedup@k`: it sorts the speedups
/// fastest first, drops samples that are not correct, and takes C(n, r) for 1 where n < r. `speedups` are those of the
/// correct samples, slowest first. None without a correct sample or if `k` is 0.
pub fn pareval_compat(speedups: &[f64], k: usize) -> Option<f64> {
    let correct = speedups.len();
    if k == 0 || correct == 0 {
        return None;
    }
    let fastest_first = speedups.iter().rev();
    if correct < k {
        return Some(fastest_first.sum());
    }
    // 1 / C(N, k).
    let one: f64 = (0..k)
        .map(|drawn| (drawn + 1) as f64 / (correct - drawn) as f64)
        .product();
    // C(j − 1, k − 1) / C(N, k), which begins with j = k.
    let mut weight = one;
    let mut sum = 0.0;
    for (before, speedup) in fastest_first.enumerate() {
        if before >= k {
            weight *= before as f64 / (before + 1 - k) as f64;
        }
        sum += weight * speedup;
    }
    Some(sum)
}

/// The SOL score of a program: 1 / (1 + (T − T_sol) / (T_base − T_sol)), which is 0.5 at the time of the reference and 1
/// at the roof. `headroom` is T_base / T_sol, at the same `speedup`, T_base / T. A program beyond the roof, as data in
/// caches permit, has 1. None if the reference is at the roof already.
pub fn sol_score(speedup: f64, headroom: f64) -> Option<f64> {
    if !(headroom > 1.0 && speedup > 0.0) {
        return None;
    }
    let over = (headroom / speedup - 1.0).max(0.0);
    Some(1.0 / (1.0 + over / (headroom - 1.0)))
}
