//! Programs timed at several sizes, and the files and formats that people pass on.

use serde_json::Value;

use super::ranks::assert_consistent;
use super::{BROKEN, GOOD, IDLE, SLOW, assert_timed, programs, quick, said};
use crate::one_core::on_one_core;

fn lines(stdout: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(stdout).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_range_of_sizes_has_rows_for_each_and_says_which_program_is_fastest_where() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("slow.c", SLOW)]);
    let report = folder.path().join("sizes.html");
    let report = report.to_str().unwrap();
    // The largest size is above those that the problem defines.
    let more = [
        "--size",
        "n=64..256",
        "--format",
        "jsonl",
        "--report",
        report,
    ];
    let output = quick(&[folder.path()], &more).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("defined up to n = 192") && stderr.contains("right at n = 256"),
        "{stderr}"
    );
    assert!(stderr.contains("size 4 of 4: n = 256"), "{stderr}");
    let lines = lines(output.stdout);
    let kinds: Vec<&str> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    let once = ["run", "row", "row", "summary"];
    assert_eq!(kinds[..16], once.repeat(4));
    assert_eq!(kinds[16..], ["crossover"]);
    let rows: Vec<&Value> = lines.iter().filter(|l| l["type"] == "row").collect();
    let sizes: Vec<u64> = rows
        .iter()
        .map(|row| row["params"]["n"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [64, 64, 128, 128, 192, 192, 256, 256]);
    assert_eq!(rows[7]["size"], "n = 256");
    for row in &rows {
        assert_timed(row);
        let of = |key: &str| row[key].as_f64().unwrap();
        assert_consistent(row);
        assert!(
            (of("rate") / of("roof") / of("share_of_roof") - 1.0).abs() < 1e-9,
            "{row}"
        );
        let unit = row["rate_unit"].as_str().unwrap();
        let rate = if unit == "GB/s" {
            of("gb_per_second")
        } else {
            of("gflops")
        };
        assert_eq!(of("rate"), rate, "{row}");
        // Work and time of a call at its own size.
        let n = row["params"]["n"].as_f64().unwrap();
        let work = of("gflops") * 1e9 * of("seconds_per_call");
        assert!((work / (2.0 * n.powi(3)) - 1.0).abs() < 1e-6, "{row}");
    }
    let leads = lines[16]["leads"].as_array().unwrap();
    assert_eq!(leads[0]["from"], "n = 64");
    assert_eq!(leads[leads.len() - 1]["to"], "n = 256");
    let page = std::fs::read_to_string(report).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<svg"),
        "{page}"
    );
    assert!(
        page.contains("n = 192") && page.contains("good.c"),
        "{page}"
    );
}

#[test]
fn sizes_have_a_table_each_and_one_legend() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("idle.c", IDLE)]);
    let more = ["--size", "n=64,128"];
    let output = quick(&[folder.path()], &more).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let headings: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(": plain reference "))
        .collect();
    assert_eq!(headings.len(), 2, "{text}");
    assert!(headings[0].starts_with("n = 64: "), "{text}");
    assert!(headings[1].starts_with("n = 128: "), "{text}");
    assert_eq!(text.matches("rank  file").count(), 2, "{text}");
    assert!(text.contains("refused: wrong_result"), "{text}");
    assert_eq!(text.matches("ratio: times as fast").count(), 1, "{text}");
    assert!(text.contains("\nfastest by size\nfrom "), "{text}");
}

#[test]
fn one_size_is_an_ordinary_comparison_at_that_size() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD)]);
    let file = folder.path().join("good.c");
    let more = ["--size", "n=128", "--format", "json"];
    let output = quick(&[&file], &more).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = lines(output.stdout);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["params"]["n"], 128);
    assert!(rows[0].get("rank").is_none(), "{}", rows[0]);
}

#[test]
fn a_size_that_cannot_be_timed_is_refused_before_anything_is_measured() {
    let folder = programs(&[("idle.c", IDLE)]);
    let file = folder.path().join("idle.c");
    for (more, says) in [
        (&["--size", "n=100"][..], "100 is no multiple of 64"),
        (&["--size", "k=64"][..], "no such parameter; it has n"),
        (&["--size", "64..128"][..], "write n=64..1024"),
        (&["--size", "n=64000"][..], "larger than 1 GiB"),
        (
            &["--size", "n=64", "--workload", "n=64"][..],
            "cannot be used with",
        ),
        (
            &["--size", "n=64,128", "--watch"][..],
            "--watch works with one --size",
        ),
        (
            &["--size", "n=64,128", "--raw", "/dev/null"][..],
            "one size",
        ),
    ] {
        let output = quick(&[&file], more).output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.contains(says), "{more:?}: {stderr}");
        assert!(!stderr.contains("size 1 of"), "{stderr}");
    }
}

#[test]
fn a_table_for_an_issue_names_machine_compiler_and_flags() {
    on_one_core();
    let folder = programs(&[("good.c", GOOD), ("broken.c", BROKEN)]);
    let output = quick(&[folder.path()], &["--format", "markdown"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("**dgemm at n = 64 on 1 thread**\n\n| rank | file |"),
        "{text}"
    );
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[3].starts_with("| ---: | :--- |"), "{text}");
    for part in [
        "- machine: ",
        "- compiler: ",
        "- flags: `-O3 ",
        "- purpose: screen",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(part)),
            "{part}: {text}"
        );
    }
    assert!(text.contains("refused: compile\\_error"), "{text}");
    // One file has the same table.
    let file = folder.path().join("good.c");
    let output = quick(&[&file], &["--format", "markdown"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n| rank | file |"), "{text}");
}

#[test]
fn a_report_replaces_only_a_report() {
    let folder = programs(&[("idle.c", IDLE)]);
    let file = folder.path().join("idle.c");
    let taken = file.to_str().unwrap();
    let output = quick(&[&file], &["--report", taken]).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("is no earlier report"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), IDLE);
}
