//! Errors of a model, its files and its text.

use std::path::PathBuf;

/// Every failure of this crate, named after the failed action.
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
    /// A JSON file does not have the expected content.
    #[error("`{}` is no usable JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        #[source]
        source: serde_json::Error,
    },
    /// The folder holds a model this build cannot run.
    #[error("architecture `{found}` is not supported (supported: qwen2, llama)")]
    Architecture {
        /// `model_type` of `config.json`.
        found: String,
    },
    /// `config.json` asks for a feature that this model lacks.
    #[error("config.json: `{field}` {reason}")]
    Config {
        /// The field.
        field: &'static str,
        /// The fault of the value.
        reason: String,
    },
    /// A weights file is damaged.
    #[error("`{origin}` is no readable safetensors data")]
    Safetensors {
        /// The file, or where the bytes came from.
        origin: String,
        /// The message of the file's reader.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A file was never fetched: Git keeps a few lines in its place.
    #[error("`{}` is a Git LFS pointer instead of the file{}: run `git lfs pull` in its folder, or download the file by itself", path.display(), of_bytes(*bytes))]
    Pointer {
        /// The file.
        path: PathBuf,
        /// Size of the file itself in bytes, if the pointer names it.
        bytes: Option<u64>,
    },
    /// The weights are integers with scales, or in 8 bits, for kernels that this crate does not have.
    #[error(
        "the weights in `{origin}` are quantized ({how}), and quantized weights are not supported: use the folder of the original model in bfloat16, float16 or float32, or dequantize the model with the program that quantized it (in transformers, `model.dequantize()`)"
    )]
    Quantized {
        /// The folder, or where the bytes came from.
        origin: String,
        /// How the weights are quantized, as far as the folder says it.
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
        /// The failed operation.
        doing: &'static str,
        /// libtorch's message.
        #[source]
        source: tch::TchError,
    },
    /// An allocation failed.
    #[error("not enough memory to {to}: tried to allocate {bytes} bytes")]
    Memory {
        /// The purpose of the allocation.
        to: &'static str,
        /// Size of the allocation in bytes.
        bytes: usize,
    },
    /// A GPU that is asked for cannot be used.
    #[error(
        "the device \"{wanted}\" cannot be used: libtorch finds {} here (`flopsmith doctor` says why); name another device, or \"auto\", which computes on the CPU where there is no GPU",
        found(*gpus)
    )]
    Device {
        /// The device, as settings name it.
        wanted: String,
        /// Number of GPUs that libtorch can use.
        gpus: usize,
    },
    /// The arguments of a call contradict each other or the model.
    #[error("{0}")]
    Input(String),
    /// The tokenizer failed on its files or on a text.
    #[error("the tokenizer failed to {doing}")]
    Tokenizer {
        /// The failed action.
        doing: &'static str,
        /// The tokenizer's message.
        #[source]
        source: tokenizers::Error,
    },
    /// The chat template cannot be read or applied.
    #[error("the chat template cannot be used")]
    ChatTemplate(#[source] minijinja::Error),
    /// The folder has chat templates by names, and none is the default.
    #[error(
        "the model has chat templates named {}, and none named `default`: give the one to use this name in tokenizer_config.json, or put it into chat_template.jinja",
        quoted(.0)
    )]
    NoDefaultTemplate(Vec<String>),
    /// The thread that renders the chat template cannot be started.
    #[error("the thread that renders the chat template cannot be started")]
    TemplateThread(#[source] std::io::Error),
    /// The chat template refuses the messages by `raise_exception`.
    #[error("the chat template refuses the messages: {0}")]
    Messages(String),
    /// The thread that owns the model is gone.
    #[error("the thread that owns the model has ended")]
    ThreadEnded,
    /// The thread that owns the model cannot be started.
    #[error("the thread that owns the model cannot be started")]
    ThreadStart(#[source] std::io::Error),
    /// The weights are damaged or training went astray: there is no distribution to draw from.
    #[error("the model's scores are not numbers")]
    Scores,
    /// The caller no longer waits for the answer.
    #[error("the caller stopped sampling before it was complete")]
    Stopped,
}

impl Error {
    /// True if memory was short. A smaller computation at once may then succeed.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::Memory { .. } => true,
            Error::Torch { source, .. } => tells_of_memory(&source.to_string()),
            _ => false,
        }
    }
}

impl Error {
    /// True if files or inputs that a user named are at fault; otherwise the fault is in this machine or this program.
    pub fn is_of_the_input(&self) -> bool {
        use std::io::ErrorKind;
        match self {
            // The file exists, but cannot be read: a disk, a network, a limit.
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
            | Error::NoDefaultTemplate(_)
            | Error::Messages(_)
            | Error::Scores => true,
            Error::Write { .. }
            | Error::Torch { .. }
            | Error::Memory { .. }
            | Error::Device { .. }
            | Error::ThreadEnded
            | Error::ThreadStart(_)
            | Error::TemplateThread(_)
            | Error::Stopped => false,
        }
    }
}

fn found(gpus: usize) -> String {
    match gpus {
        0 => "no GPU".to_owned(),
        1 => "GPU 0 only".to_owned(),
        many => format!("GPUs 0 to {}", many - 1),
    }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn of_bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"))
}

/// True if libtorch's message says that memory could not be allocated. Its error is a text, without another sign.
pub fn tells_of_memory(words: &str) -> bool {
    // From libtorch's allocators for processors and GPUs, from C++, and from the libraries for GPUs, in this order.
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

/// Adds the failed action to an error of libtorch.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, tch::TchError> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Torch { doing, source })
    }
}

/// All entries of a list: a few on one line, many on lines of their own.
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
