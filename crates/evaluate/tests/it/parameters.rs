//! A `ModelNew` with other parameters than the reference's `Model` is refused with their names. Skipped without PyTorch.

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_module::{Builder, Evaluator, Problem, Verdict};
use flopsmith_protocol::{CandidateFault, TechniqueSet};

use crate::modules::{open, options, problem};

/// The shipped problem whose module has one parameter, `weight`, at one small workload.
fn with_weight() -> Problem {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules/rms_norm");
    let mut problem = Problem::load(&folder).unwrap();
    problem.workloads.truncate(1);
    problem.workloads[0].constants = BTreeMap::from([
        ("ROWS".to_owned(), 9.into()),
        ("FEATURES".to_owned(), 33.into()),
    ]);
    problem
}

#[test]
fn a_module_with_other_parameters_is_refused_and_they_are_named() {
    if open(problem()).is_none() {
        return;
    }
    let solution = with_weight().folder.join("solution_cpp.py");
    let solution = std::fs::read_to_string(solution).unwrap();
    let builder = Builder::new(&with_weight(), &options()).unwrap();
    let mut evaluator = Evaluator::new(with_weight(), options()).unwrap();
    let mut outcome_of = |source: &str| {
        let package = builder.build(source, TechniqueSet::all()).unwrap();
        evaluator.verify(&package.unwrap()).unwrap()
    };
    let parameter = "self.weight = nn.Parameter(torch.ones(features))";
    assert!(solution.contains(parameter));
    for (to, parts) in [
        // One is missing, and one is there besides.
        (
            "self.scale = nn.Parameter(torch.ones(features))",
            &["other parameters than Model", "scale", "weight"][..],
        ),
        (
            "self.weight = torch.ones(features)",
            &["other parameters than Model", "weight"],
        ),
        (
            "self.weight = nn.Parameter(torch.ones(features))\n        self.bias = nn.Parameter(torch.ones(features))",
            &["other parameters than Model", "bias"],
        ),
        (
            "self.weight = nn.Parameter(torch.ones(2 * features))",
            &["`weight` is torch.float32 [66], not float32 [33]"],
        ),
        (
            "self.weight = nn.Parameter(torch.ones(features, dtype=torch.float64))",
            &["`weight` is torch.float64 [33], not float32 [33]"],
        ),
    ] {
        let mut source = solution.replacen(parameter, to, 1);
        if to.contains("self.scale") {
            source = source.replace("self.weight, self.eps", "self.scale, self.eps");
        }
        let outcome = outcome_of(&source);
        let Verdict::Refused(failure) = &outcome.verdict else {
            unreachable!("{to}: {outcome:?}")
        };
        assert_eq!(
            failure.fault,
            CandidateFault::WrongSignature,
            "{to}: {failure:?}"
        );
        for part in parts {
            assert!(failure.detail.contains(part), "{to}: {failure:?}");
        }
    }
    let outcome = outcome_of(&solution);
    assert!(
        matches!(outcome.verdict, Verdict::Verified { .. }),
        "{outcome:?}"
    );
}
