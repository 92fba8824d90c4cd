//! A row for each step.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use flopsmith_actors::role::recorder::{StepLine, files};
use flopsmith_protocol::Purpose;
use flopsmith_run::scalars::Curves;
use flopsmith_run::{folder, summary};

use crate::outcomes::purpose;
use crate::table::Kind::{Integer, Real, Text};
use crate::table::{Cell, Column, Sink, row};

/// A step with all its numbers by tag.
pub struct Step {
    run: String,
    step: u64,
    purpose: Option<Purpose>,
    ended_unix_ms: Option<u64>,
    values: BTreeMap<String, f64>,
}

impl Step {
    fn number(&self, tag: &str) -> Cell {
        Cell::or_missing(self.values.get(tag), |number| Cell::Real(*number))
    }

    fn count(&self, tag: &str) -> Cell {
        // Counts are whole numbers far below 2^53.
        Cell::or_missing(self.values.get(tag), |number| Cell::Integer(*number as i64))
    }
}

type Of = Column<Step>;

/// The columns. Their names, kinds and order are part of the interface; new ones are added at the end.
pub const COLUMNS: &[Of] = &[
    Of::new("run", Text, |s| Cell::text(&s.run)),
    Of::new("step", Integer, |s| Cell::integer(s.step)),
    Of::new("purpose", Text, |s| {
        Cell::or_missing(s.purpose, |p| Cell::text(purpose(p)))
    }),
    Of::new("ended_unix_ms", Integer, |s| {
        Cell::or_missing(s.ended_unix_ms, Cell::integer)
    }),
    Of::new("stage", Integer, |s| s.count("samples/stage")),
    Of::new("samples", Integer, |s| s.count("samples/count")),
    Of::new("correct_rate", Real, |s| s.number("samples/correct_rate")),
    Of::new("build_rate", Real, |s| s.number("samples/build_rate")),
    Of::new("distinct_correct", Integer, |s| {
        s.count("samples/distinct_correct")
    }),
    Of::new("mean_gflops", Real, |s| s.number("samples/mean_gflops")),
    Of::new("best_gflops", Real, |s| s.number("samples/best_gflops")),
    Of::new("best_gflops_so_far", Real, |s| s.number("best/gflops")),
    Of::new("best_ratio_so_far", Real, |s| s.number("best/ratio")),
    Of::new("cells", Integer, |s| s.count("archive/cells")),
    Of::new("qd_score", Real, |s| s.number("archive/qd_score")),
    Of::new("compile_seconds", Real, |s| s.number("seconds/compile")),
    Of::new("verify_seconds", Real, |s| s.number("seconds/verify")),
    Of::new("time_seconds", Real, |s| s.number("seconds/time")),
    Of::new("mean_reward", Real, |s| s.number("learner/mean_reward")),
    Of::new("loss", Real, |s| s.number("learner/loss")),
    Of::new("kl", Real, |s| s.number("learner/kl")),
    Of::new("entropy", Real, |s| s.number("learner/entropy")),
    Of::new("clip_share", Real, |s| s.number("learner/clip_share")),
    Of::new("grad_norm", Real, |s| s.number("learner/grad_norm")),
    Of::new("learning_rate", Real, |s| s.number("learner/learning_rate")),
    Of::new("flat_groups", Real, |s| s.number("learner/flat_groups")),
    Of::new("trained_samples", Integer, |s| s.count("learner/samples")),
    Of::new("trained_tokens", Integer, |s| s.count("learner/tokens")),
    Of::new("train_seconds", Real, |s| s.number("learner/seconds")),
    Of::new("progress", Real, |s| s.number("learner/progress")),
];

/// Writes the steps of a run in their order. Returns the number of lines that cannot be read.
pub fn export(run: &Path, sink: &mut dyn Sink) -> Result<u64> {
    let facts = folder::read_facts(run)?;
    let mut curves = Curves::of(run, &facts.problems);
    let mut steps: BTreeMap<u64, Step> = BTreeMap::new();
    let name = crate::name_of(run);
    for point in curves.next_points()? {
        let step = steps.entry(point.step).or_insert_with(|| Step {
            run: name.clone(),
            step: point.step,
            purpose: None,
            ended_unix_ms: None,
            values: BTreeMap::new(),
        });
        step.values.extend(point.values);
    }
    let lines: Vec<StepLine> = summary::lines(&run.join(files::METRICS))?;
    for line in lines {
        if let Some(step) = steps.get_mut(&line.step) {
            step.purpose = line.purpose;
            step.ended_unix_ms = Some(line.ended_unix_ms);
        }
    }
    for step in steps.values() {
        sink.row(row(COLUMNS, step))?;
    }
    Ok(curves.unreadable())
}
