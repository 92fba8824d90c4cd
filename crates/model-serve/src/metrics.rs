//! The counters of the service, for Prometheus. Labels have few values each, never a prompt or a client.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use flopsmith_serve::responses::Responses;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The counters of a process.
pub struct Metrics {
    registry: Registry,
    /// Responses.
    pub responses: Responses,
    prompt_tokens: Counter,
    written_tokens: Counter,
    rate: Gauge<f64, AtomicU64>,
    waiting: Gauge,
    running: Gauge,
    connections: Gauge,
    /// Answers that are asked for and not ended.
    open: AtomicUsize,
    /// Answers that are being written.
    written_now: AtomicUsize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flopsmith_model");
        let responses = Responses::new(&mut registry);
        let prompt_tokens = Counter::default();
        let help = "Tokens of the prompts of all requests that were taken";
        registry.register("prompt_tokens", help, prompt_tokens.clone());
        let written_tokens = Counter::default();
        let help = "Tokens that the models wrote";
        registry.register("written_tokens", help, written_tokens.clone());
        let rate = Gauge::default();
        let help =
            "Tokens that the models wrote a second, over the last second of work; 0 without work";
        registry.register("tokens_per_second", help, rate.clone());
        let waiting = Gauge::default();
        let help =
            "Answers that wait for a place in the batch, and requests whose prompts are scored";
        registry.register("waiting", help, waiting.clone());
        let running = Gauge::default();
        let help = "Answers that are being written";
        registry.register("running", help, running.clone());
        let connections = Gauge::default();
        registry.register("connections", "Open connections", connections.clone());
        Self {
            registry,
            responses,
            prompt_tokens,
            written_tokens,
            rate,
            waiting,
            running,
            connections,
            open: AtomicUsize::new(0),
            written_now: AtomicUsize::new(0),
        }
    }
}

impl Metrics {
    /// Prompts with this number of tokens were taken.
    pub fn prompted(&self, tokens: u64) {
        self.prompt_tokens.inc_by(tokens);
    }

    /// The models wrote this number of tokens.
    pub fn wrote(&self, tokens: u64) {
        self.written_tokens.inc_by(tokens);
    }

    /// The models write this number of tokens a second.
    pub fn rate(&self, tokens: f64) {
        self.rate.set(tokens);
    }

    /// This number of answers is being written.
    pub fn writes(&self, answers: usize) {
        self.written_now.store(answers, Ordering::Relaxed);
    }

    /// Opens `count` answers, unless there would be more than `most`.
    pub fn open(&self, count: usize, most: usize) -> bool {
        let opened = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                let more = open.checked_add(count)?;
                (more <= most).then_some(more)
            });
        opened.is_ok()
    }

    /// Ends `count` open answers.
    pub fn close(&self, count: usize) {
        self.open.fetch_sub(count, Ordering::Relaxed);
    }

    /// Number of answers that are asked for and not ended.
    pub fn count_open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A connection was opened; dropping the guard closes it.
    pub fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let running = self.written_now.load(Ordering::Relaxed);
        self.running.set(whole(running));
        self.waiting
            .set(whole(self.count_open().saturating_sub(running)));
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
        // A family without a member is not written.
        metrics.responses.count("/health", 200);
        let page = include_str!("../../../docs/reference/model-serve.md");
        let text = metrics.text();
        let described = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut seen = 0;
        for line in described {
            let name = line.split(' ').next().unwrap_or_default();
            assert!(
                page.contains(&format!("| `{name}")),
                "docs/reference/model-serve.md lacks {name}"
            );
            seen += 1;
        }
        assert_eq!(seen, 7);
    }

    #[test]
    fn no_more_answers_are_open_than_may_be() {
        let metrics = Metrics::default();
        assert!(metrics.open(3, 4));
        assert!(!metrics.open(2, 4));
        assert!(metrics.open(1, 4));
        metrics.writes(3);
        let text = metrics.text();
        assert!(text.contains("flopsmith_model_running 3"), "{text}");
        assert!(text.contains("flopsmith_model_waiting 1"), "{text}");
        metrics.close(4);
        assert!(!metrics.open(usize::MAX, 4));
        assert_eq!(metrics.count_open(), 0);
    }
}
