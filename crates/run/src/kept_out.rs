//! Problems that a training must not learn from: held-out ones, and others that have their nests.

use flopsmith_actors::stream;
use flopsmith_problem::Problem;
use flopsmith_protocol::ProblemId;

use crate::console::say;

/// How a problem is like a held-out one whose nest it has.
pub const SAME_NEST: &str =
    "whose loop nest differs from it only by names, sizes, precision or constants";

/// Held-out problems with the forms of their nests ([`stream::form`]). A model that learns a nest has learned it in every
/// precision and at every size.
pub struct KeptOut(Vec<(ProblemId, Option<String>)>);

impl KeptOut {
    /// These problems.
    pub fn of<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Self {
        let each = problems.into_iter();
        Self(each.map(|p| (p.id.clone(), stream::form(p))).collect())
    }

    /// The held-out problem for which a training must not have `problem`: the same one, or else one with its nest.
    pub fn find(&self, problem: &Problem) -> Option<&ProblemId> {
        if self.0.is_empty() {
            return None;
        }
        let same = self.0.iter().find(|(id, _)| *id == problem.id);
        let alike = || {
            let form = stream::form(problem)?;
            self.0.iter().find(|(_, of)| of.as_ref() == Some(&form))
        };
        same.or_else(alike).map(|(id, _)| id)
    }

    /// True if a suite has to do without `problem`. The user is told where `hold_out` does not name the problem itself.
    pub fn leaves_out(&self, problem: &Problem) -> bool {
        let found = self.find(problem);
        if let Some(other) = found
            && *other != problem.id
        {
            say(&format!(
                "note: {other} is held out, so the suite is left without {}, {SAME_NEST}",
                problem.id
            ));
        }
        found.is_some()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use flopsmith_test_support::shipped;

    use super::*;

    #[test]
    fn a_nest_is_kept_out_under_every_name_and_in_every_precision() {
        let of = |name: &str| Problem::load(&shipped::at(name)).unwrap();
        let held_out = [of("sgemm"), of("sort64")];
        let kept_out = KeptOut::of(&held_out);
        let found = |name: &str| kept_out.find(&of(name)).map(|id| id.as_str().to_owned());
        assert_eq!(found("dgemm").as_deref(), Some("sgemm"));
        assert_eq!(found("sgemm").as_deref(), Some("sgemm"));
        // A sorting network is no loop nest, and two problems without a nest are not alike.
        assert_eq!(found("sort64").as_deref(), Some("sort64"));
        for other in ["dgemv", "dsyrk", "histogram"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert!(kept_out.leaves_out(&of("dgemm")) && !kept_out.leaves_out(&of("dot")));
        assert_eq!(KeptOut::of([]).find(&of("dgemm")), None);
    }

    #[test]
    fn no_example_trains_on_a_held_out_nest() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        for name in ["many-problems", "train-suite"] {
            let example = examples.join(name).with_extension("toml");
            let mut settings = flopsmith_config::load(&example, &[]).unwrap();
            assert!(!settings.hold_out.is_empty(), "{name}");
            crate::paths::settle(&mut settings).expect(name);
        }
    }
}
