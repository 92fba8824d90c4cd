//! Requests that name a program to compare their candidates with.

use super::*;

fn against(sources: &[&str], against: Value) -> Value {
    let mut body = programs(sources);
    body["against"] = against;
    body
}

/// Ratios to the program of `against`, in thousandths; none where there is no ratio.
fn ratios(answers: &[Value]) -> Vec<Option<f64>> {
    let all = answers.iter().map(|answer| {
        let ratio = answer["ratio_to_against"].as_f64();
        let [low, high] = ["low", "high"].map(|end| answer["interval_to_against"][end].as_f64());
        assert!(
            low <= ratio && ratio <= high && low.is_some() == ratio.is_some(),
            "{answer}"
        );
        ratio.map(|ratio| (1000.0 * ratio).round())
    });
    all.collect()
}

/// The mistake of a request that is refused for one.
fn mistake(reply: &Reply, pointer: &str) -> String {
    assert_eq!(reply.refused(422), "invalid", "{reply:?}");
    let errors = reply.json()["errors"].clone();
    assert_eq!(column(errors.as_array().unwrap(), "pointer"), [pointer]);
    errors[0]["detail"].as_str().unwrap().to_owned()
}

#[test]
fn candidates_are_compared_with_a_program_that_is_measured_once() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let own = json!({ "source": "right 20" });
    let body = against(&["right 40", "wrong", "right 10"], own.clone());
    let answers = server.post("/v1/evaluate", &body).lines();
    assert_eq!(ratios(&answers), [Some(2000.0), None, Some(500.0)]);
    // These refer to the plain reference, as always.
    assert_eq!(
        column(&answers, "ratio"),
        [json!(40.0), json!(null), json!(10.0)]
    );
    assert_eq!(
        column(&answers, "reward"),
        [json!(0.5), json!(-0.1), json!(0.125)]
    );
    let seen = || std::mem::take(&mut *server.seen.lock().unwrap());
    assert_eq!(seen(), ["right 20", "right 40", "wrong", "right 10"]);
    let body = against(&["right 30"], own);
    let answers = server.post("/v1/evaluate", &body).lines();
    assert_eq!(ratios(&answers), [Some(1500.0)]);
    assert_eq!(seen(), ["right 30"]);
    let other = json!({ "source": "right 60", "language": "c" });
    let begun = server.post("/v1/jobs", &against(&["right 30"], other));
    let path = format!("{}?wait=25", begun.header("location").unwrap());
    let state = server.get(&path).json();
    assert_eq!(ratios(state["results"].as_array().unwrap()), [Some(500.0)]);
    for reference in [json!("reference"), json!("best")] {
        let told = reference == "best";
        let answers = server.post("/v1/evaluate", &against(&["right 20"], reference));
        assert_eq!(ratios(&answers.lines())[0].is_some(), told);
    }
    let mut module = against(&["right 4"], json!({ "source": "right 2" }));
    module["candidates"][0]["problem"] = json!("modules/softmax");
    let answers = server.post("/v1/evaluate", &module).lines();
    assert_eq!(ratios(&answers), [Some(2000.0)]);
}

#[test]
fn the_best_program_is_the_fastest_that_was_measured_in_the_same_circumstances() {
    let place = tempfile::tempdir().unwrap();
    let body = against(&["right 80"], json!("best"));
    {
        let server = Server::start(place.path(), Options::default());
        let said = mistake(&server.post("/v1/evaluate", &body), "/against");
        assert!(said.contains("`dgemm`"), "{said}");
        assert!(server.seen.lock().unwrap().is_empty());
        for source in ["right 40", "right 20"] {
            let reply = server.post("/v1/evaluate", &programs(&[source]));
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        let answers = server.post("/v1/evaluate", &body).lines();
        assert_eq!(ratios(&answers), [Some(2000.0)]);
    }
    let options = Options {
        machine: "elsewhere",
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    mistake(&server.post("/v1/evaluate", &body), "/against");
}

#[test]
fn a_program_that_cannot_be_compared_with_is_a_refusal_and_costs_no_candidate() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        token: Some("0123456789abcdef 4/hour"),
        ..Options::default()
    };
    let server = Server::start(place.path(), options);
    let evaluate = |body: &Value| {
        let token = "Authorization: Bearer 0123456789abcdef";
        server.ask("POST /v1/evaluate", &[token], &body.to_string())
    };
    let own = |source: &str| json!({ "source": source });
    for _ in 0..2 {
        let refused = evaluate(&against(&["right 40"], own("wrong")));
        let said = mistake(&refused, "/against");
        assert!(said.contains("wrong_result"), "{said}");
    }
    let broken = evaluate(&against(&["right 40"], own("broken // here")));
    let said = mistake(&broken, "/against");
    assert!(
        said.contains("compile_error") && said.contains("// here"),
        "{said}"
    );
    let said = mistake(&evaluate(&against(&["right 40"], own("gpu"))), "/against");
    assert!(said.contains("needs a GPU"), "{said}");
    let failed = evaluate(&against(&["right 40"], own("jail")));
    assert_eq!(failed.refused(503), "infrastructure");
    assert_eq!(failed.json()["job"], Value::Null);
    let named = evaluate(&against(&["right 40"], json!("fastest")));
    assert_eq!(named.refused(400), "malformed");
    let other = json!({ "source": "right 20", "language": "python" });
    let other = evaluate(&against(&["right 40"], other));
    mistake(&other, "/against/language");
    let mut two = against(&["right 40", "right 41"], own("right 20"));
    two["candidates"][1]["workloads"] = json!(["n=256"]);
    let said = mistake(&evaluate(&two), "/against");
    assert!(said.contains("a request for each"), "{said}");
    let seen = || std::mem::take(&mut *server.seen.lock().unwrap());
    assert_eq!(seen(), ["wrong", "broken // here", "gpu", "jail"]);
    // `unknown` counts as for any candidate. With the right program, two more are left.
    let many = evaluate(&against(&["right 40"; 3], own("right 20")));
    assert_eq!(many.refused(429), "quota");
    assert!(seen().is_empty());
    let two = evaluate(&against(&["right 40", "right 41"], own("right 20")));
    assert_eq!(ratios(&two.lines()), [Some(2000.0), Some(2050.0)]);
    assert_eq!(evaluate(&programs(&["right 40"])).refused(429), "quota");
}

#[test]
fn a_dry_run_counts_the_program_that_would_be_measured_first() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(place.path(), Options::default());
    let own = json!({ "source": "right 20" });
    let mut body = against(&["right 40", "right 40"], own);
    body["dry_run"] = json!(true);
    let foretold = server.post("/v1/evaluate", &body).json();
    assert_eq!(
        (&foretold["candidates"], &foretold["evaluations"]),
        (&json!(2), &json!(2))
    );
    body["against"] = json!("best");
    mistake(&server.post("/v1/evaluate", &body), "/against");
    assert!(server.seen.lock().unwrap().is_empty());
}

#[test]
fn a_key_belongs_to_a_comparison_and_a_restart_goes_on_with_it() {
    let place = tempfile::tempdir().unwrap();
    let (open, options) = gate();
    let mut server = Server::start(place.path(), options);
    let key = ["Idempotency-Key: one"];
    let body = |other: &str| against(&["right 40"], json!({ "source": other })).to_string();
    open.send(()).unwrap();
    // A refused request leaves its key to others.
    let refused = server.ask("POST /v1/jobs", &key, &body("wrong"));
    mistake(&refused, "/against");
    open.send(()).unwrap();
    let begun = server.ask("POST /v1/jobs", &key, &body("right 20"));
    assert_eq!(begun.status, 202, "{begun:?}");
    let job = begun.header("location").unwrap().to_owned();
    let other = server.ask("POST /v1/jobs", &key, &body("right 10"));
    assert_eq!(other.refused(409), "key-reused");
    server.service.stopping().cancel();
    drop(open);
    server.stop();
    drop(server);

    let server = Server::start(place.path(), Options::default());
    let state = server.get(&format!("{job}?wait=25")).json();
    assert_eq!(ratios(state["results"].as_array().unwrap()), [Some(2000.0)]);
    let again = server.ask("POST /v1/evaluate", &key, &body("right 20"));
    assert_eq!(again.header("location"), Some(job.as_str()));
    assert_eq!(again.lines(), *state["results"].as_array().unwrap());
    assert_eq!(*server.seen.lock().unwrap(), ["right 40"]);
}
