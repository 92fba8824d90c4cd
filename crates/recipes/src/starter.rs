//! `flopsmith sft`: supervised fine-tuning by a recipe. With a corpus of the schedule space it makes the starter model.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use flopsmith_config::Dtype;
use flopsmith_config::SftConfig;
use flopsmith_evaluate::Evaluator;
use flopsmith_generator::corpus::{self, CorpusConfig};
use flopsmith_generator::schedule::Space;
use flopsmith_learner::{SftReport, SftTraining};
use flopsmith_measure::{Purpose, Timer, Verifier};
use flopsmith_policy::{Config, Extras, Kind, Model, Request, Tokenizer, sample, train_bpe};
use flopsmith_protocol::{Digest, RawAnswer, Sampling, Verdict};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::{four, percent};
use flopsmith_run::exit::OK;
use flopsmith_run::{evaluator, paths};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Order;
use crate::corpus_best;
use crate::reasons::{Reason, Unsuccessful};
use crate::skipped::Skipped;
use crate::{Placement, base_of, forget, save, say_placement};

/// The token that ends a program.
pub(crate) const END: &str = "<|endoftext|>";

/// Files that are written next to a model.
const EVALUATION: &str = "evaluation.json";
const CORPUS_BEST: &str = "corpus_best.c";

/// How a model is made from nothing (or from another) with programs of the schedule space.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    /// The problem.
    problem: String,
    /// Names of the workloads at which programs are timed; all of the problem's where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    workloads: Vec<String>,
    /// Seed of the corpus, of random weights and of the samples that are looked at. The order of the examples has one of its
    /// own, `seed` of `[sft]`.
    seed: u64,
    /// Where the weights begin.
    model: Start,
    /// Numbers the weights are in while they are trained; those of the device if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<Dtype>,
    /// Device of the training.
    #[serde(default)]
    device: flopsmith_config::Device,
    /// The programs.
    corpus: CorpusConfig,
    /// Examples that are held out to validate on.
    validation: usize,
    /// The training.
    sft: SftConfig,
    /// Look at the result: samples of the finished model that are compiled, verified and timed.
    #[serde(default)]
    evaluate_samples: u32,
}

/// Where the weights begin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "start", rename_all = "snake_case")]
pub(crate) enum Start {
    /// From random weights of this shape, with a tokenizer made from the corpus.
    Random {
        /// Size of the vocabulary.
        vocab_size: usize,
        /// Width of the residual stream.
        hidden_size: i64,
        /// Width of the feed-forward layer.
        intermediate_size: i64,
        /// Blocks.
        num_hidden_layers: i64,
        /// Query heads.
        num_attention_heads: i64,
        /// Key and value heads.
        num_key_value_heads: i64,
    },
    /// From a model folder.
    Folder {
        /// The folder.
        folder: PathBuf,
    },
}

/// The evaluation that is written beside the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Evaluation {
    /// Digest of the `model.safetensors`, or `adapter_model.safetensors`, that all this is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Digest>,
    /// The report of the training.
    training: SftReport,
    /// Weights in all.
    parameters: i64,
    /// Examples and distinct programs among them.
    examples: usize,
    distinct_programs: usize,
    /// Mean tokens of a program.
    mean_tokens: f64,
    /// Longest program, tokens.
    longest_tokens: usize,
    /// Technique sets shown, and sets held out.
    technique_sets: usize,
    held_out: Vec<flopsmith_protocol::TechniqueSet>,
    /// Samples of the finished model, every technique permitted.
    samples: u32,
    /// Number of these that the machine failed to measure; they are in none of the two means.
    #[serde(default, skip_serializing_if = "is_zero")]
    unmeasured: u64,
    correct_rate: Option<f64>,
    mean_gflops: Option<f64>,
    /// The fastest program of the corpus on this machine of those tried, which lies beside the model as `corpus_best.c`.
    corpus_best_gflops: Option<f64>,
    /// How many of the distinct programs were tried for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corpus_programs_tried: Option<usize>,
    /// The machine of all speeds here.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<MeasuredOn>,
}

impl Evaluation {
    /// Number of samples that were measured or refused.
    fn judged(&self) -> u64 {
        u64::from(self.samples).saturating_sub(self.unmeasured)
    }

    /// Sets the means over the judged samples, of which so many are correct; `gflops` is the sum of their speeds. There
    /// are none without a judged sample.
    fn set_means(&mut self, correct: u32, gflops: f64) {
        let judged = Some(self.judged() as f64).filter(|judged| *judged > 0.0);
        self.correct_rate = judged.map(|judged| f64::from(correct) / judged);
        self.mean_gflops = judged.map(|judged| gflops / judged);
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The machine and the compiler of the measured speeds.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MeasuredOn {
    cpu_model: String,
    /// Vendor, family, model and stepping.
    cpu_id: String,
    compiler: String,
    /// Measured floating-point peak of one core, 10⁹ operations a second.
    peak_gflops: f64,
}

/// Trains by a recipe.
pub fn run(order: &Order<'_>) -> Result<u8> {
    let text = crate::read_recipe(order.recipe)?;
    if crate::has(&text, "examples") {
        return crate::examples::run(order, &text);
    }
    if crate::has(&text, "nests") {
        return crate::nests::run(order, &text);
    }
    if order.resume {
        return Err(usage(
            "--resume is only for recipes with files of examples or with [nests]; a recipe with [corpus] writes no checkpoints",
        ));
    }
    let recipe: Recipe = flopsmith_config::read(&text, &order.recipe.display().to_string())?;
    shares(&recipe.corpus)?;
    let output = order.output();
    let at = Placement::of(recipe.device, recipe.dtype)?;
    let sft = recipe.model.trained(&recipe.sft, at);
    flopsmith_run::output::folder(&output)?;
    let Some(space) = Space::of(&recipe.problem) else {
        return Err(usage(format!(
            "there is no schedule space for `{}`; there is one for dgemm",
            recipe.problem
        )));
    };
    say("building the corpus…");
    let wanted = CorpusConfig {
        examples: recipe.corpus.examples + recipe.validation,
        ..recipe.corpus.clone()
    };
    let examples = corpus::build(&space, recipe.seed, &wanted);
    enough(examples.len(), &recipe)?;
    let (model, tokenizer) = recipe.model.begin(at, recipe.seed, |vocab_size| {
        let texts = examples.iter().take(4000);
        let texts: Vec<String> = texts
            .map(|e| format!("{}{}", e.prompt, e.program))
            .collect();
        Ok(train_bpe(&texts, vocab_size, &[END])?)
    })?;
    let mut pairs = Vec::with_capacity(examples.len());
    let end = *tokenizer
        .eos()
        .first()
        .context("the tokenizer has no end token")?;
    for example in &examples {
        let mut answer = tokenizer.encode(&example.program)?;
        answer.push(end);
        pairs.push((tokenizer.encode_prompt(&example.prompt)?, answer));
    }
    let longest = pairs.iter().map(|p| p.1.len()).max().unwrap_or(0);
    let mean = pairs.iter().map(|p| p.1.len()).sum::<usize>() as f64 / pairs.len().max(1) as f64;
    let distinct = corpus::distinct(&examples).len();
    say(&format!(
        "{} examples, {distinct} distinct programs, {mean:.0} tokens each (longest {longest}); {} weights",
        examples.len(),
        model.parameter_count()
    ));
    // Missing tools are reported before the training, which takes long.
    let bench = (recipe.evaluate_samples > 0)
        .then(|| Bench::new(&recipe))
        .transpose()?;
    say_placement(&model, sft.lora.as_ref());
    let validation = pairs.split_off(recipe.corpus.examples);
    let began = match &recipe.model {
        Start::Folder { folder } => Some(base_of(&paths::model(folder))),
        // The random start weights are not kept, so an adapter would have no base: it is merged.
        Start::Random { .. } => None,
    };
    let (training, mut model) = train(model, &pairs, &validation, &sft, &output, &tokenizer)?;
    // Files of an earlier training describe other weights.
    forget(&output, |name| [EVALUATION, CORPUS_BEST].contains(&name))?;
    if began.is_none() {
        // The model is merged first, so that the saved model is the one that is evaluated below.
        model.merge()?;
    }
    let mut evaluation = Evaluation {
        model: Some(save(&model, &tokenizer, &output, began.as_deref())?),
        training,
        parameters: model.parameter_count(),
        examples: examples.len(),
        distinct_programs: distinct,
        mean_tokens: mean,
        longest_tokens: longest,
        technique_sets: examples
            .iter()
            .map(|e| e.techniques)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        held_out: recipe.corpus.hold_out.clone(),
        samples: 0,
        unmeasured: 0,
        correct_rate: None,
        mean_gflops: None,
        corpus_best_gflops: None,
        corpus_programs_tried: None,
        machine: None,
    };
    if let Some(mut bench) = bench {
        let here = bench.timer.attestation();
        evaluation.machine = Some(MeasuredOn {
            cpu_model: here.cpu_model.clone(),
            cpu_id: here.cpu_id.clone(),
            compiler: here.compiler.clone(),
            peak_gflops: bench.timer.peak_gflops(),
        });
        look(
            &recipe,
            &model,
            &tokenizer,
            longest,
            &mut bench,
            &mut evaluation,
        )?;
        let mut measured = 0;
        let fastest = corpus_best::find(&examples, |source, purpose| {
            let speed = bench.gflops(source, true, purpose);
            measured += u64::from(speed.is_some());
            speed
        });
        if let Some(fastest) = fastest {
            std::fs::write(output.join(CORPUS_BEST), fastest.source)?;
            evaluation.corpus_best_gflops = Some(fastest.gflops);
            evaluation.corpus_programs_tried = Some(fastest.tried);
            say(&format!(
                "the fastest of {} tried programs of the corpus (it has {distinct}) reaches {} GFLOPS here",
                fastest.tried,
                four(fastest.gflops)
            ));
        } else {
            say("none of the tried programs of the corpus has a speed here");
            bench.unsuccessful.tell(measured);
        }
    }
    std::fs::write(
        output.join(EVALUATION),
        serde_json::to_vec_pretty(&evaluation)?,
    )?;
    say(&format!("the model is in {}", output.display()));
    if order.json {
        data(&serde_json::to_string(&evaluation)?);
    }
    Ok(OK)
}

/// Refuses shares of a corpus that are none.
fn shares(corpus: &CorpusConfig) -> Result<()> {
    for (setting, share) in [
        ("exact_prompts", corpus.exact_prompts),
        ("improve_share", corpus.improve_share),
    ] {
        if !(0.0..=1.0).contains(&share) {
            return Err(usage(format!(
                "[corpus]: `{setting}` must be between 0 and 1"
            )));
        }
    }
    Ok(())
}

/// Refuses a corpus that has fewer examples than the recipe asks for.
fn enough(found: usize, recipe: &Recipe) -> Result<()> {
    let (train, validate) = (recipe.corpus.examples, recipe.validation);
    if found == train + validate {
        return Ok(());
    }
    Err(usage(format!(
        "the recipe asks for {train} examples to train on and {validate} to validate on, and its corpus has {found}: [corpus] permits too few programs of `{}`; \
         change `techniques`, `hold_out`, `largest_tile` or `dividing_tiles` to permit more",
        recipe.problem
    )))
}

impl Start {
    /// The settings of the training at this place. An adapter of random weights would learn nothing worth keeping, so
    /// these are all trained unless the recipe names an adapter.
    pub(crate) fn trained(&self, sft: &SftConfig, at: Placement) -> SftConfig {
        sft.clone().on(match self {
            Start::Folder { folder } => at.adapts(&paths::model(folder)),
            Start::Random { .. } => false,
        })
    }

    /// The model, and its tokenizer: that of its folder, or the one that `trained` makes with this size of the vocabulary.
    pub(crate) fn begin(
        &self,
        at: Placement,
        seed: u64,
        trained: impl FnOnce(usize) -> Result<Tokenizer>,
    ) -> Result<(Model, Tokenizer)> {
        match self {
            Start::Folder { folder } => {
                let folder = paths::model(folder);
                let model = crate::load(&folder, at)?;
                let tokenizer = flopsmith_policy::fitting_tokenizer(&folder, model.config())?;
                Ok((model, tokenizer))
            }
            Start::Random {
                vocab_size,
                hidden_size,
                intermediate_size,
                num_hidden_layers,
                num_attention_heads,
                num_key_value_heads,
            } => {
                let tokenizer = trained(*vocab_size)?;
                let vocabulary = i64::try_from(tokenizer.vocab_size())?;
                let mut shape = Config::new(
                    vocabulary,
                    *hidden_size,
                    *intermediate_size,
                    *num_hidden_layers,
                    *num_attention_heads,
                    *num_key_value_heads,
                );
                shape.tie_word_embeddings = true;
                shape.max_position_embeddings = 1024;
                shape.rope_theta = Some(10_000.0);
                shape.eos_token_id = tokenizer
                    .eos()
                    .first()
                    .map(|id| flopsmith_policy::config::TokenIds::One(*id));
                let seed = i64::from_le_bytes(seed.to_le_bytes());
                // Weights that begin at random gain nothing from half precision: such models are small.
                let kind = match at.dtype {
                    Some(Dtype::Bfloat16) => Kind::BFloat16,
                    Some(Dtype::Float32 | Dtype::Auto) | None => Kind::Float,
                };
                Ok((Model::random(shape, seed, at.device, kind)?, tokenizer))
            }
        }
    }
}

type Pair = (Vec<u32>, Vec<u32>);

/// Trains a model. Returns the training's report and the model.
fn train(
    model: Model,
    pairs: &[Pair],
    validation: &[Pair],
    config: &SftConfig,
    output: &Path,
    tokenizer: &Tokenizer,
) -> Result<(SftReport, Model)> {
    let terminal = std::io::stderr().is_terminal();
    let every = if terminal { 1 } else { 50 };
    let mut training = SftTraining::new(model, pairs, config, validation)?;
    let mut skipped = Skipped::of(output, false)?;
    let shown = |place: usize| {
        let (prompt, answer) = &pairs[place];
        let text = |ids: &[u32]| tokenizer.decode(ids).unwrap_or_default();
        json!({
            "prompt": text(prompt), "prompt_tokens": prompt,
            "answer": text(answer), "answer_tokens": answer,
        })
    };
    loop {
        let step = training.step();
        let Some(p) = skipped.step(step, &training.take_skipped(), shown)? else {
            break;
        };
        if p.step % every == 0 || p.val_loss.is_some() {
            let left = p.seconds / p.step.max(1) as f64 * (p.steps - p.step) as f64;
            let validation = p
                .val_loss
                .map(|v| format!(", validation {v:.4}"))
                .unwrap_or_default();
            say(&format!(
                "update {}/{}: loss {:.4}{validation}, {:.0} tokens/s, {:.0} s left",
                p.step, p.steps, p.loss, p.tokens_per_s, left
            ));
        }
    }
    skipped.tell();
    // `replica` returns another handle on the same weights.
    let mut model = training.model.replica()?;
    model.set_trainable(false);
    Ok((training.finish()?, model))
}

/// The stages that measure the speed of programs.
struct Bench {
    evaluator: Evaluator,
    verifier: Verifier,
    timer: Timer,
    /// Programs without a speed.
    unsuccessful: Unsuccessful,
}

impl Bench {
    fn new(recipe: &Recipe) -> Result<Self> {
        let problem = paths::selected(paths::problem(&recipe.problem)?, &recipe.workloads)?;
        let problem = Arc::new(problem);
        let evaluator = evaluator::open(problem, "gcc", false)?;
        let (verifier, timer) = (evaluator.verifier(1)?, evaluator.timer(1)?);
        Ok(Self {
            evaluator,
            verifier,
            timer,
            unsuccessful: Unsuccessful::default(),
        })
    }

    /// GFLOPS of a program, as far as they are known. `None` if it fails; `unsuccessful` then has the reason.
    /// `finished` is false if the length limit cut it off.
    fn gflops(&mut self, source: &str, finished: bool, purpose: Purpose) -> Option<f64> {
        let language = self.evaluator.problem.language;
        let done = self.evaluator.evaluate(
            language,
            source,
            &mut self.verifier,
            &mut self.timer,
            purpose,
        );
        let reason = |kind: &str, detail: &str| {
            let problem = self.evaluator.problem.id.as_str();
            Reason::of(kind, detail, problem, RawAnswer::of(source, finished))
        };
        let (unsuccessful, reason) = match &done.verdict {
            // The fastest of many is searched for, so an unconverged speed counts by its lower end.
            Verdict::Measured { measurement } => return Some(measurement.known_gflops()),
            Verdict::Rejected { fault, detail } => {
                (&mut self.unsuccessful.refused, reason(fault.name(), detail))
            }
            Verdict::Infrastructure { cause, detail } => (
                &mut self.unsuccessful.unmeasured,
                reason(cause.name(), detail),
            ),
            Verdict::Unknown { cause, detail } => (
                &mut self.unsuccessful.unmeasured,
                reason(cause.name(), detail),
            ),
        };
        unsuccessful.add(reason);
        None
    }
}

/// Samples the finished model as a run would, and evaluates the samples.
fn look(
    recipe: &Recipe,
    model: &Model,
    tokenizer: &Tokenizer,
    longest: usize,
    bench: &mut Bench,
    evaluation: &mut Evaluation,
) -> Result<()> {
    let prompt = tokenizer.encode_prompt(&flopsmith_problem::prompt::compact(
        bench.evaluator.problem.id.as_str(),
        recipe.corpus.techniques,
    ))?;
    let requests: Vec<Request> = (0..u64::from(recipe.evaluate_samples))
        .map(|i| Request {
            detour: None,
            extras: Extras::default(),
            prompt: prompt.clone(),
            seed: recipe.seed.wrapping_mul(1_000_003).wrapping_add(i),
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                max_tokens: u32::try_from(longest * 5 / 4).unwrap_or(512),
            },
        })
        .collect();
    let (mut correct, mut gflops) = (0u32, 0.0);
    for sample in sample(model, &requests, tokenizer.eos(), |_| {})? {
        let source = tokenizer.decode(&sample.tokens)?;
        if let Some(speed) = bench.gflops(&source, sample.finished, Purpose::Screen) {
            correct += 1;
            gflops += speed;
        }
    }
    let unsuccessful = std::mem::take(&mut bench.unsuccessful);
    evaluation.samples = recipe.evaluate_samples;
    evaluation.unmeasured = unsuccessful.unmeasured.count();
    evaluation.set_means(correct, gflops);
    if let (Some(rate), Some(mean)) = (evaluation.correct_rate, evaluation.mean_gflops) {
        say(&format!(
            "of {} samples {} are correct, {} GFLOPS on average",
            evaluation.judged(),
            percent(rate),
            four(mean)
        ));
    }
    unsuccessful.tell(u64::from(correct));
    Ok(())
}

#[cfg(test)]
mod tests;
