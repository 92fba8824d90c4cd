//! Programs as trees, from which the spellings in C, C++ and Fortran are made.

use std::collections::BTreeSet;
use std::ops::{Add, Mul, Sub};

use flopsmith_protocol::TechniqueSet;

/// An expression. Subscripts are those of C: row-major, from 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum E {
    N(i64),
    /// A real constant, by its text in C.
    R(&'static str),
    V(String),
    Bin(&'static str, Box<E>, Box<E>),
    At(String, Vec<E>),
    Call(&'static str, Vec<E>),
    If(Box<E>, Box<E>, Box<E>),
}

pub fn n(value: i64) -> E {
    E::N(value)
}

pub fn v(name: impl Into<String>) -> E {
    E::V(name.into())
}

pub fn at(array: impl Into<String>, subscripts: impl IntoIterator<Item = E>) -> E {
    E::At(array.into(), subscripts.into_iter().collect())
}

pub fn bin(sign: &'static str, a: E, b: E) -> E {
    E::Bin(sign, Box::new(a), Box::new(b))
}

pub fn min(a: E, b: E) -> E {
    E::Call("min", vec![a, b])
}

pub fn max(a: E, b: E) -> E {
    E::Call("max", vec![a, b])
}

pub fn choose(condition: E, yes: E, no: E) -> E {
    E::If(Box::new(condition), Box::new(yes), Box::new(no))
}

impl Add for E {
    type Output = E;
    fn add(self, other: E) -> E {
        match (&self, &other) {
            (_, E::N(0)) => self,
            (E::N(0), _) => other,
            (E::N(a), E::N(b)) => E::N(a + b),
            _ => bin("+", self, other),
        }
    }
}

impl Sub for E {
    type Output = E;
    fn sub(self, other: E) -> E {
        match (&self, &other) {
            (_, E::N(0)) => self,
            (E::N(a), E::N(b)) => E::N(a - b),
            _ => bin("-", self, other),
        }
    }
}

impl Mul for E {
    type Output = E;
    fn mul(self, other: E) -> E {
        match (&self, &other) {
            (_, E::N(1)) => self,
            (E::N(1), _) => other,
            (E::N(a), E::N(b)) => E::N(a * b),
            _ => bin("*", self, other),
        }
    }
}

impl E {
    /// The expression with a variable replaced.
    pub fn with(&self, name: &str, by: &E) -> E {
        let each = |list: &[E]| list.iter().map(|e| e.with(name, by)).collect::<Vec<_>>();
        match self {
            E::V(own) if own == name => by.clone(),
            E::Bin("+", a, b) => a.with(name, by) + b.with(name, by),
            E::Bin("-", a, b) => a.with(name, by) - b.with(name, by),
            E::Bin("*", a, b) => a.with(name, by) * b.with(name, by),
            E::Bin(sign, a, b) => bin(sign, a.with(name, by), b.with(name, by)),
            E::At(array, subscripts) => {
                let renamed = match by {
                    E::V(new) if array == name => new.clone(),
                    _ => array.clone(),
                };
                E::At(renamed, each(subscripts))
            }
            E::Call(function, arguments) => E::Call(function, each(arguments)),
            E::If(c, a, b) => choose(c.with(name, by), a.with(name, by), b.with(name, by)),
            other => other.clone(),
        }
    }

    pub fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e E)) {
        visit(self);
        match self {
            E::Bin(_, a, b) => {
                a.walk(visit);
                b.walk(visit);
            }
            E::At(_, list) | E::Call(_, list) => list.iter().for_each(|e| e.walk(visit)),
            E::If(c, a, b) => [c, a, b].into_iter().for_each(|e| e.walk(visit)),
            E::N(_) | E::R(_) | E::V(_) => {}
        }
    }

    pub fn mentions(&self, name: &str) -> bool {
        let mut found = false;
        self.walk(&mut |e| found |= matches!(e, E::V(own) if own == name));
        found
    }
}

/// The type of a variable's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    Int,
    /// The element type of the problem's arrays.
    Element,
    Double,
}

/// The step of a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    By(E),
    Down,
    Times(i64),
    Halve,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum S {
    /// A loop from `from` to before `to`; a loop that steps down goes from `from` to `to`, both included.
    For(String, E, E, Step, Vec<S>),
    While(E, Vec<S>),
    If(E, Vec<S>, Vec<S>),
    Set(E, &'static str, E),
    Let(Ty, String, Option<E>),
    /// A local array; the flag says whether it is zeroed.
    Array(Ty, String, Vec<E>, bool),
    /// A constant of the program.
    Const(String, i64),
    /// A directive: in C behind `#pragma`, in Fortran behind `!$`.
    Pragma(String),
    /// Prefetches an element.
    Prefetch(E),
}

pub fn run(name: &str, to: E, body: Vec<S>) -> S {
    S::For(name.into(), n(0), to, Step::By(n(1)), body)
}

pub fn range(name: &str, from: E, to: E, body: Vec<S>) -> S {
    S::For(name.into(), from, to, Step::By(n(1)), body)
}

pub fn stride(name: &str, from: E, to: E, by: E, body: Vec<S>) -> S {
    S::For(name.into(), from, to, Step::By(by), body)
}

pub fn set(target: E, value: E) -> S {
    S::Set(target, "=", value)
}

pub fn add(target: E, value: E) -> S {
    S::Set(target, "+=", value)
}

pub fn real(name: &str, value: Option<E>) -> S {
    S::Let(Ty::Double, name.into(), value)
}

pub fn int(name: &str, value: Option<E>) -> S {
    S::Let(Ty::Int, name.into(), value)
}

impl S {
    /// The statement with a variable replaced, but not where a loop defines it.
    pub fn with(&self, name: &str, by: &E) -> S {
        let each = |list: &[S]| list.iter().map(|s| s.with(name, by)).collect::<Vec<_>>();
        match self {
            S::For(own, from, to, step, body) => S::For(
                own.clone(),
                from.with(name, by),
                to.with(name, by),
                match step {
                    Step::By(by_step) => Step::By(by_step.with(name, by)),
                    other => other.clone(),
                },
                if own == name {
                    body.clone()
                } else {
                    each(body)
                },
            ),
            S::While(c, body) => S::While(c.with(name, by), each(body)),
            S::If(c, a, b) => S::If(c.with(name, by), each(a), each(b)),
            S::Set(t, sign, value) => S::Set(t.with(name, by), sign, value.with(name, by)),
            S::Let(ty, own, value) => {
                let renamed = match by {
                    E::V(new) if own == name => new.clone(),
                    _ => own.clone(),
                };
                S::Let(*ty, renamed, value.as_ref().map(|e| e.with(name, by)))
            }
            S::Array(ty, own, dims, zero) => {
                let dims = dims.iter().map(|d| d.with(name, by)).collect();
                S::Array(*ty, own.clone(), dims, *zero)
            }
            S::Prefetch(e) => S::Prefetch(e.with(name, by)),
            other => other.clone(),
        }
    }

    pub fn expressions<'s>(&'s self, visit: &mut dyn FnMut(&'s E)) {
        match self {
            S::For(_, from, to, step, body) => {
                from.walk(visit);
                to.walk(visit);
                if let Step::By(by) = step {
                    by.walk(visit);
                }
                body.iter().for_each(|s| s.expressions(visit));
            }
            S::While(c, body) => {
                c.walk(visit);
                body.iter().for_each(|s| s.expressions(visit));
            }
            S::If(c, a, b) => {
                c.walk(visit);
                a.iter().chain(b).for_each(|s| s.expressions(visit));
            }
            S::Set(t, _, value) => {
                t.walk(visit);
                value.walk(visit);
            }
            S::Let(_, _, value) => value.iter().for_each(|e| e.walk(visit)),
            S::Array(_, _, dims, _) => dims.iter().for_each(|e| e.walk(visit)),
            S::Prefetch(e) => e.walk(visit),
            S::Const(..) | S::Pragma(_) => {}
        }
    }

    /// Names that the statement declares, or whose values it sets.
    pub fn names(&self, declared: &mut BTreeSet<String>, changed: &mut BTreeSet<String>) {
        let mut each = |list: &[S]| list.iter().for_each(|s| s.names(declared, changed));
        match self {
            S::For(own, _, _, _, body) => {
                each(body);
                declared.insert(own.clone());
            }
            S::While(_, body) => each(body),
            S::If(_, a, b) => {
                each(a);
                each(b);
            }
            S::Set(E::V(name), ..) => {
                changed.insert(name.clone());
            }
            S::Let(_, name, _) | S::Array(_, name, ..) | S::Const(name, _) => {
                declared.insert(name.clone());
            }
            S::Set(..) | S::Pragma(_) | S::Prefetch(_) => {}
        }
    }

    pub fn has_loop(&self) -> bool {
        match self {
            S::For(..) | S::While(..) => true,
            S::If(_, a, b) => a.iter().chain(b).any(S::has_loop),
            _ => false,
        }
    }
}

/// A program: its problem, its statements, and the techniques that it uses by construction.
#[derive(Debug, Clone)]
pub struct Kernel {
    pub kind: &'static str,
    pub problem: &'static str,
    /// How it was made, for messages.
    pub about: String,
    pub body: Vec<S>,
    pub labels: TechniqueSet,
}
