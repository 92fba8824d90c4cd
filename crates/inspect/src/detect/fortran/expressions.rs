//! Expressions of Fortran: lexemes and syntax trees.

use crate::scan::Token;
use crate::scan::token::Kind;

/// Deeper expressions are not read, because every level uses stack.
const DEEPEST: u32 = 60;

/// Longer expressions are not read.
const MOST_NODES: u32 = 600;

/// A syntax tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expr {
    Integer(i64),
    /// A number or constant whose value does not matter.
    Other,
    Name(String),
    /// Subscripts of an array, or arguments of a function.
    Apply(Box<Expr>, Vec<Expr>),
    Member(Box<Expr>, String),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `first : last : step` in a subscript.
    Section(Option<Box<Expr>>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// `keyword = value` in an argument list.
    Keyword(String, Box<Expr>),
}

impl Expr {
    pub fn name(name: &str) -> Self {
        Expr::Name(name.to_owned())
    }

    pub fn binary(operator: &'static str, left: Expr, right: Expr) -> Self {
        match (operator, &left, &right) {
            ("+" | "-", _, Expr::Integer(0)) => left,
            ("*", _, Expr::Integer(1)) => left,
            ("+", Expr::Integer(a), Expr::Integer(b)) => Expr::Integer(a.wrapping_add(*b)),
            ("-", Expr::Integer(a), Expr::Integer(b)) => Expr::Integer(a.wrapping_sub(*b)),
            ("*", Expr::Integer(a), Expr::Integer(b)) => Expr::Integer(a.wrapping_mul(*b)),
            _ => Expr::Binary(operator, Box::new(left), Box::new(right)),
        }
    }
}

/// A lexeme: a whole number literal, operator or name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Lexeme {
    Integer(i64),
    Other,
    Name(String),
    Sign(&'static str),
}

/// The signs and operators that expressions contain; the longer ones stand first.
const SIGNS: [&str; 22] = [
    "**", "==", "/=", "<=", ">=", "//", "=>", "::", "(/", "/)", "<", ">", "+", "-", "*", "/", "(",
    ")", "[", "]", ",", "%",
];

/// Operators between points, with their signs.
const WORDS: [(&str, &str); 13] = [
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("eqv", "=="),
    ("neqv", "/="),
    ("eq", "=="),
    ("ne", "/="),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
    ("true", "true"),
    ("false", "false"),
];

fn lexemes(tokens: &[Token]) -> Option<Vec<Lexeme>> {
    let text = |at: usize| tokens.get(at).map_or("", |t| t.text.as_str());
    let kind = |at: usize| tokens.get(at).map(|t| t.kind);
    let dotted = |at: usize| {
        // `.and.`: a point, a word, a point.
        let word = (text(at) == "." && text(at + 2) == ".").then(|| text(at + 1))?;
        WORDS.iter().find(|(name, _)| *name == word)
    };
    let mut found = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if let Some((_, sign)) = dotted(at) {
            found.push(match *sign {
                "true" | "false" => Lexeme::Other,
                sign => Lexeme::Sign(sign),
            });
            at += 3;
            continue;
        }
        let begins_fraction = text(at) == "." && kind(at + 1) == Some(Kind::Number);
        match kind(at) {
            Some(Kind::Number) => {
                let value = text(at).parse::<i64>().ok();
                let mut whole = true;
                at += 1;
                if text(at) == "." && dotted(at).is_none() {
                    whole = false;
                    at += 1 + usize::from(kind(at + 1) == Some(Kind::Number));
                }
                (at, whole) = exponent(tokens, at, whole);
                found.push(match value.filter(|_| whole) {
                    Some(value) => Lexeme::Integer(value),
                    None => Lexeme::Other,
                });
            }
            _ if begins_fraction => {
                (at, _) = exponent(tokens, at + 2, false);
                found.push(Lexeme::Other);
            }
            Some(Kind::Word) => {
                found.push(Lexeme::Name(text(at).to_owned()));
                at += 1;
            }
            Some(Kind::Text) => {
                found.push(Lexeme::Other);
                at += 1;
            }
            Some(Kind::Sign) | None => {
                let pair = [text(at), text(at + 1)].concat();
                let sign = SIGNS
                    .iter()
                    .find(|s| s.len() == 2 && **s == pair)
                    .or_else(|| SIGNS.iter().find(|s| **s == text(at)))
                    .copied();
                let sign = match (sign, text(at)) {
                    (Some(sign), _) => sign,
                    (None, ":") => ":",
                    (None, "=") => "=",
                    (None, _) => return None,
                };
                found.push(Lexeme::Sign(sign));
                at += sign.len();
            }
        }
    }
    Some(found)
}

/// Passes the exponent and the kind of a number. Returns the next token, and whether the number is still an integer.
fn exponent(tokens: &[Token], mut at: usize, mut whole: bool) -> (usize, bool) {
    let text = |at: usize| tokens.get(at).map_or("", |t| t.text.as_str());
    let word = |at: usize| tokens.get(at).is_some_and(|t| t.kind == Kind::Word);
    if word(at) && text(at).starts_with(['d', 'e']) {
        let digits = |rest: &str| {
            let number = rest.split('_').next().unwrap_or_default();
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        };
        if digits(&text(at)[1..]) {
            return (at + 1, false);
        }
        let signed = matches!(text(at + 1), "+" | "-")
            && tokens.get(at + 2).is_some_and(|t| t.kind == Kind::Number);
        if text(at).len() == 1 && signed {
            whole = false;
            at += 3;
        }
    }
    if word(at) && text(at).starts_with('_') {
        at += 1;
    }
    (at, whole)
}

/// Reads an expression; none if it is not understood.
pub(super) fn parse(tokens: &[Token]) -> Option<Expr> {
    let all = lexemes(tokens)?;
    let mut parser = Parser::of(&all);
    let found = parser.expression(0)?;
    (parser.at == all.len()).then_some(found)
}

/// Reads a list of expressions, sections and keywords, separated by commas.
pub(super) fn parse_list(tokens: &[Token]) -> Option<Vec<Expr>> {
    let all = lexemes(tokens)?;
    let mut parser = Parser::of(&all);
    let found = parser.list()?;
    (parser.at == all.len()).then_some(found)
}

struct Parser<'l> {
    all: &'l [Lexeme],
    at: usize,
    depth: u32,
    nodes: u32,
}

/// Binary operators by precedence, least first.
const LEVELS: [&[&str]; 6] = [
    &["||"],
    &["&&"],
    &["==", "/=", "<", "<=", ">", ">="],
    &["//"],
    &["+", "-"],
    &["*", "/"],
];

/// The level of the comparisons.
const COMPARISONS: usize = 2;

impl<'l> Parser<'l> {
    fn of(all: &'l [Lexeme]) -> Self {
        Parser {
            all,
            at: 0,
            depth: 0,
            nodes: 0,
        }
    }

    fn sign(&self) -> Option<&'static str> {
        match self.all.get(self.at) {
            Some(Lexeme::Sign(sign)) => Some(*sign),
            _ => None,
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let is = self.sign() == Some(sign);
        self.at += usize::from(is);
        is
    }

    fn expression(&mut self, level: usize) -> Option<Expr> {
        self.nodes += 1;
        if self.nodes > MOST_NODES || self.depth > DEEPEST {
            return None;
        }
        self.depth += 1;
        let found = self.binary(level);
        self.depth -= 1;
        found
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        // A negation covers a whole comparison.
        if level == COMPARISONS && self.take("!") {
            let inner = self.expression(COMPARISONS)?;
            return Some(Expr::Unary("!", Box::new(inner)));
        }
        let mut left = if level == 4 && matches!(self.sign(), Some("+" | "-")) {
            self.signed(level)?
        } else {
            self.binary(level + 1)?
        };
        while let Some(operator) = self.sign().filter(|s| operators.contains(s)) {
            self.at += 1;
            self.nodes += 1;
            if self.nodes > MOST_NODES {
                return None;
            }
            let right = self.binary(level + 1)?;
            left = Expr::binary(operator, left, right);
        }
        Some(left)
    }

    /// A sign before the first term of a sum.
    fn signed(&mut self, level: usize) -> Option<Expr> {
        let minus = self.take("-") || !self.take("+");
        let inner = self.binary(level + 1)?;
        Some(match (minus, inner) {
            (false, inner) => inner,
            (true, Expr::Integer(value)) => Expr::Integer(value.wrapping_neg()),
            (true, inner) => Expr::Unary("-", Box::new(inner)),
        })
    }

    fn unary(&mut self) -> Option<Expr> {
        for sign in ["!", "-", "+"] {
            if self.take(sign) {
                let inner = self.expression(LEVELS.len())?;
                return Some(match (sign, inner) {
                    ("+", inner) => inner,
                    ("-", inner) => Expr::Unary("-", Box::new(inner)),
                    (_, inner) => Expr::Unary("!", Box::new(inner)),
                });
            }
        }
        let base = self.primary()?;
        if self.take("**") {
            let exponent = self.expression(LEVELS.len())?;
            return Some(Expr::Binary("**", Box::new(base), Box::new(exponent)));
        }
        Some(base)
    }

    fn primary(&mut self) -> Option<Expr> {
        let mut found = match self.all.get(self.at)? {
            Lexeme::Integer(value) => {
                self.at += 1;
                return Some(Expr::Integer(*value));
            }
            Lexeme::Other => {
                self.at += 1;
                return Some(Expr::Other);
            }
            Lexeme::Name(name) => {
                self.at += 1;
                Expr::Name(name.clone())
            }
            Lexeme::Sign("(") => {
                self.at += 1;
                let inner = self.expression(0)?;
                // A complex number has two parts.
                if self.take(",") {
                    self.expression(0)?;
                }
                return self.take(")").then_some(inner);
            }
            Lexeme::Sign(open @ ("[" | "(/")) => {
                self.at += 1;
                let close = if *open == "[" { "]" } else { "/)" };
                let elements = self.list()?;
                // An array that is written out has no place that a loop moves along.
                let constructor = Expr::Apply(Box::new(Expr::name("")), elements);
                return self.take(close).then_some(constructor);
            }
            Lexeme::Sign(_) => return None,
        };
        loop {
            if self.take("(") {
                let arguments = self.list()?;
                if !self.take(")") {
                    return None;
                }
                found = Expr::Apply(Box::new(found), arguments);
            } else if self.take("%") {
                let Some(Lexeme::Name(name)) = self.all.get(self.at) else {
                    return None;
                };
                self.at += 1;
                found = Expr::Member(Box::new(found), name.clone());
            } else {
                return Some(found);
            }
            self.nodes += 1;
            if self.nodes > MOST_NODES {
                return None;
            }
        }
    }

    /// Arguments or subscripts up to a closing sign.
    fn list(&mut self) -> Option<Vec<Expr>> {
        let mut found = Vec::new();
        if self.at >= self.all.len() || matches!(self.sign(), Some(")" | "]" | "/)")) {
            return Some(found);
        }
        loop {
            found.push(self.item()?);
            if !self.take(",") {
                return Some(found);
            }
        }
    }

    fn item(&mut self) -> Option<Expr> {
        if let (Some(Lexeme::Name(name)), Some(Lexeme::Sign("="))) =
            (self.all.get(self.at), self.all.get(self.at + 1))
        {
            self.at += 2;
            let value = self.section()?;
            return Some(Expr::Keyword(name.clone(), Box::new(value)));
        }
        self.section()
    }

    /// An expression, or a section of a dimension.
    fn section(&mut self) -> Option<Expr> {
        let first = self.bound()?;
        // `a(::2)` has a double colon.
        let double = self.take("::");
        if !double && !self.take(":") {
            return Some(first.unwrap_or(Expr::Section(None, None, None)));
        }
        let boxed = |e: Option<Expr>| e.map(Box::new);
        let last = if double { None } else { self.bound()? };
        let step = if double || self.take(":") {
            self.bound()?
        } else {
            None
        };
        Some(Expr::Section(boxed(first), boxed(last), boxed(step)))
    }

    /// A bound of a section, which may be missing. A `*` as an extent counts as missing.
    fn bound(&mut self) -> Option<Option<Expr>> {
        if self.take("*") {
            return Some(None);
        }
        let ends = self.at >= self.all.len()
            || matches!(self.sign(), Some(":" | "::" | "," | ")" | "]" | "/)"));
        if ends {
            return Some(None);
        }
        self.expression(0).map(Some)
    }
}
