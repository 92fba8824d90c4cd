//! The attacks that may be measured, each compared with its control: the same program without the attack.

use flopsmith_protocol::{Measurement, Verdict};
use flopsmith_test_support::{Measured, skipped};

use crate::program::{Expected, Program, attacks};
use crate::stages::{Stages, is_above_a_roof};
use crate::{fixtures, words};

/// Two rankings of one program differ by this factor at most, beside their errors: each is within one per cent of the
/// truth (`examples/self_ratio`).
const SAME: f64 = 1.02;

/// The least gain that a comparison has to show.
const SEEN: f64 = 1.2;

/// A program gains something if it is faster than the fastest process of its control in all of so many comparisons. On
/// some machines the placement of a process changes its speed by a fifth, and a few comparisons could blame the attack
/// for it.
const COMPARISONS: usize = 6;

/// Of the attacks that may be measured, each commit tries one in this many.
const TRIED: usize = 12;

#[test]
fn attacks_that_may_be_measured_are_as_slow_as_their_controls() {
    let _alone = fixtures::alone();
    let cores = flopsmith_machine::pinning::allowed_cores().len();
    let attacks = attacks();
    let with_controls = attacks.iter().filter(|attack| attack.control.is_some());
    let mut tried = crate::sampled(with_controls, TRIED);
    tried.sort_by_key(|attack| (&attack.problem, attack.threads));
    let mut stages = Stages::default();
    let mut gains = Vec::new();
    for attack in tried {
        if !attack.can_run(cores) {
            skipped(&format!("{}: this machine cannot run it", attack.name));
            continue;
        }
        if let Some(why) = stages.lacks(attack.language) {
            skipped(&format!("{}: {why}", attack.name));
            continue;
        }
        gains.extend(gain(&mut stages, attack));
    }
    assert!(gains.is_empty(), "{}", gains.join("\n"));
}

/// The words for a gain over the control; none if there is none.
pub fn gain(stages: &mut Stages, attack: &Program) -> Option<String> {
    let control = attack.control.clone().map(|source| Program {
        expected: Expected::Measured(None),
        ..attack.with_source(source)
    })?;
    let mut honest: Option<Measurement> = None;
    let mut said = String::new();
    for _ in 0..COMPARISONS {
        match verdict(stages, &control) {
            Verdict::Measured { measurement } => {
                let faster = |a: &Measurement, b: &Measurement| a.ratio.total_cmp(&b.ratio);
                honest = honest.into_iter().chain([measurement]).max_by(faster);
            }
            refused @ Verdict::Rejected { .. } => {
                return Some(format!(
                    "{}: its control is refused: {refused:?}",
                    attack.name
                ));
            }
            _ => {}
        }
        let Some(honest) = &honest else {
            skipped(&format!("{}: its control has no number", attack.name));
            return None;
        };
        let found = match verdict(stages, attack) {
            Verdict::Measured { measurement } => measurement,
            Verdict::Rejected { fault, .. } => {
                report(&format!("{}: {}", attack.name, fault.name()));
                return None;
            }
            other if is_above_a_roof(&other) => {
                return Some(format!("{}: faster than this machine can be", attack.name));
            }
            _ => {
                skipped(&format!("{}: it has no number", attack.name));
                return None;
            }
        };
        let least = least_seen(&found, honest);
        said = format!(
            "{}: {:.3} times as fast as its control; gains above {least:.3} are seen",
            attack.name,
            found.ratio / honest.ratio
        );
        report(&said);
        if !is_faster(&found, honest) {
            if least > SEEN {
                skipped(&format!(
                    "{}: only gains above {least:.3} are seen",
                    attack.name
                ));
            }
            return None;
        }
    }
    Some(said)
}

/// True if an attack is surely faster than its control.
fn is_faster(attack: &Measurement, control: &Measurement) -> bool {
    attack.ratio / control.ratio > least_seen(attack, control)
}

/// The least ratio of an attack to its control that is a gain. Both were compared with the same baseline, whose error
/// against the reference takes most of their intervals and says nothing here.
fn least_seen(attack: &Measurement, control: &Measurement) -> f64 {
    SAME * (1.96 * attack.log_ratio_se.hypot(control.log_ratio_se)).exp()
}

/// The verdict of a program that is ranked.
fn verdict(stages: &mut Stages, program: &Program) -> Verdict {
    let ended = stages.rank(program);
    eprintln!("{}: {}", program.name, words(&ended));
    ended.verdict
}

/// A result for the log of `make verify`.
#[expect(clippy::print_stdout, reason = "the log shows it")]
fn report(line: &str) {
    println!("{line}");
}

#[test]
fn a_gain_is_seen_if_it_is_larger_than_both_intervals_and_two_per_cent() {
    let at = |ratio: f64| Measured::at(10.0 * ratio).se(0.01).measurement();
    let control = at(1.0);
    let least = least_seen(&control, &control);
    assert!(least > SAME && least < SEEN, "{least}");
    assert!(!is_faster(&control, &control));
    assert!(!is_faster(&at(0.98 * least), &control));
    assert!(is_faster(&at(1.02 * least), &control));
}
