//! The start of a harness: its jail, its limits, its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flopsmith_harness::Waiting;
use flopsmith_harness::memory::SharedMemory;
use flopsmith_sandbox::{Job, Kind, Limits, Sandbox};

use super::arena::Arena;

/// Numbers of the file descriptors inside the jail.
const CONTROL_FD: i32 = 3;
const BUFFERS_FD: i32 = 4;
/// Address space of a candidate, in bytes, in addition to some copies of the buffers, and of each of its threads: a
/// thread has a stack, and the C library reserves a heap of its own for the thread.
const MEMORY_BYTES: u64 = 128 << 20;
const MEMORY_BYTES_A_THREAD: u64 = 160 << 20;
/// How many times the size of the buffers a candidate may allocate.
const COPIES: u64 = 8;

/// The settings with which a harness process is started.
pub struct Setup<'a> {
    /// The jail.
    pub sandbox: &'a Sandbox,
    /// The harness program.
    pub harness: &'a Path,
    /// Name of the entry function.
    pub entry: &'a str,
    /// The buffers.
    pub arena: &'a Arena,
    /// Threads the candidate may use.
    pub threads: u32,
    /// Cores the process runs on; any core if none are named.
    pub cores: Option<&'a [usize]>,
    /// How the two sides wait for each other.
    pub waiting: Waiting,
    /// Limit of the whole process's processor time; none for trusted programs.
    pub cpu_limit: Option<Duration>,
}

/// The job of a harness that loads the file `object`.
pub(super) fn job(setup: &Setup, object: &Path, control: &SharedMemory) -> Job {
    let buffers = setup.arena.mapping().len();
    let program: [OsString; 7] = [
        "/harness".into(),
        CONTROL_FD.to_string().into(),
        BUFFERS_FD.to_string().into(),
        buffers.to_string().into(),
        "/candidate.so".into(),
        setup.entry.into(),
        setup.threads.to_string().into(),
    ];
    let mut job = Job::new(
        Kind::Run {
            threads: setup.threads,
        },
        program,
    );
    let at = |host: &Path, inside: &str| (host.to_owned(), PathBuf::from(inside));
    job.read_only = vec![at(setup.harness, "/harness"), at(object, "/candidate.so")];
    job.pass_fds = vec![(control.fd(), CONTROL_FD), (setup.arena.fd(), BUFFERS_FD)];
    job.cores = setup.cores.map(<[usize]>::to_vec);
    job.env = [
        ("OMP_NUM_THREADS", setup.threads.to_string()),
        ("OMP_DYNAMIC", "false".to_owned()),
        // A thread spins long enough for the next parallel loop of one call, but is asleep soon after the call.
        ("GOMP_SPINCOUNT", "20000".to_owned()),
        // The library that clang links spins for a fixed time: no thread may run once a call is over.
        ("KMP_BLOCKTIME", "0".to_owned()),
        // The supervisor decides where threads run, and the jail forbids a request for another place.
        ("KMP_AFFINITY", "disabled".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    job.limits = limits(setup.threads, buffers as u64, setup.cpu_limit);
    job
}

/// Stack of a program's main thread, in bytes; its other threads get as much.
pub(crate) const STACK_BYTES: u64 = 16 << 20;

/// The limits of a harness process with so many threads and bytes of buffers. Baselines live as long as their timer, so
/// the process has no wall-clock limit.
pub(crate) fn limits(threads: u32, buffers: u64, cpu: Option<Duration>) -> Limits {
    Limits {
        wall: Limits::ENDLESS,
        cpu: cpu.unwrap_or(Limits::ENDLESS),
        memory_bytes: MEMORY_BYTES
            + MEMORY_BYTES_A_THREAD * u64::from(threads)
            + (COPIES + 1) * buffers,
        file_bytes: 0,
        processes: 1,
        open_files: 16,
        output_bytes: 16 << 10,
        stack_bytes: STACK_BYTES,
    }
}
