//! The policy of a training behind an endpoint: a server that takes each version as an adapter and says which tokens it drew.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use flopsmith_endpoint::{Client, Draw, Error as Refusal, Prompt, Reason};
use flopsmith_policy::{Config, Tokenizer};
use flopsmith_problem::Problem;
use flopsmith_protocol::{
    ArtifactRef, CandidateId, Outcome, PolicyVersion, RunId, Sampling, Task, Verdict,
};

use super::draws::Draws;
use super::endpoint::client;
use super::reading::{Asked, Reading, failed, seed_of};
use super::silence::Silence;
use crate::answer::{Answers, Source, problem_of};
use crate::error::Error;
use crate::node::Context;
use crate::role::recorder::{Keep, files};
use crate::supervisor::words;

mod taking;

use taking::{OpenTask, Taking};

/// The text by which a run finds out whether the server reads texts as the run's tokenizer does: words, numbers, blanks, and
/// characters of several bytes.
const PROBE: &str =
    "for (int i = 0; i < 1024; i += 8) {\n\tC[i] += 0.5 * a; // für ∑ \u{1f600}\n}\n";

const TO_LOAD: &str = "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and a --max-lora-rank of at least the adapter's rank, or `flopsmith model serve` with --adapter-folder; the server must see the folder (`generator.endpoint.adapter_folder`, `generator.endpoint.adapter_path_there`)";

/// The weights that the server has for a version.
#[derive(Debug, Clone)]
struct Loaded {
    version: PolicyVersion,
    /// The name by which requests choose them.
    name: String,
    /// Their folder, as the server sees it.
    path: String,
}

/// Asks a server for samples that are trained on.
///
/// A new version is written as an adapter, which the server loads under a name that stands for this version's weights
/// alone. So each sample is known to be by the version that was asked for. Prompts are sent as token ids, and tokens and
/// log-probabilities are those that the server drew.
pub struct EndpointPolicySource {
    client: Client,
    /// Address and model, for messages.
    name: String,
    context: Arc<Context>,
    reading: Reading,
    /// Number of the model's tokens.
    vocabulary: i64,
    /// Writes the weights of a version as an adapter's folder.
    write: Keep,
    /// The folder of the adapters, and its path as the server sees it.
    folder: PathBuf,
    there: String,
    loaded: Option<Loaded>,
    draws: Draws,
    /// Samples that count as missing since an earlier session.
    missing: HashSet<CandidateId>,
    silence: Silence,
}

impl EndpointPolicySource {
    /// A source of the run's endpoint, which serves the model of this shape. `write` writes the weights of a version into a
    /// folder that may exist.
    ///
    /// # Errors
    /// The settings name no endpoint, its URL or key cannot be used, or files of the run's folder fail.
    pub fn open(
        context: &Arc<Context>,
        config: &Config,
        tokenizer: Tokenizer,
        write: Keep,
    ) -> Result<Self, Error> {
        let (client, name) = client(context)?;
        let generator = &context.settings.generator;
        let endpoint = generator.endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| Error::Settings("no endpoint is named".into()))?;
        let own = context.folder.join(files::ADAPTERS);
        let folder = endpoint.adapter_folder.clone().unwrap_or(own);
        let folder = std::path::absolute(&folder).map_err(|source| Error::File {
            path: folder.clone(),
            source,
        })?;
        let there = endpoint.adapter_path_there.clone();
        let there = there.unwrap_or_else(|| folder.display().to_string());
        let reach = u64::from(generator.steps_ahead) + 1;
        let reading = Reading::new(
            Arc::new(tokenizer),
            config.max_position_embeddings,
            generator,
        )
        .conversing(&context.settings.turns);
        Ok(Self {
            client,
            name,
            context: Arc::clone(context),
            reading,
            vocabulary: config.vocab_size,
            write,
            folder,
            there,
            loaded: None,
            draws: Draws::open(context.folder.join(files::DRAWS), reach)?,
            missing: HashSet::new(),
            silence: Silence::default(),
        })
    }

    /// Asks for one token after a known text, to find out whether the server's samples can be trained on.
    async fn probe(&self) -> Result<(), Error> {
        let generator = &self.context.settings.generator;
        let endpoint = generator.endpoint.as_deref();
        let draw = Draw {
            problem: "probe".to_owned(),
            number: 0,
            model: endpoint.map(|e| e.model.clone()).unwrap_or_default(),
            prompt: Prompt::Text(PROBE.to_owned()),
            sampling: Sampling {
                temperature: generator.temperature,
                top_p: 1.0,
                top_k: 0,
                max_tokens: 1,
            },
            stop: Vec::new(),
            seed: 0,
        };
        let drawn = match self.client.draw(&draw).await {
            Ok(drawn) => drawn,
            // The run may end with what it has.
            Err(Refusal::Budget(_)) => {
                self.context.note_asked(|asked| asked.exhausted = true);
                return Ok(());
            }
            Err(error) => {
                let why = format!("{} cannot be trained through: {}", self.name, words(&error));
                let passes = error.reason().is_none_or(Reason::is_passing);
                return Err(match passes && !matches!(error, Refusal::Untrainable(_)) {
                    true => Error::Generator(why),
                    false => Error::Hopeless(why),
                });
            }
        };
        let own = self
            .reading
            .tokenizer
            .encode_prompt(PROBE)
            .map_err(failed)?;
        match drawn.prompt {
            Some(theirs) if theirs == own => Ok(()),
            Some(theirs) => Err(Error::Hopeless(format!(
                "{} reads texts with another tokenizer than that in {}: {}; serve the same model that `generator.model` names, with its tokenizer",
                self.name,
                generator.model.display(),
                difference(&own, &theirs)
            ))),
            None => Err(Error::Hopeless(format!(
                "{} does not say the token ids of prompts (`prompt_token_ids`), so its tokenizer cannot be compared with the run's; use a server that knows `return_token_ids`",
                self.name
            ))),
        }
    }

    /// Makes the server forget the versions before the last one, and removes their folders. A failure costs memory of the
    /// server and no result.
    async fn tidy(&self, version: PolicyVersion) {
        let is_old = |name: &str| {
            let of = version_of(&self.context.run, name);
            of.is_some_and(|of| of + 2 <= version.0)
        };
        let unloaded = async {
            for name in self.client.models().await? {
                if is_old(&name) {
                    self.client.unload_adapter(&name).await?;
                }
            }
            Ok::<_, Refusal>(())
        };
        if let Err(error) = unloaded.await {
            let why = words(&error);
            tracing::warn!(why, "the endpoint keeps adapters of earlier versions");
        }
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            let folder = entry.path();
            if is_old(&entry.file_name().to_string_lossy())
                && let Err(error) = std::fs::remove_dir_all(&folder)
            {
                tracing::warn!(%error, folder = %folder.display(), "an old adapter stays");
            }
        }
    }
}

/// Makes the server load the weights of a version.
async fn load(
    client: &Client,
    context: &Context,
    server: &str,
    adapter: &Loaded,
) -> Result<(), Error> {
    let Loaded {
        version,
        name,
        path,
    } = adapter;
    if let Err(error) = client.load_adapter(name, path).await {
        let why = format!(
            "{server} did not load the adapter of policy version {} from {path}: {}; {TO_LOAD}",
            version.0,
            words(&error)
        );
        context.note_asked(|asked| asked.trouble.clone_from(&why));
        return Err(Error::Generator(why));
    }
    tracing::info!(name, "the endpoint has loaded an adapter");
    context.note_asked(|asked| asked.trouble.clear());
    Ok(())
}

/// The name of a version's adapter. It has a part of the weights' digest, because a run that went back to an earlier state
/// may have other weights of the same version.
fn name_of(run: &RunId, version: PolicyVersion, weights: &ArtifactRef) -> String {
    let digest = weights.digest.as_str();
    let digest = digest.get(..8).unwrap_or(digest);
    format!("{run}-{version}-{digest}")
}

/// The version that a name of [`name_of`] stands for; none for any other name.
fn version_of(run: &RunId, name: &str) -> Option<u64> {
    let rest = name.strip_prefix(run.as_str())?.strip_prefix("-v")?;
    let (version, digest) = rest.split_once('-')?;
    let is_digest = digest.len() == 8 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    version.parse().ok().filter(|_| is_digest)
}

/// Where two readings of a text part.
fn difference(own: &[u32], theirs: &[u32]) -> String {
    let at = own.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let show = |ids: &[u32]| match ids.get(at) {
        Some(id) => format!("token {id}"),
        None => "the end".to_owned(),
    };
    format!(
        "at place {at} of a probe the run has {} and the server {}",
        show(own),
        show(theirs)
    )
}

#[async_trait]
impl Source for EndpointPolicySource {
    fn version(&self) -> Option<PolicyVersion> {
        self.loaded.as_ref().map(|loaded| loaded.version)
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.probe().await
    }

    fn computes(&self) -> bool {
        false
    }

    fn decided_before(&mut self, outcome: &Outcome) {
        if matches!(outcome.verdict, Verdict::Infrastructure { .. }) {
            self.missing.insert(outcome.candidate.id.clone());
        }
    }

    async fn update(&mut self, version: PolicyVersion, weights: &ArtifactRef) -> Result<(), Error> {
        let bytes = self.context.host.store.get(weights).await?;
        let name = name_of(&self.context.run, version, weights);
        let folder = self.folder.join(&name);
        let (write, target) = (Arc::clone(&self.write), folder.clone());
        let written = tokio::task::spawn_blocking(move || write(&target, &bytes)).await;
        written
            .map_err(|_| Error::Thread("generator"))?
            .map_err(|source| Error::File {
                path: folder,
                source,
            })?;
        let path = format!("{}/{name}", self.there.trim_end_matches('/'));
        let adapter = Loaded {
            version,
            name,
            path,
        };
        load(&self.client, &self.context, &self.name, &adapter).await?;
        self.loaded = Some(adapter);
        self.tidy(version).await;
        Ok(())
    }

    async fn answer_each(
        &mut self,
        problems: &[&Problem],
        tasks: &[Task],
        answers: &Answers,
    ) -> Result<(), Error> {
        let Some(adapter) = self.loaded.clone() else {
            return Err(Error::Generator(
                "the learner has published no policy version yet".into(),
            ));
        };
        let version = adapter.version;
        if let Some(step) = tasks.iter().map(|task| task.step).max() {
            self.draws.advance(step)?;
        }
        let stop = self.context.settings.generator.stop.clone();
        let mut asks = Vec::new();
        let mut open: HashMap<String, OpenTask> = HashMap::new();
        for (at, task) in tasks.iter().enumerate() {
            // The bus may give out a task again while it is held. Its answers are those of the first one.
            if open.contains_key(task.id.as_str()) {
                continue;
            }
            let problem = problem_of(problems, task)?;
            let Asked {
                ids,
                sampling,
                form,
            } = self.reading.prompt(problem, task)?;
            let of_task = OpenTask {
                task: at,
                form,
                prompt: ids,
            };
            for sample in 0..task.group_size {
                if let Some(kept) = self.draws.get(&task.id, sample, version) {
                    let answer = of_task.answer(&self.reading, kept)?;
                    answers.take(at, sample, Ok(answer));
                    continue;
                }
                if self.missing.contains(&CandidateId::of(&task.id, sample)) {
                    continue;
                }
                asks.push(Draw {
                    problem: task.id.to_string(),
                    number: sample,
                    model: adapter.name.clone(),
                    prompt: Prompt::Ids(of_task.prompt.clone()),
                    sampling: sampling.clone(),
                    stop: stop.clone(),
                    seed: seed_of(task, sample),
                });
            }
            open.insert(task.id.to_string(), of_task);
        }
        let mut taking = Taking {
            tasks,
            version,
            open,
            reading: &self.reading,
            vocabulary: self.vocabulary,
            draws: &mut self.draws,
            context: &self.context,
            answers,
            refused: Some(Vec::new()),
            is_answered: false,
            unanswered: None,
            failed: None,
        };
        self.client
            .draw_all(asks, |draw, drawn| taking.take(draw, drawn))
            .await;
        // A server that was started again has forgotten its adapters.
        let refused = taking.refused.take().unwrap_or_default();
        if taking.failed.is_none() && !refused.is_empty() {
            load(&self.client, &self.context, &self.name, &adapter).await?;
            self.client
                .draw_all(refused, |draw, drawn| taking.take(draw, drawn))
                .await;
        }
        let Taking {
            is_answered,
            unanswered,
            failed,
            ..
        } = taking;
        if let Some(error) = failed {
            return Err(error);
        }
        let is_exhausted = self.context.asked().exhausted;
        self.silence
            .count(&self.name, is_answered, unanswered.as_deref(), is_exhausted)
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_protocol::Digest;

    use super::*;

    #[test]
    fn the_name_of_an_adapter_stands_for_the_weights_of_one_version_of_one_run() {
        let run = RunId::new("dgemm-v2-a").expect("a name");
        let weights = |bytes: &[u8]| ArtifactRef {
            digest: Digest::of(bytes),
            size: 1,
        };
        let [one, other] = [b"one", b"two"].map(|bytes| weights(bytes));
        let name = name_of(&run, PolicyVersion(12), &one);
        assert!(name.starts_with("dgemm-v2-a-v12-"), "{name}");
        assert_ne!(name, name_of(&run, PolicyVersion(12), &other));
        assert_eq!(version_of(&run, &name), Some(12));
        for foreign in [
            "m",
            "dgemm-v2-a-v12",
            "dgemm-v2-a-v12-tuned",
            "dgemm-v2-v12-01234567",
            "dgemm-v2-a-vx-01234567",
            "dgemm-v2-a-b-v12-01234567",
        ] {
            assert_eq!(version_of(&run, foreign), None, "{foreign}");
        }
    }

    #[test]
    fn the_first_difference_of_two_tokenizers_is_shown() {
        let words = difference(&[1, 2, 3], &[1, 9]);
        assert!(
            words.contains("place 1") && words.contains("token 2") && words.contains("token 9"),
            "{words}"
        );
        assert!(difference(&[1], &[1, 4]).contains("the end and the server token 4"));
    }
}
