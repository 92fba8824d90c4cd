//! Programs that make their own rounds disagree.

use rand::Rng;

use super::*;

/// Share of calls that such a program makes fast: some more than the floor needs.
const FAST: f64 = 0.0625;
/// Measurements with each kind of pauses.
const TRIES: u64 = 20;

/// A measurement of a program that needs half of the time for a few calls and pauses at random in all others. A pause is
/// at most as long as a call. It is the same in all calls of a burst, or drawn for each call.
fn with_pauses(equal_in_a_burst: bool, limits: Limits, seed: u64) -> Finished {
    let mut world = World::new(&[Part::Jitter(0.01)], seed);
    let mut luck = ChaCha8Rng::seed_from_u64(seed ^ 0xfa57);
    let mut order = ChaCha8Rng::seed_from_u64(!seed);
    let mut course = Course::new(limits, None);
    while let Some(turn) = course.next_turn(&mut order) {
        let seconds = match turn.who {
            Who::Baseline => world.burst(turn.who, CALL * TRUTH.exp(), turn.calls),
            Who::Candidate => {
                let of_burst: f64 = luck.random();
                let mut seconds = world.burst(turn.who, CALL, turn.calls);
                for call in &mut seconds {
                    let of_call: f64 = luck.random();
                    let pause = if equal_in_a_burst { of_burst } else { of_call };
                    *call *= if luck.random::<f64>() < FAST {
                        0.5
                    } else {
                        1.0 + pause
                    };
                }
                seconds
            }
        };
        course.saw(turn, seconds, Duration::ZERO);
    }
    course.finish().expect("a measurement that has ended")
}

#[test]
fn a_program_that_is_fast_in_a_few_calls_gains_nothing_by_pauses_in_the_others() {
    for limits in [Limits::SECOND_LOOK, Purpose::Rank.limits()] {
        for equal_in_a_burst in [true, false] {
            for seed in 0..TRIES {
                let found = with_pauses(equal_in_a_burst, limits, seed).estimate;
                // Its calls take [`CALL`] at least, except for the few fast ones.
                assert!(found.log_ratio <= TRUTH + 0.02, "seed {seed}: {found:?}");
            }
        }
    }
}
