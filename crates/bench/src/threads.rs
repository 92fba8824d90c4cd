//! The numbers of threads that programs are timed with.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::Result;
use flopsmith_machine::pinning;
use flopsmith_problem::Problem;
use flopsmith_run::console::usage;

/// A number of threads to time with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadCount {
    /// This number.
    Of(u32),
    /// The greatest number that leaves a core to the supervisor.
    All,
}

impl FromStr for ThreadCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "all" {
            return Ok(Self::All);
        }
        match text.trim().parse::<u32>() {
            Ok(count) if count > 0 => Ok(Self::Of(count)),
            _ => Err("a number of threads must be 1 or more, or `all`".into()),
        }
    }
}

/// The requested numbers, without duplicates, the smallest first. An error if this machine cannot time so many threads.
pub fn counts(asked: &[ThreadCount]) -> Result<Vec<u32>> {
    let cores = pinning::allowed_cores();
    // The siblings are read once, since the search for the greatest number asks for each core many times.
    let siblings: BTreeMap<usize, Vec<usize>> = cores
        .iter()
        .map(|&core| (core, pinning::siblings(core)))
        .collect();
    counts_on(asked, &cores, |core| {
        siblings.get(&core).cloned().unwrap_or_else(|| vec![core])
    })
}

fn counts_on(
    asked: &[ThreadCount],
    cores: &[usize],
    siblings: impl Fn(usize) -> Vec<usize>,
) -> Result<Vec<u32>> {
    let beside = (1..=cores.len())
        .rev()
        .find(|&n| pinning::assign(cores, n, &siblings).supervisor.is_some());
    let mut counts = Vec::new();
    for count in asked {
        let count = match count {
            // If no core is left to the supervisor, it sleeps, and one thread can be timed all the same.
            ThreadCount::All => u32::try_from(beside.unwrap_or(1))?,
            ThreadCount::Of(count) => *count,
        };
        if count as usize > cores.len() {
            return Err(usage(format!(
                "{count} threads cannot be timed here: this machine can time {} at most, and {} while the supervisor, which takes the times, has a core of its own",
                cores.len(),
                beside.map_or_else(|| "none".into(), |n| n.to_string())
            )));
        }
        counts.push(count);
    }
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

/// A warning about numbers of threads that the problem does not name; they are timed all the same.
pub fn warning(counts: &[u32], problem: &Problem) -> Option<String> {
    let words = |counts: Vec<u32>| {
        let words: Vec<String> = counts.iter().map(u32::to_string).collect();
        words.join(", ")
    };
    let known = &problem.threads;
    let beyond: Vec<u32> = counts
        .iter()
        .copied()
        .filter(|count| !known.contains(count))
        .collect();
    (!beyond.is_empty()).then(|| {
        format!(
            "warning: `{}` is meant for {} threads and is timed with {} as requested; if such numbers make sense for this problem, add them to `threads` in its problem.toml",
            problem.id,
            words(known.clone()),
            words(beyond)
        )
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::ThreadCount::{All, Of};
    use super::*;

    fn on(asked: &[ThreadCount], cores: usize, on_a_core: usize) -> Result<Vec<u32>> {
        let cores: Vec<usize> = (0..cores).collect();
        counts_on(asked, &cores, |core| {
            let first = core / on_a_core * on_a_core;
            (first..first + on_a_core).collect()
        })
    }

    #[test]
    fn all_leaves_the_supervisor_a_core_of_its_own() {
        for (cores, on_a_core, most) in [(1, 1, 1), (2, 1, 1), (8, 1, 7), (2, 2, 1), (8, 2, 3)] {
            assert_eq!(on(&[All], cores, on_a_core).unwrap(), [most]);
        }
    }

    #[test]
    fn a_list_has_each_count_once_and_excess_counts_are_refused_with_the_limit() {
        assert_eq!(on(&[Of(1)], 2, 1).unwrap(), [1]);
        assert_eq!(on(&[All, Of(2), Of(1), Of(3)], 4, 1).unwrap(), [1, 2, 3]);
        // If all cores are timed, the supervisor sleeps: less precise, but possible.
        assert_eq!(on(&[Of(4)], 4, 1).unwrap(), [4]);
        let error = on(&[Of(1), Of(5)], 4, 1).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        let error = error.to_string();
        assert!(error.contains("5 threads"), "{error}");
        assert!(error.contains("can time 4 at most, and 3 while"), "{error}");
    }

    #[test]
    fn counts_that_a_problem_does_not_name_are_said() {
        let mut problem = Problem::load(&shipped::at("dgemm")).unwrap();
        problem.threads = vec![1, 2];
        assert_eq!(warning(&[1], &problem), None);
        assert_eq!(warning(&[1, 2], &problem), None);
        let text = warning(&[1, 3, 8], &problem).unwrap();
        assert!(
            text.starts_with("warning: `dgemm` is meant for 1, 2 threads and is timed with 3, 8 "),
            "{text}"
        );
        assert!(text.contains("problem.toml"), "{text}");
    }
}
