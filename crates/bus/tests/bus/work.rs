//! Work queues: no message is lost, and no worker gets more than it can hold.

use std::collections::HashSet;
use std::time::Duration;

use flopsmith_bus::{Auth, Backoff, Bus, Error, ErrorClass, RunSetup, Worker, WorkerOptions};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{MachineClass, Message, encode};

use crate::{COMPILE, Job, World, job, nothing, soon};

fn quick(slots: usize) -> WorkerOptions {
    WorkerOptions {
        ack_wait: Duration::from_millis(300),
        backoff: Backoff {
            infrastructure: Duration::from_millis(20),
            dropped: Duration::from_millis(20),
            ..Backoff::default()
        },
        ..WorkerOptions::new(COMPILE, slots)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_handed_over_and_leaves_the_queue() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(4)).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let delivery = soon(worker.next()).await.unwrap();
    assert_eq!(
        (delivery.message(), delivery.attempt(), delivery.subject()),
        (&job(1), 1, COMPILE)
    );
    delivery.done().await.unwrap();
    assert_eq!((worker.held(), world.bus.held()), (0, 0));
    assert!(
        nothing(700, worker.next()).await,
        "what is done must not come again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_more_than_there_are_slots() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..10).map(job).collect();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    let mut slow: Worker<Job> = world.bus.worker(quick(2)).await.unwrap();
    let mut held = vec![
        soon(slow.next()).await.unwrap(),
        soon(slow.next()).await.unwrap(),
    ];
    assert!(nothing(200, slow.next()).await);
    let mut other: Worker<Job> = world.bus.worker(quick(8)).await.unwrap();
    for _ in 0..8 {
        held.push(soon(other.next()).await.unwrap());
    }
    let ids: HashSet<_> = held.iter().map(|d| d.message().id.clone()).collect();
    assert_eq!(ids.len(), 10, "each job went to one of them");
    assert_eq!(world.bus.held(), 10);
    for delivery in held {
        delivery.done().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_jobs_free_their_slot() {
    let world = World::new().await;
    let options = WorkerOptions {
        parked: 2,
        ..quick(1)
    };
    let mut worker: Worker<Job> = world.bus.worker(options).await.unwrap();
    let jobs: Vec<_> = (0..4).map(job).collect();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    let first = soon(worker.next()).await.unwrap();
    first.park(true);
    let second = soon(worker.next()).await.unwrap();
    second.park(true);
    let third = soon(worker.next()).await.unwrap();
    // One more than may be parked keeps its slot.
    third.park(true);
    assert!(
        tokio::time::timeout(Duration::from_millis(500), worker.next())
            .await
            .is_err()
    );
    first.done().await.unwrap();
    let fourth = soon(worker.next()).await.unwrap();
    for delivery in [second, third, fourth] {
        delivery.park(false);
        delivery.done().await.unwrap();
    }
    assert_eq!(worker.held(), 0);
}

/// The server keeps 128 requests. A worker whose request was refused asks again when another worker is busy.
#[tokio::test(flavor = "multi_thread")]
async fn of_more_workers_than_may_wait_each_gets_work() {
    let world = World::new().await;
    let mut workers: Vec<Worker<Job>> = Vec::new();
    for _ in 0..400 {
        let options = WorkerOptions {
            crowded_pause: Duration::from_secs(3600),
            ..WorkerOptions::new(COMPILE, 1)
        };
        workers.push(world.bus.worker(options).await.unwrap());
    }
    let jobs: Vec<_> = (0..400).map(job).collect();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    // Each worker has one, so all are needed.
    let all = futures::future::join_all(workers.iter_mut().map(Worker::next));
    let held = soon(all).await;
    let ids: HashSet<_> = held
        .iter()
        .flatten()
        .map(|d| d.message().id.clone())
        .collect();
    assert_eq!(ids.len(), jobs.len());
    for delivery in held.into_iter().flatten() {
        delivery.done().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_rests_leaves_the_work_to_others_and_comes_back() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..4).map(job).collect();
    let mut resting: Worker<Job> = world.bus.worker(quick(4)).await.unwrap();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    let first = soon(resting.next()).await.unwrap();
    resting.rest(Duration::from_secs(3600));
    // The messages that it had already taken as well.
    let mut other: Worker<Job> = world.bus.worker(quick(4)).await.unwrap();
    for _ in 0..3 {
        soon(other.next()).await.unwrap().done().await.unwrap();
    }
    other.close();
    drop(other);
    // The messages that it holds stay.
    first.done().await.unwrap();
    world.bus.publish(COMPILE, &job(9)).await.unwrap();
    // The last call decides.
    let time = Duration::from_secs(1);
    let began = std::time::Instant::now();
    resting.rest(time);
    let next = soon(resting.next()).await.unwrap();
    assert_eq!(next.message(), &job(9));
    assert!(began.elapsed() >= time, "it rested");
    next.done().await.unwrap();
}

/// A worker may pause at any moment while messages arrive. Other workers get the messages that it has not returned by
/// then.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_stays_with_a_worker_that_begins_to_rest() {
    let world = World::new().await;
    let mut resting: Worker<Job> = world.bus.worker(quick(8)).await.unwrap();
    for round in 0..100 {
        let jobs: Vec<_> = (round * 8..round * 8 + 8).map(job).collect();
        world.bus.publish_many(COMPILE, &jobs).await.unwrap();
        let first = soon(resting.next()).await.unwrap();
        resting.rest(Duration::from_secs(3600));
        let mut other: Worker<Job> = world.bus.worker(quick(8)).await.unwrap();
        for _ in 1..8 {
            soon(other.next()).await.unwrap().done().await.unwrap();
        }
        other.close();
        first.done().await.unwrap();
        resting.rest(Duration::ZERO);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_fetch_reports_it_until_it_can() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    assert_eq!(world.bus.unable(), None);
    let options = world.server.connect_options();
    let Auth::Token(token) = options.auth else {
        panic!("a server of one's own has a token");
    };
    let client = async_nats::ConnectOptions::with_token(token);
    let client = client.connect(options.url).await.unwrap();
    let admin = async_nats::jetstream::new(client);
    admin.delete_stream("WORK").await.unwrap();
    let unable = async || {
        while world.bus.unable().is_none() {
            tokio::task::yield_now().await;
        }
    };
    soon(unable()).await;
    let streams = RunSetup::default();
    world.bus.ensure_streams(&streams).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    soon(worker.next()).await.unwrap().done().await.unwrap();
    assert_eq!(world.bus.unable(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rest_ends_before_its_time_where_that_is_said() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    worker.rest(Duration::from_secs(3600));
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(300), worker.next())
            .await
            .is_err()
    );
    worker.rest(Duration::ZERO);
    soon(worker.next()).await.unwrap().done().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freed_slot_is_filled() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    let jobs: Vec<_> = (0..50).map(job).collect();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    for expected in &jobs {
        let delivery = soon(worker.next()).await.unwrap();
        assert_eq!(
            delivery.message(),
            expected,
            "one after the other, in order"
        );
        delivery.done().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_still_gets_jobs_after_its_requests_expired() {
    let world = World::new().await;
    let bus = world.impatient().await;
    let mut worker: Worker<Job> = bus.worker(quick(3)).await.unwrap();
    // Its requests expire several times over.
    assert!(nothing(1500, worker.next()).await);
    let jobs: Vec<_> = (0..7).map(job).collect();
    bus.publish_many(COMPILE, &jobs).await.unwrap();
    for _ in &jobs {
        let delivery = soon(worker.next()).await.unwrap();
        assert_eq!(delivery.attempt(), 1);
        delivery.done().await.unwrap();
    }
}

// On one thread nothing can answer while the future is polled.
#[tokio::test]
async fn an_acknowledgement_that_nobody_waits_for_any_more_holds_up_no_other() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(2)).await.unwrap();
    for number in 0..2 {
        world.bus.publish(COMPILE, &job(number)).await.unwrap();
    }
    let first = soon(worker.next()).await.unwrap();
    let second = soon(worker.next()).await.unwrap();
    // Like in a loop that holds some work and waits for other work to end.
    let mut unpolled = Box::pin(first.done());
    assert!(futures::poll!(unpolled.as_mut()).is_pending());
    soon(second.done()).await.unwrap();
    soon(unpolled).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_in_progress_are_not_redelivered() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    let mut other: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let delivery = tokio::select! {
        delivery = worker.next() => delivery.unwrap(),
        delivery = other.next() => delivery.unwrap(),
    };
    // The processing takes several times the acknowledgement time.
    assert!(nothing(1500, async { tokio::join!(worker.next(), other.next()) }).await);
    assert_eq!(delivery.attempt(), 1);
    delivery.done().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_held_beyond_the_limit_go_to_another_worker() {
    let world = World::new().await;
    let options = WorkerOptions {
        hold_limit: Duration::from_millis(200),
        ..quick(1)
    };
    let mut hanging: Worker<Job> = world.bus.worker(options).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let first = soon(hanging.next()).await.unwrap();
    let mut other: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    let second = soon(other.next()).await.unwrap();
    assert_eq!((second.message(), second.attempt()), (first.message(), 2));
    second.done().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_deliveries_are_redelivered() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    drop(soon(worker.next()).await.unwrap());
    let again = soon(worker.next()).await.unwrap();
    assert_eq!(again.attempt(), 2);
    again.done().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn given_back_too_often_it_is_dead() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world
        .bus
        .worker(WorkerOptions {
            max_deliver: 3,
            ..quick(1)
        })
        .await
        .unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    for attempt in 1..=3 {
        let delivery = soon(worker.next()).await.unwrap();
        assert_eq!(
            (delivery.attempt(), delivery.failures()),
            (attempt, attempt - 1)
        );
        delivery.retry(ErrorClass::Infrastructure).await.unwrap();
    }
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    let letter = soon(dead.next()).await.unwrap();
    assert_eq!((letter.subject.as_str(), letter.attempts), (COMPILE, 3));
    assert!(
        letter.reason.contains("Infrastructure"),
        "{}",
        letter.reason
    );
    assert_eq!(letter.decode::<Job>().unwrap(), job(1));
    assert!(nothing(600, worker.next()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_no_worker_accepts_are_refused_at_growing_intervals() {
    use futures::StreamExt;
    let world = World::new().await;
    let client = async_nats::ConnectOptions::new()
        .token(token(&world.server.connect_options()))
        .connect(world.server.url())
        .await
        .unwrap();
    let mut answers = client.subscribe("$JS.ACK.>").await.unwrap();
    client.flush().await.unwrap();
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    // Delivered to many workers that had the order to stop.
    for _ in 0..14 {
        let delivery = soon(worker.next()).await.unwrap();
        delivery.retry(ErrorClass::Shutdown).await.unwrap();
    }
    let delivery = soon(worker.next()).await.unwrap();
    assert_eq!((delivery.attempt(), delivery.failures()), (15, 0));
    delivery.retry(ErrorClass::OtherNode).await.unwrap();
    // The server gets the delays: the first ten times two seconds, then growing ones.
    let said = soon(async {
        loop {
            let answer = answers.next().await.unwrap().payload;
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some(delay) = text.strip_prefix("-NAK {\"delay\":")
                && !delay.starts_with("0}")
            {
                return delay.trim_end_matches('}').trim().parse::<u64>().unwrap();
            }
        }
    })
    .await;
    assert_eq!(Duration::from_nanos(said), Duration::from_secs(60));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_is_no_failed_attempt() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world
        .bus
        .worker(WorkerOptions {
            max_deliver: 1,
            ..quick(1)
        })
        .await
        .unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    // Only one failure is permitted, and none happens, at any number of deliveries.
    for attempt in 1..=7 {
        let delivery = soon(worker.next()).await.unwrap();
        assert_eq!((delivery.attempt(), delivery.failures()), (attempt, 0));
        delivery.retry(ErrorClass::Shutdown).await.unwrap();
    }
    let delivery = soon(worker.next()).await.unwrap();
    delivery.done().await.unwrap();
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    assert!(nothing(300, dead.next()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_never_end_become_dead_letters_by_themselves() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world
        .bus
        .worker(WorkerOptions {
            max_deliver: 2,
            ..quick(1)
        })
        .await
        .unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    world.bus.publish(COMPILE, &job(2)).await.unwrap();
    for _ in 0..2 {
        loop {
            let delivery = soon(worker.next()).await.unwrap();
            if *delivery.message() == job(1) {
                break; // Dropped: as if its worker had died.
            }
            delivery.done().await.unwrap();
        }
    }
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    let letter = tokio::select! {
        letter = soon(dead.next()) => letter.unwrap(),
        () = async { while let Some(d) = worker.next().await { assert_eq!(*d.message(), job(2)); d.done().await.unwrap(); } } => panic!("the worker ended"),
    };
    assert_eq!(letter.decode::<Job>().unwrap(), job(1));
    assert_eq!(letter.attempts, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_a_role_terminates_become_dead_letters() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    soon(worker.next())
        .await
        .unwrap()
        .dead("no such problem\nhere")
        .await
        .unwrap();
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    assert_eq!(
        soon(dead.next()).await.unwrap().reason,
        "no such problem here"
    );
    assert_eq!(world.bus.held(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_jobs_become_dead_letters_and_the_worker_goes_on() {
    let world = World::new().await;
    let mut worker: Worker<Job> = world.bus.worker(quick(1)).await.unwrap();
    let client = async_nats::ConnectOptions::new()
        .token(token(&world.bus_options()))
        .connect(world.server.url())
        .await
        .unwrap();
    let newer = {
        let bytes = encode(&job(1)).unwrap();
        let mut value = rmpv::decode::read_value(&mut &bytes[..]).unwrap();
        let rmpv::Value::Map(fields) = &mut value else {
            panic!("no map")
        };
        let version = fields
            .iter_mut()
            .find(|(name, _)| name.as_str() == Some("v"))
            .unwrap();
        version.1 = 99.into();
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &value).unwrap();
        bytes
    };
    for payload in [b"not a message".to_vec(), newer.clone(), Vec::new()] {
        client.publish(COMPILE, payload.into()).await.unwrap();
    }
    client.flush().await.unwrap();
    world.bus.publish(COMPILE, &job(2)).await.unwrap();
    let delivery = soon(worker.next()).await.unwrap();
    assert_eq!(*delivery.message(), job(2));
    delivery.done().await.unwrap();

    let mut dead = world.bus.dead_letters(0).await.unwrap();
    let first = soon(dead.next()).await.unwrap();
    assert_eq!(&first.payload[..], b"not a message");
    let second = soon(dead.next()).await.unwrap();
    assert!(second.reason.contains("version 99"), "{}", second.reason);
    assert_eq!(
        second.payload, newer,
        "kept as it was, for a node that can read it"
    );
    soon(dead.next()).await.unwrap();
    assert_eq!(dead.pending(), 0);
}

impl World {
    fn bus_options(&self) -> flopsmith_bus::Options {
        self.server.connect_options()
    }
}

pub fn token(options: &flopsmith_bus::Options) -> String {
    match &options.auth {
        flopsmith_bus::Auth::Token(token) => token.clone(),
        other => panic!("no token: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_id_is_queued_once() {
    let world = World::new().await;
    let first = world.bus.publish_acked(COMPILE, &job(1)).await.unwrap();
    let second = world.bus.publish_acked(COMPILE, &job(1)).await.unwrap();
    assert_eq!((first.duplicate, second.duplicate), (false, true));
    let mut worker: Worker<Job> = world.bus.worker(quick(4)).await.unwrap();
    soon(worker.next()).await.unwrap().done().await.unwrap();
    assert!(nothing(300, worker.next()).await);
    assert!(
        world
            .bus
            .publish_acked(COMPILE, &job(1))
            .await
            .unwrap()
            .duplicate,
        "also when it is done"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_told_by_what_waits_and_what_is_in_hand() {
    let world = World::new().await;
    assert_eq!(world.bus.queues().await.unwrap(), []);
    let jobs: Vec<_> = (0..5).map(job).collect();
    let of_a_run = format!("{COMPILE}.r-1");
    world.bus.publish_many(&of_a_run, &jobs).await.unwrap();
    let state = async || world.bus.queues().await.unwrap().pop().unwrap();
    // No worker has ever taken a message.
    let found = state().await;
    assert_eq!((found.waiting, found.in_hand), (5, 0), "{found:?}");
    assert_eq!(found.stage, "compile");
    let first = found.oldest_unix_ms.unwrap();
    let options = WorkerOptions {
        subject: format!("{COMPILE}.*"),
        ..quick(2)
    };
    let mut worker: Worker<Job> = world.bus.worker(options).await.unwrap();
    let held = [
        soon(worker.next()).await.unwrap(),
        soon(worker.next()).await.unwrap(),
    ];
    let found = state().await;
    assert_eq!((found.waiting, found.in_hand), (3, 2), "{found:?}");
    assert_eq!(found.oldest_unix_ms, Some(first), "the oldest is not done");
    for delivery in held {
        delivery.done().await.unwrap();
    }
    // It may already hold the next ones.
    let found = state().await;
    assert_eq!(found.waiting + found.in_hand, 3, "{found:?}");
    assert!(state().await.oldest_unix_ms.unwrap() >= first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_workers_while_they_ask_for_work_or_have_some() {
    let world = World::new().await;
    let class = MachineClass::new("local").unwrap();
    let queue = Queue::compile(&class);
    let of_both = [queue.clone(), Queue::time(&class)];
    let served = async |queues: &[Queue]| world.bus.have_workers(queues).await.unwrap();
    // Level-triggered: the server learns a little later that a worker asks, or is gone.
    let until = async |wanted: bool| {
        soon(async {
            while served(&of_both[..1]).await != wanted {
                tokio::task::yield_now().await;
            }
        })
        .await;
    };
    assert!(!served(&of_both[..1]).await);
    let of_a_run = format!("{queue}.r-1");
    world.bus.publish(&of_a_run, &job(1)).await.unwrap();
    let bus = Bus::connect(&world.server).await.unwrap();
    let options = WorkerOptions {
        subject: queue.all(),
        ..quick(1)
    };
    let mut worker: Worker<Job> = bus.worker(options).await.unwrap();
    let held = soon(worker.next()).await.unwrap();
    assert!(served(&of_both[..1]).await, "it is at work");
    held.done().await.unwrap();
    until(true).await;
    assert!(!served(&of_both).await, "nobody times");
    worker.close();
    drop(worker);
    bus.drain().await.unwrap();
    until(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_finishes_what_is_in_hand_and_gives_back_the_rest() {
    let world = World::new().await;
    let jobs: Vec<_> = (0..6).map(job).collect();
    world.bus.publish_many(COMPILE, &jobs).await.unwrap();
    let bus = Bus::connect(&world.server).await.unwrap();
    // Long, so that nothing is redelivered while the test runs.
    let options = WorkerOptions {
        ack_wait: Duration::from_secs(60),
        ..quick(4)
    };
    let mut worker: Worker<Job> = bus.worker(options.clone()).await.unwrap();
    let in_hand = soon(worker.next()).await.unwrap();
    // The role keeps its messages until the worker reports the end.
    let role = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Some(delivery) = worker.next().await {
            held.push(delivery);
        }
        for delivery in held {
            delivery.retry(ErrorClass::Shutdown).await.unwrap();
        }
    });
    let draining = tokio::spawn({
        let bus = bus.clone();
        async move { bus.drain().await }
    });
    soon(role).await.unwrap();
    assert!(!draining.is_finished(), "somebody still works");
    in_hand.done().await.unwrap();
    soon(draining).await.unwrap().unwrap();
    assert!(matches!(
        bus.worker::<Job>(options.clone()).await,
        Err(Error::Closed)
    ));

    let mut next: Worker<Job> = world.bus.worker(options).await.unwrap();
    let mut ids = HashSet::new();
    for _ in 0..5 {
        let delivery = soon(next.next()).await.unwrap();
        ids.insert(delivery.message().id.clone());
        delivery.done().await.unwrap();
    }
    assert_eq!(ids.len(), 5, "the five that were not done: {ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_does_not_wait_for_ever() {
    let world = World::new().await;
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let mut options = world.server.connect_options();
    options.drain_limit = Duration::from_millis(100);
    let bus = Bus::connect(options).await.unwrap();
    let mut worker: Worker<Job> = bus.worker(quick(1)).await.unwrap();
    let _held = soon(worker.next()).await.unwrap();
    let error = soon(bus.drain()).await.unwrap_err();
    assert!(matches!(error, Error::DrainTimeout { held: 1 }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_gets_its_work_back_at_once() {
    let world = World::new().await;
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let options = WorkerOptions {
        ack_wait: Duration::from_secs(600),
        ..quick(1)
    };
    let mut worker: Worker<Job> = world.bus.worker(options.clone()).await.unwrap();
    let _never_decided = std::mem::ManuallyDrop::new(soon(worker.next()).await.unwrap());
    // Without a message to the server, like kill -9.
    let World { server, folder, .. } = world;
    drop(server);
    let server =
        flopsmith_bus::Server::start(None, folder.path(), flopsmith_bus::ServerOptions::default())
            .await
            .unwrap();
    let bus = Bus::connect(&server).await.unwrap();
    bus.ensure_streams(&RunSetup::default()).await.unwrap();
    let mut worker: Worker<Job> = bus.worker(options).await.unwrap();
    let delivery = soon(worker.next()).await.unwrap();
    assert_eq!((delivery.message(), delivery.attempt()), (&job(1), 1));
    bus.ensure_streams(&RunSetup::default()).await.unwrap();
    assert!(
        nothing(300, worker.next()).await,
        "once only: later it is known who holds what"
    );
    delivery.done().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_use_gets_a_clear_error() {
    let world = World::new().await;
    let wrong = |options| async {
        world
            .bus
            .worker::<Job>(options)
            .await
            .err()
            .unwrap()
            .to_string()
    };
    assert!(
        wrong(WorkerOptions::new("fs.v1.outcome.r1", 1))
            .await
            .contains("no work queue")
    );
    assert!(wrong(WorkerOptions::new(COMPILE, 0)).await.contains("slot"));
    let _first: Worker<Job> = world
        .bus
        .worker(WorkerOptions {
            durable: "a".into(),
            ..quick(1)
        })
        .await
        .unwrap();
    let error = world
        .bus
        .worker::<Job>(WorkerOptions {
            durable: "b".into(),
            ..quick(1)
        })
        .await
        .err()
        .unwrap();
    assert!(matches!(error, Error::QueueTaken { .. }), "{error}");

    let large = Job {
        id: "large".into(),
        text: "x".repeat(2 << 20),
    };
    let error = world.bus.publish(COMPILE, &large).await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { kind: "job", .. }),
        "{error}"
    );
    let error = world
        .bus
        .publish("fs.v1.nowhere", &job(1))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoStream { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_goes_to_no_other_place_than_where_it_lies() {
    let world = World::new().await;
    let client = async_nats::ConnectOptions::new()
        .token(token(&world.server.connect_options()))
        .connect(world.server.url())
        .await
        .unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Flopsmith-Subject", "$KV.fs_runs.r");
    for forged in ["fs.v1.dead.event.r.policy", "fs.v1.dead.$KV.fs_runs.r"] {
        client
            .publish_with_headers(forged, headers.clone(), "forged".into())
            .await
            .unwrap();
    }
    let named = flopsmith_protocol::subjects::dead(COMPILE);
    client
        .publish_with_headers(named, headers, "forged".into())
        .await
        .unwrap();
    client.flush().await.unwrap();
    let mut dead = world.bus.dead_letters(0).await.unwrap();
    for _ in 0..2 {
        let letter = soon(dead.next()).await.unwrap();
        assert_eq!(letter.subject, "");
        let refused = world.bus.retry_dead(&letter).await.unwrap_err();
        assert!(matches!(refused, flopsmith_bus::Error::NotCopied { .. }));
    }
    let letter = soon(dead.next()).await.unwrap();
    assert_eq!(letter.subject, COMPILE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_shown_and_given_out_again_once() {
    let world = World::new().await;
    let options = || WorkerOptions {
        max_deliver: 1,
        ..quick(1)
    };
    let mut worker: Worker<Job> = world.bus.worker(options()).await.unwrap();
    world.bus.publish(COMPILE, &job(1)).await.unwrap();
    let delivery = soon(worker.next()).await.unwrap();
    delivery.dead("the disk was full").await.unwrap();
    let letter = {
        let mut dead = world.bus.dead_letters(0).await.unwrap();
        soon(dead.next()).await.unwrap()
    };
    assert_eq!(letter.id.as_deref(), Some(job(1).id().as_str()));
    assert!(!letter.truncated && letter.died_unix_ms > 1_600_000_000_000);
    let same = world.bus.dead_letter(letter.sequence).await.unwrap();
    assert_eq!(same, Some(letter.clone()));
    assert_eq!(world.bus.dead_letter(99).await.unwrap(), None);
    // Its own id was published a moment ago, and the server would drop it as a duplicate.
    world.bus.retry_dead(&letter).await.unwrap();
    world.bus.retry_dead(&letter).await.unwrap();
    let again = soon(worker.next()).await.unwrap();
    assert_eq!((again.message(), again.attempt()), (&job(1), 1));
    again.done().await.unwrap();
    assert!(nothing(300, worker.next()).await);
    assert_eq!(world.bus.dead_letter(letter.sequence).await.unwrap(), None);
    let truncated = flopsmith_bus::DeadLetter {
        truncated: true,
        ..letter
    };
    let refused = world.bus.retry_dead(&truncated).await.unwrap_err();
    assert!(matches!(refused, flopsmith_bus::Error::NotCopied { .. }));
}
