//! Assignments, and which of them are updates.

use super::*;

impl<'a> Walk<'a> {
    /// True if two raw accesses are of the same element.
    pub(super) fn is_same(&self, a: &Access, b: &Access) -> bool {
        let index = |access: &Access| match access.subscripts.first() {
            Some(number) if number.is_constant() && number.constant < 0 => self
                .raw
                .get((-1 - number.constant) as usize)
                .map(|r| r.index.clone()),
            _ => None,
        };
        a.array == b.array && (a == b || index(a).is_some() && index(a) == index(b))
    }

    /// Target and value of a branch that consists of one assignment.
    pub(super) fn single_assignment(&mut self, node: Node<'_>) -> Result<(Access, Expr), Error> {
        let mut node = node;
        while let ("compound_statement" | "expression_statement", [only]) =
            (node.kind(), children(node).as_slice())
        {
            node = *only;
        }
        if node.kind() != "assignment_expression" {
            return self.at(node, "a branch that data decide must be one assignment");
        }
        let (Some(left), Some(right), Some(operator)) = (
            node.child_by_field_name("left"),
            node.child_by_field_name("right"),
            node.child_by_field_name("operator"),
        ) else {
            return self.at(node, "an assignment needs two sides");
        };
        let target = self.target(left)?;
        let value = self.value(right, &Choices::new())?;
        let value = match operation(self.text(operator)) {
            Some(None) => value,
            Some(Some(operation)) => Expr::binary(operation, Expr::Read(target.clone()), value),
            None => return self.at(operator, "this assignment is not supported"),
        };
        Ok((target, value))
    }

    pub(super) fn expression_statement(
        &mut self,
        node: Node<'_>,
        place: &Place,
    ) -> Result<(), Error> {
        match node.kind() {
            "assignment_expression" => {
                let (Some(left), Some(right), Some(operator)) = (
                    node.child_by_field_name("left"),
                    node.child_by_field_name("right"),
                    node.child_by_field_name("operator"),
                ) else {
                    return self.at(node, "an assignment needs two sides");
                };
                let Some(update) = operation(self.text(operator)) else {
                    return self.at(operator, "this assignment is not supported");
                };
                let target = self.target(left)?;
                self.assigned(place, target, update, right)
            }
            "update_expression" => {
                let operator = node.child_by_field_name("operator").map(|o| self.text(o));
                let Some(argument) = node.child_by_field_name("argument") else {
                    return self.at(node, "this statement is not supported");
                };
                let target = self.target(argument)?;
                let operation = match operator {
                    Some("++") => Operation::Add,
                    _ => Operation::Sub,
                };
                self.assign(place, target, Some(operation), Expr::Number("1".to_owned()));
                Ok(())
            }
            "call_expression" => self.call_statement(node, place),
            "cast_expression" => Ok(()),
            other => self.at(node, format!("{} has no effect on an array", words(other))),
        }
    }

    pub(super) fn call_statement(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        let function = node
            .child_by_field_name("function")
            .map_or("", |f| self.text(f));
        let arguments = node
            .child_by_field_name("arguments")
            .map(children)
            .unwrap_or_default();
        match (function, arguments.as_slice()) {
            ("free" | "abort", _) => Ok(()),
            ("memcpy" | "memmove", [to, from, _]) => {
                let whole = |walk: &Self, node: &Node<'_>| {
                    walk.pointer(bare(*node))
                        .filter(|(_, offset)| *offset == Poly::default())
                };
                let (Some((to, _)), Some((from, _))) = (whole(self, to), whole(self, from)) else {
                    return self.at(node, "memcpy must copy whole arrays");
                };
                let line = node.start_position().row + 1;
                let copied = arrays::copying(self.program, &mut self.raw, (to, from), line);
                let Some(mut statement) = copied else {
                    return self.at(node, "the extents of the copied arrays are not known");
                };
                let mut numbers = place.place.clone();
                for _ in 0..=statement.iterators.len() {
                    let number = self.number();
                    numbers.push(number);
                }
                statement.place = numbers;
                statement.domain.and(&place.domain);
                statement.iterators = [place.iterators.clone(), statement.iterators].concat();
                self.program.statements.push(statement);
                Ok(())
            }
            _ => self.at(
                node,
                format!("a call of `{function}` is no part of an affine loop nest"),
            ),
        }
    }

    /// Assigns the value of `node`, once for each combination of its affine conditions.
    pub(super) fn assigned(
        &mut self,
        place: &Place,
        target: Access,
        update: Option<Operation>,
        node: Node<'_>,
    ) -> Result<(), Error> {
        let mut open: Vec<(Place, Choices)> = vec![(place.clone(), Choices::new())];
        let mut count = 0;
        while let Some((place, choices)) = open.pop() {
            count += 1;
            if count > MOST_CASES {
                return self.at(node, "this assignment has too many conditions");
            }
            match self.undecided(node, &place, &choices) {
                None => {
                    let value = self.value(node, &choices)?;
                    self.assign(&place, target.clone(), update, value);
                }
                Some((conditional, (yes, no))) => {
                    for (domains, holds) in [(yes, true), (no, false)] {
                        for domain in domains {
                            let mut place = place.clone();
                            place.domain.and(&domain);
                            let mut choices = choices.clone();
                            choices.insert(conditional, holds);
                            open.push((place, choices));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The first `?:` with an affine condition on which nothing is decided yet.
    #[expect(
        clippy::type_complexity,
        reason = "an id and the two sides of its condition"
    )]
    pub(super) fn undecided(
        &self,
        node: Node<'_>,
        place: &Place,
        choices: &Choices,
    ) -> Option<(usize, (Vec<System>, Vec<System>))> {
        if node.kind() == "conditional_expression" {
            let condition = node.child_by_field_name("condition")?;
            match choices.get(&node.id()) {
                None => {
                    if let Some(cases) = self.cases(condition, place) {
                        return Some((node.id(), cases));
                    }
                }
                Some(holds) => {
                    let side = if *holds { "consequence" } else { "alternative" };
                    return self.undecided(node.child_by_field_name(side)?, place, choices);
                }
            }
        }
        children(node)
            .into_iter()
            .find_map(|child| self.undecided(child, place, choices))
    }

    pub(super) fn assign(
        &mut self,
        place: &Place,
        target: Access,
        update: Option<Operation>,
        value: Expr,
    ) {
        let (update, value) = match update {
            Some(update) => (Some(update), value),
            None => self.as_update(&target, value),
        };
        let mut numbers = place.place.clone();
        numbers.push(self.number());
        self.program.statements.push(Statement {
            iterators: place.iterators.clone(),
            place: numbers,
            domain: place.domain.clone(),
            target,
            update,
            value,
        });
    }

    /// Recognises `x = x + e` and choices of the smaller or larger one.
    pub(super) fn as_update(&self, target: &Access, value: Expr) -> (Option<Operation>, Expr) {
        let is_target = |e: &Expr| matches!(e, Expr::Read(a) if self.is_same(a, target));
        match value {
            Expr::Binary(operation, a, b) if is_target(&a) => (Some(operation), *b),
            Expr::Binary(operation @ (Operation::Add | Operation::Mul), a, b) if is_target(&b) => {
                (Some(operation), *a)
            }
            Expr::Select(how, all) => {
                let [a, b, yes, no] = *all;
                let smaller = |less: bool| if less { Operation::Min } else { Operation::Max };
                let less = matches!(how, Comparison::Less | Comparison::LessEqual);
                let ordered = less || matches!(how, Comparison::Greater | Comparison::GreaterEqual);
                if ordered && is_target(&no) && is_target(&b) && self.alike(&a, &yes) {
                    // value < target ? value : target
                    return (Some(smaller(less)), yes);
                }
                if ordered && is_target(&no) && is_target(&a) && self.alike(&b, &yes) {
                    // target > value ? value : target
                    return (Some(smaller(!less)), yes);
                }
                if ordered && is_target(&yes) && is_target(&a) && self.alike(&b, &no) {
                    // target < value ? target : value
                    return (Some(smaller(less)), no);
                }
                (None, Expr::Select(how, Box::new([a, b, yes, no])))
            }
            other => (None, other),
        }
    }

    /// True if two values are the same, accesses compared by what they access.
    pub(super) fn alike(&self, a: &Expr, b: &Expr) -> bool {
        match (a, b) {
            (Expr::Read(a), Expr::Read(b)) => self.is_same(a, b),
            (Expr::Negative(a), Expr::Negative(b)) => self.alike(a, b),
            (Expr::Binary(op, a, b), Expr::Binary(op2, c, d)) => {
                op == op2 && self.alike(a, c) && self.alike(b, d)
            }
            (Expr::Call(f, all), Expr::Call(g, others)) => {
                let pairs = all.iter().zip(others);
                f == g
                    && all.len() == others.len()
                    && pairs.into_iter().all(|(a, b)| self.alike(a, b))
            }
            (a, b) => a == b,
        }
    }

    /// The element on the left of an assignment.
    pub(super) fn target(&mut self, node: Node<'_>) -> Result<Access, Error> {
        match self.access(bare(node)) {
            Some(access) => Ok(access),
            None => self.at(
                node,
                "only elements of arrays and local numbers may be assigned",
            ),
        }
    }
}

/// The operation of an assignment; `Some(None)` for a plain one.
pub(super) fn operation(operator: &str) -> Option<Option<Operation>> {
    Some(match operator {
        "=" => None,
        "+=" => Some(Operation::Add),
        "-=" => Some(Operation::Sub),
        "*=" => Some(Operation::Mul),
        "/=" => Some(Operation::Div),
        _ => return None,
    })
}
