//! What a node counts, for Prometheus.
//!
//! Labels have few values each (a verdict, a role): a series for each program or run would be the end of whoever stores them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flopsmith_protocol::Verdict;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::host::Host;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerdict {
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStage {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRole {
    role: String,
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
    stages: Family<OfStage, Seconds>,
    cores: Family<OfRole, Share>,
    held: Gauge,
    connected: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flopsmith");
        let outcomes = Family::default();
        registry.register(
            "outcomes",
            "Programs decided by this node, by what became of them",
            outcomes.clone(),
        );
        let retries = Family::default();
        registry.register(
            "retries",
            "Work that failed for no fault of the program and was given back",
            retries.clone(),
        );
        let stages = Family::default();
        registry.register_with_unit(
            "stage",
            "Time that stages took for the programs decided here",
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
        registry.register("held", "Messages in hand", held.clone());
        let connected = Gauge::default();
        registry.register("connected", "Is the bus there?", connected.clone());
        Self(Arc::new(Inner {
            registry,
            outcomes,
            retries,
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
        let verdict = verdict.kind();
        self.0.outcomes.get_or_create(&OfVerdict { verdict }).inc();
        for (stage, seconds) in ["compile", "verify", "time"].into_iter().zip(stages) {
            let seconds = f64::from(seconds);
            // A clock that was set back counts nothing.
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

    /// Everything in Prometheus' text format, as it stands at `host` now.
    pub fn text(&self, host: &Host) -> String {
        let shares = host.cores.shares();
        for (role, share) in &shares.by_role {
            let role = role.clone();
            let of = self.0.cores.get_or_create(&OfRole { role });
            of.set(share * shares.seconds);
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
