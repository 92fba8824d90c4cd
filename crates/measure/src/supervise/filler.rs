//! Who makes the inputs of timed calls: a process of ours, on the core of the call.
//!
//! Made by the candidate's own process, inputs would be there before the clock
//! starts, and a candidate that had taken over its process could begin to work.
//! Made by the supervisor on its core, they would lie in the wrong caches. So a
//! harness with one of the problem's own programs in it makes them where the
//! call will find them, while the process that is called sleeps.
//!
//! From the first byte of the inputs on, every nanosecond that the called
//! process executes counts ([`Called`]). The clock starts while the filler
//! still holds the core: with one core the called process is not running then,
//! so the kernel has booked all that it used before, and what it uses later is
//! on the clock. Then it is woken up, and waits for its turn; then the filler is
//! told to sleep. So the core passes from one to the other without an interrupt
//! from another core and without a pause, which take longer than many a call.
//! A process that need not be woken up waits for the core already, or has it:
//! all the time in which its inputs were made counts then. Only where
//! supervisor, filler and called process share the one core that they may use is
//! processor time exact whatever the called process does, and honest processes
//! may be taken off the core before they sleep, so there it alone counts.
//! Orders to do nothing ([`Filler::empty_call`]) measure the least length of
//! this, which is taken off again.

use std::time::{Duration, Instant};

use flopsmith_harness::{Plan, Waiting};
use flopsmith_machine::pinning::{allowed_cores, pin_thread};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::process::{CallFailure, Passed, Process};

/// A trusted process that does nothing has done so by then, on the busiest machine.
const EMPTY_LIMIT: Duration = Duration::from_secs(10);

/// One call, from the order to make its inputs to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Called {
    /// From the start of the clock to the end of the call.
    pub clocked: Duration,
    /// Processor time that the called process used between the order to make the inputs and the start of the clock, or all of that time
    /// where it did not sleep when the clock started and does not share its only core with the supervisor. An honest one sleeps.
    pub ran: Duration,
    /// Time in which it waited for the core between the order to make the inputs and the end of the call. An honest one does so
    /// while the filler leaves, and where others use the core.
    pub queued: Duration,
}

/// Is there one core for the supervisor and the called process? Whatever that one executed is booked then: the supervisor looks while it
/// has the core itself.
fn share_their_only_core(called: &Process) -> bool {
    called.cores.len() == 1 && called.cores == allowed_cores()
}

/// What is known of the called process at the start of the clock.
#[derive(Debug, Clone, Copy)]
struct BeforeClock {
    /// Processor time that the kernel has booked for it since the order to make the inputs.
    booked: Duration,
    /// One of its threads was awake. Threads on other cores have been booked by the last tick only.
    awake: bool,
    /// It had to be woken up for its call.
    slept: bool,
    /// What it executed on the core of the supervisor is booked in any case.
    share_their_only_core: bool,
}

impl BeforeClock {
    /// How much of the time in which its inputs were `made` counts as its own. A process that is awake already has the core sooner
    /// than one that sleeps, and without a supervisor on the filler's core it may have had it since the inputs were complete.
    fn charged(self, made: Duration) -> Duration {
        if self.awake || (!self.slept && !self.share_their_only_core) {
            return self.booked.max(made);
        }
        self.booked
    }
}

/// A process that makes inputs.
pub struct Filler {
    process: Process,
    waiting: Waiting,
}

impl Filler {
    /// `process` has a trusted program in it and is parked; `plan` says what it fills.
    pub fn new(mut process: Process, waiting: Waiting, plan: &Plan) -> Result<Self, Failure> {
        if waiting == Waiting::Spin {
            process.spin();
            // The core of the first thread of the others.
            if let Some(&core) = process.cores.first() {
                pin_thread(process.pid(), core).map_err(|e| {
                    let what = format!("the process that makes the inputs cannot be pinned: {e}");
                    Failure::infrastructure(InfrastructureCause::Resources, what)
                })?;
            }
        }
        process.plan(plan).map_err(own)?;
        process.park().map_err(own)?;
        Ok(Self { process, waiting })
    }

    /// Sends it to sleep, wherever it was interrupted.
    pub fn park(&mut self) -> Result<(), Failure> {
        self.process.park().map_err(own)
    }

    /// Makes the inputs of `seed` and has `called`, which is at rest, called with them. `cold` leaves nothing of them in a
    /// cache; `limit` is processor time. An error of the process that is called is its own; what fails here is the
    /// infrastructure's.
    pub fn call(
        &mut self,
        called: &mut Process,
        seed: u64,
        cold: bool,
        limit: Duration,
    ) -> Result<Called, Failure> {
        // The kernel has booked what a process used once another one has its core, and not before: so the first look
        // is taken when this one has woken up, and before it knows the seed.
        self.process.stand_by().map_err(own)?;
        let before = called.cpu_time()?;
        let queued_before = self.queued(called);
        let start = Instant::now();
        self.process.prepare(seed).map_err(own)?;
        if cold {
            self.process.chill().map_err(own)?;
        }
        let awake = called.may_have_threads() && called.is_awake();
        let clock = Instant::now();
        let booked = called.cpu_time()?.saturating_sub(before);
        let lead = clock.elapsed();
        let passed = self.hand_over(called, false, limit)?;
        let before_clock = BeforeClock {
            booked,
            awake,
            slept: passed.slept,
            share_their_only_core: share_their_only_core(called),
        };
        Ok(Called {
            clocked: lead + passed.took,
            ran: before_clock.charged(clock - start),
            queued: since(queued_before, self.queued(called)),
        })
    }

    /// The clock's reading for a call that does nothing, after inputs were made as for any other one. `called` has a trusted
    /// program in it.
    pub fn empty_call(&mut self, called: &mut Process, seed: u64) -> Result<Duration, Failure> {
        self.process.stand_by().map_err(own)?;
        self.process.prepare(seed).map_err(own)?;
        let clock = Instant::now();
        called.cpu_time()?;
        let lead = clock.elapsed();
        Ok(lead + self.hand_over(called, true, EMPTY_LIMIT)?.took)
    }

    /// Leaves the core to a process that is called, or with `empty` told to do nothing. How long that takes.
    fn hand_over(
        &mut self,
        called: &mut Process,
        empty: bool,
        limit: Duration,
    ) -> Result<Passed, Failure> {
        let took = called.call_after(&mut self.process, empty, limit);
        took.map_err(|failure| match failure {
            CallFailure::Called(failure) => failure,
            CallFailure::Holder(failure) => own(failure),
        })
    }

    /// Is the wait of both sides for each other short enough to be taken off all times? Where both sleep it is not, and stays
    /// part of every call.
    pub fn spins(&self) -> bool {
        self.waiting == Waiting::Spin
    }

    /// Processor time its process has used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        self.process.cpu_time().map_err(own)
    }

    /// How long a process has waited for its core so far; none where that may be for other reasons than that it does not sleep.
    fn queued(&self, called: &Process) -> Option<Duration> {
        match self.waiting {
            Waiting::Spin => called.queued(),
            Waiting::Sleep => None,
        }
    }
}

/// What two readings of a clock are apart; nothing where one is missing.
fn since(before: Option<Duration>, now: Option<Duration>) -> Duration {
    match (before, now) {
        (Some(before), Some(now)) => now.saturating_sub(before),
        _ => Duration::ZERO,
    }
}

/// There is nothing of the candidate in this process.
fn own(failure: Failure) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Baseline,
        format!("the process that makes the inputs failed: {failure}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_need_not_be_woken_up_is_charged_the_time_of_its_inputs() {
        let (booked, made) = (Duration::from_micros(3), Duration::from_micros(40));
        for (awake, slept, share_their_only_core, charged) in [
            (false, true, false, booked),
            (false, true, true, booked),
            (false, false, false, made),
            (false, false, true, booked),
            (true, true, false, made),
            (true, false, true, made),
        ] {
            let before = BeforeClock {
                booked,
                awake,
                slept,
                share_their_only_core,
            };
            assert_eq!(before.charged(made), charged, "{before:?}");
        }
        // Of several threads the sum is booked.
        let busy = BeforeClock {
            booked: made * 2,
            awake: true,
            slept: false,
            share_their_only_core: false,
        };
        assert_eq!(busy.charged(made), made * 2);
    }
}
