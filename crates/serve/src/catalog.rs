//! The problems that the service knows, by name. A request names no paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flopsmith_problem::{Problem, nearest};
use flopsmith_protocol::ProblemId;

/// Number of problems and selections of workloads that stay in memory.
const KEPT: usize = 256;

/// The problems in some folders. A definition is read once: a changed one holds after a restart.
pub struct Catalog {
    roots: Vec<PathBuf>,
    known: Mutex<HashMap<Selection, Arc<Problem>>>,
}

/// A problem's name, and names of workloads; none of them stands for all.
type Selection = (String, Vec<String>);

impl Catalog {
    /// The problems in the folders `roots`. The first folder that has a name counts.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self {
            roots,
            known: Mutex::default(),
        }
    }

    /// The names of all problems, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for root in &self.roots {
            let entries = std::fs::read_dir(root).into_iter().flatten();
            for entry in entries.filter_map(Result::ok) {
                if entry.path().join("problem.toml").is_file()
                    && let Ok(name) = entry.file_name().into_string()
                    && ProblemId::new(name.as_str()).is_ok()
                {
                    names.insert(name);
                }
            }
        }
        names.into_iter().collect()
    }

    /// All problems that can be read, and the errors of the others, by name.
    pub fn all(&self) -> BTreeMap<String, Result<Arc<Problem>, String>> {
        let names = self.names().into_iter();
        names
            .map(|name| {
                let found = self.find(&name, &[]);
                (name, found)
            })
            .collect()
    }

    /// A problem, timed at the named workloads, or at all of its own if `workloads` is empty.
    ///
    /// # Errors
    /// A sentence on what is wrong, and what to try.
    pub fn find(&self, name: &str, workloads: &[String]) -> Result<Arc<Problem>, String> {
        let selection = (name.to_owned(), workloads.to_vec());
        if let Some(problem) = self.known().get(&selection) {
            return Ok(Arc::clone(problem));
        }
        let problem = if workloads.is_empty() {
            self.load(name)?
        } else {
            let whole = self.find(name, &[])?;
            whole.select(workloads).map_err(|e| e.to_string())?
        };
        let problem = Arc::new(problem);
        let mut known = self.known();
        // Requests choose the selections, so their number has a limit.
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(selection, Arc::clone(&problem));
        Ok(problem)
    }

    fn load(&self, name: &str) -> Result<Problem, String> {
        // Only a name without slashes is an id, so that no request reads a file outside the folders.
        let folder = ProblemId::new(name).ok().and_then(|_| {
            let mut folders = self.roots.iter().map(|root| root.join(name));
            folders.find(|folder| folder.join("problem.toml").is_file())
        });
        let Some(folder) = folder else {
            let names = self.names();
            // Comparing a name of megabytes would take long.
            let near = (name.len() <= 120)
                .then(|| nearest(name, names.iter().map(String::as_str)))
                .flatten();
            let near = near.map(|near| format!(" (did you mean `{near}`?)"));
            let name: String = name.chars().take(120).collect();
            return Err(format!(
                "there is no problem `{name}`{}; GET /v1/problems (or the tool `problems`) lists all",
                near.unwrap_or_default()
            ));
        };
        let problem = Problem::load(&folder).map_err(|e| e.to_string())?;
        let mistakes: Vec<String> = flopsmith_problem::check(&problem)
            .iter()
            .filter(|finding| finding.is_error())
            .map(ToString::to_string)
            .collect();
        if mistakes.is_empty() {
            Ok(problem)
        } else {
            Err(format!(
                "the definition of `{name}` has errors: {}",
                mistakes.join("; ")
            ))
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Selection, Arc<Problem>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::*;

    fn shipped() -> Catalog {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        Catalog::new(vec!["no/such/folder".into(), root])
    }

    #[test]
    fn a_problem_is_found_by_its_name_and_read_once() {
        let catalog = shipped();
        assert!(catalog.names().contains(&"dgemm".to_owned()));
        let first = catalog.find("dgemm", &[]).unwrap();
        assert!(Arc::ptr_eq(&first, &catalog.find("dgemm", &[]).unwrap()));
        let one = catalog.find("dgemm", &["n=256".to_owned()]).unwrap();
        assert_eq!((first.workloads.len(), one.workloads.len()), (3, 1));
        assert_ne!(first.digest, one.digest);
        let error = catalog.find("dgemm", &["n=7".to_owned()]).unwrap_err();
        assert!(error.contains("n=7"), "{error}");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_one() {
        let error = shipped().find("dgem", &[]).unwrap_err();
        assert!(error.contains("did you mean `dgemm`?"), "{error}");
    }

    #[test]
    fn no_path_is_a_name() {
        let catalog = shipped();
        let absolute = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
        let absolute = absolute.canonicalize().unwrap();
        for name in [
            "../problems/dgemm",
            "./dgemm",
            "dgemm/",
            "dgemm/.",
            "",
            ".",
            "..",
        ] {
            assert!(catalog.find(name, &[]).is_err(), "{name:?}");
        }
        assert!(catalog.find(absolute.to_str().unwrap(), &[]).is_err());
    }

    #[test]
    fn every_shipped_problem_can_be_used() {
        let all = shipped().all();
        assert!(all.len() > 20, "{}", all.len());
        for (name, found) in all {
            assert!(found.is_ok(), "{name}: {found:?}");
        }
    }
}
