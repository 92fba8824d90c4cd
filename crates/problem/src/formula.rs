//! Small arithmetic over parameters: `2*n*n*n`, `(n+1)*m/2`.

use std::fmt;

use crate::Params;

/// An expression of numbers, parameters, `+ - * /`, parentheses, `log2(…)` and `sqrt(…)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Formula {
    text: String,
    node: Node,
}

impl Eq for Formula {}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Number(f64),
    Param(String),
    Binary(char, Box<Node>, Box<Node>),
    Negative(Box<Node>),
    Log2(Box<Node>),
    Sqrt(Box<Node>),
}

/// Why a text is no formula, or has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It ends where something is expected.
    #[error("`{text}` ends where a number, a parameter or `(` is expected")]
    Ends {
        /// The formula.
        text: String,
    },
    /// A character that does not belong there.
    #[error("`{text}`, character {at}: `{found}` is not expected there")]
    Unexpected {
        /// The formula.
        text: String,
        /// Counted from 1.
        at: usize,
        /// The character.
        found: char,
    },
    /// Parentheses nested too deeply, or too many operations.
    #[error("`{text}` is nested too deeply or too long")]
    Deep {
        /// The formula.
        text: String,
    },
    /// A parameter without a value.
    #[error("there is no parameter `{0}`")]
    Unknown(String),
}

/// Deeper nesting than this is refused, so that no definition overflows the stack.
const DEPTH: usize = 64;

/// More operations than this are refused for the same reason: each is a level of the tree.
const OPERATIONS: usize = 500;

impl Formula {
    /// Reads a formula.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = Parser {
            text,
            chars: text.chars().collect(),
            at: 0,
            depth: 0,
            operations: 0,
        };
        let node = parser.sum()?;
        parser.space();
        match parser.chars.get(parser.at) {
            None => Ok(Self {
                text: text.to_owned(),
                node,
            }),
            Some(_) => Err(parser.unexpected()),
        }
    }

    /// Its value with `params`.
    pub fn value(&self, params: &Params) -> Result<f64, Error> {
        self.node.value(params)
    }

    /// Its value as a count; none when it is no whole number from 0 to 2⁴⁰.
    pub fn count(&self, params: &Params) -> Option<usize> {
        let value = self.value(params).ok()?;
        let whole = (0.0..=1.1e12).contains(&value) && value.fract() == 0.0;
        // The range was checked in the line above.
        whole.then_some(value as usize)
    }

    /// The parameters it names.
    pub fn params(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.node.params(&mut names);
        names.sort();
        names.dedup();
        names
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Node {
    fn value(&self, params: &Params) -> Result<f64, Error> {
        Ok(match self {
            Node::Number(n) => *n,
            Node::Param(name) => *params
                .get(name)
                .ok_or_else(|| Error::Unknown(name.clone()))?
                as f64,
            Node::Negative(a) => -a.value(params)?,
            Node::Log2(a) => a.value(params)?.log2(),
            Node::Sqrt(a) => a.value(params)?.sqrt(),
            Node::Binary(op, a, b) => {
                let (a, b) = (a.value(params)?, b.value(params)?);
                match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
        })
    }

    fn params(&self, names: &mut Vec<String>) {
        match self {
            Node::Number(_) => {}
            Node::Param(name) => names.push(name.clone()),
            Node::Negative(a) | Node::Log2(a) | Node::Sqrt(a) => a.params(names),
            Node::Binary(_, a, b) => {
                a.params(names);
                b.params(names);
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Vec<char>,
    at: usize,
    depth: usize,
    operations: usize,
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn unexpected(&self) -> Error {
        match self.chars.get(self.at) {
            Some(found) => Error::Unexpected {
                text: self.text.to_owned(),
                at: self.at + 1,
                found: *found,
            },
            None => Error::Ends {
                text: self.text.to_owned(),
            },
        }
    }

    fn operator(&mut self, wanted: [char; 2]) -> Result<Option<char>, Error> {
        self.space();
        let next = self.chars.get(self.at).copied();
        let Some(c) = next.filter(|c| wanted.contains(c)) else {
            return Ok(None);
        };
        self.at += 1;
        self.operations += 1;
        if self.operations > OPERATIONS {
            return Err(self.deep());
        }
        Ok(Some(c))
    }

    fn deep(&self) -> Error {
        Error::Deep {
            text: self.text.to_owned(),
        }
    }

    fn sum(&mut self) -> Result<Node, Error> {
        let mut left = self.product()?;
        while let Some(op) = self.operator(['+', '-'])? {
            left = Node::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, Error> {
        let mut left = self.atom()?;
        while let Some(op) = self.operator(['*', '/'])? {
            left = Node::Binary(op, Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Node, Error> {
        self.space();
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.deep());
        }
        let node = match self.chars.get(self.at) {
            Some('(') => self.parenthesis()?,
            Some('-') => {
                self.at += 1;
                Node::Negative(Box::new(self.atom()?))
            }
            Some(c) if c.is_ascii_digit() => {
                let word = self.word(|c| c.is_ascii_digit() || c == '.');
                Node::Number(word.parse().map_err(|_| self.unexpected())?)
            }
            Some(c) if c.is_ascii_alphabetic() || *c == '_' => {
                let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
                match self.chars.get(self.at) {
                    Some('(') if name == "log2" => Node::Log2(Box::new(self.parenthesis()?)),
                    Some('(') if name == "sqrt" => Node::Sqrt(Box::new(self.parenthesis()?)),
                    _ => Node::Param(name),
                }
            }
            _ => return Err(self.unexpected()),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn parenthesis(&mut self) -> Result<Node, Error> {
        self.at += 1;
        let inner = self.sum()?;
        self.space();
        if self.chars.get(self.at) != Some(&')') {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(inner)
    }

    fn word(&mut self, of: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.chars.get(self.at).is_some_and(|c| of(*c)) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, n: i64) -> f64 {
        Formula::parse(text)
            .expect("a formula")
            .value(&Params::from([("n".into(), n)]))
            .expect("a value")
    }

    #[test]
    fn arithmetic_binds_as_usual() {
        for (text, expected) in [
            ("2*n*n*n", 128.0),
            ("1+2*n", 9.0),
            ("(1+2)*n", 12.0),
            ("n-1-1", 2.0),
            ("-n+8/2", 0.0),
            ("n/8", 0.5),
            ("n*log2(4*n)", 16.0),
            ("8+sqrt(4*n)", 12.0),
        ] {
            assert!((value(text, 4) - expected).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |t: &str| Formula::parse(t).expect_err("wrong").to_string();
        assert!(wrong("2*").contains("ends"));
        assert!(wrong("2*$").contains("character 3"));
        assert!(wrong("(n").contains("ends"));
        assert!(wrong("n n").contains("character 3"));
        assert!(wrong("log2(n").contains("ends"));
        assert!(wrong("log3(n)").contains("character 5"));
        assert!(wrong(&"(".repeat(1000)).contains("nested"));
        assert!(wrong(&format!("n{}", "+n".repeat(100_000))).contains("too long"));
        let unknown = Formula::parse("m")
            .expect("a formula")
            .value(&Params::new());
        assert_eq!(unknown, Err(Error::Unknown("m".into())));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = Formula::parse(&text);
        }

        #[test]
        fn polynomials_agree_with_rust(a in 0i64..50, b in 0i64..50, n in 1i64..100) {
            let formula = format!("{a}*n*n + {b}*(n-1)");
            prop_assert_eq!(value(&formula, n), (a * n * n + b * (n - 1)) as f64);
        }
    }
}
