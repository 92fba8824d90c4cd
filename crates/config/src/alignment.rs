//! The recipe of `flopsmith align`: the stages of performance alignment over several problems.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dtype::Dtype;
use crate::pairs::{DpaConfig, RewardModelConfig};
use crate::ppo::PpoConfig;
use crate::range::OutOfRange;
use crate::read::{Usage, usage};
use crate::recipe::{Returns, Rlpf};
use crate::settings::Prompt;
use crate::sft::SftConfig;

/// Performance alignment: programs of the training problems are measured and split, four models are made of them, and
/// all four are evaluated on the training problems and on the held-out ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alignment {
    /// Folder of the model to begin with.
    pub model: PathBuf,
    /// Problems to train on, by name or folder.
    #[serde(default)]
    pub problems: Vec<String>,
    /// Instead of `problems`: a suite to train on, without the held-out problems.
    #[serde(default)]
    pub suite: String,
    /// Problems that nothing is trained on, for the evaluation.
    #[serde(default)]
    pub hold_out: Vec<String>,
    /// Names of workloads, which every problem must have; all of each problem's when empty. `first` stands for the first
    /// workload of each problem.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// If true, prompts are messages to a chat model, and programs are written in fenced blocks.
    #[serde(default)]
    pub chat: bool,
    /// If true, prompts state the loop nest of the reference, for models such as `models/nests`.
    #[serde(default)]
    pub nest: bool,
    /// Number format of the weights in training and evaluation; that of the device if there is none.
    #[serde(default)]
    pub dtype: Option<Dtype>,
    /// Device of training and evaluation.
    #[serde(default, skip_serializing_if = "Device::is_auto")]
    pub device: Device,
    /// Seed of the drawn programs, of the split, and of the evaluation. Trainings have seeds of their own.
    #[serde(default)]
    pub seed: u64,
    /// The programs to learn from.
    #[serde(default)]
    pub programs: Programs,
    /// Their split into the parts of training.
    #[serde(default)]
    pub split: Split,
    /// Supervised fine-tuning.
    #[serde(default)]
    pub sft: SftConfig,
    /// The reward model, which begins with the fine-tuned model.
    #[serde(default)]
    pub reward_model: RewardModelConfig,
    /// Direct performance alignment of the fine-tuned model.
    #[serde(default)]
    pub dpa: DpaConfig,
    /// Reinforcement of the fine-tuned model.
    pub rlpf: Reinforcement,
    /// The evaluation.
    #[serde(default)]
    pub evaluate: Evaluation,
}

/// The programs to learn from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Programs {
    /// Number of different programs that are drawn from the schedule space of each training problem and measured. Default
    /// 100.
    pub draw: usize,
    /// Files of programs to measure (JSON lines with `problem` and `program`).
    pub files: Vec<PathBuf>,
    /// Files of programs that are measured already (lines of `flopsmith dataset measure` or `dataset run`).
    pub measured: Vec<PathBuf>,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            draw: 100,
            files: Vec::new(),
            measured: Vec::new(),
        }
    }
}

/// The split into the parts of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Largest number of pairs of each prompt. Default 100.
    pub pairs: usize,
    /// Largest number of examples of each kind and prompt. Default 100.
    pub examples: usize,
    /// Largest number of slow programs that reinforcement has to improve, for each prompt. Default 4.
    pub improve: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self {
            pairs: 100,
            examples: 100,
            improve: 4,
        }
    }
}

/// Settings of the reinforcement; [`Rlpf`] documents each, and has the defaults.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reinforcement {
    /// Steps.
    pub steps: u64,
    /// Exercises of a step. Default 4.
    #[serde(default = "crate::recipe::four")]
    pub prompts: usize,
    /// Answers to each exercise. Default 4.
    #[serde(default = "crate::recipe::four")]
    pub samples: usize,
    /// Largest number of answers in a conversation. Default 1.
    #[serde(default = "crate::recipe::single")]
    pub turns: usize,
    /// Share of a turn's score that is added to the turn before it.
    #[serde(default = "crate::recipe::usual_discount")]
    pub discount: f64,
    /// Returns of the turns of a conversation.
    #[serde(default)]
    pub returns: Returns,
    /// Weight of the first turn with `returns = "first_and_best"`.
    #[serde(default = "crate::recipe::usual_first")]
    pub first: f64,
    /// Softmax temperature. Default 1.
    #[serde(default = "crate::recipe::one")]
    pub temperature: f32,
    /// Longest answer, tokens. Default 320.
    #[serde(default = "crate::recipe::longest")]
    pub max_tokens: u32,
    /// Steps without a correct program after which the training ends; 0 never ends it. Default 20.
    #[serde(default = "crate::recipe::usual_fruitless_steps_limit")]
    pub fruitless_steps_limit: u32,
    /// Seed of exercises, samples and updates. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// The training.
    #[serde(default)]
    pub ppo: PpoConfig,
}

/// Tasks of the evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Write a program from the problem's description.
    Write,
    /// Write a faster program than the problem's reference.
    Optimise,
}

impl Asked {
    /// Its name in files and folders.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Write => "write",
            Asked::Optimise => "optimise",
        }
    }
}

/// The evaluation of all four models. Defaults are those of Nichols et al., 2024.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluation {
    /// Answers of each model to each problem. Default 20.
    pub samples: u32,
    /// Softmax temperature. Default 0.2.
    pub temperature: f32,
    /// Share of the probability that tokens are drawn from. Default 0.95.
    pub top_p: f32,
    /// Longest answer, tokens. Default 512.
    pub max_tokens: u32,
    /// Tasks, each once. Default both.
    pub tasks: Vec<Asked>,
}

impl Default for Evaluation {
    fn default() -> Self {
        Self {
            samples: 20,
            temperature: 0.2,
            top_p: 0.95,
            max_tokens: 512,
            tasks: vec![Asked::Write, Asked::Optimise],
        }
    }
}

impl Alignment {
    /// How the prompts ask.
    pub fn prompt(&self) -> Prompt {
        match (self.chat, self.nest) {
            (true, _) => Prompt::Full,
            (_, true) => Prompt::Nest,
            _ => Prompt::Compact,
        }
    }

    /// Checks the ranges of all settings.
    pub fn check(&self) -> Result<(), Usage> {
        self.check_problems()?;
        if self.chat && self.nest {
            return Err(usage(
                "`chat` and `nest` are both true; a chat model reads the whole task in words: leave out `nest`",
            ));
        }
        let files = &self.programs;
        if files.draw == 0 && files.files.is_empty() && files.measured.is_empty() {
            return Err(usage(
                "`programs.draw` is 0 and `programs` names no file, so there is nothing to learn from; draw some, or name `files` or `measured`",
            ));
        }
        for (name, value) in [
            ("split.pairs", self.split.pairs),
            ("split.examples", self.split.examples),
            ("evaluate.samples", self.evaluate.samples as usize),
            ("evaluate.max_tokens", self.evaluate.max_tokens as usize),
            ("evaluate.tasks", self.evaluate.tasks.len()),
        ] {
            if value == 0 {
                return Err(usage(match name {
                    "evaluate.tasks" => {
                        "`evaluate.tasks` is empty; name `write`, `optimise`, or both".to_owned()
                    }
                    name => format!("`{name}` is 0; it must be 1 or more"),
                }));
            }
        }
        let evaluate = &self.evaluate;
        let mut tasks = evaluate.tasks.clone();
        tasks.sort_unstable();
        tasks.dedup();
        if tasks.len() < evaluate.tasks.len() {
            return Err(usage("`evaluate.tasks` names a task twice; leave out one"));
        }
        if !(evaluate.temperature >= 0.0 && evaluate.temperature.is_finite()) {
            return Err(usage(format!(
                "`evaluate.temperature` is {}; it must be 0 or more",
                evaluate.temperature
            )));
        }
        if !(evaluate.top_p > 0.0 && evaluate.top_p <= 1.0) {
            return Err(usage(format!(
                "`evaluate.top_p` is {}; it must be above 0 and at most 1",
                evaluate.top_p
            )));
        }
        let of = |table: &'static str| {
            move |e: OutOfRange| usage(format!("`{table}.{}` {}", e.field, e.reason))
        };
        self.sft.check().map_err(of("sft"))?;
        self.reward_model.check().map_err(of("reward_model"))?;
        self.dpa.check().map_err(of("dpa"))?;
        self.rlpf.ppo.check().map_err(of("rlpf.ppo"))?;
        self.reinforcement(PathBuf::new(), PathBuf::new(), PathBuf::new())
            .check()
            .map_err(|e| usage(format!("[rlpf] {e}")))
    }

    fn check_problems(&self) -> Result<(), Usage> {
        match (self.problems.is_empty(), self.suite.is_empty()) {
            (true, true) => {
                return Err(usage(
                    "the recipe names no problem; name `problems = [\"dgemm\", …]` or a `suite`",
                ));
            }
            (false, false) => {
                return Err(usage(
                    "`problems` and `suite` are both set; name several problems or a suite, and leave out the other",
                ));
            }
            _ => {}
        }
        // Each nest of the stream has a name of its own, so there is no list of them.
        match self.suite.as_str() {
            "random" => Err(usage(
                "`suite` is \"random\", and programs are measured for problems that have a folder; make some with `flopsmith problem random`, and name them in `problems`",
            )),
            _ => Ok(()),
        }
    }

    /// The recipe of the reinforcement by itself.
    pub fn reinforcement(&self, model: PathBuf, exercises: PathBuf, rewards: PathBuf) -> Rlpf {
        let Reinforcement {
            steps,
            prompts,
            samples,
            turns,
            discount,
            returns,
            first,
            temperature,
            max_tokens,
            fruitless_steps_limit,
            seed,
            ppo,
        } = self.rlpf.clone();
        Rlpf {
            model,
            exercises,
            validation: None,
            reward_model: Some(rewards),
            chat: self.chat,
            dtype: self.dtype,
            device: self.device,
            seed,
            steps,
            prompts,
            samples,
            turns,
            discount,
            returns,
            first,
            temperature,
            max_tokens,
            fruitless_steps_limit,
            checkpoint_every: crate::recipe::ten(),
            ppo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Alignment, Usage> {
        let whole = format!("model = \"m\"\n{text}");
        let recipe: Alignment = crate::read(&whole, "a.toml")?;
        recipe.check()?;
        Ok(recipe)
    }

    const LEAST: &str = "problems = [\"dgemm\"]\n[rlpf]\nsteps = 2\n";

    #[test]
    fn a_recipe_needs_problems_and_steps_and_has_the_defaults_of_the_single_commands() {
        let recipe = read(LEAST).expect("a recipe");
        let own = recipe.reinforcement("a".into(), "b".into(), "c".into());
        let text = "model = \"a\"\nexercises = \"b\"\nreward_model = \"c\"\nsteps = 2\n";
        let single: Rlpf = crate::read(text, "r.toml").expect("a recipe");
        let text = |recipe: &Rlpf| toml::to_string(recipe).expect("TOML");
        assert_eq!(text(&own), text(&single));
        assert_eq!(recipe.evaluate, Evaluation::default());
        assert_eq!(recipe.sft, SftConfig::default());
    }

    #[test]
    fn mistakes_are_named() {
        let more = |text: &str| format!("{LEAST}{text}");
        for (text, words) in [
            ("[rlpf]\nsteps = 2\n".to_owned(), "names no problem"),
            (format!("suite = \"s\"\n{LEAST}"), "both set"),
            (
                "suite = \"random\"\n[rlpf]\nsteps = 2\n".to_owned(),
                "problem random",
            ),
            ("problems = [\"dgemm\"]\n".to_owned(), "rlpf"),
            (LEAST.replace("= 2", "= 0"), "`steps` is 0"),
            (more("[programs]\ndraw = 0\n"), "nothing to learn"),
            (more("[split]\npairs = 0\n"), "`split.pairs` is 0"),
            (more("[evaluate]\ntop_p = 0.0\n"), "top_p"),
            (more("[evaluate]\ntasks = []\n"), "`write`"),
            (
                more("[evaluate]\ntasks = [\"write\", \"write\"]\n"),
                "twice",
            ),
            (more("[dpa]\nbeta = -1.0\n"), "`dpa.beta`"),
            (more("[sft]\nepochs = 0\n"), "`sft.epochs`"),
            (more("steeps = 2\n"), "steeps"),
        ] {
            let error = read(&text).err().map(|e| e.0).unwrap_or_default();
            assert!(error.contains(words), "{words:?} in {error:?} of {text}");
        }
    }
}
