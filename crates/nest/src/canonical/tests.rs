use flopsmith_problem::Problem;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::renamed::renamed;
use crate::{random, read, shipped};

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

/// The form of the statements in the place of those of dgemm.
fn form_of(body: &str) -> String {
    let source = format!(
        "void dgemm(int n, const double *A, const double *B, double *C)\n{{\nfor (int i = 0; i < n; i++)\nfor (int j = 0; j < n; j++) {{\n{body}\n}}\n}}\n"
    );
    canonical(&read::read_source(&shipped("dgemm"), &source).expect("it is affine"))
}

#[test]
fn spellings_of_an_update_have_one_form() {
    let (c, a, b) = ("C[i * n + j]", "A[i * n + j]", "B[j * n + i]");
    let sum = "for (int k = 0; k < n; k++)";
    let product = "A[i * n + k] * B[k * n + j]";
    let alike = [
        vec![
            format!("{c} *= {a};"),
            format!("{c} = {c} * {a};"),
            format!("{c} = {a} * {c};"),
        ],
        vec![
            format!("{c} += {a} + {b};"),
            format!("{c} = {c} + {a} + {b};"),
            format!("{c} = {a} + ({b} + {c});"),
            format!("{c} = {b} + {c} + {a};"),
        ],
        vec![format!("{c} /= {a};"), format!("{c} = {c} / {a};")],
        // A local number that begins with a multiple of the old value.
        vec![
            format!("{c} *= 0.5; {sum} {c} += {product};"),
            format!("double s = 0.5 * {c}; {sum} s += {product}; {c} = s;"),
            format!("double s = {c} * 0.5; {sum} s = {product} + s; {c} = s;"),
        ],
        // A local number that begins with the old value.
        vec![
            format!("{sum} {c} += {product};"),
            format!("double s = {c}; {sum} s += {product}; {c} = s;"),
        ],
    ];
    let mut forms = Vec::new();
    for bodies in &alike {
        let of_first = form_of(&bodies[0]);
        for body in bodies {
            assert_eq!(form_of(body), of_first, "{body}");
        }
        forms.push(of_first);
    }
    // Another element of the same array is no old value.
    forms.push(form_of(&format!("{c} = {a} * C[i * n + j + 1];")));
    forms.push(form_of(&format!("{c} = {a} * {b};")));
    let count = forms.len();
    forms.sort();
    forms.dedup();
    assert_eq!(forms.len(), count, "{forms:#?}");
}

#[test]
fn the_order_of_many_operands_does_not_matter() {
    let (c, b) = ("C[i * n + j]", "B[i * n + j]");
    let others = ["A[j * n + i]", "B[j * n + i]", "C[j * n + i]", "0.5"];
    let sum = |order: [usize; 5]| {
        let all = [b, others[0], others[1], others[2], others[3]];
        let terms = order.map(|at| all[at]).join(" + ");
        form_of(&format!("{c} = {terms}; {c} *= {b};"))
    };
    let first = sum([0, 1, 2, 3, 4]);
    for order in [[4, 3, 2, 1, 0], [1, 3, 0, 4, 2], [2, 0, 4, 1, 3]] {
        assert_eq!(sum(order), first, "{order:?}");
    }
}

/// The value with operands of sums and products exchanged.
fn commuted(value: &Expr, rng: &mut impl Rng) -> Expr {
    let Expr::Binary(operation, a, b) = value else {
        return value.clone();
    };
    let (a, b) = (commuted(a, rng), commuted(b, rng));
    let commutes = matches!(operation, Operation::Add | Operation::Mul);
    match commutes && rng.random_bool(0.5) {
        true => Expr::binary(*operation, b, a),
        false => Expr::binary(*operation, a, b),
    }
}

/// The program with some updates written as plain assignments, and with operands exchanged.
fn respelled(program: &Program, rng: &mut impl Rng) -> Program {
    let mut other = program.clone();
    for statement in &mut other.statements {
        let update = statement.update.filter(|_| rng.random_bool(0.5));
        if let Some(operation) = update {
            let old = Expr::Read(statement.target.clone());
            statement.value = Expr::binary(operation, old, statement.value.clone());
            statement.update = None;
        }
        statement.value = commuted(&statement.value, rng);
    }
    other
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

    /// Spellings never matter, whatever the nest.
    #[test]
    fn a_respelled_nest_has_the_same_form(seed in any::<u64>()) {
        let files = random::problem(seed).expect("the name is an id");
        let problem = Problem::from_files(files).expect("a sound problem");
        let program = read::read(&problem).expect("it is affine");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let other = respelled(&program, &mut rng);
        prop_assert_eq!(canonical(&other), canonical(&program), "{}", problem.reference_source);
    }
}
