//! `serve`: real programs over HTTP, a kill in the middle, and the Python client.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::bench::GOOD;
use crate::one_core::on_one_core;
use crate::service::Service;
use crate::{flopsmith, root};

/// It does nothing.
const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}";

fn start(folder: &Path, more: &[&str]) -> Service {
    let mut command = flopsmith();
    command.args(["serve", "--listen", "127.0.0.1:0", "--folder"]);
    Service::start(command.arg(folder).args(more))
}

fn request(candidates: &[Value]) -> String {
    json!({ "candidates": candidates, "purpose": "screen" }).to_string()
}

fn lines(body: &str) -> Vec<Value> {
    let lines = body.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn programs_are_rewarded_and_a_kill_loses_no_job() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let reward = place.path().join("reward.toml");
    std::fs::write(&reward, "[reward]\ntype = \"runtime_ratio\"\n").unwrap();
    let folder = place.path().join("folder");
    let with_reward = ["--reward", reward.to_str().unwrap()];
    let service = start(&folder, &with_reward);
    // The compile stage refuses this one before a reference is measured.
    let empty = json!({ "id": "empty", "problem": "dgemm", "source": "int x;" });
    let refused = lines(&service.ask("POST /v1/evaluate", &request(std::slice::from_ref(&empty))));
    assert_eq!(refused[0]["reason"], "missing_entry", "{refused:?}");
    assert_eq!(refused[0]["reward"], -1.0, "{refused:?}");
    assert_eq!(refused[0]["reference"], Value::Null, "{refused:?}");
    // So it does in the format of another tool.
    let task = json!({ "task_id": "t", "reference_code": "dgemm", "kernel_code": "int x;" });
    let found = service.ask("POST /evaluate", &task.to_string());
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["compiled"], false, "{found}");
    assert_eq!(found["error_code"], "COMPILATION_ERROR", "{found}");
    let measured = folder.join("references").read_dir().unwrap();
    assert_eq!(measured.count(), 0);
    let good = json!({ "id": "good", "problem": "dgemm", "source": GOOD });
    let idle = json!({ "id": "idle", "problem": "dgemm", "source": IDLE });
    let answers = lines(&service.ask(
        "POST /v1/evaluate",
        &request(&[good.clone(), idle.clone(), idle.clone()]),
    ));
    let [first, second, third] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    // Other tests keep the machine busy, so a screening need not converge.
    let outcome = first["outcome"].as_str().unwrap();
    assert!(["measured", "unconverged"].contains(&outcome), "{first}");
    let number = |name: &str| first[name].as_f64().unwrap();
    assert!(
        (number("reward") - (number("ratio") - 1.0)).abs() < 1e-9,
        "{first}"
    );
    let reference = first["reference"]["gflops"].as_f64().unwrap();
    assert!((number("gflops") / (number("ratio") * reference) - 1.0).abs() < 1e-9);
    assert_eq!(first["techniques"], json!(["loop_reorder"]));
    assert_eq!(second["reason"], "wrong_result", "{second}");
    assert_eq!(second["reward"], -1.0);
    assert_eq!(
        (&second["cached"], &third["cached"]),
        (&json!(false), &json!(true))
    );
    // Once there is a reference, its result is kept under it.
    for cached in [false, true] {
        let again =
            lines(&service.ask("POST /v1/evaluate", &request(std::slice::from_ref(&empty))));
        assert_eq!(again[0]["reason"], "missing_entry", "{again:?}");
        assert_eq!(again[0]["cached"], cached, "{again:?}");
        assert_eq!(again[0]["reference"], first["reference"]);
    }
    // A program of the client takes the place of the plain reference: the same loops are as fast, if the machine is as busy.
    let compared = |other: &str| {
        let body =
            json!({ "candidates": [good], "purpose": "screen", "against": { "source": other } });
        service.ask("POST /v1/evaluate", &body.to_string())
    };
    let beside = lines(&compared(&format!("{GOOD}/* too */")));
    let ratio = beside[0]["ratio_to_against"].as_f64().unwrap();
    assert!((0.3..3.0).contains(&ratio), "{beside:?}");
    let interval = &beside[0]["interval_to_against"];
    let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
    assert!(low < ratio && ratio < high, "{beside:?}");
    let refused: Value = serde_json::from_str(&compared(IDLE)).unwrap();
    assert_eq!(refused["status"], 422, "{refused}");
    assert_eq!(refused["errors"][0]["pointer"], "/against", "{refused}");
    let attestation = first["measurement"]["attestation"].as_str().unwrap();
    let attested = folder
        .join("attestations")
        .join(format!("{attestation}.json"));
    assert!(attested.is_file(), "{}", attested.display());

    // A job is confirmed, and the process is killed.
    let fresh =
        json!({ "id": "fresh", "problem": "dgemm", "source": format!("{GOOD}/* again */") });
    let job: Value =
        serde_json::from_str(&service.ask("POST /v1/jobs", &request(&[idle, fresh]))).unwrap();
    let id = job["id"].as_str().unwrap().to_owned();
    drop(service);

    let service = start(&folder, &with_reward);
    let state = service.ask(&format!("GET /v1/jobs/{id}?wait=100"), "");
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["status"], "done", "{state}");
    assert_eq!(state["results"][0]["cached"], true, "{state}");
    assert_eq!(state["results"][1]["id"], "fresh", "{state}");
    // Both processes refer to one measurement of the reference.
    assert_eq!(state["results"][1]["reference"], first["reference"]);
    let metrics = service.ask("GET /metrics", "");
    assert!(
        metrics.contains("flopsmith_serve_evaluations_total"),
        "{metrics}"
    );
    assert_eq!(service.stop(), Some(0));
}

/// Two measurements of a dozen rates never have equal numbers.
#[test]
fn a_second_problem_measures_no_roof() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("folder");
    let service = start(&folder, &[]);
    let source = "void dot(int n,const double*x,const double*y,double*result){}";
    let candidates = [
        json!({ "problem": "dgemm", "source": IDLE }),
        json!({ "problem": "dot", "workloads": ["small"], "source": source }),
    ];
    for answer in lines(&service.ask("POST /v1/evaluate", &request(&candidates))) {
        assert_eq!(answer["reason"], "wrong_result", "{answer}");
    }
    let references = folder.join("references").read_dir().unwrap();
    let roofs = references.map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let reference: Value = serde_json::from_str(&text).unwrap();
        ["ceilings", "bandwidths"].map(|name| reference["roofs"][name].clone())
    });
    let roofs: Vec<[Value; 2]> = roofs.collect();
    let [first, second] = roofs.as_slice() else {
        panic!("each problem has one reference: {roofs:?}")
    };
    assert!(!first[0].as_array().unwrap().is_empty(), "{first:?}");
    assert_eq!(first, second);
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn the_python_client_gets_rewards_from_a_real_service() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let service = start(&place.path().join("folder"), &[]);
    let tests = root().join("clients/python/tests/test_service.py");
    let output = Command::new("python3")
        .arg(tests)
        .env("FLOPSMITH_URL", format!("http://{}", service.address))
        .env_remove("FLOPSMITH_SERVE_TOKEN")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ran 3 tests"), "{said}");
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn a_service_that_cannot_be_as_asked_does_not_start() {
    let place = tempfile::tempdir().unwrap();
    let token = place.path().join("token");
    std::fs::write(&token, "short").unwrap();
    let token = token.to_str().unwrap();
    // The mark of an editor for Windows is no part of the token.
    let marked = place.path().join("marked");
    std::fs::write(&marked, "\u{feff}fifteen-letters").unwrap();
    let marked = marked.to_str().unwrap();
    for (more, said) in [
        (&["--listen", "0.0.0.0:0"][..], "needs a token"),
        (&["--token-file", token][..], "16 to 1024"),
        (&["--token-file", marked][..], "15 characters"),
        (
            &["--token-file", "no/such/file"][..],
            "cannot read the token file",
        ),
        (
            &["--reward", "no/such/file"][..],
            "cannot read the configuration",
        ),
        (&["--compiler", "ls"][..], "name gcc, clang"),
        (&["--threads", "100000"][..], "may use only"),
        (&["--refresh", "soon"][..], "--refresh"),
        (
            &["--listen", "192.0.2.1:1", "--token-file", "Cargo.lock"][..],
            "16 to 1024",
        ),
    ] {
        let output = flopsmith()
            .args(["serve", "--folder"])
            .arg(place.path().join("folder"))
            .args(more)
            .env_remove("FLOPSMITH_SERVE_TOKEN")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(said), "{more:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{more:?}");
    }
}
