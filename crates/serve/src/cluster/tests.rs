//! Workers that follow a script, on a real broker.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use flopsmith_actors::registry::RunRegistry;
use flopsmith_bus::{Auth, Bus, Delivery, RunSetup, Server, ServerOptions, Worker, WorkerOptions};
use flopsmith_machine::attest;
use flopsmith_machine::peak::Peak;
use flopsmith_measure::{Chain, Chains};
use flopsmith_problem::Language;
use flopsmith_protocol::subjects::{self, Queue};
use flopsmith_protocol::{Candidate, MachineClass, RunSpec};
use flopsmith_reward::Reward;
use flopsmith_test_support::{machine, measured, outcome, shipped, wrong};
use tokio::runtime::Runtime;

use super::*;
use crate::auth::Holder;
use crate::catalog::Catalog;
use crate::job::Job;
use crate::journal::Journal;
use crate::service::Service;
use crate::wire::{self, Against, Answer, Request};

/// Everything that a test waits for comes long before this.
const LIMIT: Duration = Duration::from_secs(30);

/// A broker, and the folders of its store and of a service.
struct World {
    runtime: Runtime,
    server: Server,
    bus: Bus,
    place: tempfile::TempDir,
}

/// A service whose programs the workers evaluate, four at a time.
struct Running {
    service: Arc<Service>,
    cluster: Arc<Cluster>,
    judges: Vec<JoinHandle<()>>,
}

impl World {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let (server, bus) = runtime.block_on(async {
            let nats = place.path().join("nats");
            let server = Server::start(None, &nats, ServerOptions::default());
            let server = server.await.unwrap();
            let bus = Bus::connect(&server).await.unwrap();
            bus.ensure_streams(&RunSetup::default()).await.unwrap();
            (server, bus)
        });
        Self {
            runtime,
            server,
            bus,
            place,
        }
    }

    fn ways(&self) -> Ways {
        let options = self.server.connect_options();
        let Auth::Token(token) = &options.auth else {
            panic!("{:?}", options.auth);
        };
        let store = self.place.path().join("store");
        Ways {
            nats: options.url.replace("://", &format!("://{token}@")),
            store: store.to_str().unwrap().to_owned(),
            machine_class: "local".into(),
        }
    }

    fn start(&self) -> Running {
        let folder = self.place.path().join("folder");
        let journal = Journal::open(&folder).unwrap();
        let cache = Arc::new(Cache::open(&folder).unwrap());
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let catalog = Catalog::new(vec![root]);
        let stopping = CancellationToken::new();
        let settings = Settings {
            compiler: "gcc".into(),
            threads: 1,
            sanitize: false,
            wait: Duration::ZERO,
            refresh: Duration::from_secs(86_400),
        };
        let problems = vec![catalog.find("dot", &[]).unwrap()];
        let ours = Arc::clone(&cache);
        let cluster = Cluster::open(self.ways(), settings, problems, ours, stopping.clone());
        let mut cluster = cluster.unwrap();
        cluster.silence = Duration::from_millis(200);
        cluster.again = Duration::from_millis(50);
        let cluster = Arc::new(cluster);
        let none = Box::new(|_: &Arc<Problem>| None);
        let reward = Reward::default();
        let service = Service::open(journal, cache, catalog, none, reward, 1000, stopping);
        let service = service.unwrap().on(Arc::clone(&cluster), 4);
        let workers = Arc::clone(&cluster);
        let missing = move |problem: &Problem| workers.lacks(problem);
        let service = Arc::new(service.with_tools(Box::new(missing)));
        let judge = || {
            let judge = Box::new(Arc::clone(&cluster));
            crate::start(&service, judge, CancellationToken::new()).unwrap()
        };
        Running {
            judges: std::iter::repeat_with(judge).take(4).collect(),
            service,
            cluster,
        }
    }

    async fn worker(&self) -> Worker<Candidate> {
        let queue = Queue::compile(&MachineClass::new("local").unwrap());
        let options = WorkerOptions::new(queue.all(), 4);
        self.bus.worker(options).await.unwrap()
    }

    /// Measures the machine for a run, as a timer does before its first program, and decides a program.
    async fn decide(&self, delivery: Delivery<Candidate>, verdict: Verdict) {
        let candidate = delivery.message().candidate.clone();
        let run = &candidate.run;
        let peak = Peak {
            gflops: 50.0,
            bandwidth_gb_s: 10.0,
            vector_bits: 256,
            threads: 1,
        };
        let attestation = attest::Attestation::collect(&attest::Circumstances {
            supervisor_core: None,
            kernel_cores: &[0],
            threads: 1,
            buffers_in_huge_pages: false,
            compiler: "gcc 12",
            flags: &[],
            linker: "ld",
            other_compilers: &[],
            hand_shake: "spin",
            peak,
            roofs: &flopsmith_machine::roofline::Roofs::default(),
        });
        let facts = MachineFacts {
            run: run.clone(),
            machine_class: candidate.machine_class.clone(),
            problem: Some(candidate.problem.clone()),
            reference_gflops_of_each: vec![3.0, 12.0],
            attestation: attestation.digest(),
            attestation_json: attestation.to_json(),
            ..machine("")
        };
        let chain = Chain {
            log_ratio: 1.5,
            log_se: 0.004,
            reference_seconds: 0.001,
            baseline_seconds: 0.0005,
        };
        let registry = RunRegistry::open(&self.bus).await.unwrap();
        let (problem, class) = (&candidate.problem, &candidate.machine_class);
        let chains = registry.in_common(run, problem, class, Chains::from(chain));
        chains.await.unwrap();
        let subject = subjects::machine(run);
        self.bus.publish(&subject, &facts).await.unwrap();
        let mut verdict = verdict;
        if let Verdict::Measured { measurement } = &mut verdict {
            measurement.attestation = attestation.digest();
        }
        let mut decided = outcome(candidate, verdict);
        decided.stage_seconds = [0.5, 0.25, 0.25];
        let subject = subjects::outcome(&decided.candidate.run);
        self.bus.publish(&subject, &decided).await.unwrap();
        delivery.done().await.unwrap();
    }
}

impl Running {
    fn submit(&self, purpose: Purpose, sources: &[&str]) -> Arc<Job> {
        let candidates = sources.iter().map(|source| wire::Candidate {
            problem: "dot".into(),
            source: Some((*source).to_owned()),
            ..wire::Candidate::default()
        });
        let request = Request {
            candidates: candidates.collect(),
            purpose,
            against: Against::default(),
            dry_run: false,
        };
        let submitted = self.service.submit(request, None, Holder::default());
        let (job, _) = submitted.unwrap_or_else(|_| panic!("the request is refused"));
        job
    }

    fn stop(self) {
        self.service.stopping().cancel();
        self.service.wake();
        for judge in self.judges {
            judge.join().unwrap();
        }
        self.cluster.close();
    }
}

fn answers(job: &Job) -> Vec<Answer> {
    let deadline = Instant::now() + LIMIT;
    while !job.is_done() {
        assert!(Instant::now() < deadline, "waited too long");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    job.answers()
}

#[test]
fn programs_of_several_requests_are_with_the_workers_at_once_and_share_a_reference() {
    let world = World::new();
    let running = world.start();
    let jobs = [
        running.submit(Purpose::Screen, &["a", "wrong"]),
        running.submit(Purpose::Rank, &["b"]),
    ];
    let runs = world.runtime.block_on(async {
        let mut worker = world.worker().await;
        let mut held = Vec::new();
        // None of them is decided before all have come.
        while held.len() < 3 {
            let next = tokio::time::timeout(LIMIT, worker.next());
            held.push(next.await.unwrap().unwrap());
        }
        let mut runs = HashSet::new();
        for delivery in held {
            let message = delivery.message();
            let full = message.candidate.purpose == flopsmith_protocol::Purpose::Certify;
            assert_eq!(full, message.source == "b", "{message:?}");
            runs.insert(message.candidate.run.clone());
            let verdict = match message.source.as_str() {
                "wrong" => wrong(),
                _ => measured(10.0),
            };
            Box::pin(world.decide(delivery, verdict)).await;
        }
        worker.close();
        runs
    });
    assert_eq!(runs.len(), 1, "screenings and rankings share a run");
    let first = answers(&jobs[0]);
    let second = answers(&jobs[1]);
    let (measured, refused) = (&first[0], &first[1]);
    assert_eq!(refused.outcome, wire::Outcome::Rejected);
    let reference = measured.reference.clone().unwrap();
    assert_eq!(second[0].reference.as_ref(), Some(&reference));
    assert!(reference.converged && reference.machine_busy.is_none());
    assert_eq!((reference.peak_gflops, reference.log_se), (50.0, 0.004));
    // The speed is told in the reference that all workers share.
    let gflops = measured.gflops.unwrap();
    assert!((gflops / (10.0 * reference.gflops) - 1.0).abs() < 1e-9);
    assert!(measured.reward > Some(0.0), "{measured:?}");
    assert_eq!((&measured.sanitizers, measured.cached), (&None, false));
    // The time of a job is that of the workers.
    assert_eq!(jobs[0].spent(), Duration::from_secs(2));
    let attestation = measured.measurement.as_ref().unwrap().attestation.clone();
    let file = format!("folder/attestations/{attestation}.json");
    assert!(world.place.path().join(file).is_file());
    // The result is known now.
    let again = answers(&running.submit(Purpose::Screen, &["a"]));
    assert!(again[0].cached, "{again:?}");
    assert_eq!(again[0].reference.as_ref(), Some(&reference));
    let health = running.cluster.health();
    assert!(health.answers && health.under_way == 0, "{health:?}");
    running.stop();
}

#[test]
fn a_program_whose_run_is_gone_is_sent_again() {
    let world = World::new();
    let running = world.start();
    let job = running.submit(Purpose::Screen, &["a"]);
    let (lost, found) = world.runtime.block_on(async {
        let mut worker = world.worker().await;
        let lost = tokio::time::timeout(LIMIT, worker.next());
        let lost = lost.await.unwrap().unwrap();
        let first = lost.message().candidate.run.clone();
        // Nobody decides it any more.
        lost.done().await.unwrap();
        let next = tokio::time::timeout(LIMIT, worker.next());
        let delivery = next.await.unwrap().unwrap();
        let second = delivery.message().candidate.run.clone();
        Box::pin(world.decide(delivery, measured(10.0))).await;
        worker.close();
        (first, second)
    });
    assert_ne!(lost, found);
    assert_eq!(answers(&job)[0].outcome, wire::Outcome::Measured);
    running.stop();
}

#[test]
fn a_restart_goes_on_with_what_the_workers_had_and_withdraws_the_old_run() {
    let world = World::new();
    let running = world.start();
    let job = running.submit(Purpose::Certify, &["a"]);
    let noted = world.place.path().join("folder").join(FILE);
    let (lost, names) = world.runtime.block_on(async {
        let mut worker = world.worker().await;
        let next = tokio::time::timeout(LIMIT, worker.next());
        let delivery = next.await.unwrap().unwrap();
        let candidate = delivery.message().candidate.clone();
        assert!(candidate.finalist, "{candidate:?}");
        // The service stops before the program is decided.
        let names = std::fs::read(&noted).unwrap();
        drop(delivery);
        worker.close();
        (candidate.run, names)
    });
    running.stop();
    assert!(!job.is_done());
    let registry = |run: &RunId| {
        world.runtime.block_on(async {
            let registry = RunRegistry::open(&world.bus).await.unwrap();
            registry.find(run).await.unwrap()
        })
    };
    assert_eq!(registry(&lost), None);
    // A process that was killed would have left its run.
    let problem = Problem::load(&shipped::problem("dot")).unwrap();
    world.runtime.block_on(async {
        let registry = RunRegistry::open(&world.bus).await.unwrap();
        let spec = RunSpec {
            run: lost.clone(),
            version: String::new(),
            problem: problem.files(),
            others: Vec::new(),
            settings_json: String::new(),
            machine_class: MachineClass::new("local").unwrap(),
            trains: false,
            model: Vec::new(),
            store: None,
            session: None,
        };
        registry.announce(&spec).await.unwrap();
    });
    std::fs::write(&noted, names).unwrap();
    let running = world.start();
    assert_eq!(registry(&lost), None);
    let id = job.id.clone();
    let job = running.service.job(&id).unwrap().unwrap();
    let found = world.runtime.block_on(async {
        let mut worker = world.worker().await;
        let run = loop {
            let next = tokio::time::timeout(LIMIT, worker.next());
            let delivery = next.await.unwrap().unwrap();
            let run = delivery.message().candidate.run.clone();
            // The message of the stopped run may come once more.
            if run == lost {
                delivery.done().await.unwrap();
                continue;
            }
            Box::pin(world.decide(delivery, measured(10.0))).await;
            break run;
        };
        worker.close();
        run
    });
    assert_ne!(lost, found);
    assert_eq!(answers(&job)[0].outcome, wire::Outcome::Measured);
    running.stop();
}

#[test]
fn the_workers_learn_the_language_of_a_program_that_is_not_the_problems_own() {
    let world = World::new();
    let running = world.start();
    let languages = [None, Some(Language::C), Some(Language::Fortran)];
    let candidates = languages.map(|language| wire::Candidate {
        problem: "dot".into(),
        source: Some("x".into()),
        language,
        ..wire::Candidate::default()
    });
    let request = Request {
        candidates: candidates.into(),
        purpose: Purpose::Rank,
        against: Against::default(),
        dry_run: false,
    };
    let submitted = running.service.submit(request, None, Holder::default());
    let (job, _) = submitted.unwrap_or_else(|_| panic!("the request is refused"));
    let mut told = world.runtime.block_on(async {
        let mut worker = world.worker().await;
        let mut told = Vec::new();
        // The problem's own language makes no other program.
        while told.len() < 2 {
            let next = tokio::time::timeout(LIMIT, worker.next());
            let delivery = next.await.unwrap().unwrap();
            let language = delivery.message().candidate.language;
            told.push(language);
            let verdict = match language {
                None => measured(10.0),
                Some(_) => wrong(),
            };
            Box::pin(world.decide(delivery, verdict)).await;
        }
        worker.close();
        told
    });
    told.sort();
    assert_eq!(told, [None, Some(Language::Fortran)]);
    let outcomes: Vec<_> = answers(&job).into_iter().map(|a| a.outcome).collect();
    assert_eq!(
        outcomes,
        [
            wire::Outcome::Measured,
            wire::Outcome::Measured,
            wire::Outcome::Rejected
        ]
    );
    running.stop();
}

const MODULE: &str = "modules/softmax";

/// A request for a module.
fn of_module() -> Request {
    Request {
        candidates: vec![wire::Candidate {
            problem: MODULE.into(),
            source: Some("class ModelNew: pass".into()),
            ..wire::Candidate::default()
        }],
        purpose: Purpose::Rank,
        against: Against::default(),
        dry_run: false,
    }
}

impl World {
    /// A worker for each stage of a class.
    async fn workers(&self, class: &MachineClass) -> Vec<Worker<Candidate>> {
        let mut workers = Vec::new();
        for queue in [Queue::compile, Queue::verify, Queue::time] {
            let options = WorkerOptions::new(queue(class).all(), 4);
            workers.push(self.bus.worker(options).await.unwrap());
        }
        workers
    }

    /// Workers that take modules, once the service sees them.
    fn take_modules(&self, running: &Running) -> Vec<Worker<Candidate>> {
        let class = MachineClass::new("local").unwrap().of_modules().unwrap();
        let workers = self.runtime.block_on(self.workers(&class));
        let module = Problem::load_any(&shipped::at(MODULE)).unwrap();
        let deadline = Instant::now() + LIMIT;
        while running.cluster.lacks(&module).is_some() {
            assert!(Instant::now() < deadline, "waited too long");
        }
        workers
    }
}

#[test]
fn a_module_is_refused_for_now_where_no_worker_takes_modules() {
    let world = World::new();
    let running = world.start();
    // These may lack PyTorch.
    let class = MachineClass::new("local").unwrap();
    let kernels = world.runtime.block_on(world.workers(&class));
    let Err(refusal) = running.service.submit(of_module(), None, Holder::default()) else {
        panic!("nobody could evaluate it")
    };
    let details = refusal.details();
    assert_eq!(details.status, 503, "{details:?}");
    for part in [MODULE, "`local`", "flopsmith worker --modules"] {
        assert!(
            details.detail.contains(part),
            "{part} in {}",
            details.detail
        );
    }
    let modules = world.take_modules(&running);
    let submitted = running.service.submit(of_module(), None, Holder::default());
    assert!(submitted.is_ok(), "the request is refused");
    drop((kernels, modules));
    running.stop();
}

#[test]
fn a_module_has_a_run_and_a_reference_of_its_own() {
    let world = World::new();
    let running = world.start();
    let mut workers = world.take_modules(&running);
    let kernel = running.submit(Purpose::Rank, &["a"]);
    let submitted = running.service.submit(of_module(), None, Holder::default());
    let (job, _) = submitted.unwrap_or_else(|_| panic!("the request is refused"));
    world.runtime.block_on(async {
        let mut of_kernels = world.worker().await;
        let next = tokio::time::timeout(LIMIT, of_kernels.next());
        let delivery = next.await.unwrap().unwrap();
        let run = delivery.message().candidate.run.clone();
        Box::pin(world.decide(delivery, measured(10.0))).await;
        let next = tokio::time::timeout(LIMIT, workers[0].next());
        let delivery = next.await.unwrap().unwrap();
        let candidate = delivery.message().candidate.clone();
        assert_ne!(candidate.run, run);
        assert_eq!(candidate.problem.as_str(), "softmax");
        assert_eq!(candidate.machine_class.as_str(), "local.modules");
        let registry = RunRegistry::open(&world.bus).await.unwrap();
        let spec = registry.find(&candidate.run).await.unwrap().unwrap();
        assert_eq!(spec.problems().count(), 1);
        let module = Problem::load_any(&shipped::at(MODULE)).unwrap();
        assert_eq!(candidate.permitted, module.techniques);
        Box::pin(world.decide(delivery, measured(10.0))).await;
    });
    let answer = answers(&job).pop().unwrap();
    assert_eq!(answer.outcome, wire::Outcome::Measured, "{answer:?}");
    let reference = answer.reference.clone().unwrap();
    // The geometric mean of 3 and 12, which the machine has told.
    assert!((reference.gflops - 6.0).abs() < 1e-9, "{reference:?}");
    assert!((answer.gflops.unwrap() - 60.0).abs() < 1e-9, "{answer:?}");
    let of_kernel = answers(&kernel)[0].reference.clone().unwrap();
    assert_ne!(of_kernel.id, reference.id);
    drop(workers);
    running.stop();
}

#[test]
fn a_module_ends_as_infrastructure_where_no_worker_takes_modules_any_more() {
    let world = World::new();
    let running = world.start();
    // The workers left after the request had come.
    let module = Arc::new(Problem::load_any(&shipped::at(MODULE)).unwrap());
    let source = "class ModelNew: pass".to_owned();
    let program = Program::new(module, Language::Python, source, Purpose::Rank);
    let Err(failure) = running.cluster.evaluate(&program) else {
        panic!("nobody evaluates it")
    };
    let Failure::Infrastructure { cause, detail } = &failure else {
        panic!("{failure:?}")
    };
    assert_eq!(*cause, InfrastructureCause::Bus);
    assert!(detail.contains("flopsmith worker --modules"), "{detail}");
    assert!(lock(&running.cluster.runs).open.is_empty());
    let queues = world.runtime.block_on(world.bus.queues()).unwrap();
    assert!(queues.iter().all(|queue| queue.waiting == 0), "{queues:?}");
    let health = running.cluster.health();
    assert!(health.answers && health.under_way == 0, "{health:?}");
    running.stop();
}
