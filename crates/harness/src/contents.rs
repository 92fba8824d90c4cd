//! Inputs with structure, which permit no shortcut.
//!
//! Independent numbers of one range make some problems easy. On a complete graph with such weights only the lightest
//! edges matter, and the row starts of a sparse matrix are known beforehand. The inputs here are as cheap to make and
//! have no such shortcut.

use crate::inputs::Stream;

/// Uniform in [0, 1) with 32 random bits.
#[inline(always)]
fn unit(bits: u64) -> f64 {
    (bits >> 32) as f64 * (1.0 / 4_294_967_296.0)
}

/// The shift of each row's elements, uniform in [-by, by).
fn shifts(stream: &Stream, elements: usize, columns: usize, by: f64) -> impl Iterator<Item = f64> {
    let rows = stream.apart(elements.div_ceil(columns)).into_iter();
    rows.map(move |bits| (2.0 * unit(bits) - 1.0) * by)
}

/// Moves elements that are uniform in [-0.5, 0.5) to [low, high), and each row by its shift.
pub fn shift_f64(
    stream: &Stream,
    columns: usize,
    (low, high, by): (f64, f64, f64),
    out: &mut [f64],
) {
    let columns = columns.max(1);
    let shifts = shifts(stream, out.len(), columns, by);
    for (shift, elements) in shifts.zip(out.chunks_mut(columns)) {
        let (middle, width) = ((low + high) / 2.0 + shift, high - low);
        elements.iter_mut().for_each(|x| *x = middle + *x * width);
    }
}

/// The same for floats.
pub fn shift_f32(
    stream: &Stream,
    columns: usize,
    (low, high, by): (f64, f64, f64),
    out: &mut [f32],
) {
    let columns = columns.max(1);
    let shifts = shifts(stream, out.len(), columns, by);
    for (shift, elements) in shifts.zip(out.chunks_mut(columns)) {
        let middle = ((low + high) / 2.0 + shift) as f32;
        let width = (high - low) as f32;
        elements.iter_mut().for_each(|x| *x = middle + *x * width);
    }
}

/// A number of either sign with a size in [low, low·2^binades); all binades are equally likely.
#[inline(always)]
fn magnitude(bits: u64, low: f64, binades: u64) -> f64 {
    let exponent = ((bits & 0xffff) * binades) >> 16;
    let size = low * f64::from_bits((1023 + exponent) << 52) * (1.0 + unit(bits));
    if bits & 0x1_0000 == 0 { size } else { -size }
}

/// Number of doublings from `low` to `high`.
fn binades(low: f64, high: f64) -> u64 {
    (high / low).log2().clamp(1.0, 900.0) as u64
}

/// Fills `out` with numbers of sizes from `low` to `high`.
pub fn magnitudes<T>(
    stream: &Stream,
    low: f64,
    high: f64,
    out: &mut [T],
    convert: impl Fn(f64) -> T,
) {
    let binades = binades(low, high);
    stream.fill(out, |bits| convert(magnitude(bits, low, binades)));
}

/// Fills `out` from integers that are uniform in `low..=high`; a range that is none gives `low`.
pub fn integers<T>(
    stream: &Stream,
    low: i64,
    high: i64,
    out: &mut [T],
    mut convert: impl FnMut(i64) -> T,
) {
    let width = (i128::from(high) - i128::from(low) + 1).clamp(1, 1 << 64) as u128;
    if width <= 1 << 32 {
        let width = width as u64;
        stream.fill(out, |bits| {
            convert(low + (((bits >> 32) * width) >> 32) as i64)
        });
    } else {
        // The product of two 64-bit numbers has 128 bits, and its upper half is below `width`.
        stream.fill(out, |bits| {
            convert(low.wrapping_add(((u128::from(bits) * width) >> 64) as i64))
        });
    }
}

/// Fills `out` with integers whose running sums are uniform in `low..=high`.
pub fn steps<T>(stream: &Stream, low: i64, high: i64, out: &mut [T], convert: impl Fn(i64) -> T) {
    let mut before = 0i64;
    integers(stream, low, high, out, |here| {
        let step = here.wrapping_sub(before);
        before = here;
        convert(step)
    });
}

/// Lets one element in four repeat one of the three before it, so that programs cannot take neighbours to be different.
pub fn repeat<T: Copy>(stream: &Stream, out: &mut [T]) {
    let chances = stream.apart(out.len());
    for (i, bits) in chances.into_iter().enumerate().skip(3) {
        let chance = bits >> 32;
        if chance & 3 == 0 {
            out[i] = out[i - 1 - ((chance >> 2) % 3) as usize];
        }
    }
}

/// Largest relative excess of an edge over the distance of its ends.
const ROUGHNESS: f64 = 0.2;

/// Fills a matrix with rough distances: element (i, j) is the sum of the differences of the coordinates of random
/// points i and j in four dimensions, times a random factor from 1 to 1 + [`ROUGHNESS`] for each element. `convert`
/// gets numbers in [0, high).
///
/// In four dimensions about half of all pairs are nearer by way of other points. The scatter of the points is so large
/// that no bound on a row or on a group of points rules out a shorter way.
pub fn distances<T>(
    stream: &Stream,
    columns: usize,
    high: f64,
    out: &mut [T],
    convert: impl Fn(f64) -> T,
) {
    const COORDINATES: u32 = 4;
    let point = |bits: u64| {
        std::array::from_fn::<i32, { COORDINATES as usize }, _>(|c| {
            (bits >> (16 * c)) as u16 as i32
        })
    };
    let columns = columns.max(1);
    let points: Vec<_> = stream.apart(columns).into_iter().map(point).collect();
    let scale = high / (f64::from(COORDINATES << 16) * (1.0 + ROUGHNESS));
    let (mut row, mut column) = (0, 0);
    stream.fill(out, |bits| {
        let both = points[row].iter().zip(&points[column]);
        let distance: i32 = both.map(|(a, b)| (a - b).abs()).sum();
        let rough = 1.0 + ROUGHNESS * unit(bits);
        column += 1;
        if column == columns {
            (row, column) = ((row + 1) % columns, 0);
        }
        convert(f64::from(distance) * rough * scale)
    });
}

/// The ratio of the longest to the shortest rows of a compressed matrix is two to this power.
const LENGTHS: u64 = 6;

/// Where the rows of a compressed matrix with `total` entries begin, and its end. Row lengths lie between a twentieth and the
/// fourfold of the average, in no order: where a row begins says nothing of where the next ones do.
pub fn offsets<T>(stream: &Stream, total: u64, out: &mut [T], convert: impl Fn(u64) -> T) {
    let rows = out.len().saturating_sub(1);
    let mut weights = stream.apart(rows);
    for weight in &mut weights {
        *weight = ((1 << 32) | (*weight >> 32)) << (((*weight & 0xffff) * LENGTHS) >> 16);
    }
    let all = weights.iter().sum::<u64>().max(1);
    let mut before = 0u64;
    for (row, x) in out.iter_mut().enumerate() {
        *x = convert((u128::from(before) * u128::from(total) / u128::from(all)) as u64);
        before += weights.get(row).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests;
