//! A search over the points of a template.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_nest::model::Model;
use flopsmith_protocol::TechniqueSet;
use rand::Rng;
use rand::seq::IndexedRandom;

use super::space::{Point, Space};

/// Points that are compared for each one that is tried.
const CHOICES: usize = 12;
/// Points whose neighbours are tried: the fastest ones.
const ELITES: usize = 8;
/// Neighbours differ in so many parameters at most.
const NEAR: usize = 2;
/// Share of the points that the model does not choose.
const UNGUIDED: f64 = 0.2;

/// Begins the comment that names a program's point.
const MARK: &str = "\n/* parameters: ";
/// Ends it.
const MARK_END: &str = " */\n";
/// The key of the template's name in the comment.
const TEMPLATE: &str = "template";

/// The program with its point in a comment, so that the point can be told from the program.
pub fn marked(space: &Space, text: &str, point: &Point) -> String {
    let mut words = serde_json::Map::new();
    words.insert(TEMPLATE.to_owned(), space.template().name().into());
    for (parameter, value) in space.parameters().iter().zip(point.values()) {
        words.insert(parameter.name.to_owned(), (*value).into());
    }
    let words = serde_json::Value::Object(words);
    format!("{text}{MARK}{words}{MARK_END}")
}

/// Program and point of a marked program.
pub fn unmarked<'a>(space: &Space, source: &'a str) -> Option<(&'a str, Point)> {
    let (text, rest) = source.rsplit_once(MARK)?;
    let words: serde_json::Value = serde_json::from_str(rest.strip_suffix(MARK_END)?).ok()?;
    let words = words.as_object()?;
    if words.get(TEMPLATE)?.as_str()? != space.template().name() {
        return None;
    }
    if words.len() == 1 {
        return Some((text, Point::REFERENCE));
    }
    let parameters = space.parameters();
    let value = |name: &str| u32::try_from(words.get(name)?.as_u64()?).ok();
    let values: Option<Vec<u32>> = parameters.iter().map(|p| value(p.name)).collect();
    (words.len() == parameters.len() + 1).then_some((text, Point(values?)))
}

/// A program that the search proposes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Its point.
    pub point: Point,
    /// Its text, with the comment that names the point.
    pub source: String,
    /// Its techniques.
    pub techniques: TechniqueSet,
}

/// Proposes programs and learns from their speed. Pure: the same reports and the same random numbers give the same
/// proposals, independently of the proposals in between.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    /// The speeds of all reported points; none for a program that failed.
    known: BTreeMap<Point, Option<f64>>,
    model: Model,
}

impl Search {
    /// A search without reports.
    pub fn new(space: Space) -> Self {
        Self {
            model: Model::new(space.prior()),
            known: BTreeMap::new(),
            space,
        }
    }

    /// The space of the search.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// `count` programs to try: different ones without a report as long as there are any, of those that are `mine` as long
    /// as there are any. When all are known, the fastest ones come again, which costs no measurement.
    pub fn propose(
        &self,
        count: usize,
        permitted: TechniqueSet,
        mine: &dyn Fn(&Point) -> bool,
        rng: &mut impl Rng,
    ) -> Vec<Proposal> {
        let within: Vec<&Point> = self
            .space
            .points()
            .iter()
            .filter(|point| self.space.techniques(point).is_subset(permitted))
            .collect();
        let open = |point: &&Point| !self.known.contains_key(*point);
        let all: Vec<&Point> = within.iter().copied().filter(open).collect();
        let own: Vec<&Point> = all.iter().copied().filter(|point| mine(point)).collect();
        let elites = self.elites(&within);
        let mut taken: BTreeSet<&Point> = BTreeSet::new();
        // The reference shows what the others gain.
        if let Some(first) = own.first().filter(|first| ***first == Point::REFERENCE) {
            taken.insert(*first);
        }
        let mut chosen: Vec<&Point> = taken.iter().copied().collect();
        for from in [&own, &all] {
            while chosen.len() < count {
                let Some(point) = self.one(from, &taken, &elites, rng) else {
                    break;
                };
                taken.insert(point);
                chosen.push(point);
            }
        }
        let fastest = if elites.is_empty() { within } else { elites };
        let again = fastest.into_iter().cycle();
        let missing = count.saturating_sub(chosen.len());
        chosen.extend(again.take(missing));
        chosen.truncate(count);
        let proposals = chosen.into_iter().filter_map(|point| {
            let text = self.space.write(point)?;
            Some(Proposal {
                source: marked(&self.space, &text, point),
                techniques: self.space.techniques(point),
                point: point.clone(),
            })
        });
        proposals.collect()
    }

    /// The most promising one of some points, half of them neighbours of fast ones.
    fn one<'a>(
        &self,
        from: &[&'a Point],
        taken: &BTreeSet<&'a Point>,
        elites: &[&Point],
        rng: &mut impl Rng,
    ) -> Option<&'a Point> {
        let open: Vec<&Point> = from
            .iter()
            .copied()
            .filter(|point| !taken.contains(point))
            .collect();
        if rng.random_bool(UNGUIDED) {
            return open.choose(rng).copied();
        }
        let mut choices: Vec<&Point> = Vec::with_capacity(CHOICES);
        for n in 0..CHOICES {
            // The faster an elite is, the more often its neighbours are tried.
            let at = (elites.len() as f64 * rng.random::<f64>().powi(2)) as usize;
            let elite = elites.get(at).filter(|_| n % 2 == 0);
            let near = elite.and_then(|elite| {
                let near = |point: &&&Point| elite.distance(point) <= NEAR;
                let near: Vec<&Point> = open.iter().filter(near).copied().collect();
                near.choose(rng).copied()
            });
            choices.extend(near.or_else(|| open.choose(rng).copied()));
        }
        let estimated = choices
            .into_iter()
            .map(|point| (self.model.estimate(&self.space.features(point)), point));
        let best = estimated.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)));
        best.map(|(_, point)| point)
    }

    /// The fastest of some points, the fastest first.
    fn elites<'a>(&self, within: &[&'a Point]) -> Vec<&'a Point> {
        let speed = |point: &&'a Point| Some((self.known.get(*point).copied()??, *point));
        let mut measured: Vec<(f64, &Point)> = within.iter().filter_map(speed).collect();
        measured.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        measured.truncate(ELITES);
        measured.into_iter().map(|(_, point)| point).collect()
    }

    /// Takes note of the speed of a program, whoever proposed it; none if it failed. Programs of others are passed over.
    pub fn report(&mut self, source: &str, speed: Option<f64>) {
        let Some((text, point)) = unmarked(&self.space, source) else {
            return;
        };
        if self.space.write(&point).as_deref() != Some(text) {
            return;
        }
        let speed = speed.filter(|s| s.is_finite() && *s > 0.0);
        let known = self.known.entry(point).or_insert(speed);
        // Of several measurements of a program the fastest counts.
        *known = match (*known, speed) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let measured = self.known.values().flatten().count();
        if self.model.is_due(measured) {
            let speeds = self.known.iter();
            let speeds = speeds.filter_map(|(point, speed)| Some((point, (*speed)?)));
            let measured: Vec<(Vec<f64>, f64)> = speeds
                .map(|(point, speed)| (self.space.features(point), speed))
                .collect();
            let all = measured.iter().map(|(f, speed)| (f.as_slice(), *speed));
            self.model.fit(all);
        }
    }

    /// The fastest point so far, with its speed.
    pub fn best(&self) -> Option<(&Point, f64)> {
        let measured = self.known.iter();
        let measured = measured.filter_map(|(point, speed)| Some((point, (*speed)?)));
        measured.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flopsmith_problem::Problem;
    use flopsmith_protocol::Technique;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn search(name: &str) -> Search {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
        let problem = Problem::load(&root.join(name)).expect("a shipped problem is sound");
        Search::new(Space::of(&problem, problem.max_source_bytes).expect("it names a template"))
    }

    /// A landscape with its peak at vectors of 32 bytes, radix 8 and blocks of 2048.
    fn speed(search: &Search, point: &Point) -> f64 {
        let wanted = [32u32, 8, 2048];
        let near = |value: u32, wanted: u32| {
            let distance = (f64::from(value.max(1)) / f64::from(wanted)).log2().abs();
            1.0 / (1.0 + distance)
        };
        assert_eq!(search.space().template().name(), "walsh_hadamard");
        let values = point.values().iter().zip(wanted);
        values.map(|(value, wanted)| near(*value, wanted)).sum::<f64>() + 0.1
    }

    #[test]
    fn nothing_is_proposed_twice_and_the_best_is_found_among_few() {
        let mut search = search("walsh_hadamard");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut seen = BTreeSet::new();
        for _ in 0..12 {
            for proposal in search.propose(8, TechniqueSet::all(), &|_| true, &mut rng) {
                assert!(seen.insert(proposal.source.clone()), "it was proposed before");
                let speed = speed(&search, &proposal.point);
                search.report(&proposal.source, Some(speed));
            }
        }
        let points = search.space().points();
        let most = points.iter().map(|point| speed(&search, point));
        let most = most.max_by(f64::total_cmp).expect("there are points");
        let best = search.best().expect("something was measured").1;
        assert!(points.len() > 2 * seen.len(), "{}", points.len());
        assert!(best > 0.95 * most, "{best} of {most}");
    }

    #[test]
    fn proposals_stay_within_the_permitted_techniques_and_begin_with_the_reference() {
        let search = search("spmv");
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let permitted: TechniqueSet = "unroll+prefetch".parse().expect("techniques");
        let all = search.propose(12, permitted, &|_| true, &mut rng);
        assert_eq!(all.len(), 12);
        assert_eq!(all[0].point, Point::REFERENCE);
        for proposal in &all {
            assert!(proposal.techniques.is_subset(permitted), "{proposal:?}");
        }
        let uses = |technique| all.iter().any(|p| p.techniques.contains(technique));
        assert!(uses(Technique::Unroll) && uses(Technique::Prefetch));
    }

    #[test]
    fn a_space_that_is_searched_through_gives_its_fastest_programs_again() {
        let mut search = search("prefix_sum");
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let few: TechniqueSet = "prefetch".parse().expect("techniques");
        let mut reported = 0;
        loop {
            let all = search.propose(8, few, &|_| true, &mut rng);
            assert_eq!(all.len(), 8);
            let fresh: Vec<_> = all
                .iter()
                .filter(|p| !search.known.contains_key(&p.point))
                .collect();
            if fresh.is_empty() {
                assert_eq!(Some(&all[0].point), search.best().map(|best| best.0));
                break;
            }
            let sources: Vec<String> = fresh.iter().map(|p| p.source.clone()).collect();
            for source in sources {
                reported += 1;
                search.report(&source, Some(source.len() as f64));
            }
            assert!(reported <= search.space().points().len());
        }
        assert!(reported > 1, "{reported}");
    }

    #[test]
    fn failures_and_programs_of_others_teach_nothing_wrong() {
        let mut search = search("histogram");
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let first = search.propose(2, TechniqueSet::all(), &|_| true, &mut rng);
        search.report("int x;", Some(1e9));
        search.report(&first[0].source.replacen("int", "long", 1), Some(1e9));
        assert_eq!(search.best(), None);
        search.report(&first[0].source, None);
        search.report(&first[1].source, Some(2.0));
        search.report(&first[1].source, None);
        assert_eq!(search.best(), Some((&first[1].point, 2.0)));
    }

    proptest! {
        #[test]
        fn a_marked_program_tells_its_point(
            name in prop::sample::select(vec!["sort64", "histogram", "spmv", "walsh_hadamard", "prefix_sum"]),
            at in any::<prop::sample::Index>(),
        ) {
            let search = search(name);
            let space = search.space();
            let point = at.get(space.points());
            let text = space.write(point).expect("it is a point");
            let source = marked(space, &text, point);
            prop_assert_eq!(unmarked(space, &source), Some((text.as_str(), point.clone())));
            let other = source.replace("\"template\":\"", "\"template\":\"x");
            prop_assert_eq!(unmarked(space, &other), None);
        }

        #[test]
        fn shares_never_propose_the_same(seed in any::<u64>()) {
            let search = search("histogram");
            let mut all = BTreeSet::new();
            for share in 0..3u32 {
                let mine = |point: &Point| point.values().iter().sum::<u32>() % 3 == share;
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                for proposal in search.propose(6, TechniqueSet::all(), &mine, &mut rng) {
                    prop_assert!(all.insert(proposal.source));
                }
            }
        }
    }
}
