//! The program under faults: damaged files, missing tools, an address without a bus, a full disk, killed children. It
//! ends with one clear error and the right exit code, or it continues unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flopsmith_test_support::skipped;
use serde_json::Value;

use crate::quick;

mod compilers;
mod disk;
mod killed;
#[cfg(feature = "torch")]
mod models;
mod node;
mod outputs;
mod parameters;

/// Exit code: something that the user named cannot be used.
const USAGE: i32 = 2;
/// Exit code: this machine cannot do it.
const INFRASTRUCTURE: i32 = 3;

/// A command that fails ends long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// A short run until its end.
const RUN_LIMIT: Duration = Duration::from_secs(300);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A user's own settings must not change the tests.
fn plain(mut command: Command) -> Command {
    command.current_dir(root()).stdin(Stdio::null());
    // The tests themselves keep the machine busy.
    command.env("FLOPSMITH_WAIT", "0");
    quick::on(&mut command);
    for name in ["FLOPSMITH_COMPILER", "FLOPSMITH_FORMAT", "FLOPSMITH_LOG"] {
        command.env_remove(name);
    }
    command
}

fn flopsmith() -> Command {
    plain(Command::new(env!("CARGO_BIN_EXE_flopsmith")))
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(20));
}

/// A started program with its output in files, so that it never waits for a reader. It is killed if the test ends
/// first.
struct Running {
    child: Child,
    said: tempfile::TempDir,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let said = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(said.path().join(name)).unwrap();
        let child = command
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Self { child, said }
    }

    fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.said.path().join(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn wait_for(&mut self, what: &str, mut ready: impl FnMut() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !ready() {
            assert!(
                !self.ended(),
                "it ended before {what}: {}",
                self.text("err")
            );
            assert!(
                Instant::now() < deadline,
                "waited too long for {what}: {}",
                self.text("err")
            );
            pause();
        }
    }

    fn finish(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        while !self.ended() {
            assert!(
                Instant::now() < deadline,
                "it did not end within {limit:?}: {}",
                self.text("err")
            );
            pause();
        }
        Ended {
            code: self.child.wait().unwrap().code(),
            out: self.text("out"),
            err: self.text("err"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program's exit and output.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// All output, for people and for programs.
    fn said(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }

    /// The single error that it ended with.
    fn one_error(&self, code: i32) -> &str {
        let err = &self.err;
        assert_eq!(self.code, Some(code), "{}", self.said());
        assert!(!err.contains("panicked at"), "{err}");
        let mut errors = err
            .match_indices("error: ")
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || err.as_bytes()[at - 1] == b'\n');
        let first = errors.next();
        assert!(first.is_some() && errors.next().is_none(), "{err}");
        &err[first.unwrap()..]
    }
}

fn run(command: Command) -> Ended {
    Running::start(command).finish(LIMIT)
}

fn contains(text: &str, words: &[&str]) {
    for part in words {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// Copies the files of a folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A shell script that can be run as a program.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The path of a program on the PATH.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|p| p.is_file())
}

/// Makes `command` a search with its runs in `runs`.
fn search(mut command: Command, runs: &Path, budget: &str, settings: &[&str]) -> Command {
    command
        .args(["search", "--problem", "dgemm", "--budget", budget])
        .args(["--format", "json", "--runs"])
        .arg(runs);
    // A resumed run has its own settings.
    if !settings.is_empty() {
        command.args(quick::SETTINGS.iter().flat_map(|set| ["--set", set]));
    }
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

/// The folder of the only run.
fn only_run(runs: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(runs).ok()?.filter_map(Result::ok);
    entries.next().map(|e| e.path())
}

/// Outcomes by id, and the number of their lines in the file.
fn outcomes(runs: &Path) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    let Some(folder) = only_run(runs) else {
        return ids;
    };
    let text = fs::read_to_string(folder.join("outcomes.jsonl")).unwrap_or_default();
    // The last line may be incomplete.
    for value in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let id = value["candidate"]["id"].as_str().unwrap().to_owned();
        *ids.entry(id).or_default() += 1;
    }
    ids
}

/// `problem check` of the shipped problem with another reference.
fn check_with_reference(source: &str) -> Ended {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("odd");
    copy(&crate::quick::problems().join("dgemm"), &folder);
    fs::write(folder.join("reference.c"), source).unwrap();
    let mut command = flopsmith();
    command.args(["problem", "check"]).arg(&folder);
    run(command)
}

#[test]
fn a_problem_whose_reference_is_no_good_is_refused_with_the_reason() {
    let refused = |source: &str, words: &[&str]| {
        let ended = check_with_reference(source);
        let said = ended.said();
        assert!(matches!(ended.code, Some(1 | USAGE)), "{said}");
        assert!(!said.contains("panicked at"), "{said}");
        // A problem has several sources, so the message names the one.
        contains(&said, &["reference"]);
        contains(&said, words);
        // Text for people, not the program's internal form.
        assert!(!said.contains("Rejected {"), "{said}");
    };
    let head = "void dgemm(int n, const double *A, const double *B, double *C)\n";
    refused(
        &format!("{head}{{\n    int x = ;\n}}\n"),
        &["compile_error", "error: expected expression"],
    );
    refused(
        &format!("{head}{{\n    *(volatile int *)0 = n;\n}}\n"),
        &["crash", "the program died from SIG"],
    );
    // Every second call is off by one unit in the last place: right within the bound, and not the same bits.
    refused(
        &format!(
            "{head}{{\n\
             \x20   static int calls;\n\
             \x20   double factor = calls++ & 1 ? 1.0000000000000002 : 1.0;\n\
             \x20   for (int i = 0; i < n; i++)\n\
             \x20       for (int j = 0; j < n; j++) {{\n\
             \x20           double sum = 0;\n\
             \x20           for (int k = 0; k < n; k++)\n\
             \x20               sum += A[i * n + k] * B[k * n + j];\n\
             \x20           C[i * n + j] = sum * factor;\n\
             \x20       }}\n\
             }}\n"
        ),
        &["other bits in a second call with the same inputs"],
    );
}

/// A PATH with only bubblewrap. None if this machine has no bubblewrap.
fn path_without_compiler() -> Option<tempfile::TempDir> {
    let Some(bwrap) = on_path("bwrap") else {
        skipped("bubblewrap is not on the PATH");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    symlink(bwrap, folder.path().join("bwrap")).unwrap();
    Some(folder)
}

#[test]
fn a_compiler_that_is_missing_or_broken_is_named_with_what_to_install() {
    let Some(path) = path_without_compiler() else {
        return;
    };
    let file = path.path().join("program.c");
    fs::write(&file, "int other;\n").unwrap();
    let ended_with = |compiler: &str, code: i32, words: &[&str]| {
        let mut command = flopsmith();
        command
            .env("PATH", path.path())
            .arg("bench")
            .arg(&file)
            .args(["--problem", "dgemm", "--purpose", "screen"])
            // This test does not concern the jail's protection.
            .args(["--allow-weaker-jail", "--compiler", compiler]);
        contains(run(command).one_error(code), words);
    };
    let refused = |compiler: &str, words: &[&str]| ended_with(compiler, INFRASTRUCTURE, words);
    refused("gcc", &["`gcc` was not found", "apt install gcc"]);
    let clang = &["`clang` was not found", "apt install clang", "--compiler"];
    refused("clang", clang);
    refused("gcc-99", &["apt install gcc-99", "not on the PATH"]);
    let no_program = path.path().join("gcc-98");
    fs::write(&no_program, "").unwrap();
    let words = &["cannot be executed", "--compiler"];
    ended_with(no_program.to_str().unwrap(), USAGE, words);
    for (mistyped, said) in [
        ("/no/such/gcc", "there is no compiler at `/no/such/gcc`"),
        ("gccc", "`gccc` was not found, and is no name of gcc"),
    ] {
        ended_with(mistyped, USAGE, &[said, "--compiler"]);
    }
    script(path.path(), "gcc", "echo it is a bad day >&2; exit 1");
    refused("gcc", &["gcc --version` failed", "it is a bad day"]);
    // The message names the existing ones.
    refused("clang", &["on the PATH there is gcc"]);
    // A run that names it is refused with the same message.
    let runs = path.path().join("runs");
    let mut command = search(flopsmith(), &runs, "5s", &["evaluate.compiler=clang"]);
    if let Some(server) = on_path("nats-server") {
        command.env("FLOPSMITH_NATS_SERVER", server);
    }
    command.env("PATH", path.path());
    contains(run(command).one_error(INFRASTRUCTURE), clang);
}

#[test]
fn a_missing_compiler_is_not_the_problems_fault() {
    let Some(path) = path_without_compiler() else {
        return;
    };
    let mut command = flopsmith();
    command
        .env("PATH", path.path())
        .args(["problem", "check", "dgemm"]);
    let ended = run(command);
    let said = ended.said();
    assert_eq!(ended.code, Some(INFRASTRUCTURE), "{said}");
    contains(&said, &["apt install gcc"]);
    assert!(!said.contains("this definition has errors"), "{said}");
}

/// A named server takes precedence; another test covers the choice without a name.
#[test]
fn a_nats_server_that_is_too_old_is_named_with_the_version_that_is_needed() {
    let place = tempfile::tempdir().unwrap();
    let old = script(place.path(), "nats-server", "echo nats-server: v2.9.25");
    let runs = place.path().join("runs");
    let mut command = search(flopsmith(), &runs, "5s", &[]);
    command.env("FLOPSMITH_NATS_SERVER", &old);
    contains(
        run(command).one_error(INFRASTRUCTURE),
        &[old.to_str().unwrap(), "2.9.25", "2.10 or newer is needed"],
    );
    assert!(!runs.exists(), "no run was begun");
}

fn no_bus_at(url: &str) {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let setting = format!("nats={url}");
    let command = search(flopsmith(), &runs, "5s", &[setting.as_str()]);
    contains(
        run(command).one_error(INFRASTRUCTURE),
        &["no NATS server can be reached", url],
    );
    assert!(!runs.exists(), "no run was begun");
}

#[test]
fn a_bus_where_nobody_listens_is_given_up() {
    no_bus_at("nats://127.0.0.1:1");
}

#[test]
fn an_address_of_another_kind_is_refused_at_once_with_the_schemes_that_exist() {
    for url in ["http://127.0.0.1:4222", "garbage"] {
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        let setting = format!("nats={url}");
        let command = search(flopsmith(), &runs, "5s", &[setting.as_str()]);
        contains(
            run(command).one_error(USAGE),
            &[url, "nats://HOST:4222", "tls://"],
        );
        assert!(!runs.exists(), "no run was begun");
    }
}

#[test]
fn a_bus_that_is_something_else_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // A client that has closed the connection need not get an answer.
            let _ = client.and_then(|mut c| c.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    no_bus_at(&url);
}

#[test]
fn a_place_where_no_run_can_be_written_is_named_and_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    let refused = |runs: &Path| {
        let there = runs.exists();
        let ended = run(search(flopsmith(), runs, "5s", &[]));
        contains(ended.one_error(USAGE), &[runs.to_str().unwrap()]);
        assert_eq!(runs.exists(), there, "{}", runs.display());
    };
    refused(&file.join("runs"));
    // Not even root can make folders here; the last one exists and takes no files.
    refused(Path::new("/proc/flopsmith-runs"));
    refused(Path::new("/sys/flopsmith-runs"));
    refused(Path::new("/proc/self"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}
