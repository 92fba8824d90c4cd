//! A job under way.
//!
//! Nothing runs in the background: output is drained and limits are enforced
//! whenever the owner asks ([`Child::try_wait`], [`Child::wait_timeout`]). A
//! job that nobody asks about is still bounded by the kernel's limits, blocks on
//! a full pipe, and dies with its [`Child`].

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

/// How often memory and processor time of a running job are looked at.
const SAMPLE: Duration = Duration::from_millis(5);

/// Signals have the numbers from 1 on up to this one.
const SIGNALS: i32 = 64;

/// What bubblewrap reports for a program that SIGKILL ended.
const KILLED: i32 = 128 + libc::SIGKILL;

/// A pipe's reading end and what came out of it.
struct Stream {
    pipe: Option<std::fs::File>,
    seen: Vec<u8>,
    limit: usize,
    /// More came than the limit allows.
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

    /// Reads what is there without waiting.
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
    /// What came on the status pipe before the program started.
    pub status_seen: Vec<u8>,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub limits: Limits,
    pub memory_bound: MemoryBound,
    pub held: Held,
}

/// A running job. Dropping it kills it and waits until nothing is left of it.
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
    /// Why we killed it, if we did.
    killed: Option<Exit>,
    finished: Option<Finished>,
    reaped: bool,
    /// The jail dies with the thread that started it. Given back after the drop of this child's own work.
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

    /// The program starts now: its wall clock does too.
    pub(crate) fn release(&mut self) {
        self.started = Instant::now();
        self.sampled = self.started;
    }

    /// The jailed program's process id on the host.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Processor time of the jailed program's process so far, all threads; none once it is gone.
    pub fn cpu_time(&self) -> Option<Duration> {
        if self.reaped {
            None
        } else {
            proc::cpu_time(self.pid)
        }
    }

    /// Threads of the jailed program now; none once it is gone.
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

    /// Kills everything in the jail. The end is still to be waited for; it reads as SIGKILL.
    pub fn kill(&mut self) {
        self.end(Exit::Signal(libc::SIGKILL));
    }

    fn end(&mut self, why: Exit) {
        if self.killed.is_none() && !self.reaped {
            self.killed = Some(why);
            proc::kill(&self.pidfd);
        }
    }

    /// Has it ended? Drains its output and enforces its limits.
    pub fn try_wait(&mut self) -> Result<Option<Finished>, Error> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> Result<Finished, Error> {
        loop {
            // The wall clock limit bounds this.
            if let Some(finished) = self.wait_timeout(Duration::from_secs(3600))? {
                return Ok(finished);
            }
        }
    }

    /// Waits for its end, at most `timeout`.
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

    /// Sleeps until a pipe moves or `most` is over.
    fn sleep(&self, most: Duration) -> Result<(), Error> {
        let mut pipes: Vec<PollFd<'_>> = [&self.status, &self.stdout, &self.stderr]
            .into_iter()
            .filter_map(|s| s.pipe.as_ref())
            .map(|p| PollFd::new(p.as_fd(), PollFlags::POLLIN))
            .collect();
        // Rounded up, or the last fraction of a millisecond would be spun through.
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

    /// bubblewrap has closed its report: it has ended or is about to.
    fn finish(&mut self) -> Result<Finished, Error> {
        // Before the reaping, as it grows with what other jails' starters show.
        let ours = proc::own_peak_rss();
        let reaped = proc::reap(self.bwrap)?;
        self.reaped = true;
        let wall = self.started.elapsed();
        // Nobody holds the other ends any more.
        self.pump();

        // A child that shares its starter's memory until it executes inherits the starter's peak.
        if reaped.max_rss_bytes > ours {
            self.peak_rss = self.peak_rss.max(reaped.max_rss_bytes);
        }
        let exit = match (report(&self.status.seen).exit_code, self.killed) {
            _ if self.stdout.over || self.stderr.over => Exit::OutputLimit,
            // Killed before the program was reached, or by us: bubblewrap shows SIGKILL.
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

    /// bubblewrap ended without saying that the program had been started.
    fn no_report(&self, status: i32) -> Error {
        let status = ExitStatus::from_raw(status);
        if status.code().is_none() {
            // Whoever ended bubblewrap may have done so before the program was bound to its life.
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

    /// bubblewrap says 128 + n for signal n; the filter sees to it that no program does. A compiler may end with more than there are
    /// signals.
    fn read_code(&self, code: i32, cpu: Duration) -> Exit {
        if code <= 128 || code > 128 + SIGNALS {
            return Exit::Code(code);
        }
        let signal = code - 128;
        // Out of memory has no signal of its own: allocation fails and the program trips over that.
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
        // bubblewrap ends as soon as the namespace is empty; if it is stuck, it goes as well.
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
            tracing::warn!(%error, "a jail could not be waited for");
        }
    }
}

/// What bubblewrap reported so far.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub child_pid: Option<i32>,
    pub exit_code: Option<i32>,
}

/// Reads bubblewrap's report: JSON documents one after the other, the last perhaps cut.
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
