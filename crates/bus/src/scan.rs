//! Everything that is kept on a bus, read once: for whoever has to know what is still referred to.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull::OrderedConfig};
use async_nats::jetstream::stream::{RawMessageErrorKind, RetentionPolicy};
use futures::{StreamExt, TryStreamExt};

use crate::connect::Bus;
use crate::error::{Error, Result};
use crate::streams::stream;

/// Streams of key-value buckets begin so.
const BUCKETS: &str = "KV_fs_";
/// What is there comes at once.
const SILENCE: Duration = Duration::from_secs(30);

impl Bus {
    /// Gives the content of every message of our streams and buckets to `each`. What comes meanwhile
    /// may be among them or not.
    ///
    /// # Errors
    /// [`Error::Stream`] when the server does not answer: then something may have been passed over.
    pub async fn scan(&self, mut each: impl FnMut(&[u8])) -> Result<()> {
        let failed = |name, source| Error::Stream { name, source };
        let any = "streams of the bus";
        let mut names: Vec<String> = self
            .jetstream()
            .stream_names()
            .try_collect()
            .await
            .map_err(|e| failed(any, e.into()))?;
        // Work first: what leaves its queue meanwhile goes to one of the others, which are read then.
        names.sort_by_key(|name| name != stream::WORK);
        let ours =
            |name: &String| stream::ALL.contains(&name.as_str()) || name.starts_with(BUCKETS);
        for name in names.into_iter().filter(ours) {
            let mut stream = self
                .jetstream()
                .get_stream(&name)
                .await
                .map_err(|e| failed(any, e.into()))?;
            let info = stream.info().await.map_err(|e| failed(any, e.into()))?;
            let (last, messages) = (info.state.last_sequence, info.state.messages);
            if messages == 0 {
                continue;
            }
            // Of a work queue nobody else may take anything, so its messages are read one by one.
            if info.config.retention == RetentionPolicy::WorkQueue {
                // To the very end and not to what was the last when it began: what is worked off meanwhile has passed on what it
                // refers to before, to a message behind it.
                let mut from = info.state.first_sequence;
                loop {
                    let next = stream.get_first_raw_message_by_subject(">", from).await;
                    let message = match next {
                        Ok(message) => message,
                        Err(e) if e.kind() == RawMessageErrorKind::NoMessageFound => break,
                        // Whoever is not answered must not pass for one who has seen all.
                        Err(e) => return Err(failed(any, e.into())),
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
                .map_err(|e| failed(any, e.into()))?;
            #[expect(
                clippy::disallowed_methods,
                reason = "a reader of its own, which takes nothing from anybody"
            )]
            let mut read = reader.messages().await.map_err(|e| failed(any, e.into()))?;
            loop {
                let next = tokio::time::timeout(SILENCE, read.next()).await;
                let next = next.map_err(|e| failed(any, e.into()))?;
                let Some(message) = next else {
                    return Err(failed(any, "a stream ended before its end".into()));
                };
                let message = message.map_err(|e| failed(any, e.into()))?;
                each(&message.payload);
                let info = message.info().map_err(|e| failed(any, e))?;
                if info.pending == 0 || info.stream_sequence >= last {
                    break;
                }
            }
        }
        Ok(())
    }
}
