//! The counter-based generator of input elements.
//!
//! Element `index` of stream `stream` under `seed` needs no other element. The
//! mixing uses 32 × 32 → 64 bit products only, because those have a vector
//! instruction on every x86-64 while 64 × 64 bit ones have not; filling two
//! 256 × 256 matrices takes a small part of a timed call.

/// Bits of an output element before a call: a quiet NaN no computation produces.
pub const POISON_F64: u64 = 0x7ff8_dead_beef_f10f;
/// The same for single precision.
pub const POISON_F32: u32 = 0x7fc0_f10f;
/// The same for 32-bit integers. No integer is impossible, so this one is only unlikely.
pub const POISON_I32: u32 = 0xdead_f10f;

use crate::contents;
use crate::control::Content;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Keeps the grades of rows apart from their elements.
const GRADES: u64 = 0x6a09_e667_f3bc_c908;

/// Where a stream's counter starts. One full 64-bit mix (Stafford's variant 13
/// of the MurmurHash3 finaliser) decorrelates seeds and streams.
pub fn origin(seed: u64, stream: u64) -> u64 {
    let mut z = seed ^ stream.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One round of the Philox-2x32 network (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
/// the low word is multiplied, the halves change places.
#[inline(always)]
fn round(x: u64, key: u64) -> u64 {
    (x & 0xffff_ffff).wrapping_mul(0xd256_d193).rotate_left(32) ^ (x >> 32) ^ key
}

/// 64 mixed bits for a counter whose steps are already spread over all bits; so few rounds are enough.
#[inline(always)]
fn mix(counter: u64) -> u64 {
    round(round(round(counter, 0x9e37_79b9), 0x3c6e_f372), 0xdaa6_6d2b)
}

/// 64 random bits of element `index` of the stream that starts at `origin`.
#[inline(always)]
pub fn bits(origin: u64, index: u64) -> u64 {
    mix(origin.wrapping_add(index.wrapping_mul(STEP)))
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

/// An integer in [-8, 7].
#[inline(always)]
fn to_i32(bits: u64) -> i32 {
    (bits >> 60) as i32 - 8
}

/// What the elements of a row are multiplied by in the graded array that starts at `origin`: a power of two from 1 down to 2 to
/// the minus `binades`, so that no digit is lost.
pub fn grade(origin: u64, row: u64, binades: u32) -> f64 {
    let exponent = ((bits(origin ^ GRADES, row) >> 32) * (u64::from(binades) + 1)) >> 32;
    f64::from_bits((1023 - exponent) << 52)
}

/// Element `index` of the stream that starts at `origin`, uniform in [-0.5, 0.5).
pub fn element(origin: u64, index: u64) -> f64 {
    to_f64(bits(origin, index))
}

macro_rules! fill {
    ($(#[$doc:meta])* $name:ident, $wide:ident, $type:ty, $convert:ident) => {
        $(#[$doc])*
        pub fn $name(origin: u64, out: &mut [$type]) {
            #[inline(always)]
            fn fill(mut counter: u64, out: &mut [$type]) {
                for x in out {
                    *x = $convert(mix(counter));
                    // Adding is cheaper than multiplying the index: there is no vector product of 64 bits.
                    counter = counter.wrapping_add(STEP);
                }
            }
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn $wide(origin: u64, out: &mut [$type]) {
                    fill(origin, out);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    #[expect(unsafe_code, reason = "a function compiled for a feature checked at run time")]
                    // SAFETY: the processor has AVX2.
                    return unsafe { $wide(origin, out) };
                }
            }
            fill(origin, out);
        }
    };
}

fill!(
    /// Fills `out` with doubles uniform in [-0.5, 0.5).
    fill_f64, fill_f64_avx2, f64, to_f64
);
fill!(
    /// Fills `out` with floats uniform in [-0.5, 0.5).
    fill_f32, fill_f32_avx2, f32, to_f32
);
fill!(
    /// Fills `out` with integers in [-8, 7].
    fill_i32, fill_i32_avx2, i32, to_i32
);

impl Content {
    /// Fills an array of doubles from the stream that starts at `origin`.
    pub fn fill_f64(self, origin: u64, out: &mut [f64]) {
        fill_f64(origin, out);
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
                    let grade = grade(origin, row, binades);
                    elements.iter_mut().for_each(|x| *x *= grade);
                }
            }
            Content::Shifted {
                columns,
                low,
                high,
                by,
            } => contents::shift_f64(origin, columns, (low, high, by), out),
            Content::Magnitudes { low, high } => contents::magnitudes_f64(origin, low, high, out),
            Content::Distances { columns, high } => {
                contents::distances(origin, columns, high, out, |x| x);
            }
            Content::Uniform
            | Content::Offsets { .. }
            | Content::Steps { .. }
            | Content::Repeating { .. } => {}
        }
    }

    /// Fills an array of floats.
    pub fn fill_f32(self, origin: u64, out: &mut [f32]) {
        fill_f32(origin, out);
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
                    let grade = grade(origin, row, binades) as f32;
                    elements.iter_mut().for_each(|x| *x *= grade);
                }
            }
            Content::Shifted {
                columns,
                low,
                high,
                by,
            } => contents::shift_f32(origin, columns, (low, high, by), out),
            Content::Magnitudes { low, high } => contents::magnitudes_f32(origin, low, high, out),
            Content::Distances { columns, high } => {
                contents::distances(origin, columns, high, out, |x| x as f32);
            }
            Content::Uniform
            | Content::Offsets { .. }
            | Content::Steps { .. }
            | Content::Repeating { .. } => {}
        }
    }

    /// Fills an array of integers.
    pub fn fill_i32(self, origin: u64, out: &mut [i32]) {
        match self {
            Content::Range { low, high } => fill_range(origin, low as i64, high as i64, out),
            Content::Offsets { total } => contents::offsets(origin, total, out),
            Content::Magnitudes { low, high } => contents::magnitudes_i32(origin, low, high, out),
            Content::Steps { low, high } => {
                contents::steps(origin, low as i64, high as i64, out);
            }
            Content::Repeating { low, high } => {
                fill_range(origin, low as i64, high as i64, out);
                contents::repeat(origin, out);
            }
            Content::Distances { columns, high } => {
                contents::distances(origin, columns, high, out, |x| 1 + x as i32);
            }
            Content::Uniform
            | Content::Dominant { .. }
            | Content::Graded { .. }
            | Content::Shifted { .. } => {
                fill_i32(origin, out);
            }
        }
    }
}

fn diagonals<T>(columns: usize, out: &mut [T], mut change: impl FnMut(&mut T)) {
    for matrix in out.chunks_mut((columns * columns).max(1)) {
        matrix.iter_mut().step_by(columns + 1).for_each(&mut change);
    }
}

/// Integers in `low..=high`; a range that is none gives `low`.
fn fill_range(origin: u64, low: i64, high: i64, out: &mut [i32]) {
    let width = (high - low + 1).clamp(1, 1 << 32) as u64;
    let mut counter = origin;
    for x in out {
        *x = (low + (((mix(counter) >> 32) * width) >> 32) as i64) as i32;
        counter = counter.wrapping_add(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn filling_agrees_with_single_elements(seed: u64, stream in 0u64..8, n in 0usize..300) {
            let start = origin(seed, stream);
            let mut out = vec![0.0; n];
            fill_f64(start, &mut out);
            for (i, x) in out.iter().enumerate() {
                prop_assert_eq!(x.to_bits(), element(start, i as u64).to_bits());
                prop_assert!((-0.5..0.5).contains(x));
            }
        }

        #[test]
        fn rows_of_graded_arrays_differ_by_powers_of_two(seed: u64, rows in 0usize..9, columns in 1usize..40) {
            let mut out = vec![0.0; rows * columns];
            Content::Graded { columns, binades: 31 }.fill_f64(seed, &mut out);
            for (i, x) in out.iter().enumerate() {
                let grade = grade(seed, (i / columns) as u64, 31);
                prop_assert!((2f64.powi(-31)..=1.0).contains(&grade) && grade.log2().fract() == 0.0);
                prop_assert_eq!(x / grade, element(seed, i as u64));
            }
        }

        #[test]
        fn integers_and_floats_stay_in_range(seed: u64) {
            let mut ints = vec![0i32; 257];
            fill_i32(seed, &mut ints);
            prop_assert!(ints.iter().all(|x| (-8..8).contains(x)));
            let mut floats = vec![0f32; 257];
            fill_f32(seed, &mut floats);
            prop_assert!(floats.iter().all(|x| (-0.5..0.5).contains(x)));
        }
    }

    proptest! {
        #[test]
        fn contents_keep_their_ranges(seed: u64, low in -1000i64..1000, more in 0i64..100_000, n in 1usize..300, average in 0u64..20) {
            let content = Content::Range { low: low as f64, high: (low + more) as f64 };
            let mut ints = vec![0i32; n];
            content.fill_i32(seed, &mut ints);
            prop_assert!(ints.iter().all(|x| (low..=low + more).contains(&i64::from(*x))));
            let mut doubles = vec![0f64; n];
            content.fill_f64(seed, &mut doubles);
            prop_assert!(doubles.iter().all(|x| (low as f64..=(low + more) as f64).contains(x)));
            let total = average * n as u64 + seed % (n as u64);
            let mut offsets = vec![-1i32; n + 1];
            Content::Offsets { total }.fill_i32(seed, &mut offsets);
            prop_assert_eq!(offsets[0], 0);
            prop_assert_eq!(offsets[n] as u64, total);
            prop_assert!(offsets.is_sorted(), "{:?}", offsets);
        }
    }

    #[test]
    fn most_rows_of_a_graded_array_have_another_grade_than_the_next() {
        let alike = (0..1000).filter(|&row| grade(7, row, 31) == grade(7, row + 128, 31));
        assert!(alike.count() < 100);
    }

    #[test]
    fn the_whole_range_of_integers_is_reached() {
        let mut ints = vec![0i32; 1 << 16];
        let all = Content::Range {
            low: f64::from(i32::MIN),
            high: f64::from(i32::MAX),
        };
        all.fill_i32(3, &mut ints);
        assert!(
            ints.iter().any(|x| *x < -2_000_000_000) && ints.iter().any(|x| *x > 2_000_000_000)
        );
        let mut bits = vec![0i32; 4096];
        Content::Range {
            low: 0.0,
            high: 1.0,
        }
        .fill_i32(4, &mut bits);
        let ones: i32 = bits.iter().sum();
        assert!((1848..2248).contains(&ones), "{ones}");
    }

    #[test]
    fn dominant_matrices_have_their_diagonal() {
        let mut x = vec![0f64; 2 * 25];
        Content::Dominant { columns: 5 }.fill_f64(1, &mut x);
        for (n, value) in x.iter().enumerate() {
            let diagonal = n % 25 % 6 == 0;
            assert_eq!(*value > 4.0, diagonal, "element {n}: {value}");
        }
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
            fill_f64(origin(seed, 0), &mut a);
            fill_f64(origin(seed, 1), &mut b);
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
            fill_f64(origin(seed.wrapping_add(1), 0), &mut next);
            assert!(correlation(&a, &next).abs() < limit, "seeds are correlated");
        }
    }

    #[test]
    fn no_rank_is_lost() {
        // A matrix with dependent rows could be multiplied with less work.
        let n = 64;
        let mut m = vec![0.0; n * n];
        fill_f64(origin(7, 0), &mut m);
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
