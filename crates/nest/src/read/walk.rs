//! The walk through the syntax tree of a function.

mod assignments;
mod conditions;
mod declarations;
mod values;

use std::collections::HashMap;

use flopsmith_problem::Problem;
use tree_sitter::Node;

use super::Error;
use super::arrays::{self, Raw};
use super::nodes::{bare, children, declared, deeper_than, text};
use crate::affine::{Affine, System, Var};
use crate::poly::Poly;
use crate::program::{Access, Array, Comparison, Expr, Operation, Origin, Program, Statement};

/// Deeper statements and values are refused.
const DEPTH: usize = 100;
/// Syntax within more nodes than this is refused: the walk recurses through conditions and subscripts.
const MOST_NODES: usize = 250;
/// Most statements that affine conditions may split one into.
const MOST_CASES: usize = 16;
/// Most pairs of domains that a condition may combine.
const MOST_PAIRS: usize = 64;

/// The meaning of a name.
#[derive(Debug, Clone)]
enum Meaning {
    /// An integer that is a polynomial of parameters and iterators.
    Integer(Poly),
    /// A pointer into an array.
    Pointer(usize, Poly),
    /// A local number, kept as an array with the iterators around its declaration as subscripts.
    Local(usize, Vec<Var>),
    /// A scalar argument.
    Scalar,
}

/// The place of the walk.
#[derive(Debug, Clone, Default)]
struct Place {
    iterators: Vec<Var>,
    domain: System,
    /// Numbers of the loops around, each among its neighbours.
    place: Vec<u32>,
}

pub struct Walk<'a> {
    program: &'a mut Program,
    source: &'a str,
    scopes: Vec<HashMap<String, Meaning>>,
    raw: Vec<Raw>,
    /// Numbers given to statements and loops so far.
    next: u32,
    depth: usize,
}

/// The value of an affine condition where it is known: the node's id and whether it holds.
type Choices = HashMap<usize, bool>;

impl<'a> Walk<'a> {
    pub fn new(
        program: &'a mut Program,
        source: &'a str,
        problem: &Problem,
    ) -> Result<Self, Error> {
        let mut names = HashMap::new();
        for argument in &problem.entry.args {
            let name = argument.name.clone();
            let parameter = program.names.iter().position(|n| *n == name);
            let array = program.arrays.iter().position(|a| a.name == name);
            let meaning = match (parameter, array) {
                (Some(var), _) => Meaning::Integer(Poly::var(var as Var)),
                (None, Some(array)) => Meaning::Pointer(array, Poly::default()),
                (None, None) => Meaning::Scalar,
            };
            names.insert(name, meaning);
        }
        Ok(Self {
            program,
            source,
            scopes: vec![names],
            raw: Vec::new(),
            next: 0,
            depth: 0,
        })
    }

    /// The accesses as the source has them.
    pub fn finish(self) -> Vec<Raw> {
        self.raw
    }

    fn at<T>(&self, node: Node<'_>, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::At {
            line: node.start_position().row + 1,
            what: what.into(),
        })
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        text(node, self.source)
    }

    fn meaning(&self, name: &str) -> Option<&Meaning> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn define(&mut self, name: String, meaning: Meaning) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, meaning);
        }
    }

    /// Walks the body of the entry function.
    pub fn function(&mut self, root: Node<'_>) -> Result<(), Error> {
        if let Some(node) = deeper_than(root, MOST_NODES) {
            return self.at(node, "the syntax is nested too deeply");
        }
        let functions = children(root)
            .into_iter()
            .filter(|n| n.kind() == "function_definition");
        let mut body = None;
        for function in functions {
            let declarator = function.child_by_field_name("declarator");
            let named = declarator.and_then(|d| d.child_by_field_name("declarator"));
            if named.map(|n| self.text(n)) == Some(self.program.entry.as_str()) {
                body = function.child_by_field_name("body");
            }
        }
        match body {
            Some(body) => self.block(body, &Place::default()),
            None => Err(Error::Whole(format!(
                "the source does not define `{}`",
                self.program.entry
            ))),
        }
    }

    fn block(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        self.scopes.push(HashMap::new());
        let mut result = Ok(());
        if node.kind() == "compound_statement" {
            for child in children(node) {
                result = self.statement(child, place);
                if result.is_err() {
                    break;
                }
            }
        } else {
            result = self.statement(node, place);
        }
        self.scopes.pop();
        result
    }

    fn statement(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.at(node, "statements are nested too deeply");
        }
        let result = match node.kind() {
            "compound_statement" => self.block(node, place),
            "for_statement" => self.for_loop(node, place),
            "if_statement" => self.branch(node, place),
            "declaration" => self.declaration(node, place),
            "expression_statement" => match children(node).first() {
                Some(inner) => self.expression_statement(*inner, place),
                None => Ok(()),
            },
            "return_statement" if children(node).is_empty() && place.iterators.is_empty() => Ok(()),
            ";" | "preproc_call" => Ok(()),
            other => self.at(
                node,
                format!("{} is no part of an affine loop nest", words(other)),
            ),
        };
        self.depth -= 1;
        result
    }

    /// A number for the next statement or loop.
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn for_loop(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        let (Some(condition), Some(update), Some(body)) = (
            node.child_by_field_name("condition"),
            node.child_by_field_name("update"),
            node.child_by_field_name("body"),
        ) else {
            return self.at(node, "a loop needs a start, a condition and a step");
        };
        let Some(start) = node.child_by_field_name("initializer") else {
            return self.at(node, "a loop needs a start");
        };
        let (name, first) = match start.kind() {
            "declaration" => {
                let init = start.child_by_field_name("declarator");
                let value = init.and_then(|d| d.child_by_field_name("value"));
                let named = init
                    .and_then(|d| d.child_by_field_name("declarator"))
                    .and_then(|d| declared(d, self.source));
                match (named, value) {
                    (Some((name, 0, _)), Some(value)) => (name, value),
                    _ => return self.at(start, "a loop must start one variable"),
                }
            }
            "assignment_expression" => {
                let left = start.child_by_field_name("left");
                let right = start.child_by_field_name("right");
                match (left, right) {
                    (Some(left), Some(right)) if left.kind() == "identifier" => {
                        (self.text(left).to_owned(), right)
                    }
                    _ => return self.at(start, "a loop must start one variable"),
                }
            }
            _ => return self.at(start, "a loop must start one variable"),
        };
        let Some(step) = self.step(update, &name) else {
            return self.at(update, format!("the step of `{name}` is no constant"));
        };
        let Some(first) = self.affine(first) else {
            return self.at(first, format!("the start of `{name}` is not affine"));
        };
        let var = self.program.fresh(&name);
        // A loop that does not go up by one has an iterator of its own that does.
        let value = match step {
            1 => Affine::var(var),
            step => first.plus_times(step, &Affine::var(var)),
        };
        let mut inner = place.clone();
        inner.place.push(self.number());
        inner.iterators.push(var);
        match step {
            1 => inner.domain.at_most(&first, &Affine::var(var)),
            _ => inner.domain.at_least_zero(Affine::var(var)),
        }
        self.scopes.push(HashMap::from([(
            name.clone(),
            Meaning::Integer(Poly::of(&value)),
        )]));
        let conditions = self.conjunction(bare(condition));
        let result = match conditions {
            Some(conditions) => {
                inner.domain.and(&conditions);
                self.block(body, &inner)
            }
            None => self.at(
                condition,
                format!("the end of the loop over `{name}` is not affine"),
            ),
        };
        self.scopes.pop();
        result
    }

    /// The constant by which `update` changes `name`.
    fn step(&self, update: Node<'_>, name: &str) -> Option<i64> {
        let update = bare(update);
        let named = |node: Option<Node<'_>>| node.is_some_and(|n| self.text(n) == name);
        match update.kind() {
            "update_expression" => {
                let argument = update.child_by_field_name("argument");
                let operator = update.child_by_field_name("operator")?;
                let by = match self.text(operator) {
                    "++" => 1,
                    _ => -1,
                };
                named(argument).then_some(by)
            }
            "assignment_expression" => {
                let operator = update.child_by_field_name("operator")?;
                let right = update.child_by_field_name("right")?;
                if !named(update.child_by_field_name("left")) {
                    return None;
                }
                let by = self.integer(right)?.as_constant();
                let by = match self.text(operator) {
                    "+=" => by?,
                    "-=" => -by?,
                    "=" => {
                        let whole = self.integer(right)?;
                        let Some(Meaning::Integer(now)) = self.meaning(name) else {
                            return None;
                        };
                        whole.minus(now).as_constant()?
                    }
                    _ => return None,
                };
                (by != 0).then_some(by)
            }
            _ => None,
        }
    }

    fn branch(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        let (Some(condition), Some(then)) = (
            node.child_by_field_name("condition"),
            node.child_by_field_name("consequence"),
        ) else {
            return self.at(node, "an `if` needs a condition");
        };
        let otherwise = node
            .child_by_field_name("alternative")
            .and_then(|e| children(e).first().copied());
        if self.is_check_of_memory(condition, then) {
            return Ok(());
        }
        if let Some((yes, no)) = self.cases(condition, place) {
            for (domains, body) in [(yes, Some(then)), (no, otherwise)] {
                for domain in domains {
                    if let Some(body) = body {
                        let mut inner = place.clone();
                        inner.domain.and(&domain);
                        self.block(body, &inner)?;
                    }
                }
            }
            return Ok(());
        }
        // Data decide: one assignment, or two to the same place.
        let chosen = self.single_assignment(then)?;
        let other = otherwise
            .map(|node| self.single_assignment(node))
            .transpose()?;
        let Some((how, a, b)) = self.comparison(condition)? else {
            return self.at(
                condition,
                "this condition is neither affine nor a comparison of two values",
            );
        };
        let (target, value) = chosen;
        let otherwise = match other {
            None => Expr::Read(target.clone()),
            Some((same, value)) if self.is_same(&same, &target) => value,
            Some(_) => return self.at(node, "both branches must assign to the same element"),
        };
        let value = Expr::Select(how, Box::new([a, b, value, otherwise]));
        self.assign(place, target, None, value);
        Ok(())
    }
}

/// A kind of syntax node for people.
fn words(kind: &str) -> String {
    match kind {
        "while_statement" | "do_statement" => "a `while` loop".to_owned(),
        "goto_statement" | "labeled_statement" => "a jump".to_owned(),
        "switch_statement" => "a `switch`".to_owned(),
        "return_statement" => "a `return` within a loop".to_owned(),
        other => format!("this {}", other.replace('_', " ")),
    }
}
