//! The next supervisor cleans up after a supervisor that was killed at the worst moment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flopsmith_sandbox::{Options, Sandbox};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// The root of a supervisor that has ended.
fn abandoned_root() -> PathBuf {
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
    root
}

#[test]
fn processes_left_by_a_killed_supervisor_are_ended() {
    let root = abandoned_root();
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

/// bubblewrap's second process waits for the first one before it makes its root. If the first one is killed then, with
/// its supervisor, the second one would wait for ever.
#[test]
fn a_jail_whose_supervisor_was_killed_while_it_was_made_is_ended() {
    let root = abandoned_root();
    let (mut report, report_in) = std::io::pipe().unwrap();
    let (hold, _kept_open) = std::io::pipe().unwrap();
    // Children inherit these ends.
    fcntl(&report_in, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    fcntl(&hold, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let mut first = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--as-pid-1"])
        .args(["--info-fd", &report_in.as_raw_fd().to_string()])
        .args(["--userns-block-fd", &hold.as_raw_fd().to_string()])
        .arg("--ro-bind")
        .arg(&root)
        .args(["/", "--ro-bind", "/usr", "/usr", "sleep", "600"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(report_in);
    let mut text = String::new();
    while !text.contains('}') {
        let mut byte = [0];
        assert_eq!(report.read(&mut byte).unwrap(), 1, "{text}");
        text.push(char::from(byte[0]));
    }
    let second: serde_json::Value = serde_json::from_str(&text).unwrap();
    let second = PathBuf::from(format!("/proc/{}", second["child-pid"]));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(is_bwrap(&second), "the second process ended by itself");

    let _sandbox = Sandbox::new(Options::default()).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while is_bwrap(&second) {
        assert!(Instant::now() < end, "the second process stays");
        std::thread::yield_now();
    }
    assert!(!root.exists(), "its root stays");
}

/// True if the process in this folder of `/proc` is one of bubblewrap that has not ended.
fn is_bwrap(process: &Path) -> bool {
    let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
    command.starts_with(b"bwrap\0")
}
