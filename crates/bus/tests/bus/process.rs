//! Kills of processes: workers, the server, the whole run.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flopsmith_bus::{
    Auth, Bus, LogReader, Options, RunSetup, Server, ServerOptions, Worker, WorkerOptions,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{COMPILE, Job, OUTCOME, World, job, soon, until};

const FOLDER: &str = "FLOPSMITH_TEST_FOLDER";
const URL: &str = "FLOPSMITH_TEST_URL";
const TOKEN: &str = "FLOPSMITH_TEST_TOKEN";

/// This test program again, in the role of one of the helpers below.
fn helper(name: &str, variables: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("process::{name}"), "--ignored"])
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill_now(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
}

fn runs(pid: u32) -> bool {
    // A process that is dead and not yet waited for does not run.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text[..whole].lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_message_goes_to_another() {
    let world = World::new().await;
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let options = world.server.connect_options();
    let Auth::Token(token) = &options.auth else {
        panic!("no token")
    };
    let note = world.folder.path().join("taken");
    let folder = world.folder.path().to_str().unwrap();
    let mut victim = helper(
        "helper_takes_and_hangs",
        &[(FOLDER, folder), (URL, &options.url), (TOKEN, token)],
    );
    until("the victim has the message", || lines(&note) == ["j1"]);
    let mut worker: Worker<Job> = world.bus.worker(hanging_options()).await.unwrap();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let delivery = soon(worker.next()).await.unwrap();
    assert_eq!((delivery.message(), delivery.attempt()), (&job(1), 2));
    delivery.done().await.unwrap();
}

fn hanging_options() -> WorkerOptions {
    WorkerOptions {
        ack_wait: Duration::from_secs(1),
        ..WorkerOptions::new(COMPILE, 1)
    }
}

#[tokio::test]
#[ignore = "a helper process of `a_killed_workers_message_goes_to_another`"]
async fn helper_takes_and_hangs() {
    let mut options = Options::new(std::env::var(URL).unwrap());
    options.auth = Auth::Token(std::env::var(TOKEN).unwrap());
    let bus = Bus::connect(options).await.unwrap();
    let mut worker: Worker<Job> = bus.worker(hanging_options()).await.unwrap();
    let delivery = worker.next().await.unwrap();
    let note = PathBuf::from(std::env::var(FOLDER).unwrap()).join("taken");
    std::fs::write(note, format!("{}\n", delivery.message().id)).unwrap();
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_started_again_and_nothing_is_lost() {
    const JOBS: usize = 600;
    let world = World::new().await;
    let mut worker: Worker<Job> = world
        .bus
        .worker(WorkerOptions {
            ack_wait: Duration::from_secs(2),
            ..WorkerOptions::new(COMPILE, 16)
        })
        .await
        .unwrap();
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    let publisher = tokio::spawn({
        let bus = world.bus.clone();
        async move {
            for number in 0..JOBS {
                bus.publish(COMPILE, &job(number)).await.unwrap();
            }
        }
    });
    let bus = world.bus.clone();
    let role = tokio::spawn(async move {
        while let Some(delivery) = worker.next().await {
            bus.publish(OUTCOME, delivery.message()).await.unwrap();
            // An acknowledgement that was lost with the server only means a redelivery.
            let _ = delivery.done().await;
        }
    });
    let mut outcomes = HashMap::new();
    let mut kills = 0;
    soon(async {
        while outcomes.len() < JOBS {
            let (_, outcome) = log.next().await.unwrap();
            *outcomes.entry(outcome.id).or_insert(0) += 1;
            if outcomes.len() == 150 * (kills + 1) && kills < 3 {
                kills += 1;
                kill_now(world.server.pid().unwrap());
            }
        }
    })
    .await;
    assert_eq!(kills, 3);
    assert!(
        outcomes.values().all(|count| *count == 1),
        "each outcome counts once"
    );
    assert_eq!(world.server.restarts(), 3);
    publisher.await.unwrap();
    let mut again: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    assert_eq!(soon(again.replay()).await.unwrap().len(), JOBS);
    soon(world.bus.drain()).await.unwrap();
    soon(role).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_run_takes_its_server_with_it_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (confirmed, server_pid) = (folder.path().join("confirmed"), folder.path().join("pid"));
    for round in 1..=3 {
        let mut run = helper(
            "helper_runs_a_server",
            &[(FOLDER, folder.path().to_str().unwrap())],
        );
        let goal = lines(&confirmed).len() + 40 * round;
        until("the run publishes", || lines(&confirmed).len() >= goal);
        let pid: u32 = lines(&server_pid)[0].parse().unwrap();
        assert!(runs(pid));
        run.kill().unwrap();
        run.wait().unwrap();
        until("the server is gone", || !runs(pid));
    }
    // The next start needs the store's lock, which the old server held until its end.
    let server = Server::start(None, &folder.path().join("store"), ServerOptions::default())
        .await
        .unwrap();
    let bus = Bus::connect(&server).await.unwrap();
    let mut log: LogReader<Job> = bus.log(OUTCOME, 0).await.unwrap();
    let stored: HashSet<String> = soon(log.replay())
        .await
        .unwrap()
        .into_iter()
        .map(|(_, j)| j.id)
        .collect();
    let confirmed = lines(&confirmed);
    assert!(confirmed.len() >= 240);
    let lost: Vec<_> = confirmed
        .iter()
        .filter(|id| !stored.contains(*id))
        .collect();
    assert!(lost.is_empty(), "confirmed and gone: {lost:?}");
}

#[tokio::test]
#[ignore = "a helper process of `a_killed_run_takes_its_server_with_it_and_loses_nothing`"]
async fn helper_runs_a_server() {
    use std::io::Write;
    let folder = PathBuf::from(std::env::var(FOLDER).unwrap());
    let server = Server::start(None, &folder.join("store"), ServerOptions::default())
        .await
        .unwrap();
    let bus = Bus::connect(&server).await.unwrap();
    bus.ensure_streams(&RunSetup::default()).await.unwrap();
    std::fs::write(folder.join("pid"), format!("{}\n", server.pid().unwrap())).unwrap();
    let mut confirmed = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("confirmed"))
        .unwrap();
    for number in 0.. {
        let mut job = job(number);
        job.id = format!("{}-{number}", std::process::id());
        bus.publish(OUTCOME, &job).await.unwrap();
        confirmed
            .write_all(format!("{}\n", job.id).as_bytes())
            .unwrap();
    }
}
