//! `flopsmith search`: searches for fast programs without a model.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use flopsmith_bench::inputs::Program;
use flopsmith_config::search::{BUDGET, ask, defaults, improve, stage};
use flopsmith_config::{Endpoint, GeneratorKind, Job, Settings, Start};
use flopsmith_generator::parameters::Configurations;
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{CandidateFault, Failure, Technique, text};
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::digits::counted;
use flopsmith_run::folder::{self, Folder};
use flopsmith_run::output::Output;
use flopsmith_run::summary::Summary;
use flopsmith_run::view::{self, Log};
use flopsmith_run::{durations, endpoint, evaluator, paths, results, run, shell, start, warm};

use crate::args::{Format, Search};
use crate::exit;

use super::train::{code, finish, object, refuse_with_resume};

mod space;

use space::{has_others, searchable};

/// Searches the schedule space of a problem, or the configurations of the user's own program.
pub fn run(args: &Search, log: &Log) -> Result<ExitCode> {
    let wait = args.run.wait.limit()?;
    let (folder, settings, output) = match &args.resume {
        None => {
            let mut settings = settings(args)?;
            paths::settle_pool(&mut settings)?;
            args.run
                .join
                .apply(&mut settings, &args.run.set, Job::Search)?;
            begin(args, &mut settings)?;
            endpoint::prepare(&mut settings)?;
            evaluator::has_cores_of(&settings)?;
            check_results(args, &settings)?;
            // Before the words about what the search varies, which mean nothing for a program with typing errors.
            builds(args, &settings)?;
            let problem = searchable(&mut settings)?;
            warm_up(args, &mut settings, &problem);
            let output = claim(args)?;
            run::check_services(&settings)?;
            let name = format!("{}{}", prefix(&problem), view::stamp());
            let text = toml::to_string(&settings)?;
            let folder = Folder::create(args.run.place.folder(), &name, &text, Job::Search)?;
            if let Some(own) = &settings.start {
                start::keep(&folder.path, own, problem.language)
                    .inspect_err(|_| folder.discard_unless_begun())?;
            }
            (folder, settings, output)
        }
        Some(name) => {
            refuse_with_resume(&[
                ("--set (or FLOPSMITH_SEARCH_SET)", !args.run.set.is_empty()),
                ("--seed (or FLOPSMITH_SEED)", args.seed.is_some()),
                (
                    "--evaluations (or FLOPSMITH_SEARCH_EVALUATIONS)",
                    args.evaluations > 0,
                ),
                ("--agent (or FLOPSMITH_SEARCH_AGENT)", args.agent),
                ("--staged (or FLOPSMITH_SEARCH_STAGED)", args.staged),
                ("--cold (or FLOPSMITH_SEARCH_COLD)", args.cold),
                (
                    "--workload (or FLOPSMITH_SEARCH_WORKLOAD)",
                    !args.workloads.names.is_empty(),
                ),
                ("--start (or FLOPSMITH_SEARCH_START)", args.start.is_some()),
                (
                    "--max-source (or FLOPSMITH_SEARCH_MAX_SOURCE)",
                    args.max_source.is_some(),
                ),
                (
                    "--parameters (or FLOPSMITH_SEARCH_PARAMETERS)",
                    args.parameters.is_some(),
                ),
            ])?;
            let prefix = prefix(&paths::any(&args.problem)?);
            let budget = args.budget.as_deref().map(durations::budget).transpose()?;
            let output = claim(args)?;
            let (folder, mut settings) =
                folder::resume(args.run.place.folder(), name, &prefix, Job::Search, budget)?;
            check_results(args, &settings)?;
            args.run.join.apply_again(&mut settings, Job::Search)?;
            searchable(&mut settings)?;
            evaluator::has_cores_of(&settings)?;
            let has_ended = folder.facts()?.finished;
            if let Some(word) = &args.endpoint {
                let endpoint = Endpoint::named(word)?;
                match has_ended {
                    true => say("this run has come to its end, so --endpoint has no effect"),
                    false => {
                        endpoint::change(&mut settings, endpoint)?;
                        // The run's own settings change only if this process can use the new ones.
                        endpoint::prepare(&mut settings)?;
                        folder.write_settings(&settings)?;
                    }
                }
            }
            if !has_ended {
                endpoint::prepare(&mut settings)?;
                run::check_services(&settings)?;
            }
            (folder, settings, output)
        }
    };
    let resume = shell::resume_search(&args.problem, &folder.path);
    let space = start::configurations(&settings)?;
    let problem = match takes_warm_start(&settings) {
        true => Some(paths::problem_of(&settings)?),
        false => None,
    };
    let path = folder.path.clone();
    let ended = finish(Job::Search, settings, folder, log, &resume, wait)?;
    let mut code = code(&ended);
    // A later search can do without.
    if let Some(problem) = problem
        && let Err(error) = warm::keep(&path, &problem)
    {
        say(&format!("warning: {error:#}"));
    }
    if let Some(space) = space
        && let Err(error) = write_results(&path, &space, output.results)
    {
        say(&format!("error: {error:#}"));
        code = exit::INFRASTRUCTURE;
    }
    match (&ended.summary.best, output.best) {
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
            let path = output.path().to_owned();
            // A program that cannot be written to its file must not suppress the rest of the result.
            match output.write(&best.source) {
                Ok(()) => say(&format!("program      {}", path.display())),
                Err(error) => {
                    say(&format!("error: {error:#}"));
                    code = exit::INFRASTRUCTURE;
                }
            }
        }
        (Some(best), None) if args.run.format == Format::Text => data(best.source.trim_end()),
        (Some(_), None) => {}
    }
    if args.run.format == Format::Json {
        data(&object(&ended.summary, &path)?);
    }
    Ok(ExitCode::from(code))
}

fn settings(args: &Search) -> Result<Settings> {
    let budget = args.budget.as_deref().map(durations::budget).transpose()?;
    let mut told = defaults(&args.problem, budget.unwrap_or(BUDGET));
    told.seed = args.seed.unwrap_or(told.seed);
    told.workloads = args.workloads.names.clone();
    if let Some(word) = &args.endpoint {
        ask(&mut told, Endpoint::named(word)?);
    }
    if args.agent {
        improve(&mut told);
    }
    if args.staged {
        stage(&mut told);
    }
    let read = |told: &Settings| -> Result<Settings> {
        let text = toml::to_string(told)?;
        let settings = flopsmith_config::parse(&text, "the settings of the search", &args.run.set)?;
        Ok(settings)
    };
    let mut settings = read(&told)?;
    if args.agent {
        // A cell has a place for each island, however many the user wants.
        told.generator.agent.islands = settings.generator.agent.islands;
        improve(&mut told);
        settings = read(&told)?;
    }
    if args.evaluations > 0 {
        let steps = args.evaluations.div_ceil(per_step(&settings));
        settings.max_steps = least(settings.max_steps, steps);
    }
    Ok(settings)
}

fn prefix(problem: &Problem) -> String {
    format!("search-{}-", problem.id)
}

/// Reads the program with which the search begins, and its parameters, and says what the search makes of them.
fn begin(args: &Search, settings: &mut Settings) -> Result<()> {
    let Some(file) = first_program(args, settings)? else {
        if settings.generator.endpoint.is_some() {
            permit_all(args, settings, &paths::problem_of(settings)?);
        }
        return Ok(());
    };
    if !settings.generator.kind.takes_start() {
        return Err(usage(format!(
            "--start begins a search without a model or with --agent, and `generator.kind` is \"{}\"; leave it out, or add --agent",
            settings.generator.kind.name()
        )));
    }
    let mut problem = paths::problem_of(settings)?;
    if let Some(bytes) = args.max_source {
        problem.max_source_bytes = bytes as usize;
    }
    let program = Program::read_for(&file, &problem)?;
    if let Some(language) = program.language.filter(|l| *l != problem.language) {
        return Err(usage(format!(
            "{} is in {}, and programs for problem {} are in {}; name a program for this problem",
            program.name,
            language.name(),
            problem.id,
            problem.language.name()
        )));
    }
    let read = |file: &Path| {
        let text = std::fs::read(file).and_then(text::decode);
        text.map_err(|e| usage(format!("cannot read {}: {e}", file.display())))
    };
    let text = args.parameters.as_deref().map(read).transpose()?;
    let name = args
        .parameters
        .as_ref()
        .map(|file| file.display().to_string());
    let parameters = name.as_deref().zip(text);
    let checked = start::check(
        (program.name.as_str(), program.source),
        parameters,
        &problem,
    )?;
    if let Some(name) = name {
        let steps = checked.start.configurations.div_ceil(per_step(settings));
        settings.max_steps = least(settings.max_steps, steps);
        say(&format!(
            "{name}: {}",
            counted(checked.start.configurations, "configuration")
        ));
        if !checked.ignored.is_empty() {
            say(&format!(
                "{name}: the problem decides instead of {}",
                checked.ignored.join(", ")
            ));
        }
    }
    permit_all(args, settings, &problem);
    settings.start = Some(Start {
        max_source_bytes: args.max_source,
        ..checked.start
    });
    Ok(())
}

/// Builds the user's own program, unless it has parameters or workers build it: a typing error must not cost a run.
///
/// # Errors
/// Wrong usage: the program does not compile. Failures that keep this machine from building programs.
fn builds(args: &Search, settings: &Settings) -> Result<()> {
    let (Some(file), Some(start)) = (&args.start, &settings.start) else {
        return Ok(());
    };
    if start.has_parameters() || settings.evaluate.workers {
        return Ok(());
    }
    let problem = Arc::new(paths::problem_of(settings)?);
    if !problem.takes_the_compiler() {
        return Ok(());
    }
    let weaker = settings.evaluate.allow_weaker_jail;
    let evaluator = evaluator::open(problem, &settings.evaluate.compiler, weaker)?;
    let built = evaluator.compiler.compile_as(
        evaluator.problem.language,
        &evaluator.problem,
        &start.source,
        evaluator.permitted(),
    );
    match built {
        Err(Failure::Candidate {
            fault: CandidateFault::CompileError,
            detail,
        }) => {
            let file = file.display().to_string();
            let why = first_error(&detail, &file);
            let or_else = match has_others(&evaluator.problem, settings) {
                true => ", or leave --start out",
                false => "",
            };
            Err(usage(format!(
                "{file} does not compile: {why}; correct it{or_else}"
            )))
        }
        // The run tells of every other failure, as it does of all its programs.
        _ => Ok(()),
    }
}

/// The first error that a compiler reports, with the user's name of the file in place of that in the jail.
fn first_error(said: &str, file: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or_default();
    let error = lines.find(|line| line.to_lowercase().contains("error"));
    let mut error = error.unwrap_or(first).to_owned();
    for end in Language::ALL.into_iter().flat_map(Language::endings) {
        error = error.replace(&format!("kernel.{end}:"), &format!("{file}:"));
    }
    error
}

/// The file of the program with which the search begins: the user's, or for a problem without a space of programs a shipped one.
fn first_program(args: &Search, settings: &Settings) -> Result<Option<PathBuf>> {
    if args.start.is_some() || !settings.generator.has_space() {
        return Ok(args.start.clone());
    }
    let shipped = paths::problem_of(settings)?.shipped_program();
    if let Some(file) = &shipped {
        let shown = file.display();
        say(&format!(
            "start        {shown}, whose numbers the search varies (--start names another program)"
        ));
    }
    Ok(shipped)
}

/// True if the search proposes schedules, or values of a template.
fn takes_warm_start(settings: &Settings) -> bool {
    let has_parameters = settings.start.as_ref().is_some_and(|s| s.has_parameters());
    let has_space = settings.start_share() < 1.0;
    settings.generator.kind == GeneratorKind::Schedule && !has_parameters && has_space
}

/// Lets the search begin with the schedules of earlier ones for the same loops, and says so.
fn warm_up(args: &Search, settings: &mut Settings, problem: &Problem) {
    if args.cold || !takes_warm_start(settings) {
        return;
    }
    let warm = warm::find(args.run.place.folder(), problem);
    if !warm.programs.is_empty() {
        let count = counted(warm.programs.len() as u64, "schedule");
        say(&format!(
            "warm start   {count} of {} first (--cold leaves them out)",
            warm.runs.join(", ")
        ));
        settings.warm_start = warm.programs;
    }
}

/// Permits every technique that is looked for, also those that the schedule space has no programs with: a user or a language
/// model may write programs with them.
fn permit_all(args: &Search, settings: &mut Settings, problem: &Problem) {
    let mut sets = args.run.set.iter();
    if !sets.any(|set| set.starts_with("sqd.techniques")) {
        let more = problem.techniques.without(Technique::Openmp);
        settings.sqd.techniques = settings.sqd.techniques.union(more);
    }
}

/// Number of programs of a whole step.
fn per_step(settings: &Settings) -> u64 {
    (u64::from(settings.tasks) * u64::from(settings.group_size)).max(1)
}

/// The lower one of two limits, of which 0 is none.
fn least(most: u64, steps: u64) -> u64 {
    match most {
        0 => steps,
        most => most.min(steps),
    }
}

/// The files that the user named for the result.
struct Outputs {
    best: Option<Output>,
    results: Option<Output>,
}

/// Checks that the search has the results that the user asked for.
fn check_results(args: &Search, settings: &Settings) -> Result<()> {
    let has_parameters = settings.start.as_ref().is_some_and(|s| s.has_parameters());
    if args.results.is_some() && !has_parameters {
        return Err(usage(
            "--results writes the results of configurations, and this search has none; give --parameters, or leave it out",
        ));
    }
    Ok(())
}

/// Checks at once that the outputs can be written, and not after the whole budget.
fn claim(args: &Search) -> Result<Outputs> {
    Ok(Outputs {
        best: args.output.as_deref().map(Output::claim).transpose()?,
        results: args.results.as_deref().map(Output::claim).transpose()?,
    })
}

/// Writes the results of the configurations into the run's folder, and to the file that the user named.
fn write_results(folder: &Path, space: &Configurations, named: Option<Output>) -> Result<()> {
    let path = results::write(folder, space, &folder::read_facts(folder)?)?;
    say(&format!("results      {}", path.display()));
    if let Some(named) = named {
        let text = std::fs::read(&path);
        named.write(text.with_context(|| format!("cannot read {}", path.display()))?)?;
    }
    Ok(())
}

/// The exit code and the advice for a search without a verified program. If programs were judged, they are at fault; if
/// none could be judged, this machine is.
fn fruitless(summary: &Summary) -> (u8, String) {
    let outcomes: u64 = summary.outcomes.values().sum();
    let unknown = summary.outcomes.get("unknown").copied().unwrap_or(0);
    if summary
        .endpoint
        .is_some_and(|asked| asked.requests == asked.failed)
    {
        return (
            exit::INFRASTRUCTURE,
            "the endpoint answered no request; requests.jsonl and outcomes.jsonl in the run's folder say why".into(),
        );
    }
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

    #[test]
    fn the_first_error_of_a_compiler_names_the_users_file() {
        let said = "kernel.c: In function 'dgemm':\nkernel.c:3:5: error: expected ';'\nkernel.c:9:1: error: more\n";
        let expected = "tries/mine.c:3:5: error: expected ';'";
        assert_eq!(first_error(said, "tries/mine.c"), expected);
        assert_eq!(first_error("\nkilled\n", "mine.c"), "killed");
        assert_eq!(first_error("", "mine.c"), "");
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
    fn an_agent_makes_small_steps_on_its_islands() {
        let settings = told(&["--agent", "--evaluations", "300"]);
        assert_eq!(settings.generator.kind, GeneratorKind::Agent);
        assert_eq!((settings.tasks, settings.group_size), (4, 4));
        assert_eq!(settings.max_steps, 19);
        let places = |set: &[&str]| {
            let sets = set.iter().flat_map(|set| ["--set", *set]);
            told(&std::iter::once("--agent").chain(sets).collect::<Vec<_>>())
                .sqd
                .elites_per_cell
        };
        assert_eq!(places(&[]), 4);
        assert_eq!(places(&["generator.agent.islands=9"]), 9);
        let both = ["generator.agent.islands=9", "sqd.elites_per_cell=2"];
        assert_eq!(places(&both), 2);
        let asked = ["--agent", "--endpoint", "http://127.0.0.1:1/v1#m"];
        let settings = told(&asked);
        assert_eq!(settings.generator.kind, GeneratorKind::Agent);
        assert_eq!((settings.tasks, settings.group_size), (2, 4));
    }

    #[test]
    fn a_model_behind_an_endpoint_is_asked_by_the_full_prompt() {
        let asked = ["--endpoint", "http://127.0.0.1:1/v1#m"];
        let set = ["--set", "generator.endpoint.concurrency=3"];
        let settings = told(&[&asked[..], &set].concat());
        let endpoint = settings.generator.endpoint.as_deref().unwrap();
        assert_eq!((endpoint.model.as_str(), endpoint.concurrency), ("m", 3));
        assert_eq!(settings.generator.kind, GeneratorKind::Endpoint);
        assert_eq!(settings.generator.prompt, flopsmith_config::Prompt::Full);
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
        let mut silent = summarise("s", place.path(), &Facts::default()).unwrap();
        silent.endpoint = Some(Default::default());
        let (code_of_silence, words) = fruitless(&silent);
        assert_eq!(code_of_silence, exit::INFRASTRUCTURE);
        assert!(
            words.contains("the endpoint answered no request"),
            "{words}"
        );
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
        // A model behind an endpoint makes smaller steps.
        let asked = [
            "--endpoint",
            "http://127.0.0.1:1/v1#m",
            "--evaluations",
            "64",
        ];
        assert_eq!(steps(&asked), 8);
        // The lower limit counts.
        assert_eq!(with(&["--evaluations", "64", "--set", "max_steps=3"]), 3);
        assert_eq!(with(&["--evaluations", "64", "--set", "max_steps=30"]), 8);
    }
}
