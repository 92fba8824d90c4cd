//! AdamW (Loshchilov & Hutter, 2019) over one flat vector of weights.
//!
//! With gradient g in update t (from 1): m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
//! w ← w − η·λ·w for matrices, then w ← w − η · m/(1−β₁ᵗ) / (√(v/(1−β₂ᵗ)) + ε).
//!
//! Moments are kept in single precision (double for double weights). Half-precision weights have master copies in
//! single precision; otherwise their updates would round away.

use flopsmith_policy::Model;
use flopsmith_policy::layout::Slot;
use tch::{Kind, Tensor};

use crate::error::{Doing, Error, Result};

/// Number of elements that one round of operations covers: five vectors of this length stay in a core's cache from the
/// first operation to the last.
const PIECE: i64 = 16_384;

/// The optimizer's constants; see the module for the symbols.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub eps: f64,
    /// λ.
    pub weight_decay: f64,
}

/// The optimizer's state for one model.
#[derive(Debug)]
pub struct AdamW {
    constants: Constants,
    slots: Vec<Slot>,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    /// The weights in single precision, if the model's are in half precision.
    master: Option<Tensor>,
    /// Stretches of the flat vector with the same decay: first element, length, and true if decayed.
    stretches: Vec<(i64, i64, bool)>,
    updates: u64,
}

/// A stretch of the flat vectors and its update, to be [applied](Piece::apply) on any thread.
#[derive(Debug)]
pub(crate) struct Piece {
    weights: Tensor,
    /// The half-precision copy of `weights`.
    narrow: Option<Tensor>,
    gradient: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    now: Now,
    decay: f64,
}

/// The constants of one update.
#[derive(Debug, Clone, Copy)]
struct Now {
    constants: Constants,
    rate: f64,
    /// Factor of the gradient.
    scale: f64,
    correction1: f64,
    correction2: f64,
}

impl AdamW {
    /// A fresh state for the trained parameters of `model`.
    pub fn new(model: &Model, constants: Constants) -> Result<Self> {
        let _guard = tch::no_grad_guard();
        let flat = model.trained().flat();
        let wide = wide(flat.kind());
        let zeros = || {
            Tensor::f_zeros(flat.size().as_slice(), (wide, flat.device()))
                .doing("allocate the optimizer's moments")
        };
        let master = if wide == flat.kind() {
            None
        } else {
            Some(flat.f_to_kind(wide).doing("copy weights to masters")?)
        };
        Ok(AdamW {
            constants,
            stretches: stretches(model.trained().slots()),
            slots: model.trained().slots().to_vec(),
            exp_avg: zeros()?,
            exp_avg_sq: zeros()?,
            master,
            updates: 0,
        })
    }

    /// Updates done so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// The kind of gradients, moments and masters.
    pub fn kind(&self) -> Kind {
        self.exp_avg.kind()
    }

    /// Norm of a flat gradient, and the factor that reduces it to `longest` (0: no limit).
    ///
    /// If the norm is not finite the factor is 1, and the caller must not use that gradient.
    pub fn clip(gradient: &Tensor, longest: f64) -> Result<(f64, f64)> {
        let norm = gradient
            .f_norm()
            .and_then(|n| n.f_double_value(&[]))
            .doing("take the gradient's norm")?;
        let scale = if longest > 0.0 && norm.is_finite() && norm > longest {
            longest / norm
        } else {
            1.0
        };
        Ok((norm, scale))
    }

    /// One update of `model` by `gradient`, flat as [`Model::trained`], times `scale`, with step size `rate`. The
    /// update overwrites the gradient.
    pub fn step(&mut self, model: &Model, gradient: &Tensor, rate: f64, scale: f64) -> Result<()> {
        let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1);
        for piece in self.begin(model, gradient, rate, scale, threads)? {
            piece.apply()?;
        }
        Ok(())
    }

    /// Multiplies a parameter of `model` by `factor`, and the parameter's master copy if there is one. The moments stay
    /// unchanged.
    ///
    /// # Errors
    /// [`Error::Input`] if the model has no parameter of that name.
    pub fn scale(&mut self, model: &Model, name: &str, factor: f64) -> Result<()> {
        let slot = self.slots.iter().find(|slot| slot.name == name);
        let Some(slot) = slot else {
            return Err(Error::Input(format!("the model has no `{name}`")));
        };
        let _guard = tch::no_grad_guard();
        let part = |flat: &Tensor| flat.f_narrow(0, slot.offset, slot.len());
        let scaled = match &self.master {
            None => {
                part(model.trained().flat()).and_then(|mut weights| weights.f_mul_scalar_(factor))
            }
            Some(master) => part(master)
                .and_then(|mut weights| weights.f_mul_scalar_(factor))
                .and_then(|wide| {
                    part(model.trained().flat())
                        .and_then(|mut narrow| narrow.f_copy_(&wide).map(|()| narrow))
                }),
        };
        scaled.doing("multiply a parameter").map(drop)
    }

    /// Counts an update and cuts its work into pieces, sized for `threads` threads of libtorch; each piece has to be
    /// applied once.
    pub(crate) fn begin(
        &mut self,
        model: &Model,
        gradient: &Tensor,
        rate: f64,
        scale: f64,
        threads: usize,
    ) -> Result<Vec<Piece>> {
        let flat = model.trained().flat();
        if flat.size() != self.exp_avg.size() || gradient.size() != flat.size() {
            return Err(Error::Input(format!(
                "an optimizer of {:?} elements cannot update weights of {:?} with a gradient of {:?}",
                self.exp_avg.size(),
                flat.size(),
                gradient.size()
            )));
        }
        let _guard = tch::no_grad_guard();
        self.updates += 1;
        let t = i32::try_from(self.updates).unwrap_or(i32::MAX);
        let now = Now {
            constants: self.constants,
            rate,
            scale,
            correction1: 1.0 - self.constants.betas[0].powi(t),
            correction2: 1.0 - self.constants.betas[1].powi(t),
        };
        // An accelerator runs few large operations fastest; on a CPU each of libtorch's threads gets one piece.
        let length = if flat.device().is_cuda() {
            i64::MAX
        } else {
            PIECE * i64::try_from(threads.max(1)).unwrap_or(1)
        };
        let mut pieces = Vec::new();
        for (first, total, decayed) in &self.stretches {
            let mut done = 0;
            while done < *total {
                let count = length.min(total - done);
                let view = |t: &Tensor| {
                    t.f_narrow(0, first + done, count)
                        .doing("view a piece of the optimizer's state")
                };
                let weights = view(self.master.as_ref().unwrap_or(flat))?;
                let narrow = match self.master {
                    Some(_) => Some(view(flat)?),
                    None => None,
                };
                pieces.push(Piece {
                    weights,
                    narrow,
                    gradient: view(gradient)?,
                    exp_avg: view(&self.exp_avg)?,
                    exp_avg_sq: view(&self.exp_avg_sq)?,
                    now,
                    decay: if *decayed {
                        self.constants.weight_decay
                    } else {
                        0.0
                    },
                });
                done += count;
            }
        }
        Ok(pieces)
    }

    /// The state's tensors, named `<what>.<parameter>`, as views.
    pub(crate) fn tensors(&self) -> Result<Vec<(String, Tensor)>> {
        let vectors = [
            ("exp_avg", Some(&self.exp_avg)),
            ("exp_avg_sq", Some(&self.exp_avg_sq)),
            ("master", self.master.as_ref()),
        ];
        let mut tensors = Vec::new();
        for (what, vector) in vectors {
            let Some(vector) = vector else { continue };
            for slot in &self.slots {
                let view = vector
                    .f_narrow(0, slot.offset, slot.len())
                    .and_then(|t| t.f_view(slot.shape.as_slice()))
                    .doing("view the optimizer's state")?;
                tensors.push((format!("{what}.{}", slot.name), view));
            }
        }
        Ok(tensors)
    }

    pub(crate) fn set_updates(&mut self, updates: u64) {
        self.updates = updates;
    }
}

impl Piece {
    /// Performs the update of this piece.
    pub fn apply(mut self) -> Result<()> {
        let _guard = tch::no_grad_guard();
        self.run().doing("update a piece of the weights")
    }

    fn run(&mut self) -> Result<(), tch::TchError> {
        let Now {
            constants,
            rate,
            scale,
            correction1,
            correction2,
        } = self.now;
        let [beta1, beta2] = constants.betas;
        #[expect(
            clippy::float_cmp,
            reason = "exactly 1 is set where nothing is clipped"
        )]
        if scale != 1.0 {
            let _same = self.gradient.f_mul_scalar_(scale)?;
        }
        let _same = self.exp_avg.f_lerp_(&self.gradient, 1.0 - beta1)?;
        let _same = self.gradient.f_mul_scalar_((1.0 - beta2).sqrt())?;
        let _same = self
            .exp_avg_sq
            .f_mul_scalar_(beta2)?
            .f_addcmul_(&self.gradient, &self.gradient)?;
        if rate <= 0.0 {
            return Ok(());
        }
        if self.decay > 0.0 {
            let _same = self.weights.f_mul_scalar_(1.0 - rate * self.decay)?;
        }
        // The step size goes into the divisor, since the fused operation takes no factor.
        let factor = -correction1 / rate;
        let divisor = self
            .exp_avg_sq
            .f_sqrt()?
            .f_mul_scalar_(factor / correction2.sqrt())?
            .f_add_scalar_(factor * constants.eps)?;
        let _same = self.weights.f_addcdiv_(&self.exp_avg, &divisor)?;
        if let Some(narrow) = &mut self.narrow {
            narrow.f_copy_(&self.weights)?;
        }
        Ok(())
    }
}

/// Moments of double weights are double, all others single.
pub(crate) fn wide(kind: Kind) -> Kind {
    if kind == Kind::Double {
        Kind::Double
    } else {
        Kind::Float
    }
}

/// Adjacent slots with the same decay become one stretch, including the padding between them, which stays zero.
fn stretches(slots: &[Slot]) -> Vec<(i64, i64, bool)> {
    let mut stretches: Vec<(i64, i64, bool)> = Vec::new();
    for slot in slots {
        match stretches.last_mut() {
            Some((first, length, decayed)) if *decayed == slot.is_matrix() => {
                *length = slot.offset + slot.len() - *first;
            }
            _ => stretches.push((slot.offset, slot.len(), slot.is_matrix())),
        }
    }
    stretches
}
