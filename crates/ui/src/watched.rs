//! A log and its index, shared by the thread that extends the index and those that make pages.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::index::{Index, Places, Read, View};
use crate::totals::Totals;

/// Bytes of the log that are read before pages see the result.
const SLICE: u64 = 8 << 20;

/// The state of a log for one page.
#[derive(Clone)]
pub struct Snapshot {
    /// The records; none before the log was opened, and if there is no log.
    pub view: Option<View>,
    /// The sums over them.
    pub totals: Arc<Totals>,
    /// Length of the log when it was last read, bytes.
    pub log_length: u64,
    /// True if the records cover every whole line of the log.
    pub done: bool,
}

impl Snapshot {
    fn empty() -> Self {
        Self {
            view: None,
            totals: Arc::default(),
            log_length: 0,
            done: false,
        }
    }

    /// Share of the log that the records cover; none if they cover all.
    pub fn covered(&self) -> Option<f64> {
        let covered = self.view.as_ref().map_or(0, |view| view.covered);
        (!self.done).then(|| covered as f64 / self.log_length.max(covered).max(1) as f64)
    }
}

/// A log and its index.
pub struct Watched {
    path: PathBuf,
    places: Places,
    read: Read,
    snapshot: Mutex<Snapshot>,
    changed: Condvar,
    queued: AtomicBool,
}

impl Watched {
    /// The log at `path`, which need not exist yet.
    pub fn new(path: PathBuf, places: Places, read: Read) -> Self {
        Self {
            path,
            places,
            read,
            snapshot: Mutex::new(Snapshot::empty()),
            changed: Condvar::new(),
            queued: AtomicBool::new(false),
        }
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the log now, bytes; 0 if there is none.
    pub fn length(&self) -> u64 {
        self.path.metadata().map_or(0, |log| log.len())
    }

    /// The latest state.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    /// True if the latest state covers the log as it is now.
    pub fn is_current(&self) -> bool {
        let length = self.length();
        let snapshot = self.lock();
        length == 0 || (snapshot.done && snapshot.log_length == length)
    }

    /// Marks the log as one that waits for the thread. False if it waits already.
    pub fn queue(&self) -> bool {
        !self.queued.swap(true, Ordering::SeqCst)
    }

    /// Waits until the state is current, or until `deadline`, and returns it.
    pub fn wait(&self, deadline: Instant) -> Snapshot {
        let mut snapshot = self.lock();
        while !(snapshot.done && snapshot.log_length == self.length()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            let waited = self.changed.wait_timeout(snapshot, left);
            snapshot = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        snapshot.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, snapshot: Snapshot) {
        *self.lock() = snapshot;
        self.changed.notify_all();
    }
}

/// An index that the thread works on.
pub struct Opened {
    watched: Arc<Watched>,
    index: Index,
    totals: Arc<Totals>,
}

impl Opened {
    /// Opens the index of a log, and sums up the records that it has.
    ///
    /// # Errors
    /// The log or the index cannot be used.
    pub fn open(watched: Arc<Watched>) -> io::Result<Self> {
        let index = Index::open(&watched.path, &watched.places, watched.read)?;
        let mut opened = Self {
            watched,
            index,
            totals: Arc::default(),
        };
        let mut totals = Totals::default();
        if opened.index.replay(|number, of| totals.add(number, of))? {
            opened.totals = Arc::new(totals);
        } else {
            opened.index.clear()?;
        }
        Ok(opened)
    }

    /// The log.
    pub fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// Takes the log out of the queue, adds a part of it to the index, and shows the result to pages. False if more is
    /// left.
    ///
    /// # Errors
    /// The log or the index cannot be used.
    pub fn advance(&mut self) -> io::Result<bool> {
        self.watched.queued.store(false, Ordering::SeqCst);
        if !self.index.fits()? {
            self.index.clear()?;
            self.totals = Arc::default();
        }
        // The state that pages see shares the sums, so they are copied once for each part.
        let totals = Arc::make_mut(&mut self.totals);
        let extended = self
            .index
            .extend(SLICE, |number, record| totals.add(number, record))?;
        self.watched.publish(Snapshot {
            view: Some(self.index.view()),
            totals: Arc::clone(&self.totals),
            log_length: extended.log_length,
            done: extended.done,
        });
        Ok(extended.done)
    }

    /// Closes the index; pages open it again when they need it.
    pub fn close(self) {
        self.watched.publish(Snapshot::empty());
    }
}

/// Shows an empty state after a log could not be read.
pub fn give_up(watched: &Watched) {
    watched.queued.store(false, Ordering::SeqCst);
    let log_length = watched.length();
    watched.publish(Snapshot {
        log_length,
        done: true,
        ..Snapshot::empty()
    });
}
