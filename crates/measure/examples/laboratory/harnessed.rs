//! Jobs that go through jail and harness together: verifications, screenings, compilations, new timers.

use std::sync::Arc;
use std::time::Instant;

use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_problem::{Params, Problem};
use flopsmith_protocol::Failure;

use super::{Done, Laboratory};

/// The verified size, and the largest one. A call of it lasts some microseconds, so the time of a verification is
/// almost only that of jail, harness and judging.
const SMALL: (i64, i64) = (8, 16);

/// A program that kills its own process.
const DYING: &str =
    "#include <stdlib.h>\nvoid dgemm(int n,const double*A,const double*B,double*C){ abort(); }\n";

/// A verifier and a timer, with their objects.
pub struct Harnessed<'a> {
    laboratory: &'a Laboratory,
    verifier: Verifier,
    timer: Timer,
    plain: Vec<u8>,
    fast: Vec<u8>,
    dying: Vec<u8>,
}

impl<'a> Harnessed<'a> {
    /// Compiles the programs, and makes verifier and timer.
    pub fn new(laboratory: &'a Laboratory) -> Done<Self> {
        let problem = &laboratory.problem;
        let baseline = problem.baseline_source.as_ref();
        Ok(Self {
            laboratory,
            verifier: laboratory.verifier_of(small(problem))?,
            timer: laboratory.timer()?,
            plain: laboratory.compile(&problem.reference_source)?,
            fast: laboratory.compile(baseline.unwrap_or(&problem.reference_source))?,
            dying: laboratory.compile(DYING)?,
        })
    }

    /// Seconds of a whole verification.
    pub fn verification(&mut self, seed: u64) -> Done<f64> {
        let start = Instant::now();
        self.verifier.verify(&self.plain, seed)?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Verifies a program that dies.
    pub fn death(&mut self, seed: u64) -> Done {
        match self.verifier.verify(&self.dying, seed) {
            Err(Failure::Candidate { .. }) => Ok(()),
            Err(other) => Err(other.into()),
            Ok(_) => Err("a program that should die is right".into()),
        }
    }

    /// Seconds of a whole screening, less those of its timed calls of both sides.
    pub fn screening(&mut self, seed: u64) -> Done<f64> {
        let start = Instant::now();
        let timed = self
            .timer
            .measure(&self.fast, Purpose::Screen, seed, None)?;
        let whole = start.elapsed().as_secs_f64();
        Ok(whole - seconds_of_calls(&timed.raw)?)
    }

    /// Compiles a program.
    pub fn compilation(&self) -> Done {
        let source = &self.laboratory.problem.reference_source;
        self.laboratory.compile(source).map(|_object| ())
    }

    /// Replaces the timer by a new one, with its own shared memory, baseline and filler.
    pub fn another_timer(&mut self) -> Done {
        self.timer = self.laboratory.timer()?;
        Ok(())
    }
}

/// The same problem at sizes whose calls take almost no time.
fn small(problem: &Problem) -> Arc<Problem> {
    let mut small = problem.clone();
    let params = Params::from([("n".to_owned(), SMALL.0)]);
    small.timed = params.clone();
    small.verify.visible = vec![params];
    for sizes in &mut small.verify.hidden {
        sizes.multiple_of = 4;
        sizes.min = 4;
        sizes.max = SMALL.1;
    }
    Arc::new(small)
}

/// All timed calls of both sides, from a measurement's raw samples.
pub fn seconds_of_calls(raw: &[u8]) -> Done<f64> {
    let raw: serde_json::Value = serde_json::from_slice(raw)?;
    Ok(seconds(&raw["candidate"]) + seconds(&raw["baseline"]))
}

/// All calls of all bursts of one side.
fn seconds(bursts: &serde_json::Value) -> f64 {
    let bursts = bursts.as_array().into_iter().flatten();
    let calls = bursts.filter_map(|burst| burst["seconds"].as_array());
    calls.flatten().filter_map(serde_json::Value::as_f64).sum()
}
