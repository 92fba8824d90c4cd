//! Loops without a loop statement.
//!
//! The detection derives the loop nest from `for`, `while` and `do`. Backward jumps, computed jumps, cases inside
//! loops, a `switch` in a loop that steps through states, functions that choose the next function, and recursive
//! functions also make loops, but the detection cannot derive the order and blocks of such loops from the text. This
//! module finds them by tokens, because text that the grammar cannot parse must not hide one.

mod chosen;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::tidy;
use crate::scan::token::{Kind, Token};

/// A loop that the walk does not follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hidden {
    /// Offset of the byte at which the loop was found.
    pub at: usize,
    pub what: String,
}

/// C++ algorithms that loop over their range and process each element.
const LOOPING: &[&str] = &[
    "for_each",
    "for_each_n",
    "transform",
    "generate",
    "generate_n",
    "accumulate",
    "reduce",
    "inner_product",
    "transform_reduce",
    "partial_sum",
    "adjacent_difference",
    "inclusive_scan",
    "exclusive_scan",
    "transform_inclusive_scan",
    "transform_exclusive_scan",
];

/// The first loop that the walk does not follow.
pub(super) fn find(all: &[Token<'_>], is_cxx: bool) -> Option<Hidden> {
    let all = &tidy::without_brackets(all);
    let functions = functions(all);
    let found = [
        jumps(all, &functions),
        cases(all),
        states::find(all, &functions),
        chosen::find(all, &functions),
        recursion(all, &functions),
        algorithms(all, &functions).filter(|_| is_cxx),
    ];
    found.into_iter().flatten().min_by_key(|hidden| hidden.at)
}

/// The definition of a function.
struct Function<'t> {
    name: &'t str,
    /// The tokens between its braces.
    body: Range<usize>,
}

/// All function definitions, including those within other functions.
fn functions<'t>(all: &[Token<'t>]) -> Vec<Function<'t>> {
    let closing = partners(all, "{", "}");
    let mut found = Vec::new();
    for (at, token) in all.iter().enumerate() {
        if token.text == "{"
            && let Some(name) = head(all, at)
        {
            let end = closing.get(&at).copied().unwrap_or(all.len());
            found.push(Function {
                name: all[name].text,
                body: at + 1..end,
            });
        }
    }
    found
}

/// Maps the index of each opening sign to that of its closing sign.
fn partners(all: &[Token<'_>], open: &str, close: &str) -> BTreeMap<usize, usize> {
    let mut stack = Vec::new();
    let mut found = BTreeMap::new();
    for (at, token) in all.iter().enumerate() {
        if token.text == open {
            stack.push(at);
        } else if token.text == close
            && let Some(start) = stack.pop()
        {
            found.insert(start, at);
        }
    }
    found
}

/// The index of the name of the function whose body begins with the brace at `open`.
fn head(all: &[Token<'_>], open: usize) -> Option<usize> {
    let mut at = open;
    // An old-style (K&R) definition declares its parameters between the parentheses and the brace.
    while at > 0 && all[at - 1].text == ";" {
        let rest = &all[..at - 1];
        let begin = rest
            .iter()
            .rposition(|t| matches!(t.text, ";" | "{" | "}" | ")"))?;
        at = match rest[begin].text {
            // A type stands between the parameters and the first `;`.
            ")" if rest.get(begin + 1).is_some_and(|t| t.kind == Kind::Word) => begin + 1,
            ";" => begin + 1,
            _ => return None,
        };
        if at == 0 || all[at - 1].text == ")" {
            break;
        }
    }
    for _ in 0..16 {
        let before = at.checked_sub(1)?;
        match all[before].text {
            ")" => {
                let name = opening(all, before)?.checked_sub(1)?;
                match all[name].text {
                    "__attribute__" | "__attribute" | "noexcept" | "alignas" | "_Alignas" => {
                        at = name;
                    }
                    "if" | "for" | "while" | "switch" | "catch" | "return" | "sizeof"
                    | "constexpr" | "requires" | "decltype" => return None,
                    _ => return (all[name].kind == Kind::Word).then_some(name),
                }
            }
            "const" | "noexcept" | "override" | "final" | "mutable" => at = before,
            _ => return None,
        }
    }
    None
}

/// The opening parenthesis that the one at `close` closes.
fn opening(all: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0i32;
    for at in (0..=close).rev() {
        match all[at].text {
            ")" => depth += 1,
            "(" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn text<'t>(all: &[Token<'t>], at: usize) -> &'t str {
    all.get(at).map_or("", |t| t.text)
}

/// The first backward jump, or jump with an unknown target. A forward jump makes no loop.
fn jumps(all: &[Token<'_>], functions: &[Function<'_>]) -> Option<Hidden> {
    all.iter().enumerate().find_map(|(at, token)| {
        if token.text != "goto" {
            return None;
        }
        let hidden = |what: String| Some(Hidden { at: token.at, what });
        let label = text(all, at + 1);
        if label == "*" {
            return hidden(
                "`goto *` jumps to a target that the source does not name: such a jump".into(),
            );
        }
        let within = functions
            .iter()
            .filter(|f| f.body.contains(&at))
            .min_by_key(|f| f.body.len());
        let range = within.map_or(0..all.len(), |f| f.body.clone());
        let mut places = range.clone().filter(|p| is_label(all, *p, label));
        match places.next() {
            Some(place) if place < at => hidden(format!(
                "`goto {label}` jumps back: a loop made of a label and a jump"
            )),
            Some(_) => None,
            None => hidden(format!(
                "`goto {label}` leaves its function: a jump between functions"
            )),
        }
    })
}

/// True if `label` is defined at this place. The `:` of a C++ scope, of a bit-field's width or of `?` follows other
/// tokens.
fn is_label(all: &[Token<'_>], at: usize, label: &str) -> bool {
    let before = at.checked_sub(1).map_or(";", |b| text(all, b));
    text(all, at) == label
        && text(all, at + 1) == ":"
        && text(all, at + 2) != ":"
        && matches!(before, ";" | "{" | "}" | ":" | ")" | "else" | "do")
}

/// The kind of statement that a brace belongs to.
#[derive(PartialEq, Clone, Copy)]
enum Block {
    Loop,
    Switch,
    Other,
}

fn block(all: &[Token<'_>], open: usize) -> Block {
    match open.checked_sub(1).map_or("", |b| text(all, b)) {
        "do" => Block::Loop,
        ")" => match opening(all, open - 1).map_or("", |p| text(all, p.wrapping_sub(1))) {
            "for" | "while" => Block::Loop,
            "switch" => Block::Switch,
            _ => Block::Other,
        },
        _ => Block::Other,
    }
}

/// The first `case` that a `switch` reaches inside a loop.
fn cases(all: &[Token<'_>]) -> Option<Hidden> {
    let mut open: Vec<Block> = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match token.text {
            "{" => open.push(block(all, at)),
            "}" => {
                open.pop();
            }
            "case" | "default" => {
                if token.text == "default" && text(all, at + 1) != ":" {
                    continue;
                }
                let before = at.checked_sub(1).map_or("", |b| text(all, b));
                // A selection by type (`_Generic`).
                if matches!(before, "," | "(") {
                    continue;
                }
                // A body without braces: after `do`, or after the head of a loop or a condition.
                let bare = match before {
                    "do" | "else" => true,
                    ")" => {
                        let word =
                            opening(all, at - 1).map_or("", |p| text(all, p.wrapping_sub(1)));
                        matches!(word, "for" | "while" | "if")
                    }
                    _ => false,
                };
                let inner = open.iter().rev().find(|b| **b != Block::Other);
                if bare || inner == Some(&Block::Loop) {
                    return Some(Hidden {
                        at: token.at,
                        what: "a `case` is inside of a loop: a loop that a `switch` enters in its middle".into(),
                    });
                }
            }
            _ => {}
        }
    }
    None
}

/// The first function that calls itself or is part of a cycle of calls. Calls through pointers count as far as the
/// functions are named.
fn recursion(all: &[Token<'_>], functions: &[Function<'_>]) -> Option<Hidden> {
    let names: BTreeSet<&str> = functions.iter().map(|f| f.name).collect();
    // For each function, the functions that its body names, and the token of each name.
    let mut named: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for function in functions {
        for at in function.body.clone() {
            let name = text(all, at);
            let member = matches!(at.checked_sub(1).map_or("", |b| text(all, b)), "." | "->");
            if names.contains(name) && !member {
                let of = named.entry(function.name).or_default();
                of.entry(name).or_insert(at);
            }
        }
    }
    let (name, to, at) = ring(&named)?;
    Some(Hidden {
        at: all[at].at,
        what: if name == to {
            format!("`{name}` calls itself: a loop made of calls")
        } else {
            format!("`{name}` calls `{to}`, which leads back to it: a loop made of calls")
        },
    })
}

/// The first edge that closes a cycle in the graph of functions that name each other, with its token. Each name is
/// visited once.
fn ring<'t>(
    named: &BTreeMap<&'t str, BTreeMap<&'t str, usize>>,
) -> Option<(&'t str, &'t str, usize)> {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in named.keys() {
        let mut path: Vec<(&str, Vec<(&str, usize)>)> = Vec::new();
        let mut on_path: BTreeSet<&str> = BTreeSet::new();
        let mut next = Some(*start);
        loop {
            if let Some(name) = next.take()
                && !done.contains(name)
            {
                let called = named.get(name).into_iter().flatten();
                path.push((name, called.map(|(to, at)| (*to, *at)).collect()));
                on_path.insert(name);
            }
            let Some((name, rest)) = path.last_mut() else {
                break;
            };
            match rest.pop() {
                Some((to, at)) if on_path.contains(to) => return Some((*name, to, at)),
                Some((to, _)) => next = Some(to),
                None => {
                    let name = *name;
                    done.insert(name);
                    on_path.remove(name);
                    path.pop();
                }
            }
        }
    }
    None
}

/// The first call of a C++ library algorithm that contains a loop.
fn algorithms(all: &[Token<'_>], functions: &[Function<'_>]) -> Option<Hidden> {
    let renamed = renames_library(all);
    all.iter().enumerate().find_map(|(at, token)| {
        if !LOOPING.contains(&token.text) {
            return None;
        }
        // `std::template reduce<int *>` names what `std::reduce<int *>` names.
        let is_template = at.checked_sub(1).map_or("", |b| text(all, b)) == "template";
        let end = if is_template { at - 1 } else { at };
        let before = |n: usize| end.checked_sub(n).map_or("", |b| text(all, b));
        let own = functions.iter().any(|f| f.name == token.text);
        let is_of_library = match (before(2), before(1)) {
            (_, "." | "->") => false,
            // Any other namespace may be an alias of `std` or open it, as may the global one.
            (":", ":") => match before(3) {
                "std" | "ranges" => true,
                scope => !(is_class(all, scope) || own && !renamed),
            },
            _ => is_called(all, at) && !own,
        };
        is_of_library.then(|| Hidden {
            at: token.at,
            what: format!(
                "`{}` is a library algorithm: the loop inside it",
                token.text
            ),
        })
    })
}

/// True if the source names a namespace anew, or opens one that it does not define. Then a function that it defines may
/// not be the one that a qualified name means.
fn renames_library(all: &[Token<'_>]) -> bool {
    let defines = |name: &str| {
        let mut three = all.windows(3);
        name != "std"
            && three.any(|w| w[0].text == "namespace" && w[1].text == name && w[2].text == "{")
    };
    (0..all.len()).any(|at| match (text(all, at), text(all, at + 1)) {
        ("using", "namespace") => {
            let named = all.iter().skip(at + 2).take_while(|t| t.text != ";");
            let mut words = named.filter(|t| t.kind == Kind::Word);
            words.any(|word| !defines(word.text))
        }
        ("namespace", _) => text(all, at + 2) == "=",
        _ => false,
    })
}

/// True if this name is only that of a class or an enumeration, whose members are never functions of the library.
fn is_class(all: &[Token<'_>], name: &str) -> bool {
    let follows = |w: &[Token<'_>], words: &[&str]| words.contains(&w[0].text) && w[1].text == name;
    let defined = |w: &[Token<'_>]| follows(w, &["struct", "class", "union", "enum"]);
    // `namespace name`, `namespace outer::name {`
    let is_namespace =
        |w: &[Token<'_>]| follows(w, &["namespace"]) || (follows(w, &[":"]) && w[2].text == "{");
    all.windows(3).any(defined) && !all.windows(3).any(is_namespace)
}

/// True if the name at this place is called: `f(…)`, `(f)(…)` or `f<…>(…)`.
fn is_called(all: &[Token<'_>], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).map_or("", |b| text(all, b));
    match text(all, at + 1) {
        "(" => true,
        ")" => {
            before(1) == "("
                && text(all, at + 2) == "("
                && !matches!(before(2), "if" | "while" | "switch")
        }
        "<" => {
            let mut depth = 0i32;
            for close in at + 1..all.len() {
                match text(all, close) {
                    "<" => depth += 1,
                    ">" => depth -= 1,
                    ">>" => depth -= 2,
                    // A comparison, and no list of template arguments.
                    ";" | "{" | "}" | "&&" | "||" => return false,
                    _ => {}
                }
                if depth <= 0 {
                    return text(all, close + 1) == "(";
                }
            }
            false
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
