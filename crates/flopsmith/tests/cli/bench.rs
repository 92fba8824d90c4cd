//! `bench`: programs, timed or refused.

mod languages;
mod layouts;
mod measuring_lock;
mod ranks;
mod saved;
mod sizes;
mod threads;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use flopsmith_test_support::skipped;
use serde_json::Value;

use crate::one_core::on_one_core;
use crate::{as_shipped, assert_traceable, flopsmith, last_object, run, wait_for};

/// Rows times rows: right, and many times as fast as the textbook loops.
pub const GOOD: &str = "void dgemm(int n,const double*A,const double*B,double*C){\n\
    for(int i=0;i<n*n;i++)C[i]=0;\n\
    for(int i=0;i<n;i++)for(int k=0;k<n;k++)for(int j=0;j<n;j++)C[i*n+j]+=A[i*n+k]*B[k*n+j];}\n";

/// The textbook loops: right and slow.
pub const SLOW: &str = "void dgemm(int n,const double*A,const double*B,double*C){\n\
    for(int i=0;i<n;i++)for(int j=0;j<n;j++){double s=0;\n\
    for(int k=0;k<n;k++)s+=A[i*n+k]*B[k*n+j];C[i*n+j]=s;}}\n";

/// It does nothing.
const IDLE: &str = "void dgemm(int n,const double*A,const double*B,double*C){}";

/// No C.
const BROKEN: &str = "void dgemm(int n,const double*A,const double*B,double*C){ int x = ; }";

/// The result of timing a program, its exit code and its raw samples.
fn bench(source: &str) -> (Value, i32, Option<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    let raw = folder.path().join("raw.json");
    std::fs::write(&file, source).unwrap();
    let output = run(&[
        "bench",
        file.to_str().unwrap(),
        "--problem",
        "dgemm",
        "--purpose",
        "screen",
        "--format",
        "json",
        "--raw",
        raw.to_str().unwrap(),
    ]);
    let raw = std::fs::read(raw)
        .ok()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap());
    (last_object(&output), output.status.code().unwrap(), raw)
}

/// It has a number. Other tests keep the machine busy, so a screening need not converge.
fn assert_timed(object: &Value) {
    let outcome = object["outcome"].as_str().unwrap();
    assert!(["measured", "unconverged"].contains(&outcome), "{object}");
    assert_eq!(outcome == "unconverged", object["stop"] == "unconverged");
}

#[test]
fn bench_measures_a_correct_program_and_says_what_it_uses() {
    on_one_core();
    let (object, code, raw) = bench(GOOD);
    assert_eq!(code, 0, "{object}");
    assert_timed(&object);
    assert_eq!(object["techniques"], serde_json::json!(["loop_reorder"]));
    assert!(object["gflops"].as_f64().unwrap() > 0.1);
    for key in [
        "ratio",
        "interval",
        "blocks",
        "rounds",
        "outlying",
        "mdape",
        "log_ratio_se",
        "roofline",
        "diagnostics",
        "attestation",
    ] {
        assert!(!object[key].is_null(), "{key} in {object}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(object["vector_bits"].as_u64().unwrap() >= 128, "{object}");
    }
    let place = &object["roofline"];
    let number = |key: &str| place[key].as_f64().unwrap();
    // 2 n³ operations for 3 n² doubles.
    assert!((number("intensity") / (64.0 / 12.0) - 1.0).abs() < 1e-9);
    let reached = number("share") * number("roof_gflops");
    assert!((reached / object["gflops"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let raw = raw.unwrap();
    assert_traceable(&raw);
    assert_eq!(raw["measurement"]["gflops"], object["gflops"]);
}

#[test]
fn bench_names_the_candidates_fault_and_exits_with_1() {
    on_one_core();
    let wrong = |source: &str, reason: &str| {
        let (object, code, raw) = bench(source);
        assert_eq!(code, 1, "{object}");
        assert_eq!(object["outcome"], "rejected", "{object}");
        assert_eq!(object["reason"], reason, "{object}");
        assert_eq!(raw, None, "what was not timed has no samples");
        // It was refused before a timer was made, which would have waited for a quiet machine.
        for key in ["reference_gflops", "peak_gflops", "attestation_digest"] {
            assert!(object[key].is_null(), "{key}: {object}");
        }
    };
    wrong(IDLE, "wrong_result");
    wrong(
        "void dgemm(int n,const double*A,const double*B,double*C){for(;;);}",
        "timeout",
    );
    wrong(BROKEN, "compile_error");
    wrong(
        "#include <unistd.h>\nvoid dgemm(int n,const double*A,const double*B,double*C){}",
        "forbidden_include",
    );
    wrong("int other;", "missing_entry");
}

#[test]
fn a_file_that_is_no_text_is_refused_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.c");
    // UTF-16, as some editors save it.
    std::fs::write(&file, b"\xff\xfev\0o\0i\0d\0").unwrap();
    let output = quick(&[&file], &["--format", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let object = last_object(&output);
    assert_eq!(object["outcome"], "rejected", "{object}");
    assert_eq!(object["reason"], "not_text", "{object}");
    let detail = object["diagnostics"].to_string();
    assert!(detail.contains("UTF-8"), "{object}");
}

#[test]
fn threads_that_a_problem_does_not_name_are_timed_with_a_warning() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        skipped("two threads cannot be timed on one core");
        return;
    }
    let place = programs(&[("broken.c", BROKEN)]);
    let folder = place.path().join("single");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(crate::quick::problems().join("dgemm")).unwrap() {
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let text = text.replace("threads = [1, 2]", "threads = [1]");
        std::fs::write(folder.join(file.file_name()), text).unwrap();
    }
    let with = |threads: &str| {
        let mut command = flopsmith();
        command.arg("bench").arg(place.path().join("broken.c"));
        command.arg("--problem").arg(&folder);
        command.args(["--purpose", "screen", "--threads", threads]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        said(&output).contains("is meant for 1 threads and is timed with 2")
    };
    assert!(with("2"));
    assert!(!with("1"));
}

/// A folder with these programs.
fn programs(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, source) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, source).unwrap();
    }
    folder
}

/// `bench` with the shortest measurements.
fn quick(inputs: &[&Path], more: &[&str]) -> Command {
    let mut command = flopsmith();
    command.arg("bench").args(inputs).args(more);
    command.args(["--problem", "dgemm", "--purpose", "screen"]);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_generated_kernel_is_as_long_as_its_owner_permits() {
    on_one_core();
    let long = format!("/* {} */\n{GOOD}", "a table ".repeat(16_000));
    let folder = programs(&[("long.c", long.as_str())]);
    let file = folder.path().join("long.c");
    let refused = quick(&[&file], &["--format", "json"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert_eq!(last_object(&refused)["reason"], "source_too_large");
    let more = ["--format", "json", "--max-source", "200000"];
    let measured = quick(&[&file], &more).output().unwrap();
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
    assert_timed(&last_object(&measured));
    let wrong = quick(&[&file], &["--max-source", "12"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2), "{}", said(&wrong));
}

#[test]
fn programs_of_a_folder_are_compared_and_their_objects_are_kept() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("more/slow.c", SLOW), ("idle.c", IDLE)]);
    let kept = tempfile::tempdir().unwrap();
    let kept = kept.path().join("kept");
    let output = quick(&[folder.path()], &["--format", "json"])
        .arg("--keep")
        .arg(&kept)
        .output()
        .unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("[1/3] ") && stderr.contains("[3/3] "),
        "{stderr}"
    );
    assert!(stderr.contains("refused: wrong_result"), "{stderr}");
    // The plan comes before the first program.
    let (before, _) = stderr.split_once("[1/3] ").unwrap();
    for part in [
        "3 programs for dgemm at n = 64, on 1 thread, --purpose screen\n",
        "compared with the plain reference of the problem\n",
        "\nthis takes ",
    ] {
        assert!(before.contains(part), "{part:?} in {stderr}");
    }
    let mut objects: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 3);
    // All rows name the one machine, and one of them describes it.
    let digest = &objects[0]["attestation_digest"];
    assert!(digest.is_string(), "{objects:?}");
    assert!(
        objects
            .iter()
            .all(|row| row["attestation_digest"] == *digest)
    );
    let described = objects.iter().filter(|row| row["attestation"].is_object());
    assert_eq!(described.count(), 1);
    // On a busy machine the faster one may not converge, and is then listed after the other one.
    if objects[0]["rank"].is_null() || objects[1]["rank"].is_null() {
        objects[..2].sort_by_key(|row| row["file"].to_string());
    }
    let of = |n: usize, key: &str| objects[n][key].clone();
    for (n, name) in ["good.c", "slow.c", "idle.c"].into_iter().enumerate() {
        let file = of(n, "file");
        assert!(file.as_str().unwrap().ends_with(name), "{n}: {file}");
        assert_eq!(of(n, "threads"), 1);
    }
    let ranked = |n: usize| !of(n, "rank").is_null();
    assert!(!ranked(1) || of(0, "ratio").as_f64() > of(1, "ratio").as_f64());
    // A program whose measurement did not converge on a busy machine has no rank.
    assert!(of(0, "outcome") == "unconverged" || of(0, "group") == "a");
    // On a busy machine noise may hide the difference of the two.
    let bound = |n: usize, end: &str| objects[n]["interval"][end].as_f64().unwrap();
    if bound(0, "low") > 2.0 * bound(1, "high") && !of(0, "rank").is_null() {
        assert!(of(1, "outcome") == "unconverged" || of(1, "group") == "b");
    }
    assert_eq!(of(2, "reason"), "wrong_result");
    assert_eq!(of(2, "group"), Value::Null);
    for name in ["good", "slow", "idle"] {
        assert!(kept.join(format!("{name}.so")).is_file(), "{name}");
        if Path::new("/usr/bin/objdump").is_file() {
            let text = std::fs::read_to_string(kept.join(format!("{name}.s"))).unwrap();
            assert!(text.contains("<dgemm>:"), "{text}");
        }
        let built = std::fs::read_to_string(kept.join(format!("{name}.txt"))).unwrap();
        let said = ["innermost loop", "has no loop"];
        assert!(said.iter().any(|words| built.contains(words)), "{built}");
    }
}

#[test]
fn objects_kept_before_are_not_overwritten() {
    on_one_core();
    let folder = programs(&[("idle.c", IDLE)]);
    let kept = programs(&[("idle.so", "older")]);
    let output = quick(&[&folder.path().join("idle.c")], &[])
        .arg("--keep")
        .arg(kept.path())
        .output()
        .unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("called idle-2"), "{stderr}");
    let old = std::fs::read_to_string(kept.path().join("idle.so")).unwrap();
    assert_eq!(old, "older");
    assert!(kept.path().join("idle-2.so").is_file());
}

#[test]
fn a_pattern_makes_a_table_even_of_one_file_and_csv_goes_with_one_too() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("notes.txt", "")]);
    let output = quick(&[&folder.path().join("*.c")], &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("rank  file"), "{text}");
    assert!(
        text.lines().nth(1).unwrap().ends_with(" loop_reorder"),
        "{text}"
    );

    let file = folder.path().join("good.c");
    let output = quick(&[&file], &["--format", "csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("file,problem,threads,outcome,"),
        "{text}"
    );
    let expected = ["measured", "unconverged"]
        .map(|outcome| format!("{},dgemm,1,{outcome},,", file.display()));
    assert!(
        expected.iter().any(|line| lines[1].starts_with(line)),
        "{text}"
    );
}

#[test]
fn a_table_in_markdown_is_exported_and_another_file_stays_as_it_is() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("idle.c", IDLE), ("notes.md", "# mine\n")]);
    let at = |name: &str| folder.path().join(name);
    let export = |name: &str| format!("markdown={}", at(name).display());
    let refused = quick(&[&at("good.c")], &["--export", &export("notes.md")])
        .output()
        .unwrap();
    let stderr = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is no earlier table"), "{stderr}");
    let notes = std::fs::read_to_string(at("notes.md")).unwrap();
    assert_eq!(notes, "# mine\n");

    let files = [at("good.c"), at("idle.c")];
    let more = ["--format", "json", "--export", &export("table.md")];
    let output = quick(&[&files[0], &files[1]], &more).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    // The results are printed as well.
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let table = std::fs::read_to_string(at("table.md")).unwrap();
    assert!(table.starts_with("**"), "{table}");
    let rows: Vec<&str> = table.lines().filter(|l| l.starts_with("| ")).collect();
    for name in ["good.c", "idle.c"] {
        let is_of = |row: &&str| row.contains(name);
        assert_eq!(rows.iter().copied().filter(is_of).count(), 1, "{table}");
    }
}

#[test]
fn programs_are_compared_with_another_one_unless_that_is_refused() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("slow.c", SLOW), ("broken.c", BROKEN)]);
    let at = |name: &str| folder.path().join(name);
    let against = |name: &str| {
        quick(&[&at("good.c")], &["--format", "json"])
            .arg("--against")
            .arg(at(name))
            .output()
            .unwrap()
    };
    let output = against("slow.c");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 2, "{text}");
    let find = |against: bool| objects.iter().find(|o| o["against"] == against);
    let (object, other) = (find(false).unwrap(), find(true).unwrap());
    assert!(other["file"].as_str().unwrap().ends_with("slow.c"));
    let ratio = object["ratio_to_against"].as_f64().unwrap();
    let end = |which: &str| object["interval_to_against"][which].as_f64().unwrap();
    assert!(
        ratio > 1.5 && end("low") < ratio && ratio < end("high"),
        "{object}"
    );
    assert!(object["outcome"] == "unconverged" || object["group"] == "a");

    let output = against("broken.c");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let error = last_object(&output)["error"].to_string();
    assert!(
        error.contains("--against") && error.contains("compile_error"),
        "{error}"
    );
    assert!(error.contains("line 1") || error.contains(":1:"), "{error}");
}

#[test]
fn programs_that_cannot_be_measured_are_reported_before_any_measurement() {
    let folder = programs(&[("a.c", GOOD), ("b.c", GOOD)]);
    let at = |name: &str| folder.path().join(name);
    let says = |file: &Path, more: &[&str], code: i32, part: &str| {
        let output = quick(&[file], more).output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(part), "{part:?} in {stderr}");
        assert!(!stderr.contains("[1/"), "{stderr}");
    };
    let pattern = at("*.cc");
    let missing = format!("no file matches `{}`", pattern.display());
    says(&pattern, &[], 2, &missing);
    says(&at("*.c"), &["--raw", "/dev/null"], 2, "--raw");
    says(
        &at("a.c"),
        &["--threads", "1,100000"],
        2,
        "100000 threads cannot be timed here",
    );
    std::fs::create_dir(at("empty")).unwrap();
    std::fs::write(at("empty/notes.txt"), "").unwrap();
    let none = format!("there is no `.c` file in {}", at("empty").display());
    says(&at("empty"), &[], 2, &none);
    says(&at("a.c"), &["--threads", "1,many"], 2, "`all`");
}

#[test]
fn a_ranking_measures_neighbours_again_and_an_interrupted_comparison_keeps_what_it_has() {
    // No number of measurements can tell duplicates apart.
    let duplicate = format!("{GOOD}/* another one */\n");
    let folder = programs(&[("a.c", GOOD), ("b.c", &duplicate)]);
    let ranked = |time: &str| {
        let output = as_shipped()
            .arg("bench")
            .arg(folder.path())
            .args(["--problem", "dgemm", "--workload", "n=256"])
            .args(["--purpose", "rank", "--resolve", time, "--format", "json"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let objects: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (said(&output), objects)
    };
    let (once, _) = ranked("0");
    assert!(!once.contains("measuring them again"), "{once}");
    let (again, objects) = ranked("4s");
    assert_eq!(objects.len(), 2);
    // Noise may have told them apart at once.
    let together = objects[0]["group"] == objects[1]["group"] && objects[0]["group"] == "a";
    assert!(
        !together || again.contains("measuring them again"),
        "{again}"
    );

    // A measurement that takes longer than the interruption.
    let child = as_shipped()
        .arg("bench")
        .arg(folder.path())
        .args(["--problem", "dgemm", "--workload", "n=256"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let second = stderr.find(|line| line.as_ref().is_ok_and(|l| l.starts_with("[2/2] ")));
    assert!(second.is_some());
    let pid = child.0.id().to_string();
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    // The test ignores later output.
    let rest = std::thread::spawn(move || stderr.map_while(Result::ok).count());
    let mut shown = String::new();
    let mut stdout = child.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut shown).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    rest.join().unwrap();
    assert!(shown.starts_with("rank  file"), "{shown}");
    assert!(shown.contains("a.c"), "{shown}");
    assert!(
        !shown.contains("b.c"),
        "what was cut short is no result: {shown}"
    );
}

/// True if a process has its own handler for SIGINT.
fn listens(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0)
}

#[test]
fn a_single_program_that_is_interrupted_ends_with_the_code_for_that() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD)]);
    let child = flopsmith()
        .arg("bench")
        .arg(folder.path().join("good.c"))
        .args(["--problem", "dgemm"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let pid = child.0.id().to_string();
    let limit = Duration::from_secs(60);
    wait_for(&mut child.0, limit, "its handler", || listens(&pid));
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    let mut shown = String::new();
    let mut stdout = child.0.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut stdout, &mut shown).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    assert_eq!(shown, "", "a measurement that was cut short is no result");
}

/// A process that ends with the test, on success and on failure.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
    }
}

#[test]
fn a_watched_program_is_measured_again_when_it_is_saved() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD)]);
    let file = folder.path().join("good.c");
    let child = quick(&[&file], &["--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Ending(child);
    let stdout = child.0.stdout.take().unwrap();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let until = |part: &str| loop {
        let line: String = lines.recv_timeout(Duration::from_secs(120)).unwrap();
        if line.contains(part) {
            break line;
        }
    };
    until("ratio: times as fast");
    std::fs::write(&file, format!("{GOOD}/* saved */\n")).unwrap();
    let line = until("since the previous measurement: ");
    assert!(
        line.contains("good.c: ") && (line.contains(" GFLOPS, ") || line.contains(" GB/s, ")),
        "{line}"
    );
    std::fs::write(&file, IDLE).unwrap();
    until("good.c: refused: wrong_result");
    let pid = child.0.id().to_string();
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn a_compiler_that_does_not_exist_is_refused_before_a_plan_is_said() {
    let folder = programs(&[("good.c", GOOD), ("slow.c", SLOW)]);
    let output = quick(&[folder.path()], &["--compiler", "clng"])
        .output()
        .unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`clng` was not found"), "{said}");
    assert!(!said.contains("programs for dgemm"), "{said}");
    assert!(!said.contains("[1/2]"), "{said}");
}

#[test]
fn a_refusal_is_told_once_beside_the_table_where_both_streams_go_to_one_file() {
    // No machine is measured for them.
    let folder = programs(&[("one.c", BROKEN), ("two.c", BROKEN)]);
    let place = tempfile::tempdir().unwrap();
    let both = place.path().join("both");
    let file = std::fs::File::create(&both).unwrap();
    let status = quick(&[folder.path()], &["--format", "text"])
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .status()
        .unwrap();
    let text = std::fs::read_to_string(both).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    // Each program has its reason in the table, and with the details.
    let reason = "refused: compile_error";
    assert_eq!(text.matches(reason).count(), 4, "{text}");
    let output = quick(&[folder.path()], &["--format", "text"])
        .output()
        .unwrap();
    let alone = String::from_utf8_lossy(&output.stdout);
    assert_eq!(alone.matches(reason).count(), 4, "{alone}");
    assert_eq!(said(&output).matches(reason).count(), 2, "{alone}");
}
