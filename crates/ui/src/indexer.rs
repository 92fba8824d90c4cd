//! The thread that extends indexes. It works on one log at a time, in small parts, so that a long log delays no short one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::watched::{Opened, Snapshot, Watched, give_up};

/// Number of indexes that are open at the same time; each keeps its sums in memory. A comparison reads two of each run.
const MOST_OPEN: usize = 32;

/// The thread. It ends when this handle is dropped.
pub struct Indexer {
    sender: Option<Sender<Arc<Watched>>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start() -> io::Result<Self> {
        let (sender, receiver) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stopping);
        let thread = std::thread::Builder::new().name("index".into());
        let thread = thread.spawn(move || work(&receiver, &asked))?;
        Ok(Self {
            sender: Some(sender),
            stopping,
            thread: Some(thread),
        })
    }

    /// Asks for the newest state of a log, without waiting for it.
    pub fn ask(&self, watched: &Arc<Watched>) {
        if !watched.is_current()
            && watched.queue()
            && let Some(sender) = &self.sender
            && sender.send(Arc::clone(watched)).is_err()
        {
            tracing::error!("the thread that extends indexes ended; start the window again");
        }
    }

    /// The state of a log, waited for until `deadline`.
    pub fn current(&self, watched: &Arc<Watched>, deadline: Instant) -> Snapshot {
        if watched.length() == 0 {
            return Snapshot {
                done: true,
                ..watched.snapshot()
            };
        }
        self.ask(watched);
        watched.wait(deadline)
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // The thread then has nothing left to wait for.
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that extends indexes panicked");
        }
    }
}

fn work(asked: &Receiver<Arc<Watched>>, stopping: &AtomicBool) {
    // The log that was worked on last is in front.
    let mut open: VecDeque<Opened> = VecDeque::new();
    let mut queue: VecDeque<Arc<Watched>> = VecDeque::new();
    loop {
        queue.extend(asked.try_iter());
        let next = match queue.pop_front() {
            Some(next) => next,
            None => match asked.recv() {
                Ok(next) => next,
                Err(_) => return,
            },
        };
        if stopping.load(Ordering::SeqCst) {
            return;
        }
        match advance(&mut open, &next) {
            Ok(true) => {}
            // Others have their turns before the rest.
            Ok(false) => queue.push_back(next),
            Err(error) => {
                let log = next.path().display();
                tracing::warn!(%log, %error, "the index of a log cannot be extended");
                open.retain(|opened| !Arc::ptr_eq(opened.watched(), &next));
                give_up(&next);
            }
        }
    }
}

/// Adds a part of a log to its index. False if more is left.
fn advance(open: &mut VecDeque<Opened>, next: &Arc<Watched>) -> io::Result<bool> {
    let place = open
        .iter()
        .position(|opened| Arc::ptr_eq(opened.watched(), next));
    let opened = match place.and_then(|place| open.remove(place)) {
        Some(opened) => opened,
        None => Opened::open(Arc::clone(next))?,
    };
    open.push_front(opened);
    if open.len() > MOST_OPEN
        && let Some(oldest) = open.pop_back()
    {
        oldest.close();
    }
    match open.front_mut() {
        Some(opened) => opened.advance(),
        None => Ok(true),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use flopsmith_test_support::{first, measured};

    use super::*;
    use crate::index::{Places, outcome};

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn more_logs_than_are_open_are_all_shown_and_grow() {
        let place = tempfile::tempdir().unwrap();
        let indexer = Indexer::start().unwrap();
        let line = |sample| {
            let outcome = first(sample, "a", "simd", measured(1.0));
            serde_json::to_string(&outcome).unwrap() + "\n"
        };
        let mut all = Vec::new();
        for number in 0..MOST_OPEN + 4 {
            let folder = place.path().join(number.to_string());
            std::fs::create_dir(&folder).unwrap();
            let log = folder.join("outcomes.jsonl");
            let places = Places::new(&folder, None, "ui");
            let watched = Arc::new(Watched::new(log, places, outcome));
            let before = indexer.current(&watched, deadline());
            assert!(before.done && before.view.is_none());
            std::fs::write(watched.path(), line(1)).unwrap();
            all.push(watched);
        }
        for watched in &all {
            assert_eq!(indexer.current(watched, deadline()).totals.count, 1);
        }
        for watched in &all {
            std::fs::write(watched.path(), line(1) + &line(2)).unwrap();
            let now = indexer.current(watched, deadline());
            assert_eq!((now.totals.count, now.covered()), (2, None));
        }
        // Another log in the place of the old one.
        std::fs::write(all[0].path(), line(3)).unwrap();
        let now = indexer.current(&all[0], deadline());
        assert_eq!(now.view.unwrap().count, 1);
    }
}
