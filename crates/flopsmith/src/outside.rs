//! Measurements before and after a run, outside its loop: what the model was shown at best, and the fastest programs once more.

use anyhow::Result;
use flopsmith_actors::role::recorder::note_machine;
use flopsmith_actors::settings::{GeneratorKind, Settings};
use flopsmith_bench::{Purpose, Timer};
use flopsmith_protocol::{MachineClass, MachineFacts, NodeId};

use crate::evaluator::Evaluator;
use crate::exit::say;
use crate::run::Folder;
use crate::summary::{Certified, Facts, machines};
use crate::{paths, record};

/// Programs that are measured after the end.
const FINALISTS: usize = 4;

/// Compiles, verifies and measures the fastest programs of a finished run once more, now that nothing else is to be done.
///
/// What the numbers rest on is written before them: a record for each program, and this timer's attestation.
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
        let mut certified = Vec::new();
        for outcome in finalists {
            let (source, candidate) = (&outcome.source, &outcome.candidate.id);
            let done = evaluator.evaluate(source, &mut verifier, &mut timer, Purpose::Certify);
            let Some(measurement) = done.verdict.measurement() else {
                continue;
            };
            let attestation = timer.attestation().to_json();
            let json = record::json(source, measurement, &done.raw, &attestation)?;
            certified.push(Certified {
                candidate: candidate.clone(),
                measurement: measurement.clone(),
                record: Some(record::keep(&folder.path, candidate.as_str(), &json)?),
            });
        }
        note_machine(&folder.path, &attested(folder, settings, &timer)?)?;
        facts.certified = certified;
    }
    facts.concluded = true;
    folder.write_facts(facts)
}

/// What a timer outside the run's loop says of its machine; what it did not measure is as before.
fn attested(folder: &Folder, settings: &Settings, timer: &Timer) -> Result<MachineFacts> {
    let before = machines(&folder.path)?.pop();
    Ok(MachineFacts {
        run: folder.id.clone(),
        node: NodeId::new("local")?,
        machine_class: MachineClass::new(&settings.machine_class)?,
        peak_gflops: timer.peak_gflops(),
        reference_gflops: timer.reference_gflops(),
        openblas_gflops: before.as_ref().and_then(|m| m.openblas_gflops),
        openblas_core: before.and_then(|m| m.openblas_core),
        attestation: timer.attestation().digest(),
        attestation_json: timer.attestation().to_json(),
    })
}

/// The best program the starter was shown, measured on this machine; the record of it goes into the run's folder.
pub fn corpus_best(
    evaluator: &Evaluator,
    settings: &Settings,
    folder: &Folder,
    timer: &mut Timer,
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
    let attestation = timer.attestation().to_json();
    let kept = record::json(&source, &timed.measurement, &timed.raw, &attestation)
        .and_then(|json| record::keep(&folder.path, "corpus_best", &json));
    match kept {
        Ok(_) => Some(timed.measurement.gflops),
        // A number that rests on nothing is none.
        Err(error) => {
            say(&format!("warning: {error:#}"));
            None
        }
    }
}
