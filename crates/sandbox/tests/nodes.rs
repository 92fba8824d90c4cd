//! Nodes that lack something: the tests make the sandbox in a process with fewer permissions.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::Path;
use std::process::Command;

use flopsmith_sandbox::{Limits, MemoryBound, Options, Sandbox};
use flopsmith_test_support::skipped;

/// Set in the process with fewer permissions; the value is a job's stack, in bytes.
const INSIDE: &str = "FLOPSMITH_TEST_INSIDE";
/// Precedes the result of making a sandbox there.
const CAME_TO: &str = "came to: ";

/// A helper that the tests start.
#[test]
fn inside() {
    let Ok(stack) = std::env::var(INSIDE) else {
        return;
    };
    let limits = Limits {
        stack_bytes: stack.parse().unwrap(),
        ..Limits::default()
    };
    let tried = Sandbox::new(Options::default()).and_then(|sandbox| {
        sandbox.try_limits(&limits, MemoryBound::AddressSpace)?;
        let reduced = sandbox.reduced();
        Ok(reduced.iter().map(ToString::to_string).collect::<Vec<_>>())
    });
    match tried {
        Ok(reduced) => println!("{CAME_TO}a jail {}", reduced.join("; ")),
        Err(error) => println!("{CAME_TO}{error}"),
    }
}

/// The result of making a sandbox after these shell commands, for a job with a stack of this many MiB. None if the
/// shell cannot run them here.
fn behind(before: &[&str], does: &str, stack: u64) -> Option<String> {
    let this = std::env::current_exe().unwrap();
    let script = format!("{does} exec \"$0\" --exact inside --nocapture");
    let mut words = before.to_vec();
    words.extend(["sh", "-c", &script, this.to_str().unwrap()]);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command.env(INSIDE, (stack << 20).to_string());
    let said = match command.output() {
        Ok(output) => format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => error.to_string(),
    };
    let came_to = said.split_once(CAME_TO).map(|(_, rest)| rest);
    if came_to.is_none() {
        skipped(&format!("no process that may less can be made: {said}"));
    }
    Some(came_to?.lines().next().unwrap().to_owned())
}

/// With a limit that cannot be raised.
fn under(limit: &str, stack: u64) -> Option<String> {
    const UNABLE: [&str; 3] = [
        "setpriv",
        "--bounding-set=-sys_resource",
        "--inh-caps=-sys_resource",
    ];
    let root = nix::unistd::geteuid().is_root();
    let before: &[&str] = if root { &UNABLE } else { &[] };
    behind(before, &format!("ulimit {limit};"), stack)
}

fn contains(text: &str, words: &[&str]) {
    for part in words {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn a_job_gets_the_stack_there_is_where_that_is_the_usual_one() {
    let Some(said) = under("-s 8192", 64) else {
        return;
    };
    contains(
        &said,
        &[
            "a jail ",
            "stack of 8 MiB instead of 64 MiB",
            "RLIMIT_STACK",
        ],
    );
    // A job within the limits lacks nothing.
    let said = under("-s 8192", 8).unwrap();
    assert_eq!(said, "a jail ");
}

#[test]
fn a_limit_that_is_too_low_is_named_with_its_value_and_what_raises_it() {
    for (limit, words) in [
        ("-s 4096", ["RLIMIT_STACK", "4 MiB", "`ulimit -Hs 8192`"]),
        (
            "-v 500000",
            ["RLIMIT_AS", "500000 KiB", "`ulimit -Hv 1048576`"],
        ),
        (
            "-d 500000",
            ["RLIMIT_DATA", "500000 KiB", "`ulimit -Hd 1048576`"],
        ),
        ("-t 5", ["RLIMIT_CPU", "5 s", "`ulimit -Ht 10`"]),
        ("-f 1000", ["RLIMIT_FSIZE", "500 KiB", "`ulimit -Hf 32768`"]),
        ("-n 40", ["RLIMIT_NOFILE", "40", "`ulimit -Hn 64`"]),
    ] {
        let Some(said) = under(limit, 8) else {
            return;
        };
        contains(&said, &words);
    }
}

#[test]
fn a_setting_that_forbids_namespaces_is_named() {
    for (name, words) in [
        ("user", "user.max_user_namespaces is 0"),
        ("mnt", "user.max_mnt_namespaces is 0"),
        ("net", "user.max_net_namespaces is 0"),
        ("pid", "user.max_pid_namespaces is 0"),
    ] {
        let does = format!("echo 0 >/proc/sys/user/max_{name}_namespaces &&");
        let Some(said) = behind(&["unshare", "-Ur"], &does, 8) else {
            return;
        };
        contains(&said, &[words, "sysctl -w user.max_"]);
        assert!(!said.contains("install"), "{said}");
    }
}

#[test]
fn a_temporary_folder_from_which_nothing_can_be_loaded_is_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let does = format!("mount -t tmpfs -o noexec none {folder} && export TMPDIR={folder} &&");
    if let Some(said) = behind(&["unshare", "-Urm"], &does, 8) {
        contains(&said, &[folder, "`noexec`", "set TMPDIR to"]);
    }
    let said = behind(&[], "export TMPDIR=/no/such/folder;", 8).unwrap();
    contains(&said, &["/no/such/folder", "set TMPDIR to"]);
    assert!(!Path::new("/no/such/folder").exists());
}
