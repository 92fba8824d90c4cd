//! Subscripts and expressions in C: flat subscripts, macros, and pointers to rows and elements.

use std::collections::BTreeSet;

use super::super::ast::{E, S, Step, n, v};
use super::{Constant, Index, Least, Printer};

impl Printer<'_> {
    /// Declares a pointer for each row that the innermost loop runs along.
    pub(super) fn row_pointers(&mut self, name: &str, body: &[S]) -> Vec<String> {
        let mut lines = Vec::new();
        for (array, subscripts) in references(body) {
            let Some(known) = self.arrays.get(&array).filter(|a| a.argument) else {
                continue;
            };
            let Some((last, before)) = subscripts.split_last() else {
                continue;
            };
            let along = last.mentions(name) && before.iter().all(|e| !e.mentions(name));
            let known_row = self
                .aliases
                .iter()
                .any(|(a, b, _)| *a == array && b == before);
            // Variables of the loop's body are not known before the loop.
            if before.is_empty() || !along || known_row || declared_in(body, before) {
                continue;
            }
            let constant = if known.read_only { "const " } else { "" };
            let kind = known.kind.clone();
            let mut place = before.to_vec();
            place.push(n(0));
            let flat = self.flat(&array, &place);
            self.names += 1;
            let row = format!("row{}", self.names);
            lines.push(format!("{constant}{kind} *{row} = &{array}[{flat}];"));
            self.aliases.push((array, before.to_vec(), row));
        }
        lines
    }

    /// Declares a pointer for each element that the innermost loop moves along one dimension.
    pub(super) fn walking_pointers(
        &mut self,
        name: &str,
        from: &E,
        step: &Step,
        body: &[S],
    ) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut moves) = (Vec::new(), Vec::new());
        let Step::By(by) = step else {
            return (lines, moves);
        };
        for (array, subscripts) in references(body) {
            let Some(known) = self.arrays.get(&array).filter(|a| a.argument) else {
                continue;
            };
            let moving: Vec<usize> = (0..subscripts.len())
                .filter(|at| subscripts[*at].mentions(name))
                .collect();
            let [dim] = moving[..] else { continue };
            let plain = match &subscripts[dim] {
                E::V(own) => own == name,
                E::Bin("+", a, b) => [a, b].iter().any(|e| **e == Box::new(v(name))) && a != b,
                _ => false,
            };
            let place = E::At(array.clone(), subscripts.clone());
            let known_place = self.walked.iter().any(|(e, _)| *e == place);
            if !plain || known_place || declared_in(body, &subscripts) {
                continue;
            }
            let constant = if known.read_only { "const " } else { "" };
            let kind = known.kind.clone();
            let strides = known.dims[dim + 1..].join(" * ");
            let start: Vec<E> = subscripts.iter().map(|e| e.with(name, from)).collect();
            let flat = self.flat(&array, &start);
            self.names += 1;
            let pointer = format!("p{}", self.names);
            lines.push(format!("{constant}{kind} *{pointer} = &{array}[{flat}];"));
            let by = self.text(by);
            moves.push(match strides.as_str() {
                "" => format!("{pointer} += {by};"),
                strides => format!("{pointer} += {by} * {strides};"),
            });
            self.walked.push((place, pointer));
        }
        (lines, moves)
    }

    pub(super) fn flat(&mut self, array: &str, subscripts: &[E]) -> String {
        let dims = self.arrays[array].dims.clone();
        let mut text = String::new();
        for (at, subscript) in subscripts.iter().enumerate() {
            let part = self.text(subscript);
            if at == 0 {
                text = part;
            } else {
                let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                let left = if plain { text } else { format!("({text})") };
                text = format!("{left} * {} + {part}", dims[at]);
            }
        }
        text
    }

    pub(super) fn parenthesized(&mut self, e: &E) -> String {
        let text = self.text(e);
        match e {
            E::N(_) | E::V(_) | E::At(..) | E::Call(..) | E::R(_) => text,
            _ => format!("({text})"),
        }
    }

    pub(super) fn text(&mut self, e: &E) -> String {
        match e {
            E::N(value) => value.to_string(),
            E::R(text) => (*text).to_owned(),
            E::V(name) => match self.constants.get(name) {
                Some(value) if self.style.constant == Constant::Literal => value.to_string(),
                _ => name.clone(),
            },
            E::Bin(sign, a, b) => {
                let (a, b) = (self.operand(a, sign, true), self.operand(b, sign, false));
                format!("{a} {sign} {b}")
            }
            E::At(array, subscripts) => self.place(array, subscripts),
            E::Call(name @ ("min" | "max"), arguments) => {
                let (a, b) = (self.text(&arguments[0]), self.text(&arguments[1]));
                let least = *name == "min";
                match self.style.least {
                    Least::Macro => format!("{}({a}, {b})", name.to_uppercase()),
                    Least::Function => {
                        format!("{}({a}, {b})", if least { "lesser" } else { "greater" })
                    }
                    Least::Std if self.style.cxx => format!("std::{name}({a}, {b})"),
                    _ => {
                        let sign = if least { "<" } else { ">" };
                        format!("(({a}) {sign} ({b}) ? ({a}) : ({b}))")
                    }
                }
            }
            E::Call(name, arguments) => {
                let list: Vec<String> = arguments.iter().map(|a| self.text(a)).collect();
                let std = if self.style.cxx { "std::" } else { "" };
                format!("{std}{name}({})", list.join(", "))
            }
            E::If(condition, yes, no) => {
                let (condition, yes, no) = (
                    self.text(condition),
                    self.parenthesized(yes),
                    self.parenthesized(no),
                );
                format!("({condition} ? {yes} : {no})")
            }
        }
    }

    pub(super) fn operand(&mut self, e: &E, sign: &str, is_left: bool) -> String {
        let level = |sign: &str| match sign {
            "*" | "/" | "%" => 3,
            "+" | "-" => 2,
            "<" | ">" | "<=" | ">=" | "==" | "!=" => 1,
            _ => 0,
        };
        let text = self.text(e);
        match e {
            E::Bin(inner, ..)
                if level(inner) < level(sign) || (level(inner) == level(sign) && !is_left) =>
            {
                format!("({text})")
            }
            _ => text,
        }
    }

    pub(super) fn place(&mut self, array: &str, subscripts: &[E]) -> String {
        let place = E::At(array.to_owned(), subscripts.to_vec());
        if let Some((_, pointer)) = self.walked.iter().find(|(e, _)| *e == place) {
            return format!("(*{pointer})");
        }
        if let Some((last, before)) = subscripts.split_last()
            && let Some((_, _, row)) = self
                .aliases
                .iter()
                .find(|(a, b, _)| a == array && b == before)
                .cloned()
        {
            let last = self.text(last);
            return format!("{row}[{last}]");
        }
        let Some(known) = self.arrays.get(array) else {
            panic!("the array `{array}` is not declared");
        };
        assert_eq!(known.dims.len(), subscripts.len(), "subscripts of {array}");
        if known.flat && subscripts.len() > 1 {
            match (self.style.index, known.argument) {
                (Index::Macro, true) => {
                    let list: Vec<String> = subscripts.iter().map(|s| self.text(s)).collect();
                    return format!("{array}_AT({})", list.join(", "));
                }
                (Index::Rows, true) => {
                    let list: String = subscripts
                        .iter()
                        .map(|s| format!("[{}]", self.text(s)))
                        .collect();
                    return format!("{array}rows{list}");
                }
                _ => {
                    let flat = self.flat(array, subscripts);
                    return format!("{array}[{flat}]");
                }
            }
        }
        let list: String = subscripts
            .iter()
            .map(|s| format!("[{}]", self.text(s)))
            .collect();
        format!("{array}{list}")
    }
}

/// The references to arrays in a loop's body, outside of the subscripts of other references.
fn references(body: &[S]) -> Vec<(String, Vec<E>)> {
    let mut found: Vec<(String, Vec<E>)> = Vec::new();
    for s in body {
        s.expressions(&mut |e| {
            if let E::At(array, subscripts) = e
                && !found.iter().any(|(a, b)| a == array && b == subscripts)
            {
                found.push((array.clone(), subscripts.clone()));
            }
        });
    }
    found
}

fn declared_in(body: &[S], expressions: &[E]) -> bool {
    let (mut declared, mut changed) = (BTreeSet::new(), BTreeSet::new());
    body.iter()
        .for_each(|s| s.names(&mut declared, &mut changed));
    declared
        .iter()
        .chain(&changed)
        .any(|name| expressions.iter().any(|e| e.mentions(name)))
}
