//! Modules of PyTorch as problems: the parts of their definitions that prompts, archives and messages need.
//!
//! `flopsmith-module` checks every key of such a definition. This reading takes what it knows and leaves out the rest.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use flopsmith_protocol::{FIRST_WORKLOAD, ProblemFiles, ProblemId, Technique, TechniqueSet, text};
use serde::Deserialize;

use crate::error::Error;
use crate::formula::Formula;
use crate::load::digest;
use crate::prompt;
use crate::{Caches, Entry, ErrorBound, Language, Params, Problem, VerifyPlan, Workload};

/// Longest source of a candidate, bytes.
const LONGEST: usize = 256 << 10;

/// The programs that candidates of most modules are timed against.
pub(crate) const BOTH: &str = "eager PyTorch and TorchInductor";

/// A complete candidate for a module that adds a bias and applies ReLU, which no shipped problem asks for.
pub const EXAMPLE: &str = include_str!("module_example.py");

/// The contents of a module's definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Module {
    id: String,
    title: String,
    /// The level: 1 single operators, 2 fusions, 3 small blocks, 4 whole models.
    pub level: u8,
    /// True if candidates may compute with PyTorch's operators.
    #[serde(default)]
    pub permit_torch: bool,
    /// The kinds of inputs on which candidates are verified; empty for all of them.
    #[serde(default)]
    pub distributions: Vec<String>,
    /// The gradients that candidates must give: true for all, a list of names, or none.
    #[serde(default)]
    gradients: Option<toml::Value>,
    /// True if inputs may be views with any strides.
    #[serde(default)]
    strides: bool,
    /// True if one tensor may be several inputs.
    #[serde(default)]
    aliasing: bool,
    /// True if a second call with the same inputs must give the same bits.
    #[serde(default)]
    deterministic: bool,
    /// The names of the programs that candidates are timed against; none for the usual ones.
    baselines: Option<Vec<String>>,
    /// The processor that times candidates, in words for prompts; none if it is not known. It is no part of the definition, and does
    /// not travel.
    #[serde(skip)]
    device: Option<String>,
    #[serde(rename = "workload")]
    workloads: Vec<Constants>,
    /// Tolerances by data type (`float32`).
    pub tolerance: BTreeMap<String, Tolerance>,
}

impl Module {
    /// The programs that candidates are timed against, in words: those of the names that need no GPU.
    pub(crate) fn baselines(&self) -> &'static str {
        let named = |name: &str| {
            let names = self.baselines.as_ref();
            names.is_none_or(|names| names.iter().any(|one| one == name))
        };
        match (named("eager"), named("inductor")) {
            (true, false) => "eager PyTorch",
            (false, true) => "TorchInductor",
            _ => BOTH,
        }
    }

    /// The names whose gradients are verified, for prompts; none for a module that is verified by its results alone.
    fn gradients(&self) -> Option<String> {
        match self.gradients.as_ref()? {
            toml::Value::Boolean(true) => {
                Some("all floating-point inputs and all parameters".to_owned())
            }
            toml::Value::Array(names) => {
                let names: Vec<String> = names
                    .iter()
                    .filter_map(toml::Value::as_str)
                    .map(|name| format!("`{name}`"))
                    .collect();
                Some(names.join(", "))
            }
            _ => None,
        }
    }
}

/// The constants of a workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Constants {
    name: String,
    #[serde(default)]
    constants: BTreeMap<String, toml::Value>,
    /// The data type of floating-point inputs and parameters; none for those of the reference.
    dtype: Option<String>,
}

/// The largest error of an element: a share of the root mean square of the result, and a share of the element.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Tolerance {
    /// Share of the root mean square.
    pub absolute: f64,
    /// Share of the element.
    pub relative: f64,
}

/// True if a definition is one of a module.
pub fn is_module(definition: &str) -> bool {
    let table: Option<toml::Table> = definition.parse().ok();
    table.is_some_and(|t| t.get("kind").and_then(toml::Value::as_str) == Some("module"))
}

impl Problem {
    /// Reads the module in `dir`.
    ///
    /// # Errors
    /// A file that cannot be read, or a definition without what every module has.
    pub fn load_module(dir: &Path) -> Result<Problem, Error> {
        let read = |name: &str| {
            let path = dir.join(name);
            let read = std::fs::read(&path).and_then(text::decode);
            read.map_err(|source| Error::Read { path, source })
        };
        let (definition, reference) = (read("problem.toml")?, read("reference.py")?);
        let module = parsed(&definition, &dir.join("problem.toml"))?;
        of_module(module, definition, reference, dir)
    }

    /// The same problem, whose prompts name the processor that times candidates, if it is a module.
    #[must_use]
    pub fn timed_by(mut self, device: &str) -> Problem {
        if let Some(module) = &mut self.module {
            module.device = Some(device.to_owned());
        }
        self
    }

    /// A module that travelled.
    pub(crate) fn module_of_files(files: ProblemFiles) -> Result<Problem, Error> {
        let path = PathBuf::from(files.id.as_str()).join("problem.toml");
        let module = parsed(&files.definition, &path)?;
        of_module(module, files.definition, files.reference, Path::new(""))
    }
}

fn wrong(path: &Path, mistake: String) -> Error {
    Error::Wrong {
        path: path.to_owned(),
        mistakes: vec![(0, mistake)],
    }
}

fn parsed(definition: &str, path: &Path) -> Result<Module, Error> {
    let module: Module =
        toml::from_str(definition).map_err(|e| wrong(path, e.message().trim().to_owned()))?;
    if module.workloads.is_empty() {
        return Err(wrong(path, "there is no `[[workload]]`".into()));
    }
    if module.workloads.iter().any(|w| w.name == FIRST_WORKLOAD) {
        let mistake = format!(
            "the name `{FIRST_WORKLOAD}` of a workload stands for the first workload of each problem: choose another name"
        );
        return Err(wrong(path, mistake));
    }
    Ok(module)
}

fn of_module(
    module: Module,
    definition: String,
    reference: String,
    dir: &Path,
) -> Result<Problem, Error> {
    let path = dir.join("problem.toml");
    let id = ProblemId::new(module.id.clone()).map_err(|e| wrong(&path, e.to_string()))?;
    let workloads: Vec<Workload> = module.workloads.iter().map(Constants::workload).collect();
    let timed = workloads.first().map(|w| w.params.clone());
    let one = || Formula::parse("1").expect("a number is a formula");
    Ok(Problem {
        id,
        title: module.title.clone(),
        suite: Some(format!("level_{}", module.level)),
        dir: dir.to_owned(),
        digest: digest([Some(definition.as_str()), Some(reference.as_str()), None]),
        definition,
        entry: Entry {
            name: "ModelNew".into(),
            prototype: "class ModelNew(torch.nn.Module)".into(),
            args: Vec::new(),
        },
        workloads,
        timed: timed.unwrap_or_default(),
        caches: Caches::Warm,
        verify: VerifyPlan {
            visible: Vec::new(),
            hidden: Vec::new(),
            distributions: Vec::new(),
        },
        includes: Vec::new(),
        forbidden: Vec::new(),
        flags: Vec::new(),
        cxx_flags: None,
        fortran_flags: None,
        bound: ErrorBound::Exact,
        // A module states no operations: its speed is its ratio to the fastest baseline.
        work: one(),
        bytes: one(),
        techniques: TechniqueSet::of_modules(),
        special: TechniqueSet::EMPTY,
        easy_inputs: None,
        template: None,
        threads: (1..=256).collect(),
        max_source_bytes: LONGEST,
        reference_source: reference,
        baseline_source: None,
        magnitude_source: None,
        deterministic: true,
        language: Language::Python,
        prompt_text: None,
        module: Some(module),
    })
}

impl Constants {
    /// The workload for messages and selections. Constants that are no whole numbers are the reference's matter.
    fn workload(&self) -> Workload {
        let whole = self.constants.iter();
        let params: Params = whole
            .filter_map(|(name, value)| Some((name.clone(), value.as_integer()?)))
            .collect();
        Workload {
            name: self.name.clone(),
            params,
            caches: Caches::Warm,
        }
    }

    /// `wide (ROWS = 512, COLUMNS = 2048, bfloat16)`.
    fn words(&self) -> String {
        let constants = self.constants.iter();
        let constants = constants.map(|(name, v)| format!("{name} = {v}"));
        let constants: Vec<String> = constants.chain(self.dtype.clone()).collect();
        match constants.is_empty() {
            true => self.name.clone(),
            false => format!("{} ({})", self.name, constants.join(", ")),
        }
    }
}

/// One line on a technique of modules, for prompts.
pub(crate) fn definition(technique: Technique) -> &'static str {
    match technique {
        Technique::CacheBlocking => {
            "tile: a loop advances from block to block of the data, and works on one block at a time"
        }
        Technique::Simd => {
            "vector access: neighbouring lanes access neighbouring elements, by contiguous blocks or vector types"
        }
        Technique::PartialSums => {
            "split a reduction: several programs, threads or lanes take parts of the terms of one result"
        }
        Technique::Openmp => "share the work among threads, by OpenMP or at::parallel_for",
        Technique::Fusion => "let one kernel do the work of several operators",
        other => prompt::definition(other),
    }
}

/// The part of a prompt that tells what a module is, how it is judged, and what is permitted.
pub(crate) fn facts(problem: &Problem, module: &Module) -> String {
    let mut text = String::new();
    let out = &mut text;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "The module is `Model` of this file:\n\n```python\n{}\n```\n",
        problem.reference_source.trim()
    );
    let timed = module
        .workloads
        .iter()
        .filter(|w| problem.workloads.iter().any(|kept| kept.name == w.name));
    let timed: Vec<String> = timed.map(Constants::words).collect();
    let device = module.device.as_ref().map(|device| format!(" ({device})"));
    let _ = writeln!(
        out,
        "Device: the CPU{}. It is timed in inference mode beside {}, at these workloads: {}. The speedup over {} counts, as the geometric mean over the workloads.",
        device.unwrap_or_default(),
        module.baselines(),
        timed.join("; "),
        match module.baselines() {
            BOTH => "the faster of the two",
            one => one,
        }
    );
    let _ = writeln!(
        out,
        "Parameters: `ModelNew` takes the arguments of `Model`, and has parameters and buffers of the same names, shapes and types. Their values are set before calls, and nothing may be kept from one call to the next."
    );
    if module.workloads.iter().any(|w| w.dtype.is_some()) {
        let _ = writeln!(
            out,
            "Data types: where a workload names one, floating-point inputs have it, and `ModelNew` is converted to it by `.to(…)` after `__init__`."
        );
    }
    let kinds = match module.distributions.as_slice() {
        [] => "ordinary, large, tiny, shifted and sparse ones, and rows of very different sizes"
            .to_owned(),
        named => named.join(", "),
    };
    let tolerances = module.tolerance.iter().map(|(dtype, tolerance)| {
        format!(
            "{dtype}: {:e}·rms + {:e}·|r|",
            tolerance.absolute, tolerance.relative
        )
    });
    let tolerances: Vec<String> = tolerances.collect();
    let _ = writeln!(
        out,
        "Results: they are compared with a float64 run of `Model` on secret inputs ({kinds}). An element may differ from its value r by ({}), where rms is the root mean square of the result.",
        tolerances.join("; ")
    );
    if module.deterministic {
        let _ = writeln!(
            out,
            "Bits: a second call with the same inputs must give the same bits."
        );
    }
    if let Some(names) = module.gradients() {
        let _ = writeln!(
            out,
            "Gradients: those of {names} are compared alike, for secret gradients of the results. They are not timed. Give them by a class with the base `torch.autograd.Function` and the static methods `forward(ctx, …)` and `backward(ctx, …)`, which call the extension; `ModelNew.forward` calls its `apply`. `ctx` keeps tensors by `save_for_backward` and numbers as attributes."
        );
    }
    let forms = match (module.strides, module.aliasing) {
        (true, true) => {
            "Inputs: they may be views with any strides, and one tensor may be several inputs."
        }
        (true, false) => "Inputs: they may be views with any strides.",
        (false, true) => "Inputs: one tensor may be several inputs.",
        (false, false) => return text,
    };
    let _ = writeln!(out, "{forms}");
    text
}

/// The sentences on what a candidate for a module may use.
pub(crate) fn permitted(module: &Module, techniques: TechniqueSet) -> String {
    let host = match module.permit_torch {
        true => "Outside of the extension, PyTorch's operators may compute, too.",
        false => {
            "Outside of the extension, PyTorch may only view, reshape and allocate tensors: arithmetic on tensors is refused."
        }
    };
    let headers = match prompt::is_offered(prompt::OPENMP_HEADER, techniques) {
        true => "immintrin.h and omp.h",
        false => "and immintrin.h",
    };
    format!(
        "The work is done by inline C++: `load_inline` with constant `name`, `cpp_sources` and `functions`, whose functions `forward` calls. {host} Imports: torch, torch.nn, torch.nn.functional, math, typing. C++ may include torch/extension.h, headers of numbers, containers and algorithms, {headers}; no files, processes, clocks, threads of its own, and no operators of PyTorch that compute. No try, exec, getattr, lambda and no changes of other objects. Kernels of Triton are verified on this device and not timed, and CUDA C++ is compiled only, so both earn nothing.\n\nAn example of the form, for a module that adds a bias and applies ReLU:\n\n```python\n{}\n```",
        EXAMPLE.trim()
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;

    use super::*;
    use crate::prompt::{Style, extract};

    fn shipped(name: &str) -> Problem {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
        Problem::load_module(&modules.join(name)).unwrap()
    }

    #[test]
    fn every_shipped_module_is_a_problem_and_travels() {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
        let mut count = 0;
        for entry in std::fs::read_dir(modules).unwrap() {
            let folder = entry.unwrap().path();
            let here = Problem::load_module(&folder).unwrap();
            assert!(folder.ends_with(here.id.as_str()), "{}", here.id);
            let there = Problem::from_files(here.files()).unwrap();
            let expected = Problem {
                dir: PathBuf::new(),
                ..here
            };
            assert_eq!(there, expected);
            count += 1;
        }
        assert!(count >= 24, "only {count} modules");
    }

    #[test]
    fn a_kernel_is_no_module_and_a_module_no_kernel() {
        assert!(Problem::load_module(&shipped::at("dgemm")).is_err());
        assert!(Problem::load(&shipped::at("modules/softmax")).is_err());
        let dgemm = Problem::load(&shipped::at("dgemm")).unwrap();
        assert!(!is_module(&dgemm.definition));
        assert_eq!(dgemm.usual_pool(), TechniqueSet::general());
    }

    #[test]
    fn a_selection_of_workloads_is_another_problem() {
        let whole = shipped("softmax");
        let narrow = whole.select(&["narrow"]).unwrap();
        assert_eq!(narrow.workloads.len(), 1);
        assert_ne!(narrow.digest, whole.digest);
        assert!(whole.select(&["broad"]).is_err());
        assert_eq!(whole.select(&["first"]).unwrap(), whole.only_first());
        let text = prompt::full(&narrow, narrow.techniques, None);
        assert!(
            text.contains("narrow (COLUMNS = 100, ROWS = 12000)"),
            "{text}"
        );
        assert!(!text.contains("wide ("), "{text}");
    }

    #[test]
    fn the_prompt_states_the_target_and_shows_a_candidate() {
        let problem = shipped("layernorm_gelu");
        let permitted: TechniqueSet = "fusion+simd".parse().unwrap();
        let text = prompt::full(&problem, permitted, None);
        for part in [
            "Layer norm, then GELU",
            "class `ModelNew`",
            "def get_init_inputs",
            "Device: the CPU",
            "eager PyTorch and TorchInductor",
            "float32: 1e-4·rms + 1e-4·|r|",
            "arithmetic on tensors is refused",
            "- fusion: let one kernel do the work of several operators",
            "- simd: vector access",
            "Forbidden techniques",
            "- cache_blocking: tile",
            "extension.bias_relu",
            "in one ```python block",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        // A prompt for a kernel has nothing of this.
        let dgemm = Problem::load(&shipped::at("dgemm")).unwrap();
        let text = prompt::full(&dgemm, dgemm.techniques, None);
        assert!(
            !text.contains("PyTorch") && !text.contains("fusion"),
            "{text}"
        );
    }

    #[test]
    fn the_prompt_names_the_processor_where_it_is_known() {
        let asked = |problem: &Problem| prompt::full(problem, problem.techniques, None);
        let unknown = shipped("softmax");
        assert!(asked(&unknown).contains("Device: the CPU. It is timed"));
        let here = unknown.clone().timed_by("a processor, vectors of 256 bits");
        let words = "Device: the CPU (a processor, vectors of 256 bits). It is timed";
        let text = asked(&here);
        assert!(text.contains(words), "{text}");
        // A selection keeps it; another machine has another one.
        let narrow = here.select(&["narrow"]).unwrap();
        assert!(asked(&narrow).contains(words));
        assert_eq!(here.digest, unknown.digest);
        let there = Problem::from_files(here.files()).unwrap();
        assert!(asked(&there).contains("Device: the CPU. It is timed"));
        let kernel = Problem::load(&shipped::at("dgemm")).unwrap();
        assert_eq!(kernel.clone().timed_by("a processor"), kernel);
    }

    #[test]
    fn the_prompt_names_the_data_types_of_workloads() {
        let mut problem = shipped("softmax");
        let asked = |problem: &Problem| prompt::full(problem, problem.techniques, None);
        assert!(!asked(&problem).contains("Data types:"));
        problem.module.as_mut().unwrap().workloads[0].dtype = Some("bfloat16".into());
        let text = asked(&problem);
        assert!(
            text.contains("wide (COLUMNS = 2048, ROWS = 512, bfloat16)"),
            "{text}"
        );
        assert!(text.contains("Data types:"), "{text}");
    }

    #[test]
    fn the_prompt_says_what_a_module_is_compared_with_and_that_its_bits_repeat() {
        let mut problem = shipped("softmax");
        let asked = |problem: &Problem| prompt::full(problem, problem.techniques, None);
        let usual = asked(&problem);
        assert!(usual.contains("over the faster of the two counts"));
        assert!(!usual.contains("the same bits"), "{usual}");
        let both = problem.compared_with();
        let module = problem.module.as_mut().unwrap();
        module.deterministic = true;
        module.baselines = Some(vec!["max-autotune".into(), "inductor".into()]);
        let text = asked(&problem);
        for part in [
            "mode beside TorchInductor, at",
            "The speedup over TorchInductor counts",
            "a second call with the same inputs must give the same bits",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(problem.compared_with(), "TorchInductor");
        assert!(both.starts_with("the faster of "), "{both}");
        problem.module.as_mut().unwrap().baselines = Some(vec!["eager".into()]);
        assert_eq!(problem.compared_with(), "eager PyTorch");
    }

    #[test]
    fn a_problem_that_permits_operators_says_so_and_an_elite_has_its_gflops() {
        let mut problem = shipped("softmax");
        problem.module.as_mut().unwrap().permit_torch = true;
        let elite = flopsmith_protocol::EliteHint {
            techniques: "simd".parse().unwrap(),
            source: "class ModelNew: pass".into(),
            gflops: 12.5,
        };
        let text = prompt::full(&problem, problem.techniques, Some(&elite));
        assert!(
            text.contains("PyTorch's operators may compute, too"),
            "{text}"
        );
        assert!(
            text.contains("uses simd and reaches 12.5 GFLOPS. Build on it"),
            "{text}"
        );
        assert!(!text.contains("times as fast"), "{text}");
    }

    #[test]
    fn the_prompt_says_which_gradients_and_which_forms_of_inputs_are_verified() {
        let asked = |problem: &Problem| prompt::full(problem, problem.techniques, None);
        let text = asked(&shipped("gated_silu"));
        for part in [
            "those of all floating-point inputs and all parameters are compared alike",
            "`torch.autograd.Function`",
            "views with any strides, and one tensor may be several inputs",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let mut problem = shipped("softmax");
        let text = asked(&problem);
        assert!(
            text.contains("Inputs: they may be views with any strides.\n"),
            "{text}"
        );
        assert!(!text.contains("Gradients:"), "{text}");
        let module = problem.module.as_mut().unwrap();
        module.strides = false;
        module.gradients = Some(toml::Value::Array(vec!["x".into(), "scale".into()]));
        let text = asked(&problem);
        assert!(
            text.contains("those of `x`, `scale` are compared"),
            "{text}"
        );
        assert!(!text.contains("Inputs:"), "{text}");
        problem.module.as_mut().unwrap().gradients = Some(false.into());
        assert!(!asked(&problem).contains("Gradients:"));
    }

    #[test]
    fn the_header_of_openmp_is_offered_where_openmp_is_permitted() {
        let problem = shipped("softmax");
        let asked = |threads| prompt::full(&problem, problem.techniques_with(threads), None);
        assert!(asked(2).contains("algorithms, immintrin.h and omp.h; no files"));
        let alone = asked(1);
        assert!(!alone.contains("omp.h"), "{alone}");
        assert!(alone.contains("algorithms, and immintrin.h; no files"));
    }

    #[test]
    fn the_example_shares_no_work_among_threads() {
        // Runs with one thread refuse programs that use OpenMP, and their prompts show the example too.
        for words in ["parallel_for", "parallel_reduce", "omp parallel", "omp.h"] {
            assert!(!EXAMPLE.contains(words), "{words} in {EXAMPLE}");
        }
    }

    #[test]
    fn the_last_python_block_is_the_candidate() {
        let answer = "```cpp\nint x;\n```\n```python\nclass ModelNew: pass\n```\nthat is all";
        let found = extract(answer, Style::Full, Language::Python);
        assert_eq!(found.as_deref(), Some("class ModelNew: pass\n"));
        assert_eq!(extract("```c\nx\n```", Style::Full, Language::Python), None);
    }
}
