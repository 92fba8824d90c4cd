//! The spelling of a program in C and C++.

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
    let arrays = problem.entry.args.iter().filter_map(|arg| match &arg.kind {
        ArgKind::Array { element, role, .. } if *role == Role::Output => Some(*element),
        _ => None,
    });
    match arrays.last() {
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

    fn functions(&mut self, kernel: &Kernel) {
        // The arrays that the body declares have to be known before a helper is written.
        let body: Vec<S> = kernel.body.clone();
        self.learn(&body);
        let outlined = match self.style.split {
            Split::Whole => None,
            _ => outline(&body, self.style.split == Split::Nest),
        };
        let prototype = self
            .problem
            .entry
            .prototype
            .trim_end_matches(';')
            .to_owned();
        let mut body = body;
        if let Some(outlined) = outlined {
            let parameters = self.parameters(&outlined);
            let arguments: Vec<String> = parameters.iter().map(|(name, _)| name.clone()).collect();
            let call = match self.style.split {
                Split::Lambda => match &outlined.variable {
                    Some(variable) => format!("part({variable})"),
                    None => "part()".to_owned(),
                },
                Split::Template => {
                    let sizes = self.constants.keys().map(|c| format!(", {c}"));
                    let sizes: String = sizes.collect();
                    let kind = element(self.problem);
                    format!("part<{kind}{sizes}>({})", arguments.join(", "))
                }
                _ => format!("part({})", arguments.join(", ")),
            };
            if self.style.split != Split::Lambda {
                let list: Vec<String> = parameters.into_iter().map(|(_, text)| text).collect();
                if self.style.split == Split::Template {
                    let sizes = self.constants.keys().map(|c| format!(", int {c}"));
                    let sizes: String = sizes.collect();
                    self.line(&format!("template <typename T{sizes}>"));
                }
                self.line(&format!("static inline void part({})", list.join(", ")));
                self.block(&outlined.body);
            }
            body[outlined.at] = match (&body[outlined.at], &outlined.variable) {
                (S::For(name, from, to, step, _), Some(_)) => S::For(
                    name.clone(),
                    from.clone(),
                    to.clone(),
                    step.clone(),
                    vec![S::Set(v(call), "", n(0))],
                ),
                _ => S::Set(v(call), "", n(0)),
            };
            if self.style.cxx {
                self.line("extern \"C\"");
            }
            self.line(&prototype);
            self.line("{");
            self.depth += 1;
            let all: Vec<S> = body.iter().chain(&outlined.body).cloned().collect();
            self.prelude(if self.style.split == Split::Lambda {
                &all
            } else {
                &body
            });
            if self.style.split == Split::Lambda {
                let (before, after) = body.split_at(outlined.at);
                before.iter().for_each(|s| self.statement(s));
                let parameter = outlined
                    .variable
                    .as_ref()
                    .map_or(String::new(), |name| format!("int {name}"));
                self.line(&format!("auto part = [&]({parameter}) {{"));
                self.depth += 1;
                outlined.body.iter().for_each(|s| self.statement(s));
                self.depth -= 1;
                self.line("};");
                after.iter().for_each(|s| self.statement(s));
            } else {
                body.iter().for_each(|s| self.statement(s));
            }
            self.depth -= 1;
            self.line("}");
            return;
        }
        if self.style.cxx {
            self.line("extern \"C\"");
        }
        self.line(&prototype);
        self.block(&body);
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

    /// Names and declarations of the parameters of a helper.
    fn parameters(&self, outlined: &Outlined) -> Vec<(String, String)> {
        let mut used = BTreeSet::new();
        for s in &outlined.body {
            s.expressions(&mut |e| match e {
                E::V(name) | E::At(name, _) => {
                    used.insert(name.clone());
                }
                _ => {}
            });
        }
        let mut found = Vec::new();
        let prototype = self.problem.entry.prototype.as_str();
        let list = prototype
            .split_once('(')
            .and_then(|(_, rest)| rest.rsplit_once(')'))
            .map_or("", |(list, _)| list);
        for (text, arg) in list.split(',').zip(&self.problem.entry.args) {
            found.push((arg.name.clone(), text.trim().to_owned()));
        }
        for (name, ty) in &outlined.outer {
            if !used.contains(name) {
                continue;
            }
            let text = match (self.arrays.get(name), ty) {
                (Some(array), _) if array.flat => format!("{} *{name}", array.kind),
                (Some(array), _) => {
                    let extents: String =
                        array.dims[1..].iter().map(|d| format!("[{d}]")).collect();
                    format!("{} {name}[]{extents}", array.kind)
                }
                (None, ty) => format!("{} {name}", self.kind(*ty)),
            };
            found.push((name.clone(), text));
        }
        if let Some(variable) = &outlined.variable {
            found.push((variable.clone(), format!("int {variable}")));
        }
        found
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

    /// Declares a pointer for each row that the innermost loop runs along.
    fn row_pointers(&mut self, name: &str, body: &[S]) -> Vec<String> {
        let mut lines = Vec::new();
        for (array, subscripts) in references(body) {
            let Some(known) = self.arrays.get(&array).filter(|a| a.argument) else {
                continue;
            };
            let Some((last, before)) = subscripts.split_last() else {
                continue;
            };
            let along = last.mentions(name) && before.iter().all(|e| !e.mentions(name));
            let known_row = self
                .aliases
                .iter()
                .any(|(a, b, _)| *a == array && b == before);
            // Variables of the loop's body are not known before the loop.
            if before.is_empty() || !along || known_row || declared_in(body, before) {
                continue;
            }
            let constant = if known.read_only { "const " } else { "" };
            let kind = known.kind.clone();
            let mut place = before.to_vec();
            place.push(n(0));
            let flat = self.flat(&array, &place);
            self.names += 1;
            let row = format!("row{}", self.names);
            lines.push(format!("{constant}{kind} *{row} = &{array}[{flat}];"));
            self.aliases.push((array, before.to_vec(), row));
        }
        lines
    }

    /// Declares a pointer for each element that the innermost loop moves along one dimension.
    fn walking_pointers(
        &mut self,
        name: &str,
        from: &E,
        step: &Step,
        body: &[S],
    ) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut moves) = (Vec::new(), Vec::new());
        let Step::By(by) = step else {
            return (lines, moves);
        };
        for (array, subscripts) in references(body) {
            let Some(known) = self.arrays.get(&array).filter(|a| a.argument) else {
                continue;
            };
            let moving: Vec<usize> = (0..subscripts.len())
                .filter(|at| subscripts[*at].mentions(name))
                .collect();
            let [dim] = moving[..] else { continue };
            let plain = match &subscripts[dim] {
                E::V(own) => own == name,
                E::Bin("+", a, b) => [a, b].iter().any(|e| **e == Box::new(v(name))) && a != b,
                _ => false,
            };
            let place = E::At(array.clone(), subscripts.clone());
            let known_place = self.walked.iter().any(|(e, _)| *e == place);
            if !plain || known_place || declared_in(body, &subscripts) {
                continue;
            }
            let constant = if known.read_only { "const " } else { "" };
            let kind = known.kind.clone();
            let strides = known.dims[dim + 1..].join(" * ");
            let start: Vec<E> = subscripts.iter().map(|e| e.with(name, from)).collect();
            let flat = self.flat(&array, &start);
            self.names += 1;
            let pointer = format!("p{}", self.names);
            lines.push(format!("{constant}{kind} *{pointer} = &{array}[{flat}];"));
            let by = self.text(by);
            moves.push(match strides.as_str() {
                "" => format!("{pointer} += {by};"),
                strides => format!("{pointer} += {by} * {strides};"),
            });
            self.walked.push((place, pointer));
        }
        (lines, moves)
    }

    fn flat(&mut self, array: &str, subscripts: &[E]) -> String {
        let dims = self.arrays[array].dims.clone();
        let mut text = String::new();
        for (at, subscript) in subscripts.iter().enumerate() {
            let part = self.text(subscript);
            if at == 0 {
                text = part;
            } else {
                let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                let left = if plain { text } else { format!("({text})") };
                text = format!("{left} * {} + {part}", dims[at]);
            }
        }
        text
    }

    fn parenthesized(&mut self, e: &E) -> String {
        let text = self.text(e);
        match e {
            E::N(_) | E::V(_) | E::At(..) | E::Call(..) | E::R(_) => text,
            _ => format!("({text})"),
        }
    }

    fn text(&mut self, e: &E) -> String {
        match e {
            E::N(value) => value.to_string(),
            E::R(text) => (*text).to_owned(),
            E::V(name) => match self.constants.get(name) {
                Some(value) if self.style.constant == Constant::Literal => value.to_string(),
                _ => name.clone(),
            },
            E::Bin(sign, a, b) => {
                let (a, b) = (self.operand(a, sign, true), self.operand(b, sign, false));
                format!("{a} {sign} {b}")
            }
            E::At(array, subscripts) => self.place(array, subscripts),
            E::Call(name @ ("min" | "max"), arguments) => {
                let (a, b) = (self.text(&arguments[0]), self.text(&arguments[1]));
                let least = *name == "min";
                match self.style.least {
                    Least::Macro => format!("{}({a}, {b})", name.to_uppercase()),
                    Least::Function => {
                        format!("{}({a}, {b})", if least { "lesser" } else { "greater" })
                    }
                    Least::Std if self.style.cxx => format!("std::{name}({a}, {b})"),
                    _ => {
                        let sign = if least { "<" } else { ">" };
                        format!("(({a}) {sign} ({b}) ? ({a}) : ({b}))")
                    }
                }
            }
            E::Call(name, arguments) => {
                let list: Vec<String> = arguments.iter().map(|a| self.text(a)).collect();
                let std = if self.style.cxx { "std::" } else { "" };
                format!("{std}{name}({})", list.join(", "))
            }
            E::If(condition, yes, no) => {
                let (condition, yes, no) = (
                    self.text(condition),
                    self.parenthesized(yes),
                    self.parenthesized(no),
                );
                format!("({condition} ? {yes} : {no})")
            }
        }
    }

    fn operand(&mut self, e: &E, sign: &str, is_left: bool) -> String {
        let level = |sign: &str| match sign {
            "*" | "/" | "%" => 3,
            "+" | "-" => 2,
            "<" | ">" | "<=" | ">=" | "==" | "!=" => 1,
            _ => 0,
        };
        let text = self.text(e);
        match e {
            E::Bin(inner, ..)
                if level(inner) < level(sign) || (level(inner) == level(sign) && !is_left) =>
            {
                format!("({text})")
            }
            _ => text,
        }
    }

    fn place(&mut self, array: &str, subscripts: &[E]) -> String {
        let place = E::At(array.to_owned(), subscripts.to_vec());
        if let Some((_, pointer)) = self.walked.iter().find(|(e, _)| *e == place) {
            return format!("(*{pointer})");
        }
        if let Some((last, before)) = subscripts.split_last()
            && let Some((_, _, row)) = self
                .aliases
                .iter()
                .find(|(a, b, _)| a == array && b == before)
                .cloned()
        {
            let last = self.text(last);
            return format!("{row}[{last}]");
        }
        let Some(known) = self.arrays.get(array) else {
            panic!("the array `{array}` is not declared");
        };
        assert_eq!(known.dims.len(), subscripts.len(), "subscripts of {array}");
        if known.flat && subscripts.len() > 1 {
            match (self.style.index, known.argument) {
                (Index::Macro, true) => {
                    let list: Vec<String> = subscripts.iter().map(|s| self.text(s)).collect();
                    return format!("{array}_AT({})", list.join(", "));
                }
                (Index::Rows, true) => {
                    let list: String = subscripts
                        .iter()
                        .map(|s| format!("[{}]", self.text(s)))
                        .collect();
                    return format!("{array}rows{list}");
                }
                _ => {
                    let flat = self.flat(array, subscripts);
                    return format!("{array}[{flat}]");
                }
            }
        }
        let list: String = subscripts
            .iter()
            .map(|s| format!("[{}]", self.text(s)))
            .collect();
        format!("{array}{list}")
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

/// The references to arrays in a loop's body, outside of the subscripts of other references.
fn references(body: &[S]) -> Vec<(String, Vec<E>)> {
    let mut found: Vec<(String, Vec<E>)> = Vec::new();
    for s in body {
        s.expressions(&mut |e| {
            if let E::At(array, subscripts) = e
                && !found.iter().any(|(a, b)| a == array && b == subscripts)
            {
                found.push((array.clone(), subscripts.clone()));
            }
        });
    }
    found
}

fn declared_in(body: &[S], expressions: &[E]) -> bool {
    let (mut declared, mut changed) = (BTreeSet::new(), BTreeSet::new());
    body.iter()
        .for_each(|s| s.names(&mut declared, &mut changed));
    declared
        .iter()
        .chain(&changed)
        .any(|name| expressions.iter().any(|e| e.mentions(name)))
}

/// A part of a program that becomes a function.
struct Outlined {
    /// The index of the loop in the program.
    at: usize,
    /// The loop's variable, if the function is the loop's body.
    variable: Option<String>,
    body: Vec<S>,
    /// Variables and arrays that are declared before the loop.
    outer: Vec<(String, Ty)>,
}

fn outline(body: &[S], whole: bool) -> Option<Outlined> {
    let mut outer = Vec::new();
    for (at, s) in body.iter().enumerate() {
        match s {
            S::Let(ty, name, _) | S::Array(ty, name, ..) => outer.push((name.clone(), *ty)),
            S::For(name, from, to, step, inner) if inner.iter().any(S::has_loop) => {
                let (mut declared, mut changed) = (BTreeSet::new(), BTreeSet::new());
                inner
                    .iter()
                    .for_each(|s| s.names(&mut declared, &mut changed));
                if changed.iter().any(|name| !declared.contains(name)) {
                    continue;
                }
                // A directive before the loop belongs to the loop.
                let (variable, body) = if whole {
                    let all = S::For(
                        name.clone(),
                        from.clone(),
                        to.clone(),
                        step.clone(),
                        inner.clone(),
                    );
                    (None, vec![all])
                } else {
                    (Some(name.clone()), inner.clone())
                };
                return Some(Outlined {
                    at,
                    variable,
                    body,
                    outer,
                });
            }
            _ => {}
        }
    }
    None
}
