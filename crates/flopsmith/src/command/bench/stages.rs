//! What every program goes through: one verifier, and one timer for each number of threads, shared by all.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use flopsmith_bench::{Purpose, Timer, Verifier, environment};
use flopsmith_sandbox::Sandbox;

use super::Order;
use super::inputs::Program;
use super::ratio::LogRatio;
use super::rows::{Machine, Row};
use crate::evaluator::Evaluator;
use crate::exit::say;

/// How long the cores are looked at before a program is timed: the kernel books a sixteenth of it at a time.
const LOOK: Duration = Duration::from_millis(160);

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
        if prepared.can_be_timed() {
            self.warn();
        }
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

    /// Says on stderr what speaks against timing now; nothing waits for it to end.
    fn warn(&self) {
        // The timer of the most threads has the cores of all others, or nearly.
        let most = self.clocks.iter().max_by_key(|clock| clock.threads);
        let busy = most.and_then(|clock| {
            let cores = clock.timer.watched();
            environment::complaint(&environment::look(cores, LOOK), cores)
        });
        let drifted = || {
            let states = self.clocks.iter().map(|clock| clock.timer.standing());
            let mut why = states.filter(|s| s.is_quarantine()).filter_map(|s| s.why());
            why.next().map(|why| why.to_string())
        };
        if let Some(why) = busy.or_else(drifted) {
            say(&warning(&why));
        }
    }

    /// The jail.
    pub fn sandbox(&self) -> &Sandbox {
        &self.evaluator.sandbox
    }
}

fn warning(why: &str) -> String {
    format!("warning: the machine is busy: {why}; numbers will be less certain")
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

#[cfg(test)]
mod tests {
    use flopsmith_bench::environment::{Found, Watched, complaint};

    use super::*;

    #[test]
    fn a_busy_machine_is_said_in_one_line() {
        let cores = Watched {
            kernel: vec![1],
            ..Watched::default()
        };
        let found = Found {
            core: 1,
            others: 0.4,
            stolen: 0.0,
        };
        let why = complaint(&[found], &cores).expect("it is busy");
        assert_eq!(
            warning(&why),
            "warning: the machine is busy: core 1 is used 40 % by others; numbers will be less certain"
        );
    }
}
