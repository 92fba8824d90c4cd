//! The part that all trainings share: updates of a model's weights by an [`Objective`], skipped updates, and the saved
//! state.
//!
//! GRPO, PPO, pairs and supervised fine-tuning differ in their objective, in the rows of an update and in its step size.
//! Everything below that is here: gradient, clipping, AdamW, the check that all is finite, and the files.

use std::sync::Arc;

use flopsmith_config::Shared;
use flopsmith_policy::Model;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::adamw::{AdamW, Constants};
use crate::batch::Row;
use crate::error::{Doing, Error, Result};
use crate::gradient::{Engine, Objective, Thrift};
use crate::loss::Tally;
use crate::skips::{Kept, SkippedUpdate, Skips};
use crate::state::{self, OptimizerFile};

/// The file of [`Counters`].
pub(crate) const COUNTERS: &str = "trainer.json";
/// Increases when the meaning of the files changes.
const VERSION: u32 = 2;

/// The bounds of memory of an engine.
pub(crate) fn thrift(settings: Shared<'_>, seed: u64) -> Thrift {
    Thrift {
        budget: settings.micro_batch_tokens,
        recompute: settings.activation_checkpointing,
        seed,
    }
}

/// The part of the state that is not a tensor. `T` is what one kind of training adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters<T> {
    version: u32,
    /// The kind of training.
    kind: String,
    /// With the numbers of updates and steps, the whole random state: each step or pass draws from a stream of its own.
    seed: u64,
    /// Updates done.
    updates: u64,
    /// Updates done or skipped.
    tried: u64,
    skips: Skips,
    /// Digest of the weights below an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    own: T,
}

/// The kind of a training, and what its counters add.
pub(crate) trait Own: Serialize + DeserializeOwned {
    /// Names the kind in the counters' file.
    const KIND: &'static str;
}

/// Trains a model, whose weights the caller keeps.
pub(crate) struct Trainer {
    pub engine: Engine,
    optimizer: AdamW,
    max_grad_norm: f64,
    /// Digest of the weights below an adapter.
    base: Option<String>,
    seed: u64,
    /// Updates done or skipped.
    tried: u64,
    skips: Skips,
    kept: Kept,
}

/// Saved files whose counters and tensors fit the training. Nothing is taken over yet.
pub(crate) struct Opened<'a, T> {
    counters: Counters<T>,
    trained: &'a [u8],
    moments: OptimizerFile<'a>,
}

impl<T> Opened<'_, T> {
    /// The saved counters that only this kind of training has.
    pub fn own(&self) -> &T {
        &self.counters.own
    }

    /// The saved seed.
    pub fn seed(&self) -> u64 {
        self.counters.seed
    }

    /// Saved updates.
    pub fn updates(&self) -> u64 {
        self.counters.updates
    }
}

impl Trainer {
    /// A trainer for `model`, which is made trainable; the model must have its adapter already. `cores` limits the cores
    /// of the engine.
    pub fn new(
        model: &mut Model,
        settings: Shared<'_>,
        cores: Option<usize>,
        seed: u64,
    ) -> Result<Self> {
        let constants = Constants {
            betas: settings.betas,
            eps: settings.eps,
            weight_decay: settings.weight_decay,
        };
        let optimizer = AdamW::new(model, constants)?;
        let thrift = thrift(settings, seed);
        let engine = Engine::on_cores(model, settings.workers, cores, thrift)?;
        model.set_trainable(true);
        let base = match model.adapter() {
            Some(_) => Some(state::fingerprint(model)?),
            None => None,
        };
        Ok(Self {
            engine,
            optimizer,
            max_grad_norm: settings.max_grad_norm,
            base,
            seed,
            tried: 0,
            skips: Skips::default(),
            kept: Kept::default(),
        })
    }

    /// Seed of the training's random choices.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Updates done.
    pub fn updates(&self) -> u64 {
        self.optimizer.updates()
    }

    /// Updates done or skipped.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// Updates skipped.
    pub fn skipped(&self) -> u64 {
        self.skips.total
    }

    /// The updates skipped since the last call, including those of a step that failed.
    pub fn take_skipped(&mut self) -> Vec<SkippedUpdate> {
        self.kept.take()
    }

    /// Multiplies a weight; see [`AdamW::scale`].
    pub fn scale(&mut self, model: &Model, name: &str, factor: f64) -> Result<()> {
        self.optimizer.scale(model, name, factor)
    }

    /// One update of the weights by the objective, summed over `units` of rows. Gives the sums to report and the
    /// gradient's norm before clipping. With an error nothing has changed.
    pub fn update(
        &mut self,
        model: &Model,
        rows: &Arc<Vec<Row>>,
        units: &[Vec<usize>],
        objective: &Arc<impl Objective>,
        rate: f64,
    ) -> Result<(Tally, f64)> {
        let (gradient, tally) = self
            .engine
            .gradient(model, rows, units, objective, self.tried)?;
        let (norm, scale) = AdamW::clip(&gradient, self.max_grad_norm)?;
        if !norm.is_finite() {
            return Err(Error::NotFinite {
                what: "the gradient",
                update: self.tried,
            });
        }
        self.engine
            .update(&mut self.optimizer, model, &gradient, rate, scale)?;
        self.tried += 1;
        Ok((tally, norm))
    }

    /// Counts an update, or the preparation of some, that may be skipped because it is not finite: gives its result, or
    /// `None` if it is skipped. `picked` are the indices of its examples.
    ///
    /// # Errors
    /// [`Error::TooManySkipped`] if more than `most` updates in a row were skipped.
    pub fn may_skip<T>(
        &mut self,
        update: Result<T>,
        picked: &[usize],
        most: u32,
    ) -> Result<Option<T>> {
        self.kept.look_at(&update, self.tried, picked);
        let skipped = matches!(update, Err(Error::NotFinite { .. }));
        let counted = self.skips.count(update, most)?;
        self.tried += u64::from(skipped);
        Ok(counted)
    }

    /// The training's state, as files: the trained parameters (the weights or the adapter), the optimizer, and counters.
    pub fn state<T: Own>(&self, model: &Model, own: T) -> Result<Vec<(String, Vec<u8>)>> {
        let counters = Counters {
            version: VERSION,
            kind: T::KIND.to_owned(),
            seed: self.seed,
            updates: self.optimizer.updates(),
            tried: self.tried,
            skips: self.skips,
            base: self.base.clone(),
            own,
        };
        let counters = serde_json::to_vec_pretty(&counters).map_err(|source| Error::Json {
            file: COUNTERS,
            source,
        })?;
        Ok(vec![
            (
                state::trained(model).to_owned(),
                model.trained_bytes().doing("write its weights")?,
            ),
            (
                state::OPTIMIZER.to_owned(),
                state::optimizer_bytes(&self.optimizer)?,
            ),
            (COUNTERS.to_owned(), counters),
        ])
    }

    /// Opens the files of [`Trainer::state`] and checks that they are of a training of this kind, of a model of this
    /// shape (with an adapter: with the same weights below it).
    pub fn open<'a, T: Own>(
        &self,
        model: &Model,
        files: &'a [(String, Vec<u8>)],
    ) -> Result<Opened<'a, T>> {
        let counters = parse::<T>(state::find(files, COUNTERS)?)?;
        if counters.base != self.base {
            return Err(other(
                "it was saved by a training with another model below its adapter",
            ));
        }
        let trained = state::find(files, state::trained(model))?;
        let moments = OptimizerFile::parse(state::find(files, state::OPTIMIZER)?)?;
        moments.fits(&self.optimizer)?;
        Ok(Opened {
            counters,
            trained,
            moments,
        })
    }

    /// Takes over opened files, with the seed, and returns the data that the kind of training added.
    pub fn restore<T>(&mut self, model: &mut Model, opened: Opened<'_, T>) -> Result<T> {
        model
            .set_weights(opened.trained)
            .doing("take over saved weights")?;
        opened.moments.copy_into(&mut self.optimizer)?;
        self.optimizer.set_updates(opened.counters.updates);
        self.seed = opened.counters.seed;
        self.engine.set_seed(self.seed);
        self.tried = opened.counters.tried;
        self.skips = opened.counters.skips;
        Ok(opened.counters.own)
    }
}

fn parse<T: Own>(bytes: &[u8]) -> Result<Counters<T>> {
    let json = |source| Error::Json {
        file: COUNTERS,
        source,
    };
    // Version and kind decide how the rest is read.
    #[derive(Deserialize)]
    struct Head {
        version: u32,
        kind: String,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(json)?;
    if head.version != VERSION {
        return Err(other(format!(
            "it has version {}, this build knows {VERSION}",
            head.version
        )));
    }
    if head.kind != T::KIND {
        return Err(other(format!(
            "it was saved by a training of another kind (`{}`, not `{}`)",
            head.kind,
            T::KIND
        )));
    }
    serde_json::from_slice(bytes).map_err(json)
}

/// Checks that a saved training was made like this one: each of `differ` names a difference and says whether it is there.
pub(crate) fn made_alike(differ: &[(&str, bool)]) -> Result<()> {
    match differ.iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(other(format!("it was saved by a training with {what}"))),
        None => Ok(()),
    }
}

fn other(reason: impl Into<String>) -> Error {
    Error::State {
        file: COUNTERS,
        reason: reason.into(),
    }
}
