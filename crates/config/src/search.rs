//! The settings of a search that names only its problem and its budget.

use flopsmith_archive::{Advance, PermitRule, StageRule};

use crate::settings::{GeneratorKind, Settings, Standard};

/// The default budget of a search, seconds.
pub const BUDGET: f64 = 300.0;
/// A search of fewer seconds uses smaller steps and certifies fewer programs.
const SHORT: f64 = 120.0;
/// Shares of the budget at which the stages of a staged search end. After the last one all techniques are permitted: the fastest programs
/// are found there.
const STAGES: [f64; 4] = [0.02, 0.08, 0.16, 0.28];

/// The settings of a search of which only problem and budget are given. All programs may use all techniques from the
/// beginning.
pub fn defaults(problem: &str, budget_seconds: f64) -> Settings {
    let short = budget_seconds < SHORT;
    let mut settings = Settings {
        problem: problem.to_owned(),
        seed: 1,
        budget_seconds,
        // Each step learns from the one before, so a short search needs many steps more than many programs in each.
        tasks: if short { 2 } else { 4 },
        group_size: 8,
        ..Settings::default()
    };
    settings.generator.kind = GeneratorKind::Schedule;
    settings.sqd.stages = vec![StageRule {
        name: "unrestricted".to_owned(),
        permitted: PermitRule::Unrestricted,
    }];
    settings.sqd.advance = Advance::FixedSteps { steps: Vec::new() };
    settings.evaluate.finalists = if short { 2 } else { 4 };
    if short {
        // Second measurements of elites take time from new programs; the winner is certified in any case.
        settings.evaluate.again = Standard::Screen;
        settings.sqd.remeasures_per_step = 2;
    }
    settings
}

/// Gives a search the stages of a training, which end by shares of the budget.
pub fn stage(settings: &mut Settings) {
    settings.sqd.stages = Settings::default().sqd.stages;
    settings.sqd.advance = Advance::BudgetShare {
        shares: STAGES.to_vec(),
    };
}
