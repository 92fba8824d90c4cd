//! The streams of a Flopsmith bus.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::consumer;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, RawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use flopsmith_protocol::{RunId, subjects};
use futures::TryStreamExt;

use crate::connect::Bus;
use crate::error::{Cause, Error, Result};
use crate::publish::full_or;

/// Names of the streams.
pub mod stream {
    /// Work queues: a message is removed when a worker has finished it.
    pub const WORK: &str = "WORK";
    /// Outcomes of every run.
    pub const OUTCOME: &str = "OUTCOME";
    /// Rollouts of every run.
    pub const ROLLOUT: &str = "ROLLOUT";
    /// Policy versions and stage changes of every run.
    pub const EVENT: &str = "EVENT";
    /// Messages that no worker could finish.
    pub const DEAD: &str = "DEAD";
    /// The names of all streams.
    pub const ALL: [&str; 5] = [WORK, OUTCOME, ROLLOUT, EVENT, DEAD];
}

/// Time for which workers that ask for no more work are taken to be at work on what they have: longer than any job may be held
/// ([`WorkerOptions::hold_limit`](crate::WorkerOptions)).
const AT_WORK: Duration = Duration::from_secs(40 * 60);

/// How the streams are set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSetup {
    /// Number of copies of each stream: 1 on a single server, 3 in production.
    pub replicas: usize,
    /// Within this time the server stores a message id once. The server keeps about 100 bytes of memory per message of
    /// the window.
    pub duplicate_window: Duration,
    /// The server drops logs and dead letters that are older than this. None keeps them.
    pub log_max_age: Option<Duration>,
}

impl Default for RunSetup {
    fn default() -> Self {
        Self {
            replicas: 1,
            // Long enough that a run which is stopped and resumed does not repeat the step that it was in.
            duplicate_window: Duration::from_secs(2 * 3600),
            log_max_age: None,
        }
    }
}

/// A stream and the amount that it keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The name of the stream.
    pub name: &'static str,
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages on one server.
    pub bytes: u64,
    /// The number of the last message.
    pub last_sequence: u64,
    /// The number of servers that keep a copy.
    pub copies: usize,
}

fn failed(name: &'static str, source: impl Into<Cause>) -> Error {
    full_or(format!("stream {name}"), source.into(), |source| {
        Error::Stream { name, source }
    })
}

fn unanswered(source: impl Into<Cause>) -> Error {
    Error::Stream {
        name: stream::WORK,
        source: source.into(),
    }
}

/// The subjects of a stream that fit a filter, with their numbers of messages.
async fn counts(work: &Stream, filter: &str) -> Result<Vec<(String, usize)>> {
    let subjects = work.info_with_subjects(filter).await;
    let subjects = subjects.map_err(unanswered)?;
    subjects.try_collect().await.map_err(unanswered)
}

fn plan(setup: &RunSetup) -> impl Iterator<Item = (&'static str, Config)> {
    let plan = [
        (stream::WORK, subjects::WORK, RetentionPolicy::WorkQueue),
        (stream::OUTCOME, subjects::OUTCOMES, RetentionPolicy::Limits),
        (stream::ROLLOUT, subjects::ROLLOUTS, RetentionPolicy::Limits),
        (stream::EVENT, subjects::EVENTS, RetentionPolicy::Limits),
        (stream::DEAD, subjects::DEAD, RetentionPolicy::Limits),
    ];
    plan.into_iter().map(move |(name, subject, retention)| {
        let logs = retention == RetentionPolicy::Limits;
        let max_age = setup.log_max_age.filter(|_| logs).unwrap_or_default();
        let config = Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            retention,
            storage: StorageType::File,
            num_replicas: setup.replicas,
            // A full store refuses new messages; it never drops confirmed ones.
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
        (name, config)
    })
}

impl Bus {
    /// Creates the missing streams. On a private server, also changes existing streams to this setup. Every node may
    /// call this at every start: existing streams of a shared server keep the settings of the operator who set them up.
    ///
    /// On a private server, the first call also deletes the consumers, and with them the record of which process held
    /// which message when the run was stopped. No earlier holder can exist any more. The server gives all messages out
    /// again at once, and being killed does not count as a failed attempt.
    pub async fn ensure_streams(&self, setup: &RunSetup) -> Result<()> {
        if self.is_private() {
            self.set_up_streams(setup).await?;
        } else {
            for (name, config) in plan(setup) {
                if self.jetstream().get_stream(name).await.is_err() {
                    // Two nodes that do this at the same time create the same configuration.
                    let made = self.jetstream().create_stream(config).await;
                    made.map_err(|source| failed(name, source))?;
                }
            }
        }
        if self
            .private()
            .is_some_and(|fresh| fresh.swap(false, Ordering::SeqCst))
        {
            self.forget_holders().await?;
        }
        Ok(())
    }

    /// Checks that the streams exist. A node that joins an existing bus creates none.
    ///
    /// # Errors
    /// [`Error::MissingStreams`] names the missing ones.
    pub async fn check_streams(&self) -> Result<()> {
        let mut missing = Vec::new();
        let mut why = None;
        for name in stream::ALL {
            if let Err(source) = self.jetstream().get_stream(name).await {
                missing.push(name);
                why = Some(source);
            }
        }
        match why {
            None => Ok(()),
            Some(source) => Err(Error::MissingStreams {
                url: self.options().shown(),
                missing: missing.join(", "),
                source: source.into(),
            }),
        }
    }

    async fn work_queues(&self) -> Result<Stream> {
        let work = self.jetstream().get_stream(stream::WORK).await;
        work.map_err(unanswered)
    }

    /// Number of messages in the work queues of a run, held by workers or not.
    ///
    /// # Errors
    /// [`Error::Stream`] if the server does not answer.
    pub async fn queued(&self, run: &RunId) -> Result<u64> {
        let work = self.work_queues().await?;
        let counts = counts(&work, &subjects::work_of(run)).await?;
        Ok(counts.into_iter().map(|(_, count)| count as u64).sum())
    }

    /// The fill of the work queues: one entry for each stage and machine class (or policy) that has had work.
    ///
    /// # Errors
    /// [`Error::Stream`] if the server does not answer.
    pub async fn queues(&self) -> Result<Vec<QueueState>> {
        let work = self.work_queues().await?;
        let mut queues: BTreeMap<(String, String), QueueState> = BTreeMap::new();
        let state = |stage: &str, target: &str| QueueState {
            stage: stage.to_owned(),
            target: target.to_owned(),
            ..QueueState::default()
        };
        // Messages may wait in a queue that has no consumer yet, and a queue with a consumer may be empty. Both sources
        // are merged.
        for (subject, count) in counts(&work, "fs.v1.work.>").await? {
            if let Some((stage, target)) = queue_of(&subject) {
                let queue = queues
                    .entry((stage.to_owned(), target.to_owned()))
                    .or_insert_with(|| state(stage, target));
                queue.waiting += count as u64;
            }
        }
        let consumers: Vec<consumer::Info> =
            work.consumers().try_collect().await.map_err(unanswered)?;
        for consumer in consumers {
            if let Some((stage, target)) = queue_of(&consumer.config.filter_subject) {
                let queue = queues
                    .entry((stage.to_owned(), target.to_owned()))
                    .or_insert_with(|| state(stage, target));
                queue.in_hand += consumer.num_ack_pending as u64;
            }
        }
        for queue in queues.values_mut() {
            if queue.waiting > 0 {
                let all = format!("fs.v1.work.{}.{}.*", queue.stage, queue.target);
                let oldest = work.get_first_raw_message_by_subject(&all, 0).await;
                queue.oldest_unix_ms = match oldest {
                    Ok(m) => Some(crate::dead::unix_ms(m.time.unix_timestamp_nanos())),
                    // The message left its queue in the meantime.
                    Err(e) if e.kind() == RawMessageErrorKind::NoMessageFound => None,
                    Err(e) => return Err(unanswered(e)),
                };
            }
            queue.waiting = queue.waiting.saturating_sub(queue.in_hand);
        }
        Ok(queues.into_values().collect())
    }

    /// True if each of these queues has a worker: one that asks for work, or has had some so lately that it may be at it.
    ///
    /// # Errors
    /// [`Error::Stream`] if the server does not answer.
    pub async fn have_workers(&self, queues: &[subjects::Queue]) -> Result<bool> {
        let work = self.work_queues().await?;
        let consumers: Vec<consumer::Info> =
            work.consumers().try_collect().await.map_err(unanswered)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = now.unwrap_or_default().saturating_sub(AT_WORK).as_nanos();
        let is_served = |filter: &str| {
            let mut of = consumers
                .iter()
                .filter(|c| c.config.filter_subject == filter);
            of.any(|consumer| {
                let last = consumer.delivered.last_active;
                let lately = last.is_some_and(|at| {
                    u128::try_from(at.unix_timestamp_nanos()).is_ok_and(|at| at > since)
                });
                consumer.num_waiting > 0 || (consumer.num_ack_pending > 0 && lately)
            })
        };
        Ok(queues.iter().all(|queue| is_served(&queue.all())))
    }

    /// Drops the messages in the work queues of a run, and returns their number.
    ///
    /// # Errors
    /// [`Error::Stream`] if the server does not answer.
    pub async fn drop_queued(&self, run: &RunId) -> Result<u64> {
        let work = self.work_queues().await?;
        let dropped = work.purge().filter(subjects::work_of(run)).await;
        Ok(dropped.map_err(unanswered)?.purged)
    }

    /// Creates the streams, or changes them to this setup. For the set-up of a shared server.
    ///
    /// # Errors
    /// [`Error::Stream`] names a stream that cannot be set up so, for example with more copies than there are servers.
    /// [`Error::StoreFull`] if the server has no room for it.
    pub async fn set_up_streams(&self, setup: &RunSetup) -> Result<()> {
        for (name, config) in plan(setup) {
            let made = self.jetstream().create_or_update_stream(config).await;
            made.map_err(|source| failed(name, source))?;
        }
        Ok(())
    }

    /// The amount that each stream keeps.
    ///
    /// # Errors
    /// [`Error::MissingStreams`] if a stream is missing.
    pub async fn stored(&self) -> Result<Vec<Stored>> {
        self.check_streams().await?;
        let mut all = Vec::new();
        for name in stream::ALL {
            let mut stream = self
                .jetstream()
                .get_stream(name)
                .await
                .map_err(|source| failed(name, source))?;
            let info = stream.info().await.map_err(|source| failed(name, source))?;
            all.push(Stored {
                name,
                messages: info.state.messages,
                bytes: info.state.bytes,
                last_sequence: info.state.last_sequence,
                copies: info.config.num_replicas,
            });
        }
        Ok(all)
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

/// The fill of a work queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueState {
    /// The stage of its messages: `generate`, `compile`, `verify`, `time`.
    pub stage: String,
    /// The receiver of its messages: a machine class, or a policy.
    pub target: String,
    /// Number of messages that no worker holds.
    pub waiting: u64,
    /// Number of messages that workers hold.
    pub in_hand: u64,
    /// When the oldest unfinished message was published, milliseconds since 1970. None if the queue has none.
    pub oldest_unix_ms: Option<u64>,
}

/// Stage and target of a work subject.
fn queue_of(subject: &str) -> Option<(&str, &str)> {
    let mut parts = subject.strip_prefix("fs.v1.work.")?.split('.');
    Some((parts.next()?, parts.next()?))
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
    use flopsmith_protocol::subjects::Queue;

    use super::*;

    #[test]
    #[expect(clippy::unwrap_used, reason = "tests")]
    fn every_subject_has_its_stream() {
        let run = flopsmith_protocol::RunId::new("r.1").unwrap();
        let class = flopsmith_protocol::MachineClass::new("local").unwrap();
        assert_eq!(
            stream_of(&Queue::compile(&class).of(&run)),
            Some(stream::WORK)
        );
        assert_eq!(stream_of(&subjects::outcome(&run)), Some(stream::OUTCOME));
        assert_eq!(stream_of(&subjects::rollout(&run)), Some(stream::ROLLOUT));
        assert_eq!(stream_of(&subjects::policy(&run)), Some(stream::EVENT));
        assert_eq!(stream_of(&subjects::stage(&run)), Some(stream::EVENT));
        assert_eq!(
            stream_of(&subjects::dead(&Queue::compile(&class).of(&run))),
            Some(stream::DEAD)
        );
        assert_eq!(stream_of("other.v1.work"), None);
    }
}
