//! `flopsmith reward-model` and `flopsmith dpa`: training on pairs of a fast and a slow program.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use flopsmith_config::recipe::Pairs as Recipe;
use flopsmith_generator::measured::pairs::Pair;
use flopsmith_learner::{Evidence, PairMetrics, PairTraining, TokenPair};
use flopsmith_policy::Model;
use flopsmith_protocol::Digest;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::event_files::SessionFile;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{jsonl, paths};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Order;
use crate::checkpoints::{Checkpoints, read_session, with_session};
use crate::skipped::Skipped;
use crate::{
    Placement, Reader, apart, beside, keep_report, open, read_recipe, refused, save, say_placement,
    unrestorable,
};
use flopsmith_run::exit::{INTERRUPTED, OK};

/// The kind of model that is made of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// A reward model.
    RewardModel,
    /// A policy that prefers the fast programs.
    Dpa,
}

/// The part of a checkpoint beside the training's own state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Session {
    validation_before: Option<PairMetrics>,
    first: Option<PairMetrics>,
    seconds: f64,
}

/// The report on a finished model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Report {
    /// Digest of the `model.safetensors`, or `adapter_model.safetensors`, that all this is of.
    model: Digest,
    /// Updates, skipped ones included.
    updates: u64,
    /// Updates that were skipped, because their loss or gradient was not finite.
    skipped: u64,
    /// Pairs of the training.
    pairs: usize,
    /// Pairs that do not fit the model's positions and were left out, those for validation included.
    left_out: usize,
    /// Weights in all.
    parameters: i64,
    /// The first update's pairs.
    first: Option<PairMetrics>,
    /// The last update's.
    last: Option<PairMetrics>,
    /// The validation pairs before the training.
    validation_before: Option<PairMetrics>,
    /// The validation pairs after it.
    validation: Option<PairMetrics>,
    /// Seconds of training.
    seconds: f64,
}

/// Trains by a recipe.
pub fn run(order: &Order<'_>, aim: Aim) -> Result<u8> {
    let began = Instant::now();
    let text = read_recipe(order.recipe)?;
    let output = order.output();
    let mut recipe: Recipe = flopsmith_config::read(&text, &order.recipe.display().to_string())?;
    refuse_other_tables(&recipe, aim)?;
    let at = Placement::of(recipe.device, recipe.dtype)?;
    let adapts = at.adapts(&paths::model(&beside(order.recipe, &recipe.model)));
    recipe.reward_model = recipe.reward_model.map(|config| config.on(adapts));
    recipe.dpa = recipe.dpa.map(|config| config.on(adapts));
    let of_reward = recipe.reward_model.as_ref().and_then(|c| c.lora.as_ref());
    let lora = of_reward.or(recipe.dpa.as_ref().and_then(|c| c.lora.as_ref()));
    apart(order.recipe, &recipe.model, &output, lora.is_some())?;
    let (checkpoints, saved) = Checkpoints::open(&output, &text, order.resume)?;
    let (model, reader) = open(order.recipe, &recipe.model, recipe.chat, at)?;
    say_placement(&model, lora);
    let pairs = read_pairs(&beside(order.recipe, &recipe.pairs))?;
    let validation = match &recipe.validation {
        Some(file) => read_pairs(&beside(order.recipe, file))?,
        None => Vec::new(),
    };
    let (pairs, mut left_out) = tokens(&reader, &model, &pairs)?;
    let (validation, more) = tokens(&reader, &model, &validation)?;
    left_out += more;
    if pairs.is_empty() {
        return Err(usage(format!(
            "no training pair in {} fits the model's {} positions ({left_out} are too long)",
            recipe.pairs.display(),
            model.config().max_position_embeddings
        )));
    }
    let (count, parameters) = (pairs.len(), model.parameter_count());
    say(&format!(
        "{count} pairs to train on, {} to judge, {left_out} too long; {parameters} weights",
        validation.len()
    ));
    let mut training = begin(model, &pairs, &validation, &recipe, aim)?;
    let mut session: Session = match &saved {
        Some(files) => {
            training.restore(files).map_err(unrestorable)?;
            say(&format!("resuming after update {}", training.steps_done()));
            read_session(files)?
        }
        None => {
            prepare(&mut training)?;
            Session {
                validation_before: training.judge()?,
                first: None,
                seconds: 0.0,
            }
        }
    };
    let earlier = session.seconds;
    let mut curves = SessionFile::open(&output, training.steps_done());
    let watch = Watch::start()?;
    let mut last = None;
    let mut ticker = Ticker::new(50);
    let mut skipped = Skipped::of(&output, order.resume)?;
    let shown = |place: usize| {
        let pair = &pairs[place];
        json!({
            "prompt": reader.text(&pair.prompt), "prompt_tokens": pair.prompt,
            "fast": reader.text(&pair.fast), "fast_tokens": pair.fast,
            "slow": reader.text(&pair.slow), "slow_tokens": pair.slow,
            "evidence": format!("{:?}", pair.evidence),
        })
    };
    loop {
        let step = training.step();
        let Some(progress) = skipped.step(step, &training.take_skipped(), shown)? else {
            break;
        };
        last = progress.batch.or(last);
        session.first = session.first.or(progress.batch);
        session.seconds = earlier + began.elapsed().as_secs_f64();
        let batch = |value: fn(&PairMetrics) -> f64| progress.batch.as_ref().map(value);
        curves.add(
            progress.step,
            &[
                ("training/loss", batch(|of| of.loss)),
                ("training/accuracy", batch(|of| of.accuracy)),
                ("training/gap", batch(|of| of.gap)),
                ("training/gradient_norm", progress.grad_norm),
                ("training/learning_rate", Some(progress.learning_rate)),
            ],
        );
        ticker.tick(progress.step, progress.steps, || {
            let metrics = progress.batch.map_or("skipped".to_owned(), |b| {
                format!("loss {:.4}, {:.0} % right", b.loss, 100.0 * b.accuracy)
            });
            format!("update {}/{}: {metrics}", progress.step, progress.steps)
        });
        let every = recipe.checkpoint_every;
        let over = progress.step == progress.steps;
        let interrupted = order.is_stopped(&watch) && !over;
        if interrupted || (every > 0 && progress.step.is_multiple_of(every) && !over) {
            checkpoints.write(progress.step, &with_session(training.state()?, &session)?)?;
        }
        if interrupted {
            ticker.end();
            say("interrupted; give --resume to continue from here");
            return Ok(INTERRUPTED);
        }
    }
    ticker.end();
    let report = Report {
        validation: training.judge()?,
        model: save(
            &training.model,
            &reader.tokenizer,
            &output,
            Some(&reader.base),
        )?,
        updates: training.steps_done(),
        skipped: training.skipped(),
        pairs: count,
        left_out,
        parameters,
        first: session.first,
        last,
        validation_before: session.validation_before,
        seconds: earlier + began.elapsed().as_secs_f64(),
    };
    keep_report(&output, &report)?;
    checkpoints.clear()?;
    skipped.tell();
    tell(&report, &output);
    if order.json {
        data(&serde_json::to_string(&report)?);
    }
    Ok(OK)
}

/// Refuses a recipe with settings for the other command, instead of ignoring them.
fn refuse_other_tables(recipe: &Recipe, aim: Aim) -> Result<()> {
    let (surplus, command, other) = match aim {
        Aim::RewardModel => (recipe.dpa.is_some(), "dpa", "dpa"),
        Aim::Dpa => (
            recipe.reward_model.is_some(),
            "reward-model",
            "reward_model",
        ),
    };
    match surplus {
        true => Err(usage(format!(
            "the recipe has a table [{other}], which is for `flopsmith {command}`"
        ))),
        false => Ok(()),
    }
}

fn begin(
    model: Model,
    pairs: &[TokenPair],
    validation: &[TokenPair],
    recipe: &Recipe,
    aim: Aim,
) -> Result<PairTraining> {
    let begun = match aim {
        Aim::RewardModel => {
            let config = recipe.reward_model.clone().unwrap_or_default();
            PairTraining::reward_model(model, pairs, validation, &config)
        }
        Aim::Dpa => {
            let config = recipe.dpa.clone().unwrap_or_default();
            PairTraining::alignment(model, pairs, validation, &config)
        }
    };
    begun.map_err(refused)
}

/// Evaluates the untrained model on all answers, as far as the training needs that before its first update.
fn prepare(training: &mut PairTraining) -> Result<()> {
    let mut ticker = Ticker::new(1);
    training.prepare(|done, of| {
        ticker.tick(done as u64, of as u64, || {
            format!("evaluating the model before the training: {done} of {of} answers")
        });
    })?;
    Ok(())
}

/// Reads a file of pairs.
fn read_pairs(file: &Path) -> Result<Vec<Pair>> {
    jsonl::read(file, |pair: &Pair| {
        if pair.prompt.is_empty() || pair.fast.is_empty() || pair.slow.is_empty() {
            return Err("`prompt`, `fast` or `slow` is empty".to_owned());
        }
        match evidence(pair) {
            Some(evidence) if evidence.is_sound() => Ok(()),
            Some(_) => Err(
                "`fast_s` and `slow_s` must be positive, and `fast_s` must be the smaller one"
                    .to_owned(),
            ),
            None => Err(
                "give `fast_s` and `slow_s` or neither; with `slow_is_wrong`, give no `slow_s`"
                    .to_owned(),
            ),
        }
    })
}

/// The evidence that a pair's margin is computed from; `None` if the line contradicts itself.
fn evidence(pair: &Pair) -> Option<Evidence> {
    match (pair.slow_is_wrong, pair.fast_s, pair.slow_s) {
        (true, _, None) => Some(Evidence::Wrong),
        (false, Some(fast_s), Some(slow_s)) => Some(Evidence::Timed { fast_s, slow_s }),
        (false, None, None) => Some(Evidence::Written),
        _ => None,
    }
}

/// The pairs as token ids, and the number of pairs that are too long for the model.
fn tokens(reader: &Reader, model: &Model, pairs: &[Pair]) -> Result<(Vec<TokenPair>, usize)> {
    let most = usize::try_from(model.config().max_position_embeddings).unwrap_or(usize::MAX);
    let mut made = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let own = TokenPair {
            prompt: reader.prompt(&pair.prompt)?,
            fast: reader.answer(&pair.fast)?,
            slow: reader.answer(&pair.slow)?,
            // Lines that contradict themselves were refused before.
            evidence: evidence(pair).unwrap_or(Evidence::Written),
        };
        if own.prompt.len() + own.fast.len().max(own.slow.len()) <= most {
            made.push(own);
        }
    }
    let left_out = pairs.len() - made.len();
    Ok((made, left_out))
}

fn tell(report: &Report, output: &Path) {
    if let (Some(before), Some(after)) = (report.validation_before, report.validation) {
        say(&format!(
            "of {} validation pairs the model has {:.1} % right ({:.1} % before), loss {:.4} ({:.4} before)",
            after.pairs,
            100.0 * after.accuracy,
            100.0 * before.accuracy,
            after.loss,
            before.loss
        ));
    }
    if report.skipped > 0 {
        say(&format!(
            "{} of {} updates were skipped: their loss or gradient was not finite",
            report.skipped, report.updates
        ));
    }
    say(&format!("the model is in {}", output.display()));
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn pair(fast_s: Option<f64>, slow_s: Option<f64>, slow_is_wrong: bool) -> Pair {
        Pair {
            problem: "dgemm".into(),
            prompt: "p".into(),
            fast: "f".into(),
            slow: "s".into(),
            fast_s,
            slow_s,
            slow_is_wrong,
        }
    }

    #[test]
    fn the_margin_of_a_line_follows_from_what_is_known_of_it() {
        let margin = |pair: &Pair| evidence(pair).unwrap().margin(3.0);
        assert_eq!(margin(&pair(Some(1.0), Some(2.0), false)), 2.0);
        assert_eq!(margin(&pair(Some(1.0), Some(9.0), false)), 3.0);
        assert_eq!(margin(&pair(Some(1.0), None, true)), 3.0);
        assert_eq!(margin(&pair(None, None, false)), 0.0);
        for (fast_s, slow_s, wrong) in [
            (Some(1.0), None, false),
            (None, Some(1.0), false),
            (Some(1.0), Some(2.0), true),
        ] {
            assert!(evidence(&pair(fast_s, slow_s, wrong)).is_none());
        }
    }

    #[test]
    fn a_table_for_another_command_is_refused() {
        let recipe = |table: &str| -> Recipe {
            let text = format!("model = \"m\"\npairs = \"p\"\n[{table}]\n");
            flopsmith_config::read(&text, "recipe").unwrap()
        };
        refuse_other_tables(&recipe("dpa"), Aim::Dpa).unwrap();
        refuse_other_tables(&recipe("reward_model"), Aim::RewardModel).unwrap();
        for (table, aim) in [("dpa", Aim::RewardModel), ("reward_model", Aim::Dpa)] {
            let error = refuse_other_tables(&recipe(table), aim).unwrap_err();
            assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        }
    }
}
