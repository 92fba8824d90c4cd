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

/// Powers of ten by which scaled rows and columns differ: from −7 to 7.
const DECADES: i32 = 7;

/// Small elements of checkered arrays, as a share of the large ones.
const SMALL: f64 = 1e-7;

/// Number and bytes of every input array, with content of some kind. All arrays are made from one seed, as those of a
/// timed call are: a program that computes the seeds from the numbers cannot tell a verification from a timing.
///
/// Denormal content goes into one array only, the first one that may hold any floats: products of two denormal numbers
/// are zero. The product of a denormal number with a number of about 1 stays denormal and is off by at most half the
/// smallest number, and every bound includes so much underflow (`oracle::tolerance`, `oracle::scaled_tolerance`).
pub fn draw_all(
    specification: &Specification,
    distribution: Distribution,
    rng: &mut ChaCha8Rng,
) -> Vec<(usize, Vec<u8>)> {
    let numbers = specification.numbers(false);
    let array = |n: usize| &specification.arrays[n];
    let any_floats =
        |n: &&usize| array(**n).content == Content::Uniform && array(**n).element != Element::I32;
    let denormal = numbers.iter().find(any_floats).copied();
    let seed = rng.random();
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
            Content::Uniform | Content::Shifted { .. } if array.element != Element::I32 => false,
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

/// The bytes of an input array with content of some kind. If a distribution does not suit an array, the array gets the
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
        values: &mut values,
    };
    // Values outside of a range have no meaning, so arrays with a range keep it.
    let free = matches!(array.content, Content::Uniform | Content::Shifted { .. });
    let floats = array.element != Element::I32;
    // Rows with a range of their own keep it.
    let by_rows = matches!(array.content, Content::Shifted { .. });
    match distribution {
        Distribution::Few => matrix.two_values(rng),
        Distribution::Ascending => matrix.sort(by_rows, f64::total_cmp),
        Distribution::Descending => matrix.sort(by_rows, |x, y| y.total_cmp(x)),
        Distribution::ZeroOne if free => matrix.binary(rng),
        Distribution::ZeroRows if free => matrix.zero_rows(rng),
        Distribution::Negated if free => matrix.scale(-1.0),
        Distribution::ScaledRows if free && floats => matrix.scale_rows(DECADES, rng),
        Distribution::ScaledColumns if free && floats => matrix.scale_columns(DECADES, rng),
        Distribution::Checkered if dominant && floats => {
            // Matrix by matrix, so that no diagonal element is scaled.
            for values in matrix.values.chunks_exact_mut(columns * columns) {
                let mut one = Matrix {
                    rows: columns,
                    columns,
                    values,
                };
                one.checker(SMALL, seed);
            }
        }
        Distribution::Checkered if free && floats => matrix.checker(SMALL, seed),
        Distribution::Tiny if free && floats => matrix.scale(1e-60),
        Distribution::Huge if free && floats => matrix.scale(1e60),
        Distribution::Denormal if free && floats => matrix.scale(denormal_factor(array.element)),
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

/// The factor that makes numbers below 1 denormal and leaves them a good part of their digits: 33 of 52 in double
/// precision, 8 of 23 in single precision.
fn denormal_factor(element: Element) -> f64 {
    match element {
        // 2^-1040; computing it as a power would go by way of its reciprocal, which is infinite.
        Element::F64 => f64::from_bits(1 << 34),
        Element::F32 => 2f64.powi(-140),
        Element::I32 => 1.0,
    }
}

/// A row-major matrix with random content of some kind.
pub struct Matrix<'a> {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
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
    pub fn two_values(&mut self, rng: &mut ChaCha8Rng) {
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
        let factors: Vec<f64> = (0..self.columns)
            .map(|_| 10f64.powi(rng.random_range(-decades..=decades)))
            .collect();
        for row in self.values.chunks_exact_mut(self.columns.max(1)) {
            row.iter_mut().zip(&factors).for_each(|(x, f)| *x *= f);
        }
    }

    /// Multiplies the elements whose row is of another kind than their column. The kinds follow from `seed` and the
    /// index alone.
    pub fn checker(&mut self, factor: f64, seed: u64) {
        let stream = Stream::new(seed, KINDS);
        let kind = |n: usize| stream.bits(n as u64) >> 63;
        for (row, elements) in self
            .values
            .chunks_exact_mut(self.columns.max(1))
            .enumerate()
        {
            for (column, x) in elements.iter_mut().enumerate() {
                if kind(row) != kind(column) {
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn array(element: Element, content: Content, count: usize) -> Array {
        Array {
            name: "x".into(),
            element,
            output: false,
            dims: vec![count],
            align: 64,
            stream: 0,
            content,
        }
    }

    #[test]
    fn what_has_structure_keeps_it() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let offsets = array(Element::I32, Content::Offsets { total: 80 }, 21);
        let range = Content::Range {
            low: 3.0,
            high: 9.0,
        };
        let indices = array(Element::I32, range, 50);
        let prices = array(Element::F64, range, 50);
        for distribution in [
            Distribution::Descending,
            Distribution::Few,
            Distribution::Huge,
            Distribution::ZeroOne,
            Distribution::ScaledRows,
        ] {
            let found = offsets.values(&draw(&offsets, distribution, &mut rng));
            assert!(found.is_sorted() && found[0] == 0.0 && found[20] == 80.0);
            for ranged in [&indices, &prices] {
                let found = ranged.values(&draw(ranged, distribution, &mut rng));
                assert!(found.iter().all(|x| (3.0..=9.0).contains(x)), "{found:?}");
            }
        }
    }

    #[test]
    fn running_sums_of_steps_stay_in_their_range_whatever_is_done_to_them() {
        let (low, high) = (-1e9, 1e9);
        let steps = array(Element::I32, Content::Steps { low, high }, 500);
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for distribution in [
            Distribution::Uniform,
            Distribution::Few,
            Distribution::Ascending,
            Distribution::Descending,
        ] {
            let mut sums = steps.values(&draw(&steps, distribution, &mut rng));
            add_up(&mut sums);
            assert!(sums.iter().all(|x| (low..=high).contains(x)), "{sums:?}");
            if distribution == Distribution::Ascending {
                assert!(sums.is_sorted());
            }
            sums.sort_by(f64::total_cmp);
            sums.dedup();
            assert_eq!(sums.len() <= 2, distribution == Distribution::Few);
        }
    }

    #[test]
    fn shifted_rows_take_the_contents_of_any_floats() {
        let content = Content::Shifted {
            columns: 10,
            low: -0.5,
            high: 0.5,
            by: 100.0,
        };
        let mut rows = array(Element::F32, content, 50);
        rows.dims = vec![5, 10];
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        let mut of = |d| rows.values(&draw(&rows, d, &mut rng));
        assert!(
            of(Distribution::ZeroOne)
                .iter()
                .all(|x| [0.0, 1.0].contains(x))
        );
        assert!(
            of(Distribution::ZeroRows)
                .chunks(10)
                .any(|row| row.iter().all(|x| *x == 0.0))
        );
        assert!(
            of(Distribution::Ascending)
                .chunks(10)
                .all(|row| row.is_sorted())
        );
        assert!(!of(Distribution::Ascending).is_sorted());
        assert!(
            of(Distribution::ScaledRows)
                .iter()
                .any(|x| x.abs() < 0.01 || x.abs() > 101.0)
        );
    }

    #[test]
    fn checkered_matrices_keep_their_diagonals_and_have_small_numbers_beside_large_ones() {
        let columns = 41;
        let mut matrices = array(
            Element::F64,
            Content::Dominant { columns },
            3 * columns * columns,
        );
        matrices.dims = vec![3, columns, columns];
        let of =
            |distribution| matrices.values(&draw_from(&matrices, distribution, 7, &mut rng(7)));
        let plain = of(Distribution::Uniform);
        let mut small = 0;
        for (i, (x, y)) in plain.iter().zip(of(Distribution::Checkered)).enumerate() {
            if (i / columns) % columns == i % columns {
                assert!(*x == y && y > columns as f64 - 1.0);
            } else if *x != y {
                assert_eq!(y, x * SMALL);
                small += 1;
            }
        }
        assert!((1300..3700).contains(&small), "{small}");
        for other in [
            Distribution::Huge,
            Distribution::ScaledRows,
            Distribution::Few,
        ] {
            assert_eq!(of(other), plain, "{other:?}");
        }
    }

    fn rng(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    #[test]
    fn integers_take_the_contents_that_make_sense_for_them() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let keys = array(Element::I32, Content::Uniform, 100);
        let mut of = |d| keys.values(&draw(&keys, d, &mut rng));
        assert!(of(Distribution::Ascending).is_sorted());
        let mut few = of(Distribution::Few);
        few.sort_by(f64::total_cmp);
        few.dedup();
        assert!(few.len() <= 2);
        assert!(
            of(Distribution::ZeroOne)
                .iter()
                .all(|x| *x == 0.0 || *x == 1.0)
        );
        assert!(
            of(Distribution::Huge)
                .iter()
                .all(|x| (-8.0..8.0).contains(x))
        );
    }

    #[test]
    fn denormal_numbers_are_denormal_in_either_precision() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut of = |element| {
            let array = array(element, Content::Uniform, 500);
            array.values(&draw(&array, Distribution::Denormal, &mut rng))
        };
        let double = of(Element::F64);
        assert!(double.iter().all(|x| x.is_subnormal() || *x == 0.0));
        assert!(
            double
                .iter()
                .any(|x| x.abs() > 2f64.powi(-1022) * 2f64.powi(-22))
        );
        let single = of(Element::F32);
        let is_subnormal = |x: &f64| (*x as f32).is_subnormal() && f64::from(*x as f32) == *x;
        assert!(single.iter().all(|x| is_subnormal(x) || *x == 0.0));
        assert!(single.iter().any(|x| x.abs() > 2f64.powi(-143)));
    }

    #[test]
    fn a_mirrored_case_has_the_same_numbers_with_other_signs() {
        for (name, floats) in [("dgemm", 2), ("spmv", 2), ("lu", 1), ("dtrsm", 2)] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
            let problem =
                flopsmith_problem::Problem::load(&root.join(name)).expect("it is shipped");
            let specification = crate::supervise::specify(&problem, &problem.timed).expect("fits");
            let drawn = |seed| {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                draw_all(&specification, Distribution::Uniform, &mut rng)
            };
            let (plain, mut mirrored) = (drawn(5), drawn(5));
            negate_all(&specification, &mut mirrored);
            let mut turned = 0;
            for ((n, before), (_, after)) in plain.iter().zip(&mirrored) {
                let array = &specification.arrays[*n];
                let (before, after) = (array.values(before), array.values(after));
                if array.element == Element::I32 {
                    assert_eq!(before, after, "{name}");
                } else {
                    let dominant = matches!(array.content, Content::Dominant { .. });
                    for (i, (x, y)) in before.iter().zip(&after).enumerate() {
                        let (row, column) = (i / array.columns(), i % array.columns());
                        let expected = if dominant && row == column { *x } else { -x };
                        assert_eq!(*y, expected, "{name}: {row}, {column}");
                    }
                    turned += 1;
                }
            }
            assert_eq!(turned, floats, "{name}");
        }
    }

    #[test]
    fn one_operand_is_denormal_and_the_other_is_not() {
        for (name, expected) in [("dgemm", 0), ("spmv", 2), ("dtrsm", 1)] {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
            let problem =
                flopsmith_problem::Problem::load(&root.join(name)).expect("it is shipped");
            let specification =
                crate::supervise::specify(&problem, &problem.timed).expect("it is sound");
            let mut rng = ChaCha8Rng::seed_from_u64(4);
            for (n, bytes) in draw_all(&specification, Distribution::Denormal, &mut rng) {
                let array = &specification.arrays[n];
                let values = array.values(&bytes);
                let denormal = values.iter().all(|x| x.is_subnormal() || *x == 0.0);
                assert_eq!(denormal, n == expected, "{name}: array {n}");
            }
        }
    }

    proptest! {
        #[test]
        fn contents_are_what_they_say(rows in 1usize..20, columns in 1usize..20, seed: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut values = vec![f64::NAN; rows * columns];
            let mut m = Matrix { rows, columns, values: &mut values };
            m.binary(&mut rng);
            prop_assert!(m.values.iter().all(|x| *x == 0.0 || *x == 1.0));
            m.values.iter_mut().for_each(|x| *x -= 0.5);
            m.scale_rows(8, &mut rng);
            m.scale_columns(8, &mut rng);
            prop_assert!(m.values.iter().all(|x| x.abs() <= 1e16));
            m.zero_rows(&mut rng);
            let zero = m.values.chunks_exact(columns).filter(|r| r.iter().all(|x| *x == 0.0)).count();
            prop_assert!(zero >= 1);
        }
    }
}
