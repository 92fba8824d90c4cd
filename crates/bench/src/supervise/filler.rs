//! Who makes the inputs of timed calls: a process of ours, on the core of the call.
//!
//! Made by the candidate's own process, inputs would be there before the clock
//! starts, and a candidate that had taken over its process could begin to work.
//! Made by the supervisor on its core, they would lie in the wrong caches. So a
//! harness with one of the problem's own programs in it makes them where the
//! call will find them, and the process that is called sleeps meanwhile. What
//! it does between then and the call is measured ([`Between`]).

use std::time::{Duration, Instant};

use flopsmith_harness::{Plan, Waiting};
use flopsmith_protocol::InfrastructureCause;

use super::process::Process;
use crate::Failure;

/// What a process did from the moment when its inputs were begun with to its call. Nothing, if it is honest, but for waking up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Between {
    /// Processor time that it used while it had to sleep.
    pub ran: Duration,
    /// From the order to wake up until it stood ready; zero where waking up is part of the call.
    pub stood_by: Duration,
}

/// A process that makes inputs.
pub struct Filler {
    process: Process,
    waiting: Waiting,
}

impl Filler {
    /// `process` has a trusted program in it and is parked; `plan` says what it fills.
    pub fn new(mut process: Process, waiting: Waiting, plan: &Plan) -> Result<Self, Failure> {
        process.plan(plan).map_err(own)?;
        process.park().map_err(own)?;
        Ok(Self { process, waiting })
    }

    /// Sends it to sleep, wherever it was interrupted.
    pub fn park(&mut self) -> Result<(), Failure> {
        self.process.park().map_err(own)
    }

    /// Makes the inputs of `seed` for the next call of `called`, which is at rest, and has it stand by for that call.
    /// `cold` leaves nothing of them in a cache.
    pub fn fill(
        &mut self,
        called: &mut Process,
        seed: u64,
        cold: bool,
    ) -> Result<Between, Failure> {
        // The kernel has booked what a process used once another one has its core, and not before: so the first look
        // is taken when this one has woken up, and before it knows the seed.
        self.process.stand_by().map_err(own)?;
        let before = called.cpu_time()?;
        let start = Instant::now();
        self.process.prepare(seed).map_err(own)?;
        if cold {
            self.process.chill().map_err(own)?;
        }
        self.process.park().map_err(own)?;
        let ready = Instant::now();
        let mut ran = called.cpu_time()?.saturating_sub(before);
        // Threads on other cores have been booked by the last tick only.
        if called.may_have_threads() && called.is_awake() {
            ran = ran.max(ready - start);
        }
        self.ready(called)?;
        let stood_by = match self.waiting {
            Waiting::Spin => ready.elapsed(),
            Waiting::Sleep => Duration::ZERO,
        };
        Ok(Between { ran, stood_by })
    }

    /// Has a process that is at rest stand by for a call, as after [`Filler::fill`], where somebody else has filled its inputs.
    pub fn ready(&self, called: &mut Process) -> Result<(), Failure> {
        match self.waiting {
            Waiting::Spin => called.stand_by(),
            Waiting::Sleep => Ok(()),
        }
    }

    /// Processor time its process has used so far.
    pub fn cpu_time(&mut self) -> Result<Duration, Failure> {
        self.process.cpu_time().map_err(own)
    }
}

/// There is nothing of the candidate in this process.
fn own(failure: Failure) -> Failure {
    Failure::infrastructure(
        InfrastructureCause::Baseline,
        format!("the process that makes the inputs failed: {failure}"),
    )
}
