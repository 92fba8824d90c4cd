//! Normal numbers for simulated measurements.

/// A standard normal number from two numbers in [0, 1) that `uniform` draws (Box and Muller, A Note on the Generation of
/// Random Normal Deviates, 1958).
pub fn normal(mut uniform: impl FnMut() -> f64) -> f64 {
    let length = (-2.0 * (1.0 - uniform()).ln()).sqrt();
    length * (std::f64::consts::TAU * uniform()).cos()
}
