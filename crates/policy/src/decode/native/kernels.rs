//! The arithmetic of one step, written once for every vector width.
//!
//! Matrices of activations have rows of a padded stride, a multiple of a panel's width: no kernel needs a tail. The
//! padding is never read as a result.
//!
//! Everything here is inlined into a function that is compiled for the vectors in use; hence `inline(always)`.

use super::simd::{Simd, exp};
use crate::decode::space::zeros;
use crate::error::Result;

/// The initial value of a matrix product's sums.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// Zero.
    Zero,
    /// A bias, as long as the result's stride.
    Bias(&'a [f32]),
    /// The present content of the result.
    Result,
}

/// A matrix [outputs, inputs] in panels of two vectors' width: [outputs / width][inputs][width], the last one padded
/// with zeros.
#[derive(Debug)]
pub(super) struct Panels {
    pub values: Vec<f32>,
    pub inputs: usize,
    pub outputs: usize,
}

impl Panels {
    /// Packs `weights` [outputs, inputs] for vectors of `lanes`.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, lanes: usize) -> Result<Self> {
        let width = 2 * lanes;
        let count = outputs.div_ceil(width) * width * inputs;
        let mut values = zeros(count, "pack the weights")?;
        for (n, row) in weights.chunks_exact(inputs).take(outputs).enumerate() {
            let panel = &mut values[n / width * width * inputs..];
            for (k, w) in row.iter().enumerate() {
                panel[k * width + n % width] = *w;
            }
        }
        Ok(Panels {
            values,
            inputs,
            outputs,
        })
    }
}

/// `out` [rows, stride] = start + `a` [rows, `a_stride`] · panelsᵀ.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn product<S: Simd>(
    rows: usize,
    a: &[f32],
    a_stride: usize,
    weights: &Panels,
    start: Start<'_>,
    out: &mut [f32],
    stride: usize,
) {
    let (k, width) = (weights.inputs, 2 * S::LANES);
    let panels = weights.outputs.div_ceil(width);
    assert!(a.len() >= rows.saturating_sub(1) * a_stride + k && a_stride >= k);
    assert!(out.len() >= rows * stride && stride >= panels * width);
    assert!(weights.values.len() >= panels * width * k);
    if let Start::Bias(bias) = start {
        assert!(bias.len() >= panels * width);
    }
    // Blocks of even size: at 6 rows a block, 32 rows become two blocks of 6 and four of 5, not five of 6 and one of 2.
    let blocks = rows.div_ceil(S::ROWS).max(1);
    for panel in 0..panels {
        let mut row = 0;
        for block in 0..blocks {
            let count = (rows - row).div_ceil(blocks - block);
            // SAFETY: the assertions above; `count` is at most `S::ROWS`.
            unsafe {
                let a = a.as_ptr().add(row * a_stride);
                let b = weights.values.as_ptr().add(panel * width * k);
                let c = out.as_mut_ptr().add(row * stride + panel * width);
                let bias = match start {
                    Start::Bias(bias) => bias.as_ptr().add(panel * width),
                    Start::Zero | Start::Result => std::ptr::null(),
                };
                let again = matches!(start, Start::Result);
                macro_rules! dispatch {
                    ($($n:literal)*) => {
                        match count {
                            $($n if $n <= S::ROWS => tile::<S, $n>(k, a, a_stride, b, bias, again, c, stride),)*
                            _ => {}
                        }
                    };
                }
                dispatch!(1 2 3 4 5 6 7 8 9 10 11 12);
            }
            row += count;
        }
    }
}

/// `M` rows by two vectors.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the innermost kernel")]
unsafe fn tile<S: Simd, const M: usize>(
    k: usize,
    a: *const f32,
    a_stride: usize,
    mut b: *const f32,
    bias: *const f32,
    again: bool,
    c: *mut f32,
    stride: usize,
) {
    // SAFETY: `product` checked all the bounds.
    unsafe {
        let zero = S::splat(0.0);
        let mut sums = [[zero; 2]; M];
        if !bias.is_null() {
            sums = [[S::load(bias), S::load(bias.add(S::LANES))]; M];
        }
        let mut p = 0;
        while p < k {
            let (left, right) = (S::load(b), S::load(b.add(S::LANES)));
            let mut i = 0;
            while i < M {
                let x = S::splat(*a.add(i * a_stride + p));
                sums[i][0] = S::fma(x, left, sums[i][0]);
                sums[i][1] = S::fma(x, right, sums[i][1]);
                i += 1;
            }
            b = b.add(2 * S::LANES);
            p += 1;
        }
        let mut i = 0;
        while i < M {
            let to = c.add(i * stride);
            let [mut left, mut right] = sums[i];
            if again {
                left = S::add(left, S::load(to));
                right = S::add(right, S::load(to.add(S::LANES)));
            }
            S::store(to, left);
            S::store(to.add(S::LANES), right);
            i += 1;
        }
    }
}

/// RMSNorm (Zhang & Sennrich, 2019) of one row; lengths are multiples of a vector, `width` is the length without
/// padding.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn norm<S: Simd>(
    x: &[f32],
    weight: &[f32],
    width: usize,
    eps: f32,
    out: &mut [f32],
) {
    let padded = width.next_multiple_of(S::LANES);
    assert!(x.len() >= padded && weight.len() >= padded && out.len() >= padded);
    // SAFETY: the assertion above.
    unsafe {
        let mut squares = S::splat(0.0);
        for i in (0..padded).step_by(S::LANES) {
            let v = S::load(x.as_ptr().add(i));
            squares = S::fma(v, v, squares);
        }
        let mean = sum::<S>(squares) / width as f32;
        let by = S::splat(1.0 / (mean + eps).sqrt());
        for i in (0..padded).step_by(S::LANES) {
            let v = S::mul(S::load(x.as_ptr().add(i)), by);
            S::store(
                out.as_mut_ptr().add(i),
                S::mul(v, S::load(weight.as_ptr().add(i))),
            );
        }
    }
}

/// `out` = silu(`gate`) · `up`, in whole vectors; `len` is rounded up to whole vectors.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn gated<S: Simd>(gate: *const f32, up: *const f32, out: *mut f32, len: usize) {
    // SAFETY: the caller's promise for `len` rounded up to whole vectors.
    unsafe {
        let one = S::splat(1.0);
        for i in (0..len).step_by(S::LANES) {
            let g = S::load(gate.add(i));
            let minus = S::mul(g, S::splat(-1.0));
            let y = S::div(g, S::add(one, exp::<S>(minus)));
            S::store(out.add(i), S::mul(y, S::load(up.add(i))));
        }
    }
}

/// Turns `len` scores into weights e^(score - greatest) in place, sets the rest of the last vector to 0, and returns
/// their sum.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn exponentials<S: Simd>(scores: &mut [f32], len: usize) -> f32 {
    let padded = len.next_multiple_of(S::LANES);
    assert!(len > 0 && scores.len() >= padded);
    scores[len..padded].fill(f32::NEG_INFINITY);
    // SAFETY: the assertion above.
    unsafe {
        let p = scores.as_mut_ptr();
        let mut greatest = S::load(p);
        for i in (S::LANES..padded).step_by(S::LANES) {
            greatest = S::max(greatest, S::load(p.add(i)));
        }
        let mut lanes = [f32::NEG_INFINITY; 16];
        S::store(lanes.as_mut_ptr(), greatest);
        let mut top = lanes[0];
        for lane in &lanes[..S::LANES] {
            top = top.max(*lane);
        }
        let minus = S::splat(-top);
        let mut total = S::splat(0.0);
        for i in (0..padded).step_by(S::LANES) {
            let e = exp::<S>(S::add(S::load(p.add(i)), minus));
            S::store(p.add(i), e);
            total = S::add(total, e);
        }
        // Each padding entry added about 1e-38; the sum is at least 1.
        scores[len..padded].fill(0.0);
        sum::<S>(total)
    }
}

/// Multiplies `len` numbers, rounded up to whole vectors, by `by`.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn scale<S: Simd>(x: &mut [f32], len: usize, by: f32) {
    let padded = len.next_multiple_of(S::LANES);
    assert!(x.len() >= padded);
    // SAFETY: the assertion above.
    unsafe {
        let by = S::splat(by);
        for i in (0..padded).step_by(S::LANES) {
            let at = x.as_mut_ptr().add(i);
            S::store(at, S::mul(S::load(at), by));
        }
    }
}

/// Scores of `Q` queries, [Q, head] one after the other, with `len` keys in runs [runs][head][lanes]: → `scores`, [Q,
/// stride].
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
pub(super) unsafe fn scores<S: Simd, const Q: usize>(
    queries: &[f32],
    head: usize,
    keys: &[f32],
    len: usize,
    out: &mut [f32],
    stride: usize,
) {
    let runs = len.div_ceil(S::LANES);
    assert!(queries.len() >= Q * head && keys.len() >= runs * head * S::LANES);
    assert!(stride >= runs * S::LANES && out.len() >= Q * stride);
    let mut run = 0;
    // SAFETY: the assertions above. Several runs are computed together because their sums are independent of each
    // other.
    unsafe {
        while run + 4 <= runs {
            score_runs::<S, Q, 4>(queries, head, keys, run, out, stride);
            run += 4;
        }
        while run < runs {
            score_runs::<S, Q, 1>(queries, head, keys, run, out, stride);
            run += 1;
        }
    }
}

#[inline(always)]
unsafe fn score_runs<S: Simd, const Q: usize, const R: usize>(
    queries: &[f32],
    head: usize,
    keys: &[f32],
    run: usize,
    out: &mut [f32],
    stride: usize,
) {
    // SAFETY: `scores` checked all the bounds.
    unsafe {
        let mut sums = [[S::splat(0.0); R]; Q];
        let from = keys.as_ptr().add(run * head * S::LANES);
        let mut j = 0;
        while j < head {
            let mut key = [S::splat(0.0); R];
            let mut r = 0;
            while r < R {
                key[r] = S::load(from.add((r * head + j) * S::LANES));
                r += 1;
            }
            let mut q = 0;
            while q < Q {
                let x = S::splat(*queries.as_ptr().add(q * head + j));
                let mut r = 0;
                while r < R {
                    sums[q][r] = S::fma(x, key[r], sums[q][r]);
                    r += 1;
                }
                q += 1;
            }
            j += 1;
        }
        let mut q = 0;
        while q < Q {
            let mut r = 0;
            while r < R {
                S::store(
                    out.as_mut_ptr().add(q * stride + (run + r) * S::LANES),
                    sums[q][r],
                );
                r += 1;
            }
            q += 1;
        }
    }
}

/// Sums of `len` values [len, `value_stride`] weighted for each of `Q` queries, `weights` [Q, stride]: → `out` [Q,
/// head], whose rows are contiguous. `value_stride` is a multiple of a vector; `head` need not be.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel")]
pub(super) unsafe fn mix<S: Simd, const Q: usize>(
    weights: &[f32],
    stride: usize,
    len: usize,
    values: &[f32],
    value_stride: usize,
    head: usize,
    by: &[f32],
    out: &mut [f32],
) {
    assert!(weights.len() >= (Q - 1) * stride + len && values.len() >= len * value_stride);
    assert!(value_stride >= head.next_multiple_of(S::LANES) && by.len() >= Q);
    assert!(out.len() >= Q * head);
    let mut at = 0;
    // SAFETY: the assertions above.
    unsafe {
        while at + 3 * S::LANES <= value_stride {
            mix_columns::<S, Q, 3>(
                weights,
                stride,
                len,
                values,
                value_stride,
                at,
                head,
                by,
                out,
            );
            at += 3 * S::LANES;
        }
        while at < value_stride {
            mix_columns::<S, Q, 1>(
                weights,
                stride,
                len,
                values,
                value_stride,
                at,
                head,
                by,
                out,
            );
            at += S::LANES;
        }
    }
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "the innermost kernel")]
unsafe fn mix_columns<S: Simd, const Q: usize, const C: usize>(
    weights: &[f32],
    stride: usize,
    len: usize,
    values: &[f32],
    value_stride: usize,
    at: usize,
    head: usize,
    by: &[f32],
    out: &mut [f32],
) {
    // SAFETY: `mix` checked all the bounds.
    unsafe {
        let mut sums = [[S::splat(0.0); C]; Q];
        let mut from = values.as_ptr().add(at);
        let mut t = 0;
        while t < len {
            let mut value = [S::splat(0.0); C];
            let mut c = 0;
            while c < C {
                value[c] = S::load(from.add(c * S::LANES));
                c += 1;
            }
            let mut q = 0;
            while q < Q {
                let w = S::splat(*weights.as_ptr().add(q * stride + t));
                let mut c = 0;
                while c < C {
                    sums[q][c] = S::fma(w, value[c], sums[q][c]);
                    c += 1;
                }
                q += 1;
            }
            from = from.add(value_stride);
            t += 1;
        }
        let mut q = 0;
        while q < Q {
            let mut c = 0;
            while c < C {
                let column = at + c * S::LANES;
                let scaled = S::mul(sums[q][c], S::splat(by[q]));
                let to = out.as_mut_ptr().add(q * head + column);
                if column + S::LANES <= head {
                    S::store(to, scaled);
                } else if column < head {
                    let mut lanes = [0.0f32; 16];
                    S::store(lanes.as_mut_ptr(), scaled);
                    std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, head - column);
                }
                c += 1;
            }
            q += 1;
        }
    }
}

#[inline(always)]
unsafe fn sum<S: Simd>(v: S::V) -> f32 {
    let mut lanes = [0.0f32; 16];
    // SAFETY: no vector has more than sixteen numbers.
    unsafe { S::store(lanes.as_mut_ptr(), v) };
    let mut total = 0.0;
    for lane in &lanes[..S::LANES] {
        total += lane;
    }
    total
}
