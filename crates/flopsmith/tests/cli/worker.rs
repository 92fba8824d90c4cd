//! Workers: nodes that join a bus and evaluate programs of all runs there.

use flopsmith_bus::{Auth, Bus, RunSetup, Server, ServerOptions};
use flopsmith_config::Settings;
use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    Candidate, CandidateRef, Outcome, ProblemId, RunId, RunSpec, Session, TechniqueSet, encode,
    subjects,
};
use flopsmith_test_support::{candidate, machine_class};

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ChildStderr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::one_core::on_one_core;
use crate::service::Service;

/// The bucket of runs. It and [`version`] are spelled out here: `flopsmith-actors` would link libtorch, whose start costs each
/// test of this program a third of a second.
const RUNS: &str = "fs_runs";
/// The first workload of dot: the others add time, and nothing that these tests look at.
const FIRST_OF_DOT: &str = "n=200000";

/// The version of the program under test, as a run says it.
fn version() -> String {
    let steady = if cfg!(feature = "steady") {
        " steady"
    } else {
        ""
    };
    format!(
        "{} method {}{steady}",
        env!("CARGO_PKG_VERSION"),
        flopsmith_measure::METHOD
    )
}

/// A worker process that ends with its test.
pub struct Worker {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Worker {
    fn start(cluster: &Cluster, name: &str) -> Self {
        Self::with_roles(cluster, name, "compiler,verifier,timer")
    }

    fn with_roles(cluster: &Cluster, name: &str, roles: &str) -> Self {
        Self::with(cluster, name, &["--roles", roles])
    }

    /// A worker with these words on its command line.
    pub fn with(cluster: &Cluster, name: &str, words: &[&str]) -> Self {
        let child = flopsmith()
            .args([
                "worker",
                "--nats",
                &cluster.url(),
                "--node",
                name,
                "--listen",
                "127.0.0.1:0",
                "--store",
            ])
            .arg(cluster.store())
            .args(words)
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self { child, said }
    }

    /// Its address, and its answer at a path.
    fn asked(&mut self, path: &str) -> (String, String) {
        let address = loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some(address) = line.trim().strip_prefix("answers at http://") {
                break address.to_owned();
            }
        };
        let answer = answered(&address, path);
        (address, answer)
    }

    /// Waits until it prints something.
    pub fn says(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended");
        }
    }

    /// Asks it to stop; returns its exit code and output.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.unwrap().success());
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// A cluster of one broker and one store.
pub struct Cluster {
    server: Server,
    pub bus: Bus,
    pub folder: tempfile::TempDir,
}

impl Cluster {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("nats");
        let server = Server::start(None, &store, ServerOptions::default());
        let server = server.await.unwrap();
        let bus = Bus::connect(&server).await.unwrap();
        Self {
            server,
            bus,
            folder,
        }
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn token(&self) -> String {
        match self.server.connect_options().auth {
            Auth::Token(token) => token,
            other => panic!("{other:?}"),
        }
    }

    pub fn url(&self) -> String {
        let url = self.server.connect_options().url;
        url.replace("://", &format!("://{}@", self.token()))
    }

    /// Publishes a run's specification.
    async fn announce(&self, run: &RunId, problem: &str) {
        self.announce_in(run, problem, None).await;
    }

    /// The same of a run with its artifacts in this store.
    async fn announce_in(&self, run: &RunId, problem: &str, store: Option<String>) {
        let problem = Problem::load(&root().join("problems").join(problem)).unwrap();
        // The larger workloads take long.
        let settings = Settings {
            workloads: vec![problem.workloads[0].name.clone()],
            ..Settings::default()
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let spec = RunSpec {
            run: run.clone(),
            version: version(),
            problem: problem.files(),
            others: Vec::new(),
            settings_json: serde_json::to_string(&settings).unwrap(),
            machine_class: machine_class(),
            trains: false,
            model: Vec::new(),
            store,
            session: Some(Session {
                began_unix_ms: u64::try_from(now.as_millis()).unwrap(),
                before_ms: 0,
            }),
        };
        let runs = self.bus.kv(RUNS).await.unwrap();
        let key = run.as_str().replace('.', "_");
        runs.put(&key, encode(&spec).unwrap()).await.unwrap();
    }

    async fn submit(&self, run: &RunId, problem: &str, source: &str) {
        let candidate = CandidateRef {
            id: format!("{run}-s0-g0-c0").parse().unwrap(),
            run: run.clone(),
            problem: ProblemId::new(problem).unwrap(),
            permitted: TechniqueSet::all(),
            ..candidate(0, 0, 0)
        };
        let source = source.to_owned();
        let subject = Queue::compile(&machine_class()).of(run);
        let message = Candidate {
            candidate,
            source,
            answer: None,
        };
        self.bus.publish(&subject, &message).await.unwrap();
    }

    async fn outcome(&self, run: &RunId) -> Outcome {
        let mut log = self.bus.log(&subjects::outcome(run), 0).await.unwrap();
        let next = tokio::time::timeout(Duration::from_secs(120), log.next());
        next.await.expect("it takes too long").unwrap().1
    }
}

/// The answer of a worker at this address to a request.
fn answered(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: w\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_of_a_cluster_measure_the_programs_of_a_file() {
    on_one_core();
    let cluster = Cluster::new().await;
    let streams = RunSetup::default();
    cluster.bus.ensure_streams(&streams).await.unwrap();
    let _worker = Worker::start(&cluster, "w1");
    let reference = root().join("problems/dot/reference.c");
    let reference = std::fs::read_to_string(reference).unwrap();
    let wrong = "void dot(int n, const double *x, const double *y, double *result) { result[0] = x[0] + y[n - 1]; }";
    let line = |prompt: &str, program: &str| {
        serde_json::json!({ "problem": "dot", "prompt": prompt, "program": program }).to_string()
    };
    let lines = [
        line("a", &reference),
        line("a", wrong),
        line("b", &reference),
    ];
    let file = cluster.folder.path().join("programs.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let measure = |store: &str| {
        let mut command = flopsmith();
        command.args(["dataset", "measure"]).arg(&file);
        command.args(["--workload", FIRST_OF_DOT]);
        command.args(["--cluster", "--nats", &cluster.url(), "--store", store]);
        command.output().unwrap()
    };
    let mut alone = flopsmith();
    alone.args(["dataset", "measure"]).arg(&file);
    let alone = alone.args(["--machine-class", "x"]).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(said.contains("without --cluster"), "{said}");
    let refused = measure("");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--store (or FLOPSMITH_STORE)"), "{said}");
    let output = measure(cluster.store().to_str().unwrap());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let prompts: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["prompt"].as_str())
        .collect();
    assert_eq!(prompts, ["a", "a", "b"], "in the order of the file: {said}");
    let right: Vec<bool> = rows
        .iter()
        .filter_map(|row| row["correct"].as_bool())
        .collect();
    assert_eq!(right, [true, false, true], "{text}");
    assert!(rows[0]["runtime_s"].as_f64().unwrap() > 0.0);
    assert_eq!(rows[0]["runtime_s"], rows[2]["runtime_s"], "measured once");
    evaluated_by_workers(&cluster, &[&reference, wrong]);
    let top = run(&["top", "--nats", &cluster.url(), "--format", "json"]);
    assert_eq!(last_object(&top)["runs"].as_array().unwrap().len(), 0);
}

/// The workers evaluate the answers of an evaluation as well.
fn evaluated_by_workers(cluster: &Cluster, programs: &[&str]) {
    let samples = cluster.folder.path().join("samples.jsonl");
    let lines = programs
        .iter()
        .map(|program| serde_json::json!({ "problem": "dot", "program": program }).to_string());
    std::fs::write(&samples, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let folder = cluster.folder.path().join("evaluation");
    let mut command = flopsmith();
    command.args(["eval", samples.to_str().unwrap(), "--problem", "dot"]);
    command.args(["--workload", FIRST_OF_DOT]);
    command.args(["--format", "json", "--purpose", "screen", "--output"]);
    command
        .arg(&folder)
        .args(["--cluster", "--nats", &cluster.url()]);
    command.arg("--store").arg(cluster.store());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("[2/2] dot"), "{said}");
    let outcomes: Vec<serde_json::Value> = std::fs::read_to_string(folder.join("outcomes.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |outcome: &str| outcomes.iter().find(|row| row["outcome"] == outcome);
    let wrong = of("rejected").expect("the wrong one");
    assert_eq!(wrong["reason"], "wrong_result", "{outcomes:?}");
    let right = of("measured").or(of("unconverged")).expect("the reference");
    let ratio = right["speed"]["log_ratio"].as_f64().unwrap().exp();
    assert!((0.3..3.0).contains(&ratio), "it is the reference: {ratio}");
    // A second start finds nothing to do.
    let again = command.output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{said}");
    assert!(!said.contains("[1/"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_leaves_its_programs_to_the_workers_of_a_cluster() {
    on_one_core();
    let cluster = Cluster::new().await;
    let nowhere = ["serve", "--listen", "127.0.0.1:0", "--cluster", "--nats"];
    let nowhere = flopsmith()
        .args(nowhere)
        .args(["nats://127.0.0.1:1", "--store"])
        .arg(cluster.store())
        .arg("--folder")
        .arg(cluster.folder.path().join("unused"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(3), "{said}");
    let folder = cluster.folder.path().join("service");
    let mut command = flopsmith();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--cluster"])
        // The compiler is the workers'.
        .env("PATH", "")
        .args(["--nats", &cluster.url(), "--store"])
        .arg(cluster.store())
        .arg("--folder")
        .arg(&folder);
    let service = Service::start(&mut command);
    // The service has made the streams.
    let _worker = Worker::start(&cluster, "w1");
    let reference = root().join("problems/dot/reference.c");
    let reference = std::fs::read_to_string(reference).unwrap();
    let wrong = "void dot(int n, const double *x, const double *y, double *result) { result[0] = x[0] + y[n - 1]; }";
    let of = |source: &str| serde_json::json!({ "problem": "dot", "source": source, "workloads": [FIRST_OF_DOT] });
    // No program in C.
    let other = r#"extern "C" void dot(int n, const double *x, const double *y, double *result) {
    auto sum = 0.0;
    for (int i = 0; i < n; i++) sum += x[i] * y[i];
    result[0] = sum;
}"#;
    let mut other = of(other);
    other["language"] = "c++".into();
    let programs = [of(&reference), of(wrong), of("int x;"), other];
    let body = serde_json::json!({ "candidates": programs, "purpose": "screen" }).to_string();
    let lines = service.ask("POST /v1/evaluate", &body);
    let answers: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [right, wrong, empty, other] = answers.as_slice() else {
        panic!("{lines}");
    };
    for right in [right, other] {
        let outcome = right["outcome"].as_str().unwrap();
        assert!(["measured", "unconverged"].contains(&outcome), "{right}");
    }
    let number = |value: &Value| value.as_f64().unwrap();
    let told = number(&right["ratio"]) * number(&right["reference"]["gflops"]);
    assert!(
        (number(&right["gflops"]) / told - 1.0).abs() < 1e-9,
        "{right}"
    );
    assert!(right["reward"].is_f64(), "{right}");
    assert_eq!(wrong["reason"], "wrong_result", "{wrong}");
    assert_eq!(empty["reason"], "missing_entry", "{empty}");
    let attestation = right["measurement"]["attestation"].as_str().unwrap();
    let attestation = folder.join(format!("attestations/{attestation}.json"));
    let attestation = std::fs::read_to_string(attestation).unwrap();
    assert!(attestation.contains("cpu_model"), "{attestation}");
    let health = service.ask("GET /v1/health", "");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["cluster"]["answers"], true, "{health}");
    assert_eq!(service.stop(), Some(0));
    let top = run(&["top", "--nats", &cluster.url(), "--format", "json"]);
    assert_eq!(last_object(&top)["runs"].as_array().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_evaluates_programs_of_runs_that_it_learns_of_from_the_bus() {
    on_one_core();
    let cluster = Cluster::new().await;
    cluster
        .bus
        .ensure_streams(&RunSetup::default())
        .await
        .unwrap();
    let mut worker = Worker::start(&cluster, "w1");
    let named = |name: &str| RunId::new(name).unwrap();
    let [products, sums, unknown] = ["products", "sums", "unknown"].map(named);
    cluster.announce(&products, "dgemm").await;
    cluster.announce(&sums, "dot").await;
    let reference = |problem: &str| {
        let path = root().join("problems").join(problem).join("reference.c");
        std::fs::read_to_string(path).unwrap()
    };
    let wrong = "void dot(int n, const double *x, const double *y, double *result) { result[0] = x[0] + y[n - 1]; }";
    cluster
        .submit(&products, "dgemm", &reference("dgemm"))
        .await;
    cluster.submit(&sums, "dot", wrong).await;
    cluster.submit(&unknown, "dot", wrong).await;
    let outcome = cluster.outcome(&products).await;
    assert_eq!(outcome.verdict.kind(), "measured", "{:?}", outcome.verdict);
    assert_eq!(outcome.node.as_str(), "w1");
    // On a busy machine the measurement may not converge, and such a number is not shown as the best.
    let converged = outcome.verdict.measurement().unwrap().converged();
    // A program of another run, with another problem, at the same worker.
    let outcome = cluster.outcome(&sums).await;
    let verdict = outcome.verdict;
    assert_eq!(verdict.kind(), "wrong_result", "{verdict:?}");
    let outcome = cluster.outcome(&unknown).await;
    let said = format!("{:?}", outcome.verdict);
    assert!(
        said.contains("run unknown is not known on this bus"),
        "{said}"
    );
    let (address, _) = worker.asked("/metrics");
    let ready = run(&["cluster", "ready", "--listen", &address]);
    assert_eq!(ready.status.code(), Some(0), "{ready:?}");
    let nobody = run(&["cluster", "ready", "--listen", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    let lines = [
        "flopsmith_outcomes_total{verdict=\"measured\",cause=\"\"} 1",
        "flopsmith_outcomes_total{verdict=\"rejected\",cause=\"wrong_result\"} 1",
        "flopsmith_connected 1",
    ];
    // A role counts an outcome after it has published it.
    let limit = Duration::from_secs(60);
    wait_for(&mut worker.child, limit, "the counts", || {
        let counted = answered(&address, "/metrics");
        lines.iter().all(|line| counted.lines().any(|l| l == *line))
    });
    let top = run(&["top", "--nats", &cluster.url(), "--format", "json"]);
    let shown = last_object(&top);
    assert_eq!(top.status.code(), Some(0), "{shown}");
    let runs = shown["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|r| r["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["products", "sums"], "{shown}");
    assert_keys(
        &shown,
        "server runs queues verdicts nodes dead_letters outcomes",
        "",
    );
    assert_rows(
        &shown["runs"],
        "run job class step max_steps phase stage best_gflops worst worst_interval correct_rate left_seconds \
         silent_seconds health",
    );
    assert_rows(
        &shown["queues"],
        "stage class waiting in_hand oldest_seconds",
    );
    assert_rows(
        &shown["nodes"],
        "node class last_minute failures silent_seconds best_gflops noise imprecise",
    );
    assert_eq!(runs[0]["step"], 0, "{shown}");
    assert_eq!(runs[0]["best_gflops"].is_f64(), converged, "{shown}");
    assert!(runs[0]["left_seconds"].as_f64().unwrap() > 0.0, "{shown}");
    assert_eq!(runs[1]["correct_rate"], 0.0, "{shown}");
    assert_eq!(runs[1]["health"]["state"], "well", "{shown}");
    assert_eq!(shown["nodes"][0]["node"], "w1", "{shown}");
    // Of the three candidates, a slow machine judged some more than a minute ago; it has just judged the last one.
    let last_minute = shown["nodes"][0]["last_minute"].as_u64().unwrap();
    assert!((1..=3).contains(&last_minute), "{shown}");
    assert_eq!(shown["dead_letters"], 0, "{shown}");
    let queues = shown["queues"].as_array().unwrap();
    assert_eq!(queues.len(), 3, "{shown}");
    for queue in queues {
        assert_eq!(queue["class"], "local", "{shown}");
        assert_eq!(queue["waiting"], 0, "{shown}");
    }
    // The worker skips an unreadable message, also if no message follows it.
    let place = subjects::outcome(&RunId::new("sums").unwrap());
    let other = Candidate {
        candidate: candidate(0, 0, 0),
        source: String::new(),
        answer: None,
    };
    cluster.bus.publish(&place, &other).await.unwrap();
    let top = run(&["top", "--nats", &cluster.url(), "--format", "json"]);
    assert_eq!(last_object(&top)["nodes"][0]["node"], "w1");
    let (code, said) = worker.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("w1 works for machine class local"), "{said}");
    let cores = [
        "worker",
        "--nats",
        &cluster.url(),
        "--store",
        "/nowhere",
        "--cores",
        "999",
    ];
    let output = run(&cores);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--cores takes 1 to"), "{said}");
}

/// Two clusters on one broker: the stores tell their work apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_another_store_leaves_a_runs_work_to_others() {
    on_one_core();
    let cluster = Cluster::new().await;
    let setup = RunSetup::default();
    cluster.bus.ensure_streams(&setup).await.unwrap();
    let mut worker = Worker::start(&cluster, "far");
    let theirs = RunId::new("theirs").unwrap();
    let store = Some("of another cluster".to_owned());
    cluster.announce_in(&theirs, "dot", store).await;
    cluster.submit(&theirs, "dot", "void dot(void) {}").await;
    worker.says("keeps its artifacts in another store");
    let ours = RunId::new("ours").unwrap();
    let store = flopsmith_store::Store::open(cluster.store().to_str().unwrap()).unwrap();
    let store = Some(store.identity().await.unwrap());
    cluster.announce_in(&ours, "dot", store).await;
    cluster.submit(&ours, "dot", "void dot(void) {}").await;
    let outcome = cluster.outcome(&ours).await;
    assert_ne!(outcome.verdict.kind(), "infrastructure", "{outcome:?}");
    let outcomes = subjects::outcome(&theirs);
    let mut log = cluster.bus.log::<Outcome>(&outcomes, 0).await.unwrap();
    let decided = tokio::time::timeout(Duration::from_millis(500), log.next()).await;
    assert!(decided.is_err(), "{decided:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_work_says_why_and_ends() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("store");
    let start = |nats: &str, more: &[&str]| {
        let store = store.to_str().unwrap();
        let mut arguments = vec!["worker", "--nats", nats, "--store", store];
        arguments.extend(more);
        let output = run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = start("nats://127.0.0.1:1", &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no NATS server can be reached"), "{said}");
    let (code, said) = start("nats://127.0.0.1:1", &["--class", "a b"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = start("nats://127.0.0.1:1", &["--roles", "cook"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("compiler, verifier, timer"), "{said}");
    let cluster = Cluster::new().await;
    let (code, said) = start(&cluster.url(), &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no stream WORK"), "{said}");
    assert!(
        said.contains("`flopsmith cluster init --nats URL`"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute or more: make long"]
async fn a_run_goes_on_with_another_worker_where_one_is_killed() {
    let cluster = Cluster::new().await;
    cluster
        .bus
        .ensure_streams(&RunSetup::default())
        .await
        .unwrap();
    let first = Worker::start(&cluster, "w1");
    let runs = cluster.folder.path().join("runs");
    let set = |key: &str, value: &str| ["--set".to_owned(), format!("{key}={value}")];
    let settings = [
        set("nats", &cluster.url()),
        set("store", cluster.store().to_str().unwrap()),
        set("evaluate.workers", "true"),
        set("evaluate.finalists", "1"),
        set("evaluate.quarantine", "false"),
    ];
    let mut search = flopsmith()
        .args(["search", "--problem", "dgemm", "--evaluations", "32"])
        .args(["--budget", "10m", "--format", "json", "--runs"])
        .arg(&runs)
        .args(settings.concat())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let found = || only_run(&runs).map_or(0, |run| outcomes(&run).len());
    let limit = Duration::from_secs(240);
    wait_for(&mut search, limit, "an outcome", || found() > 0);
    // Other workers get the messages that it holds.
    drop(first);
    let second = Worker::start(&cluster, "w2");
    let ended = tokio::task::spawn_blocking(|| search.wait_with_output());
    let ended = tokio::time::timeout(limit, ended).await;
    let ended = ended.expect("it takes too long").unwrap().unwrap();
    let summary = last_object(&ended);
    assert_eq!(ended.status.code(), Some(0), "{summary}");
    let run = only_run(&runs).unwrap();
    let all = objects(&run.join("outcomes.jsonl"));
    let fresh = |outcome: &&Value| outcome["candidate"]["purpose"] == "search";
    assert_eq!(all.iter().filter(fresh).count(), 32);
    assert!(outcomes(&run).values().all(|times| *times == 1));
    let of = |name: &str| all.iter().filter(|o| o["node"] == name).count();
    assert!(of("w1") + of("w2") == all.len() && of("w2") > 0, "{all:?}");
    // A worker certified the reported program, and all evidence of the number is here.
    let record = run.join(summary["best"]["samples"].as_str().unwrap());
    let record: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    assert_traceable(&record);
    // A user can pass on the page.
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("nats://") && !page.contains(&cluster.token()));
    let layouts = record["measurement"]["certificate"]["layout_ratios"].as_array();
    assert_eq!(layouts.map(Vec::len), Some(5));
    let (code, said) = second.stop();
    assert_eq!(code, Some(0), "{said}");
}

/// A search of this many programs on the cluster.
fn left_to(cluster: &Cluster, evaluations: &str) -> Command {
    let mut search = flopsmith();
    search
        .args(["search", "--problem", "dgemm", "--evaluations", evaluations])
        .args(["--budget", "10m", "--format", "json", "--cluster"])
        .args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]))
        .args(["--nats", &cluster.url(), "--store"])
        .arg(cluster.store())
        .arg("--runs")
        .arg(cluster.folder.path().join("runs"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    search
}

async fn end_of(child: Child) -> Output {
    let ended = tokio::task::spawn_blocking(|| child.wait_with_output());
    let ended = tokio::time::timeout(Duration::from_secs(240), ended).await;
    ended.expect("it takes too long").unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_left_to_the_cluster_outlives_its_starter_and_its_archive() {
    on_one_core();
    let cluster = Cluster::new().await;
    cluster
        .bus
        .ensure_streams(&RunSetup::default())
        .await
        .unwrap();
    let _bench = Worker::start(&cluster, "bench");
    let first = Worker::with_roles(&cluster, "keeper1", "archive,generator");
    let runs = cluster.folder.path().join("runs");
    let mut starter = left_to(&cluster, "32").spawn().unwrap();
    let found = || only_run(&runs).map_or(0, |run| outcomes(&run).len());
    let limit = Duration::from_secs(240);
    wait_for(&mut starter, limit, "an outcome", || found() > 0);
    let _second = Worker::with_roles(&cluster, "keeper2", "archive,generator");
    let told = Command::new("kill")
        .args(["-INT", &starter.id().to_string()])
        .status();
    assert!(told.unwrap().success());
    let ended = end_of(starter).await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("the cluster continues the run"), "{said}");
    drop(first);
    // No process follows it, and its archive is dead; the second one takes over.
    let before = found();
    let run = only_run(&runs).unwrap();
    let mut resumed = flopsmith()
        .args(["search", "--problem", "dgemm", "--format", "json"])
        .args(["--resume", "--runs"])
        .arg(&runs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut resumed, limit, "more outcomes", || found() > before);
    let ended = end_of(resumed).await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    let all = objects(&run.join("outcomes.jsonl"));
    let fresh = |outcome: &&Value| outcome["candidate"]["purpose"] == "search";
    assert_eq!(all.iter().filter(fresh).count(), 32);
    assert!(outcomes(&run).values().all(|times| *times == 1));
    assert_eq!(last_object(&ended)["finished"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_left_to_the_cluster_can_be_ended() {
    let cluster = Cluster::new().await;
    cluster
        .bus
        .ensure_streams(&RunSetup::default())
        .await
        .unwrap();
    let url = cluster.url();
    let stop = |name: &str| run(&["cluster", "stop", name, "--nats", &url]);
    let output = stop("never-begun");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no unfinished run never-begun"), "{said}");
    let _keeper = Worker::with_roles(&cluster, "keeper", "archive,generator");
    let mut search = left_to(&cluster, "64").spawn().unwrap();
    let runs = cluster.folder.path().join("runs");
    let limit = Duration::from_secs(60);
    let mut name = String::new();
    wait_for(&mut search, limit, "a run", || {
        name = only_run(&runs).map_or_else(String::new, |run| {
            run.file_name().unwrap().to_str().unwrap().to_owned()
        });
        !name.is_empty()
    });
    let id = RunId::new(&name).unwrap();
    let queued = async { while cluster.bus.queued(&id).await.unwrap() == 0 {} };
    tokio::time::timeout(limit, queued).await.unwrap();
    let output = stop(&name);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("messages of its work were dropped"), "{said}");
    let ended = end_of(search).await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("was ended by"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_is_set_up_and_looked_at() {
    let cluster = Cluster::new().await;
    let url = cluster.url();
    let store = cluster.store();
    let store = store.to_str().unwrap();
    let cluster_command = |more: &[&str]| {
        let mut arguments = vec!["cluster", more[0], "--nats", &url];
        arguments.extend(&more[1..]);
        let output = run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    };
    let (output, said) = cluster_command(&["check"]);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no stream WORK, OUTCOME"), "{said}");
    // More copies than servers.
    let (output, said) = cluster_command(&["init", "--copies", "3"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("3 copies need as many NATS servers"),
        "{said}"
    );
    let (output, said) = cluster_command(&["init", "--remember", "1m"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("at least 5m"), "{said}");
    // For the broker 0 would mean no limit.
    let (output, said) = cluster_command(&["init", "--keep-logs", "0s"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--keep-logs 0"), "{said}");
    for window in ["2h", "20m"] {
        let more = ["init", "--keep-logs", "30d", "--remember", window];
        let (output, said) = cluster_command(&more);
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
    // The command only reads: it does not create a missing store.
    let (output, said) = cluster_command(&["check", "--store", store]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!Path::new(store).exists());
    std::fs::create_dir(store).unwrap();
    let (output, said) = cluster_command(&["check", "--store", store, "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let found = last_object(&output);
    let streams = found["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 5);
    assert_keys(&found, "server streams store", "");
    assert_rows(&found["streams"], "name messages bytes copies");
    let kept = "place conditional_create lists_at_once";
    assert_keys(&found["store"], kept, "");
    assert!(
        streams
            .iter()
            .all(|s| s["copies"] == 1 && s["messages"] == 0)
    );
    assert_eq!(found["store"]["conditional_create"], true);
    let (_, said) = cluster_command(&["check", "--store", "/proc/nowhere"]);
    assert!(said.contains("/proc/nowhere"), "{said}");
}
