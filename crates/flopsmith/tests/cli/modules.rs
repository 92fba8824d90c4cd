//! `bench`, `problem check` and `problem import` on modules of PyTorch: wrong usage ends at once, and so does a missing Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flopsmith_test_support::skipped;

const SOLUTION: &str = "problems/modules/softmax/solution_cpp.py";

/// A file in KernelBench's contract.
const MODEL: &str = "\
import numpy
import torch

class Model(torch.nn.Module):
    pass

def get_inputs():
    return []

def get_init_inputs():
    return []
";

/// Runs a command with this interpreter.
fn with(python: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flopsmith"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .env("FLOPSMITH_WAIT", "0")
        .env("FLOPSMITH_PYTHON", python)
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs a command without a Python; returns its exit code and its messages.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = with(Path::new("/no/such/python"), arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

#[test]
fn options_of_kernels_are_refused_for_modules() {
    for (arguments, part) in [
        (&["--size", "n=64"][..], "--size works with kernels only"),
        (&["--watch"][..], "--watch works with kernels only"),
        (&["--format", "csv"][..], "works with kernels only"),
        (&["--compiler", "/no/such/gcc"][..], "--compiler works"),
        (&["--baselines", "/no/such"][..], "--baselines works"),
        (&["--architectures", "91"][..], "no architecture"),
        (&["--workload", "none"][..], "wide, narrow"),
    ] {
        let mut all = vec!["bench", SOLUTION, "--problem", "modules/softmax"];
        all.extend(arguments);
        let (code, text) = said(&all);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_search_on_a_module_begins_with_a_program_in_python() {
    let search = ["search", "--problem", "modules/softmax"];
    for (more, parts) in [
        (
            &["--agent", "--start", "problems/dgemm/baseline.c"][..],
            &["is in C", "are in Python"][..],
        ),
        (
            &["--start", "problems/modules/softmax/reference.py"],
            &["no line `class ModelNew"],
        ),
        (
            &[
                "--start",
                SOLUTION,
                "--parameters",
                "examples/tune/parameters.json",
            ],
            &["macros of C", "leave --parameters out"],
        ),
    ] {
        let (code, text) = said(&[&search[..], more].concat());
        assert_eq!(code, Some(2), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn a_file_that_is_no_module_is_refused() {
    for file in ["problems/dgemm/baseline.c", "problems/none.py"] {
        let (code, text) = said(&["bench", file, "--problem", "problems/modules/softmax"]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn a_folder_that_is_no_checkout_is_not_imported() {
    let (code, text) = said(&["problem", "import", "kernelbench", "problems"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("name a checkout of KernelBench"), "{text}");
}

#[test]
fn a_missing_python_is_named_with_the_way_to_install_it() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let (answers, output) = (path("answers.jsonl"), path("evaluation"));
    std::fs::write(&answers, "{\"program\": \"import torch\"}\n").unwrap();
    let problem = ["--problem", "modules/softmax", "--allow-weaker-jail"];
    let files = ["eval", answers.as_str(), "--output", output.as_str()];
    for arguments in [
        &["bench", SOLUTION, "--problem", "modules/softmax"][..],
        &["problem", "check", "modules/softmax"][..],
        &[&files[..], &problem[..]].concat()[..],
    ] {
        let (code, text) = said(arguments);
        assert_eq!(code, Some(3), "{text}");
        for part in ["/no/such/python", "FLOPSMITH_PYTHON", "scripts/python.sh"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn a_prompt_for_a_module_needs_no_python() {
    let asked = ["problem", "prompt", "modules/softmax"];
    let output = with(Path::new("/no/such/python"), &asked);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in ["class Model(", "ModelNew", "load_inline", "partial_sums"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Makes a virtual environment without packages; returns its interpreter and its folder of packages, if this machine can make one.
fn bare_python(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--without-pip"]).arg(folder);
    match venv.output() {
        Ok(made) if made.status.success() => {}
        Ok(made) => {
            let why = String::from_utf8_lossy(&made.stderr);
            skipped(&format!("python3 makes no environment: {}", why.trim()));
            return None;
        }
        Err(error) => {
            skipped(&format!("python3 cannot be run: {error}"));
            return None;
        }
    }
    let mut versions = std::fs::read_dir(folder.join("lib")).unwrap();
    let version = versions.next().unwrap().unwrap().path();
    Some((folder.join("bin/python"), version.join("site-packages")))
}

#[test]
fn an_import_needs_no_pytorch_and_says_when_there_is_no_python() {
    let place = tempfile::tempdir().unwrap();
    let checkout = place.path().join("checkout");
    for (file, source) in [
        ("level1/19_ReLU.py", MODEL.to_owned()),
        ("level4/1_gpt.py", format!("import transformers\n{MODEL}")),
    ] {
        let path = checkout.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, source).unwrap();
    }
    let checkout = checkout.to_str().unwrap();
    let import = ["problem", "import", "kernelbench", checkout, "--output"];
    let output = place.path().join("none");
    let (code, text) = said(&[&import[..], &[output.to_str().unwrap()]].concat());
    assert_eq!(code, Some(3), "{text}");
    for part in ["/no/such/python", "FLOPSMITH_PYTHON", "Python 3.9"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let Some((python, packages)) = bare_python(&place.path().join("python")) else {
        return;
    };
    for (name, torch, why) in [
        ("absent", None, "No module named 'torch'"),
        ("broken", Some("raise ImportError('no libc')"), "no libc"),
    ] {
        if let Some(torch) = torch {
            std::fs::write(packages.join("torch.py"), torch).unwrap();
        }
        let output = place.path().join(name);
        let arguments = [&import[..], &[output.to_str().unwrap()]].concat();
        let imported = with(&python, &arguments);
        let text = String::from_utf8_lossy(&imported.stdout);
        assert_eq!(imported.status.code(), Some(0), "{imported:?}");
        assert!(text.contains("level4/1_gpt.py: it needs the package `transformers`"));
        let folder = output.join("level1_19_relu");
        let reference = std::fs::read_to_string(folder.join("reference.py")).unwrap();
        assert_eq!(reference, MODEL);
        let folder = folder.to_str().unwrap();
        for arguments in [
            &["problem", "check", folder][..],
            &["bench", SOLUTION, "--problem", folder],
        ] {
            let refused = with(&python, arguments);
            let text = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(3), "{text}");
            for part in [why, "modules need Python with PyTorch", "scripts/python.sh"] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }
}

#[test]
fn a_definition_with_a_mistake_is_refused_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("problem.toml");
    std::fs::write(&file, "kind = \"module\"\nid = \"x\"\n").unwrap();
    let name = folder.path().to_str().unwrap();
    let (code, text) = said(&["problem", "check", name]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("problem.toml"), "{text}");
}
