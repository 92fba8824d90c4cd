use proptest::prelude::*;

use crate::control::Content;
use crate::inputs::Stream;

fn i32s(content: Content, origin: u64, count: usize) -> Vec<i32> {
    let mut out = vec![i32::MIN; count];
    content.fill_i32(&Stream::new(origin, 0), &mut out);
    out
}

proptest! {
    #[test]
    fn running_sums_of_steps_stay_in_their_range(seed: u64, low in -1_000_000_000i64..0, more in 0i64..2_000_000_000, n in 1usize..300) {
        let high = low + more;
        let mut sum = 0i64;
        for x in i32s(Content::Steps { low: low as f64, high: high as f64 }, seed, n) {
            sum += i64::from(x);
            prop_assert!((low..=high).contains(&sum), "{sum}");
        }
    }

    #[test]
    fn offsets_ascend_to_their_total(seed: u64, rows in 0usize..300, average in 0u64..20) {
        let total = average * rows as u64;
        let offsets = i32s(Content::Offsets { total }, seed, rows + 1);
        prop_assert_eq!(offsets[0], 0);
        prop_assert_eq!(offsets[rows] as u64, if rows == 0 { 0 } else { total });
        prop_assert!(offsets.is_sorted(), "{:?}", offsets);
    }

    #[test]
    fn shifted_rows_stay_together(seed: u64, rows in 1usize..9, columns in 1usize..40) {
        let content = Content::Shifted { columns, low: -3.0, high: 1.0, by: 50.0 };
        let mut doubles = vec![0f64; rows * columns];
        content.fill_f64(&Stream::new(seed, 0), &mut doubles);
        let mut floats = vec![0f32; rows * columns];
        content.fill_f32(&Stream::new(seed, 0), &mut floats);
        for (doubles, floats) in doubles.chunks(columns).zip(floats.chunks(columns)) {
            let spread = |x: &[f64]| x.iter().copied().fold(f64::MIN, f64::max) - x.iter().copied().fold(f64::MAX, f64::min);
            let floats: Vec<f64> = floats.iter().map(|x| f64::from(*x)).collect();
            prop_assert!(spread(doubles) <= 4.0 && spread(&floats) <= 4.001);
            prop_assert!(doubles.iter().chain(&floats).all(|x| x.abs() <= 53.001));
        }
    }

    #[test]
    fn magnitudes_stay_in_their_range(seed: u64, n in 1usize..300) {
        let (low, high) = (32_768.0, 2_147_483_648.0);
        for x in i32s(Content::Magnitudes { low, high }, seed, n) {
            prop_assert!((low..high).contains(&f64::from(x).abs()), "{x}");
        }
        let mut doubles = vec![0f64; n];
        Content::Magnitudes { low: 0.25, high: 4.0 }.fill_f64(&Stream::new(seed, 0), &mut doubles);
        prop_assert!(doubles.iter().all(|x| (0.25..4.0).contains(&x.abs())));
    }

    #[test]
    fn distances_stay_in_their_range(seed: u64, n in 1usize..30) {
        for x in i32s(Content::Distances { columns: n, high: 1e9 }, seed, n * n) {
            prop_assert!((1..=1_000_000_000).contains(&x), "{x}");
        }
    }
}

#[test]
fn every_binade_of_magnitudes_is_as_likely_with_either_sign() {
    let mut counts = [[0; 2]; 16];
    let content = Content::Magnitudes {
        low: 32_768.0,
        high: 2_147_483_648.0,
    };
    for x in i32s(content, 5, 32_000) {
        counts[x.unsigned_abs().ilog2() as usize - 15][usize::from(x < 0)] += 1;
    }
    for count in counts.iter().flatten() {
        assert!((800..1200).contains(count), "{counts:?}");
    }
}

#[test]
fn one_in_four_repeats_one_of_three() {
    let keys = i32s(
        Content::Repeating {
            low: 0.0,
            high: 65_535.0,
        },
        9,
        40_000,
    );
    let repeated = (3..keys.len()).filter(|&i| keys[i - 3..i].contains(&keys[i]));
    let share = repeated.count() as f64 / keys.len() as f64;
    assert!((0.23..0.27).contains(&share), "{share}");
}

#[test]
fn rows_of_offsets_differ_in_length_and_drift_from_an_even_spread() {
    let rows = 4096;
    let offsets = i32s(Content::Offsets { total: 8 * 4096 }, 3, rows + 1);
    let lengths: Vec<i32> = offsets.windows(2).map(|w| w[1] - w[0]).collect();
    let empty = lengths.iter().filter(|x| **x == 0).count();
    let long = lengths.iter().filter(|x| **x > 20).count();
    assert!(
        empty > rows / 50 && long > rows / 50,
        "{empty} empty, {long} long"
    );
    let drift = (0..).zip(&offsets).map(|(row, x)| (x - 8 * row).abs());
    assert!(drift.max() > Some(64));
}

/// With uniform weights about one edge in thirty is the shortest way between its ends, and a graph of so few edges
/// takes a small part of the work.
#[test]
fn about_half_of_all_distances_are_shorter_by_way_of_others() {
    let n = 160;
    let edges = i32s(
        Content::Distances {
            columns: n,
            high: 1e9,
        },
        1,
        n * n,
    );
    let mut ways = edges.clone();
    (0..n).for_each(|i| ways[i * n + i] = 0);
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                let through = ways[i * n + k] + ways[k * n + j];
                ways[i * n + j] = ways[i * n + j].min(through);
            }
        }
    }
    let kept = edges.iter().zip(&ways).filter(|(x, y)| x == y).count();
    let share = kept as f64 / (n * n) as f64;
    assert!((0.4..0.65).contains(&share), "{share}");
}
