//! A timer on a machine with disturbances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flopsmith_actors::Host;
use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::timer::{QUARANTINE, Stage, StageContext, Timer};
use flopsmith_config::Settings;
use flopsmith_measure::{Purpose as Measure, State, Timed, Why};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{Compiled, Digest, Failure, Purpose, TechniqueSet, Verified};
use flopsmith_test_support::{Measured, machine_class, node_id, run_id};

use crate::role_lease::shared;
use crate::stages::verdicts;
use crate::{World, candidate, settings, soon, start};

/// The calls of a stage, in order.
type Asked = Arc<Mutex<Vec<&'static str>>>;

const WHY: Why = Why::Slower { times: 1.5 };

/// Quarantined after its first measurement, until it has had some canaries.
struct Noisy {
    asked: Asked,
    looks: Asked,
    state: State,
    canaries: u32,
}

impl Noisy {
    fn note(&self, what: &'static str) {
        self.asked.lock().unwrap().push(what);
    }
}

impl Stage for Noisy {
    fn measure(&mut self, _: &[u8], _: Measure, _: u64, _: Option<f64>) -> Result<Timed, Failure> {
        if self.asked.lock().unwrap().is_empty() {
            self.state = State::Quarantined {
                why: WHY,
                since: Duration::ZERO,
            };
        }
        self.note("measure");
        Ok(Timed {
            measurement: Measured::at(10.0).measurement(),
            raw: b"{}".to_vec(),
        })
    }

    fn certify(&mut self, _: &[Vec<u8>], _: u64) -> Result<Timed, Failure> {
        unreachable!("nobody asked for it")
    }

    fn look(&mut self) -> Option<String> {
        let timed = !self.asked.lock().unwrap().is_empty();
        let when = if timed { "after" } else { "before" };
        self.looks.lock().unwrap().push(when);
        Some("core 1 is used 40 % by others".into())
    }

    fn quarantine_state(&self) -> State {
        self.state
    }

    fn canary(&mut self) -> Result<State, Failure> {
        self.note("canary");
        self.canaries -= 1;
        if self.canaries == 0 {
            self.state = State::Idle;
        }
        Ok(self.state)
    }

    fn go_on(&mut self) {
        self.note("go on");
        self.state = State::Disturbed { why: WHY };
    }
}

/// Times three programs with a quarantine of this many canaries. Returns the calls of the stage, and the wait of the
/// role. The role checks the machine before the first program, and the disturbance that it sees does not stop it.
async fn three_programs(settings: Settings, canaries: u32) -> (Vec<&'static str>, Duration) {
    let world = World::new().await;
    publish_three(&world).await;
    let (asked, looks) = (Asked::default(), Asked::default());
    let stage = noisy(&asked, &looks, canaries);
    let context = world.context(settings);
    let stage_context = StageContext::new(Arc::clone(&context), Arc::new(Mutex::new(stage)));
    let working = start(Timer::new(stage_context));
    let verdicts = verdicts(&world, 3).await;
    assert!(verdicts.values().all(|v| v.kind() == "measured"));
    working.end().await.unwrap();
    assert_eq!(looks.lock().unwrap().first(), Some(&"before"));
    assert_eq!(context.disturbed(), 3);
    let asked = asked.lock().unwrap().clone();
    (asked, context.host.cores.spent(QUARANTINE))
}

fn noisy(asked: &Asked, looks: &Asked, canaries: u32) -> Noisy {
    Noisy {
        asked: Arc::clone(asked),
        looks: Arc::clone(looks),
        state: State::Idle,
        canaries,
    }
}

async fn publish_three(world: &World) {
    let object = world.store.put(b"good".to_vec()).await.unwrap();
    let jobs = [0, 1].map(|task| [0, 1].map(|sample| (task, sample)));
    let jobs: Vec<Verified> = jobs
        .concat()
        .into_iter()
        .take(3)
        .map(|(task, sample)| Verified {
            compiled: Compiled {
                candidate: candidate(0, task, sample, Purpose::Search),
                source: format!("program {task} {sample}"),
                object: object.clone(),
                techniques: TechniqueSet::EMPTY,
                vector_bits: None,
                toolchain: Digest::of(b"gcc"),
                key: None,
                compile_seconds: 0.0,
            },
            worst_error_share: 0.0,
            cases: 1,
            sizes: None,
            verify_seconds: 0.0,
            node: node_id(),
        })
        .collect();
    let subject = Queue::time(&machine_class()).of(&run_id());
    world.bus.publish_many(&subject, &jobs).await.unwrap();
}

/// A quarantine that never ends, with a long limit, and another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_timer_hands_its_work_to_another_timer() {
    let world = World::new().await;
    publish_three(&world).await;
    let mut settings = settings();
    settings.evaluate.quarantine_limit_seconds = 3600.0;
    let node = async |settings: &Settings, canaries: u32, quiet: bool| {
        let ours = world.context(settings.clone());
        let (bus, store) = (shared(&world).await, world.store.clone());
        let cores = flopsmith_actors::Pool::new(2);
        let host = Host::new(node_id(), machine_class(), bus, store, cores);
        let context = Context::new(Parts {
            run: run_id(),
            settings: settings.clone(),
            folder: world.folder.path().to_owned(),
            problem: Arc::clone(&ours.first().problem),
            others: Vec::new(),
            toolchain: ours.toolchain.clone(),
            host: host.clone(),
        });
        let asked = Asked::default();
        if quiet {
            asked.lock().unwrap().push("before");
        }
        let stage = noisy(&asked, &Asked::default(), canaries);
        let stage_context = StageContext::new(context, Arc::new(Mutex::new(stage)));
        (host, asked, Timer::new(stage_context))
    };
    let (host, asked, timer) = node(&settings, u32::MAX, false).await;
    let waiting = start(timer);
    soon(async {
        while !host.circuit_breaker.doubtful().contains(&("time", true)) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (_, others, timer) = node(&settings, 1, true).await;
    let working = start(timer);
    let verdicts = verdicts(&world, 3).await;
    assert!(verdicts.values().all(|v| v.kind() == "measured"));
    let measured = |asked: &Asked| {
        let asked = asked.lock().unwrap();
        asked.iter().filter(|what| **what == "measure").count()
    };
    assert_eq!((measured(&asked), measured(&others)), (1, 2));
    working.end().await.unwrap();
    waiting.end().await.unwrap();
    assert!(!host.circuit_breaker.doubtful().contains(&("time", true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_waits_until_a_canary_finds_the_machine_quiet() {
    let (asked, waited) = three_programs(settings(), 2).await;
    let expected = ["measure", "canary", "canary", "measure", "measure"];
    assert_eq!(asked, expected);
    assert!(waited > Duration::from_millis(900), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_does_not_wait_for_ever() {
    let mut settings = settings();
    settings.evaluate.quarantine_limit_seconds = 0.2;
    let (asked, waited) = three_programs(settings, u32::MAX).await;
    assert_eq!(asked[..2], ["measure", "canary"], "{asked:?}");
    assert!(
        asked.ends_with(&["canary", "go on", "measure", "measure"]),
        "{asked:?}"
    );
    assert!(waited > Duration::from_millis(190), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_shall_not_wait_does_not() {
    let mut settings = settings();
    settings.evaluate.quarantine = false;
    let (asked, waited) = three_programs(settings, u32::MAX).await;
    assert_eq!(asked, ["measure"; 3]);
    assert_eq!(waited, Duration::ZERO);
}
