//! Function calls. A call of one of the program's own functions is evaluated by walking through that function.

use std::collections::BTreeMap;

use tree_sitter::Node;

use super::eval::Seen;
use super::facts::{Fill, Meaning, Origin};
use super::poly::Poly;
use super::walk::{Value, Walker};

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
        if let Some(function) = self.functions.get(name).copied()
            && !self.calls.contains(&name)
        {
            return self.inline(name, function, &arguments);
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
        if matches!(
            name,
            "memcpy" | "memmove" | "__builtin_memcpy" | "__builtin_memmove"
        ) && let [to, from, ..] = &seen[..]
        {
            self.block_copy(to, from, node);
            return Seen::default();
        }
        let mut all = Seen::default();
        for part in seen {
            all.merge(&part);
            all.int = self.plainer(all.int.take(), part.int);
            // Vector loads and broadcasts take a pointer and return the elements behind it. The value of a prefetch is
            // unused.
            if let Some(pointer) = part.pointer
                && let Ok(place) = self.subscript(pointer, Poly::default())
            {
                let value = self.read(place);
                all.merge(&value);
            }
        }
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
        for name in self.taken.clone() {
            let Some(function) = self.functions.get(name).copied() else {
                continue;
            };
            let parameters = function
                .child_by_field_name("declarator")
                .and_then(|d| self.declared(d))
                .map_or(0, |d| d.parameters.len());
            if parameters == arguments.len() && !self.calls.contains(&name) {
                let seen = self.inline(name, function, arguments);
                all.get_or_insert_default().merge(&seen);
            }
        }
        all
    }

    fn block_copy(&mut self, to: &Seen, from: &Seen, node: Node<'t>) {
        let (Some(to), Some(from)) = (&to.pointer, &from.pointer) else {
            return;
        };
        let sources = self.facts.arrays[from.array].sources.clone();
        let array = &mut self.facts.arrays[to.array];
        if array.origin == Origin::Local && !sources.is_empty() {
            array.sources.extend(sources);
            let (array, stack, line) = (to.array, self.stack.clone(), self.line(node));
            self.facts.fills.push(Fill { array, stack, line });
        }
    }

    /// Walks through a function of the program as if its body stood at the call.
    fn inline(&mut self, name: &str, function: Node<'t>, arguments: &[Node<'t>]) -> Seen {
        let values: Vec<Seen> = arguments.iter().map(|a| self.eval(*a)).collect();
        let Some(declared) = function
            .child_by_field_name("declarator")
            .and_then(|d| self.declared(d))
        else {
            return Seen::default();
        };
        // The called function does not see the caller's local names.
        let global = self.scopes[0].clone();
        self.charge(global.len());
        let hidden = if self.nested.contains(name) {
            let around = self.scopes.clone();
            self.charge(around.iter().map(BTreeMap::len).sum());
            self.scopes.push(BTreeMap::new());
            around
        } else {
            std::mem::replace(&mut self.scopes, vec![global, BTreeMap::new()])
        };
        let active = std::mem::take(&mut self.active);
        let returned = std::mem::take(&mut self.returned);
        for (parameter, value) in declared.parameters.iter().zip(values) {
            let Some(parameter) = parameter else { continue };
            let bound = if parameter.pointer || parameter.array || value.pointer.is_some() {
                value.pointer.map_or(Value::Unknown, Value::Pointer)
            } else if parameter.is_int {
                Value::Int(
                    value
                        .int
                        .unwrap_or_else(|| Poly::symbol(self.facts.new_symbol(Meaning::Size))),
                )
            } else {
                let scalar = self.new_scalar();
                self.facts.scalars[scalar].sources = value.sources;
                self.facts.scalars[scalar].accs = value.accs;
                Value::Number(scalar)
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
        std::mem::replace(&mut self.returned, returned)
    }
}

fn is_allocation(name: &str) -> bool {
    matches!(
        name,
        "malloc" | "calloc" | "realloc" | "aligned_alloc" | "memalign" | "alloca" | "_mm_malloc"
    ) || name.starts_with("__builtin_alloca")
        || name.starts_with("__builtin_malloc")
}
