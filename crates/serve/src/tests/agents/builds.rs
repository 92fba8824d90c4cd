//! Questions about builds.

use futures::FutureExt;

use super::*;

fn of_build(source: &str, what: &str) -> Value {
    json!({ "problem": "dgemm", "source": source, "what": what })
}

/// An agent whose evaluation of `right 1`, with the id 100, has the machine until the sender sends or is dropped.
fn evaluating(place: &Path) -> (Agent, Sender<()>) {
    let (open, gate) = channel();
    let options = Options {
        gate: Some(gate),
        ..Options::default()
    };
    let mut agent = Agent::start(place, options);
    agent.begin(100, "right 1");
    let service = Arc::clone(&agent.server.service);
    wait_until(|| service.turn().now_or_never().is_none());
    (agent, open)
}

#[test]
fn a_build_is_explained_or_the_error_has_its_reason() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(place.path(), Options::default());
    for (what, said) in [
        ("remarks", "Remarks of int x;"),
        ("assembly", "Assembly of int x;"),
    ] {
        let explained = agent.result("explain_build", of_build("int x;", what));
        assert_eq!(explained["text"], said);
        assert_eq!(explained["reason"], json!(null));
        let summary = explained["summary"].as_str().unwrap();
        assert!(!summary.contains("int x"), "{summary}");
    }
    for (source, reason) in [("broken", "compile_error"), ("jail", "jail")] {
        let params = json!({ "name": "explain_build", "arguments": of_build(source, "remarks") });
        let answer = agent.ask("tools/call", params);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let failed = &answer["result"]["structuredContent"];
        assert_eq!(failed["reason"], reason, "{answer}");
        assert_eq!(failed["diagnostics"], source, "{answer}");
        assert_eq!(failed["text"], json!(null), "{answer}");
        let why = agent.result("explain_refusal", json!({ "reason": failed["reason"] }));
        assert!(why["try_next"].is_string(), "{why}");
    }
    agent.end();
}

#[test]
fn a_question_counts_as_an_evaluation_unless_the_machine_failed() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        limits: Limits {
            evaluations: Some(3),
            time: Some(Duration::from_secs(60)),
        },
        ..Options::default()
    };
    let mut agent = Agent::start(place.path(), options);
    for (source, left) in [("int x;", 2), ("jail", 2), ("broken", 1)] {
        let params = json!({ "name": "explain_build", "arguments": of_build(source, "remarks") });
        let explained = agent.ask("tools/call", params)["result"]["structuredContent"].clone();
        assert_eq!(explained["budget"]["evaluations"], left, "{explained}");
        assert!(explained["budget"]["seconds"].as_f64().unwrap() > 0.0);
    }
    let found = agent.result("evaluate", right(1));
    assert_eq!(found["budget"]["evaluations"], 0);
    let words = agent.error("explain_build", of_build("int y;", "remarks"));
    assert!(words.contains("3 of 3 evaluations"), "{words}");
    let asked = agent.server.seen.lock().unwrap().clone();
    assert!(!asked.contains(&"Remarks int y;".to_owned()), "{asked:?}");
    agent.end();
}

#[test]
fn no_build_is_explained_beside_an_evaluation() {
    let place = tempfile::tempdir().unwrap();
    let (mut agent, open) = evaluating(place.path());
    for id in 101..104 {
        let source = format!("question {id}");
        let params = json!({ "name": "explain_build", "arguments": of_build(&source, "remarks") });
        agent
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }
    // These calls take the same way to the catalogue, and do not wait for the machine.
    for id in 200..220 {
        let params = json!({ "name": "problem", "arguments": { "problem": "dgemm" } });
        agent
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        assert_eq!(agent.response()["id"], id);
    }
    assert!(agent.server.seen.lock().unwrap().is_empty());
    open.send(()).unwrap();
    let ids: BTreeSet<u64> = (0..4)
        .map(|_| agent.response()["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, (100..104).collect());
    assert_eq!(agent.server.seen.lock().unwrap()[0], "right 1");
    agent.end();
}

#[test]
fn a_question_that_waits_ends_with_the_input() {
    let place = tempfile::tempdir().unwrap();
    let (mut agent, open) = evaluating(place.path());
    let params = json!({ "name": "explain_build", "arguments": of_build("x", "remarks") });
    agent.send(&json!({ "jsonrpc": "2.0", "id": 101, "method": "tools/call", "params": params }));
    agent.write.shutdown(Shutdown::Write).unwrap();
    let answers = [agent.response(), agent.response()];
    let answer = answers.iter().find(|answer| answer["id"] == 101).unwrap();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(agent.server.seen.lock().unwrap().is_empty());
    // The evaluation ends, and with it the service.
    drop(open);
}

#[test]
fn builds_are_explained_over_http_within_the_same_bounds() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let server = Server::start(place.path(), options);
    let send = |id: u64, source: &str| {
        let params = json!({ "name": "explain_build", "arguments": of_build(source, "assembly") });
        let message =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        server.send("POST /mcp", &[], &message.to_string())
    };
    let held = call(1, "evaluate", right(1)).to_string();
    let evaluation = server.send("POST /mcp", &["Accept: text/event-stream"], &held);
    wait_until(|| server.service.turn().now_or_never().is_none());
    let asked: Vec<_> = (2..5).map(|id| send(id, &format!("int x{id};"))).collect();
    // These requests take the same way to the catalogue, and do not wait for the machine.
    let described = call(9, "problem", json!({ "problem": "dgemm" })).to_string();
    for _ in 0..20 {
        assert_eq!(server.ask("POST /mcp", &[], &described).status, 200);
    }
    assert!(server.seen.lock().unwrap().is_empty());
    open.send(()).unwrap();
    for (id, stream) in (2..5).zip(asked) {
        let answer = Reply::read(stream).json();
        assert_eq!(answer["id"], id, "{answer}");
        let text = format!("Assembly of int x{id};");
        assert_eq!(answer["result"]["structuredContent"]["text"], text);
    }
    let evaluated = Reply::read(evaluation);
    assert!(evaluated.body.contains("structuredContent"));
    assert_eq!(server.seen.lock().unwrap()[0], "right 1");
    let broken = Reply::read(send(6, "broken")).json();
    assert_eq!(broken["result"]["isError"], true, "{broken}");
    let reason = &broken["result"]["structuredContent"]["reason"];
    assert_eq!(*reason, "compile_error");
    // A service with a token explains nothing without it.
    let other = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some(TOKEN),
        ..Options::default()
    };
    let guarded = Server::start(other.path(), options);
    let question = call(1, "explain_build", of_build("int x;", "remarks")).to_string();
    assert_eq!(
        guarded.ask("POST /mcp", &[], &question).refused(401),
        "unauthorized"
    );
    assert!(guarded.seen.lock().unwrap().is_empty());
}
