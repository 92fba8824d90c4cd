//! `flopsmith rlpf`: reinforcement learning by performance feedback, PPO on measured speed.
//!
//! Each step draws exercises and has the policy answer each exercise several times. The answers are measured, or judged
//! by a reward model if there are no tests, and the policy is trained on them.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use flopsmith_config::recipe::{Returns, Rlpf as Recipe};
use flopsmith_generator::measured::exercises::{Exercise, turn};
use flopsmith_learner::{Ppo, PpoReport, PpoSample};
use flopsmith_protocol::Digest;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::{four, time};
use flopsmith_run::event_files::SessionFile;
use flopsmith_run::fruitless::{Remedies, Successes};
use flopsmith_run::interrupt::Watch;
use flopsmith_run::paths;
use flopsmith_run::shell::quoted;
use flopsmith_run::ticker::Ticker;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Order;
use crate::checkpoints::{Checkpoints, Files, read_session, with_session};
use crate::conversation::{self, Conversation, Manner};
use crate::exercises::{self, Limits};
use crate::reasons::{Reason, Unsuccessful};
use crate::rewards::{Answer, Rewards, Worth};
use crate::skipped::Skipped;
use crate::validation::{Score, Validation};
use crate::{
    Placement, Reader, apart, beside, keep_report, open, read_recipe, refused, save, say_placement,
    unrestorable,
};
use flopsmith_run::exit::{CANDIDATE, INTERRUPTED, OK};

/// The result of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Step {
    /// Its number, from 1.
    step: u64,
    /// Answers that passed their tests, of those that have any.
    right: usize,
    /// Answers with tests.
    tested: usize,
    /// Answers that the machine failed to measure, and that taught nothing.
    unmeasured: usize,
    /// Mean score of the answers at each turn, where conversations have several; the training's is that of their returns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_turn: Vec<Option<f64>>,
    /// The training.
    ppo: PpoReport,
}

/// The part of a checkpoint beside the training's own state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Session {
    seconds: f64,
    best: Option<Best>,
    steps: Vec<Step>,
    /// Answers without a measurement.
    unsuccessful: Unsuccessful,
    /// The score of the validation exercises before the training, where there are some.
    validation_before: Option<Score>,
    /// [`Rewards::digest`].
    rewards: Digest,
}

impl Session {
    /// The session of a new training, or the saved one, from which `ppo` continues. `rewards` is [`Rewards::digest`].
    fn begin(saved: Option<&Files>, ppo: &mut Ppo, rewards: Digest) -> Result<Self> {
        let Some(files) = saved else {
            return Ok(Self {
                seconds: 0.0,
                best: None,
                steps: Vec::new(),
                unsuccessful: Unsuccessful::default(),
                validation_before: None,
                rewards,
            });
        };
        ppo.restore(files).map_err(unrestorable)?;
        say(&format!("resuming after step {}", ppo.steps()));
        let session: Session = read_session(files)?;
        if session.rewards != rewards {
            return Err(usage(
                "the exercises or the reward model have changed since the checkpoint was written; continue with those of the beginning, or start again in another folder",
            ));
        }
        Ok(session)
    }

    /// The correct answers so far.
    fn successes(&self, recipe: &Recipe) -> Successes {
        Successes {
            work: "training",
            correct: self.steps.iter().map(|step| step.right as u64).sum(),
            fruitless_steps: fruitless_steps(&self.steps),
            limit: u64::from(recipe.fruitless_steps_limit),
        }
    }
}

/// The answer with the highest measured reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Best {
    problem: String,
    score: f64,
    seconds_per_call: f64,
    source: String,
}

/// Number of steps over which the first and the last means are taken.
const ENDS: usize = 5;

/// The report on a finished model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Report {
    /// Digest of the `model.safetensors`, or `adapter_model.safetensors`, that all this is of.
    model: Digest,
    /// Updates that were skipped, because their loss or gradient was not finite.
    skipped: u64,
    /// Mean score of the first five steps.
    first_score: f64,
    /// Mean score of the last five steps.
    last_score: f64,
    /// Mean divergence from the policy it began with in the last five steps, nats per answer.
    last_kl: f64,
    /// The best answer that was measured.
    best: Option<Best>,
    /// Faults for which programs were refused, the three most frequent first.
    #[serde(default)]
    refusals: Vec<Reason>,
    /// Reasons why answers were not measured, or not judged by the reward model, the three most frequent first.
    #[serde(default)]
    unmeasured: Vec<Reason>,
    /// The validation exercises before the training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    validation_before: Option<Score>,
    /// The validation exercises after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    validation: Option<Score>,
    /// Every step.
    steps: Vec<Step>,
    /// Seconds in all.
    seconds: f64,
}

/// Trains by a recipe.
pub fn run(order: &Order<'_>) -> Result<u8> {
    let began = Instant::now();
    let text = read_recipe(order.recipe)?;
    let output = order.output();
    let mut recipe: Recipe = flopsmith_config::read(&text, &order.recipe.display().to_string())?;
    recipe.check()?;
    let at = Placement::of(recipe.device, recipe.dtype)?;
    let adapts = at.adapts(&paths::model(&beside(order.recipe, &recipe.model)));
    recipe.ppo = recipe.ppo.on(adapts);
    let lora = recipe.ppo.lora.is_some();
    apart(order.recipe, &recipe.model, &output, lora)?;
    let (checkpoints, saved) = Checkpoints::open(&output, &text, order.resume)?;
    let (model, reader) = open(order.recipe, &recipe.model, recipe.chat, at)?;
    say_placement(&model, recipe.ppo.lora.as_ref());
    let positions = model.config().max_position_embeddings;
    let limits = Limits {
        positions,
        max_tokens: recipe.max_tokens,
    };
    let all = exercises::read(&beside(order.recipe, &recipe.exercises))?;
    let (exercises, prompts) = limits.fitting(all, &reader)?;
    let validation = match &recipe.validation {
        Some(file) => Validation::read(&beside(order.recipe, file), limits, &reader)?,
        None => None,
    };
    let judged = validation.iter().flat_map(|of| &of.exercises);
    let all: Vec<Exercise> = exercises.iter().chain(judged).cloned().collect();
    let mut rewards = Rewards::new(
        &all,
        order.recipe,
        recipe.reward_model.as_deref(),
        recipe.chat,
        at,
        order.allow_weaker_jail,
        order.farm,
    )?;
    let mut ppo = Ppo::new(model, recipe.ppo.clone(), None, recipe.seed).map_err(refused)?;
    let by = rewards.digest(&exercises)?;
    let mut session = Session::begin(saved.as_ref(), &mut ppo, by)?;
    let watch = Watch::start()?;
    if let (Some(of), None) = (&validation, &saved) {
        let score = of.judge(&ppo.model, &mut rewards, &reader, &recipe)?;
        say(&format!("validation exercises before: {}", score.words()));
        session.validation_before = Some(score);
    }
    let prompts = prompts.iter().map(Vec::as_slice);
    let asked: Vec<(&Exercise, &[u32])> = exercises.iter().zip(prompts).collect();
    let course = Course {
        reader: &reader,
        recipe: &recipe,
        exercises: &asked,
    };
    let earlier = session.seconds;
    let mut ticker = Ticker::new(1);
    let mut skipped = Skipped::of(&output, order.resume)?;
    let mut number = session.steps.len() as u64;
    let mut curves = SessionFile::open(&output, number);
    while number < recipe.steps {
        let step = step(
            &mut ppo,
            &mut rewards,
            &course,
            number,
            &mut session.best,
            &mut skipped,
        )?;
        number += 1;
        let share = step.right as f64 / step.tested as f64;
        curves.add(
            number,
            &[
                ("training/score", Some(step.ppo.score)),
                ("training/kl", Some(step.ppo.kl)),
                (
                    "training/right",
                    Some(share).filter(|share| share.is_finite()),
                ),
            ],
        );
        ticker.tick(number, recipe.steps, || line(&step, recipe.steps));
        session.steps.push(step);
        session.unsuccessful.add_all(rewards.take_unsuccessful());
        session.seconds = earlier + began.elapsed().as_secs_f64();
        let every = recipe.checkpoint_every;
        let over = number == recipe.steps || session.successes(&recipe).limit_is_reached();
        let interrupted = order.is_stopped(&watch) && !over;
        if interrupted || (every > 0 && number.is_multiple_of(every) && !over) {
            checkpoints.write(number, &with_session(ppo.state()?, &session)?)?;
        }
        if interrupted {
            ticker.end();
            let correct = session.successes(&recipe).correct;
            session.unsuccessful.tell(correct);
            say("interrupted; give --resume to continue from here");
            return Ok(INTERRUPTED);
        }
        if over {
            break;
        }
    }
    ticker.end();
    let judged = match &validation {
        Some(of) => Some(of.judge(&ppo.model, &mut rewards, &reader, &recipe)?),
        None => None,
    };
    let successes = session.successes(&recipe);
    let ends = |of: fn(&Step) -> f64, last: bool| {
        let count = session.steps.len().min(ENDS);
        let (head, tail) = (
            &session.steps[..count],
            &session.steps[session.steps.len() - count..],
        );
        let part = if last { tail } else { head };
        part.iter().map(of).sum::<f64>() / count.max(1) as f64
    };
    let report = Report {
        skipped: ppo.skipped(),
        first_score: ends(|s| s.ppo.score, false),
        last_score: ends(|s| s.ppo.score, true),
        last_kl: divergence(&session.steps),
        model: save(&ppo.model, &reader.tokenizer, &output, Some(&reader.base))?,
        best: session.best,
        refusals: session.unsuccessful.refused.commonest(),
        unmeasured: session.unsuccessful.unmeasured.commonest(),
        validation_before: session.validation_before,
        validation: judged,
        steps: session.steps,
        seconds: earlier + began.elapsed().as_secs_f64(),
    };
    keep_report(&output, &report)?;
    checkpoints.clear()?;
    skipped.tell();
    tell(&report, &output);
    session.unsuccessful.tell(successes.correct);
    let failure = successes.failure();
    if let Some(failure) = &failure {
        let commonest = report.refusals.first();
        let remedies = remedies(order, &recipe, commonest);
        let advice = successes.advice(commonest.map(|reason| reason.kind.as_str()), &remedies);
        say(&format!("error: {failure}\n  try: {advice}"));
    }
    if order.json {
        data(&serde_json::to_string(&report)?);
    }
    Ok(match failure {
        Some(_) => CANDIDATE,
        None => OK,
    })
}

/// The inputs that all steps share.
struct Course<'a> {
    reader: &'a Reader,
    recipe: &'a Recipe,
    /// The exercises with the token ids of their prompts.
    exercises: &'a [(&'a Exercise, &'a [u32])],
}

/// One step: samples answers, computes their worth, and trains on them.
fn step(
    ppo: &mut Ppo,
    rewards: &mut Rewards,
    course: &Course<'_>,
    number: u64,
    best: &mut Option<Best>,
    skipped: &mut Skipped,
) -> Result<Step> {
    let Course {
        reader,
        recipe,
        exercises,
    } = *course;
    let picked = turn(exercises.len(), recipe.prompts, recipe.seed, number);
    let asked: Vec<(&Exercise, &[u32])> = picked
        .iter()
        .flat_map(|exercise| std::iter::repeat_n(exercises[*exercise], recipe.samples))
        .collect();
    let answers = (asked.len() * recipe.turns) as u64;
    let manner = Manner {
        turns: recipe.turns,
        temperature: recipe.temperature,
        max_tokens: recipe.max_tokens,
        // Every sample of the whole training has a seed of its own.
        seed: recipe
            .seed
            .wrapping_mul(1_000_003)
            .wrapping_add(number * answers),
    };
    let conversations = conversation::hold(&ppo.model, rewards, reader, &asked, manner)?;
    for conversation in &conversations {
        for turn in &conversation.turns {
            if let Worth::Timed { score, seconds } = turn.worth
                && best.as_ref().is_none_or(|b| score > b.score)
            {
                let exercise = conversation.exercise;
                let answer = Answer {
                    exercise,
                    text: turn.text.clone(),
                    finished: turn.sample.finished,
                };
                let source = rewards.source(&answer, reader);
                *best = Some(Best {
                    problem: exercise.problem.clone(),
                    score,
                    seconds_per_call: seconds,
                    source: source.unwrap_or_default(),
                });
            }
        }
    }
    let worths = || conversations.iter().flat_map(|c| &c.turns).map(|t| t.worth);
    let count = |wanted: fn(&Worth) -> bool| worths().filter(wanted).count();
    let right = count(|w| matches!(w, Worth::Timed { .. }));
    let (tested, unmeasured) = (
        right + count(|w| *w == Worth::Failed),
        count(|w| *w == Worth::Unknown),
    );
    let by_turn = match recipe.turns {
        1 => Vec::new(),
        turns => (0..turns).map(|n| mean(&conversations, n)).collect(),
    };
    let samples = samples(conversations, recipe);
    let shown = |place: usize| {
        let sample: &PpoSample = &samples[place];
        json!({
            "prompt": reader.text(&sample.prompt), "prompt_tokens": sample.prompt,
            "answer": reader.text(&sample.tokens), "answer_tokens": sample.tokens,
            "logprobs": sample.old_logprobs, "score": sample.score,
        })
    };
    ppo.set_progress(number as f64 / recipe.steps as f64);
    let trained = ppo.step(&samples);
    let trained = skipped.step(trained, &ppo.take_skipped(), shown)?;
    Ok(Step {
        step: number + 1,
        right,
        tested,
        unmeasured,
        by_turn,
        ppo: trained,
    })
}

/// Mean score of the answers at a turn.
fn mean(conversations: &[Conversation<'_>], turn: usize) -> Option<f64> {
    let turns = conversations.iter().filter_map(|c| c.turns.get(turn));
    let scores: Vec<f64> = turns.filter_map(|t| t.worth.score()).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}

/// The training samples: answers with a worth, each turn as a sample of its own.
fn samples(conversations: Vec<Conversation<'_>>, recipe: &Recipe) -> Vec<PpoSample> {
    let mut samples = Vec::new();
    for conversation in conversations {
        let returns = match recipe.returns {
            Returns::Discounted => conversation.discounted(recipe.discount),
            Returns::FirstAndBest => conversation.first_and_best(recipe.first),
        };
        for (turn, score) in conversation.turns.into_iter().zip(returns) {
            let Some(score) = score else { continue };
            samples.push(PpoSample {
                prompt: turn.prompt,
                tokens: turn.sample.tokens,
                old_logprobs: turn.sample.logprobs,
                score,
                temperature: recipe.temperature,
            });
        }
    }
    samples
}

/// Mean divergence over the last steps that trained something.
fn divergence(steps: &[Step]) -> f64 {
    let tail = &steps[steps.len() - steps.len().min(ENDS)..];
    let known: Vec<f64> = tail
        .iter()
        .filter(|s| s.ppo.updates > 0)
        .map(|s| s.ppo.kl)
        .collect();
    known.iter().sum::<f64>() / known.len().max(1) as f64
}

/// Number of consecutive steps at the end in which programs were judged and none was correct.
fn fruitless_steps(steps: &[Step]) -> u64 {
    let judged = steps.iter().rev().filter(|step| step.tested > 0);
    judged.take_while(|step| step.right == 0).count() as u64
}

/// The remedies of a training, for a policy whose programs are refused, most often for `commonest`.
fn remedies(order: &Order<'_>, recipe: &Recipe, commonest: Option<&Reason>) -> Remedies {
    let model = paths::model(&beside(order.recipe, &recipe.model));
    let problem = commonest.map_or("PROBLEM", |reason| reason.problem.as_str());
    let full = if recipe.chat { " --full" } else { "" };
    Remedies {
        sample: format!(
            "flopsmith model sample {} --problem {}{full}",
            quoted(&model.display().to_string()),
            quoted(problem)
        ),
        longest: ("max_tokens", recipe.max_tokens),
        temperature: ("temperature", recipe.temperature),
        fenced: "chat = true",
        again: "start a new training with a smaller `ppo.learning_rate` or a larger weight of the divergence (`ppo.kl`)",
        folder: order.output().display().to_string(),
    }
}

fn line(step: &Step, steps: u64) -> String {
    let right = match step.tested {
        0 => String::new(),
        tested => format!(", {} of {tested} right", step.right),
    };
    let told = |mean: &Option<f64>| mean.map_or("none".to_owned(), |mean| format!("{mean:.3}"));
    let turns = match step.by_turn.is_empty() {
        true => String::new(),
        false => {
            let means: Vec<String> = step.by_turn.iter().map(told).collect();
            format!(" (by turn {})", means.join(", "))
        }
    };
    if step.ppo.updates == 0 && step.ppo.skipped > 0 {
        return format!(
            "step {}/{steps}: score {:.3}{turns}{right}, skipped: its loss, its gradient or the model's output is not finite",
            step.step, step.ppo.score
        );
    }
    format!(
        "step {}/{steps}: score {:.3}{turns}{right}, divergence {:.2} at weight {:.3}",
        step.step, step.ppo.score, step.ppo.kl, step.ppo.kl_weight
    )
}

fn tell(report: &Report, output: &Path) {
    say(&format!(
        "score {:.3} in the first steps, {:.3} in the last; divergence {:.2} nats an answer from the policy that the training began with",
        report.first_score, report.last_score, report.last_kl
    ));
    if let (Some(before), Some(after)) = (report.validation_before, report.validation) {
        say(&format!(
            "validation exercises: {} ({} before)",
            after.words(),
            before.words()
        ));
    }
    if let Some(best) = &report.best {
        say(&format!(
            "the best answer takes {} a call, {}× the median program",
            time(best.seconds_per_call),
            four(best.score + 1.0)
        ));
    }
    if report.skipped > 0 {
        say(&format!(
            "{} updates were skipped: their loss or gradient was not finite",
            report.skipped
        ));
    }
    say(&format!("the model is in {}", output.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_worth_less_than_any_success_and_an_unknown_result_nothing() {
        let slow = Worth::Timed {
            score: -0.999,
            seconds: 1.0,
        };
        assert!(slow.score() > Worth::Failed.score());
        assert_eq!(Worth::Unknown.score(), None);
    }

    #[test]
    fn steps_in_vain_are_those_at_the_end_in_which_programs_were_judged() {
        let count = |of_steps: &[(usize, usize)]| {
            let step = |(tested, right): &(usize, usize)| Step {
                step: 1,
                right: *right,
                tested: *tested,
                unmeasured: 1,
                by_turn: Vec::new(),
                ppo: PpoReport::default(),
            };
            let steps: Vec<Step> = of_steps.iter().map(step).collect();
            fruitless_steps(&steps)
        };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[(4, 0), (4, 0)]), 2);
        assert_eq!(count(&[(4, 0), (4, 1), (4, 0), (0, 0), (4, 0)]), 2);
        assert_eq!(count(&[(4, 0), (4, 1)]), 0);
    }
}
