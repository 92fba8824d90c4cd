//! Output paths that cannot take files: every command ends with the same exit code before it does anything.

use super::*;

/// Every command with an output path, with the arguments up to that path.
fn commands(run: &str) -> Vec<Vec<&str>> {
    let bench = ["bench", "problems/dgemm/reference.c", "--problem", "dgemm"];
    let search = ["search", "--problem", "dgemm", "--budget", "5m"];
    let with = |begin: &[&'static str], flag: &'static str| [begin, &[flag][..]].concat();
    let mut all = vec![
        with(&bench, "--raw"),
        with(&bench, "--keep"),
        with(&search, "--runs"),
        with(&search, "--output"),
        vec!["report", run, "--output"],
        vec!["problem", "new"],
    ];
    if cfg!(feature = "torch") {
        all.push(vec!["train", "examples/dgemm.toml", "--runs"]);
        all.push(vec!["sft", "models/starter/recipe.toml", "--output"]);
    }
    all
}

#[test]
fn a_place_that_takes_no_output_is_wrong_usage_for_every_command() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    let run_folder = place.path().join("run");
    fs::create_dir(&run_folder).unwrap();
    fs::write(run_folder.join("config.toml"), "").unwrap();
    // No run may start here by mistake.
    let runs = place.path().join("runs");
    let refused = |arguments: &[&str], place: &Path| {
        let mut command = flopsmith();
        command.env("FLOPSMITH_RUNS", &runs);
        command.args(arguments).arg(place);
        let ended = run(command);
        let said = ended.said();
        assert_eq!(ended.code, Some(USAGE), "{arguments:?}: {said}");
        contains(ended.one_error(USAGE), &[place.to_str().unwrap()]);
    };
    // No path exists beneath a file.
    for arguments in commands(run_folder.to_str().unwrap()) {
        refused(&arguments, &file.join("below"));
    }
    // Not even root makes files here, nor folders.
    let nowhere = Path::new("/proc/self/flopsmith");
    let search = ["search", "--problem", "dgemm", "--budget", "5m"];
    for flag in ["--output", "--runs"] {
        refused(&[&search[..], &[flag]].concat(), nowhere);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(!runs.exists(), "a run was begun");
}

/// A typing error must not replace a file of another kind, above all not the program to measure.
#[test]
fn existing_files_are_not_overwritten_by_output_of_another_kind() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("mine.c");
    let source = "void dgemm(int n, const double *A, const double *B, double *C) {}\n";
    fs::write(&program, source).unwrap();
    let run_folder = place.path().join("run");
    fs::create_dir(&run_folder).unwrap();
    fs::write(run_folder.join("config.toml"), "").unwrap();
    let mine = program.to_str().unwrap();
    for arguments in [
        vec!["bench", mine, "--problem", "dgemm", "--raw", mine],
        vec!["report", run_folder.to_str().unwrap(), "--output", mine],
    ] {
        let mut command = flopsmith();
        command.args(&arguments);
        let ended = run(command);
        contains(ended.one_error(USAGE), &["mine.c", "stays as it is"]);
        assert_eq!(fs::read_to_string(&program).unwrap(), source);
    }
}

/// The exit code tells users who redirect output to a full disk.
#[test]
#[cfg(target_os = "linux")]
fn data_that_cannot_be_written_is_an_error_and_a_reader_that_has_gone_is_none() {
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    for arguments in [
        vec!["problem", "list"],
        vec!["config", "explain"],
        vec!["problem", "prompt", "dgemm"],
    ] {
        let mut command = flopsmith();
        command.args(&arguments).stdout(full());
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(
            ended.status.code(),
            Some(INFRASTRUCTURE),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("cannot write to stdout"), "{said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = flopsmith();
        command.args(&arguments).stdout(writer);
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn a_harness_that_is_not_there_is_the_variables_fault() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("mine.c");
    fs::write(&program, "void dgemm(void) {}\n").unwrap();
    let mut command = flopsmith();
    command.env("FLOPSMITH_HARNESS", "/nowhere/harness");
    command.arg("bench").arg(&program);
    command.args(["--problem", "dgemm", "--allow-weaker-jail"]);
    let ended = run(command);
    contains(
        ended.one_error(USAGE),
        &["FLOPSMITH_HARNESS", "/nowhere/harness"],
    );
}
