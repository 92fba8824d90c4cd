//! `flopsmith search`: the same machinery without a model.

use std::process::ExitCode;

use anyhow::{Context, Result};
use flopsmith_actors::course::Job;
use flopsmith_actors::settings::{GeneratorKind, Settings};

use crate::args::{Format, Search};
use crate::config;
use crate::exit::{data, usage};
use crate::run::{self, Folder};
use crate::view::{self, Log};

use super::train::{finish, unfinished};

/// Searches the schedule space of a problem.
pub fn run(args: &Search, log: &Log) -> Result<ExitCode> {
    let problem = crate::paths::problem(&args.problem)?;
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
    let path = folder.path.clone();
    let resume = format!("flopsmith search --problem {} --resume", args.problem);
    let code = finish(Job::Search, settings, folder, args.format, log, &resume)?;
    let best = std::fs::read_to_string(path.join("best.c"));
    match (&args.output, best) {
        (_, Err(_)) => {
            return Err(usage(
                "no verified program was found in this time: give a longer --budget",
            ));
        }
        (Some(output), Ok(source)) => {
            std::fs::write(output, source)
                .with_context(|| format!("cannot write {}", output.display()))?;
        }
        (None, Ok(source)) if args.format == Format::Text => data(source.trim_end()),
        (None, Ok(_)) => {}
    }
    Ok(code)
}
