//! Says on stderr which part of an evaluation is at work: a certification at several workloads takes a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flopsmith_measure::{Listener, Step, Work};
use flopsmith_run::digits::counted;
use flopsmith_run::ticker::Ticker;

/// The line about the part at work. Clones write the same line.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<Shown>>);

struct Shown {
    ticker: Ticker,
    /// The number of threads, where there are several.
    threads: Option<u32>,
}

impl Progress {
    /// `alone` is true if one program is evaluated. Each of several has a line of its own when it begins, so their parts are
    /// shown on terminals only.
    pub fn new(alone: bool) -> Self {
        let ticker = match alone {
            true => Ticker::new(1),
            false => Ticker::on_terminals(),
        };
        let threads = None;
        Self(Arc::new(Mutex::new(Shown { ticker, threads })))
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The timer of this number of threads is at work next; `None` if there is one number only.
    pub fn on(&self, threads: Option<u32>) {
        self.shown().threads = threads;
    }

    /// Says which part begins.
    pub fn tell(&self, part: &str) {
        let mut shown = self.shown();
        let words = with_threads(part, shown.threads);
        shown.ticker.tick(1, 1, || words);
    }

    /// Removes the line, so that other output can follow.
    pub fn clear(&self) {
        self.shown().ticker.clear();
    }

    /// Says the steps of timers.
    pub fn listener(&self) -> Listener {
        let progress = self.clone();
        Listener::new(move |step: Step<'_>| progress.tell(&words(step)))
    }
}

/// A step of a timer in words.
fn words(step: Step<'_>) -> String {
    let what = match step.work {
        Work::Reference => "measuring the plain reference",
        Work::ReferenceAtLength => "measuring the plain reference in several processes",
        Work::Program => "timing the program",
    };
    match step.of {
        0 | 1 => what.to_owned(),
        of => format!(
            "{what} at {}, workload {} of {of}",
            step.workload, step.number
        ),
    }
}

fn with_threads(part: &str, threads: Option<u32>) -> String {
    match threads {
        Some(threads) => format!("{part}, on {}…", counted(threads.into(), "thread")),
        None => format!("{part}…"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_its_workload_where_there_are_several() {
        let step = |work: Work, of: usize| {
            words(Step {
                work,
                workload: "n=512",
                number: 2,
                of,
            })
        };
        let timing = step(Work::Program, 3);
        assert_eq!(timing, "timing the program at n=512, workload 2 of 3");
        assert_eq!(step(Work::Reference, 1), "measuring the plain reference");
        assert!(step(Work::ReferenceAtLength, 2).ends_with("workload 2 of 2"));
        assert_eq!(with_threads(&timing, None), format!("{timing}…"));
        assert_eq!(with_threads("x", Some(2)), "x, on 2 threads…");
        assert_eq!(with_threads("x", Some(1)), "x, on 1 thread…");
    }
}
