//! Loops that combine several loops: one counter is reset while another one advances, as in an odometer.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::loops::Step;
use super::walk::{Value, Walker};

/// The changes of a branch to the variables of the surrounding loop.
#[derive(Default)]
struct Branch<'t> {
    /// Variables that get a value which does not depend on their own previous value.
    set: Vec<&'t str>,
    /// Variables that change relative to their previous value.
    moved: Vec<&'t str>,
}

impl<'t> Walker<'t> {
    /// Records a wrap if the loop's body contains a branch that resets one of the variables that `steps` advance and
    /// changes another variable from outside the loop.
    pub fn note_wraps(&mut self, body: Node<'t>, steps: &[Step<'t>]) {
        if self.facts.wraps.is_some() {
            return;
        }
        let mut branches = Vec::new();
        self.branches(body, &mut branches);
        let all = counts(steps.iter().filter(|s| !s.nested).map(|s| s.name));
        for branch in branches {
            let mut found = Branch::default();
            self.changes(branch, &mut found);
            let here = counts(found.moved.iter().copied());
            let outside = |walker: &Self, name: &str| {
                matches!(
                    walker.lookup(name),
                    Some(Value::Int(..) | Value::Pointer(_) | Value::Unknown)
                )
            };
            // Steps within this branch do not happen in every iteration.
            let stepped = |name: &str| all.get(name) > here.get(name);
            let wraps = |name: &str| stepped(name) && outside(self, name);
            let Some(name) = found.set.iter().copied().find(|name| wraps(name)) else {
                continue;
            };
            let mut others = found.set.iter().chain(&found.moved);
            if others.any(|other| *other != name && outside(self, other)) {
                self.facts.wraps = Some((self.line(branch), name.to_owned()));
                return;
            }
        }
    }

    /// The parts of `node` that run only under a condition, except those in inner loops.
    fn branches(&mut self, node: Node<'t>, found: &mut Vec<Node<'t>>) {
        if is_loop(node) || !self.enter() {
            return;
        }
        let operator = node
            .child_by_field_name("operator")
            .map_or("", |o| self.text(o));
        let parts: &[&str] = match node.kind() {
            "if_statement" | "conditional_expression" => &["consequence", "alternative"],
            "binary_expression" if matches!(operator, "&&" | "||") => &["right"],
            _ => &[],
        };
        found.extend(parts.iter().filter_map(|p| node.child_by_field_name(p)));
        found.extend((node.kind() == "case_statement").then_some(node));
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        for child in children {
            self.branches(child, found);
        }
        self.leave();
    }

    fn changes(&mut self, node: Node<'t>, found: &mut Branch<'t>) {
        if is_loop(node) || !self.enter() {
            return;
        }
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "update_expression" => {
                if let Some(name) = field("argument").filter(|a| a.kind() == "identifier") {
                    found.moved.push(self.text(name));
                }
            }
            "assignment_expression" => {
                let operator = field("operator").map_or("", |o| self.text(o));
                if let (Some(left), Some(right)) = (
                    field("left").filter(|l| l.kind() == "identifier"),
                    field("right"),
                ) {
                    let name = self.text(left);
                    if operator == "=" && !self.mentions(right, name) {
                        found.set.push(name);
                    } else {
                        found.moved.push(name);
                    }
                }
            }
            _ => {}
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        for child in children {
            self.changes(child, found);
        }
        self.leave();
    }
}

/// How often each name occurs.
fn counts<'t>(names: impl Iterator<Item = &'t str>) -> BTreeMap<&'t str, usize> {
    let mut found = BTreeMap::new();
    for name in names {
        *found.entry(name).or_insert(0) += 1;
    }
    found
}

fn is_loop(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "for_statement" | "while_statement" | "do_statement"
    )
}
