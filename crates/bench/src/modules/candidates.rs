//! Candidates for modules: found among the user's files, and given to the problems that they solve.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_module::{Problem, kernelbench};
use flopsmith_protocol::text;
use flopsmith_run::console::usage;

use super::solution;
use crate::inputs::beneath;
use crate::pattern;

/// Largest file that is read as a candidate, bytes.
const LONGEST: u64 = 1 << 20;

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The Python source.
    pub source: String,
    /// The name of a solution of FlashInfer-Bench, or else the file's name without its ending.
    pub name: String,
    /// The problem that a solution of FlashInfer-Bench names.
    pub definition: Option<String>,
}

/// A candidate with its number among those for its problem, as KernelBench counts samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The number.
    pub number: u32,
    /// The candidate.
    pub candidate: Candidate,
}

/// Reads the candidates of files, folders (every Python file beneath) and patterns, each once.
///
/// # Errors
/// A usage error that names the first file which is no candidate.
pub fn read(named: &[PathBuf]) -> Result<Vec<Candidate>> {
    let mut files = Vec::new();
    for name in named {
        files.extend(expand(name)?);
    }
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.canonicalize().unwrap_or_else(|_| f.clone())));
    files.iter().map(|file| one(file)).collect()
}

/// The files that a name stands for.
fn expand(name: &Path) -> Result<Vec<PathBuf>> {
    let text = name.to_string_lossy();
    let found = if name.is_dir() {
        // Not the references of problems.
        beneath(name, "reference.py", |path| {
            path.extension().is_some_and(|e| e == "py")
        })?
    } else if name.exists() || !pattern::is_pattern(&text) {
        return Ok(vec![name.to_owned()]);
    } else {
        pattern::files(&text)
            .map_err(|e| usage(format!("`{text}` is neither a file nor a pattern: {e}")))?
    };
    match found.is_empty() {
        true => Err(usage(format!("there is no Python file (.py) in {text}"))),
        false => Ok(found),
    }
}

fn one(file: &Path) -> Result<Candidate> {
    let wrong = |why: String| usage(format!("cannot read {}: {why}", file.display()));
    let size = std::fs::metadata(file).map_err(|e| wrong(e.to_string()))?;
    let ending = file.extension().and_then(|e| e.to_str());
    if !size.is_file() || !matches!(ending, Some("py" | "json")) {
        return Err(wrong(
            "a candidate for a module is a Python file (.py) with a class ModelNew, or a solution of FlashInfer-Bench (.json)".into(),
        ));
    }
    if size.len() > LONGEST {
        return Err(wrong(format!(
            "it has {} bytes; at most {LONGEST} are read",
            size.len()
        )));
    }
    let text = std::fs::read(file)
        .and_then(text::decode)
        .map_err(|e| wrong(e.to_string()))?;
    if ending == Some("json") {
        let solution = solution::read(&text)
            .map_err(|why| usage(format!("{} cannot be evaluated: {why}", file.display())))?;
        return Ok(Candidate {
            file: file.to_owned(),
            source: solution.source,
            name: solution.name,
            definition: Some(solution.definition),
        });
    }
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Candidate {
        file: file.to_owned(),
        source: text,
        name: name.into_owned(),
        definition: None,
    })
}

/// The samples of each problem, in the order of the problems.
///
/// # Errors
/// A usage error that names the first file which solves none of the problems.
pub fn assign(problems: &[Problem], candidates: Vec<Candidate>) -> Result<Vec<Vec<Sample>>> {
    let mut of_each: Vec<Vec<Candidate>> = problems.iter().map(|_| Vec::new()).collect();
    for candidate in candidates {
        let Some(place) = find(problems, &candidate) else {
            return Err(usage(unknown(problems, &candidate)));
        };
        of_each[place].push(candidate);
    }
    Ok(of_each.into_iter().map(numbered).collect())
}

/// The message about a candidate that solves none of the problems.
fn unknown(problems: &[Problem], candidate: &Candidate) -> String {
    let file = candidate.file.display();
    match (&candidate.definition, problems) {
        (Some(name), [only]) => format!(
            "{file}: `definition` names {name}, and the problem is {}; name the problem that it solves",
            only.id
        ),
        (Some(name), _) => {
            format!("{file}: `definition` names {name}, which is none of the problems")
        }
        (None, [only]) => format!(
            "{file} is for another problem of KernelBench by its name, and the problem is {}; rename it, or name its problem",
            only.id
        ),
        (None, _) => format!(
            "{file} names none of the problems; call it level_1_problem_19_sample_0_kernel.py as KernelBench does, or by the problem, e.g. softmax.py or softmax/mine.py, or name one problem"
        ),
    }
}

/// The place of the problem that a candidate solves.
fn find(problems: &[Problem], candidate: &Candidate) -> Option<usize> {
    let with_id = |id: &str| problems.iter().position(|problem| problem.id == id);
    if let Some(definition) = &candidate.definition {
        return with_id(definition);
    }
    let number_of = |problem: &Problem| {
        let number = kernelbench::number(&problem.id, problem.level);
        number.map(|n| (problem.level, n))
    };
    if let Some(of) = numbers(&candidate.name) {
        let wanted = Some((of.level, of.problem));
        if let Some(place) = problems.iter().position(|p| number_of(p) == wanted) {
            return Some(place);
        }
        // A problem that is none of KernelBench's says nothing against the name of the file.
        if problems.len() > 1 || problems.iter().any(|p| number_of(p).is_some()) {
            return None;
        }
    }
    if problems.len() == 1 {
        return Some(0);
    }
    let begins = |problem: &Problem| {
        let rest = candidate.name.strip_prefix(&problem.id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['_', '-', '.']))
    };
    let named = problems.iter().filter(|problem| begins(problem));
    if let Some(longest) = named.max_by_key(|problem| problem.id.len()) {
        return with_id(&longest.id);
    }
    let folders = candidate.file.ancestors().skip(1);
    let mut names = folders.filter_map(|folder| folder.file_name()?.to_str());
    names.find_map(with_id)
}

/// The numbers in KernelBench's name of a generated kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    level: u8,
    problem: u32,
    sample: u32,
}

/// Reads a name such as `level_1_problem_19_sample_0_kernel`.
fn numbers(name: &str) -> Option<Numbers> {
    let rest = name.strip_prefix("level_")?.strip_suffix("_kernel")?;
    let (level, rest) = rest.split_once("_problem_")?;
    let (problem, sample) = rest.split_once("_sample_")?;
    Some(Numbers {
        level: level.parse().ok()?,
        problem: problem.parse().ok()?,
        sample: sample.parse().ok()?,
    })
}

/// Numbers the candidates for a problem: by their names where these have a number that no earlier one has, and by the
/// free numbers.
fn numbered(candidates: Vec<Candidate>) -> Vec<Sample> {
    let mut taken = BTreeSet::new();
    let of_name = |candidate: &Candidate| numbers(&candidate.name).map(|n| n.sample);
    let own: Vec<Option<u32>> = candidates
        .iter()
        .map(|candidate| of_name(candidate).filter(|number| taken.insert(*number)))
        .collect();
    let mut free = (0..).filter(|number| !taken.contains(number));
    let numbers = own.into_iter().map(|own| own.or_else(|| free.next()));
    let samples = candidates.into_iter().zip(numbers);
    samples
        .map(|(candidate, number)| Sample {
            number: number.unwrap_or(u32::MAX),
            candidate,
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use super::*;

    /// A problem of this identifier and level.
    pub fn problem(id: &str, level: u8) -> Problem {
        Problem {
            id: id.into(),
            title: id.into(),
            level,
            permit_torch: false,
            distributions: Vec::new(),
            gradients: flopsmith_module::Gradients::default(),
            strides: false,
            aliasing: false,
            deterministic: false,
            baselines: flopsmith_module::Baseline::DEFAULT.to_vec(),
            workloads: Vec::new(),
            tolerance: std::collections::BTreeMap::new(),
            folder: PathBuf::new(),
        }
    }

    fn candidate(file: &str) -> Candidate {
        let file = PathBuf::from(file);
        Candidate {
            name: file.file_stem().unwrap().to_str().unwrap().into(),
            file,
            source: String::new(),
            definition: None,
        }
    }

    #[test]
    fn a_candidate_finds_its_problem_by_its_name_or_its_folder() {
        let problems = [
            problem("level1_19_relu", 1),
            problem("level2_19_relu", 2),
            problem("softmax", 1),
            problem("softmax_wide", 1),
        ];
        let find = |candidate: &Candidate| super::find(&problems, candidate);
        for (file, place) in [
            ("runs/a/level_2_problem_19_sample_3_kernel.py", Some(1)),
            ("level_1_problem_20_sample_0_kernel.py", None),
            ("softmax.py", Some(2)),
            ("softmax_wide_2.py", Some(3)),
            ("softmaxed.py", None),
            ("level1_19_relu/tries/a.py", Some(0)),
            ("a.py", None),
        ] {
            assert_eq!(find(&candidate(file)), place, "{file}");
        }
        let mut solution = candidate("a.json");
        solution.definition = Some("softmax".into());
        assert_eq!(find(&solution), Some(2));
        let error = assign(&problems[..1], vec![solution]).unwrap_err();
        assert!(
            error.to_string().contains("`definition` names softmax"),
            "{error}"
        );
        for (only, file, place) in [
            (0, "a.py", Some(0)),
            (0, "level_1_problem_19_sample_0_kernel.py", Some(0)),
            (0, "level_2_problem_19_sample_0_kernel.py", None),
            (2, "level_2_problem_19_sample_0_kernel.py", Some(0)),
        ] {
            let found = super::find(&problems[only..=only], &candidate(file));
            assert_eq!(found, place, "{file}");
        }
    }

    #[test]
    fn samples_keep_kernelbenchs_numbers_and_others_get_free_ones() {
        let files = [
            "a.py",
            "level_1_problem_1_sample_0_kernel.py",
            "x/level_1_problem_1_sample_0_kernel.py",
            "level_1_problem_1_sample_2_kernel.py",
        ];
        let samples = numbered(files.map(candidate).to_vec());
        let numbers: Vec<u32> = samples.iter().map(|sample| sample.number).collect();
        assert_eq!(numbers, [1, 0, 3, 2]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_candidate() {
        let place = tempfile::tempdir().unwrap();
        let solution = r#"{ "name": "quick", "definition": "softmax",
            "spec": { "languages": ["pytorch"], "target_hardware": ["cpu"], "entry_point": "main.py::ModelNew",
                "destination_passing_style": false },
            "sources": [{ "path": "main.py", "content": "x = 1" }] }"#;
        for (name, text) in [("a.py", "x = 1"), ("b.json", solution)] {
            let file = place.path().join(name);
            std::fs::write(&file, format!("\u{feff}{text}")).unwrap();
            assert_eq!(read(&[file]).unwrap()[0].source, "x = 1");
        }
    }

    #[test]
    fn a_folder_stands_for_its_python_files_without_references() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("softmax");
        std::fs::create_dir(&folder).unwrap();
        for name in [
            "reference.py",
            "problem.toml",
            "b.py",
            "a.py",
            "eval_results.json",
        ] {
            std::fs::write(folder.join(name), "x = 1").unwrap();
        }
        let twice = [folder.clone(), folder.join("a.py")];
        let names: Vec<String> = read(&twice).unwrap().into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["a", "b"]);
        std::fs::remove_file(folder.join("a.py")).unwrap();
        std::fs::remove_file(folder.join("b.py")).unwrap();
        assert!(
            read(&[folder])
                .unwrap_err()
                .to_string()
                .contains("no Python file")
        );
    }
}
