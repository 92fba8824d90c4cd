//! The lock by which processes that measure on one machine notice each other.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use flopsmith_test_support::skipped;

use super::{BROKEN, programs, quick, said};
use crate::{last_object, root};

/// The lock's name.
const FILE: &str = "flopsmith-measuring.lock";
/// The folders where it may lie for all users, best first.
const FOLDERS: [&str; 4] = ["/run/lock", "/dev/shm", "/tmp", "/var/tmp"];
/// A nested jail may protect less.
const NESTED: [&str; 3] = ["--format", "json", "--allow-weaker-jail"];

/// The path of the lock on this machine, for any environment.
fn folder_of_locks() -> Option<&'static str> {
    let everybodys = |folder: &&str| {
        std::fs::metadata(folder).is_ok_and(|m| m.permissions().mode() & 0o1777 == 0o1777)
    };
    FOLDERS.into_iter().find(everybodys)
}

/// A program on a machine that has these folders in place of its own.
fn among(folders: &[(&Path, &str)], program: &str) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--die-with-parent", "--dev-bind", "/", "/"]);
    for (folder, place) in folders {
        command.arg("--bind").arg(folder).arg(place);
    }
    command.args(["--", program]);
    command
}

/// True if such a machine can be made, and a jail inside of it.
fn can_be_made(folders: &[(&Path, &str)]) -> bool {
    let mut probe = among(folders, "bwrap");
    probe.args([
        "--unshare-user",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "true",
    ]);
    probe.output().is_ok_and(|output| output.status.success())
}

#[test]
fn bench_warns_of_another_measuring_process_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let everybodys = Permissions::from_mode(0o1777);
    std::fs::set_permissions(place.path(), everybodys).unwrap();
    let Some(locks) = folder_of_locks().filter(|folder| *folder != "/tmp") else {
        skipped("this machine has no folder for locks apart from its temporary files");
        return;
    };
    // A machine with private locks.
    let folders = [(place.path(), locks)];
    if !can_be_made(&folders) {
        skipped("no folder of locks of our own can be made here");
        return;
    }
    let mut lock = File::create(place.path().join(FILE)).unwrap();
    lock.lock().unwrap();
    lock.write_all(b"4711 train dgemm-1\n").unwrap();
    let folder = programs(&[("broken.c", BROKEN)]);
    let usual = quick(&[&folder.path().join("broken.c")], &NESTED);
    let output = among(&folders, env!("CARGO_BIN_EXE_flopsmith"))
        .args(usual.get_args())
        .current_dir(root())
        .env("FLOPSMITH_PROBLEMS", crate::quick::problems())
        .env("FLOPSMITH_WAIT", "0")
        // Each has its own lock.
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert_eq!(names_in(folder.path()), ["broken.c"]);
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let warned = stderr.matches("warning: process 4711 (train dgemm-1) measures");
    assert_eq!(warned.count(), 1, "{stderr}");
    assert_eq!(last_object(&output)["reason"], "compile_error");
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

#[test]
fn where_no_folder_is_everybodys_the_working_folder_stays_as_it_was() {
    // Not among the temporary files, whose folder is replaced.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [closed, working, own, temporary] = ["closed", "working", "own", "temporary"].map(|name| {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    });
    let there = FOLDERS
        .into_iter()
        .filter(|folder| Path::new(folder).is_dir());
    let folders: Vec<(&Path, &str)> = there.map(|folder| (closed.as_path(), folder)).collect();
    let hidden = FOLDERS.iter().any(|folder| closed.starts_with(folder));
    if hidden || !can_be_made(&folders) {
        skipped("no machine without folders of all users can be made here");
        return;
    }
    std::fs::write(working.join("broken.c"), BROKEN).unwrap();
    let usual = quick(&[Path::new("broken.c")], &NESTED);
    for runtime in ["", ".", "locks", own.to_str().unwrap()] {
        let output = among(&folders, env!("CARGO_BIN_EXE_flopsmith"))
            .args(usual.get_args())
            .current_dir(&working)
            .env("FLOPSMITH_PROBLEMS", crate::quick::problems())
            .env("FLOPSMITH_WAIT", "0")
            .env("TMPDIR", &temporary)
            .env("XDG_RUNTIME_DIR", runtime)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert_eq!(last_object(&output)["reason"], "compile_error");
        assert_eq!(names_in(&working), ["broken.c"], "`{runtime}`");
    }
    assert_eq!(names_in(&own), [FILE]);
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}
