//! Rows of token ids and their distribution to workers.

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
    /// True if the row gets one number for the whole text instead of one for each token.
    pub whole: bool,
}

impl Row {
    /// A row whose completion tokens count.
    pub fn new(prompt: &[u32], completion: &[u32], temperature: f64) -> Self {
        Row {
            ids: prompt
                .iter()
                .chain(completion)
                .map(|id| i64::from(*id))
                .collect(),
            start: prompt.len(),
            temperature,
            whole: false,
        }
    }

    /// A row that gets one number for the whole text.
    pub fn whole(prompt: &[u32], completion: &[u32]) -> Self {
        Row {
            whole: true,
            ..Row::new(prompt, completion, 1.0)
        }
    }

    /// Positions of the tokens that count; for a whole text, the position after its end.
    pub fn wanted(&self) -> Range<usize> {
        let length = self.ids.len();
        if self.whole {
            length..length + 1
        } else {
            self.start..length
        }
    }

    /// Number of positions that count.
    pub fn counted(&self) -> usize {
        self.wanted().len()
    }
}

/// Distributes units of rows to workers and cuts each worker's share into micro-batches: worker → micro-batch → unit.
///
/// `sizes` gives each unit's rows and the tokens of its longest one. The largest units are distributed first, each to
/// the worker with the fewest tokens, so that all workers finish at about the same time. A micro-batch takes rows of
/// similar length while rows × longest stays within `budget`; a larger unit is a micro-batch by itself. The result
/// depends on the arguments alone. No worker's share is empty; there may be fewer shares than workers.
pub fn deal(sizes: &[(usize, usize)], workers: usize, budget: usize) -> Vec<Vec<Vec<usize>>> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|unit| (std::cmp::Reverse(sizes[*unit].1), *unit));
    let workers = workers.clamp(1, sizes.len().max(1));
    let mut hands = vec![Vec::new(); workers];
    let mut loads = vec![0usize; workers];
    for unit in order {
        let mut least = 0;
        for worker in 1..workers {
            if loads[worker] < loads[least] {
                least = worker;
            }
        }
        hands[least].push(unit);
        // Without the minimum, a worker with empty rows would stay the least loaded for ever.
        let (rows, longest) = sizes[unit];
        loads[least] += (rows * longest).max(1);
    }
    hands
        .into_iter()
        .filter(|hand| !hand.is_empty())
        .map(|hand| cut(&hand, sizes, budget))
        .collect()
}

/// Cuts units, sorted by descending length, into micro-batches.
fn cut(units: &[usize], sizes: &[(usize, usize)], budget: usize) -> Vec<Vec<usize>> {
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut rows = 0;
    for unit in units {
        let more = sizes[*unit].0;
        match batches.last_mut() {
            Some(batch) if (rows + more) * sizes[batch[0]].1.max(1) <= budget => {
                batch.push(*unit);
                rows += more;
            }
            _ => {
                batches.push(vec![*unit]);
                rows = more;
            }
        }
    }
    batches
}
