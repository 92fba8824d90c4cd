//! What can go wrong with a model, its files and its text.

use std::path::PathBuf;

/// Every failure of this crate, named by what was being done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of a model folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file of a model folder cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A JSON file does not say what it should.
    #[error("`{}` is no usable JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        #[source]
        source: serde_json::Error,
    },
    /// The folder holds a model this build cannot run.
    #[error("architecture `{found}` is not known here (known: qwen2, llama)")]
    Architecture {
        /// `model_type` of `config.json`.
        found: String,
    },
    /// `config.json` asks for something this model does not do.
    #[error("config.json: `{field}` {reason}")]
    Config {
        /// The field.
        field: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// A weights file is damaged.
    #[error("`{origin}` is no readable safetensors data")]
    Safetensors {
        /// The file, or where the bytes came from.
        origin: String,
        /// What its reader said.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A file was never fetched: Git keeps a few lines in its place.
    #[error("`{}` is a Git LFS pointer in the place of the file{}: run `git lfs pull` in its folder, or download the file by itself", path.display(), of_bytes(*bytes))]
    Pointer {
        /// The file.
        path: PathBuf,
        /// Bytes of the file itself, where the pointer says it.
        bytes: Option<u64>,
    },
    /// The weights are whole numbers with scales, or in 8 bits, to be used by kernels that this crate does not have.
    #[error(
        "the weights in `{origin}` are quantized ({how}), and quantized weights are not known here: use the folder of the model as it was before, in bfloat16, float16 or float32, or let the program that quantized it write it back so (in transformers, `model.dequantize()`)"
    )]
    Quantized {
        /// The folder, or where the bytes came from.
        origin: String,
        /// How, as far as the folder says it.
        how: String,
    },
    /// The tensors found are not those that the configuration asks for.
    #[error(
        "the weights in `{origin}` do not fit the configuration: {}",
        list(problems)
    )]
    Weights {
        /// The folder, or where the bytes came from.
        origin: String,
        /// One entry for each missing, misshapen, unreadable or surplus tensor.
        problems: Vec<String>,
    },
    /// libtorch refused an operation.
    #[error("libtorch failed to {doing}")]
    Torch {
        /// What was being computed.
        doing: &'static str,
        /// Its message.
        #[source]
        source: tch::TchError,
    },
    /// There is no memory for something.
    #[error("not enough memory to {to}: tried to allocate {bytes} bytes")]
    Memory {
        /// What it was for.
        to: &'static str,
        /// How much it would have been.
        bytes: usize,
    },
    /// The arguments of a call contradict each other or the model.
    #[error("{0}")]
    Input(String),
    /// The tokenizer's files or a text made it fail.
    #[error("the tokenizer failed to {doing}")]
    Tokenizer {
        /// What it was doing.
        doing: &'static str,
        /// Its message.
        #[source]
        source: tokenizers::Error,
    },
    /// The chat template cannot be read or applied.
    #[error("the chat template cannot be used")]
    ChatTemplate(#[source] minijinja::Error),
    /// The thread that owns the model is gone.
    #[error("the thread that owns the model has ended")]
    ThreadEnded,
    /// The thread that owns the model cannot be started.
    #[error("the thread that owns the model cannot be started")]
    ThreadStart(#[source] std::io::Error),
    /// The weights are damaged or training went astray: there is no distribution to draw from.
    #[error("the model's scores are no numbers")]
    Scores,
    /// Whoever asked no longer waits for the answer.
    #[error("sampling was stopped before it was complete")]
    Stopped,
}

impl Error {
    /// Was there no memory for it? Then less has to be computed at once.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::Memory { .. } => true,
            Error::Torch { source, .. } => tells_of_memory(&source.to_string()),
            _ => false,
        }
    }
}

impl Error {
    /// Are the files or inputs at fault that a user named? Otherwise this machine is, or this program.
    pub fn is_of_the_input(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            // There is something, but it cannot be got at: a disk, a network, a limit.
            Error::Read { source, .. } => matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::PermissionDenied
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::InvalidData
            ),
            Error::Json { .. }
            | Error::Architecture { .. }
            | Error::Config { .. }
            | Error::Safetensors { .. }
            | Error::Pointer { .. }
            | Error::Quantized { .. }
            | Error::Weights { .. }
            | Error::Input(_)
            | Error::Tokenizer { .. }
            | Error::ChatTemplate(_)
            | Error::Scores => true,
            Error::Write { .. }
            | Error::Torch { .. }
            | Error::Memory { .. }
            | Error::ThreadEnded
            | Error::ThreadStart(_)
            | Error::Stopped => false,
        }
    }
}

fn of_bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"))
}

/// Do libtorch's words say that memory could not be allocated? It has no other sign of it: its error is a text.
pub fn tells_of_memory(words: &str) -> bool {
    // Of its allocators for processors and GPUs, of C++, and of the libraries for GPUs, in this order.
    const SIGNS: [&str; 6] = [
        "not enough memory",
        "can't allocate memory",
        "out of memory",
        "cannot allocate memory",
        "bad_alloc",
        "status_alloc_failed",
    ];
    let words = words.to_lowercase();
    SIGNS.iter().any(|sign| words.contains(sign))
}

/// The result of this crate's fallible calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names what libtorch was doing when it failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, tch::TchError> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Torch { doing, source })
    }
}

/// All of a list: a few on one line, many on lines of their own.
fn list(problems: &[String]) -> String {
    const ON_ONE_LINE: usize = 6;
    match problems.len() {
        0..=ON_ONE_LINE => problems.join("; "),
        many => format!("{many} of its tensors:\n  {}", problems.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_is_told_from_other_failures() {
        let lacks = [
            "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate \
             8589934592 bytes. Error code 12 (Cannot allocate memory)",
            "[enforce fail at alloc_cpu.cpp:116] data. DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes.",
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "std::bad_alloc",
        ];
        for words in lacks {
            assert!(tells_of_memory(words), "{words}");
        }
        let others = [
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
            "CUDA error: an illegal memory access was encountered",
            "index out of range in self",
        ];
        for words in others {
            assert!(!tells_of_memory(words), "{words}");
        }
        assert!(!Error::ThreadEnded.is_out_of_memory());
    }
}
