//! Branches: the values of variables that statements under a condition assign.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::facts::Meaning;
use super::poly::Poly;
use super::walk::{Value, Walker};

/// A variable that a branch has assigned, with its value before.
#[derive(Debug)]
pub(super) struct Assigned {
    /// The scope of the variable, counted from the outermost one.
    scope: usize,
    name: String,
    before: Value,
    /// True if the assignment did not depend on the value before.
    whole: bool,
}

/// The value of an integer at the end of a branch.
struct Branched {
    scope: usize,
    name: String,
    after: Poly,
}

impl<'t> Walker<'t> {
    /// Walks through both branches. Behind them, each variable has the most telling of its values.
    pub fn if_statement(&mut self, node: Node<'t>) {
        let condition = node.child_by_field_name("condition");
        let compared = condition.map(|c| self.eval(c)).unwrap_or_default();
        let by_data = !compared.reads.is_empty();
        self.guards.push(compared.reads);
        self.conditional += 1;
        let mut ends = Vec::new();
        for part in ["consequence", "alternative"] {
            if let Some(part) = node.child_by_field_name(part) {
                let mark = self.assigned.len();
                self.statement(part);
                self.undo(mark, &mut ends);
            }
        }
        self.conditional -= 1;
        self.guards.pop();
        // An index that values choose is that of a search.
        if !by_data {
            for end in ends {
                self.settle(&end);
            }
        }
    }

    /// True if the statement runs under a condition inside of the innermost loop.
    pub fn is_branch(&self) -> bool {
        self.conditional > self.outside || self.jumped
    }

    /// A jump over the rest of an iteration or of a function. Statements behind a jump under a condition run under that
    /// condition.
    pub fn jump(&mut self) {
        self.jumped |= self.conditional > self.outside;
    }

    /// Notes the value of a variable that a statement under a condition is about to assign.
    pub fn remember(&mut self, name: &str, whole: bool) {
        if self.conditional == 0 {
            return;
        }
        let mut scopes = self.scopes.iter().enumerate().rev();
        let found = scopes.find_map(|(scope, all)| Some((scope, all.get(name)?.clone())));
        if let Some((scope, before)) = found {
            self.assigned.push(Assigned {
                scope,
                name: name.to_owned(),
                before,
                whole,
            });
        }
    }

    /// Gives the variables that a branch assigned their earlier values, and adds their last ones to `ends`.
    fn undo(&mut self, mark: usize, ends: &mut Vec<Branched>) {
        let mut known: BTreeSet<(usize, String)> = BTreeSet::new();
        let assigned = self.assigned.split_off(mark.min(self.assigned.len()));
        self.charge(assigned.len());
        for one in assigned.into_iter().rev() {
            let scope = self.scopes.get_mut(one.scope);
            let Some(value) = scope.and_then(|scope| scope.get_mut(&one.name)) else {
                continue;
            };
            let before = match (one.before, &*value) {
                // The numbers that enter an integer stay known.
                (Value::Int(poly, None), Value::Int(_, scalar)) => Value::Int(poly, *scalar),
                (before, _) => before,
            };
            let after = std::mem::replace(value, before);
            if let Value::Int(after, _) = after
                && one.whole
                && known.insert((one.scope, one.name.clone()))
            {
                ends.push(Branched {
                    scope: one.scope,
                    name: one.name,
                    after,
                });
            }
        }
    }

    /// Gives a variable the more telling of its value and that of a branch, as in
    /// `end = n; if (end > i + 64) end = i + 64;`.
    fn settle(&mut self, end: &Branched) {
        let scope = self.scopes.get(end.scope);
        let Some(Value::Int(now, scalar)) = scope.and_then(|all| all.get(&end.name)).cloned()
        else {
            return;
        };
        let small = |p: &Poly| p.as_constant().is_some_and(|c| c <= 1);
        if small(&now) {
            return;
        }
        // A variable that only its branches assign.
        let first = now.symbols().next();
        let unset = first.is_some_and(|s| {
            now == Poly::symbol(s) && self.facts.meanings[s as usize] == Meaning::Unknown
        });
        let value = if unset && !small(&end.after) {
            Some(end.after.clone())
        } else {
            self.plainer(Some(now), Some(end.after.clone()))
        };
        self.remember(&end.name, true);
        if let Some(value) = value
            && let Some(variable) = self.scopes[end.scope].get_mut(&end.name)
        {
            *variable = Value::Int(value, scalar);
        }
    }
}
