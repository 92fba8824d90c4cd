//! The stages that a run did not come to.

use std::path::Path;

use flopsmith_config::Settings;
use flopsmith_protocol::{Outcome, ProblemId, Purpose};
use serde::{Deserialize, Serialize};

use super::{Facts, Summary};
use crate::digits::counted;
use crate::report;

/// The most advanced stage of a run's tasks, if the run ended before it came to its last stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyStage {
    /// The stage's name.
    pub name: String,
    /// Its number, counted from 1.
    pub number: u32,
    /// Number of stages.
    pub stages: u32,
}

impl EarlyStage {
    /// That of a run with one problem, or of `problem` in a run over many. None if the run has not ended or came to its
    /// last stage, and if its folder has no readable settings.
    pub(super) fn of(
        folder: &Path,
        facts: &Facts,
        problem: Option<&ProblemId>,
        outcomes: &[Outcome],
    ) -> Option<Self> {
        if !facts.finished {
            return None;
        }
        let text = flopsmith_config::read_text(&folder.join("config.toml")).ok()?;
        let mut settings = flopsmith_config::parse(&text, "config.toml", &[]).ok()?;
        if let Some(problem) = problem {
            report::narrow(&mut settings, facts, problem);
        }
        Self::within(&settings, outcomes)
    }

    fn within(settings: &Settings, outcomes: &[Outcome]) -> Option<Self> {
        let stages = settings.sqd.stages();
        // Tasks of evaluations have no stage of the run, and a run may end as it changes to a stage without tasks.
        let of_course = outcomes
            .iter()
            .filter(|o| matches!(o.candidate.purpose, Purpose::Train | Purpose::Search));
        let reached = of_course.map(|o| o.candidate.stage).max()?;
        let rule = stages.get(reached as usize)?;
        let early = Self {
            name: rule.name.clone(),
            number: reached + 1,
            stages: stages.len() as u32,
        };
        (early.number < early.stages).then_some(early)
    }
}

impl Summary {
    /// The line about stages that the run did not come to, with advice.
    pub(super) fn about_stages(&self) -> Option<String> {
        let early = self.problems.iter().filter(|p| p.early_stage.is_some());
        let early = early.count();
        let came = match &self.early_stage {
            Some(EarlyStage {
                name,
                number,
                stages,
            }) => format!(
                "the run ended in stage {} ({name}) of the stages 0 to {}",
                number - 1,
                stages - 1
            ),
            None if early > 0 => format!(
                "{early} of {} did not come to the last stage",
                counted(self.problems.len() as u64, "problem")
            ),
            None => return None,
        };
        let advice = match self.correct_programs {
            0 => "a stage ends only after a correct program",
            _ => {
                "later stages permit more techniques; give a larger --budget, or let stages end sooner (`sqd.advance`)"
            }
        };
        Some(format!("{came}: {advice}"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_actors::role::recorder::files;
    use flopsmith_test_support::{first, measured, wrong};

    use super::super::summarise;
    use super::*;

    /// The summary of a run over one problem, with the default five stages, whose tasks came to this stage.
    fn summary(stage: u32, finished: bool, is_correct: bool) -> Summary {
        let folder = tempfile::tempdir().unwrap();
        let lines = (0..=stage).map(|stage| {
            let verdict = match is_correct {
                true => measured(20.0),
                false => wrong(),
            };
            let mut outcome = first(stage, "a", "none", verdict);
            outcome.candidate.purpose = Purpose::Train;
            outcome.candidate.stage = stage;
            serde_json::to_string(&outcome).unwrap() + "\n"
        });
        let lines: String = lines.collect();
        std::fs::write(folder.path().join(files::OUTCOMES), lines).unwrap();
        std::fs::write(folder.path().join("config.toml"), "problem = \"dgemm\"\n").unwrap();
        let facts = Facts {
            finished,
            ..Facts::default()
        };
        summarise("r", folder.path(), &facts).unwrap()
    }

    #[test]
    fn a_run_that_ends_in_an_early_stage_says_so_and_gives_advice() {
        let early = summary(1, true, true);
        let expected = EarlyStage {
            name: "singles".to_owned(),
            number: 2,
            stages: 5,
        };
        assert_eq!(early.early_stage, Some(expected));
        let table = early.table().join("\n");
        for part in [
            "ended in stage 1 (singles) of the stages 0 to 4",
            "--budget",
            "sqd.advance",
        ] {
            assert!(table.contains(part), "`{part}` is not in\n{table}");
        }
        // No budget brings such a run to a later stage.
        let table = summary(0, true, false).table().join("\n");
        assert!(table.contains("only after a correct program"), "{table}");
        assert!(!table.contains("sqd.advance"), "{table}");
    }

    #[test]
    fn a_run_that_goes_on_or_came_to_its_last_stage_says_nothing_of_stages() {
        for summary in [summary(1, false, true), summary(4, true, true)] {
            assert_eq!(summary.early_stage, None);
            let table = summary.table().join("\n");
            assert!(!table.contains("in stage"), "{table}");
        }
    }
}
