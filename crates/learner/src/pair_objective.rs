//! Pairs as rows, and the mean of their losses as an objective.

use std::sync::Arc;

use flopsmith_policy::{Model, Plan};
use serde::{Deserialize, Serialize};

use crate::batch::Row;
use crate::error::{Error, Result};
use crate::gradient::{Objective, RowScores, RowSlopes};
use crate::learner::check_ids;
use crate::loss::Tally;
use crate::pairwise::{self, Evidence, Judged, Likelihoods};

/// A fast and a slow answer to one prompt, as token ids; each answer includes its end token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenPair {
    /// The prompt, at least one token.
    pub prompt: Vec<u32>,
    /// The better answer, at least one token.
    pub fast: Vec<u32>,
    /// The worse answer, at least one token.
    pub slow: Vec<u32>,
    /// The evidence that determines the margin.
    pub evidence: Evidence,
}

/// Accuracy of a model on pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairMetrics {
    /// Mean loss.
    pub loss: f64,
    /// Share of pairs whose fast answer has the higher score (Nichols et al., equations 5 and 8). Equal scores count as
    /// wrong.
    pub accuracy: f64,
    /// Mean difference between the fast answer's score and the slow one's.
    pub gap: f64,
    /// Number of pairs.
    pub pairs: u64,
}

/// The kind of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Aim {
    /// Whole texts.
    Rewards,
    /// Answers, relative to a reference.
    Alignment {
        /// β.
        beta: f64,
    },
}

/// Pairs as rows: row 2i is the fast answer of pair i, and row 2i + 1 the slow one.
#[derive(Debug, Clone)]
pub(crate) struct Dealt {
    pub rows: Arc<Vec<Row>>,
    pub margins: Arc<Vec<f64>>,
    /// Log-probability of each row's answer under the reference, once computed.
    pub references: Option<Arc<Vec<f64>>>,
}

impl Aim {
    pub fn plan(self) -> Plan {
        match self {
            Aim::Rewards => Plan {
                logprobs: false,
                values: true,
                ..Plan::LOGPROBS
            },
            Aim::Alignment { .. } => Plan::LOGPROBS,
        }
    }
}

impl Dealt {
    pub fn new(
        model: &Model,
        aim: Aim,
        pairs: &[TokenPair],
        margin_cap: f64,
        what: &str,
    ) -> Result<Self> {
        let mut rows = Vec::with_capacity(2 * pairs.len());
        let mut margins = Vec::with_capacity(pairs.len());
        for (i, pair) in pairs.iter().enumerate() {
            if pair.prompt.is_empty() || pair.fast.is_empty() || pair.slow.is_empty() {
                return Err(Error::Input(format!(
                    "{what} {i} has an empty prompt or answer"
                )));
            }
            if !pair.evidence.is_sound() {
                return Err(Error::Input(format!(
                    "{what} {i} has times that are no positive numbers of seconds, or whose fast one is the slower one: {:?}",
                    pair.evidence
                )));
            }
            for answer in [&pair.fast, &pair.slow] {
                check_ids(model, what, i, &pair.prompt, answer)?;
                rows.push(match aim {
                    Aim::Rewards => Row::whole(&pair.prompt, answer),
                    Aim::Alignment { .. } => Row::new(&pair.prompt, answer, 1.0),
                });
            }
            margins.push(pair.evidence.margin(margin_cap));
        }
        Ok(Dealt {
            rows: Arc::new(rows),
            margins: Arc::new(margins),
            references: None,
        })
    }

    pub fn pairs(&self) -> usize {
        self.margins.len()
    }
}

/// Mean loss of the given pairs.
pub(crate) struct Pairs {
    pub aim: Aim,
    pub margins: Arc<Vec<f64>>,
    pub references: Option<Arc<Vec<f64>>>,
    /// 1 / pairs.
    pub weight: f64,
}

impl Pairs {
    /// `fast` and `slow` are rewards, or log-probabilities of answers.
    pub fn judge(&self, pair: usize, fast: f64, slow: f64) -> Judged {
        let margin = self.margins[pair];
        match self.aim {
            Aim::Rewards => pairwise::rewards(fast, slow, margin),
            Aim::Alignment { beta } => {
                // The reference's log-probabilities are computed before the first loss.
                let reference = |row: usize| {
                    self.references
                        .as_ref()
                        .map_or(f64::NAN, |known| known[row])
                };
                let of = Likelihoods {
                    fast,
                    slow,
                    fast_reference: reference(2 * pair),
                    slow_reference: reference(2 * pair + 1),
                };
                pairwise::alignment(&of, beta, margin)
            }
        }
    }

    pub fn tally(&self, judged: &Judged) -> Tally {
        Tally {
            loss: self.weight * judged.loss,
            pairs: 1,
            right: u64::from(judged.right),
            gap: judged.gap,
            ..Tally::default()
        }
    }
}

impl Objective for Pairs {
    fn wants(&self) -> Plan {
        self.aim.plan()
    }

    fn differentiate(
        &self,
        rows: &[usize],
        scores: &[RowScores<'_>],
        slopes: &mut [RowSlopes<'_>],
    ) -> Tally {
        let sum = |of: &RowScores<'_>| match self.aim {
            Aim::Rewards => of.values.iter().sum(),
            Aim::Alignment { .. } => of.logprobs.iter().sum(),
        };
        let judged = self.judge(rows[0] / 2, sum(&scores[0]), sum(&scores[1]));
        for (slopes, by) in slopes.iter_mut().zip([judged.by_fast, judged.by_slow]) {
            // The derivative by the answer's log-probability is that by each token's.
            match self.aim {
                Aim::Rewards => slopes.values.fill(self.weight * by),
                Aim::Alignment { .. } => slopes.logprobs.fill(self.weight * by),
            }
        }
        self.tally(&judged)
    }
}

/// Means of the counted pairs. The loss already includes its weights.
pub(crate) fn metrics(tally: &Tally) -> PairMetrics {
    let pairs = tally.pairs.max(1) as f64;
    PairMetrics {
        loss: tally.loss,
        accuracy: tally.right as f64 / pairs,
        gap: tally.gap / pairs,
        pairs: tally.pairs,
    }
}
