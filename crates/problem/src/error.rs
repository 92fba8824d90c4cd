//! Why there is no problem, in words that say what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use flopsmith_protocol::ProblemId;

/// Why there is no problem.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The definition has mistakes.
    #[error("{}", Mistakes(path, mistakes))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line (from 1; 0 where there is none) and what is wrong.
        mistakes: Vec<(usize, String)>,
    },
    /// A workload that the problem does not have.
    #[error("{problem} has no workload `{name}`{}; it has {}", near.as_ref().map(|n| format!(" (did you mean {n}?)")).unwrap_or_default(), listed(known))]
    NoWorkload {
        /// The problem.
        problem: ProblemId,
        /// The name that was given.
        name: String,
        /// The nearest names that it has, as alternatives.
        near: Option<String>,
        /// All names that it has.
        known: Vec<String>,
    },
    /// A selection that names a workload twice.
    #[error("the workload `{name}` is named twice, by its name or as `first`: name each once")]
    WorkloadTwice {
        /// The name.
        name: String,
    },
    /// A folder that holds no problem, or none at all.
    #[error("{}", no_folder(path))]
    NoFolder {
        /// The path that was named.
        path: PathBuf,
    },
    /// A name that no folder of problems has.
    #[error("there is no problem `{name}`{}; looked in {}; `flopsmith problem list` shows all", near.as_ref().map(|n| format!(" (did you mean {n}?)")).unwrap_or_default(), places.join(", "))]
    NotFound {
        /// The name.
        name: String,
        /// The nearest names that exist, as alternatives.
        near: Option<String>,
        /// Where it was looked for.
        places: Vec<String>,
    },
}

/// Names for a sentence.
fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Says what lies at the path instead of a problem, and what may have been meant.
fn no_folder(path: &Path) -> String {
    let shown = path.display();
    let holds = |folder: &Path| folder.join("problem.toml").is_file();
    if path.is_file() {
        let of = path.parent().filter(|folder| holds(folder));
        let meant = of.map_or_else(
            || "name the folder that contains its problem.toml".into(),
            |folder| format!("did you mean the problem {}?", folder.display()),
        );
        return format!("{shown} is a file, and a problem is a folder: {meant}");
    }
    let beneath = || std::fs::read_dir(path).into_iter().flatten().flatten();
    if !path.is_dir() {
        return format!(
            "there is no folder {shown}; run `flopsmith problem new {shown}` to begin a definition there"
        );
    }
    let lacks = format!("the folder {shown} holds no problem.toml");
    let mut problems: Vec<String> = beneath()
        .filter(|entry| holds(&entry.path()))
        .map(|entry| entry.path().display().to_string())
        .collect();
    problems.sort();
    if let Some(first) = problems.first() {
        return format!("{lacks}, but folders in it do: name one of them, e.g. {first}");
    }
    if beneath().next().is_none() {
        return format!("{lacks}; run `flopsmith problem new {shown}` to begin a definition there");
    }
    let new = path.join("my_kernel");
    format!(
        "{lacks}; write one, or run `flopsmith problem new {}` to begin a definition",
        new.display()
    )
}

struct Mistakes<'a>(&'a Path, &'a [(usize, String)]);

impl fmt::Display for Mistakes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.len() == 1 {
            "a mistake"
        } else {
            "mistakes"
        };
        write!(f, "{} has {plural}:", self.0.display())?;
        for (line, text) in self.1 {
            match line {
                0 => write!(f, "\n  {text}")?,
                line => write!(f, "\n  line {line}: {text}")?,
            }
        }
        Ok(())
    }
}
