//! Dead letters: what nobody could work off, kept with the reason.

use async_nats::HeaderMap;
use bytes::Bytes;
use flopsmith_protocol::{Message, codec, subjects};

use crate::connect::Bus;
use crate::error::{Error, Result};
use crate::log::RawLog;
use crate::publish::Outgoing;
use crate::streams::stream;

const SUBJECT: &str = "Flopsmith-Subject";
const REASON: &str = "Flopsmith-Reason";
const ATTEMPTS: &str = "Flopsmith-Attempts";
const TRUNCATED: &str = "Flopsmith-Truncated";

/// Headers cannot hold line ends, and a reason is for people.
const REASON_BYTES: usize = 1000;

/// A message that left its queue without having been worked off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Where it stands among the dead letters.
    pub sequence: u64,
    /// The queue it was in.
    pub subject: String,
    /// Why it left.
    pub reason: String,
    /// How often it had been given out.
    pub attempts: u32,
    /// The message as it was; empty when it was too large to be copied.
    pub payload: Bytes,
}

impl DeadLetter {
    /// The message, if it is one of this kind.
    pub fn decode<M: Message>(&self) -> Result<M, codec::Error> {
        codec::decode(&self.payload)
    }
}

/// The dead letters in order, then new ones as they come.
pub struct DeadLetters(RawLog);

impl DeadLetters {
    /// The next dead letter. Cancelling it loses nothing.
    ///
    /// # Errors
    /// [`Error::Closed`] once the bus is drained.
    pub async fn next(&mut self) -> Result<DeadLetter> {
        let raw = self.0.next().await?;
        let header = |name: &str| {
            let headers = raw.message.headers.as_ref()?;
            Some(headers.get(name)?.as_str().to_owned())
        };
        Ok(DeadLetter {
            sequence: raw.sequence,
            subject: header(SUBJECT).unwrap_or_default(),
            reason: header(REASON).unwrap_or_default(),
            attempts: header(ATTEMPTS)
                .and_then(|a| a.parse().ok())
                .unwrap_or_default(),
            payload: raw.message.payload,
        })
    }

    /// Dead letters that are there and have not been returned.
    pub fn pending(&self) -> u64 {
        self.0.pending()
    }
}

impl Bus {
    /// Reads the dead letters from `sequence` on; 0 reads all.
    pub async fn dead_letters(&self, sequence: u64) -> Result<DeadLetters> {
        Ok(DeadLetters(
            RawLog::open(self, subjects::DEAD, sequence).await?,
        ))
    }

    /// Copies a message to the dead letters. Safe to repeat.
    pub(crate) async fn bury(&self, corpse: Corpse<'_>) -> Result<()> {
        let mut headers = HeaderMap::new();
        let id = format!("dead/{}/{}", stream::WORK, corpse.sequence);
        headers.insert(async_nats::header::NATS_MESSAGE_ID, id.as_str());
        headers.insert(SUBJECT, corpse.subject);
        headers.insert(REASON, one_line(corpse.reason).as_str());
        headers.insert(ATTEMPTS, corpse.attempts.to_string().as_str());
        for (name, value) in corpse.trace.headers() {
            headers.insert(name.as_str(), value.as_str());
        }
        let mut outgoing = Outgoing {
            subject: subjects::dead(corpse.subject),
            kind: "dead letter",
            headers,
            payload: corpse.payload,
        };
        match self.store(&outgoing).await {
            // The headers do not fit behind a message that is as large as can be.
            Err(Error::TooLarge { .. }) => {
                outgoing.payload = Bytes::new();
                outgoing.headers.insert(TRUNCATED, "1");
                self.store(&outgoing).await.map(drop)
            }
            other => other.map(drop),
        }
    }
}

/// A message about to become a dead letter.
pub(crate) struct Corpse<'a> {
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
