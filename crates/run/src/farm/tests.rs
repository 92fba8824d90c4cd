use std::path::Path;

use flopsmith_bus::{Server, ServerOptions, WorkerOptions};
use flopsmith_measure::{Chain, Chains};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause};
use flopsmith_test_support::{infrastructure, machine, measured, outcome, rejected, shipped};

use super::*;

/// A broker.
struct World {
    runtime: Runtime,
    server: Server,
    bus: Bus,
    _place: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let (server, bus) = runtime.block_on(async {
            let server = Server::start(None, place.path(), ServerOptions::default());
            let server = server.await.unwrap();
            let bus = Bus::connect(&server).await.unwrap();
            bus.ensure_streams(&RunSetup::default()).await.unwrap();
            (server, bus)
        });
        Self {
            runtime,
            server,
            bus,
            _place: place,
        }
    }

    fn farm(&self) -> Farm {
        let ways = Ways {
            nats: String::new(),
            store: String::new(),
            machine_class: "local".into(),
        };
        let order = Order {
            name: "test",
            problems: &[Arc::new(Problem::load(&shipped::at("dot")).unwrap())],
            workloads: &[],
            compiler: "gcc",
            standard: Standard::Screen,
            full: Standard::Rank,
            threads: 1,
            sanitize: false,
        };
        Farm::with(self.server.connect_options(), None, &ways, &order).unwrap()
    }

    /// Takes `count` programs, and publishes an outcome for those that `decide` has a verdict on.
    async fn work(&self, count: usize, decide: fn(&Candidate) -> Option<Verdict>) {
        let class = MachineClass::new("local").unwrap();
        let options = WorkerOptions::new(Queue::compile(&class).all(), 4);
        let mut worker = self.bus.worker::<Candidate>(options).await.unwrap();
        for _ in 0..count {
            let delivery = worker.next().await.unwrap();
            let message = delivery.message().clone();
            if let Some(verdict) = decide(&message) {
                let subject = subjects::outcome(&message.candidate.run);
                let outcome = outcome(message.candidate, verdict);
                self.bus.publish(&subject, &outcome).await.unwrap();
            }
            delivery.done().await.unwrap();
        }
        worker.close();
    }

    fn runs(&self) -> Vec<String> {
        let names = async {
            let registry = RunRegistry::open(&self.bus).await.unwrap();
            let run = RunId::new("marker").unwrap();
            let marker = RunSpec {
                run: run.clone(),
                ..spec_of("dot")
            };
            registry.announce(&marker).await.unwrap();
            let mut names = Vec::new();
            let mut watch = registry.watch().await.unwrap();
            loop {
                use flopsmith_actors::registry::RunChange;
                match watch.next().await.unwrap() {
                    RunChange::Told(spec) if spec.run == run => return names,
                    RunChange::Told(spec) => names.push(spec.run.to_string()),
                    RunChange::Over(_) => {}
                }
            }
        };
        self.runtime.block_on(names)
    }
}

fn spec_of(problem: &str) -> RunSpec {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let order = Order {
        name: "test",
        problems: &[Arc::new(
            Problem::load_any(&problems.join(problem)).unwrap(),
        )],
        workloads: &[],
        compiler: "gcc",
        standard: Standard::Screen,
        full: Standard::Rank,
        threads: 1,
        sanitize: false,
    };
    let class = MachineClass::new("local").unwrap();
    spec(&RunId::new("r").unwrap(), &class, None, &order).unwrap()
}

fn program(source: &str) -> Program {
    Program {
        problem: ProblemId::new("dot").unwrap(),
        permitted: TechniqueSet::all(),
        full: source == "right",
        language: None,
        source: source.into(),
    }
}

#[test]
fn each_program_gets_its_outcome_and_a_lost_one_is_sent_again() {
    let world = World::new();
    let mut farm = world.farm();
    assert_eq!(world.runs().len(), 1);
    let programs = ["right", "wrong", "lost", "gone"].map(program);
    let decide = |candidate: &Candidate| {
        let again = candidate.candidate.sample > 0;
        let full = candidate.candidate.purpose == Purpose::Certify;
        Some(match candidate.source.as_str() {
            "right" if !full => rejected(CandidateFault::Format),
            "wrong" => rejected(CandidateFault::WrongResult),
            "lost" if !again => infrastructure(InfrastructureCause::Store),
            "gone" => infrastructure(InfrastructureCause::Store),
            _ => measured(10.0),
        })
    };
    let mut kinds = vec![""; programs.len()];
    std::thread::scope(|scope| {
        let working = scope.spawn(|| world.runtime.block_on(world.work(6, decide)));
        let whole = farm.evaluate(
            &programs,
            &CancellationToken::new(),
            |number, outcome, _| {
                assert_eq!(kinds[number], "", "once");
                kinds[number] = outcome.verdict.kind();
                Ok(())
            },
        );
        assert!(whole.unwrap());
        working.join().unwrap();
    });
    assert_eq!(kinds, ["measured", "wrong_result", "measured", "store"]);
    drop(farm);
    assert_eq!(world.runs(), Vec::<String>::new(), "the nodes forget it");
}

#[test]
fn programs_may_come_while_others_are_under_way() {
    let world = World::new();
    let mut farm = world.farm();
    let (inbox, programs) = futures::channel::mpsc::unbounded();
    inbox.unbounded_send(("first", program("x"))).unwrap();
    // The stream ends with its sender.
    let mut inbox = Some(inbox);
    let mut seen = Vec::new();
    let decide = |_: &Candidate| Some(measured(10.0));
    std::thread::scope(|scope| {
        let working = scope.spawn(|| world.runtime.block_on(world.work(2, decide)));
        let whole = farm.evaluate_stream(programs, &CancellationToken::new(), |tag, _, _| {
            seen.push(tag);
            if let Some(inbox) = inbox.take() {
                inbox.unbounded_send(("second", program("y"))).unwrap();
            }
            Ok(())
        });
        assert!(whole.unwrap());
        working.join().unwrap();
    });
    assert_eq!(seen, ["first", "second"]);
}

#[test]
fn a_program_keeps_its_language_on_its_way() {
    let world = World::new();
    let mut farm = world.farm();
    let programs = [None, Some(Language::Fortran)].map(|language| Program {
        language,
        ..program("x")
    });
    let decide = |candidate: &Candidate| {
        Some(match candidate.candidate.language {
            None => measured(10.0),
            Some(_) => rejected(CandidateFault::WrongResult),
        })
    };
    let mut kinds = vec![""; programs.len()];
    std::thread::scope(|scope| {
        let working = scope.spawn(|| world.runtime.block_on(world.work(2, decide)));
        let each = |number: usize, outcome: Outcome, _: Option<&MachineFacts>| {
            kinds[number] = outcome.verdict.kind();
            Ok(())
        };
        let whole = farm.evaluate(&programs, &CancellationToken::new(), each);
        assert!(whole.unwrap());
        working.join().unwrap();
    });
    assert_eq!(kinds, ["measured", "wrong_result"]);
}

#[test]
fn a_link_tells_the_reference_of_a_run_and_ends_one_that_was_left() {
    let world = World::new();
    let farm = world.farm();
    let class = MachineClass::new("local").unwrap();
    let link = Link::with(world.server.connect_options(), class.clone()).unwrap();
    assert!(link.is_connected());
    let (run, dot) = (farm.run().clone(), ProblemId::new("dot").unwrap());
    let problem = Problem::load(&shipped::at("dot")).unwrap();
    assert_eq!(link.reference(&run, &problem).unwrap(), None);
    let chain = Chain {
        log_ratio: 1.5,
        log_se: 0.004,
        reference_seconds: 2.0,
        baseline_seconds: 0.1,
    };
    let facts = |class: &str| MachineFacts {
        run: run.clone(),
        machine_class: MachineClass::new(class).unwrap(),
        ..machine(class)
    };
    world.runtime.block_on(async {
        let registry = RunRegistry::open(&world.bus).await.unwrap();
        let ours = Chains::from(chain);
        registry.in_common(&run, &dot, &class, ours).await.unwrap();
        for of in ["other", "local"] {
            let subject = subjects::machine(&run);
            world.bus.publish(&subject, &facts(of)).await.unwrap();
        }
    });
    let (chains, found) = link.reference(&run, &problem).unwrap().unwrap();
    assert_eq!(chains.whole(), chain);
    assert_eq!(found, facts("local"));
    link.withdraw(&run).unwrap();
    assert_eq!(world.runs(), Vec::<String>::new());
    drop(farm);
}

#[test]
fn a_program_that_only_a_gpu_can_time_is_sent_once() {
    let world = World::new();
    let mut farm = world.farm();
    let decide = |_: &Candidate| {
        let not_timed = Failure::unknown(UnknownCause::NotTimed, "needs a GPU");
        Some(Verdict::from(not_timed))
    };
    let mut kinds = Vec::new();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| world.runtime.block_on(world.work(1, decide)));
        let each = |_: usize, outcome: Outcome, _: Option<&MachineFacts>| {
            kinds.push(outcome.verdict.kind());
            Ok(())
        };
        let whole = farm.evaluate(&[program("x")], &CancellationToken::new(), each);
        assert!(whole.unwrap());
        working.join().unwrap();
    });
    assert_eq!(kinds, ["unknown"]);
}

#[test]
fn modules_have_queues_of_their_own_which_workers_without_pytorch_do_not_serve() {
    let world = World::new();
    let class = MachineClass::new("local").unwrap();
    let link = Link::with(world.server.connect_options(), class.clone()).unwrap();
    let kernel = Problem::load_any(&shipped::at("softmax")).unwrap();
    let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
    assert_eq!(link.class_for(&kernel).unwrap(), class);
    let apart = link.class_for(&module).unwrap();
    assert_eq!(apart.as_str(), "local.modules");
    assert!(!link.has_workers(&kernel).unwrap());
    let workers = world.runtime.block_on(async {
        let mut workers = Vec::new();
        for queue in [Queue::compile, Queue::verify, Queue::time] {
            let options = WorkerOptions::new(queue(&class).all(), 1);
            workers.push(world.bus.worker::<Candidate>(options).await.unwrap());
        }
        workers
    });
    // The server learns a little later that they ask for work.
    while !link.has_workers(&kernel).unwrap() {
        std::thread::yield_now();
    }
    assert!(!link.has_workers(&module).unwrap());
    drop(workers);
}

#[test]
fn a_farm_that_nobody_works_for_says_so_and_stops_on_request() {
    let world = World::new();
    let mut farm = world.farm();
    farm.silence = Duration::from_millis(50);
    // A role that gives a message up publishes no outcome.
    let error = std::thread::scope(|scope| {
        let working = scope.spawn(|| world.runtime.block_on(world.work(1, |_| None)));
        let ended = farm.evaluate(&[program("x")], &CancellationToken::new(), |_, _, _| Ok(()));
        working.join().unwrap();
        ended.unwrap_err().to_string()
    });
    assert!(error.contains("flopsmith dead list"), "{error}");
    let stopped = CancellationToken::new();
    stopped.cancel();
    let whole = farm.evaluate(&[program("y")], &stopped, |_, _, _| Ok(()));
    assert!(!whole.unwrap());
}

#[test]
fn a_node_permits_all_techniques_of_a_module_also_where_it_builds_a_program_once_more() {
    let spec = spec_of("modules/softmax");
    let settings: Settings = serde_json::from_str(&spec.settings_json).unwrap();
    let there = crate::paths::of_files(spec.problem, &settings).unwrap();
    let module = Problem::load_any(&shipped::at("modules/softmax")).unwrap();
    assert_eq!(there.techniques, module.techniques);
    assert_eq!(there.digest, module.digest);
}

#[test]
fn nodes_learn_all_problems_and_how_to_measure() {
    let spec = spec_of("dot");
    let settings: Settings = serde_json::from_str(&spec.settings_json).unwrap();
    assert_eq!(settings.evaluate.purpose, Standard::Screen);
    assert!(settings.evaluate.workers && !spec.trains);
    assert_eq!(spec.version, version_with_languages());
    assert_eq!(spec.problem.id.as_str(), "dot");
}
