//! The binary where something is wrong: damaged files, missing tools, a bus that is none, a full disk, killed children.
//! It ends with one clear error and the exit code that goes with it, or it goes on as if nothing had happened.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What the user named cannot be used.
const USAGE: i32 = 2;
/// This machine cannot do it.
const INFRASTRUCTURE: i32 = 3;

/// Whatever ends with an error does so long before this, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// A short run that is led to its end.
const RUN_LIMIT: Duration = Duration::from_secs(300);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a user has set for everyday use must not change what is tested.
fn plain(mut command: Command) -> Command {
    command.current_dir(root()).stdin(Stdio::null());
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

/// A started program, with what it says in files: nobody has to read it for the program to go on.
/// It is killed when the test is over before it is.
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

/// How a program ended, and what it said.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    /// Everything it said, for people and for programs.
    fn said(&self) -> String {
        format!("{}\n{}", self.out, self.err)
    }

    /// The one error it ended with.
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

/// Where a program lies that the PATH leads to.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|p| p.is_file())
}

/// Lets `command` search, with its runs in `runs`.
fn search(mut command: Command, runs: &Path, budget: &str, settings: &[&str]) -> Command {
    command
        .args(["search", "--problem", "dgemm", "--budget", budget])
        .args(["--format", "json", "--runs"])
        .arg(runs);
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

/// Outcomes by id, and how often each stands in the file.
fn outcomes(runs: &Path) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    let Some(folder) = only_run(runs) else {
        return ids;
    };
    let text = fs::read_to_string(folder.join("outcomes.jsonl")).unwrap_or_default();
    // The last line may still be on its way.
    for value in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        let id = value["candidate"]["id"].as_str().unwrap().to_owned();
        *ids.entry(id).or_default() += 1;
    }
    ids
}

#[cfg(feature = "torch")]
mod models {
    use super::*;
    use serde_json::json;

    /// A tensor as the header describes it, and its bytes.
    type Tensor = (Value, Vec<u8>);

    /// A copy of the starter.
    fn model() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        copy(&root().join("models/starter"), folder.path());
        folder
    }

    /// Writes the weights anew after `change`: eight bytes with the length of the header, the header, the data.
    fn rewrite(folder: &Path, change: impl FnOnce(&mut BTreeMap<String, Tensor>)) {
        let path = folder.join("model.safetensors");
        let bytes = fs::read(&path).unwrap();
        let (length, rest) = bytes.split_at(8);
        let length = u64::from_le_bytes(length.try_into().unwrap());
        let (header, data) = rest.split_at(usize::try_from(length).unwrap());
        let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
        let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
        for (name, entry) in header {
            if name != "__metadata__" {
                let offset = |n: usize| entry["data_offsets"][n].as_u64().unwrap();
                let begin = usize::try_from(offset(0)).unwrap();
                let end = usize::try_from(offset(1)).unwrap();
                tensors.insert(name, (entry, data[begin..end].to_vec()));
            }
        }
        change(&mut tensors);
        let mut header = serde_json::Map::new();
        let mut data: Vec<u8> = Vec::new();
        for (name, (mut entry, content)) in tensors {
            let begin = data.len();
            data.extend_from_slice(&content);
            entry["data_offsets"] = json!([begin, data.len()]);
            header.insert(name, entry);
        }
        let mut header = Value::Object(header).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&data);
        fs::write(&path, file).unwrap();
    }

    fn inspect(folder: &Path) -> Ended {
        let mut command = flopsmith();
        command.args(["model", "inspect"]).arg(folder);
        run(command)
    }

    /// The folder cannot be used, and it is said why.
    fn refused(folder: &Path, words: &[&str]) {
        let ended = inspect(folder);
        let said = ended.said();
        assert_eq!(ended.code, Some(USAGE), "{said}");
        assert!(!said.contains("panicked at"), "{said}");
        contains(&said, words);
    }

    #[test]
    fn a_model_whose_weights_are_not_what_they_should_be_is_refused_by_the_tensors_name() {
        let whole = model();
        rewrite(whole.path(), |_| {});
        let ended = inspect(whole.path());
        assert_eq!(ended.code, Some(0), "{}", ended.said());

        let missing = model();
        rewrite(missing.path(), |tensors| {
            tensors.remove("model.norm.weight").unwrap();
        });
        refused(missing.path(), &["model.norm.weight is missing"]);

        let misshapen = model();
        let name = "model.layers.0.mlp.down_proj.weight";
        rewrite(misshapen.path(), |tensors| {
            // As many bytes as before, so that only the configuration tells that it is wrong.
            tensors.get_mut(name).unwrap().0["shape"] = json!([512, 192]);
        });
        refused(
            misshapen.path(),
            &[name, "[512, 192] where [192, 512] is wanted"],
        );
    }

    #[test]
    fn a_model_folder_whose_files_are_cut_off_or_missing_is_refused_by_the_files_name() {
        let cut = model();
        let weights = cut.path().join("model.safetensors");
        let length = weights.metadata().unwrap().len();
        let file = File::options().write(true).open(&weights).unwrap();
        for left in [length - 1000, 100, 0] {
            file.set_len(left).unwrap();
            refused(
                cut.path(),
                &["model.safetensors", "no readable safetensors data"],
            );
        }
        for name in ["model.safetensors", "config.json", "tokenizer.json"] {
            let folder = model();
            fs::remove_file(folder.path().join(name)).unwrap();
            refused(folder.path(), &["cannot read", name]);
        }
    }

    #[test]
    fn training_with_a_model_that_does_not_load_ends_before_it_begins() {
        let folder = model();
        rewrite(folder.path(), |tensors| {
            tensors.remove("model.norm.weight").unwrap();
        });
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        let mut command = flopsmith();
        command
            .args(["train", "examples/dgemm.toml", "--budget", "5m", "--set"])
            .arg(format!("generator.model={}", folder.path().display()))
            .arg("--runs")
            .arg(&runs);
        let ended = run(command);
        contains(
            ended.one_error(USAGE),
            &[
                folder.path().to_str().unwrap(),
                "model.norm.weight is missing",
            ],
        );
        assert_eq!(only_run(&runs), None, "no run is left behind");
    }
}

/// `problem check` of the shipped problem with another reference.
fn check_with_reference(source: &str) -> Ended {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("odd");
    copy(&root().join("problems/dgemm"), &folder);
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
        // A problem has more than one source: it is said which.
        contains(&said, &["reference"]);
        contains(&said, words);
        // For people, and not as the program itself holds it.
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
        &["other bits when the same inputs come again"],
    );
}

/// A PATH that leads to bubblewrap and to nothing else. None where this machine has no bubblewrap.
fn path_without_compiler() -> Option<tempfile::TempDir> {
    let Some(bwrap) = on_path("bwrap") else {
        eprintln!("skipped: bubblewrap is not on the PATH");
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
    let refused = |compiler: &str, words: &[&str]| {
        let mut command = flopsmith();
        command
            .env("PATH", path.path())
            .arg("bench")
            .arg(&file)
            .args(["--problem", "dgemm", "--purpose", "screen"])
            // How much the jail protects is not what this is about.
            .args(["--allow-weaker-jail", "--compiler", compiler]);
        contains(run(command).one_error(INFRASTRUCTURE), words);
    };
    refused("gcc", &["`gcc` was not found", "apt install gcc"]);
    refused("clang", &["`clang` was not found", "apt install clang"]);
    refused("/no/such/gcc", &["`/no/such/gcc` was not found"]);
    script(path.path(), "gcc", "echo it is a bad day >&2; exit 1");
    refused("gcc", &["gcc --version` failed", "it is a bad day"]);
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
    assert!(!said.contains("needs mending"), "{said}");
}

/// A server that is named counts; which one is taken when none is named is tested where it is looked for.
#[test]
fn a_nats_server_that_is_too_old_is_named_with_the_version_that_is_needed() {
    let place = tempfile::tempdir().unwrap();
    let old = script(place.path(), "nats-server", "echo nats-server: v2.9.25");
    let mut command = search(flopsmith(), &place.path().join("runs"), "5s", &[]);
    command.env("FLOPSMITH_NATS_SERVER", &old);
    contains(
        run(command).one_error(INFRASTRUCTURE),
        &[old.to_str().unwrap(), "2.9.25", "2.10 or newer is needed"],
    );
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
}

#[test]
fn a_bus_where_nobody_listens_is_given_up() {
    no_bus_at("nats://127.0.0.1:1");
}

#[test]
fn a_bus_that_is_something_else_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // Who has hung up already need not hear it.
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
    // Not even root makes folders here; the last one is there and takes nothing.
    refused(Path::new("/proc/flopsmith-runs"));
    refused(Path::new("/sys/flopsmith-runs"));
    refused(Path::new("/proc/self"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// A search whose folder of runs is a disk of its own with so many bytes, which nobody else sees.
/// None where this machine cannot do that.
fn search_on_a_disk_of(bytes: u64, runs: &Path, budget: &str) -> Option<Command> {
    let disk = || {
        let mut command = plain(Command::new("bwrap"));
        command
            .args(["--die-with-parent", "--dev-bind", "/", "/", "--size"])
            .arg(bytes.to_string())
            .arg("--tmpfs")
            .arg(runs)
            .arg("--");
        command
    };
    // The jails of the run must be possible in there as well.
    let mut probe = disk();
    probe.args(["bwrap", "--unshare-user", "--unshare-pid"]);
    probe.args(["--ro-bind", "/", "/", "true"]);
    match probe.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: no disk of a size of our own: {}", said.trim());
            return None;
        }
        Err(error) => {
            eprintln!("skipped: bubblewrap cannot be run: {error}");
            return None;
        }
    }
    let mut command = disk();
    command.arg(env!("CARGO_BIN_EXE_flopsmith"));
    // A jail in a jail may protect less.
    let settings = ["evaluate.allow_weaker_jail=true"];
    Some(search(command, runs, budget, &settings))
}

/// A folder in a place without links, so that it has the same name for everybody.
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

#[test]
fn a_disk_that_becomes_full_ends_the_run_with_a_word_about_it() {
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
    // The disk, as the program has it before it.
    let disk = format!("/proc/{}/root{}", inside.unwrap(), runs.display());
    let disk = PathBuf::from(disk);
    if let Err(error) = fs::read_dir(&disk) {
        eprintln!("skipped: the run's own disk cannot be reached from outside: {error}");
        return;
    }
    let device = |path: &Path| path.metadata().unwrap().dev();
    assert_ne!(device(&disk), device(&runs), "it must not be our own disk");
    run.wait_for("some outcomes", || outcomes(&disk).len() >= 2);

    let mut filler = File::create(disk.join("filler")).unwrap();
    let block = vec![1u8; 1 << 20];
    let mut blocks: u64 = 0;
    let deadline = Instant::now() + LIMIT;
    while !run.ended() {
        // What becomes free again is taken as well.
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
    speaks_of_a_full_disk(run.finish(LIMIT).one_error(INFRASTRUCTURE));
}

/// A process that is not yet dead.
struct Process {
    pid: u32,
    parent: u32,
    name: String,
}

fn process(folder: &Path) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse::<u32>().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses.
    let (start, end) = (stat.find('(')?, stat.rfind(')')?);
    let mut rest = stat[end + 1..].split_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse::<u32>().ok()?;
    (state != "Z").then(|| Process {
        pid,
        parent,
        name: stat[start + 1..end].to_owned(),
    })
}

/// The children of a process, their children, and so on.
fn descendants(ancestor: u32) -> Vec<Process> {
    let mut left: Vec<Process> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| process(&entry.ok()?.path()))
        .collect();
    let mut parents = vec![ancestor];
    let mut found = Vec::new();
    loop {
        let (below, others): (Vec<Process>, Vec<Process>) =
            left.into_iter().partition(|p| parents.contains(&p.parent));
        if below.is_empty() {
            return found;
        }
        parents = below.iter().map(|p| p.pid).collect();
        found.extend(below);
        left = others;
    }
}

/// The descendants of a process that have a certain name.
fn named(ancestor: u32, name: &str) -> Vec<u32> {
    let all = descendants(ancestor).into_iter();
    all.filter(|p| p.name == name).map(|p| p.pid).collect()
}

/// Kills processes. One that has ended by itself meanwhile is no mistake.
fn kill(pids: &[u32]) {
    let list: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("kill -9 {}", list.join(" "))]);
    command.stderr(Stdio::null()).status().unwrap();
}

/// A search of known length, which is long enough to be disturbed.
fn short_search(runs: &Path) -> Running {
    let settings = ["tasks=2", "group_size=4", "max_steps=3"];
    Running::start(search(flopsmith(), runs, "10m", &settings))
}

/// It came to its end, and each sample has its outcome once. Returns what it came to.
fn came_to_its_end(run: Running, runs: &Path) -> Value {
    let ended = run.finish(RUN_LIMIT);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    assert!(!ended.err.contains("panicked at"), "{}", ended.err);
    let all = outcomes(runs);
    assert!(all.values().all(|n| *n == 1), "{all:?}");
    // Measurements that were repeated have ids of their own.
    let samples = all.keys().filter(|id| !id.contains("-m")).count();
    assert_eq!(samples, 3 * 2 * 4, "each sample has exactly one outcome");
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["steps"], 3, "{summary}");
    assert_eq!(summary["finished"], true, "{summary}");
    summary
}

#[test]
fn a_run_whose_nats_server_is_killed_goes_on_and_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run = short_search(&runs);
    let pid = run.child.id();
    let mut server: Vec<u32> = Vec::new();
    let mut before: Vec<u32> = Vec::new();
    for number in [2, 6] {
        run.wait_for("a nats-server that was not killed yet", || {
            server = named(pid, "nats-server");
            !server.is_empty() && server != before && outcomes(&runs).len() >= number
        });
        kill(&server);
        before.clone_from(&server);
    }
    let summary = came_to_its_end(run, &runs);
    assert_eq!(summary["infrastructure_errors"], 0, "{summary}");
}

#[test]
fn a_run_whose_jails_are_killed_goes_on_and_each_sample_has_one_outcome() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run = short_search(&runs);
    let pid = run.child.id();
    // First the programs in the jails, the baseline among them, then the processes that watch over them.
    for (number, watchers) in [(1, false), (4, false), (8, true)] {
        let mut victims: Vec<u32> = Vec::new();
        run.wait_for("programs in their jails", || {
            if outcomes(&runs).len() < number {
                return false;
            }
            victims = descendants(pid)
                .into_iter()
                .filter(|p| p.name == "harness")
                .map(|p| if watchers { p.parent } else { p.pid })
                .filter(|victim| *victim != pid)
                .collect();
            !victims.is_empty()
        });
        kill(&victims);
    }
    came_to_its_end(run, &runs);
}

#[test]
fn a_run_that_is_interrupted_in_its_last_measurements_ends_soon_and_makes_them_later() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run_to_stop = short_search(&runs);
    let said = run_to_stop.said.path().join("err");
    run_to_stop.wait_for("the last measurements", || {
        fs::read_to_string(&said).is_ok_and(|text| text.contains("once more…"))
    });
    let pid = run_to_stop.child.id().to_string();
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    let ended = run_to_stop.finish(LIMIT);
    assert_eq!(ended.code, Some(130), "{}", ended.said());
    contains(&ended.err, &["go on with", "--resume"]);
    let facts = || -> Value {
        let bytes = fs::read(only_run(&runs).unwrap().join("run.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    assert_eq!(facts()["finished"], true);
    assert_eq!(facts()["concluded"], false);
    let mut again = search(flopsmith(), &runs, "10m", &[]);
    again.arg("--resume");
    let ended = run(again);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    assert_eq!(facts()["concluded"], true);
}
