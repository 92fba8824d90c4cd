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
    let whole_library = opens_library(&all);
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
            // A using-directive makes the library's name visible in its scope, also behind `::` and behind the name of
            // a namespace that contains it, in parentheses, and as a pointer. The program's own definition adds an
            // overload and hides nothing.
            _ if whole_library => true,
            Qualifier::None => called && (by_arguments || !own.contains(word)),
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
    let preceding = |end: usize, n: usize| end.checked_sub(n).and_then(|i| all.get(i));
    // `std::template sort<int *>` names what `std::sort<int *>` names.
    let is_template = preceding(at, 1).is_some_and(|t| t.text == "template");
    let end = if is_template { at - 1 } else { at };
    let before = |n: usize| preceding(end, n);
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

/// True if names of the library are visible without `std::`: a using-directive names a namespace that the program does
/// not open itself, or the program continues `std`.
fn opens_library(all: &[Token<'_>]) -> bool {
    let text = |at: usize| all.get(at).map_or("", |t| t.text);
    (0..all.len()).any(|at| match (text(at), text(at + 1)) {
        ("using", "namespace") => {
            let named = all.iter().skip(at + 2).take_while(|t| t.text != ";");
            let mut words = named.filter(|t| t.kind == Kind::Word);
            words.any(|word| !is_own_scope(all, word.text))
        }
        ("namespace", "std") | ("std", "{") => true,
        _ => false,
    })
}

/// True if the program itself opens a namespace or class of this name, and never makes the name an alias.
/// `namespace std {` does not make `std` the program's own.
fn is_own_scope(all: &[Token<'_>], name: &str) -> bool {
    let text = |at: usize| all.get(at).map_or("", |t| t.text);
    let preceding = |at: usize, n: usize| at.checked_sub(n).map_or("", text);
    let named = || (0..all.len()).filter(|at| text(*at) == name);
    let opens = |at: usize| {
        let mut first = at;
        // `namespace outer::name {`
        while preceding(first, 1) == ":" && preceding(first, 2) == ":" && first > 2 {
            first -= 3;
        }
        matches!(text(at + 1), "{" | ":" | "final")
            && matches!(
                preceding(first, 1),
                "namespace" | "struct" | "class" | "union"
            )
            && preceding(first, 2) != "using"
    };
    // An alias, also one within a block, may stand for the library where a scope of the same name is hidden.
    let is_alias = |at: usize| preceding(at, 1) == "namespace" && text(at + 1) == "=";
    name != "std" && name != "ranges" && named().any(opens) && !named().any(is_alias)
}

/// Refuses a Fortran procedure that does the problem's own work; `words` are those of one statement.
pub(super) fn check_fortran<'w>(
    line: u32,
    words: impl Iterator<Item = &'w str>,
    problem: &Problem,
) -> Result<(), Failure> {
    let mut before = "";
    for word in words {
        // The program may give the name to a subroutine of its own; the library has functions only.
        let is_subroutine = matches!(before, "subroutine" | "call");
        before = word;
        if is_subroutine {
            continue;
        }
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
    use flopsmith_test_support::shipped;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::problem(name)).unwrap()
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
            "void f() { std::ranges::stable_sort(a); }",
            "void f() { std::ranges::sort_heap(a); }",
            "void f() { __gnu_parallel::sort(a, b); }",
            "void f() { __gnu_parallel::stable_sort(a, b); }",
            "void f() { std::partial_sort_copy(a, b, c, d); }",
            "using std::sort;",
            "namespace s = std; void f() { s::sort(a, b); }",
            "using namespace std; void f() { partial_sort(a, b, c); }",
            "using namespace std; void sort(long x) {} void f() { sort(a, b); }",
            "void f() { std::make_heap(a, b); std::sort_heap(a, b); }",
            "void f() { std::make_heap(a, b); }",
            "void f() { std::push_heap(a, b); }",
            "void f() { std::pop_heap(a, b); }",
            "void f() { auto p = &std::sort<int *>; }",
            "void f() { std::__introsort_loop(a, b, 9, c); }",
            "void f() { nth_element(a, b, c); }",
            "void f() { std::inplace_merge(a, b, c); }",
            // Names that using-directives and aliases make visible elsewhere.
            "using namespace std; void f() { ::sort(a, b); }",
            "using namespace std; struct x { void sort() {} }; void f() { ::sort(a, b); }",
            "using namespace std; void f() { (sort)(a, b); }",
            "using namespace std; void f() { void (*p)(int *, int *) = sort; }",
            "using namespace std; using ::sort;",
            "namespace { using namespace std; } void f() { ::sort(a, b); }",
            "inline namespace v { using namespace std; } void f() { ::sort(a, b); }",
            "namespace own { using namespace std; } void f() { own::sort(a, b); }",
            "namespace own { inline namespace v { using namespace std; } } void f() { own::sort(a, b); }",
            "namespace in { using namespace std; } namespace own { using namespace in; } void f() { own::sort(a, b); }",
            "namespace own { using namespace std; } struct x { void sort() {} }; void f() { own::sort(a, b); }",
            "namespace own { using namespace ::std; } using own::sort;",
            "namespace own { using std::sort; }",
            "using std::sort; void f() { ::sort(a, b); }",
            "namespace own { int x; } void f() { namespace own = std; own::sort(a, b); }",
            "namespace own { namespace s = std; } void f() { own::s::sort(a, b); }",
            "namespace own { namespace s = std; } using namespace own::s; void f() { ::sort(a, b); }",
            "struct x { void sort() {} }; namespace std { void f() { sort(a, b); } }",
            "struct x { void sort() {} }; void f() { std::template sort<int *>(a, b); }",
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
        for (name, problem) in [
            ("inner_product", problem("dgemm")),
            ("transform_reduce", problem("dgemm")),
            ("partial_sum", problem("prefix_sum")),
            ("inclusive_scan", problem("prefix_sum")),
        ] {
            for text in [
                format!("using namespace std; void f() {{ ::{name}(a, b, c); }}"),
                format!(
                    "namespace own {{ using namespace std; }} void f() {{ own::{name}(a, b, c); }}"
                ),
                format!("namespace s = std; void f() {{ s::{name}(a, b, c); }}"),
            ] {
                assert!(!passes(&text, &problem), "{text}");
            }
        }
    }

    /// The problems whose work is nearly all sums of products.
    const SUMS: [&str; 31] = [
        "batched_dgemm",
        "cholesky",
        "dgemm",
        "dgemv",
        "dot",
        "dsyrk",
        "dtrsm",
        "lu",
        "sgemm",
        "spmv",
        "polybench_2mm",
        "polybench_3mm",
        "polybench_atax",
        "polybench_bicg",
        "polybench_cholesky",
        "polybench_correlation",
        "polybench_covariance",
        "polybench_doitgen",
        "polybench_durbin",
        "polybench_gemm",
        "polybench_gemver",
        "polybench_gesummv",
        "polybench_gramschmidt",
        "polybench_lu",
        "polybench_ludcmp",
        "polybench_mvt",
        "polybench_symm",
        "polybench_syr2k",
        "polybench_syrk",
        "polybench_trisolv",
        "polybench_trmm",
    ];

    #[test]
    fn each_shipped_problem_forbids_the_libraries_that_do_its_work() {
        for folder in shipped::problems() {
            let problem = Problem::load(&folder).unwrap();
            let expected: &[&str] = match problem.id.as_str() {
                "sort64" => &["qsort"],
                "prefix_sum" => &["scan"],
                "transpose" => &["transpose"],
                name if SUMS.contains(&name) => &["matmul"],
                _ => &[],
            };
            assert_eq!(problem.forbidden, expected, "{}", problem.id);
            let products = expected == ["matmul"];
            let by_cxx = "x = std::inner_product(a, b, c, 0.0);";
            assert_eq!(passes(by_cxx, &problem), !products, "{}", problem.id);
            let in_fortran = |words: &str| check_fortran(1, words.split(' '), &problem).is_ok();
            assert_eq!(in_fortran("s = dot_product ( a , b )"), !products);
            let moves = expected == ["transpose"];
            assert_eq!(in_fortran("b = transpose ( a )"), !moves);
            assert_eq!(in_fortran("b = reshape ( a , s )"), !moves);
            // The entry of the problem has this name.
            assert!(in_fortran("subroutine transpose ( m , n )"));
            assert!(in_fortran("call transpose ( m , n )"));
            assert!(in_fortran("end subroutine transpose"));
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
            "namespace mine { void sort(int *a) {} } using namespace mine; void f() { mine::sort(x); ::sort(x); sort(x); }",
            "namespace mine { inline namespace v { void sort(int *a) {} } } void f() { mine::sort(x); }",
            "namespace a::mine { void sort(int *a) {} } using namespace a::mine; void f() { a::mine::sort(x); }",
            "namespace mine { using std::min; void sort(int *a) {} } void f() { mine::sort(x); }",
            "namespace s = std; namespace mine { void sort(int *a) {} } void f() { mine::sort(x); s::min(a, b); }",
            "using namespace std; struct list; void f(list &l) { l.sort(); min(a, b); ::min(a, b); }",
            "void f() { std::merge(a, b, c, d, e); }",
            "void f() { std::binary_search(a, b, 3); std::lower_bound(a, b, 3); }",
            "void f() { int __sorted = 1; }",
        ] {
            assert!(passes(text, &sort), "{text}");
        }
    }
}
