//! Errors of a configuration in plain words, with the line and the nearest known key.

use crate::endpoint::speaks_of_keys;
use crate::read::{apply, fit};

/// A TOML error with its line, the line's text, and the nearest known key if a key was misspelt.
pub(crate) fn explain(error: &toml::de::Error, text: &str, name: &str) -> String {
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
        words.push_str(&format!("\n  did you mean {near}?"));
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

/// The message of an error of a value, with the line of the file that contains the value. None if the file does not
/// have the setting with which the message begins, or if the setting was overridden.
pub fn at_its_line(message: &str, text: &str, name: &str, overrides: &[String]) -> Option<String> {
    let key = key_of(message)?;
    let overridden = overrides.iter().any(|item| {
        let set = item.split_once('=').map_or(item.as_str(), |(set, _)| set);
        let rest = key.strip_prefix(set);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    if overridden {
        return None;
    }
    let place = place_of(text, &key)?;
    Some(with_line(message, place, text, name))
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

/// From serde's "unknown field `x`, expected one of `a`, `b`": the expected names nearest to `x`, as alternatives.
pub(crate) fn suggestion(message: &str) -> Option<String> {
    if !message.contains("unknown") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next()?;
    flopsmith_problem::meant(wrong, names)
}

/// The message for overrides that do not fit: the key of the wrong override, and the type that this key takes.
pub(crate) fn misfit(plain: &toml::Table, overrides: &[String], message: &str) -> String {
    // Some overrides fit only together, so each is tried alone only after all of them failed.
    let alone = |item: &str| {
        let mut table = plain.clone();
        apply(&mut table, item).is_ok() && fit(&table).is_err_and(|e| e.message().trim() == message)
    };
    let Some(item) = overrides.iter().find(|item| alone(item)) else {
        return format!("--set does not fit: {message}");
    };
    let key = item.split_once('=').map_or(item.as_str(), |(key, _)| key);
    // People write keys of servers under many names.
    let hidden = format!("{key}=…");
    let item = if speaks_of_keys(key) { &hidden } else { item };
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
        words.push_str(&format!("\n  did you mean {near}?"));
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
