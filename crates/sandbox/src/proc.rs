#![expect(
    unsafe_code,
    reason = "pidfds, processor clocks and usage of other processes have no safe interface"
)]
//! What the supervisor asks the kernel about a jailed process and sets on it.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::Error;
use crate::job::{Job, Kind, Limits, MemoryBound};

/// A handle on a process that never means another one, even after its number was given away again.
pub(crate) fn open_pidfd(pid: i32) -> Result<OwnedFd, Error> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(Error::last("open a handle on the jailed process"));
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Kills the process behind `pidfd`; a dead one is no error.
pub(crate) fn kill(pidfd: &OwnedFd) {
    // SAFETY: pidfd_send_signal with a null siginfo reads no memory of ours.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        );
    }
}

/// The kernel's limit on processes for a job of `kind`; none where it must not be set.
///
/// Programs in run jails have no call that makes processes, and their threads count as processes here: the limit would
/// refuse the threads they may have. A control group counts the job's own processes and nothing else, so where there is
/// one the limit is left to it. root is exempt. And kernels before 5.14 count all processes of the user, so that a job
/// would fail because of what the user does beside it.
fn process_limit(kind: Kind, limits: &Limits, in_cgroup: bool, release: &str) -> Option<u64> {
    let counts = kind == Kind::Compile && !in_cgroup && !nix::unistd::geteuid().is_root();
    (counts && counts_by_namespace(release)).then_some(limits.processes)
}

/// Does a kernel of this release count the processes of a user apart in each user namespace?
fn counts_by_namespace(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 14)
}

/// Sets the limits of a process that has not started its program yet.
pub(crate) fn limit(pid: i32, job: &Job, in_cgroup: bool) -> Result<(), Error> {
    let limits = &job.limits;
    let cpu = limits.cpu.as_secs() + u64::from(limits.cpu.subsec_nanos() > 0);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processes = process_limit(job.kind, limits, in_cgroup, &release);
    let address_space =
        (job.memory_bound == MemoryBound::AddressSpace).then_some(limits.memory_bytes);
    let wanted = [
        (libc::RLIMIT_AS, address_space),
        (libc::RLIMIT_CPU, Some(cpu.max(1))),
        (libc::RLIMIT_FSIZE, Some(limits.file_bytes)),
        (libc::RLIMIT_NOFILE, Some(limits.open_files)),
        (libc::RLIMIT_STACK, Some(limits.stack_bytes)),
        (libc::RLIMIT_CORE, Some(0)),
        (libc::RLIMIT_MEMLOCK, Some(0)),
        (libc::RLIMIT_MSGQUEUE, Some(0)),
        (libc::RLIMIT_NPROC, processes),
    ];
    for (resource, value) in wanted {
        let Some(value) = value else { continue };
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: `limit` lives through the call; the old value is not asked for.
        let done = unsafe { libc::prlimit(pid, resource, &raw const limit, std::ptr::null_mut()) };
        if done != 0 {
            return Err(Error::last("set the limits of the jailed process"));
        }
    }
    Ok(())
}

/// Ties a process to `cores`.
pub(crate) fn pin(pid: i32, cores: &[usize]) -> Result<(), Error> {
    let mut set = nix::sched::CpuSet::new();
    for core in cores {
        set.set(*core)
            .map_err(|_| Error::Job(format!("there is no core {core}")))?;
    }
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(pid), &set).map_err(|e| {
        Error::System {
            what: "tie the jailed process to its cores",
            source: e.into(),
        }
    })
}

/// Processor time of all threads of a process so far; none when it is gone.
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is written by the call and lives through it.
    if unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) } != 0 {
        return None;
    }
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is written by the call and lives through it.
    if unsafe { libc::clock_gettime(clock, &raw mut now) } != 0 {
        return None;
    }
    Some(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
}

/// Largest resident memory of a live process so far, in bytes; none when it is gone.
pub(crate) fn peak_rss(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// The parent of a process; none when it is gone.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses.
    let after = &stat[stat.rfind(')')? + 1..];
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Largest resident memory this process ever had, in bytes.
pub(crate) fn own_peak_rss() -> u64 {
    // SAFETY: a zeroed rusage is valid, and the call only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

/// How a child of ours ended and what it and its waited-for children used.
pub(crate) struct Reaped {
    /// The raw wait status.
    pub status: i32,
    pub cpu: Duration,
    pub max_rss_bytes: u64,
}

/// Waits for `pid`, a child of this process.
pub(crate) fn reap(pid: i32) -> Result<Reaped, Error> {
    let mut status = 0;
    loop {
        // SAFETY: a zeroed rusage is valid; `status` and `usage` live through the call.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let got = libc::wait4(pid, &raw mut status, 0, &raw mut usage);
            (got, usage)
        };
        if got == pid {
            let seconds =
                |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
            return Ok(Reaped {
                status,
                cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
                max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            });
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::System {
                what: "wait for the jail",
                source: error,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_other_peoples_processes_are_never_counted() {
        let limits = Limits::default();
        for threads in [1, 4] {
            let run = Kind::Run { threads };
            assert_eq!(process_limit(run, &limits, false, "6.1.0"), None);
        }
        let compile =
            |in_cgroup, release| process_limit(Kind::Compile, &limits, in_cgroup, release);
        assert_eq!(compile(true, "6.1.0"), None);
        assert_eq!(compile(false, "5.10.0-28-amd64"), None);
        let expected = (!nix::unistd::geteuid().is_root()).then_some(limits.processes);
        assert_eq!(compile(false, "6.1.0-13-amd64"), expected);
    }

    #[test]
    fn releases_are_compared_by_number() {
        for (release, newer) in [
            ("5.14.0", true),
            ("5.14-rc1", true),
            ("6.1.0-13-amd64\n", true),
            ("10.0", true),
            ("5.9.16", false),
            ("4.19.0", false),
            ("", false),
        ] {
            assert_eq!(counts_by_namespace(release), newer, "{release}");
        }
    }
}
