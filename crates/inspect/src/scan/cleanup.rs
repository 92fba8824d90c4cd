//! Functions that run when a variable's scope ends (`__attribute__((cleanup(f)))`).
//!
//! The program does not call these functions explicitly, so a check of calls does not find their work. A function that
//! only releases the variable's resource is permitted.

use std::collections::BTreeSet;

use super::token::{Kind, Token};

/// Functions that a cleanup function may call.
const RELEASES: &[&str] = &[
    "free",
    "_mm_free",
    "__builtin_free",
    "omp_unset_lock",
    "omp_unset_nest_lock",
    "omp_destroy_lock",
    "omp_destroy_nest_lock",
];

/// Checks the cleanup function of a variable, with the functions of the source that it calls. The error is the reason
/// for the refusal.
pub(super) fn check<'t>(all: &[Token<'t>], function: &'t str) -> Result<(), String> {
    Walk::default().visit(all, function)
}

/// A walk over the calls below a cleanup function.
#[derive(Default)]
struct Walk<'t> {
    /// The functions whose calls are being looked at, each called by the one before it.
    callers: Vec<&'t str>,
    done: BTreeSet<&'t str>,
}

impl<'t> Walk<'t> {
    fn visit(&mut self, all: &[Token<'t>], function: &'t str) -> Result<(), String> {
        if !self.done.insert(function) {
            return Ok(());
        }
        self.callers.push(function);
        let why = |what: &str| {
            Err(format!(
                "the attribute `cleanup` is permitted with a function of the source that only releases memory or a lock: `{function}` {what}"
            ))
        };
        let mut bodies = bodies(all, function).peekable();
        if bodies.peek().is_none() {
            return why("is not defined here");
        }
        for body in bodies {
            for (at, token) in body.iter().enumerate() {
                let next = body.get(at + 1).map_or("", |t| t.text);
                let before = at.checked_sub(1).map_or("", |b| body[b].text);
                match token.text {
                    "for" | "while" | "do" | "goto" => return why("holds a loop"),
                    "(" if matches!(before, ")" | "]") => return why("calls through a pointer"),
                    "if" | "sizeof" | "return" => {}
                    name if token.kind == Kind::Word && next == "(" => {
                        // If the source defines a function with the name of one that releases, it may do anything.
                        let is_own = self::bodies(all, name).next().is_some();
                        let is_member = matches!(before, "." | "->");
                        let is_known = is_own || RELEASES.contains(&name);
                        // Recursion is a loop.
                        if is_member || !is_known || self.callers.contains(&name) {
                            return why(&format!("calls `{name}`"));
                        }
                        if is_own {
                            self.visit(all, name)?;
                        }
                    }
                    _ => {}
                }
            }
        }
        self.callers.pop();
        Ok(())
    }
}

/// The tokens between the braces of each definition of `name`.
fn bodies<'a, 't>(all: &'a [Token<'t>], name: &'a str) -> impl Iterator<Item = &'a [Token<'t>]> {
    let heads = all.windows(2).enumerate();
    let heads = heads.filter(move |(_, w)| w[0].text == name && w[1].text == "(");
    heads.filter_map(|(at, _)| {
        let close = closing(all, at + 1, "(", ")")?;
        let open = close + 1;
        let end = closing(all, open, "{", "}")?;
        Some(&all[open + 1..end])
    })
}

/// The index of the sign that closes the one at `from`; none if no opening sign stands there.
fn closing(all: &[Token<'_>], from: usize, open: &str, close: &str) -> Option<usize> {
    if all.get(from)?.text != open {
        return None;
    }
    let mut depth = 0;
    (from..all.len()).find(|at| {
        match all[*at].text {
            sign if sign == open => depth += 1,
            sign if sign == close => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::token::tokens;

    #[test]
    fn only_functions_that_release_resources_may_clean_up() {
        for (text, words) in [
            ("static void f(char **p) { free(*p); }", ""),
            ("static void f(char **p) { if (*p) free(*p); *p = 0; }", ""),
            ("static void f(omp_lock_t **l) { omp_unset_lock(*l); }", ""),
            (
                "static void g(int **p) { free(*p); } static void f(int **p) { g(p); }",
                "",
            ),
            (
                "static void g(int *p) { for (;;) p[0]++; } static void f(int *p) { g(p); }",
                "`g` holds a loop",
            ),
            (
                "static void free(int *p) { work(p); } static void f(int *p) { free(p); }",
                "calls `work`",
            ),
            ("static void f(int *p) { if (*p--) f(p); }", "calls `f`"),
            (
                "static void g(int *p) { free(p); } static void f(int *p) { g(p); g(q); }",
                "",
            ),
            (
                "static void g(int *p) { f(p); } static void f(int *p) { g(p); }",
                "`g` calls `f`",
            ),
            (
                "static void g(int *p) { free(p); } static void f(struct job *j) { j->g(j); }",
                "calls `g`",
            ),
            ("static void f(int *p);", "not defined"),
            ("static void f(struct job *j) { for (;;) work(j); }", "loop"),
            (
                "static void f(struct job *j) { a: j->i++; if (j->i < 9) goto a; }",
                "loop",
            ),
            ("static void f(struct job *j) { work(j); }", "calls `work`"),
            (
                "static void f(struct job *j) { (*j->work)(j); }",
                "through a pointer",
            ),
            (
                "static void f(struct job *j) { j->work(j); }",
                "calls `work`",
            ),
            (
                "static void f(struct job *j) { j->work[0](j); }",
                "through a pointer",
            ),
            (
                "static void f(int *p) { __builtin_memcpy(p, q, n); }",
                "__builtin_memcpy",
            ),
        ] {
            let found = check(&tokens(text), "f");
            match words {
                "" => assert_eq!(found, Ok(()), "{text}"),
                _ => assert!(
                    found.as_ref().is_err_and(|why| why.contains(words)),
                    "{text}: {found:?}"
                ),
            }
        }
    }
}
