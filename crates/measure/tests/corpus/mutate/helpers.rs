//! Splits each helper function of a program into two functions.

use super::names::directive_name;
use super::tokens::{Kind, pieces};

/// A piece and its place.
#[derive(Clone, Copy)]
struct Piece<'s> {
    at: usize,
    kind: Kind,
    text: &'s str,
}

/// A definition `static void name(…) {…}` with plain parameters.
struct Helper<'s> {
    start: usize,
    name: Piece<'s>,
    /// With their brackets.
    parameters: &'s str,
    arguments: String,
    end: usize,
}

/// The source with every simple helper under a new name, called by a function with the old name.
pub(super) fn in_two(source: &str) -> String {
    let mut text = String::new();
    let mut done = 0;
    for helper in helpers(source) {
        let (name, parameters, arguments) = (helper.name, helper.parameters, &helper.arguments);
        let behind = name.at + name.text.len();
        text.push_str(&source[done..helper.start]);
        // A helper may call itself.
        text.push_str(&format!("static void {}{parameters};\n", name.text));
        text.push_str(&source[helper.start..behind]);
        text.push_str("_itself");
        text.push_str(&source[behind..helper.end]);
        text.push_str(&format!(
            "\nstatic void {0}{parameters} {{ {0}_itself({arguments}); }}\n",
            name.text
        ));
        done = helper.end;
    }
    text.push_str(&source[done..]);
    text
}

fn helpers(source: &str) -> Vec<Helper<'_>> {
    let mut next = 0;
    let mut solid: Vec<Piece<'_>> = Vec::new();
    for (kind, text) in pieces(source) {
        if !text.trim().is_empty() {
            solid.push(Piece {
                at: next,
                kind,
                text,
            });
        }
        next += text.len();
    }
    let mut found = Vec::new();
    let mut depth = 0;
    for (at, piece) in solid.iter().enumerate() {
        match piece.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            // The text before the helper may belong to its declaration, and a pragma may refer to it.
            "static" if depth == 0 && solid[..at].last().is_none_or(ends) => {
                found.extend(helper(source, &solid[at..]));
            }
            _ => {}
        }
    }
    found
}

/// True if a declaration ends with this piece, or if the piece is no declaration.
fn ends(piece: &Piece<'_>) -> bool {
    let comment = piece.text.starts_with("//") || piece.text.starts_with("/*");
    let directive = piece.kind == Kind::Directive && directive_name(piece.text) != "pragma";
    comment || directive || matches!(piece.text, ";" | "}")
}

fn helper<'s>(source: &'s str, solid: &[Piece<'s>]) -> Option<Helper<'s>> {
    let text = |at: usize| solid.get(at).map_or("", |piece| piece.text);
    let void = if text(1) == "inline" { 2 } else { 1 };
    let name = *solid.get(void + 1)?;
    let open = void + 2;
    if text(void) != "void" || name.kind != Kind::Word || text(open) != "(" {
        return None;
    }
    let close = open + solid[open..].iter().position(|piece| piece.text == ")")?;
    if text(close + 1) != "{" {
        return None;
    }
    // Parameters of a type and a name each, without brackets or anything after the name.
    let names = solid[open + 1..close].split(|piece| piece.text == ",");
    let arguments: Option<Vec<&str>> = names
        .map(|parameter| {
            let plain = |p: &Piece<'_>| p.kind == Kind::Word || p.text == "*";
            let (name, before) = parameter.split_last()?;
            let named = name.kind == Kind::Word && before.iter().any(|p| p.kind == Kind::Word);
            (named && parameter.iter().all(plain)).then_some(name.text)
        })
        .collect();
    let mut depth = 0;
    let last = solid[close + 1..].iter().find(|piece| {
        depth += i32::from(piece.text == "{") - i32::from(piece.text == "}");
        depth == 0
    })?;
    Some(Helper {
        start: solid[0].at,
        name,
        parameters: &source[solid[open].at..=solid[close].at],
        arguments: arguments?.join(", "),
        end: last.at + 1,
    })
}

#[test]
fn a_helper_is_two_functions() {
    let source = "#include <math.h>\nstatic inline void row(int n, const double *restrict b) {\n  if (n) { row(n - 1, b); }\n}\nvoid dgemm(int n) { row(n, 0); }\n";
    let expected = "#include <math.h>\nstatic void row(int n, const double *restrict b);\nstatic inline void row_itself(int n, const double *restrict b) {\n  if (n) { row(n - 1, b); }\n}\nstatic void row(int n, const double *restrict b) { row_itself(n, b); }\n\nvoid dgemm(int n) { row(n, 0); }\n";
    assert_eq!(in_two(source), expected);
    for other in [
        "static void f(int a[3]) { }",
        "static void f(void (*g)(int)) { }",
        "static void f(void) { }",
        "static void f(int, double) { }",
        "static int f(int a) { return a; }",
        "static void f(int a);",
        "#pragma omp declare simd\nstatic void f(int a) { }",
        "__attribute__((hot)) static void f(int a) { }",
        "void g(void) { static void f(int a) { } }",
    ] {
        assert_eq!(in_two(other), other);
    }
}
