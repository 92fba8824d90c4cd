//! `flopsmith search`: searches for fast programs without a model.

use std::process::ExitCode;

use anyhow::Result;
use flopsmith_actors::source::schedule::Searching;
use flopsmith_config::search::{BUDGET, defaults, stage};
use flopsmith_config::{GeneratorKind, Job, Settings};
use flopsmith_problem::Problem;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::folder::{self, Folder};
use flopsmith_run::output::Output;
use flopsmith_run::summary::Summary;
use flopsmith_run::view::{self, Log};
use flopsmith_run::{durations, evaluator, paths, run, shell};

use crate::args::{Format, Search};
use crate::exit;

use super::train::{code, finish, refuse_with_resume};

/// Searches the schedule space of a problem.
pub fn run(args: &Search, log: &Log) -> Result<ExitCode> {
    let wait = args.run.wait.limit()?;
    let (folder, settings, output) = match &args.resume {
        None => {
            let mut settings = settings(args)?;
            args.run
                .join
                .apply(&mut settings, &args.run.set, Job::Search)?;
            let problem = searchable(&settings)?;
            evaluator::has_cores_of(&settings)?;
            let output = claim(args)?;
            run::check_services(&settings)?;
            let name = format!("{}{}", prefix(&problem), view::stamp());
            let text = toml::to_string(&settings)?;
            let folder = Folder::create(args.run.place.folder(), &name, &text, Job::Search)?;
            (folder, settings, output)
        }
        Some(name) => {
            refuse_with_resume(&[
                ("--set", !args.run.set.is_empty()),
                ("--seed (or FLOPSMITH_SEED)", args.seed.is_some()),
                ("--evaluations", args.evaluations > 0),
                ("--staged", args.staged),
                ("--workload", !args.workloads.names.is_empty()),
            ])?;
            let prefix = prefix(&paths::problem(&args.problem)?);
            let budget = args.budget.as_deref().map(durations::budget).transpose()?;
            let output = claim(args)?;
            let (folder, mut settings) =
                folder::resume(args.run.place.folder(), name, &prefix, Job::Search, budget)?;
            args.run.join.apply_again(&mut settings, Job::Search)?;
            searchable(&settings)?;
            evaluator::has_cores_of(&settings)?;
            if !folder.facts()?.finished {
                run::check_services(&settings)?;
            }
            (folder, settings, output)
        }
    };
    let resume = shell::resume_search(&args.problem, &folder.path);
    let ended = finish(Job::Search, settings, folder, log, &resume, wait)?;
    let mut code = code(&ended);
    match (&ended.summary.best, output) {
        (None, _) => {
            // An interrupted search that found nothing is no failure.
            if !ended.interrupted {
                let (found, hint) = fruitless(&ended.summary);
                say(ended.fruitless.as_ref().unwrap_or(&hint));
                if !ended.unwritten {
                    code = found;
                }
            }
        }
        (Some(best), Some(output)) => {
            // A program that cannot be written to its file must not suppress the rest of the result.
            if let Err(error) = output.write(&best.source) {
                say(&format!("error: {error:#}"));
                code = exit::INFRASTRUCTURE;
            }
        }
        (Some(best), None) if args.run.format == Format::Text => data(best.source.trim_end()),
        (Some(_), None) => {}
    }
    if args.run.format == Format::Json {
        data(&serde_json::to_string(&ended.summary)?);
    }
    Ok(ExitCode::from(code))
}

fn settings(args: &Search) -> Result<Settings> {
    let budget = args.budget.as_deref().map(durations::budget).transpose()?;
    let mut told = defaults(&args.problem, budget.unwrap_or(BUDGET));
    told.seed = args.seed.unwrap_or(told.seed);
    told.workloads = args.workloads.names.clone();
    if args.staged {
        stage(&mut told);
    }
    let text = toml::to_string(&told)?;
    let mut settings = flopsmith_config::parse(&text, "the settings of the search", &args.run.set)?;
    if args.evaluations > 0 {
        let per_step = u64::from(settings.tasks) * u64::from(settings.group_size);
        let steps = args.evaluations.div_ceil(per_step);
        // 0 means no limit.
        settings.max_steps = match settings.max_steps {
            0 => steps,
            most => most.min(steps),
        };
    }
    Ok(settings)
}

fn prefix(problem: &Problem) -> String {
    format!("search-{}-", problem.id)
}

/// Loads the problem, and checks that the generator can write programs for it.
fn searchable(settings: &Settings) -> Result<Problem> {
    let problem = paths::problem(&settings.problem)?;
    let problem = paths::selected(problem, &settings.workloads)?;
    if settings.generator.kind == GeneratorKind::Schedule
        && let Err(why) = Searching::of(&problem, settings.seed)
    {
        return Err(usage(format!(
            "`flopsmith search` cannot write programs for `{}`: {why}; `flopsmith train` takes any problem",
            problem.id
        )));
    }
    Ok(problem)
}

/// Checks at once that the output can be written, and not after the whole budget.
fn claim(args: &Search) -> Result<Option<Output>> {
    args.output.as_deref().map(Output::claim).transpose()
}

/// The exit code and the advice for a search without a verified program. If programs were judged, they are at fault; if
/// none could be judged, this machine is.
fn fruitless(summary: &Summary) -> (u8, String) {
    let outcomes: u64 = summary.outcomes.values().sum();
    let unknown = summary.outcomes.get("unknown").copied().unwrap_or(0);
    if outcomes > summary.infrastructure_errors + unknown {
        (
            exit::CANDIDATE,
            "the search found no verified program in this time; give a longer --budget, or read in outcomes.jsonl why programs were refused".into(),
        )
    } else {
        (
            exit::INFRASTRUCTURE,
            format!(
                "this machine could judge no program; `{} doctor` shows what the machine lacks, and flopsmith.log in the run's folder shows the errors",
                shell::program()
            ),
        )
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use clap::Parser;
    use flopsmith_archive::Advance;

    use super::*;
    use crate::args::{Args, Command};
    use flopsmith_run::summary::{Facts, summarise};

    fn told(flags: &[&str]) -> Settings {
        let typed = ["flopsmith", "search", "--problem", "dgemm"];
        let args = Args::try_parse_from(typed.iter().chain(flags).copied()).unwrap();
        let Command::Search(args) = args.command else {
            unreachable!("it is a search");
        };
        settings(&args).unwrap()
    }

    fn steps(flags: &[&str]) -> u64 {
        told(flags).max_steps
    }

    #[test]
    fn a_short_search_has_smaller_steps_and_a_staged_one_stages_by_its_budget() {
        let (short, usual) = (told(&["--budget", "60s"]), told(&[]));
        assert_eq!((short.tasks, short.evaluate.finalists), (2, 2));
        assert_eq!((usual.tasks, usual.evaluate.finalists), (4, 4));
        for settings in [short, usual] {
            settings.sqd.check().unwrap();
            assert_eq!(settings.sqd.stages.len(), 1, "all techniques at once");
        }
        for budget in ["60s", "10m"] {
            let settings = told(&["--staged", "--budget", budget]);
            settings.sqd.check().unwrap();
            assert_eq!(settings.sqd.stages.len(), 5);
            let Advance::BudgetShare { shares } = settings.sqd.advance else {
                unreachable!("it goes by the budget");
            };
            // The fastest programs are found in the last stage, which permits all techniques.
            assert!(*shares.last().unwrap() < 0.3);
        }
        // Settings that the user typed take precedence.
        let typed = told(&[
            "--budget",
            "60s",
            "--set",
            "tasks=8",
            "--set",
            "evaluate.finalists=1",
        ]);
        assert_eq!((typed.tasks, typed.evaluate.finalists), (8, 1));
    }

    #[test]
    fn a_search_of_which_nothing_could_be_judged_blames_the_machine() {
        let place = tempfile::tempdir().unwrap();
        let mut summary = summarise("s", place.path(), &Facts::default()).unwrap();
        let mut code = |kinds: &[(&str, u64)], infrastructure_errors| {
            let kinds = kinds.iter().map(|(kind, n)| ((*kind).to_owned(), *n));
            summary.outcomes = kinds.collect();
            summary.infrastructure_errors = infrastructure_errors;
            fruitless(&summary).0
        };
        assert_eq!(code(&[], 0), exit::INFRASTRUCTURE);
        assert_eq!(
            code(&[("store", 2), ("unknown", 3)], 2),
            exit::INFRASTRUCTURE
        );
        assert_eq!(
            code(&[("store", 2), ("unknown", 3), ("crash", 1)], 2),
            exit::CANDIDATE
        );
    }

    #[test]
    fn evaluations_are_counted_by_the_size_of_the_steps_that_are_made() {
        assert_eq!(steps(&[]), 0);
        assert_eq!(steps(&["--evaluations", "64"]), 2);
        let small = ["--set", "tasks=2", "--set", "group_size=4"];
        let with = |more: &[&'static str]| steps(&[&small[..], more].concat());
        assert_eq!(with(&["--evaluations", "64"]), 8);
        assert_eq!(with(&["--evaluations", "65"]), 9);
        // The lower limit counts.
        assert_eq!(with(&["--evaluations", "64", "--set", "max_steps=3"]), 3);
        assert_eq!(with(&["--evaluations", "64", "--set", "max_steps=30"]), 8);
    }
}
