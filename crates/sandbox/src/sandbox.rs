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

/// How long bubblewrap may take until its child exists.
const SETUP_LIMIT: Duration = Duration::from_secs(10);

/// Nobody: the jailed program's user and group inside its namespace.
const NOBODY: &str = "65534";

/// How to make a sandbox.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Run untrusted programs even where a required measure is not in effect.
    pub allow_weaker: bool,
    /// The bubblewrap program; looked for on the PATH if none.
    pub bwrap: Option<PathBuf>,
}

/// What of the jail this machine cannot do; only set when weaker is allowed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Without {
    pub network: bool,
    pub cgroup_namespace: bool,
    pub filter: bool,
}

/// A machine's jail, probed and ready. Cheap to use from many threads.
pub struct Sandbox {
    bwrap: CString,
    roots: Roots,
    pub(crate) without: Without,
    pub(crate) protection: Protection,
    launcher: Arc<Launcher>,
    /// Where control groups work: one slot for each job at a time that is bounded by one.
    slots: Option<Slots>,
    compile_filters: Filters,
    /// For one thread and for more.
    run_filters: [Filters; 2],
    /// Why this machine gives less than full protection, where that is known.
    pub(crate) cause: Option<Cause>,
    /// What jobs got less of than they asked for.
    reduced: Mutex<BTreeSet<Reduced>>,
}

impl Sandbox {
    /// Probes what works on this machine.
    ///
    /// # Errors
    /// [`Error::NoBubblewrap`], [`Error::NoLibrary`], [`Error::Weak`] when a required measure does
    /// not work and `options` do not allow that, [`Error::Refused`], [`Error::NoExec`] and [`Error::Limit`] when no jail works at
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

    /// A folder on the host for the files of jobs. Jails see nothing of it but what a job names. It is removed with the
    /// sandbox, and what a killed process left of it when the next sandbox is made.
    pub fn scratch(&self) -> std::path::PathBuf {
        self.roots.scratch()
    }

    /// What is in effect here.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// Can jobs have these limits here? A harmless program is run under them.
    ///
    /// # Errors
    /// [`Error::Limit`] where a hard limit of this process is too low for them.
    pub fn try_limits(&self, limits: &Limits, bound: MemoryBound) -> Result<(), Error> {
        let mut job = Self::probe_job();
        job.limits = limits.clone();
        job.memory_bound = bound;
        self.run(&job).map(drop)
    }

    /// What jobs got less of so far than they asked for, because a hard limit of this process is lower: for each resource where
    /// most is missing.
    pub fn reduced(&self) -> Vec<Reduced> {
        let all = self.reduced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut most: Vec<Reduced> = Vec::new();
        // In order of resources, and of what was wanted.
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
    /// Only for what the program cannot cause; its own end is an [`Exit`].
    pub fn run(&self, job: &Job) -> Result<Finished, Error> {
        self.spawn(job)?.wait()
    }

    /// Starts a job.
    ///
    /// # Errors
    /// When the jail cannot be started. That its set-up failed later shows at the first wait.
    pub fn spawn(&self, job: &Job) -> Result<Child, Error> {
        let filters = match job.kind {
            Kind::Compile => &self.compile_filters,
            Kind::Run { threads } => &self.run_filters[usize::from(threads > 1)],
        };
        let filters: Vec<&[u8]> = if self.without.filter {
            Vec::new()
        } else {
            vec![&filters.not_implemented, &filters.allow_list]
        };
        self.start(job, &filters, self.without, |_| Ok(()))
    }

    /// Starts a jail; `inspect` sees its process while that waits to start the program.
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

        // The kernel bounds all other run jobs by itself, and a group costs time.
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
            // Several processes share it, and bubblewrap's own two count as well.
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
                // One that is gone already has failed to set itself up, and said why before it ended.
                return Err(if is_gone(&error) { told } else { error });
            }
        };
        // If it is another's child, set-up has failed already, which the first wait will tell.
        let prepared = if proc::parent(pid) == Some(bwrap) {
            self.restrict(pid, job, group.as_deref())
                .and_then(|()| inspect(pid))
        } else {
            Ok(())
        };
        // From here on dropping `child` cleans up.
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
            child.kill();
            return Err(match child.wait() {
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

    /// Limits the process that is about to start the program.
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

/// Did a call fail because the process it was about has ended and been waited for?
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::System { source, .. } if source.raw_os_error() == Some(libc::ESRCH))
}

/// Waits for bubblewrap's first report: the process id of the jail, and the bytes that came.
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
                    return Err("it did not come up in time".into());
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

/// Ends a bubblewrap that reported no child, and tells why from its own words.
fn setup_failed(bwrap: i32, how: String, stderr: &OwnedFd) -> Error {
    // An ended process stays until it is waited for, so the number still means it.
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

/// A file in memory with `content`, to be read from its start.
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
            looked: "bwrap on the PATH".into(),
        })
}

fn c_string(text: &OsStr) -> Result<CString, Error> {
    CString::new(text.as_bytes())
        .map_err(|_| Error::Job(format!("`{}` holds a zero byte", text.to_string_lossy())))
}
