//! The update that an adapter adds to a product.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tch::{Kind, Tensor};

use crate::error::{Doing, Result};

/// The matrices of one adapted product.
#[derive(Debug)]
pub(crate) struct LowRank<'a> {
    /// [adapted parts · rank, inputs].
    pub a: &'a Tensor,
    /// For each part of the product its number of outputs, and B, [outputs, rank], if the part is adapted.
    pub parts: Vec<(i64, Option<&'a Tensor>)>,
    pub rank: i64,
    pub scale: f64,
    pub dropout: f64,
}

/// Seed and stream of dropout's random numbers; a block that is computed twice uses the same numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noise {
    pub seed: u64,
    pub place: u64,
}

impl LowRank<'_> {
    /// `to` + scale · B (A x), for `x` [n, inputs] and `to` [n, outputs]; the sum has the kind of `to`.
    pub fn add_to(&self, to: &Tensor, x: &Tensor, noise: Option<Noise>) -> Result<Tensor> {
        let kind = to.kind();
        let delta = self.delta(x, noise)?;
        let delta = if delta.kind() == kind {
            delta
        } else {
            delta.f_to_kind(kind).doing("convert an adapter's update")?
        };
        to.f_add(&delta).doing("add an adapter's update")
    }

    /// scale · B (A x), [n, outputs], in the adapter's own precision.
    fn delta(&self, x: &Tensor, noise: Option<Noise>) -> Result<Tensor> {
        let wide = self.a.kind();
        let mut x = if x.kind() == wide {
            x.shallow_clone()
        } else {
            x.f_to_kind(wide).doing("widen an adapter's inputs")?
        };
        if let Some(noise) = noise
            && self.dropout > 0.0
        {
            x = x
                .f_mul(&mask(&x, self.dropout, noise)?)
                .doing("apply an adapter's dropout")?;
        }
        let n = x.size().first().copied().unwrap_or_default();
        // The narrow result is scaled, because that is less work than scaling the wide one.
        let low = x
            .f_linear(self.a, None::<&Tensor>)
            .and_then(|t| t.f_mul_scalar(self.scale))
            .doing("run an adapter")?;
        let mut at = 0;
        let mut pieces = Vec::with_capacity(self.parts.len());
        for (outputs, b) in &self.parts {
            pieces.push(match b {
                Some(b) => {
                    let piece = low
                        .f_narrow(1, at, self.rank)
                        .and_then(|low| low.f_linear(b, None::<&Tensor>))
                        .doing("run an adapter")?;
                    at += self.rank;
                    piece
                }
                None => {
                    Tensor::f_zeros([n, *outputs], (wide, x.device())).doing("run an adapter")?
                }
            });
        }
        match pieces.len() {
            1 => Ok(pieces.remove(0)),
            _ => Tensor::f_cat(&pieces, 1).doing("join an adapter's updates"),
        }
    }

    /// scale · B A, [outputs, inputs], which merging adds to the product's own matrix.
    pub fn product(&self) -> Result<Tensor> {
        let mut at = 0;
        let mut pieces = Vec::with_capacity(self.parts.len());
        let inputs = self.a.size()[1];
        for (outputs, b) in &self.parts {
            pieces.push(match b {
                Some(b) => {
                    let piece = self
                        .a
                        .f_narrow(0, at, self.rank)
                        .and_then(|a| b.f_matmul(&a)?.f_mul_scalar(self.scale))
                        .doing("multiply an adapter's matrices")?;
                    at += self.rank;
                    piece
                }
                None => Tensor::f_zeros([*outputs, inputs], (self.a.kind(), self.a.device()))
                    .doing("multiply an adapter's matrices")?,
            });
        }
        Tensor::f_cat(&pieces, 0).doing("multiply an adapter's matrices")
    }
}

/// Number of elements from which a thread of its own pays.
const MASKED_BY_A_THREAD: usize = 1 << 16;

/// 0 for a share `dropout` of `x`'s elements, 1 / (1 − dropout) for the others.
///
/// The numbers are made here and not by libtorch's generator, which all threads of a process share: the order of the
/// threads would decide the numbers.
fn mask(x: &Tensor, dropout: f64, noise: Noise) -> Result<Tensor> {
    let limit = (dropout * 2f64.powi(32)) as u64;
    let kept = (1.0 / (1.0 - dropout)) as f32;
    let mut values = vec![0.0f32; x.numel()];
    let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1);
    let each = values
        .len()
        .div_ceil(threads.max(1))
        .max(MASKED_BY_A_THREAD);
    // Each element has its own number of the stream, independent of the thread that draws it.
    let draw = |first: usize, part: &mut [f32]| {
        let mut random = ChaCha8Rng::seed_from_u64(noise.seed);
        random.set_stream(noise.place);
        random.set_word_pos(first as u128);
        for value in part {
            *value = match u64::from(random.next_u32()) < limit {
                true => 0.0,
                false => kept,
            };
        }
    };
    std::thread::scope(|scope| {
        let mut parts = (0..).step_by(each).zip(values.chunks_mut(each));
        let ours = parts.next();
        for (first, part) in parts {
            scope.spawn(move || draw(first, part));
        }
        if let Some((first, part)) = ours {
            draw(first, part);
        }
    });
    Tensor::f_from_slice(&values)
        .and_then(|t| t.f_view(x.size().as_slice()))
        .and_then(|t| match x.kind() {
            Kind::Float => Ok(t),
            kind => t.f_to_kind(kind),
        })
        .and_then(|t| t.f_to_device(x.device()))
        .doing("draw an adapter's dropout mask")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn how_many_threads_draw_makes_no_difference() {
        let noise = Noise { seed: 5, place: 7 };
        let x = Tensor::zeros([701, 300], (Kind::Float, Device::Cpu));
        let drawn = |threads: usize| {
            // libtorch keeps the number of threads for each thread.
            let on_its_own = move || {
                crate::threads::compute_on(threads);
                let x = Tensor::zeros([701, 300], (Kind::Float, Device::Cpu));
                mask(&x, 0.25, noise).unwrap()
            };
            std::thread::spawn(on_its_own).join().unwrap()
        };
        let one = drawn(1);
        for threads in [2, 3, 8] {
            assert_eq!(drawn(threads), one);
        }
        let left = one.count_nonzero(None::<i64>).int64_value(&[]) as f64;
        let share = left / x.numel() as f64;
        assert!((share - 0.75).abs() < 0.01, "{share}");
        assert_eq!(one.max(), Tensor::from(1.0f32 / 0.75));
    }
}
