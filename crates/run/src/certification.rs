//! Measurements before and after a run, outside its loop: of the fastest program tried of the starter's corpus, and a
//! second one of the fastest programs of the run.

use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::evaluation;
use flopsmith_actors::role::recorder::note_machine;
use flopsmith_config::Settings;
use flopsmith_evaluate::{Evaluated, Evaluator, ModuleEvaluator, Pipeline, cores_to_watch};
use flopsmith_measure::{Purpose, Timer};
use flopsmith_problem::Language;
use flopsmith_protocol::{CandidateId, MachineClass, MachineFacts, NodeId, Outcome, Verdict};
use tokio_util::sync::CancellationToken;

use crate::console::say;
use crate::folder::Folder;
use crate::idle_wait::{self, Patience};
use crate::summary::{Certified, Facts, by_problem};
use crate::{paths, record};

/// Number of attempts at a measurement whose failure is not the program's fault.
const ATTEMPTS: usize = 2;
/// The record of the fastest program tried of the starter's corpus.
pub(crate) const CORPUS_BEST: &str = "corpus_best";

/// Compiles, verifies and measures the fastest programs of a finished run once more, on a machine that has nothing else
/// to do. The corpus program they are compared with is measured by the same timer, so that the speeds can be divided by
/// each other; a run over many problems has no such program. False if the measurements were stopped before their end;
/// then, and after an error, the run stays as it was and can be concluded later. There is an evaluator for each problem, whose
/// processes end with its measurements.
///
/// The evidence is written before the numbers: a record for each program, and each timer's attestation.
pub fn conclude(
    evaluators: Vec<Pipeline>,
    settings: &Settings,
    folder: &Folder,
    facts: &mut Facts,
    wait: Duration,
    stopped: &CancellationToken,
) -> Result<bool> {
    let outcomes = by_problem(crate::summary::outcomes(&folder.path)?);
    let count = settings.evaluate.finalists as usize;
    let mut patience = Patience::new(wait);
    let (mut certified, mut refused) = (Vec::new(), Vec::new());
    let mut corpus_best = None;
    for evaluator in evaluators {
        let Some(outcomes) = outcomes.get(&evaluator.problem().id) else {
            continue;
        };
        let finalists = crate::summary::to_certify(outcomes, count, facts.start.as_ref());
        if finalists.is_empty() {
            continue;
        }
        say(&match settings.has_many() {
            false => "finishing: measuring the fastest programs once more…".to_owned(),
            true => format!(
                "finishing: measuring the fastest programs for {} once more…",
                evaluator.problem().id
            ),
        });
        let last = measure(
            &evaluator,
            settings,
            folder,
            &finalists,
            &mut patience,
            stopped,
        );
        // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
        if stopped.is_cancelled() {
            return Ok(false);
        }
        let last = last?;
        corpus_best = Some(last.shown.keep(folder, &last.machine.attestation_json)?);
        for (outcome, done) in &last.judged.measured {
            let Some(measurement) = done.verdict.measurement() else {
                continue;
            };
            let candidate = &outcome.candidate.id;
            let attestation = &last.machine.attestation_json;
            let json = record::json(&outcome.source, measurement, &done.raw, attestation)?;
            certified.push(Certified {
                candidate: candidate.clone(),
                measurement: measurement.clone(),
                record: Some(record::keep(&folder.path, candidate.as_str(), &json)?),
                machine_busy: done.busy.clone(),
            });
        }
        note_machine(&folder.path, &last.machine)?;
        refused.extend(last.judged.refused);
    }
    if let Some(corpus_best) = corpus_best {
        facts.corpus_best_gflops = corpus_best;
        facts.certified = certified;
        facts.refused = refused;
    }
    facts.concluded = true;
    folder.write_facts(facts)?;
    Ok(true)
}

/// The measurements after the end.
struct Last<'a> {
    judged: Judged<'a>,
    shown: Shown,
    machine: MachineFacts,
}

fn measure<'a>(
    pipeline: &Pipeline,
    settings: &Settings,
    folder: &Folder,
    finalists: &[&'a Outcome],
    patience: &mut Patience,
    stopped: &CancellationToken,
) -> Result<Last<'a>> {
    match pipeline {
        Pipeline::Kernel(evaluator) => {
            measure_kernels(evaluator, settings, folder, finalists, patience, stopped)
        }
        Pipeline::Module(evaluator) => {
            measure_modules(evaluator, settings, folder, finalists, patience, stopped)
        }
    }
}

fn measure_modules<'a>(
    evaluator: &ModuleEvaluator,
    settings: &Settings,
    folder: &Folder,
    finalists: &[&'a Outcome],
    patience: &mut Patience,
    stopped: &CancellationToken,
) -> Result<Last<'a>> {
    let cores = evaluator.watched();
    // The baselines are timed when the machine is attested.
    let before = patience.wait(|| idle_wait::used(&cores), stopped).go_on()?;
    let machine = evaluator.attest()?;
    let permitted = evaluator.problem.techniques;
    let limits = Purpose::Certify.limits();
    let evaluate = |source: &str| -> Result<Evaluated> {
        let busy = patience.wait(|| idle_wait::used(&cores), stopped).go_on()?;
        let done = evaluator.evaluate(&machine, source, permitted, limits);
        let busy = idle_wait::resting_on(before.as_deref(), busy);
        Ok(Evaluated { busy, ..done })
    };
    let judged = judge(finalists, evaluate, stopped)?;
    go_on(stopped)?;
    let (node, class) = local(settings)?;
    let facts = evaluation::machine_facts_of_modules(&folder.id, &node, &class, &machine);
    Ok(Last {
        judged,
        shown: Shown(None),
        machine: MachineFacts {
            problem: settings.has_many().then(|| evaluator.problem.id.clone()),
            ..facts
        },
    })
}

fn measure_kernels<'a>(
    evaluator: &Evaluator,
    settings: &Settings,
    folder: &Folder,
    finalists: &[&'a Outcome],
    patience: &mut Patience,
    stopped: &CancellationToken,
) -> Result<Last<'a>> {
    let mut verifier = evaluator.verifier(settings.threads)?;
    go_on(stopped)?;
    // A timer measures peak and reference as soon as it is made, and every ratio is based on them. So the wait comes
    // first.
    let cores = cores_to_watch(settings.threads);
    let before = patience.wait(|| idle_wait::used(&cores), stopped).go_on()?;
    let mut timer = evaluator.timer(settings.threads)?;
    let now = patience
        .wait(|| idle_wait::look(&mut timer), stopped)
        .go_on()?;
    timer.refine_reference()?;
    let reference_busy = before.or(now);
    let mut evaluate = |language: Language, source: &str| -> Result<Evaluated> {
        let busy = patience
            .wait(|| idle_wait::look(&mut timer), stopped)
            .go_on()?;
        let done = evaluator.evaluate(
            language,
            source,
            &mut verifier,
            &mut timer,
            Purpose::Certify,
        );
        let busy = idle_wait::resting_on(reference_busy.as_deref(), busy);
        Ok(Evaluated { busy, ..done })
    };
    let language = evaluator.problem.language;
    let judged = judge(finalists, |source| evaluate(language, source), stopped)?;
    let shown = Shown::measured(settings, |source| evaluate(Language::C, source))?;
    go_on(stopped)?;
    let machine = attested(evaluator, settings, folder, &timer)?;
    Ok(Last {
        judged,
        shown,
        machine,
    })
}

/// Returns an error once a stop was requested; measurements call it in between.
pub fn go_on(stopped: &CancellationToken) -> Result<()> {
    anyhow::ensure!(!stopped.is_cancelled(), "stopped");
    Ok(())
}

/// The results of the finalists.
struct Judged<'a> {
    measured: Vec<(&'a Outcome, Evaluated)>,
    /// Programs that were verified in the run and are now refused by their own fault.
    refused: Vec<CandidateId>,
}

fn judge<'a>(
    finalists: &[&'a Outcome],
    mut evaluate: impl FnMut(&str) -> Result<Evaluated>,
    stopped: &CancellationToken,
) -> Result<Judged<'a>> {
    let mut judged = Judged {
        measured: Vec::new(),
        refused: Vec::new(),
    };
    for outcome in finalists {
        go_on(stopped)?;
        let id = &outcome.candidate.id;
        let done = tried(&outcome.source, &mut evaluate).with_context(|| {
            format!("{id}, one of the fastest programs, could not be measured once more; give --resume to try again")
        })?;
        if done.verdict.measurement().is_some() {
            judged.measured.push((*outcome, done));
        } else {
            say(&format!(
                "warning: {id} was among the fastest programs, and its final certification refused it ({}); it does not count",
                done.verdict.kind()
            ));
            judged.refused.push(id.clone());
        }
    }
    Ok(judged)
}

/// Evaluates a program until there is a verdict about the program itself; an error if there is none after all attempts.
fn tried(source: &str, mut evaluate: impl FnMut(&str) -> Result<Evaluated>) -> Result<Evaluated> {
    let mut words = String::new();
    for _ in 0..ATTEMPTS {
        let done = evaluate(source)?;
        if done.verdict.counts() {
            return Ok(done);
        }
        words = match &done.verdict {
            Verdict::Infrastructure { detail, .. } | Verdict::Unknown { detail, .. } => {
                format!("{}: {detail}", done.verdict.kind())
            }
            Verdict::Measured { .. } | Verdict::Rejected { .. } => String::new(),
        };
    }
    anyhow::bail!(words)
}

/// The machine's facts by this timer, with a measurement of OpenBLAS.
fn attested(
    evaluator: &Evaluator,
    settings: &Settings,
    folder: &Folder,
    timer: &Timer,
) -> Result<MachineFacts> {
    let openblas = evaluator.openblas(settings.threads);
    let (node, class) = local(settings)?;
    Ok(MachineFacts {
        problem: settings.has_many().then(|| evaluator.problem.id.clone()),
        ..evaluation::machine_facts(&folder.id, &node, &class, timer, openblas)
    })
}

/// This node, and its class in a run.
fn local(settings: &Settings) -> Result<(NodeId, MachineClass)> {
    let class = MachineClass::new(&settings.machine_class)?;
    Ok((NodeId::new("local")?, class))
}

/// Measures the fastest program tried of the starter's corpus on this machine, and writes its record into the run's
/// folder. `None` if there is no such program, or, after a warning, if the measurement failed.
pub fn corpus_best(
    evaluator: &Evaluator,
    settings: &Settings,
    folder: &Folder,
    timer: &mut Timer,
) -> Option<f64> {
    shown_source(settings)?;
    let measured = evaluator
        .verifier(settings.threads)
        .map_err(anyhow::Error::from)
        .and_then(|mut verifier| {
            let shown = Shown::measured(settings, |source: &str| {
                let done =
                    evaluator.evaluate(Language::C, source, &mut verifier, timer, Purpose::Certify);
                Ok(done)
            })?;
            shown.keep(folder, &timer.attestation().to_json())
        });
    match measured {
        Ok(gflops) => gflops,
        // A number without a record is not reported.
        Err(error) => {
            say(&format!("warning: {error:#}"));
            None
        }
    }
}

/// True if a run with these settings is compared with the fastest program tried of the starter's corpus.
pub fn has_shown(settings: &Settings) -> bool {
    shown_source(settings).is_some()
}

/// The source of the fastest program tried of the starter's corpus.
fn shown_source(settings: &Settings) -> Option<String> {
    if !settings.generator.kind.has_policy() || settings.has_many() {
        return None;
    }
    let path = paths::model(&settings.generator.model).join("corpus_best.c");
    std::fs::read_to_string(path).ok()
}

/// The fastest program tried of the starter's corpus and its evaluation, if there is such a program.
struct Shown(Option<(String, Evaluated)>);

impl Shown {
    /// Evaluates the program. A program that came with a model is verified like any other before it is timed.
    fn measured(
        settings: &Settings,
        evaluate: impl FnMut(&str) -> Result<Evaluated>,
    ) -> Result<Self> {
        let Some(source) = shown_source(settings) else {
            return Ok(Self(None));
        };
        let done = tried(&source, evaluate)
            .context("the fastest program tried of the starter's corpus could not be measured")?;
        if done.verdict.measurement().is_none() {
            say(&format!(
                "warning: the fastest program tried of the starter's corpus was refused ({}), so no program is compared with it",
                done.verdict.kind()
            ));
        }
        Ok(Self(Some((source, done))))
    }

    /// Writes the program's record in place of an earlier one, and returns the program's speed.
    fn keep(&self, folder: &Folder, attestation_json: &str) -> Result<Option<f64>> {
        let measured = self
            .0
            .as_ref()
            .and_then(|(source, done)| Some((source, done, done.verdict.measurement()?)));
        let Some((source, done, measurement)) = measured else {
            record::forget(&folder.path, CORPUS_BEST)?;
            return Ok(None);
        };
        let json = record::json(source, measurement, &done.raw, attestation_json)?;
        record::keep(&folder.path, CORPUS_BEST, &json)?;
        Ok(Some(measurement.gflops))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use flopsmith_config::Job;
    use flopsmith_problem::Problem;
    use flopsmith_protocol::InfrastructureCause;
    use flopsmith_test_support::{first, measured, shipped, unknown, wrong};

    use super::*;
    use crate::idle_wait::Waited;

    fn evaluated(verdict: Verdict) -> Evaluated {
        Evaluated {
            verdict,
            techniques: None,
            vector_bits: None,
            diagnostics: String::new(),
            checked: None,
            raw: Vec::new(),
            busy: None,
        }
    }

    fn broken() -> Verdict {
        Verdict::Infrastructure {
            cause: InfrastructureCause::Jail,
            detail: "no more processes".into(),
        }
    }

    #[test]
    fn a_finalist_that_is_refused_now_is_remembered_and_the_others_count() {
        let (a, b) = (
            first(0, "a", "simd", measured(40.0)),
            first(1, "b", "simd", measured(35.0)),
        );
        let judged = judge(
            &[&a, &b],
            |source| {
                Ok(evaluated(match source {
                    "a" => wrong(),
                    _ => measured(34.0),
                }))
            },
            &CancellationToken::new(),
        )
        .unwrap();
        assert_eq!(judged.refused, std::slice::from_ref(&a.candidate.id));
        let counted: Vec<&str> = judged
            .measured
            .iter()
            .map(|(outcome, _)| outcome.source.as_str())
            .collect();
        assert_eq!(counted, ["b"]);
    }

    #[test]
    fn a_failure_of_this_machine_is_tried_again_and_then_an_error() {
        let a = first(0, "a", "simd", measured(40.0));
        let go = CancellationToken::new();
        let mut calls = 0;
        let once = |_: &str| {
            calls += 1;
            Ok(evaluated(if calls == 1 {
                broken()
            } else {
                measured(39.0)
            }))
        };
        assert_eq!(judge(&[&a], once, &go).unwrap().measured.len(), 1);
        let always = |_: &str| Ok(evaluated(broken()));
        let error = judge(&[&a], always, &go).err().unwrap();
        let words = format!("{error:#}");
        assert!(
            words.contains("no more processes") && words.contains("--resume"),
            "{words}"
        );
        let undecided = |_: &str| Ok(evaluated(unknown()));
        assert!(judge(&[&a], undecided, &go).is_err());
    }

    #[test]
    fn a_stopped_certification_measures_nothing_more() {
        let a = first(0, "a", "simd", measured(40.0));
        let (go, mut calls) = (CancellationToken::new(), 0);
        let judged = judge(
            &[&a, &a, &a],
            |_| {
                calls += 1;
                go.cancel();
                Ok(evaluated(measured(39.0)))
            },
            &go,
        );
        assert!(judged.is_err());
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_certification_stopped_while_waiting_does_not_try_again() {
        let a = first(0, "a", "simd", measured(40.0));
        let (go, mut waits) = (CancellationToken::new(), 0);
        let judged = judge(
            &[&a, &a],
            |_| {
                waits += 1;
                Waited::Stopped.go_on().map(|busy| Evaluated {
                    busy,
                    ..evaluated(measured(39.0))
                })
            },
            &go,
        );
        assert!(judged.is_err());
        assert_eq!(waits, 1);
    }

    /// The test uses the real compiler, jail and timer.
    #[test]
    fn the_best_program_of_a_corpus_is_verified_before_it_is_timed() {
        let place = tempfile::tempdir().unwrap();
        let problem = Arc::new(Problem::load(&shipped::at("dgemm")).unwrap().only_first());
        let right = problem.reference_source.clone();
        let evaluator = crate::evaluator::open(problem, "gcc", true).unwrap();
        let mut timer = evaluator.timer(1).unwrap();
        let folder = Folder::create(&place.path().join("runs"), "r-1", "", Job::Train).unwrap();
        let mut settings = Settings::default();
        settings.generator.model = place.path().to_owned();
        let record = folder.path.join("certified/corpus_best.json");
        let mut corpus_best = |source: &str| {
            std::fs::write(place.path().join("corpus_best.c"), source).unwrap();
            corpus_best(&evaluator, &settings, &folder, &mut timer)
        };
        assert!(corpus_best(&right).unwrap() > 0.0);
        assert!(record.is_file());
        let nothing = "void dgemm(int n, const double *A, const double *B, double *C) {}";
        assert_eq!(corpus_best(nothing), None);
        assert!(!record.exists(), "no number, no record");
    }
}
