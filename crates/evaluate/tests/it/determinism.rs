//! Programs whose bits depend on the order of additions, and workloads with data types of their own. Skipped without PyTorch.

use std::collections::BTreeMap;
use std::path::Path;

use flopsmith_module::{Builder, Evaluator, Problem, Severity};

use crate::module_forms::verdict_of;
use crate::modules::{open, options, problem};

/// Adds the rows of a group by atomic additions, in whatever order its programs run.
const ATOMIC: &str = r#"
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_row(x_ptr, group_ptr, out_ptr, features, FEATURES: tl.constexpr):
    row = tl.program_id(0)
    feature = tl.arange(0, FEATURES)
    inside = feature < features
    x = tl.load(x_ptr + row * features + feature, mask=inside, other=0.0)
    tl.atomic_add(out_ptr + tl.load(group_ptr + row) * features + feature, x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x, group):
        rows, features = x.shape
        out = torch.zeros((self.groups, features), dtype=x.dtype, device=x.device)
        add_row[(rows,)](x.contiguous(), group.contiguous(), out, features, FEATURES=32)
        return out
"#;

/// A shipped problem with its first workload at these sizes.
fn small(name: &str, constants: &[(&str, u64)]) -> Problem {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules");
    let mut problem = Problem::load(&modules.join(name)).unwrap();
    problem.workloads.truncate(1);
    let constants = constants.iter();
    let constants = constants.map(|(name, value)| ((*name).to_owned(), (*value).into()));
    problem.workloads[0].constants = constants.collect::<BTreeMap<_, _>>();
    problem
}

fn solution(problem: &Problem) -> String {
    std::fs::read_to_string(problem.folder.join("solution_cpp.py")).unwrap()
}

#[test]
fn other_bits_in_a_second_call_are_refused_where_a_problem_says_so() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let asking = small(
        "segment_sum",
        &[("ROWS", 120), ("GROUPS", 4), ("FEATURES", 30)],
    );
    assert!(asking.deterministic);
    let builder = Builder::new(&asking, &options()).unwrap();
    let mut evaluator = Evaluator::new(asking.clone(), options()).unwrap();
    let right = solution(&asking);
    // Every other call adds the rows from the last to the first.
    let row = "const float* a = from + r * n;\n            float* b = to + of[r] * n;";
    assert!(right.contains(row), "{right}");
    let turned = row.replace("r * n", "s * n").replace("of[r]", "of[s]");
    let turned = format!("const std::int64_t s = calls % 2 ? r : rows - 1 - r;\n{turned}");
    let turning = right.replacen(row, &turned, 1).replacen(
        "const std::int64_t rows",
        "static std::int64_t calls = 0;\n    ++calls;\n    const std::int64_t rows",
        1,
    );
    let environment = stages.environment();
    let interprets = environment.triton.is_some() && environment.numpy.is_some();
    for (source, expected) in [
        (right.as_str(), "verified"),
        (turning.as_str(), "nondeterministic"),
        (ATOMIC, "nondeterministic"),
    ] {
        if source == ATOMIC && !interprets {
            continue;
        }
        let (found, outcome) = verdict_of(&builder, &mut evaluator, source);
        assert_eq!(found, expected, "{outcome}");
    }
    let lenient = Problem {
        deterministic: false,
        ..asking
    };
    let mut evaluator = Evaluator::new(lenient, options()).unwrap();
    let (found, outcome) = verdict_of(&builder, &mut evaluator, &turning);
    assert_eq!(found, "verified", "{outcome}");
}

#[test]
fn a_workload_with_a_data_type_is_admitted_and_verified_by_its_tolerance() {
    if open(problem()).is_none() {
        return;
    }
    let sizes = [("ROWS", 40), ("FEATURES", 96)];
    let brain = small("bias_silu", &sizes);
    assert_eq!(brain.workloads[0].dtype.as_deref(), Some("bfloat16"));
    let builder = Builder::new(&brain, &options()).unwrap();
    let mut evaluator = Evaluator::new(brain.clone(), options()).unwrap();
    let findings = evaluator.admit().unwrap();
    let wrong = findings.iter().filter(|f| f.severity == Severity::Error);
    assert_eq!(wrong.count(), 0, "{findings:?}");
    let right = solution(&brain);
    let rough = right.replacen("static_cast<T>(v / ", "static_cast<T>(1.03f * v / ", 1);
    assert_ne!(right, rough);
    for (source, expected) in [(&right, "verified"), (&rough, "wrong_result")] {
        let (found, outcome) = verdict_of(&builder, &mut evaluator, source);
        assert_eq!(found, expected, "{outcome}");
    }
    // Without a type, the reference computes in single precision, for which the problem states no tolerance.
    let mut plain = brain;
    plain.workloads[0].dtype = None;
    let findings = Evaluator::new(plain, options()).unwrap().admit().unwrap();
    let missing = findings
        .iter()
        .any(|f| f.text.contains("no tolerance for float32"));
    assert!(missing, "{findings:?}");
}
