//! Assignments: their targets, and the changes of integers and pointers.

use tree_sitter::Node;

use super::eval::Seen;
use super::facts::Place;
use super::poly::Poly;
use super::walk::{Pointer, Value, Walker};

impl<'t> Walker<'t> {
    pub fn step(&mut self, node: Node<'t>) -> Seen {
        let Some(argument) = node.child_by_field_name("argument") else {
            return Seen::default();
        };
        let before = self.eval(argument);
        let down = node
            .child_by_field_name("operator")
            .is_some_and(|o| self.text(o) == "--");
        let one = Poly::constant(if down { -1 } else { 1 });
        if argument.kind() == "identifier" {
            self.set(
                self.text(argument),
                before.int.as_ref().map(|p| p.add(&one)),
                before.pointer.as_ref().map(|p| p.plus(&one)),
            );
        } else {
            self.guide = Seen::default();
            if let Some(Target::Place(place)) = self.place(argument) {
                let guide = std::mem::take(&mut self.guide);
                self.write(place, true, &guide, node);
            }
        }
        before
    }

    /// Assigns a new value to an integer or a pointer. The variable of a running loop keeps its value.
    pub fn set(&mut self, name: &str, int: Option<Poly>, pointer: Option<Pointer>) {
        if self.active.iter().any(|a| a == name) {
            return;
        }
        if let Some(value) = self.lookup_mut(name) {
            match (&value, int, pointer) {
                (Value::Int(_, scalar), Some(int), _) => *value = Value::Int(int, *scalar),
                (Value::Pointer(_) | Value::Unknown, _, Some(pointer)) => {
                    *value = Value::Pointer(pointer)
                }
                _ => {}
            }
        }
    }

    pub fn assignment(&mut self, node: Node<'t>) -> Seen {
        let (Some(left), Some(right)) = (
            node.child_by_field_name("left"),
            node.child_by_field_name("right"),
        ) else {
            return Seen::default();
        };
        let mut operator = node
            .child_by_field_name("operator")
            .map_or("", |o| self.text(o));
        let mut right = right;
        // `count[key[i]] = count[key[i]] + 1` takes two looks at one place.
        if operator == "="
            && left.kind() == "subscript_expression"
            && let Some((sign, by)) = self.own_change(right, self.text(left))
            && matches!(sign, "+" | "-" | "*" | "/")
        {
            (operator, right) = ("+=", by);
        }
        let mut value = self.eval(right);
        let outer = std::mem::take(&mut self.guide);
        let target = self.place(left);
        let guide = std::mem::replace(&mut self.guide, outer);
        match target {
            Some(Target::Place(place)) => {
                let adds = operator != "=";
                if adds {
                    // The elements that choose the place of a sum are part of the work, as in a histogram.
                    value.merge(&guide);
                }
                self.write(place, adds, &value, node);
            }
            Some(Target::Name(name)) => {
                let adds = operator != "=" || self.mentions(right, name);
                self.write_whole(name, adds, &value, node);
                let now = self.lookup(name).cloned();
                let (int, pointer) = match (now, operator) {
                    (_, "=") => (
                        Some(value.int.clone().unwrap_or_else(|| self.opaque())),
                        value.pointer.clone(),
                    ),
                    (Some(Value::Int(..)), _) if value.has_data() => (Some(self.opaque()), None),
                    (Some(Value::Int(now, _)), "+=") => {
                        (value.int.as_ref().map(|d| now.add(d)), None)
                    }
                    (Some(Value::Int(now, _)), "-=") => {
                        (value.int.as_ref().map(|d| now.minus(d)), None)
                    }
                    (Some(Value::Int(now, _)), "*=") => {
                        (value.int.as_ref().map(|d| now.times(d)), None)
                    }
                    (Some(Value::Int(..)), _) => (Some(self.opaque()), None),
                    (Some(Value::Pointer(now)), "+=") => {
                        (None, value.int.as_ref().map(|d| now.plus(d)))
                    }
                    (Some(Value::Pointer(now)), "-=") => {
                        (None, value.int.as_ref().map(|d| now.plus(&d.negated())))
                    }
                    _ => (None, None),
                };
                // The branches of a condition give an unknown pointer its place.
                if !matches!(self.lookup(name), Some(Value::Unknown))
                    && !self.active.iter().any(|a| a == name)
                {
                    self.remember(name, operator == "=");
                }
                self.set(name, int, pointer);
            }
            _ => {}
        }
        value
    }

    /// Records a write to an integer variable that holds a value of an array.
    fn write_whole(&mut self, name: &str, adds: bool, value: &Seen, node: Node<'t>) {
        if self.active.iter().any(|a| a == name) {
            return;
        }
        let Some(Value::Int(poly, scalar)) = self.lookup(name).cloned() else {
            return;
        };
        let held = scalar.is_some_and(|id| self.facts.scalars[id].has_data());
        if !value.has_data() && (!held || adds) {
            return;
        }
        let id = scalar.unwrap_or_else(|| self.new_scalar());
        if scalar.is_none()
            && let Some(variable) = self.lookup_mut(name)
        {
            *variable = Value::Int(poly, Some(id));
        }
        self.write(Place::Scalar(id), adds, value, node);
    }

    /// The target on the left of an assignment or behind `&`.
    pub fn place(&mut self, node: Node<'t>) -> Option<Target<'t>> {
        if !self.enter() {
            return None;
        }
        let found = self.place_inside(node);
        self.leave();
        found
    }

    fn place_inside(&mut self, node: Node<'t>) -> Option<Target<'t>> {
        match node.kind() {
            "parenthesized_expression" => self.place(node.named_child(0)?),
            "identifier" => {
                let name = self.text(node);
                match self.lookup(name) {
                    Some(Value::Number(scalar)) => Some(Target::Place(Place::Scalar(*scalar))),
                    Some(Value::Alias(place)) => Some(Target::Place(place.clone())),
                    Some(Value::Pointer(p))
                        if p.index.len() < self.facts.arrays[p.array].dims.len() =>
                    {
                        Some(Target::Part(p.clone()))
                    }
                    _ => Some(Target::Name(name)),
                }
            }
            "subscript_expression" => {
                let argument = node.child_by_field_name("argument")?;
                let chosen = node
                    .child_by_field_name("index")
                    .map(|i| self.eval(i))
                    .unwrap_or_default();
                self.guide.merge(&chosen);
                let index = chosen.int.unwrap_or_else(|| self.opaque());
                let base = self.eval(argument);
                match base.pointer {
                    Some(pointer) => Some(match self.subscript(pointer, index) {
                        Ok(place) => Target::Place(place),
                        Err(part) => Target::Part(part),
                    }),
                    // A lane of a vector.
                    None => self.place(argument),
                }
            }
            "pointer_expression"
                if node
                    .child_by_field_name("operator")
                    .is_some_and(|o| self.text(o) == "*") =>
            {
                let pointer = self.eval(node.child_by_field_name("argument")?).pointer?;
                Some(match self.subscript(pointer, Poly::default()) {
                    Ok(place) => Target::Place(place),
                    Err(part) => Target::Part(part),
                })
            }
            "cast_expression" => self.place(node.child_by_field_name("value")?),
            "field_expression" => self.place(node.child_by_field_name("argument")?),
            _ => None,
        }
    }
}

/// The target of an assignment.
pub(super) enum Target<'t> {
    Place(Place),
    /// An integer, a pointer or an unknown name.
    Name(&'t str),
    /// An array, or one of its rows.
    Part(Pointer),
}
