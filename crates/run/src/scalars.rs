//! The numbers of a run by step, for tools that draw curves: TensorBoard, MLflow, tables.
//!
//! A number has a tag, `GROUP/NAME`. The groups: `samples` and `outcomes` are the fields of `metrics.jsonl`, `learner`
//! those of `training.jsonl`, `seconds` sums up the work of a step by stage, `best` and `archive` are about all outcomes up
//! to the step, `problem/NAME` the same for a problem of a run over many, `share_of_time` the time by role. [`Scalars`] is
//! pure; [`Curves`] reads the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use flopsmith_actors::role::recorder::{StepLine, files};
use flopsmith_archive::{Certainty, Fastest};
use flopsmith_protocol::{
    Measurement, Outcome, PolicyPublished, ProblemId, Purpose, StepMetrics, TechniqueSet,
};
use serde_json::Value;

use crate::summary::Facts;
use crate::tail::Tail;

/// Some numbers of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The step.
    pub step: u64,
    /// Time of the numbers, milliseconds since 1970.
    pub unix_ms: u64,
    /// Each number with its tag.
    pub values: Vec<(String, f64)>,
}

impl Point {
    /// The time of each role as a share of the run's time so far, at its newest step.
    pub fn of_time(facts: &Facts, step: u64, unix_ms: u64) -> Self {
        let roles = facts.shares.by_role.iter();
        let mut values: Vec<(String, f64)> = roles
            .map(|(role, share)| (format!("share_of_time/{role}"), *share))
            .collect();
        values.push(("share_of_time/idle".into(), facts.shares.idle));
        Self {
            step,
            unix_ms,
            values,
        }
    }
}

/// Computes the numbers that need outcomes, and names all.
#[derive(Debug, Default)]
pub struct Scalars {
    /// The named problems of a run over many; empty in a run with one.
    problems: BTreeSet<ProblemId>,
    found: BTreeMap<ProblemId, Found>,
    /// Steps without a point so far.
    steps: BTreeMap<u64, OfStep>,
}

/// The programs found for a problem so far.
#[derive(Debug, Default)]
struct Found {
    fastest: Fastest,
    /// The best GFLOPS of each technique set with a program that was measured again.
    cells: BTreeMap<TechniqueSet, f64>,
}

impl Found {
    /// Notes a converged second measurement.
    fn confirm(&mut self, measured: &Measurement, techniques: TechniqueSet) {
        let best = self.cells.entry(techniques).or_default();
        *best = best.max(measured.gflops);
    }

    fn state(&self) -> State {
        let best = self.fastest.best();
        // A number that did not converge would spoil the scale of a curve.
        let best = best.filter(|best| best.speed.certainty > Certainty::Imprecise);
        State {
            best: best.map(|best| (best.speed.gflops, best.ratio)),
            cells: self.cells.len(),
            // The sum of no numbers is -0.
            qd_score: self.cells.values().sum::<f64>() + 0.0,
        }
    }
}

/// A problem after the last outcome of a step.
#[derive(Debug, Clone, Copy)]
struct State {
    /// GFLOPS and ratio of the fastest program.
    best: Option<(f64, f64)>,
    cells: usize,
    /// Sum of the cells' best GFLOPS.
    qd_score: f64,
}

/// The part of a step's numbers that its line in `metrics.jsonl` lacks.
#[derive(Debug, Default)]
struct OfStep {
    /// Seconds of compiling, verifying and timing.
    seconds: [f64; 3],
    problems: BTreeMap<ProblemId, State>,
    cells: usize,
}

impl Scalars {
    /// `problems` are the named problems of a run over many; none in a run with one. Fresh nests of a stream have no numbers
    /// of their own: each occurs in one step only.
    pub fn new(problems: &[ProblemId]) -> Self {
        Self {
            problems: problems.iter().cloned().collect(),
            ..Self::default()
        }
    }

    fn many(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Notes an outcome. All outcomes of a step come before its line.
    pub fn outcome(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        let again = candidate.purpose == Purpose::Certify;
        let counts = !self.many() || self.problems.contains(&candidate.problem);
        let measured = outcome.verdict.measurement().filter(|m| m.converged());
        if let (true, Some(measured), Some(techniques)) = (counts, measured, outcome.techniques) {
            let found = self.found.entry(candidate.problem.clone()).or_default();
            if again && !measured.reused {
                found.confirm(measured, techniques);
            }
        }
        if let Some(found) = self.found.get_mut(&candidate.problem) {
            found.fastest.note(outcome);
        }
        // Second measurements are of no step.
        if again {
            return;
        }
        let step = self.steps.entry(candidate.step).or_default();
        for (sum, seconds) in step.seconds.iter_mut().zip(outcome.stage_seconds) {
            *sum += f64::from(seconds);
        }
        if let Some(found) = self.found.get(&candidate.problem) {
            step.problems
                .insert(candidate.problem.clone(), found.state());
        }
        step.cells = self.found.values().map(|found| found.cells.len()).sum();
    }

    /// The numbers of a step with this line.
    pub fn line(&mut self, line: &StepLine) -> Point {
        let of_step = self.steps.remove(&line.step).unwrap_or_default();
        let mut values: Vec<(String, f64)> = Vec::new();
        let mut add = |tag: String, value: f64| values.push((tag, value));
        for (name, value) in [
            ("count", f64::from(line.samples)),
            ("correct_rate", line.correct_rate),
            ("build_rate", line.build_rate),
            ("distinct_correct", f64::from(line.distinct_correct)),
            ("stage", f64::from(line.stage)),
        ] {
            add(format!("samples/{name}"), value);
        }
        if !self.many() {
            add("samples/mean_gflops".into(), line.mean_gflops);
            add("samples/best_gflops".into(), line.best_gflops);
        }
        for (kind, count) in &line.outcomes {
            add(format!("outcomes/{kind}"), *count as f64);
        }
        for (stage, seconds) in ["compile", "verify", "time"].iter().zip(of_step.seconds) {
            add(format!("seconds/{stage}"), seconds);
        }
        add("archive/cells".into(), of_step.cells as f64);
        for (problem, state) in &of_step.problems {
            let (best, archive) = match self.many() {
                true => (
                    format!("problem/{problem}/best_"),
                    format!("problem/{problem}/"),
                ),
                false => ("best/".to_owned(), "archive/".to_owned()),
            };
            if let Some((gflops, ratio)) = state.best {
                add(format!("{best}gflops"), gflops);
                add(format!("{best}ratio"), ratio);
            }
            add(format!("{archive}qd_score"), state.qd_score);
            if self.many() {
                add(format!("{archive}cells"), state.cells as f64);
            }
        }
        Point {
            step: line.step,
            unix_ms: line.ended_unix_ms,
            values,
        }
    }
}

/// The numbers of a gradient step that ended `unix_ms`.
fn of_training(step: u64, unix_ms: u64, metrics: &StepMetrics) -> Point {
    let mut values = Vec::new();
    // All fields that are numbers, also those that a later version adds.
    if let Ok(Value::Object(fields)) = serde_json::to_value(metrics) {
        for (name, value) in &fields {
            // The other numbers of a step whose update was left out say nothing.
            if metrics.skipped_updates > 0 && !ALWAYS.contains(&name.as_str()) {
                continue;
            }
            match value {
                Value::Object(parts) if name == "ppo" => {
                    let parts = parts.iter().filter_map(|(n, v)| Some((n, v.as_f64()?)));
                    values.extend(parts.map(|(n, v)| (format!("learner/ppo_{n}"), v)));
                }
                other => values.extend(
                    other
                        .as_f64()
                        .map(|number| (format!("learner/{name}"), number)),
                ),
            }
        }
    }
    Point {
        step,
        unix_ms,
        values,
    }
}

/// The learner's numbers that a step without an update has as well.
const ALWAYS: [&str; 4] = ["mean_reward", "samples", "dropped", "skipped_updates"];

/// Reads the numbers of a run from its folder, also while the run goes on.
pub struct Curves {
    scalars: Scalars,
    lines: Tail,
    trained: Tail,
    outcomes: Tail,
    /// End of each step with a line, milliseconds since 1970.
    ended: BTreeMap<u64, u64>,
    /// The newest step of the lines and of the gradient steps so far.
    newest: [Option<u64>; 2],
    disordered: bool,
}

impl Curves {
    /// The run in `folder` from its beginning. `problems` as for [`Scalars::new`].
    pub fn of(folder: &Path, problems: &[ProblemId]) -> Self {
        Self {
            scalars: Scalars::new(problems),
            lines: Tail::of(folder.join(files::METRICS)),
            trained: Tail::of(folder.join(files::TRAINING)),
            outcomes: Tail::of(folder.join(files::OUTCOMES)),
            ended: BTreeMap::new(),
            newest: [None; 2],
            disordered: false,
        }
    }

    /// The points that were not given before, in the order of the steps.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn next_points(&mut self) -> Result<Vec<Point>> {
        let mut lines: Vec<StepLine> = Vec::new();
        self.lines.each(|line| {
            lines.push(line);
            Ok(())
        })?;
        let mut trained: Vec<PolicyPublished> = Vec::new();
        self.trained.each(|published| {
            trained.push(published);
            Ok(())
        })?;
        // The recorder writes a step's outcomes before its line, so they are there if they are read after it.
        self.outcomes.each(|outcome: Outcome| {
            self.scalars.outcome(&outcome);
            Ok(())
        })?;
        let steps = [
            lines.iter().map(|line| line.step).collect::<BTreeSet<_>>(),
            trained.iter().map(|published| published.step).collect(),
        ];
        for (newest, steps) in self.newest.iter_mut().zip(&steps) {
            self.disordered |= steps.first().is_some_and(|step| Some(*step) <= *newest);
            *newest = (*newest).max(steps.last().copied());
        }
        self.ended
            .extend(lines.iter().map(|line| (line.step, line.ended_unix_ms)));
        let mut points: Vec<Point> = lines.iter().map(|line| self.scalars.line(line)).collect();
        for published in &trained {
            let Some(metrics) = &published.metrics else {
                continue;
            };
            // The learner notes no time: a step is trained after its last outcome.
            let ended = self.ended.range(..=published.step).next_back();
            let took = (metrics.seconds.max(0.0) * 1000.0) as u64;
            let at = ended.map_or(0, |(_, ended)| ended.saturating_add(took));
            points.push(of_training(published.step, at, metrics));
        }
        // Stable: the line of a step stays before its training.
        points.sort_by_key(|point| point.step);
        Ok(points)
    }

    /// True if a step came after a later one. Then the points are not in the order of the steps.
    pub fn disordered(&self) -> bool {
        self.disordered
    }

    /// Number of whole lines of the records so far that could not be read.
    pub fn unreadable(&self) -> u64 {
        let files = [&self.lines, &self.trained, &self.outcomes];
        files.iter().map(|file| file.unreadable()).sum()
    }

    /// The newest step with a line, and its end in milliseconds since 1970.
    pub fn newest(&self) -> Option<(u64, u64)> {
        let (step, ended) = self.ended.last_key_value()?;
        Some((*step, *ended))
    }
}

#[cfg(test)]
mod tests;
