//! The compile stage: from a source to a shared object that may be run.
//!
//! Cheapest checks first: size and directives, the user's own text, its
//! techniques; then the compiler in its jail; then what the object contains.

mod diagnose;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs};

use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateFault, InfrastructureCause, Technique, TechniqueSet};
use flopsmith_sandbox::{Exit, Finished, Job, Kind, Limits, Sandbox};

use crate::detect::{self, Detected};
use crate::failure::Failure;
use crate::object_audit;
use crate::scan::{self, Preprocessed, Raw, UserText};
use crate::toolchain::{MODE, Toolchain};

/// Names inside the jail.
const FOLDER: &str = "/work";
const SOURCE: &str = "kernel.c";
const PRELUDE: &str = "entry.h";
const EXPORTS: &str = "exports.map";
const OBJECT: &str = "kernel.so";
const OUTPUT: &str = "kernel.i";
const PADDING: &str = "padding.s";

/// What one process of the compiler may use.
const CPU: Duration = Duration::from_secs(10);

/// How long a compilation may take on a machine that has other things to do.
const WALL: Duration = Duration::from_secs(60);

/// Largest object that is worth reading.
const LARGEST_OBJECT: u64 = 32 << 20;

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
    /// The compiler's warnings, cut.
    pub diagnostics: String,
    /// Seconds the whole stage took.
    pub seconds: f64,
}

/// Compiles candidates in a jail. One can be shared among threads.
pub struct Compiler {
    sandbox: Arc<Sandbox>,
    toolchain: Toolchain,
    /// What sequences of headers say when nothing is defined before them.
    headers: Mutex<BTreeMap<Vec<String>, Arc<str>>>,
}

impl Compiler {
    /// A compile stage with this toolchain.
    pub fn new(sandbox: Arc<Sandbox>, toolchain: Toolchain) -> Self {
        Compiler {
            sandbox,
            toolchain,
            headers: Mutex::default(),
        }
    }

    /// The toolchain.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// Checks and compiles `source`, which may use the `permitted` techniques only.
    ///
    /// # Errors
    /// The candidate's fault with diagnostics that name the line, or an infrastructure failure.
    pub fn compile(
        &self,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        let started = Instant::now();
        let raw = scan::check_raw(source, problem)?;
        let folder = Folder::new(&self.sandbox.scratch(), problem, source)?;
        let user = match scan::preprocess_simple(&raw.lines, &self.toolchain.macros) {
            Some(user) => user,
            None => self.preprocess(problem, &raw, &folder)?,
        };
        let (user, pragmas) = scan::split_pragmas(&user)?;
        scan::check_constructs(&user, &problem.entry.name)?;
        let mut found = detect::detect(&user, &pragmas, problem)?;
        check_permitted(&found, permitted)?;

        let ended = self.run(&folder, &self.build_arguments(problem))?;
        let diagnostics = diagnose::judge(&ended, problem, SOURCE)?;
        let object = folder.read_object()?;
        let audit = object_audit::audit(&object, &problem.entry.name)?;
        if audit.openmp {
            found.note(
                Technique::Openmp,
                0,
                "calls of the OpenMP library in the compiled object",
            );
            check_permitted(&found, permitted)?;
        }
        Ok(Built {
            object,
            techniques: found.techniques(),
            vector_bits: Some(audit.vector_bits).filter(|bits| *bits > 0),
            diagnostics,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Shared objects of a source that has passed [`Compiler::compile`], in each of which its code lies elsewhere: behind so many
    /// bytes that nothing runs. Where code lies alone changes speeds by several percent (Mytkowicz et al., "Producing wrong data
    /// without doing anything obviously wrong!", 2009).
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn layouts(
        &self,
        problem: &Problem,
        source: &str,
        paddings: &[u32],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let folder = Folder::new(&self.sandbox.scratch(), problem, source)?;
        let mut arguments = self.build_arguments(problem);
        // The linker lays code out in the order of its inputs.
        let before_source = arguments.iter().position(|a| a == SOURCE).unwrap_or(0);
        arguments.insert(before_source, PADDING.to_owned());
        paddings
            .iter()
            .map(|bytes| {
                folder.write(
                    PADDING,
                    &format!(".text\n.balign 64\n.skip {bytes}\n.section .note.GNU-stack,\"\",@progbits\n"),
                )?;
                let ended = self.run(&folder, &arguments)?;
                diagnose::judge(&ended, problem, SOURCE)?;
                folder.read_object()
            })
            .collect()
    }

    /// The techniques of a source, without building it.
    ///
    /// # Errors
    /// As [`Compiler::compile`], for what is refused before the compiler is asked.
    pub fn techniques(&self, problem: &Problem, source: &str) -> Result<TechniqueSet, Failure> {
        let raw = scan::check_raw(source, problem)?;
        let user = match scan::preprocess_simple(&raw.lines, &self.toolchain.macros) {
            Some(user) => user,
            None => self.preprocess(
                problem,
                &raw,
                &Folder::new(&self.sandbox.scratch(), problem, source)?,
            )?,
        };
        let (user, pragmas) = scan::split_pragmas(&user)?;
        scan::check_constructs(&user, &problem.entry.name)?;
        Ok(detect::detect(&user, &pragmas, problem)?.techniques())
    }

    fn preprocess(
        &self,
        problem: &Problem,
        raw: &Raw,
        folder: &Folder,
    ) -> Result<UserText, Failure> {
        let found = self.preprocessed(folder)?;
        scan::check_included(&found, problem)?;
        if raw.defines_before_include {
            self.check_headers(raw, &found)?;
        }
        Ok(found.user)
    }

    fn preprocessed(&self, folder: &Folder) -> Result<Preprocessed, Failure> {
        let mut arguments = vec!["-E".to_owned()];
        arguments.extend(self.toolchain.flags.iter().cloned());
        arguments.extend(MODE.map(str::to_owned));
        arguments.extend(["-include", PRELUDE, "-o", OUTPUT, SOURCE].map(str::to_owned));
        let ended = self.run(folder, &arguments)?;
        diagnose::preprocessed(&ended, SOURCE)?;
        let output = folder.read(OUTPUT)?;
        Ok(scan::split_preprocessed(
            &String::from_utf8_lossy(&output),
            SOURCE,
            PRELUDE,
        ))
    }

    /// A macro of the candidate must not change what a header says: the header's text is not scanned.
    fn check_headers(&self, raw: &Raw, found: &Preprocessed) -> Result<(), Failure> {
        let mut prefix = Vec::new();
        for line in &raw.lines {
            if let Some(define) = line.directive().filter(|d| d.starts_with("define"))
                && define.contains("_SOURCE")
            {
                prefix.push(format!("#{define}"));
            }
        }
        let wanted: Vec<String> = prefix
            .into_iter()
            .chain(
                found
                    .included
                    .iter()
                    .map(|path| format!("#include \"{path}\"")),
            )
            .collect();
        let known = self
            .headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&wanted)
            .cloned();
        let plain = match known {
            Some(plain) => plain,
            None => {
                let alone = Folder::with(&self.sandbox.scratch(), &wanted.join("\n"), "")?;
                let plain: Arc<str> = self.preprocessed(&alone)?.headers.into();
                let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
                headers.insert(wanted, Arc::clone(&plain));
                plain
            }
        };
        if *plain == *found.headers {
            return Ok(());
        }
        Err(Failure::candidate(
            CandidateFault::ForbiddenConstruct,
            "a macro that is defined before an `#include` changes the header's text; include first",
        ))
    }

    fn build_arguments(&self, problem: &Problem) -> Vec<String> {
        let mut arguments: Vec<String> = self.toolchain.flags.clone();
        let link = format!("-Wl,--as-needed,--build-id=none,-z,now,--version-script={EXPORTS}");
        arguments.extend(MODE.map(str::to_owned));
        // Without start files nothing of the object runs at load time, and there is less to link.
        arguments.extend(
            [
                "-pipe",
                "-nostartfiles",
                &link,
                "-include",
                PRELUDE,
                "-o",
                OBJECT,
                SOURCE,
            ]
            .map(str::to_owned),
        );
        if !self.toolchain.is_clang() {
            // Nothing is compiled at link time, so the plugin for it need not be loaded.
            arguments.push("-fno-use-linker-plugin".into());
        }
        if problem.includes.iter().any(|i| i == "math.h") {
            arguments.push("-lm".into());
        }
        arguments
    }

    fn run(&self, folder: &Folder, arguments: &[String]) -> Result<Finished, Failure> {
        let mut job = Job::new(
            Kind::Compile,
            std::iter::once(self.toolchain.compiler.as_os_str().to_owned())
                .chain(arguments.iter().map(Into::into)),
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
        job.limits = Limits {
            // A busy machine is no candidate's fault: what counts is processor time.
            wall: WALL,
            cpu: CPU,
            memory_bytes: 2 << 30,
            file_bytes: LARGEST_OBJECT,
            processes: 32,
            open_files: 128,
            output_bytes: 1 << 20,
            // gcc recurses deeply on purpose and asks for this much itself.
            stack_bytes: 64 << 20,
        };
        if let Some(above) = outside_usr(&self.toolchain.compiler) {
            job.read_only.push((above.to_owned(), above.to_owned()));
        }
        self.sandbox
            .run(&job)
            .map_err(|e| Failure::ours(InfrastructureCause::Jail, &e))
    }
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

fn check_permitted(found: &Detected, permitted: TechniqueSet) -> Result<(), Failure> {
    let Some(seen) = found.seen.iter().find(|s| !permitted.contains(s.technique)) else {
        return Ok(());
    };
    let place = if seen.line > 0 {
        format!("line {}: ", seen.line)
    } else {
        String::new()
    };
    Err(Failure::candidate(
        CandidateFault::ForbiddenTechnique,
        format!(
            "{place}the technique `{}` is forbidden in this task: {}",
            seen.technique, seen.what
        ),
    ))
}

/// The files of one compilation, on the host; the jail may write here.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new(scratch: &Path, problem: &Problem, source: &str) -> Result<Self, Failure> {
        let made = Self::with(scratch, source, &format!("{}\n", problem.entry.prototype))?;
        made.write(
            EXPORTS,
            &format!("{{ global: {}; local: *; }};\n", problem.entry.name),
        )?;
        Ok(made)
    }

    fn with(scratch: &Path, source: &str, prelude: &str) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new()
            .prefix("compile-")
            .tempdir_in(scratch)
            .map_err(|e| resources("make a folder for the compiler", &e))?;
        let made = Folder { folder };
        made.write(SOURCE, source)?;
        made.write(PRELUDE, prelude)?;
        Ok(made)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        fs::write(self.path().join(name), content)
            .map_err(|e| resources("write the compiler's files", &e))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
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

    fn read_object(&self) -> Result<Vec<u8>, Failure> {
        self.read(OBJECT)
    }
}

fn resources(what: &str, error: &std::io::Error) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Resources,
        format!("could not {what}: {error}"),
    )
}

/// Did the compiler end in order?
fn succeeded(ended: &Finished) -> bool {
    ended.exit == Exit::Code(0)
}
