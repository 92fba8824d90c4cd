//! Failures that no candidate can cause.

use std::io;
use std::path::PathBuf;

/// A failure of the problem, of the Python environment or of this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The definition of a problem has mistakes.
    #[error("{}: {detail}", .path.display())]
    Problem {
        /// The file.
        path: PathBuf,
        /// The mistake.
        detail: String,
    },
    /// No Python with PyTorch is there.
    #[error(
        "{detail}; modules need Python with PyTorch: run `scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6` in the repository, or name an interpreter that has it: FLOPSMITH_PYTHON=/path/to/python"
    )]
    Python {
        /// The finding.
        detail: String,
    },
    /// No Python is there.
    #[error(
        "{detail}; the import needs Python 3.9 or newer: install it (Debian, Ubuntu: `apt install python3`), or name an interpreter: FLOPSMITH_PYTHON=/path/to/python"
    )]
    Interpreter {
        /// The finding.
        detail: String,
    },
    /// The Python with PyTorch cannot interpret and compile kernels of Triton.
    #[error(
        "{python} has no {missing}, which kernels of Triton need beside PyTorch; run `scripts/python.sh --venv target/torch torch==2.11.0 numpy==2.4.6` in the repository, or name an interpreter that has it: FLOPSMITH_PYTHON=/path/to/python"
    )]
    Triton {
        /// The interpreter.
        python: String,
        /// The missing package.
        missing: &'static str,
    },
    /// The interpreter or a package was removed while programs were evaluated.
    #[error(
        "{} is no longer there: the Python at {} or a package of it was removed or replaced while programs were evaluated; install it again, and start anew",
        .file.display(), .python.display()
    )]
    Gone {
        /// The interpreter.
        python: PathBuf,
        /// The missing file.
        file: PathBuf,
    },
    /// CUDA C++ cannot be compiled.
    #[error(
        "{detail}; CUDA C++ needs nvcc and a PyTorch that was built with CUDA: run `scripts/cuda.sh` in the repository, or name a compiler: FLOPSMITH_NVCC=/path/to/nvcc"
    )]
    Cuda {
        /// The finding.
        detail: String,
    },
    /// A trusted process of ours failed.
    #[error("{process}: {detail}")]
    Process {
        /// Its name.
        process: &'static str,
        /// Its error text.
        detail: String,
    },
    /// The timed calls were faster than this machine can be.
    #[error("{detail}")]
    Implausible {
        /// The finding.
        detail: String,
    },
    /// The jail failed.
    #[error(transparent)]
    Jail(#[from] flopsmith_sandbox::Error),
    /// The compiler is missing or cannot compile PyTorch's headers.
    #[error("{detail}; install g++ (Debian, Ubuntu: `apt install g++`)")]
    Compiler {
        /// The finding.
        detail: String,
    },
    /// A compiled candidate cannot be written or read.
    #[error("a compiled candidate cannot be read: {detail}")]
    Package {
        /// The finding.
        detail: String,
    },
    /// The caller ended an evaluation; nothing failed.
    #[error("the evaluation was stopped")]
    Stopped,
    /// A file, a pipe or shared memory failed.
    #[error("could not {what}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// A function that makes the error of a failed operation.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Error::System { what, source }
    }

    /// True if the user can correct the error by other files or arguments.
    pub fn is_of_the_input(&self) -> bool {
        matches!(self, Error::Problem { .. })
    }
}
