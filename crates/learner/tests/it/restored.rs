//! A restored learner continues exactly.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_config::GrpoConfig;
use flopsmith_learner::Learner;
use flopsmith_policy::Kind;

use crate::tiny;

fn learner(kind: Kind, config: GrpoConfig) -> Learner {
    Learner::new(tiny::model(kind), config, 5).unwrap()
}

#[test]
fn a_restored_learner_goes_on_bit_by_bit() {
    for kind in [Kind::Float, Kind::BFloat16] {
        let config = GrpoConfig {
            kl_beta: 0.02,
            epochs: 2,
            minibatches: 3,
            warmup_steps: 4,
            weight_decay: 0.01,
            max_grad_norm: 1.0,
            workers: Some(2),
            sharpen: 1.3,
            ..tiny::plain()
        };
        let samples = tiny::samples(&tiny::model(kind), 8, 0.1, 1.0);
        let mut undisturbed = learner(kind, config.clone());
        undisturbed.set_progress(0.8);
        undisturbed.step(&samples).unwrap();
        let files = undisturbed.state().unwrap();
        // Another seed and another start: both come from the files.
        let mut model = tiny::model(kind);
        model
            .set_weights(&learner(kind, config.clone()).model.weights_bytes().unwrap())
            .unwrap();
        {
            let _guard = tch::no_grad_guard();
            let _same = model
                .base()
                .flat()
                .shallow_clone()
                .f_mul_scalar_(0.5)
                .unwrap();
        }
        let mut resumed = Learner::new(model, config, 99).unwrap();
        resumed.restore(&files).unwrap();
        assert_eq!(resumed.state().unwrap(), files);
        for progress in [0.9, 1.0] {
            undisturbed.set_progress(progress);
            resumed.set_progress(progress);
            let a = undisturbed.step(&samples).unwrap();
            let b = resumed.step(&samples).unwrap();
            assert_eq!(a.updates, 6);
            assert_eq!(
                (a.loss.to_bits(), a.grad_norm.to_bits()),
                (b.loss.to_bits(), b.grad_norm.to_bits())
            );
            assert!(
                undisturbed.state().unwrap() == resumed.state().unwrap(),
                "{kind:?}: the states differ"
            );
        }
        assert_eq!((resumed.steps(), resumed.updates()), (3, 18));
    }
}
