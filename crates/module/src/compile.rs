//! Compiles the extensions of a candidate with PyTorch's headers, which are precompiled once a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flopsmith_protocol::CandidateFault;
use flopsmith_sandbox::{Finished, Job, Kind, Sandbox};
use serde::{Deserialize, Serialize};

use crate::check::Extension;
use crate::environment::{Environment, cpuinfo};
use crate::error::Error;
use crate::outcome::Failure;
use crate::symbols;

const COMPILER: &str = "g++";

/// The place of the compiler.
pub(crate) const COMPILER_AT: &str = "/usr/bin/g++";

/// Headers of ours that stand for PyTorch's own: those include all of its C++ interface, which takes minutes.
const HEADERS: [(&str, &str); 3] = [
    (
        "extension.h",
        include_str!("../python/headers/torch/extension.h"),
    ),
    ("torch.h", include_str!("../python/headers/torch/torch.h")),
    ("all.h", include_str!("../python/headers/torch/all.h")),
];

/// Flags of every build. A precompiled header serves only builds with the same ones; a source with others is compiled
/// without it.
const FLAGS: [&str; 7] = [
    "-O3",
    "-std=c++17",
    "-fPIC",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
];

/// Folders inside the jail.
const HEADERS_AT: &str = "/headers";
const SOURCE_AT: &str = "/source";

/// Longest wall-clock time of all extensions of a candidate, and of the precompiled header.
const LIMIT: Duration = Duration::from_secs(300);
const HEADER_LIMIT: Duration = Duration::from_secs(1200);

/// An extension that was compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Built {
    /// The name of its Python module.
    pub name: String,
    /// Its functions.
    pub functions: Vec<String>,
    /// The shared object.
    pub object: Vec<u8>,
}

/// Parts of an extension that another compiler has made, and what they need beside PyTorch.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The object that is linked; none for C++ alone. It may need the CUDA runtime.
    pub object: Option<Vec<u8>>,
    /// Folders that the compiler reads, at their own places.
    pub folders: Vec<PathBuf>,
    /// Further arguments of the compiler.
    pub arguments: Vec<String>,
}

/// The compiler with its precompiled header.
pub(crate) struct Compiler {
    /// The folder of the headers on the host.
    headers: PathBuf,
    include: Vec<PathBuf>,
    libraries: PathBuf,
}

impl Compiler {
    /// Finds the precompiled header in the user's cache, or makes it, which takes a minute or two.
    pub fn new(sandbox: &Sandbox, environment: &Environment) -> Result<Self, Error> {
        let include = vec![
            environment.torch_include.clone(),
            environment.torch_include.join("torch/csrc/api/include"),
            environment.include.clone(),
        ];
        let mut compiler = Compiler {
            headers: PathBuf::new(),
            include,
            libraries: environment.torch_lib.clone(),
        };
        let version = compiler.version(sandbox)?;
        let mut key = blake3::Hasher::new();
        let cpu = cpuinfo();
        let kind = cpu
            .lines()
            .filter(|l| l.starts_with("flags") || l.starts_with("model name"));
        let torch = environment.torch_include.to_string_lossy();
        for part in [
            version.as_str(),
            environment.torch.as_str(),
            environment.python.as_str(),
            &*torch,
        ]
        .into_iter()
        .chain(kind.take(2))
        .chain(FLAGS)
        .chain(HEADERS.iter().map(|(_, text)| *text))
        {
            key.update(part.as_bytes());
            key.update(&[0]);
        }
        let key = key.finalize().to_hex();
        let cache = cache().join("torch-headers");
        compiler.headers = cache.join(&key.as_str()[..32]);
        if !compiler.headers.join("torch/extension.h.gch").is_file() {
            compiler.precompile(sandbox, &cache)?;
        }
        Ok(compiler)
    }

    fn version(&self, sandbox: &Sandbox) -> Result<String, Error> {
        let job = job(vec!["--version".into()]);
        let finished = sandbox.run(&job).map_err(|e| match e {
            flopsmith_sandbox::Error::Setup { detail } => Error::Compiler {
                detail: format!("{COMPILER} does not start: {detail}"),
            },
            other => other.into(),
        })?;
        if !finished.exit.success() {
            return Err(Error::Compiler {
                detail: format!("`{COMPILER} --version` failed: {}", tail(&finished)),
            });
        }
        Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
    }

    /// Makes the precompiled header in a folder beside its final place, and then moves the folder: other processes see
    /// all of it or nothing.
    fn precompile(&self, sandbox: &Sandbox, cache: &Path) -> Result<(), Error> {
        let failed = Error::system("write the cache of precompiled headers");
        fs::create_dir_all(cache).map_err(&failed)?;
        let folder = tempfile::Builder::new()
            .prefix("making-")
            .tempdir_in(cache)
            .map_err(&failed)?;
        let torch = folder.path().join("torch");
        fs::create_dir(&torch).map_err(&failed)?;
        for (name, text) in HEADERS {
            fs::write(torch.join(name), text).map_err(&failed)?;
        }
        let mut arguments = self.flags();
        let output = "torch/extension.h.gch";
        arguments
            .extend(["-x", "c++-header", "torch/extension.h", "-o", output].map(str::to_owned));
        let mut job = job(arguments);
        self.show(&mut job);
        job.read_write = vec![(folder.path().to_owned(), HEADERS_AT.into())];
        job.workdir = HEADERS_AT.into();
        job.limits.file_bytes = 4 << 30;
        job.limits.wall = HEADER_LIMIT;
        job.limits.cpu = HEADER_LIMIT;
        let finished = sandbox.run(&job)?;
        if !finished.exit.success() {
            return Err(Error::Compiler {
                detail: format!(
                    "{COMPILER} cannot compile PyTorch's headers ({:?}): {}",
                    finished.exit,
                    tail(&finished)
                ),
            });
        }
        match fs::rename(folder.path(), &self.headers) {
            Ok(()) => Ok(()),
            // Another process was faster.
            Err(_) if self.headers.join(output).is_file() => Ok(()),
            Err(e) => Err(failed(e)),
        }
    }

    fn flags(&self) -> Vec<String> {
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        for folder in &self.include {
            flags.push("-isystem".into());
            flags.push(folder.to_string_lossy().into_owned());
        }
        flags
    }

    /// Folders with PyTorch's and Python's headers.
    pub fn include(&self) -> &[PathBuf] {
        &self.include
    }

    /// Shows PyTorch's headers and libraries to a job.
    pub fn show(&self, job: &mut Job) {
        let mut all: Vec<&PathBuf> = self.include.iter().collect();
        all.push(&self.libraries);
        // A folder below another one is visible with it.
        let covered = |path: &Path| {
            all.iter()
                .any(|p| p.as_path() != path && path.starts_with(p))
        };
        for path in all.iter().filter(|path| !covered(path)) {
            job.read_only.push(((*path).clone(), (*path).clone()));
        }
    }

    /// Compiles all extensions of a candidate and audits the objects. Returns them with the seconds that this took.
    ///
    /// # Errors
    /// `Ok(Err(_))` is the candidate's fault.
    pub fn build(
        &self,
        sandbox: &Sandbox,
        extensions: &[Extension],
    ) -> Result<(Result<Vec<Built>, Failure>, f64), Error> {
        let began = Instant::now();
        let end = began + LIMIT;
        let mut built = Vec::new();
        for extension in extensions {
            match self.build_one(sandbox, extension, &Beside::default(), end)? {
                Ok(one) => built.push(one),
                Err(failure) => return Ok((Err(failure), began.elapsed().as_secs_f64())),
            }
        }
        Ok((Ok(built), began.elapsed().as_secs_f64()))
    }

    /// Compiles the C++ of an extension, links it with `beside` and audits the object. `end` is that of all compilations
    /// of the candidate.
    ///
    /// # Errors
    /// `Ok(Err(_))` is the candidate's fault.
    pub fn build_one(
        &self,
        sandbox: &Sandbox,
        extension: &Extension,
        beside: &Beside,
        end: Instant,
    ) -> Result<Result<Built, Failure>, Error> {
        let left = match left(end) {
            Ok(left) => left,
            Err(failure) => return Ok(Err(failure)),
        };
        let failed = Error::system("write the files of a compilation");
        let folder = tempfile::Builder::new()
            .prefix("extension-")
            .tempdir_in(sandbox.scratch())
            .map_err(&failed)?;
        fs::write(folder.path().join("extension.cpp"), source(extension)).map_err(&failed)?;
        let mut arguments = vec!["-I".to_owned(), HEADERS_AT.to_owned()];
        arguments.extend(self.flags());
        arguments.extend(extension.flags.iter().cloned());
        arguments.extend(
            [
                "-shared",
                "-pipe",
                "extension.cpp",
                "-o",
                "extension.so",
                "-Wl,--as-needed,-z,now",
            ]
            .map(str::to_owned),
        );
        if let Some(object) = &beside.object {
            fs::write(folder.path().join("beside.o"), object).map_err(&failed)?;
            arguments.push("beside.o".into());
        }
        arguments.push(format!("-L{}", self.libraries.display()));
        arguments.extend(["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"].map(str::to_owned));
        arguments.extend(beside.arguments.iter().cloned());
        let mut job = job(arguments);
        self.show(&mut job);
        let places = beside.folders.iter();
        job.read_only
            .extend(places.map(|path| (path.clone(), path.clone())));
        job.read_only
            .push((self.headers.clone(), HEADERS_AT.into()));
        job.read_write = vec![(folder.path().to_owned(), SOURCE_AT.into())];
        job.workdir = SOURCE_AT.into();
        job.limits.wall = left.min(LIMIT);
        let finished = sandbox.run(&job)?;
        match finished.exit {
            exit if exit.success() => {}
            flopsmith_sandbox::Exit::Code(_) => {
                return Ok(Err(Failure::new(
                    CandidateFault::CompileError,
                    tail(&finished),
                )));
            }
            exit => {
                let detail = format!("the compiler ended with {exit:?}");
                return Ok(Err(Failure::new(CandidateFault::CompileLimit, detail)));
            }
        }
        let object = fs::read(folder.path().join("extension.so")).map_err(failed)?;
        if let Err(refusal) = symbols::audit(&object, beside.object.is_some()) {
            return Ok(Err(refusal.into()));
        }
        Ok(Ok(Built {
            name: extension.name.clone(),
            functions: extension.functions.clone(),
            object,
        }))
    }
}

/// The time that the compilations of a candidate still have.
///
/// # Errors
/// The candidate's fault if they have used all of it.
pub(crate) fn left(end: Instant) -> Result<Duration, Failure> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        let detail = "its extensions together took too long to compile";
        return Err(Failure::new(CandidateFault::CompileLimit, detail));
    }
    Ok(left)
}

/// The source of an extension with the binding to Python, as PyTorch's `load_inline` writes it.
fn source(extension: &Extension) -> String {
    let mut text = format!("#include <torch/extension.h>\n{}\n", extension.cpp);
    text.push_str(&format!("PYBIND11_MODULE({}, m) {{\n", extension.name));
    for function in &extension.functions {
        text.push_str(&format!(
            "m.def(\"{function}\", torch::wrap_pybind_function({function}), \"{function}\");\n"
        ));
    }
    text.push_str("}\n");
    text
}

/// A job of the compiler.
fn job(arguments: Vec<String>) -> Job {
    let program = std::iter::once(COMPILER.to_owned()).chain(arguments);
    let mut job = Job::new(Kind::Compile, program);
    job.program[0] = COMPILER_AT.into();
    job.tmpfs_bytes = 1 << 30;
    job.env = [
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("TMPDIR", "/tmp"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    job.limits.wall = LIMIT;
    job.limits.cpu = LIMIT;
    job.limits.memory_bytes = 6 << 30;
    job.limits.output_bytes = 4 << 20;
    job
}

/// The first lines of what the compiler said that name an error, or its last ones.
pub(crate) fn tail(finished: &Finished) -> String {
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    let errors: Vec<&str> = said
        .lines()
        .filter(|l| l.contains("error:"))
        .take(8)
        .collect();
    match errors.is_empty() {
        false => errors.join("\n"),
        true => {
            let lines: Vec<&str> = said.lines().collect();
            lines[lines.len().saturating_sub(8)..].join("\n")
        }
    }
}

/// The user's folder of caches for this program.
pub(crate) fn cache() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let root = named("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    root.join("flopsmith")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_share_one_limit_on_time() {
        let now = Instant::now();
        assert_eq!(
            left(now).map_err(|failure| failure.fault),
            Err(CandidateFault::CompileLimit)
        );
        assert!(left(now + LIMIT).is_ok_and(|left| left <= LIMIT));
    }

    #[test]
    fn the_binding_names_every_function() {
        let text = source(&Extension {
            name: "two".into(),
            functions: vec!["one".into(), "other".into()],
            cpp: "int one();".into(),
            flags: Vec::new(),
            cuda: None,
        });
        assert!(text.starts_with("#include <torch/extension.h>\nint one();\n"));
        assert!(text.contains("PYBIND11_MODULE(two, m)"));
        assert!(text.contains("wrap_pybind_function(one)") && text.contains("(other)"));
    }
}
