//! The check of a candidate's source, by a program of ours that never executes any of it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use flopsmith_inspect::detect::in_extension;
use flopsmith_protocol::{CandidateFault, TechniqueSet};
use flopsmith_sandbox::{Job, Kind, Sandbox};
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::Error;
use crate::problem::Problem;

/// Where a jail shows these programs.
pub(crate) const SCRIPTS_AT: &str = "/check";

/// The checking program, whose findings the worker of candidates compares with what the program makes, and the compiling program for
/// Triton: file names and texts.
pub(crate) const SCRIPTS: [(&str, &str); 9] = [
    ("source_check.py", include_str!("../python/source_check.py")),
    ("source_rules.py", include_str!("../python/source_rules.py")),
    ("source_cpp.py", include_str!("../python/source_cpp.py")),
    ("source_cuda.py", include_str!("../python/source_cuda.py")),
    ("source_body.py", include_str!("../python/source_body.py")),
    (
        "source_gradient.py",
        include_str!("../python/source_gradient.py"),
    ),
    (
        "source_techniques.py",
        include_str!("../python/source_techniques.py"),
    ),
    (
        "source_triton.py",
        include_str!("../python/source_triton.py"),
    ),
    (
        "triton_compile.py",
        include_str!("../python/triton_compile.py"),
    ),
];

/// The name under which the checking program finds the reference beside itself.
const REFERENCE: &str = "reference.txt";

/// A source larger than this is refused unread.
const LARGEST: usize = 256 << 10;

/// The reason why a source was refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// The rule, such as `import` or `torch_operator`.
    pub rule: String,
    /// The line; 0 if it belongs to none.
    pub line: u32,
    /// The finding in words.
    pub detail: String,
}

impl Refusal {
    /// The fault that the rule stands for.
    pub fn fault(&self) -> CandidateFault {
        match self.rule.as_str() {
            "syntax" => CandidateFault::Format,
            "too_large" => CandidateFault::SourceTooLarge,
            "no_model" => CandidateFault::MissingEntry,
            "import" | "cpp_include" => CandidateFault::ForbiddenInclude,
            "plain_torch"
            | "torch_operator"
            | "forbidden_name"
            | "forbidden_attribute"
            | "unknown_name"
            | "symbol"
            | "operator"
            | "cpp_process"
            | "cpp_thread"
            | "cpp_file"
            | "cpp_network"
            | "cpp_timing"
            | "cpp_memory_map"
            | "cpp_loader"
            | "cpp_interpreter"
            | "cuda_runtime"
            | "cuda_library"
            | "cuda_stream" => CandidateFault::ForbiddenSymbol,
            "unreachable_kernel" | "decoy" => CandidateFault::SkippedWork,
            _ => CandidateFault::ForbiddenConstruct,
        }
    }
}

/// An inline extension of a source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Extension {
    /// The name of its Python module.
    pub name: String,
    /// Its functions.
    pub functions: Vec<String>,
    /// The C++ source.
    pub cpp: String,
    /// The compiler's flags.
    pub flags: Vec<String>,
    /// Its CUDA C++; none for an extension in C++ alone.
    #[serde(default)]
    pub cuda: Option<Cuda>,
}

/// The CUDA C++ of an extension.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Cuda {
    /// The source.
    pub source: String,
    /// The flags of nvcc.
    pub flags: Vec<String>,
}

/// A kernel of Triton.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Number of configurations among which Triton would choose by their times; 1 without `triton.autotune`.
    pub configurations: usize,
}

/// The kernels of Triton in a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triton {
    /// The kernels, also those that only other kernels call.
    pub kernels: Vec<Kernel>,
    /// The whole source, written anew from the syntax tree that was checked.
    pub source: String,
    /// The kernels alone, without decorators that tune them.
    pub kernel_source: String,
}

/// The findings about a source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Checked {
    /// Reasons to refuse it; none if it is accepted.
    pub refusals: Vec<Refusal>,
    /// The extensions of an accepted source.
    pub extensions: Vec<Extension>,
    /// The kernels of an accepted source; none if it has extensions.
    #[serde(default)]
    pub triton: Option<Triton>,
    /// The techniques that the syntax tree of Python shows.
    #[serde(default, rename = "techniques")]
    in_python: TechniqueSet,
}

impl Checked {
    /// The techniques of an accepted source: those of its Python and its Triton kernels, and those of its C++ and CUDA C++.
    pub fn techniques(&self) -> TechniqueSet {
        let in_cuda = self.extensions.iter().filter_map(|e| e.cuda.as_ref());
        let sources = self.extensions.iter().map(|e| &e.cpp);
        let sources = sources.chain(in_cuda.map(|cuda| &cuda.source));
        let found = sources.map(|source| in_extension(source).techniques());
        let all = found.fold(self.in_python, TechniqueSet::union);
        all.intersection(TechniqueSet::of_modules())
    }

    /// True if an extension has CUDA C++.
    pub(crate) fn has_cuda(&self) -> bool {
        self.extensions.iter().any(|e| e.cuda.is_some())
    }

    fn refused(rule: &str, detail: impl Into<String>) -> Self {
        Checked {
            refusals: vec![Refusal {
                rule: rule.into(),
                line: 0,
                detail: detail.into(),
            }],
            extensions: Vec::new(),
            triton: None,
            in_python: TechniqueSet::EMPTY,
        }
    }
}

/// The permissions of a problem for sources, besides those of every problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Permitted {
    /// PyTorch's operators may compute.
    pub torch: bool,
    /// Classes may define a function and its gradient (`torch.autograd.Function`).
    pub gradients: bool,
}

impl Permitted {
    /// The permissions of this problem.
    pub fn by(problem: &Problem) -> Self {
        Permitted {
            torch: problem.permit_torch,
            gradients: problem.gradients.any(),
        }
    }

    /// The arguments of the checking program.
    fn arguments(self) -> impl Iterator<Item = OsString> {
        let torch = self.torch.then(|| OsString::from("--permit-torch"));
        let gradients = self.gradients.then(|| OsString::from("--gradients"));
        torch.into_iter().chain(gradients)
    }
}

/// Writes the programs of the check, and the reference beside them, into a folder.
pub(crate) fn write_scripts(folder: &Path, reference: &Path) -> Result<(), Error> {
    let failed = Error::system("write the scripts of the check");
    for (name, text) in SCRIPTS {
        fs::write(folder.join(name), text).map_err(&failed)?;
    }
    fs::copy(reference, folder.join(REFERENCE)).map_err(failed)?;
    Ok(())
}

/// A file in memory that a job reads as its standard input.
pub(crate) fn input(bytes: &[u8]) -> Result<File, Error> {
    let failed = Error::system("pass a source to a jail");
    let mut file = File::from(
        nix::sys::memfd::memfd_create("source", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
            .map_err(|e| failed(e.into()))?,
    );
    file.write_all(bytes).map_err(&failed)?;
    file.rewind().map_err(&failed)?;
    Ok(file)
}

/// Checks a source. `scripts` is the folder of the checking program on the host.
///
/// The program runs in a jail, because a source may crash even a parser.
pub(crate) fn check(
    sandbox: &Sandbox,
    environment: &Environment,
    scripts: &Path,
    source: &str,
    permitted: Permitted,
) -> Result<Checked, Error> {
    if source.len() > LARGEST {
        return Ok(Checked::refused(
            "too_large",
            format!("{} bytes; at most {LARGEST} are read", source.len()),
        ));
    }
    let file = input(source.as_bytes())?;
    let inside = format!("{SCRIPTS_AT}/source_check.py");
    let mut program = vec![environment.executable.clone().into_os_string()];
    program.extend(["-I", "-S", "-B", inside.as_str()].map(OsString::from));
    program.extend(permitted.arguments());
    let mut job = Job::new(Kind::Fork { threads: 1 }, program);
    job.read_only = environment
        .mounts()
        .into_iter()
        .map(|path| (path.clone(), path))
        .collect();
    job.read_only.push((scripts.to_owned(), SCRIPTS_AT.into()));
    job.stdin = Some(file.as_raw_fd());
    job.limits.cpu = Duration::from_secs(20);
    job.limits.wall = Duration::from_secs(30);
    job.limits.output_bytes = 4 << 20;
    job.env = vec![("LC_ALL".into(), "C.UTF-8".into())];
    let finished = sandbox.run(&job)?;
    let found = finished
        .exit
        .success()
        .then(|| serde_json::from_slice(&finished.stdout).ok())
        .flatten();
    Ok(found.unwrap_or_else(|| {
        let said = String::from_utf8_lossy(&finished.stderr);
        let last = said.trim().lines().last().unwrap_or_default().to_owned();
        let detail = format!("the source cannot be read ({:?}) {last}", finished.exit);
        Checked::refused("syntax", detail.trim_end())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checking_program_is_told_what_the_problem_permits() {
        let said = |torch, gradients| {
            let permitted = Permitted { torch, gradients };
            permitted.arguments().collect::<Vec<_>>()
        };
        assert!(said(false, false).is_empty());
        assert_eq!(said(true, false), ["--permit-torch"]);
        assert_eq!(said(true, true), ["--permit-torch", "--gradients"]);
    }
}
