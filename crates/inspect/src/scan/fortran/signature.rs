//! Compares the entry's dummy arguments with the C prototype.
//!
//! No compiler makes this comparison. A missing `value` causes a crash; an eight-byte `value` argument, where C passes
//! four bytes, has an undefined upper half. Declarations that this module does not understand (a kind by a function of
//! the language, for example) are left to verification: the harness passes each `int` with another number in its upper
//! half. If such a program crashes, [`doubtful_kind`] says which declaration may be the reason.

mod types;

use std::collections::BTreeMap;

use flopsmith_problem::{Arg, ArgKind, Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure};

use super::tokens::{closing, outside, step, text};
use super::{Statement, Token, lines};
use crate::scan::refused;
use crate::scan::token::Kind;
use types::{Kinds, Type, type_of, type_of_element};

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
    for arg in args {
        if let ArgKind::Array { element, .. } = &arg.kind
            && type_of_element(*element).is_none()
        {
            return wrong(
                head.line,
                format!(
                    "Fortran has no type for the elements of `{}`, which are `{}` in C: write this program in C or C++",
                    arg.name,
                    element.c_type()
                ),
            );
        }
    }
    let dummies = declared(statements, at, &names);
    for (name, arg) in names.iter().zip(args) {
        let Some(dummy) = dummies.get(*name) else {
            // In fixed form, a declaration may be written without blanks. The tokens of such a declaration are not
            // understood.
            let implicit = !statements.iter().any(|s| is_implicit_none(&s.tokens));
            if language == Language::Fortran
                && implicit
                && let Some((_, declared)) = by_value(&arg.kind)
            {
                return wrong(
                    head.line,
                    format!(
                        "`{name}` is passed by value: declare it `{declared}, value :: {name}`"
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

/// The type of an argument that is passed by value, and how it is declared.
fn by_value(kind: &ArgKind) -> Option<(Type, &'static str)> {
    match kind {
        ArgKind::Int { .. } => Some((Type::Integer(Some(4)), "integer(c_int)")),
        ArgKind::Scalar { element, .. } => type_of_element(*element),
        ArgKind::Array { .. } => None,
    }
}

/// A reason why a program in Fortran may crash: C passes an argument by value, and this module does not understand the kind
/// that the program gives it.
pub fn doubtful_kind(source: &str, problem: &Problem, language: Language) -> Option<String> {
    if !language.is_fortran() {
        return None;
    }
    let statements = lines::split(source, language).ok()?.statements;
    let (at, names) = entry(&statements, problem)?;
    let dummies = declared(&statements, at, &names);
    let mut pairs = names.iter().zip(&problem.entry.args);
    pairs.find_map(|(name, arg)| {
        let (_, right) = by_value(&arg.kind)?;
        let dummy = dummies.get(*name)?;
        matches!(dummy.kind, Some(Type::Integer(None) | Type::Real(None))).then(|| {
            format!(
                "line {}: the kind of `{name}` was not understood before the call; if it has another size than in C, declare it `{right}, value :: {name}`",
                dummy.line
            )
        })
    })
}

/// The difference between an argument and the prototype; none if they agree.
fn difference(name: &str, arg: &Arg, dummy: &Dummy) -> Option<String> {
    if let Some((wanted, declared)) = by_value(&arg.kind) {
        return difference_of_value(name, wanted, declared, dummy);
    }
    let ArgKind::Array { element, .. } = &arg.kind else {
        return None;
    };
    let (wanted, kind) = type_of_element(*element)?;
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
    let same = match dummy.kind {
        // Without a type, the first letter of the name decides, and it never means a complex number.
        None => !matches!(wanted, Type::Complex(_)),
        Some(found) => found.may_be(wanted),
    };
    (!same).then(|| {
        format!("the elements of `{name}` have another type than in C: declare them as `{kind}`")
    })
}

/// The difference between an argument that C passes by value and its declaration.
fn difference_of_value(name: &str, wanted: Type, declared: &str, dummy: &Dummy) -> Option<String> {
    let right = format!("declare it `{declared}, value :: {name}`");
    if let Some(what) = dummy.descriptor {
        return Some(format!("`{name}` is `{what}`: {right}"));
    }
    if dummy.shape.is_some() {
        return Some(format!("`{name}` is an array: {right}"));
    }
    let is = match wanted {
        Type::Integer(_) => "integer",
        _ => "real number",
    };
    match dummy.kind {
        Some(found) if std::mem::discriminant(&found) != std::mem::discriminant(&wanted) => {
            return Some(format!("`{name}` is no {is}: {right}"));
        }
        Some(found) if !found.may_be(wanted) => {
            let (found, passed) = (
                found.bytes().unwrap_or_default(),
                wanted.bytes().unwrap_or_default(),
            );
            let article = if is == "integer" { "an" } else { "a" };
            return Some(format!(
                "`{name}` is {article} {is} of {found} bytes, and C passes {passed}: {right}"
            ));
        }
        _ => {}
    }
    (!dummy.value).then(|| format!("`{name}` is passed by value, and `value` is missing: {right}"))
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

#[cfg(test)]
mod tests;
