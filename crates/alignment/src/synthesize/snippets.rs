//! Pieces of code that inspire the model, so that its tasks differ.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_problem::Language;
use flopsmith_protocol::{Digest, text};
use flopsmith_run::console::usage;
use flopsmith_run::paths;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Most lines of a snippet (Nichols et al., 2024).
const MOST_LINES: usize = 15;
/// Longest line, bytes: longer ones are data or generated.
const LONGEST_LINE: usize = 200;
/// Largest file of a folder, bytes.
const LARGEST_FILE: u64 = 1 << 20;
/// Most bytes of the files of a folder: they are kept in memory.
const MOST_BYTES: u64 = 64 << 20;

/// The lines that snippets are drawn from, by file, without blank ones.
#[derive(Debug)]
pub(super) struct Snippets(Vec<Vec<String>>);

impl Snippets {
    /// Reads a file, or the sources in C, C++ and Fortran in a folder and the folders below it; without a place, the
    /// references of the known problems.
    ///
    /// # Errors
    /// Wrong usage: the place cannot be read, or holds no line of code or too much.
    pub(super) fn read(place: Option<&Path>) -> Result<Self> {
        let (name, texts) = match place {
            None => ("the folders of problems".to_owned(), references()?),
            Some(place) => {
                let name = place.display().to_string();
                let texts = texts(place).map_err(|e| usage(format!("cannot read {name}: {e}")))?;
                (name, texts)
            }
        };
        let files = texts.iter().map(|text| usable(text));
        let files: Vec<Vec<String>> = files.filter(|lines| !lines.is_empty()).collect();
        if files.is_empty() {
            return Err(usage(format!(
                "there is no line of code in {name}; name with --snippets a file, or a folder with sources in C, C++ or Fortran"
            )));
        }
        Ok(Self(files))
    }

    /// A digest of all lines.
    pub(super) fn digest(&self) -> Digest {
        let files: Vec<String> = self.0.iter().map(|lines| lines.join("\n")).collect();
        Digest::of(files.join("\0").as_bytes())
    }

    /// Some lines in a row of one file. The same seed and stream give the same lines.
    pub(super) fn draw(&self, seed: u64, stream: u64) -> String {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let lines = &self.0[random.random_range(0..self.0.len())];
        let count = random.random_range(1..=lines.len().min(MOST_LINES));
        let first = random.random_range(0..=lines.len() - count);
        lines[first..first + count].join("\n")
    }
}

/// The lines of a text that may stand in a fenced block of a prompt.
fn usable(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim_end);
    let is_usable =
        |line: &&str| !line.is_empty() && line.len() <= LONGEST_LINE && !line.contains("```");
    lines.filter(is_usable).map(str::to_owned).collect()
}

fn references() -> Result<Vec<String>> {
    let definitions = paths::problems()?
        .into_iter()
        .filter_map(|found| found.definition.ok());
    Ok(definitions
        .map(|problem| problem.reference_source)
        .collect())
}

fn texts(place: &Path) -> io::Result<Vec<String>> {
    if !place.is_dir() {
        return Ok(vec![std::fs::read(place).and_then(text::decode)?]);
    }
    let mut texts = Vec::new();
    for file in sources(place)? {
        // Sources of old projects are in other encodings; the others are enough.
        texts.extend(text::decode(std::fs::read(file)?).ok());
    }
    Ok(texts)
}

/// The sources below a folder, by path. Links are not followed: they may lead in circles.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && Language::of_file(&path).is_some() {
                let length = entry.metadata()?.len();
                if length <= LARGEST_FILE {
                    bytes += length;
                    found.push(path);
                }
            }
        }
        if bytes > MOST_BYTES {
            return Err(io::Error::other(format!(
                "its sources have more than {} MiB; name a smaller folder",
                MOST_BYTES >> 20
            )));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn snippets_are_a_few_lines_in_a_row_and_follow_from_the_seed() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.c");
        let lines: Vec<String> = (0..40).map(|n| format!("x{n:02};")).collect();
        std::fs::write(&file, lines.join("\n\n")).unwrap();
        let snippets = Snippets::read(Some(&file)).unwrap();
        let whole = lines.join("\n");
        let mut counts = BTreeSet::new();
        for stream in 0..200 {
            let snippet = snippets.draw(7, stream);
            assert_eq!(snippet, snippets.draw(7, stream));
            assert!(whole.contains(&snippet), "{snippet}");
            counts.insert(snippet.lines().count());
        }
        assert_eq!(counts, (1..=MOST_LINES).collect::<BTreeSet<_>>());
        assert_ne!(snippets.draw(7, 1), snippets.draw(8, 1));
    }

    #[test]
    fn a_folder_gives_its_sources_and_a_place_without_any_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(place.path().join("notes.txt"), "no source").unwrap();
        std::fs::write(inner.join("blank.c"), " \n").unwrap();
        let said = |place: &Path| Snippets::read(Some(place)).unwrap_err().to_string();
        assert!(said(place.path()).contains("no line of code"));
        std::fs::write(inner.join("latin1.c"), b"// \xe9\n").unwrap();
        std::fs::write(inner.join("b.f90"), "call b\n```\n").unwrap();
        std::fs::write(place.path().join("a.c"), format!("a;\n{}", "x".repeat(300))).unwrap();
        std::os::unix::fs::symlink(place.path(), inner.join("circle")).unwrap();
        let snippets = Snippets::read(Some(place.path())).unwrap();
        assert_eq!(snippets.0, [["a;"], ["call b"]]);
        assert!(said(&place.path().join("none")).contains("cannot read"));
    }

    #[test]
    fn without_a_place_the_references_of_the_problems_inspire() {
        assert!(Snippets::read(None).unwrap().0.len() > 20);
    }
}
