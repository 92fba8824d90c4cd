//! Exclusive cores for workers that share a machine, for example as containers.
//!
//! Each core has files in a folder that all workers see. The worker that claims a core holds a lock on one of its files
//! until the worker's process ends; the kernel releases the lock however the process ends. If a worker finds fewer free
//! cores than it wants, it shares cores: a slower cluster is better than one that does not start, and each worker
//! reports that it shares.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::console::usage;
use crate::output::locked;

/// Greatest number of workers that share a core.
const MOST: usize = 64;

/// Cores that this process has claimed; dropping the value releases them.
#[derive(Debug)]
pub struct Claim {
    /// The claimed hardware threads.
    pub cores: Vec<usize>,
    /// Number of other workers that share each of these cores.
    pub others: usize,
    _locks: Vec<File>,
}

/// Claims `wanted` physical cores. If possible, none of them is claimed by another worker. A core is claimed with all
/// of its `allowed` hardware threads (`siblings`), since two workers on one physical core slow each other down.
///
/// # Errors
/// If the folder cannot be used, or fewer than `wanted` physical cores are allowed.
pub fn claim(
    folder: &Path,
    wanted: usize,
    allowed: &[usize],
    siblings: impl Fn(usize) -> Vec<usize>,
) -> Result<Claim> {
    let mut physical: Vec<Vec<usize>> = Vec::new();
    for core in allowed {
        if !physical.iter().flatten().any(|taken| taken == core) {
            let mut threads = siblings(*core);
            threads.retain(|thread| allowed.contains(thread) && thread != core);
            threads.insert(0, *core);
            physical.push(threads);
        }
    }
    if wanted == 0 || wanted > physical.len() {
        return Err(usage(format!(
            "this worker may run on {} cores, and {wanted} were asked for: --cores takes 1 to {}",
            physical.len(),
            physical.len()
        )));
    }
    let unusable = || {
        format!(
            "the folder {} for claims of cores cannot be used",
            folder.display()
        )
    };
    std::fs::create_dir_all(folder).with_context(unusable)?;
    // The lock serialises claims: two simultaneous claims could each get a part of the cores that one of them needs.
    let turn = open(folder.join("turn")).with_context(unusable)?;
    turn.lock().with_context(unusable)?;
    for others in 0..MOST {
        let mut cores = Vec::new();
        let mut locks = Vec::new();
        let mut claimed = 0;
        for threads in &physical {
            let core = threads[0];
            let file = open(folder.join(format!("core-{core}.{others}"))).with_context(unusable)?;
            if locked(&file).with_context(unusable)? {
                cores.extend(threads);
                claimed += 1;
                locks.push(file);
            }
            if claimed == wanted {
                return Ok(Claim {
                    cores,
                    others,
                    _locks: locks,
                });
            }
        }
    }
    anyhow::bail!("{MOST} workers share the cores of this machine already")
}

fn open(path: PathBuf) -> std::io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn alone(core: usize) -> Vec<usize> {
        vec![core]
    }

    #[test]
    fn threads_of_one_core_go_together() {
        let place = tempfile::tempdir().unwrap();
        // Threads 0 and 1 share a core, as do 2 and 3; thread 3 is not allowed here.
        let pair = |core: usize| vec![core & !1, core | 1];
        let claim = || claim(place.path(), 1, &[0, 1, 2], pair).unwrap();
        let (first, second) = (claim(), claim());
        assert_eq!((&first.cores[..], first.others), (&[0, 1][..], 0));
        assert_eq!((&second.cores[..], second.others), (&[2][..], 0));
        assert_eq!(claim().others, 1);
    }

    #[test]
    fn workers_have_cores_of_their_own_as_long_as_there_are_some() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("claims");
        let claim = |wanted| claim(&folder, wanted, &[3, 5, 8], alone).unwrap();
        let first = claim(2);
        assert_eq!((&first.cores[..], first.others), (&[3, 5][..], 0));
        let second = claim(1);
        assert_eq!((&second.cores[..], second.others), (&[8][..], 0));
        let third = claim(2);
        assert_eq!((&third.cores[..], third.others), (&[3, 5][..], 1));
        drop(first);
        let fourth = claim(1);
        assert_eq!((&fourth.cores[..], fourth.others), (&[3][..], 0));
        // One core is free and two were asked for: the free core stays available to a claim of one.
        let fifth = claim(2);
        assert_eq!(fifth.others, 2, "{fifth:?}");
        assert_eq!(claim(1).cores, [5]);
    }

    #[test]
    fn more_than_there_are_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for wanted in [0, 2] {
            let error = claim(place.path(), wanted, &[0, 1], |_| vec![0, 1]).unwrap_err();
            assert!(error.to_string().contains("1 to 1"), "{error:#}");
        }
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = claim(&file, 1, &[0], alone).unwrap_err();
        assert!(error.to_string().contains("cannot be used"), "{error:#}");
    }

    proptest! {
        /// In any sequence of claims and releases, no core is in two claims of the same round.
        #[test]
        fn no_core_is_claimed_twice(moves in proptest::collection::vec((1usize..4, 0usize..6), 1..30)) {
            let place = tempfile::tempdir().unwrap();
            let mut claims: Vec<Claim> = Vec::new();
            for (wanted, leaves) in moves {
                claims.push(claim(place.path(), wanted, &[0, 1, 2, 3], alone).unwrap());
                if leaves < claims.len() {
                    claims.swap_remove(leaves);
                }
                let mut seen = std::collections::HashSet::new();
                for claim in &claims {
                    for core in &claim.cores {
                        prop_assert!(seen.insert((*core, claim.others)), "{:?}", claims);
                    }
                }
            }
        }
    }
}
