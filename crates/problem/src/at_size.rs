//! A problem whose calls are timed at another size than its definition names.

use flopsmith_protocol::Digest;

use crate::{Params, Problem};

impl Problem {
    /// The same problem, timed at `timed`. Its digest contains the size, so numbers of two sizes never pass for numbers
    /// of one problem; at the size of the definition the digest stays.
    #[must_use]
    pub fn timed_at(&self, timed: Params) -> Self {
        if timed == self.timed {
            return self.clone();
        }
        let mut content = format!("{} timed at", self.digest);
        for (name, size) in &timed {
            content.push_str(&format!(" {name}={size}"));
        }
        Self {
            digest: Digest::of(content.as_bytes()),
            timed,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn each_size_has_a_digest_of_its_own_and_nothing_else_changes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/dgemv");
        let problem = Problem::load(&root).expect("the shipped problem");
        let at = |m: i64, n: i64| problem.timed_at([("m".into(), m), ("n".into(), n)].into());
        assert_eq!(at(768, 768), problem);
        let other = at(64, 128);
        assert_eq!(other.timed_size(), "m = 64, n = 128");
        assert_eq!(other.timed_at(problem.timed.clone()).timed, problem.timed);
        let restored = Problem {
            timed: problem.timed.clone(),
            digest: problem.digest.clone(),
            ..other
        };
        assert_eq!(restored, problem);
        let digests = [at(768, 768), at(64, 128), at(128, 64), at(6, 4128)].map(|p| p.digest);
        assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
    }
}
