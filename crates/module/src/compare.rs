//! Compares outputs with the results of a float64 run.

use flopsmith_protocol::CandidateFault;

use crate::outcome::Failure;
use crate::problem::Tolerance;

/// An output may be off by this many times the largest error of the eager module on the same inputs, because another
/// order of summation may err as much.
const EAGER_ERRORS: f64 = 4.0;

/// The bytes that outputs hold before a call: a NaN in every floating-point type.
pub(crate) const POISON: u8 = 0xff;

/// One output and the expected values.
pub(crate) struct Output<'a> {
    /// The data type.
    pub dtype: &'a str,
    /// The bytes of the output.
    pub found: &'a [u8],
    /// The bytes of the expected values, in float64.
    pub expected: &'a [u8],
    /// Root mean square of the expected values.
    pub scale: f64,
    /// Largest error of the eager module.
    pub eager_error: f64,
    /// The tolerance of the data type; whole numbers need none.
    pub tolerance: Option<&'a Tolerance>,
}

/// The largest error as a share of the permitted one.
///
/// # Errors
/// The first element that exceeds its bound. A NaN is right only where the expected value is one.
pub(crate) fn compare(output: &Output) -> Result<f64, Failure> {
    let expected = output.expected.chunks_exact(8).map(|b| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(b);
        f64::from_ne_bytes(bytes)
    });
    let Some(found) = values(output.dtype, output.found) else {
        return Err(Failure::new(
            CandidateFault::WrongResult,
            format!("outputs of the type {} cannot be compared", output.dtype),
        ));
    };
    if found.len() != expected.len() {
        return Err(Failure::new(
            CandidateFault::WrongResult,
            format!("{} elements instead of {}", found.len(), expected.len()),
        ));
    }
    let (absolute, relative) = match output.tolerance {
        Some(t) => (t.absolute * output.scale, t.relative),
        None => (0.0, 0.0),
    };
    let floor = EAGER_ERRORS * output.eager_error;
    let mut worst: f64 = 0.0;
    for (position, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        let bound = (absolute + relative * expected.abs()).max(floor);
        let error = (found - expected).abs();
        let right = match expected.is_finite() {
            true => error <= bound,
            false => found == expected || found.is_nan() && expected.is_nan(),
        };
        if !right {
            return Err(Failure::new(
                CandidateFault::WrongResult,
                format!(
                    "element {position} is {found:e} instead of {expected:e}; it may be off by {bound:.3e}"
                ),
            ));
        }
        if expected.is_finite() && bound > 0.0 {
            worst = worst.max(error / bound);
        }
    }
    Ok(worst)
}

/// The values of a tensor as float64; none for a type without such values.
fn values(dtype: &str, bytes: &[u8]) -> Option<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let chunks = bytes.chunks_exact(N).map(|chunk| {
            let mut one = [0; N];
            one.copy_from_slice(chunk);
            read(one)
        });
        chunks.collect()
    }
    Some(match dtype {
        "float64" => each(bytes, f64::from_ne_bytes),
        "float32" => each(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        "bfloat16" => each(bytes, |b| {
            f64::from(f32::from_bits(u32::from(u16::from_ne_bytes(b)) << 16))
        }),
        "float16" => each(bytes, |b| half(u16::from_ne_bytes(b))),
        "int64" => each(bytes, |b| i64::from_ne_bytes(b) as f64),
        "int32" => each(bytes, |b| f64::from(i32::from_ne_bytes(b))),
        "int16" => each(bytes, |b| f64::from(i16::from_ne_bytes(b))),
        "int8" => each(bytes, |b| f64::from(i8::from_ne_bytes(b))),
        "uint8" | "bool" => each(bytes, |b| f64::from(u8::from_ne_bytes(b))),
        _ => return None,
    })
}

/// A number of IEEE 754's binary16.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn tolerance() -> Tolerance {
        Tolerance {
            absolute: 1e-4,
            relative: 1e-4,
            source: "test".into(),
        }
    }

    fn check(found: &[f32], expected: &[f64], eager_error: f64) -> Result<f64, Failure> {
        let found: Vec<u8> = found.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let expected: Vec<u8> = expected.iter().flat_map(|x| x.to_ne_bytes()).collect();
        compare(&Output {
            dtype: "float32",
            found: &found,
            expected: &expected,
            scale: 1.0,
            eager_error,
            tolerance: Some(&tolerance()),
        })
    }

    #[test]
    fn an_error_counts_as_a_share_of_its_bound() {
        let worst = check(&[1.0, 2.0], &[1.0, 2.0 + 1.5e-4], 0.0).unwrap();
        assert!((worst - 0.5).abs() < 1e-3, "{worst}");
        assert!(check(&[1.0, 2.0], &[1.0, 2.01], 0.0).is_err());
        assert!(check(&[1.0, 2.0], &[1.0, 2.01], 0.004).is_ok());
    }

    #[test]
    fn nothing_stands_for_a_missing_number() {
        assert!(check(&[], &[1.0], 1e9).is_err());
        assert!(check(&[f32::NAN], &[1.0], 1e9).is_err());
        assert!(check(&[f32::from_ne_bytes([POISON; 4])], &[0.0], 0.0).is_err());
        assert!(check(&[1.0], &[f64::NAN], 1e9).is_err());
        assert!(check(&[f32::INFINITY], &[f64::INFINITY], 0.0).is_ok());
        assert!(check(&[f32::NEG_INFINITY], &[f64::INFINITY], 0.0).is_err());
    }

    #[test]
    fn halves_are_read_as_they_are() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f64.powi(-24)),
            (0x0400, 2f64.powi(-14)),
        ] {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0x7c00).is_infinite());
        assert_eq!(values("int32", &(-7i32).to_ne_bytes()), Some(vec![-7.0]));
        assert_eq!(values("complex64", &[]), None);
    }
}
