//! Cores for processes that may run beside each other: each user gets the least used ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pinning;

/// The use of each core by this process.
static USES: Mutex<Uses> = Mutex::new(Uses {
    loads: BTreeMap::new(),
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

    /// The first `count` of them, or all if they are fewer, in ascending order as those of a timer.
    pub fn first(&self, count: usize) -> Vec<usize> {
        let mut first = self.0[..count.min(self.0.len())].to_vec();
        first.sort_unstable();
        first
    }
}

impl Drop for SharedCores {
    fn drop(&mut self) {
        uses().give_back(&self.0);
    }
}

struct Uses {
    /// How much each core is used, by [`weights`].
    loads: BTreeMap<usize, usize>,
    /// The hardware threads that share a physical core with each core.
    siblings: BTreeMap<usize, Vec<usize>>,
}

impl Uses {
    /// Takes the last of the least used cores: of these one without a sibling among the cores taken before, and then one on
    /// the least used physical core. Where none is used, this is the order of [`pinning::assign`].
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
            let Some(&core) = left.min_by_key(|core| self.load(**core, &taken)) else {
                break;
            };
            taken.push(core);
        }
        for (core, weight) in weights(&taken) {
            *self.loads.entry(core).or_default() += weight;
        }
        taken
    }

    /// The load of a core, the number of its siblings that are `taken`, and the load of its physical core.
    fn load(&self, core: usize, taken: &[usize]) -> (usize, usize, usize) {
        let of = |core: &usize| self.loads.get(core).copied().unwrap_or(0);
        let physical = || self.siblings.get(&core).into_iter().flatten();
        let beside = physical().filter(|core| taken.contains(core)).count();
        (of(&core), beside, physical().map(of).sum())
    }

    fn give_back(&mut self, cores: &[usize]) {
        for (core, weight) in weights(cores) {
            if let Some(load) = self.loads.get_mut(&core) {
                *load = load.saturating_sub(weight);
            }
        }
    }
}

/// How much a user of `cores` adds to the load of each. The first counts most: processes with fewer threads than others of
/// the same user run on the first cores only.
fn weights(cores: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    cores.iter().rev().copied().zip(1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused() -> Uses {
        Uses {
            loads: BTreeMap::new(),
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
        assert_eq!(uses.take(&allowed, 2, apart), [1, 2]);
        uses.give_back(&first);
        assert_eq!(uses.take(&allowed, 1, apart), [5]);
    }

    /// Processes with one thread of users with two would wait for each other on one core while another is idle.
    #[test]
    fn users_of_all_cores_have_different_first_ones() {
        let mut uses = unused();
        let apart = |core: usize| vec![core];
        let first = uses.take(&[0, 1], 2, apart);
        assert_eq!(first, [1, 0]);
        assert_eq!(uses.take(&[0, 1], 2, apart), [0, 1]);
        uses.give_back(&first);
        assert_eq!(uses.take(&[0, 1], 2, apart), [1, 0]);
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
        assert_eq!(uses.take(&[4, 6], 0, |core| vec![core]), [4]);
        let shared = SharedCores(vec![6, 4]);
        assert_eq!((shared.first(1), shared.first(3)), (vec![6], vec![4, 6]));
    }
}
