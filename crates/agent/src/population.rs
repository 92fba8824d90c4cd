//! The population: everything that was tried, and the elites of each island.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_archive::{Archive, Elite, identity};
use flopsmith_protocol::{
    CandidateId, Digest, MachineClass, Measurement, Outcome, ProblemId, TaskId, TechniqueSet,
    Verdict,
};
use rand::Rng;

/// The probability of passing over a cell for the next slower one.
const PASS_CELL: f64 = 0.6;
/// The same for the elites of a cell.
const PASS_ELITE: f64 = 0.4;
/// Draws for each wanted parent at most: islands with few elites give the same ones again.
const DRAWS: usize = 8;

/// The rules of a population.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Number of islands, 1 at least.
    pub islands: u32,
    /// Number of evaluations between two migrations, 1 at least.
    pub migrate_every: u64,
    /// The techniques whose subsets are the cells.
    pub pool: TechniqueSet,
    /// Largest number of elites in a cell of an island.
    pub elites_per_cell: usize,
}

/// A program that was evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its first outcome.
    pub outcome: Outcome,
    /// The island it was written on.
    pub island: usize,
    /// Its speed by the measurement that confirmed it, 10⁹ floating-point operations a second; none before that.
    pub confirmed: Option<f64>,
}

impl Known {
    /// Its speed: the confirmed one, or that of its first measurement; none for a program that was refused.
    pub fn gflops(&self) -> Option<f64> {
        let first = self.outcome.verdict.measurement();
        self.confirmed
            .or_else(|| first.map(Measurement::known_gflops))
    }
}

/// A program that may have children.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parent<'a> {
    /// Its cell.
    pub techniques: TechniqueSet,
    /// The program with its confirmed speed.
    pub elite: &'a Elite,
}

/// The programs of a run for one problem, on islands.
///
/// The tasks of a run take turns on the islands, so the tasks of a step work on different ones. Each island is an archive of
/// its own, whose cells are sets of detected techniques. After every so many evaluations the best elite of each island goes to
/// the next one as well.
///
/// A measurement that made a program look fast is too high on average, so a program becomes an elite by its second measurement,
/// which replaces the first. The population does not ask for second measurements; the run's archive does.
#[derive(Debug, Clone, PartialEq)]
pub struct Population {
    rules: Rules,
    problem: ProblemId,
    machine_class: MachineClass,
    islands: Vec<Archive>,
    known: BTreeMap<Digest, Known>,
    /// The program of each candidate that was evaluated.
    candidates: BTreeMap<CandidateId, Digest>,
    /// Candidates and second measurements that have counted.
    counted: BTreeSet<CandidateId>,
    evaluations: u64,
    migrations: u64,
}

impl Population {
    /// A population without programs.
    pub fn new(rules: Rules, problem: ProblemId, machine_class: MachineClass) -> Self {
        let island = || {
            let (problem, class) = (problem.clone(), machine_class.clone());
            Archive::new(problem, class, rules.pool, rules.elites_per_cell)
        };
        Self {
            islands: (0..rules.islands.max(1)).map(|_| island()).collect(),
            rules,
            problem,
            machine_class,
            known: BTreeMap::new(),
            candidates: BTreeMap::new(),
            counted: BTreeSet::new(),
            evaluations: 0,
            migrations: 0,
        }
    }

    /// The island of a task of this step.
    pub fn island_of(&self, step: u64, tasks_in_step: u32, task: &TaskId) -> usize {
        let number = u64::from(task.group().unwrap_or(0));
        let before = step.wrapping_mul(u64::from(tasks_in_step));
        (before.wrapping_add(number) % self.islands.len() as u64) as usize
    }

    /// Takes note of an outcome, in the order of the run's log. Outcomes of other problems and machine classes, and those that say
    /// nothing about a program, change nothing.
    pub fn note(&mut self, outcome: &Outcome) {
        let candidate = &outcome.candidate;
        let ours = candidate.problem == self.problem && outcome.machine_class == self.machine_class;
        if !ours || !outcome.verdict.counts() || !self.counted.insert(candidate.id.clone()) {
            return;
        }
        match &candidate.remeasures {
            Some(first) => self.measured_again(first, &outcome.verdict),
            None => self.tried(outcome),
        }
    }

    fn tried(&mut self, outcome: &Outcome) {
        // An answer without a program is an evaluation, and no program.
        if !outcome.source.trim().is_empty() {
            let of = &outcome.candidate;
            let island = self.island_of(of.step, of.tasks_in_step, &of.task);
            let digest = identity::source_digest(&outcome.source);
            self.candidates
                .insert(outcome.candidate.id.clone(), digest.clone());
            self.known.entry(digest).or_insert_with(|| Known {
                outcome: outcome.clone(),
                island,
                confirmed: None,
            });
        }
        self.evaluations += 1;
        if self
            .evaluations
            .is_multiple_of(self.rules.migrate_every.max(1))
        {
            self.migrate();
        }
    }

    /// A measurement that did not converge confirms nothing, and a reused one is no second measurement.
    fn measured_again(&mut self, first: &CandidateId, verdict: &Verdict) {
        let Some(measurement) = verdict.measurement() else {
            return;
        };
        let Some(digest) = self.candidates.get(first) else {
            return;
        };
        let Some(known) = self.known.get_mut(digest) else {
            return;
        };
        if measurement.reused || !measurement.converged() {
            return;
        }
        let elite = Elite::from_outcome(&known.outcome);
        let elite = elite.and_then(|elite| elite.measured_again(measurement));
        if let (Some(elite), Some(techniques)) = (elite, known.outcome.techniques) {
            known.confirmed = Some(elite.gflops);
            settle(&mut self.islands[known.island], techniques, elite);
        }
    }

    /// The best elite of each island goes to the next one.
    fn migrate(&mut self) {
        self.migrations += 1;
        let count = self.islands.len();
        let best: Vec<Option<(TechniqueSet, Elite)>> = self
            .islands
            .iter()
            .map(|island| island.best().map(|(set, elite)| (set, elite.clone())))
            .collect();
        for (from, migrant) in best.into_iter().enumerate() {
            if let Some((techniques, elite)) = migrant {
                settle(&mut self.islands[(from + 1) % count], techniques, elite);
            }
        }
    }

    /// At most `count` different parents on an island within the permitted techniques, in the order in which they were drawn. Cells
    /// with faster elites are drawn more often, and so are the faster elites of a cell. None while no elite of the island is
    /// confirmed.
    pub fn parents(
        &self,
        island: usize,
        permitted: TechniqueSet,
        count: usize,
        rng: &mut impl Rng,
    ) -> Vec<Parent<'_>> {
        let Some(island) = self.islands.get(island) else {
            return Vec::new();
        };
        let mut cells: Vec<(TechniqueSet, &[Elite])> = island
            .cells()
            .filter(|(set, cell)| set.is_subset(permitted) && cell.is_filled())
            .map(|(set, cell)| (set, cell.elites()))
            .collect();
        cells.sort_by(|a, b| a.1[0].rank(&b.1[0]));
        let mut parents: Vec<Parent> = Vec::new();
        for _ in 0..count.saturating_mul(DRAWS) {
            if parents.len() >= count || cells.is_empty() {
                break;
            }
            let (techniques, elites) = cells[passing(cells.len(), PASS_CELL, rng)];
            let elite = &elites[passing(elites.len(), PASS_ELITE, rng)];
            if parents.iter().all(|p| p.elite.digest != elite.digest) {
                parents.push(Parent { techniques, elite });
            }
        }
        parents
    }

    /// The fastest different programs of all islands within the permitted techniques, the fastest first: at most `count`.
    pub fn fastest(&self, permitted: TechniqueSet, count: usize) -> Vec<Parent<'_>> {
        let cells = self.islands.iter().flat_map(Archive::cells);
        let mut fastest: Vec<Parent> = cells
            .filter(|(set, _)| set.is_subset(permitted))
            .flat_map(|(techniques, cell)| {
                let elites = cell.elites().iter();
                elites.map(move |elite| Parent { techniques, elite })
            })
            .collect();
        fastest.sort_by(|a, b| a.elite.rank(b.elite));
        let mut seen = BTreeSet::new();
        fastest.retain(|parent| seen.insert(&parent.elite.digest));
        fastest.truncate(count);
        fastest
    }

    /// The program, if it was evaluated before, in whatever layout and with whatever comments.
    pub fn known(&self, source: &str) -> Option<&Known> {
        self.known.get(&identity::source_digest(source))
    }

    /// The program of a candidate that was evaluated, in its first layout.
    pub fn of_candidate(&self, id: &str) -> Option<&str> {
        let mut candidates = self.candidates.iter();
        let (_, digest) = candidates.find(|(known, _)| known.as_str() == id)?;
        let known = self.known.get(digest)?;
        Some(&known.outcome.source)
    }

    /// The fastest program that was confirmed, of all islands.
    pub fn best(&self) -> Option<Parent<'_>> {
        let best = self.islands.iter().filter_map(Archive::best);
        best.min_by(|a, b| a.1.rank(b.1))
            .map(|(techniques, elite)| Parent { techniques, elite })
    }

    /// The fastest programs that have all of `techniques` and contain `text`, at most `count`, the fastest first. Of programs that
    /// were refused only those count that contain a text, after all others.
    pub fn find(&self, techniques: TechniqueSet, text: &str, count: usize) -> Vec<&Known> {
        let mut found: Vec<&Known> = self
            .known
            .values()
            .filter(|known| {
                let detected = known.outcome.techniques.unwrap_or_default();
                let judged = known.gflops().is_some() || !text.is_empty();
                judged && techniques.is_subset(detected) && known.outcome.source.contains(text)
            })
            .collect();
        let speed = |known: &Known| known.gflops().unwrap_or(0.0);
        found.sort_by(|a, b| {
            let by_speed = speed(b).total_cmp(&speed(a));
            by_speed.then_with(|| a.outcome.candidate.id.cmp(&b.outcome.candidate.id))
        });
        found.truncate(count);
        found
    }

    /// Number of programs that were evaluated, repeats included.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Number of migrations so far.
    pub fn migrations(&self) -> u64 {
        self.migrations
    }

    /// The archive of each island.
    pub fn islands(&self) -> &[Archive] {
        &self.islands
    }
}

/// Offers a confirmed elite to an island. Its cell decides by rank.
fn settle(island: &mut Archive, techniques: TechniqueSet, elite: Elite) {
    // Gain and floor are for programs that were measured once.
    island.insert(techniques, elite, 0.0, 0.0);
}

/// A place below `count`: the first one, or with this probability a later one.
fn passing(count: usize, pass: f64, rng: &mut impl Rng) -> usize {
    let mut place = 0;
    while place + 1 < count && rng.random_bool(pass) {
        place += 1;
    }
    place
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::CandidateRef;
    use flopsmith_test_support::{
        Measured, again, candidate, machine_class, measured, outcome, problem_id, unknown, wrong,
    };
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const ISLANDS: u32 = 3;

    fn empty(migrate_every: u64) -> Population {
        let rules = Rules {
            islands: ISLANDS,
            migrate_every,
            pool: TechniqueSet::general(),
            elites_per_cell: 2,
        };
        Population::new(rules, problem_id(), machine_class())
    }

    /// The first outcome of a program on an island, at this speed; 0 is refused.
    fn first(number: u32, island: u32, set: &str, gflops: f64) -> Outcome {
        let verdict = match gflops > 0.0 {
            true => measured(gflops),
            false => wrong(),
        };
        Outcome {
            source: format!("int f(void) {{ return {number}; }}"),
            techniques: Some(set.parse().unwrap()),
            ..outcome(of(u64::from(number), island), verdict)
        }
    }

    /// A candidate of a step with a task for each island.
    fn of(step: u64, island: u32) -> CandidateRef {
        CandidateRef {
            tasks_in_step: ISLANDS,
            ..candidate(step, island, 0)
        }
    }

    fn second(first: &Outcome, gflops: f64) -> Outcome {
        again(first, measured(gflops))
    }

    fn parents(population: &Population, island: usize) -> Vec<String> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let all = TechniqueSet::all();
        let parents = population.parents(island, all, 8, &mut rng);
        parents.iter().map(|p| p.elite.source.clone()).collect()
    }

    #[test]
    fn a_program_breeds_once_its_speed_is_confirmed_and_by_that_speed() {
        let mut population = empty(1000);
        let lucky = first(1, 0, "simd", 9.0);
        let steady = first(2, 0, "simd", 8.0);
        population.note(&lucky);
        population.note(&steady);
        assert!(parents(&population, 0).is_empty());
        assert_eq!(population.known(&lucky.source).unwrap().gflops(), Some(9.0));

        population.note(&second(&lucky, 4.0));
        let unconverged = Measured::at(8.0).unconverged().measurement();
        let reused = Measured::at(8.0).reused().measurement();
        for (repetition, measurement) in [(1, unconverged), (2, reused)] {
            let mut outcome = again(&steady, Verdict::Measured { measurement });
            outcome.candidate.id = steady.candidate.id.remeasured(repetition);
            population.note(&outcome);
        }
        assert_eq!(parents(&population, 0), [lucky.source.as_str()]);

        let mut confirmed = second(&steady, 7.9);
        confirmed.candidate.id = steady.candidate.id.remeasured(3);
        population.note(&confirmed);
        assert_eq!(population.best().unwrap().elite.source, steady.source);
        assert_eq!(population.known(&lucky.source).unwrap().gflops(), Some(4.0));
        assert!(parents(&population, 1).is_empty(), "another island");
    }

    #[test]
    fn the_best_elite_of_an_island_goes_to_the_next_one() {
        let mut population = empty(3);
        let best = first(1, 0, "simd", 5.0);
        population.note(&best);
        population.note(&second(&best, 5.0));
        population.note(&first(2, 1, "unroll", 0.0));
        assert!(parents(&population, 1).is_empty());
        population.note(&first(3, 2, "unroll", 1.0));
        assert_eq!(population.migrations(), 1);
        assert_eq!(parents(&population, 1), [best.source.as_str()]);
        assert!(parents(&population, 2).is_empty());
        for number in 4..7 {
            population.note(&first(number, 2, "unroll", 1.0));
        }
        assert_eq!(parents(&population, 2), [best.source.as_str()]);
    }

    #[test]
    fn the_tasks_of_a_run_take_turns_on_the_islands() {
        let population = empty(1000);
        let island = |step: u64, number: u32| {
            let task = candidate(step, number, 0).task;
            population.island_of(step, 2, &task)
        };
        let places = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)].map(|(s, n)| island(s, n));
        assert_eq!(places, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_parent_has_no_technique_that_is_not_permitted() {
        let mut population = empty(1000);
        for (number, set) in [(1, "simd"), (2, "unroll"), (3, "simd+unroll")] {
            let outcome = first(number, 0, set, f64::from(number));
            population.note(&outcome);
            population.note(&second(&outcome, f64::from(number)));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let permitted = "simd".parse().unwrap();
        let only = population.parents(0, permitted, 8, &mut rng);
        assert_eq!(only.len(), 1);
        assert_eq!(only[0].techniques, permitted);
        let all = population.parents(0, TechniqueSet::all(), 8, &mut rng);
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_program_is_known_in_another_layout_and_found_by_techniques_and_text() {
        let mut population = empty(1000);
        for (number, set, gflops) in [(1, "simd", 1.0), (2, "simd", 3.0), (3, "unroll", 0.0)] {
            population.note(&first(number, 0, set, gflops));
        }
        let same = "int f(void)\n{\n    return 2; // two\n}\n";
        assert_eq!(population.known(same).unwrap().gflops(), Some(3.0));
        assert!(population.known("int f(void) { return 4; }").is_none());
        let second = first(2, 0, "simd", 3.0);
        let named = population.of_candidate(second.candidate.id.as_str());
        assert_eq!(named, Some(second.source.as_str()));
        assert_eq!(population.of_candidate("another"), None);
        let numbers = |set: &str, text: &str| -> Vec<u64> {
            let set = match set {
                "" => TechniqueSet::EMPTY,
                set => set.parse().unwrap(),
            };
            let found = population.find(set, text, 8);
            found.iter().map(|k| k.outcome.candidate.step).collect()
        };
        assert_eq!(numbers("simd", ""), [2, 1]);
        assert_eq!(numbers("", "return"), [2, 1, 3]);
        assert_eq!(numbers("", "return 1"), [1]);
        assert!(numbers("unroll", "").is_empty(), "it was refused");
        assert!(numbers("packing", "").is_empty());
    }

    #[test]
    fn outcomes_of_others_and_of_the_infrastructure_change_nothing() {
        let mut population = empty(1);
        let before = population.clone();
        let mut other = first(1, 0, "simd", 1.0);
        other.candidate.problem = ProblemId::new("other").unwrap();
        population.note(&other);
        let mut elsewhere = first(1, 0, "simd", 1.0);
        elsewhere.machine_class = MachineClass::new("other").unwrap();
        population.note(&elsewhere);
        population.note(&outcome(candidate(1, 0, 1), unknown()));
        assert_eq!(population, before);
        population.note(&outcome(candidate(1, 0, 0), measured(1.0)));
        assert_eq!(population.evaluations(), 1);
    }

    /// A log: first outcomes, and second measurements of some of them, at any later place.
    fn logs() -> impl Strategy<Value = Vec<Outcome>> {
        let one = (
            0..ISLANDS,
            prop::sample::select(vec!["simd", "unroll", "simd+unroll"]),
            0u32..5,
            prop::option::of((0usize..40, 1u32..5)),
        );
        prop::collection::vec(one, 0..40).prop_map(|programs| {
            let mut log = Vec::new();
            for (number, (island, set, gflops, again)) in (0u32..).zip(programs) {
                let outcome = first(number, island, set, f64::from(gflops));
                let place = log.len();
                log.push(outcome.clone());
                if let (Some((later, gflops)), true) = (again, gflops > 0) {
                    let at = (place + 1).min(log.len()) + later;
                    log.insert(at.min(log.len()), second(&outcome, f64::from(gflops)));
                }
            }
            log
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_parent_was_confirmed_and_no_outcome_counts_twice(
            log in logs(), every in 1u64..20, seed in 0u64..1000
        ) {
            let mut population = empty(every);
            let mut repeating = population.clone();
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for outcome in &log {
                population.note(outcome);
                repeating.note(outcome);
                repeating.note(outcome);
                for island in 0..ISLANDS as usize {
                    for parent in population.parents(island, TechniqueSet::all(), 4, &mut rng) {
                        prop_assert!(parent.elite.remeasured > 0);
                        let known = population.known(&parent.elite.source);
                        prop_assert_eq!(known.and_then(|k| k.confirmed), Some(parent.elite.gflops));
                    }
                }
            }
            prop_assert_eq!(&population, &repeating);
            // A restart reads the same log.
            let mut again = empty(every);
            log.iter().for_each(|outcome| again.note(outcome));
            prop_assert_eq!(&population, &again);
            let first = log.iter().filter(|o| o.candidate.remeasures.is_none()).count() as u64;
            prop_assert_eq!(population.evaluations(), first);
            prop_assert_eq!(population.migrations(), first / every);
        }
    }
}
