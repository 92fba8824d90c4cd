//! One token of every row, through the whole model, by threads that share each product.
//!
//! If the weights exceed a processor's caches, each weight should be read once a step. A thread computes some of the
//! outputs for all rows; between the products one thread does the work of each row. All threads wait at a barrier after
//! each part.

use std::ops::Range;
use std::sync::Barrier;

use super::kernels::{self, Start};
use super::low::Adapted;
use super::plain::{Plain, product};
use super::row::Row;
use super::simd::{Portable, Simd, Width};
use super::step::attend;
use super::tiles;
use super::weights::Weights;
use crate::decode::space::room;
use crate::error::Result;

/// Outputs are distributed to threads in whole cache lines: no two threads write to the same line.
const LINE: usize = 16;

/// Purpose of the buffers, for errors.
const BETWEEN: &str = "hold a step's intermediate results";

/// A matrix that several threads write to, each at other places.
#[derive(Debug, Default)]
struct Grid {
    values: Vec<f32>,
    stride: usize,
}

impl Grid {
    fn shape(&mut self, rows: usize, stride: usize) -> Result<Place> {
        self.stride = stride;
        room(&mut self.values, rows * stride, BETWEEN)?;
        Ok(Place {
            at: self.values.as_mut_ptr(),
            stride,
            packed: None,
        })
    }
}

/// Address of a matrix.
#[derive(Clone, Copy)]
struct Place {
    at: *mut f32,
    stride: usize,
    /// Address of the copy that is laid out for tiles, if there is one.
    packed: Option<*mut u32>,
}

impl Place {
    /// # Safety
    /// The row is one of the matrix, and nothing else accesses it during the slice's lifetime.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that it is alone")]
    unsafe fn row(&self, n: usize) -> &mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(n * self.stride), self.stride) }
    }
}

/// Buffers that are reused from step to step.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream, [rows, hidden].
    x: Grid,
    /// Input of a product, [rows, hidden] or [rows, heads].
    y: Grid,
    /// Output of the wide products.
    z: Grid,
    /// Input of the narrowing product, [rows, intermediate].
    gated: Grid,
    /// Output of an adapter's A, [rows, ranks].
    low: Grid,
    /// Inputs of products in the layout for tiles: `y`, followed by `gated`.
    packed: Vec<u32>,
    /// Buffers of each thread.
    own: Vec<Own>,
}

#[derive(Debug, Default)]
struct Own {
    /// Attention scores of two queries for every token.
    scores: Vec<f32>,
    /// Widened half-precision weights.
    wide: Vec<f32>,
}

/// The data that all threads of a step share.
struct Step<'a> {
    weights: &'a Weights<'a, Adapted<'a>>,
    rows: *mut Row,
    count: usize,
    /// Tokens of the longest row.
    longest: usize,
    x: Place,
    y: Place,
    z: Place,
    gated: Place,
    low: Place,
    logits: Place,
    barrier: Barrier,
    threads: usize,
}

// SAFETY: each thread accesses only the rows and outputs assigned to it, with a barrier between parts that read and
// write the same data.
unsafe impl Sync for Step<'_> {}

/// The instructions and threads that compute a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hands {
    pub width: Width,
    pub threads: usize,
    /// True if products may be computed by tiles.
    pub tiles: bool,
}

/// Runs one step: `tokens`, one of each row, → `logits`, [rows, stride].
///
/// # Errors
/// [`crate::Error::Memory`], before anything is computed.
pub(super) fn run(
    hands: Hands,
    weights: &Weights<'_, Adapted<'_>>,
    rows: &mut [Row],
    tokens: &[u32],
    logits: &mut [f32],
    buffers: &mut Buffers,
) -> Result<()> {
    let s = &weights.shape;
    let pad = |n: usize| n.next_multiple_of(2 * s.lanes);
    let (count, threads, width) = (rows.len(), hands.threads.max(1), hands.width);
    let queries = s.query_heads * s.head;
    let wide = (s.query_heads + 2 * s.kv_heads) * s.head;
    let Buffers {
        x,
        y,
        z,
        gated,
        low,
        packed,
        own,
    } = buffers;
    let tiled = match hands.tiles {
        true => weights.tiled_inputs(),
        false => None,
    };
    let packed = match tiled {
        None => None,
        Some(inputs) => {
            let len = tiles::packed_len(count, inputs);
            room(packed, 2 * len, BETWEEN)?;
            let (first, second) = packed.split_at_mut(len);
            Some([first, second].map(<[u32]>::as_mut_ptr))
        }
    };
    own.resize_with(threads, Own::default);
    let step = Step {
        weights,
        longest: rows.iter().map(Row::position).max().unwrap_or_default() + 1,
        rows: rows.as_mut_ptr(),
        count,
        x: x.shape(count, pad(s.hidden))?,
        y: Place {
            packed: packed.map(|two| two[0]),
            ..y.shape(count, pad(s.hidden.max(queries)))?
        },
        z: z.shape(count, pad(wide).max(2 * pad(s.intermediate)))?,
        gated: Place {
            packed: packed.map(|two| two[1]),
            ..gated.shape(count, pad(s.intermediate))?
        },
        low: low.shape(count, pad(weights.ranks()))?,
        logits: Place {
            at: logits.as_mut_ptr(),
            stride: logits.len() / count.max(1),
            packed: None,
        },
        barrier: Barrier::new(threads),
        threads,
    };
    for (row, token) in tokens.iter().take(count).enumerate() {
        // SAFETY: no thread has begun.
        let x = unsafe { step.x.row(row) };
        weights.embedding.row(*token as usize, x);
        x[s.hidden..].fill(0.0);
    }
    std::thread::scope(|scope| {
        let step = &step;
        let mut own = own.iter_mut().enumerate();
        let ours = own.next();
        for (thread, own) in own {
            scope.spawn(move || part_in(width, step, thread, own));
        }
        if let Some((thread, own)) = ours {
            part_in(width, step, thread, own);
        }
    });
    for row in rows {
        row.grow();
    }
    Ok(())
}

fn part_in(width: Width, step: &Step<'_>, thread: usize, own: &mut Own) {
    match width {
        // SAFETY: `Width` names only instructions that were detected on this processor.
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => unsafe { avx512(step, thread, own) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => unsafe { avx2(step, thread, own) },
        // SAFETY: plain arithmetic.
        Width::Portable => unsafe { part::<Portable>(step, thread, own) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")]
unsafe fn avx512(step: &Step<'_>, thread: usize, own: &mut Own) {
    // SAFETY: the caller detected the instructions.
    unsafe { part::<super::simd::Avx512>(step, thread, own) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(step: &Step<'_>, thread: usize, own: &mut Own) {
    // SAFETY: the caller detected the instructions.
    unsafe { part::<super::simd::Avx2>(step, thread, own) }
}

impl Step<'_> {
    /// The outputs of a product that a thread computes.
    fn outputs(&self, thread: usize, all: usize) -> Range<usize> {
        let each = all.div_ceil(self.threads).next_multiple_of(LINE);
        (thread * each).min(all)..((thread + 1) * each).min(all)
    }

    /// Copies columns of rows into the layout for tiles, if the product with these weights uses tiles.
    ///
    /// # Safety
    /// The columns of these rows are written, and nothing else accesses them.
    unsafe fn pack(
        &self,
        from: Place,
        rows: Range<usize>,
        columns: Range<usize>,
        weights: &Plain<'_>,
    ) {
        let (Some(packed), Some(_)) = (from.packed, weights.tiled()) else {
            return;
        };
        let inputs = weights.inputs();
        for row in rows {
            // SAFETY: the caller's promise; there is room for the widest product with tiles, and other products have no
            // such layout. Only these columns are read: other threads may write other columns of the row meanwhile.
            unsafe {
                let at = from.at.add(row * from.stride + columns.start);
                let numbers = std::slice::from_raw_parts(at, columns.len());
                tiles::pack(row, numbers, columns.clone(), inputs, packed);
            }
        }
    }

    /// Adds an adapter's update to the outputs of a product that this thread has computed; without an adapter it does
    /// nothing. All threads call it.
    ///
    /// # Safety
    /// As for [`Simd`]; no thread writes to `from`, and each thread passes its own outputs: ranges and where they go.
    #[inline(always)]
    unsafe fn adapt<S: Simd, const N: usize>(
        &self,
        from: Place,
        weights: &Adapted<'_>,
        thread: usize,
        outputs: [(Range<usize>, Place); N],
        wide: &mut Vec<f32>,
    ) {
        let Some(low) = &weights.low else { return };
        // SAFETY: the caller's promise. The outputs of A are distributed like any other outputs and read after the
        // barrier. They are written again only after the barrier that follows each product.
        unsafe {
            let ranks = self.outputs(thread, low.a.outputs());
            self.product::<S>(from, &low.a, ranks.clone(), Start::Zero, self.low, wide);
            for row in 0..self.count {
                for n in ranks.clone() {
                    *self.low.at.add(row * self.low.stride + n) *= low.scale;
                }
            }
            self.barrier.wait();
            for (outputs, to) in outputs {
                for part in &low.parts {
                    let narrow = Place {
                        at: self.low.at.add(part.at),
                        ..self.low
                    };
                    let to = Place {
                        at: to.at.wrapping_add(part.outputs.start),
                        ..to
                    };
                    let own = part.own(&outputs);
                    self.product::<S>(narrow, &part.b, own, Start::Result, to, wide);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Simd`]; no thread writes to `from`, and each thread passes its own outputs.
    #[inline(always)]
    unsafe fn product<S: Simd>(
        &self,
        from: Place,
        weights: &Plain<'_>,
        outputs: Range<usize>,
        start: Start<'_>,
        to: Place,
        wide: &mut Vec<f32>,
    ) {
        // SAFETY: the caller's promise; every matrix has `count` rows, and the layout for tiles holds the numbers of
        // `from`.
        unsafe {
            let outputs = match (from.packed, weights.tiled()) {
                (Some(packed), Some(values)) => tiles::product(
                    self.count,
                    packed,
                    values,
                    weights.inputs(),
                    outputs,
                    start,
                    to.at,
                    to.stride,
                ),
                _ => outputs,
            };
            if outputs.is_empty() {
                return;
            }
            product::<S>(
                self.count,
                from.at,
                from.stride,
                weights,
                outputs,
                start,
                to.at,
                to.stride,
                wide,
            );
        }
    }
}

/// One thread's part of a step.
#[inline(always)]
unsafe fn part<S: Simd>(step: &Step<'_>, thread: usize, own: &mut Own) {
    let weights = step.weights;
    let s = &weights.shape;
    let (h, inner) = (s.hidden, s.intermediate);
    let each = step.count.div_ceil(step.threads);
    let ours = (thread * each).min(step.count)..((thread + 1) * each).min(step.count);
    let wide = (s.query_heads + 2 * s.kv_heads) * s.head;
    let queries = s.query_heads * s.head;
    let Own {
        scores,
        wide: buffer,
    } = own;
    let enough = 2 * step.longest.next_multiple_of(S::LANES);
    if scores.len() < enough {
        scores.resize(enough, 0.0);
    }
    // Gate and up are two halves that begin at whole vectors.
    let half = step.z.stride / 2;
    let up = Place {
        at: step.z.at.wrapping_add(half).wrapping_sub(inner),
        ..step.z
    };
    // SAFETY: each thread has its own rows and outputs; barriers separate writing and reading.
    unsafe {
        for (layer, w) in weights.blocks.iter().enumerate() {
            for row in ours.clone() {
                kernels::norm::<S>(step.x.row(row), &w.norm1, h, s.eps, step.y.row(row));
            }
            step.pack(step.y, ours.clone(), 0..h, &w.qkv.plain);
            step.barrier.wait();
            let start = Start::Bias(&w.qkv_bias);
            let outputs = step.outputs(thread, wide);
            step.product::<S>(step.y, &w.qkv.plain, outputs.clone(), start, step.z, buffer);
            step.adapt::<S, 1>(step.y, &w.qkv, thread, [(outputs, step.z)], buffer);
            step.barrier.wait();
            for row in ours.clone() {
                attend::<S>(
                    s,
                    &weights.rotations,
                    layer,
                    &mut *step.rows.add(row),
                    &mut step.z.row(row)[..wide],
                    scores,
                    step.y.row(row),
                );
            }
            step.pack(step.y, ours.clone(), 0..queries, &w.out.plain);
            step.barrier.wait();
            let outputs = step.outputs(thread, h);
            let (out, result) = (&w.out.plain, Start::Result);
            step.product::<S>(step.y, out, outputs.clone(), result, step.x, buffer);
            step.adapt::<S, 1>(step.y, &w.out, thread, [(outputs, step.x)], buffer);
            step.barrier.wait();
            for row in ours.clone() {
                kernels::norm::<S>(step.x.row(row), &w.norm2, h, s.eps, step.y.row(row));
            }
            step.pack(step.y, ours.clone(), 0..h, &w.gate_up.plain);
            step.barrier.wait();
            let outputs = step.outputs(thread, inner);
            let (start, len) = (outputs.start, outputs.len());
            let second = inner + start..inner + outputs.end;
            let halves = [(outputs, step.z), (second, up)];
            for (outputs, to) in halves.clone() {
                let weights = &w.gate_up.plain;
                step.product::<S>(step.y, weights, outputs, Start::Zero, to, buffer);
            }
            step.adapt::<S, 2>(step.y, &w.gate_up, thread, halves, buffer);
            for row in 0..step.count {
                let z = step.z.at.add(row * step.z.stride + start);
                let out = step.gated.at.add(row * step.gated.stride + start);
                kernels::gated::<S>(z, z.add(half), out, len);
            }
            step.pack(step.gated, 0..step.count, start..start + len, &w.down.plain);
            step.barrier.wait();
            let outputs = step.outputs(thread, h);
            let (down, result) = (&w.down.plain, Start::Result);
            step.product::<S>(step.gated, down, outputs.clone(), result, step.x, buffer);
            step.adapt::<S, 1>(step.gated, &w.down, thread, [(outputs, step.x)], buffer);
            step.barrier.wait();
        }
        for row in ours.clone() {
            kernels::norm::<S>(step.x.row(row), &weights.norm, h, s.eps, step.y.row(row));
        }
        step.pack(step.y, ours, 0..h, &weights.head.plain);
        step.barrier.wait();
        let outputs = step.outputs(thread, s.vocabulary);
        step.product::<S>(
            step.y,
            &weights.head.plain,
            outputs,
            Start::Zero,
            step.logits,
            buffer,
        );
    }
}
