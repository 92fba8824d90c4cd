//! Weights for measurements.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_policy::{Config, Device, Kind, Model};

#[test]
fn noise_is_of_the_usual_size_and_depends_on_the_seed_alone() {
    let config = || Config::new(300, 64, 96, 2, 4, 2);
    let noise = |seed| Model::noise(config(), seed, Device::Cpu, Kind::Float).unwrap();
    let (model, again, other) = (noise(3), noise(3), noise(4));
    assert_eq!(model.base().flat(), again.base().flat());
    assert_ne!(model.base().flat(), other.base().flat());
    for (slot, (name, tensor)) in model.base().slots().iter().zip(model.base().leaves()) {
        let (mean, std) = (tensor.mean(Kind::Float), tensor.std(false));
        let (mean, std) = (mean.double_value(&[]), std.double_value(&[]));
        if slot.shape.len() > 1 {
            assert!(
                mean.abs() < 2e-3 && (std - 0.02).abs() < 2e-3,
                "{name}: {mean}, {std}"
            );
        } else {
            let expected = if name.contains("norm") { 1.0 } else { 0.0 };
            assert!(
                (mean - expected).abs() < 1e-6 && std < 1e-6,
                "{name}: {mean}, {std}"
            );
        }
    }
}
