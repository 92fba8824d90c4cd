//! The settings of a run: one TOML file, checked once.

use std::path::{Path, PathBuf};

use flopsmith_archive::mix::Mix;
use flopsmith_problem::prompt::Style;
use flopsmith_protocol::FIRST_WORKLOAD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::agent::Agent;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::endpoint::Endpoint;
use crate::grpo::GrpoConfig;
use crate::ppo::PpoConfig;
use crate::recipe::{Returns, usual_discount, usual_first};

/// A run's settings after defaults, file and flags. Environment variables only replace flags that name them; of the
/// flags that change settings these are `--budget` and `--seed`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The problem, by name or by folder; empty in a run over many problems.
    pub problem: String,
    /// Train on all of these problems, by name or by folder, instead of on `problem`. Stages, archive, best answers and
    /// reward scales are those of each problem. Each evaluation has as many tasks of each problem as of the others, so
    /// `evaluate_tasks` is rounded up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Train on all problems of this suite (`flopsmith problem list`), or with `all` on every problem, except those of
    /// `hold_out`. A run keeps the problems that the suite has when the run begins. `random` is a stream: each task of a
    /// training step has a fresh random loop nest, and both evaluations have the same `evaluate_tasks` other ones.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub suite: String,
    /// Number of tasks of each training step that have a fresh random loop nest each, as those of `suite = "random"`,
    /// beside the tasks of `problems` or `suite`. The run evaluates none of these nests. Default: 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub random: u32,
    /// Names of problems that the run must not train on, for `flopsmith eval` after it. They and problems with their loop
    /// nests are left out of `suite`, and refused in `problem` and `problems`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hold_out: Vec<String>,
    /// Digests of the forms of nests that fresh nests must not have: of the problems of `hold_out`, or of the nests that a run
    /// with `suite = "random"` evaluates. A fresh nest that differs from one of them only by names, sizes, precision or
    /// constants is replaced by another. A run sets it when it begins, whatever it was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hold_out_forms: Vec<String>,
    /// Division of the tasks of a training step among many problems: `uniform` (they take turns) or `learning_progress`
    /// (three quarters of the tasks go to problems in proportion to the change of their scores, Kanitscheider et al.,
    /// 2021, and the others are divided evenly). Default: `uniform`.
    #[serde(skip_serializing_if = "is_uniform")]
    pub mix: Mix,
    /// Names of the workloads at which programs are timed; not set means all of the problem. `["first"]` stands for the
    /// first workload of each problem, whatever its name is. The speed of a program is the geometric mean over them, and
    /// speeds of different selections are not comparable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Seed of everything that is random in the run, except the verifier's secrets.
    pub seed: u64,
    /// Time for the search, or for training with its evaluations before and after, seconds. The run needs more time to
    /// measure the machine before it and the fastest programs after it.
    pub budget_seconds: f64,
    /// Largest number of training steps; 0 means as many as the budget allows.
    pub max_steps: u64,
    /// Class of machines whose timings are comparable; elites are kept per class.
    pub machine_class: String,
    /// Number of threads to time kernels with.
    pub threads: u32,
    /// Tasks (prompts) per step.
    pub tasks: u32,
    /// Samples per task.
    pub group_size: u32,
    /// Tasks of each evaluation, before and after training, each with `group_size` samples.
    pub evaluate_tasks: u32,
    /// After this many seconds without an outcome, the missing outcomes of a step count as failures of the
    /// infrastructure. Only time counts in which no role of the archive's node has a core: sampling, compiling, timing
    /// and learning may take any time. On a bus that other nodes share (`nats`), no outcome counts as lost while work
    /// of the run is in a queue or a node has it.
    #[serde(deserialize_with = "positive")]
    pub lost_after_seconds: f64,
    /// End the run after this many steps in a row whose update was left out because its gradient was not finite: so
    /// many are not the fault of a single batch. The batches lie in the run's folder under `skipped`. 1 ends the run
    /// with the first.
    #[serde(deserialize_with = "at_least_one")]
    pub skipped_steps_limit: u32,
    /// End the run after this many steps in a row in which programs were judged and none was correct, and report the
    /// most frequent reasons of refusal. A model that writes no correct program learns nothing from further steps. 0
    /// never ends it.
    pub fruitless_steps_limit: u32,
    /// The source of programs.
    pub generator: Generator,
    /// Staged Quality-Diversity.
    pub sqd: flopsmith_archive::Config,
    /// The reward of an outcome.
    pub reward: flopsmith_reward::Reward,
    /// Advantages from rewards.
    pub advantage: Advantage,
    /// The learner.
    pub learner: GrpoConfig,
    /// Train by PPO with a value head and these settings (reinforcement learning by performance feedback, Nichols et al.,
    /// 2024), instead of by a policy gradient with the settings of `learner`. The score of an answer is its reward. Of
    /// `learner` only `dtype`, `device`, `checkpoint_every` and `cores` apply, and of `advantage` only `sharing`,
    /// `overlong`, `flat_groups`, `dynamic_sampling` and `max_staleness`. Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ppo: Option<PpoConfig>,
    /// Conversations: the policy is told the result of its answer and answers again.
    pub turns: Turns,
    /// Evaluation of candidates.
    pub evaluate: Evaluate,
    /// Refuse to start where a role of this process that has a model finds no usable GPU, instead of computing on the
    /// CPU. Default false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_gpu: bool,
    /// Artifact store: a folder or a URL (`s3://bucket/prefix`); empty means the run's folder.
    pub store: String,
    /// NATS server to join; empty means that the run starts a private one.
    pub nats: String,
    /// Roles that nodes of the cluster take (`flopsmith worker --roles archive,learner,generator`) instead of this
    /// process. If nodes have all roles, this process only follows the run and writes its folder, and the run continues
    /// when this process ends. Needs `nats` and `store`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<Hosted>,
    /// The user's own program, with which a search begins (`flopsmith search --start`). Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Programs of earlier searches for like loops, whose schedules the search tries first: `flopsmith search` finds them in
    /// the folder of runs (`--cold` leaves them out).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warm_start: Vec<String>,
}

/// Roles that exist once in a run and that a node of a cluster can take.
#[derive(
    Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Hosted {
    /// Chooses the tasks, keeps the elites and ends the run.
    Archive,
    /// Trains.
    Learner,
    /// Writes programs.
    Generator,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            problem: "dgemm".into(),
            problems: Vec::new(),
            suite: String::new(),
            random: 0,
            hold_out: Vec::new(),
            hold_out_forms: Vec::new(),
            mix: Mix::Uniform,
            workloads: Vec::new(),
            seed: 1,
            budget_seconds: 600.0,
            max_steps: 0,
            machine_class: "local".into(),
            threads: 1,
            tasks: 8,
            group_size: 8,
            evaluate_tasks: 8,
            lost_after_seconds: 150.0,
            skipped_steps_limit: 5,
            fruitless_steps_limit: 20,
            generator: Generator::default(),
            sqd: flopsmith_archive::Config::default(),
            reward: flopsmith_reward::Reward::default(),
            advantage: Advantage::default(),
            learner: GrpoConfig::default(),
            ppo: None,
            turns: Turns::default(),
            evaluate: Evaluate::default(),
            require_gpu: false,
            store: String::new(),
            nats: String::new(),
            hosted: Vec::new(),
            start: None,
            warm_start: Vec::new(),
        }
    }
}

impl Settings {
    /// True for a run over many problems.
    pub fn has_many(&self) -> bool {
        !self.problems.is_empty() || self.is_stream()
    }

    /// True for a run whose training tasks each have a fresh random loop nest.
    pub fn is_stream(&self) -> bool {
        self.suite == STREAM
    }

    /// True if tasks of training steps have fresh random loop nests.
    pub fn has_fresh(&self) -> bool {
        self.is_stream() || self.random > 0
    }

    /// True if `workloads` chooses other sizes than the first one of each problem. Fresh nests have sizes of their own, and no name of others.
    pub fn names_sizes(&self) -> bool {
        match self.workloads.as_slice() {
            [] => false,
            [one] => one != FIRST_WORKLOAD,
            _ => true,
        }
    }

    /// Number of tasks with fresh nests among so many tasks of a training step.
    pub fn fresh_of(&self, tasks: u32) -> u32 {
        if self.is_stream() {
            return tasks;
        }
        let share = u64::from(self.random) * u64::from(tasks) / u64::from(self.tasks.max(1));
        u32::try_from(share).unwrap_or(tasks).min(tasks)
    }

    /// Number of the problems that a run shows by themselves: all that it trains on, or those of a stream's evaluations.
    pub fn problem_count(&self) -> usize {
        match self.is_stream() {
            true => self.evaluate_tasks as usize,
            false => self.named_problems().len(),
        }
    }

    /// The problems, by name or by folder, in the order in which the tasks of a run take turns. A stream names none.
    pub fn named_problems(&self) -> &[String] {
        match self.problems.as_slice() {
            [] => std::slice::from_ref(&self.problem),
            many => many,
        }
    }

    /// The problems in a few words, for titles.
    pub fn about_problems(&self) -> String {
        match self.problems.as_slice() {
            [] if self.is_stream() => "fresh random nests".to_owned(),
            [] => self.problem.clone(),
            many => format!("{} problems", many.len()),
        }
    }

    /// Number of tasks of each evaluation of a run over so many problems: each problem has equally many, at least one.
    pub fn evaluation_tasks(&self, problems: usize) -> u32 {
        let problems = u32::try_from(problems).unwrap_or(u32::MAX).max(1);
        let of_each = self.evaluate_tasks.div_ceil(problems);
        of_each.saturating_mul(problems)
    }

    /// Number of tasks of a search step, and number of samples of each. The last step of a search over the configurations of
    /// parameters has as many samples as configurations are left; its tasks have one each, so that any number fits.
    pub fn search_step(&self, step: u64) -> (u32, u32) {
        let whole = u64::from(self.tasks) * u64::from(self.group_size);
        let configurations = self.start.as_ref().map_or(0, |start| start.configurations);
        let left = match configurations {
            0 => whole,
            all => all.saturating_sub(step.saturating_mul(whole)),
        };
        match u32::try_from(left) {
            Ok(left) if u64::from(left) < whole => (left.max(1), 1),
            _ => (self.tasks, self.group_size),
        }
    }

    /// Share of a search's answers that vary the user's own program: 0 in a search without one, over its parameters, or with
    /// another source than the schedule space.
    pub fn start_share(&self) -> f64 {
        let plain = self.start.as_ref().filter(|s| !s.has_parameters());
        match self.generator.kind {
            GeneratorKind::Schedule if plain.is_some() => self.generator.start_share,
            _ => 0.0,
        }
    }

    /// True if an endpoint draws the samples of a training with these settings: the learner has a model, and the generator
    /// has none. Only an adapter is trained so.
    pub fn trains_through_endpoint(&self) -> bool {
        self.generator.kind == GeneratorKind::Endpoint && self.algorithm().lora().is_some()
    }

    /// True if a role of a run with these settings computes with a model.
    pub fn has_models(&self) -> bool {
        self.generator.kind.has_policy() || self.trains_through_endpoint()
    }

    /// The device that the settings name for a role with a model; none for a role without one.
    pub fn device_of(&self, role: Hosted) -> Option<Device> {
        let named = match role {
            Hosted::Archive => return None,
            Hosted::Generator if self.generator.kind == GeneratorKind::Endpoint => return None,
            Hosted::Learner => self.learner.device,
            Hosted::Generator => self.generator.device,
        };
        Some(named.or_gpu(self.require_gpu))
    }

    /// True if a node of the cluster has this role.
    pub fn is_hosted(&self, role: Hosted) -> bool {
        self.hosted.contains(&role)
    }

    /// The largest number of rounds that follow the first round of a training step: groups that are drawn again, or the
    /// further turns of conversations.
    pub fn rounds(&self) -> u32 {
        match self.turns.most {
            0 | 1 => self.advantage.dynamic_sampling,
            most => most - 1,
        }
    }

    /// Number of exploration samples in each training group. At least two samples of a group follow the policy. Only a
    /// policy has exploration samples.
    pub fn exploration_samples(&self) -> u32 {
        match self.generator.kind {
            GeneratorKind::Policy => {
                let most = self.group_size.saturating_sub(2);
                self.generator.exploration_samples.min(most)
            }
            GeneratorKind::Schedule | GeneratorKind::Endpoint | GeneratorKind::Agent => 0,
        }
    }
}

/// The suite of a run whose training tasks have fresh random loop nests.
pub const STREAM: &str = "random";

fn is_uniform(mix: &Mix) -> bool {
    *mix == Mix::Uniform
}

/// A number above 0. The check is in the reader, so that the error names the line.
fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err(serde::de::Error::custom(format!(
            "{number} is no number above 0"
        )))
    }
}

/// A whole number from 1 on, checked in the reader.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// An optional whole number from 1 on, checked in the reader.
fn some_from_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(0) => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// A number from 0 on, checked in the reader.
fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(serde::de::Error::custom(format!(
            "{number} is not a number of 0 or more"
        )))
    }
}

/// The user's own program, with which a search begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Start {
    /// Its text.
    pub source: String,
    /// The text of the file of its parameters (Kernel Tuner's T1 format); empty if it has none. The search then tries
    /// configurations of the parameters, and not schedules.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parameters: String,
    /// Number of configurations of the parameters. The search ends after as many programs.
    pub configurations: u64,
    /// Longest program, bytes, instead of the problem's `max_source_bytes`. Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_source_bytes: Option<u32>,
}

impl Start {
    /// True if the program has parameters.
    pub fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }
}

/// The source of programs.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Generator {
    /// `policy` (a language model), `schedule` (the schedule space), `endpoint` (a language model behind an endpoint) or
    /// `agent` (a population of programs on islands).
    pub kind: GeneratorKind,
    /// The population of the kind `agent`.
    pub agent: Agent,
    /// The endpoint of the kind `endpoint`. With the kind `agent`, its model holds conversations about programs of the
    /// population; without it, the schedule space varies them. Default: not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Box<Endpoint>>,
    /// Folder of the model, in Hugging Face layout.
    pub model: PathBuf,
    /// Number format of the weights while sampling: `float32`, `bfloat16` (half the memory), or `auto`. `auto` means
    /// bfloat16 if the folder's weights are bfloat16 and the device computes in it, otherwise float32. The learner has
    /// weights of its own, in the format `learner.dtype`. Default: `float32` on a CPU, `bfloat16` on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dtype: Option<Dtype>,
    /// Device of the sampling: `auto` (the first GPU if libtorch can use one, else the CPU), `cpu`, `cuda` or `cuda:N`.
    /// Where a named GPU cannot be used, the run does not start. Default `auto`.
    #[serde(skip_serializing_if = "Device::is_auto")]
    pub device: Device,
    /// Softmax temperature.
    pub temperature: f32,
    /// Draw from the most likely tokens that make up this share of the probability (nucleus); 1 keeps all. Training
    /// needs 1: the learner recomputes log-probabilities without a cut.
    pub top_p: f32,
    /// Nucleus share in the evaluations before and after training. Training needs the far tail, where new programs are
    /// found. Users of the policy do not: of the tokens that a small model draws once in a thousand, nearly all break
    /// the program.
    pub evaluation_top_p: f32,
    /// Draw from this many of the most likely tokens; 0 keeps all, which training needs.
    pub top_k: u32,
    /// Largest number of new tokens in an answer.
    pub max_tokens: u32,
    /// Style of the prompts: `compact` for the starter model, `nest` (the loop nest of the reference) for models that have
    /// learned to read nests, `full` for chat models.
    pub prompt: Prompt,
    /// Strings that end an answer. The answer contains the string that ended it; programs are read without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// End an answer once a passage occurs this many times in a row, because a model that repeats itself writes no
    /// program. Below 2 never.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeats: u32,
    /// Largest number of answers in flight at once. Default: 256.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_from_one"
    )]
    pub rows: Option<u32>,
    /// Largest size of the keys and values of all answers in flight, MiB; answers that do not fit wait. Default: 1024,
    /// on a GPU 8192.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_from_one"
    )]
    pub cache_mib: Option<u32>,
    /// Number of exploration samples in each training group. In such a sample, the sampler exchanges one number token,
    /// chosen at random, for another one, and the policy continues from there. This finds combinations of tile sizes,
    /// vector widths and unroll factors that the policy was never shown. At least two samples of a group are no
    /// exploration samples. Exploration samples are not trained on as samples of the group. If one is the best answer
    /// to its prompt, `advantage.self_imitation` uses it.
    pub exploration_samples: u32,
    /// Share of the answers, from 0 to 1, that vary the program of `flopsmith search --start` or its fastest descendants: the
    /// search changes numbers such as tile sizes, hints to the compiler, prefetches and the order of two loops. The schedule
    /// space gives the others. 0 varies nothing. For a problem without a schedule space the search sets it to 1. It means nothing
    /// with `--parameters` or another `generator.kind` than `schedule`.
    pub start_share: f64,
    /// Number of steps that sampling may be ahead of the learner. With 0, a step's tasks wait for the policy that the
    /// step before produced, so a run on recorded outcomes repeats bit by bit. From 1 on (asynchronous), the generator
    /// answers tasks with its newest policy, at most this many versions older: sampling continues while the learner
    /// steps, and on other nodes so does evaluation. If one process samples and learns, sampling and learning then have
    /// half of the cores each. See `learner.correction` and `advantage.max_staleness`.
    pub steps_ahead: u32,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            kind: GeneratorKind::Policy,
            agent: Agent::default(),
            endpoint: None,
            model: "models/starter".into(),
            dtype: None,
            device: Device::Auto,
            temperature: 1.0,
            top_p: 1.0,
            evaluation_top_p: 1.0,
            top_k: 0,
            max_tokens: 320,
            prompt: Prompt::Compact,
            stop: Vec::new(),
            repeats: 0,
            rows: None,
            cache_mib: None,
            exploration_samples: 0,
            start_share: 0.33,
            steps_ahead: 0,
        }
    }
}

impl Generator {
    /// True if the programs are those of a problem's schedule space.
    pub fn has_space(&self) -> bool {
        self.kind.takes_start() && self.endpoint.is_none()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The kinds of generator.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorKind {
    /// A language model.
    Policy,
    /// The schedule space.
    Schedule,
    /// A language model behind an endpoint.
    Endpoint,
    /// A population of programs on islands.
    Agent,
}

impl GeneratorKind {
    /// Its name in the subjects of tasks.
    pub fn name(self) -> &'static str {
        match self {
            GeneratorKind::Policy => "policy",
            GeneratorKind::Schedule => "schedule",
            GeneratorKind::Endpoint => "endpoint",
            GeneratorKind::Agent => "agent",
        }
    }

    /// True if a search may begin with a program of the user's.
    pub fn takes_start(self) -> bool {
        match self {
            GeneratorKind::Schedule | GeneratorKind::Agent => true,
            GeneratorKind::Policy | GeneratorKind::Endpoint => false,
        }
    }

    /// True if its samples may be trained on.
    pub fn can_train(self) -> bool {
        match self {
            GeneratorKind::Policy | GeneratorKind::Endpoint => true,
            GeneratorKind::Schedule | GeneratorKind::Agent => false,
        }
    }

    /// True if a model of this process writes the programs, so that it can be handed to nodes.
    pub fn has_policy(self) -> bool {
        match self {
            GeneratorKind::Policy => true,
            GeneratorKind::Schedule | GeneratorKind::Endpoint | GeneratorKind::Agent => false,
        }
    }
}

/// Styles of prompts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// One line.
    Compact,
    /// The loop nest of the reference.
    Nest,
    /// The whole task in words.
    Full,
}

impl Prompt {
    /// The style that it names.
    pub fn style(self) -> Style {
        match self {
            Self::Compact => Style::Compact,
            Self::Nest => Style::Nest,
            Self::Full => Style::Full,
        }
    }
}

/// Prompts of conversations.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnPrompt {
    /// Each result in a line or two after its answer. Each answer is a whole program.
    #[default]
    Brief,
    /// As in `search --agent`: the fastest program of the conversation, and each result with its diagnostics, its share of the
    /// machine's peak and the differences from the program that was shown. An answer is a whole program or SEARCH/REPLACE
    /// blocks that change the shown one. Needs `generator.prompt = "full"`.
    Agent,
}

/// Conversations of a training step.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Turns {
    /// Largest number of answers in a conversation; 1 holds none. Each further turn takes the step as long again. A
    /// conversation ends early at an answer that no machine could measure, and with `prompt = "brief"` at one without a
    /// program.
    pub most: u32,
    /// Prompts of the policy, also where a conversation has one answer. Default `brief`.
    pub prompt: TurnPrompt,
    /// Score of a turn from the rewards of its conversation. Default `discounted`.
    pub returns: Returns,
    /// Share of a turn's score that is added to the turn before it, with `returns = "discounted"`. Default 0.4.
    pub discount: f64,
    /// Weight of the first turn, with `returns = "first_and_best"`. Default 0.75.
    pub first: f64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            most: 1,
            prompt: TurnPrompt::default(),
            returns: Returns::default(),
            discount: usual_discount(),
            first: usual_first(),
        }
    }
}

/// Advantages from rewards.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Advantage {
    /// Kind of advantages: mean and deviation, leave-one-out, or measurement-aware.
    pub kind: flopsmith_reward::AdvantageKind,
    /// The divisor of rewards.
    pub scale: flopsmith_reward::Scale,
    /// Fitness sharing: if m samples of a step answer the same prompt with the same program, each keeps m^-sharing of
    /// its reward. 0 shares nothing; 1 divides the reward among them.
    pub sharing: f64,
    /// Number that is added to the advantage of every verified sample; 0 adds nothing. The advantages of a group add up
    /// to 0, so without it properties that right and wrong answers share are never reinforced, and a policy that errs
    /// at one token of a thousand keeps erring. Our own variant, after the likelihood term on right answers of VAPO
    /// (Yue et al., 2025), which makes the policy sure of its right answers. The differences: theirs is a loss beside
    /// the policy's, the mean over the tokens of right answers with a weight of its own, without clipping; here it is a
    /// constant within the advantage, so that ratio, clipping and reduction of the policy's own loss apply to it. While
    /// the ratio is 1 it has the gradient of a likelihood term.
    pub imitation: f64,
    /// Weight of self-imitation, our own variant, after Oh et al. (2018); `best_answers` of the actors lists the
    /// differences. While a step's answers to a prompt fall short of the best answer so far, that best answer takes
    /// part in the step, with this many times the advantage it would have among them. 0 leaves it out. Without it a
    /// much faster program that occurs once in thousands of samples is soon forgotten.
    pub self_imitation: f64,
    /// Treatment of answers that were cut off at `generator.max_tokens`. They count in their groups either way.
    pub overlong: Overlong,
    /// Treatment of groups whose rewards are all equal.
    pub flat_groups: FlatGroups,
    /// Dynamic sampling (Yu et al., 2025): draw other groups in place of training groups whose rewards are all equal,
    /// to other prompts of the same step, in at most this many rounds. Groups that are flat even then are left out,
    /// whatever `flat_groups` says. 0 draws none. A step waits for each round, so it takes as much longer.
    pub dynamic_sampling: u32,
    /// Leave the answers of a policy more than this many versions older than the trained one out of training; 0 is no
    /// limit.
    pub max_staleness: u32,
}

/// Treatments of answers that were cut off.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// Train on them like on any other answer.
    #[default]
    Train,
    /// Leave them out of training: a cut is no fault of the part of the program that is there (overlong filtering of Yu
    /// et al., 2025).
    LeaveOut,
}

/// Treatments of groups whose rewards are all equal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlatGroups {
    /// Train on them like on any other group. Their answers have only the advantage that `imitation` adds, and are in
    /// the loss's mean.
    #[default]
    Train,
    /// Leave them out of the batch, as after dynamic sampling (Yu et al., 2025), but draw no others in their place. The
    /// number of such groups then influences neither the size of a step nor, with `scale = "batch"`, the divisor of
    /// rewards.
    LeaveOut,
}

impl Advantage {
    /// True if groups whose rewards are all equal are left out of the batch.
    pub fn leaves_out_flat_groups(&self) -> bool {
        self.dynamic_sampling > 0 || self.flat_groups == FlatGroups::LeaveOut
    }
}

impl Default for Advantage {
    fn default() -> Self {
        Self {
            kind: flopsmith_reward::AdvantageKind::MeasurementAware,
            scale: flopsmith_reward::Scale::Group,
            sharing: 0.0,
            imitation: 0.0,
            self_imitation: 0.0,
            overlong: Overlong::Train,
            flat_groups: FlatGroups::Train,
            dynamic_sampling: 0,
            max_staleness: 0,
        }
    }
}

/// Evaluation of candidates.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluate {
    /// Leave compiling, verifying and timing to the workers of a cluster (`flopsmith worker`); this process then takes
    /// no part in them. Needs `nats` and `store`.
    pub workers: bool,
    /// C compiler: `gcc` or `clang`, or a path. Programs in other languages are built with the compilers of its family.
    pub compiler: String,
    /// Compiler flags of all programs instead of the problem's, e.g. `-O2 -march=native`; empty means the problem's.
    /// Functions and loops are aligned (`-falign-functions=64 -falign-loops=64`) unless the flags say otherwise.
    pub flags: String,
    /// Standard of the first measurement of each training sample.
    pub purpose: Standard,
    /// Standard of the second measurement of a program, before it counts as an elite. A `screen` that leaves a standard
    /// error above 2 % is followed by a `rank`.
    pub again: Standard,
    /// Run untrusted programs even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Build a program once more with sanitizers before it counts as an elite, and call it with a few small secret
    /// cases: with AddressSanitizer and UndefinedBehaviorSanitizer, and with ThreadSanitizer if it uses OpenMP and
    /// `threads` is above 1. A program that reads outside its arrays, has undefined behaviour or has a data race is
    /// refused, even if its results are right. A sanitizer that this machine lacks is left out; `flopsmith doctor`
    /// reports it. Programs for clang are checked in a gcc build.
    pub sanitize: bool,
    /// Wait while the machine is disturbed: the baseline takes 25 % longer than before in measurement after
    /// measurement, or the hypervisor takes more than a tenth of the timed cores. The timer times the baseline alone
    /// now and then, and continues once the baseline is as fast as before or steady on another level.
    pub quarantine: bool,
    /// Longest wait of one session for a disturbed machine in all, seconds. After this time the timer times all the
    /// same and says so in its log.
    #[serde(deserialize_with = "not_negative")]
    pub quarantine_limit_seconds: f64,
    /// Certify this many of the fastest programs after the run, at ten to thirty seconds each, and report the best of
    /// them. More than one, because the program that is fastest in short measurements may not be the fastest in long
    /// ones. 0: none.
    pub finalists: u32,
    /// The folder of a finished run, whose outcomes replace compiling, verifying and timing; `flopsmith replay` sets
    /// it. The policy samples and trains as in any run, and has to write the same programs as in that run. An outcome
    /// without a source is that of any program.
    #[serde(skip_serializing_if = "is_nowhere")]
    pub recorded: PathBuf,
}

impl Evaluate {
    /// True if a recorded run is repeated.
    pub fn replays(&self) -> bool {
        !is_nowhere(&self.recorded)
    }
}

fn is_nowhere(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

impl Default for Evaluate {
    fn default() -> Self {
        Self {
            workers: false,
            compiler: "gcc".into(),
            flags: String::new(),
            purpose: Standard::Screen,
            again: Standard::Rank,
            allow_weaker_jail: false,
            sanitize: true,
            quarantine: true,
            quarantine_limit_seconds: 60.0,
            finalists: 4,
            recorded: PathBuf::new(),
        }
    }
}

/// The standards of measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standard {
    /// Decide whether a program is worth more time.
    Screen,
    /// Resolve the order within a group.
    Rank,
    /// Measure a number to publish: at five layouts of the code, each built anew.
    Certify,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_a_search_have_as_many_programs_as_there_are_configurations() {
        for configurations in 1..70 {
            let settings = Settings {
                tasks: 2,
                group_size: 8,
                start: Some(Start {
                    configurations,
                    ..Start::default()
                }),
                ..Settings::default()
            };
            let steps = configurations.div_ceil(16);
            let samples = |step| {
                let (tasks, size) = settings.search_step(step);
                u64::from(tasks) * u64::from(size)
            };
            assert_eq!((0..steps).map(samples).sum::<u64>(), configurations);
        }
        let settings = Settings::default();
        assert_eq!(settings.search_step(1000), (8, 8), "without parameters");
    }

    #[test]
    fn a_run_that_needs_a_gpu_names_one_for_each_role_with_a_model() {
        let mut settings = Settings::default();
        assert_eq!(settings.device_of(Hosted::Learner), Some(Device::Auto));
        settings.require_gpu = true;
        settings.generator.device = Device::Cuda(1);
        assert_eq!(settings.device_of(Hosted::Learner), Some(Device::Cuda(0)));
        assert_eq!(settings.device_of(Hosted::Generator), Some(Device::Cuda(1)));
        assert_eq!(settings.device_of(Hosted::Archive), None);
    }

    #[test]
    fn a_limit_without_meaning_is_refused_and_a_missing_one_has_its_default() {
        let read = |value: serde_json::Value| serde_json::from_value::<Settings>(value);
        let of = |seconds: f64| read(serde_json::json!({ "lost_after_seconds": seconds }));
        assert!(of(0.0).is_err() && of(-3.0).is_err());
        assert_eq!(of(900.0).expect("fits").lost_after_seconds, 900.0);
        let waits = |seconds: f64| {
            read(serde_json::json!({ "evaluate": { "quarantine_limit_seconds": seconds } }))
        };
        assert!(waits(-1.0).is_err());
        assert!(waits(0.0).expect("fits").evaluate.quarantine);
        let skips = |steps: u32| read(serde_json::json!({ "skipped_steps_limit": steps }));
        assert!(skips(0).is_err());
        assert_eq!(skips(1).expect("fits").skipped_steps_limit, 1);
        let missing = read(serde_json::json!({})).expect("fits");
        assert_eq!(missing, Settings::default());
    }
}
