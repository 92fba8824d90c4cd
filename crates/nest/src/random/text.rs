//! The nest in C, as reference and as magnitudes, and its statements in words.

use std::fmt::Write as _;

use flopsmith_problem::{Element, Role};

use super::model::{
    Access, Array, Extent, Loop, More, Nest, Plus, Statement, Style, Subscript, Term, Update,
};

/// How values are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// In C.
    Plain,
    /// In C, with absolute values, and with sums in the place of differences.
    Magnitude,
    /// As people write it.
    Words,
}

/// `reference.c`.
pub(super) fn reference(nest: &Nest, entry: &str) -> String {
    let mut text = format!("{}\n{{\n", prototype(nest, entry));
    for group in nest.groups() {
        loops_of(nest, group, Spelling::Plain, &mut text);
    }
    text.push_str("}\n");
    text
}

/// `magnitude.c`: the terms of each element without signs.
pub(super) fn magnitude(nest: &Nest, entry: &str) -> String {
    let name = format!("{entry}_magnitude");
    let mut text = format!(
        "#include <math.h>\n\n/* The terms of each element without signs; a result holds its own before another statement reads it. */\n{}\n{{\n",
        prototype(nest, &name)
    );
    for group in nest.groups() {
        loops_of(nest, group, Spelling::Magnitude, &mut text);
    }
    text.push_str("}\n");
    text
}

/// The declaration of the function, without the semicolon.
pub(super) fn prototype(nest: &Nest, entry: &str) -> String {
    let kind = c_type(nest.element);
    let sizes = nest.sizes.iter().map(|size| format!("int {}", size.name));
    let scalars = nest.scalars.iter().map(|name| format!("{kind} {name}"));
    let arrays = ordered(nest).map(|array| match array.role {
        Role::Input => format!("const {kind} *{}", array.name),
        Role::Output | Role::InOut => format!("{kind} *{}", array.name),
    });
    let all: Vec<String> = sizes.chain(scalars).chain(arrays).collect();
    format!("void {entry}({})", all.join(", "))
}

/// The arrays as arguments: inputs first.
pub(super) fn ordered(nest: &Nest) -> impl Iterator<Item = &Array> {
    let inputs = nest.arrays.iter().filter(|a| a.role == Role::Input);
    let results = nest.arrays.iter().filter(|a| a.role != Role::Input);
    inputs.chain(results)
}

/// The type of the nest's numbers in C.
fn c_type(element: Element) -> &'static str {
    match element {
        Element::I32 => "int",
        other => other.c_type(),
    }
}

fn line(text: &mut String, depth: usize, words: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:width$}{words}", "", width = 4 * depth);
}

/// A loop without its body.
fn head(nest: &Nest, loops: &[Loop], number: usize) -> String {
    let name = nest.iterators[number];
    let end = match loops[number].up_to {
        Some(other) => format!("<= {}", nest.iterators[other]),
        None => format!("< {}", nest.sizes[loops[number].size].name),
    };
    format!("for (int {name} = 0; {name} {end}; {name}++)")
}

/// Statements that share loops.
fn loops_of(nest: &Nest, group: &[Statement], spelling: Spelling, text: &mut String) {
    let Some(first) = group.first() else {
        return;
    };
    let mut body = String::new();
    let outer = first.outer();
    for statement in group {
        match spelling {
            Spelling::Magnitude => magnitudes(nest, statement, outer + 1, &mut body),
            Spelling::Plain | Spelling::Words => plain(nest, statement, outer + 1, &mut body),
        }
    }
    // A body of one statement needs no braces, whatever the number of its lines.
    let braces = body.lines().filter(|line| line.ends_with(';')).count() > 1;
    for number in 0..outer {
        let open = match braces && number + 1 == outer {
            true => " {",
            false => "",
        };
        line(
            text,
            number + 1,
            &format!("{}{open}", head(nest, &first.loops, number)),
        );
    }
    text.push_str(&body);
    if braces {
        line(text, outer, "}");
    }
}

/// The loops that sum up.
fn sums(nest: &Nest, statement: &Statement, depth: usize, inner: &str, text: &mut String) {
    for (n, number) in (statement.outer()..statement.loops.len()).enumerate() {
        line(text, depth + n, &head(nest, &statement.loops, number));
    }
    line(text, depth + statement.sums, inner);
}

/// A statement of the reference.
fn plain(nest: &Nest, statement: &Statement, depth: usize, text: &mut String) {
    let target = access(nest, &statement.target);
    let value = value(nest, &statement.value, Spelling::Plain, 0);
    let scalar = |n: usize| nest.scalars[n];
    if statement.sums == 0 {
        let words = match statement.update {
            Update::Set => format!("{target} = {value};"),
            Update::Add => format!("{target} += {value};"),
            Update::Scale(by) => format!("{target} = {} * {target} + {value};", scalar(by)),
        };
        return line(text, depth, &words);
    }
    let begin = match (statement.style, statement.update) {
        (Style::Local, Update::Scale(by)) => Some(format!("{} * {target}", scalar(by))),
        (Style::Local, _) => Some("0".to_owned()),
        (Style::Memory, _) => None,
    };
    if let Some(begin) = begin {
        let local = nest.local;
        line(text, depth, &format!("double {local} = {begin};"));
        sums(
            nest,
            statement,
            depth,
            &format!("{local} += {value};"),
            text,
        );
        let whole = statement.whole.map(|by| format!("{} * ", scalar(by)));
        let whole = whole.unwrap_or_default();
        return line(text, depth, &format!("{target} = {whole}{local};"));
    }
    match statement.update {
        Update::Set => line(text, depth, &format!("{target} = 0;")),
        Update::Add => {}
        Update::Scale(by) => line(text, depth, &format!("{target} *= {};", scalar(by))),
    }
    sums(
        nest,
        statement,
        depth,
        &format!("{target} += {value};"),
        text,
    );
}

/// The same statement for the terms without signs.
fn magnitudes(nest: &Nest, statement: &Statement, depth: usize, text: &mut String) {
    let target = access(nest, &statement.target);
    let value = value(nest, &statement.value, Spelling::Magnitude, 0);
    let old = match statement.update {
        Update::Set => None,
        Update::Add => Some(format!("fabs({target})")),
        Update::Scale(by) => Some(format!("{} * fabs({target})", nest.scalars[by])),
    };
    if statement.sums == 0 {
        let old = old.map(|old| format!("{old} + ")).unwrap_or_default();
        return line(text, depth, &format!("{target} = {old}{value};"));
    }
    let local = nest.local;
    let begin = old.unwrap_or_else(|| "0".to_owned());
    line(text, depth, &format!("double {local} = {begin};"));
    sums(
        nest,
        statement,
        depth,
        &format!("{local} += {value};"),
        text,
    );
    let whole = statement.whole.map(|by| format!("{} * ", nest.scalars[by]));
    let whole = whole.unwrap_or_default();
    line(text, depth, &format!("{target} = {whole}{local};"));
}

/// A value; `least` is the precedence that needs no parentheses around it.
fn value(nest: &Nest, term: &Term, spelling: Spelling, least: u8) -> String {
    let of = |term: &Term, least: u8| value(nest, term, spelling, least);
    let (precedence, text) = match term {
        Term::Number(text) => (3, number(nest.element, text, spelling)),
        Term::Scalar(n) => (3, nest.scalars[*n].to_owned()),
        Term::Read(read) => (3, element(nest, read, spelling)),
        Term::Plus(a, b) => (1, format!("{} + {}", of(a, 1), of(b, 2))),
        Term::Minus(a, b) => {
            let sign = match spelling {
                Spelling::Magnitude => "+",
                Spelling::Plain | Spelling::Words => "-",
            };
            (1, format!("{} {sign} {}", of(a, 1), of(b, 2)))
        }
        Term::Times(a, b) => {
            let sign = match spelling {
                Spelling::Words => "·",
                Spelling::Plain | Spelling::Magnitude => " * ",
            };
            (2, format!("{}{sign}{}", of(a, 2), of(b, 3)))
        }
    };
    match precedence < least {
        true => format!("({text})"),
        false => text,
    }
}

fn number(element: Element, text: &str, spelling: Spelling) -> String {
    match (element, spelling) {
        (Element::F32, Spelling::Plain) => format!("{text}f"),
        _ => text.to_owned(),
    }
}

fn element(nest: &Nest, read: &Access, spelling: Spelling) -> String {
    match spelling {
        Spelling::Plain => access(nest, read),
        // A result holds its own terms without signs.
        Spelling::Magnitude if nest.arrays[read.array].role != Role::Input => access(nest, read),
        Spelling::Magnitude => format!("fabs({})", access(nest, read)),
        Spelling::Words => in_brackets(nest, read),
    }
}

/// An element in C: rows lie one behind the other.
fn access(nest: &Nest, access: &Access) -> String {
    let array = &nest.arrays[access.array];
    let mut index = String::new();
    for (subscript, extent) in access.subscripts.iter().zip(&array.extents) {
        let own = iterator(nest, *subscript);
        if index.is_empty() {
            index = own;
            continue;
        }
        let rows = match index.contains(' ') {
            true => format!("({index})"),
            false => index,
        };
        let length = match extent.more {
            More::Nothing => extent_in_c(nest, *extent),
            More::Halo | More::Window(_) => format!("({})", extent_in_c(nest, *extent)),
        };
        index = format!("{rows} * {length} + {own}");
    }
    format!("{}[{index}]", array.name)
}

fn iterator(nest: &Nest, subscript: Subscript) -> String {
    let name = nest.iterators[subscript.over];
    match subscript.plus {
        Plus::Nothing => name.to_owned(),
        Plus::Number(by) => format!("{name} + {by}"),
        Plus::Loop(other) => format!("{name} + {}", nest.iterators[other]),
    }
}

fn extent_in_c(nest: &Nest, extent: Extent) -> String {
    let name = nest.sizes[extent.size].name;
    match extent.more {
        More::Nothing => name.to_owned(),
        More::Halo => format!("{name} + 2"),
        More::Window(size) => format!("{name} + {} - 1", nest.sizes[size].name),
    }
}

/// An extent as a formula of a definition.
pub(super) fn extent(nest: &Nest, extent: Extent) -> String {
    extent_in_c(nest, extent).replace(' ', "")
}

/// An element as people write it.
fn in_brackets(nest: &Nest, access: &Access) -> String {
    let mut text = nest.arrays[access.array].name.to_owned();
    for subscript in &access.subscripts {
        let _ = write!(text, "[{}]", iterator(nest, *subscript).replace(' ', ""));
    }
    text
}

/// The range of a loop as people write it.
fn range(nest: &Nest, loops: &[Loop], number: usize) -> String {
    let name = nest.iterators[number];
    match loops[number].up_to {
        Some(other) => format!("{name} <= {}", nest.iterators[other]),
        None => format!("{name} < {}", nest.sizes[loops[number].size].name),
    }
}

/// A statement as people write it.
pub(super) fn words(nest: &Nest, statement: &Statement) -> String {
    let target = in_brackets(nest, &statement.target);
    let outer = statement.outer();
    let ranges = |from: usize, to: usize| -> String {
        let all: Vec<String> = (from..to)
            .map(|n| range(nest, &statement.loops, n))
            .collect();
        all.join(", ")
    };
    let old = match statement.update {
        Update::Set => String::new(),
        Update::Add => format!("{target} + "),
        Update::Scale(by) => format!("{}·{target} + ", nest.scalars[by]),
    };
    let value = if statement.sums == 0 {
        value(nest, &statement.value, Spelling::Words, 0)
    } else {
        let whole = statement.whole.map(|by| format!("{}·", nest.scalars[by]));
        format!(
            "{}(sum over {} of {})",
            whole.unwrap_or_default(),
            ranges(outer, statement.loops.len()),
            value(nest, &statement.value, Spelling::Words, 0)
        )
    };
    format!("{target} = {old}{value} for all {}", ranges(0, outer))
}
