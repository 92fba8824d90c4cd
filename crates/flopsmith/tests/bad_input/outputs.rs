//! Places that the user named and that take no files: the same exit code whatever the command, before anything is done.

use super::*;

/// Every command that takes a place for its output, with the arguments up to that place.
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
    // Where no run may be begun by mistake.
    let runs = place.path().join("runs");
    // Beneath a file there is nothing, and not even root makes files in the second place.
    let places = [file.join("below"), PathBuf::from("/proc/self/flopsmith")];
    for place in &places {
        for arguments in commands(run_folder.to_str().unwrap()) {
            let mut command = flopsmith();
            command.env("FLOPSMITH_RUNS", &runs);
            command.args(&arguments).arg(place);
            let ended = run(command);
            let said = ended.said();
            assert_eq!(ended.code, Some(USAGE), "{arguments:?}: {said}");
            contains(ended.one_error(USAGE), &[place.to_str().unwrap()]);
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert!(!runs.exists(), "a run was begun");
}
