//! Errors of the store.

use std::io::ErrorKind;

/// Why the store could not save or read data. `place` is a path or URL for the message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL names no store.
    #[error("`{url}` does not name a store: give a folder or an s3://, gs:// or az:// address")]
    Url {
        /// The address that was given.
        url: String,
        /// The error of object_store.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address lacks the slashes after its scheme.
    #[error(
        "`{url}` does not name a store: two slashes follow a scheme, as in {scheme}://{rest}; a folder of this name is ./{url}"
    )]
    Slashes {
        /// The address that was given.
        url: String,
        /// Its scheme.
        scheme: String,
        /// The text that belongs after the two slashes.
        rest: String,
    },
    /// The local folder cannot be created, or the path is no folder.
    #[error("`{path}` cannot be used as the store's folder")]
    Folder {
        /// The folder.
        path: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// No store answers at the address.
    #[error(
        "the store `{name}` cannot be reached: check the address (AWS_ENDPOINT_URL for a self-hosted store), check that the store is running, and set AWS_ALLOW_HTTP=true if it does not speak https"
    )]
    Unreachable {
        /// The name of the store.
        name: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// The bucket, or the cloud's equivalent of a bucket, does not exist.
    #[error(
        "the bucket of the store `{name}` does not exist: create it first, or name another one"
    )]
    NoBucket {
        /// The name of the store.
        name: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// The store refuses the credentials, or they lack a needed permission.
    #[error(
        "the store `{name}` refuses these credentials: use credentials that permit reading, writing, listing and removing (AWS_…, GOOGLE_… or AZURE_… variables, or credentials that the cloud gives the machine)"
    )]
    Denied {
        /// The name of the store.
        name: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// The clock of this machine or of the store is wrong. Requests are signed with their time.
    #[error(
        "the store refuses `{place}`, because this machine's clock and the store's clock differ too much: set the wrong clock right (chrony, ntpd, systemd-timesyncd)"
    )]
    Clock {
        /// The file to read or write, or the store.
        place: String,
    },
    /// No space or quota is left.
    #[error(
        "no space is left to write `{place}`: free some space, or put the store on another disk"
    )]
    Full {
        /// The file to write.
        place: String,
        /// The error of the system.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Writing is not permitted.
    #[error(
        "this process may not write `{place}`: the folder or file system is read-only, or belongs to another user"
    )]
    ReadOnly {
        /// The file to write.
        place: String,
        /// The error of the system.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Writing failed for another reason.
    #[error("`{place}` cannot be written")]
    Write {
        /// The file to write.
        place: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// Reading failed.
    #[error("`{place}` cannot be read")]
    Read {
        /// The file to read.
        place: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// A folder or prefix could not be listed.
    #[error("the content of `{place}` cannot be listed")]
    List {
        /// The folder or prefix.
        place: String,
        /// The error of object_store.
        #[source]
        source: object_store::Error,
    },
    /// An old checkpoint or an artifact could not be removed.
    #[error("`{place}` cannot be removed")]
    Remove {
        /// The file, folder or prefix.
        place: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file or checkpoint does not exist.
    #[error("`{place}` does not exist")]
    Missing {
        /// The file or checkpoint to read.
        place: String,
    },
    /// The content differs from the content that was written.
    #[error("`{place}` is damaged: {detail}")]
    Damaged {
        /// The file or checkpoint that was read.
        place: String,
        /// How the content differs.
        detail: String,
    },
    /// A name that is no valid file name in every kind of store.
    #[error(
        "`{0}` cannot be a file name in a checkpoint: use letters, digits, `-`, `_` and `.`; use each name once; do not use manifest.json or meta.json"
    )]
    Name(String),
    /// The checkpoint's own description cannot be written as JSON.
    #[error("the description of checkpoint `{place}` cannot be written as JSON")]
    Describe {
        /// The checkpoint.
        place: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Classifies the error of a write. Errors that the user can repair have variants of their own.
    pub(crate) fn write(place: String, source: object_store::Error) -> Self {
        if is_skewed(&source) {
            return Error::Clock { place };
        }
        if matches!(source, object_store::Error::PermissionDenied { .. }) {
            return Error::ReadOnly {
                place,
                source: Box::new(source),
            };
        }
        match io_kind(&source) {
            Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Error::Full {
                place,
                source: Box::new(source),
            },
            Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => Error::ReadOnly {
                place,
                source: Box::new(source),
            },
            _ => Error::Write { place, source },
        }
    }

    /// Classifies the error of a store that cannot be used at all.
    pub(crate) fn unusable(name: String, source: object_store::Error) -> Self {
        use object_store::Error as E;
        match source {
            source if is_skewed(&source) => Error::Clock { place: name },
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                Error::Denied { name, source }
            }
            // For a file that is being written, only the bucket can be missing.
            E::NotFound { .. } => Error::NoBucket { name, source },
            source if io_kind(&source).is_some() => Error::write(name, source),
            source => Error::Unreachable { name, source },
        }
    }

    /// Classifies the error of a read.
    pub(crate) fn read(place: String, source: object_store::Error) -> Self {
        match source {
            object_store::Error::NotFound { .. } => Error::Missing { place },
            source if is_skewed(&source) => Error::Clock { place },
            source => Error::Read { place, source },
        }
    }

    /// True if the address itself is wrong, so that its user can correct it.
    pub fn is_of_the_input(&self) -> bool {
        matches!(self, Error::Url { .. } | Error::Slashes { .. })
    }

    /// True if the content itself is missing or damaged. False if only the access to it failed.
    pub fn is_loss(&self) -> bool {
        matches!(self, Error::Missing { .. } | Error::Damaged { .. })
    }
}

/// True if the store reports that a request's time is too far from the store's own.
fn is_skewed(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(e) = next {
        if e.to_string().contains("RequestTimeTooSkewed") {
            return true;
        }
        next = e.source();
    }
    false
}

/// The kind of the first input/output error in a chain of sources.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<std::io::Error>() {
            return Some(io.kind());
        }
        next = e.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_is_named() {
        let refused = || object_store::Error::PermissionDenied {
            path: "x".into(),
            source: "403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code></Error>".into(),
        };
        let place = || "s3://bucket/x".to_owned();
        for error in [
            Error::read(place(), refused()),
            Error::write(place(), refused()),
            Error::unusable(place(), refused()),
        ] {
            assert!(matches!(error, Error::Clock { .. }), "{error:?}");
            assert!(error.to_string().contains("clock"), "{error}");
        }
    }

    fn failed(os_error: i32) -> Error {
        let io = std::io::Error::from_raw_os_error(os_error);
        // Wrapped as a store wraps it: one layer around the system's error.
        #[derive(Debug, thiserror::Error)]
        #[error("unable to copy data")]
        struct Layer(#[source] std::io::Error);
        let source = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(Layer(io)),
        };
        Error::write("/data/x".to_owned(), source)
    }

    #[test]
    fn errors_that_a_user_can_mend_are_told_apart() {
        const ENOSPC: i32 = 28;
        const EDQUOT: i32 = 122;
        const EROFS: i32 = 30;
        const EACCES: i32 = 13;
        const EIO: i32 = 5;
        assert!(matches!(failed(ENOSPC), Error::Full { .. }));
        assert!(matches!(failed(EDQUOT), Error::Full { .. }));
        assert!(matches!(failed(EROFS), Error::ReadOnly { .. }));
        assert!(matches!(failed(EACCES), Error::ReadOnly { .. }));
        assert!(matches!(failed(EIO), Error::Write { .. }));
        assert!(failed(ENOSPC).to_string().contains("/data/x"));
    }
}
