//! A running job.
//!
//! No background thread serves a job: the owner's calls of [`Child::try_wait`] and [`Child::wait_timeout`] drain its
//! output and enforce its limits. If the owner makes no such call, the kernel's limits still apply to the job, the job
//! blocks on a full pipe, and it dies with its [`Child`].

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::Error;
use crate::job::{Exit, Finished, Limits, MemoryBound};
use crate::proc;
use crate::slot::Held;

/// The interval at which the supervisor samples memory and processor time of a running job.
const SAMPLE: Duration = Duration::from_millis(5);

/// Signals are numbered from 1 to this value.
const SIGNALS: i32 = 64;

/// The exit code that bubblewrap reports for a program that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

/// A pipe's reading end and the bytes that were read from it.
struct Stream {
    pipe: Option<std::fs::File>,
    seen: Vec<u8>,
    limit: usize,
    /// True if the program wrote more bytes than the limit.
    over: bool,
}

impl Stream {
    fn new(pipe: OwnedFd, limit: usize) -> Self {
        Stream {
            pipe: Some(pipe.into()),
            seen: Vec::new(),
            limit,
            over: false,
        }
    }

    /// Reads all bytes that are available now, without waiting.
    fn drain(&mut self) {
        let mut block = [0_u8; 16 * 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut block) {
                Ok(0) => self.pipe = None,
                Ok(n) => {
                    let room = self.limit - self.seen.len();
                    self.seen.extend_from_slice(&block[..n.min(room)]);
                    if n > room {
                        self.over = true;
                        return;
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// The descriptors and numbers of a jail that was just started.
pub(crate) struct Started {
    pub bwrap: i32,
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub status: OwnedFd,
    /// The bytes that arrived on the status pipe before the program started.
    pub status_seen: Vec<u8>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub limits: Limits,
    pub memory_bound: MemoryBound,
    pub held: Held,
}

/// A running job. Dropping it kills the job and waits until all its processes have ended.
pub struct Child {
    bwrap: i32,
    pid: i32,
    pidfd: OwnedFd,
    status: Stream,
    stdout: Stream,
    stderr: Stream,
    limits: Limits,
    memory_bound: MemoryBound,
    started: Instant,
    sampled: Instant,
    peak_rss: u64,
    /// The reason why the supervisor killed the job; none if it did not.
    killed: Option<Exit>,
    finished: Option<Finished>,
    reaped: bool,
    /// Keeps the launching thread alive, because the jail dies with the thread that started it. Released after `drop`
    /// has ended the job.
    _held: Held,
}

impl Child {
    pub(crate) fn new(started: Started) -> Self {
        let mut status = Stream::new(started.status, 64 * 1024);
        status.seen = started.status_seen;
        let now = Instant::now();
        Child {
            bwrap: started.bwrap,
            pid: started.pid,
            pidfd: started.pidfd,
            status,
            stdout: Stream::new(started.stdout, started.limits.output_bytes),
            stderr: Stream::new(started.stderr, started.limits.output_bytes),
            limits: started.limits,
            memory_bound: started.memory_bound,
            started: now,
            sampled: now,
            peak_rss: 0,
            killed: None,
            finished: None,
            reaped: false,
            _held: started.held,
        }
    }

    /// Starts the job's wall clock; the caller starts the program at the same time.
    pub(crate) fn release(&mut self) {
        self.started = Instant::now();
        self.sampled = self.started;
    }

    /// The jailed program's process id on the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Processor time of the jailed program's process so far, all threads; none once the process is gone.
    pub fn cpu_time(&self) -> Option<Duration> {
        if self.reaped {
            None
        } else {
            proc::cpu_time(self.pid)
        }
    }

    /// Number of threads of the jailed program now; none once the program is gone.
    pub fn threads(&self) -> Option<usize> {
        if self.reaped {
            return None;
        }
        Some(
            std::fs::read_dir(format!("/proc/{}/task", self.pid))
                .ok()?
                .count(),
        )
    }

    /// Kills everything in the jail. The caller must still wait for the end, which reads as SIGKILL.
    pub fn kill(&mut self) {
        self.end(Exit::Signal(libc::SIGKILL));
    }

    fn end(&mut self, why: Exit) {
        if self.killed.is_none() && !self.reaped {
            self.killed = Some(why);
            proc::kill(&self.pidfd);
        }
    }

    /// Drains the job's output, enforces its limits, and returns its result if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<Finished>, Error> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Waits for the job's end.
    pub fn wait(&mut self) -> Result<Finished, Error> {
        loop {
            // The job's limit on wall-clock time bounds this loop.
            if let Some(finished) = self.wait_timeout(Duration::from_secs(3600))? {
                return Ok(finished);
            }
        }
    }

    /// Waits at most `timeout` for the job's end.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Finished>, Error> {
        let give_up = Instant::now() + timeout;
        loop {
            if let Some(finished) = &self.finished {
                return Ok(Some(finished.clone()));
            }
            self.pump();
            if self.status.pipe.is_none() {
                return self.finish().map(Some);
            }
            let now = Instant::now();
            if now >= give_up {
                return Ok(None);
            }
            let next = if self.killed.is_some() {
                give_up
            } else {
                give_up.min(now + SAMPLE)
            };
            self.sleep(next - now)?;
        }
    }

    /// Sleeps until a pipe has data or `most` has passed.
    fn sleep(&self, most: Duration) -> Result<(), Error> {
        let mut pipes: Vec<PollFd<'_>> = [&self.status, &self.stdout, &self.stderr]
            .into_iter()
            .filter_map(|s| s.pipe.as_ref())
            .map(|p| PollFd::new(p.as_fd(), PollFlags::POLLIN))
            .collect();
        // Rounded up: `poll` counts whole milliseconds, and with 0 the last fraction of one would be a busy loop.
        let most = most.as_micros().div_ceil(1000).min(60_000);
        let most = PollTimeout::from(u16::try_from(most).unwrap_or(u16::MAX));
        match poll(&mut pipes, most) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(e) => Err(Error::System {
                what: "wait for the jail's pipes",
                source: e.into(),
            }),
        }
    }

    fn pump(&mut self) {
        self.stdout.drain();
        self.stderr.drain();
        self.status.drain();
        if self.killed.is_some() || self.status.pipe.is_none() {
            return;
        }
        let now = Instant::now();
        if self.stdout.over || self.stderr.over {
            self.end(Exit::OutputLimit);
        } else if now - self.started >= self.limits.wall {
            self.end(Exit::WallTimeout);
        } else if now - self.sampled >= SAMPLE {
            self.sampled = now;
            self.peak_rss = self.peak_rss.max(proc::peak_rss(self.pid).unwrap_or(0));
            if self.memory_bound == MemoryBound::Resident
                && self.peak_rss > self.limits.memory_bytes
            {
                self.end(Exit::MemoryLimit);
            } else if proc::cpu_time(self.pid).is_some_and(|t| t > self.limits.cpu) {
                self.end(Exit::CpuTimeout);
            }
        }
    }

    /// Collects the result. The caller has seen bubblewrap close its report: bubblewrap has ended or is about to end.
    fn finish(&mut self) -> Result<Finished, Error> {
        // Read before the reaping, because this process's own peak grows with what the starters of other jails show.
        let ours = proc::own_peak_rss();
        let reaped = proc::reap(self.bwrap)?;
        self.reaped = true;
        let wall = self.started.elapsed();
        // No process holds the writing ends any more, so this reads the remaining output.
        self.pump();

        // A child that shares its starter's memory until it executes inherits the starter's peak, so a figure up to
        // this process's own peak says nothing about the job.
        if reaped.max_rss_bytes > ours {
            self.peak_rss = self.peak_rss.max(reaped.max_rss_bytes);
        }
        let exit = match (report(&self.status.seen).exit_code, self.killed) {
            _ if self.stdout.over || self.stderr.over => Exit::OutputLimit,
            // The supervisor killed the jail: before the program started (no exit code), or later (bubblewrap reports
            // SIGKILL).
            (None | Some(KILLED), Some(why)) => why,
            (Some(code), _) => self.read_code(code, reaped.cpu),
            (None, None) => return Err(self.no_report(reaped.status)),
        };
        let finished = Finished {
            exit,
            stdout: std::mem::take(&mut self.stdout.seen),
            stderr: std::mem::take(&mut self.stderr.seen),
            wall,
            cpu: reaped.cpu,
            max_rss_bytes: self.peak_rss,
        };
        self.finished = Some(finished.clone());
        Ok(finished)
    }

    /// The error for a bubblewrap that ended without reporting that the program had started.
    fn no_report(&self, status: i32) -> Error {
        let status = ExitStatus::from_raw(status);
        if status.code().is_none() {
            // A signal may have ended bubblewrap before the kernel bound the program's life to bubblewrap's, so the
            // program is killed here.
            proc::kill(&self.pidfd);
            return Error::Lost {
                pid: self.pid,
                how: status.to_string(),
            };
        }
        let said = String::from_utf8_lossy(&self.stderr.seen).trim().to_owned();
        Error::Setup {
            detail: if said.is_empty() {
                status.to_string()
            } else {
                said
            },
        }
    }

    /// Reads bubblewrap's exit code: 128 + n means signal n. The filter kills a program that exits with such a code
    /// itself. A compiler may exit with more than 128 + 64, the highest signal; that is an exit code.
    fn read_code(&self, code: i32, cpu: Duration) -> Exit {
        if code <= 128 || code > 128 + SIGNALS {
            return Exit::Code(code);
        }
        let signal = code - 128;
        // The kernel has no signal for exhausted memory: an allocation fails, and the program then dies of another
        // signal.
        let full = self.peak_rss as f64 > 0.85 * self.limits.memory_bytes as f64;
        match signal {
            libc::SIGSYS => Exit::ForbiddenSyscall,
            libc::SIGXCPU => Exit::CpuTimeout,
            libc::SIGKILL if cpu.as_secs_f64() > 0.95 * self.limits.cpu.as_secs_f64() => {
                Exit::CpuTimeout
            }
            libc::SIGKILL | libc::SIGSEGV | libc::SIGBUS | libc::SIGABRT | libc::SIGILL if full => {
                Exit::MemoryLimit
            }
            _ => Exit::Signal(signal),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        proc::kill(&self.pidfd);
        // bubblewrap ends as soon as the namespace is empty. If bubblewrap is stuck, it is killed as well.
        let end = Instant::now() + Duration::from_secs(2);
        while self.status.pipe.is_some() && Instant::now() < end {
            self.status.drain();
            let _retried = self.sleep(Duration::from_millis(20));
        }
        if self.status.pipe.is_some() {
            let _gone = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(self.bwrap),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        if let Err(error) = proc::reap(self.bwrap) {
            tracing::warn!(%error, "waiting for the end of a jail failed");
        }
    }
}

/// The facts that bubblewrap has reported so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub child_pid: Option<i32>,
    pub exit_code: Option<i32>,
}

/// Reads bubblewrap's report: JSON documents one after the other, of which the last may be incomplete.
pub(crate) fn report(seen: &[u8]) -> Report {
    let mut report = Report::default();
    let documents = serde_json::Deserializer::from_slice(seen).into_iter::<serde_json::Value>();
    for document in documents.map_while(Result::ok) {
        let number = |key: &str| {
            document
                .get(key)
                .and_then(serde_json::Value::as_i64)
                .and_then(|n| i32::try_from(n).ok())
        };
        report.child_pid = report.child_pid.or(number("child-pid"));
        report.exit_code = report.exit_code.or(number("exit-code"));
    }
    report
}
