//! `flopsmith runs watch`: follows a run from another process.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use flopsmith_actors::role::recorder::{StepLine, files};
use flopsmith_protocol::Purpose;
use flopsmith_run::console::{data, say};
use flopsmith_run::digits::{share, significant};
use flopsmith_run::folder::Folder;
use flopsmith_run::interrupt::Watch;
use flopsmith_run::{folder, shell, summary};

use crate::args::Place;
use crate::exit;

/// If a smaller share of a step's programs is correct, the step's line says why the others were refused.
const POOR: f64 = 0.25;
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
            let many = !folder::read_facts(&folder)?.problems.is_empty();
            for line in lines.iter().skip(shown) {
                data(&told(line, many));
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
    let settings = flopsmith_config::read_text(&folder.join("config.toml")).unwrap_or_default();
    let hosted =
        flopsmith_config::parse(&settings, "config.toml", &[]).is_ok_and(|s| !s.hosted.is_empty());
    say(match hosted {
        true => {
            "no process here follows this run; the cluster may continue it, and --resume follows it again"
        }
        false => "no process works on this run: it was stopped, and --resume continues it",
    });
    Ok(Some(ExitCode::from(exit::INFRASTRUCTURE)))
}

/// A step in one line; without speeds if they are of `many` problems.
fn told(line: &StepLine, many: bool) -> String {
    let phase = match line.purpose {
        Some(Purpose::EvaluateStart) => "evaluation before",
        Some(Purpose::EvaluateEnd) => "evaluation after",
        _ => "step",
    };
    let mut text = format!(
        "{phase} {}: {} programs, {} correct",
        line.step,
        line.samples,
        share(line.correct_rate),
    );
    if !many {
        let best = Some(line.best_gflops).filter(|best| *best > 0.0);
        text.push_str(&format!(
            ", mean {} GFLOPS, best {}",
            significant(line.mean_gflops, 3),
            best.map_or_else(|| "–".to_owned(), |best| significant(best, 3))
        ));
    }
    if line.samples > 0 && line.correct_rate < POOR {
        let mut kinds: Vec<(&String, &u64)> = line
            .outcomes
            .iter()
            .filter(|(kind, _)| *kind != "measured")
            .collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds: Vec<String> = kinds
            .iter()
            .take(3)
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        text.push_str(&format!(" ({})", kinds.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line() {
        let line = StepLine {
            step: 3,
            purpose: Some(Purpose::EvaluateStart),
            samples: 64,
            correct_rate: 0.5,
            mean_gflops: 12.345,
            best_gflops: 40.0,
            ..StepLine::default()
        };
        assert_eq!(
            told(&line, false),
            "evaluation before 3: 64 programs, 50.0 % correct, mean 12.3 GFLOPS, best 40.0"
        );
        let many = "evaluation before 3: 64 programs, 50.0 % correct";
        assert_eq!(told(&line, true), many);
        let unsure = StepLine {
            best_gflops: 0.0,
            ..line.clone()
        };
        assert!(told(&unsure, false).ends_with(", best –"));
        let poor = StepLine {
            purpose: Some(Purpose::Train),
            samples: 64,
            outcomes: [("compile_error", 3), ("format", 61)]
                .map(|(kind, count)| (kind.to_owned(), count))
                .into(),
            ..line
        };
        let said = told(
            &StepLine {
                correct_rate: 0.0,
                ..poor
            },
            false,
        );
        assert!(
            said.ends_with("best 40.0 (format 61, compile_error 3)"),
            "{said}"
        );
    }
}
