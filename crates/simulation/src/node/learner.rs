//! Learner: groups of outcomes → policy versions. Follows `flopsmith_actors::role::learner`, `batches` and `ledger`.

use std::collections::BTreeMap;

use super::{Heard, Mind, Then};
use crate::broker::Request;
use crate::config::{Config, Mutation, terms};
use crate::event::Timer;
use crate::message::{Body, Entry, Log, MILLI, Name, NodeId, Program, SECOND, Sample, Verdict};
use crate::program::weights;
use crate::store::{Lessons, State};
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The learner publishes its current version again, because a generator may not have read it.
    Telling,
    Reading,
    /// Every outcome of the step is here, but not every rollout.
    Missing,
    Training,
    Saving(Name),
    Committing,
}

#[derive(Debug)]
pub(crate) struct Learner {
    lessons: Lessons,
    /// The step from which the learner learns next.
    next: u32,
    phase: Phase,
    outcomes: BTreeMap<Sample, (Program, Verdict)>,
    rollouts: BTreeMap<Sample, Program>,
}

impl World {
    fn learner(&mut self, node: NodeId) -> Option<&mut Learner> {
        match &mut self.node_mut(node).mind {
            Mind::Learner(learner) => Some(learner),
            _ => None,
        }
    }

    pub(crate) fn open_learner(&mut self, node: NodeId, lessons: Lessons) {
        let again = u32::from(self.config.has(Mutation::LearnsAgainAfterRestart));
        let next = lessons.steps.saturating_sub(again);
        self.node_mut(node).mind = Mind::Learner(Learner {
            lessons,
            next,
            phase: Phase::Telling,
            outcomes: BTreeMap::new(),
            rollouts: BTreeMap::new(),
        });
        self.tell_version(node);
    }

    fn tell_version(&mut self, node: NodeId) {
        if let Some(learner) = self.learner(node) {
            let version = Entry::Version(learner.lessons.steps, learner.lessons.weights);
            self.publish(node, Body::Entry(version), Then::Told);
        }
    }

    pub(crate) fn on_told(&mut self, node: NodeId, heard: &Heard) {
        if *heard != Heard::Stored {
            self.role_failed(node);
            return;
        }
        let Some(learner) = self.learner(node) else {
            return;
        };
        if learner.phase == Phase::Telling {
            // This is the first published version since the start of the role.
            learner.phase = Phase::Reading;
            for log in [Log::Outcome, Log::Rollout] {
                self.follow(node, log, 0);
            }
        } else if learner.phase == Phase::Committing {
            learner.phase = Phase::Reading;
            self.learn(node);
        }
    }

    pub(crate) fn follow(&mut self, node: NodeId, log: Log, from: u64) {
        let request = Request::Read {
            log,
            from,
            all: false,
        };
        self.ask(node, request, Then::Follow(log));
    }

    /// Entries of both logs, in any order. The first entry of a sample counts.
    pub(crate) fn on_lessons(&mut self, node: NodeId, log: Log, entries: &[(u64, Entry)]) {
        let config = self.config.clone();
        let Some(learner) = self.learner(node) else {
            return;
        };
        let mut last = 0;
        for (sequence, entry) in entries {
            last = *sequence;
            match *entry {
                Entry::Outcome(sample, program, verdict)
                    if config.step_of(sample) >= learner.next =>
                {
                    learner.outcomes.entry(sample).or_insert((program, verdict));
                }
                Entry::Rollout(sample, program) if config.step_of(sample) >= learner.next => {
                    learner.rollouts.entry(sample).or_insert(program);
                }
                _ => {}
            }
        }
        self.follow(node, log, last + 1);
        self.learn(node);
    }

    /// Trains on the next step once all of its outcomes and all rollouts for them are here.
    fn learn(&mut self, node: NodeId) {
        let config = self.config.clone();
        let Some(learner) = self.learner(node) else {
            return;
        };
        if !matches!(learner.phase, Phase::Reading | Phase::Missing) || learner.next >= config.steps
        {
            return;
        }
        let (tasks, over) = learner.asked(&config);
        if !over {
            return;
        }
        let missing = config.samples_of(learner.next, tasks).any(|sample| {
            learner.teaches(sample).is_some() && !learner.rollouts.contains_key(&sample)
        });
        if !missing {
            learner.phase = Phase::Training;
            let takes = self.chance.between(200 * MILLI, 3 * SECOND);
            self.set(node, takes, Timer::Trained);
        } else if learner.phase == Phase::Reading {
            learner.phase = Phase::Missing;
            let step = learner.next;
            self.set(node, terms::ROLLOUT_SILENCE, Timer::Silence(step));
        }
    }

    /// Rollouts that must exist do not arrive. The role restarts.
    pub(crate) fn on_silence(&mut self, node: NodeId, step: u32) {
        if let Some(learner) = self.learner(node)
            && learner.phase == Phase::Missing
            && learner.next == step
        {
            self.role_failed(node);
        }
    }

    pub(crate) fn trained(&mut self, node: NodeId) {
        let config = self.config.clone();
        let Some(learner) = self.learner(node) else {
            return;
        };
        let (tasks, _) = learner.asked(&config);
        let learnt: Vec<(Sample, Verdict)> = config
            .samples_of(learner.next, tasks)
            .filter_map(|sample| {
                let (program, verdict) = learner.teaches(sample)?;
                let its_own = learner.rollouts.get(&sample) == Some(&program);
                let blind = config.has(Mutation::LearnsFromOtherTokens);
                (its_own || blind).then_some((sample, verdict))
            })
            .collect();
        learner.lessons = Lessons {
            steps: learner.lessons.steps + 1,
            weights: weights(learner.lessons.weights, learnt.iter().copied()),
            learnt,
        };
        learner.next += 1;
        let first = config.first_of_step(learner.next);
        learner.outcomes = learner.outcomes.split_off(&first);
        learner.rollouts = learner.rollouts.split_off(&first);
        let lessons = learner.lessons.clone();
        let steps = lessons.steps;
        if config.has(Mutation::PublishedBeforeCommit) {
            let version = Entry::Version(steps, lessons.weights);
            self.publish(node, Body::Entry(version), Then::Told);
        }
        let saved = self.save(node, steps, State::Learner(lessons));
        if let (Some(learner), Some(name)) = (self.learner(node), saved) {
            learner.phase = Phase::Saving(name);
        }
    }

    pub(crate) fn lessons_saved(&mut self, node: NodeId) {
        let Some(learner) = self.learner(node) else {
            return;
        };
        if let Phase::Saving(name) = learner.phase {
            learner.phase = Phase::Committing;
            self.commit(node, name, false);
        }
    }

    pub(crate) fn lesson_committed(&mut self, node: NodeId) {
        self.tell_version(node);
    }
}

impl Learner {
    /// The number of tasks of the next step, and whether the step is complete.
    fn asked(&self, config: &Config) -> (u32, bool) {
        let known = |sample: Sample| self.outcomes.get(&sample).map(|(_, verdict)| *verdict);
        if config.has(Mutation::LearnsBeforeDrawnAgain) {
            let mut first = config.samples_of(self.next, config.tasks);
            return (config.tasks, first.all(|sample| known(sample).is_some()));
        }
        config.asked(self.next, known)
    }

    /// The program and verdict of a sample, unless the outcome is an infrastructure failure.
    fn teaches(&self, sample: Sample) -> Option<(Program, Verdict)> {
        let found = self.outcomes.get(&sample).copied()?;
        (!matches!(found.1, Verdict::Infrastructure(_))).then_some(found)
    }
}
