//! Which cores a thread may run on.

use std::time::Duration;

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

/// Keeps a thread of a process of this user on one core.
pub fn pin_thread(thread: i32, core: usize) -> Result<(), nix::Error> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(thread), &set)
}

/// Whether a process takes the core from another one as soon as it is woken up there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It does, where the scheduler finds that it had less of the core.
    Takes,
    /// It waits until the other one leaves, or has had its time.
    Waits,
}

/// Timed processes ask for the core for so long at a time, the least that the kernel grants. Of processes that want a core, the kernel first
/// runs those that ask for less at a time (Linux 6.12 and newer): with the usual 3 ms each call would wait for whoever else is there.
const SLICE: Duration = Duration::from_micros(100);

/// Says so of a process of this user, and of all threads that it makes later. Where the kernel does not take that, nothing changes.
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

/// The hardware threads that share a physical core with `core`, itself among them; alone where the kernel does not say.
pub fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    match std::fs::read_to_string(path) {
        Ok(list) => crate::attest::core_list(&list),
        Err(_) => vec![core],
    }
}

/// Which cores a timer owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// The supervisor's; none where the kernel needs them all, which makes times less exact.
    pub supervisor: Option<usize>,
    /// The kernel's.
    pub kernel: Vec<usize>,
}

/// Which of the `allowed` cores a timer of `threads` threads takes: the last ones for the kernel, of different physical
/// cores as long as there are such, and for the supervisor the first one that shares no physical core with them. It
/// spins while it waits, so beside the kernel's sibling it would slow what it measures; then it gets no core and sleeps.
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

/// Pins the calling thread and gives it back its old cores when dropped.
pub struct Pinned(Option<Vec<usize>>);

impl Pinned {
    /// Keeps the calling thread on `core`, if one is named, as long as the guard lives.
    pub fn to(core: Option<usize>) -> Result<Self, nix::Error> {
        Self::to_all(core.as_slice())
    }

    /// The same for several cores; with none it stays where it is.
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
            // The old set was in force a moment ago; if it is not any more, the narrow one stays.
            let _ = pin_this_thread(&before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbouring numbers share a core, as on many virtual machines.
    fn pairs(core: usize) -> Vec<usize> {
        vec![core & !1, core | 1]
    }

    /// The time that a process asks for at a time, ns.
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
            // Field 41 of proc_pid_stat(5); the third one is the first behind the name.
            let field = rest.split_whitespace().nth(41 - 3).expect("a policy");
            field.parse::<i32>().expect("a number")
        };
        be_nice(pid, 5);
        set_turn(pid, Turn::Waits);
        assert_eq!(policy(), libc::SCHED_BATCH);
        assert_eq!(nice(pid), 5);
        // Older kernels have no such request.
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
        // Threads get physical cores of their own first.
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
