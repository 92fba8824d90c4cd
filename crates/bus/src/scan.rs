//! Reads everything that a bus keeps, once. The caller learns which artifacts are still referred to.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull::OrderedConfig};
use async_nats::jetstream::stream::{RawMessageErrorKind, RetentionPolicy};
use futures::{StreamExt, TryStreamExt};

use crate::connect::Bus;
use crate::error::{Error, Result};
use crate::streams::stream;

/// The prefix of the streams that hold key-value buckets.
const BUCKETS: &str = "KV_fs_";
/// A stored message arrives within this time.
const SILENCE: Duration = Duration::from_secs(30);

impl Bus {
    /// Passes the content of every message of the Flopsmith streams and buckets to `each`. Messages that arrive during
    /// the scan may be included or not.
    ///
    /// # Errors
    /// [`Error::Scan`] if the server does not answer. Messages may have been left out then.
    pub async fn scan(&self, mut each: impl FnMut(&[u8])) -> Result<()> {
        let failed = |source| Error::Scan { source };
        let mut names: Vec<String> = self
            .jetstream()
            .stream_names()
            .try_collect()
            .await
            .map_err(|e| failed(e.into()))?;
        // The work queues come first: a message that leaves its queue during the scan has its successor in another
        // stream, which is read later.
        names.sort_by_key(|name| name != stream::WORK);
        let ours =
            |name: &String| stream::ALL.contains(&name.as_str()) || name.starts_with(BUCKETS);
        for name in names.into_iter().filter(ours) {
            let mut stream = self
                .jetstream()
                .get_stream(&name)
                .await
                .map_err(|e| failed(e.into()))?;
            let info = stream.info().await.map_err(|e| failed(e.into()))?;
            let (last, messages) = (info.state.last_sequence, info.state.messages);
            if messages == 0 {
                continue;
            }
            // A work queue permits no second consumer, so its messages are read one by one.
            if info.config.retention == RetentionPolicy::WorkQueue {
                // The loop reads to the current end and not only to the last message at the start of the scan. A
                // message that is worked off during the scan has already passed its references on to a later message.
                let mut from = info.state.first_sequence;
                loop {
                    let next = stream.get_first_raw_message_by_subject(">", from).await;
                    let message = match next {
                        Ok(message) => message,
                        Err(e) if e.kind() == RawMessageErrorKind::NoMessageFound => break,
                        // A scan with a missing answer must fail, because its caller would take it for complete.
                        Err(e) => return Err(failed(e.into())),
                    };
                    each(&message.payload);
                    from = message.sequence + 1;
                }
                continue;
            }
            let reader = stream
                .create_consumer(OrderedConfig {
                    deliver_policy: DeliverPolicy::All,
                    ..OrderedConfig::default()
                })
                .await
                .map_err(|e| failed(e.into()))?;
            #[expect(
                clippy::disallowed_methods,
                reason = "a reader of its own, which takes nothing from anybody"
            )]
            let mut read = reader.messages().await.map_err(|e| failed(e.into()))?;
            loop {
                let next = tokio::time::timeout(SILENCE, read.next()).await;
                let next = next.map_err(|e| failed(e.into()))?;
                let Some(message) = next else {
                    return Err(failed(
                        "the subscription was closed before the last message of a stream".into(),
                    ));
                };
                let message = message.map_err(|e| failed(e.into()))?;
                each(&message.payload);
                let info = message.info().map_err(failed)?;
                if info.pending == 0 || info.stream_sequence >= last {
                    break;
                }
            }
        }
        Ok(())
    }
}
