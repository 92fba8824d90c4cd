//! The archive: cells by set of detected techniques.

use std::collections::BTreeMap;

use flopsmith_protocol::{MachineClass, ProblemId, RunId, TechniqueSet};
use serde::{Deserialize, Serialize};

use crate::elite::Elite;

/// How often a cell was met in one run. Grows only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Candidates in which exactly these techniques were detected.
    pub tried: u64,
    /// Those of them that were verified and timed.
    pub correct: u64,
    /// Candidates whose task permitted exactly these techniques.
    pub aimed: u64,
    /// Those of them that were correct and used all that was permitted.
    pub hit: u64,
}

impl Counts {
    fn add(self, other: Self) -> Self {
        Self {
            tried: self.tried + other.tried,
            correct: self.correct + other.correct,
            aimed: self.aimed + other.aimed,
            hit: self.hit + other.hit,
        }
    }
}

/// One set of techniques.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// The best programs, best first, each with another source and each measured at least twice.
    elites: Vec<Elite>,
    /// Counts per run.
    counts: BTreeMap<RunId, Counts>,
}

impl Cell {
    /// The best programs, best first.
    pub fn elites(&self) -> &[Elite] {
        &self.elites
    }

    /// The best program.
    pub fn best(&self) -> Option<&Elite> {
        self.elites.first()
    }

    /// True if the cell holds a program.
    pub fn is_filled(&self) -> bool {
        !self.elites.is_empty()
    }

    /// Counts over all runs.
    pub fn counts(&self) -> Counts {
        self.counts
            .values()
            .copied()
            .fold(Counts::default(), Counts::add)
    }

    /// Counts of one run.
    fn counts_of(&self, run: &RunId) -> Counts {
        self.counts.get(run).copied().unwrap_or_default()
    }

    /// Inserts an elite by its rank; true if it stayed.
    ///
    /// Of two measurements of one source the higher-ranking stays. Together with keeping the highest `capacity` sources
    /// this makes the cell a join-semilattice: every order of arrival leaves the same elites.
    fn offer(&mut self, elite: Elite, capacity: usize) -> bool {
        if let Some(at) = self.elites.iter().position(|e| e.digest == elite.digest) {
            if self.elites[at].rank(&elite).is_le() {
                return false;
            }
            self.elites.remove(at);
        }
        let at = self.elites.partition_point(|e| e.rank(&elite).is_lt());
        self.elites.insert(at, elite);
        self.elites.truncate(capacity);
        at < capacity
    }
}

/// The result of offering an elite to the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inserted {
    /// It is the first of its cell.
    New,
    /// It is the best of its cell now.
    Improved,
    /// It is in its cell, behind the best.
    Kept,
    /// It would enter but was measured once only: measure it again.
    NeedsRemeasure,
    /// There is no place for it.
    NotAdded,
}

impl Inserted {
    /// True if the elite is in the archive now.
    pub fn stayed(self) -> bool {
        matches!(self, Inserted::New | Inserted::Improved | Inserted::Kept)
    }
}

/// Numbers about an archive, in the terms of pyribs; the objective is the GFLOPS of a cell's best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Cells with at least one elite.
    pub filled: usize,
    /// Cells there can be: all subsets of the pool.
    pub cells: usize,
    /// `filled / cells`.
    pub coverage: f64,
    /// Elites in all cells.
    pub elites: usize,
    /// Sum of the objective over filled cells, with an offset of 0.
    pub qd_score: f64,
    /// `qd_score / cells`.
    pub norm_qd_score: f64,
    /// Largest objective.
    pub objective_max: Option<f64>,
    /// Mean objective of filled cells.
    pub objective_mean: Option<f64>,
    /// Candidates whose techniques were known.
    pub tried: u64,
    /// Those of them that were verified and timed.
    pub correct: u64,
}

/// The best programs of one problem on one machine class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Archive {
    problem: ProblemId,
    machine_class: MachineClass,
    pool: TechniqueSet,
    elites_per_cell: usize,
    #[serde(with = "by_name")]
    cells: BTreeMap<TechniqueSet, Cell>,
}

impl Archive {
    /// An empty archive over the subsets of `pool`.
    pub fn new(
        problem: ProblemId,
        machine_class: MachineClass,
        pool: TechniqueSet,
        elites_per_cell: usize,
    ) -> Self {
        Self {
            problem,
            machine_class,
            pool,
            elites_per_cell: elites_per_cell.max(1),
            cells: BTreeMap::new(),
        }
    }

    /// The problem.
    pub fn problem(&self) -> &ProblemId {
        &self.problem
    }

    /// The machine class whose timings are compared here.
    pub fn machine_class(&self) -> &MachineClass {
        &self.machine_class
    }

    /// The techniques whose subsets are the cells.
    pub fn pool(&self) -> TechniqueSet {
        self.pool
    }

    /// The cells that were met, filled or not.
    pub fn cells(&self) -> impl Iterator<Item = (TechniqueSet, &Cell)> {
        self.cells.iter().map(|(t, c)| (*t, c))
    }

    /// One cell, if it was met.
    pub fn cell(&self, techniques: TechniqueSet) -> Option<&Cell> {
        self.cells.get(&techniques)
    }

    /// The best program of all cells.
    pub fn best(&self) -> Option<(TechniqueSet, &Elite)> {
        self.cells()
            .filter_map(|(t, c)| c.best().map(|e| (t, e)))
            .min_by(|a, b| a.1.rank(b.1))
    }

    /// The elites of all cells that have all of `techniques`, no other than `permitted` ones, and this text in their source: the
    /// best first.
    pub fn find(
        &self,
        techniques: TechniqueSet,
        permitted: TechniqueSet,
        text: &str,
    ) -> Vec<(TechniqueSet, &Elite)> {
        let mut found: Vec<(TechniqueSet, &Elite)> = self
            .cells()
            .filter(|(set, _)| techniques.is_subset(*set) && set.is_subset(permitted))
            .flat_map(|(set, cell)| cell.elites().iter().map(move |elite| (set, elite)))
            .filter(|(_, elite)| elite.source.contains(text))
            .collect();
        found.sort_by(|a, b| a.1.rank(b.1));
        found
    }

    /// Counts for one cell in one run.
    pub fn count(&mut self, techniques: TechniqueSet, run: &RunId, counts: Counts) {
        if techniques.is_subset(self.pool) {
            let cell = self.cells.entry(techniques).or_default();
            let sum = cell.counts_of(run).add(counts);
            cell.counts.insert(run.clone(), sum);
        }
    }

    /// Offers a program to its cell.
    ///
    /// A program that was measured once changes nothing: the answer says whether a second measurement is worth its
    /// time. It is worth it when the cell has room, or when the program is clearly faster (by `min_gain`, a share, and
    /// beyond noise) than the last elite of the cell. It is not worth it when the cell holds the same source already,
    /// or when the program reaches less than the share `floor` of the cell's best: no task would build on such an
    /// elite.
    pub fn insert(
        &mut self,
        techniques: TechniqueSet,
        elite: Elite,
        min_gain: f64,
        floor: f64,
    ) -> Inserted {
        if !techniques.is_subset(self.pool) {
            return Inserted::NotAdded;
        }
        let capacity = self.elites_per_cell;
        if elite.remeasured > 0 {
            let cell = self.cells.entry(techniques).or_default();
            let was_filled = cell.is_filled();
            let digest = elite.digest.clone();
            return match (cell.offer(elite, capacity), was_filled) {
                (false, _) => Inserted::NotAdded,
                (true, false) => Inserted::New,
                (true, true) if cell.best().is_some_and(|b| b.digest == digest) => {
                    Inserted::Improved
                }
                (true, true) => Inserted::Kept,
            };
        }
        let Some((cell, best)) = self.cell(techniques).and_then(|c| Some((c, c.best()?))) else {
            return Inserted::NeedsRemeasure;
        };
        let known = cell.elites.iter().any(|e| e.digest == elite.digest);
        let beats_last = cell.elites.len() < capacity
            || cell
                .elites
                .last()
                .is_some_and(|last| elite.clearly_faster_than(last, min_gain));
        if !known && beats_last && elite.ratio >= floor * best.ratio {
            Inserted::NeedsRemeasure
        } else {
            Inserted::NotAdded
        }
    }

    /// Numbers for reports.
    pub fn stats(&self) -> Stats {
        let best: Vec<f64> = self
            .cells
            .values()
            .filter_map(|c| c.best().map(|e| e.gflops))
            .collect();
        let counts = self
            .cells
            .values()
            .map(Cell::counts)
            .fold(Counts::default(), Counts::add);
        let cells = 1_usize << self.pool.len();
        let qd_score: f64 = best.iter().sum();
        Stats {
            filled: best.len(),
            cells,
            coverage: best.len() as f64 / cells as f64,
            elites: self.cells.values().map(|c| c.elites.len()).sum(),
            qd_score,
            norm_qd_score: qd_score / cells as f64,
            objective_max: best.iter().copied().max_by(f64::total_cmp),
            objective_mean: (!best.is_empty()).then(|| qd_score / best.len() as f64),
            tried: counts.tried,
            correct: counts.correct,
        }
    }
}

/// Cells keyed by the name of their set, because JSON keys are strings.
mod by_name {
    use std::collections::BTreeMap;

    use flopsmith_protocol::TechniqueSet;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::Cell;

    pub(super) fn serialize<S: Serializer>(
        cells: &BTreeMap<TechniqueSet, Cell>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(cells.iter().map(|(t, c)| (t.to_string(), c)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<TechniqueSet, Cell>, D::Error> {
        BTreeMap::<String, Cell>::deserialize(deserializer)?
            .into_iter()
            .map(|(name, cell)| Ok((name.parse().map_err(D::Error::custom)?, cell)))
            .collect()
    }
}
