//! Gradients of token log-probabilities, against finite differences in double precision.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::single_range_in_vec_init,
    reason = "one range for each row, and one row"
)]

use flopsmith_policy::{Config, Device, Entropy, Kind, Model, Tensor, TokenLogprobs};

fn model() -> Model {
    let mut config = Config::new(19, 16, 24, 2, 4, 2);
    config.initializer_range = 0.4;
    let mut model = Model::random(config, 1, Device::Cpu, Kind::Double).unwrap();
    model.set_trainable(true);
    model
}

fn ids() -> Tensor {
    Tensor::from_slice(&[3i64, 7, 1, 18, 2, 5, 9, 4, 11, 0, 0, 0]).view([2, 6])
}

/// A scalar that every part of the answer enters with another weight.
fn mix(answer: &TokenLogprobs) -> Tensor {
    let weigh = |t: &Tensor| {
        let n = t.size()[0];
        (t * Tensor::arange(n, (Kind::Double, Device::Cpu)).sin()).sum(Kind::Double)
    };
    weigh(&answer.logprobs) + weigh(answer.entropy.as_ref().unwrap()) * 0.3
}

fn run(model: &Model) -> TokenLogprobs {
    model
        .token_logprobs(&ids(), &[2..6, 1..3], &[1.0, 0.7], Entropy::Train)
        .unwrap()
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let model = model();
    mix(&run(&model)).backward();
    let _guard = tch::no_grad_guard();
    let mut checked = 0;
    for ((name, p), slot) in model.base().leaves().iter().zip(model.base().slots()) {
        let gradient = p.grad().reshape([-1]);
        for i in [0, slot.len() / 3, slot.len() - 1] {
            let mut place = model.base().flat().narrow(0, slot.offset + i, 1);
            let step = 1e-5;
            let _ = place.f_add_scalar_(step);
            let up = mix(&run(&model)).double_value(&[]);
            let _ = place.f_add_scalar_(-2.0 * step);
            let down = mix(&run(&model)).double_value(&[]);
            let _ = place.f_add_scalar_(step);
            let numeric = (up - down) / (2.0 * step);
            let ours = gradient.double_value(&[i]);
            assert!(
                (numeric - ours).abs() < 1e-6 * (1.0 + numeric.abs()),
                "{name}[{i}]: {ours} where {numeric} is wanted"
            );
            checked += 1;
        }
    }
    assert_eq!(checked, 3 * model.base().leaves().len());
}

#[test]
fn only_wanted_positions_count_and_padding_does_not() {
    let model = model();
    let answer = run(&model);
    assert_eq!(answer.logprobs.size(), [6]);
    let all = model.logits_all(&[3, 7, 1, 18, 2, 5]).unwrap();
    let ours = Vec::<f64>::try_from(&answer.logprobs).unwrap();
    for (ours, (position, token)) in ours.iter().zip([(1, 1), (2, 18), (3, 2), (4, 5)]) {
        assert!((*ours as f32 - all[position][token]).abs() < 1e-5);
    }
    // The second row has other padding and another temperature, and the same answer where it is wanted.
    let padded = Tensor::from_slice(&[9i64, 4, 11, 17, 16, 15]).view([1, 6]);
    let alone = model
        .token_logprobs(&padded, &[1..3], &[0.7], Entropy::Report)
        .unwrap();
    let alone_values = Vec::<f64>::try_from(&alone.logprobs).unwrap();
    for (a, b) in alone_values.iter().zip(&ours[4..]) {
        assert!((a - b).abs() < 1e-12);
    }
    assert!(!alone.entropy.unwrap().requires_grad());
}

#[test]
fn replicas_collect_gradients_of_their_own() {
    let model = model();
    let replica = model.replica().unwrap();
    mix(&run(&replica)).backward();
    for ((name, ours), (_, theirs)) in model.base().leaves().iter().zip(replica.base().leaves()) {
        assert!(!ours.grad().defined(), "{name}");
        assert!(theirs.grad().defined(), "{name}");
    }
    let frozen = model.frozen_copy().unwrap();
    let _ = model.base().flat().shallow_clone().f_add_scalar_(1.0);
    assert_ne!(frozen.base().flat(), model.base().flat());
    assert!(!frozen.base().leaves()[0].1.requires_grad());
}

#[test]
fn nonsense_is_refused_by_name() {
    let model = model();
    let ask = |wanted: &[std::ops::Range<usize>], t: &[f64]| {
        model
            .token_logprobs(&ids(), wanted, t, Entropy::Skip)
            .unwrap_err()
            .to_string()
    };
    assert!(ask(&[1..6], &[1.0]).contains("1 ranges of positions for 2 rows"));
    assert!(ask(&[0..6, 1..2], &[1.0]).contains("row 0"));
    assert!(ask(&[1..6, 1..7], &[1.0]).contains("row 1"));
    assert!(ask(&[1..6, 1..2], &[0.0]).contains("temperature 0"));
    assert!(ask(&[1..6, 1..2], &[1.0, 1.0, 1.0]).contains("3 temperatures"));
    assert!(model.logits_all(&[19]).is_err());
}
