//! References from which nothing can be learned are not admitted. Skipped without PyTorch.

use std::fs;
use std::time::Duration;

use flopsmith_evaluate::ModuleStages;
use flopsmith_module::{Architecture, Error, Options, Problem, Severity};
use flopsmith_test_support::skipped;

const DEFINITION: &str = "\
kind = 'module'
id = 'small'
title = 'A small module'
level = 1
distributions = ['plain']

[[workload]]
name = 'only'

[tolerance.float32]
absolute = 1e-4
relative = 1e-4
source = 'a test'
";

/// A reference with these methods of `Model`.
fn reference(initial: &str, result: &str) -> String {
    format!(
        "\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {initial}

    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return []
"
    )
}

/// The errors by which a reference is not admitted; none where Python with PyTorch is missing.
fn errors(reference: &str) -> Option<Vec<String>> {
    errors_of(DEFINITION, reference)
}

fn errors_of(definition: &str, reference: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("problem.toml"), definition).unwrap();
    fs::write(folder.path().join("reference.py"), reference).unwrap();
    let options = Options {
        cores: Vec::new(),
        architectures: Architecture::DEFAULT.to_vec(),
        interpretation: Duration::from_secs(1),
        allow_weaker_jail: true,
        progress: |_| {},
    };
    let stages = match ModuleStages::open(Problem::load(folder.path()).unwrap(), options) {
        Err(why @ Error::Python { .. }) => {
            skipped(&why.to_string());
            return None;
        }
        stages => stages.unwrap(),
    };
    Some(match stages.admit() {
        Ok(findings) => {
            let errors = findings.iter().filter(|f| f.severity == Severity::Error);
            errors.map(ToString::to_string).collect()
        }
        // The contract was broken; anything else is a defect of ours.
        Err(broken) => {
            assert!(broken.is_of_the_input(), "{broken}");
            vec![broken.to_string()]
        }
    })
}

#[test]
fn references_that_teach_nothing_are_not_admitted() {
    let weight = "self.weight = nn.Parameter(torch.randn(64, 128))";
    for (initial, result, expected) in [
        (weight, "x * self.weight", None),
        ("pass", "x + torch.rand_like(x)", Some("it is random")),
        (
            weight,
            "self.weight.exp()",
            Some("other inputs give the same result"),
        ),
        (
            weight,
            "x.exp()",
            Some("other parameters give the same result"),
        ),
        (
            "pass",
            "x.log()",
            Some("the float64 results are not all finite"),
        ),
        (
            "pass",
            "x / (x - x)",
            Some("the float64 results are not all finite"),
        ),
        ("pass", "x * 0 + 3", Some("output 0 is constant")),
        (
            "pass",
            "x * 1e-6",
            Some("all elements of output 0 lie within"),
        ),
        (
            "pass",
            "x[:, :1].expand(64, 128)",
            Some("output 0 is constant along axis 1"),
        ),
    ] {
        let Some(errors) = errors(&reference(initial, result)) else {
            return;
        };
        match expected {
            None => assert!(errors.is_empty(), "{result}: {errors:?}"),
            Some(part) => assert!(
                errors.iter().any(|e| e.contains(part)),
                "{result}: {errors:?}"
            ),
        }
    }
}

#[test]
fn a_data_type_that_is_too_small_for_the_results_is_named() {
    let half = DEFINITION
        .replace("'only'", "'only'\ndtype = 'float16'")
        .replace("tolerance.float32", "tolerance.float16");
    for (result, expected) in [
        ("x * 3", None),
        ("x * 60000", Some("too large for the data type")),
    ] {
        let Some(errors) = errors_of(&half, &reference("pass", result)) else {
            return;
        };
        match expected {
            None => assert!(errors.is_empty(), "{errors:?}"),
            Some(part) => assert!(errors.iter().any(|e| e.contains(part)), "{errors:?}"),
        }
    }
}

#[test]
fn a_package_that_is_missing_is_named_with_the_way_to_install_it() {
    let missing = "no_such_package_of_python";
    let used = reference("import no_such_package_of_python", "x.exp()");
    let imported = format!("import {missing}.part\n{}", reference("pass", "x.exp()"));
    for text in [used, imported] {
        let Some(errors) = errors(&text) else {
            return;
        };
        let [error] = &errors[..] else {
            unreachable!("{errors:?}")
        };
        for part in [
            format!("needs the package `{missing}`"),
            format!("pip install {missing}"),
        ] {
            assert!(error.contains(&part), "{error}");
        }
    }
    // A part of a package that is there cannot be installed.
    let text = format!("import json.nothing\n{}", reference("pass", "x.exp()"));
    let Some(found) = errors(&text) else {
        return;
    };
    let named = found.iter().any(|e| e.contains("json.nothing"));
    assert!(named, "{found:?}");
    assert!(!found.iter().any(|e| e.contains("pip")), "{found:?}");
}
