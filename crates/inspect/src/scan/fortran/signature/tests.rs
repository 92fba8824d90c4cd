//! Entries of Fortran that C can call, and those that it cannot.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use super::*;
use crate::scan::fortran::lines;

fn said(name: &str, source: &str) -> Option<String> {
    said_in("../../problems", name, source)
}

fn said_in(folder: &str, name: &str, source: &str) -> Option<String> {
    said_of(Language::Fortran, folder, name, source)
}

fn said_of(language: Language, folder: &str, name: &str, source: &str) -> Option<String> {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let problem = Problem::load(&problems.join(name)).unwrap();
    let found = lines::split(source, language).unwrap();
    match check(&found.statements, &problem, language) {
        Ok(()) => None,
        Err(Failure::Candidate { fault, detail }) => {
            assert_eq!(fault, CandidateFault::WrongSignature);
            Some(detail)
        }
        Err(other) => Some(other.to_string()),
    }
}

const HEAD: &str = "subroutine dgemm(n, a, b, c) bind(c, name='dgemm')\nuse, intrinsic :: iso_c_binding\nimplicit none\n";

#[test]
fn signatures_that_c_cannot_call_are_refused() {
    for (declarations, words) in [
        (
            "integer(c_int64_t), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer*8, value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer, parameter :: ik = c_size_t\ninteger(ik), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer(selected_int_kind(12)), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer(c_int16_t), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "2 bytes",
        ),
        (
            "integer(2*4), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer, parameter :: half = 2**2\ninteger(kind=(half + 12/3)), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer(kind(1)*2), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "8 bytes",
        ),
        (
            "integer(2*2**2-6), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "2 bytes",
        ),
        (
            "integer(c_int) :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "`value` is missing",
        ),
        (
            "integer n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)",
            "`value` is missing",
        ),
        (
            "real(c_double), value :: n\nreal(c_double) :: a(*), b(*), c(*)",
            "no integer",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double), intent(in) :: a(:,:), b(n,n)\nreal(c_double) :: c(n,n)",
            "assumed shape",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double), dimension(:,:) :: a, b, c",
            "assumed shape",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double) :: a(0:,0:), b(n,n), c(n,n)",
            "assumed shape",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double) :: a(..), b(n,n), c(n,n)",
            "assumed shape",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double) :: a(n,n), b(n,n)\nreal(c_double), allocatable :: c(:,:)",
            "`allocatable`",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double), pointer :: a(:,:)\nreal(c_double) :: b(n,n), c(n,n)",
            "`pointer`",
        ),
        (
            "integer(c_int), value :: n\nreal(c_float) :: a(n,n), b(n,n), c(n,n)",
            "another type",
        ),
        (
            "integer(c_int), value :: n\nreal a(n,n), b(n,n), c(n,n)",
            "another type",
        ),
        (
            "integer(c_int), value :: n\ncomplex(c_double) :: a(n,n), b(n,n), c(n,n)",
            "another type",
        ),
        (
            "integer(c_int), value :: n\nreal(c_double), value :: a\nreal(c_double) :: b(n,n), c(n,n)",
            "cannot have `value`",
        ),
    ] {
        let found = said("dgemm", &format!("{HEAD}{declarations}\nend subroutine"));
        assert!(
            found
                .as_ref()
                .is_some_and(|f| f.contains(words) && f.contains("const double *A")),
            "{declarations}: {found:?}"
        );
    }
    let few = "subroutine dgemm(n, a, b) bind(c)\nend subroutine";
    assert!(
        said("dgemm", few)
            .unwrap()
            .contains("3 arguments instead of 4")
    );
    let function = "integer function dgemm(n, a, b, c) bind(c)\nend function";
    assert!(said("dgemm", function).unwrap().contains("subroutine"));
    let implicit = "subroutine dgemm(n, a, b, c) bind(c)\nreal*8 a(n,*), b(n,*), c(n,*)\nend";
    assert!(said("dgemm", implicit).unwrap().contains("by value"));
}

#[test]
fn declarations_in_fixed_form_are_checked_as_well() {
    for (declaration, words) in [
        ("integer(c_int64_t), value :: n", "8 bytes"),
        ("integer(c_int) :: n", "`value` is missing"),
    ] {
        let source = format!("{HEAD}{declaration}\nreal*8 a(*), b(*), c(*)\nend");
        let lines: Vec<String> = source.lines().map(|line| format!("      {line}")).collect();
        let problems = "../../problems";
        let found = said_of(Language::Fortran77, problems, "dgemm", &lines.join("\n"));
        assert!(
            found.as_ref().is_some_and(|f| f.contains(words)),
            "{declaration}: {found:?}"
        );
    }
}

#[test]
fn signatures_that_c_can_call_pass() {
    for declarations in [
        "integer(c_int), value :: n\nreal(c_double), intent(in) :: a(n, n), b(n, n)\nreal(c_double), intent(out) :: c(n, n)",
        "integer(kind=c_int), intent(in), value :: n\nreal(kind=c_double), dimension(n,n) :: a, b, c",
        "integer, value :: n\ndouble precision a(n,n), b(n,*), c(0:n*n-1)",
        "integer(c_int) :: n\nvalue :: n\nreal*8 a(*), b(*), c(*)",
        "integer n\nvalue n\nreal(8) a, b, c\ndimension a(n,n), b(n,n), c(n,n)",
        "integer, parameter :: dp = kind(1.0d0)\ninteger(4), value :: n\nreal(dp), intent(inout) :: a(n,n), b(n,n), c(n,n)",
        "integer, parameter :: dp = selected_real_kind(15, 307)\ninteger(c_int32_t), value :: n\nreal(dp) :: a(n,n), b(n,n), c(n,n)",
        "integer(2*4/2), value :: n\nreal(2**3) :: a(n,n), b(n,n), c(n,n)",
        "integer(max(4, 4)), value :: n\nreal(8*) :: a(n,n), b(n,n), c(n,n)",
        "integer(some_kind), value :: n\nreal(other_kind) :: a(n,n), b(n,n), c(n,n)",
        "integer(c_int), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)\nreal(c_float) :: t(n)\nreal, allocatable :: w(:)",
    ] {
        let found = said("dgemm", &format!("{HEAD}{declarations}\nend subroutine"));
        assert_eq!(found, None, "{declarations}");
    }
    let dot = "subroutine dot(n, x, y, s) bind(c)\nuse iso_c_binding, only: dp => c_double\ninteger, value :: n\n\
                   real(dp), intent(in) :: x(n), y(n)\nreal(dp), intent(out) :: s\nend";
    assert_eq!(said("dot", dot), None);
    // The object audit reports an entry without `bind`, and the arguments of other procedures are not checked.
    assert_eq!(
        said("dgemm", "subroutine dgemm(n)\ninteger(8) n\nend"),
        None
    );
    let inner = format!(
        "{HEAD}integer(c_int), value :: n\nreal(c_double) :: a(n,n), b(n,n), c(n,n)\ncontains\nsubroutine s(n)\ninteger(8) :: n\nend\nend"
    );
    assert_eq!(said("dgemm", &inner), None);
}

/// Problems with every kind of argument.
const ARGUMENTS: &str = "../measure/tests/arguments";

#[test]
fn scalars_and_every_element_have_their_types() {
    for (problem, declarations) in [
        (
            "axpby(n, alpha, x, beta, y)",
            "integer, value :: n\nreal(c_double), value :: alpha\nreal(c_float), value :: beta\nreal(c_double) :: x(n), y(n)",
        ),
        (
            "axpby(n, alpha, x, beta, y)",
            "integer, value :: n\ndouble precision, value :: alpha\nreal*4, value :: beta\nreal*8 :: x(n), y(n)",
        ),
        (
            "cgemv(m, n, a, x, y)",
            "integer, value :: m, n\ncomplex(c_float_complex) :: a(n, m), x(n), y(m)",
        ),
        (
            "cgemv(m, n, a, x, y)",
            "integer, value :: m, n\ncomplex a(n, m), x(n)\ncomplex*8 y(m)",
        ),
        (
            "zmul(n, x, y)",
            "integer, value :: n\ncomplex(c_double_complex) :: x(n)\ncomplex*16 y(n)",
        ),
        (
            "zmul(n, x, y)",
            "integer, value :: n\ndouble complex x(n)\ncomplex(kind=8) :: y(n)",
        ),
        (
            "mix64(n, x, y)",
            "integer, value :: n\ninteger(c_int64_t) :: x(n)\ninteger*8 y(n)",
        ),
        (
            "invert(h, w, in, out)",
            "integer, value :: h, w\ninteger(c_int8_t) :: in(w, h)\ninteger*1 out(w, h)",
        ),
        (
            "bsquare(n, x, y)",
            "integer, value :: n\ninteger(c_int16_t) :: x(n)\ninteger*2 y(n)",
        ),
    ] {
        let name = problem.split('(').next().unwrap();
        let source = format!(
            "subroutine {problem} bind(c, name='{name}')\nuse iso_c_binding\nimplicit none\n{declarations}\nend"
        );
        assert_eq!(said_in(ARGUMENTS, name, &source), None, "{declarations}");
    }
}

#[test]
fn scalars_and_elements_of_another_type_are_refused() {
    let axpby = "axpby(n, alpha, x, beta, y)";
    let cgemv = "cgemv(m, n, a, x, y)";
    for (problem, declarations, words) in [
        (
            axpby,
            "integer, value :: n\nreal(c_double) :: alpha, x(n), y(n)\nreal(c_float), value :: beta",
            "`value` is missing",
        ),
        (
            axpby,
            "integer, value :: n\nreal(c_float), value :: alpha, beta\nreal(c_double) :: x(n), y(n)",
            "`alpha` is a real number of 4 bytes, and C passes 8",
        ),
        (
            axpby,
            "integer, value :: n, alpha\nreal(c_float), value :: beta\nreal(c_double) :: x(n), y(n)",
            "`alpha` is no real number",
        ),
        (
            axpby,
            "integer, value :: n\nreal(c_double) :: alpha(1), x(n), y(n)\nreal(c_float), value :: beta",
            "`alpha` is an array",
        ),
        (
            cgemv,
            "integer, value :: m, n\ncomplex(c_double_complex) :: a(n, m), x(n), y(m)",
            "declare them as `complex(c_float_complex)`",
        ),
        (
            cgemv,
            "integer, value :: m, n\nreal(c_float) :: a(2, n, m), x(2, n), y(2, m)",
            "declare them as `complex(c_float_complex)`",
        ),
        (
            "mix64(n, x, y)",
            "integer, value :: n\ninteger :: x(n), y(n)",
            "declare them as `integer(c_int64_t)`",
        ),
        (
            "invert(h, w, in, out)",
            "integer, value :: h, w\ncharacter(c_char) :: in(w, h), out(w, h)",
            "declare them as `integer(c_int8_t)`",
        ),
        (
            "haxpy(n, alpha, x, y)",
            "integer, value :: n\nreal(c_float), value :: alpha\nreal(2) :: x(n), y(n)",
            "Fortran has no type for the elements of `x`, which are `_Float16` in C",
        ),
    ] {
        let name = problem.split('(').next().unwrap();
        let source = format!(
            "subroutine {problem} bind(c, name='{name}')\nuse iso_c_binding\nimplicit none\n{declarations}\nend"
        );
        let found = said_in(ARGUMENTS, name, &source);
        assert!(
            found.as_ref().is_some_and(|f| f.contains(words)),
            "{declarations}: {found:?}"
        );
    }
    let implicit = "subroutine axpby(n, alpha, x, beta, y) bind(c, name='axpby')\ninteger, value :: n\nreal*8 x(n), y(n)\nend";
    let found = said_in(ARGUMENTS, "axpby", implicit);
    assert!(
        found.is_some_and(|f| f.contains("declare it `real(c_double), value :: alpha`")),
        "an implicit type is passed by address"
    );
}
