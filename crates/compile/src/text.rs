//! Checks of a program's own text in the compile stage.

use std::sync::{Arc, PoisonError};

use flopsmith_inspect::detect::{self, Detected};
use flopsmith_inspect::scan::{self, Preprocessed, Raw, UserText};
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateFault, Failure};

use super::folder::{Folder, OUTPUT, PRELUDE, source_name};
use super::{Compiler, Unit, diagnose, flags};

/// The result of the first check of a source.
pub(super) enum Scanned {
    /// The source's lines with its directives, for the preprocessor.
    Raw(Raw),
    /// The finished result for Fortran, which is not preprocessed here.
    Fortran(Detected),
}

/// The first check of a source, which starts no process.
pub(super) fn first_look(unit: &Unit) -> Result<Scanned, Failure> {
    if unit.language.is_fortran() {
        let looked = scan::check_fortran(&unit.source, unit.problem, unit.language)?;
        let found = detect::in_fortran(&looked, unit.problem)?;
        return Ok(Scanned::Fortran(found));
    }
    let raw = scan::check_raw(&unit.source, unit.problem, unit.language)?;
    Ok(Scanned::Raw(raw))
}

impl Compiler {
    /// Checks the program's own text and detects its techniques. `folder` is the folder for the preprocessor; if none,
    /// a new one is made when needed.
    pub(super) fn techniques_of(
        &self,
        unit: &Unit,
        scanned: Scanned,
        folder: Option<&Folder>,
    ) -> Result<Detected, Failure> {
        let raw = match scanned {
            Scanned::Fortran(found) => return Ok(found),
            Scanned::Raw(raw) => raw,
        };
        let simple = match unit.language {
            Language::C => scan::preprocess_simple(&raw.lines, &self.toolchain.macros),
            _ => None,
        };
        let user = match (simple, folder) {
            (Some(user), _) => user,
            (None, Some(folder)) => self.preprocess(unit, &raw, folder)?,
            (None, None) => self.preprocess(unit, &raw, &self.folder(unit)?)?,
        };
        scan::check_length(&user, unit.problem)?;
        let user = match unit.language {
            Language::Cxx => user.without_separators(),
            _ => user,
        };
        let (user, pragmas) = scan::split_pragmas(&user)?;
        let user = user.with_braces(unit.language);
        scan::check_constructs(&user, &unit.problem.entry.name, unit.language)?;
        if unit.language == Language::Cxx {
            scan::check_library(&user, unit.problem)?;
        }
        detect::detect(&user, &pragmas, unit.problem, unit.language)
    }

    fn preprocess(&self, unit: &Unit, raw: &Raw, folder: &Folder) -> Result<UserText, Failure> {
        let found = self.preprocessed(unit, folder)?;
        scan::check_included(&found, unit.problem, unit.language)?;
        if raw.defines_before_include {
            self.check_headers(unit, raw, &found)?;
        }
        Ok(found.user)
    }

    /// Runs the real preprocessor; its output stays in the folder.
    pub(super) fn preprocessed(
        &self,
        unit: &Unit,
        folder: &Folder,
    ) -> Result<Preprocessed, Failure> {
        let source = source_name(unit.language);
        let mut arguments = vec!["-E".to_owned()];
        arguments.extend(flags(unit));
        arguments.extend(["-include", PRELUDE, "-o", OUTPUT, source].map(str::to_owned));
        let ended = self.run(&unit.driver, folder, &arguments)?;
        diagnose::preprocessed(&ended, unit.language, &self.allowed(folder))?;
        let output = folder.read(OUTPUT)?;
        Ok(scan::split_preprocessed(
            &String::from_utf8_lossy(&output),
            source,
            PRELUDE,
        ))
    }

    /// Refuses a program whose macros change a header's text, because that text is not scanned.
    fn check_headers(&self, unit: &Unit, raw: &Raw, found: &Preprocessed) -> Result<(), Failure> {
        let mut prefix = Vec::new();
        for line in &raw.lines {
            if let Some(define) = line.directive().filter(|d| d.starts_with("define"))
                && define.contains("_SOURCE")
            {
                prefix.push(format!("#{define}"));
            }
        }
        // C++ headers include the next header of the same name, and that choice depends on how the first header was
        // found. They are therefore included by name.
        let include = |path: &String| match (unit.language, path.rsplit('/').next()) {
            (Language::Cxx, Some(name)) => format!("#include <{name}>"),
            _ => format!("#include \"{path}\""),
        };
        let wanted: Vec<String> = prefix
            .into_iter()
            .chain(found.included.iter().map(include))
            .collect();
        let key = (unit.language, wanted);
        let known = self
            .headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        let plain = match known {
            Some(plain) => plain,
            None => {
                let scratch = self.sandbox.scratch();
                let alone = Folder::with(&scratch, unit.language, &key.1.join("\n"), "")?;
                let plain: Arc<str> = self.preprocessed(unit, &alone)?.headers.into();
                let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
                headers.insert(key, Arc::clone(&plain));
                plain
            }
        };
        if *plain == *found.headers {
            return Ok(());
        }
        Err(Failure::candidate(
            CandidateFault::ForbiddenConstruct,
            "a macro that is defined before an `#include` changes the header's text; put the `#include` first",
        ))
    }
}
