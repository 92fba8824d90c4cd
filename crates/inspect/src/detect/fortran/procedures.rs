//! The procedures of a program: their heads, declarations and bodies.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::Problem;

use super::expressions::Expr;
use super::print::{Dummy, Printer, Signature, name_in_c, spend};
use super::statements::{Body, plain};
use super::symbols::{Symbols, type_of};
use super::{AsC, closing, text};
use crate::scan::token::Kind;
use crate::scan::{Statement, Token};

/// Procedures within procedures are read to this depth; Fortran permits two levels.
const DEEPEST: usize = 4;

/// Work that a program may cost: bytes of printed expressions and copied symbols. Each token adds to it.
const WORK: usize = 16 << 20;
const WORK_OF_TOKEN: usize = 200;

/// The work of copying a symbol, which each procedure has from the program around it.
const WORK_OF_SYMBOL: usize = 64;

/// A procedure.
#[derive(Debug)]
pub(super) struct Procedure<'s> {
    pub name: &'s str,
    /// The name by which C calls the procedure, if it has one.
    label: Option<String>,
    pub dummies: Vec<&'s str>,
    /// The name of a function's result.
    pub result: Option<&'s str>,
    line: u32,
    pub body: Vec<&'s Statement>,
    pub inner: Vec<Procedure<'s>>,
}

/// Writes all procedures of a program as functions of C.
pub(super) fn write(statements: &[Statement], problem: &Problem, out: &mut AsC) {
    let tokens: usize = statements.iter().map(|s| s.tokens.len()).sum();
    let left = Cell::new(WORK + WORK_OF_TOKEN * tokens);
    let (globals, procedures) = split(statements, out);
    let mut symbols = Symbols::default();
    for statement in &globals {
        symbols.declare(statement);
    }
    let mut signatures = BTreeMap::new();
    sign(&procedures, &symbols, &left, &mut signatures);
    let dummies = BTreeMap::new();
    let printer = Printer {
        symbols: &symbols,
        procedures: &signatures,
        dummies: &dummies,
        over: &[],
        function: "",
        left: &left,
        depth: 0,
    };
    for line in declarations(&printer, &BTreeSet::new(), &symbols.order) {
        out.push(1, &line);
    }
    for procedure in &procedures {
        function(procedure, &printer, problem, out);
    }
}

/// Splits a program into the statements of modules and the procedures.
fn split<'s>(
    statements: &'s [Statement],
    out: &mut AsC,
) -> (Vec<&'s Statement>, Vec<Procedure<'s>>) {
    let mut globals = Vec::new();
    let mut done: Vec<Procedure<'s>> = Vec::new();
    let mut open: Vec<Procedure<'s>> = Vec::new();
    for statement in statements {
        let tokens = plain(&statement.tokens);
        if let Some(procedure) = head(statement) {
            if open.len() < DEEPEST {
                open.push(procedure);
            } else {
                out.unsure = true;
            }
            continue;
        }
        if ends_procedure(tokens) {
            if let Some(procedure) = open.pop() {
                match open.last_mut() {
                    Some(host) => host.inner.push(procedure),
                    None => done.push(procedure),
                }
            }
            continue;
        }
        match open.last_mut() {
            Some(procedure) => procedure.body.push(statement),
            None => globals.push(statement),
        }
    }
    while let Some(procedure) = open.pop() {
        match open.last_mut() {
            Some(host) => host.inner.push(procedure),
            None => done.push(procedure),
        }
    }
    (globals, done)
}

fn ends_procedure(tokens: &[Token]) -> bool {
    match text(tokens, 0) {
        "end" => matches!(
            text(tokens, 1),
            "" | "subroutine" | "function" | "procedure"
        ),
        "endsubroutine" | "endfunction" | "endprocedure" => text(tokens, 1) != "=",
        _ => false,
    }
}

/// The head of a procedure, if the statement is one.
fn head(statement: &Statement) -> Option<Procedure<'_>> {
    let tokens = plain(&statement.tokens);
    let mut at = 0;
    let is_function = loop {
        match text(tokens, at) {
            "subroutine" => break false,
            "function" => break true,
            "pure" | "elemental" | "impure" | "recursive" | "non_recursive" | "module" => at += 1,
            _ => {
                let (_, next) = type_of(tokens.get(at..)?)?;
                at += next;
            }
        }
        if at >= tokens.len() {
            return None;
        }
    };
    let name = tokens.get(at + 1).filter(|t| t.kind == Kind::Word)?;
    let mut dummies = Vec::new();
    let mut next = at + 2;
    if text(tokens, next) == "(" {
        let close = closing(tokens, next)?;
        let words = tokens[next + 1..close].iter();
        dummies = words
            .filter(|t| t.kind == Kind::Word)
            .map(|t| t.text.as_str())
            .collect();
        next = close + 1;
    } else if next < tokens.len() && text(tokens, next) != "bind" {
        return None;
    }
    let rest = tokens.get(next..).unwrap_or_default();
    let behind = |word: &str| {
        let at = rest.iter().position(|t| t.text == word)?;
        let close = closing(rest, at + 1)?;
        Some(&rest[at + 2..close])
    };
    let label = behind("bind").map(|inside| {
        let text = inside.iter().find(|t| t.kind == Kind::Text);
        text.map_or(name.text.as_str(), |t| {
            t.text.trim_matches(['"', '\'', ' '])
        })
        .to_owned()
    });
    let named = behind("result").and_then(|inside| Some(inside.first()?.text.as_str()));
    Some(Procedure {
        name: &name.text,
        label,
        dummies,
        result: is_function.then(|| named.unwrap_or(&name.text)),
        line: statement.line,
        body: Vec::new(),
        inner: Vec::new(),
    })
}

/// The symbols of a procedure, and the indices of the statements that declare them.
pub(super) fn symbols_of(
    procedure: &Procedure<'_>,
    around: &Symbols,
) -> (Symbols, BTreeSet<usize>) {
    let mut symbols = around.clone();
    symbols.order.clear();
    let mut declaring = BTreeSet::new();
    for name in &procedure.dummies {
        symbols.variables.remove(*name);
    }
    for (at, statement) in procedure.body.iter().enumerate() {
        let tokens = plain(&statement.tokens);
        if is_assignment(tokens) {
            continue;
        }
        if symbols.declare(statement) {
            declaring.insert(at);
        }
    }
    for statement in &procedure.body {
        super::statements::imply(statement, &mut symbols);
    }
    for name in procedure.dummies.iter().chain(&procedure.result) {
        symbols.imply(name);
    }
    (symbols, declaring)
}

/// True for `real = 3`, which looks like a declaration.
fn is_assignment(tokens: &[Token]) -> bool {
    text(tokens, 1) == "=" && text(tokens, 2) != "="
}

/// Collects the signatures of procedures.
fn sign(
    procedures: &[Procedure<'_>],
    around: &Symbols,
    left: &Cell<usize>,
    signatures: &mut BTreeMap<String, Signature>,
) {
    for procedure in procedures {
        if !spend(left, WORK_OF_SYMBOL * around.variables.len()) {
            return;
        }
        let (symbols, _) = symbols_of(procedure, around);
        let changed = super::statements::changed(&procedure.body);
        let dummies = procedure.dummies.iter().map(|name| {
            if symbols.array(name).is_some() {
                Dummy::Array
            } else if changed.contains(*name) && procedure.label.is_none() {
                Dummy::Changed
            } else {
                Dummy::Value
            }
        });
        let signature = Signature {
            dummies: dummies.collect(),
        };
        signatures.insert(procedure.name.to_owned(), signature);
        sign(&procedure.inner, &symbols, left, signatures);
    }
}

/// Writes a procedure, with the procedures within it. `around` prints what stands around it.
fn function(procedure: &Procedure<'_>, around: &Printer<'_>, problem: &Problem, out: &mut AsC) {
    let (signatures, outer) = (around.procedures, around.dummies);
    let copied = around.symbols.variables.len() + outer.len();
    if !spend(around.left, WORK_OF_SYMBOL * copied) {
        out.unsure = true;
        return;
    }
    let (symbols, declaring) = symbols_of(procedure, around.symbols);
    let signature = signatures.get(procedure.name).cloned().unwrap_or_default();
    let mut dummies = outer.clone();
    // A variable of the procedure hides one of the procedure around it.
    for name in &symbols.order {
        dummies.remove(name);
    }
    for (name, kind) in procedure.dummies.iter().zip(&signature.dummies) {
        dummies.insert((*name).to_owned(), *kind);
    }
    let printer = Printer {
        symbols: &symbols,
        procedures: signatures,
        dummies: &dummies,
        over: &[],
        function: procedure
            .result
            .filter(|r| *r == procedure.name)
            .unwrap_or(""),
        left: around.left,
        depth: 0,
    };
    // The scan has compared the entry with the prototype, whatever the case of its name.
    let entry = &problem.entry.name;
    let name = match &procedure.label {
        Some(label) if label.eq_ignore_ascii_case(entry) => entry.clone(),
        _ => name_in_c(procedure.name),
    };
    let parameters: Vec<String> = procedure
        .dummies
        .iter()
        .zip(&signature.dummies)
        .map(|(name, kind)| parameter(&symbols, name, *kind))
        .collect();
    let kind = match procedure.result {
        None => "void",
        Some(result) if symbols.is_integer(result) => "int",
        Some(_) => "double",
    };
    out.push(
        procedure.line,
        &format!("{kind} {name}({}) {{", parameters.join(", ")),
    );
    let passed: BTreeSet<&str> = procedure.dummies.iter().copied().collect();
    for line in declarations(&printer, &passed, &symbols.order) {
        out.push(procedure.line, &line);
    }
    for inner in &procedure.inner {
        function(inner, &printer, problem, out);
    }
    let result = procedure.result.map(|result| printer.plain(result));
    let mut body = Body::new(printer, procedure.result, out);
    for (at, statement) in procedure.body.iter().enumerate() {
        if !declaring.contains(&at) {
            body.statement(statement);
        }
    }
    body.end();
    if let Some(result) = result {
        out.push(procedure.line, &format!("return {result};"));
    }
    out.push(procedure.line, "}");
}

fn parameter(symbols: &Symbols, name: &str, kind: Dummy) -> String {
    let base = if symbols.is_integer(name) {
        "int"
    } else {
        "double"
    };
    let plain = name_in_c(name);
    match kind {
        Dummy::Value => format!("{base} {plain}"),
        Dummy::Changed => format!("{base} *{plain}"),
        Dummy::Array => {
            let dims = symbols.array(name).map_or(&[][..], |v| &v.dims);
            // The extents of an assumed shape are those of the actual argument.
            if dims.len() > 1 && dims.iter().all(|b| b.high.is_none()) {
                let extents = "[1]".repeat(dims.len() - 1);
                return format!("{base} (*{plain}){extents}");
            }
            format!("{base} *{plain}")
        }
    }
}

/// The declarations of the variables that are no dummy arguments.
fn declarations(printer: &Printer<'_>, passed: &BTreeSet<&str>, order: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for name in order {
        let Some(variable) = printer.symbols.variables.get(name) else {
            continue;
        };
        if passed.contains(name.as_str()) {
            continue;
        }
        let kind = if variable.integer { "int" } else { "double" };
        let plain = printer.plain(name);
        if variable.dims.is_empty() {
            let value = variable.value.as_ref().and_then(|v| printer.print(v));
            lines.push(match value {
                Some(value) => format!("{kind} {plain} = {value};"),
                None if variable.pointer => format!("{kind} *{plain};"),
                None => format!("{kind} {plain};"),
            });
            continue;
        }
        let extents: Option<Vec<String>> = variable
            .dims
            .iter()
            .rev()
            .map(|bounds| {
                let extent: Expr = super::print::extent(bounds)?;
                Some(format!("[{}]", printer.print(&extent)?))
            })
            .collect();
        lines.push(match extents {
            Some(extents) => format!("{kind} {plain}{};", extents.concat()),
            None => format!("{kind} *{plain} = malloc(1);"),
        });
    }
    lines
}
