//! The state of a generator at its first answer.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use flopsmith_actors::Error;
use flopsmith_actors::answer::{Answer, Answers, Sampled, Source};
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::versions::Versions;
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, Candidate, InfrastructureCause, Outcome, PolicyPublished, PolicyVersion,
    ProblemId, Purpose, RawAnswer, Request, Rollout, Task, subjects,
};
use flopsmith_store::Store;
use flopsmith_test_support::{
    Measured, infrastructure, machine_class, measured, outcome, run_id, wrong,
};
use tokio::sync::Semaphore;

use crate::{World, candidate, settings, soon, start, task};

/// A call of a source.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    /// A program and its speed.
    Seen(String, Option<f64>),
    Wants(u64),
    Updated(u64),
    Asked,
}

/// A source that records its calls, and reads its weights from the store.
struct Witness {
    store: Store,
    version: Option<PolicyVersion>,
    said: Arc<Mutex<Vec<Said>>>,
    /// Each update takes a permit.
    gate: Arc<Semaphore>,
    /// Its answer without a program.
    unread: Option<String>,
    /// Its request.
    request: Option<Request>,
}

impl Witness {
    fn new(store: &Store, updates: usize) -> Self {
        Self {
            store: store.clone(),
            version: None,
            said: Arc::default(),
            gate: Arc::new(Semaphore::new(updates)),
            unread: None,
            request: None,
        }
    }

    fn note(&self, said: Said) {
        self.said.lock().unwrap().push(said);
    }
}

#[async_trait]
impl Source for Witness {
    fn version(&self) -> Option<PolicyVersion> {
        self.version
    }

    async fn update(&mut self, version: PolicyVersion, weights: &ArtifactRef) -> Result<(), Error> {
        self.note(Said::Wants(version.0));
        self.gate.acquire().await.unwrap().forget();
        self.store.get(weights).await?;
        self.version = Some(version);
        self.note(Said::Updated(version.0));
        Ok(())
    }

    async fn answer_each(
        &mut self,
        _: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        self.note(Said::Asked);
        let sampled = Some(Sampled {
            prompt: vec![1],
            tokens: vec![2],
            logprobs: vec![-0.5],
            finished: true,
        });
        let source = match self.unread.is_some() || self.request.is_some() {
            true => "",
            false => "int x;",
        };
        let answer = Answer {
            source: source.to_owned(),
            raw: self.unread.as_ref().map(|text| RawAnswer::of(text, false)),
            request: self.request.clone(),
            sampled,
            parent: None,
        };
        let group = |task: &Task| vec![answer.clone(); task.group_size as usize];
        answers.take_all(tasks.iter().map(group));
        Ok(())
    }

    fn outcome_seen(&mut self, _: &ProblemId, source: &str, gflops: Option<f64>) {
        self.note(Said::Seen(source.to_owned(), gflops));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_is_started_again_sees_the_past_and_takes_the_newest_version() {
    let world = World::new().await;
    let context = world.context(settings());
    let mut versions = Versions::open(&context).await.unwrap();
    for version in 0..6u64 {
        let bytes = format!("weights {version}").into_bytes();
        let done = versions.publish(PolicyVersion(version), version, bytes, None);
        soon(done).await.unwrap();
    }
    let failed = infrastructure(InfrastructureCause::Jail);
    let past: Vec<Outcome> = (0..60)
        .map(|step| outcome(candidate(step, 0, 0, Purpose::Train), wrong()))
        .chain([outcome(candidate(60, 0, 0, Purpose::Train), failed)])
        .collect();
    let log = subjects::outcome(&run_id());
    world.bus.publish_many(&log, &past).await.unwrap();
    let mut reader = world.bus.log::<Outcome>(&log, 0).await.unwrap();
    let (outcomes_seen, _) = soon(reader.replay()).await.unwrap().pop().unwrap();
    // The task was there before the generator.
    let waiting = Task {
        outcomes_seen,
        tasks_in_step: 1,
        min_policy: PolicyVersion(5),
        ..task(61, 0, Purpose::Train)
    };
    let queue = Queue::generate("policy").of(&run_id());
    world.bus.publish(&queue, &waiting).await.unwrap();

    let source = Witness::new(&world.store, 10);
    let said = Arc::clone(&source.said);
    let working = start(Generator::new(context, Box::new(source), "policy"));
    let mut candidates = world
        .bus
        .worker::<Candidate>(flopsmith_bus::WorkerOptions::new(
            Queue::compile(&machine_class()).all(),
            2,
        ))
        .await
        .unwrap();
    let first = soon(candidates.next()).await.unwrap();
    assert_eq!(first.message().candidate.policy, Some(PolicyVersion(5)));
    first.done().await.unwrap();
    candidates.close();
    working.end().await.unwrap();

    let mut expected = vec![Said::Wants(5), Said::Updated(5)];
    let seen = past[..60]
        .iter()
        .map(|o| Said::Seen(o.source.clone(), None));
    expected.extend(seen);
    expected.push(Said::Asked);
    assert_eq!(*said.lock().unwrap(), expected);
    let rollouts: Vec<Rollout> = world.log(&subjects::rollout(&run_id())).await;
    assert_eq!(rollouts.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_sees_what_a_task_rests_on_and_nothing_later() {
    let world = World::new().await;
    let log = subjects::outcome(&run_id());
    let verdicts = [
        wrong(),
        wrong(),
        measured(40.0),
        Measured::at(300.0).se(0.5).unconverged().verdict(),
    ];
    let past: Vec<Outcome> = (0..)
        .zip(verdicts)
        .map(|(step, verdict)| outcome(candidate(step, 0, 0, Purpose::Search), verdict))
        .collect();
    world.bus.publish_many(&log, &past).await.unwrap();
    let mut reader = world.bus.log::<Outcome>(&log, 0).await.unwrap();
    let places: Vec<u64> = soon(reader.replay())
        .await
        .unwrap()
        .into_iter()
        .map(|(place, _)| place)
        .collect();
    let source = Witness::new(&world.store, 0);
    let said = Arc::clone(&source.said);
    let context = world.context(settings());
    let working = start(Generator::new(context, Box::new(source), "policy"));
    let queue = Queue::generate("policy").of(&run_id());
    for (step, outcomes_seen) in [(10, places[1]), (11, places[3])] {
        let rests = Task {
            tasks_in_step: 1,
            outcomes_seen,
            ..task(step, 0, Purpose::Search)
        };
        world.bus.publish(&queue, &rests).await.unwrap();
        let asked = usize::try_from(step - 9).unwrap();
        soon(async {
            let times = || {
                said.lock()
                    .unwrap()
                    .iter()
                    .filter(|s| **s == Said::Asked)
                    .count()
            };
            while times() < asked {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    working.end().await.unwrap();
    let unsure = past[3].verdict.measurement().unwrap().known_gflops();
    assert!(unsure < 150.0, "{unsure}");
    let speeds = [None, None, Some(40.0), Some(unsure)];
    let reported = |number: usize| Said::Seen(past[number].source.clone(), speeds[number]);
    let expected = [
        reported(0),
        reported(1),
        Said::Asked,
        reported(2),
        reported(3),
        Said::Asked,
    ];
    assert_eq!(*said.lock().unwrap(), expected);
}

/// An answer without a program is kept, and cannot fill the disk.
#[tokio::test(flavor = "multi_thread")]
async fn some_answers_without_a_program_are_kept_of_each_step() {
    let world = World::new().await;
    let text = format!("I am sorry.\n{}```c\nint cut", "x".repeat(100_000));
    let source = Witness {
        unread: Some(text.clone()),
        ..Witness::new(&world.store, 0)
    };
    let working = start(Generator::new(
        world.context(settings()),
        Box::new(source),
        "policy",
    ));
    let tasks: Vec<Task> = (3..5)
        .map(|step| Task {
            tasks_in_step: 1,
            group_size: 12,
            ..task(step, 0, Purpose::Search)
        })
        .collect();
    let queue = Queue::generate("policy").of(&run_id());
    world.bus.publish_many(&queue, &tasks).await.unwrap();
    let of_class = Queue::compile(&machine_class()).all();
    let options = flopsmith_bus::WorkerOptions::new(of_class, 24);
    let mut candidates = world.bus.worker::<Candidate>(options).await.unwrap();
    let mut kept = [0; 2];
    for _ in 0..24 {
        let delivery = soon(candidates.next()).await.unwrap();
        let message = delivery.message();
        assert_eq!(message.source, "");
        let answer = message.answer.as_ref().unwrap();
        assert_eq!(answer.bytes, text.len() as u64);
        assert!(!answer.finished);
        if !answer.text.is_empty() {
            kept[usize::try_from(message.candidate.step - 3).unwrap()] += 1;
            assert!(answer.text.starts_with("I am sorry.\n"));
            assert!(answer.text.ends_with("```c\nint cut"));
            assert!(answer.text.len() < 2200, "{}", answer.text.len());
        }
        delivery.done().await.unwrap();
    }
    assert_eq!(kept, [8, 8]);
    candidates.close();
    working.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_an_outcome_with_its_tokens_and_work_for_no_compiler() {
    let world = World::new().await;
    let request = Request::Read {
        document: "gemm.md".to_owned(),
    };
    let source = Witness {
        request: Some(request.clone()),
        ..Witness::new(&world.store, 0)
    };
    let context = world.context(settings());
    let working = start(Generator::new(context, Box::new(source), "policy"));
    let task = Task {
        tasks_in_step: 1,
        group_size: 3,
        exploration_samples: 1,
        ..task(3, 0, Purpose::Search)
    };
    let queue = Queue::generate("policy").of(&run_id());
    world.bus.publish(&queue, &task).await.unwrap();
    let of_class = Queue::compile(&machine_class()).all();
    let options = flopsmith_bus::WorkerOptions::new(of_class, 4);
    let mut candidates = world.bus.worker::<Candidate>(options).await.unwrap();
    // Nothing follows an exploration sample: it has no program, and comes after the others.
    let delivery = soon(candidates.next()).await.unwrap();
    let message = delivery.message();
    assert_eq!((message.candidate.sample, message.source.as_str()), (2, ""));
    delivery.done().await.unwrap();
    let outcomes = world.log::<Outcome>(&subjects::outcome(&run_id())).await;
    let rollouts = world.log::<Rollout>(&subjects::rollout(&run_id())).await;
    assert_eq!((outcomes.len(), rollouts.len()), (2, 3));
    for outcome in &outcomes {
        assert_eq!(outcome.request.as_ref(), Some(&request));
        assert!(!outcome.verdict.counts() && outcome.source.is_empty());
        let id = &outcome.candidate.id;
        let own = rollouts.iter().find(|own| own.candidate.id == *id);
        assert_eq!(own.unwrap().source, outcome.answer_digest());
    }
    candidates.close();
    working.end().await.unwrap();
}

/// Waits until this is the last call.
async fn until(said: &Mutex<Vec<Said>>, wanted: Said) {
    soon(async {
        while said.lock().unwrap().last() != Some(&wanted) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_that_were_removed_before_they_were_read_are_passed_over() {
    let world = World::new().await;
    let context = world.context(settings());
    let log = subjects::policy(&run_id());
    let publish = |version: u64, weights: ArtifactRef| {
        let news = PolicyPublished {
            run: run_id(),
            version: PolicyVersion(version),
            step: version,
            weights,
            metrics: None,
        };
        let (bus, log) = (world.bus.clone(), log.clone());
        async move { bus.publish(&log, &news).await.unwrap() }
    };
    let first = world.store.put("weights 0").await.unwrap();
    publish(0, first).await;
    let source = Witness::new(&world.store, 0);
    let (said, gate) = (Arc::clone(&source.said), Arc::clone(&source.gate));
    let working = start(Generator::new(context, Box::new(source), "policy"));
    until(&said, Said::Wants(0)).await;
    // While it reads the first version, the learner publishes two more and removes the one between.
    let between = world.store.put("weights 1").await.unwrap();
    let last = world.store.put("weights 2").await.unwrap();
    publish(1, between.clone()).await;
    publish(2, last).await;
    world.store.remove(&between).await.unwrap();
    gate.add_permits(10);
    until(&said, Said::Updated(2)).await;
    working.end().await.unwrap();
    let expected = [
        Said::Wants(0),
        Said::Updated(0),
        Said::Wants(1),
        Said::Wants(2),
        Said::Updated(2),
    ];
    assert_eq!(*said.lock().unwrap(), expected);
}
