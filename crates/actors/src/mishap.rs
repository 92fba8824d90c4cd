//! Work that gave no result: what is tried again, and what is an outcome in the end. Pure.
//!
//! A program that a stage cannot digest must not take the role with it: a role
//! that fails hands back everything it holds, and one that fails often ends the
//! run. So only what concerns the role itself (the bus, its settings) is an
//! [`crate::Error`] of it; what concerns one program is a [`Mishap`].

use flopsmith_bench::Failure;
use flopsmith_protocol::{InfrastructureCause, Verdict};
use tokio::task::JoinError;

use crate::supervisor::words;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq)]
pub struct Mishap {
    /// What is said of the program if it stays so.
    pub verdict: Verdict,
    /// May it go better another time?
    pub passing: bool,
}

impl Mishap {
    /// Is it worth another try after this `attempt` of at most `attempts`?
    pub fn try_again(&self, attempt: u32, attempts: u32) -> bool {
        self.passing && attempt < attempts
    }
}

impl From<Failure> for Mishap {
    fn from(failure: Failure) -> Self {
        Self {
            passing: matches!(failure, Failure::Infrastructure { .. }),
            verdict: failure.into(),
        }
    }
}

/// An artifact that cannot be read or written.
impl From<flopsmith_store::Error> for Mishap {
    fn from(error: flopsmith_store::Error) -> Self {
        Self {
            passing: true,
            verdict: Verdict::Infrastructure {
                cause: InfrastructureCause::Store,
                detail: words(&error),
            },
        }
    }
}

/// A stage that panicked. Whether the program or the stage is to blame cannot be told.
impl From<JoinError> for Mishap {
    fn from(error: JoinError) -> Self {
        let detail = match error.try_into_panic() {
            Ok(panic) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .copied()
                    .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                format!("the stage panicked: {}", text.unwrap_or("without a word"))
            }
            Err(_) => "the stage was cut off".to_owned(),
        };
        Self {
            passing: true,
            verdict: Verdict::Unknown { detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flopsmith_protocol::CandidateFault;

    #[test]
    fn what_is_the_programs_own_fault_is_not_tried_again() {
        let wrong = Mishap::from(Failure::candidate(CandidateFault::WrongResult, "wrong"));
        assert!(!wrong.try_again(1, 3));
        let jail = Failure::infrastructure(InfrastructureCause::Jail, "no jail");
        let jail = Mishap::from(jail);
        let tries: Vec<bool> = (1..=4).map(|n| jail.try_again(n, 3)).collect();
        assert_eq!(tries, [true, true, false, false]);
    }

    #[tokio::test]
    async fn a_panic_leaves_its_words() {
        let died = tokio::task::spawn_blocking(|| assert_eq!(1 + 1, 3, "sums"));
        let mishap = Mishap::from(died.await.expect_err("it panics"));
        assert!(mishap.passing);
        assert!(
            matches!(&mishap.verdict, Verdict::Unknown { detail } if detail.contains("sums")),
            "{mishap:?}"
        );
    }
}
