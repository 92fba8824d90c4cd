//! Places for jobs that a control group bounds: each has its launching thread and its control group.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::{Cgroup, Entry};
use crate::error::Error;
use crate::launch::Launcher;

/// A launching thread, with the control group that its children are born in.
pub(crate) struct Slot {
    pub launcher: Arc<Launcher>,
    // After the launcher: the group must be empty to go.
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
    /// A free slot, or a new one: there are as many as jobs ever ran at once.
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

    /// Gives a slot back once its job is gone.
    pub fn put(&self, slot: Slot) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(slot);
    }
}

/// What keeps a job's launching thread alive, and where its slot goes afterwards.
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
