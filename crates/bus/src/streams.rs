//! The streams of a Flopsmith bus.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use flopsmith_protocol::subjects;
use futures::TryStreamExt;

use crate::connect::Bus;
use crate::error::{Error, Result};

/// Names of the streams.
pub mod stream {
    /// Work queues: a message goes when somebody has worked it off.
    pub const WORK: &str = "WORK";
    /// Outcomes of every run.
    pub const OUTCOME: &str = "OUTCOME";
    /// Rollouts of every run.
    pub const ROLLOUT: &str = "ROLLOUT";
    /// Policy versions and stage changes of every run.
    pub const EVENT: &str = "EVENT";
    /// What nobody could work off.
    pub const DEAD: &str = "DEAD";
}

/// How the streams are set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSetup {
    /// Copies of each stream: 1 on a single server, 3 in production.
    pub replicas: usize,
    /// Within this time the same message id is stored once. The server keeps
    /// about 100 bytes per message of the window in memory.
    pub duplicate_window: Duration,
    /// Logs and dead letters older than this are dropped; none keeps them.
    pub log_max_age: Option<Duration>,
}

impl Default for RunSetup {
    fn default() -> Self {
        Self {
            replicas: 1,
            // Long enough that a run which is stopped and resumed does not do
            // the step again that it was in.
            duplicate_window: Duration::from_secs(2 * 3600),
            log_max_age: None,
        }
    }
}

impl Bus {
    /// Makes the streams, or changes them to this setup. May be called by every node at every start.
    ///
    /// On a private server, the first call also forgets who held which message
    /// when the run was stopped: nobody can hold one any more, so all of them
    /// are given out again at once, and being killed does not count as a failed attempt.
    pub async fn ensure_streams(&self, setup: &RunSetup) -> Result<()> {
        let plan = [
            (stream::WORK, subjects::WORK, RetentionPolicy::WorkQueue),
            (stream::OUTCOME, subjects::OUTCOMES, RetentionPolicy::Limits),
            (stream::ROLLOUT, subjects::ROLLOUTS, RetentionPolicy::Limits),
            (stream::EVENT, subjects::EVENTS, RetentionPolicy::Limits),
            (stream::DEAD, subjects::DEAD, RetentionPolicy::Limits),
        ];
        for (name, subject, retention) in plan {
            let logs = retention == RetentionPolicy::Limits;
            let max_age = setup.log_max_age.filter(|_| logs).unwrap_or_default();
            let config = Config {
                name: name.to_owned(),
                subjects: vec![subject.to_owned()],
                retention,
                storage: StorageType::File,
                num_replicas: setup.replicas,
                // A full store refuses new messages; it never drops what it confirmed.
                discard: DiscardPolicy::New,
                max_age,
                duplicate_window: if max_age.is_zero() {
                    setup.duplicate_window
                } else {
                    setup.duplicate_window.min(max_age)
                },
                allow_direct: logs,
                ..Config::default()
            };
            self.jetstream()
                .create_or_update_stream(config)
                .await
                .map_err(|source| Error::Stream {
                    name,
                    source: source.into(),
                })?;
        }
        if self
            .private()
            .is_some_and(|fresh| fresh.swap(false, Ordering::SeqCst))
        {
            self.forget_holders().await?;
        }
        Ok(())
    }

    async fn forget_holders(&self) -> Result<()> {
        let name = stream::WORK;
        let work = self
            .jetstream()
            .get_stream(name)
            .await
            .map_err(|source| Error::Stream {
                name,
                source: source.into(),
            })?;
        let durables: Vec<String> =
            work.consumer_names()
                .try_collect()
                .await
                .map_err(|source| Error::Stream {
                    name,
                    source: source.into(),
                })?;
        for durable in durables {
            work.delete_consumer(&durable)
                .await
                .map_err(|source| Error::Stream {
                    name,
                    source: source.into(),
                })?;
        }
        Ok(())
    }
}

/// The stream that keeps `subject`.
pub(crate) fn stream_of(subject: &str) -> Option<&'static str> {
    let kind = subject.strip_prefix("fs.v1.")?.split('.').next()?;
    match kind {
        "work" => Some(stream::WORK),
        "outcome" => Some(stream::OUTCOME),
        "rollout" => Some(stream::ROLLOUT),
        "event" => Some(stream::EVENT),
        "dead" => Some(stream::DEAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn every_subject_has_its_stream() {
        let run = flopsmith_protocol::RunId::new("r.1").unwrap();
        assert_eq!(stream_of(&subjects::compile("cpu")), Some(stream::WORK));
        assert_eq!(stream_of(&subjects::outcome(&run)), Some(stream::OUTCOME));
        assert_eq!(stream_of(&subjects::rollout(&run)), Some(stream::ROLLOUT));
        assert_eq!(stream_of(&subjects::policy(&run)), Some(stream::EVENT));
        assert_eq!(stream_of(&subjects::stage(&run)), Some(stream::EVENT));
        assert_eq!(
            stream_of(&subjects::dead(&subjects::compile("cpu"))),
            Some(stream::DEAD)
        );
        assert_eq!(stream_of("other.v1.work"), None);
    }
}
