//! Do all threads of a process rest while nothing is asked of it?

use std::time::{Duration, Instant};

use flopsmith_protocol::CandidateFault;

use super::process::Process;
use crate::Failure;

/// Between two looks whether threads are at rest.
const LOOK: Duration = Duration::from_micros(100);
/// Processor time between two looks that is still rest.
const SLACK: Duration = Duration::from_micros(50);
/// Processor time threads may use after a call before they sleep.
const SPIN_ALLOWANCE: Duration = Duration::from_millis(20);
/// Longest wait for that on a busy machine.
const LIMIT: Duration = Duration::from_secs(2);

/// What a process did when there was nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stillness {
    /// Threads of the process.
    pub threads: usize,
    /// Did all of them come to rest?
    pub still: bool,
    /// Processor time they used meanwhile.
    pub spent: Duration,
}

/// The threads of a process in one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Threads {
    /// All of them.
    pub all: usize,
    /// Those that run, want to, or wait for a disk.
    pub awake: usize,
}

/// The threads of a process; none once it is gone.
pub(super) fn threads(pid: i32) -> Option<Threads> {
    let mut threads = Threads::default();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread that ends between listing and looking is no thread any more.
        let Ok(stat) = std::fs::read_to_string(task.ok()?.path().join("stat")) else {
            continue;
        };
        threads.all += 1;
        threads.awake += usize::from(matches!(state(&stat), Some('R' | 'D')));
    }
    Some(threads)
}

/// The state is the first letter behind the name in parentheses, which may hold anything.
fn state(stat: &str) -> Option<char> {
    stat.rsplit(')').next()?.trim_start().chars().next()
}

impl Process {
    /// Sends the process to sleep and looks until all its threads are at rest. Threads that spin for a while
    /// before they sleep get some processor time for that; on a busy machine using it up may take a while.
    pub fn settle(&mut self) -> Result<Stillness, Failure> {
        self.park()?;
        let (start, before) = (Instant::now(), self.cpu_time()?);
        let mut quiet_since: Option<Duration> = None;
        loop {
            let Some(Threads { all, awake }) = self.threads() else {
                return Ok(Stillness {
                    threads: 0,
                    still: true,
                    spent: Duration::ZERO,
                });
            };
            let now = self.cpu_time()?;
            let spent = now.saturating_sub(before);
            let answer = |still| {
                Ok(Stillness {
                    threads: all,
                    still,
                    spent,
                })
            };
            if all <= 1 {
                return answer(true);
            }
            // At rest: nobody was running in two looks, and nobody ran much between them.
            match quiet_since.filter(|_| awake == 0) {
                Some(then) if now.saturating_sub(then) < SLACK => return answer(true),
                _ => quiet_since = (awake == 0).then_some(now),
            }
            if spent > SPIN_ALLOWANCE || start.elapsed() > LIMIT {
                return answer(false);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Refuses a program whose threads go on although its call has returned, or that has more threads than it may.
pub fn judge_stillness(stillness: Stillness, threads: u32) -> Result<(), Failure> {
    let Stillness {
        threads: found,
        still,
        spent,
    } = stillness;
    if found > threads as usize {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!("{found} threads are there after a call, permitted are {threads}"),
        ));
    }
    if !still {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!(
                "threads went on after a call had returned and used {:.1} ms of processor time",
                spent.as_secs_f64() * 1e3
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_a_state_is_no_state() {
        assert_eq!(state("7 (candidate) S 1 7"), Some('S'));
        assert_eq!(state("7 (a) R (b) R) D 1 7"), Some('D'));
        assert_eq!(state(""), None);
    }

    #[test]
    fn this_test_is_awake() {
        let own = threads(std::process::id() as i32).expect("this process lives");
        assert!(own.all >= 1 && own.awake >= 1 && own.awake <= own.all);
        assert_eq!(threads(i32::MAX), None);
    }
}
