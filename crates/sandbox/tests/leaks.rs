//! Jobs and killed supervisors leave nothing behind. A separate test program, since it counts everything that the
//! process has open.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use flopsmith_sandbox::{Exit, Job, Kind, Options, Sandbox};
use flopsmith_test_support::traces::{self, Traces};

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Child processes of this process, also ended ones.
fn children() -> usize {
    let ours = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok())
        .filter(|s| s[s.rfind(')').unwrap() + 1..].split_whitespace().nth(1) == Some(ours.as_str()))
        .count()
}

fn roots() -> usize {
    let prefix = format!("flopsmith-jail-{}-", std::process::id());
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    entries
        .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
        .count()
}

/// The resources that have clearly grown. Most of them belong to the whole machine, where other processes run; two
/// hundred jobs of four kinds that leave something behind would leave at least fifty.
fn grown(before: &Traces, after: &Traces) -> Vec<String> {
    const FEW: u64 = 20;
    const FEW_KILOBYTES: u64 = 32 << 10;
    let pairs = before.iter().zip(after);
    pairs
        .filter(|((what, before), (_, after))| {
            let room = if what.ends_with("kB") {
                FEW_KILOBYTES
            } else {
                FEW
            };
            *after > before + room
        })
        .map(|((what, before), (_, after))| format!("{what}: {before} before, {after} after"))
        .collect()
}

#[test]
fn two_hundred_jobs_leave_nothing_and_start_fast() {
    let sandbox = Sandbox::new(Options::default()).unwrap();
    let loader = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"]
        .into_iter()
        .find(|p| Path::new(p).exists())
        .unwrap();
    let job = Job::new(Kind::Run { threads: 1 }, [loader, "--version"]);
    assert!(sandbox.run(&job).unwrap().exit.success());
    // The test's own runtime may close one of its files later, so a smaller count is no leak.
    let before = (open_files(), children(), roots());
    let traces_before = traces::take();
    let mut times: Vec<Duration> = Vec::new();
    for i in 0..200 {
        let mut job = job.clone();
        let expected = match i % 4 {
            0 => Exit::Code(0),
            1 => {
                job.program = vec![loader.into(), "/no/such".into()];
                Exit::Code(127)
            }
            2 => {
                job.limits.wall = Duration::ZERO;
                Exit::WallTimeout
            }
            _ => {
                job.program = vec!["/no/such".into()];
                assert!(sandbox.run(&job).is_err());
                continue;
            }
        };
        let started = Instant::now();
        let exit = sandbox.run(&job).unwrap().exit;
        if expected == Exit::Code(0) {
            times.push(started.elapsed());
        }
        // A program may end before the first reading of the clock.
        assert!(
            exit == expected || (i % 4 == 2 && exit.success()),
            "{exit:?}"
        );
    }
    let after = (open_files(), children(), roots());
    assert!(
        after.0 <= before.0 && after.1 <= before.1 && after.2 <= before.2,
        "files, children, roots: {before:?} before, {after:?} after"
    );
    // Control groups, mounts, namespaces, shared memory, and so on.
    let grown = grown(&traces_before, &traces::take());
    assert!(grown.is_empty(), "{grown:#?}");
    times.sort();
    let median = times[times.len() / 2];
    eprintln!("median of a whole job: {median:?}");
    // About 5 ms on an idle machine; the bound only catches gross mistakes on a busy one.
    assert!(median < Duration::from_millis(150), "{median:?}");
    drop(sandbox);
    assert_eq!(roots(), 0, "the jail's root stays");
}
