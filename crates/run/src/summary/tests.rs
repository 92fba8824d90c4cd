#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;

use flopsmith_protocol::{ArtifactRef, InfrastructureCause, PolicyVersion, StepMetrics};
use flopsmith_test_support::{
    ATTESTED, Measured, again, first, infrastructure, machine, measured, rejected, run_id, unknown,
    wrong,
};

use super::*;

fn certified(outcome: &Outcome, gflops: f64) -> Certified {
    Certified {
        candidate: outcome.candidate.id.clone(),
        measurement: Measurement {
            attestation: Digest::of(b"after the end"),
            sizes: Some(VerifiedSizes::of(97, 400, 90)),
            ..Measured::at(gflops).measurement()
        },
        record: Some(format!("certified/{}.json", outcome.candidate.id)),
        machine_busy: None,
    }
}

#[test]
fn finalists_are_different_programs_and_those_measured_again_come_first() {
    let (a, b) = (
        first(0, "a", "simd", measured(40.0)),
        first(1, "b", "simd", measured(45.0)),
    );
    let outcomes = [
        again(&a, measured(38.0)),
        again(&b, measured(37.0)),
        a,
        b,
        first(2, "lucky", "unroll", measured(90.0)),
        first(3, "lucky", "unroll", measured(80.0)),
        first(4, "slow", "unroll", measured(1.0)),
        first(5, "wrong", "unroll", wrong()),
    ];
    let sources = |count| -> Vec<&str> {
        finalists(&outcomes, count)
            .into_iter()
            .map(|o| o.source.as_str())
            .collect()
    };
    assert_eq!(sources(3), ["a", "b", "lucky"]);
    assert_eq!(sources(9), ["a", "b", "lucky", "slow"]);
    assert!(sources(0).is_empty());
    // A finalist is named by its second measurement, not by the first one that made it stand out.
    assert_eq!(
        finalists(&outcomes, 1)[0].candidate.purpose,
        Purpose::Certify
    );
}

#[test]
fn the_best_is_one_measured_after_the_end() {
    let (a, b) = (
        first(0, "a", "simd", measured(40.0)),
        first(1, "b", "unroll", measured(35.0)),
    );
    let last = [certified(&a, 30.0), certified(&b, 33.0)];
    let outcomes = [again(&a, measured(39.0)), a, b];
    let best = best(&outcomes, &last, &[]).unwrap();
    assert_eq!((best.source.as_str(), best.gflops), ("b", 33.0));
    assert_eq!(best.techniques, "unroll".parse::<TechniqueSet>().unwrap());
    assert_eq!(best.vector_bits, Some(256));
    assert!(best.measured_again);
    // The displays of the running run named another program.
    let before = BestSoFar {
        gflops: 39.0,
        certainty: Certainty::Again,
    };
    assert_eq!(best.during_run, Some(before));
    assert_eq!(best.attestation, Digest::of(b"after the end"));
    assert_eq!(best.samples, last[1].record);
    assert_eq!(best.sizes, last[1].measurement.sizes);
}

#[test]
fn else_the_best_is_one_whose_measurement_was_repeated() {
    let a = first(0, "a", "simd", measured(40.0));
    let mut twice = again(&a, measured(36.0));
    let artifact = ArtifactRef {
        digest: Digest::of(b"samples"),
        size: 7,
    };
    if let Verdict::Measured { measurement } = &mut twice.verdict {
        measurement.samples = Some(artifact.clone());
    }
    let lucky = first(1, "lucky", "simd", measured(90.0));
    // A measurement after the end without its outcome does not count.
    let stray = certified(&first(9, "stray", "simd", measured(1.0)), 99.0);
    let best = best(&[twice, a, lucky], &[stray], &[]).unwrap();
    assert_eq!((best.source.as_str(), best.gflops), ("a", 36.0));
    assert!(best.measured_again && best.during_run.is_none());
    assert_eq!(best.samples, Some(artifact.digest.to_string()));
}

#[test]
fn else_the_best_is_the_fastest_and_says_that_it_was_measured_once() {
    let outcomes = [
        first(0, "a", "simd", measured(40.0)),
        first(1, "b", "simd", measured(50.0)),
        first(2, "wrong", "simd", wrong()),
    ];
    let found = best(&outcomes, &[], &[]).unwrap();
    assert_eq!((found.source.as_str(), found.gflops), ("b", 50.0));
    assert!(!found.measured_again);
    assert_eq!(best(&outcomes[2..], &[], &[]), None);
}

#[test]
fn a_second_measurement_that_did_not_converge_makes_no_best() {
    let a = first(0, "a", "simd", measured(40.0));
    let unsure = Measured::at(90.0).se(0.2).unconverged().verdict();
    let outcomes = [again(&a, unsure), a, first(1, "b", "simd", measured(30.0))];
    let found = best(&outcomes, &[], &[]).unwrap();
    assert_eq!((found.source.as_str(), found.gflops), ("a", 40.0));
    assert!(!found.measured_again);
    let named: Vec<&str> = finalists(&outcomes, 2)
        .iter()
        .map(|o| o.source.as_str())
        .collect();
    assert_eq!(named, ["a", "b"]);
}

#[test]
fn a_program_in_which_sanitizers_found_something_counts_nowhere() {
    let fast = first(0, "fast", "simd", measured(90.0));
    let found = rejected(CandidateFault::UndefinedBehaviour);
    let outcomes = [
        again(&fast, found),
        fast,
        first(1, "a", "simd", measured(40.0)),
    ];
    assert_eq!(finalists(&outcomes, 9).len(), 1);
    assert_eq!(best(&outcomes, &[], &[]).unwrap().source, "a");
}

#[test]
fn a_program_that_was_refused_after_the_end_is_not_the_best_again() {
    let a = first(0, "a", "simd", measured(40.0));
    let twice = again(&a, measured(39.0));
    let refused = [twice.candidate.id.clone()];
    // The same program from another sample is no better.
    let outcomes = [
        twice,
        a,
        first(1, "a", "simd", measured(41.0)),
        first(2, "b", "simd", measured(10.0)),
    ];
    let found = best(&outcomes, &[], &refused).unwrap();
    assert_eq!((found.source.as_str(), found.gflops), ("b", 10.0));
    assert_eq!(best(&outcomes[..3], &[], &refused), None);
}

#[test]
fn coverage_is_what_was_measured_twice_and_the_peak_is_that_of_the_bests_own_session() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: Vec<serde_json::Value>| {
        let mut file = std::fs::File::create(folder.path().join(name)).unwrap();
        for line in lines {
            writeln!(file, "{line}").unwrap();
        }
    };
    let a = first(0, "a", "simd", measured(40.0));
    let outcomes = [
        again(&a, measured(39.0)),
        a,
        first(1, "b", "unroll", measured(20.0)),
        first(2, "c", "packing", wrong()),
    ];
    write(
        files::OUTCOMES,
        outcomes
            .iter()
            .map(|o| serde_json::to_value(o).unwrap())
            .collect(),
    );
    let sum = || summarise("r", folder.path(), &Facts::default()).unwrap();
    assert_eq!(sum().peak_gflops, None);
    // The peak of each session is its own, and everything was measured in the first.
    let before = machine(ATTESTED);
    let after = MachineFacts {
        peak_gflops: 80.0,
        ..machine("second session")
    };
    write(
        files::MACHINES,
        [&before, &after]
            .map(|m| serde_json::to_value(m).unwrap())
            .to_vec(),
    );
    let summary = sum();
    assert_eq!((summary.coverage, summary.coverage_unconfirmed), (1, 1));
    assert_eq!(summary.peak_gflops, Some(50.0));
    assert_eq!(machines(folder.path()).unwrap(), [before, after]);
}

#[test]
fn the_best_stands_under_the_roofs_of_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let a = first(0, "a", "simd", measured(40.0));
    let line = serde_json::to_string(&a).unwrap() + "\n";
    std::fs::write(folder.path().join(files::OUTCOMES), line).unwrap();
    let attested = serde_json::json!({
        "threads": 1,
        "peak": {"gflops": 50.0, "bandwidth_gb_s": 10.0, "vector_bits": 512, "threads": 1},
        "roofs": {
            "compute": [{"vector_bits": 512, "threads": 1, "gflops": 50.0}],
            "integer": [],
            "bandwidth": [
                {"level": "memory", "threads": 1, "gb_s": 10.0, "buffer_bytes": 65536, "holds_bytes": null},
            ],
        },
    });
    let machine = serde_json::to_string(&machine(&attested.to_string())).unwrap() + "\n";
    std::fs::write(folder.path().join(files::MACHINES), machine).unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    let sum = |problem: &str| {
        let facts = Facts {
            problem: problem.to_owned(),
            workloads: vec!["n=256".to_owned()],
            corpus_best_gflops: Some(20.0),
            ..Facts::default()
        };
        summarise("r", folder.path(), &facts).unwrap()
    };
    let summary = sum(root.to_str().unwrap());
    let said = summary.table().join("\n");
    assert!(
        said.contains("\n  80.0 % of the roof (compute, 512 bit)\n"),
        "{said}"
    );
    // Not all of the corpus was tried.
    let held_against = "2.00× the fastest program tried of the starter's corpus (20.00 GFLOPS)";
    assert!(said.contains(held_against), "{said}");
    assert!(!said.contains("flatters"), "{said}");
    // Not every machine has the vectors of that program.
    let narrow = serde_json::json!({"peak": {"vector_bits": 256}}).to_string();
    let record = serde_json::json!({
        "source": "typedef double V __attribute__((vector_size(64)));",
        "attestation_json": narrow,
    });
    crate::record::keep(folder.path(), "corpus_best", record.to_string().as_bytes()).unwrap();
    let flattered = sum(root.to_str().unwrap()).table().join("\n");
    let words = "\n  That program was written for vectors of 512 bits and this machine has 256, so the comparison flatters the run.\n";
    assert!(flattered.contains(words), "{flattered}");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["roofline"]["bound"], "compute");
    assert_eq!(json["roof_vector_bits"], 512);
    // Without its problem the place is unknown.
    let gone = sum("no such problem");
    assert_eq!(gone.roofline, None);
    assert!(!gone.table().join("\n").contains("of the roof"));
}

#[test]
fn the_table_at_the_end_says_what_the_best_is_held_against_and_what_the_run_took() {
    let folder = tempfile::tempdir().unwrap();
    let fast = Measured::at(40.0).ratio(12.5).verdict();
    let outcomes = [
        first(0, "a", "simd", fast),
        first(1, "b", "unroll", wrong()),
        first(2, "c", "unroll", infrastructure(InfrastructureCause::Bus)),
    ];
    let lines = outcomes.map(|o| serde_json::to_string(&o).unwrap() + "\n");
    std::fs::write(folder.path().join(files::OUTCOMES), lines.concat()).unwrap();
    let sum = |attested: &str| {
        let machine = MachineFacts {
            openblas_gflops: Some(20.0),
            openblas_core: Some("Haswell".into()),
            openblas_version: Some("0.3.34".into()),
            ..machine(attested)
        };
        let line = serde_json::to_string(&machine).unwrap() + "\n";
        std::fs::write(folder.path().join(files::MACHINES), line).unwrap();
        let mut facts = Facts {
            seconds: 60.0,
            spent_seconds: Some(45.2),
            peak_memory_bytes: 3 << 29,
            ..Facts::default()
        };
        facts.shares.idle = 0.2;
        for (role, share) in [("compiler", 0.3), ("timer", 0.5)] {
            facts.shares.by_role.insert(role.into(), share);
        }
        summarise("r", folder.path(), &facts).unwrap()
    };
    let summary = sum(r#"{"threads": 2}"#);
    assert_eq!(summary.peak_threads, Some(2));
    let table = summary.table();
    for line in [
        "best verified kernel  40.00 GFLOPS  simd",
        "  12.50× the plain reference [12.26, 12.75]",
        "  measured once, so it may be too high",
        "  838.9 µs a call (min 830.5 µs, median 847.2 µs, spread 1.00 %)",
        "  80.0 % of these 2 cores' measured peak (50.00 GFLOPS)",
        "  2.00× OpenBLAS 0.3.34 (20.00 GFLOPS with core type Haswell)",
        "3 outcomes, 1 infrastructure error",
        "time: timer 50 %, compiler 30 %, idle 20 %",
        "1 step in 60 s (45 s of them in the budget), 1.50 GiB of memory",
    ] {
        assert!(table.iter().any(|l| l == line), "{line:?} in {table:#?}");
    }
    let peak = |attested: &str| {
        let table = sum(attested).table();
        table.into_iter().find(|l| l.contains("peak")).unwrap()
    };
    let said = peak(r#"{"threads": 1}"#);
    assert!(said.contains("of this core's measured peak"), "{said}");
    let said = peak("no attestation");
    assert!(said.contains("of this machine's measured peak"), "{said}");
}

#[test]
fn missing_evaluations_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join(files::OUTCOMES)).unwrap();
    let mut add = |outcome: &Outcome| {
        writeln!(file, "{}", serde_json::to_string(outcome).unwrap()).unwrap();
    };
    let sum = || summarise("r", folder.path(), &Facts::default()).unwrap();
    let mut outcome = first(0, "a", "none", measured(117.961));
    outcome.candidate.purpose = Purpose::Search;
    add(&outcome);
    let searched = serde_json::to_value(sum()).unwrap();
    assert_eq!(searched["start"], serde_json::Value::Null);
    assert_eq!(searched["end"], serde_json::Value::Null);
    assert_eq!(searched["search_correct_rate"], 1.0);
    let shown = sum().table().join("\n");
    assert!(!shown.contains("distinct"), "{shown}");
    assert!(shown.contains("118.0 GFLOPS  none\n"), "{shown}");

    let mut outcome = first(1, "b", "simd", measured(40.0));
    outcome.candidate.purpose = Purpose::EvaluateStart;
    outcome.candidate.group_size = 1;
    add(&outcome);
    let trained = serde_json::to_value(sum()).unwrap();
    assert_eq!(trained["start"]["samples"], 1);
    assert_eq!(trained["start"]["mean_gflops"], 40.0);
    assert_eq!(trained["end"], serde_json::Value::Null);
    let shown = sum().table().join("\n");
    let mut rows = shown.lines();
    let row = rows.find_map(|line| line.strip_prefix("mean GFLOPS, failures count 0"));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(cells, ["40.00", "–"], "{shown}");
}

#[test]
fn a_search_is_right_as_often_as_its_programs_are_that_could_be_judged() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join(files::OUTCOMES)).unwrap();
    let mut add = |sample, verdict, purpose| {
        let mut outcome = first(sample, "a", "none", verdict);
        outcome.candidate.purpose = purpose;
        writeln!(file, "{}", serde_json::to_string(&outcome).unwrap()).unwrap();
    };
    let rate = || {
        let summary = summarise("r", folder.path(), &Facts::default()).unwrap();
        summary.search_correct_rate
    };
    // Training reports its share by its evaluations.
    add(0, measured(20.0), Purpose::Train);
    assert_eq!(rate(), None);
    for sample in 1..4 {
        add(sample, measured(20.0), Purpose::Search);
    }
    add(4, wrong(), Purpose::Search);
    // It is unknown whether the first is right, and whether the second still is.
    add(5, unknown(), Purpose::Search);
    add(6, measured(20.0), Purpose::Certify);
    assert_eq!(rate(), Some(0.75));
}

#[test]
fn an_evaluation_that_was_interrupted_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join(files::OUTCOMES)).unwrap();
    let mut add = |sample, purpose| {
        let mut outcome = first(sample, "a", "none", measured(20.0));
        outcome.candidate.purpose = purpose;
        outcome.candidate.tasks_in_step = 2;
        outcome.candidate.group_size = 2;
        writeln!(file, "{}", serde_json::to_string(&outcome).unwrap()).unwrap();
    };
    let sum = |finished| {
        let facts = Facts {
            finished,
            ..Facts::default()
        };
        summarise("r", folder.path(), &facts).unwrap()
    };
    let counted = |part: &Option<Samples>| part.as_ref().map(|p| p.samples);
    for sample in 0..3 {
        add(sample, Purpose::EvaluateStart);
    }
    assert_eq!(counted(&sum(false).start), None);
    add(3, Purpose::EvaluateStart);
    assert_eq!(counted(&sum(false).start), Some(4));
    add(4, Purpose::EvaluateEnd);
    assert_eq!(counted(&sum(false).end), None);
    // A task that was given up leaves an evaluation incomplete for good; the run has ended nevertheless.
    assert_eq!(counted(&sum(true).end), Some(1));
}

#[test]
fn a_line_that_cannot_be_read_costs_itself_only_and_one_that_was_cut_off_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let line = |sample, gflops| {
        let outcome = first(sample, "a", "simd", measured(gflops));
        serde_json::to_string(&outcome).unwrap()
    };
    let (before, behind, last) = (line(0, 10.0), line(1, 40.0), line(2, 20.0));
    let path = folder.path().join(files::OUTCOMES);
    let sum = || summarise("r", folder.path(), &Facts::default()).unwrap();
    let text = format!("{before}\n{{\"damaged\": true}}\n{behind}\n");
    std::fs::write(&path, format!("{text}{}", &last[..last.len() / 2])).unwrap();
    let summary = sum();
    assert_eq!(summary.outcomes["measured"], 2);
    assert_eq!(summary.best.as_ref().unwrap().gflops, 40.0);
    assert_eq!(summary.unreadable_outcomes, 1);
    let said = |summary: &Summary| summary.table().join("\n");
    assert!(said(&summary).contains("1 line of outcomes.jsonl"));
    std::fs::write(&path, format!("{before}\n{behind}\n{last}\n")).unwrap();
    let summary = sum();
    assert_eq!(summary.outcomes["measured"], 3);
    assert_eq!(summary.unreadable_outcomes, 0);
    assert!(!said(&summary).contains("outcomes.jsonl"));
}

#[test]
fn only_failures_of_the_infrastructure_count_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let verdicts = [
        measured(20.0),
        wrong(),
        infrastructure(InfrastructureCause::Bus),
        unknown(),
        infrastructure(InfrastructureCause::Store),
    ];
    let mut file = std::fs::File::create(folder.path().join(files::OUTCOMES)).unwrap();
    for (sample, verdict) in (0..).zip(verdicts) {
        let outcome = first(sample, "a", "none", verdict);
        writeln!(file, "{}", serde_json::to_string(&outcome).unwrap()).unwrap();
    }
    let summary = summarise("r", folder.path(), &Facts::default()).unwrap();
    assert_eq!(summary.infrastructure_errors, 2);
    assert_eq!(summary.outcomes["unknown"], 1);
    assert_eq!(summary.outcomes.values().sum::<u64>(), 5);
}

#[test]
fn a_comment_or_another_layout_makes_no_other_program() {
    let outcomes = [
        "int f(int n) { return n; }",
        "int f(int n)\n{\n    return n; // as it is\n}\n",
        "int f(int n) { /* n */ return n; }",
        "int f(int n) { return n + 1; }",
    ]
    .map(|source| first(0, source, "none", measured(20.0)));
    let sum = samples(outcomes.iter());
    assert_eq!((sum.samples, sum.distinct_correct), (4, 2));
}

#[test]
fn dead_letters_are_counted_and_named_where_there_are_any() {
    let folder = tempfile::tempdir().unwrap();
    let sum = || summarise("r", folder.path(), &Facts::default()).unwrap();
    let said = |summary: &Summary| summary.table().join("\n");
    assert_eq!(sum().dead_letters, 0);
    assert!(!said(&sum()).contains("dead_letters"));
    let line = DeadLine {
        sequence: 3,
        id: None,
        subject: "fs.v1.work.compile.local".into(),
        reason: "not a message".into(),
        attempts: 1,
    };
    let line = serde_json::to_string(&line).unwrap();
    std::fs::write(folder.path().join(files::DEAD), line + "\n").unwrap();
    assert_eq!(sum().dead_letters, 1);
    assert!(said(&sum()).contains("1 message that no role could process: dead_letters.jsonl"));
}

#[test]
fn updates_that_were_left_out_are_counted_where_there_are_any() {
    let folder = tempfile::tempdir().unwrap();
    let sum = || summarise("r", folder.path(), &Facts::default()).unwrap();
    assert_eq!(sum().skipped_updates, 0);
    let line = |step: u64, skipped_updates: u32| {
        let published = PolicyPublished {
            run: run_id(),
            version: PolicyVersion(step),
            step,
            weights: ArtifactRef {
                digest: Digest::of(b"weights"),
                size: 7,
            },
            metrics: Some(StepMetrics {
                skipped_updates,
                ..StepMetrics::default()
            }),
        };
        serde_json::to_string(&published).unwrap()
    };
    let text = format!("{}\n{}\n", line(1, 0), line(2, 1));
    std::fs::write(folder.path().join(files::TRAINING), text).unwrap();
    let summary = sum();
    assert_eq!(summary.skipped_updates, 1);
    assert!(summary.table().join("\n").contains("1 update was skipped"));
}

#[test]
fn time_in_quarantine_is_said_where_there_was_any() {
    let folder = tempfile::tempdir().unwrap();
    let sum = |waited: f64| {
        let mut facts = Facts::default();
        facts.shares.seconds = 600.0;
        facts.shares.by_role.insert(QUARANTINE.into(), waited);
        summarise("r", folder.path(), &facts).unwrap()
    };
    let said = |summary: &Summary| summary.table().join("\n");
    assert_eq!(sum(0.0).quarantine_seconds, 0.0);
    assert!(!said(&sum(0.0)).contains("without timing"));
    let waited = sum(0.05);
    assert!((waited.quarantine_seconds - 30.0).abs() < 1e-9);
    let words = "30 s without timing, because the machine was not quiet";
    assert!(said(&waited).contains(words), "{}", said(&waited));
}
