//! File names by pattern, for shells that do not expand them: `*`, `?`, `[a-z]`, `[!a-z]`, and `**` for any number of
//! folders.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

/// True if a text contains a pattern.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The files that match a pattern, sorted. As in shells, a name that begins with a dot only matches a pattern that
/// begins with a dot.
pub fn files(pattern: &str) -> Vec<PathBuf> {
    let start = if pattern.starts_with('/') { "/" } else { "" };
    let steps: Vec<&str> = pattern.split('/').filter(|s| !s.is_empty()).collect();
    let mut found = Vec::new();
    walk(Path::new(start), &steps, &mut found);
    found.sort();
    found.dedup();
    found
}

fn walk(at: &Path, steps: &[&str], found: &mut Vec<PathBuf>) {
    match steps {
        [] if at.is_file() => found.push(at.to_owned()),
        [] => {}
        // Two in a row match the same as one, but would search each folder many times.
        ["**", "**", ..] => walk(at, &steps[1..], found),
        // At the end, `**` matches all files below, at any depth.
        ["**"] => walk(at, &["**", "*"], found),
        ["**", rest @ ..] => {
            walk(at, rest, found);
            for (name, entry) in entries(at) {
                // Links to folders are not followed: they may lead back to a parent folder.
                if !name.starts_with('.') && entry.file_type().is_ok_and(|t| t.is_dir()) {
                    walk(&at.join(entry.file_name()), steps, found);
                }
            }
        }
        [step, rest @ ..] if is_pattern(step) => {
            let parts = parts(step);
            for (name, entry) in entries(at) {
                let hidden = name.starts_with('.') && !step.starts_with('.');
                let name: Vec<char> = name.chars().collect();
                if !hidden && fits(&parts, &name) {
                    walk(&at.join(entry.file_name()), rest, found);
                }
            }
        }
        [step, rest @ ..] => walk(&at.join(step), rest, found),
    }
}

/// The entries of a folder; none if the folder cannot be read.
fn entries(folder: &Path) -> Vec<(String, DirEntry)> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry))
        .collect()
}

/// One part of a name's pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// This letter.
    Letter(char),
    /// Any letter.
    Any,
    /// Any letters, or none.
    Many,
    /// A letter of one of these ranges, or of none of them.
    Among {
        ranges: Vec<(char, char)>,
        not: bool,
    },
}

impl Part {
    fn takes(&self, letter: char) -> bool {
        match self {
            Part::Letter(wanted) => *wanted == letter,
            Part::Any | Part::Many => true,
            Part::Among { ranges, not } => {
                let within = ranges
                    .iter()
                    .any(|&(first, last)| (first..=last).contains(&letter));
                within != *not
            }
        }
    }
}

fn parts(pattern: &str) -> Vec<Part> {
    let letters: Vec<char> = pattern.chars().collect();
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        parts.push(match letter {
            '*' => Part::Many,
            '?' => Part::Any,
            '[' => match among(&letters[at..]) {
                Some((part, length)) => {
                    at += length;
                    part
                }
                // A bracket that is not closed stands for itself.
                None => Part::Letter('['),
            },
            other => Part::Letter(other),
        });
    }
    parts
}

/// Reads the part after an opening bracket. Also returns the number of letters read, including the closing bracket.
fn among(letters: &[char]) -> Option<(Part, usize)> {
    let not = matches!(letters.first(), Some('!' | '^'));
    let begin = usize::from(not);
    // A closing bracket in the first place is one of the set's letters.
    let length = letters.iter().skip(begin + 1).position(|&l| l == ']')?;
    let end = begin + 1 + length;
    let mut ranges = Vec::new();
    let mut rest = &letters[begin..end];
    while let [first, more @ ..] = rest {
        rest = match more {
            ['-', last, beyond @ ..] => {
                ranges.push((*first, *last));
                beyond
            }
            _ => {
                ranges.push((*first, *first));
                more
            }
        };
    }
    Some((Part::Among { ranges, not }, end + 1))
}

/// True if a name matches. After a mismatch the last `*` takes one letter more; earlier ones never have to be tried
/// again.
fn fits(parts: &[Part], name: &[char]) -> bool {
    let (mut part, mut letter) = (0, 0);
    let mut again = None;
    while letter < name.len() {
        match parts.get(part) {
            Some(Part::Many) => {
                part += 1;
                again = Some((part, letter));
            }
            Some(one) if one.takes(name[letter]) => {
                part += 1;
                letter += 1;
            }
            _ => match again {
                Some((behind, taken)) => {
                    part = behind;
                    letter = taken + 1;
                    again = Some((behind, letter));
                }
                None => return false,
            },
        }
    }
    parts[part..].iter().all(|p| *p == Part::Many)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        fits(&parts(pattern), &name)
    }

    #[test]
    fn names_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.c", "a.c", true),
            ("*.c", "a.h", false),
            ("*.c", ".c", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("k[0-9]*", "k7-fast", true),
            ("k[0-9]*", "kx", false),
            ("k[!0-9]", "kx", true),
            ("k[^0-9]", "k3", false),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
            ("a[b", "a[b", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("ä?", "äö", true),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_found_in_all_folders_that_are_meant() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        for name in [
            "b.c", "a.c", "a.h", "x/c.c", "x/y/d.c", ".git/e.c", "x/.f.c",
        ] {
            make(name);
        }
        std::os::unix::fs::symlink(place.path(), place.path().join("x/back")).unwrap();
        let found = |pattern: &str| -> Vec<String> {
            let pattern = format!("{}/{pattern}", place.path().display());
            files(&pattern)
                .iter()
                .map(|f| f.strip_prefix(place.path()).unwrap().display().to_string())
                .collect()
        };
        assert_eq!(found("*.c"), ["a.c", "b.c"]);
        assert_eq!(found("a.?"), ["a.c", "a.h"]);
        assert_eq!(found("**/*.c"), ["a.c", "b.c", "x/c.c", "x/y/d.c"]);
        assert_eq!(found("x/**"), ["x/c.c", "x/y/d.c"]);
        assert_eq!(found("**/**/d.c"), ["x/y/d.c"]);
        assert_eq!(found("*/[b-c].c"), ["x/c.c"]);
        assert_eq!(found("x/.*.c"), ["x/.f.c"]);
        assert!(found("*.rs").is_empty() && found("no/*/such").is_empty());
    }

    /// The definition of a match, without regard to running time.
    fn slowly(parts: &[Part], name: &[char]) -> bool {
        match (parts.split_first(), name.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((Part::Many, behind)), rest) => {
                slowly(behind, name) || rest.is_some_and(|(_, less)| slowly(parts, less))
            }
            (Some(_), None) => false,
            (Some((part, behind)), Some((letter, less))) => {
                part.takes(*letter) && slowly(behind, less)
            }
        }
    }

    proptest! {
        #[test]
        fn a_name_fits_whenever_it_can(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let letters: Vec<char> = name.chars().collect();
            let parts = parts(&pattern);
            prop_assert_eq!(fits(&parts, &letters), slowly(&parts, &letters));
        }

        #[test]
        fn any_text_is_a_pattern_and_a_plain_one_means_itself(text in "[ -~]{0,12}") {
            let parts = parts(&text);
            let letters: Vec<char> = text.chars().collect();
            prop_assert!(is_pattern(&text) || fits(&parts, &letters));
        }
    }
}
