//! The pragmas of a preprocessed source.

use flopsmith_protocol::CandidateFault;

use super::token::tokens;
use super::{UserText, refused};
use crate::failure::Failure;

/// A pragma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pragma {
    /// Its line in the source.
    pub line: u32,
    /// Its words and signs, without `#pragma`.
    pub words: Vec<String>,
}

impl Pragma {
    /// Does it begin with these words?
    pub fn starts_with(&self, words: &[&str]) -> bool {
        self.words.len() >= words.len() && self.words.iter().zip(words).all(|(a, b)| a == b)
    }
}

/// Takes the pragmas out of the text (their lines become blank) and refuses those that are not known to be harmless.
///
/// Which of the harmless ones are *permitted* depends on the techniques of the task and is judged there.
pub(crate) fn split(user: &UserText) -> Result<(UserText, Vec<Pragma>), Failure> {
    let mut rest = UserText {
        text: String::with_capacity(user.text.len()),
        lines: user.lines.clone(),
    };
    let mut pragmas = Vec::new();
    for (row, line) in user.text.lines().enumerate() {
        if let Some(text) = line.trim_start().strip_prefix("#pragma") {
            let words: Vec<String> = tokens(text).iter().map(|t| t.text.to_owned()).collect();
            let pragma = Pragma {
                line: user.source_line(row),
                words,
            };
            if !is_known(&pragma) {
                let what = format!("`#pragma {}` is not permitted", text.trim());
                return Err(refused(
                    CandidateFault::ForbiddenConstruct,
                    pragma.line,
                    what,
                ));
            }
            pragmas.push(pragma);
        } else {
            rest.text.push_str(line);
        }
        rest.text.push('\n');
    }
    Ok((rest, pragmas))
}

fn is_known(pragma: &Pragma) -> bool {
    let Some(first) = pragma.words.first() else {
        return true;
    };
    match first.as_str() {
        "GCC" => matches!(
            pragma.words.get(1).map(String::as_str),
            Some("unroll" | "ivdep" | "diagnostic")
        ),
        // Offloading belongs to no CPU kernel, and `threadprivate` and `declare` reach beyond a call.
        "omp" => !pragma.words.iter().any(|w| {
            matches!(
                w.as_str(),
                "target" | "threadprivate" | "requires" | "allocate" | "interop"
            )
        }),
        // What gives all functions an attribute, or a section, says more than a hint.
        "clang" => !matches!(
            pragma.words.get(1).map(String::as_str),
            Some("attribute" | "section")
        ),
        // Hints of other compilers, which mean nothing here.
        "unroll" | "nounroll" | "ivdep" | "vector" | "simd" | "loop" | "once" | "region"
        | "endregion" | "mark" => true,
        _ => false,
    }
}
