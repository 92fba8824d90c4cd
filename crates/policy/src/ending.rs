//! How answers end before their longest: by an end token, at a stop string, or because they go round in circles.

use std::sync::Arc;

use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// An end token was drawn.
    Token,
    /// A stop string was written.
    Stop,
    /// It said the same again and again.
    Repetition,
    /// It is as long as it may be.
    Length,
}

/// Strings that end an answer once it contains one of them.
#[derive(Debug, Clone)]
pub struct Stops {
    tokenizer: Arc<Tokenizer>,
    strings: Vec<String>,
    /// So many tokens at the end of an answer can hold the whole of a string that the last one has completed.
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
            // A token writes at least one byte, unless it only begins a character; no character has more than four.
            tail: longest + 4,
        }
    }

    /// Has the last of `tokens` completed one? Asked after each token.
    pub(crate) fn completed(&self, tokens: &[u32]) -> Result<bool> {
        if self.strings.is_empty() {
            return Ok(false);
        }
        let tail = &tokens[tokens.len().saturating_sub(self.tail)..];
        let text = self.tokenizer.decode_with_specials(tail)?;
        Ok(self.strings.iter().any(|s| text.contains(s.as_str())))
    }

    /// The beginning of a text that grows which will be kept whatever follows: without the first string, and without what one may begin with.
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

    /// What stands before the first of them.
    pub fn cut<'a>(&self, text: &'a str) -> &'a str {
        let first = self.strings.iter().filter_map(|s| text.find(s.as_str()));
        first.min().map_or(text, |end| &text[..end])
    }
}

/// Passages of at most so many tokens are looked for.
const LONGEST: usize = 128;
/// Less than this in all is no circle: a row of blanks or of zeros is honest code.
const LEAST: usize = 48;

/// Counts, for each length, how far back an answer has been repeating its passage of that length.
#[derive(Debug, Clone)]
pub(crate) struct Circles {
    /// At p − 1: so many of the last tokens equal those p before them.
    equal: Vec<u32>,
    times: usize,
}

impl Circles {
    /// Finds passages that stand at least `times` times in a row; below 2 none.
    pub fn new(times: u32) -> Option<Self> {
        (times >= 2).then(|| Circles {
            equal: vec![0; LONGEST],
            times: times as usize,
        })
    }

    /// Does the answer go round in circles with the last of `tokens`? Asked after each token.
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

    /// The same rule written plainly.
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
