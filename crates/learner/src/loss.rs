//! Policy-gradient losses of one sequence, with their derivatives: plain arithmetic in double precision.
//!
//! With lp the log-probability of a token now, old the one it was drawn with,
//! A the sequence's advantage and ρ = exp(lp − old), the loss of a token is
//!
//! | loss | term | weight of each token |
//! |---|---|---|
//! | grpo | −min(ρA, clip(ρ, 1−ε_low, 1+ε_high)·A) | 1 / (sequences · own length) |
//! | bnpo | same | 1 / tokens of the minibatch |
//! | dr_grpo | same | 1 / (sequences · longest completion possible) |
//! | dapo | same | 1 / tokens of the whole step |
//! | gspo | same with ρ = exp(mean over the sequence of lp − old) | as grpo |
//! | cispo | −min(ρ, ε_high)·A·lp, the factor taken as a constant | as dapo |
//!
//! plus β·(exp(ref − lp) − (ref − lp) − 1), the k3 estimate of the divergence from
//! a reference (Schulman, 2020), which is never negative. The derivatives are written out: libtorch only carries them
//! through the model, and finite differences can check them.

use flopsmith_config::Loss;

/// The terms that the losses of all tokens of a minibatch share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The kind of loss.
    pub loss: Loss,
    /// ε_low.
    pub clip_low: f64,
    /// ε_high.
    pub clip_high: f64,
    /// β.
    pub kl_beta: f64,
    /// δ: a ratio that a negative advantage has pushed beyond this limit counts as the limit (INTELLECT-2,
    /// arXiv:2505.07291). `None` means no bound; `cispo` ignores it.
    pub ratio_limit: Option<f64>,
}

/// One sampled sequence, all slices of the same length.
#[derive(Debug, Clone, Copy)]
pub struct Sequence<'a> {
    /// Log-probabilities now.
    pub logprobs: &'a [f64],
    /// Log-probabilities at the draw.
    pub old: &'a [f32],
    /// Log-probabilities under the reference policy, if there is one.
    pub reference: Option<&'a [f32]>,
    /// The sequence's advantage.
    pub advantage: f64,
    /// Weight of each token, from [`token_weights`].
    pub weight: f64,
    /// Factor of each token's term, a constant: [`crate::correction`]. The divergence from the reference has no factor.
    pub factors: Option<&'a [f64]>,
}

/// Sums over tokens, from which means are computed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Weighted loss.
    pub loss: f64,
    /// Divergence of the policy from the one that drew the tokens: ρ − 1 − ln ρ for each token, at least 0.
    pub kl: f64,
    /// k3 divergence from the reference.
    pub reference_kl: f64,
    /// Token ratios.
    pub ratio: f64,
    /// |lp − old|.
    pub abs_logratio: f64,
    /// Entropies of the distributions.
    pub entropy: f64,
    /// Tokens whose ratio has passed a bound in the direction of the advantage, and which are not pushed further.
    pub clipped: u64,
    /// Tokens with an entropy.
    pub entropy_tokens: u64,
    /// Tokens with a log-probability at the draw: divergence, ratios and clipping are computed over these.
    pub compared: u64,
    /// Tokens.
    pub tokens: u64,
    /// The values' part of `loss`.
    pub value_loss: f64,
    /// Tokens whose value is out of bounds and therefore not trained.
    pub values_clipped: u64,
    /// Pairs.
    pub pairs: u64,
    /// Pairs whose fast answer has the higher score.
    pub right: u64,
    /// Sum of the differences fast minus slow of the answers' scores; may be negative.
    pub gap: f64,
}

impl Tally {
    /// Adds another's sums.
    pub fn add(&mut self, other: &Tally) {
        self.loss += other.loss;
        self.kl += other.kl;
        self.reference_kl += other.reference_kl;
        self.ratio += other.ratio;
        self.abs_logratio += other.abs_logratio;
        self.entropy += other.entropy;
        self.clipped += other.clipped;
        self.entropy_tokens += other.entropy_tokens;
        self.compared += other.compared;
        self.tokens += other.tokens;
        self.value_loss += other.value_loss;
        self.values_clipped += other.values_clipped;
        self.pairs += other.pairs;
        self.right += other.right;
        self.gap += other.gap;
    }

    /// The sums over `copies` sequences like this one. The loss already includes its weight and stays; pairs and values
    /// have no copies.
    pub(crate) fn repeated(self, copies: u32) -> Tally {
        let (n, times) = (u64::from(copies), f64::from(copies));
        Tally {
            loss: self.loss,
            kl: self.kl * times,
            reference_kl: self.reference_kl * times,
            ratio: self.ratio * times,
            abs_logratio: self.abs_logratio * times,
            entropy: self.entropy * times,
            clipped: self.clipped * n,
            entropy_tokens: self.entropy_tokens * n,
            compared: self.compared * n,
            tokens: self.tokens * n,
            ..self
        }
    }
}

/// Weight of each token of each sequence of a minibatch, by the table above.
///
/// `lengths` are the completions' tokens, `step_tokens` those of the whole
/// step, `longest` the longest completion possible.
pub fn token_weights(
    loss: Loss,
    lengths: &[usize],
    step_tokens: usize,
    longest: usize,
) -> Vec<f64> {
    let sequences = lengths.len() as f64;
    let tokens: usize = lengths.iter().sum();
    lengths
        .iter()
        .map(|length| match loss {
            Loss::Grpo | Loss::Gspo => 1.0 / (sequences * (*length).max(1) as f64),
            Loss::Bnpo => 1.0 / tokens.max(1) as f64,
            Loss::DrGrpo => 1.0 / (sequences * longest.max(1) as f64),
            Loss::Dapo | Loss::Cispo => 1.0 / step_tokens.max(1) as f64,
        })
        .collect()
}

/// k3 estimate of the divergence from a reference, and its derivative by the log-probability.
pub fn k3(logprob: f64, reference: f64) -> (f64, f64) {
    let d = reference - logprob;
    // exp_m1 keeps the digits if the two policies hardly differ.
    (d.exp_m1() - d, -d.exp_m1())
}

/// Loss of a sequence; the derivative by each log-probability is written to `slopes`.
pub fn differentiate(terms: &Terms, s: &Sequence<'_>, slopes: &mut [f64]) -> Tally {
    let (low, high) = (1.0 - terms.clip_low, 1.0 + terms.clip_high);
    let (a, w) = (s.advantage, s.weight);
    let mut tally = Tally {
        compared: s.logprobs.len() as u64,
        tokens: s.logprobs.len() as u64,
        ..Tally::default()
    };
    let of_sequence = terms.loss.has_ratio_of_sequence().then(|| {
        let sum: f64 = s
            .logprobs
            .iter()
            .zip(s.old)
            .map(|(lp, old)| lp - f64::from(*old))
            .sum();
        (sum / s.logprobs.len().max(1) as f64).exp()
    });
    let mean_factor = of_sequence.and(s.factors).map(|factors| {
        let sum: f64 = factors.iter().sum();
        sum / factors.len().max(1) as f64
    });
    for (t, slope) in slopes.iter_mut().enumerate() {
        let lp = s.logprobs[t];
        let log_ratio = lp - f64::from(s.old[t]);
        let own = log_ratio.exp();
        tally.kl += log_ratio.exp_m1() - log_ratio;
        tally.ratio += own;
        tally.abs_logratio += log_ratio.abs();
        let (value, by_logprob, clipped) = match terms.loss {
            Loss::Cispo => {
                let factor = own.min(terms.clip_high);
                let clipped = own > terms.clip_high && a > 0.0;
                (-factor * a * lp, -factor * a, clipped)
            }
            Loss::Grpo | Loss::Bnpo | Loss::DrGrpo | Loss::Dapo | Loss::Gspo => {
                // The mean in a sequence's ratio and the sum over its tokens cancel: the sequence's slope has the form
                // of a token's.
                let ratio = of_sequence.unwrap_or(own);
                let limit = terms.ratio_limit.unwrap_or(f64::INFINITY);
                // In this form a NaN ratio stays NaN.
                let limited = if ratio > limit { limit } else { ratio };
                let (free, bound) = (limited * a, ratio.clamp(low, high) * a);
                let clipped =
                    ((ratio < low || ratio > limit) && a < 0.0) || (ratio > high && a > 0.0);
                // A NaN ratio must give a NaN loss; `min` would drop the NaN.
                let value = if bound < free { bound } else { free };
                (-value, if clipped { 0.0 } else { -free }, clipped)
            }
        };
        let factor = s.factors.map_or(1.0, |factors| factors[t]);
        // Every token's log-probability changes the ratio of the whole sequence, in all of its terms.
        let moved = mean_factor.unwrap_or(factor);
        let (mut value, mut by_logprob) = (factor * value, moved * by_logprob);
        if let Some(reference) = s.reference {
            let (kl, kl_slope) = k3(lp, f64::from(reference[t]));
            tally.reference_kl += kl;
            value += terms.kl_beta * kl;
            by_logprob += terms.kl_beta * kl_slope;
        }
        tally.loss += w * value;
        tally.clipped += u64::from(clipped);
        *slope = w * by_logprob;
    }
    tally
}
