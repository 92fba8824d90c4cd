//! Words about programs that are refused, the same for runs and for trainings by recipes: the commonest faults with an
//! example each, whether the work failed for them, and advice.

use flopsmith_protocol::{CandidateFault, FaultClass};
use flopsmith_report::excerpt;

use crate::digits::{counted, share};

/// Number of faults that are listed.
pub const KINDS: usize = 3;
/// Bytes of an example that are kept.
pub const EXAMPLE: usize = 1000;
/// Characters of an example in a line.
const WIDTH: usize = 160;
/// If the share of correct programs is smaller than this, the faults of the refused ones are listed.
const POOR: f64 = 0.25;

/// An entry in a list of faults, or of other reasons why programs have no measurement.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Name of the fault.
    pub kind: &'a str,
    /// Number of programs with this fault.
    pub count: u64,
    /// The name of the example.
    pub of: &'a str,
    /// The detail of one of these programs.
    pub example: &'a str,
}

/// The lines about the faults of refused programs, `correct` of `judged` programs being correct; none if enough are.
pub fn refused<'a>(
    judged: u64,
    correct: u64,
    faults: impl IntoIterator<Item = Entry<'a>>,
) -> Vec<String> {
    if judged == 0 || correct as f64 >= POOR * judged as f64 {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "{} of {} refused:",
        share((judged - correct) as f64 / judged as f64),
        counted(judged, "program"),
    )];
    lines.extend(listed(faults));
    lines
}

/// A line about each entry, and one about its example.
pub fn listed<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in entries {
        lines.push(format!("  {} × {}", entry.count, entry.kind));
        let example = excerpt(entry.example, WIDTH);
        if !example.is_empty() {
            lines.push(format!("    {}: {example}", excerpt(entry.of, WIDTH)));
        }
    }
    lines
}

/// The correct programs of a run, or of a training by a recipe, at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successes {
    /// The name of such work: `run` or `training`.
    pub work: &'static str,
    /// Correct programs in all.
    pub correct: u64,
    /// Last steps, in a row, in which programs were judged and none was correct.
    pub fruitless_steps: u64,
    /// `fruitless_steps_limit`: the work ends after so many of these steps; 0 is no limit.
    pub limit: u64,
}

impl Successes {
    /// True if the work ends because of its last steps.
    pub fn limit_is_reached(&self) -> bool {
        self.limit > 0 && self.fruitless_steps >= self.limit
    }

    /// True if programs were judged and none ever was correct.
    fn never(&self) -> bool {
        self.fruitless_steps > 0 && self.correct == 0
    }

    /// The reason why finished work counts as a failure of its programs: it was ended because no program was correct any
    /// more, or no program ever was correct. `None` if the work is no failure.
    pub fn failure(&self) -> Option<String> {
        let (work, limit) = (self.work, self.limit);
        let steps = counted(self.fruitless_steps, "step");
        match (self.limit_is_reached(), self.never()) {
            (true, true) => Some(format!(
                "the {work} was ended after {steps} in which no program was correct (fruitless_steps_limit = {limit})"
            )),
            (true, false) => Some(format!(
                "the {work} was ended: earlier programs were correct, but none in its last {steps} (fruitless_steps_limit = {limit})"
            )),
            (false, true) => Some(format!("no program of this {work} was correct")),
            (false, false) => None,
        }
    }

    /// Advice for a model whose programs are refused, most often for the fault of this name.
    pub fn advice(&self, commonest: Option<&str>, remedies: &Remedies) -> String {
        if !self.never() {
            return format!(
                "{}; the model in {} is the last one, which no longer writes correct programs",
                remedies.again, remedies.folder
            );
        }
        let fault = CandidateFault::ALL
            .iter()
            .find(|fault| Some(fault.name()) == commonest);
        let taught = "teach the model programs of this problem first (`flopsmith sft`; models/starter/recipe.toml is an example), or use a model that writes them";
        match fault {
            Some(CandidateFault::Format) => format!(
                "`{}` shows what the model writes; where its answers are cut off, raise `{}` ({}); with `{}` a program is the last complete fenced block of an answer; otherwise {taught}",
                remedies.sample, remedies.longest.0, remedies.longest.1, remedies.fenced,
            ),
            Some(fault) if fault.class() == FaultClass::Compile => taught.to_owned(),
            _ => format!(
                "lower `{}` ({}); or {taught}",
                remedies.temperature.0, remedies.temperature.1
            ),
        }
    }
}

/// The settings and commands that advice names, in the words of the file that configures the work.
#[derive(Debug, Clone)]
pub struct Remedies {
    /// The command that prints samples of the model with which the work began.
    pub sample: String,
    /// Name and value of the setting for the longest answer, tokens.
    pub longest: (&'static str, u32),
    /// Name and value of the setting for the temperature.
    pub temperature: (&'static str, f32),
    /// The setting with which a program is a fenced block.
    pub fenced: &'static str,
    /// Work with settings that change the model less.
    pub again: &'static str,
    /// The folder of the trained model.
    pub folder: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedies() -> Remedies {
        Remedies {
            sample: "flopsmith model sample m --problem p".into(),
            longest: ("max_tokens", 8),
            temperature: ("temperature", 0.5),
            fenced: "chat = true",
            again: "start a new training with a smaller rate",
            folder: "out".into(),
        }
    }

    fn training(correct: u64, fruitless_steps: u64, limit: u64) -> Successes {
        Successes {
            work: "training",
            correct,
            fruitless_steps,
            limit,
        }
    }

    #[test]
    fn work_fails_at_its_limit_and_without_any_correct_program() {
        assert_eq!(training(0, 0, 1).failure(), None);
        assert_eq!(training(3, 4, 0).failure(), None);
        assert_eq!(training(3, 4, 5).failure(), None);
        let said = |successes: Successes| successes.failure().expect("it failed");
        assert!(said(training(3, 4, 4)).contains("none in its last 4 steps"));
        assert!(said(training(0, 4, 4)).starts_with("the training was ended after 4 steps"));
        // Without a limit the work runs to its end, and is no success.
        assert_eq!(
            said(training(0, 1, 0)),
            "no program of this training was correct"
        );
        assert!(!training(0, 9, 0).limit_is_reached());
    }

    #[test]
    fn advice_names_the_settings_of_the_work() {
        let said = |correct, kind| training(correct, 2, 2).advice(Some(kind), &remedies());
        for (correct, kind, parts) in [
            (0, "format", ["sample m --problem p", "`max_tokens` (8)"]),
            (0, "format", ["`chat = true`", "flopsmith sft"]),
            (0, "compile_error", ["teach the model", "flopsmith sft"]),
            (0, "wrong_result", ["`temperature` (0.5)", "flopsmith sft"]),
            (
                1,
                "wrong_result",
                ["smaller rate; the model in out", "no longer"],
            ),
        ] {
            let advice = said(correct, kind);
            for part in parts {
                assert!(advice.contains(part), "`{part}` is not in {advice}");
            }
        }
    }

    #[test]
    fn examples_are_bounded_and_no_terminal_obeys_them() {
        let long = "x".repeat(500);
        let entries = [
            ("format", "sorry,\n\x1b[2Jno"),
            ("compile_error", long.as_str()),
        ]
        .map(|(kind, example)| Entry {
            kind,
            count: 2,
            of: "dot",
            example,
        });
        let lines = refused(4, 0, entries);
        assert_eq!(lines[0], "100.0 % of 4 programs refused:");
        assert_eq!(lines[1..3], ["  2 × format", "    dot: sorry, [2Jno"]);
        assert_eq!(lines[4].chars().count(), "    dot: ".len() + WIDTH);
        assert!(refused(4, 1, entries).is_empty());
        assert!(refused(0, 0, entries).is_empty());
    }
}
