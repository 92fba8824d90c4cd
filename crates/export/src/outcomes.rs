//! A row for each outcome.

use std::path::Path;

use anyhow::Result;
use flopsmith_actors::role::recorder::files;
use flopsmith_protocol::{Digest, Measurement, Outcome, Purpose};
use flopsmith_run::tail::Tail;

use crate::table::Kind::{Flag, Integer, Real, Text};
use crate::table::{Cell, Column, Sink, row};

type Of = Column<Outcome>;

/// The columns. Their names, kinds and order are part of the interface; new ones are added at the end.
///
/// A measurement that did not converge has no ends of its interval: they span orders of magnitude, and a chart of all rows
/// would show little else. `converged` marks such rows.
pub const COLUMNS: &[Of] = &[
    Of::new("run", Text, |o| Cell::text(&o.candidate.run)),
    Of::new("candidate", Text, |o| Cell::text(&o.candidate.id)),
    Of::new("step", Integer, |o| Cell::integer(o.candidate.step)),
    Of::new("purpose", Text, |o| {
        Cell::text(purpose(o.candidate.purpose))
    }),
    Of::new("problem", Text, |o| Cell::text(&o.candidate.problem)),
    Of::new("stage", Integer, |o| Cell::integer(o.candidate.stage)),
    Of::new("task", Text, |o| Cell::text(&o.candidate.task)),
    Of::new("sample", Integer, |o| Cell::integer(o.candidate.sample)),
    Of::new("exploration", Flag, |o| Cell::Flag(o.candidate.exploration)),
    Of::new("policy_version", Integer, |o| {
        Cell::or_missing(o.candidate.policy, |version| Cell::integer(version.0))
    }),
    Of::new("remeasures", Text, |o| {
        Cell::or_missing(o.candidate.remeasures.as_ref(), Cell::text)
    }),
    Of::new("follows", Text, |o| {
        Cell::or_missing(o.candidate.follows.as_ref(), Cell::text)
    }),
    Of::new("permitted", Text, |o| Cell::text(o.candidate.permitted)),
    Of::new("techniques", Text, |o| {
        Cell::or_missing(o.techniques, Cell::text)
    }),
    Of::new("vector_bits", Integer, |o| {
        Cell::or_missing(o.vector_bits, Cell::integer)
    }),
    Of::new("verdict", Text, |o| Cell::text(o.verdict.kind())),
    Of::new("gflops", Real, |o| real(o, |m| Some(m.gflops))),
    Of::new("ratio", Real, |o| real(o, |m| Some(m.ratio))),
    Of::new("ratio_low", Real, |o| {
        real(o, |m| m.converged().then_some(m.interval.low))
    }),
    Of::new("ratio_high", Real, |o| {
        real(o, |m| m.converged().then_some(m.interval.high))
    }),
    Of::new("seconds_per_call", Real, |o| {
        real(o, |m| Some(m.seconds_per_call))
    }),
    Of::new("median_seconds", Real, |o| real(o, |m| m.median_seconds)),
    Of::new("share_of_peak", Real, |o| {
        real(o, |m| Some(m.share_of_peak))
    }),
    Of::new("converged", Flag, |o| {
        Cell::or_missing(o.verdict.measurement(), |m| Cell::Flag(m.converged()))
    }),
    Of::new("reused", Flag, |o| {
        Cell::or_missing(o.verdict.measurement(), |m| Cell::Flag(m.reused))
    }),
    Of::new("compile_seconds", Real, |o| seconds(o, 0)),
    Of::new("verify_seconds", Real, |o| seconds(o, 1)),
    Of::new("time_seconds", Real, |o| seconds(o, 2)),
    Of::new("node", Text, |o| Cell::text(&o.node)),
    Of::new("machine_class", Text, |o| Cell::text(&o.machine_class)),
    Of::new("decided_unix_ms", Integer, |o| {
        Cell::integer(o.decided_unix_ms)
    }),
    Of::new("source_bytes", Integer, |o| Cell::integer(o.source.len())),
    Of::new("source_digest", Text, |o| {
        Cell::text(Digest::of(o.source.as_bytes()))
    }),
    Of::new("minimum_seconds", Real, |o| real(o, |m| m.minimum_seconds)),
    Of::new("mdape", Real, |o| real(o, |m| Some(m.mdape))),
];

fn real(outcome: &Outcome, number: fn(&Measurement) -> Option<f64>) -> Cell {
    let number = outcome.verdict.measurement().and_then(number);
    Cell::or_missing(number, Cell::Real)
}

fn seconds(outcome: &Outcome, stage: usize) -> Cell {
    Cell::or_missing(outcome.stage_seconds.get(stage), |seconds| {
        Cell::Real(f64::from(*seconds))
    })
}

/// The name of a purpose, as the records have it.
pub fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Train => "train",
        Purpose::EvaluateStart => "evaluate_start",
        Purpose::EvaluateEnd => "evaluate_end",
        Purpose::Search => "search",
        Purpose::Certify => "certify",
    }
}

/// Writes the outcomes of a run, in the order in which they were decided. Returns the number of lines that cannot be read.
pub fn export(run: &Path, sink: &mut dyn Sink) -> Result<u64> {
    let mut outcomes = Tail::of(run.join(files::OUTCOMES));
    outcomes.each(|outcome: Outcome| sink.row(row(COLUMNS, &outcome)))?;
    Ok(outcomes.unreadable())
}
