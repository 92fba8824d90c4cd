//! How answers end before their length limit: by an end token, at a stop string, or because they repeat a passage.

use std::sync::Arc;

use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// An end token was drawn.
    Token,
    /// The answer contains a stop string.
    Stop,
    /// The answer repeated a passage too often.
    Repetition,
    /// The answer reached its length limit.
    Length,
}

/// Strings that end an answer that contains one of them.
#[derive(Debug, Clone)]
pub struct Stops {
    tokenizer: Arc<Tokenizer>,
    strings: Vec<String>,
    /// Number of last tokens of an answer that surely hold the whole of a string that the last token completed.
    tail: usize,
}

impl PartialEq for Stops {
    fn eq(&self, other: &Self) -> bool {
        self.strings == other.strings
    }
}

impl Stops {
    /// Ends answers at any of `strings`. Empty ones are left out: every answer contains them.
    pub fn new(tokenizer: Arc<Tokenizer>, strings: impl IntoIterator<Item = String>) -> Self {
        let mut strings: Vec<String> = strings.into_iter().collect();
        strings.retain(|s| !s.is_empty());
        let longest = strings.iter().map(String::len).max().unwrap_or_default();
        Stops {
            tokenizer,
            strings,
            // A token writes at least one byte, unless it only begins a character; no character has more than four
            // bytes.
            tail: longest + 4,
        }
    }

    /// True if the last of `tokens` completed one of the strings. Called after each token.
    pub(crate) fn completed(&self, tokens: &[u32]) -> Result<bool> {
        if self.strings.is_empty() {
            return Ok(false);
        }
        let tail = &tokens[tokens.len().saturating_sub(self.tail)..];
        let text = self.tokenizer.decode_with_specials(tail)?;
        Ok(self.strings.iter().any(|s| text.contains(s.as_str())))
    }

    /// The part of a growing text that no later text can remove: it ends before the first stop string, and before a
    /// suffix that may begin one.
    pub fn certain<'a>(&self, text: &'a str) -> &'a str {
        let text = self.cut(text);
        let begins = |s: &String| {
            let longest = s.len().saturating_sub(1).min(text.len());
            (1..=longest)
                .rev()
                .find(|n| s.is_char_boundary(*n) && text.ends_with(&s[..*n]))
        };
        let open = self.strings.iter().filter_map(begins).max();
        &text[..text.len() - open.unwrap_or_default()]
    }

    /// The text before the first stop string in it.
    pub fn cut<'a>(&self, text: &'a str) -> &'a str {
        let first = self.strings.iter().filter_map(|s| text.find(s.as_str()));
        first.min().map_or(text, |end| &text[..end])
    }
}

/// Longest passage, in tokens, whose repetition is detected.
const LONGEST: usize = 128;
/// Shorter repetitions, in tokens overall, do not count: code may rightly hold a row of blanks or zeros.
const LEAST: usize = 48;

/// Counts, for each length up to [`LONGEST`], how many of the last tokens repeat the passage of that length before
/// them.
#[derive(Debug, Clone)]
pub(crate) struct Circles {
    /// At index p − 1: how many of the last tokens equal the tokens p places before them.
    equal: Vec<u32>,
    times: usize,
}

impl Circles {
    /// Detects passages that occur at least `times` times in a row; `None` if `times` is below 2.
    pub fn new(times: u32) -> Option<Self> {
        (times >= 2).then(|| Circles {
            equal: vec![0; LONGEST],
            times: times as usize,
        })
    }

    /// True if the last of `tokens` completes a repetition. Called after each token.
    pub fn closed(&mut self, tokens: &[u32]) -> bool {
        let Some((last, before)) = tokens.split_last() else {
            return false;
        };
        let mut closed = false;
        for (equal, (p, earlier)) in self.equal.iter_mut().zip((1..).zip(before.iter().rev())) {
            *equal = if earlier == last { *equal + 1 } else { 0 };
            let whole = *equal as usize + p;
            closed |= *equal > 0 && whole >= p * self.times && whole >= LEAST;
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same rule without optimizations.
    fn oracle(tokens: &[u32], times: usize) -> bool {
        (1..=LONGEST).any(|p| {
            let whole = (p * times).max(LEAST);
            tokens.len() >= whole.max(p + 1) && {
                let end = &tokens[tokens.len() - whole..];
                end.iter()
                    .zip(&end[p.min(end.len())..])
                    .all(|(a, b)| a == b)
                    && whole > p
            }
        })
    }

    proptest! {
        #[test]
        fn circles_are_found_with_the_token_that_closes_them(
            before in proptest::collection::vec(0u32..4, 0..30),
            passage in proptest::collection::vec(0u32..4, 1..40),
            rounds in 1usize..12,
            times in 2u32..6,
        ) {
            let mut tokens = before;
            for _ in 0..rounds {
                tokens.extend(&passage);
            }
            let mut circles = Circles::new(times).expect("at least two");
            for end in 1..=tokens.len() {
                let found = circles.closed(&tokens[..end]);
                prop_assert_eq!(found, oracle(&tokens[..end], times as usize), "{}", end);
            }
        }
    }

    #[test]
    fn short_rows_are_honest_and_nothing_is_looked_for_unasked() {
        assert!(Circles::new(0).is_none() && Circles::new(1).is_none());
        let mut circles = Circles::new(3).expect("at least two");
        let blanks = [7; LEAST];
        let first = (1..=blanks.len()).find(|end| circles.closed(&blanks[..*end]));
        assert_eq!(first, Some(LEAST));
    }
}
