#![expect(
    unsafe_code,
    reason = "pidfds, processor clocks and usage of other processes have no safe interface"
)]
//! Queries and settings of jailed processes, by system calls and `/proc`.

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::Error;

/// Opens a handle on a process. The handle never refers to another process, even after the kernel reuses the process
/// number.
pub(crate) fn open_pidfd(pid: i32) -> Result<OwnedFd, Error> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(Error::last("open a handle on the jailed process"));
    }
    // SAFETY: the descriptor is new and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Kills the process behind `pidfd`. A dead process is no error.
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

/// Processor time of all threads of a process so far; none if the process is gone.
pub fn cpu_time(pid: i32) -> Option<Duration> {
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

/// Largest resident memory of a live process so far, in bytes; none if the process is gone.
pub(crate) fn peak_rss(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// The parent of a process; none if the process is gone.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name in parentheses may itself contain spaces and parentheses.
    let after = &stat[stat.rfind(')')? + 1..];
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Largest resident memory of this process so far, in bytes.
pub(crate) fn own_peak_rss() -> u64 {
    // SAFETY: a zeroed rusage is valid, and the call only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

/// The end of a child process, and the resources that it and the children it waited for used.
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
