//! `flopsmith eval`: evaluates models, and compares two of them.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_bench::threads;
use flopsmith_eval::model::Model;
use flopsmith_eval::{Order, compare, programs};
use flopsmith_problem::Problem;
use flopsmith_protocol::Sampling;
use flopsmith_run::console::{say, usage};
use flopsmith_run::{measuring_lock, paths};

use crate::args::{BenchPurpose, Dtype, Eval, EvalAction};

/// Executes the command.
pub fn run(args: &Eval) -> Result<ExitCode> {
    if let Some(EvalAction::Compare { a, b, format }) = &args.action {
        return Ok(ExitCode::from(compare::run(a, b, *format)?));
    }
    let models = Model::read_all(&args.models)?;
    let farm = args.farm.ways()?;
    let problems = problems(args, farm.is_none())?;
    let threads = threads::counts(&args.threads)?;
    for problem in &problems {
        if let Some(warning) = threads::warning(&threads, problem) {
            say(&warning);
        }
    }
    let programs = programs::read(&args.programs, &problems, args.task)?;
    let order = Order {
        models,
        problems,
        workloads: args.workloads.names.clone(),
        farm,
        samples: args.samples,
        draws: draws(args),
        sampling: sampling(args.temperature, args.top_p, args.max_tokens)?,
        seed: args.seed,
        task: args.task,
        programs,
        prompt: args.prompt,
        permitted: super::problem::named(args.permit.as_deref())?,
        threads,
        dtype: match args.dtype {
            Dtype::Float32 => flopsmith_config::Dtype::Float32,
            Dtype::Bfloat16 => flopsmith_config::Dtype::Bfloat16,
            Dtype::Auto => flopsmith_config::Dtype::Auto,
        },
        device: args.device,
        compiler: args.compiler.clone(),
        allow_weaker_jail: args.allow_weaker_jail,
        purpose: args.purpose.purpose(),
        sanitize: args.sanitize || args.purpose == BenchPurpose::Certify,
        wait: args.wait.limit()?,
        output: args.output.clone(),
        format: args.format,
    };
    if order.farm.is_none() {
        measuring_lock::announce(&format!("eval {}", args.models.join(" ")));
    }
    let code = flopsmith_eval::run(&order).map_err(advised)?;
    Ok(ExitCode::from(code))
}

/// Adds what to lower if memory is short.
#[cfg(feature = "torch")]
fn advised(error: anyhow::Error) -> anyhow::Error {
    super::memory::advise(error, super::memory::OF_EVALUATIONS)
}

#[cfg(not(feature = "torch"))]
fn advised(error: anyhow::Error) -> anyhow::Error {
    error
}

/// The problems, each once, with the named workloads. `here` is true if this machine times the answers.
fn problems(args: &Eval, here: bool) -> Result<Vec<Arc<Problem>>> {
    let named = match &args.suite {
        Some(suite) => paths::suite(suite)?,
        None => {
            let problems = args.problem.iter().map(|name| paths::any(name));
            problems.collect::<Result<Vec<Problem>>>()?
        }
    };
    let mut problems: Vec<Arc<Problem>> = Vec::new();
    for problem in named {
        let problem = paths::selected(problem, &args.workloads.names)?;
        let problem = match here {
            true => paths::timed_here(problem),
            false => problem,
        };
        if let Some(other) = problems.iter().find(|other| other.id == problem.id) {
            if other.digest == problem.digest {
                continue;
            }
            return Err(usage(format!(
                "two different problems are called `{}`; rename the folder of one, or leave it out",
                problem.id
            )));
        }
        problems.push(Arc::new(problem));
    }
    Ok(problems)
}

fn draws(args: &Eval) -> Vec<u32> {
    let mut draws = args.draws.clone();
    draws.sort_unstable();
    draws.dedup();
    draws
}

/// How a language model samples, from the values of the options.
pub(super) fn sampling(temperature: f32, top_p: f32, max_tokens: u32) -> Result<Sampling> {
    if !(temperature.is_finite() && temperature >= 0.0) {
        return Err(usage(format!(
            "--temperature is {temperature}: it must be a number of 0 or more"
        )));
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(usage(format!(
            "--top-p is {top_p}: it must be above 0 and at most 1"
        )));
    }
    Ok(Sampling {
        temperature,
        top_p,
        top_k: 0,
        max_tokens,
    })
}
