//! The updates of a fine-tuning that can be interrupted and resumed.

use anyhow::Result;
use flopsmith_learner::SftTraining;
use flopsmith_run::console::say;
use flopsmith_run::event_files::SessionFile;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::ticker::Ticker;
use serde_json::Value;

use crate::checkpoints::{Checkpoints, Files};
use crate::skipped::Skipped;
use crate::{Order, unrestorable};

/// Restores the training from `saved`, if it is resumed, and performs all updates that are left. Writes a checkpoint after
/// every `every` of them; 0 writes one only when interrupted. `shown` describes the example at an index. Returns the
/// batches of skipped updates; none if a stop was requested: the training can then be resumed.
pub fn fit(
    order: &Order<'_>,
    training: &mut SftTraining,
    checkpoints: &Checkpoints,
    saved: Option<&Files>,
    every: u64,
    shown: impl Fn(usize) -> Value,
) -> Result<Option<Skipped>> {
    if let Some(files) = saved {
        training.restore(files).map_err(unrestorable)?;
        say(&format!("resuming after update {}", training.steps_done()));
    }
    let mut skipped = Skipped::of(&order.output(), order.resume)?;
    let mut curves = SessionFile::open(&order.output(), training.steps_done());
    let watch = Watch::start()?;
    let mut ticker = Ticker::new(50);
    loop {
        let step = training.step();
        let Some(progress) = skipped.step(step, &training.take_skipped(), &shown)? else {
            return Ok(Some(skipped));
        };
        curves.add(
            progress.step,
            &[
                ("training/loss", Some(progress.loss)),
                ("training/validation_loss", progress.val_loss),
                ("training/gradient_norm", Some(progress.grad_norm)),
                ("training/learning_rate", Some(progress.learning_rate)),
                ("training/tokens_per_second", Some(progress.tokens_per_s)),
            ],
        );
        ticker.tick(progress.step, progress.steps, || {
            let validation = progress
                .val_loss
                .map(|v| format!(", validation {v:.4}"))
                .unwrap_or_default();
            format!(
                "update {}/{}: loss {:.4}{validation}, {:.0} tokens/s",
                progress.step, progress.steps, progress.loss, progress.tokens_per_s
            )
        });
        let over = progress.step == progress.steps;
        let interrupted = order.is_stopped(&watch) && !over;
        if interrupted || (every > 0 && progress.step.is_multiple_of(every) && !over) {
            checkpoints.write(progress.step, &training.state()?)?;
        }
        if interrupted {
            ticker.end();
            say("interrupted; give --resume to continue from here");
            return Ok(None);
        }
    }
}
