use flopsmith_problem::Role;
use proptest::prelude::*;

use super::*;

fn array(name: &str, output: bool, dims: &[usize], content: Content) -> Array {
    let role = if output { Role::Output } else { Role::Input };
    Array {
        name: name.into(),
        element: Element::I32,
        role,
        dims: dims.to_vec(),
        parts: 1,
        align: 64,
        stream: u64::from(output),
        content,
    }
}

fn filled<'a>(array: &'a Array) -> Look<'a> {
    Look {
        array,
        values: array.values(&array.filled(11)),
    }
}

/// The easy properties of an input from which `work` makes an output of the same shape.
fn of(dims: &[usize], content: Content, work: impl Fn(&[f64]) -> Vec<f64>) -> Vec<String> {
    let (from, to) = (
        array("from", false, dims, content),
        array("to", true, dims, Content::Uniform),
    );
    let input = filled(&from);
    let output = Look {
        array: &to,
        values: work(&input.values),
    };
    easy(&[input], &[output])
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn finds(found: &[String], part: &str) {
    assert!(
        found.iter().any(|text| text.contains(part)),
        "{part}: {found:?}"
    );
}

#[test]
fn a_reason_in_the_definition_makes_a_warning_good_and_no_error() {
    let found = || {
        vec![
            Finding::Warning("few letters".into()),
            Finding::Error("wrong".into()),
        ]
    };
    assert_eq!(with_reason(found(), None), found());
    let told = with_reason(found(), Some("there are four"));
    let good = Finding::Good("few letters (`easy_inputs`: there are four)".into());
    assert_eq!(told, [good, Finding::Error("wrong".into())]);
}

fn shortest(edges: &[f64]) -> Vec<f64> {
    let n = edges.len().isqrt();
    let mut ways = edges.to_vec();
    (0..n).for_each(|i| ways[i * n + i] = 0.0);
    for k in 0..n {
        for i in 0..n {
            for j in 0..n {
                ways[i * n + j] = ways[i * n + j].min(ways[i * n + k] + ways[k * n + j]);
            }
        }
    }
    ways
}

fn sorted(x: &[f64]) -> Vec<f64> {
    let mut all = x.to_vec();
    all.chunks_mut(64)
        .for_each(|row| row.sort_by(f64::total_cmp));
    all
}

fn summed(x: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    x.iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect()
}

const SHORT: Content = Content::Range {
    low: 1.0,
    high: 1000.0,
};
const WIDE: Content = Content::Range {
    low: -2e9,
    high: 2e9,
};

#[test]
fn weights_of_which_few_matter_are_found() {
    let easy = of(&[160, 160], SHORT, shortest);
    finds(&easy, "of the edges in `from`");
    finds(&easy, "fit in 8 bits");
    // So are larger numbers, and graphs in which no way is shorter than its edge.
    for (low, high) in [(1.0, 1e9), (5e8, 1e9)] {
        finds(
            &of(&[160, 160], Content::Range { low, high }, shortest),
            "of the edges in `from`",
        );
    }
    let columns = 160;
    let hard = Content::Distances { columns, high: 1e9 };
    assert_eq!(of(&[160, 160], hard, shortest), Vec::<String>::new());
}

#[test]
fn numbers_that_a_guess_sorts_are_found() {
    finds(&of(&[256, 64], WIDE, sorted), "tell all numbers apart");
    finds(&of(&[256, 64], SHORT, sorted), "a guess finds the place");
    finds(
        &of(&[256, 64], Content::Uniform, sorted),
        "different values",
    );
    let hard = Content::Magnitudes {
        low: 32_768.0,
        high: 2_147_483_648.0,
    };
    assert_eq!(of(&[256, 64], hard, sorted), Vec::<String>::new());
}

#[test]
fn small_numbers_of_running_sums_are_found() {
    let small = Content::Range {
        low: -1000.0,
        high: 1000.0,
    };
    finds(&of(&[300_000], small, summed), "fit in 16 bits");
    let hard = Content::Steps {
        low: -1e9,
        high: 1e9,
    };
    assert_eq!(of(&[300_000], hard, summed), Vec::<String>::new());
}

#[test]
fn rows_that_begin_where_an_even_spread_has_them_are_found() {
    let starts = array("start", false, &[1001], Content::Offsets { total: 8000 });
    assert_eq!(easy(&[filled(&starts)], &[]), []);
    let even = Look {
        array: &starts,
        values: (0..=1000)
            .map(|row| 8.0 * f64::from(row) + f64::from(row * 7 % 8))
            .collect(),
    };
    assert!(even_offsets(&even).is_some());
}

#[test]
fn keys_and_counts_may_be_small() {
    let keys = Content::Repeating {
        low: 0.0,
        high: 255.0,
    };
    let (from, to) = (
        array("key", false, &[10_000], keys),
        array("count", true, &[256], Content::Uniform),
    );
    let input = filled(&from);
    let mut counts = vec![0.0; 256];
    input
        .values
        .iter()
        .for_each(|key| counts[*key as usize] += 1.0);
    let output = Look {
        array: &to,
        values: counts,
    };
    assert_eq!(easy(&[input], &[output]), []);
}

#[test]
fn floats_with_few_digits_or_many_zeros_are_found() {
    let mut floats = array("x", false, &[40, 50], Content::Uniform);
    floats.element = Element::F64;
    let with = |change: &dyn Fn(usize, f64) -> f64| {
        let look = filled(&floats);
        let values = look
            .values
            .iter()
            .enumerate()
            .map(|(at, x)| change(at, *x))
            .collect();
        let found = easy(&[Look { values, ..look }], &[]);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(with(&|_, x| x), Vec::<String>::new());
    finds(&with(&|_, x| f64::from(x as f32)), "single precision");
    finds(&with(&|at, x| if at % 3 == 0 { 0.0 } else { x }), "is zero");
    finds(
        &with(&|at, x| if at < 200 { 0.5 } else { x }),
        "hold one value",
    );
    finds(&with(&|at, _| at as f64 * 1.234e-3), "nearly sorted");
}

#[test]
fn an_array_that_hardly_changes_in_a_call_is_found() {
    let mut both = array("x", false, &[40, 50], Content::Uniform);
    (both.element, both.role) = (Element::F64, Role::InOut);
    let found = |changed: usize| -> Vec<String> {
        let mut after = filled(&both);
        after
            .values
            .iter_mut()
            .take(changed)
            .for_each(|x| *x += 1.0);
        let found = easy(&[filled(&both)], &[after]);
        found.iter().map(ToString::to_string).collect()
    };
    finds(&found(100), "of `x` stays as it was");
    assert_eq!(found(1000), Vec::<String>::new());
}

proptest! {
    #[test]
    fn widths_hold_their_numbers(x in any::<i32>()) {
        let bits = width(f64::from(x));
        let fits = |bits: u32| {
            let least = if x < 0 { -(1i64 << (bits - 1)) } else { 0 };
            let most = if x < 0 { 0 } else { (1i64 << bits) - 1 };
            (least..=most).contains(&i64::from(x))
        };
        prop_assert!(fits(bits.max(1)), "{x} in {bits}");
    }
}
