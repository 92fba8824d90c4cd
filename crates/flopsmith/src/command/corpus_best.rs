//! A fast program of a corpus on this machine, for a run to be held against: the fastest of those tried.
//!
//! For want of time not all are: five programs of each technique set, and up to fifty more of each of the eight sets with the
//! fastest ones. What is rare in its set, or lies in one that looks slow, can be missed.

use std::collections::{BTreeMap, BTreeSet};

use flopsmith_generator::corpus::Example;
use flopsmith_measure::Purpose;
use flopsmith_protocol::TechniqueSet;

use flopsmith_run::console::say;

/// Programs of each technique set that are looked at first.
const FIRST: usize = 5;
/// Technique sets of which more is looked at then, and how much more.
const SETS: usize = 8;
const MORE: usize = 50;
/// Programs that are measured well.
const FINALISTS: usize = 8;

/// What was found.
pub struct Fastest {
    /// The fastest of the programs that were tried.
    pub source: String,
    /// Its speed.
    pub gflops: f64,
    /// How many different programs were tried.
    pub tried: usize,
}

/// Measures a part of every technique set, more of the fastest sets, and the fastest programs of these once more; returns the fastest.
///
/// `gflops` measures a program, and gives none when it fails.
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
        // Every so manyth in the order of the text: neighbours are alike.
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
            // Every program of one set is faster than all others; some cannot be built.
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
