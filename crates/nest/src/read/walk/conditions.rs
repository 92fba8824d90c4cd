//! Conditions: affine ones, which split domains, and comparisons of data.

use super::*;

impl<'a> Walk<'a> {
    /// Constraints that are joined by `&&`; none if one is not affine.
    pub(super) fn conjunction(&self, node: Node<'_>) -> Option<System> {
        let node = bare(node);
        let operator = node.child_by_field_name("operator").map(|o| self.text(o));
        let (left, right) = (
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        );
        let mut all = System::new();
        if operator == Some("&&") {
            all.and(&self.conjunction(left)?);
            all.and(&self.conjunction(right)?);
            return Some(all);
        }
        let (a, b) = (self.affine(left)?, self.affine(right)?);
        match operator? {
            "<" => all.less(&a, &b),
            "<=" => all.at_most(&a, &b),
            ">" => all.less(&b, &a),
            ">=" => all.at_most(&b, &a),
            "==" => all.equal(&a, &b),
            _ => return None,
        }
        Some(all)
    }

    /// The disjoint domains in which an affine condition holds, and those in which it does not; none if it is not affine.
    /// Domains without an iteration of `place` are left out.
    pub(super) fn cases(
        &self,
        node: Node<'_>,
        place: &Place,
    ) -> Option<(Vec<System>, Vec<System>)> {
        let node = bare(node);
        let operator = node.child_by_field_name("operator").map(|o| self.text(o))?;
        if node.kind() == "unary_expression" && operator == "!" {
            let (yes, no) = self.cases(node.child_by_field_name("argument")?, place)?;
            return Some((no, yes));
        }
        let (left, right) = (
            node.child_by_field_name("left")?,
            node.child_by_field_name("right")?,
        );
        let possible = |all: Vec<System>| -> Vec<System> {
            let here = |domain: &System| {
                let mut whole = self.program.context.clone();
                whole.and(&place.domain);
                whole.and(domain);
                !whole.is_empty()
            };
            all.into_iter().filter(here).collect()
        };
        let both = |a: &[System], b: &[System]| -> Vec<System> {
            let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
            let joined = pairs.map(|(x, y)| {
                let mut all = x.clone();
                all.and(y);
                all
            });
            possible(joined.collect())
        };
        if operator == "&&" || operator == "||" {
            let ((yes, no), (yes2, no2)) = (self.cases(left, place)?, self.cases(right, place)?);
            let pairs = yes.len().max(no.len()) * yes2.len().max(no2.len());
            if pairs > MOST_PAIRS {
                return None;
            }
            return Some(if operator == "&&" {
                let mut none = no;
                none.extend(both(&yes, &no2));
                (both(&yes, &yes2), none)
            } else {
                let mut some = yes;
                some.extend(both(&no, &yes2));
                (some, both(&no, &no2))
            });
        }
        let (a, b) = (self.affine(left)?, self.affine(right)?);
        let constraint = |make: fn(&mut System, &Affine, &Affine), a: &Affine, b: &Affine| {
            let mut system = System::new();
            make(&mut system, a, b);
            system
        };
        let less = |a: &Affine, b: &Affine| vec![constraint(System::less, a, b)];
        let at_most = |a: &Affine, b: &Affine| vec![constraint(System::at_most, a, b)];
        let equal = vec![constraint(System::equal, &a, &b)];
        let differ = [less(&a, &b), less(&b, &a)].concat();
        let (yes, no) = match operator {
            "<" => (less(&a, &b), at_most(&b, &a)),
            "<=" => (at_most(&a, &b), less(&b, &a)),
            ">" => (less(&b, &a), at_most(&a, &b)),
            ">=" => (at_most(&b, &a), less(&a, &b)),
            "==" => (equal, differ),
            "!=" => (differ, equal),
            _ => return None,
        };
        Some((possible(yes), possible(no)))
    }

    /// A comparison of two values.
    pub(super) fn comparison(
        &mut self,
        node: Node<'_>,
    ) -> Result<Option<(Comparison, Expr, Expr)>, Error> {
        let node = bare(node);
        let (Some(left), Some(right), Some(operator)) = (
            node.child_by_field_name("left"),
            node.child_by_field_name("right"),
            node.child_by_field_name("operator"),
        ) else {
            return Ok(None);
        };
        let how = match self.text(operator) {
            "<" => Comparison::Less,
            "<=" => Comparison::LessEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterEqual,
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            _ => return Ok(None),
        };
        let none = Choices::new();
        let (a, b) = (self.value(left, &none)?, self.value(right, &none)?);
        Ok(Some((how, a, b)))
    }

    /// A condition as a value: 1 where it holds, otherwise 0.
    pub(super) fn truth(&mut self, node: Node<'_>) -> Result<Expr, Error> {
        let node = bare(node);
        let number = |text: &str| Expr::Number(text.to_owned());
        let operator = node.child_by_field_name("operator").map(|o| self.text(o));
        if operator == Some("&&")
            && let (Some(left), Some(right)) = (
                node.child_by_field_name("left"),
                node.child_by_field_name("right"),
            )
        {
            let right = self.truth(right)?;
            let Some((how, a, b)) = self.comparison(left)? else {
                return self.at(left, "this condition is no comparison of two values");
            };
            return Ok(Expr::Select(how, Box::new([a, b, right, number("0")])));
        }
        match self.comparison(node)? {
            Some((how, a, b)) => Ok(Expr::Select(
                how,
                Box::new([a, b, number("1"), number("0")]),
            )),
            None => self.at(node, "this operation is not supported in values"),
        }
    }

    /// True for `if (!pointer || !other) abort();`.
    pub(super) fn is_check_of_memory(&self, condition: Node<'_>, then: Node<'_>) -> bool {
        let leaves = ["abort", "return", "exit"];
        leaves.iter().any(|word| self.text(then).contains(word)) && self.lacks_memory(condition)
    }

    /// True if a condition is that one of some pointers is null.
    pub(super) fn lacks_memory(&self, condition: Node<'_>) -> bool {
        let condition = bare(condition);
        let operator = condition
            .child_by_field_name("operator")
            .map(|o| self.text(o));
        let field = |name: &str| condition.child_by_field_name(name).map(bare);
        match (operator, field("argument"), field("left"), field("right")) {
            (Some("!"), Some(argument), _, _) => {
                matches!(
                    self.meaning(self.text(argument)),
                    Some(Meaning::Pointer(..))
                )
            }
            (Some("||"), _, Some(left), Some(right)) => {
                self.lacks_memory(left) && self.lacks_memory(right)
            }
            _ => false,
        }
    }
}
