//! Logs: every entry once, in order, from any place.

use std::time::Duration;

use flopsmith_bus::{Error, LogEntry, LogReader, RunSetup, ServerOptions};

use crate::{Job, OUTCOME, World, job, nothing, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_from_its_start_and_then_live() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..1000).map(job).collect();
    world.bus.publish_many(OUTCOME, &jobs).await.unwrap();
    world
        .bus
        .publish_many("fs.v1.outcome.r2", &jobs[..1])
        .await
        .unwrap();

    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    assert_eq!(log.pending(), 1000);
    let old = soon(log.replay()).await.unwrap();
    assert_eq!(old.iter().map(|(_, j)| j.clone()).collect::<Vec<_>>(), jobs);
    assert!(old.windows(2).all(|w| w[0].0 < w[1].0));
    assert!(nothing(100, log.next()).await);

    world.bus.publish(OUTCOME, &job(1000)).await.unwrap();
    let (sequence, live) = soon(log.next()).await.unwrap();
    assert_eq!(live, job(1000));

    let mut tail: LogReader<Job> = world.bus.log(OUTCOME, old[990].0).await.unwrap();
    let tail = soon(tail.replay()).await.unwrap();
    assert_eq!(
        (tail.len(), tail[0].1.clone(), tail[10].0),
        (11, job(990), sequence)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_silent_for_long_is_still_read() {
    let world = World::new().await;
    let bus = world.impatient().await;
    let mut log: LogReader<Job> = bus.log(OUTCOME, 0).await.unwrap();
    // Its requests expire several times over.
    assert!(nothing(1500, log.next()).await);
    bus.publish(OUTCOME, &job(1)).await.unwrap();
    assert_eq!(soon(log.next()).await.unwrap().1, job(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_log_has_nothing_to_replay() {
    let world = World::new().await;
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    assert!(soon(log.replay()).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_read_once_even_if_it_is_stored_twice() {
    let setup = RunSetup {
        duplicate_window: Duration::from_millis(100),
        ..RunSetup::default()
    };
    let world = World::with(&setup, ServerOptions::default()).await;
    world.bus.publish(OUTCOME, &job(1)).await.unwrap();
    assert!(
        world
            .bus
            .publish_acked(OUTCOME, &job(1))
            .await
            .unwrap()
            .duplicate
    );
    // Once the window is over, the server takes it again.
    soon(async {
        while world
            .bus
            .publish_acked(OUTCOME, &job(1))
            .await
            .unwrap()
            .duplicate
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    world.bus.publish(OUTCOME, &job(2)).await.unwrap();
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    assert_eq!(log.pending(), 3);
    let read: Vec<_> = soon(log.replay())
        .await
        .unwrap()
        .into_iter()
        .map(|(_, j)| j)
        .collect();
    assert_eq!(read, [job(1), job(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_are_skipped_and_counted() {
    let world = World::new().await;
    world.bus.publish(OUTCOME, &job(1)).await.unwrap();
    let client = async_nats::ConnectOptions::new()
        .token(crate::work::token(&world.server.connect_options()))
        .connect(world.server.url())
        .await
        .unwrap();
    client.publish(OUTCOME, "no message".into()).await.unwrap();
    client.flush().await.unwrap();
    world.bus.publish(OUTCOME, &job(2)).await.unwrap();
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    assert_eq!(soon(log.replay()).await.unwrap().len(), 2);
    assert_eq!(log.skipped(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_messages_can_become_dead_letters_and_return_once() {
    let world = World::new().await;
    let client = async_nats::ConnectOptions::new()
        .token(crate::work::token(&world.server.connect_options()))
        .connect(world.server.url())
        .await
        .unwrap();
    client.publish(OUTCOME, "no message".into()).await.unwrap();
    client.flush().await.unwrap();
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    let LogEntry::Unreadable(entry) = soon(log.entry()).await.unwrap() else {
        panic!("it was read");
    };
    // Every reader of the log may do so, and after a crash another time.
    world.bus.dead_letter_entry(&entry).await.unwrap();
    world.bus.dead_letter_entry(&entry).await.unwrap();
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    assert_eq!(dead.pending(), 1);
    let letter = soon(dead.next()).await.unwrap();
    assert_eq!(
        (
            letter.subject.as_str(),
            &letter.payload[..],
            letter.attempts
        ),
        (OUTCOME, &b"no message"[..], 1)
    );
    world.bus.retry_dead(&letter).await.unwrap();
    let again = soon(log.entry()).await.unwrap();
    assert!(
        matches!(&again, LogEntry::Unreadable(e) if e.sequence > entry.sequence),
        "{again:?}"
    );
    assert_eq!(log.skipped(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_read_loses_nothing() {
    let world = World::new().await;
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    let jobs: Vec<_> = (0..300).map(job).collect();
    let publisher = tokio::spawn({
        let (bus, jobs) = (world.bus.clone(), jobs.clone());
        async move {
            for job in &jobs {
                bus.publish(OUTCOME, job).await.unwrap();
            }
        }
    });
    let mut read = Vec::new();
    soon(async {
        while read.len() < jobs.len() {
            if let Ok(entry) = tokio::time::timeout(Duration::from_micros(300), log.next()).await {
                read.push(entry.unwrap().1);
            }
        }
    })
    .await;
    assert_eq!(read, jobs);
    publisher.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_bus_ends_its_logs() {
    let world = World::new().await;
    let mut log: LogReader<Job> = world.bus.log(OUTCOME, 0).await.unwrap();
    let reading = tokio::spawn(async move { log.next().await });
    soon(world.bus.drain()).await.unwrap();
    assert!(matches!(soon(reading).await.unwrap(), Err(Error::Closed)));
}
