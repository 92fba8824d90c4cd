//! The folder of a run: makes, finds and locks it, and keeps the run's settings and facts in it.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_protocol::RunId;

use crate::console::{say, usage};
use crate::output::unwritable;
use crate::shell;
use crate::summary::Facts;

/// Every setting of the run, with its default.
pub const CONFIG: &str = "config.toml";
/// Longest name of a new run. Ids of tasks and programs begin with it, and they have a limit as well.
const LONGEST_NAME: usize = 80;

/// The locked folder of a run.
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// Its name, which is the run's id.
    pub id: RunId,
    /// Held while a process works on the run.
    _lock: File,
    /// The folder was just made, and the run has not begun.
    blank: Cell<bool>,
}

/// Pause between attempts to take a lock that another process may hold for a moment only.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 10;

impl Folder {
    /// Makes the folder of a new run.
    pub fn create(runs: &Path, name: &str, settings_toml: &str, job: Job) -> Result<Self> {
        check_name(name)?;
        std::fs::create_dir_all(runs).map_err(|e| {
            usage(format!(
                "cannot make the folder {} for runs: {e}; name another with --runs",
                runs.display()
            ))
        })?;
        for attempt in 0..1000u32 {
            let id = if attempt == 0 {
                name.to_owned()
            } else {
                format!("{name}-{attempt}")
            };
            let path = runs.join(&id);
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    // The broker's address in the settings may contain credentials.
                    File::options()
                        .write(true)
                        .create_new(true)
                        .mode(0o600)
                        .open(path.join(CONFIG))
                        .and_then(|mut file| file.write_all(settings_toml.as_bytes()))
                        .with_context(|| format!("cannot write into {}", path.display()))?;
                    let folder = Self::open(&path)?;
                    folder.blank.set(true);
                    // The job is written at once, so that a training run is never resumed as a search.
                    folder.write_facts(&Facts {
                        job: job_name(job).into(),
                        ..Facts::default()
                    })?;
                    return Ok(folder);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(usage(format!("cannot make {}: {e}", path.display()))),
            }
        }
        Err(usage(format!(
            "too many runs called {name} in {}",
            runs.display()
        )))
    }

    /// True if a process works on the run in this folder.
    pub fn is_at_work(path: &Path) -> bool {
        // The lock file is opened for reading only, so that this check changes nothing in the folder.
        File::open(path.join("lock")).is_ok_and(|lock| lock.try_lock_shared().is_err())
    }

    /// Opens the folder of a run and locks it.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        let id = RunId::new(name).map_err(|e| usage(e.to_string()))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(|e| unwritable(&lock_path, e))?;
        // [`Folder::is_at_work`] holds the lock for a moment in another process.
        let mut locked = lock.try_lock();
        for _ in 0..LOOKS {
            if locked.is_ok() {
                break;
            }
            std::thread::sleep(LOOK);
            locked = lock.try_lock();
        }
        locked.map_err(|_| {
            usage(format!(
                "another process works on {}: wait for it or stop it",
                path.display()
            ))
        })?;
        Ok(Self {
            path: path.to_owned(),
            id,
            _lock: lock,
            blank: Cell::new(false),
        })
    }

    /// Marks the run as begun. From now on there is something to resume.
    pub fn begun(&self) {
        self.blank.set(false);
    }

    /// Removes the folder of a new run that could not be begun, as there is nothing to resume.
    pub fn discard_unless_begun(&self) {
        if self.blank.replace(false)
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(folder = %self.path.display(), %error, "cannot remove the folder of a run that was not begun");
        }
    }

    /// Reads `run.json`, which earlier sessions wrote.
    pub fn facts(&self) -> Result<Facts> {
        read_facts(&self.path)
    }

    /// Replaces `run.json`.
    pub fn write_facts(&self, facts: &Facts) -> Result<()> {
        let path = self.path.join("run.json");
        replace(&path, serde_json::to_vec_pretty(facts)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Replaces `config.toml` and keeps its modification time, by which the newest run is found.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_settings(&self, settings: &Settings) -> Result<()> {
        let path = self.path.join(CONFIG);
        let part = self.path.join("config.toml.part");
        let text = toml::to_string(settings)?;
        let write = || {
            let made = path.metadata()?.modified()?;
            // The settings may contain the broker's credentials.
            let mut options = File::options();
            let mut made_anew = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&part)?;
            made_anew.write_all(text.as_bytes())?;
            made_anew.set_modified(made)?;
            std::fs::rename(&part, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Refuses a name before a folder of that name is made.
fn check_name(name: &str) -> Result<()> {
    let reason = match RunId::new(name) {
        Err(e) => e.to_string(),
        Ok(_) if name.len() > LONGEST_NAME => {
            format!(
                "it has {} letters, and {LONGEST_NAME} are the limit",
                name.len()
            )
        }
        Ok(_) => return Ok(()),
    };
    Err(usage(format!(
        "a run cannot be called `{name}`: {reason}; rename its configuration file (for a search, its problem), which gives the run its name"
    )))
}

/// The name of a job in `run.json`.
pub fn job_name(job: Job) -> &'static str {
    match job {
        Job::Train => "train",
        Job::Search => "search",
    }
}

/// Reads `run.json`; a run without one has not begun.
pub fn read_facts(folder: &Path) -> Result<Facts> {
    match std::fs::read(folder.join("run.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("{}/run.json is damaged", folder.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Facts::default()),
        Err(e) => Err(e).with_context(|| format!("cannot read {}/run.json", folder.display())),
    }
}

/// The newest run in `runs` that `wanted` accepts, or the one called `name`.
pub fn find(runs: &Path, name: &str, wanted: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    if !name.is_empty() {
        let path = if Path::new(name).is_dir() {
            PathBuf::from(name)
        } else {
            runs.join(name)
        };
        if path.join(CONFIG).is_file() {
            return Ok(path);
        }
        return Err(usage(format!(
            "there is no run {name} in {}: `{} runs` lists them",
            runs.display(),
            shell::program()
        )));
    }
    let there: Vec<PathBuf> = std::fs::read_dir(runs)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.join(CONFIG).is_file())
        .collect();
    if there.is_empty() {
        return Err(usage(format!(
            "there is no run in {}: `{} train examples/dgemm.toml` starts one; --runs names another folder of runs",
            runs.display(),
            shell::program()
        )));
    }
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = there
        .into_iter()
        .filter(|p| wanted(p))
        .filter_map(|p| Some((p.join(CONFIG).metadata().ok()?.modified().ok()?, p)))
        .collect();
    found.sort();
    found.pop().map(|(_, p)| p).ok_or_else(|| {
        usage(format!(
            "there is no run in {} that this command can use: the runs there belong to another configuration or job, or have come to their end (`{} runs --runs {}` lists them)",
            runs.display(),
            shell::program(),
            shell::quoted(&runs.display().to_string())
        ))
    })
}

/// Opens a run that goes on, with the settings that it was begun with: the run called `name`, or the newest unfinished
/// run whose name is `prefix` and a date. `budget_seconds` replaces the run's own budget, also for later sessions.
pub fn resume(
    runs: &Path,
    name: &str,
    prefix: &str,
    job: Job,
    budget_seconds: Option<f64>,
) -> Result<(Folder, Settings)> {
    let path = find(runs, name, |p| unfinished(p, prefix, job))?;
    let mut settings = flopsmith_config::load(&path.join(CONFIG), &[])?;
    refuse_another_job(&path, job, &settings)?;
    let folder = Folder::open(&path)?;
    let facts = folder.facts()?;
    if let Some(seconds) = budget_seconds
        && seconds != settings.budget_seconds
    {
        if facts.finished {
            say("this run has come to its end, so --budget has no effect");
        } else {
            settings.budget_seconds = seconds;
            folder.write_settings(&settings)?;
        }
    }
    Ok((folder, settings))
}

/// True for an unfinished run of this job whose name is `prefix` and a date. The date is checked because the names of
/// other configurations may begin with `prefix`.
fn unfinished(path: &Path, prefix: &str, job: Job) -> bool {
    let named = path
        .file_name()
        .and_then(|n| n.to_str())
        .and_then(|n| n.strip_prefix(prefix))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    named && read_facts(path).is_ok_and(|f| !f.concluded && is_of(&f, job))
}

fn is_of(facts: &Facts, job: Job) -> bool {
    facts.job == job_name(job)
}

/// Refuses to resume a run as another job: a training run resumed as a search would lose its learner for good.
fn refuse_another_job(path: &Path, job: Job, settings: &Settings) -> Result<()> {
    let facts = read_facts(path)?;
    if is_of(&facts, job) {
        return Ok(());
    }
    if facts.job.is_empty() {
        return Err(usage(format!(
            "the run in {} was stopped before it began, so there is nothing to resume; start a new one without --resume",
            path.display()
        )));
    }
    let (kind, right) = if facts.job == job_name(Job::Train) {
        (
            "a training run",
            shell::resume_train(&path.join(CONFIG), path),
        )
    } else {
        ("a search", shell::resume_search(&settings.problem, path))
    };
    Err(usage(format!(
        "{} is {kind}; resume it with `{right}`",
        path.display()
    )))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refused<T>(result: Result<T>, parts: &[&str]) {
        let error = result.err().unwrap();
        assert!(error.is::<crate::console::Usage>(), "{error:#}");
        for part in parts {
            assert!(error.to_string().contains(part), "{part}: {error:#}");
        }
    }

    fn settings() -> String {
        toml::to_string(&Settings::default()).unwrap()
    }

    #[test]
    fn a_name_that_cannot_be_an_id_is_refused_before_there_is_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let runs = place.path().join("runs");
        let create = |name: &str| Folder::create(&runs, name, &settings(), Job::Train);
        refused(
            create("my config-20260101-000000"),
            &["my config-", "rename"],
        );
        refused(create(&"x".repeat(81)), &["81 letters", "rename"]);
        assert!(!runs.exists());
        let longest = "x".repeat(80);
        create(&longest).unwrap();
        assert_eq!(
            create(&longest).unwrap().id.as_str(),
            format!("{longest}-1")
        );
    }

    #[test]
    fn a_run_that_cannot_be_written_is_not_gone_on_with() {
        let runs = tempfile::tempdir().unwrap();
        drop(Folder::create(runs.path(), "t-1", &settings(), Job::Train).unwrap());
        // Not even root can open a folder as a file.
        let lock = runs.path().join("t-1/lock");
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        let again = resume(runs.path(), "t-1", "t-", Job::Train, None);
        refused(again, &["cannot write", "t-1/lock"]);
    }

    #[test]
    fn a_run_goes_on_as_the_job_it_is() {
        let runs = tempfile::tempdir().unwrap();
        for (name, job) in [("t-1", Job::Train), ("s-1", Job::Search)] {
            drop(Folder::create(runs.path(), name, &settings(), job).unwrap());
        }
        let resume = |name: &str, job| resume(runs.path(), name, "-", job, None);
        refused(
            resume("t-1", Job::Search),
            &[
                "is a training run",
                " train ",
                "t-1/config.toml --resume t-1",
                "--runs ",
            ],
        );
        refused(
            resume("s-1", Job::Train),
            &["is a search", " search --problem dgemm --resume s-1"],
        );
        resume("t-1", Job::Train).unwrap();
        resume("s-1", Job::Search).unwrap();
    }

    #[test]
    fn the_newest_unfinished_run_is_one_of_the_same_configuration_and_job() {
        let runs = tempfile::tempdir().unwrap();
        let newest =
            |prefix: &str, job| find(runs.path(), "", |path| unfinished(path, prefix, job));
        let mut age = 9;
        let mut create = |name: &str, job| {
            let folder = Folder::create(runs.path(), name, &settings(), job).unwrap();
            let made = std::time::SystemTime::now() - std::time::Duration::from_secs(60 * age);
            age -= 1;
            let config = File::options()
                .append(true)
                .open(folder.path.join(CONFIG))
                .unwrap();
            config.set_modified(made).unwrap();
            folder
        };
        refused(
            newest("dgemm-", Job::Train),
            &["there is no run in", "train examples/dgemm.toml"],
        );
        let older = create("dgemm-20260101-000000", Job::Train);
        let newer = create("dgemm-20260102-000000", Job::Train);
        // Two runs with similar names: one of another configuration, and a search.
        create("dgemm-nosqd-20260103-000000", Job::Train);
        create("dgemm-20260104-000000", Job::Search);
        assert_eq!(newest("dgemm-", Job::Train).unwrap(), newer.path);
        let concluded = Facts {
            concluded: true,
            ..newer.facts().unwrap()
        };
        newer.write_facts(&concluded).unwrap();
        assert_eq!(newest("dgemm-", Job::Train).unwrap(), older.path);
        refused(
            newest("stencil-", Job::Train),
            &["there is no run in", "runs --runs"],
        );
    }

    #[test]
    fn a_new_budget_stays_and_the_run_is_as_old_as_before() {
        let runs = tempfile::tempdir().unwrap();
        let folder = Folder::create(runs.path(), "a-1", &settings(), Job::Train).unwrap();
        let config = folder.path.join(CONFIG);
        let made = config.metadata().unwrap().modified().unwrap();
        drop(folder);
        let budget = |seconds: Option<f64>| {
            let (_, settings) = resume(runs.path(), "a-1", "a-", Job::Train, seconds).unwrap();
            settings.budget_seconds
        };
        assert_eq!(budget(None), 600.0);
        assert_eq!(budget(Some(1200.0)), 1200.0);
        assert_eq!(budget(None), 1200.0);
        assert_eq!(config.metadata().unwrap().modified().unwrap(), made);
        // A finished run keeps its budget.
        let folder = Folder::open(&runs.path().join("a-1")).unwrap();
        let finished = Facts {
            finished: true,
            ..folder.facts().unwrap()
        };
        folder.write_facts(&finished).unwrap();
        drop(folder);
        assert_eq!(budget(Some(60.0)), 1200.0);
        assert_eq!(budget(None), 1200.0);
    }
}
