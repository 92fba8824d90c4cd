//! Learner: groups of outcomes → policy versions. Follows `flopsmith_actors::role::learner`, `batches` and `ledger`.

use flopsmith_coordination::ledger::{Ledger, Samples};

use super::{Mind, Response, Then};
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

pub(crate) struct Learner {
    lessons: Lessons,
    /// The step from which the learner learns next.
    next: u32,
    phase: Phase,
    ledger: Ledger<Messages>,
}

/// An outcome with the numbers of its step and its step's first outcomes.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    sample: Sample,
    program: Program,
    verdict: Verdict,
    step: u32,
    /// Outcomes of the step's first round.
    first_round: u32,
}

#[derive(Debug, Clone, Copy)]
struct Rollout {
    sample: Sample,
    program: Program,
    step: u32,
    /// The mistake of [`Mutation::LearnsFromOtherTokens`].
    taken_for_any: bool,
}

struct Messages;

impl Samples for Messages {
    type Id = Sample;
    type Group = ();
    type Outcome = Outcome;
    type Rollout = Rollout;

    fn of_outcome(outcome: &Outcome) -> (Sample, u64, u64) {
        let first = u64::from(outcome.first_round);
        (outcome.sample, u64::from(outcome.step), first)
    }

    fn of_rollout(rollout: &Rollout) -> (Sample, u64) {
        (rollout.sample, u64::from(rollout.step))
    }

    fn group(_: &Outcome) {}

    fn teaches(outcome: &Outcome) -> bool {
        !matches!(outcome.verdict, Verdict::Infrastructure(_))
    }

    fn belongs(rollout: &Rollout, outcome: &Outcome) -> bool {
        rollout.taken_for_any || rollout.program == outcome.program
    }
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
            ledger: Ledger::starting_at(next.into()),
        });
        self.tell_version(node);
    }

    fn tell_version(&mut self, node: NodeId) {
        if let Some(learner) = self.learner(node) {
            let version = Entry::Version(learner.lessons.steps, learner.lessons.weights);
            self.publish(node, Body::Entry(version), Then::Told);
        }
    }

    pub(crate) fn on_told(&mut self, node: NodeId, response: &Response) {
        if *response != Response::Stored {
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
                Entry::Outcome(sample, program, verdict) => {
                    learner.ledger.outcome(Outcome {
                        sample,
                        program,
                        verdict,
                        step: config.step_of(sample),
                        first_round: config.tasks * config.group,
                    });
                }
                Entry::Rollout(sample, program) => learner.ledger.rollout(Rollout {
                    sample,
                    program,
                    step: config.step_of(sample),
                    taken_for_any: config.has(Mutation::LearnsFromOtherTokens),
                }),
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
        if !learner.is_complete(&config) {
            return;
        }
        let missing = learner.ledger.awaited(learner.next.into()).next().is_some();
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
        let groups = learner.ledger.take(learner.next.into());
        let samples = groups.iter().flatten();
        let learnt: Vec<(Sample, Verdict)> = samples
            .filter(|sample| sample.rollout.is_some())
            .map(|sample| (sample.outcome.sample, sample.outcome.verdict))
            .collect();
        learner.lessons = Lessons {
            steps: learner.lessons.steps + 1,
            weights: weights(learner.lessons.weights, learnt.iter().copied()),
            learnt,
        };
        learner.next += 1;
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
    /// True if every outcome of the next step is here and no group of it is drawn again.
    fn is_complete(&self, config: &Config) -> bool {
        let step = u64::from(self.next);
        let known = |sample: Sample| self.ledger.known(step, &sample).map(|o| o.verdict);
        self.ledger.complete() == Some(step)
            && (config.has(Mutation::LearnsBeforeDrawnAgain)
                || config.asked(self.next, known).settled)
    }
}
