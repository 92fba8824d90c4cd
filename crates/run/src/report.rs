//! A run as the data of its report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_actors::role::recorder::{StepLine, files};
use flopsmith_config::Settings;
use flopsmith_protocol::{PolicyPublished, Purpose, StageChanged};
use flopsmith_report::{
    Best, Command, Moment, OpenBlas, RunReport, StageChange, StepMetrics, Summary,
};

use crate::summary::{self, Samples};
use crate::{archive_view, folder, roofline, shell, view};

/// The report in a run's folder.
pub const FILE: &str = "report.html";

/// Writes the report into the run's folder.
///
/// # Errors
/// If a file of the run cannot be read or the report cannot be written.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let path = folder.join(FILE);
    let html = flopsmith_report::html(&gather(folder)?);
    std::fs::write(&path, html).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Everything that the report of a run shows.
///
/// # Errors
/// If a file of the run cannot be read.
pub fn gather(folder: &Path) -> Result<RunReport> {
    let name = folder
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("run")
        .to_owned();
    let facts = folder::read_facts(folder)?;
    let summary = summary::summarise(&name, folder, &facts)?;
    let outcomes = summary::outcomes(folder)?;
    let settings_text =
        flopsmith_config::read_text(&folder.join("config.toml")).unwrap_or_default();
    let mut settings = flopsmith_config::parse(&settings_text, "config.toml", &[])?;
    // Users pass reports on, so credentials are removed from the address.
    settings.nats = flopsmith_bus::public(&settings.nats);
    let stage_name = |stage: u32| {
        settings
            .sqd
            .stages()
            .get(stage as usize)
            .map_or_else(|| stage.to_string(), |s| s.name.clone())
    };
    let lines: Vec<StepLine> = summary::lines(&folder.join(files::METRICS))?;
    let trained: Vec<PolicyPublished> = summary::lines(&folder.join(files::TRAINING))?;
    let changes: Vec<StageChanged> = summary::lines(&folder.join(files::STAGES))?;
    let learned: BTreeMap<u64, _> = trained
        .iter()
        .filter_map(|p| Some((p.step, p.metrics.as_ref()?)))
        // A step whose update was left out has no metrics to show.
        .filter(|(_, m)| m.skipped_updates == 0)
        .collect();
    let machines = summary::machines(folder)?;
    let machine = summary::machine_of(&machines, summary.best.as_ref());
    let archive = archive_view::archive(&outcomes, settings.sqd.techniques);
    let mut steps: Vec<StepMetrics> = lines
        .iter()
        .map(|line| {
            let metrics = learned.get(&line.step);
            StepMetrics {
                step: line.step,
                stage: line.stage,
                stage_name: match line.purpose {
                    Some(Purpose::EvaluateStart | Purpose::EvaluateEnd) => "evaluation".into(),
                    _ => stage_name(line.stage),
                },
                seconds: line.ended_unix_ms.saturating_sub(facts.started_unix_ms) as f64 / 1000.0,
                samples: u64::from(line.samples),
                correct_rate: line.correct_rate,
                mean_gflops: line.mean_gflops,
                best_gflops: line.best_gflops,
                mean_reward: metrics.map(|m| m.mean_reward),
                kl: metrics.map(|m| m.kl),
                entropy: metrics.map(|m| m.entropy),
                ppo: metrics.and_then(|m| m.ppo),
                distinct_correct: Some(u64::from(line.distinct_correct)),
                outcomes: line.outcomes.clone(),
            }
        })
        .collect();
    steps.sort_by_key(|s| s.step);
    let train = facts.job == "train";
    Ok(RunReport {
        title: if train {
            let algorithm = if settings.ppo.is_some() {
                "PPO"
            } else {
                "GRPO"
            };
            let archive = if settings.sqd.enabled {
                " with Staged Quality-Diversity"
            } else {
                ""
            };
            format!("{}: {algorithm}{archive}", settings.problem)
        } else {
            let parameters = settings.start.as_ref().is_some_and(|s| s.has_parameters());
            let how = match &settings.generator.endpoint {
                Some(endpoint) => format!("by {}", endpoint.model),
                None if parameters => "over configurations of parameters".into(),
                None => "over the schedule space".into(),
            };
            format!("{}: search {how}", settings.problem)
        },
        run: name,
        started: started(facts.started_unix_ms),
        summary: Summary {
            steps: summary.steps,
            seconds: summary.seconds,
            start: summary.start.as_ref().map(moment),
            end: summary.end.as_ref().map(moment),
            coverage: summary.coverage,
            coverage_unconfirmed: summary.coverage_unconfirmed,
            outcomes: summary.outcomes.clone(),
            unreadable_outcomes: summary.unreadable_outcomes,
            infrastructure_errors: summary.infrastructure_errors,
            dead_letters: summary.dead_letters,
            share_of_time: summary.share_of_time.clone(),
            peak_memory_bytes: summary.peak_memory_bytes,
            finished: summary.finished,
        },
        steps,
        stage_changes: changes
            .iter()
            .map(|c| StageChange {
                step: c.step,
                from: stage_name(c.from),
                to: stage_name(c.to),
                reason: c.reason.clone(),
            })
            .collect(),
        techniques: settings.sqd.techniques,
        cells: archive
            .as_ref()
            .map(|a| archive_view::rows(a, &outcomes))
            .unwrap_or_default(),
        archive: archive.as_ref().map(archive_view::stats),
        best: summary.best.as_ref().map(|b| Best {
            gflops: b.gflops,
            ratio: b.ratio_to_reference,
            interval: b.interval,
            techniques: b.techniques,
            vector_bits: b.vector_bits,
            step: Some(b.step),
            measured_again: b.measured_again,
            samples: b.samples.clone(),
            source: b.source.clone(),
            workloads: b.workloads.clone(),
        }),
        peak_gflops: summary.peak_gflops,
        reference_gflops: summary.reference_gflops,
        openblas: summary.openblas_gflops.map(|gflops| OpenBlas {
            gflops,
            core: summary.openblas_core.clone(),
        }),
        corpus_best_gflops: summary.corpus_best_gflops,
        start_gflops: summary.start_program.as_ref().and_then(|s| s.gflops),
        roofline: machine
            .and_then(|m| roofline::of_run(folder, &settings, m, summary.best.as_ref())),
        attestation: machine
            .and_then(|m| serde_json::from_str(&m.attestation_json).ok())
            .unwrap_or_default(),
        config_toml: shown(&settings_text),
        commands: commands(folder, train, &settings),
    })
}

fn commands(folder: &Path, train: bool, settings: &Settings) -> Vec<Command> {
    let (what, again) = if train {
        ("the same run again", shell::train_again(folder))
    } else {
        let defaults =
            flopsmith_config::search::defaults(&settings.problem, settings.budget_seconds);
        let line = shell::search_again(settings, &defaults, folder);
        ("the same search again", line)
    };
    [
        (what, again),
        ("time the best program", shell::bench(folder, settings)),
        ("write this page again", shell::report(folder)),
    ]
    .map(|(what, line)| Command {
        what: what.into(),
        line,
    })
    .into()
}

fn started(unix_ms: u64) -> String {
    let stamp = view::stamp_of(unix_ms / 1000);
    format!(
        "{}-{}-{} {}:{} UTC",
        &stamp[..4],
        &stamp[4..6],
        &stamp[6..8],
        &stamp[9..11],
        &stamp[11..13]
    )
}

fn moment(samples: &Samples) -> Moment {
    Moment {
        samples: samples.samples,
        correct_rate: samples.correct_rate,
        build_rate: samples.build_rate,
        mean_gflops: samples.mean_gflops,
        mean_gflops_correct: samples.mean_gflops_correct,
        distinct_correct: samples.distinct_correct,
    }
}
/// A configuration without the credentials of the bus.
fn shown(config: &str) -> String {
    let Ok(mut table) = config.parse::<toml::Table>() else {
        return String::new();
    };
    if let Some(toml::Value::String(nats)) = table.get_mut("nats") {
        *nats = flopsmith_bus::public(nats);
    }
    table.to_string()
}
