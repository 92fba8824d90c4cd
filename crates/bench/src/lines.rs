//! Results for other programs: JSON objects and CSV rows.

use flopsmith_protocol::Measurement;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::rows::Row;
use crate::workloads;

/// A program as one object, without the attestation of its machine.
pub fn object(problem: &str, row: &Row) -> Value {
    let (outcome, reason, _) = row.said();
    let measurement = row.done.verdict.measurement();
    let clock = measurement.map(Clock::of);
    // Several workloads have their parameters each.
    let params = match row.sizes.as_slice() {
        [one] => Some(one),
        _ => None,
    };
    let mut object = json!({
        "file": row.file,
        "problem": problem,
        "size": row.size_words(),
        "params": params,
        "outcome": outcome,
        "reason": reason,
        "techniques": row.done.techniques,
        "vector_bits": row.done.vector_bits,
        "gflops": measurement.map(|m| m.gflops),
        "gb_per_second": row.gb_per_second(),
        "seconds_per_call": measurement.map(|m| m.seconds_per_call),
        "minimum_seconds": clock.and_then(|c| c.minimum),
        "median_seconds": clock.and_then(|c| c.median),
        "hand_shake_seconds": row.machine.as_ref().map(|_| row.resolution.hand_shake_seconds),
        "hidden_by_clock": row.is_hidden(),
        "ratio": measurement.map(|m| m.ratio),
        "interval": measurement.map(|m| m.interval),
        "reference_gflops": row.reference_gflops,
        "peak_gflops": row.peak_gflops,
        "openblas_gflops": row.openblas_gflops,
        "openblas_version": row.openblas_version,
        "blocks": measurement.map(|m| m.blocks),
        "calls": measurement.map(|m| m.calls),
        "rounds": measurement.map(|m| m.rounds),
        "outlying": measurement.map(|m| m.outlying),
        "mdape": measurement.map(|m| m.mdape),
        "log_ratio_se": measurement.map(|m| m.log_ratio_se),
        "share_of_peak": measurement.map(|m| m.share_of_peak),
        "roofline": row.place,
        "certificate": measurement.and_then(|m| m.certificate.clone()),
        "sizes": measurement.and_then(|m| m.sizes),
        "stop": measurement.map(|m| m.stop),
        "machine_busy": row.done.busy,
        "sanitizers": row.done.checked.as_ref().map(|c| json!({ "by": c.by, "left_out": c.left_out })),
        "diagnostics": row.detail_for_people(),
        "attestation_digest": row.machine.as_ref().map(|machine| &machine.digest),
        "attestation": null,
    });
    add_rate(&mut object, row);
    object["roof"] = json!(row.roof());
    object["workloads"] = json!(workloads::objects(row));
    let worst = measurement.and_then(Measurement::worst);
    object["worst_workload"] = json!(worst.map(|workload| &workload.name));
    object
}

/// Adds the speed in the unit of what binds, and its share of the roof.
pub fn add_rate(object: &mut Value, row: &Row) {
    object["rate"] = json!(row.rate());
    object["rate_unit"] = json!(row.rate().map(|_| row.unit().to_string()));
    object["share_of_roof"] = json!(row.share_of_roof());
}

/// Like [`object`], with the fields that only a comparison of several programs has. `against` says whether there is a
/// program that all are compared with.
pub fn object_of_several(problem: &str, row: &Row, against: bool) -> Value {
    let mut object = object(problem, row);
    object["threads"] = json!(row.threads);
    object["rank"] = json!(row.rank);
    object["group"] = json!(row.group);
    if against {
        object["against"] = json!(row.against);
        object["ratio_to_against"] = json!(row.to_against.map(|c| c.ratio));
        object["interval_to_against"] = json!(row.to_against.map(|c| c.interval));
    }
    object
}

/// Adds the fields that only a comparison with a saved result has.
pub fn add_saved(object: &mut Value, row: &Row) {
    let to_saved = row.to_saved.as_ref();
    object["ratio_to_saved"] = json!(to_saved.map(|s| s.compared.ratio));
    object["interval_to_saved"] = json!(to_saved.map(|s| s.compared.interval));
    object["change_since_saved"] = json!(to_saved.map(|s| s.change.name()));
}

/// The columns of a row. A column without a value stays empty.
const COLUMNS: [&str; 55] = [
    "file",
    "problem",
    "threads",
    "outcome",
    "reason",
    "gflops",
    "ratio",
    "ratio_low",
    "ratio_high",
    "share_of_peak",
    "group",
    "techniques",
    "vector_bits",
    "blocks",
    "calls",
    "stop",
    "ratio_to_against",
    "ratio_to_against_low",
    "ratio_to_against_high",
    "diagnostics",
    "attestation",
    "roof_gflops",
    "share_of_roof",
    "bound",
    "against",
    "rounds",
    "outlying",
    "mdape",
    "log_ratio_se",
    "cold_ratio",
    "cold_ratio_low",
    "cold_ratio_high",
    "machine_busy",
    "cold_stop",
    "reference_gflops",
    "peak_gflops",
    "openblas_gflops",
    "rank",
    "gb_per_second",
    "seconds_per_call",
    "median_seconds",
    "hand_shake_seconds",
    "hidden_by_clock",
    "worst_workload",
    "worst_ratio",
    "size",
    "minimum_seconds",
    "rate",
    "rate_unit",
    "roof",
    "ratio_to_saved",
    "ratio_to_saved_low",
    "ratio_to_saved_high",
    "change_since_saved",
    "openblas_version",
];

/// The names of the columns.
pub fn csv_header() -> String {
    line(COLUMNS)
}

/// A program as one row.
pub fn csv(problem: &str, row: &Row) -> String {
    let (outcome, reason, _) = row.said();
    let measurement = row.done.verdict.measurement();
    let clock = measurement.map(Clock::of);
    let to_against = row.to_against;
    let to_saved = row.to_saved.as_ref();
    let place = row.place.as_ref();
    let certificate = measurement.and_then(|m| m.certificate.as_ref());
    let cold = certificate.and_then(|c| c.cold_interval);
    let worst = measurement.and_then(Measurement::worst);
    let cells: [Option<String>; COLUMNS.len()] = [
        Some(row.file.clone()),
        Some(problem.to_owned()),
        Some(row.threads.to_string()),
        Some(outcome.to_owned()),
        reason.map(str::to_owned),
        measurement.map(|m| m.gflops.to_string()),
        measurement.map(|m| m.ratio.to_string()),
        measurement.map(|m| m.interval.low.to_string()),
        measurement.map(|m| m.interval.high.to_string()),
        measurement.map(|m| m.share_of_peak.to_string()),
        row.group.clone(),
        row.done.techniques.map(|t| t.words()),
        row.done.vector_bits.map(|b| b.to_string()),
        measurement.map(|m| m.blocks.to_string()),
        measurement.map(|m| m.calls.to_string()),
        measurement.map(|m| m.stop.to_string()),
        to_against.map(|c| c.ratio.to_string()),
        to_against.map(|c| c.interval.low.to_string()),
        to_against.map(|c| c.interval.high.to_string()),
        Some(row.detail_for_people()),
        measurement.map(|m| m.attestation.to_string()),
        place.map(|p| p.roof_gflops.to_string()),
        place.map(|p| p.share.to_string()),
        place.map(|p| p.bound.to_string()),
        row.against.then(|| "true".to_owned()),
        measurement.map(|m| m.rounds.to_string()),
        measurement.map(|m| m.outlying.to_string()),
        measurement.map(|m| m.mdape.to_string()),
        measurement.map(|m| m.log_ratio_se.to_string()),
        certificate
            .and_then(|c| c.cold_ratio)
            .map(|ratio| ratio.to_string()),
        cold.map(|interval| interval.low.to_string()),
        cold.map(|interval| interval.high.to_string()),
        row.done.busy.clone(),
        certificate
            .and_then(|c| c.cold_stop)
            .map(|stop| stop.to_string()),
        row.reference_gflops.map(|gflops| gflops.to_string()),
        row.peak_gflops.map(|gflops| gflops.to_string()),
        row.openblas_gflops.map(|gflops| gflops.to_string()),
        row.rank.map(|rank| rank.to_string()),
        row.gb_per_second().map(|gb| gb.to_string()),
        measurement.map(|m| m.seconds_per_call.to_string()),
        clock.and_then(|c| c.median).map(|s| s.to_string()),
        measurement.map(|_| row.resolution.hand_shake_seconds.to_string()),
        row.is_hidden().then(|| "true".to_owned()),
        worst.map(|w| w.name.clone()),
        worst.map(|w| w.ratio.to_string()),
        Some(row.size_words()),
        clock.and_then(|c| c.minimum).map(|s| s.to_string()),
        row.rate().map(|rate| rate.to_string()),
        row.rate().map(|_| row.unit().to_string()),
        row.roof().map(|roof| roof.to_string()),
        to_saved.map(|s| s.compared.ratio.to_string()),
        to_saved.map(|s| s.compared.interval.low.to_string()),
        to_saved.map(|s| s.compared.interval.high.to_string()),
        to_saved.map(|s| s.change.name().to_owned()),
        row.openblas_version.clone(),
    ];
    line(cells.map(Option::unwrap_or_default))
}

/// A row of cells, without an end of line.
fn line(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells).expect("memory takes every row");
    let bytes = writer.into_inner().expect("memory takes every row");
    let mut line = String::from_utf8_lossy(&bytes).into_owned();
    line.truncate(line.trim_end_matches('\n').len());
    line
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_measure::ranking::LogRatio;
    use flopsmith_protocol::{CandidateFault, InfrastructureCause, UnknownCause, Verdict};
    use proptest::prelude::*;

    use super::*;
    use crate::compare::tests::slower;
    use crate::rows::tests::{by_memory, certify, fast, row, unsure};
    use crate::stream::tests::all_lines;
    use crate::workloads::tests::over_two;

    /// The cells of a row.
    fn cells(line: &str) -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).from_reader(line.as_bytes());
        let record = reader.records().next().unwrap().unwrap();
        record.iter().map(str::to_owned).collect()
    }

    fn cell(line: &str, column: &str) -> String {
        let place = COLUMNS.iter().position(|c| *c == column).unwrap();
        cells(line)[place].clone()
    }

    #[test]
    fn a_row_has_a_cell_for_each_column_of_the_header() {
        let mut measured = fast("a, b.c", 2, 40.5);
        measured.group = Some("ab".into());
        let line = csv("dgemm", &measured);
        assert_eq!(cells(&line).len(), cells(&csv_header()).len());
        assert_eq!(cell(&line, "file"), "a, b.c");
        assert_eq!(cell(&line, "threads"), "2");
        assert_eq!(cell(&line, "gflops"), "40.5");
        assert_eq!(cell(&line, "group"), "ab");
        assert_eq!(cell(&line, "techniques"), "unroll+simd");
        assert_eq!(cell(&line, "ratio_to_against"), "");
        assert_eq!(cell(&line, "bound"), "");
        assert_eq!(cell(&line, "against"), "");
        assert_eq!(cell(&line, "reference_gflops"), "1");
        assert_eq!(cell(&line, "peak_gflops"), "50");
        assert_eq!(cell(&line, "openblas_gflops"), "");
        measured.openblas_gflops = Some(45.5);
        measured.openblas_version = Some("0.3.34".into());
        assert_eq!(cell(&csv("dgemm", &measured), "openblas_version"), "0.3.34");
        assert_eq!(object("dgemm", &measured)["openblas_version"], "0.3.34");
        assert_eq!(cell(&csv("dgemm", &measured), "openblas_gflops"), "45.5");
        assert_eq!(object("dgemm", &measured)["openblas_gflops"], 45.5);
        assert_eq!(object("dgemm", &measured)["reference_gflops"], 1.0);
        measured.place = Some(by_memory());
        measured.against = true;
        let line = csv("dgemm", &measured);
        assert_eq!(cell(&line, "roof_gflops"), "2.5");
        assert_eq!(cell(&line, "share_of_roof"), "0.5");
        assert_eq!(cell(&line, "bound"), "memory");
        assert_eq!(cell(&line, "against"), "true");
        assert_eq!(cell(&line, "size"), "n = 8");
        assert_eq!(cell(&line, "rate"), "5.0625");
        assert_eq!(cell(&line, "rate_unit"), "GB/s");
        assert_eq!(cell(&line, "roof"), "0.3125");
        assert_eq!(cell(&line, "change_since_saved"), "");
        measured.to_saved = Some(slower());
        let line = csv("dgemm", &measured);
        assert_eq!(cell(&line, "ratio_to_saved"), "0.5");
        assert_eq!(cell(&line, "change_since_saved"), "slower");
        for (column, expected) in [
            ("outcome", "measured"),
            ("rounds", "12"),
            ("outlying", "0"),
            ("mdape", "0.01"),
            ("log_ratio_se", "0.002"),
            ("cold_ratio", ""),
        ] {
            assert_eq!(cell(&line, column), expected, "{column}");
        }
        let mut cold = fast("c.c", 1, 40.5);
        certify(&mut cold, Some(12.5));
        let line = csv("dgemm", &cold);
        assert_eq!(cell(&line, "cold_ratio"), "12.5");
        assert_eq!(cell(&line, "cold_ratio_low"), "12");
        assert_eq!(cell(&line, "cold_ratio_high"), "13");
        assert_eq!(cell(&line, "cold_stop"), "precise");
        assert_eq!(
            object("dgemm", &cold)["certificate"]["cold_stop"],
            "precise"
        );
        assert_eq!(cell(&line, "machine_busy"), "");
        assert_eq!(object("dgemm", &cold)["machine_busy"], Value::Null);
        assert_eq!(cell(&line, "worst_workload"), "");
        let several = over_two("c.c");
        let line = csv("dgemm", &several);
        assert_eq!(cell(&line, "worst_workload"), "n=8");
        assert_eq!(cell(&line, "worst_ratio"), "20");
        let told = object("dgemm", &several);
        assert_eq!(told["worst_workload"], "n=8");
        assert_eq!(told["workloads"][1]["name"], "n=16");
        cold.done.busy = Some("core 1 is used 40 % by others".into());
        let line = csv("dgemm", &cold);
        assert_eq!(cell(&line, "machine_busy"), "core 1 is used 40 % by others");
        let busy = &object("dgemm", &cold)["machine_busy"];
        assert_eq!(busy, "core 1 is used 40 % by others");
        let line = csv("dgemm", &unsure("u.c", 40.5));
        assert_eq!(cell(&line, "outcome"), "unconverged");
        assert_eq!(cell(&line, "stop"), "unconverged");
        let detail = "line 3: `;` is missing,\nsays \"gcc\"";
        let refused = row(
            "b.c",
            1,
            Verdict::Rejected {
                fault: CandidateFault::CompileError,
                detail: detail.into(),
            },
        );
        let line = csv("dgemm", &refused);
        assert_eq!(cells(&line).len(), COLUMNS.len());
        assert_eq!(cell(&line, "reason"), "compile_error");
        assert_eq!(cell(&line, "gflops"), "");
        assert_eq!(cell(&line, "diagnostics"), detail);
    }

    #[test]
    fn an_object_of_several_has_what_one_has_and_its_group() {
        let mut row = fast("a.c", 1, 40.0);
        row.group = Some("a".into());
        let one = object("dgemm", &row);
        let several = object_of_several("dgemm", &row, false);
        for (key, value) in one.as_object().unwrap() {
            assert_eq!(&several[key.as_str()], value);
        }
        assert_eq!(several["group"], "a");
        assert_eq!(one["size"], "n = 8");
        assert_eq!(one["params"], json!({ "n": 8 }));
        assert_eq!(
            json!([one["rate"], one["rate_unit"]]),
            json!([40.0, "GFLOPS"])
        );
        assert!(one["minimum_seconds"].as_f64() < one["median_seconds"].as_f64());
        assert_eq!(one["rounds"], 12);
        assert_eq!(one["outlying"], 0);
        assert_eq!(one["mdape"], 0.01);
        assert_eq!(one["log_ratio_se"], 0.002);
        assert_eq!(one["roofline"], Value::Null);
        row.place = Some(by_memory());
        let placed = object("dgemm", &row);
        assert_eq!(placed["roofline"]["intensity"], 0.125);
        assert_eq!(placed["roofline"]["bound"], "memory");
        assert_eq!(placed["roofline"]["cached_in"], "L3");
        assert_eq!(placed["rate_unit"], "GB/s");
        let numbers = ["rate", "roof", "share_of_roof"].map(|key| placed[key].as_f64());
        assert_eq!(numbers, [Some(5.0), Some(0.3125), Some(0.5)]);
        assert_eq!(several.get("ratio_to_against"), None);
        let twice = LogRatio {
            value: 0.0,
            se: 0.01,
        };
        row.to_against = Some(twice.over(twice));
        let compared = object_of_several("dgemm", &row, true);
        assert_eq!(compared["ratio_to_against"], 1.0);
        assert_eq!(compared["against"], false);
        assert!(compared["interval_to_against"]["low"].as_f64().unwrap() < 1.0);
    }

    #[test]
    fn the_manual_names_every_field_column_and_reason() {
        let manual = include_str!("../../../docs/reference/bench.md");
        let mut row = fast("a.c", 1, 40.0);
        certify(&mut row, Some(12.5));
        row.place = Some(by_memory());
        row.to_against = row.own.map(|own| own.over(own));
        row.to_saved = Some(slower());
        let mut object = object_of_several("dgemm", &row, true);
        add_saved(&mut object, &row);
        assert_eq!(object["change_since_saved"], "slower");
        let inner = ["certificate", "roofline", "sizes"].map(|name| object[name].clone());
        let keys = std::iter::once(&object).chain(&inner);
        let several = super::object("dgemm", &over_two("a.c"));
        let keys = keys.chain(several["workloads"].as_array().unwrap());
        let keys = keys.flat_map(|o| o.as_object().unwrap().keys().cloned());
        let watched = ["change", "interval_of_change"].map(str::to_owned);
        let streamed = all_lines();
        let fields = |object: &Value| -> Vec<String> {
            object.as_object().unwrap().keys().cloned().collect()
        };
        let streamed = streamed.iter().flat_map(|line| {
            let machine = fields(line.pointer("/machines/0").unwrap_or(line));
            let rank = fields(line.pointer("/ranks/0").unwrap_or(line));
            let lead = fields(line.pointer("/leads/0").unwrap_or(line));
            [fields(line), machine, rank, lead].concat()
        });
        let columns = COLUMNS.map(str::to_owned).into_iter().chain(watched);
        let columns = columns.chain(streamed);
        let reasons = CandidateFault::ALL.iter().map(|f| f.name());
        let reasons = reasons.chain(InfrastructureCause::ALL.iter().map(|c| c.name()));
        let reasons = reasons.chain(UnknownCause::ALL.iter().map(|c| c.name()));
        let names = keys.chain(columns).chain(reasons.map(str::to_owned));
        let missing: Vec<String> = names
            .filter(|name| !manual.contains(&format!("`{name}`")))
            .collect();
        assert_eq!(missing, Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn a_row_is_one_line_and_is_read_as_it_was(texts in prop::collection::vec("[a\",\n\r -~]{0,8}", 1..5)) {
            let line = line(&texts);
            prop_assert!(!line.ends_with(['\n', '\r']), "{:?}", line);
            prop_assert_eq!(cells(&line), texts);
        }
    }
}
