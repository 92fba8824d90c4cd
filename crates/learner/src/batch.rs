//! Rows of token ids and how they are dealt to workers.

use std::ops::Range;

/// One sequence to be scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Token ids, prompt and completion.
    pub ids: Vec<i64>,
    /// Position of the first token that counts, at least 1.
    pub start: usize,
    /// Softmax temperature.
    pub temperature: f64,
}

impl Row {
    /// A row of which the tokens after the prompt count.
    pub fn new(prompt: &[u32], completion: &[u32], temperature: f64) -> Self {
        Row {
            ids: prompt
                .iter()
                .chain(completion)
                .map(|id| i64::from(*id))
                .collect(),
            start: prompt.len(),
            temperature,
        }
    }

    /// Positions of the tokens that count.
    pub fn wanted(&self) -> Range<usize> {
        self.start..self.ids.len()
    }

    /// How many tokens count.
    pub fn counted(&self) -> usize {
        self.ids.len().saturating_sub(self.start)
    }
}

/// Deals rows to workers and cuts each worker's hand into micro-batches: worker → micro-batch → row.
///
/// `lengths` gives each row's number of tokens. The longest rows are dealt
/// first, each to the worker with the fewest tokens, so that all finish at
/// about the same time. A micro-batch takes rows of similar length while rows
/// × longest stays within `budget`; a row that is longer goes alone. The
/// outcome depends on nothing but the arguments. No worker's hand is empty; there may be fewer hands than workers.
pub fn deal(lengths: &[usize], workers: usize, budget: usize) -> Vec<Vec<Vec<usize>>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|row| (std::cmp::Reverse(lengths[*row]), *row));
    let workers = workers.clamp(1, lengths.len().max(1));
    let mut hands = vec![Vec::new(); workers];
    let mut loads = vec![0usize; workers];
    for row in order {
        let mut least = 0;
        for worker in 1..workers {
            if loads[worker] < loads[least] {
                least = worker;
            }
        }
        hands[least].push(row);
        // A row without tokens would otherwise leave its worker the least loaded for ever.
        loads[least] += lengths[row].max(1);
    }
    hands
        .into_iter()
        .filter(|hand| !hand.is_empty())
        .map(|hand| cut(&hand, lengths, budget))
        .collect()
}

/// Cuts rows sorted by falling length.
fn cut(rows: &[usize], lengths: &[usize], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for row in rows {
        match batches.last_mut() {
            Some(batch) if (batch.len() + 1) * lengths[batch[0]].max(1) <= budget => {
                batch.push(*row);
            }
            _ => batches.push(vec![*row]),
        }
    }
    batches
}
