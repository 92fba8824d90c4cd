//! Small readings of syntax nodes.

use flopsmith_problem::{ArgKind, Problem};
use tree_sitter::Node;

use crate::poly::Poly;
use crate::program::Program;

/// The text of a node.
pub fn text<'a>(node: Node<'_>, source: &'a str) -> &'a str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// The children that are no comments.
pub fn children<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    let named = node.named_children(&mut cursor);
    named.filter(|child| child.kind() != "comment").collect()
}

/// The first node that lies within more than so many others.
pub fn deeper_than<'t>(root: Node<'t>, most: usize) -> Option<Node<'t>> {
    let mut cursor = root.walk();
    let mut depth = 0;
    loop {
        if depth > most {
            return Some(cursor.node());
        }
        if cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return None;
            }
            depth -= 1;
        }
    }
}

/// The node without parentheses around it.
pub fn bare(node: Node<'_>) -> Node<'_> {
    let mut node = node;
    while node.kind() == "parenthesized_expression" {
        match children(node).first() {
            Some(inner) => node = *inner,
            None => break,
        }
    }
    node
}

/// The name that a declarator declares, the number of `*` before it, and its array extents.
pub fn declared<'t>(node: Node<'t>, source: &str) -> Option<(String, usize, Vec<Node<'t>>)> {
    let (mut node, mut stars, mut extents) = (node, 0, Vec::new());
    loop {
        match node.kind() {
            "identifier" => return Some((text(node, source).to_owned(), stars, extents)),
            "pointer_declarator" => {
                stars += 1;
                node = node.child_by_field_name("declarator")?;
            }
            "array_declarator" => {
                extents.insert(0, node.child_by_field_name("size")?);
                node = node.child_by_field_name("declarator")?;
            }
            "parenthesized_declarator" => node = *children(node).first()?,
            _ => return None,
        }
    }
}

/// The polynomial of a formula of a definition in which parameters stand by their names in the definition.
pub fn formula(program: &Program, problem: &Problem, formula: &str) -> Option<Poly> {
    let mut parser = Formula {
        program,
        problem,
        text: formula.as_bytes(),
        at: 0,
    };
    let poly = parser.sum()?;
    parser.space();
    (parser.at == formula.len()).then_some(poly)
}

/// Sums and products of numbers and parameters; everything else is no polynomial.
struct Formula<'a> {
    program: &'a Program,
    problem: &'a Problem,
    text: &'a [u8],
    at: usize,
}

impl Formula<'_> {
    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&wanted);
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Option<Poly> {
        let mut sum = self.product()?;
        loop {
            if self.take(b'+') {
                sum = sum.plus(&self.product()?);
            } else if self.take(b'-') {
                sum = sum.minus(&self.product()?);
            } else {
                return Some(sum);
            }
        }
    }

    fn product(&mut self) -> Option<Poly> {
        let mut product = self.factor()?;
        while self.take(b'*') {
            product = product.times(&self.factor()?)?;
        }
        Some(product)
    }

    fn factor(&mut self) -> Option<Poly> {
        if self.take(b'(') {
            let inner = self.sum()?;
            return self.take(b')').then_some(inner);
        }
        if self.take(b'-') {
            return Some(self.factor()?.scaled(-1));
        }
        self.space();
        let rest = self.text.get(self.at..)?;
        let length = rest
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || **c == b'_')
            .count();
        let word = std::str::from_utf8(rest.get(..length)?).ok()?;
        self.at += length;
        if let Ok(number) = word.parse::<i64>() {
            return Some(Poly::constant(number));
        }
        // The argument that carries the parameter.
        let carrying = self.problem.entry.args.iter().find(|argument| {
            matches!(&argument.kind, ArgKind::Int { value } if value.to_string().trim() == word)
        })?;
        let at = self
            .program
            .names
            .iter()
            .position(|n| *n == carrying.name)?;
        Some(Poly::var(at as u32))
    }
}
