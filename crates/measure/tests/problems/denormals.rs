//! Every problem with denormal inputs refuses a program that treats denormal numbers as zeros.
#![cfg(target_arch = "x86_64")]

use flopsmith_problem::Distribution;

use super::*;

/// Number of candidates, one in three of which gets denormal inputs, if a call with them is expensive.
const MANY: u64 = 40;

/// The baseline after a switch that flushes denormal operands and results to zero.
fn without_denormals(problem: &Problem) -> Vec<u8> {
    let baseline = problem.baseline_source.as_ref();
    let source = baseline.unwrap_or(&problem.reference_source);
    let entry = format!("void {}(", problem.entry.name);
    assert_eq!(source.matches(&entry).count(), 1, "{}", problem.id);
    let right = source.replace(&entry, "static __attribute__((noinline)) void right(");
    let prototype = problem.entry.prototype.trim_end().trim_end_matches(';');
    let names: Vec<&str> = problem.entry.args.iter().map(|a| a.name.as_str()).collect();
    let call = names.join(", ");
    let text = format!(
        "#include <immintrin.h>\n{right}\n{prototype} {{\n    _mm_setcsr(_mm_getcsr() | 0x8040);\n    right({call});\n}}\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.c");
    std::fs::write(&path, text).unwrap();
    fixtures::built(problem, &path)
}

#[test]
fn programs_that_flush_denormals_are_refused_where_denormals_occur() {
    let _alone = fixtures::alone();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for problem in super::tried(1) {
        let has = problem
            .verify
            .distributions
            .contains(&Distribution::Denormal);
        // A transposition computes nothing, so the switch changes nothing.
        if !has || problem.id.as_str() == "transpose" {
            continue;
        }
        tried += 1;
        let object = without_denormals(&problem);
        let mut verifier = Bench::of(&problem).verifier(13);
        let refused = (0..MANY).find_map(|seed| verifier.verify(&object, seed).err());
        match &refused {
            Some(Failure::Candidate {
                fault: F::WrongResult,
                detail,
            }) if detail.contains("denormal inputs") => {}
            other => wrong.push(format!("{}: {other:?}", problem.id)),
        }
    }
    assert!(
        tried >= 10 || shipped::named().is_some(),
        "{tried} problems"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
