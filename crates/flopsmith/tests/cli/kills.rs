//! A training run that is killed again and again.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{last_object, only_run, outcomes, train};

/// Ten kills at random moments of one training run; then it is led to its end. About three minutes:
/// `make kills`.
#[test]
#[ignore = "takes minutes; `make kills` runs it"]
#[expect(clippy::print_stderr, reason = "what happened is worth seeing")]
fn ten_kills() {
    const STEPS: usize = 12;
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let steps = format!("max_steps={STEPS}");
    let settings = [
        "tasks=4",
        "group_size=4",
        "evaluate_tasks=2",
        steps.as_str(),
    ];
    let begin = || {
        let mut command = train(&runs, &settings);
        command.args(["--budget", "30m"]);
        command
    };
    let resume = || {
        let mut command = train(&runs, &[]);
        command.arg("--resume");
        command
    };
    let mut known: HashSet<String> = HashSet::new();
    for kill in 0..10 {
        // A kill may come before the run has a folder.
        let begun = only_run(&runs).is_some();
        let mut child = if begun { resume() } else { begin() }
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nanos = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .subsec_nanos();
        let moment = Duration::from_millis(2000 + u64::from(nanos / 1000 % 9000));
        let begun = Instant::now();
        while begun.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "the run ended by itself before kill {kill}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let Some(folder) = only_run(&runs) else {
            continue;
        };
        let now = outcomes(&folder);
        eprintln!(
            "killed after {:.1} s with {} outcomes on disk, {} of them new",
            moment.as_secs_f64(),
            now.len(),
            now.keys().filter(|id| !known.contains(*id)).count()
        );
        assert!(now.values().all(|n| *n == 1), "{now:?}");
        assert!(
            known.iter().all(|id| now.contains_key(id)),
            "an outcome was lost"
        );
        known = now.into_keys().collect();
    }
    let output = resume().output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all = outcomes(&only_run(&runs).unwrap());
    assert!(all.values().all(|n| *n == 1));
    assert!(known.iter().all(|id| all.contains_key(id)));
    assert_eq!(
        all.keys().filter(|id| !id.contains("-m")).count(),
        STEPS * 16 + 2 * 2 * 4,
        "each sample of each step and evaluation has exactly one outcome"
    );
    let summary = last_object(&output);
    eprintln!("{summary}");
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
}
