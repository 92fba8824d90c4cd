//! The points of a template for one problem.

use flopsmith_problem::{ArgKind, Element, Problem, Template, row_length};
use flopsmith_protocol::{Technique, TechniqueSet};

use super::{Kernel, Parameter, Writer};

/// A combination of values, one for each parameter in their order; none at all stands for the reference as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point(pub(super) Vec<u32>);

impl Point {
    /// The reference.
    pub const REFERENCE: Point = Point(Vec::new());

    /// The values; none for the reference.
    pub fn values(&self) -> &[u32] {
        &self.0
    }
}

/// The space of a template for one problem.
#[derive(Clone)]
pub struct Space {
    template: Template,
    writer: Writer,
    kernel: Kernel,
    reference: String,
    largest: usize,
    includes: Vec<String>,
    listed: TechniqueSet,
    points: Vec<Point>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let points = self.points.len();
        let template = self.template;
        f.debug_struct("Space")
            .field("template", &template)
            .field("points", &points)
            .finish_non_exhaustive()
    }
}

impl Space {
    /// The space of a problem whose programs, without the comment behind them, are at most `largest` bytes long; none for a
    /// problem without a template.
    pub fn of(problem: &Problem, largest: usize) -> Option<Self> {
        let template = problem.template?;
        let entry = &problem.entry;
        let mut arrays = entry.args.iter().filter_map(|arg| match &arg.kind {
            ArgKind::Array { element, shape, .. } => Some((*element, row_length(shape))),
            _ => None,
        });
        // The result has the type that is computed with.
        let (element, row) = arrays.next_back().unwrap_or((Element::F64, None));
        let mut space = Self {
            template,
            writer: Writer::of(template),
            kernel: Kernel {
                name: entry.name.clone(),
                prototype: entry.prototype.trim().trim_end_matches(';').trim().into(),
                args: entry.args.iter().map(|arg| arg.name.clone()).collect(),
                element,
                row: row.unwrap_or_default(),
            },
            reference: problem.reference_source.clone(),
            largest,
            includes: problem.includes.clone(),
            listed: problem.techniques,
            points: Vec::new(),
        };
        space.points = space.legal();
        Some(space)
    }

    /// The template.
    pub fn template(&self) -> Template {
        self.template
    }

    /// The parameters.
    pub fn parameters(&self) -> &'static [Parameter] {
        self.writer.parameters
    }

    /// All points, the reference first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The program of a point without the comment that names the point; none for a point that the problem does not permit.
    pub fn program(&self, point: &Point) -> Option<String> {
        if *point == Point::REFERENCE {
            return Some(self.reference.clone());
        }
        let values = point.values();
        let known = values.len() == self.parameters().len()
            && self
                .parameters()
                .iter()
                .zip(values)
                .all(|(p, value)| p.values.iter().any(|(v, _)| v == value));
        if !known || !(self.writer.is_legal)(&self.kernel, values) {
            return None;
        }
        let text = (self.writer.write)(&self.kernel, values);
        let mut included = text.lines().filter_map(|line| {
            let name = line.strip_prefix("#include <")?;
            name.strip_suffix('>')
        });
        let permitted = included.all(|header| self.includes.iter().any(|i| i == header));
        (permitted && text.len() <= self.largest).then_some(text)
    }

    /// The techniques of a point's program, those of the loop nest as far as the problem lists them: others are not looked for.
    pub fn techniques(&self, point: &Point) -> TechniqueSet {
        if *point == Point::REFERENCE {
            return TechniqueSet::EMPTY;
        }
        let always = [Technique::Simd, Technique::Openmp, Technique::Prefetch];
        let seen = self.listed.union(always.into_iter().collect());
        (self.writer.techniques)(&self.kernel, point.values()).intersection(seen)
    }

    /// The features of a point for the model of the speed: a constant, and for each value of each parameter whether the point has it.
    pub(super) fn features(&self, point: &Point) -> Vec<f64> {
        let mut features = vec![1.0];
        for (n, parameter) in self.parameters().iter().enumerate() {
            let own = point.values().get(n);
            let has = |value: &u32| f64::from(u8::from(own == Some(value)));
            features.extend(parameter.values.iter().map(|(value, _)| has(value)));
        }
        features
    }

    /// The weights of the features before anything is measured.
    pub(super) fn rules(&self) -> Vec<f64> {
        let mut prior = vec![0.0];
        for parameter in self.parameters() {
            prior.extend(parameter.values.iter().map(|(_, gain)| gain));
        }
        prior
    }

    fn legal(&self) -> Vec<Point> {
        let mut all = vec![Vec::new()];
        for parameter in self.parameters() {
            all = all
                .into_iter()
                .flat_map(|begun: Vec<u32>| {
                    parameter.values.iter().map(move |(value, _)| {
                        let mut longer = begun.clone();
                        longer.push(*value);
                        longer
                    })
                })
                .collect();
        }
        let points = all.into_iter().map(Point);
        let legal = points.filter(|point| self.program(point).is_some());
        std::iter::once(Point::REFERENCE).chain(legal).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flopsmith_test_support::shipped;

    use super::*;

    fn space(name: &str) -> Space {
        let problem = Problem::load(&shipped::at(name)).expect("a shipped problem is sound");
        Space::of(&problem, problem.max_source_bytes).expect("it names a template")
    }

    const SHIPPED: [&str; 5] = [
        "sort64",
        "histogram",
        "spmv",
        "walsh_hadamard",
        "prefix_sum",
    ];

    #[test]
    fn every_point_has_a_program_of_its_own_without_gaps() {
        for name in SHIPPED {
            let space = space(name);
            let mut texts = BTreeSet::new();
            for point in space.points() {
                let text = space.program(point).expect("it is a point");
                assert!(!text.contains('@'), "{name} {point:?}\n{text}");
                assert!(texts.insert(text), "{name}: twice: {point:?}");
            }
            assert!(texts.len() > 60, "{name}: {}", texts.len());
        }
    }

    #[test]
    fn every_value_is_that_of_some_point_and_shows_in_the_techniques_at_most_as_listed() {
        for name in SHIPPED {
            let space = space(name);
            for (n, parameter) in space.parameters().iter().enumerate() {
                assert!(!parameter.meaning.trim().is_empty());
                for (value, _) in parameter.values {
                    let mut points = space.points().iter();
                    assert!(
                        points.any(|p| p.values().get(n) == Some(value)),
                        "{name}: {} = {value} is nowhere",
                        parameter.name
                    );
                }
            }
            for point in space.points() {
                let features = space.features(point);
                assert_eq!(features.len(), space.rules().len());
            }
        }
    }

    #[test]
    fn values_that_do_not_belong_together_have_no_program() {
        let space = space("histogram");
        assert_eq!(space.program(&Point(vec![1])), None);
        let none = vec![12_345; space.parameters().len()];
        assert_eq!(space.program(&Point(none)), None);
    }

    #[test]
    fn headers_and_sizes_that_a_problem_refuses_leave_programs_out() {
        let mut problem = Problem::load(&shipped::at("histogram")).expect("it is sound");
        let all = Space::of(&problem, 16_384).expect("a space").points.len();
        let short = Space::of(&problem, 1500).expect("a space").points.len();
        problem.includes.retain(|header| header != "stdlib.h");
        let few = Space::of(&problem, 16_384).expect("a space").points.len();
        assert!(1 < few && few < all, "{few} of {all}");
        assert!(1 < short && short < all, "{short} of {all}");
    }
}
