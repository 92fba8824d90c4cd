//! Warm starts: the fastest programs of earlier searches for the same loops, whose schedules a search tries first.
//!
//! A search leaves its certified programs in its folder, with the form of its problem. Two problems have the same form if they
//! differ by names, sizes, precision or constants alone, and if the same kind of schedules fits both.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_actors::stream;
use flopsmith_generator::schedule::Space;
use flopsmith_problem::Problem;
use flopsmith_protocol::CandidateId;
use serde::{Deserialize, Serialize};

use crate::folder::read_facts;
use crate::summary::outcomes;

/// The programs in a run's folder.
const FILE: &str = "fastest.json";
/// Number of programs of earlier searches that a search begins with.
const MOST: usize = 4;
/// Bytes of all of them together: they are part of the run's settings.
const MOST_BYTES: usize = 1 << 18;

/// The programs of a search.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Fastest {
    /// The form of its problem.
    form: String,
    /// The certified programs, the fastest first.
    programs: Vec<String>,
}

/// Programs of earlier searches.
#[derive(Debug, Default, PartialEq)]
pub struct Warm {
    /// Their sources, those of the newest search first.
    pub programs: Vec<String>,
    /// The names of the searches, the newest first.
    pub runs: Vec<String>,
}

/// The form of a problem. A problem without affine loops, with a template or with a schedule space of its own has its own
/// form: schedules of others do not fit there.
fn form(problem: &Problem) -> String {
    let is_apart = problem.template.is_some() || Space::of(problem.id.as_str()).is_some();
    let form = stream::form(problem).filter(|_| !is_apart);
    form.unwrap_or_else(|| problem.id.to_string())
}

/// Writes the certified programs of a search into its folder, for later searches. A search without any writes nothing. Variants of the
/// user's own program are left out: they have no schedule.
///
/// # Errors
/// If the run's record cannot be read, or the file cannot be written.
pub fn keep(folder: &Path, problem: &Problem) -> Result<()> {
    let mut certified = read_facts(folder)?.certified;
    if certified.is_empty() {
        return Ok(());
    }
    certified.sort_by(|a, b| b.measurement.ratio.total_cmp(&a.measurement.ratio));
    let outcomes = outcomes(folder)?;
    let sources: HashMap<&CandidateId, &str> = outcomes
        .iter()
        .filter(|outcome| outcome.candidate.follows.is_none())
        .map(|outcome| (&outcome.candidate.id, outcome.source.as_str()))
        .collect();
    let programs = certified
        .iter()
        .filter_map(|c| Some((*sources.get(&c.candidate)?).to_owned()));
    let fastest = Fastest {
        form: form(problem),
        programs: programs.collect(),
    };
    let path = folder.join(FILE);
    let text = serde_json::to_string_pretty(&fastest)?;
    std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}

/// The fastest programs of the newest searches in `runs` for loops of the same form. Files that cannot be read are left out:
/// a search needs none.
pub fn find(runs: &Path, problem: &Problem) -> Warm {
    let form = form(problem);
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let mut files: Vec<(std::time::SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.path().join(FILE);
            let changed = path.metadata().and_then(|of| of.modified()).ok()?;
            Some((changed, path))
        })
        .collect();
    files.sort();
    let mut warm = Warm::default();
    let mut bytes = 0;
    for (_, path) in files.iter().rev() {
        let read = std::fs::read(path).ok();
        let Some(fastest) = read.and_then(|text| serde_json::from_slice::<Fastest>(&text).ok())
        else {
            continue;
        };
        if fastest.form != form {
            continue;
        }
        let before = warm.programs.len();
        for program in fastest.programs {
            if warm.programs.len() == MOST || warm.programs.contains(&program) {
                continue;
            }
            bytes += program.len();
            if bytes <= MOST_BYTES {
                warm.programs.push(program);
            }
        }
        if warm.programs.len() > before {
            let name = path.parent().and_then(Path::file_name);
            warm.runs
                .extend(name.map(|name| name.to_string_lossy().into_owned()));
        }
        if warm.programs.len() == MOST {
            break;
        }
    }
    warm
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::{Duration, SystemTime};

    use flopsmith_test_support::shipped;

    use super::*;

    fn problem(name: &str) -> Problem {
        Problem::load(&shipped::at(name)).unwrap()
    }

    fn left(runs: &Path, name: &str, age: u64, form: &str, programs: &[&str]) {
        let folder = runs.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let fastest = Fastest {
            form: form.to_owned(),
            programs: programs.iter().map(|p| (*p).to_owned()).collect(),
        };
        let path = folder.join(FILE);
        std::fs::write(&path, serde_json::to_string(&fastest).unwrap()).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
    }

    #[test]
    fn the_newest_searches_for_the_same_loops_are_found() {
        let place = tempfile::tempdir().unwrap();
        let (double, single, other) = (problem("dgemm"), problem("sgemm"), problem("dgemv"));
        assert_eq!(Some(form(&single)), stream::form(&single));
        assert_ne!(form(&single), form(&other));
        assert_eq!(form(&double), "dgemm");
        assert_eq!(form(&problem("sort64")), "sort64");
        assert_eq!(find(place.path(), &single), Warm::default());
        assert_eq!(find(&place.path().join("none"), &single), Warm::default());
        let form = form(&single);
        left(place.path(), "oldest", 300, &form, &["f", "g"]);
        left(place.path(), "old", 200, &form, &["a", "b", "c"]);
        left(place.path(), "foreign", 150, "dgemv", &["x"]);
        left(place.path(), "new", 100, &form, &["d", "a"]);
        std::fs::create_dir(place.path().join("damaged")).unwrap();
        std::fs::write(place.path().join("damaged").join(FILE), "{").unwrap();
        let warm = find(place.path(), &single);
        assert_eq!(warm.programs, ["d", "a", "b", "c"]);
        assert_eq!(warm.runs, ["new", "old"]);
        assert_eq!(find(place.path(), &double), Warm::default());
    }

    #[test]
    fn long_programs_do_not_fill_the_settings() {
        let place = tempfile::tempdir().unwrap();
        let dgemm = problem("dgemm");
        let (long, short) = ("y".repeat(MOST_BYTES), "z".to_owned());
        left(place.path(), "a", 1, &form(&dgemm), &[&short, &long]);
        assert_eq!(find(place.path(), &dgemm).programs, [short]);
    }
}
