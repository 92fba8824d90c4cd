//! `bench` and `problem check` on modules of PyTorch: wrong usage ends at once, and so does a missing Python.

use std::path::Path;
use std::process::{Command, Stdio};

const SOLUTION: &str = "problems/modules/softmax/solution_cpp.py";

/// Runs a command without a Python that has PyTorch; returns its exit code and its messages.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_flopsmith"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null())
        .env("FLOPSMITH_WAIT", "0")
        .env("FLOPSMITH_PYTHON", "/no/such/python")
        .args(arguments)
        .output()
        .unwrap();
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
    for arguments in [
        &["bench", SOLUTION, "--problem", "modules/softmax"][..],
        &["problem", "check", "modules/softmax"][..],
    ] {
        let (code, text) = said(arguments);
        assert_eq!(code, Some(3), "{text}");
        for part in ["/no/such/python", "FLOPSMITH_PYTHON", "scripts/python.sh"] {
            assert!(text.contains(part), "{part} in {text}");
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
