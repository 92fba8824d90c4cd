//! Results that are saved and compared with.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{BROKEN, GOOD, IDLE, SLOW, programs, quick, said};
use crate::last_object;
use crate::one_core::on_one_core;

/// `bench` of a program in a file of this name, with saved results in this folder.
fn bench(folder: &Path, name: &str, source: &str, more: &[&str]) -> Output {
    let file = folder.join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, source).unwrap();
    let mut command = quick(&[&file], more);
    command.arg("--baselines").arg(folder.join("saved"));
    command.output().unwrap()
}

#[test]
fn a_program_that_became_slower_is_named_and_has_a_code_of_its_own() {
    on_one_core();
    let place = programs(&[]);
    let folder = place.path();
    let output = bench(folder, "before/kernel.c", GOOD, &["--save", "main"]);
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("saved 1 program as `main` in "), "{stderr}");
    assert!(
        stderr.contains("--purpose certify measures many"),
        "{stderr}"
    );
    let saved = std::fs::read(folder.join("saved/main.json")).unwrap();
    let saved: Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!(saved["format"], "flopsmith bench result");
    assert_eq!(saved["circumstances"][0]["sizes"][0]["n"], 64);
    assert_eq!(saved["circumstances"][0]["facts"]["flags"][0], "-O3");
    let source = flopsmith_protocol::Digest::of(GOOD.as_bytes()).to_string();
    assert_eq!(saved["programs"][0]["source_digest"], source);

    // The file is another one of the same name.
    let more = ["--compare", "main", "--format", "json"];
    let output = bench(folder, "after/kernel.c", SLOW, &more);
    let object = last_object(&output);
    // On a busy machine one of the two may not converge.
    let unsure = object["outcome"] == "unconverged" || saved["programs"][0]["converged"] == false;
    let expected = if unsure {
        (0, "unclear")
    } else {
        (4, "slower")
    };
    assert_eq!(output.status.code(), Some(expected.0), "{object}");
    assert_eq!(object["change_since_saved"], expected.1, "{object}");
    assert!(object["ratio_to_saved"].as_f64().unwrap() < 1.0, "{object}");

    // The comparison is before the new result takes the old one's place.
    let more = ["--compare", "main", "--save", "main"];
    let output = bench(folder, "kernel.c", GOOD, &more);
    let stderr = said(&output);
    // A busy machine may make it look slower.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("times as fast as in `main` (its source is the same)"),
        "{text}"
    );
    assert!(stderr.contains("in place of the result saved "), "{stderr}");
}

#[test]
fn results_that_do_not_compare_are_refused_with_what_differs() {
    on_one_core();
    let place = programs(&[]);
    let folder = place.path();
    let refused = |source: &str, more: &[&str], says: &str| {
        let output = bench(folder, "kernel.c", source, more);
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(says), "{more:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{more:?}");
    };
    refused(GOOD, &["--compare", "main"], "`--save NAME` saves one");
    refused(GOOD, &["--save", "../main"], "a name has letters");
    let output = bench(folder, "kernel.c", GOOD, &["--save", "main"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    refused(GOOD, &["--compare", "other"], "there are main");
    refused(
        GOOD,
        &["--compare", "main", "--size", "n=128"],
        "other sizes",
    );
    refused(
        GOOD,
        &["--compare", "main", "--flags", "-O1"],
        "compiler flags: saved with `-O3 ",
    );
    let path = folder.join("saved/main.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut saved: Value = serde_json::from_str(&text).unwrap();
    saved["circumstances"][0]["facts"]["cpu_model"] = "another processor".into();
    std::fs::write(&path, saved.to_string()).unwrap();
    refused(
        GOOD,
        &["--compare", "main"],
        "processor: saved with `another processor`, now `",
    );
    // The failure is known when the first program can be timed; those before it keep their results.
    let (broken, kernel) = (folder.join("broken.c"), folder.join("kernel.c"));
    std::fs::write(&broken, BROKEN).unwrap();
    let more = ["--compare", "main", "--format", "jsonl"];
    let mut both = quick(&[&broken, &kernel], &more);
    let output = both.arg("--baselines").arg(folder.join("saved")).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let rows: Vec<&Value> = lines.iter().filter(|line| line["type"] == "row").collect();
    assert_eq!(rows.len(), 1, "{lines:?}");
    assert!(rows[0]["file"].as_str().unwrap().ends_with("broken.c"));
    // The error follows.
    let kinds: Vec<Option<&str>> = lines.iter().map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds, [Some("run"), Some("row"), Some("summary"), None]);
    assert!(lines[3]["error"].is_string() || lines[3]["error"].is_object());

    let output = bench(folder, "other.c", GOOD, &["--compare", "main"]);
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("none of these programs"), "{stderr}");
}

#[test]
fn nothing_is_saved_of_programs_that_were_not_measured() {
    on_one_core();
    let place = programs(&[]);
    let folder = place.path();
    for source in [IDLE, BROKEN] {
        let output = bench(folder, "kernel.c", source, &["--save", "main"]);
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("no result is saved"), "{stderr}");
    }
    assert!(!folder.join("saved/main.json").exists());
}
