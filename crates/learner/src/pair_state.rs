//! The files that only a training on pairs has.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use crate::batch::Row;
use crate::error::{Error, Result};
use crate::trainer;

/// The reference's log-probabilities of the answers.
pub(crate) const REFERENCES: &str = "references.safetensors";
/// The saved counters that only a training on pairs has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Own {
    pub steps: u64,
    pub batch: usize,
    /// [`digest`] of the pairs.
    pub pairs: String,
}

impl trainer::Own for Own {
    const KIND: &'static str = "pairs";
}

impl Own {
    /// Checks that the files were saved by a training like `own`.
    pub fn fits(&self, own: &Self, same_seed: bool) -> Result<()> {
        trainer::made_alike(&[
            ("other pairs", self.pairs != own.pairs),
            ("another `seed`", !same_seed),
            ("another `batch`", self.batch != own.batch),
            ("another number of updates", self.steps != own.steps),
        ])
    }
}

/// Identifies rows by all tokens and margins.
pub(crate) fn digest(rows: &[Row], margins: &[f64]) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |number: u64| {
        hasher.update(&number.to_le_bytes());
    };
    for row in rows {
        add(row.ids.len() as u64);
        add(row.start as u64);
        row.ids.iter().for_each(|id| add(id.cast_unsigned()));
    }
    margins.iter().for_each(|margin| add(margin.to_bits()));
    hasher.finalize().to_hex().to_string()
}

/// The reference's log-probabilities of all answers, those of the pairs and those of the held-out pairs.
pub(crate) fn references_bytes(train: &[f64], held_out: &[f64]) -> Result<Vec<u8>> {
    let bytes =
        |numbers: &[f64]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let (first, second) = (bytes(train), bytes(held_out));
    let damaged = |source| Error::Safetensors {
        file: REFERENCES,
        source,
    };
    let view = |numbers: &[f64], bytes| {
        TensorView::new(Dtype::F64, vec![numbers.len()], bytes).map_err(damaged)
    };
    let tensors = [
        ("train", view(train, &first)?),
        ("held_out", view(held_out, &second)?),
    ];
    safetensors::serialize(tensors, None).map_err(damaged)
}

/// Reads the output of [`references_bytes`]; `lengths` are the expected numbers of answers.
pub(crate) fn parse_references(bytes: &[u8], lengths: [usize; 2]) -> Result<[Vec<f64>; 2]> {
    let damaged = |source| Error::Safetensors {
        file: REFERENCES,
        source,
    };
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let read = |name: &str, length: usize| {
        let view = file.tensor(name).map_err(damaged)?;
        if view.dtype() != Dtype::F64 || view.shape() != [length] {
            return Err(wrong(
                REFERENCES,
                format!(
                    "`{name}` is {:?} {:?} and should be F64 [{length}]",
                    view.dtype(),
                    view.shape()
                ),
            ));
        }
        let numbers = view.data().chunks_exact(8).map(|chunk| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            f64::from_le_bytes(bytes)
        });
        Ok(numbers.collect())
    };
    Ok([read("train", lengths[0])?, read("held_out", lengths[1])?])
}

fn wrong(file: &'static str, reason: String) -> Error {
    Error::State { file, reason }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn references_come_back_bit_by_bit() {
        let (train, held_out) = (vec![-0.1, f64::MIN_POSITIVE, -1.0 / 3.0], vec![]);
        let bytes = references_bytes(&train, &held_out).unwrap();
        assert_eq!(parse_references(&bytes, [3, 0]).unwrap(), [train, held_out]);
        assert!(matches!(
            parse_references(&bytes, [2, 0]),
            Err(Error::State { .. })
        ));
        assert!(matches!(
            parse_references(b"{}", [3, 0]),
            Err(Error::Safetensors { .. })
        ));
    }

    #[test]
    fn other_tokens_starts_and_margins_have_another_digest() {
        let rows = |tokens: &[u32]| vec![Row::new(&[1, 2], tokens, 1.0)];
        let one = digest(&rows(&[3, 4]), &[1.5]);
        assert_eq!(one, digest(&rows(&[3, 4]), &[1.5]));
        assert_ne!(one, digest(&rows(&[4, 3]), &[1.5]));
        assert_ne!(one, digest(&rows(&[3, 4]), &[2.5]));
        let moved = Row::new(&[1], &[2, 3, 4], 1.0);
        assert_ne!(one, digest(&[moved], &[1.5]));
    }
}
