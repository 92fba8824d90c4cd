//! Reads a configuration: defaults → file → flags, checked once, with errors that name the line.

use std::path::Path;

use flopsmith_protocol::{Technique, text};
use flopsmith_reward::{AdvantageKind, Scale};

use crate::check::check;
use crate::endpoint::without_keys;
use crate::misfit::{at_its_line, explain, misfit};
use crate::settings::Settings;

/// An error that the user can correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub(crate) fn usage(text: impl Into<String>) -> Usage {
    Usage(text.into())
}

type Result<T, E = Usage> = std::result::Result<T, E>;

/// Reads a configuration and applies `--set` overrides.
pub fn load(path: &Path, overrides: &[String]) -> Result<Settings> {
    parse(&text_of(path)?, &path.display().to_string(), overrides)
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

/// Reads any TOML file into its type; an error names its line.
pub fn read<T: serde::de::DeserializeOwned>(text: &str, name: &str) -> Result<T> {
    toml::from_str(text).map_err(|e| usage(explain(&e, text, name)))
}

/// Reads a configuration from text.
pub fn parse(text: &str, name: &str, overrides: &[String]) -> Result<Settings> {
    // First as it stands, so that a mistake is shown with its line.
    let explained = |e: toml::de::Error| usage(without_keys(&explain(&e, text, name)));
    let _: Settings = toml::from_str(text).map_err(explained)?;
    let plain: toml::Table = text.parse().map_err(explained)?;
    let mut table = plain.clone();
    for item in overrides {
        apply(&mut table, item)?;
    }
    let mut settings =
        fit(&table).map_err(|e| usage(misfit(&plain, overrides, e.message().trim())))?;
    follow_loss(&mut settings, &table);
    permit(&mut settings);
    let named = table.get("problem").and_then(toml::Value::as_str);
    one_or_many(&mut settings, named)
        .map_err(|e| usage(at_its_line(&e.0, text, name, overrides).unwrap_or(e.0)))?;
    check(&settings).map_err(|e| {
        // The line of an endpoint's `key` may hold the key itself.
        let located = match e.0.contains("`key`") {
            true => None,
            false => at_its_line(&e.0, text, name, overrides),
        };
        usage(located.unwrap_or_else(|| format!("{name} is not usable: {e}")))
    })?;
    Ok(settings)
}

pub(crate) fn fit(table: &toml::Table) -> Result<Settings, toml::de::Error> {
    toml::Value::Table(table.clone()).try_into()
}

/// Sets `advantage.scale` to the one that belongs to the loss or to the kind of advantages, unless the table sets it. A
/// leave-one-out baseline needs no divisor.
fn follow_loss(settings: &mut Settings, table: &toml::Table) {
    let advantage = table.get("advantage");
    if advantage.is_some_and(|advantage| advantage.get("scale").is_some()) {
        return;
    }
    let of_kind = match settings.advantage.kind {
        AdvantageKind::LeaveOneOut => Some(Scale::None),
        AdvantageKind::MeanStd | AdvantageKind::MeasurementAware => None,
    };
    if let Some(scale) = settings.learner.loss.usual_scale().or(of_kind) {
        settings.advantage.scale = scale;
    }
}

/// Keeps one of `problem`, `problems` and `suite`. `named` is the problem that the configuration names itself; the default
/// is none. A list of one problem is that problem.
fn one_or_many(settings: &mut Settings, named: Option<&str>) -> Result<()> {
    let named = named.filter(|name| !name.is_empty());
    let list = (!settings.problems.is_empty()).then_some("problems");
    let suite = (!settings.suite.is_empty()).then_some("suite");
    let given = [named.map(|_| "problem"), list, suite];
    let given: Vec<&str> = given.into_iter().flatten().collect();
    if let [one, other, ..] = given.as_slice() {
        return Err(usage(format!(
            "`{other}` is set beside `{one}`: name one problem, several, or a suite, and leave out the others"
        )));
    }
    if list.or(suite).is_some() {
        settings.problem.clear();
    }
    // An empty name is an error of the list.
    if settings.problems.len() == 1 && !settings.problems[0].is_empty() {
        settings.problem = settings.problems.remove(0);
    }
    Ok(())
}

/// Removes OpenMP from the pool if kernels are timed on one core. OpenMP gains nothing there and would only widen the
/// search. So one pool in the configuration serves all thread counts.
fn permit(settings: &mut Settings) {
    if settings.threads == 1 {
        let pool = settings.sqd.techniques;
        settings.sqd.techniques = pool.without(Technique::Openmp);
    }
}

pub(crate) fn apply(table: &mut toml::Table, item: &str) -> Result<()> {
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

#[cfg(test)]
mod tests;
