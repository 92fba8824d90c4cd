//! Archive: outcomes and dead letters → tasks. Only the archive decides the course of a run. Follows
//! `flopsmith_actors::role::archive`.

use std::collections::BTreeSet;

use flopsmith_coordination::steps::Steps;

use super::{Mind, Response, Then};
use crate::broker::Request;
use crate::config::{CLOCK, Config, Mutation, terms};
use crate::event::Timer;
use crate::fact::Fact;
use crate::message::{
    Body, Cause, Entry, Log, Micros, Name, NodeId, Program, Queue, Sample, Verdict, Work,
};
use crate::program::cell;
use crate::store::{Book, State};
use crate::world::World;

/// The program of a sample that no generator wrote.
const NO_PROGRAM: Program = Program(u32::MAX);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The archive looks for the tasks of the step that were answered: first in the log of outcomes, then in the log of
    /// rollouts.
    Finding(BTreeSet<u32>),
    /// This number of tasks is not stored yet.
    Telling(u32),
    Running,
    Saving(Name),
    Committing,
    Over,
}

#[derive(Debug)]
pub(crate) struct Archive {
    book: Book,
    /// The book as it was when the step began. A save in the middle of the step writes this book, so that a restarted
    /// archive reads the outcomes of the step again.
    begun: Book,
    /// Number of tasks of the step that were published.
    told: u32,
    phase: Phase,
    steps: Steps<Sample>,
    /// Duplicates that a mutated archive has counted in the current step.
    counted_twice: u64,
    /// The archive reads outcomes from this sequence on.
    place: u64,
    /// True if all stored outcomes have been read. Before that, the archive does not know which outcomes are missing.
    up_to_date: bool,
    dead_place: u64,
    asks_for_letters: bool,
    news: Micros,
}

impl Archive {
    /// True if all outcomes of the current step's published tasks are here.
    fn is_complete(&self, group: u32) -> bool {
        let Some(step) = self.book.step.map(u64::from) else {
            return false;
        };
        // A mutated archive takes duplicates for outcomes.
        let counted = self.steps.seen(step) as u64 + self.counted_twice;
        self.steps.complete(step) || counted >= u64::from(self.book.tasks * group)
    }

    /// True if the sample has an outcome in the book or its step is closed.
    fn knows(&self, config: &Config, sample: Sample) -> bool {
        self.steps.knows(config.step_of(sample).into(), &sample)
    }
}

impl World {
    fn archive(&mut self, node: NodeId) -> Option<&mut Archive> {
        match &mut self.node_mut(node).mind {
            Mind::Archive(archive) => Some(archive),
            _ => None,
        }
    }

    pub(crate) fn open_archive(&mut self, node: NodeId, book: Book) {
        let (begins, over, news) = (book.step.is_none(), book.finished, self.now);
        let first = book.step.unwrap_or_default().into();
        let place = book.sequence;
        self.node_mut(node).mind = Mind::Archive(Archive {
            begun: book.clone(),
            told: book.tasks,
            book,
            phase: Phase::Finding(BTreeSet::new()),
            steps: Steps::starting_at(first),
            counted_twice: 0,
            place,
            up_to_date: false,
            dead_place: 0,
            asks_for_letters: false,
            news,
        });
        self.set(node, CLOCK, Timer::Clock);
        if over {
            self.set_phase(node, Phase::Over);
        } else if begins {
            self.next_step(node);
        } else {
            self.replay(node, Log::Outcome);
        }
    }

    fn set_phase(&mut self, node: NodeId, phase: Phase) {
        if let Some(archive) = self.archive(node) {
            archive.phase = phase;
        }
    }

    fn replay(&mut self, node: NodeId, log: Log) {
        let request = Request::Read {
            log,
            from: 0,
            all: true,
        };
        self.ask(node, request, Then::Replay(log));
    }

    /// After a restart the archive publishes unanswered tasks again. A task that is answered twice counts once.
    pub(crate) fn on_replay(&mut self, node: NodeId, log: Log, response: Response) {
        let silent = self.config.has(Mutation::TasksNotToldAgain);
        let (Response::Entries(entries, _), config) = (response, self.config.clone()) else {
            self.role_failed(node);
            return;
        };
        let Some(archive) = self.archive(node) else {
            return;
        };
        let Phase::Finding(answered) = &mut archive.phase else {
            return;
        };
        for (_, entry) in entries {
            if let Entry::Outcome(sample, ..) | Entry::Rollout(sample, _) = entry {
                answered.insert(config.task_of(sample));
            }
        }
        if log == Log::Outcome {
            self.replay(node, Log::Rollout);
            return;
        }
        let unanswered: Vec<u32> = archive
            .book
            .step
            .map_or(0..0, |step| config.tasks_of(step, 0..archive.book.tasks))
            .filter(|task| !answered.contains(task) && !silent)
            .collect();
        self.tell_tasks(node, unanswered);
    }

    fn tell_tasks(&mut self, node: NodeId, tasks: Vec<u32>) {
        self.set_phase(node, Phase::Telling(tasks.len() as u32));
        if tasks.is_empty() {
            self.run_archive(node);
        }
        for number in tasks {
            let work = Work {
                queue: Queue::Generate,
                number,
                program: NO_PROGRAM,
            };
            self.publish(node, Body::Work(work), Then::Part);
        }
    }

    pub(crate) fn on_part(&mut self, node: NodeId, response: &Response) {
        if *response != Response::Stored {
            self.role_failed(node);
            return;
        }
        let Some(archive) = self.archive(node) else {
            return;
        };
        if let Phase::Telling(left) = &mut archive.phase {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.run_archive(node);
            }
        }
    }

    fn run_archive(&mut self, node: NodeId) {
        let now = self.now;
        if let Some(archive) = self.archive(node) {
            archive.phase = Phase::Running;
            archive.news = now;
            archive.up_to_date = false;
        }
        self.follow_outcomes(node);
    }

    fn follow_outcomes(&mut self, node: NodeId) {
        if let Some(archive) = self.archive(node) {
            let (log, from) = (Log::Outcome, archive.place);
            // The first read also returns if the log is empty, which shows that the archive is up to date.
            let all = !archive.up_to_date;
            self.ask(node, Request::Read { log, from, all }, Then::Follow(log));
        }
        self.follow_letters(node);
    }

    fn follow_letters(&mut self, node: NodeId) {
        if self.config.has(Mutation::DeadLetterWithoutOutcome) {
            return;
        }
        let Some(archive) = self.archive(node) else {
            return;
        };
        let ready = archive.phase == Phase::Running && archive.up_to_date;
        if ready && !archive.asks_for_letters {
            archive.asks_for_letters = true;
            let (log, from) = (Log::Dead, archive.dead_place);
            let request = Request::Read {
                log,
                from,
                all: false,
            };
            self.ask(node, request, Then::Follow(log));
        }
    }

    pub(crate) fn on_outcomes(&mut self, node: NodeId, entries: &[(u64, Entry)], pending: usize) {
        for (sequence, entry) in entries {
            let Entry::Outcome(sample, program, verdict) = *entry else {
                continue;
            };
            self.count(node, *sequence, (sample, program), verdict);
            let group = self.config.group;
            let Some(archive) = self.archive(node) else {
                return;
            };
            // If another round or step begins, the archive reads the entries behind this one again later.
            if archive.is_complete(group) && self.round_ended(node) {
                return;
            }
        }
        if let Some(archive) = self.archive(node) {
            archive.up_to_date = pending == 0;
            self.follow_outcomes(node);
        }
    }

    fn count(
        &mut self,
        node: NodeId,
        sequence: u64,
        (sample, program): (Sample, Program),
        verdict: Verdict,
    ) {
        let (now, step) = (self.now, self.config.step_of(sample));
        let group = self.config.group;
        let every_one = self.config.has(Mutation::NoDedupeAtArchive);
        let overwrites = self.config.has(Mutation::LaterResultOverwrites);
        let Some(archive) = self.archive(node) else {
            return;
        };
        archive.news = now;
        archive.place = archive.place.max(sequence + 1);
        archive.book.sequence = archive.book.sequence.max(sequence);
        if archive.book.step != Some(step) {
            return;
        }
        let expected = u64::from(archive.book.tasks * group);
        let new = archive.steps.note(step.into(), expected, sample);
        if new || every_one || overwrites {
            archive.book.outcomes.insert(sample, verdict);
            archive.counted_twice += u64::from(every_one && !new);
            if let Verdict::Measured(speed) = verdict {
                let best = archive
                    .book
                    .cells
                    .entry(cell(program))
                    .or_insert((0, program));
                if speed > best.0 {
                    *best = (speed, program);
                }
            }
            self.facts.push(Fact::Counted {
                node,
                sample,
                verdict,
                new,
            });
        }
    }

    /// All outcomes of the published tasks are here. Either further tasks are drawn, or the step is over. False if
    /// neither is so yet: the further tasks are out already.
    fn round_ended(&mut self, node: NodeId) -> bool {
        let config = self.config.clone();
        let Some(archive) = self.archive(node) else {
            return false;
        };
        let Some(step) = archive.book.step else {
            return false;
        };
        let known = |sample| archive.book.outcomes.get(&sample).copied();
        let asked = config.asked(step, known);
        if asked.settled || config.has(Mutation::NoDedupeAtArchive) {
            self.next_step(node);
            return true;
        }
        let tasks = asked.tasks;
        if tasks <= archive.book.tasks {
            return false;
        }
        let before = archive.book.tasks;
        archive.book.tasks = tasks;
        archive.begun.tasks = tasks;
        archive.up_to_date = false;
        let begun = archive.begun.clone();
        let Some(name) = self.save(node, step, State::Archive(begun)) else {
            return true;
        };
        if config.has(Mutation::DrawsAgainBeforeSave) {
            self.tell_tasks(node, config.tasks_of(step, before..tasks).collect());
        }
        self.set_phase(node, Phase::Saving(name));
        true
    }

    /// Plans the next step, saves the state, and then publishes the tasks: a published task is always a saved task.
    fn next_step(&mut self, node: NodeId) {
        let (steps, tasks) = (self.config.steps, self.config.tasks);
        let Some(archive) = self.archive(node) else {
            return;
        };
        let next = archive.book.step.map_or(0, |step| step + 1);
        if let Some(done) = archive.book.step {
            archive.steps.close(done.into());
        }
        archive.book.step = Some(next);
        archive.book.finished = next >= steps;
        archive.book.tasks = if next < steps { tasks } else { 0 };
        archive.counted_twice = 0;
        archive.told = 0;
        archive.up_to_date = false;
        let book = archive.book.clone();
        archive.begun = book.clone();
        let Some(name) = self.save(node, next, State::Archive(book)) else {
            return;
        };
        if self.config.has(Mutation::TasksBeforeSave) && next < steps {
            let tasks = self.config.tasks_of(next, 0..tasks).collect();
            self.tell_tasks(node, tasks);
        }
        self.set_phase(node, Phase::Saving(name));
    }

    pub(crate) fn book_saved(&mut self, node: NodeId) {
        let Some(archive) = self.archive(node) else {
            return;
        };
        if let Phase::Saving(name) = archive.phase {
            let over = archive.book.finished;
            archive.phase = Phase::Committing;
            self.commit(node, name, over);
        }
    }

    pub(crate) fn step_committed(&mut self, node: NodeId) {
        let Some(archive) = self.archive(node) else {
            return;
        };
        let (finished, step) = (archive.book.finished, archive.book.step);
        let untold = archive.told..archive.book.tasks;
        archive.told = archive.book.tasks;
        if finished {
            self.set_phase(node, Phase::Over);
        } else if let Some(step) = step {
            let tasks = self.config.tasks_of(step, untold).collect();
            self.tell_tasks(node, tasks);
        }
    }

    /// Work that left its queue without a result gets an outcome at once: an infrastructure failure, never a reward.
    pub(crate) fn on_letters(&mut self, node: NodeId, entries: &[(u64, Entry)]) {
        let config = self.config.clone();
        let Some(archive) = self.archive(node) else {
            return;
        };
        archive.asks_for_letters = false;
        if archive.phase != Phase::Running || !archive.up_to_date {
            return;
        }
        let mut undecided = Vec::new();
        for (sequence, entry) in entries {
            archive.dead_place = sequence + 1;
            let Entry::Dead(_, work) = entry else {
                continue;
            };
            let samples: Vec<Sample> = match work.sample() {
                Some(sample) => vec![sample],
                None => config.samples_of_task(work.number).collect(),
            };
            let program = match work.sample() {
                Some(_) => work.program,
                None => NO_PROGRAM,
            };
            let unknown = samples
                .into_iter()
                .filter(|sample| !archive.knows(&config, *sample));
            undecided.extend(unknown.map(|sample| (sample, program, work.queue)));
        }
        let verdict = Verdict::Infrastructure(Cause::DeadLetter);
        for (sample, program, queue) in undecided {
            // The cache entry exists only after the compiler stage has named the program. Duplicates look there.
            let key = match queue {
                Queue::Verify | Queue::Time => program,
                _ => NO_PROGRAM,
            };
            let outcome = Entry::Outcome(sample, program, verdict);
            let then = Then::Decided(sample, key, verdict);
            self.publish(node, Body::Entry(outcome), then);
        }
        self.follow_letters(node);
    }

    pub(crate) fn on_decided(
        &mut self,
        node: NodeId,
        (sample, key, verdict): (Sample, Program, Verdict),
        response: &Response,
    ) {
        if *response != Response::Stored {
            self.role_failed(node);
        } else if key != NO_PROGRAM {
            self.note(node, None, key, sample, verdict);
        }
    }

    pub(crate) fn on_clock(&mut self, node: NodeId) {
        let now = self.now;
        let Some(archive) = self.archive(node) else {
            return;
        };
        let waits = archive.phase == Phase::Running && now - archive.news > terms::LOST_AFTER;
        if waits {
            archive.news = now;
            self.ask(node, Request::Count, Then::Count);
        }
        if self.archive(node).is_some_and(|a| a.phase != Phase::Over) {
            self.set(node, CLOCK, Timer::Clock);
        }
    }

    /// Samples that are in no queue and have no outcome get one. A sample that waits in a queue is not lost.
    pub(crate) fn on_queued(&mut self, node: NodeId, response: &Response) {
        let config = self.config.clone();
        let count = match response {
            Response::Count(count) => *count,
            _ => return self.role_failed(node),
        };
        let Some(archive) = self.archive(node) else {
            return;
        };
        let Some(step) = archive.book.step else {
            return;
        };
        if count > 0 || archive.phase != Phase::Running {
            return;
        }
        let unknown: Vec<Sample> = config
            .samples_of(step, archive.book.tasks)
            .filter(|sample| !archive.knows(&config, *sample))
            .collect();
        let verdict = Verdict::Infrastructure(Cause::Lost);
        for sample in unknown {
            let outcome = Entry::Outcome(sample, NO_PROGRAM, verdict);
            let then = Then::Decided(sample, NO_PROGRAM, verdict);
            self.publish(node, Body::Entry(outcome), then);
        }
    }
}
