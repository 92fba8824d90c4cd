//! The numbers of a measurement for comparisons with other programs.
#![expect(clippy::unwrap_used, reason = "tests")]

use flopsmith_test_support::Measured;

#[test]
fn an_unconverged_measurement_counts_by_the_slow_end_of_its_interval() {
    let sure = Measured::at(40.0).se(0.1).measurement();
    assert_eq!(sure.known_gflops(), sure.gflops);
    assert_eq!(sure.known_ratio(), sure.ratio);
    assert_eq!(sure.known_seconds_per_call(), Some(sure.seconds_per_call));

    let unsure = Measured::at(40.0).se(0.1).unconverged().measurement();
    let share = (-1.96f64 * 0.1).exp();
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
    assert!(near(unsure.known_gflops(), share * sure.gflops));
    assert!(near(unsure.known_ratio(), share * sure.ratio));
    let seconds = unsure.known_seconds_per_call().unwrap();
    assert!(near(seconds, sure.seconds_per_call / share));
}

#[test]
fn nothing_is_known_of_a_measurement_without_an_error() {
    let unknown = Measured::at(40.0).se(f64::NAN).unconverged().measurement();
    assert_eq!((unknown.known_gflops(), unknown.known_ratio()), (0.0, 0.0));
    assert_eq!(unknown.known_seconds_per_call(), None);
}
