//! Checks of values, alone and together.

use flopsmith_archive::mix::Mix;
use flopsmith_problem::flags;
use flopsmith_protocol::MachineClass;
use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::correction::Correction;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::endpoint_training;
use crate::grpo::GrpoConfig;
use crate::job::Job;
use crate::ppo::PpoConfig;
use crate::read::{Usage, usage};
use crate::settings::{GeneratorKind, Hosted, Prompt, Settings, TurnPrompt};

pub(crate) fn check(settings: &Settings) -> Result<(), Usage> {
    let positive = [
        ("tasks", u64::from(settings.tasks)),
        ("group_size", u64::from(settings.group_size)),
        ("evaluate_tasks", u64::from(settings.evaluate_tasks)),
        ("threads", u64::from(settings.threads)),
        ("turns.most", u64::from(settings.turns.most)),
        (
            "generator.max_tokens",
            u64::from(settings.generator.max_tokens),
        ),
    ];
    for (name, value) in positive {
        if value == 0 {
            return Err(usage(format!("`{name}` must be at least 1")));
        }
    }
    if !(settings.budget_seconds.is_finite() && settings.budget_seconds > 0.0) {
        return Err(usage("`budget_seconds` must be a positive number"));
    }
    let generator = &settings.generator;
    if !(generator.temperature.is_finite() && generator.temperature > 0.0) {
        return Err(usage("`generator.temperature` must be above 0"));
    }
    for (name, share) in [
        ("top_p", generator.top_p),
        ("evaluation_top_p", generator.evaluation_top_p),
    ] {
        if !(share > 0.0 && share <= 1.0) {
            return Err(usage(format!(
                "`generator.{name}` is {share}; it must be above 0 and at most 1"
            )));
        }
    }
    if !(0.0..=1.0).contains(&generator.start_share) {
        return Err(usage(format!(
            "`generator.start_share` is {}; it must be between 0 and 1",
            generator.start_share
        )));
    }
    for (name, value) in [
        ("sharing", settings.advantage.sharing),
        ("imitation", settings.advantage.imitation),
        ("self_imitation", settings.advantage.self_imitation),
    ] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(usage(format!(
                "`advantage.{name}` is {value}; it must be 0 or more"
            )));
        }
    }
    for (name, share) in [
        ("discount", settings.turns.discount),
        ("first", settings.turns.first),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return Err(usage(format!(
                "`turns.{name}` is {share}; it must be between 0 and 1"
            )));
        }
    }
    check_devices(settings)?;
    check_problems(settings)?;
    check_endpoint(settings)?;
    check_agent(settings)?;
    MachineClass::new(&settings.machine_class)
        .map_err(|e| usage(format!("`machine_class`: {e}")))?;
    flags::parse(&settings.evaluate.flags).map_err(|e| usage(format!("`evaluate.flags`: {e}")))?;
    settings
        .sqd
        .check()
        .map_err(|e| usage(format!("[sqd]: {e}")))?;
    settings.reward.check().map_err(|e| usage(e.to_string()))?;
    Ok(())
}

/// Checks that no role with a model has the CPU in a run that needs a GPU. Whether there is a GPU is not known here.
fn check_devices(settings: &Settings) -> Result<(), Usage> {
    for (name, device) in [
        ("generator", settings.generator.device),
        ("learner", settings.learner.device),
    ] {
        if settings.require_gpu && device == Device::Cpu {
            return Err(usage(format!(
                "`{name}.device` is \"cpu\", and `require_gpu` refuses to compute there; leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Checks the names of the problems. Whether they exist is not known here.
fn check_problems(settings: &Settings) -> Result<(), Usage> {
    if [&settings.problem, &settings.suite]
        .iter()
        .all(|name| name.is_empty())
        && settings.problems.is_empty()
    {
        return Err(usage(
            "`problem` is empty; name a problem (`flopsmith problem list` shows all)",
        ));
    }
    for (key, names) in [
        ("problems", &settings.problems),
        ("hold_out", &settings.hold_out),
    ] {
        if names.iter().any(String::is_empty) {
            return Err(usage(format!(
                "`{key}` has an empty name; name a problem (`flopsmith problem list` shows all), or leave it out"
            )));
        }
        let twice = (1..names.len()).find(|n| names[..*n].contains(&names[*n]));
        if let Some(n) = twice {
            return Err(usage(format!(
                "`{key}` names `{}` twice; name each problem once",
                names[n]
            )));
        }
    }
    let held_out = |name: &&String| settings.hold_out.contains(name);
    if let Some(name) = settings.named_problems().iter().find(held_out) {
        return Err(usage(format!(
            "`hold_out` names `{name}`, on which the run trains; leave it out of one of them"
        )));
    }
    if settings.mix != Mix::Uniform && !settings.has_many() && settings.suite.is_empty() {
        return Err(usage(
            "`mix` divides tasks among many problems, and the run has one; leave it out, or set `problems` or `suite`",
        ));
    }
    if settings.is_stream() {
        for (key, given, why) in [
            (
                "hold_out",
                !settings.hold_out.is_empty(),
                "none of its nests is evaluated and trained on",
            ),
            (
                "mix",
                settings.mix != Mix::Uniform,
                "each of its nests has one task",
            ),
            (
                "workloads",
                settings.names_sizes(),
                "each of its nests has sizes of its own",
            ),
        ] {
            if given {
                return Err(usage(format!(
                    "`{key}` is set beside `suite = \"random\"`, where it means nothing: {why}; leave it out, or name nests in `problems`"
                )));
            }
        }
    }
    check_fresh(settings)?;
    if settings.has_many() && settings.start.is_some() {
        return Err(usage(
            "`start` is a program for one problem; leave it out, or name one problem",
        ));
    }
    Ok(())
}

/// Checks the settings that fresh random nests need.
fn check_fresh(settings: &Settings) -> Result<(), Usage> {
    if settings.has_fresh() && settings.generator.prompt == Prompt::Compact {
        return Err(usage(
            "`generator.prompt` is \"compact\", which only names a problem, and nobody knows a fresh random nest by its name; set it to \"nest\" or \"full\"",
        ));
    }
    if settings.random == 0 {
        return Ok(());
    }
    let why = if settings.is_stream() {
        "`suite = \"random\"` has fresh nests in all tasks; leave one of them out".to_owned()
    } else if !settings.has_many() && settings.suite.is_empty() {
        "it adds fresh nests to a run over several problems, and the run has one; set `problems` or `suite`".to_owned()
    } else if settings.random >= settings.tasks {
        format!(
            "and `tasks` is {}; leave at least one task of a step to the problems",
            settings.tasks
        )
    } else if settings.names_sizes() {
        "and `workloads` names sizes, which fresh nests do not have; leave one of them out, or set `workloads = [\"first\"]`"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(usage(format!("`random` is {}: {why}", settings.random)))
}

fn check_endpoint(settings: &Settings) -> Result<(), Usage> {
    let generator = &settings.generator;
    match (generator.kind, &generator.endpoint) {
        (GeneratorKind::Endpoint | GeneratorKind::Agent, Some(endpoint)) => {
            endpoint.check().map_err(|e| {
                usage(match e.0.strip_prefix('[') {
                    Some(inner) => format!("[generator.endpoint.{inner}"),
                    None => format!("[generator.endpoint] {e}"),
                })
            })
        }
        (GeneratorKind::Endpoint, None) => Err(usage(
            "`generator.kind` is \"endpoint\" and no endpoint is named; add [generator.endpoint] with `url` and `model`, or run `flopsmith search --endpoint URL#MODEL`",
        )),
        (kind @ (GeneratorKind::Policy | GeneratorKind::Schedule), Some(_)) => Err(usage(format!(
            "[generator.endpoint] is set and `generator.kind` is \"{}\"; set it to \"endpoint\" or \"agent\", or leave the table out",
            kind.name()
        ))),
        (GeneratorKind::Policy | GeneratorKind::Schedule | GeneratorKind::Agent, None) => Ok(()),
    }
}

fn check_agent(settings: &Settings) -> Result<(), Usage> {
    let has_parameters = settings.start.as_ref().is_some_and(|s| s.has_parameters());
    if settings.generator.kind == GeneratorKind::Agent && has_parameters {
        return Err(usage(
            "`generator.kind` is \"agent\", and `start` has parameters, whose values a search by an agent does not vary; leave the parameters or --agent out",
        ));
    }
    let generator = &settings.generator;
    let converses = generator.kind == GeneratorKind::Agent && generator.endpoint.is_some();
    if generator.agent.documents.is_some() && !converses {
        return Err(usage(
            "[generator.agent] `documents` is set, and no language model of an agent reads them; name an endpoint (--agent --endpoint URL#MODEL), or leave `documents` out",
        ));
    }
    generator.agent.check()
}

/// Checks that settings that leave work to a cluster name the cluster.
pub fn check_cluster(settings: &Settings, job: Job) -> Result<(), Usage> {
    let mut hosted = settings.hosted.clone();
    hosted.sort_unstable();
    hosted.dedup();
    if hosted.len() < settings.hosted.len() {
        return Err(usage("`hosted` names a role twice"));
    }
    if !hosted.is_empty() && (settings.nats.is_empty() || settings.store.is_empty()) {
        return Err(usage(
            "`hosted` leaves roles to nodes of a cluster; name the bus and the store of the cluster (--nats and --store, or `nats` and `store`)",
        ));
    }
    let bound = match settings.generator.kind {
        GeneratorKind::Policy | GeneratorKind::Schedule => None,
        GeneratorKind::Endpoint => {
            Some("the key, the budget and the requests of an endpoint are of this process")
        }
        GeneratorKind::Agent => Some("the record of an agent's attempts is in this run's folder"),
    };
    if let Some(bound) = bound.filter(|_| !hosted.is_empty()) {
        return Err(usage(format!(
            "`hosted` leaves roles to nodes of a cluster, and {bound}; leave out `hosted` (--cluster), or leave only the evaluation to workers (`evaluate.workers`)"
        )));
    }
    let mut needed = job.roles(settings.generator.kind);
    if settings.is_hosted(Hosted::Archive)
        && !(settings.evaluate.workers && needed.all(|role| settings.is_hosted(role)))
    {
        return Err(usage(
            "`hosted` leaves the archive to the cluster, whose clock continues without this process; leave the other roles and the evaluation (`evaluate.workers`) to the cluster as well, as --cluster does",
        ));
    }
    let elsewhere = settings.evaluate.workers || !settings.nats.is_empty() || !hosted.is_empty();
    if settings.evaluate.replays() && elsewhere {
        return Err(usage(
            "`evaluate.recorded` repeats a run on this machine without a cluster; leave out `nats`, `hosted` and `evaluate.workers`",
        ));
    }
    if settings.evaluate.workers && (settings.nats.is_empty() || settings.store.is_empty()) {
        return Err(usage(
            "`evaluate.workers` leaves the evaluation to the workers of a cluster; name the bus and the store of the cluster (--nats and --store, or `nats` and `store`)",
        ));
    }
    Ok(())
}

/// Checks the settings that only training needs. A search has no policy, so these settings mean nothing to it.
pub fn check_training(settings: &Settings) -> Result<(), Usage> {
    if settings.start.is_some() {
        return Err(usage(
            "`start` is a program with which a search begins; leave it out, or run `flopsmith search --start`",
        ));
    }
    if !settings.warm_start.is_empty() {
        return Err(usage(
            "`warm_start` has programs with whose schedules a search begins; leave it out",
        ));
    }
    let generator = &settings.generator;
    if !generator.kind.can_train() {
        return Err(usage(format!(
            "`generator.kind` is \"{}\", which has no model to train; set it to \"policy\" or \"endpoint\", or run `flopsmith search`, which needs no model",
            generator.kind.name()
        )));
    }
    // The sampler notes log-probabilities under the distribution it drew from. After a cut these are larger
    // than the learner's own for the same policy, so every ratio would start below 1.
    let cut = if generator.top_p < 1.0 {
        Some(format!("top_p` is {}", generator.top_p))
    } else if generator.top_k > 0 {
        Some(format!("top_k` is {}", generator.top_k))
    } else {
        None
    };
    if let Some(cut) = cut {
        return Err(usage(format!(
            "`generator.{cut}: samples that are trained on must be drawn from the whole distribution (top_p = 1, top_k = 0), because the learner compares their log-probabilities with uncut ones; to cut the tail where nothing is trained, set `generator.evaluation_top_p`"
        )));
    }
    endpoint_training::check(settings)?;
    check_learner(settings)
}

/// Advice about settings that are permitted and do nothing beside others, one sentence each.
pub fn warnings(settings: &Settings) -> Vec<String> {
    let mut found = unread_in_prompts(settings);
    found.extend(endpoint_training::unread(settings));
    let unread = match settings.algorithm() {
        Algorithm::Grpo(_) => Vec::new(),
        Algorithm::Ppo(_) => unread_by_ppo(&settings.learner),
    };
    if !unread.is_empty() {
        found.push(format!(
            "with `[ppo]` these settings do nothing: {}; `[ppo]` has its own",
            unread.join(", ")
        ));
    }
    found
}

/// Advice about programs that the archive would show in prompts, and that no prompt shows.
fn unread_in_prompts(settings: &Settings) -> Vec<String> {
    let (sqd, generator) = (&settings.sqd, &settings.generator);
    let reads = matches!(
        generator.kind,
        GeneratorKind::Policy | GeneratorKind::Endpoint
    );
    let mut found = Vec::new();
    if !sqd.enabled {
        return found;
    }
    if sqd.elite_hint_share > 0.0 && !reads {
        found.push("`sqd.elite_hint_share` does nothing here: only a model's prompts (`generator.kind = \"policy\"` or \"endpoint\") show an elite".to_owned());
    }
    if sqd.repair_share > 0.0 && !reads {
        found.push("`sqd.repair_share` does nothing here: only a model's prompts (`generator.kind = \"policy\"` or \"endpoint\") show a failed answer".to_owned());
    }
    found
}

/// The settings of `[learner]` that are not as by default and that PPO does not read.
fn unread_by_ppo(learner: &GrpoConfig) -> Vec<String> {
    let values = |config: &GrpoConfig| match serde_json::to_value(config) {
        Ok(Value::Object(values)) => values,
        _ => Map::new(),
    };
    let usual = values(&GrpoConfig::default());
    let given = values(learner).into_iter();
    given
        .filter(|(name, value)| {
            !["dtype", "device", "checkpoint_every", "cores"].contains(&name.as_str())
                && usual.get(name) != Some(value)
        })
        .map(|(name, _)| format!("`learner.{name}`"))
        .collect()
}

fn check_learner(settings: &Settings) -> Result<(), Usage> {
    check_turns(settings)?;
    match settings.algorithm() {
        Algorithm::Grpo(learner) => check_grpo(settings, learner),
        Algorithm::Ppo(ppo) => check_ppo(settings, ppo),
    }
}

fn check_turns(settings: &Settings) -> Result<(), Usage> {
    let (turns, advantage) = (&settings.turns, &settings.advantage);
    let is_agent = turns.prompt == TurnPrompt::Agent;
    if turns.most > 1 && advantage.dynamic_sampling > 0 {
        return Err(usage(format!(
            "`turns.most` is {}: `advantage.dynamic_sampling` draws further rounds as well; set one of them only",
            turns.most
        )));
    }
    if is_agent && settings.generator.prompt != Prompt::Full {
        return Err(usage(
            "`turns.prompt` is \"agent\", whose prompts only a chat model reads; set `generator.prompt = \"full\"`, or `turns.prompt = \"brief\"`",
        ));
    }
    if turns.documents.is_some() && (!is_agent || turns.most < 2) {
        return Err(usage(
            "`turns.documents` is set, and only conversations with `turns.prompt = \"agent\"` and `turns.most` of 2 or more read documents; set both, or leave `documents` out",
        ));
    }
    if is_agent && settings.sqd.repair_share > 0.0 {
        return Err(usage(format!(
            "`sqd.repair_share` is {}, and with `turns.prompt = \"agent\"` no conversation begins with another one's answer; set it to 0",
            settings.sqd.repair_share
        )));
    }
    if (turns.most > 1 || is_agent) && advantage.self_imitation > 0.0 {
        return Err(usage(format!(
            "`advantage.self_imitation` is {}, and an answer in a conversation answers no other prompt; set it to 0",
            advantage.self_imitation
        )));
    }
    Ok(())
}

fn check_ppo(settings: &Settings, ppo: &PpoConfig) -> Result<(), Usage> {
    ppo.check().map_err(|e| usage(format!("[ppo]: {e}")))?;
    for (name, value) in [
        ("imitation", settings.advantage.imitation),
        ("self_imitation", settings.advantage.self_imitation),
    ] {
        if value != 0.0 {
            return Err(usage(format!(
                "`advantage.{name}` is {value}, and PPO computes advantages of its own; leave it out, or leave out `[ppo]`"
            )));
        }
    }
    if settings.learner.lora.is_some() {
        return Err(usage(
            "`[learner.lora]` is set, and PPO reads `[ppo.lora]`; move the table there",
        ));
    }
    Ok(())
}

fn check_grpo(settings: &Settings, learner: &GrpoConfig) -> Result<(), Usage> {
    learner
        .check()
        .map_err(|e| usage(format!("[learner]: {e}")))?;
    // The device and the choice of `auto` are not known here, so only an explicit format counts as half precision.
    let half = learner.dtype == Some(Dtype::Bfloat16);
    learner
        .check_for_weights(half)
        .map_err(|e| usage(format!("[learner]: {e}")))?;
    let uncorrected = learner.correction.for_weights(half) == Correction::None;
    if settings.generator.steps_ahead > 0 && learner.target_kl.is_some() && uncorrected {
        return Err(usage(
            "`learner.target_kl` is set together with `generator.steps_ahead`, so the divergence that limits a step would include the divergence of the policy versions in between; \
             set `learner.correction = \"token_truncate\"`, which measures the divergence from the policy that the step begins with",
        ));
    }
    Ok(())
}
