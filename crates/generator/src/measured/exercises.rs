//! Prompts for reinforcement, with the time that their answers are compared with, and the feedback on an answer.
//!
//! Prompts are of the same two kinds as those of fine-tuning: the problem, and the problem with a slow program. The
//! answers to both are compared with the same median, since the source gives one reward for all prompts of a problem.

use flopsmith_problem::prompt;
use flopsmith_protocol::Verdict;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::instructions::{Kind, SLOWEST};
use super::{Program, groups, shown_in};

/// Bytes of diagnostics that a policy is told: a small model has room for the first lines of a compiler's message.
const DIAGNOSTICS: usize = 300;

/// A prompt to answer: one line of a file of exercises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exercise {
    /// Problem to solve. If `median_s` is set, answers are run, so this must name a problem definition.
    pub problem: String,
    /// Names of the problem's workloads at which answers are timed; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// Kind of the request; files of other tools may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The prompt.
    pub prompt: String,
    /// Median time of the known right programs, seconds; an answer's time is compared with it. Null if there are no
    /// tests; a reward model then judges the answers.
    #[serde(default)]
    pub median_s: Option<f64>,
}

/// How many exercises of the second kind are made, and how.
#[derive(Debug, Clone, Copy)]
pub struct Improving<'a> {
    /// Largest number of slow programs that are shown for a prompt.
    pub most: usize,
    /// The language of the block that a slow program stands in, as chat models write it.
    pub fence: Option<&'a str>,
    /// Seed of the choice of slow programs.
    pub seed: u64,
}

/// For each problem, its workloads and prompt: an exercise to solve it, and at most `improving.most` exercises to
/// improve a slow program. The slow programs are those of `shown` for the same prompt, then some of the slowest third.
pub fn exercises<'a>(
    programs: impl IntoIterator<Item = &'a Program>,
    shown: &[&'a Program],
    improving: Improving<'_>,
) -> Vec<Exercise> {
    let mut all = Vec::new();
    for (stream, group) in groups(programs).iter().enumerate() {
        let exercise = |kind, prompt| Exercise {
            problem: group.problem.to_owned(),
            workloads: group.workloads.to_vec(),
            kind: Some(kind),
            prompt,
            median_s: group.median_s(),
        };
        all.push(exercise(Kind::Solve, group.prompt.to_owned()));
        let mut random = ChaCha8Rng::seed_from_u64(improving.seed);
        random.set_stream(stream as u64);
        let mut slow: Vec<&Program> = group.slowest(SLOWEST).iter().map(|t| t.program).collect();
        slow.extend(&group.slow);
        slow.shuffle(&mut random);
        let slow = shown_in(group, shown).chain(slow);
        all.extend(slow.take(improving.most).map(|slow| {
            let prompt = prompt::improve(group.prompt, &slow.source, improving.fence);
            exercise(Kind::Improve, prompt)
        }));
    }
    all
}

/// The reward of an answer (Nichols et al., equation 4): −1 if it fails its tests, otherwise `median_s` over its own
/// time less 1. `seconds` is `None` for an answer that fails.
pub fn reward(median_s: f64, seconds: Option<f64>) -> f64 {
    match seconds {
        Some(seconds) => median_s / seconds - 1.0,
        None => -1.0,
    }
}

/// The result of an answer, as far as it is told before the next one is requested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Feedback<'a> {
    /// It is right and takes so many seconds a call.
    Timed(f64),
    /// A reward model gave it this score.
    Judged(f64),
    /// It failed.
    Failed {
        /// Name of the fault; empty if there is none to name.
        fault: &'a str,
        /// Diagnostics; they may be empty.
        detail: &'a str,
    },
}

impl<'a> Feedback<'a> {
    /// The feedback on a program with this verdict. A verdict that says nothing about the program is a failure without
    /// a name.
    pub fn of(verdict: &'a Verdict) -> Self {
        match verdict {
            Verdict::Measured { measurement } => {
                let known = measurement.known_seconds_per_call();
                Feedback::Timed(known.unwrap_or(measurement.seconds_per_call))
            }
            Verdict::Rejected { fault, detail } => Feedback::Failed {
                fault: fault.name(),
                detail,
            },
            Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => Feedback::Failed {
                fault: "",
                detail: "",
            },
        }
    }
}

/// The message to the policy about its answer, which asks for another one. Diagnostics are cut to some hundred bytes.
pub fn follow_up(feedback: Feedback<'_>) -> String {
    match feedback {
        Feedback::Timed(seconds) => {
            format!("This is right and takes {seconds:.3e} s a call. Write a faster one.")
        }
        Feedback::Judged(score) => {
            format!("This is rated {score:.2}. Write a faster one.")
        }
        Feedback::Failed { fault, detail } => {
            let fault = match fault {
                "" => String::new(),
                fault => format!(" ({fault})"),
            };
            let said = match diagnostics(detail) {
                detail if detail.is_empty() => ".".to_owned(),
                detail => format!(":\n{detail}\n"),
            };
            let gap = if said.ends_with('\n') { "" } else { " " };
            format!(
                "This does not pass its tests{fault}{said}{gap}Write one that is right, and fast."
            )
        }
    }
}

/// The beginning of diagnostics, without characters that control a terminal or would end a prompt's block.
fn diagnostics(detail: &str) -> String {
    let plain: String = detail
        .trim()
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let end = plain.floor_char_boundary(DIAGNOSTICS);
    plain[..end].trim_end().replace("```", "'''")
}

/// Indices of the `count` exercises of step `step`, out of `exercises`. The steps pass over all exercises in random
/// orders, one pass after the other. If the number of exercises is no multiple of `count`, some exercises are left out
/// of a pass.
pub fn turn(exercises: usize, count: usize, seed: u64, step: u64) -> Vec<usize> {
    let count = count.min(exercises);
    let in_pass = (exercises / count.max(1)).max(1) as u64;
    let (pass, place) = (step / in_pass, (step % in_pass) as usize);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(pass);
    let mut order: Vec<usize> = (0..exercises).collect();
    order.shuffle(&mut random);
    order[place * count..(place + 1) * count].to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::measured::Rank;
    use crate::measured::tests::{timed, written};

    fn improving(most: usize) -> Improving<'static> {
        Improving {
            most,
            fence: None,
            seed: 3,
        }
    }

    #[test]
    fn slow_programs_are_to_be_improved_and_those_of_all_parts_come_first() {
        let programs = timed("a", "p\n", 30);
        let reference = Program {
            source: "plain".into(),
            runtime_s: Some(1.0),
            ..programs[0].clone()
        };
        let other = Program {
            prompt: "q\n".into(),
            ..reference.clone()
        };
        let made = exercises(&programs, &[&other, &reference], improving(4));
        let kinds: Vec<Option<Kind>> = made.iter().map(|e| e.kind).collect();
        assert_eq!(kinds[0], Some(Kind::Solve));
        assert_eq!(kinds[1..], [Some(Kind::Improve); 4]);
        assert_eq!(made[1].prompt, prompt::improve("p\n", "plain", None));
        for exercise in &made[2..] {
            let slow = programs[20..].iter();
            let shown = slow.filter(|p| exercise.prompt.contains(&format!("{}\n", p.source)));
            assert_eq!(shown.count(), 1, "{exercise:?}");
        }
        // The reference does not change the median, and all kinds have the same.
        assert!(made.iter().all(|e| e.median_s == made[0].median_s));
        assert_eq!(made[0].median_s, Some(15.5e-3));
        assert_eq!(exercises(&programs, &[], improving(0)).len(), 1);
    }

    #[test]
    fn prompts_with_times_have_a_median_and_others_none() {
        let mut programs = timed("a", "p", 5);
        programs.push(written("s", Rank::Fast));
        programs.push(written("s", Rank::Slow));
        let made = exercises(&programs, &[], improving(0));
        assert_eq!(made.len(), 2);
        assert_eq!(
            (made[0].problem.as_str(), made[0].median_s),
            ("a", Some(3e-3))
        );
        assert_eq!((made[1].problem.as_str(), made[1].median_s), ("s", None));
    }

    #[test]
    fn times_over_other_workloads_are_another_exercise() {
        let mut programs = timed("a", "p", 3);
        programs[2].workloads = vec!["n=256".into()];
        let made = exercises(&programs, &[], improving(0));
        let of = |n: usize| (made[n].workloads.as_slice(), made[n].median_s);
        assert_eq!(made.len(), 2);
        assert_eq!(of(0), (&[][..], Some(1.5e-3)));
        assert_eq!(of(1), (&["n=256".to_owned()][..], Some(3e-3)));
    }

    #[test]
    fn every_exercise_has_its_turn_in_each_pass() {
        for pass in 0..3u64 {
            let mut seen: Vec<usize> = (0..5)
                .flat_map(|step| turn(20, 4, 7, pass * 5 + step))
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
        assert_ne!(turn(20, 4, 7, 0), turn(20, 4, 8, 0));
        assert_eq!(turn(3, 10, 7, 5).len(), 3);
        assert!(turn(0, 4, 7, 0).is_empty());
    }

    #[test]
    fn an_answer_is_told_what_came_of_it() {
        assert!(follow_up(Feedback::Timed(1.25e-3)).contains("1.250e-3 s a call"));
        assert!(follow_up(Feedback::Judged(0.5)).contains("0.50"));
        let failed = |fault, detail| follow_up(Feedback::Failed { fault, detail });
        assert_eq!(
            failed("", ""),
            "This does not pass its tests. Write one that is right, and fast."
        );
        assert_eq!(
            failed("compile_error", "a.c:1: error: no `x`\u{7}\n```\n"),
            "This does not pass its tests (compile_error):\na.c:1: error: no `x`\n'''\nWrite one that is right, and fast."
        );
        // A long message is cut between two characters.
        let long = failed("wrong_result", &"é".repeat(DIAGNOSTICS));
        assert_eq!(long.matches('é').count(), DIAGNOSTICS / 2);
    }

    proptest! {
        /// A correct program outranks every wrong one, a faster one a slower one, and a program as fast as the median
        /// gets 0.
        #[test]
        fn rewards_are_in_order(median in 1e-6f64..10.0, a in 1e-6f64..10.0, b in 1e-6f64..10.0) {
            prop_assert!(reward(median, Some(a)) > reward(median, None));
            prop_assert_eq!(a < b, reward(median, Some(a)) > reward(median, Some(b)));
            prop_assert_eq!(reward(median, Some(median)), 0.0);
        }
    }
}
