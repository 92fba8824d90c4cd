//! Cores for processes that may run beside each other: each user gets those with the fewest others.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pinning;

/// The users of each core in this process.
static USES: Mutex<Uses> = Mutex::new(Uses {
    users: BTreeMap::new(),
    siblings: BTreeMap::new(),
});

fn uses() -> MutexGuard<'static, Uses> {
    // It holds only numbers: a panic in another thread leaves them usable.
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cores that others may use as well; dropping the value gives them back.
#[derive(Debug)]
pub struct SharedCores(Vec<usize>);

impl SharedCores {
    /// As many cores as `count`, or all that the calling thread may run on if these are fewer. Where nobody else uses any,
    /// the first `n` of them are those of a timer of `n` threads.
    pub fn take(count: usize) -> Self {
        let allowed = pinning::allowed_cores();
        Self(uses().take(&allowed, count, pinning::siblings))
    }

    /// The first `count` of them, or all if they are fewer.
    pub fn first(&self, count: usize) -> &[usize] {
        &self.0[..count.min(self.0.len())]
    }
}

impl Drop for SharedCores {
    fn drop(&mut self) {
        uses().give_back(&self.0);
    }
}

struct Uses {
    /// The number of users of each core.
    users: BTreeMap<usize, usize>,
    /// The hardware threads that share a physical core with each core.
    siblings: BTreeMap<usize, Vec<usize>>,
}

impl Uses {
    /// Takes the last of the cores with the fewest users, and of these one whose physical core has the fewest: the order of
    /// [`pinning::assign`].
    fn take(
        &mut self,
        allowed: &[usize],
        count: usize,
        siblings: impl Fn(usize) -> Vec<usize>,
    ) -> Vec<usize> {
        for &core in allowed {
            let known = self.siblings.entry(core);
            known.or_insert_with(|| siblings(core));
        }
        let mut taken: Vec<usize> = Vec::new();
        while taken.len() < count.max(1) {
            let left = allowed.iter().rev().filter(|core| !taken.contains(core));
            let Some(&core) = left.min_by_key(|core| self.load(**core)) else {
                break;
            };
            *self.users.entry(core).or_default() += 1;
            taken.push(core);
        }
        taken
    }

    /// The users of a core, and those of its whole physical core.
    fn load(&self, core: usize) -> (usize, usize) {
        let of = |core: &usize| self.users.get(core).copied().unwrap_or(0);
        let physical = self.siblings.get(&core).into_iter().flatten();
        (of(&core), physical.map(of).sum())
    }

    fn give_back(&mut self, cores: &[usize]) {
        for core in cores {
            if let Some(users) = self.users.get_mut(core) {
                *users = users.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused() -> Uses {
        Uses {
            users: BTreeMap::new(),
            siblings: BTreeMap::new(),
        }
    }

    /// Consecutive numbers share a physical core, as on many virtual machines.
    fn pairs(core: usize) -> Vec<usize> {
        vec![core & !1, core | 1]
    }

    #[test]
    fn whoever_is_alone_gets_the_cores_of_a_timer() {
        let allowed: Vec<usize> = (0..8).collect();
        let most = unused().take(&allowed, 8, pairs);
        for threads in 1..=8 {
            let mut first = most[..threads].to_vec();
            first.sort_unstable();
            assert_eq!(first, pinning::assign(&allowed, threads, pairs).kernel);
        }
    }

    #[test]
    fn users_are_spread_over_all_cores() {
        let allowed = [1, 2, 5];
        let apart = |core: usize| vec![core];
        let mut uses = unused();
        let first = uses.take(&allowed, 2, apart);
        assert_eq!(first, [5, 2]);
        assert_eq!(uses.take(&allowed, 2, apart), [1, 5]);
        uses.give_back(&first);
        assert_eq!(uses.take(&allowed, 1, apart), [2]);
    }

    #[test]
    fn a_free_physical_core_comes_before_a_free_sibling() {
        let mut uses = unused();
        let all = [0, 1, 2, 3];
        assert_eq!(uses.take(&all, 1, pairs), [3]);
        assert_eq!(uses.take(&all, 1, pairs), [1]);
        assert_eq!(uses.take(&all, 1, pairs), [2]);
    }

    #[test]
    fn there_are_no_more_than_all_and_at_least_one() {
        let mut uses = unused();
        assert_eq!(uses.take(&[4, 6], 3, |core| vec![core]), [6, 4]);
        assert_eq!(uses.take(&[4, 6], 0, |core| vec![core]), [6]);
        let shared = SharedCores(vec![6, 4]);
        assert_eq!((shared.first(1), shared.first(3)), (&[6][..], &[6, 4][..]));
    }
}
