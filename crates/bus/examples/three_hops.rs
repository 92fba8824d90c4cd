//! Measures dispatch: no-op jobs a second through compile → verify → time, each hop like that of a run's roles: the
//! message in its envelope, published under its id and confirmed, then acknowledged, with a confirmation of that too.
//!
//! `three_hops [--jobs 20000] [--outcomes] [--workers N] [--slots 512] [--rate JOBS_A_SECOND] [--sync SECONDS|always]
//! [--json FILE]`
//!
//! The payloads are those of a run with a program of some 150 bytes: 600 bytes at the first hop. With `--outcomes` the
//! last stage also publishes an outcome, a fourth message; without it three messages are published and acknowledged, as
//! in common comparisons of brokers. `--workers` sets the number of connections, each a worker of every stage. `--rate`
//! sends at a rate and reports the time of hand-overs.
#![expect(clippy::print_stdout, reason = "its output is the measurement")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flopsmith_bus::{Bus, Delivery, RunSetup, Server, ServerOptions, Sync, Worker, WorkerOptions};
use flopsmith_protocol::subjects::Queue;
use flopsmith_protocol::{
    ArtifactRef, Candidate, Compiled, Digest, MachineClass, Message, Outcome, TechniqueSet,
    Verified, subjects,
};
use flopsmith_test_support::{candidate, node_id, outcome, run_id, wrong};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + std::marker::Sync>;

/// The same as in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Jobs that a single worker holds at each stage.
const SLOTS: usize = 512;

struct Arguments {
    jobs: u64,
    outcomes: bool,
    workers: usize,
    slots: usize,
    rate: Option<f64>,
    sync: Sync,
    json: Option<String>,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut read = Arguments {
        jobs: 20_000,
        outcomes: false,
        workers: 1,
        slots: SLOTS,
        rate: None,
        sync: Sync::Every(Duration::from_secs(1)),
        json: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("what of `{word}`?"));
        match word.as_str() {
            "--jobs" => read.jobs = value()?.parse()?,
            "--outcomes" => read.outcomes = true,
            "--workers" => read.workers = value()?.parse()?,
            "--slots" => read.slots = value()?.parse()?,
            "--rate" => read.rate = Some(value()?.parse()?),
            "--json" => read.json = Some(value()?),
            "--sync" => {
                let value = value()?;
                read.sync = match value.as_str() {
                    "always" => Sync::Always,
                    seconds => Sync::Every(Duration::from_secs_f64(seconds.parse()?)),
                };
            }
            other => {
                return Err(format!(
                    "what is `{other}`? usage: three_hops [--jobs 20000] [--outcomes] [--workers N] [--slots 512] [--rate JOBS_A_SECOND] [--sync SECONDS|always] [--json FILE]"
                )
                .into());
            }
        }
    }
    Ok(read)
}

/// Samples of a step: a job's number consists of both.
const STEP: u64 = 1000;

fn job(number: u64) -> Candidate {
    Candidate {
        candidate: candidate(number / STEP, 0, (number % STEP) as u32),
        source: "x".repeat(150),
        answer: None,
    }
}

fn number(of: &flopsmith_protocol::CandidateRef) -> usize {
    (of.step * STEP + u64::from(of.sample)) as usize
}

fn compiled(from: &Candidate) -> Compiled {
    Compiled {
        candidate: from.candidate.clone(),
        source: from.source.clone(),
        object: ArtifactRef {
            digest: Digest::of(b"object"),
            size: 16_384,
        },
        techniques: TechniqueSet::EMPTY,
        vector_bits: Some(256),
        toolchain: Digest::of(b"toolchain"),
        key: Some(Digest::of(b"key")),
        compile_seconds: 0.2,
    }
}

fn verified(from: &Compiled) -> Verified {
    Verified {
        compiled: from.clone(),
        worst_error_share: 0.1,
        cases: 12,
        sizes: None,
        verify_seconds: 0.1,
        node: node_id(),
    }
}

fn decided(from: &Verified) -> Outcome {
    Outcome {
        source: from.compiled.source.clone(),
        ..outcome(from.compiled.candidate.clone(), wrong())
    }
}

/// Times at which each job was sent to the verifiers and arrived there, nanoseconds since the start.
struct Clock {
    start: Instant,
    sent: Vec<AtomicU64>,
    arrived: Vec<AtomicU64>,
    done: AtomicU64,
    all_done: Notify,
    jobs: u64,
    /// All stages and the sender wait here for each other before the first message.
    ready: Barrier,
}

impl Clock {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn finished(&self) {
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.jobs {
            self.all_done.notify_one();
        }
    }
}

/// The subject on which a stage publishes, and its next message.
type Next<M, N> = (String, fn(&M) -> N);

/// One no-op stage: its message becomes the next one's.
async fn stage<M: Message + Send + std::marker::Sync + 'static, N: Message>(
    bus: Bus,
    clock: Arc<Clock>,
    queue: Queue,
    slots: usize,
    next: Option<Next<M, N>>,
    seen: impl Fn(&M, bool),
) -> Result<(), flopsmith_bus::Error> {
    let mut worker: Worker<M> = bus.worker(WorkerOptions::new(queue.all(), slots)).await?;
    clock.ready.wait().await;
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(ended) = under_way.next(), if !under_way.is_empty() => ended?,
            delivery = worker.next(), if under_way.len() < slots => {
                let Some(delivery) = delivery else { return Ok(()) };
                seen(delivery.message(), false);
                under_way.push(one(&bus, delivery, &next, &seen));
            }
        }
    }
}

async fn one<M: Message, N: Message>(
    bus: &Bus,
    delivery: Delivery<M>,
    next: &Option<Next<M, N>>,
    seen: &impl Fn(&M, bool),
) -> Result<(), flopsmith_bus::Error> {
    seen(delivery.message(), true);
    if let Some((subject, make)) = next {
        bus.publish(subject, &make(delivery.message())).await?;
    }
    delivery.done().await
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let arguments = arguments()?;
    let folder = tempfile::tempdir()?;
    let options = ServerOptions {
        sync: arguments.sync,
        ..ServerOptions::default()
    };
    let server = Server::start(None, folder.path(), options).await?;
    let bus = Bus::connect(&server).await?;
    bus.ensure_streams(&RunSetup::default()).await?;
    let class = MachineClass::new("bench")?;
    let places = || (0..arguments.jobs).map(|_| AtomicU64::new(0)).collect();
    let clock = Arc::new(Clock {
        start: Instant::now(),
        sent: places(),
        arrived: places(),
        done: AtomicU64::new(0),
        all_done: Notify::new(),
        jobs: arguments.jobs,
        ready: Barrier::new(3 * arguments.workers + 1),
    });
    let queues = [
        Queue::compile(&class),
        Queue::verify(&class),
        Queue::time(&class),
    ];
    let outcomes = arguments.outcomes.then(|| {
        (
            subjects::outcome(&run_id()),
            decided as fn(&Verified) -> Outcome,
        )
    });
    let mut tasks = JoinSet::new();
    for _ in 0..arguments.workers {
        let bus = Bus::connect(&server).await?;
        let [first, second, third] = queues.clone();
        let (next, sent) = (
            (second.of(&run_id()), compiled as fn(&Candidate) -> Compiled),
            Arc::clone(&clock),
        );
        tasks.spawn(stage(
            bus.clone(),
            Arc::clone(&clock),
            first,
            arguments.slots,
            Some(next),
            move |m: &Candidate, now| {
                if now {
                    sent.sent[number(&m.candidate)].store(sent.now(), Ordering::Relaxed);
                }
            },
        ));
        let (next, arrived) = (
            (third.of(&run_id()), verified as fn(&Compiled) -> Verified),
            Arc::clone(&clock),
        );
        tasks.spawn(stage(
            bus.clone(),
            Arc::clone(&clock),
            second,
            arguments.slots,
            Some(next),
            move |m: &Compiled, now| {
                if !now {
                    arrived.arrived[number(&m.candidate)].store(arrived.now(), Ordering::Relaxed);
                }
            },
        ));
        let (outcomes, clock) = (outcomes.clone(), Arc::clone(&clock));
        tasks.spawn(last(bus, third, arguments.slots, outcomes, clock));
    }
    clock.ready.wait().await;
    let first = queues[0].of(&run_id());
    let began = Instant::now();
    match arguments.rate {
        None => {
            let all: Vec<Candidate> = (0..arguments.jobs).map(job).collect();
            let began = Instant::now();
            bus.publish_many(&first, &all).await?;
            clock.all_done.notified().await;
            let rate = arguments.jobs as f64 / began.elapsed().as_secs_f64();
            println!(
                "{} jobs through three hops, {} workers, outcomes {}: {rate:.0} jobs/s",
                arguments.jobs, arguments.workers, arguments.outcomes
            );
            keep(&arguments, serde_json::json!({ "jobs_per_second": rate }))?;
        }
        Some(rate) => {
            let mut tick = tokio::time::interval(Duration::from_millis(5));
            let mut published = 0;
            while published < arguments.jobs {
                tick.tick().await;
                let due = (began.elapsed().as_secs_f64() * rate) as u64;
                let batch: Vec<Candidate> = (published..due.min(arguments.jobs)).map(job).collect();
                published += batch.len() as u64;
                bus.publish_many(&first, &batch).await?;
            }
            clock.all_done.notified().await;
            let mut times: Vec<f64> = clock
                .sent
                .iter()
                .zip(&clock.arrived)
                .map(|(sent, arrived)| {
                    let took = arrived
                        .load(Ordering::Relaxed)
                        .saturating_sub(sent.load(Ordering::Relaxed));
                    took as f64 * 1e-6
                })
                .collect();
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            let [half, most, nearly] = [0.5, 0.9, 0.99].map(at);
            println!(
                "{} jobs at {rate:.0}/s, {} workers: hand-over median {half:.2} ms, 90 % {most:.2} ms, 99 % {nearly:.2} ms",
                arguments.jobs, arguments.workers
            );
            keep(
                &arguments,
                serde_json::json!({ "rate": rate, "median_ms": half, "p90_ms": most, "p99_ms": nearly }),
            )?;
        }
    }
    tasks.abort_all();
    bus.drain().await?;
    server.stop().await;
    Ok(())
}

/// The last stage, with or without an outcome.
async fn last(
    bus: Bus,
    queue: Queue,
    slots: usize,
    outcomes: Option<Next<Verified, Outcome>>,
    clock: Arc<Clock>,
) -> Result<(), flopsmith_bus::Error> {
    let mut worker: Worker<Verified> = bus.worker(WorkerOptions::new(queue.all(), slots)).await?;
    clock.ready.wait().await;
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(ended) = under_way.next(), if !under_way.is_empty() => {
                ended?;
                clock.finished();
            }
            delivery = worker.next(), if under_way.len() < slots => {
                let Some(delivery) = delivery else { return Ok(()) };
                under_way.push(one(&bus, delivery, &outcomes, &|_, _| {}));
            }
        }
    }
}

fn keep(arguments: &Arguments, mut found: serde_json::Value) -> Result<(), Failure> {
    let Some(file) = &arguments.json else {
        return Ok(());
    };
    found["jobs"] = arguments.jobs.into();
    found["workers"] = arguments.workers.into();
    found["outcomes"] = arguments.outcomes.into();
    std::fs::write(file, format!("{found:#}\n"))?;
    Ok(())
}
