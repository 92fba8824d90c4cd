//! Rewrites C++ so that the C grammar can parse it.
//!
//! Words that only C++ has (template heads, namespaces, casts, qualifiers) are blanked where the remaining text has the
//! same loops and subscripts. Other C++ syntax stays, and the grammar skips it.

mod closures;
mod templates;

use std::collections::BTreeSet;

use crate::scan::token::{Kind, Token, tokens};

/// The name of a namespace, and a `using` declaration, have at most so many tokens.
const LONGEST: usize = 400;

/// Words that do not affect loops and subscripts.
const IDLE: &[&str] = &[
    "constexpr",
    "consteval",
    "constinit",
    "explicit",
    "final",
    "friend",
    "mutable",
    "noexcept",
    "override",
    "typename",
    "virtual",
];

/// Types; a `&` after one of them declares a reference.
const TYPES: &[&str] = &[
    "auto", "bool", "char", "double", "float", "int", "long", "short", "unsigned", "size_t",
    "int32_t", "int64_t", "uint32_t", "uint64_t",
];

/// The text as C, whose lines stay the same; none if the changes would exhaust memory.
pub(super) fn as_c(text: &str) -> Option<String> {
    let text = templates::with_parameters(text)?;
    let text = closures::as_functions(&text)?;
    Some(blanked(&containers(&text)?))
}

/// Largest size of all changes: many places may repeat a value.
const MOST_BYTES: usize = 4 << 20;

/// Changes of a text, which do not overlap.
#[derive(Debug, Default)]
struct Edits {
    all: Vec<(usize, usize, String)>,
    bytes: usize,
}

impl Edits {
    fn replace(&mut self, from: usize, to: usize, by: &str) {
        self.bytes += by.len();
        if self.bytes <= MOST_BYTES {
            self.all.push((from, to, by.to_owned()));
        }
    }

    /// The changed text; none if the changes are too large.
    fn apply(mut self, text: &str) -> Option<String> {
        if self.bytes > MOST_BYTES {
            return None;
        }
        self.all.sort_by_key(|(from, to, _)| (*from, *to));
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (from, to, by) in &self.all {
            // An edit within another one has no place.
            if *from < done {
                continue;
            }
            out.push_str(&text[done..*from]);
            out.push_str(by);
            done = *to;
        }
        out.push_str(&text[done..]);
        Some(out)
    }
}

/// `std::array<T, N> x` becomes `T x[N]`, and `new T[n]` becomes `malloc(n)`.
fn containers(text: &str) -> Option<String> {
    let all = tokens(text);
    let partners = templates::partners(&all);
    let word = |at: usize| all.get(at).map_or("", |t| t.text);
    let mut edits = Edits::default();
    for at in 0..all.len() {
        if word(at) == "array"
            && word(at + 1) == "<"
            && let Some((kind, extents, end)) = array(text, &all, at)
            && all.get(end + 1).is_some_and(|t| t.kind == Kind::Word)
        {
            // `std::` before the word goes as well.
            let scoped = at >= 3 && word(at - 3) == "std" && word(at - 2) == ":";
            let from = all[if scoped { at - 3 } else { at }].at;
            let name = &all[end + 1];
            let lines = text[from..name.at].matches('\n').count();
            let lines = "\n".repeat(lines);
            edits.replace(
                from,
                name.at + name.text.len(),
                &format!(
                    "{} {lines}{}{}",
                    kind.replace('\n', " "),
                    name.text,
                    extents.replace('\n', " ")
                ),
            );
            // `{}` behind the name, and further names of the declaration.
            let mut next = end + 2;
            loop {
                if word(next) == "{" && word(next + 1) == "}" {
                    let (open, close) = (&all[next], &all[next + 1]);
                    let lines = text[open.at..close.at].matches('\n').count();
                    edits.replace(open.at, close.at + 1, &"\n".repeat(lines));
                    next += 2;
                }
                let name = all.get(next + 1).filter(|t| t.kind == Kind::Word);
                let Some(name) = name.filter(|_| word(next) == ",") else {
                    break;
                };
                if !matches!(word(next + 2), "," | ";" | "{") {
                    break;
                }
                let behind = name.at + name.text.len();
                edits.replace(behind, behind, &extents.replace('\n', " "));
                next += 2;
            }
        }
        if word(at) == "new"
            && let Some(open) = (at + 1..all.len().min(at + 6)).find(|p| word(*p) == "[")
            && all[at + 1..open]
                .iter()
                .all(|t| t.kind == Kind::Word || t.text == ":")
            && let Some(close) = partners[open]
        {
            let inner = &text[all[open].at + 1..all[close].at];
            let lines = text[all[at].at..all[open].at].matches('\n').count();
            let lines = "\n".repeat(lines);
            edits.replace(
                all[at].at,
                all[close].at + 1,
                &format!("malloc({lines}{inner})"),
            );
        }
    }
    edits.apply(text)
}

/// The element type and the extents of `array<…>` at a token, and the token of its `>`.
fn array<'t>(text: &'t str, all: &[Token<'t>], at: usize) -> Option<(&'t str, String, usize)> {
    let end = templates::angle(all, at + 1)?;
    let mut extents = String::new();
    let mut place = at;
    // Nested arrays have their inner extents behind the outer ones.
    let mut comma = end;
    loop {
        let begin = place + 2;
        let last = (begin..comma).rev().find(|p| all[*p].text == ",")?;
        let first = &all.get(last + 1)?;
        let stop = all[last + 1..comma].last()?;
        let size = text.get(first.at..stop.at + stop.text.len())?;
        extents.push_str(&format!("[{}]", size.trim_end_matches('>')));
        comma = last;
        let mut inner = begin;
        while matches!(all.get(inner)?.text, "std" | ":") {
            inner += 1;
        }
        if all[inner].text != "array" || all.get(inner + 1)?.text != "<" || extents.len() > 200 {
            let kind = &all[begin..last];
            let (from, to) = (kind.first()?, kind.last()?);
            return Some((&text[from.at..to.at + to.text.len()], extents, end));
        }
        place = inner;
    }
}

/// The text with C++ syntax blanked or replaced. Every other byte keeps its offset.
fn blanked(text: &str) -> String {
    let all = tokens(text);
    let mut plain = Plain {
        bytes: text.as_bytes().to_vec(),
        all: &all,
        partners: templates::partners(&all),
        types: all
            .windows(2)
            .filter(|pair| matches!(pair[0].text, "typename" | "class"))
            .filter(|pair| pair[1].kind == Kind::Word)
            .map(|pair| pair[1].text)
            .collect(),
    };
    let mut at = 0;
    while at < all.len() {
        at = plain.take(at).max(at + 1);
    }
    // Only whole tokens were replaced, by the same number of ASCII characters, so no character was cut.
    String::from_utf8(plain.bytes).unwrap_or_default()
}

struct Plain<'t> {
    bytes: Vec<u8>,
    all: &'t [Token<'t>],
    partners: Vec<Option<usize>>,
    /// Names of types that templates take.
    types: BTreeSet<&'t str>,
}

impl<'t> Plain<'t> {
    fn text(&self, at: usize) -> &'t str {
        self.all.get(at).map_or("", |t| t.text)
    }

    fn is_word(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|t| t.kind == Kind::Word)
    }

    fn is_type(&self, at: usize) -> bool {
        let word = self.text(at);
        TYPES.contains(&word) || self.types.contains(word)
    }

    /// Blanks the tokens from `from` to `to`, both included.
    fn blank(&mut self, from: usize, to: usize) {
        let (Some(first), Some(last)) = (self.all.get(from), self.all.get(to)) else {
            return;
        };
        for byte in &mut self.bytes[first.at..last.at + last.text.len()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    fn exchange(&mut self, at: usize, with: &str) {
        if let Some(token) = self.all.get(at)
            && token.text.len() == with.len()
        {
            self.bytes[token.at..token.at + with.len()].copy_from_slice(with.as_bytes());
        }
    }

    /// Rewrites the construct that begins at a token. Returns the index of the token to continue with.
    fn take(&mut self, at: usize) -> usize {
        match self.text(at) {
            "namespace" => self.namespace(at),
            "using" => {
                let end = self.find(at, ";");
                // `using T = double;` names a type that the grammar then does not know. The detection is a heuristic
                // and accepts that.
                self.blank(at, end);
                end
            }
            "template" if self.text(at + 1) == "<" => {
                let Some(end) = templates::angle(self.all, at + 1) else {
                    return at;
                };
                self.blank(at, end);
                end + 1
            }
            "static_cast" | "reinterpret_cast" | "const_cast" if self.text(at + 1) == "<" => {
                let Some(end) = templates::angle(self.all, at + 1) else {
                    return at;
                };
                self.blank(at, end);
                end + 1
            }
            "std" if self.text(at + 1) == ":" && self.text(at + 2) == ":" => {
                self.blank(at, at + 2);
                // `std::min<int>(a, b)`.
                if let Some(end) =
                    templates::angle(self.all, at + 4).filter(|_| self.text(at + 4) == "<")
                    && self.text(end + 1) == "("
                {
                    self.blank(at + 4, end);
                    return end + 1;
                }
                at + 3
            }
            "auto" => {
                let whole =
                    |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                // A type that the grammar takes for a user-defined one.
                let name = if whole(self.text(at + 3)) {
                    "long"
                } else {
                    "real"
                };
                self.exchange(at, name);
                at
            }
            // The walk takes a pointer whose value is no pointer for a reference.
            "&" if self.is_type(at.wrapping_sub(1)) && self.is_word(at + 1) => {
                self.exchange(at, "*");
                at
            }
            "&&" if self.is_type(at.wrapping_sub(1)) && self.is_word(at + 1) => {
                self.blank(at, at);
                at
            }
            word if IDLE.contains(&word) => {
                self.blank(at, at);
                at
            }
            _ => at,
        }
    }

    /// Blanks `namespace a::b {` and its closing brace.
    fn namespace(&mut self, at: usize) -> usize {
        let mut open = at + 1;
        while open < at + LONGEST && (self.is_word(open) || self.text(open) == ":") {
            open += 1;
        }
        if self.text(open) != "{" {
            return at;
        }
        let Some(close) = self.partners[open] else {
            return at;
        };
        self.blank(at, open);
        self.blank(close, close);
        open + 1
    }

    fn find(&self, from: usize, sign: &str) -> usize {
        (from..self.all.len())
            .take(LONGEST)
            .find(|at| self.text(*at) == sign)
            .unwrap_or(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cxx_syntax_is_reduced_to_equivalent_c() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (cxx, c) in [
            (
                "namespace { constexpr int W = 4; } int x;",
                "int W = 4; int x;",
            ),
            (
                "template <typename T, int N = (3)> static inline T f(const T *a) noexcept { return a[N]; }",
                "static inline T f(const T *a) { return a[N]; }",
            ),
            ("auto n = 4; auto s = 0.5;", "long n = 4; real s = 0.5;"),
            ("double y = static_cast<double>(x);", "double y = (x);"),
            ("std::size_t i = std::min(a, b);", "size_t i = min(a, b);"),
            (
                "void f(const double &x, int &n);",
                "void f(const double *x, int *n);",
            ),
            ("y = a & b;", "y = a & b;"),
            ("using namespace std; int x;", "int x;"),
            ("template <class", "template <class"),
        ] {
            assert_eq!(words(&blanked(cxx)), c, "{cxx}");
            assert_eq!(blanked(cxx).len(), cxx.len());
        }
    }

    #[test]
    fn functions_of_cxx_become_functions_of_c() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (cxx, c) in [
            (
                "template <typename T, int N = 4> void f(T *a) { a[N]; } void g() { f<double, 8>(x); f<double>(x); }",
                "void f(int N, T *a) { a[N]; } void g() { f(8, x); f(4, x); }",
            ),
            (
                "auto part = [&](int i) -> void { y[i] = x[i]; }; part(3);",
                "real part(int i) { y[i] = x[i]; }; part(3);",
            ),
            (
                "each(n, [&](auto i) { y[i] = x[i]; });",
                "real lambda__0(long i) { y[i] = x[i]; } each(n, lambda__0);",
            ),
            (
                "std::array<std::array<double, 4>, R> acc{}; double *p = new double[n];",
                "double acc[R][4]; double *p = malloc(n);",
            ),
            (
                "std::array<double, W> x, y{}, z; f(std::array<int, 2>{}, k);",
                "double x[W], y[W], z[W]; f( array<int, 2>{}, k);",
            ),
            ("int k = a[b[0]] + c[1];", "int k = a[b[0]] + c[1];"),
            (
                "template <class T> struct s { T x; };",
                "struct s { T x; };",
            ),
        ] {
            assert_eq!(words(&as_c(cxx).expect("small")), c, "{cxx}");
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_lines(text in "(namespace|template|<|>|>>|[{};&:,=()]|\\[|\\]|std|auto|array|new|int|x|4|\u{e9}| |\n){0,40}") {
            prop_assert_eq!(blanked(&text).len(), text.len());
            let plain = as_c(&text).expect("small");
            prop_assert_eq!(plain.matches('\n').count(), text.matches('\n').count());
        }
    }
}
