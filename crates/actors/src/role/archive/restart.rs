//! How the archive continues from a saved state, and how it begins without one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flopsmith_archive::mix::{LearningProgress, Mix};
use flopsmith_archive::{Pending, Sqd};
use flopsmith_coordination::steps::Steps;
use flopsmith_problem::Problem;
use flopsmith_protocol::{Candidate, CandidateRef, Outcome, ProblemId, Purpose, Rollout, subjects};
use flopsmith_store::Checkpoints;

use super::{Archive, Saved, Tally, Working};
use crate::advantages::StageBests;
use crate::course::Course;
use crate::documents::documents;
use crate::error::Error;
use crate::peaks::Peaks;
use crate::role_lease::RoleLease;
use crate::stream::is_fresh;

impl Archive {
    /// The state to continue from: the one that was saved last, or the initial state of a new run.
    pub(super) async fn restore(&self, lease: RoleLease) -> Result<Working, Error> {
        let checkpoints =
            Checkpoints::new(self.context.host.store.clone(), "archive").in_term(lease.term());
        let run = &self.context.run;
        let now = Instant::now();
        let last_news = self.news();
        let found = lease.latest(&checkpoints, run).await?;
        let (saved, first) = match found {
            Some(checkpoint) => {
                let bytes = checkpoint.file("archive.msgpack").await?;
                let saved: Saved = rmp_serde::from_slice(&bytes).map_err(|e| Error::Saved {
                    role: "archive",
                    detail: e.to_string(),
                })?;
                let first = saved.course.current().map_or(u64::MAX, |c| c.0);
                (saved, first)
            }
            None => {
                let saved = Saved {
                    sqd: self.new_sqd()?,
                    course: Course::new(self.job),
                    tasks: Vec::new(),
                    sequence: 0,
                    outcomes_seen: 0,
                    elapsed: 0.0,
                    bests: StageBests::default(),
                    progress: match self.context.settings.mix {
                        Mix::Uniform => None,
                        Mix::LearningProgress => Some(LearningProgress::default()),
                    },
                };
                (saved, 0)
            }
        };
        let folder = self.context.settings.turns.documents.as_deref();
        let documents = folder.map(documents).transpose()?;
        let (before, begun) = (saved.elapsed, saved.sequence);
        let mut work = Working {
            saved,
            steps: Steps::starting_at(first),
            lease,
            checkpoints,
            arrived: BTreeMap::new(),
            repeated: BTreeMap::new(),
            measured_again: BTreeMap::new(),
            held: Vec::new(),
            started: now,
            before,
            step_started: now,
            last_news,
            tally: Tally::default(),
            begun,
            peaks: Peaks::default(),
            documents: documents.unwrap_or_default(),
        };
        if work.saved.tasks.is_empty() && !work.saved.course.finished() {
            self.next_step(&mut work, 0.0).await?;
        } else {
            self.publish_unanswered(&work).await?;
            self.ask_again(&mut work).await?;
        }
        work.last_news = self.news();
        Ok(work)
    }

    /// The stages of each problem as they begin.
    fn new_sqd(&self) -> Result<BTreeMap<ProblemId, Sqd>, Error> {
        let context = &self.context;
        let made = context
            .problems()
            .map(|of| Ok((of.problem.id.clone(), self.stages_of(&of.problem)?)));
        made.collect()
    }

    /// The stages of a problem as they begin. A fresh nest occurs once, so it permits its whole pool at once, and so do the
    /// evaluated nests of a stream.
    pub(super) fn stages_of(&self, problem: &Problem) -> Result<Sqd, Error> {
        let context = &self.context;
        let rules = &context.settings.sqd;
        let settings = &context.settings;
        let at_once = settings.is_stream() || is_fresh(settings, &problem.id);
        let rules = match (settings.has_many(), at_once) {
            (false, _) => rules.clone(),
            (_, false) => rules.within(problem.techniques),
            (_, true) => rules.within(problem.techniques).disabled(),
        };
        let sqd = Sqd::new(
            rules,
            context.run.clone(),
            problem.id.clone(),
            context.host.machine_class.clone(),
        );
        sqd.map_err(|e| Error::Settings(format!("[sqd]: {e}")))
    }

    /// After a restart: asks again for second measurements that were asked for and never arrived. Asking twice counts
    /// once.
    async fn ask_again(&self, work: &mut Working) -> Result<(), Error> {
        let pending = work.saved.sqd.values().flat_map(Sqd::pending);
        let pending: Vec<Pending> = pending.cloned().collect();
        for waiting in pending {
            let id = waiting.candidate.id.remeasured(waiting.repetition);
            let again = Candidate {
                candidate: CandidateRef {
                    id,
                    purpose: Purpose::Certify,
                    remeasures: Some(waiting.candidate.id.clone()),
                    ..waiting.candidate
                },
                source: waiting.elite.source.clone(),
                answer: None,
            };
            self.measure_again(work, again).await?;
        }
        Ok(())
    }

    /// After a restart: publishes the tasks without an answer again. Answering a task twice counts once.
    async fn publish_unanswered(&self, work: &Working) -> Result<(), Error> {
        let mut answered = BTreeSet::new();
        let run = &self.context.run;
        let mut outcomes = self
            .context
            .host
            .bus
            .log::<Outcome>(&subjects::outcome(run), 0)
            .await?;
        for (_, outcome) in outcomes.replay().await? {
            answered.insert(outcome.candidate.task);
        }
        let mut rollouts = self
            .context
            .host
            .bus
            .log::<Rollout>(&subjects::rollout(run), 0)
            .await?;
        for (_, rollout) in rollouts.replay().await? {
            answered.insert(rollout.candidate.task);
        }
        for task in work
            .saved
            .tasks
            .iter()
            .filter(|t| !answered.contains(&t.id))
        {
            self.publish_task(task).await?;
        }
        Ok(())
    }
}
