//! `flopsmith problem random`.

use super::*;

fn random(folder: &Path, more: &[&str]) -> Output {
    let mut command = as_shipped();
    command.args(["problem", "random"]).arg(folder).args(more);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The files of a problem, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let all = entries.map(|e| (name(&e), std::fs::read_to_string(e.path()).unwrap()));
    all.collect()
}

#[test]
fn a_seed_has_one_problem_wherever_it_is_written() {
    let place = tempfile::tempdir().unwrap();
    let (all, one) = (place.path().join("all"), place.path().join("deep/one"));
    let output = random(&all, &["--seed", "40", "--count", "3", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let object = last_object(&output);
    let names = ["random_40", "random_41", "random_42"];
    assert_keys(&object, "folder problems", "");
    assert_eq!(object["problems"], serde_json::json!(names));
    let output = random(&one, &["--seed", "42"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("random_42"), "{}", text(&output));
    assert_eq!(files(&one.join("random_42")), files(&all.join("random_42")));
    assert_ne!(files(&all.join("random_40")), files(&all.join("random_41")));
    let list = |arguments: &[&str]| {
        let mut command = as_shipped();
        command.env("FLOPSMITH_PROBLEMS", &all).args(arguments);
        text(&command.output().unwrap())
    };
    let listed = list(&["problem", "list"]);
    for name in names {
        let line = listed.lines().find(|l| l.starts_with(name)).unwrap();
        assert!(line.contains("random loop nest"), "{line}");
    }
    let prompt = list(&["problem", "prompt", "random_41"]);
    assert!(prompt.contains("void nest(int "), "{prompt}");
}

#[test]
fn folders_with_files_and_other_numbers_are_refused_and_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    let taken = place.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("notes"), "mine").unwrap();
    let file = taken.join("notes");
    let fresh = place.path().join("fresh");
    let largest = u64::MAX.to_string();
    let cases: [(&Path, &[&str], &str); 6] = [
        (&taken, &[], "exists already"),
        (&file, &[], "exists already"),
        (&fresh, &["--count", "0"], "--count"),
        (&fresh, &["--count", "many"], "--count"),
        (&fresh, &["--seed", "-1"], "--seed"),
        (&fresh, &["--seed", &largest], "--seed"),
    ];
    for (folder, more, part) in cases {
        let output = random(folder, more);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(part), "{more:?}: {said}");
    }
    assert!(!fresh.exists());
    assert_eq!(
        files(&taken),
        BTreeMap::from([("notes".into(), "mine".into())])
    );
}

/// The whole definition of one nest is sound for the check that shipped problems pass.
#[test]
fn a_random_problem_is_sound() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("nests");
    let output = random(&folder, &["--seed", "3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut command = as_shipped();
    command.args(["problem", "check", "--workload", "odd", "--format", "json"]);
    let output = command.arg(folder.join("random_3")).output().unwrap();
    let object = last_object(&output);
    assert_eq!(object["sound"], true, "{object}");
}

/// Nobody has told the program anything about this nest but its definition.
#[test]
fn a_problem_of_ones_own_is_searched_at_once() {
    one_core::on_one_core();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("nests");
    let output = random(&folder, &["--seed", "3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let mut command = as_shipped();
    command.args(["search", "--budget", "10m", "--workload", "odd"]);
    command.arg("--problem").arg(folder.join("random_3"));
    command.arg("--runs").arg(place.path().join("runs"));
    command.args(["--format", "json"]);
    for set in ["tasks=1", "group_size=2", "max_steps=1"] {
        command.args(["--set", set]);
    }
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary = last_object(&output);
    let source = summary["best"]["source"].as_str().unwrap();
    assert!(source.contains("void nest("), "{source}");
}
