//! Programs with other code layouts, for certified numbers.
//!
//! A program can see the address of its code. Therefore every layout that is certified was itself audited and verified.
//! Otherwise a program could be right at the address where it is verified and fast at the address where it is
//! certified.

use std::sync::{Arc, Mutex, PoisonError};

use flopsmith_compile::Compiler;
use flopsmith_measure::{PADDINGS, Thoroughness, Verifier};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use crate::draws::Draws;

/// Builds programs with other code layouts and verifies each layout.
pub struct VerifiedLayouts {
    compiler: Arc<Compiler>,
    verifier: Mutex<Verifier>,
}

impl VerifiedLayouts {
    /// Builds with `compiler`, and verifies with a verifier of its own.
    pub fn new(compiler: Arc<Compiler>, verifier: Verifier) -> Self {
        let verifier = Mutex::new(verifier);
        Self { compiler, verifier }
    }

    /// Objects of a source that was compiled before, each of them verified.
    ///
    /// # Errors
    /// As [`Compiler::layouts`], and those of a verification.
    pub fn of(
        &self,
        language: Language,
        problem: &Problem,
        source: &str,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        // The verifier may be used after a panic: it begins anew with every program.
        let mut verifier = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        verified(
            &self.compiler,
            language,
            problem,
            source,
            &mut verifier,
            &Draws::System,
        )
    }
}

/// Objects of a source that was compiled before, each of which passed the verification.
///
/// # Errors
/// As [`Compiler::layouts`], and those of a verification.
pub fn verified(
    compiler: &Compiler,
    language: Language,
    problem: &Problem,
    source: &str,
    verifier: &mut Verifier,
    draws: &Draws,
) -> Result<Vec<Vec<u8>>, Failure> {
    let objects = compiler.layouts(language, problem, source, &PADDINGS)?;
    for object in &objects {
        verifier
            .verify_to(object, draws.random(), Thoroughness::OtherLayout)
            .map_err(in_other_layout)?;
    }
    Ok(objects)
}

/// Adds to a failure that it occurred in another layout. Without this, the failure would puzzle an engineer who saw the
/// program pass before.
fn in_other_layout(failure: Failure) -> Failure {
    match failure {
        Failure::Candidate { fault, detail } => Failure::candidate(
            fault,
            format!("in a second build, with its code in another layout: {detail}"),
        ),
        other => other,
    }
}
