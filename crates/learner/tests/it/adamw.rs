//! AdamW against its formulas, number by number.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_learner::AdamW;
use flopsmith_learner::adamw::Constants;
use flopsmith_policy::Kind;
use tch::Tensor;

use crate::tiny;

const CONSTANTS: Constants = Constants {
    betas: [0.9, 0.95],
    eps: 1e-8,
    weight_decay: 0.1,
};

/// Gradient of element `i` in update `t`; every seventh is always 0, like that of a token that never occurs.
fn slope(i: usize, t: usize) -> f64 {
    if i.is_multiple_of(7) {
        0.0
    } else {
        ((i * 13 + t * 101) as f64).sin() * 10f64.powi(-((i % 6) as i32))
    }
}

/// The textbook's AdamW on one number.
struct Oracle {
    m: f64,
    v: f64,
    w: f64,
}

impl Oracle {
    fn step(&mut self, g: f64, t: i32, rate: f64, decay: f64) {
        let [b1, b2] = CONSTANTS.betas;
        self.m = b1 * self.m + (1.0 - b1) * g;
        self.v = b2 * self.v + (1.0 - b2) * g * g;
        self.w -= rate * decay * self.w;
        let m_hat = self.m / (1.0 - b1.powi(t));
        let v_hat = self.v / (1.0 - b2.powi(t));
        self.w -= rate * m_hat / (v_hat.sqrt() + CONSTANTS.eps);
    }
}

fn twenty_steps(kind: Kind) -> f64 {
    let model = tiny::model(kind);
    let mut optimizer = AdamW::new(&model, CONSTANTS).unwrap();
    let total = model.base().flat().numel();
    let mut decays = vec![0.0; total];
    let mut used = vec![false; total];
    for slot in model.base().slots() {
        let range = slot.offset as usize..(slot.offset + slot.len()) as usize;
        used[range.clone()].fill(true);
        if slot.shape.len() > 1 {
            decays[range].fill(CONSTANTS.weight_decay);
        }
    }
    let mut oracles: Vec<Oracle> = tiny::weights(&model)
        .into_iter()
        .map(|w| Oracle { m: 0.0, v: 0.0, w })
        .collect();
    for t in 1..=20 {
        let rate = 1e-2 / t as f64;
        let scale = if t % 2 == 0 { 0.5 } else { 1.0 };
        let slopes: Vec<f64> = (0..total)
            .map(|i| if used[i] { slope(i, t) } else { 0.0 })
            .collect();
        let gradient = Tensor::from_slice(&slopes).to_kind(optimizer.kind());
        optimizer.step(&model, &gradient, rate, scale).unwrap();
        for (i, oracle) in oracles.iter_mut().enumerate() {
            oracle.step(slopes[i] * scale, t as i32, rate, decays[i]);
        }
    }
    assert_eq!(optimizer.updates(), 20);
    let weights = tiny::weights(&model);
    // Padding between slots stays zero.
    assert!((0..total).all(|i| used[i] || weights[i] == 0.0));
    weights
        .iter()
        .zip(&oracles)
        .map(|(w, o)| (w - o.w).abs() / (1.0 + o.w.abs()))
        .fold(0.0, f64::max)
}

#[test]
fn twenty_updates_are_the_formulas() {
    let double = twenty_steps(Kind::Double);
    assert!(double < 1e-13, "{double}");
    let single = twenty_steps(Kind::Float);
    assert!(single < 2e-6, "{single}");
    // Rounded once, from the masters, and not twenty times.
    let half = twenty_steps(Kind::BFloat16);
    assert!(half < 1.0 / 256.0, "{half}");
}

#[test]
fn masters_keep_updates_too_small_for_half_precision() {
    let model = tiny::model(Kind::BFloat16);
    let constants = Constants {
        weight_decay: 0.0,
        ..CONSTANTS
    };
    let mut optimizer = AdamW::new(&model, constants).unwrap();
    let before = tiny::weights(&model);
    let norm = model
        .base()
        .slots()
        .iter()
        .find(|s| s.name == "model.norm.weight")
        .unwrap()
        .offset as usize;
    for _ in 0..100 {
        // With a constant gradient each update is as large as the step size: 1e-4 is lost beside 1 in bf16.
        let gradient = Tensor::ones(model.base().flat().size(), (Kind::Float, model.device()));
        optimizer.step(&model, &gradient, 1e-4, 1.0).unwrap();
    }
    let moved = before[norm] - tiny::weights(&model)[norm];
    assert!((moved - 0.01).abs() < 0.004, "{moved}");
}

#[test]
fn clipping_scales_to_the_limit() {
    let gradient = Tensor::from_slice(&[3.0f32, 4.0]);
    assert_eq!(AdamW::clip(&gradient, 1.0).unwrap(), (5.0, 0.2));
    assert_eq!(AdamW::clip(&gradient, 6.0).unwrap(), (5.0, 1.0));
    assert_eq!(AdamW::clip(&gradient, 0.0).unwrap(), (5.0, 1.0));
    let (norm, _) = AdamW::clip(&Tensor::from_slice(&[f32::NAN, 1.0]), 1.0).unwrap();
    assert!(norm.is_nan());
}

#[test]
fn a_step_size_of_zero_moves_nothing() {
    let model = tiny::model(Kind::Float);
    let mut optimizer = AdamW::new(&model, CONSTANTS).unwrap();
    let before = tiny::weights(&model);
    let gradient = Tensor::ones(model.base().flat().size(), (Kind::Float, model.device()));
    optimizer.step(&model, &gradient, 0.0, 1.0).unwrap();
    assert_eq!(before, tiny::weights(&model));
}
