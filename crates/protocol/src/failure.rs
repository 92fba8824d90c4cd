//! The failure of a stage, with the party at fault.

use std::error::Error;
use std::io;

use crate::{CandidateFault, InfrastructureCause, UnknownCause, Verdict};

/// Largest size of a detail, in bytes.
const DETAIL_BYTES: usize = 4096;

/// A stage's failure. `detail` is for people and models and has at most a few kilobytes. [`Failure::candidate`],
/// [`Failure::infrastructure`] and [`Failure::unknown`] make it [`harmless`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The candidate's own fault.
    #[error("{fault}: {detail}")]
    Candidate {
        /// The fault.
        fault: CandidateFault,
        /// Diagnostics.
        detail: String,
    },
    /// A failure that no candidate can cause.
    #[error("{cause} failed: {detail}")]
    Infrastructure {
        /// The part that failed.
        cause: InfrastructureCause,
        /// Diagnostics.
        detail: String,
    },
    /// The stage cannot tell whether the candidate or the infrastructure is at fault.
    #[error("undecided ({cause}): {detail}")]
    Unknown {
        /// Why not.
        cause: UnknownCause,
        /// Diagnostics.
        detail: String,
    },
}

impl Failure {
    /// The candidate's fault.
    pub fn candidate(fault: CandidateFault, detail: impl Into<String>) -> Self {
        Failure::Candidate {
            fault,
            detail: harmless(&detail.into(), DETAIL_BYTES),
        }
    }

    /// An infrastructure failure.
    pub fn infrastructure(cause: InfrastructureCause, detail: impl Into<String>) -> Self {
        Failure::Infrastructure {
            cause,
            detail: harmless(&detail.into(), DETAIL_BYTES),
        }
    }

    /// A failure that may be the candidate's fault or the infrastructure's.
    pub fn unknown(cause: UnknownCause, detail: impl Into<String>) -> Self {
        Failure::Unknown {
            cause,
            detail: harmless(&detail.into(), DETAIL_BYTES),
        }
    }

    /// An infrastructure failure with the message of `error` and of its causes. If the machine ran out of a resource,
    /// that is the cause.
    pub fn ours(cause: InfrastructureCause, error: &(dyn Error + 'static)) -> Self {
        let cause = if ran_out(error) {
            InfrastructureCause::Resources
        } else {
            cause
        };
        let mut detail = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            detail.push_str(": ");
            detail.push_str(&cause.to_string());
            next = cause.source();
        }
        Failure::infrastructure(cause, detail)
    }
}

/// True if the system ran out of space, memory or file handles. The system's own error may be anywhere in the chain of
/// causes.
pub fn ran_out(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<io::Error>()
            && is_exhaustion(io)
        {
            return true;
        }
        next = e.source();
    }
    false
}

fn is_exhaustion(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    // The library has no error kind for exhausted file handles.
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
        || matches!(
            error.kind(),
            K::StorageFull | K::QuotaExceeded | K::OutOfMemory
        )
}

/// Text under the influence of a program or its source, made safe to show to people and models. It has at most `bytes`
/// bytes and no control characters of terminals, no invisible characters, and none that change the reading order. Line
/// ends and tabs stay.
pub fn harmless(text: &str, bytes: usize) -> String {
    let text = text.replace("\r\n", "\n");
    let mut clean = String::with_capacity(text.len().min(bytes));
    for c in text.chars() {
        let c = if is_seen(c) {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        };
        if clean.len() + c.len_utf8() > bytes {
            clean.push('…');
            break;
        }
        clean.push(c);
    }
    clean
}

fn is_seen(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Spaces without width, marks of direction, separators of lines, byte-order marks, tags.
        '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => false,
        c => !c.is_control(),
    }
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Candidate { fault, detail } => Verdict::Rejected { fault, detail },
            Failure::Infrastructure { cause, detail } => Verdict::Infrastructure { cause, detail },
            Failure::Unknown { cause, detail } => Verdict::Unknown { cause, detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn detail(text: &str) -> String {
        let verdict: Verdict = Failure::candidate(CandidateFault::Crash, text).into();
        match verdict {
            Verdict::Rejected { detail, .. } => detail,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn undecided_verdicts_keep_their_cause() {
        for cause in UnknownCause::ALL {
            let failure = Failure::unknown(*cause, "no word");
            assert_eq!(failure.to_string(), format!("undecided ({cause}): no word"));
            let expected = Verdict::Unknown {
                cause: *cause,
                detail: "no word".into(),
            };
            assert_eq!(Verdict::from(failure), expected);
        }
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(
            detail("\u{1b}]0;title\u{7}\u{1b}[2Jgone\r\u{8}\u{9b}31m"),
            "\u{fffd}]0;title\u{fffd}\u{fffd}[2Jgone\u{fffd}\u{fffd}\u{fffd}31m"
        );
        assert_eq!(
            detail("a\u{202e}b\u{200b}c\u{e0041}"),
            "a\u{fffd}b\u{fffd}c\u{fffd}"
        );
    }

    #[test]
    fn words_of_the_compiler_stay_as_they_are() {
        let said = "candidate.c:3:9: error: expected ‘;’ before ‘größe’\r\n\t3 | int größe\n";
        assert_eq!(detail(said), said.replace('\r', ""));
    }

    #[test]
    fn megabytes_are_cut() {
        let found = detail(&"é".repeat(1 << 20));
        assert!(found.len() <= DETAIL_BYTES + 3 && found.ends_with("é…"));
    }

    proptest! {
        #[test]
        fn cleaning_never_fails_and_is_enough(text in prop::collection::vec(any::<char>(), 0..80), bytes in 0usize..100) {
            let clean = harmless(&text.into_iter().collect::<String>(), bytes);
            prop_assert!(clean.len() <= bytes + 3);
            prop_assert!(clean.chars().all(is_seen));
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("could not make the jail's root")]
    struct Layer(#[source] io::Error);

    fn failed(os_error: i32) -> Failure {
        let layer = Layer(io::Error::from_raw_os_error(os_error));
        Failure::ours(InfrastructureCause::Jail, &layer)
    }

    #[test]
    fn exhausted_resources_are_told_apart_from_broken_ones() {
        let exhausted = [
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
        ];
        for code in exhausted {
            let Failure::Infrastructure { cause, detail } = failed(code) else {
                unreachable!("no program can cause it");
            };
            assert_eq!(cause, InfrastructureCause::Resources, "{detail}");
            assert!(
                detail.starts_with("could not make the jail's root: "),
                "{detail}"
            );
        }
        for code in [libc::EPERM, libc::EIO, libc::ENOENT] {
            assert!(matches!(
                failed(code),
                Failure::Infrastructure {
                    cause: InfrastructureCause::Jail,
                    ..
                }
            ));
        }
    }
}
