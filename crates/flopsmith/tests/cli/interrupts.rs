//! Interrupts of a run, before its loop and in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::one_core::on_one_core;
use crate::search::{quick_search, resume_quick_search};
use crate::{last_object, only_run, outcomes, wait_for};

/// Every event that a test waits for comes long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// A running run, with its output for people in a file.
struct Session {
    child: Child,
    said: PathBuf,
}

impl Session {
    fn start(mut command: Command, said: PathBuf) -> Self {
        let child = command
            .stdout(Stdio::null())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        Self { child, said }
    }

    fn said(&self) -> String {
        let bytes = std::fs::read(&self.said).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Interrupts it like ctrl-c. It must end by itself with the right exit code, and print how to continue.
    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-INT", &pid]).status();
        assert!(done.unwrap().success());
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {}",
                self.said()
            );
            std::thread::park_timeout(Duration::from_millis(20));
        };
        let said = self.said();
        // An exit without a code means that the signal killed it.
        assert_eq!(status.code(), Some(130), "{said}");
        for words in ["stopping", "resume with", "--resume"] {
            assert!(said.contains(words), "{words:?} in {said}");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn known(runs: &Path) -> BTreeMap<String, usize> {
    only_run(runs).map(|run| outcomes(&run)).unwrap_or_default()
}

#[test]
fn a_run_that_is_interrupted_at_its_start_and_in_a_step_goes_on_and_loses_nothing() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let start = || {
        let mut command = quick_search(&runs);
        command.args(["--set", "tasks=1", "--set", "max_steps=2"]);
        command
    };
    let resume = || resume_quick_search(&runs);

    // While it measures the machine the run exists and is empty.
    let mut first = Session::start(start(), place.path().join("first"));
    let said = first.said.clone();
    wait_for(&mut first.child, LIMIT, "the first measurement", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.contains("measuring this machine"))
    });
    first.interrupt();
    assert!(known(&runs).is_empty(), "{:?}", known(&runs));
    let folder = only_run(&runs).unwrap();
    let facts: Value =
        serde_json::from_slice(&std::fs::read(folder.join("run.json")).unwrap()).unwrap();
    assert_eq!(facts["finished"], false, "{facts}");
    assert!(facts["seconds"].as_f64().unwrap() > 0.0, "{facts}");
    let peak = facts["peak_memory_bytes"].as_u64().unwrap();
    assert!(peak > 0, "{facts}");

    // In the middle of its first step.
    let mut second = Session::start(resume(), place.path().join("second"));
    wait_for(&mut second.child, LIMIT, "the first step", || {
        known(&runs).len() >= 2
    });
    second.interrupt();
    let before = known(&runs);
    assert!(before.values().all(|n| *n == 1), "{before:?}");

    let output = resume().output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let after = known(&runs);
    assert!(after.values().all(|n| *n == 1), "{after:?}");
    assert!(
        before.keys().all(|id| after.contains_key(id)),
        "an outcome was lost"
    );
    assert_eq!(
        after.keys().filter(|id| !id.contains("-m")).count(),
        4 * 2,
        "each sample of each step has exactly one outcome"
    );
    let summary = last_object(&output);
    assert_eq!(summary["steps"], 2, "{summary}");
    assert_eq!(summary["finished"], true, "{summary}");
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
}
