//! The counters of a node, for Prometheus.
//!
//! Labels have few values each (a verdict, a role). A series for each program or run would overload the Prometheus
//! server.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flopsmith_bus::QueueState;
use flopsmith_protocol::Verdict;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use flopsmith_archive::Archive;

use crate::gpus::Gpus;
use crate::host::Host;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerdict {
    verdict: &'static str,
    /// The fault, or the part that failed; empty if the program was measured.
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    stage: String,
    class: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRole {
    role: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfGpu {
    gpu: u32,
}

type Seconds = Counter<f64, AtomicU64>;
type Share = Gauge<f64, AtomicU64>;

/// Counts of one process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    outcomes: Family<OfVerdict, Counter>,
    retries: Family<OfStage, Counter>,
    resting: Family<OfStage, Gauge>,
    stages: Family<OfStage, Seconds>,
    cores: Family<OfRole, Share>,
    held: Gauge,
    connected: Gauge,
    process_cpu: Lone<Seconds>,
    process_memory: Lone<Gauge>,
    gpus: Gpus,
    gpu_use: Family<OfGpu, Share>,
    gpu_memory: Family<OfGpu, Gauge>,
    queues: Queues,
    run: Run,
    policy: Policy,
}

/// A metric without labels that appears only once it has a value, because not every node has every role.
type Lone<M> = Family<Bare, M>;

/// No labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bare;

impl EncodeLabelSet for Bare {
    fn encode(&self, _: &mut LabelSetEncoder) -> Result<(), std::fmt::Error> {
        Ok(())
    }
}

#[derive(Default)]
struct Queues {
    waiting: Family<OfQueue, Gauge>,
    in_hand: Family<OfQueue, Gauge>,
    age: Family<OfQueue, Share>,
    dead: Lone<Gauge>,
}

impl Queues {
    fn register(&self, registry: &mut Registry) {
        let waiting = "Messages that no worker holds, by stage and machine class (or policy)";
        registry.register("queue_waiting", waiting, self.waiting.clone());
        let in_hand = "Messages that a worker holds, by stage and machine class (or policy)";
        registry.register("queue_in_hand", in_hand, self.in_hand.clone());
        let age = "Age of the oldest unfinished message, by stage and machine class (or policy)";
        registry.register_with_unit("queue_age", age, Unit::Seconds, self.age.clone());
        let dead = "Messages that no role could process";
        registry.register("dead_letters", dead, self.dead.clone());
    }
}

/// Of the run whose archive this node has; with several such runs, of the one that reported last.
#[derive(Default)]
struct Run {
    step: Lone<Gauge>,
    correct_share: Lone<Share>,
    best_gflops: Lone<Share>,
    cells: Lone<Gauge>,
}

impl Run {
    fn register(&self, registry: &mut Registry) {
        registry.register("run_step", "Finished steps", self.step.clone());
        let correct = "Share of correct programs in the last step";
        registry.register("run_correct_share", correct, self.correct_share.clone());
        let best = "Speed of the fastest elite, 10^9 operations a second";
        registry.register("run_best_gflops", best, self.best_gflops.clone());
        registry.register(
            "run_cells",
            "Archive cells with an elite",
            self.cells.clone(),
        );
    }
}

/// Of the run whose learner this node has.
#[derive(Default)]
struct Policy {
    version: Lone<Gauge>,
    staleness: Lone<Gauge>,
    reward: Lone<Share>,
    steps: Lone<Counter>,
}

impl Policy {
    fn register(&self, registry: &mut Registry) {
        registry.register("policy_version", "Newest policy", self.version.clone());
        let staleness = "Versions between the oldest policy of the last gradient step's samples and the newest policy at that time";
        registry.register(
            "policy_staleness_versions",
            staleness,
            self.staleness.clone(),
        );
        let reward = "Mean reward of the samples of the last gradient step";
        registry.register("run_reward_mean", reward, self.reward.clone());
        registry.register(
            "gradient_steps",
            "Updates of the policy",
            self.steps.clone(),
        );
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flopsmith");
        let outcomes = Family::default();
        registry.register(
            "outcomes",
            "Programs decided by this node, by verdict and cause",
            outcomes.clone(),
        );
        let retries = Family::default();
        registry.register(
            "retries",
            "Work that failed through no fault of its program and was handed back",
            retries.clone(),
        );
        let resting = Family::default();
        registry.register(
            "quarantined",
            "1 if a stage failed repeatedly and has not succeeded since, else 0",
            resting.clone(),
        );
        let stages = Family::default();
        registry.register_with_unit(
            "stage",
            "Time that the stages took for the programs that this node decided",
            Unit::Seconds,
            stages.clone(),
        );
        let cores = Family::default();
        registry.register_with_unit(
            "core_time",
            "Time in which a role had cores of this node",
            Unit::Seconds,
            cores.clone(),
        );
        let held = Gauge::default();
        registry.register("held", "Messages held", held.clone());
        let connected = Gauge::default();
        registry.register(
            "connected",
            "1 if this node reaches the bus, else 0",
            connected.clone(),
        );
        let process_cpu = Family::default();
        let cpu = "Processor time of this process";
        registry.register_with_unit("process_cpu", cpu, Unit::Seconds, process_cpu.clone());
        let process_memory = Family::default();
        let memory = "Memory of this process";
        registry.register_with_unit(
            "process_resident_memory",
            memory,
            Unit::Bytes,
            process_memory.clone(),
        );
        let gpu_use = Family::default();
        let busy = "Share of the last moments in which a GPU of this node ran a kernel, 0 to 1";
        registry.register("gpu_utilization_ratio", busy, gpu_use.clone());
        let gpu_memory = Family::default();
        let memory = "Memory in use on a GPU of this node";
        registry.register_with_unit("gpu_memory_used", memory, Unit::Bytes, gpu_memory.clone());
        let (queues, run, policy) = (Queues::default(), Run::default(), Policy::default());
        queues.register(&mut registry);
        run.register(&mut registry);
        policy.register(&mut registry);
        Self(Arc::new(Inner {
            registry,
            process_cpu,
            process_memory,
            gpus: Gpus::default(),
            gpu_use,
            gpu_memory,
            queues,
            run,
            policy,
            outcomes,
            retries,
            resting,
            stages,
            cores,
            held,
            connected,
        }))
    }
}

impl Metrics {
    /// A program was decided; `stages` are the seconds of compile, verify, time.
    pub(crate) fn decided(&self, verdict: &Verdict, stages: [f32; 3]) {
        let (verdict, cause) = match verdict {
            Verdict::Measured { .. } => ("measured", ""),
            Verdict::Rejected { fault, .. } => ("rejected", fault.name()),
            Verdict::Infrastructure { cause, .. } => ("infrastructure", cause.name()),
            Verdict::Unknown { cause, .. } => ("unknown", cause.name()),
        };
        let of = OfVerdict { verdict, cause };
        self.0.outcomes.get_or_create(&of).inc();
        for (stage, seconds) in ["compile", "verify", "time"].into_iter().zip(stages) {
            let seconds = f64::from(seconds);
            // Seconds from a clock that was set back are negative and are not counted.
            if seconds > 0.0 {
                let of = self.0.stages.get_or_create(&OfStage { stage });
                of.inc_by(seconds);
            }
        }
    }

    /// Work of a stage was given back.
    pub(crate) fn retried(&self, stage: &'static str) {
        self.0.retries.get_or_create(&OfStage { stage }).inc();
    }

    /// Sets the fill levels of the work queues at `now_unix_ms`, and the number of dead letters.
    pub fn queues(&self, queues: &[QueueState], dead: u64, now_unix_ms: u64) {
        let known = &self.0.queues;
        // Otherwise a machine class that has gone would keep its last values for ever.
        known.waiting.clear();
        known.in_hand.clear();
        known.age.clear();
        for queue in queues {
            let of = OfQueue {
                stage: queue.stage.clone(),
                class: queue.target.clone(),
            };
            let oldest = queue.oldest_unix_ms.unwrap_or(now_unix_ms);
            known.waiting.get_or_create(&of).set(whole(queue.waiting));
            known.in_hand.get_or_create(&of).set(whole(queue.in_hand));
            let age = now_unix_ms.saturating_sub(oldest) as f64 / 1000.0;
            known.age.get_or_create(&of).set(age);
        }
        known.dead.get_or_create(&Bare).set(whole(dead));
    }

    /// A step ended in a run whose archive is on this node. `correct` of `judged` programs were right.
    pub(crate) fn step_ended<'a>(
        &self,
        step: u64,
        correct: u64,
        judged: u64,
        archives: impl Iterator<Item = &'a Archive> + Clone,
    ) {
        let run = &self.0.run;
        run.step.get_or_create(&Bare).set(whole(step + 1));
        if judged > 0 {
            let share = correct as f64 / judged as f64;
            run.correct_share.get_or_create(&Bare).set(share);
        }
        let bests = archives.clone().filter_map(Archive::best);
        if let Some(best) = bests.map(|(_, elite)| elite.gflops).max_by(f64::total_cmp) {
            run.best_gflops.get_or_create(&Bare).set(best);
        }
        let cells = archives.flat_map(Archive::cells);
        let cells = cells.filter(|(_, cell)| cell.is_filled()).count() as u64;
        run.cells.get_or_create(&Bare).set(whole(cells));
    }

    /// The policy was updated to `version`, from samples of versions down to `oldest`.
    pub fn trained(&self, version: u64, oldest: u64, mean_reward: f64) {
        let policy = &self.0.policy;
        policy.version.get_or_create(&Bare).set(whole(version));
        // The samples were written before this update, so this update is subtracted.
        let staleness = version.saturating_sub(oldest + 1);
        policy.staleness.get_or_create(&Bare).set(whole(staleness));
        policy.reward.get_or_create(&Bare).set(mean_reward);
        policy.steps.get_or_create(&Bare).inc();
    }

    /// Watches the GPUs of this machine from now on, if there are any.
    pub fn watch_gpus(&self) {
        self.0.gpus.watch("nvidia-smi");
    }

    fn look_at_gpus(&self) {
        self.0.gpu_use.clear();
        self.0.gpu_memory.clear();
        for gpu in self.0.gpus.now() {
            let of = OfGpu { gpu: gpu.index };
            self.0.gpu_use.get_or_create(&of).set(gpu.utilization);
            let memory = self.0.gpu_memory.get_or_create(&of);
            memory.set(whole(gpu.memory_bytes));
        }
    }

    fn look_at_process(&self) {
        // Without /proc these metrics are left out.
        if let Some((cpu_seconds, memory_bytes)) = process() {
            let cpu = self.0.process_cpu.get_or_create(&Bare);
            // A counter takes the increase.
            let more = cpu_seconds - cpu.get();
            if more > 0.0 {
                cpu.inc_by(more);
            }
            drop(cpu);
            self.0
                .process_memory
                .get_or_create(&Bare)
                .set(whole(memory_bytes));
        }
    }

    /// All metrics in Prometheus' text format, with the current state of `host`.
    pub fn text(&self, host: &Host) -> String {
        self.look_at_process();
        self.look_at_gpus();
        let shares = host.cores.shares();
        for (role, share) in &shares.by_role {
            let role = role.clone();
            let of = self.0.cores.get_or_create(&OfRole { role });
            of.set(share * shares.seconds);
        }
        for (stage, doubtful) in host.circuit_breaker.doubtful() {
            let of = self.0.resting.get_or_create(&OfStage { stage });
            of.set(i64::from(doubtful));
        }
        let held = i64::try_from(host.bus.held()).unwrap_or(i64::MAX);
        self.0.held.set(held);
        self.0.connected.set(i64::from(host.bus.is_connected()));
        let mut text = String::new();
        match encode(&mut text, &self.0.registry) {
            Ok(()) => text,
            // Writing to a string does not fail.
            Err(_) => String::new(),
        }
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Processor seconds and resident bytes of this process.
fn process() -> Option<(f64, u64)> {
    let process = procfs::process::Process::myself().ok()?;
    let stat = process.stat().ok()?;
    let ticks = (stat.utime + stat.stime) as f64;
    let resident = process.status().ok()?.vmrss? * 1024;
    Some((ticks / procfs::ticks_per_second() as f64, resident))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::InfrastructureCause;
    use flopsmith_test_support::{infrastructure, measured, wrong};

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let mut text = String::new();
        encode(&mut text, &metrics.0.registry).unwrap();
        text
    }

    #[test]
    fn outcomes_are_counted_by_verdict_and_cause() {
        let metrics = Metrics::default();
        metrics.decided(&measured(40.0), [0.1, 0.2, 0.3]);
        metrics.decided(&wrong(), [0.1, 0.2, 0.0]);
        metrics.decided(&wrong(), [0.1, 0.2, 0.0]);
        metrics.decided(&infrastructure(InfrastructureCause::Jail), [0.1, 0.0, 0.0]);
        let text = text(&metrics);
        for line in [
            "flopsmith_outcomes_total{verdict=\"measured\",cause=\"\"} 1",
            "flopsmith_outcomes_total{verdict=\"rejected\",cause=\"wrong_result\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(
            text.contains("verdict=\"infrastructure\",cause=\""),
            "{text}"
        );
        assert!(
            text.contains("flopsmith_stage_seconds_total{stage=\"time\"}"),
            "{text}"
        );
    }

    #[test]
    fn gone_queues_are_forgotten_and_unknown_values_are_not_exported() {
        let metrics = Metrics::default();
        let before = text(&metrics);
        for absent in [
            "queue_waiting{",
            "dead_letters 0",
            "policy_version 0",
            "run_step 0",
        ] {
            assert!(!before.contains(absent), "{before}");
        }
        let queue = |target: &str| QueueState {
            stage: "compile".into(),
            target: target.into(),
            waiting: 7,
            in_hand: 2,
            oldest_unix_ms: Some(4_000),
        };
        metrics.queues(&[queue("a"), queue("b")], 3, 10_000);
        metrics.queues(&[queue("b")], 3, 10_000);
        let text = text(&metrics);
        assert!(!text.contains("class=\"a\""), "{text}");
        for line in [
            "flopsmith_queue_waiting{stage=\"compile\",class=\"b\"} 7",
            "flopsmith_queue_in_hand{stage=\"compile\",class=\"b\"} 2",
            "flopsmith_queue_age_seconds{stage=\"compile\",class=\"b\"} 6.0",
            "flopsmith_dead_letters{} 3",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_policy_learns_from_what_the_one_before_it_wrote() {
        let metrics = Metrics::default();
        metrics.trained(5, 4, 0.25);
        metrics.trained(6, 3, 0.5);
        let text = text(&metrics);
        for line in [
            "flopsmith_policy_version{} 6",
            "flopsmith_policy_staleness_versions{} 2",
            "flopsmith_run_reward_mean{} 0.5",
            "flopsmith_gradient_steps_total{} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory_and_has_run() {
        let (seconds, bytes) = process().unwrap();
        assert!(seconds >= 0.0 && bytes > 100_000, "{seconds} {bytes}");
        let metrics = Metrics::default();
        metrics.look_at_process();
        metrics.look_at_process();
        let text = text(&metrics);
        assert!(
            text.contains("flopsmith_process_cpu_seconds_total"),
            "{text}"
        );
        assert!(
            text.contains("flopsmith_process_resident_memory_bytes"),
            "{text}"
        );
    }
}
