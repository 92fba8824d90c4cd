//! Expressions in Fortran.

use super::super::ast::{E, n, v};
use super::Printer;
use super::terms::simpler;

impl Printer<'_> {
    /// The expression with the variables of loops from 1 moved, and its constants collected.
    pub(super) fn moved(&self, e: &E) -> E {
        let mut moved = e.clone();
        for name in &self.shifted {
            if moved.mentions(name) {
                moved = moved.with(
                    name,
                    &E::Bin("-", Box::new(v(name.clone())), Box::new(n(1))),
                );
            }
        }
        moved
    }

    pub(super) fn text(&self, e: &E) -> String {
        self.plain(&simpler(&self.moved(e)))
    }

    pub(super) fn plain(&self, e: &E) -> String {
        match e {
            E::N(value) if *value < 0 => format!("({value})"),
            E::N(value) => value.to_string(),
            E::R(text) => format!("{text}d0"),
            E::V(name) => name.clone(),
            E::Bin(sign, a, b) => {
                let (a, b) = (self.operand(a, sign, true), self.operand(b, sign, false));
                let sign = match *sign {
                    "%" => return format!("mod({a}, {b})"),
                    "!=" => "/=",
                    "&&" => ".and.",
                    "||" => ".or.",
                    sign => sign,
                };
                format!("{a} {sign} {b}")
            }
            E::At(array, subscripts) => {
                let list: Vec<String> = subscripts
                    .iter()
                    .rev()
                    .map(|s| match s {
                        E::Call("section", bounds) => {
                            let base = i64::from(self.style.from_one);
                            let low = simpler(&(bounds[0].clone() + n(base)));
                            let high = simpler(&(bounds[1].clone() + n(base)));
                            format!("{}:{}", self.plain(&low), self.plain(&high))
                        }
                        other if self.style.from_one => {
                            self.plain(&simpler(&(other.clone() + n(1))))
                        }
                        other => self.plain(other),
                    })
                    .collect();
                format!("{array}({})", list.join(", "))
            }
            E::Call(name, arguments) => {
                let list: Vec<String> = arguments.iter().map(|a| self.plain(a)).collect();
                let name = if *name == "fabs" { "abs" } else { name };
                format!("{name}({})", list.join(", "))
            }
            E::If(condition, yes, no) => format!(
                "merge({}, {}, {})",
                self.plain(yes),
                self.plain(no),
                self.plain(condition)
            ),
        }
    }

    pub(super) fn operand(&self, e: &E, sign: &str, is_left: bool) -> String {
        let level = |sign: &str| match sign {
            "*" | "/" => 3,
            "+" | "-" => 2,
            "%" => 9,
            "<" | ">" | "<=" | ">=" | "==" | "!=" => 1,
            _ => 0,
        };
        let text = self.plain(e);
        match e {
            E::Bin(inner, ..)
                if sign != "%"
                    && (level(inner) < level(sign)
                        || (level(inner) == level(sign) && !is_left)) =>
            {
                format!("({text})")
            }
            _ => text,
        }
    }
}
