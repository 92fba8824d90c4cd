//! Configuration: defaults → file → flags, checked once, with errors that name the line.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use flopsmith_actors::Settings;
use flopsmith_actors::course::Job;
use flopsmith_actors::settings::{GeneratorKind, Hosted};
use flopsmith_problem::flags;
use flopsmith_protocol::{MachineClass, Technique, text};

use crate::console::{Usage, say, usage};
use crate::run::roles;

/// Reads a configuration and applies `--set` overrides.
pub fn load(path: &Path, overrides: &[String]) -> Result<Settings> {
    parse(&text_of(path)?, &path.display().to_string(), overrides)
}

/// Reads the configuration of a training run and applies `--set` overrides. The learner checks its own table; an error
/// in it names its line as well.
pub fn load_for_training(path: &Path, overrides: &[String]) -> Result<Settings> {
    let settings = load(path, overrides)?;
    #[cfg(feature = "torch")]
    check_learner_table(&text_of(path)?, &path.display().to_string())?;
    Ok(settings)
}

fn text_of(path: &Path) -> Result<String> {
    read_text(path).map_err(|e| {
        usage(format!(
            "cannot read the configuration {}: {e}; an example is examples/dgemm.toml",
            path.display()
        ))
    })
}

/// The text of a file that a user wrote.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    std::fs::read(path).and_then(text::decode)
}

/// Checks the learner's table as the file has it.
#[cfg(feature = "torch")]
fn check_learner_table(text: &str, name: &str) -> Result<()> {
    #[derive(serde::Deserialize)]
    struct Tables {
        #[serde(default, rename = "learner")]
        _learner: flopsmith_learner::GrpoConfig,
    }
    read::<Tables>(text, name).map(drop)
}

/// Reads any TOML file into its type; an error names its line.
#[cfg(feature = "torch")]
pub fn read<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| usage(explain(&e, text, name)))
}

/// Reads a configuration from text.
pub fn parse(text: &str, name: &str, overrides: &[String]) -> Result<Settings> {
    // First as it stands, so that a mistake is shown with its line.
    let _: Settings = toml::from_str(text).map_err(|e| usage(explain(&e, text, name)))?;
    let plain: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| usage(explain(&e, text, name)))?;
    let mut table = plain.clone();
    for item in overrides {
        apply(&mut table, item)?;
    }
    follow_loss(&mut table);
    let mut settings =
        fit(&table).map_err(|e| usage(misfit(&plain, overrides, e.message().trim())))?;
    permit(&mut settings);
    check(&settings).map_err(|e| {
        at_its_line(&e, text, name, overrides)
            .unwrap_or_else(|| e.context(format!("{name} is not usable")))
    })?;
    Ok(settings)
}

fn fit(table: &toml::Table) -> Result<Settings, toml::de::Error> {
    toml::Value::Table(table.clone()).try_into()
}

/// The message for overrides that do not fit: the key of the wrong override, and the type that this key takes.
fn misfit(plain: &toml::Table, overrides: &[String], message: &str) -> String {
    // Some overrides fit only together, so each is tried alone only after all of them failed.
    let alone = |item: &str| {
        let mut table = plain.clone();
        apply(&mut table, item).is_ok() && fit(&table).is_err_and(|e| e.message().trim() == message)
    };
    let Some(item) = overrides.iter().find(|item| alone(item)) else {
        return format!("--set does not fit: {message}");
    };
    let key = item.split_once('=').map_or(item.as_str(), |(key, _)| key);
    let of_type = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|m| m.rsplit_once(", expected "));
    let mut words = match of_type {
        Some((found, expected)) => {
            format!(
                "--set {item}: `{key}` takes {}, not {found}",
                kind(expected)
            )
        }
        None => format!("--set {item}: {message}"),
    };
    if let Some(near) = suggestion(message) {
        words.push_str(&format!("\n  did you mean `{near}`?"));
    }
    words
}

/// Translates serde's name of a type into plain words.
fn kind(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "a text",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Sets `advantage.scale` to `none` if the file does not set it and the loss is `dr_grpo` or the advantages are
/// `leave_one_out`. Dr. GRPO consists of its loss and of advantages that are divided by nothing; a leave-one-out
/// baseline needs no divisor either.
fn follow_loss(table: &mut toml::Table) {
    let said = |section: &str, key: &str| {
        let value = table.get(section).and_then(|section| section.get(key));
        value.and_then(toml::Value::as_str)
    };
    if said("learner", "loss") != Some("dr_grpo")
        && said("advantage", "kind") != Some("leave_one_out")
    {
        return;
    }
    let advantage = table.entry("advantage");
    let advantage = advantage.or_insert_with(|| toml::Table::new().into());
    if let Some(advantage) = advantage.as_table_mut() {
        advantage
            .entry("scale")
            .or_insert_with(|| "none".to_owned().into());
    }
}

/// Removes OpenMP from the pool if kernels are timed on one core. OpenMP gains nothing there and would only widen the
/// search. So one pool in the configuration serves all thread counts.
fn permit(settings: &mut Settings) {
    if settings.threads == 1 {
        let pool = settings.sqd.techniques;
        settings.sqd.techniques = pool.without(Technique::Openmp);
    }
}

fn apply(table: &mut toml::Table, item: &str) -> Result<()> {
    let (key, value) = item.split_once('=').ok_or_else(|| {
        usage(format!(
            "--set {item}: write KEY=VALUE, e.g. --set group_size=4"
        ))
    })?;
    // A value that is no TOML value is a string: --set problem=dgemm needs no quotes.
    let value = format!("v = {value}")
        .parse::<toml::Table>()
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut place = table;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            place.insert(part.to_owned(), value);
            return Ok(());
        }
        place = place
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| usage(format!("--set {key}: `{part}` is no table")))?;
    }
    Ok(())
}

fn check(settings: &Settings) -> Result<()> {
    let positive = [
        ("tasks", u64::from(settings.tasks)),
        ("group_size", u64::from(settings.group_size)),
        ("evaluate_tasks", u64::from(settings.evaluate_tasks)),
        ("threads", u64::from(settings.threads)),
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

/// Checks that settings that leave work to a cluster name the cluster.
pub fn check_cluster(settings: &Settings, job: Job) -> Result<()> {
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
    let needed = || roles::needed(job, settings.generator.kind);
    if settings.is_hosted(Hosted::Archive)
        && !(settings.evaluate.workers && needed().all(|role| settings.is_hosted(role)))
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
pub fn check_training(settings: &Settings) -> Result<()> {
    let generator = &settings.generator;
    if generator.kind == GeneratorKind::Schedule {
        return Err(usage(
            "`generator.kind` is \"schedule\", and the schedule space has no model to train; set it to \"policy\", or run `flopsmith search`, which needs no model",
        ));
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
    check_learner(settings)
}

#[cfg(feature = "torch")]
fn check_learner(settings: &Settings) -> Result<()> {
    let table = serde_json::Value::Object(settings.learner.0.clone());
    // The error of a single value does not name its key.
    let alone = |key: &str, value: &serde_json::Value| {
        serde_json::from_value::<flopsmith_learner::GrpoConfig>(serde_json::json!({ key: value }))
    };
    let learner: flopsmith_learner::GrpoConfig = serde_json::from_value(table).map_err(|e| {
        let message = e.to_string();
        let near = suggestion(&message)
            .map(|near| format!("\n  did you mean `{near}`?"))
            .unwrap_or_default();
        let wrong = settings.learner.0.iter();
        let mut wrong = wrong.filter(|(key, value)| alone(key, value).is_err());
        let message = match wrong.next() {
            Some((key, _)) if !message.contains(&format!("`{key}`")) => {
                format!("`{key}`: {message}")
            }
            _ => message,
        };
        usage(format!("[learner]: {message}{near}"))
    })?;
    learner
        .check()
        .map_err(|e| usage(format!("[learner]: {e}")))?;
    // The choice of `auto` is not known here, so only an explicit format counts as half precision.
    let kind = match learner.dtype {
        flopsmith_policy::Dtype::Bfloat16 => flopsmith_policy::Kind::BFloat16,
        _ => flopsmith_policy::Kind::Float,
    };
    let uncorrected = learner.correction.for_weights(kind) == flopsmith_learner::Correction::None;
    if learner.loss == flopsmith_learner::Loss::Gspo
        && kind == flopsmith_policy::Kind::BFloat16
        && uncorrected
    {
        return Err(usage(
            "[learner]: `correction` is \"none\", and the rounding of half precision moves ratios further than `gspo` clips them; leave `correction` out, or train in single precision",
        ));
    }
    if settings.generator.steps_ahead > 0 && learner.target_kl.is_some() && uncorrected {
        return Err(usage(
            "`learner.target_kl` is set together with `generator.steps_ahead`, so the divergence that limits a step would include the divergence of the policy versions in between; \
             set `learner.correction = \"token_truncate\"`, which measures the divergence from the policy that the step begins with",
        ));
    }
    Ok(())
}

/// Checks nothing: the learner reads its table itself, and this build has no learner.
#[cfg(not(feature = "torch"))]
fn check_learner(_: &Settings) -> Result<()> {
    Ok(())
}

/// A TOML error with its line, the line's text, and the nearest known key if a key was misspelt.
fn explain(error: &toml::de::Error, text: &str, name: &str) -> String {
    let message = error.message().trim();
    let plain = in_plain_words(message);
    let mut words = match error.span() {
        Some(span) => {
            let mut words = with_line(&plain, span.start, text, name);
            // Times are the only numbers that users write with a unit.
            let line = words.lines().last().unwrap_or_default();
            let key = line.split('=').next().unwrap_or_default().trim();
            if key.ends_with("_seconds") && message.contains("invalid type: string") {
                words.push_str("\n  write seconds without quotes, e.g. 600");
            }
            words
        }
        None => format!("{name}: {plain}"),
    };
    if let Some(near) = suggestion(message) {
        words.push_str(&format!("\n  did you mean `{near}`?"));
    }
    words
}

/// A message with the type in plain words.
fn in_plain_words(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((found, expected)) if message.starts_with("invalid ") => {
            format!("{found}, expected {}", kind(expected))
        }
        _ => message.to_owned(),
    }
}

/// A message with the line of the file at this position.
fn with_line(message: &str, place: usize, text: &str, name: &str) -> String {
    let line = text[..place.min(text.len())].matches('\n').count();
    let shown = text.lines().nth(line).unwrap_or_default();
    format!("{name}, line {}: {message}\n    {shown}", line + 1)
}

/// Adds to an error of a value the line of the file that contains the value. If no line contains it or `--set` set it,
/// the error stays as it is.
pub fn located(error: anyhow::Error, path: &Path, overrides: &[String]) -> anyhow::Error {
    let text = read_text(path).unwrap_or_default();
    let name = path.display().to_string();
    at_its_line(&error, &text, &name, overrides).unwrap_or(error)
}

/// None if the file does not have the setting with which the error begins, or if the setting was overridden.
fn at_its_line(
    error: &anyhow::Error,
    text: &str,
    name: &str,
    overrides: &[String],
) -> Option<anyhow::Error> {
    if !error.is::<Usage>() {
        return None;
    }
    let message = error.to_string();
    let key = key_of(&message)?;
    let overridden = overrides.iter().any(|item| {
        let set = item.split_once('=').map_or(item.as_str(), |(set, _)| set);
        let rest = key.strip_prefix(set);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    if overridden {
        return None;
    }
    let place = place_of(text, &key)?;
    Some(usage(with_line(&message, place, text, name)))
}

/// The setting that a message is about: the first name in it, in the table with which the message begins.
fn key_of(message: &str) -> Option<String> {
    let first = message.split('`').nth(1)?;
    let table = message.strip_prefix('[').and_then(|m| m.split_once(']'));
    Some(match table {
        Some((table, _)) => format!("{table}.{first}"),
        None => first.to_owned(),
    })
}

/// Position of a setting in a file, bytes.
fn place_of(text: &str, key: &str) -> Option<usize> {
    let parsed = toml::de::DeTable::parse(text).ok()?;
    let mut table = parsed.get_ref();
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == part)?;
        if parts.peek().is_none() {
            return Some(name.span().start);
        }
        let toml::de::DeValue::Table(inner) = value.get_ref() else {
            return None;
        };
        table = inner;
    }
    None
}

/// From serde's "unknown field `x`, expected one of `a`, `b`": the expected name nearest to `x`.
fn suggestion(message: &str) -> Option<String> {
    if !message.contains("unknown") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next()?;
    let near = names.map(|n| (distance(wrong, n), n)).min()?;
    (near.0 <= 2 + wrong.len() / 4).then(|| near.1.to_owned())
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Reads a duration such as `10m`, `1h30m`, `2d`, `90s` or `600`, which must not be 0.
pub fn duration(text: &str) -> Result<f64> {
    let seconds = seconds(text)?;
    if seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(usage(format!(
            "`{text}` is zero; write a duration such as 90s, 10m or 1h30m"
        )))
    }
}

/// Seconds of a duration, which may be 0 in any unit.
fn seconds(text: &str) -> Result<f64> {
    let wrong = || usage(format!("`{text}` is no duration: write 90s, 10m or 1h30m"));
    let mut seconds = 0.0;
    let mut number = String::new();
    for c in text.trim().chars() {
        if c.is_ascii_digit() || c == '.' {
            number.push(c);
            continue;
        }
        let value: f64 = number.parse().map_err(|_| wrong())?;
        number.clear();
        seconds += value
            * match c {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3600.0,
                'd' => 86_400.0,
                _ => return Err(wrong()),
            };
    }
    if !number.is_empty() {
        seconds += number.parse::<f64>().map_err(|_| wrong())?;
    } else if text.trim().is_empty() {
        return Err(wrong());
    }
    Ok(seconds)
}

/// Reads a time that may be 0: `0`, `0s` and `0h0m` are the same.
pub fn time(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds(text)?).unwrap_or(Duration::MAX))
}

/// Reads the duration of `--budget`. If another unit may have been meant, prints how the value was understood.
pub fn budget(text: &str) -> Result<f64> {
    let seconds = duration(text)?;
    if let Some(note) = bare_seconds(text) {
        say(&note);
    }
    Ok(seconds)
}

/// A note on how a bare number is understood, if it is small: few users want so short a run.
fn bare_seconds(text: &str) -> Option<String> {
    let bare = text.trim();
    let number: f64 = bare.parse().ok()?;
    (number < 60.0).then(|| {
        let plural = |n: f64| if n == 1.0 { "" } else { "s" };
        format!(
            "note: --budget {bare} is {bare} second{s}; {bare}m is {bare} minute{s}",
            s = plural(number)
        )
    })
}

#[cfg(test)]
mod tests;
