//! What to run, within which limits, and how it ended.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Which jail a job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The host's `/usr` read-only; may start processes.
    Compile,
    /// Only the loader, the C library and what the job binds; no processes, and threads only when `threads` is above 1.
    Run {
        /// How many threads the program may use.
        threads: u32,
    },
}

/// Which of a program's memory [`Limits::memory_bytes`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum MemoryBound {
    /// Its address space, by the kernel: who asks for more gets none.
    #[default]
    AddressSpace,
    /// What is in memory of it: looked at every few milliseconds, and bounded by a control group where there is one. For programs
    /// that reserve far more than they use, as those with a sanitizer's runtime in them do.
    Resident,
}

/// What a job may use at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time from the start of the program.
    pub wall: Duration,
    /// Processor time of one process, all its threads together.
    pub cpu: Duration,
    /// Memory of one process, in bytes; [`Job::memory_bound`] says which.
    pub memory_bytes: u64,
    /// Size of one written file, in bytes.
    pub file_bytes: u64,
    /// Processes of a compile job; in effect where the machine has a writable pids cgroup, or where the caller is not root
    /// and the kernel counts each jail apart (from 5.14 on). Run jobs have none but their own anyway; those whose
    /// [`MemoryBound`] is what is resident have their threads counted.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes on each of standard output and standard error.
    pub output_bytes: usize,
    /// Size of the main thread's stack, in bytes.
    pub stack_bytes: u64,
}

impl Limits {
    /// Processor time and life of programs that are trusted to end, such as baselines: for them it is no bound that matters, and
    /// they make do with what the caller's own limit permits.
    pub const ENDLESS: Duration = Duration::from_secs(5 * 365 * 24 * 3600);
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall: Duration::from_secs(10),
            cpu: Duration::from_secs(10),
            memory_bytes: 1 << 30,
            file_bytes: 64 << 20,
            processes: 64,
            open_files: 64,
            output_bytes: 1 << 20,
            stack_bytes: 8 << 20,
        }
    }
}

/// One program to run in a jail. Relative order of mounts: root, `/tmp`, read-only, read-write.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program as a path inside the jail, and its arguments.
    pub program: Vec<OsString>,
    /// Which jail.
    pub kind: Kind,
    /// Files and folders to show read-only: (on the host, inside).
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// Files and folders to show writable: (on the host, inside).
    pub read_write: Vec<(PathBuf, PathBuf)>,
    /// Size of a fresh `/tmp`; 0 means that there is none to write to.
    pub tmpfs_bytes: u64,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory inside.
    pub workdir: PathBuf,
    /// The limits.
    pub limits: Limits,
    /// What the limit on memory bounds.
    pub memory_bound: MemoryBound,
    /// Descriptors the program inherits: (ours, its number inside, from 3 up).
    pub pass_fds: Vec<(RawFd, RawFd)>,
    /// What the program reads on standard input; nothing if none.
    pub stdin: Option<RawFd>,
    /// The cores the program may run on; all of the caller's if none.
    pub cores: Option<Vec<usize>>,
}

impl Job {
    /// A job with default limits and nothing bound.
    pub fn new<S: Into<OsString>>(kind: Kind, program: impl IntoIterator<Item = S>) -> Self {
        Job {
            program: program.into_iter().map(Into::into).collect(),
            kind,
            read_only: Vec::new(),
            read_write: Vec::new(),
            tmpfs_bytes: 0,
            env: Vec::new(),
            workdir: PathBuf::from("/"),
            limits: Limits::default(),
            memory_bound: MemoryBound::default(),
            pass_fds: Vec::new(),
            stdin: None,
            cores: None,
        }
    }
}

/// How a jailed program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It ended itself with this code.
    Code(i32),
    /// This signal killed it, or [`Child::kill`](crate::Child::kill) did (SIGKILL).
    Signal(i32),
    /// Its time was up.
    WallTimeout,
    /// Its processor time was up.
    CpuTimeout,
    /// It wrote more than it may.
    OutputLimit,
    /// It made a system call that the filter forbids. Exit codes above 128 are among these: they would read like signals.
    ForbiddenSyscall,
    /// It died with its memory used up.
    MemoryLimit,
}

impl Exit {
    /// Did the program end itself with code 0?
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

/// A job that is over.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output, cut at the limit.
    pub stdout: Vec<u8>,
    /// Its standard error, cut at the limit.
    pub stderr: Vec<u8>,
    /// Time from the start of the program to its end.
    pub wall: Duration,
    /// Processor time of the job, with about 2 ms for the jail itself.
    pub cpu: Duration,
    /// Largest resident memory that was seen, in bytes. A lower bound: where the supervisor's own
    /// memory hides the kernel's figure, only samples are known.
    pub max_rss_bytes: u64,
}
