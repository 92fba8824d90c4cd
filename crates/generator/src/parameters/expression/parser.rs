//! The parser: tokens to the nodes of an expression.

use super::lexer::{Token, tokens};
use super::{Comparison, Function, Node, Operator, Result, Sign, Value};
use super::{Error, syntax};

/// Greatest depth of an expression.
const DEEPEST: usize = 60;
/// Greatest number of operators between values.
const MOST_LINKS: usize = 500;

/// Reads a whole text.
pub(super) fn parse(text: &str, names: &[&str]) -> Result<Node> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        links: 0,
        names,
    };
    let root = parser.expression()?;
    match parser.peek() {
        None => Ok(root),
        Some(token) => syntax(format!("`{token}` is not expected here")),
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Operators between values so far.
    links: usize,
    names: &'a [&'a str],
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Takes the next token if it is this sign or word.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = match self.peek() {
            Some(Token::Sign(sign)) => *sign == wanted,
            Some(Token::Word(word)) => word == wanted,
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    fn needs(&mut self, wanted: &str) -> Result<()> {
        if self.takes(wanted) {
            return Ok(());
        }
        match self.peek() {
            Some(token) => syntax(format!("`{wanted}` is expected before `{token}`")),
            None => syntax(format!("`{wanted}` is missing at the end")),
        }
    }

    fn expression(&mut self) -> Result<Node> {
        self.deeper(|parser| {
            let value = parser.or()?;
            if !parser.takes("if") {
                return Ok(value);
            }
            let condition = parser.or()?;
            parser.needs("else")?;
            let otherwise = parser.expression()?;
            Ok(Node::Choice(
                Box::new(condition),
                Box::new(value),
                Box::new(otherwise),
            ))
        })
    }

    /// Keeps a text of many brackets or signs from overflowing the stack.
    fn deeper(&mut self, inner: impl FnOnce(&mut Self) -> Result<Node>) -> Result<Node> {
        if self.depth == DEEPEST {
            return syntax("it is nested too deeply");
        }
        self.depth += 1;
        let node = inner(self);
        self.depth -= 1;
        node
    }

    /// Keeps the tree of a long sum from overflowing the stack.
    fn linked(&mut self) -> Result<()> {
        self.links += 1;
        match self.links > MOST_LINKS {
            true => syntax("it is too long"),
            false => Ok(()),
        }
    }

    fn or(&mut self) -> Result<Node> {
        let mut node = self.and()?;
        while self.takes("or") {
            self.linked()?;
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Result<Node> {
        let mut node = self.not()?;
        while self.takes("and") {
            self.linked()?;
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node> {
        if self.takes("not") {
            let inner = self.deeper(Self::not)?;
            return Ok(Node::Signed(Sign::Not, Box::new(inner)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Node> {
        let first = self.between(0)?;
        let mut chain = Vec::new();
        loop {
            let comparison = if self.takes("<=") {
                Comparison::LessOrEqual
            } else if self.takes("<") {
                Comparison::Less
            } else if self.takes(">=") {
                Comparison::GreaterOrEqual
            } else if self.takes(">") {
                Comparison::Greater
            } else if self.takes("==") {
                Comparison::Equal
            } else if self.takes("!=") {
                Comparison::NotEqual
            } else if self.takes("in") {
                Comparison::In
            } else if self.takes("not") {
                self.needs("in")?;
                Comparison::NotIn
            } else {
                break;
            };
            chain.push((comparison, self.between(0)?));
        }
        Ok(match chain.is_empty() {
            true => first,
            false => Node::Compared(Box::new(first), chain),
        })
    }

    /// Operators from the level of precedence `level` on; those of a later level bind more tightly.
    fn between(&mut self, level: usize) -> Result<Node> {
        const LEVELS: [&[(&str, Operator)]; 6] = [
            &[("|", Operator::BitOr)],
            &[("^", Operator::BitXor)],
            &[("&", Operator::BitAnd)],
            &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
            &[("+", Operator::Add), ("-", Operator::Subtract)],
            &[
                ("*", Operator::Multiply),
                ("//", Operator::FloorDivide),
                ("/", Operator::Divide),
                ("%", Operator::Remainder),
            ],
        ];
        let Some(operators) = LEVELS.get(level) else {
            return self.signed();
        };
        let mut node = self.between(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
            self.linked()?;
            let right = self.between(level + 1)?;
            node = Node::Between(*operator, Box::new(node), Box::new(right));
        }
        Ok(node)
    }

    fn signed(&mut self) -> Result<Node> {
        let sign = if self.takes("-") {
            Sign::Minus
        } else if self.takes("+") {
            Sign::Plus
        } else if self.takes("~") {
            Sign::Invert
        } else {
            return self.power();
        };
        let inner = self.deeper(Self::signed)?;
        Ok(Node::Signed(sign, Box::new(inner)))
    }

    fn power(&mut self) -> Result<Node> {
        let base = self.atom()?;
        if !self.takes("**") {
            return Ok(base);
        }
        // The power binds more tightly than a sign before it, and less tightly than one behind it.
        let exponent = self.deeper(Self::signed)?;
        Ok(Node::Between(
            Operator::Power,
            Box::new(base),
            Box::new(exponent),
        ))
    }

    fn atom(&mut self) -> Result<Node> {
        let Some(token) = self.peek().cloned() else {
            return syntax("a value is missing at the end");
        };
        self.at += 1;
        match token {
            Token::Value(value) => Ok(Node::Constant(value)),
            Token::Word(word) => self.word(word),
            Token::Sign("(") => {
                if self.takes(")") {
                    return Ok(Node::List(Vec::new()));
                }
                let first = self.expression()?;
                if self.takes(")") {
                    return Ok(first);
                }
                let mut all = vec![first];
                while self.takes(",") {
                    if self.takes(")") {
                        return Ok(Node::List(all));
                    }
                    all.push(self.expression()?);
                }
                self.needs(")")?;
                Ok(Node::List(all))
            }
            Token::Sign("[") => Ok(Node::List(self.elements("]")?)),
            Token::Sign(sign) => syntax(format!("`{sign}` is not expected here")),
        }
    }

    fn word(&mut self, word: String) -> Result<Node> {
        if word == "True" || word == "False" {
            return Ok(Node::Constant(Value::Bool(word == "True")));
        }
        // A parameter may have the name of a function.
        if let Some(number) = self.names.iter().position(|name| *name == word) {
            return Ok(Node::Parameter(number));
        }
        match Function::of(&word) {
            Some(function) => {
                self.needs("(")?;
                Ok(Node::Call(function, self.elements(")")?))
            }
            None if ["and", "or", "in", "if", "else", "for", "lambda", "is"].contains(&&*word) => {
                syntax(format!("`{word}` is not expected here"))
            }
            None => Err(Error::Unknown(word)),
        }
    }

    /// Expressions up to the bracket that ends them.
    fn elements(&mut self, end: &str) -> Result<Vec<Node>> {
        let mut all = Vec::new();
        while !self.takes(end) {
            all.push(self.expression()?);
            if !self.takes(",") {
                self.needs(end)?;
                break;
            }
        }
        Ok(all)
    }
}
