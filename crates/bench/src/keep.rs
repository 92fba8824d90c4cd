//! Keeps the compiled object of each program, its disassembly, and how it was built, for the user.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_evaluate::{BuildQuestion, Evaluator};
use flopsmith_sandbox::{Job, Kind, Limits, Sandbox};

use flopsmith_run::console::say;
use flopsmith_run::output;

use crate::inputs::Program;

/// The object's path in the jail.
const INSIDE: &str = "/kernel.so";
/// Longest disassembly, bytes; a disassembly is about ten times as long as its object.
const LONGEST: usize = 256 << 20;

/// A folder for shared objects, their disassemblies and explanations.
pub struct Keep {
    folder: PathBuf,
    disassembler: Option<PathBuf>,
    /// Base names of the files, by the stem of the program.
    names: BTreeMap<String, String>,
}

impl Keep {
    /// Makes the folder if it is missing, and tells the user if there is no disassembler. Existing files stay: a
    /// program of the same name gets a number, which it keeps as long as this command measures.
    pub fn new<'a>(folder: &Path, stems: impl Iterator<Item = &'a str>) -> Result<Self> {
        output::folder(folder)?;
        let names = names(stems, |name| {
            // A dangling link counts as an existing file.
            let taken = |file: String| folder.join(file).symlink_metadata().is_ok();
            let mut endings = ["so", "s", "txt"].iter();
            endings.any(|ending| taken(format!("{name}.{ending}")))
        });
        for (stem, name) in names.iter().filter(|(stem, name)| stem != name) {
            say(&format!(
                "{} already has files called {stem}: the new files are called {name}",
                folder.display()
            ));
        }
        let disassembler = find();
        if disassembler.is_none() {
            say(
                "there is no objdump in /usr/bin or /bin (Debian, Ubuntu: `apt install binutils`): --keep writes shared objects without their disassembly",
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            disassembler,
            names,
        })
    }

    /// Writes the object of a program as `.so`, its disassembly as `.s`, and as `.txt` the compiler's remarks, the hot loop and its
    /// analysis, in place of the files that this command wrote for the program before.
    pub fn save(&self, program: &Program, object: &[u8], evaluator: &Evaluator) -> Result<()> {
        let stem = &program.stem;
        let name = self.names.get(stem).unwrap_or(stem);
        let path = self.folder.join(format!("{name}.so"));
        write(&path, object)?;
        if let Some(disassembler) = &self.disassembler {
            let text = disassemble(disassembler, &path, &evaluator.sandbox)
                .with_context(|| format!("cannot disassemble {}", path.display()))?;
            write(&self.folder.join(format!("{name}.s")), &text)?;
        }
        let text = explained(program, evaluator);
        write(&self.folder.join(format!("{name}.txt")), text.as_bytes())
    }
}

/// How a program was built. A question without an answer has the reason in its place.
fn explained(program: &Program, evaluator: &Evaluator) -> String {
    let problem = &evaluator.problem;
    let language = program.language.unwrap_or(problem.language);
    let compiler = &evaluator.compiler;
    let answers = BuildQuestion::ALL.map(|question| {
        let answer = compiler.explain(question, language, problem, &program.source);
        answer.unwrap_or_else(|failure| failure.to_string())
    });
    answers.join("\n\n") + "\n"
}

/// A name for each stem that is neither `taken` nor the name of another stem: the stem itself if possible, else the
/// stem with a number.
fn names<'a>(
    stems: impl Iterator<Item = &'a str>,
    taken: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let stems: BTreeSet<&str> = stems.collect();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for &stem in &stems {
        let mut name = stem.to_owned();
        let mut number = 1;
        // Two stems may lead to one name: `a-2` is a stem, and also `a` with a number.
        while taken(&name)
            || (name != stem && stems.contains(name.as_str()))
            || names.values().any(|other| *other == name)
        {
            number += 1;
            name = format!("{stem}-{number}");
        }
        names.insert(stem.to_owned(), name);
    }
    names
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// A disassembler at a path that the compiler's jail shows.
fn find() -> Option<PathBuf> {
    ["/usr/bin/objdump", "/bin/objdump"]
        .map(PathBuf::from)
        .into_iter()
        .find(|p| p.is_file())
}

/// Disassembles an object in the compiler's jail: a malicious object may attack the disassembler.
fn disassemble(disassembler: &Path, object: &Path, sandbox: &Sandbox) -> Result<Vec<u8>> {
    let program = [
        disassembler.as_os_str(),
        OsStr::new("-d"),
        OsStr::new(INSIDE),
    ];
    let mut job = Job::new(Kind::Compile, program);
    job.read_only
        .push((object.canonicalize()?, PathBuf::from(INSIDE)));
    job.env = vec![("LC_ALL".into(), "C".into())];
    job.limits = Limits {
        wall: Duration::from_secs(60),
        cpu: Duration::from_secs(20),
        output_bytes: LONGEST,
        ..Limits::default()
    };
    let ended = sandbox.run(&job)?;
    anyhow::ensure!(
        ended.exit.success(),
        "{} ended with {:?}: {}",
        disassembler.display(),
        ended.exit,
        String::from_utf8_lossy(&ended.stderr).trim()
    );
    Ok(ended.stdout)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_wrong_usage() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let none = std::iter::empty;
        let error = Keep::new(&file.join("below"), none()).err().unwrap();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        let folder = place.path().join("made/of/several");
        Keep::new(&folder, none()).unwrap();
        assert!(folder.is_dir());
    }

    #[test]
    fn existing_files_keep_their_names_and_new_ones_get_a_number() {
        let place = tempfile::tempdir().unwrap();
        for file in ["a.so", "b.s", "b-2.so"] {
            std::fs::write(place.path().join(file), "older").unwrap();
        }
        let keep = Keep::new(place.path(), ["a", "a-2", "b", "c"].into_iter()).unwrap();
        let name = |stem: &str| keep.names[stem].as_str();
        // `a-2` is the name of another program.
        assert_eq!(["a", "a-2", "b", "c"].map(name), ["a-3", "a-2", "b-3", "c"]);
    }

    #[test]
    fn no_two_programs_share_a_name() {
        let taken = |name: &str| matches!(name, "a" | "a-2");
        let names = names(["a", "a-2", "a-2-2"].into_iter(), taken);
        let all: Vec<&str> = names.values().map(String::as_str).collect();
        assert_eq!(all, ["a-3", "a-2-3", "a-2-2"]);
    }
}
