//! The private server: each failed start has its own clear error.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use flopsmith_bus::server::Error as ServerError;
use flopsmith_bus::{Bus, Error, Options, RunSetup, Server, ServerOptions, Sync};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{COMPILE, Job, World, job, soon, until};

async fn refused(binary: Option<PathBuf>, store: &Path, options: ServerOptions) -> ServerError {
    match Server::start(binary, store, options).await {
        Ok(server) => panic!("it started: {server:?}"),
        Err(error) => error,
    }
}

fn program(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_program_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let options = ServerOptions::default;

    let old = program(folder.path(), "old", "echo nats-server: v2.9.10");
    let error = refused(Some(old.clone()), &store, options()).await;
    assert!(
        matches!(&error, ServerError::TooOld { found, .. } if found == "2.9.10"),
        "{error}"
    );
    assert!(error.to_string().contains(old.to_str().unwrap()), "{error}");

    let other = program(folder.path(), "other", "echo I am something else");
    let error = refused(Some(other), &store, options()).await;
    assert!(matches!(error, ServerError::NoServer { .. }), "{error}");

    let text = folder.path().join("text");
    std::fs::write(&text, "text").unwrap();
    let error = refused(Some(text), &store, options()).await;
    assert!(matches!(error, ServerError::Unusable { .. }), "{error}");

    let error = refused(Some(folder.path().join("missing")), &store, options()).await;
    assert!(matches!(error, ServerError::NotThere { .. }), "{error}");

    let dying = program(
        folder.path(),
        "dying",
        "[ \"$1\" = --version ] && echo v2.15.1 && exit; echo '[FTL] it is a bad day' >&2; exit 3",
    );
    let error = refused(Some(dying), &store, options()).await;
    assert!(
        matches!(&error, ServerError::Ended { said, .. } if said == "it is a bad day"),
        "{error}"
    );

    let silent = program(
        folder.path(),
        "silent",
        "[ \"$1\" = --version ] && echo v2.15.1 && exit; exec tail -f /dev/null",
    );
    let error = refused(
        Some(silent),
        &store,
        ServerOptions {
            start_limit: Duration::from_millis(300),
            ..options()
        },
    )
    .await;
    assert!(matches!(error, ServerError::Slow { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_port_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        port: Some(port),
        ..ServerOptions::default()
    };
    let error = refused(None, folder.path(), options.clone()).await;
    assert!(
        matches!(error, ServerError::PortBusy { port: p } if p == port),
        "{error}"
    );
    drop(listener);
    let server = Server::start(None, folder.path(), options).await.unwrap();
    assert_eq!(server.url(), format!("nats://127.0.0.1:{port}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = refused(None, &file.join("store"), ServerOptions::default()).await;
    assert!(matches!(error, ServerError::Store { .. }), "{error}");
    // Not even root can write here.
    let error = refused(None, Path::new("/proc/self"), ServerOptions::default()).await;
    assert!(matches!(error, ServerError::Store { .. }), "{error}");

    let options = ServerOptions {
        min_free_bytes: u64::MAX,
        ..ServerOptions::default()
    };
    let error = refused(None, &folder.path().join("store"), options).await;
    assert!(matches!(error, ServerError::StoreFull { .. }), "{error}");

    let _first = Server::start(None, &folder.path().join("store"), ServerOptions::default())
        .await
        .unwrap();
    let error = refused(None, &folder.path().join("store"), ServerOptions::default()).await;
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_and_keeps_what_it_has() {
    let options = ServerOptions {
        max_store_bytes: Some(1 << 20),
        ..ServerOptions::default()
    };
    let world = World::with(&RunSetup::default(), options).await;
    let mut stored = 0;
    let error = loop {
        let job = Job {
            id: format!("j{stored}"),
            text: "x".repeat(100_000),
        };
        match world.bus.publish(crate::OUTCOME, &job).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the limit does not hold");
    };
    assert!(
        matches!(error, Error::StoreFull { .. }),
        "{error}: {:?}",
        std::error::Error::source(&error)
    );
    let mut log: flopsmith_bus::LogReader<Job> = world.bus.log(crate::OUTCOME, 0).await.unwrap();
    assert_eq!(soon(log.replay()).await.unwrap().len(), stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_connect() {
    let world = World::new().await;
    let error = Bus::connect(world.server.url()).await.err().unwrap();
    assert!(matches!(error, Error::Unauthorized { .. }), "{error}");
    let text = format!("{:?}", world.server.connect_options());
    let flopsmith_bus::Auth::Token(token) = world.server.connect_options().auth else {
        panic!("no token")
    };
    assert!(!text.contains(&token), "a token must not get into logs");
    let pid = world.server.pid().unwrap();
    let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!arguments.contains(&token), "nor into the process list");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_or_has_no_jetstream_is_named() {
    let mut options = Options::new("nats://127.0.0.1:1");
    options.connect_limit = Duration::from_millis(200);
    let error = Bus::connect(options).await.err().unwrap();
    assert!(matches!(error, Error::Connect { .. }), "{error}");

    let world = World::new().await;
    let program = std::fs::read_link(format!("/proc/{}/exe", world.server.pid().unwrap())).unwrap();
    let mut plain = Command::new(program)
        .args(["-a", "127.0.0.1", "-p", "-1"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The file stays open: a server that can no longer write its log dies.
    let mut log = BufReader::new(plain.stderr.take().unwrap()).lines();
    let address = log
        .find_map(|line| {
            Some(
                line.unwrap()
                    .split_once("client connections on ")?
                    .1
                    .to_owned(),
            )
        })
        .unwrap();
    let error = Bus::connect(format!("nats://{address}"))
        .await
        .err()
        .unwrap();
    plain.kill().unwrap();
    plain.wait().unwrap();
    assert!(matches!(error, Error::NoJetStream { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_with_its_handle() {
    for orderly in [false, true] {
        let World {
            server,
            bus,
            folder,
        } = World::new().await;
        bus.publish(COMPILE, &job(1)).await.unwrap();
        let pid = server.pid().unwrap();
        if orderly {
            server.stop().await;
        } else {
            drop(server);
        }
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        // The same store again, this time with a sync of each message.
        let options = ServerOptions {
            sync: Sync::Always,
            ..ServerOptions::default()
        };
        let server = Server::start(None, folder.path(), options).await.unwrap();
        let bus = Bus::connect(&server).await.unwrap();
        bus.ensure_streams(&RunSetup::default()).await.unwrap();
        assert!(
            bus.publish_acked(COMPILE, &job(1)).await.unwrap().duplicate,
            "known from before"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_keeps_dying_is_given_up() {
    let options = ServerOptions {
        restarts_per_minute: 1,
        ..ServerOptions::default()
    };
    let world = World::with(&RunSetup::default(), options).await;
    let mut last = None;
    for _ in 0..2 {
        until("a server runs", || {
            world.server.pid().is_some() && world.server.pid() != last
        });
        last = world.server.pid();
        kill(
            Pid::from_raw(i32::try_from(last.unwrap()).unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
    }
    let error = soon(world.server.failed()).await;
    assert!(
        matches!(error, ServerError::GivenUp { times: 2, .. }),
        "{error}"
    );
    let mut options = world.server.connect_options();
    options.connect_limit = Duration::from_millis(100);
    assert!(Bus::connect(options).await.is_err());
}
