//! Inputs with structure, made so that no part of the work on them can be left out.
//!
//! Independent numbers of one range make some problems easy. On a complete graph with such weights only the lightest edges
//! matter, and where rows of a sparse matrix begin is known beforehand. The inputs here are as cheap to make and have no
//! such shortcut.

use crate::inputs::bits;

/// Counters from here on are not those of elements: they stand for rows and points.
const APART: u64 = 1 << 40;

/// Uniform in [0, 1) with 32 random bits.
#[inline(always)]
fn unit(bits: u64) -> f64 {
    (bits >> 32) as f64 * (1.0 / 4_294_967_296.0)
}

/// What is added to every element of a row, uniform in [-by, by).
fn shift(origin: u64, row: u64, by: f64) -> f64 {
    (2.0 * unit(bits(origin, APART + row)) - 1.0) * by
}

/// Moves elements that are uniform in [-0.5, 0.5) to [low, high) and each row by a shift of its own.
pub fn shift_f64(origin: u64, columns: usize, (low, high, by): (f64, f64, f64), out: &mut [f64]) {
    for (row, elements) in (0..).zip(out.chunks_mut(columns.max(1))) {
        let (middle, width) = ((low + high) / 2.0 + shift(origin, row, by), high - low);
        elements.iter_mut().for_each(|x| *x = middle + *x * width);
    }
}

/// The same for floats.
pub fn shift_f32(origin: u64, columns: usize, (low, high, by): (f64, f64, f64), out: &mut [f32]) {
    for (row, elements) in (0..).zip(out.chunks_mut(columns.max(1))) {
        let middle = ((low + high) / 2.0 + shift(origin, row, by)) as f32;
        let width = (high - low) as f32;
        elements.iter_mut().for_each(|x| *x = middle + *x * width);
    }
}

/// A number of either sign whose size lies in [low, low·2^binades): each binade is as likely as another one.
#[inline(always)]
fn magnitude(bits: u64, low: f64, binades: u64) -> f64 {
    let exponent = ((bits & 0xffff) * binades) >> 16;
    let size = low * f64::from_bits((1023 + exponent) << 52) * (1.0 + unit(bits));
    if bits & 0x1_0000 == 0 { size } else { -size }
}

/// How many times `low` can be doubled before it reaches `high`.
fn binades(low: f64, high: f64) -> u64 {
    (high / low).log2().clamp(1.0, 900.0) as u64
}

/// Fills `out` with doubles of sizes from `low` to `high`.
pub fn magnitudes_f64(origin: u64, low: f64, high: f64, out: &mut [f64]) {
    let binades = binades(low, high);
    for (i, x) in (0..).zip(out) {
        *x = magnitude(bits(origin, i), low, binades);
    }
}

/// Fills `out` with floats of sizes from `low` to `high`.
pub fn magnitudes_f32(origin: u64, low: f64, high: f64, out: &mut [f32]) {
    let binades = binades(low, high);
    for (i, x) in (0..).zip(out) {
        *x = magnitude(bits(origin, i), low, binades) as f32;
    }
}

/// Fills `out` with integers of sizes from `low` to `high`.
pub fn magnitudes_i32(origin: u64, low: f64, high: f64, out: &mut [i32]) {
    let binades = binades(low, high);
    for (i, x) in (0..).zip(out) {
        *x = magnitude(bits(origin, i), low, binades) as i32;
    }
}

/// Fills `out` with integers whose running sums are uniform in `low..=high`.
pub fn steps(origin: u64, low: i64, high: i64, out: &mut [i32]) {
    let width = (high - low + 1).clamp(1, 1 << 32) as u64;
    let mut before = 0;
    for (i, x) in (0..).zip(out) {
        let here = low + (((bits(origin, i) >> 32) * width) >> 32) as i64;
        *x = (here - before) as i32;
        before = here;
    }
}

/// Lets one element in four repeat one of the three before it, so that programs cannot take neighbours to be different.
pub fn repeat(origin: u64, out: &mut [i32]) {
    for i in 3..out.len() {
        let chance = bits(origin, APART + i as u64) >> 32;
        if chance & 3 == 0 {
            out[i] = out[i - 1 - ((chance >> 2) % 3) as usize];
        }
    }
}

/// By how much an edge may be longer than the distance of its ends.
const ROUGHNESS: f64 = 0.2;

/// Fills a matrix with rough distances: element (i, j) is the sum of the differences of the coordinates of random points i and j
/// in four dimensions, times a factor from 1 to 1 + [`ROUGHNESS`] of its own. `convert` gets numbers in [0, high).
///
/// In four dimensions about half of all pairs are nearer by way of other points. The points lie so scattered that neither a bound
/// on a row nor one on a group of points rules out a shorter way.
pub fn distances<T>(
    origin: u64,
    columns: usize,
    high: f64,
    out: &mut [T],
    convert: impl Fn(f64) -> T,
) {
    const COORDINATES: u32 = 4;
    let point = |n: u64| {
        let bits = bits(origin, APART + n);
        std::array::from_fn::<i32, { COORDINATES as usize }, _>(|c| {
            (bits >> (16 * c)) as u16 as i32
        })
    };
    let columns = columns.max(1);
    let points: Vec<_> = (0..columns as u64).map(point).collect();
    let scale = high / (f64::from(COORDINATES << 16) * (1.0 + ROUGHNESS));
    let mut index = 0;
    for (row, elements) in out.chunks_mut(columns).enumerate() {
        let here = points[row % columns];
        for (x, there) in elements.iter_mut().zip(&points) {
            let distance: i32 = here.iter().zip(there).map(|(a, b)| (a - b).abs()).sum();
            let rough = 1.0 + ROUGHNESS * unit(bits(origin, index));
            *x = convert(f64::from(distance) * rough * scale);
            index += 1;
        }
    }
}

/// Shortest and longest rows of a compressed matrix differ by a factor of two to this.
const LENGTHS: u64 = 6;

/// Where the rows of a compressed matrix with `total` entries begin, and its end. Row lengths lie between a twentieth and the
/// fourfold of the average, in no order: where a row begins says nothing of where the next ones do.
pub fn offsets(origin: u64, total: u64, out: &mut [i32]) {
    let rows = out.len().saturating_sub(1) as u64;
    let weight = |row: u64| {
        let bits = bits(origin, row);
        ((1 << 32) | (bits >> 32)) << (((bits & 0xffff) * LENGTHS) >> 16)
    };
    let all = (0..rows).map(weight).sum::<u64>().max(1);
    let mut before = 0u64;
    for (row, x) in (0..).zip(out) {
        *x = (u128::from(before) * u128::from(total) / u128::from(all)) as i32;
        if row < rows {
            before += weight(row);
        }
    }
}

#[cfg(test)]
mod tests;
