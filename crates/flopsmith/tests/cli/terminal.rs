//! The output on a terminal.

use std::process::{Command, Stdio};

use flopsmith_test_support::skipped;

use crate::one_core::on_one_core;
use crate::{quick, root};

/// Starts a program on a new terminal, prints the terminal's content, and ends with its exit code. The terminal has no
/// size.
const ON_A_TERMINAL: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// The longest line on a terminal of 80 columns; the last column stays free.
const WIDEST: usize = 79;

#[test]
fn a_search_shows_how_it_goes_and_leaves_the_terminal_as_it_should_be() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let best = place.path().join("best.c");
    let mut search = Command::new("python3");
    search
        .args(["-c", ON_A_TERMINAL, env!("CARGO_BIN_EXE_flopsmith")])
        .args(["search", "--problem", "dgemm", "--budget", "10m"])
        .arg("--runs")
        .arg(place.path().join("runs"))
        .arg("--output")
        .arg(&best);
    for set in ["tasks=1", "group_size=4", "max_steps=2"] {
        search.args(["--set", set]);
    }
    search.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    quick::on(&mut search);
    // The tests themselves keep the machine busy.
    search.env("FLOPSMITH_WAIT", "0");
    search.current_dir(root()).stdin(Stdio::null());
    let Ok(output) = search.output() else {
        skipped("python3, which makes the terminal, is not on the PATH");
        return;
    };
    let shown = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{shown}\n{said}");
    assert!(best.is_file(), "{shown}");

    let names = [
        "step",
        "permitted",
        "last step",
        "refused",
        "best",
        "archive",
        "time",
        "left",
    ];
    // Each frame replaces the previous one, line by line.
    let frames: Vec<Vec<&str>> = shown
        .split(&format!("\x1b[{}A", names.len()))
        .map(|part| {
            let lines = part.split("\r\n");
            lines.filter_map(|l| l.strip_prefix("\x1b[2K")).collect()
        })
        .collect();
    assert!(frames.len() > 1, "{shown}");
    for frame in &frames {
        assert_eq!(frame.len(), names.len(), "{frame:#?} in {shown}");
        for (line, name) in frame.iter().zip(names) {
            assert!(line.starts_with(&format!("  {name:<9} ")), "{frame:#?}");
            assert!(line.chars().count() <= WIDEST, "{frame:#?}");
        }
    }
    let whole = frames.iter().find(|frame| frame[2].contains("correct "));
    let whole = whole.unwrap_or_else(|| panic!("no frame after a step: {shown}"));
    for (line, words) in [
        (0, " · search · stage "),
        (0, "/4 outcomes"),
        (2, " %"),
        (4, " GFLOPS"),
        (7, " of 10:00)"),
    ] {
        assert!(whole[line].contains(words), "{words:?} in {whole:#?}");
    }

    // The output after the last frame starts on a new line, and each line is complete.
    let (_, end) = shown.rsplit_once("\x1b[2K").unwrap();
    let (_, rest) = end.split_once("\r\n").unwrap();
    assert!(rest.starts_with("\r\n"), "{shown}");
    assert!(rest.ends_with("\r\n") && !rest.contains('\x1b'), "{shown}");
    assert!(rest.contains("outcomes.jsonl"), "{shown}");
    let joined = shown.replace("\r\n", "");
    assert!(!joined.contains(['\r', '\n']), "{shown:?}");
}
