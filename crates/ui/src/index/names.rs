//! The names that records refer to by number: problems, reasons of verdicts, and nodes.

use std::collections::HashMap;
use std::path::Path;

use flopsmith_actors::journal::replace;
use serde::{Deserialize, Serialize};

/// The number of all names that a list has no room for.
pub const OTHER: u16 = u16::MAX;

/// Longest name that is kept, bytes.
const LONGEST: usize = 200;

/// A list of names, each with its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    names: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl List {
    /// The number of a name; a new name gets the next one.
    pub fn note(&mut self, name: &str) -> u16 {
        let name = &name[..name.floor_char_boundary(LONGEST)];
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let next = u16::try_from(self.names.len()).unwrap_or(OTHER);
        if next < OTHER {
            self.names.push(name.to_owned());
            self.numbers.insert(name.to_owned(), next);
        }
        next
    }

    /// The number of a known name.
    pub fn number(&self, name: &str) -> Option<u16> {
        self.numbers.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, number: u16) -> &str {
        let name = self.names.get(usize::from(number));
        name.map_or("other", String::as_str)
    }

    /// The names in the order of their numbers.
    pub fn all(&self) -> &[String] {
        &self.names
    }

    fn of(names: Vec<String>) -> Option<Self> {
        let mut list = Self::default();
        for name in &names {
            list.note(name);
        }
        (list.names == names).then_some(list)
    }
}

/// The names of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Problems.
    pub problems: List,
    /// Reasons of verdicts.
    pub reasons: List,
    /// Nodes.
    pub nodes: List,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    problems: Vec<String>,
    reasons: Vec<String>,
    nodes: Vec<String>,
}

impl Names {
    /// The number of names. It grows, and no name changes.
    pub fn count(&self) -> usize {
        [&self.problems, &self.reasons, &self.nodes]
            .map(|list| list.names.len())
            .iter()
            .sum()
    }

    /// The names in a file; none if there is no such file.
    pub fn load(path: &Path) -> Option<Self> {
        let saved: Saved = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        Some(Self {
            problems: List::of(saved.problems)?,
            reasons: List::of(saved.reasons)?,
            nodes: List::of(saved.nodes)?,
        })
    }

    /// Replaces the file.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let saved = Saved {
            problems: self.problems.names.clone(),
            reasons: self.reasons.names.clone(),
            nodes: self.nodes.names.clone(),
        };
        replace(path, serde_json::to_vec(&saved)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers_in_a_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("names");
        assert_eq!(Names::load(&path), None);
        let mut names = Names::default();
        for name in ["b", "a", "b"] {
            names.problems.note(name);
        }
        names.reasons.note("measured");
        names.nodes.note("n");
        names.save(&path).unwrap();
        let mut loaded = Names::load(&path).unwrap();
        assert_eq!(loaded, names);
        assert_eq!(loaded.problems.number("a"), Some(1));
        assert_eq!(loaded.problems.note("c"), 2);
        std::fs::write(&path, r#"{"problems":["a","a"],"reasons":[],"nodes":[]}"#).unwrap();
        assert_eq!(Names::load(&path), None);
    }

    #[test]
    fn a_full_list_calls_the_rest_other() {
        let mut list = List::default();
        for number in 0..70_000 {
            list.note(&number.to_string());
        }
        assert_eq!(list.note("69999"), OTHER);
        assert_eq!(list.name(OTHER), "other");
        assert_eq!(list.name(65_534), "65534");
    }
}
