//! Compiler, verifier and timer: candidate → compiled → verified → outcome. Follows `flopsmith_actors::role` and
//! `outcome_cache`.

use flopsmith_coordination::duplicates::{self, Turn};

use super::job::Stage;
use super::{Response, Then};
use crate::broker::Request;
use crate::config::{Role, terms};
use crate::event::Timer;
use crate::fact::Fact;
use crate::message::{
    Cause, Key, Known, MILLI, Micros, NodeId, Program, Queue, SECOND, Sample, Value, Verdict,
    micros, span,
};
use crate::program::{Fate, fate};
use crate::world::World;

/// The cache entry after an outcome. None if the outcome does not change the entry.
fn decided(known: Known, sample: Sample, verdict: Verdict) -> Option<Known> {
    let mut after = known;
    after.holder.ended(&sample);
    // An infrastructure failure is a matter of chance and says nothing about the program.
    if !matches!(verdict, Verdict::Infrastructure(_)) {
        after.verdict.get_or_insert(verdict);
    }
    (after != known).then_some(after)
}

fn known(value: Option<(Value, u64)>) -> (Known, u64) {
    match value {
        Some((Value::Result(known), revision)) => (known, revision),
        Some((_, revision)) => (Known::default(), revision),
        None => (Known::default(), 0),
    }
}

impl World {
    /// Begins to work on a message of one of the stages.
    pub(crate) fn begin_stage(&mut self, node: NodeId, number: u32) {
        match self.node(node).role {
            Role::Worker(Queue::Compile) => self.look(node, number, None),
            _ => self.work(node, number),
        }
    }

    fn look(&mut self, node: NodeId, number: u32, instead: Option<Sample>) {
        let Some(program) = self.job(node, number).map(|job| job.work.program) else {
            return;
        };
        self.set_stage(node, number, Stage::Looking { instead });
        self.ask(node, Request::Get(Key::Result(program)), Then::Job(number));
    }

    /// Evaluates the message: the stage's own work begins.
    fn work(&mut self, node: NodeId, number: u32) {
        let Some(work) = self.job(node, number).map(|job| job.work) else {
            return;
        };
        let Some(sample) = work.sample() else { return };
        let queue = work.queue;
        self.facts.push(Fact::Evaluated { sample, queue });
        self.set_stage(node, number, Stage::Working);
        let takes = self.duration(queue);
        self.set(node, takes, Timer::Job(number));
    }

    fn duration(&mut self, queue: Queue) -> Micros {
        // Some evaluations take longer than the ack wait.
        if self.chance.one_in_million(4_000) {
            return self.chance.between(12 * SECOND, 40 * SECOND);
        }
        let most = match queue {
            Queue::Time => 500 * MILLI,
            _ => 300 * MILLI,
        };
        self.chance.between(10 * MILLI, most)
    }

    /// A job of a stage received an answer.
    pub(crate) fn on_stage(&mut self, node: NodeId, number: u32, response: Response) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let Some(sample) = job.work.sample() else {
            return;
        };
        let program = job.work.program;
        match (job.stage, response) {
            (Stage::Looking { instead }, Response::Value(value)) => {
                let (there, revision) = known(value);
                if let Some(verdict) = there.verdict {
                    self.decide(node, number, verdict, false);
                    return;
                }
                match there.holder.turn(&sample, instead.as_ref()) {
                    Turn::Wait(duplicate) => self.park(node, number, duplicate),
                    Turn::Mine => self.work(node, number),
                    Turn::Take => {
                        let after = Known {
                            holder: duplicates::Holder::taken_by(sample),
                            ..there
                        };
                        self.set_stage(node, number, Stage::Taking);
                        let (key, value) = (Key::Result(program), Value::Result(after));
                        self.write(node, key, value, revision, Then::Job(number));
                    }
                }
            }
            (Stage::Taking, Response::Written(_)) => self.work(node, number),
            (Stage::Taking, Response::Conflict) => self.look(node, number, None),
            // The cache cannot be read or written. At worst the program is evaluated twice.
            (Stage::Looking { .. } | Stage::Taking, _) => self.work(node, number),
            (
                Stage::Parked {
                    duplicate,
                    until,
                    pause,
                },
                Response::Value(value),
            ) => {
                let (there, _) = known(value);
                if there.verdict.is_some() || there.holder.is_free() {
                    self.look(node, number, None);
                } else if self.now >= until {
                    self.look(node, number, Some(duplicate));
                } else {
                    let wait = pause.min(until - self.now);
                    let pause = micros(duplicates::next_pause(span(pause)));
                    self.set_stage(
                        node,
                        number,
                        Stage::Parked {
                            duplicate,
                            until,
                            pause,
                        },
                    );
                    self.set(node, wait, Timer::Job(number));
                }
            }
            // The cache could not be read. The job looks the program up again, and that look-up handles a failure.
            (Stage::Parked { .. }, _) => self.look(node, number, None),
            (Stage::Noting, _) => self.acknowledge(node, number, None),
            _ => {}
        }
    }

    fn park(&mut self, node: NodeId, number: u32, duplicate: Sample) {
        let until = self.now + terms::DUPLICATE_TAKEOVER;
        let pause = terms::FIRST_PAUSE;
        self.set_stage(
            node,
            number,
            Stage::Parked {
                duplicate,
                until,
                pause,
            },
        );
        self.ask_duplicate(node, number);
        // A parked job frees its slot for another job.
        self.begin(node);
    }

    fn ask_duplicate(&mut self, node: NodeId, number: u32) {
        if let Some(program) = self.job(node, number).map(|job| job.work.program) {
            self.ask(node, Request::Get(Key::Result(program)), Then::Job(number));
        }
    }

    /// The timer of a job has fired.
    pub(crate) fn on_job_timer(&mut self, node: NodeId, number: u32) {
        match self.job(node, number).map(|job| job.stage) {
            Some(Stage::Parked { .. }) => self.ask_duplicate(node, number),
            Some(Stage::Hanging) => self.worked(node, number),
            Some(Stage::Working) if self.faults.hangs(self.now, &mut self.chance) => {
                self.set_stage(node, number, Stage::Hanging);
                let for_so_long = self.chance.between(100 * SECOND, 300 * SECOND);
                self.set(node, for_so_long, Timer::Job(number));
            }
            Some(Stage::Working) => self.worked(node, number),
            _ => {}
        }
    }

    /// The stage's own work has finished or failed.
    fn worked(&mut self, node: NodeId, number: u32) {
        let Some(work) = self.job(node, number).map(|job| job.work) else {
            return;
        };
        if self.faults.drops(self.now, &work, &mut self.chance) {
            self.drop_job(node, number);
            return;
        }
        if !self.store.up || self.faults.fails(self.now, &mut self.chance) {
            self.stage_failure(node, number, Verdict::Infrastructure(Cause::StageFailure));
            return;
        }
        match (work.queue, fate(work.program)) {
            (Queue::Compile, Fate::Uncompiled) | (Queue::Verify, Fate::Wrong) => {
                self.decide(node, number, Verdict::Rejected, true);
            }
            (Queue::Compile, _) => self.hand_over(node, number, Queue::Verify),
            (Queue::Verify, _) => self.hand_over(node, number, Queue::Time),
            (_, Fate::Right(speed)) => {
                self.decide(node, number, Verdict::Measured(speed), true);
            }
            (_, _) => self.decide(node, number, Verdict::Rejected, true),
        }
    }

    /// Writes an outcome to the cache entry of the program. A failed write is no error: duplicates are then evaluated
    /// themselves.
    pub(crate) fn note(
        &mut self,
        node: NodeId,
        job: Option<u32>,
        program: Program,
        sample: Sample,
        verdict: Verdict,
    ) {
        let then = Then::Note {
            job,
            program,
            sample,
            verdict,
        };
        self.ask(node, Request::Get(Key::Result(program)), then);
    }

    pub(crate) fn on_note(
        &mut self,
        node: NodeId,
        (job, program, sample, verdict): (Option<u32>, Program, Sample, Verdict),
        response: Response,
    ) {
        match response {
            Response::Value(value) => {
                let (there, revision) = known(value);
                if let Some(after) = decided(there, sample, verdict) {
                    let then = Then::Note {
                        job,
                        program,
                        sample,
                        verdict,
                    };
                    let (key, value) = (Key::Result(program), Value::Result(after));
                    self.write(node, key, value, revision, then);
                    return;
                }
            }
            Response::Conflict => {
                self.note(node, job, program, sample, verdict);
                return;
            }
            _ => {}
        }
        if let Some(job) = job {
            self.on_stage(node, job, Response::Stored);
        }
    }
}
