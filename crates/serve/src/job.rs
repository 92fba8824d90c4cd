//! A request and its answers, as requests and the thread that evaluates share them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::against::Comparison;
use crate::auth::Holder;
use crate::journal::JobId;
use crate::program::Asked;
use crate::wire::Answer;

/// A request and its answers.
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Time of the request, milliseconds since 1970.
    pub created_unix_ms: u64,
    /// The client that sent it. No other one reaches it, and its quota has the candidates.
    pub holder: Holder,
    /// The candidates, as their answers name them.
    pub asked: Vec<Asked>,
    /// The part that the program of an `against` has in it.
    pub comparison: Comparison,
    answers: Mutex<Answers>,
    /// The number of answers. It changes once an answer can be read.
    told: watch::Sender<usize>,
    /// Time that the evaluations of its programs took, microseconds.
    spent_us: AtomicU64,
    /// True if the folder lacks an answer that could not be written.
    unwritten: AtomicBool,
}

struct Answers {
    all: Vec<Option<Arc<Answer>>>,
    done: usize,
}

/// Locks, also if a thread panicked meanwhile: every change of these values is whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// A job without answers.
    pub fn new(
        id: JobId,
        created_unix_ms: u64,
        holder: Holder,
        asked: Vec<Asked>,
        comparison: Comparison,
    ) -> Self {
        let answers = Answers {
            all: vec![None; asked.len()],
            done: 0,
        };
        Self {
            id,
            created_unix_ms,
            holder,
            asked,
            comparison,
            answers: Mutex::new(answers),
            told: watch::Sender::new(0),
            spent_us: AtomicU64::new(0),
            unwritten: AtomicBool::new(false),
        }
    }

    /// Notes that an answer could not be written.
    pub fn lacks_answers(&self) {
        self.unwritten.store(true, Ordering::Relaxed);
    }

    /// True if an answer could not be written.
    pub fn is_lacking_answers(&self) -> bool {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Time that the evaluations of its programs took so far.
    pub fn spent(&self) -> Duration {
        Duration::from_micros(self.spent_us.load(Ordering::Relaxed))
    }

    /// Adds the time of an evaluation.
    pub fn spend(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.spent_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// The candidates without an answer.
    pub fn missing(&self) -> Vec<usize> {
        let answers = lock(&self.answers);
        let all = answers.all.iter().enumerate();
        let missing = all.filter(|(_, answer)| answer.is_none());
        missing.map(|(index, _)| index).collect()
    }

    /// Number of candidates.
    pub fn total(&self) -> usize {
        self.asked.len()
    }

    /// A receiver that changes when an answer comes.
    pub fn listen(&self) -> watch::Receiver<usize> {
        self.told.subscribe()
    }

    /// The answers from candidate `from` on, up to the first that is missing.
    pub fn answers_from(&self, from: usize) -> Vec<Arc<Answer>> {
        let answers = lock(&self.answers);
        let rest = answers.all.iter().skip(from);
        rest.map_while(Clone::clone).collect()
    }

    /// True if all answers are there.
    pub fn is_done(&self) -> bool {
        lock(&self.answers).done == self.total()
    }

    /// True if an answer has no reward.
    pub fn has_failed(&self) -> bool {
        let answers = lock(&self.answers);
        let mut known = answers.all.iter().flatten();
        known.any(|answer| answer.reward.is_none())
    }

    /// The answers so far, in the order of the candidates.
    pub fn answers(&self) -> Vec<Answer> {
        let answers = lock(&self.answers);
        let known = answers.all.iter().flatten();
        known.map(|answer| answer.as_ref().clone()).collect()
    }

    /// Adds answers. Returns true if these were the last ones.
    pub fn add(&self, answers: Vec<Arc<Answer>>) -> bool {
        let mut known = lock(&self.answers);
        let before = known.done;
        for answer in answers {
            let Some(place) = known.all.get_mut(answer.index) else {
                continue;
            };
            if place.is_none() {
                *place = Some(answer);
                known.done += 1;
            }
        }
        let done = known.done;
        drop(known);
        self.told.send_replace(done);
        before < done && done == self.total()
    }
}
