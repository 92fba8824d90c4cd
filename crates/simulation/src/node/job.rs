//! Messages in hand: taking them, giving them back, being done with them. As `flopsmith-bus` does it (`worker`, `take`, `delivery`).

use super::{Heard, Mind, Then};
use crate::broker::{Delivery, Notice, Request};
use crate::config::{Mutation, Role, slots, terms};
use crate::event::{Packet, Timer};
use crate::fact::Fact;
use crate::message::{Body, Entry, Micros, NodeId, Queue, Sample, Verdict, Work};
use crate::world::World;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody has begun with it.
    Waiting,
    /// What is known of its program is read; after it waited too long for a duplicate, `instead` of that.
    Looking { instead: Option<Sample> },
    /// Its turn is written down.
    Taking,
    /// It waits for the outcome of a duplicate.
    Parked {
        duplicate: Sample,
        until: Micros,
        pause: Micros,
    },
    /// A program of ours works on it.
    Working,
    /// It does not come to an end.
    Hanging,
    /// What came of it is on its way.
    Publishing(After),
    /// What came of it is noted for duplicates.
    Noting,
    /// So many of the messages that came of it are not stored yet: rollouts, then candidates.
    Spreading { left: u32, candidates: bool },
    /// It is acknowledged; before or after the result is stored.
    Acknowledging { early: Option<Work> },
    /// A dead letter is written.
    DeadLettering,
    /// It is taken out of its queue.
    Terminating,
}

/// What comes after a result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Acknowledge,
    /// Equal programs shall find this.
    Note(Verdict),
    /// It was acknowledged too early, by a mistake.
    Nothing,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub sequence: u64,
    pub token: u64,
    pub work: Work,
    pub since: Micros,
    /// The connection it came on.
    pub epoch: u32,
    pub stage: Stage,
    /// It was held for too long; somebody else may take it.
    hangs: bool,
}

impl World {
    /// A message arrived.
    pub(crate) fn on_delivery(&mut self, node: NodeId, delivery: Delivery) {
        let now = self.now;
        let taker = self.node_mut(node);
        if delivery.inbox != taker.inbox {
            return;
        }
        taker.outstanding = taker.outstanding.saturating_sub(1);
        let failures = taker.failures.get(&delivery.sequence).copied().unwrap_or(0);
        let dead = failures >= terms::MAX_DELIVER || delivery.attempt > terms::MOST;
        let job = Job {
            sequence: delivery.sequence,
            token: delivery.token,
            work: delivery.work,
            since: now,
            epoch: taker.epoch,
            stage: Stage::Waiting,
            hangs: false,
        };
        let number = taker.next_job;
        taker.next_job += 1;
        taker.jobs.insert(number, job);
        self.tell_hand(node);
        if dead {
            self.dead_letter(node, number);
        } else {
            self.begin(node);
        }
    }

    /// Begins with what waits, as far as there is room for it.
    pub(crate) fn begin(&mut self, node: NodeId) {
        if !self.node(node).up {
            return;
        }
        let Role::Worker(queue) = self.node(node).role else {
            return;
        };
        if queue == Queue::Generate {
            self.begin_tasks(node);
            return;
        }
        let (_, most) = slots(queue);
        loop {
            let worker = self.node(node);
            let busy = worker.jobs.values().filter(|job| job.is_busy()).count();
            let mut waiting = worker.jobs.iter();
            let next = waiting.find(|(_, job)| job.stage == Stage::Waiting);
            let Some((number, job)) = next.filter(|_| busy < most) else {
                return;
            };
            let number = *number;
            if job.epoch == worker.epoch {
                self.begin_stage(node, number);
            } else {
                // The server was lost before anybody began with this one. It may know nothing of having given it out.
                self.give_back(node, number, 0);
            }
        }
    }

    /// Asks for as many messages as there is room for.
    pub(crate) fn ask_for_work(&mut self, node: NodeId) {
        let worker = self.node(node);
        let Role::Worker(queue) = worker.role else {
            return;
        };
        if !worker.up || !worker.connected {
            return;
        }
        if let Mind::Generator(generator) = &worker.mind
            && !generator.is_ready()
        {
            return;
        }
        let (mut slots, _) = slots(queue);
        if self.config.has(Mutation::AsksForTooMuch) {
            slots += 3;
        }
        let wanted = slots.saturating_sub(worker.jobs.len() + worker.outstanding);
        if wanted > 0 && (worker.outstanding == 0 || wanted * 2 >= slots) {
            let (inbox, count) = (worker.inbox, wanted);
            self.node_mut(node).outstanding += wanted;
            self.tell_hand(node);
            let pull = Notice::Pull {
                queue,
                inbox,
                count,
            };
            self.send_to_broker(node, Packet::Notice(pull));
        }
    }

    fn tell_hand(&mut self, node: NodeId) {
        let worker = self.node(node);
        let Role::Worker(queue) = worker.role else {
            return;
        };
        let held = worker.jobs.len() + worker.outstanding;
        let (slots, _) = slots(queue);
        self.facts.push(Fact::Hand { node, held, slots });
    }

    /// Tells the server which messages are still worked on.
    pub(crate) fn give_signs(&mut self, node: NodeId) {
        let now = self.now;
        let for_ever = self.config.has(Mutation::HoldLimitIgnored);
        let limit = if self.config.has(Mutation::SignsOfLifeStopEarly) {
            terms::ACK_WAIT
        } else {
            terms::HOLD_LIMIT
        };
        let worker = self.node_mut(node);
        let mut alive = Vec::new();
        let mut failed = Vec::new();
        for job in worker.jobs.values_mut() {
            if now - job.since < limit || for_ever {
                alive.push((job.sequence, job.token));
            } else if !job.hangs {
                job.hangs = true;
                failed.push((job.sequence, job.work));
            }
        }
        for (sequence, work) in failed {
            self.count_failure(node, sequence, &work);
        }
        for (sequence, token) in alive {
            let sign = Notice::Progress { sequence, token };
            self.send_to_broker(node, Packet::Notice(sign));
        }
        self.set(node, terms::ACK_WAIT / 3, Timer::Signs);
    }

    fn count_failure(&mut self, node: NodeId, sequence: u64, work: &Work) {
        if let Some(sample) = work.sample() {
            self.facts.push(Fact::Failed { sample });
        }
        *self.node_mut(node).failures.entry(sequence).or_default() += 1;
    }

    fn failures(&self, node: NodeId, sequence: u64) -> u32 {
        let failures = self.node(node).failures.get(&sequence);
        failures.copied().unwrap_or(0)
    }

    pub(crate) fn job(&self, node: NodeId, number: u32) -> Option<&Job> {
        self.node(node).jobs.get(&number)
    }

    pub(crate) fn set_stage(&mut self, node: NodeId, number: u32, stage: Stage) {
        if let Some(job) = self.node_mut(node).jobs.get_mut(&number) {
            job.stage = stage;
        }
    }

    /// A message is out of hand: there is room for another.
    fn release(&mut self, node: NodeId, number: u32) {
        self.node_mut(node).jobs.remove(&number);
        self.begin(node);
        self.ask_for_work(node);
    }

    /// Gives a message back; somebody takes it again after `delay`.
    pub(crate) fn give_back(&mut self, node: NodeId, number: u32, delay: Micros) {
        let Some(job) = self.node_mut(node).jobs.remove(&number) else {
            return;
        };
        let nak = Notice::Nak {
            sequence: job.sequence,
            token: job.token,
            delay,
        };
        self.send_to_broker(node, Packet::Notice(nak));
        self.ask_for_work(node);
    }

    /// Dropped without a word, as by a panic.
    pub(crate) fn drop_job(&mut self, node: NodeId, number: u32) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let (sequence, work) = (job.sequence, job.work);
        // What is dropped because the server is away has failed at nothing of its own.
        if self.node(node).connected {
            self.count_failure(node, sequence, &work);
        }
        let delay = doubled(terms::DROPPED_DELAY, self.failures(node, sequence));
        self.give_back(node, number, delay);
        self.begin(node);
    }

    /// A stage failed for a reason that may pass: it is tried again, or that is the outcome.
    pub(crate) fn mishap(&mut self, node: NodeId, number: u32, verdict: Verdict) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let (sequence, work) = (job.sequence, job.work);
        if let Some(sample) = work.sample() {
            self.facts.push(Fact::Failed { sample });
        }
        if self.failures(node, sequence) + 1 < terms::ATTEMPTS {
            *self.node_mut(node).failures.entry(sequence).or_default() += 1;
            let delay = doubled(terms::MISHAP_DELAY, self.failures(node, sequence));
            self.give_back(node, number, delay);
            self.begin(node);
        } else {
            self.decide(node, number, verdict, true);
        }
    }

    /// Publishes the outcome of a job's sample; equal programs find it where it is `noted`.
    pub(crate) fn decide(&mut self, node: NodeId, number: u32, verdict: Verdict, noted: bool) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let Some(sample) = job.work.sample() else {
            return;
        };
        let entry = Entry::Outcome(sample, job.work.program, verdict);
        let after = if noted {
            After::Note(verdict)
        } else {
            After::Acknowledge
        };
        self.set_stage(node, number, Stage::Publishing(after));
        self.publish(node, Body::Entry(entry), Then::Job(number));
    }

    /// Hands a job's sample to the next stage.
    pub(crate) fn hand_over(&mut self, node: NodeId, number: u32, next: Queue) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let work = Work {
            queue: next,
            ..job.work
        };
        if self.config.has(Mutation::AcknowledgeBeforePublish) {
            self.acknowledge(node, number, Some(work));
            return;
        }
        let publishing = Stage::Publishing(After::Acknowledge);
        self.set_stage(node, number, publishing);
        self.publish(node, Body::Work(work), Then::Job(number));
    }

    /// The result of a job is stored.
    pub(crate) fn on_stored(&mut self, node: NodeId, number: u32, after: After) {
        match after {
            After::Acknowledge => self.acknowledge(node, number, None),
            After::Nothing => self.release(node, number),
            After::Note(verdict) => {
                let Some(job) = self.job(node, number) else {
                    return;
                };
                let (work, sample) = (job.work, job.work.sample());
                self.set_stage(node, number, Stage::Noting);
                if let Some(sample) = sample {
                    self.note(node, Some(number), work.program, sample, verdict);
                }
            }
        }
    }

    /// Worked off: the message leaves its queue. Its results are stored by now.
    pub(crate) fn acknowledge(&mut self, node: NodeId, number: u32, early: Option<Work>) {
        self.set_stage(node, number, Stage::Acknowledging { early });
        self.answer(node, number, false);
    }

    fn answer(&mut self, node: NodeId, number: u32, terminate: bool) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let stale = job.epoch != self.node(node).epoch;
        let answer = Request::Answer {
            sequence: job.sequence,
            token: job.token,
            terminate,
        };
        self.ask(node, answer, Then::Job(number));
        if stale {
            self.make_stale(node);
        }
    }

    /// Nobody can work this off: it goes to the dead letters.
    fn dead_letter(&mut self, node: NodeId, number: u32) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let letter = Entry::Dead(job.sequence, job.work);
        if self.config.has(Mutation::LostWithoutDeadLetter) {
            self.set_stage(node, number, Stage::Terminating);
            self.answer(node, number, true);
            return;
        }
        self.set_stage(node, number, Stage::DeadLettering);
        self.publish(node, Body::Entry(letter), Then::Job(number));
    }

    /// What every job hears alike; false where its role has to say what it makes of it.
    pub(crate) fn on_job(&mut self, node: NodeId, number: u32, heard: &Heard) -> bool {
        let Some(job) = self.job(node, number) else {
            return true;
        };
        let sequence = job.sequence;
        match (job.stage, heard) {
            (Stage::Acknowledging { early: Some(work) }, Heard::Answered) => {
                self.set_stage(node, number, Stage::Publishing(After::Nothing));
                self.publish(node, Body::Work(work), Then::Job(number));
            }
            (Stage::Acknowledging { .. } | Stage::Terminating, Heard::Answered | Heard::Stale) => {
                if *heard == Heard::Answered {
                    self.facts.push(Fact::Done { sequence });
                }
                self.node_mut(node).failures.remove(&sequence);
                self.release(node, number);
            }
            (Stage::DeadLettering, Heard::Stored) => {
                self.set_stage(node, number, Stage::Terminating);
                self.answer(node, number, true);
            }
            // It comes again after the ack wait, and becomes a dead letter under the same id.
            (Stage::DeadLettering | Stage::Terminating, _) => self.release(node, number),
            (Stage::Acknowledging { .. } | Stage::Publishing(_), Heard::Failed) => {
                self.role_failed(node);
            }
            (Stage::Publishing(after), Heard::Stored) => self.on_stored(node, number, after),
            _ => return false,
        }
        true
    }
}

impl Job {
    /// Does it take up room among what is worked on?
    fn is_busy(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Waiting | Stage::Parked { .. } | Stage::DeadLettering | Stage::Terminating
        )
    }
}

/// `first`, doubled with each further failure.
pub(crate) fn doubled(first: Micros, failures: u32) -> Micros {
    let times = failures.saturating_sub(1).min(16);
    (first << times).min(terms::BACKOFF_LIMIT)
}
