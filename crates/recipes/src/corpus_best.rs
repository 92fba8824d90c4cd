//! Finds a fast program of a corpus on this machine, for comparison with a run.
//!
//! Measuring all programs would take too long. Tried are five programs of each technique set, and up to fifty more of
//! each of the eight sets with the fastest ones. A program that is rare in its set, or is in a set that looks slow, can
//! be missed.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_generator::corpus::Example;
use flopsmith_measure::Purpose;
use flopsmith_protocol::TechniqueSet;

use flopsmith_run::console::say;

/// Programs of each technique set that are tried first.
const FIRST: usize = 5;
/// Technique sets of which more programs are tried then, and how many more of each.
const SETS: usize = 8;
const MORE: usize = 50;
/// Programs that are measured precisely.
const FINALISTS: usize = 8;

/// The fastest program of a search.
pub struct Fastest {
    /// The fastest of the programs that were tried.
    pub source: String,
    /// Its speed.
    pub gflops: f64,
    /// Number of different programs that were tried.
    pub tried: usize,
}

/// Measures some programs of every technique set, more of the fastest sets, and the fastest programs once more. Returns
/// the fastest.
///
/// `gflops` measures a program, and returns `None` if the program fails.
pub fn find(
    examples: &[Example],
    mut gflops: impl FnMut(&str, Purpose) -> Option<f64>,
) -> Option<Fastest> {
    let mut sets: BTreeMap<TechniqueSet, BTreeSet<&str>> = BTreeMap::new();
    for example in examples {
        sets.entry(example.techniques)
            .or_default()
            .insert(&example.program);
    }
    let programs: usize = sets.values().map(BTreeSet::len).sum();
    let mut seen: Vec<(f64, &str)> = Vec::new();
    let mut looked = 0;
    let mut ranked: Vec<(f64, TechniqueSet)> = Vec::new();
    let mut look = |some: &[&'_ str], looked: &mut usize| {
        let mut found: Vec<(f64, usize)> = Vec::new();
        for (i, source) in some.iter().enumerate() {
            *looked += 1;
            if (*looked).is_multiple_of(100) {
                say(&format!(
                    "looking for a fast program of the corpus: {looked} of {programs} programs tried"
                ));
            }
            found.extend(gflops(source, Purpose::Screen).map(|speed| (speed, i)));
        }
        found
    };
    for (set, programs) in &sets {
        // Programs that are adjacent in the order of their text are alike, so the sample is spread evenly over that
        // order.
        let stride = programs.len().div_ceil(FIRST);
        let some: Vec<&str> = programs.iter().copied().step_by(stride).collect();
        let found = look(&some, &mut looked);
        let best = found.iter().map(|f| f.0).fold(0.0, f64::max);
        ranked.push((best, *set));
        seen.extend(found.into_iter().map(|(speed, i)| (speed, some[i])));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, set) in ranked.iter().take(SETS) {
        let known: BTreeSet<&str> = seen.iter().map(|s| s.1).collect();
        let rest: Vec<&str> = sets[set]
            .iter()
            .copied()
            .filter(|p| !known.contains(p))
            .collect();
        let stride = rest.len().div_ceil(MORE).max(1);
        let some: Vec<&str> = rest.into_iter().step_by(stride).collect();
        let found = look(&some, &mut looked);
        seen.extend(found.into_iter().map(|(speed, i)| (speed, some[i])));
    }
    seen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (speed, source) = seen
        .iter()
        .take(FINALISTS)
        .filter_map(|(_, source)| Some((gflops(source, Purpose::Rank)?, *source)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Fastest {
        source: source.to_owned(),
        gflops: speed,
        tried: looked,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_generator::corpus::{CorpusConfig, build};
    use flopsmith_generator::schedule::Space;

    use super::*;

    #[test]
    fn the_fastest_of_what_was_tried_wins_and_the_best_set_is_searched() {
        let config = CorpusConfig {
            examples: 600,
            ..CorpusConfig::default()
        };
        let examples = build(&Space::dgemm(), 1, &config);
        let best_set = examples[0].techniques;
        let mut tried = BTreeMap::new();
        let mut screened = 0;
        let speed = |source: &str| {
            let own = examples
                .iter()
                .find(|e| e.program == source)
                .map(|e| e.techniques);
            // Every program of one set is faster than all others; some programs cannot be built.
            let base = if own == Some(best_set) { 100.0 } else { 1.0 };
            (!source.len().is_multiple_of(7)).then_some(base + (source.len() % 13) as f64)
        };
        let found = find(&examples, |source, purpose| {
            screened += usize::from(purpose == Purpose::Screen);
            let speed = speed(source);
            tried.insert(source.to_owned(), speed);
            speed
        })
        .unwrap();
        let gflops = found.gflops;
        assert_eq!(speed(&found.source), Some(gflops));
        assert_eq!(found.tried, screened);
        let fastest = tried.values().flatten().fold(0.0f64, |a, b| a.max(*b));
        assert_eq!(gflops, fastest);
        assert!(gflops >= 100.0);
        assert!(tried.len() < examples.len());
    }

    #[test]
    fn a_corpus_of_failures_has_no_best() {
        let config = CorpusConfig {
            examples: 20,
            ..CorpusConfig::default()
        };
        let examples = build(&Space::dgemm(), 1, &config);
        assert!(find(&examples, |_, _| None).is_none());
    }
}
