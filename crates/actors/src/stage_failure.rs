//! Failures of a stage at one program: which are tried again, and which become an outcome. Pure.
//!
//! A program that a stage cannot process must not stop the role: a role that fails hands back everything it holds, and
//! a role that fails often ends the run. Therefore only a failure of the role itself (the bus, its settings) is a
//! [`crate::Error`]; a failure at one program is a [`StageFailure`].

use flopsmith_coordination::delivery::{ErrorClass, try_again};
use flopsmith_protocol::{Failure, InfrastructureCause, UnknownCause, Verdict, ran_out};
use tokio::task::JoinError;

use crate::supervisor::words;

/// Why a stage has no result for a program.
#[derive(Debug, Clone, PartialEq)]
pub struct StageFailure {
    /// The program's verdict if the failure is final.
    pub verdict: Verdict,
    /// True if another try may succeed.
    pub passing: bool,
    /// How soon another try makes sense.
    pub class: ErrorClass,
    /// True if the failure concerns this node's access to the store, or the store as a whole. Such a failure says
    /// nothing of the program, even if other programs go well here: much work needs no store.
    pub blames_node: bool,
    /// True if the node lacks a tool that its other programs do not need. Such a failure says nothing of the node either.
    pub lacks_tool: bool,
}

impl StageFailure {
    /// This node cannot do the work, for any reason; another node may. Such a failure says nothing of the program,
    /// however often it happens.
    pub fn other_node(detail: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Infrastructure {
                cause: InfrastructureCause::Bus,
                detail: detail.into(),
            },
            passing: true,
            class: ErrorClass::OtherNode,
            blames_node: true,
            lacks_tool: false,
        }
    }

    /// True if another try makes sense after this `attempt` of at most `attempts`.
    pub fn try_again(&self, attempt: u32, attempts: u32) -> bool {
        self.passing && try_again(self.class, attempt, attempts)
    }
}

impl StageFailure {
    /// True if a node may decide the program's outcome after its last try. `alone` is true if the node has its broker
    /// for itself, so that no other node could decide. `vouched` is true if programs went well at the stage since this
    /// one failed first.
    pub fn decides(&self, alone: bool, vouched: bool) -> bool {
        // A failure on this node may occur on no other node: one bad node must not decide for all.
        !self.concerns_the_stage() || alone || (vouched && !self.blames_node)
    }

    /// True if the stage is at fault or may be. If a program cannot be checked although the problem's reference can, or
    /// cannot be timed on machines of its class, neither the program nor the stage is at fault: every other node would
    /// find the same.
    pub fn concerns_the_stage(&self) -> bool {
        match &self.verdict {
            Verdict::Unknown { cause, .. } => {
                !matches!(cause, UnknownCause::Unchecked | UnknownCause::NotTimed)
            }
            Verdict::Infrastructure { .. } => true,
            Verdict::Measured { .. } | Verdict::Rejected { .. } => false,
        }
    }

    /// True if the stage did not do its work, and is not at fault: the program cannot be timed on machines of its class.
    /// Such a program says nothing of the stage, for good or ill.
    pub fn did_nothing(&self) -> bool {
        let Verdict::Unknown { cause, .. } = &self.verdict else {
            return false;
        };
        matches!(cause, UnknownCause::NotTimed)
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
            lacks_tool: false,
        }
    }
}

/// An artifact that cannot be read or written.
impl From<flopsmith_store::Error> for StageFailure {
    fn from(error: flopsmith_store::Error) -> Self {
        let class = match &error {
            // The sender of the message has stored the artifact; the store may show it a moment later.
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
            lacks_tool: false,
            verdict: Verdict::Infrastructure {
                cause: InfrastructureCause::Store,
                detail: words(&error),
            },
        }
    }
}

/// A stage that panicked, so that either the program or the stage may be at fault; or a stage that never began, because
/// the node stops.
impl From<JoinError> for StageFailure {
    fn from(error: JoinError) -> Self {
        let (class, verdict) = match error.try_into_panic() {
            Ok(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let verdict = Verdict::Unknown {
                    cause: UnknownCause::Panicked,
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
            lacks_tool: false,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::CandidateFault;

    #[test]
    fn candidate_faults_are_not_tried_again() {
        let wrong = StageFailure::from(Failure::candidate(CandidateFault::WrongResult, "wrong"));
        assert!(!wrong.try_again(1, 3));
        let jail = Failure::infrastructure(InfrastructureCause::Jail, "no jail");
        let jail = StageFailure::from(jail);
        let tries: Vec<bool> = (1..=4).map(|n| jail.try_again(n, 3)).collect();
        assert_eq!(tries, [true, true, false, false]);
    }

    #[test]
    fn unchecked_and_untimed_programs_do_not_count_against_the_node() {
        for cause in [UnknownCause::Unchecked, UnknownCause::NotTimed] {
            let undecided = StageFailure::from(Failure::unknown(cause, "too large"));
            assert!(!undecided.try_again(1, 3));
            assert!(
                undecided.decides(false, false),
                "any other node would say it"
            );
            assert!(!undecided.concerns_the_stage());
            assert_eq!(undecided.did_nothing(), cause == UnknownCause::NotTimed);
        }
        let without_samples = StageFailure::from(Failure::unknown(UnknownCause::NoSamples, "none"));
        assert!(without_samples.concerns_the_stage() && !without_samples.did_nothing());
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
    fn work_for_another_node_is_always_handed_on() {
        let unfit = StageFailure::other_node("another version");
        assert!((1..100).all(|n| unfit.try_again(n, 3)));
    }

    #[test]
    fn exhausted_resources_are_waited_for_longer_than_missing_ones() {
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
                Verdict::Unknown { cause: UnknownCause::Panicked, detail } if detail.contains("sums")
            ),
            "{stage_failure:?}"
        );
    }

    #[tokio::test]
    async fn work_cancelled_by_a_stopping_node_is_no_failure() {
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
