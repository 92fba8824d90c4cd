//! `flopsmith runs watch`: follows a run from another process.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use flopsmith_actors::role::recorder::{StepLine, files};
use flopsmith_config::Settings;
use flopsmith_run::console::{data, say};
use flopsmith_run::folder::Folder;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::{folder, shell, summary, view};

use crate::args::Place;
use crate::exit;

/// Interval between two looks at the run.
const LOOK: Duration = Duration::from_millis(500);
/// Number of consecutive looks without a process at work after which the watch ends. One is not enough: a run may be
/// between two sessions, or may not have begun.
const PATIENCE: u32 = 4;

/// Prints a line for each step, until the run ends.
pub fn watch(place: &Place, name: &str) -> Result<ExitCode> {
    let folder = folder::find(place.folder(), name, |_| true)?;
    say(&format!("watching {}", folder.display()));
    let watch = Watch::saying("no longer watching; no run is stopped")?;
    let mut shown = 0;
    let mut alone = 0;
    loop {
        // Checked before the steps are read, so that the last steps of a run that ends in between are read as well.
        let at_work = Folder::is_at_work(&folder);
        let lines: Vec<StepLine> = summary::lines(&folder.join(files::METRICS))?;
        if lines.len() > shown {
            // A run that begins notes its problems before its first step.
            let problems = folder::read_facts(&folder)?.problems.len();
            let settings = settings(&folder);
            for line in lines.iter().skip(shown) {
                data(&view::told(line, &settings, problems));
            }
        }
        shown = shown.max(lines.len());
        if let Some(code) = ended(&folder, at_work, &mut alone)? {
            return Ok(code);
        }
        if watch.asked().is_cancelled() {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        std::thread::sleep(LOOK);
    }
}

/// The exit code, once the run will write no more steps.
fn ended(folder: &Path, at_work: bool, alone: &mut u32) -> Result<Option<ExitCode>> {
    if at_work {
        *alone = 0;
        return Ok(None);
    }
    let facts = folder::read_facts(folder)?;
    if facts.concluded {
        say(&format!(
            "the run has ended; {} shows its result",
            shell::report(folder)
        ));
        return Ok(Some(ExitCode::SUCCESS));
    }
    *alone += 1;
    if *alone < PATIENCE {
        return Ok(None);
    }
    say(match settings(folder).hosted.is_empty() {
        true => "no process works on this run: it was stopped, and --resume continues it",
        false => {
            "no process here follows this run; the cluster may continue it, and --resume follows it again"
        }
    });
    Ok(Some(ExitCode::from(exit::INFRASTRUCTURE)))
}

/// The run's settings; the default ones if they cannot be read.
fn settings(folder: &Path) -> Settings {
    let text = flopsmith_config::read_text(&folder.join("config.toml")).unwrap_or_default();
    flopsmith_config::parse(&text, "config.toml", &[]).unwrap_or_default()
}
