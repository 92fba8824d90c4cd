//! The reference of a configuration: every setting with its meaning and default, as a valid configuration.
//!
//! Descriptions, types and defaults come from the types that read a configuration, so none can be missing or outdated.

use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use crate::read::{Usage, usage};
use crate::settings::Settings;

type Result<T, E = Usage> = std::result::Result<T, E>;

/// Greatest width of a line, characters.
const WIDTH: usize = 100;

/// The schema and the defaults of a configuration.
pub struct Reference {
    /// The JSON Schema of a configuration; its definitions are under `$defs`.
    schema: Value,
    /// Every setting with its default; optional settings without a default are null.
    defaults: Value,
}

impl Default for Reference {
    fn default() -> Self {
        let mut generator = SchemaGenerator::default();
        let schema = generator.root_schema_for::<Settings>().to_value();
        let defaults = serde_json::to_value(Settings::default());
        let mut defaults = defaults.expect("settings have names and plain values");
        if let Some(known) = defaults.as_object_mut() {
            known.retain(|_, v| !v.is_object() || v.as_object().is_some_and(|o| !o.is_empty()));
        }
        Self { schema, defaults }
    }
}

impl Reference {
    /// The schema of a key, its default, and the parts of the key.
    fn find<'a>(&'a self, key: &'a str) -> Result<(&'a Value, &'a Value, Vec<&'a str>)> {
        let (mut schema, mut value) = (&self.schema, &self.defaults);
        let mut path = Vec::new();
        for name in key.split('.').filter(|n| !n.is_empty()) {
            let properties = self.properties(schema);
            let Some(inner) = properties.and_then(|p| p.get(name)) else {
                return Err(self.unknown(&path, name, schema));
            };
            schema = inner;
            value = value.get(name).unwrap_or(&Value::Null);
            path.push(name);
        }
        Ok((schema, value, path))
    }

    /// The JSON Schema of a setting or table, with the definitions that it refers to; of the configuration for an empty
    /// key.
    ///
    /// # Errors
    /// If there is no such setting.
    pub fn schema_of(&self, key: &str) -> Result<Value> {
        let mut schema = self.find(key)?.0.clone();
        if let (Some(object), Some(known)) = (schema.as_object_mut(), self.schema.get("$defs")) {
            object.insert("$defs".into(), known.clone());
        }
        Ok(schema)
    }

    /// The lines of a configuration with comments: one setting or table, or all for an empty key.
    ///
    /// # Errors
    /// If there is no such setting.
    pub fn explain(&self, key: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        let (schema, value, mut path) = self.find(key)?;
        if self.is_table(schema, value) {
            if !path.is_empty() {
                lines.extend(self.words(schema));
                lines.push(format!("[{}]", path.join(".")));
            }
            self.table(&path.join("."), schema, value, &mut lines);
        } else if let Some(name) = path.pop() {
            if !path.is_empty() {
                lines.push(format!("[{}]", path.join(".")));
            }
            self.setting(name, schema, value, &mut lines);
        }
        Ok(lines)
    }

    fn unknown(&self, path: &[&str], name: &str, schema: &Value) -> Usage {
        let whole = [path, &[name]].concat().join(".");
        let known: Vec<&str> = self
            .properties(schema)
            .map(|p| p.keys().map(String::as_str).collect())
            .unwrap_or_default();
        usage(if known.is_empty() {
            format!(
                "there is no setting `{whole}`: `{}` contains no settings",
                path.join(".")
            )
        } else {
            let place = if path.is_empty() {
                "a configuration".to_owned()
            } else {
                format!("`{}`", path.join("."))
            };
            format!(
                "there is no setting `{whole}`: {place} has {}",
                known.join(", ")
            )
        })
    }

    /// Writes a table. Single settings come first, as TOML requires.
    fn table(&self, path: &str, schema: &Value, value: &Value, lines: &mut Vec<String>) {
        let Some(properties) = self.properties(schema) else {
            return;
        };
        let of = |name: &str| value.get(name).unwrap_or(&Value::Null);
        let (tables, settings): (Vec<_>, Vec<_>) = properties
            .iter()
            .partition(|(name, inner)| self.is_table(inner, of(name)));
        for (name, inner) in settings {
            self.setting(name, inner, of(name), lines);
        }
        for (name, inner) in tables {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            lines.push(String::new());
            lines.extend(self.words(inner));
            lines.push(format!("[{path}]"));
            self.table(&path, inner, of(name), lines);
        }
    }

    fn setting(&self, name: &str, schema: &Value, value: &Value, lines: &mut Vec<String>) {
        if lines.last().is_some_and(|last| !last.starts_with('[')) {
            lines.push(String::new());
        }
        lines.extend(self.words(schema));
        if let Some(text) = literal(value) {
            lines.push(format!("{name} = {text}"));
            return;
        }
        // An unset table has settings as well, which are listed as comments.
        for (key, inner) in self.properties(schema).into_iter().flatten() {
            let said = self.words(inner).join(" ").replace("# ", "");
            lines.extend(comment(&format!("{key}: {said}"), "#   ", "#     "));
        }
        lines.push(format!("# {name} is not set"));
    }

    /// True for a table whose keys are all known.
    fn is_table(&self, schema: &Value, value: &Value) -> bool {
        value.is_object() && self.properties(schema).is_some()
    }

    fn properties<'a>(&'a self, schema: &'a Value) -> Option<&'a Map<String, Value>> {
        self.resolve(schema).get("properties")?.as_object()
    }

    /// Follows references. An optional schema is replaced by the schema of its value.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema.get("$ref").and_then(Value::as_str);
        let named = name.and_then(|n| self.schema.pointer(n.trim_start_matches('#')));
        if let Some(inner) = named {
            return self.resolve(inner);
        }
        let present = schema.get("anyOf").and_then(Value::as_array);
        let present = present.and_then(|all| {
            all.iter()
                .find(|s| s.get("type").and_then(Value::as_str) != Some("null"))
        });
        present.map_or(schema, |inner| self.resolve(inner))
    }

    /// The description of a setting and of each of its possible values, as comments.
    fn words(&self, schema: &Value) -> Vec<String> {
        let inner = self.resolve(schema);
        let of = |schema: &Value| schema.get("description").and_then(Value::as_str).map(plain);
        let mut lines = Vec::new();
        if let Some(text) = of(schema).or_else(|| of(inner)) {
            lines.extend(comment(&text, "# ", "# "));
        }
        let mut kinds = inner
            .get("oneOf")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        // Values without a description are listed together.
        for kind in inner
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            kinds.push(serde_json::json!({ "const": kind }));
        }
        for kind in &kinds {
            let (name, settings) = self.kind(kind);
            let mut text = name;
            if let Some(said) = of(kind) {
                text = format!("{text}: {said}");
            }
            lines.extend(comment(&text, "#   ", "#     "));
            for (setting, said) in settings {
                lines.extend(comment(&format!("{setting}: {said}"), "#     ", "#       "));
            }
        }
        lines
    }

    /// The name of a variant, and the variant's own settings with their descriptions.
    fn kind(&self, schema: &Value) -> (String, Vec<(String, String)>) {
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let names: Vec<String> = values.iter().filter_map(literal).collect();
            return (names.join(", "), Vec::new());
        }
        if let Some(name) = schema.get("const").and_then(literal) {
            return (name, Vec::new());
        }
        let own = schema.get("properties").and_then(Value::as_object);
        // A variant with a named settings type refers to that type.
        let shared = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|n| self.schema.pointer(n.trim_start_matches('#')))
            .and_then(|s| s.get("properties"))
            .and_then(Value::as_object);
        let mut name = String::new();
        let mut settings = Vec::new();
        for (key, inner) in own.into_iter().chain(shared).flatten() {
            if let Some(tag) = inner.get("const").and_then(literal) {
                name = format!("{key} = {tag}");
            } else {
                let said = inner.get("description").and_then(Value::as_str);
                settings.push((key.clone(), said.map(plain).unwrap_or_default()));
            }
        }
        (name, settings)
    }
}

/// A description without the markup of intra-doc links.
fn plain(text: &str) -> String {
    text.replace("[`", "`")
        .replace("`]", "`")
        .replace("crate::", "")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Breaks text into lines of at most `WIDTH` characters.
fn comment(text: &str, first: &str, others: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// A value in TOML's syntax; `None` for null.
fn literal(value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let value = without_null(value.clone());
    toml::Value::try_from(&value).ok().map(|v| v.to_string())
}

/// Removes nulls from a value, as TOML has no null.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k, without_null(v)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(without_null).collect()),
        other => other,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn text(key: &str) -> String {
        Reference::default().explain(key).unwrap().join("\n")
    }

    #[test]
    fn the_printed_reference_is_a_configuration_with_every_default() {
        let settings: Settings = toml::from_str(&text("")).unwrap();
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn every_setting_has_words() {
        let book = Reference::default();
        let mut bare = Vec::new();
        let mut look = vec![(String::new(), &book.schema, &book.defaults)];
        let mut seen = 0;
        while let Some((path, schema, value)) = look.pop() {
            for (name, inner) in book.properties(schema).into_iter().flatten() {
                let path = format!("{path}.{name}");
                let value = value.get(name).unwrap_or(&Value::Null);
                if book.words(inner).is_empty() {
                    bare.push(path.clone());
                }
                seen += 1;
                if book.properties(inner).is_some() {
                    look.push((path, inner, value));
                }
            }
        }
        assert!(bare.is_empty(), "{bare:?}");
        assert!(seen > 40, "{seen}");
    }

    #[test]
    fn one_setting_or_table_may_be_asked_for() {
        let one = text("sqd.replay_share");
        assert!(
            one.contains("# Share of tasks that come from earlier stages."),
            "{one}"
        );
        assert!(
            one.contains("[sqd]\n") && one.contains("replay_share = "),
            "{one}"
        );
        assert!(!one.contains("guidance"), "{one}");
        let table = text("evaluate");
        assert!(
            table.contains("[evaluate]\n") && table.contains("finalists = 4"),
            "{table}"
        );
        let advance = text("sqd.advance");
        for words in [
            "rule = \"fixed_steps\"",
            "Share of correct ones that suffices",
        ] {
            assert!(advance.contains(words), "{advance}");
        }
        let kinds = text("advantage.kind");
        assert!(kinds.contains("\"leave_one_out\""), "{kinds}");
        let absent = text("sqd.demote");
        assert!(
            absent.contains("at_most: How often a run may go back"),
            "{absent}"
        );
        let book = Reference::default();
        let schema = book.schema_of("sqd.replay_share").unwrap();
        assert_eq!(schema["type"], "number", "{schema}");
        assert!(book.schema_of("sqd.nothing").is_err());
        let error = book.explain("sqd.replay").unwrap_err();
        assert!(error.to_string().contains("replay_share"), "{error}");
    }

    #[test]
    fn the_reference_has_every_setting_as_it_is_printed() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/configuration.toml"
        );
        let printed = text("") + "\n";
        if std::env::var_os("FLOPSMITH_BLESS").is_some() {
            std::fs::write(page, &printed).unwrap();
        }
        let kept = std::fs::read_to_string(page).unwrap_or_default();
        assert!(
            kept == printed,
            "{page} is not as `flopsmith config explain` prints it: FLOPSMITH_BLESS=1 cargo test -p flopsmith-config reference"
        );
    }

    #[test]
    fn lines_are_not_too_long() {
        for line in text("").lines() {
            let comment = line.starts_with('#');
            assert!(!comment || line.chars().count() <= WIDTH, "{line}");
        }
    }
}
