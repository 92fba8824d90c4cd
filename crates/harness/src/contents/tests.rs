use proptest::prelude::*;

use crate::control::Content;
use crate::half;
use crate::inputs::Stream;

fn i64s(content: Content, origin: u64, count: usize) -> Vec<i64> {
    let mut out = vec![i64::MIN; count];
    content.fill_i64(&Stream::new(origin, 0), &mut out);
    out
}

fn u8s(content: Content, origin: u64, count: usize) -> Vec<u8> {
    let mut out = vec![0; count];
    content.fill_u8(&Stream::new(origin, 0), &mut out);
    out
}

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
    fn integers_of_every_width_are_the_same_where_they_fit(seed: u64, low in 0u8..100, more in 0u8..155, n in 1usize..300) {
        let (low, high) = (f64::from(low), f64::from(low + more));
        for content in [Content::Range { low, high }, Content::Repeating { low, high }] {
            let wide = i64s(content, seed, n);
            let middle: Vec<i64> = i32s(content, seed, n).into_iter().map(i64::from).collect();
            let narrow: Vec<i64> = u8s(content, seed, n).into_iter().map(i64::from).collect();
            prop_assert_eq!(&wide, &middle);
            prop_assert_eq!(&wide, &narrow);
            prop_assert!(wide.iter().all(|x| (low as i64..=high as i64).contains(x)));
        }
    }

    #[test]
    fn wide_integers_stay_in_their_range(seed: u64, low in i64::MIN..0, high in 0..i64::MAX, n in 1usize..300) {
        let range = Content::Range { low: low as f64, high: high as f64 };
        // A double may lie beyond the bound that it stands for.
        let (least, most) = (low as f64 as i64, high as f64 as i64);
        prop_assert!(i64s(range, seed, n).iter().all(|x| (least..=most).contains(x)));
        let (low, high) = (low >> 12, high >> 12);
        let steps = i64s(Content::Steps { low: low as f64, high: high as f64 }, seed, n);
        let mut sum = 0;
        for step in steps {
            sum += step;
            prop_assert!((low..=high).contains(&sum), "{sum}");
        }
        let magnitudes = Content::Magnitudes { low: 1.0, high: 2f64.powi(63) };
        prop_assert!(i64s(magnitudes, seed, n).iter().all(|x| *x != 0 && *x != i64::MIN));
        let offsets = i64s(Content::Offsets { total: high as u64 }, seed, n + 1);
        prop_assert!(offsets.is_sorted() && offsets[0] == 0 && offsets[n] == high);
    }

    #[test]
    fn short_floats_are_floats_that_were_rounded(seed: u64, which in 0usize..6, rows in 1usize..9) {
        let columns = 8;
        let content = [
            Content::Uniform,
            Content::Range { low: -3.0, high: 5.0 },
            Content::Dominant { columns },
            Content::Graded { columns, binades: 20 },
            Content::Shifted { columns, low: 0.0, high: 1.0, by: 9.0 },
            Content::Magnitudes { low: 0.25, high: 64.0 },
        ][which];
        let (stream, count) = (Stream::new(seed, 3), rows * columns);
        let mut floats = vec![0f32; count];
        content.fill_f32(&stream, &mut floats);
        let mut short = vec![0u16; count];
        content.fill_f16(&stream, &mut short);
        let rounded: Vec<u16> = floats.iter().map(|x| half::to_f16(*x)).collect();
        prop_assert_eq!(&short, &rounded);
        content.fill_bf16(&stream, &mut short);
        let rounded: Vec<u16> = floats.iter().map(|x| half::to_bf16(*x)).collect();
        prop_assert_eq!(&short, &rounded);
    }

    #[test]
    fn distances_stay_in_their_range(seed: u64, n in 1usize..30) {
        for x in i32s(Content::Distances { columns: n, high: 1e9 }, seed, n * n) {
            prop_assert!((1..=1_000_000_000).contains(&x), "{x}");
        }
    }
}

#[test]
fn every_byte_is_as_likely() {
    let mut counts = [0; 256];
    for byte in u8s(Content::Uniform, 4, 256 * 200) {
        counts[usize::from(byte)] += 1;
    }
    assert!(
        counts.iter().all(|count| (120..290).contains(count)),
        "{counts:?}"
    );
    let all = i64s(Content::Uniform, 4, 2000);
    assert!((-8..8).all(|x| all.contains(&x)) && all.iter().all(|x| (-8..8).contains(x)));
}

#[test]
fn the_whole_range_of_64_bits_is_reached() {
    let (low, high) = (i64::MIN as f64, i64::MAX as f64);
    let all = i64s(Content::Range { low, high }, 4, 4000);
    for part in 0..8 {
        let here = all.iter().filter(|x| (**x >> 61) + 4 == part).count();
        assert!((350..650).contains(&here), "{part}: {here}");
    }
    let odd = all.iter().filter(|x| **x & 1 == 1).count();
    assert!((1800..2200).contains(&odd), "{odd}");
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
