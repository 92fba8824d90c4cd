//! The cores on which a thread may run.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Restricts the calling thread to `cores`.
pub fn pin_this_thread(cores: &[usize]) -> Result<(), nix::Error> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Restricts a thread of a process of this user to one core.
pub fn pin_thread(thread: i32, core: usize) -> Result<(), nix::Error> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(thread), &set)
}

/// The scheduling of a process that wakes up while another process runs on its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The process takes the core, if the scheduler finds that it had less of the core than the other one.
    Takes,
    /// The process waits until the other one leaves the core or has used up its time slice.
    Waits,
}

/// The time slice that timed processes request: the shortest that the kernel grants. Of all processes that want a core,
/// the kernel (Linux 6.12 and newer) first runs those with shorter slices. With the usual 3 ms, each call would wait
/// for the other processes on the core.
const SLICE: Duration = Duration::from_micros(100);

/// Sets the scheduling of a process of this user and of all threads that the process makes later. If the kernel refuses
/// the setting, nothing changes.
#[expect(
    unsafe_code,
    reason = "there are no safe functions for these system calls"
)]
pub fn set_turn(pid: i32, turn: Turn) {
    let policy = match turn {
        Turn::Takes => libc::SCHED_OTHER,
        Turn::Waits => libc::SCHED_BATCH,
    };
    // SAFETY: nothing but numbers goes in, and one comes out.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, pid.cast_unsigned()) };
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads the attributes, which live until it has done so and say their size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attributes, 0) };
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

/// The hardware threads that share a physical core with `core`, including `core`; only `core` where the kernel does not
/// report them.
pub fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    match std::fs::read_to_string(path) {
        Ok(list) => crate::attest::core_list(&list),
        Err(_) => vec![core],
    }
}

/// The cores of a timer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// The supervisor's core; none where the kernel needs all cores, which makes times less exact.
    pub supervisor: Option<usize>,
    /// The kernel's cores.
    pub kernel: Vec<usize>,
}

/// Chooses cores from `allowed` for a timer of `threads` threads. The kernel gets the last ones, on different physical
/// cores as far as possible. The supervisor gets the first core that shares no physical core with them. If no such core
/// exists, the supervisor gets none and sleeps while it waits: a supervisor that spins on a sibling of a kernel core
/// would slow the measured program.
pub fn assign(allowed: &[usize], threads: usize, siblings: impl Fn(usize) -> Vec<usize>) -> Cores {
    let beside = |core: usize, taken: &[usize]| {
        taken.contains(&core) || siblings(core).iter().any(|s| taken.contains(s))
    };
    let mut kernel: Vec<usize> = Vec::new();
    for &core in allowed.iter().rev() {
        if kernel.len() < threads.max(1) && !beside(core, &kernel) {
            kernel.push(core);
        }
    }
    for &core in allowed.iter().rev() {
        if kernel.len() < threads.max(1) && !kernel.contains(&core) {
            kernel.push(core);
        }
    }
    kernel.sort_unstable();
    let supervisor = allowed.iter().copied().find(|&core| !beside(core, &kernel));
    Cores { supervisor, kernel }
}

/// Restricts the calling thread to some cores until the guard is dropped, which restores the previous cores.
pub struct Pinned(Option<Vec<usize>>);

impl Pinned {
    /// Restricts the calling thread to `core`, if there is one, for the lifetime of the guard.
    pub fn to(core: Option<usize>) -> Result<Self, nix::Error> {
        Self::to_all(core.as_slice())
    }

    /// As [`Pinned::to`], for several cores; an empty list changes nothing.
    pub fn to_all(cores: &[usize]) -> Result<Self, nix::Error> {
        if cores.is_empty() {
            return Ok(Self(None));
        }
        let before = allowed_cores();
        pin_this_thread(cores)?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // The previous cores were valid a moment ago. If they are no longer valid, the restriction stays.
            let _ = pin_this_thread(&before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive numbers share a physical core, as on many virtual machines.
    fn pairs(core: usize) -> Vec<usize> {
        vec![core & !1, core | 1]
    }

    /// The time slice that a process requests, in ns.
    #[expect(unsafe_code, reason = "there is no safe function for this system call")]
    fn slice(pid: i32) -> u64 {
        // SAFETY: all of its fields are numbers, for which 0 is a value.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes no more than `size` bytes.
        let done =
            unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0) };
        assert_eq!(done, 0);
        attributes.sched_runtime
    }

    #[expect(unsafe_code, reason = "there is no safe function for this system call")]
    fn nice(pid: i32) -> i32 {
        // SAFETY: nothing but numbers goes in, and one comes out.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, pid.cast_unsigned()) }
    }

    #[expect(unsafe_code, reason = "there is no safe function for this system call")]
    fn be_nice(pid: i32, value: i32) {
        // SAFETY: nothing but numbers goes in, and one comes out.
        let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid.cast_unsigned(), value) };
        assert_eq!(done, 0);
    }

    #[test]
    fn a_process_that_waits_for_its_turn_is_of_the_class_for_batches() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep runs");
        let pid = child.id() as i32;
        let policy = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
            let (_, rest) = stat.rsplit_once(')').expect("a name");
            // Field 41 of proc_pid_stat(5); the first field behind the name is the third.
            let field = rest.split_whitespace().nth(41 - 3).expect("a policy");
            field.parse::<i32>().expect("a number")
        };
        be_nice(pid, 5);
        set_turn(pid, Turn::Waits);
        assert_eq!(policy(), libc::SCHED_BATCH);
        assert_eq!(nice(pid), 5);
        // Older kernels do not support the request and report 0.
        assert!([SLICE.as_nanos() as u64, 0].contains(&slice(pid)));
        set_turn(pid, Turn::Takes);
        assert_eq!(policy(), libc::SCHED_OTHER);
        assert_eq!(nice(pid), 5);
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }

    #[test]
    fn a_supervisor_never_spins_beside_the_kernel_on_one_physical_core() {
        let apart = |core: usize| vec![core];
        let plain = assign(&[0, 1, 2, 3], 1, apart);
        assert_eq!((plain.supervisor, plain.kernel), (Some(0), vec![3]));
        let alone = assign(&[0, 1], 1, pairs);
        assert_eq!((alone.supervisor, alone.kernel), (None, vec![1]));
        let two = assign(&[0, 1, 2, 3], 1, pairs);
        assert_eq!((two.supervisor, two.kernel), (Some(0), vec![3]));
        // The threads first get separate physical cores.
        let both = assign(&[0, 1, 2, 3], 2, pairs);
        assert_eq!((both.supervisor, both.kernel), (None, vec![1, 3]));
        let all = assign(&[0, 1, 2, 3], 3, pairs);
        assert_eq!((all.supervisor, all.kernel), (None, vec![1, 2, 3]));
        assert_eq!(assign(&[5], 2, apart).kernel, vec![5]);
    }

    #[test]
    fn a_guard_gives_the_cores_back() {
        let before = allowed_cores();
        let last = before.last().copied();
        {
            let _guard = Pinned::to(last).expect("pinning to an allowed core");
            assert_eq!(allowed_cores(), last.into_iter().collect::<Vec<_>>());
        }
        assert_eq!(allowed_cores(), before);
        let two = &before[..before.len().min(2)];
        {
            let _guard = Pinned::to_all(two).expect("pinning to allowed cores");
            assert_eq!(allowed_cores(), two);
            let _nothing = Pinned::to_all(&[]).expect("nothing to do");
            assert_eq!(allowed_cores(), two);
        }
        assert_eq!(allowed_cores(), before);
        assert!(Pinned::to(Some(100_000)).is_err());
    }
}
