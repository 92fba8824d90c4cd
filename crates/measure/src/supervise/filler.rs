//! The filler: a process of ours that makes the inputs of timed calls, on the core of the call.
//!
//! If the candidate's own process made the inputs, they would exist before the clock starts, and a candidate that had
//! taken over its process could begin to work. If the supervisor made the inputs on its core, they would lie in the
//! wrong caches. A harness that runs one of the problem's own programs therefore makes them where the call will find
//! them, while the called process sleeps.
//!
//! From the first byte of the inputs on, every nanosecond that the called process executes counts ([`Called`],
//! [`Filler::used_since`]). The clock starts while the filler still holds the core. With one core the called process is not running then: the kernel
//! has booked all the time that the process used before, and any time that it uses later is on the clock. The
//! supervisor then wakes the called process, which waits for its turn, and tells the filler to sleep. The core thus
//! passes from the filler to the called process without an interrupt from another core and without a pause, either of
//! which takes longer than many a call. If the called process need not be woken up, it waits for the core already or
//! has it: all the time in which its inputs were made then counts. There is one exception: if supervisor, filler and
//! called process share the one core that they may use, processor time is exact for any behaviour of the called
//! process, and honest processes may be taken off that core before they sleep. In that case processor time alone
//! counts, also for a process that need not be woken up. Orders to do nothing ([`Filler::empty_call`]) measure the
//! least duration of this hand-over, which is subtracted from the times.

use std::time::{Duration, Instant};

use flopsmith_harness::{Plan, Waiting};
use flopsmith_machine::pinning::{allowed_cores, pin_thread};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::process::{CallFailure, Passed, Process};

/// A trusted process answers an order to do nothing within this time, even on the busiest machine.
const EMPTY_LIMIT: Duration = Duration::from_secs(10);

/// One call, from the order to make its inputs to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Called {
    /// From the start of the clock to the end of the call.
    pub clocked: Duration,
    /// Processor time that the called process used between the order to make the inputs and the start of the clock. It
    /// is all of that period if the process did not sleep when the clock started and does not share its only core with
    /// the supervisor. An honest process sleeps.
    pub ran: Duration,
    /// True if the process had not to be woken up, so the clock has no hand-shake; false if it shares its only core with the
    /// supervisor, since other processes may keep an honest program from going to sleep there.
    pub not_woken: bool,
    /// Time in which the called process waited for the core between the order to make the inputs and the end of the
    /// call. An honest process waits while the filler leaves, and while other processes use the core.
    pub queued: Duration,
    /// Processor time of the called process when the clock started.
    pub used_before: Duration,
}

/// True if supervisor and called process have only one core, the same one. The kernel has then booked everything that
/// the called process executed, since the supervisor holds the core itself while it reads the clock.
fn share_their_only_core(called: &Process) -> bool {
    called.cores.len() == 1 && called.cores == allowed_cores()
}

/// State of the called process at the start of the clock.
#[derive(Debug, Clone, Copy)]
struct BeforeClock {
    /// Processor time that the kernel has booked for the process since the order to make the inputs.
    booked: Duration,
    /// True if one of its threads was awake. For threads on other cores the kernel has booked time only up to the last
    /// tick.
    awake: bool,
    /// True if the process had to be woken up for its call.
    slept: bool,
    /// True if the kernel has booked in any case the time that the process executed on the supervisor's core.
    share_their_only_core: bool,
}

impl BeforeClock {
    /// How much of `made`, the time in which its inputs were made, counts as the process's own time. A process that is
    /// awake already gets the core sooner than one that sleeps, and without a supervisor on the filler's core it may
    /// have had the core since the inputs were complete.
    fn charged(self, made: Duration) -> Duration {
        if self.awake || self.not_woken() {
            return self.booked.max(made);
        }
        self.booked
    }

    fn not_woken(self) -> bool {
        !self.slept && !self.share_their_only_core
    }
}

/// The supervisor's tasks at certain moments of a call.
pub trait Observer {
    /// Runs while the filler makes the inputs.
    fn filling(&mut self);
    /// Runs at the answer: a called process that goes on afterwards has no time to change what this reads.
    fn answered(&mut self);
}

/// A process that makes inputs.
pub struct Filler {
    process: Process,
    waiting: Waiting,
}

impl Filler {
    /// `process` runs a trusted program and is parked; `plan` says what it fills.
    pub fn new(mut process: Process, waiting: Waiting, plan: &Plan) -> Result<Self, Failure> {
        if waiting == Waiting::Spin {
            process.spin();
            // The core of the first thread of the called processes.
            if let Some(&core) = process.cores.first() {
                pin_thread(process.pid(), core).map_err(|e| {
                    let what = format!("cannot pin the process that makes the inputs: {e}");
                    Failure::infrastructure(InfrastructureCause::Resources, what)
                })?;
            }
        }
        process.plan(plan).map_err(own)?;
        process.park().map_err(own)?;
        Ok(Self { process, waiting })
    }

    /// Sends the filler to sleep, at whatever point it was interrupted.
    pub fn park(&mut self) -> Result<(), Failure> {
        self.process.park().map_err(own)
    }

    /// Makes the inputs of `seed` and has `called`, which is at rest, called with them. `cold` removes the inputs from
    /// all caches; `limit` is processor time. An error of the called process is its own; other errors are infrastructure
    /// failures.
    pub fn call(
        &mut self,
        called: &mut Process,
        seed: u64,
        cold: bool,
        limit: Duration,
        observer: &mut dyn Observer,
    ) -> Result<Called, Failure> {
        // The kernel books the time of a process once another process has its core, and not before. The first reading
        // is therefore taken after the filler has woken up, and before the filler knows the seed.
        self.process.stand_by().map_err(own)?;
        let before = called.cpu_time()?;
        let queued_before = self.queued(called);
        let start = Instant::now();
        let prepared = self.process.prepare_while(seed, || observer.filling());
        prepared.map_err(own)?;
        if cold {
            self.process.chill().map_err(own)?;
        }
        let awake = called.may_have_threads() && called.is_awake();
        let clock = Instant::now();
        let used_before = called.cpu_time()?;
        let booked = used_before.saturating_sub(before);
        let lead = clock.elapsed();
        let passed = self.hand_over(called, false, limit, &mut || observer.answered())?;
        let before_clock = BeforeClock {
            booked,
            awake,
            slept: passed.slept,
            share_their_only_core: share_their_only_core(called),
        };
        Ok(Called {
            clocked: lead + passed.took,
            ran: before_clock.charged(clock - start),
            not_woken: before_clock.not_woken(),
            queued: since(queued_before, self.queued(called)),
            used_before,
        })
    }

    /// Has `called`, which is at rest, called with inputs that the supervisor has made, in the same way as with inputs that
    /// the filler makes: they come into the caches of the core of the call first. The call is not timed.
    pub fn call_with_given(
        &mut self,
        called: &mut Process,
        cold: bool,
        limit: Duration,
    ) -> Result<(), Failure> {
        self.process.fetch().map_err(own)?;
        if cold {
            self.process.chill().map_err(own)?;
        }
        self.hand_over(called, false, limit, &mut || {}).map(|_| ())
    }

    /// A call that does nothing, after inputs were made as for any other call. `called` runs a trusted program.
    pub fn empty_call(&mut self, called: &mut Process, seed: u64) -> Result<Called, Failure> {
        self.process.stand_by().map_err(own)?;
        self.process.prepare(seed).map_err(own)?;
        let clock = Instant::now();
        let used_before = called.cpu_time()?;
        let lead = clock.elapsed();
        let passed = self.hand_over(called, true, EMPTY_LIMIT, &mut || {})?;
        Ok(Called {
            clocked: lead + passed.took,
            used_before,
            ..Called::default()
        })
    }

    /// Processor time that `called` has used since the clock of its last call started, up to the moment at which it left
    /// the core. None if it may have several threads: they may wait awake for a while after a call.
    ///
    /// A process may answer before it has done its work. The supervisor cannot see when it stops, but the filler, which
    /// gets the core then, makes the kernel book all that the process executed. The filler stays awake for the next call;
    /// [`Filler::park`] sends it to sleep.
    pub fn used_since(
        &mut self,
        called: &mut Process,
        call: &Called,
    ) -> Result<Option<Duration>, Failure> {
        if called.may_have_threads() {
            return Ok(None);
        }
        self.process.stand_by().map_err(own)?;
        Ok(Some(called.cpu_time()?.saturating_sub(call.used_before)))
    }

    /// Leaves the core to `called`, which calls its program or, with `empty`, does nothing. Returns how long that
    /// takes.
    fn hand_over(
        &mut self,
        called: &mut Process,
        empty: bool,
        limit: Duration,
        answered: &mut dyn FnMut(),
    ) -> Result<Passed, Failure> {
        let took = called.call_after(&mut self.process, empty, limit, answered);
        took.map_err(|failure| match failure {
            CallFailure::Called(failure) => failure,
            CallFailure::Holder(failure) => own(failure),
        })
    }

    /// True if the wait of both sides for each other is short enough to be subtracted from all times. If both sides
    /// sleep it is not, and stays part of every call.
    pub fn spins(&self) -> bool {
        self.waiting == Waiting::Spin
    }

    /// Processor time the filler's process has used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        self.process.cpu_time().map_err(own)
    }

    /// How long a process has waited for its core so far; none if the wait may have other reasons than a process that
    /// does not sleep.
    fn queued(&self, called: &Process) -> Option<Duration> {
        match self.waiting {
            Waiting::Spin => called.queued(),
            Waiting::Sleep => None,
        }
    }
}

/// The time between two readings of a clock; zero if one is missing.
fn since(before: Option<Duration>, now: Option<Duration>) -> Duration {
    match (before, now) {
        (Some(before), Some(now)) => now.saturating_sub(before),
        _ => Duration::ZERO,
    }
}

/// An infrastructure failure: no code of the candidate runs in this process.
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
    fn awake_processes_are_charged_the_time_of_their_inputs() {
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
            assert_eq!(
                before.not_woken(),
                !slept && !share_their_only_core,
                "{before:?}"
            );
        }
        // With several threads the sum of their times is booked.
        let busy = BeforeClock {
            booked: made * 2,
            awake: true,
            slept: false,
            share_their_only_core: false,
        };
        assert_eq!(busy.charged(made), made * 2);
    }
}
