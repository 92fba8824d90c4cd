#![expect(clippy::unwrap_used, reason = "tests")]

use crate::table::{Cell, Kind};
use flopsmith_actors::role::recorder::{files, step_lines};
use flopsmith_config::Settings;
use flopsmith_protocol::{
    ArtifactRef, Digest, Outcome, PolicyPublished, PolicyVersion, StepMetrics,
};
use flopsmith_run::console::Usage;
use flopsmith_run::summary::Facts;
use flopsmith_test_support::{Measured, again, candidate, outcome, run_id, wrong};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;

use super::*;

/// A run with two steps: a program that is measured twice, a wrong one, and one of the next step.
fn make_run(runs: &Path, name: &str) -> PathBuf {
    let run = runs.join(name);
    std::fs::create_dir_all(&run).unwrap();
    let settings = Settings {
        problem: "dgemm".into(),
        nats: "nats://user:secret@broker:4222".into(),
        ..Settings::default()
    };
    std::fs::write(run.join("config.toml"), toml::to_string(&settings).unwrap()).unwrap();
    let facts = Facts {
        job: "train".into(),
        problem: "dgemm".into(),
        started_unix_ms: 1000,
        seconds: 2.5,
        finished: true,
        ..Facts::default()
    };
    std::fs::write(run.join("run.json"), serde_json::to_vec(&facts).unwrap()).unwrap();
    let at = |outcome: Outcome, decided_unix_ms: u64| Outcome {
        decided_unix_ms,
        ..outcome
    };
    let first = at(Measured::at(4.0).outcome(candidate(0, 0, 0)), 1500);
    let outcomes = [
        first.clone(),
        at(outcome(candidate(0, 0, 1), wrong()), 2000),
        again(&first, Measured::at(3.5).verdict()),
        at(Measured::at(5.0).outcome(candidate(1, 0, 0)), 3000),
    ];
    let text = |lines: Vec<String>| lines.join("\n") + "\n";
    let lines = outcomes.iter().map(|o| serde_json::to_string(o).unwrap());
    std::fs::write(run.join(files::OUTCOMES), text(lines.collect())).unwrap();
    let lines = step_lines(outcomes.iter());
    let lines = lines.iter().map(|l| serde_json::to_string(l).unwrap());
    std::fs::write(run.join(files::METRICS), text(lines.collect())).unwrap();
    let published = PolicyPublished {
        run: run_id(),
        version: PolicyVersion(1),
        step: 1,
        weights: ArtifactRef {
            digest: Digest::of(b"weights"),
            size: 7,
        },
        metrics: Some(StepMetrics {
            loss: 0.25,
            mean_reward: 0.75,
            ..StepMetrics::default()
        }),
    };
    let line = serde_json::to_string(&published).unwrap();
    std::fs::write(run.join(files::TRAINING), text(vec![line])).unwrap();
    run
}

fn order(format: Format, what: Option<What>, output: &Path) -> Order {
    Order {
        format,
        runs: vec!["r-1".into()],
        output: Some(output.to_owned()),
        what,
    }
}

/// The rows of a CSV file, each by the names of the columns.
fn csv_rows(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn a_table_of_outcomes_has_each_once_and_missing_numbers_are_empty() {
    let runs = tempfile::tempdir().unwrap();
    make_run(runs.path(), "r-1");
    let path = runs.path().join("outcomes.csv");
    run(&order(Format::Csv, None, &path), runs.path()).unwrap();
    let rows = csv_rows(&path);
    let column = |name: &str| -> Vec<&str> { rows.iter().map(|r| r[name].as_str()).collect() };
    assert_eq!(column("gflops"), ["4", "", "3.5", "5"]);
    let verdicts = ["measured", "wrong_result", "measured", "measured"];
    assert_eq!(column("verdict"), verdicts);
    assert_eq!(column("purpose"), ["train", "train", "certify", "train"]);
    assert_eq!(column("step"), ["0", "0", "0", "1"]);
    assert_eq!(column("remeasures")[2], column("candidate")[0]);
}

#[test]
fn a_measurement_that_did_not_converge_has_no_interval_and_says_so() {
    let cells = |measured: Measured, names: [&str; 4]| {
        let outcome = measured.outcome(candidate(0, 0, 0));
        let cells = table::row(outcomes::COLUMNS, &outcome);
        names.map(|name| {
            let place = outcomes::COLUMNS.iter().position(|c| c.name == name);
            cells[place.unwrap()].clone()
        })
    };
    let names = ["ratio", "ratio_low", "ratio_high", "converged"];
    let unsure = cells(Measured::at(4.0).se(3.0).unconverged(), names);
    let expected = [
        Cell::Real(4.0),
        Cell::Missing,
        Cell::Missing,
        Cell::Flag(false),
    ];
    assert_eq!(unsure, expected);
    let [_, low, high, converged] = cells(Measured::at(4.0), names);
    assert!(matches!(low, Cell::Real(low) if low < 4.0), "{low:?}");
    assert!(matches!(high, Cell::Real(high) if high > 4.0), "{high:?}");
    assert_eq!(converged, Cell::Flag(true));
}

#[test]
fn a_table_of_steps_joins_outcomes_and_training() {
    let runs = tempfile::tempdir().unwrap();
    make_run(runs.path(), "r-1");
    let path = runs.path().join("steps.csv");
    let order = order(Format::Csv, Some(What::Steps), &path);
    run(&order, runs.path()).unwrap();
    let rows = csv_rows(&path);
    let column = |name: &str| -> Vec<&str> { rows.iter().map(|r| r[name].as_str()).collect() };
    assert_eq!(column("run"), ["r-1", "r-1"]);
    assert_eq!(column("samples"), ["2", "1"]);
    assert_eq!(column("correct_rate"), ["0.5", "1"]);
    assert_eq!(column("best_gflops_so_far"), ["4", "3.5"]);
    assert_eq!(column("cells"), ["0", "1"]);
    assert_eq!(column("mean_reward"), ["", "0.75"]);
    assert_eq!(column("ended_unix_ms"), ["2000", "3000"]);
}

#[test]
fn nothing_that_exists_is_overwritten_and_wrong_usage_is_named() {
    let runs = tempfile::tempdir().unwrap();
    make_run(runs.path(), "r-1");
    let refused = |order: &Order, part: &str| {
        let error = run(order, runs.path()).unwrap_err();
        assert!(error.is::<Usage>(), "{error:#}");
        assert!(error.to_string().contains(part), "{part}: {error:#}");
    };
    let path = runs.path().join("file.csv");
    std::fs::write(&path, "mine").unwrap();
    for format in [Format::Csv, Format::Parquet] {
        refused(&order(format, None, &path), "exists already");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    let nowhere = runs.path().join("no/such/folder/a.csv");
    refused(&order(Format::Csv, None, &nowhere), "cannot write");
    let other = Order {
        runs: vec!["r-2".into()],
        ..order(Format::Csv, None, &runs.path().join("b.csv"))
    };
    refused(&other, "there is no run r-2");
    assert!(!runs.path().join("b.csv").exists());
    for format in [Format::Parquet, Format::Mlflow] {
        let unnamed = Order {
            output: None,
            ..order(format, None, &path)
        };
        refused(&unnamed, "--output");
    }
    let root = runs.path().join("mlruns");
    let of_outcomes = order(Format::Mlflow, Some(What::Outcomes), &root);
    refused(&of_outcomes, "csv or parquet");
    run(&order(Format::Mlflow, None, &root), runs.path()).unwrap();
    refused(&order(Format::Mlflow, None, &root), "r-1 is in");
}

#[test]
fn an_output_has_its_name_once_it_is_complete_and_parts_of_killed_exports_are_replaced() {
    let runs = tempfile::tempdir().unwrap();
    make_run(runs.path(), "r-1");
    let (path, part) = (runs.path().join("a.csv"), runs.path().join("a.csv.part"));
    let fresh = Fresh::create(&path).unwrap();
    fresh.open().unwrap().write_all(b"half").unwrap();
    assert!(!path.exists() && part.exists());
    let error = Fresh::create(&path).err().unwrap();
    assert!(error.to_string().contains("another process"), "{error:#}");
    std::fs::write(&path, "mine").unwrap();
    let error = fresh.keep().unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error:#}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&part, "x".repeat(100_000)).unwrap();
    run(&order(Format::Csv, None, &path), runs.path()).unwrap();
    assert_eq!(csv_rows(&path).len(), 4);
    assert!(!part.exists());

    let root = runs.path().join("mlruns");
    let target = mlflow::export(&runs.path().join("r-1"), &root).unwrap();
    let id = target.file_name().unwrap().to_str().unwrap();
    let part = target.with_file_name(format!(".{id}.part"));
    std::fs::rename(&target, &part).unwrap();
    std::fs::remove_file(part.join("meta.yaml")).unwrap();
    std::fs::write(part.join("half"), "").unwrap();
    mlflow::export(&runs.path().join("r-1"), &root).unwrap();
    assert!(target.join("meta.yaml").exists() && !target.join("half").exists());
    assert!(!part.exists());
}

#[test]
fn a_part_that_became_a_file_or_is_none_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let (path, part) = (place.path().join("a.csv"), place.path().join("a.csv.part"));
    let refused = |fresh: Result<Fresh>, words: &str| {
        let error = fresh.err().unwrap();
        assert!(error.is::<Usage>() && error.to_string().contains(words));
    };
    // Another export ends between the opening and the lock of this one.
    std::fs::write(&part, "whole").unwrap();
    let opened = File::options().write(true).open(&part).unwrap();
    std::fs::rename(&part, &path).unwrap();
    let of_other = Fresh::of(&path, part.clone(), opened);
    refused(of_other, "exists already");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
    // A link, and a second name of a file.
    let other = place.path().join("b.csv");
    std::fs::rename(&path, &other).unwrap();
    std::os::unix::fs::symlink(&other, &part).unwrap();
    refused(Fresh::create(&path), "a.csv.part");
    let opened = File::options().write(true).open(&part).unwrap();
    let of_link = Fresh::of(&path, part.clone(), opened);
    refused(of_link, "a.csv.part");
    std::fs::remove_file(&part).unwrap();
    std::fs::hard_link(&other, &part).unwrap();
    refused(Fresh::create(&path), "a.csv.part");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "whole");
}

#[test]
fn two_exports_of_a_run_to_mlflow_do_not_share_a_part() {
    let runs = tempfile::tempdir().unwrap();
    let of_run = make_run(runs.path(), "r-1");
    let root = runs.path().join("mlruns");
    let target = mlflow::export(&of_run, &root).unwrap();
    let id = target.file_name().unwrap().to_str().unwrap();
    let part = target.with_file_name(format!(".{id}.part"));
    std::fs::rename(&target, &part).unwrap();
    let held = File::create(target.with_file_name(format!(".{id}.lock"))).unwrap();
    held.try_lock().unwrap();
    let error = mlflow::export(&of_run, &root).unwrap_err();
    assert!(error.is::<Usage>(), "{error:#}");
    assert!(error.to_string().contains("another process"), "{error:#}");
    assert!(part.join("meta.yaml").exists());
    drop(held);
    mlflow::export(&of_run, &root).unwrap();
    assert!(!part.exists());
}

#[test]
fn a_run_of_mlflow_has_its_metrics_by_step_and_no_credentials() {
    let runs = tempfile::tempdir().unwrap();
    let of_run = make_run(runs.path(), "r-1");
    std::fs::write(of_run.join("report.html"), "page").unwrap();
    let root = runs.path().join("mlruns");
    let target = mlflow::export(&of_run, &root).unwrap();
    let read = |file: &str| std::fs::read_to_string(target.join(file)).unwrap();
    assert_eq!(
        read("metrics/samples/correct_rate"),
        "2000 0.5 0\n3000 1 1\n"
    );
    assert_eq!(read("metrics/learner/loss"), "3000 0.25 1\n");
    assert_eq!(read("tags/mlflow.runName"), "r-1");
    assert_eq!(read("params/problem"), "dgemm");
    assert_eq!(read("artifacts/report.html"), "page");
    assert!(!target.join("params/nats").exists());
    let meta = read("meta.yaml");
    let id = target.file_name().unwrap().to_str().unwrap();
    for line in [
        format!("run_id: '{id}'"),
        "run_name: 'r-1'".into(),
        "status: 3".into(),
        "start_time: 1000".into(),
        "end_time: 3500".into(),
    ] {
        assert!(meta.lines().any(|l| l == line), "{line} in {meta}");
    }
    let experiment = target.parent().unwrap();
    let of_experiment = std::fs::read_to_string(experiment.join("meta.yaml")).unwrap();
    let name = experiment.file_name().unwrap().to_str().unwrap();
    assert!(of_experiment.contains(&format!("experiment_id: '{name}'")));
    assert!(meta.contains(&format!("experiment_id: '{name}'")));
    // A role of a damaged file leads nowhere.
    let facts = of_run.join("run.json");
    let mut damaged = flopsmith_run::folder::read_facts(&of_run).unwrap();
    let out = "../../../../../out".to_owned();
    damaged.shares.by_role.insert(out, 0.5);
    std::fs::write(&facts, serde_json::to_vec(&damaged).unwrap()).unwrap();
    // The same run has the same id, and another folder takes it.
    let other = mlflow::export(&of_run, &runs.path().join("other")).unwrap();
    assert_eq!(other.file_name(), target.file_name());
    // From `other/EXPERIMENT/RUN/metrics/share_of_time` this would be the folder of the runs.
    assert!(!runs.path().join("out").exists());
}

/// The cells of a Parquet file, read by the rows' own reader.
fn parquet_rows(path: &Path) -> (Vec<Vec<Cell>>, usize) {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let groups = reader.metadata().num_row_groups();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => Cell::Missing,
            Field::Str(text) => Cell::text(text),
            Field::Long(number) => Cell::Integer(*number),
            Field::Double(number) => Cell::Real(*number),
            Field::Bool(flag) => Cell::Flag(*flag),
            other => unreachable!("{other:?}"),
        });
        cells.collect::<Vec<Cell>>()
    });
    (rows.collect(), groups)
}

const KINDS: [(&str, Kind); 4] = [
    ("text", Kind::Text),
    ("integer", Kind::Integer),
    ("real", Kind::Real),
    ("flag", Kind::Flag),
];

fn write_parquet(path: &Path, rows: &[Vec<Cell>]) {
    let file = File::create_new(path).unwrap();
    let table = parquet_table::ParquetTable::begin("test", KINDS.to_vec(), file);
    let mut sink: Box<dyn Sink> = Box::new(table.unwrap());
    for row in rows {
        sink.row(row.clone()).unwrap();
    }
    sink.finish().unwrap();
}

#[test]
fn a_long_parquet_file_is_written_in_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.parquet");
    let row = |number: i64| {
        vec![
            Cell::text(number % 7),
            Cell::Integer(number),
            Cell::Real(number as f64 / 3.0),
            if number % 5 == 0 {
                Cell::Missing
            } else {
                Cell::Flag(number % 2 == 0)
            },
        ]
    };
    let rows: Vec<Vec<Cell>> = (0..20_000).map(row).collect();
    write_parquet(&path, &rows);
    let (read, groups) = parquet_rows(&path);
    assert_eq!(groups, 2);
    assert!(read == rows);
}

#[test]
fn outcomes_in_parquet_are_those_in_csv() {
    let runs = tempfile::tempdir().unwrap();
    make_run(runs.path(), "r-1");
    let (csv, parquet) = (runs.path().join("a.csv"), runs.path().join("a.parquet"));
    run(&order(Format::Csv, None, &csv), runs.path()).unwrap();
    run(&order(Format::Parquet, None, &parquet), runs.path()).unwrap();
    let (rows, _) = parquet_rows(&parquet);
    let mut reader = csv::Reader::from_path(&csv).unwrap();
    let records: Vec<csv::StringRecord> = reader.records().map(|r| r.unwrap()).collect();
    assert_eq!((rows.len(), records.len()), (4, 4));
    for (row, record) in rows.iter().zip(&records) {
        assert_eq!(row.len(), record.len());
        for (cell, text) in row.iter().zip(record) {
            let shown = match cell {
                Cell::Missing => String::new(),
                Cell::Text(text) => text.clone(),
                Cell::Integer(number) => number.to_string(),
                Cell::Real(number) => number.to_string(),
                Cell::Flag(flag) => flag.to_string(),
            };
            assert_eq!(shown, text);
        }
    }
}

fn maybe<T: std::fmt::Debug + Clone + 'static>(
    value: impl Strategy<Value = T> + 'static,
    cell: fn(T) -> Cell,
) -> impl Strategy<Value = Cell> {
    proptest::option::of(value).prop_map(move |value| Cell::or_missing(value, cell))
}

proptest! {
    #[test]
    fn every_cell_comes_back_from_parquet(
        cells in proptest::collection::vec(
            (
                maybe(".{0,20}", Cell::Text),
                maybe(any::<i64>(), Cell::Integer),
                maybe(-1e300f64..1e300, Cell::Real),
                maybe(any::<bool>(), Cell::Flag),
            ),
            0..40
        )
    ) {
        let rows: Vec<Vec<Cell>> = cells.into_iter().map(|(a, b, c, d)| vec![a, b, c, d]).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        write_parquet(&path, &rows);
        prop_assert_eq!(parquet_rows(&path).0, rows);
    }
}
