//! The compile stage: from a source to a shared object that may be run.
//!
//! The cheapest checks come first: size and directives, the user's own text, its techniques; then the compiler in its
//! jail; then the contents of the object.
//!
//! A [`Toolchain`] holds the compilers of one family, their versions and flags, and a digest of all that determines a
//! build. [`Compiler::layouts`] builds a program again in other code layouts, for certifications.
//! [`Compiler::instrument`] builds it as an executable with a sanitizer. [`Compiler::explain`] shows how the compiler built it.
//!
//! Programs in C++ and Fortran are linked without the run-time libraries of their languages. These libraries are large,
//! run code when they are loaded, and contain compute kernels. `runtime.c` replaces the small part that programs need:
//! memory, and an abort for operations that must not happen.

mod diagnose;
mod explain;
mod folder;
mod instrumented;
mod text;
pub mod toolchain;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flopsmith_inspect::detect::Detected;
use flopsmith_inspect::{object_audit, scan};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause, Technique, TechniqueSet};
use flopsmith_sandbox::{Exit, Finished, Job, Kind, Limits, Sandbox};

pub use crate::toolchain::Toolchain;
use crate::toolchain::{Driver, MODE, mode_of};
use diagnose::Allowed;
use folder::{EXPORTS, FOLDER, Folder, OBJECT, PADDING, PRELUDE, RUNTIME_OBJECT};

pub use explain::Question;
pub use flopsmith_inspect::object_audit::largest_frame;
pub use flopsmith_inspect::scan::doubtful_kind;
pub use folder::source_name;
pub use instrumented::{Companion, Instrumentation, Instrumented, Made};

/// Limit on processor time of one compiler process.
const CPU: Duration = Duration::from_secs(10);

/// Limit on wall-clock time of one compiler process; it allows for a busy machine.
const WALL: Duration = Duration::from_secs(60);

/// Limit on address space of one compiler process.
const MEMORY_BYTES: u64 = 2 << 30;

/// Size limit of an object that is read, in bytes.
const LARGEST_OBJECT: u64 = 32 << 20;

/// The replacement of the run-time libraries of C++ and Fortran, in C.
const RUNTIME: &str = include_str!("runtime.c");

/// A program that was built and passed the checks.
#[derive(Debug, Clone)]
pub struct Built {
    /// The shared object.
    pub object: Vec<u8>,
    /// Techniques found in source and object.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in the object, in bits, including code that the compiler vectorised itself.
    /// None where the object uses no vector register or this machine's code cannot be read.
    pub vector_bits: Option<u32>,
    /// The compiler's warnings, cut, and a note if some techniques of the program may be undetected.
    pub diagnostics: String,
    /// Duration of the whole stage, in seconds.
    pub seconds: f64,
}

/// The preprocessed texts of sequences of headers, by the language of the preprocessor.
type Headers = BTreeMap<(Language, Vec<String>), Arc<str>>;

/// Compiles candidates in a jail. Several threads may share one.
pub struct Compiler {
    sandbox: Arc<Sandbox>,
    toolchain: Toolchain,
    /// The texts of sequences of headers when no macro is defined before them.
    headers: Mutex<Headers>,
    cpu: Duration,
    wall: Duration,
    /// The object of `runtime.c`; none until a build needs it.
    runtime: Mutex<Option<Arc<[u8]>>>,
}

/// Limits of a compiler process.
fn limits(cpu: Duration, wall: Duration) -> Limits {
    Limits {
        // Processor time is the limit that counts: a busy machine is not the candidate's fault.
        wall,
        cpu,
        memory_bytes: MEMORY_BYTES,
        file_bytes: LARGEST_OBJECT,
        processes: 32,
        open_files: 128,
        output_bytes: 1 << 20,
        // gcc recurses deeply by design and itself requests this stack size.
        stack_bytes: 64 << 20,
    }
}

/// The default limits of a compiler process; [`Compiler::within`] changes them.
pub fn usual_limits() -> Limits {
    limits(CPU, WALL)
}

/// A program to build.
struct Unit<'a> {
    problem: &'a Problem,
    language: Language,
    driver: Driver,
    /// The source without the parts that do not affect the program.
    source: Cow<'a, str>,
}

impl Compiler {
    /// A compile stage with this toolchain.
    pub fn new(sandbox: Arc<Sandbox>, toolchain: Toolchain) -> Self {
        Compiler {
            sandbox,
            toolchain,
            headers: Mutex::default(),
            cpu: CPU,
            wall: WALL,
            runtime: Mutex::default(),
        }
    }

    /// Replaces the default limits of 10 s of processor time and one minute for each compiler process.
    #[must_use]
    pub fn within(mut self, cpu: Duration, wall: Duration) -> Self {
        (self.cpu, self.wall) = (cpu, wall);
        self
    }

    /// The toolchain.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Checks and compiles `source`, written in the language of the problem's candidates. The source may use only the
    /// `permitted` techniques.
    ///
    /// # Errors
    /// The candidate's fault with diagnostics that name the line, or an infrastructure failure.
    pub fn compile(
        &self,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        self.compile_as(problem.language, problem, source, permitted)
    }

    /// [`Compiler::compile`] for a source in another language.
    ///
    /// # Errors
    /// As [`Compiler::compile`], and an infrastructure failure where the compiler of that language is missing.
    pub fn compile_as(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        let started = Instant::now();
        let unit = self.unit(language, problem, source)?;
        let scanned = text::first_look(&unit)?;
        let folder = self.folder(&unit)?;
        let mut found = self.techniques_of(&unit, scanned, Some(&folder))?;
        check_permitted(&found, problem, permitted)?;

        let ended = self.run(&unit.driver, &folder, &build_arguments(&unit))?;
        let mut diagnostics = diagnose::judge(&ended, problem, language, &self.allowed(&folder))?;
        let object = folder.read_object()?;
        let audit =
            object_audit::audit(&object, &problem.entry.name, language, &problem.forbidden)?;
        // The object shows these techniques under any name that the source used.
        let in_object = [
            (
                audit.openmp,
                Technique::Openmp,
                "calls of the OpenMP library in the compiled object",
            ),
            (
                audit.code.prefetches,
                Technique::Prefetch,
                "instructions that prefetch in the compiled object",
            ),
        ];
        for (_, technique, what) in in_object.into_iter().filter(|(is, ..)| *is) {
            found.note(technique, 0, what);
        }
        check_permitted(&found, problem, permitted)?;
        if let Some(unsure) = found.unsure {
            if !diagnostics.is_empty() {
                diagnostics.push('\n');
            }
            diagnostics.push_str("note: ");
            diagnostics.push_str(unsure);
        }
        Ok(Built {
            object,
            techniques: found.techniques(),
            vector_bits: Some(audit.code.vector_bits).filter(|bits| *bits > 0),
            diagnostics,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Builds shared objects of a source that has passed [`Compiler::compile_as`], one for each entry of `paddings`. In
    /// each object, that many bytes, which never execute, precede the program's code. The position of code alone
    /// changes speeds by several percent (Mytkowicz et al., "Producing wrong data without doing anything obviously
    /// wrong!", 2009). Each object is audited. A program can detect its position, so a certification must verify these
    /// objects as well.
    ///
    /// # Errors
    /// As [`Compiler::compile_as`].
    pub fn layouts(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        paddings: &[u32],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let unit = self.unit(language, problem, source)?;
        let folder = self.folder(&unit)?;
        let mut arguments = build_arguments(&unit);
        // The linker places code in the order of its inputs.
        let own = source_name(language);
        let before_source = arguments.iter().position(|a| a == own).unwrap_or(0);
        arguments.insert(before_source, PADDING.to_owned());
        paddings
            .iter()
            .map(|bytes| {
                folder.write(
                    PADDING,
                    format!(".text\n.balign 64\n.skip {bytes}\n.section .note.GNU-stack,\"\",@progbits\n"),
                )?;
                let ended = self.run(&unit.driver, &folder, &arguments)?;
                diagnose::judge(&ended, problem, language, &self.allowed(&folder))?;
                let object = folder.read_object()?;
                // This object will be loaded like the first one, so it gets the same audit.
                object_audit::audit(&object, &problem.entry.name, language, &problem.forbidden)?;
                Ok(object)
            })
            .collect()
    }

    /// The techniques of a source in the language of the problem's candidates, without building it.
    ///
    /// # Errors
    /// As [`Compiler::compile`], for failures that occur before the compiler runs.
    pub fn techniques(&self, problem: &Problem, source: &str) -> Result<TechniqueSet, Failure> {
        let unit = self.unit(problem.language, problem, source)?;
        let scanned = text::first_look(&unit)?;
        Ok(self.techniques_of(&unit, scanned, None)?.techniques())
    }

    fn unit<'a>(
        &self,
        language: Language,
        problem: &'a Problem,
        source: &'a str,
    ) -> Result<Unit<'a>, Failure> {
        Ok(Unit {
            problem,
            language,
            driver: self.toolchain.driver(language)?,
            source: scan::plain(source),
        })
    }

    /// Makes a folder with all files that the build needs.
    fn folder(&self, unit: &Unit) -> Result<Folder, Failure> {
        let folder = Folder::new(
            &self.sandbox.scratch(),
            unit.language,
            unit.problem,
            &unit.source,
        )?;
        if unit.language != Language::C {
            folder.write(RUNTIME_OBJECT, &*self.runtime()?)?;
        }
        Ok(folder)
    }

    /// The object of `runtime.c`. The file is part of this crate, so a failure is never the candidate's fault.
    fn runtime(&self) -> Result<Arc<[u8]>, Failure> {
        let mut made = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = &*made {
            return Ok(Arc::clone(object));
        }
        let driver = self.toolchain.driver(Language::C)?;
        let folder = Folder::with(&self.sandbox.scratch(), Language::C, RUNTIME, "")?;
        let arguments = [
            "-std=gnu11",
            "-O2",
            "-fPIC",
            "-w",
            "-c",
            "-o",
            OBJECT,
            source_name(Language::C),
        ];
        let ended = self.run(&driver, &folder, &arguments.map(str::to_owned))?;
        if !succeeded(&ended) {
            return Err(Failure::infrastructure(
                InfrastructureCause::Compiler,
                format!(
                    "the replacement for the run-time library could not be compiled: {}",
                    String::from_utf8_lossy(&ended.stderr).trim()
                ),
            ));
        }
        let object: Arc<[u8]> = folder.read_object()?.into();
        *made = Some(Arc::clone(&object));
        Ok(object)
    }

    fn run(
        &self,
        driver: &Driver,
        folder: &Folder,
        arguments: &[String],
    ) -> Result<Finished, Failure> {
        self.run_tool(&driver.program, folder, arguments)
    }

    /// The limits of the compiler process that has just written to this folder, and the space left there.
    fn allowed(&self, folder: &Folder) -> Allowed {
        Allowed {
            cpu: self.cpu,
            memory_bytes: MEMORY_BYTES,
            room_bytes: room(folder.path()),
        }
    }

    /// Runs a compiler or a related tool on the files of a folder.
    fn run_tool(
        &self,
        tool: &Path,
        folder: &Folder,
        arguments: &[String],
    ) -> Result<Finished, Failure> {
        let mut job = Job::new(
            Kind::Compile,
            std::iter::once(tool.as_os_str().to_owned()).chain(arguments.iter().map(Into::into)),
        );
        job.read_write
            .push((folder.path().to_owned(), FOLDER.into()));
        job.workdir = FOLDER.into();
        job.tmpfs_bytes = 64 << 20;
        job.env = [
            ("PATH", "/usr/bin:/bin"),
            ("LC_ALL", "C"),
            ("TMPDIR", "/tmp"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .to_vec();
        job.limits = limits(self.cpu, self.wall);
        if let Some(above) = outside_usr(tool) {
            job.read_only.push((above.to_owned(), above.to_owned()));
        }
        self.sandbox
            .run(&job)
            .map_err(|e| Failure::ours(InfrastructureCause::Jail, &e))
    }
}

/// Bytes that can still be written to a folder; none where that is unknown.
fn room(folder: &Path) -> Option<u64> {
    let space = nix::sys::statvfs::statvfs(folder).ok()?;
    // Some file systems report no number of files.
    if space.files() > 0 && space.files_available() == 0 {
        return Some(0);
    }
    Some(space.blocks_available() * space.fragment_size())
}

/// The flags for building a program and for preprocessing its text.
fn flags(unit: &Unit) -> Vec<String> {
    let mut flags = unit.driver.flags.clone();
    let mode = MODE.iter().chain(mode_of(unit.language));
    flags.extend(mode.map(|flag| (*flag).to_owned()));
    flags
}

fn build_arguments(unit: &Unit) -> Vec<String> {
    let mut arguments = flags(unit);
    let mut add = |more: &[&str]| arguments.extend(more.iter().map(|a| (*a).to_owned()));
    // Without start files, no code of the object runs at load time, and the linker has less work.
    add(&["-pipe", "-nostartfiles"]);
    add(&[&format!(
        "-Wl,--as-needed,--build-id=none,-z,now,--version-script={EXPORTS}"
    )]);
    if !unit.language.is_fortran() {
        add(&["-include", PRELUDE]);
    }
    add(&["-o", OBJECT, source_name(unit.language)]);
    if unit.language != Language::C {
        add(&[RUNTIME_OBJECT]);
    }
    let version = &unit.driver.version;
    if !version.contains("clang") {
        // Nothing is compiled at link time, so the compiler need not load the linker plugin.
        add(&["-fno-use-linker-plugin"]);
    } else if names_openmp_folder(version)
        && unit
            .driver
            .flags
            .iter()
            .any(|f| f.split('=').next() == Some("-fopenmp"))
    {
        // An object must not name folders in which the loader searches for libraries.
        add(&["-fno-openmp-implicit-rpath"]);
    }
    if unit.problem.includes.iter().any(|i| i == "math.h") {
        add(&["-lm"]);
    }
    arguments
}

/// True if the compiler is a clang (14 or later), which by default writes the folder of its OpenMP library into
/// objects.
fn names_openmp_folder(version: &str) -> bool {
    let number = version.split_once("clang version ").map(|(_, rest)| rest);
    let major = number.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 14)
}

/// The installation folder of a compiler that lies outside the folders that the jail shows; none for other compilers.
fn outside_usr(compiler: &Path) -> Option<&Path> {
    let shown = ["/usr", "/bin", "/lib", "/lib64"]
        .iter()
        .any(|p| compiler.starts_with(p));
    if shown {
        None
    } else {
        compiler.parent()?.parent().filter(|p| *p != Path::new("/"))
    }
}

/// True if only the loop nest reveals the technique.
fn is_of_loops(technique: Technique) -> bool {
    match technique {
        Technique::LoopReorder
        | Technique::Unroll
        | Technique::CacheBlocking
        | Technique::RegisterBlocking
        | Technique::Packing
        | Technique::PartialSums
        | Technique::Skewing
        | Technique::Fission
        | Technique::Recomputation
        | Technique::LayoutChange
        | Technique::Fusion
        | Technique::BranchRemoval => true,
        Technique::Simd | Technique::Openmp | Technique::Prefetch => false,
        // No kernel has these.
        Technique::SharedMemory
        | Technique::Dot
        | Technique::Autotuned
        | Technique::Persistent
        | Technique::WarpSpecialized => false,
    }
}

fn check_permitted(
    found: &Detected,
    problem: &Problem,
    permitted: TechniqueSet,
) -> Result<(), Failure> {
    let refuse = |line: u32, technique: Technique, what: &str| {
        let place = if line > 0 {
            format!("line {line}: ")
        } else {
            String::new()
        };
        Err(Failure::candidate(
            CandidateFault::ForbiddenTechnique,
            format!("{place}the technique `{technique}` is forbidden in this task: {what}"),
        ))
    };
    if let Some(seen) = found.seen.iter().find(|s| !permitted.contains(s.technique)) {
        return refuse(seen.line, seen.technique, &seen.what);
    }
    // A technique that the problem does not list cannot be forbidden by a task.
    let forbidden = |technique: &Technique| {
        problem.techniques.contains(*technique) && !permitted.contains(*technique)
    };
    let mut of_loops = Technique::ALL.into_iter().filter(|t| is_of_loops(*t));
    if let Some((line, what)) = &found.hidden
        && let Some(technique) = of_loops.find(forbidden)
    {
        let what = format!("{what} could hide it; write `for`, `while` or `do`");
        return refuse(*line, technique, &what);
    }
    Ok(())
}

/// True if the compiler exited with code 0.
fn succeeded(ended: &Finished) -> bool {
    ended.exit == Exit::Code(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clang_that_names_the_folder_of_openmp_is_known_by_its_version() {
        for (version, does) in [
            ("Debian clang version 14.0.6", true),
            ("clang version 18.1.3 (Fedora 18.1.3-1)", true),
            ("Ubuntu clang version 13.0.1-2ubuntu2", false),
            ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", false),
        ] {
            assert_eq!(names_openmp_folder(version), does, "{version}");
        }
    }
}
