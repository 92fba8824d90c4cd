//! The walk through the syntax tree of a function.

use std::collections::HashMap;

use flopsmith_problem::Problem;
use tree_sitter::Node;

use super::Error;
use super::arrays::{self, Raw};
use super::nodes::{bare, children, declared, text};
use crate::affine::{Affine, System, Var};
use crate::poly::Poly;
use crate::program::{Access, Array, Comparison, Expr, Operation, Origin, Program, Statement};

/// Deeper syntax is refused.
const DEPTH: usize = 100;
/// Most statements that affine conditions may split one into.
const MOST_CASES: usize = 16;

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

    /// Constraints that are joined by `&&`; none if one is not affine.
    fn conjunction(&self, node: Node<'_>) -> Option<System> {
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
    fn cases(&self, node: Node<'_>, place: &Place) -> Option<(Vec<System>, Vec<System>)> {
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
        let chosen = self.single_assignment(then, place)?;
        let other = otherwise
            .map(|node| self.single_assignment(node, place))
            .transpose()?;
        let Some((how, a, b)) = self.comparison(condition, place)? else {
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

    /// True for `if (!pointer || !other) abort();`.
    fn is_check_of_memory(&self, condition: Node<'_>, then: Node<'_>) -> bool {
        let leaves = ["abort", "return", "exit"];
        leaves.iter().any(|word| self.text(then).contains(word)) && self.lacks_memory(condition)
    }

    /// True if a condition is that one of some pointers is null.
    fn lacks_memory(&self, condition: Node<'_>) -> bool {
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

    /// True if two raw accesses are of the same element.
    fn is_same(&self, a: &Access, b: &Access) -> bool {
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
    fn single_assignment(
        &mut self,
        node: Node<'_>,
        place: &Place,
    ) -> Result<(Access, Expr), Error> {
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
        let value = self.value(right, place, &Choices::new())?;
        let value = match operation(self.text(operator)) {
            Some(None) => value,
            Some(Some(operation)) => Expr::binary(operation, Expr::Read(target.clone()), value),
            None => return self.at(operator, "this assignment is not supported"),
        };
        Ok((target, value))
    }

    fn declaration(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
        let kind = node
            .child_by_field_name("type")
            .map_or("", |t| self.text(t));
        let mut cursor = node.walk();
        let declarators: Vec<Node<'_>> = node
            .children_by_field_name("declarator", &mut cursor)
            .collect();
        for declarator in declarators {
            let value = declarator.child_by_field_name("value");
            let name = match declarator.kind() {
                "init_declarator" => declarator.child_by_field_name("declarator"),
                _ => Some(declarator),
            };
            let Some((name, stars, extents)) = name.and_then(|n| declared(n, self.source)) else {
                return self.at(declarator, "this declaration is not supported");
            };
            self.local(kind, name, stars, &extents, value, declarator, place)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one declaration")]
    fn local(
        &mut self,
        kind: &str,
        name: String,
        stars: usize,
        extents: &[Node<'_>],
        value: Option<Node<'_>>,
        node: Node<'_>,
        place: &Place,
    ) -> Result<(), Error> {
        let numbers = numbers(kind);
        if stars == 1 {
            let Some(value) = value.map(bare) else {
                return self.at(
                    node,
                    format!("pointer `{name}` needs a value where it is declared"),
                );
            };
            if let Some((array, offset)) = self.pointer(value) {
                self.define(name, Meaning::Pointer(array, offset));
                return Ok(());
            }
            let allocates = self.text(value).contains("alloc");
            let Some(numbers) = numbers.filter(|_| allocates && place.iterators.is_empty()) else {
                return self.at(value, format!("pointer `{name}` points to no array"));
            };
            let array = self.scratch(&name, numbers, Vec::new());
            self.define(name, Meaning::Pointer(array, Poly::default()));
            return Ok(());
        }
        let Some(numbers) = numbers.filter(|_| stars == 0) else {
            return self.at(node, format!("the type of `{name}` is not supported"));
        };
        if !extents.is_empty() {
            if !place.iterators.is_empty() {
                return self.at(node, format!("array `{name}` is declared within a loop"));
            }
            let extents: Option<Vec<Poly>> = extents.iter().map(|e| self.integer(*e)).collect();
            let Some(extents) = extents else {
                return self.at(node, format!("the extents of `{name}` are not affine"));
            };
            let array = self.scratch(&name, numbers, extents);
            self.define(name, Meaning::Pointer(array, Poly::default()));
            return Ok(());
        }
        // An integer that follows from parameters and iterators is no data.
        if let Some(value) = value
            && !numbers.1
            && let Some(poly) = self.integer(value)
        {
            self.define(name, Meaning::Integer(poly));
            return Ok(());
        }
        let array = self.scratch(&name, numbers, Vec::new());
        self.define(name, Meaning::Local(array, place.iterators.clone()));
        if let Some(value) = value {
            let target = Access {
                array,
                subscripts: place.iterators.iter().map(|v| Affine::var(*v)).collect(),
            };
            self.assigned(place, target, None, value)?;
        }
        Ok(())
    }

    fn scratch(
        &mut self,
        name: &str,
        numbers: (&'static str, bool, u32),
        extents: Vec<Poly>,
    ) -> usize {
        let known: Vec<Option<Poly>> = extents.iter().cloned().map(Some).collect();
        self.program.arrays.push(Array {
            name: name.to_owned(),
            c_type: numbers.0,
            floats: numbers.1,
            bytes: numbers.2,
            strides: arrays::strides(&known),
            extents: extents.iter().map(Poly::as_affine).collect(),
            origin: Origin::Scratch,
        });
        self.program.arrays.len() - 1
    }

    fn expression_statement(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
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

    fn call_statement(&mut self, node: Node<'_>, place: &Place) -> Result<(), Error> {
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
    fn assigned(
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
                    let value = self.value(node, &place, &choices)?;
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
    fn undecided(
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

    fn assign(&mut self, place: &Place, target: Access, update: Option<Operation>, value: Expr) {
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
    fn as_update(&self, target: &Access, value: Expr) -> (Option<Operation>, Expr) {
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
    fn alike(&self, a: &Expr, b: &Expr) -> bool {
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
    fn target(&mut self, node: Node<'_>) -> Result<Access, Error> {
        match self.access(bare(node)) {
            Some(access) => Ok(access),
            None => self.at(
                node,
                "only elements of arrays and local numbers may be assigned",
            ),
        }
    }

    fn access(&mut self, node: Node<'_>) -> Option<Access> {
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
    fn element(&self, node: Node<'_>) -> Option<(usize, Poly)> {
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
    fn pointer(&self, node: Node<'_>) -> Option<(usize, Poly)> {
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
    fn integer(&self, node: Node<'_>) -> Option<Poly> {
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

    fn affine(&self, node: Node<'_>) -> Option<Affine> {
        self.integer(node)?.as_affine()
    }

    /// A comparison of two values.
    fn comparison(
        &mut self,
        node: Node<'_>,
        place: &Place,
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
        let (a, b) = (
            self.value(left, place, &none)?,
            self.value(right, place, &none)?,
        );
        Ok(Some((how, a, b)))
    }

    /// A condition as a value: 1 where it holds, otherwise 0.
    fn truth(&mut self, node: Node<'_>, place: &Place, choices: &Choices) -> Result<Expr, Error> {
        let node = bare(node);
        let number = |text: &str| Expr::Number(text.to_owned());
        let operator = node.child_by_field_name("operator").map(|o| self.text(o));
        if operator == Some("&&")
            && let (Some(left), Some(right)) = (
                node.child_by_field_name("left"),
                node.child_by_field_name("right"),
            )
        {
            let right = self.truth(right, place, choices)?;
            let Some((how, a, b)) = self.comparison(left, place)? else {
                return self.at(left, "this condition is no comparison of two values");
            };
            return Ok(Expr::Select(how, Box::new([a, b, right, number("0")])));
        }
        match self.comparison(node, place)? {
            Some((how, a, b)) => Ok(Expr::Select(
                how,
                Box::new([a, b, number("1"), number("0")]),
            )),
            None => self.at(node, "this operation is not supported in values"),
        }
    }

    fn value(&mut self, node: Node<'_>, place: &Place, choices: &Choices) -> Result<Expr, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.at(node, "expressions are nested too deeply");
        }
        let value = self.inner_value(bare(node), place, choices);
        self.depth -= 1;
        value
    }

    fn inner_value(
        &mut self,
        node: Node<'_>,
        place: &Place,
        choices: &Choices,
    ) -> Result<Expr, Error> {
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
                Some(inner) => self.value(inner, place, choices),
                None => self.at(node, "a cast needs a value"),
            },
            "unary_expression" => {
                let (Some(operator), Some(argument)) = (field("operator"), field("argument"))
                else {
                    return self.at(node, "this operation is not supported");
                };
                let inner = self.value(argument, place, choices)?;
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
                    _ => return self.truth(node, place, choices),
                };
                let a = self.value(left, place, choices)?;
                let b = self.value(right, place, choices)?;
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
                    Some(true) => return self.value(yes, place, choices),
                    Some(false) => return self.value(no, place, choices),
                    None => {}
                }
                let Some((how, a, b)) = self.comparison(condition, place)? else {
                    return self.at(condition, "this condition is no comparison of two values");
                };
                let yes = self.value(yes, place, choices)?;
                let no = self.value(no, place, choices)?;
                Ok(Expr::Select(how, Box::new([a, b, yes, no])))
            }
            "call_expression" => {
                let name = field("function").map_or("", |f| self.text(f)).to_owned();
                let arguments = field("arguments").map(children).unwrap_or_default();
                let mut values = Vec::new();
                for argument in arguments {
                    values.push(self.value(argument, place, choices)?);
                }
                match (name.trim_end_matches('f'), values.len()) {
                    ("fmin", 2) => Ok(pair(Operation::Min, values)),
                    ("fmax", 2) => Ok(pair(Operation::Max, values)),
                    // The list is short on purpose: a function may have effects.
                    (
                        "sqrt" | "exp" | "log" | "fabs" | "sin" | "cos" | "tanh" | "erf" | "er",
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

fn pair(operation: Operation, values: Vec<Expr>) -> Expr {
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (Some(a), Some(b)) => Expr::binary(operation, a, b),
        (a, _) => a.unwrap_or(Expr::Number("0".to_owned())),
    }
}

/// The operation of an assignment; `Some(None)` for a plain one.
fn operation(operator: &str) -> Option<Option<Operation>> {
    Some(match operator {
        "=" => None,
        "+=" => Some(Operation::Add),
        "-=" => Some(Operation::Sub),
        "*=" => Some(Operation::Mul),
        "/=" => Some(Operation::Div),
        _ => return None,
    })
}

/// A type of numbers: its name in C, whether it has a fraction, and its bytes.
fn numbers(kind: &str) -> Option<(&'static str, bool, u32)> {
    let words: Vec<&str> = kind.split_whitespace().filter(|w| *w != "const").collect();
    Some(match words.as_slice() {
        ["double"] => ("double", true, 8),
        ["float"] => ("float", true, 4),
        ["int" | "int32_t"] => ("int", false, 4),
        ["long" | "int64_t" | "ptrdiff_t" | "size_t"] => ("long", false, 8),
        _ => return None,
    })
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
