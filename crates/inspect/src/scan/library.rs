//! Refuses library functions that do the problem's own work.
//!
//! A C library function is visible in the object. C++ templates, and the code that a Fortran compiler generates instead
//! of a call, are not, so this module finds them in the text.

use flopsmith_problem::{LibraryWork, Problem};
use flopsmith_protocol::{CandidateFault, Failure};

use super::token::{Kind, Token, tokens};
use super::{UserText, cxx, refused};

/// The failure for a forbidden name.
fn forbidden(line: u32, name: &str, work: &LibraryWork) -> Failure {
    refused(
        CandidateFault::ForbiddenSymbol,
        line,
        format!(
            "`{name}` may not be used here: this problem asks for {}; write that work yourself",
            work.what
        ),
    )
}

/// Refuses C++ templates that do the problem's own work.
pub fn check(user: &UserText, problem: &Problem) -> Result<(), Failure> {
    let works: Vec<&LibraryWork> = problem.forbidden_works().collect();
    if works.is_empty() {
        return Ok(());
    }
    let all = tokens(&user.text);
    let own = cxx::defined_functions(&all);
    let whole_library = all.windows(3).any(|w| {
        w[0].text == "using" && w[1].text == "namespace" && !is_own_scope(&all, w[2].text)
    });
    // An unqualified call also finds functions in the namespaces of its arguments' types, which may be preferred to the
    // program's own function of that name.
    let by_arguments = all.iter().any(|token| {
        token.text.contains("iterator")
            || matches!(
                token.text,
                "vector" | "span" | "string" | "string_view" | "deque"
            )
    });
    for (at, token) in all.iter().enumerate() {
        if token.kind != Kind::Word {
            continue;
        }
        let word = token.text;
        let does = |work: &&&LibraryWork| {
            work.cxx.contains(&word)
                || (word.starts_with("__")
                    && work.cxx_inside.iter().any(|part| word.contains(part)))
        };
        let Some(work) = works.iter().find(does) else {
            continue;
        };
        let called = all
            .get(at + 1)
            .is_some_and(|next| matches!(next.text, "(" | "<"));
        let of_library = match qualifier(&all, at) {
            Qualifier::Member => false,
            Qualifier::None => called && (whole_library || by_arguments || !own.contains(word)),
            Qualifier::Global => false,
            Qualifier::Name(name) => !is_own_scope(&all, name),
        };
        if of_library {
            return Err(forbidden(user.line_at(token.at), word, work));
        }
    }
    Ok(())
}

/// The qualifier before a name.
enum Qualifier<'t> {
    None,
    /// `x.` or `x->`.
    Member,
    /// `::` without a name.
    Global,
    /// `name::`.
    Name(&'t str),
}

fn qualifier<'t>(all: &[Token<'t>], at: usize) -> Qualifier<'t> {
    let before = |n: usize| at.checked_sub(n).and_then(|i| all.get(i));
    let text = |n: usize| before(n).map_or("", |t| t.text);
    match (text(2), text(1)) {
        (_, "." | "->") => Qualifier::Member,
        (":", ":") => match before(3) {
            Some(name) if name.kind == Kind::Word => Qualifier::Name(name.text),
            _ => Qualifier::Global,
        },
        _ => Qualifier::None,
    }
}

/// True if the program itself opens a namespace or class of this name. `namespace std {` does not make `std` the
/// program's own.
fn is_own_scope(all: &[Token<'_>], name: &str) -> bool {
    let opens = |w: &[Token<'_>]| {
        matches!(w[0].text, "namespace" | "struct" | "class" | "union")
            && w[1].text == name
            && matches!(w[2].text, "{" | ":" | "final")
    };
    name != "std" && name != "ranges" && all.windows(3).any(opens)
}

/// Refuses a Fortran procedure that does the problem's own work; `words` are those of one statement.
pub(super) fn check_fortran<'w>(
    line: u32,
    words: impl Iterator<Item = &'w str>,
    problem: &Problem,
) -> Result<(), Failure> {
    for word in words {
        let mut works = problem.forbidden_works();
        if let Some(work) = works.find(|work| work.fortran.contains(&word)) {
            return Err(forbidden(line, word, work));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::*;

    fn problem(name: &str) -> Problem {
        let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        Problem::load(&problems.join(name)).unwrap()
    }

    fn passes(text: &str, problem: &Problem) -> bool {
        let mut user = UserText::default();
        user.push(1, text);
        check(&user, problem).is_ok()
    }

    #[test]
    fn the_work_is_forbidden_under_all_its_names() {
        let sort = problem("sort64");
        for text in [
            "void f() { std::sort(a, b); }",
            "void f() { ::std::stable_sort(a, b); }",
            "void f() { std::ranges::sort(a); }",
            "using std::sort;",
            "namespace s = std; void f() { s::sort(a, b); }",
            "using namespace std; void f() { partial_sort(a, b, c); }",
            "using namespace std; void sort(long x) {} void f() { sort(a, b); }",
            "void f() { std::make_heap(a, b); std::sort_heap(a, b); }",
            "void f() { auto p = &std::sort<int *>; }",
            "void f() { std::__introsort_loop(a, b, 9, c); }",
            "void f() { nth_element(a, b, c); }",
            "void f() { std::inplace_merge(a, b, c); }",
        ] {
            assert!(!passes(text, &sort), "{text}");
            assert!(passes(text, &problem("stencil2d")), "{text}");
        }
        assert!(!passes(
            "x = std::inner_product(a, b, c, 0.0);",
            &problem("dgemm")
        ));
        assert!(passes("x = std::inner_product(a, b, c, 0.0);", &sort));
        let scan = problem("prefix_sum");
        for text in [
            "void f() { std::partial_sum(a, b, c); }",
            "void f() { std::inclusive_scan(a, b, c); }",
            "void f() { std::exclusive_scan(a, b, c, 0); }",
            "using namespace std; void f() { transform_inclusive_scan(a, b, c, p, q); }",
            "void f() { transform_exclusive_scan(a, b, c, 0, p, q); }",
        ] {
            assert!(!passes(text, &scan), "{text}");
            assert!(passes(text, &sort), "{text}");
        }
        for sums in ["lu", "cholesky", "dtrsm", "spmv"] {
            let problem = problem(sums);
            assert!(!passes("x = std::inner_product(a, b, c, 0.0);", &problem));
            let refused = check_fortran(1, ["dot_product"].into_iter(), &problem);
            assert!(refused.is_err());
        }
    }

    #[test]
    fn functions_that_the_program_defines_are_its_own() {
        let sort = problem("sort64");
        for text in [
            "static void sort(int *a) {} void f() { sort(x); ::sort(x); }",
            "struct list { void sort() {} }; void f(list &l) { l.sort(); }",
            "namespace mine { void sort(int *a) {} } void f() { mine::sort(x); }",
            "void f() { int sort = 3; sort += 1; std::min(a, b); std::copy(a, b, c); }",
            "void f() { std::merge(a, b, c, d, e); }",
            "void f() { int __sorted = 1; }",
        ] {
            assert!(passes(text, &sort), "{text}");
        }
    }
}
