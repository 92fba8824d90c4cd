//! Two processes that measure on one machine.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use flopsmith_test_support::skipped;

use super::{BROKEN, programs, quick, said};
use crate::{last_object, root};

/// The path of the lock on this machine, for any environment.
fn folder_of_locks() -> Option<&'static str> {
    let folders = ["/run/lock", "/dev/shm", "/tmp", "/var/tmp"];
    let everybodys = |folder: &&str| {
        std::fs::metadata(folder).is_ok_and(|m| m.permissions().mode() & 0o1777 == 0o1777)
    };
    folders.into_iter().find(everybodys)
}

#[test]
fn who_measures_beside_another_process_is_told_so_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let everybodys = Permissions::from_mode(0o1777);
    std::fs::set_permissions(place.path(), everybodys).unwrap();
    let Some(locks) = folder_of_locks().filter(|folder| *folder != "/tmp") else {
        skipped("this machine has no folder for locks apart from its temporary files");
        return;
    };
    // A machine with private locks.
    let alone = |program: &str| {
        let mut command = Command::new("bwrap");
        command.args(["--die-with-parent", "--dev-bind", "/", "/", "--bind"]);
        command.arg(place.path()).args([locks, "--", program]);
        command
    };
    let mut probe = alone("bwrap");
    probe.args([
        "--unshare-user",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "true",
    ]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        skipped("no folder of locks of our own can be made here");
        return;
    }
    let mut lock = File::create(place.path().join("flopsmith-measuring.lock")).unwrap();
    lock.lock().unwrap();
    lock.write_all(b"4711 train dgemm-1\n").unwrap();
    let folder = programs(&[("broken.c", BROKEN)]);
    let usual = quick(
        &[&folder.path().join("broken.c")],
        // A nested jail may protect less.
        &["--format", "json", "--allow-weaker-jail"],
    );
    let output = alone(env!("CARGO_BIN_EXE_flopsmith"))
        .args(usual.get_args())
        .current_dir(root())
        .env("FLOPSMITH_WAIT", "0")
        // Each has its own lock.
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["broken.c"]);
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let warned = stderr.matches("warning: process 4711 (train dgemm-1) measures");
    assert_eq!(warned.count(), 1, "{stderr}");
    assert_eq!(last_object(&output)["reason"], "compile_error");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}
