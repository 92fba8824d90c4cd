//! Drawing one token from a distribution: pure, and determined by a seed and a position.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A drawn token and ln of its probability under the distribution it was drawn from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    pub token: u32,
    pub logprob: f32,
}

/// How a distribution is cut before drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cut {
    /// Keep only the likeliest token.
    pub greedy: bool,
    /// Keep this many of the likeliest; 0 keeps all.
    pub top_k: u32,
    /// Then keep the fewest of the likeliest tokens whose share of the remaining probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Then keep the tokens that are at least this share as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
}

/// Number in [0, 1) for `position` of the sample with `seed`. The generator is a counter: no draw depends on an earlier
/// one.
pub(crate) fn uniform(seed: u64, position: u64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(position);
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws from `probabilities` (which need not add up to exactly 1) by inverting their cumulative sum at `u`.
///
/// The sum runs in the order of the token ids. Rounding may swap two almost equal tokens in a sorted order; in the
/// order of the ids it moves a boundary by only the rounding error. `None` if the entries are no probabilities (NaN, or
/// all zero).
pub(crate) fn draw(
    probabilities: &[f32],
    cut: Cut,
    u: f64,
    scratch: &mut Vec<u32>,
) -> Option<Drawn> {
    if cut.greedy {
        let best = argmax(probabilities)?;
        return Some(Drawn {
            token: best,
            logprob: 0.0,
        });
    }
    let k = cut.top_k as usize;
    if (k > 0 && k < probabilities.len()) || cut.top_p < 1.0 || cut.min_p > 0.0 {
        keep(probabilities, cut, scratch)?;
        let total: f64 = scratch.iter().map(|t| at(probabilities, *t)).sum();
        return invert(
            scratch.iter().map(|t| (*t, at(probabilities, *t))),
            u * total,
            total,
        );
    }
    // Two levels: sums of short runs, which the compiler vectorizes, then one run element by element.
    const RUN: usize = 64;
    let mut total = 0.0f64;
    for run in probabilities.chunks(RUN) {
        total += run_sum(run);
    }
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let target = u * total;
    let mut before = 0.0f64;
    let runs = probabilities.len().div_ceil(RUN);
    for (n, run) in probabilities.chunks(RUN).enumerate() {
        let sum = run_sum(run);
        if before + sum > target || n + 1 == runs {
            let first = n * RUN;
            let mut drawn = invert(
                run.iter()
                    .enumerate()
                    .map(|(i, p)| ((first + i) as u32, f64::from(*p))),
                target - before,
                total,
            );
            if drawn.is_none() {
                // Rounding put the target past the last run, and the last run is all zero.
                drawn = argmax(probabilities).map(|token| Drawn {
                    token,
                    logprob: (at(probabilities, token) / total).ln() as f32,
                });
            }
            return drawn;
        }
        before += sum;
    }
    None
}

/// Another token of the drawn token's kind, in proportion to the root of its probability; the drawn token if there is no
/// other. With the root, a token of 10⁻⁵ comes often beside one of 10⁻³, and a token that fits nowhere still rarely. The
/// log-probability is that of the policy, not of the exchange.
pub(crate) fn exchange(probabilities: &[f32], kind: &[bool], drawn: Drawn, u: f64) -> Drawn {
    let others = (0u32..)
        .zip(kind.iter().zip(probabilities))
        .filter(|(token, (is, p))| **is && **p > 0.0 && *token != drawn.token)
        .map(|(token, (_, p))| (token, f64::from(*p).sqrt()));
    let total: f64 = others.clone().map(|(_, weight)| weight).sum();
    match invert(others, u * total, total) {
        Some(Drawn { token, .. }) => Drawn {
            token,
            logprob: share(probabilities, token),
        },
        None => drawn,
    }
}

fn at(probabilities: &[f32], token: u32) -> f64 {
    f64::from(probabilities[token as usize])
}

fn run_sum(run: &[f32]) -> f64 {
    let mut lanes = [0.0f32; 8];
    let (eights, rest) = run.as_chunks::<8>();
    for eight in eights {
        for (lane, p) in lanes.iter_mut().zip(eight) {
            *lane += p;
        }
    }
    f64::from(lanes.iter().sum::<f32>() + rest.iter().sum::<f32>())
}

fn argmax(probabilities: &[f32]) -> Option<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (i, p) in probabilities.iter().enumerate() {
        if p.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, b)| *p > b) {
            best = Some((i, *p));
        }
    }
    best.filter(|(_, p)| *p > 0.0).map(|(i, _)| i as u32)
}

/// The first entry at which the running sum exceeds `target`; the last entry with a positive probability if rounding
/// leaves none.
fn invert(entries: impl Iterator<Item = (u32, f64)>, target: f64, total: f64) -> Option<Drawn> {
    let mut sum = 0.0;
    let mut last = None;
    for (token, p) in entries {
        if p > 0.0 {
            sum += p;
            last = Some(Drawn {
                token,
                logprob: (p / total).ln() as f32,
            });
            if sum > target {
                break;
            }
        }
    }
    last
}

/// Leaves in `kept` the tokens that survive top-k and then top-p, in the order of their ids.
fn keep(probabilities: &[f32], cut: Cut, kept: &mut Vec<u32>) -> Option<()> {
    let total: f64 = probabilities.chunks(64).map(run_sum).sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let k = cut.top_k as usize;
    let by_probability = |a: &u32, b: &u32| {
        probabilities[*b as usize]
            .total_cmp(&probabilities[*a as usize])
            .then(a.cmp(b))
    };
    kept.clear();
    if k > 0 && k < probabilities.len() {
        kept.extend(0..probabilities.len() as u32);
        kept.select_nth_unstable_by(k - 1, by_probability);
        kept.truncate(k);
    } else {
        // All entries below this bound add up to less than top-p leaves out, and need no sorting.
        let floor = f64::from(1.0 - cut.top_p) * total / probabilities.len() as f64;
        kept.extend((0..probabilities.len() as u32).filter(|t| at(probabilities, *t) >= floor));
    }
    if cut.top_p < 1.0 {
        let left: f64 = if k > 0 && k < probabilities.len() {
            kept.iter().map(|t| at(probabilities, *t)).sum()
        } else {
            total
        };
        kept.sort_unstable_by(by_probability);
        let mut sum = 0.0;
        let mut nucleus = 0;
        for token in kept.iter() {
            nucleus += 1;
            sum += at(probabilities, *token);
            if sum >= f64::from(cut.top_p) * left {
                break;
            }
        }
        kept.truncate(nucleus);
    }
    if cut.min_p > 0.0 {
        let best = kept.iter().map(|t| probabilities[*t as usize]);
        let floor = cut.min_p * best.fold(0.0, f32::max);
        kept.retain(|t| probabilities[*t as usize] >= floor);
    }
    kept.sort_unstable();
    Some(())
}

/// The `count` likeliest tokens, the likeliest first, with ln of their shares of all probabilities. Of equally likely
/// tokens the one with the lower id comes first.
pub(crate) fn likeliest(probabilities: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(count + 1);
    for (token, p) in (0u32..).zip(probabilities) {
        if best.len() == count && best.last().is_none_or(|(_, least)| *p <= *least) {
            continue;
        }
        let place = best.partition_point(|(_, other)| *other >= *p);
        best.insert(place, (token, *p));
        best.truncate(count);
    }
    let total: f64 = probabilities.chunks(64).map(run_sum).sum();
    for (_, p) in &mut best {
        *p = (f64::from(*p) / total).ln() as f32;
    }
    best
}

/// ln of a token's share of all probabilities.
pub(crate) fn share(probabilities: &[f32], token: u32) -> f32 {
    let total: f64 = probabilities.chunks(64).map(run_sum).sum();
    (at(probabilities, token) / total).ln() as f32
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Cut = Cut {
        greedy: false,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
    };

    /// The same rule without optimizations: filter, renormalize, invert.
    fn oracle(p: &[f32], cut: Cut, u: f64) -> (u32, f64) {
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|a, b| p[*b].total_cmp(&p[*a]).then(a.cmp(b)));
        if cut.top_k > 0 {
            order.truncate(cut.top_k as usize);
        }
        let left: f64 = order.iter().map(|i| f64::from(p[*i])).sum();
        if cut.top_p < 1.0 {
            let mut sum = 0.0;
            let n = order
                .iter()
                .position(|i| {
                    sum += f64::from(p[*i]);
                    sum >= f64::from(cut.top_p) * left
                })
                .map_or(order.len(), |n| n + 1);
            order.truncate(n);
        }
        let best = p[order[0]];
        order.retain(|i| p[*i] >= cut.min_p * best);
        order.sort_unstable();
        let total: f64 = order.iter().map(|i| f64::from(p[*i])).sum();
        let mut sum = 0.0;
        for i in &order {
            sum += f64::from(p[*i]);
            if sum > u * total {
                return (*i as u32, (f64::from(p[*i]) / total).ln());
            }
        }
        unreachable!("u is below 1")
    }

    fn probabilities() -> impl Strategy<Value = Vec<f32>> {
        proptest::collection::vec(0.0f32..1.0, 1..300).prop_map(|mut p| {
            // Sharpen: real distributions are far from uniform.
            p.iter_mut().for_each(|x| *x = x.powi(6) + 1e-6);
            let sum: f32 = p.iter().sum();
            p.iter_mut().for_each(|x| *x /= sum);
            p
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_plain_rule(
            p in probabilities(),
            top_k in 0u32..20,
            top_p in prop_oneof![Just(1.0f32), 0.05f32..0.999],
            min_p in prop_oneof![Just(0.0f32), 0.001f32..1.0],
            u in 0.0f64..0.999_999,
        ) {
            let cut = Cut { greedy: false, top_k, top_p, min_p };
            let mut scratch = Vec::new();
            let drawn = draw(&p, cut, u, &mut scratch).unwrap();
            let (token, logprob) = oracle(&p, cut, u);
            // Single-precision run sums may move a boundary by their rounding; a token on either side of the boundary
            // is then right.
            let again = [-1e-5, 1e-5].map(|e| oracle(&p, cut, (u + e).clamp(0.0, 0.999_999)).0);
            prop_assert!(drawn.token == token || again.contains(&drawn.token));
            if drawn.token == token {
                prop_assert!((f64::from(drawn.logprob) - logprob).abs() < 1e-5);
            }
        }

        #[test]
        fn the_likeliest_are_the_first_of_the_sorted(p in probabilities(), count in 0usize..25) {
            let mut order: Vec<usize> = (0..p.len()).collect();
            order.sort_by(|a, b| p[*b].total_cmp(&p[*a]).then(a.cmp(b)));
            order.truncate(count);
            let found = likeliest(&p, count);
            let tokens: Vec<usize> = found.iter().map(|(token, _)| *token as usize).collect();
            prop_assert_eq!(tokens, order);
            for (token, logprob) in found {
                prop_assert!((logprob - share(&p, token)).abs() < 1e-6);
            }
        }

        #[test]
        fn a_position_has_one_number(seed: u64, position in 0u64..1 << 40) {
            let u = uniform(seed, position);
            prop_assert!((0.0..1.0).contains(&u));
            prop_assert_eq!(u, uniform(seed, position));
            prop_assert_ne!(u, uniform(seed, position + 1));
            prop_assert_ne!(u, uniform(seed ^ 1, position));
        }
    }

    #[derive(serde::Deserialize)]
    struct Case {
        temperature: f32,
        top_k: u32,
        top_p: f32,
        min_p: f32,
        scores: Vec<f32>,
        probabilities: Vec<f64>,
    }

    #[test]
    fn cuts_are_those_of_transformers() {
        let root = std::env::var_os("FLOPSMITH_PARITY").map_or_else(
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"),
            |anew| std::path::Path::new(&anew).join("models"),
        );
        let text = std::fs::read_to_string(root.join("cuts.json")).unwrap();
        let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
        assert_eq!(cases.len(), 8);
        for case in cases {
            let cut = Cut {
                greedy: false,
                top_k: case.top_k,
                top_p: case.top_p,
                min_p: case.min_p,
            };
            let best = case.scores.iter().copied().fold(f32::MIN, f32::max);
            let scores = case.scores.iter();
            let p: Vec<f32> = scores
                .map(|s| ((s - best) / case.temperature).exp())
                .collect();
            // The middle of each token's interval of cumulative probability draws that token.
            let mut before = 0.0;
            for (token, wanted) in (0u32..).zip(&case.probabilities) {
                // The rounding of single-precision sums exceeds smaller probabilities.
                if *wanted > 1e-5 {
                    let drawn = draw(&p, cut, before + wanted / 2.0, &mut Vec::new()).unwrap();
                    assert_eq!(drawn.token, token, "{cut:?}");
                    let off = f64::from(drawn.logprob) - wanted.ln();
                    assert!(off.abs() < 1e-5, "{cut:?}: {off}");
                }
                before += wanted;
            }
            assert!((before - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let p = [0.5f32, 0.0, 0.3, 0.2];
        let mut counts = [0u32; 4];
        let n = 40_000;
        for i in 0..n {
            let d = draw(&p, ALL, uniform(i, 7), &mut Vec::new()).unwrap();
            counts[d.token as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, p) in counts.iter().zip(p) {
            // Five standard errors of a share of 40,000.
            let share = f64::from(*count) / n as f64;
            assert!((share - f64::from(p)).abs() < 0.0125, "{counts:?}");
        }
    }

    #[test]
    fn an_exchange_takes_other_tokens_of_the_kind_by_the_roots_of_their_probabilities() {
        let p = [0.5f32, 0.16, 0.0, 0.33, 0.01];
        let kind = [false, true, true, true, true];
        let drawn = Drawn {
            token: 3,
            logprob: 0.0,
        };
        let mut counts = [0u32; 5];
        for i in 0..10_000 {
            let other = exchange(&p, &kind, drawn, uniform(i, 7));
            assert!((other.logprob - p[other.token as usize].ln()).abs() < 1e-5);
            counts[other.token as usize] += 1;
        }
        assert_eq!((counts[0], counts[2], counts[3]), (0, 0, 0), "{counts:?}");
        // Four to one; five standard errors.
        assert!(counts[1].abs_diff(8000) < 200, "{counts:?}");
        let alone = [false, false, false, true, false];
        assert_eq!(exchange(&p, &alone, drawn, 0.5), drawn);
    }

    #[test]
    fn greedy_takes_the_likeliest_with_certainty() {
        let cut = Cut {
            greedy: true,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
        };
        let drawn = draw(&[0.1, 0.6, 0.3], cut, 0.99, &mut Vec::new()).unwrap();
        assert_eq!(drawn.token, 1);
        assert_eq!(drawn.logprob, 0.0);
    }

    #[test]
    fn invalid_distributions_are_not_drawn_from() {
        for p in [
            vec![f32::NAN, 0.5],
            vec![0.0, 0.0],
            vec![f32::INFINITY, 1.0],
            vec![],
        ] {
            assert_eq!(draw(&p, ALL, 0.5, &mut Vec::new()), None, "{p:?}");
            let cut = Cut { top_p: 0.9, ..ALL };
            assert_eq!(draw(&p, cut, 0.5, &mut Vec::new()), None, "{p:?}");
        }
    }
}
