//! Slots for jobs that a control group bounds. Each slot has its own launching thread and control group.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::{Cgroup, Entry};
use crate::error::Error;
use crate::launch::Launcher;

/// A launching thread, with the control group of its jobs.
pub(crate) struct Slot {
    pub launcher: Arc<Launcher>,
    // Dropped after the launcher, because only an empty group can be removed.
    pub group: Option<Cgroup>,
}

impl Slot {
    /// A slot without a group.
    pub fn plain() -> Result<Self, Error> {
        Ok(Slot {
            launcher: Arc::new(Launcher::new(|| {})?),
            group: None,
        })
    }

    /// A slot whose jobs are bounded by `group`.
    pub fn grouped(group: Cgroup) -> Result<Self, Error> {
        let folders = group.folders().to_vec();
        let by_thread = group.entry == Entry::ByThread;
        let launcher = Launcher::new(move || {
            if by_thread {
                Cgroup::enter_thread(&folders);
            }
        })?;
        Ok(Slot {
            launcher: Arc::new(launcher),
            group: Some(group),
        })
    }
}

/// Slots that no job is using.
#[derive(Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<Vec<Slot>>>);

impl Slots {
    /// Returns a free slot, or makes one. The number of slots is the largest number of jobs that ever ran at once.
    pub fn take(&self) -> Result<Slot, Error> {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(slot) => Ok(slot),
            None => match Cgroup::new() {
                Ok(group) => Slot::grouped(group),
                Err(why) => {
                    tracing::warn!(why, "a job runs without a control group");
                    Slot::plain()
                }
            },
        }
    }

    /// Returns a slot after its job has ended.
    pub fn put(&self, slot: Slot) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(slot);
    }
}

/// Keeps a job's launching thread alive, and returns the job's slot on drop.
pub(crate) enum Held {
    /// The common launcher.
    Shared(
        #[expect(dead_code, reason = "held, not read: jails die with their thread")] Arc<Launcher>,
    ),
    /// A slot of its own.
    Slot(Option<Slot>, Slots),
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Slot(slot, slots) = self
            && let Some(slot) = slot.take()
        {
            slots.put(slot);
        }
    }
}
