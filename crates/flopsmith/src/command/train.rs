//! `flopsmith train`: the main job.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use flopsmith_actors::course::Job;
use flopsmith_actors::settings::Settings;

use crate::args::{Format, Train};
use crate::config;
use crate::exit::{self, data, say, usage};
use crate::export;
use crate::run::{self, Ended, Folder, Plan};
use crate::view::{self, Log};

/// Trains, or goes on with a run that was stopped.
pub fn run(args: &Train, log: &Log) -> Result<ExitCode> {
    let mut settings = config::load(&args.config, &args.set)?;
    if let Some(budget) = &args.budget {
        settings.budget_seconds = config::duration(budget)?;
    }
    if let Some(seed) = args.seed {
        settings.seed = seed;
    }
    let stem = args
        .config
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or("run");
    let resumed = match &args.resume {
        None => None,
        Some(name) => {
            let prefix = format!("{stem}-");
            let path = run::find(&args.place.runs, name, |p| unfinished(p, &prefix))?;
            let kept = config::load(&path.join("config.toml"), &[])?;
            let budget = settings.budget_seconds;
            settings = kept;
            if args.budget.is_some() {
                settings.budget_seconds = budget;
            }
            Some(path)
        }
    };
    config::check_training(&settings)?;
    check_files(&settings)?;
    let folder = match resumed {
        Some(path) => Folder::open(&path)?,
        None => {
            let name = format!("{stem}-{}", view::stamp());
            Folder::create(&args.place.runs, &name, &toml::to_string(&settings)?)?
        }
    };
    let resume = resume_command(&args.config);
    let ended = finish(Job::Train, settings, folder, log, &resume)?;
    if args.format == Format::Json {
        data(&serde_json::to_string(&ended.summary)?);
    }
    Ok(ExitCode::from(code(&ended)))
}

fn resume_command(config: &Path) -> String {
    format!("flopsmith train {} --resume", config.display())
}

/// What the configuration names is looked at before a run is made of it: this takes milliseconds, and the roles would
/// find out one after the other, minutes later.
#[cfg(feature = "torch")]
fn check_files(settings: &Settings) -> Result<()> {
    crate::paths::problem(&settings.problem)?;
    let folder = crate::paths::model(&settings.generator.model);
    let model = flopsmith_policy::check(&folder).map_err(|e| {
        usage(format!(
            "the model in {} cannot be trained: {}",
            folder.display(),
            flopsmith_actors::supervisor::words(&e)
        ))
    })?;
    if i64::from(settings.generator.max_tokens) >= model.max_position_embeddings {
        return Err(usage(format!(
            "`generator.max_tokens` is {}, and the model in {} has {} positions for prompt and answer together",
            settings.generator.max_tokens,
            folder.display(),
            model.max_position_embeddings
        )));
    }
    Ok(())
}

#[cfg(not(feature = "torch"))]
fn check_files(_: &Settings) -> Result<()> {
    Err(usage(
        "this build has no libtorch and cannot train: build it with the `torch` feature (`make build`)",
    ))
}

/// A run of this configuration that has not reached its end.
pub fn unfinished(path: &Path, prefix: &str) -> bool {
    let named = path
        .file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.starts_with(prefix));
    named && run::read_facts(path).is_ok_and(|f| !f.concluded)
}

/// Executes a plan and tells people how it ended. The caller prints the data, once it is all there.
pub fn finish(
    job: Job,
    settings: Settings,
    folder: Folder,
    log: &Log,
    resume: &str,
) -> Result<Ended> {
    let path = folder.path.clone();
    let id = folder.id.clone();
    let problem = settings.problem.clone();
    let _guard = log.start(Some(&path))?;
    say(&format!("run {id} in {}", path.display()));
    let ended = run::execute(Plan {
        job,
        settings,
        folder,
        live: true,
    })?;
    let summary = &ended.summary;
    if let Some(best) = &summary.best {
        std::fs::write(path.join("best.c"), &best.source)
            .map_err(|e| usage(format!("cannot write best.c: {e}")))?;
    }
    let report = super::report::write(&path, None)?;
    say("");
    for line in summary.table() {
        say(&line);
    }
    say("");
    say(&format!("report       {}", report.display()));
    if summary.best.is_some() {
        say(&format!("best source  {}", path.join("best.c").display()));
    }
    let model = path.join(export::MODEL);
    if model.is_dir() {
        say(&format!("model        {}", model.display()));
    }
    say(&format!(
        "outcomes     {}",
        path.join("outcomes.jsonl").display()
    ));
    if ended.interrupted || !summary.finished {
        say(&format!("go on with   {resume}"));
    } else if job == Job::Train {
        if summary.best.is_some() {
            say(&format!("time it      {}", bench_command(&path, &problem)));
        }
        say(&format!(
            "sample it    flopsmith model sample {} --problem {problem}",
            model.display()
        ));
    }
    Ok(ended)
}

fn bench_command(run: &Path, problem: &str) -> String {
    format!(
        "flopsmith bench {} --problem {problem}",
        run.join("best.c").display()
    )
}

/// The exit code of a run that came to its end or was stopped.
pub fn code(ended: &Ended) -> u8 {
    if ended.interrupted {
        exit::INTERRUPTED
    } else {
        exit::OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_program_is_timed_at_the_problem_of_its_run() {
        assert_eq!(
            bench_command(Path::new("runs/a"), "problems/stencil"),
            "flopsmith bench runs/a/best.c --problem problems/stencil"
        );
    }
}
