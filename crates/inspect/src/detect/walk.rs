//! Walks through the entry function in the order of execution, including calls, with one iteration of each loop.
//!
//! The walk tracks integers as polynomials of loop variables and parameters, pointers as an array and an offset, and
//! numbers only as the sets of inputs and accumulators that entered them. It is a heuristic: it skips code that it does
//! not understand.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use flopsmith_problem::{ArgKind, Language, Problem, Role};
use tree_sitter::Node;

use super::declare::Declared;
use super::facts::{Array, Facts, LoopId, Meaning, Origin, Place, Scalar, ScalarId};
use super::poly::Poly;

/// The walk does not follow deeper syntax, since every level uses stack: a chain of a thousand terms is as deep as it is
/// long. The stack of the analysis (`crate::stack`) follows from this number.
pub(super) const DEEPEST: u32 = 1000;

/// Largest number of visited nodes. The walk follows calls, so a small source can cause a long walk.
const BUDGET: u32 = 400_000;

/// Loops whose pointers change places are walked twice, so many at most.
const TURNS: u32 = 8;

/// Largest depth of nested loops that the walk follows.
pub(super) const MOST_LOOPS: usize = 24;

/// The names of each block around a statement.
pub(super) type Scopes = Vec<BTreeMap<String, Value>>;

/// The value of a name.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// An integer, and the scalar that says which values of arrays entered it.
    Int(Poly, Option<ScalarId>),
    Pointer(Pointer),
    Number(ScalarId),
    /// Another name of a place: a reference, or a number whose address is taken.
    Alias(Place),
    /// A function of the program, with the variables that it sees if it is defined within another function.
    Function(String, Option<Rc<Around>>),
    Unknown,
}

/// The variables that a nested function sees.
#[derive(Debug)]
pub(super) struct Around {
    pub scopes: Scopes,
    /// Functions among them may see others, and so on, in so many steps.
    pub steps: u32,
}

/// A place in an array, or the leading part of its subscripts.
#[derive(Debug, Clone)]
pub(super) struct Pointer {
    pub array: usize,
    /// One polynomial for each subscript that has been applied.
    pub index: Vec<Poly>,
    /// Numbers of elements that the further subscripts step over, outermost first; empty for a plain pointer.
    pub strides: Vec<Poly>,
}

/// The walk's state.
pub(super) struct Walker<'t> {
    pub source: &'t str,
    pub lines: &'t dyn Fn(usize) -> u32,
    pub functions: BTreeMap<&'t str, Node<'t>>,
    /// Nested functions, which see the variables of the enclosing function.
    pub nested: BTreeSet<&'t str>,
    /// Functions whose names occur without a call. A call through a pointer may reach them.
    pub taken: BTreeSet<&'t str>,
    /// Words that occur without a parenthesis behind them.
    uncalled: BTreeSet<&'t str>,
    pub scopes: Scopes,
    pub facts: Facts,
    pub stack: Vec<LoopId>,
    /// Loop variables. Each stands for its symbol until its loop ends, even if a statement clamps it.
    pub active: Vec<String>,
    pub conditional: u32,
    /// The number of conditions around the innermost loop.
    pub outside: u32,
    /// True behind a jump under a condition inside of the innermost loop.
    pub jumped: bool,
    /// For each condition around the statement, the values that it compares.
    pub guards: Vec<Vec<Place>>,
    /// The first value of the loop whose bound is evaluated.
    pub begin: Option<Poly>,
    /// The variables that the branches around the statement have assigned.
    pub assigned: Vec<super::branch::Assigned>,
    /// The values in the subscripts of the place that an assignment writes.
    pub guide: super::eval::Seen,
    pub calls: Vec<&'t str>,
    pub returned: super::eval::Seen,
    pub type_bytes: BTreeMap<String, i64>,
    pub int_types: BTreeSet<String>,
    /// True if a pointer may stand for a reference of C++.
    pub references: bool,
    /// Loops that may still be walked a second time.
    pub turns: u32,
    depth: u32,
    budget: u32,
}

/// Walks through the whole program from its entry function.
pub(super) fn facts<'t>(
    root: Node<'t>,
    source: &'t str,
    lines: &'t dyn Fn(usize) -> u32,
    type_bytes: BTreeMap<String, i64>,
    problem: &Problem,
    language: Language,
) -> Facts {
    let mut walker = Walker {
        source,
        lines,
        functions: BTreeMap::new(),
        nested: BTreeSet::new(),
        taken: BTreeSet::new(),
        uncalled: uncalled(source),
        scopes: vec![BTreeMap::new()],
        facts: Facts::default(),
        stack: Vec::new(),
        active: Vec::new(),
        conditional: 0,
        outside: 0,
        jumped: false,
        guards: Vec::new(),
        begin: None,
        assigned: Vec::new(),
        guide: super::eval::Seen::default(),
        calls: Vec::new(),
        returned: super::eval::Seen::default(),
        type_bytes,
        int_types: BTreeSet::new(),
        references: language == Language::Cxx,
        turns: TURNS,
        depth: 0,
        budget: BUDGET,
    };
    walker.top_level(root);
    walker.entry(problem);
    walker.facts
}

impl<'t> Walker<'t> {
    pub fn text(&self, node: Node<'_>) -> &'t str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    pub fn line(&self, node: Node<'_>) -> u32 {
        (self.lines)(node.start_position().row)
    }

    /// Enters a node if the depth and the budget allow.
    pub fn enter(&mut self) -> bool {
        if self.depth >= DEEPEST {
            self.facts.too_deep = true;
            return false;
        }
        if self.budget == 0 {
            self.facts.cut = true;
            return false;
        }
        self.budget -= 1;
        self.depth += 1;
        true
    }

    /// Charges work beyond that of a single node to the budget, so that no source makes the walk long.
    pub fn charge(&mut self, work: usize) {
        self.budget = self
            .budget
            .saturating_sub(u32::try_from(work).unwrap_or(u32::MAX));
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    fn top_level(&mut self, root: Node<'t>) {
        let mut cursor = root.walk();
        for node in root.named_children(&mut cursor) {
            match node.kind() {
                "function_definition" => {
                    if let Some(name) = node
                        .child_by_field_name("declarator")
                        .and_then(|d| self.declared(d))
                    {
                        self.add_function(name.name, node);
                    }
                }
                // Parts of a text that the grammar recovered after an error.
                "ERROR" | "linkage_specification" | "declaration_list" => {
                    if self.enter() {
                        self.top_level(node);
                        self.leave();
                    }
                }
                _ => self.statement(node),
            }
        }
    }

    fn add_function(&mut self, name: &'t str, node: Node<'t>) {
        self.functions.insert(name, node);
        if self.uncalled.contains(name) {
            self.taken.insert(name);
        }
    }

    fn entry(&mut self, problem: &Problem) {
        let Some(function) = self.functions.get(problem.entry.name.as_str()).copied() else {
            return;
        };
        let Some(declared) = function
            .child_by_field_name("declarator")
            .and_then(|d| self.declared(d))
        else {
            return;
        };
        self.scopes.push(BTreeMap::new());
        let arguments = declared.parameters.iter().zip(&problem.entry.args);
        for (position, (parameter, arg)) in arguments.enumerate() {
            let Some(name) = parameter.as_ref().map(|p| p.name) else {
                continue;
            };
            let value = if let ArgKind::Int { .. } = &arg.kind {
                let symbol = self.facts.new_symbol(Meaning::Argument(position));
                Value::Int(Poly::symbol(symbol), None)
            } else if let ArgKind::Array { role, .. } = &arg.kind {
                let origin = match role {
                    Role::Input => Origin::Input(position),
                    _ => Origin::Output(position),
                };
                let array = self.new_array(name, origin, vec![None]);
                self.facts.arrays[array].sources = [position].into();
                Value::Pointer(Pointer {
                    array,
                    index: vec![Poly::default()],
                    strides: Vec::new(),
                })
            } else {
                Value::Number(self.new_scalar())
            };
            self.bind(name, value);
        }
        // `const double A[n][n]`: the subscripts before the last step over rows.
        for parameter in declared.parameters.iter().flatten() {
            self.parameter_strides(parameter);
        }
        self.calls.push(declared.name);
        if let Some(body) = function.child_by_field_name("body") {
            self.statement(body);
        }
    }

    /// Sets the strides of a pointer parameter that is declared with extents.
    pub fn parameter_strides(&mut self, parameter: &Declared<'t>) {
        if parameter.dims.len() < 2 && !parameter.points_to_array {
            return;
        }
        let from = usize::from(!parameter.points_to_array);
        let strides = self.strides(&parameter.dims[from.min(parameter.dims.len())..]);
        if let Some(Value::Pointer(pointer)) = self.lookup_mut(parameter.name) {
            pointer.strides = strides;
        }
    }

    pub fn new_array(&mut self, name: &str, origin: Origin, dims: Vec<Option<i64>>) -> usize {
        self.facts.arrays.push(Array {
            origin,
            name: name.to_owned(),
            dims,
            declared: self.stack.clone(),
            sources: BTreeSet::new(),
            accumulates: false,
        });
        self.facts.arrays.len() - 1
    }

    /// Makes an array for memory of the program, and a pointer to it.
    pub fn new_memory(&mut self, name: &str) -> Value {
        let array = self.new_array(name, Origin::Local, vec![None]);
        Value::Pointer(Pointer {
            array,
            index: vec![Poly::default()],
            strides: Vec::new(),
        })
    }

    pub fn new_scalar(&mut self) -> usize {
        let declared = self.stack.clone();
        self.facts.scalars.push(Scalar {
            set: declared.clone(),
            declared,
            ..Scalar::default()
        });
        self.facts.scalars.len() - 1
    }

    pub fn opaque(&mut self) -> Poly {
        Poly::symbol(self.facts.new_symbol(Meaning::Unknown))
    }

    pub fn bind(&mut self, name: &str, value: Value) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }

    pub fn lookup(&self, name: &str) -> Option<&Value> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    pub fn lookup_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.scopes
            .iter_mut()
            .rev()
            .find_map(|scope| scope.get_mut(name))
    }

    /// Walks through a statement or a declaration.
    pub fn statement(&mut self, node: Node<'t>) {
        if !self.enter() {
            return;
        }
        match node.kind() {
            "compound_statement" => {
                self.scopes.push(BTreeMap::new());
                self.children(node);
                self.scopes.pop();
            }
            "declaration" => self.declaration(node),
            "type_definition" => self.type_definition(node),
            "for_statement" | "while_statement" | "do_statement" => self.loop_statement(node),
            "if_statement" => self.if_statement(node),
            "return_statement" => {
                if let Some(value) = node.named_child(0) {
                    let seen = self.eval(value);
                    self.returned.merge(&seen);
                    self.returned.int = self.returned.int.take().or(seen.int);
                    self.returned.pointer = self.returned.pointer.take().or(seen.pointer);
                } else {
                    self.jump();
                }
            }
            "continue_statement" => self.jump(),
            "expression_statement" => {
                if let Some(expression) = node.named_child(0) {
                    self.eval(expression);
                }
            }
            "function_definition" => {
                if let Some(declarator) = node.child_by_field_name("declarator")
                    && let Some(declared) = self.declared(declarator)
                {
                    self.add_function(declared.name, node);
                    self.nested.insert(declared.name);
                }
            }
            "comment" => {}
            kind if kind.ends_with("_statement") || matches!(kind, "else_clause" | "ERROR") => {
                self.children(node);
            }
            "enum_specifier" => self.enumeration(node),
            kind if kind.ends_with("_expression") => {
                self.eval(node);
            }
            _ => {}
        }
        self.leave();
    }

    fn children(&mut self, node: Node<'t>) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statement(child);
        }
    }
}

/// The words of `source` that occur without a parenthesis behind them. Such an occurrence is not a call.
fn uncalled(source: &str) -> BTreeSet<&str> {
    let all = crate::scan::token::tokens(source);
    let calls = |at: usize| all.get(at + 1).is_some_and(|next| next.text == "(");
    let words = all.iter().enumerate().filter(|(at, _)| !calls(*at));
    words.map(|(_, token)| token.text).collect()
}

impl Pointer {
    /// The pointer moved by `distance` elements.
    pub fn plus(&self, distance: &Poly) -> Pointer {
        let mut moved = self.clone();
        let distance = match self.strides.first() {
            Some(stride) => stride.times(distance),
            None => distance.clone(),
        };
        match moved.index.last_mut() {
            Some(last) => *last = last.add(&distance),
            None => moved.index.push(distance),
        }
        moved
    }
}
