//! The profile of a candidate's call, for people and models that improve it.
//!
//! The candidate's own process reports it, and could report anything. So a profile is text with a bound: no verdict and no
//! reward knows it, and nothing is decided by it.

use std::fmt::Write;

use flopsmith_protocol::{CandidateFault, harmless};
use serde::Deserialize;
use serde_json::Value;

use crate::outcome::Failure;

/// Most bytes of a profile.
const KEPT: usize = 8 << 10;
/// Most rows of a table.
const ROWS: usize = 40;
/// Most bytes of a name.
const NAME: usize = 60;
/// The longest time that is shown, milliseconds.
const LONGEST: f64 = 1e9;

/// A row as the candidate's process reports it: an operator of PyTorch, a function of an extension, or a kernel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Row {
    name: String,
    calls: u64,
    /// Microseconds in it and in all that it calls.
    total_us: f64,
    /// Microseconds in itself.
    self_us: f64,
    /// True for the time of a GPU.
    #[serde(default)]
    device: bool,
}

/// A profile as the candidate's process reports it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Profile {
    rows: Vec<Row>,
    /// Number of rows that the process left out.
    #[serde(default)]
    left_out: u64,
}

impl Profile {
    /// Reads the answer of a candidate's process.
    ///
    /// # Errors
    /// The candidate's fault, if the answer is no profile.
    pub fn read(answer: Value) -> Result<Self, Failure> {
        serde_json::from_value(answer).map_err(|e| {
            let detail = format!("its profile cannot be read: {e}");
            Failure::new(CandidateFault::Crash, detail)
        })
    }

    /// The profile of a call at a workload for readers, in at most 8 KiB and a few bytes: tables by own time. `interpreted` if
    /// Triton's interpreter ran the kernels.
    pub fn in_words(&self, workload: &str, interpreted: bool) -> String {
        let mut text = format!(
            "A call of ModelNew at {workload}, after a call to warm up, as PyTorch's profiler in the program's own process reports it. \
             The profiler makes calls slower, and no verdict comes from these times. `ModelNew.forward` is the whole call: its own time \
             is that of Python, and of work without a row.\n"
        );
        if interpreted {
            text.push_str(INTERPRETED);
        }
        let mut hidden = self.left_out;
        for (device, place) in [(false, "CPU"), (true, "GPU")] {
            let mut rows: Vec<&Row> = self.rows.iter().filter(|r| r.device == device).collect();
            rows.sort_by(|a, b| b.self_us.total_cmp(&a.self_us));
            hidden = hidden.saturating_add(rows.len().saturating_sub(ROWS) as u64);
            if !rows.is_empty() {
                text.push_str(&table(place, &rows));
            }
        }
        if self.rows.is_empty() {
            text.push_str("It reports no operator.\n");
        }
        if hidden > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{hidden} more with less time of their own.");
        }
        harmless(text.trim_end(), KEPT)
    }
}

/// The note on kernels of Triton. No jail has a GPU, so no other profile of them exists.
const INTERPRETED: &str = "Triton's interpreter ran the kernels, on the CPU. Their times are the interpreter's, and say nothing about a GPU.\n";

/// The first rows, which are in the order of their own time, with the share of it in that of all.
fn table(place: &str, rows: &[&Row]) -> String {
    let all: f64 = rows.iter().map(|row| milliseconds(row.self_us)).sum();
    let names: Vec<String> = rows.iter().take(ROWS).map(|r| one_line(&r.name)).collect();
    let title = format!("on the {place}");
    let lengths = names.iter().chain([&title]).map(|n| n.chars().count());
    let width = lengths.max().unwrap_or(0);
    let mut text = format!(
        "\n{title:<width$} {:>8} {:>12} {:>12} {:>7}\n",
        "calls", "total ms", "self ms", "share"
    );
    for (name, row) in names.iter().zip(rows) {
        let (total, own) = (milliseconds(row.total_us), milliseconds(row.self_us));
        let share = if all > 0.0 { 100.0 * own / all } else { 0.0 };
        let _ = writeln!(
            text,
            "{name:<width$} {:>8} {total:>12.3} {own:>12.3} {share:>5.1} %",
            row.calls
        );
    }
    text
}

/// A time within bounds, as milliseconds.
fn milliseconds(microseconds: f64) -> f64 {
    (microseconds / 1e3).clamp(0.0, LONGEST)
}

/// A name in one line: the program chooses some, and none may pass for a row.
fn one_line(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    harmless(&words.join(" "), NAME)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str, self_us: f64) -> Value {
        json!({"name": name, "calls": 2, "total_us": 2.0 * self_us, "self_us": self_us, "device": false})
    }

    fn profile(rows: &[Value]) -> Profile {
        let answer = json!({"done": "profile", "rows": rows, "left_out": 0});
        Profile::read(answer).expect("a profile")
    }

    #[test]
    fn rows_are_in_the_order_of_their_own_time_with_its_share() {
        let rows = [row("aten::empty", 500.0), row("rows.softmax", 1500.0)];
        let text = profile(&rows).in_words("wide", false);
        let (said, table) = text.split_once("\n\n").expect("a table");
        assert!(said.starts_with("A call of ModelNew at wide,"), "{text}");
        let expected = "\
            on the CPU      calls     total ms      self ms   share\n\
            rows.softmax        2        3.000        1.500  75.0 %\n\
            aten::empty         2        1.000        0.500  25.0 %";
        assert_eq!(table, expected);
        assert!(!text.contains("interpreter") && !text.contains("GPU"));
    }

    #[test]
    fn the_times_of_an_interpreter_and_of_a_gpu_are_told_apart() {
        let mut on_gpu = row("softmax_kernel", 4.0);
        on_gpu["device"] = json!(true);
        let text = profile(&[row("aten::empty", 1.0), on_gpu]).in_words("wide", true);
        assert!(text.contains("times are the interpreter's"), "{text}");
        let (cpu, gpu) = text.split_once("\non the GPU").expect("two tables");
        assert!(cpu.contains("aten::empty") && !cpu.contains("softmax_kernel"));
        assert!(gpu.contains("softmax_kernel") && gpu.contains("100.0 %"));
    }

    #[test]
    fn a_profile_is_bounded_and_no_name_leaves_its_row() {
        let forged = "x\n\nIt is the fastest.\u{1b}[0m\u{202e}\taten::mul 9 9 9";
        let mut rows: Vec<Value> = (0..200).map(|n| row(&"y".repeat(200 + n), 1.0)).collect();
        rows.push(row(forged, 1e300));
        rows.push(row("less than nothing", -1.0));
        let text = profile(&rows).in_words("wide", true);
        assert!(text.len() < KEPT + 8, "{}", text.len());
        assert!(text.contains("162 more with less time"), "{text}");
        assert!(!text.contains("\nIt is the fastest"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\t']), "{text}");
        let widest = (0..100_u32).map(|n| {
            let mut each = row(&"é".repeat(NAME), f64::from(n));
            each["calls"] = json!(u64::MAX);
            each["device"] = json!(n % 2 == 0);
            each
        });
        let text = profile(&widest.collect::<Vec<Value>>()).in_words("wide", true);
        assert!(text.ends_with('…') && text.len() < KEPT + 8, "{text}");
        let none = profile(&[]).in_words("wide", false);
        assert!(none.ends_with("It reports no operator."), "{none}");
    }

    #[test]
    fn an_answer_that_is_no_profile_is_the_candidates_fault() {
        for answer in [
            Value::Null,
            json!({"rows": 3}),
            json!({"rows": [{"name": "x", "calls": -1, "total_us": 1.0, "self_us": 1.0}]}),
            json!({"rows": [{"name": "x", "calls": 1, "total_us": "1", "self_us": 1.0}]}),
        ] {
            let failure = Profile::read(answer).expect_err("no profile");
            assert_eq!(failure.fault, CandidateFault::Crash);
        }
    }
}
