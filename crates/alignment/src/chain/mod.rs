//! The chain of the stages of performance alignment (Nichols et al., 2024) over several problems: `flopsmith align`.
//!
//! Each stage works in its own folder of the output folder. Trainings read `recipe.toml` there, which the single commands
//! read as well. The source does not say which model the reward model and the alignment begin with; here both begin with
//! the fine-tuned model, as the reinforcement does.

mod plan;
mod stages;
mod state;
mod summary;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use flopsmith_run::console::{data, say};
use flopsmith_run::exit::{INTERRUPTED, OK};
use flopsmith_run::farm::Ways;
use flopsmith_run::interrupt::Watch;

use plan::{Plan, about};
use stages::{Ended, Work};
use state::{Folder, Stage, Standing};
use summary::Summary;

/// The request of a user.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The recipe.
    pub recipe: &'a Path,
    /// The folder of all stages.
    pub output: &'a Path,
    /// True to continue in the folder.
    pub resume: bool,
    /// True if programs run even where the jail gives less than its full protection.
    pub allow_weaker_jail: bool,
    /// The cluster whose workers evaluate the programs and the answers of the reinforcement; this machine does if there is
    /// none. This machine makes the last evaluation.
    pub farm: Option<&'a Ways>,
    /// True if the comparison is printed as JSON.
    pub json: bool,
}

/// Works through all stages that are not complete, and prints the comparison of the models. Returns the exit code.
///
/// # Errors
/// Wrong usage, found before the first stage as far as it can be; and failures of a stage, from which a second order with
/// `resume` goes on.
pub fn run(order: &Order<'_>) -> Result<u8> {
    let plan = Plan::read(order)?;
    let keys = plan.keys()?;
    let basis = plan.basis()?;
    let mut folder = Folder::open(order.output, order.resume)?;
    let standings = folder.standings(&keys);
    tell(&plan, &standings);
    // One watch for all stages: between those of two trainings nothing would hear a signal. The stages report it.
    let watch = Watch::start()?;
    watch.hush(true);
    let mut code = OK;
    for (number, stage) in (1..).zip(Stage::ALL) {
        let standing = standings.get(&stage).copied().unwrap_or(Standing::Open);
        if let Standing::Complete { code: then, .. } = standing {
            code = code.max(then);
            continue;
        }
        if watch.asked().is_cancelled() {
            return Ok(interrupted());
        }
        let (name, of) = (stage.name(), Stage::ALL.len());
        say(&format!("[{number}/{of}] {name}: {}", plan.words(stage)));
        let Some(key) = keys.get(&stage) else {
            continue;
        };
        let began = Instant::now();
        let basis = (stage == Stage::Programs).then_some(&basis);
        let path = folder.begin(stage, key, basis, standing == Standing::Begun)?;
        let work = Work {
            order,
            plan: &plan,
            folder: &folder,
            path: &path,
            stopped: watch.asked(),
        };
        let ended = work.run(stage);
        let seconds = began.elapsed().as_secs_f64();
        let done = match &ended {
            Ok(Ended::Complete(code)) => Some(*code),
            Ok(Ended::Incomplete(_) | Ended::Interrupted) | Err(_) => None,
        };
        folder.end(stage, seconds, done)?;
        match ended? {
            Ended::Complete(now) => {
                say(&format!(
                    "[{number}/{of}] {name}: done in {}",
                    about(seconds)
                ));
                code = code.max(now);
            }
            // Only the last stage may lack something and have results all the same.
            Ended::Incomplete(now) => code = code.max(now),
            Ended::Interrupted => return Ok(interrupted()),
        }
    }
    let summary = Summary::read(&folder.of(Stage::Evaluation))?;
    match order.json {
        true => data(&serde_json::to_string(&summary)?),
        false => summary.lines().iter().for_each(|line| data(line)),
    }
    say(&format!(
        "models, programs, answers and charts are in {}; comparison.html there shows the models side by side",
        folder.path().display()
    ));
    Ok(code)
}

/// Says which stages there are, how they stand and how long they take.
fn tell(plan: &Plan, standings: &BTreeMap<Stage, Standing>) {
    say(&format!(
        "{} problems to train on, {} held out; stages:",
        plan.training.len(),
        plan.held_out.len()
    ));
    for stage in Stage::ALL {
        let words = match standings.get(&stage) {
            Some(Standing::Complete { seconds, .. }) => {
                format!("complete (it took {}), left out", about(*seconds))
            }
            Some(Standing::Begun) => format!("goes on: {}", plan.words(stage)),
            Some(Standing::Changed) => format!(
                "is repeated, because its settings or inputs are others: {}",
                plan.words(stage)
            ),
            Some(Standing::Open) | None => plan.words(stage),
        };
        say(&format!("  {}: {words}", stage.name()));
    }
}

fn interrupted() -> u8 {
    say("interrupted; the same command with --resume continues from here");
    INTERRUPTED
}
