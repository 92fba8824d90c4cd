//! The devices of a run's models: checked before the run has a folder, and told.

use anyhow::{Context as _, Result};
use flopsmith_config::{Hosted, Settings};
use flopsmith_policy::{Adapter, Device, device, dtype};

use crate::console::say;
use crate::paths;

/// Checks that this process can use the devices of its roles with a model, and says which device, number format and
/// adapter they take. Roles that nodes of a cluster take are checked there.
///
/// # Errors
/// A GPU that the settings ask for cannot be used.
pub fn check(settings: &Settings) -> Result<()> {
    if !settings.has_models() {
        return Ok(());
    }
    let folder = paths::model(&settings.generator.model);
    for (role, name) in [
        (Hosted::Generator, "generator"),
        (Hosted::Learner, "learner"),
    ] {
        let Some(wanted) = settings
            .device_of(role)
            .filter(|_| !settings.is_hosted(role))
        else {
            continue;
        };
        let device = device::usable(wanted).with_context(|| match settings.require_gpu {
            true => format!("`require_gpu` is set, and the {name} has no GPU"),
            false => format!("the {name} has no GPU (`{name}.device`)"),
        })?;
        let has_adapter = Adapter::is_in(&folder);
        let trained = settings.trained_on(device.is_cuda(), has_adapter);
        let (format, what) = match role {
            Hosted::Learner => (trained.learner.dtype, about_training(&trained, has_adapter)),
            _ => (settings.generator.dtype, String::new()),
        };
        let words = device::words(device, dtype::kind(format, &folder, device)?);
        say(&format!("{name}: {words}{what}"));
    }
    Ok(())
}

/// True if a role of this process computes on a GPU.
pub fn uses_gpu(settings: &Settings) -> bool {
    let roles = [Hosted::Generator, Hosted::Learner].into_iter();
    let wanted = roles
        .filter(|role| !settings.is_hosted(*role))
        .filter_map(|role| settings.device_of(role));
    wanted
        .map(device::usable)
        .any(|found| found.is_ok_and(Device::is_cuda))
}

fn about_training(settings: &Settings, has_adapter: bool) -> String {
    match settings.algorithm().lora() {
        Some(lora) => format!(", an adapter of rank {}", lora.rank),
        None if has_adapter => ", its adapter".to_owned(),
        None => ", all weights".to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_config::Device as Wanted;

    use super::*;

    /// No machine has so many GPUs.
    const MISSING: Wanted = Wanted::Cuda(4000);

    #[test]
    fn a_gpu_that_is_missing_is_told_with_its_role_before_anything_starts() {
        let mut settings = Settings::default();
        settings.generator.device = Wanted::Cpu;
        settings.learner.device = MISSING;
        let error = format!("{:#}", check(&settings).unwrap_err());
        for part in ["`learner.device`", "\"cuda:4000\"", "flopsmith doctor"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        settings.learner.device = Wanted::Cpu;
        settings.generator.device = MISSING;
        settings.require_gpu = true;
        let error = format!("{:#}", check(&settings).unwrap_err());
        assert!(error.contains("`require_gpu`"), "{error}");
        assert!(!uses_gpu(&settings));
    }

    #[test]
    fn roles_of_other_nodes_and_runs_without_a_model_need_no_gpu_here() {
        let mut settings = Settings::default();
        settings.generator.device = Wanted::Cpu;
        settings.learner.device = MISSING;
        settings.hosted = vec![Hosted::Learner];
        check(&settings).unwrap();
        let text = "[generator]\nkind = \"schedule\"\n[learner]\ndevice = \"cuda:4000\"\n";
        let search = flopsmith_config::parse(text, "search.toml", &[]).unwrap();
        check(&search).unwrap();
    }

    #[test]
    fn what_is_trained_is_said_for_both_algorithms() {
        let settings = Settings::default();
        let of =
            |settings: &Settings, gpu, own| about_training(&settings.trained_on(gpu, own), own);
        assert_eq!(of(&settings, false, false), ", all weights");
        assert_eq!(of(&settings, true, true), ", its adapter");
        let adapter = ", an adapter of rank 16";
        assert_eq!(of(&settings, true, false), adapter);
        let ppo = Settings {
            ppo: Some(flopsmith_config::PpoConfig::default()),
            ..Settings::default()
        };
        assert_eq!(of(&ppo, true, false), adapter);
    }
}
