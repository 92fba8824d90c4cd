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
    let folder = match &args.resume {
        None => {
            let name = format!("{stem}-{}", view::stamp());
            Folder::create(&args.place.runs, &name, &toml::to_string(&settings)?)?
        }
        Some(name) => {
            let prefix = format!("{stem}-");
            let path = run::find(&args.place.runs, name, |p| unfinished(p, &prefix))?;
            let kept = config::load(&path.join("config.toml"), &[])?;
            let budget = settings.budget_seconds;
            settings = kept;
            if args.budget.is_some() {
                settings.budget_seconds = budget;
            }
            Folder::open(&path)?
        }
    };
    finish(
        Job::Train,
        settings,
        folder,
        args.format,
        log,
        &resume_command(&args.config),
    )
}

fn resume_command(config: &Path) -> String {
    format!("flopsmith train {} --resume", config.display())
}

/// A run of this configuration that has not reached its end.
pub fn unfinished(path: &Path, prefix: &str) -> bool {
    let named = path
        .file_name()
        .and_then(|n| n.to_str())
        .is_some_and(|n| n.starts_with(prefix));
    named && run::read_facts(path).is_ok_and(|f| !f.concluded)
}

/// Executes a plan and says how it ended.
pub fn finish(
    job: Job,
    settings: Settings,
    folder: Folder,
    format: Format,
    log: &Log,
    resume: &str,
) -> Result<ExitCode> {
    let path = folder.path.clone();
    let id = folder.id.clone();
    let _guard = log.start(Some(&path))?;
    say(&format!("run {id} in {}", path.display()));
    let Ended {
        summary,
        interrupted,
    } = run::execute(Plan {
        job,
        settings,
        folder,
        live: true,
    })?;
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
    if interrupted || !summary.finished {
        say(&format!("go on with   {resume}"));
    } else if job == Job::Train {
        say(&format!(
            "time it      flopsmith bench {} --problem dgemm",
            path.join("best.c").display()
        ));
        say(&format!(
            "sample it    flopsmith model sample {} --problem dgemm",
            model.display()
        ));
    }
    if format == Format::Json {
        data(&serde_json::to_string(&summary)?);
    }
    Ok(ExitCode::from(if interrupted {
        exit::INTERRUPTED
    } else {
        exit::OK
    }))
}
