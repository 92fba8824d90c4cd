//! Generator: task → rollouts and candidates. Follows `flopsmith_actors::role::generator`.

use super::job::Stage;
use super::{Mind, Response, Then};
use crate::broker::Request;
use crate::config::Mutation;
use crate::event::Timer;
use crate::message::{Body, Entry, Log, MILLI, NodeId, Queue, SECOND, Work};
use crate::program::program;
use crate::world::World;

#[derive(Debug, Default)]
pub(crate) struct Generator {
    /// The newest known policy version. None before the generator has read one.
    version: Option<u32>,
    read: u64,
    /// True once the log of versions has been read to its end.
    replayed: bool,
    /// The jobs that are answered now, and the policy version that answers them.
    answering: Option<(Vec<u32>, u32)>,
    /// True while the generator waits for further tasks of the step.
    waits: bool,
}

impl Generator {
    /// True if the generator may take tasks.
    pub fn is_ready(&self) -> bool {
        self.replayed
    }
}

impl World {
    pub(crate) fn start_generator(&mut self, node: NodeId) {
        self.node_mut(node).mind = Mind::Generator(Generator::default());
        let log = Log::Policy;
        let request = Request::Read {
            log,
            from: 0,
            all: true,
        };
        self.ask(node, request, Then::Follow(log));
    }

    pub(crate) fn on_versions(&mut self, node: NodeId, entries: &[(u64, Entry)]) {
        let Mind::Generator(generator) = &mut self.node_mut(node).mind else {
            return;
        };
        for (sequence, entry) in entries {
            generator.read = *sequence;
            if let Entry::Version(version, _) = entry {
                generator.version = generator.version.max(Some(*version));
            }
        }
        generator.replayed = true;
        let (log, from) = (Log::Policy, generator.read + 1);
        let request = Request::Read {
            log,
            from,
            all: false,
        };
        self.ask(node, request, Then::Follow(log));
        self.begin_tasks(node);
        self.ask_for_work(node);
    }

    /// Begins after a short wait, so that the tasks of a step are answered together.
    pub(crate) fn begin_tasks(&mut self, node: NodeId) {
        if !self.serves(node) {
            return;
        }
        if let Mind::Generator(generator) = &mut self.node_mut(node).mind
            && !generator.waits
            && generator.answering.is_none()
        {
            generator.waits = true;
            self.set(node, 30 * MILLI, Timer::Begin);
        }
    }

    /// True if the policy is new enough for every waiting task.
    fn serves(&self, node: NodeId) -> bool {
        let here = self.node(node);
        let Mind::Generator(generator) = &here.mind else {
            return false;
        };
        let mut waiting = here
            .jobs
            .values()
            .filter(|job| job.stage == Stage::Waiting)
            .peekable();
        waiting.peek().is_some()
            && waiting.all(|job| {
                if self.config.has(Mutation::AnswersWithOldPolicy) {
                    return generator.version.is_some();
                }
                let step = self.config.step_of_task(job.work.number);
                generator.version >= Some(*self.config.versions_of_step(step).start())
            })
    }

    pub(crate) fn answer_tasks(&mut self, node: NodeId) {
        if let Mind::Generator(generator) = &mut self.node_mut(node).mind {
            generator.waits = false;
        }
        let epoch = self.node(node).epoch;
        let jobs = self.node(node).jobs.iter();
        let stale: Vec<u32> = jobs
            .filter(|(_, job)| job.stage == Stage::Waiting && job.epoch != epoch)
            .map(|(number, _)| *number)
            .collect();
        for number in stale {
            self.give_back(node, number, 0);
        }
        if !self.serves(node) {
            return;
        }
        let mut taken = Vec::new();
        for (number, job) in &mut self.node_mut(node).jobs {
            if job.stage == Stage::Waiting {
                job.stage = Stage::Working;
                taken.push(*number);
            }
        }
        if let Mind::Generator(generator) = &mut self.node_mut(node).mind {
            let version = generator.version.unwrap_or(0);
            generator.answering = Some((taken, version));
        }
        let takes = self.chance.between(100 * MILLI, 2 * SECOND);
        self.set(node, takes, Timer::Written);
    }

    /// The programs are written. The generator publishes the programs of each task and then acknowledges the task.
    pub(crate) fn programs_written(&mut self, node: NodeId) {
        let Mind::Generator(generator) = &mut self.node_mut(node).mind else {
            return;
        };
        let Some((taken, version)) = generator.answering.take() else {
            return;
        };
        for number in taken {
            let Some(work) = self.job(node, number).map(|job| job.work) else {
                continue;
            };
            if self.faults.drops(self.now, &work, &mut self.chance) {
                self.drop_job(node, number);
                continue;
            }
            let candidates = self.config.has(Mutation::CandidatesBeforeRollouts);
            self.spread(node, number, version, candidates);
        }
        self.begin_tasks(node);
    }

    /// Publishes the rollouts or the candidates of a task. The rollouts go first, so that an outcome never lacks its
    /// tokens.
    fn spread(&mut self, node: NodeId, number: u32, version: u32, candidates: bool) {
        let Some(task) = self.job(node, number).map(|job| job.work.number) else {
            return;
        };
        let left = self.config.group;
        let stage = Stage::Spreading { left, candidates };
        self.set_stage(node, number, stage);
        if let Some(job) = self.node_mut(node).jobs.get_mut(&number) {
            // The job keeps the version in the field of the program, because a task has no program.
            job.work.program.0 = version;
        }
        for sample in self.config.samples_of_task(task) {
            let program = program(&self.config, self.seed, sample, version);
            let body = if candidates {
                Body::Work(Work::on(Queue::Compile, sample, program))
            } else {
                Body::Entry(Entry::Rollout(sample, program))
            };
            self.publish(node, body, Then::Job(number));
        }
    }

    /// A task received an answer.
    pub(crate) fn on_task(&mut self, node: NodeId, number: u32, response: &Response) {
        let Some(job) = self.job(node, number) else {
            return;
        };
        let Stage::Spreading { left, candidates } = job.stage else {
            return;
        };
        let version = job.work.program.0;
        if *response != Response::Stored {
            self.role_failed(node);
        } else if left > 1 {
            let left = left - 1;
            self.set_stage(node, number, Stage::Spreading { left, candidates });
        } else if candidates == self.config.has(Mutation::CandidatesBeforeRollouts) {
            self.spread(node, number, version, !candidates);
        } else {
            self.acknowledge(node, number, None);
        }
    }
}
