use std::path::Path;
use std::sync::Arc;

use flopsmith_compile::toolchain::Toolchain;
use flopsmith_measure::{Purpose, Thoroughness, Verifier};
use flopsmith_problem::ErrorBound;
use flopsmith_protocol::{CandidateFault as F, Failure};
use flopsmith_test_support::skipped;

use crate::fixtures::{built, fault, harness, problem, program, sandbox, toolchain, verifier};

/// Number of candidates, at least one in six of which gets the expensive case: the probability that none gets it is one
/// in ten million.
const MANY: u64 = 90;

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
        ("wrong_between_half_and_timed.c", vec![F::WrongResult]),
        // Endless at all other sizes as well: the cheapest case comes first, and the first failure ends the
        // verification.
        ("wrong_when_small.c", vec![F::WrongResult]),
        ("nothing.c", vec![F::WrongResult]),
        ("nan.c", vec![F::WrongResult]),
        ("cached_by_pointer.c", vec![F::WrongResult]),
        ("nondeterministic.c", vec![F::Nondeterministic]),
        (
            "nondeterministic_at_timed_size.c",
            vec![F::Nondeterministic],
        ),
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
        // The drawn cases must not matter.
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
    // They did not harm the next honest program.
    verifier.verify(&program("fast.c"), 1).unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_crash_by_an_array_that_the_stack_cannot_hold_names_the_stack() {
    let _alone = crate::fixtures::alone();
    let source = "void dgemm(int n, const double *A, const double *B, double *C) {\n\
                  volatile double space[75000000];\n\
                  for (int i = 75000000 - 1; i >= 0; i -= 512) space[i] = A[0] * B[0];\n\
                  C[n] = space[n];\n}\n";
    let object = crate::fixtures::built_of(&problem(), source);
    let (found, detail) = fault(verifier(2).verify(&object, 1), "a large local array");
    assert_eq!(found, F::Crash, "{detail}");
    for part in ["573 MiB of stack", "the stack has 16 MiB"] {
        assert!(detail.contains(part), "{part} in {detail}");
    }
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
fn load_errors_are_charged_to_the_candidate() {
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
    let large = "static_data_too_large.c";
    let (found, detail) = fault(verifier.verify(&program(large), 1), large);
    assert_eq!(found, F::MemoryLimit, "{detail}");
}

#[test]
fn a_method_that_is_exact_only_beside_the_largest_element_fails_whatever_cases_are_drawn() {
    let _alone = crate::fixtures::alone();
    let strassen = program("strassen.c");
    for seed in 0..10 {
        let (found, detail) = fault(verifier(seed).verify(&strassen, 0), "strassen.c");
        assert_eq!(found, F::WrongResult, "seed {seed}: {detail}");
    }
}

/// The first refusal among many candidates; a candidate without a refusal passes.
fn refused_at_last(name: &str, expected: F) -> String {
    let mut verifier = verifier(6);
    let object = program(name);
    for seed in 0..MANY {
        match verifier.verify(&object, seed) {
            Ok(_) => {}
            Err(Failure::Candidate { fault, detail }) if fault == expected => return detail,
            Err(other) => panic!("{name}: {other}"),
        }
    }
    panic!("{name}: passed {MANY} times");
}

#[test]
fn the_largest_size_is_met_now_and_then() {
    let _alone = crate::fixtures::alone();
    let detail = refused_at_last("wrong_far_above.c", F::WrongResult);
    assert!(detail.contains("n = 512"), "{detail}");
}

#[test]
fn programs_wrong_only_at_the_largest_size_never_pass_in_full() {
    let _alone = crate::fixtures::alone();
    let object = program("wrong_far_above.c");
    let mut verifier = verifier(7);
    for seed in 0..8 {
        let verified = verifier.verify_to(&object, seed, Thoroughness::Full);
        let (found, detail) = fault(verified, "wrong_far_above.c");
        assert_eq!(found, F::WrongResult, "{detail}");
        assert!(detail.contains("n = 512"), "{detail}");
    }
    let honest = verifier.verify_to(&program("fast.c"), 1, Thoroughness::Full);
    assert!(honest.is_ok(), "{honest:?}");
}

/// Right at the seven other sizes, some of which are drawn for a candidate.
#[test]
fn programs_wrong_at_one_of_few_sizes_never_count() {
    let _alone = crate::fixtures::alone();
    let object = program("wrong_at_one_size_of_eight.c");
    let mut verifier = verifier(8);
    for seed in 0..4 {
        for thoroughness in [Thoroughness::Full, Thoroughness::OtherLayout] {
            let verified = verifier.verify_to(&object, seed, thoroughness);
            let (found, detail) = fault(verified, "wrong_at_one_size_of_eight.c");
            assert_eq!(found, F::WrongResult, "{detail}");
            assert!(detail.contains("n = 448"), "{detail}");
        }
    }
    let honest = program("fast.c");
    let full = verifier.verify_to(&honest, 1, Thoroughness::Full).unwrap();
    let met = full.sizes.map(|sizes| sizes.to_string());
    assert_eq!(met.as_deref(), Some("all 8 sizes"));
    let screened = verifier.verify(&honest, 1).unwrap();
    assert_eq!(screened.sizes, None);
}

/// `lu` with at most this many rows.
fn lu_up_to(most: i64) -> Arc<flopsmith_problem::Problem> {
    let mut lu = Arc::unwrap_or_clone(crate::fixtures::shipped("lu"));
    lu.timed.insert("n".to_owned(), 48);
    lu.verify.hidden[0].max = most;
    Arc::new(lu)
}

/// If there are many sizes, more than the verifier draws, and small enough to have time for all.
#[test]
fn programs_wrong_at_one_of_many_sizes_never_count() {
    let _alone = crate::fixtures::alone();
    let lu = lu_up_to(120);
    let toolchain = Toolchain::detect(None, &lu).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lu.c");
    let honest = lu.reference_source.trim_end();
    let body = honest.strip_suffix('}').unwrap();
    let wrong = format!("{body}    if (n == 101) LU[0] = 0.0;\n}}\n");
    std::fs::write(&source, wrong).unwrap();
    let object = built(&lu, &source);
    let mut verifier =
        Verifier::new(sandbox(), harness(), lu.clone(), &toolchain, [12; 32]).unwrap();
    for seed in 0..3 {
        let verified = verifier.verify_to(&object, seed, Thoroughness::Full);
        let (found, detail) = fault(verified, "lu.c");
        assert_eq!(found, F::WrongResult, "{detail}");
        assert!(detail.contains("n = 101"), "{detail}");
    }
    std::fs::write(&source, &lu.reference_source).unwrap();
    let honest = verifier.verify_to(&built(&lu, &source), 1, Thoroughness::Full);
    let sizes = honest.unwrap().sizes.unwrap();
    assert_eq!(sizes.to_string(), "all 120 sizes");
    assert_eq!((sizes.one_in, sizes.probability), (None, None), "{sizes}");
}

/// A program that is slow at some sizes does not keep the verifier from the others, whether the verifier refuses it for
/// that or not.
#[test]
fn nobody_escapes_verification_by_being_slow_at_untimed_sizes() {
    let _alone = crate::fixtures::alone();
    let mut lu = Arc::unwrap_or_clone(crate::fixtures::shipped("lu"));
    lu.verify.hidden[0].max = 130;
    let lu = Arc::new(lu);
    let toolchain = Toolchain::detect(None, &lu).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("lu.c");
    let honest = lu.reference_source.trim_end();
    let body = honest.strip_suffix('}').unwrap();
    // The limit of a single call is a second, and ninety sizes have ten.
    let slow = format!(
        "{body}    if (n > 30 && n < 128)\n        for (volatile int i = 0; i < 200000000; i++) ;\n}}\n"
    );
    std::fs::write(&source, slow).unwrap();
    let object = built(&lu, &source);
    let mut verifier = Verifier::new(sandbox(), harness(), lu, &toolchain, [13; 32]).unwrap();
    match verifier.verify_to(&object, 1, Thoroughness::Full) {
        Ok(report) => {
            let sizes = report.sizes.unwrap();
            assert!(sizes.one_in.is_none_or(|n| n >= 20), "{sizes}");
        }
        refused => assert_eq!(fault(refused, "lu.c").0, F::Timeout),
    }
}

#[test]
fn where_there_are_many_sizes_it_is_said_how_many_were_met_and_what_that_shows() {
    let _alone = crate::fixtures::alone();
    let dot = crate::fixtures::shipped("dot");
    let toolchain = Toolchain::detect(None, &dot).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("dot.c");
    std::fs::write(&source, &dot.reference_source).unwrap();
    let object = built(&dot, &source);
    let mut verifier = Verifier::new(sandbox(), harness(), dot, &toolchain, [11; 32]).unwrap();
    let full = verifier.verify_to(&object, 1, Thoroughness::Full).unwrap();
    let sizes = full.sizes.unwrap();
    assert_eq!((sizes.legal, sizes.one_in), (300_000, Some(20)), "{sizes}");
    assert_eq!(sizes.probability, Some(0.99), "{sizes}");
    assert!((90..=110).contains(&sizes.met), "{sizes}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn programs_that_flush_denormals_are_refused() {
    let _alone = crate::fixtures::alone();
    let detail = refused_at_last("denormals_are_zero.c", F::WrongResult);
    assert!(detail.contains("denormal inputs"), "{detail}");
}

#[test]
fn a_close_miss_is_told_with_its_place_and_the_bound_it_would_keep() {
    let _alone = crate::fixtures::alone();
    let object = program("close_miss.c");
    let with = |c: f64, seed: u8| {
        let mut problem = Arc::unwrap_or_clone(problem());
        problem.bound = ErrorBound::Gemm { c };
        let problem = Arc::new(problem);
        Verifier::new(sandbox(), harness(), problem, &toolchain(), [seed; 32])
            .unwrap()
            .verify(&object, 1)
    };
    // In a row of zeros a billionth of the element is nothing; other seeds have other rows.
    let refused = (0..8).find_map(|seed| with(4.0, seed).err().map(|failure| (seed, failure)));
    let (seed, failure) = refused.unwrap();
    let (found, detail) = fault(Err::<(), _>(failure), "close_miss.c");
    assert_eq!(found, F::WrongResult, "{detail}");
    for part in [
        "n = 192, ",
        "1 of 36864 elements are wrong",
        "worst is row 3, column 5: ",
        " instead of ",
        " times the permitted error",
        " in the bound instead of 4",
    ] {
        assert!(detail.contains(part), "{part:?} in {detail}");
    }
    let (_, rest) = detail.split_once("it would pass with c = ").unwrap();
    let c: f64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!(c > 4.0, "{detail}");
    // Four digits show this difference; the same seeds give the same cases.
    assert!(with(c * 0.99, seed).is_err(), "{detail}");
    let passed = with(c * 1.01, seed).unwrap_or_else(|e| panic!("{detail}, but: {e}"));
    assert!(passed.worst_error_share > 0.9, "{passed:?}");
}

/// A verifier that refuses them would take the order of additions for an error.
#[test]
fn sums_of_several_threads_may_have_other_bits_but_must_be_right() {
    let _alone = crate::fixtures::alone();
    let dot = crate::fixtures::shipped("dot");
    let toolchain = Toolchain::detect(None, &dot).unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/programs");
    let object = built(&dot, &programs.join("sum_by_threads.c"));
    let verifier = Verifier::new(sandbox(), harness(), dot, &toolchain, [9; 32]).unwrap();
    let mut verifier = verifier.for_threads(4);
    for seed in 0..12 {
        let verified = verifier.verify_to(&object, seed, Thoroughness::Full);
        verified.unwrap_or_else(|e| panic!("{seed}: {e}"));
    }
    // Randomness alone must not change bits, with any number of threads.
    let object = program("nondeterministic.c");
    let mut verifier = crate::fixtures::verifier(9).for_threads(4);
    let found = (0..4).map(|seed| verifier.verify_to(&object, seed, Thoroughness::Full));
    let refused = found.filter(|verified| verified.is_err()).count();
    assert!(refused > 0);
}

#[test]
fn a_candidate_has_as_many_threads_as_it_will_be_timed_with() {
    let _alone = crate::fixtures::alone();
    let object = program("right_with_three_threads.c");
    let (found, detail) = fault(verifier(8).verify(&object, 1), "two threads");
    assert_eq!(found, F::WrongResult, "{detail}");
    for (threads, passes) in [(1, false), (3, true)] {
        let passed = verifier(8).for_threads(threads).verify(&object, 1);
        assert_eq!(passed.is_ok(), passes, "{threads}: {passed:?}");
    }
}

/// A verifier whose candidates get other numbers of cores than a timer's lets them tell the two apart.
#[test]
fn a_candidate_has_as_many_cores_as_it_will_be_timed_on() {
    let _alone = crate::fixtures::alone();
    let allowed = flopsmith_machine::pinning::allowed_cores();
    if allowed.len() < 2 {
        skipped("two threads need two cores");
        return;
    }
    let object = program("right_on_as_many_cores_as_threads.c");
    for threads in [1, 2] {
        let passed = verifier(8).for_threads(threads).verify(&object, 1);
        passed.unwrap_or_else(|e| panic!("{threads} threads, verified: {e}"));
        let cores = flopsmith_machine::Cores {
            supervisor: None,
            kernel: allowed[..threads as usize].to_vec(),
        };
        let (problem, toolchain) = (problem(), toolchain());
        let rough = crate::fixtures::ROUGH;
        let timer = crate::fixtures::rough_timer(problem, &toolchain, cores, threads, rough);
        let timed = timer.unwrap().measure(&object, Purpose::Screen, 1, None);
        if let Err(failure) = timed {
            panic!("{threads} threads, timed: {failure}");
        }
    }
}

#[test]
fn a_candidate_is_verified_with_each_number_of_threads_that_it_will_be_timed_with() {
    let _alone = crate::fixtures::alone();
    let object = program("right_with_one_or_three_threads.c");
    // The buffers that hold every case have the largest number of threads.
    let of_three = || verifier(8).for_threads(3);
    let cases = |mut verifier: Verifier| verifier.verify(&object, 1).unwrap().cases;
    assert!(cases(of_three().for_threads(1)) > cases(of_three()));
    let (found, detail) = fault(of_three().for_threads(2).verify(&object, 1), "two threads");
    assert_eq!(found, F::WrongResult, "{detail}");
}
