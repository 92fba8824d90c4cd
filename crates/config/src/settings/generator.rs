//! The source of programs, and its prompts.

use std::path::PathBuf;

use flopsmith_problem::prompt::Style;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_zero;
use super::limits::some_from_one;
use crate::agent::Agent;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::endpoint::Endpoint;

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
