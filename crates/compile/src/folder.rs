//! The files of one compilation.

use std::fs;
use std::path::Path;

use flopsmith_inspect::scan::token::tokens;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::LARGEST_OBJECT;

/// File names inside the jail.
pub(super) const FOLDER: &str = "/source";
pub(super) const PRELUDE: &str = "entry.h";
pub(super) const EXPORTS: &str = "exports.map";
pub(super) const OBJECT: &str = "kernel.so";
pub(super) const OUTPUT: &str = "kernel.i";
pub(super) const PADDING: &str = "padding.s";
pub(super) const RUNTIME_OBJECT: &str = "runtime.o";

/// The file name of a source; compilers derive the language from it.
pub fn source_name(language: Language) -> &'static str {
    match language {
        Language::C => "kernel.c",
        Language::Cxx => "kernel.cpp",
        Language::Fortran => "kernel.f90",
        Language::Fortran77 => "kernel.f",
    }
}

/// The folder of the files, on the host. The jail may write to it.
pub(super) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Makes a folder with the source and all files of the problem that the build needs.
    pub fn new(
        scratch: &Path,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Self, Failure> {
        let made = Self::with(scratch, language, source, &prelude(language, problem))?;
        made.write(
            EXPORTS,
            format!("{{ global: {}; local: *; }};\n", problem.entry.name),
        )?;
        Ok(made)
    }

    /// Makes a folder with a source and the text that is included before it.
    pub fn with(
        scratch: &Path,
        language: Language,
        source: &str,
        prelude: &str,
    ) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("compile-")
            .tempdir_in(scratch)
            .map_err(|e| resources("make a folder for the compiler", &e))?;
        let made = Folder { folder };
        made.write(source_name(language), source)?;
        made.write(PRELUDE, prelude)?;
        Ok(made)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<(), Failure> {
        fs::write(self.path().join(name), content)
            .map_err(|e| resources("write the compiler's files", &e))
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let path = self.path().join(name);
        // Symbolic links are refused, because the jailed compiler wrote this folder.
        let plain =
            fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= LARGEST_OBJECT);
        if !plain {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                format!(
                    "the compiler succeeded, but {name} is missing, too large or not a regular file"
                ),
            ));
        }
        fs::read(path).map_err(|e| resources("read the compiler's output", &e))
    }

    pub fn read_object(&self) -> Result<Vec<u8>, Failure> {
        self.read(OBJECT)
    }
}

/// The entry's declaration, so that a program with a conflicting definition does not build. In C++ the declaration also
/// gives the entry C linkage: a definition with the same parameters then needs no `extern "C"`.
fn prelude(language: Language, problem: &Problem) -> String {
    let prototype = &problem.entry.prototype;
    match language {
        Language::Cxx => {
            // A C prototype may contain the word `restrict`, which C++ does not have.
            let words = tokens(prototype).into_iter().map(|token| match token.text {
                "restrict" => "__restrict__",
                word => word,
            });
            let words: Vec<&str> = words.collect();
            format!("extern \"C\" {{\n{}\n}}\n", words.join(" "))
        }
        _ => format!("{prototype}\n"),
    }
}

fn resources(what: &str, error: &std::io::Error) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Resources,
        format!("could not {what}: {error}"),
    )
}
