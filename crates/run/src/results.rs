//! The results of a search over parameters, in Kernel Tuner's T4 format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_actors::journal::replace;
use flopsmith_generator::parameters::Configurations;
use flopsmith_generator::parameters::expression::Value;
use flopsmith_protocol::{CandidateFault, FaultClass, Outcome, Purpose, Verdict};
use serde_json::{Map, Value as Json, json};

use crate::summary::{Certified, Facts, measurement_of, outcomes};
use crate::view::stamp_of;

/// The results in a run's folder.
const FILE: &str = "results.json";
/// The version of the format.
const SCHEMA: &str = "1.0.0";

/// Writes the results of a run into its folder.
///
/// # Errors
/// If the run's outcomes cannot be read, or the file cannot be written.
pub fn write(folder: &Path, space: &Configurations, facts: &Facts) -> Result<PathBuf> {
    let path = folder.join(FILE);
    let results = of(&outcomes(folder)?, &facts.certified, space);
    replace(&path, format!("{results:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// One result for each configuration that was judged, in the order in which they were.
fn of(outcomes: &[Outcome], certified: &[Certified], space: &Configurations) -> Json {
    let mut of_it: BTreeMap<u32, Vec<&Outcome>> = BTreeMap::new();
    let mut order = Vec::new();
    for outcome in outcomes.iter().filter(|o| o.verdict.counts()) {
        let Some(number) = space.number(&outcome.source) else {
            continue;
        };
        let all = of_it.entry(number).or_default();
        if all.is_empty() {
            order.push(number);
        }
        all.push(outcome);
    }
    let results = order.iter().filter_map(|number| {
        let all = of_it.get(number)?;
        Some(result(*number, all, certified, space))
    });
    let results: Vec<Json> = results.collect();
    json!({ "schema_version": SCHEMA, "results": results })
}

fn result(number: u32, all: &[&Outcome], certified: &[Certified], space: &Configurations) -> Json {
    let configuration: Map<String, Json> = space
        .values(number)
        .map(|(name, value)| (name.to_owned(), plain(value)))
        .collect();
    // The first outcome has the times of all stages; a refusal of a later one outweighs it.
    let first = all
        .iter()
        .find(|o| o.candidate.purpose != Purpose::Certify)
        .unwrap_or(&all[0]);
    let refusal = all.iter().find_map(|o| match &o.verdict {
        Verdict::Rejected { fault, .. } => Some(*fault),
        _ => None,
    });
    let milliseconds = |seconds: f64| 1000.0 * seconds;
    let stage = |n: usize| milliseconds(f64::from(first.stage_seconds[n]));
    let mine: Vec<Outcome> = all.iter().map(|o| (*o).clone()).collect();
    let measured = match refusal {
        None => measurement_of(&first.source, &mine, certified),
        Some(_) => None,
    };
    let in_turn = mine.iter().filter_map(|o| o.verdict.measurement());
    let at_the_end = certified
        .iter()
        .filter(|c| mine.iter().any(|o| o.candidate.id == c.candidate))
        .map(|c| &c.measurement);
    let runtimes: Vec<f64> = in_turn
        .chain(at_the_end)
        .map(|m| milliseconds(m.seconds_per_call))
        .collect();
    let mut measurements = Vec::new();
    if let Some(m) = measured {
        let mut push = |name: &str, value: f64, unit: &str| {
            measurements.push(json!({ "name": name, "value": value, "unit": unit }));
        };
        push("time", milliseconds(m.seconds_per_call), "ms");
        push("GFLOP/s", m.gflops, "GFLOP/s");
        push("ratio_to_reference", m.ratio, "");
        push("ratio_to_reference_low", m.interval.low, "");
        push("ratio_to_reference_high", m.interval.high, "");
    }
    json!({
        "timestamp": timestamp(first.decided_unix_ms),
        "configuration": configuration,
        "objectives": ["time"],
        // The schema and Kernel Tuner's own files name the time of compiling differently.
        "times": {
            "compilation_time": stage(0),
            "compilation": stage(0),
            "validation": stage(1),
            "benchmark": stage(2),
            "runtimes": if measured.is_some() { runtimes } else { Vec::new() },
        },
        "invalidity": refusal.map_or("correct", invalidity),
        "correctness": if measured.is_some() { 1.0 } else { 0.0 },
        "measurements": measurements,
    })
}

/// The name of a fault in the format.
fn invalidity(fault: CandidateFault) -> &'static str {
    match fault.class() {
        FaultClass::Violation => "constraints",
        FaultClass::Compile => "compile",
        FaultClass::Timeout => "timeout",
        FaultClass::Runtime => "runtime",
        FaultClass::Wrong => "correctness",
    }
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Int(n) => json!(n),
        Value::Float(x) => json!(x),
        Value::Bool(holds) => json!(holds),
        Value::Text(text) => json!(text),
        Value::List(all) => all.iter().map(plain).collect(),
    }
}

/// A time as ISO 8601 writes it, UTC.
fn timestamp(unix_ms: u64) -> String {
    let stamp = stamp_of(unix_ms / 1000);
    format!(
        "{}-{}-{}T{}:{}:{}.{:03}+00:00",
        &stamp[..4],
        &stamp[4..6],
        &stamp[6..8],
        &stamp[9..11],
        &stamp[11..13],
        &stamp[13..15],
        unix_ms % 1000
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_generator::parameters::{Program, read};
    use flopsmith_problem::Problem;
    use flopsmith_test_support::{
        Measured, again, first, infrastructure, measured, rejected, shipped,
    };

    use super::*;

    fn space() -> Configurations {
        let problem = Problem::load(&shipped::at("dgemm")).unwrap();
        let text = r#"{"ConfigurationSpace": {"TuningParameters": [
            {"Name": "TILE", "Type": "int", "Values": "[1, 2, 3, 4]"},
            {"Name": "FAST", "Type": "bool", "Values": "[False, True]"},
            {"Name": "KIND", "Type": "string", "Values": "['float']"},
            {"Name": "SHARE", "Type": "float", "Values": "[0.5]"}]}}"#;
        let file = read(text).unwrap();
        let source = "void dgemm(int n) { KIND a[TILE] = {FAST, SHARE}; }\n";
        let program = Program::new(source, &file, &problem).unwrap();
        Configurations::new(program, &file).unwrap()
    }

    #[test]
    fn each_judged_configuration_has_one_result_with_its_best_known_time() {
        let space = space();
        let text = |number: u32| space.text(number);
        let of_config = |sample: u32, number: u32, verdict: Verdict| Outcome {
            stage_seconds: [0.25, 0.5, 1.0],
            decided_unix_ms: 1_700_000_000_123,
            ..first(sample, &text(number), "simd", verdict)
        };
        let lost = infrastructure(flopsmith_protocol::InfrastructureCause::Bus);
        let a = of_config(0, 5, measured(40.0));
        let outcomes = [
            a.clone(),
            of_config(1, 0, rejected(CandidateFault::WrongResult)),
            of_config(2, 1, rejected(CandidateFault::CompileError)),
            of_config(3, 2, lost),
            again(&a, measured(38.0)),
            first(9, "another program", "simd", measured(90.0)),
        ];
        let certified = [Certified {
            candidate: a.candidate.id.clone(),
            measurement: Measured::at(39.0).measurement(),
            record: None,
            machine_busy: None,
        }];
        let all = of(&outcomes, &certified, &space);
        assert_eq!(all["schema_version"], "1.0.0");
        let results = all["results"].as_array().unwrap();
        let kinds: Vec<&Json> = results.iter().map(|r| &r["invalidity"]).collect();
        assert_eq!(kinds, ["correct", "correctness", "compile"]);
        let best = &results[0];
        assert_eq!(
            best["configuration"],
            json!({ "TILE": 3, "FAST": true, "KIND": "float", "SHARE": 0.5 })
        );
        assert_eq!(best["timestamp"], "2023-11-14T22:13:20.123+00:00");
        assert_eq!(best["times"]["compilation_time"], 250.0);
        assert_eq!(best["times"]["runtimes"].as_array().unwrap().len(), 3);
        let time = &best["measurements"][0];
        assert_eq!(
            (&time["name"], &time["unit"]),
            (&json!("time"), &json!("ms"))
        );
        let seconds = certified[0].measurement.seconds_per_call;
        assert_eq!(time["value"], 1000.0 * seconds);
        assert_eq!(results[1]["correctness"], 0.0);
        assert_eq!(results[1]["measurements"], json!([]));
        // A program that a later check refuses has no time.
        let later = rejected(CandidateFault::UndefinedBehaviour);
        let refused = of(&[a.clone(), again(&a, later)], &[], &space);
        assert_eq!(refused["results"][0]["invalidity"], "correctness");
        assert_eq!(refused["results"][0]["times"]["runtimes"], json!([]));
    }
}
