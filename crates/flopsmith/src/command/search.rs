//! `flopsmith search`: the same machinery without a model.

use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_actors::course::Job;
use flopsmith_actors::settings::{GeneratorKind, Settings};
use flopsmith_generator::schedule::Space;

use crate::args::{Format, Search};
use crate::config;
use crate::exit::{self, data, say, usage};
use crate::run::{self, Folder};
use crate::summary::Summary;
use crate::view::{self, Log};

use super::train::{code, finish, unfinished};

/// Searches the schedule space of a problem.
pub fn run(args: &Search, log: &Log) -> Result<ExitCode> {
    let mut defaults = Settings {
        problem: args.problem.clone(),
        seed: args.seed,
        budget_seconds: config::duration(&args.budget)?,
        ..Settings::default()
    };
    defaults.generator.kind = GeneratorKind::Schedule;
    defaults.tasks = 4;
    defaults.group_size = 8;
    if args.evaluations > 0 {
        let per_step = u64::from(defaults.tasks * defaults.group_size);
        defaults.max_steps = args.evaluations.div_ceil(per_step);
    }
    let settings = config::parse(
        &toml::to_string(&defaults)?,
        "the settings of the search",
        &args.set,
    )?;
    let problem = crate::paths::problem(&settings.problem)?;
    if settings.generator.kind == GeneratorKind::Schedule
        && Space::of(problem.id.as_str()).is_none()
    {
        return Err(usage(format!(
            "`flopsmith search` cannot write programs for `{}`: the schedule space has dgemm only; `flopsmith train` takes any problem",
            problem.id
        )));
    }
    if let Some(output) = &args.output {
        // Said now and not after the whole budget. What stands there stays until there is something better.
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(output)
            .map_err(|e| usage(format!("cannot write {}: {e}", output.display())))?;
    }
    let prefix = format!("search-{}-", problem.id);
    let (folder, settings) = match &args.resume {
        None => {
            let name = format!("{prefix}{}", view::stamp());
            (
                Folder::create(&args.place.runs, &name, &toml::to_string(&settings)?)?,
                settings,
            )
        }
        Some(name) => {
            let path = run::find(&args.place.runs, name, |p| unfinished(p, &prefix))?;
            let kept = config::load(&path.join("config.toml"), &[])?;
            (Folder::open(&path)?, kept)
        }
    };
    let resume = format!("flopsmith search --problem {} --resume", args.problem);
    let ended = finish(Job::Search, settings, folder, log, &resume)?;
    let mut code = code(&ended);
    match (&ended.summary.best, &args.output) {
        (None, _) => {
            let (found, hint) = fruitless(&ended.summary);
            say(hint);
            if !ended.interrupted {
                code = found;
            }
        }
        (Some(best), Some(output)) => {
            std::fs::write(output, &best.source)
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        (Some(best), None) if args.format == Format::Text => data(best.source.trim_end()),
        (Some(_), None) => {}
    }
    if args.format == Format::Json {
        data(&serde_json::to_string(&ended.summary)?);
    }
    Ok(ExitCode::from(code))
}

/// The exit code of a search without a verified program, and what to try: programs that were judged are to blame
/// themselves; where none could be, this machine is.
fn fruitless(summary: &Summary) -> (u8, &'static str) {
    let outcomes: u64 = summary.outcomes.values().sum();
    if outcomes > summary.infrastructure_errors {
        (
            exit::CANDIDATE,
            "no verified program was found in this time: give a longer --budget, or see in outcomes.jsonl why they were refused",
        )
    } else {
        (
            exit::INFRASTRUCTURE,
            "no program could be judged on this machine: `flopsmith doctor` says what it lacks, flopsmith.log in the run's folder what went wrong",
        )
    }
}
