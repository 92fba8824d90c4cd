//! Which cores a thread may run on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps the calling thread on `cores`.
pub fn pin_this_thread(cores: &[usize]) -> Result<(), nix::Error> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// The cores the calling thread may run on.
pub fn allowed_cores() -> Vec<usize> {
    match sched_getaffinity(Pid::from_raw(0)) {
        Ok(set) => (0..CpuSet::count())
            .filter(|&c| set.is_set(c).unwrap_or(false))
            .collect(),
        Err(_) => vec![0],
    }
}

/// Pins the calling thread and gives it back its old cores when dropped.
pub struct Pinned(Option<Vec<usize>>);

impl Pinned {
    /// Keeps the calling thread on `core`, if one is named, as long as the guard lives.
    pub fn to(core: Option<usize>) -> Result<Self, nix::Error> {
        let Some(core) = core else {
            return Ok(Self(None));
        };
        let before = allowed_cores();
        pin_this_thread(&[core])?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // The old set was in force a moment ago; if it is not any more, the narrow one stays.
            let _ = pin_this_thread(&before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_gives_the_cores_back() {
        let before = allowed_cores();
        let last = before.last().copied();
        {
            let _guard = Pinned::to(last).expect("pinning to an allowed core");
            assert_eq!(allowed_cores(), last.into_iter().collect::<Vec<_>>());
        }
        assert_eq!(allowed_cores(), before);
        assert!(Pinned::to(Some(100_000)).is_err());
    }
}
