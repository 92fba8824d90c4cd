use std::path::Path;
use std::sync::Arc;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::Verifier;
use flopsmith_problem::{ErrorBound, Finding, Problem};

use crate::fixtures::{alone, harness, sandbox};

fn shipped(name: &str) -> Problem {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    Problem::load(&problems.join(name)).unwrap().only_first()
}

/// The weaknesses of a definition's bound.
fn warnings(problem: Problem) -> Vec<String> {
    let _alone = alone();
    let toolchain = Toolchain::detect(None, &problem).unwrap();
    let problem = Arc::new(problem);
    let mut verifier = Verifier::new(sandbox(), harness(), problem, &toolchain, [5; 32]).unwrap();
    let findings = verifier.weaknesses(&toolchain, 3).unwrap();
    findings
        .into_iter()
        .filter_map(|finding| match finding {
            Finding::Warning(text) | Finding::Error(text) => Some(text),
            Finding::Good(_) => None,
        })
        .collect()
}

#[test]
fn bounds_with_a_reason_are_neither_loose_nor_tight() {
    for name in ["dgemm", "sgemm", "dot", "prefix_sum"] {
        let found = warnings(shipped(name));
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn a_bound_that_lets_half_the_digits_pass_is_loose() {
    let mut loose = shipped("dgemm");
    loose.bound = ErrorBound::Gemm { c: 1e9 };
    let found = warnings(loose);
    assert_eq!(found.len(), 3, "{found:?}");
    for (text, part) in found.iter().zip([
        "results of `C` with a relative error of 2^-24",
        "with its local variables in single precision passes",
        "with inputs in single precision passes",
    ]) {
        assert!(text.contains(part), "{part}: {found:?}");
    }
}

#[test]
fn a_bound_that_refuses_another_order_of_sums_is_tight() {
    let mut tight = shipped("dot");
    tight.bound = ErrorBound::Exact;
    let found = warnings(tight);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the bound is tight"), "{found:?}");
    assert!(found[0].contains("magnitude.c"), "{found:?}");
}

#[test]
fn failing_programs_of_a_problem_are_named() {
    let _alone = alone();
    let mut broken = shipped("dot");
    let magnitude = broken.magnitude_source.as_mut().unwrap();
    let body = magnitude.rfind('}').unwrap();
    magnitude.insert_str(body, "__builtin_trap();");
    let toolchain = Toolchain::detect(None, &broken).unwrap();
    let made = Verifier::new(sandbox(), harness(), Arc::new(broken), &toolchain, [5; 32]);
    let failure = made.map(drop).unwrap_err().to_string();
    assert!(
        failure.contains("magnitude.c failed") && !failure.contains("reference.c"),
        "{failure}"
    );
}
