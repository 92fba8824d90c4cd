//! The spelling of a program in Fortran.

mod terms;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_problem::{ArgKind, Element, Problem, Role};

use super::ast::{E, Kernel, S, Step, Ty, n, v};
use terms::{is_section, less, sections};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Free,
    Fixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// `do` and `end do`.
    Do,
    /// Sections of arrays where the innermost loop permits them.
    Sections,
    /// `do concurrent` where the innermost loop permits it.
    Concurrent,
    /// `do while`.
    While,
}

/// The spelling.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub form: Form,
    pub inner: Inner,
    /// Subscripts begin at 1, and so do loops.
    pub from_one: bool,
    /// The body of the outermost loop is a procedure.
    pub split: bool,
    /// Local arrays are allocated.
    pub heap: bool,
}

struct Printer<'p> {
    style: Style,
    problem: &'p Problem,
    out: String,
    depth: usize,
    label: u32,
    /// Variables that loops count from 1.
    shifted: BTreeSet<String>,
    ranks: BTreeMap<String, usize>,
}

pub fn print(kernel: &Kernel, problem: &Problem, style: Style) -> String {
    let mut printer = Printer {
        style,
        problem,
        out: String::new(),
        depth: 0,
        label: 0,
        shifted: BTreeSet::new(),
        ranks: BTreeMap::new(),
    };
    printer.program(kernel);
    printer.out
}

fn kind_of(element: Element) -> &'static str {
    match element {
        Element::F32 => "real(c_float)",
        Element::F64 => "real(c_double)",
        Element::I32 => "integer(c_int)",
        other => unreachable!("no kernel of the corpus has {other:?}"),
    }
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        self.labelled("", text);
    }

    fn labelled(&mut self, label: &str, text: &str) {
        let (first, next, width) = match self.style.form {
            Form::Free => (
                format!("{label} {}", "  ".repeat(self.depth)),
                "    & ".to_owned(),
                110,
            ),
            Form::Fixed => (
                format!("{label:>5} {}", " ".repeat(self.depth.min(8))),
                "     & ".to_owned(),
                70,
            ),
        };
        let mut line = first;
        for word in text.split(' ') {
            if line.len() + word.len() + 1 > width {
                if self.style.form == Form::Free {
                    line.push_str(" &");
                }
                self.out.push_str(&line);
                self.out.push('\n');
                line.clone_from(&next);
            }
            line.push_str(word);
            line.push(' ');
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn program(&mut self, kernel: &Kernel) {
        let name = self.problem.entry.name.clone();
        let names: Vec<&str> = self
            .problem
            .entry
            .args
            .iter()
            .map(|a| a.name.as_str())
            .collect();
        let names = names.join(", ");
        self.line(&format!(
            "subroutine {name}({names}) bind(c, name=\"{name}\")"
        ));
        self.depth += 1;
        self.line("use iso_c_binding");
        self.line("implicit none");
        for arg in &self.problem.entry.args.clone() {
            match &arg.kind {
                ArgKind::Int { .. } => {
                    self.line(&format!("integer(c_int), value :: {}", arg.name));
                }
                ArgKind::Scalar { .. } => unreachable!("no kernel of the corpus has scalars"),
                ArgKind::Array {
                    element,
                    role,
                    shape,
                    ..
                } => {
                    let extents: Vec<String> = shape
                        .iter()
                        .rev()
                        .map(|f| self.extent(&f.to_string()))
                        .collect();
                    let intent = match role {
                        Role::Input => "in",
                        _ => "out",
                    };
                    self.line(&format!(
                        "{}, intent({intent}) :: {}({})",
                        kind_of(*element),
                        arg.name,
                        extents.join(", ")
                    ));
                    self.ranks.insert(arg.name.clone(), shape.len());
                }
            }
        }
        self.declarations(&kernel.body);
        let mut allocated = Vec::new();
        if self.style.heap {
            arrays(&kernel.body, &mut allocated);
        }
        for (name, dims) in allocated {
            let extents: Vec<String> = dims
                .iter()
                .rev()
                .map(|d| {
                    let text = self.text(d);
                    self.extent(&text)
                })
                .collect();
            self.line(&format!("allocate({name}({}))", extents.join(", ")));
        }
        let split = if self.style.split {
            kernel.body.iter().position(|s| match s {
                S::For(_, _, _, step, body) => {
                    matches!(step, Step::By(_)) && body.iter().any(S::has_loop)
                }
                _ => false,
            })
        } else {
            None
        };
        let mut part = None;
        for (at, s) in kernel.body.iter().enumerate() {
            match s {
                S::For(name, from, to, step, body) if Some(at) == split => {
                    let call = vec![S::Set(v(format!("call part({name})")), "", n(0))];
                    let shifted = self.shifted.clone();
                    self.statement(&S::For(
                        name.clone(),
                        from.clone(),
                        to.clone(),
                        step.clone(),
                        call,
                    ));
                    let one = self.style.from_one && *step == Step::By(n(1));
                    part = Some((name.clone(), body.clone(), one));
                    self.shifted = shifted;
                }
                other => self.statement(other),
            }
        }
        if let Some((name, body, one)) = part {
            self.line("contains");
            self.line(&format!("subroutine part({name})"));
            self.depth += 1;
            self.line(&format!("integer, intent(in) :: {name}"));
            if one {
                self.shifted.insert(name);
            }
            body.iter().for_each(|s| self.statement(s));
            self.depth -= 1;
            self.line("end subroutine part");
        }
        self.depth -= 1;
        self.line(&format!("end subroutine {name}"));
    }

    fn extent(&self, text: &str) -> String {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match (self.style.from_one, plain) {
            (true, _) => text.to_owned(),
            (false, true) => format!("0:{text} - 1"),
            (false, false) => format!("0:({text}) - 1"),
        }
    }

    /// Declares all variables at the top of the procedure.
    fn declarations(&mut self, body: &[S]) {
        let mut found = BTreeMap::new();
        variables(body, &mut found);
        let own: BTreeSet<String> = self
            .problem
            .entry
            .args
            .iter()
            .map(|a| a.name.to_lowercase())
            .collect();
        for s in body {
            if let S::Const(name, value) = s {
                self.line(&format!("integer, parameter :: {name} = {value}"));
            }
        }
        for (name, (ty, dims)) in found {
            assert!(
                !own.contains(&name.to_lowercase()),
                "`{name}` is an argument of {}",
                self.problem.id
            );
            let kind = match ty {
                Ty::Int => "integer",
                Ty::Double => "real(c_double)",
                Ty::Element => self.element(),
            };
            if dims.is_empty() {
                self.line(&format!("{kind} :: {name}"));
                continue;
            }
            self.ranks.insert(name.clone(), dims.len());
            let extents: Vec<String> = dims
                .iter()
                .rev()
                .map(|d| {
                    let text = self.text(d);
                    self.extent(&text)
                })
                .collect();
            if self.style.heap {
                let colons = vec![":"; dims.len()].join(", ");
                self.line(&format!("{kind}, allocatable :: {name}({colons})"));
            } else {
                self.line(&format!("{kind} :: {name}({})", extents.join(", ")));
            }
        }
    }

    fn element(&self) -> &'static str {
        let mut arrays = self
            .problem
            .entry
            .args
            .iter()
            .filter_map(|arg| match &arg.kind {
                ArgKind::Array { element, role, .. } if *role == Role::Output => Some(*element),
                _ => None,
            });
        kind_of(arrays.next_back().unwrap_or(Element::F64))
    }

    fn statement(&mut self, s: &S) {
        match s {
            S::For(name, from, to, step, body) => self.looped(name, from, to, step, body),
            S::While(condition, body) => {
                let condition = self.text(condition);
                self.line(&format!("do while ({condition})"));
                self.indented(body);
                self.line("end do");
            }
            S::If(condition, yes, no) => {
                let condition = self.text(condition);
                if let ([S::Set(..)], []) = (&yes[..], &no[..]) {
                    let from = self.out.len();
                    self.indented(yes);
                    let inner = self.out.split_off(from);
                    if inner.lines().count() == 1 {
                        self.line(&format!("if ({condition}) {}", inner.trim()));
                        return;
                    }
                }
                self.line(&format!("if ({condition}) then"));
                self.indented(yes);
                if !no.is_empty() {
                    self.line("else");
                    self.indented(no);
                }
                self.line("end if");
            }
            S::Set(E::V(call), "", _) => self.line(&call.clone()),
            S::Set(target, sign, value) => {
                let target = self.text(target);
                let text = self.text(value);
                let text = match sign.trim_end_matches('=') {
                    "" => format!("{target} = {text}"),
                    sign => format!("{target} = {target} {sign} ({text})"),
                };
                self.line(&text);
            }
            S::Let(_, name, Some(value)) => {
                let text = self.text(value);
                self.line(&format!("{name} = {text}"));
            }
            S::Array(ty, name, _, true) => {
                let zero = if *ty == Ty::Int { "0" } else { "0.0d0" };
                self.line(&format!("{name} = {zero}"));
            }
            S::Let(..) | S::Array(..) | S::Const(..) | S::Prefetch(_) => {}
            S::Pragma(text) => {
                let text = text.replace("parallel for", "parallel do");
                let sentinel = match self.style.form {
                    Form::Free => "!",
                    Form::Fixed => "c",
                };
                let text = match text.strip_prefix("GCC ") {
                    Some(rest) => format!("{sentinel}GCC$ {rest}\n"),
                    None => format!("{sentinel}${text}\n"),
                };
                self.out.push_str(&text);
            }
        }
    }

    fn indented(&mut self, body: &[S]) {
        self.depth += 1;
        body.iter().for_each(|s| self.statement(s));
        self.depth -= 1;
    }

    fn looped(&mut self, name: &str, from: &E, to: &E, step: &Step, body: &[S]) {
        match step {
            Step::Times(by) => {
                let (from, to) = (self.text(from), self.text(to));
                self.line(&format!("{name} = {from}"));
                self.line(&format!("do while ({name} < {to})"));
                self.indented(body);
                self.line(&format!("  {name} = {name} * {by}"));
                self.line("end do");
                return;
            }
            Step::Halve => {
                let (from, to) = (self.text(from), self.text(to));
                self.line(&format!("{name} = {from}"));
                self.line(&format!("do while ({name} >= {to})"));
                self.indented(body);
                self.line(&format!("  {name} = {name} / 2"));
                self.line("end do");
                return;
            }
            Step::Down => {
                let (from, to) = (self.text(from), self.text(to));
                self.line(&format!("do {name} = {from}, {to}, -1"));
                self.indented(body);
                self.line("end do");
                return;
            }
            Step::By(_) => {}
        }
        let Step::By(by) = step else { return };
        let one = *by == n(1);
        let shifts = self.style.from_one && one;
        let simple = match body {
            [S::Set(target, sign, value)] => {
                matches!(target, E::At(..))
                    && target.mentions(name)
                    && is_section(name, target)
                    && is_section(name, value)
                    && !sign.is_empty()
            }
            _ => false,
        };
        if self.style.inner == Inner::Sections && simple && one {
            let S::Set(target, sign, value) = &body[0] else {
                return;
            };
            let range = |e: &E| sections(e, name, from, to);
            let set = S::Set(range(target), sign, range(value));
            self.statement(&set);
            return;
        }
        let low = if shifts {
            from.clone() + n(1)
        } else {
            from.clone()
        };
        let high = if shifts { to.clone() } else { less(to) };
        let (low, high) = (self.text(&low), self.text(&high));
        let step = if one {
            String::new()
        } else {
            format!(", {}", self.text(by))
        };
        let added = shifts && self.shifted.insert(name.to_owned());
        if self.style.inner == Inner::Concurrent && simple && one {
            self.line(&format!("do concurrent ({name} = {low}:{high})"));
            self.indented(body);
            self.line("end do");
        } else if self.style.inner == Inner::While && !body.iter().any(S::has_loop) {
            self.line(&format!("{name} = {low}"));
            self.line(&format!("do while ({name} <= {high})"));
            self.indented(body);
            let by = self.text(by);
            self.line(&format!("  {name} = {name} + {by}"));
            self.line("end do");
        } else if self.style.form == Form::Fixed {
            self.label += 10;
            let label = self.label;
            self.line(&format!("do {label} {name} = {low}, {high}{step}"));
            self.indented(body);
            self.labelled(&label.to_string(), "continue");
        } else {
            self.line(&format!("do {name} = {low}, {high}{step}"));
            self.indented(body);
            self.line("end do");
        }
        if added {
            self.shifted.remove(name);
        }
    }
}

fn arrays(body: &[S], found: &mut Vec<(String, Vec<E>)>) {
    for s in body {
        match s {
            S::Array(_, name, dims, _) if !found.iter().any(|(n, _)| n == name) => {
                found.push((name.clone(), dims.clone()));
            }
            S::For(_, _, _, _, body) | S::While(_, body) => arrays(body, found),
            S::If(_, a, b) => {
                arrays(a, found);
                arrays(b, found);
            }
            _ => {}
        }
    }
}

fn variables(body: &[S], found: &mut BTreeMap<String, (Ty, Vec<E>)>) {
    for s in body {
        match s {
            S::For(name, _, _, _, body) => {
                found.insert(name.clone(), (Ty::Int, Vec::new()));
                variables(body, found);
            }
            S::While(_, body) => variables(body, found),
            S::If(_, a, b) => {
                variables(a, found);
                variables(b, found);
            }
            S::Let(ty, name, _) => {
                found.insert(name.clone(), (*ty, Vec::new()));
            }
            S::Array(ty, name, dims, _) => {
                found.insert(name.clone(), (*ty, dims.clone()));
            }
            _ => {}
        }
    }
}
