//! The definition of a module problem: `problem.toml` beside `reference.py`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{FIRST_WORKLOAD, text};
use serde::{Deserialize, Serialize};

use crate::baseline::{self, Baseline};
use crate::error::Error;

/// Distributions of inputs that `reference.py`'s own inputs can be changed into.
pub const DISTRIBUTIONS: [&str; 9] = [
    "plain", "large", "tiny", "shifted", "sparse", "rows", "signed", "extremes", "constant",
];
/// A problem that names no distributions has the first ones: it may be undefined for the others.
const USUAL: usize = 6;

/// Data types that a workload may give to floating-point inputs and parameters.
const DTYPES: [&str; 4] = ["float32", "float64", "bfloat16", "float16"];

/// One named set of constants of `reference.py`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The name.
    pub name: String,
    /// Values that replace constants at the top of `reference.py`.
    #[serde(default)]
    pub constants: BTreeMap<String, serde_json::Value>,
    /// The data type of floating-point inputs and parameters; none for those that `reference.py` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
}

/// The largest error of an output element of one data type. An element may differ from the float64 result r by
/// `absolute`·rms + `relative`·|r|, where rms is the root mean square of the output, or by four times the largest error
/// of the eager module on the same inputs, whichever is more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Share of the output's root mean square.
    pub absolute: f64,
    /// Share of the element.
    pub relative: f64,
    /// The origin of these figures.
    pub source: String,
}

/// The gradients that candidates must give besides results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "`gradients` is true, false, or a list of names of inputs and parameters"
)]
pub enum Gradients {
    /// Those of every floating-point input and of every parameter, or none.
    All(bool),
    /// Those of inputs, by the names that `Model.forward` gives them, and of parameters.
    Of(Vec<String>),
}

impl Gradients {
    /// True if candidates must give gradients.
    pub fn any(&self) -> bool {
        *self != Gradients::default()
    }

    /// The mistake in a list of names.
    fn mistake(&self) -> Option<String> {
        let Gradients::Of(names) = self else {
            return None;
        };
        if names.is_empty() {
            return Some(
                "`gradients` names nothing; leave it out, or name inputs and parameters".into(),
            );
        }
        let taken = |(at, name): &(usize, &String)| name.is_empty() || names[..*at].contains(name);
        let (_, name) = names.iter().enumerate().find(taken)?;
        Some(format!(
            "the name `{name}` in `gradients` is empty or comes twice"
        ))
    }
}

impl Default for Gradients {
    fn default() -> Self {
        Gradients::All(false)
    }
}

/// The fields of `problem.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    kind: String,
    id: String,
    title: String,
    level: u8,
    #[serde(default)]
    permit_torch: bool,
    #[serde(default)]
    distributions: Vec<String>,
    #[serde(default)]
    gradients: Gradients,
    #[serde(default)]
    strides: bool,
    #[serde(default)]
    aliasing: bool,
    #[serde(default)]
    deterministic: bool,
    baselines: Option<Vec<String>>,
    #[serde(rename = "workload")]
    workloads: Vec<Workload>,
    tolerance: BTreeMap<String, Tolerance>,
}

/// A module problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The identifier, unique among module problems.
    pub id: String,
    /// A short description.
    pub title: String,
    /// The level: 1 single operators, 2 fusions, 3 small blocks, 4 whole models.
    pub level: u8,
    /// True if a candidate may compute with PyTorch's operators.
    pub permit_torch: bool,
    /// Distributions of the inputs on which candidates are verified.
    pub distributions: Vec<String>,
    /// The gradients that candidates must give; they are verified and not timed.
    pub gradients: Gradients,
    /// True if candidates are also verified on inputs that are no dense tensors.
    pub strides: bool,
    /// True if candidates are also verified with one tensor as several inputs.
    pub aliasing: bool,
    /// True if a second call with the same inputs must give the same bits.
    pub deterministic: bool,
    /// The programs that candidates are timed against; the fastest one counts.
    pub baselines: Vec<Baseline>,
    /// The workloads; candidates are verified and timed on each.
    pub workloads: Vec<Workload>,
    /// Tolerances by data type (`float32`).
    pub tolerance: BTreeMap<String, Tolerance>,
    /// The folder of the definition.
    pub folder: PathBuf,
}

impl Problem {
    /// Loads a definition and checks everything that needs no Python.
    ///
    /// # Errors
    /// [`Error::Problem`] names the file and the mistake.
    pub fn load(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("problem.toml");
        let wrong = |detail: String| Error::Problem {
            path: path.clone(),
            detail,
        };
        let text = fs::read(&path)
            .and_then(text::decode)
            .map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let fields: Fields = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if fields.kind != "module" {
            return Err(wrong(format!(
                "`kind` is `{}`; a module problem has kind = \"module\"",
                fields.kind
            )));
        }
        if fields.workloads.is_empty() {
            return Err(wrong("there is no `[[workload]]`; add at least one".into()));
        }
        for (position, workload) in fields.workloads.iter().enumerate() {
            let earlier = &fields.workloads[..position];
            if workload.name.is_empty() || earlier.iter().any(|w| w.name == workload.name) {
                return Err(wrong(format!(
                    "the name `{}` of a workload is empty or taken",
                    workload.name
                )));
            }
            if workload.name == FIRST_WORKLOAD {
                return Err(wrong(format!(
                    "the name `{FIRST_WORKLOAD}` of a workload stands for the first workload of each problem; choose another name"
                )));
            }
            let unknown = |dtype: &&String| !DTYPES.contains(&dtype.as_str());
            if let Some(dtype) = workload.dtype.as_ref().filter(unknown) {
                return Err(wrong(format!(
                    "unknown data type `{dtype}` of the workload `{}`; there are {}",
                    workload.name,
                    DTYPES.join(", ")
                )));
            }
            let plain = |v: &serde_json::Value| v.is_number() || v.is_boolean() || v.is_string();
            if let Some((name, _)) = workload.constants.iter().find(|(_, v)| !plain(v)) {
                return Err(wrong(format!(
                    "the constant `{name}` must be a number, a truth value or text"
                )));
            }
        }
        let unknown = |d: &&String| !DISTRIBUTIONS.contains(&d.as_str());
        if let Some(name) = fields.distributions.iter().find(unknown) {
            return Err(wrong(format!(
                "unknown distribution `{name}`; there are {}",
                DISTRIBUTIONS.join(", ")
            )));
        }
        if let Some(mistake) = fields.gradients.mistake() {
            return Err(wrong(mistake));
        }
        let baselines = match &fields.baselines {
            None => Baseline::DEFAULT.to_vec(),
            Some(names) => Baseline::named(names).map_err(&wrong)?,
        };
        if !(1..=4).contains(&fields.level) {
            return Err(wrong("`level` must be from 1 to 4".into()));
        }
        for (dtype, tolerance) in &fields.tolerance {
            let sound = |x: f64| x.is_finite() && (0.0..1.0).contains(&x);
            if !sound(tolerance.absolute) || !sound(tolerance.relative) {
                return Err(wrong(format!(
                    "the tolerance of {dtype} must lie in [0, 1)"
                )));
            }
            if tolerance.source.trim().is_empty() {
                return Err(wrong(format!("the tolerance of {dtype} names no source")));
            }
        }
        let reference = folder.join("reference.py");
        if !reference.is_file() {
            return Err(Error::Problem {
                path: reference,
                detail:
                    "there is no such file; it must define Model, get_inputs and get_init_inputs"
                        .into(),
            });
        }
        let folder = folder
            .canonicalize()
            .map_err(|e| wrong(format!("the folder cannot be resolved: {e}")))?;
        let distributions = match fields.distributions.is_empty() {
            true => DISTRIBUTIONS[..USUAL]
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            false => fields.distributions,
        };
        Ok(Problem {
            id: fields.id,
            title: fields.title,
            level: fields.level,
            permit_torch: fields.permit_torch,
            distributions,
            gradients: fields.gradients,
            strides: fields.strides,
            aliasing: fields.aliasing,
            deterministic: fields.deterministic,
            baselines,
            workloads: fields.workloads,
            tolerance: fields.tolerance,
            folder,
        })
    }

    /// The baselines that this machine times: modules are timed on the CPU.
    pub fn timed_baselines(&self) -> impl Iterator<Item = Baseline> {
        let all = self.baselines.iter().copied();
        all.filter(|baseline| !baseline.needs_gpu())
    }

    /// A note on baselines that this machine does not time, if there are any.
    pub fn left_out(&self) -> Option<String> {
        let all = self.baselines.iter().copied();
        let without: Vec<Baseline> = all.filter(|baseline| baseline.needs_gpu()).collect();
        (!without.is_empty()).then(|| {
            format!(
                "leaving out baselines that need a GPU: {}",
                baseline::list(&without)
            )
        })
    }

    /// The path of `reference.py`.
    pub fn reference(&self) -> PathBuf {
        self.folder.join("reference.py")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const GOOD: &str = r#"
kind = "module"
id = "twice"
title = "Twice"
level = 1
[[workload]]
name = "small"
constants = { N = 4 }
[tolerance.float32]
absolute = 1e-4
relative = 1e-4
source = "KernelBench"
"#;

    fn load(text: &str) -> Result<Problem, Error> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("problem.toml"), text).unwrap();
        fs::write(folder.path().join("reference.py"), "").unwrap();
        Problem::load(folder.path())
    }

    #[test]
    fn a_definition_gets_the_usual_distributions_unless_it_names_some() {
        assert_eq!(load(GOOD).unwrap().distributions, DISTRIBUTIONS[..USUAL]);
        let more = format!("distributions = [\"signed\", \"constant\"]\n{GOOD}");
        assert_eq!(load(&more).unwrap().distributions, ["signed", "constant"]);
        // The mark of Windows' editors is no part of the definition.
        let some = load(&format!("\u{feff}distributions = [\"plain\"]\n{GOOD}")).unwrap();
        assert_eq!(some.distributions, ["plain"]);
        assert_eq!(some.workloads[0].constants["N"], serde_json::json!(4));
    }

    #[test]
    fn levels_are_those_of_kernelbench() {
        for level in 0..=5 {
            let text = GOOD.replace("level = 1", &format!("level = {level}"));
            let loaded = load(&text).map(|problem| problem.level);
            match level {
                1..=4 => assert_eq!(loaded.unwrap(), level),
                _ => assert!(loaded.unwrap_err().to_string().contains("from 1 to 4")),
            }
        }
    }

    #[test]
    fn gradients_strides_and_aliasing_are_off_unless_a_problem_permits_them() {
        let plain = load(GOOD).unwrap();
        assert!(!plain.gradients.any() && !plain.strides && !plain.aliasing);
        assert!(!plain.deterministic);
        assert!(
            load(&format!("deterministic = true\n{GOOD}"))
                .unwrap()
                .deterministic
        );
        let with = |keys: &str| load(&format!("{keys}\n{GOOD}")).unwrap();
        assert!(!with("gradients = false").gradients.any());
        assert_eq!(with("gradients = true").gradients, Gradients::All(true));
        let named = with("gradients = [\"x\", \"norm.weight\"]\nstrides = true\naliasing = true");
        let names = ["x", "norm.weight"].map(str::to_owned).to_vec();
        assert_eq!(named.gradients, Gradients::Of(names));
        assert!(named.gradients.any() && named.strides && named.aliasing);
    }

    #[test]
    fn a_workload_may_state_a_data_type() {
        assert_eq!(load(GOOD).unwrap().workloads[0].dtype, None);
        let half = GOOD.replacen("\"small\"", "\"small\"\ndtype = \"bfloat16\"", 1);
        let half = load(&half).unwrap();
        assert_eq!(half.workloads[0].dtype.as_deref(), Some("bfloat16"));
    }

    #[test]
    fn a_problem_names_its_baselines_and_those_for_a_gpu_are_left_out() {
        let usual = load(GOOD).unwrap();
        assert_eq!(usual.baselines, Baseline::DEFAULT);
        assert_eq!(usual.left_out(), None);
        let some = "baselines = [\"max-autotune\", \"inductor\"]";
        let some = load(&format!("{some}\n{GOOD}")).unwrap();
        let timed: Vec<Baseline> = some.timed_baselines().collect();
        assert_eq!(timed, [Baseline::Inductor]);
        assert!(some.left_out().unwrap().ends_with(": max-autotune"));
    }

    #[test]
    fn each_mistake_is_named() {
        for (from, to, part) in [
            ("\"module\"", "\"kernel\"", "kind"),
            ("\"small\"", "\"\"", "workload"),
            ("\"small\"", "\"first\"", "choose another name"),
            ("N = 4", "N = [4]", "`N`"),
            ("level = 1", "level = 9", "level"),
            ("absolute = 1e-4", "absolute = 7.0", "float32"),
            ("\"KernelBench\"", "\" \"", "source"),
            ("title", "tittle", "tittle"),
            ("level = 1", "level = 1\ngradients = []", "names nothing"),
            ("level = 1", "level = 1\ngradients = [\"x\", \"x\"]", "`x`"),
            ("level = 1", "level = 1\ngradients = [\"\"]", "empty"),
            (
                "level = 1",
                "level = 1\ngradients = 3",
                "list of names of inputs",
            ),
            ("level = 1", "level = 1\nstrides = \"yes\"", "strides"),
            (
                "\"small\"",
                "\"small\"\ndtype = \"int8\"",
                "data type `int8` of the workload `small`",
            ),
            ("level = 1", "level = 1\nbaselines = []", "names nothing"),
            ("level = 1", "level = 1\nbaselines = [\"jit\"]", "`jit`"),
            ("level = 1", "level = 1\ndeterministic = 1", "deterministic"),
        ] {
            let error = load(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(error.is_of_the_input());
        }
    }

    #[test]
    fn the_shipped_problems_load() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
        let (mut levels, mut in_cpp) = ([0; 5], 0);
        let (mut deterministic, mut typed) = (0, 0);
        for entry in fs::read_dir(root).unwrap() {
            let folder = entry.unwrap().path();
            let problem = Problem::load(&folder).unwrap();
            assert!(folder.ends_with(&problem.id), "{}", problem.id);
            let has = |file: &str| folder.join(file).is_file();
            in_cpp += usize::from(has("solution_cpp.py"));
            assert!(has("solution_triton.py"), "{}", problem.id);
            // Shapes and not only names differ, and each data type that is stated has its tolerance.
            let mut dtypes = problem.workloads.iter().filter_map(|w| w.dtype.as_ref());
            let bound = |dtype: &String| problem.tolerance.contains_key(dtype);
            assert!(dtypes.all(bound), "{}", problem.id);
            let mut workloads = problem.workloads.iter().map(|w| &w.constants);
            let first = workloads.next().unwrap();
            assert!(workloads.any(|other| other != first), "{}", problem.id);
            levels[usize::from(problem.level)] += 1;
            deterministic += usize::from(problem.deterministic);
            typed += usize::from(problem.workloads.iter().any(|w| w.dtype.is_some()));
        }
        assert_eq!(levels, [0, 13, 11, 8, 0]);
        assert!(deterministic >= 1 && typed >= 1);
        assert!(in_cpp >= 19, "only {in_cpp} solutions in C++");
    }
}
