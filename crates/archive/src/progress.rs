//! The current stage of a problem, and the rules that change it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::config::{Advance, Config};

/// The clock and the windows of the current stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) stage: u32,
    /// Steps that ended in this stage.
    steps: u64,
    /// For each of the latest candidates of this stage, oldest first: true if it was correct.
    latest: VecDeque<bool>,
    /// Best ratio of this stage.
    best: f64,
    /// The best at the last progress, and how many steps ago that was.
    mark: f64,
    since_mark: u64,
    demotions: u32,
    /// True if a program was correct since this stage was entered, including replays of earlier stages.
    correct: bool,
    /// Share of the run's budget that is spent.
    spent: f64,
}

/// A move to another stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) to: u32,
    pub(crate) reason: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            stage: 0,
            steps: 0,
            latest: VecDeque::new(),
            best: 0.0,
            mark: 0.0,
            since_mark: 0,
            demotions: 0,
            correct: false,
            spent: 0.0,
        }
    }

    /// A program of the current stage or of a replay was correct.
    pub(crate) fn on_correct(&mut self) {
        self.correct = true;
    }

    /// Notes the share of the run's budget that is spent.
    pub(crate) fn on_spent(&mut self, share: f64) {
        self.spent = self.spent.max(share);
    }

    /// A candidate of the current stage was decided; `ratio`, as far as it is known, is given if it was correct.
    pub(crate) fn on_candidate(&mut self, config: &Config, ratio: Option<f64>) {
        let advance = match &config.advance {
            Advance::SuccessRate { window, .. } => *window,
            Advance::FixedSteps { .. } | Advance::Plateau { .. } | Advance::BudgetShare { .. } => 0,
        };
        let window = advance.max(config.demote.map_or(0, |d| d.window));
        self.latest.push_back(ratio.is_some());
        while self.latest.len() > window {
            self.latest.pop_front();
        }
        if let Some(ratio) = ratio {
            self.best = self.best.max(ratio);
        }
    }

    /// A step ended. Changes the stage if a rule says so; the rule for demotion is applied before the one for advance.
    pub(crate) fn on_step_end(&mut self, config: &Config) -> Option<Move> {
        self.steps += 1;
        if let Advance::Plateau { min_gain, .. } = &config.advance {
            if self.best > self.mark * (1.0 + min_gain) {
                self.mark = self.best;
                self.since_mark = 0;
            } else {
                self.since_mark += 1;
            }
        }
        if !config.enabled {
            return None;
        }
        let moved = self.back(config).or_else(|| self.on(config))?;
        let demotions = self.demotions + u32::from(moved.to < self.stage);
        *self = Self {
            stage: moved.to,
            demotions,
            spent: self.spent,
            ..Self::new()
        };
        Some(moved)
    }

    fn back(&self, config: &Config) -> Option<Move> {
        let demote = config.demote?;
        let rate = self.rate(demote.window)?;
        (self.stage > 0 && self.demotions < demote.at_most && rate < demote.below).then(|| Move {
            to: self.stage - 1,
            reason: format!(
                "only {rate:.2} of the last {} candidates were correct, less than {:.2}",
                demote.window, demote.below
            ),
        })
    }

    /// Advances the stage. Without a correct program since the stage was entered, the policy gets no harder one.
    fn on(&self, config: &Config) -> Option<Move> {
        let next = self.stage + 1;
        if next as usize >= config.stages.len() || !self.correct {
            return None;
        }
        let at_limit =
            |max: u64| (self.steps >= max).then(|| format!("{} steps are the most", self.steps));
        let reason = match &config.advance {
            Advance::FixedSteps { steps } => {
                let fixed = *steps.get(self.stage as usize)?;
                (self.steps >= fixed).then(|| match fixed {
                    1 => "1 step is over".to_owned(),
                    _ => format!("{fixed} steps are over"),
                })
            }
            Advance::BudgetShare { shares } => {
                // A stage whose share passed within the same step is skipped.
                let passed = shares.iter().take_while(|share| **share <= self.spent);
                let to = u32::try_from(passed.count()).unwrap_or(u32::MAX);
                return (to > self.stage).then(|| Move {
                    to,
                    reason: format!("{:.0} % of the budget are spent", self.spent * 100.0),
                });
            }
            Advance::SuccessRate {
                threshold,
                window,
                min_steps,
                max_steps,
            } => self
                .rate(*window)
                .filter(|rate| self.steps >= *min_steps && rate >= threshold)
                .map(|rate| {
                    format!("{rate:.2} of the last {window} candidates were correct, {threshold:.2} suffice")
                })
                .or_else(|| at_limit(*max_steps)),
            Advance::Plateau {
                patience,
                min_steps,
                max_steps,
                ..
            } => (self.steps >= *min_steps && self.since_mark >= *patience)
                .then(|| format!("the best did not grow for {} steps", self.since_mark))
                .or_else(|| at_limit(*max_steps)),
        };
        reason.map(|reason| Move { to: next, reason })
    }

    /// Share of correct candidates among the latest `window`; none before there are that many.
    fn rate(&self, window: usize) -> Option<f64> {
        let from = self.latest.len().checked_sub(window)?;
        let correct = self.latest.iter().skip(from).filter(|c| **c).count();
        Some(correct as f64 / window as f64)
    }
}
