//! The thread that starts the server, reads its output and restarts it.
//!
//! The kernel sends a child its death signal when the *thread* that started it ends. One thread therefore starts the
//! server and lives as long as the server.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use tokio::sync::watch;

use super::error::Error;
use super::{CONFIG, TOKEN_VARIABLE};

/// How long an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Number of the server's log lines that are kept for error messages.
const LINES: usize = 20;

/// The parameters of the server process.
pub(super) struct Plan {
    pub binary: PathBuf,
    pub store: PathBuf,
    pub token: String,
    pub port: Option<u16>,
    /// The child inherits the lock, so that it lasts until both this process and the child have ended.
    pub lock: File,
    pub restarts_per_minute: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready(u16),
    Over,
}

struct State {
    child: Mutex<Option<Child>>,
    stopping: AtomicBool,
    restarts: AtomicU32,
    lines: Mutex<VecDeque<String>>,
    failure: Mutex<Option<Error>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn said(&self) -> String {
        let lines = locked(&self.lines);
        let grave: Vec<&str> = lines
            .iter()
            .filter_map(|line| {
                line.split_once("[FTL] ")
                    .or_else(|| line.split_once("[ERR] "))
            })
            .map(|(_, text)| text)
            .collect();
        match grave.last() {
            Some(text) => (*text).to_owned(),
            None => lines
                .back()
                .cloned()
                .unwrap_or_else(|| "it printed no message".to_owned()),
        }
    }
}

/// Keeps one server running.
pub(super) struct Supervisor {
    state: Arc<State>,
    phase: watch::Receiver<Phase>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// Starts the thread and waits until the server is ready; returns its port.
    pub(super) async fn start(plan: Plan, limit: Duration) -> Result<(Self, u16), Error> {
        let state = Arc::new(State {
            child: Mutex::new(None),
            stopping: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
            lines: Mutex::new(VecDeque::new()),
            failure: Mutex::new(None),
        });
        let (sender, phase) = watch::channel(Phase::Starting);
        let path = plan.binary.clone();
        let thread = std::thread::Builder::new()
            .name("nats-server".to_owned())
            .spawn({
                let state = Arc::clone(&state);
                move || supervise(plan, &state, &sender)
            })
            .map_err(|source| Error::Spawn { path, source })?;
        let mut supervisor = Self {
            state,
            phase,
            thread: Some(thread),
        };
        let ready = supervisor.phase.wait_for(|phase| *phase != Phase::Starting);
        let phase = match tokio::time::timeout(limit, ready).await {
            Ok(Ok(phase)) => *phase,
            Ok(Err(_)) => Phase::Over,
            Err(_) => {
                let said = supervisor.state.said();
                return Err(Error::Slow {
                    seconds: limit.as_secs(),
                    said,
                });
            }
        };
        match phase {
            Phase::Ready(port) => Ok((supervisor, port)),
            _ => Err(supervisor.failure()),
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        locked(&self.state.child).as_ref().map(Child::id)
    }

    pub(super) fn restarts(&self) -> u32 {
        self.state.restarts.load(Ordering::SeqCst)
    }

    pub(super) async fn failed(&self) -> Error {
        let mut phase = self.phase.clone();
        // An error means that the thread has ended, which is treated like `Over`.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
        self.failure()
    }

    fn failure(&self) -> Error {
        locked(&self.state.failure)
            .take()
            .unwrap_or_else(|| Error::Ended {
                status: "stopped".to_owned(),
                said: self.state.said(),
            })
    }

    /// Sends SIGTERM to the server, waits up to the stop limit, then kills the server.
    pub(super) fn stop(mut self) {
        self.end(Signal::SIGTERM, STOP_LIMIT);
    }

    fn end(&mut self, signal: Signal, limit: Duration) {
        self.state.stopping.store(true, Ordering::SeqCst);
        self.signal(signal);
        let deadline = Instant::now() + limit;
        if let Some(thread) = self.thread.take() {
            // The thread ends after the server. The standard library has no join with a time limit.
            while !thread.is_finished() {
                if Instant::now() >= deadline {
                    self.signal(Signal::SIGKILL);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = thread.join();
        }
    }

    /// Sends a signal to the child. The child stays in `state.child` only until it is waited for, so the signal cannot
    /// reach another process that got the same pid.
    fn signal(&self, signal: Signal) {
        if let Some(child) = locked(&self.state.child).as_ref()
            && let Ok(pid) = i32::try_from(child.id())
        {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Confirmed messages have been written to the operating system, so a kill loses none of them.
        self.end(Signal::SIGKILL, Duration::ZERO);
    }
}

fn supervise(mut plan: Plan, state: &State, phase: &watch::Sender<Phase>) {
    let mut deaths: VecDeque<Instant> = VecDeque::new();
    loop {
        let (ready, status) = match run_once(&plan, state, phase) {
            Ok(run) => run,
            Err(source) => {
                *locked(&state.failure) = Some(Error::Spawn {
                    path: plan.binary.clone(),
                    source,
                });
                break;
            }
        };
        if state.stopping.load(Ordering::SeqCst) {
            break;
        }
        // Clients reconnect to the port that they know.
        plan.port = ready.or(plan.port);
        let was_ready = ready.is_some() || state.restarts.load(Ordering::SeqCst) > 0;
        if !was_ready {
            *locked(&state.failure) = Some(explain(&plan, state, status));
            break;
        }
        let now = Instant::now();
        deaths.push_back(now);
        deaths.retain(|death| now.duration_since(*death) < Duration::from_secs(60));
        let times = u32::try_from(deaths.len()).unwrap_or(u32::MAX);
        if times > plan.restarts_per_minute {
            let error = Error::GivenUp {
                times,
                said: state.said(),
            };
            tracing::error!(%error, "the private nats-server has stopped permanently");
            *locked(&state.failure) = Some(error);
            break;
        }
        tracing::warn!(
            status,
            said = state.said(),
            "nats-server died; restarting it"
        );
        state.restarts.fetch_add(1, Ordering::SeqCst);
        if ready.is_none() {
            // The server did not become ready, perhaps because its port is still taken.
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    phase.send_replace(Phase::Over);
}

/// Runs the server until it ends. Returns the port, if the server became ready, and the exit status.
fn run_once(
    plan: &Plan,
    state: &State,
    phase: &watch::Sender<Phase>,
) -> std::io::Result<(Option<u16>, String)> {
    let mut child = spawn(plan)?;
    let stderr = child.stderr.take();
    *locked(&state.child) = Some(child);
    // A stop that came before the child was stored has not reached the child.
    if state.stopping.load(Ordering::SeqCst)
        && let Some(child) = locked(&state.child).as_mut()
    {
        let _ = child.kill();
    }
    let ready = stderr.and_then(|stderr| listen(stderr, state, phase));
    // `listen` has returned, so the server has closed its standard error: it has ended or is unusable.
    let mut place = locked(&state.child);
    let status = match place.as_mut() {
        Some(child) => {
            let _ = child.kill();
            child
                .wait()
                .map_or_else(|e| e.to_string(), |status| status.to_string())
        }
        None => String::new(),
    };
    *place = None;
    Ok((ready, status))
}

#[expect(
    unsafe_code,
    reason = "what a child does between fork and exec is only reachable through an unsafe function"
)]
fn spawn(plan: &Plan) -> std::io::Result<Child> {
    let mut command = Command::new(&plan.binary);
    command
        .arg("--config")
        .arg(plan.store.join(CONFIG))
        .args(["--jetstream", "--store_dir"])
        .arg(&plan.store)
        .args(["--addr", "127.0.0.1", "--port"])
        .arg(
            plan.port
                .map_or_else(|| "-1".to_owned(), |port| port.to_string()),
        )
        .arg("--logtime=false")
        .env_clear()
        .env(TOKEN_VARIABLE, &plan.token)
        .env("GOMEMLIMIT", "256MiB")
        // Messages are short-lived garbage. A less frequent collection costs less CPU, and the memory limit above still
        // holds.
        .env("GOGC", "400")
        .current_dir(&plan.store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C in a terminal must not reach the server: the run needs the server for its orderly end.
        .process_group(0);
    let parent = Pid::this();
    let lock = plan.lock.as_raw_fd();
    // SAFETY: the closure runs in the child between fork and exec. It only makes
    // system calls that are async-signal-safe, allocates nothing and takes no
    // lock. The descriptor is open for as long as the plan is borrowed.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the death signal was set.
            if getppid() != parent {
                return Err(nix::errno::Errno::ESRCH.into());
            }
            fcntl(
                BorrowedFd::borrow_raw(lock),
                FcntlArg::F_SETFD(FdFlag::empty()),
            )?;
            Ok(())
        });
    }
    command.spawn()
}

/// Reads the server's output until it ends. Returns the port, if the server became ready.
fn listen(stderr: ChildStderr, state: &State, phase: &watch::Sender<Phase>) -> Option<u16> {
    let mut port = None;
    let mut ready = None;
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        if let Some(address) = line.split_once("Listening for client connections on ") {
            port = address
                .1
                .trim()
                .rsplit(':')
                .next()
                .and_then(|port| port.parse().ok());
        }
        if line.contains("Server is ready")
            && let Some(port) = port
        {
            ready = Some(port);
            phase.send_replace(Phase::Ready(port));
        }
        if line.contains("[WRN]") || line.contains("[ERR]") || line.contains("[FTL]") {
            tracing::warn!(line, "nats-server");
        } else {
            tracing::trace!(line, "nats-server");
        }
        let mut lines = locked(&state.lines);
        lines.push_back(line);
        if lines.len() > LINES {
            lines.pop_front();
        }
    }
    ready
}

/// Why the first start failed, derived from the server's output.
fn explain(plan: &Plan, state: &State, status: String) -> Error {
    let said = state.said();
    match plan.port {
        Some(port) if said.contains("address already in use") => Error::PortBusy { port },
        _ if said.to_ascii_lowercase().contains("jetstream") => Error::JetStream {
            path: plan.store.clone(),
            said,
        },
        _ => Error::Ended { status, said },
    }
}
