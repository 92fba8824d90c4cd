//! Declarations.

use tree_sitter::Node;

use super::eval::Seen;
use super::facts::{ArrayId, Origin, Place};
use super::poly::Poly;
use super::walk::{Pointer, Value, Walker};

/// Values of a list that are followed.
const MOST_VALUES: usize = 64;

/// The parts of a declarator.
#[derive(Debug, Clone)]
pub(super) struct Declared<'t> {
    pub name: &'t str,
    pub pointer: bool,
    /// A pointer to an array, `(*x)[n]`.
    pub points_to_array: bool,
    pub array: bool,
    /// Sizes of array extents, outermost first.
    pub dims: Vec<Option<Node<'t>>>,
    pub function: bool,
    /// Parameters of a function declarator; none for an unnamed one.
    pub parameters: Vec<Option<Declared<'t>>>,
    /// True if the parameter's type is an integer.
    pub is_int: bool,
}

impl<'t> Walker<'t> {
    /// Analyses a declarator.
    pub fn declared(&self, declarator: Node<'t>) -> Option<Declared<'t>> {
        self.taken_apart(declarator, true)
    }

    /// Analyses a declarator. Parameters of parameters are left out: they are not needed, and a text may nest them
    /// without limit.
    fn taken_apart(&self, declarator: Node<'t>, with_parameters: bool) -> Option<Declared<'t>> {
        let mut found = Declared {
            name: "",
            pointer: false,
            points_to_array: false,
            array: false,
            dims: Vec::new(),
            function: false,
            parameters: Vec::new(),
            is_int: false,
        };
        let mut node = declarator;
        // The loop goes from the outside in, so it meets the extents innermost first.
        for _ in 0..64 {
            match node.kind() {
                "identifier" | "type_identifier" | "field_identifier" => {
                    found.name = self.text(node);
                    found.dims.reverse();
                    return Some(found);
                }
                "pointer_declarator" => {
                    found.points_to_array |= found.array;
                    found.pointer = true;
                }
                "array_declarator" => {
                    found.array = true;
                    found.dims.push(node.child_by_field_name("size"));
                }
                "function_declarator" => {
                    found.function = true;
                    if with_parameters && let Some(list) = node.child_by_field_name("parameters") {
                        found.parameters = self.parameters(list);
                    }
                }
                _ => {}
            }
            node = node.child_by_field_name("declarator").or_else(|| {
                (0..node.named_child_count())
                    .filter_map(|i| node.named_child(i))
                    .find(|c| c.kind().ends_with("declarator") || c.kind() == "identifier")
            })?;
        }
        None
    }

    fn parameters(&self, list: Node<'t>) -> Vec<Option<Declared<'t>>> {
        let mut cursor = list.walk();
        list.named_children(&mut cursor)
            .filter(|p| matches!(p.kind(), "parameter_declaration" | "identifier"))
            .map(|p| {
                // An old-style (K&R) definition lists only the names of its parameters here.
                if p.kind() == "identifier" {
                    return self.taken_apart(p, false);
                }
                let mut declared = self.taken_apart(p.child_by_field_name("declarator")?, false)?;
                declared.is_int = p
                    .child_by_field_name("type")
                    .is_some_and(|t| self.is_int(t));
                Some(declared)
            })
            .collect()
    }

    /// True if the type is an integer type.
    pub fn is_int(&self, kind: Node<'t>) -> bool {
        let text = self.text(kind);
        let word = |w: &str| {
            matches!(
                w,
                "int" | "long" | "short" | "char" | "unsigned" | "signed" | "size_t" | "ssize_t"
            ) || matches!(w, "ptrdiff_t" | "_Bool" | "bool")
                || ((w.starts_with("int") || w.starts_with("uint")) && w.ends_with("_t"))
                || self.int_types.contains(w)
        };
        text.split_whitespace().any(word) && !text.contains("double")
    }

    pub fn declaration(&mut self, node: Node<'t>) {
        let Some(kind) = node.child_by_field_name("type") else {
            return;
        };
        if kind.kind() == "enum_specifier" {
            self.enumeration(kind);
        }
        let is_int = self.is_int(kind);
        let mut cursor = node.walk();
        let declarators: Vec<Node<'t>> = node
            .children_by_field_name("declarator", &mut cursor)
            .collect();
        for declarator in declarators {
            let (inner, value) = match declarator.kind() {
                "init_declarator" => (
                    declarator.child_by_field_name("declarator"),
                    declarator.child_by_field_name("value"),
                ),
                _ => (Some(declarator), None),
            };
            let Some(declared) = inner.and_then(|d| self.declared(d)) else {
                continue;
            };
            if declared.function && !declared.pointer {
                continue;
            }
            let listed = value
                .filter(|v| v.kind() == "initializer_list" && declared.array && !declared.pointer);
            if let Some(list) = listed {
                let array = self.declare_array(&declared);
                self.initialize(array, list, &mut Vec::new(), declarator);
                continue;
            }
            if let Some(function) = value.and_then(|v| self.named_function(v)) {
                self.bind(declared.name, function);
                continue;
            }
            let seen = value.map(|v| self.eval(v));
            if let (true, Some(node), Some(seen)) = (declared.pointer, value, &seen)
                && let Some(place) = self.referred(node, seen)
            {
                self.bind(declared.name, Value::Alias(place));
                continue;
            }
            self.declare(&declared, is_int, seen, declarator);
        }
    }

    fn declare(
        &mut self,
        declared: &Declared<'t>,
        is_int: bool,
        seen: Option<Seen>,
        node: Node<'t>,
    ) {
        let name = declared.name;
        if declared.array && !declared.pointer {
            let array = self.declare_array(declared);
            if let Some(seen) = seen {
                self.write(
                    Place::Element(array, vec![Poly::default()]),
                    false,
                    &seen,
                    node,
                );
            }
        } else if declared.pointer
            || (!is_int && seen.as_ref().is_some_and(|s| s.pointer.is_some()))
        {
            let value = match seen.and_then(|s| s.pointer) {
                Some(mut pointer) => {
                    if declared.points_to_array {
                        pointer.strides = self.strides(&declared.dims);
                    }
                    Value::Pointer(pointer)
                }
                None => Value::Unknown,
            };
            self.bind(name, value);
        } else if is_int {
            let scalar = self.new_scalar();
            let int = seen.as_ref().and_then(|s| s.int.clone());
            let int = int.unwrap_or_else(|| self.opaque());
            self.bind(name, Value::Int(int, Some(scalar)));
            if let Some(seen) = seen.filter(Seen::has_data) {
                self.write(Place::Scalar(scalar), false, &seen, node);
            }
        } else {
            let scalar = self.new_scalar();
            self.bind(name, Value::Number(scalar));
            if let Some(seen) = seen {
                self.write(Place::Scalar(scalar), false, &seen, node);
            }
        }
    }

    /// Makes a local array with its declared extents.
    fn declare_array(&mut self, declared: &Declared<'t>) -> ArrayId {
        let dims = declared.dims.iter().map(|d| {
            d.and_then(|d| self.eval(d).int)
                .and_then(|p| p.as_constant())
        });
        let dims = dims.collect();
        let array = self.new_array(declared.name, Origin::Local, dims);
        let pointer = Pointer {
            array,
            index: Vec::new(),
            strides: Vec::new(),
        };
        self.bind(declared.name, Value::Pointer(pointer));
        array
    }

    /// Writes the values of a list to the elements of an array.
    fn initialize(
        &mut self,
        array: ArrayId,
        list: Node<'t>,
        index: &mut Vec<Poly>,
        node: Node<'t>,
    ) {
        if !self.enter() {
            return;
        }
        let mut cursor = list.walk();
        let values: Vec<Node<'t>> = list.named_children(&mut cursor).collect();
        for (at, value) in values.into_iter().take(MOST_VALUES).enumerate() {
            index.push(Poly::constant(at as i64));
            if value.kind() == "initializer_list" {
                self.initialize(array, value, index, node);
            } else {
                let seen = self.eval(value);
                if seen.has_data() {
                    self.write(Place::Element(array, index.clone()), false, &seen, node);
                }
            }
            index.pop();
        }
        self.leave();
    }

    /// The number of elements that each subscript except the last steps over, for an array with these extents.
    pub fn strides(&mut self, dims: &[Option<Node<'t>>]) -> Vec<Poly> {
        let sizes: Vec<Poly> = dims
            .iter()
            .map(|d| {
                d.and_then(|d| self.eval(d).int)
                    .unwrap_or_else(|| self.opaque())
            })
            .collect();
        (0..sizes.len())
            .map(|at| {
                sizes[at..]
                    .iter()
                    .fold(Poly::constant(1), |product, size| product.times(size))
            })
            .collect()
    }

    pub fn type_definition(&mut self, node: Node<'t>) {
        let Some(kind) = node.child_by_field_name("type") else {
            return;
        };
        let mut cursor = node.walk();
        let declarators: Vec<Node<'t>> = node
            .children_by_field_name("declarator", &mut cursor)
            .collect();
        for declarator in declarators {
            let Some(declared) = self.declared(declarator) else {
                continue;
            };
            if !declared.pointer && !declared.array && self.is_int(kind) {
                self.int_types.insert(declared.name.to_owned());
            }
            if !self.type_bytes.contains_key(declared.name)
                && let Some(bytes) = self.type_size(self.text(kind))
            {
                self.type_bytes.insert(declared.name.to_owned(), bytes);
            }
        }
    }

    /// Size of a type in bytes, by its name.
    pub fn type_size(&self, name: &str) -> Option<i64> {
        let word = name.split_whitespace().next_back()?;
        Some(match word {
            "double" | "long" | "size_t" | "ptrdiff_t" | "int64_t" | "uint64_t" => 8,
            "float" | "int" | "unsigned" | "int32_t" | "uint32_t" => 4,
            "short" => 2,
            "char" => 1,
            "__m128d" | "__m128" | "__m128i" => 16,
            "__m256d" | "__m256" | "__m256i" => 32,
            "__m512d" | "__m512" | "__m512i" => 64,
            other => return self.type_bytes.get(other).copied(),
        })
    }

    pub fn enumeration(&mut self, node: Node<'t>) {
        let Some(body) = node.child_by_field_name("body") else {
            return;
        };
        let mut next = Poly::default();
        let mut cursor = body.walk();
        let all: Vec<Node<'t>> = body.named_children(&mut cursor).collect();
        for one in all.into_iter().filter(|n| n.kind() == "enumerator") {
            if let Some(value) = one
                .child_by_field_name("value")
                .and_then(|v| self.eval(v).int)
            {
                next = value;
            }
            if let Some(name) = one.child_by_field_name("name") {
                self.bind(self.text(name), Value::Int(next.clone(), None));
            }
            next = next.add(&Poly::constant(1));
        }
    }
}
