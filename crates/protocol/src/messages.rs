//! The messages of a candidate's journey, from task to policy version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{
    CandidateId, Digest, GroupId, MachineClass, NodeId, PolicyVersion, ProblemId, RunId, TaskId,
};
use crate::language::Language;
use crate::outcome::VerifiedSizes;
use crate::question::{Request, Requests};
use crate::technique::TechniqueSet;

/// A large object in the artifact store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactRef {
    /// BLAKE3 digest of the content; every read checks it.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// The purpose of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The learner trains on it.
    Train,
    /// It measures the policy before training.
    EvaluateStart,
    /// It measures the policy after training.
    EvaluateEnd,
    /// It fills the archive of a search, without training.
    Search,
    /// It repeats the measurement of an earlier candidate before that one counts as an elite.
    Certify,
}

/// How the generator samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// Softmax temperature.
    pub temperature: f32,
    /// Nucleus share; 1 keeps all tokens.
    pub top_p: f32,
    /// Number of the most likely tokens to keep; 0 keeps all.
    pub top_k: u32,
    /// Largest number of new tokens.
    pub max_tokens: u32,
}

/// An elite that a prompt shows, or that an exploration sample mutates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EliteHint {
    /// Its cell.
    pub techniques: TechniqueSet,
    /// Its source.
    pub source: String,
    /// Its speed, 10⁹ floating-point operations a second.
    pub gflops: f64,
}

/// One prompt for one group of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Derived from run, step and its number in the step.
    pub id: TaskId,
    /// The run it belongs to.
    pub run: RunId,
    /// The training step that waits for it.
    pub step: u64,
    /// Number of tasks in this step.
    pub tasks_in_step: u32,
    /// The group its samples form.
    pub group: GroupId,
    /// Number of wanted samples.
    pub group_size: u32,
    /// Number of exploration samples among them, the last ones: the sampler mutates one number token of each.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub exploration_samples: u32,
    /// The elites that the first exploration samples mutate, one each. The others mutate an answer of the policy, as does
    /// a sample whose elite has no number or leaves its answer no room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<EliteHint>,
    /// The problem to solve.
    pub problem: ProblemId,
    /// The SQD stage it belongs to.
    pub stage: u32,
    /// The techniques it permits.
    pub permitted: TechniqueSet,
    /// A program to build on.
    pub elite: Option<EliteHint>,
    /// The purpose of the samples.
    pub purpose: Purpose,
    /// How to sample.
    pub sampling: Sampling,
    /// Seed of the group; sample `i` derives its own from it.
    pub seed: u64,
    /// The class of the machines that time it.
    pub machine_class: MachineClass,
    /// The oldest policy version that may answer; the generator waits for it.
    pub min_policy: PolicyVersion,
    /// The place in the log of outcomes up to which the step depends on them; 0 if it depends on none. A source that
    /// learns from outcomes reads those up to this place before it answers, and no later one, so the answer does not
    /// depend on the time.
    #[serde(default, skip_serializing_if = "is_nowhere")]
    pub outcomes_seen: u64,
    /// The conversation so far, oldest first. The prompt comes before it, and the answer to this task follows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Exchange>,
    /// The candidate of the last answer in `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<CandidateId>,
    /// The requests that its answers may make in place of writing a program; none if they may make none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// An earlier answer of a conversation, with the result that the source gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exchange {
    /// The program; empty if there is none.
    pub answer: String,
    /// The request of an answer that made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The result in words.
    pub result: String,
}

/// A task that depends on no outcome is encoded without the field.
fn is_nowhere(place: &u64) -> bool {
    *place == 0
}

/// Tasks without exploration samples are encoded without the field.
fn is_none_of_them(count: &u32) -> bool {
    *count == 0
}

impl Task {
    /// True if the sample of this number is an exploration sample. They are the last ones of a group.
    pub fn explores(&self, sample: u32) -> bool {
        let first = self.group_size.saturating_sub(self.exploration_samples);
        (first..self.group_size).contains(&sample)
    }

    /// The elite that the sample of this number mutates, if any.
    pub fn parent(&self, sample: u32) -> Option<&EliteHint> {
        let first = self.group_size.saturating_sub(self.exploration_samples);
        let nth = sample
            .checked_sub(first)
            .filter(|_| self.explores(sample))?;
        self.parents.get(nth as usize)
    }

    /// The candidate that is its sample of this number. `policy` is the version that wrote it; none for other generators.
    pub fn candidate(&self, sample: u32, policy: Option<PolicyVersion>) -> CandidateRef {
        CandidateRef {
            id: CandidateId::of(&self.id, sample),
            run: self.run.clone(),
            task: self.id.clone(),
            step: self.step,
            tasks_in_step: self.tasks_in_step,
            group: self.group.clone(),
            group_size: self.group_size,
            sample,
            problem: self.problem.clone(),
            stage: self.stage,
            permitted: self.permitted,
            purpose: self.purpose,
            policy,
            remeasures: None,
            machine_class: self.machine_class.clone(),
            exploration: self.explores(sample),
            finalist: false,
            follows: self.follows.clone(),
            language: None,
        }
    }
}

/// The data of a candidate that all later stages need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateRef {
    /// Derived from task and sample number.
    pub id: CandidateId,
    /// The run.
    pub run: RunId,
    /// The task it answers.
    pub task: TaskId,
    /// The training step.
    pub step: u64,
    /// Number of tasks in its step.
    pub tasks_in_step: u32,
    /// Its group.
    pub group: GroupId,
    /// Number of samples in its group.
    pub group_size: u32,
    /// Its number in the group.
    pub sample: u32,
    /// The problem.
    pub problem: ProblemId,
    /// The stage its task belongs to.
    pub stage: u32,
    /// The techniques that its task permitted.
    pub permitted: TechniqueSet,
    /// Its purpose.
    pub purpose: Purpose,
    /// The policy version that wrote it; none for other generators.
    pub policy: Option<PolicyVersion>,
    /// For [`Purpose::Certify`]: the candidate that this one measures again.
    pub remeasures: Option<CandidateId>,
    /// The class of the machines that time it.
    pub machine_class: MachineClass,
    /// True for an exploration sample: the sampler changed its answer on purpose, so it says little about the policy.
    /// It may enter the archive, and counts in no rate, group or stage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exploration: bool,
    /// True for a measurement after the end of its run, for a published number. It is always certified, also if the
    /// run's settings choose another standard for second measurements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finalist: bool,
    /// The candidate that it was made of: the previous one in its conversation, or a program that it varies; else none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<CandidateId>,
    /// The language of its program, if that is not the problem's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
}

/// A program to compile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Identifies the candidate.
    pub candidate: CandidateRef,
    /// The source, as extracted from the answer.
    pub source: String,
    /// The answer itself, if it contains no program: people see nothing else of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<RawAnswer>,
}

/// The kept part of an answer that contains no program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RawAnswer {
    /// Its beginning and, if it is longer than [`RawAnswer::KEPT`], its end; empty if others of its step are kept
    /// instead.
    pub text: String,
    /// Bytes of the whole answer.
    pub bytes: u64,
    /// False if the length limit cut it off.
    pub finished: bool,
}

impl RawAnswer {
    /// Approximate number of kept bytes of an answer: a hostile answer must not fill a disk.
    pub const KEPT: usize = 2000;
    /// Number of these bytes at the end of the answer, where a code fence or a cut-off program stands.
    const END: usize = 500;

    /// The kept part of an answer.
    pub fn of(answer: &str, finished: bool) -> Self {
        let text = if answer.len() <= Self::KEPT {
            answer.to_owned()
        } else {
            let head = answer.floor_char_boundary(Self::KEPT - Self::END);
            let tail = answer.ceil_char_boundary(answer.len() - Self::END);
            let (head, left_out, tail) = (&answer[..head], tail - head, &answer[tail..]);
            format!("{head}\n[{left_out} bytes left out]\n{tail}")
        };
        Self {
            text,
            bytes: answer.len() as u64,
            finished,
        }
    }

    /// Without its text.
    #[must_use]
    pub fn without_text(self) -> Self {
        Self {
            text: String::new(),
            ..self
        }
    }
}

/// The part of a sample that the learner needs beside the outcome: exactly the sampled tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rollout {
    /// Identifies the candidate.
    pub candidate: CandidateRef,
    /// Digest of the source that was extracted from these tokens, or of the line of their request. The sample's outcome has the
    /// same [`Outcome::answer_digest`](crate::Outcome::answer_digest).
    pub source: Digest,
    /// Prompt token ids.
    pub prompt_tokens: Vec<u32>,
    /// Sampled token ids, with the end token if it was sampled.
    pub tokens: Vec<u32>,
    /// Log-probability of each sampled token under the sampling distribution; same length as `tokens`.
    pub logprobs: Vec<f32>,
    /// True if the sample ended with its end token, false if it hit the length limit.
    pub finished: bool,
}

/// A compiled program, ready to be verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compiled {
    /// Identifies the candidate.
    pub candidate: CandidateRef,
    /// The source.
    pub source: String,
    /// The shared object.
    pub object: ArtifactRef,
    /// Techniques detected in source and object.
    pub techniques: TechniqueSet,
    /// Width of the widest vector register in the object, bits; none if it uses none or its code cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_bits: Option<u32>,
    /// Digest of compiler, version and flags.
    pub toolchain: Digest,
    /// The key under which its outcome may be reused for equal programs of the run; none if it may not be reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Digest>,
    /// Seconds spent compiling.
    pub compile_seconds: f32,
}

/// A verified program, ready to be timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// The program.
    pub compiled: Compiled,
    /// Largest error seen as a share of the bound (≤ 1).
    pub worst_error_share: f64,
    /// Number of checked sizes and distributions.
    pub cases: u32,
    /// The sizes of its verification, if that was a full one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<VerifiedSizes>,
    /// Seconds spent verifying.
    pub verify_seconds: f32,
    /// The node that verified it.
    pub node: NodeId,
}

/// New weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPublished {
    /// The run.
    pub run: RunId,
    /// The version of these weights.
    pub version: PolicyVersion,
    /// The step that published them.
    pub step: u64,
    /// The weights as safetensors.
    pub weights: ArtifactRef,
    /// Metrics of the step that made them; none for a run's initial weights.
    pub metrics: Option<StepMetrics>,
}

/// The learner's metrics of one step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StepMetrics {
    /// The minimised loss, mean over minibatches.
    pub loss: f64,
    /// Mean reward of the counted samples.
    pub mean_reward: f64,
    /// Estimated KL divergence from the sampling policy (k3), nats per token.
    pub kl: f64,
    /// Mean entropy of the sampling distribution, nats per token.
    pub entropy: f64,
    /// Share of tokens whose ratio was clipped.
    pub clip_share: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Share of groups whose rewards were all equal.
    pub flat_groups: f64,
    /// Samples trained on.
    pub samples: u32,
    /// Number of samples that left their groups because of infrastructure failures.
    pub dropped: u32,
    /// Completion tokens trained on.
    pub tokens: u64,
    /// Seconds of the step.
    pub seconds: f64,
    /// Number of updates that were skipped since the gradient was not finite.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_updates: u32,
    /// The batch of a skipped update, kept for study; none if no update was skipped, or if earlier steps already kept
    /// too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped_batch: Option<ArtifactRef>,
    /// Share of the run's budget that was spent at the training of the step, 0 to 1. A repetition of the step needs it,
    /// since step sizes may depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Number of groups that were drawn in place of others with equal rewards (dynamic sampling).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resampled_groups: u32,
    /// Number of versions between the oldest policy of the samples and the trained one. Above 0 only if sampling
    /// continues while the learner steps.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub staleness: u32,
    /// Number of samples that counted in their groups without training: the settings exclude answers of too old a
    /// policy, or cut-off ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filtered: u32,
    /// Mean of |ln ratio| to the policy that drew the samples, before any weight changed. It is the difference of the
    /// arithmetic of sampler and learner, plus the training in between if samples are of earlier versions. None if the
    /// step trained nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler_gap: Option<f64>,
    /// Number of different samples that were excluded because their distance from the policy at the start of the step
    /// was above `learner.max_gap`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u32,
    /// The part that only PPO has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ppo: Option<PpoMetrics>,
    /// Step size of the last update; none if the step trained nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
}

/// The part of a step's metrics that only PPO has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PpoMetrics {
    /// Mean divergence of the answers from the policy at the start of the training, nats per answer.
    pub divergence: f64,
    /// Weight of the divergence in the answers' rewards.
    pub divergence_weight: f64,
    /// The value loss, times its weight, mean over updates.
    pub value_loss: f64,
    /// Share of the returns' variance that the values explained before the step; 1 for perfect predictions.
    pub explained: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The facts of a timing node's machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineFacts {
    /// The run that asked for them.
    pub run: RunId,
    /// The node.
    pub node: NodeId,
    /// Its class.
    pub machine_class: MachineClass,
    /// The problem for which it was measured, in a run over many: peak and reference are of this problem's elements. None
    /// in a run with one problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemId>,
    /// Measured floating-point peak at the run's thread count, 10⁹ operations a second.
    pub peak_gflops: f64,
    /// Speed of the plain reference at the timed size, 10⁹ operations a second.
    pub reference_gflops: f64,
    /// The same speed at each of several workloads of a module, which its definition does not tell; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_gflops_of_each: Vec<f64>,
    /// Speed of the best OpenBLAS core type, if OpenBLAS is installed.
    pub openblas_gflops: Option<f64>,
    /// That core type.
    pub openblas_core: Option<String>,
    /// The version of OpenBLAS, if it says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openblas_version: Option<String>,
    /// Digest of the attestation.
    pub attestation: Digest,
    /// The attestation as JSON.
    pub attestation_json: String,
}

/// A problem moved to another stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageChanged {
    /// The run.
    pub run: RunId,
    /// The problem.
    pub problem: ProblemId,
    /// The step after which it happened.
    pub step: u64,
    /// Stage before.
    pub from: u32,
    /// Stage after.
    pub to: u32,
    /// The rule's words.
    pub reason: String,
}
