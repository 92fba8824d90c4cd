//! Function calls. A call of one of the program's own functions is evaluated by walking through that function.

use std::collections::BTreeMap;
use std::rc::Rc;

use tree_sitter::Node;

use super::assign::Target;
use super::eval::Seen;
use super::facts::{Place, ScalarId};
use super::poly::Poly;
use super::record::MOST_ELEMENTS;
use super::walk::{Around, Value, Walker};

/// A function that takes functions may run so often within itself.
const NESTED_CALLS: usize = 4;

/// A function that sees a function that sees a function, and so on, is followed through so many.
const MOST_STEPS: u32 = 16;

impl<'t> Walker<'t> {
    pub fn call(&mut self, node: Node<'t>) -> Seen {
        let name = node
            .child_by_field_name("function")
            .map_or("", |f| self.text(f));
        let mut arguments = Vec::new();
        if let Some(list) = node.child_by_field_name("arguments") {
            let mut cursor = list.walk();
            arguments = list
                .named_children(&mut cursor)
                .filter(|n| n.kind() != "comment")
                .collect();
        }
        if is_allocation(name) {
            let Value::Pointer(pointer) = self.new_memory(name) else {
                return Seen::default();
            };
            return Seen {
                pointer: Some(pointer),
                ..Seen::default()
            };
        }
        if name == "posix_memalign" {
            let words = arguments.first().map_or("", |a| self.text(*a));
            let variable = crate::scan::token::tokens(words)
                .last()
                .map_or("", |t| t.text);
            let variable = variable.trim_matches([')', ' ']);
            let variable = if variable.is_empty() {
                words.trim_matches(['&', '(', ')', ' '])
            } else {
                variable
            };
            if let Value::Pointer(memory) = self.new_memory(variable) {
                self.set(variable, None, Some(memory));
            }
            return Seen::default();
        }
        if let Some(Value::Function(own, seen)) = self.lookup(name).cloned()
            && let Some(function) = self.functions.get(own.as_str()).copied()
        {
            return match self.may_enter(&own) {
                true => self.inline(&own, function, &arguments, seen),
                false => Seen::default(),
            };
        }
        if let Some(function) = self.functions.get(name).copied()
            && self.may_enter(name)
        {
            return self.inline(name, function, &arguments, None);
        }
        if let Some(seen) = self.call_by_pointer(node, &arguments) {
            return seen;
        }
        if name.starts_with("_mm")
            && (name.contains("store") || name.contains("stream"))
            && !name.contains("load")
            && let (Some(to), Some(what)) = (arguments.first(), arguments.last())
        {
            let value = self.eval(*what);
            if let Some(pointer) = self.eval(*to).pointer
                && let Ok(place) = self.subscript(pointer, Poly::default())
            {
                self.write(place, false, &value, node);
            }
            return value;
        }
        let seen: Vec<Seen> = arguments.iter().map(|a| self.eval(*a)).collect();
        let copied = match (name, &seen[..]) {
            ("memcpy" | "memmove" | "__builtin_memcpy" | "__builtin_memmove", [to, from, ..]) => {
                Some((to, from))
            }
            // Algorithms of the C++ library, whose namespace has been taken out.
            ("copy" | "copy_n", [from, _, to]) => Some((to, from)),
            _ => None,
        };
        if let Some((to, from)) = copied {
            self.block_copy(to, from, node);
            return Seen::default();
        }
        let bounds = name.contains("min") || name.contains("max");
        let mut all = Seen::default();
        let parts = seen.iter().filter(|s| s.has_data() || s.pointer.is_some());
        let computes = computes(name, parts.count());
        for part in seen {
            all.merge(&part);
            all.int = if bounds {
                self.plainer(all.int.take(), part.int)
            } else {
                self.moving(all.int.take(), part.int)
            };
            // Vector loads and broadcasts take a pointer and return the elements behind it. The value of a prefetch is
            // unused.
            if let Some(pointer) = part.pointer
                && let Ok(place) = self.subscript(pointer, Poly::default())
            {
                let value = self.read(place);
                all.merge(&value);
            }
        }
        all.computed |= computes && all.has_data();
        all
    }

    /// Walks through every function that a call through a pointer may reach.
    fn call_by_pointer(&mut self, node: Node<'t>, arguments: &[Node<'t>]) -> Option<Seen> {
        let called = node.child_by_field_name("function")?;
        let by_pointer = match called.kind() {
            "identifier" => self.lookup(self.text(called)).is_some(),
            _ => true,
        };
        if !by_pointer {
            return None;
        }
        let mut all: Option<Seen> = None;
        self.charge(self.taken.len());
        for name in self.taken.clone() {
            let Some(function) = self.functions.get(name).copied() else {
                continue;
            };
            let parameters = function
                .child_by_field_name("declarator")
                .and_then(|d| self.declared(d))
                .map_or(0, |d| d.parameters.len());
            if parameters == arguments.len() && self.may_enter(name) {
                let seen = self.inline(name, function, arguments, None);
                all.get_or_insert_default().merge(&seen);
            }
        }
        all
    }

    /// True if a call of the function is followed. A function that takes functions may run within itself without being
    /// recursive.
    fn may_enter(&self, name: &str) -> bool {
        let running = self.calls.iter().filter(|c| **c == name).count();
        running == 0 || (running < NESTED_CALLS && !self.taken.is_empty())
    }

    /// The function that an argument names.
    pub fn named_function(&mut self, argument: Node<'t>) -> Option<Value> {
        let name = self.text(argument);
        if argument.kind() != "identifier" || !self.functions.contains_key(name) {
            return None;
        }
        if let Some(known) = self.lookup(name) {
            return matches!(known, Value::Function(..)).then(|| known.clone());
        }
        let sees = if self.nested.contains(name) {
            self.around()
        } else {
            None
        };
        Some(Value::Function(name.to_owned(), sees))
    }

    /// The variables that a nested function sees here. None if they hold functions that see others in too many steps:
    /// each step is a level of the stack when the values are dropped.
    fn around(&mut self) -> Option<Rc<Around>> {
        let steps = |value: &Value| match value {
            Value::Function(_, Some(around)) => around.steps + 1,
            _ => 0,
        };
        let values = self.scopes.iter().flat_map(BTreeMap::values);
        let steps = values.map(steps).max().unwrap_or(0);
        self.charge(self.scopes.iter().map(BTreeMap::len).sum());
        if steps > MOST_STEPS {
            self.facts.cut = true;
            return None;
        }
        Some(Rc::new(Around {
            scopes: self.scopes.clone(),
            steps,
        }))
    }

    /// Walks through a function of the program as if its body stood at the call. `sees` are the variables around the
    /// definition of a function that was passed as a value.
    fn inline(
        &mut self,
        name: &str,
        function: Node<'t>,
        arguments: &[Node<'t>],
        sees: Option<Rc<Around>>,
    ) -> Seen {
        let functions: Vec<Option<Value>> = arguments
            .iter()
            .map(|a| match self.lookup(self.text(*a)) {
                Some(known @ Value::Function(..)) => Some(known.clone()),
                _ => self.named_function(*a),
            })
            .collect();
        let values: Vec<Seen> = arguments.iter().map(|a| self.eval(*a)).collect();
        let aliases: Vec<Option<Place>> = arguments
            .iter()
            .zip(&values)
            .map(|(a, value)| self.referred(*a, value))
            .collect();
        let Some(declared) = function
            .child_by_field_name("declarator")
            .and_then(|d| self.declared(d))
        else {
            return Seen::default();
        };
        // The called function does not see the caller's local names.
        let global = self.scopes[0].clone();
        self.charge(global.len());
        let hidden = if let Some(around) = sees {
            self.charge(around.scopes.iter().map(BTreeMap::len).sum());
            let mut scopes = around.scopes.clone();
            scopes.push(BTreeMap::new());
            std::mem::replace(&mut self.scopes, scopes)
        } else if self.nested.contains(name) {
            let around = self.scopes.clone();
            self.charge(around.iter().map(BTreeMap::len).sum());
            self.scopes.push(BTreeMap::new());
            around
        } else {
            std::mem::replace(&mut self.scopes, vec![global, BTreeMap::new()])
        };
        let active = std::mem::take(&mut self.active);
        let returned = std::mem::take(&mut self.returned);
        let assigned = std::mem::take(&mut self.assigned);
        let jumped = self.jumped;
        let passed = values.into_iter().zip(functions).zip(aliases);
        for (parameter, ((value, function), alias)) in declared.parameters.iter().zip(passed) {
            let Some(parameter) = parameter else { continue };
            let bound = if let Some(function) = function {
                function
            } else if let Some(place) = alias.filter(|_| parameter.pointer) {
                Value::Alias(place)
            } else if value.pointer.is_some()
                || parameter.array
                || (parameter.pointer && !self.references)
            {
                value.pointer.map_or(Value::Unknown, Value::Pointer)
            } else {
                let scalar = self.new_scalar();
                let int = value.int.clone();
                self.pass(scalar, value);
                if parameter.is_int {
                    Value::Int(int.unwrap_or_else(|| self.opaque()), Some(scalar))
                } else {
                    Value::Number(scalar)
                }
            };
            self.bind(parameter.name, bound);
            self.parameter_strides(parameter);
        }
        if let Some(known) = self.functions.get_key_value(name) {
            self.calls.push(known.0);
        }
        if let Some(body) = function.child_by_field_name("body") {
            self.statement(body);
        }
        self.calls.pop();
        self.scopes = hidden;
        self.active = active;
        self.assigned = assigned;
        self.jumped = jumped;
        std::mem::replace(&mut self.returned, returned)
    }

    /// The place to which a reference is bound, if the value of an expression is no pointer.
    pub fn referred(&mut self, node: Node<'t>, value: &Seen) -> Option<Place> {
        let is_place = matches!(
            node.kind(),
            "identifier" | "subscript_expression" | "pointer_expression"
        );
        if !self.references || value.pointer.is_some() || !is_place {
            return None;
        }
        match self.place(node) {
            Some(Target::Place(place)) => Some(place),
            _ => None,
        }
    }

    /// Gives a parameter the value of its argument.
    fn pass(&mut self, parameter: ScalarId, value: Seen) {
        let scalar = &mut self.facts.scalars[parameter];
        scalar.reads = value.reads.into_iter().take(MOST_ELEMENTS).collect();
        scalar.sources = value.sources;
        scalar.accs = value.accs;
        scalar.computed = value.computed;
    }
}

/// True if a function outside the program computes a new value of its `values` arguments with data, and does not only
/// load or move them.
fn computes(name: &str, values: usize) -> bool {
    const ARITHMETIC: [&str; 14] = [
        "add", "sub", "mul", "div", "min", "max", "sqrt", "fma", "fnma", "fms", "cmp", "blendv",
        "and", "abs",
    ];
    let moves = ["_mm", "__builtin_", "vld", "vdup", "vset"];
    if moves.iter().any(|start| name.starts_with(start)) {
        return values > 0 && ARITHMETIC.iter().any(|word| name.contains(word));
    }
    values > 0
}

fn is_allocation(name: &str) -> bool {
    matches!(
        name,
        "malloc" | "calloc" | "realloc" | "aligned_alloc" | "memalign" | "alloca" | "_mm_malloc"
    ) || name.starts_with("__builtin_alloca")
        || name.starts_with("__builtin_malloc")
}
