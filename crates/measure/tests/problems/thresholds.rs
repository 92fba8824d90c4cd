//! Verification refuses a program that is right on one side of a size only, for any size.

use flopsmith_problem::HiddenSizes;

use super::*;

/// The placeholder for the size in the object, so that the test builds a program once for all sizes.
const MARK: i32 = 0x51a7_c0de;
/// Number of candidates, one in six of which gets the largest size: the probability that none gets it is one in ten
/// million.
const MANY: u64 = 90;

/// The baseline, which leaves the output unchanged if the parameter compares in this way with a limit.
fn built(bench: &Bench, param: &str, comparison: &str) -> Vec<u8> {
    let problem = &bench.problem;
    let baseline = problem.baseline_source.as_ref();
    let source = baseline.unwrap_or(&problem.reference_source);
    let entry = format!("void {}(", problem.entry.name);
    assert_eq!(source.matches(&entry).count(), 1, "{}", problem.id);
    let right = source.replace(&entry, "static void right(");
    let prototype = problem.entry.prototype.trim_end().trim_end_matches(';');
    let names: Vec<&str> = problem.entry.args.iter().map(|a| a.name.as_str()).collect();
    let call = names.join(", ");
    bench.compiled(&format!(
        "{right}\nstatic const volatile int limit = {MARK};\n\
         {prototype} {{\n    if ({param} {comparison} limit)\n        return;\n    right({call});\n}}\n"
    ))
}

fn with_limit(object: &[u8], limit: i64) -> Vec<u8> {
    let mark = MARK.to_ne_bytes();
    let places: Vec<usize> = (0..object.len() - mark.len())
        .filter(|&at| object[at..].starts_with(&mark))
        .collect();
    assert_eq!(places.len(), 1, "the limit stands once in the object");
    let mut changed = object.to_vec();
    let limit = i32::try_from(limit).unwrap();
    changed[places[0]..places[0] + mark.len()].copy_from_slice(&limit.to_ne_bytes());
    changed
}

/// All sizes if there are few, else the ends, those around the timed one, and some between.
fn limits(hidden: &HiddenSizes, timed: i64) -> Vec<i64> {
    let all = hidden.between(hidden.min, hidden.max);
    let step = (all.len() / 10).max(1);
    let count = all.len();
    let is_tried = |n: usize, size: i64| {
        count <= 16
            || n < 2
            || n + 3 > count
            || n.is_multiple_of(step)
            || (timed - 1..=timed + 1).contains(&size)
    };
    let sizes = all.into_iter().enumerate();
    sizes
        .filter(|&(n, size)| is_tried(n, size))
        .map(|(_, size)| size)
        .collect()
}

/// True if one of this many verifications refuses the program as wrong, and with `always` if all do.
fn is_refused(verifier: &mut Verifier, object: &[u8], always: bool) -> Result<(), String> {
    let tries = if always { 2 } else { MANY };
    let mut passed = 0;
    for seed in 0..tries {
        match verifier.verify(object, seed) {
            Err(Failure::Candidate {
                fault: F::WrongResult,
                ..
            }) => {
                if !always {
                    return Ok(());
                }
            }
            Ok(_) => passed += 1,
            Err(other) => return Err(other.to_string()),
        }
    }
    if passed == 0 {
        Ok(())
    } else {
        Err(format!("passed {passed} times"))
    }
}

fn thresholds_are_found(name: &str) {
    let _alone = fixtures::alone();
    let problem = fixtures::shipped(name);
    let bench = Bench::of(&problem);
    let mut verifier = bench.verifier(11);
    let mut found = Vec::new();
    let mut tried = 0;
    for hidden in &problem.verify.hidden {
        let timed = problem.timed[&hidden.param];
        for comparison in ["<", ">", "!="] {
            let object = built(&bench, &hidden.param, comparison);
            for limit in limits(hidden, timed) {
                let always = match comparison {
                    // No call is below the smallest size or above the largest.
                    "<" if limit == hidden.min => continue,
                    ">" if limit == hidden.max => continue,
                    ">" => limit < timed,
                    _ => true,
                };
                tried += 1;
                let object = with_limit(&object, limit);
                if let Err(why) = is_refused(&mut verifier, &object, always) {
                    let param = &hidden.param;
                    found.push(format!("wrong where {param} {comparison} {limit}: {why}"));
                }
            }
        }
    }
    assert!(tried > 20, "{name}: {tried}");
    assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
}

#[test]
fn dgemm_that_is_right_on_one_side_of_a_size_is_refused() {
    thresholds_are_found("dgemm");
}

#[test]
fn sgemm_that_is_right_on_one_side_of_a_size_is_refused() {
    thresholds_are_found("sgemm");
}

#[test]
fn dgemv_that_is_right_on_one_side_of_a_size_is_refused() {
    thresholds_are_found("dgemv");
}
