//! Makes the roles of a run: once when the run starts, and again whenever a role has failed.

use std::path::Path;
use std::sync::{Arc, Mutex};
#[cfg(feature = "torch")]
use std::time::{Duration, Instant};

use anyhow::Result;
use flopsmith_actors::answer::Source;
use flopsmith_actors::evaluation;
use flopsmith_actors::node::Context;
use flopsmith_actors::recorded::Recorded;
use flopsmith_actors::registry::RunRegistry;
use flopsmith_actors::role::Role;
use flopsmith_actors::role::archive::Archive;
use flopsmith_actors::role::compiler::Compiler;
use flopsmith_actors::role::follower::Follower;
use flopsmith_actors::role::generator::Generator;
use flopsmith_actors::role::recorded_evaluator::RecordedEvaluator;
use flopsmith_actors::role::recorder::{Detokenize, Keep, Progress, Recorder};
use flopsmith_actors::role::timer::{self, Timer};
use flopsmith_actors::role::verifier::Verifier;
use flopsmith_actors::source::agent::AgentSource;
use flopsmith_actors::source::conversation::{ConversingSource, Explain, Explainer, Stages};
use flopsmith_actors::source::schedule::{ScheduleSource, Searching};
use flopsmith_actors::source::variants::Variants;
use flopsmith_actors::supervisor::{Factory, Spec};
use flopsmith_config::Job;
use flopsmith_config::{GeneratorKind, Hosted};
use flopsmith_evaluate::{Evaluator, Pipeline};
use flopsmith_problem::Problem;
use flopsmith_protocol::{Failure, InfrastructureCause, ProblemId};
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::worker::benches::Benches;
use crate::worker::{self, Duty};
use crate::{evaluator, export};

/// The specification of a role that `make` makes.
pub fn spec<R: Role>(
    name: &'static str,
    make: impl Fn() -> BoxFuture<'static, Result<R, flopsmith_actors::Error>> + Send + Sync + 'static,
) -> Spec {
    let factory: Factory = Arc::new(move || {
        let made = make();
        Box::pin(async move { Ok(Box::new(made.await?) as Box<dyn Role>) })
    });
    Spec { name, factory }
}

/// Messages of a run's archive to this process; if the archive is on another node, the follower sends them.
#[derive(Clone)]
pub struct Told {
    /// The run is over.
    pub finished: CancellationToken,
    /// The run was ended before its planned end.
    pub ended: CancellationToken,
    /// Seconds that the run has taken.
    pub elapsed: watch::Sender<f64>,
}

/// The place where programs are evaluated.
pub(super) enum Evaluation<'a> {
    /// By roles of this process.
    Here(&'a Evaluator, Box<flopsmith_measure::Timer>),
    /// By roles of this process with a bench for each problem, as on a worker.
    Benches(Arc<Benches>),
    /// By the workers of a cluster.
    Workers,
    /// Nowhere: the outcomes are recorded.
    Recorded(Arc<Recorded>),
}

/// The roles of a job on this machine. The roles that evaluate programs are included unless the evaluation is by
/// `Workers`; once-per-run roles are included unless the settings leave them to nodes of the cluster. `before` are the
/// seconds that the run has taken in earlier sessions.
pub(super) fn specs(
    job: Job,
    context: &Arc<Context>,
    evaluation: Evaluation<'_>,
    progress: watch::Sender<Progress>,
    told: &Told,
    before: f64,
) -> Result<Vec<Spec>> {
    let mut specs = Vec::new();
    let c = Arc::clone(context);
    specs.push(spec("recorder", move || {
        let (c, progress) = (Arc::clone(&c), progress.clone());
        let origin = c.settings.generator.model.clone();
        let keep: Keep =
            Arc::new(move |target: &Path, weights: &[u8]| export::kept(&origin, target, weights));
        Box::pin(async move {
            let detokenize = detokenize(job, &c).await;
            let recorder = Recorder::new(c, progress).keeping(keep);
            Ok(recorder.detokenizing(detokenize))
        })
    }));
    let mut explainer: Option<Arc<dyn Explain>> = None;
    match evaluation {
        Evaluation::Here(evaluator, timer) => {
            let kept = Pipeline::Kernel(Box::new(evaluator.clone()));
            explainer = Some(Arc::new(Explainer {
                stages: Box::new(move |_: &Arc<Problem>| Ok(kept.clone())),
                threads: context.settings.threads,
            }));
            specs.extend(evaluating(context, evaluator, *timer)?);
        }
        Evaluation::Recorded(recorded) => {
            let c = Arc::clone(context);
            specs.push(spec("recorded-evaluator", move || {
                let (c, recorded) = (Arc::clone(&c), Arc::clone(&recorded));
                Box::pin(async move { Ok(RecordedEvaluator::new(c, recorded)) })
            }));
        }
        Evaluation::Benches(benches) => {
            explainer = Some(Arc::new(Explainer {
                stages: opened_anew(context),
                threads: context.settings.threads,
            }));
            let duties = [Duty::Compiler, Duty::Verifier, Duty::Timer];
            specs.extend(worker::specs(&duties, &context.host, &benches));
        }
        Evaluation::Workers => {}
    }
    for role in job.roles(context.settings.generator.kind) {
        if !context.settings.is_hosted(role) {
            specs.push(single(role, job, context, told, explainer.clone())?);
        } else if role == Hosted::Archive {
            specs.push(follower(context, told, before));
        }
    }
    Ok(specs)
}

/// The stages of a problem, opened for each answer to a question and closed after it: there are few questions, and nothing of
/// their programs gets into the stages that judge programs.
fn opened_anew(context: &Context) -> Stages {
    let settings = context.settings.clone();
    Box::new(move |problem: &Arc<Problem>| {
        let weaker = settings.evaluate.allow_weaker_jail;
        let progress = |text: &str| tracing::info!("{text}");
        let opened = evaluator::pipeline(Arc::clone(problem), &settings, weaker, progress);
        opened.map_err(|error| {
            Failure::infrastructure(InfrastructureCause::Harness, format!("{error:#}"))
        })
    })
}

/// A once-per-run role. A generator that holds conversations about programs tells what `explainer` says of them.
pub fn single(
    role: Hosted,
    job: Job,
    context: &Arc<Context>,
    told: &Told,
    explainer: Option<Arc<dyn Explain>>,
) -> Result<Spec> {
    let c = Arc::clone(context);
    Ok(match role {
        Hosted::Archive => {
            let told = told.clone();
            spec("archive", move || {
                let (c, told) = (Arc::clone(&c), told.clone());
                Box::pin(
                    async move { Ok(Archive::new(c, job, told.finished).telling(told.elapsed)) },
                )
            })
        }
        Hosted::Generator => {
            let kind = context.settings.generator.kind;
            let policy = kind.name();
            spec("generator", move || {
                let (c, explainer) = (Arc::clone(&c), explainer.clone());
                Box::pin(async move {
                    let source = source(kind, job, &c, explainer).await?;
                    Ok(Generator::new(c, source, policy))
                })
            })
        }
        Hosted::Learner => learner(context)?,
    })
}

/// A role that learns the end of a run whose archive is on another node.
pub fn follower(context: &Arc<Context>, told: &Told, before: f64) -> Spec {
    let (c, told) = (Arc::clone(context), told.clone());
    spec("follower", move || {
        let (c, told) = (Arc::clone(&c), told.clone());
        Box::pin(async move {
            let registry = RunRegistry::open(&c.host.bus).await?;
            let Told {
                finished,
                ended,
                elapsed,
            } = told;
            Ok(Follower::new(c, registry, finished, ended, elapsed, before))
        })
    })
}

/// The roles that evaluate programs.
fn evaluating(
    context: &Arc<Context>,
    evaluator: &Evaluator,
    timer: flopsmith_measure::Timer,
) -> Result<Vec<Spec>> {
    let mut specs = Vec::new();
    let (c, stage) = (Arc::clone(context), Arc::clone(&evaluator.compiler));
    specs.push(spec("compiler", move || {
        let (c, stage) = (Arc::clone(&c), Arc::clone(&stage));
        Box::pin(async move { Ok(Compiler::new(c, stage)) })
    }));
    let e = Pipeline::Kernel(Box::new(evaluator.clone()));
    let c = Arc::clone(context);
    specs.push(spec("verifier", move || {
        let (c, e) = (Arc::clone(&c), e.clone());
        Box::pin(async move {
            let slots = c.host.cores.total();
            let stage_context =
                tokio::task::spawn_blocking(move || evaluation::verifier(&c, &e, slots))
                    .await
                    .map_err(|_| flopsmith_actors::Error::Thread("verifier"))??;
            Ok(Verifier::new(stage_context))
        })
    }));
    let (c, timer) = (Arc::clone(context), Arc::new(Mutex::new(timer)));
    let layouts = evaluation::layouts(evaluator, context.settings.threads)?;
    specs.push(spec("timer", move || {
        let (c, timer, layouts) = (Arc::clone(&c), Arc::clone(&timer), Arc::clone(&layouts));
        Box::pin(async move {
            let stage_context = timer::StageContext::new(c, timer).with_layouts(layouts);
            Ok(Timer::new(stage_context))
        })
    }));
    Ok(specs)
}

#[cfg(feature = "torch")]
fn learner(context: &Arc<Context>) -> Result<Spec> {
    let c = Arc::clone(context);
    Ok(spec("learner", move || {
        let c = Arc::clone(&c);
        Box::pin(async move { Ok(flopsmith_actors::role::learner::Learner::new(c)) })
    }))
}

#[cfg(not(feature = "torch"))]
fn learner(_: &Arc<Context>) -> Result<Spec> {
    Err(crate::console::usage(
        "this build has no libtorch and cannot train: build it with the `torch` feature (`make build`)",
    ))
}

async fn source(
    kind: GeneratorKind,
    job: Job,
    context: &Arc<Context>,
    explainer: Option<Arc<dyn Explain>>,
) -> Result<Box<dyn Source>, flopsmith_actors::Error> {
    match kind {
        GeneratorKind::Schedule => {
            // A program with parameters is one of the configurations that the search tries.
            let start = context.settings.start.as_ref();
            let plain = start.filter(|s| !s.has_parameters());
            let start = plain.map(|start| start.source.clone());
            let variants = Variants::of_run(&context.first().problem, &context.settings);
            let source = ScheduleSource::new(searches(context)?)
                .beginning_with(start)
                .varying(variants)
                .warmed_by(context.settings.warm_start.clone());
            Ok(Box::new(source))
        }
        GeneratorKind::Agent if context.settings.generator.endpoint.is_some() => {
            let source = ConversingSource::open(context)?;
            Ok(Box::new(source.explaining(explainer)))
        }
        GeneratorKind::Agent => {
            let problems: Vec<&Problem> = context.problems().map(|of| &*of.problem).collect();
            let (settings, class) = (&context.settings, &context.host.machine_class);
            let source = AgentSource::open(settings, class, &context.folder, &problems)?;
            Ok(Box::new(source))
        }
        GeneratorKind::Endpoint if job == Job::Train => endpoint_policy(context).await,
        GeneratorKind::Endpoint => {
            use flopsmith_actors::source::endpoint::EndpointSource;
            Ok(Box::new(EndpointSource::open(context)?))
        }
        GeneratorKind::Policy => policy_source(context).await,
    }
}

/// The search of the space of each problem. A problem needs none where all answers vary the user's program.
fn searches(context: &Context) -> Result<Vec<(ProblemId, Searching)>, flopsmith_actors::Error> {
    let needs_none = context.settings.start_share() >= 1.0;
    let searches = context.problems().filter_map(|of| {
        let id = of.problem.id.clone();
        match Searching::of_run(&of.problem, &context.settings) {
            Ok(search) => Some(Ok((id, search))),
            Err(_) if needs_none => None,
            Err(why) => Some(Err(flopsmith_actors::Error::Generator(format!(
                "`{id}`: {why}"
            )))),
        }
    });
    searches.collect()
}

#[cfg(feature = "torch")]
async fn policy_source(context: &Arc<Context>) -> Result<Box<dyn Source>, flopsmith_actors::Error> {
    use flopsmith_actors::source::policy::PolicySource;
    use flopsmith_policy::{Handle, Model, device};
    let folder = crate::paths::model(&context.settings.generator.model);
    let generator = &context.settings.generator;
    let (dtype, wanted) = (generator.dtype, generator.device);
    let wanted = wanted.or_gpu(context.settings.require_gpu);
    let device = device::usable(wanted)
        .map_err(|e| flopsmith_actors::Error::Hopeless(format!("[generator]: {e}")))?;
    let failed = |e: &dyn std::error::Error| {
        flopsmith_actors::Error::Generator(flopsmith_actors::supervisor::words(e))
    };
    let handle = tokio::task::spawn_blocking(move || {
        Handle::spawn(move || {
            let kind = flopsmith_policy::dtype::kind(dtype, &folder, device)?;
            let mut told = Instant::now();
            let model = Model::load_telling(&folder, device, kind, |reading| {
                if told.elapsed() > Duration::from_secs(2) {
                    told = Instant::now();
                    let (read, of) = (reading.bytes >> 20, reading.of >> 20);
                    tracing::info!("the generator reads its model: {read} of {of} MiB");
                }
            })?;
            let tokenizer = flopsmith_policy::fitting_tokenizer(&folder, model.config())?;
            Ok((model, tokenizer))
        })
    })
    .await
    .map_err(|_| flopsmith_actors::Error::Thread("generator"))?
    .map_err(|error| match error.is_out_of_memory() {
        true => flopsmith_actors::Error::Memory {
            role: "generator",
            detail: format!(
                "{}\n  the model in {} does not fit: set `generator.dtype = \"bfloat16\"`, which halves the memory of the weights, or use a smaller model",
                flopsmith_actors::supervisor::words(&error),
                context.settings.generator.model.display()
            ),
        },
        false => failed(&error),
    })?;
    let tokenizer = Arc::clone(handle.tokenizer());
    let settings = &context.settings;
    let store = context.host.store.clone();
    let source = PolicySource::new(handle, tokenizer, store, &settings.generator);
    Ok(Box::new(source.conversing(&settings.turns)))
}

#[cfg(not(feature = "torch"))]
fn policy_source(
    _: &Arc<Context>,
) -> std::future::Ready<Result<Box<dyn Source>, flopsmith_actors::Error>> {
    std::future::ready(Err(flopsmith_actors::Error::Generator(
        "this build has no libtorch: build it with the `torch` feature".into(),
    )))
}

/// Reads the tokens of the run's samples; none if no source of the run says tokens. The run does not depend on it, so a
/// tokenizer that cannot be read costs the file of the answers alone.
#[cfg(feature = "torch")]
async fn detokenize(job: Job, context: &Context) -> Option<Detokenize> {
    use flopsmith_actors::role::recorder;
    use flopsmith_actors::supervisor::words;
    use flopsmith_policy::Tokenizer;
    let says_tokens = match context.settings.generator.kind {
        GeneratorKind::Policy => true,
        GeneratorKind::Endpoint => job == Job::Train,
        GeneratorKind::Schedule | GeneratorKind::Agent => false,
    };
    if !says_tokens {
        return None;
    }
    let folder = crate::paths::model(&context.settings.generator.model);
    let read = tokio::task::spawn_blocking(move || Tokenizer::load(&folder)).await;
    let error = match read {
        Ok(Ok(tokenizer)) => return Some(recorder::detokenize(Arc::new(tokenizer))),
        Ok(Err(error)) => words(&error),
        Err(_) => "the thread that reads the tokenizer died".to_owned(),
    };
    tracing::warn!(
        error,
        "the answers of the model are not in the run's folder"
    );
    None
}

#[cfg(not(feature = "torch"))]
fn detokenize(_: Job, _: &Context) -> std::future::Ready<Option<Detokenize>> {
    std::future::ready(None)
}

#[cfg(feature = "torch")]
async fn endpoint_policy(
    context: &Arc<Context>,
) -> Result<Box<dyn Source>, flopsmith_actors::Error> {
    use flopsmith_actors::source::endpoint_policy::EndpointPolicySource;
    use flopsmith_policy::{Model, fitting_tokenizer};
    let origin = crate::paths::model(&context.settings.generator.model);
    let folder = origin.clone();
    let read = tokio::task::spawn_blocking(move || {
        let config = Model::check(&folder)?;
        let tokenizer = fitting_tokenizer(&folder, &config)?;
        Ok::<_, flopsmith_policy::Error>((config, tokenizer))
    });
    let read = read
        .await
        .map_err(|_| flopsmith_actors::Error::Thread("generator"))?;
    let (config, tokenizer) = read.map_err(|error| {
        flopsmith_actors::Error::Generator(flopsmith_actors::supervisor::words(&error))
    })?;
    let write: Keep =
        Arc::new(move |target: &Path, weights: &[u8]| export::adapter(&origin, target, weights));
    let source = EndpointPolicySource::open(context, &config, tokenizer, write)?;
    Ok(Box::new(source))
}

#[cfg(not(feature = "torch"))]
fn endpoint_policy(
    _: &Arc<Context>,
) -> std::future::Ready<Result<Box<dyn Source>, flopsmith_actors::Error>> {
    std::future::ready(Err(flopsmith_actors::Error::Generator(
        "this build has no libtorch and cannot train: build it with the `torch` feature".into(),
    )))
}
