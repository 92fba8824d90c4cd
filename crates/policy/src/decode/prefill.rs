//! Runs the prompts before the first token is drawn.

use std::collections::HashMap;

use tch::Tensor;

use crate::decode::Prompt;
use crate::error::{Doing, Result};
use crate::model::Model;

/// Largest number of prompt tokens that run in one pass.
const TOKENS_AT_ONCE: usize = 1 << 14;

/// Number of prompt positions from which widening the weights pays: widening costs about as much as multiplying this
/// many positions by them.
const WORTH_WIDENING: usize = 128;

/// Rows that begin with the prompts of one pass.
pub(super) struct Stretch<'a> {
    /// Indices of the rows' prompts, ascending.
    pub rows: &'a [usize],
    /// For each of these rows, the index of its prompt in the pass.
    pub from: &'a [i64],
}

/// Runs each distinct prompt once, except those that a row in flight began with. The prompts come sorted by descending
/// length, equal ones next to each other.
///
/// For each block, `put` receives a stretch of rows and the keys and values of their distinct prompts, [prompts, kv
/// heads, length, head].
///
/// `widen`: compute in single precision for weights of lower precision, if there are enough positions to pay for
/// widening the weights.
pub(super) fn run(
    model: &Model,
    prompts: &[Prompt<'_>],
    widen: bool,
    mut put: impl FnMut(usize, &Stretch<'_>, &Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let new: Vec<usize> = (0..prompts.len())
        .filter(|n| prompts[*n].like.is_none() && !prompts[*n].tokens.is_empty())
        .collect();
    let mut rest = new.as_slice();
    while let Some(first) = rest.first() {
        // Prompts of one length make a batch without padding.
        let length = prompts[*first].tokens.len();
        let most = (TOKENS_AT_ONCE / length).max(1);
        let mut distinct: Vec<&[u32]> = Vec::new();
        let mut seen: HashMap<&[u32], i64> = HashMap::new();
        let mut from: Vec<i64> = Vec::new();
        for tokens in rest
            .iter()
            .map(|n| prompts[*n].tokens)
            .take_while(|t| t.len() == length)
        {
            if !seen.contains_key(tokens) && distinct.len() == most {
                break;
            }
            from.push(*seen.entry(tokens).or_insert_with(|| {
                distinct.push(tokens);
                distinct.len() as i64 - 1
            }));
        }
        let (rows, later) = rest.split_at(from.len());
        rest = later;
        let stretch = Stretch { rows, from: &from };
        let ids: Vec<i64> = distinct
            .iter()
            .flat_map(|p| p.iter().map(|id| i64::from(*id)))
            .collect();
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_view([distinct.len() as i64, length as i64]))
            .and_then(|t| t.f_to_device(model.device()))
            .doing("hand over prompts")?;
        // Only the keys and values are needed, not the hidden states.
        let keep = |block, keys: &Tensor, values: &Tensor| put(block, &stretch, keys, values);
        if widen && distinct.len() * length >= WORTH_WIDENING {
            model.run_widened(&ids, keep)?;
        } else {
            let _hidden = model.run(&ids, keep)?;
        }
    }
    Ok(())
}
