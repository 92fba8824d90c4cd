//! One harness in its jail, and the hand-shake with it.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flopsmith_harness::control::{CONTROL_BYTES, Status};
use flopsmith_harness::memory::{SharedMemory, sleep_on, wake};
use flopsmith_harness::{Order, Plan, Waiting};
use flopsmith_protocol::{CandidateFault, InfrastructureCause};
use flopsmith_sandbox::{Child, Exit, Finished, Job, Kind, Limits, Sandbox};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::arena::Arena;
use super::ending;
use crate::Failure;

/// Numbers of the descriptors inside the jail.
const CONTROL_FD: i32 = 3;
const BUFFERS_FD: i32 = 4;
/// A harness that is not ready by then never will be.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How often a waiting supervisor looks whether the other side is still alive.
const LIFE_CHECK: Duration = Duration::from_millis(2);
/// Longest life of a harness process. Baselines live as long as their timer.
const FOR_EVER: Duration = Duration::from_secs(5 * 365 * 24 * 3600);

/// Address space of a candidate beside some copies of the buffers, and of each of its threads: a
/// thread has a stack, and the C library reserves a heap of its own for it.
const MEMORY_BYTES: u64 = 128 << 20;
const MEMORY_BYTES_A_THREAD: u64 = 160 << 20;
/// How many times the buffers a candidate may allocate.
const COPIES: u64 = 8;

/// A call may last this many times its limit when it does not get the processor.
const WALL_FACTOR: u32 = 8;
/// Between two looks whether threads are at rest.
const REST_LOOK: Duration = Duration::from_micros(500);
/// Processor time between two looks that is still rest.
const REST_SLACK: Duration = Duration::from_micros(50);
/// Processor time threads may use after a call before they sleep.
const SPIN_ALLOWANCE: Duration = Duration::from_millis(20);
/// Longest wait for that on a busy machine.
const REST_LIMIT: Duration = Duration::from_secs(2);

/// What a harness process is started with.
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
    /// Cores it runs on; any when none are named.
    pub cores: Option<&'a [usize]>,
    /// How the two sides wait for each other.
    pub waiting: Waiting,
    /// Processor time of the whole process; none for trusted programs.
    pub cpu_limit: Option<Duration>,
}

/// What a process did when there was nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stillness {
    /// Threads of the process.
    pub threads: usize,
    /// Did all of them come to rest?
    pub still: bool,
    /// Processor time they used meanwhile.
    pub spent: Duration,
}

/// A harness process that takes orders.
pub struct Process {
    child: Child,
    control: SharedMemory,
    /// Keeps the object's file until the process is gone.
    _object: tempfile::NamedTempFile,
    sequence: u64,
    parked: bool,
    waiting: Waiting,
    memory_bytes: u64,
    called: bool,
    order_began_at: Option<Duration>,
}

impl Process {
    /// Starts a harness with `object` loaded and waits until it takes orders.
    pub fn start(setup: &Setup, object: &[u8]) -> Result<Self, Failure> {
        let resources = |what: &str, error: &dyn std::fmt::Display| {
            Failure::infrastructure(InfrastructureCause::Resources, format!("{what}: {error}"))
        };
        let mut file = tempfile::Builder::new()
            .prefix("object-")
            .suffix(".so")
            .tempfile_in(setup.sandbox.scratch())
            .map_err(|e| resources("no temporary file for the object", &e))?;
        file.write_all(object)
            .map_err(|e| resources("the object could not be written", &e))?;
        let control = SharedMemory::create("flopsmith-control", CONTROL_BYTES)
            .map_err(|e| resources("no shared memory", &e))?;
        let block = control.mapping().control();
        block.set_forbidden(setup.arena.forbidden());
        // While it starts both sides sleep; who wants to spin says so with the first order.
        block.set_waiting(Waiting::Sleep);
        let job = job(setup, file.path(), &control);
        let memory_bytes = job.limits.memory_bytes;
        let child = setup
            .sandbox
            .spawn(&job)
            .map_err(|e| Failure::ours(InfrastructureCause::Jail, &e))?;
        let mut process = Self {
            child,
            control,
            _object: file,
            sequence: 0,
            parked: true,
            waiting: setup.waiting,
            memory_bytes,
            called: false,
            order_began_at: None,
        };
        process.wait_until_ready()?;
        process
            .control
            .mapping()
            .control()
            .set_waiting(setup.waiting);
        Ok(process)
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let block = self.control.mapping().control();
            match block.status() {
                Status::Ready => return Ok(()),
                Status::Starting => {}
                Status::LoadFailed => {
                    let message = block.message();
                    let fault = if message.contains("undefined symbol") {
                        CandidateFault::ForbiddenSymbol
                    } else {
                        CandidateFault::ForbiddenConstruct
                    };
                    return Err(Failure::candidate(
                        fault,
                        format!("the object cannot be loaded: {message}"),
                    ));
                }
                Status::EntryMissing => {
                    return Err(Failure::candidate(
                        CandidateFault::MissingEntry,
                        block.message(),
                    ));
                }
                Status::Failed => {
                    return Err(Failure::infrastructure(
                        InfrastructureCause::Harness,
                        block.message(),
                    ));
                }
            }
            if let Some(finished) = self.finished()? {
                return Err(ending::before_first_call(&finished));
            }
            if start.elapsed() > START_LIMIT {
                return Err(Failure::infrastructure(
                    InfrastructureCause::Harness,
                    "the harness was not ready in time",
                ));
            }
            let done = self.control.mapping().control().done_word();
            sleep_on(done, 0, Some(Duration::from_micros(500)));
        }
    }

    /// Tells the harness the arguments of the calls to come.
    pub fn plan(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.control.mapping().control().set_plan(plan);
        self.order(Order::Plan, 0, START_LIMIT).map(|_| ())
    }

    /// Has the inputs filled from `seed` and the outputs poisoned; how long that took.
    pub fn prepare(&mut self, seed: u64) -> Result<Duration, Failure> {
        self.order(Order::Prepare, seed, START_LIMIT)
    }

    /// Has all arrays taken out of all caches.
    pub fn chill(&mut self) -> Result<(), Failure> {
        self.order(Order::Chill, 0, START_LIMIT).map(|_| ())
    }

    /// Has the candidate called once, and takes the time. `limit` is processor time.
    pub fn call(&mut self, limit: Duration) -> Result<Duration, Failure> {
        self.called = true;
        self.order(Order::Call, 0, limit)
    }

    /// Sends the harness to sleep until its next order.
    pub fn park(&mut self) -> Result<(), Failure> {
        if !self.parked && self.waiting == Waiting::Spin {
            self.order(Order::Park, 0, START_LIMIT)?;
        }
        self.parked = true;
        Ok(())
    }

    /// Ends the process in an orderly way. A process that does not end is killed.
    pub fn exit(mut self) -> Result<(), Failure> {
        self.order(Order::Exit, 0, START_LIMIT).map(|_| ())
    }

    /// Processor time the process has used so far, all its threads together.
    pub fn cpu_time(&self) -> Result<Duration, Failure> {
        let gone = |e: nix::Error| {
            Failure::infrastructure(
                InfrastructureCause::Harness,
                format!("the processor time of the harness cannot be read: {e}"),
            )
        };
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(self.child.pid())).map_err(gone)?;
        Ok(Duration::from(clock_gettime(clock).map_err(gone)?))
    }

    /// Sends the process to sleep and looks until all its threads are at rest. Threads that spin for a while
    /// before they sleep get some processor time for that; on a busy machine using it up may take a while.
    pub fn settle(&mut self) -> Result<Stillness, Failure> {
        self.park()?;
        let (start, before) = (Instant::now(), self.cpu_time()?);
        let mut quiet_since = None;
        loop {
            let Some((threads, running)) = self.threads() else {
                return Ok(Stillness {
                    threads: 0,
                    still: true,
                    spent: Duration::ZERO,
                });
            };
            let now = self.cpu_time()?;
            let spent = now.saturating_sub(before);
            let answer = |still| {
                Ok(Stillness {
                    threads,
                    still,
                    spent,
                })
            };
            if threads <= 1 {
                return answer(true);
            }
            // At rest: nobody was running in two looks, and nobody ran much between them.
            match quiet_since.filter(|_| running == 0) {
                Some(then) if now.saturating_sub(then) < REST_SLACK => return answer(true),
                _ => quiet_since = (running == 0).then_some(now),
            }
            if spent > SPIN_ALLOWANCE || start.elapsed() > REST_LIMIT {
                return answer(false);
            }
            std::thread::sleep(REST_LOOK);
        }
    }

    /// How many threads there are, and how many of them run or want to. None once the process is gone.
    fn threads(&self) -> Option<(usize, usize)> {
        let (mut all, mut running) = (0, 0);
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.pid())).ok()? {
            // A thread that ends between listing and looking is no thread any more.
            let Ok(stat) = std::fs::read_to_string(task.ok()?.path().join("stat")) else {
                continue;
            };
            all += 1;
            // The state is the first letter behind the name in parentheses, which may hold anything.
            let state = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.trim_start().chars().next());
            running += usize::from(state == Some('R'));
        }
        Some((all, running))
    }

    fn order(&mut self, order: Order, seed: u64, limit: Duration) -> Result<Duration, Failure> {
        self.sequence += 1;
        self.order_began_at = None;
        let word = order.word(self.sequence);
        let block = self.control.mapping().control();
        let asleep = self.parked || self.waiting == Waiting::Sleep;
        let start = Instant::now();
        block.give(word, seed);
        if asleep {
            wake(block.order_word());
        }
        self.parked = false;
        match self.waiting {
            Waiting::Spin => self.spin_for(word, start, limit, order),
            Waiting::Sleep => self.sleep_for(word, start, limit, order),
        }
    }

    fn spin_for(
        &mut self,
        word: u64,
        start: Instant,
        limit: Duration,
        order: Order,
    ) -> Result<Duration, Failure> {
        let mut next_check = LIFE_CHECK;
        loop {
            for _ in 0..256 {
                if self.control.mapping().control().answered() == word {
                    return Ok(start.elapsed());
                }
                std::hint::spin_loop();
            }
            let elapsed = start.elapsed();
            if elapsed > next_check {
                if !self.still_alive(order, elapsed, limit)? {
                    return Ok(elapsed);
                }
                next_check = elapsed + LIFE_CHECK;
            }
        }
    }

    fn sleep_for(
        &mut self,
        word: u64,
        start: Instant,
        limit: Duration,
        order: Order,
    ) -> Result<Duration, Failure> {
        loop {
            let block = self.control.mapping().control();
            let seen = block.answered();
            if seen == word {
                return Ok(start.elapsed());
            }
            sleep_on(block.done_word(), seen as u32, Some(LIFE_CHECK));
            if self.control.mapping().control().answered() != word {
                let elapsed = start.elapsed();
                if !self.still_alive(order, elapsed, limit)? {
                    return Ok(elapsed);
                }
            }
        }
    }

    /// Looks after a process that has not answered yet. False when it has ended as it was told to.
    fn still_alive(
        &mut self,
        order: Order,
        elapsed: Duration,
        limit: Duration,
    ) -> Result<bool, Failure> {
        if let Some(finished) = self.finished()? {
            if order == Order::Exit && finished.exit == Exit::Code(0) {
                return Ok(false);
            }
            return Err(self.died(&finished));
        }
        if elapsed <= limit {
            // From the first look on, the processor time of this order counts.
            if self.order_began_at.is_none() {
                self.order_began_at = self.child.cpu_time();
            }
            return Ok(true);
        }
        // Waiting for a processor is nobody's slowness: on a busy machine a call may last longer, as
        // long as it has not had that much processor time, or sleeps for very long.
        let spent = self
            .child
            .cpu_time()
            .zip(self.order_began_at)
            .map_or(elapsed, |(now, then)| now.saturating_sub(then));
        if spent < limit && elapsed < limit * WALL_FACTOR {
            return Ok(true);
        }
        self.child.kill();
        if order == Order::Call || self.called {
            Err(Failure::candidate(
                CandidateFault::Timeout,
                format!("a call did not return within {:.1} s", limit.as_secs_f64()),
            ))
        } else {
            Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                format!("the harness did not answer {order:?} in time"),
            ))
        }
    }

    fn died(&self, finished: &Finished) -> Failure {
        if self.called {
            ending::of_candidate(finished, self.memory_bytes)
        } else {
            ending::before_first_call(finished)
        }
    }

    fn finished(&mut self) -> Result<Option<Finished>, Failure> {
        self.child
            .try_wait()
            .map_err(|e| Failure::ours(InfrastructureCause::Jail, &e))
    }
}

fn job(setup: &Setup, object: &Path, control: &SharedMemory) -> Job {
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
        // Long enough for the next parallel loop of one call, short enough to be asleep soon after it.
        ("GOMP_SPINCOUNT", "20000".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    job.limits = Limits {
        wall: FOR_EVER,
        cpu: setup.cpu_limit.unwrap_or(FOR_EVER),
        memory_bytes: MEMORY_BYTES
            + MEMORY_BYTES_A_THREAD * u64::from(setup.threads)
            + (COPIES + 1) * buffers as u64,
        file_bytes: 0,
        processes: 1,
        open_files: 16,
        output_bytes: 16 << 10,
        stack_bytes: 16 << 20,
    };
    job
}
