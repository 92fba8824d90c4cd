//! Configuration: defaults → file → flags, checked once, with errors that name the line.

use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::Settings;
use flopsmith_actors::settings::GeneratorKind;
use flopsmith_protocol::{MachineClass, Technique};

use crate::exit::usage;

/// Reads a configuration and applies `--set` overrides.
pub fn load(path: &Path, overrides: &[String]) -> Result<Settings> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        usage(format!(
            "cannot read the configuration {}: {e}; an example is examples/dgemm.toml",
            path.display()
        ))
    })?;
    parse(&text, &path.display().to_string(), overrides)
}

/// Reads any TOML file into its type; a mistake is shown with its line.
pub fn read<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| usage(explain(&e, text, name)))
}

/// Reads a configuration from text.
pub fn parse(text: &str, name: &str, overrides: &[String]) -> Result<Settings> {
    // First as it stands, so that a mistake is shown with its line.
    let _: Settings = toml::from_str(text).map_err(|e| usage(explain(&e, text, name)))?;
    let mut table: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| usage(explain(&e, text, name)))?;
    for item in overrides {
        apply(&mut table, item)?;
    }
    let mut settings: Settings = toml::Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| usage(format!("--set does not fit: {}", e.message())))?;
    permit(&mut settings);
    check(&settings).with_context(|| format!("{name} is not usable"))?;
    Ok(settings)
}

/// Takes OpenMP from the pool where kernels are timed on one core: there it has nothing to give and would
/// only widen the search, so one pool serves all thread counts.
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
                "`generator.{name}` is {share}; it must lie above 0 and at most at 1"
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
    settings
        .sqd
        .check()
        .map_err(|e| usage(format!("[sqd]: {e}")))?;
    settings.reward.check().map_err(|e| usage(e.to_string()))?;
    Ok(())
}

/// What only training asks of a configuration. A search has no policy, so these settings mean nothing to it.
pub fn check_training(settings: &Settings) -> Result<()> {
    let generator = &settings.generator;
    if generator.kind == GeneratorKind::Schedule {
        return Err(usage(
            "`generator.kind` is \"schedule\", and the schedule space has nothing that could be trained: set it to \"policy\", or search without a model by `flopsmith search`",
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
    let learner: flopsmith_learner::GrpoConfig = serde_json::from_value(table).map_err(|e| {
        let message = e.to_string();
        let near = suggestion(&message)
            .map(|near| format!("\n  did you mean `{near}`?"))
            .unwrap_or_default();
        usage(format!("[learner]: {message}{near}"))
    })?;
    learner
        .check()
        .map_err(|e| usage(format!("[learner]: {e}")))
}

/// The learner reads its table itself, and this build has none.
#[cfg(not(feature = "torch"))]
fn check_learner(_: &Settings) -> Result<()> {
    Ok(())
}

/// A TOML error with its line, the line's text, and the nearest known key where one was misspelt.
fn explain(error: &toml::de::Error, text: &str, name: &str) -> String {
    let message = error.message().trim();
    let mut words = match error.span() {
        Some(span) => {
            let line = text[..span.start.min(text.len())].matches('\n').count();
            let shown = text.lines().nth(line).unwrap_or_default();
            format!("{name}, line {}: {message}\n    {shown}", line + 1)
        }
        None => format!("{name}: {message}"),
    };
    if let Some(near) = suggestion(message) {
        words.push_str(&format!("\n  did you mean `{near}`?"));
    }
    words
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

/// Reads a duration such as `10m`, `1h30m`, `90s` or `600`.
pub fn duration(text: &str) -> Result<f64> {
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
                _ => return Err(wrong()),
            };
    }
    if !number.is_empty() {
        seconds += number.parse::<f64>().map_err(|_| wrong())?;
    }
    if seconds > 0.0 {
        Ok(seconds)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("10m", 600.0),
            ("1h30m", 5400.0),
            ("45", 45.0),
            ("1.5m", 90.0),
        ] {
            assert!(
                (duration(text).expect("a duration") - seconds).abs() < 1e-9,
                "{text}"
            );
        }
        for text in ["", "m", "10x", "-3s", "0"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_misspelt_key_is_shown_with_its_line_and_the_right_name() {
        let error = parse("tasks = 4\ngroup_sise = 8\n", "x.toml", &[])
            .expect_err("misspelt")
            .to_string();
        assert!(
            error.contains("x.toml, line 2") && error.contains("did you mean `group_size`"),
            "{error}"
        );
    }

    #[test]
    fn overrides_reach_nested_tables_and_are_checked() {
        let set = |s: &str| parse("tasks = 4\n", "x.toml", &[s.to_owned()]);
        assert_eq!(
            set("generator.max_tokens=99")
                .expect("fits")
                .generator
                .max_tokens,
            99
        );
        assert_eq!(set("problem=other").expect("fits").problem, "other");
        assert!(set("generator.max_tokens=\"a\"").is_err());
        assert!(set("group_size=0").is_err());
        assert!(set("nonsense").is_err());
    }

    #[test]
    fn openmp_is_permitted_where_more_than_one_core_is_timed() {
        let example = include_str!("../../../examples/dgemm.toml");
        let pool = |set: &str| {
            parse(example, "examples/dgemm.toml", &[set.to_owned()])
                .expect("usable")
                .sqd
                .techniques
        };
        assert!(!pool("threads=1").contains(Technique::Openmp));
        assert!(pool("threads=2").contains(Technique::Openmp));
    }

    /// Every cause of an error, one after the other.
    fn words(result: Result<Settings>) -> String {
        let error = result.expect_err("not usable");
        assert!(
            error.chain().any(|e| e.is::<crate::exit::Usage>()),
            "{error:#}"
        );
        format!("{error:#}")
    }

    #[test]
    fn what_a_run_would_stumble_over_later_is_refused_with_its_name() {
        for (text, parts) in [
            ("[sqd]\nelites_per_cell = 0\n", ["[sqd]", "elites_per_cell"]),
            (
                "[sqd.advance]\nrule = \"fixed_steps\"\nsteps = [1]\n",
                ["[sqd]", "advance.steps"],
            ),
            ("[sqd]\nreplay_share = 1.5\n", ["[sqd]", "replay_share"]),
            (
                "machine_class = \"a b\"\n",
                ["machine_class", "`a b` is not usable"],
            ),
            (
                "[generator]\nevaluation_top_p = 0.0\n",
                ["evaluation_top_p", "above 0"],
            ),
            (
                "[advantage]\nsharing = -1.0\n",
                ["advantage.sharing", "0 or more"],
            ),
        ] {
            let error = words(parse(text, "x.toml", &[]));
            for part in parts {
                assert!(error.contains(part), "{part} for {text}: {error}");
            }
        }
    }

    #[test]
    fn training_is_refused_what_only_a_search_may_have() {
        let trained = |text: &str| -> Result<Settings> {
            let settings = parse(text, "x.toml", &[])?;
            check_training(&settings)?;
            Ok(settings)
        };
        trained("[generator]\nevaluation_top_p = 0.9\n").expect("evaluations may be cut");
        for (text, parts) in [
            (
                "[generator]\nkind = \"schedule\"\n",
                ["generator.kind", "flopsmith search"],
            ),
            (
                "[generator]\ntop_p = 0.9\n",
                ["`generator.top_p` is 0.9", "generator.evaluation_top_p"],
            ),
            (
                "[generator]\ntop_k = 5\n",
                ["`generator.top_k` is 5", "generator.evaluation_top_p"],
            ),
        ] {
            parse(text, "x.toml", &[]).expect("a search may have it");
            let error = words(trained(text));
            for part in parts {
                assert!(error.contains(part), "{part} for {text}: {error}");
            }
        }
    }

    #[cfg(feature = "torch")]
    #[test]
    fn the_learners_table_is_checked_before_anything_is_started() {
        for (text, parts) in [
            (
                "[learner]\nlearning_rat = 1.0\n",
                ["[learner]", "did you mean `learning_rate`"],
            ),
            (
                "[learner]\nlearning_rate = -1.0\n",
                ["[learner]", "`learning_rate` is -1"],
            ),
            ("[learner]\nloss = \"gpro\"\n", ["[learner]", "grpo"]),
        ] {
            let settings = parse(text, "x.toml", &[]).expect("the table is the learner's own");
            let error = words(check_training(&settings).map(|()| settings.clone()));
            for part in parts {
                assert!(error.contains(part), "{part} for {text}: {error}");
            }
        }
    }
}
