use std::path::Path;

use flopsmith_problem::Problem;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::renamed::renamed;
use crate::{random, read};

fn shipped(name: &str) -> Problem {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems");
    Problem::load(&root.join(name)).expect("a shipped problem is sound")
}

fn form(problem: &Problem) -> String {
    canonical(&read::read(problem).expect("it is affine"))
}

#[test]
fn precision_sizes_order_of_factors_and_of_loops_do_not_matter() {
    let product = shipped("dgemm");
    assert_eq!(form(&product), form(&shipped("sgemm")));
    let with = |from: &str, to: &str| {
        let mut changed = product.clone();
        assert!(changed.reference_source.contains(from));
        changed.reference_source = changed.reference_source.replace(from, to);
        form(&changed)
    };
    let (a, b) = ("A[i * n + k]", "B[k * n + j]");
    let product_of = |x: &str, y: &str| format!("{x} * {y}");
    let swapped = with(&product_of(a, b), &product_of(b, a));
    assert_eq!(swapped, form(&product));
    // The arrays' names do not matter, and their subscripts do.
    let transposed = with(b, "B[j * n + k]");
    assert_ne!(transposed, form(&product));
}

#[test]
fn different_nests_have_different_forms() {
    let names = [
        "dgemm",
        "dsyrk",
        "dgemv",
        "transpose",
        "conv2d",
        "batched_dgemm",
        "lu",
        "dot",
    ];
    let mut forms: Vec<String> = names.iter().map(|name| form(&shipped(name))).collect();
    forms.sort();
    forms.dedup();
    assert_eq!(forms.len(), names.len(), "{forms:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Names never matter, whatever the nest.
    #[test]
    fn a_renamed_nest_has_the_same_form(seed in any::<u64>()) {
        let files = random::problem(seed).expect("the name is an id");
        let problem = Problem::from_files(files).expect("a sound problem");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let other = renamed(&problem, &mut rng);
        prop_assert_ne!(&other.entry.prototype, &problem.entry.prototype);
        prop_assert_eq!(form(&other), form(&problem), "{}", other.reference_source);
    }
}
