//! The spelling of a program in C and C++.

mod outline;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use flopsmith_problem::{ArgKind, Element, Problem, Role};

use super::ast::{E, Kernel, S, Step, Ty, n, v};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loops {
    For,
    /// Variables are declared at the top, and bounds stand on the left.
    Old,
    While,
    /// `!=` and `+= 1`.
    Unequal,
    DoWhile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    Flat,
    Macro,
    /// Pointers to rows of variable length.
    Rows,
    /// Pointers to the row that the innermost loop runs along.
    RowPointer,
    /// Pointers that the innermost loop moves.
    Walk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Whole,
    /// The body of the outermost loop is a function.
    Function,
    /// … a function template with the blocks' sizes as parameters.
    Template,
    /// … a lambda.
    Lambda,
    /// The whole loop nest is a function.
    Nest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Least {
    Ternary,
    Macro,
    Function,
    Std,
    /// The bound is a variable that an `if` lowers.
    Clamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constant {
    Define,
    Enum,
    Static,
    Literal,
}

/// The spelling.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub cxx: bool,
    pub loops: Loops,
    pub index: Index,
    pub split: Split,
    pub least: Least,
    pub constant: Constant,
    /// Local arrays are allocated.
    pub heap: bool,
}

struct Array {
    dims: Vec<String>,
    kind: String,
    read_only: bool,
    /// Flat memory, as that of arguments and of allocated arrays.
    flat: bool,
    argument: bool,
}

struct Printer<'p> {
    style: Style,
    problem: &'p Problem,
    out: String,
    depth: usize,
    arrays: BTreeMap<String, Array>,
    constants: BTreeMap<String, i64>,
    /// Rows and elements that pointers stand for.
    aliases: Vec<(String, Vec<E>, String)>,
    walked: Vec<(E, String)>,
    names: usize,
}

pub fn print(kernel: &Kernel, problem: &Problem, style: Style) -> String {
    let mut printer = Printer {
        style,
        problem,
        out: String::new(),
        depth: 0,
        arrays: BTreeMap::new(),
        constants: BTreeMap::new(),
        aliases: Vec::new(),
        walked: Vec::new(),
        names: 0,
    };
    printer.program(kernel);
    printer.out
}

fn element(problem: &Problem) -> &'static str {
    let mut arrays = problem.entry.args.iter().filter_map(|arg| match &arg.kind {
        ArgKind::Array { element, role, .. } if *role == Role::Output => Some(*element),
        _ => None,
    });
    match arrays.next_back() {
        Some(Element::F32) => "float",
        Some(Element::I32) => "int",
        _ => "double",
    }
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let indent = "    ".repeat(self.depth);
        let _ = writeln!(self.out, "{indent}{text}");
    }

    fn program(&mut self, kernel: &Kernel) {
        let include = |name: &str, plain: &str| match self.style.cxx {
            true => format!("#include <{name}>"),
            false => format!("#include <{plain}.h>"),
        };
        for header in [
            include("cmath", "math"),
            include("cstdlib", "stdlib"),
            include("cstddef", "stddef"),
        ] {
            self.line(&header);
        }
        if self.style.cxx {
            self.line("#include <algorithm>");
        }
        if self.style.least == Least::Macro {
            self.line("#define MIN(a, b) ((a) < (b) ? (a) : (b))");
            self.line("#define MAX(a, b) ((a) > (b) ? (a) : (b))");
        }
        for arg in &self.problem.entry.args {
            if let ArgKind::Array {
                element,
                role,
                shape,
                ..
            } = &arg.kind
            {
                let kind = match element {
                    Element::F32 => "float",
                    Element::F64 => "double",
                    Element::I32 => "int",
                    other => unreachable!("no kernel of the corpus has {other:?}"),
                };
                let dims = shape.iter().map(|f| {
                    let text = f.to_string();
                    let plain = text.chars().all(|c| c.is_ascii_alphanumeric());
                    if plain { text } else { format!("({text})") }
                });
                self.arrays.insert(
                    arg.name.clone(),
                    Array {
                        dims: dims.collect(),
                        kind: kind.to_owned(),
                        read_only: *role == Role::Input,
                        flat: true,
                        argument: true,
                    },
                );
            }
        }
        if self.style.index == Index::Macro {
            let arrays: Vec<(String, usize)> = self
                .arrays
                .iter()
                .filter(|(_, a)| a.dims.len() > 1)
                .map(|(name, a)| (name.clone(), a.dims.len()))
                .collect();
            for (name, rank) in arrays {
                let letters: Vec<&str> = ["r", "s", "t"][..rank].to_vec();
                let subscripts: Vec<E> = letters.iter().map(|l| v(format!("({l})"))).collect();
                let flat = self.flat(&name, &subscripts);
                self.line(&format!(
                    "#define {name}_AT({}) {name}[{flat}]",
                    letters.join(", ")
                ));
            }
        }
        for s in &kernel.body {
            if let S::Const(name, value) = s {
                self.constants.insert(name.clone(), *value);
                match self.style.constant {
                    Constant::Define => self.line(&format!("#define {name} {value}")),
                    Constant::Enum => self.line(&format!("enum {{ {name} = {value} }};")),
                    Constant::Static if self.style.cxx => {
                        self.line(&format!("static constexpr int {name} = {value};"));
                    }
                    Constant::Static => self.line(&format!("static const int {name} = {value};")),
                    Constant::Literal => {}
                }
            }
        }
        if self.style.least == Least::Function {
            self.line("static inline int lesser(int p, int q) { return p < q ? p : q; }");
            self.line("static inline int greater(int p, int q) { return p > q ? p : q; }");
        }
        self.functions(kernel);
    }

    /// A function's body.
    fn block(&mut self, body: &[S]) {
        self.line("{");
        self.depth += 1;
        self.prelude(body);
        body.iter().for_each(|s| self.statement(s));
        self.depth -= 1;
        self.line("}");
    }

    /// The declarations at the top of a function.
    fn prelude(&mut self, body: &[S]) {
        if self.style.loops == Loops::Old {
            let mut names = BTreeSet::new();
            loop_names(body, &mut names);
            if !names.is_empty() {
                let names: Vec<String> = names.into_iter().collect();
                self.line(&format!("int {};", names.join(", ")));
            }
        }
        if self.style.index != Index::Rows {
            return;
        }
        let mut lines = Vec::new();
        for (name, array) in &self.arrays {
            if array.argument && array.dims.len() > 1 {
                let extents: String = array.dims[1..].iter().map(|d| format!("[{d}]")).collect();
                let constant = if array.read_only { "const " } else { "" };
                let kind = &array.kind;
                lines.push(format!(
                    "{constant}{kind} (*{name}rows){extents} = ({constant}{kind} (*){extents}){name};"
                ));
            }
        }
        lines.iter().for_each(|line| self.line(line));
    }

    fn learn(&mut self, body: &[S]) {
        for s in body {
            match s {
                S::Array(ty, name, dims, _) => {
                    let constant = dims.iter().all(|d| self.is_constant(d));
                    let dims = dims.iter().map(|d| self.parenthesized(d)).collect();
                    let array = Array {
                        dims,
                        kind: self.kind(*ty),
                        read_only: false,
                        flat: self.style.heap || !constant,
                        argument: false,
                    };
                    self.arrays.insert(name.clone(), array);
                }
                S::For(_, _, _, _, body) | S::While(_, body) => self.learn(body),
                S::If(_, a, b) => {
                    self.learn(a);
                    self.learn(b);
                }
                _ => {}
            }
        }
    }

    fn is_constant(&self, e: &E) -> bool {
        let mut constant = true;
        e.walk(&mut |e| match e {
            E::V(name) => constant &= self.constants.contains_key(name),
            E::N(_) | E::Bin(..) => {}
            _ => constant = false,
        });
        constant
    }

    fn kind(&self, ty: Ty) -> String {
        match ty {
            Ty::Int => "int".into(),
            Ty::Element => element(self.problem).into(),
            Ty::Double => "double".into(),
        }
    }

    fn statement(&mut self, s: &S) {
        match s {
            S::For(name, from, to, step, body) => self.looped(name, from, to, step, body),
            S::While(condition, body) => {
                let condition = self.text(condition);
                self.line(&format!("while ({condition}) {{"));
                self.indented(body);
                self.line("}");
            }
            S::If(condition, yes, no) => {
                let condition = self.text(condition);
                self.line(&format!("if ({condition}) {{"));
                self.indented(yes);
                if !no.is_empty() {
                    self.line("} else {");
                    self.indented(no);
                }
                self.line("}");
            }
            S::Set(E::V(call), "", _) => self.line(&format!("{call};")),
            S::Set(target, sign, value) => {
                let (target, value) = (self.text(target), self.text(value));
                self.line(&format!("{target} {sign} {value};"));
            }
            S::Let(ty, name, value) => {
                let kind = self.kind(*ty);
                match value {
                    Some(value) => {
                        let value = self.text(value);
                        self.line(&format!("{kind} {name} = {value};"));
                    }
                    None => self.line(&format!("{kind} {name};")),
                }
            }
            S::Array(_, name, _, zero) => self.array(name, *zero),
            S::Const(..) => {}
            S::Pragma(text) => {
                let text = format!("#pragma {text}");
                let _ = writeln!(self.out, "{text}");
            }
            S::Prefetch(place) => {
                let place = self.text(place);
                self.line(&format!("__builtin_prefetch(&{place});"));
            }
        }
    }

    fn array(&mut self, name: &str, zero: bool) {
        let array = &self.arrays[name];
        let extents: String = array.dims.iter().map(|d| format!("[{d}]")).collect();
        let kind = array.kind.clone();
        let count = array.dims.join(" * ");
        if !array.flat {
            let value = if zero { " = {0}" } else { "" };
            let value = if zero && self.style.cxx {
                " = {}"
            } else {
                value
            };
            self.line(&format!("{kind} {name}{extents}{value};"));
            return;
        }
        let cast = if self.style.cxx {
            format!("static_cast<{kind} *>")
        } else {
            String::new()
        };
        let call = if zero {
            format!("calloc((size_t){count}, sizeof({kind}))")
        } else {
            format!("malloc(sizeof({kind}) * {count})")
        };
        let std = if self.style.cxx { "std::" } else { "" };
        let call = if cast.is_empty() {
            call
        } else {
            format!("({std}{call})")
        };
        self.line(&format!("{kind} *{name} = {cast}{call};"));
        self.line(&format!("if (!{name}) {std}abort();"));
    }

    fn indented(&mut self, body: &[S]) {
        self.depth += 1;
        body.iter().for_each(|s| self.statement(s));
        self.depth -= 1;
    }

    fn looped(&mut self, name: &str, from: &E, to: &E, step: &Step, body: &[S]) {
        let clamps = self.style.least == Least::Clamp
            && matches!(to, E::Call("min", _))
            && matches!(step, Step::By(_));
        if clamps && let E::Call(_, bounds) = to {
            self.names += 1;
            let end = format!("end{}", self.names);
            let (first, second) = (self.text(&bounds[0]), self.text(&bounds[1]));
            self.line("{");
            self.depth += 1;
            self.line(&format!("int {end} = {first};"));
            self.line(&format!("if ({end} > {second}) {end} = {second};"));
            self.looped(name, from, &v(end), step, body);
            self.depth -= 1;
            self.line("}");
            return;
        }
        let innermost = !body.iter().any(S::has_loop);
        let (rows, walks) = (self.aliases.len(), self.walked.len());
        let mut moves = Vec::new();
        let mut opened = false;
        if innermost && matches!(step, Step::By(_)) {
            let mut lines = Vec::new();
            match self.style.index {
                Index::RowPointer => lines = self.row_pointers(name, body),
                Index::Walk => (lines, moves) = self.walking_pointers(name, from, step, body),
                _ => {}
            }
            if !lines.is_empty() {
                opened = true;
                self.line("{");
                self.depth += 1;
                lines.iter().for_each(|line| self.line(line));
            }
        }
        self.head(name, from, to, step, body, &moves);
        self.aliases.truncate(rows);
        self.walked.truncate(walks);
        if opened {
            self.depth -= 1;
            self.line("}");
        }
    }

    fn head(&mut self, name: &str, from: &E, to: &E, step: &Step, body: &[S], moves: &[String]) {
        let (start, end) = (self.text(from), self.text(to));
        let by_one = *step == Step::By(n(1));
        let change = match step {
            Step::By(by) if *by == n(1) => format!("{name}++"),
            Step::By(by) => format!("{name} += {}", self.text(by)),
            Step::Down => format!("{name}--"),
            Step::Times(by) => format!("{name} *= {by}"),
            Step::Halve => format!("{name} /= 2"),
        };
        let sign = match step {
            Step::Down | Step::Halve => ">=",
            _ => "<",
        };
        let body_with = |printer: &mut Self, last: Option<&str>| {
            printer.indented(body);
            printer.depth += 1;
            moves.iter().for_each(|m| printer.line(m));
            last.iter().for_each(|l| printer.line(&format!("{l};")));
            printer.depth -= 1;
        };
        match self.style.loops {
            Loops::While => {
                self.line("{");
                self.depth += 1;
                self.line(&format!("int {name} = {start};"));
                self.line(&format!("while ({name} {sign} {end}) {{"));
                body_with(self, Some(&change));
                self.line("}");
                self.depth -= 1;
                self.line("}");
            }
            Loops::DoWhile if by_one && *from == n(0) && matches!(to, E::V(_)) => {
                self.line("{");
                self.depth += 1;
                self.line(&format!("int {name} = 0;"));
                self.line("do {");
                body_with(self, None);
                self.line(&format!("}} while (++{name} < {end});"));
                self.depth -= 1;
                self.line("}");
            }
            Loops::Unequal if by_one => {
                self.line(&format!(
                    "for (int {name} = {start}; {name} != {end}; {name} += 1) {{"
                ));
                body_with(self, None);
                self.line("}");
            }
            Loops::Old => {
                let turned = match sign {
                    "<" => format!("{end} > {name}"),
                    _ => format!("{end} <= {name}"),
                };
                let change = if by_one { format!("++{name}") } else { change };
                self.line(&format!("for ({name} = {start}; {turned}; {change}) {{"));
                body_with(self, None);
                self.line("}");
            }
            _ => {
                self.line(&format!(
                    "for (int {name} = {start}; {name} {sign} {end}; {change}) {{"
                ));
                body_with(self, None);
                self.line("}");
            }
        }
    }
}

fn loop_names(body: &[S], names: &mut BTreeSet<String>) {
    for s in body {
        match s {
            S::For(name, _, _, _, body) => {
                names.insert(name.clone());
                loop_names(body, names);
            }
            S::While(_, body) => loop_names(body, names),
            S::If(_, a, b) => {
                loop_names(a, names);
                loop_names(b, names);
            }
            _ => {}
        }
    }
}
