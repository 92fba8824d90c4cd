//! Work that gave no result: what is tried again, and what is an outcome in the end. Pure.
//!
//! A program that a stage cannot digest must not take the role with it: a role
//! that fails hands back everything it holds, and one that fails often ends the
//! run. So only what concerns the role itself (the bus, its settings) is an
//! [`crate::Error`] of it; what concerns one program is a [`StageFailure`].

use flopsmith_bus::ErrorClass;
use flopsmith_protocol::{Failure, InfrastructureCause, UnknownCause, Verdict, ran_out};
use tokio::task::JoinError;

use crate::supervisor::words;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFailure {
    /// What is said of the program if it stays so.
    pub verdict: Verdict,
    /// May it go better another time?
    pub passing: bool,
    /// How soon another try makes sense.
    pub class: ErrorClass,
    /// Is it this node's way to the store, or the store as a whole? Then it says nothing of the program, whatever else goes well here:
    /// much needs no store.
    pub blames_node: bool,
}

impl StageFailure {
    /// This node cannot do it, whatever it is; another one may. That says nothing of the program, however often it happens.
    pub fn elsewhere(detail: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Infrastructure {
                cause: InfrastructureCause::Bus,
                detail: detail.into(),
            },
            passing: true,
            class: ErrorClass::Elsewhere,
            blames_node: true,
        }
    }

    /// Is it worth another try after this `attempt` of at most `attempts`?
    pub fn try_again(&self, attempt: u32, attempts: u32) -> bool {
        self.passing && (attempt < attempts || !self.class.counts())
    }
}

impl StageFailure {
    /// May a node say what becomes of the program, once it was tried often enough? `alone` is one that has its broker for itself: nobody else
    /// could. `vouched` says whether programs went well at the stage since this one failed first.
    pub fn decides(&self, alone: bool, vouched: bool) -> bool {
        // What fails here may fail nowhere else: one bad node must not decide for all.
        !self.concerns_the_stage() || alone || (vouched && !self.blames_node)
    }

    /// Is the stage to blame, or may it be? A program that cannot be looked at where the problem's reference can is nobody's fault,
    /// and the stage did what it could: so would any other node.
    pub fn concerns_the_stage(&self) -> bool {
        match &self.verdict {
            Verdict::Unknown { cause, .. } => *cause != Some(UnknownCause::Unchecked),
            Verdict::Infrastructure { .. } => true,
            Verdict::Measured { .. } | Verdict::Rejected { .. } => false,
        }
    }
}

impl From<Failure> for StageFailure {
    fn from(failure: Failure) -> Self {
        let (passing, class) = match &failure {
            Failure::Infrastructure {
                cause: InfrastructureCause::Resources,
                ..
            } => (true, ErrorClass::Resources),
            Failure::Infrastructure { .. } => (true, ErrorClass::Infrastructure),
            Failure::Candidate { .. } | Failure::Unknown { .. } => {
                (false, ErrorClass::Infrastructure)
            }
        };
        Self {
            passing,
            class,
            verdict: failure.into(),
            blames_node: false,
        }
    }
}

/// An artifact that cannot be read or written.
impl From<flopsmith_store::Error> for StageFailure {
    fn from(error: flopsmith_store::Error) -> Self {
        let class = match &error {
            // Whoever named it has stored it, in a place that may show it a moment later.
            flopsmith_store::Error::Missing { .. } => ErrorClass::NotReady,
            flopsmith_store::Error::Full { .. } => ErrorClass::Resources,
            other if ran_out(other) => ErrorClass::Resources,
            _ => ErrorClass::Infrastructure,
        };
        use flopsmith_store::Error as Refused;
        let blames_node = matches!(
            &error,
            Refused::Folder { .. }
                | Refused::Unreachable { .. }
                | Refused::NoBucket { .. }
                | Refused::Denied { .. }
                | Refused::Clock { .. }
                | Refused::Full { .. }
                | Refused::ReadOnly { .. }
        );
        Self {
            passing: true,
            class,
            blames_node,
            verdict: Verdict::Infrastructure {
                cause: InfrastructureCause::Store,
                detail: words(&error),
            },
        }
    }
}

/// A stage that panicked, so that it cannot be told whether the program or the stage is to blame; or one that never began,
/// because the node stops.
impl From<JoinError> for StageFailure {
    fn from(error: JoinError) -> Self {
        let (class, verdict) = match error.try_into_panic() {
            Ok(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let verdict = Verdict::Unknown {
                    cause: Some(UnknownCause::Panicked),
                    detail: format!("the stage panicked: {}", text.unwrap_or("without a word")),
                };
                (ErrorClass::Infrastructure, verdict)
            }
            Err(_) => {
                let verdict = Verdict::Infrastructure {
                    cause: InfrastructureCause::Shutdown,
                    detail: "the stage was cut off".into(),
                };
                (ErrorClass::Shutdown, verdict)
            }
        };
        Self {
            passing: true,
            class,
            blames_node: false,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::CandidateFault;

    #[test]
    fn what_is_the_programs_own_fault_is_not_tried_again() {
        let wrong = StageFailure::from(Failure::candidate(CandidateFault::WrongResult, "wrong"));
        assert!(!wrong.try_again(1, 3));
        let jail = Failure::infrastructure(InfrastructureCause::Jail, "no jail");
        let jail = StageFailure::from(jail);
        let tries: Vec<bool> = (1..=4).map(|n| jail.try_again(n, 3)).collect();
        assert_eq!(tries, [true, true, false, false]);
    }

    #[test]
    fn what_cannot_be_looked_at_says_nothing_of_the_node() {
        let unchecked = StageFailure::from(Failure::unknown(UnknownCause::Unchecked, "too large"));
        assert!(!unchecked.try_again(1, 3));
        assert!(
            unchecked.decides(false, false),
            "any other node would say it"
        );
        assert!(!unchecked.concerns_the_stage());
        let without_samples = StageFailure::from(Failure::unknown(UnknownCause::NoSamples, "none"));
        assert!(without_samples.concerns_the_stage());
        assert!(!without_samples.decides(false, false));
    }

    #[test]
    fn a_store_that_refuses_a_node_says_nothing_of_programs() {
        let place = || "s3://bucket/object".to_owned();
        let refused = StageFailure::from(flopsmith_store::Error::Clock { place: place() });
        let lost = flopsmith_store::Error::Missing { place: place() };
        let lost = StageFailure::from(lost);
        let wrong = StageFailure::from(Failure::candidate(CandidateFault::WrongResult, "wrong"));
        // Programs that do not compile go well without a store.
        assert!(!refused.decides(false, true));
        assert!(refused.decides(true, false), "nobody else could have it");
        assert!(lost.decides(false, true) && !lost.decides(false, false));
        assert!(wrong.decides(false, false));
    }

    #[test]
    fn what_belongs_elsewhere_is_never_decided_here() {
        let unfit = StageFailure::elsewhere("another version");
        assert!((1..100).all(|n| unfit.try_again(n, 3)));
    }

    #[test]
    fn what_ran_out_is_waited_for_longer_and_what_is_missing_less_long() {
        use flopsmith_store::Error as Store;
        const EMFILE: i32 = 24;
        const EIO: i32 = 5;
        let stage = |cause| StageFailure::from(Failure::infrastructure(cause, "no")).class;
        assert_eq!(stage(InfrastructureCause::Resources), ErrorClass::Resources);
        assert_eq!(stage(InfrastructureCause::Jail), ErrorClass::Infrastructure);
        let place = || "/data/x".to_owned();
        let folder = |os_error| Store::Folder {
            path: place(),
            source: std::io::Error::from_raw_os_error(os_error),
        };
        let full = Store::Full {
            place: place(),
            source: "no space".into(),
        };
        let store = |error: Store| StageFailure::from(error).class;
        assert_eq!(store(full), ErrorClass::Resources);
        assert_eq!(store(folder(EMFILE)), ErrorClass::Resources);
        assert_eq!(store(folder(EIO)), ErrorClass::Infrastructure);
        let missing = Store::Missing { place: place() };
        assert_eq!(store(missing), ErrorClass::NotReady);
    }

    #[tokio::test]
    async fn a_panic_leaves_its_words() {
        let died = tokio::task::spawn_blocking(|| assert_eq!(1 + 1, 3, "sums"));
        let stage_failure = StageFailure::from(died.await.expect_err("it panics"));
        assert!(stage_failure.passing);
        assert!(
            matches!(
                &stage_failure.verdict,
                Verdict::Unknown { cause: Some(UnknownCause::Panicked), detail } if detail.contains("sums")
            ),
            "{stage_failure:?}"
        );
    }

    #[tokio::test]
    async fn what_is_cut_off_because_the_node_stops_is_nobodys_failure() {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(std::future::pending::<()>());
        tasks.abort_all();
        let ended = tasks.join_next().await.expect("there is a task");
        let stage_failure = StageFailure::from(ended.expect_err("it was cut off"));
        assert_eq!(
            (stage_failure.passing, stage_failure.class),
            (true, ErrorClass::Shutdown)
        );
        assert_eq!(
            stage_failure.verdict.kind(),
            InfrastructureCause::Shutdown.name()
        );
    }
}
