//! Checks of the text and the object, for every program of the corpus: no program runs and none is timed, so many are
//! checked at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flopsmith_compile::Compiler;
use flopsmith_compile::toolchain::Toolchain;
use flopsmith_problem::Problem;
use flopsmith_protocol::Failure;
use flopsmith_test_support::skipped;

use crate::program::{Expected, Program, attacks, honest};
use crate::{fixtures, sampled};

/// Of the honest programs, each commit builds one of this many, and other commits build others. The timed ones are
/// built as well.
const HONEST: usize = 4;

/// The compiler of the programs for a problem.
struct Bench {
    problem: Arc<Problem>,
    compiler: Compiler,
}

impl Bench {
    fn of(problem: &str) -> Self {
        let problem = fixtures::shipped(problem);
        let toolchain = Toolchain::detect(None, &problem).unwrap();
        Self {
            compiler: Compiler::new(fixtures::sandbox(), toolchain),
            problem,
        }
    }

    /// The complaint about a program whose compile stage ends in another way than its first lines demand.
    fn complaint(&self, program: &Program) -> Option<String> {
        let built = self.compiler.compile_as(
            program.language,
            &self.problem,
            &program.source,
            program.permitted,
        );
        let as_expected = match (&program.expected, &built) {
            (Expected::Refused { faults, .. }, Err(Failure::Candidate { fault, .. })) => {
                faults.contains(fault)
            }
            (Expected::Measured(techniques), Ok(built)) => {
                techniques.is_none_or(|techniques| techniques == built.techniques)
            }
            _ => false,
        };
        let was = || match &built {
            Ok(built) => format!("built with {}", built.techniques),
            Err(failure) => failure.to_string(),
        };
        (!as_expected).then(|| {
            format!(
                "{}: expected {}, was {}",
                program.name,
                program.expected,
                was()
            )
        })
    }
}

#[test]
fn static_attacks_are_refused_and_honest_programs_are_built() {
    let lacks = |program: &Program| {
        let driver = fixtures::toolchain().driver(program.language);
        driver.err().map(|failure| failure.to_string())
    };
    let of_interest = attacks()
        .into_iter()
        .filter(Program::is_refused_before_it_runs)
        .chain(sampled(honest(), HONEST));
    let (mut programs, mut left_out) = (Vec::new(), BTreeMap::new());
    for program in of_interest.filter(|program| program.can_run(usize::MAX)) {
        match lacks(&program) {
            None => programs.push(program),
            Some(why) => *left_out.entry(why).or_insert(0) += 1,
        }
    }
    for (why, count) in left_out {
        skipped(&format!("{count} programs: {why}"));
    }
    let refused = programs.iter().filter(|p| !p.ways.is_empty()).count();
    assert!(refused >= 100, "{refused} attacks never run");

    let benches: Mutex<BTreeMap<String, Arc<Bench>>> = Mutex::default();
    let bench = |problem: &str| {
        let mut benches = benches.lock().unwrap();
        let made = || Arc::new(Bench::of(problem));
        Arc::clone(benches.entry(problem.to_owned()).or_insert_with(made))
    };
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let complaint = bench(&program.problem).complaint(program);
            wrong.lock().unwrap().extend(complaint);
        }
    };
    let workers = flopsmith_machine::pinning::allowed_cores().len();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} programs did not end as they say:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
