//! The settings of a run: one TOML file, checked once.

mod advantage;
mod evaluate;
mod generator;
mod limits;
mod start;
mod together;
mod turns;

use flopsmith_archive::mix::Mix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grpo::GrpoConfig;
use crate::ppo::PpoConfig;
use limits::{at_least_one, positive};

pub use advantage::{Advantage, FlatGroups, Overlong};
pub use evaluate::{Evaluate, Standard};
pub use generator::{Generator, GeneratorKind, Prompt};
pub use start::Start;
pub use turns::{TurnPrompt, Turns};

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
    /// Train on all problems of this suite (`flopsmith problem list`), except those of `hold_out`. `all` stands for every
    /// kernel, and `modules` for every module. A run keeps the problems that the suite has when the run begins. `random` is
    /// a stream: each task of a training step has a fresh random loop nest, and both evaluations have the same
    /// `evaluate_tasks` other ones.
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

fn is_uniform(mix: &Mix) -> bool {
    *mix == Mix::Uniform
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
