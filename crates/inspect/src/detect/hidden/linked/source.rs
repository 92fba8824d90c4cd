//! The calls, loops and assignments of a source, read from its tokens.

mod holders;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::states::{addressed, is_assignment};
use super::super::{Function, chosen, partners, text};
use crate::scan::token::{Kind, Token};

/// Tokens that are looked at. Programs need some hundred thousand at most. Each may take some dozen bytes of memory.
pub(super) const STEPS: usize = 2_000_000;

/// Words that stand before a parenthesis or a name, and are no functions and no types.
const NO_NAMES: [&str; 9] = [
    "if", "for", "while", "switch", "return", "sizeof", "do", "else", "case",
];

/// A variable, and the members that lead to a part of it. Subscripts are left out.
pub(super) type Path<'t> = Vec<&'t str>;

/// An expression of names, members and subscripts, such as `m.table[i]->run`.
pub(super) struct Chain<'t> {
    /// The variable or function at its beginning.
    pub root: &'t str,
    /// The last member comes first.
    pub members: Vec<&'t str>,
    /// The paths that its subscripts, arguments and parentheses read.
    pub reads: Vec<Path<'t>>,
    /// True if a pointer leads to a member.
    pub by_pointer: bool,
}

impl<'t> Chain<'t> {
    fn path_without(&self, members: usize) -> Path<'t> {
        let members = self.members.iter().skip(members).rev().copied();
        std::iter::once(self.root).chain(members).collect()
    }

    /// The variables that choose its last member.
    pub fn objects(&self) -> Vec<Path<'t>> {
        let mut found = self.reads.clone();
        found.push(self.path_without(1));
        found
    }
}

/// A call, or what looks like one.
pub(super) struct Call<'t> {
    /// Its parentheses.
    pub open: usize,
    close: usize,
    /// The expression of the called function.
    pub chain: Chain<'t>,
    /// The number of the function around it.
    pub within: Option<usize>,
}

impl<'t> Call<'t> {
    /// The name of the called function, or of the member that holds it.
    pub fn name(&self) -> &'t str {
        let member = self.chain.members.first();
        member.copied().unwrap_or(self.chain.root)
    }
}

/// A place that sets a variable.
pub(super) struct Set<'t> {
    pub target: Path<'t>,
    pub reads: Vec<Path<'t>>,
    /// The places of the value.
    pub value: Range<usize>,
    /// True if the value is more than arithmetic: it follows a member, an element, a pointer or a call.
    pub follows: bool,
}

pub(super) struct Source<'s, 't> {
    pub all: &'s [Token<'t>],
    pub functions: &'s [Function<'t>],
    within: &'s [Option<usize>],
    /// The names of the functions.
    pub names: BTreeSet<&'t str>,
    /// The parameters of each function.
    pub parameters: Vec<Vec<&'t str>>,
    pub calls: Vec<Call<'t>>,
    /// The closing partner of each bracket, and the opening one of each parenthesis and square bracket.
    closing: BTreeMap<usize, usize>,
    opening: BTreeMap<usize, usize>,
    /// Members that may hold a function; none in C, where each called member does.
    holders: Option<BTreeSet<&'t str>>,
    /// For each variable, the places that take its address.
    addresses: BTreeMap<&'t str, Vec<usize>>,
    steps: Cell<usize>,
}

impl<'s, 't> Source<'s, 't> {
    pub fn of(
        all: &'s [Token<'t>],
        functions: &'s [Function<'t>],
        within: &'s [Option<usize>],
        is_cxx: bool,
    ) -> Self {
        let mut closing = partners(all, "(", ")");
        closing.extend(partners(all, "[", "]"));
        let opening = closing.iter().map(|(open, close)| (*close, *open));
        let opening = opening.collect();
        closing.extend(partners(all, "{", "}"));
        let mut source = Self {
            all,
            functions,
            within,
            names: functions.iter().map(|f| f.name).collect(),
            parameters: Vec::new(),
            calls: Vec::new(),
            closing,
            opening,
            holders: None,
            addresses: BTreeMap::new(),
            steps: Cell::new(0),
        };
        source.holders = is_cxx.then(|| source.holders());
        let parameters = functions.iter().map(|f| source.parameters_of(f)).collect();
        source.parameters = parameters;
        for at in (0..all.len()).filter(|at| text(all, *at) == "&") {
            let is_whole = !matches!(text(all, at + 2), "." | "->");
            if let Some(name) = addressed(all, at)
                && is_whole
                && name == text(all, at + 1)
            {
                source.addresses.entry(name).or_default().push(at);
            }
        }
        let calls = (0..all.len())
            .filter_map(|open| source.call(open))
            .collect();
        source.calls = calls;
        source
    }

    /// The tokens that were looked at so far.
    pub fn steps(&self) -> usize {
        self.steps.get()
    }

    /// Counts tokens that are looked at. None if there were too many.
    pub fn spend(&self, tokens: usize) -> Option<()> {
        self.steps.set(self.steps.get().saturating_add(tokens));
        (self.steps.get() <= STEPS).then_some(())
    }

    fn text(&self, at: usize) -> &'t str {
        text(self.all, at)
    }

    fn is_word(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|t| t.kind == Kind::Word)
    }

    /// True for the name of a function, a variable or a type.
    fn is_name(&self, at: usize) -> bool {
        self.is_word(at) && !NO_NAMES.contains(&self.text(at))
    }

    /// The bracket that closes this one, or the end of the source.
    fn close(&self, open: usize) -> usize {
        let close = self.closing.get(&open);
        close.copied().unwrap_or(self.all.len())
    }

    /// True if no member of the source may hold a function.
    pub fn holds_none(&self) -> bool {
        match &self.holders {
            Some(holders) => holders.is_empty(),
            None => !self.all.iter().any(|t| matches!(t.text, "." | "->")),
        }
    }

    /// True if a called member of this name may be one that holds a function.
    pub fn may_hold(&self, member: &str) -> bool {
        let holders = self.holders.as_ref();
        holders.is_none_or(|holders| holders.contains(member))
    }

    /// True if a function of C++ that calls this name may mean a member of its own object.
    pub fn is_own_member(&self, name: &str) -> bool {
        let holders = self.holders.as_ref();
        holders.is_some_and(|holders| holders.contains(name)) && !self.names.contains(name)
    }

    /// True if a function takes the address of the pointer by which this call finds its function: the called function may
    /// set it.
    pub fn gives_away(&self, call: &Call<'t>) -> bool {
        let chain = &call.chain;
        let body = call
            .within
            .map(|number| self.functions[number].body.clone());
        let is_taken = |body: Range<usize>| {
            let mut places = self.addresses.get(chain.root).into_iter().flatten();
            places.any(|place| body.contains(place))
        };
        chain.by_pointer && !chain.members.is_empty() && body.is_some_and(is_taken)
    }

    /// The names of a function's parameters.
    fn parameters_of(&self, function: &Function<'t>) -> Vec<&'t str> {
        let open = function.head + 1;
        let parts = self.parts(open + 1..self.close(open)).into_iter();
        parts.map(|part| self.declared(part)).collect()
    }

    /// The name that the declaration of a parameter declares.
    fn declared(&self, part: Range<usize>) -> &'t str {
        let mut name = "";
        let mut at = part.start;
        while at < part.end {
            match self.text(at) {
                "(" if self.text(at + 1) == "*" => return self.text(at + 2),
                "(" | "[" => at = self.close(at),
                word if self.is_word(at) => name = word,
                _ => {}
            }
            at += 1;
        }
        name
    }

    /// The parts of a list, without its commas.
    fn parts(&self, list: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let (mut at, mut start) = (list.start, list.start);
        while at < list.end && self.spend(1).is_some() {
            match self.text(at) {
                "(" | "[" | "{" => at = self.close(at),
                "," => {
                    found.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        found.extend((!list.is_empty()).then_some(start..list.end));
        found
    }

    /// The places of an argument of a call; none if the call has fewer.
    pub fn argument(&self, call: &Call<'t>, n: usize) -> Range<usize> {
        let parts = self.parts(call.open + 1..call.close);
        parts.get(n).cloned().unwrap_or(call.close..call.close)
    }

    /// The variables that an expression reads, with the members that it goes through. Names of types and functions are
    /// among them.
    pub fn reads(&self, places: Range<usize>) -> Vec<Path<'t>> {
        if self.spend(places.len()).is_none() {
            return Vec::new();
        }
        let is_member = |at: usize| at > 0 && matches!(self.text(at - 1), "." | "->");
        let begins = places.filter(|at| self.is_word(*at) && !is_member(*at));
        begins
            .map(|begin| {
                let mut path = vec![self.text(begin)];
                let mut at = begin + 1;
                loop {
                    match self.text(at) {
                        "[" => at = self.close(at) + 1,
                        "." | "->" if self.is_word(at + 1) => {
                            path.push(self.text(at + 1));
                            at += 2;
                        }
                        _ => return path,
                    }
                }
            })
            .collect()
    }

    /// The expression of names, members and subscripts that ends with the token at `end`.
    pub fn chain(&self, end: usize) -> Option<Chain<'t>> {
        let (mut members, mut reads, mut by_pointer) = (Vec::new(), Vec::new(), false);
        let mut at = end;
        loop {
            self.spend(1)?;
            let before = |n: usize| at.checked_sub(n).map_or("", |place| self.text(place));
            match self.text(at) {
                "]" => {
                    let open = *self.opening.get(&at)?;
                    reads.extend(self.reads(open + 1..at));
                    at = open.checked_sub(1)?;
                }
                ")" => {
                    let open = *self.opening.get(&at)?;
                    reads.extend(self.reads(open + 1..at));
                    let function = open.checked_sub(1).filter(|place| self.is_name(*place));
                    // Without a function, the parentheses enclose an expression, perhaps behind a cast.
                    by_pointer |= function.is_none() && self.text(open + 1) == "*";
                    at = function.unwrap_or(at - 1);
                }
                word if self.is_word(at) => match (before(2), before(1)) {
                    (_, sign @ ("." | "->")) => {
                        members.push(word);
                        by_pointer |= sign == "->";
                        at = at.checked_sub(2)?;
                    }
                    // A pointer to a member.
                    (sign @ ("." | "->"), "*") => {
                        members.push(word);
                        by_pointer |= sign == "->";
                        at = at.checked_sub(3)?;
                    }
                    _ => {
                        return Some(Chain {
                            root: word,
                            members,
                            reads,
                            by_pointer,
                        });
                    }
                },
                _ => return None,
            }
        }
    }

    /// The call whose arguments begin with the parenthesis at `open`.
    fn call(&self, open: usize) -> Option<Call<'t>> {
        let close = *self.closing.get(&open)?;
        let end = open.checked_sub(1).filter(|_| self.text(open) == "(")?;
        let is_call = match self.text(end) {
            ")" => {
                // The condition of a statement is no function.
                let word = self.opening.get(&end)?.checked_sub(1);
                let word = word.map_or("", |place| self.text(place));
                !matches!(word, "if" | "for" | "while" | "switch")
            }
            "]" => true,
            _ => self.is_name(end),
        };
        let chain = is_call.then(|| self.chain(end)).flatten()?;
        Some(Call {
            open,
            close,
            chain,
            within: self.within.get(open).copied().flatten(),
        })
    }

    /// The loops that are in no other loop, without the first part of the head of a `for`.
    pub fn loops(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.all.len() {
            let head = self.closing.get(&(at + 1)).copied();
            let range = match (self.text(at), head) {
                ("for", Some(close)) => {
                    Some(self.behind_first(at + 1, close)..self.end_of_statement(close + 1))
                }
                ("while", Some(close)) => Some(at + 1..self.end_of_statement(close + 1)),
                ("do", _) => {
                    let end = self.end_of_statement(at + 1);
                    let condition = (self.text(end) == "while").then(|| self.close(end + 1));
                    Some(at..condition.unwrap_or(end))
                }
                _ => None,
            };
            at = range.as_ref().map_or(0, |range| range.end).max(at + 1);
            found.extend(range);
        }
        found
    }

    /// The first `;` in the head of a `for`, or the beginning of a head that has none.
    fn behind_first(&self, open: usize, close: usize) -> usize {
        let mut at = open + 1;
        while at < close {
            match self.text(at) {
                "(" | "[" | "{" => at = self.close(at),
                ";" => return at,
                _ => {}
            }
            at += 1;
        }
        open
    }

    /// The place behind the statement that begins here.
    fn end_of_statement(&self, from: usize) -> usize {
        let mut at = from;
        while at < self.all.len() {
            match self.text(at) {
                "(" | "[" => at = self.close(at),
                "{" => {
                    at = self.close(at);
                    // Behind a literal of a structure, the expression goes on.
                    let goes_on = self.all.get(at + 1).is_some_and(|next| {
                        let ends = matches!(next.text, "{" | "}" | ";" | "(");
                        next.text == "else" || next.kind == Kind::Sign && !ends
                    });
                    if !goes_on {
                        return (at + 1).min(self.all.len());
                    }
                }
                ";" if self.text(at + 1) != "else" => return at + 1,
                ")" | "]" | "}" => return at,
                _ => {}
            }
            at += 1;
        }
        self.all.len()
    }

    /// The variable that the token at `at` sets.
    pub fn set(&self, at: usize) -> Option<Set<'t>> {
        self.spend(0)?;
        let sign = self.text(at);
        let value = match sign {
            "{" | "(" if self.is_initial(at) => at + 1..*self.closing.get(&at)?,
            _ if is_assignment(sign) => {
                let last = chosen::value(self.all, at).last();
                at + 1..last.unwrap_or(at) + 1
            }
            _ => return None,
        };
        // The body of a lambda has assignments of its own.
        if self.text(value.start) == "[" {
            return None;
        }
        let target = self.chain(at.checked_sub(1)?)?.path_without(0);
        let mut reads = self.reads(value.clone());
        if !matches!(sign, "=" | "{" | "(") {
            reads.push(target.clone());
        }
        let follows = value.clone().any(|place| self.follows(place));
        Some(Set {
            target,
            reads,
            value,
            follows,
        })
    }

    /// True if the bracket at this place holds the initial value of a variable of C++.
    fn is_initial(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(2).filter(|_| self.holders.is_some()) else {
            return false;
        };
        let declares = matches!(self.text(before), "*" | "&" | "&&" | ">") || self.is_name(before);
        self.is_word(at - 1) && declares
    }

    /// True if the token at this place leads to other data than the variables of the expression.
    fn follows(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else {
            return false;
        };
        match self.text(at) {
            "->" | "." | "[" => true,
            "(" => self.is_name(before),
            "*" => {
                let is_sign = self.all[before].kind == Kind::Sign;
                is_sign && !matches!(self.text(before), ")" | "]")
            }
            _ => false,
        }
    }
}
