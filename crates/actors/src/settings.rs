//! What a run is: one TOML file, checked once.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A run's settings after defaults, file and flags. The environment is no layer of its own: it can only stand in for the flags
/// that name a variable, which of those that change settings are `--budget` and `--seed`.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The problem, by name or by folder.
    pub problem: String,
    /// Seed of everything that is random in the run, except the verifier's secrets.
    pub seed: u64,
    /// How long the search, or training with its evaluations before and after, may take, seconds. Measuring the machine
    /// before it and the fastest programs after it comes on top.
    pub budget_seconds: f64,
    /// Training steps at most; 0 means as many as the budget allows.
    pub max_steps: u64,
    /// Machines whose timings are comparable; elites are kept per class.
    pub machine_class: String,
    /// Threads a kernel is timed with.
    pub threads: u32,
    /// Tasks (prompts) per step.
    pub tasks: u32,
    /// Samples per task.
    pub group_size: u32,
    /// Tasks of the evaluations at start and end, each with `group_size` samples.
    pub evaluate_tasks: u32,
    /// After so many seconds without an outcome, what is missing of a step counts as lost, as failures of the infrastructure.
    /// Only time counts in which no role of the archive's node has a core: sampling, compiling, timing and learning may
    /// take as long as they do. On a bus that other nodes share (`nats`) nothing is lost as long as work of the run is in a queue
    /// or in somebody's hands.
    #[serde(deserialize_with = "positive")]
    pub lost_after_seconds: f64,
    /// After so many steps in a row whose update was left out, because its gradient was no number, the run ends: it is no single
    /// bad batch then. The batches lie in the run's folder under `skipped`. 1 ends it with the first.
    #[serde(deserialize_with = "at_least_one")]
    pub skipped_steps_limit: u32,
    /// After so many steps in a row in which programs were judged and none was correct, the run ends, and says of what they were refused
    /// most often: a model that writes no correct program at all learns nothing from more of them. 0: never.
    pub fruitless_steps_limit: u32,
    /// Where programs come from.
    pub generator: Generator,
    /// Staged Quality-Diversity.
    pub sqd: flopsmith_archive::Config,
    /// The reward of an outcome.
    pub reward: flopsmith_reward::Reward,
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// The learner.
    pub learner: Learner,
    /// How candidates are evaluated.
    pub evaluate: Evaluate,
    /// Artifact store: a folder or a URL (`s3://bucket/prefix`); empty means the run's folder.
    pub store: String,
    /// NATS server to join; empty means a private one for this run.
    pub nats: String,
    /// Roles that nodes of the cluster have (`flopsmith worker --roles archive,learner,generator`) instead of this process, which
    /// then only follows them and writes the run's folder: the run goes on where it ends. Needs `nats` and `store`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<Hosted>,
}

/// Roles of which a run has one, and which a node of a cluster can have for it.
#[derive(
    Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Hosted {
    /// Decides what is tried next, keeps the elites and ends the run.
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
            learner: Learner::default(),
            evaluate: Evaluate::default(),
            store: String::new(),
            nats: String::new(),
            hosted: Vec::new(),
        }
    }
}

impl Settings {
    /// Has a node of the cluster this role?
    pub fn is_hosted(&self, role: Hosted) -> bool {
        self.hosted.contains(&role)
    }

    /// Explorers in each training group: at least two samples of a group follow the policy. The schedule space needs none.
    pub fn explorers(&self) -> u32 {
        match self.generator.kind {
            GeneratorKind::Policy => {
                let most = self.group_size.saturating_sub(2);
                self.generator.explorers.min(most)
            }
            GeneratorKind::Schedule => 0,
        }
    }
}

/// A number above 0, refused where it is read, so that the error names its line.
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

/// A whole number from 1 on, refused where it is read.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// The same where there may be none.
fn some_from_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(deserializer)? {
        Some(0) => Err(serde::de::Error::custom("0 is no number from 1 on")),
        number => Ok(number),
    }
}

/// A number that is not below 0, refused where it is read.
fn not_negative<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(serde::de::Error::custom(format!(
            "{number} is no number from 0 on"
        )))
    }
}

/// Where programs come from.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Generator {
    /// `policy` (a language model) or `schedule` (the schedule space).
    pub kind: GeneratorKind,
    /// Folder of the model, in Hugging Face layout.
    pub model: PathBuf,
    /// Numbers the weights are held in while sampling: `float32`, `bfloat16` (half the memory), or `auto`: bfloat16 where the
    /// folder's weights are in it and the device computes in it. The learner has its own weights, in `learner.dtype`.
    pub dtype: Dtype,
    /// Softmax temperature.
    pub temperature: f32,
    /// Nucleus share; 1 keeps everything. Training needs 1: the learner recomputes log-probabilities without a cut.
    pub top_p: f32,
    /// Nucleus share in the evaluations before and after training. Training wants the far tail, where new programs are found;
    /// who uses the policy does not: of the tokens a small model takes once in a thousand, nearly all break the program.
    pub evaluation_top_p: f32,
    /// Most likely tokens to keep; 0 keeps all, which training needs.
    pub top_k: u32,
    /// New tokens at most.
    pub max_tokens: u32,
    /// `compact` prompts for the starter, `full` for chat models.
    pub prompt: Prompt,
    /// Strings that end an answer, which holds them then; programs are read without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// An answer ends once a passage of it stands so many times in a row: a model that goes round in circles writes no program. Below 2 never.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeats: u32,
    /// Answers that are written side by side at most. Default: 256.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_from_one"
    )]
    pub rows: Option<u32>,
    /// MiB of keys and values of all answers that are written side by side, at most; those that do not fit wait. Default: 1024, on a GPU 8192.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some_from_one"
    )]
    pub cache_mib: Option<u32>,
    /// Samples of each training group that leave the policy's way once: a numeral, chosen by lot, is exchanged for another one,
    /// and the policy goes on from there. Tile sizes, vector widths and unroll factors that a policy was never shown
    /// together are found so. At least two samples of a group are none. They are not trained on as samples of the group; where one is the best answer to its prompt,
    /// `advantage.self_imitation` takes it up.
    pub explorers: u32,
    /// Steps that sampling may be ahead of the learner. 0: a step's tasks wait for the policy that the step before left, so a run on recorded
    /// outcomes repeats bit by bit. From 1 on (asynchronous) they are answered with the newest policy there is, at most so many versions
    /// before: sampling goes on while the learner steps, and on other nodes evaluation. In one process each of the two has half of the cores then. See
    /// `learner.correction` and `advantage.max_staleness`.
    pub steps_ahead: u32,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            kind: GeneratorKind::Policy,
            model: "models/starter".into(),
            dtype: Dtype::Float32,
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
            explorers: 0,
            steps_ahead: 0,
        }
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
}

/// Numbers that weights are held in.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dtype {
    /// Single precision.
    Float32,
    /// Half of it, with the same range.
    Bfloat16,
    /// The latter where the folder's weights are in it and the device computes in it.
    Auto,
}

/// The prompt's style.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// One line.
    Compact,
    /// The whole task in words.
    Full,
}

/// How rewards become advantages.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Advantage {
    /// Mean and deviation, leave-one-out, or measurement-aware.
    pub kind: flopsmith_reward::AdvantageKind,
    /// What rewards are divided by.
    pub scale: flopsmith_reward::Scale,
    /// Fitness sharing: m samples of a step that answer the same prompt with the same program keep m^-sharing of
    /// their reward each; 0 shares nothing, 1 divides it.
    pub sharing: f64,
    /// Added to the advantage of every verified sample; 0 adds nothing. Advantages of a group add up to 0, so what right
    /// and wrong answers have in common is never reinforced, and a policy that slips at one token of a thousand
    /// keeps slipping. Our own variant, after the likelihood term on right answers of VAPO (Yue et al., 2025), which makes the policy
    /// sure of what it does right. What differs: theirs is a loss beside the policy's, the mean over the tokens of right answers with a weight
    /// of its own, and nothing clips it; here it is a constant within the advantage, so that ratio, clipping and reduction of the
    /// policy's own loss hold for it too. As long as the ratio is 1 it has the gradient of a likelihood term.
    pub imitation: f64,
    /// Self-imitation, our own variant, after Oh et al. (2018); [`crate::best_answers`] lists what differs. As long as a step's answers to a
    /// prompt fall short of the best one so far, that one takes part with this many times the advantage it would have among them;
    /// 0 leaves it out. Without it a much faster program that is met once in thousands of samples is soon forgotten.
    pub self_imitation: f64,
    /// Whether answers that were cut off at `generator.max_tokens` are trained on. They count in their groups either way.
    pub overlong: Overlong,
    /// Whether groups whose rewards are all equal are part of the batch.
    pub flat_groups: FlatGroups,
    /// Dynamic sampling (Yu et al., 2025): in the place of training groups whose rewards are all equal others are drawn, to other prompts of
    /// the same step, so many times at most; and those that are flat even then are left out, whatever `flat_groups` says. 0 draws none.
    /// Each round waits for the one before: a step takes as much longer.
    pub dynamic_sampling: u32,
    /// Answers of a policy more than so many versions before the one that is trained teach nothing; 0 is no limit.
    pub max_staleness: u32,
}

/// What becomes of answers that were cut off.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// They are trained on like any other.
    #[default]
    Train,
    /// They teach nothing: that a program is not yet finished is no fault of what is there of it (overlong filtering of Yu et al., 2025).
    LeaveOut,
}

/// What becomes of groups whose rewards are all equal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlatGroups {
    /// They count like any other: their answers have no advantage but what `imitation` adds, and are in the loss's mean.
    #[default]
    Train,
    /// They are no part of the batch, as after dynamic sampling (Yu et al., 2025), only that no others are drawn in their place: how many
    /// answers teach something then decides neither the size of a step nor, with `scale = "batch"`, what rewards are divided by.
    LeaveOut,
}

impl Advantage {
    /// Are groups whose rewards are all equal no part of the batch?
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

/// The learner's settings; the same names as in the learner's own configuration.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Default, JsonSchema)]
#[serde(transparent)]
pub struct Learner(pub toml_table::Table);

/// A free table that the learner reads itself, so that a build without libtorch can carry it.
pub mod toml_table {
    /// Keys and values.
    pub type Table = serde_json::Map<String, serde_json::Value>;
}

/// How candidates are evaluated.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Evaluate {
    /// Leave compiling, verifying and timing to the workers of a cluster (`flopsmith worker`): this process has no part in it then. Needs
    /// `nats` and `store`.
    pub workers: bool,
    /// C compiler: `gcc` or `clang`, or a path. Compilers of other languages are those of its family.
    pub compiler: String,
    /// Compiler flags of all programs instead of the problem's, e.g. `-O2 -march=native`; empty means the problem's. Functions
    /// and loops are aligned (`-falign-functions=64 -falign-loops=64`) unless the flags say otherwise.
    pub flags: String,
    /// Measure training samples to this standard.
    pub purpose: Standard,
    /// Measure a program once more to this standard before it counts as an elite. A `screen` that leaves more than 2 % of
    /// standard error is followed by a `rank`.
    pub again: Standard,
    /// Run untrusted programs even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// Build a program once more with sanitizers before it counts as an elite, and call it with a few small secret cases: with
    /// AddressSanitizer and UndefinedBehaviorSanitizer, and where it uses OpenMP and `threads` is above 1 with ThreadSanitizer.
    /// What reads behind its arrays, does what its language leaves undefined or races is refused, even where its results are
    /// right. A sanitizer that this machine lacks is left out, which `flopsmith doctor` says. What clang builds is looked at as gcc builds it.
    pub sanitize: bool,
    /// Wait where the machine is disturbed: the baseline takes 25 % longer than before in measurement after measurement, or
    /// the hypervisor takes more than a tenth of the timed cores. Timing goes on once the baseline, timed alone now and
    /// then, is as fast as before or steady on another level.
    pub quarantine: bool,
    /// How long a sitting waits for that in all, seconds. Then it times on all the same and says so in its log.
    #[serde(deserialize_with = "not_negative")]
    pub quarantine_limit_seconds: f64,
    /// So many of the fastest programs are certified when the run is over, at ten to thirty seconds each, and the best of them is
    /// what is reported. Some more than one: who was fastest by a short look may not be by a long one. 0: none.
    pub finalists: u32,
    /// The folder of a finished run whose outcomes stand for compiling, verifying and timing: `flopsmith replay` sets it. What the
    /// policy writes is sampled and trained as ever, and has to be what it wrote in that run.
    #[serde(skip_serializing_if = "is_nowhere")]
    pub recorded: PathBuf,
}

impl Evaluate {
    /// Is a recorded run repeated?
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
    /// Is it worth more time?
    Screen,
    /// Resolve the order within a group.
    Rank,
    /// A number to publish: with the code at five places, each built anew.
    Certify,
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
