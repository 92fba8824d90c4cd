use super::*;
use flopsmith_test_support::shipped;
use proptest::prelude::*;
use rand::SeedableRng;

fn array(element: Element, content: Content, count: usize) -> Array {
    Array {
        name: "x".into(),
        element,
        role: flopsmith_problem::Role::Input,
        dims: vec![count],
        parts: 1,
        align: 64,
        stream: 0,
        content,
    }
}

#[test]
fn structured_contents_keep_their_structure() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let offsets = array(Element::I32, Content::Offsets { total: 80 }, 21);
    let range = Content::Range {
        low: 3.0,
        high: 9.0,
    };
    let indices = array(Element::I32, range, 50);
    let prices = array(Element::F64, range, 50);
    for distribution in [
        Distribution::Descending,
        Distribution::Few,
        Distribution::Huge,
        Distribution::ZeroOne,
        Distribution::ScaledRows,
    ] {
        let found = offsets.values(&draw(&offsets, distribution, &mut rng));
        assert!(found.is_sorted() && found[0] == 0.0 && found[20] == 80.0);
        for ranged in [&indices, &prices] {
            let found = ranged.values(&draw(ranged, distribution, &mut rng));
            assert!(found.iter().all(|x| (3.0..=9.0).contains(x)), "{found:?}");
        }
    }
}

#[test]
fn running_sums_of_steps_stay_in_their_range_whatever_is_done_to_them() {
    let (low, high) = (-1e9, 1e9);
    let steps = array(Element::I32, Content::Steps { low, high }, 500);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for distribution in [
        Distribution::Uniform,
        Distribution::Few,
        Distribution::Ascending,
        Distribution::Descending,
    ] {
        let mut sums = steps.values(&draw(&steps, distribution, &mut rng));
        add_up(&mut sums);
        assert!(sums.iter().all(|x| (low..=high).contains(x)), "{sums:?}");
        if distribution == Distribution::Ascending {
            assert!(sums.is_sorted());
        }
        sums.sort_by(f64::total_cmp);
        sums.dedup();
        assert_eq!(sums.len() <= 2, distribution == Distribution::Few);
    }
}

#[test]
fn shifted_rows_take_the_contents_of_any_floats() {
    let content = Content::Shifted {
        columns: 10,
        low: -0.5,
        high: 0.5,
        by: 100.0,
    };
    let mut rows = array(Element::F32, content, 50);
    rows.dims = vec![5, 10];
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut of = |d| rows.values(&draw(&rows, d, &mut rng));
    assert!(
        of(Distribution::ZeroOne)
            .iter()
            .all(|x| [0.0, 1.0].contains(x))
    );
    assert!(
        of(Distribution::ZeroRows)
            .chunks(10)
            .any(|row| row.iter().all(|x| *x == 0.0))
    );
    assert!(
        of(Distribution::Ascending)
            .chunks(10)
            .all(|row| row.is_sorted())
    );
    assert!(!of(Distribution::Ascending).is_sorted());
    assert!(
        of(Distribution::ScaledRows)
            .iter()
            .any(|x| x.abs() < 0.01 || x.abs() > 101.0)
    );
}

#[test]
fn checkered_matrices_keep_their_diagonals_and_have_small_numbers_beside_large_ones() {
    let columns = 41;
    let mut matrices = array(
        Element::F64,
        Content::Dominant { columns },
        3 * columns * columns,
    );
    matrices.dims = vec![3, columns, columns];
    let of = |distribution| matrices.values(&draw_from(&matrices, distribution, 7, &mut rng(7)));
    let plain = of(Distribution::Uniform);
    let mut small = 0;
    for (i, (x, y)) in plain.iter().zip(of(Distribution::Checkered)).enumerate() {
        if (i / columns) % columns == i % columns {
            assert!(*x == y && y > columns as f64 - 1.0);
        } else if *x != y {
            assert_eq!(y, x * 1e-7);
            small += 1;
        }
    }
    assert!((1300..3700).contains(&small), "{small}");
    for other in [
        Distribution::Huge,
        Distribution::ScaledRows,
        Distribution::Few,
    ] {
        assert_eq!(of(other), plain, "{other:?}");
    }
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

#[test]
fn integers_take_the_contents_that_make_sense_for_them() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let keys = array(Element::I32, Content::Uniform, 100);
    let mut of = |d| keys.values(&draw(&keys, d, &mut rng));
    assert!(of(Distribution::Ascending).is_sorted());
    let mut few = of(Distribution::Few);
    few.sort_by(f64::total_cmp);
    few.dedup();
    assert!(few.len() <= 2);
    assert!(
        of(Distribution::ZeroOne)
            .iter()
            .all(|x| *x == 0.0 || *x == 1.0)
    );
    assert!(
        of(Distribution::Huge)
            .iter()
            .all(|x| (-8.0..8.0).contains(x))
    );
}

#[test]
fn denormal_numbers_are_denormal_in_either_precision() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut of = |element| {
        let array = array(element, Content::Uniform, 500);
        array.values(&draw(&array, Distribution::Denormal, &mut rng))
    };
    let double = of(Element::F64);
    assert!(double.iter().all(|x| x.is_subnormal() || *x == 0.0));
    assert!(
        double
            .iter()
            .any(|x| x.abs() > 2f64.powi(-1022) * 2f64.powi(-22))
    );
    let single = of(Element::F32);
    let is_subnormal = |x: &f64| (*x as f32).is_subnormal() && f64::from(*x as f32) == *x;
    assert!(single.iter().all(|x| is_subnormal(x) || *x == 0.0));
    assert!(single.iter().any(|x| x.abs() > 2f64.powi(-143)));
    // The smallest normal number of either short type.
    for (element, normal) in [(Element::F16, -14), (Element::Bf16, -126)] {
        let short = of(element);
        assert!(short.iter().all(|x| x.abs() < 2f64.powi(normal)));
        let zeros = short.iter().filter(|x| **x == 0.0).count();
        assert!(zeros < 100, "{element:?}: {zeros}");
    }
}

#[test]
fn a_mirrored_case_has_the_same_numbers_with_other_signs() {
    for (name, floats) in [("dgemm", 2), ("spmv", 2), ("lu", 1), ("dtrsm", 2)] {
        let problem = flopsmith_problem::Problem::load(&shipped::at(name)).expect("it is shipped");
        let mut specification = crate::supervise::specify(&problem, &problem.timed).expect("fits");
        let mut drawn = |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            draw_all(&mut specification, Distribution::Uniform, &mut rng)
        };
        let (plain, mut mirrored) = (drawn(5), drawn(5));
        negate_all(&specification, &mut mirrored);
        let mut turned = 0;
        for ((n, before), (_, after)) in plain.iter().zip(&mirrored) {
            let array = &specification.arrays[*n];
            let (before, after) = (array.values(before), array.values(after));
            if array.element == Element::I32 {
                assert_eq!(before, after, "{name}");
            } else {
                let dominant = matches!(array.content, Content::Dominant { .. });
                for (i, (x, y)) in before.iter().zip(&after).enumerate() {
                    let (row, column) = (i / array.columns(), i % array.columns());
                    let expected = if dominant && row == column { *x } else { -x };
                    assert_eq!(*y, expected, "{name}: {row}, {column}");
                }
                turned += 1;
            }
        }
        assert_eq!(turned, floats, "{name}");
    }
}

#[test]
fn one_operand_is_denormal_and_the_other_is_not() {
    for (name, expected) in [("dgemm", 0), ("spmv", 2), ("dtrsm", 1)] {
        let problem = flopsmith_problem::Problem::load(&shipped::at(name)).expect("it is shipped");
        let mut specification =
            crate::supervise::specify(&problem, &problem.timed).expect("it is sound");
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        for (n, bytes) in draw_all(&mut specification, Distribution::Denormal, &mut rng) {
            let array = &specification.arrays[n];
            let values = array.values(&bytes);
            let denormal = values.iter().all(|x| x.is_subnormal() || *x == 0.0);
            assert_eq!(denormal, n == expected, "{name}: array {n}");
        }
    }
}

#[test]
fn both_parts_of_a_complex_number_are_scaled_alike() {
    let mut complex = array(Element::F32, Content::Uniform, 0);
    (complex.dims, complex.parts) = (vec![30, 2 * 20], 2);
    for distribution in [
        Distribution::ScaledColumns,
        Distribution::ScaledRows,
        Distribution::Checkered,
    ] {
        let of = |d| complex.values(&draw_from(&complex, d, 7, &mut rng(7)));
        let (plain, scaled) = (of(Distribution::Uniform), of(distribution));
        let factors: Vec<f64> = plain.iter().zip(&scaled).map(|(x, y)| y / x).collect();
        for (n, pair) in factors.chunks(2).enumerate() {
            let off = (pair[0] / pair[1] - 1.0).abs();
            assert!(off < 1e-6, "{distribution:?}, number {n}: {pair:?}");
        }
        let scaled = factors.iter().filter(|x| (*x - 1.0).abs() > 0.5).count();
        assert!(scaled > 200, "{distribution:?}: {scaled}");
    }
}

#[test]
fn products_of_five_tiny_or_huge_numbers_are_normal() {
    for (element, least, most) in [
        (Element::F64, f64::MIN_POSITIVE, f64::MAX),
        (
            Element::F32,
            f64::from(f32::MIN_POSITIVE),
            f64::from(f32::MAX),
        ),
    ] {
        let scales = Scales::of(element);
        assert!(scales.tiny.powi(5) > least, "{element:?}");
        assert!(scales.huge.powi(5) < most, "{element:?}");
    }
}

#[test]
fn no_distribution_leaves_the_numbers_of_a_type_without_value() {
    for element in [
        Element::F64,
        Element::F32,
        Element::F16,
        Element::Bf16,
        Element::U8,
        Element::I64,
    ] {
        let mut numbers = array(element, Content::Uniform, 0);
        numbers.dims = vec![16, 25];
        for distribution in [
            Distribution::ScaledRows,
            Distribution::ScaledColumns,
            Distribution::Checkered,
            Distribution::Negated,
            Distribution::Tiny,
            Distribution::Huge,
            Distribution::Few,
            Distribution::Ascending,
        ] {
            let mut values = numbers.values(&draw(&numbers, distribution, &mut rng(5)));
            assert!(
                values.iter().all(|x| x.is_finite()),
                "{element:?}, {distribution:?}"
            );
            let zeros = values.iter().filter(|x| **x == 0.0).count();
            assert!(
                distribution == Distribution::Few || zeros < 80,
                "{element:?}, {distribution:?}: {zeros}"
            );
            values.sort_by(f64::total_cmp);
            values.dedup();
            let few = distribution == Distribution::Few;
            assert_eq!(values.len() <= 2, few, "{element:?}, {distribution:?}");
        }
    }
}

proptest! {
    #[test]
    fn contents_are_what_they_say(rows in 1usize..20, columns in 1usize..20, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut values = vec![f64::NAN; rows * columns];
        let mut m = Matrix { rows, columns, parts: 1, values: &mut values };
        m.binary(&mut rng);
        prop_assert!(m.values.iter().all(|x| *x == 0.0 || *x == 1.0));
        m.values.iter_mut().for_each(|x| *x -= 0.5);
        m.scale_rows(8, &mut rng);
        m.scale_columns(8, &mut rng);
        prop_assert!(m.values.iter().all(|x| x.abs() <= 1e16));
        m.zero_rows(&mut rng);
        let zero = m.values.chunks_exact(columns).filter(|r| r.iter().all(|x| *x == 0.0)).count();
        prop_assert!(zero >= 1);
    }
}
