//! Task choice: stage, permission set and elite of each task of a step.

use flopsmith_protocol::{EliteHint, TechniqueSet};
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::config::Config;
use crate::draw::Draw;
use crate::elite::Elite;
use crate::failures::{Failed, Failures};

/// One task to give out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The stage it belongs to.
    pub stage: u32,
    /// The techniques it permits: one of the permission sets of that stage.
    pub permitted: TechniqueSet,
    /// A program of a smaller set of techniques to build on.
    pub elite: Option<EliteHint>,
    /// A failed answer to a prompt with the same techniques, which the answers are to repair.
    pub repairs: Option<Failed>,
}

/// The tasks of one step. The same archive, stage, step and seed give the same tasks.
pub(crate) fn plan(
    config: &Config,
    archive: &Archive,
    failures: &Failures,
    current: u32,
    step: u64,
    tasks: usize,
    seed: u64,
) -> Vec<Plan> {
    let mut draw = Draw::new(seed, step);
    if !config.enabled {
        return evaluation(config, tasks);
    }
    let replays = match current {
        0 => 0,
        _ => draw.round(config.replay_share * tasks as f64),
    };
    // Later stages hold more cells and are closer to the current stage.
    let weights: Vec<f64> = (1..=current).map(f64::from).collect();
    let mut stages: Vec<u32> = (0..tasks)
        .map(|i| match draw.weighted(&weights) {
            Some(earlier) if i < replays => earlier as u32,
            _ => current,
        })
        .collect();
    draw.shuffle(&mut stages);
    let mut taken: Vec<TechniqueSet> = Vec::with_capacity(tasks);
    stages
        .into_iter()
        .map(|stage| {
            let sets = config.stage_sets(stage);
            let guided = draw.chance(config.guidance);
            let weights: Vec<f64> = sets
                .iter()
                .map(|set| {
                    let base = if guided { thinness(archive, *set) } else { 1.0 };
                    // One step should visit many cells; a second visit is possible and unlikely.
                    let visits = taken.iter().filter(|t| *t == set).count();
                    base * 0.1_f64.powi(visits.min(100) as i32)
                })
                .collect();
            let permitted = draw
                .weighted(&weights)
                .or((!sets.is_empty()).then_some(0))
                .map_or(config.techniques, |i| sets[i]);
            taken.push(permitted);
            let elite = draw
                .chance(config.elite_hint_share)
                .then(|| hint(archive, permitted, &mut draw))
                .flatten();
            // A share of 0 takes no draw, so recorded runs without such tasks are repeated bit for bit.
            let repairs = (config.repair_share > 0.0 && draw.chance(config.repair_share))
                .then(|| failures.one_of(permitted, &mut draw))
                .flatten();
            Plan {
                stage,
                permitted,
                elite: elite.filter(|_| repairs.is_none()),
                repairs: repairs.cloned(),
            }
        })
        .collect()
}

/// Bytes of all programs that a task carries for exploration samples: a broker refuses messages above a mebibyte.
const MOST_BYTES_OF_PARENTS: usize = 1 << 18;

/// The elites that `samples` exploration samples of a task mutate: `parent_share` of them have one, rounded up or down by
/// chance, as long as a permitted cell is filled and the programs are short enough together. Each filled cell of permitted
/// techniques is equally likely, and so is each elite of a cell; one elite may come several times.
pub(crate) fn parents(
    config: &Config,
    archive: &Archive,
    permitted: TechniqueSet,
    samples: u32,
    draw: &mut Draw,
) -> Vec<EliteHint> {
    let cells: Vec<(TechniqueSet, &[Elite])> = archive
        .cells()
        .filter(|(set, cell)| set.is_subset(permitted) && cell.is_filled())
        .map(|(set, cell)| (set, cell.elites()))
        .collect();
    let count = draw.round(config.parent_share * f64::from(samples));
    let one_of = |count: usize, draw: &mut Draw| draw.weighted(&vec![1.0; count]);
    let parent = |_| {
        let (techniques, elites) = cells[one_of(cells.len(), draw)?];
        Some(hint_of(techniques, &elites[one_of(elites.len(), draw)?]))
    };
    let mut bytes = 0;
    let fits = |parent: &EliteHint| {
        bytes += parent.source.len();
        bytes <= MOST_BYTES_OF_PARENTS
    };
    (0..count).filter_map(parent).take_while(fits).collect()
}

/// Tasks that permit the whole pool and show no elite. They carry the number of the last stage.
pub(crate) fn evaluation(config: &Config, tasks: usize) -> Vec<Plan> {
    let last = config.stages().len().saturating_sub(1);
    let plan = Plan {
        stage: last as u32,
        permitted: config.techniques,
        elite: None,
        repairs: None,
    };
    vec![plan; tasks]
}

/// Weight of a cell for a guided task: large for few correct programs so far, unless nearly all attempts failed.
///
/// Without the square root of the (smoothed) success rate, a cell that was tried a hundred times in vain would keep
/// taking guided tasks.
fn thinness(archive: &Archive, set: TechniqueSet) -> f64 {
    let (counts, elites) = archive
        .cell(set)
        .map(|c| (c.counts(), c.elites().len()))
        .unwrap_or_default();
    let success = (counts.hit + 1) as f64 / (counts.aimed + 2) as f64;
    success.sqrt() / (1 + counts.correct + elites as u64) as f64
}

/// An elite of a strict subset of `permitted`. Its probability is proportional to its ratio and falls by a factor of 4
/// with each missing technique.
fn hint(archive: &Archive, permitted: TechniqueSet, draw: &mut Draw) -> Option<EliteHint> {
    let elites: Vec<(TechniqueSet, &Elite)> = archive
        .cells()
        .filter(|(set, _)| set.is_subset(permitted) && *set != permitted)
        .flat_map(|(set, cell)| cell.elites().iter().map(move |e| (set, e)))
        .collect();
    let weights: Vec<f64> = elites
        .iter()
        .map(|(set, e)| e.ratio * 0.25_f64.powi((permitted.len() - set.len()) as i32))
        .collect();
    let (techniques, elite) = elites[draw.weighted(&weights)?];
    Some(hint_of(techniques, elite))
}

/// An elite of a cell as tasks carry it.
fn hint_of(techniques: TechniqueSet, elite: &Elite) -> EliteHint {
    EliteHint {
        techniques,
        source: elite.source.clone(),
        gflops: elite.gflops,
    }
}
