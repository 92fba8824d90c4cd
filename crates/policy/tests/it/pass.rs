//! The backward pass against finite differences in double precision and against libtorch's own graph.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::Range;

use flopsmith_policy::{
    Adapter, Config, Device, Entropy, Kind, LoraConfig, Model, Plan, Scalar, Scores, Slopes, Tensor,
};

const LENGTH: usize = 6;

fn config(tied: bool, scalar: Scalar) -> Config {
    let mut config = Config::new(19, 16, 24, 2, 4, 2);
    config.initializer_range = 0.4;
    config.tie_word_embeddings = tied;
    config.scalar = scalar;
    config
}

fn model(config: Config) -> Model {
    let mut model = Model::random(config, 1, Device::Cpu, Kind::Double).unwrap();
    // A head of zeros would hide the values that pass through it.
    stir(model.base().flat(), 0.0);
    model.set_trainable(true);
    model
}

/// Adds small numbers that are all different.
fn stir(flat: &Tensor, phase: f64) {
    let _guard = tch::no_grad_guard();
    let n = flat.size()[0];
    let noise = (Tensor::arange(n, (Kind::Double, Device::Cpu)) * 0.7 + phase).sin() * 0.05;
    let _same = flat.shallow_clone().f_add_(&noise).unwrap();
}

fn adapted(lora: &LoraConfig, scalar: Scalar) -> Model {
    let mut model = model(config(false, scalar));
    let adapter =
        Adapter::fresh(model.config(), lora.clone(), 4, Device::Cpu, Kind::Double).unwrap();
    // B starts at 0, which would leave A without a slope.
    stir(adapter.parameters().flat(), 1.0);
    model.attach(adapter).unwrap();
    model
}

fn ids() -> Tensor {
    Tensor::from_slice(&[3i64, 7, 1, 18, 2, 5, 9, 4, 11, 0, 0, 0]).view([2, LENGTH as i64])
}

/// Weights of the numbers in the loss, all different.
fn weights(scores: &Scores) -> Slopes {
    let some = |n: usize, by: f64| (0..n).map(|i| (i as f64 * 1.3 + by).sin()).collect();
    Slopes {
        logprobs: some(scores.logprobs.len(), 0.5),
        entropy: some(scores.entropy.len(), 1.0),
        values: some(scores.values.len(), 2.0),
    }
}

fn loss(scores: &Scores) -> f64 {
    let w = weights(scores);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&w.logprobs, &scores.logprobs)
        + dot(&w.entropy, &scores.entropy)
        + dot(&w.values, &scores.values)
}

struct Case {
    wanted: [Range<usize>; 2],
    temperatures: [f64; 2],
    plan: Plan,
}

impl Case {
    fn tokens(entropy: Entropy) -> Self {
        Case {
            wanted: [2..6, 1..3],
            temperatures: [1.0, 0.7],
            plan: Plan {
                entropy,
                ..Plan::LOGPROBS
            },
        }
    }

    fn scores(&self, model: &Model) -> Scores {
        let pass = model
            .pass(&ids(), &self.wanted, &self.temperatures, self.plan)
            .unwrap();
        pass.scores().clone()
    }

    fn gradient(&self, model: &Model) -> (Tensor, Vec<Tensor>) {
        let pass = model
            .pass(&ids(), &self.wanted, &self.temperatures, self.plan)
            .unwrap();
        let slopes = weights(pass.scores());
        let flat = model.trained().flat().zeros_like();
        let mut views = model.trained().views_of(&flat).unwrap();
        pass.back(&slopes, &mut views).unwrap();
        (flat, views)
    }

    /// Compares some elements of every trained tensor with finite differences.
    fn check(&self, model: &Model) {
        let (_, gradient) = self.gradient(model);
        let trained = model.trained();
        for ((slot, (name, _)), gradient) in
            trained.slots().iter().zip(trained.leaves()).zip(&gradient)
        {
            let gradient = gradient.reshape([-1]);
            for i in [0, slot.len() / 3, slot.len() - 1] {
                let _guard = tch::no_grad_guard();
                let mut place = trained.flat().narrow(0, slot.offset + i, 1);
                let step = 1e-5;
                let _ = place.f_add_scalar_(step);
                let up = loss(&self.scores(model));
                let _ = place.f_add_scalar_(-2.0 * step);
                let down = loss(&self.scores(model));
                let _ = place.f_add_scalar_(step);
                let numeric = (up - down) / (2.0 * step);
                let ours = gradient.double_value(&[i]);
                assert!(
                    (numeric - ours).abs() < 1e-6 * (1.0 + numeric.abs()),
                    "{name}[{i}]: {ours} where {numeric} is wanted"
                );
            }
        }
    }
}

#[test]
fn the_way_back_leads_to_every_weight() {
    for tied in [true, false] {
        for entropy in [Entropy::Skip, Entropy::Train] {
            Case::tokens(entropy).check(&model(config(tied, Scalar::None)));
        }
    }
}

#[test]
fn values_lead_to_their_head_and_below() {
    let mut case = Case::tokens(Entropy::Skip);
    case.plan.values = true;
    case.check(&model(config(true, Scalar::Value)));
    // A whole text has its number after its last token.
    let whole = Case {
        wanted: [LENGTH..LENGTH + 1, 3..4],
        temperatures: [1.0; 2],
        plan: Plan {
            logprobs: false,
            values: true,
            ..Plan::LOGPROBS
        },
    };
    whole.check(&model(config(true, Scalar::Score)));
}

#[test]
fn adapters_are_trained_and_nothing_below_them() {
    let some = LoraConfig {
        rank: 3,
        alpha: 5.0,
        targets: ["q_proj", "v_proj", "up_proj", "o_proj"]
            .iter()
            .map(|name| serde_json::from_value((*name).into()).unwrap())
            .collect(),
        ..LoraConfig::default()
    };
    let all = LoraConfig {
        rank: 2,
        // Small, so that finite differences see no curvature.
        alpha: 2.0,
        rank_stabilized: true,
        ..LoraConfig::default()
    };
    for lora in [some, all] {
        let model = adapted(&lora, Scalar::Value);
        let mut case = Case::tokens(Entropy::Train);
        case.plan.values = true;
        let before = model.base().flat().copy();
        case.check(&model);
        assert_eq!(*model.base().flat(), before);
    }
}

#[test]
fn blocks_that_are_computed_again_give_the_same_gradient() {
    let lora = LoraConfig {
        rank: 4,
        dropout: 0.3,
        ..LoraConfig::default()
    };
    for model in [
        model(config(true, Scalar::None)),
        adapted(&lora, Scalar::None),
    ] {
        let mut case = Case::tokens(Entropy::Report);
        case.plan.dropout = Some(9);
        let kept = case.gradient(&model).0;
        case.plan.recompute = true;
        assert_eq!(case.gradient(&model).0, kept);
    }
}

#[test]
fn dropout_is_the_same_for_a_seed_and_right_on_average() {
    let lora = LoraConfig {
        rank: 4,
        alpha: 1.0,
        dropout: 0.5,
        ..LoraConfig::default()
    };
    let model = adapted(&lora, Scalar::None);
    let case = |seed| {
        let mut case = Case::tokens(Entropy::Skip);
        case.plan.dropout = seed;
        case.scores(&model).logprobs
    };
    assert_eq!(case(Some(1)), case(Some(1)));
    assert_ne!(case(Some(1)), case(Some(2)));
    let whole = case(None);
    let many = 400;
    let mut mean = vec![0.0; whole.len()];
    for seed in 0..many {
        for (mean, x) in mean.iter_mut().zip(case(Some(seed))) {
            *mean += x / many as f64;
        }
    }
    for (mean, whole) in mean.iter().zip(&whole) {
        // The adapter adds little, so log-probabilities are nearly linear in it.
        assert!((mean - whole).abs() < 0.05, "{mean} {whole}");
    }
}

#[test]
fn a_merged_adapter_says_what_it_said_beside_the_weights() {
    let lora = LoraConfig {
        rank: 3,
        ..LoraConfig::default()
    };
    let mut model = adapted(&lora, Scalar::None);
    let bare = model.bare().unwrap();
    let say = |m: &Model| m.logits_all(&[3, 7, 1, 18, 2]).unwrap();
    let (with, without) = (say(&model), say(&bare));
    let far = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        a.concat()
            .iter()
            .zip(b.concat())
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max)
    };
    assert!(far(&with, &without) > 1e-2);
    let sibling = model.sibling().unwrap();
    assert_eq!(say(&sibling), with);
    // Two adapters on the same weights.
    let mut other = model.bare().unwrap();
    let fresh = Adapter::fresh(other.config(), lora, 8, Device::Cpu, Kind::Double).unwrap();
    other.attach(fresh).unwrap();
    assert_eq!(say(&other), without, "a fresh adapter changes nothing");
    assert_eq!(say(&model), with);
    model.merge().unwrap();
    assert!(model.adapter().is_none());
    assert!(far(&say(&model), &with) < 1e-5);
}

#[test]
fn invalid_passes_are_refused() {
    let score = model(config(true, Scalar::Score));
    let plan = Plan::LOGPROBS;
    let wanted: [Range<usize>; 2] = [2..6, 1..3];
    let error = score.pass(&ids(), &wanted, &[1.0], plan).unwrap_err();
    assert!(error.to_string().contains("reward model"), "{error}");
    let plain = model(config(true, Scalar::None));
    let values = Plan {
        values: true,
        ..plan
    };
    let error = plain.pass(&ids(), &wanted, &[1.0], values).unwrap_err();
    assert!(error.to_string().contains("no head for values"), "{error}");
    let behind: [Range<usize>; 2] = [6..7, 1..3];
    assert!(plain.pass(&ids(), &behind, &[1.0], plan).is_err());
    let mut other = model(config(false, Scalar::None));
    let mut narrow = config(false, Scalar::None);
    narrow.intermediate_size = 8;
    let adapter = Adapter::fresh(&narrow, LoraConfig::default(), 1, Device::Cpu, Kind::Double);
    let error = other.attach(adapter.unwrap()).unwrap_err();
    assert!(error.to_string().contains("another shape"), "{error}");
}

#[test]
fn only_wanted_positions_count_and_padding_does_not() {
    let model = model(config(true, Scalar::None));
    let ours = Case::tokens(Entropy::Report).scores(&model);
    assert_eq!((ours.logprobs.len(), ours.entropy.len()), (6, 6));
    let all = model.logits_all(&[3, 7, 1, 18, 2, 5]).unwrap();
    for (ours, (position, token)) in ours.logprobs.iter().zip([(1, 1), (2, 18), (3, 2), (4, 5)]) {
        assert!((*ours as f32 - all[position][token]).abs() < 1e-5);
    }
    // The second row has other padding and another temperature, and the same answer at the wanted positions.
    let padded = Tensor::from_slice(&[9i64, 4, 11, 17, 16, 15]).view([1, 6]);
    let wanted = [1..3, 1..1];
    let alone = model
        .scores(&padded, &wanted[..1], &[0.7], Plan::LOGPROBS)
        .unwrap();
    for (a, b) in alone.logprobs.iter().zip(&ours.logprobs[4..]) {
        assert!((a - b).abs() < 1e-12);
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    let model = model(config(true, Scalar::None));
    let ask = |wanted: &[Range<usize>], t: &[f64]| {
        let answer = model.scores(&ids(), wanted, t, Plan::LOGPROBS);
        answer.unwrap_err().to_string()
    };
    let (whole, start) = (1..6, 1..2);
    assert!(ask(std::slice::from_ref(&whole), &[1.0]).contains("1 ranges of positions for 2 rows"));
    assert!(ask(&[0..6, start.clone()], &[1.0]).contains("row 0"));
    assert!(ask(&[whole.clone(), 1..7], &[1.0]).contains("row 1"));
    assert!(ask(&[whole.clone(), start.clone()], &[0.0]).contains("temperature 0"));
    assert!(ask(&[whole, start], &[1.0, 1.0, 1.0]).contains("3 temperatures"));
    assert!(model.logits_all(&[19]).is_err());
}
