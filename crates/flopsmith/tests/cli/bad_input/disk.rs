//! Disks that are full or become full.

use std::os::fd::AsRawFd;

use super::killed::named;
use super::*;
use crate::one_core::on_one_core;

/// The program with a folder on a separate small disk of this many bytes, in its own mount namespace. None if this
/// machine cannot do that.
fn with_a_disk_of(bytes: u64, folder: &Path) -> Option<Command> {
    let disk = || {
        let mut command = plain(Command::new("bwrap"));
        command
            .args(["--die-with-parent", "--dev-bind", "/", "/", "--size"])
            .arg(bytes.to_string())
            .arg("--tmpfs")
            .arg(folder)
            .arg("--");
        command
    };
    // The run's jails must work there as well.
    let mut probe = disk();
    probe.args(["bwrap", "--unshare-user", "--unshare-pid"]);
    probe.args(["--ro-bind", "/", "/", "true"]);
    match probe.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("no disk of a size of our own: {}", said.trim()));
            return None;
        }
        Err(error) => {
            skipped(&format!("bubblewrap cannot be run: {error}"));
            return None;
        }
    }
    let mut command = disk();
    command.arg(env!("CARGO_BIN_EXE_flopsmith"));
    Some(command)
}

/// A search with its folder of runs on such a disk.
fn search_on_a_disk_of(bytes: u64, runs: &Path, budget: &str) -> Option<Command> {
    let command = with_a_disk_of(bytes, runs)?;
    let settings = [
        // A nested jail may protect less.
        "evaluate.allow_weaker_jail=true",
        "tasks=2",
        "group_size=4",
        "max_steps=3",
    ];
    Some(search(command, runs, budget, &settings))
}

/// Samples of such a search until its end.
const SAMPLES: usize = 3 * 2 * 4;

/// A folder without links in its path, so that all processes see the same name.
fn folder_for_a_disk(place: &tempfile::TempDir) -> PathBuf {
    let runs = place.path().canonicalize().unwrap().join("runs");
    fs::create_dir(&runs).unwrap();
    runs
}

fn speaks_of_a_full_disk(error: &str) {
    let ways = ["No space left", "no space is left", "make room", "is full"];
    assert!(ways.iter().any(|words| error.contains(words)), "{error}");
}

#[test]
fn a_disk_that_is_too_small_for_a_run_is_named() {
    let place = tempfile::tempdir().unwrap();
    let runs = folder_for_a_disk(&place);
    let Some(command) = search_on_a_disk_of(3 << 20, &runs, "5s") else {
        return;
    };
    speaks_of_a_full_disk(run(command).one_error(INFRASTRUCTURE));
}

/// The compiler writes its result to the temporary folder, so its messages report a full one.
#[test]
fn a_temporary_folder_that_is_too_small_for_an_object_is_not_the_programs_fault() {
    let place = tempfile::tempdir().unwrap();
    let small = folder_for_a_disk(&place);
    let file = place.path().join("large.c");
    // 16 MiB of table; copies of the C library, which the jail shows, need some 5 MiB of the disk.
    let source = "static double X[1<<21]={1};\n\
        void dgemm(int n,const double*A,const double*B,double*C){C[0]=X[n];}\n";
    fs::write(&file, source).unwrap();
    let Some(mut command) = with_a_disk_of(12 << 20, &small) else {
        return;
    };
    command
        .env("TMPDIR", &small)
        .arg("bench")
        .arg(&file)
        .args(["--problem", "dgemm", "--purpose", "screen"])
        .args(["--format", "json", "--allow-weaker-jail"]);
    let ended = run(command);
    assert_eq!(ended.code, Some(INFRASTRUCTURE), "{}", ended.said());
    let object: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(object["outcome"], "infrastructure", "{object}");
    assert_eq!(object["reason"], "resources", "{object}");
    let detail = object["diagnostics"].as_str().unwrap();
    speaks_of_a_full_disk(detail);
    contains(detail, &["the temporary folder", "TMPDIR"]);
}

#[test]
#[ignore = "takes half a minute or more: make long"]
fn a_run_whose_disk_becomes_full_says_so_and_goes_on_once_there_is_room() {
    const DISK: u64 = 96 << 20;
    let place = tempfile::tempdir().unwrap();
    let runs = folder_for_a_disk(&place);
    let Some(command) = search_on_a_disk_of(DISK, &runs, "10m") else {
        return;
    };
    let mut run = Running::start(command);
    let bwrap = run.child.id();
    let mut inside: Option<u32> = None;
    run.wait_for("the program", || {
        inside = named(bwrap, "flopsmith").first().copied();
        inside.is_some()
    });
    // The disk at the program's path.
    let disk = format!("/proc/{}/root{}", inside.unwrap(), runs.display());
    let disk = PathBuf::from(disk);
    if let Err(error) = fs::read_dir(&disk) {
        skipped(&format!(
            "the run's own disk cannot be reached from outside: {error}"
        ));
        return;
    }
    let device = |path: &Path| path.metadata().unwrap().dev();
    assert_ne!(device(&disk), device(&runs), "it must not be our own disk");
    run.wait_for("some outcomes", || outcomes(&disk).len() >= 2);
    // An open file keeps the disk mounted after the program has ended.
    let held = File::open(&disk).unwrap();
    let disk = PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        held.as_raw_fd()
    ));

    let mut filler = File::create(disk.join("filler")).unwrap();
    let block = vec![1u8; 1 << 20];
    let mut blocks: u64 = 0;
    let deadline = Instant::now() + LIMIT;
    while !run.ended() {
        // The run also uses space that becomes free again.
        while filler.write_all(&block).is_ok() {
            blocks += 1;
            assert!(blocks <= DISK >> 20, "the disk has no end");
        }
        assert!(
            Instant::now() < deadline,
            "the run goes on without a disk: {}",
            run.text("err")
        );
        pause();
    }
    let ended = run.finish(LIMIT);
    let error = ended.one_error(INFRASTRUCTURE);
    speaks_of_a_full_disk(error);
    contains(error, &["the run is kept", "--resume"]);

    drop(filler);
    fs::remove_file(disk.join("filler")).unwrap();
    let saved = place.path().join("saved");
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(disk.join(".")).arg(&saved);
    assert!(copy.status().unwrap().success());
    let before = outcomes(&saved);
    assert!(before.len() >= 2, "{before:?}");
    let mut again = search(flopsmith(), &saved, "10m", &[]);
    again.arg("--resume");
    let ended = Running::start(again).finish(RUN_LIMIT);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    let after = outcomes(&saved);
    assert!(after.values().all(|n| *n == 1), "{after:?}");
    assert!(
        before.keys().all(|id| after.contains_key(id)),
        "an outcome was lost"
    );
    let samples = after.keys().filter(|id| !id.contains("-m")).count();
    assert_eq!(samples, SAMPLES, "each sample has exactly one outcome");
}

#[test]
fn an_output_that_cannot_be_written_in_the_end_leaves_the_summary() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let (runs, best) = (place.path().join("runs"), place.path().join("mine.c"));
    let settings = ["tasks=1", "group_size=2", "max_steps=1"];
    let mut command = search(flopsmith(), &runs, "10m", &settings);
    command.arg("--output").arg(&best);
    let mut run = Running::start(command);
    run.wait_for("its folder", || only_run(&runs).is_some());
    // The command tried it before the folder existed, and now a file takes its place.
    fs::remove_file(&best).unwrap();
    fs::create_dir(&best).unwrap();
    let ended = run.finish(RUN_LIMIT);
    contains(ended.one_error(INFRASTRUCTURE), &["mine.c"]);
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["finished"], true, "{summary}");
    assert!(summary["best"]["source"].is_string(), "{summary}");
}

#[test]
fn a_best_program_that_cannot_be_written_is_this_machines_fault_and_all_else_is_there() {
    on_one_core();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let settings = ["tasks=1", "group_size=2", "max_steps=1"];
    let mut run = Running::start(search(flopsmith(), &runs, "10m", &settings));
    run.wait_for("its folder", || only_run(&runs).is_some());
    let folder = only_run(&runs).unwrap();
    // Not even root can replace a folder by a file.
    fs::create_dir(folder.join("best.c")).unwrap();
    let ended = run.finish(RUN_LIMIT);
    contains(ended.one_error(INFRASTRUCTURE), &["best.c"]);
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["finished"], true, "{summary}");
    assert!(summary["best"]["source"].is_string(), "{summary}");
    assert!(folder.join("report.html").is_file());
}
