//! The attacks that may be measured, each with the reason why it gains nothing.

use crate::program::attacks;

/// For an attack by a process that does not sleep after its calls.
const BEFORE_THE_CLOCK: &str = "processor time that it uses before the clock starts is added to the call, and to a call of a process that is awake then all the time in which its inputs were made";

/// For an attack by a process that goes on after its answer.
const AFTER_THE_ANSWER: &str = "results are read at the answer, and processor time that it uses until it has left the core is added to the call";

/// For an attack that changes inputs of others.
const INPUTS_OF_THE_BASELINE: &str = "one call of the baseline in a burst has other inputs, of which lower quartiles show nothing, and it is refused once that call is looked at";

/// For an attack by a second thread that begins before the clock starts.
const HELPER_WAKES: &str = "processor time that it uses while inputs are made is added to the call, and most often it is refused for it";

/// For an attack by a formula that does not generate the inputs.
const FROM_THE_GENERATOR: &str = "inputs are the words of a cipher under a secret key: no two of them give the others, and all are read";

/// File, and the reason why it may be measured.
const HARMLESS: &[(&str, &str)] = &[
    ("answers_a_little_early_conv2d.c", AFTER_THE_ANSWER),
    ("answers_a_little_early_dgemv.c", AFTER_THE_ANSWER),
    ("answers_a_little_early_prefix_sum.c", AFTER_THE_ANSWER),
    ("answers_a_little_early_softmax.c", AFTER_THE_ANSWER),
    ("answers_a_little_early_transpose.c", AFTER_THE_ANSWER),
    ("asks_the_generator_who_calls.c", FROM_THE_GENERATOR),
    (
        "clock_in_a_number.c",
        "inputs are made and processes take turns between two calls, so that none follows quickly and every one does its work",
    ),
    (
        "cold_caches_for_the_next.c",
        "the walk is part of its own time, and the inputs of the next call are made after it, on the core of that call",
    ),
    (
        "conv2d_rows_that_weigh_little.c",
        "rows of images differ by ten binades at most and filters by none, so that none may be left out",
    ),
    (
        "floyd_warshall_edges_that_matter.c",
        "no length fits in a byte, so that it takes the usual way after the short one",
    ),
    (
        "floyd_warshall_unless_no_way_is_shorter.c",
        "about half of all pairs are nearer by way of others, and hardly a row is ruled out",
    ),
    ("from_the_generator_dgemv.c", FROM_THE_GENERATOR),
    ("from_the_generator_dot.c", FROM_THE_GENERATOR),
    ("from_the_generator_dsyrk.c", FROM_THE_GENERATOR),
    ("from_the_generator_transpose.c", FROM_THE_GENERATOR),
    ("from_the_generator_walsh_hadamard.c", FROM_THE_GENERATOR),
    (
        "from_the_generator_with_small_keys_dot.c",
        "it does all its work and gives a wrong result only where a seed is among the first sixteen numbers, which a random one is not",
    ),
    ("helper_wakes_by_itself.c", HELPER_WAKES),
    ("helper_wakes_by_itself_conv2d.c", HELPER_WAKES),
    ("helper_wakes_by_itself_dgemv.c", HELPER_WAKES),
    ("helper_wakes_by_itself_softmax.c", HELPER_WAKES),
    ("inputs_of_the_baseline_dgemm.c", INPUTS_OF_THE_BASELINE),
    ("inputs_of_the_baseline_dgemv.c", INPUTS_OF_THE_BASELINE),
    ("inputs_of_the_baseline_histogram.c", INPUTS_OF_THE_BASELINE),
    ("inputs_of_the_baseline_sort64.c", INPUTS_OF_THE_BASELINE),
    ("inputs_of_the_baseline_spmv.c", INPUTS_OF_THE_BASELINE),
    (
        "memory_when_loaded.c",
        "pages that nothing is written to are not taken, and the limit on memory holds for those that are",
    ),
    (
        "patches_the_kernel_page.c",
        "no clock is read in its process",
    ),
    (
        "prefix_sum_in_short_numbers.c",
        "numbers need all their bits, so that it takes the usual way",
    ),
    (
        "print_of_a_row_sum.c",
        "as long as no print comes a second time, each call does all its work and copies the result besides",
    ),
    (
        "print_of_samples.c",
        "as long as no print comes a second time, each call does all its work and copies the result besides",
    ),
    (
        "print_of_the_corners.c",
        "as long as no print comes a second time, each call does all its work and copies the result besides",
    ),
    (
        "skips_when_its_inputs_are_warm.c",
        "where no input seems warm, each call does all its work",
    ),
    (
        "skips_when_the_other_side_spins.c",
        "a process with a candidate in it always sleeps, in verification as in timing, so that it does all its work",
    ),
    (
        "slows_the_clock_for_the_next.c",
        "it is part of its own time, and where it slows the baseline by more than 8 % the ratio rests on the time of the baseline alone",
    ),
    (
        "softmax_less_a_constant.c",
        "each row has a mean of its own, so that it has to look for the largest number",
    ),
    (
        "sort64_by_guessing_places.c",
        "numbers lie on all scales, so that most of them get the same place",
    ),
    (
        "spmv_in_blocks_of_eight.c",
        "rows begin nowhere near an even spread, so that it takes the usual way",
    ),
    (
        "table_built_when_compiled.cpp",
        "the compiler makes the table before the program is timed, and the program does all its work besides",
    ),
    (
        "tells_the_harness_to_sleep.c",
        "the side that waits wakes it up, and that is time of its own call",
    ),
    (
        "winograd_where_the_first_number_is_positive.c",
        "half of the hard inputs meet its sums, which are too inexact; half of its calls do all the work, and the ratio rests on all calls",
    ),
    ("works_before_the_clock_conv2d_naps.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_dgemm_spins.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_dgemv_naps.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_dgemv_spins.c", BEFORE_THE_CLOCK),
    (
        "works_before_the_clock_prefix_sum_spins.c",
        BEFORE_THE_CLOCK,
    ),
    (
        "works_before_the_clock_prefix_sum_yields.c",
        BEFORE_THE_CLOCK,
    ),
    ("works_before_the_clock_softmax_naps.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_softmax_spins.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_softmax_yields.c", BEFORE_THE_CLOCK),
    ("works_before_the_clock_transpose_spins.c", BEFORE_THE_CLOCK),
    (
        "works_before_the_clock_transpose_yields.c",
        BEFORE_THE_CLOCK,
    ),
    (
        "works_while_it_should_sleep.c",
        "processor time that it uses while inputs are made is added to the call",
    ),
    (
        "works_while_it_should_sleep_beside_a_core.c",
        "processor time that it uses while inputs are made is added to the call",
    ),
    (
        "wrong_far_above.c",
        "wrong at the largest size only, which five candidates in six do not meet at their first look, and all before they count; at the timed size it does all its work",
    ),
];

#[test]
fn attacks_that_may_be_measured_are_listed_with_their_reason() {
    let found: Vec<String> = attacks()
        .into_iter()
        .filter(|attack| attack.may_be_measured())
        .map(|attack| attack.name.trim_start_matches("attacks/").to_owned())
        .collect();
    let listed: Vec<&str> = HARMLESS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, listed, "in the order of names");
    assert!(HARMLESS.iter().all(|(_, why)| why.len() > 20));
}

#[test]
fn attacks_that_may_be_measured_have_a_control() {
    for attack in attacks() {
        let (may, has) = (attack.may_be_measured(), attack.control.is_some());
        assert_eq!(may, has, "{}", attack.name);
    }
}
