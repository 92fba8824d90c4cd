//! Shares and quotas of tokens.

use super::*;

const TWO: &str = "0123456789abcdef 3/hour\nfedcba9876543210";
const FIRST: &str = "Authorization: Bearer 0123456789abcdef";
const SECOND: &str = "Authorization: Bearer fedcba9876543210";

fn with_tokens() -> Options {
    Options {
        token: Some(TWO),
        ..Options::default()
    }
}

#[test]
fn a_job_of_another_token_does_not_spare_a_quota_and_failures_of_the_machine_do_not_count() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), with_tokens());
    let slime = json!({ "prompt": "", "response": "```c\nright 40\n```", "label": null });
    // The second request of a token is the same one.
    for token in [SECOND, FIRST, FIRST] {
        let url = "POST /v1/slime?problem=dgemm&purpose=screen";
        let reply = server.ask(url, &[token], &slime.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let evaluate = |sources: &[&str]| {
        let body = programs(sources).to_string();
        server.ask("POST /v1/evaluate", &[FIRST], &body)
    };
    let three = evaluate(&["right 40", "right 41", "wrong"]);
    assert_eq!(three.refused(429), "quota");
    for _ in 0..2 {
        let failed = evaluate(&["jail", "jail"]);
        assert_eq!(failed.status, 200, "{failed:?}");
    }
    assert_eq!(evaluate(&["right 40", "wrong"]).status, 200);
    assert_eq!(evaluate(&["right 40"]).refused(429), "quota");
}

#[test]
fn failures_of_the_machine_do_not_count_after_a_restart() {
    // The quota of the token may change with the restart.
    const MORE: &str = "0123456789abcdef 4/hour\nfedcba9876543210";
    for (tokens, left) in [(TWO, 2), (MORE, 3)] {
        let place = tempfile::tempdir().unwrap();
        let (open, mut options) = gate();
        options.token = Some(TWO);
        let mut server = Server::start(place.path(), options);
        let three = programs(&["jail", "wrong", "jail"]).to_string();
        let begun = server.ask("POST /v1/jobs", &[FIRST], &three);
        assert_eq!(begun.status, 202, "{begun:?}");
        let job = begun.header("location").unwrap().to_owned();
        server.service.stopping().cancel();
        drop(open);
        server.stop();
        drop(server);
        let options = Options {
            token: Some(tokens),
            ..Options::default()
        };
        let server = Server::start(place.path(), options);
        let done = server.ask(&format!("GET {job}?wait=25"), &[FIRST], "");
        assert_eq!(done.status, 200, "{done:?}");
        let outcomes = ["infrastructure", "rejected", "infrastructure"];
        let results = done.json()["results"].clone();
        assert_eq!(column(results.as_array().unwrap(), "outcome"), outcomes);
        assert_left(&server, left);
    }
}

/// Checks that the first token of a server may send so many candidates more.
fn assert_left(server: &Server, left: usize) {
    let evaluate = |count: usize| {
        let body = programs(&vec!["right 40"; count]).to_string();
        server.ask("POST /v1/evaluate", &[FIRST], &body)
    };
    assert_eq!(evaluate(left + 1).refused(429), "quota");
    assert_eq!(evaluate(left).status, 200);
    assert_eq!(evaluate(1).refused(429), "quota");
}

/// A server whose evaluations wait at a gate, with a job of the first token, and the job's path.
fn waiting(place: &Path, sources: &[&str]) -> (Server, Sender<()>, String) {
    let (open, mut options) = gate();
    options.token = Some(TWO);
    let server = Server::start(place, options);
    let begun = server.ask("POST /v1/jobs", &[FIRST], &programs(sources).to_string());
    assert_eq!(begun.status, 202, "{begun:?}");
    let job = begun.header("location").unwrap().to_owned();
    (server, open, job)
}

/// Stops a server without another answer.
fn stop(mut server: Server, open: Sender<()>) {
    server.service.stopping().cancel();
    drop(open);
    server.stop();
}

#[test]
fn a_process_that_is_killed_around_an_answer_gives_each_candidate_back_once() {
    for killed_before_the_refund in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let (server, open, job) = waiting(place.path(), &["jail", "wrong", "jail"]);
        let quotas = std::fs::read_dir(place.path().join("quotas")).unwrap();
        let counted: Vec<(PathBuf, Vec<u8>)> = quotas
            .map(|file| file.unwrap().path())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
        open.send(()).unwrap();
        // Two candidates have the first program.
        let done = || server.ask(&format!("GET {job}"), &[FIRST], "").json()["done"].clone();
        wait_until(|| done() == 2);
        stop(server, open);
        if killed_before_the_refund {
            let (path, before) = &counted[0];
            assert_ne!(std::fs::read(path).unwrap(), *before);
            std::fs::write(path, before).unwrap();
        }
        // Two processes read the same answers.
        let (open, mut options) = gate();
        options.token = Some(TWO);
        let server = Server::start(place.path(), options);
        stop(server, open);
        let server = Server::start(place.path(), with_tokens());
        let done = server.ask(&format!("GET {job}?wait=25"), &[FIRST], "");
        assert_eq!(done.json()["done"], 3, "{done:?}");
        assert_left(&server, 2);
    }
}

#[test]
fn a_process_that_is_killed_before_a_job_is_in_the_folder_gives_its_candidates_back() {
    let place = tempfile::tempdir().unwrap();
    let (server, open, job) = waiting(place.path(), &["wrong", "jail"]);
    stop(server, open);
    let id = job.rsplit('/').next().unwrap();
    std::fs::remove_dir_all(place.path().join("jobs/open").join(id)).unwrap();
    let server = Server::start(place.path(), with_tokens());
    assert_left(&server, 3);
}

#[test]
fn a_token_sends_as_many_candidates_as_its_quota_also_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let mut server = Server::start(place.path(), with_tokens());
    let two = programs(&["right 40", "wrong"]).to_string();
    let key = "Idempotency-Key: k";
    for _ in 0..2 {
        // The second request is the same one.
        let reply = server.ask("POST /v1/evaluate", &[FIRST, key], &two);
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let refused = server.ask("POST /v1/evaluate", &[FIRST], &two);
    assert_eq!(refused.refused(429), "quota");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("has sent 2"), "{detail}");
    let one = json!({ "prompt": "", "response": "```c\nright 40\n```", "label": null });
    let one = server.ask(
        "POST /v1/slime?problem=dgemm&purpose=screen",
        &[FIRST],
        &one.to_string(),
    );
    assert_eq!(one.status, 200, "{one:?}");
    server.stop();
    drop(server);
    let server = Server::start(place.path(), with_tokens());
    let one = programs(&["right 40"]).to_string();
    let refused = server.ask("POST /v1/jobs", &[FIRST], &one);
    assert_eq!(refused.refused(429), "quota");
    let action = json!({ "problem": "dgemm" }).to_string();
    let begun = server.ask("POST /reset", &[FIRST], &action).json();
    let id = &begun["observation"]["episode_id"];
    let step = json!({ "episode_id": id, "action": { "source": "wrong" } }).to_string();
    let refused = server.ask("POST /step", &[FIRST], &step);
    assert_eq!(refused.refused(429), "quota");
    let call = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": { "name": "evaluate", "arguments": { "problem": "dgemm", "source": "wrong" } },
    });
    let told = server.ask("POST /mcp", &[FIRST], &call.to_string());
    assert!(told.body.contains("3 candidates an hour"), "{told:?}");
    let other = server.ask("POST /v1/evaluate", &[SECOND], &two);
    assert_eq!(other.status, 200, "{other:?}");
}
