//! Checks whether all threads of a process rest while no order is pending.

use std::time::{Duration, Instant};

use flopsmith_machine::attest::core_list;
use flopsmith_machine::pinning::pin_thread;
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause};

use super::process::Process;

/// Time between two looks at the threads.
const LOOK: Duration = Duration::from_micros(100);
/// Most processor time between two looks of a process at rest.
const SLACK: Duration = Duration::from_micros(50);
/// Most processor time that threads may use after a call before they sleep.
const SPIN_ALLOWANCE: Duration = Duration::from_millis(20);
/// Longest wait for threads to use up that time on a busy machine.
const LIMIT: Duration = Duration::from_secs(2);

/// Behaviour of a process while no order was pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stillness {
    /// Threads of the process.
    pub threads: usize,
    /// Threads that were awake at the last look.
    pub awake: usize,
    /// True if all threads came to rest.
    pub still: bool,
    /// Processor time that the threads used meanwhile.
    pub spent: Duration,
}

/// The threads of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Threads {
    /// All of them.
    pub all: usize,
    /// Threads that run, want to, or wait for a disk.
    pub awake: usize,
}

/// The threads of a process; none once it is gone.
pub(super) fn threads(pid: i32) -> Option<Threads> {
    let mut threads = Threads::default();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // Skips a thread that ended between listing and looking.
        let Ok(stat) = std::fs::read_to_string(task.ok()?.path().join("stat")) else {
            continue;
        };
        threads.all += 1;
        threads.awake += usize::from(matches!(state(&stat), Some('R' | 'D')));
    }
    Some(threads)
}

/// The threads of a process, its first one in front and the others by age; none once it is gone.
pub(super) fn members(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut members: Vec<i32> = tasks
        .into_iter()
        .flatten()
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    members.sort_unstable_by_key(|&member| (member != pid, member));
    members
}

/// Assigns a core to each thread: one of its own, as long as there are enough cores.
fn seats(members: &[i32], cores: &[usize]) -> Vec<(i32, usize)> {
    members
        .iter()
        .copied()
        .zip(cores.iter().copied().cycle())
        .collect()
}

/// The cores that each thread of a process may run on, in the order of [`members`].
pub(super) fn allowed(pid: i32) -> Vec<Vec<usize>> {
    let of = |member: i32| {
        let path = format!("/proc/{pid}/task/{member}/status");
        let status = std::fs::read_to_string(path).ok()?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(core_list(list))
    };
    members(pid).into_iter().filter_map(of).collect()
}

/// How often the first thread of a process has gone to sleep of its own accord; none if the kernel does not say. The
/// kernel counts a sleep once the thread has left its core, and has booked all the time that the thread used there by
/// then.
pub(super) fn times_asleep(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let count = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

/// How long the first thread of a process has waited for a core so far; none if the kernel does not say. The kernel
/// counts a wait once it is over.
pub(super) fn queued(pid: i32) -> Option<Duration> {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let waited = counts.split_ascii_whitespace().nth(1)?;
    Some(Duration::from_nanos(waited.parse().ok()?))
}

/// True if a thread that had gone to sleep `before` times has gone to sleep more often `now`. If the kernel gives no
/// count, the thread is believed.
pub(super) fn went_to_sleep(before: Option<u64>, now: impl FnOnce() -> Option<u64>) -> bool {
    before.is_none_or(|before| now().is_none_or(|now| now > before))
}

/// The state in a `stat` file: the first letter after the name in parentheses, which may hold anything.
fn state(stat: &str) -> Option<char> {
    stat.rsplit(')').next()?.trim_start().chars().next()
}

impl Process {
    /// Sends the process to sleep and looks until all its threads are at rest. Threads that spin for a while before
    /// they sleep may use some processor time for that; on a busy machine they may take a while to use it up.
    pub fn settle(&mut self) -> Result<Stillness, Failure> {
        self.park()?;
        let (start, before) = (Instant::now(), self.cpu_time()?);
        let mut quiet_since: Option<Duration> = None;
        loop {
            let Some(Threads { all, awake }) = self.threads() else {
                return Ok(Stillness {
                    threads: 0,
                    awake: 0,
                    still: true,
                    spent: Duration::ZERO,
                });
            };
            let now = self.cpu_time()?;
            let spent = now.saturating_sub(before);
            let answer = |still| {
                Ok(Stillness {
                    threads: all,
                    awake,
                    still,
                    spent,
                })
            };
            // The sleeps of a team's other threads are not counted: time that the kernel books late for them must fit
            // the slack of the looks.
            let asleep = awake == 0 && self.has_left();
            // A single thread that sleeps does so until it is given an order.
            if all <= 1 && asleep {
                self.seat(true)?;
                return answer(true);
            }
            // Several threads are at rest if none was awake in two looks and they used little processor time in
            // between.
            match quiet_since.filter(|_| asleep && all > 1) {
                Some(then) if now.saturating_sub(then) < SLACK => {
                    self.seat(true)?;
                    return answer(true);
                }
                _ => quiet_since = asleep.then_some(now),
            }
            if spent > SPIN_ALLOWANCE || start.elapsed() > LIMIT {
                return answer(false);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Gives each thread a core of its own, and again whenever there are other threads: within a set of cores the
    /// kernel may move threads, and two may meet on one core while another core lies idle. This is done only between
    /// calls, so it is on no call's clock. With `lone`, a single thread has one core as well, once it was called.
    pub(super) fn seat(&mut self, lone: bool) -> Result<(), Failure> {
        if self.cores.len() < 2 {
            return Ok(());
        }
        let members = members(self.pid());
        // A team inherits the one core of the thread that makes it. Where all calls have one size, it is made in the first.
        let early = members.len() < 2 && !(lone && self.was_called());
        if early || members == self.seated {
            return Ok(());
        }
        for (member, core) in seats(&members, &self.cores) {
            match pin_thread(member, core) {
                // The thread has ended since.
                Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
                Err(error) => {
                    return Err(Failure::infrastructure(
                        InfrastructureCause::Resources,
                        format!("cannot pin a thread to core {core}: {error}"),
                    ));
                }
            }
        }
        self.seated = members;
        Ok(())
    }

    /// The cores that each thread of the process may run on.
    pub fn thread_cores(&self) -> Vec<Vec<usize>> {
        allowed(self.pid())
    }
}

/// Refuses a program whose threads go on although its call has returned, or that has more threads than it may. A
/// program that did not get the processor time to fall asleep is not blamed.
pub fn judge_stillness(stillness: Stillness, threads: u32) -> Result<(), Failure> {
    let Stillness {
        threads: found,
        awake,
        still,
        spent,
    } = stillness;
    if found > threads as usize {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!(
                "the program has {found} threads after a call; at most {threads} are permitted"
            ),
        ));
    }
    if !still && spent <= SPIN_ALLOWANCE {
        return Err(Failure::infrastructure(
            InfrastructureCause::Resources,
            format!(
                "a process that was sent to sleep got only {:.1} ms of processor time within {} s and does not sleep yet \
                 ({awake} of {found} threads are awake): the machine is too busy",
                spent.as_secs_f64() * 1e3,
                LIMIT.as_secs()
            ),
        ));
    }
    if !still {
        return Err(Failure::candidate(
            CandidateFault::LeftRunning,
            format!(
                "threads of the program went on after a call had returned and used {:.1} ms of processor time",
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
    fn each_thread_has_a_core_and_the_first_one_the_first() {
        assert_eq!(
            seats(&[70, 71, 75], &[2, 4, 6]),
            [(70, 2), (71, 4), (75, 6)]
        );
        assert_eq!(seats(&[70], &[2, 4]), [(70, 2)]);
        // Another check finds too many threads.
        assert_eq!(seats(&[7, 8, 9], &[2, 4]), [(7, 2), (8, 4), (9, 2)]);
        assert!(seats(&[7], &[]).is_empty());
    }

    #[test]
    fn a_thread_of_this_test_is_found_and_where_it_may_run() {
        let (id, known) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let core = flopsmith_machine::pinning::allowed_cores()[0];
            flopsmith_machine::pinning::pin_this_thread(&[core]).expect("an allowed core");
            let own = std::fs::read_link("/proc/thread-self").expect("a thread");
            let own = own
                .file_name()
                .and_then(|n| n.to_str()?.parse::<i32>().ok());
            id.send((own.expect("a number"), core)).expect("a listener");
            // The wait lasts until the test drops its end.
            let _over = ended.recv();
        });
        let (own, core) = known.recv().expect("its number");
        let pid = std::process::id() as i32;
        let members = members(pid);
        assert_eq!(members.first(), Some(&pid));
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{own}/status"));
        assert!(members.contains(&own) && status.is_ok());
        assert!(allowed(pid).contains(&vec![core]));
        drop(end);
        thread.join().expect("it ends");
        assert!(super::members(i32::MAX).is_empty() && allowed(i32::MAX).is_empty());
    }

    #[test]
    fn threads_that_wait_for_another_have_gone_to_sleep() {
        let (id, known) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").expect("a thread");
            let own = own.file_name().and_then(|n| n.to_str()?.parse().ok());
            let own: i32 = own.expect("a number");
            let before = times_asleep(own).expect("a thread of this process");
            id.send((own, before)).expect("a listener");
            let _over = ended.recv();
        });
        let (own, before) = known.recv().expect("its number");
        let start = Instant::now();
        while times_asleep(own).is_some_and(|now| now == before) && start.elapsed() < LIMIT {
            std::thread::yield_now();
        }
        let asleep = times_asleep(own);
        drop(end);
        thread.join().expect("it ends");
        assert!(asleep > Some(before), "{before} then {asleep:?}");
        assert_eq!(times_asleep(i32::MAX), None);
    }

    #[test]
    fn an_unchanged_sleep_count_means_that_the_thread_is_running() {
        assert!(!went_to_sleep(Some(7), || Some(7)));
        assert!(went_to_sleep(Some(7), || Some(8)));
        assert!(went_to_sleep(Some(7), || None) && went_to_sleep(None, || Some(7)));
    }

    #[test]
    fn threads_that_keep_running_are_refused_but_starved_ones_are_not() {
        let stillness = |threads, still: bool, spent_ms| Stillness {
            threads,
            awake: usize::from(!still),
            still,
            spent: Duration::from_millis(spent_ms),
        };
        assert!(judge_stillness(stillness(1, true, 0), 1).is_ok());
        assert!(judge_stillness(stillness(2, true, 19), 2).is_ok());
        for refused in [stillness(1, false, 21), stillness(2, true, 0)] {
            let failure = judge_stillness(refused, 1).expect_err("refused");
            assert!(
                matches!(
                    failure,
                    Failure::Candidate {
                        fault: CandidateFault::LeftRunning,
                        ..
                    }
                ),
                "{failure}"
            );
        }
        let starved = judge_stillness(stillness(1, false, 3), 1).expect_err("not at rest");
        assert!(matches!(starved, Failure::Infrastructure { .. }));
    }

    #[test]
    fn this_test_is_awake() {
        let own = threads(std::process::id() as i32).expect("this process lives");
        assert!(own.all >= 1 && own.awake >= 1 && own.awake <= own.all);
        assert_eq!(threads(i32::MAX), None);
    }
}
