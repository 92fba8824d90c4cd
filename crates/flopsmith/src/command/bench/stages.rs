//! What every program goes through: one verifier, and one timer for each number of threads, shared by all.

use std::sync::Arc;

use anyhow::Result;
use flopsmith_bench::{Purpose, Timer, Verifier};
use flopsmith_sandbox::Sandbox;

use super::Order;
use super::inputs::Program;
use super::ratio::LogRatio;
use super::rows::{Machine, Row};
use crate::evaluator::Evaluator;

/// The stages of this machine.
pub struct Stages {
    evaluator: Evaluator,
    verifier: Verifier,
    clocks: Vec<Clock>,
    purpose: Purpose,
}

/// The timer of one number of threads.
struct Clock {
    threads: u32,
    timer: Timer,
    machine: Arc<Machine>,
}

/// What a program came to.
pub struct Measured {
    /// A row for each number of threads.
    pub rows: Vec<Row>,
    /// Its shared object, if there is one.
    pub object: Option<Vec<u8>>,
}

impl Stages {
    /// Finds compiler and jail, runs the reference, and measures what programs are held against.
    pub fn new(order: &Order) -> Result<Self> {
        let evaluator = Evaluator::new(
            Arc::clone(&order.problem),
            order.compiler,
            order.allow_weaker_jail,
        )?;
        let verifier = evaluator.verifier()?;
        let clocks = order
            .threads
            .iter()
            .map(|&threads| Clock::new(&evaluator, threads, order.purpose))
            .collect::<Result<_>>()?;
        Ok(Self {
            evaluator,
            verifier,
            clocks,
            purpose: order.purpose,
        })
    }

    /// Compiles and verifies a program once, and times it at each number of threads.
    pub fn measure(&mut self, program: &Program) -> Measured {
        let prepared = self.evaluator.prepare(&program.source, &mut self.verifier);
        let mut rows = Vec::new();
        for clock in &mut self.clocks {
            let done = prepared.time(&mut clock.timer, self.purpose);
            let chain = clock.timer.chain();
            let measurement = done.verdict.measurement();
            let own = measurement.map(|m| LogRatio::of(m, &chain));
            let place = measurement.and_then(|m| clock.timer.place(m.gflops));
            rows.push(Row {
                file: program.name.clone(),
                threads: clock.threads,
                done,
                own,
                to_against: None,
                group: None,
                peak_gflops: clock.timer.peak_gflops(),
                place,
                machine: Arc::clone(&clock.machine),
            });
        }
        Measured {
            rows,
            object: prepared.object().map(<[u8]>::to_vec),
        }
    }

    /// The jail.
    pub fn sandbox(&self) -> &Sandbox {
        &self.evaluator.sandbox
    }
}

impl Clock {
    fn new(evaluator: &Evaluator, threads: u32, purpose: Purpose) -> Result<Self> {
        let mut timer = evaluator.timer(threads)?;
        if purpose == Purpose::Certify {
            timer.refine_reference()?;
        }
        let json = timer.attestation().to_json();
        let attestation = serde_json::from_str(&json)?;
        Ok(Self {
            threads,
            timer,
            machine: Arc::new(Machine { attestation, json }),
        })
    }
}
