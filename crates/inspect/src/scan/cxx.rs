//! The check of C++ constructs that C lacks, in the preprocessed text.
//!
//! C++ sources are also subject to all checks for C. Run-time support is not linked, so a program that needs it does
//! not build. The check here refuses such a program earlier, with a reason and a line number.

use std::collections::BTreeSet;

use flopsmith_protocol::{CandidateFault, Failure};

use super::constructs::{ATTRIBUTES, follows};
use super::token::{Kind, Token};
use super::{UserText, refused};

/// Standard attributes, which affect only the optimiser's assumptions and the compiler's warnings.
pub(super) const STANDARD: &[&str] = &[
    "nodiscard",
    "maybe_unused",
    "likely",
    "unlikely",
    "fallthrough",
    "deprecated",
    "noreturn",
    "no_unique_address",
    "assume",
];

/// C++ words for features that no kernel needs.
const WORDS: &[(&str, &str)] = &[
    (
        "catch",
        "exceptions are switched off: `catch` is not permitted",
    ),
    ("co_await", "coroutines are not permitted"),
    ("co_return", "coroutines are not permitted"),
    ("co_yield", "coroutines are not permitted"),
    ("export", "modules are not permitted"),
    ("typeid", "run-time type information is not permitted"),
    ("dynamic_cast", "run-time type information is not permitted"),
];

/// Prefixes of names in the run-time library.
const LIBRARY: &[&str] = &[
    "__cxa_",
    "__cxxabiv",
    "__gxx_",
    "_Unwind_",
    "__gnu_cxx",
    "__gnu_parallel",
];

/// Refuses constructs that only C++ has.
pub(super) fn check(user: &UserText, tokens: &[Token<'_>]) -> Result<(), Failure> {
    let words = tokens.iter().enumerate();
    for (at, token) in words.filter(|(_, token)| token.kind == Kind::Word) {
        let next = |n: usize| tokens.get(at + n).map_or("", |t| t.text);
        let construct = |what: String| {
            let line = user.line_at(token.at);
            Err(refused(CandidateFault::ForbiddenConstruct, line, what))
        };
        if let Some((_, what)) = WORDS.iter().find(|(word, _)| *word == token.text) {
            return construct((*what).to_owned());
        }
        if let Some(start) = LIBRARY.iter().find(|p| token.text.starts_with(**p)) {
            let (word, name) = (token.text, start.trim_end_matches('_'));
            return construct(format!(
                "internal names of the run-time library ({name}) are not permitted (`{word}`)"
            ));
        }
        // The old exception specification `throw()` promises that the function throws nothing, and is
        // permitted.
        if token.text == "throw" && !(next(1) == "(" && next(2) == ")") {
            return construct("exceptions are switched off: `throw` is not permitted".into());
        }
        let begins = at == 0 || matches!(tokens[at - 1].text, ";" | "}" | "{");
        // The name of a module or header begins with a word, `<` or a quote. Any other token continues an
        // expression.
        let names =
            next(1).starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '<' | '"' | ':'));
        if matches!(token.text, "import" | "module") && begins && names {
            return construct("modules are not permitted".into());
        }
        if token.text == "operator" && matches!(next(1), "new" | "delete") && defines(&tokens[at..])
        {
            return construct(format!(
                "`operator {}` may be called, but not defined",
                next(1)
            ));
        }
        if matches!(token.text, "R" | "LR" | "uR" | "UR" | "u8R") && follows_text(tokens, at) {
            return construct("raw strings are not permitted".into());
        }
    }
    Ok(())
}

fn follows_text(tokens: &[Token<'_>], at: usize) -> bool {
    let next = tokens.get(at + 1);
    next.is_some_and(|n| n.text.starts_with('"') && follows(tokens, at, n.text))
}

/// True if the text that begins with `operator new` is a definition. After a call, an expression continues.
fn defines(tokens: &[Token<'_>]) -> bool {
    let Some(open) = tokens.iter().position(|t| t.text == "(") else {
        return false;
    };
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" => depth += 1,
            ")" => {
                depth -= 1;
                if depth == 0 {
                    let next = tokens.get(at + 1);
                    return next.is_some_and(|n| {
                        matches!(n.text, "{" | "[" | "=") || n.kind == Kind::Word
                    });
                }
            }
            _ => {}
        }
    }
    false
}

/// Checks one `[[…]]` of C or C++; `tokens` begins with the first bracket.
pub(super) fn attributes(user: &UserText, tokens: &[Token<'_>]) -> Result<(), Failure> {
    let refuse = |at: usize, what: String| {
        let line = user.line_at(at);
        Err(refused(CandidateFault::ForbiddenConstruct, line, what))
    };
    let mut depth = 0;
    let mut at = 2;
    let mut expected = true;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            "]" if depth == 0 => return Ok(()),
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => expected = true,
            word if depth == 0 && expected => {
                let scope = |n: usize| tokens.get(at + n).map_or("", |t| t.text);
                let is_gnu =
                    matches!(word, "gnu" | "__gnu__") && scope(1) == ":" && scope(2) == ":";
                let (name, known) = if is_gnu {
                    (scope(3), ATTRIBUTES)
                } else {
                    (word, STANDARD)
                };
                if !known.contains(&name.trim_matches('_')) {
                    return refuse(token.at, format!("the attribute `{name}` is not permitted"));
                }
                if is_gnu {
                    at += 3;
                }
                expected = false;
            }
            word if depth == 0 => {
                return refuse(
                    token.at,
                    format!("`{word}` is not permitted in an attribute list"),
                );
            }
            _ => {}
        }
        at += 1;
    }
    refuse(
        tokens[0].at,
        "an attribute list lacks its closing `]]`".into(),
    )
}

/// True if the `<` at this place is followed by `::`, and `<:` is not the digraph for `[`. The standard reads `<::` as
/// `<` and `::`, unless `:` or `>` follows.
pub(super) fn is_scope(tokens: &[Token<'_>], at: usize) -> bool {
    let sign = |n: usize| {
        let token = tokens.get(at + n)?;
        let joined = token.at == tokens[at].at + n;
        joined.then_some(token.text)
    };
    sign(2) == Some(":") && !matches!(sign(3), Some(":" | ">" | ">>" | ">=" | ">>="))
}

/// True if the name at this place belongs to an object or to a scope of the program. Names in the global scope or in
/// `std` do not.
pub(super) fn is_of_its_own(tokens: &[Token<'_>], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|i| tokens.get(i));
    let text = |n: usize| before(n).map_or("", |t| t.text);
    match (text(2), text(1)) {
        (_, "." | "->") => true,
        (":", ":") => before(3).is_some_and(|t| t.kind == Kind::Word && t.text != "std"),
        _ => false,
    }
}

/// Names of the functions and members that the source defines. They belong to the source, whatever their names.
pub(super) fn defined_functions<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" => open.push(at),
            ")" => {
                let name = open.pop().and_then(|start| start.checked_sub(1));
                let Some(name) = name.map(|n| tokens[n]).filter(|t| t.kind == Kind::Word) else {
                    continue;
                };
                let mut rest = tokens[at + 1..].iter().map(|t| t.text);
                let body =
                    rest.find(|t| !matches!(*t, "const" | "noexcept" | "override" | "final"));
                if body == Some("{") {
                    found.insert(name.text);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use flopsmith_problem::Language;

    use super::super::constructs;
    use super::*;
    use crate::page;

    fn look(text: &str) -> Result<(), Failure> {
        let mut user = UserText::default();
        for (line, text) in (1..).zip(text.lines()) {
            user.push(line, text);
        }
        let user = user.without_separators().with_braces(Language::Cxx);
        constructs::check(&user, "dgemm", Language::Cxx)
    }

    #[test]
    fn the_page_names_each_word_of_the_lists() {
        page::compare(
            "Words of C++ alone",
            &[
                page::with_reasons(WORDS),
                page::beginnings(LIBRARY.iter().copied()),
                page::names([
                    "throw",
                    "import",
                    "module",
                    "operator new",
                    "operator delete",
                ]),
            ],
        );
    }

    #[test]
    fn forbidden_constructs_of_cxx_are_refused() {
        for (text, words) in [
            ("void f() { throw 1; }", "`throw`"),
            ("try { f(); } catch (...) {}", "`catch`"),
            ("import <iostream>;", "modules"),
            ("module;\nint x;", ""),
            ("module m;", "modules"),
            ("export int x;", "modules"),
            ("x = co_await y;", "coroutines"),
            (
                "void *operator new(unsigned long n) { return q; }",
                "operator new",
            ),
            (
                "void operator delete(void *p) noexcept { }",
                "operator delete",
            ),
            (
                "void operator delete[](void *p) noexcept;",
                "operator delete",
            ),
            ("[[gnu::constructor]] void f() {}", "`constructor`"),
            ("[[gnu::section(\"x\")]] int x;", "`section`"),
            ("[[ nodiscard, gnu::ifunc(\"r\") ]] int f();", "`ifunc`"),
            ("[[using gnu: constructor]] void f() {}", "`using`"),
            ("[ [gnu::constructor]] void f() {}", "`constructor`"),
            ("<:<:gnu::constructor:>:> void f() <% %>", "`constructor`"),
            ("auto f = <::> <% asm(\"\"); %>;", "inline assembly"),
            ("%:define X", "`#`"),
            ("int x = 1'0; asm(\"\"); int y = 2'0;", "inline assembly"),
            (
                "int x = 1'0'0; char c = '\"'; asm(\"\"); c = '\"';",
                "inline assembly",
            ),
            ("auto s = \"a\"_x; asm volatile(\"\");", "inline assembly"),
            ("auto f = [] { asm(\"\"); };", "inline assembly"),
            ("if (a and asm_ or __asm__) {}", "inline assembly"),
            (
                "template <class T> void g() { __asm(\"\"); }",
                "inline assembly",
            ),
            ("__cxa_throw(a, b, c);", "run-time library"),
            ("::__gnu_cxx::f();", "run-time library"),
            ("system(\"x\");", "`system`"),
            ("::system(\"x\");", "`system`"),
            ("std::system(\"x\");", "`system`"),
            ("std::getenv(\"x\");", "`getenv`"),
            ("pthread_create(a, b, c, d);", "`pthread_create`"),
            ("typeid(x).name();", "type information"),
            ("auto s = R\"(a)\";", "raw strings"),
        ] {
            let found = look(text);
            match words {
                "" => assert!(found.is_ok(), "{text}: {found:?}"),
                _ => assert!(
                    matches!(&found, Err(Failure::Candidate { detail, .. }) if detail.contains(words)),
                    "{text}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn plain_cxx_passes() {
        for text in [
            "[[nodiscard, maybe_unused]] static int f(int a[2]) { return a[0]; }",
            "[[gnu::always_inline]] inline void g() noexcept {}",
            "if (x) [[likely]] { y(); }",
            "auto f = [&]<class T>(T x) { return x; };",
            "std::array<::T, 2> a;",
            "int a<:3:>; <:<:maybe_unused:>:> int b = a<:::c:>;",
            "p = ::operator new(8 * n, std::align_val_t(64)); ::operator delete(p);",
            "struct B { B *clone() const { return 0; } void signal() noexcept {} }; b.clone(); b->signal();",
            "namespace mine { int system(int x) { return x; } } int x = mine::system(3);",
            "int module = 3; module = 4; module += 1;",
            "void f() throw();",
            "constexpr int n = 1'000'000; auto c = 'x';",
            "template <int N> struct S { static constexpr double t[N] = {1e-3, 0x1p-3}; };",
        ] {
            let found = look(text);
            assert!(found.is_ok(), "{text}: {found:?}");
        }
    }
}
