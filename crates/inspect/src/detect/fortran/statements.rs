//! The statements of a procedure.

use std::collections::BTreeSet;

use super::expressions::{Expr, parse, parse_list};
use super::print::{Printer, name_in_c};
use super::sections::Names;
use super::symbols::Symbols;
use super::{AsC, closing, text};
use crate::scan::token::Kind;
use crate::scan::{Statement, Token};

/// Constructs that are open at a time; more are not followed.
const DEEPEST: usize = 100;

/// The statement without its label or its construct's name.
pub(super) fn plain(tokens: &[Token]) -> &[Token] {
    let tokens = match tokens.first() {
        Some(first) if first.kind == Kind::Number => &tokens[1..],
        _ => tokens,
    };
    match tokens {
        [name, colon, rest @ ..]
            if name.kind == Kind::Word && colon.text == ":" && text(rest, 0) != ":" =>
        {
            rest
        }
        _ => tokens,
    }
}

/// The label of a statement.
fn label(statement: &Statement) -> Option<&str> {
    let first = statement.tokens.first();
    let free = first.filter(|t| t.kind == Kind::Number);
    let label = statement
        .label
        .as_deref()
        .or(free.map(|t| t.text.as_str()))?;
    Some(label.trim_start_matches('0'))
}

/// The index of the `=` of an assignment, or of the `=` of `=>`.
fn assignment(tokens: &[Token]) -> Option<usize> {
    let mut at = 0;
    loop {
        // A name, perhaps with subscripts, or a part of one.
        if tokens.get(at)?.kind != Kind::Word {
            return None;
        }
        at += 1;
        while text(tokens, at) == "(" {
            at = closing(tokens, at)? + 1;
        }
        match text(tokens, at) {
            "%" => at += 1,
            "=" => return (text(tokens, at + 1) != "=").then_some(at),
            _ => return None,
        }
    }
}

/// The head of a counted loop: the index of its variable.
fn counted(tokens: &[Token]) -> Option<usize> {
    if text(tokens, 0) != "do" {
        return None;
    }
    let mut at = 1;
    if tokens.get(at)?.kind == Kind::Number {
        at += 1;
    }
    if text(tokens, at) == "," {
        at += 1;
    }
    let is_name = tokens.get(at)?.kind == Kind::Word;
    (is_name && text(tokens, at + 1) == "=").then_some(at)
}

/// Adds the variables that a statement uses without a declaration.
pub(super) fn imply(statement: &Statement, symbols: &mut Symbols) {
    let tokens = plain(&statement.tokens);
    if let Some(at) = counted(tokens) {
        symbols.imply(text(tokens, at));
        return;
    }
    // `allocate(a(n))` gives an array its extents.
    if text(tokens, 0) == "allocate" && text(tokens, 1) == "(" {
        for declared in shapes(tokens) {
            if let (Expr::Name(name), dims) = declared
                && let Some(variable) = symbols.variables.get_mut(&name)
            {
                variable.dims = dims;
            }
        }
        return;
    }
    if let Some(name) = changed_name(tokens) {
        symbols.imply(name);
    }
}

/// The arrays that an `allocate` names, with their bounds.
fn shapes(tokens: &[Token]) -> Vec<(Expr, Vec<super::symbols::Bounds>)> {
    let end = closing(tokens, 1).unwrap_or(tokens.len());
    let items = parse_list(tokens.get(2..end).unwrap_or_default()).unwrap_or_default();
    let mut found = Vec::new();
    for item in items {
        if let Expr::Apply(base, extents) = item {
            found.push((*base, super::symbols::bounds_of(extents)));
        }
    }
    found
}

/// The scalar that an assignment changes, also behind `if (…)`.
fn changed_name(tokens: &[Token]) -> Option<&str> {
    let tokens = match text(tokens, 0) {
        "if" => tokens.get(closing(tokens, 1)? + 1..)?,
        _ => tokens,
    };
    let at = assignment(tokens)?;
    (at == 1 && !matches!(text(tokens, 0), "do" | "end")).then(|| text(tokens, 0))
}

/// The variables that the statements assign.
pub(super) fn changed<'s>(body: &[&'s Statement]) -> BTreeSet<&'s str> {
    let statements = body.iter();
    statements
        .filter_map(|s| changed_name(plain(&s.tokens)))
        .collect()
}

/// An open construct.
enum Open {
    /// A loop, with the label of its last statement.
    Loop(Option<String>),
    /// Braces that the construct has opened.
    Braces(usize),
    Where,
}

/// Writes the body of a procedure.
pub(super) struct Body<'p, 'o> {
    pub printer: Printer<'p>,
    result: Option<&'p str>,
    out: &'o mut AsC,
    open: Vec<Open>,
    /// Masks of the `where` constructs.
    pub masks: Vec<Option<Expr>>,
    pub names: Names,
    line: u32,
}

impl<'p, 'o> Body<'p, 'o> {
    pub fn new(printer: Printer<'p>, result: Option<&'p str>, out: &'o mut AsC) -> Self {
        Body {
            printer,
            result,
            out,
            open: Vec::new(),
            masks: Vec::new(),
            names: Names::default(),
            line: 1,
        }
    }

    pub fn push(&mut self, text: &str) {
        self.out.push(self.line, text);
    }

    /// Closes all constructs.
    pub fn end(&mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Open::Loop(_)) => self.push("}"),
            Some(Open::Braces(count)) => self.push(&"}".repeat(count)),
            Some(Open::Where) => {
                self.masks.pop();
            }
            None => self.out.unsure = true,
        }
    }

    fn open(&mut self, construct: Open) {
        self.open.push(construct);
    }

    pub fn statement(&mut self, statement: &Statement) {
        self.line = statement.line;
        if self.open.len() > DEEPEST {
            self.out.unsure = true;
            return;
        }
        let tokens = plain(&statement.tokens);
        if self.one(tokens).is_none() {
            self.out.unsure = true;
        }
        // A labelled statement may end several loops.
        if let Some(label) = label(statement) {
            while let Some(Open::Loop(Some(last))) = self.open.last()
                && last == label
            {
                self.close();
            }
        }
    }

    /// Writes one statement; none if it is not understood.
    fn one(&mut self, tokens: &[Token]) -> Option<()> {
        let Some(first) = tokens.first() else {
            return Some(());
        };
        if text(tokens, 0) == "do" || first.text == "doconcurrent" {
            return self.loop_head(tokens);
        }
        if let Some(at) = assignment(tokens) {
            return self.assign(tokens, at);
        }
        match (first.text.as_str(), text(tokens, 1)) {
            ("end", "if" | "do" | "select" | "where" | "forall" | "block" | "associate")
            | (
                "enddo" | "endif" | "endselect" | "endwhere" | "endforall" | "endblock"
                | "endassociate",
                _,
            ) => self.close(),
            ("if", _) => return self.condition(tokens),
            ("else", "if") | ("elseif", _) => {
                let open = tokens.iter().position(|t| t.text == "(")?;
                let condition = self.expression(tokens.get(open + 1..closing(tokens, open)?)?)?;
                self.push(&format!("}} else if ({condition}) {{"));
            }
            ("else", "where") | ("elsewhere", _) => {
                *self.masks.last_mut()? = None;
            }
            ("else", _) => self.push("} else {"),
            ("select", "case") | ("selectcase", _) => {
                self.push("{ if (1) {");
                self.open(Open::Braces(2));
            }
            ("case", _) => self.push("} if (1) {"),
            ("where" | "forall", _) => return self.masked(tokens),
            ("block", _) => {
                self.push("{");
                self.open(Open::Braces(1));
            }
            ("call", _) => return self.call(tokens),
            ("associate", _) => {
                // An associated section moves with other subscripts than its own.
                self.push("{");
                self.open(Open::Braces(1));
                return None;
            }
            ("return", _) => match self.result {
                Some(result) => {
                    let result = self.printer.plain(result);
                    self.push(&format!("return {result};"));
                }
                None => self.push("return;"),
            },
            ("exit", _) => self.push("break;"),
            ("cycle", _) => self.push("continue;"),
            ("allocate", _) => {
                for (base, _) in shapes(tokens) {
                    if let Expr::Name(name) = base
                        && self.printer.symbols.array(&name).is_none()
                    {
                        self.push(&format!("{} = malloc(1);", name_in_c(&name)));
                    }
                }
            }
            (
                "continue" | "deallocate" | "nullify" | "contains" | "implicit" | "use" | "data"
                | "type" | "endtype" | "end" | "goto" | "go" | "format" | "save" | "import"
                | "enum" | "enumerator" | "endenum" | "include" | "integer" | "real",
                _,
            ) => {}
            _ => return None,
        }
        Some(())
    }

    /// An expression of numbers, in C.
    fn expression(&mut self, tokens: &[Token]) -> Option<String> {
        let expr = self.reduced(parse(tokens)?)?;
        self.printer.print(&expr)
    }

    fn loop_head(&mut self, tokens: &[Token]) -> Option<()> {
        let Some(at) = counted(tokens) else {
            let rest = tokens.get(1..).unwrap_or_default();
            let concurrent = rest.iter().position(|t| t.text == "concurrent");
            if tokens[0].text == "doconcurrent" || concurrent == Some(0) {
                let open = tokens.iter().position(|t| t.text == "(")?;
                let count = self.headers(tokens.get(open + 1..closing(tokens, open)?)?);
                // The construct is open even if its head is not understood.
                let braces = count.unwrap_or(1);
                if count.is_none() {
                    self.push("{");
                }
                self.open(Open::Braces(braces));
                return count.map(|_| ());
            }
            let until = rest.iter().position(|t| t.text == "while");
            let condition = match until {
                Some(at) => {
                    let open = at + 1;
                    let close = closing(rest, open);
                    close.and_then(|close| self.expression(&rest[open + 1..close]))
                }
                None => Some("1".to_owned()),
            };
            let known = condition.is_some();
            self.push(&format!("while ({}) {{", condition.unwrap_or("1".into())));
            self.open(Open::Loop(until_label(tokens)));
            return known.then_some(());
        };
        let range = parse_list(tokens.get(at + 2..).unwrap_or_default());
        let head = range.and_then(|range| {
            let [low, high, rest @ ..] = &range[..] else {
                return None;
            };
            self.head(text(tokens, at), low, high, rest.first())
        });
        let known = head.is_some();
        self.push(&head.unwrap_or("while (1) {".into()));
        self.open(Open::Loop(until_label(tokens)));
        known.then_some(())
    }

    /// The head of a loop over a range.
    pub fn head(&self, name: &str, low: &Expr, high: &Expr, step: Option<&Expr>) -> Option<String> {
        let variable = self.printer.print(&Expr::name(name))?;
        let (low, high) = (self.printer.print(low)?, self.printer.print(high)?);
        let down = |size: String| {
            format!("for ({variable} = {low}; {variable} >= {high}; {variable} -= {size}) {{")
        };
        Some(match step {
            Some(Expr::Integer(step)) if *step < 0 => down(step.unsigned_abs().to_string()),
            Some(Expr::Unary("-", size)) => down(self.printer.print(size)?),
            step => {
                let step = match step {
                    Some(step) => self.printer.print(step)?,
                    None => "1".to_owned(),
                };
                format!("for ({variable} = {low}; {variable} <= {high}; {variable} += {step}) {{")
            }
        })
    }

    /// Writes the loops of `i = 1 : n, j = 1 : m : 2` and returns their number.
    fn headers(&mut self, tokens: &[Token]) -> Option<usize> {
        let mut count = 0;
        for item in parse_list(tokens)? {
            match item {
                Expr::Keyword(name, range) => {
                    let Expr::Section(Some(low), Some(high), step) = *range else {
                        return None;
                    };
                    let head = self.head(&name, &low, &high, step.as_deref())?;
                    // The type of the variable does not matter here.
                    self.push(&format!("{{ int {};", name_in_c(&name)));
                    self.push(&head);
                    count += 2;
                }
                mask => {
                    let condition = self.printer.print(&mask)?;
                    self.push(&format!("if ({condition}) {{"));
                    count += 1;
                }
            }
        }
        Some(count)
    }

    fn condition(&mut self, tokens: &[Token]) -> Option<()> {
        let close = closing(tokens, 1)?;
        let rest = tokens.get(close + 1..).unwrap_or_default();
        let condition = self.expression(&tokens[2..close]);
        let known = condition.is_some();
        self.push(&format!("if ({}) {{", condition.unwrap_or("1".into())));
        if text(rest, 0) == "then" && rest.len() == 1 {
            self.open(Open::Braces(1));
            return known.then_some(());
        }
        // An arithmetic `if` names labels.
        let inner = match rest.first() {
            Some(first) if first.kind == Kind::Word && first.text != "if" => self.one(rest),
            Some(first) if first.kind == Kind::Number => Some(()),
            _ => None,
        };
        self.push("}");
        inner.filter(|()| known)
    }

    /// `where` and `forall`, with one statement or as a construct.
    fn masked(&mut self, tokens: &[Token]) -> Option<()> {
        let close = closing(tokens, 1)?;
        let rest = tokens.get(close + 1..).unwrap_or_default();
        let is_where = text(tokens, 0) == "where";
        if is_where {
            let mask = parse(&tokens[2..close]);
            let known = mask.is_some();
            self.masks.push(mask);
            if rest.is_empty() {
                self.open(Open::Where);
                return known.then_some(());
            }
            let done = assignment(rest).and_then(|at| self.assign(rest, at));
            self.masks.pop();
            return done.filter(|()| known);
        }
        let count = self.headers(&tokens[2..close]);
        let braces = count.unwrap_or(0);
        if rest.is_empty() {
            self.open(Open::Braces(braces));
            return count.map(|_| ());
        }
        let done = assignment(rest).and_then(|at| self.assign(rest, at));
        self.push(&"}".repeat(braces));
        done.filter(|()| count.is_some())
    }

    fn call(&mut self, tokens: &[Token]) -> Option<()> {
        let name = text(tokens, 1);
        let end = match text(tokens, 2) {
            "(" => closing(tokens, 2)?,
            "" => 3,
            _ => return None,
        };
        let arguments = parse_list(tokens.get(3..end).unwrap_or_default())?;
        let procedure = self.printer.procedures.get(name)?;
        let mut plain = Vec::with_capacity(arguments.len());
        for argument in arguments {
            plain.push(self.reduced(argument)?);
        }
        let call = self.printer.call(name, procedure, &plain)?;
        self.push(&format!("{call};"));
        Some(())
    }
}

/// The label of the last statement of a loop.
fn until_label(tokens: &[Token]) -> Option<String> {
    let label = tokens.get(1).filter(|t| t.kind == Kind::Number)?;
    Some(label.text.trim_start_matches('0').to_owned())
}
