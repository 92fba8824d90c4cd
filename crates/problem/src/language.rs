//! Headers, modules and libraries that programs of a language may use beside their own text.

/// Headers of C++ that hold arithmetic, types and algorithms only: nothing that prints, waits, starts threads or reads files.
pub const CXX_HEADERS: &[&str] = &[
    "cstddef",
    "cstdint",
    "cstring",
    "cmath",
    "cstdlib",
    "cfloat",
    "climits",
    "algorithm",
    "array",
    "utility",
    "type_traits",
    "limits",
    "numeric",
    "tuple",
    "bit",
    "complex",
    "span",
    "initializer_list",
    "iterator",
    "concepts",
    "new",
];

/// Modules of Fortran that a candidate may use beside its own.
pub const FORTRAN_MODULES: &[&str] = &["iso_c_binding", "iso_fortran_env", "omp_lib"];
