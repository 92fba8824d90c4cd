//! Loop statements: their variables, steps and bounds.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use super::facts::{Loop, LoopId, Meaning};
use super::poly::Poly;
use super::walk::{MOST_LOOPS, Value, Walker};

/// A change of a variable in a loop: `name += distance` or `name *= factor`.
#[derive(Debug, Clone)]
pub(super) struct Step<'t> {
    pub name: &'t str,
    /// None for ±1.
    pub distance: Option<Node<'t>>,
    pub down: bool,
    /// True if the variable is multiplied, divided or shifted.
    pub scales: bool,
    /// True if the step stands in a loop within the loop.
    pub nested: bool,
}

impl<'t> Walker<'t> {
    pub fn loop_statement(&mut self, node: Node<'t>) {
        if self.stack.len() >= MOST_LOOPS {
            self.facts.cut = true;
            return;
        }
        let field = |name| node.child_by_field_name(name);
        if let Some(body) = self.once(node) {
            self.statement(body);
            return;
        }
        self.scopes.push(Default::default());
        if let Some(start) = field("initializer") {
            self.statement(start);
        }
        let (condition, body) = (field("condition"), field("body"));
        let mut steps = Vec::new();
        // A step may stand in the condition, as in `while (++i < n)`.
        for part in [field("update"), condition].into_iter().flatten() {
            self.steps(part, false, &mut steps);
        }
        let mut inside = Vec::new();
        if let Some(body) = body {
            self.steps(body, false, &mut inside);
        }
        if let Some(body) = body {
            let all: Vec<_> = steps.iter().chain(&inside).cloned().collect();
            self.note_wraps(body, &all);
        }
        let named = |name: &str| condition.is_some_and(|c| self.mentions(c, name));
        // The body of a `while` loop steps the loop's variable.
        let variable = steps
            .iter()
            .find(|s| named(s.name))
            .or(steps.first())
            .or_else(|| inside.iter().find(|s| !s.nested && named(s.name)))
            .cloned();
        let id = self.new_loop(node, condition, variable.as_ref());
        if let Some(variable) = &variable
            && matches!(self.lookup(variable.name), Some(Value::Pointer(_)))
        {
            inside.push(variable.clone());
        }
        let name = variable.as_ref().map(|v| v.name);
        let moving: Vec<Step<'t>> = steps.into_iter().chain(inside).collect();
        let saved = self.move_others(id, name, &moving);
        self.stack.push(id);
        let outside = std::mem::replace(&mut self.outside, self.conditional);
        let jumped = std::mem::replace(&mut self.jumped, false);
        self.active.extend(name.map(str::to_owned));
        if let Some(condition) = condition {
            self.eval(condition);
        }
        if let Some(body) = body {
            let before = self.pointed();
            self.statement(body);
            // Pointers that change places, as those to two grids do, are walked in both places.
            let after: BTreeSet<_> = self.pointed().into_iter().collect();
            if self.turns > 0 && before.iter().any(|one| !after.contains(one)) {
                self.turns -= 1;
                self.statement(body);
            }
        }
        // The update expression may compute as well.
        if let Some(update) = field("update") {
            self.eval(update);
        }
        self.active
            .truncate(self.active.len() - usize::from(name.is_some()));
        self.stack.pop();
        (self.outside, self.jumped) = (outside, jumped);
        for (name, before) in saved {
            if let Some(value) = self.lookup_mut(name) {
                *value = before;
            }
        }
        self.scopes.pop();
        // After the loop, a variable that was declared outside has the value of the loop's limit.
        if let Some(name) = name
            && let Some(Value::Int(_, scalar)) = self.lookup(name).cloned()
        {
            let after = self.facts.loops[id].limit.clone();
            let after = after.unwrap_or_else(|| self.opaque());
            if let Some(value) = self.lookup_mut(name) {
                *value = Value::Int(after, scalar);
            }
        }
    }

    /// The body of `do { … } while (0)`, as macros have it.
    fn once(&self, node: Node<'t>) -> Option<Node<'t>> {
        let condition = node.child_by_field_name("condition")?;
        let text = self.text(condition).trim_matches(['(', ')', ' ']);
        let never = node.kind() == "do_statement" && matches!(text, "0" | "false");
        node.child_by_field_name("body").filter(|_| never)
    }

    /// The array that each pointer points to.
    fn pointed(&mut self) -> Vec<(usize, String, usize)> {
        let mut found = Vec::new();
        for (depth, scope) in self.scopes.iter().enumerate() {
            for (name, value) in scope {
                if let Value::Pointer(pointer) = value {
                    found.push((depth, name.clone(), pointer.array));
                }
            }
        }
        self.charge(self.scopes.iter().map(BTreeMap::len).sum::<usize>() / 4);
        found
    }

    /// Records a loop, and gives its variable the loop's symbol.
    fn new_loop(
        &mut self,
        node: Node<'t>,
        condition: Option<Node<'t>>,
        variable: Option<&Step<'t>>,
    ) -> LoopId {
        let symbol = self.facts.new_symbol(Meaning::Loop);
        let mut round = Loop {
            symbol,
            start: Poly::default(),
            limit: None,
            extent: None,
            step: None,
            pace: None,
            geometric: false,
            depth: self.stack.len(),
            line: self.line(node),
        };
        if let Some(variable) = variable {
            round.geometric = variable.scales;
            if !variable.scales {
                round.pace = self.step_of(variable);
                round.step = round.pace.as_ref().and_then(Poly::as_constant);
            }
            // The symbol of a loop that moves a pointer counts its iterations.
            if matches!(self.lookup(variable.name), Some(Value::Pointer(_))) {
                round.step = Some(1);
                round.pace = Some(Poly::constant(1));
            }
            if let Some(Value::Int(start, _)) = self.lookup(variable.name).cloned() {
                self.begin = Some(start.clone());
                round.limit = condition.and_then(|c| self.limit(c, variable.name));
                self.begin = None;
                round.extent = round.limit.as_ref().and_then(|limit| {
                    let distance = limit.minus(&start).as_constant()?;
                    Some(if round.step.unwrap_or(1) < 0 {
                        distance.wrapping_neg()
                    } else {
                        distance
                    })
                });
                if round.geometric {
                    round.extent = None;
                }
                round.start = start;
                self.bind(variable.name, Value::Int(Poly::symbol(symbol), None));
            }
        }
        self.facts.loops.push(round);
        self.facts.loops.len() - 1
    }

    /// Makes the other variables that the loop steps linear functions of the loop's symbol. Returns their earlier
    /// values.
    fn move_others(
        &mut self,
        id: LoopId,
        counter: Option<&str>,
        moving: &[Step<'t>],
    ) -> Vec<(&'t str, Value)> {
        // The symbol of a counter begins at the counter's first value, that of other loops at 0.
        let round = &self.facts.loops[id];
        let symbol = Poly::symbol(round.symbol).minus(&round.start);
        // The symbol of a counter has the counter's value, which may move by more than one in an iteration.
        let unit = self.facts.loops[id].step.filter(|s| *s != 0);
        let mut saved: Vec<(&'t str, Value)> = Vec::new();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for step in moving {
            let known = self.lookup(step.name).cloned();
            let counted = Some(step.name) == counter && matches!(known, Some(Value::Int(..)));
            if counted || names.contains(step.name) {
                continue;
            }
            let Some(before) = known else {
                continue;
            };
            // A sum of values of arrays is no counter.
            if let (Value::Int(..), Some(distance)) = (&before, step.distance)
                && self.eval(distance).has_data()
            {
                continue;
            }
            let distance = if step.nested || step.scales {
                None
            } else {
                self.step_of(step)
            };
            let distance = distance.unwrap_or_else(|| self.opaque());
            let by_unit = unit.and_then(|unit| distance.divided(unit));
            let moved = by_unit.unwrap_or(distance).times(&symbol);
            let after = match &before {
                Value::Int(..) if step.scales => Value::Int(self.opaque(), None),
                Value::Int(at, scalar) => Value::Int(at.add(&moved), *scalar),
                Value::Pointer(at) => Value::Pointer(at.plus(&moved)),
                _ => continue,
            };
            names.insert(step.name);
            saved.push((step.name, before));
            if let Some(value) = self.lookup_mut(step.name) {
                *value = after;
            }
        }
        saved
    }

    /// Collects the variables that `node` changes by a distance or a factor.
    pub fn steps(&mut self, node: Node<'t>, nested: bool, found: &mut Vec<Step<'t>>) {
        if !self.enter() {
            return;
        }
        let field = |name| node.child_by_field_name(name);
        let is_name = |n: Node<'_>| n.kind() == "identifier";
        match node.kind() {
            "update_expression" => {
                if let Some(argument) = field("argument").filter(|a| is_name(*a)) {
                    let down = field("operator").is_some_and(|o| self.text(o) == "--");
                    found.push(Step {
                        name: self.text(argument),
                        distance: None,
                        down,
                        scales: false,
                        nested,
                    });
                }
            }
            "assignment_expression" => {
                let operator = field("operator").map_or("", |o| self.text(o));
                if let (Some(left), Some(right)) =
                    (field("left").filter(|l| is_name(*l)), field("right"))
                {
                    let name = self.text(left);
                    let change = match operator.strip_suffix('=') {
                        Some("") => self.own_change(right, name),
                        Some(sign) => Some((sign, right)),
                        None => None,
                    };
                    if let Some((sign, by)) = change {
                        let scales = matches!(sign, "*" | "/" | "<<" | ">>");
                        if scales || matches!(sign, "+" | "-") {
                            found.push(Step {
                                name,
                                distance: Some(by),
                                down: sign == "-",
                                scales,
                                nested,
                            });
                        }
                    }
                    self.steps(right, nested, found);
                }
                if let Some(left) = field("left") {
                    self.steps(left, nested, found);
                }
            }
            kind => {
                let nested =
                    nested || matches!(kind, "for_statement" | "while_statement" | "do_statement");
                let mut cursor = node.walk();
                let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
                for child in children {
                    self.steps(child, nested, found);
                }
            }
        }
        self.leave();
    }

    /// The operator and the second operand of `name + …`.
    pub fn own_change(&self, right: Node<'t>, name: &str) -> Option<(&'t str, Node<'t>)> {
        if right.kind() != "binary_expression" {
            return None;
        }
        let part = |field| right.child_by_field_name(field);
        let sign = self.text(part("operator")?);
        let (left, by) = (part("left")?, part("right")?);
        (self.text(left) == name).then_some((sign, by))
    }

    /// The distance of a step as a polynomial.
    pub fn step_of(&mut self, step: &Step<'t>) -> Option<Poly> {
        let distance = match step.distance {
            None => Poly::constant(1),
            Some(node) => self.eval(node).int?,
        };
        Some(if step.down {
            distance.negated()
        } else {
            distance
        })
    }

    /// True if `name` occurs in the expression.
    pub fn mentions(&self, node: Node<'t>, name: &str) -> bool {
        crate::scan::token::tokens(self.text(node))
            .iter()
            .any(|t| t.text == name)
    }

    /// The bound that a condition sets for `name`. An inclusive bound is moved by one.
    pub fn limit(&mut self, condition: Node<'t>, name: &str) -> Option<Poly> {
        if !self.enter() {
            return None;
        }
        let found = self.limit_inside(condition, name);
        self.leave();
        found
    }

    fn limit_inside(&mut self, condition: Node<'t>, name: &str) -> Option<Poly> {
        if condition.kind() == "parenthesized_expression" {
            return self.limit(condition.named_child(0)?, name);
        }
        // `__builtin_expect(i < n, 1)`.
        if condition.kind() == "call_expression" {
            let list = condition.child_by_field_name("arguments")?;
            return self.limit(list.named_child(0)?, name);
        }
        if condition.kind() != "binary_expression" {
            return None;
        }
        let (left, right) = (
            condition.child_by_field_name("left")?,
            condition.child_by_field_name("right")?,
        );
        let operator = self.text(condition.child_by_field_name("operator")?);
        if matches!(operator, "&&" | "||" | ",") {
            let (a, b) = (self.limit(left, name), self.limit(right, name));
            return self.plainer(a, b);
        }
        let (variable, bound, operator) = if self.mentions(left, name) {
            (left, right, operator)
        } else if self.mentions(right, name) {
            let turned = match operator {
                "<" => ">",
                "<=" => ">=",
                ">" => "<",
                ">=" => "<=",
                other => other,
            };
            (right, left, turned)
        } else {
            return None;
        };
        // `k + 3 < n` bounds k by n - 3.
        let now = match self.lookup(name) {
            Some(Value::Int(now, _)) => now.clone(),
            _ => return None,
        };
        let offset = self.eval(variable).int?.minus(&now);
        let bound = self.eval(bound).int?.minus(&offset);
        match operator {
            "<" | ">" | "!=" => Some(bound),
            "<=" => Some(bound.add(&Poly::constant(1))),
            ">=" => Some(bound.add(&Poly::constant(-1))),
            _ => None,
        }
    }
}
