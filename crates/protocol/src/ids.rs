//! Newtype ids. Each is a short printable string or number that names one thing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a string is not an id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{kind} `{value}` is not usable as an id: use 1 to 120 letters, digits, `-`, `_` and `.`, not starting or ending with `.`"
)]
pub struct InvalidId {
    kind: &'static str,
    value: String,
}

fn check(kind: &'static str, value: &str) -> Result<(), InvalidId> {
    let fits = !value.is_empty()
        && value.len() <= 120
        && !value.starts_with('.')
        && !value.ends_with('.')
        && !value.contains("..")
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fits {
        Ok(())
    } else {
        Err(InvalidId {
            kind,
            value: value.chars().take(120).collect(),
        })
    }
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks and wraps an id.
            pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
                let value = value.into();
                check($kind, &value)?;
                Ok(Self(value))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(value: String) -> Result<Self, InvalidId> {
                Self::new(value)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(value: &str) -> Result<Self, InvalidId> {
                Self::new(value)
            }
        }
    };
}

string_id!(
    /// The id of a run of `train`, `search` or another job.
    RunId,
    "run"
);
string_id!(
    /// The id of a task: a prompt that a group of samples answers.
    TaskId,
    "task"
);
string_id!(
    /// The id of a group: the samples whose rewards are compared with each other.
    GroupId,
    "group"
);
string_id!(
    /// The id of one program of a group.
    CandidateId,
    "candidate"
);
string_id!(
    /// The id of a problem: the name of its folder.
    ProblemId,
    "problem"
);
string_id!(
    /// The id of a process that runs roles.
    NodeId,
    "node"
);
string_id!(
    /// The name of a class of machines. Timings within a class are comparable.
    MachineClass,
    "machine class"
);

impl MachineClass {
    /// The class of the queues for modules of PyTorch on machines of this class. Only workers with PyTorch take their work.
    ///
    /// # Errors
    /// If the name is too long for another word.
    pub fn of_modules(&self) -> Result<Self, InvalidId> {
        Self::new(format!("{self}.modules"))
    }
}

impl TaskId {
    /// The task of `group` in `step` of `run`.
    pub fn of(run: &RunId, step: u64, group: u32) -> Self {
        Self(format!("{run}-s{step}-g{group}"))
    }

    /// The group's number, if [`TaskId::of`] made the id.
    pub fn group(&self) -> Option<u32> {
        self.0.rsplit_once("-g")?.1.parse().ok()
    }
}

impl GroupId {
    /// A group is the set of answers to one task and shares its name.
    pub fn of(task: &TaskId) -> Self {
        Self(task.0.clone())
    }
}

impl CandidateId {
    /// The `sample`-th answer to `task`.
    pub fn of(task: &TaskId, sample: u32) -> Self {
        Self(format!("{task}-c{sample}"))
    }

    /// The measurement of this candidate after the end of its run.
    pub fn final_one(&self) -> Self {
        Self(format!("{self}-f"))
    }

    /// The `n`-th repeated measurement of this candidate.
    pub fn remeasured(&self, n: u32) -> Self {
        Self(format!("{self}-m{n}"))
    }
}

/// A policy version: the number of times that the learner has published weights in a run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct PolicyVersion(pub u64);

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// The BLAKE3 digest of some bytes, as 64 lower-case hexadecimal digits.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).to_hex().to_string())
    }

    /// The digest as hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidId;
    fn try_from(value: String) -> Result<Self, InvalidId> {
        let digits = value
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if value.len() == 64 && digits {
            Ok(Self(value))
        } else {
            Err(InvalidId {
                kind: "digest",
                value: value.chars().take(120).collect(),
            })
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}
