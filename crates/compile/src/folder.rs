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
        Language::Python => "kernel.py",
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

/// The types of `stdint.h` that a prototype may name, with the names that compilers have for them.
const TYPES: [(&str, &str); 8] = [
    ("int8_t", "__INT8_TYPE__"),
    ("int16_t", "__INT16_TYPE__"),
    ("int32_t", "__INT32_TYPE__"),
    ("int64_t", "__INT64_TYPE__"),
    ("uint8_t", "__UINT8_TYPE__"),
    ("uint16_t", "__UINT16_TYPE__"),
    ("uint32_t", "__UINT32_TYPE__"),
    ("uint64_t", "__UINT64_TYPE__"),
];

/// The entry's declaration, so that a program with a conflicting definition does not build. In C++ the declaration also
/// gives the entry C linkage: a definition with the same parameters then needs no `extern "C"`.
///
/// No header is included: a program's own `#include` would then find it included already, and the check of headers
/// would see another text. Both languages permit the same `typedef` twice.
fn prelude(language: Language, problem: &Problem) -> String {
    let prototype = &problem.entry.prototype;
    let words: Vec<&str> = tokens(prototype).into_iter().map(|t| t.text).collect();
    let types: String = TYPES
        .iter()
        .filter(|(name, _)| words.contains(name))
        .map(|(name, own)| format!("typedef {own} {name};\n"))
        .collect();
    match language {
        Language::Cxx => {
            // A C prototype may contain the word `restrict`, which C++ does not have.
            let words = words.into_iter().map(|word| match word {
                "restrict" => "__restrict__",
                word => word,
            });
            let words: Vec<&str> = words.collect();
            format!("{types}extern \"C\" {{\n{}\n}}\n", words.join(" "))
        }
        _ => format!("{types}{prototype}\n"),
    }
}

fn resources(what: &str, error: &std::io::Error) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Resources,
        format!("could not {what}: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    fn problem(prototype: &str) -> Problem {
        let mut problem = Problem::load(&shipped::at("dgemm")).expect("it is shipped");
        problem.entry.prototype = prototype.to_owned();
        problem
    }

    #[test]
    fn a_prelude_names_the_types_of_its_prototype() {
        let plain = problem("void f(int n, const double *restrict x);");
        assert_eq!(
            prelude(Language::C, &plain),
            format!("{}\n", plain.entry.prototype)
        );
        let wide = problem("void f(int n, const int64_t *x, uint8_t *y);");
        let types = "typedef __INT64_TYPE__ int64_t;\ntypedef __UINT8_TYPE__ uint8_t;\n";
        assert_eq!(
            prelude(Language::C, &wide),
            format!("{types}{}\n", wide.entry.prototype)
        );
        let cxx = prelude(Language::Cxx, &wide);
        assert!(
            cxx.starts_with(&format!("{types}extern \"C\" {{\n")),
            "{cxx}"
        );
        assert!(prelude(Language::Cxx, &plain).contains("__restrict__"));
    }
}
