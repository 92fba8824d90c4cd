//! The search over the points of a template.

use flopsmith_protocol::TechniqueSet;
use flopsmith_search::Written;
use rand::Rng;

use super::space::{Point, Space};

/// A search over the points of a template.
pub type Search = flopsmith_search::Search<Space>;

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

impl flopsmith_search::Space for Space {
    type Point = Point;

    /// The reference, which shows what the other programs gain.
    fn first(&self) -> Point {
        Point::REFERENCE
    }

    fn draw(&self, _: TechniqueSet, rng: &mut impl Rng) -> Point {
        let points = self.points();
        points[rng.random_range(0..points.len())].clone()
    }

    /// Another value of one parameter.
    fn neighbour(&self, point: &Point, permitted: TechniqueSet, rng: &mut impl Rng) -> Point {
        if *point == Point::REFERENCE {
            return self.draw(permitted, rng);
        }
        let mut values = point.values().to_vec();
        let at = rng.random_range(0..values.len());
        let among = self.parameters()[at].values;
        values[at] = among[rng.random_range(0..among.len())].0;
        Point(values)
    }

    fn write(&self, point: &Point) -> Option<Written> {
        Some(Written {
            text: self.program(point)?,
            techniques: self.techniques(point),
            features: self.features(point),
        })
    }

    fn prior(&self) -> Vec<f64> {
        self.rules()
    }

    fn all(&self) -> impl Iterator<Item = Point> {
        self.points().iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flopsmith_problem::Problem;
    use flopsmith_protocol::Technique;
    use flopsmith_test_support::shipped;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn search(name: &str) -> Search {
        let problem = Problem::load(&shipped::at(name)).expect("a shipped problem is sound");
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
        values
            .map(|(value, wanted)| near(*value, wanted))
            .sum::<f64>()
            + 0.1
    }

    #[test]
    fn the_best_is_found_among_few() {
        let mut search = search("walsh_hadamard");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut seen = BTreeSet::new();
        for _ in 0..12 {
            for proposal in search.propose(8, TechniqueSet::all(), &|_, _| true, &mut rng) {
                assert!(seen.insert(proposal.text.clone()), "it was proposed before");
                let speed = speed(&search, &proposal.point);
                search.report(&proposal.text, Some(speed));
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
        let mut search = search("spmv");
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let permitted: TechniqueSet = "unroll+prefetch".parse().expect("techniques");
        let all = search.propose(12, permitted, &|_, _| true, &mut rng);
        assert_eq!(all.len(), 12);
        assert_eq!(all[0].point, Point::REFERENCE);
        for proposal in &all {
            assert!(proposal.techniques.is_subset(permitted), "{proposal:?}");
        }
        let uses = |technique| all.iter().any(|p| p.techniques.contains(technique));
        assert!(uses(Technique::Unroll) && uses(Technique::Prefetch));
    }

    #[test]
    fn every_point_within_the_permitted_techniques_is_proposed() {
        let mut search = search("prefix_sum");
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let few: TechniqueSet = "prefetch".parse().expect("techniques");
        let space = search.space();
        let points = space.points().iter();
        let within = points.filter(|point| space.techniques(point).is_subset(few));
        let wanted: BTreeSet<Point> = within.cloned().collect();
        let proposed = search.propose(wanted.len() + 1, few, &|_, _| true, &mut rng);
        let proposed: BTreeSet<Point> = proposed.into_iter().map(|p| p.point).collect();
        assert_eq!(proposed, wanted);
        assert!(wanted.len() > 1);
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
            let text = space.program(point).expect("it is a point");
            let source = marked(space, &text, point);
            prop_assert_eq!(unmarked(space, &source), Some((text.as_str(), point.clone())));
            let other = source.replace("\"template\":\"", "\"template\":\"x");
            prop_assert_eq!(unmarked(space, &other), None);
        }
    }
}
