//! The arguments of one call: their description in the problem, and their places in the buffers.

use flopsmith_harness::control::{Element, MAX_ARGUMENTS, MAX_SCALARS};
use flopsmith_harness::{Argument, Content, Plan, Scalars};
use flopsmith_problem::{
    ArgKind, Content as Described, Element as Stored, ErrorBound, Params, Problem, Role,
};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::arena::Placement;
use super::array::Array;
use super::scalar::{self, Scalar};
use crate::verify::oracle::Shape;
use crate::verify::soundness::words;

// A definition is refused for what the harness cannot pass.
const _: () = assert!(
    MAX_ARGUMENTS == flopsmith_problem::MAX_ARGUMENTS
        && MAX_SCALARS == flopsmith_problem::MAX_SCALARS
);

/// The type of the elements in which a harness and this crate handle an array.
fn element(stored: Stored) -> Element {
    match stored {
        Stored::F64 | Stored::C128 => Element::F64,
        Stored::F32 | Stored::C64 => Element::F32,
        Stored::I32 => Element::I32,
        Stored::I64 => Element::I64,
        Stored::U8 => Element::U8,
        Stored::F16 => Element::F16,
        Stored::Bf16 => Element::Bf16,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Int(i64),
    Scalar(usize),
    Array(usize),
}

/// Binades between the largest and the smallest row of the first factor of a matrix product.
const PRODUCT_BINADES: u32 = 31;

/// One argument of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Given<'a> {
    /// A C `int`.
    Int(i64),
    /// A C `double` or `float`.
    Scalar(&'a Scalar),
    /// An array.
    Array(&'a Array),
}

/// The arguments of the entry function with certain parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// The array arguments in order.
    pub arrays: Vec<Array>,
    /// The scalars in order.
    scalars: Vec<Scalar>,
    slots: Vec<Slot>,
}

impl Specification {
    /// An array in words, by its number among the arrays (from 0): its position counted from 1, and its name in the
    /// definition.
    pub fn argument(&self, array: usize) -> String {
        let name = self.arrays.get(array).map_or("", |a| &a.name);
        format!("array argument {} (`{name}`)", array + 1)
    }

    /// The scalars in order.
    pub fn scalars(&self) -> &[Scalar] {
        &self.scalars
    }

    /// Gives the scalars the values that belong to a seed.
    pub fn draw(&mut self, seed: u64) {
        scalar::draw(&mut self.scalars, seed);
    }

    /// Gives one scalar the value that belongs to a seed.
    pub fn draw_one(&mut self, scalar: usize, seed: u64) {
        scalar::draw_one(&mut self.scalars, scalar, seed);
    }

    /// The registers of the scalars; none if there is no scalar.
    pub fn registers(&self) -> Option<Scalars> {
        scalar::registers(&self.scalars)
    }

    /// The registers of a call with a seed; none if there is no scalar.
    pub fn registers_of(&self, seed: u64) -> Option<Scalars> {
        let mut scalars = self.scalars.clone();
        scalar::draw(&mut scalars, seed);
        scalar::registers(&scalars)
    }
}

fn unsound(detail: String) -> Failure {
    // A definition that cannot be called is the fault of the problem's own programs, not of a candidate.
    Failure::infrastructure(InfrastructureCause::Baseline, detail)
}

/// The arguments of `problem`'s entry with `params`. Each scalar has the middle of its range.
pub fn specify(problem: &Problem, params: &Params) -> Result<Specification, Failure> {
    if problem.entry.args.len() > MAX_ARGUMENTS {
        return Err(unsound(format!(
            "an entry may have at most {MAX_ARGUMENTS} arguments"
        )));
    }
    let mut arrays = Vec::new();
    let mut scalars = Vec::new();
    let mut slots = Vec::new();
    for argument in &problem.entry.args {
        match &argument.kind {
            ArgKind::Int { value: formula } => {
                let value = formula
                    .value(params)
                    .map_err(|e| unsound(format!("`{}`: {e}", argument.name)))?;
                if value.fract() != 0.0 || value.abs() > f64::from(i32::MAX) {
                    return Err(unsound(format!(
                        "`{}` is {value}, and that value is not a C int",
                        argument.name
                    )));
                }
                slots.push(Slot::Int(value as i64));
            }
            ArgKind::Scalar { element, low, high } => {
                let bound = |formula: &flopsmith_problem::Formula| {
                    formula
                        .value(params)
                        .map_err(|e| unsound(format!("`{}`: {e}", argument.name)))
                };
                let (low, high) = (bound(low)?, bound(high)?);
                let scalar = Scalar::new(&argument.name, *element == Stored::F32, low, high);
                slots.push(Slot::Scalar(scalars.len()));
                scalars.push(scalar.ok_or_else(|| {
                    let at = words(params);
                    unsound(format!(
                        "`{}` has no number from {low} up to {high} at {at}",
                        argument.name
                    ))
                })?);
            }
            ArgKind::Array {
                element: stored,
                role,
                shape,
                align,
                content,
                // Applies to timed calls only ([`Specification::grade`]).
                graded: _,
            } => {
                let parts = stored.parts();
                let mut dims = shape
                    .iter()
                    .map(|f| f.count(params))
                    .collect::<Option<Vec<usize>>>()
                    .ok_or_else(|| {
                        let at = words(params);
                        unsound(format!(
                            "`{}` has no whole number of elements at {at}",
                            argument.name
                        ))
                    })?;
                match dims.last_mut() {
                    Some(last) => *last *= parts,
                    // A single number.
                    None => dims.extend((parts > 1).then_some(parts)),
                }
                let content = fill(content, &dims, params)
                    .map_err(|e| unsound(format!("`{}`: {e}", argument.name)))?;
                slots.push(Slot::Array(arrays.len()));
                arrays.push(Array {
                    name: argument.name.clone(),
                    element: element(*stored),
                    role: *role,
                    dims,
                    parts,
                    align: *align,
                    stream: arrays.len() as u64,
                    content,
                });
            }
        }
    }
    if scalars.len() > MAX_SCALARS {
        return Err(unsound(format!(
            "an entry may have at most {MAX_SCALARS} scalars"
        )));
    }
    Ok(Specification {
        arrays,
        scalars,
        slots,
    })
}

/// The content of an array whose description is evaluated with `params`.
fn fill(
    described: &Described,
    dims: &[usize],
    params: &Params,
) -> Result<Content, flopsmith_problem::formula::Error> {
    Ok(match described {
        Described::Uniform => Content::Uniform,
        Described::Range { low, high } => Content::Range {
            low: low.value(params)?,
            high: high.value(params)?,
        },
        Described::Dominant => Content::Dominant {
            columns: dims.last().copied().unwrap_or(0),
        },
        Described::Offsets { total } => Content::Offsets {
            // The arrays that the offsets point into have that many elements, so `total` is a count.
            total: total.value(params)?.max(0.0) as u64,
        },
        Described::Shifted { low, high, by } => Content::Shifted {
            columns: dims.last().copied().unwrap_or(0),
            low: low.value(params)?,
            high: high.value(params)?,
            by: by.value(params)?,
        },
        Described::Magnitudes { low, high } => Content::Magnitudes {
            low: low.value(params)?,
            high: high.value(params)?,
        },
        Described::Steps { low, high } => Content::Steps {
            low: low.value(params)?,
            high: high.value(params)?,
        },
        Described::Repeating { low, high } => Content::Repeating {
            low: low.value(params)?,
            high: high.value(params)?,
        },
        Described::Distances { high } => Content::Distances {
            columns: dims.last().copied().unwrap_or(0),
            high: high.value(params)?,
        },
    })
}

impl Specification {
    /// The same arguments with the integers of other ones of the same problem.
    #[must_use]
    pub fn with_integers_of(self, other: &Self) -> Self {
        let slots = other.slots.clone();
        Self { slots, ..self }
    }

    /// The arguments in order.
    pub fn given(&self) -> impl Iterator<Item = Given<'_>> {
        self.slots.iter().map(|slot| match *slot {
            Slot::Int(value) => Given::Int(value),
            Slot::Scalar(n) => Given::Scalar(&self.scalars[n]),
            Slot::Array(n) => Given::Array(&self.arrays[n]),
        })
    }

    fn numbers(&self, which: impl Fn(Role) -> bool) -> Vec<usize> {
        (0..self.arrays.len())
            .filter(|&n| which(self.arrays[n].role))
            .collect()
    }

    /// The numbers of the arrays that a call reads.
    pub fn read(&self) -> Vec<usize> {
        self.numbers(Role::is_read)
    }

    /// The numbers of the arrays that hold results after a call.
    pub fn written(&self) -> Vec<usize> {
        self.numbers(Role::is_written)
    }

    /// The numbers of the arrays that a call leaves as they are.
    pub fn kept(&self) -> Vec<usize> {
        self.numbers(|role| !role.is_written())
    }

    /// Gives grades ([`Content::Graded`]) to the rows of the inputs for which the definition asks for them, and to the
    /// rows of the first factor of a matrix product. In a product the grades change nothing but the same rows of the
    /// result, by the same powers of two.
    pub fn grade(&mut self, problem: &Problem, product: Option<&Product>) {
        let arguments = problem.entry.args.iter();
        let described = arguments.filter_map(|argument| match argument.kind {
            ArgKind::Array { graded, .. } => Some(graded),
            ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
        });
        for (n, (array, graded)) in self.arrays.iter_mut().zip(described).enumerate() {
            let binades = match product {
                Some(product) if product.a == n && graded == 0 => PRODUCT_BINADES,
                _ => graded,
            };
            if binades > 0 && array.role.is_read() && array.content == Content::Uniform {
                array.content = Content::Graded {
                    columns: array.columns(),
                    binades,
                };
            }
        }
    }

    /// The shape of the matrix product, and which arrays are A, B and C; none for a problem without the error bound of
    /// a product.
    pub fn product(&self, bound: &ErrorBound) -> Result<Option<Product>, Failure> {
        let ErrorBound::Gemm { c: constant } = *bound else {
            return Ok(None);
        };
        let wrong = || {
            unsound(
                "the error bound of a matrix product needs two double inputs A (m × k) and B (k × n) and one double output C (m × n)"
                    .to_owned(),
            )
        };
        let (inputs, outputs) = (self.read(), self.written());
        let ([a, b], [c], []) = (
            inputs.as_slice(),
            outputs.as_slice(),
            self.scalars.as_slice(),
        ) else {
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
        Ok(Some(Product {
            shape: Shape { m, n, k },
            a: *a,
            b: *b,
            c: *c,
            constant,
        }))
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

/// The plan that tells the harness where the arguments lie, but not the content of the inputs: a program can read in
/// its process everything that its harness was told.
pub fn plan(specification: &Specification, placement: &Placement) -> Plan {
    let mut plan = plan_to_fill(specification, placement);
    for argument in &mut plan.arguments {
        if let Argument::Input {
            stream, content, ..
        } = argument
        {
            (*stream, *content) = (0, Content::Uniform);
        }
    }
    plan
}

/// The plan of a process without a candidate, which fills the inputs as well.
pub fn plan_to_fill(specification: &Specification, placement: &Placement) -> Plan {
    let arguments = specification
        .slots
        .iter()
        .map(|slot| match *slot {
            Slot::Int(value) => Argument::Int(value),
            Slot::Scalar(n) => Argument::Scalar(specification.scalars[n].register()),
            Slot::Array(n) => {
                let array = &specification.arrays[n];
                let (offset, _) = placement.arrays[n];
                let (element, count) = (array.element, array.count());
                if array.role.is_read() {
                    Argument::Input {
                        element,
                        offset,
                        count,
                        stream: array.stream,
                        content: array.content,
                    }
                } else {
                    Argument::Output {
                        element,
                        offset,
                        count,
                    }
                }
            }
        })
        .collect();
    Plan { arguments }
}
