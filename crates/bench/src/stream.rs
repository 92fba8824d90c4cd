//! Results as JSON: one object for each program, or lines that are printed while programs are measured.
//!
//! An attestation has some kilobytes and is the same for all programs. It is printed once: in the first line of a
//! stream, or in the first object of each number of threads. All other lines refer to it by its digest.

use std::cell::RefCell;
use std::collections::BTreeSet;

use flopsmith_measure::{METHOD, Purpose};
use flopsmith_problem::Problem;
use flopsmith_run::exit;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::crossover::Lead;
use crate::rows::Row;
use crate::stages::ReferenceSpeeds;
use crate::{Order, lines};

/// The version of the format. It changes when a line loses a field, or a field changes its meaning.
const VERSION: u32 = 1;

/// The JSON output of one comparison.
pub struct Stream {
    problem: String,
    size: String,
    /// Names of the workloads.
    workloads: Vec<String>,
    purpose: Purpose,
    /// True if results are compared with a saved one.
    saved: bool,
    /// Digests of the attestations that were printed.
    told: RefCell<BTreeSet<String>>,
}

/// The end of a comparison.
pub struct End {
    /// Programs that were named, whether or not there was time for all of them.
    pub programs: usize,
    /// True if the comparison was stopped before its end.
    pub interrupted: bool,
    /// The exit code of the measured programs.
    pub code: u8,
}

impl Stream {
    /// A stream of which nothing is printed yet.
    pub fn new(order: &Order, problem: &Problem) -> Self {
        Self {
            problem: order.problem_name.to_owned(),
            size: problem.timed_size(),
            workloads: problem
                .workloads
                .iter()
                .map(|workload| workload.name.clone())
                .collect(),
            purpose: order.purpose,
            saved: order.compare.is_some(),
            told: RefCell::default(),
        }
    }

    /// A program as one object, with the attestation if it was not printed before. `against` is given for several
    /// programs, and says whether there is one that all are compared with.
    pub fn object(&self, row: &Row, against: Option<bool>) -> Value {
        let mut object = match against {
            Some(against) => lines::object_of_several(&self.problem, row, against),
            None => lines::object(&self.problem, row),
        };
        if self.saved {
            lines::add_saved(&mut object, row);
        }
        if let Some(machine) = &row.machine
            && self.told.borrow_mut().insert(machine.digest.to_string())
        {
            object["attestation"] = machine.attestation.clone();
        }
        object
    }

    /// The first line of a stream: the problem, the machines, and the speeds that results refer to.
    pub fn begin(&self, speeds: &[ReferenceSpeeds]) -> Value {
        let machines: Vec<Value> = speeds
            .iter()
            .map(|of| {
                json!({
                    "threads": of.threads,
                    "attestation_digest": of.machine.digest,
                    "attestation": of.machine.attestation,
                    "peak_gflops": of.peak_gflops,
                    "reference_gflops": of.reference_gflops,
                    "openblas_gflops": of.openblas.as_ref().map(|best| best.gflops),
                    "openblas_version": of.openblas.as_ref().and_then(|best| best.version.as_deref()),
                    "hand_shake_seconds": of.hand_shake_seconds,
                })
            })
            .collect();
        json!({
            "type": "run",
            "version": VERSION,
            "flopsmith": env!("CARGO_PKG_VERSION"),
            "method": METHOD,
            "problem": self.problem,
            "size": self.size,
            "workloads": self.workloads,
            "purpose": self.purpose,
            "machines": machines,
        })
    }

    /// The line of a program that is done. It has neither rank nor comparison with a saved result, which are known only
    /// when all programs are done.
    pub fn row(&self, row: &Row, against: bool) -> Value {
        let mut line = lines::object_of_several(&self.problem, row, against);
        if let Some(fields) = line.as_object_mut() {
            for later in ["attestation", "rank", "group"] {
                fields.remove(later);
            }
        }
        line["type"] = json!("row");
        line
    }

    /// The last line: `rows` in their order, with the final numbers of all measurements.
    pub fn end(&self, rows: &[Row], end: &End) -> Value {
        let ranks: Vec<Value> = rows
            .iter()
            .map(|row| {
                let measurement = row.done.verdict.measurement();
                let clock = measurement.map(Clock::of);
                let mut rank = json!({
                    "file": row.file,
                    "threads": row.threads,
                    "against": row.against,
                    "outcome": row.said().0,
                    "rank": row.rank,
                    "group": row.group,
                    "gflops": measurement.map(|m| m.gflops),
                    "seconds_per_call": measurement.map(|m| m.seconds_per_call),
                    "minimum_seconds": clock.and_then(|c| c.minimum),
                    "median_seconds": clock.and_then(|c| c.median),
                    "mdape": measurement.map(|m| m.mdape),
                    "ratio": measurement.map(|m| m.ratio),
                    "interval": measurement.map(|m| m.interval),
                    "log_ratio_se": measurement.map(|m| m.log_ratio_se),
                    "reference_gflops": row.reference_gflops,
                    "hidden_by_clock": row.is_hidden(),
                });
                lines::add_rate(&mut rank, row);
                if self.saved {
                    lines::add_saved(&mut rank, row);
                }
                rank
            })
            .collect();
        let counted = |outcomes: &[&str]| {
            let rows = rows.iter().filter(|row| outcomes.contains(&row.said().0));
            rows.count()
        };
        let code = if end.interrupted {
            exit::INTERRUPTED
        } else {
            end.code
        };
        json!({
            "type": "summary",
            "size": self.size,
            "programs": end.programs,
            "measured": counted(&["measured"]),
            "unconverged": counted(&["unconverged"]),
            "rejected": counted(&["rejected"]),
            "failed": counted(&["infrastructure", "unknown"]),
            "interrupted": end.interrupted,
            "exit_code": code,
            "ranks": ranks,
        })
    }
}

/// The line after the summaries of all sizes: the fastest programs by size.
pub fn crossover(leads: &[Lead]) -> Value {
    let leads: Vec<Value> = leads
        .iter()
        .map(|lead| {
            json!({
                "threads": lead.threads,
                "from": lead.from,
                "to": lead.to,
                "fastest": lead.fastest,
                "ahead_low": lead.ahead.map(|ahead| ahead.0),
                "ahead_high": lead.ahead.map(|ahead| ahead.1),
            })
        })
        .collect();
    json!({ "type": "crossover", "leads": leads })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use flopsmith_test_support::wrong;

    use super::*;
    use crate::rows::arrange;
    use crate::rows::tests::{fast, row, unmeasured, unsure};

    /// A stream of one problem and workload.
    pub fn stream() -> Stream {
        Stream {
            problem: "dgemm".into(),
            size: "n = 8".into(),
            workloads: vec!["n=8".into()],
            purpose: Purpose::Rank,
            saved: false,
            told: RefCell::default(),
        }
    }

    /// A line of each kind.
    pub fn all_lines() -> [Value; 4] {
        let row = fast("a.c", 1, 40.0);
        let speeds = ReferenceSpeeds {
            threads: 1,
            machine: row.machine.clone().unwrap(),
            peak_gflops: 50.0,
            reference_gflops: 1.0,
            openblas: None,
            hand_shake_seconds: 4e-7,
        };
        let end = End {
            programs: 1,
            interrupted: false,
            code: 0,
        };
        let stream = stream();
        [
            stream.begin(&[speeds]),
            stream.row(&row, false),
            stream.end(&[row], &end),
            crossover(&[Lead {
                threads: 1,
                from: "n = 8".into(),
                to: "n = 64".into(),
                fastest: vec!["a.c".into()],
                ahead: Some((1.1, 1.2)),
            }]),
        ]
    }

    #[test]
    fn an_attestation_is_told_once_and_referred_to_by_its_digest() {
        let stream = stream();
        let rows = [fast("a.c", 1, 40.0), fast("b.c", 1, 41.0)];
        let [first, second] = [0, 1].map(|n| stream.object(&rows[n], Some(false)));
        assert_eq!(first["attestation"]["cpu_model"], "m");
        assert_eq!(second["attestation"], Value::Null);
        assert_eq!(first["attestation_digest"], second["attestation_digest"]);
        let digest = rows[0].machine.as_ref().unwrap().digest.to_string();
        assert_eq!(first["attestation_digest"], digest);

        let [run, row, ..] = all_lines();
        assert_eq!(run["type"], "run");
        assert_eq!(run["machines"][0]["attestation"]["cpu_model"], "m");
        let digest = &run["machines"][0]["attestation_digest"];
        assert_eq!(&row["attestation_digest"], digest);
        assert!(row.get("attestation").is_none() && row.get("rank").is_none());
        assert!(row.to_string().len() < 2000, "{row}");
    }

    #[test]
    fn a_program_that_was_refused_before_a_machine_was_measured_has_none() {
        let stream = stream();
        let object = stream.object(&unmeasured("w.c"), None);
        assert_eq!(object["reason"], "wrong_result");
        for key in [
            "attestation",
            "attestation_digest",
            "reference_gflops",
            "peak_gflops",
            "hand_shake_seconds",
        ] {
            assert_eq!(object.get(key), Some(&Value::Null), "{key} in {object}");
        }
        // The first one that has a machine tells it.
        let object = stream.object(&fast("a.c", 1, 40.0), None);
        assert_eq!(object["attestation"]["cpu_model"], "m");
        assert_eq!(stream.begin(&[])["machines"], json!([]));
    }

    #[test]
    fn the_last_line_has_the_places() {
        let mut rows = [
            fast("slow.c", 1, 8.0),
            row("w.c", 1, wrong()),
            unsure("wild.c", 90.0),
            fast("a.c", 1, 40.0),
        ];
        arrange(&mut rows, 1);
        let end = End {
            programs: 5,
            interrupted: true,
            code: 1,
        };
        let line = stream().end(&rows, &end);
        let of = |key: &str| -> Vec<Value> {
            let ranks = line["ranks"].as_array().unwrap().iter();
            ranks.map(|rank| rank[key].clone()).collect()
        };
        assert_eq!(json!(of("file")), json!(["a.c", "slow.c", "wild.c", "w.c"]));
        assert_eq!(json!(of("rank")), json!([1, 2, null, null]));
        assert_eq!(json!(of("group")), json!(["a", "b", null, null]));
        assert_eq!(line["exit_code"], 130);
        assert_eq!(
            (&line["measured"], &line["unconverged"]),
            (&json!(2), &json!(1))
        );
        assert_eq!((&line["rejected"], &line["failed"]), (&json!(1), &json!(0)));
    }
}
