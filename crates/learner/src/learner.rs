//! The learner: groups of samples in, updated weights out.

use std::sync::Arc;
use std::time::Instant;

use flopsmith_policy::{Entropy, Kind, LoraConfig, Model, Plan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::batch::Row;
use flopsmith_config::Correction;
use flopsmith_config::rates::warm;
use flopsmith_config::{GrpoConfig, OutOfRange, Training as _};

use crate::correction;
use crate::duplicates::{Duplicates, Share};
use crate::error::{Doing, Error, Result};
use crate::gradient::{Objective, RowScores, RowSlopes};
use crate::loss::{Sequence, Tally, Terms, differentiate, token_weights};
use crate::report::StepReport;
use crate::trainer::{Own, Trainer};
use crate::{pace, sharpen, state};

/// One sampled completion and its advantage.
#[derive(Debug, Clone, PartialEq)]
pub struct GrpoSample {
    /// The prompt's token ids, at least one.
    pub prompt: Vec<u32>,
    /// The sampled token ids including the end token, at least one.
    pub tokens: Vec<u32>,
    /// Log-probability of each sampled token under the distribution it was drawn from, which is that of `temperature`
    /// without top-k and top-p. Empty for tokens that were not drawn for this step: such tokens are imitated, with a
    /// ratio of 1 under every policy.
    pub old_logprobs: Vec<f32>,
    /// The advantage of the whole completion. An advantage of 0 trains nothing by itself, but the sample counts in the
    /// means.
    pub advantage: f32,
    /// Softmax temperature the tokens were drawn at.
    pub temperature: f32,
}

/// The saved counters that only GRPO and its relatives have.
#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    steps: u64,
    /// Factor of the step size if the step size follows the divergence.
    pace: f64,
    /// Factor by which the logits have grown.
    sharpened: f64,
}

impl Own for Saved {
    const KIND: &'static str = "grpo";
}

/// A policy in training.
pub struct Learner {
    /// The policy. Its weights change with every [`Learner::step`].
    pub model: Model,
    config: GrpoConfig,
    trainer: Trainer,
    reference: Option<Model>,
    /// Number of calls of [`Learner::step`] that trained.
    steps: u64,
    /// Factor of the step size, if the step size follows the divergence.
    pace: f64,
    /// Factor by which sharpening has multiplied the logits.
    sharpened: f64,
    /// Spent share of the run's budget.
    progress: f64,
}

impl Learner {
    /// A learner for `model`. If `config.kl_beta` is not 0, a reference is kept: a frozen copy of the model. With an
    /// adapter the reference is the weights below the adapter, plus a copy of an adapter that the model had before.
    /// With `config.lora` a model without an adapter gets a fresh one. [`Correction::Auto`] is resolved for the model's
    /// kind of numbers.
    ///
    /// `seed` determines the samples of each minibatch.
    pub fn new(mut model: Model, mut config: GrpoConfig, seed: u64) -> Result<Self> {
        config.check()?;
        let half = matches!(model.kind(), Kind::BFloat16 | Kind::Half);
        config.check_for_weights(half)?;
        config.correction = config.correction.for_weights(half);
        let reference = match (config.kl_beta > 0.0, &config.lora, model.adapter()) {
            (false, ..) => None,
            (true, None, None) => Some(model.frozen_copy()),
            // The weights below an adapter never change and need no copy.
            _ => Some(model.sibling()),
        };
        let reference = reference.transpose().doing("keep itself as a reference")?;
        adapt(&mut model, config.lora.as_ref(), seed)?;
        let trainer = Trainer::new(&mut model, config.shared(), config.cores, seed)?;
        Ok(Learner {
            model,
            config,
            trainer,
            reference,
            steps: 0,
            pace: 1.0,
            sharpened: 1.0,
            progress: 0.0,
        })
    }

    /// The settings.
    pub fn config(&self) -> &GrpoConfig {
        &self.config
    }

    /// Sets the spent share of the run's budget, 0 to 1; [`GrpoConfig::final_rate`] and [`GrpoConfig::sharpen`] depend
    /// on it.
    pub fn set_progress(&mut self, share: f64) {
        self.progress = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
    }

    /// Number of calls of [`Learner::step`] that trained.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Updates of the weights so far.
    pub fn updates(&self) -> u64 {
        self.trainer.updates()
    }

    /// Trains on the samples of one step: `epochs` passes of `minibatches` updates each. Equal samples are computed
    /// once and counted each.
    ///
    /// With [`Error::NotFinite`] the failed update changed nothing; updates of earlier minibatches of the same step
    /// stay. Samples that contradict themselves or the model are refused before the computation begins.
    pub fn step(&mut self, samples: &[GrpoSample]) -> Result<StepReport> {
        let began = Instant::now();
        let mut report = StepReport::default();
        if samples.is_empty() {
            return Ok(report);
        }
        check(&self.model, samples, self.trainer.updates())?;
        let duplicates = Duplicates::of(samples);
        let rows: Arc<Vec<Row>> = Arc::new(
            duplicates
                .first
                .iter()
                .map(|first| &samples[*first])
                .map(|s| Row::new(&s.prompt, &s.tokens, f64::from(s.temperature)))
                .collect(),
        );
        let everything: Vec<usize> = (0..rows.len()).collect();
        let references = match &self.reference {
            Some(reference) => Some(
                self.trainer
                    .engine
                    .logprobs(reference, &rows, &everything)?,
            ),
            None => None,
        };
        let step_tokens = samples.iter().map(|s| s.tokens.len()).sum();
        let longest = samples.iter().map(|s| s.tokens.len()).max();
        let (clip_low, clip_high) = self.config.clip();
        let drawn: Vec<Vec<f32>> = duplicates
            .first
            .iter()
            .map(|first| samples[*first].old_logprobs.clone())
            .collect();
        let Compared {
            old,
            factors,
            left_out,
            gap,
        } = self.corrected(&rows, drawn, &mut report)?;
        let mut objective = Arc::new(Clipped {
            terms: Terms {
                loss: self.config.loss,
                clip_low,
                clip_high,
                kl_beta: self.config.kl_beta,
                ratio_limit: self.config.ratio_limit,
            },
            entropy: Entropy::Report,
            entropy_bonus: self.config.entropy_bonus,
            references,
            shares: vec![Share::default(); rows.len()],
            old,
            factors,
            left_out,
        });
        let mut random = ChaCha8Rng::seed_from_u64(self.trainer.seed());
        // Each step has its own random stream: the number of steps is the whole random state.
        random.set_stream(self.steps);
        let mut sums = Tally::default();
        for epoch in 0..self.config.epochs {
            for picked in minibatches(samples.len(), self.config.minibatches, &mut random) {
                let lengths: Vec<usize> = picked.iter().map(|i| samples[*i].tokens.len()).collect();
                let limit = self.config.max_completion_tokens.or(longest);
                let weights = token_weights(
                    self.config.loss,
                    &lengths,
                    step_tokens,
                    limit.unwrap_or_default(),
                );
                let shared = Arc::get_mut(&mut objective).ok_or(Error::ThreadEnded)?;
                let mut picked_rows = Vec::new();
                for (row, share) in duplicates.shares(samples, &picked, &weights) {
                    shared.shares[row] = share;
                    picked_rows.push(row);
                }
                shared.entropy = match (self.config.entropy_bonus, epoch) {
                    (0.0, 0) => Entropy::Report,
                    (0.0, _) => Entropy::Skip,
                    _ => Entropy::Train,
                };
                self.update(&rows, &picked_rows, &objective, &mut report, &mut sums)?;
            }
        }
        self.steps += 1;
        if let Some(target) = self.config.target_kl
            && self.trainer.updates() >= self.config.warmup_steps
        {
            self.pace = pace::next(self.pace, report.kl_at_end, target);
        }
        let factor = sharpen::next(self.sharpened, self.config.sharpen, self.progress);
        if factor > 1.0 {
            self.trainer
                .scale(&self.model, flopsmith_policy::layout::FINAL_NORM, factor)?;
            self.sharpened *= factor;
        }
        report.fill(&sums);
        report.sampler_gap = gap.unwrap_or(report.sampler_gap);
        report.seconds = began.elapsed().as_secs_f64();
        Ok(report)
    }

    /// The log-probabilities that a step's ratios refer to, and the factors of each row's tokens: those of
    /// [`crate::correction`] if one is set.
    fn corrected(
        &self,
        rows: &Arc<Vec<Row>>,
        drawn: Vec<Vec<f32>>,
        report: &mut StepReport,
    ) -> Result<Compared> {
        let (correction, max_gap) = (self.config.correction, self.config.max_gap);
        if correction == Correction::None && max_gap.is_none() {
            return Ok(Compared {
                factors: vec![None; drawn.len()],
                left_out: vec![false; drawn.len()],
                gap: None,
                old: drawn,
            });
        }
        let everything: Vec<usize> = (0..rows.len()).collect();
        let now = self
            .trainer
            .engine
            .logprobs(&self.model, rows, &everything)?;
        let mut factors = Vec::new();
        let mut left_out = Vec::new();
        let mut old = Vec::new();
        let (mut gaps, mut tokens) = (0.0, 0.0);
        for (now, drawn) in now.into_iter().zip(drawn) {
            // Tokens that were not drawn for this step need no correction.
            if drawn.is_empty() {
                factors.push(None);
                left_out.push(false);
                old.push(drawn);
                continue;
            }
            let gap = correction::gap(&now, &drawn);
            gaps += gap * now.len() as f64;
            tokens += now.len() as f64;
            let far = max_gap.is_some_and(|most| gap > most);
            report.left_out += u64::from(far);
            left_out.push(far);
            if correction == Correction::None {
                factors.push(None);
                old.push(drawn);
            } else {
                let weights =
                    correction::weights(correction, self.config.correction_cap, &now, &drawn);
                factors.push(Some(weights));
                old.push(now);
            }
        }
        let gap = Some(gaps / f64::max(tokens, 1.0));
        Ok(Compared {
            old,
            factors,
            left_out,
            gap,
        })
    }

    /// One update of the weights from the picked rows.
    fn update(
        &mut self,
        rows: &Arc<Vec<Row>>,
        picked: &[usize],
        objective: &Arc<Clipped>,
        report: &mut StepReport,
        sums: &mut Tally,
    ) -> Result<()> {
        let done = self.trainer.updates();
        let units: Vec<Vec<usize>> = picked.iter().map(|row| vec![*row]).collect();
        let fallen = self
            .config
            .schedule
            .factor(self.progress, self.config.final_rate);
        let rate =
            self.config.learning_rate * self.pace * fallen * warm(done, self.config.warmup_steps);
        let (tally, norm) = self
            .trainer
            .update(&self.model, rows, &units, objective, rate)?;
        if report.updates == 0 {
            report.sampler_gap = tally.abs_logratio / tally.compared.max(1) as f64;
        }
        // The divergence over the last update's tokens shows the effect of all earlier updates.
        report.kl_at_end = tally.kl / tally.compared.max(1) as f64;
        report.updates += 1;
        report.grad_norm += norm;
        report.learning_rate = rate;
        report.positions += picked
            .iter()
            .map(|i| rows[*i].ids.len() as u64)
            .sum::<u64>();
        sums.add(&tally);
        Ok(())
    }

    /// The learner's whole state, as files: the trained parameters (the weights or the adapter), optimizer, counters
    /// and seed, and the reference unless it is the weights below the adapter.
    pub fn state(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let own = Saved {
            steps: self.steps,
            pace: self.pace,
            sharpened: self.sharpened,
        };
        let mut files = self.trainer.state(&self.model, own)?;
        if let Some(reference) = self.saved_reference() {
            files.push((
                state::REFERENCE.to_owned(),
                reference.trained_bytes().doing("write the reference")?,
            ));
        }
        Ok(files)
    }

    /// The reference, if it does not follow from the model alone.
    fn saved_reference(&self) -> Option<&Model> {
        let reference = self.reference.as_ref();
        reference.filter(|r| r.adapter().is_some() || self.model.adapter().is_none())
    }

    /// Restores the files of [`Learner::state`], the seed included. The learner must have been made for a model of the
    /// same shape (with an adapter: for the same weights below it); other files are ignored.
    ///
    /// With the same settings and number of workers the learner continues bit by bit like the one that wrote the files.
    /// After an error, restore again or discard the learner: a part of the files may have been taken over.
    pub fn restore(&mut self, files: &[(String, Vec<u8>)]) -> Result<()> {
        let opened = self.trainer.open::<Saved>(&self.model, files)?;
        if self.saved_reference().is_some()
            && let Some(reference) = &mut self.reference
        {
            reference
                .set_weights(state::find(files, state::REFERENCE)?)
                .doing("take over the reference")?;
        }
        let saved = self.trainer.restore(&mut self.model, opened)?;
        self.steps = saved.steps;
        self.pace = saved.pace;
        self.sharpened = saved.sharpened;
        Ok(())
    }
}

/// Attaches a fresh adapter to a model without one, if `lora` is set.
pub(crate) fn adapt(model: &mut Model, lora: Option<&LoraConfig>, seed: u64) -> Result<()> {
    let Some(lora) = lora else {
        return Ok(());
    };
    match model.adapter() {
        Some(own) if own.config() == lora => Ok(()),
        Some(own) => Err(Error::Setting(OutOfRange {
            field: "lora",
            reason: format!(
                "asks for another adapter than the model has (rank {}, alpha {}); leave it out to go on with that one",
                own.config().rank,
                own.config().alpha
            ),
        })),
        None => model.adapt(lora.clone(), seed).doing("put on an adapter"),
    }
}

/// The references of a step's rows.
struct Compared {
    /// Log-probabilities that the ratios refer to.
    old: Vec<Vec<f32>>,
    /// Factors of the rows' tokens, if any.
    factors: Vec<Option<Vec<f64>>>,
    /// True for rows that are left out of training.
    left_out: Vec<bool>,
    /// Mean of |ln ratio| to the policy that drew the tokens, if computed.
    gap: Option<f64>,
}

/// The clipped losses of [`crate::loss`] on samples.
struct Clipped {
    terms: Terms,
    entropy: Entropy,
    entropy_bonus: f64,
    /// Log-probabilities that the ratios of each row refer to.
    old: Vec<Vec<f32>>,
    references: Option<Vec<Vec<f32>>>,
    /// Factors of each row's tokens.
    factors: Vec<Option<Vec<f64>>>,
    /// True for rows that are left out of training.
    left_out: Vec<bool>,
    /// Each row's weight and advantage in the present update.
    shares: Vec<Share>,
}

impl Objective for Clipped {
    fn wants(&self) -> Plan {
        Plan {
            entropy: self.entropy,
            ..Plan::LOGPROBS
        }
    }

    fn differentiate(
        &self,
        rows: &[usize],
        scores: &[RowScores<'_>],
        slopes: &mut [RowSlopes<'_>],
    ) -> Tally {
        let mut tally = Tally::default();
        for ((row, scores), slopes) in rows.iter().zip(scores).zip(slopes) {
            tally.add(&self.clipped(*row, scores.logprobs, slopes.logprobs));
            let copies = self.shares[*row].copies;
            let entropies: f64 = scores.entropy.iter().sum();
            tally.entropy += f64::from(copies) * entropies;
            tally.entropy_tokens += u64::from(copies) * scores.entropy.len() as u64;
            if self.entropy == Entropy::Train && !self.left_out[*row] {
                // The entropy bonus is a part of the loss, too.
                let slope = -self.entropy_bonus * self.shares[*row].weight;
                slopes.entropy.fill(slope);
                tally.loss += slope * entropies;
            }
        }
        tally
    }
}

impl Clipped {
    fn clipped(&self, row: usize, logprobs: &[f64], slopes: &mut [f64]) -> Tally {
        let share = &self.shares[row];
        if self.left_out[row] {
            return Tally::default();
        }
        let now: Vec<f32>;
        let old = if self.old[row].is_empty() {
            now = logprobs.iter().map(|lp| *lp as f32).collect();
            &now
        } else {
            &self.old[row]
        };
        let sequence = Sequence {
            logprobs,
            old,
            reference: self.references.as_ref().map(|r| r[row].as_slice()),
            advantage: share.advantage(),
            weight: share.weight,
            factors: self.factors[row].as_deref(),
        };
        let mut tally = differentiate(&self.terms, &sequence, slopes);
        if self.old[row].is_empty() {
            tally.ratio = 0.0;
            tally.compared = 0;
        }
        tally.repeated(share.copies)
    }
}

/// Splits `count` samples into at most `parts` minibatches of nearly equal size, in a random order unless there is only
/// one.
fn minibatches(count: usize, parts: u32, random: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let parts = (parts as usize).clamp(1, count.max(1));
    let mut order: Vec<usize> = (0..count).collect();
    if parts > 1 {
        shuffle(&mut order, random);
    }
    (0..parts)
        .map(|part| order[part * count / parts..(part + 1) * count / parts].to_vec())
        .collect()
}

/// Fisher and Yates' shuffle. It is written out because a run must repeat with later versions of any library.
pub(crate) fn shuffle(order: &mut [usize], random: &mut ChaCha8Rng) {
    for last in (1..order.len()).rev() {
        // The high half of a 128-bit product is uniform up to 2⁻⁶⁴ · length.
        let product = u128::from(random.next_u64()) * (last as u128 + 1);
        order.swap(last, (product >> 64) as usize);
    }
}

fn check(model: &Model, samples: &[GrpoSample], update: u64) -> Result<()> {
    for (i, s) in samples.iter().enumerate() {
        if s.prompt.is_empty() || s.tokens.is_empty() {
            return Err(Error::Input(format!(
                "sample {i} has an empty prompt or completion"
            )));
        }
        if !s.old_logprobs.is_empty() && s.tokens.len() != s.old_logprobs.len() {
            return Err(Error::Input(format!(
                "sample {i} has {} tokens and {} log-probabilities",
                s.tokens.len(),
                s.old_logprobs.len()
            )));
        }
        if !s.advantage.is_finite() || s.old_logprobs.iter().any(|lp| !lp.is_finite()) {
            return Err(Error::NotFinite {
                what: "an advantage or a log-probability of a sample",
                update,
            });
        }
        if !(s.temperature > 0.0 && s.temperature.is_finite()) {
            return Err(Error::Input(format!(
                "sample {i} has temperature {}, not a positive number",
                s.temperature
            )));
        }
        check_ids(model, "sample", i, &s.prompt, &s.tokens)?;
    }
    Ok(())
}

/// Checks that these tokens exist and that the sequence fits the model.
pub(crate) fn check_ids(
    model: &Model,
    what: &str,
    i: usize,
    prompt: &[u32],
    tokens: &[u32],
) -> Result<()> {
    let config = model.config();
    let length = prompt.len() + tokens.len();
    if length as i64 > config.max_position_embeddings {
        return Err(Error::Input(format!(
            "{what} {i} has {length} tokens, more than the model's {} positions",
            config.max_position_embeddings
        )));
    }
    let unknown = |id: &&u32| i64::from(**id) >= config.vocab_size;
    match prompt.iter().chain(tokens).find(unknown) {
        Some(id) => Err(Error::Input(format!(
            "{what} {i} has token {id}, which is outside the vocabulary of {}",
            config.vocab_size
        ))),
        None => Ok(()),
    }
}
