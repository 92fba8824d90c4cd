//! One process holds a lease at a time, and no other process writes under it.

use std::sync::Arc;
use std::time::Duration;

use flopsmith_actors::node::{Context, Parts};
use flopsmith_actors::role::archive::Archive;
use flopsmith_actors::role_lease::{Head, RoleLease, Terms};
use flopsmith_actors::{Error, Host, Pool};
use flopsmith_bus::{Bus, Options, ServerOptions};
use flopsmith_config::Job;
use flopsmith_protocol::{Digest, Outcome, Purpose, subjects};
use flopsmith_store::{Checkpoints, Store};
use flopsmith_test_support::{machine_class, node_id, outcome, run_id, wrong};
use tokio_util::sync::CancellationToken;

use crate::{World, candidate, settings, soon, start};

const SHORT: Terms = Terms {
    beat: Duration::from_millis(50),
    give_up: Duration::from_millis(200),
    patience: Duration::from_millis(500),
};

/// A suspended process: it gives no sign of life, and does not know of its suspension.
const STOPPED: Terms = Terms {
    beat: Duration::from_secs(3600),
    give_up: Duration::from_secs(7200),
    patience: Duration::from_millis(500),
};

/// A connection to the server, as shared by roles.
pub async fn shared(world: &World) -> Bus {
    let known = world._server.connect_options();
    let mut options = Options::new(known.url);
    options.auth = known.auth;
    Bus::connect(options).await.unwrap()
}

async fn take(bus: &Bus, who: &str, terms: Terms) -> RoleLease {
    let stop = CancellationToken::new();
    let lease = soon(RoleLease::take(
        bus,
        &run_id(),
        "archive",
        who,
        terms,
        &stop,
    ))
    .await;
    lease.unwrap().unwrap()
}

fn head(name: &str) -> Head {
    Head {
        checkpoint: name.into(),
        manifest: Digest::of(name.as_bytes()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holds_it_and_the_next_goes_on_where_it_left() {
    let world = World::new().await;
    let bus = shared(&world).await;
    let first = take(&bus, "a", SHORT).await;
    assert_eq!(first.head().await, None);
    first.commit(head("1")).await.unwrap();
    let waits = {
        let bus = bus.clone();
        tokio::spawn(async move { take(&bus, "b", SHORT).await })
    };
    // Longer than any wait: only signs of life keep the lease.
    let enough = 3 * SHORT.patience.as_millis() / SHORT.beat.as_millis();
    let kv = bus.kv("fs_leases").await.unwrap();
    let key = format!("{}.archive", run_id());
    soon(async {
        loop {
            let record = kv.get(&key).await.unwrap().expect("it is held");
            let record: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
            if u128::from(record["beat"].as_u64().unwrap()) >= enough {
                break;
            }
        }
    })
    .await;
    assert!(!waits.is_finished());
    first.commit(head("2")).await.unwrap();
    let term = first.term();
    first.leave().await.unwrap();
    let second = soon(waits).await.unwrap();
    assert_eq!(second.head().await, Some(head("2")));
    assert!(second.term() > term);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_replaced_while_suspended_commits_nothing_more() {
    let world = World::new().await;
    let bus = shared(&world).await;
    let stopped = take(&bus, "a", STOPPED).await;
    stopped.commit(head("1")).await.unwrap();
    let second = take(&bus, "b", SHORT).await;
    assert_eq!(second.head().await, Some(head("1")));
    second.commit(head("2 of b")).await.unwrap();
    let late = stopped.commit(head("2 of a")).await;
    assert!(matches!(late, Err(Error::Replaced)), "{late:?}");
    assert!(matches!(soon(stopped.lost()).await, Error::Replaced));
    // It does not remove a lease that it has lost.
    stopped.leave().await.unwrap();
    assert_eq!(second.head().await, Some(head("2 of b")));
    second.commit(head("3 of b")).await.unwrap();
}

/// A write whose confirmation was lost may arrive after its writer has read the record: it is the writer's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_finds_its_own_late_write_goes_on() {
    let world = World::new().await;
    let bus = shared(&world).await;
    let lease = take(&bus, "a", STOPPED).await;
    let kv = bus.kv("fs_leases").await.unwrap();
    let key = format!("{}.archive", run_id());
    let late = async |change: &dyn Fn(&mut serde_json::Value)| {
        let found = kv.get(&key).await.unwrap().unwrap();
        let mut record: serde_json::Value = serde_json::from_slice(&found.value).unwrap();
        change(&mut record);
        kv.update(&key, record.to_string(), found.revision)
            .await
            .unwrap();
    };
    late(&|record| record["beat"] = 7.into()).await;
    lease.commit(head("1")).await.unwrap();
    let found = kv.get(&key).await.unwrap().unwrap();
    let record: serde_json::Value = serde_json::from_slice(&found.value).unwrap();
    assert_eq!(record["beat"], 7, "the late record is kept: {record}");
    assert_eq!(lease.head().await, Some(head("1")));
    // Another term means another holder, even with this name.
    let term = lease.term() + 1;
    late(&|record| record["term"] = term.into()).await;
    let replaced = lease.commit(head("2")).await;
    assert!(matches!(replaced, Err(Error::Replaced)), "{replaced:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_waits_for_a_lease_obeys_a_stop() {
    let world = World::new().await;
    let bus = shared(&world).await;
    let _first = take(&bus, "a", SHORT).await;
    let stop = CancellationToken::new();
    let run = run_id();
    let waiting = RoleLease::take(&bus, &run, "archive", "b", SHORT, &stop);
    let (waited, ()) = tokio::join!(waiting, async { stop.cancel() });
    assert!(waited.unwrap().is_none());
    // The same process gets it back at once, like after a failure of the role.
    take(&bus, "a", SHORT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_somebody_else_put_there_is_not_gone_on_from() {
    let world = World::new().await;
    let bus = shared(&world).await;
    let lease = take(&bus, "a", SHORT).await;
    let run = run_id();
    let of = |store: &Store| Checkpoints::new(store.clone(), "archive").in_term(lease.term());
    let save = async |checkpoints: &Checkpoints, step: u64, text: &str| {
        let files = [("state".to_owned(), text.to_owned())];
        let saved = checkpoints.save(&run, step, files, serde_json::json!({}));
        saved.await.unwrap()
    };
    let (ours, folder) = (of(&world.store), world.folder.path().join("store"));
    // A state that never became the one to continue from, like one for a run that starts.
    save(&ours, 9, "strange").await;
    assert!(lease.latest(&ours, &run).await.unwrap().is_none());
    let mut names = Vec::new();
    for (step, text) in [(1, "first"), (2, "second")] {
        let saved = save(&ours, step, text).await;
        names.push(saved.name.clone());
        lease.commit(saved.into()).await.unwrap();
    }
    let state = async || {
        let found = lease.latest(&ours, &run).await?.expect("a state");
        Ok::<_, Error>(found.file("state").await.unwrap())
    };
    assert_eq!(state().await.unwrap(), "second");
    // Complete, and under the names of the right ones: only the record on the bus shows that they are others.
    let elsewhere = tempfile::tempdir().unwrap();
    let theirs = of(&Store::open(elsewhere.path().to_str().unwrap()).unwrap());
    let place = async |step: u64, name: &str| {
        assert_eq!(save(&theirs, step, "strange").await.name, name);
        let of_run = format!("checkpoints/{run}/archive/{name}");
        for entry in std::fs::read_dir(elsewhere.path().join(&of_run)).unwrap() {
            let file = entry.unwrap();
            let to = folder.join(&of_run).join(file.file_name());
            std::fs::copy(file.path(), to).unwrap();
        }
        let planted = ours.named(&run, name).await.unwrap();
        assert_eq!(planted.file("state").await.unwrap(), "strange");
    };
    place(2, &names[1]).await;
    assert_eq!(state().await.unwrap(), "first");
    place(1, &names[0]).await;
    let refused = state().await.unwrap_err();
    assert!(matches!(refused, Error::Strange { .. }), "{refused:?}");
}

/// No process has taken over from the holder of a lease on a full server: the error names the cause.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_renewed_reports_a_full_server() {
    let world = World::with_server(ServerOptions {
        max_store_bytes: Some(1 << 20),
        ..ServerOptions::default()
    })
    .await;
    let bus = shared(&world).await;
    let lease = take(&bus, "a", SHORT).await;
    let kv = bus.kv("fs_leases").await.unwrap();
    // To the last byte: a value smaller than a sign of life does not fit either.
    for size in [60_000, 1_000, 1] {
        for key in 0..1_000_000 {
            let name = format!("filler.{size}-{key}");
            if soon(kv.put(&name, vec![0; size])).await.is_err() {
                break;
            }
        }
    }
    let lost = soon(lease.lost()).await;
    let said = lost.to_string();
    assert!(matches!(lost, Error::Unheard(_)), "{said}");
    assert!(said.contains("storage limit is full"), "{said}");
    assert!(lost.is_final());
    let late = lease.commit(head("1")).await.unwrap_err();
    assert_eq!(late.to_string(), said);
}

/// A separate node of a cluster.
async fn node(world: &World) -> Arc<Context> {
    let ours = world.context(settings());
    let bus = shared(world).await;
    let store = world.store.clone();
    Context::new(Parts {
        run: run_id(),
        settings: settings(),
        folder: world.folder.path().to_owned(),
        problem: Arc::clone(&ours.first().problem),
        others: Vec::new(),
        toolchain: ours.toolchain.clone(),
        host: Host::new(node_id(), machine_class(), bus, store, Pool::new(2)),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_archive_takes_over_when_the_first_is_gone() {
    let world = World::new().await;
    let finished = [(); 2].map(|()| CancellationToken::new());
    let first = Archive::new(node(&world).await, Job::Search, finished[0].clone());
    let first = start(first);
    // It has started once its first tasks are published.
    soon(async {
        while world.bus.queued(&run_id()).await.unwrap() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let second = Archive::new(node(&world).await, Job::Search, finished[1].clone());
    let second = start(second);
    first.ended.abort();
    let step: Vec<Outcome> = [(0, 0), (0, 1), (1, 0), (1, 1)]
        .map(|(task, sample)| outcome(candidate(0, task, sample, Purpose::Search), wrong()))
        .into();
    let subject = subjects::outcome(&run_id());
    world.bus.publish_many(&subject, &step).await.unwrap();
    soon(finished[1].cancelled()).await;
    assert!(!finished[0].is_cancelled());
    second.end().await.unwrap();
}
