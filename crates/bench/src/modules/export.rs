//! Results of modules in the formats of other tools: KernelBench's `eval_results.json`, and traces of FlashInfer-Bench.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use flopsmith_module::{Environment, Failure, Outcome, Problem, Speed, Timed, Verdict, Workload};
use flopsmith_protocol::{CandidateFault, geometric};
use flopsmith_run::console::usage;
use flopsmith_run::output::Output;
use serde_json::{Map, Value, json};

use super::kernelbench::{Entry, results};
use super::levels::{BASELINES, is_correct, is_decided, speedup};

/// A tool with a format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Kernelbench,
    Flashinfer,
}

/// A file with results in the format of a tool: `kernelbench=FILE` or `flashinfer=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    tool: Tool,
    path: PathBuf,
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tool, path) = match text.split_once('=') {
            Some(("kernelbench", path)) => (Tool::Kernelbench, path),
            Some(("flashinfer", path)) => (Tool::Flashinfer, path),
            _ => {
                return Err(
                    "write markdown=FILE for kernels, or kernelbench=FILE or flashinfer=FILE for modules"
                        .into(),
                );
            }
        };
        match path {
            "" => Err("the name of the file is missing".into()),
            path => Ok(Export {
                tool,
                path: path.into(),
            }),
        }
    }
}

/// A candidate with its outcome.
pub struct Judged<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The file of the candidate.
    pub file: &'a Path,
    /// The name of the candidate.
    pub name: &'a str,
    /// Its number among the candidates for the problem.
    pub sample: u32,
    /// The outcome.
    pub outcome: &'a Outcome,
}

/// A candidate that nobody judged, since the problem's reference cannot be used.
pub struct Unjudged<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The name of the candidate.
    pub name: &'a str,
    /// The fault of the reference.
    pub why: String,
}

/// The machine and the time of the results.
pub struct Setting<'a> {
    /// The model of the processor.
    pub hardware: String,
    /// The Python environment.
    pub environment: &'a Environment,
    /// The time in ISO 8601.
    pub timestamp: String,
}

/// A file that is written at the end.
pub struct Prepared {
    tool: Tool,
    output: Output,
}

/// Checks that each file can be written, before anything is measured. `problems` are those with candidates.
///
/// # Errors
/// A usage error if a file is of another kind or named twice, or KernelBench's file would have problems of several levels,
/// which have the same numbers.
pub fn prepare(exports: &[Export], problems: &[&Problem]) -> Result<Vec<Prepared>> {
    let levels: BTreeSet<u8> = problems.iter().map(|problem| problem.level).collect();
    // Two names of one file are found by its place once it exists.
    let place = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut taken = BTreeSet::new();
    let prepared = exports.iter().map(|export| {
        if export.tool == Tool::Kernelbench && levels.len() > 1 {
            return Err(usage(format!(
                "--export kernelbench: a file has one level, and the programs are for the levels {levels:?}; give the programs of one level"
            )));
        }
        let (kind, mark) = match export.tool {
            Tool::Kernelbench => ("file of KernelBench's results", "\"compiled\""),
            Tool::Flashinfer => ("file of traces", "{\"definition\""),
        };
        let is_own = |begin: &[u8]| String::from_utf8_lossy(begin).contains(mark);
        let output = Output::claim_of_kind(&export.path, kind, is_own)?;
        if !taken.insert(place(&export.path)) {
            return Err(usage(format!(
                "--export names {} twice; name a file for each export",
                export.path.display()
            )));
        }
        Ok(Prepared {
            tool: export.tool,
            output,
        })
    });
    prepared.collect()
}

/// Writes the files; none without any result. A candidate that was only compiled is none: these formats know right and wrong.
/// An unjudged one is a result in traces alone, which have a status for that.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    prepared: Vec<Prepared>,
    all: &[Judged<'_>],
    unjudged: &[Unjudged<'_>],
    setting: &Setting<'_>,
) -> Result<()> {
    let decided = all.iter().any(|judged| is_decided(judged.outcome));
    for file in prepared {
        let text = match file.tool {
            Tool::Kernelbench if decided => {
                let entries = all.iter().filter_map(|judged| entry(judged, setting));
                serde_json::to_string_pretty(&results(entries))? + "\n"
            }
            Tool::Flashinfer if decided || !unjudged.is_empty() => {
                let judged = all.iter().flat_map(|judged| traces(judged, setting));
                let unjudged = unjudged.iter().flat_map(|one| invalid_traces(one, setting));
                let traces = judged.chain(unjudged);
                traces.map(|trace| format!("{trace}\n")).collect()
            }
            _ => continue,
        };
        file.output.write(text)?;
    }
    Ok(())
}

/// An entry of KernelBench's results; none for a candidate that is neither right nor wrong.
fn entry<'a>(judged: &Judged<'a>, setting: &Setting<'_>) -> Option<Entry<'a>> {
    let outcome = judged.outcome;
    if !is_decided(outcome) {
        return None;
    }
    let refused = match &outcome.verdict {
        Verdict::Refused(failure) => Some(failure),
        _ => None,
    };
    let speedups = BASELINES.map(|baseline| Some((baseline, speedup(outcome, baseline)?)));
    let reference: Vec<&Speed> = timed(outcome).iter().filter_map(reference).collect();
    let milliseconds = reference.iter().map(|speed| 1e3 * speed.candidate_seconds);
    Some(Entry {
        problem: &judged.problem.id,
        level: judged.problem.level,
        number: judged.sample,
        origin: ("file", judged.file.display().to_string()),
        hardware: setting.hardware.clone(),
        compiled: refused.is_none_or(|failure| failure.fault.built()),
        correct: is_correct(outcome),
        fault: refused.map(|failure| (failure.fault.name().to_owned(), said(failure))),
        speedups: speedups.into_iter().flatten().collect(),
        milliseconds: geometric(milliseconds),
        rounds: Some(reference.iter().map(|speed| speed.rounds).sum()),
    })
}

/// A candidate whose traces are written.
struct Traced<'a> {
    problem: &'a Problem,
    name: &'a str,
    setting: &'a Setting<'a>,
}

impl Traced<'_> {
    /// The trace of a workload, with these results besides.
    fn trace(&self, workload: &Workload, status: &str, log: String, results: Value) -> Value {
        let setting = self.setting;
        let environment = json!({
            "hardware": setting.hardware,
            "libs": { "torch": setting.environment.torch, "python": setting.environment.python },
        });
        let mut evaluation = json!({
            "status": status, "environment": environment, "timestamp": setting.timestamp, "log": log,
        });
        if let (Some(to), Value::Object(results)) = (evaluation.as_object_mut(), results) {
            to.extend(results);
        }
        json!({
            "definition": self.problem.id,
            "workload": { "uuid": workload.name, "axes": axes(workload), "inputs": {} },
            "solution": self.name,
            "evaluation": evaluation,
        })
    }
}

/// A trace for each workload of a problem whose reference cannot be used, with SOL-ExecBench's status.
fn invalid_traces(unjudged: &Unjudged<'_>, setting: &Setting<'_>) -> Vec<Value> {
    let traced = Traced {
        problem: unjudged.problem,
        name: unjudged.name,
        setting,
    };
    let workloads = unjudged.problem.workloads.iter();
    let trace = |of| traced.trace(of, "INVALID_REFERENCE", unjudged.why.clone(), json!({}));
    workloads.map(trace).collect()
}

/// A trace for each workload of the problem. A candidate without a time and without a failure has none.
fn traces(judged: &Judged<'_>, setting: &Setting<'_>) -> Vec<Value> {
    let traced = Traced {
        problem: judged.problem,
        name: judged.name,
        setting,
    };
    // The share of the permitted error is known, and the largest errors themselves are not.
    let correctness = json!({
        "max_absolute_error": "NaN", "max_relative_error": "NaN",
        "extra": { "share_of_permitted_error": judged.outcome.largest_error },
    });
    let workloads = judged.problem.workloads.iter();
    if let Verdict::Refused(failure) = &judged.outcome.verdict {
        let status = status(failure);
        let results = match status {
            "INCORRECT_NUMERICAL" => json!({ "correctness": correctness }),
            _ => json!({}),
        };
        return workloads
            .map(|workload| traced.trace(workload, status, said(failure), results.clone()))
            .collect();
    }
    let passed = workloads.filter_map(|workload| {
        let mut timed = timed(judged.outcome).iter();
        let speed = reference(timed.find(|timed| timed.workload == workload.name)?)?;
        let results = json!({
            "correctness": correctness,
            "performance": {
                "latency_ms": 1e3 * speed.candidate_seconds,
                "reference_latency_ms": 1e3 * speed.baseline_seconds,
                "speedup_factor": speed.speedup,
            },
        });
        Some(traced.trace(workload, "PASSED", String::new(), results))
    });
    passed.collect()
}

/// The sizes among the constants of a workload.
fn axes(workload: &Workload) -> Map<String, Value> {
    let sizes = workload
        .constants
        .iter()
        .filter(|(_, value)| value.as_u64().is_some());
    sizes
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn timed(outcome: &Outcome) -> &[Timed] {
    match &outcome.verdict {
        Verdict::Measured { workloads, .. } => workloads,
        _ => &[],
    }
}

/// The speed relative to the reference as it is, the eager module.
fn reference(timed: &Timed) -> Option<&Speed> {
    timed.speeds.iter().find(|speed| speed.baseline == "eager")
}

/// A failure in words, with the rule that refused the source.
fn said(failure: &Failure) -> String {
    let rule = failure.rule.as_ref().map(|rule| format!(" ({rule})"));
    format!(
        "{}{}: {}",
        failure.fault,
        rule.unwrap_or_default(),
        failure.detail
    )
}

/// FlashInfer-Bench's status of a failure; REWARD_HACK is SOL-ExecBench's.
fn status(failure: &Failure) -> &'static str {
    use CandidateFault as F;
    match failure.fault {
        F::Format
        | F::SourceTooLarge
        | F::NotText
        | F::MissingEntry
        | F::CompileError
        | F::CompileLimit => "COMPILE_ERROR",
        F::WrongSignature => of_signature(&failure.detail),
        F::Timeout => "TIMEOUT",
        F::Crash | F::Exited | F::MemoryLimit | F::OutOfBounds | F::UndefinedBehaviour => {
            "RUNTIME_ERROR"
        }
        F::WrongResult | F::Nondeterministic | F::InputModified => "INCORRECT_NUMERICAL",
        F::ForbiddenInclude
        | F::ForbiddenSymbol
        | F::ForbiddenConstruct
        | F::ForbiddenTechnique
        | F::ForbiddenSyscall
        | F::LeftRunning
        | F::SkippedWork => "REWARD_HACK",
    }
}

/// The status of a result of another type. The worker says `the result is torch.float64 [2], not torch.float32 [2]`, or
/// how many results there are; what else differs, such as the parameters, has no status of its own.
fn of_signature(detail: &str) -> &'static str {
    let types = detail
        .split_once("the result is ")
        .and_then(|(_, rest)| rest.split_once(", not "));
    match types {
        Some((found, wanted)) if wanted.starts_with("torch.") => {
            let dtype = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
            match dtype(found) == dtype(wanted) {
                true => "INCORRECT_SHAPE",
                false => "INCORRECT_DTYPE",
            }
        }
        _ if detail.contains(" results instead of ") => "INCORRECT_SHAPE",
        _ => "RUNTIME_ERROR",
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::modules::candidates::tests::problem;
    use crate::modules::levels::tests::{compiled, measured, refused};

    const WORKER: &str = include_str!("../../../module/python/worker.py");

    fn relu() -> Problem {
        let mut problem = problem("level1_19_relu", 1);
        problem.workloads.push(Workload {
            name: "w".into(),
            constants: BTreeMap::from([("N".into(), json!(64)), ("slope".into(), json!(0.5))]),
            dtype: None,
        });
        problem
    }

    /// Python and PyTorch of these versions.
    fn environment() -> Environment {
        serde_json::from_value(json!({
            "executable": "/usr/bin/python3", "python": "3.11.2", "torch": "2.11.0", "standard": [], "site": [],
            "include": "", "torch_include": "", "torch_lib": "", "libraries": [], "capability": "AVX2",
        }))
        .unwrap()
    }

    fn setting(environment: &Environment) -> Setting<'_> {
        Setting {
            hardware: "a processor".into(),
            environment,
            timestamp: "2026-01-02T03:04:05Z".into(),
        }
    }

    fn judged<'a>(problem: &'a Problem, sample: u32, outcome: &'a Outcome) -> Judged<'a> {
        Judged {
            problem,
            file: Path::new("a.py"),
            name: "a",
            sample,
            outcome,
        }
    }

    #[test]
    fn kernelbenchs_file_has_samples_by_number() {
        let (problem, environment) = (relu(), environment());
        let (fast, wrong) = (
            measured(4.0, 2.0),
            refused(CandidateFault::WrongResult, "off"),
        );
        let cheat = refused(CandidateFault::ForbiddenSymbol, "`os`");
        let unknown = compiled();
        let all = [&fast, &wrong, &cheat, &unknown];
        let all: Vec<Judged> = (0..)
            .zip(all)
            .map(|(n, of)| judged(&problem, n, of))
            .collect();
        let setting = setting(&environment);
        let results = json!(results(all.iter().filter_map(|of| entry(of, &setting))));
        let samples = &results["19"];
        // A program that was only compiled is neither right nor wrong.
        assert_eq!(samples.as_array().unwrap().len(), 3);
        let traces = traces(&judged(&problem, 3, &unknown), &setting);
        assert!(traces.is_empty(), "{traces:?}");
        for (sample, compiled, correct, runtime) in [
            (0usize, true, true, 2.0),
            (1, true, false, -1.0),
            (2, false, false, -1.0),
        ] {
            let found = &samples[sample];
            assert_eq!(found["sample_id"], sample);
            assert_eq!(
                (&found["compiled"], &found["correctness"]),
                (&json!(compiled), &json!(correct))
            );
            assert_eq!(found["runtime"], runtime);
        }
        assert_eq!(
            samples[0]["metadata"]["speedup"],
            json!({ "fastest": 2.0, "eager": 4.0, "inductor": 2.0 })
        );
        assert_eq!(samples[0]["runtime_stats"]["num_trials"], 10);
        assert_eq!(samples[1]["metadata"]["error"], "wrong_result: off");
        assert_eq!(samples[2]["runtime_stats"], json!({}));
    }

    #[test]
    fn a_trace_has_what_its_status_asks_for() {
        let (problem, environment) = (relu(), environment());
        let setting = setting(&environment);
        let of = |outcome: &Outcome| {
            let traces = traces(&judged(&problem, 0, outcome), &setting);
            assert_eq!(traces.len(), 1);
            traces[0].clone()
        };
        let passed = of(&measured(4.0, 2.0));
        assert_eq!(passed["definition"], "level1_19_relu");
        assert_eq!(
            passed["workload"],
            json!({ "uuid": "w", "axes": { "N": 64 }, "inputs": {} })
        );
        assert_eq!(passed["solution"], "a");
        let evaluation = &passed["evaluation"];
        assert_eq!(evaluation["status"], "PASSED");
        assert_eq!(evaluation["environment"]["libs"]["torch"], "2.11.0");
        assert_eq!(evaluation["timestamp"], "2026-01-02T03:04:05Z");
        let performance =
            json!({ "latency_ms": 2.0, "reference_latency_ms": 8.0, "speedup_factor": 4.0 });
        assert_eq!(evaluation["performance"], performance);
        assert_eq!(
            evaluation["correctness"]["extra"]["share_of_permitted_error"],
            0.25
        );
        let wrong = of(&refused(CandidateFault::WrongResult, "off"));
        assert_eq!(wrong["evaluation"]["status"], "INCORRECT_NUMERICAL");
        assert!(wrong["evaluation"]["correctness"].is_object());
        assert!(wrong["evaluation"].get("performance").is_none());
        let slow = of(&refused(CandidateFault::Timeout, "a minute"));
        assert_eq!(slow["evaluation"]["status"], "TIMEOUT");
        assert_eq!(slow["evaluation"]["log"], "timeout: a minute");
        assert!(slow["evaluation"].get("correctness").is_none());
    }

    #[test]
    fn a_reference_that_cannot_be_used_has_a_status_in_traces_alone() {
        let (problem, environment) = (relu(), environment());
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let of =
            |tool: &str| -> Export { format!("{tool}={}", path(tool).display()).parse().unwrap() };
        let exports = [of("kernelbench"), of("flashinfer")];
        let prepared = prepare(&exports, &[&problem]).unwrap();
        let unjudged = Unjudged {
            problem: &problem,
            name: "a",
            why: "reference.py: it is random".into(),
        };
        write(prepared, &[], &[unjudged], &setting(&environment)).unwrap();
        let text = std::fs::read_to_string(path("flashinfer")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), problem.workloads.len(), "{text}");
        let trace: Value = serde_json::from_str(lines[0]).unwrap();
        let evaluation = &trace["evaluation"];
        assert_eq!(evaluation["status"], "INVALID_REFERENCE");
        assert_eq!(evaluation["log"], "reference.py: it is random");
        let samples = std::fs::read_to_string(path("kernelbench"));
        assert!(samples.is_err() || samples.is_ok_and(|text| text.is_empty()));
    }

    #[test]
    fn failures_have_their_statuses() {
        // The worker's words decide between shape and type.
        for words in [
            "the result is {result.dtype} {list(result.shape)}, not {to.dtype}",
            "results instead of",
        ] {
            assert!(WORKER.contains(words), "{words}");
        }
        for (fault, detail, expected) in [
            (CandidateFault::CompileError, "", "COMPILE_ERROR"),
            (CandidateFault::Crash, "", "RUNTIME_ERROR"),
            (CandidateFault::ForbiddenSymbol, "", "REWARD_HACK"),
            (CandidateFault::SkippedWork, "", "REWARD_HACK"),
            (
                CandidateFault::WrongSignature,
                "`call`: the result is torch.float64 [2, 3], not torch.float32 [2, 3]",
                "INCORRECT_DTYPE",
            ),
            (
                CandidateFault::WrongSignature,
                "`call`: the result is torch.float32 [3, 2], not torch.float32 [2, 3]",
                "INCORRECT_SHAPE",
            ),
            (
                CandidateFault::WrongSignature,
                "`call`: 2 results instead of 1",
                "INCORRECT_SHAPE",
            ),
            (
                CandidateFault::WrongSignature,
                "`build`: ModelNew has other parameters than Model: bias",
                "RUNTIME_ERROR",
            ),
            (
                CandidateFault::WrongSignature,
                "`call`: the result is a list, not a tensor",
                "RUNTIME_ERROR",
            ),
        ] {
            let outcome = refused(fault, detail);
            let Verdict::Refused(failure) = &outcome.verdict else {
                unreachable!("it was refused")
            };
            assert_eq!(status(failure), expected, "{detail}");
        }
    }

    #[test]
    fn exports_are_named_and_checked_before_the_measurement() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("program.py");
        std::fs::write(&path, "import torch").unwrap();
        let (first, second) = (problem("level1_1_a", 1), problem("level2_1_b", 2));
        let refused = |export: &Export, problems: &[&Problem]| {
            let refused = prepare(std::slice::from_ref(export), problems).err();
            refused.unwrap().to_string()
        };
        let of = |tool: &str, path: &Path| -> Export {
            format!("{tool}={}", path.display()).parse().unwrap()
        };
        let taken = refused(&of("flashinfer", &path), &[&first]);
        assert!(taken.contains("exists already"), "{taken}");
        let new = of("kernelbench", &place.path().join("eval_results.json"));
        let several = refused(&new, &[&first, &second]);
        assert!(several.contains("one level"), "{several}");
        let same = of("flashinfer", &place.path().join("./eval_results.json"));
        let twice = prepare(&[new.clone(), same], &[&first]).err().unwrap();
        assert!(twice.to_string().contains("twice"), "{twice}");
        assert_eq!(prepare(&[new], &[&first]).unwrap().len(), 1);
        for wrong in ["kernelbench", "kernelbench=", "other=a.json"] {
            assert!(wrong.parse::<Export>().is_err(), "{wrong}");
        }
    }
}
