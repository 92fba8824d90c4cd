//! The arguments of one call: their description in the problem, and their places in the buffers.

use flopsmith_harness::control::{Element, MAX_ARGUMENTS};
use flopsmith_harness::inputs::{POISON_F32, POISON_F64, POISON_I32, Stream};
use flopsmith_harness::{Argument, Content, Plan};
use flopsmith_problem::{ArgKind, Content as Described, ErrorBound, Params, Problem, Role};
use flopsmith_protocol::{Failure, InfrastructureCause};

use super::arena::Placement;
use crate::verify::oracle::Shape;
use crate::verify::soundness::words;

/// One array argument with certain parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its name in the problem's definition.
    pub name: String,
    /// Type of its elements.
    pub element: Element,
    /// True if the candidate writes it.
    pub output: bool,
    /// Extents, in elements.
    pub dims: Vec<usize>,
    /// Alignment of its first byte, in bytes.
    pub align: usize,
    /// Stream of the generator.
    pub stream: u64,
    /// Content of an input.
    pub content: Content,
}

impl Array {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.count() * self.element.bytes()
    }

    /// Length of the last extent: the array is treated as a matrix with such rows.
    pub fn columns(&self) -> usize {
        self.dims.last().copied().unwrap_or(1).max(1)
    }

    /// The bytes with which the harness fills this input for a seed.
    pub fn filled(&self, seed: u64) -> Vec<u8> {
        let stream = Stream::new(seed, self.stream);
        let count = self.count();
        match self.element {
            Element::F64 => {
                let mut x = vec![0f64; count];
                self.content.fill_f64(&stream, &mut x);
                in_memory(&x, |x| x.to_ne_bytes())
            }
            Element::F32 => {
                let mut x = vec![0f32; count];
                self.content.fill_f32(&stream, &mut x);
                in_memory(&x, |x| x.to_ne_bytes())
            }
            Element::I32 => {
                let mut x = vec![0i32; count];
                self.content.fill_i32(&stream, &mut x);
                in_memory(&x, |x| x.to_ne_bytes())
            }
        }
    }

    /// Elements as doubles, which hold all values of the other types. Poison becomes the poison of a double.
    pub fn values(&self, bytes: &[u8]) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|x| value(*x)).collect()
        }
        match self.element {
            Element::F64 => each(bytes, f64::from_ne_bytes),
            Element::F32 => each(bytes, |x: [u8; 4]| {
                if u32::from_ne_bytes(x) == POISON_F32 {
                    f64::from_bits(POISON_F64)
                } else {
                    f64::from(f32::from_ne_bytes(x))
                }
            }),
            Element::I32 => each(bytes, |x: [u8; 4]| f64::from(i32::from_ne_bytes(x))),
        }
    }

    /// Values as the bytes of this array's elements.
    pub fn bytes_of(&self, values: &[f64]) -> Vec<u8> {
        match self.element {
            Element::F64 => in_memory(values, |x| x.to_ne_bytes()),
            Element::F32 => in_memory(values, |x| (*x as f32).to_ne_bytes()),
            Element::I32 => in_memory(values, |x| (*x as i32).to_ne_bytes()),
        }
    }
}

/// The bytes of values one after the other. An iterator over single bytes would take ten times as long.
fn in_memory<T, const N: usize>(values: &[T], bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    let mut all = vec![0; N * values.len()];
    for (place, value) in all.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *place = bytes(value);
    }
    all
}

/// The bytes of an element that no program has written to.
pub fn poison(element: Element) -> Vec<u8> {
    match element {
        Element::F64 => POISON_F64.to_ne_bytes().to_vec(),
        Element::F32 => POISON_F32.to_ne_bytes().to_vec(),
        Element::I32 => POISON_I32.to_ne_bytes().to_vec(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Int(i64),
    Array(usize),
}

/// Binades between the largest and the smallest row of the first factor of a matrix product.
const PRODUCT_BINADES: u32 = 31;

/// One argument of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Given<'a> {
    /// A C `int`.
    Int(i64),
    /// An array.
    Array(&'a Array),
}

/// The arguments of the entry function with certain parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Specification {
    /// The array arguments in order.
    pub arrays: Vec<Array>,
    slots: Vec<Slot>,
}

impl Specification {
    /// An array in words, by its number among the arrays (from 0): its position counted from 1, and its name in the
    /// definition.
    pub fn argument(&self, array: usize) -> String {
        let name = self.arrays.get(array).map_or("", |a| &a.name);
        format!("array argument {} (`{name}`)", array + 1)
    }
}

fn unsound(detail: String) -> Failure {
    // A definition that cannot be called is the fault of the problem's own programs, not of a candidate.
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
            ArgKind::Array {
                element,
                role,
                shape,
                align,
                content,
                // Applies to timed calls only ([`Specification::grade`]).
                graded: _,
            } => {
                let dims = shape
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
                let content = fill(content, &dims, params)
                    .map_err(|e| unsound(format!("`{}`: {e}", argument.name)))?;
                slots.push(Slot::Array(arrays.len()));
                arrays.push(Array {
                    name: argument.name.clone(),
                    element: match element {
                        flopsmith_problem::Element::F64 => Element::F64,
                        flopsmith_problem::Element::F32 => Element::F32,
                        flopsmith_problem::Element::I32 => Element::I32,
                    },
                    output: *role == Role::Output,
                    dims,
                    align: *align,
                    stream: arrays.len() as u64,
                    content,
                });
            }
        }
    }
    Ok(Specification { arrays, slots })
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
    /// The arguments in order.
    pub fn given(&self) -> impl Iterator<Item = Given<'_>> {
        self.slots.iter().map(|slot| match *slot {
            Slot::Int(value) => Given::Int(value),
            Slot::Array(n) => Given::Array(&self.arrays[n]),
        })
    }

    /// The numbers of the arrays that a call writes, or of those it reads.
    pub fn numbers(&self, output: bool) -> Vec<usize> {
        (0..self.arrays.len())
            .filter(|&n| self.arrays[n].output == output)
            .collect()
    }

    /// Gives grades ([`Content::Graded`]) to the rows of the inputs for which the definition asks for them, and to the
    /// rows of the first factor of a matrix product. In a product the grades change nothing but the same rows of the
    /// result, by the same powers of two.
    pub fn grade(&mut self, problem: &Problem, product: Option<&Product>) {
        let arguments = problem.entry.args.iter();
        let described = arguments.filter_map(|argument| match argument.kind {
            ArgKind::Array { graded, .. } => Some(graded),
            ArgKind::Int { .. } => None,
        });
        for (n, (array, graded)) in self.arrays.iter_mut().zip(described).enumerate() {
            let binades = match product {
                Some(product) if product.a == n && graded == 0 => PRODUCT_BINADES,
                _ => graded,
            };
            if binades > 0 && array.content == Content::Uniform {
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
        let (inputs, outputs) = (self.numbers(false), self.numbers(true));
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
                        content: array.content,
                    }
                }
            }
        })
        .collect();
    Plan { arguments }
}
