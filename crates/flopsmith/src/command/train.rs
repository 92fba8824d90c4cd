//! `flopsmith train`: trains a model on a problem, or on many.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flopsmith_actors::journal::replace;
#[cfg(feature = "torch")]
use flopsmith_actors::stream;
use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_problem::Language;
use flopsmith_protocol::ProblemId;
use flopsmith_run::console::{data, say, usage};
use flopsmith_run::folder::{self, Folder};
use flopsmith_run::run::{self, Ended, Plan};
use flopsmith_run::summary::{Best, Summary};
use flopsmith_run::view::{self, Log};
use flopsmith_run::{console, durations, endpoint, evaluator, expected, export, paths, shell};
use serde::Serialize;

use crate::args::{Format, Train};
use crate::exit;

/// Advice where a model does not fit a configuration, such as one of the examples.
#[cfg(feature = "torch")]
const ANOTHER_MODEL: &str = "for another model add --set generator.model=FOLDER";

/// A budget of fewer seconds may be spent by the two evaluations alone.
const SHORT: f64 = 60.0;

/// Trains, or resumes a run that was stopped.
pub fn run(args: &Train, log: &Log) -> Result<ExitCode> {
    let budget = args.budget.as_deref().map(durations::budget).transpose()?;
    let wait = args.run.wait.limit()?;
    let stem = args
        .config
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or("run");
    let (folder, settings) = match &args.resume {
        None => {
            let mut settings = flopsmith_config::load(&args.config, &args.run.set)?;
            settings.budget_seconds = budget.unwrap_or(settings.budget_seconds);
            settings.seed = args.seed.unwrap_or(settings.seed);
            if !args.workloads.names.is_empty() {
                settings.workloads.clone_from(&args.workloads.names);
            }
            args.run
                .join
                .apply(&mut settings, &args.run.set, Job::Train)?;
            let located = |e| console::located(e, &args.config, &args.run.set);
            paths::settle(&mut settings).map_err(located)?;
            check(&settings).map_err(located)?;
            endpoint::prepare(&mut settings)?;
            if settings.budget_seconds < SHORT {
                say(
                    "note: the run evaluates the model before and after the training, whatever the budget is; a budget below a minute leaves little or no time to train",
                );
            }
            run::check_services(&settings)?;
            let name = format!("{stem}-{}", view::stamp());
            let text = toml::to_string(&settings)?;
            let folder = Folder::create(args.run.place.folder(), &name, &text, Job::Train)?;
            (folder, settings)
        }
        Some(name) => {
            refuse_with_resume(&[
                ("--set (or FLOPSMITH_TRAIN_SET)", !args.run.set.is_empty()),
                ("--seed (or FLOPSMITH_SEED)", args.seed.is_some()),
                (
                    "--workload (or FLOPSMITH_TRAIN_WORKLOAD)",
                    !args.workloads.names.is_empty(),
                ),
            ])?;
            let prefix = format!("{stem}-");
            let (folder, mut settings) =
                folder::resume(args.run.place.folder(), name, &prefix, Job::Train, budget)?;
            args.run.join.apply_again(&mut settings, Job::Train)?;
            check(&settings)?;
            if !folder.facts()?.finished {
                endpoint::prepare(&mut settings)?;
                run::check_services(&settings)?;
            }
            (folder, settings)
        }
    };
    let path = folder.path.clone();
    let resume = shell::resume_train(&args.config, &path);
    let ended = finish(Job::Train, settings, folder, log, &resume, wait)?;
    if let Some(words) = &ended.fruitless {
        say(&format!("error: {words}"));
    }
    if args.run.format == Format::Json {
        data(&object(&ended.summary, &path)?);
    }
    Ok(ExitCode::from(code_of_programs(&ended)))
}

/// The object on the last line of stdout: the summary of a run, and as `folder` the run's folder.
pub fn object(summary: &Summary, folder: &Path) -> Result<String> {
    #[derive(Serialize)]
    struct Object<'a> {
        #[serde(flatten)]
        summary: &'a Summary,
        folder: String,
    }
    let folder = folder.display().to_string();
    Ok(serde_json::to_string(&Object { summary, folder })?)
}

/// Refuses flags that would change the settings of a resumed run, instead of ignoring them.
pub fn refuse_with_resume(flags: &[(&str, bool)]) -> Result<()> {
    match flags.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(usage(format!(
            "{flag} cannot be given together with --resume: a resumed run keeps its settings, and only --budget can be changed; leave this flag out, or start a new run"
        ))),
    }
}

/// Checks that a run can be made of these settings.
pub fn check(settings: &Settings) -> Result<()> {
    flopsmith_config::check_training(settings)?;
    for warning in flopsmith_config::warnings(settings) {
        say(&format!("warning: {warning}"));
    }
    evaluator::has_cores_of(settings)?;
    check_files(settings)
}

/// Checks the files that the configuration names before a run is made. The check takes milliseconds; the roles would
/// find the same errors one after the other, minutes later.
#[cfg(feature = "torch")]
pub fn check_files(settings: &Settings) -> Result<()> {
    let problems = paths::prompted(settings)?;
    let folder = paths::model(&settings.generator.model);
    let unusable = |e: flopsmith_policy::Error| {
        usage(format!(
            "the model in {} cannot be trained: {}; {ANOTHER_MODEL}",
            folder.display(),
            flopsmith_actors::supervisor::words(&e)
        ))
    };
    let model = flopsmith_policy::check(&folder).map_err(unusable)?;
    if flopsmith_policy::inspect(&folder).is_ok_and(|found| found.untied) {
        flopsmith_run::console::say(
            "warning: the weights contain a separate head, and the model uses it although config.json ties the head to the embedding; \
             set `tie_word_embeddings` to false in config.json",
        );
    }
    // The longest prompt without an earlier program: evaluations permit every technique.
    let style = settings.generator.prompt.style();
    let tokenizer = flopsmith_policy::Tokenizer::load(&folder).map_err(unusable)?;
    let max_tokens = i64::from(settings.generator.max_tokens);
    let tokens = |problem: &flopsmith_problem::Problem| -> Result<i64> {
        let permitted = settings.sqd.techniques.union(problem.techniques);
        let text = super::problem::asked(problem, permitted, style)?;
        let message = flopsmith_policy::chat::Message::user(text);
        let ids = tokenizer.encode_messages(&[message], style.is_chat());
        Ok(ids.map_err(unusable)?.len() as i64)
    };
    let too_long = |prompt_tokens: i64, of: &str| {
        usage(format!(
            "`generator.max_tokens` is {max_tokens} and the prompt{of} takes {prompt_tokens} tokens: the model in {} has {} positions for both together; {ANOTHER_MODEL}",
            folder.display(),
            model.max_position_embeddings
        ))
    };
    for problem in &problems {
        let prompt_tokens = tokens(problem)?;
        if prompt_tokens + max_tokens > model.max_position_embeddings {
            let of = match settings.has_many() {
                true => format!(" of {}", problem.id),
                false => String::new(),
            };
            return Err(too_long(prompt_tokens, &of));
        }
    }
    // Fresh nests have prompts of any length, and an answer to a long one has less room. Few may have so long ones.
    let fresh = some_fresh(settings)?;
    let mut long = Vec::new();
    for nest in &fresh {
        let prompt_tokens = tokens(nest)?;
        if prompt_tokens + max_tokens > model.max_position_embeddings {
            long.push(prompt_tokens);
        }
    }
    match long.first() {
        Some(first) if 2 * long.len() > fresh.len() => {
            Err(too_long(*first, " of a fresh nest, like those of most,"))
        }
        Some(_) => {
            say(&format!(
                "note: the prompts of {} of {} fresh nests leave answers less room than `generator.max_tokens`",
                long.len(),
                fresh.len()
            ));
            Ok(())
        }
        None => Ok(()),
    }
}

/// The first nests that a run with fresh ones trains on.
#[cfg(feature = "torch")]
fn some_fresh(settings: &Settings) -> Result<Vec<flopsmith_problem::Problem>> {
    const LOOKED_AT: usize = 32;
    let fresh = settings.fresh_of(settings.tasks);
    if fresh == 0 {
        return Ok(Vec::new());
    }
    let numbers = settings.tasks - fresh..settings.tasks;
    let tasks = (1..).flat_map(|step| numbers.clone().map(move |number| (step, number)));
    let nests = tasks.take(LOOKED_AT);
    let nests = nests.map(|(step, number)| -> Result<flopsmith_problem::Problem> {
        let id = stream::trained(settings, step, number)?;
        paths::nest(&id, settings)
    });
    nests.collect()
}

#[cfg(not(feature = "torch"))]
fn check_files(_: &Settings) -> Result<()> {
    Err(usage(
        "this build has no libtorch and cannot train: build it with the `torch` feature (`make build`)",
    ))
}

/// Executes a plan and reports its end on stderr. The caller prints the data when it is complete.
pub fn finish(
    job: Job,
    settings: Settings,
    folder: Folder,
    log: &Log,
    resume: &str,
    wait: Duration,
) -> Result<Ended> {
    let path = folder.path.clone();
    let id = folder.id.clone();
    let bench_settings = settings.clone();
    let _guard = log.start(Some(&path))?;
    say(&format!("run {id} in {}", path.display()));
    let facts = folder.facts()?;
    if !facts.finished
        && let Some(words) = expected::wall(job, &settings, &facts)
    {
        say(&words);
    }
    let ended = run::execute(Plan {
        job,
        settings,
        folder: &folder,
        live: true,
        resume: resume.to_owned(),
        wait,
    })
    .inspect_err(|_| folder.discard_unless_begun())?;
    let summary = &ended.summary;
    // A file that cannot be written must not suppress the rest of the result.
    let mut unwritten = false;
    let mut lacking = |error: anyhow::Error| {
        unwritten = true;
        say(&format!("error: {error:#}"));
    };
    let mut best = Vec::new();
    for (name, problem, program) in bests(summary, &bench_settings) {
        // A run whose problem is gone can still be summarised.
        let language = paths::any(name).map_or(Language::C, |p| p.language);
        match write_best(&path, &shell::best_stem(problem), &program.source, language) {
            Ok(file) => best.push(file),
            Err(error) => lacking(error),
        }
    }
    let time_it = shell::bench(&path, &bench_settings, None);
    let report = flopsmith_run::report::write(&path)
        .map_err(&mut lacking)
        .ok();
    say("");
    for line in summary.table() {
        say(&line);
    }
    say("");
    if let Some(report) = report {
        say(&format!("report       {}", report.display()));
    }
    for (heading, file) in ["best source"]
        .into_iter()
        .chain(std::iter::repeat(""))
        .zip(&best)
    {
        say(&format!("{heading:<11}  {}", file.display()));
    }
    let model = path.join(export::MODEL);
    let trained = export::is_whole(&model);
    if job == Job::Train {
        say(&format!(
            "model        {}",
            about_model(trained.then_some(&*model), summary.finished, summary.steps)
        ));
    }
    say(&format!(
        "outcomes     {}",
        path.join("outcomes.jsonl").display()
    ));
    if ended.interrupted || !summary.finished {
        say(&format!("resume with  {resume}"));
    } else if job == Job::Train {
        if !best.is_empty() && !bench_settings.has_many() {
            say(&format!("time it      {time_it}"));
        }
        if trained
            && let Some(problem) = bench_settings
                .named_problems()
                .iter()
                .find(|name| !name.is_empty())
        {
            say(&format!("sample it    {}", shell::sample(&model, problem)));
        }
        if trained && !bench_settings.hold_out.is_empty() {
            let initial = paths::model(&bench_settings.generator.model);
            let held_out = shell::evaluate(&initial, &model, &bench_settings);
            say(&format!("held out     {held_out}"));
        }
    }
    let fruitless = summary.fruitless(job, &bench_settings);
    Ok(Ended {
        unwritten,
        fruitless,
        ..ended
    })
}

/// The best programs of a run, each with the name of its problem in the settings, and in a run over many with its id.
fn bests<'a>(
    summary: &'a Summary,
    settings: &'a Settings,
) -> Vec<(&'a str, Option<&'a ProblemId>, &'a Best)> {
    if summary.problems.is_empty() {
        let names = settings.named_problems().iter().map(String::as_str);
        let found = names.zip(&summary.best);
        return found.map(|(name, best)| (name, None, best)).collect();
    }
    // The settings may name a problem by its folder, and name no nest of a stream.
    let named = settings.problems.iter().map(|name| Some(name.as_str()));
    let rows = summary
        .problems
        .iter()
        .zip(named.chain(std::iter::repeat(None)));
    rows.filter_map(|(row, name)| {
        let id = &row.problem;
        Some((name.unwrap_or(id.as_str()), Some(id), row.best.as_ref()?))
    })
    .collect()
}

/// Writes the best program of a run, or of one of its problems. If that fails, the earlier one stays.
fn write_best(folder: &Path, stem: &str, source: &str, language: Language) -> Result<PathBuf> {
    let path = folder.join(format!("{stem}.{}", language.ending()));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
    }
    replace(&path, source).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The path of the trained model, or the reason why there is none.
fn about_model(whole: Option<&Path>, finished: bool, steps: u64) -> String {
    match whole {
        Some(model) => model.display().to_string(),
        None if !finished => "none yet: it is written at the end of the run".into(),
        None if steps == 0 => {
            "none: no training step was done, so nothing was learned (a longer --budget leaves time for some)".into()
        }
        None => "none: there are no trained weights".into(),
    }
}

/// Like [`code`], and [`exit::CANDIDATE`] for a run that counts as a failure of its programs.
fn code_of_programs(ended: &Ended) -> u8 {
    match code(ended) {
        exit::OK if ended.fruitless.is_some() => exit::CANDIDATE,
        code => code,
    }
}

/// The exit code of a run that came to its end or was stopped.
pub fn code(ended: &Ended) -> u8 {
    if ended.unwritten {
        exit::INFRASTRUCTURE
    } else if ended.interrupted {
        exit::INTERRUPTED
    } else {
        exit::OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_model_says_why_there_is_none() {
        let model = Path::new("runs/a/model");
        assert_eq!(about_model(Some(model), true, 3), "runs/a/model");
        assert!(about_model(None, false, 0).starts_with("none yet"));
        assert!(about_model(None, true, 0).contains("no training step was done"));
        assert!(about_model(None, true, 3).starts_with("none:"));
    }
}
