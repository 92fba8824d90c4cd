//! Compares the tables of `docs/reference/sources.md` with the lists of the checks: neither may have an entry that the
//! other lacks.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../docs/reference/sources.md");

/// An entry of a list, and the reason that its check gives. The reason is empty if the check gives none.
pub type Entry = (String, &'static str);

/// Entries without reasons.
pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Entry> {
    prefixed("", names)
}

/// Entries without reasons, behind the same words.
pub fn prefixed<'a>(before: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<Entry> {
    let names = names.into_iter();
    names.map(|name| (format!("{before}{name}"), "")).collect()
}

/// Entries that are beginnings of names.
pub fn beginnings<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Entry> {
    let names = names.into_iter();
    names.map(|name| (format!("{name}*"), "")).collect()
}

/// Entries with reasons.
pub fn with_reasons(entries: &[(&str, &'static str)]) -> Vec<Entry> {
    let entries = entries.iter();
    entries
        .map(|(name, why)| ((*name).to_owned(), *why))
        .collect()
}

/// The same for beginnings of names.
pub fn beginnings_with_reasons(entries: &[(&str, &'static str)]) -> Vec<Entry> {
    let entries = entries.iter();
    entries
        .map(|(name, why)| (format!("{name}*"), *why))
        .collect()
}

/// Compares lists with the tables below a heading. The first column of a table has the entries, each in backticks, and the
/// second one their reason.
pub fn compare(heading: &str, lists: &[Vec<Entry>]) {
    let found = PAGE.split_once(&format!("\n### {heading}\n"));
    assert!(found.is_some(), "the page has no section `{heading}`");
    let (_, section) = found.unwrap_or_default();
    let section = section.split("\n#").next().unwrap_or_default();
    let mut written: BTreeMap<&str, &str> = BTreeMap::new();
    for row in section.lines().filter_map(|line| line.strip_prefix("| ")) {
        let mut cells = row.split(" | ");
        let (first, second) = (cells.next(), cells.next());
        // Every second part stands between backticks.
        for name in first.unwrap_or_default().split('`').skip(1).step_by(2) {
            let earlier = written.insert(name, second.unwrap_or_default());
            assert!(earlier.is_none(), "{heading}: `{name}` stands there twice");
        }
    }
    let mut lacking = Vec::new();
    let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, why) in lists.iter().flatten() {
        listed.insert(name, why);
        match written.get(name.as_str()) {
            Some(reason) if reason.contains(*why) => {}
            Some(reason) => lacking.push(format!("`{name}` for `{why}`, and not for `{reason}`")),
            None => lacking.push(format!("`{name}`")),
        }
    }
    assert!(
        lacking.is_empty(),
        "the section `{heading}` of docs/reference/sources.md lacks {}",
        lacking.join(", ")
    );
    let unknown = written.keys().filter(|name| !listed.contains_key(*name));
    let unknown: Vec<&str> = unknown.copied().collect();
    assert!(
        unknown.is_empty(),
        "no list of the checks has these entries of the section `{heading}`: {unknown:?}"
    );
    assert!(!listed.is_empty(), "{heading}");
}
