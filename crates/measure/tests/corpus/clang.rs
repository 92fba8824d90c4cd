//! The same programs in C and C++, built by clang: honest programs are measured, and no attack gains anything. A commit tries half
//! as many as with gcc.

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_problem::Language;
use flopsmith_protocol::Verdict;
use flopsmith_test_support::skipped;

use crate::program::{Expected, Program, attacks, gains_nothing, honest};
use crate::stages::{Stages, first_looks};
use crate::{Log, RUN, fixtures, sampled_to_run, words};

const CLANG: &str = "clang";

/// Minimum number of programs for clang.
const AT_LEAST: usize = 240;

/// A plain program with OpenMP. It shows whether the library that clang links works in the jail: libraries before LLVM
/// 17 end a program that has no `/dev/shm`.
const THREADS: &str = "honest/openmp.c";

#[test]
fn programs_built_by_clang_get_their_verdict() {
    if let Err(why) = Toolchain::detect(Some(CLANG), &fixtures::problem()) {
        skipped(&why.to_string());
        return;
    }
    let _alone = fixtures::alone();
    let cores = flopsmith_machine::pinning::allowed_cores().len();
    let mut stages = Stages::with(CLANG);
    let honest = honest();
    let threads = honest.iter().find(|program| program.name == THREADS);
    let threads = stages.judge(threads.unwrap());
    let has_openmp = matches!(threads.verdict, Verdict::Measured { .. });
    if !has_openmp {
        let why = words(&threads);
        skipped(&format!("OpenMP as {CLANG} links it: {why}"));
    }
    let attacks = attacks();
    let honest = honest
        .iter()
        .filter(|program| has_openmp || !uses_openmp(&program.source));
    let programs = honest.chain(&attacks);
    let mut programs: Vec<&Program> = programs
        .filter(|program| is_for_clang(program) && program.can_run(cores))
        .collect();
    assert!(programs.len() >= AT_LEAST, "{} programs", programs.len());
    programs = sampled_to_run(programs, 2 * RUN);
    // All programs of a problem that follow each other share one bench.
    programs.sort_by(|a, b| (&a.problem, a.threads).cmp(&(&b.problem, b.threads)));
    let mut wrong = Vec::new();
    let mut log = Log::of("clang");
    let looks = first_looks(Some(CLANG), &programs);
    for (program, look) in programs.into_iter().zip(looks) {
        let ended = stages.judge_after(look, program);
        let text = words(&ended);
        log.line(&format!("{}: {text}", program.name));
        // If one compiler refuses a program, the audit of the other compiler's object may refuse it, and a trick that
        // depends on gcc's code layout may have no effect here. A refused program gains nothing, and neither does one
        // that is no faster than its honest work.
        let harmless = matches!(program.expected, Expected::Refused { .. })
            && (matches!(ended.verdict, Verdict::Rejected { .. }) || gains_nothing(&ended));
        if !harmless && !program.expected.holds(&ended) {
            let expected = &program.expected;
            wrong.push(format!("{}: expected {expected}, was {text}", program.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} programs did not end as they say:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn uses_openmp(source: &str) -> bool {
    ["omp ", "omp.h", "omp_"]
        .iter()
        .any(|word| source.contains(word))
}

fn is_for_clang(program: &Program) -> bool {
    matches!(program.language, Language::C | Language::Cxx)
        && !program.needs.iter().any(|need| need == "gcc")
}
