//! A byte-order mark before a source names the encoding and is not part of the program.

use super::*;

const C: &str =
    "void dgemm(int n, const double *A, const double *B, double *C) { C[0] = A[0] * B[0] * n; }\n";
const FREE: &str = "subroutine dgemm(n, a, b, c) bind(C, name=\"dgemm\")\n\
    use, intrinsic :: iso_c_binding\n\
    integer(c_int), value :: n\n\
    real(c_double), intent(in) :: a(n, n), b(n, n)\n\
    real(c_double), intent(out) :: c(n, n)\n\
    c(1, 1) = a(1, 1) * b(1, 1) * n\n\
    end subroutine\n";

/// The same in columns from the seventh on.
fn fixed() -> String {
    FREE.lines().map(|line| format!("      {line}\n")).collect()
}

#[test]
fn a_source_is_the_same_program_with_a_byte_order_mark_before_it() {
    let fixed = fixed();
    for (language, source) in [
        (Language::C, C),
        (Language::Cxx, C),
        (Language::Fortran, FREE),
        (Language::Fortran77, &fixed),
    ] {
        let build =
            |source: &str| compiler().compile_as(language, problem(), source, TechniqueSet::all());
        let plain = build(source).unwrap();
        let marked = build(&format!("\u{feff}{source}")).unwrap();
        assert_eq!(marked.object, plain.object, "{language:?}");
        // A message names the line that people see, with the mark and without.
        let wrong = |begin: &str| match build(&format!("{begin}{source}?\n")) {
            Err(Failure::Candidate { detail, .. }) => detail,
            other => panic!("{language:?}: {:?}", other.map(|b| b.diagnostics)),
        };
        assert_eq!(wrong("\u{feff}"), wrong(""), "{language:?}");
        // Elsewhere the mark stays an invalid character in every language.
        assert!(build(&format!("{source}\u{feff}")).is_err(), "{language:?}");
    }
}
