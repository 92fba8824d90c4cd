//! Losses against naive code of the formulas, and against finite differences.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::Loss;
use flopsmith_learner::loss::{Sequence, Tally, Terms, differentiate, k3, token_weights};
use proptest::prelude::*;

const LOSSES: [Loss; 6] = [
    Loss::Grpo,
    Loss::Bnpo,
    Loss::DrGrpo,
    Loss::Dapo,
    Loss::Gspo,
    Loss::Cispo,
];

#[derive(Debug, Clone)]
struct Drawn {
    now: Vec<f64>,
    old: Vec<f32>,
    reference: Vec<f32>,
    advantage: f64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (1usize..12).prop_flat_map(|n| {
        let logprob = || prop::collection::vec(-4.0f64..-0.01, n);
        (logprob(), logprob(), logprob(), -2.0f64..2.0).prop_map(|(now, step, reference, a)| {
            // Ratios around 1, on both sides of the clip bounds.
            let old = now
                .iter()
                .zip(&step)
                .map(|(x, s)| (x + (s + 2.0) / 4.0) as f32);
            Drawn {
                old: old.collect(),
                now,
                reference: reference.iter().map(|x| *x as f32).collect(),
                advantage: a,
            }
        })
    })
}

fn terms(loss: Loss, kl_beta: f64) -> Terms {
    let (clip_low, clip_high) = match loss {
        // Wide enough that both sides of the bounds come up.
        Loss::Gspo => (0.1, 0.1),
        Loss::Cispo => (0.0, 1.2),
        other => other.usual_clip(),
    };
    Terms {
        loss,
        clip_low,
        clip_high,
        kl_beta,
        ratio_limit: None,
    }
}

/// The token losses of reference tables, with minimum and clip as in the papers.
fn naive(terms: &Terms, d: &Drawn) -> Vec<f64> {
    let log_ratios: Vec<f64> = d
        .now
        .iter()
        .zip(&d.old)
        .map(|(x, o)| x - f64::from(*o))
        .collect();
    let mean = log_ratios.iter().sum::<f64>() / log_ratios.len() as f64;
    (0..d.now.len())
        .map(|t| {
            let policy = if terms.loss == Loss::Cispo {
                -log_ratios[t].exp().min(terms.clip_high) * d.advantage * d.now[t]
            } else {
                let ratio = if terms.loss == Loss::Gspo {
                    mean
                } else {
                    log_ratios[t]
                }
                .exp();
                let bounded = ratio.max(1.0 - terms.clip_low).min(1.0 + terms.clip_high);
                -(ratio * d.advantage).min(bounded * d.advantage)
            };
            let gap = f64::from(d.reference[t]) - d.now[t];
            policy + terms.kl_beta * (gap.exp() - gap - 1.0)
        })
        .collect()
}

fn sequence<'a>(d: &'a Drawn, now: &'a [f64], weight: f64) -> Sequence<'a> {
    Sequence {
        logprobs: now,
        old: &d.old,
        reference: Some(&d.reference),
        advantage: d.advantage,
        weight,
        factors: None,
    }
}

proptest! {
    #[test]
    fn values_are_the_formulas(d in drawn(), kl in 0.0f64..0.5, weight in 0.01f64..2.0) {
        for loss in LOSSES {
            let terms = terms(loss, kl);
            let mut slopes = vec![0.0; d.now.len()];
            let tally = differentiate(&terms, &sequence(&d, &d.now, weight), &mut slopes);
            let wanted: f64 = naive(&terms, &d).iter().sum::<f64>() * weight;
            prop_assert!((tally.loss - wanted).abs() <= 1e-9 * (1.0 + wanted.abs()), "{loss:?}: {} and {wanted}", tally.loss);
            prop_assert_eq!(tally.tokens, d.now.len() as u64);
            prop_assert!(tally.kl >= 0.0 && tally.reference_kl >= 0.0);
        }
    }

    #[test]
    fn slopes_are_finite_differences(d in drawn(), kl in 0.0f64..0.5, weight in 0.01f64..2.0) {
        let h = 1e-6;
        for loss in LOSSES {
            let terms = terms(loss, kl);
            let mut slopes = vec![0.0; d.now.len()];
            differentiate(&terms, &sequence(&d, &d.now, weight), &mut slopes);
            let log_ratios: Vec<f64> = d.now.iter().zip(&d.old).map(|(x, o)| x - f64::from(*o)).collect();
            let mean = log_ratios.iter().sum::<f64>() / log_ratios.len() as f64;
            for t in 0..d.now.len() {
                let log_ratio = if loss == Loss::Gspo { mean } else { log_ratios[t] };
                let kinks = [1.0 - terms.clip_low, 1.0 + terms.clip_high];
                if kinks.iter().any(|k| *k > 0.0 && (log_ratio - k.ln()).abs() < 1e-4) {
                    continue;
                }
                let at = |x: f64| {
                    let mut moved = d.clone();
                    moved.now[t] = x;
                    let value: f64 = if loss == Loss::Cispo {
                        // The factor is a constant: its value stays fixed.
                        let factor = log_ratios[t].exp().min(terms.clip_high);
                        let gap = f64::from(d.reference[t]) - x;
                        -factor * d.advantage * x + kl * (gap.exp() - gap - 1.0)
                    } else {
                        naive(&terms, &moved).iter().sum()
                    };
                    value * weight
                };
                let wanted = (at(d.now[t] + h) - at(d.now[t] - h)) / (2.0 * h);
                prop_assert!((slopes[t] - wanted).abs() <= 1e-5 * (1.0 + wanted.abs()), "{loss:?} at {t}: {} and {wanted}", slopes[t]);
            }
        }
    }

    #[test]
    fn k3_is_never_negative(logprob in -30.0f64..0.0, reference in -30.0f64..0.0) {
        let (value, slope) = k3(logprob, reference);
        prop_assert!(value >= 0.0);
        prop_assert_eq!(value == 0.0, slope == 0.0);
        // It grows away from the reference on both sides.
        prop_assert!(slope * (logprob - reference) >= 0.0);
    }

    #[test]
    fn gspo_is_grpo_where_token_ratios_are_equal(d in drawn(), log_ratio in -0.5f64..0.5) {
        let mut d = d;
        // In steps that single precision holds exactly.
        let step = (log_ratio * 1024.0).round() / 1024.0;
        for (now, old) in d.now.iter_mut().zip(&mut d.old) {
            *old = (*now * 1024.0).round() as f32 / 1024.0;
            *now = f64::from(*old) + step;
        }
        let values: Vec<(f64, Vec<f64>)> = [Loss::Grpo, Loss::Gspo]
            .map(|loss| {
                let terms = Terms { loss, clip_low: 0.2, clip_high: 0.2, kl_beta: 0.1, ratio_limit: None };
                let mut slopes = vec![0.0; d.now.len()];
                let tally = differentiate(&terms, &sequence(&d, &d.now, 1.0), &mut slopes);
                (tally.loss, slopes)
            })
            .to_vec();
        prop_assert!((values[0].0 - values[1].0).abs() < 1e-9);
        for (a, b) in values[0].1.iter().zip(&values[1].1) {
            prop_assert!((a - b).abs() < 1e-9);
        }
    }

    #[test]
    fn weights_of_each_loss_sum_to_what_its_mean_says(lengths in prop::collection::vec(1usize..50, 1..10), more in 0usize..100) {
        let tokens: usize = lengths.iter().sum();
        let longest = lengths.iter().max().copied().unwrap();
        let total = |loss| -> f64 {
            token_weights(loss, &lengths, tokens + more, longest + more)
                .iter()
                .zip(&lengths)
                .map(|(w, n)| w * *n as f64)
                .sum()
        };
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        prop_assert!(near(total(Loss::Grpo), 1.0) && near(total(Loss::Gspo), 1.0) && near(total(Loss::Bnpo), 1.0));
        let share = tokens as f64 / (tokens + more) as f64;
        prop_assert!(near(total(Loss::Dapo), share) && near(total(Loss::Cispo), share));
        prop_assert!(near(total(Loss::DrGrpo), tokens as f64 / (lengths.len() * (longest + more)) as f64));
        // A long sequence's token counts less under grpo, and the same elsewhere.
        let grpo = token_weights(Loss::Grpo, &lengths, tokens, longest);
        for (w, n) in grpo.iter().zip(&lengths) {
            prop_assert!(near(*w * (lengths.len() * n) as f64, 1.0));
        }
    }

    #[test]
    fn dr_grpo_is_grpo_where_all_are_as_long_as_can_be(rows in 1usize..9, length in 1usize..60) {
        let lengths = vec![length; rows];
        let a = token_weights(Loss::Grpo, &lengths, rows * length, length);
        let b = token_weights(Loss::DrGrpo, &lengths, rows * length, length);
        for (a, b) in a.iter().zip(&b) {
            prop_assert!((a - b).abs() < 1e-15);
        }
    }
}

/// A sequence of one token whose ratio is e^log_ratio.
fn one_token(terms: &Terms, log_ratio: f64, advantage: f64, slopes: &mut [f64]) -> Tally {
    let s = Sequence {
        logprobs: &[-1.0 + log_ratio],
        old: &[-1.0],
        reference: None,
        advantage,
        weight: 1.0,
        factors: None,
    };
    differentiate(terms, &s, slopes)
}

#[test]
fn clipping_stops_only_what_goes_too_far_already() {
    // (log ratio, advantage, does a gradient remain?)
    for (log_ratio, advantage, moves) in [
        (0.5, 1.0, false),
        (0.5, -1.0, true),
        (-0.5, 1.0, true),
        (-0.5, -1.0, false),
        (0.1, 1.0, true),
        (-0.1, -1.0, true),
    ] {
        let terms = terms(Loss::Grpo, 0.0);
        let mut slopes = [0.0];
        let tally = one_token(&terms, log_ratio, advantage, &mut slopes);
        assert_eq!(slopes[0] != 0.0, moves, "{log_ratio} {advantage}");
        assert_eq!(tally.clipped, u64::from(!moves));
        // Descent raises the log-probability of good answers.
        if moves {
            assert!(slopes[0] * advantage < 0.0);
        }
    }
}

#[test]
fn a_ratio_that_is_pushed_down_too_far_counts_no_more_than_its_limit() {
    let limited = Terms {
        ratio_limit: Some(1.5),
        ..terms(Loss::Grpo, 0.0)
    };
    for (log_ratio, advantage, loss) in [
        (1.0f64, -2.0, 3.0),
        (0.3, -2.0, 2.0 * 0.3f64.exp()),
        // With a positive advantage the clip bound is nearer.
        (1.0, 2.0, -2.4),
        (-1.0, -2.0, 1.6),
    ] {
        let mut slopes = [0.0];
        let tally = one_token(&limited, log_ratio, advantage, &mut slopes);
        assert!(
            (tally.loss - loss).abs() < 1e-9,
            "{log_ratio}: {}",
            tally.loss
        );
        assert_eq!(
            slopes[0] != 0.0,
            log_ratio == 0.3,
            "{log_ratio} {advantage}"
        );
    }
}

#[test]
fn factors_scale_the_policys_term_and_nothing_else() {
    let terms = terms(Loss::Dapo, 0.3);
    let of = |factors: Option<&[f64]>, advantage| {
        let mut slopes = [0.0; 2];
        let s = Sequence {
            logprobs: &[-1.0, -2.0],
            old: &[-1.1, -1.9],
            reference: Some(&[-1.5, -1.5]),
            advantage,
            weight: 0.5,
            factors,
        };
        (differentiate(&terms, &s, &mut slopes).loss, slopes)
    };
    let (plain, slopes) = of(None, 1.0);
    let (divergence, alone) = of(None, 0.0);
    let (halved, halves) = of(Some(&[0.5, 0.5]), 1.0);
    assert!((halved - (plain + divergence) / 2.0).abs() < 1e-12);
    for t in 0..2 {
        assert!((halves[t] - (slopes[t] + alone[t]) / 2.0).abs() < 1e-12);
    }
    let (_, one) = of(Some(&[0.0, 1.0]), 1.0);
    assert_eq!((one[0], one[1]), (alone[0], slopes[1]));
}

#[test]
fn a_ratio_that_is_no_number_shows_in_the_loss() {
    for loss in LOSSES {
        let s = Sequence {
            logprobs: &[f64::NAN],
            old: &[-1.0],
            reference: None,
            advantage: 1.0,
            weight: 1.0,
            factors: None,
        };
        let mut slopes = [0.0];
        assert!(
            differentiate(&terms(loss, 0.0), &s, &mut slopes)
                .loss
                .is_nan(),
            "{loss:?}"
        );
    }
}
