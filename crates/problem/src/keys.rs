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
            let near = meant(key, known.iter().copied())
                .map(|near| format!("; did you mean {near}?"))
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

/// Names that a message suggests at most: more of them are no help.
const MOST: usize = 3;

/// The names that `wrong` may have been meant to be, each once, by the alphabet: those near enough whose distance relative
/// to the longer of the two names is least. Two neighbours that have changed places are one edit.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let length = wrong.chars().count();
    let near: Vec<(usize, usize, &'a str)> = names
        .map(|name| {
            let longer = length.max(name.chars().count());
            (strsim::osa_distance(wrong, name), longer, name)
        })
        .filter(|(edits, ..)| *edits <= 1 + length / 3)
        .collect();
    // Products in place of quotients, so that equal ones are equal.
    let relative = near.iter().map(|(edits, longer, _)| (*edits, *longer));
    let Some((edits, longer)) = relative.min_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1))) else {
        return Vec::new();
    };
    let least = near.iter().filter(|of| of.0 * longer == edits * of.1);
    let mut names: Vec<&'a str> = least.map(|(.., name)| *name).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MOST);
    names
}

/// The names that `wrong` may have been meant to be, for a question: "`fission` or `fusion`". None if no name is near enough.
pub fn meant<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<String> = nearest(wrong, names)
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    either(&names)
}

/// Names as alternatives: "a, b or c". None if there are no names.
pub fn either(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [only] => Some(only.clone()),
        [others @ .., last] => Some(format!("{} or {last}", others.join(", "))),
    }
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
    fn names_that_are_equally_near_are_all_suggested() {
        let techniques = || ["fusion", "skewing", "fission", "simd"].into_iter();
        assert_eq!(nearest("fussion", techniques()), ["fission", "fusion"]);
        let both = meant("fussion", techniques());
        assert_eq!(both.as_deref(), Some("`fission` or `fusion`"));
        assert_eq!(nearest("fuson", techniques()), ["fusion"]);
        // Roots of problems share names, and a folder may have many that are alike.
        let alike = ["b.c", "a.c", "b.c", "e.c", "d.c"];
        assert_eq!(nearest("x.c", alike.into_iter()), ["a.c", "b.c", "d.c"]);
        let three = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(either(&three).as_deref(), Some("a, b or c"));
        assert_eq!(either(&[]), None);
    }

    #[test]
    fn the_least_distance_is_relative_to_the_length_and_limited() {
        // Two edits of eight letters are fewer than two of six.
        let lengths = ["abcdxy", "abcdefgh"];
        assert_eq!(nearest("abcdef", lengths.into_iter()), ["abcdefgh"]);
        // Letters that have changed places are one edit, and two replaced letters are two.
        let losses = ["grpo", "ppo", "gspo"];
        assert_eq!(nearest("gpro", losses.into_iter()), ["grpo"]);
        let far = ["n=256", "first"];
        assert!(nearest("everything", far.into_iter()).is_empty());
        assert_eq!(meant("everything", far.into_iter()), None);
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
