//! The stages, the archive and the re-measurements of one problem in one run: events in, effects out.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_protocol::{
    CandidateId, CandidateRef, EliteHint, MachineClass, Measurement, Outcome, ProblemId, Purpose,
    RunId, TaskId, TechniqueSet, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::archive::{Archive, Counts, Inserted};
use crate::config::{Config, Error};
use crate::draw::Draw;
use crate::elite::Elite;
use crate::failures::Failures;
use crate::plan::{self, Plan};
use crate::progress::Progress;

/// Share of the fastest program's speed from which a new best of a cell is measured again beyond the limit for a step. The
/// many slow programs that open cells early in a run would otherwise take half of its time.
const PROMISING: f64 = 0.8;

/// A program that could not be measured again in this many repetitions is dropped.
const REPETITIONS: u32 = 3;
/// A second measurement that did not arrive within this many steps is lost; its place in the cell is freed.
const PATIENCE_STEPS: u64 = 5;

/// An action for the caller, or a report to it.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Compile, verify and time this candidate's source afresh, as
    /// `candidate.remeasured(repetition)` with [`Purpose::Certify`], and hand in the outcome.
    Remeasure {
        /// The candidate that wrote the program: this outcome's own one, or the one that this outcome measured again.
        candidate: CandidateId,
        /// Counts from 1; above 1 the repetition before failed without the program's fault or did not converge.
        repetition: u32,
    },
    /// A program is in the archive now.
    EliteAccepted {
        /// The candidate that wrote it.
        candidate: CandidateId,
        /// Its cell.
        techniques: TechniqueSet,
        /// Its speed by the second measurement, in GFLOPS.
        gflops: f64,
    },
    /// Tasks come from another stage from now on.
    StageChanged {
        /// The step that ended.
        step: u64,
        /// Stage before.
        from: u32,
        /// Stage after.
        to: u32,
        /// The rule's reason.
        reason: String,
    },
}

/// A program that waits for its second measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// The candidate that wrote it.
    pub candidate: CandidateRef,
    /// Its cell.
    pub techniques: TechniqueSet,
    /// The program by its first measurement.
    pub elite: Elite,
    /// The repetition that is under way, from 1.
    pub repetition: u32,
    /// How many steps had ended when it was first asked for.
    since: u64,
}

/// Staged Quality-Diversity for one problem on one machine class in one run.
///
/// The whole state is serde; MessagePack keeps every bit of it. A run with
/// several problems holds one of these per problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sqd {
    config: Config,
    run: RunId,
    archive: Archive,
    progress: Progress,
    /// Candidates awaiting their second measurement.
    pending: BTreeMap<CandidateId, Pending>,
    /// The samples of each task that have counted. A candidate's id is derived
    /// from both, so this is the set of their ids in less space.
    seen: BTreeMap<TaskId, BTreeSet<u32>>,
    last_step_ended: Option<u64>,
    steps_ended: u64,
    remeasures_this_step: u32,
    /// Failed answers that tasks may ask to repair; empty if `repair_share` is 0.
    #[serde(default, skip_serializing_if = "Failures::is_empty")]
    failures: Failures,
}

impl Sqd {
    /// Begins in the first stage with an empty archive.
    pub fn new(
        config: Config,
        run: RunId,
        problem: ProblemId,
        machine_class: MachineClass,
    ) -> Result<Self, Error> {
        config.check()?;
        let archive = Archive::new(
            problem,
            machine_class,
            config.techniques,
            config.elites_per_cell,
        );
        Ok(Self {
            config,
            run,
            archive,
            progress: Progress::new(),
            pending: BTreeMap::new(),
            seen: BTreeMap::new(),
            last_step_ended: None,
            steps_ended: 0,
            remeasures_this_step: 0,
            failures: Failures::default(),
        })
    }

    /// The rules.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The archive.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The number of the current stage.
    pub fn stage(&self) -> u32 {
        self.progress.stage
    }

    /// Programs that wait for their second measurement. After a restart the caller asks for each of them again.
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// The tasks of one step. Depends on nothing but the state, the step and the seed.
    pub fn plan(&self, step: u64, tasks: usize, seed: u64) -> Vec<Plan> {
        plan::plan(
            &self.config,
            &self.archive,
            &self.failures,
            self.stage(),
            step,
            tasks,
            seed,
        )
    }

    /// Elites for the exploration samples of a task that permits these techniques: at most one for each of so many
    /// samples. The state, the rules and the task's seed decide.
    pub fn parents(&self, permitted: TechniqueSet, samples: u32, seed: u64) -> Vec<EliteHint> {
        let mut draw = Draw::new(seed, u64::from(samples));
        plan::parents(&self.config, &self.archive, permitted, samples, &mut draw)
    }

    /// The tasks of an evaluation: everything is permitted and nothing is shown.
    pub fn evaluation(&self, tasks: usize) -> Vec<Plan> {
        plan::evaluation(&self.config, tasks)
    }

    /// A candidate was decided, for the first time or ([`Purpose::Certify`]) once more.
    ///
    /// Outcomes of other runs, problems or machine classes, outcomes that say nothing about the candidate, and outcomes
    /// that have counted already change nothing. Evaluation samples may enter the archive, since a verified program is
    /// a program, but no stage moves because of them. The programs of exploration samples may enter it as well; they
    /// move no stage and are not counted, since they say little about the policy.
    pub fn on_outcome(&mut self, outcome: &Outcome) -> Vec<Effect> {
        let candidate = &outcome.candidate;
        let ours = candidate.run == self.run
            && candidate.problem == *self.archive.problem()
            && outcome.machine_class == *self.archive.machine_class();
        if !ours {
            return Vec::new();
        }
        if candidate.purpose == Purpose::Certify {
            return self.on_repetition(outcome);
        }
        if !outcome.verdict.counts() || !self.first_time(candidate) {
            return Vec::new();
        }
        let measured = Elite::from_outcome(outcome);
        if !candidate.exploration {
            self.count(outcome, measured.is_some());
        }
        if !candidate.exploration && matches!(candidate.purpose, Purpose::Train | Purpose::Search) {
            if candidate.stage == self.stage() {
                let known = outcome.verdict.measurement().map(Measurement::known_ratio);
                let ratio = known.filter(|_| measured.is_some());
                self.progress.on_candidate(&self.config, ratio);
            }
            if measured.is_some() {
                self.progress.on_correct();
            }
            if self.config.repair_share > 0.0 {
                self.failures.note(outcome);
            }
        }
        match (measured, outcome.techniques) {
            (Some(elite), Some(techniques)) => self.consider(candidate, techniques, elite),
            _ => Vec::new(),
        }
    }

    /// A program was measured again. A candidate that waits for no second measurement changes nothing.
    ///
    /// A reused measurement is not a second one, and a measurement that did not converge confirms nothing; in both
    /// cases the program is dropped. Before that, [`Sqd::on_outcome`] asks for another repetition of a measurement that
    /// did not converge.
    pub fn confirm(&mut self, candidate: &CandidateId, measurement: &Measurement) -> Vec<Effect> {
        let Some(pending) = self.pending.remove(candidate) else {
            return Vec::new();
        };
        let techniques = pending.techniques;
        let confirms = !measurement.reused && measurement.converged();
        let fresh = confirms.then_some(pending.elite);
        let Some(elite) = fresh.and_then(|e| e.measured_again(measurement)) else {
            return Vec::new();
        };
        let too_slow = self
            .archive
            .cell(techniques)
            .and_then(|c| c.best())
            .is_some_and(|best| elite.ratio < self.config.elite_floor * best.ratio);
        let gflops = elite.gflops;
        if too_slow || !self.insert(techniques, elite).stayed() {
            return Vec::new();
        }
        vec![Effect::EliteAccepted {
            candidate: candidate.clone(),
            techniques,
            gflops,
        }]
    }

    /// A program could not be measured again and is dropped. Another candidate with the same source may be tried anew.
    pub fn refuse(&mut self, candidate: &CandidateId) {
        self.pending.remove(candidate);
    }

    fn on_repetition(&mut self, outcome: &Outcome) -> Vec<Effect> {
        let Some(original) = &outcome.candidate.remeasures else {
            return Vec::new();
        };
        match &outcome.verdict {
            // The machine disturbed the measurement, and perhaps will not the next time.
            Verdict::Measured { measurement } if !measurement.converged() => {
                self.repeat(outcome, original)
            }
            Verdict::Measured { measurement } => self.confirm(original, measurement),
            Verdict::Rejected { .. } => {
                self.refuse(original);
                Vec::new()
            }
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {
                self.repeat(outcome, original)
            }
        }
    }

    /// A repetition did not converge, or failed without the program's fault: asks for one more, if it was the awaited
    /// one.
    fn repeat(&mut self, outcome: &Outcome, original: &CandidateId) -> Vec<Effect> {
        let Some(pending) = self
            .pending
            .get_mut(original)
            .filter(|p| original.remeasured(p.repetition) == outcome.candidate.id)
        else {
            return Vec::new();
        };
        if pending.repetition >= REPETITIONS {
            self.refuse(original);
            return Vec::new();
        }
        pending.repetition += 1;
        vec![Effect::Remeasure {
            candidate: original.clone(),
            repetition: pending.repetition,
        }]
    }

    /// Notes the share of the run's budget that is spent, 0 to 1, for [`crate::Advance::BudgetShare`]. The caller
    /// reports it before a step ends.
    pub fn on_spent(&mut self, share: f64) {
        self.progress.on_spent(share);
    }

    /// A step ended: [`Sqd::on_outcome`] has received every outcome of the step that will ever come. A step ends once.
    pub fn on_step_end(&mut self, step: u64) -> Vec<Effect> {
        if !self.close_step(step) {
            return Vec::new();
        }
        let from = self.stage();
        self.progress
            .on_step_end(&self.config)
            .map(|moved| Effect::StageChanged {
                step,
                from,
                to: moved.to,
                reason: moved.reason,
            })
            .into_iter()
            .collect()
    }

    /// Ends a step that is no part of the curriculum: an evaluation permits everything and moves no stage.
    pub fn on_evaluation_end(&mut self, step: u64) {
        self.close_step(step);
    }

    /// Resets the counts for the next step; false if this step was ended before.
    fn close_step(&mut self, step: u64) -> bool {
        if self.last_step_ended.is_some_and(|last| step <= last) {
            return false;
        }
        self.last_step_ended = Some(step);
        self.steps_ended += 1;
        self.remeasures_this_step = 0;
        let now = self.steps_ended;
        self.pending.retain(|_, p| now - p.since < PATIENCE_STEPS);
        true
    }

    /// Notes a candidate; false if it was noted before.
    fn first_time(&mut self, candidate: &CandidateRef) -> bool {
        self.seen
            .entry(candidate.task.clone())
            .or_default()
            .insert(candidate.sample)
    }

    fn count(&mut self, outcome: &Outcome, correct: bool) {
        let permitted = outcome.candidate.permitted;
        let aimed = Counts {
            aimed: 1,
            hit: u64::from(correct && outcome.techniques == Some(permitted)),
            ..Counts::default()
        };
        self.archive.count(permitted, &self.run, aimed);
        if let Some(techniques) = outcome.techniques {
            let tried = Counts {
                tried: 1,
                correct: u64::from(correct),
                ..Counts::default()
            };
            self.archive.count(techniques, &self.run, tried);
        }
    }

    fn insert(&mut self, techniques: TechniqueSet, elite: Elite) -> Inserted {
        let (gain, floor) = (self.config.min_gain, self.config.elite_floor);
        self.archive.insert(techniques, elite, gain, floor)
    }

    /// The greatest ratio of all elites and of the programs that wait to become one; 0 without any.
    fn fastest(&self) -> f64 {
        let best = self.archive.best().map(|(_, best)| best.ratio);
        let waiting = self.pending.values().map(|p| p.elite.ratio);
        best.into_iter().chain(waiting).fold(0.0, f64::max)
    }

    /// Asks for a second measurement of a program that could become an elite.
    fn consider(
        &mut self,
        candidate: &CandidateRef,
        techniques: TechniqueSet,
        elite: Elite,
    ) -> Vec<Effect> {
        if self.insert(techniques, elite.clone()) != Inserted::NeedsRemeasure {
            return Vec::new();
        }
        // Waiting programs count as if they were in the cell already. Otherwise all the programs of the step that opens
        // a cell would be measured twice.
        let waiting = self.pending.values().filter(|p| p.techniques == techniques);
        let cell = self.archive.cell(techniques);
        let mut rivals: Vec<&Elite> = cell
            .into_iter()
            .flat_map(|c| c.elites())
            .chain(waiting.map(|p| &p.elite))
            .collect();
        rivals.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        let faster_than = |rival: &Elite| elite.clearly_faster_than(rival, self.config.min_gain);
        let promising = elite.ratio >= PROMISING * self.fastest();
        let urgent = promising && rivals.first().is_none_or(|best| faster_than(best));
        let known = rivals.iter().any(|r| r.digest == elite.digest);
        let has_place = rivals
            .get(self.config.elites_per_cell - 1)
            .is_none_or(|last| faster_than(last));
        let near_best = rivals
            .first()
            .is_none_or(|best| elite.ratio >= self.config.elite_floor * best.ratio);
        let affordable = urgent || self.remeasures_this_step < self.config.remeasures_per_step;
        if known || !has_place || !near_best || !affordable {
            return Vec::new();
        }
        self.remeasures_this_step += 1;
        let pending = Pending {
            candidate: candidate.clone(),
            techniques,
            elite,
            repetition: 1,
            since: self.steps_ended,
        };
        self.pending.insert(candidate.id.clone(), pending);
        vec![Effect::Remeasure {
            candidate: candidate.id.clone(),
            repetition: 1,
        }]
    }
}
