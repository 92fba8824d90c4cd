//! One harness in its jail, and the hand-shake with it.

use std::io::Write;
use std::time::{Duration, Instant};

use flopsmith_harness::control::{CONTROL_BYTES, Status};
use flopsmith_harness::memory::{SharedMemory, sleep_on, wake};
use flopsmith_harness::{Order, Plan, Scalars, Waiting};
use flopsmith_machine::counters::Counters;
use flopsmith_machine::pinning::{Turn, set_turn};
use flopsmith_protocol::{CandidateFault, Failure, InfrastructureCause};
use flopsmith_sandbox::{Child, Exit, Finished};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use rand::Rng;

use super::ending;
use super::rest::{self, Threads};
use super::setup::{Setup, job};

/// A harness that is not ready within this time never will be.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Once a candidate has been called, the harness answers every order but a call within microseconds, unless the
/// candidate keeps it from answering.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// Bits of an order's number that count. They lie in the half of the word on which the other side sleeps.
const COUNT_BITS: u32 = 24;
/// Interval at which a waiting supervisor checks whether the other side is still alive.
const LIFE_CHECK: Duration = Duration::from_millis(2);
/// If a call does not get the processor, it may last this many times its limit.
const WALL_FACTOR: u32 = 8;
/// Number of looks in a row at which no thread of the process runs or wants to, after which a late answer will never
/// come.
const ASLEEP_LOOKS: u32 = 50;

/// An order that has no answer yet.
struct Given {
    order: Order,
    word: u64,
    start: Instant,
    /// True if the process slept until then, where it should.
    slept: bool,
}

/// A call after another process had the core.
pub struct Passed {
    /// From the order to its answer.
    pub took: Duration,
    /// True if the process slept until it was woken up for the call.
    pub slept: bool,
}

/// A failure of one of two processes.
pub enum CallFailure {
    /// The one that was called.
    Called(Failure),
    /// The one that held the core before the call.
    Holder(Failure),
}

/// A harness process that takes orders.
pub struct Process {
    child: Child,
    control: SharedMemory,
    /// Keeps the object's file until the process has ended.
    _object: tempfile::NamedTempFile,
    /// Number of orders given so far.
    orders: u32,
    /// How often the first thread had gone to sleep before the last call.
    slept_before: Option<u64>,
    /// How this side waits for answers.
    waiting: Waiting,
    /// True if the harness spins until its next order, once it has been woken up.
    spins: bool,
    asleep: bool,
    /// The scalars of the calls to come, if the entry has any.
    scalars: Option<Scalars>,
    permitted_threads: u32,
    memory_bytes: u64,
    called: bool,
    order_began_at: Option<Duration>,
    asleep_looks: u32,
    /// The cores that the process may run on.
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
            .map_err(|e| resources("cannot create a temporary file for the object", &e))?;
        file.write_all(object)
            .map_err(|e| resources("cannot write the object", &e))?;
        let control = SharedMemory::create("flopsmith-control", CONTROL_BYTES)
            .map_err(|e| resources("cannot create shared memory", &e))?;
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
            scalars: None,
            permitted_threads: setup.threads,
            memory_bytes,
            called: false,
            order_began_at: None,
            asleep_looks: 0,
            cores: setup.cores.unwrap_or_default().to_vec(),
            seated: Vec::new(),
        };
        process.wait_until_ready()?;
        // The process waits until the filler has left the core. Otherwise the scheduler would let it take the core or
        // wait, depending on the time that both used before. The difference is several microseconds where a hypervisor
        // carries the interrupt from core to core.
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

    /// Passes the arguments of the calls to come to the harness.
    pub fn plan(&mut self, plan: &Plan) -> Result<(), Failure> {
        self.control.mapping().control().set_plan(plan);
        // Calls with these arguments have the scalars of the plan, unless they are told others.
        self.scalars = None;
        self.order(Order::Plan, 0, self.answer_limit()).map(|_| ())
    }

    /// Sets the scalars of the calls to come. The process learns them with the order of a call, and not before.
    pub fn set_scalars(&mut self, scalars: Option<Scalars>) {
        self.scalars = scalars;
    }

    /// Fills the inputs from `seed` and poisons the outputs. Only for processes without a candidate.
    pub fn prepare(&mut self, seed: u64) -> Result<(), Failure> {
        self.prepare_while(seed, || ())
    }

    /// The same, while `meanwhile` runs on the supervisor's core.
    pub fn prepare_while(&mut self, seed: u64, meanwhile: impl FnOnce()) -> Result<(), Failure> {
        let given = self.give(Order::Prepare, seed);
        meanwhile();
        self.answer(given, START_LIMIT).map(|_| ())
    }

    /// Flushes all arrays from all caches. Only for processes without a candidate.
    pub fn chill(&mut self) -> Result<(), Failure> {
        self.order(Order::Chill, 0, START_LIMIT).map(|_| ())
    }

    /// Makes the harness spin between orders from now on, until it is told to park. Only for processes without a
    /// candidate.
    pub fn spin(&mut self) {
        self.spins = true;
        set_turn(self.pid(), Turn::Takes);
    }

    /// Gives an order to do nothing; the time it takes is the cost of any order.
    pub fn stand_by(&mut self) -> Result<Duration, Failure> {
        self.order(Order::StandBy, 0, self.answer_limit())
    }

    /// Takes all arrays into the caches of the core on which the process runs. Only for processes without a candidate.
    pub fn fetch(&mut self) -> Result<(), Failure> {
        self.order(Order::Fetch, 0, START_LIMIT).map(|_| ())
    }

    /// Calls the candidate once and times the call. `limit` is processor time. As before each timed call, the threads of a
    /// team have a core each: a program can ask how many cores its thread may use.
    pub fn call(&mut self, limit: Duration) -> Result<Duration, Failure> {
        self.seat(false)?;
        self.called = true;
        self.order(Order::Call, 0, limit)
    }

    /// Calls the candidate, or with `empty` does nothing, as soon as `holder`, a process that spins on the core, has
    /// left it. `holder` is told to go to sleep once this process has been woken up, so that the core is never idle
    /// between them. `answered` runs at the answer, before anything else. Returns how long the call took.
    pub fn call_after(
        &mut self,
        holder: &mut Process,
        empty: bool,
        limit: Duration,
        answered: &mut dyn FnMut(),
    ) -> Result<Passed, CallFailure> {
        let order = if empty { Order::StandBy } else { Order::Call };
        self.called |= !empty;
        let given = self.give(order, 0);
        let slept = given.slept;
        let left = (!holder.asleep).then(|| holder.give(Order::Park, 0));
        let took = self.answer(given, limit).map_err(CallFailure::Called)?;
        answered();
        if let Some(left) = left {
            let limit = holder.answer_limit();
            holder.answer(left, limit).map_err(CallFailure::Holder)?;
        }
        Ok(Passed { took, slept })
    }

    /// Sends a harness that spins to sleep until its next order; any other harness sleeps anyway.
    pub fn park(&mut self) -> Result<(), Failure> {
        if self.asleep {
            return Ok(());
        }
        self.order(Order::Park, 0, self.answer_limit())?;
        Ok(())
    }

    /// Counts how often the first thread has gone to sleep so far, for [`Process::has_left`] after the next call.
    pub fn before_last_call(&mut self) {
        self.slept_before = rest::times_asleep(self.pid());
    }

    /// True if the first thread has left its core since [`Process::before_last_call`]. A thread reports that it sleeps
    /// shortly before it does. If the hypervisor takes the core away at that moment, the kernel books the thread's time
    /// milliseconds later. A process that was not counted is believed.
    pub(super) fn has_left(&self) -> bool {
        rest::went_to_sleep(self.slept_before, || rest::times_asleep(self.pid()))
    }

    /// Ends the process in an orderly way. A process that does not end is killed.
    pub fn exit(mut self) -> Result<(), Failure> {
        self.order(Order::Exit, 0, self.answer_limit()).map(|_| ())
    }

    /// Processor time the process has used so far, all its threads together. The time since a thread last got a
    /// processor is included only once the thread has left that processor, or at the next tick.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        let pid = Pid::from_raw(self.child.pid());
        let spent = ClockId::pid_cpu_clock_id(pid).and_then(clock_gettime);
        match spent {
            Ok(spent) => Ok(Duration::from(spent)),
            Err(error) => Err(match self.finished()? {
                Some(finished) => self.died(&finished),
                None => Failure::infrastructure(
                    InfrastructureCause::Harness,
                    format!("cannot read the processor time of the harness: {error}"),
                ),
            }),
        }
    }

    /// Hardware counters of the process, and of the threads that it makes from now on.
    ///
    /// # Errors
    /// A sentence on what keeps all of them from being opened, and what would permit them.
    pub fn counters(&self) -> Result<Counters, String> {
        Counters::of(self.pid())
    }

    /// How long the first thread has waited for a core so far; none if the kernel does not say.
    pub(super) fn queued(&self) -> Option<Duration> {
        rest::queued(self.pid())
    }

    /// The threads of the process now; none once the process is gone.
    pub(super) fn threads(&self) -> Option<Threads> {
        rest::threads(self.child.pid())
    }

    /// The process id, outside of the jail.
    pub(super) fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// True if the candidate of this process has been called.
    pub(super) fn was_called(&self) -> bool {
        self.called
    }

    /// True if the process may have more than one thread.
    pub(super) fn may_have_threads(&self) -> bool {
        self.permitted_threads > 1
    }

    /// True if any thread of the process runs, or wants to.
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
        if let (Order::Call, Some(scalars)) = (order, &self.scalars) {
            block.set_scalars(scalars);
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

    /// Waits until an order is answered and returns how long that took.
    fn answer(&mut self, given: Given, limit: Duration) -> Result<Duration, Failure> {
        let Given {
            order, word, start, ..
        } = given;
        match self.waiting {
            Waiting::Spin => self.spin_for(word, start, limit, order),
            Waiting::Sleep => self.sleep_for(word, start, limit, order),
        }
    }

    /// The next number of an order. Half of it counts and half of it is drawn at random, so that no process can answer
    /// an order that has not been given yet.
    fn next_sequence(&mut self) -> u64 {
        self.orders = self.orders.wrapping_add(1);
        let drawn: u32 = rand::rng().random();
        (u64::from(drawn) << COUNT_BITS) | (u64::from(self.orders) & ((1 << COUNT_BITS) - 1))
    }

    /// The time limit of an order other than a call.
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

    /// Checks on a process that has not answered yet. False if the process has ended as it was told to.
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
        // A candidate that told the harness to wait in another way than this side does would leave the harness asleep.
        wake(self.control.mapping().control().order_word());
        if elapsed <= limit {
            // The processor time of this order counts from the first check on.
            if self.order_began_at.is_none() {
                self.order_began_at = self.child.cpu_time();
            }
            return Ok(true);
        }
        // A process that waits for a processor is not slow: on a busy machine a call may last longer, as long as the
        // process has not had that much processor time, and does want it.
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

    /// True if the process, with an order to answer, has been at rest for so long that it will go on sleeping.
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
