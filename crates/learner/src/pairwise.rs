//! Losses of pairs of programs, a fast and a slow answer to one prompt, with their derivatives: plain arithmetic in
//! double precision.
//!
//! With p the prompt, d_f the fast and d_s the slow answer (Nichols et al., 2024, equations 2, 3 and 7):
//!
//! | loss | x | by |
//! |---|---|---|
//! | reward model | r(p, d_f) − r(p, d_s) − μ | the rewards r |
//! | direct performance alignment | β·ln(π(d_f)/π_ref(d_f)) − β·ln(π(d_s)/π_ref(d_s)) − μ | the log-probabilities ln π of whole answers |
//!
//! each is −ln σ(x), and the margin μ is min(λ, t_slow/t_fast) where both were timed, 0 for pairs that were written as
//! fast and slow and never run.

use serde::{Deserialize, Serialize};

/// The evidence for the order of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    /// Both programs are right and were timed, seconds.
    Timed {
        /// Time of the fast program.
        fast_s: f64,
        /// Time of the slow program.
        slow_s: f64,
    },
    /// The fast program is right, and the slow one is wrong.
    Wrong,
    /// The programs never ran; their author claims which one is faster.
    Written,
}

impl Evidence {
    /// The margin μ of equation 3 with λ = `cap`.
    ///
    /// The source leaves the margin of a wrong program open. Here the margin is `cap`, as if the program never ended.
    pub fn margin(self, cap: f64) -> f64 {
        match self {
            Evidence::Timed { fast_s, slow_s } => (slow_s / fast_s).min(cap),
            Evidence::Wrong => cap,
            Evidence::Written => 0.0,
        }
    }

    /// True if the times are plausible clock readings, and the fast one does not exceed the slow one.
    pub fn is_sound(self) -> bool {
        match self {
            Evidence::Timed { fast_s, slow_s } => {
                fast_s > 0.0 && fast_s <= slow_s && slow_s.is_finite()
            }
            Evidence::Wrong | Evidence::Written => true,
        }
    }
}

/// The loss of a pair, its derivatives and its result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The loss.
    pub loss: f64,
    /// Its derivative by the fast answer's score: a reward, or a log-probability.
    pub by_fast: f64,
    /// Its derivative by the slow answer's score.
    pub by_slow: f64,
    /// True if the fast answer has the higher score (equations 5 and 8). The margin is not considered here.
    pub right: bool,
    /// The fast answer's score minus the slow one's.
    pub gap: f64,
}

/// Scores of a pair under a policy and its frozen reference: log-probabilities of the whole answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Likelihoods {
    /// ln π(d_f).
    pub fast: f64,
    /// ln π(d_s).
    pub slow: f64,
    /// ln π_ref(d_f).
    pub fast_reference: f64,
    /// ln π_ref(d_s).
    pub slow_reference: f64,
}

/// The reward model's loss of a pair with these rewards.
pub fn rewards(fast: f64, slow: f64, margin: f64) -> Judged {
    judge(fast - slow, margin, 1.0)
}

/// The loss of direct performance alignment.
pub fn alignment(of: &Likelihoods, beta: f64, margin: f64) -> Judged {
    let gap = beta * ((of.fast - of.fast_reference) - (of.slow - of.slow_reference));
    judge(gap, margin, beta)
}

/// −ln σ(gap − margin), where `by` is the derivative of the gap by each score.
fn judge(gap: f64, margin: f64, by: f64) -> Judged {
    let x = gap - margin;
    // d/dx of −ln σ(x) is −σ(−x).
    let pull = by * sigmoid(-x);
    Judged {
        loss: softplus(-x),
        by_fast: -pull,
        by_slow: pull,
        right: gap > 0.0,
        gap,
    }
}

/// ln(1 + eˣ) = −ln σ(−x), without overflow and with full precision for small results.
fn softplus(x: f64) -> f64 {
    // `max` would drop NaN.
    let above = if x > 0.0 { x } else { 0.0 * x };
    above + (-x.abs()).exp().ln_1p()
}

/// 1 / (1 + e⁻ˣ), with full precision for small results.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// −ln σ(x) as written in the paper.
    fn naive(x: f64) -> f64 {
        -(1.0 / (1.0 + (-x).exp())).ln()
    }

    proptest! {
        #[test]
        fn the_loss_is_that_of_the_formula(fast in -6.0f64..6.0, slow in -6.0f64..6.0, margin in 0.0f64..3.0) {
            let judged = rewards(fast, slow, margin);
            prop_assert!((judged.loss - naive(fast - slow - margin)).abs() < 1e-9);
            prop_assert_eq!(judged.right, fast > slow);
        }

        #[test]
        fn slopes_are_those_of_finite_differences(
            scores in prop::array::uniform4(-8.0f64..0.0), beta in 0.05f64..2.0, margin in 0.0f64..3.0,
        ) {
            let [fast, slow, fast_reference, slow_reference] = scores;
            let at = |fast, slow| alignment(&Likelihoods { fast, slow, fast_reference, slow_reference }, beta, margin);
            let (judged, h) = (at(fast, slow), 1e-6);
            let by_fast = (at(fast + h, slow).loss - at(fast - h, slow).loss) / (2.0 * h);
            let by_slow = (at(fast, slow + h).loss - at(fast, slow - h).loss) / (2.0 * h);
            prop_assert!((judged.by_fast - by_fast).abs() < 1e-7 && (judged.by_slow - by_slow).abs() < 1e-7);
            // Only the difference of the scores counts: the two derivatives are opposite.
            prop_assert_eq!(judged.by_fast, -judged.by_slow);
            prop_assert!(judged.by_fast < 0.0);
        }

        /// With a reference that gives all answers the same log-probability and β = 1, alignment of a policy equals the
        /// training of a reward model.
        #[test]
        fn alignment_to_an_even_reference_is_a_reward_model(fast in -9.0f64..0.0, slow in -9.0f64..0.0, even in -9.0f64..0.0, margin in 0.0f64..3.0) {
            let of = Likelihoods { fast, slow, fast_reference: even, slow_reference: even };
            let (a, b) = (alignment(&of, 1.0, margin), rewards(fast, slow, margin));
            prop_assert!((a.loss - b.loss).abs() < 1e-12 && (a.by_fast - b.by_fast).abs() < 1e-12);
        }

        #[test]
        fn a_larger_margin_costs_more_and_pulls_harder(gap in -20.0f64..20.0, a in 0.0f64..3.0, b in 0.0f64..3.0) {
            let (less, more) = if a < b { (a, b) } else { (b, a) };
            let (less, more) = (rewards(gap, 0.0, less), rewards(gap, 0.0, more));
            prop_assert!(more.loss >= less.loss && more.by_fast <= less.by_fast);
        }

        #[test]
        fn the_margin_is_the_ratio_up_to_its_cap(fast_s in 1e-6f64..1.0, factor in 1.0f64..10.0, cap in 0.0f64..5.0) {
            let timed = Evidence::Timed { fast_s, slow_s: fast_s * factor };
            prop_assert!(timed.is_sound());
            prop_assert!((timed.margin(cap) - factor.min(cap)).abs() < 1e-9);
            prop_assert_eq!(Evidence::Wrong.margin(cap), cap);
            prop_assert_eq!(Evidence::Written.margin(cap), 0.0);
        }
    }

    #[test]
    fn scores_far_apart_neither_overflow_nor_vanish() {
        assert_eq!(rewards(-1e6, 0.0, 0.0).loss, 1e6);
        assert_eq!(rewards(-1e6, 0.0, 0.0).by_fast, -1.0);
        let sure = rewards(50.0, 0.0, 0.0);
        // −ln σ(50) = e⁻⁵⁰ to all digits.
        assert!((sure.loss / (-50.0f64).exp() - 1.0).abs() < 1e-12);
        assert!((sure.by_fast / -(-50.0f64).exp() - 1.0).abs() < 1e-12);
        assert!(rewards(f64::NAN, 0.0, 0.0).loss.is_nan());
    }

    #[test]
    fn times_that_no_clock_gives_are_not_sound() {
        for (fast_s, slow_s) in [
            (0.0, 1.0),
            (2.0, 1.0),
            (1.0, f64::INFINITY),
            (f64::NAN, 1.0),
            (-1.0, 1.0),
        ] {
            assert!(
                !Evidence::Timed { fast_s, slow_s }.is_sound(),
                "{fast_s} {slow_s}"
            );
        }
    }
}
