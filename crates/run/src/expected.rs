//! The expected total time of a run, printed before the run begins: the budget is only a part of it. Also that of programs
//! that are measured without a run.

use flopsmith_config::Job;
use flopsmith_config::Settings;
use flopsmith_measure::Purpose;

use crate::certification;
use crate::summary::Facts;

/// The least and the greatest time, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range(f64, f64);

impl Range {
    fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0, self.1 + other.1)
    }

    fn times(self, count: f64) -> Self {
        Self(self.0 * count, self.1 * count)
    }

    fn words(self) -> String {
        let (least, most) = (time(self.0), time(self.1));
        if least == most {
            return least;
        }
        format!("{least} to {most}")
    }
}

/// Measuring peak, reference and OpenBLAS on an otherwise quiet machine. A fast one with a small problem takes the least
/// time: a search of 60 s with two programs at its end took 81 s in all.
const MACHINE: Range = Range(4.0, 25.0);
/// The steps before the first of the last measurements: the machine is measured again, and the reference longer.
const ONCE_MORE: Range = Range(4.0, 25.0);
/// Certifying one program: it is built in five layouts, verified in full and timed in each.
const CERTIFY: Range = Range(6.0, 30.0);

/// Screening one program, and ranking one: it is built, verified in full and timed once.
const SCREEN: Range = Range(1.0, 3.0);
const RANK: Range = Range(2.0, 6.0);

/// The time of measuring `programs` with `timers` timers on a quiet machine, as text: each timer first measures this
/// machine and the reference. Calls of a second and more take longer.
pub fn of_programs(purpose: Purpose, programs: usize, timers: usize) -> String {
    let one = match purpose {
        Purpose::Screen => SCREEN,
        Purpose::Rank => RANK,
        Purpose::Certify => CERTIFY,
    };
    let with_a_timer = MACHINE.plus(one.times(programs as f64));
    with_a_timer.times(timers as f64).words()
}

/// The expected time of a run, or of the rest of a resumed one, by its parts, as text. `None` if workers evaluate, whose
/// speed is unknown here, and if a run is repeated without measurements.
pub fn wall(job: Job, settings: &Settings, facts: &Facts) -> Option<String> {
    rest(job, settings, facts, certification::has_shown(settings))
}

/// `shown`: a program of the starter's corpus is measured for comparison, once before the run and once after it.
fn rest(job: Job, settings: &Settings, facts: &Facts, shown: bool) -> Option<String> {
    if settings.evaluate.workers || settings.evaluate.replays() {
        return None;
    }
    let loops = match job {
        Job::Train => "evaluating and training",
        Job::Search => "searching",
    };
    let spent = facts.spent_seconds.unwrap_or_default();
    let left = (settings.budget_seconds - spent).max(0.0);
    let budget = Range(left, left);
    let finalists = settings.evaluate.finalists;
    // The program with which the search begins is measured again as well, if it is none of the fastest.
    let own = u32::from(finalists > 0 && settings.start.is_some());
    let last = match finalists + own {
        0 => Range(0.0, 0.0),
        some => ONCE_MORE.plus(CERTIFY.times(f64::from(some + u32::from(shown)))),
    };
    let last = last.times(settings.problem_count() as f64);
    // The roles of a run over many problems measure the machine for each of them, within the budget.
    let compares = shown && facts.corpus_best_gflops.is_none();
    let first = match settings.has_many() {
        true => Range(0.0, 0.0),
        false => MACHINE.plus(CERTIFY.times(f64::from(u32::from(compares)))),
    };
    // The run may reach `max_steps` before its budget is spent.
    let up_to = if settings.max_steps > 0 {
        "at most "
    } else {
        ""
    };
    let all = first.plus(budget).plus(last);
    let machine = match settings.has_many() {
        true => String::new(),
        false if compares => format!(
            "{} to measure this machine and the fastest program of the starter's corpus, ",
            first.words()
        ),
        false => format!("{} to measure this machine, ", first.words()),
    };
    let mut text = format!(
        "this takes {up_to}{} in all: {machine}{up_to}{} of {loops}",
        all.words(),
        budget.words(),
    );
    if settings.has_many() {
        text.push_str(" (with measuring this machine for each problem)");
    }
    if finalists > 0 {
        let programs = match finalists {
            1 => "the fastest program".to_owned(),
            some => format!("the {some} fastest programs"),
        };
        let programs = match own {
            0 => programs,
            _ => format!("{programs} and yours"),
        };
        let programs = match (settings.has_many(), shown) {
            (true, _) => format!("{programs} for each problem"),
            (false, true) => format!("{programs} and that of the corpus"),
            (false, false) => programs,
        };
        text.push_str(&format!(
            ", and {} to measure {programs} once more",
            last.words()
        ));
    }
    text.push_str("; longer on a busy machine");
    Some(text)
}

/// A time as text, rounded to the precision of an estimate.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 3600.0 => {
            let half_minutes = (s / 30.0).round();
            format!("{} min", half_minutes / 2.0)
        }
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn settings(budget_seconds: f64, finalists: u32) -> Settings {
        let mut settings = Settings {
            budget_seconds,
            ..Settings::default()
        };
        settings.evaluate.finalists = finalists;
        settings
    }

    /// A run that has taken `seconds` in all; `spent` of them count for its budget.
    fn begun(seconds: f64, spent: f64) -> Facts {
        Facts {
            seconds,
            spent_seconds: Some(spent),
            ..Facts::default()
        }
    }

    fn said_of(job: Job, settings: &Settings, facts: &Facts) -> String {
        rest(job, settings, facts, false).unwrap()
    }

    #[test]
    fn a_budget_is_not_all_that_a_run_takes() {
        let new = Facts::default();
        let said = said_of(Job::Search, &settings(60.0, 2), &new);
        let parts = MACHINE
            .plus(Range(60.0, 60.0))
            .plus(ONCE_MORE)
            .plus(CERTIFY.times(2.0));
        assert!(said.contains(&parts.words()), "{said}");
        for part in [
            "60 s of searching",
            "the 2 fastest programs",
            "busy machine",
        ] {
            assert!(said.contains(part), "`{part}` is not in {said}");
        }
        let said = said_of(Job::Train, &settings(36_000.0, 0), &new);
        assert!(said.contains("10.0 h of evaluating and training"), "{said}");
        assert!(!said.contains("once more"), "{said}");
        let said = said_of(Job::Train, &settings(600.0, 0), &begun(540.0, 540.0));
        assert!(said.contains("60 s of evaluating and training"), "{said}");
        let said = said_of(Job::Train, &settings(600.0, 0), &begun(700.0, 700.0));
        assert!(said.contains("0 s of evaluating and training"), "{said}");
        let many = Settings {
            problems: vec!["a".into(), "b".into()],
            ..settings(60.0, 1)
        };
        let said = said_of(Job::Train, &many, &new);
        let last = ONCE_MORE.plus(CERTIFY).times(2.0);
        assert!(
            said.contains(&Range(60.0, 60.0).plus(last).words()),
            "{said}"
        );
        assert!(
            said.contains("the fastest program for each problem once more"),
            "{said}"
        );
        let few = Settings {
            max_steps: 3,
            ..settings(600.0, 1)
        };
        let said = said_of(Job::Train, &few, &new);
        assert!(said.contains("at most 10 min of"), "{said}");
        assert!(said.contains("the fastest program once more"), "{said}");
    }

    #[test]
    fn a_resumed_run_has_the_rest_of_its_budget_and_all_measurements_before_itself() {
        // Measuring the machine took 25 s, and the stop broke off a step of 15 s.
        let facts = begun(60.0, 20.0);
        let said = said_of(Job::Search, &settings(60.0, 2), &facts);
        let left = Range(40.0, 40.0);
        assert!(said.contains("40 s of searching"), "{said}");
        let parts = MACHINE.plus(left).plus(ONCE_MORE).plus(CERTIFY.times(2.0));
        assert!(said.contains(&parts.words()), "{said}");
    }

    #[test]
    fn a_program_of_the_corpus_is_measured_before_the_run_and_after_it() {
        let compared = |facts: &Facts| rest(Job::Train, &settings(60.0, 1), facts, true).unwrap();
        let budget = Range(60.0, 60.0);
        let last = ONCE_MORE.plus(CERTIFY.times(2.0));
        let said = compared(&Facts::default());
        let parts = MACHINE.plus(CERTIFY).plus(budget).plus(last);
        assert!(said.contains(&parts.words()), "{said}");
        assert!(said.contains("and that of the corpus once more"), "{said}");
        // A session before this one measured it.
        let known = Facts {
            corpus_best_gflops: Some(40.0),
            ..Facts::default()
        };
        let said = compared(&known);
        let parts = MACHINE.plus(budget).plus(last);
        assert!(said.contains(&parts.words()), "{said}");
    }

    #[test]
    fn programs_take_their_time_with_each_timer() {
        let certified = MACHINE.plus(CERTIFY).words();
        assert_eq!(of_programs(Purpose::Certify, 1, 1), certified);
        assert_eq!(certified, "10 s to 55 s");
        let ranked = Range(4.0 + 2.0 * 10.0, 25.0 + 6.0 * 10.0).times(2.0);
        assert_eq!(of_programs(Purpose::Rank, 10, 2), ranked.words());
        assert_eq!(ranked.words(), "48 s to 3 min");
    }

    #[test]
    fn nothing_is_expected_of_others() {
        let mut elsewhere = settings(60.0, 2);
        elsewhere.evaluate.workers = true;
        assert_eq!(wall(Job::Search, &elsewhere, &Facts::default()), None);
    }
}
