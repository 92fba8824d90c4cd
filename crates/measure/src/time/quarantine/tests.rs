#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;

/// The usual floor of these tests, seconds.
const FLOOR: f64 = 1e-3;

/// Half a core second, with these shares used by the hypervisor and by other processes.
fn around(stolen: f64, others: f64) -> Surroundings {
    Surroundings {
        core_seconds: 0.5,
        stolen: 0.5 * stolen,
        others: 0.5 * others,
        ..Surroundings::default()
    }
}

/// A machine and its clock.
struct Machine {
    quarantine: Quarantine,
    now: Duration,
}

impl Machine {
    /// One that has measured for a while.
    fn quiet() -> Self {
        let mut machine = Self {
            quarantine: Quarantine::default(),
            now: Duration::ZERO,
        };
        for n in 0..40 {
            let scatter = 1.0 + 0.01 * f64::from(n % 3);
            assert_eq!(machine.measures(100, scatter, around(0.0, 0.0)), None);
        }
        assert_eq!(machine.quarantine.state(), State::Idle);
        machine
    }

    fn measures(&mut self, after_ms: u64, times: f64, around: Surroundings) -> Option<Change> {
        self.now += Duration::from_millis(after_ms);
        self.quarantine.measured(self.now, times * FLOOR, &around)
    }

    fn canary(&mut self, times: f64, stolen: f64) -> Option<Change> {
        self.now += Duration::from_millis(800);
        self.quarantine
            .canary(self.now, times * FLOOR, &around(stolen, 0.0))
    }

    /// Measures until a quarantine begins, and returns the number of measurements.
    fn suffers(&mut self, after_ms: u64, times: f64, stolen: f64) -> u32 {
        for n in 1..1000 {
            if let Some(change) = self.measures(after_ms, times, around(stolen, 0.0)) {
                assert!(matches!(change, Change::Entered { .. }), "{change}");
                assert!(self.quarantine.state().is_quarantine());
                return n;
            }
            let state = self.quarantine.state();
            assert!(matches!(state, State::Disturbed { .. }), "{state:?}");
        }
        unreachable!("it never ends")
    }
}

#[test]
fn a_burst_of_a_second_is_forgiven() {
    let mut machine = Machine::quiet();
    for _ in 0..20 {
        assert_eq!(machine.measures(50, 1.6, around(0.0, 0.9)), None);
        let why = machine.quarantine.state().why().unwrap();
        assert!(matches!(why, Why::Slower { .. }), "{why}");
    }
    assert_eq!(machine.measures(50, 1.0, around(0.0, 0.0)), None);
    assert_eq!(machine.quarantine.state(), State::Idle);
    // Slow floors are no part of the usual one.
    assert!(machine.quarantine.drift(FLOOR).unwrap().abs() < 0.02);
}

#[test]
fn a_neighbour_that_stays_makes_a_quarantine_until_it_is_gone() {
    let mut machine = Machine::quiet();
    let many = machine.suffers(500, 1.6, 0.0);
    assert_eq!(many, MEASUREMENTS);
    for times in [1.5, 1.2, 1.0, 1.0, 1.4, 1.0, 1.0] {
        assert_eq!(machine.canary(times, 0.0), None, "{times}");
    }
    let change = machine.canary(1.0, 0.0);
    let after = Duration::from_millis(8 * 800);
    assert_eq!(change, Some(Change::Left { after }));
    assert_eq!(machine.quarantine.state(), State::Idle);
    assert_eq!(machine.measures(100, 1.0, around(0.0, 0.0)), None);
    assert_eq!(machine.suffers(500, 1.6, 0.0), MEASUREMENTS);
}

#[test]
fn a_level_that_lasts_is_the_new_normal() {
    let mut machine = Machine::quiet();
    machine.suffers(500, 1.4, 0.0);
    let changes: Vec<Change> = (0..STEADY_CANARIES)
        .filter_map(|_| machine.canary(1.4, 0.0))
        .collect();
    let [Change::Adopted { times, .. }] = changes[..] else {
        unreachable!("{changes:?}");
    };
    assert!((1.35..1.45).contains(&times), "{times}");
    for _ in 0..100 {
        assert_eq!(machine.measures(500, 1.4, around(0.0, 0.0)), None);
        assert_eq!(machine.quarantine.state(), State::Idle);
    }
    // A faster machine needs no quarantine to be accepted.
    assert_eq!(machine.measures(500, 1.0, around(0.0, 0.0)), None);
    assert_eq!(machine.quarantine.state(), State::Idle);
}

#[test]
fn repeated_slow_baselines_take_ever_more_calls_to_start_a_quarantine() {
    let mut machine = Machine::quiet();
    let mut before = 0;
    for round in 0..4 {
        let many = machine.suffers(500, 1.4, 0.0);
        assert!(many > before, "round {round}: {many} after {before}");
        before = many;
        // Nothing is wrong once the other processes are gone.
        assert_eq!(machine.canary(1.0, 0.0), None);
        assert_eq!(machine.canary(1.0, 0.0), None);
        let left = machine.canary(1.0, 0.0);
        assert!(matches!(left, Some(Change::Left { .. })), "{left:?}");
    }
}

#[test]
fn stolen_time_is_put_up_with_where_it_never_ends() {
    let mut machine = Machine::quiet();
    machine.suffers(500, 1.0, 0.2);
    let why = machine.quarantine.state().why().unwrap();
    assert!(why.to_string().contains("hypervisor takes 20 %"), "{why}");
    let changes: Vec<Change> = (0..STEADY_CANARIES)
        .filter_map(|_| machine.canary(1.0, 0.2))
        .collect();
    assert!(
        matches!(changes[..], [Change::Adopted { .. }]),
        "{changes:?}"
    );
    for _ in 0..100 {
        assert_eq!(machine.measures(500, 1.0, around(0.22, 0.0)), None);
    }
    assert_eq!(machine.quarantine.state(), State::Idle);
    machine.suffers(500, 1.0, 0.5);
}

#[test]
fn use_by_other_processes_is_reported_and_stops_no_measurement() {
    let mut machine = Machine::quiet();
    for _ in 0..100 {
        assert_eq!(machine.measures(500, 1.05, around(0.0, 0.8)), None);
        let state = machine.quarantine.state();
        let State::Disturbed { why } = state else {
            unreachable!("{state:?}");
        };
        assert_eq!(
            why.to_string(),
            "other processes use 80 % of the timed cores"
        );
    }
    let beside = Surroundings {
        core_seconds: 1.0,
        sibling_seconds: 1.0,
        sibling_busy: 0.5,
        ..Surroundings::default()
    };
    assert_eq!(machine.measures(500, 1.0, beside), None);
    let why = machine.quarantine.state().why().unwrap();
    assert_eq!(why, Why::Beside { share: 0.5 });
}

#[test]
fn a_timer_that_gives_up_adopts_the_current_state_of_the_machine() {
    let mut machine = Machine::quiet();
    assert_eq!(machine.quarantine.go_on(machine.now), None);
    machine.suffers(500, 2.0, 0.0);
    let change = machine.quarantine.go_on(machine.now);
    assert!(matches!(change, Some(Change::Adopted { .. })), "{change:?}");
    let state = machine.quarantine.state();
    assert!(matches!(state, State::Disturbed { .. }), "{state:?}");
    assert_eq!(machine.measures(500, 2.0, around(0.0, 0.0)), None);
    assert_eq!(machine.quarantine.state(), State::Idle);
}

#[test]
fn a_timer_that_is_new_knows_nothing_and_floors_that_are_none_say_nothing() {
    let mut quarantine = Quarantine::default();
    assert_eq!(quarantine.drift(FLOOR), None);
    for n in 0..4u32 {
        let floor = FLOOR * f64::from(n + 1);
        let now = Duration::from_secs(u64::from(n));
        assert_eq!(quarantine.measured(now, floor, &around(0.0, 0.0)), None);
        assert_eq!(quarantine.drift(FLOOR), None);
    }
    let now = Duration::from_secs(9);
    for floor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(quarantine.measured(now, floor, &around(0.0, 0.0)), None);
    }
    assert_eq!(quarantine.drift(FLOOR), None);
    assert_eq!(quarantine.measured(now, FLOOR, &around(0.0, 0.0)), None);
    assert!(quarantine.drift(FLOOR).is_some());
}

/// Floors as multiples of the usual one, the hypervisor's share, and milliseconds since the one before.
fn anything() -> impl Strategy<Value = Vec<(f64, f64, u64)>> {
    prop::collection::vec((0.3..4.0f64, 0.0..0.6f64, 0..3000u64), 0..200)
}

proptest! {
    #[test]
    fn floors_that_scatter_by_a_tenth_are_never_a_reason(
        floors in prop::collection::vec((0.9..1.1f64, 0..3000u64), 0..200)
    ) {
        let mut machine = Machine { quarantine: Quarantine::default(), now: Duration::ZERO };
        for (times, after) in floors {
            prop_assert_eq!(machine.measures(after, times, around(0.0, 0.0)), None);
            prop_assert_eq!(machine.quarantine.state(), State::Idle);
        }
    }

    #[test]
    fn a_quarantine_begins_after_nothing_but_trouble_for_long_enough(events in anything()) {
        let mut machine = Machine { quarantine: Quarantine::default(), now: Duration::ZERO };
        let mut since = None;
        let mut count = 0;
        for (times, stolen, after) in events {
            let change = machine.measures(after, times, around(stolen, 0.0));
            let troubled = machine.quarantine.state() != State::Idle;
            if change.is_some_and(|c| matches!(c, Change::Entered { .. })) {
                let began: Duration = since.unwrap_or(machine.now);
                prop_assert!(count + 1 >= MEASUREMENTS);
                prop_assert!(machine.now - began >= LASTING);
            }
            // No other process runs here, so any disturbance may become a quarantine.
            if troubled && !machine.quarantine.state().is_quarantine() {
                count += 1;
                since = since.or(Some(machine.now));
            } else {
                count = 0;
                since = None;
            }
        }
    }

    #[test]
    fn a_steady_machine_leaves_quarantine_soon_after_any_events(
        events in anything(),
        times in 0.3..4.0f64,
        stolen in 0.0..0.6f64,
    ) {
        let mut machine = Machine { quarantine: Quarantine::default(), now: Duration::ZERO };
        for (times, stolen, after) in events {
            machine.measures(after, times, around(stolen, 0.0));
        }
        let mut canaries = 0;
        while machine.quarantine.state().is_quarantine() {
            machine.canary(times, stolen);
            canaries += 1;
            prop_assert!(canaries <= STEADY_CANARIES);
        }
    }

    #[test]
    fn giving_up_ends_the_quarantine_after_any_events(events in anything()) {
        let mut machine = Machine { quarantine: Quarantine::default(), now: Duration::ZERO };
        for (times, stolen, after) in events {
            machine.measures(after, times, around(stolen, 0.0));
            let waited = machine.quarantine.state().is_quarantine();
            let change = machine.quarantine.go_on(machine.now);
            prop_assert_eq!(waited, change.is_some());
            prop_assert!(!machine.quarantine.state().is_quarantine());
        }
    }
}
