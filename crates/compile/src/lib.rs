//! The compile stage: from a source to a shared object that may be run.
//!
//! Cheapest checks first: size and directives, the user's own text, its
//! techniques; then the compiler in its jail; then what the object contains.
//!
//! Programs in C++ and Fortran are linked without the run-time libraries of
//! their languages, which are large, work when they are loaded, and hold kernels
//! of their own. What remains of them is `runtime.c`: memory, and an end for
//! what must not happen.

mod diagnose;
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

pub use folder::source_name;
pub use instrumented::{Companion, Instrumentation, Instrumented, Made};

/// What one process of the compiler may use.
const CPU: Duration = Duration::from_secs(10);

/// How long a compilation may take on a machine that has other things to do.
const WALL: Duration = Duration::from_secs(60);

/// Address space of one process of the compiler.
const MEMORY_BYTES: u64 = 2 << 30;

/// Largest object that is worth reading.
const LARGEST_OBJECT: u64 = 32 << 20;

/// What is left of the run-time libraries of C++ and Fortran, in C.
const RUNTIME: &str = include_str!("runtime.c");

/// A program that was built and may be run.
#[derive(Debug, Clone)]
pub struct Built {
    /// The shared object.
    pub object: Vec<u8>,
    /// Techniques found in source and object.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in the object, bits; also of what the compiler vectorised itself.
    /// None where it has none or this machine's code cannot be read.
    pub vector_bits: Option<u32>,
    /// The compiler's warnings, cut, and what is not known of the program's techniques.
    pub diagnostics: String,
    /// Seconds the whole stage took.
    pub seconds: f64,
}

/// What sequences of headers say, by the language that they are read in.
type Headers = BTreeMap<(Language, Vec<String>), Arc<str>>;

/// Compiles candidates in a jail. One can be shared among threads.
pub struct Compiler {
    sandbox: Arc<Sandbox>,
    toolchain: Toolchain,
    /// What sequences of headers say when nothing is defined before them.
    headers: Mutex<Headers>,
    cpu: Duration,
    wall: Duration,
    /// The object of `runtime.c`, once it was needed.
    runtime: Mutex<Option<Arc<[u8]>>>,
}

/// What a process of the compiler may use.
fn limits(cpu: Duration, wall: Duration) -> Limits {
    Limits {
        // A busy machine is no candidate's fault: what counts is processor time.
        wall,
        cpu,
        memory_bytes: MEMORY_BYTES,
        file_bytes: LARGEST_OBJECT,
        processes: 32,
        open_files: 128,
        output_bytes: 1 << 20,
        // gcc recurses deeply on purpose and asks for this much itself.
        stack_bytes: 64 << 20,
    }
}

/// What a process of the compiler may use unless something else is said ([`Compiler::within`]).
pub fn usual_limits() -> Limits {
    limits(CPU, WALL)
}

/// A program that is to be built.
struct Unit<'a> {
    problem: &'a Problem,
    language: Language,
    driver: Driver,
    /// Without what says nothing about the program.
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

    /// With other limits than 10 s of processor time and a minute for each process of the compiler.
    #[must_use]
    pub fn within(mut self, cpu: Duration, wall: Duration) -> Self {
        (self.cpu, self.wall) = (cpu, wall);
        self
    }

    /// The toolchain.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Checks and compiles `source`, in the language of the problem's candidates, which may use the `permitted` techniques only.
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
    /// The same, and an infrastructure failure where there is no compiler of that language.
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
        // Under whatever name the source asked for it.
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

    /// Shared objects of a source that has passed [`Compiler::compile_as`], in each of which its code lies elsewhere: behind so many
    /// bytes that nothing runs. Where code lies alone changes speeds by several percent (Mytkowicz et al., "Producing wrong data
    /// without doing anything obviously wrong!", 2009). Each is audited. A program can see where it lies, so whoever certifies it
    /// verifies these objects as well.
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
        // The linker lays code out in the order of its inputs.
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
                // It will be loaded like the first one, so it is looked at like that.
                object_audit::audit(&object, &problem.entry.name, language, &problem.forbidden)?;
                Ok(object)
            })
            .collect()
    }

    /// The techniques of a source in the language of the problem's candidates, without building it.
    ///
    /// # Errors
    /// As [`Compiler::compile`], for what is refused before the compiler is asked.
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

    /// A folder with everything that a program is built from.
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

    /// The object of `runtime.c`. It is ours, so whatever goes wrong with it is no candidate's fault.
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
                    "what replaces the run-time library could not be compiled: {}",
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

    /// What the compiler was allowed that has just written to this folder.
    fn allowed(&self, folder: &Folder) -> Allowed {
        Allowed {
            cpu: self.cpu,
            memory_bytes: MEMORY_BYTES,
            room_bytes: room(folder.path()),
        }
    }

    /// Runs a compiler or one of its companions on the files of a folder.
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

/// Bytes that can still be written to a folder; none where that cannot be found out.
fn room(folder: &Path) -> Option<u64> {
    let space = nix::sys::statvfs::statvfs(folder).ok()?;
    // Some file systems do not count files.
    if space.files() > 0 && space.files_available() == 0 {
        return Some(0);
    }
    Some(space.blocks_available() * space.fragment_size())
}

/// The flags under which a program is built and under which its text is looked at.
fn flags(unit: &Unit) -> Vec<String> {
    let mut flags = unit.driver.flags.clone();
    let mode = MODE.iter().chain(mode_of(unit.language));
    flags.extend(mode.map(|flag| (*flag).to_owned()));
    flags
}

fn build_arguments(unit: &Unit) -> Vec<String> {
    let mut arguments = flags(unit);
    let mut add = |more: &[&str]| arguments.extend(more.iter().map(|a| (*a).to_owned()));
    // Without start files nothing of the object runs at load time, and there is less to link.
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
        // Nothing is compiled at link time, so the plugin for it need not be loaded.
        add(&["-fno-use-linker-plugin"]);
    } else if names_openmp_folder(version)
        && unit
            .driver
            .flags
            .iter()
            .any(|f| f.split('=').next() == Some("-fopenmp"))
    {
        // An object must not say where libraries are looked for.
        add(&["-fno-openmp-implicit-rpath"]);
    }
    if unit.problem.includes.iter().any(|i| i == "math.h") {
        add(&["-lm"]);
    }
    arguments
}

/// Is it a clang (14 or later) that writes the folder of its OpenMP library into objects unless it is told not to?
fn names_openmp_folder(version: &str) -> bool {
    let number = version.split_once("clang version ").map(|(_, rest)| rest);
    let major = number.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 14)
}

/// The installation folder of a compiler that the jail would not show otherwise.
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

/// Techniques that only the loop nest shows.
const OF_LOOPS: [Technique; 5] = [
    Technique::LoopReorder,
    Technique::Unroll,
    Technique::CacheBlocking,
    Technique::RegisterBlocking,
    Technique::Packing,
];

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
    // A technique that the problem does not know is no task's to forbid.
    let forbidden = |technique: &Technique| {
        problem.techniques.contains(*technique) && !permitted.contains(*technique)
    };
    if let Some((line, what)) = &found.hidden
        && let Some(technique) = OF_LOOPS.into_iter().find(forbidden)
    {
        let what = format!("{what} could hide it; write `for`, `while` or `do`");
        return refuse(*line, technique, &what);
    }
    Ok(())
}

/// Did the compiler end in order?
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
