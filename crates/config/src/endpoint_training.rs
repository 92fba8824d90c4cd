//! Checks of a training whose samples an endpoint draws.

use crate::endpoint::{Field, Logprobs};
use crate::read::{Usage, usage};
use crate::settings::{GeneratorKind, Settings};

/// Checks that the server draws from the distribution of which the learner recomputes log-probabilities, and that it can
/// get the weights of each version.
///
/// # Errors
/// The first setting that is not usable, and what to set instead.
pub(crate) fn check(settings: &Settings) -> Result<(), Usage> {
    let generator = &settings.generator;
    let (GeneratorKind::Endpoint, Some(endpoint)) = (generator.kind, &generator.endpoint) else {
        return Ok(());
    };
    if !settings.trains_through_endpoint() {
        let table = match settings.ppo.is_some() {
            true => "[ppo.lora]",
            false => "[learner.lora]",
        };
        return Err(usage(format!(
            "`generator.kind` is \"endpoint\", and the server of a training takes each policy version as an adapter; add {table} (e.g. rank = 16), or set `generator.kind` to \"policy\""
        )));
    }
    if generator.temperature != 1.0 && endpoint.logprobs == Logprobs::Raw {
        return Err(usage(format!(
            "`generator.temperature` is {}, and the endpoint's log-probabilities are those before the temperature (`generator.endpoint.logprobs` is \"raw\"), so every importance ratio would be wrong; set the temperature to 1, or start the server with --logprobs-mode processed_logprobs and set `generator.endpoint.logprobs` to \"processed\"",
            generator.temperature
        )));
    }
    for (field, name) in [(Field::Temperature, "temperature"), (Field::TopP, "top_p")] {
        if !endpoint.sends(field) {
            return Err(usage(format!(
                "`generator.endpoint.omit` has \"{name}\", and a training needs to know from which distribution the server draws; leave \"{name}\" out of `omit`"
            )));
        }
    }
    Ok(())
}

/// Advice about settings of the sampler that a server does not have.
pub(crate) fn unread(settings: &Settings) -> Vec<String> {
    let generator = &settings.generator;
    if !settings.trains_through_endpoint() {
        return Vec::new();
    }
    let mut names = Vec::new();
    for (name, is_set) in [
        ("exploration_samples", generator.exploration_samples > 0),
        ("repeats", generator.repeats >= 2),
        ("rows", generator.rows.is_some()),
        ("cache_mib", generator.cache_mib.is_some()),
        ("dtype", generator.dtype.is_some()),
    ] {
        if is_set {
            names.push(format!("`generator.{name}`"));
        }
    }
    match names.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "with `generator.kind = \"endpoint\"` these settings do nothing: {}; the server has its own sampler",
            names.join(", ")
        )],
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::check::{check_training, warnings};
    use crate::job::Job;
    use crate::read::parse;
    use crate::settings::Hosted;

    const LEAST: &str = "[generator]\nkind = \"endpoint\"\n[generator.endpoint]\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\n";

    fn trained(sets: &[&str]) -> Result<Settings, Usage> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let settings = parse(LEAST, "x.toml", &sets)?;
        check_training(&settings)?;
        Ok(settings)
    }

    #[test]
    fn a_training_through_an_endpoint_needs_an_adapter_and_the_distribution_that_is_drawn_from() {
        let lora = "learner.lora.rank=4";
        let settings = trained(&[lora]).unwrap();
        assert!(settings.trains_through_endpoint() && settings.has_models());
        let roles: Vec<Hosted> = Job::Train.roles(settings.generator.kind).collect();
        assert!(roles.contains(&Hosted::Learner));
        let roles: Vec<Hosted> = Job::Search.roles(settings.generator.kind).collect();
        assert!(!roles.contains(&Hosted::Learner));
        assert_eq!(settings.device_of(Hosted::Generator), None);
        let processed = "generator.endpoint.logprobs=processed";
        trained(&[lora, "generator.temperature=0.8", processed]).unwrap();
        trained(&[lora, "generator.endpoint.omit=[\"seed\"]"]).unwrap();
        let cases: [(&[&str], &str); 4] = [
            (&[], "[learner.lora]"),
            (&[lora, "generator.temperature=0.8"], "processed_logprobs"),
            (&[lora, "generator.top_p=0.9"], "generator.top_p"),
            (
                &[lora, "generator.endpoint.omit=[\"top_p\"]"],
                "`generator.endpoint.omit` has \"top_p\"",
            ),
        ];
        for (sets, part) in cases {
            let error = trained(sets).unwrap_err();
            assert!(error.0.contains(part), "{sets:?}: {error}");
        }
    }

    #[test]
    fn settings_of_our_own_sampler_are_named() {
        let settings = trained(&["learner.lora.rank=4"]).unwrap();
        assert_eq!(warnings(&settings).len(), warnings_of_policy());
        let sets = ["learner.lora.rank=4", "generator.exploration_samples=1"];
        let settings = trained(&sets).unwrap();
        let told = warnings(&settings).join("\n");
        assert!(told.contains("`generator.exploration_samples`"), "{told}");
        assert_eq!(settings.exploration_samples(), 0);
    }

    /// The number of warnings about the same settings with a model of this process.
    fn warnings_of_policy() -> usize {
        let settings = parse("[learner.lora]\nrank = 4\n", "x.toml", &[]).unwrap();
        warnings(&settings).len()
    }
}
