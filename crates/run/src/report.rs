//! A run as the data of its report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_actors::role::recorder::{StepLine, files, step_lines};
use flopsmith_config::Settings;
use flopsmith_machine::roofline::Place;
use flopsmith_protocol::{Outcome, PolicyPublished, ProblemId, Purpose, StageChanged};
use flopsmith_report::{
    Best, Command, Moment, OfProblem, OpenBlas, ProblemStep, RunReport, StageChange, StepMetrics,
    Summary,
};

use crate::summary::{self, Facts, Samples};
use crate::{archive_view, folder, paths, roofline, shell, start, view};

mod measured;

/// The report in a run's folder.
pub const FILE: &str = "report.html";

/// Writes the report into the run's folder.
///
/// # Errors
/// If a file of the run cannot be read or the report cannot be written.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let path = folder.join(FILE);
    write_page(&path, &gather(folder)?)?;
    write_problems(folder)?;
    Ok(path)
}

/// Writes the page of each problem of a run over many into the run's folder.
///
/// # Errors
/// If a file of the run cannot be read or a page cannot be written.
pub fn write_problems(folder: &Path) -> Result<()> {
    let facts = folder::read_facts(folder)?;
    if facts.problems.is_empty() {
        return Ok(());
    }
    // Read once for all pages: the outcomes of a long run are many megabytes.
    let outcomes = summary::outcomes(folder)?;
    let begun = summary::has_begun(&outcomes);
    let mut outcomes = summary::by_problem(outcomes);
    let name = name_of(folder);
    for problem in &facts.problems {
        let mine = outcomes.remove(problem).unwrap_or_default();
        let path = folder.join(page_of(problem));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        let of_problem = (&mine[..], begun);
        let summary = summary::summarise_problem(&name, folder, &facts, problem, of_problem)?;
        let report = gather_of(folder, &facts, Some(problem), summary, &mine)?;
        write_page(&path, &report)?;
    }
    Ok(())
}

fn write_page(path: &Path, report: &RunReport) -> Result<()> {
    std::fs::write(path, flopsmith_report::html(report))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The page of a problem, inside the run's folder.
fn page_of(problem: &ProblemId) -> String {
    format!("problems/{problem}.html")
}

/// Everything that the report of a run shows.
///
/// # Errors
/// If a file of the run cannot be read.
pub fn gather(folder: &Path) -> Result<RunReport> {
    let facts = folder::read_facts(folder)?;
    let summary = summary::summarise(&name_of(folder), folder, &facts)?;
    gather_of(folder, &facts, None, summary, &summary::outcomes(folder)?)
}

/// The name of a run, which is that of its folder.
fn name_of(folder: &Path) -> String {
    let name = folder.file_name().and_then(|n| n.to_str());
    name.unwrap_or("run").to_owned()
}

/// Everything that the report of a run shows, or the page of one problem of a run over many. Summary and outcomes are those
/// of the run or of the problem.
fn gather_of(
    folder: &Path,
    facts: &Facts,
    of: Option<&ProblemId>,
    summary: summary::Summary,
    outcomes: &[Outcome],
) -> Result<RunReport> {
    let settings_text =
        flopsmith_config::read_text(&folder.join("config.toml")).unwrap_or_default();
    let mut settings = flopsmith_config::parse(&settings_text, "config.toml", &[])?;
    // Users pass reports on, so credentials are removed from the address.
    settings.nats = flopsmith_bus::public(&settings.nats);
    // The files of a stream's nests are nowhere, so no command can name them.
    let streamed = settings.is_stream();
    if let Some(problem) = of {
        narrow(&mut settings, facts, problem);
    }
    let stage_name = |stage: u32| {
        settings
            .sqd
            .stages()
            .get(stage as usize)
            .map_or_else(|| stage.to_string(), |s| s.name.clone())
    };
    let lines: Vec<StepLine> = match of {
        Some(_) => step_lines(outcomes.iter()),
        None => summary::lines(&folder.join(files::METRICS))?,
    };
    let trained: Vec<PolicyPublished> = summary::lines(&folder.join(files::TRAINING))?;
    let mut changes: Vec<StageChanged> = summary::lines(&folder.join(files::STAGES))?;
    changes.retain(|change| of.is_none_or(|problem| change.problem == *problem));
    let learned: BTreeMap<u64, _> = trained
        .iter()
        .filter_map(|p| Some((p.step, p.metrics.as_ref()?)))
        // A step whose update was left out has no metrics to show.
        // The learner's numbers are of all problems of a step.
        .filter(|(_, m)| m.skipped_updates == 0 && of.is_none())
        .collect();
    let mut machines = summary::machines(folder)?;
    if of.is_some() {
        machines.retain(|machine| machine.problem.as_ref() == of);
    }
    let machine = summary::machine_of(&machines, summary.best.as_ref());
    let many = of.is_none() && !facts.problems.is_empty();
    // Cells of different problems have nothing in common.
    let archive = match many {
        true => None,
        false => archive_view::archive(outcomes, settings.sqd.techniques),
    };
    let mut steps: Vec<StepMetrics> = lines
        .iter()
        .map(|line| {
            let metrics = learned.get(&line.step);
            StepMetrics {
                step: line.step,
                stage: line.stage,
                stage_name: match line.purpose {
                    Some(Purpose::EvaluateStart | Purpose::EvaluateEnd) => "evaluation".into(),
                    // Each problem has stages of its own.
                    _ if many => String::new(),
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
            let algorithm = settings.algorithm().name();
            let archive = if settings.sqd.enabled {
                " with Staged Quality-Diversity"
            } else {
                ""
            };
            format!("{}: {algorithm}{archive}", settings.about_problems())
        } else {
            format!("{}: search {}", settings.problem, settings.about_search())
        },
        run: name_of(folder),
        started: started(facts.started_unix_ms),
        summary: Summary {
            steps: summary.steps,
            seconds: summary.seconds,
            spent_seconds: summary.spent_seconds,
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
        problems: match many {
            true => problems(&summary, outcomes),
            false => Vec::new(),
        },
        stage_changes: changes
            .iter()
            .map(|c| StageChange {
                step: c.step,
                from: stage_name(c.from),
                to: stage_name(c.to),
                reason: c.reason.clone(),
            })
            .filter(|_| !many)
            .collect(),
        techniques: settings.sqd.techniques,
        cells: archive
            .as_ref()
            .map(|a| archive_view::rows(a, outcomes))
            .unwrap_or_default(),
        archive: archive.as_ref().map(archive_view::stats),
        best: summary
            .best
            .as_ref()
            .map(|of| best(of, summary.roofline.as_ref())),
        peak_gflops: summary.peak_gflops,
        reference_gflops: summary.reference_gflops,
        openblas: summary.openblas_gflops.map(|gflops| OpenBlas {
            gflops,
            core: summary.openblas_core.clone(),
            version: summary.openblas_version.clone(),
        }),
        corpus_best_gflops: summary.corpus_best_gflops,
        corpus_best_note: summary.corpus_best_wider.map(summary::WiderVectors::words),
        start_gflops: summary.start_program.as_ref().and_then(|s| s.gflops),
        roofline: machine
            .filter(|_| !many)
            .and_then(|m| roofline::of_run(folder, &settings, m, summary.best.as_ref())),
        sizes: (!many)
            .then(|| roofline::of_folder(folder, &settings.problem, &settings.workloads))
            .flatten()
            .map(|problem| measured::sizes(&problem)),
        noise: measured::noise(outcomes, &summary, &settings),
        attestation: machine
            .and_then(|m| serde_json::from_str(&m.attestation_json).ok())
            .unwrap_or_default(),
        config_toml: shown(&settings_text),
        commands: commands(folder, train, &settings, of.filter(|_| !streamed)),
    })
}

fn best(best: &summary::Best, place: Option<&Place>) -> Best {
    Best {
        gflops: best.gflops,
        ratio: best.ratio_to_reference,
        interval: best.interval,
        techniques: best.techniques,
        vector_bits: best.vector_bits,
        step: Some(best.step),
        measured_again: best.measured_again,
        samples: best.samples.clone(),
        source: best.source.clone(),
        workloads: best.workloads.clone(),
        sizes: best.sizes,
        call: best.call,
        gb_per_second: place.and_then(|place| roofline::gb_per_second(place, best.gflops)),
    }
}

/// Turns the settings and the rules of a run over many problems into those of one of them.
pub(crate) fn narrow(settings: &mut Settings, facts: &Facts, problem: &ProblemId) {
    // The settings may name the problem by its folder.
    let names = facts.problems.iter().zip(&settings.problems);
    let mut names = names.filter(|(id, _)| *id == problem);
    settings.problem = names
        .next()
        .map_or_else(|| problem.to_string(), |(_, name)| name.clone());
    settings.problems.clear();
    if settings.is_stream() {
        settings.sqd.enabled = false;
        settings.suite.clear();
    }
    // The stages are those of an unedited definition; without one they are those of the run.
    if let Ok(definition) = paths::any(&settings.problem) {
        let definition = start::permitting(definition, settings);
        settings.sqd = settings.sqd.within(definition.techniques);
    }
}

/// The problems of a run over many: one for each, also those without a correct program.
fn problems(summary: &summary::Summary, outcomes: &[Outcome]) -> Vec<OfProblem> {
    let of_problem = |problem: &ProblemId| {
        let mine = outcomes.iter().filter(|o| o.candidate.problem == *problem);
        let lines = step_lines(mine.clone());
        let ratios = best_ratios(mine);
        let steps = lines.into_iter().map(|line| ProblemStep {
            step: line.step,
            correct_rate: line.correct_rate,
            best_ratio: ratios.get(&line.step).copied(),
        });
        steps.collect()
    };
    let rows = summary.problems.iter().map(|row| OfProblem {
        problem: row.problem.to_string(),
        judged: row.judged_programs,
        correct: row.correct_programs,
        coverage: row.coverage,
        best: row.best.as_ref().map(|of| best(of, None)),
        lacks: match row.best {
            Some(_) => String::new(),
            None => row.lacks(),
        },
        page: page_of(&row.problem),
        steps: of_problem(&row.problem),
    });
    rows.collect()
}

/// The best ratio of each step with a first measurement that converged.
fn best_ratios<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> BTreeMap<u64, f64> {
    let mut ratios: BTreeMap<u64, f64> = BTreeMap::new();
    for outcome in outcomes.filter(|o| o.candidate.purpose != Purpose::Certify) {
        let measured = outcome.verdict.measurement();
        if let Some(measurement) = measured.filter(|m| m.converged()) {
            let best = ratios.entry(outcome.candidate.step).or_default();
            *best = best.max(measurement.ratio);
        }
    }
    ratios
}

fn commands(
    folder: &Path,
    train: bool,
    settings: &Settings,
    of: Option<&ProblemId>,
) -> Vec<Command> {
    let (what, again) = if train {
        ("the same run again", shell::train_again(folder))
    } else {
        let defaults =
            flopsmith_config::search::defaults(&settings.problem, settings.budget_seconds);
        let line = shell::search_again(settings, &defaults, folder);
        ("the same search again", line)
    };
    // The best programs of a run over many problems are timed by the commands of their own pages.
    let one = of.is_some() || folder::read_facts(folder).is_ok_and(|f| f.problems.is_empty());
    let bench = one.then(|| shell::bench(folder, settings, of));
    let all = [
        (what, Some(again)),
        ("time the best program", bench),
        ("write this page again", Some(shell::report(folder))),
    ];
    let known = all
        .into_iter()
        .filter_map(|(what, line)| Some((what, line?)));
    known
        .map(|(what, line)| Command {
            what: what.into(),
            line,
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{Measured, candidate, remeasured};

    use super::*;

    #[test]
    fn an_unconverged_ratio_is_not_the_best_of_a_step() {
        let unsure = |step| {
            Measured::at(95.0)
                .unconverged()
                .outcome(candidate(step, 0, 0))
        };
        let outcomes = [
            unsure(1),
            unsure(2),
            Measured::at(8.0).outcome(candidate(2, 0, 1)),
            Measured::at(9.0).outcome(remeasured(&candidate(2, 0, 1), 1)),
        ];
        let ratios = best_ratios(outcomes.iter());
        assert_eq!(ratios, BTreeMap::from([(2, 8.0)]));
    }
}
