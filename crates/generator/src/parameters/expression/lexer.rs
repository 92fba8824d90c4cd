//! Splits an expression into tokens.

use std::fmt;

use super::{Error, Result, Value, syntax};

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A number or a text.
    Value(Value),
    /// A name or a keyword.
    Word(String),
    /// An operator or a bracket.
    Sign(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(value) => write!(f, "{value}"),
            Token::Word(word) => f.write_str(word),
            Token::Sign(sign) => f.write_str(sign),
        }
    }
}

/// The signs, each before those that it begins with.
const SIGNS: [&str; 24] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", ",", "+", "-", "*", "/",
    "%", "<", ">", "&", "|", "^", "~",
];

/// The tokens of an expression.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let length = number_length(rest);
            found.push(Token::Value(number(&rest[..length])?));
            length
        } else if first.is_alphabetic() || first == '_' {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(rest[..length].to_owned()));
            length
        } else if first == '"' || first == '\'' {
            let Some(end) = rest[1..].find(first) else {
                return syntax(format!("a text does not end: `{rest}`"));
            };
            let inner = &rest[1..=end];
            if inner.contains('\\') || inner.contains('\n') {
                return syntax(format!(
                    "a text contains a backslash or a new line: `{inner}`"
                ));
            }
            found.push(Token::Value(Value::Text(inner.to_owned())));
            end + 2
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push(Token::Sign(sign));
            sign.len()
        } else {
            return syntax(format!("`{first}` is no sign of an expression"));
        };
        rest = rest[length..].trim_start();
    }
    Ok(found)
}

/// The bytes of a number: letters and digits, points, and signs behind an exponent.
fn number_length(text: &str) -> usize {
    let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let mut before = ' ';
    let end = text.char_indices().find(|(_, c)| {
        let exponent = !hexadecimal && matches!(before, 'e' | 'E') && matches!(c, '+' | '-');
        before = *c;
        !(c.is_alphanumeric() || matches!(c, '.' | '_') || exponent)
    });
    end.map_or(text.len(), |(at, _)| at)
}

fn number(text: &str) -> Result<Value> {
    let wrong = || Error::Syntax(format!("`{text}` is no number"));
    // Python permits underscores between digits.
    let separated = |pair: &[u8]| pair[0] == b'_' && !pair[1].is_ascii_hexdigit();
    if text.ends_with('_') || text.as_bytes().windows(2).any(separated) {
        return Err(wrong());
    }
    let plain = text.replace('_', "").to_ascii_lowercase();
    for (prefix, base) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = plain.strip_prefix(prefix) {
            let number = i64::from_str_radix(digits, base);
            // A sign is none of the digits.
            let number = number.ok().filter(|_| !digits.starts_with(['+', '-']));
            return number.map(Value::Int).ok_or_else(wrong);
        }
    }
    if plain.bytes().all(|c| c.is_ascii_digit()) {
        let zeros = plain.len() > 1 && plain.starts_with('0') && plain.bytes().any(|c| c != b'0');
        return match (zeros, plain.parse()) {
            // Python refuses them, because other languages read octal numbers there.
            (true, _) => syntax(format!("`{text}` begins with 0")),
            (false, Ok(number)) => Ok(Value::Int(number)),
            (false, Err(_)) => syntax(format!("{text} is beyond 64 bits")),
        };
    }
    let digits = |c: u8| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'+' | b'-');
    let number = plain.parse::<f64>().ok().filter(|x| x.is_finite());
    match number.filter(|_| plain.bytes().all(digits)) {
        Some(number) => Ok(Value::Float(number)),
        None => Err(wrong()),
    }
}
