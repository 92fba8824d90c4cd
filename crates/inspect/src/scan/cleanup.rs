//! Functions that run when a variable's scope ends (`__attribute__((cleanup(f)))`).
//!
//! The program does not call these functions explicitly, so a check of calls does not find their work. A function that
//! only releases the variable's resource is permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Flatten;
use std::ops::Range;

use super::token::{Kind, Token, partners};

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

/// The functions of a source, as far as they may clean up.
pub(super) struct Functions<'a, 't> {
    all: &'a [Token<'t>],
    /// For each name, the places of the tokens between the braces of its definitions.
    bodies: BTreeMap<&'t str, Vec<Range<usize>>>,
    /// Functions whose bodies were looked at, with all that they call.
    done: BTreeSet<&'t str>,
}

/// A function whose calls are being looked at.
struct Caller<'t> {
    name: &'t str,
    /// The places of its body that were not looked at yet.
    rest: Flatten<std::vec::IntoIter<Range<usize>>>,
}

impl<'a, 't> Functions<'a, 't> {
    pub fn of(all: &'a [Token<'t>]) -> Self {
        let (parentheses, braces) = (partners(all, "(", ")"), partners(all, "{", "}"));
        let mut bodies: BTreeMap<&str, Vec<Range<usize>>> = BTreeMap::new();
        for (open, close) in parentheses {
            let name = open.checked_sub(1).map(|at| all[at].text);
            if let (Some(name), Some(end)) = (name, braces.get(&(close + 1))) {
                bodies.entry(name).or_default().push(close + 2..*end);
            }
        }
        Functions {
            all,
            bodies,
            done: BTreeSet::new(),
        }
    }

    /// Checks the cleanup function of a variable, with the functions of the source that it calls. The error is the
    /// reason for the refusal.
    ///
    /// The functions that are being looked at stand in a list: a source may have a chain of thousands of calls, which
    /// would overflow the stack.
    pub fn check(&mut self, function: &'t str) -> Result<(), String> {
        let mut callers: Vec<Caller<'t>> = Vec::new();
        let mut running: BTreeSet<&'t str> = BTreeSet::new();
        let mut next = Some(function);
        loop {
            if let Some(name) = next.take()
                && self.done.insert(name)
            {
                let Some(bodies) = self.bodies.get(name) else {
                    return Err(refusal(name, "is not defined here"));
                };
                let rest = bodies.clone().into_iter().flatten();
                callers.push(Caller { name, rest });
                running.insert(name);
            }
            let Some(caller) = callers.last_mut() else {
                return Ok(());
            };
            next = self.called(caller, &running)?;
            if next.is_none() {
                running.remove(caller.name);
                callers.pop();
            }
        }
    }

    /// The next function of the source that a caller calls; none at the end of its body.
    fn called(
        &self,
        caller: &mut Caller<'t>,
        running: &BTreeSet<&'t str>,
    ) -> Result<Option<&'t str>, String> {
        let text = |at: usize| self.all.get(at).map_or("", |t| t.text);
        for at in caller.rest.by_ref() {
            let why = |what: &str| Err(refusal(caller.name, what));
            let before = text(at.wrapping_sub(1));
            let token = &self.all[at];
            match token.text {
                "for" | "while" | "do" | "goto" => return why("holds a loop"),
                "(" if matches!(before, ")" | "]") => return why("calls through a pointer"),
                "if" | "sizeof" | "return" => {}
                name if token.kind == Kind::Word && text(at + 1) == "(" => {
                    // If the source defines a function with the name of one that releases, it may do anything.
                    let is_own = self.bodies.contains_key(name);
                    let is_member = matches!(before, "." | "->");
                    let is_known = is_own || RELEASES.contains(&name);
                    // Recursion is a loop.
                    if is_member || !is_known || running.contains(name) {
                        return why(&format!("calls `{name}`"));
                    }
                    if is_own {
                        return Ok(Some(name));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn refusal(function: &str, what: &str) -> String {
    format!(
        "the attribute `cleanup` is permitted with a function of the source that only releases memory or a lock: `{function}` {what}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use crate::scan::token::tokens;

    #[test]
    fn the_page_names_each_function_that_releases() {
        page::compare(
            "Functions that clean up",
            &[page::names(RELEASES.iter().copied())],
        );
    }

    #[test]
    fn a_long_chain_of_calls_is_followed_to_its_end() {
        let chain: String = (0..20_000)
            .map(|n| format!("static void f{}(int *p) {{ f{n}(p); f0(p); }}\n", n + 1))
            .collect();
        for (last, good) in [("free(p);", true), ("f7(p);", false)] {
            let text = format!("static void f0(int *p) {{ {last} }}\n{chain}");
            let all = tokens(&text);
            let mut functions = Functions::of(&all);
            assert_eq!(functions.check("f20000").is_ok(), good, "{last}");
            if good {
                assert_eq!(functions.check("f9"), Ok(()));
            }
        }
    }

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
            let all = tokens(text);
            let found = Functions::of(&all).check("f");
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
