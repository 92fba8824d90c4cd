//! Learning with an adapter instead of the weights, on a tiny model.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::{GrpoConfig, SftConfig};
use flopsmith_learner::{Learner, sft};
use flopsmith_policy::{Kind, LoraConfig, Model};

use crate::tiny;

fn config() -> GrpoConfig {
    GrpoConfig {
        learning_rate: 1e-2,
        minibatches: 2,
        lora: Some(LoraConfig {
            rank: 4,
            dropout: 0.1,
            ..LoraConfig::default()
        }),
        ..GrpoConfig::default()
    }
}

fn adapter(learner: &Learner) -> Vec<f32> {
    Vec::try_from(learner.model.trained().flat()).unwrap()
}

#[test]
fn only_the_adapter_changes_and_only_it_is_saved() {
    let model = tiny::model(Kind::Float);
    let before = tiny::weights(&model);
    let samples = tiny::samples(&model, 6, 0.1, 1.0);
    let mut learner = Learner::new(model, config(), 5).unwrap();
    let fresh = adapter(&learner);
    let report = learner.step(&samples).unwrap();
    assert_eq!(report.updates, 2);
    assert_ne!(adapter(&learner), fresh);
    assert_eq!(tiny::weights(&learner.model), before);
    let files = learner.state().unwrap();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "adapter.safetensors",
            "optimizer.safetensors",
            "trainer.json"
        ]
    );
}

#[test]
fn a_saved_learner_goes_on_bit_by_bit_and_only_on_the_same_weights() {
    let model = tiny::model(Kind::Float);
    let samples = tiny::samples(&model, 6, 0.1, 1.0);
    let mut config = config();
    config.kl_beta = 0.1;
    let mut first = Learner::new(model, config.clone(), 5).unwrap();
    first.step(&samples).unwrap();
    let files = first.state().unwrap();
    first.step(&samples).unwrap();
    // Another seed and a new adapter: every value comes from the files.
    let mut second = Learner::new(tiny::model(Kind::Float), config.clone(), 77).unwrap();
    second.restore(&files).unwrap();
    second.step(&samples).unwrap();
    // A failure does not print the values: there are too many.
    assert!(adapter(&second) == adapter(&first));

    let mut other = tiny::model(Kind::Float);
    {
        let _guard = tch::no_grad_guard();
        // One weight in its last digits.
        let mut weight = other.base().flat().narrow(0, 100, 1);
        let _same = weight.f_add_scalar_(1e-6).unwrap();
    }
    other.set_trainable(false);
    let mut third = Learner::new(other, config, 5).unwrap();
    let error = third.restore(&files).unwrap_err().to_string();
    assert!(error.contains("another model below its adapter"), "{error}");
}

#[test]
fn the_reference_is_the_policy_without_the_adapter() {
    let samples = |model: &Model| tiny::samples(model, 4, 0.0, 1.0);
    let mut config = config();
    config.kl_beta = 0.1;
    // Dropout would be a divergence, too.
    if let Some(lora) = &mut config.lora {
        lora.dropout = 0.0;
    }
    let model = tiny::model(Kind::Float);
    let drawn = samples(&model);
    let mut learner = Learner::new(model, config.clone(), 5).unwrap();
    let first = learner.step(&drawn).unwrap();
    // The second minibatch of the first step already differs from it; later steps differ more.
    for _ in 0..3 {
        learner.step(&drawn).unwrap();
    }
    let later = learner.step(&drawn).unwrap();
    assert!(
        first.reference_kl < later.reference_kl,
        "{first:?} {later:?}"
    );
    // A learner that continues that adapter starts from it, so it is the reference.
    let mut grown = learner.model.sibling().unwrap();
    grown.set_trainable(true);
    config.lora = None;
    config.minibatches = 1;
    let mut again = Learner::new(grown, config, 5).unwrap();
    let report = again.step(&drawn).unwrap();
    assert!(report.reference_kl < 1e-9, "{report:?}");
    assert!(
        again
            .state()
            .unwrap()
            .iter()
            .any(|(name, _)| name == "reference.safetensors")
    );
}

#[test]
fn blocks_that_are_computed_again_teach_the_same() {
    let model = tiny::model(Kind::Float);
    let samples = tiny::samples(&model, 6, 0.1, 1.0);
    let run = |recompute: bool, lora: bool| {
        let mut config = config();
        config.activation_checkpointing = recompute;
        if !lora {
            config.lora = None;
        }
        let mut learner = Learner::new(tiny::model(Kind::Float), config, 5).unwrap();
        learner.step(&samples).unwrap();
        adapter(&learner)
    };
    for lora in [true, false] {
        assert!(
            run(true, lora) == run(false, lora),
            "with an adapter: {lora}"
        );
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refused = |config: GrpoConfig| {
        Learner::new(tiny::model(Kind::Float), config, 5)
            .err()
            .unwrap()
            .to_string()
    };
    let mut sharpened = config();
    sharpened.sharpen = 1.2;
    assert!(refused(sharpened).contains("`sharpen`"));
    let mut none = config();
    none.lora = Some(LoraConfig {
        rank: 0,
        ..LoraConfig::default()
    });
    assert!(refused(none).contains("rank is 0"));
    let mut learner = Learner::new(tiny::model(Kind::Float), config(), 5).unwrap();
    learner.model.set_trainable(false);
    let other = GrpoConfig {
        lora: Some(LoraConfig {
            rank: 5,
            ..LoraConfig::default()
        }),
        ..GrpoConfig::default()
    };
    let error = Learner::new(learner.model, other, 5).err().unwrap();
    assert!(error.to_string().contains("another adapter"), "{error}");
}

#[test]
fn answers_are_learned_by_an_adapter() {
    let mut model = tiny::model(Kind::Float);
    let before = tiny::weights(&model);
    let examples: Vec<(Vec<u32>, Vec<u32>)> = (0..8)
        .map(|i| (vec![i, i + 1], vec![(i * 3) % 40, (i * 7 + 1) % 40, 5]))
        .collect();
    let config = SftConfig {
        learning_rate: 2e-2,
        steps: Some(60),
        lora: Some(LoraConfig {
            rank: 8,
            ..LoraConfig::default()
        }),
        ..SftConfig::default()
    };
    let said = |_: &flopsmith_learner::SftProgress| std::ops::ControlFlow::Continue(());
    let report = sft(&mut model, &examples, &config, &[], said).unwrap();
    assert!(report.last_loss < 0.3 * report.first_loss, "{report:?}");
    assert_eq!(tiny::weights(&model), before);
    assert!(model.adapter().is_some());
}
