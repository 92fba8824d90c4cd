//! Records the meaning of a write of a value.

use tree_sitter::Node;

use super::eval::Seen;
use super::facts::{Fill, Flow, Origin, Place, Statement, Update};
use super::walk::Walker;

/// Largest number of elements that are recorded for the value of a variable.
const MOST_ELEMENTS: usize = 32;

/// Largest number of recorded facts of one kind, because the judgement compares the facts pairwise.
const MOST_FACTS: usize = 1000;

impl<'t> Walker<'t> {
    /// Writes a value to a place and records the facts that follow from the write.
    pub fn write(&mut self, target: Place, adds: bool, value: &Seen, node: Node<'t>) {
        let full = [
            self.facts.updates.len(),
            self.facts.flows.len(),
            self.facts.statements.len(),
        ];
        if full.iter().any(|n| *n >= MOST_FACTS) || self.facts.fills.len() >= MOST_FACTS {
            return;
        }
        let mut accs = value.accs.clone();
        accs.remove(&target);
        let sums = adds || value.reads.contains(&target);
        let updates =
            sums && accs.is_empty() && !value.sources.is_empty() && !self.stack.is_empty();
        let stack = self.stack.clone();
        let line = self.line(node);
        let own = match &target {
            Place::Scalar(id) => {
                let scalar = &mut self.facts.scalars[*id];
                let elements = value
                    .reads
                    .iter()
                    .filter(|r| matches!(r, Place::Element(..)))
                    .take(MOST_ELEMENTS);
                if sums || self.conditional > 0 {
                    let room = MOST_ELEMENTS.saturating_sub(scalar.reads.len());
                    scalar.reads.extend(elements.take(room).cloned());
                    scalar.sources.extend(&value.sources);
                    scalar.accs.extend(accs.iter().cloned());
                } else {
                    scalar.reads = elements.cloned().collect();
                    scalar.sources.clone_from(&value.sources);
                    scalar.accs.clone_from(&accs);
                }
                scalar.accumulates |= updates;
                false
            }
            Place::Element(id, index) => {
                let array = &mut self.facts.arrays[*id];
                let local = array.origin == Origin::Local;
                if local {
                    array.sources.extend(&value.sources);
                    // An array may hold sums before they are stored to the output.
                    array.accumulates |= updates || !accs.is_empty();
                    if !updates && accs.is_empty() && !value.sources.is_empty() {
                        self.facts.fills.push(Fill {
                            array: *id,
                            stack: stack.clone(),
                            line,
                        });
                    }
                }
                let array = *id;
                if self.facts.arrays[array].origin == Origin::Output || !accs.is_empty() {
                    let index = index.clone();
                    self.facts.flows.push(Flow {
                        stack: stack.clone(),
                        array,
                        index,
                        accs: accs.clone(),
                    });
                }
                true
            }
        };
        if updates {
            self.facts.updates.push(Update {
                stack: stack.clone(),
                target: target.clone(),
                sources: value.sources.clone(),
                reads: value.reads.clone(),
                line,
            });
        }
        if (updates || own) && accs.is_empty() {
            let text = super::normal::text(self.text(node), &self.sizes);
            let terms = self.terms(node);
            self.facts.statements.push(Statement {
                stack,
                text,
                terms,
                target,
                line,
            });
        }
    }

    /// The summands on the right side of an assignment, as normal texts.
    fn terms(&self, node: Node<'t>) -> Vec<String> {
        let mut found = Vec::new();
        let mut open: Vec<Node<'t>> = node.child_by_field_name("right").into_iter().collect();
        while let Some(node) = open.pop() {
            let operator = node
                .child_by_field_name("operator")
                .map_or("", |o| self.text(o));
            match node.kind() {
                "binary_expression" if operator == "+" => {
                    open.extend(node.child_by_field_name("left"));
                    open.extend(node.child_by_field_name("right"));
                }
                "parenthesized_expression" => open.extend(node.named_child(0)),
                "binary_expression" if operator == "*" => {
                    found.push(super::normal::text(self.text(node), &self.sizes));
                }
                _ => {}
            }
        }
        found
    }
}
