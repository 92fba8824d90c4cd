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
