//! Modules of PyTorch.

use super::*;

const MODULE: &str = "modules/softmax";

#[test]
fn an_agent_works_on_a_module_with_the_same_tools() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(place.path(), Options::default());
    let all = agent.result("problems", json!({ "suite": "level_1" }));
    let names = column(all["problems"].as_array().unwrap(), "problem");
    assert!(names.contains(&json!(MODULE)), "{names:?}");
    let described = agent.result("problem", json!({ "problem": MODULE }));
    assert_eq!(described["target"], "module");
    assert_eq!(described["problem"], MODULE);

    let found = agent.result(
        "evaluate",
        json!({ "problem": MODULE, "source": "right 3" }),
    );
    let summary = found["summary"].as_str().unwrap();
    let words = "3.000 times as fast as the faster of eager PyTorch and TorchInductor";
    assert!(summary.contains(words), "{summary}");
    let programs = json!([{ "source": "right 4" }, { "source": "right 8" }]);
    let ranked = agent.result(
        "compare",
        json!({ "problem": MODULE, "programs": programs }),
    );
    let ranks = column(ranked["programs"].as_array().unwrap(), "rank");
    assert_eq!(ranks, [2, 1]);
    let best = agent.result("best_programs", json!({ "problem": MODULE, "most": 1 }));
    assert_eq!(best["programs"][0]["source"], "right 8", "{best}");
    assert_eq!(best["programs"][0]["language"], "python");
    let summary = best["summary"].as_str().unwrap();
    assert!(summary.contains("TorchInductor"), "{summary}");

    let found = agent.result("evaluate", json!({ "problem": MODULE, "source": "gpu" }));
    assert_eq!(found["outcome"], "unknown", "{found}");
    assert_eq!(found["reward"], json!(null));
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("asking again does not help"), "{summary}");
    let why = agent.result("explain_refusal", json!({ "reason": found["reason"] }));
    assert_eq!(why["fault_of"], "unknown");
    agent.end();
}

#[test]
fn a_module_is_profiled_and_its_times_are_no_measurement() {
    let place = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(place.path(), Options::default());
    let ask = json!({ "problem": MODULE, "source": "right 1", "what": "profile" });
    let profiled = agent.result("explain_build", ask);
    assert_eq!(profiled["text"], "Profile of right 1", "{profiled}");
    assert_eq!(profiled["reason"], json!(null));
    let summary = profiled["summary"].as_str().unwrap();
    assert!(summary.contains("no measurement"), "{summary}");
    agent.end();
}

#[test]
fn tools_for_kernels_say_so_and_cost_nothing() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        limits: Limits {
            evaluations: Some(2),
            time: None,
        },
        ..Options::default()
    };
    let mut agent = Agent::start(place.path(), options);
    for (tool, arguments, said) in [
        ("roofline", json!({ "problem": MODULE }), "has no roof"),
        (
            "explain_build",
            json!({ "problem": MODULE, "source": "right 1", "what": "throughput" }),
            "ask for its profile",
        ),
        (
            "explain_build",
            json!({ "problem": "dgemm", "source": "right 1", "what": "profile" }),
            "kernels have no profile",
        ),
        (
            "evaluate",
            json!({ "problem": MODULE, "source": "right 1", "language": "c" }),
            "program 0, `language`",
        ),
        (
            "explain_build",
            json!({ "problem": "dgemm", "source": "right 1", "what": "throughput", "language": "python" }),
            "`language` says Python",
        ),
    ] {
        let words = agent.error(tool, arguments);
        assert!(words.contains(said), "{tool}: {words}");
    }
    assert!(agent.server.seen.lock().unwrap().is_empty());
    let found = agent.result(
        "evaluate",
        json!({ "problem": MODULE, "source": "right 1" }),
    );
    assert_eq!(found["budget"]["evaluations"], 1, "{found}");
    agent.end();
}

#[test]
fn a_missing_pytorch_is_an_error_with_the_way_to_install_it() {
    let place = tempfile::tempdir().unwrap();
    let options = Options {
        missing: Some("no PyTorch; run scripts/python.sh"),
        ..Options::default()
    };
    let mut agent = Agent::start(place.path(), options);
    let words = agent.error(
        "evaluate",
        json!({ "problem": MODULE, "source": "right 1" }),
    );
    assert!(words.contains("run scripts/python.sh"), "{words}");
    let found = agent.result("evaluate", right(4));
    assert_eq!(found["outcome"], "measured");
    agent.end();
}
