//! The files of one compilation.

use std::fs;
use std::path::Path;

use flopsmith_inspect::scan::token::tokens;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::LARGEST_OBJECT;

/// Names inside the jail.
pub(super) const FOLDER: &str = "/source";
pub(super) const PRELUDE: &str = "entry.h";
pub(super) const EXPORTS: &str = "exports.map";
pub(super) const OBJECT: &str = "kernel.so";
pub(super) const OUTPUT: &str = "kernel.i";
pub(super) const PADDING: &str = "padding.s";
pub(super) const RUNTIME_OBJECT: &str = "runtime.o";

/// What a source is called, which tells compilers its language.
pub fn source_name(language: Language) -> &'static str {
    match language {
        Language::C => "kernel.c",
        Language::Cxx => "kernel.cpp",
        Language::Fortran => "kernel.f90",
        Language::Fortran77 => "kernel.f",
    }
}

/// The files, on the host; the jail may write here.
pub(super) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// With everything of the problem's that a program is built with.
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

    /// With a source and what is put before it.
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
        // Not through a link: what is in this folder comes out of the jail.
        let plain =
            fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= LARGEST_OBJECT);
        if !plain {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                format!("the compiler succeeded without writing {name}"),
            ));
        }
        fs::read(path).map_err(|e| resources("read the compiler's output", &e))
    }

    pub fn read_object(&self) -> Result<Vec<u8>, Failure> {
        self.read(OBJECT)
    }
}

/// The entry's declaration, so that a program with another one does not build. In C++ it also says that its name is that of C:
/// a definition with the same parameters then needs no `extern "C"` of its own.
fn prelude(language: Language, problem: &Problem) -> String {
    let prototype = &problem.entry.prototype;
    match language {
        Language::Cxx => {
            // A prototype of C may hold a word that C++ does not have.
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
