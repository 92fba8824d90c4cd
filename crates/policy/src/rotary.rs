//! Rotary position embedding (Su et al., 2021), as complex rotations.

use tch::{Device, Kind, Tensor};

use crate::config::Config;
use crate::decode::space::room;
use crate::error::{Doing, Result};

/// scale · e^(i·position·frequency) for every position and pair of a head.
#[derive(Debug)]
pub(crate) struct Rotary {
    /// [positions, head / 2], complex.
    table: Tensor,
    /// The kind of half-precision weights, whose heads are rotated in single precision: half precision has no complex
    /// kind on every device.
    widen: Option<Kind>,
}

impl Rotary {
    pub fn new(config: &Config, device: Device, kind: Kind) -> Result<Self> {
        let d = config.head();
        let pairs = usize::try_from(d / 2).unwrap_or_default();
        let positions = usize::try_from(config.max_position_embeddings).unwrap_or_default();
        let (frequencies, scale) = config.rope.frequencies(config.theta(), d);
        let mut values = Vec::new();
        room(
            &mut values,
            positions * pairs * 2,
            "hold the rotations of `max_position_embeddings`",
        )?;
        values.clear();
        for position in 0..positions {
            for f in &frequencies {
                // transformers computes angles in single precision, too.
                let angle = position as f32 * f;
                values.push(angle.cos() * scale);
                values.push(angle.sin() * scale);
            }
        }
        let table = Tensor::f_from_slice(&values)
            .and_then(|t| t.f_view([config.max_position_embeddings, d / 2, 2]))
            .and_then(|t| {
                t.f_to_kind(if kind == Kind::Double {
                    Kind::Double
                } else {
                    Kind::Float
                })
            })
            .and_then(|t| t.f_to_device(device))
            .and_then(|t| t.f_view_as_complex())
            .doing("build the rotary table")?;
        let widen = matches!(kind, Kind::BFloat16 | Kind::Half).then_some(kind);
        Ok(Rotary { table, widen })
    }

    pub fn replica(&self) -> Self {
        Rotary {
            table: self.table.shallow_clone(),
            widen: self.widen,
        }
    }

    /// The rotations of positions `start..start + len`: [len, head / 2].
    pub fn range(&self, start: i64, len: i64) -> Result<Tensor> {
        self.table
            .f_narrow(0, start, len)
            .doing("look up rotations")
    }

    /// The rotations of `positions` [n]: [n, head / 2].
    pub fn at(&self, positions: &Tensor) -> Result<Tensor> {
        self.table
            .f_index_select(0, positions)
            .doing("look up rotations")
    }

    /// Rotates `x` [..., head], whose heads are stored in pairs, by `rotations`, which broadcast against [..., head /
    /// 2].
    pub fn rotate(&self, x: &Tensor, rotations: &Tensor) -> Result<Tensor> {
        let mut shape = x.size();
        let d = shape.pop().unwrap_or_default();
        shape.extend([d / 2, 2]);
        // A pass in single precision over half-precision weights needs no conversion.
        let widen = self.widen.filter(|kind| x.kind() == *kind);
        let rotated = match widen {
            None => x.f_view(shape.as_slice()),
            Some(_) => x
                .f_to_kind(Kind::Float)
                .and_then(|t| t.f_view(shape.as_slice())),
        }
        .and_then(|t| t.f_view_as_complex())
        .and_then(|t| t.f_mul(rotations))
        .and_then(|t| t.f_view_as_real())
        .and_then(|t| t.f_flatten(-2, -1))
        .doing("rotate queries and keys")?;
        match widen {
            None => Ok(rotated),
            Some(kind) => rotated.f_to_kind(kind).doing("narrow rotated heads"),
        }
    }

    /// [`Rotary::rotate`] in place, for use without gradients.
    pub fn rotate_(&self, x: &mut Tensor, rotations: &Tensor) -> Result<()> {
        if self.widen.is_some() {
            let rotated = self.rotate(x, rotations)?;
            return x.f_copy_(&rotated).doing("rotate queries and keys");
        }
        let mut shape = x.size();
        let d = shape.pop().unwrap_or_default();
        shape.extend([d / 2, 2]);
        x.f_view(shape.as_slice())
            .and_then(|t| t.f_view_as_complex())
            .and_then(|mut t| t.f_mul_(rotations))
            .map(drop)
            .doing("rotate queries and keys")
    }
}
