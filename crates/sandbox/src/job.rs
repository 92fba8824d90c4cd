//! The description of a job: its program, its limits and its result.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

/// The kind of jail that a job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The host's `/usr` read-only; the job may start processes.
    Compile,
    /// Only the loader, the C library and the files that the job binds. The job may start no processes, and threads
    /// only when `threads` is above 1.
    Run {
        /// Number of threads that the program may use.
        threads: u32,
    },
    /// As [`Kind::Run`], and the program may fork copies of itself. For programs of our own that prepare an interpreter
    /// once: a copy loads [`Sandbox::run_filter`](crate::Sandbox::run_filter) before it runs untrusted code.
    Fork {
        /// Number of threads that each copy may use.
        threads: u32,
    },
}

/// The part of a program's memory that [`Limits::memory_bytes`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum MemoryBound {
    /// The address space. The kernel refuses any allocation beyond it.
    #[default]
    AddressSpace,
    /// Resident memory. The supervisor samples it every few milliseconds, and a control group bounds it where the
    /// machine has one. For programs that reserve far more than they use, such as programs with a sanitizer's runtime.
    Resident,
}

/// The upper limits on a job's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time from the start of the program.
    pub wall: Duration,
    /// Processor time of one process, all its threads together.
    pub cpu: Duration,
    /// Memory of one process, in bytes; [`Job::memory_bound`] says which kind of memory.
    pub memory_bytes: u64,
    /// Size of one written file, in bytes.
    pub file_bytes: u64,
    /// Processes of a compile job. In effect where the machine has a writable pids cgroup, or where the caller is not
    /// root and the kernel counts each jail separately (from 5.14 on). A run job has only its own process anyway; if
    /// its [`MemoryBound`] is `Resident`, the control group counts its threads.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes on each of standard output and standard error.
    pub output_bytes: usize,
    /// Size of the main thread's stack, in bytes.
    pub stack_bytes: u64,
}

impl Limits {
    /// Processor time and lifetime of programs that are trusted to end, such as baselines. For these programs the limit
    /// has no effect in practice, and they accept the caller's own lower limit.
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
    /// The kind of jail.
    pub kind: Kind,
    /// Files and folders that the jail shows read-only: (path on the host, path inside).
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// Files and folders that the jail shows writable: (path on the host, path inside).
    pub read_write: Vec<(PathBuf, PathBuf)>,
    /// Size of a fresh `/tmp`, in bytes; 0 means no writable `/tmp`.
    pub tmpfs_bytes: u64,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory inside the jail.
    pub workdir: PathBuf,
    /// The limits.
    pub limits: Limits,
    /// The kind of memory that the limit bounds.
    pub memory_bound: MemoryBound,
    /// Descriptors that the program inherits: (our number, its number inside, from 3 up).
    pub pass_fds: Vec<(RawFd, RawFd)>,
    /// The descriptor that the program gets as standard input; empty input if none.
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

/// The way in which a jailed program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The program exited with this code.
    Code(i32),
    /// This signal killed it, or [`Child::kill`](crate::Child::kill) did (SIGKILL).
    Signal(i32),
    /// The job reached its limit on wall-clock time.
    WallTimeout,
    /// The job reached its limit on processor time.
    CpuTimeout,
    /// The program wrote more output than its limit.
    OutputLimit,
    /// The program made a system call that the filter forbids. An exit code above 128 also counts, because it would
    /// read like a signal.
    ForbiddenSyscall,
    /// The program died while its memory was used up.
    MemoryLimit,
}

impl Exit {
    /// True if the program exited with code 0.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

/// The result of a job that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The way in which the program ended.
    pub exit: Exit,
    /// The program's standard output, cut at the limit.
    pub stdout: Vec<u8>,
    /// The program's standard error, cut at the limit.
    pub stderr: Vec<u8>,
    /// Time from the start of the program to its end.
    pub wall: Duration,
    /// Processor time of the job; includes about 2 ms for the jail itself.
    pub cpu: Duration,
    /// Largest resident memory seen, in bytes. It is a lower bound: where the supervisor's own peak hides the kernel's
    /// figure, only the samples count.
    pub max_rss_bytes: u64,
}
