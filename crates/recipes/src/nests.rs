//! `flopsmith sft` with random loop nests: a model that writes schedules for nests that it has never seen.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use flopsmith_config::{Device, Dtype, SftConfig};
use flopsmith_evaluate::Look;
use flopsmith_learner::{SftReport, SftTraining};
use flopsmith_nest::canonical::canonical;
use flopsmith_nest::corpus::{Config, Corpus, Example};
use flopsmith_nest::prompt::{self, Style, program_of};
use flopsmith_nest::random;
use flopsmith_policy::{Extras, Model, Request, Tokenizer, sample, train_words};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Digest, Failure, RawAnswer, Sampling};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::exit::{INTERRUPTED, OK};
use flopsmith_run::ticker::Ticker;
use flopsmith_run::{evaluator, paths};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoints::Checkpoints;
use crate::fit::fit;
use crate::reasons::{Reason, Unsuccessful};
use crate::starter::{END, Start};
use crate::{Order, Placement, apart, base_of, keep_report, refused, save, say_placement};

/// Nests that a thread makes before the progress is printed.
const PART: u64 = 32;
/// Examples that the tokenizer is made from.
const READ: usize = 4000;

/// How a model is made from random nests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// Seed of the corpus, of random weights, of the evaluated nests and of the samples that are looked at. The order of
    /// the examples has one of its own, `seed` of `[sft]`.
    seed: u64,
    /// Where the weights begin.
    model: Start,
    /// Number format of the weights during training; that of the device if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<Dtype>,
    /// Device of the training.
    #[serde(default)]
    device: Device,
    /// The nests and their programs.
    nests: Config,
    /// Examples that the training evaluates and never trains on.
    #[serde(default)]
    validation: usize,
    /// Updates between two checkpoints; 0 writes one only when interrupted. Default 500.
    #[serde(default = "five_hundred")]
    checkpoint_every: u64,
    /// The training.
    sft: SftConfig,
    /// Fresh random nests that the finished model answers, besides the held-out problems. The corpus leaves out all nests that
    /// have their forms. Default 0.
    #[serde(default)]
    evaluate_nests: u32,
    /// Samples of the finished model for each of these, at temperature 1. Default 0: nothing is evaluated.
    #[serde(default)]
    evaluate_samples: u32,
}

fn five_hundred() -> u64 {
    500
}

/// The report on a finished model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Report {
    /// Digest of the `model.safetensors`, or `adapter_model.safetensors`, that all this is of.
    model: Digest,
    /// Weights in all.
    parameters: i64,
    /// Nests of the corpus, and those of them that were left out with the held-out problems and the evaluated nests.
    nests: u64,
    nests_held_out: u64,
    /// Examples of the training.
    examples: usize,
    /// Examples that do not fit the model's positions and were left out.
    left_out: usize,
    /// Mean and largest number of tokens of an answer.
    mean_tokens: f64,
    longest_tokens: usize,
    /// The report of the training.
    training: SftReport,
    /// Right programs for fresh random nests.
    fresh: Vec<Share>,
    /// Right programs for held-out problems.
    held_out: Vec<Share>,
}

/// Right programs among the samples for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Share {
    problem: String,
    samples: u64,
    correct: u64,
    /// Samples that the machine failed to judge.
    unmeasured: u64,
    /// Different programs among the samples.
    distinct: usize,
}

/// Trains by a recipe.
pub fn run(order: &Order<'_>, text: &str) -> Result<u8> {
    let recipe: Recipe = flopsmith_config::read(text, &order.recipe.display().to_string())?;
    let output = order.output();
    let at = Placement::of(recipe.device, recipe.dtype)?;
    let sft = recipe.model.trained(&recipe.sft, at);
    if let Start::Folder { folder } = &recipe.model {
        apart(order.recipe, folder, &output, sft.lora.is_some())?;
    }
    let (checkpoints, saved) = Checkpoints::open(&output, text, order.resume)?;
    let held_out = problems(&recipe.nests.hold_out)?;
    let shown = problems(&recipe.nests.problems)?;
    let fresh = fresh(&recipe, &shown)?;
    let unread: Vec<Problem> = held_out.iter().chain(&fresh).cloned().collect();
    let corpus = Corpus::new(recipe.nests.clone(), recipe.seed, shown, &unread);
    let corpus = corpus.map_err(|e| usage(format!("[nests]: {e}")))?;
    if recipe.evaluate_samples > 0
        && let Some(problem) = held_out.iter().chain(&fresh).next()
    {
        // Missing tools are reported before the training, which takes long.
        evaluator::open(Arc::new(problem.clone()), "gcc", order.allow_weaker_jail)?;
    }
    let Made {
        examples,
        nests,
        held_out: nests_held_out,
    } = made(&corpus, recipe.nests.examples + recipe.validation)?;
    say(&format!(
        "{nests_held_out} of {nests} nests have the loops of held-out problems or of evaluated nests and were left out"
    ));
    let (model, tokenizer) = recipe.model.begin(at, recipe.seed, |vocab_size| {
        let texts = examples.iter().take(READ);
        let texts: Vec<String> = texts
            .map(|e| format!("{}{}", e.prompt, e.program))
            .collect();
        Ok(train_words(&texts, vocab_size, &[END])?)
    })?;
    let tokens = Tokens::of(&examples, recipe.nests.examples, &model, &tokenizer)?;
    drop(examples);
    say(&format!(
        "{} examples to train on, {} to validate on, {} too long; {:.0} tokens an answer (longest {}); {} weights",
        tokens.examples.len(),
        tokens.validation.len(),
        tokens.left_out,
        tokens.mean,
        tokens.longest,
        model.parameter_count()
    ));
    let began = match &recipe.model {
        Start::Folder { folder } => Some(base_of(&paths::model(folder))),
        // The random start weights are not kept, so an adapter would have no base: it is merged.
        Start::Random { .. } => None,
    };
    say_placement(&model, sft.lora.as_ref());
    let mut training =
        SftTraining::new(model, &tokens.examples, &sft, &tokens.validation).map_err(refused)?;
    let shown = |place: usize| {
        let (prompt, answer) = &tokens.examples[place];
        let text = |ids: &[u32]| tokenizer.decode(ids).unwrap_or_default();
        json!({
            "prompt": text(prompt), "prompt_tokens": prompt,
            "answer": text(answer), "answer_tokens": answer,
        })
    };
    let (saved, every) = (saved.as_ref(), recipe.checkpoint_every);
    let fitted = fit(order, &mut training, &checkpoints, saved, every, shown)?;
    let Some(skipped) = fitted else {
        return Ok(INTERRUPTED);
    };
    skipped.tell();
    // `replica` returns another handle on the same weights.
    let mut model = training.model.replica()?;
    model.set_trainable(false);
    if began.is_none() {
        model.merge()?;
    }
    let mut report = Report {
        model: save(&model, &tokenizer, &output, began.as_deref())?,
        parameters: model.parameter_count(),
        nests,
        nests_held_out,
        examples: tokens.examples.len(),
        left_out: tokens.left_out,
        mean_tokens: tokens.mean,
        longest_tokens: tokens.longest,
        training: training.finish()?,
        fresh: Vec::new(),
        held_out: Vec::new(),
    };
    keep_report(&output, &report)?;
    checkpoints.clear()?;
    say(&format!("the model is in {}", output.display()));
    let look = Trial {
        recipe: &recipe,
        model: &model,
        tokenizer: &tokenizer,
        longest: tokens.longest,
        allow_weaker_jail: order.allow_weaker_jail,
    };
    report.fresh = look.at("fresh random nests", &fresh)?;
    report.held_out = look.at("held-out problems", &held_out)?;
    keep_report(&output, &report)?;
    if order.json {
        data(&serde_json::to_string(&report)?);
    }
    Ok(OK)
}

fn problems(names: &[String]) -> Result<Vec<Problem>> {
    names.iter().map(|name| paths::problem(name)).collect()
}

/// The random nests that the finished model answers: those of consecutive seeds, without those that have the form of a shown
/// problem. The corpus leaves out their forms, so the model has read none of them in any variant.
fn fresh(recipe: &Recipe, shown: &[Problem]) -> Result<Vec<Problem>> {
    let form = |problem: &Problem| program_of(problem).ok().map(|nest| canonical(&nest));
    let shown: Vec<String> = shown.iter().filter_map(form).collect();
    let mut seed = recipe.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut nests = Vec::new();
    while nests.len() < recipe.evaluate_nests as usize {
        let nest = Problem::from_files(random::problem(seed)?)?;
        seed = seed.wrapping_add(1);
        if form(&nest).is_some_and(|form| !shown.contains(&form)) {
            nests.push(nest);
        }
    }
    Ok(nests)
}

/// The examples of a corpus.
#[derive(Debug, Default)]
struct Made {
    examples: Vec<Example>,
    /// Nests that were drawn for them, and those of these that are held out.
    nests: u64,
    held_out: u64,
}

/// The first examples of a corpus, made by all cores.
fn made(corpus: &Corpus, wanted: usize) -> Result<Made> {
    say("making the corpus…");
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut made = Made::default();
    let mut ticker = Ticker::new(50);
    for round in 0.. {
        let before = made.examples.len();
        let first = round * threads * PART;
        // Nests follow from their numbers, so the corpus is the same for any number of threads.
        let parts: Result<Vec<Vec<_>>> = std::thread::scope(|scope| {
            let start = |worker: u64| {
                let from = first + worker * PART;
                let numbers = from..from + PART;
                scope.spawn(move || numbers.map(|n| corpus.of_nest(n)).collect::<Vec<_>>())
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            let joined = workers.into_iter().map(|worker| {
                let part = worker.join();
                part.map_err(|_| anyhow!("a thread that makes the corpus has panicked"))
            });
            joined.collect()
        });
        for nest in parts?.into_iter().flatten() {
            // A count of all nests of a round would depend on the number of threads.
            if made.examples.len() >= wanted {
                break;
            }
            made.nests += 1;
            match nest {
                Some(examples) => made.examples.extend(examples),
                None => made.held_out += 1,
            }
        }
        let count = made.examples.len().min(wanted);
        ticker.tick(round + 1, 0, || {
            format!("{count} of {wanted} examples made")
        });
        if made.examples.len() >= wanted {
            break;
        }
        if made.examples.len() == before {
            return Err(usage(format!(
                "the recipe asks for {wanted} examples, and its corpus has {before}: [nests] permits too few programs; change `techniques`, `hold_out_techniques`, \
                 `largest_tile` or `largest_bytes` to permit more"
            )));
        }
    }
    made.examples.truncate(wanted);
    Ok(made)
}

type Pair = (Vec<u32>, Vec<u32>);

/// Examples as token ids.
struct Tokens {
    examples: Vec<Pair>,
    validation: Vec<Pair>,
    /// Examples that do not fit the model's positions.
    left_out: usize,
    /// Mean and largest number of tokens of an answer.
    mean: f64,
    longest: usize,
}

impl Tokens {
    /// The first `trained` examples are trained on.
    fn of(
        examples: &[Example],
        trained: usize,
        model: &Model,
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        let end = *tokenizer
            .eos()
            .first()
            .context("the tokenizer has no end token")?;
        let positions = model.config().max_position_embeddings;
        let most = usize::try_from(positions).unwrap_or(usize::MAX);
        let (mut sum, mut longest) = (0, 0);
        let (mut kept, mut validation) = (Vec::new(), Vec::new());
        for (n, example) in examples.iter().enumerate() {
            let prompt = tokenizer.encode_prompt(&example.prompt)?;
            let mut answer = tokenizer.encode(&example.program)?;
            answer.push(end);
            if prompt.len() + answer.len() > most {
                continue;
            }
            sum += answer.len();
            longest = longest.max(answer.len());
            match n < trained {
                true => kept.push((prompt, answer)),
                false => validation.push((prompt, answer)),
            }
        }
        let count = kept.len() + validation.len();
        Ok(Self {
            left_out: examples.len() - count,
            mean: sum as f64 / count.max(1) as f64,
            longest,
            examples: kept,
            validation,
        })
    }
}

/// A trial of the finished model.
struct Trial<'a> {
    recipe: &'a Recipe,
    model: &'a Model,
    tokenizer: &'a Tokenizer,
    longest: usize,
    allow_weaker_jail: bool,
}

impl Trial<'_> {
    /// Samples answers to the prompts of these problems, and builds and verifies them.
    fn at(&self, what: &str, problems: &[Problem]) -> Result<Vec<Share>> {
        if self.recipe.evaluate_samples == 0 || problems.is_empty() {
            return Ok(Vec::new());
        }
        let mut unsuccessful = Unsuccessful::default();
        let mut shares = Vec::new();
        let mut ticker = Ticker::new(8);
        for (n, problem) in (1..).zip(problems) {
            shares.push(self.share(problem, &mut unsuccessful)?);
            ticker.tick(n, problems.len() as u64, || {
                format!("{what}: {n} of {} answered", problems.len())
            });
        }
        ticker.end();
        let sum = |of: fn(&Share) -> u64| shares.iter().map(of).sum::<u64>();
        let correct = sum(|s| s.correct);
        let judged = sum(|s| s.samples - s.unmeasured);
        let rate = 100.0 * correct as f64 / judged.max(1) as f64;
        say(&format!(
            "{what}: {correct} of {judged} programs are right ({rate:.0} %)"
        ));
        unsuccessful.tell(correct);
        Ok(shares)
    }

    fn share(&self, problem: &Problem, unsuccessful: &mut Unsuccessful) -> Result<Share> {
        let permitted = self
            .recipe
            .nests
            .techniques
            .intersection(problem.techniques);
        let prompt = prompt::render(problem, permitted, None, Style::Nest);
        let prompt = prompt.map_err(|e| usage(e.to_string()))?;
        let prompt = self.tokenizer.encode_prompt(&prompt)?;
        let samples = u64::from(self.recipe.evaluate_samples);
        let mut share = Share {
            problem: problem.id.to_string(),
            samples,
            correct: 0,
            unmeasured: 0,
            distinct: 0,
        };
        // A nest that the model has no room for has no right program.
        let room = self.model.config().max_position_embeddings - prompt.len() as i64;
        let Some(room) = u32::try_from(room).ok().filter(|room| *room > 0) else {
            return Ok(share);
        };
        let most = u32::try_from(self.longest * 5 / 4).unwrap_or(u32::MAX);
        let sampling = Sampling {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            max_tokens: most.clamp(1, room),
        };
        let seed = self.recipe.seed.wrapping_mul(1_000_003);
        let requests: Vec<Request> = (0..samples)
            .map(|n| Request {
                detour: None,
                extras: Extras::default(),
                prompt: prompt.clone(),
                seed: seed.wrapping_add(n),
                sampling: sampling.clone(),
            })
            .collect();
        let of = Arc::new(problem.clone());
        let evaluator = evaluator::open(of, "gcc", self.allow_weaker_jail)?.permitting(permitted);
        let mut verifier = evaluator.verifier(1)?;
        let mut programs = std::collections::BTreeSet::new();
        for sample in sample(self.model, &requests, self.tokenizer.eos(), |_| {})? {
            let source = self.tokenizer.decode(&sample.tokens)?;
            let prepared =
                evaluator.prepare(problem.language, &source, &mut verifier, Look::Screening);
            let reason = |kind: &str, detail: &str| {
                let answer = RawAnswer::of(&source, sample.finished);
                Reason::of(kind, detail, problem.id.as_str(), answer)
            };
            match prepared.failure() {
                None => share.correct += 1,
                Some(Failure::Candidate { fault, detail }) => {
                    unsuccessful.refused.add(reason(fault.name(), detail));
                }
                Some(Failure::Infrastructure { cause, detail }) => {
                    share.unmeasured += 1;
                    unsuccessful.unmeasured.add(reason(cause.name(), detail));
                }
                Some(Failure::Unknown { cause, detail }) => {
                    share.unmeasured += 1;
                    unsuccessful.unmeasured.add(reason(cause.name(), detail));
                }
            }
            programs.insert(source);
        }
        share.distinct = programs.len();
        Ok(share)
    }
}

#[cfg(test)]
mod tests;
