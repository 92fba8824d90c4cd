//! Searches that vary the user's own program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::search::quick_search;
use crate::{as_shipped, last_object, objects, only_run, outcomes, quick, root, wait_for};

/// A product with tiles that are much too small.
const PRODUCT: &str = "\
#define TILE 2 /* not 64 */
void dgemm(int n, const double *A, const double *B, double *C) {
    for (int jj = 0; jj < n; jj += TILE)
        for (int i = 0; i < n; i++)
            for (int j = jj; j < jj + TILE && j < n; j++) {
                double sum = 0;
                for (int k = 0; k < n; k++)
                    sum += A[i * n + k] * B[k * n + j];
                C[i * n + j] = sum;
            }
}
";

/// Insertion, some arrays at a time.
const SORT: &str = "\
#define CHUNK 4
void sort64(int batch, const int *in, int *out) {
    for (int c = 0; c < batch; c += CHUNK)
        for (int b = c; b < c + CHUNK && b < batch; b++) {
            int *x = &out[b * 64];
            for (int i = 0; i < 64; i++) {
                int value = in[b * 64 + i], at = i;
                for (; at > 0 && x[at - 1] > value; at--)
                    x[at] = x[at - 1];
                x[at] = value;
            }
        }
}
";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(place: &Path, name: &str, text: &str) -> PathBuf {
    let path = place.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A problem whose reference is no affine loop nest, without its template.
fn without_space(place: &Path) -> PathBuf {
    let problem = place.join("sort64");
    std::fs::create_dir(&problem).unwrap();
    let shipped = root().join("problems/sort64");
    for name in ["problem.toml", "reference.c", "baseline.c"] {
        let text = std::fs::read_to_string(shipped.join(name)).unwrap();
        let text = text.replace("template = \"sorting_networks\"\n", "");
        std::fs::write(problem.join(name), text).unwrap();
    }
    problem
}

/// Checks that each program but the first was made of an earlier one, and that none was tried twice. Returns their number.
fn each_has_a_parent(runs: &Path, own: &str) -> usize {
    let folder = only_run(runs).unwrap();
    let all: Vec<Value> = objects(&folder.join("outcomes.jsonl"))
        .into_iter()
        .filter(|outcome| outcome["candidate"]["purpose"] == "search")
        .collect();
    let step_of = |id: &Value| {
        let found = all.iter().find(|outcome| outcome["candidate"]["id"] == *id);
        found.map(|outcome| outcome["candidate"]["step"].as_u64().unwrap())
    };
    let mut sources = BTreeSet::new();
    for outcome in &all {
        let (candidate, source) = (&outcome["candidate"], outcome["source"].as_str().unwrap());
        assert!(sources.insert(source), "tried twice: {source}");
        if source == own {
            assert_eq!(candidate["sample"], 0);
            assert!(candidate["follows"].is_null(), "{candidate}");
            continue;
        }
        let parent = step_of(&candidate["follows"]).unwrap();
        assert!(parent <= candidate["step"].as_u64().unwrap(), "{candidate}");
    }
    assert!(sources.contains(own));
    all.len()
}

#[test]
fn the_users_program_and_its_variants_are_parents() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let kernel = file(place.path(), "mine.c", PRODUCT);
    let output = quick_search(&runs)
        .arg("--start")
        .arg(&kernel)
        .args(["--set", "tasks=1", "--set", "group_size=4"])
        .args(["--set", "max_steps=2"])
        .args(["--set", "generator.start_share=1"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("the parents of 100 % of the programs"),
        "{said}"
    );
    assert_eq!(each_has_a_parent(&runs, PRODUCT), 8);
    let folder = only_run(&runs).unwrap();
    let sources = objects(&folder.join("outcomes.jsonl"));
    let comment = |outcome: &Value| outcome["source"].as_str().unwrap().contains("/* not 64 */");
    assert!(sources.iter().all(comment), "comments stay");

    let summary = last_object(&output);
    let family = &summary["start_program"]["family"];
    assert_eq!(family["variants"], 7, "{summary}");
    let speed = family["fastest"]["gflops"].as_f64().unwrap();
    assert!(speed > 0.0, "{summary}");
    assert!(
        family["fastest"]["ratio"].as_f64().unwrap() > 0.0,
        "{summary}"
    );
    let from = family["best_from"].as_str().unwrap();
    assert!(["start", "variant"].contains(&from), "{summary}");
    assert!(said.contains("the fastest variant is"), "{said}");
}

/// A search of a problem without a space, with one step of three programs.
fn alone(problem: &Path, runs: &Path, kernel: &Path, more: &[&str]) -> Command {
    let mut command = as_shipped();
    command.args(["search", "--format", "json", "--budget", "10m"]);
    // The arrays of another workload take up more than a cache.
    command.args(["--workload", "small"]);
    command.arg("--problem").arg(problem);
    command.arg("--runs").arg(runs);
    command.arg("--start").arg(kernel);
    command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    for set in ["tasks=1", "group_size=3", "max_steps=1"] {
        command.args(["--set", set]);
    }
    command.args(more);
    command
}

#[test]
fn a_program_of_the_users_is_enough_for_a_problem_without_a_schedule_space() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let problem = without_space(place.path());
    let kernel = file(place.path(), "mine.c", SORT);
    let output = alone(&problem, &runs, &kernel, &[]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("sort64 has no schedule space"), "{said}");
    assert_eq!(each_has_a_parent(&runs, SORT), 3);
    let summary = last_object(&output);
    assert_eq!(
        summary["start_program"]["family"]["variants"], 2,
        "{summary}"
    );
}

/// The search is killed in its second step. What it has measured by then stays, and every program but the first is made of an earlier one.
#[test]
fn an_agent_without_a_model_that_is_killed_goes_on_with_variants_of_the_users_program() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let problem = without_space(place.path());
    let kernel = file(place.path(), "mine.c", SORT);
    let mut command = alone(&problem, &runs, &kernel, &["--agent"]);
    command.args(["--set", "group_size=4", "--set", "max_steps=3"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let limit = Duration::from_secs(180);
    wait_for(&mut child, limit, "the second step", || {
        only_run(&runs).is_some_and(|run| {
            let outcomes = outcomes(&run);
            outcomes.keys().any(|id| id.contains("-s1-"))
        })
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = only_run(&runs).unwrap();
    let before: Vec<String> = outcomes(&folder).into_keys().collect();

    let mut again = as_shipped();
    again.args(["search", "--format", "json", "--resume", "--runs"]);
    again.arg(&runs).arg("--problem").arg(&problem);
    let output = again.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(last_object(&output)["finished"], true);
    let after = outcomes(&folder);
    assert!(after.values().all(|lines| *lines == 1), "{after:?}");
    assert!(before.iter().all(|id| after.contains_key(id)), "{before:?}");
    assert_eq!(each_has_a_parent(&runs, SORT), 12);
    let parents: BTreeMap<String, Value> = objects(&folder.join("outcomes.jsonl"))
        .into_iter()
        .filter(|outcome| outcome["candidate"]["purpose"] == "search")
        .map(|outcome| {
            let id = outcome["candidate"]["id"].as_str().unwrap().to_owned();
            (id, outcome["candidate"]["follows"].clone())
        })
        .collect();
    let attempts = objects(&folder.join("attempts.jsonl"));
    assert_eq!(attempts.len(), parents.len(), "{attempts:?}");
    for attempt in attempts {
        let parent = &parents[attempt["candidate"].as_str().unwrap()];
        assert_eq!(attempt["nearest"], *parent, "{attempt}");
        let count = usize::from(!parent.is_null());
        assert_eq!(attempt["parents"].as_array().unwrap().len(), count);
        let difference = attempt["difference"].as_str();
        assert_eq!(difference.is_some(), count == 1, "{attempt}");
    }
}

#[test]
fn a_program_that_cannot_be_varied_is_refused_where_there_is_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let problem = without_space(place.path());
    let plain =
        "void sort64(int batch, const int *in, int *out) { do { batch--; } while (batch); }\n";
    let refused = |source: &str, more: &[&str], words: &[&str]| {
        let kernel = file(place.path(), "mine.c", source);
        // This test does not concern the jail's protection.
        let weaker = ["--set", "evaluate.allow_weaker_jail=true"];
        let more = [&weaker[..], more].concat();
        let mut command = alone(&problem, &runs, &kernel, &more);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let object = last_object(&output);
        let error = object["error"].as_str().unwrap();
        for part in words {
            assert!(error.contains(part), "{error}");
        }
        assert!(!runs.exists());
        error.to_owned()
    };
    refused(plain, &[], &["no affine loop nest", "nothing to vary"]);
    // This search has no programs without it.
    let broken = plain.replace("batch--;", "batch--");
    let error = refused(&broken, &[], &["does not compile", "error:", "correct it"]);
    assert!(!error.contains("leave --start out"), "{error}");
    let off = ["--set", "generator.start_share=0"];
    refused(SORT, &off, &["--start mine.c", "generator.start_share"]);
    refused(
        SORT,
        &[&off[..], &["--agent"]].concat(),
        &["generator.start_share"],
    );
    refused(plain, &["--agent"], &["nothing to vary"]);
    let outside = ["--set", "generator.start_share=1.5"];
    refused(SORT, &outside, &["between 0 and 1"]);
}
