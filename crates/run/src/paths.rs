//! Paths of problems, of the harness and of the starter model.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flopsmith_actors::stream;
use flopsmith_config::{Mix, Settings};
use flopsmith_machine::attest::Hardware;
use flopsmith_problem::{Problem, flags};
use flopsmith_protocol::{ProblemFiles, ProblemId, RunSpec, Technique, TechniqueSet, text};

use crate::console::usage;
use crate::kept_out::{KeptOut, SAME_NEST};
use crate::start;

/// The name of the folder of module problems in a folder of problems.
pub const MODULES: &str = "modules";

/// The folder of the repository or installation that this binary belongs to, if there is one.
fn home() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    exe.ancestors()
        .skip(1)
        .find(|p| p.join("problems").is_dir())
        .map(Path::to_owned)
}

/// Folders that are searched for problems, in order. The folder that FLOPSMITH_PROBLEMS names must exist.
pub fn problem_roots() -> Result<Vec<PathBuf>> {
    let mut roots: Vec<PathBuf> = named_root(std::env::var_os("FLOPSMITH_PROBLEMS"))?
        .into_iter()
        .collect();
    roots.push("problems".into());
    if let Some(home) = home() {
        roots.push(home.join("problems"));
    }
    roots.extend(data_folder().map(|data| data.join("problems")));
    let suites: Vec<PathBuf> = roots.iter().flat_map(|root| suites(root)).collect();
    roots.extend(suites);
    // In the repository's own folder, two of these folders are the same.
    let mut seen = BTreeSet::new();
    roots.retain(|r| seen.insert(r.canonicalize().unwrap_or_else(|_| r.clone())));
    Ok(roots)
}

/// The folders of suites in a folder of problems: those that are no problem themselves.
fn suites(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && !path.join("problem.toml").exists())
        // Modules are another target; `bench` and `problem check` find them by their own names.
        .filter(|path| path.file_name().is_none_or(|name| name != MODULES))
        .collect();
    folders.sort();
    folders
}

/// The problems folder that the environment names, if it names one.
fn named_root(value: Option<OsString>) -> Result<Option<PathBuf>> {
    let Some(root) = value.filter(|v| !v.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if root.is_dir() {
        return Ok(Some(root));
    }
    Err(usage(format!(
        "FLOPSMITH_PROBLEMS names {}, and there is no such folder; correct the variable, or unset it",
        root.display()
    )))
}

/// The folder of a module problem by name (`modules/softmax`) or by folder; none if nothing of that name is a module.
pub fn module(name: &str) -> Option<PathBuf> {
    places(name).find(|folder| is_module(folder))
}

/// The folders of the module problems that a name stands for: a module, or else all modules in a folder (`modules`). Empty
/// if nothing of that name is a module or has some.
pub fn modules(name: &str) -> Vec<PathBuf> {
    if let Some(one) = module(name) {
        return vec![one];
    }
    let mut found = places(name).map(|folder| beneath(&folder));
    found.find(|found| !found.is_empty()).unwrap_or_default()
}

/// The folders of the module problems in a folder.
fn beneath(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut modules: Vec<PathBuf> = folders.filter(|folder| is_module(folder)).collect();
    modules.sort();
    modules
}

/// The folders that a name may mean, the nearest first.
fn places(name: &str) -> impl Iterator<Item = PathBuf> {
    let roots = problem_roots().unwrap_or_default();
    let named: Vec<PathBuf> = roots.iter().map(|root| root.join(name)).collect();
    std::iter::once(PathBuf::from(name)).chain(named)
}

/// True if the definition in a folder says that it is one of a module.
fn is_module(folder: &Path) -> bool {
    let text = std::fs::read(folder.join("problem.toml"))
        .and_then(text::decode)
        .unwrap_or_default();
    let table: Option<toml::Table> = text.parse().ok();
    table.is_some_and(|t| t.get("kind").and_then(toml::Value::as_str) == Some("module"))
}

/// A kernel by name or by folder.
pub fn problem(name: &str) -> Result<Problem> {
    Problem::find(name, &problem_roots()?).map_err(|e| match module(name) {
        None => unread(&e),
        Some(_) => usage(format!(
            "`{name}` is a module of PyTorch, and this works with kernels only"
        )),
    })
}

/// The error for a problem that cannot be used, with the reason.
fn unread(error: &flopsmith_problem::Error) -> anyhow::Error {
    let because = std::error::Error::source(error).map(|why| format!(": {why}"));
    usage(format!("{error}{}", because.unwrap_or_default()))
}

/// A kernel or a module, by name or by folder.
///
/// # Errors
/// Wrong usage: there is none, or its definition has mistakes.
pub fn any(name: &str) -> Result<Problem> {
    match module(name) {
        Some(folder) => loaded(&folder),
        None => problem(name),
    }
}

/// The module of a folder.
fn loaded(folder: &Path) -> Result<Problem> {
    Problem::load_module(folder).map_err(|e| unread(&e))
}

/// A problem that was found in a folder of problems.
pub struct Found {
    /// The name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its definition, unless that has mistakes.
    pub definition: Result<Problem, flopsmith_problem::Error>,
}

/// All problems in the folders of problems, by name. Of several with one name the first counts.
pub fn problems() -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for root in problem_roots()? {
        let entries = std::fs::read_dir(&root).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            let folder = entry.path();
            if folder.join("problem.toml").is_file() && seen.insert(entry.file_name()) {
                found.push(Found {
                    name: entry.file_name().to_string_lossy().into_owned(),
                    definition: Problem::load(&folder),
                    folder,
                });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The name of the suite that has every kernel.
pub const EVERY: &str = "all";

/// The problems of a suite, by name; [`EVERY`] stands for every kernel, and a folder of modules, such as `modules`, for
/// all of them.
///
/// # Errors
/// Wrong usage: there is no such suite, or a definition in it has mistakes.
pub fn suite(name: &str) -> Result<Vec<Problem>> {
    suite_or(name, None)
}

/// The problems of a suite, where the name `other` has a meaning, too.
fn suite_or(name: &str, other: Option<&str>) -> Result<Vec<Problem>> {
    let modules = modules_of_suite(name)?;
    if !modules.is_empty() {
        return Ok(modules.into_iter().map(|(_, module)| module).collect());
    }
    let mut problems = Vec::new();
    let mut known = BTreeSet::from([EVERY.to_owned()]);
    for Found {
        name: id,
        folder,
        definition,
    } in self::problems()?
    {
        let beneath = folder.parent().and_then(Path::file_name);
        match definition {
            Ok(problem) => {
                known.extend(problem.suite.clone());
                if name == EVERY || problem.suite.as_deref() == Some(name) {
                    problems.push(problem);
                }
            }
            Err(error) if name == EVERY || beneath.is_some_and(|suite| suite == name) => {
                return Err(usage(format!(
                    "the definition of {id} has mistakes ({error}); run `flopsmith problem check {id}`, or remove it from the suite"
                )));
            }
            // The definition may belong to any suite but this one's folder.
            Err(_) => {}
        }
    }
    if problems.is_empty() {
        known.extend(suites_of_modules(&problem_roots()?));
        known.extend(other.map(str::to_owned));
        let near = flopsmith_problem::meant(name, known.iter().map(String::as_str));
        let near = near.map(|near| format!("\n  did you mean {near}?"));
        let known: Vec<String> = known.into_iter().collect();
        return Err(usage(format!(
            "there is no suite `{name}`; there are {}{}",
            known.join(", "),
            near.unwrap_or_default()
        )));
    }
    Ok(problems)
}

/// The names of the folders of modules in folders of problems.
fn suites_of_modules(roots: &[PathBuf]) -> Vec<String> {
    let entries = roots.iter().filter_map(|root| std::fs::read_dir(root).ok());
    let folders = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let of_modules = folders.filter(|folder| !beneath(folder).is_empty());
    of_modules
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// The modules in a folder of modules, each with the name that finds it again; none if the name is of anything else.
fn modules_of_suite(name: &str) -> Result<Vec<(String, Problem)>> {
    if name == EVERY || name.is_empty() || module(name).is_some() {
        return Ok(Vec::new());
    }
    let folders = modules(name).into_iter();
    let named = folders.map(|folder| {
        let own = folder.file_name().unwrap_or_default().to_string_lossy();
        Ok((format!("{name}/{own}"), loaded(&folder)?))
    });
    named.collect()
}

/// A problem whose programs are built with `flags`, or with the problem's own flags if `flags` is empty.
pub fn problem_under(name: &str, flags: &str) -> Result<Problem> {
    under(problem(name)?, flags)
}

/// The problem with these compiler flags, or with its own if there are none.
fn under(problem: Problem, flags: &str) -> Result<Problem> {
    if flags.trim().is_empty() {
        return Ok(problem);
    }
    if problem.module.is_some() {
        return Err(usage(format!(
            "compiler flags are given for {}, and modules are compiled with the flags of PyTorch's extensions; leave them out (--flags, or `evaluate.flags` of a run)",
            problem.id
        )));
    }
    let flags = flags::parse(flags).map_err(|e| usage(e.to_string()))?;
    Ok(problem.with_flags(flags))
}

/// A problem whose candidates are timed on this machine: prompts for a module name its processor.
pub fn timed_here(problem: Problem) -> Problem {
    match Hardware::of(0).words() {
        Some(words) => problem.timed_by(&words),
        None => problem,
    }
}

/// The problems of a run, each once, as its prompts state them: those of modules name the processor where this machine times the answers.
pub fn prompted(settings: &Settings) -> Result<Vec<Problem>> {
    let here = !settings.evaluate.workers && !settings.evaluate.replays();
    let known = |problem| match here {
        true => timed_here(problem),
        false => problem,
    };
    Ok(problems_of(settings)?.into_iter().map(known).collect())
}

/// The problem of a run with one: with the run's compiler flags and limit on sources, and timed at the run's workloads.
pub fn problem_of(settings: &Settings) -> Result<Problem> {
    one_of(settings, &settings.problem)
}

fn one_of(settings: &Settings, name: &str) -> Result<Problem> {
    let problem = under(any(name)?, &settings.evaluate.flags)?;
    let problem = selected(problem, &settings.workloads)?;
    Ok(start::permitting(problem, settings))
}

/// The problems of a run, each as [`problem_of`] gives it, in the order in which the run's tasks take turns. Of a stream
/// of random nests, those of its evaluations.
///
/// # Errors
/// Wrong usage: a problem cannot be loaded, or two have one name.
pub fn problems_of(settings: &Settings) -> Result<Vec<Problem>> {
    if settings.is_stream() {
        let nests = stream::evaluated(settings)?.into_iter();
        return nests.map(|id| nest(&id, settings)).collect();
    }
    let mut problems: Vec<Problem> = Vec::new();
    for name in settings.named_problems() {
        let problem = one_of(settings, name)?;
        if problems.iter().any(|other| other.id == problem.id) {
            return Err(usage(format!(
                "`problems` names two problems that are called `{}`; leave one out, or rename its folder",
                problem.id
            )));
        }
        if settings.random > 0 && stream::files(&problem.id).is_some() {
            return Err(usage(format!(
                "`problems` names {}, and `random` adds fresh nests with names like this one; leave one of them out",
                problem.id
            )));
        }
        problems.push(problem);
    }
    Ok(problems)
}

/// The problems of a run that another process announced, as [`problems_of`] gives them there. The announcement of a stream has
/// the first of its evaluated nests, and the settings make all of them.
///
/// # Errors
/// If the files or the settings do not fit each other.
pub fn announced(spec: &RunSpec, settings: &Settings) -> Result<Vec<Problem>> {
    if settings.is_stream() {
        return problems_of(settings);
    }
    let files = spec.problems().cloned();
    files.map(|files| of_files(files, settings)).collect()
}

/// A random nest by its name, as [`problem_of`] gives a problem.
///
/// # Errors
/// If the name is not that of a random nest.
pub fn nest(id: &ProblemId, settings: &Settings) -> Result<Problem> {
    let files = stream::files(id).with_context(|| format!("{id} names no random nest"))?;
    of_files(files, settings)
}

/// The problem of these files as [`problem_of`] gives it, on a node that has it from a run's specification.
///
/// # Errors
/// If the files or the settings do not fit each other.
pub fn of_files(files: ProblemFiles, settings: &Settings) -> Result<Problem> {
    let problem = under(Problem::from_files(files)?, &settings.evaluate.flags)?;
    let problem = problem.select(&settings.workloads)?;
    Ok(start::permitting(problem, settings))
}

/// Replaces the suite of a run that begins, unless it is a stream, by the names of its problems without the held-out
/// ones and without others that have their nests, so that the run keeps these problems, and checks that the held-out
/// problems exist and that neither they nor their nests under other names are trained on. Notes
/// the forms of nests that are evaluated or held out, since fresh nests must not have them. A run over modules that names
/// no pool of techniques has theirs.
///
/// # Errors
/// Wrong usage: an unknown suite or problem, no problem is left, or a setting that needs several problems or sizes.
pub fn settle(settings: &mut Settings) -> Result<()> {
    settle_problems(settings)?;
    match settings.is_stream() {
        true => Ok(()),
        false => settle_pool(settings),
    }
}

/// Replaces the usual pool of kernels, of a run that names none, by that of its problems.
///
/// # Errors
/// As [`problems_of`].
pub fn settle_pool(settings: &mut Settings) -> Result<()> {
    let usual = TechniqueSet::general();
    let named = settings.sqd.techniques;
    // Reading the settings removes OpenMP from the pool if programs are timed with one thread.
    let one_thread = usual.without(Technique::Openmp);
    let problems = problems_of(settings)?;
    if named != usual && named != one_thread {
        let of = |p: &Problem| p.techniques.union(p.special).union(p.usual_pool());
        let known = problems.iter().map(of);
        let known = known.fold(TechniqueSet::EMPTY, TechniqueSet::union);
        if !named.is_empty() && named.intersection(known).is_empty() {
            return Err(usage(format!(
                "`sqd.techniques` names {named}, which no problem of this run has; name some of {known}, or leave it out"
            )));
        }
        return Ok(());
    }
    let pools = problems.iter().map(Problem::usual_pool);
    let pool = pools.fold(TechniqueSet::EMPTY, TechniqueSet::union);
    settings.sqd.techniques = match named == usual {
        true => pool,
        false => pool.without(Technique::Openmp),
    };
    Ok(())
}

fn settle_problems(settings: &mut Settings) -> Result<()> {
    if settings.is_stream() {
        // The file was checked, but the command line may have added workloads.
        if settings.names_sizes() {
            return Err(usage(
                "a workload is named beside `suite = \"random\"`, and each of its nests has sizes of its own; leave out --workload and `workloads`",
            ));
        }
        settings.hold_out_forms = forms(&problems_of(settings)?);
        return Ok(());
    }
    if settings.random > 0 && settings.names_sizes() {
        return Err(usage(
            "a workload is named beside `random`, and fresh nests have sizes of their own; name `first`, which every problem has, or leave out --workload and `workloads`, or `random`",
        ));
    }
    let held_out = settings.hold_out.iter().map(|name| held_out(name));
    let held_out = held_out.collect::<Result<Vec<Problem>>>()?;
    settings.hold_out_forms = match settings.random {
        0 => Vec::new(),
        _ => forms(&held_out),
    };
    let kept_out = KeptOut::of(&held_out);
    if !settings.suite.is_empty() {
        let modules = modules_of_suite(&settings.suite)?;
        let of_suite: Vec<(String, Problem)> = match modules.is_empty() {
            true => {
                let kernels = suite_or(&settings.suite, Some(Settings::STREAM))?;
                let kernels = kernels.into_iter();
                kernels.map(|p| (p.id.to_string(), p)).collect()
            }
            false => modules,
        };
        let left_out = of_suite.iter().filter(|(_, p)| kept_out.leaves_out(p));
        let left_out = left_out.map(|(_, p)| p.id.clone()).collect();
        let of_suite = of_suite.into_iter().map(|(name, p)| (name, p.id));
        return replace_suite(settings, of_suite, &left_out);
    }
    if held_out.is_empty() {
        return Ok(());
    }
    // A problem may be named by its folder in one place and by its name in the other.
    for problem in problems_of(settings)? {
        let Some(other) = kept_out.find(&problem) else {
            continue;
        };
        let of = held_out.iter().position(|problem| problem.id == *other);
        let name = of.map_or(other.as_str(), |n| settings.hold_out[n].as_str());
        return Err(usage(match *other == problem.id {
            true => format!(
                "`hold_out` names `{name}`, on which the run trains; leave it out of one of them"
            ),
            false => format!(
                "`hold_out` names `{name}`, and the run trains on {}, {SAME_NEST}; leave out one of them",
                problem.id
            ),
        }));
    }
    Ok(())
}

/// A held-out problem, which is named by its name or by its folder.
fn held_out(name: &str) -> Result<Problem> {
    any(name).map_err(|error| usage(format!("`hold_out` names `{name}`: {error}")))
}

/// The forms of problems, each once.
fn forms(problems: &[Problem]) -> Vec<String> {
    let forms: BTreeSet<String> = problems.iter().filter_map(stream::form).collect();
    forms.into_iter().collect()
}

/// Names the problems of the suite, without the held-out ones, instead of the suite.
fn replace_suite(
    settings: &mut Settings,
    of_suite: impl Iterator<Item = (String, ProblemId)>,
    held_out: &BTreeSet<ProblemId>,
) -> Result<()> {
    let kept = of_suite.filter(|(_, id)| !held_out.contains(id));
    let mut kept: Vec<String> = kept.map(|(name, _)| name).collect();
    match kept.len() {
        0 => {
            return Err(usage(format!(
                "`hold_out` names every problem of the suite `{}`, or another with its nest, so none is left to train on; leave out some",
                settings.suite
            )));
        }
        // The settings of a run with one problem cannot be read with it, so the run could not be resumed.
        1 if settings.mix != Mix::Uniform => {
            return Err(usage(format!(
                "`mix` divides tasks among many problems, and the suite `{}` has one for this run, `{}`; leave `mix` out, or name more problems",
                settings.suite, kept[0]
            )));
        }
        1 if settings.random > 0 => {
            return Err(usage(format!(
                "`random` adds fresh nests to a run over several problems, and the suite `{}` has one for this run, `{}`; leave `random` out, or name more problems",
                settings.suite, kept[0]
            )));
        }
        1 => settings.problem = kept.remove(0),
        _ => settings.problems = kept,
    }
    settings.suite.clear();
    Ok(())
}

/// The problem with the workloads of these names only; with all of them if there is no name.
pub fn selected(problem: Problem, workloads: &[String]) -> Result<Problem> {
    problem
        .select(workloads)
        .map_err(|e| usage(format!("{e} (--workload, or `workloads` of a run)")))
}

/// The harness next to this binary.
pub fn harness() -> Result<PathBuf> {
    let found = find_harness()?;
    // A jail mounts the harness from its own path, with the mount options of its file system.
    if flopsmith_sandbox::forbids_programs(&found) {
        anyhow::bail!(
            "{} lies on a file system that is mounted with `noexec`, so it cannot be run in a jail: install Flopsmith elsewhere, or name a copy in FLOPSMITH_HARNESS",
            found.display()
        );
    }
    Ok(found)
}

fn find_harness() -> Result<PathBuf> {
    let name = "flopsmith-harness";
    if let Some(named) = std::env::var_os("FLOPSMITH_HARNESS") {
        let named = PathBuf::from(named);
        if !named.is_file() {
            return Err(usage(format!(
                "FLOPSMITH_HARNESS names {}, and there is no such file; correct the variable, or unset it",
                named.display()
            )));
        }
        return Ok(named);
    }
    let exe = std::env::current_exe()?;
    // Tests run from target/<profile>/deps.
    for folder in exe.ancestors().skip(1).take(2) {
        let candidate = folder.join(name);
        if candidate.is_file() {
            return Ok(candidate);
        }
    }
    anyhow::bail!(
        "{name} is not beside {}: build it with `make build`, install it with `cargo install --path crates/harness`, or name it in FLOPSMITH_HARNESS",
        exe.display()
    )
}

/// The folder of data that the user wants kept, such as saved results: `flopsmith` in XDG_DATA_HOME, or in
/// `~/.local/share`.
pub fn data_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    data_folder_of(set("XDG_DATA_HOME"), set("HOME"))
}

fn data_folder_of(data: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    // A relative path is invalid by the XDG specification, which tells programs to ignore it.
    let data = data.map(PathBuf::from).filter(|data| data.is_absolute());
    let data = data.or_else(|| Some(PathBuf::from(home?).join(".local/share")));
    let data = data.ok_or_else(|| {
        usage("neither XDG_DATA_HOME nor HOME is set, so there is no folder for saved data")
    })?;
    Ok(data.join("flopsmith"))
}

/// A model folder named in a configuration: relative to the working folder, or else to the repository.
pub fn model(folder: &Path) -> PathBuf {
    if folder.is_dir() || folder.is_absolute() {
        return folder.to_owned();
    }
    match home().map(|h| h.join(folder)) {
        Some(inside) if inside.is_dir() => inside,
        _ => folder.to_owned(),
    }
}

/// Refuses a store that is read only and does not exist: opening it would create a folder under a mistyped name.
///
/// # Errors
/// Wrong usage if `store` is a path of this machine and no such folder exists.
pub fn must_be_there(store: &str) -> Result<()> {
    let folder = store.strip_prefix("file://").unwrap_or(store);
    if folder.contains("://") || Path::new(folder).is_dir() {
        return Ok(());
    }
    Err(usage(format!(
        "there is no folder {folder}; name the store of the cluster (--store), or make the folder if the store is new"
    )))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn data_lie_in_the_folder_that_the_desktop_names_or_in_the_home() {
        let of = |data: Option<&str>, home: Option<&str>| {
            let found = data_folder_of(data.map(Into::into), home.map(Into::into));
            found.ok().map(|path| path.display().to_string())
        };
        let expected = |path: &str| Some(path.to_owned());
        assert_eq!(
            of(Some("/data"), Some("/home/a")),
            expected("/data/flopsmith")
        );
        let home = expected("/home/a/.local/share/flopsmith");
        assert_eq!(of(None, Some("/home/a")), home);
        assert_eq!(of(Some("relative"), Some("/home/a")), home);
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn a_pool_of_techniques_that_the_problem_lacks_is_refused() {
        let settled = |problem: &str, pool: &str| {
            let mut settings = Settings {
                problem: shipped::at(problem).display().to_string(),
                ..Settings::default()
            };
            settings.sqd.techniques = pool.parse().unwrap();
            settle_pool(&mut settings).map(|()| settings.sqd.techniques.to_string())
        };
        let error = settled("dgemm", "fusion").unwrap_err().to_string();
        assert!(error.contains("names fusion"), "{error}");
        assert_eq!(
            settled("polybench/polybench_mvt", "fusion").unwrap(),
            "fusion"
        );
        assert_eq!(settled("dgemm", "simd+fusion").unwrap(), "simd+fusion");
        assert_eq!(
            settled("dgemm", "none").unwrap(),
            TechniqueSet::EMPTY.to_string()
        );
    }

    #[test]
    fn a_folder_of_modules_stands_for_all_of_them() {
        let place = tempfile::tempdir().unwrap();
        for (name, kind) in [("b", "module"), ("a", "module"), ("c", "kernel")] {
            let folder = place.path().join("mine").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            // Editors for Windows begin a file with a mark.
            let text = format!("\u{feff}kind = {kind:?}");
            std::fs::write(folder.join("problem.toml"), text).unwrap();
        }
        let found = |name: &str| {
            let folder = place.path().join(name);
            let found = modules(folder.to_str().unwrap()).into_iter();
            let names = found.map(|f| f.strip_prefix(place.path()).unwrap().display().to_string());
            names.collect::<Vec<String>>()
        };
        assert_eq!(found("mine"), ["mine/a", "mine/b"]);
        assert_eq!(found("mine/b"), ["mine/b"]);
        assert!(found("mine/c").is_empty() && found("").is_empty());
        let kernels = place.path().join("kernels/d");
        std::fs::create_dir_all(&kernels).unwrap();
        std::fs::write(kernels.join("problem.toml"), "").unwrap();
        let roots = [place.path().to_owned(), place.path().join("nowhere")];
        assert_eq!(suites_of_modules(&roots), ["mine"]);
    }

    #[test]
    fn a_folder_of_problems_that_was_named_has_to_be_there() {
        let place = tempfile::tempdir().unwrap();
        let named = |path: &Path| named_root(Some(path.into()));
        assert_eq!(named(place.path()).unwrap().unwrap(), place.path());
        assert_eq!(named_root(None).unwrap(), None);
        assert_eq!(named(Path::new("")).unwrap(), None);
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [place.path().join("nowhere"), file] {
            let error = named(&path).unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            let said = path.display().to_string();
            assert!(error.to_string().contains(&said), "{error:#}");
        }
    }
    fn of_suite(names: &[&str], hold_out: &[&str], mix: Mix) -> (Settings, Result<()>) {
        let named = |names: &[&str]| -> Vec<(String, ProblemId)> {
            let ids = names.iter().map(|name| ProblemId::new(*name).unwrap());
            ids.map(|id| (id.to_string(), id)).collect()
        };
        let mut settings = Settings {
            problem: String::new(),
            suite: "some".into(),
            mix,
            ..Settings::default()
        };
        let held_out = named(hold_out).into_iter().map(|(_, id)| id).collect();
        let replaced = replace_suite(&mut settings, named(names).into_iter(), &held_out);
        (settings, replaced)
    }

    #[test]
    fn a_suite_is_replaced_by_its_problems_without_the_held_out_ones() {
        let (settings, replaced) =
            of_suite(&["a", "b", "c"], &["b", "other"], Mix::LearningProgress);
        replaced.unwrap();
        assert_eq!(settings.named_problems(), ["a", "c"]);
        assert!(settings.suite.is_empty());
        let (settings, replaced) = of_suite(&["a", "b"], &["b"], Mix::Uniform);
        replaced.unwrap();
        assert_eq!(settings.named_problems(), ["a"]);
        assert!(!settings.has_many());
    }

    #[test]
    fn a_suite_is_refused_if_the_run_could_not_be_resumed_with_what_is_left_of_it() {
        for (hold_out, mix, words) in [
            (&["a", "b"][..], Mix::Uniform, "names every problem"),
            (
                &["b"][..],
                Mix::LearningProgress,
                "has one for this run, `a`",
            ),
        ] {
            let (_, replaced) = of_suite(&["a", "b"], hold_out, mix);
            let error = replaced.unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            assert!(error.to_string().contains(words), "{error:#}");
        }
    }

    /// A shipped problem, by its folder.
    fn named(name: &str) -> String {
        shipped::at(name).display().to_string()
    }

    #[test]
    fn no_problem_is_trained_on_that_has_the_nest_of_a_held_out_one() {
        let mut settings = Settings {
            problem: String::new(),
            problems: vec![named("dgemm"), named("dot")],
            hold_out: vec![named("dgemv"), named("sgemm")],
            ..Settings::default()
        };
        let error = settle(&mut settings).unwrap_err();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        let said = error.to_string();
        for part in [&named("sgemm"), "trains on dgemm", "leave out one"] {
            assert!(said.contains(part), "`{part}` is not in {said}");
        }
        settings.problems = vec![named("dsyrk"), named("dot")];
        settle(&mut settings).unwrap();
    }

    #[test]
    fn a_run_with_fresh_nests_notes_the_forms_of_held_out_problems() {
        let mut settings = Settings {
            problem: String::new(),
            problems: vec![named("dgemm"), named("dot")],
            hold_out: vec![named("dgemv"), named("sort64")],
            random: 2,
            ..Settings::default()
        };
        settle(&mut settings).unwrap();
        let held_out = Problem::load(&shipped::at("dgemv")).unwrap();
        // A sorting network is no loop nest.
        assert_eq!(settings.hold_out_forms, [stream::form(&held_out).unwrap()]);
        settings.random = 0;
        settle(&mut settings).unwrap();
        assert!(settings.hold_out_forms.is_empty());
    }

    #[test]
    fn a_run_over_modules_has_their_pool_unless_it_names_one() {
        let mut settings = Settings {
            problem: named("modules/softmax"),
            ..Settings::default()
        };
        let general = TechniqueSet::general();
        let of_modules = TechniqueSet::of_modules();
        let mut settled = |techniques: TechniqueSet, problems: &[&str]| {
            settings.sqd.techniques = techniques;
            settings.problems = problems.iter().copied().map(named).collect();
            settle(&mut settings).unwrap();
            settings.sqd.techniques
        };
        assert_eq!(settled(general, &[]), of_modules);
        assert_eq!(
            settled(general.without(Technique::Openmp), &[]),
            of_modules.without(Technique::Openmp),
            "programs are timed with one thread"
        );
        let own: TechniqueSet = "fusion+dot".parse().unwrap();
        assert_eq!(settled(own, &[]), own);
        let both = ["dgemm", "modules/softmax"];
        assert_eq!(settled(general, &both), general.union(of_modules));
        assert_eq!(settled(general, &["dgemm", "dot"]), general);
    }

    #[test]
    fn a_folder_of_modules_is_a_suite_whose_modules_are_found_again() {
        let name = named("modules");
        let as_kernel = problem(&format!("{name}/softmax")).unwrap_err();
        assert!(as_kernel.to_string().contains("kernels only"));
        let of_suite = suite(&name).unwrap();
        assert!(of_suite.len() >= 24, "{}", of_suite.len());
        let mut settings = Settings {
            problem: String::new(),
            suite: name.clone(),
            hold_out: vec![format!("{name}/softmax")],
            ..Settings::default()
        };
        settle(&mut settings).unwrap();
        let trained = problems_of(&settings).unwrap();
        assert_eq!(trained.len() + 1, of_suite.len());
        assert!(trained.iter().all(|problem| problem.module.is_some()));
        assert!(
            trained
                .iter()
                .all(|problem| problem.id.as_str() != "softmax")
        );
        settings.evaluate.flags = "-O3".into();
        let error = problems_of(&settings).unwrap_err();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains("leave them out"), "{error:#}");
    }

    #[test]
    fn a_stream_has_no_workloads_to_choose_from() {
        let mut settings = Settings {
            problem: String::new(),
            suite: "random".into(),
            ..Settings::default()
        };
        settle(&mut settings).unwrap();
        let forms = problems_of(&settings).unwrap();
        let forms: BTreeSet<String> = forms.iter().filter_map(stream::form).collect();
        assert!(!forms.is_empty() && forms.iter().eq(&settings.hold_out_forms));
        settings.workloads = vec!["n=8".into()];
        let error = settle(&mut settings).unwrap_err();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains("sizes of its own"), "{error:#}");
        settings.workloads = vec!["first".into(), "first".into()];
        assert!(settle(&mut settings).is_err());
    }

    #[test]
    fn the_first_workload_of_each_problem_is_chosen_also_beside_random_nests() {
        let mut settings = Settings {
            problem: String::new(),
            problems: ["dgemm", "dot", "modules/softmax"].map(named).to_vec(),
            ..Settings::default()
        };
        let whole = problems_of(&settings).unwrap();
        settings.workloads = vec!["first".into()];
        settle(&mut settings).unwrap();
        let chosen = problems_of(&settings).unwrap();
        for (whole, chosen) in whole.iter().zip(&chosen) {
            assert!(whole.workloads.len() > 1, "{}", whole.id);
            assert_eq!(chosen.workloads, whole.workloads[..1], "{}", whole.id);
            assert_eq!(chosen.digest, whole.only_first().digest);
            // A worker has the problem from the announcement of the run.
            let there = of_files(whole.files(), &settings).unwrap();
            assert_eq!(there.digest, chosen.digest);
        }
        settings.problems.pop();
        settings.random = 1;
        settle(&mut settings).unwrap();
        settings.workloads = vec!["n=256".into()];
        let error = settle(&mut settings).unwrap_err();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        assert!(error.to_string().contains("name `first`"), "{error:#}");
        // A nest has an even and an odd size.
        let mut stream = Settings {
            problem: String::new(),
            suite: "random".into(),
            ..Settings::default()
        };
        let all = problems_of(&stream).unwrap();
        stream.workloads = vec!["first".into()];
        settle(&mut stream).unwrap();
        let chosen = problems_of(&stream).unwrap();
        assert_eq!(chosen.len(), all.len());
        for (chosen, whole) in chosen.iter().zip(&all) {
            assert_eq!(whole.workloads.len(), 2);
            assert_eq!(*chosen, whole.only_first());
        }
    }
}
