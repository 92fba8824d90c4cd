//! The problems that the service knows, by name. A request names no paths.
//!
//! A problem has the name of its folder, as in `bench`: `dgemm`. One in the folder of modules of a folder of problems has that
//! in its name, too: `modules/softmax`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use flopsmith_problem::{Problem, meant};
use flopsmith_protocol::ProblemId;
use flopsmith_run::paths::MODULES;

/// Number of problems and selections of workloads that stay in memory.
const KEPT: usize = 256;

/// The problems in some folders. A definition is read once: a changed one holds after a restart.
pub struct Catalog {
    shelves: Vec<Shelf>,
    known: Mutex<HashMap<Selection, Arc<Problem>>>,
}

/// A folder of problems, and the beginning of their names.
struct Shelf {
    prefix: String,
    folder: PathBuf,
}

/// A problem's name, and names of workloads; none of them stands for all.
type Selection = (String, Vec<String>);

impl Catalog {
    /// The problems in the folders `roots`, and in the folders of modules in these. The first folder that has a name counts.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        let modules = roots.iter().map(|root| Shelf {
            prefix: format!("{MODULES}/"),
            folder: root.join(MODULES),
        });
        let modules: Vec<Shelf> = modules.collect();
        let plain = roots.into_iter().map(|folder| Shelf {
            prefix: String::new(),
            folder,
        });
        Self {
            shelves: plain.chain(modules).collect(),
            known: Mutex::default(),
        }
    }

    /// The names of all problems, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        for Shelf { prefix, folder } in &self.shelves {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            for entry in entries.filter_map(Result::ok) {
                if entry.path().join("problem.toml").is_file()
                    && let Ok(name) = entry.file_name().into_string()
                    && ProblemId::new(name.as_str()).is_ok()
                {
                    names.insert(format!("{prefix}{name}"));
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
        let mut folders = self.shelves.iter().filter_map(|shelf| {
            let own = name.strip_prefix(shelf.prefix.as_str())?;
            let own = ProblemId::new(own).ok()?;
            Some(shelf.folder.join(own.as_str()))
        });
        let folder = folders.find(|folder| folder.join("problem.toml").is_file());
        let Some(folder) = folder else {
            let names = self.names();
            // Comparing a name of megabytes would take long.
            let near = (name.len() <= 120)
                .then(|| meant(name, names.iter().map(String::as_str)))
                .flatten();
            let near = near.map(|near| format!(" (did you mean {near}?)"));
            let name: String = name.chars().take(120).collect();
            return Err(format!(
                "there is no problem `{name}`{}; GET /v1/problems (or the tool `problems`) lists all",
                near.unwrap_or_default()
            ));
        };
        let problem = Problem::load_any(&folder).map_err(|e| e.to_string())?;
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
    fn a_module_has_its_folder_in_its_name_and_is_another_problem_than_the_kernel() {
        let catalog = shipped();
        let module = catalog.find("modules/softmax", &[]).unwrap();
        let kernel = catalog.find("softmax", &[]).unwrap();
        assert_ne!(module.digest, kernel.digest);
        assert_ne!(module.target(), kernel.target());
        let wide = catalog
            .find("modules/softmax", &["wide".to_owned()])
            .unwrap();
        assert_eq!(wide.workloads.len(), 1);
        let error = catalog.find("modules/softmx", &[]).unwrap_err();
        assert!(error.contains("did you mean `modules/softmax`?"), "{error}");
        // A user's folder of modules alone has them by their own names.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
        let own = Catalog::new(vec![root]).find("softmax", &[]).unwrap();
        assert_eq!(own.digest, module.digest);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_one() {
        let error = shipped().find("dgem", &[]).unwrap_err();
        assert!(
            error.contains("did you mean `dgemm` or `dgemv`?"),
            "{error}"
        );
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
            "modules/",
            "modules/..",
            "modules/../dgemm",
            "modules/softmax/",
            "modules/modules/softmax",
            "modules/dgemm",
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
