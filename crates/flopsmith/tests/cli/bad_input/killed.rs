//! Children that are killed and runs that are interrupted.

use super::*;

/// A process that has not died yet.
struct Process {
    pid: u32,
    parent: u32,
    name: String,
}

fn process(folder: &Path) -> Option<Process> {
    let pid = folder.file_name()?.to_str()?.parse::<u32>().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name in parentheses may contain spaces and parentheses.
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

/// The descendants of a process with this name.
pub fn named(ancestor: u32, name: &str) -> Vec<u32> {
    let all = descendants(ancestor).into_iter();
    all.filter(|p| p.name == name).map(|p| p.pid).collect()
}

/// Kills processes. A process that has already ended is no error.
fn kill(pids: &[u32]) {
    let list: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("kill -9 {}", list.join(" "))]);
    command.stderr(Stdio::null()).status().unwrap();
}

/// A search of known length that is long enough for disturbances.
fn short_search(runs: &Path, finalists: &str) -> Running {
    let settings = ["tasks=2", "group_size=4", "max_steps=3", finalists];
    Running::start(search(flopsmith(), runs, "10m", &settings))
}

/// The run reached its end, and each sample has one outcome. Returns its summary.
fn came_to_its_end(run: Running, runs: &Path) -> Value {
    let ended = run.finish(RUN_LIMIT);
    assert_eq!(ended.code, Some(0), "{}", ended.said());
    assert!(!ended.err.contains("panicked at"), "{}", ended.err);
    let all = outcomes(runs);
    assert!(all.values().all(|n| *n == 1), "{all:?}");
    // Repeated measurements have their own ids.
    let samples = all.keys().filter(|id| !id.contains("-m")).count();
    assert_eq!(samples, 3 * 2 * 4, "each sample has exactly one outcome");
    let summary: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["steps"], 3, "{summary}");
    assert_eq!(summary["finished"], true, "{summary}");
    summary
}

#[test]
#[ignore = "takes half a minute or more: make long"]
fn a_run_whose_nats_server_is_killed_goes_on_and_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run = short_search(&runs, "evaluate.finalists=0");
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
#[ignore = "takes half a minute or more: make long"]
fn a_run_whose_jails_are_killed_goes_on_and_each_sample_has_one_outcome() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run = short_search(&runs, "evaluate.finalists=0");
    let pid = run.child.id();
    // First the programs in the jails, also the baseline, then the processes that supervise them.
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
#[ignore = "takes half a minute or more: make long"]
fn a_run_that_is_interrupted_in_its_last_measurements_ends_soon_and_makes_them_later() {
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let mut run_to_stop = short_search(&runs, "evaluate.finalists=1");
    let said = run_to_stop.said.path().join("err");
    run_to_stop.wait_for("the last measurements", || {
        fs::read_to_string(&said).is_ok_and(|text| text.contains("once more…"))
    });
    let pid = run_to_stop.child.id().to_string();
    let done = Command::new("kill").args(["-INT", &pid]).status();
    assert!(done.unwrap().success());
    let ended = run_to_stop.finish(LIMIT);
    assert_eq!(ended.code, Some(130), "{}", ended.said());
    contains(&ended.err, &["resume with", "--resume"]);
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
