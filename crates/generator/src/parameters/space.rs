//! The configurations of parameters as a space of programs.

use flopsmith_protocol::TechniqueSet;
use flopsmith_search::{Space, Written};
use rand::Rng;
use rand::seq::{IndexedRandom, IteratorRandom};

use super::expression::{Expression, Value};
use super::file::{File, Parameter};
use super::text::Program;
use super::{Result, wrong};

/// Greatest number of configurations.
const MOST: usize = 1_000_000;
/// Greatest number of conditions that are looked at to find them.
const MOST_CHECKS: usize = 10_000_000;
/// A parameter of at most this many values has a feature for each of them.
const SINGLE_VALUES: usize = 16;
/// Greatest number of numeric parameters whose products are features.
const PAIRED: usize = 8;

/// A search over the configurations of a program.
pub type Search = flopsmith_search::Search<Configurations>;

/// All configurations of a program's parameters.
#[derive(Debug, Clone)]
pub struct Configurations {
    program: Program,
    parameters: Vec<Parameter>,
    /// The places of the values, one configuration after the other, in ascending order.
    places: Vec<u16>,
    /// The number of the configuration that is tried first.
    first: u32,
    scales: Vec<Option<Vec<f64>>>,
}

impl Configurations {
    /// The configurations of `file` for a program.
    ///
    /// # Errors
    /// If no configuration, or none with the defaults, meets all conditions; if a condition has no value; and if there are too many
    /// configurations.
    pub fn new(program: Program, file: &File) -> Result<Self> {
        if let Some(long) = file
            .parameters
            .iter()
            .find(|p| p.values.len() > usize::from(u16::MAX))
        {
            return wrong(format!(
                "the parameter `{}` has {} values, and {} are the limit; give fewer",
                long.name,
                long.values.len(),
                u16::MAX
            ));
        }
        let places = found(file)?;
        let width = file.parameters.len();
        let fits = |places: &[u16]| {
            let mut all = file.parameters.iter().zip(places);
            all.all(|(p, place)| p.default.is_none_or(|d| d == usize::from(*place)))
        };
        if places.is_empty() {
            return wrong(
                "no configuration meets all conditions; loosen a condition, or give more values",
            );
        }
        let Some(first) = places.chunks_exact(width).position(fits) else {
            return wrong(format!(
                "no configuration has all defaults and meets all conditions{}; choose other defaults",
                broken_by_defaults(file).unwrap_or_default()
            ));
        };
        Ok(Self {
            program,
            parameters: file.parameters.clone(),
            first: first as u32,
            scales: file.parameters.iter().map(scale).collect(),
            places,
        })
    }

    /// Number of configurations, at least one.
    pub fn count(&self) -> u32 {
        (self.places.len() / self.parameters.len()) as u32
    }

    /// The number of the configuration of a program; none for a program that is not of this space.
    pub fn number(&self, text: &str) -> Option<u32> {
        self.find(&self.program.read(text)?)
    }

    /// The number of the configuration that is tried first: the one with the defaults.
    pub fn start(&self) -> u32 {
        self.first
    }

    /// The names and values of a configuration.
    pub fn values(&self, number: u32) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.parameters.iter().zip(self.places(number));
        all.map(|(p, place)| (p.name.as_str(), &p.values[usize::from(*place)]))
    }

    /// The program of a configuration.
    pub fn text(&self, number: u32) -> String {
        self.program.write(self.places(number))
    }

    fn places(&self, number: u32) -> &[u16] {
        let width = self.parameters.len();
        let from = number as usize * width;
        &self.places[from..from + width]
    }

    /// The number of the configuration with these values.
    fn find(&self, wanted: &[u16]) -> Option<u32> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.places(middle).cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Features of a configuration: a constant; each numeric parameter on its scale and its square; each value of a parameter with few
    /// values; products of numeric parameters.
    fn features(&self, number: u32) -> Vec<f64> {
        let places = self.places(number);
        let mut all = vec![1.0];
        let mut numeric = Vec::new();
        for ((parameter, scale), place) in self.parameters.iter().zip(&self.scales).zip(places) {
            let place = usize::from(*place);
            if let Some(scale) = scale {
                let x = scale[place];
                all.extend([x, x * x]);
                numeric.push(x);
            }
            let count = parameter.values.len();
            if count <= SINGLE_VALUES {
                all.extend((0..count).map(|n| if n == place { 1.0 } else { 0.0 }));
            }
        }
        numeric.truncate(PAIRED);
        for (n, x) in numeric.iter().enumerate() {
            all.extend(numeric[n + 1..].iter().map(|y| x * y));
        }
        all
    }
}

/// The places of a parameter's values between -1 and 1: by their logarithms if they are positive and reach over a factor of four. None
/// for texts, which have no order.
fn scale(parameter: &Parameter) -> Option<Vec<f64>> {
    let number = |value: &Value| match value {
        Value::Int(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        Value::Bool(holds) => Some(f64::from(u8::from(*holds))),
        Value::Text(_) | Value::List(_) => None,
    };
    let mut numbers = parameter
        .values
        .iter()
        .map(number)
        .collect::<Option<Vec<f64>>>()?;
    let ends = |numbers: &[f64]| {
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        (
            low,
            numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    };
    let (low, high) = ends(&numbers);
    if low > 0.0 && high >= 4.0 * low {
        numbers.iter_mut().for_each(|x| *x = x.ln());
    }
    let (low, high) = ends(&numbers);
    let width = high - low;
    let place = |x: f64| match width > 0.0 {
        true => 2.0 * (x - low) / width - 1.0,
        false => 0.0,
    };
    Some(numbers.into_iter().map(place).collect())
}

/// All configurations that meet the conditions, in ascending order of the places of their values.
fn found(file: &File) -> Result<Vec<u16>> {
    let count = file.parameters.len();
    // A condition is looked at as soon as the last of its parameters has a value.
    let mut due: Vec<Vec<&(String, Expression)>> = vec![Vec::new(); count];
    for condition in &file.conditions {
        let last = condition.1.parameters().last().copied().unwrap_or(0);
        due[last].push(condition);
    }
    let mut all = Vec::new();
    let mut places: Vec<u16> = vec![0; count];
    let mut at = 0;
    let mut checks = 0;
    loop {
        if usize::from(places[at]) == file.parameters[at].values.len() {
            // Back to the parameter before it.
            if at == 0 {
                return Ok(all);
            }
            at -= 1;
            places[at] += 1;
            continue;
        }
        let mut meets = true;
        for (text, condition) in &due[at] {
            checks += 1;
            meets &= holds(text, condition, file, &places)?;
            if !meets {
                break;
            }
        }
        if checks > MOST_CHECKS {
            return wrong(
                "its parameters have too many combinations to look at; give fewer values, or put parameters that conditions name first",
            );
        }
        if meets && at + 1 < count {
            at += 1;
            places[at] = 0;
            continue;
        }
        if meets {
            all.extend_from_slice(&places);
            if all.len() / count > MOST {
                return wrong(format!(
                    "its parameters have more than {MOST} configurations; give fewer values, or more conditions"
                ));
            }
        }
        places[at] += 1;
    }
}

fn holds(text: &str, condition: &Expression, file: &File, places: &[u16]) -> Result<bool> {
    let value = |number: usize| file.parameters[number].values[usize::from(places[number])].clone();
    condition.holds(&value).or_else(|error| {
        let named = condition.parameters();
        let at: Vec<String> = named
            .into_iter()
            .map(|n| format!("{} = {}", file.parameters[n].name, value(n)))
            .collect();
        wrong(format!(
            "the condition `{text}` has no value at {}: {error}; let it hold or fail there, as with `and`",
            at.join(", ")
        ))
    })
}

/// The first condition that the defaults alone break, as words.
fn broken_by_defaults(file: &File) -> Option<String> {
    let places: Vec<Option<u16>> = file
        .parameters
        .iter()
        .map(|p| p.default.map(|place| place as u16))
        .collect();
    let filled: Vec<u16> = places.iter().map(|place| place.unwrap_or(0)).collect();
    let broken = file.conditions.iter().find(|(text, condition)| {
        let known = condition
            .parameters()
            .into_iter()
            .all(|n| places[n].is_some());
        known && holds(text, condition, file, &filled) == Ok(false)
    });
    broken.map(|(text, _)| format!(" (the defaults break `{text}`)"))
}

impl Space for Configurations {
    type Point = u32;

    fn first(&self) -> u32 {
        self.first
    }

    fn draw(&self, _: TechniqueSet, rng: &mut impl Rng) -> u32 {
        rng.random_range(0..self.count())
    }

    /// A configuration that differs in one parameter, or else in a value next to the old one of several.
    fn neighbour(&self, number: &u32, permitted: TechniqueSet, rng: &mut impl Rng) -> u32 {
        let places = self.places(*number);
        let single = |at: usize| {
            let values = 0..self.parameters[at].values.len() as u16;
            values.filter(move |value| *value != places[at])
        };
        let with = |at: usize, value: u16| {
            let mut changed = places.to_vec();
            changed[at] = value;
            self.find(&changed)
        };
        let varying: Vec<usize> = (0..places.len())
            .filter(|at| self.parameters[*at].values.len() > 1)
            .collect();
        let Some(at) = varying.choose(rng).copied() else {
            return *number;
        };
        let changed = single(at).filter_map(|value| with(at, value)).choose(rng);
        if let Some(changed) = changed {
            return changed;
        }
        // Conditions may tie parameters to each other, so that no single one can change.
        for _ in 0..20 {
            let mut changed = places.to_vec();
            for at in varying.iter().copied() {
                if rng.random_bool(0.4) {
                    changed[at] = single(at).choose(rng).unwrap_or(changed[at]);
                }
            }
            if let Some(found) = self.find(&changed).filter(|found| found != number) {
                return found;
            }
        }
        self.draw(permitted, rng)
    }

    fn write(&self, number: &u32) -> Option<Written> {
        (*number < self.count()).then(|| Written {
            text: self.text(*number),
            // The techniques of a program are seen once it is compiled.
            techniques: TechniqueSet::EMPTY,
            features: self.features(*number),
        })
    }

    fn prior(&self) -> Vec<f64> {
        vec![0.0; self.features(0).len()]
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        0..self.count()
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_problem::Problem;
    use flopsmith_test_support::shipped;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::super::read;
    use super::*;

    /// Parameters `a`, `b`, … with the values 1 to a number each, and these conditions.
    fn text(sizes: &[usize], conditions: &[&str], defaults: &[i64]) -> String {
        let parameters: Vec<String> = sizes
            .iter()
            .zip('a'..='z')
            .enumerate()
            .map(|(n, (size, name))| {
                let default = defaults.get(n).map(|d| format!(r#", "Default": {d}"#));
                format!(
                    r#"{{"Name": "{name}", "Type": "int", "Values": "list(range(1, {}))"{}}}"#,
                    size + 1,
                    default.unwrap_or_default()
                )
            })
            .collect();
        let conditions: Vec<String> = conditions
            .iter()
            .map(|text| format!(r#"{{"Expression": "{text}", "Parameters": []}}"#))
            .collect();
        format!(
            r#"{{"ConfigurationSpace": {{"TuningParameters": [{}], "Conditions": [{}]}}}}"#,
            parameters.join(","),
            conditions.join(",")
        )
    }

    fn configurations(
        sizes: &[usize],
        conditions: &[&str],
        defaults: &[i64],
    ) -> Result<Configurations> {
        let problem = Problem::load(&shipped::at("dgemm")).expect("a shipped problem is sound");
        let names: String = ('a'..='z')
            .take(sizes.len())
            .map(|c| format!("{c}+"))
            .collect();
        let source = format!("void dgemm(int n) {{ n = {names}0; }}\n");
        let file = read(&text(sizes, conditions, defaults))?;
        Configurations::new(Program::new(&source, &file, &problem)?, &file)
    }

    fn numbers(space: &Configurations, number: u32) -> Vec<i64> {
        let values = space.values(number).map(|(_, value)| match value {
            Value::Int(n) => *n,
            other => unreachable!("{other} is no whole number"),
        });
        values.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_configurations_are_the_product_without_what_breaks_a_condition(
            sizes in prop::collection::vec(1usize..6, 3), least in 2i64..9, most in 3i64..20
        ) {
            let conditions = [format!("a * b <= {most}"), format!("b + c >= {least}")];
            let conditions: Vec<&str> = conditions.iter().map(String::as_str).collect();
            let mut wanted = Vec::new();
            for a in 1..=sizes[0] as i64 {
                for b in 1..=sizes[1] as i64 {
                    for c in 1..=sizes[2] as i64 {
                        if a * b <= most && b + c >= least {
                            wanted.push(vec![a, b, c]);
                        }
                    }
                }
            }
            match configurations(&sizes, &conditions, &[]) {
                Ok(space) => {
                    let all: Vec<Vec<i64>> = space.all().map(|n| numbers(&space, n)).collect();
                    prop_assert_eq!(all, wanted);
                    prop_assert_eq!(space.first(), 0);
                    for number in space.all() {
                        prop_assert_eq!(space.number(&space.text(number)), Some(number));
                    }
                }
                Err(error) => {
                    prop_assert!(wanted.is_empty(), "{}", error);
                    prop_assert!(error.to_string().contains("no configuration meets"), "{}", error);
                }
            }
        }

        #[test]
        fn a_neighbour_is_another_configuration_and_mostly_differs_in_one_parameter(
            seed in 0u64..1000, start in 0u32..1000
        ) {
            let space = configurations(&[5, 4, 3, 2], &["a + b <= 7"], &[]).expect("it is sound");
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let start = start % space.count();
            let next = space.neighbour(&start, TechniqueSet::all(), &mut rng);
            prop_assert!(next < space.count() && next != start);
            let pairs = numbers(&space, start).into_iter().zip(numbers(&space, next));
            prop_assert_eq!(pairs.filter(|(a, b)| a != b).count(), 1);
        }
    }

    #[test]
    fn parameters_that_are_tied_to_each_other_change_together() {
        let space = configurations(&[6, 6], &["a == b"], &[]).expect("it is sound");
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            seen.insert(space.neighbour(&2, TechniqueSet::all(), &mut rng));
        }
        assert!(seen.len() >= 5, "{seen:?}");
    }

    #[test]
    fn the_search_begins_with_the_defaults_and_ends_with_the_space() {
        let space = configurations(&[3, 3], &["a != b"], &[3, 1]).expect("it is sound");
        assert_eq!(numbers(&space, space.first()), [3, 1]);
        let mut search = Search::new(space);
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let all = search.propose(20, TechniqueSet::EMPTY, &|_, _| true, &mut rng);
        assert_eq!(all.len(), 6);
        assert_eq!(numbers(search.space(), all[0].point), [3, 1]);
    }

    #[test]
    fn a_good_region_of_a_large_space_is_found() {
        let space = configurations(&[32, 32, 16, 4], &["a * b <= 600"], &[1, 1, 1, 1]);
        let mut search = Search::new(space.expect("it is sound"));
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let speed = |v: &[i64]| {
            let far = |value: i64, best: f64| ((value as f64).ln() - f64::ln(best)).powi(2);
            (-far(v[0], 16.0) - far(v[1], 24.0) - 0.3 * far(v[2], 4.0)).exp() * (1.0 + v[3] as f64)
        };
        for _ in 0..16 {
            for proposal in search.propose(8, TechniqueSet::EMPTY, &|_, _| true, &mut rng) {
                let speed = speed(&numbers(search.space(), proposal.point));
                search.report(&proposal.text, Some(speed));
            }
        }
        let best = search.best().expect("something was measured").1;
        // The fastest of all has 5; about one of a thousand has 4.85.
        assert!(best > 4.85, "{best}");
    }

    #[test]
    fn spaces_without_points_are_refused() {
        let refused = |sizes: &[usize], conditions: &[&str], defaults: &[i64], part: &str| {
            let error = configurations(sizes, conditions, defaults).expect_err(part);
            assert!(error.to_string().contains(part), "{part}: {error}");
        };
        refused(
            &[3, 3],
            &["a > 3"],
            &[],
            "no configuration meets all conditions",
        );
        refused(&[3, 3], &["a < b"], &[3, 1], "(the defaults break `a < b`)");
        refused(
            &[3, 3],
            &["a < b", "b < 3"],
            &[2],
            "no configuration has all defaults",
        );
        refused(
            &[3],
            &["6 % (a - 2) == 0"],
            &[],
            "no value at a = 2: division by zero",
        );
        refused(
            &[200, 200, 200],
            &[],
            &[],
            "more than 1000000 configurations",
        );
        refused(
            &[300, 300, 300],
            &["a + b + c < 0"],
            &[],
            "too many combinations",
        );
    }
}
