//! The supervisor's own matrix product, and the error bound of a product.
//!
//! A result c of one element of A·B is right if |c − exact| ≤ c·√k·ε·(|A||B|) in that very element. Higham, "Accuracy
//! and Stability of Numerical Algorithms", §3.5, has the componentwise bound with k, which every conventional summation
//! order keeps and fast products with fewer multiplications do not; Higham and Mary, 2019, show that √k is enough, as
//! errors have either sign. The expected value is a plain product in double precision; an element that differs too much
//! from it is compared with a compensated product before it counts as wrong.
#![expect(
    unsafe_code,
    reason = "calls code compiled for processor features that were checked"
)]

/// Rows of A, columns of B, and the length of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
}

/// The largest absolute error in an element whose |A||B| is `magnitude`. Products that
/// underflow lose up to half the smallest number each, whatever the magnitude.
pub fn tolerance(c: f64, k: usize, magnitude: f64) -> f64 {
    const SMALLEST: f64 = f64::from_bits(1);
    let k = k as f64;
    c * k.sqrt() * f64::EPSILON * magnitude + if magnitude > 0.0 { k * SMALLEST } else { 0.0 }
}

/// The largest absolute error of an element after a chain of `operations` roundings of terms whose sizes sum up to
/// `magnitude`, in arithmetic with this `epsilon`. Each rounding may underflow by `smallest`. If `operations` counts
/// only the sum to which errors of either sign add up, several underflows may belong to each of the counted roundings.
pub fn scaled_tolerance(
    c: f64,
    operations: f64,
    (epsilon, smallest): (f64, f64),
    magnitude: f64,
) -> f64 {
    c * operations * epsilon * magnitude
        + if magnitude > 0.0 {
            c.max(1.0) * operations * smallest
        } else {
            0.0
        }
}

/// A·B, row-major, in double precision. The code is simple enough to be obviously right, and fast enough to check every
/// element of a timed call in about a millisecond.
pub fn product(shape: Shape, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.0; shape.m * shape.n];
    multiply(shape, a, b, &mut c);
    c
}

/// |A|·|B|.
pub fn magnitudes(shape: Shape, a: &[f64], b: &[f64]) -> Vec<f64> {
    let abs = |x: &[f64]| -> Vec<f64> { x.iter().map(|v| v.abs()).collect() };
    product(shape, &abs(a), &abs(b))
}

fn multiply(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn with_fma(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
            tiles::<true>(shape, a, b, c);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
        {
            // SAFETY: the processor has both features.
            return unsafe { with_fma(shape, a, b, c) };
        }
    }
    tiles::<false>(shape, a, b, c);
}

const ROWS: usize = 4;
const COLUMNS: usize = 8;

#[inline(always)]
fn tiles<const FMA: bool>(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
    let Shape { m, n, k } = shape;
    for j in (0..n).step_by(COLUMNS) {
        for i in (0..m).step_by(ROWS) {
            if i + ROWS <= m && j + COLUMNS <= n {
                let mut sums = [[0.0f64; COLUMNS]; ROWS];
                for l in 0..k {
                    let row = &b[l * n + j..l * n + j + COLUMNS];
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let x = a[(i + r) * k + l];
                        for (s, y) in sum.iter_mut().zip(row) {
                            *s = if FMA { x.mul_add(*y, *s) } else { *s + x * y };
                        }
                    }
                }
                for (r, sum) in sums.iter().enumerate() {
                    c[(i + r) * n + j..(i + r) * n + j + COLUMNS].copy_from_slice(sum);
                }
            } else {
                for r in i..m.min(i + ROWS) {
                    for s in j..n.min(j + COLUMNS) {
                        c[r * n + s] = (0..k).map(|l| a[r * k + l] * b[l * n + s]).sum();
                    }
                }
            }
        }
    }
}

/// A sum of products as if computed with twice the digits, and the sum of their magnitudes
/// (Ogita, Rump, Oishi, "Accurate sum and dot product", 2005, algorithm Dot2).
pub fn exact_dot(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut sum, mut rest, mut magnitude) = (0.0f64, 0.0f64, 0.0f64);
    for (x, y) in pairs {
        let p = x * y;
        let p_rest = x.mul_add(y, -p);
        let s = sum + p;
        let z = s - sum;
        rest += ((sum - (s - z)) + (p - z)) + p_rest;
        sum = s;
        magnitude += p.abs();
    }
    (sum + rest, magnitude)
}

/// An element that is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mismatch {
    /// Row in C.
    pub row: usize,
    /// Column in C.
    pub column: usize,
    /// The value that the candidate wrote.
    pub found: f64,
    /// The expected value.
    pub expected: f64,
    /// The error as a share of what is allowed; infinite for NaN.
    pub share: f64,
    /// Number of wrong elements.
    pub wrong: usize,
    /// Number of elements in all.
    pub of: usize,
    /// True if the array has one row only, so that the column is the element's number.
    pub flat: bool,
    /// Both values as 64-bit integers, if that is what they are.
    pub whole: Option<(i64, i64)>,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mismatch {
            row,
            column,
            found,
            expected,
            share,
            wrong,
            of,
            flat,
            whole,
        } = self;
        let place = match flat {
            true => format!("element {column}"),
            false => format!("row {row}, column {column}"),
        };
        let never_written = found.to_bits() == flopsmith_harness::inputs::POISON_F64;
        let (value, right) = match whole {
            Some((found, expected)) => (found.to_string(), expected.to_string()),
            None if never_written => ("never written".to_owned(), format!("{expected:e}")),
            None => (format!("{found:e}"), format!("{expected:e}")),
        };
        write!(
            f,
            "{wrong} of {of} elements are wrong; worst is {place}: {value} instead of {right}"
        )?;
        if share.is_finite() {
            write!(f, ", {share:.3e} times the permitted error")?;
        }
        Ok(())
    }
}

/// The error of `found` as a share of the permitted one. NaN never passes.
pub fn error_share(found: f64, expected: f64, tolerance: f64) -> f64 {
    let error = (found - expected).abs();
    if error == 0.0 {
        0.0
    } else if error.is_nan() {
        f64::INFINITY
    } else {
        error / tolerance
    }
}

/// Compares a result with the expectation, element by element. Returns the worst share, or the worst mismatch if a
/// share exceeds 1.
pub fn compare(
    shape: Shape,
    found: &[f64],
    expected: &[f64],
    tolerances: &[f64],
    exact: impl Fn(usize, usize) -> (f64, f64),
) -> Result<f64, Mismatch> {
    let mut worst: f64 = 0.0;
    let mut mismatch: Option<Mismatch> = None;
    let expected_count = expected.len();
    let rows = found.chunks_exact(shape.n).zip(
        expected
            .chunks_exact(shape.n)
            .zip(tolerances.chunks_exact(shape.n)),
    );
    for (row, (found, (expected, tolerances))) in rows.enumerate() {
        // One pass without branches decides whether the row needs a closer look.
        let mut fine = true;
        let mut row_worst: f64 = 0.0;
        for ((x, e), t) in found.iter().zip(expected).zip(tolerances) {
            let error = (x - e).abs();
            fine &= error <= *t;
            row_worst = row_worst.max(if error == 0.0 { 0.0 } else { error / t });
        }
        if fine {
            worst = worst.max(row_worst);
            continue;
        }
        for (column, ((&x, &e), &t)) in found.iter().zip(expected).zip(tolerances).enumerate() {
            let mut share = error_share(x, e, t);
            let mut right = e;
            if share > 1.0 && share.is_finite() {
                let (value, tolerance) = exact(row, column);
                (share, right) = (error_share(x, value, tolerance), value);
            }
            if share <= 1.0 {
                worst = worst.max(share);
                continue;
            }
            let wrong = mismatch.map_or(1, |m| m.wrong + 1);
            mismatch = Some(match mismatch {
                Some(m) if m.share >= share => Mismatch { wrong, ..m },
                _ => Mismatch {
                    row,
                    column,
                    found: x,
                    expected: right,
                    share,
                    wrong,
                    of: expected_count,
                    flat: expected_count == shape.n,
                    whole: None,
                },
            });
        }
    }
    mismatch.map_or(Ok(worst), Err)
}

/// Compares 64-bit integers, of which each has one right value. Returns the first mismatch.
pub fn compare_integers(shape: Shape, found: &[i64], expected: &[i64]) -> Result<f64, Mismatch> {
    let pairs = || found.iter().zip(expected);
    let Some(at) = pairs().position(|(x, y)| x != y) else {
        return Ok(0.0);
    };
    Err(Mismatch {
        row: at / shape.n,
        column: at % shape.n,
        found: found[at] as f64,
        expected: expected[at] as f64,
        share: f64::INFINITY,
        wrong: pairs().filter(|(x, y)| x != y).count(),
        of: expected.len(),
        flat: expected.len() == shape.n,
        whole: Some((found[at], expected[at])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_harness::inputs::Stream;
    use proptest::prelude::*;

    fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<f64> {
        let mut x = vec![0.0; rows * columns];
        Stream::new(seed, 0).fill_f64(&mut x);
        x
    }

    fn exact_element(shape: Shape, a: &[f64], b: &[f64], i: usize, j: usize) -> (f64, f64) {
        exact_dot((0..shape.k).map(|l| (a[i * shape.k + l], b[l * shape.n + j])))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_product_keeps_its_own_bound(m in 1usize..40, n in 1usize..40, k in 1usize..40, seed: u64) {
            let shape = Shape { m, n, k };
            let (a, b) = (matrix(m, k, seed), matrix(k, n, seed ^ 1));
            let c = product(shape, &a, &b);
            let magnitude = magnitudes(shape, &a, &b);
            for i in 0..m {
                for j in 0..n {
                    let (value, size) = exact_element(shape, &a, &b, i, j);
                    prop_assert!(error_share(c[i * n + j], value, tolerance(2.0, k, size)) <= 1.0);
                    prop_assert!((magnitude[i * n + j] - size).abs() <= 1e-12 * size);
                }
            }
        }

        #[test]
        fn one_wrong_element_is_found(seed: u64, at in 0usize..64 * 64, nan: bool) {
            let shape = Shape { m: 64, n: 64, k: 16 };
            let (a, b) = (matrix(64, 16, seed), matrix(16, 64, seed ^ 1));
            let expected = product(shape, &a, &b);
            let tolerances: Vec<f64> = magnitudes(shape, &a, &b).iter().map(|&x| tolerance(4.0, 16, x)).collect();
            let exact = |i: usize, j: usize| { let (v, s) = exact_element(shape, &a, &b, i, j); (v, tolerance(4.0, 16, s)) };
            prop_assert!(compare(shape, &expected, &expected, &tolerances, exact).is_ok());
            let mut found = expected.clone();
            found[at] = if nan { f64::NAN } else { found[at] + 3.0 * tolerances[at] };
            let mismatch = compare(shape, &found, &expected, &tolerances, exact).err();
            prop_assert_eq!(mismatch.map(|m| (m.row, m.column, m.wrong)), Some((at / 64, at % 64, 1)));
        }
    }

    #[test]
    fn the_compensated_sum_is_exact_where_the_plain_one_fails() {
        let pairs = [(1e16, 1.0), (1.0, 1.0), (-1e16, 1.0)];
        let plain: f64 = pairs.iter().map(|(x, y)| x * y).sum();
        assert_eq!(plain, 0.0);
        assert_eq!(exact_dot(pairs.into_iter()), (1.0, 2e16 + 1.0));
    }

    #[test]
    fn integers_that_are_one_double_are_told_apart() {
        let shape = Shape { m: 2, n: 2, k: 0 };
        let expected = [1, i64::MAX, i64::MIN, -(1 << 60)];
        assert_eq!(compare_integers(shape, &expected, &expected), Ok(0.0));
        let mut found = expected;
        found[1] -= 1;
        found[3] += 1;
        assert_eq!(found[1] as f64, expected[1] as f64);
        let mismatch = compare_integers(shape, &found, &expected).expect_err("two are wrong");
        assert_eq!((mismatch.row, mismatch.column, mismatch.wrong), (0, 1, 2));
        let words = mismatch.to_string();
        assert!(
            words.ends_with("9223372036854775806 instead of 9223372036854775807"),
            "{words}"
        );
    }

    #[test]
    fn a_zero_row_must_be_exactly_zero() {
        assert_eq!(tolerance(4.0, 256, 0.0), 0.0);
        assert_eq!(error_share(0.0, 0.0, 0.0), 0.0);
        assert_eq!(error_share(-0.0, 0.0, 0.0), 0.0);
        assert!(error_share(1e-300, 0.0, 0.0) > 1.0);
        assert!(error_share(f64::NAN, 0.0, 1.0) > 1.0);
        assert!(error_share(f64::INFINITY, 0.0, 1.0) > 1.0);
        assert!(
            error_share(f64::INFINITY, f64::INFINITY, 1.0) > 1.0,
            "infinity is no result here"
        );
    }

    #[test]
    fn single_precision_inside_does_not_pass() {
        let shape = Shape {
            m: 64,
            n: 64,
            k: 64,
        };
        let (a, b) = (matrix(64, 64, 1), matrix(64, 64, 2));
        let low = |x: &[f64]| -> Vec<f64> { x.iter().map(|v| f64::from(*v as f32)).collect() };
        let expected = product(shape, &a, &b);
        let tolerances: Vec<f64> = magnitudes(shape, &a, &b)
            .iter()
            .map(|&x| tolerance(4.0, 64, x))
            .collect();
        let found = product(shape, &low(&a), &low(&b));
        let result = compare(shape, &found, &expected, &tolerances, |i, j| {
            let (v, s) = exact_element(shape, &a, &b, i, j);
            (v, tolerance(4.0, 64, s))
        });
        assert!(result.is_err_and(|m| m.wrong > 4000));
    }
}
