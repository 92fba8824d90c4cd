//! Counts answers without a measurement by the reason, and keeps an example of each reason.

use flopsmith_protocol::RawAnswer;
use flopsmith_run::console::say;
use flopsmith_run::digits::counted;
use flopsmith_run::fruitless::{EXAMPLE, Entry, KINDS, listed, refused};
use serde::{Deserialize, Serialize};

/// A reason, and the number of answers that have no measurement for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// Name of the fault, or of the part of the machine that failed.
    pub kind: String,
    /// Number of answers with this reason.
    pub count: u64,
    /// Problem of one of these answers.
    pub problem: String,
    /// Its detail: a message of the compiler, or the beginning of an answer that contains no program. It has
    /// [`EXAMPLE`] bytes at most.
    pub example: String,
    /// The answer itself, shortened.
    pub answer: RawAnswer,
}

impl Reason {
    /// The reason for one answer.
    pub fn of(kind: &str, detail: &str, problem: &str, answer: RawAnswer) -> Self {
        Self {
            kind: kind.to_owned(),
            count: 1,
            problem: problem.to_owned(),
            example: detail[..detail.floor_char_boundary(EXAMPLE)].to_owned(),
            answer,
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            kind: &self.kind,
            count: self.count,
            of: &self.problem,
            example: &self.example,
        }
    }
}

/// The reasons of many answers, each once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reasons(Vec<Reason>);

impl Reasons {
    /// Adds a reason to those that were counted before.
    pub fn add(&mut self, reason: Reason) {
        let Some(known) = self.0.iter_mut().find(|known| known.kind == reason.kind) else {
            self.0.push(reason);
            return;
        };
        let count = known.count + reason.count;
        // A detail of several lines is a better example.
        if reason.example.contains('\n') && !known.example.contains('\n') {
            *known = reason;
        }
        known.count = count;
    }

    /// Adds all reasons of later answers.
    pub fn add_all(&mut self, later: Reasons) {
        later.0.into_iter().for_each(|reason| self.add(reason));
    }

    /// Number of answers.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|reason| reason.count).sum()
    }

    /// The three most frequent reasons, the most frequent first.
    pub fn commonest(&self) -> Vec<Reason> {
        let mut commonest = self.0.clone();
        commonest.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        commonest.truncate(KINDS);
        commonest
    }
}

/// Answers that were to be measured and were not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Unsuccessful {
    /// Why programs were refused.
    pub refused: Reasons,
    /// Why this machine failed to measure or judge an answer.
    pub unmeasured: Reasons,
}

impl Unsuccessful {
    /// Adds those of later answers.
    pub fn add_all(&mut self, later: Unsuccessful) {
        self.refused.add_all(later.refused);
        self.unmeasured.add_all(later.unmeasured);
    }

    /// The lines about them; `correct` further answers were correct.
    fn lines(&self, correct: u64) -> Vec<String> {
        let (faults, failures) = (self.refused.commonest(), self.unmeasured.commonest());
        let judged = self.refused.count() + correct;
        let mut lines = refused(judged, correct, faults.iter().map(Reason::entry));
        if !failures.is_empty() {
            let programs = counted(self.unmeasured.count(), "program");
            lines.push(format!("{programs} not measured or judged:"));
            lines.extend(listed(failures.iter().map(Reason::entry)));
        }
        lines
    }

    /// Says why programs were refused, if few of them were correct, and why answers were not measured. `correct` further
    /// answers were correct.
    pub fn tell(&self, correct: u64) {
        for line in self.lines(correct) {
            say(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_actors::answer::without_program;

    use super::*;

    fn of(kind: &str, detail: &str) -> Reason {
        Reason::of(
            kind,
            detail,
            "dot",
            RawAnswer::of("sorry, \x1b[2Jno", false),
        )
    }

    /// A detail as the refusal of an answer without a program has it.
    fn no_program() -> Reason {
        let answer = RawAnswer::of("sorry, \x1b[2Jno", false);
        Reason::of("format", &without_program(Some(&answer)), "dot", answer)
    }

    #[test]
    fn reasons_are_counted_and_the_commonest_are_told_with_an_example() {
        let mut all = Unsuccessful::default();
        for kind in ["timeout", "crash", "crash", "wrong_result", "wrong_result"] {
            all.refused.add(of(kind, ""));
        }
        for _ in 0..2 {
            let mut step = Unsuccessful::default();
            step.refused.add(of("format", ""));
            step.refused.add(no_program());
            all.add_all(step);
        }
        let commonest = all.refused.commonest();
        let kinds: Vec<(&str, u64)> = commonest
            .iter()
            .map(|reason| (reason.kind.as_str(), reason.count))
            .collect();
        assert_eq!(kinds, [("format", 4), ("crash", 2), ("wrong_result", 2)]);
        assert_eq!(
            all.lines(1),
            [
                "90.0 % of 10 programs refused:",
                "  4 × format",
                "    dot: no program was found in the answer (cut off at the length limit, 13 bytes): sorry, [2Jno",
                "  2 × crash",
                "  2 × wrong_result",
            ]
        );
        assert!(all.lines(9).is_empty(), "enough are correct");
    }

    #[test]
    fn failures_of_the_machine_are_no_refusals() {
        let mut all = Unsuccessful::default();
        all.unmeasured.add(of("jail", "no room"));
        assert_eq!(
            all.lines(0),
            [
                "1 program not measured or judged:",
                "  1 × jail",
                "    dot: no room",
            ]
        );
    }

    #[test]
    fn an_example_has_a_bound() {
        let long = "é".repeat(2000);
        let reason = Reason::of("format", &long, "dot", RawAnswer::of(&long, true));
        assert_eq!(reason.example.len(), EXAMPLE);
        assert!(reason.answer.text.len() < RawAnswer::KEPT + 100);
    }
}
