//! `serve` and `mcp` on modules of PyTorch: machines without PyTorch, here and on a cluster, and the evaluation of a shipped solution
//! where they have it.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use flopsmith_problem::Problem;
use flopsmith_protocol::subjects::Queue;
use flopsmith_test_support::{machine_class, skipped};
use serde_json::{Value, json};

use crate::one_core::on_one_core;
use crate::service::Service;
use crate::worker::{Cluster, Worker};
use crate::{as_shipped, root};

/// Number of waits for a job, of at most 100 seconds each: TorchInductor compiles the reference, and g++ PyTorch's headers.
const WAITS: usize = 9;

fn start(folder: &Path, python: Option<&str>) -> Service {
    let mut command = as_shipped();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--folder"])
        .arg(folder);
    if let Some(python) = python {
        command.env("FLOPSMITH_PYTHON", python);
    }
    Service::start(&mut command)
}

fn post(service: &Service, path: &str, body: &Value) -> Value {
    let text = service.ask(&format!("POST {path}"), &body.to_string());
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn solution() -> String {
    let file = root().join("problems/modules/softmax/solution_cpp.py");
    std::fs::read_to_string(file).unwrap()
}

fn asked(source: &str) -> Value {
    let candidate =
        json!({ "problem": "modules/softmax", "workloads": ["narrow"], "source": source });
    json!({ "purpose": "screen", "candidates": [candidate] })
}

fn tool(name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

#[test]
fn a_service_without_pytorch_refuses_modules_and_evaluates_kernels() {
    let place = tempfile::tempdir().unwrap();
    let service = start(&place.path().join("folder"), Some("/no/such/python"));
    for path in ["/v1/evaluate", "/v1/jobs"] {
        let refused = post(&service, path, &asked("class ModelNew: pass"));
        assert_eq!(refused["status"], 503, "{refused}");
        assert_eq!(refused["type"], "urn:flopsmith:error:infrastructure");
        let detail = refused["detail"].as_str().unwrap();
        for part in [
            "modules/softmax",
            "/no/such/python",
            "FLOPSMITH_PYTHON",
            "scripts/python.sh",
        ] {
            assert!(detail.contains(part), "{part} in {detail}");
        }
    }
    let mut in_c = asked("int x;");
    in_c["candidates"][0]["language"] = json!("c");
    let refused = post(&service, "/v1/evaluate", &in_c);
    assert_eq!(refused["status"], 422, "{refused}");
    // Languages and prompts need no PyTorch.
    let described = service.ask("GET /v1/problems/modules%2Fsoftmax", "");
    let described: Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["languages"], json!(["python"]), "{described}");
    let kernel = json!({ "candidates": [{ "problem": "dgemm", "source": "int x;" }] });
    let answer = post(&service, "/v1/evaluate", &kernel);
    assert_eq!(answer["reason"], "missing_entry", "{answer}");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn an_agent_without_pytorch_is_told_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = as_shipped()
        .args(["mcp", "--folder"])
        .arg(place.path())
        .env("FLOPSMITH_PYTHON", "/no/such/python")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let arguments = json!({ "problem": "modules/softmax", "source": "class ModelNew: pass" });
    let mut input = agent.stdin.take().unwrap();
    let message = tool("evaluate", &arguments);
    writeln!(input, "{message}").unwrap();
    // The server answers a call before it ends, but a call that is under way ends with its input.
    let mut output = std::io::BufReader::new(agent.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    drop(input);
    assert!(agent.wait().unwrap().success());
    let answer: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let words = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("scripts/python.sh"), "{words}");
}

/// The answer of a job with one candidate.
fn answered(service: &Service, job: &Value) -> Value {
    let id = job["id"].as_str().unwrap_or_else(|| panic!("{job}"));
    for _ in 0..WAITS {
        let state = service.ask(&format!("GET /v1/jobs/{id}?wait=100"), "");
        let state: Value = serde_json::from_str(&state).unwrap();
        if state["status"] == "done" {
            return state["results"][0].clone();
        }
    }
    panic!("the job {id} is not done")
}

#[test]
fn a_shipped_solution_is_evaluated_over_http_and_by_an_agent() {
    let problem = Problem::load_any(&root().join("problems/modules/softmax")).unwrap();
    if let Some(why) = flopsmith_evaluate::missing(&problem) {
        skipped(&why);
        return;
    }
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let service = start(&place.path().join("folder"), None);
    // The check of sources refuses this one before a baseline is prepared.
    let refused = post(&service, "/v1/jobs", &asked("void f(void) {}"));
    let refused = answered(&service, &refused);
    assert_eq!(refused["outcome"], "rejected", "{refused}");
    assert_eq!(refused["reference"], Value::Null, "{refused}");

    let job = post(&service, "/v1/jobs", &asked(&solution()));
    let answer = answered(&service, &job);
    // Other tests keep the machine busy, so a screening need not converge.
    let outcome = answer["outcome"].as_str().unwrap();
    assert!(["measured", "unconverged"].contains(&outcome), "{answer}");
    assert_eq!(answer["correct"], true, "{answer}");
    let number = |name: &str| answer[name].as_f64().unwrap();
    assert!(number("reward") > 0.0, "{answer}");
    let reference = answer["reference"]["gflops"].as_f64().unwrap();
    let told = number("ratio") * reference;
    assert!((number("gflops") / told - 1.0).abs() < 1e-9, "{answer}");
    assert!(answer["techniques"].is_array(), "{answer}");

    let source = format!("{}\n# once more\n", solution());
    let arguments = json!({
        "problem": "modules/softmax", "workloads": ["narrow"], "purpose": "screen", "source": source,
    });
    let found = post(&service, "/mcp", &tool("evaluate", &arguments));
    let found = &found["result"]["structuredContent"];
    assert_eq!(found["correct"], true, "{found}");
    assert_eq!(found["cached"], false, "{found}");
    // Both numbers refer to one measurement of the baselines.
    assert_eq!(found["reference"], answer["reference"]["id"], "{found}");
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("TorchInductor"), "{summary}");
    assert_eq!(service.stop(), Some(0));
}

/// A service whose programs the workers of a cluster evaluate.
fn start_on(cluster: &Cluster) -> Service {
    let mut command = as_shipped();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--cluster"])
        .args(["--nats", &cluster.url(), "--store"])
        .arg(cluster.store())
        .arg("--folder")
        .arg(cluster.folder.path().join("service"));
    Service::start(&mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_pytorch_takes_no_modules() {
    let cluster = Cluster::new().await;
    let service = start_on(&cluster);
    let refused = post(&service, "/v1/jobs", &asked("class ModelNew: pass"));
    assert_eq!(refused["status"], 503, "{refused}");
    let detail = refused["detail"].as_str().unwrap();
    for part in ["modules/softmax", "`local`", "flopsmith worker --modules"] {
        assert!(detail.contains(part), "{part} in {detail}");
    }
    let worker = |roles: &str| {
        let worker = as_shipped()
            .args(["worker", "--modules", "--roles", roles])
            .args(["--nats", &cluster.url(), "--store"])
            .arg(cluster.store())
            .env("FLOPSMITH_PYTHON", "/no/such/python")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&worker.stderr).into_owned();
        (worker.status.code(), said)
    };
    let (code, said) = worker("compiler,verifier,timer");
    assert_eq!(code, Some(3), "{said}");
    for part in ["--modules", "/no/such/python", "scripts/python.sh"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let (code, said) = worker("archive");
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(service.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_on_a_cluster_leaves_modules_to_a_worker_with_pytorch() {
    let problem = Problem::load_any(&root().join("problems/modules/softmax")).unwrap();
    if let Some(why) = flopsmith_evaluate::missing(&problem) {
        skipped(&why);
        return;
    }
    on_one_core();
    let cluster = Cluster::new().await;
    // The service makes the streams.
    let service = start_on(&cluster);
    let mut worker = Worker::with(&cluster, "w1", &["--modules"]);
    worker.says("works for machine class local and its modules");
    let class = machine_class().of_modules().unwrap();
    let queues = [Queue::compile, Queue::verify, Queue::time].map(|of| of(&class));
    while !cluster.bus.have_workers(&queues).await.unwrap() {
        tokio::task::yield_now().await;
    }
    let job = post(&service, "/v1/jobs", &asked(&solution()));
    let answer = answered(&service, &job);
    // Other tests keep the machine busy, so a screening need not converge.
    let outcome = answer["outcome"].as_str().unwrap();
    assert!(["measured", "unconverged"].contains(&outcome), "{answer}");
    assert_eq!(answer["correct"], true, "{answer}");
    let number = |name: &str| answer[name].as_f64().unwrap();
    assert!(number("reward") > 0.0, "{answer}");
    let reference = answer["reference"]["gflops"].as_f64().unwrap();
    let told = number("ratio") * reference;
    assert!((number("gflops") / told - 1.0).abs() < 1e-9, "{answer}");
    // Kernels go to the same worker, by other queues.
    let kernel = json!({ "candidates": [{ "problem": "softmax", "source": "int x;" }] });
    let refused = post(&service, "/v1/evaluate", &kernel);
    assert_eq!(refused["reason"], "missing_entry", "{refused}");
    assert_eq!(service.stop(), Some(0));
}
