//! Candidates of the shipped softmax, from the source to the verdict. Skipped without PyTorch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flopsmith_evaluate::ModuleStages;
use flopsmith_measure::time::Limits;
use flopsmith_module::{
    Architecture, Baseline, Builder, CompiledKernel, Error, Evaluator, NOT_TIMED, NOT_VERIFIED,
    Options, Outcome, Package, Problem, Severity, TO_BE_TIMED, Verdict,
};
use flopsmith_protocol::{CandidateFault, TechniqueSet};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::skipped;

/// The shipped softmax with one workload, timed against the eager module alone: compiling takes time.
pub fn problem() -> Problem {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/modules/softmax");
    let mut problem = Problem::load(&folder).unwrap();
    problem.workloads.truncate(1);
    problem.baselines = vec![Baseline::Eager];
    problem
}

/// Short measurements.
const LIMITS: Limits = Limits {
    min: Duration::from_millis(20),
    max: Duration::from_millis(60),
    target_log_se: 0.05,
    usable_log_se: 0.5,
};

pub fn options() -> Options {
    Options {
        cores: Vec::new(),
        architectures: Architecture::DEFAULT.to_vec(),
        interpretation: Duration::from_secs(8),
        allow_weaker_jail: true,
        progress: |_| {},
    }
}

/// The stages; none where Python with PyTorch is missing.
pub fn open(problem: Problem) -> Option<ModuleStages> {
    match ModuleStages::open(problem, options()) {
        Ok(stages) => Some(stages),
        Err(why @ Error::Python { .. }) => {
            skipped(&why.to_string());
            None
        }
        Err(other) => {
            assert_eq!(other.to_string(), "", "the stages cannot be made");
            None
        }
    }
}

fn evaluate(stages: &ModuleStages, source: &str) -> Result<Outcome, Error> {
    stages.evaluate(source, TechniqueSet::all(), LIMITS, |_| true)
}

fn shipped(name: &str) -> String {
    std::fs::read_to_string(problem().folder.join(name)).unwrap()
}

fn solution() -> String {
    shipped("solution_cpp.py")
}

/// The shipped solution with one part replaced.
fn with(from: &str, to: &str) -> String {
    replaced(&solution(), from, to)
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn candidates_get_the_verdicts_that_they_earn() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let outcome = evaluate(&stages, &solution()).unwrap();
    assert!(
        matches!(outcome.verdict, Verdict::Measured { speedup, .. } if speedup > 0.1),
        "{outcome:?}"
    );
    assert!(outcome.largest_error.is_some_and(|error| error < 0.5));
    for (source, fault) in [
        (
            with(
                "return output;",
                "output.data_ptr<float>()[7] += 0.01f; return output;",
            ),
            CandidateFault::WrongResult,
        ),
        (
            with(
                "return output;",
                "x.data_ptr<float>()[7] += 1.0f; return output;",
            ),
            CandidateFault::InputModified,
        ),
        (
            with("return output;", "return at::softmax(x, -1);"),
            CandidateFault::ForbiddenSymbol,
        ),
        (
            with("return output;", "return output.narrow(0, 0, 1);"),
            CandidateFault::WrongSignature,
        ),
        (
            with(
                "return output;",
                "volatile int* p = nullptr; *p = 1; return output;",
            ),
            CandidateFault::Crash,
        ),
        (
            with("return output;", "return outptu;"),
            CandidateFault::CompileError,
        ),
    ] {
        let mut asked = false;
        let go_on = |_: &Package| {
            asked = true;
            true
        };
        let outcome = stages.evaluate(&source, TechniqueSet::all(), LIMITS, go_on);
        // A candidate that cannot be built is refused without a wait for a quiet machine.
        let unbuilt = [
            CandidateFault::ForbiddenSymbol,
            CandidateFault::CompileError,
        ];
        assert_eq!(asked, !unbuilt.contains(&fault), "{fault:?}");
        let outcome = outcome.unwrap();
        let Verdict::Refused(failure) = &outcome.verdict else {
            assert_eq!(format!("{outcome:?}"), fault.name());
            continue;
        };
        assert_eq!(failure.fault, fault, "{failure:?}");
    }
    let stopped = stages.evaluate(&solution(), TechniqueSet::all(), LIMITS, |_| false);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let outcome = stages.evaluate(&solution(), TechniqueSet::EMPTY, LIMITS, |_| true);
    let outcome = outcome.unwrap();
    assert!(
        matches!(&outcome.verdict, Verdict::Refused(f) if f.fault == CandidateFault::ForbiddenTechnique),
        "{outcome:?}"
    );
    assert!(outcome.techniques.is_some_and(|found| !found.is_empty()));
}

#[test]
fn stages_on_several_nodes_judge_as_one_evaluation_does() {
    if open(problem()).is_none() {
        return;
    }
    let mut evaluator = Evaluator::new(problem(), options()).unwrap();
    let builder = Builder::new(&problem(), &options()).unwrap();
    let built = |source: &str| builder.build(source, TechniqueSet::all()).unwrap();
    // As it travels between nodes.
    let package =
        |source: &str| Package::from_bytes(&built(source).unwrap().to_bytes().unwrap()).unwrap();
    let right = package(&solution());
    assert!(!right.needs_gpu());
    let verified = evaluator.verify(&right).unwrap();
    assert!(
        matches!(&verified.verdict, Verdict::Verified { detail, .. } if *detail == TO_BE_TIMED),
        "{verified:?}"
    );
    assert_eq!(verified.techniques, Some(right.techniques));
    let timed = evaluator.time(&right, LIMITS).unwrap();
    assert!(
        matches!(timed.verdict, Verdict::Measured { speedup, .. } if speedup > 0.1),
        "{timed:?}"
    );
    let efforts = evaluator.efforts().unwrap();
    let [effort] = &efforts[..] else {
        unreachable!("one workload")
    };
    // Softmax computes at least once with each of its elements.
    assert!(effort.operations >= 512.0 * 2048.0, "{effort:?}");
    assert!(effort.baseline_seconds > 0.0, "{effort:?}");
    let wrong = package(&with(
        "return output;",
        "output.data_ptr<float>()[7] += 0.01f; return output;",
    ));
    for outcome in [evaluator.verify(&wrong), evaluator.time(&wrong, LIMITS)] {
        let Verdict::Refused(failure) = outcome.unwrap().verdict else {
            unreachable!("it is wrong")
        };
        assert_eq!(failure.fault, CandidateFault::WrongResult, "{failure:?}");
    }
    let refused = built(&solution().replace("import torch\n", "import torch, os\n"));
    let Verdict::Refused(failure) = refused.unwrap_err().verdict else {
        unreachable!("it imports what is not permitted")
    };
    assert_eq!(
        failure.fault,
        CandidateFault::ForbiddenInclude,
        "{failure:?}"
    );
}

/// The Python files of a folder of programs in crate `module`, by name.
fn programs(name: &str) -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../module/tests");
    let entries = std::fs::read_dir(tests.join(name)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// The first stage refuses these programs in its jail, by the rule that their first lines name, and compiles nothing of them; each
/// commit tries another eighth.
#[test]
fn attacks_are_refused_before_anything_is_compiled() {
    if open(problem()).is_none() {
        return;
    }
    let builder = Builder::new(&problem(), &options()).unwrap();
    let attacks = programs("attacks");
    assert!(attacks.len() >= 275, "only {} attacks", attacks.len());
    for file in Part::of_commit(8).of(attacks) {
        let source = std::fs::read_to_string(&file).unwrap();
        let expected = source.lines().next().unwrap().strip_prefix("# expect: ");
        let built = builder.build(&source, TechniqueSet::all()).unwrap();
        let Err(outcome) = built else {
            unreachable!("{}: it was built", file.display())
        };
        let Verdict::Refused(failure) = &outcome.verdict else {
            unreachable!("{}: {outcome:?}", file.display())
        };
        let rule = failure.rule.as_deref();
        assert_eq!(rule, expected, "{}: {failure:?}", file.display());
        assert_eq!(outcome.compile_seconds, 0.0, "{}", file.display());
        assert_eq!(outcome.largest_error, None, "{}", file.display());
    }
}

/// The audit of objects takes what honest sources in C++ need of PyTorch; each commit tries another eighth.
#[test]
fn honest_extensions_are_built() {
    if open(problem()).is_none() {
        return;
    }
    let builder = Builder::new(&problem(), &options()).unwrap();
    let sources = programs("honest")
        .into_iter()
        .map(|file| (std::fs::read_to_string(&file).unwrap(), file));
    let in_cpp: Vec<(String, PathBuf)> = sources
        .filter(|(source, _)| source.contains("cpp_sources") && !source.contains("cuda_sources"))
        .collect();
    assert!(in_cpp.len() >= 55, "only {} sources", in_cpp.len());
    for (source, file) in Part::of_commit(8).of(in_cpp) {
        if let Err(outcome) = builder.build(&source, TechniqueSet::all()).unwrap() {
            unreachable!("{}: {outcome:?}", file.display())
        }
    }
}

/// The check of sources accepts these programs. Their first lines name the rule or the fault by which a later stage refuses
/// them; each commit tries another third.
#[test]
fn attacks_that_only_later_stages_see_are_refused() {
    let mut permitting = problem();
    permitting.permit_torch = true;
    let (Some(stages), Some(permitting)) = (open(problem()), open(permitting)) else {
        return;
    };
    for file in Part::of_commit(3).of(programs("later")) {
        let source = std::fs::read_to_string(&file).unwrap();
        let first = source.lines().next().unwrap();
        let expected = first.strip_prefix("# expect: ").unwrap();
        let stages = match expected {
            "decoy" => &permitting,
            _ => &stages,
        };
        let outcome = evaluate(stages, &source).unwrap();
        let Verdict::Refused(failure) = &outcome.verdict else {
            unreachable!("{}: {outcome:?}", file.display())
        };
        let found = failure.rule.as_deref().unwrap_or(failure.fault.name());
        assert_eq!(found, expected, "{}: {failure:?}", file.display());
    }
}

#[test]
fn the_operators_of_a_call_are_shown_and_judge_nothing() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let profile = |source: &str| stages.profile(source, TechniqueSet::all()).unwrap();
    let text = profile(&solution()).unwrap();
    for part in [
        "after a call to warm up",
        "on the CPU",
        "ModelNew.forward",
        "row_softmax.softmax",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("interpreter ran") && text.len() < 9000,
        "{text}"
    );
    let crashing = with(
        "return output;",
        "volatile int* p = nullptr; *p = 1; return output;",
    );
    let unbuilt = with("return output;", "return outptu;");
    for (source, fault) in [
        (crashing, CandidateFault::Crash),
        (unbuilt, CandidateFault::CompileError),
    ] {
        let Err(Verdict::Refused(failure)) = profile(&source) else {
            unreachable!("a profile of {source}")
        };
        assert_eq!(failure.fault, fault, "{failure:?}");
    }
    // A program with wrong results has a profile, and is refused as before.
    let wrong = with(
        "return output;",
        "output.data_ptr<float>()[7] += 0.01f; return output;",
    );
    assert!(profile(&wrong).unwrap().contains("row_softmax.softmax"));
    let outcome = evaluate(&stages, &wrong).unwrap();
    assert!(
        matches!(&outcome.verdict, Verdict::Refused(f) if f.fault == CandidateFault::WrongResult),
        "{outcome:?}"
    );
}

#[test]
fn a_profile_of_interpreted_kernels_says_whose_times_it_has() {
    let Some((stages, solution)) = triton() else {
        return;
    };
    let text = stages.profile(&solution, TechniqueSet::all());
    let text = text.unwrap().unwrap();
    for part in ["Triton's interpreter ran the kernels", "softmax_kernel"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_shipped_problem_is_admitted() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let findings = stages.admit().unwrap();
    assert!(!findings.is_empty());
    assert!(
        findings.iter().all(|f| f.severity != Severity::Error),
        "{findings:?}"
    );
}

/// The stages for a workload that Triton's interpreter runs in a moment, with the shipped program in Triton.
fn triton() -> Option<(ModuleStages, String)> {
    let mut problem = problem();
    problem.workloads[0].constants = BTreeMap::from([
        ("ROWS".to_owned(), 24.into()),
        ("COLUMNS".to_owned(), 300.into()),
    ]);
    // Without this a decoy would be refused unread.
    problem.permit_torch = true;
    let stages = open(problem)?;
    let environment = stages.environment();
    if environment.triton.is_none() || environment.numpy.is_none() {
        skipped("the Python with PyTorch has no Triton or no NumPy");
        return None;
    }
    Some((stages, shipped("solution_triton.py")))
}

#[test]
fn a_right_program_in_triton_is_verified_and_compiled_but_has_no_speed() {
    let Some((stages, solution)) = triton() else {
        return;
    };
    let outcome = evaluate(&stages, &solution).unwrap();
    let Verdict::Verified { detail, kernels } = &outcome.verdict else {
        assert_eq!(format!("{outcome:?}"), NOT_TIMED);
        return;
    };
    assert_eq!(*detail, NOT_TIMED);
    assert!(outcome.largest_error.is_some_and(|error| error < 0.5));
    // Three configurations for two architectures.
    assert_eq!(kernels.len(), 6, "{kernels:?}");
    assert!(kernels.iter().all(|k| k.figures.registers > 0));
    let architectures: Vec<_> = kernels[..2]
        .iter()
        .map(|k| k.architecture.to_string())
        .collect();
    assert_eq!(architectures, ["sm_80", "sm_90"]);
}

#[test]
fn programs_in_triton_get_the_verdicts_that_they_earn() {
    let Some((stages, solution)) = triton() else {
        return;
    };
    let store = "tl.store(out_ptr + at, power / total[:, None], mask=inside)";
    let language = "import triton.language as tl\n";
    for (from, to, fault) in [
        (
            store,
            "tl.store(out_ptr + at, 0.01 + power / total[:, None], mask=inside)",
            CandidateFault::WrongResult,
        ),
        (
            store,
            "tl.store(x_ptr + at, x + 1.0, mask=inside)",
            CandidateFault::InputModified,
        ),
        // Right only if programs run in the order of their numbers.
        (
            "    tl.store(",
            "    tl.store(out_ptr + at + ROWS * columns, power, mask=inside & (row[:, None] + ROWS < rows))\n    tl.store(",
            CandidateFault::WrongResult,
        ),
        (
            store,
            "while columns > 0:\n        columns += 1",
            CandidateFault::Timeout,
        ),
        (
            "tl.load(x_ptr + at,",
            "tl.load(x_ptr + at + 1000000000000,",
            CandidateFault::Crash,
        ),
        (
            "return out",
            "return out.view(-1)",
            CandidateFault::WrongSignature,
        ),
        (
            "return out",
            "return torch.softmax(x, dim=-1)",
            CandidateFault::SkippedWork,
        ),
        (
            "tl.exp(",
            "tl.core.exp(",
            CandidateFault::ForbiddenConstruct,
        ),
        // `self.part.dim(x)` would call the inner module.
        (
            "    def forward(",
            "    def __init__(self):\n        super().__init__()\n        self.part = nn.Softmax(nn.Softmax(-1))\n\n    def forward(",
            CandidateFault::WrongSignature,
        ),
        // The generator that `__init__` makes would compute in the call.
        (
            "    def forward(",
            "    def __init__(self):\n        super().__init__()\n        self.late = [(torch.zeros(n).exp() for n in range(9))]\n\n    def forward(",
            CandidateFault::WrongSignature,
        ),
        // Triton's compiler reads no global names but constants of its own kind; its interpreter does.
        (
            language,
            "import triton.language as tl\n\nZERO = 0.0\n",
            CandidateFault::CompileError,
        ),
    ] {
        let mut source = replaced(&solution, from, to);
        if from == language {
            source = replaced(&source, "other=-float", "other=ZERO - float");
        }
        let outcome = evaluate(&stages, &source).unwrap();
        let Verdict::Refused(failure) = &outcome.verdict else {
            assert_eq!(format!("{outcome:?}"), fault.name(), "{to}");
            continue;
        };
        assert_eq!(failure.fault, fault, "{to}: {failure:?}");
    }
}

/// The shipped program in Triton with two more launches, of a kernel that copies and has these configurations. `more` are
/// statements of that kernel.
fn copied_twice(solution: &str, blocks: &[u32], more: &str) -> String {
    let configurations: Vec<String> = blocks
        .iter()
        .map(|block| format!("triton.Config({{\"BLOCK\": {block}}})"))
        .collect();
    let kernel = format!(
        "\
@triton.autotune(configs=[{}], key=[\"n\"])
@triton.jit
def copy(x_ptr, out_ptr, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    {more}
    tl.store(out_ptr + at, x, mask=at < n)


class ModelNew",
        configurations.join(", ")
    );
    let launch = |from: &str, to: &str, step: u32| {
        format!(
            "copy[lambda meta: (triton.cdiv(rows * columns, meta[\"BLOCK\"]),)]({from}, {to}, rows * columns, STEP={step})\n        "
        )
    };
    let launches = format!(
        "half = torch.empty_like(x)\n        {}{}return out",
        launch("out", "half", 1),
        launch("half", "out", 2)
    );
    let source = replaced(solution, "class ModelNew", &kernel);
    replaced(&source, "return out", &launches)
}

#[test]
fn every_launch_meets_every_configuration_in_both_orders_of_its_programs() {
    let Some((stages, solution)) = triton() else {
        return;
    };
    for (blocks, more) in [
        // The first configuration is wrong in the second of two launches.
        (
            &[512, 1024][..],
            "if STEP == 2 and BLOCK == 512:\n        x += 0.01",
        ),
        // The last configuration is right only if programs run in the order of their numbers.
        (
            &[512, 1024, 2048, 4096][..],
            "if BLOCK == 4096:\n        tl.store(out_ptr + at + BLOCK, x + 0.01, mask=at + BLOCK < n)",
        ),
    ] {
        let source = copied_twice(&solution, blocks, more);
        let outcome = evaluate(&stages, &source).unwrap();
        let Verdict::Refused(failure) = &outcome.verdict else {
            unreachable!("{outcome:?}")
        };
        assert_eq!(failure.fault, CandidateFault::WrongResult, "{failure:?}");
    }
}

#[test]
fn a_parameter_may_have_the_name_of_an_option() {
    let Some((stages, solution)) = triton() else {
        return;
    };
    let constant = replaced(
        &solution,
        "ELEMENTS: tl.constexpr)",
        "ELEMENTS: tl.constexpr, num_warps: tl.constexpr)",
    );
    let outcome = evaluate(&stages, &constant).unwrap();
    let Verdict::Verified { kernels, .. } = &outcome.verdict else {
        unreachable!("{outcome:?}")
    };
    let warps = |of: fn(&CompiledKernel) -> bool| kernels.iter().filter(|k| of(k)).count();
    assert_eq!(warps(|k| k.figures.num_warps == Some(8)), 2);
    assert_eq!(warps(|k| k.constants["num_warps"] == 8), 2);
}

#[test]
fn a_program_in_cuda_is_compiled_and_neither_right_nor_wrong() {
    let Some(stages) = open(problem()) else {
        return;
    };
    let solution = shipped("solution_cuda.py");
    let outcome = match evaluate(&stages, &solution) {
        Err(why @ Error::Cuda { .. }) => {
            skipped(&why.to_string());
            return;
        }
        outcome => outcome.unwrap(),
    };
    let Verdict::Compiled { detail, kernels } = &outcome.verdict else {
        assert_eq!(format!("{outcome:?}"), NOT_VERIFIED);
        return;
    };
    assert_eq!(*detail, NOT_VERIFIED);
    assert_eq!(outcome.largest_error, None);
    assert!(outcome.compile_seconds > 0.0);
    let mut compiled: Vec<String> = kernels
        .iter()
        .map(|k| format!("{} {}", k.architecture, k.kernel))
        .collect();
    compiled.sort();
    assert_eq!(compiled, ["sm_80 row_softmax", "sm_90 row_softmax"]);
    assert!(kernels.iter().all(|k| k.figures.registers > 0));
    // The headers take most of the time, and nvcc finds the mistake before it compiles them for any architecture.
    let wrong = replaced(&solution, "return output;", "return outptu;");
    let outcome = evaluate(&stages, &wrong).unwrap();
    let Verdict::Refused(failure) = &outcome.verdict else {
        unreachable!("{outcome:?}")
    };
    assert_eq!(failure.fault, CandidateFault::CompileError, "{failure:?}");
    assert!(failure.detail.contains("outptu"), "{failure:?}");
}
