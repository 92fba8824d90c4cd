//! Errors of training.

use flopsmith_config::OutOfRange;

/// Every failure of this crate, named after the failed action.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model refused an operation.
    #[error("the model failed to {doing}")]
    Model {
        /// The failed action.
        doing: &'static str,
        /// The model's error.
        #[source]
        source: flopsmith_policy::Error,
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
    /// A setting has no meaning.
    #[error(transparent)]
    Setting(#[from] OutOfRange),
    /// Samples or examples contradict themselves or the model.
    #[error("{0}")]
    Input(String),
    /// The loss or the gradient is infinite or no number. No weight was changed by this update.
    #[error("{what} is not finite in update {update}; the update was skipped")]
    NotFinite {
        /// The quantity.
        what: &'static str,
        /// Updates of the weights done before.
        update: u64,
    },
    /// Several updates in a row were not finite. The weights or the step size are the cause, and further updates would
    /// be skipped as well.
    #[error(
        "{in_a_row} updates in a row were skipped: use a smaller learning rate, or continue from an earlier checkpoint"
    )]
    TooManySkipped {
        /// Number of skipped updates.
        in_a_row: u32,
        /// The reason of the last skip.
        #[source]
        source: Box<Error>,
    },
    /// A file of a saved state is missing or does not fit this learner.
    #[error("the saved state's `{file}` cannot be used: {reason}")]
    State {
        /// The file.
        file: &'static str,
        /// The fault of the file.
        reason: String,
    },
    /// A file of a saved state is damaged, or cannot be made.
    #[error("the saved state's `{file}` is no usable safetensors data")]
    Safetensors {
        /// The file.
        file: &'static str,
        /// The message of the file's reader.
        #[source]
        source: safetensors::SafeTensorError,
    },
    /// A file of a saved state is damaged, or cannot be made.
    #[error("the saved state's `{file}` is no usable JSON")]
    Json {
        /// The file.
        file: &'static str,
        /// Line, column and reason.
        #[source]
        source: serde_json::Error,
    },
    /// A training thread cannot be started.
    #[error("a training thread cannot be started")]
    ThreadStart(#[source] std::io::Error),
    /// A training thread ended in the middle of its work.
    #[error("a training thread ended in the middle of its work")]
    ThreadEnded,
}

impl Error {
    /// True if memory was short. A smaller computation at once may then succeed.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::Model { source, .. } => source.is_out_of_memory(),
            Error::Torch { source, .. } => {
                flopsmith_policy::error::tells_of_memory(&source.to_string())
            }
            _ => false,
        }
    }
}

/// The result of this crate's fallible calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the failed action to an error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, tch::TchError> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Torch { doing, source })
    }
}

impl<T> Doing<T> for std::result::Result<T, flopsmith_policy::Error> {
    fn doing(self, doing: &'static str) -> Result<T> {
        self.map_err(|source| Error::Model { doing, source })
    }
}
