//! Recorded requests of KernelGYM, NeMo Gym and OpenEnv.

use super::*;

const KERNELGYM: &str = include_str!("recorded/kernelgym.json");
const NEMO_GYM: &str = include_str!("recorded/nemo_gym.json");
const RESET: &str = include_str!("recorded/openenv_reset.json");
const STEP: &str = include_str!("recorded/openenv_step.json");

/// A recorded request with other values in some fields.
fn changed(recorded: &str, changes: &[(&str, Value)]) -> Value {
    let mut request: Value = serde_json::from_str(recorded).unwrap();
    for (pointer, value) in changes {
        *request.pointer_mut(pointer).unwrap() = value.clone();
    }
    request
}

/// OpenEnv's step with another program and request.
fn step(source: &str, request: &str) -> Value {
    let answer = json!(format!("```c\n{source}\n```"));
    let changes = [("/action/answer", answer), ("/request_id", json!(request))];
    changed(STEP, &changes)
}

#[test]
fn kernelgym_gets_the_result_of_its_task() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let reply = server.ask("POST /evaluate", &[], KERNELGYM);
    assert_eq!(reply.status, 200, "{reply:?}");
    let found = reply.json();
    assert_eq!(found["task_id"], "train_000001_5f1c2a9b");
    assert_eq!(found["status"], "completed");
    for (field, expected) in [
        ("compiled", true),
        ("correctness", true),
        ("decoy_kernel", false),
    ] {
        assert_eq!(found[field], expected, "{field}: {found}");
    }
    assert_eq!(
        (&found["speedup"], &found["error_code"]),
        (&json!(40.0), &json!(null))
    );
    let time = |field: &str| found[field].as_f64().unwrap();
    let ratio = time("reference_runtime") / time("kernel_runtime");
    assert!((ratio - 40.0).abs() < 1e-9, "{found}");
    // Its client then asks for the state and the result.
    let status = server.get("/status/train_000001_5f1c2a9b").json();
    assert_eq!(status["status"], "completed");
    assert_eq!(server.get("/results/train_000001_5f1c2a9b").json(), found);
    assert_eq!(server.get("/status/another").refused(404), "not-found");

    let wrong = [
        ("/kernel_code", json!("wrong")),
        ("/task_id", json!("second")),
    ];
    let wrong = server.post("/evaluate", &changed(KERNELGYM, &wrong)).json();
    assert_eq!(
        (&wrong["compiled"], &wrong["correctness"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(wrong["error_code"], "CORRECTNESS_ERROR");
    assert_eq!(
        (&wrong["speedup"], &wrong["kernel_runtime"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn kernelgym_asks_again_after_a_failure_of_the_machine() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let failing = changed(KERNELGYM, &[("/kernel_code", json!("jail"))]);
    for count in 1..=2 {
        let reply = server.post("/evaluate", &failing);
        assert_eq!(reply.refused(503), "infrastructure");
        assert_eq!(reply.header("retry-after"), Some("5"));
        let details = reply.json();
        assert_eq!(details["error_code"], "SYSTEM_ERROR");
        for field in ["speedup", "correctness", "compiled", "status_code"] {
            assert_eq!(details.get(field), None, "{details}");
        }
        assert_eq!(server.seen.lock().unwrap().len(), count);
        let id = "train_000001_5f1c2a9b";
        for path in ["status", "results"] {
            let reply = server.get(&format!("/{path}/{id}"));
            assert_eq!(reply.refused(503), "infrastructure");
        }
    }
}

#[test]
fn kernelgym_is_told_its_mistakes() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    for (pointer, value, at) in [
        (
            "/reference_code",
            json!("class Model: pass"),
            "/reference_code",
        ),
        ("/reference_code", json!("dgem"), "/problem"),
        ("/reference_code", json!("../problems/dgemm"), "/problem"),
        ("/backend", json!("triton"), "/backend"),
        ("/task_id", json!(""), "/task_id"),
        ("/task_id", json!("x".repeat(101)), "/task_id"),
    ] {
        let request = changed(KERNELGYM, &[(pointer, value)]);
        let reply = server.post("/evaluate", &request);
        assert_eq!(reply.refused(422), "invalid", "{request}");
        let details = reply.json();
        assert_eq!(details["errors"][0]["pointer"], at, "{details}");
        assert_eq!(details["error_code"], "VALIDATION_ERROR");
    }
    assert!(server.seen.lock().unwrap().is_empty());
    // The URL names the problem and the standard for all.
    let request = changed(
        KERNELGYM,
        &[("/reference_code", json!(null)), ("/backend", json!(null))],
    );
    let reply = server.post("/evaluate?problem=dgemm&purpose=screen", &request);
    assert_eq!(reply.status, 200, "{reply:?}");
    let reply = server.post("/evaluate?proble=dgemm", &request);
    assert_eq!(reply.refused(400), "malformed");
}

#[test]
fn kernelgym_is_told_that_its_client_is_at_fault() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some("0123456789abcdef 1/hour"),
        most_body: 4096,
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let token = "Authorization: Bearer 0123456789abcdef";
    let without = server.ask("POST /evaluate", &[], KERNELGYM);
    assert_eq!(without.refused(401), "unauthorized");
    assert_eq!(without.header("www-authenticate"), Some("bearer"));
    let raw = |headers: &str, body: &str| {
        let mut stream = server.connect();
        let request = format!("POST /evaluate HTTP/1.0\r\n{token}\r\n{headers}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read(stream)
    };
    let large = raw(
        "Content-Type: application/json\r\nContent-Length: 1000000",
        "",
    );
    assert_eq!(large.refused(413), "too-large");
    let text = raw("Content-Type: text/plain\r\nContent-Length: 2", "{}");
    assert_eq!(text.refused(415), "wrong-media-type");
    for reply in [without, large, text] {
        assert_eq!(reply.json()["error_code"], "VALIDATION_ERROR", "{reply:?}");
    }
    let first = server.ask("POST /evaluate", &[token], KERNELGYM);
    assert_eq!(first.status, 200, "{first:?}");
    let second = changed(KERNELGYM, &[("/kernel_code", json!("right 2"))]);
    let second = server.ask("POST /evaluate", &[token], &second.to_string());
    assert_eq!(second.refused(429), "quota");
    assert!(second.header("retry-after").is_some(), "{second:?}");
    assert_eq!(second.json()["error_code"], "RESOURCE_ERROR");
}

#[test]
fn a_task_of_kernelgym_shows_its_place_in_the_queue() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let send = |id: &str, source: &str| {
        let changes = [("/task_id", json!(id)), ("/kernel_code", json!(source))];
        let body = changed(KERNELGYM, &changes).to_string();
        server.send("POST /evaluate", &[], &body)
    };
    let first = send("one", "right 1");
    wait_until(|| server.service.waiting() == (1, true));
    let second = send("two", "right 2");
    wait_until(|| server.service.waiting() == (2, true));
    let status = |id: &str| server.get(&format!("/status/{id}"));
    wait_until(|| ["one", "two"].iter().all(|id| status(id).status == 200));
    assert_eq!(status("one").json()["status"], "processing");
    let waiting = status("two").json();
    assert_eq!(
        (&waiting["status"], &waiting["queue_position"]),
        (&json!("pending"), &json!(1))
    );
    assert_eq!(server.get("/results/two").refused(503), "unavailable");
    for _ in 0..2 {
        open.send(()).unwrap();
    }
    for (stream, speedup) in [(first, 1.0), (second, 2.0)] {
        assert_eq!(Reply::read(stream).json()["speedup"], speedup);
    }
}

#[test]
fn nemo_gym_gets_its_request_back_with_a_reward() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    assert_eq!(server.post("/seed_session", &json!({})).json(), json!({}));
    let reply = server.ask("POST /verify", &[], NEMO_GYM);
    assert_eq!(reply.status, 200, "{reply:?}");
    let found = reply.json();
    let sent: Value = serde_json::from_str(NEMO_GYM).unwrap();
    for (field, value) in sent.as_object().unwrap() {
        assert_eq!(found[field], *value, "{field}");
    }
    assert_eq!(
        (&found["reward"], &found["correct"]),
        (&json!(0.5), &json!(1))
    );
    let answer = "/response/output/1/content/0/text";
    let with = |text: &str| server.post("/verify", &changed(NEMO_GYM, &[(answer, json!(text))]));
    let wrong = with("```c\nwrong\n```").json();
    assert_eq!(
        (&wrong["reward"], &wrong["reason"]),
        (&json!(-0.1), &json!("wrong_result"))
    );
    // An answer without a program is the model's fault.
    assert_eq!(with("I cannot.").json()["reward"], json!(-1.0));
    // A failure of the machine is nobody's reward.
    assert_eq!(with("```c\njail\n```").refused(503), "infrastructure");
    let unnamed = changed(NEMO_GYM, &[("/verifier_metadata", json!({}))]);
    assert_eq!(server.post("/verify", &unnamed).refused(422), "invalid");
    let lying = json!({ "problem": "dgemm", "response": {}, "reward": 1.0, "correct": 1 });
    let found = server.post("/verify", &lying).json();
    assert_eq!(
        (&found["reward"], &found["correct"]),
        (&json!(-1.0), &json!(0))
    );
}

#[test]
fn openenv_takes_the_steps_of_an_episode() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    assert_eq!(server.get("/health").json()["status"], "healthy");
    let begun = server.ask("POST /reset", &[], RESET);
    assert_eq!(begun.status, 200, "{begun:?}");
    let begun = begun.json();
    assert_eq!(
        (&begun["reward"], &begun["done"]),
        (&json!(null), &json!(false))
    );
    let task = &begun["observation"];
    assert_eq!(task["episode_id"], "episode-001");
    assert!(
        task["prompt"].as_str().unwrap().contains("void dgemm("),
        "{task}"
    );
    let first = server.ask("POST /step", &[], STEP);
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    assert_eq!(
        (&first["reward"], &first["done"]),
        (&json!(0.5), &json!(false))
    );
    assert_eq!(first["observation"]["ratio"], 40.0);
    // The same request again is no other step.
    assert_eq!(server.ask("POST /step", &[], STEP).json(), first);
    assert_eq!(
        server.post("/step", &step("wrong", "step-1")).refused(409),
        "key-reused"
    );
    // A failure of the machine is no step, either.
    assert_eq!(
        server.post("/step", &step("jail", "step-2")).refused(503),
        "infrastructure"
    );
    let state = server.get("/state?episode_id=episode-001").json();
    assert_eq!(
        (&state["step_count"], &state["done"]),
        (&json!(1), &json!(false))
    );
    let last = server.post("/step", &step("wrong", "step-2")).json();
    assert_eq!(
        (&last["reward"], &last["done"]),
        (&json!(-0.1), &json!(true))
    );
    assert_eq!(last["observation"]["best_reward"], 0.5);
    assert_eq!(
        server
            .post("/step", &step("right 1", "step-3"))
            .refused(422),
        "invalid"
    );
    assert_eq!(
        *server.seen.lock().unwrap(),
        ["right 40\n", "jail\n", "wrong\n"]
    );
    // A client without an id gets one that nobody guesses.
    let begun = server.post("/reset", &json!({ "problem": "dgemm" })).json();
    let id = begun["observation"]["episode_id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    let body = json!({ "action": { "source": "right 40\n" }, "episode_id": id });
    assert_eq!(server.post("/step", &body).json()["done"], true);
}

#[test]
fn a_seed_of_openenv_draws_the_problem_of_a_client_that_names_none() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let drawn = |reset: &Value| {
        let reply = server.post("/reset", reset);
        assert_eq!(reply.status, 200, "{reset}: {reply:?}");
        let begun = reply.json();
        let task = &begun["observation"];
        let name = task["problem"].as_str().unwrap().to_owned();
        (name, task["episode_id"].clone())
    };
    let listed = server.get("/v1/problems").json();
    let mut kernels: Vec<&Value> = listed.as_array().unwrap().iter().collect();
    kernels.retain(|problem| problem["target"] == "kernel");
    let kernels: Vec<&str> = kernels
        .iter()
        .map(|problem| problem["problem"].as_str().unwrap())
        .collect();
    // Seeds in a row draw each kernel once, and a seed always the same one.
    let seeds = 0..=kernels.len();
    let mut names: Vec<String> = seeds
        .map(|seed| drawn(&json!({ "seed": seed })).0)
        .collect();
    assert_eq!(names.pop().as_ref(), names.first());
    assert_eq!(names, kernels);
    let (module, _) = drawn(&json!({ "seed": 7, "language": "python" }));
    assert!(module.starts_with("modules/"), "{module}");
    let (sized, _) = drawn(&json!({ "seed": 7, "workload": "n=256" }));
    let sized = server.get(&format!("/v1/problems/{sized}")).json();
    let names = column(sized["workloads"].as_array().unwrap(), "name");
    assert!(names.contains(&json!("n=256")), "{names:?}");
    // A step is about the drawn problem, also without a seed.
    let (name, id) = drawn(&json!({ "seed": null, "episode_id": null }));
    assert!(kernels.contains(&name.as_str()), "{name}");
    let body = json!({ "action": { "source": "right 40" }, "episode_id": id });
    let step = server.post("/step", &body).json();
    assert!(step["reward"].as_f64().unwrap() > 0.0, "{step}");
    let state = format!("/state?episode_id={}", id.as_str().unwrap());
    assert_eq!(server.get(&state).json()["problem"], json!(name));
}

#[test]
fn openenv_is_told_its_mistakes() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    for (reset, pointer) in [
        (json!({ "workload": "there is none" }), "/problem"),
        (json!({ "problem": "dgem" }), "/problem"),
        (json!({ "problem": "../problems/dgemm" }), "/problem"),
        (json!({ "problem": "dgemm", "workload": "n=7" }), "/problem"),
        (json!({ "problem": "dgemm", "max_steps": 0 }), "/max_steps"),
        (
            json!({ "problem": "dgemm", "max_steps": 1001 }),
            "/max_steps",
        ),
        (
            json!({ "problem": "dgemm", "episode_id": "" }),
            "/episode_id",
        ),
        (
            json!({ "problem": "dgemm", "episode_id": "x".repeat(256) }),
            "/episode_id",
        ),
    ] {
        let reply = server.post("/reset", &reset);
        assert_eq!(reply.refused(422), "invalid", "{reset}");
        assert_eq!(reply.json()["errors"][0]["pointer"], pointer, "{reset}");
    }
    let reply = server.post("/reset", &json!({ "problem": "dgemm", "steps": 3 }));
    assert_eq!(reply.refused(400), "malformed");
    server.ask("POST /reset", &[], RESET);
    let both = json!({ "source": "x", "answer": "y" });
    for (pointer, value, status) in [
        ("/action", both, 422),
        ("/action", json!({}), 422),
        ("/action", json!({ "reward": 1 }), 400),
        ("/timeout_s", json!(0), 422),
        ("/timeout_s", json!(-1.5), 422),
        ("/request_id", json!("x".repeat(256)), 422),
        ("/episode_id", json!(null), 422),
        ("/episode_id", json!("episode-002"), 404),
    ] {
        let request = changed(STEP, &[(pointer, value)]);
        let reply = server.post("/step", &request);
        assert_eq!(reply.status, status, "{request}: {reply:?}");
    }
    assert!(server.seen.lock().unwrap().is_empty());
    assert_eq!(server.get("/state").refused(400), "malformed");
    // No mistake took a step.
    let state = server.get("/state?episode_id=episode-001").json();
    assert_eq!(state["step_count"], 0);
}

#[test]
fn a_step_that_takes_too_long_goes_on_and_can_be_asked_for_again() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    server.ask("POST /reset", &[], RESET);
    let short = changed(STEP, &[("/timeout_s", json!(0.01))]);
    let late = server.post("/step", &short);
    assert_eq!(late.refused(503), "unavailable");
    assert_eq!(late.header("retry-after"), Some("1"));
    let again = server.send("POST /step", &[], STEP);
    open.send(()).unwrap();
    let reply = Reply::read(again).json();
    assert_eq!(
        (&reply["reward"], &reply["done"]),
        (&json!(0.5), &json!(false))
    );
    assert_eq!(*server.seen.lock().unwrap(), ["right 40\n"]);
}

#[test]
fn openenv_describes_what_it_takes() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let schema = server.get("/schema").json();
    let named = |of: &str| {
        let properties = schema[of]["properties"].as_object().unwrap();
        properties.keys().cloned().collect::<BTreeSet<_>>()
    };
    let names = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(named("action"), names(&["answer", "metadata", "source"]));
    assert!(named("observation").contains("ratio"));
    assert!(named("state").is_superset(&names(&["episode_id", "step_count"])));
}
