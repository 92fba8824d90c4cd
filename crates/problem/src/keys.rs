//! The keys of a definition, and what a misspelt name was meant to be.

/// Every key that may stand in a definition; array tables are followed through.
const KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "title",
            "suite",
            "language",
            "entry",
            "timed",
            "verify",
            "compile",
            "cost",
            "bound",
            "techniques",
            "special",
            "easy_inputs",
            "template",
            "threads",
            "deterministic",
            "max_source_bytes",
            "prompt",
        ],
    ),
    ("entry", &["name", "prototype", "args"]),
    (
        "entry.args",
        &[
            "name", "int", "scalar", "low", "high", "element", "role", "shape", "align", "content",
            "graded",
        ],
    ),
    (
        "entry.args.content",
        &["kind", "low", "high", "by", "total"],
    ),
    ("verify", &["visible", "hidden", "distributions"]),
    (
        "verify.hidden",
        &["param", "multiple_of", "power_of_two", "min", "max"],
    ),
    (
        "compile",
        &["includes", "flags", "cxx_flags", "fortran_flags", "forbid"],
    ),
    ("cost", &["work", "bytes"]),
    ("bound", &["kind", "c", "operations"]),
];

/// Line (0 where it is not found) and wording of every unknown key of a definition.
pub(crate) fn unknown(text: &str, definition: &toml::Table) -> Vec<(usize, String)> {
    let mut mistakes = Vec::new();
    walk(text, "", definition, &mut mistakes);
    mistakes
}

fn walk(text: &str, place: &str, table: &toml::Table, mistakes: &mut Vec<(usize, String)>) {
    let Some((_, known)) = KEYS.iter().find(|(p, _)| *p == place) else {
        return;
    };
    for (key, value) in table {
        if !known.contains(&key.as_str()) {
            let near = nearest(key, known.iter().copied())
                .map(|n| format!("; did you mean `{n}`?"))
                .unwrap_or_default();
            let within = if place.is_empty() {
                String::new()
            } else {
                format!(" in [{place}]")
            };
            mistakes.push((
                find_key(text, key),
                format!("unknown key `{key}`{within}{near}"),
            ));
            continue;
        }
        let inner = if place.is_empty() {
            key.clone()
        } else {
            format!("{place}.{key}")
        };
        match value {
            toml::Value::Table(table) => walk(text, &inner, table, mistakes),
            toml::Value::Array(items) => {
                for item in items.iter().filter_map(toml::Value::as_table) {
                    walk(text, &inner, item, mistakes);
                }
            }
            _ => {}
        }
    }
}

/// The first line on which `key` is used as a key.
fn find_key(text: &str, key: &str) -> usize {
    let used = |line: &str| {
        line.match_indices(key).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + key.len()..].trim_start().chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                && matches!(after, Some('=' | ']' | '.'))
        })
    };
    text.lines().position(used).map_or(0, |i| i + 1)
}

/// The name nearest to `wrong`, when it is near enough to be meant.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|n| (strsim::levenshtein(wrong, n), n)).min()?;
    (near.0 <= 1 + wrong.len() / 3).then_some(near.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference of the definition, by its headings: the text beneath each one.
    fn sections() -> Vec<(String, String)> {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/problem-file.md"
        );
        let page = std::fs::read_to_string(page).expect("the reference is there");
        let mut sections = vec![(String::new(), String::new())];
        for line in page.lines() {
            match line.strip_prefix('#') {
                Some(heading) => {
                    let heading = heading.trim_matches(['#', ' ', '`']);
                    sections.push((heading.to_owned(), String::new()));
                }
                None => {
                    if let Some((_, text)) = sections.last_mut() {
                        text.push_str(line);
                        text.push('\n');
                    }
                }
            }
        }
        sections
    }

    #[test]
    fn the_reference_has_every_key_in_the_section_of_its_table() {
        let sections = sections();
        for (place, keys) in KEYS {
            let heading = match *place {
                "" => "Keys".to_owned(),
                place => format!("[{place}]"),
            };
            let text = sections
                .iter()
                .find(|(found, _)| *found == heading)
                .map(|(_, text)| text)
                .unwrap_or_else(|| unreachable!("the reference has no section `{heading}`"));
            for key in *keys {
                assert!(
                    text.contains(&format!("| `{key}` |")),
                    "{heading} does not tell of `{key}`"
                );
            }
        }
    }
}
