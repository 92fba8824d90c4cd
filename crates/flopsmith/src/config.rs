//! Configuration: defaults → file → flags, checked once, with errors that name the line.

use std::path::Path;

use anyhow::{Context, Result};
use flopsmith_actors::Settings;

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
    let settings: Settings = toml::Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| usage(format!("--set does not fit: {}", e.message())))?;
    check(&settings).with_context(|| format!("{name} is not usable"))?;
    Ok(settings)
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
    if !(settings.generator.temperature > 0.0) {
        return Err(usage("`generator.temperature` must be above 0"));
    }
    settings.reward.check().map_err(|e| usage(e.to_string()))?;
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
}
