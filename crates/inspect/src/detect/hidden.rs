//! Loops without a loop statement.
//!
//! The detection derives the loop nest from `for`, `while` and `do`. Backward jumps, computed jumps, cases inside
//! loops, a `switch` in a loop that steps through states, functions that choose the next function, objects with functions
//! that a loop goes through, and recursive functions also make loops, but the detection cannot derive the order and blocks of such loops from the text. This
//! module finds them by tokens, because text that the grammar cannot parse must not hide one.

mod chosen;
mod linked;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use flopsmith_problem::Language;

use super::tidy;
use crate::scan::token::{Kind, Token, partners, too_deep};

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

/// The first loop that the walk does not follow. Fortran is given as its text in C, in which no member is a function.
pub(super) fn find(all: &[Token<'_>], language: Language) -> Option<Hidden> {
    let is_cxx = language == Language::Cxx;
    if let Some(at) = too_deep(all) {
        let what = "the brackets of the source nest too deeply to follow: a loop in them".into();
        return Some(Hidden { at, what });
    }
    let all = &tidy::without_brackets(all);
    let opened = openings(all);
    let functions = functions(all, &opened);
    let within = innermost(all.len(), &functions);
    let found = [
        jumps(all, &functions, &within),
        cases(all, &opened),
        states::find(all, &opened, &functions, &within),
        chosen::find(all, &functions),
        (!language.is_fortran())
            .then(|| linked::find(all, &functions, &within, is_cxx))
            .flatten(),
        recursion(all, &functions),
        algorithms(all, &functions).filter(|_| is_cxx),
    ];
    found.into_iter().flatten().min_by_key(|hidden| hidden.at)
}

/// The definition of a function.
struct Function<'t> {
    name: &'t str,
    /// The token of its name.
    head: usize,
    /// The tokens between its braces.
    body: Range<usize>,
}

/// All function definitions, including those within other functions.
fn functions<'t>(all: &[Token<'t>], opened: &[Option<usize>]) -> Vec<Function<'t>> {
    let closing = partners(all, "{", "}");
    let mut found = Vec::new();
    for (at, token) in all.iter().enumerate() {
        if token.text == "{"
            && let Some(name) = head(all, opened, at)
        {
            let end = closing.get(&at).copied().unwrap_or(all.len());
            found.push(Function {
                name: all[name].text,
                head: name,
                body: at + 1..end,
            });
        }
    }
    found
}

/// For each token, the number of the innermost function around it.
fn innermost(tokens: usize, functions: &[Function<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; tokens];
    // The functions stand in the order of their braces, so one within another comes behind it.
    for (number, function) in functions.iter().enumerate() {
        found[function.body.clone()].fill(Some(number));
    }
    found
}

/// For each closing parenthesis, the one that it closes.
fn openings(all: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; all.len()];
    for (open, close) in partners(all, "(", ")") {
        found[close] = Some(open);
    }
    found
}

/// The index of the name of the function whose body begins with the brace at `open`.
fn head(all: &[Token<'_>], opened: &[Option<usize>], open: usize) -> Option<usize> {
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
                let name = opened[before]?.checked_sub(1)?;
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

fn text<'t>(all: &[Token<'t>], at: usize) -> &'t str {
    all.get(at).map_or("", |t| t.text)
}

/// The first backward jump, or jump with an unknown target. A forward jump makes no loop.
fn jumps(
    all: &[Token<'_>],
    functions: &[Function<'_>],
    within: &[Option<usize>],
) -> Option<Hidden> {
    let labels = labels(all);
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
        let range = within[at].map_or(0..all.len(), |f| functions[f].body.clone());
        let places = labels.get(label).map_or(&[][..], Vec::as_slice);
        let first = places.partition_point(|place| *place < range.start);
        match places.get(first).filter(|place| **place < range.end) {
            Some(place) if *place < at => hidden(format!(
                "`goto {label}` jumps back: a loop made of a label and a jump"
            )),
            Some(_) => None,
            None => hidden(format!(
                "`goto {label}` leaves its function: a jump between functions"
            )),
        }
    })
}

/// For each label, the places at which it is defined, in their order.
fn labels<'t>(all: &[Token<'t>]) -> BTreeMap<&'t str, Vec<usize>> {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for at in (0..all.len()).filter(|at| is_label(all, *at)) {
        found.entry(all[at].text).or_default().push(at);
    }
    found
}

/// True if a label is defined at this place. The `:` of a C++ scope, of a bit-field's width or of `?` follows other
/// tokens.
fn is_label(all: &[Token<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).map_or(";", |b| text(all, b));
    text(all, at + 1) == ":"
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

fn block(all: &[Token<'_>], opened: &[Option<usize>], open: usize) -> Block {
    match open.checked_sub(1).map_or("", |b| text(all, b)) {
        "do" => Block::Loop,
        ")" => match opened[open - 1].map_or("", |p| text(all, p.wrapping_sub(1))) {
            "for" | "while" => Block::Loop,
            "switch" => Block::Switch,
            _ => Block::Other,
        },
        _ => Block::Other,
    }
}

/// The first `case` that a `switch` reaches inside a loop.
fn cases(all: &[Token<'_>], opened: &[Option<usize>]) -> Option<Hidden> {
    let mut open: Vec<Block> = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match token.text {
            "{" => open.push(block(all, opened, at)),
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
                        let word = opened[at - 1].map_or("", |p| text(all, p.wrapping_sub(1)));
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
    let classes = classes(all);
    let own: BTreeSet<&str> = functions.iter().map(|f| f.name).collect();
    all.iter().enumerate().find_map(|(at, token)| {
        if !LOOPING.contains(&token.text) {
            return None;
        }
        // `std::template reduce<int *>` names what `std::reduce<int *>` names.
        let is_template = at.checked_sub(1).map_or("", |b| text(all, b)) == "template";
        let end = if is_template { at - 1 } else { at };
        let before = |n: usize| end.checked_sub(n).map_or("", |b| text(all, b));
        let own = own.contains(token.text);
        let is_of_library = match (before(2), before(1)) {
            (_, "." | "->") => false,
            // Any other namespace may be an alias of `std` or open it, as may the global one.
            (":", ":") => match before(3) {
                "std" | "ranges" => true,
                scope => !(classes.contains(scope) || own && !renamed),
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
    let defined = all
        .windows(3)
        .filter(|w| w[0].text == "namespace" && w[2].text == "{");
    let defined: BTreeSet<&str> = defined
        .map(|w| w[1].text)
        .filter(|name| *name != "std")
        .collect();
    (0..all.len()).any(|at| match (text(all, at), text(all, at + 1)) {
        ("using", "namespace") => {
            let named = all.iter().skip(at + 2).take_while(|t| t.text != ";");
            let mut words = named.filter(|t| t.kind == Kind::Word);
            words.any(|word| !defined.contains(word.text))
        }
        ("namespace", _) => text(all, at + 2) == "=",
        _ => false,
    })
}

/// Names that are only those of classes or enumerations, whose members are never functions of the library.
fn classes<'t>(all: &[Token<'t>]) -> BTreeSet<&'t str> {
    let defines = |w: &&[Token<'_>]| matches!(w[0].text, "struct" | "class" | "union" | "enum");
    let mut found: BTreeSet<&str> = all.windows(3).filter(defines).map(|w| w[1].text).collect();
    for w in all.windows(3) {
        // `namespace name`, `namespace outer::name {`
        if w[0].text == "namespace" || (w[0].text == ":" && w[2].text == "{") {
            found.remove(w[1].text);
        }
    }
    found
}

/// Arguments of a template have at most so many tokens.
const LONGEST: usize = 400;

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
            for close in at + 1..all.len().min(at + LONGEST) {
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
            // Longer arguments may be those of a call.
            at + LONGEST < all.len()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
