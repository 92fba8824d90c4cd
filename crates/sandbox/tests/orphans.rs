//! The next supervisor cleans up after a supervisor that was killed at the worst moment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use flopsmith_sandbox::{Options, Sandbox};

#[test]
fn processes_left_by_a_killed_supervisor_are_ended() {
    use std::process::{Command, Stdio};
    // A process that has ended, so that its number belongs to no process.
    let mut gone = Command::new("true").spawn().unwrap();
    let owner = gone.id();
    gone.wait().unwrap();
    let root = std::env::temp_dir().join(format!("flopsmith-jail-{owner}-left"));
    for folder in ["usr", "tmp", "scratch/compile-half-done"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (link, target) in [
        ("bin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
    ] {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    std::fs::write(root.join("lock"), "").unwrap();
    let mut orphan = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--as-pid-1", "--ro-bind"])
        .arg(&root)
        .args(["/", "--ro-bind", "/usr", "/usr", "sleep", "600"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", orphan.id());
    let end = Instant::now() + Duration::from_secs(10);
    // Until its own root is in place it does not look like a jail.
    let jailed = |pid: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|m| {
            m.lines()
                .any(|l| l.contains("flopsmith-jail-") && l.split(' ').nth(4) == Some("/"))
        })
    };
    while !std::fs::read_to_string(&children)
        .unwrap()
        .split_whitespace()
        .any(jailed)
    {
        assert!(Instant::now() < end && orphan.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let sandbox = Sandbox::new(Options::default()).unwrap();
    let status = orphan.wait().unwrap();
    assert!(!status.success(), "the orphan ended by itself: {status}");
    assert!(!root.exists(), "its root stays");
    let scratch = sandbox.scratch();
    std::fs::write(scratch.join("object.so"), "").unwrap();
    drop(sandbox);
    assert!(!scratch.exists(), "files of jobs stay");
}
