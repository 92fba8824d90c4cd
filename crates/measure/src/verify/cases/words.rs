//! Cases and findings in words.

use flopsmith_problem::Distribution;

use super::{Case, Finding};

/// An error of at most this many times the permitted one is a matter of exactness: single precision in place of double
/// errs by some 10⁸ times. A program with a larger error computes something else, and no bound is suggested for it.
const CLOSE_MISS: f64 = 1e9;

impl Case {
    /// The case in words: its parameters and its content.
    pub fn name(&self) -> String {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(k, v)| format!("{k} = {v}"))
            .collect();
        let content = match self.distribution {
            Distribution::Uniform => "uniform inputs",
            Distribution::ScaledRows => "rows scaled by powers of ten",
            Distribution::ScaledColumns => "columns scaled by powers of ten",
            Distribution::Checkered => "large and small inputs by row and column",
            Distribution::ZeroOne => "inputs of zeros and ones",
            Distribution::ZeroRows => "some rows zero",
            Distribution::Negated => "negated inputs",
            Distribution::Tiny => "tiny inputs",
            Distribution::Huge => "huge inputs",
            Distribution::Denormal => "denormal inputs",
            Distribution::Few => "two different values",
            Distribution::Ascending => "ascending inputs",
            Distribution::Descending => "descending inputs",
        };
        format!("{}, {content}", params.join(", "))
    }

    /// A finding in words.
    pub fn words(&self, finding: &Finding) -> String {
        match finding {
            Finding::Right(share) => format!("right, worst error {share:.3} of the bound"),
            Finding::Wrong(mismatch) => {
                let mut text = mismatch.to_string();
                if let Some(constant) = self.constant {
                    let passes = mismatch.share * constant;
                    // A program with a larger error is wrong, and not just a little less exact than the bound asks for.
                    if mismatch.share <= CLOSE_MISS {
                        text.push_str(&format!(
                            "; it would pass with c = {passes:.3e} in the bound instead of {constant}"
                        ));
                    }
                }
                text
            }
            Finding::InputChanged { array, element } => {
                format!(
                    "{} was changed at element {element}",
                    self.specification.argument(*array)
                )
            }
            Finding::BandBroken { array, distance } if *distance < 0 => {
                format!(
                    "memory was written {} bytes before {}",
                    -distance,
                    self.specification.argument(*array)
                )
            }
            Finding::BandBroken { array, distance } => {
                let place = match distance {
                    0 => "right".to_owned(),
                    bytes => format!("{bytes} bytes"),
                };
                format!(
                    "memory was written {place} behind the end of {}",
                    self.specification.argument(*array)
                )
            }
        }
    }
}
