//! Expressions: their values as integers or pointers, and the elements that they read.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use tree_sitter::Node;

use super::assign::Target;
use super::facts::{Meaning, Origin, Place};
use super::poly::Poly;
use super::walk::{Pointer, Value, Walker};

/// The value of an expression, and its reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub int: Option<Poly>,
    pub pointer: Option<Pointer>,
    pub reads: Vec<Place>,
    /// Inputs whose values enter the value.
    pub sources: BTreeSet<usize>,
    /// Accumulators whose results enter the value.
    pub accs: BTreeSet<Place>,
    /// True if the value is computed from several elements or by a function.
    pub computed: bool,
}

/// Largest number of reads that are recorded for one expression.
const MOST_READS: usize = 64;

/// Largest number of operations on integers that keep their symbols.
const MOST_DERIVED: usize = 1000;

impl Seen {
    /// Adds the reads of another part of the expression.
    pub fn merge(&mut self, other: &Seen) {
        let room = MOST_READS.saturating_sub(self.reads.len());
        self.reads.extend(other.reads.iter().take(room).cloned());
        self.sources.extend(&other.sources);
        self.accs
            .extend(other.accs.iter().take(MOST_READS).cloned());
        self.computed |= other.computed;
    }

    /// True if elements of arrays enter the value.
    pub fn has_elements(&self) -> bool {
        self.reads.iter().any(|r| matches!(r, Place::Element(..)))
    }

    /// True if values of arrays enter the value.
    pub fn has_data(&self) -> bool {
        !self.sources.is_empty() || !self.accs.is_empty() || self.has_elements()
    }

    fn of_int(poly: Poly) -> Self {
        Seen {
            int: Some(poly),
            ..Seen::default()
        }
    }
}

impl<'t> Walker<'t> {
    /// Evaluates an expression, including its side effects.
    pub fn eval(&mut self, node: Node<'t>) -> Seen {
        if !self.enter() {
            return Seen::default();
        }
        let seen = self.eval_inside(node);
        self.charge(seen.reads.len() / 4 + seen.accs.len());
        self.leave();
        seen
    }

    fn eval_inside(&mut self, node: Node<'t>) -> Seen {
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "identifier" => self.name(self.text(node)),
            "number_literal" => integer(self.text(node))
                .map(|v| Seen::of_int(Poly::constant(v)))
                .unwrap_or_default(),
            "parenthesized_expression" => {
                let mut inner = (0..node.named_child_count()).filter_map(|i| node.named_child(i));
                inner
                    .next_back()
                    .map(|n| {
                        if n.kind() == "compound_statement" {
                            self.block(n)
                        } else {
                            self.eval(n)
                        }
                    })
                    .unwrap_or_default()
            }
            "cast_expression" => field("value").map(|v| self.eval(v)).unwrap_or_default(),
            "extension_expression" => node
                .named_child(0)
                .map(|v| self.eval(v))
                .unwrap_or_default(),
            "unary_expression" => {
                let mut seen = field("argument").map(|a| self.eval(a)).unwrap_or_default();
                let operator = field("operator").map_or("", |o| self.text(o));
                seen.int = match (operator, seen.int.take()) {
                    ("-", Some(poly)) => Some(poly.negated()),
                    ("+", int) => int,
                    (_, Some(_)) => Some(self.opaque()),
                    (_, None) => None,
                };
                seen
            }
            "binary_expression" => self.binary(node),
            "assignment_expression" => self.assignment(node),
            "update_expression" => self.step(node),
            "comma_expression" => {
                if let Some(left) = field("left") {
                    self.eval(left);
                }
                field("right").map(|r| self.eval(r)).unwrap_or_default()
            }
            "conditional_expression" => self.conditional(node),
            "pointer_expression" => self.pointer(node),
            "subscript_expression" => {
                let base = field("argument").map(|a| self.eval(a)).unwrap_or_default();
                let index = field("index").map(|i| self.eval(i)).unwrap_or_default();
                let mut seen = self.element(base, index.int.clone());
                seen.merge(&index);
                seen
            }
            "call_expression" => self.call(node),
            "field_expression" => field("argument").map(|a| self.eval(a)).unwrap_or_default(),
            "sizeof_expression" => {
                let bytes = field("type").or(field("value")).and_then(|t| {
                    let name = self.text(t).trim_matches(['(', ')', ' ']);
                    if name.contains('*') {
                        Some(8)
                    } else {
                        self.type_size(name)
                    }
                });
                Seen::of_int(match bytes {
                    Some(bytes) => Poly::constant(bytes),
                    None => self.opaque(),
                })
            }
            "string_literal" | "char_literal" | "concatenated_string" | "type_descriptor" => {
                Seen::default()
            }
            "compound_statement" => self.block(node),
            "compound_literal_expression" => self.literal(node),
            _ => {
                let mut seen = Seen::default();
                let mut cursor = node.walk();
                let children: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
                for child in children {
                    let part = self.eval(child);
                    seen.merge(&part);
                }
                seen
            }
        }
    }

    /// A compound literal. A vector whose lanes are elements of one array is one operand, as a vector that is loaded.
    fn literal(&mut self, node: Node<'t>) -> Seen {
        let kind = node
            .child_by_field_name("type")
            .map_or("", |t| self.text(t));
        let is_vector = self.type_bytes.contains_key(kind.trim());
        let Some(list) = node.child_by_field_name("value") else {
            return Seen::default();
        };
        let mut cursor = list.walk();
        let lanes: Vec<Node<'t>> = list.named_children(&mut cursor).collect();
        let mut seen = Seen::default();
        let mut first: Option<Seen> = None;
        let mut gathers = is_vector && lanes.len() > 1;
        for lane in lanes {
            let part = self.eval(lane);
            let array = |of: &Seen| match of.reads[..] {
                [Place::Element(array, _)] => Some(array),
                _ => None,
            };
            let alike = first.as_ref().is_none_or(|f| array(f) == array(&part));
            gathers &= array(&part).is_some() && alike && lane.kind() == "subscript_expression";
            seen.merge(&part);
            first.get_or_insert(part);
        }
        match first {
            Some(first) if gathers => first,
            _ => seen,
        }
    }

    /// A statement expression `({ … })`. Its value is that of the last statement, which is not tracked.
    fn block(&mut self, node: Node<'t>) -> Seen {
        self.statement(node);
        Seen::default()
    }

    fn name(&mut self, name: &str) -> Seen {
        match self.lookup(name).cloned() {
            Some(Value::Int(poly, scalar)) => {
                let mut seen = match scalar {
                    Some(id) if self.facts.scalars[id].has_data() => self.read(Place::Scalar(id)),
                    _ => Seen::default(),
                };
                seen.int = Some(poly);
                seen
            }
            Some(Value::Pointer(pointer)) => Seen {
                pointer: Some(pointer),
                ..Seen::default()
            },
            Some(Value::Number(scalar)) => self.read(Place::Scalar(scalar)),
            Some(Value::Alias(place)) => self.read(place),
            _ => Seen::default(),
        }
    }

    /// The value that is stored at a place.
    pub fn read(&mut self, place: Place) -> Seen {
        let mut seen = Seen::default();
        match &place {
            Place::Scalar(id) => {
                let scalar = &self.facts.scalars[*id];
                seen.sources.clone_from(&scalar.sources);
                seen.accs.clone_from(&scalar.accs);
                seen.computed = scalar.computed;
                // The terms of a finished result are not elements of the value.
                if !scalar.accumulates {
                    seen.reads.clone_from(&scalar.reads);
                }
            }
            Place::Element(id, _) => seen.sources.clone_from(&self.facts.arrays[*id].sources),
        }
        if self.facts.accumulates(&place) {
            seen.accs.insert(place.clone());
        }
        seen.reads.push(place);
        seen
    }

    /// The element `base[index]`, or `*base` without an index.
    fn element(&mut self, base: Seen, index: Option<Poly>) -> Seen {
        let Some(pointer) = base.pointer else {
            // A lane of a vector, or an unknown value.
            return Seen {
                int: None,
                pointer: None,
                ..base
            };
        };
        let index = index.unwrap_or_else(|| self.opaque());
        let mut seen = match self.subscript(pointer, index) {
            Ok(place) => self.read(place),
            Err(pointer) => Seen {
                pointer: Some(pointer),
                ..Seen::default()
            },
        };
        seen.merge(&Seen {
            pointer: None,
            int: None,
            ..base
        });
        seen
    }

    /// Applies one subscript. The result is a place, or a pointer that needs further subscripts.
    pub fn subscript(&self, mut pointer: Pointer, index: Poly) -> Result<Place, Pointer> {
        let dims = self.facts.arrays[pointer.array].dims.len();
        if pointer.index.len() < dims {
            pointer.index.push(index);
            if pointer.index.len() < dims {
                return Err(pointer);
            }
        } else if pointer.strides.is_empty() {
            pointer = pointer.plus(&index);
        } else {
            pointer = pointer.plus(&index);
            pointer.strides.remove(0);
            return Err(pointer);
        }
        Ok(Place::Element(pointer.array, pointer.index))
    }

    fn pointer(&mut self, node: Node<'t>) -> Seen {
        let operator = node
            .child_by_field_name("operator")
            .map_or("", |o| self.text(o));
        let Some(argument) = node.child_by_field_name("argument") else {
            return Seen::default();
        };
        if operator == "*" {
            let base = self.eval(argument);
            return self.element(base, Some(Poly::default()));
        }
        match self.place(argument) {
            Some(Target::Place(Place::Element(array, index))) => Seen {
                pointer: Some(Pointer {
                    array,
                    index,
                    strides: Vec::new(),
                }),
                ..Seen::default()
            },
            Some(Target::Part(pointer)) => Seen {
                pointer: Some(pointer),
                ..Seen::default()
            },
            Some(Target::Place(Place::Scalar(scalar))) if argument.kind() == "identifier" => {
                self.address(self.text(argument), scalar)
            }
            _ => Seen::default(),
        }
    }

    /// The address of a number. From here on, the number is an array of one element.
    fn address(&mut self, name: &str, scalar: usize) -> Seen {
        let array = self.new_array(name, Origin::Local, vec![Some(1)]);
        let of = &self.facts.scalars[scalar];
        let (declared, sources, accumulates) =
            (of.declared.clone(), of.sources.clone(), of.accumulates);
        let made = &mut self.facts.arrays[array];
        made.declared = declared;
        made.sources = sources;
        made.accumulates = accumulates;
        if let Some(value) = self.lookup_mut(name) {
            *value = Value::Alias(Place::Element(array, vec![Poly::default()]));
        }
        Seen {
            pointer: Some(Pointer {
                array,
                index: vec![Poly::default()],
                strides: Vec::new(),
            }),
            ..Seen::default()
        }
    }

    fn binary(&mut self, node: Node<'t>) -> Seen {
        let side = |walker: &mut Self, name| {
            node.child_by_field_name(name)
                .map(|n| walker.eval(n))
                .unwrap_or_default()
        };
        let (left, right) = (side(self, "left"), side(self, "right"));
        let operator = node
            .child_by_field_name("operator")
            .map_or("", |o| self.text(o));
        let mut seen = Seen::default();
        seen.merge(&left);
        seen.merge(&right);
        seen.computed |= left.has_data() && right.has_data();
        match (left.pointer, right.pointer, operator) {
            (Some(p), None, "+") => {
                seen.pointer = right.int.as_ref().map(|d| p.plus(d)).or(Some(p))
            }
            (Some(p), None, "-") => {
                seen.pointer = right.int.as_ref().map(|d| p.plus(&d.negated())).or(Some(p))
            }
            (None, Some(p), "+") => seen.pointer = left.int.as_ref().map(|d| p.plus(d)).or(Some(p)),
            _ => {}
        }
        if let (Some(a), Some(b)) = (&left.int, &right.int) {
            seen.int = Some(self.integer_of(operator, a, b));
        }
        seen
    }

    fn integer_of(&mut self, operator: &str, a: &Poly, b: &Poly) -> Poly {
        let constants = a.as_constant().zip(b.as_constant());
        self.charge(a.terms() * b.terms());
        match (operator, constants) {
            ("+", _) => a.add(b),
            ("-", _) => a.minus(b),
            ("*", _) => a.times(b),
            ("/", Some((x, y))) if y != 0 => Poly::constant(x.wrapping_div(y)),
            ("%", Some((x, y))) if y != 0 => Poly::constant(x.wrapping_rem(y)),
            ("<<", _) => match b.as_constant() {
                Some(bits @ 0..=40) => a.times(&Poly::constant(1 << bits)),
                _ => self.opaque(),
            },
            ("/", None) if b.as_constant() == Some(1) => a.clone(),
            ("/" | "%" | ">>" | "&", None) => self.derived(operator, a, b),
            _ => self.opaque(),
        }
    }

    /// The symbol of an operation that has no polynomial. The operation on equal operands has the same symbol, unless
    /// the operands move with a loop.
    fn derived(&mut self, operator: &str, a: &Poly, b: &Poly) -> Poly {
        let moves = |p: &Poly| p.symbols().any(|s| self.facts.is_loop(s));
        if moves(a) || moves(b) || self.facts.derived.len() >= MOST_DERIVED {
            return self.opaque();
        }
        let key = (operator.to_owned(), a.clone(), b.clone());
        if let Some(known) = self.facts.derived.get(&key) {
            return Poly::symbol(*known);
        }
        let symbol = self.facts.new_symbol(Meaning::Unknown);
        self.facts.derived.insert(key, symbol);
        Poly::symbol(symbol)
    }

    /// A conditional expression is most often a minimum or a maximum. Its value is taken from the branch that contains
    /// a loop variable.
    fn conditional(&mut self, node: Node<'t>) -> Seen {
        let mut seen = Seen::default();
        for part in ["condition", "consequence", "alternative"] {
            let Some(child) = node.child_by_field_name(part) else {
                continue;
            };
            let value = self.eval(child);
            seen.merge(&value);
            if part == "condition" {
                continue;
            }
            seen.int = self.plainer(seen.int.take(), value.int);
            seen.pointer = seen.pointer.take().or(value.pointer);
        }
        seen
    }

    /// The more telling of two values of which an expression takes one. A value that moves with a loop tells more than
    /// one that does not. Of a block's size and the rest of a row, the constant size tells more. So does the bound of a
    /// loop that is a constant distance away from the loop's first value, and the border of a block more than that of a
    /// triangle.
    pub fn plainer(&self, a: Option<Poly>, b: Option<Poly>) -> Option<Poly> {
        let moves = |p: &Poly| p.symbols().any(|s| self.facts.is_loop(s));
        let size = |p: &Poly| p.as_constant().is_some_and(|c| c > 1);
        match (a, b) {
            (Some(a), Some(b)) => {
                let near = |p: &Poly| self.begin.as_ref().is_some_and(|from| size(&p.minus(from)));
                let second = match (near(&a), near(&b)) {
                    (true, _) => false,
                    (false, true) => true,
                    (false, false) => match self.border(&b).cmp(&self.border(&a)) {
                        Ordering::Greater => true,
                        Ordering::Less => false,
                        Ordering::Equal if size(&a) => false,
                        Ordering::Equal => size(&b) || (!moves(&a) && moves(&b)),
                    },
                };
                Some(if second { b } else { a })
            }
            (a, b) => a.or(b),
        }
    }

    /// How well a value shows the border of a block: 2 for a multiple of the number of the block, 1 for the variable of a
    /// loop that visits the first elements, and 0 otherwise.
    fn border(&self, value: &Poly) -> u8 {
        let of = |id: &usize| {
            let round = &self.facts.loops[*id];
            let factor = value.factor_of(round.symbol)?.as_constant()?;
            let step = round.step?.saturating_abs();
            Some(match factor {
                2.. => 2,
                1 if step > 1 => 1,
                _ => 0,
            })
        };
        self.stack.iter().filter_map(of).max().unwrap_or(0)
    }

    /// The first of two values that moves with a loop.
    pub fn moving(&self, a: Option<Poly>, b: Option<Poly>) -> Option<Poly> {
        let moves = |p: &Poly| p.symbols().any(|s| self.facts.is_loop(s));
        match (a, b) {
            (Some(a), Some(b)) => Some(if !moves(&a) && moves(&b) { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// The value of an integer literal.
fn integer(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        return i64::from_str_radix(hex, 16).ok();
    }
    if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()) {
        return i64::from_str_radix(digits, 8).ok();
    }
    digits.parse().ok()
}
