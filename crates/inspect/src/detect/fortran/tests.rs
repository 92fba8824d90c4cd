//! Programs in Fortran and the C that stands for them.

use std::path::Path;

use flopsmith_problem::{Language, Problem};
use proptest::prelude::*;

use super::*;
use crate::scan::{Looked, check_fortran};

fn problem() -> Problem {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    Problem::load(&root).expect("a shipped problem")
}

fn in_c(body: &str) -> (String, bool) {
    let source = format!(
        "subroutine dgemm(n, a, b, c) bind(c, name=\"dgemm\")\n use iso_c_binding\n integer(c_int), value :: n\n real(c_double), intent(in) :: a(n, n), b(n, 0:n-1)\n real(c_double), intent(out) :: c(n, *)\n{body}\nend subroutine\n"
    );
    let looked = check_fortran(&source, &problem(), Language::Fortran).expect(&source);
    let found = as_c(looked.statements(), &problem());
    assert_eq!(found.text.lines().count(), found.lines.len());
    let mut rows = found.text.lines().skip(1).map(str::trim);
    let mut body: Vec<&str> = rows.by_ref().collect();
    body.pop();
    (body.join(" "), found.unsure)
}

#[test]
fn statements_become_loops_of_c() {
    for (fortran, c) in [
        (
            "integer :: i\ndo i = 1, n\n c(i, 2) = 1.5d0 * a(i, i)\nend do",
            "int i; for (i = 1; i <= n; i += 1) { c[(i - 1) + 1 * n] = 0.5 * a[(i - 1) + (i - 1) * n]; }",
        ),
        (
            "integer :: i\ndo 10 i = n, 1, -2\n10 c(i, 1) = b(i, 0)",
            "int i; for (i = n; i >= 1; i -= 2) { c[(i - 1) + 0 * n] = b[(i - 1) + 0 * n]; }",
        ),
        (
            "real(c_double) :: t(8, 0:3)\nt(:, 2) = 0",
            "double t[4][8]; { int section__1; for (section__1 = 1; section__1 <= 8; section__1 += 1) { t[2][section__1 - 1] = 0; }}",
        ),
        (
            "integer :: i\nreal(8) :: s\ns = sum(a(1:n, 1) * b(:, 0))\nif (s > 1) c(1, 1) = s",
            "int i; double s; double reduction__2 = 0; { int section__1; for (section__1 = 1; section__1 <= n; section__1 += 1) { reduction__2 += a[(section__1 - 1) + 0 * n] * b[(section__1 - 1) + 0 * n]; }} s = reduction__2; if (s > 1) { c[0 + 0 * n] = s; }",
        ),
        (
            "integer, parameter :: w = 4\ninteger :: i\ndo while (i <= n .and. .not. i == w)\n i = i + w\nenddo",
            "int w = 4; int i; while ((i <= n) && !(i == w)) { i = i + w; }",
        ),
        (
            "integer :: i, j\ndo concurrent (i = 1:n, j = 1:n)\n c(i, j) = max(a(i, j), b(i, j-1))\nend do",
            "int i; int j; { int i; for (i = 1; i <= n; i += 1) { { int j; for (j = 1; j <= n; j += 1) { c[(i - 1) + (j - 1) * n] = max(a[(i - 1) + (j - 1) * n], b[(i - 1) + (j - 1) * n]); }}}}",
        ),
        (
            "where (a(:, 1) > 0) c(1:n, 1) = a(:, 1)**2",
            "{ int section__1; for (section__1 = 1; section__1 <= n; section__1 += 1) { if (a[(section__1 - 1) + 0 * n] > 0) { c[(section__1 - 1) + 0 * n] = (a[(section__1 - 1) + 0 * n] * a[(section__1 - 1) + 0 * n]); } }}",
        ),
        (
            "if (n == 1) then\n return\nelse if (n == 2) then\n continue\nelse\n c(1, 1) = -a(1, 1)\nend if",
            "if (n == 1) { return; } else if (n == 2) { } else { c[0 + 0 * n] = -a[0 + 0 * n]; }",
        ),
    ] {
        let (found, unsure) = in_c(fortran);
        assert_eq!(found, c, "{fortran}");
        assert!(!unsure, "{fortran}");
    }
}

/// Each square doubles the text of its base, and bounds may name each other.
#[test]
fn expressions_that_would_grow_without_end_stay_short() {
    let squares = format!("c(1, 1) = {}a(1, 1){}", "(".repeat(20), ")**2".repeat(20));
    let (found, unsure) = in_c(&squares);
    assert!(
        found.contains("pow(") && found.len() < 10_000,
        "{found:.2000}"
    );
    assert!(!unsure);
    let (found, _) = in_c("real(8) :: x(size(y)), y(size(x))\ninteger :: i\ni = size(x)");
    assert!(found.len() < 200, "{found:.200}");
}

#[test]
fn procedures_become_functions() {
    let (found, unsure) = in_c(
        "call row(n, a(1, 2), c(1, 3))\ncontains\nsubroutine row(m, x, y)\n integer, intent(in) :: m\n real(c_double), intent(in) :: x(m)\n real(c_double), intent(inout) :: y(m)\n y = y + x\nend subroutine",
    );
    assert_eq!(
        found,
        "void row(int m, double *x, double *y) { { int section__1; for (section__1 = 1; section__1 <= m; section__1 += 1) { y[(section__1 - 1)] = y[(section__1 - 1)] + x[(section__1 - 1)]; }} } row(n, &a[0 + 1 * n], &c[0 + 2 * n]);"
    );
    assert!(!unsure);
}

#[test]
fn a_procedure_that_calls_itself_is_hidden() {
    let source = "subroutine dgemm(n) bind(c)\n use iso_c_binding\n integer(c_int), value :: n\n call s(n)\ncontains\n recursive subroutine s(m)\n integer :: m\n call s(m)\n end subroutine\nend subroutine\n";
    let looked = Looked::unchecked(source, Language::Fortran).expect("statements");
    let found = as_c(looked.statements(), &problem());
    assert!(found.hidden.is_some_and(|(line, _)| line == 8));
}

#[test]
fn unsupported_statements_make_the_translation_unsure() {
    for body in [
        "c(1:n, 1) = reshape(a, [n])",
        "associate (x => a(:, 1))\n c(1:n, 1) = x\nend associate",
    ] {
        assert!(in_c(body).1, "{body}");
    }
}

proptest! {
    /// Statements of all kinds in any order, with missing and repeated words.
    #[test]
    fn any_statements_are_rewritten_without_panic(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "do", "end", "if", "(", ")", "then", "else", "=", ",", ":", "i", "n", "a", "1", "4", "+", "-", "*", "/",
                "where", "forall", "call", "subroutine", "function", "contains", "real", "integer", "dimension", "allocate",
                "sum", "[", "]", "%", "concurrent", "while", "10", "\n", "\n", "\n", ".and.", "x", "select", "case", "=>",
            ]),
            0..60,
        )
    ) {
        let source = words.join(" ");
        if let Some(looked) = Looked::unchecked(&source, Language::Fortran) {
            let found = as_c(looked.statements(), &problem());
            prop_assert_eq!(found.text.lines().count(), found.lines.len());
        }
    }
}
