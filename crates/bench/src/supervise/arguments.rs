//! The arguments of one call: what the problem says, and where it lies in the buffers.

use flopsmith_harness::control::{Element, MAX_ARGUMENTS};
use flopsmith_harness::{Argument, Plan};
use flopsmith_problem::{ArgKind, ErrorBound, Params, Problem, Role};
use flopsmith_protocol::InfrastructureCause;

use super::arena::Placement;
use crate::Failure;
use crate::verify::oracle::Shape;

/// One array argument with certain parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Type of its elements.
    pub element: Element,
    /// Written by the candidate.
    pub output: bool,
    /// Extents.
    pub dims: Vec<usize>,
    /// Alignment of its first byte.
    pub align: usize,
    /// Stream of the generator.
    pub stream: u64,
}

impl Array {
    /// Elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.count() * self.element.bytes()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Int(i64),
    Array(usize),
}

/// The arguments of the entry function with certain parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Specification {
    /// The array arguments in order.
    pub arrays: Vec<Array>,
    slots: Vec<Slot>,
}

fn unsound(detail: String) -> Failure {
    // A definition that cannot be called is the yardstick's fault, not a candidate's.
    Failure::infrastructure(InfrastructureCause::Baseline, detail)
}

/// The arguments of `problem`'s entry with `params`.
pub fn specify(problem: &Problem, params: &Params) -> Result<Specification, Failure> {
    if problem.entry.args.len() > MAX_ARGUMENTS {
        return Err(unsound(format!(
            "an entry may have at most {MAX_ARGUMENTS} arguments"
        )));
    }
    let mut arrays = Vec::new();
    let mut slots = Vec::new();
    for argument in &problem.entry.args {
        match &argument.kind {
            ArgKind::Int { param } => {
                let value = params
                    .get(param)
                    .ok_or_else(|| unsound(format!("parameter `{param}` has no value")))?;
                slots.push(Slot::Int(*value));
            }
            ArgKind::Array {
                element,
                role,
                shape,
                align,
            } => {
                let dims = shape
                    .iter()
                    .map(|f| f.count(params))
                    .collect::<Option<Vec<usize>>>()
                    .ok_or_else(|| unsound(format!("`{}` has no size", argument.name)))?;
                slots.push(Slot::Array(arrays.len()));
                arrays.push(Array {
                    element: match element {
                        flopsmith_problem::Element::F64 => Element::F64,
                        flopsmith_problem::Element::F32 => Element::F32,
                        flopsmith_problem::Element::I32 => Element::I32,
                    },
                    output: *role == Role::Output,
                    dims,
                    align: *align,
                    stream: arrays.len() as u64,
                });
            }
        }
    }
    Ok(Specification { arrays, slots })
}

impl Specification {
    /// The shape of the matrix product, and which arrays are A, B and C, for a problem that is bounded as one.
    pub fn product(&self, bound: ErrorBound) -> Result<Product, Failure> {
        let ErrorBound::Gemm { c: constant } = bound;
        let wrong = || {
            unsound(
                "the error bound of a matrix product needs two double inputs A (m × k) and B (k × n) and one double output C (m × n)"
                    .to_owned(),
            )
        };
        let with = |output: bool| -> Vec<usize> {
            (0..self.arrays.len())
                .filter(|&n| self.arrays[n].output == output)
                .collect()
        };
        let (inputs, outputs) = (with(false), with(true));
        let ([a, b], [c]) = (inputs.as_slice(), outputs.as_slice()) else {
            return Err(wrong());
        };
        let dims = |n: usize| match self.arrays[n].dims.as_slice() {
            [rows, columns] if self.arrays[n].element == Element::F64 => Ok((*rows, *columns)),
            _ => Err(wrong()),
        };
        let ((m, k), (k2, n), (m2, n2)) = (dims(*a)?, dims(*b)?, dims(*c)?);
        if k != k2 || m != m2 || n != n2 || m * n * k == 0 {
            return Err(wrong());
        }
        Ok(Product {
            shape: Shape { m, n, k },
            a: *a,
            b: *b,
            c: *c,
            constant,
        })
    }
}

/// A matrix product among the arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// Its shape.
    pub shape: Shape,
    /// Index of A among the arrays.
    pub a: usize,
    /// Index of B among the arrays.
    pub b: usize,
    /// Index of C among the arrays.
    pub c: usize,
    /// The constant of the error bound.
    pub constant: f64,
}

/// Tells the harness where the arguments lie.
pub fn plan(specification: &Specification, placement: &Placement) -> Plan {
    let arguments = specification
        .slots
        .iter()
        .map(|slot| match *slot {
            Slot::Int(value) => Argument::Int(value),
            Slot::Array(n) => {
                let array = &specification.arrays[n];
                let (offset, _) = placement.arrays[n];
                let (element, count) = (array.element, array.count());
                if array.output {
                    Argument::Output {
                        element,
                        offset,
                        count,
                    }
                } else {
                    Argument::Input {
                        element,
                        offset,
                        count,
                        stream: array.stream,
                    }
                }
            }
        })
        .collect();
    Plan { arguments }
}
