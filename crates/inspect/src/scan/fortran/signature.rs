//! Compares the entry's dummy arguments with the C prototype.
//!
//! No compiler makes this comparison. A missing `value` causes a crash; an eight-byte `value` argument, where C passes
//! four bytes, has an undefined upper half. Declarations that this module does not understand (a computed kind, for
//! example) are left to the tests.

use std::collections::BTreeMap;

use flopsmith_problem::{Arg, ArgKind, Element, Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure};

use super::{Statement, Token};
use crate::scan::refused;
use crate::scan::token::Kind;

/// A Fortran type with its size in bytes; none where the size is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Integer(Option<u32>),
    Real(Option<u32>),
    Other,
}

/// The form in which an array's extents are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `a(n, n)`, `a(*)`: the caller passes an address.
    Explicit,
    /// `a(:)` and `a(..)`: the caller passes a descriptor.
    Assumed,
}

/// The declaration of a dummy argument.
#[derive(Debug, Clone, Default)]
struct Dummy {
    line: u32,
    kind: Option<Type>,
    shape: Option<Shape>,
    value: bool,
    /// `allocatable` or `pointer`.
    descriptor: Option<&'static str>,
}

/// Refuses an entry that C cannot call by the prototype.
pub(super) fn check(
    statements: &[Statement],
    problem: &Problem,
    language: Language,
) -> Result<(), Failure> {
    let Some((at, names)) = entry(statements, problem) else {
        return Ok(());
    };
    let wrong = |line: u32, what: String| {
        let prototype = &problem.entry.prototype;
        Err(refused(
            CandidateFault::WrongSignature,
            line,
            format!("{what}; C calls it as `{prototype}`"),
        ))
    };
    let name = &problem.entry.name;
    let head = &statements[at];
    let args = &problem.entry.args;
    if head.tokens.iter().any(|t| t.text == "function") {
        return wrong(head.line, format!("`{name}` must be a subroutine"));
    }
    if names.len() != args.len() {
        return wrong(
            head.line,
            format!(
                "`{name}` has {} arguments instead of {}",
                names.len(),
                args.len()
            ),
        );
    }
    let dummies = declared(statements, at, &names);
    for (name, arg) in names.iter().zip(args) {
        let Some(dummy) = dummies.get(*name) else {
            // In fixed form, a declaration may be written without blanks. The tokens of such a declaration are not
            // understood.
            let implicit = !statements.iter().any(|s| is_implicit_none(&s.tokens));
            if language == Language::Fortran && implicit && matches!(arg.kind, ArgKind::Int { .. })
            {
                return wrong(
                    head.line,
                    format!(
                        "`{name}` is passed by value: declare it `integer(c_int), value :: {name}`"
                    ),
                );
            }
            continue;
        };
        if let Some(what) = difference(name, arg, dummy) {
            return wrong(dummy.line, what);
        }
    }
    Ok(())
}

/// The difference between an argument and the prototype; none if they agree.
fn difference(name: &str, arg: &Arg, dummy: &Dummy) -> Option<String> {
    match &arg.kind {
        ArgKind::Int { .. } => {
            let right = format!("declare it `integer(c_int), value :: {name}`");
            if let Some(what) = dummy.descriptor {
                return Some(format!("`{name}` is `{what}`: {right}"));
            }
            if dummy.shape.is_some() {
                return Some(format!("`{name}` is an array: {right}"));
            }
            match dummy.kind {
                Some(Type::Integer(None | Some(4))) | None => {}
                Some(Type::Integer(Some(bytes))) => {
                    return Some(format!(
                        "`{name}` is an integer of {bytes} bytes, and C passes 4: {right}"
                    ));
                }
                Some(_) => return Some(format!("`{name}` is no integer: {right}")),
            }
            (!dummy.value)
                .then(|| format!("`{name}` is passed by value, and `value` is missing: {right}"))
        }
        ArgKind::Array { element, .. } => {
            let (wanted, kind) = match element {
                Element::F64 => (Type::Real(Some(8)), "real(c_double)"),
                Element::F32 => (Type::Real(Some(4)), "real(c_float)"),
                Element::I32 => (Type::Integer(Some(4)), "integer(c_int)"),
            };
            if dummy.value {
                return Some(format!(
                    "`{name}` is an array, and C passes its address: it cannot have `value`"
                ));
            }
            if let Some(what) = dummy.descriptor {
                return Some(format!(
                    "`{name}` is `{what}`, and C passes an address: declare it with its extents, as in `{kind} :: {name}(*)`"
                ));
            }
            if dummy.shape == Some(Shape::Assumed) {
                return Some(format!(
                    "`{name}` has an assumed shape, and C passes an address: declare it with its extents, as in `{kind} :: {name}(*)`"
                ));
            }
            let same = match (dummy.kind, wanted) {
                (None | Some(Type::Real(None)), Type::Real(_)) => true,
                (None | Some(Type::Integer(None)), Type::Integer(_)) => true,
                (Some(found), wanted) => found == wanted,
                (None, Type::Other) => true,
            };
            (!same).then(|| {
                format!(
                    "the elements of `{name}` have another type than in C: declare them as `{kind}`"
                )
            })
        }
    }
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |t| t.text.as_str())
}

fn is_implicit_none(tokens: &[Token]) -> bool {
    text(tokens, 0) == "implicit" && text(tokens, 1) == "none"
}

/// The index of the statement that begins the entry, and the names of its arguments.
fn entry<'s>(statements: &'s [Statement], problem: &Problem) -> Option<(usize, Vec<&'s str>)> {
    let wanted = problem.entry.name.to_ascii_lowercase();
    statements.iter().enumerate().find_map(|(at, statement)| {
        let tokens = &statement.tokens;
        if text(tokens, 0) == "end" {
            return None;
        }
        let head = tokens
            .iter()
            .position(|t| matches!(t.text.as_str(), "subroutine" | "function"))?;
        let bound = tokens.iter().position(|t| t.text == "bind")?;
        let label = tokens[bound..]
            .iter()
            .find(|t| t.kind == Kind::Text)
            .map(|t| t.text.trim_matches(['"', '\'', ' ']));
        let own = text(tokens, head + 1);
        if label.unwrap_or(own) != wanted {
            return None;
        }
        let list = tokens.get(head + 2..bound).unwrap_or_default();
        let names = list.iter().take_while(|t| t.text != ")");
        let names = names.filter(|t| t.kind == Kind::Word);
        Some((at, names.map(|t| t.text.as_str()).collect()))
    })
}

/// The declarations of the entry's arguments.
fn declared<'s>(
    statements: &'s [Statement],
    entry: usize,
    names: &[&'s str],
) -> BTreeMap<&'s str, Dummy> {
    let kinds = Kinds::of(statements);
    let mut found: BTreeMap<&str, Dummy> = BTreeMap::new();
    for statement in &statements[entry + 1..] {
        let tokens = &statement.tokens;
        let first = text(tokens, 0);
        // Parts of the procedure that have a separate scope of names.
        if matches!(first, "contains" | "block" | "interface")
            || (first == "end" && matches!(text(tokens, 1), "" | "subroutine" | "procedure"))
            || first == "endsubroutine"
        {
            break;
        }
        declaration(statement, names, &kinds, &mut found);
    }
    found
}

fn declaration<'s>(
    statement: &'s Statement,
    names: &[&'s str],
    kinds: &Kinds<'_>,
    found: &mut BTreeMap<&'s str, Dummy>,
) {
    let tokens = &statement.tokens;
    let (kind, mut at) = match type_of(tokens, kinds) {
        Some((kind, at)) => (Some(kind), at),
        None if matches!(
            text(tokens, 0),
            "value"
                | "dimension"
                | "allocatable"
                | "pointer"
                | "intent"
                | "target"
                | "contiguous"
                | "optional"
        ) =>
        {
            (None, 0)
        }
        None => return,
    };
    let mut common = Dummy {
        line: statement.line,
        kind,
        ..Dummy::default()
    };
    let colons = outside(&tokens[at..])
        .find(|p| text(tokens, at + p) == ":" && text(tokens, at + p + 1) == ":")
        .map(|p| at + p);
    // Attributes stand before the colons. A statement without colons may begin with an attribute.
    let end = colons.unwrap_or(if kind.is_none() { at + 1 } else { at });
    while at < end {
        match text(tokens, at) {
            "value" => common.value = true,
            "allocatable" => common.descriptor = Some("allocatable"),
            "pointer" => common.descriptor = Some("pointer"),
            "dimension" if text(tokens, at + 1) == "(" && colons.is_some() => {
                common.shape = Some(shape(tokens, at + 1));
            }
            _ => {}
        }
        at += 1;
    }
    if text(tokens, 0) == "intent" && colons.is_none() {
        at = closing(tokens, 1).map_or(tokens.len(), |close| close + 1);
    }
    at = colons.map_or(at, |colons| colons + 2);
    while at < tokens.len() {
        let name = text(tokens, at);
        let own_shape = (text(tokens, at + 1) == "(").then(|| shape(tokens, at + 1));
        if let Some(name) = names.iter().find(|n| **n == name) {
            let dummy = found.entry(*name).or_default();
            if dummy.line == 0 || common.kind.is_some() {
                dummy.line = common.line;
            }
            dummy.kind = common.kind.or(dummy.kind);
            dummy.value |= common.value;
            dummy.shape = own_shape.or(common.shape).or(dummy.shape);
            dummy.descriptor = common.descriptor.or(dummy.descriptor);
        }
        // Continues after the next comma outside of parentheses.
        let comma = outside(&tokens[at..]).find(|p| text(tokens, at + p) == ",");
        at = comma.map_or(tokens.len(), |comma| at + comma + 1);
    }
}

/// The indices of tokens outside of parentheses.
fn outside(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let mut depth = 0;
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        depth += step(token);
        (depth == 0 && step(token) == 0).then_some(at)
    })
}

fn step(token: &Token) -> i32 {
    match token.text.as_str() {
        "(" | "[" => 1,
        ")" | "]" => -1,
        _ => 0,
    }
}

/// The index of the token that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    (open..tokens.len()).find(|at| {
        depth += step(&tokens[*at]);
        depth == 0
    })
}

/// The shape that the parentheses at `open` declare.
fn shape(tokens: &[Token], open: usize) -> Shape {
    let close = closing(tokens, open).unwrap_or(tokens.len());
    let inside = &tokens[(open + 1).min(close)..close];
    let mut assumed = inside.iter().map(|t| t.text.as_str()).eq([".", "."]);
    // In an assumed shape, nothing stands behind the colon of an extent.
    let mut last = ",";
    let mut depth = 0;
    for token in inside {
        depth += step(token);
        assumed |= depth == 0 && token.text == "," && last == ":";
        last = &token.text;
    }
    assumed |= last == ":";
    if assumed {
        Shape::Assumed
    } else {
        Shape::Explicit
    }
}

/// The type at the beginning of a declaration, and the index of the token after it.
fn type_of(tokens: &[Token], kinds: &Kinds<'_>) -> Option<(Type, usize)> {
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
    let make: fn(Option<u32>) -> Type = match first {
        "integer" => Type::Integer,
        "real" => Type::Real,
        "complex" | "logical" | "character" | "type" | "class" => |_| Type::Other,
        _ => return None,
    };
    match text(tokens, 1) {
        "*" => Some((make(text(tokens, 2).parse().ok()), 3)),
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
struct Kinds<'s>(BTreeMap<&'s str, &'s [Token]>);

impl<'s> Kinds<'s> {
    fn of(statements: &'s [Statement]) -> Self {
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
                "c_int" | "c_int32_t" | "int32" | "c_float" | "real32" => Some(4),
                "c_int64_t" | "int64" | "c_long" | "c_long_long" | "c_size_t" | "c_intptr_t"
                | "c_ptrdiff_t" | "c_intmax_t" | "c_double" | "real64" => Some(8),
                "c_int16_t" | "int16" | "c_short" => Some(2),
                "c_int8_t" | "int8" | "c_signed_char" => Some(1),
                "c_long_double" | "real128" => Some(16),
                name => {
                    let defined = self.0.get(name).filter(|_| depth < 8)?;
                    self.bytes(defined, depth + 1)
                }
            };
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
}

#[cfg(test)]
mod tests;
