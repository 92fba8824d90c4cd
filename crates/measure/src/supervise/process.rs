//! One harness in its jail, and the hand-shake with it.

use std::io::Write;
use std::time::{Duration, Instant};

use flopsmith_harness::control::{CONTROL_BYTES, Status};
use flopsmith_harness::memory::{SharedMemory, sleep_on, wake};
use flopsmith_harness::{Order, Plan, Waiting};
use flopsmith_machine::pinning::{Turn, set_turn};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause};
use flopsmith_sandbox::{Child, Exit, Finished};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rand::Rng;

use super::ending;
use super::rest::{self, Threads};
use super::setup::{Setup, job};

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

/// An order that is on its way.
struct Given {
    order: Order,
    word: u64,
    start: Instant,
    /// Did the process sleep until then, where it should?
    slept: bool,
}

/// A call after another process had the core.
pub struct Passed {
    /// From the order to its answer.
    pub took: Duration,
    /// Did the process sleep until it was woken up for the call?
    pub slept: bool,
}

/// Which of two processes failed.
pub enum CallFailure {
    /// The one that was called.
    Called(Failure),
    /// The one that held the core before.
    Holder(Failure),
}

/// A harness process that takes orders.
pub struct Process {
    child: Child,
    control: SharedMemory,
    /// Keeps the object's file until the process is gone.
    _object: tempfile::NamedTempFile,
    /// Given so far.
    orders: u32,
    /// How often it had gone to sleep before its last call.
    slept_before: Option<u64>,
    /// How this side waits for answers.
    waiting: Waiting,
    /// Does the harness spin until its next order, once it has been woken up?
    spins: bool,
    asleep: bool,
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
            slept_before: None,
            waiting: setup.waiting,
            spins: false,
            asleep: true,
            permitted_threads: setup.threads,
            memory_bytes,
            called: false,
            order_began_at: None,
            asleep_looks: 0,
            cores: setup.cores.unwrap_or_default().to_vec(),
            seated: Vec::new(),
        };
        process.wait_until_ready()?;
        // Whether it takes the core from the filler or waits until that has left is a matter of what both used before, and of
        // several microseconds where a hypervisor carries the interrupt from core to core.
        set_turn(process.pid(), Turn::Waits);
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
                    return Err(ending::not_loaded(&block.message(), self.memory_bytes));
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

    /// Has the harness spin between orders from now on, until it is told to park. Only for processes without a candidate.
    pub fn spin(&mut self) {
        self.spins = true;
        set_turn(self.pid(), Turn::Takes);
    }

    /// An order to do nothing: what it takes is what any order costs.
    pub fn stand_by(&mut self) -> Result<Duration, Failure> {
        self.order(Order::StandBy, 0, self.answer_limit())
    }

    /// Has the candidate called once, and takes the time. `limit` is processor time.
    pub fn call(&mut self, limit: Duration) -> Result<Duration, Failure> {
        self.called = true;
        self.order(Order::Call, 0, limit)
    }

    /// Has the candidate called, or with `empty` nothing done, as soon as `holder` has left the core, a process that spins there:
    /// it is told to go to sleep once this one has been woken up, so that the core is never idle between them. How long that took.
    pub fn call_after(
        &mut self,
        holder: &mut Process,
        empty: bool,
        limit: Duration,
    ) -> Result<Passed, CallFailure> {
        let order = if empty { Order::StandBy } else { Order::Call };
        self.called |= !empty;
        let given = self.give(order, 0);
        let slept = given.slept;
        let left = (!holder.asleep).then(|| holder.give(Order::Park, 0));
        let took = self.answer(given, limit).map_err(CallFailure::Called)?;
        if let Some(left) = left {
            let limit = holder.answer_limit();
            holder.answer(left, limit).map_err(CallFailure::Holder)?;
        }
        Ok(Passed { took, slept })
    }

    /// Sends a harness that spins to sleep until its next order; any other one sleeps anyway.
    pub fn park(&mut self) -> Result<(), Failure> {
        if self.asleep {
            return Ok(());
        }
        self.order(Order::Park, 0, self.answer_limit())?;
        Ok(())
    }

    /// Counts how often its first thread has gone to sleep so far, for [`Process::has_left`] after the next call.
    pub fn before_last_call(&mut self) {
        self.slept_before = rest::times_asleep(self.pid());
    }

    /// Has its first thread left its core since [`Process::before_last_call`]? A thread says that it sleeps shortly before it does,
    /// and where the hypervisor takes the core away just then, what it used so far is booked milliseconds later. A process that
    /// was not counted is believed.
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

    /// How long its first thread has waited for a core so far; none where the kernel does not say.
    pub(super) fn queued(&self) -> Option<Duration> {
        rest::queued(self.pid())
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
        let given = self.give(order, seed);
        self.answer(given, limit)
    }

    /// Gives an order without waiting for the answer.
    fn give(&mut self, order: Order, seed: u64) -> Given {
        self.order_began_at = None;
        self.asleep_looks = 0;
        let word = order.word(self.next_sequence());
        let block = self.control.mapping().control();
        if self.spins {
            block.set_waiting(Waiting::Spin);
        }
        let start = Instant::now();
        block.give(word, seed);
        let slept = (!self.asleep && self.spins) || wake(block.order_word());
        self.asleep = !self.spins || order == Order::Park;
        Given {
            order,
            word,
            start,
            slept,
        }
    }

    /// Waits until an order is answered; how long that took.
    fn answer(&mut self, given: Given, limit: Duration) -> Result<Duration, Failure> {
        let Given {
            order, word, start, ..
        } = given;
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
