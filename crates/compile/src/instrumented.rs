//! Builds a program once more, as an executable with a sanitizer and a driver of ours.
//!
//! The input is the preprocessed text of the plain build, so no macro can distinguish the two builds. Of the program's
//! global names, only the entry's is kept, so the program can replace no name of the sanitizer or the driver. Fortran
//! is not preprocessed; there the input is the source itself.
//!
//! The replacement of the run-time libraries of C++ and Fortran (`runtime.c`) is linked here as well, but with weak
//! symbols: the sanitizer's own `operator new`, and the reporters in our companion objects, take precedence.

use std::path::Path;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Failure, InfrastructureCause, harmless};

use super::folder::{FOLDER, Folder, OUTPUT, RUNTIME_OBJECT, source_name};
use super::{Compiler, Unit, succeeded};
use crate::toolchain::mode_of;

/// Built-ins whose value depends on the optimiser's knowledge of a value or an object. A build with checks may know
/// less, so these built-ins could make the program behave differently there.
const KNOWN_TO_THE_OPTIMISER: [&str; 3] = [
    "__builtin_constant_p",
    "__builtin_object_size",
    "__builtin_dynamic_object_size",
];

/// File names inside the jail.
const OBJECT: &str = "kernel.o";
const LOCAL: &str = "local.o";
const WEAK: &str = "weak.o";
const PROGRAM: &str = "program";

/// Most bytes of the reason why a build failed.
const WHY: usize = 300;

/// The parts of a sanitized program besides the candidate.
pub struct Instrumentation<'a> {
    /// Flags that enable the checks, for the compiler of the program's language.
    pub checks: &'a [String],
    /// Flags for linking with the C compiler.
    pub link: &'a [String],
    /// Objects of ours, which are not instrumented ([`Compiler::companion`]).
    pub own: &'a [Companion],
    /// The path of `objcopy`, which makes names in objects local or weak.
    pub objcopy: &'a Path,
}

/// An object of ours that is linked to programs with a sanitizer.
pub struct Companion {
    name: &'static str,
    object: Vec<u8>,
}

/// A program that was built with a sanitizer.
pub struct Instrumented {
    /// The executable.
    pub program: Vec<u8>,
    /// The candidate's own object.
    pub object: Vec<u8>,
    language: Language,
    folder: Folder,
}

/// The result of an instrumented build.
pub enum Made {
    /// The build succeeded, and the program can be run.
    Built(Box<Instrumented>),
    /// The build failed. The failure alone proves nothing against the program, because the program was built without
    /// checks.
    Unbuilt(String),
}

impl Compiler {
    /// Builds `source`, which has passed [`Compiler::compile_as`], with a sanitizer.
    ///
    /// # Errors
    /// An infrastructure failure, or a failure that [`Compiler::compile_as`] would have reported as well.
    pub fn instrument(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        how: &Instrumentation<'_>,
    ) -> Result<Made, Failure> {
        let unit = self.unit(language, problem, source)?;
        let folder = self.folder(&unit)?;
        if !language.is_fortran() {
            let found = self.preprocessed(&unit, &folder)?;
            if let Some(word) = tells_builds_apart(&found.user.text) {
                return Ok(Made::Unbuilt(format!(
                    "`{word}` gives another result in a build with checks, because the compiler knows less in such a build"
                )));
            }
        }
        let driver = &unit.driver;
        // Some intrinsics require constant arguments that the compiler recognises as constant only at a higher
        // optimisation level.
        let mut ended = self.run(driver, &folder, &compile_arguments(&unit, how, &["-O1"]))?;
        if !succeeded(&ended) {
            ended = self.run(driver, &folder, &compile_arguments(&unit, how, &[]))?;
        }
        if !succeeded(&ended) {
            return Ok(unbuilt("compiled", &ended.stderr));
        }
        let keep = format!("--keep-global-symbol={}", problem.entry.name);
        let mut changes = vec![[keep.as_str(), OBJECT, LOCAL]];
        if language != Language::C {
            changes.push(["--weaken", RUNTIME_OBJECT, WEAK]);
        }
        for arguments in changes {
            let arguments = arguments.map(str::to_owned);
            let ended = self.run_tool(how.objcopy, &folder, &arguments)?;
            if !succeeded(&ended) {
                return Ok(unbuilt("prepared for linking", &ended.stderr));
            }
        }
        for Companion { name, object } in how.own {
            folder.write(&format!("{name}.o"), object)?;
        }
        // The C compiler links, because the compilers of other languages would add their libraries.
        let linker = self.toolchain.driver(Language::C)?;
        let ended = self.run(&linker, &folder, &self.link_arguments(&unit, how))?;
        if !succeeded(&ended) {
            return Ok(unbuilt("linked", &ended.stderr));
        }
        Ok(Made::Built(Box::new(Instrumented {
            program: folder.read(PROGRAM)?,
            object: folder.read(OBJECT)?,
            language,
            folder,
        })))
    }

    /// Compiles a C file of ours that is linked to instrumented programs. The object is the same for all programs of a
    /// problem.
    ///
    /// # Errors
    /// Infrastructure failures only.
    pub fn companion(&self, name: &'static str, text: &str) -> Result<Companion, Failure> {
        let driver = self.toolchain.driver(Language::C)?;
        let folder = Folder::with(&self.sandbox.scratch(), Language::C, text, "")?;
        let mut arguments = self.toolchain.flags.clone();
        let more = ["-O1", "-w", "-pthread", "-c", "-o", OBJECT];
        arguments.extend(more.map(str::to_owned));
        arguments.push(source_name(Language::C).to_owned());
        let ended = self.run(&driver, &folder, &arguments)?;
        if !succeeded(&ended) {
            let said = String::from_utf8_lossy(&ended.stderr);
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                format!(
                    "{name}.c of the sanitizers could not be compiled: {}",
                    said.trim()
                ),
            ));
        }
        Ok(Companion {
            name,
            object: folder.read(OBJECT)?,
        })
    }

    fn link_arguments(&self, unit: &Unit, how: &Instrumentation<'_>) -> Vec<String> {
        let mut arguments = self.toolchain.flags.clone();
        arguments.extend(["-pthread", "-o", PROGRAM].map(str::to_owned));
        arguments.extend(how.own.iter().map(|own| format!("{}.o", own.name)));
        arguments.push(LOCAL.to_owned());
        if unit.language != Language::C {
            arguments.push(WEAK.to_owned());
        }
        arguments.extend(how.link.iter().cloned());
        if unit.problem.includes.iter().any(|i| i == "math.h") {
            arguments.push("-lm".into());
        }
        arguments
    }

    /// Maps addresses in the instrumented program to lines of the candidate's source, as far as `addr2line` knows them.
    /// `addr2line` runs in the compiler's jail, because its input was made from an untrusted source.
    pub fn lines(
        &self,
        made: &Instrumented,
        addr2line: &Path,
        addresses: &[u64],
    ) -> Vec<Option<u32>> {
        let nothing = || vec![None; addresses.len()];
        if addresses.is_empty() {
            return nothing();
        }
        // Includes inlined functions: the line of an intrinsic lies in a header, and the caller's line is wanted.
        let mut arguments = ["-a", "-i", "-e", PROGRAM].map(str::to_owned).to_vec();
        arguments.extend(addresses.iter().map(|address| format!("{address:#x}")));
        match self.run_tool(addr2line, &made.folder, &arguments) {
            Ok(ended) if succeeded(&ended) => {
                let mut lines = own_lines(
                    &String::from_utf8_lossy(&ended.stdout),
                    source_name(made.language),
                );
                lines.resize(addresses.len(), None);
                lines
            }
            _ => nothing(),
        }
    }
}

/// The first word of a preprocessed text whose value may differ between a build with checks and one without.
fn tells_builds_apart(text: &str) -> Option<&'static str> {
    KNOWN_TO_THE_OPTIMISER
        .into_iter()
        .find(|word| text.contains(word))
}

fn compile_arguments(unit: &Unit, how: &Instrumentation<'_>, level: &[&str]) -> Vec<String> {
    let mut arguments = unit.driver.flags.clone();
    let mode = mode_of(unit.language).iter();
    arguments.extend(mode.chain(level).map(|flag| (*flag).to_owned()));
    arguments.extend(["-g", "-fno-omit-frame-pointer", "-w", "-pthread"].map(str::to_owned));
    arguments.extend(how.checks.iter().cloned());
    arguments.extend(["-c", "-o", OBJECT].map(str::to_owned));
    let input: &[&str] = match unit.language {
        Language::C => &[OUTPUT],
        // By the file name alone, the compiler would preprocess the text again.
        Language::Cxx => &["-x", "c++-cpp-output", OUTPUT],
        Language::Fortran | Language::Fortran77 | Language::Python => &[source_name(unit.language)],
    };
    arguments.extend(input.iter().map(|word| (*word).to_owned()));
    arguments
}

/// For each address, the innermost place in the program itself, whose file is `file`. In `said`, each address stands
/// before its places.
fn own_lines(said: &str, file: &str) -> Vec<Option<u32>> {
    let mut lines: Vec<Option<u32>> = Vec::new();
    for line in said.lines() {
        if line.starts_with("0x") {
            lines.push(None);
        } else if let Some(last) = lines.last_mut() {
            *last = last.or_else(|| own_line(line, file));
        }
    }
    lines
}

/// The line number in `/source/kernel.c:12 (discriminator 3)`; none for lines of other files.
fn own_line(place: &str, file: &str) -> Option<u32> {
    let place = place.strip_prefix(FOLDER).unwrap_or(place);
    let rest = place
        .trim_start_matches(['/', '.'])
        .strip_prefix(file)?
        .strip_prefix(':')?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|line| *line > 0)
}

fn unbuilt(what: &str, stderr: &[u8]) -> Made {
    let said = String::from_utf8_lossy(stderr);
    let complaint = |line: &&str| {
        ["error", "cannot find", "undefined reference"]
            .iter()
            .any(|word| line.contains(*word))
    };
    let line = said
        .lines()
        .find(complaint)
        .or_else(|| said.lines().next())
        .unwrap_or("the tool printed no message");
    Made::Unbuilt(format!("it could not be {what}: {}", harmless(line, WHY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_tell_builds_apart_are_found_wherever_they_stand() {
        for word in KNOWN_TO_THE_OPTIMISER {
            let text = format!("int f(int n) {{ return {word} (n); }}");
            assert_eq!(tells_builds_apart(&text), Some(word));
        }
        assert_eq!(tells_builds_apart("double x = __builtin_inff();"), None);
    }

    #[test]
    fn only_lines_of_the_program_itself_are_told() {
        for (place, line) in [
            ("/source/kernel.c:12", Some(12)),
            ("/source/./kernel.c:12 (discriminator 3)", Some(12)),
            ("kernel.c:7", Some(7)),
            ("kernel.c:?", None),
            ("kernel.c:0", None),
            ("/source/driver.c:30", None),
            ("/usr/lib/gcc/avxintrin.h:899", None),
            ("??:0", None),
            ("", None),
        ] {
            assert_eq!(own_line(place, "kernel.c"), line, "{place}");
        }
        assert_eq!(own_line("/source/kernel.f90:3", "kernel.f90"), Some(3));
        for file in ["kernel.c", "kernel.f"] {
            assert_eq!(own_line("/source/kernel.cpp:3", file), None);
            assert_eq!(own_line("/source/kernel.f90:3", file), None);
        }
    }

    #[test]
    fn inlined_functions_are_followed_to_the_program() {
        let said = "0x00000000000000e2\n/usr/lib/gcc/avxintrin.h:899\n/source/kernel.c:6\n/source/kernel.c:12\n\
                    0x0000000000000001\n??:0\n";
        assert_eq!(own_lines(said, "kernel.c"), [Some(6), None]);
    }

    #[test]
    fn the_complaint_is_told_and_not_what_stands_around_it() {
        let said = b"kernel.i: In function 'f':\nkernel.c:3: error: x\nmore";
        let Made::Unbuilt(why) = unbuilt("compiled", said) else {
            unreachable!("nothing was built");
        };
        assert_eq!(why, "it could not be compiled: kernel.c:3: error: x");
    }
}
