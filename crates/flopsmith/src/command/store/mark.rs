//! Finds the artifacts that something refers to.
//!
//! Every string that looks like a digest counts as a reference, in messages of any kind and version: keeping too many
//! artifacts costs space, but a removed artifact cannot be made again.

use std::collections::HashSet;

use flopsmith_protocol::Digest;

/// Letters of a digest.
const LETTERS: usize = 64;

/// Digests that were found.
#[derive(Debug, Default)]
pub struct Marks(HashSet<[u8; LETTERS]>);

impl Marks {
    /// Notes every digest in some bytes.
    pub fn note(&mut self, bytes: &[u8]) {
        let hexadecimal = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        for run in bytes.split(|byte| !hexadecimal(byte)) {
            for window in run.windows(LETTERS) {
                if let Ok(digest) = window.try_into() {
                    self.0.insert(digest);
                }
            }
        }
    }

    /// True if the digest was found.
    pub fn has(&self, digest: &Digest) -> bool {
        <[u8; LETTERS]>::try_from(digest.as_str().as_bytes()).is_ok_and(|d| self.0.contains(&d))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use flopsmith_protocol::{ArtifactRef, Compiled, TechniqueSet, encode};
    use flopsmith_test_support::candidate;

    use super::*;

    #[test]
    fn a_digest_is_found_in_messages_and_in_records_and_beside_others() {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let compiled = Compiled {
            candidate: candidate(0, 0, 0),
            source: "x".into(),
            object: ArtifactRef {
                digest: digest("object"),
                size: 6,
            },
            techniques: TechniqueSet::EMPTY,
            vector_bits: None,
            toolchain: digest("toolchain"),
            key: None,
            compile_seconds: 0.0,
        };
        let mut marks = Marks::default();
        marks.note(&encode(&compiled).unwrap());
        marks.note(format!("{{\"samples\":\"{}\"}}", digest("samples")).as_bytes());
        marks.note(format!("{}{}", digest("a"), digest("b")).as_bytes());
        for seen in ["object", "toolchain", "samples", "a", "b"] {
            assert!(marks.has(&digest(seen)), "{seen}");
        }
        assert!(!marks.has(&digest("other")));
    }
}
