//! Outcomes of programs whose objects are lost, and of programs that a stage cannot process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flopsmith_actors::role::compiler::{self, Compiler};
use flopsmith_actors::role::timer::{self, Timer};
use flopsmith_actors::role::verifier::{self, Verifier};
use flopsmith_bus::WorkerOptions;
use flopsmith_compile::Built;
use flopsmith_config::Standard;
use flopsmith_measure::{Checked, Purpose as Measure, Report, Thoroughness, Timed};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, Candidate, CandidateFault, CandidateRef, Compiled, Digest, Failure,
    InfrastructureCause, Outcome, Purpose, TechniqueSet, UnknownCause, Verdict, Verified, subjects,
};
use flopsmith_test_support::{Measured, machine_class, node_id, remeasured, run_id};

use crate::{Working, World, candidate, settings, soon, start};

const POISON: &[u8] = b"poison";

/// Stages that accept everything and panic at a poison program.
struct Fake;

fn taste(program: &[u8]) {
    assert!(program != POISON, "indigestible");
}

impl compiler::Stage for Fake {
    fn compile(
        &self,
        _: Language,
        _: &Problem,
        source: &str,
        _: TechniqueSet,
    ) -> Result<Built, Failure> {
        taste(source.as_bytes());
        Ok(Built {
            object: source.as_bytes().to_vec(),
            techniques: TechniqueSet::EMPTY,
            vector_bits: None,
            diagnostics: String::new(),
            seconds: 0.0,
        })
    }
}

impl verifier::Stage for Fake {
    fn verify(&mut self, object: &[u8], _: u64, _: Thoroughness) -> Result<Report, Failure> {
        taste(object);
        Ok(Report {
            cases: 1,
            sizes: None,
            worst_error_share: 0.0,
            seconds: 0.0,
        })
    }
}

impl timer::Stage for Fake {
    fn measure(
        &mut self,
        object: &[u8],
        _: Measure,
        _: u64,
        _: Option<f64>,
    ) -> Result<Timed, Failure> {
        taste(object);
        Ok(Timed {
            measurement: Measured::at(10.0).measurement(),
            raw: b"{}".to_vec(),
        })
    }

    fn certify(&mut self, _: &[Vec<u8>], _: u64) -> Result<Timed, Failure> {
        unreachable!("nobody asked for it")
    }
}

/// Three programs: the object of the first is missing, the second is poison, and the third is good.
async fn compiled(world: &World) -> [Compiled; 3] {
    let lost = ArtifactRef {
        digest: Digest::of(b"lost"),
        size: 4,
    };
    let poison = world.store.put(POISON.to_vec()).await.unwrap();
    let good = world.store.put(b"good".to_vec()).await.unwrap();
    [(0, 0, lost), (0, 1, poison), (1, 0, good)].map(|(task, sample, object)| Compiled {
        candidate: candidate(0, task, sample, Purpose::Search),
        source: format!("program {task} {sample}"),
        object,
        techniques: TechniqueSet::EMPTY,
        vector_bits: None,
        toolchain: Digest::of(b"gcc"),
        key: None,
        compile_seconds: 0.0,
    })
}

/// The next `count` verdicts, by program.
pub async fn verdicts(world: &World, count: usize) -> BTreeMap<String, Verdict> {
    let subject = subjects::outcome(&run_id());
    let mut log = world.bus.log::<Outcome>(&subject, 0).await.unwrap();
    let mut verdicts = BTreeMap::new();
    while verdicts.len() < count {
        let (_, outcome) = soon(log.next()).await.unwrap();
        verdicts.insert(outcome.candidate.id.to_string(), outcome.verdict);
    }
    verdicts
}

fn says(verdict: &Verdict, kind: &str, words: &str) {
    let detail: &str = match verdict {
        Verdict::Infrastructure { detail, .. } | Verdict::Unknown { detail, .. } => detail,
        _ => "",
    };
    assert!(
        verdict.kind() == kind && detail.contains(words),
        "{verdict:?}"
    );
}

/// The role has worked the whole time, and no message became a dead letter.
async fn all_well(world: &World, working: Working) {
    assert!(!working.ended.is_finished());
    working.end().await.unwrap();
    let dead = world.bus.dead_letters(0).await.unwrap();
    assert_eq!(dead.pending(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_outlives_objects_that_are_lost_and_programs_it_cannot_digest() {
    let world = World::new().await;
    let subject = Queue::verify(&machine_class()).of(&run_id());
    let jobs = compiled(&world).await;
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let working = start(Verifier::new(verifier::StageContext::new(
        world.context(settings()),
        vec![Fake, Fake],
    )));
    let verdicts = verdicts(&world, 2).await;
    says(&verdicts["r-s0-g0-c0"], "store", "does not exist");
    says(&verdicts["r-s0-g0-c1"], "unknown", "indigestible");
    let subject = Queue::time(&machine_class()).of(&run_id());
    let mut queue = world
        .bus
        .worker::<Verified>(WorkerOptions::new(subject, 1))
        .await
        .unwrap();
    let good = soon(queue.next()).await.unwrap();
    assert_eq!(good.message().compiled, jobs[2]);
    good.done().await.unwrap();
    all_well(&world, working).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_measures_the_rest_of_a_batch() {
    let world = World::new().await;
    let subject = Queue::time(&machine_class()).of(&run_id());
    let jobs = compiled(&world).await.map(|compiled| Verified {
        compiled,
        worst_error_share: 0.0,
        cases: 1,
        sizes: None,
        verify_seconds: 0.0,
        node: node_id(),
    });
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let stage = Arc::new(Mutex::new(Fake));
    let working = start(Timer::new(timer::StageContext::new(
        world.context(settings()),
        stage,
    )));
    let verdicts = verdicts(&world, 3).await;
    says(&verdicts["r-s0-g0-c0"], "store", "does not exist");
    says(&verdicts["r-s0-g0-c1"], "unknown", "indigestible");
    assert_eq!(verdicts["r-s0-g1-c0"].kind(), "measured");
    all_well(&world, working).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_outlives_a_full_store_and_programs_it_cannot_digest() {
    let world = World::new().await;
    // A file in place of the artifacts' folder: no write can succeed.
    let artifacts = world.folder.path().join("store/artifacts");
    std::fs::write(artifacts, b"").unwrap();
    let subject = Queue::compile(&machine_class()).of(&run_id());
    let jobs = [(0, "good"), (1, "poison")].map(|(sample, source)| Candidate {
        candidate: candidate(0, 0, sample, Purpose::Search),
        source: source.to_owned(),
        answer: None,
    });
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let working = start(Compiler::new(world.context(settings()), Arc::new(Fake)));
    let verdicts = verdicts(&world, 2).await;
    says(&verdicts["r-s0-g0-c0"], "store", "cannot be written");
    says(&verdicts["r-s0-g0-c1"], "unknown", "indigestible");
    all_well(&world, working).await;
}

/// Ends in this way for every program.
struct Suspicious(Failure);

impl verifier::LastLook for Suspicious {
    fn check(&self, _: Language, _: &str, _: bool) -> Result<Checked, Failure> {
        Err(self.0.clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sanitizers_check_only_programs_about_to_become_elites() {
    let fault = CandidateFault::UndefinedBehaviour;
    let found = Failure::candidate(fault, "heap-buffer-overflow");
    the_last_look_ends_with(found, "undefined_behaviour").await;
}

/// The program is not at fault, and it is not timed.
#[tokio::test(flavor = "multi_thread")]
async fn unchecked_programs_do_not_become_elites() {
    let unchecked = Failure::unknown(UnknownCause::Unchecked, "it could not be linked");
    the_last_look_ends_with(unchecked, "unknown").await;
}

async fn the_last_look_ends_with(failure: Failure, kind: &str) {
    let world = World::new().await;
    let [_, _, first] = compiled(&world).await;
    let again = Compiled {
        candidate: remeasured(&first.candidate, 1),
        ..first.clone()
    };
    let id = again.candidate.id.to_string();
    let subject = Queue::verify(&machine_class()).of(&run_id());
    let jobs = [first, again];
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let stage_context = verifier::StageContext::new(world.context(settings()), vec![Fake]);
    let working = start(Verifier::new(
        stage_context.with_last_look(Arc::new(Suspicious(failure))),
    ));
    let verdicts = verdicts(&world, 1).await;
    assert_eq!(verdicts[&id].kind(), kind);
    the_first_is_passed_on(&world).await;
    all_well(&world, working).await;
}

/// A program in its first measurement is passed on for timing.
async fn the_first_is_passed_on(world: &World) {
    let subject = Queue::time(&machine_class()).of(&run_id());
    let options = WorkerOptions::new(subject, 2);
    let mut queue = world.bus.worker::<Verified>(options).await.unwrap();
    let passed = soon(queue.next()).await.unwrap();
    let candidate = &passed.message().compiled.candidate;
    assert_eq!(candidate.purpose, Purpose::Search);
    passed.done().await.unwrap();
}

/// Builds a program with three layouts.
struct ThreeLayouts;

impl timer::Layouts for ThreeLayouts {
    fn layouts(&self, _: Language, _: &Problem, source: &str) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(vec![source.as_bytes().to_vec(); 3])
    }
}

/// Records its calls; its screenings are imprecise.
struct Rough(Arc<Mutex<Vec<String>>>);

impl timer::Stage for Rough {
    fn measure(
        &mut self,
        _: &[u8],
        purpose: Measure,
        _: u64,
        _: Option<f64>,
    ) -> Result<Timed, Failure> {
        self.0.lock().unwrap().push(format!("{purpose:?}"));
        let mut measurement = Measured::at(10.0).measurement();
        if purpose == Measure::Screen {
            measurement.log_ratio_se = 0.2;
        }
        Ok(Timed {
            measurement,
            raw: b"{}".to_vec(),
        })
    }

    fn certify(&mut self, layouts: &[Vec<u8>], _: u64) -> Result<Timed, Failure> {
        let asked = format!("Certify {}", layouts.len());
        self.0.lock().unwrap().push(asked);
        Ok(Timed {
            measurement: Measured::at(10.0).measurement(),
            raw: b"{}".to_vec(),
        })
    }
}

/// The calls of a timer for a program with a first and a second measurement.
async fn asked_for(again: Standard) -> Vec<String> {
    let world = World::new().await;
    let [_, _, first] = compiled(&world).await;
    let second = Compiled {
        candidate: remeasured(&first.candidate, 1),
        ..first.clone()
    };
    let jobs = [first, second].map(|compiled| Verified {
        compiled,
        worst_error_share: 0.0,
        cases: 1,
        sizes: None,
        verify_seconds: 0.0,
        node: node_id(),
    });
    let subject = Queue::time(&machine_class()).of(&run_id());
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let mut settings = settings();
    settings.evaluate.again = again;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let stage = Arc::new(Mutex::new(Rough(Arc::clone(&asked))));
    let stage_context = timer::StageContext::new(world.context(settings), stage);
    let working = start(Timer::new(
        stage_context.with_layouts(Arc::new(ThreeLayouts)),
    ));
    let verdicts = verdicts(&world, 2).await;
    assert!(verdicts.values().all(|v| v.kind() == "measured"));
    all_well(&world, working).await;
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_count_are_certified_in_several_layouts() {
    assert_eq!(asked_for(Standard::Certify).await, ["Certify 3", "Screen"]);
    assert_eq!(asked_for(Standard::Rank).await, ["Rank", "Screen"]);
    let rough = asked_for(Standard::Screen).await;
    assert_eq!(rough, ["Rank", "Screen", "Screen"]);
}

/// Records the languages in which its stages get programs.
#[derive(Clone, Default)]
struct Listening(Arc<Mutex<BTreeSet<(&'static str, Language)>>>);

impl Listening {
    fn note(&self, stage: &'static str, language: Language) {
        self.0.lock().unwrap().insert((stage, language));
    }
}

impl compiler::Stage for Listening {
    fn compile(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
        permitted: TechniqueSet,
    ) -> Result<Built, Failure> {
        self.note("compile", language);
        compiler::Stage::compile(&Fake, language, problem, source, permitted)
    }
}

impl verifier::LastLook for Listening {
    fn check(&self, language: Language, _: &str, _: bool) -> Result<Checked, Failure> {
        self.note("sanitize", language);
        Ok(Checked {
            by: Vec::new(),
            left_out: Vec::new(),
            seconds: 0.0,
        })
    }
}

impl timer::Layouts for Listening {
    fn layouts(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        self.note("layouts", language);
        timer::Layouts::layouts(&ThreeLayouts, language, problem, source)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_stage_that_reads_a_source_gets_its_language() {
    let world = World::new().await;
    let jobs = [(0, None), (1, Some(Language::Cxx))].map(|(sample, language)| Candidate {
        candidate: CandidateRef {
            finalist: true,
            language,
            ..candidate(0, 0, sample, Purpose::Certify)
        },
        source: "a program".to_owned(),
        answer: None,
    });
    let subject = Queue::compile(&machine_class()).of(&run_id());
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let listening = Listening::default();
    let context = || world.context(settings());
    let verifying = verifier::StageContext::new(context(), vec![Fake]);
    let timing = timer::StageContext::new(context(), Arc::new(Mutex::new(Rough(Arc::default()))));
    let working = [
        start(Compiler::new(context(), Arc::new(listening.clone()))),
        start(Verifier::new(
            verifying.with_last_look(Arc::new(listening.clone())),
        )),
        start(Timer::new(timing.with_layouts(Arc::new(listening.clone())))),
    ];
    let verdicts = verdicts(&world, 2).await;
    assert!(verdicts.values().all(|v| v.kind() == "measured"));
    for working in working {
        all_well(&world, working).await;
    }
    let stages = ["compile", "layouts", "sanitize"].into_iter();
    let of_both = stages.flat_map(|stage| [(stage, Language::C), (stage, Language::Cxx)]);
    let of_both: BTreeSet<_> = of_both.collect();
    assert_eq!(*listening.0.lock().unwrap(), of_both);
}

/// Has the compiler of one language only.
struct Poor;

impl compiler::Stage for Poor {
    fn compile(
        &self,
        language: Language,
        _: &Problem,
        _: &str,
        _: TechniqueSet,
    ) -> Result<Built, Failure> {
        let why = format!("there is no {} compiler", language.name());
        Err(Failure::infrastructure(InfrastructureCause::Compiler, why))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_compiler_of_a_language_keeps_its_trust() {
    let world = World::new().await;
    let jobs = [0, 1, 2, 3].map(|sample| Candidate {
        candidate: CandidateRef {
            language: Some(Language::Fortran),
            ..candidate(0, 0, sample, Purpose::Search)
        },
        source: format!("program {sample}"),
        answer: None,
    });
    let subject = Queue::compile(&machine_class()).of(&run_id());
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let context = world.context(settings());
    let working = start(Compiler::new(Arc::clone(&context), Arc::new(Poor)));
    let verdicts = verdicts(&world, 4).await;
    for verdict in verdicts.values() {
        says(verdict, "compiler", "no Fortran compiler");
    }
    let mut doubtful = context.host.circuit_breaker.doubtful().into_iter();
    assert!(doubtful.all(|(_, doubtful)| !doubtful));
    all_well(&world, working).await;
}

/// Refuses every program in a full verification.
struct Thorough;

impl verifier::Stage for Thorough {
    fn verify(
        &mut self,
        object: &[u8],
        seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        if thoroughness == Thoroughness::Full {
            let fault = CandidateFault::WrongResult;
            return Err(Failure::candidate(fault, "wrong at the largest size"));
        }
        verifier::Stage::verify(&mut Fake, object, seed, thoroughness)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remeasured_programs_are_verified_in_full() {
    let world = World::new().await;
    let [_, _, first] = compiled(&world).await;
    let again = Compiled {
        candidate: remeasured(&first.candidate, 1),
        ..first.clone()
    };
    let id = again.candidate.id.to_string();
    let subject = Queue::verify(&machine_class()).of(&run_id());
    let jobs = [first, again];
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let working = start(Verifier::new(verifier::StageContext::new(
        world.context(settings()),
        vec![Thorough],
    )));
    let verdicts = verdicts(&world, 1).await;
    assert_eq!(verdicts[&id].kind(), "wrong_result");
    the_first_is_passed_on(&world).await;
    all_well(&world, working).await;
}

type Asked = Vec<(Vec<u8>, Instant)>;

/// Fails at its first call for a program, for lack of space or by its jail; records the times of its calls.
struct Starved(Arc<Mutex<Asked>>);

impl verifier::Stage for Starved {
    fn verify(
        &mut self,
        object: &[u8],
        seed: u64,
        thoroughness: Thoroughness,
    ) -> Result<Report, Failure> {
        let mut asked = self.0.lock().unwrap();
        let again = asked.iter().any(|(program, _)| program == object);
        asked.push((object.to_vec(), Instant::now()));
        let cause = if object == b"space" {
            InfrastructureCause::Resources
        } else {
            InfrastructureCause::Jail
        };
        if again {
            verifier::Stage::verify(&mut Fake, object, seed, thoroughness)
        } else {
            Err(Failure::infrastructure(cause, "not now"))
        }
    }
}

/// Time from the first try to the second one.
fn waited(asked: &[(Vec<u8>, Instant)], program: &str) -> Duration {
    let tries: Vec<Instant> = asked
        .iter()
        .filter(|(of, _)| of == program.as_bytes())
        .map(|(_, at)| *at)
        .collect();
    assert_eq!(tries.len(), 2, "{program}");
    tries[1] - tries[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_ran_out_of_something_is_left_alone_for_longer() {
    let world = World::new().await;
    let [_, _, template] = compiled(&world).await;
    let mut jobs = Vec::new();
    for (sample, program) in [(0, "space"), (1, "jail")] {
        let object = world.store.put(program.as_bytes().to_vec()).await.unwrap();
        jobs.push(Compiled {
            candidate: candidate(0, 0, sample, Purpose::Search),
            object,
            ..template.clone()
        });
    }
    let subject = Queue::verify(&machine_class()).of(&run_id());
    world.bus.publish_many(&subject, &jobs).await.unwrap();
    let asked = Arc::new(Mutex::new(Asked::new()));
    let stage = Starved(Arc::clone(&asked));
    let working = start(Verifier::new(verifier::StageContext::new(
        world.context(settings()),
        vec![stage],
    )));
    let subject = Queue::time(&machine_class()).of(&run_id());
    let mut queue = world
        .bus
        .worker::<Verified>(WorkerOptions::new(subject, 2))
        .await
        .unwrap();
    for _ in &jobs {
        soon(queue.next()).await.unwrap().done().await.unwrap();
    }
    {
        let asked = asked.lock().unwrap();
        assert!(waited(&asked, "space") > Duration::from_millis(4900));
        assert!(waited(&asked, "jail") < Duration::from_millis(4900));
    }
    all_well(&world, working).await;
}
