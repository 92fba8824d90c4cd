//! Dead letters: messages that no worker could finish, kept with the reason.

use async_nats::HeaderMap;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use bytes::Bytes;
use flopsmith_protocol::{Message, codec, subjects};

use crate::connect::Bus;
use crate::error::{Cause, Error, Result};
use crate::log::RawLog;
use crate::publish::Outgoing;
use crate::streams::stream;

const REASON: &str = "Flopsmith-Reason";
const ATTEMPTS: &str = "Flopsmith-Attempts";
const TRUNCATED: &str = "Flopsmith-Truncated";

/// Most bytes of a reason. Headers cannot hold line ends.
const REASON_BYTES: usize = 1000;

/// A message that left its queue unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number in the stream of dead letters.
    pub sequence: u64,
    /// The queue or log that held the message. Derived from the subject of the letter and not from the letter's
    /// content: a retry then reaches no queue other than one from which the author of the letter may take messages.
    /// Empty if the letter's subject names no queue or log.
    pub subject: String,
    /// Why the message left its queue.
    pub reason: String,
    /// How often the message had been given out.
    pub attempts: u32,
    /// The original message. Empty if the message was too large to be copied.
    pub payload: Bytes,
    /// True if the message was too large to be copied. Such a letter cannot be given out again.
    pub truncated: bool,
    /// When the message became a dead letter: server clock, milliseconds since 1970.
    pub died_unix_ms: u64,
    /// The id of the message. None if the bytes were no message.
    pub id: Option<String>,
}

impl DeadLetter {
    /// The message, if it is of kind `M`.
    pub fn decode<M: Message>(&self) -> Result<M, codec::Error> {
        codec::decode(&self.payload)
    }
}

/// The dead letters in order, followed by new ones as they arrive.
pub struct DeadLetters(RawLog);

impl DeadLetters {
    /// The next dead letter. A cancelled call loses nothing.
    ///
    /// # Errors
    /// [`Error::Closed`] once the bus is drained.
    pub async fn next(&mut self) -> Result<DeadLetter> {
        let raw = self.0.next().await?;
        let headers = raw.message.headers.unwrap_or_default();
        let (at, payload) = (&raw.message.subject, raw.message.payload);
        Ok(read(raw.sequence, at, &headers, payload, raw.unix_ms))
    }

    /// Number of stored dead letters that this reader has not returned yet.
    pub fn pending(&self) -> u64 {
        self.0.pending()
    }
}

fn read(
    sequence: u64,
    at: &str,
    headers: &HeaderMap,
    payload: Bytes,
    died_unix_ms: u64,
) -> DeadLetter {
    let header = |name: &str| Some(headers.get(name)?.as_str().to_owned());
    DeadLetter {
        sequence,
        subject: subjects::died_in(at).unwrap_or_default(),
        reason: header(REASON).unwrap_or_default(),
        attempts: header(ATTEMPTS)
            .and_then(|a| a.parse().ok())
            .unwrap_or_default(),
        truncated: header(TRUNCATED).is_some(),
        id: codec::id_of(&payload),
        payload,
        died_unix_ms,
    }
}

impl Bus {
    /// The dead letter with this number. None if there is no such letter or it was removed.
    ///
    /// # Errors
    /// [`Error::Log`] when the server does not answer.
    pub async fn dead_letter(&self, sequence: u64) -> Result<Option<DeadLetter>> {
        let found = match self.dead_stream().await?.get_raw_message(sequence).await {
            Ok(found) => found,
            Err(source) if source.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(source) => return Err(unreadable(source.into())),
        };
        let unix_ms = unix_ms(found.time.unix_timestamp_nanos());
        Ok(Some(read(
            found.sequence,
            &found.subject,
            &found.headers,
            found.payload,
            unix_ms,
        )))
    }

    /// Gives a dead letter out again. Its message returns to its queue or log as a new message, with all its attempts
    /// before it, and the letter is removed once the message is stored. A second call, as after a lost answer, does not
    /// store the message a second time.
    ///
    /// # Errors
    /// [`Error::NotCopied`] if the message was too large to be kept, and the errors of [`Bus::publish`].
    pub async fn retry_dead(&self, letter: &DeadLetter) -> Result<()> {
        if letter.truncated || letter.subject.is_empty() {
            return Err(Error::NotCopied {
                sequence: letter.sequence,
                subject: letter.subject.clone(),
            });
        }
        self.store(&Outgoing {
            subject: letter.subject.clone(),
            kind: "dead letter",
            // Not the original id: within the dedupe window the server would drop the message as a duplicate.
            id: format!("retry/{}/{}", letter.sequence, letter.died_unix_ms),
            others: Vec::new(),
            payload: letter.payload.clone(),
        })
        .await?;
        self.drop_dead(letter.sequence).await
    }

    /// Removes a dead letter permanently.
    ///
    /// # Errors
    /// [`Error::Log`] when the server does not answer.
    async fn drop_dead(&self, sequence: u64) -> Result<()> {
        match self.dead_stream().await?.delete_message(sequence).await {
            Ok(_) => Ok(()),
            // An earlier call whose answer was lost, or another process, removed the letter.
            Err(_) if self.dead_letter(sequence).await?.is_none() => Ok(()),
            Err(source) => Err(unreadable(source.into())),
        }
    }

    async fn dead_stream(&self) -> Result<Stream> {
        let stream = self.jetstream().get_stream(stream::DEAD).await;
        stream.map_err(|source| unreadable(source.into()))
    }

    /// Reads the dead letters from `sequence` on; 0 reads all.
    pub async fn dead_letters(&self, sequence: u64) -> Result<DeadLetters> {
        Ok(DeadLetters(
            RawLog::open(self, subjects::DEAD, sequence).await?,
        ))
    }

    /// Copies a message to the dead letters. Safe to repeat.
    pub(crate) async fn keep_dead_letter(&self, work: Unprocessable<'_>) -> Result<()> {
        let mut others = vec![
            (REASON.to_owned(), one_line(work.reason)),
            (ATTEMPTS.to_owned(), work.attempts.to_string()),
        ];
        others.extend(work.trace.headers());
        let mut outgoing = Outgoing {
            subject: subjects::dead(work.subject),
            kind: "dead letter",
            id: format!("dead/{}/{}", work.stream, work.sequence),
            others,
            payload: work.payload,
        };
        match self.store(&outgoing).await {
            // The message has the largest permitted size and leaves no room for the headers.
            Err(Error::TooLarge { .. }) => {
                outgoing.payload = Bytes::new();
                outgoing.others.push((TRUNCATED.to_owned(), "1".to_owned()));
                self.store(&outgoing).await.map(drop)
            }
            other => other.map(drop),
        }
    }
}

fn unreadable(source: Cause) -> Error {
    Error::Log {
        subject: subjects::DEAD.to_owned(),
        source,
    }
}

/// Converts a server time in nanoseconds to milliseconds.
pub(crate) fn unix_ms(nanoseconds: i128) -> u64 {
    u64::try_from(nanoseconds / 1_000_000).unwrap_or_default()
}

/// A message that becomes a dead letter.
pub(crate) struct Unprocessable<'a> {
    /// The stream that holds the message. The stream and `sequence` together form the dedupe id of the letter.
    pub stream: &'a str,
    pub subject: &'a str,
    pub sequence: u64,
    pub reason: &'a str,
    pub attempts: u32,
    pub payload: Bytes,
    pub trace: &'a flopsmith_telemetry::TraceContext,
}

fn one_line(reason: &str) -> String {
    let mut line = String::new();
    for c in reason.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > REASON_BYTES {
            break;
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reason_fits_into_a_header(reason in any::<String>()) {
            let line = one_line(&reason);
            prop_assert!(line.len() <= REASON_BYTES);
            prop_assert!(!line.contains(['\r', '\n', '\0']));
        }
    }
}
