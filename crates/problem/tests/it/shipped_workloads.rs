//! Each shipped problem is timed at sizes that meet different caches, and the page about the problems has these sizes.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use flopsmith_problem::{ArgKind, Params, Problem};
use flopsmith_test_support::shipped;

/// Arrays of so many bytes fit the second-level cache of a core. Few cores have a smaller one.
const SECOND_LEVEL: u64 = 512 << 10;
/// Arrays of so many bytes have to come from memory, or from a last cache that many cores share.
const LARGE: u64 = 32 << 20;
/// A problem with fewer operations for each byte of its arrays can afford large arrays.
const FEW_OPERATIONS: f64 = 4.0;

/// Problems without a workload in a second-level cache, and why.
const NEVER_SMALL: [(&str, &str); 4] = [
    ("dgemm", "numbers are recorded at its sizes"),
    ("polybench_gesummv", "a shorter call lasts less than 20 µs"),
    ("polybench_trisolv", "a shorter call lasts less than 20 µs"),
    ("prefix_sum", "a shorter call lasts less than 20 µs"),
];

/// Problems with few operations for each byte and without large arrays, and why.
const NEVER_LARGE: [(&str, &str); 1] = [(
    "polybench_deriche",
    "with the image that programs keep between two passes, its arrays are large",
)];

/// Problems without a workload all of whose sizes are odd, and why.
const NEVER_ODD: [(&str, &str); 3] = [
    ("dgemm", "its sizes are multiples of 64"),
    (
        "polybench_gramschmidt",
        "an odd number of columns and an odd number of further rows would make the rows even",
    ),
    ("walsh_hadamard", "its sizes are powers of two"),
];

fn all() -> Vec<Problem> {
    let folders = shipped::problems();
    let problems = folders.iter().map(|folder| Problem::load(folder).unwrap());
    problems.collect()
}

/// Bytes of all arrays at this size.
fn bytes(problem: &Problem, params: &Params) -> u64 {
    let arrays = problem.entry.args.iter().filter_map(|arg| {
        let ArgKind::Array { element, .. } = &arg.kind else {
            return None;
        };
        let bytes = problem.elements(arg, params).unwrap() * element.size();
        Some(bytes as u64)
    });
    arrays.sum()
}

/// Compares the problems that break a rule with its exceptions.
fn assert_exceptions(broken: &[String], exceptions: &[(&str, &str)]) {
    let mut known: Vec<&str> = exceptions.iter().map(|(name, _)| *name).collect();
    let mut found: Vec<&str> = broken.iter().map(String::as_str).collect();
    known.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, known, "the exceptions are {exceptions:?}");
}

#[test]
fn every_problem_has_several_workloads_of_different_sizes() {
    for problem in all() {
        let sizes: BTreeSet<&Params> = problem.workloads.iter().map(|w| &w.params).collect();
        assert!(sizes.len() >= 2, "{} has one size", problem.id);
        let count = problem.workloads.len();
        assert_eq!(sizes.len(), count, "{}: a size comes twice", problem.id);
        // A certification has a ratio without caches only if each workload has one.
        let first = problem.workloads[0].caches;
        let alike = problem.workloads.iter().all(|w| w.caches == first);
        assert!(alike, "{}: `caches` differ", problem.id);
    }
}

#[test]
fn the_arrays_of_a_workload_fit_a_second_level_cache() {
    let broken = all().into_iter().filter(|problem| {
        let sizes = problem.workloads.iter();
        let least = sizes.map(|w| bytes(problem, &w.params)).min();
        least.unwrap() > SECOND_LEVEL
    });
    let broken: Vec<String> = broken.map(|problem| problem.id.to_string()).collect();
    assert_exceptions(&broken, &NEVER_SMALL);
}

#[test]
fn the_arrays_of_a_workload_are_large_where_the_work_is_a_few_operations_for_each_byte() {
    let broken = all().into_iter().filter(|problem| {
        let sizes = problem.workloads.iter().map(|w| &w.params);
        let largest = sizes.max_by_key(|params| bytes(problem, params)).unwrap();
        let bytes = bytes(problem, largest);
        let few = problem.work_flops(largest) < FEW_OPERATIONS * bytes as f64;
        few && bytes < LARGE
    });
    let broken: Vec<String> = broken.map(|problem| problem.id.to_string()).collect();
    assert_exceptions(&broken, &NEVER_LARGE);
}

/// dgemm's entry takes one extent, so another product has the long shapes.
#[test]
fn a_product_is_timed_at_a_tall_and_a_wide_shape() {
    let problem = Problem::load(&shipped::problem("polybench_gemm")).unwrap();
    let size = |name: &str| {
        let workload = problem.workloads.iter().find(|w| w.name == name).unwrap();
        (workload.params["ni"], workload.params["nj"])
    };
    let ((tall, few), (rows, wide)) = (size("tall"), size("wide"));
    assert!(tall >= 100 * few, "{tall} x {few}");
    assert!(wide >= 100 * rows, "{rows} x {wide}");
}

/// No vector, tile or unrolled loop divides odd sizes, so each of these needs its remainder.
#[test]
fn all_sizes_of_a_workload_are_odd() {
    let broken = all().into_iter().filter(|problem| {
        let varying = || problem.verify.hidden.iter().map(|hidden| &hidden.param);
        let is_odd = |params: &Params| varying().all(|param| params[param] % 2 == 1);
        varying().next().is_some() && !problem.workloads.iter().any(|w| is_odd(&w.params))
    });
    let broken: Vec<String> = broken.map(|problem| problem.id.to_string()).collect();
    assert_exceptions(&broken, &NEVER_ODD);
}

/// The rows of the page for a problem: name, workload, size, MiB of its arrays, and millions of operations a call.
fn rows(problem: &Problem) -> impl Iterator<Item = String> {
    problem.workloads.iter().map(move |workload| {
        let mib = bytes(problem, &workload.params) as f64 / f64::from(1 << 20);
        let millions = problem.work_flops(&workload.params) / 1e6;
        format!(
            "| `{}` | `{}` | {} | {mib:.2} | {millions:.2} |",
            problem.id,
            workload.name,
            workload.size()
        )
    })
}

#[test]
fn the_page_about_the_problems_has_the_workloads_of_those_outside_suites() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/problems.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("| problem | workload |").unwrap();
    let shown: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let problems = all();
    let own = problems.iter().filter(|problem| problem.suite.is_none());
    let expected: Vec<String> = own.flat_map(rows).collect();
    assert_eq!(shown, expected);
}
