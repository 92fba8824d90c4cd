//! Values, subscripts and pointers.

use super::*;

impl<'a> Walk<'a> {
    pub(super) fn access(&mut self, node: Node<'_>) -> Option<Access> {
        let line = node.start_position().row + 1;
        if node.kind() == "identifier" {
            return match self.meaning(self.text(node))? {
                Meaning::Local(array, iterators) => Some(Access {
                    array: *array,
                    subscripts: iterators.iter().map(|v| Affine::var(*v)).collect(),
                }),
                _ => None,
            };
        }
        let (array, index) = self.element(node)?;
        self.raw.push(Raw { array, index, line });
        Some(arrays::marked(array, self.raw.len() - 1))
    }

    /// The array and the linear index of `a[i]`, `a[i][j]` or `*p`.
    pub(super) fn element(&self, node: Node<'_>) -> Option<(usize, Poly)> {
        match node.kind() {
            "subscript_expression" => {
                // The subscripts, the last first.
                let mut subscripts = Vec::new();
                let mut node = node;
                while node.kind() == "subscript_expression" {
                    subscripts.push(self.integer(node.child_by_field_name("index")?)?);
                    node = bare(node.child_by_field_name("argument")?);
                }
                let (array, offset) = self.pointer(node)?;
                if let [only] = subscripts.as_slice() {
                    return Some((array, offset.plus(only)));
                }
                let strides = &self.program.arrays[array].strides;
                if strides.len() != subscripts.len() {
                    return None;
                }
                let mut sum = offset;
                for (stride, subscript) in strides.iter().rev().zip(&subscripts) {
                    sum = sum.plus(&stride.times(subscript)?);
                }
                Some((array, sum))
            }
            "pointer_expression" => {
                let operator = node.child_by_field_name("operator")?;
                (self.text(operator) == "*").then_some(())?;
                self.pointer(bare(node.child_by_field_name("argument")?))
            }
            _ => None,
        }
    }

    /// The array that a pointer points into, and where.
    pub(super) fn pointer(&self, node: Node<'_>) -> Option<(usize, Poly)> {
        let node = bare(node);
        match node.kind() {
            "identifier" => match self.meaning(self.text(node))? {
                Meaning::Pointer(array, offset) => Some((*array, offset.clone())),
                _ => None,
            },
            "pointer_expression" => {
                let operator = node.child_by_field_name("operator")?;
                (self.text(operator) == "&").then_some(())?;
                self.element(bare(node.child_by_field_name("argument")?))
            }
            "binary_expression" => {
                let operator = self.text(node.child_by_field_name("operator")?);
                let (array, offset) = self.pointer(node.child_by_field_name("left")?)?;
                let by = self.integer(node.child_by_field_name("right")?)?;
                match operator {
                    "+" => Some((array, offset.plus(&by))),
                    "-" => Some((array, offset.minus(&by))),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// An integer that is a polynomial of parameters and iterators.
    pub(super) fn integer(&self, node: Node<'_>) -> Option<Poly> {
        let node = bare(node);
        match node.kind() {
            "number_literal" => {
                let digits = self.text(node).trim_end_matches(['u', 'U', 'l', 'L', 'z']);
                digits.parse().ok().map(Poly::constant)
            }
            "identifier" => match self.meaning(self.text(node))? {
                Meaning::Integer(poly) => Some(poly.clone()),
                _ => None,
            },
            "unary_expression" => {
                let inner = self.integer(node.child_by_field_name("argument")?)?;
                match self.text(node.child_by_field_name("operator")?) {
                    "-" => Some(inner.scaled(-1)),
                    "+" => Some(inner),
                    _ => None,
                }
            }
            "cast_expression" => {
                let whole = ["int", "long", "size_t", "ptrdiff_t", "int64_t", "int32_t"];
                let kind = self.text(node.child_by_field_name("type")?);
                let inner = self.integer(node.child_by_field_name("value")?)?;
                whole.contains(&kind).then_some(inner)
            }
            "binary_expression" => {
                let a = self.integer(node.child_by_field_name("left")?)?;
                let b = self.integer(node.child_by_field_name("right")?)?;
                match self.text(node.child_by_field_name("operator")?) {
                    "+" => Some(a.plus(&b)),
                    "-" => Some(a.minus(&b)),
                    "*" => a.times(&b),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(super) fn affine(&self, node: Node<'_>) -> Option<Affine> {
        self.integer(node)?.as_affine()
    }

    pub(super) fn value(&mut self, node: Node<'_>, choices: &Choices) -> Result<Expr, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.at(node, "expressions are nested too deeply");
        }
        let value = self.inner_value(bare(node), choices);
        self.depth -= 1;
        value
    }

    pub(super) fn inner_value(&mut self, node: Node<'_>, choices: &Choices) -> Result<Expr, Error> {
        let field = |name: &str| node.child_by_field_name(name);
        match node.kind() {
            "number_literal" => Ok(Expr::Number(self.text(node).to_owned())),
            "identifier" => match self.meaning(self.text(node)) {
                Some(Meaning::Scalar) => Ok(Expr::Scalar(self.text(node).to_owned())),
                Some(Meaning::Local(..)) => match self.access(node) {
                    Some(access) => Ok(Expr::Read(access)),
                    None => self.at(node, "this name has no value"),
                },
                Some(Meaning::Integer(poly)) => match poly.as_affine() {
                    Some(affine) => Ok(Expr::Index(affine)),
                    None => self.at(node, "this integer is not affine"),
                },
                _ => self.at(node, format!("`{}` has no value here", self.text(node))),
            },
            "subscript_expression" | "pointer_expression" => match self.access(node) {
                Some(access) => Ok(Expr::Read(access)),
                None => self.at(
                    node,
                    format!("the subscript of `{}` is not affine", self.text(node)),
                ),
            },
            "cast_expression" => match field("value") {
                Some(inner) => self.value(inner, choices),
                None => self.at(node, "a cast needs a value"),
            },
            "unary_expression" => {
                let (Some(operator), Some(argument)) = (field("operator"), field("argument"))
                else {
                    return self.at(node, "this operation is not supported");
                };
                let inner = self.value(argument, choices)?;
                match self.text(operator) {
                    "-" => Ok(Expr::Negative(Box::new(inner))),
                    "+" => Ok(inner),
                    _ => self.at(node, "this operation is not supported"),
                }
            }
            "binary_expression" => {
                let (Some(operator), Some(left), Some(right)) =
                    (field("operator"), field("left"), field("right"))
                else {
                    return self.at(node, "this operation is not supported");
                };
                let operation = match self.text(operator) {
                    "+" => Operation::Add,
                    "-" => Operation::Sub,
                    "*" => Operation::Mul,
                    "/" if self.integer(left).is_some() && self.integer(right).is_some() => {
                        return self.at(node, "a division of integers is not affine");
                    }
                    "/" => Operation::Div,
                    _ => return self.truth(node),
                };
                let a = self.value(left, choices)?;
                let b = self.value(right, choices)?;
                Ok(Expr::binary(operation, a, b))
            }
            "conditional_expression" => {
                let (Some(condition), Some(yes), Some(no)) = (
                    field("condition"),
                    field("consequence"),
                    field("alternative"),
                ) else {
                    return self.at(node, "this condition is not supported");
                };
                match choices.get(&node.id()) {
                    Some(true) => return self.value(yes, choices),
                    Some(false) => return self.value(no, choices),
                    None => {}
                }
                let Some((how, a, b)) = self.comparison(condition)? else {
                    return self.at(condition, "this condition is no comparison of two values");
                };
                let yes = self.value(yes, choices)?;
                let no = self.value(no, choices)?;
                Ok(Expr::Select(how, Box::new([a, b, yes, no])))
            }
            "call_expression" => {
                let name = field("function").map_or("", |f| self.text(f)).to_owned();
                let arguments = field("arguments").map(children).unwrap_or_default();
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(self.value(argument, choices)?);
                }
                match (name.trim_end_matches('f'), values.len()) {
                    ("fmin", 2) => Ok(pair(Operation::Min, values)),
                    ("fmax", 2) => Ok(pair(Operation::Max, values)),
                    // The list is short on purpose: a function may have effects.
                    (
                        "sqrt" | "exp" | "log" | "fabs" | "sin" | "cos" | "tanh" | "erf" | "er"
                        | "erfc",
                        1,
                    )
                    | ("pow", 2) => Ok(Expr::Call(name, values)),
                    _ => self.at(
                        node,
                        format!("a call of `{name}` is not supported in values"),
                    ),
                }
            }
            other => self.at(node, format!("{} is not supported in values", words(other))),
        }
    }
}

pub(super) fn pair(operation: Operation, values: Vec<Expr>) -> Expr {
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (Some(a), Some(b)) => Expr::binary(operation, a, b),
        (a, _) => a.unwrap_or(Expr::Number("0".to_owned())),
    }
}
