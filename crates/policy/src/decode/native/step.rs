//! One token of every row of a thread, through the whole model.

use super::kernels::{self, Panels, Start, product};
use super::row::Row;
use super::simd::{Portable, Simd, Width};
use super::weights::{Shape, Weights};
use crate::decode::space::room;
use crate::error::Result;

/// One thread's rows, inputs, outputs and buffers.
pub(super) struct Part<'a> {
    pub rows: &'a mut [Row],
    /// One token for each row.
    pub tokens: &'a [u32],
    /// [rows, stride of the vocabulary].
    pub logits: &'a mut [f32],
    pub scratch: &'a mut Scratch,
}

/// A thread's buffers, reused from step to step.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The residual stream, [rows, hidden].
    x: Vec<f32>,
    /// Input of a product.
    y: Vec<f32>,
    /// Output of the wide products.
    z: Vec<f32>,
    /// Attention scores of two queries for every token.
    scores: Vec<f32>,
}

/// Length of a row in each buffer.
struct Strides {
    x: usize,
    y: usize,
    z: usize,
}

impl Strides {
    #[inline(always)]
    fn of(s: &Shape, lanes: usize) -> Self {
        let pad = |n: usize| n.next_multiple_of(2 * lanes);
        let (h, n, d) = (s.hidden, s.query_heads, s.head);
        let (wide, inner) = (pad((n + 2 * s.kv_heads) * d), s.intermediate);
        Strides {
            x: pad(h),
            y: pad(h.max(n * d).max(inner)),
            // A gated layer reads one vector past the end of each half.
            z: wide.max(pad(2 * inner) + 2 * lanes),
        }
    }
}

/// Number of scores of one query of the longest row, padded to whole vectors.
#[inline(always)]
fn score_stride(rows: &[Row], lanes: usize) -> usize {
    let longest = rows.iter().map(Row::position).max().unwrap_or_default() + 1;
    longest.next_multiple_of(lanes)
}

impl Scratch {
    /// Grows the buffers to fit a step of these rows.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub fn fit(&mut self, shape: &Shape, rows: &[Row], lanes: usize) -> Result<()> {
        let (strides, count) = (Strides::of(shape, lanes), rows.len());
        for (buffer, size) in [
            (&mut self.x, count * strides.x),
            (&mut self.y, count * strides.y),
            (&mut self.z, count * strides.z),
            (&mut self.scores, 2 * score_stride(rows, lanes)),
        ] {
            room(buffer, size, "hold a step's intermediate results")?;
        }
        Ok(())
    }
}

/// Runs one step; the caller has called [`Scratch::fit`].
pub(super) fn run(width: Width, weights: &Weights<'_, Panels>, part: Part<'_>) {
    match width {
        // SAFETY: `Width` names only instructions that were detected on this processor.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512(weights, part) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2(weights, part) },
        // SAFETY: plain arithmetic.
        Width::Portable => unsafe { step::<Portable>(weights, part) },
    }
}

/// Softmax of the first `count` scores times `sharpen`, in place.
pub(super) fn probabilities(width: Width, scores: &mut [f32], count: usize, sharpen: f32) {
    match width {
        // SAFETY: `Width` names only instructions that were detected on this processor.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { softmax_avx512(scores, count, sharpen) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { softmax_avx2(scores, count, sharpen) },
        // SAFETY: plain arithmetic.
        Width::Portable => unsafe { softmax::<Portable>(scores, count, sharpen) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
unsafe fn avx512(weights: &Weights<'_, Panels>, part: Part<'_>) {
    // SAFETY: the caller detected the instructions.
    unsafe { step::<super::simd::Avx512>(weights, part) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(weights: &Weights<'_, Panels>, part: Part<'_>) {
    // SAFETY: the caller detected the instructions.
    unsafe { step::<super::simd::Avx2>(weights, part) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
unsafe fn softmax_avx512(scores: &mut [f32], count: usize, sharpen: f32) {
    // SAFETY: the caller detected the instructions.
    unsafe { softmax::<super::simd::Avx512>(scores, count, sharpen) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn softmax_avx2(scores: &mut [f32], count: usize, sharpen: f32) {
    // SAFETY: the caller detected the instructions.
    unsafe { softmax::<super::simd::Avx2>(scores, count, sharpen) }
}

#[inline(always)]
unsafe fn softmax<S: Simd>(scores: &mut [f32], count: usize, sharpen: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        if sharpen != 1.0 {
            kernels::scale::<S>(scores, count, sharpen);
        }
        let total = kernels::exponentials::<S>(scores, count);
        kernels::scale::<S>(scores, count, 1.0 / total);
    }
}

#[inline(always)]
unsafe fn step<S: Simd>(weights: &Weights<'_, Panels>, part: Part<'_>) {
    let Part {
        rows,
        tokens,
        logits,
        scratch,
    } = part;
    let s = &weights.shape;
    let (h, inner) = (s.hidden, s.intermediate);
    let wide = ((s.query_heads + 2 * s.kv_heads) * s.head).next_multiple_of(2 * S::LANES);
    let Strides {
        x: x_stride,
        y: y_stride,
        z: z_stride,
    } = Strides::of(s, S::LANES);
    let count = rows.len();
    let Scratch { x, y, z, scores } = scratch;
    for (row, token) in tokens.iter().enumerate() {
        let x = &mut x[row * x_stride..][..x_stride];
        weights.embedding.row(*token as usize, x);
        x[h..].fill(0.0);
    }
    // SAFETY: the caller's promise.
    unsafe {
        for (layer, w) in weights.blocks.iter().enumerate() {
            for row in 0..count {
                kernels::norm::<S>(
                    &x[row * x_stride..],
                    &w.norm1,
                    h,
                    s.eps,
                    &mut y[row * y_stride..],
                );
            }
            product::<S>(
                count,
                y,
                y_stride,
                &w.qkv,
                Start::Bias(&w.qkv_bias),
                z,
                z_stride,
            );
            for (row, kept) in rows.iter_mut().enumerate() {
                attend::<S>(
                    s,
                    &weights.rotations,
                    layer,
                    kept,
                    &mut z[row * z_stride..][..wide],
                    scores,
                    &mut y[row * y_stride..][..y_stride],
                );
            }
            product::<S>(count, y, y_stride, &w.out, Start::Result, x, x_stride);
            for row in 0..count {
                kernels::norm::<S>(
                    &x[row * x_stride..],
                    &w.norm2,
                    h,
                    s.eps,
                    &mut y[row * y_stride..],
                );
            }
            product::<S>(count, y, y_stride, &w.gate_up, Start::Zero, z, z_stride);
            for row in 0..count {
                let gate = z[row * z_stride..][..z_stride].as_ptr();
                let out = y[row * y_stride..][..y_stride].as_mut_ptr();
                kernels::gated::<S>(gate, gate.add(inner), out, inner);
            }
            product::<S>(count, y, y_stride, &w.down, Start::Result, x, x_stride);
        }
        for row in 0..count {
            kernels::norm::<S>(
                &x[row * x_stride..],
                &weights.norm,
                h,
                s.eps,
                &mut y[row * y_stride..],
            );
        }
        let stride = logits.len() / count.max(1);
        product::<S>(
            count,
            y,
            y_stride,
            &weights.head,
            Start::Zero,
            logits,
            stride,
        );
    }
    for row in rows {
        row.grow();
    }
}

/// Rotates a row's queries and key, appends key and value to the cache, and writes the queries' attention outputs into
/// `out`.
#[inline(always)]
pub(super) unsafe fn attend<S: Simd>(
    s: &Shape,
    rotations: &[f32],
    layer: usize,
    row: &mut Row,
    qkv: &mut [f32],
    scores: &mut [f32],
    out: &mut [f32],
) {
    let (d, n, kv) = (s.head, s.query_heads, s.kv_heads);
    let position = row.position();
    let len = position + 1;
    let (queries, rest) = qkv.split_at_mut(n * d);
    let (keys, values) = rest.split_at_mut(kv * d);
    let turns = &rotations[position * d..][..d];
    let scale = 1.0 / (d as f32).sqrt();
    rotate(queries, turns, scale);
    rotate(keys, turns, 1.0);
    for head in 0..kv {
        let part = head * d..(head + 1) * d;
        row.put(
            s,
            (layer, head),
            position,
            &keys[part.clone()],
            &values[part],
        );
    }
    let group = n / kv;
    let stride = scores.len() / 2 / S::LANES * S::LANES;
    for head in 0..kv {
        let (keys, values) = (row.keys(layer, head), row.values(layer, head));
        let mut q = 0;
        while q < group {
            let first = (head * group + q) * d;
            // SAFETY: the caller's promise.
            unsafe {
                if q + 2 <= group {
                    gather::<S, 2>(
                        s,
                        &queries[first..],
                        keys,
                        values,
                        len,
                        scores,
                        stride,
                        &mut out[first..],
                    );
                    q += 2;
                } else {
                    gather::<S, 1>(
                        s,
                        &queries[first..],
                        keys,
                        values,
                        len,
                        scores,
                        stride,
                        &mut out[first..],
                    );
                    q += 1;
                }
            }
        }
    }
}

#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel")]
unsafe fn gather<S: Simd, const Q: usize>(
    s: &Shape,
    queries: &[f32],
    keys: &[f32],
    values: &[f32],
    len: usize,
    scores: &mut [f32],
    stride: usize,
    out: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        kernels::scores::<S, Q>(queries, s.head, keys, len, scores, stride);
        let mut by = [0.0f32; Q];
        let mut q = 0;
        while q < Q {
            by[q] = 1.0 / kernels::exponentials::<S>(&mut scores[q * stride..], len);
            q += 1;
        }
        kernels::mix::<S, Q>(
            scores,
            stride,
            len,
            values,
            s.value_stride(),
            s.head,
            &by,
            out,
        );
    }
}

/// Rotates the pairs of every head by `turns`, [cos, sin] of each pair, and multiplies them by `scale`.
#[inline(always)]
fn rotate(heads: &mut [f32], turns: &[f32], scale: f32) {
    for head in heads.chunks_exact_mut(turns.len()) {
        for (pair, turn) in head.chunks_exact_mut(2).zip(turns.chunks_exact(2)) {
            let (a, b) = (pair[0] * scale, pair[1] * scale);
            pair[0] = a * turn[0] - b * turn[1];
            pair[1] = a * turn[1] + b * turn[0];
        }
    }
}
