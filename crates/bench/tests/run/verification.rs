use flopsmith_protocol::CandidateFault as F;

use crate::fixtures::{fault, program, verifier};

#[test]
fn honest_programs_pass() {
    let _alone = crate::fixtures::alone();
    let mut verifier = verifier(1);
    for name in ["fast.c", "naive.c", "ikj.c", "malloc.c"] {
        let object = program(name);
        let mut seconds = Vec::new();
        for seed in 0..4 {
            let report = verifier
                .verify(&object, seed)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                report.worst_error_share <= 1.0 && report.cases >= 4,
                "{name}: {report:?}"
            );
            seconds.push(report.seconds);
        }
        let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        eprintln!("{name}: verified in {:.1} ms at best", best * 1e3);
    }
}

#[test]
fn programs_that_misbehave_get_their_reason() {
    let _alone = crate::fixtures::alone();
    let mut verifier = verifier(2);
    let zoo = [
        ("wrong.c", vec![F::WrongResult]),
        ("single_precision.c", vec![F::WrongResult]),
        ("strassen.c", vec![F::WrongResult]),
        ("wrong_above_timed_size.c", vec![F::WrongResult]),
        ("wrong_below_timed_size.c", vec![F::WrongResult]),
        ("nothing.c", vec![F::WrongResult]),
        ("nan.c", vec![F::WrongResult]),
        ("cached_by_pointer.c", vec![F::WrongResult]),
        ("nondeterministic.c", vec![F::Nondeterministic]),
        ("behind_the_end.c", vec![F::OutOfBounds]),
        ("before_the_start.c", vec![F::OutOfBounds]),
        ("far_outside.c", vec![F::Crash]),
        ("reads_behind_the_end.c", vec![F::Crash, F::WrongResult]),
        ("changes_input.c", vec![F::InputModified]),
        ("changes_input_back.c", vec![F::InputModified]),
        ("loops.c", vec![F::Timeout]),
        ("crashes.c", vec![F::Crash]),
        ("divides_by_zero.c", vec![F::Crash]),
        ("aborts.c", vec![F::Crash]),
        ("recursion.c", vec![F::Crash]),
        ("exits.c", vec![F::Exited]),
        ("forks.c", vec![F::ForbiddenSyscall]),
        ("opens_a_file.c", vec![F::ForbiddenSyscall]),
        ("opens_a_socket.c", vec![F::ForbiddenSyscall]),
        ("makes_code.c", vec![F::ForbiddenSyscall]),
        ("memory_bomb.c", vec![F::MemoryLimit, F::Crash]),
        ("thread_left_running.c", vec![F::LeftRunning]),
    ];
    for (name, expected) in zoo {
        let object = program(name);
        // Which cases are drawn must not matter.
        for seed in 0..3 {
            let (found, detail) = fault(verifier.verify(&object, seed), name);
            assert!(expected.contains(&found), "{name}: {found} ({detail})");
            assert!(
                !detail.is_empty() && detail.len() < 4000,
                "{name}: {detail}"
            );
            if seed == 0 {
                eprintln!("{name}: {found}: {detail}");
            }
        }
    }
    // Whatever they did, the next honest program is not harmed.
    verifier.verify(&program("fast.c"), 1).unwrap();
}

#[test]
fn new_secret_cases_are_as_good() {
    let _alone = crate::fixtures::alone();
    let mut verifier = verifier(3);
    verifier.refresh().unwrap();
    verifier.verify(&program("fast.c"), 1).unwrap();
    assert_eq!(
        fault(verifier.verify(&program("nothing.c"), 1), "nothing.c").0,
        F::WrongResult
    );
}

#[test]
fn what_cannot_be_loaded_is_the_candidates_fault() {
    let _alone = crate::fixtures::alone();
    let mut verifier = verifier(4);
    assert_eq!(
        fault(verifier.verify(&program("no_entry.c"), 1), "no_entry.c").0,
        F::MissingEntry
    );
    assert_eq!(
        fault(
            verifier.verify(&program("unknown_symbol.c"), 1),
            "unknown_symbol.c"
        )
        .0,
        F::ForbiddenSymbol
    );
}

#[test]
fn a_method_that_is_exact_only_beside_the_largest_element_fails_whatever_cases_are_drawn() {
    let _alone = crate::fixtures::alone();
    let strassen = program("strassen.c");
    for seed in 0..20 {
        let (found, detail) = fault(verifier(seed).verify(&strassen, 0), "strassen.c");
        assert_eq!(found, F::WrongResult, "seed {seed}: {detail}");
    }
}
