//! Held messages: how a node takes, gives back and finishes them. Follows `flopsmith-bus` (`worker`, `take`,
//! `delivery`).

use flopsmith_coordination::delivery::{
    Backoff, ErrorClass, Return, Sign, give_back, is_dead, sign, try_again,
};

use super::{Mind, Response, Then};
use crate::broker::{Delivery, Notice, Request};
use crate::config::{Mutation, Role, room, terms};
use crate::event::{Packet, Timer};
use crate::fact::Fact;
use crate::message::{Body, Entry, Micros, NodeId, Queue, Sample, Verdict, Work, micros, span};
use crate::world::World;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Work has not begun.
    Waiting,
    /// The node reads the cache entry of the program. `instead` names a duplicate for which the job has waited too
    /// long, and which it replaces as holder.
    Looking { instead: Option<Sample> },
    /// The node writes its sample as the holder of the program.
    Taking,
    /// The job waits for the outcome of a duplicate.
    Parked {
        duplicate: Sample,
        until: Micros,
        pause: Micros,
    },
    /// The stage's own work runs.
    Working,
    /// The stage's own work hangs.
    Hanging,
    /// The result is being published.
    Publishing(After),
    /// The result is being written to the cache for duplicates.
    Noting,
    /// Number of messages of the task that are not stored yet: rollouts, then candidates.
    Spreading { left: u32, candidates: bool },
    /// The job is being acknowledged. `early` holds a result that a mutated node publishes only afterwards.
    Acknowledging { early: Option<Work> },
    /// A dead letter is being written.
    DeadLettering,
    /// The message is being terminated.
    Terminating,
}

/// The next actions after a result is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Acknowledge,
    /// The verdict is written to the cache for identical programs.
    Note(Verdict),
    /// The message was already acknowledged, by a mutated node.
    Nothing,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub sequence: u64,
    pub token: u64,
    pub work: Work,
    pub since: Micros,
    /// The connection on which the message came.
    pub epoch: u32,
    pub stage: Stage,
    /// The message was held for too long, and another node may take it.
    hangs: bool,
    /// How often the message has been given out.
    attempt: u32,
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
        let dead = is_dead(failures, delivery.attempt, terms::MAX_DELIVER);
        let job = Job {
            sequence: delivery.sequence,
            token: delivery.token,
            work: delivery.work,
            since: now,
            epoch: taker.epoch,
            stage: Stage::Waiting,
            hangs: false,
            attempt: delivery.attempt,
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

    /// Begins the waiting jobs for which there is room.
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
        let (_, most) = room(queue);
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
                // The connection was lost before work on this message began. The server may have forgotten this
                // delivery.
                self.give_back(node, number, 0);
            }
        }
    }

    /// Requests as many messages as there is room for.
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
        let (mut room, _) = room(queue);
        if self.config.has(Mutation::AsksForTooMuch) {
            room.slots += 3;
        }
        let free = room.free(worker.jobs.len(), 0);
        if let Some(wanted) = room.request(free, worker.outstanding) {
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
        let slots = room(queue).0.slots;
        self.facts.push(Fact::Hand { node, held, slots });
    }

    /// Tells the server which messages are still in work.
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
            match sign(span(now - job.since), span(limit), job.hangs) {
                _ if for_ever => alive.push((job.sequence, job.token)),
                Sign::Alive => alive.push((job.sequence, job.token)),
                Sign::Hangs => {
                    job.hangs = true;
                    failed.push((job.sequence, job.work));
                }
                Sign::Hung => {}
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

    /// A job has ended, which makes room for another one.
    fn release(&mut self, node: NodeId, number: u32) {
        self.node_mut(node).jobs.remove(&number);
        self.begin(node);
        self.ask_for_work(node);
    }

    /// Gives a message back. A node takes it again after `delay`.
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

    /// Drops a job without an answer, as a panic does.
    pub(crate) fn drop_job(&mut self, node: NodeId, number: u32) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let (sequence, work) = (job.sequence, job.work);
        // A job that is dropped while the server is unreachable does not count as a failure.
        if self.node(node).connected {
            self.count_failure(node, sequence, &work);
        }
        let failures = self.failures(node, sequence);
        let delay = Backoff::default().delay(ErrorClass::Dropped, failures);
        self.give_back(node, number, micros(delay));
        self.begin(node);
    }

    /// A stage failed for a reason that may pass. The job is tried again, or the failure becomes the outcome.
    pub(crate) fn stage_failure(&mut self, node: NodeId, number: u32, verdict: Verdict) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let (sequence, work, attempt) = (job.sequence, job.work, job.attempt);
        let (class, failures) = (ErrorClass::Infrastructure, self.failures(node, sequence));
        let backoff = Backoff::default();
        let back = give_back(&backoff, class, failures, attempt, terms::MAX_DELIVER);
        match back {
            Return::Again(delay) if try_again(class, failures + 1, terms::ATTEMPTS) => {
                self.count_failure(node, sequence, &work);
                self.give_back(node, number, micros(delay));
                self.begin(node);
            }
            _ => {
                if let Some(sample) = work.sample() {
                    self.facts.push(Fact::Failed { sample });
                }
                self.decide(node, number, verdict, true);
            }
        }
    }

    /// Publishes the outcome of a job's sample. If `noted`, the outcome also goes to the cache for identical programs.
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

    /// Passes a job's sample to the next stage.
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

    /// Acknowledges a job, which removes the message from its queue. The results are stored by then.
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

    /// Writes a dead letter for a message that no node can finish.
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

    /// Handles the answers that all jobs have in common. False if the role has to handle the answer.
    pub(crate) fn on_job(&mut self, node: NodeId, number: u32, response: &Response) -> bool {
        let Some(job) = self.job(node, number) else {
            return true;
        };
        let sequence = job.sequence;
        match (job.stage, response) {
            (Stage::Acknowledging { early: Some(work) }, Response::Answered) => {
                self.set_stage(node, number, Stage::Publishing(After::Nothing));
                self.publish(node, Body::Work(work), Then::Job(number));
            }
            (
                Stage::Acknowledging { .. } | Stage::Terminating,
                Response::Answered | Response::Stale,
            ) => {
                if *response == Response::Answered {
                    self.facts.push(Fact::Done { sequence });
                }
                self.node_mut(node).failures.remove(&sequence);
                self.release(node, number);
            }
            (Stage::DeadLettering, Response::Stored) => {
                self.set_stage(node, number, Stage::Terminating);
                self.answer(node, number, true);
            }
            // The server gives the message out again after the ack wait, and the message becomes a dead letter under
            // the same id.
            (Stage::DeadLettering | Stage::Terminating, _) => self.release(node, number),
            (Stage::Acknowledging { .. } | Stage::Publishing(_), Response::Failed) => {
                self.role_failed(node);
            }
            (Stage::Publishing(after), Response::Stored) => self.on_stored(node, number, after),
            _ => return false,
        }
        true
    }
}

impl Job {
    /// True if the job takes up one of the places for jobs in work.
    fn is_busy(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Waiting | Stage::Parked { .. } | Stage::DeadLettering | Stage::Terminating
        )
    }
}
