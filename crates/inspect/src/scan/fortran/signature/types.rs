//! The types of Fortran, as far as they are compared with those of C.

use std::collections::BTreeMap;

use flopsmith_problem::Element;

use super::{closing, outside, text};
use crate::scan::fortran::{Statement, Token};
use crate::scan::token::Kind;

/// A kind is at most so many tokens long, else it is not understood: a source may declare thousands of names by it.
const LONGEST: usize = 64;

/// A Fortran type with its size in bytes; none where the size is unknown. That of a complex number is the size of its
/// parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Integer(Option<u32>),
    Real(Option<u32>),
    Complex(Option<u32>),
    Other,
}

impl Type {
    /// Its size, as far as it is known.
    pub(super) fn bytes(self) -> Option<u32> {
        match self {
            Self::Integer(bytes) | Self::Real(bytes) | Self::Complex(bytes) => bytes,
            Self::Other => None,
        }
    }

    /// True unless the two are known to differ.
    pub(super) fn may_be(self, other: Self) -> bool {
        let sizes = |x: Option<u32>, y: Option<u32>| x.is_none() || y.is_none() || x == y;
        match (self, other) {
            (Self::Integer(x), Self::Integer(y))
            | (Self::Real(x), Self::Real(y))
            | (Self::Complex(x), Self::Complex(y)) => sizes(x, y),
            _ => self == other,
        }
    }
}

/// The type of an element in Fortran, and how it is declared. None for a type that no kind of Fortran has.
///
/// A bfloat16 number and a byte have no kind of their own: integers of their size hold their bits.
pub(super) fn type_of_element(element: Element) -> Option<(Type, &'static str)> {
    Some(match element {
        Element::F64 => (Type::Real(Some(8)), "real(c_double)"),
        Element::F32 => (Type::Real(Some(4)), "real(c_float)"),
        Element::I32 => (Type::Integer(Some(4)), "integer(c_int)"),
        Element::I64 => (Type::Integer(Some(8)), "integer(c_int64_t)"),
        Element::U8 => (Type::Integer(Some(1)), "integer(c_int8_t)"),
        Element::C64 => (Type::Complex(Some(4)), "complex(c_float_complex)"),
        Element::C128 => (Type::Complex(Some(8)), "complex(c_double_complex)"),
        Element::Bf16 => (Type::Integer(Some(2)), "integer(c_int16_t)"),
        Element::F16 => return None,
    })
}

/// The type at the beginning of a declaration, and the index of the token after it.
pub(super) fn type_of(tokens: &[Token], kinds: &Kinds<'_>) -> Option<(Type, usize)> {
    let first = text(tokens, 0);
    let is_head = tokens
        .iter()
        .any(|t| matches!(t.text.as_str(), "function" | "subroutine"));
    if is_head {
        return None;
    }
    if first == "doubleprecision" {
        return Some((Type::Real(Some(8)), 1));
    }
    if first == "double" && text(tokens, 1) == "precision" {
        return Some((Type::Real(Some(8)), 2));
    }
    if first == "doublecomplex" {
        return Some((Type::Complex(Some(8)), 1));
    }
    if first == "double" && text(tokens, 1) == "complex" {
        return Some((Type::Complex(Some(8)), 2));
    }
    let make: fn(Option<u32>) -> Type = match first {
        "integer" => Type::Integer,
        "real" => Type::Real,
        "complex" => Type::Complex,
        "logical" | "character" | "type" | "class" => |_| Type::Other,
        _ => return None,
    };
    match text(tokens, 1) {
        "*" => {
            let bytes: Option<u32> = text(tokens, 2).parse().ok();
            // `complex*16` counts both parts.
            let parts = if first == "complex" { 2 } else { 1 };
            Some((make(bytes.map(|bytes| bytes / parts)), 3))
        }
        "(" => {
            let close = closing(tokens, 1)?;
            let inside = &tokens[2..close];
            let inside = match inside {
                [word, equals, rest @ ..] if word.text == "kind" && equals.text == "=" => rest,
                all => all,
            };
            Some((make(kinds.bytes(inside, 0)), close + 1))
        }
        // Compiler flags may enlarge these types, but then all types of default kind are larger.
        _ => Some((make(Some(4)), 1)),
    }
}

/// Names of kinds that the source defines, with their values.
pub(super) struct Kinds<'s>(BTreeMap<&'s str, &'s [Token]>);

impl<'s> Kinds<'s> {
    pub(super) fn of(statements: &'s [Statement]) -> Self {
        let mut names = BTreeMap::new();
        for statement in statements {
            let tokens = &statement.tokens;
            let parameters =
                text(tokens, 0) == "integer" && tokens.iter().any(|t| t.text == "parameter");
            let uses = text(tokens, 0) == "use";
            for at in 0..tokens.len() {
                let renames = uses && text(tokens, at + 1) == "=" && text(tokens, at + 2) == ">";
                let defines =
                    parameters && text(tokens, at + 1) == "=" && text(tokens, at) != "kind";
                let from = match (renames, defines) {
                    (true, _) => at + 3,
                    (_, true) => at + 2,
                    _ => continue,
                };
                let rest = &tokens[from.min(tokens.len())..];
                let end = outside(rest).find(|p| text(rest, *p) == ",");
                names.insert(text(tokens, at), &rest[..end.unwrap_or(rest.len())]);
            }
        }
        Kinds(names)
    }

    /// Size in bytes of a number of this kind; none where the kind is not understood.
    fn bytes(&self, kind: &[Token], depth: u32) -> Option<u32> {
        let first = kind.first()?;
        if let [one] = kind {
            if let Ok(bytes) = one.text.parse() {
                return Some(bytes);
            }
            return match one.text.as_str() {
                "c_int" | "c_int32_t" | "int32" | "c_float" | "real32" | "c_float_complex" => {
                    Some(4)
                }
                "c_double_complex" | "c_int64_t" | "int64" | "c_long" | "c_long_long"
                | "c_size_t" | "c_intptr_t" | "c_ptrdiff_t" | "c_intmax_t" | "c_double"
                | "real64" => Some(8),
                "c_int16_t" | "int16" | "c_short" => Some(2),
                "c_int8_t" | "int8" | "c_signed_char" => Some(1),
                "c_long_double" | "c_long_double_complex" | "real128" => Some(16),
                name => {
                    let defined = self.0.get(name).filter(|_| depth < 8)?;
                    self.bytes(defined, depth + 1)
                }
            };
        }
        if first.kind != Kind::Word || closing(kind, 1) != Some(kind.len() - 1) {
            return u32::try_from(self.value(kind, depth)?).ok();
        }
        let digits = kind.iter().find(|t| t.kind == Kind::Number)?;
        let digits: u32 = digits.text.parse().ok()?;
        match first.text.as_str() {
            "kind" => {
                let double = kind[1..]
                    .iter()
                    .any(|t| t.kind == Kind::Word && t.text.starts_with('d'));
                let other = kind[1..]
                    .iter()
                    .any(|t| t.kind == Kind::Word && !t.text.starts_with(['d', 'e']));
                (!other).then_some(if double { 8 } else { 4 })
            }
            "selected_real_kind" if digits <= 6 => Some(4),
            "selected_real_kind" if digits <= 15 => Some(8),
            "selected_int_kind" if (5..=9).contains(&digits) => Some(4),
            "selected_int_kind" if (10..=18).contains(&digits) => Some(8),
            _ => None,
        }
    }

    /// The value of a constant expression of numbers and kinds; none where it is not understood.
    fn value(&self, parts: &[Token], depth: u32) -> Option<i64> {
        if depth >= 8 || parts.len() > LONGEST {
            return None;
        }
        let last = |signs: [&str; 2]| {
            // Two stars are a power, and nothing stands before a sign of a number.
            let lone = |at: usize| text(parts, at - 1) != "*" && text(parts, at + 1) != "*";
            let found = |at: &usize| *at > 0 && signs.contains(&text(parts, *at)) && lone(*at);
            outside(parts).filter(found).last()
        };
        let stars = |at: &usize| text(parts, *at) == "*" && text(parts, at + 1) == "*";
        let power = || outside(parts).find(stars);
        let Some(at) = last(["+", "-"]).or_else(|| last(["*", "/"])).or_else(power) else {
            return match parts {
                [open, inside @ .., close] if open.text == "(" && close.text == ")" => {
                    self.value(inside, depth + 1)
                }
                _ => self.bytes(parts, depth + 1).map(i64::from),
            };
        };
        let is_power = stars(&at);
        let right = at + 1 + usize::from(is_power);
        let x = self.value(&parts[..at], depth + 1)?;
        let y = self.value(parts.get(right..)?, depth + 1)?;
        match text(parts, at) {
            "+" => x.checked_add(y),
            "-" => x.checked_sub(y),
            "/" => x.checked_div(y),
            _ if is_power => x.checked_pow(u32::try_from(y).ok()?),
            _ => x.checked_mul(y),
        }
    }
}
