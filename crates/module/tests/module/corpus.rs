//! Each file of `attacks` names the rule that must refuse it; each file of `honest` must pass, and so must each file of `later`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flopsmith_module::Checked;
use flopsmith_test_support::skipped;

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The Python files of a folder, by name.
pub fn files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "py"));
    files.sort();
    files
}

/// True if this machine has a Python; the check needs nothing but its standard library.
pub fn has_python() -> bool {
    let asked = Command::new("python3").arg("--version").output();
    let found = asked.is_ok_and(|said| said.status.success());
    if !found {
        skipped("python3 is not installed");
    }
    found
}

fn check(file: &Path) -> Checked {
    let output = Command::new("python3")
        .args(["-I", "-S", "-B"])
        .arg(folder("python/source_check.py"))
        .stdin(Stdio::from(fs::File::open(file).unwrap()))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Checks many files in one process: a start takes a hundred times as long as a check. Prints a line for each. A file with a
/// reference beside it is compared with that. A decoy is checked as for a problem that permits PyTorch's operators, and files of `forms`
/// and solutions of problems that ask for gradients are checked as for such problems.
const CHECK_ALL: &str = "\
import json, os, re, sys
sys.path.insert(0, sys.argv[1])
from source_check import check
def text(name):
    with open(name, 'rb') as file:
        return file.read().decode('utf-8', errors='replace')
for name in sys.argv[2:]:
    beside = os.path.join(os.path.dirname(name), 'reference.py')
    reference = text(beside) if os.path.exists(beside) else None
    source = text(name)
    permits_torch = source.startswith('# expect: decoy')
    problem = os.path.join(os.path.dirname(name), 'problem.toml')
    asks = os.path.exists(problem) and re.search('^gradients = (true|[[])', text(problem), re.M)
    gradients = bool(asks) or os.path.basename(os.path.dirname(name)) == 'forms'
    print(json.dumps(check(source, permits_torch=permits_torch, reference=reference, gradients=gradients)))
";

pub fn check_all(files: &[PathBuf]) -> Vec<Checked> {
    let output = Command::new("python3")
        .args(["-I", "-S", "-B", "-c", CHECK_ALL])
        .arg(folder("python"))
        .args(files)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let checked: Vec<Checked> = lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(checked.len(), files.len(), "{said}");
    checked
}

#[test]
fn every_attack_is_refused_by_its_rule() {
    if !has_python() {
        return;
    }
    let attacks = files("tests/attacks");
    assert!(attacks.len() >= 275, "only {} attacks", attacks.len());
    for (file, checked) in attacks.iter().zip(check_all(&attacks)) {
        let text = fs::read_to_string(file).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# expect: ");
        let found = checked.refusals;
        let rule = found.first().map(|r| r.rule.as_str());
        assert_eq!(rule, expected, "{}: {found:?}", file.display());
    }
}

#[test]
fn every_rule_of_the_reference_has_an_attack() {
    let page = fs::read_to_string(folder("../../docs/reference/modules.md")).unwrap();
    let (_, table) = page.split_once("| rule | refused |\n|---|---|\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let cells = table.lines().filter_map(|line| line.split('|').nth(1));
    let rules: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(rules.len() > 30, "{rules:?}");
    let mut expected = Vec::new();
    for file in files("tests/attacks").iter().chain(&files("tests/later")) {
        let text = fs::read_to_string(file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        expected.push(first.trim_start_matches("# expect: ").to_owned());
    }
    let without = rules
        .iter()
        .filter(|rule| !expected.iter().any(|e| e == *rule));
    assert_eq!(without.count(), 0, "{rules:?} {expected:?}");
}

/// The compiled object, the knock-out run or the results show that these are attacks; crate `evaluate` runs them.
#[test]
fn attacks_that_show_later_pass_the_check_of_sources() {
    if !has_python() {
        return;
    }
    let later = files("tests/later");
    assert!(later.len() >= 22, "only {} attacks", later.len());
    for (file, checked) in later.iter().zip(check_all(&later)) {
        let found = &checked.refusals;
        assert!(found.is_empty(), "{}: {found:?}", file.display());
    }
}

/// The outcomes of files of `forms` that only a run can show; the others name the rule by which their source is refused.
const OF_A_RUN: [&str; 4] = [
    "input_modified",
    "verified",
    "wrong_result",
    "wrong_signature",
];

/// Programs for a problem that asks for gradients and permits strided and aliased inputs; crate `evaluate` runs those that are
/// accepted here.
#[test]
fn programs_with_gradients_are_accepted_unless_they_name_a_rule() {
    if !has_python() {
        return;
    }
    let forms = files("tests/forms");
    let mut seen = [0, 0];
    for (file, checked) in forms.iter().zip(check_all(&forms)) {
        let text = fs::read_to_string(file).unwrap();
        let expected = text.lines().next().unwrap().strip_prefix("# expect: ");
        let rule = checked.refusals.first().map(|r| r.rule.as_str());
        let runs = expected.is_some_and(|e| OF_A_RUN.contains(&e));
        let detail = &checked.refusals;
        match runs {
            true => assert_eq!(rule, None, "{}: {detail:?}", file.display()),
            false => assert_eq!(rule, expected, "{}: {detail:?}", file.display()),
        }
        seen[usize::from(runs)] += 1;
    }
    assert!(seen[0] >= 18 && seen[1] >= 17, "{seen:?}");
}

/// A problem that asks for no gradients keeps the narrower list.
#[test]
fn a_function_with_a_gradient_needs_a_problem_that_asks_for_one() {
    if !has_python() {
        return;
    }
    for (name, rule) in [
        ("honest_strides.py", "class"),
        ("honest_recomputed.py", "import"),
    ] {
        let checked = check(&folder("tests/forms").join(name));
        let found = checked.refusals.first().map(|r| r.rule.as_str());
        assert_eq!(found, Some(rule), "{name}");
    }
}

/// Sources deeper than Python's parser goes. In the jail, even a parser that crashes only ends its own process.
#[test]
fn sources_that_nest_too_deeply_are_refused_as_syntax() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return ";
    let sources = [
        format!("{model}{}x{}\n", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{model}{}x\n", "-".repeat(100_000)),
        format!("{model}x{}\n", " + x".repeat(60_000)),
        format!("{model}{}x\n", "x if x else ".repeat(20_000)),
        format!("if 1:\n    pass\n{}", "elif 1:\n    pass\n".repeat(15_000)),
    ];
    let files: Vec<PathBuf> = (0..sources.len())
        .map(|n| folder.path().join(format!("{n}.py")))
        .collect();
    for (file, source) in files.iter().zip(&sources) {
        fs::write(file, source).unwrap();
    }
    for (source, checked) in sources.iter().zip(check_all(&files)) {
        let rules: Vec<&str> = checked.refusals.iter().map(|r| r.rule.as_str()).collect();
        assert_eq!(rules, ["syntax"], "{source:.200}");
    }
}

#[test]
fn no_honest_module_is_refused() {
    if !has_python() {
        return;
    }
    let mut honest = files("tests/honest");
    assert!(honest.len() >= 90, "only {} honest modules", honest.len());
    // The program that prompts show.
    honest.push(folder("../problem/src/module_example.py"));
    for (file, checked) in honest.iter().zip(check_all(&honest)) {
        let found = &checked.refusals;
        assert!(found.is_empty(), "{}: {found:?}", file.display());
        assert_ne!(checked.extensions.is_empty(), checked.triton.is_none());
        if file.ends_with("module_example.py") {
            // Runs with one thread forbid it.
            let used = checked.techniques().words();
            assert!(!used.contains("openmp"), "{used}");
        }
    }
}

#[test]
fn the_shipped_solutions_pass() {
    if !has_python() {
        return;
    }
    let problems = fs::read_dir(folder("../../problems/modules")).unwrap();
    let names = ["solution_cpp.py", "solution_cuda.py", "solution_triton.py"];
    let solutions = |folder: PathBuf| names.map(|name| folder.join(name));
    let files: Vec<PathBuf> = problems
        .flat_map(|problem| solutions(problem.unwrap().path()))
        .filter(|file| file.is_file())
        .collect();
    // The program itself reads one source from its standard input.
    assert!(check(&files[0]).refusals.is_empty());
    for (file, checked) in files.iter().zip(check_all(&files)) {
        let found = &checked.refusals;
        assert!(found.is_empty(), "{}: {found:?}", file.display());
        let in_triton = file.ends_with("solution_triton.py");
        assert_eq!(checked.extensions.len(), usize::from(!in_triton));
        assert_eq!(checked.triton.is_some(), in_triton);
        let with_cuda = checked.extensions.iter().any(|e| e.cuda.is_some());
        assert_eq!(with_cuda, file.ends_with("solution_cuda.py"));
    }
    let in_cuda = |file: &&PathBuf| file.ends_with("solution_cuda.py");
    assert!(files.iter().filter(in_cuda).count() >= 3);
}

#[test]
fn an_extension_in_cuda_keeps_its_sources_and_flags_apart() {
    if !has_python() {
        return;
    }
    let checked = check(&folder("tests/honest/cuda_shared_reduction.py"));
    let [extension] = checked.extensions.as_slice() else {
        unreachable!("{checked:?}")
    };
    let cuda = extension.cuda.as_ref().unwrap();
    assert_eq!(
        extension.cpp,
        "torch::Tensor row_sums(torch::Tensor x, double scale);"
    );
    assert!(cuda.source.contains("__global__") && cuda.source.contains("<<<"));
    assert_eq!(extension.flags, ["-O3"]);
    assert_eq!(cuda.flags, ["-O3", "--use_fast_math", "-Xptxas", "-v"]);
}

#[test]
fn kernels_are_written_anew_without_texts_that_look_like_definitions() {
    if !has_python() {
        return;
    }
    let checked = check(&folder("tests/honest/triton_autotuned.py"));
    let triton = checked.triton.unwrap();
    assert_eq!(triton.kernels[0].configurations, 2);
    for text in [&triton.source, &triton.kernel_source] {
        assert_eq!(text.matches("def twice(").count(), 1, "{text}");
        assert!(!text.contains("description"), "{text}");
    }
    assert!(triton.source.contains("triton.autotune"));
    // The compiler needs neither PyTorch nor the decorators that need a GPU.
    assert!(!triton.kernel_source.contains("autotune"));
    assert!(!triton.kernel_source.contains("torch"));
}
