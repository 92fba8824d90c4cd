//! Variables that choose the function that sets them. A loop around such a call runs through states, each of which may
//! be a loop of its own.

use std::collections::BTreeMap;

use super::{Function, Hidden, partners, text};
use crate::scan::token::{Kind, Token};

/// Comparisons of words that a source may cost. Generated kernels of a hundred kilobytes need far fewer.
const STEPS: usize = 20_000_000;

/// The first variable that is set by a call of a function which the variable itself chooses: `s = table[s](n)` or
/// `p = p(n)`. A source whose assignments are too long to follow counts as one with such a variable.
pub(super) fn find(all: &[Token<'_>], functions: &[Function<'_>]) -> Option<Hidden> {
    let source = Source::of(all);
    let mut steps = 0;
    for at in (1..all.len()).filter(|at| text(all, *at) == "=") {
        let Some(name) = source.set(at) else {
            continue;
        };
        let word = text(all, name);
        let function = functions.iter().any(|f| f.name == word);
        for place in value(all, at) {
            steps += 1;
            let chooses = source.called[place] && {
                let subscripts = source.subscripts(at, place);
                steps += subscripts.len();
                subscripts.into_iter().any(|p| same(all, name, p))
                    || !function && same(all, name, place)
            };
            if chooses || steps > STEPS {
                return Some(Hidden {
                    at: all[at].at,
                    what: match chooses {
                        true => format!(
                            "`{word}` chooses the function that sets it: a loop that runs through states"
                        ),
                        false => "the assignments of the source are too long to follow".to_owned(),
                    },
                });
            }
        }
    }
    None
}

/// The tokens of a source, and the pairs of its brackets.
struct Source<'s, 't> {
    all: &'s [Token<'t>],
    /// The opening bracket of each closing one.
    opened: BTreeMap<usize, usize>,
    /// For each token, whether the function whose expression ends there is called.
    called: Vec<bool>,
}

impl<'s, 't> Source<'s, 't> {
    fn of(all: &'s [Token<'t>]) -> Self {
        let opened = |open, close| -> BTreeMap<usize, usize> {
            let pairs = partners(all, open, close).into_iter();
            pairs.map(|(open, close)| (close, open)).collect()
        };
        let parentheses = opened("(", ")");
        // `f(…)`, `(f)(…)` or `(*f)(…)`; the parenthesis of `g(f)(…)` follows a name.
        let encloses = |open: &usize| *open > 0 && all[open - 1].kind != Kind::Word;
        let called = |end: usize| match text(all, end + 1) {
            "(" => true,
            ")" => text(all, end + 2) == "(" && parentheses.get(&(end + 1)).is_some_and(encloses),
            _ => false,
        };
        Self {
            all,
            opened: opened("[", "]"),
            called: (0..all.len()).map(called).collect(),
        }
    }

    /// The place of the name of the variable that the `=` at this place sets.
    fn set(&self, at: usize) -> Option<usize> {
        let mut name = at - 1;
        while text(self.all, name) == "]" {
            name = self.opened.get(&name)?.checked_sub(1)?;
        }
        (self.all[name].kind == Kind::Word).then_some(name)
    }

    /// The places within the subscripts that end at `end`, behind the `=` at `at`.
    fn subscripts(&self, at: usize, end: usize) -> std::ops::Range<usize> {
        let mut from = end;
        while text(self.all, from) == "]" {
            let Some(open) = self.opened.get(&from).filter(|open| **open > at + 1) else {
                break;
            };
            from = open - 1;
        }
        // The captures of a lambda follow no name.
        match self.all[from].kind == Kind::Word && from < end {
            true => from + 1..end,
            false => end..end,
        }
    }
}

/// The places of the value that the `=` at this place assigns.
pub(super) fn value(all: &[Token<'_>], at: usize) -> impl Iterator<Item = usize> {
    let mut depth = 0i32;
    (at + 1..all.len()).take_while(move |place| {
        match text(all, *place) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ";" | "," if depth == 0 => return false,
            _ => {}
        }
        depth >= 0
    })
}

/// True if both places name the same variable.
fn same(all: &[Token<'_>], name: usize, place: usize) -> bool {
    if text(all, place) != text(all, name) {
        return false;
    }
    // A member has a name that other functions may have: only that of the same object is the same. A name behind `::`
    // is that of another function.
    match (before(all, name, 1), before(all, place, 1)) {
        (_, ":") => false,
        ("." | "->", "." | "->") => {
            let object = before(all, name, 2);
            // Of elements, the last words of the subscripts have to agree as well.
            object == before(all, place, 2)
                && object != ")"
                && (object != "]" || before(all, name, 3) == before(all, place, 3))
        }
        ("." | "->", _) | (_, "." | "->") => false,
        _ => true,
    }
}

fn before<'t>(all: &[Token<'t>], at: usize, by: usize) -> &'t str {
    at.checked_sub(by).map_or("", |place| text(all, place))
}
