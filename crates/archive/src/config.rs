//! The rules of Staged Quality-Diversity.

use flopsmith_protocol::TechniqueSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Errors of a configuration. Each names the field as it stands in the file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// There are no stages.
    #[error(
        "`stages` is empty: give at least one stage, or set `enabled = false` for training without stages"
    )]
    NoStages,
    /// Two stages have the same name.
    #[error("stage name `{0}` is used twice")]
    StageName(String),
    /// A stage asks for more techniques than the pool has.
    #[error("stage `{stage}` permits sets of {size} techniques, but the pool has {pool} only")]
    PoolTooSmall {
        /// The stage.
        stage: String,
        /// Techniques in each of its sets.
        size: usize,
        /// Techniques in the pool.
        pool: usize,
    },
    /// A share outside its range.
    #[error("`{field}` is {value}: a share lies between 0 and 1")]
    Share {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// A number is 0 that has to be at least 1.
    #[error("`{field}` is 0: it has to be at least 1")]
    Zero {
        /// The field.
        field: &'static str,
    },
    /// The number of fixed steps does not match the stages.
    #[error(
        "`advance.steps` has {found} numbers for {stages} stages: give one for each stage but the last"
    )]
    FixedSteps {
        /// Number of given values.
        found: usize,
        /// Number of stages.
        stages: usize,
    },
    /// The number of budget shares does not match the stages.
    #[error(
        "`advance.shares` has {found} numbers for {stages} stages: give one for each stage but the last"
    )]
    Shares {
        /// Number of given values.
        found: usize,
        /// Number of stages.
        stages: usize,
    },
    /// A stage's share is smaller than the share of the stage before it.
    #[error(
        "`advance.shares` falls from {before} to {after}: no share is smaller than the one before it"
    )]
    SharesFall {
        /// A stage's share.
        before: f64,
        /// The share of the next stage.
        after: f64,
    },
    /// The step limits of a stage contradict each other.
    #[error(
        "`advance.min_steps` is {min} and `advance.max_steps` is {max}: the minimum must not be above the maximum"
    )]
    StepLimits {
        /// Least steps.
        min: u64,
        /// Most steps.
        max: u64,
    },
    /// The success rate that demotes is not below the rate that advances.
    #[error(
        "`demote.below` is {below} and `advance.threshold` is {threshold}: `demote.below` must be lower than `advance.threshold`"
    )]
    DemoteAboveAdvance {
        /// The rate that demotes.
        below: f64,
        /// The rate that advances.
        threshold: f64,
    },
}

/// The sets of techniques that the tasks of a stage permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermitRule {
    /// No technique at all.
    None,
    /// Each technique alone.
    Singles,
    /// Each pair of techniques.
    Pairs,
    /// Each set of three techniques.
    Triples,
    /// Each set of four techniques.
    Quads,
    /// The whole pool at once.
    Unrestricted,
}

impl PermitRule {
    /// Number of techniques in each permission set; none for the whole pool.
    pub fn size(self) -> Option<usize> {
        match self {
            PermitRule::None => Some(0),
            PermitRule::Singles => Some(1),
            PermitRule::Pairs => Some(2),
            PermitRule::Triples => Some(3),
            PermitRule::Quads => Some(4),
            PermitRule::Unrestricted => None,
        }
    }

    /// Every permission set of this rule, in the order of their bits.
    pub fn sets(self, pool: TechniqueSet) -> Vec<TechniqueSet> {
        match self.size() {
            Some(size) => pool.subsets_of_size(size),
            None => vec![pool],
        }
    }
}

/// A stage of the curriculum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageRule {
    /// Name of the stage in reports.
    pub name: String,
    /// Sets of techniques that the stage's tasks permit.
    pub permitted: PermitRule,
}

/// Rule by which a stage ends and the next begins. Steps count from the entry into the stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Advance {
    /// The stage ends after a number of steps.
    FixedSteps {
        /// Steps of each stage but the last.
        steps: Vec<u64>,
    },
    /// The stage ends when enough of its latest candidates are correct.
    SuccessRate {
        /// Share of correct ones that suffices.
        threshold: f64,
        /// Number of latest candidates that count; the rule waits until there are so many.
        window: usize,
        /// Smallest number of steps in the stage.
        min_steps: u64,
        /// Largest number of steps in the stage.
        max_steps: u64,
    },
    /// The stage ends at a share of the run's budget that is spent: of its time or of its steps (`max_steps`),
    /// whichever is larger. A stage whose share passes within one step is left out, so a short budget has a short
    /// curriculum. The rule depends on the clock: `flopsmith replay` cannot repeat a training run with it.
    BudgetShare {
        /// For each stage but the last, the share at which it ends: 0 to 1, none smaller than the one before.
        shares: Vec<f64>,
    },
    /// The stage ends when its best speed no longer grows.
    Plateau {
        /// Number of steps without progress that suffices.
        patience: u64,
        /// Growth of the best ratio that counts as progress, as a share.
        min_gain: f64,
        /// Smallest number of steps in the stage.
        min_steps: u64,
        /// Largest number of steps in the stage.
        max_steps: u64,
    },
}

/// Rule by which a run goes back a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Demote {
    /// Share of correct candidates below which the policy counts as collapsed.
    pub below: f64,
    /// Number of latest candidates that count; the rule waits until there are so many.
    pub window: usize,
    /// How often a run may go back at most. The limit keeps a run from alternating between two stages for ever.
    pub at_most: u32,
}

/// Settings of Staged Quality-Diversity.
///
/// The defaults are meant for runs of 40 to 60 steps with 8 tasks each: the restricted stages take 22 steps, and the
/// rest of the run permits the whole pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// False gives plain training: one unrestricted stage, no replay, no guidance, no hints. The archive is filled all
    /// the same.
    pub enabled: bool,
    /// The pool: all techniques that any stage may permit.
    pub techniques: TechniqueSet,
    /// Largest number of elites in a cell.
    pub elites_per_cell: usize,
    /// The stages in their order.
    pub stages: Vec<StageRule>,
    /// Rule by which a run advances to the next stage.
    pub advance: Advance,
    /// Rule by which a run goes back a stage; without it the run never goes back.
    pub demote: Option<Demote>,
    /// Share of tasks that come from earlier stages.
    pub replay_share: f64,
    /// Share of tasks that aim at thin cells instead of any cell.
    pub guidance: f64,
    /// Share of tasks whose prompt shows an elite of a smaller set of techniques to build on. The prompt of a model whose
    /// positions have no room for it and the answer shows none. Small models gain from it if they have read such prompts
    /// (`improve_share` of their corpus); the shipped starter has not.
    pub elite_hint_share: f64,
    /// Share of tasks that show a failed answer to the same prompt with its diagnostics and ask for a right one. Of the
    /// last 64 different failures of the problem, each with the same permitted techniques is equally likely.
    pub repair_share: f64,
    /// Share of exploration samples (`generator.exploration_samples`) that mutate the program of an elite instead of an
    /// answer of the policy. Each filled cell whose techniques a task permits is equally likely (MAP-Elites; Mouret and
    /// Clune, 2015, arXiv:1504.04909).
    pub parent_share: f64,
    /// Speed-up over the last elite of a full cell that justifies a second measurement, as a share.
    pub min_gain: f64,
    /// Share of the cell's best speed that an elite has to reach.
    pub elite_floor: f64,
    /// Largest number of second measurements in a step. A candidate that would be the best of its cell is measured
    /// again in any case if it has at least 80 % of the speed of the fastest elite.
    pub remeasures_per_step: u32,
}

impl Default for Config {
    fn default() -> Self {
        let stage = |name: &str, permitted| StageRule {
            name: name.to_owned(),
            permitted,
        };
        Self {
            enabled: true,
            techniques: TechniqueSet::general(),
            elites_per_cell: 3,
            stages: vec![
                stage("plain", PermitRule::None),
                stage("singles", PermitRule::Singles),
                stage("pairs", PermitRule::Pairs),
                stage("triples", PermitRule::Triples),
                stage("unrestricted", PermitRule::Unrestricted),
            ],
            advance: Advance::FixedSteps {
                steps: vec![2, 6, 7, 7],
            },
            demote: None,
            replay_share: 0.2,
            guidance: 0.5,
            elite_hint_share: 0.0,
            repair_share: 0.0,
            parent_share: 0.5,
            min_gain: 0.01,
            elite_floor: 0.8,
            remeasures_per_step: 8,
        }
    }
}

impl Config {
    /// Plain training without stages, over the same pool.
    #[must_use]
    pub fn disabled(self) -> Self {
        Self {
            enabled: false,
            ..self
        }
    }

    /// The stages in effect.
    pub fn stages(&self) -> Vec<StageRule> {
        if self.enabled {
            self.stages.clone()
        } else {
            vec![StageRule {
                name: "unrestricted".to_owned(),
                permitted: PermitRule::Unrestricted,
            }]
        }
    }

    /// These rules for a problem whose programs can have no techniques but those of `pool`, in a run over many problems.
    ///
    /// A stage is left out if its sets need more techniques than there are, or if a later stage permits exactly the same
    /// sets: with one technique, `singles` is `unrestricted`. The number of steps and the share of the budget of such a
    /// stage go with it. If no stage is left, one permits the whole pool.
    #[must_use]
    pub fn within(&self, pool: TechniqueSet) -> Self {
        let techniques = self.techniques.intersection(pool);
        let sets = |rule: &StageRule| rule.permitted.sets(techniques);
        let kept: Vec<usize> = (0..self.stages.len())
            .filter(|i| {
                let mine = sets(&self.stages[*i]);
                let mut later = self.stages[i + 1..].iter();
                !mine.is_empty() && !later.any(|rule| sets(rule) == mine)
            })
            .collect();
        let Some((_, but_last)) = kept.split_last() else {
            return Self {
                stages: vec![StageRule {
                    name: "unrestricted".to_owned(),
                    permitted: PermitRule::Unrestricted,
                }],
                advance: Advance::FixedSteps { steps: Vec::new() },
                techniques,
                ..self.clone()
            };
        };
        let stages = kept.iter().map(|i| self.stages[*i].clone()).collect();
        let advance = match &self.advance {
            Advance::FixedSteps { steps } => Advance::FixedSteps {
                steps: but_last
                    .iter()
                    .filter_map(|i| steps.get(*i))
                    .copied()
                    .collect(),
            },
            Advance::BudgetShare { shares } => Advance::BudgetShare {
                shares: but_last
                    .iter()
                    .filter_map(|i| shares.get(*i))
                    .copied()
                    .collect(),
            },
            other => other.clone(),
        };
        Self {
            techniques,
            stages,
            advance,
            ..self.clone()
        }
    }

    /// Every permission set of a stage; none beyond the last stage.
    pub fn stage_sets(&self, stage: u32) -> Vec<TechniqueSet> {
        self.stages()
            .get(stage as usize)
            .map(|rule| rule.permitted.sets(self.techniques))
            .unwrap_or_default()
    }

    /// Checks that every value is in its range and that the values are consistent. If stages are disabled, their rules
    /// are not checked.
    pub fn check(&self) -> Result<(), Error> {
        let share = |field, value: f64| match value {
            v if (0.0..=1.0).contains(&v) => Ok(()),
            value => Err(Error::Share { field, value }),
        };
        let positive = |field, value: usize| match value {
            0 => Err(Error::Zero { field }),
            _ => Ok(()),
        };
        positive("elites_per_cell", self.elites_per_cell)?;
        share("min_gain", self.min_gain)?;
        share("elite_floor", self.elite_floor)?;
        share("parent_share", self.parent_share)?;
        if !self.enabled {
            return Ok(());
        }
        share("replay_share", self.replay_share)?;
        share("guidance", self.guidance)?;
        share("elite_hint_share", self.elite_hint_share)?;
        share("repair_share", self.repair_share)?;
        self.check_stages()?;
        if let Some(demote) = &self.demote {
            share("demote.below", demote.below)?;
            positive("demote.window", demote.window)?;
        }
        match &self.advance {
            Advance::FixedSteps { steps } => {
                if steps.len() + 1 != self.stages.len() {
                    return Err(Error::FixedSteps {
                        found: steps.len(),
                        stages: self.stages.len(),
                    });
                }
                for s in steps {
                    positive("advance.steps", usize::try_from(*s).unwrap_or(usize::MAX))?;
                }
                Ok(())
            }
            Advance::BudgetShare { shares } => {
                if shares.len() + 1 != self.stages.len() {
                    return Err(Error::Shares {
                        found: shares.len(),
                        stages: self.stages.len(),
                    });
                }
                for value in shares {
                    share("advance.shares", *value)?;
                }
                match shares.windows(2).find(|pair| pair[0] > pair[1]) {
                    Some(pair) => Err(Error::SharesFall {
                        before: pair[0],
                        after: pair[1],
                    }),
                    None => Ok(()),
                }
            }
            Advance::SuccessRate {
                threshold,
                window,
                min_steps,
                max_steps,
            } => {
                share("advance.threshold", *threshold)?;
                positive("advance.window", *window)?;
                if let Some(demote) = &self.demote
                    && demote.below >= *threshold
                {
                    return Err(Error::DemoteAboveAdvance {
                        below: demote.below,
                        threshold: *threshold,
                    });
                }
                limits(*min_steps, *max_steps)
            }
            Advance::Plateau {
                patience,
                min_gain,
                min_steps,
                max_steps,
            } => {
                positive(
                    "advance.patience",
                    usize::try_from(*patience).unwrap_or(usize::MAX),
                )?;
                share("advance.min_gain", *min_gain)?;
                limits(*min_steps, *max_steps)
            }
        }
    }

    fn check_stages(&self) -> Result<(), Error> {
        if self.stages.is_empty() {
            return Err(Error::NoStages);
        }
        for (i, stage) in self.stages.iter().enumerate() {
            if self.stages[..i].iter().any(|s| s.name == stage.name) {
                return Err(Error::StageName(stage.name.clone()));
            }
            let size = stage.permitted.size().unwrap_or(0);
            if size > self.techniques.len() {
                return Err(Error::PoolTooSmall {
                    stage: stage.name.clone(),
                    size,
                    pool: self.techniques.len(),
                });
            }
        }
        Ok(())
    }
}

fn limits(min: u64, max: u64) -> Result<(), Error> {
    if max == 0 {
        return Err(Error::Zero {
            field: "advance.max_steps",
        });
    }
    if min > max {
        return Err(Error::StepLimits { min, max });
    }
    Ok(())
}
