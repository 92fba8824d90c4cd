//! The log of a thread, as text.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Metadata, Subscriber, span};

/// A subscriber beside each log. While a process has one subscriber alone, tracing asks the thread that comes to an event first whether
/// anybody wants it, and keeps that answer for all threads: a thread without a log would keep the event from the log of another one.
static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// Collects everything that is logged where it is the subscriber, at every level.
#[derive(Clone)]
pub struct Log(Arc<Mutex<String>>);

impl Default for Log {
    fn default() -> Self {
        LazyLock::force(&OTHER);
        Self(Arc::default())
    }
}

struct Words<'a>(&'a mut String);

impl Log {
    /// The text that was logged so far.
    pub fn text(&self) -> String {
        self.words().clone()
    }

    fn words(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = write!(self.0, "{field}={value:?} ");
        written.expect("a string takes everything");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Words(&mut self.words()));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Words(&mut self.words()));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Words(&mut self.words()));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_an_event_that_another_thread_came_to_first() {
        let log = Log::default();
        let _here = tracing::subscriber::set_default(log.clone());
        let say = || tracing::debug!("said");
        std::thread::scope(|scope| {
            scope.spawn(say);
        });
        say();
        assert!(log.text().contains("said"), "{}", log.text());
    }
}
