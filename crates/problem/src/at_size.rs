//! A problem whose calls are timed at another size than its definition names.

use flopsmith_protocol::Digest;

use crate::timed::usual_name;
use crate::{Params, Problem, Workload};

impl Problem {
    /// The same problem, timed at `timed` only. A size of a workload selects the first workload of that size. At any
    /// other size the digest contains the size, so numbers of two sizes never pass for numbers of one problem.
    #[must_use]
    pub fn timed_at(&self, timed: Params) -> Self {
        let same = self.workloads.iter().find(|w| w.params == timed);
        if let Some(workload) = same {
            return self.with_those(|other| other.name == workload.name);
        }
        let mut content = format!("{} timed at", self.digest);
        for (name, size) in &timed {
            content.push_str(&format!(" {name}={size}"));
        }
        let workload = Workload {
            name: usual_name(&timed),
            params: timed.clone(),
            caches: self.caches,
        };
        Self {
            digest: Digest::of(content.as_bytes()),
            workloads: vec![workload],
            timed,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn each_size_has_a_digest_of_its_own_and_nothing_else_changes() {
        let problem = Problem::load(&shipped::at("dgemv")).expect("the shipped problem");
        let problem = problem.only_first();
        let at = |m: i64, n: i64| problem.timed_at([("m".into(), m), ("n".into(), n)].into());
        assert_eq!(at(768, 768), problem);
        let other = at(64, 128);
        assert_eq!(other.timed_size(), "m = 64, n = 128");
        assert_eq!(other.timed_at(problem.timed.clone()).timed, problem.timed);
        let restored = Problem {
            timed: problem.timed.clone(),
            workloads: problem.workloads.clone(),
            digest: problem.digest.clone(),
            ..other
        };
        assert_eq!(restored, problem);
        let digests = [at(768, 768), at(64, 128), at(128, 64), at(6, 4128)].map(|p| p.digest);
        assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
    }

    #[test]
    fn a_size_of_a_workload_selects_it_and_any_other_size_replaces_all_workloads() {
        let problem = Problem::load(&shipped::at("dgemm")).expect("the shipped problem");
        let at = |n: i64| problem.timed_at([("n".into(), n)].into());
        let selected = problem.select(&["n=512"]).expect("a workload");
        assert_eq!(at(512), selected);
        assert_eq!(at(512).timed_size(), "n = 512");
        let other = at(64);
        let names: Vec<&str> = other.workloads.iter().map(|w| w.name.as_str()).collect();
        assert_eq!(
            (names, other.timed_size()),
            (vec!["n=64"], "n = 64".to_owned())
        );
        assert_eq!(other.params_of_each(), std::slice::from_ref(&other.timed));
        let each: Vec<i64> = problem.params_of_each().iter().map(|p| p["n"]).collect();
        assert_eq!(each, [256, 512, 1024]);
        let digests = [
            problem.digest.clone(),
            at(64).digest,
            at(256).digest,
            at(512).digest,
        ];
        assert_eq!(digests.iter().collect::<BTreeSet<_>>().len(), digests.len());
    }
}
