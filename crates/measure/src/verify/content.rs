//! The content of the inputs of a secret case.
//!
//! Uniform numbers alone let wrong methods pass: fast products with fewer
//! multiplications look exact on them and fail where rows differ by powers of
//! ten. Every content here keeps all products far from overflow.

use std::cmp::Ordering;

use flopsmith_harness::Content;
use flopsmith_harness::control::Element;
use flopsmith_harness::inputs::Stream;
use flopsmith_problem::Distribution;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::supervise::{Array, Specification};

/// The stream of the generator for the kinds of rows and columns; no array uses it.
const KINDS: u64 = u64::MAX;

/// How far numbers are scaled, so that those of a type keep most of their digits, and their products and sums a value.
struct Scales {
    /// Powers of ten by which scaled rows and columns differ: from the negative of this to this.
    decades: i32,
    /// Small elements of checkered arrays, as a share of the large ones.
    small: f64,
    /// The factors of tiny and of huge inputs. Floats of 32 and 64 bits keep so far from the ends of their range that
    /// products of five are neither denormal nor infinite.
    tiny: f64,
    huge: f64,
    /// The factor that makes numbers below 1 denormal and leaves them a good part of their digits.
    denormal: f64,
}

impl Scales {
    fn of(element: Element) -> Self {
        let wide = Self {
            decades: 7,
            small: 1e-7,
            tiny: 1e-60,
            huge: 1e60,
            // 2^-1040, with 33 of 52 digits left; computing it as a power would go by way of its reciprocal, which is
            // infinite.
            denormal: f64::from_bits(1 << 34),
        };
        match element {
            Element::F64 => wide,
            // 8 of 23 digits are left of denormal numbers. Complex numbers of 64 bits have these parts, too.
            Element::F32 => Self {
                tiny: 1e-7,
                huge: 1e7,
                denormal: 2f64.powi(-140),
                ..wide
            },
            // Normal numbers reach from 2^-14 to 2^16, and 7 of 10 digits are left of denormal ones.
            Element::F16 => Self {
                decades: 1,
                small: 2f64.powi(-8),
                tiny: 2f64.powi(-8),
                huge: 2f64.powi(5),
                denormal: 2f64.powi(-16),
            },
            // The range of single precision, and 5 of 7 digits.
            Element::Bf16 => Self {
                tiny: 1e-15,
                huge: 1e15,
                denormal: 2f64.powi(-127),
                ..wide
            },
            Element::I32 | Element::I64 | Element::U8 => Self {
                denormal: 1.0,
                ..wide
            },
        }
    }
}

/// Number and bytes of every array that a call reads, with content of some kind, and the scalars. All are made from one
/// seed, as those of a timed call are: a program that computes the seeds from the numbers cannot tell a verification from
/// a timing.
///
/// Denormal content goes into one array only, the first one that may hold any floats: products of two denormal numbers
/// are zero. The product of a denormal number with a number of about 1 stays denormal and is off by at most half the
/// smallest number, and every bound includes so much underflow (`oracle::tolerance`, `oracle::scaled_tolerance`).
pub fn draw_all(
    specification: &mut Specification,
    distribution: Distribution,
    rng: &mut ChaCha8Rng,
) -> Vec<(usize, Vec<u8>)> {
    let seed = rng.random();
    specification.draw(seed);
    let numbers = specification.read();
    let array = |n: usize| &specification.arrays[n];
    let any_floats =
        |n: &&usize| array(**n).content == Content::Uniform && array(**n).element.is_float();
    let denormal = numbers.iter().find(any_floats).copied();
    let drawn = |n: usize| {
        let this = match distribution {
            Distribution::Denormal if denormal != Some(n) => Distribution::Uniform,
            other => other,
        };
        (n, draw_from(array(n), this, seed, rng))
    };
    numbers.into_iter().map(drawn).collect()
}

/// Turns the sign of all inputs that may hold any floats, and of all but the diagonal of well-conditioned matrices: a
/// program that waits for a number of one sign meets it in one of two such cases.
pub fn negate_all(specification: &Specification, inputs: &mut [(usize, Vec<u8>)]) {
    for (n, bytes) in inputs {
        let array = &specification.arrays[*n];
        let diagonal = match array.content {
            Content::Uniform | Content::Shifted { .. } if array.element.is_float() => false,
            Content::Dominant { .. } => true,
            _ => continue,
        };
        let (mut values, columns) = (array.values(bytes), array.columns());
        for (i, x) in values.iter_mut().enumerate() {
            // The array may hold several matrices one after the other.
            if !(diagonal && (i / columns) % columns == i % columns) {
                *x = -*x;
            }
        }
        *bytes = array.bytes_of(&values);
    }
}

/// The bytes of an array that a call reads, with content of some kind. If a distribution does not suit an array, the array gets the
/// content of timed calls: indices stay unchanged, and well-conditioned matrices are checkered at most, which takes
/// nothing from their diagonal.
pub fn draw(array: &Array, distribution: Distribution, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let seed = rng.random();
    draw_from(array, distribution, seed, rng)
}

fn draw_from(
    array: &Array,
    distribution: Distribution,
    seed: u64,
    rng: &mut ChaCha8Rng,
) -> Vec<u8> {
    let bytes = array.filled(seed);
    let dominant = matches!(array.content, Content::Dominant { .. });
    let stays = match array.content {
        Content::Offsets { .. } => true,
        Content::Dominant { .. } => distribution != Distribution::Checkered,
        _ => false,
    };
    if stays || distribution == Distribution::Uniform {
        return bytes;
    }
    let columns = array.columns();
    let mut values = array.values(&bytes);
    let steps = matches!(array.content, Content::Steps { .. });
    if steps {
        // The running sums must stay in the range, not the steps.
        add_up(&mut values);
    }
    let mut matrix = Matrix {
        rows: values.len() / columns,
        columns,
        parts: array.parts,
        values: &mut values,
    };
    // Values outside of a range have no meaning, so arrays with a range keep it.
    let free = matches!(array.content, Content::Uniform | Content::Shifted { .. });
    let scales = Scales::of(array.element);
    let floats = array.element.is_float();
    let signed = array.element != Element::U8;
    // Rows with a range of their own keep it.
    let by_rows = matches!(array.content, Content::Shifted { .. });
    match distribution {
        Distribution::Few => matrix.two_values(rng),
        Distribution::Ascending => matrix.sort(by_rows, f64::total_cmp),
        Distribution::Descending => matrix.sort(by_rows, |x, y| y.total_cmp(x)),
        Distribution::ZeroOne if free => matrix.binary(rng),
        Distribution::ZeroRows if free => matrix.zero_rows(rng),
        Distribution::Negated if free && signed => matrix.scale(-1.0),
        Distribution::ScaledRows if free && floats => matrix.scale_rows(scales.decades, rng),
        Distribution::ScaledColumns if free && floats => matrix.scale_columns(scales.decades, rng),
        Distribution::Checkered if dominant && floats => {
            // Matrix by matrix, so that no diagonal element is scaled.
            for values in matrix.values.chunks_exact_mut(columns * columns) {
                let mut one = Matrix {
                    rows: columns,
                    columns,
                    parts: array.parts,
                    values,
                };
                one.checker(scales.small, seed);
            }
        }
        Distribution::Checkered if free && floats => matrix.checker(scales.small, seed),
        Distribution::Tiny if free && floats => matrix.scale(scales.tiny),
        Distribution::Huge if free && floats => matrix.scale(scales.huge),
        Distribution::Denormal if free && floats => matrix.scale(scales.denormal),
        _ => {}
    }
    if steps {
        for i in (1..values.len()).rev() {
            values[i] -= values[i - 1];
        }
    }
    array.bytes_of(&values)
}

/// Replaces numbers by their running sums.
fn add_up(values: &mut [f64]) {
    for i in 1..values.len() {
        values[i] += values[i - 1];
    }
}

/// A row-major matrix with random content of some kind.
pub struct Matrix<'a> {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Adjacent columns that belong to one number: two for complex ones.
    pub parts: usize,
    /// Elements.
    pub values: &'a mut [f64],
}

impl Matrix<'_> {
    /// Zeros and ones: every correct program computes the product exactly.
    pub fn binary(&mut self, rng: &mut ChaCha8Rng) {
        Stream::new(rng.random(), 0).fill(self.values, |bits| f64::from(bits >> 63 == 1));
    }

    /// Sorts all values, or each row by itself.
    pub fn sort(&mut self, by_rows: bool, order: impl Fn(&f64, &f64) -> Ordering) {
        let length = if by_rows {
            self.columns
        } else {
            self.values.len()
        };
        for part in self.values.chunks_mut(length.max(1)) {
            part.sort_by(&order);
        }
    }

    /// Fills the matrix with two of its values, in random order.
    fn two_values(&mut self, rng: &mut ChaCha8Rng) {
        let (Some(first), Some(last)) = (self.values.first(), self.values.last()) else {
            return;
        };
        let pair = [*first, *last];
        Stream::new(rng.random(), 0).fill(self.values, |bits| pair[(bits >> 63) as usize]);
    }

    /// Multiplies each row by a power of ten between 10^-`decades` and 10^`decades`.
    pub fn scale_rows(&mut self, decades: i32, rng: &mut ChaCha8Rng) {
        for row in self.values.chunks_exact_mut(self.columns.max(1)) {
            let factor = 10f64.powi(rng.random_range(-decades..=decades));
            row.iter_mut().for_each(|x| *x *= factor);
        }
    }

    /// Multiplies each column by a power of ten between 10^-`decades` and 10^`decades`.
    pub fn scale_columns(&mut self, decades: i32, rng: &mut ChaCha8Rng) {
        let factors: Vec<f64> = (0..self.columns.div_ceil(self.parts))
            .map(|_| 10f64.powi(rng.random_range(-decades..=decades)))
            .collect();
        for row in self.values.chunks_exact_mut(self.columns.max(1)) {
            for (numbers, factor) in row.chunks_mut(self.parts).zip(&factors) {
                numbers.iter_mut().for_each(|x| *x *= factor);
            }
        }
    }

    /// Multiplies the elements whose row is of another kind than their column. The kinds follow from `seed` and the
    /// index alone.
    fn checker(&mut self, factor: f64, seed: u64) {
        let stream = Stream::new(seed, KINDS);
        let kind = |n: usize| stream.bits(n as u64) >> 63;
        for (row, elements) in self
            .values
            .chunks_exact_mut(self.columns.max(1))
            .enumerate()
        {
            for (column, x) in elements.iter_mut().enumerate() {
                if kind(row) != kind(column / self.parts) {
                    *x *= factor;
                }
            }
        }
    }

    /// Makes about a quarter of the rows zero, one at least.
    pub fn zero_rows(&mut self, rng: &mut ChaCha8Rng) {
        let certain = rng.random_range(0..self.rows.max(1));
        for (n, row) in self
            .values
            .chunks_exact_mut(self.columns.max(1))
            .enumerate()
        {
            if n == certain || rng.random_range(0..4) == 0 {
                row.fill(0.0);
            }
        }
    }

    /// Multiplies all elements.
    pub fn scale(&mut self, factor: f64) {
        self.values.iter_mut().for_each(|x| *x *= factor);
    }
}

#[cfg(test)]
mod tests;
