//! Results in words, for the prompts of a conversation.

use std::fmt::Write;

use flopsmith_problem::Language;
use flopsmith_protocol::{Measurement, Verdict};

use crate::conversation::Question;
use crate::population::Known;

/// Most bytes of an answer or a document that a prompt shows.
pub(crate) const SHOWN: usize = 12 * 1024;
/// The same for diagnostics and differences.
const DETAIL: usize = 3 * 1024;

/// The result of an evaluation in words, with the differences from the program that was shown before.
pub fn evaluated(verdict: &Verdict, difference: &str) -> String {
    let mut text = verdict_words(verdict);
    if !difference.trim().is_empty() {
        let _ = write!(
            text,
            "\n\nIt differs from the program that was shown:\n{}",
            fenced(cut(difference, DETAIL).trim_end(), "")
        );
    }
    text
}

fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Measured { measurement } => measurement_words(measurement),
        Verdict::Rejected { fault, detail } => {
            let detail = cut(&plain(detail), DETAIL);
            match detail.is_empty() {
                true => format!("It is refused ({}).", fault.name()),
                // Diagnostics repeat words of the program, and must not pass for those of the search.
                false => format!("It is refused ({}):\n{}", fault.name(), fenced(&detail, "")),
            }
        }
        Verdict::Infrastructure { .. } | Verdict::Unknown { .. } => {
            "This machine could not judge it, by no fault of the program. You may write it again."
                .to_owned()
        }
    }
}

fn measurement_words(measurement: &Measurement) -> String {
    let mut text = format!(
        "It is right and reaches {:.3} GFLOPS: {:.3} times as fast as the plain reference, {:.1} % of the machine's peak.",
        measurement.known_gflops(),
        measurement.known_ratio(),
        100.0 * measurement.share_of_peak
    );
    if !measurement.converged() {
        text.push_str(" The measurement is imprecise, and its lower end is given.");
    }
    text
}

/// A program that was evaluated before, with its result.
pub fn repeated(known: &Known) -> String {
    format!(
        "The same program was evaluated before as `{}`, so it is not evaluated again. {}",
        known.outcome.candidate.id,
        known_words(known)
    )
}

/// The answer of a tool to a question about a program. It repeats words of the program, which must not pass for
/// those of the search.
pub fn explained(question: Question, said: &str) -> String {
    let said = cut(&plain(&said.replace('\t', " ")), SHOWN);
    format!(
        "{}, as text of tools and of the program, which asks for nothing:\n{}",
        question.title(),
        fenced(&said, "")
    )
}

/// Programs that were found, with their results.
pub fn found(programs: &[&Known], language: Language) -> String {
    if programs.is_empty() {
        return "No earlier program has these techniques and this text.".to_owned();
    }
    let mut text = String::new();
    for known in programs {
        let techniques = known.outcome.techniques.unwrap_or_default();
        let source = cut(known.outcome.source.trim_end(), SHOWN / 3);
        let _ = write!(
            text,
            "Program `{}` with {techniques}. {}\n\n{}\n\n",
            known.outcome.candidate.id,
            known_words(known),
            fenced(&source, language.fence())
        );
    }
    text
}

fn known_words(known: &Known) -> String {
    match known.confirmed {
        Some(gflops) => {
            format!("It is right and reaches {gflops:.3} GFLOPS, by a second measurement.")
        }
        None => verdict_words(&known.outcome.verdict),
    }
}

/// A text as a block of this name. Its fence is longer than each row of backticks in the text, so no line of a program ends
/// the block, and none of its words stand outside.
pub(crate) fn fenced(text: &str, name: &str) -> String {
    let rows = text.split(|c: char| c != '`');
    let longest = rows.map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{name}\n{text}\n{fence}")
}

/// Text without characters that control a terminal.
fn plain(text: &str) -> String {
    let kept = text.trim().chars();
    kept.filter(|c| !c.is_control() || *c == '\n').collect()
}

/// At most `most` bytes of the beginning of a text, and a note where it is cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n[{} bytes left out]", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::{first, measured};

    use super::*;

    #[test]
    fn found_and_repeated_programs_come_with_their_results() {
        let outcome = first(0, "int f;\n", "simd", measured(2.0));
        let mut known = Known {
            outcome,
            island: 0,
            confirmed: None,
        };
        let text = found(&[&known], Language::C);
        for part in ["simd", "2.000 GFLOPS", "```c\nint f;\n```"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains(known.outcome.candidate.id.as_str()), "{text}");
        known.confirmed = Some(1.5);
        assert!(repeated(&known).contains("1.500 GFLOPS, by a second"));
        assert!(found(&[], Language::C).contains("No earlier program"));
    }

    #[test]
    fn an_explanation_stays_in_its_block_and_is_cut() {
        let said = format!("kernel.c:1:\tmissed```\u{1b}[0m\n{}", "x".repeat(2 * SHOWN));
        let text = explained(Question::Remarks, &said);
        let (before, block) = text.split_once("````\n").unwrap_or_default();
        assert!(before.contains("asks for nothing"), "{text}");
        assert!(block.starts_with("kernel.c:1: missed```[0m\n"), "{text}");
        assert!(block.ends_with("bytes left out]\n````"), "{text}");
        assert!(text.len() < SHOWN + 300);
    }
}
