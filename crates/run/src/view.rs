//! The progress display of a run, and the destination of its log.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use flopsmith_actors::node::Context;
use flopsmith_actors::role::recorder::{Progress, StepLine};
use flopsmith_actors::role::timer::QUARANTINE;
use flopsmith_archive::BestSoFar;
use flopsmith_config::Settings;
use flopsmith_protocol::{CandidateFault, Purpose};
use flopsmith_report::live::{self, Live};
use tokio::sync::watch;

use crate::console::{say, write};
use crate::endpoint::spent;

/// How to log.
pub struct Log {
    /// Filter for the log.
    pub filter: String,
    /// OpenTelemetry collector.
    pub otlp: Option<String>,
}

impl Log {
    /// Starts logging: into a run's folder, or to stderr.
    pub fn start(&self, folder: Option<&Path>) -> Result<flopsmith_telemetry::Guard> {
        // The log of a run has at least level info, because it is read to explain failures.
        let level = match (folder, self.filter.as_str()) {
            (Some(_), "warn" | "error") => "info".to_owned(),
            (_, other) => other.to_owned(),
        };
        flopsmith_telemetry::init(flopsmith_telemetry::Options {
            log_level: level,
            json: folder.is_some(),
            log_file: folder.map(|f| f.join("flopsmith.log")),
            otlp_endpoint: self.otlp.clone(),
            service_name: "flopsmith".into(),
        })
        .context("logging cannot be started")
    }
}

/// The time of day as part of a run's name, UTC.
pub fn stamp() -> String {
    stamp_at(Utc::now())
}

/// A time in seconds since 1970 as `YYYYMMDD-HHMMSS`, UTC. A time that the calendar does not reach is 1970-01-01.
pub fn stamp_of(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).ok();
    let time = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    stamp_at(time.unwrap_or_default())
}

fn stamp_at(time: DateTime<Utc>) -> String {
    time.format("%Y%m%d-%H%M%S").to_string()
}

/// Shows progress until the task is aborted: on a terminal a block that is redrawn, otherwise a line per step.
/// `elapsed` are the seconds of the run's budget that are spent.
pub async fn show(
    progress: watch::Receiver<Progress>,
    context: Arc<Context>,
    elapsed: watch::Receiver<f64>,
) {
    let terminal = std::io::stderr().is_terminal();
    let mut clock = tokio::time::interval(Duration::from_millis(500));
    let (mut drawn, mut told, mut warned) = (0usize, None, false);
    let mut explained = None;
    let mut trouble = String::new();
    loop {
        clock.tick().await;
        let now = progress.borrow().clone();
        let seconds = *elapsed.borrow();
        let live = live_of(&now, &context, seconds);
        if terminal {
            // A terminal of unknown size reports 0 columns.
            let width = match crossterm::terminal::size() {
                Ok((columns, _)) if columns > 0 => usize::from(columns),
                _ => 80,
            };
            let frame = live::frame(&live, width);
            let mut text = String::new();
            if drawn > 0 {
                text.push_str(&format!("\x1b[{drawn}A"));
            }
            for line in &frame {
                text.push_str("\x1b[2K");
                text.push_str(line);
                text.push('\n');
            }
            drawn = frame.len();
            let mut err = std::io::stderr();
            let _ = std::io::Write::write_all(&mut err, text.as_bytes());
            continue;
        }
        if live.disturbed > 0 && !warned {
            warned = true;
            say(
                "warning: the machine is busy: others are at work on the timed cores; flopsmith.log says when and how much, and the summary at the end says how often",
            );
        }
        // On a terminal the frame has it.
        if live.trouble != trouble {
            trouble.clone_from(&live.trouble);
            if !trouble.is_empty() {
                write(std::io::stderr(), &format!("endpoint: {trouble}"));
            }
        }
        if let Some(last) = &now.last
            && told != Some(last.step)
        {
            told = Some(last.step);
            write(std::io::stderr(), &live::line(&live));
            // An unchanged refusal is not printed again at the next step.
            let refusal = live::refusal(&live);
            if let Some(text) = refusal.filter(|text| explained.as_ref() != Some(text)) {
                write(std::io::stderr(), &text);
                explained = Some(text);
            }
        }
    }
}

/// Ends the line of the progress display.
pub fn clear() {
    say("");
}

fn live_of(progress: &Progress, context: &Context, elapsed: f64) -> Live {
    let (cores, settings) = (&context.host.cores, &context.settings);
    let shares = cores.shares();
    let asked = context.asked();
    let last = progress.last.clone().unwrap_or_default();
    let problems = context.problems().count();
    let many = settings.has_many();
    let best = progress.best.as_ref();
    Live {
        step: progress.step,
        purpose: phase(progress.purpose).into(),
        stage: progress.stage,
        stage_name: stage_name(settings, progress.stage),
        permitted: progress.permitted.clone(),
        outcomes: progress.outcomes,
        refused: progress
            .refused
            .iter()
            .map(|of| (of.kind.clone(), of.count))
            .collect(),
        refused_example: progress
            .refused
            .first()
            .map(|of| of.example.clone())
            .unwrap_or_default(),
        // A stream has more problems than the context, which has those of its evaluations.
        solved: many.then_some((progress.solved, problems.max(progress.tried))),
        best: best.map(|best| shown(best.speed)),
        best_techniques: best.map(|best| best.techniques),
        worst: best.and_then(|best| best.worst.clone()),
        peak_gflops: progress.machine.as_ref().map(|m| m.peak_gflops),
        cells: progress.cells,
        total_outcomes: progress.total,
        infrastructure_errors: progress.infrastructure,
        quarantine_seconds: cores.spent(QUARANTINE).as_secs_f64(),
        disturbed: context.disturbed(),
        shares: shares.by_role.into_iter().collect(),
        idle: shares.idle,
        endpoint: asked.spending.as_ref().map(spent).unwrap_or_default(),
        trouble: asked.trouble,
        elapsed_seconds: elapsed,
        budget_seconds: settings.budget_seconds,
        ..of_step(&last, settings, problems)
    }
}

/// A complete step in one line, by the same function as in the live view of the run. `problems` is the number of problems
/// of a run over many.
pub fn told(line: &StepLine, settings: &Settings, problems: usize) -> String {
    live::line(&of_step(line, settings, problems))
}

/// The part of the live view that is about a complete step.
fn of_step(line: &StepLine, settings: &Settings, problems: usize) -> Live {
    let many = settings.has_many() || problems > 1;
    // The other kinds are no reasons for a refusal.
    let is_fault = |kind: &str| CandidateFault::ALL.iter().any(|fault| fault.name() == kind);
    let refused = line.outcomes.iter().filter(|(kind, _)| is_fault(kind));
    let mut refused: Vec<(String, u64)> = refused
        .map(|(kind, count)| (kind.clone(), *count))
        .collect();
    refused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Live {
        last_step: line.step,
        last_purpose: phase(line.purpose).into(),
        last_stage: line.stage,
        last_stage_name: stage_name(settings, line.stage),
        samples: line.samples.into(),
        correct_rate: line.correct_rate,
        mean_gflops: line.mean_gflops,
        so_far: line.so_far.map(|so_far| live::SoFar {
            best: so_far.best.map(shown),
            cells: so_far.cells,
            solved: many.then(|| {
                let tried = problems.max(so_far.tried as usize);
                (so_far.solved as usize, tried)
            }),
        }),
        solved: many.then_some((0, problems)),
        refused,
        ..Live::default()
    }
}

/// The name of a stage; empty in a run over many problems, each of which has stages of its own.
fn stage_name(settings: &Settings, stage: u32) -> String {
    if settings.has_many() {
        return String::new();
    }
    let stages = settings.sqd.stages();
    let stage = stages.get(stage as usize);
    stage.map(|s| s.name.clone()).unwrap_or_default()
}

fn shown(best: BestSoFar) -> live::Best {
    live::Best {
        gflops: best.gflops,
        certainty: best.certainty.words().to_owned(),
    }
}

/// The display's name for steps of this purpose.
fn phase(purpose: Option<Purpose>) -> &'static str {
    match purpose {
        Some(Purpose::EvaluateStart) => "evaluation before",
        Some(Purpose::EvaluateEnd) => "evaluation after",
        Some(Purpose::Search) => "search",
        Some(Purpose::Train) => "training",
        _ => "starting",
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_actors::role::recorder::SoFar;
    use flopsmith_archive::Certainty;

    use super::*;

    #[test]
    fn dates() {
        assert_eq!(stamp_of(0), "19700101-000000");
        assert_eq!(stamp_of(59 * 86_400 + 3_599), "19700301-005959");
        assert_eq!(stamp_of(951_782_400 + 86_399), "20000229-235959");
        assert_eq!(stamp_of(20_778 * 86_400 + 3_600), "20261121-010000");
        assert_eq!(stamp_of(u64::MAX), "19700101-000000");
    }

    #[test]
    fn a_step_is_told_with_the_best_program_so_far_and_its_certainty() {
        let best = BestSoFar {
            gflops: 38.0,
            certainty: Certainty::Once,
        };
        let line = StepLine {
            step: 3,
            purpose: Some(Purpose::EvaluateStart),
            samples: 64,
            correct_rate: 0.5,
            mean_gflops: 12.5,
            best_gflops: 40.0,
            so_far: Some(SoFar {
                best: Some(best),
                cells: 2,
                solved: 1,
                tried: 1,
            }),
            ..StepLine::default()
        };
        let one = Settings {
            problem: "dgemm".into(),
            ..Settings::default()
        };
        let said = told(&line, &one, 0);
        assert!(
            said.starts_with("step 3 · evaluation before · stage 0 "),
            "{said}"
        );
        let numbers = " · correct 50 % of 64 programs · mean 12.50 GFLOPS · best so far 38.00 GFLOPS (measured once) · 2 technique sets confirmed";
        assert!(said.ends_with(numbers), "{said}");
        // Speeds of different problems cannot be compared.
        let many = Settings {
            problems: vec!["dgemm".into(), "dot".into()],
            ..Settings::default()
        };
        let said = told(&line, &many, 2);
        let expected = "step 3 · evaluation before · correct 50 % of 64 programs · 1 of 2 problems solved · 2 technique sets confirmed";
        assert_eq!(said, expected);
        let poor = StepLine {
            correct_rate: 0.0,
            outcomes: [("compile_error", 3), ("format", 61), ("bus", 70)]
                .map(|(kind, count)| (kind.to_owned(), count))
                .into(),
            ..line
        };
        let said = told(&poor, &one, 0);
        assert!(
            said.ends_with(" · refused: format 61, compile_error 3"),
            "{said}"
        );
    }
}
