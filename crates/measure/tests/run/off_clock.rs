//! Work outside of the clock: before it starts, after the answer, and while the baseline has its turn.

use std::sync::Arc;

use flopsmith_measure::{Purpose, Timer};
use flopsmith_problem::Problem;
use flopsmith_protocol::{CandidateFault as F, Failure, Measurement};
use flopsmith_test_support::sample::Part;
use flopsmith_test_support::skipped;

use crate::fixtures::{self, alone, fault};

/// Each commit tries one in this many kinds of short calls.
const SHORT: usize = 2;

/// A process that does not sleep does five sixths of each call's work before its clock starts. Calls take 10 to 30 µs:
/// in longer ones, the work that fits into the permitted wake-up time is no visible gain.
#[test]
fn short_calls_gain_nothing_by_work_before_the_clock_starts() {
    let _alone = alone();
    if fixtures::cores().supervisor.is_none() {
        skipped("calls are timed by spinning only where there are two cores");
        return;
    }
    let kinds = [
        ("conv2d", "h = 48\nw = 96\nk = 5", &["naps"][..]),
        ("dgemm", "n = 64", &["spins"]),
        ("dgemv", "m = 240\nn = 240", &["naps"]),
        ("prefix_sum", "n = 96000", &["spins", "yields"]),
        ("softmax", "m = 24\nn = 128", &["naps", "spins", "yields"]),
        ("transpose", "m = 192\nn = 192", &["yields"]),
    ];
    for (problem, timed, ways) in Part::of_commit(SHORT).of(kinds) {
        gains_nothing(problem, timed, ways, fixtures::cores(), 1.1);
    }
}

/// The supervisor has its own core and does not spin there, like on two hardware threads of one core: the kernel's core
/// is free from the filler's last byte until the supervisor has woken up.
#[test]
fn short_calls_gain_nothing_by_work_before_the_clock_starts_where_both_sides_sleep() {
    let _alone = alone();
    let mut cores = fixtures::cores();
    if cores.supervisor.take().is_none() {
        skipped("the supervisor shares the only core");
        return;
    }
    // Waking up takes up to four times as long as such a call. A program that need not be woken up pays the upper quartile of what the
    // baseline's calls take for it, which is no less than most calls of a program that sleeps. But waking up differs from process to process:
    // calls of one honest program were measured to take 42 to 65 µs. The possible gain is a factor of six.
    let most = 2.0;
    gains_nothing(
        "softmax",
        "m = 24\nn = 128",
        &["spins", "yields", "naps"],
        cores,
        most,
    );
}

/// No program of the corpus that begins early in one of these ways is `most` times as fast as the same program without it.
fn gains_nothing(
    problem: &str,
    timed: &str,
    ways: &[&str],
    cores: flopsmith_machine::Cores,
    most: f64,
) {
    let problem = fixtures::timed_at(problem, timed);
    let toolchain = flopsmith_compile::Toolchain::detect(None, &problem).unwrap();
    let mut timer = Timer::new(
        fixtures::sandbox(),
        fixtures::harness(),
        Arc::clone(&problem),
        &toolchain,
        cores,
        1,
    )
    .unwrap();
    let early = |way: &str| format!("works_before_the_clock_{}_{way}.c", problem.id);
    let honest = fixtures::control_of(&problem, &early(ways[0]));
    // Waking up differs from process to process.
    let one = ranked(&mut timer, "honest", &honest).unwrap();
    let other = ranked(&mut timer, "honest", &honest).unwrap();
    let honest = if one.ratio > other.ratio { one } else { other };
    for way in ways {
        let object = fixtures::program_of(&problem, &early(way));
        // Processes of one program differ by some per cent; the possible gain here is a factor of six.
        if let Some(gained) = unless_refused(ranked(&mut timer, way, &object), way) {
            assert!(gained.interval.low < most * honest.interval.high);
            if least_seen(1.0, &gained, &honest) > 2.0 {
                skipped(&format!(
                    "{}, {way}: the intervals are too wide to see the possible gain",
                    problem.id
                ));
            }
        }
    }
}

/// Ranks a program, and prints how it did.
fn ranked(timer: &mut Timer, what: &str, object: &[u8]) -> Result<Measurement, Failure> {
    let timed = timer.measure(object, Purpose::Rank, 1, None)?;
    let raw: serde_json::Value = serde_json::from_slice(&timed.raw).unwrap();
    let charged = raw["charged_seconds"].as_f64().unwrap();
    let m = timed.measurement;
    eprintln!(
        "{what}: {:.2} µs, {:.3} times the reference, [{:.3}, {:.3}], {:?}, {charged:.6} s charged",
        m.seconds_per_call * 1e6,
        m.ratio,
        m.interval.low,
        m.interval.high,
        m.stop
    );
    Ok(m)
}

/// The numbers of a program that works before the clock starts; none if it is refused for that.
fn unless_refused(ranked: Result<Measurement, Failure>, way: &str) -> Option<Measurement> {
    match ranked {
        Ok(measurement) => Some(measurement),
        refused => {
            let (fault, detail) = fault(refused, way);
            assert!(
                [F::LeftRunning, F::SkippedWork].contains(&fault),
                "{detail}"
            );
            eprintln!("{way}: {detail}");
            None
        }
    }
}

/// Two rankings of one program differ by this factor at most, beside their intervals: each is within one per cent of the
/// truth (`examples/self_ratio`).
const SAME: f64 = 1.02;

/// The least gain that a measurement has to show. Work before the clock makes these programs up to five times as fast,
/// and an early answer saves a third of a call.
const SEEN: f64 = 1.2;

/// The least ratio of `early` to `honest` at which the lower end of its interval is above `factor` times the upper end
/// of the other.
fn least_seen(factor: f64, early: &Measurement, honest: &Measurement) -> f64 {
    factor * (honest.interval.high / honest.ratio) * (early.ratio / early.interval.low)
}

/// A fast program, and those of the corpus that work outside of the clock.
struct Fast {
    problem: &'static str,
    timed: &'static str,
    /// The honest program.
    file: &'static str,
    /// Its function for the rows or numbers `from` to `to`, called with the arguments of the corpus.
    rows: &'static str,
    /// How programs begin before the clock starts.
    before: &'static [&'static str],
}

const FAST: [Fast; 5] = [
    Fast {
        problem: "softmax",
        timed: "m = 192\nn = 512",
        file: "softmax_by_a_polynomial.c",
        rows: "rows(from, to, n, in, out)",
        before: &["spins", "yields", "naps"],
    },
    Fast {
        problem: "conv2d",
        timed: "h = 192\nw = 256\nk = 5",
        file: "fast_conv2d.c",
        rows: "rows(from, to, w, k, in, weight, out)",
        before: &["naps"],
    },
    Fast {
        problem: "dgemv",
        timed: "m = 480\nn = 512",
        file: "fast_dgemv.c",
        rows: "rows(from, to, n, A, x, y)",
        before: &["spins", "naps"],
    },
    Fast {
        problem: "prefix_sum",
        timed: "n = 240000",
        file: "fast_prefix_sum.c",
        rows: "rows(from, to, in, out)",
        before: &["spins", "yields"],
    },
    Fast {
        problem: "transpose",
        timed: "m = 192\nn = 384",
        file: "fast_transpose.c",
        rows: "rows(from, to, m, n, A, B)",
        before: &["spins", "yields"],
    },
];

/// The calls of a fast program take tens of microseconds; those of the corpus, with slow loops, up to a millisecond.
/// Without a check, work before the clock makes them five times as fast. Each commit tries one of the problems.
#[test]
fn a_fast_program_gains_nothing_by_work_outside_of_the_clock() {
    let _alone = alone();
    if fixtures::cores().supervisor.is_none() {
        skipped("calls are timed by spinning only where there are two cores");
        return;
    }
    for fast in Part::of_commit(FAST.len()).of(&FAST) {
        as_fast_as_the_honest_one(fast);
    }
}

/// No program with the rows of this fast one is faster than it.
fn as_fast_as_the_honest_one(fast: &Fast) {
    let problem = fixtures::timed_at(fast.problem, fast.timed);
    let mut timer = fixtures::timer_of(Arc::clone(&problem));
    let object = fixtures::program_of(&problem, fast.file);
    let mut honest = || ranked(&mut timer, "honest", &object).unwrap();
    // The first processes of a session may be slow.
    let sure = [honest(), honest()].into_iter();
    let sure = sure.filter(Measurement::converged);
    let Some(honest) = sure.max_by(|a, b| a.ratio.total_cmp(&b.ratio)) else {
        return skipped(&format!(
            "{}: neither measurement converged, so nothing can be compared with it",
            fast.file
        ));
    };
    let before = fast.before.iter();
    let before = before.map(|way| format!("works_before_the_clock_{}_{way}.c", fast.problem));
    let early = format!("answers_a_little_early_{}.c", fast.problem);
    let mut gains = Vec::new();
    for file in before.chain([early]) {
        let object = fixtures::built_of(&problem, &with_fast_rows(&file, fast));
        let Some(early) = unless_refused(ranked(&mut timer, &file, &object), &file) else {
            report(&format!("{file}: refused"));
            continue;
        };
        let ratio = early.ratio / honest.ratio;
        let half = 1.96 * early.log_ratio_se.hypot(honest.log_ratio_se);
        let least = least_seen(SAME, &early, &honest);
        report(&format!(
            "{file}: {ratio:.3} times as fast as the honest program [{:.3}, {:.3}], {}; gains above {least:.3} are seen",
            ratio * (-half).exp(),
            ratio * half.exp(),
            early.stop
        ));
        if early.interval.low > SAME * honest.interval.high {
            gains.push(file);
        } else if !early.converged() {
            skipped(&format!(
                "{file}: did not converge, so it may gain something"
            ));
        } else if least > SEEN {
            skipped(&format!("{file}: only gains above {least:.3} are seen"));
        }
    }
    assert!(gains.is_empty(), "{gains:?} gain something");
}

/// A result for the log of `make verify`.
#[expect(clippy::print_stdout, reason = "the log shows it")]
fn report(line: &str) {
    println!("{line}");
}

/// A program of the corpus with the rows of a fast one instead of its own. If it answers early, a third of the call is
/// left: the few rows that the corpus leaves out are no visible gain.
fn with_fast_rows(file: &str, fast: &Fast) -> String {
    let slow = fixtures::text_of(file).replace(" / 32;", " / 3;");
    let (before, part) = slow
        .split_once("static __attribute__((noipa)) void part(")
        .unwrap();
    let (arguments, part) = part.split_once(") {\n").unwrap();
    let (_, behind) = part.split_once("\n}\n").unwrap();
    let Fast { problem, rows, .. } = fast;
    format!(
        "#define {problem} by_itself\n{}#undef {problem}\n{before}static void part({arguments}) {{ {rows}; }}\n{behind}",
        fixtures::text_of(fast.file)
    )
}

/// The work of a program of the corpus between its answer to one order and the next order, instead of a single change of
/// the baseline's inputs: it naps, and if its outputs are poisoned for more than one nap, the call is the baseline's.
const BESIDE_THE_BASELINE: &str = "\
    for (int made = 0; page[0] == last;) {
      long nap[2] = {0, 200000};
      enter(futex, (long)page, 0, (unsigned)last, nap);
      made = POISONED ? made + 1 : 0;
      if (page[0] != last || made != 2) continue;
      CHANGE;
    }
    last = page[0];
";

/// A program that never returns from its first call and changes the inputs of all calls of the baseline. The words are
/// the test for poison and the change.
fn changes_inputs(problem: &Problem, [poisoned, change]: [&str; 2]) -> Vec<u8> {
    let text = fixtures::text_of(&format!("inputs_of_the_baseline_{}.c", problem.id));
    let at_once = text.replace("return calls > 1;", "return 1;");
    let (above, rest) = at_once.split_once("    long time[2]").unwrap();
    let (_, below) = rest.split_once("    last = page[0];\n").unwrap();
    fixtures::built_of(
        problem,
        &format!(
            "#define POISONED ({poisoned})\n#define CHANGE {change}\n{above}{BESIDE_THE_BASELINE}{below}"
        ),
    )
}

/// How many of `tries` measurements find changed inputs of the baseline; no more than `enough` are looked for.
fn found_changed(timer: &mut Timer, object: &[u8], tries: u64, enough: usize) -> usize {
    let seeds = 1..=tries;
    let found = seeds.filter(|&seed| {
        let measured = timer.measure(object, Purpose::Screen, seed, None);
        let measured = measured.map(|timed| timed.measurement.ratio);
        eprintln!("{measured:?}");
        let words = "after a call of the baseline,";
        matches!(measured, Err(Failure::Candidate { fault: F::InputModified, detail }) if detail.contains(words))
    });
    found.take(enough).count()
}

#[test]
fn changed_inputs_of_the_baseline_are_found_after_its_calls() {
    let _alone = alone();
    // Random elements of a product are compared after each call. All elements are compared after one call in 24, which
    // would rarely find the change in two of three measurements.
    let product = fixtures::timed_at("dgemm", "n = 384");
    let words = [
        "((volatile unsigned long *)C)[n * n - 1] == 0x7ff8deadbeeff10f",
        "for (int i = 0; i < n * n; i++) ((double *)A)[i] = 1",
    ];
    let object = changes_inputs(&product, words);
    let mut timer = fixtures::timer_of(product);
    assert_eq!(found_changed(&mut timer, &object, 3, 2), 2);
    // Of other problems, all inputs are compared after the calls that settle a result.
    let sort = fixtures::timed_at("sort64", "batch = 60000");
    let words = [
        "((volatile unsigned *)out)[64 * batch - 1] == 0xdeadf10f",
        "((int *)in)[0] ^= 1",
    ];
    let object = changes_inputs(&sort, words);
    let mut timer = fixtures::timer_of(sort);
    assert_eq!(found_changed(&mut timer, &object, 3, 1), 1);
}
