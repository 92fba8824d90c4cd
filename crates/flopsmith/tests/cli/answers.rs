//! What is answered at once: wrong usage, the soundness of a problem, the state of this machine.

use crate::{last_object, run};

#[test]
fn wrong_usage_exits_with_2_and_says_what_to_try() {
    let says = |arguments: &[&str], part: &str| {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{part:?} in {text}");
    };
    says(
        &["bench", "no-such-file.c", "--problem", "dgemm"],
        "cannot read no-such-file.c",
    );
    says(
        &["bench", "Cargo.toml", "--problem", "dgem"],
        "did you mean `dgemm`",
    );
    says(&["train", "no-such.toml"], "examples/dgemm.toml");
    says(&["search", "--problem", "dgemm", "--budget", "5x"], "10m");
    says(
        &["search", "--problem", "dgem", "--budget", "10"],
        "--budget 10 is 10 seconds; 10m is 10 minutes",
    );
    let set = |item: &str, part: &str| {
        says(&["search", "--problem", "dgemm", "--set", item], part);
    };
    set("tasks=many", "`tasks` takes a whole number");
    set("threads=100000", "`threads` is 100000");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    std::fs::write(&config, "tasks = 4\n[generator]\nmax_token = 3\n").unwrap();
    says(&["train", config.to_str().unwrap()], "line 3");
    std::fs::write(&config, "tasks = = 4\n").unwrap();
    says(&["train", config.to_str().unwrap()], "line 1");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    says(
        &[
            "search",
            "--problem",
            "dgemm",
            "--runs",
            file.to_str().unwrap(),
        ],
        "--runs",
    );
}

#[test]
fn lists_prompts_and_configurations_are_there_for_programs_too() {
    let object = |arguments: &[&str]| {
        let output = run(&[arguments, &["--format", "json"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        last_object(&output)
    };
    let list = object(&["problem", "list"]);
    let listed = list.as_array().unwrap().iter();
    let dgemm = listed.filter(|p| p["problem"] == "dgemm").count();
    assert_eq!(dgemm, 1, "{list}");
    assert!(
        list[0]["title"].is_string() && list[0]["error"].is_null(),
        "{list}"
    );
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["problem"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    // What the starter model was never shown is not asked for unless somebody says so.
    let prompt = object(&["problem", "prompt", "dgemm"]);
    let permitted = prompt["permitted"].as_array().unwrap();
    assert!(permitted.contains(&"simd".into()) && !permitted.contains(&"openmp".into()));
    let prompt = object(&["problem", "prompt", "dgemm", "--permit", "simd"]);
    assert_eq!(prompt["permitted"], serde_json::json!(["simd"]));
    assert!(
        prompt["prompt"].as_str().unwrap().contains("void dgemm("),
        "{prompt}"
    );
    let config = object(&["config", "check", "examples/dgemm.toml"]);
    assert_eq!(config["problem"], "dgemm");
    assert_eq!(config["generator"]["model"], "models/starter");
    let config = object(&[
        "config",
        "check",
        "examples/dgemm.toml",
        "--set",
        "group_size=6",
    ]);
    assert_eq!(config["group_size"], 6);
}

#[test]
fn the_shipped_problem_is_sound() {
    let output = run(&["problem", "check", "dgemm", "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(object["sound"], true, "{object}");
}

#[test]
fn doctor_finds_what_a_run_needs() {
    let output = run(&["doctor", "--quick", "--format", "json"]);
    let object = last_object(&output);
    assert_eq!(object["ready"], true, "{object}");
}
