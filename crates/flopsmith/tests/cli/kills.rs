//! Repeated kills of a training run.

use std::collections::HashSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{last_object, only_run, outcomes, train, wait_for};

/// The measurements of a session before its roles start take less, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// The seed of the moments of the kills: the same ten in each run, so that a failure repeats as far as timing permits.
const SEED: u64 = 1234;

/// The moment of the next kill after a session's first outcome. Multiples modulo a prime spread over three seconds; the
/// powers of 811 repeat only after 1499 of them.
fn next_moment(moment: Duration) -> Duration {
    Duration::from_millis(moment.as_millis() as u64 * 811 % 2999)
}

/// Ten kills of one training run, each at another moment after its session's first outcome; then the run reaches its
/// end. Takes some minutes: `make long`.
#[test]
#[ignore = "takes minutes: make long"]
#[expect(clippy::print_stderr, reason = "what happened is worth seeing")]
fn ten_kills() {
    // Enough for more than ten sessions.
    const STEPS: usize = 24;
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
    let mut moment = Duration::from_millis(SEED);
    for kill in 0..10 {
        let mut child = if kill == 0 { begin() } else { resume() }
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        moment = next_moment(moment);
        // Before that the session measures the machine, and a kill would lose nothing.
        let new = |folder: &Path| {
            let now = outcomes(folder);
            now.keys().filter(|id| !known.contains(*id)).count()
        };
        wait_for(&mut child, LIMIT, "a new outcome", || {
            only_run(&runs).is_some_and(|folder| new(&folder) > 0)
        });
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
        let folder = only_run(&runs).unwrap();
        let (now, fresh) = (outcomes(&folder), new(&folder));
        eprintln!(
            "killed {:.1} s after the first new outcome with {} outcomes on disk, {fresh} of them new",
            moment.as_secs_f64(),
            now.len()
        );
        assert!(fresh > 0, "what was there before kill {kill} is gone");
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
