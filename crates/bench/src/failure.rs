//! How a stage ends when it does not succeed: whose fault it was.

use flopsmith_protocol::{CandidateFault, InfrastructureCause, Verdict};

/// Most bytes of a detail.
const DETAIL_BYTES: usize = 4096;

/// A stage's failure. `detail` is for people and models, is at most a few kilobytes long, and is [`harmless`] where it was
/// made by [`Failure::candidate`] and [`Failure::infrastructure`].
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The candidate's own fault.
    #[error("{fault}: {detail}")]
    Candidate {
        /// What it did.
        fault: CandidateFault,
        /// Diagnostics.
        detail: String,
    },
    /// Nothing the candidate can cause.
    #[error("{cause} failed: {detail}")]
    Infrastructure {
        /// What failed.
        cause: InfrastructureCause,
        /// Diagnostics.
        detail: String,
    },
    /// It cannot be told.
    #[error("undecided: {detail}")]
    Unknown {
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
}

/// Text that a program or its source may have had a say in, so that it can be shown to people and models: at most `bytes`
/// long, and nothing in it that a terminal obeys, that is not seen, or that changes the order in which text is read. Lines
/// and tabs stay.
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
        // Spaces without width, directions, separators of lines, marks of byte order, tags.
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
            Failure::Unknown { detail } => Verdict::Unknown { detail },
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
    fn what_a_terminal_would_obey_is_gone() {
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
}
