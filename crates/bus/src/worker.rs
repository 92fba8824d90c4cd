//! Takes work from a queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::ConsumerErrorKind;
use async_nats::jetstream::{AckKind, ErrorCode};
use async_nats::subject::Subject;
use flopsmith_coordination::delivery::{Backoff, MAX_DELIVER, Room, Sign, sign};
use flopsmith_protocol::Message;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::acknowledge::Acknowledger;
use crate::connect::Bus;
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::streams::stream;
use crate::take::take;

/// How a worker takes work.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The work subject. All workers on the subject share the queue.
    pub subject: String,
    /// The queue's name, the same for every worker on the subject. If empty, the name is derived from the subject.
    pub durable: String,
    /// Number of messages in work at a time.
    pub slots: usize,
    /// Number of further messages that may wait for another process at the same time ([`Delivery::park`]).
    pub parked: usize,
    /// A worker that gives no sign of life for this time loses its message. The worker gives a sign of life every third
    /// of this time by itself.
    pub ack_wait: Duration,
    /// Number of failures in one process after which a message goes to the dead letters. An interruption is no failure.
    pub max_deliver: u32,
    /// A message that is held for longer than this gets no more signs of life, because its holder is assumed to hang.
    pub hold_limit: Duration,
    /// How long a message waits before the next attempt.
    pub backoff: Backoff,
    /// The server deletes the queue's consumer if no worker has used it for this time; the messages of the queue stay.
    /// None: never.
    pub forget_after: Option<Duration>,
    /// The server keeps a limited number of requests for each queue. A worker whose request was refused requests again
    /// after this time, then after a pause that doubles each time, and at once if another worker announces a free
    /// place.
    pub crowded_pause: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            subject: String::new(),
            durable: String::new(),
            slots: 1,
            parked: 0,
            ack_wait: Duration::from_secs(30),
            max_deliver: MAX_DELIVER,
            hold_limit: Duration::from_secs(30 * 60),
            backoff: Backoff::default(),
            forget_after: None,
            crowded_pause: Duration::from_millis(500),
        }
    }
}

impl WorkerOptions {
    /// The defaults for `slots` messages at a time from `subject`.
    pub fn new(subject: impl Into<String>, slots: usize) -> Self {
        Self {
            subject: subject.into(),
            slots,
            ..Self::default()
        }
    }

    fn check(mut self) -> Result<Self> {
        let wrong = |why| {
            Err(Error::WorkerOptions {
                subject: self.subject.clone(),
                why,
            })
        };
        if !self.subject.starts_with("fs.v1.work.") {
            return wrong("the subject is no work queue");
        }
        if self.slots == 0 {
            return wrong("a worker needs at least one slot");
        }
        if self.max_deliver == 0 {
            return wrong("a message must be given out at least once");
        }
        if self.ack_wait < Duration::from_millis(30) {
            return wrong(
                "the acknowledgement time must be at least 30 ms, so that the worker can extend it",
            );
        }
        self.durable = match self.durable.is_empty() {
            true => durable(&self.subject),
            false => durable(&self.durable),
        };
        Ok(self)
    }
}

/// The name of the consumer of a work subject.
pub fn durable(subject: &str) -> String {
    let letter = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => c,
        _ => '-',
    };
    subject.trim_end_matches(".*").chars().map(letter).collect()
}

/// The state that the worker, its deliveries and the two background tasks share.
pub(crate) struct Shared {
    pub bus: Bus,
    pub options: WorkerOptions,
    held: Mutex<HashMap<u64, Held>>,
    next_key: AtomicU64,
    pub freed: Notify,
    naks: mpsc::UnboundedSender<(Subject, Duration)>,
    /// Notified when no message is held any more.
    idle: Arc<Notify>,
    all_held: Arc<AtomicUsize>,
    /// Sends the acknowledgements.
    pub acknowledger: Acknowledger,
    /// The time until which the worker takes nothing.
    rest: watch::Sender<Option<Instant>>,
}

struct Held {
    reply: Subject,
    sequence: u64,
    since: Instant,
    hanging: bool,
    parked: bool,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, HashMap<u64, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold(&self, reply: Subject, sequence: u64) -> u64 {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        self.held().insert(
            key,
            Held {
                reply,
                sequence,
                since: Instant::now(),
                hanging: false,
                parked: false,
            },
        );
        self.all_held.fetch_add(1, Ordering::SeqCst);
        key
    }

    pub(crate) fn release(&self, key: u64) {
        let mut held = self.held();
        if held.remove(&key).is_some() {
            self.all_held.fetch_sub(1, Ordering::SeqCst);
            self.freed.notify_one();
        }
        if held.is_empty() {
            self.idle.notify_one();
        }
    }

    pub(crate) fn park(&self, key: u64, parked: bool) {
        if let Some(held) = self.held().get_mut(&key) {
            held.parked = parked;
        }
        self.freed.notify_one();
    }

    /// Gives a message back from code that cannot wait.
    pub(crate) fn nak(&self, reply: Subject, delay: Duration) {
        // If the keeper has ended, the server gives the message out again after the ack wait.
        let _ = self.naks.send((reply, delay));
    }

    /// Number of failures of this process at a message.
    pub(crate) fn failures(&self, sequence: u64) -> u32 {
        self.bus.failures().of(&self.options.durable, sequence)
    }

    /// Counts one more failure.
    pub(crate) fn failed(&self, sequence: u64) {
        self.bus.failures().add(&self.options.durable, sequence);
    }

    /// Forgets the failures of a message that left its queue.
    pub(crate) fn settled(&self, sequence: u64) {
        self.bus.failures().forget(&self.options.durable, sequence);
    }

    /// Passes a delivery to the worker, unless the worker rests or has stopped: then the delivery is given back. The lock
    /// on the rest is held meanwhile, so [`Worker::rest`] finds every delivery that was passed on before it.
    pub(crate) fn pass_on<M>(
        &self,
        sender: &mpsc::UnboundedSender<Delivery<M>>,
        delivery: Delivery<M>,
    ) {
        let rest = self.rest.borrow();
        let left = match *rest {
            None => sender.send(delivery).err().map(|refused| refused.0),
            Some(_) => Some(delivery),
        };
        drop(rest);
        if let Some(delivery) = left {
            delivery.give_back();
        }
    }

    /// Waits until [`Worker::rest`] is called.
    pub(crate) async fn rests(&self) {
        let mut rest = self.rest.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = rest.wait_for(Option::is_some).await;
    }

    /// Waits until the worker may take messages again.
    pub(crate) async fn rested(&self) {
        let mut rest = self.rest.subscribe();
        loop {
            let Some(until) = *rest.borrow_and_update() else {
                return;
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                // A later call may have set a longer or a shorter pause. The sender lives as long as `self`.
                _ = rest.changed() => continue,
            }
            self.rest.send_if_modified(|rest| {
                let over = rest.is_some_and(|until| until <= Instant::now());
                if over {
                    *rest = None;
                }
                over
            });
        }
    }

    pub(crate) fn room(&self) -> Room {
        Room {
            slots: self.options.slots,
            parked: self.options.parked,
        }
    }

    pub(crate) fn free(&self) -> usize {
        let held = self.held();
        let parked = held.values().filter(|held| held.parked).count();
        self.room().free(held.len(), parked)
    }

    /// The reply subjects of the messages that get a sign of life now.
    fn alive(&self) -> Vec<Subject> {
        let mut alive = Vec::new();
        for held in self.held().values_mut() {
            match sign(held.since.elapsed(), self.options.hold_limit, held.hanging) {
                Sign::Alive => alive.push(held.reply.clone()),
                Sign::Hangs => {
                    held.hanging = true;
                    self.failed(held.sequence);
                    tracing::error!(
                        subject = self.options.subject,
                        seconds = held.since.elapsed().as_secs(),
                        "a handler holds a message longer than the limit; another worker may take the message now"
                    );
                }
                Sign::Hung => {}
            }
        }
        alive
    }
}

/// Takes messages from one queue, never more than it has slots.
pub struct Worker<M> {
    shared: Arc<Shared>,
    stop: CancellationToken,
    deliveries: mpsc::UnboundedReceiver<Delivery<M>>,
}

impl Bus {
    /// Starts taking work. Workers with the same subject share its queue.
    pub async fn worker<M: Message + Send + 'static>(
        &self,
        options: WorkerOptions,
    ) -> Result<Worker<M>> {
        let options = options.check()?;
        if self.stop().is_cancelled() {
            return Err(Error::Closed);
        }
        let (naks, from_drops) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            bus: self.clone(),
            options,
            held: Mutex::default(),
            next_key: AtomicU64::new(0),
            freed: Notify::new(),
            naks,
            idle: Arc::new(Notify::new()),
            all_held: self.held_counter(),
            acknowledger: Acknowledger::start(self),
            rest: watch::Sender::new(None),
        });
        // Wrong options or a missing stream must fail here and not in the background.
        ensure_consumer(&shared).await?;
        let stop = self.stop().child_token();
        let (sender, deliveries) = mpsc::unbounded_channel();
        let taken = CancellationToken::new();
        let keeper = Keeper {
            shared: Arc::downgrade(&shared),
            bus: self.clone(),
            ack_wait: shared.options.ack_wait,
            idle: Arc::clone(&shared.idle),
            taken: taken.clone(),
        };
        self.tasks().spawn(keeper.run(from_drops));
        let taking = take(Arc::clone(&shared), sender, stop.clone());
        self.tasks().spawn(async move {
            let _end = taken.drop_guard();
            taking.await;
        });
        Ok(Worker {
            shared,
            stop,
            deliveries,
        })
    }
}

impl<M> Worker<M> {
    /// The next message. None once the worker is closed or the bus is drained. A cancelled call loses nothing.
    pub async fn next(&mut self) -> Option<Delivery<M>> {
        loop {
            let delivery = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    self.give_back();
                    return None;
                }
                delivery = self.deliveries.recv() => delivery?,
            };
            if !delivery.is_stale() {
                return Some(delivery);
            }
            // The connection was lost before work on this message began. The server may have forgotten this delivery
            // and may give the message out again.
            delivery.give_back();
        }
    }

    /// Number of held messages, including those that wait for [`Worker::next`].
    pub fn held(&self) -> usize {
        self.shared.held().len()
    }

    /// Takes nothing for `time` from now on. Replaces an earlier pause. Messages that were taken and not yet returned
    /// go back to the queue at once.
    pub fn rest(&mut self, time: Duration) {
        self.shared.rest.send_replace(Some(Instant::now() + time));
        while let Ok(delivery) = self.deliveries.try_recv() {
            delivery.give_back();
        }
    }

    /// Takes no more messages. Messages that were taken and not yet returned go back to the queue at once.
    pub fn close(&mut self) {
        self.stop.cancel();
        self.give_back();
    }

    fn give_back(&mut self) {
        self.deliveries.close();
        while let Ok(delivery) = self.deliveries.try_recv() {
            delivery.give_back();
        }
    }
}

impl<M> Drop for Worker<M> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Number of requests that may wait at a queue. For each message that comes into an empty queue the server goes through
/// all waiting requests, so many idle nodes would slow down each delivery. A worker whose request was refused asks
/// again within a second, and gets a place as other workers get work.
const MOST_WAITING: i64 = 128;

pub(crate) async fn ensure_consumer(shared: &Shared) -> Result<()> {
    let options = &shared.options;
    let config = pull::Config {
        durable_name: Some(options.durable.clone()),
        filter_subject: options.subject.clone(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: options.ack_wait,
        // `take::accept` limits the attempts. If the server limited them, a message over the limit would stay in
        // the queue for ever without a reason.
        max_deliver: -1,
        max_ack_pending: 65_536,
        max_waiting: MOST_WAITING,
        inactive_threshold: options.forget_after.unwrap_or_default(),
        ..pull::Config::default()
    };
    let made = shared
        .bus
        .jetstream()
        .create_consumer_on_stream(config, stream::WORK)
        .await;
    made.map(drop).map_err(|source| {
        let (durable, subject) = (options.durable.clone(), options.subject.clone());
        match source.kind() {
            ConsumerErrorKind::JetStream(error)
                if [
                    ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE,
                    ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED,
                ]
                .contains(&error.error_code()) =>
            {
                Error::QueueTaken {
                    durable,
                    subject,
                    source: source.into(),
                }
            }
            _ => Error::Consumer {
                durable,
                subject,
                source: source.into(),
            },
        }
    })
}

/// Tells the server which messages are still in work, and sends the answers of dropped deliveries. Runs after the
/// taking has ended until no message is held.
struct Keeper {
    shared: Weak<Shared>,
    bus: Bus,
    ack_wait: Duration,
    idle: Arc<Notify>,
    taken: CancellationToken,
}

impl Keeper {
    async fn run(self, mut naks: mpsc::UnboundedReceiver<(Subject, Duration)>) {
        let mut tick = tokio::time::interval(self.ack_wait / 3);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let ending = self.taken.is_cancelled();
            if ending
                && naks.is_empty()
                && self.shared.upgrade().is_none_or(|s| s.held().is_empty())
            {
                return;
            }
            tokio::select! {
                nak = naks.recv() => {
                    // The last worker and the last delivery are gone.
                    let Some((reply, delay)) = nak else { return };
                    let _ = self.bus.client().publish(reply, AckKind::Nak(Some(delay)).into()).await;
                }
                _ = tick.tick() => {
                    let Some(alive) = self.shared.upgrade().map(|s| s.alive()) else { continue };
                    for reply in alive {
                        let _ = self.bus.client().publish(reply, AckKind::Progress.into()).await;
                    }
                }
                () = self.taken.cancelled(), if !ending => {}
                () = self.idle.notified(), if ending => {}
            }
        }
    }
}

/// The text of an error and of its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
