//! A `switch` inside a loop that sets a variable of its condition: the loop runs through states, each of which may be a
//! loop of its own.
//!
//! A state outlives an iteration. A variable that gets a new value in front of the `switch` in every iteration is no
//! state, and neither is one that the loop only counts, as the head of a `for` does.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Block, Function, Hidden, block, chosen, partners, text};
use crate::scan::token::{Kind, Token};

/// Places of changes that are looked at. Programs need some thousands.
const STEPS: usize = 20_000_000;

/// The first loop that runs through states. A source whose changes are too many to follow counts as one. `within` has the
/// innermost function around each token.
pub(super) fn find(
    all: &[Token<'_>],
    opened: &[Option<usize>],
    functions: &[Function<'_>],
    within: &[Option<usize>],
) -> Option<Hidden> {
    let source = Source::of(all, opened);
    let mut switches = source.switches.iter();
    switches.find_map(|switch| {
        let function = within[switch.at].map(|number| &functions[number]);
        source.states(switch, function)
    })
}

/// The way in which a place changes a variable.
#[derive(Clone, Copy)]
enum Change {
    /// In the head of a loop.
    InHead,
    /// By a literal number, each time its block is executed.
    Counts,
    /// To a value that does not depend on the old one, each time its block is executed. If the value is one word only,
    /// at this place, the variable becomes a copy of it.
    Renews(Option<usize>),
    Other,
}

struct Place {
    at: usize,
    /// The brace that opens the block of the place.
    block: Option<usize>,
    change: Change,
}

struct Switch {
    at: usize,
    /// True for the body of a loop without braces.
    is_body: bool,
    block: Option<usize>,
}

/// The meaning of words among some tokens.
#[derive(Clone, Copy, Default)]
struct Words {
    /// A value that is kept, or chosen by a condition.
    keeps: bool,
    loops: bool,
}

impl Words {
    fn of(word: &str) -> Self {
        Words {
            keeps: matches!(
                word,
                "?" | "static" | "thread_local" | "_Thread_local" | "__thread"
            ),
            loops: matches!(word, "for" | "while" | "do"),
        }
    }

    fn add(&mut self, other: Words) {
        self.keeps |= other.keeps;
        self.loops |= other.loops;
    }
}

/// A block that is open at a token.
#[derive(Clone, Copy)]
struct Open {
    /// None outside of all braces.
    brace: Option<usize>,
    kind: Block,
    /// The first token of the current statement.
    start: usize,
    /// Number of parentheses and brackets that are open within the block.
    depth: usize,
    /// The words of the current statement so far, and of the whole block.
    statement: Words,
    whole: Words,
}

impl Open {
    fn new(brace: Option<usize>, kind: Block, start: usize) -> Self {
        Open {
            brace,
            kind,
            start,
            depth: 0,
            statement: Words::default(),
            whole: Words::default(),
        }
    }

    fn note(&mut self, words: Words) {
        self.statement.add(words);
        self.whole.add(words);
    }
}

/// The tokens of a source, and what they say about blocks and variables.
struct Source<'s, 't> {
    all: &'s [Token<'t>],
    braces: BTreeMap<usize, usize>,
    parentheses: BTreeMap<usize, usize>,
    /// For the brace that opens a block, the block's kind and the brace that opens the block around it.
    blocks: BTreeMap<usize, (Block, Option<usize>)>,
    switches: Vec<Switch>,
    /// For each name, the places that change it, in their order.
    changes: BTreeMap<&'t str, Vec<Place>>,
    /// For each name, the places that take its address.
    addresses: BTreeMap<&'t str, Vec<usize>>,
    steps: Cell<usize>,
}

impl<'s, 't> Source<'s, 't> {
    fn of(all: &'s [Token<'t>], opened: &[Option<usize>]) -> Self {
        let mut source = Self {
            all,
            braces: partners(all, "{", "}"),
            parentheses: partners(all, "(", ")"),
            blocks: BTreeMap::new(),
            switches: Vec::new(),
            changes: BTreeMap::new(),
            addresses: BTreeMap::new(),
            steps: Cell::new(0),
        };
        let mut open = vec![Open::new(None, Block::Other, 0)];
        let mut end_of_head = 0;
        for (at, token) in all.iter().enumerate() {
            let Some(here) = open.last().copied() else {
                break;
            };
            match token.text {
                "{" => {
                    let kind = block(all, opened, at);
                    source.blocks.insert(at, (kind, here.brace));
                    open.push(Open::new(Some(at), kind, at + 1));
                }
                "&" => {
                    if let Some(name) = addressed(all, at) {
                        source.addresses.entry(name).or_default().push(at);
                    }
                }
                "for" | "while" => {
                    let end = source.parentheses.get(&(at + 1)).copied();
                    end_of_head = end_of_head.max(end.unwrap_or(0));
                }
                "switch" => source.switches.push(Switch {
                    at,
                    is_body: here.statement.loops,
                    block: here.brace,
                }),
                name if token.kind == Kind::Word => {
                    if let Some(change) = change(all, at, here, at < end_of_head) {
                        source.changes.entry(name).or_default().push(Place {
                            at,
                            block: here.brace,
                            change,
                        });
                    }
                }
                sign => follow(&mut open, at, sign),
            }
            if let Some(here) = open.last_mut() {
                here.note(Words::of(token.text));
            }
        }
        source
    }

    /// The state of a `switch` that a loop around it sets.
    fn states(&self, switch: &Switch, function: Option<&Function<'_>>) -> Option<Hidden> {
        let all = self.all;
        let end = *self.parentheses.get(&(switch.at + 1))?;
        let is_body = switch.is_body;
        let blocks: Vec<(usize, Block)> = self.around(switch.block).collect();
        if !is_body && blocks.iter().all(|(_, kind)| *kind != Block::Loop) {
            return None;
        }
        let asked = all[switch.at + 2..end].iter();
        let mut once = BTreeSet::new();
        let asked = asked.filter(|t| t.kind == Kind::Word && once.insert(t.text));
        let mut names: Vec<(&str, usize)> = asked.map(|t| (t.text, switch.at)).collect();
        let hidden = |what: String| Hidden {
            at: all[switch.at].at,
            what,
        };
        let close = self.braces.get(&(end + 1)).copied().unwrap_or(end + 1);
        let own = |name: &str| {
            let mut places = self.places(name).iter();
            places.any(|place| (end + 1..close).contains(&place.at))
        };
        if let Some((name, _)) = names.iter().find(|(name, _)| own(name)) {
            return Some(hidden(format!(
                "a `switch` inside a loop sets `{name}`, a variable of its own condition: a loop that runs through states"
            )));
        }
        let within = function.map_or(0..all.len(), |f| f.body.clone());
        let has_address = |name: &str| {
            let places = self.addresses.get(name);
            places.is_some_and(|places| places.iter().any(|place| within.contains(place)))
        };
        let mut asked = names.iter();
        let set = asked.find(|(name, _)| is_body && has_address(name));
        let mut state = set.copied();
        for (brace, kind) in blocks {
            if state.is_some() {
                break;
            }
            self.renew(&mut names, brace);
            if self.steps.get() > STEPS {
                return Some(hidden(
                    "the states of the source are too many to follow: a loop that runs through them".into(),
                ));
            }
            let mut kept = names.iter();
            let set = kept.find(|(name, _)| {
                kind == Block::Loop && (has_address(name) || self.sets(brace, name, switch.at))
            });
            state = set.copied();
        }
        state.map(|(name, _)| {
            hidden(format!(
                "a loop sets `{name}`, a variable of the condition of a `switch` inside it: a loop that runs through states"
            ))
        })
    }

    /// The blocks around a place whose own block begins with this brace, and that block, from the innermost one.
    fn around(&self, block: Option<usize>) -> impl Iterator<Item = (usize, Block)> {
        let outer = move |brace: &usize| self.blocks.get(brace).and_then(|(_, outer)| *outer);
        let braces = std::iter::successors(block, outer);
        braces.filter_map(move |brace| Some((brace, self.blocks.get(&brace)?.0)))
    }

    /// The places that change a variable.
    fn places(&self, name: &str) -> &[Place] {
        let places = self.changes.get(name);
        places.map(Vec::as_slice).unwrap_or_default()
    }

    /// Replaces each variable that this block renews by the one that it is a copy of, if there is one. Beside each
    /// variable stands the place at which its value counts.
    fn renew(&self, names: &mut Vec<(&'t str, usize)>, brace: usize) {
        let mut n = 0;
        while let Some(&(name, before)) = names.get(n) {
            self.steps.set(self.steps.get() + self.places(name).len());
            let renewal = self.places(name).iter().rev().find_map(|place| {
                let Change::Renews(copied) = place.change else {
                    return None;
                };
                let is_reached = place.block == Some(brace)
                    && place.at < before
                    && !self.has(brace..place.at, &["goto"]);
                is_reached.then_some((place.at, copied))
            });
            match renewal {
                None => n += 1,
                Some((at, copied)) => {
                    names.swap_remove(n);
                    names.extend(copied.map(|word| (text(self.all, word), at)));
                }
            }
        }
    }

    /// True if the block of a loop around the `switch` sets a variable.
    fn sets(&self, brace: usize, name: &str, switch: usize) -> bool {
        let body = self.body(brace);
        let mut places = self.places(name).iter();
        places.any(|place| {
            body.contains(&place.at)
                && match place.change {
                    Change::InHead => false,
                    Change::Counts => !self.is_step(place, switch),
                    Change::Renews(_) | Change::Other => true,
                }
        })
    }

    /// True if every iteration of a loop around the `switch` reaches this place.
    fn is_step(&self, place: &Place, switch: usize) -> bool {
        place.block.is_some_and(|brace| {
            let body = self.body(brace);
            let kind = self.blocks.get(&brace).map(|(kind, _)| *kind);
            kind == Some(Block::Loop)
                && body.contains(&switch)
                && !self.has(body, &["continue", "goto"])
        })
    }

    /// The tokens of the block that a brace opens.
    fn body(&self, brace: usize) -> Range<usize> {
        let close = self.braces.get(&brace).copied();
        brace + 1..close.unwrap_or(self.all.len())
    }

    /// True if one of these words is among the tokens, and if there are no steps left to look for it.
    fn has(&self, range: Range<usize>, words: &[&str]) -> bool {
        if self.steps.get() > STEPS {
            return true;
        }
        let tokens = &self.all[range];
        let found = tokens.iter().position(|t| words.contains(&t.text));
        self.steps
            .set(self.steps.get() + found.unwrap_or(tokens.len()));
        found.is_some()
    }
}

/// Notes a sign that ends a block or a statement, or that opens or closes parentheses.
fn follow(open: &mut Vec<Open>, at: usize, sign: &str) {
    let mut inside = Words::default();
    if sign == "}" && open.len() > 1 {
        inside = open.pop().map_or(inside, |block| block.whole);
    }
    let Some(here) = open.last_mut() else {
        return;
    };
    here.note(inside);
    match sign {
        "(" | "[" => here.depth += 1,
        ")" | "]" => here.depth = here.depth.saturating_sub(1),
        ";" | "}" if here.depth == 0 => {
            here.start = at + 1;
            here.statement = Words::default();
        }
        _ => {}
    }
}

/// The change that the place of a word makes to the variable of this name; none if it makes none.
fn change(all: &[Token<'_>], at: usize, here: Open, in_head: bool) -> Option<Change> {
    let is_step = |sign: &str| matches!(sign, "++" | "--");
    let (before, next) = (text(all, at.wrapping_sub(1)), text(all, at + 1));
    if !(is_assignment(next) || is_step(next) || is_step(before)) {
        return None;
    }
    if in_head {
        return Some(Change::InHead);
    }
    let is_always = |from: usize| {
        let begin = all.get(here.start..from).unwrap_or_default();
        here.depth == 0
            && here.kind != Block::Switch
            && is_always_reached(begin, here.statement.keeps)
    };
    let ends = |place: usize| matches!(text(all, place), ";" | ",");
    let by_a_number = || {
        let by = all.get(at + 2).map(|by| by.kind);
        matches!(next, "+=" | "-=") && by == Some(Kind::Number) && ends(at + 3)
    };
    let counts = match (is_step(before), is_step(next)) {
        (true, _) => is_always(at.saturating_sub(1)) && ends(at + 1),
        (_, true) => is_always(at) && ends(at + 2),
        _ => is_always(at) && by_a_number(),
    };
    if counts {
        return Some(Change::Counts);
    }
    let value = || chosen::value(all, at + 1);
    let depends = || value().any(|place| text(all, place) == text(all, at));
    if next != "=" || !is_always(at) || depends() {
        return Some(Change::Other);
    }
    let mut places = value();
    let one = match (places.next(), places.next()) {
        (Some(place), None) => Some(place),
        _ => None,
    };
    let copied = one.filter(|place| all.get(*place).is_some_and(|t| t.kind == Kind::Word));
    Some(Change::Renews(copied))
}

/// True if each execution of a block reaches the variable that follows on this beginning of one of its statements, and
/// finds it new if the statement declares it. `keeps` is true if the beginning keeps or chooses a value.
fn is_always_reached(begin: &[Token<'_>], keeps: bool) -> bool {
    const CONDITIONAL: [&str; 9] = [
        "if", "else", "for", "while", "do", "switch", "case", "default", "return",
    ];
    let (Some(first), Some(last)) = (begin.first(), begin.last()) else {
        return true;
    };
    let declares =
        last.kind == Kind::Word || matches!(last.text, "*" | "&") && first.kind == Kind::Word;
    (declares || last.text == ",") && !CONDITIONAL.contains(&first.text) && !keeps
}

/// The variable whose address the `&` at this place takes; none if it takes that of an element, or is another operator.
pub(super) fn addressed<'t>(all: &[Token<'t>], at: usize) -> Option<&'t str> {
    let before = |by: usize| at.checked_sub(by).and_then(|place| all.get(place));
    let is_unary = before(1).is_none_or(|token| match token.text {
        "return" => true,
        // A cast to a type of pointers.
        ")" => before(2).is_some_and(|t| t.text == "*"),
        "]" | "++" | "--" => false,
        _ => token.kind == Kind::Sign,
    });
    let mut place = at + 1;
    while text(all, place) == "(" {
        place += 1;
    }
    while matches!(text(all, place + 1), "." | "->") {
        place += 2;
    }
    let name = all.get(place).filter(|t| t.kind == Kind::Word)?;
    (is_unary && text(all, place + 1) != "[").then_some(name.text)
}

pub(super) fn is_assignment(sign: &str) -> bool {
    matches!(
        sign,
        "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>="
    )
}
