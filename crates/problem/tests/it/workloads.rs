//! Several timed workloads of a problem: how they are read, selected and told.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use flopsmith_problem::prompt::full;
use flopsmith_problem::{Caches, Finding, Params, Problem, check};

/// dgemm with this in place of its workloads.
fn with(timed: &str) -> Result<Problem, String> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dgemm");
    std::fs::create_dir(&dir).unwrap();
    let text = std::fs::read_to_string(shipped.join("problem.toml")).unwrap();
    let (before, rest) = text.split_once("[[timed]]").unwrap();
    let (_, after) = rest.split_once("[verify]").unwrap();
    let text = format!("{before}{timed}\n[verify]{after}");
    std::fs::write(dir.join("problem.toml"), text).unwrap();
    std::fs::write(dir.join("reference.c"), "void dgemm(void) {}").unwrap();
    Problem::load(&dir).map_err(|e| e.to_string())
}

fn shipped() -> Problem {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm");
    Problem::load(&folder).unwrap()
}

fn n(size: i64) -> Params {
    Params::from([("n".into(), size)])
}

fn names(problem: &Problem) -> Vec<&str> {
    let workloads = problem.workloads.iter();
    workloads.map(|w| w.name.as_str()).collect()
}

#[test]
fn one_table_is_one_workload_with_its_size_as_its_name() {
    let one = with("[timed]\nn = 256\ncaches = \"both\"\n").unwrap();
    assert_eq!(names(&one), ["n=256"]);
    assert_eq!(one.workloads[0].params, one.timed);
    assert_eq!(
        (one.workloads[0].caches, one.caches),
        (Caches::Both, Caches::Both)
    );
    assert_eq!(one.timed_size(), "n = 256");
    assert_eq!(one.timed_sizes(), [&n(256)]);
    let named = with("[timed]\nn = 256\nname = \"square\"\n").unwrap();
    assert_eq!(names(&named), ["square"]);
    assert_eq!(named.timed, n(256));
    // Callers change this field to time another size.
    let mut moved = one.clone();
    moved.timed = n(64);
    assert_eq!(moved.timed_sizes(), [&n(64)]);
    assert_eq!(moved.each(), [moved.clone()]);
}

#[test]
fn several_tables_are_several_workloads_and_the_first_is_timed_by_default() {
    let text = "[[timed]]\nn = 256\n[[timed]]\nname = \"large\"\nn = 512\ncaches = \"cold\"\n[[timed]]\nn = 128\n";
    let problem = with(text).unwrap();
    assert_eq!(names(&problem), ["n=256", "large", "n=128"]);
    assert_eq!((&problem.timed, problem.caches), (&n(256), Caches::Warm));
    assert_eq!(problem.timed_size(), "n = 256; n = 512; n = 128");
    assert_eq!(problem.timed_sizes(), [&n(256), &n(512), &n(128)]);
    let large = problem.at(1);
    assert_eq!((&large.timed, large.caches), (&n(512), Caches::Cold));
    assert_eq!(large.digest, problem.digest);
    assert_eq!(large.timed_sizes(), [&n(512), &n(256), &n(128)]);
    let each: Vec<Params> = problem.each().into_iter().map(|p| p.timed).collect();
    assert_eq!(each, [n(256), n(512), n(128)]);
    // The same size with other caches has a name of its own, and is one size.
    let twice = "[[timed]]\nn = 256\n[[timed]]\nname = \"cold\"\nn = 256\ncaches = \"cold\"\n";
    assert_eq!(with(twice).unwrap().timed_sizes(), [&n(256)]);
    assert_eq!(names(&shipped()), ["n=256", "n=512", "n=1024"]);
}

#[test]
fn mistakes_of_workloads_have_lines() {
    for (text, says) in [
        ("[timed]\n", "[timed] gives no parameter"),
        ("[[timed]]\n", "this [[timed]] gives no parameter"),
        (
            "[[timed]]\nn = 8\n[[timed]]\nn = 8\n",
            "two workloads are called `n=8`",
        ),
        (
            "[[timed]]\nname = \"a\"\nn = 8\n[[timed]]\nname = \"a\"\nn = 9\n",
            "two workloads are called `a`",
        ),
        (
            "[[timed]]\nn = 8\n[[timed]]\nm = 8\n",
            "the workload `m=8` has the parameters m, and the first one has n",
        ),
        ("[[timed]]\nn = 8\nname = 3\n", "`name` in [timed] is 3"),
        ("[[timed]]\nn = 8\nname = \"\"\n", "1 to 60 characters"),
        ("[[timed]]\nn = 8\nname = \" a\"\n", "no space at its ends"),
        (
            "[[timed]]\nn = 8\nname = \"first\"\n",
            "`first`, which stands for the first workload of each problem: choose another name",
        ),
        ("[[timed]]\nn = 8\nnam = \"a\"\n", "did you mean `name`?"),
        (
            "[[timed]]\nn = 8\n[[timed]]\nn = 9\ncaches = \"hot\"\n",
            "`warm`, `cold` or `both`",
        ),
        (
            "[timed]\nn = 2147483648\n",
            "`n` is 2147483648 at the timed size, which a C `int` cannot hold",
        ),
        (
            "[[timed]]\nn = 256\n[[timed]]\nname = \"huge\"\nn = 3000000000\n",
            "a whole number up to 2147483647 (at the workload `huge`)",
        ),
    ] {
        let error = with(text).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
        assert!(error.contains("line") || text == "[timed]\n", "{error}");
    }
    let none = with("").unwrap_err();
    assert!(none.contains("timed"), "{none}");
}

#[test]
fn a_range_that_is_wrong_at_a_later_workload_is_reported_with_its_name() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemm/problem.toml");
    let text = std::fs::read_to_string(shipped).unwrap();
    let from = "align = 64 },\n  { name = \"B\"";
    let content = "content = { kind = \"range\", low = \"n-512\", high = \"100\" }";
    let to = format!("align = 64, {content} }},\n  {{ name = \"B\"");
    assert!(text.contains(from));
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("dgemm");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("problem.toml"), text.replacen(from, &to, 1)).unwrap();
    std::fs::write(dir.join("reference.c"), "void dgemm(void) {}").unwrap();
    let error = Problem::load(&dir).unwrap_err().to_string();
    assert!(error.contains("`low` is 512"), "{error}");
    assert!(error.contains("(at the workload `n=1024`)"), "{error}");
}

#[test]
fn a_selection_keeps_the_definitions_order_and_has_a_digest_of_its_own() {
    let whole = shipped();
    let some = whole.select(&["n=1024", "n=512"]).unwrap();
    assert_eq!(names(&some), ["n=512", "n=1024"]);
    assert_eq!(some.timed, n(512));
    assert_ne!(some.digest, whole.digest);
    let other_order = whole.select(&["n=512", "n=1024"]).unwrap();
    assert_eq!(some, other_order);
    let one = whole.select(&["n=256"]).unwrap();
    assert_eq!((&one.timed, names(&one)), (&n(256), vec!["n=256"]));
    assert_ne!(one.digest, some.digest);
    assert_eq!(whole.only_first(), one);
    assert_eq!(one.only_first(), one);
    // All of them, named or not, are the problem itself.
    assert_eq!(whole.select::<&str>(&[]).unwrap(), whole);
    let all = ["n=256", "n=512", "n=1024"].map(str::to_owned);
    assert_eq!(whole.select(&all).unwrap(), whole);
    // A problem of one workload has nothing to leave out.
    let single = with("[timed]\nn = 256\n").unwrap();
    assert_eq!(single.select(&["n=256"]).unwrap(), single);
}

#[test]
fn a_workload_that_is_not_there_is_reported_with_the_nearest_name() {
    let error = shipped().select(&["n=265"]).unwrap_err().to_string();
    assert!(error.contains("dgemm has no workload `n=265`"), "{error}");
    assert!(error.contains("did you mean `n=256`?"), "{error}");
    let far = shipped().select(&["everything"]).unwrap_err().to_string();
    assert!(!far.contains("did you mean"), "{far}");
    assert!(far.contains("it has `n=256`, `n=512`, `n=1024`"), "{far}");
    let twice = shipped()
        .select(&["n=256", "n=256"])
        .unwrap_err()
        .to_string();
    assert!(twice.contains("`n=256` is named twice"), "{twice}");
    let near = shipped().select(&["frist"]).unwrap_err().to_string();
    assert!(near.contains("did you mean `first`?"), "{near}");
}

#[test]
fn first_stands_for_the_first_workload_whatever_its_name_is() {
    let whole = shipped();
    assert_eq!(whole.select(&["first"]).unwrap(), whole.only_first());
    assert_eq!(
        whole.select(&["first", "n=1024"]).unwrap(),
        whole.select(&["n=1024", "n=256"]).unwrap()
    );
    for twice in [["first", "first"], ["first", "n=256"], ["n=256", "first"]] {
        let error = whole.select(&twice).unwrap_err().to_string();
        assert!(
            error.contains("`n=256` is named twice, by its name or as `first`"),
            "{error}"
        );
    }
    // The first one of a selection is that of the selection.
    let larger = whole.select(&["n=512", "n=1024"]).unwrap();
    assert_eq!(names(&larger.select(&["first"]).unwrap()), ["n=512"]);
    let single = with("[timed]\nn = 256\n").unwrap();
    assert_eq!(single.select(&["first"]).unwrap(), single);
}

#[test]
fn every_workload_is_looked_at() {
    let problem = with("[[timed]]\nn = 256\n[[timed]]\nn = 16\n[[timed]]\nn = 20000\n").unwrap();
    let findings = check(&problem);
    let says = |part: &str| findings.iter().any(|f| f.to_string().contains(part));
    assert!(says("a timed call at n = 256"), "{findings:?}");
    assert!(
        says("a call of the timed size n = 16 is too short"),
        "{findings:?}"
    );
    assert!(
        says("`A` is larger than 1 GiB at the timed size n = 20000"),
        "{findings:?}"
    );
    let errors = findings.iter().filter(|f| f.is_error());
    assert_eq!(errors.count(), 3, "{findings:?}");
    let one = check(&with("[timed]\nn = 256\n").unwrap());
    let good = |f: &&Finding| f.to_string().ends_with("MB a timed call");
    assert_eq!(one.iter().filter(good).count(), 1, "{one:?}");
}

#[test]
fn a_prompt_names_the_sizes_that_count() {
    let told = |problem: &Problem| full(problem, problem.techniques, None);
    let cold = "in calls that find none of their arrays in a cache";
    let one = told(&shipped().select(&["n=256"]).unwrap());
    assert!(one.contains(", and timed at n = 256. The same"), "{one}");
    let all = told(&shipped());
    let words = "timed at n = 256; n = 512; n = 1024: the geometric mean of the speeds at these sizes counts.";
    assert!(all.contains(words), "{all}");
    let mixed = "[[timed]]\nn = 256\n[[timed]]\nn = 512\ncaches = \"cold\"\n";
    let mixed = told(&with(mixed).unwrap());
    assert!(
        mixed.contains(&format!("n = 256; n = 512 ({cold}): the")),
        "{mixed}"
    );
    let both = "[[timed]]\nn = 256\ncaches = \"cold\"\n[[timed]]\nn = 512\ncaches = \"cold\"\n";
    let both = told(&with(both).unwrap());
    assert!(
        both.contains(&format!("n = 256; n = 512, {cold}: the")),
        "{both}"
    );
}

#[test]
fn a_problem_that_travelled_is_selected_alike() {
    let whole = shipped();
    let there = Problem::from_files(whole.files()).unwrap();
    let names = ["n=512"];
    assert_eq!(
        there.select(&names).unwrap().digest,
        whole.select(&names).unwrap().digest
    );
}
