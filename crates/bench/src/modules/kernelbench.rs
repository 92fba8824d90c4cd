//! KernelBench's `eval_results.json`, which `bench --export kernelbench` and `eval` write.

use std::collections::BTreeMap;

use flopsmith_module::kernelbench;
use serde_json::{Value, json};

/// A program that was judged, in KernelBench's terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'a> {
    /// Identifier of the problem.
    pub problem: &'a str,
    /// Level of the problem.
    pub level: u8,
    /// Number among the programs for the problem, from 0.
    pub number: u32,
    /// The place of the program: a key of `metadata`, and its value.
    pub origin: (&'static str, String),
    /// Model of the processor.
    pub hardware: String,
    /// True if it was built.
    pub compiled: bool,
    /// True if it was found right.
    pub correct: bool,
    /// Name of the fault of a wrong one, and the finding in words.
    pub fault: Option<(String, String)>,
    /// Speedups by baseline; `fastest` is the fastest of each workload.
    pub speedups: Vec<(&'static str, f64)>,
    /// Milliseconds of a call, the geometric mean over the workloads; none without a time.
    pub milliseconds: Option<f64>,
    /// Number of rounds of the timing, if it is known.
    pub rounds: Option<u32>,
}

impl Entry<'_> {
    fn to_json(&self) -> Value {
        let mut metadata = json!({
            "hardware": self.hardware, "device": "cpu", "problem": self.problem,
        });
        let (key, place) = &self.origin;
        metadata[*key] = json!(place);
        if let Some((fault, error)) = &self.fault {
            metadata["fault"] = json!(fault);
            metadata["error"] = json!(error);
        }
        for (baseline, speedup) in &self.speedups {
            metadata["speedup"][*baseline] = json!(speedup);
        }
        let mut stats = json!({});
        if let Some(mean) = self.milliseconds {
            stats = json!({ "mean": mean, "hardware": self.hardware, "device": "cpu" });
            if let Some(rounds) = self.rounds {
                stats["num_trials"] = json!(rounds);
            }
        }
        json!({
            "sample_id": self.number,
            "compiled": self.compiled,
            "correctness": self.correct,
            "metadata": metadata,
            // KernelBench's value for a program without a time.
            "runtime": self.milliseconds.unwrap_or(-1.0),
            "runtime_stats": stats,
        })
    }
}

/// The content of a file: entries by the number of the problem, or by its identifier if KernelBench has no such problem. All
/// must be of one level, since the levels have the same numbers.
pub fn results<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> BTreeMap<String, Vec<Value>> {
    let mut results: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for entry in entries {
        let number = kernelbench::number(entry.problem, entry.level);
        let id = number.map_or_else(|| entry.problem.to_owned(), |n| n.to_string());
        results.entry(id).or_default().push(entry.to_json());
    }
    results
}
