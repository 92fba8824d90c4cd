//! The counters of the service, for Prometheus. Labels have few values each, never a program or a job.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::program::{Judged, Program};
use crate::responses::Responses;
use crate::wire::Outcome;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    outcome: &'static str,
    /// The fault, or the part that failed; empty if the program was measured.
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPurpose {
    purpose: &'static str,
}

/// The counters of a process.
pub struct Metrics {
    registry: Registry,
    evaluations: Family<OfOutcome, Counter>,
    cached: Counter,
    seconds: Family<OfPurpose, Counter<f64, AtomicU64>>,
    /// Responses.
    pub responses: Responses,
    waiting: Gauge,
    evaluating: Gauge,
    jobs: Gauge,
    answers: Gauge,
    connections: Gauge,
}

/// Numbers that the service knows when it is asked.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Number of programs that wait or are being evaluated.
    pub waiting: usize,
    /// Number of programs that are being evaluated.
    pub evaluating: usize,
    /// Number of jobs that are not done.
    pub jobs: usize,
    /// False if a cluster should evaluate and does not answer.
    pub answers: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flopsmith_serve");
        let evaluations = Family::default();
        registry.register(
            "evaluations",
            "Programs evaluated by this process, by outcome and reason",
            evaluations.clone(),
        );
        let cached = Counter::default();
        registry.register(
            "cached",
            "Candidates answered with the result of an earlier evaluation",
            cached.clone(),
        );
        let seconds = Family::default();
        registry.register_with_unit(
            "evaluation",
            "Time that evaluations took, by purpose",
            Unit::Seconds,
            seconds.clone(),
        );
        let responses = Responses::new(&mut registry);
        let waiting = Gauge::default();
        let help = "Programs that wait or are being evaluated";
        registry.register("waiting", help, waiting.clone());
        let jobs = Gauge::default();
        registry.register("jobs", "Jobs that are not done", jobs.clone());
        let evaluating = Gauge::default();
        let help = "Programs that are being evaluated";
        registry.register("evaluating", help, evaluating.clone());
        let answers = Gauge::default();
        let help = "0 if a cluster is to evaluate and does not answer, else 1";
        registry.register("answers", help, answers.clone());
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        Self {
            registry,
            evaluations,
            cached,
            seconds,
            responses,
            waiting,
            evaluating,
            jobs,
            answers,
            connections,
        }
    }
}

impl Metrics {
    /// A program was evaluated in `seconds`.
    pub fn evaluated(&self, program: &Program, judged: &Judged, seconds: f64) {
        let (outcome, reason) = Outcome::of(&judged.verdict);
        let of = OfOutcome {
            outcome: outcome.name(),
            reason: reason.unwrap_or_default(),
        };
        self.evaluations.get_or_create(&of).inc();
        let purpose = program.purpose.name();
        let time = self.seconds.get_or_create(&OfPurpose { purpose });
        time.inc_by(seconds.max(0.0));
    }

    /// A candidate was answered from the cache.
    pub fn cached(&self) {
        self.cached.inc();
    }

    /// A connection was opened; dropping the guard closes it.
    pub fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self, now: Now) -> String {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.waiting.set(whole(now.waiting));
        self.evaluating.set(whole(now.evaluating));
        self.jobs.set(whole(now.jobs));
        self.answers.set(i64::from(now.answers));
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// An open connection.
pub struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_metric() {
        let metrics = Metrics::default();
        metrics.responses.count("/v1/health", 200);
        // A family without a member is not written.
        let (outcome, reason) = ("measured", "");
        let of = OfOutcome { outcome, reason };
        metrics.evaluations.get_or_create(&of).inc();
        let of = OfPurpose { purpose: "rank" };
        metrics.seconds.get_or_create(&of).inc_by(1.0);
        let guard = metrics.connected();
        let now = Now {
            waiting: 3,
            evaluating: 1,
            jobs: 2,
            answers: false,
        };
        let text = metrics.text(now);
        assert!(text.contains("flopsmith_serve_waiting 3"), "{text}");
        assert!(text.contains("flopsmith_serve_evaluating 1"), "{text}");
        assert!(text.contains("flopsmith_serve_jobs 2"), "{text}");
        assert!(text.contains("flopsmith_serve_answers 0"), "{text}");
        assert!(text.contains("flopsmith_serve_connections 1"), "{text}");
        drop(guard);
        let text = metrics.text(now);
        assert!(text.contains("flopsmith_serve_connections 0"), "{text}");
        let page = include_str!("../../../docs/reference/http.md");
        let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut seen = 0;
        for line in described {
            let name = line.split(' ').next().unwrap_or_default();
            assert!(
                page.contains(&format!("| `{name}")),
                "docs/reference/http.md lacks {name}"
            );
            seen += 1;
        }
        assert_eq!(seen, 9);
    }
}
