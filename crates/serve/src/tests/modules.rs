//! Modules of PyTorch: their names, their languages, programs of the other target, and a machine without PyTorch.

use super::*;

const MODULE: &str = "modules/softmax";
const NO_PYTORCH: &str = "no Python with PyTorch was found; run scripts/python.sh";

/// A service on a machine without PyTorch.
fn without_pytorch(place: &Path) -> Server {
    let options = Options {
        missing: Some(NO_PYTORCH),
        ..Options::default()
    };
    Server::start(place, options)
}

fn candidates(all: Value) -> Value {
    json!({ "candidates": all, "purpose": "screen" })
}

fn fenced(source: &str) -> String {
    format!("Here it is.\n```python\n{source}\n```\n")
}

#[test]
fn problems_of_both_targets_are_listed_with_their_languages() {
    let place = tempfile::tempdir().unwrap();
    let server = without_pytorch(place.path());
    let all = server.get("/v1/problems").json();
    let named = |name: &str| {
        let all = all.as_array().unwrap();
        let found = all.iter().find(|listed| listed["problem"] == name);
        found
            .unwrap_or_else(|| panic!("no {name} in {all:?}"))
            .clone()
    };
    let module = named(MODULE);
    assert_eq!(module["target"], "module", "{module}");
    assert_eq!(module["languages"], json!(["python"]));
    let workloads = column(module["workloads"].as_array().unwrap(), "name");
    assert_eq!(workloads, ["wide", "narrow"]);
    let kernel = named("softmax");
    assert_eq!(kernel["target"], "kernel", "{kernel}");
    assert_eq!(
        kernel["languages"],
        json!(["c", "c++", "fortran", "fortran77"])
    );
    let described = server.get("/v1/problems/modules%2Fsoftmax").json();
    assert_eq!(described["problem"], MODULE, "{described}");
    assert_eq!(described["language"], "python");
    assert_eq!(described["entry"], "ModelNew");
    let beside = described["compared_with"].as_str().unwrap();
    assert!(beside.contains("TorchInductor"), "{beside}");
    let prompt = described["prompt"].as_str().unwrap();
    assert!(prompt.contains("class Model("), "{prompt}");
}

#[test]
fn a_program_of_the_other_target_is_refused_with_its_language() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let wrong = candidates(json!([
        { "problem": MODULE, "source": "void f(void) {}", "language": "c" },
        { "problem": "dgemm", "source": "class ModelNew: pass", "language": "python" },
        { "problem": MODULE, "source": "right 4", "language": "python" },
    ]));
    let reply = server.post("/v1/evaluate", &wrong);
    assert_eq!(reply.refused(422), "invalid", "{reply:?}");
    let details = reply.json();
    let errors = details["errors"].as_array().unwrap();
    let pointers = ["/candidates/0/language", "/candidates/1/language"];
    assert_eq!(column(errors, "pointer"), pointers);
    let said = errors[0]["detail"].as_str().unwrap();
    for part in [MODULE, "a module in Python", "`language` says C"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let said = errors[1]["detail"].as_str().unwrap();
    for part in ["`dgemm`", "a kernel in C, C++", "`language` says Python"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // KernelGYM calls the language of a program its backend.
    let task = |problem: &str, backend: &str| json!({ "task_id": "t", "reference_code": problem, "kernel_code": "right 4", "backend": backend });
    for (problem, backend) in [("dgemm", "triton"), (MODULE, "cpp")] {
        let refused = server.post("/evaluate", &task(problem, backend));
        assert_eq!(refused.refused(422), "invalid", "{problem}");
        assert_eq!(refused.json()["errors"][0]["pointer"], "/backend");
    }
    assert!(server.seen.lock().unwrap().is_empty());
    let found = server.post("/evaluate", &task(MODULE, "triton")).json();
    assert_eq!(found["speedup"], 4.0, "{found}");
}

#[test]
fn trainers_get_rewards_for_modules_by_the_same_table() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let answers = candidates(json!([
        { "problem": MODULE, "answer": fenced("right 8"), "workloads": ["narrow"] },
        { "problem": MODULE, "answer": "```c\nright 8\n```" },
        { "problem": MODULE, "source": "wrong" },
    ]));
    let answers = server.post("/v1/evaluate", &answers).lines();
    let rewards = [json!(0.1), json!(-1.0), json!(-0.1)];
    assert_eq!(column(&answers, "reward"), rewards);
    let reasons = [json!(null), json!("format"), json!("wrong_result")];
    assert_eq!(column(&answers, "reason"), reasons);
    assert_eq!(column(&answers, "problem"), [MODULE; 3]);
    let body = json!({ "query": [format!("prompt{}", fenced("right 40"))], "prompts": ["prompt"], "labels": [MODULE] });
    let rewards = server.post("/v1/openrlhf?purpose=screen", &body).json();
    assert_eq!(rewards["rewards"], json!([0.5]), "{rewards}");
    let slime = json!({ "prompt": "p", "response": fenced("right 40"), "label": MODULE });
    let reply = server.post("/v1/slime?language=python&purpose=screen", &slime);
    assert_eq!(reply.body, "0.5");
}

#[test]
fn a_program_that_only_a_gpu_can_time_has_no_reward() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let one = candidates(json!([{ "problem": MODULE, "source": "gpu" }]));
    let answers = server.post("/v1/evaluate", &one).lines();
    let [answer] = answers.as_slice() else {
        panic!("{answers:?}")
    };
    for (field, expected) in [
        ("outcome", json!("unknown")),
        ("reason", json!("not_timed")),
        ("diagnostics", json!("verified, not timed: needs a GPU")),
        ("reward", json!(null)),
        ("correct", json!(null)),
        ("ratio", json!(null)),
    ] {
        assert_eq!(answer[field], expected, "{field}: {answer}");
    }
    let task = json!({ "task_id": "t", "reference_code": MODULE, "kernel_code": "gpu", "backend": "triton" });
    let slime = json!({ "prompt": "p", "response": fenced("gpu"), "label": MODULE });
    for (path, body) in [("/evaluate", task), ("/v1/slime", slime)] {
        let reply = server.post(path, &body);
        assert_eq!(reply.refused(503), "infrastructure", "{path}");
        assert_eq!(reply.header("retry-after"), None, "{path}");
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        for part in ["needs a GPU", "asking again does not help"] {
            assert!(detail.contains(part), "{path}: {part} in {detail}");
        }
    }
}

#[test]
fn without_pytorch_every_route_says_what_to_do_and_nobody_gets_a_reward() {
    let place = tempfile::tempdir().unwrap();
    let server = without_pytorch(place.path());
    let one = candidates(
        json!([{ "problem": "dot", "source": "right 1" }, { "problem": MODULE, "source": "right 1" }]),
    );
    let mut dry = one.clone();
    dry["dry_run"] = json!(true);
    let task = json!({ "task_id": "t", "reference_code": MODULE, "kernel_code": "right 1" });
    let query = json!({ "query": [format!("prompt{}", fenced("right 1"))], "prompts": ["prompt"], "labels": [MODULE] });
    let slime = json!({ "prompt": "p", "response": fenced("right 1"), "label": MODULE });
    let text = json!({ "type": "output_text", "text": fenced("right 1") });
    let verify = json!({
        "problem": MODULE,
        "response": { "output": [{ "type": "message", "content": [text] }] },
    });
    for (path, body) in [
        ("/v1/evaluate", one.clone()),
        ("/v1/jobs", one),
        ("/v1/evaluate", dry),
        ("/v1/openrlhf", query),
        ("/v1/slime", slime),
        ("/verify", verify),
        ("/evaluate", task),
    ] {
        let reply = server.post(path, &body);
        assert_eq!(reply.refused(503), "infrastructure", "{path}: {reply:?}");
        assert_eq!(reply.header("retry-after"), Some("30"), "{path}");
        let details = reply.json();
        let detail = details["detail"].as_str().unwrap();
        for part in [MODULE, NO_PYTORCH] {
            assert!(detail.contains(part), "{path}: {part} in {detail}");
        }
        assert_eq!(details.get("job"), None, "{path}: {details}");
        for field in ["reward", "rewards", "speedup", "correctness"] {
            assert_eq!(details.get(field), None, "{path}: {details}");
        }
    }
    assert!(server.seen.lock().unwrap().is_empty());
    assert_eq!(server.service.unfinished(), 0);
    // Kernels need no PyTorch.
    let reply = server.post("/v1/evaluate", &programs(&["right 40"]));
    assert_eq!(column(&reply.lines(), "reward"), [0.5]);
}
