//! Sources that are deeper or longer than any program. Each of them is judged, or refused by the candidate's fault, and
//! none overflows the stack of a small thread or takes long.

use std::path::Path;
use std::sync::LazyLock;

use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure};

use crate::detect::{Detected, detect, detect_here, in_fortran, in_fortran_here};
use crate::fuzz::fuzz_in;
use crate::scan::{Looked, UserText};
use crate::stack::{BYTES, with_stack};

/// The stack of a caller: an eighth of that of the threads that services have.
const SMALL: usize = 256 << 10;

/// Files of this size are read.
const LARGE: usize = 8 << 20;

static PROBLEM: LazyLock<Problem> = LazyLock::new(|| {
    let problems = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    let problem = Problem::load(&problems.join("dgemm")).expect("dgemm is a problem");
    Problem {
        max_source_bytes: LARGE,
        ..problem
    }
});

const ENTRY: &str = "void dgemm(int n, const double *A, const double *B, double *C)";

fn on_a_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    with_stack(SMALL, work).expect("a thread")
}

/// Looks at a source in one language, on a small stack.
fn judged(language: Language, source: &str) {
    on_a_small_stack(|| fuzz_in(language, source.as_bytes(), &PROBLEM));
}

/// A text with so many levels: what stands before them, the beginning of each, what is inside, the end of each, and what
/// stands behind them.
fn nested([before, open, inside, close, after]: &[&str; 5], levels: usize) -> String {
    let (open, close) = (open.repeat(levels), close.repeat(levels));
    format!("{before}{open}{inside}{close}{after}")
}

/// Sources in C that nest.
static IN_C: [[&str; 5]; 35] = [
    ["n = ", "(", "1", ")", ";"],
    ["n = ", "-(", "1", ")", ";"],
    ["n = ", "1 + (", "1", ")", ";"],
    ["n = ", "- ", "1", "", ";"],
    ["n = ", "!", "1", "", ";"],
    ["n = ", "(int)", "1", "", ";"],
    ["n = ", "*&", "n", "", ";"],
    ["n = ", "A[", "0", "]", ";"],
    ["n = ", "f(", "1", ")", ";"],
    ["n = ", "sqrt(", "1", ")", ";"],
    ["n = ", "({ n = ", "1", "; })", ";"],
    ["n = ", "(int){", "1", "}", ";"],
    ["n = ", "n ? 1 : ", "1", "", ";"],
    ["n = ", "n ? ", "1", " : 1", ";"],
    ["n = (", "1, ", "1", "", ");"],
    ["n = 1", " + 1", "", "", ";"],
    ["n = n", ".a", "", "", ";"],
    ["n = n", "[1]", "", "", ";"],
    ["", "n = ", "1", "", ";"],
    ["", "C[", "0", "]", " = 1;"],
    ["", "(", "n", ")", " = 1;"],
    ["", "*", "C", "", " = 1;"],
    ["int a[1] = ", "{", "1", "}", ";"],
    ["", "{", "n = 1;", "}", ""],
    ["", "l: ", "n = 1;", "", ""],
    ["", "if (n) ", "n = 1;", "", ""],
    ["", "if (n) n = 1; else ", "n = 2;", "", ""],
    ["", "switch (n) { case 1: ", "n = 1;", " }", ""],
    ["", "for (int i = 0; i < n; i++) ", "C[i] = 0;", "", ""],
    ["", "while (n) ", "n--;", "", ""],
    ["", "do ", "n--;", " while (n);", ""],
    ["for (n = 0; ", "(", "n < 9", ")", "; n++) C[0] = 0;"],
    ["for (n = 0; ", "n < 9 && ", "n < 9", "", "; n++) C[0] = 0;"],
    ["for (n = 0; n < 9; ", "(", "n++", ")", ") C[0] = 0;"],
    ["while (n) if (n) ", "(", "n = 0", ")", ";"],
];

type Family = Box<dyn Fn(usize) -> String + Send + Sync>;

/// Programs in C, by the number of their levels.
fn families() -> Vec<Family> {
    let own = "static int f(int x) { return x; }\n";
    let bodies = IN_C.iter().map(move |shape| -> Family {
        Box::new(move |levels| format!("{own}{ENTRY} {{ {} }}\n", nested(shape, levels)))
    });
    let calls: Family = Box::new(|levels| {
        let call = |n: usize| {
            let called = n - 1;
            format!("static int f{n}(int x) {{ return f{called}(x); }}\n")
        };
        let functions: String = (1..=levels).map(call).collect();
        format!(
            "static int f0(int x) {{ return x; }}\n{functions}{ENTRY} {{ n = f{levels}(1); }}\n"
        )
    });
    let linked: Family = Box::new(|levels| {
        let inside = nested(&["", "extern \"C\" {\n", "int x;\n", "}\n", ""], levels);
        format!("{inside}{ENTRY} {{ }}\n")
    });
    bodies.chain([calls, linked]).collect()
}

fn user(text: String) -> UserText {
    let lines = vec![1; text.lines().count()];
    UserText { text, lines }
}

#[test]
fn the_deepest_sources_are_followed_on_a_small_stack_and_deeper_ones_are_not() {
    let all: Vec<usize> = (1..=1100).collect();
    let follows = |found: &Result<Detected, Failure>| {
        found.as_ref().is_ok_and(|found| found.hidden.is_none())
    };
    for family in families() {
        let verdict = |levels: usize| {
            let text = user(family(levels));
            on_a_small_stack(|| detect(&text, &[], &PROBLEM, Language::C))
        };
        let deepest = all.partition_point(|levels| follows(&verdict(*levels)));
        let name = family(3);
        assert!((20..1100).contains(&deepest), "{deepest} levels of {name}");
        // They need no more than a quarter of the stack of the analysis.
        let text = user(family(deepest));
        let here = || detect_here(&text, &[], &PROBLEM, Language::C);
        let found = with_stack(BYTES / 4, here).expect("a thread");
        assert!(follows(&found), "{name}: {found:?}");
        for levels in [deepest + 1, 10 * deepest] {
            let found = verdict(levels);
            let fault = CandidateFault::ForbiddenConstruct;
            let refused = matches!(&found, Err(Failure::Candidate { fault: f, .. }) if *f == fault);
            let hides = found.as_ref().is_ok_and(|found| found.hidden.is_some());
            assert!(refused || hides, "{levels} levels of {name}: {found:?}");
        }
        for levels in [deepest, 10 * deepest] {
            judged(Language::C, &family(levels));
            judged(Language::Cxx, &family(levels));
        }
    }
}

/// Sources that nest in C++ alone.
static IN_CXX: [[&str; 5]; 4] = [
    ["", "[&] { ", "n = 1;", " }();", ""],
    ["each(", "[&](int i) { each(", "n", "); }", ");"],
    ["n = ", "g<", "1", ">(1)", ";"],
    ["", "namespace a { ", "int x;", " }", ""],
];

#[test]
fn deep_sources_in_cxx_are_judged_on_a_small_stack() {
    for shape in &IN_CXX {
        for levels in [20, 63, 64, 65, 250, 260, 2000] {
            let body = nested(shape, levels);
            judged(Language::Cxx, &format!("{ENTRY} {{ {body} }}\n"));
        }
    }
    let arrays = nested(
        &["std::array<", "std::array<", "int", ", 2>", ", 2> x;"],
        300,
    );
    let heads = "template <int N = 1> ".repeat(300);
    judged(
        Language::Cxx,
        &format!("{heads}void f() {{ {arrays} }}\n{ENTRY} {{ f(); }}\n"),
    );
}

/// Sources in Fortran that nest.
static IN_FORTRAN: [[&str; 5]; 16] = [
    ["i = ", "(", "1", ")", ""],
    ["i = ", "-(", "1", ")", ""],
    ["i = ", "1 + (", "1", ")", ""],
    ["i = ", "- ", "1", "", ""],
    ["i = ", "2**", "1", "", ""],
    ["i = ", "sqrt(", "1.0", ")", ""],
    ["i = ", "max(1, ", "1", ")", ""],
    ["i = ", "[", "1", "]", ""],
    ["i = 1", " + 1", "", "", ""],
    ["i = i", "%i", "", "", ""],
    ["c(1, 1) = ", "a(1, ", "1", ")", ""],
    ["if (", ".not. ", "i == 1", "", ") i = 1"],
    ["", "if (i == 1) then\n", "i = 2\n", "end if\n", ""],
    ["", "do i = 1, n\n", "c(i, 1) = 0\n", "end do\n", ""],
    ["", "block\n", "i = 1\n", "end block\n", ""],
    ["", "where (a > 0)\n", "c(:, 1) = 1\n", "end where\n", ""],
];

/// A line that is continued where it is too long.
fn continued(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    let lines: Vec<String> = letters.chunks(100).map(|c| c.iter().collect()).collect();
    lines.join("&\n&")
}

/// A program with these declarations and this body.
fn fortran(declared: &str, body: &str) -> String {
    let body = if body.contains('\n') {
        body.to_owned()
    } else {
        continued(body)
    };
    format!(
        "subroutine dgemm(n, a, b, c) bind(c, name=\"dgemm\")\nuse iso_c_binding\ninteger(c_int), value :: n\n\
         real(c_double), intent(in) :: a(n, n), b(n, n)\nreal(c_double), intent(out) :: c(n, n)\ninteger :: i\n\
         {declared}\n{body}\nend subroutine\n"
    )
}

#[test]
fn deep_sources_in_fortran_are_followed_to_a_bound_on_a_small_stack() {
    for shape in &IN_FORTRAN {
        for levels in [5, 59, 600, 6000] {
            let source = fortran("", &nested(shape, levels));
            judged(Language::Fortran, &source);
            let looked = Looked::unchecked(&source, Language::Fortran).expect("statements");
            let found = with_stack(BYTES / 4, || in_fortran_here(&looked, &PROBLEM));
            let found = found.expect("a thread").expect("a verdict");
            assert!(levels < 600 || found.unsure.is_some(), "{shape:?}");
        }
    }
    // Bounds that name themselves or each other, and values that double with each level.
    let twice: String = (0..300)
        .map(|k| format!("real(8) :: x{k}(size(x{0}) + size(x{0}))\n", k + 1))
        .collect();
    let square = nested(&["c(1, 1) = ", "(", "a(1, 1)", ")**2", ""], 50);
    for (declared, body) in [
        ("real(8) :: x(size(x))", "x(1) = 0"),
        ("real(8) :: x(ubound(y, 1)), y(ubound(x, 1))", "y(1) = 0"),
        (twice.as_str(), "x0(1) = 0"),
        ("", square.as_str()),
    ] {
        let source = fortran(declared, body);
        judged(Language::Fortran, &source);
        let looked = Looked::unchecked(&source, Language::Fortran).expect("statements");
        let found = on_a_small_stack(|| in_fortran(&looked, &PROBLEM));
        assert!(found.is_ok(), "{declared:.50} {body:.50}: {found:?}");
    }
}

#[test]
fn long_sources_are_judged() {
    let many = |text: &str, times: usize| text.repeat(times);
    let numbered =
        |times: usize, text: fn(usize) -> String| (0..times).map(text).collect::<String>();
    let blocks = |inside: &str| format!("{}{inside}{}", "{".repeat(200), "}".repeat(200));
    let bodies = [
        // Chains, each as deep as it is long.
        format!("n = n{};", many("+n", 100_000)),
        format!("n = {}n;", many("n?n:", 20_000)),
        format!("{};", many("if(n);else ", 20_000)),
        format!("n = {}1{};", many("(", 100_000), many(")", 100_000)),
        format!("const char *s = {};", many("\"a\"", 100_000)),
        format!("int x;{}0;", many("x=", 20_000)),
        // One long line, and one word of a megabyte.
        many("n=1;", 100_000),
        format!("n = {};", many("x", 1_000_000)),
        // Brackets without partners.
        many("){", 10_000),
        many("(", 10_000),
        many("}", 10_000),
        many("[[", 10_000),
        many("{(", 120),
        // Jumps and states.
        format!("{}l:;", many("goto l;", 20_000)),
        format!(
            "for (;;) {}",
            blocks(&format!(
                "{}{}",
                many("n=1;", 8000),
                many("switch(n){}", 3000)
            ))
        ),
        format!(
            "for (;;) {{ {}{} }}",
            many("n++;", 50_000),
            many("switch(n){}", 5000)
        ),
        // Calls of members, and objects that follow from each other.
        format!("n = n{};", many(".f()", 20_000)),
        format!("while (n) {{ {} }}", many("s=s->next;s.f(n);", 5000)),
        format!(
            "while (n) {{ {} s.f(n); }}",
            numbered(5000, |k| format!("s{k}=s{}+s.x;", k + 1))
        ),
        format!("int x=0{};", many(",x=1", 20_000)),
        many("switch ", 10_000),
        // Functions within functions, and functions that are values.
        format!("void g(void){{}} int {}*h=g;", many("*h=g,", 20_000)),
        format!(
            "{}{}{}",
            many("void g(){", 200),
            many("g();", 5000),
            many("}", 200)
        ),
        format!(
            "if (n) {{ {} }}",
            numbered(20_000, |k| format!("int x{k};x{k}=1;"))
        ),
        format!(
            "while (n) {{ if (n) {{ {} }} {} }}",
            many("n=1;", 20_000),
            many("n++;", 20_000)
        ),
        // C++.
        many("using ", 10_000),
        many("namespace ", 10_000),
        many("virtual ", 10_000),
        many("struct ", 10_000),
        many("std::reduce<", 10_000),
        format!("struct x {{}}; {}", many("x::reduce ", 20_000)),
        many("[]{};", 200),
        many("new int[2];", 5000),
    ];
    let programs = [
        // A cleanup function of many calls, which many variables have.
        format!(
            "static void f(int **p) {{ {} }}\n{ENTRY} {{ {} }}\n",
            many("free(*p);", 5000),
            many("int *p __attribute__((cleanup(f)));", 5000)
        ),
        // Calls that may reach any function.
        format!(
            "{}void (*t[])(int) = {{ {} }};\n{ENTRY} {{ void (*p)(int) = t[n]; {} }}\n",
            numbered(5000, |k| format!("static void f{k}(int a) {{}}\n")),
            numbered(5000, |k| format!("f{k},")),
            many("p(1);", 50_000)
        ),
        // Functions that call a member of their argument by way of each other.
        format!(
            "static void f0(S *s) {{ s->run(); }}\n{}{ENTRY} {{ while (n) f3000(s); }}\n",
            numbered(3000, |k| format!(
                "static void f{}(S *s) {{ f{k}(s); }}\n",
                k + 1
            ))
        ),
        // Macros.
        numbered(50_000, |k| format!("#define A{k} 1\n")),
        format!(
            "#define W {}\nint x = {};\n",
            many("1+", 50_000),
            many("W+", 50_000)
        ),
        // A long value of a template's parameter, which every call gets.
        format!(
            "template <int N = {}> void f() {{}}\n{ENTRY} {{ {} }}\n",
            many("x", 100_000),
            many("f();", 20_000)
        ),
    ];
    let bodies = bodies.iter().map(|body| format!("{ENTRY} {{ {body} }}\n"));
    for text in bodies.chain(programs) {
        judged(Language::C, &text);
        judged(Language::Cxx, &text);
    }
}

/// The parser gives such a program up. In C it is refused; in C++, which is rewritten as C, it may hold any loop.
#[test]
fn programs_that_the_parser_gives_up_are_refused_or_may_hold_any_loop() {
    let text = format!(
        "{ENTRY} {{ struct x {{}}; {} }}\n",
        "x::reduce ".repeat(20_000)
    );
    let user = UserText {
        lines: vec![1],
        text,
    };
    let of = |language| on_a_small_stack(|| detect(&user, &[], &PROBLEM, language));
    assert!(matches!(
        of(Language::C),
        Err(Failure::Candidate {
            fault: CandidateFault::ForbiddenConstruct,
            ..
        })
    ));
    let found = of(Language::Cxx).expect("a program in C++");
    assert!(found.hidden.is_some(), "{found:?}");
}

/// Generators write such chains.
#[test]
fn a_chain_of_hundreds_of_terms_or_branches_is_followed() {
    let terms: String = (0..400).map(|k| format!(" + A[{k}] * B[{k}]")).collect();
    let branches: String = (0..300)
        .map(|k| format!("if (n == {k}) C[{k}] = 1; else "))
        .collect();
    for body in [format!("C[0] = 0{terms};"), format!("{branches};")] {
        let text = user(format!("{ENTRY} {{ {body} }}\n"));
        let found = on_a_small_stack(|| detect(&text, &[], &PROBLEM, Language::C));
        let found = found.expect("a program");
        assert!(found.hidden.is_none(), "{found:?}");
        assert!(found.unsure.is_none(), "{found:?}");
    }
}

/// A program beyond a limit of the analysis may hold any loop there: it shows none of its techniques.
#[test]
fn programs_beyond_a_limit_may_hold_any_loop() {
    let c = [
        // Writes.
        format!("{ENTRY} {{ {} }}\n", "C[0] = 1; ".repeat(5000)),
    ];
    let cxx = [
        // Changes of a text that are larger than the text.
        format!(
            "template <int N = {}> void f() {{}}\n{ENTRY} {{ {} }}\n",
            "x".repeat(390),
            "f();".repeat(20_000)
        ),
        // Lambdas.
        format!(
            "{ENTRY} {{ {} }}\n",
            "{ auto f = [&]() { C[0] = 1; }; f(); } ".repeat(100)
        ),
    ];
    let languages = [(Language::C, &c[..]), (Language::Cxx, &cxx[..])];
    for (language, texts) in languages {
        for text in texts {
            let user = UserText {
                lines: vec![1, 2],
                text: text.clone(),
            };
            let found = on_a_small_stack(|| detect(&user, &[], &PROBLEM, language));
            let found = found.expect("a program that compiles");
            assert!(found.hidden.is_some(), "{text:.200}: {found:?}");
        }
    }
    let text = fortran("", &"c(1, 1) = c(1, 1) + 1\n".repeat(60_000));
    let looked = Looked::unchecked(&text, Language::Fortran).expect("statements");
    let found = on_a_small_stack(|| in_fortran(&looked, &PROBLEM)).expect("a program");
    assert!(found.hidden.is_some(), "{found:?}");
}

#[test]
fn long_sources_in_fortran_are_judged() {
    let numbered =
        |times: usize, text: fn(usize) -> String| (0..times).map(text).collect::<String>();
    let names = numbered(5000, |k| format!("real :: x{k}\n"));
    let long = vec!["n"; 300].join(", ");
    let ones = vec!["1"; 300].join(", ");
    let sources = [
        fortran("", &"i = i + 1\n".repeat(50_000)),
        fortran(&names, &"save\n".repeat(5000)),
        fortran(&names, &"save x1\n".repeat(5000)),
        format!(
            "module m\n{names}contains\n{}end module\n",
            numbered(3000, |k| format!("subroutine s{k}\nend subroutine\n"))
        ),
        fortran(
            &continued(&format!("real(8) :: y({long})")),
            &(continued(&format!("y({ones}) = 1")) + "\n").repeat(300),
        ),
        fortran("", &("if (n == 1) ".repeat(10_000) + "i = 1")),
    ];
    for source in &sources {
        judged(Language::Fortran, source);
        judged(Language::Fortran77, source);
    }
}
