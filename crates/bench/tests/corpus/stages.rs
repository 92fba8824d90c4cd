//! The three stages that every candidate goes through, with one compiler, one verifier and one timer for all.

use std::sync::Arc;
use std::time::Instant;

use flopsmith_bench::{Compiler, Failure, Purpose, Timer, Verifier};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Measurement, TechniqueSet, Verdict};

use crate::fixtures;
use crate::program::Program;

/// What became of a program.
pub struct Ended {
    pub verdict: Verdict,
    /// Detected in it, if it was built.
    pub techniques: Option<TechniqueSet>,
    pub seconds: f64,
    /// The speed of plain loops on this machine.
    pub honest_gflops: f64,
}

pub struct Stages {
    problem: Arc<Problem>,
    compiler: Compiler,
    verifier: Verifier,
    timer: Timer,
    seed: u64,
    tried_again: u32,
    honest_gflops: f64,
}

impl Stages {
    pub fn new() -> Self {
        let mut timer = fixtures::timer();
        let plain = fixtures::program("ikj.c");
        let plain = timer.measure(&plain, Purpose::Certify, 0, None).unwrap();
        eprintln!("plain loops: {:.1} GFLOPS", plain.measurement.gflops);
        Stages {
            problem: fixtures::problem(),
            compiler: Compiler::new(fixtures::sandbox(), fixtures::toolchain()),
            verifier: fixtures::verifier(30),
            timer,
            seed: 0,
            tried_again: 0,
            honest_gflops: plain.measurement.gflops,
        }
    }

    /// Compiles, verifies and times a program; once more if that failed and nobody can blame the program, as everywhere.
    pub fn judge(&mut self, program: &Program) -> Ended {
        let ended = self.once(program);
        if ended.verdict.counts() {
            return ended;
        }
        self.tried_again += 1;
        self.once(program)
    }

    /// Programs that needed a second try.
    pub fn tried_again(&self) -> u32 {
        self.tried_again
    }

    fn once(&mut self, program: &Program) -> Ended {
        let started = Instant::now();
        let mut techniques = None;
        let verdict = match self.stages(program, &mut techniques) {
            Ok(measurement) => Verdict::Measured { measurement },
            Err(failure) => failure.into(),
        };
        Ended {
            verdict,
            techniques,
            seconds: started.elapsed().as_secs_f64(),
            honest_gflops: self.honest_gflops,
        }
    }

    fn stages(
        &mut self,
        program: &Program,
        techniques: &mut Option<TechniqueSet>,
    ) -> Result<Measurement, Failure> {
        self.seed += 1;
        let built = self
            .compiler
            .compile(&self.problem, &program.source, program.permitted)?;
        *techniques = Some(built.techniques);
        self.verifier.verify(&built.object, self.seed)?;
        let timed = self
            .timer
            .measure(&built.object, Purpose::Screen, self.seed, None)?;
        Ok(timed.measurement)
    }
}
