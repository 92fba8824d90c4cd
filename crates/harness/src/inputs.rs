//! The generator of input elements: AES-128 in counter mode.
//!
//! Word `index` of stream `stream` under `seed` depends on no other word, so the supervisor can recompute any of them
//! alone. The key consists of the secret seed and the number of the stream. A word reveals nothing about another one or
//! about the seed. Elements of most contents are made from a word each, so a program has to read its inputs from memory.
//! Others reveal something about each other, by their definition, and nothing about the seed: `distances` lie near those
//! between points, `repeating` numbers repeat one of the three before them, and running sums of `steps` stay in a range.

use crate::cipher::{BATCH, Cipher};
use crate::contents;
use crate::control::{Content, Element};
use crate::half;
use crate::memory::Mapping;

/// Bits of an output element before a call: a quiet NaN that no computation produces.
pub const POISON_F64: u64 = 0x7ff8_dead_beef_f10f;
/// The same for single precision.
pub const POISON_F32: u32 = 0x7fc0_f10f;
/// The same for 32-bit integers. Every integer is possible, so this one is only unlikely.
pub const POISON_I32: u32 = 0xdead_f10f;
/// The same for 64-bit integers.
pub const POISON_I64: u64 = 0xdead_beef_dead_f10f;
/// The same for bytes, each value of which is likely.
pub const POISON_U8: u8 = 0xd7;
/// The same for binary16, a quiet NaN.
pub const POISON_F16: u16 = 0x7ef1;
/// The same for bfloat16.
pub const POISON_BF16: u16 = 0x7ff1;

/// Upper half of the counter for elements.
const ELEMENTS: u64 = 0;
/// Upper half of the counter for the factors of rows, which must be independent of their elements.
const GRADES: u64 = 1;
/// The same for rows, points and repetitions.
const APART: u64 = 2;

/// One stream of random words under a secret seed.
#[derive(Clone)]
pub struct Stream(Cipher);

impl Stream {
    /// The stream with this number under `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let key = u128::from(seed) | u128::from(stream) << 64;
        Self(Cipher::new(key.to_le_bytes()))
    }

    fn word(&self, index: u64, domain: u64) -> u64 {
        let words = self.0.blocks(domain, [index / 2; BATCH / 2]);
        words[(index % 2) as usize]
    }

    /// 64 random bits of element `index`.
    pub fn bits(&self, index: u64) -> u64 {
        self.word(index, ELEMENTS)
    }

    /// Element `index`, uniform in [-0.5, 0.5).
    pub fn element(&self, index: u64) -> f64 {
        to_f64(self.bits(index))
    }

    /// Elements with these indices, uniform in [-0.5, 0.5). Faster than one at a time.
    pub fn elements(&self, indices: impl IntoIterator<Item = u64>) -> Vec<f64> {
        let mut indices = indices.into_iter().peekable();
        let mut elements = Vec::with_capacity(indices.size_hint().0);
        while indices.peek().is_some() {
            let mut some = [0; BATCH / 2];
            let mut count = 0;
            for (place, index) in some.iter_mut().zip(&mut indices) {
                *place = index;
                count += 1;
            }
            let words = self.0.blocks(ELEMENTS, some.map(|index| index / 2));
            let pairs = words.as_chunks::<2>().0.iter().zip(some).take(count);
            elements.extend(pairs.map(|(pair, index)| to_f64(pair[(index % 2) as usize])));
        }
        elements
    }

    /// The factor of the elements of a row in a graded array: a power of two from 1 down to 2 to the minus `binades`,
    /// so that no digit is lost.
    pub fn grade(&self, row: u64, binades: u32) -> f64 {
        let exponent = ((self.word(row, GRADES) >> 32) * (u64::from(binades) + 1)) >> 32;
        f64::from_bits((1023 - exponent) << 52)
    }

    /// Fills `out` with doubles uniform in [-0.5, 0.5).
    pub fn fill_f64(&self, out: &mut [f64]) {
        self.fill(out, to_f64);
    }

    /// Fills `out` with floats uniform in [-0.5, 0.5).
    pub fn fill_f32(&self, out: &mut [f32]) {
        self.fill(out, to_f32);
    }

    /// Fills `out` from the words of its elements.
    pub fn fill<T>(&self, out: &mut [T], convert: impl FnMut(u64) -> T) {
        self.0.fill(ELEMENTS, out, convert);
    }

    /// `count` words that are independent of the elements' words, for structure above single elements: shifts of rows,
    /// points, repetitions.
    pub(crate) fn apart(&self, count: usize) -> Vec<u64> {
        let mut words = vec![0; count];
        self.0.fill(APART, &mut words, |word| word);
        words
    }
}

/// A double in [-0.5, 0.5) with 52 random bits.
#[inline(always)]
fn to_f64(bits: u64) -> f64 {
    f64::from_bits((bits >> 12) | 0x3ff0_0000_0000_0000) - 1.5
}

/// A float in [-0.5, 0.5) with 23 random bits.
#[inline(always)]
fn to_f32(bits: u64) -> f32 {
    f32::from_bits((bits >> 41) as u32 | 0x3f80_0000) - 1.5
}

impl Content {
    /// Fills an array of doubles from a stream.
    pub fn fill_f64(self, stream: &Stream, out: &mut [f64]) {
        stream.fill_f64(out);
        match self {
            Content::Range { low, high } => {
                let width = high - low;
                for x in out {
                    *x = low + (*x + 0.5) * width;
                }
            }
            Content::Dominant { columns } => {
                diagonals(columns, out, |x| *x += columns as f64);
            }
            Content::Graded { columns, binades } => {
                for (row, elements) in (0..).zip(out.chunks_mut(columns.max(1))) {
                    let grade = stream.grade(row, binades);
                    elements.iter_mut().for_each(|x| *x *= grade);
                }
            }
            Content::Shifted {
                columns,
                low,
                high,
                by,
            } => contents::shift_f64(stream, columns, (low, high, by), out),
            Content::Magnitudes { low, high } => {
                contents::magnitudes(stream, low, high, out, |x| x);
            }
            Content::Distances { columns, high } => {
                contents::distances(stream, columns, high, out, |x| x);
            }
            Content::Uniform
            | Content::Offsets { .. }
            | Content::Steps { .. }
            | Content::Repeating { .. } => {}
        }
    }

    /// Fills an array of floats.
    pub fn fill_f32(self, stream: &Stream, out: &mut [f32]) {
        stream.fill_f32(out);
        match self {
            Content::Range { low, high } => {
                let (low, width) = (low as f32, (high - low) as f32);
                for x in out {
                    *x = low + (*x + 0.5) * width;
                }
            }
            Content::Dominant { columns } => {
                diagonals(columns, out, |x| *x += columns as f32);
            }
            Content::Graded { columns, binades } => {
                for (row, elements) in (0..).zip(out.chunks_mut(columns.max(1))) {
                    let grade = stream.grade(row, binades) as f32;
                    elements.iter_mut().for_each(|x| *x *= grade);
                }
            }
            Content::Shifted {
                columns,
                low,
                high,
                by,
            } => contents::shift_f32(stream, columns, (low, high, by), out),
            Content::Magnitudes { low, high } => {
                contents::magnitudes(stream, low, high, out, |x| x as f32);
            }
            Content::Distances { columns, high } => {
                contents::distances(stream, columns, high, out, |x| x as f32);
            }
            Content::Uniform
            | Content::Offsets { .. }
            | Content::Steps { .. }
            | Content::Repeating { .. } => {}
        }
    }

    /// Fills an array of binary16 from floats, each rounded to the nearest: a number may reach the upper end of its range.
    pub fn fill_f16(self, stream: &Stream, out: &mut [u16]) {
        self.fill_half(stream, out, half::to_f16);
    }

    /// The same for bfloat16.
    pub fn fill_bf16(self, stream: &Stream, out: &mut [u16]) {
        self.fill_half(stream, out, half::to_bf16);
    }

    fn fill_half(self, stream: &Stream, out: &mut [u16], round: impl Fn(f32) -> u16) {
        if self == Content::Uniform {
            return stream.fill(out, |bits| round(to_f32(bits)));
        }
        let mut floats = vec![0f32; out.len()];
        self.fill_f32(stream, &mut floats);
        for (x, float) in out.iter_mut().zip(floats) {
            *x = round(float);
        }
    }

    /// Fills an array of integers.
    pub fn fill_i32(self, stream: &Stream, out: &mut [i32]) {
        self.fill_integers(stream, out, |bits| (bits >> 60) as i32 - 8, |x| x as i32);
    }

    /// Fills an array of 64-bit integers.
    pub fn fill_i64(self, stream: &Stream, out: &mut [i64]) {
        self.fill_integers(stream, out, |bits| (bits >> 60) as i64 - 8, |x| x);
    }

    /// Fills the array of so many elements at an offset, bytes, of `memory`.
    ///
    /// # Panics
    /// As [`Mapping::with_slice`].
    pub fn fill(
        self,
        stream: &Stream,
        element: Element,
        memory: &Mapping,
        (offset, count): (usize, usize),
    ) {
        match element {
            Element::F64 => memory.with_slice(offset, count, |x| self.fill_f64(stream, x)),
            Element::F32 => memory.with_slice(offset, count, |x| self.fill_f32(stream, x)),
            Element::I32 => memory.with_slice(offset, count, |x| self.fill_i32(stream, x)),
            Element::I64 => memory.with_slice(offset, count, |x| self.fill_i64(stream, x)),
            Element::U8 => memory.with_slice(offset, count, |x| self.fill_u8(stream, x)),
            Element::F16 => memory.with_slice(offset, count, |x| self.fill_f16(stream, x)),
            Element::Bf16 => memory.with_slice(offset, count, |x| self.fill_bf16(stream, x)),
        }
    }

    /// Fills an array of bytes.
    pub fn fill_u8(self, stream: &Stream, out: &mut [u8]) {
        self.fill_integers(stream, out, |bits| (bits >> 56) as u8, |x| x as u8);
    }

    /// Fills an array of integers: `uniform` makes one of a random word, and `convert` one of a number that fits.
    #[inline(always)]
    fn fill_integers<T: Copy>(
        self,
        stream: &Stream,
        out: &mut [T],
        uniform: impl Fn(u64) -> T,
        convert: impl Fn(i64) -> T,
    ) {
        match self {
            Content::Range { low, high } => {
                contents::integers(stream, low as i64, high as i64, out, convert);
            }
            Content::Offsets { total } => {
                contents::offsets(stream, total, out, |x| convert(x as i64));
            }
            Content::Magnitudes { low, high } => {
                contents::magnitudes(stream, low, high, out, |x| convert(x as i64));
            }
            Content::Steps { low, high } => {
                contents::steps(stream, low as i64, high as i64, out, convert);
            }
            Content::Repeating { low, high } => {
                contents::integers(stream, low as i64, high as i64, out, convert);
                contents::repeat(stream, out);
            }
            Content::Distances { columns, high } => {
                contents::distances(stream, columns, high, out, |x| convert(1 + x as i64));
            }
            Content::Uniform
            | Content::Dominant { .. }
            | Content::Graded { .. }
            | Content::Shifted { .. } => stream.fill(out, uniform),
        }
    }
}

fn diagonals<T>(columns: usize, out: &mut [T], mut change: impl FnMut(&mut T)) {
    for matrix in out.chunks_mut((columns * columns).max(1)) {
        matrix.iter_mut().step_by(columns + 1).for_each(&mut change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn filling_agrees_with_single_elements(seed: u64, stream in 0u64..8, n in 0usize..300) {
            let stream = Stream::new(seed, stream);
            let mut out = vec![0.0; n];
            stream.fill_f64(&mut out);
            let indices = (0..n as u64).rev();
            let mut gathered = stream.elements(indices);
            gathered.reverse();
            prop_assert_eq!(&gathered, &out);
            for (i, x) in out.iter().enumerate() {
                prop_assert_eq!(x.to_bits(), stream.element(i as u64).to_bits());
                prop_assert!((-0.5..0.5).contains(x));
            }
        }

        #[test]
        fn rows_of_graded_arrays_differ_by_powers_of_two(seed: u64, rows in 0usize..9, columns in 1usize..40) {
            let mut out = vec![0.0; rows * columns];
            let stream = Stream::new(seed, 3);
            Content::Graded { columns, binades: 31 }.fill_f64(&stream, &mut out);
            for (i, x) in out.iter().enumerate() {
                let grade = stream.grade((i / columns) as u64, 31);
                prop_assert!((2f64.powi(-31)..=1.0).contains(&grade) && grade.log2().fract() == 0.0);
                prop_assert_eq!(x / grade, stream.element(i as u64));
            }
        }

        #[test]
        fn integers_and_floats_stay_in_range(seed: u64) {
            let mut ints = vec![0i32; 257];
            Content::Uniform.fill_i32(&Stream::new(seed, 0), &mut ints);
            prop_assert!(ints.iter().all(|x| (-8..8).contains(x)));
            let mut floats = vec![0f32; 257];
            Stream::new(seed, 0).fill_f32(&mut floats);
            prop_assert!(floats.iter().all(|x| (-0.5..0.5).contains(x)));
        }
    }

    proptest! {
        #[test]
        fn contents_keep_their_ranges(seed: u64, low in -1000i64..1000, more in 0i64..100_000, n in 1usize..300, average in 0u64..20) {
            let content = Content::Range { low: low as f64, high: (low + more) as f64 };
            let mut ints = vec![0i32; n];
            content.fill_i32(&Stream::new(seed, 0), &mut ints);
            prop_assert!(ints.iter().all(|x| (low..=low + more).contains(&i64::from(*x))));
            let mut doubles = vec![0f64; n];
            content.fill_f64(&Stream::new(seed, 0), &mut doubles);
            prop_assert!(doubles.iter().all(|x| (low as f64..=(low + more) as f64).contains(x)));
            let total = average * n as u64 + seed % (n as u64);
            let mut offsets = vec![-1i32; n + 1];
            Content::Offsets { total }.fill_i32(&Stream::new(seed, 0), &mut offsets);
            prop_assert_eq!(offsets[0], 0);
            prop_assert_eq!(offsets[n] as u64, total);
            prop_assert!(offsets.is_sorted(), "{:?}", offsets);
        }
    }

    #[test]
    fn most_rows_of_a_graded_array_have_another_grade_than_the_next() {
        let stream = Stream::new(7, 0);
        let alike = (0..1000).filter(|&row| stream.grade(row, 31) == stream.grade(row + 128, 31));
        assert!(alike.count() < 100);
    }

    #[test]
    fn the_whole_range_of_integers_is_reached() {
        let mut ints = vec![0i32; 1 << 16];
        let all = Content::Range {
            low: f64::from(i32::MIN),
            high: f64::from(i32::MAX),
        };
        all.fill_i32(&Stream::new(3, 0), &mut ints);
        assert!(
            ints.iter().any(|x| *x < -2_000_000_000) && ints.iter().any(|x| *x > 2_000_000_000)
        );
        let mut bits = vec![0i32; 4096];
        Content::Range {
            low: 0.0,
            high: 1.0,
        }
        .fill_i32(&Stream::new(4, 0), &mut bits);
        let ones: i32 = bits.iter().sum();
        assert!((1848..2248).contains(&ones), "{ones}");
    }

    #[test]
    fn dominant_matrices_have_their_diagonal() {
        let mut x = vec![0f64; 2 * 25];
        Content::Dominant { columns: 5 }.fill_f64(&Stream::new(1, 0), &mut x);
        for (n, value) in x.iter().enumerate() {
            let diagonal = n % 25 % 6 == 0;
            assert_eq!(*value > 4.0, diagonal, "element {n}: {value}");
        }
    }

    #[test]
    fn each_bit_of_seed_and_stream_is_part_of_the_key() {
        let bits = |seed: u64, stream: u64| Stream::new(seed, stream).bits(0);
        // AES-128 of a block of zeros under a key of zeros.
        let zeros = [0x66, 0xe9, 0x4b, 0xd4, 0xef, 0x8a, 0x2c, 0x3b];
        assert_eq!(bits(0, 0), u64::from_le_bytes(zeros));
        // Several words of each stream: were two keys the same, or one a shifted copy of another, words would return.
        let ones = (0..64).map(|n| 1u64 << n);
        let keys = ones.clone().map(|seed| (seed, 0));
        let keys = keys.chain(ones.map(|stream| (0, stream)));
        let keys: Vec<(u64, u64)> = keys.chain([(0, 0), (1, 1), (u64::MAX, 0)]).collect();
        let mut words = std::collections::BTreeSet::new();
        for (seed, stream) in &keys {
            let stream = Stream::new(*seed, *stream);
            for domain in [ELEMENTS, GRADES, APART] {
                words.extend((0..32).map(|index| stream.word(index, domain)));
            }
        }
        assert_eq!(words.len(), keys.len() * 3 * 32);
    }

    /// Pearson's correlation of two equally long samples.
    fn correlation(x: &[f64], y: &[f64]) -> f64 {
        let dot: f64 = x.iter().zip(y).map(|(a, b)| a * b).sum();
        let xx: f64 = x.iter().map(|a| a * a).sum();
        let yy: f64 = y.iter().map(|a| a * a).sum();
        dot / (xx * yy).sqrt()
    }

    #[test]
    fn the_elements_look_uniform_and_independent() {
        let n = 1 << 16;
        let limit = 5.0 / (n as f64).sqrt();
        for seed in [0, 1, 2, 1 << 40, u64::MAX] {
            let mut a = vec![0.0; n];
            let mut b = vec![0.0; n];
            Stream::new(seed, 0).fill_f64(&mut a);
            Stream::new(seed, 1).fill_f64(&mut b);
            let mean: f64 = a.iter().sum::<f64>() / n as f64;
            let square: f64 = a.iter().map(|x| x * x).sum::<f64>() / n as f64;
            assert!(mean.abs() < limit, "mean {mean}");
            assert!((square - 1.0 / 12.0).abs() < limit, "variance {square}");
            assert!(correlation(&a, &b).abs() < limit, "streams are correlated");
            for lag in [1, 2, 3, 4, 8, 64, 256, 257] {
                assert!(
                    correlation(&a[lag..], &a[..n - lag]).abs() < limit,
                    "lag {lag}"
                );
            }
            let mut next = vec![0.0; n];
            Stream::new(seed.wrapping_add(1), 0).fill_f64(&mut next);
            assert!(correlation(&a, &next).abs() < limit, "seeds are correlated");
        }
    }

    #[test]
    fn no_rank_is_lost() {
        // A program could multiply a matrix with dependent rows with less work.
        let n = 64;
        let mut m = vec![0.0; n * n];
        Stream::new(7, 0).fill_f64(&mut m);
        let mut smallest = f64::INFINITY;
        for col in 0..n {
            let pivot = (col..n)
                .max_by(|&x, &y| m[x * n + col].abs().total_cmp(&m[y * n + col].abs()))
                .unwrap_or(col);
            for j in 0..n {
                m.swap(col * n + j, pivot * n + j);
            }
            smallest = smallest.min(m[col * n + col].abs());
            for r in col + 1..n {
                let f = m[r * n + col] / m[col * n + col];
                for j in col..n {
                    m[r * n + j] -= f * m[col * n + j];
                }
            }
        }
        assert!(smallest > 1e-4, "smallest pivot {smallest}");
    }
}
