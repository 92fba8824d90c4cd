//! The process in the jail that builds and calls candidates.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flopsmith_protocol::CandidateFault;
use flopsmith_sandbox::{Child, Job, Kind, Limits, Sandbox};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde_json::{Value, json};

use crate::arena::Arena;
use crate::environment::Environment;
use crate::error::Error;
use crate::line::{Lines, PATIENT, Silence};
use crate::outcome::Failure;
use crate::profile::Profile;
use crate::triton::Launch;

pub(crate) const SCRIPT: &str = include_str!("../python/worker.py");
pub(crate) const TRITON_SCRIPT: &str = include_str!("../python/worker_triton.py");
pub(crate) const PROFILE_SCRIPT: &str = include_str!("../python/worker_profile.py");

/// Where the jail shows the files of this crate and of the candidate.
const SCRIPTS_AT: &str = "/module";
pub(crate) const CANDIDATE_AT: &str = "/candidate";

/// Longest time for building a candidate, and for an untimed call.
pub(crate) const SLOW: Duration = Duration::from_secs(30);

/// Descriptors inside the jail.
const COMMANDS_FD: i32 = 3;
const REPLIES_FD: i32 = 4;
const ARENA_FD: i32 = 5;

/// Memory of the interpreter with PyTorch, mapped files included, beside the shared buffers.
const MEMORY_BYTES: u64 = 16 << 30;

/// The reason why work with a worker ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The candidate's fault.
    Candidate(Failure),
    /// A failure that no candidate can cause.
    Ours(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Ours(error)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Candidate(failure)
    }
}

/// The files and settings of a worker.
pub(crate) struct Setup<'a> {
    /// The interpreter.
    pub environment: &'a Environment,
    /// The folder with the scripts of this crate, on the host.
    pub scripts: PathBuf,
    /// The folder with the candidate's files, on the host.
    pub candidate: PathBuf,
    /// Cores of the worker.
    pub cores: Vec<usize>,
    /// Bytes of the shared memory.
    pub bytes: u64,
}

/// A worker. Dropping it ends its jail.
pub(crate) struct Worker {
    child: Child,
    lines: Lines,
    /// The shared memory.
    pub arena: Arena,
}

impl Worker {
    /// Starts a worker and waits until it has imported PyTorch.
    pub fn start(sandbox: &Sandbox, setup: &Setup) -> Result<Self, Error> {
        let threads = setup.cores.len().max(1) as u32;
        let arena = Arena::new()?;
        arena.grow(setup.bytes.max(1 << 12))?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|e| Error::system("make a pipe")(e.into()));
        let (commands, to) = pipe()?;
        let (from, replies) = pipe()?;
        let filter = match sandbox.run_filter(threads) {
            Some(filter) => {
                std::fs::write(setup.scripts.join("filter"), filter)
                    .map_err(Error::system("write the system-call filter"))?;
                json!(format!("{SCRIPTS_AT}/filter"))
            }
            None => Value::Null,
        };
        let settings = json!({
            "paths": setup.environment.paths(),
            "threads": threads,
            "filter": filter,
        });
        let mut program = vec![setup.environment.executable.clone().into_os_string()];
        let script = format!("{SCRIPTS_AT}/worker.py");
        let settings = settings.to_string();
        program.extend(["-I", "-S", "-B", script.as_str(), settings.as_str()].map(OsString::from));
        let mut job = Job::new(Kind::Fork { threads }, program);
        job.read_only = setup
            .environment
            .mounts()
            .into_iter()
            .map(|path| (path.clone(), path))
            .collect();
        job.read_only.extend([
            (setup.scripts.clone(), PathBuf::from(SCRIPTS_AT)),
            (setup.scripts.join("cpuinfo"), "/proc/cpuinfo".into()),
            // PyTorch does not start without it, and a jail has no devices.
            (setup.scripts.join("urandom"), "/dev/urandom".into()),
            (setup.candidate.clone(), CANDIDATE_AT.into()),
        ]);
        job.pass_fds = vec![
            (raw(&commands), COMMANDS_FD),
            (raw(&replies), REPLIES_FD),
            (arena.fd(), ARENA_FD),
        ];
        job.cores = (!setup.cores.is_empty()).then(|| setup.cores.clone());
        job.env = vec![
            ("OMP_NUM_THREADS".into(), threads.to_string()),
            ("OMP_DYNAMIC".into(), "false".into()),
            // NumPy's library would start threads of its own.
            ("OPENBLAS_NUM_THREADS".into(), "1".into()),
            ("HOME".into(), "/tmp".into()),
            // Threads that wait for the next call use no processor time, which would count as work between calls.
            ("OMP_WAIT_POLICY".into(), "passive".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
        ];
        job.limits = Limits {
            wall: Limits::ENDLESS,
            cpu: Limits::ENDLESS,
            memory_bytes: MEMORY_BYTES + 4 * setup.bytes,
            file_bytes: 0,
            processes: 4,
            open_files: 128,
            output_bytes: 1 << 20,
            stack_bytes: 16 << 20,
        };
        let child = sandbox.spawn(&job)?;
        drop((commands, replies));
        let mut worker = Worker {
            child,
            lines: Lines::new(to, from),
            arena,
        };
        match worker.reply(PATIENT) {
            Ok(answer) if answer.get("ready").is_some() => Ok(worker),
            _ => Err(worker.broken("it did not start")),
        }
    }

    /// Forks the process of a candidate; `triton` if it has kernels of Triton, `gradients` if it is asked for gradients.
    pub fn fork(&mut self, triton: bool, gradients: bool) -> Result<(), Error> {
        self.fork_by(&json!({"do": "fork", "triton": triton, "gradients": gradients}))
    }

    /// Forks the process of a candidate that is to be profiled; `triton` if it has kernels of Triton.
    pub fn fork_to_profile(&mut self, triton: bool) -> Result<(), Error> {
        self.fork_by(&json!({"do": "fork", "triton": triton, "profile": true}))
    }

    fn fork_by(&mut self, order: &Value) -> Result<(), Error> {
        if self.lines.has_more() {
            return Err(self.broken("it answered without an order"));
        }
        let answer = self.exchange(order, PATIENT);
        match answer {
            Ok(answer) if answer["forked"] == json!(true) => Ok(()),
            _ => Err(self.broken("it did not fork")),
        }
    }

    /// Ends the process of a candidate.
    pub fn end(&mut self) -> Result<(), Stop> {
        let answer = self.exchange(&json!({"do": "end"}), SLOW);
        // The candidate may have written the answer itself; the kernel knows whether it is gone.
        if answer.is_ok() && self.candidate().is_some() {
            return Err(Failure::new(
                CandidateFault::LeftRunning,
                "the process did not end, but answered as if it had",
            )
            .into());
        }
        match answer {
            Ok(answer) if answer["ended"] == json!(0) => Ok(()),
            other => Err(Failure::new(
                CandidateFault::Crash,
                format!("the process did not end as it should: {other:?}"),
            )
            .into()),
        }
    }

    /// Gives an order to the candidate's process.
    pub fn ask(&mut self, order: &Value, limit: Duration) -> Result<(), Stop> {
        self.answer(order, limit).map(drop)
    }

    /// The launches of kernels that the candidate's process noted. They are information, never a proof.
    pub fn launches(&mut self) -> Result<Vec<Launch>, Stop> {
        let mut answer = self.answer(&json!({"do": "launches"}), SLOW)?;
        if answer["complete"] != json!(true) {
            let detail = "its kernels are launched in so many ways that they are not compiled";
            return Err(Failure::new(CandidateFault::CompileLimit, detail).into());
        }
        serde_json::from_value(answer["launches"].take()).map_err(|e| {
            let detail = format!("its launches cannot be read: {e}");
            Failure::new(CandidateFault::Crash, detail).into()
        })
    }

    /// The operators of a call, after one to warm up, as the candidate's process reports them. They are for readers, and
    /// never believed.
    pub fn profile(&mut self, limit: Duration) -> Result<Profile, Stop> {
        let answer = self.answer(&json!({"do": "profile"}), limit)?;
        Profile::read(answer).map_err(Stop::Candidate)
    }

    fn answer(&mut self, order: &Value, limit: Duration) -> Result<Value, Stop> {
        let doing = order["do"].as_str().unwrap_or("call").to_owned();
        if self.lines.has_more() {
            return Err(self.surplus());
        }
        let answer = self.exchange(order, limit).map_err(|s| silent(s, &doing))?;
        match answer["done"] == json!(doing) {
            true => Ok(answer),
            false => Err(failed(&answer, &doing).into()),
        }
    }

    /// Calls the module once, and returns the time between the order and the answer.
    pub fn call(&mut self, limit: Duration) -> Result<Duration, Stop> {
        self.round_trip(b"c\n", limit)
    }

    /// An empty call: the hand-shake alone.
    pub fn empty_call(&mut self) -> Result<Duration, Stop> {
        self.round_trip(b"e\n", SLOW)
    }

    fn round_trip(&mut self, order: &[u8], limit: Duration) -> Result<Duration, Stop> {
        self.drain();
        if self.lines.has_more() {
            return Err(self.surplus());
        }
        let began = Instant::now();
        self.lines.send(order).map_err(|s| silent(s, "call"))?;
        let line = self.lines.receive(limit);
        let took = began.elapsed();
        match line.map_err(|s| silent(s, "call"))?.as_slice() {
            b"d" => Ok(took),
            other => {
                let answer = serde_json::from_slice(other).unwrap_or(Value::Null);
                Err(failed(&answer, "call").into())
            }
        }
    }

    /// The failure of a process that sent something between two calls, or that ended there.
    fn surplus(&mut self) -> Stop {
        match self.lines.receive(Duration::ZERO) {
            Err(silence) => silent(silence, "the time between calls"),
            Ok(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(answer) if answer.get("ended").is_some() => {
                    failed(&answer, "the time between calls").into()
                }
                _ => forged(),
            },
        }
    }

    /// The number of the candidate's process; none where there is none or the kernel does not say.
    fn candidate(&self) -> Option<i32> {
        let server = self.child.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// Processor time that all threads of the candidate's process have used until now; none without a candidate.
    pub fn used(&self) -> Option<Duration> {
        flopsmith_sandbox::cpu_time(self.candidate()?)
    }

    fn exchange(&mut self, order: &Value, limit: Duration) -> Result<Value, Silence> {
        self.drain();
        self.lines.order(order)?;
        self.reply(limit)
    }

    fn reply(&mut self, limit: Duration) -> Result<Value, Silence> {
        let line = self.lines.receive(limit)?;
        serde_json::from_slice(&line).map_err(|_| Silence::Closed)
    }

    /// Reads what the worker printed, so that a full pipe does not stop it.
    fn drain(&mut self) {
        let _state = self.child.try_wait();
    }

    fn broken(&mut self, how: &str) -> Error {
        self.child.kill();
        let said = match self.child.wait_timeout(Duration::from_secs(5)) {
            Ok(Some(finished)) => {
                let text = String::from_utf8_lossy(&finished.stderr).into_owned();
                let lines: Vec<&str> = text.lines().collect();
                lines[lines.len().saturating_sub(6)..].join("\n")
            }
            _ => String::new(),
        };
        Error::Process {
            process: "the worker of candidates",
            detail: format!("{how}\n{said}").trim_end().to_owned(),
        }
    }
}

fn raw(fd: &std::os::fd::OwnedFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(fd)
}

/// A reply that was not asked for.
fn forged() -> Stop {
    Failure::new(
        CandidateFault::LeftRunning,
        "the process answered without a call",
    )
    .into()
}

fn silent(silence: Silence, doing: &str) -> Stop {
    match silence {
        Silence::Timeout => Failure::new(
            CandidateFault::Timeout,
            format!("`{doing}` did not end in time"),
        ),
        Silence::Closed => Failure::new(
            CandidateFault::Crash,
            format!("the process ended in `{doing}`"),
        ),
    }
    .into()
}

/// The failure that an answer other than the expected one reports.
fn failed(answer: &Value, doing: &str) -> Failure {
    if let Some(code) = answer.get("ended").and_then(Value::as_i64) {
        let (fault, how) = match -code {
            SIGSYS => (
                CandidateFault::ForbiddenSyscall,
                "a system call that the jail forbids ended it".to_owned(),
            ),
            signal if signal > 0 => (
                CandidateFault::Crash,
                format!("signal {signal} ended the process"),
            ),
            _ => (
                CandidateFault::Exited,
                format!("the process ended itself with code {code}"),
            ),
        };
        return Failure::new(fault, format!("{how}, in `{doing}`"));
    }
    let text = answer["error"]
        .as_str()
        .unwrap_or("an answer that cannot be read");
    let fault = match answer["fault"].as_str() {
        Some("wrong_signature") => CandidateFault::WrongSignature,
        _ => CandidateFault::Crash,
    };
    Failure::new(fault, format!("`{doing}`: {text}"))
}

/// The signal of a forbidden system call on Linux.
const SIGSYS: i64 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_read_from_its_code() {
        for (answer, fault) in [
            (json!({"ended": -31}), CandidateFault::ForbiddenSyscall),
            (json!({"ended": -11}), CandidateFault::Crash),
            (json!({"ended": 7}), CandidateFault::Exited),
            // An end that is in order elsewhere is none in a call.
            (json!({"ended": 0}), CandidateFault::Exited),
            (
                json!({"error": "2 results", "fault": "wrong_signature"}),
                CandidateFault::WrongSignature,
            ),
            (
                json!({"error": "boom", "fault": "crash"}),
                CandidateFault::Crash,
            ),
            (Value::Null, CandidateFault::Crash),
        ] {
            assert_eq!(failed(&answer, "call").fault, fault, "{answer}");
        }
    }
}
