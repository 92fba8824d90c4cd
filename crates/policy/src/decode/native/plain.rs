//! Matrices in the model's own memory, and products with them: no weight is copied, for models of any size.
//!
//! A row of weights is stored in the order of the inputs. Vectors therefore run along the inputs, and each result is
//! the sum of a vector's lanes. Weights in half precision are widened for four outputs at a time and then used for all
//! rows: arithmetic is in single precision.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use super::kernels::Start;
use super::simd::Simd;
use super::tiles;
use crate::error::{Error, Result};

/// Number of outputs that are computed together.
const OUTPUTS: usize = 4;

/// A matrix [outputs, inputs] in a model's own memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plain<'a> {
    values: Values<'a>,
    inputs: usize,
}

#[derive(Debug, Clone, Copy)]
enum Values<'a> {
    Single(&'a [f32]),
    /// bfloat16: the upper halves of single-precision numbers.
    Half(&'a [u16]),
}

impl<'a> Plain<'a> {
    /// Borrows the weights of a model, [outputs, inputs], without copying them.
    pub fn of(weights: &'a Tensor) -> Result<Self> {
        let odd = || {
            Error::Input(format!(
                "weights of kind {:?} cannot be read in place",
                weights.kind()
            ))
        };
        let (_, inputs) = weights.size2().map_err(|_| odd())?;
        if weights.device() != Device::Cpu || !weights.is_contiguous() {
            return Err(odd());
        }
        let (at, count) = (weights.data_ptr(), weights.numel());
        // SAFETY: the tensor is contiguous in this process's memory and outlives the slice; weights change only while
        // the model is not in use, since only one thread at a time uses a model.
        let values = unsafe {
            match weights.kind() {
                Kind::Float => Values::Single(std::slice::from_raw_parts(at.cast(), count)),
                Kind::BFloat16 => Values::Half(std::slice::from_raw_parts(at.cast(), count)),
                _ => return Err(odd()),
            }
        };
        Ok(Plain {
            values,
            inputs: usize::try_from(inputs).unwrap_or_default(),
        })
    }

    /// Copies row `n` to the beginning of `into`.
    pub fn row(&self, n: usize, into: &mut [f32]) {
        let range = n * self.inputs..(n + 1) * self.inputs;
        match self.values {
            Values::Single(values) => into[..self.inputs].copy_from_slice(&values[range]),
            Values::Half(values) => {
                for (to, from) in into.iter_mut().zip(&values[range]) {
                    *to = f32::from_bits(u32::from(*from) << 16);
                }
            }
        }
    }

    /// Length of the product's input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The weights, if they are in bfloat16 and fill whole tiles.
    pub fn tiled(&self) -> Option<&'a [u16]> {
        match self.values {
            Values::Half(values) if self.inputs.is_multiple_of(tiles::DEPTH) => Some(values),
            _ => None,
        }
    }

    /// The matrix's rows: outputs of a product.
    pub fn outputs(&self) -> usize {
        let count = match self.values {
            Values::Single(values) => values.len(),
            Values::Half(values) => values.len(),
        };
        count / self.inputs.max(1)
    }
}

/// Columns `outputs` of `out` [rows, stride] = start + `a` [rows, `a_stride`] · weightsᵀ. The caller provides the
/// buffer `wide`.
///
/// # Safety
/// As for [`Simd`]; `a` and `out` have to be valid for `rows` rows, and meanwhile no other thread may write to `a` or
/// access these columns of `out`.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a kernel")]
pub(super) unsafe fn product<S: Simd>(
    rows: usize,
    a: *const f32,
    a_stride: usize,
    weights: &Plain<'_>,
    outputs: Range<usize>,
    start: Start<'_>,
    out: *mut f32,
    stride: usize,
    wide: &mut Vec<f32>,
) {
    let k = weights.inputs;
    assert!(outputs.end <= weights.outputs() && k > 0);
    assert!(a_stride >= k);
    if let Start::Bias(bias) = start {
        assert!(bias.len() >= outputs.end);
    }
    wide.resize(OUTPUTS * k, 0.0);
    let most = (S::ROWS / 2).max(1);
    let blocks = rows.div_ceil(most).max(1);
    let mut first = outputs.start;
    while first < outputs.end {
        let count = OUTPUTS.min(outputs.end - first);
        // SAFETY: the assertions above and the caller's promise. If fewer outputs are left, the last one is computed in
        // place of the missing ones.
        unsafe {
            let mut w = [wide.as_ptr(); OUTPUTS];
            let mut j = 0;
            while j < OUTPUTS {
                let at = (first + j.min(count - 1)) * k;
                match weights.values {
                    Values::Single(values) => w[j] = values.as_ptr().add(at),
                    Values::Half(values) => {
                        w[j] = wide.as_ptr().add(j * k);
                        widen::<S>(values.as_ptr().add(at), k, wide.as_mut_ptr().add(j * k));
                    }
                }
                j += 1;
            }
            let mut begin = [0.0f32; OUTPUTS];
            if let Start::Bias(bias) = start {
                begin[..count].copy_from_slice(&bias[first..first + count]);
            }
            let mut row = 0;
            for block in 0..blocks {
                let m = (rows - row).div_ceil(blocks - block);
                let from = a.add(row * a_stride);
                macro_rules! dispatch {
                    ($($n:literal)*) => {
                        match m {
                            $($n if $n <= most => {
                                let sums = tile::<S, $n>(k, from, a_stride, w);
                                for (i, sums) in sums.iter().enumerate() {
                                    let to = out.add((row + i) * stride + first);
                                    for (j, (sum, begin)) in sums.iter().zip(&begin).take(count).enumerate() {
                                        let before = match start {
                                            Start::Result => *to.add(j),
                                            Start::Zero | Start::Bias(_) => *begin,
                                        };
                                        *to.add(j) = before + sum;
                                    }
                                }
                            })*
                            _ => {}
                        }
                    };
                }
                dispatch!(1 2 3 4 5 6);
                row += m;
            }
        }
        first += count;
    }
}

/// `M` rows by four outputs.
#[inline(always)]
unsafe fn tile<S: Simd, const M: usize>(
    k: usize,
    a: *const f32,
    a_stride: usize,
    w: [*const f32; OUTPUTS],
) -> [[f32; OUTPUTS]; M] {
    // SAFETY: `product` checked all the bounds.
    unsafe {
        let mut sums = [[S::splat(0.0); OUTPUTS]; M];
        let whole = k / S::LANES * S::LANES;
        let mut p = 0;
        while p < whole {
            let mut v = [S::splat(0.0); OUTPUTS];
            let mut j = 0;
            while j < OUTPUTS {
                v[j] = S::load(w[j].add(p));
                j += 1;
            }
            let mut i = 0;
            while i < M {
                let x = S::load(a.add(i * a_stride + p));
                let mut j = 0;
                while j < OUTPUTS {
                    sums[i][j] = S::fma(x, v[j], sums[i][j]);
                    j += 1;
                }
                i += 1;
            }
            p += S::LANES;
        }
        let mut out = [[0.0; OUTPUTS]; M];
        let mut i = 0;
        while i < M {
            out[i] = S::sums(sums[i]);
            for p in whole..k {
                for (sum, w) in out[i].iter_mut().zip(w) {
                    *sum += *a.add(i * a_stride + p) * *w.add(p);
                }
            }
            i += 1;
        }
        out
    }
}

/// Turns `count` numbers of bfloat16 into single precision.
#[inline(always)]
unsafe fn widen<S: Simd>(from: *const u16, count: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        let whole = count / S::LANES * S::LANES;
        for p in (0..whole).step_by(S::LANES) {
            S::store(to.add(p), S::load_half(from.add(p)));
        }
        for p in whole..count {
            *to.add(p) = f32::from_bits(u32::from(*from.add(p)) << 16);
        }
    }
}
