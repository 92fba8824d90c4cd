//! Estimates a register tile's speed from its schedule, without running it, to decide which programs to try first.
//!
//! The rules are those by which tiles are chosen by hand (Goto and van de Geijn, 2008; Low et al., 2016): enough sums
//! to hide the latency of a multiply-add, few enough to fit into the registers, and no more loads than multiply-adds.
//! The rules use no data of the machine. The number of registers follows from the width of the vectors, and the search
//! finds the best width.

use flopsmith_protocol::TechniqueSet;
use rand::Rng;

use super::{Body, Outer, Pack, Schedule, Space};

/// Multiply-adds that must be in flight for full speed: two units with a latency of four cycles.
const UNDER_WAY: f64 = 8.0;
/// Smallest estimate of a promising program; others are found by random draws only.
const WORTH: f64 = 0.6;
/// Number of a width's best untried programs that draws choose from.
const NEXT: usize = 8;
/// Number of tried programs after which a width is judged.
const JUDGED: usize = 4;

/// Rough estimate of the share, 0 to 1, of its vectors' peak that a program may reach.
pub(super) fn estimate(schedule: &Schedule) -> f64 {
    let Body::Tile {
        rows,
        columns,
        outer,
        pack,
    } = schedule.body
    else {
        // Each multiply-add loads twice and stores once.
        return 0.25;
    };
    let registers = if schedule.vector == 64 { 32 } else { 16 };
    let sums = f64::from(rows * columns);
    // A few more sums compensate for late operands, and fewer loads leave room for other instructions.
    let hidden = |under_way: f64| (sums / under_way).min(1.0);
    let latency = hidden(UNDER_WAY) * (0.95 + 0.05 * hidden(1.5 * UNDER_WAY));
    let each = sums / f64::from(rows + columns);
    let loads = each.min(1.0) * (0.95 + 0.05 * (each / 1.5).min(1.0));
    let spilled = rows * columns + rows.min(columns) + 1 > registers;
    let operands = match (pack, outer) {
        (Pack::Panel, Outer::Column) => 1.0,
        (Pack::Whole, _) => 0.95,
        (Pack::Panel, Outer::Row) => 0.9,
        (Pack::No, Outer::Row) => 0.85,
        (Pack::No, Outer::Column) => 0.8,
    };
    let unroll = match schedule.unroll {
        2 | 4 => 1.0,
        _ => 0.95,
    };
    let spills = if spilled { 0.5 } else { 1.0 };
    let edges = if schedule.divides() { 1.0 } else { 0.97 };
    let prefetch = if schedule.prefetch > 0 { 0.97 } else { 1.0 };
    let block = if schedule.block.is_some() { 0.9 } else { 1.0 };
    latency * loads * operands * unroll * spills * edges * prefetch * block
}

/// The most promising programs of a space.
#[derive(Debug, Clone)]
pub(super) struct Promising {
    /// Sorted by estimate, the best first.
    schedules: Vec<Schedule>,
}

impl Promising {
    pub(super) fn of(space: &Space) -> Self {
        let mut rated: Vec<(f64, Schedule)> = space
            .all()
            .map(|schedule| (estimate(&schedule), schedule))
            .filter(|(estimate, _)| *estimate >= WORTH)
            .collect();
        rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Self {
            schedules: rated.into_iter().map(|(_, schedule)| schedule).collect(),
        }
    }

    /// The programs within `permitted`, by the width of their vectors, with their known speeds. Only programs that are
    /// `mine` may be drawn.
    pub(super) fn within(
        &self,
        permitted: TechniqueSet,
        speed: impl Fn(&Schedule) -> Option<f64>,
        mine: impl Fn(&Schedule) -> bool,
    ) -> Choice {
        let mut widths: Vec<Width> = Vec::new();
        for schedule in &self.schedules {
            if !schedule.techniques().is_subset(permitted) {
                continue;
            }
            let known = widths.iter().position(|w| w.vector == schedule.vector);
            let at = known.unwrap_or_else(|| {
                widths.push(Width::of(schedule.vector));
                widths.len() - 1
            });
            let width = &mut widths[at];
            match speed(schedule) {
                Some(speed) => {
                    width.tried += 1;
                    width.best = width.best.max(speed);
                }
                None if mine(schedule) => width.untried.push(*schedule),
                None => {}
            }
        }
        // Plain doubles are tried only if no vectors are permitted.
        if widths.iter().any(|width| width.vector > 0) {
            widths.retain(|width| width.vector > 0);
        }
        let best = widths.iter().map(|w| w.best).fold(0.0, f64::max);
        for width in &mut widths {
            if width.tried >= JUDGED && best > 0.0 {
                width.weight = (width.best / best).powi(4);
            }
        }
        widths.retain(|width| !width.untried.is_empty() && width.weight > 0.0);
        Choice { widths }
    }
}

/// Programs of one width.
#[derive(Debug)]
struct Width {
    vector: u32,
    weight: f64,
    tried: usize,
    best: f64,
    untried: Vec<Schedule>,
}

impl Width {
    fn of(vector: u32) -> Self {
        Self {
            vector,
            // Nearly every machine has wider vectors.
            weight: if vector == 16 { 0.5 } else { 1.0 },
            tried: 0,
            best: 0.0,
            untried: Vec::new(),
        }
    }
}

/// The programs that can be drawn.
#[derive(Debug)]
pub(super) struct Choice {
    widths: Vec<Width>,
}

impl Choice {
    /// Number of tried programs of the best width so far; `None` if nothing is left to draw.
    pub(super) fn tried(&self) -> Option<usize> {
        let best = self.widths.iter().max_by(|a, b| {
            a.weight
                .total_cmp(&b.weight)
                .then(a.best.total_cmp(&b.best))
        });
        best.map(|width| width.tried)
    }

    /// Draws one of the next programs. A width known to be slow is drawn rarely. `None` if nothing is left; the same
    /// program may be drawn again.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Option<Schedule> {
        let all: f64 = self.widths.iter().map(|width| width.weight).sum();
        let mut left = rng.random::<f64>() * all;
        let chosen = self.widths.iter().find(|width| {
            left -= width.weight;
            left < 0.0
        });
        let untried = &chosen.or(self.widths.last())?.untried;
        Some(untried[rng.random_range(0..untried.len().min(NEXT))])
    }

    /// Removes a proposed program, so that draws give others.
    pub(super) fn remove(&mut self, schedule: &Schedule) {
        for width in &mut self.widths {
            width.untried.retain(|other| other != schedule);
        }
        self.widths.retain(|width| !width.untried.is_empty());
    }
}
