//! A search over the schedules of one program.
//!
//! The search draws schedules and changes the best known ones. Of many such proposals it tries those that a model of the speed finds most
//! promising. The model is a ridge regression of the logarithm of the speed on features of the written program (Hoerl and Kennard, 1970);
//! before anything is measured it consists of the rules by which register tiles are chosen by hand (Goto and van de Geijn, 2008; Low et
//! al., 2016): enough sums to hide the latency of a multiply-add, few enough for the registers, vectors as wide as possible.

use std::collections::BTreeMap;

use flopsmith_protocol::TechniqueSet;
use rand::Rng;

use crate::generate::{Fact, Rendered, Space};
use crate::labels::techniques;
use crate::schedule::{Schedule, Style};
use crate::space::{draw, neighbour};

/// Proposals that are compared for each one that is tried.
const CHOICES: usize = 12;
/// Draws for one proposal at most: many schedules break a dependence.
const DRAWS: usize = 400;
/// Schedules that are changed: the best ones.
const ELITES: usize = 12;
/// Number of features of a program.
const FEATURES: usize = 22;
/// Number of measured programs from which on the model is fitted.
const FITTED_FROM: usize = 24;
/// The weight of the prior in the regression.
const RIDGE: f64 = 3.0;
/// Share of the proposals that the model does not choose.
const UNGUIDED: f64 = 0.2;

/// Begins the comment that names a program's schedule.
const MARK: &str = "\n/* schedule: ";
/// Ends it.
const MARK_END: &str = " */\n";

/// The program with its schedule in a comment, so that the schedule can be told from the program.
pub fn marked(text: &str, schedule: &Schedule) -> String {
    let words = serde_json::to_string(schedule).unwrap_or_default();
    format!("{text}{MARK}{words}{MARK_END}")
}

/// Program and schedule of a marked program.
pub fn unmarked(source: &str) -> Option<(&str, Schedule)> {
    let (text, rest) = source.rsplit_once(MARK)?;
    let words = rest.strip_suffix(MARK_END)?;
    Some((text, serde_json::from_str(words).ok()?))
}

/// A program that the search proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Its schedule.
    pub schedule: Schedule,
    /// Its text.
    pub text: String,
    /// Its techniques.
    pub techniques: TechniqueSet,
}

/// A proposed program with its features and its speed.
#[derive(Debug, Clone)]
struct Known {
    schedule: Schedule,
    techniques: TechniqueSet,
    features: [f64; FEATURES],
    /// None for a program that failed or has no outcome yet.
    speed: Option<f64>,
}

/// A search.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    largest: usize,
    known: BTreeMap<String, Known>,
    weights: [f64; FEATURES],
    fitted: usize,
}

impl Search {
    /// A search over the schedules of a program whose text is at most `largest` bytes long.
    pub fn new(space: Space, largest: usize) -> Self {
        Self {
            space,
            largest,
            known: BTreeMap::new(),
            weights: prior(),
            fitted: 0,
        }
    }

    /// The program.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The next programs to try, of those that are `mine`: at most `count`, fewer where no others are found.
    pub fn propose(
        &mut self,
        count: usize,
        permitted: TechniqueSet,
        mine: &dyn Fn(&str) -> bool,
        rng: &mut impl Rng,
    ) -> Vec<Proposal> {
        let mut chosen: Vec<Proposal> = Vec::new();
        if let Some((rendered, schedule)) = self.rendered(self.space.plain(), permitted)
            && mine(&rendered.text)
            && !self.known.contains_key(&rendered.text)
        {
            chosen.push(self.enter(schedule, rendered));
        }
        while chosen.len() < count {
            match self.one(permitted, mine, rng) {
                Some(proposal) => chosen.push(proposal),
                None => break,
            }
        }
        chosen.truncate(count);
        chosen
    }

    /// Takes note of a program's speed; none if it failed.
    pub fn report(&mut self, text: &str, speed: Option<f64>) {
        if let Some(known) = self.known.get_mut(text) {
            known.speed = speed;
        }
        let measured = self.known.values().filter(|k| k.speed.is_some()).count();
        if measured >= FITTED_FROM && measured >= self.fitted + self.fitted / 4 {
            self.fit();
            self.fitted = measured;
        }
    }

    /// The best program so far, with its speed.
    pub fn best(&self) -> Option<(&Schedule, f64)> {
        let measured = self
            .known
            .values()
            .filter_map(|k| Some((&k.schedule, k.speed?)));
        measured.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn one(
        &mut self,
        permitted: TechniqueSet,
        mine: &dyn Fn(&str) -> bool,
        rng: &mut impl Rng,
    ) -> Option<Proposal> {
        let elites = self.elites(permitted);
        let mut open: Vec<(f64, Schedule, Rendered)> = Vec::new();
        let choices = if rng.random_bool(UNGUIDED) {
            1
        } else {
            CHOICES
        };
        for _ in 0..DRAWS {
            if open.len() >= choices {
                break;
            }
            let schedule = if elites.is_empty() || rng.random_bool(0.25) {
                draw(&self.space, permitted, rng)
            } else {
                // The better an elite is, the more often it is changed.
                let at = (elites.len() as f64 * rng.random::<f64>().powi(2)) as usize;
                let parent = &elites[at.min(elites.len() - 1)];
                let mut child = neighbour(&self.space, parent, permitted, rng);
                if rng.random_bool(0.3) {
                    child = neighbour(&self.space, &child, permitted, rng);
                }
                child
            };
            let Some((rendered, schedule)) = self.rendered(schedule, permitted) else {
                continue;
            };
            let fresh = mine(&rendered.text)
                && !self.known.contains_key(&rendered.text)
                && open.iter().all(|(_, _, other)| other.text != rendered.text);
            if fresh {
                let estimate = self.estimate(&features(&schedule, &rendered.facts));
                open.push((estimate, schedule, rendered));
            }
        }
        let best = open.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(self.enter(best.1, best.2))
    }

    /// The program of a schedule, if it has one within the permitted techniques and size.
    fn rendered(
        &self,
        schedule: Schedule,
        permitted: TechniqueSet,
    ) -> Option<(Rendered, Schedule)> {
        let rendered = self.space.render(&schedule).ok()?;
        let fits = rendered.text.len() <= self.largest
            && techniques(&self.space, &rendered).is_subset(permitted);
        fits.then_some((rendered, schedule))
    }

    fn enter(&mut self, schedule: Schedule, rendered: Rendered) -> Proposal {
        let techniques = techniques(&self.space, &rendered);
        let known = Known {
            schedule: schedule.clone(),
            techniques,
            features: features(&schedule, &rendered.facts),
            speed: None,
        };
        self.known.insert(rendered.text.clone(), known);
        Proposal {
            schedule,
            text: rendered.text,
            techniques,
        }
    }

    /// Enters a program that this search did not propose itself, as after a restart. True if the schedule gives this program.
    pub fn recall(&mut self, text: &str, schedule: &Schedule) -> bool {
        if self.known.contains_key(text) {
            return true;
        }
        match self.space.render(schedule) {
            Ok(rendered) if rendered.text == text => {
                self.enter(schedule.clone(), rendered);
                true
            }
            _ => false,
        }
    }

    /// The best schedules within the permitted techniques, the best first.
    fn elites(&self, permitted: TechniqueSet) -> Vec<Schedule> {
        let mut measured: Vec<(f64, &Schedule)> = self
            .known
            .values()
            .filter(|k| k.techniques.is_subset(permitted))
            .filter_map(|k| Some((k.speed?, &k.schedule)))
            .collect();
        measured.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        measured.truncate(ELITES);
        measured.into_iter().map(|(_, s)| s.clone()).collect()
    }

    /// The logarithm of the speed that a program may have, up to a constant.
    fn estimate(&self, features: &[f64; FEATURES]) -> f64 {
        features.iter().zip(&self.weights).map(|(f, w)| f * w).sum()
    }

    /// Fits the model to everything that was measured. The weights are drawn towards the rules of thumb.
    fn fit(&mut self) {
        let measured: Vec<(&[f64; FEATURES], f64)> = self
            .known
            .values()
            .filter_map(|k| Some((&k.features, k.speed?.max(1e-9).ln())))
            .collect();
        let mean = measured.iter().map(|(_, y)| y).sum::<f64>() / measured.len().max(1) as f64;
        let prior = prior();
        let mut matrix = vec![[0.0; FEATURES + 1]; FEATURES];
        for (n, row) in matrix.iter_mut().enumerate() {
            row[n] = RIDGE;
            row[FEATURES] = RIDGE * prior[n];
        }
        for (features, y) in &measured {
            for (row, f) in matrix.iter_mut().zip(features.iter()) {
                for (cell, other) in row.iter_mut().zip(features.iter()) {
                    *cell += f * other;
                }
                row[FEATURES] += f * (y - mean);
            }
        }
        if let Some(weights) = solved(matrix) {
            self.weights = weights;
        }
    }
}

/// Solves a symmetric positive definite system by elimination.
fn solved(mut matrix: Vec<[f64; FEATURES + 1]>) -> Option<[f64; FEATURES]> {
    for n in 0..FEATURES {
        let pivot = matrix[n][n];
        if pivot.is_nan() || pivot <= 1e-12 {
            return None;
        }
        let row = matrix[n];
        for other in matrix.iter_mut().skip(n + 1) {
            let factor = other[n] / pivot;
            for (cell, value) in other.iter_mut().zip(&row).skip(n) {
                *cell -= factor * value;
            }
        }
    }
    let mut solution = [0.0; FEATURES];
    for n in (0..FEATURES).rev() {
        let known: f64 = (n + 1..FEATURES).map(|m| matrix[n][m] * solution[m]).sum();
        solution[n] = (matrix[n][FEATURES] - known) / matrix[n][n];
    }
    Some(solution)
}

/// Rules of thumb as weights of the features.
fn prior() -> [f64; FEATURES] {
    let mut weights = [0.0; FEATURES];
    let rules = [
        // A constant, plain loops, `omp simd`, register tiles.
        (1, -0.5),
        (3, 0.5),
        // Vectors of 16, 32 and 64 bytes.
        (4, -0.3),
        (5, 0.2),
        (6, 0.3),
        // Sums in flight, spilled registers, loads for each multiply-add.
        (7, 0.8),
        (8, -1.0),
        (9, -0.8),
        // Elements that are gathered one by one.
        (10, -0.8),
    ];
    for (at, weight) in rules {
        weights[at] = weight;
    }
    weights
}

/// Features of a program: means over its leaves, of which deeper ones count more.
fn features(schedule: &Schedule, facts: &[Fact]) -> [f64; FEATURES] {
    let mut sum = [0.0; FEATURES];
    let mut total = 0.0;
    for fact in facts {
        // A loop more means about ten times the work or more.
        let weight = 8f64.powi(fact.depth as i32);
        total += weight;
        for (cell, value) in sum.iter_mut().zip(of_leaf(fact)) {
            *cell += weight * value;
        }
    }
    if total > 0.0 {
        sum.iter_mut().for_each(|cell| *cell /= total);
    }
    let groups = schedule.groups.len().max(1) as f64;
    let share = |holds: &dyn Fn(&crate::schedule::Group) -> bool| {
        schedule.groups.iter().filter(|g| holds(g)).count() as f64 / groups
    };
    sum[0] = 1.0;
    sum[16] = share(&|g| g.tiles.iter().any(|t| *t > 0));
    sum[17] = share(&|g| g.tiles.iter().filter(|t| **t > 0).count() > 1);
    sum[18] = share(&|g| g.fused > 0);
    sum[19] = share(&|g| g.skew.is_some());
    sum[20] = share(&|g| g.openmp);
    sum[21] = share(&|g| !g.order.is_sorted());
    sum
}

/// Features of a leaf, at their places among all.
fn of_leaf(fact: &Fact) -> [f64; FEATURES] {
    let mut all = [0.0; FEATURES];
    let flag = |holds: bool| if holds { 1.0 } else { 0.0 };
    let (rows, columns) = (f64::from(fact.rows), f64::from(fact.columns));
    let sums = rows * columns;
    let registers = if fact.bytes == 64 { 32.0 } else { 16.0 };
    let tile = fact.style == Style::Tile;
    all[1] = flag(fact.style == Style::Plain);
    all[2] = flag(fact.style == Style::Simd);
    all[3] = flag(tile);
    all[4] = flag(fact.bytes == 16);
    all[5] = flag(fact.bytes == 32);
    all[6] = flag(fact.bytes == 64);
    all[7] = flag(tile) * (sums / 8.0).min(1.0);
    all[8] = flag(sums + rows.min(columns) + 1.0 > registers);
    all[9] = flag(tile) * (rows + columns) / (2.0 * sums);
    all[10] = flag(fact.far > fact.packed);
    all[11] = f64::from(fact.far.saturating_sub(fact.packed)).ln_1p();
    all[12] = flag(fact.packed > 0);
    all[13] = flag(fact.across);
    all[14] = f64::from(fact.unroll).log2();
    all[15] = flag(fact.prefetch > 0);
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flopsmith_problem::Problem;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn search(name: &str) -> Search {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let problem = Problem::load(&root.join(name)).expect("a shipped problem is sound");
        let program = crate::read::read(&problem).expect("it is affine");
        Search::new(Space::new(program), 16_384)
    }

    #[test]
    fn nothing_is_proposed_twice_and_the_best_is_found_among_neighbours() {
        let mut search = search("dgemm");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        // A landscape with its peak at 6 rows of 2 wide vectors.
        let speed = |p: &Proposal| {
            let leaf = &p.schedule.groups.last().expect("a group").leaf;
            let rows = leaf.rows.map_or(1, |r| r.1);
            let tile = leaf.style == Style::Tile;
            let wide = f64::from(leaf.vector) / 64.0;
            f64::from(u8::from(tile)) * (rows * leaf.columns.1.min(2)).min(12) as f64 * wide + 1.0
        };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..30 {
            for proposal in search.propose(8, TechniqueSet::all(), &|_| true, &mut rng) {
                assert!(seen.insert(proposal.text.clone()), "it was proposed before");
                let speed = speed(&proposal);
                search.report(&proposal.text, Some(speed));
            }
        }
        let best = search.best().expect("something was measured").1;
        assert!(best > 9.0, "{best}");
    }

    #[test]
    fn proposals_stay_within_the_permitted_techniques() {
        let mut search = search("dsyrk");
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let permitted: TechniqueSet = "unroll+simd".parse().expect("techniques");
        let all = search.propose(12, permitted, &|_| true, &mut rng);
        assert!(all.len() > 3, "{}", all.len());
        for proposal in all {
            assert!(proposal.techniques.is_subset(permitted), "{proposal:?}");
        }
    }

    #[test]
    fn a_marked_program_tells_its_schedule() {
        let mut search = search("lu");
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for proposal in search.propose(5, TechniqueSet::all(), &|_| true, &mut rng) {
            let source = marked(&proposal.text, &proposal.schedule);
            let (text, schedule) = unmarked(&source).expect("it is marked");
            assert_eq!(
                (text, &schedule),
                (proposal.text.as_str(), &proposal.schedule)
            );
            assert!(search.recall(text, &schedule));
        }
        assert_eq!(unmarked("int x;"), None);
    }

    #[test]
    fn elimination_solves_what_it_is_given() {
        let mut matrix = vec![[0.0; FEATURES + 1]; FEATURES];
        for (n, row) in matrix.iter_mut().enumerate() {
            for (m, cell) in row.iter_mut().enumerate().take(FEATURES) {
                *cell = 1.0 / (1.0 + n as f64 + m as f64) + if n == m { 1.0 } else { 0.0 };
            }
            row[FEATURES] = n as f64;
        }
        let solution = solved(matrix.clone()).expect("it is definite");
        for row in matrix {
            let product: f64 = row.iter().zip(&solution).map(|(a, x)| a * x).sum();
            assert!((product - row[FEATURES]).abs() < 1e-9);
        }
    }
}
