//! The sizes at which programs are timed: `--size n=64..1024`.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Result;
use flopsmith_problem::{ArgKind, HiddenSizes, Params, Problem};
use flopsmith_run::console::usage;

/// Most sizes of a range without a step: enough to see where a curve bends.
const LADDER: usize = 9;
/// Most sizes of one command. Each size takes a timer and a verifier of its own.
const MOST: usize = 64;
/// Memory that verifying and timing take, as a multiple of a call's arrays: buffers of three stages, and the secret
/// cases with inputs, expected results and their tolerances.
const COPIES: f64 = 24.0;

/// The sizes of one parameter, as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeSpec {
    param: String,
    values: Values,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Values {
    /// `64,100,1000`
    List(Vec<i64>),
    /// `64..1024`: powers of two and the numbers halfway between them.
    Ladder(i64, i64),
    /// `64..1024/64`: from the first number on in steps.
    Steps(i64, i64, i64),
}

/// The forms of `--size`, for messages.
const FORMS: &str = "write n=64..1024 for powers of two and the numbers between them, n=64..1024/64 for steps, or n=64,100,1000 for a list";

impl FromStr for SizeSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((param, values)) = text.split_once('=') else {
            return Err(format!("no parameter is named; {FORMS}"));
        };
        let number = |text: &str| match text.trim().parse::<i64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("`{text}` is no positive whole number; {FORMS}")),
        };
        let values = match values.split_once("..") {
            None => Values::List(values.split(',').map(number).collect::<Result<_, _>>()?),
            Some((low, rest)) => {
                let (high, step) = match rest.split_once('/') {
                    Some((high, step)) => (number(high)?, Some(number(step)?)),
                    None => (number(rest)?, None),
                };
                let low = number(low)?;
                if low > high {
                    return Err(format!(
                        "{low}..{high} is empty: write the smaller number first"
                    ));
                }
                match step {
                    Some(step) => Values::Steps(low, high, step),
                    None => Values::Ladder(low, high),
                }
            }
        };
        Ok(Self {
            param: param.trim().to_owned(),
            values,
        })
    }
}

/// The problem at each of the requested sizes without duplicates, the smallest first.
///
/// # Errors
/// Wrong usage: an unknown parameter, sizes that the problem does not permit, lists of different lengths, and sizes
/// whose arrays do not fit this machine's memory.
pub fn problems(specs: &[SizeSpec], problem: &Problem) -> Result<Vec<Arc<Problem>>> {
    let available = flopsmith_machine::memory::available().map(|bytes| bytes as f64);
    let mut found: Vec<Arc<Problem>> = Vec::new();
    for params in sizes(specs, problem)? {
        let at = problem.timed_at(params);
        let wrong = flopsmith_problem::check(&at);
        if let Some(mistake) = wrong.iter().find(|finding| finding.is_error()) {
            return Err(usage(format!("--size {}: {mistake}", at.timed_size())));
        }
        if let Some(why) = too_large(&at, available) {
            return Err(usage(format!("--size {}: {why}", at.timed_size())));
        }
        if !found.iter().any(|other| other.timed == at.timed) {
            found.push(Arc::new(at));
        }
    }
    found.sort_by(|one, other| one.timed.cmp(&other.timed));
    Ok(found)
}

/// A note about sizes beyond those that the definition of `own` names; they are timed all the same.
pub fn note(problems: &[Arc<Problem>], own: &Problem) -> Option<String> {
    let beyond: Vec<String> = problems
        .iter()
        .filter(|problem| !own.workloads.iter().any(|w| w.params == problem.timed))
        .filter(|problem| {
            let mut hidden = problem.verify.hidden.iter();
            hidden.any(|h| {
                problem
                    .timed
                    .get(&h.param)
                    .is_some_and(|size| *size > h.max)
            })
        })
        .map(|problem| problem.timed_size())
        .collect();
    let largest = own.verify.hidden.iter();
    let largest: Vec<String> = largest
        .map(|h| format!("{} = {}", h.param, h.max))
        .collect();
    (!beyond.is_empty()).then(|| {
        format!(
            "note: `{}` is defined up to {}, so a program need not be right at {}: Flopsmith verifies each program at these sizes before it times them",
            own.id,
            largest.join(", "),
            beyond.join(" or ")
        )
    })
}

/// The parameters of each size.
fn sizes(specs: &[SizeSpec], problem: &Problem) -> Result<Vec<Params>> {
    let mut named = BTreeSet::new();
    let mut lists = Vec::new();
    for spec in specs {
        if !problem.timed.contains_key(&spec.param) {
            let known: Vec<&str> = problem.timed.keys().map(String::as_str).collect();
            return Err(usage(format!(
                "--size {}=…: `{}` has no such parameter; it has {}",
                spec.param,
                problem.id,
                known.join(", ")
            )));
        }
        if !named.insert(&spec.param) {
            return Err(usage(format!(
                "--size names `{}` twice: write one list, e.g. {}=64,128,256",
                spec.param, spec.param
            )));
        }
        let mut hidden = problem.verify.hidden.iter();
        let rule = hidden.find(|hidden| hidden.param == spec.param);
        let values = spec.values(rule).map_err(|why| {
            usage(format!(
                "--size {}: {why} (problem `{}`)",
                spec.param, problem.id
            ))
        })?;
        lists.push((spec.param.as_str(), values));
    }
    let count = lists
        .iter()
        .map(|(_, values)| values.len())
        .max()
        .unwrap_or(0);
    if let Some((param, values)) = lists.iter().find(|(_, v)| v.len() != 1 && v.len() != count) {
        let longest = lists.iter().find(|(_, v)| v.len() == count);
        let (other, more) = longest.map_or((*param, values), |(p, v)| (*p, v));
        return Err(usage(format!(
            "parameters vary together, so their lists must have the same length or one value: {param} has {} ({}), {other} has {} ({})",
            values.len(),
            words(values),
            more.len(),
            words(more)
        )));
    }
    let at = |n: usize| {
        let mut params = problem.timed.clone();
        for (param, values) in &lists {
            let value = values.get(n).or(values.first());
            params.extend(value.map(|value| ((*param).to_owned(), *value)));
        }
        params
    };
    Ok((0..count).map(at).collect())
}

fn words(values: &[i64]) -> String {
    let values: Vec<String> = values.iter().map(i64::to_string).collect();
    values.join(", ")
}

impl SizeSpec {
    /// The sizes in full. `rule` says which sizes the problem permits; without one all positive sizes are permitted.
    fn values(&self, rule: Option<&HiddenSizes>) -> Result<Vec<i64>, String> {
        let values = match &self.values {
            Values::Ladder(low, high) => {
                let sizes = ladder(rule.map_or(*low, |r| r.min.max(*low)), *high, rule);
                return match sizes.is_empty() {
                    true => Err(format!("the problem permits no size from {low} to {high}")),
                    false => Ok(sizes),
                };
            }
            Values::List(values) => values.clone(),
            Values::Steps(low, high, step) => {
                if (high - low) / step >= MOST as i64 {
                    return Err(format!(
                        "{low}..{high}/{step} has more than {MOST} sizes: enlarge the step"
                    ));
                }
                let step = usize::try_from(*step).unwrap_or(usize::MAX);
                (*low..=*high).step_by(step).collect()
            }
        };
        if values.len() > MOST {
            return Err(format!("the list has more than {MOST} sizes"));
        }
        match rule.and_then(|rule| values.iter().find_map(|size| refusal(*size, rule))) {
            Some(why) => Err(why),
            None => Ok(values),
        }
    }
}

/// Why a problem does not permit this size, if it does not. Sizes above the largest of the definition are permitted.
fn refusal(size: i64, rule: &HiddenSizes) -> Option<String> {
    if !rule.fits(size) {
        return Some(if rule.power_of_two {
            format!("{size} is no power of two, and the problem permits no other sizes")
        } else {
            format!(
                "{size} is no multiple of {}, and the problem permits no other sizes",
                rule.multiple_of
            )
        });
    }
    (size < rule.min).then(|| format!("the smallest size that the problem permits is {}", rule.min))
}

/// At most [`LADDER`] sizes from `low` to `high`: both ends, powers of two, and the numbers halfway between these. Each
/// becomes the nearest permitted size. If there are too many, the halfway numbers are left out, and then others evenly.
/// Empty if the problem permits no size there.
fn ladder(low: i64, high: i64, rule: Option<&HiddenSizes>) -> Vec<i64> {
    let permitted = |wanted: i64| nearest(wanted, low, high, rule);
    let powers = (0..62).map(|e| 1i64 << e);
    let inside = |size: &i64| (low..=high).contains(size);
    let ends = [low, high].into_iter();
    let coarse: BTreeSet<i64> = ends
        .chain(powers.clone().filter(inside))
        .filter_map(permitted)
        .collect();
    let halfway = powers
        .filter_map(|power| power.checked_mul(3))
        .map(|three| three / 2);
    let mut fine = coarse.clone();
    if !rule.is_some_and(|rule| rule.power_of_two) {
        fine.extend(
            halfway
                .filter(|size| *size > 1 && inside(size))
                .filter_map(permitted),
        );
    }
    let few = if fine.len() <= LADDER { fine } else { coarse };
    let sizes: Vec<i64> = few.into_iter().collect();
    if sizes.len() <= LADDER {
        return sizes;
    }
    let (last, parts) = (sizes.len() - 1, LADDER - 1);
    let chosen = (0..LADDER).map(|n| (n * last + parts / 2) / parts);
    chosen.filter_map(|n| sizes.get(n).copied()).collect()
}

/// The permitted size from `low` to `high` that is nearest to `wanted`.
fn nearest(wanted: i64, low: i64, high: i64, rule: Option<&HiddenSizes>) -> Option<i64> {
    let Some(rule) = rule else {
        return Some(wanted);
    };
    let (below, above) = if rule.power_of_two {
        let below = 1i64 << (63 - wanted.max(1).leading_zeros()).min(61);
        (below, below.saturating_mul(2))
    } else {
        let step = rule.multiple_of.max(1);
        let below = wanted / step * step;
        (below, below.saturating_add(step))
    };
    [below, above]
        .into_iter()
        .filter(|size| (low..=high).contains(size) && rule.fits(*size))
        .min_by_key(|size| (size - wanted).abs())
}

/// Why this problem's arrays are too large for this machine, if they are.
fn too_large(problem: &Problem, available: Option<f64>) -> Option<String> {
    let bytes: f64 = problem
        .entry
        .args
        .iter()
        .filter_map(|arg| match &arg.kind {
            ArgKind::Array { element, .. } => {
                let elements = problem.elements(arg, &problem.timed)?;
                Some(elements as f64 * element.size() as f64)
            }
            ArgKind::Int { .. } | ArgKind::Scalar { .. } => None,
        })
        .sum();
    let (needed, available) = (COPIES * bytes, available?);
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)).ceil();
    (needed > available).then(|| {
        format!(
            "the arrays of a call have {} MiB; to verify and time them takes about {COPIES} times as much, and this machine has {} MiB of memory left",
            mib(bytes),
            mib(available)
        )
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_test_support::shipped;
    use proptest::prelude::*;

    use super::*;

    fn shipped(name: &str) -> Problem {
        Problem::load(&shipped::at(name)).unwrap()
    }

    fn found(problem: &str, specs: &[&str]) -> Result<Vec<String>> {
        let specs: Vec<SizeSpec> = specs.iter().map(|s| s.parse().unwrap()).collect();
        let problems = problems(&specs, &shipped(problem))?;
        Ok(problems.iter().map(|p| p.timed_size()).collect())
    }

    fn refused(problem: &str, specs: &[&str]) -> String {
        let error = found(problem, specs).unwrap_err();
        assert!(error.is::<flopsmith_run::console::Usage>(), "{error:#}");
        error.to_string()
    }

    #[test]
    fn a_range_is_a_ladder_a_list_is_taken_and_a_step_is_walked() {
        let n = |sizes: &str| -> Vec<i64> {
            let found = found("dot", &[&format!("n={sizes}")]).unwrap();
            found
                .iter()
                .map(|s| s["n = ".len()..].parse().unwrap())
                .collect()
        };
        assert_eq!(n("64..1024"), [64, 96, 128, 192, 256, 384, 512, 768, 1024]);
        assert_eq!(n("100..1000"), [100, 128, 192, 256, 384, 512, 768, 1000]);
        assert_eq!(n("5..7"), [5, 6, 7]);
        assert_eq!(n("1..2048").len(), LADDER);
        assert_eq!(n("64,100,64,48"), [48, 64, 100]);
        assert_eq!(n("64..256/64"), [64, 128, 192, 256]);
        assert_eq!(n("64..255/64"), [64, 128, 192]);
        assert_eq!(n("7"), [7]);
    }

    #[test]
    fn sizes_are_those_that_the_problem_permits() {
        let sizes = found("dgemm", &["n=1..1024"]).unwrap();
        let expected = [64, 128, 192, 256, 384, 512, 768, 1024].map(|n| format!("n = {n}"));
        assert_eq!(sizes, expected);
        let powers = found("walsh_hadamard", &["n=2..131072"]).unwrap();
        assert_eq!(powers.len(), LADDER);
        assert_eq!((&*powers[0], &*powers[8]), ("n = 2", "n = 131072"));
        assert!(refused("dgemm", &["n=64,100"]).contains("100 is no multiple of 64"));
        assert!(refused("walsh_hadamard", &["n=100"]).contains("no power of two"));
        assert!(refused("dgemm", &["n=65..70"]).contains("no size from 65 to 70"));
    }

    #[test]
    fn parameters_vary_together_and_those_left_out_keep_their_timed_value() {
        let both = found("dgemv", &["m=64,128", "n=100,200"]).unwrap();
        assert_eq!(both, ["m = 64, n = 100", "m = 128, n = 200"]);
        let one = found("dgemv", &["n=100,200"]).unwrap();
        assert_eq!(one, ["m = 768, n = 100", "m = 768, n = 200"]);
        let fixed = found("dgemv", &["m=5", "n=100,200"]).unwrap();
        assert_eq!(fixed, ["m = 5, n = 100", "m = 5, n = 200"]);
        let error = refused("dgemv", &["m=1,2,3", "n=100,200"]);
        assert!(error.contains("n has 2 (100, 200), m has 3"), "{error}");
        assert!(refused("dgemv", &["n=1", "n=2"]).contains("twice"));
        let error = refused("dgemv", &["k=1..9"]);
        assert!(error.contains("no such parameter; it has m, n"), "{error}");
    }

    #[test]
    fn a_bad_size_gets_an_error_that_shows_the_syntax() {
        for text in [
            "64", "n=", "n=a", "n=0", "n=-4..8", "n=1..", "n=1..8/0", "n=1,,2",
        ] {
            let error = text.parse::<SizeSpec>().unwrap_err();
            assert!(error.contains("n=64..1024"), "{text}: {error}");
        }
        assert!("n=9..3".parse::<SizeSpec>().unwrap_err().contains("empty"));
        assert!(refused("cholesky", &["n=1..1000/2"]).contains("enlarge the step"));
    }

    #[test]
    fn sizes_above_the_largest_are_timed_with_a_note_unless_memory_is_short() {
        let specs: Vec<SizeSpec> = vec!["n=256,768,1024".parse().unwrap()];
        let dgemm = shipped("dgemm");
        let problems = problems(&specs, &dgemm).unwrap();
        let said = note(&problems, &dgemm).unwrap();
        // The definition itself times at n = 1024.
        assert!(
            said.contains("up to n = 512") && said.contains("right at n = 768:"),
            "{said}"
        );
        assert_eq!(note(&problems[..1], &dgemm), None);
        assert_eq!(note(&[], &dgemm), None);
        // Three matrices of 4.5 MiB.
        let mib = f64::from(1 << 20);
        let needed = COPIES * 13.5 * mib;
        assert_eq!(too_large(&problems[1], Some(needed)), None);
        assert_eq!(too_large(&problems[1], None), None);
        let why = too_large(&problems[1], Some(needed - 1.0)).unwrap();
        assert!(why.contains("14 MiB") && why.contains("324 MiB"), "{why}");
        assert!(refused("dgemm", &["n=65536"]).contains("larger than 1 GiB"));
        let why = refused("dot", &["n=3000000000"]);
        assert!(why.contains("a C `int` cannot hold"), "{why}");
    }

    proptest! {
        #[test]
        fn a_ladder_has_few_permitted_sizes_in_order(
            step in 1i64..70, powers: bool, low in 1i64..5000, more in 0i64..1_000_000, free: bool
        ) {
            let high = low + more;
            let rule = HiddenSizes { param: "n".into(), multiple_of: step, power_of_two: powers, min: 1, max: 1 };
            let rule = (!free).then_some(&rule);
            let permitted = |size: i64| rule.is_none_or(|rule| rule.fits(size));
            let sizes = ladder(low, high, rule);
            prop_assert!(sizes.len() <= LADDER);
            prop_assert!(sizes.windows(2).all(|two| two[0] < two[1]), "{:?}", sizes);
            prop_assert!(sizes.iter().all(|s| (low..=high).contains(s) && permitted(*s)), "{:?}", sizes);
            prop_assert!(!sizes.is_empty() || !(low..=high.min(low + 5000)).any(permitted));
        }
    }
}
