//! Every shipped solution in C++ and in Triton from the source to the verdict, at sizes that Triton's interpreter runs in seconds.
//! Skipped without PyTorch.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flopsmith_module::{
    Architecture, Builder, Evaluator, NOT_TIMED, Options, Problem, TO_BE_TIMED, Verdict,
};
use flopsmith_protocol::TechniqueSet;
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::skipped;

use crate::modules::{open, options, problem};

/// The largest values of constants, those of `scripts/modules.py`.
const LARGEST: [(&str, u64); 8] = [
    ("BATCH", 2),
    ("ROWS", 70),
    ("TOKENS", 140),
    ("HEADS", 6),
    ("SIDE", 20),
    ("PIXELS", 300),
    ("COLUMNS", 3000),
    ("CLASSES", 9000),
];

/// A smaller value of a constant. An odd one stays odd.
fn smaller(name: &str, value: u64) -> u64 {
    match LARGEST.iter().find(|(known, _)| *known == name) {
        Some((_, most)) => value.min(most + (value + most) % 2),
        None => value,
    }
}

/// A shipped problem with small workloads: its first one, or all.
fn small(folder: &Path, all: bool) -> Problem {
    let mut problem = Problem::load(folder).unwrap();
    if !all {
        problem.workloads.truncate(1);
    }
    for workload in &mut problem.workloads {
        for (name, value) in &mut workload.constants {
            if let Some(number) = value.as_u64() {
                *value = smaller(name, number).into();
            }
        }
    }
    problem
}

/// The solutions in C++ and in Triton, by problem.
fn solutions() -> Vec<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
    let problems = std::fs::read_dir(modules).unwrap();
    let names = ["solution_cpp.py", "solution_triton.py"];
    let mut files: Vec<PathBuf> = problems
        .flat_map(|problem| {
            let folder = problem.unwrap().path();
            names.map(|name| folder.join(name))
        })
        .collect();
    files.retain(|file| file.is_file());
    files.sort();
    files
}

#[test]
fn sizes_shrink_and_keep_whether_they_are_odd() {
    for (name, value, expected) in [
        ("ROWS", 1024, 70),
        ("ROWS", 101, 71),
        ("ROWS", 24, 24),
        ("CLASSES", 50257, 9001),
        ("FEATURES", 4096, 4096),
    ] {
        assert_eq!(smaller(name, value), expected, "{name} {value}");
    }
    let files = solutions();
    let count = |name: &str| files.iter().filter(|file| file.ends_with(name)).count();
    assert!(count("solution_triton.py") >= 32, "{files:?}");
    assert!(count("solution_cpp.py") >= 19, "{files:?}");
}

/// Each commit tries another sixth at one workload.
#[test]
fn every_shipped_solution_is_verified() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let environment = stages.environment();
    let interprets = environment.triton.is_some() && environment.numpy.is_some();
    if !interprets {
        skipped("the Python with PyTorch has no Triton or no NumPy");
    }
    let part = Part::of_commit(6);
    for file in part.of(solutions()) {
        let name = file.display();
        let in_triton = file.ends_with("solution_triton.py");
        if in_triton && !interprets {
            continue;
        }
        let problem = small(file.parent().unwrap(), part.is_all());
        let options = Options {
            interpretation: Duration::from_secs(600),
            ..options()
        };
        let source = std::fs::read_to_string(&file).unwrap();
        let builder = Builder::new(&problem, &options).unwrap();
        let package = match builder.build(&source, TechniqueSet::all()).unwrap() {
            Ok(package) => package,
            Err(refused) => unreachable!("{name}: {refused:?}"),
        };
        let mut evaluator = Evaluator::new(problem, options).unwrap();
        let outcome = evaluator.verify(&package).unwrap();
        let Verdict::Verified { detail, kernels } = &outcome.verdict else {
            unreachable!("{name}: {outcome:?}")
        };
        let error = outcome.largest_error.unwrap();
        assert!(error <= 1.0, "{name}: {error}");
        eprintln!("{name}: {error:.3} of the permitted error");
        if !in_triton {
            assert_eq!(*detail, TO_BE_TIMED, "{name}");
            continue;
        }
        assert_eq!(*detail, NOT_TIMED, "{name}");
        for architecture in Architecture::DEFAULT {
            let mut of_it = kernels.iter().filter(|k| k.architecture == architecture);
            let compiled = of_it.next().is_some_and(|k| k.figures.registers > 0);
            assert!(compiled, "{name} {architecture}: {kernels:?}");
        }
    }
}
