//! Modules of PyTorch in `flopsmith bench`: candidates' files in, printed results out.

mod candidates;
mod export;
mod import;
pub mod kernelbench;
mod levels;
mod run;
mod solution;

use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_module::{
    CompiledKernel, Environment, Failure, Finding, Outcome, Problem, Severity, Verdict,
};
use flopsmith_protocol::FIRST_WORKLOAD;
use flopsmith_run::console::{data, table, usage};
use flopsmith_run::digits::four;
use serde_json::json;

pub use export::Export;
pub use import::Import;
pub use run::{Order, run};

/// Keeps only the named workloads, if any are named. [`FIRST_WORKLOAD`] stands for the name of the first one.
///
/// # Errors
/// A usage error that lists the problem's workloads.
pub fn select(problem: &mut Problem, names: &[String]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = problem.workloads.iter().map(|w| w.name.clone()).collect();
    let named = |name: &String| match (name.as_str(), known.first()) {
        (FIRST_WORKLOAD, Some(first)) => first.clone(),
        _ => name.clone(),
    };
    let names: Vec<String> = names.iter().map(named).collect();
    if let Some(unknown) = names.iter().find(|n| !known.contains(n)) {
        return Err(usage(format!(
            "{} has no workload `{unknown}`; it has {}",
            problem.id,
            known.join(", ")
        )));
    }
    problem.workloads.retain(|w| names.contains(&w.name));
    Ok(())
}

/// One result as a line of JSON; `busy` is the disturbance of the machine before the evaluation, if there was one.
fn line(problem: &str, file: &Path, outcome: &Outcome, busy: Option<&str>) -> Result<String> {
    let mut object = serde_json::to_value(outcome)?;
    object["file"] = json!(file.display().to_string());
    object["problem"] = json!(problem);
    if let Some(why) = busy {
        object["busy"] = json!(why);
    }
    Ok(object.to_string())
}

/// The first line of results as JSON lines: the machine.
fn header(problem: &str, environment: &Environment) -> String {
    json!({
        "problem": problem,
        "target": "module",
        "device": "cpu",
        "python": environment.python,
        "torch": environment.torch,
        "triton": environment.triton,
        "capability": environment.capability,
    })
    .to_string()
}

/// The place of an outcome in a list, the largest first: the fastest candidates, then those that were verified but not
/// timed, then those that were compiled but not verified, then the refused ones.
fn rank(outcome: &Outcome) -> (u8, f64) {
    match &outcome.verdict {
        Verdict::Measured { speedup, .. } => (3, *speedup),
        Verdict::Verified { .. } => (2, 0.0),
        Verdict::Compiled { .. } => (1, 0.0),
        Verdict::Refused(_) => (0, 0.0),
    }
}

/// Prints the findings about a problem. Returns true if it can be used.
pub fn print_findings(problem: &str, findings: &[Finding], as_json: bool) -> bool {
    let sound = findings.iter().all(|f| f.severity != Severity::Error);
    if as_json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| {
                json!({
                    "error": f.severity == Severity::Error,
                    "warning": f.severity == Severity::Warning,
                    "text": f.text,
                })
            })
            .collect();
        data(&json!({ "problem": problem, "sound": sound, "findings": list }).to_string());
        return sound;
    }
    for finding in findings {
        let mark = match finding.severity {
            Severity::Error => "WRONG",
            Severity::Warning => "weak ",
            Severity::Good => "ok   ",
        };
        data(&format!("{mark}  {finding}"));
    }
    data(match sound {
        true => "the module can be used",
        false => "the module must not be used before its mistakes are corrected",
    });
    sound
}

/// Prints a table, a row for each candidate, workload and baseline; a table of compiled kernels; and the reasons of
/// refusals.
fn print(results: &[(PathBuf, Outcome)]) {
    let columns = [
        ("program", false),
        ("workload", false),
        ("speedup", true),
        ("95 %", false),
        ("baseline", false),
        ("baseline ms", true),
        ("ms", true),
        ("stop", false),
    ];
    let mut rows = Vec::new();
    for (file, outcome) in results {
        let Verdict::Measured {
            speedup,
            low,
            high,
            workloads,
        } = &outcome.verdict
        else {
            continue;
        };
        let name = file.display().to_string();
        let between = |low: f64, high: f64| format!("{}–{}", four(low), four(high));
        rows.push(vec![
            name,
            "all".into(),
            four(*speedup),
            between(*low, *high),
            "fastest".into(),
            String::new(),
            String::new(),
            String::new(),
        ]);
        for timed in workloads {
            for speed in &timed.speeds {
                rows.push(vec![
                    String::new(),
                    timed.workload.clone(),
                    four(speed.speedup),
                    between(speed.low, speed.high),
                    speed.baseline.into(),
                    four(1e3 * speed.baseline_seconds),
                    four(1e3 * speed.candidate_seconds),
                    speed.stop.to_string(),
                ]);
            }
        }
    }
    if !rows.is_empty() {
        table(&columns, rows).iter().for_each(|line| data(line));
    }
    for (file, outcome) in results {
        match &outcome.verdict {
            Verdict::Measured { .. } => {}
            Verdict::Verified { detail, kernels } | Verdict::Compiled { detail, kernels } => {
                data(&format!("{}: {detail}", file.display()));
                let rows = kernels.iter().map(compiled);
                table(&COMPILED, rows).iter().for_each(|line| data(line));
            }
            Verdict::Refused(failure) => data(&refusal(file, failure)),
        }
    }
}

/// The columns of a table of compiled kernels.
const COMPILED: [(&str, bool); 8] = [
    ("kernel", false),
    ("GPU", false),
    ("constants", false),
    ("warps", true),
    ("stages", true),
    ("registers", true),
    ("shared bytes", true),
    ("spilled bytes", true),
];

fn compiled(kernel: &CompiledKernel) -> Vec<String> {
    let constant = |(name, value): (&String, &serde_json::Value)| format!("{name}={value}");
    let constants: Vec<String> = kernel.constants.iter().map(constant).collect();
    let figures = kernel.figures;
    let or_none = |number: Option<u32>| number.map_or_else(|| "–".into(), |n| n.to_string());
    vec![
        kernel.kernel.clone(),
        kernel.architecture.to_string(),
        constants.join(" "),
        or_none(figures.num_warps),
        or_none(figures.num_stages),
        figures.registers.to_string(),
        figures.shared_bytes.to_string(),
        (figures.spill_store_bytes + figures.spill_load_bytes).to_string(),
    ]
}

fn refusal(file: &Path, failure: &Failure) -> String {
    let rule = failure.rule.as_ref().map(|rule| format!(" ({rule})"));
    format!(
        "{}: {}{}: {}",
        file.display(),
        failure.fault,
        rule.unwrap_or_default(),
        failure.detail
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_module::{NOT_TIMED, NOT_VERIFIED};
    use flopsmith_protocol::CandidateFault;
    use flopsmith_test_support::shipped;

    use super::*;

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome {
            verdict,
            techniques: None,
            compile_seconds: 0.0,
            largest_error: None,
        }
    }

    #[test]
    fn first_stands_for_the_first_workload_of_a_module() {
        let whole = Problem::load(&shipped::at("modules/softmax")).unwrap();
        assert!(whole.workloads.len() > 1);
        let mut first = whole.clone();
        select(&mut first, &["first".to_owned()]).unwrap();
        assert_eq!(first.workloads, whole.workloads[..1]);
        assert!(select(&mut first, &["last".to_owned()]).is_err());
    }

    #[test]
    fn programs_without_a_speed_stand_between_measured_and_refused_ones() {
        let refused = Verdict::Refused(Failure {
            fault: CandidateFault::WrongResult,
            rule: None,
            detail: String::new(),
        });
        let verified = Verdict::Verified {
            detail: NOT_TIMED,
            kernels: Vec::new(),
        };
        let compiled = Verdict::Compiled {
            detail: NOT_VERIFIED,
            kernels: Vec::new(),
        };
        let unmeasured = [verified.clone(), compiled.clone()].map(outcome);
        let measured = Verdict::Measured {
            speedup: 0.5,
            low: 0.4,
            high: 0.6,
            workloads: Vec::new(),
        };
        let verdicts = [refused, compiled, verified, measured];
        let ranks = verdicts.map(|verdict| rank(&outcome(verdict)));
        assert!(ranks.is_sorted_by(|a, b| a.0 < b.0), "{ranks:?}");
        // No field of such a program could be read as a speed.
        for (outcome, name) in unmeasured.iter().zip(["verified", "compiled"]) {
            let text = line("softmax", Path::new("b.py"), outcome, None).unwrap_or_default();
            let named = text.contains(&format!("\"outcome\":\"{name}\""));
            assert!(named && !text.contains("speedup"), "{text}");
        }
    }
}
