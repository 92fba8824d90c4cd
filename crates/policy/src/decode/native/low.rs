//! A matrix in the model's own memory, and the low-rank update that an adapter adds to its products.

use std::ops::Range;

use super::plain::Plain;
use crate::error::Result;
use crate::lora::LowRank;
use crate::model::Linear;

/// A model's matrix, with the adapter's low-rank update if there is one.
#[derive(Debug)]
pub(super) struct Adapted<'a> {
    pub plain: Plain<'a>,
    pub low: Option<Low<'a>>,
}

/// The low-rank update of a product: scale · B (A x).
#[derive(Debug)]
pub(super) struct Low<'a> {
    /// [ranks of all adapted parts, inputs].
    pub a: Plain<'a>,
    pub scale: f32,
    pub parts: Vec<Part<'a>>,
}

/// One adapted part of a product.
#[derive(Debug)]
pub(super) struct Part<'a> {
    /// The part's outputs, as a range of the product's outputs.
    pub outputs: Range<usize>,
    /// Index of the part's first number in A's output.
    pub at: usize,
    /// [outputs, rank].
    pub b: Plain<'a>,
}

impl<'a> Adapted<'a> {
    /// Borrows the weights of a product without copying them.
    pub fn of(linear: Linear<'a>) -> Result<Self> {
        Ok(Self {
            plain: Plain::of(linear.weight)?,
            low: linear.low.map(Low::of).transpose()?,
        })
    }

    /// Length of A's output for a row; 0 without an adapter.
    pub fn ranks(&self) -> usize {
        self.low.as_ref().map_or(0, |low| low.a.outputs())
    }
}

impl<'a> Low<'a> {
    fn of(low: LowRank<'a>) -> Result<Self> {
        let width = |n: i64| usize::try_from(n).unwrap_or_default();
        let (mut begin, mut at) = (0, 0);
        let mut parts = Vec::new();
        for (outputs, b) in low.parts {
            let outputs = begin..begin + width(outputs);
            begin = outputs.end;
            if let Some(b) = b {
                let b = Plain::of(b)?;
                parts.push(Part { outputs, at, b });
                at += width(low.rank);
            }
        }
        Ok(Self {
            a: Plain::of(low.a)?,
            scale: low.scale as f32,
            parts,
        })
    }
}

impl Part<'_> {
    /// The part of `outputs`, a range of the product's outputs, that belongs to this part, counted from the part's
    /// first output.
    pub fn own(&self, outputs: &Range<usize>) -> Range<usize> {
        let within = |n: usize| n.clamp(self.outputs.start, self.outputs.end) - self.outputs.start;
        within(outputs.start)..within(outputs.end)
    }
}
