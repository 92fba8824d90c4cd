//! Finds and reads the programs that a command line names.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use flopsmith_problem::{Language, Problem, either, nearest};
use flopsmith_run::console::{say, usage};
use walkdir::WalkDir;

use crate::pattern;

/// A program that is to be measured.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The file's name for messages.
    pub name: String,
    /// Base name of files that are made from the program; unique among the programs.
    pub stem: String,
    /// The language that the file's name gives; `None` if the name gives none, which stands for the language of the
    /// problem's candidates.
    pub language: Option<Language>,
    /// Its source.
    pub source: String,
    /// Time and size of the file before it was read.
    pub stamp: Option<Stamp>,
}

impl Program {
    /// Reads a program for a problem, whose languages are told by the ends of names, too.
    pub fn read_for(file: &Path, problem: &Problem) -> Result<Self> {
        let ending = file.extension().and_then(|ending| ending.to_str());
        let mut languages = problem.languages().iter().copied();
        let own = languages.find(|l| ending.is_some_and(|ending| l.endings().contains(&ending)));
        match own {
            Some(_) => Self::read_as(file, String::new(), own),
            None => Self::read(file, String::new()),
        }
    }

    /// Reads a file.
    pub fn read(file: &Path, stem: String) -> Result<Self> {
        let language = language(file)?;
        Self::read_as(file, stem, language)
    }

    fn read_as(file: &Path, stem: String, language: Option<Language>) -> Result<Self> {
        let stamp = stamp(file);
        let mut bytes = Vec::new();
        if std::fs::metadata(file).is_ok_and(|m| m.file_type().is_fifo()) {
            say(&format!("reading the pipe {}…", shown(file)));
        }
        // No program is that long, and some files have no end.
        File::open(file)
            .and_then(|open| open.take(LONGEST).read_to_end(&mut bytes))
            .map_err(|e| usage(format!("cannot read {}: {e}{}", shown(file), meant(file))))?;
        Ok(Self {
            file: file.to_owned(),
            name: shown(file),
            stem,
            language,
            source: text(bytes),
            stamp,
        })
    }
}

/// The files of the folder whose names are nearest to that of a missing one, as advice.
fn meant(missing: &Path) -> String {
    let wrong = missing.file_name().and_then(|name| name.to_str());
    let (Some(wrong), false) = (wrong, missing.exists()) else {
        return String::new();
    };
    let folder = missing.parent().filter(|f| !f.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
    let names = entries.into_iter().flatten().flatten();
    let names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let near: Vec<String> = nearest(wrong, names.iter().map(String::as_str))
        .iter()
        .map(|name| shown(&missing.with_file_name(name)))
        .collect();
    let near = either(&near).map(|near| format!("; did you mean {near}?"));
    near.unwrap_or_default()
}

/// The language that a file's name gives; `None` for names without an ending, as of pipes. The ending of no known
/// language is refused: read as the problem's language, such a file would only produce compiler errors.
fn language(file: &Path) -> Result<Option<Language>> {
    let language = Language::of_file(file);
    let Some(ending) = file.extension().filter(|_| language.is_none()) else {
        return Ok(language);
    };
    let hint = if ending == "toml" {
        "a problem is named with --problem (name or folder); give the configuration of a run to `flopsmith train`"
    } else {
        "rename it by its language, or leave the ending out if it is in the problem's language"
    };
    Err(usage(format!(
        "{} does not have the name of a program, which must end with one of {}: {hint}",
        file.display(),
        endings()
    )))
}

/// Modification time and length of a file.
pub type Stamp = (SystemTime, u64);

/// Time and size of a file; `None` if there is no file.
pub fn stamp(file: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}

/// Longest source that is read, bytes; the rest is cut off. It is a hundred times the limit of any problem.
const LONGEST: u64 = 8 << 20;

/// A file's name for messages. Control characters, which could move a terminal's cursor or change its colours, are
/// escaped.
fn shown(file: &Path) -> String {
    let name = file.display().to_string();
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    name.chars().map(plain).collect()
}

/// The byte-order mark with which some editors begin files in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Number of bytes of an invalid text that are passed on.
const LOOKED_AT: usize = 256;

/// Decodes a source. Invalid UTF-8 is the program's fault, and the compile stage reports it: a NUL at the end marks
/// such a text.
///
/// A byte-order mark is removed: it only states that a file is in UTF-8, and some compilers do not accept it.
fn text(mut bytes: Vec<u8>) -> String {
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    String::from_utf8(bytes).unwrap_or_else(|e| {
        // Only the beginning is kept: the replacement characters are longer than the bytes read, and the error must not
        // be about the length.
        let begin = e.as_bytes().get(..LOOKED_AT).unwrap_or(e.as_bytes());
        let mut text = String::from_utf8_lossy(begin).into_owned();
        text.push(char::REPLACEMENT_CHARACTER);
        text.push('\0');
        text
    })
}

/// The programs of a command line.
#[derive(Debug)]
pub struct Inputs {
    /// The programs without duplicates, in the order they were named; those of a folder or a pattern are sorted.
    pub programs: Vec<Program>,
    /// True if the command line named a single file by its name.
    pub plain: bool,
}

/// Finds and reads all programs before anything is measured.
pub fn collect(named: &[PathBuf]) -> Result<Inputs> {
    let mut files = Vec::new();
    let mut plain = named.len() == 1;
    for name in named {
        if name == Path::new("-") {
            return Err(usage(
                "programs are not read from stdin, because the end of a file's name gives the language: give a file (write ./- for a file named `-`)",
            ));
        }
        match expand(name)? {
            None => files.push(name.clone()),
            Some(several) => {
                plain = false;
                files.extend(several);
            }
        }
    }
    let mut seen = BTreeSet::new();
    // A pipe, for example, has no canonical path: its given name is compared.
    files.retain(|f| seen.insert(f.canonicalize().unwrap_or_else(|_| f.clone())));
    let programs = files
        .iter()
        .zip(stems(&files))
        .map(|(file, stem)| Program::read(file, stem))
        .collect::<Result<_>>()?;
    Ok(Inputs { programs, plain })
}

/// The files of a folder or a pattern; `None` for a file.
fn expand(name: &Path) -> Result<Option<Vec<PathBuf>>> {
    if name.is_dir() {
        // `magnitude.c` computes the size of a result's terms, and solves no problem.
        let found = beneath(name, "magnitude.c", |path| {
            Language::of_file(path).is_some()
        })?;
        if found.is_empty() {
            return Err(usage(format!(
                "there is no `.c` file in {} or its subfolders, nor a file in another language: {}",
                name.display(),
                endings()
            )));
        }
        return Ok(Some(found));
    }
    let text = name.to_string_lossy();
    // A file's name may look like a pattern.
    if name.exists() || !pattern::is_pattern(&text) {
        return Ok(None);
    }
    let found = pattern::files(&text)
        .map_err(|e| usage(format!("`{text}` is neither a file nor a pattern: {e}")))?;
    if found.is_empty() {
        return Err(usage(format!("no file matches `{text}`")));
    }
    Ok(Some(found))
}

/// The programs in a folder and its subfolders, without the files of problems that are called `no_program`. Links to folders are not
/// followed: they may lead back to a parent.
pub fn beneath(
    folder: &Path,
    no_program: &str,
    is_program: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry.map_err(|e| usage(format!("cannot read {}: {e}", folder.display())))?;
        let path = entry.path();
        let is_of_problem =
            entry.file_name() == no_program && path.with_file_name("problem.toml").is_file();
        if is_program(path) && path.is_file() && !is_of_problem {
            found.push(entry.into_path());
        }
    }
    Ok(found)
}

/// The endings of program files, for messages.
fn endings() -> String {
    let all = Language::ALL.into_iter().flat_map(Language::endings);
    all.map(|end| format!(".{end}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A base name for the files made from each program: the file's name without its ending, or the whole path if several
/// files share that name.
fn stems(files: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = files.iter().map(|f| short(f)).collect();
    let mut used = BTreeSet::new();
    files
        .iter()
        .zip(&short)
        .map(|(file, own)| {
            let alone = short.iter().filter(|other| *other == own).count() == 1;
            let wanted = if alone { own.clone() } else { long(file) };
            let mut stem = wanted.clone();
            let mut number = 1;
            while !used.insert(stem.clone()) {
                number += 1;
                stem = format!("{wanted}-{number}");
            }
            stem
        })
        .collect()
}

fn short(file: &Path) -> String {
    file.file_stem()
        .map_or_else(|| "program".into(), |s| s.to_string_lossy().into_owned())
}

fn long(file: &Path) -> String {
    let steps: Vec<String> = file
        .with_extension("")
        .components()
        .filter_map(|step| match step {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    steps.join("-")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_folders_and_patterns_are_measured_once_and_in_order() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("more/deep")).unwrap();
        for name in [
            "b.c",
            "a.c",
            "a.txt",
            "more/z.c",
            "more/deep/a.c",
            "more/y.cpp",
            "more/x.f90",
        ] {
            std::fs::write(at(name), name).unwrap();
        }
        let found = |named: &[&str]| {
            let named: Vec<PathBuf> = named.iter().map(|n| at(n)).collect();
            collect(&named).map(|inputs| {
                let sources: Vec<String> =
                    inputs.programs.iter().map(|p| p.source.clone()).collect();
                (sources.join(" "), inputs.plain)
            })
        };
        let all = |text: &str| (text.to_owned(), false);
        assert_eq!(found(&["b.c"]).unwrap(), ("b.c".to_owned(), true));
        assert_eq!(found(&["b.c", "a.c"]).unwrap(), all("b.c a.c"));
        assert_eq!(found(&["b.c", "*.c"]).unwrap(), all("b.c a.c"));
        assert_eq!(found(&["a.c", "more/../a.c"]).unwrap(), all("a.c"));
        assert_eq!(found(&["a.?"]).unwrap(), all("a.c"));
        assert_eq!(
            found(&["."]).unwrap(),
            all("a.c b.c more/deep/a.c more/x.f90 more/y.cpp more/z.c")
        );
        for (missing, says) in [
            ("*.h", "*.h`"),
            ("no.c", "cannot read"),
            ("more/deep/aa.c", "more/deep/a.c?"),
        ] {
            let error = found(&[missing]).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(says), "{error:#}");
        }
        for name in [
            "problem/problem.toml",
            "problem/magnitude.c",
            "problem/baseline.c",
        ] {
            std::fs::create_dir_all(at("problem")).unwrap();
            std::fs::write(at(name), name).unwrap();
        }
        assert_eq!(found(&["problem"]).unwrap(), all("problem/baseline.c"));
        std::fs::create_dir(at("empty")).unwrap();
        let error = found(&["empty"]).unwrap_err().to_string();
        assert!(error.contains("no `.c` file"), "{error}");
    }

    #[test]
    fn the_end_of_a_name_says_what_a_file_is_and_other_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let read = |name: &str| {
            let file = place.path().join(name);
            std::fs::write(&file, "int x;").unwrap();
            Program::read(&file, String::new())
        };
        assert_eq!(read("a.cc").unwrap().language, Some(Language::Cxx));
        // A pipe has no ending.
        assert_eq!(read("a").unwrap().language, None);
        for (name, hint) in [("problem.toml", "--problem"), ("a.txt", "rename it")] {
            let error = read(name).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
            let said = error.to_string();
            assert!(said.contains(".cpp") && said.contains(hint), "{said}");
            assert!(said.contains(name), "{said}");
        }
    }

    #[test]
    fn names_move_no_cursor_and_files_without_an_end_are_cut_off() {
        assert_eq!(shown(Path::new("a b/ü.c")), "a b/ü.c");
        assert_eq!(
            shown(Path::new("odd\n\u{1b}[31mred.c")),
            "odd\\n\\u{1b}[31mred.c"
        );
        let zero = Program::read(Path::new("/dev/zero"), String::new()).unwrap();
        assert_eq!(zero.source.len(), 8 << 20);
    }

    #[test]
    fn files_that_are_no_text_are_left_to_the_compile_stage() {
        assert_eq!(text(b"int x;".to_vec()), "int x;");
        assert_eq!(text(b"\xef\xbb\xbfint x;".to_vec()), "int x;");
        assert!(text(b"\xff\xfei\0n\0t\0".to_vec()).ends_with('\0'));
        assert!(text(vec![b'a', 0xff]).ends_with('\0'));
        // However long the text is, its error is not about its length.
        let long = text(vec![0xff; 1 << 20]);
        assert!(
            long.len() < 1000 && long.ends_with("\u{fffd}\0"),
            "{}",
            long.len()
        );
    }

    #[test]
    fn files_of_one_name_are_told_apart_by_their_folders() {
        let of = |files: &[&str]| stems(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["x/a.c", "y/b.c"]), ["a", "b"]);
        assert_eq!(of(&["x/a.c", "./y/a.c", "b.c"]), ["x-a", "y-a", "b"]);
        assert_eq!(of(&["a.c", "a.txt"]), ["a", "a-2"]);
    }

    proptest! {
        #[test]
        fn no_two_files_share_a_name(files in prop::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,2}[.]c", 0..8)) {
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            let stems = stems(&files);
            prop_assert_eq!(stems.len(), files.len());
            prop_assert!(stems.iter().all(|s| !s.is_empty() && !s.contains('/')));
            prop_assert_eq!(stems.iter().collect::<BTreeSet<_>>().len(), files.len());
        }
    }
}
