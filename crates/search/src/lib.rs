//! A search in a space of programs.
//!
//! The search draws points of the space and changes the best known ones. Of many such proposals it tries those that a model of the speed
//! finds most promising. The model is a ridge regression of the logarithm of the speed on features of the program (Hoerl and Kennard,
//! 1970), fitted to everything that was measured. A [`Space`] says which points there are, how a program is written from one, and what is
//! known of speeds before anything is measured.
//!
//! Invariants:
//! - no program is proposed twice;
//! - where a space can name all of its points, the search proposes each of them before it finds no more;
//! - this crate is pure: it runs nothing, and randomness comes from the caller.

mod ridge;

use std::collections::BTreeMap;
use std::fmt::Debug;

use flopsmith_protocol::TechniqueSet;
use rand::Rng;

use ridge::Ridge;

/// Proposals that are compared for each one that is tried.
const CHOICES: usize = 12;
/// Draws for one proposal at most: many points of a space have no program.
const DRAWS: usize = 400;
/// Points that are changed: the best ones.
const ELITES: usize = 12;
/// Number of measured programs from which on the model is fitted.
const FITTED_FROM: usize = 24;
/// Share of the proposals that the model does not choose.
const UNGUIDED: f64 = 0.2;

/// A space of programs.
pub trait Space {
    /// A point, from which a program is written.
    type Point: Clone + Ord + Debug;

    /// The point that is tried first.
    fn first(&self) -> Self::Point;

    /// Draws a point within the permitted techniques. It may have no program.
    fn draw(&self, permitted: TechniqueSet, rng: &mut impl Rng) -> Self::Point;

    /// Draws a point that differs little from `point`. It may have no program.
    fn neighbour(
        &self,
        point: &Self::Point,
        permitted: TechniqueSet,
        rng: &mut impl Rng,
    ) -> Self::Point;

    /// The program of a point, if it has one.
    fn write(&self, point: &Self::Point) -> Option<Written>;

    /// The weights of the features before anything is measured; their number is that of the features.
    fn prior(&self) -> Vec<f64>;

    /// All points, for a space that can name them. The search asks for them once it draws no new ones.
    fn all(&self) -> impl Iterator<Item = Self::Point> {
        std::iter::empty()
    }
}

/// A program of a space.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Its text.
    pub text: String,
    /// Its techniques, as far as the space knows them.
    pub techniques: TechniqueSet,
    /// Its features, from which the model estimates its speed.
    pub features: Vec<f64>,
}

/// A program that the search proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal<P> {
    /// Its point.
    pub point: P,
    /// Its text.
    pub text: String,
    /// Its techniques.
    pub techniques: TechniqueSet,
    /// The place of the parent that it varies, among those of [`Search::breed`]; none for a point that was drawn.
    pub parent: Option<usize>,
}

/// A proposed program with its features and its speed.
#[derive(Debug, Clone)]
struct Known<P> {
    point: P,
    techniques: TechniqueSet,
    features: Vec<f64>,
    /// True once the program has an outcome.
    decided: bool,
    /// None for a program that failed or has no outcome yet.
    speed: Option<f64>,
}

/// A search.
#[derive(Debug, Clone)]
pub struct Search<S: Space> {
    space: S,
    known: BTreeMap<String, Known<S::Point>>,
    model: Ridge,
    fitted: usize,
}

impl<S: Space> Search<S> {
    /// A search that knows nothing but the space.
    pub fn new(space: S) -> Self {
        Self {
            model: Ridge::new(space.prior()),
            space,
            known: BTreeMap::new(),
            fitted: 0,
        }
    }

    /// The space.
    pub fn space(&self) -> &S {
        &self.space
    }

    /// The next programs to try, of those that are `mine`: at most `count`, fewer where no others are found.
    pub fn propose(
        &mut self,
        count: usize,
        permitted: TechniqueSet,
        mine: &dyn Fn(&S::Point, &str) -> bool,
        rng: &mut impl Rng,
    ) -> Vec<Proposal<S::Point>> {
        let parents = self.elites(permitted);
        self.breed(&parents, count, permitted, mine, rng)
    }

    /// As [`Self::propose`], with variations of `parents` instead of the best known programs. The earlier a parent stands, the more
    /// often it is changed.
    pub fn breed(
        &mut self,
        parents: &[S::Point],
        count: usize,
        permitted: TechniqueSet,
        mine: &dyn Fn(&S::Point, &str) -> bool,
        rng: &mut impl Rng,
    ) -> Vec<Proposal<S::Point>> {
        let mut chosen: Vec<Proposal<S::Point>> = Vec::new();
        let first = self.space.first();
        if let Some(written) = self.written(&first, permitted)
            && mine(&first, &written.text)
            && !self.known.contains_key(&written.text)
        {
            chosen.push(self.enter(first, written, None));
        }
        while chosen.len() < count {
            match self.one(parents, permitted, mine, rng) {
                Some(proposal) => chosen.push(proposal),
                None => break,
            }
        }
        chosen.truncate(count);
        chosen
    }

    /// The new programs of `points` that are `mine` and within the permitted techniques: at most `count`, in this order.
    pub fn begin(
        &mut self,
        points: &[S::Point],
        count: usize,
        permitted: TechniqueSet,
        mine: &dyn Fn(&S::Point, &str) -> bool,
    ) -> Vec<Proposal<S::Point>> {
        let mut chosen = Vec::new();
        for point in points {
            if chosen.len() == count {
                break;
            }
            if let Some(written) = self.written(point, permitted)
                && self.is_fresh(point, &written, mine)
            {
                chosen.push(self.enter(point.clone(), written, None));
            }
        }
        chosen
    }

    /// Takes note of a program's speed; none if it failed.
    pub fn report(&mut self, text: &str, speed: Option<f64>) {
        if let Some(known) = self.known.get_mut(text) {
            known.speed = speed;
            known.decided = true;
        }
        let measured = self.known.values().filter(|k| k.speed.is_some()).count();
        if measured >= FITTED_FROM && measured >= self.fitted + self.fitted / 4 {
            self.fit();
            self.fitted = measured;
        }
    }

    /// Forgets the programs that have no outcome yet, so that they may be proposed again.
    pub fn forget_undecided(&mut self) {
        self.known.retain(|_, known| known.decided);
    }

    /// The best program so far, with its speed.
    pub fn best(&self) -> Option<(&S::Point, f64)> {
        let measured = self
            .known
            .values()
            .filter_map(|k| Some((&k.point, k.speed?)));
        measured.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Enters a program that this search did not propose itself, as after a restart. True if the point gives this program.
    pub fn register(&mut self, text: &str, point: &S::Point) -> bool {
        if self.known.contains_key(text) {
            return true;
        }
        match self.space.write(point) {
            Some(written) if written.text == text => {
                self.enter(point.clone(), written, None);
                true
            }
            _ => false,
        }
    }

    fn one(
        &mut self,
        parents: &[S::Point],
        permitted: TechniqueSet,
        mine: &dyn Fn(&S::Point, &str) -> bool,
        rng: &mut impl Rng,
    ) -> Option<Proposal<S::Point>> {
        let mut open: Vec<(f64, Option<usize>, S::Point, Written)> = Vec::new();
        let choices = if rng.random_bool(UNGUIDED) {
            1
        } else {
            CHOICES
        };
        for _ in 0..DRAWS {
            if open.len() >= choices {
                break;
            }
            let (parent, point) = if parents.is_empty() || rng.random_bool(0.25) {
                (None, self.space.draw(permitted, rng))
            } else {
                // The better a parent is, the more often it is changed.
                let at = (parents.len() as f64 * rng.random::<f64>().powi(2)) as usize;
                let at = at.min(parents.len() - 1);
                let mut child = self.space.neighbour(&parents[at], permitted, rng);
                if rng.random_bool(0.3) {
                    child = self.space.neighbour(&child, permitted, rng);
                }
                (Some(at), child)
            };
            let Some(written) = self.written(&point, permitted) else {
                continue;
            };
            let fresh = self.is_fresh(&point, &written, mine)
                && open.iter().all(|(.., other)| other.text != written.text);
            if fresh {
                let estimate = self.model.estimate(&written.features);
                open.push((estimate, parent, point, written));
            }
        }
        let drawn = open.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (parent, point, written) = match drawn {
            Some((_, parent, point, written)) => (parent, point, written),
            None => {
                let (point, written) = self.left(permitted, mine)?;
                (None, point, written)
            }
        };
        Some(self.enter(point, written, parent))
    }

    /// The first point of the space that was not tried.
    fn left(
        &self,
        permitted: TechniqueSet,
        mine: &dyn Fn(&S::Point, &str) -> bool,
    ) -> Option<(S::Point, Written)> {
        self.space.all().find_map(|point| {
            let written = self.written(&point, permitted)?;
            self.is_fresh(&point, &written, mine)
                .then_some((point, written))
        })
    }

    fn is_fresh(
        &self,
        point: &S::Point,
        written: &Written,
        mine: &dyn Fn(&S::Point, &str) -> bool,
    ) -> bool {
        mine(point, &written.text) && !self.known.contains_key(&written.text)
    }

    /// The program of a point, if it has one within the permitted techniques.
    fn written(&self, point: &S::Point, permitted: TechniqueSet) -> Option<Written> {
        let written = self.space.write(point)?;
        written.techniques.is_subset(permitted).then_some(written)
    }

    fn enter(
        &mut self,
        point: S::Point,
        written: Written,
        parent: Option<usize>,
    ) -> Proposal<S::Point> {
        let known = Known {
            point: point.clone(),
            techniques: written.techniques,
            features: written.features,
            decided: false,
            speed: None,
        };
        self.known.insert(written.text.clone(), known);
        Proposal {
            point,
            text: written.text,
            techniques: written.techniques,
            parent,
        }
    }

    /// The best points within the permitted techniques, the best first.
    fn elites(&self, permitted: TechniqueSet) -> Vec<S::Point> {
        let mut measured: Vec<(f64, &S::Point)> = self
            .known
            .values()
            .filter(|k| k.techniques.is_subset(permitted))
            .filter_map(|k| Some((k.speed?, &k.point)))
            .collect();
        measured.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        measured.truncate(ELITES);
        measured.into_iter().map(|(_, p)| p.clone()).collect()
    }

    /// Fits the model to everything that was measured.
    fn fit(&mut self) {
        let measured: Vec<(&[f64], f64)> = self
            .known
            .values()
            .filter_map(|k| Some((k.features.as_slice(), k.speed?.max(1e-9).ln())))
            .collect();
        self.model.fit(&measured);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Pairs of numbers below `side` whose sum is no multiple of `hole`.
    #[derive(Debug, Clone)]
    struct Grid {
        side: u32,
        hole: u32,
    }

    impl Space for Grid {
        type Point = (u32, u32);

        fn first(&self) -> (u32, u32) {
            (0, 1)
        }

        fn draw(&self, _: TechniqueSet, rng: &mut impl Rng) -> (u32, u32) {
            (
                rng.random_range(0..self.side),
                rng.random_range(0..self.side),
            )
        }

        fn neighbour(
            &self,
            point: &(u32, u32),
            permitted: TechniqueSet,
            rng: &mut impl Rng,
        ) -> (u32, u32) {
            let fresh = self.draw(permitted, rng);
            match rng.random_bool(0.5) {
                true => (fresh.0, point.1),
                false => (point.0, fresh.1),
            }
        }

        fn write(&self, point: &(u32, u32)) -> Option<Written> {
            let (a, b) = (f64::from(point.0), f64::from(point.1));
            (!(point.0 + point.1).is_multiple_of(self.hole)).then(|| Written {
                text: format!("{} {}", point.0, point.1),
                techniques: TechniqueSet::EMPTY,
                features: vec![1.0, a, b, a * a, b * b],
            })
        }

        fn prior(&self) -> Vec<f64> {
            vec![0.0; 5]
        }

        fn all(&self) -> impl Iterator<Item = (u32, u32)> {
            let side = self.side;
            (0..side).flat_map(move |a| (0..side).map(move |b| (a, b)))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_space_whose_points_are_known_is_tried_to_its_end_and_nothing_twice(
            side in 2u32..9, hole in 2u32..5, seed in 0u64..1000, count in 1usize..7
        ) {
            let space = Grid { side, hole };
            let wanted: BTreeSet<_> = space.all().filter(|p| space.write(p).is_some()).collect();
            let mut search = Search::new(space);
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut seen = BTreeSet::new();
            loop {
                let next = search.propose(count, TechniqueSet::all(), &|_, _| true, &mut rng);
                if next.is_empty() {
                    break;
                }
                for proposal in next {
                    prop_assert!(seen.insert(proposal.point), "{:?} was proposed before", proposal.point);
                    let speed = (proposal.point.0 % 3 > 0).then(|| f64::from(proposal.point.1) + 1.0);
                    search.report(&proposal.text, speed);
                }
            }
            prop_assert_eq!(seen, wanted);
        }

        #[test]
        fn a_program_without_an_outcome_may_be_proposed_again(seed in 0u64..1000) {
            let mut search = Search::new(Grid { side: 3, hole: 4 });
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let all = search.propose(9, TechniqueSet::all(), &|_, _| true, &mut rng);
            search.report(&all[1].text, Some(3.0));
            search.report(&all[2].text, None);
            search.forget_undecided();
            let again = search.propose(9, TechniqueSet::all(), &|_, _| true, &mut rng);
            prop_assert_eq!(again.len(), all.len() - 2);
            prop_assert!(again.iter().all(|p| p.text != all[1].text && p.text != all[2].text));
        }
    }

    #[test]
    fn the_model_leads_to_the_peak_of_a_smooth_landscape() {
        let peak = (31.0, 12.0);
        let speed = |p: &(u32, u32)| {
            let (a, b) = (f64::from(p.0) - peak.0, f64::from(p.1) - peak.1);
            (-(a * a + b * b) / 200.0).exp()
        };
        let tried = |seed: u64| {
            let mut search = Search::new(Grid { side: 64, hole: 97 });
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for _ in 0..12 {
                for proposal in search.propose(8, TechniqueSet::all(), &|_, _| true, &mut rng) {
                    search.report(&proposal.text, Some(speed(&proposal.point)));
                }
            }
            search.best().map_or(0.0, |best| best.1)
        };
        // Of 96 points at random among 4096, the best is this near in fewer than half of all cases.
        let near = (0..10).filter(|seed| tried(*seed) > 0.99).count();
        assert!(near >= 8, "{near} of 10");
    }
}
