//! Candidates of the shipped softmax, from the source to the verdict.

use std::path::Path;
use std::time::Duration;

use flopsmith_measure::time::Limits;
use flopsmith_module::{Error, Evaluator, Options, Problem, Severity, Verdict};
use flopsmith_protocol::CandidateFault;
use flopsmith_test_support::skipped;

/// An evaluator of one small workload; none where Python with PyTorch is missing.
fn evaluator() -> Option<Evaluator> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules/softmax");
    let mut problem = Problem::load(&folder).unwrap();
    problem.workloads.truncate(1);
    let limits = Limits {
        min: Duration::from_millis(20),
        max: Duration::from_millis(60),
        target_log_se: 0.05,
        usable_log_se: 0.5,
    };
    let options = Options {
        cores: Vec::new(),
        limits,
        inductor: false,
        allow_weaker_jail: true,
        progress: |_| {},
    };
    match Evaluator::new(problem, options) {
        Ok(evaluator) => Some(evaluator),
        Err(why @ Error::Python { .. }) => {
            skipped(&why.to_string());
            None
        }
        Err(other) => {
            assert_eq!(other.to_string(), "", "the evaluator cannot be made");
            None
        }
    }
}

fn solution() -> String {
    let file = "../../problems/modules/softmax/solution_cpp.py";
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The shipped solution with one part replaced.
fn with(from: &str, to: &str) -> String {
    let text = solution();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn candidates_get_the_verdicts_that_they_earn() {
    let Some(mut evaluator) = evaluator() else {
        return;
    };
    let outcome = evaluator.evaluate(&solution()).unwrap();
    assert!(
        matches!(outcome.verdict, Verdict::Measured { speedup, .. } if speedup > 0.1),
        "{outcome:?}"
    );
    assert!(outcome.largest_error.is_some_and(|error| error < 0.5));
    for (source, fault) in [
        (
            with(
                "return output;",
                "output.data_ptr<float>()[7] += 0.01f; return output;",
            ),
            CandidateFault::WrongResult,
        ),
        (
            with(
                "return output;",
                "x.data_ptr<float>()[7] += 1.0f; return output;",
            ),
            CandidateFault::InputModified,
        ),
        (
            with("return output;", "return at::softmax(x, -1);"),
            CandidateFault::ForbiddenSymbol,
        ),
        (
            with("return output;", "return output.narrow(0, 0, 1);"),
            CandidateFault::WrongSignature,
        ),
        (
            with(
                "return output;",
                "volatile int* p = nullptr; *p = 1; return output;",
            ),
            CandidateFault::Crash,
        ),
        (
            with("return output;", "return outptu;"),
            CandidateFault::CompileError,
        ),
    ] {
        let outcome = evaluator.evaluate(&source).unwrap();
        let Verdict::Refused(failure) = &outcome.verdict else {
            assert_eq!(format!("{outcome:?}"), fault.name());
            continue;
        };
        assert_eq!(failure.fault, fault, "{failure:?}");
    }
}

#[test]
fn a_shipped_problem_is_admitted() {
    let Some(mut evaluator) = evaluator() else {
        return;
    };
    let findings = evaluator.admit().unwrap();
    assert!(!findings.is_empty());
    assert!(
        findings.iter().all(|f| f.severity != Severity::Error),
        "{findings:?}"
    );
}
