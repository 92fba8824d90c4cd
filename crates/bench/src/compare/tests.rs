#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_protocol::Interval;
use flopsmith_run::exit;
use flopsmith_test_support::{Measured, wrong};

use super::*;
use crate::rows::tests::{by_memory, fast, row, unsure};
use crate::saved::tests::{problem, program, saved};

/// Half as fast as before.
pub fn slower() -> ToSaved {
    let interval = Interval {
        low: 0.49,
        high: 0.51,
        confidence: 0.95,
    };
    ToSaved {
        name: "main".into(),
        compared: Compared {
            ratio: 0.5,
            interval,
        },
        change: Change::Slower,
        same_source: false,
    }
}

fn programs(names: &[&str]) -> Vec<Program> {
    names.iter().map(|name| program(name)).collect()
}

fn compare(saved: Saved, names: &[&str]) -> Result<Compare> {
    let problems = [problem()];
    Compare::new(
        "main",
        saved,
        &programs(names),
        &problems,
        &[1],
        Purpose::Certify,
    )
}

fn refused(saved: Saved, names: &[&str]) -> String {
    let error = compare(saved, names).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    error.to_string()
}

#[test]
fn programs_are_faster_slower_or_the_same_and_vague_comparisons_are_marked() {
    let before = [
        fast("a.c", 1, 40.0),
        fast("b.c", 1, 40.0),
        fast("c.c", 1, 40.0),
        fast("d.c", 1, 40.0),
        unsure("e.c", 40.0),
        fast("gone.c", 1, 40.0),
    ];
    let names = ["a.c", "b.c", "c.c", "d.c", "e.c", "new.c"];
    let compare = compare(saved(before.into()), &names).unwrap();
    let vague = row("d.c", 1, Measured::at(44.0).se(0.3).verdict());
    let mut rows = [
        fast("a.c", 1, 42.0),
        fast("b.c", 1, 38.0),
        fast("c.c", 1, 40.05),
        vague,
        fast("e.c", 1, 80.0),
        fast("new.c", 1, 40.0),
    ];
    compare.judge(&mut rows);
    let changes = rows
        .each_ref()
        .map(|row| row.to_saved.as_ref().map(|s| s.change.name()));
    let expected = ["faster", "slower", "no_difference", "unclear", "unclear"];
    assert_eq!(changes[..5], expected.map(Some));
    assert_eq!(changes[5], None);
    let ratio = rows[0].to_saved.as_ref().unwrap().compared.ratio;
    assert!((ratio - 1.05).abs() < 1e-9, "{ratio}");
    assert_eq!(crate::rows::code(&rows), exit::SLOWER);
    assert_eq!(crate::rows::code(&rows[2..]), exit::OK);
    let all: Vec<&Row> = rows.iter().collect();
    let lines = compare.lines(&all);
    assert_eq!(lines[1], "compared with `main`, saved a moment ago");
    assert!(
        lines[2].starts_with("file           now  new/old  95 % interval "),
        "{lines:?}"
    );
    assert!(
        lines[3].contains("42.00 GFLOPS    1.050  [1.0"),
        "{lines:?}"
    );
    assert!(
        lines[3].contains("  faster                     same"),
        "{lines:?}"
    );
    assert!(
        lines[5].contains("  no difference above 0.7 %  same"),
        "{lines:?}"
    );
    let has = |part: &str| lines.iter().any(|line| line == part);
    assert!(
        has("not in `main`: new.c") && has("only in `main`: gone.c"),
        "{lines:?}"
    );
    assert!(
        !lines.iter().any(|line| line.contains("widened")),
        "{lines:?}"
    );
}

#[test]
fn many_comparisons_are_wrong_no_more_often_than_one() {
    let names: Vec<String> = (0..20).map(|n| format!("{n}.c")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let rows =
        |gflops: f64| -> Vec<Row> { names.iter().map(|name| fast(name, 1, gflops)).collect() };
    let compare = compare(saved(rows(40.0)), &names).unwrap();
    // 2.3 standard errors of the difference.
    let mut now = rows(40.0 * (2.3 * 0.002 * 2f64.sqrt()).exp());
    compare.judge(&mut now[..1]);
    let change = |row: &Row| row.to_saved.as_ref().map(|s| s.change);
    assert_eq!(change(&now[0]), Some(Change::Faster));
    compare.judge(&mut now);
    // The interval excludes 1, so it does not say that there is no difference either.
    assert!(now.iter().all(|row| change(row) == Some(Change::Unclear)));
}

#[test]
fn single_processes_are_compared_with_a_wider_interval() {
    let before = saved(vec![fast("a.c", 1, 40.0)]);
    let judged = |purpose: Purpose| {
        let programs = programs(&["a.c"]);
        let compare = Compare::new(
            "main",
            before.clone(),
            &programs,
            &[problem()],
            &[1],
            purpose,
        );
        let compare = compare.unwrap();
        let mut rows = [fast("a.c", 1, 41.0)];
        compare.judge(&mut rows);
        let notes = compare.notes(&[&rows[0]]);
        let said = notes.iter().any(|note| note.contains("widened"));
        (rows[0].to_saved.as_ref().unwrap().change, said)
    };
    assert_eq!(judged(Purpose::Certify), (Change::Faster, false));
    assert_eq!(judged(Purpose::Rank), (Change::NoDifference, true));
}

#[test]
fn a_program_is_found_by_its_path_or_else_by_its_file_name() {
    let of = |saved_names: &[&str], names: &[&str]| {
        let rows = saved_names.iter().map(|name| fast(name, 1, 40.0)).collect();
        let found = matched(&saved(rows), &programs(names));
        let found = found
            .into_iter()
            .map(|(name, file)| format!("{name}={file}"));
        found.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        of(&["a.c", "old/b.c"], &["a.c", "new/b.c", "c.c"]),
        "a.c=a.c new/b.c=old/b.c"
    );
    // Two files of one name are told apart by their paths only.
    assert_eq!(of(&["x/a.c", "y/a.c"], &["z/a.c"]), "");
    assert_eq!(of(&["x/a.c"], &["y/a.c", "z/a.c"]), "");
    assert_eq!(
        of(&["x/a.c", "y/a.c"], &["y/a.c", "z/a.c"]),
        "y/a.c=y/a.c z/a.c=x/a.c"
    );
}

#[test]
fn results_that_do_not_compare_are_refused_with_what_differs() {
    let before = saved(vec![fast("a.c", 1, 40.0)]);
    assert!(refused(before.clone(), &["b.c"]).contains("it has a.c"));
    let mut edited = before.clone();
    edited.circumstances[0].problem_digest = Digest::of(b"edited");
    assert!(refused(edited, &["a.c"]).contains("another definition of `dgemm`"));
    let mut elsewhere = before.clone();
    elsewhere.circumstances[0].sizes[0].insert("n".into(), 16);
    assert!(refused(elsewhere, &["a.c"]).ends_with("numbers of threads: n = 16 on 1 thread"));
    let mut several = before.clone();
    let other = [("n".to_owned(), 16)].into();
    several.circumstances[0].sizes.push(other);
    assert!(refused(several, &["a.c"]).ends_with("n = 8; n = 16 on 1 thread"));
    let mut threads = before.clone();
    threads.circumstances[0].threads = 2;
    assert!(refused(threads, &["a.c"]).ends_with("n = 8 on 2 threads"));
    let mut method = before.clone();
    method.method = "older".into();
    assert!(refused(method, &["a.c"]).contains("by method older"));

    let compare = compare(before, &["a.c"]).unwrap();
    let machine =
        |model: &str| Machine::new(serde_json::json!({ "cpu_model": model }).to_string()).unwrap();
    compare.check(&problem(), 1, &machine("m")).unwrap();
    compare.check(&problem(), 2, &machine("other")).unwrap();
    let error = compare.check(&problem(), 1, &machine("other")).unwrap_err();
    assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
    let error = error.to_string();
    assert!(
        error.contains("processor: saved with `m`, now `other`"),
        "{error}"
    );
}

#[test]
fn a_refused_program_and_the_one_all_are_compared_with_have_no_comparison() {
    let compare = compare(saved(vec![fast("a.c", 1, 40.0)]), &["a.c"]).unwrap();
    let mut rows = [row("a.c", 1, wrong()), fast("a.c", 1, 40.0)];
    rows[1].against = true;
    compare.judge(&mut rows);
    assert!(rows.iter().all(|row| row.to_saved.is_none()));
    // Rows of several sizes and units.
    let mut rows = [fast("a.c", 1, 40.0), fast("a.c", 2, 40.0)];
    rows[0].place = Some(by_memory());
    compare.judge(&mut rows);
    assert!(rows[1].to_saved.is_none());
    rows[1].sizes[0].insert("n".into(), 16);
    let all: Vec<&Row> = rows.iter().collect();
    let lines = compare.lines(&all);
    assert!(lines[2].starts_with("file  size   threads"), "{lines:?}");
    assert!(
        lines[3].starts_with("a.c   n = 8        1  5.000 GB/s"),
        "{lines:?}"
    );
}

#[test]
fn a_comparison_is_a_sentence() {
    let mut to_saved = slower();
    to_saved.same_source = true;
    assert_eq!(
        to_saved.words(),
        "0.5000 times as fast as in `main` (its source is the same), 95 % interval [0.4900, 0.5100]: slower"
    );
}
