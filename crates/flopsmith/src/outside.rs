//! Measurements before and after a run, outside its loop: what the model was shown at best, and the fastest programs once more.

use std::path::Path;

use anyhow::Result;
use flopsmith_actors::settings::{GeneratorKind, Settings};
use flopsmith_bench::Purpose;

use crate::evaluator::Evaluator;
use crate::exit::say;
use crate::paths;
use crate::summary::Certified;

/// Programs that are measured after the end.
const FINALISTS: usize = 4;

/// Compiles, verifies and measures the fastest programs once more, now that nothing else is to be done.
pub fn certify(evaluator: &Evaluator, threads: u32, folder: &Path) -> Result<Vec<Certified>> {
    let outcomes = crate::summary::outcomes(folder)?;
    let finalists = crate::summary::finalists(&outcomes, FINALISTS);
    if finalists.is_empty() {
        return Ok(Vec::new());
    }
    say("measuring the fastest programs once more…");
    let (mut verifier, mut timer) = (evaluator.verifier()?, evaluator.timer(threads)?);
    let measured = finalists.into_iter().filter_map(|outcome| {
        let done = evaluator.evaluate(&outcome.source, &mut verifier, &mut timer, Purpose::Certify);
        Some(Certified {
            candidate: outcome.candidate.id.clone(),
            measurement: done.verdict.measurement()?.clone(),
        })
    });
    Ok(measured.collect())
}

/// The best program the starter was shown, measured on this machine.
pub fn corpus_best(
    evaluator: &Evaluator,
    settings: &Settings,
    timer: &mut flopsmith_bench::Timer,
) -> Option<f64> {
    if settings.generator.kind != GeneratorKind::Policy {
        return None;
    }
    let path = paths::model(&settings.generator.model).join("corpus_best.c");
    let source = std::fs::read_to_string(path).ok()?;
    let built = evaluator
        .compiler
        .compile(&evaluator.problem, &source, evaluator.problem.techniques)
        .ok()?;
    let timed = timer
        .measure(
            &built.object,
            Purpose::Certify,
            crate::evaluator::random(),
            None,
        )
        .ok()?;
    Some(timed.measurement.gflops)
}
