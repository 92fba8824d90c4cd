//! Chooses the cases to try, if all of them take too long for every run.
//!
//! The commit decides: each commit tries other cases, and the same commit the same ones, on any day and any machine.

use std::iter::{Skip, StepBy};
use std::process::Command;

/// The variable that names a sample instead of the commit: a whole number, `all`, or `N/M`, every `M`th case from
/// number `N`, counted from 0.
pub const SAMPLE: &str = "FLOPSMITH_SAMPLE";

/// One case in a number of cases, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    first: usize,
    one_in: usize,
}

impl Part {
    /// One case in `parts`: the commit's choice, or that of [`SAMPLE`].
    pub fn of_commit(parts: usize) -> Self {
        let (part, why) = match std::env::var(SAMPLE) {
            Ok(named) => (Self::named(&named, parts), format!("{SAMPLE}={named}")),
            Err(_) => match commit() {
                Some(hash) => {
                    let number = number(&hash);
                    let named = number.to_string();
                    (
                        Self::named(&named, parts),
                        format!("commit {hash}; {SAMPLE}={named} repeats it"),
                    )
                }
                None => (Self::named("0", parts), "no commit is known".to_owned()),
            },
        };
        if part.is_all() {
            eprintln!("all cases ({why})");
        } else {
            let Self { first, one_in } = part;
            eprintln!("sample {first} of {one_in} ({why})");
        }
        part
    }

    pub(crate) fn named(named: &str, parts: usize) -> Self {
        if named == "all" {
            return Self {
                first: 0,
                one_in: 1,
            };
        }
        let whole = |text: &str| -> u64 {
            let number = text.parse();
            number.expect("FLOPSMITH_SAMPLE is a whole number, `all`, or two numbers as in 3/8")
        };
        if let Some((first, one_in)) = named.split_once('/') {
            let (first, one_in) = (whole(first), whole(one_in));
            assert!(
                first < one_in,
                "FLOPSMITH_SAMPLE={named}: there is no such part"
            );
            return Self {
                first: first as usize,
                one_in: one_in as usize,
            };
        }
        let number = whole(named);
        Self {
            first: (number % parts as u64) as usize,
            one_in: parts,
        }
    }

    /// True if all cases are tried.
    pub fn is_all(self) -> bool {
        self.one_in == 1
    }

    /// The same share, `places` places later: for lists with similar beginnings.
    #[must_use]
    pub fn shifted(self, places: usize) -> Self {
        Self {
            first: (self.first + places) % self.one_in,
            ..self
        }
    }

    /// The cases to try.
    pub fn of<I: IntoIterator>(self, cases: I) -> StepBy<Skip<I::IntoIter>> {
        cases.into_iter().skip(self.first).step_by(self.one_in)
    }
}

/// The hash of the commit that is checked out, if this is a checkout.
fn commit() -> Option<String> {
    let asked = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let hash = String::from_utf8(asked.stdout).ok()?;
    let hash = hash.trim();
    let is_hash = hash.len() >= 40 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    (asked.status.success() && is_hash).then(|| hash.to_owned())
}

/// The number that a hash begins with.
fn number(hash: &str) -> u64 {
    u64::from_str_radix(&hash[..8], 16).expect("hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_list_are_the_list() {
        let mut found: Vec<usize> = (0..4)
            .flat_map(|number| Part::named(&number.to_string(), 4).of(0..11))
            .collect();
        assert_eq!(Part::named("1", 4).of(0..11).collect::<Vec<_>>(), [1, 5, 9]);
        found.sort_unstable();
        assert_eq!(found, (0..11).collect::<Vec<_>>());
        let all = Part::named("all", 4);
        assert!(all.is_all() && all.of(0..11).eq(0..11));
        assert_eq!(all.shifted(3), all);
        assert_eq!(Part::named("7", 4), Part::named("3", 4));
        let eighths = (0..8).flat_map(|first| Part::named(&format!("{first}/8"), 4).of(0..30));
        let mut found: Vec<usize> = eighths.collect();
        found.sort_unstable();
        assert_eq!(found, (0..30).collect::<Vec<_>>());
        assert_eq!(Part::named("3", 4).shifted(2), Part::named("1", 4));
    }

    #[test]
    fn the_hash_of_the_commit_chooses() {
        let hash = "0000000a00000000000000000000000000000000";
        assert_eq!(number(hash), 10);
        let of = |hash: &str| Part::named(&number(hash).to_string(), 4);
        assert_eq!(of(hash), Part::named("2", 4));
        let chosen = ["1", "2", "3", "4"].map(|digit| of(&hash.replace('a', digit)).first);
        assert_eq!(chosen, [1, 2, 3, 0]);
        let in_a_repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../.git")
            .exists();
        assert_eq!(commit().is_some(), in_a_repository);
    }
}
