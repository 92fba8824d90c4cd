//! The sandbox: probes the machine once, then starts jails.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::cause::Cause;
use crate::cgroup::{Cgroup, Entry};
use crate::child::{Child, Started, report};
use crate::error::Error;
use crate::filter::{self, Filters};
use crate::job::{Finished, Job, Kind, Limits, MemoryBound};
use crate::launch::{Launcher, Request};
use crate::limits::{self, Reduced};
use crate::proc;
use crate::protection::{Measure, Protection};
use crate::root::Roots;
use crate::slot::{Held, Slot, Slots};

/// Longest time that bubblewrap may take until it reports its child.
const SETUP_LIMIT: Duration = Duration::from_secs(10);

/// The user and group of the jailed program inside its namespace (`nobody`).
const NOBODY: &str = "65534";

/// Options for making a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Run untrusted programs even where a required measure is not in effect.
    pub allow_weaker: bool,
    /// The path of bubblewrap; if none, the PATH is searched.
    pub bwrap: Option<PathBuf>,
}

/// The measures that this machine cannot provide; set only if weaker protection is permitted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Without {
    pub network: bool,
    pub cgroup_namespace: bool,
    pub filter: bool,
}

/// The probed jail of a machine. Many threads may use it at once at little cost.
pub struct Sandbox {
    bwrap: CString,
    roots: Roots,
    pub(crate) without: Without,
    pub(crate) protection: Protection,
    launcher: Arc<Launcher>,
    /// One slot for each concurrent job that a control group bounds; none where control groups do not work.
    slots: Option<Slots>,
    compile_filters: Filters,
    /// The filters for one thread, and those for several threads.
    run_filters: [Filters; 2],
    /// The filters of jobs that fork, for one thread and for several.
    fork_filters: [Filters; 2],
    /// The reason why this machine gives less than full protection, where it is known.
    pub(crate) cause: Option<Cause>,
    /// The limits of jobs that were lower than the jobs asked for.
    reduced: Mutex<BTreeSet<Reduced>>,
}

impl Sandbox {
    /// Makes a sandbox after probing which measures work on this machine.
    ///
    /// # Errors
    /// [`Error::NoBubblewrap`], [`Error::NoLibrary`], [`Error::Weak`] when a required measure does not work and
    /// `options` do not permit that, [`Error::Refused`], [`Error::NoExec`] and [`Error::Limit`] when no jail works at
    /// all.
    pub fn new(options: Options) -> Result<Self, Error> {
        let bwrap = find_bwrap(options.bwrap.as_deref())?;
        limits::can_write_files()?;
        let mut sandbox = Sandbox {
            bwrap: c_string(bwrap.as_os_str())?,
            roots: Roots::new()?,
            without: Without::default(),
            protection: Protection::default(),
            launcher: Arc::new(Launcher::new(|| {})?),
            slots: None,
            compile_filters: filter::build(Kind::Compile)?,
            run_filters: [
                filter::build(Kind::Run { threads: 1 })?,
                filter::build(Kind::Run { threads: 2 })?,
            ],
            fork_filters: [
                filter::build(Kind::Fork { threads: 1 })?,
                filter::build(Kind::Fork { threads: 2 })?,
            ],
            cause: None,
            reduced: Mutex::default(),
        };
        sandbox.probe()?;
        sandbox.make_slots()?;
        if !sandbox.protection.full() && !options.allow_weaker {
            return Err(Error::Weak {
                missing: sandbox.protection.missing(),
                cause: sandbox.cause.take(),
            });
        }
        Ok(sandbox)
    }

    /// A folder on the host for the files of jobs. A jail shows only those of its files that the job names. The folder
    /// is removed with the sandbox; if this process is killed, the next sandbox removes the folder.
    pub fn scratch(&self) -> std::path::PathBuf {
        self.roots.scratch()
    }

    /// The filter of a run jail with so many threads, as an array of the kernel's `struct sock_filter`: a copy of a
    /// program in a jail of [`Kind::Fork`] loads it. None where this machine has no filters.
    pub fn run_filter(&self, threads: u32) -> Option<&[u8]> {
        let filters = &self.run_filters[usize::from(threads > 1)];
        (!self.without.filter).then_some(filters.allow_list.as_slice())
    }

    /// The state of each protective measure.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Checks that jobs can have these limits, by running a harmless program under them.
    ///
    /// # Errors
    /// [`Error::Limit`] where a hard limit of this process is too low for the limits.
    pub fn try_limits(&self, limits: &Limits, bound: MemoryBound) -> Result<(), Error> {
        let mut job = Self::probe_job();
        job.limits = limits.clone();
        job.memory_bound = bound;
        self.run(&job).map(drop)
    }

    /// The limits of jobs so far that were lower than the jobs asked for, because a hard limit of this process is
    /// lower. Holds the largest shortfall of each resource.
    pub fn reduced(&self) -> Vec<Reduced> {
        let all = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut most: Vec<Reduced> = Vec::new();
        // The set is sorted by resource and then by the wanted amount, so the last entry of a resource has the largest
        // amount.
        for less in all.iter() {
            if most
                .last()
                .is_some_and(|last| last.resource == less.resource)
            {
                most.pop();
            }
            most.push(*less);
        }
        most
    }

    /// Runs a job to its end.
    ///
    /// # Errors
    /// Only for failures that the program cannot cause. The program's own end is an [`Exit`].
    pub fn run(&self, job: &Job) -> Result<Finished, Error> {
        self.spawn(job)?.wait()
    }

    /// Starts a job.
    ///
    /// # Errors
    /// If the jail cannot be started. The first wait reports a later failure of the jail's set-up.
    pub fn spawn(&self, job: &Job) -> Result<Child, Error> {
        let filters = match job.kind {
            Kind::Compile => &self.compile_filters,
            Kind::Run { threads } => &self.run_filters[usize::from(threads > 1)],
            Kind::Fork { threads } => &self.fork_filters[usize::from(threads > 1)],
        };
        let filters: Vec<&[u8]> = if self.without.filter {
            Vec::new()
        } else {
            vec![&filters.not_implemented, &filters.allow_list]
        };
        self.start(job, &filters, self.without, |_| Ok(()))
    }

    /// Starts a jail. `inspect` gets the process id of the jail while that process waits to start the program.
    pub(crate) fn start(
        &self,
        job: &Job,
        filters: &[&[u8]],
        without: Without,
        inspect: impl FnOnce(i32) -> Result<(), Error>,
    ) -> Result<Child, Error> {
        for (host, inside) in job.read_only.iter().chain(&job.read_write) {
            self.roots.mount_point(job.kind, host, inside)?;
        }
        let pipe = || {
            nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|e| Error::System {
                what: "make a pipe",
                source: e.into(),
            })
        };
        let (status, status_in) = pipe()?;
        let (block_out, block) = pipe()?;
        let (stdout, stdout_in) = pipe()?;
        let (stderr, stderr_in) = pipe()?;
        for end in [&status, &stdout, &stderr] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|e| Error::System {
                what: "set up a pipe",
                source: e.into(),
            })?;
        }
        let null;
        let stdin = match job.stdin {
            Some(fd) => fd,
            None => {
                null = std::fs::File::open("/dev/null").map_err(|source| Error::System {
                    what: "open /dev/null",
                    source,
                })?;
                null.as_raw_fd()
            }
        };

        let mut fds: Vec<(RawFd, RawFd)> = vec![
            (stdin, 0),
            (stdout_in.as_raw_fd(), 1),
            (stderr_in.as_raw_fd(), 2),
        ];
        fds.extend(&job.pass_fds);
        if job.pass_fds.iter().any(|(_, to)| *to < 3) {
            return Err(Error::Job(
                "descriptors 0 to 2 are the standard streams".into(),
            ));
        }
        let mut next = fds.iter().map(|(_, to)| *to).max().unwrap_or(2) + 1;
        let mut place = |from: RawFd| {
            fds.push((from, next));
            next += 1;
            OsString::from((next - 1).to_string())
        };
        let status_number = place(status_in.as_raw_fd());
        let block_number = place(block_out.as_raw_fd());
        let programs: Vec<OwnedFd> = filters
            .iter()
            .map(|f| memory_file(f))
            .collect::<Result<_, _>>()?;
        let filter_numbers: Vec<OsString> = programs.iter().map(|p| place(p.as_raw_fd())).collect();

        let mut arguments = self.arguments(job, without);
        arguments.extend(["--json-status-fd".into(), status_number]);
        arguments.extend(["--block-fd".into(), block_number]);
        for number in filter_numbers {
            arguments.extend(["--add-seccomp-fd".into(), number]);
        }
        arguments.push("--".into());
        arguments.extend(job.program.iter().cloned());

        // The kernel's own limits suffice for all other run jobs, and a group costs time.
        let grouped = job.kind == Kind::Compile || job.memory_bound == MemoryBound::Resident;
        let mut held = match &self.slots {
            Some(slots) if grouped => Held::Slot(Some(slots.take()?), slots.clone()),
            _ => Held::Shared(self.launcher.clone()),
        };
        let (launcher, mut group) = match &mut held {
            Held::Slot(Some(slot), _) => (slot.launcher.clone(), slot.group.as_mut()),
            _ => (self.launcher.clone(), None),
        };
        if let Some(group) = &mut group {
            // The job's processes share the group's limits, and bubblewrap's own two processes count as well.
            let limits = &job.limits;
            group
                .limit(limits.memory_bytes.saturating_mul(2), limits.processes + 2)
                .map_err(|source| Error::System {
                    what: "limit the job's control group",
                    source,
                })?;
        }
        let bwrap = launcher.start(Request {
            program: self.bwrap.clone(),
            arguments: arguments
                .iter()
                .map(|a| c_string(a))
                .collect::<Result<_, _>>()?,
            fds,
        })?;
        drop((status_in, block_out, stdout_in, stderr_in));

        let (pid, status_seen) = match first_report(&status) {
            Ok(found) => found,
            Err(how) => return Err(setup_failed(bwrap, how, &stderr)),
        };
        let pidfd = match proc::open_pidfd(pid) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let told = setup_failed(bwrap, String::new(), &stderr);
                // A process that is already gone has failed to set itself up, and bubblewrap reported the reason before
                // it ended.
                return Err(if is_gone(&error) { told } else { error });
            }
        };
        // A process with another parent means that the set-up has already failed; the first wait reports that failure.
        let prepared = if proc::parent(pid) == Some(bwrap) {
            self.restrict(pid, job, group.as_deref())
                .and_then(|()| inspect(pid))
        } else {
            Ok(())
        };
        // From here on, dropping `child` ends the jail.
        let mut child = Child::new(Started {
            bwrap,
            pid,
            pidfd,
            status,
            status_seen,
            stdout,
            stderr,
            limits: job.limits.clone(),
            memory_bound: job.memory_bound,
            held,
        });
        if let Err(error) = prepared {
            // A process that is already gone has failed to set itself up, and bubblewrap reports the reason. A kill would
            // take the reason's place.
            if !is_gone(&error) {
                child.kill();
            }
            return Err(match child.wait_timeout(SETUP_LIMIT) {
                Err(told @ Error::Setup { .. }) => told,
                _ => error,
            });
        }
        child.release();
        let _may_be_gone = nix::unistd::write(&block, b"1");
        Ok(child)
    }

    fn arguments(&self, job: &Job, without: Without) -> Vec<OsString> {
        let mut a: Vec<OsString> = Vec::with_capacity(64);
        let mut say = |words: &[&OsStr]| a.extend(words.iter().map(|w| w.to_os_string()));
        let word = OsStr::new;
        say(&[word("bwrap")]);
        for flag in [
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
            "--clearenv",
        ] {
            say(&[word(flag)]);
        }
        if !without.network {
            say(&[word("--unshare-net")]);
        }
        if !without.cgroup_namespace {
            say(&[word("--unshare-cgroup")]);
        }
        say(&[
            "--cap-drop",
            "ALL",
            "--uid",
            NOBODY,
            "--gid",
            NOBODY,
            "--hostname",
            "jail",
        ]
        .map(word));
        for (name, value) in &job.env {
            say(&[word("--setenv"), word(name), word(value)]);
        }
        say(&[
            word("--ro-bind"),
            self.roots.of(job.kind).as_os_str(),
            word("/"),
        ]);
        if job.kind == Kind::Compile {
            for folder in &self.roots.compile_binds {
                say(&[word("--ro-bind"), folder.as_os_str(), folder.as_os_str()]);
            }
        }
        if job.tmpfs_bytes > 0 {
            let size = job.tmpfs_bytes.to_string();
            say(&[word("--size"), word(&size), word("--tmpfs"), word("/tmp")]);
        }
        for (host, inside) in &job.read_only {
            say(&[word("--ro-bind"), host.as_os_str(), inside.as_os_str()]);
        }
        for (host, inside) in &job.read_write {
            say(&[word("--bind"), host.as_os_str(), inside.as_os_str()]);
        }
        say(&[word("--chdir"), job.workdir.as_os_str()]);
        a
    }

    /// Sets the limits of the process that is about to start the program.
    fn restrict(&self, pid: i32, job: &Job, group: Option<&Cgroup>) -> Result<(), Error> {
        let reduced = limits::set(pid, job, group.is_some())?;
        if !reduced.is_empty() {
            let mut all = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(reduced);
        }
        if let Some(cores) = &job.cores {
            proc::pin(pid, cores)?;
        }
        match group {
            Some(group) if group.entry == Entry::ByProcess => {
                group.enter_process(pid).map_err(|source| Error::System {
                    what: "move the job into its control group",
                    source,
                })
            }
            _ => Ok(()),
        }
    }

    fn make_slots(&mut self) -> Result<(), Error> {
        let group = Cgroup::new();
        self.protection
            .set(Measure::ControlGroup, group.as_ref().err().cloned());
        if let Ok(group) = group {
            let slots = Slots::default();
            slots.put(Slot::grouped(group)?);
            self.slots = Some(slots);
        }
        Ok(())
    }
}

/// True if a call failed because its process has ended and its parent has waited for it.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}

/// Waits for bubblewrap's first report. Returns the process id of the jail, and the bytes that were read.
fn first_report(status: &OwnedFd) -> Result<(i32, Vec<u8>), String> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let end = Instant::now() + SETUP_LIMIT;
    let mut seen = Vec::new();
    let mut block = [0_u8; 1024];
    loop {
        match nix::unistd::read(status, &mut block) {
            Ok(0) => return Err(String::new()),
            Ok(n) => seen.extend_from_slice(&block[..n]),
            Err(nix::errno::Errno::EAGAIN) => {
                let left = end.saturating_duration_since(Instant::now()).as_millis();
                if left == 0 {
                    return Err("bubblewrap did not start the program in time".into());
                }
                let left = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
                let _woken = poll(&mut [PollFd::new(status.as_fd(), PollFlags::POLLIN)], left);
            }
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(e.to_string()),
        }
        if let Some(pid) = report(&seen).child_pid {
            return Ok((pid, seen));
        }
    }
}

/// Ends a bubblewrap that reported no child, and returns an error with bubblewrap's own error text.
fn setup_failed(bwrap: i32, how: String, stderr: &OwnedFd) -> Error {
    // An ended process keeps its number until its parent waits for it, so the number still refers to bubblewrap.
    let _gone = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(bwrap),
        nix::sys::signal::Signal::SIGKILL,
    );
    if let Err(error) = proc::reap(bwrap) {
        return error;
    }
    let mut said = Vec::new();
    let mut block = [0_u8; 4096];
    while let Ok(n @ 1..) = nix::unistd::read(stderr, &mut block) {
        said.extend_from_slice(&block[..n]);
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let parts: Vec<String> = [how, said].into_iter().filter(|p| !p.is_empty()).collect();
    Error::Setup {
        detail: if parts.is_empty() {
            "bubblewrap ended at once".into()
        } else {
            parts.join(": ")
        },
    }
}

/// A file in memory with `content`, positioned at its start.
fn memory_file(content: &[u8]) -> Result<OwnedFd, Error> {
    let failed = |source| Error::System {
        what: "pass on the system-call filter",
        source,
    };
    let fd = memfd_create("filter", MFdFlags::MFD_CLOEXEC).map_err(|e| failed(e.into()))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(content).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file.into())
}

fn find_bwrap(named: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(path) = named {
        return if path.is_file() {
            Ok(path.into())
        } else {
            Err(Error::NoBubblewrap {
                looked: path.display().to_string(),
            })
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/local/bin")])
        .map(|folder| folder.join("bwrap"))
        .find(|p| p.is_file())
        .ok_or_else(|| Error::NoBubblewrap {
            looked: "bwrap on the PATH, in /usr/bin and in /usr/local/bin".into(),
        })
}

fn c_string(text: &OsStr) -> Result<CString, Error> {
    CString::new(text.as_bytes())
        .map_err(|_| Error::Job(format!("`{}` holds a zero byte", text.to_string_lossy())))
}
