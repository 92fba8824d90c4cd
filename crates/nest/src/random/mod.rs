//! Random affine loop nests as problems like any other.
//!
//! A seed gives the files of a problem: one to three statements with one to three loops each, element-wise, with sums, as stencils or with
//! windows, over arrays of doubles, floats or integers. The definition states sizes, inputs and bound as shipped definitions do; the bound
//! follows from the operations on the way to an element. The same seed gives the same bytes on every machine: choices are made in integers,
//! and by a generator that is defined bit by bit.

mod accuracy;
mod definition;
mod draw;
mod model;
mod text;

use flopsmith_protocol::ids::InvalidId;
use flopsmith_protocol::{ProblemFiles, ProblemId};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Draws for one problem at most. One in some is not moderate, so this number is never reached.
const DRAWS: usize = 1000;

/// The name of the function of every nest: a long number would be the hardest word for a model to copy, and say nothing.
const ENTRY: &str = "nest";

/// The name of the problem of a seed.
pub fn name(seed: u64) -> String {
    format!("random_{seed}")
}

/// The problem of a seed.
///
/// # Errors
/// None: every seed gives a name that is an id.
pub fn problem(seed: u64) -> Result<ProblemFiles, InvalidId> {
    let nest = nest(seed);
    Ok(ProblemFiles {
        id: ProblemId::new(name(seed))?,
        definition: definition::definition(&nest, ENTRY, seed),
        reference: text::reference(&nest, ENTRY),
        baseline: None,
        magnitude: nest.floats().then(|| text::magnitude(&nest, ENTRY)),
    })
}

/// The nest of a seed.
fn nest(seed: u64) -> model::Nest {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut nest = draw::nest(&mut rng);
    for _ in 0..DRAWS {
        if accuracy::is_moderate(&nest) {
            break;
        }
        nest = draw::nest(&mut rng);
    }
    nest
}

#[cfg(test)]
mod tests;
