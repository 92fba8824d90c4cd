//! `flopsmith replay`: repeats a training run on its recorded outcomes.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::recorded::Recorded;
use flopsmith_archive::Advance;
use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_protocol::{MachineClass, PolicyVersion};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::folder::{self, Folder};
use flopsmith_run::shell;
use flopsmith_run::view::{self, Log};

use super::train;
use crate::args::{Format, Replay};

/// A budget in seconds that no run reaches: the number of steps ends the repetition, not the clock.
const ENDLESS: f64 = 1e12;

/// Repeats a run and compares each of its policy versions with the recorded one.
pub fn run(args: &Replay, log: &Log) -> Result<ExitCode> {
    let name = args.run.as_deref().unwrap_or_default();
    let found = folder::find(args.place.folder(), name, |path| {
        can_be_repeated(path).is_ok()
    })?;
    can_be_repeated(&found)?;
    let found = found
        .canonicalize()
        .with_context(|| format!("cannot find {}", found.display()))?;
    let recorded = Recorded::read(&found)?;
    let settings = flopsmith_config::load(&found.join("config.toml"), &[])?;
    let settings = repeating(settings, &found, &recorded)?;
    train::check(&settings)?;
    flopsmith_run::run::check_services(&settings)?;
    let name = format!("replay-{}", view::stamp());
    let text = toml::to_string(&settings)?;
    let folder = Folder::create(args.place.folder(), &name, &text, Job::Train)?;
    let path = folder.path.clone();
    let resume = shell::resume_train(&path.join("config.toml"), &path);
    let ended = train::finish(Job::Train, settings, folder, log, &resume, Duration::ZERO)?;
    let equal = compare(&recorded, &Recorded::read(&path)?, ended.interrupted)?;
    say(&format!(
        "{equal} policy versions are equal, bit by bit, to those of {}",
        found.display()
    ));
    if args.format == Format::Json {
        let summary = serde_json::to_value(&ended.summary)?;
        let object = serde_json::json!({
            "recorded": found, "run": path, "equal_versions": equal, "summary": summary,
        });
        data(&object.to_string());
    }
    Ok(ExitCode::from(train::code(&ended)))
}

/// An error if a run cannot be repeated.
fn can_be_repeated(folder: &Path) -> Result<()> {
    let facts = folder::read_facts(folder)?;
    if facts.job != folder::job_name(Job::Train) {
        return Err(usage(format!(
            "{} is no training run; only training runs have policy versions to compare",
            folder.display()
        )));
    }
    if !facts.finished {
        return Err(usage(format!(
            "{} has not come to its end; only a finished run can be repeated",
            folder.display()
        )));
    }
    Ok(())
}

/// The settings of the run, with changes for the recorded outcomes and for the place of the repetition.
fn repeating(mut settings: Settings, folder: &Path, recorded: &Recorded) -> Result<Settings> {
    if let Some(version) = recorded.silent() {
        return Err(usage(format!(
            "{} does not record the share of its budget that was spent when policy version {} was trained, and step sizes depend on this share; its training.jsonl may be incomplete",
            folder.display(),
            version.0
        )));
    }
    if settings.generator.steps_ahead > 0 {
        return Err(usage(format!(
            "{} was asynchronous (generator.steps_ahead = {}): the policy that wrote a program depended on the clock, so the run cannot be repeated; a run with 0 can",
            folder.display(),
            settings.generator.steps_ahead
        )));
    }
    if settings.trains_through_endpoint() {
        return Err(usage(format!(
            "an endpoint drew the samples of {} (generator.kind = \"endpoint\"), and no server draws the same ones again, so the run cannot be repeated; a run with generator.kind = \"policy\" can",
            folder.display()
        )));
    }
    if settings.sqd.enabled && matches!(settings.sqd.advance, Advance::BudgetShare { .. }) {
        return Err(usage(format!(
            "the stages of {} depended on the time that was spent (sqd.advance.rule = \"budget_share\"), so the run cannot be repeated; a run with another rule can",
            folder.display()
        )));
    }
    let trained = recorded.versions().filter(|(v, _)| v.0 > 0).count() as u64;
    if trained == 0 {
        return Err(usage(format!(
            "{} has trained nothing, so there is nothing to compare",
            folder.display()
        )));
    }
    let class = MachineClass::new(&settings.machine_class)?;
    if recorded.machines(&class).is_empty() {
        return Err(usage(format!(
            "{} does not record the machine that timed its programs, and rewards depend on that machine",
            folder.display()
        )));
    }
    settings.max_steps = trained;
    settings.budget_seconds = ENDLESS;
    settings.nats = String::new();
    settings.store = String::new();
    settings.hosted = Vec::new();
    settings.evaluate.workers = false;
    settings.evaluate.finalists = 0;
    folder.clone_into(&mut settings.evaluate.recorded);
    Ok(settings)
}

/// The number of equal versions. An interrupted repetition has only some of them.
fn compare(recorded: &Recorded, now: &Recorded, interrupted: bool) -> Result<usize> {
    for (version, weights) in now.versions() {
        recorded.check(version, weights)?;
    }
    let count = now.versions().count();
    let missing: Option<PolicyVersion> = recorded.versions().map(|(v, _)| v).nth(count);
    match missing {
        Some(version) if !interrupted => Err(anyhow::anyhow!(
            "the run has diverged from the recorded one: it has {count} policy versions, and version {} is missing",
            version.0
        )),
        _ => Ok(count),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use flopsmith_run::summary::Facts;

    #[test]
    fn unfinished_runs_and_searches_cannot_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |job: &str, finished| {
            let facts = Facts {
                job: job.into(),
                finished,
                ..Facts::default()
            };
            let text = serde_json::to_vec(&facts).unwrap();
            std::fs::write(folder.path().join("run.json"), text).unwrap();
            can_be_repeated(folder.path()).err().map(|e| e.to_string())
        };
        assert!(refused("search", true).unwrap().contains("no training run"));
        assert!(
            refused("train", false)
                .unwrap()
                .contains("not come to its end")
        );
        assert_eq!(refused("train", true), None);
    }

    #[test]
    fn a_run_that_trained_nothing_has_nothing_to_compare() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = Recorded::read(folder.path()).unwrap();
        let refused = repeating(Settings::default(), folder.path(), &recorded);
        assert!(refused.unwrap_err().to_string().contains("trained nothing"));
    }
}
