//! Programs in other languages than C, and with other flags.

use std::process::Command;

use flopsmith_test_support::skipped;
use serde_json::Value;

use super::{GOOD, assert_timed, programs, quick, said};
use crate::last_object;
use crate::one_core::on_one_core;

/// The same as [`GOOD`] in C++: a template, a lambda, an array, and memory that frees itself.
const GOOD_CXX: &str = "#include <array>\n\
    namespace { struct Row { double *p; explicit Row(int n) : p(new double[n]{}) {} ~Row() { delete[] p; } }; }\n\
    template <class F> static void each(int n, F f) { for (int i = 0; i < n; i++) f(i); }\n\
    extern \"C\" void dgemm(int n, const double *A, const double *B, double *C) {\n\
    std::array<double, 1> zero{};\n\
    each(n, [&](int i) { Row row(n);\n\
    each(n, [&](int k) { for (int j = 0; j < n; j++) row.p[j] += A[i*n+k]*B[k*n+j]; });\n\
    each(n, [&](int j) { C[i*n+j] = row.p[j] + zero[0]; }); }); }\n";

/// The same in Fortran, whose columns are the rows of C.
const GOOD_FORTRAN: &str = "subroutine dgemm(n, a, b, c) bind(C, name=\"dgemm\")\n\
    use, intrinsic :: iso_c_binding\n\
    integer(c_int), value :: n\n\
    real(c_double), intent(in) :: a(n, n), b(n, n)\n\
    real(c_double), intent(out) :: c(n, n)\n\
    integer :: i, k\n\
    do i = 1, n\n\
    c(:, i) = 0\n\
    do k = 1, n\n\
    c(:, i) = c(:, i) + b(:, k) * a(k, i)\n\
    end do\n\
    end do\n\
    end subroutine\n";

/// The result of timing one file, and the exit code.
fn bench_file(name: &str, source: &str, more: &[&str]) -> (Value, i32) {
    let folder = programs(&[(name, source)]);
    let output = quick(&[&folder.path().join(name)], more)
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert!(!output.stdout.is_empty(), "{}", said(&output));
    (last_object(&output), output.status.code().unwrap())
}

#[test]
fn a_program_in_cxx_is_measured() {
    on_one_core();
    let (object, code) = bench_file("good.cpp", GOOD_CXX, &[]);
    assert_eq!(code, 0, "{object}");
    assert_timed(&object);
    let (object, code) = bench_file(
        "good.cc",
        GOOD_CXX,
        &["--flags", "-O2 -march=native -std=c++20"],
    );
    assert_eq!(code, 0, "{object}");
    let compilers = object["attestation"]["other_compilers"].to_string();
    assert!(
        compilers.contains("-O2 -march=native -std=c++20"),
        "{compilers}"
    );
    assert!(!object["attestation"]["linker"].as_str().unwrap().is_empty());
}

#[test]
fn an_entry_under_another_name_is_told_what_to_write() {
    on_one_core();
    let mangled = GOOD_CXX.replace("extern \"C\" void dgemm(int n", "void dgemm(long n");
    let (object, code) = bench_file("mangled.cpp", &mangled, &[]);
    assert_eq!((code, &object["reason"]), (1, &"missing_entry".into()));
    let detail = object["diagnostics"].as_str().unwrap();
    assert!(
        detail.contains("_Z5dgemml") && detail.contains("extern \"C\""),
        "{detail}"
    );
    // Equal parameters need no hint, since the prototype names them.
    let plain = GOOD_CXX.replace("extern \"C\" ", "");
    let (object, code) = bench_file("plain.cpp", &plain, &[]);
    assert_eq!(code, 0, "{object}");
    let other = GOOD_CXX.replace("const double *B", "double *B");
    let (object, _) = bench_file("other.cpp", &other, &[]);
    assert_eq!(object["reason"], "wrong_signature", "{object}");
    let thrown = GOOD_CXX.replace("std::array<double, 1> zero{};", "throw n;");
    let (object, _) = bench_file("thrown.cpp", &thrown, &[]);
    assert_eq!(object["reason"], "forbidden_construct", "{object}");
}

#[test]
fn a_program_in_fortran_is_measured_or_its_compiler_missed() {
    on_one_core();
    let (object, code) = bench_file("good.f90", GOOD_FORTRAN, &[]);
    if Command::new("gfortran").arg("--version").output().is_err() {
        skipped("all but the words about it: there is no gfortran on this machine");
        assert_eq!(code, 3, "{object}");
        let text = object.to_string();
        assert!(text.contains("apt install gfortran"), "{text}");
        return;
    }
    assert_eq!(code, 0, "{object}");
    assert_timed(&object);
    // The loop over the terms is outside of the columns.
    assert_eq!(object["techniques"][0], "loop_reorder", "{object}");
    let (object, code) = bench_file("marked.f90", &format!("\u{feff}{GOOD_FORTRAN}"), &[]);
    assert_eq!(code, 0, "{object}");
    let unbound = GOOD_FORTRAN.replace(" bind(C, name=\"dgemm\")", "");
    let (object, _) = bench_file("unbound.f90", &unbound, &[]);
    assert_eq!(object["reason"], "missing_entry", "{object}");
    assert!(object.to_string().contains("bind(C"), "{object}");
    let library = GOOD_FORTRAN.replace("do i = 1, n\nc(:, i) = 0", "c = matmul(b, a)\ndo i = 1, 0");
    let (object, _) = bench_file("library.f90", &library, &[]);
    assert_eq!(object["reason"], "forbidden_symbol", "{object}");
}

#[test]
fn flags_that_do_more_than_generate_code_are_wrong_usage() {
    let folder = programs(&[("good.c", GOOD)]);
    for (flags, part) in [
        ("-O3 -fplugin=x", "`-fplugin=x` is not permitted"),
        ("-O3 @flags", "`@flags` is not permitted"),
        ("-lopenblas", "`-lopenblas` is not permitted"),
        ("-O3 -march=nosuch", "gcc does not take them: "),
    ] {
        let output = quick(&[&folder.path().join("good.c")], &["--flags", flags])
            .output()
            .unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(part), "{part:?} in {stderr}");
    }
}
