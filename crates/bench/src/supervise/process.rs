//! One harness in its jail, and the hand-shake with it.

use std::io::Write;
use std::time::{Duration, Instant};

use flopsmith_harness::control::{CONTROL_BYTES, Status};
use flopsmith_harness::memory::{SharedMemory, sleep_on, wake};
use flopsmith_harness::{Order, Plan, Waiting};
use flopsmith_protocol::{CandidateFault, InfrastructureCause};
use flopsmith_sandbox::{Child, Exit, Finished};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rand::Rng;

use super::ending;
use super::rest::{self, Threads};
use super::setup::{Setup, job};
use crate::Failure;

/// A harness that is not ready by then never will be.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Once a candidate has been called, whatever does not call it is answered in microseconds, unless it is kept from that.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Bits of an order's number that count; on the half of the word that they are in the other side sleeps.
const COUNT_BITS: u32 = 24;
/// How often a waiting supervisor looks whether the other side is still alive.
const LIFE_CHECK: Duration = Duration::from_millis(2);
/// A call may last this many times its limit when it does not get the processor.
const WALL_FACTOR: u32 = 8;
/// Looks in a row at which nobody in the process runs or wants to, after which a late answer will never come.
const ASLEEP_LOOKS: u32 = 50;

/// A harness process that takes orders.
pub struct Process {
    child: Child,
    control: SharedMemory,
    /// Keeps the object's file until the process is gone.
    _object: tempfile::NamedTempFile,
    /// Given so far.
    orders: u32,
    parked: bool,
    /// How often it had gone to sleep before it was told to for long.
    slept_before: Option<u64>,
    waiting: Waiting,
    permitted_threads: u32,
    memory_bytes: u64,
    called: bool,
    order_began_at: Option<Duration>,
    asleep_looks: u32,
    /// Where it may run.
    pub(super) cores: Vec<usize>,
    /// The threads that have a core each.
    pub(super) seated: Vec<i32>,
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
            orders: 0,
            parked: true,
            slept_before: None,
            waiting: setup.waiting,
            permitted_threads: setup.threads,
            memory_bytes,
            called: false,
            order_began_at: None,
            asleep_looks: 0,
            cores: setup.cores.unwrap_or_default().to_vec(),
            seated: Vec::new(),
        };
        process.wait_until_ready()?;
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
        self.order(Order::Plan, 0, self.answer_limit()).map(|_| ())
    }

    /// Has the inputs filled from `seed` and the outputs poisoned. Only for processes without a candidate.
    pub fn prepare(&mut self, seed: u64) -> Result<(), Failure> {
        self.order(Order::Prepare, seed, START_LIMIT).map(|_| ())
    }

    /// Has all arrays taken out of all caches. Only for processes without a candidate.
    pub fn chill(&mut self) -> Result<(), Failure> {
        self.order(Order::Chill, 0, START_LIMIT).map(|_| ())
    }

    /// Wakes the harness and waits until it waits for a call.
    pub fn stand_by(&mut self) -> Result<(), Failure> {
        self.order(Order::StandBy, 0, self.answer_limit())
            .map(|_| ())
    }

    /// Has the harness answer an order that does nothing, and takes the time: the part of a call that is hand-shake, once it is
    /// awake.
    pub fn hand_shake(&mut self) -> Result<Duration, Failure> {
        self.order(Order::StandBy, 0, self.answer_limit())
    }

    /// Has the candidate called once, and takes the time. `limit` is processor time.
    pub fn call(&mut self, limit: Duration) -> Result<Duration, Failure> {
        self.called = true;
        self.order(Order::Call, 0, limit)
    }

    /// Sends the harness to sleep until its next order.
    pub fn park(&mut self) -> Result<(), Failure> {
        if !self.parked && self.waiting == Waiting::Spin {
            self.slept_before = None;
            self.order(Order::Park, 0, self.answer_limit())?;
        }
        self.parked = true;
        Ok(())
    }

    /// Like [`Process::park`], for who wants to know afterwards whether it has left its core ([`Process::has_left`]).
    pub fn park_for_long(&mut self) -> Result<(), Failure> {
        let awake = !self.parked && self.waiting == Waiting::Spin;
        let before = if awake {
            rest::times_asleep(self.pid())
        } else {
            self.slept_before
        };
        self.park()?;
        self.slept_before = before;
        Ok(())
    }

    /// Has its first thread left its core since [`Process::park_for_long`]? A thread says that it sleeps shortly before it does, and
    /// where the hypervisor takes the core away just then, what it used so far is booked milliseconds later. Who was sent to sleep
    /// without being counted is believed.
    pub(super) fn has_left(&self) -> bool {
        rest::went_to_sleep(self.slept_before, || rest::times_asleep(self.pid()))
    }

    /// Ends the process in an orderly way. A process that does not end is killed.
    pub fn exit(mut self) -> Result<(), Failure> {
        self.order(Order::Exit, 0, self.answer_limit()).map(|_| ())
    }

    /// Processor time the process has used so far, all its threads together. What a thread has used since it last got
    /// a processor is in it only once it has left that, or at the next tick.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        let pid = Pid::from_raw(self.child.pid());
        let spent = ClockId::pid_cpu_clock_id(pid).and_then(clock_gettime);
        match spent {
            Ok(spent) => Ok(Duration::from(spent)),
            Err(error) => Err(match self.finished()? {
                Some(finished) => self.died(&finished),
                None => Failure::infrastructure(
                    InfrastructureCause::Harness,
                    format!("the processor time of the harness cannot be read: {error}"),
                ),
            }),
        }
    }

    /// Its threads now; none once it is gone.
    pub(super) fn threads(&self) -> Option<Threads> {
        rest::threads(self.child.pid())
    }

    /// Its number, outside of its jail.
    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// Has its program been called?
    pub(super) fn was_called(&self) -> bool {
        self.called
    }

    /// May it have more threads than one?
    pub(super) fn may_have_threads(&self) -> bool {
        self.permitted_threads > 1
    }

    /// Does any of its threads run, or want to?
    pub(super) fn is_awake(&self) -> bool {
        self.threads().is_some_and(|threads| threads.awake > 0)
    }

    fn order(&mut self, order: Order, seed: u64, limit: Duration) -> Result<Duration, Failure> {
        self.order_began_at = None;
        self.asleep_looks = 0;
        let word = order.word(self.next_sequence());
        let block = self.control.mapping().control();
        let asleep = self.parked || self.waiting == Waiting::Sleep;
        // The candidate may have written something else there.
        block.set_waiting(self.waiting);
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

    /// Half of it counts and half of it is drawn, so that nobody can answer an order that has not been given yet.
    fn next_sequence(&mut self) -> u64 {
        self.orders = self.orders.wrapping_add(1);
        let drawn: u32 = rand::rng().random();
        (u64::from(drawn) << COUNT_BITS) | (u64::from(self.orders) & ((1 << COUNT_BITS) - 1))
    }

    /// How long an order may take that is no call.
    fn answer_limit(&self) -> Duration {
        if self.called {
            ANSWER_LIMIT
        } else {
            START_LIMIT
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
        // A candidate that told the harness to wait otherwise than this side does would leave it asleep.
        wake(self.control.mapping().control().order_word());
        if elapsed <= limit {
            // From the first look on, the processor time of this order counts.
            if self.order_began_at.is_none() {
                self.order_began_at = self.child.cpu_time();
            }
            return Ok(true);
        }
        // Waiting for a processor is nobody's slowness: on a busy machine a call may last longer, as
        // long as it has not had that much processor time, and does want it.
        let spent = self
            .child
            .cpu_time()
            .zip(self.order_began_at)
            .map_or(elapsed, |(now, then)| now.saturating_sub(then));
        if spent < limit && elapsed < limit * WALL_FACTOR && !self.fell_asleep() {
            return Ok(true);
        }
        self.child.kill();
        let seconds = limit.as_secs_f64();
        if order == Order::Call {
            Err(Failure::candidate(
                CandidateFault::Timeout,
                format!("a call did not return within {seconds:.1} s"),
            ))
        } else if self.called {
            Err(Failure::candidate(
                CandidateFault::Timeout,
                format!("after a call the process did not answer within {seconds:.1} s"),
            ))
        } else {
            Err(Failure::infrastructure(
                InfrastructureCause::Harness,
                format!("the harness did not answer {order:?} in time"),
            ))
        }
    }

    /// Has it been at rest for so long, with an order to answer, that it will go on sleeping?
    fn fell_asleep(&mut self) -> bool {
        if self.is_awake() {
            self.asleep_looks = 0;
        } else {
            self.asleep_looks += 1;
        }
        self.asleep_looks >= ASLEEP_LOOKS
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
