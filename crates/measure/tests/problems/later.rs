//! Timing refuses a program that is right in its first calls, and so passes verification, and takes a short cut in
//! later ones.

use std::fmt::Write as _;
use std::time::Duration;

use flopsmith_measure::Limits;

use super::*;

/// Number of right calls.
const HONEST: u32 = 12;
/// Time for some tens of calls of any problem, whatever their results.
const LONG: Limits = Limits {
    min: Duration::from_millis(60),
    max: Duration::from_millis(120),
    target_log_se: 0.0,
    usable_log_se: 1.0,
};

/// The baseline for some calls, and then `corner`, a source with a function of the same name.
fn honest_at_first(problem: &Problem, corner: &str) -> Vec<u8> {
    let name = &problem.entry.name;
    let honest = problem.baseline_source.as_ref();
    let honest = honest.unwrap_or(&problem.reference_source);
    let entry = format!("void {name}(");
    let mut source = String::new();
    for (text, called) in [(corner, "corner"), (honest.as_str(), "honest")] {
        assert_eq!(text.matches(&entry).count(), 1, "{}", problem.id);
        source.push_str(&text.replace(&entry, &format!("static void {called}(")));
    }
    let prototype = problem.entry.prototype.trim_end().trim_end_matches(';');
    let names: Vec<&str> = problem.entry.args.iter().map(|a| a.name.as_str()).collect();
    let names = names.join(", ");
    write!(
        source,
        "\nstatic int calls;\n{prototype} {{\n    if (calls++ < {HONEST})\n        honest({names});\n    else\n        corner({names});\n}}\n"
    )
    .unwrap();
    // The scan may refuse such a program; this test is about the timer.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later.c");
    std::fs::write(&path, source).unwrap();
    fixtures::built(problem, &path)
}

fn timer(problem: &Arc<Problem>) -> Timer {
    let mut timer = Bench::of(problem).timer();
    timer.set_limits(Purpose::Screen, LONG);
    timer
}

/// The complaint if the timer does not refuse such a program.
fn not_refused(timer: &mut Timer, problem: &Problem, corner: &str, seed: u64) -> Option<String> {
    let object = honest_at_first(problem, corner);
    match timer.measure(&object, Purpose::Screen, seed, None) {
        Err(Failure::Candidate {
            fault: F::SkippedWork,
            ..
        }) => None,
        other => Some(format!(
            "{}: {:?}",
            problem.id,
            other.map(|timed| timed.measurement)
        )),
    }
}

/// The plain reference with its sums in another order and its products fused with them, which stays within its bounds.
fn reordered(problem: &Problem) -> Vec<u8> {
    let mut loose = problem.clone();
    let flags = [
        "-fassociative-math",
        "-fno-signed-zeros",
        "-fno-trapping-math",
        "-ffp-contract=fast",
    ];
    loose.flags.extend(flags.map(str::to_owned));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reordered.c");
    std::fs::write(&path, &problem.reference_source).unwrap();
    fixtures::built(&loose, &path)
}

#[test]
fn delayed_faults_are_refused_like_faults_at_verification() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    for problem in tried(TIMED) {
        let mut timer = timer(&problem);
        let honest = timer.measure(&reordered(&problem), Purpose::Screen, 1, None);
        if let Err(e) = honest {
            wrong.push(format!("{}: sums in another order: {e}", problem.id));
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/problems")
            .join(format!("{}.subtle.c", problem.id));
        if let Ok(corner) = std::fs::read_to_string(path) {
            wrong.extend(not_refused(&mut timer, &problem, &corner, 2));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Most elements of a softmax are so small that the bound, which depends on the largest, would accept zero for them.
#[test]
fn small_elements_are_checked_as_closely_as_large_ones() {
    let _alone = fixtures::alone();
    let problem = fixtures::shipped("softmax");
    let skips = |where_: &str| {
        format!(
            "#include <math.h>\n\
             void softmax(int m, int n, const float *in, float *out)\n{{\n\
                 for (int i = 0; i < m; i++) {{\n\
                     const float *x = &in[i * n];\n\
                     float most = x[0], sum = 0;\n\
                     for (int j = 1; j < n; j++)\n\
                         most = x[j] > most ? x[j] : most;\n\
                     for (int j = 0; j < n; j++)\n\
                         sum += expf(x[j] - most);\n\
                     for (int j = 0; j < n; j++)\n\
                         out[i * n + j] = {where_} ? 0 : expf(x[j] - most) / sum;\n\
                 }}\n}}\n"
        )
    };
    // The numbers of a row lie within 80 of each other: all except the largest tenth, and the same in one row only.
    let most = skips("x[j] < most - 8");
    let some = skips("i == 100 && x[j] < most - 8");
    let mut timer = timer(&problem);
    for (seed, corner) in (0..).zip([&most, &some, &most, &some]) {
        assert_eq!(not_refused(&mut timer, &problem, corner, seed), None);
    }
}
