//! Rewrites C++ so that the C grammar can parse it.
//!
//! Words that only C++ has (template heads, namespaces, casts, qualifiers) are blanked where the remaining text has the
//! same loops and subscripts. Other C++ syntax stays, and the grammar skips it.

use crate::scan::token::{Kind, Token, tokens};

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

/// The text with C++ syntax blanked or replaced. Every other byte keeps its offset.
pub(super) fn as_c(text: &str) -> String {
    let all = tokens(text);
    let mut plain = Plain {
        bytes: text.as_bytes().to_vec(),
        all: &all,
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
}

impl<'t> Plain<'t> {
    fn text(&self, at: usize) -> &'t str {
        self.all.get(at).map_or("", |t| t.text)
    }

    fn is_word(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|t| t.kind == Kind::Word)
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
                let Some(end) = self.angle(at + 1) else {
                    return at;
                };
                self.blank(at, end);
                end + 1
            }
            "static_cast" | "reinterpret_cast" | "const_cast" if self.text(at + 1) == "<" => {
                let Some(end) = self.angle(at + 1) else {
                    return at;
                };
                self.blank(at, end);
                end + 1
            }
            "std" if self.text(at + 1) == ":" && self.text(at + 2) == ":" => {
                self.blank(at, at + 2);
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
            "&" if TYPES.contains(&self.text(at.wrapping_sub(1))) && self.is_word(at + 1) => {
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
        while self.is_word(open) || self.text(open) == ":" {
            open += 1;
        }
        if self.text(open) != "{" {
            return at;
        }
        let mut depth = 0;
        for close in open..self.all.len() {
            match self.text(close) {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.blank(at, open);
                self.blank(close, close);
                return open + 1;
            }
        }
        at
    }

    /// The `>` that closes the `<` at a token; none if the statement ends before.
    fn angle(&self, open: usize) -> Option<usize> {
        let mut depth = 0i32;
        for at in open..self.all.len() {
            depth += match self.text(at) {
                "<" => 1,
                ">" => -1,
                ">>" => -2,
                ";" | "{" | "}" => return None,
                _ => 0,
            };
            if depth <= 0 {
                return Some(at);
            }
        }
        None
    }

    fn find(&self, from: usize, sign: &str) -> usize {
        (from..self.all.len())
            .find(|at| self.text(*at) == sign)
            .unwrap_or(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_means_the_same_in_c_is_left() {
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
                "void f(const double x, int n);",
            ),
            ("y = a & b;", "y = a & b;"),
            ("using namespace std; int x;", "int x;"),
            ("template <class", "template <class"),
        ] {
            assert_eq!(words(&as_c(cxx)), c, "{cxx}");
            assert_eq!(as_c(cxx).len(), cxx.len());
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_lines(text in "(namespace|template|<|>|>>|[{};&:]|std|auto|int|x|4|\u{e9}| |\n){0,40}") {
            let plain = as_c(&text);
            prop_assert_eq!(plain.len(), text.len());
            prop_assert_eq!(plain.matches('\n').count(), text.matches('\n').count());
        }
    }
}
