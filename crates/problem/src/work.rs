//! Work that libraries can do, and their functions for it in each language.
//!
//! A problem that forbids one function of the C library (`[compile] forbid`)
//! means what that function does: in C++ and Fortran the same work has other
//! names.

use crate::{Language, Problem};

/// Work that libraries of several languages do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LibraryWork {
    /// The name by which a definition forbids it.
    pub name: &'static str,
    /// The work in words, for people.
    pub what: &'static str,
    /// Its functions in the C library.
    pub c: &'static [&'static str],
    /// Its functions in the library of C++, in `std` or beneath.
    pub cxx: &'static [&'static str],
    /// Parts of the names of functions inside of that library, which begin with `__`.
    pub cxx_inside: &'static [&'static str],
    /// Its procedures in Fortran.
    pub fortran: &'static [&'static str],
}

/// All works that have several names.
pub const WORKS: &[LibraryWork] = &[
    LibraryWork {
        name: "qsort",
        what: "sorting",
        c: &["qsort"],
        cxx: &[
            "sort",
            "stable_sort",
            "partial_sort",
            "partial_sort_copy",
            "nth_element",
            "make_heap",
            "sort_heap",
            "push_heap",
            "pop_heap",
            "inplace_merge",
        ],
        cxx_inside: &["sort", "heap", "introselect", "inplace_merge"],
        fortran: &[],
    },
    LibraryWork {
        name: "matmul",
        what: "products",
        c: &[],
        cxx: &["inner_product", "transform_reduce"],
        cxx_inside: &["inner_product"],
        fortran: &["matmul", "dot_product"],
    },
    LibraryWork {
        name: "transpose",
        what: "a transposition",
        c: &[],
        cxx: &[],
        cxx_inside: &[],
        // `reshape` transposes if its argument `order` says so.
        fortran: &["transpose", "reshape"],
    },
    LibraryWork {
        name: "scan",
        what: "running sums",
        c: &[],
        cxx: &[
            "partial_sum",
            "inclusive_scan",
            "exclusive_scan",
            "transform_inclusive_scan",
            "transform_exclusive_scan",
        ],
        cxx_inside: &["scan"],
        fortran: &[],
    },
];

impl LibraryWork {
    /// The functions that do it in a language.
    pub fn names(&self, language: Language) -> &'static [&'static str] {
        match language {
            Language::C => self.c,
            Language::Cxx => self.cxx,
            Language::Fortran | Language::Fortran77 => self.fortran,
            Language::Python => &[],
        }
    }
}

impl Problem {
    /// The works that no library may do in this problem's candidates.
    pub fn forbidden_works(&self) -> impl Iterator<Item = &'static LibraryWork> {
        WORKS
            .iter()
            .filter(|work| self.forbidden.iter().any(|name| name == work.name))
    }
}
