//! Programs with their code at other places, for certified numbers.
//!
//! A program can see where its code lies. So what is certified is what was audited and verified at each of the places, not what was
//! somewhere else: else it could be right where it is verified and fast where it is certified.

use std::sync::{Arc, Mutex, PoisonError};

use flopsmith_compile::Compiler;
use flopsmith_measure::{PADDINGS, Thoroughness, Verifier};
use flopsmith_problem::{Language, Problem};
use flopsmith_protocol::Failure;

use crate::random;

/// Builds programs with their code at other places and verifies them there.
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
    pub fn of(&self, problem: &Problem, source: &str) -> Result<Vec<Vec<u8>>, Failure> {
        // After a panic it begins anew with every program.
        let mut verifier = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        verified(
            &self.compiler,
            problem.language,
            problem,
            source,
            &mut verifier,
        )
    }
}

/// Objects of a source that was compiled before, each of which is right.
///
/// # Errors
/// As [`Compiler::layouts`], and those of a verification.
pub fn verified(
    compiler: &Compiler,
    language: Language,
    problem: &Problem,
    source: &str,
    verifier: &mut Verifier,
) -> Result<Vec<Vec<u8>>, Failure> {
    let objects = compiler.layouts(language, problem, source, &PADDINGS)?;
    for object in &objects {
        verifier
            .verify_to(object, random(), Thoroughness::Elsewhere)
            .map_err(elsewhere)?;
    }
    Ok(objects)
}

/// What is wrong at this place only would puzzle whoever has seen the program being right.
fn elsewhere(failure: Failure) -> Failure {
    match failure {
        Failure::Candidate { fault, detail } => Failure::candidate(
            fault,
            format!("built once more, with its code at another place: {detail}"),
        ),
        other => other,
    }
}
