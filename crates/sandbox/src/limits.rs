#![expect(
    unsafe_code,
    reason = "limits of other processes have no safe interface"
)]
//! The kernel's limits on a jailed process.
//!
//! Each limit has a hard value. A process passes that value on to its children, and only the capability
//! CAP_SYS_RESOURCE raises it. A job may need more than the hard value of the process that starts it. Where the lower
//! value still permits a fair judgement of the program, the job gets the lower value, and the sandbox records the
//! difference ([`Reduced`]). Otherwise the job is not started, because a limit of the machine would count as a fault of
//! the program.

use std::fmt;
use std::fs;
use std::io;
use std::time::Duration;

use crate::error::Error;
use crate::job::{Job, Kind, Limits, MemoryBound};

/// The usual soft limit on the stack; every program on Linux may rely on this size.
const USUAL_STACK: u64 = 8 << 20;
/// The copies of the C library and of objects are at most this large.
const LARGEST_FILE: u64 = 32 << 20;
/// The processes of the smallest build: a compiler driver starts a compiler, an assembler and a linker, and the linker
/// starts some threads.
const FEW_PROCESSES: u64 = 16;

/// A resource that the kernel limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Address space, bytes.
    AddressSpace,
    /// Private writable memory, bytes.
    Data,
    /// Processor time, seconds.
    ProcessorTime,
    /// Size of a written file, bytes.
    FileSize,
    /// Open files.
    OpenFiles,
    /// Stack of the main thread, bytes.
    Stack,
    /// Size of a core dump, bytes.
    Core,
    /// Memory that cannot be swapped out, bytes.
    LockedMemory,
    /// Message queues, bytes.
    Messages,
    /// Processes of the user.
    Processes,
}

impl Resource {
    /// The limit's name in the kernel's interface.
    pub fn name(self) -> &'static str {
        match self {
            Resource::AddressSpace => "RLIMIT_AS",
            Resource::Data => "RLIMIT_DATA",
            Resource::ProcessorTime => "RLIMIT_CPU",
            Resource::FileSize => "RLIMIT_FSIZE",
            Resource::OpenFiles => "RLIMIT_NOFILE",
            Resource::Stack => "RLIMIT_STACK",
            Resource::Core => "RLIMIT_CORE",
            Resource::LockedMemory => "RLIMIT_MEMLOCK",
            Resource::Messages => "RLIMIT_MSGQUEUE",
            Resource::Processes => "RLIMIT_NPROC",
        }
    }

    /// The option letter of `ulimit` for the limit.
    pub fn flag(self) -> char {
        match self {
            Resource::AddressSpace => 'v',
            Resource::Data => 'd',
            Resource::ProcessorTime => 't',
            Resource::FileSize => 'f',
            Resource::OpenFiles => 'n',
            Resource::Stack => 's',
            Resource::Core => 'c',
            Resource::LockedMemory => 'l',
            Resource::Messages => 'q',
            Resource::Processes => 'u',
        }
    }

    /// The limited quantity, in words.
    fn what(self) -> &'static str {
        match self {
            Resource::AddressSpace => "address space",
            Resource::Data => "private memory",
            Resource::ProcessorTime => "processor time",
            Resource::FileSize => "size of a file",
            Resource::OpenFiles => "open files",
            Resource::Stack => "stack",
            Resource::Core => "core dumps",
            Resource::LockedMemory => "locked memory",
            Resource::Messages => "message queues",
            Resource::Processes => "processes",
        }
    }

    /// The limit's name in `/etc/security/limits.conf`.
    fn item(self) -> &'static str {
        match self {
            Resource::AddressSpace => "as",
            Resource::Data => "data",
            Resource::ProcessorTime => "cpu",
            Resource::FileSize => "fsize",
            Resource::OpenFiles => "nofile",
            Resource::Stack => "stack",
            Resource::Core => "core",
            Resource::LockedMemory => "memlock",
            Resource::Messages => "msgqueue",
            Resource::Processes => "nproc",
        }
    }

    fn number(self) -> libc::__rlimit_resource_t {
        match self {
            Resource::AddressSpace => libc::RLIMIT_AS,
            Resource::Data => libc::RLIMIT_DATA,
            Resource::ProcessorTime => libc::RLIMIT_CPU,
            Resource::FileSize => libc::RLIMIT_FSIZE,
            Resource::OpenFiles => libc::RLIMIT_NOFILE,
            Resource::Stack => libc::RLIMIT_STACK,
            Resource::Core => libc::RLIMIT_CORE,
            Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
            Resource::Messages => libc::RLIMIT_MSGQUEUE,
            Resource::Processes => libc::RLIMIT_NPROC,
        }
    }

    /// A value with its unit.
    fn amount(self, value: u64) -> String {
        if value == libc::RLIM_INFINITY {
            return "unlimited".into();
        }
        match self {
            Resource::ProcessorTime => format!("{value} s"),
            Resource::OpenFiles | Resource::Processes => value.to_string(),
            _ if value.is_multiple_of(1 << 20) => format!("{} MiB", value >> 20),
            _ => format!("{} KiB", value >> 10),
        }
    }

    /// Advice for a hard limit that is lower than `wanted`.
    pub(crate) fn advice(self, wanted: u64) -> String {
        let (flag, item, name) = (self.flag(), self.item(), self.name());
        let (value, unit) = match self {
            _ if wanted == libc::RLIM_INFINITY => ("unlimited".to_owned(), "infinity".to_owned()),
            Resource::ProcessorTime | Resource::OpenFiles | Resource::Processes => {
                (wanted.to_string(), wanted.to_string())
            }
            // `ulimit` and `limits.conf` count in KiB.
            _ => (wanted.div_ceil(1024).to_string(), wanted.to_string()),
        };
        let systemd = name.trim_start_matches("RLIMIT_");
        format!(
            "raise it as root: `ulimit -H{flag} {value}` in the shell that starts this, `* hard {item} {value}` in /etc/security/limits.conf, \
             Limit{systemd}={unit} in a systemd unit, or --ulimit of a container; a process with CAP_SYS_RESOURCE raises it by itself"
        )
    }
}

/// A job's limit that is lower than the job asked for, because the hard limit of this process is lower and cannot be
/// raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reduced {
    /// The limited resource.
    pub resource: Resource,
    /// The amount that the job asked for.
    pub wanted: u64,
    /// The amount that the job got.
    pub given: u64,
}

impl Reduced {
    /// Advice how to raise the limit.
    pub fn advice(&self) -> String {
        self.resource.advice(self.wanted)
    }
}

impl fmt::Display for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, name, flag) = (
            self.resource.what(),
            self.resource.name(),
            self.resource.flag(),
        );
        let given = self.resource.amount(self.given);
        let wanted = self.resource.amount(self.wanted);
        match self.resource {
            Resource::ProcessorTime => write!(
                f,
                "the kernel ends each process after {given} of {what} ({name}, `ulimit -H{flag}`), this one included"
            ),
            _ => write!(
                f,
                "programs get {what} of {given} instead of {wanted}: the hard limit {name} (`ulimit -H{flag}`) of this process is lower; \
                 a program that needs more fails on this machine and not on others"
            ),
        }
    }
}

/// The error text for a job that needs more than the hard limit permits.
pub(crate) fn too_low(resource: Resource, wanted: u64, hard: u64) -> String {
    format!(
        "the limit {} (`ulimit -H{}`) of this process is too low: {} of {} is permitted, {} is needed, and this process may not raise it",
        resource.name(),
        resource.flag(),
        resource.what(),
        resource.amount(hard),
        resource.amount(wanted)
    )
}

/// The smallest limit under which a program can be judged fairly, if `wanted` was asked for.
fn least(resource: Resource, wanted: u64) -> u64 {
    match resource {
        Resource::Stack => wanted.min(USUAL_STACK),
        Resource::Processes => wanted.min(FEW_PROCESSES),
        // `ENDLESS` is only for trusted programs, which accept any limit on processor time.
        Resource::ProcessorTime if wanted >= Limits::ENDLESS.as_secs() => 1,
        _ => wanted,
    }
}

/// The limit for a process whose hard limit `hard` is lower than `wanted`; an error if that limit would be unfair.
fn fit(resource: Resource, wanted: u64, hard: u64) -> Result<Reduced, Error> {
    if hard < least(resource, wanted) {
        return Err(Error::Limit {
            resource,
            wanted,
            hard,
        });
    }
    Ok(Reduced {
        resource,
        wanted,
        given: hard,
    })
}

/// The kernel's limit on processes for a job of `kind`; none where it must not be set.
///
/// Programs in run jails have no system call that makes processes. Their threads count as processes here, so the limit
/// would refuse threads that are permitted. Where a control group exists, it counts the job's processes and
/// bubblewrap's two, and none of another job's, so the kernel's limit is not needed. The limit does not apply to root.
/// Kernels before 5.14 count all processes of the user, so the user's other processes could make a job fail.
fn process_limit(kind: Kind, limits: &Limits, in_cgroup: bool, release: &str) -> Option<u64> {
    let counts = kind == Kind::Compile && !in_cgroup && !nix::unistd::geteuid().is_root();
    (counts && counts_by_namespace(release)).then_some(limits.processes)
}

/// True if a kernel of this release counts the processes of a user separately in each user namespace.
fn counts_by_namespace(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 14)
}

/// The limits that a job asks for.
fn wanted(job: &Job, in_cgroup: bool) -> Vec<(Resource, u64)> {
    let limits = &job.limits;
    let whole = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processes = process_limit(job.kind, limits, in_cgroup, &release);
    // A sanitizer's runtime reserves terabytes of address space.
    let memory = match job.memory_bound {
        MemoryBound::AddressSpace => limits.memory_bytes,
        MemoryBound::Resident => libc::RLIM_INFINITY,
    };
    let mut wanted = vec![
        (Resource::AddressSpace, memory),
        (Resource::Data, memory),
        (Resource::ProcessorTime, whole(limits.cpu).max(1)),
        (Resource::FileSize, limits.file_bytes),
        (Resource::OpenFiles, limits.open_files),
        (Resource::Stack, limits.stack_bytes),
        (Resource::Core, 0),
        (Resource::LockedMemory, 0),
        (Resource::Messages, 0),
    ];
    wanted.extend(processes.map(|n| (Resource::Processes, n)));
    wanted
}

/// Sets the limits of a process that has not started its program yet. Returns the limits that are lower than the job
/// asked for.
pub(crate) fn set(pid: i32, job: &Job, in_cgroup: bool) -> Result<Vec<Reduced>, Error> {
    let mut reduced = Vec::new();
    for (resource, value) in wanted(job, in_cgroup) {
        let Err(error) = put(pid, resource, value) else {
            continue;
        };
        if error.raw_os_error() != Some(libc::EPERM) {
            return Err(failed(error));
        }
        let (_, hard) = values(pid, resource).map_err(failed)?;
        if hard >= value && grace(resource) > 0 {
            put_both(pid, resource, value, value).map_err(failed)?;
            continue;
        }
        if hard >= value {
            return Err(failed(error));
        }
        let less = fit(resource, value, hard)?;
        put_both(pid, resource, less.given, less.given).map_err(failed)?;
        reduced.push(less);
    }
    Ok(reduced)
}

/// Fails if this process cannot write files as large as jobs need. The kernel kills a process that writes beyond its
/// limit.
pub(crate) fn can_write_files() -> Result<(), Error> {
    let resource = Resource::FileSize;
    let (soft, _) = values(0, resource).map_err(failed)?;
    if soft >= LARGEST_FILE {
        return Ok(());
    }
    Err(Error::Limit {
        resource,
        wanted: LARGEST_FILE,
        hard: soft,
    })
}

fn failed(source: io::Error) -> Error {
    Error::System {
        what: "set the limits of the jailed process",
        source,
    }
}

/// The amount by which the hard value of a limit exceeds the soft value.
///
/// When a process has used up its processor time, the kernel sends SIGXCPU at the soft value and SIGKILL at the hard
/// value. SIGXCPU identifies the reason of the end; SIGKILL does not. With equal values the kernel would send SIGKILL
/// at once. The reported processor time of the process could not prove the reason then, because the kernel reports that
/// time more exactly than the time that it compares with the limit (ticks).
fn grace(resource: Resource) -> u64 {
    match resource {
        Resource::ProcessorTime => 1,
        _ => 0,
    }
}

/// Sets a limit.
fn put(pid: i32, resource: Resource, value: u64) -> io::Result<()> {
    put_both(pid, resource, value, value.saturating_add(grace(resource)))
}

/// Sets the soft and the hard value of a limit.
fn put_both(pid: i32, resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` lives through the call; the old value is not asked for.
    let done = unsafe {
        libc::prlimit(
            pid,
            resource.number(),
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The soft and the hard value of a limit of a process; `pid` 0 means this process.
fn values(pid: i32, resource: Resource) -> io::Result<(u64, u64)> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is written by the call and lives through it; no new value is given.
    let done = unsafe { libc::prlimit(pid, resource.number(), std::ptr::null(), &raw mut limit) };
    if done == 0 {
        Ok((limit.rlim_cur, limit.rlim_max))
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
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

    #[test]
    fn a_job_gets_less_only_where_its_program_is_still_judged_fairly() {
        const ENDLESS: u64 = Limits::ENDLESS.as_secs();
        for (resource, wanted, hard, fits) in [
            (Resource::Stack, 64 << 20, 8 << 20, true),
            (Resource::Stack, 64 << 20, (8 << 20) - 1024, false),
            (Resource::Stack, 1 << 20, 1 << 19, false),
            (Resource::Processes, 32, 16, true),
            (Resource::Processes, 32, 15, false),
            (Resource::ProcessorTime, ENDLESS, 3600, true),
            (Resource::ProcessorTime, 60, 59, false),
            (Resource::AddressSpace, 1 << 30, (1 << 30) - 1, false),
            (Resource::AddressSpace, libc::RLIM_INFINITY, 1 << 40, false),
            (Resource::Data, 1 << 30, 1 << 20, false),
            (Resource::FileSize, 32 << 20, 1 << 20, false),
            (Resource::OpenFiles, 128, 64, false),
        ] {
            match fit(resource, wanted, hard) {
                Ok(less) => {
                    assert!(fits, "{less}");
                    assert_eq!(less.given, hard);
                    assert!(less.to_string().contains(resource.name()), "{less}");
                }
                Err(error) => {
                    assert!(!fits, "{error}");
                    let said = error.to_string();
                    let flag = format!("ulimit -H{}", resource.flag());
                    for part in [resource.name(), &flag, &resource.amount(hard)] {
                        assert!(said.contains(part), "{part} in {said}");
                    }
                }
            }
        }
    }

    #[test]
    fn advice_on_limits_uses_the_units_of_each_place() {
        let stack = Resource::Stack.advice(64 << 20);
        for part in [
            "`ulimit -Hs 65536`",
            "* hard stack 65536",
            "LimitSTACK=67108864",
        ] {
            assert!(stack.contains(part), "{part} in {stack}");
        }
        let time = Resource::ProcessorTime.advice(60);
        assert!(
            time.contains("`ulimit -Ht 60`") && time.contains("LimitCPU=60"),
            "{time}"
        );
        let memory = Resource::AddressSpace.advice(libc::RLIM_INFINITY);
        assert!(memory.contains("`ulimit -Hv unlimited`"), "{memory}");
        assert!(memory.contains("LimitAS=infinity"), "{memory}");
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_an_error() {
        assert!(values(i32::MAX, Resource::Stack).is_err());
        let (soft, hard) = values(0, Resource::Stack).unwrap();
        assert!(0 < soft && soft <= hard);
    }
}
