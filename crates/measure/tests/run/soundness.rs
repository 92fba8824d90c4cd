use std::sync::Arc;

use flopsmith_measure::verify::soundness::{Examined, examine};
use flopsmith_problem::{Finding, Problem};

use crate::fixtures::{alone, harness, problem, sandbox, toolchain};

fn with_reference(body: &str) -> Problem {
    let mut changed = Arc::unwrap_or_clone(problem());
    changed.reference_source =
        format!("void dgemm(int n, const double *A, const double *B, double *C)\n{{\n{body}\n}}\n");
    changed
}

fn examined(problem: &Problem) -> Examined {
    let _alone = alone();
    examine(&sandbox(), &harness(), problem, &toolchain(), 7).unwrap()
}

fn errors(examined: &Examined) -> Vec<String> {
    examined
        .findings
        .iter()
        .filter(|f| f.is_error())
        .map(ToString::to_string)
        .collect()
}

const PRODUCT: &str = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) {\n\
    double s = 0; for (int k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j]; C[i * n + j] = s; }";

#[test]
fn the_shipped_reference_is_sound() {
    let found = examined(&problem());
    assert!(found.ran && errors(&found).is_empty(), "{found:?}");
    assert_eq!(found.findings.len(), 3, "{found:?}");
}

#[test]
fn each_broken_law_is_named_once() {
    let says = |body: &str, expected: &[&str]| {
        let found = examined(&with_reference(body));
        let errors = errors(&found);
        assert!(found.ran, "{body}: {found:?}");
        assert_eq!(errors.len(), expected.len(), "{body}: {errors:?}");
        for part in expected {
            assert!(
                errors.iter().any(|e| e.contains(part)),
                "{part} for {body}: {errors:?}"
            );
        }
    };
    says(
        &format!("static int calls; {PRODUCT} if (calls++ & 1) C[0] += 1;"),
        &["not deterministic: 1 of 4096 elements of `C`"],
    );
    says(
        "for (int i = 0; i < n * n; i++) C[i] = 2 * A[i];",
        &["`B` does not matter"],
    );
    says(
        "for (int i = 0; i < n * n; i++) C[i] = 0;",
        &[
            "`A` does not matter",
            "`B` does not matter",
            "`C` is zero everywhere",
        ],
    );
    says(
        "for (int i = 0; i < n * n; i++) C[i] = i;",
        &[
            "`A` does not matter",
            "`B` does not matter",
            "`C` does not vary",
        ],
    );
    says(
        "for (int i = 0; i < n * n - 1; i++) C[i] = A[i] + B[i];",
        &["`C` has 1 of 4096 elements never written"],
    );
}

#[test]
fn a_definition_may_say_that_its_results_differ() {
    let mut honest = with_reference(&format!("static int calls; {PRODUCT} C[0] += calls++;"));
    honest.deterministic = false;
    let found = examined(&honest);
    assert!(found.ran && errors(&found).is_empty(), "{found:?}");
    assert!(
        found
            .findings
            .iter()
            .any(|f| matches!(f, Finding::Warning(w) if w.contains("not deterministic"))),
        "{found:?}"
    );
}

#[test]
fn a_reference_that_cannot_be_run_is_a_finding() {
    for body in ["this is no C", "*(volatile int *)8 = n;"] {
        let found = examined(&with_reference(body));
        assert!(!found.ran, "{body}: {found:?}");
        assert_eq!(errors(&found).len(), 1, "{body}: {found:?}");
    }
}

#[test]
fn an_output_of_which_hardly_anything_varies_is_weak() {
    let body = "for (int i = 0; i < n * n; i++) C[i] = i; C[0] = A[0] * B[0] + 0.25;";
    let found = examined(&with_reference(body));
    assert!(found.ran && errors(&found).is_empty(), "{found:?}");
    let weak = found.findings.iter().filter(
        |f| matches!(f, Finding::Warning(w) if w.contains("hardly varies: only 1 of 4096")),
    );
    assert_eq!(weak.count(), 1, "{found:?}");
}
