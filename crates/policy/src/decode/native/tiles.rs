//! Products of weights in bfloat16 on a processor with matrix tiles (Intel AMX).
//!
//! A tile instruction multiplies 16 rows of one matrix by 16 columns of another, 32 numbers deep. The rows are the
//! weights, read in place. The inputs are rounded to bfloat16 and laid out in pairs once for each product ([`pack`]).
//! Sums are in single precision.

use std::arch::asm;
use std::arch::x86_64::{
    __cpuid_count, __m512, _mm512_add_ps, _mm512_i32gather_ps, _mm512_loadu_ps, _mm512_mullo_epi32,
    _mm512_set1_epi32, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_storeu_ps, _xgetbv,
};
use std::ops::Range;
use std::sync::OnceLock;

use super::kernels::Start;

/// Rows and columns of a tile's result.
pub(super) const SIDE: usize = 16;

/// Depth of a tile in numbers.
pub(super) const DEPTH: usize = 32;

/// True if this processor has tiles for bfloat16 and the kernel lets this process use them.
pub(super) fn are_here() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        let has = std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("xsave")
            && __cpuid_count(0, 0).eax >= 7;
        if !has {
            return false;
        }
        let features = __cpuid_count(7, 0).edx;
        let (tiles, products) = (features >> 24 & 1 == 1, features >> 22 & 1 == 1);
        // SAFETY: a processor with xsave whose kernel uses it has this instruction.
        let saved = __cpuid_count(1, 0).ecx >> 27 & 1 == 1 && unsafe { state() } >> 17 & 3 == 3;
        tiles && products && saved && permitted()
    })
}

#[target_feature(enable = "xsave")]
unsafe fn state() -> u64 {
    // SAFETY: the caller's promise.
    unsafe { _xgetbv(0) }
}

/// Requests tiles from Linux, which reserves room for their state only for a process that requests them. True if
/// granted.
fn permitted() -> bool {
    const REQUEST: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: a request for a feature; a refusal changes nothing.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILE_DATA) == 0 }
}

/// Length of the packed inputs of a product, for `rows` rows of `inputs` numbers: [groups of 16 rows][inputs / 2][16
/// rows], two numbers in each element.
pub(super) fn packed_len(rows: usize, inputs: usize) -> usize {
    rows.div_ceil(SIDE) * SIDE * inputs.div_ceil(2)
}

/// Packs the numbers of some columns of a row; the first column has an even index.
///
/// # Safety
/// `packed` is as long as [`packed_len`] says, and nothing else accesses these columns of the row.
pub(super) unsafe fn pack(
    row: usize,
    numbers: &[f32],
    columns: Range<usize>,
    inputs: usize,
    packed: *mut u32,
) {
    let pairs = inputs.div_ceil(2);
    let own = row / SIDE * SIDE * pairs + row % SIDE;
    for (pair, two) in (columns.start / 2..).zip(numbers.chunks(2)) {
        let low = rounded(two[0]);
        let high = two.get(1).map_or(0, |x| rounded(*x));
        // SAFETY: the caller's promise.
        unsafe {
            *packed.add(own + pair * SIDE) = u32::from(high) << 16 | u32::from(low);
        }
    }
}

/// The nearest number in bfloat16; of two equally near ones, the even one.
fn rounded(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fc0;
    }
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The shape of all tiles: 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    first_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPE: Shape = Shape {
    palette: 1,
    first_row: 0,
    reserved: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

macro_rules! zero {
    ($($tile:literal)*) => { $(asm!(concat!("tilezero tmm", $tile), options(nostack, nomem));)* };
}

macro_rules! load {
    ($tile:literal, $from:expr, $stride:expr) => {
        asm!(concat!("tileloadd tmm", $tile, ", [{from} + {stride}*1]"), from = in(reg) $from, stride = in(reg) $stride, options(nostack, readonly))
    };
}

macro_rules! multiply {
    ($to:literal, $weights:literal, $inputs:literal) => {
        asm!(
            concat!("tdpbf16ps tmm", $to, ", tmm", $weights, ", tmm", $inputs),
            options(nostack, nomem)
        )
    };
}

macro_rules! store {
    ($tile:literal, $to:expr) => {
        asm!(concat!("tilestored [{to} + {stride}*1], tmm", $tile), to = in(reg) $to, stride = in(reg) 64usize, options(nostack))
    };
}

/// The result of a tile: 16 outputs of 16 rows.
#[repr(C, align(64))]
struct Result16([f32; SIDE * SIDE]);

/// Columns `outputs` of `out` [rows, stride] = start + packed inputs · weightsᵀ, for outputs that fill whole tiles.
/// Returns the remaining outputs.
///
/// `weights` is [outputs, inputs], and `inputs` a multiple of [`DEPTH`].
///
/// # Safety
/// Tiles [are here](are_here); `packed` is as long as [`packed_len`] says, `weights` has the outputs, `out` is valid
/// for `rows` rows, and meanwhile nothing else accesses those columns of `out` or writes to `packed`.
#[target_feature(enable = "avx512f")]
#[expect(clippy::too_many_arguments, reason = "a kernel")]
pub(super) unsafe fn product(
    rows: usize,
    packed: *const u32,
    weights: &[u16],
    inputs: usize,
    outputs: Range<usize>,
    start: Start<'_>,
    out: *mut f32,
    stride: usize,
) -> Range<usize> {
    assert!(inputs.is_multiple_of(DEPTH) && outputs.end * inputs <= weights.len());
    if let Start::Bias(bias) = start {
        assert!(bias.len() >= outputs.end);
    }
    let groups = rows.div_ceil(SIDE);
    let of_group = SIDE * inputs / 2;
    let width = 2 * inputs;
    let mut results = [const { Result16([0.0; SIDE * SIDE]) }; 4];
    let whole = outputs.start + outputs.len() / SIDE * SIDE;
    // SAFETY: the assertions and the caller's promise. The tiles that are configured here are released below, and no
    // other code uses tiles.
    unsafe {
        asm!("ldtilecfg [{shape}]", shape = in(reg) &raw const SHAPE, options(nostack, readonly));
        let mut first = outputs.start;
        while first < whole {
            let upper = weights.as_ptr().add(first * inputs);
            // The next sixteen outputs; the first sixteen again if no others are left.
            let two = first + 2 * SIDE <= whole;
            let lower = if two { upper.add(SIDE * inputs) } else { upper };
            let mut group = 0;
            while group < groups {
                let left = packed.add(group * of_group);
                let pair = group + 1 < groups;
                let right = if pair { left.add(of_group) } else { left };
                zero!("0" "1" "2" "3");
                let mut k = 0;
                match (two, pair) {
                    (true, true) => {
                        while k < inputs {
                            let at = k / 2 * SIDE;
                            load!("4", upper.add(k), width);
                            load!("6", left.add(at), 64usize);
                            multiply!("0", "4", "6");
                            load!("7", right.add(at), 64usize);
                            multiply!("1", "4", "7");
                            load!("5", lower.add(k), width);
                            multiply!("2", "5", "6");
                            multiply!("3", "5", "7");
                            k += DEPTH;
                        }
                    }
                    _ => {
                        while k < inputs {
                            let at = k / 2 * SIDE;
                            load!("4", upper.add(k), width);
                            load!("6", left.add(at), 64usize);
                            multiply!("0", "4", "6");
                            if pair {
                                load!("7", right.add(at), 64usize);
                                multiply!("1", "4", "7");
                            }
                            if two {
                                load!("5", lower.add(k), width);
                                multiply!("2", "5", "6");
                            }
                            k += DEPTH;
                        }
                    }
                }
                store!("0", results[0].0.as_mut_ptr());
                store!("1", results[1].0.as_mut_ptr());
                store!("2", results[2].0.as_mut_ptr());
                store!("3", results[3].0.as_mut_ptr());
                for (n, result) in results.iter().enumerate() {
                    let (down, across) = (n / 2, n % 2);
                    if (down == 1 && !two) || (across == 1 && !pair) {
                        continue;
                    }
                    let row = (group + across) * SIDE;
                    let column = first + down * SIDE;
                    let to = out.add(row * stride + column);
                    turn(result, SIDE.min(rows - row), column, start, to, stride);
                }
                group += 2;
            }
            first += if two { 2 * SIDE } else { SIDE };
        }
        asm!("tilerelease", options(nostack, nomem));
    }
    whole..outputs.end
}

/// Writes a tile's result into columns of `to`: the result's rows are outputs, and become the columns of `rows` rows.
#[target_feature(enable = "avx512f")]
unsafe fn turn(
    result: &Result16,
    rows: usize,
    column: usize,
    start: Start<'_>,
    to: *mut f32,
    stride: usize,
) {
    // SAFETY: `product` checked the bounds.
    unsafe {
        let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let places = _mm512_mullo_epi32(places, _mm512_set1_epi32(SIDE as i32));
        let begin: __m512 = match start {
            Start::Bias(bias) => _mm512_loadu_ps(bias.as_ptr().add(column)),
            Start::Zero | Start::Result => _mm512_setzero_ps(),
        };
        for row in 0..rows {
            let at = to.add(row * stride);
            let before = match start {
                Start::Result => _mm512_loadu_ps(at),
                _ => begin,
            };
            let from = result.0.as_ptr().add(row);
            let sums = _mm512_i32gather_ps::<4>(places, from.cast());
            _mm512_storeu_ps(at, _mm512_add_ps(before, sums));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn widened(x: u16) -> f64 {
        f64::from(f32::from_bits(u32::from(x) << 16))
    }

    #[test]
    fn rounding_is_to_the_nearest_even() {
        for (x, wanted) in [
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::INFINITY, 0x7f80),
            (-0.0, 0x8000),
            (f32::from_bits(0x7fff_ffff), 0x7fc0),
        ] {
            assert_eq!(rounded(x), wanted, "{x}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// Any number of rows and outputs, at any start; the remaining outputs are returned and left untouched.
        #[test]
        fn products_are_those_of_the_rounded_numbers(rows in 1usize..70, deep in 1usize..4, first in 0usize..20, count in 0usize..90, kind in 0usize..3, seed: u32) {
            if !are_here() {
                return Ok(());
            }
            let (inputs, all) = (deep * DEPTH, first + count);
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            let x: Vec<f32> = (0..rows * inputs).map(|_| next()).collect();
            let weights: Vec<u16> = (0..all * inputs).map(|_| rounded(next())).collect();
            let bias: Vec<f32> = (0..all).map(|_| next()).collect();
            let stride = all + 3;
            let before: Vec<f32> = (0..rows * stride).map(|_| next()).collect();
            let mut out = before.clone();
            let mut packed = vec![0u32; packed_len(rows, inputs)];
            for (row, numbers) in x.chunks(inputs).enumerate() {
                // In two parts, as two threads would pack them.
                let middle = inputs / 4 * 2;
                for part in [0..middle, middle..inputs] {
                    // SAFETY: the buffer has the row.
                    unsafe { pack(row, &numbers[part.clone()], part, inputs, packed.as_mut_ptr()) };
                }
            }
            let start = [Start::Zero, Start::Bias(&bias), Start::Result][kind];
            // SAFETY: tiles are available, and all lengths are sufficient.
            let left = unsafe {
                product(rows, packed.as_ptr(), &weights, inputs, first..all, start, out.as_mut_ptr(), stride)
            };
            prop_assert_eq!((left.end, left.len()), (all, count % SIDE));
            for row in 0..rows {
                for n in 0..stride {
                    let (found, old) = (out[row * stride + n], before[row * stride + n]);
                    if !(first..left.start).contains(&n) {
                        prop_assert_eq!(found, old);
                        continue;
                    }
                    let begin = [0.0, bias[n], old][kind];
                    let sum: f64 = (0..inputs)
                        .map(|k| widened(rounded(x[row * inputs + k])) * widened(weights[n * inputs + k]))
                        .sum();
                    let wanted = f64::from(begin) + sum;
                    prop_assert!((f64::from(found) - wanted).abs() < 1e-4, "{row} {n}: {found} {wanted}");
                }
            }
        }
    }
}
