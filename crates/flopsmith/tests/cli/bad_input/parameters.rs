//! Programs to begin a search with, and files of their parameters, that contradict themselves or each other.

use std::fs;

use super::{USAGE, contains, flopsmith, run};

const KERNEL: &str =
    "void dgemm(int n, const double *A, const double *B, double *C) { n += TILE; }\n";

/// A file of the parameter `TILE` with these values and more, and with these conditions.
fn file(values: &str, more: &str, conditions: &str) -> String {
    format!(
        r#"{{"ConfigurationSpace": {{"TuningParameters": [{{"Name": "TILE", "Type": "int", "Values": "{values}"{more}}}],
            "Conditions": [{conditions}]}}}}"#
    )
}

#[test]
fn a_contradiction_is_named_before_a_run_is_made() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let (kernel, parameters) = (place.path().join("mine.c"), place.path().join("t1.json"));
    let condition = |text: &str| format!(r#"{{"Expression": "{text}", "Parameters": ["TILE"]}}"#);
    let sound = file("[1, 2]", "", "");
    let another = KERNEL.replace("dgemm", "dsyrk");
    for (source, text, part) in [
        (
            KERNEL,
            file("[]", "", ""),
            "t1.json: the parameter `TILE` has no values",
        ),
        (KERNEL, file("[1, 2, 1]", "", ""), "has the value 1 twice"),
        (
            KERNEL,
            file("[1]", r#", "Default": 2"#, ""),
            "the default 2",
        ),
        (
            KERNEL,
            file("[1]", "", &condition("TIL > 0")),
            "did you mean `TILE`?",
        ),
        (
            KERNEL,
            file("[1]", "", &condition("TILE > 1")),
            "no configuration meets all conditions",
        ),
        (KERNEL, "[]".to_owned(), "t1.json: the file is no object"),
        (
            another.as_str(),
            sound.clone(),
            "mine.c: it defines no function `dgemm`",
        ),
        (
            "void dgemm(int n, float *C) { n += TILE; }",
            sound.clone(),
            "mine.c: it defines `dgemm(int n, float *C)`, and problem dgemm calls `void dgemm(int n, ",
        ),
        (
            "void dgemm(int n) {}",
            sound.clone(),
            "mine.c: it does not use the parameter `TILE`",
        ),
    ] {
        fs::write(&kernel, source).unwrap();
        fs::write(&parameters, &text).unwrap();
        let mut command = flopsmith();
        command
            .args(["search", "--problem", "dgemm", "--runs"])
            .arg(&runs);
        command.arg("--start").arg(&kernel);
        let output = command
            .arg("--parameters")
            .arg(&parameters)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{part}: {said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(output.stdout.is_empty(), "{part}");
        assert!(!runs.exists(), "no run was made: {part}");
    }
}

#[test]
fn a_program_of_another_problem_begins_no_search() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let kernel = place.path().join("mine.c");
    for (source, part) in [
        (
            "void dsyrk(int n) {}",
            "mine.c: it defines no function `dgemm`",
        ),
        (
            "void dgemm(int n, float *C) {}",
            "mine.c: it defines `dgemm(int n, float *C)`, and problem dgemm calls `void dgemm(int n, ",
        ),
    ] {
        fs::write(&kernel, source).unwrap();
        let mut command = flopsmith();
        command
            .args(["search", "--problem", "dgemm", "--runs"])
            .arg(&runs);
        let output = command.arg("--start").arg(&kernel).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{part}: {said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(output.stdout.is_empty(), "{part}");
        assert!(!runs.exists(), "no run was made: {part}");
    }
}

#[test]
fn flags_that_belong_together_are_given_together() {
    let place = tempfile::tempdir().unwrap();
    let kernel = place.path().join("mine.c");
    fs::write(&kernel, KERNEL).unwrap();
    let fortran = place.path().join("mine.f90");
    fs::write(&fortran, "").unwrap();
    let kernel = kernel.to_str().unwrap();
    for (flags, part) in [
        (vec!["--parameters", "t1.json"], "--start"),
        (vec!["--max-source", "200000"], "--start"),
        (
            vec!["--start", kernel, "--max-source", "12"],
            "--max-source",
        ),
        (vec!["--start", kernel, "--staged"], "--staged"),
        (vec!["--resume", "--cold"], "--cold"),
        (
            vec!["--start", kernel, "--results", "t4.json"],
            "give --parameters",
        ),
        (
            vec!["--start", "no-such-file.c"],
            "cannot read no-such-file.c",
        ),
        (
            vec!["--start", kernel, "--parameters", "no-such.json"],
            "cannot read no-such.json",
        ),
        (vec!["--start", fortran.to_str().unwrap()], "is in Fortran"),
    ] {
        let runs = place.path().join("runs");
        let mut command = flopsmith();
        command
            .args(["search", "--problem", "dgemm", "--runs"])
            .arg(&runs);
        let output = command.args(&flags).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(USAGE), "{flags:?}: {said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(!runs.exists(), "no run was made: {flags:?}");
    }
}

#[test]
fn a_program_that_does_not_compile_is_named_with_the_first_error_before_a_run_is_made() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let file = place.path().join("mine.c");
    let broken = KERNEL.replace("n += TILE", "int x = ; return y");
    fs::write(&file, broken).unwrap();
    let mut command = flopsmith();
    command
        .args(["search", "--problem", "dgemm", "--runs"])
        .arg(&runs)
        .arg("--start")
        .arg(&file)
        // This test does not concern the jail's protection.
        .args(["--set", "evaluate.allow_weaker_jail=true"]);
    let ended = run(command);
    let name = file.to_str().unwrap();
    contains(
        ended.one_error(USAGE),
        &[
            &format!("{name} does not compile: {name}:1:"),
            "error:",
            "leave --start out",
        ],
    );
    assert!(!ended.err.contains("start   "), "{}", ended.err);
    assert!(!runs.exists(), "no run was made");
}
