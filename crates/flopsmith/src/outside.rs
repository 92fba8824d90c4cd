//! Measurements before and after a run, outside its loop: what the model was shown at best, and the fastest programs once more.

use anyhow::Result;
use flopsmith_actors::settings::{GeneratorKind, Settings};
use flopsmith_bench::Purpose;

use crate::evaluator::Evaluator;
use crate::exit::say;
use crate::paths;
use crate::run::Folder;
use crate::summary::{Certified, Facts};

/// Programs that are measured after the end.
const FINALISTS: usize = 4;

/// Compiles, verifies and measures the fastest programs of a finished run once more, now that nothing else is to be done.
pub fn conclude(
    evaluator: &Evaluator,
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
) -> Result<()> {
    let outcomes = crate::summary::outcomes(&folder.path)?;
    let finalists = crate::summary::finalists(&outcomes, FINALISTS);
    if !finalists.is_empty() {
        say("measuring the fastest programs once more…");
        let mut verifier = evaluator.verifier()?;
        let mut timer = evaluator.timer(settings.threads)?;
        timer.refine_reference()?;
        let measured = finalists.into_iter().filter_map(|outcome| {
            let purpose = Purpose::Certify;
            let done = evaluator.evaluate(&outcome.source, &mut verifier, &mut timer, purpose);
            Some(Certified {
                candidate: outcome.candidate.id.clone(),
                measurement: done.verdict.measurement()?.clone(),
            })
        });
        facts.certified = measured.collect();
    }
    facts.concluded = true;
    folder.write_facts(facts)
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
