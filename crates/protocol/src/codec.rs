//! The envelope and its MessagePack form.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{messages, outcome, run};

/// The version of every schema in this crate.
pub const VERSION: u16 = 1;

/// A message that has a place on the bus.
pub trait Message: Serialize + DeserializeOwned + JsonSchema {
    /// The message's name in the envelope, and the name of its file in `schemas/`.
    const KIND: &'static str;
    /// The id by which repeated effects of the message count once; the broker drops duplicates by it, too.
    fn id(&self) -> String;
}

macro_rules! message {
    ($type:ty, $kind:literal, |$m:ident| $id:expr) => {
        impl Message for $type {
            const KIND: &'static str = $kind;
            fn id(&self) -> String {
                let $m = self;
                $id
            }
        }
    };
}

message!(messages::Task, "task", |m| format!("task/{}", m.id));
message!(messages::Candidate, "candidate", |m| format!(
    "candidate/{}",
    m.candidate.id
));
message!(messages::Rollout, "rollout", |m| format!(
    "rollout/{}",
    m.candidate.id
));
message!(messages::Compiled, "compiled", |m| format!(
    "compiled/{}",
    m.candidate.id
));
message!(messages::Verified, "verified", |m| format!(
    "verified/{}",
    m.compiled.candidate.id
));
message!(outcome::Outcome, "outcome", |m| format!(
    "outcome/{}",
    m.candidate.id
));
message!(messages::PolicyPublished, "policy_published", |m| format!(
    "policy/{}/{}",
    m.run, m.version
));
// A later session attests the machine anew, and its measurements name the new attestation.
// Timers for several problems may attest the same.
message!(
    messages::MachineFacts,
    "machine_facts",
    |m| match &m.problem {
        None => format!("machine/{}/{}/{}", m.run, m.node, m.attestation),
        Some(problem) => format!("machine/{}/{}/{}/{problem}", m.run, m.node, m.attestation),
    }
);
message!(messages::StageChanged, "stage_changed", |m| format!(
    "stage/{}/{}/{}",
    m.run, m.problem, m.step
));

// A later session with other settings replaces it.
message!(run::RunSpec, "run_spec", |m| format!("run/{}", m.run));

/// The envelope of a message: a version, a kind, an id and the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope<M> {
    /// Schema version.
    pub v: u16,
    /// Kind of the message.
    pub kind: String,
    /// Id of the message.
    pub id: String,
    /// The message.
    pub body: M,
}

/// The reason why bytes are not a message. Such a message goes to the dead letters and is not retried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not an envelope.
    #[error("the bytes are not a message envelope")]
    Malformed(#[source] rmp_serde::decode::Error),
    /// A newer (or much older) Flopsmith wrote the message.
    #[error(
        "message version {found} is not known here (this build reads version {VERSION}): update this node"
    )]
    UnknownVersion {
        /// The version in the envelope.
        found: u16,
    },
    /// The subject carries another message.
    #[error("message kind `{found}` where `{expected}` was expected")]
    WrongKind {
        /// The kind in the envelope.
        found: String,
        /// The expected kind.
        expected: &'static str,
    },
    /// The envelope is valid and its message is not.
    #[error("the body of a `{kind}` message does not fit its schema")]
    Body {
        /// The kind in the envelope.
        kind: &'static str,
        /// The place of the error.
        #[source]
        source: rmp_serde::decode::Error,
    },
    /// The bytes hold more than one envelope.
    #[error("{0} bytes are left over behind the message")]
    Trailing(usize),
    /// The message cannot be encoded.
    #[error("the message cannot be written as MessagePack")]
    Encode(#[source] rmp_serde::encode::Error),
}

#[derive(Deserialize)]
struct Head {
    v: u16,
    kind: String,
}

/// Puts a message into its envelope and writes it as named MessagePack maps.
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, Error> {
    #[derive(Serialize)]
    struct Borrowed<'a, M> {
        v: u16,
        kind: &'a str,
        id: &'a str,
        body: &'a M,
    }
    rmp_serde::to_vec_named(&Borrowed {
        v: VERSION,
        kind: M::KIND,
        id: &message.id(),
        body: message,
    })
    .map_err(Error::Encode)
}

/// Reads a message of the expected kind. Unknown fields are ignored; unknown versions, other kinds and left-over bytes are errors.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, Error> {
    // Nearly all messages are of the expected kind, so they are decoded once.
    let whole: Option<Envelope<M>> = read_in_place(bytes);
    if let Some(envelope) = whole
        && envelope.v == VERSION
        && envelope.kind == M::KIND
    {
        return Ok(envelope.body);
    }
    // The error names the outermost mistake.
    let head: Head =
        read(bytes).map_err(|e| e.unwrap_or_else(Error::Trailing, Error::Malformed))?;
    if head.v != VERSION {
        return Err(Error::UnknownVersion { found: head.v });
    }
    if head.kind != M::KIND {
        return Err(Error::WrongKind {
            found: head.kind.chars().take(80).collect(),
            expected: M::KIND,
        });
    }
    let envelope: Envelope<M> = read(bytes).map_err(|e| {
        e.unwrap_or_else(Error::Trailing, |source| Error::Body {
            kind: M::KIND,
            source,
        })
    })?;
    Ok(envelope.body)
}

/// The id of a message of any kind and version; none if the bytes are not an envelope.
pub fn id_of(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    read::<Named>(bytes).ok().map(|named| named.id)
}

/// The message as JSON for people, of any kind and version; none if the bytes are not an envelope. Bytes in it become
/// lists of numbers.
pub fn to_json(bytes: &[u8]) -> Option<serde_json::Value> {
    read::<Envelope<serde_json::Value>>(bytes)
        .ok()
        .and_then(|envelope| serde_json::to_value(envelope).ok())
}

enum ReadError {
    Trailing(usize),
    Decode(rmp_serde::decode::Error),
}

impl ReadError {
    fn unwrap_or_else(
        self,
        trailing: impl FnOnce(usize) -> Error,
        decode: impl FnOnce(rmp_serde::decode::Error) -> Error,
    ) -> Error {
        match self {
            ReadError::Trailing(n) => trailing(n),
            ReadError::Decode(e) => decode(e),
        }
    }
}

/// The value that fills all of `bytes`, read without copying them first; none on any error: [`read`] returns the
/// reason.
fn read_in_place<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(MOST_NESTED);
    let value = T::deserialize(&mut reader).ok()?;
    // The reader does not tell its position. Any further value begins with a marker, and a boolean needs no byte after
    // its marker.
    match bool::deserialize(&mut reader) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(end))
            if end.kind() == std::io::ErrorKind::UnexpectedEof =>
        {
            Some(value)
        }
        _ => None,
    }
}

/// A hostile message must not overflow the stack.
const MOST_NESTED: usize = 64;

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ReadError> {
    let mut cursor = std::io::Cursor::new(bytes);
    let mut reader = rmp_serde::Deserializer::new(&mut cursor);
    reader.set_max_depth(MOST_NESTED);
    let value = T::deserialize(&mut reader).map_err(ReadError::Decode)?;
    let left = bytes.len() - usize::try_from(cursor.position()).unwrap_or(bytes.len());
    if left > 0 {
        return Err(ReadError::Trailing(left));
    }
    Ok(value)
}
