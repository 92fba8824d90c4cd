//! Measures the bus: no-op jobs a second through one work queue, and the time of a message from one stage to the next,
//! idle and under load.
//!
//! `cargo run --release -p flopsmith-bus --example throughput [-- JOBS] [always]`
#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flopsmith_bus::{Bus, Delivery, RunSetup, Server, ServerOptions, Sync, Worker, WorkerOptions};
use flopsmith_protocol::Message;
use futures::{Stream, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const FIRST: &str = "fs.v1.work.compile.bench";
const SECOND: &str = "fs.v1.work.verify.bench";

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Job {
    /// The stream tells ids apart, and all queues are one stream.
    stage: u32,
    number: u64,
    /// Nanoseconds since the start.
    sent: u64,
    text: String,
}

impl Message for Job {
    const KIND: &'static str = "bench";
    fn id(&self) -> String {
        format!("bench/{}/{}/{}", self.stage, self.text.len(), self.number)
    }
}

fn job(stage: u32, number: u64, sent: Duration, bytes: usize) -> Job {
    Job {
        stage,
        number,
        sent: u64::try_from(sent.as_nanos()).unwrap_or(u64::MAX),
        text: "x".repeat(bytes),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let jobs: u64 = arguments
        .iter()
        .find_map(|a| a.parse().ok())
        .unwrap_or(50_000);
    let sync = if arguments.iter().any(|a| a == "always") {
        Sync::Always
    } else {
        ServerOptions::default().sync
    };
    let folder = tempfile::tempdir()?;
    let server = Server::start(
        None,
        folder.path(),
        ServerOptions {
            sync,
            ..ServerOptions::default()
        },
    )
    .await?;
    let bus = Bus::connect(&server).await?;
    bus.ensure_streams(&RunSetup::default()).await?;

    let start = Instant::now();
    let rate = throughput(&bus, jobs).await?;
    println!("{jobs} no-op jobs of 600 bytes through one queue: {rate:.0} jobs/s ({sync:?})");
    report(
        "hand-over, one at a time",
        &mut hand_over(&bus, start, 1000, None).await?,
    );
    report(
        "hand-over, 100 jobs/s",
        &mut hand_over(&bus, start, 500, Some(100.0)).await?,
    );
    report(
        "hand-over, 1000 jobs/s",
        &mut hand_over(&bus, start, 3000, Some(1000.0)).await?,
    );

    let load = Arc::new(AtomicBool::new(true));
    let burners: Vec<_> = (0..2)
        .map(|_| {
            let load = Arc::clone(&load);
            std::thread::spawn(move || {
                while load.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            })
        })
        .collect();
    report(
        "hand-over, 100 jobs/s, two threads spinning",
        &mut hand_over(&bus, start, 500, Some(100.0)).await?,
    );
    load.store(false, Ordering::Relaxed);
    for burner in burners {
        let _ = burner.join();
    }
    bus.drain().await?;
    server.stop().await;
    Ok(())
}

/// Publishes and takes jobs at the same time; counts until the last acknowledgement.
async fn throughput(bus: &Bus, jobs: u64) -> Result<f64, Box<dyn Error>> {
    let worker: Worker<Job> = bus.worker(WorkerOptions::new(FIRST, 512)).await?;
    let start = Instant::now();
    let publisher = async {
        let all: Vec<_> = (0..jobs).map(|n| job(0, n, start.elapsed(), 500)).collect();
        bus.publish_many(FIRST, &all).await
    };
    let work = deliveries(worker)
        .take(usize::try_from(jobs)?)
        .map(Delivery::done)
        .buffer_unordered(512)
        .try_collect::<Vec<()>>();
    let (published, worked) = futures::join!(publisher, work);
    published?;
    worked?;
    Ok(jobs as f64 / start.elapsed().as_secs_f64())
}

/// Sends jobs through a stage to the next, one after the other or at a rate (jobs a second). Times, in milliseconds,
/// from before the publish of the first stage's result until the second stage has it.
async fn hand_over(
    bus: &Bus,
    start: Instant,
    jobs: u64,
    rate: Option<f64>,
) -> Result<Vec<f64>, Box<dyn Error>> {
    const SLOTS: usize = 64;
    let run = u32::try_from(start.elapsed().as_millis())?;
    let first: Worker<Job> = bus.worker(WorkerOptions::new(FIRST, SLOTS)).await?;
    let second: Worker<Job> = bus.worker(WorkerOptions::new(SECOND, SLOTS)).await?;
    let count = usize::try_from(jobs)?;
    let stage = deliveries(first)
        .take(count)
        .map(|delivery| async move {
            let result = job(run + 1, delivery.message().number, start.elapsed(), 500);
            bus.publish(SECOND, &result).await?;
            delivery.done().await
        })
        .buffer_unordered(SLOTS)
        .try_collect::<Vec<()>>();
    let (free, mut freed) = tokio::sync::mpsc::unbounded_channel();
    let sink = deliveries(second)
        .take(count)
        .map(|delivery| {
            let sent = Duration::from_nanos(delivery.message().sent);
            let took = start.elapsed().saturating_sub(sent).as_secs_f64() * 1e3;
            let _ = free.send(());
            async move { delivery.done().await.map(|()| took) }
        })
        .buffer_unordered(SLOTS)
        .try_collect::<Vec<f64>>();
    let source = async {
        let mut clock = rate.map(|rate| tokio::time::interval(Duration::from_secs_f64(1.0 / rate)));
        for number in 0..jobs {
            bus.publish(FIRST, &job(run, number, start.elapsed(), 500))
                .await?;
            match &mut clock {
                Some(clock) => {
                    clock.tick().await;
                }
                None => {
                    freed.recv().await;
                }
            }
        }
        Ok::<_, flopsmith_bus::Error>(())
    };
    let (staged, times, sourced) = futures::join!(stage, sink, source);
    staged?;
    sourced?;
    Ok(times?)
}

fn deliveries(worker: Worker<Job>) -> impl Stream<Item = Delivery<Job>> {
    futures::stream::unfold(worker, |mut worker| async {
        Some((worker.next().await?, worker))
    })
}

fn report(what: &str, times: &mut [f64]) {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{what}: median {:.3} ms, 90 % {:.3} ms, 99 % {:.3} ms",
        at(0.5),
        at(0.9),
        at(0.99)
    );
}
