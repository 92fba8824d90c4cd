//! Candidates whose gradients are compared, and that get strided and aliased inputs. Skipped without PyTorch.

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_module::{Builder, Evaluator, Gradients, Problem, Severity, Verdict};
use flopsmith_protocol::TechniqueSet;
use flopsmith_test_support::sample::Part;

use crate::modules::{open, options, problem};

/// The shipped problem with gradients, strides and aliasing, at one small workload.
fn gated() -> Problem {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules/gated_silu");
    let mut problem = Problem::load(&folder).unwrap();
    problem.workloads.truncate(1);
    problem.workloads[0].constants = BTreeMap::from([
        ("ROWS".to_owned(), 37.into()),
        ("FEATURES".to_owned(), 29.into()),
    ]);
    problem
}

/// The name of a verdict in the first lines of `forms`: that of a fault or of a rule, or `verified`.
pub fn verdict_of(builder: &Builder, evaluator: &mut Evaluator, source: &str) -> (String, String) {
    let outcome = match builder.build(source, TechniqueSet::all()).unwrap() {
        Ok(package) => evaluator.verify(&package).unwrap(),
        Err(refused) => refused,
    };
    let name = match &outcome.verdict {
        Verdict::Refused(failure) => match &failure.rule {
            Some(rule) => rule.clone(),
            None => failure.fault.name().to_owned(),
        },
        Verdict::Verified { .. } => "verified".to_owned(),
        _ => "another".to_owned(),
    };
    (name, format!("{outcome:?}"))
}

/// Programs whose gradients are wrong, or that are right only for dense inputs or for different ones, and programs that are
/// right for all; each commit tries another third.
#[test]
fn gradients_strides_and_aliased_inputs_are_verified() {
    if open(gated()).is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../module/tests/forms");
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|e| e.unwrap().path());
    let mut sources: Vec<(String, String)> = files
        .map(|file| {
            (
                file.display().to_string(),
                std::fs::read_to_string(&file).unwrap(),
            )
        })
        .collect();
    sources.sort();
    // The check of sources refuses these; the corpus in crate `module` tries them all.
    let runs = |source: &str| {
        let first = source.lines().next().unwrap_or_default();
        [
            "verified",
            "wrong_result",
            "wrong_signature",
            "input_modified",
        ]
        .iter()
        .any(|name| first.ends_with(name))
    };
    sources.retain(|(_, source)| runs(source));
    assert!(sources.len() >= 17, "only {} programs", sources.len());
    let mut chosen: Vec<_> = Part::of_commit(3).of(sources).collect();
    let solution = std::fs::read_to_string(gated().folder.join("solution_cpp.py")).unwrap();
    chosen.push((
        "the shipped one".into(),
        format!("# expect: verified\n{solution}"),
    ));
    let builder = Builder::new(&gated(), &options()).unwrap();
    let mut evaluator = Evaluator::new(gated(), options()).unwrap();
    for (file, source) in &chosen {
        let expected = source.lines().next().unwrap().strip_prefix("# expect: ");
        let (found, outcome) = verdict_of(&builder, &mut evaluator, source);
        assert_eq!(Some(found.as_str()), expected, "{file}: {outcome}");
    }
    // Two kinds of calls for each distribution, and at least one for other forms.
    assert_eq!(evaluator.calls(), 2 * gated().distributions.len() + 1);
}

/// Programs that only the gradients, the strides or the aliased inputs betray are right where a problem has none of these.
#[test]
fn a_problem_without_these_keys_is_verified_as_before() {
    let plain = Problem {
        gradients: Gradients::default(),
        strides: false,
        aliasing: false,
        ..gated()
    };
    if open(plain.clone()).is_none() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../module/tests/forms");
    // Its source is that of a problem with gradients.
    let builder = Builder::new(&gated(), &options()).unwrap();
    let mut evaluator = Evaluator::new(plain, options()).unwrap();
    let names = [
        "zero_gradient",
        "strides_ignored",
        "aliased_input_as_memory",
    ];
    for name in Part::of_commit(3).of(names) {
        let source = std::fs::read_to_string(folder.join(format!("{name}.py"))).unwrap();
        let (found, outcome) = verdict_of(&builder, &mut evaluator, &source);
        assert_eq!(found, "verified", "{name}: {outcome}");
    }
}

/// Keys that cannot work with a reference are mistakes of the problem.
#[test]
fn problems_whose_gradients_or_forms_cannot_be_verified_are_refused() {
    if open(problem()).is_none() {
        return;
    }
    let of = |names: &[&str]| Gradients::Of(names.iter().map(|n| (*n).to_owned()).collect());
    let shipped = |name: &str| {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
        let mut problem = Problem::load(&modules.join(name)).unwrap();
        problem.workloads.truncate(1);
        problem
    };
    let cross_entropy = Problem {
        gradients: of(&["labels"]),
        ..shipped("cross_entropy")
    };
    let argmax = Problem {
        gradients: Gradients::All(true),
        ..shipped("argmax")
    };
    let unknown = Problem {
        gradients: of(&["logit"]),
        ..shipped("cross_entropy")
    };
    let softmax = Problem {
        aliasing: true,
        ..problem()
    };
    for (problem, part) in [
        (cross_entropy, "`labels`, which is int64"),
        (argmax, "no gradient reaches `x`"),
        (unknown, "Model has logits, labels"),
        (softmax, "no two inputs have the same shape"),
    ] {
        let mut evaluator = Evaluator::new(problem, options()).unwrap();
        let error = evaluator.admit().unwrap_err();
        assert!(error.is_of_the_input(), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let mut evaluator = Evaluator::new(gated(), options()).unwrap();
    let findings = evaluator.admit().unwrap();
    let wrong = findings.iter().filter(|f| f.severity == Severity::Error);
    assert_eq!(wrong.count(), 0, "{findings:?}");
}
