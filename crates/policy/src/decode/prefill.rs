//! Running the prompts, before anything is written.

use std::collections::HashMap;
use std::ops::Range;

use tch::Tensor;

use crate::decode::Prompt;
use crate::error::{Doing, Result};
use crate::model::Model;

/// Prompt tokens that are run at once.
const TOKENS_AT_ONCE: usize = 1 << 14;

/// Runs every distinct prompt once; `rows` come sorted by descending length, equal ones side by side. Returns the scores after each row's prompt, [rows, vocabulary].
///
/// For each block, `put` is shown a stretch of rows, the keys and values of their distinct prompts, [prompts, kv heads, length, head], and which prompt each of the rows begins with.
pub(super) fn run(
    model: &Model,
    rows: &[Prompt<'_>],
    mut put: impl FnMut(usize, Range<usize>, &Tensor, &Tensor, &[i64]) -> Result<()>,
) -> Result<Tensor> {
    let mut logits = Vec::new();
    let mut first = 0;
    while first < rows.len() {
        // Prompts of one length make a batch without padding.
        let length = rows[first].tokens.len();
        let most = (TOKENS_AT_ONCE / length).max(1);
        let mut distinct: Vec<&[u32]> = Vec::new();
        let mut seen: HashMap<&[u32], i64> = HashMap::new();
        let mut from: Vec<i64> = Vec::new();
        for row in rows[first..]
            .iter()
            .take_while(|r| r.tokens.len() == length)
        {
            let prompt = row.tokens;
            if !seen.contains_key(prompt) && distinct.len() == most {
                break;
            }
            from.push(*seen.entry(prompt).or_insert_with(|| {
                distinct.push(prompt);
                distinct.len() as i64 - 1
            }));
        }
        let end = first + from.len();
        let ids: Vec<i64> = distinct
            .iter()
            .flat_map(|p| p.iter().map(|id| i64::from(*id)))
            .collect();
        let ids = Tensor::f_from_slice(&ids)
            .and_then(|t| t.f_view([distinct.len() as i64, length as i64]))
            .and_then(|t| t.f_to_device(model.device()))
            .doing("hand over prompts")?;
        let head = model.head()?;
        let hidden = model.run(&ids, |block, keys, values| {
            put(block, first..end, keys, values, &from)
        })?;
        let from = Tensor::f_from_slice(&from)
            .and_then(|t| t.f_to_device(model.device()))
            .doing("hand over prompts")?;
        logits.push(
            hidden
                .f_select(1, length as i64 - 1)
                .and_then(|h| h.f_linear(head, None::<&Tensor>)?.f_index_select(0, &from))
                .doing("score the vocabulary")?,
        );
        first = end;
    }
    Tensor::f_cat(&logits, 0).doing("join scores")
}
