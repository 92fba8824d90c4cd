//! The user's own program, with which a search begins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_config::{Settings, Start};
use flopsmith_generator::parameters::{self, Configurations, Program};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::{Technique, TechniqueSet};

use crate::console::usage;
use crate::paths;

/// The file of the parameters in a run's folder.
const PARAMETERS: &str = "parameters.json";

/// A program with which a search can begin, and the keys of the file of its parameters that mean nothing here.
#[derive(Debug)]
pub struct Checked {
    /// The settings of the program.
    pub start: Start,
    /// The keys.
    pub ignored: Vec<String>,
}

/// Checks a program and the file of its parameters, each with its name for messages.
///
/// # Errors
/// A usage error with the first contradiction.
pub fn check(
    (name, source): (&str, String),
    parameters: Option<(&str, String)>,
    problem: &Problem,
) -> Result<Checked> {
    let of_program = |error: parameters::Error| usage(format!("{name}: {error}"));
    if problem.language == Language::Python {
        return check_python((name, source), parameters.is_some(), problem);
    }
    if source.contains('\0') {
        return Err(usage(format!(
            "{name}: it is no text in UTF-8; save it as UTF-8"
        )));
    }
    let Some((file_name, text)) = parameters else {
        parameters::check_source(&source, problem).map_err(of_program)?;
        parameters::check_signature(&source, problem).map_err(of_program)?;
        return Ok(Checked {
            start: Start {
                source,
                ..Start::default()
            },
            ignored: Vec::new(),
        });
    };
    let of_file = |error: parameters::Error| usage(format!("{file_name}: {error}"));
    let file = parameters::read(&text).map_err(of_file)?;
    let program = Program::new(&source, &file, problem).map_err(of_program)?;
    parameters::check_signature(&source, problem).map_err(of_program)?;
    let space = Configurations::new(program, &file).map_err(of_file)?;
    Ok(Checked {
        start: Start {
            source,
            parameters: text,
            configurations: u64::from(space.count()),
            max_source_bytes: None,
        },
        ignored: file.ignored,
    })
}

/// Checks a program in Python. Its syntax is the matter of the compile stage, and parameters are macros of C.
fn check_python(
    (name, source): (&str, String),
    has_parameters: bool,
    problem: &Problem,
) -> Result<Checked> {
    if has_parameters {
        return Err(usage(format!(
            "parameters are macros of C, and programs for {} are in Python; leave --parameters out: the search varies the numbers of {name}",
            problem.id
        )));
    }
    let class = format!("class {}", problem.entry.name);
    if !source.lines().any(|line| line.starts_with(&class)) {
        return Err(usage(format!(
            "{name}: it has no line `{class}(…)`, which problem {} asks for; name a program for this problem, or the problem of this program",
            problem.id
        )));
    }
    if source.len() > problem.max_source_bytes {
        return Err(usage(format!(
            "{name}: it has {} bytes, and problem {} permits {}; shorten it, or permit more with `--max-source BYTES`",
            source.len(),
            problem.id,
            problem.max_source_bytes
        )));
    }
    Ok(Checked {
        start: Start {
            source,
            ..Start::default()
        },
        ignored: Vec::new(),
    })
}

/// The problem as a run has it: with the special techniques that its pool names, and with the limit that its own program has on the
/// length of sources, if it has one.
#[must_use]
pub fn permitting(problem: Problem, settings: &Settings) -> Problem {
    let pool = settings.sqd.techniques;
    // A run over kernels and modules that names no pool has the techniques of both, and no special ones.
    let of_both = TechniqueSet::general().union(TechniqueSet::of_modules());
    let mut problem = match pool.with(Technique::Openmp) == of_both {
        true => problem,
        false => problem.in_pool(pool),
    };
    let start = settings.start.as_ref();
    if let Some(bytes) = start.and_then(|start| start.max_source_bytes) {
        problem.max_source_bytes = bytes as usize;
    }
    problem
}

/// The configurations of a run's program; none for a run without parameters.
///
/// # Errors
/// If the problem cannot be loaded, or no longer fits the program.
pub fn configurations(settings: &Settings) -> Result<Option<Configurations>> {
    let Some(start) = settings.start.as_ref().filter(|s| s.has_parameters()) else {
        return Ok(None);
    };
    let problem = paths::problem_of(settings)?;
    let file = parameters::read(&start.parameters)?;
    let program = Program::new(&start.source, &file, &problem)?;
    Ok(Some(Configurations::new(program, &file)?))
}

/// The program that a run tries first, if the user gave it one: with parameters, the program of their defaults.
///
/// # Errors
/// As for [`configurations`].
pub fn first_program(settings: &Settings) -> Result<Option<String>> {
    let Some(start) = &settings.start else {
        return Ok(None);
    };
    let space = configurations(settings)?;
    Ok(Some(match space {
        Some(space) => space.text(space.start()),
        None => start.source.clone(),
    }))
}

/// The program's file in a run's folder.
fn program_file(folder: &Path, language: Language) -> PathBuf {
    folder.join(format!("start.{}", language.ending()))
}

/// The program's file in a run's folder, and that of its parameters if it has some.
pub fn files(folder: &Path, start: &Start) -> (PathBuf, Option<PathBuf>) {
    let languages = Language::ALL.into_iter().chain([Language::Python]);
    let mut names = languages.map(|language| program_file(folder, language));
    let program = names.find(|file| file.is_file());
    let program = program.unwrap_or_else(|| program_file(folder, Language::C));
    let parameters = start.has_parameters().then(|| folder.join(PARAMETERS));
    (program, parameters)
}

/// Writes the program and its parameters into a run's folder.
///
/// # Errors
/// If a file cannot be written.
pub fn keep(folder: &Path, start: &Start, language: Language) -> Result<()> {
    let mut files = vec![(program_file(folder, language), &start.source)];
    if start.has_parameters() {
        files.push((folder.join(PARAMETERS), &start.parameters));
    }
    for (path, text) in files {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn dgemm() -> Problem {
        Problem::load(&root().join("problems/dgemm")).unwrap()
    }

    fn example(name: &str) -> String {
        std::fs::read_to_string(root().join("examples/tune").join(name)).unwrap()
    }

    #[test]
    fn the_example_is_a_program_with_parameters() {
        let parameters = Some(("p.json", example("parameters.json")));
        let checked = check(("dgemm.c", example("dgemm.c")), parameters, &dgemm()).unwrap();
        assert_eq!(checked.start.configurations, 18);
        assert!(checked.ignored.is_empty(), "{:?}", checked.ignored);
        let settings = Settings {
            problem: root().join("problems/dgemm").display().to_string(),
            start: Some(checked.start),
            ..Settings::default()
        };
        let first = first_program(&settings).unwrap().unwrap();
        let defaults = "#define ROWS 2\n#define COLUMNS 8\n#define COLUMNS_OUTSIDE 0\n";
        assert_eq!(first, format!("{defaults}{}", example("dgemm.c")));
    }

    #[test]
    fn an_error_names_the_file_that_is_to_be_changed() {
        let error = |source: &str, parameters: Option<&str>| {
            let parameters = parameters.map(|text| ("p.json", text.to_owned()));
            let error = check(("mine.c", source.to_owned()), parameters, &dgemm()).unwrap_err();
            assert!(error.is::<crate::console::Usage>(), "{error:#}");
            error.to_string()
        };
        let sound = example("parameters.json");
        assert!(error("void dsyrk(int n) {}", None).starts_with("mine.c: it defines no function"));
        assert!(error("void dgemm(int n) {}\0", None).contains("UTF-8"));
        assert!(
            error("void dgemm(int n) {}", None).starts_with("mine.c: it defines `dgemm(int n)`")
        );
        let unused = error("void dgemm(int n) {}", Some(&sound));
        assert!(unused.starts_with("mine.c: it does not use the parameter `ROWS`"));
        let source = example("dgemm.c");
        let file = error(&source, Some("{}"));
        assert!(
            file.starts_with("p.json: it has no `ConfigurationSpace`"),
            "{file}"
        );
        let nothing = sound.replace("<= 64", "<= 4");
        assert!(error(&source, Some(&nothing)).starts_with("p.json: no configuration"));
    }

    #[test]
    fn a_module_begins_a_search_without_parameters() {
        let module = Problem::load_any(&root().join("problems/modules/softmax")).unwrap();
        let file = module.shipped_program().unwrap();
        let shipped = std::fs::read_to_string(file).unwrap();
        let begun = check(("s.py", shipped.clone()), None, &module).unwrap();
        assert_eq!(begun.start.source, shipped);
        for (source, parameters, said) in [
            ("void softmax(int n) {}", None, "no line `class ModelNew"),
            (shipped.as_str(), Some("{}"), "macros of C"),
        ] {
            let parameters = parameters.map(|text: &str| ("p.json", text.to_owned()));
            let error = check(("s.py", source.to_owned()), parameters, &module).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let short = Problem {
            max_source_bytes: 10,
            ..module
        };
        let error = check(("s.py", shipped), None, &short).unwrap_err();
        assert!(error.to_string().contains("--max-source"), "{error}");
    }

    #[test]
    fn a_long_program_begins_a_run_that_permits_it() {
        let long = |bytes: usize| Problem {
            max_source_bytes: bytes,
            ..dgemm()
        };
        let source = format!(
            "void dgemm(int n, double *A, double *B, double *C) {{}} /*{}*/\n",
            "x".repeat(130_000)
        );
        let error = check(("mine.c", source.clone()), None, &dgemm()).unwrap_err();
        assert!(error.to_string().contains("--max-source"), "{error}");
        let start = check(("mine.c", source), None, &long(200_000))
            .unwrap()
            .start;
        let mut settings = Settings {
            problem: root().join("problems/dgemm").display().to_string(),
            start: Some(start),
            ..Settings::default()
        };
        let limit = |settings: &Settings| paths::problem_of(settings).unwrap().max_source_bytes;
        assert_eq!(limit(&settings), dgemm().max_source_bytes);
        settings.start.as_mut().unwrap().max_source_bytes = Some(200_000);
        assert_eq!(limit(&settings), 200_000);
        let digest = paths::problem_of(&settings).unwrap().digest;
        assert_eq!(digest, dgemm().digest, "measurements stay comparable");
    }

    #[test]
    fn special_techniques_count_in_a_run_whose_pool_names_them() {
        let mut settings = Settings {
            problem: root().join("problems/dot").display().to_string(),
            ..Settings::default()
        };
        let mut of = |pool: TechniqueSet| {
            settings.sqd.techniques = pool;
            paths::problem_of(&settings).unwrap()
        };
        let general = TechniqueSet::general();
        let usual = of(general);
        let partial_sums = TechniqueSet::EMPTY.with(Technique::PartialSums);
        assert_eq!(usual.special, partial_sums);
        assert!(!usual.techniques.contains(Technique::PartialSums));
        // Others than those of the problem change nothing.
        assert_eq!(of(general.with(Technique::Skewing)), usual);
        let named = of(general.with(Technique::PartialSums));
        assert_eq!(named.techniques, usual.techniques.union(partial_sums));
        assert_ne!(named.digest, usual.digest, "programs have other techniques");
        assert_eq!(of(partial_sums), named);
        // The pool of a run over modules and kernels that names none.
        let of_both = general.union(TechniqueSet::of_modules());
        assert_eq!(of(of_both), usual);
        assert_eq!(of(of_both.without(Technique::Openmp)), usual);
    }

    #[test]
    fn a_run_keeps_the_program_and_its_parameters_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let start = Start {
            source: "int x;".into(),
            parameters: "{}".into(),
            configurations: 1,
            max_source_bytes: None,
        };
        keep(folder.path(), &start, Language::Cxx).unwrap();
        let (program, parameters) = files(folder.path(), &start);
        assert!(program.ends_with("start.cpp"), "{}", program.display());
        assert_eq!(std::fs::read_to_string(program).unwrap(), "int x;");
        assert_eq!(std::fs::read_to_string(parameters.unwrap()).unwrap(), "{}");
    }
}
