//! Mistakes of a definition, each with its line.

use toml::Spanned;

use crate::{Formula, Params};

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    // By bytes: where a parser stopped may lie within a character.
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|b| **b == b'\n').count() + 1
}

/// Collects mistakes.
pub(crate) struct Check<'a> {
    pub text: &'a str,
    /// Line (from 1; 0 where there is none) and what is wrong.
    pub mistakes: Vec<(usize, String)>,
}

impl Check<'_> {
    pub fn wrong<T>(&mut self, at: &Spanned<T>, words: impl Into<String>) {
        self.mistakes
            .push((line_of(self.text, at.span().start), words.into()));
    }

    pub fn formula(&mut self, text: &Spanned<String>, params: &Params) -> Option<Formula> {
        match Formula::parse(text.get_ref()) {
            Ok(formula) => {
                for name in formula.params() {
                    if !params.contains_key(&name) {
                        let known: Vec<&str> = params.keys().map(String::as_str).collect();
                        self.wrong(
                            text,
                            format!(
                                "`{text}` names the parameter `{name}`, which [timed] does not have; [timed] has {}",
                                known.join(", "),
                                text = text.get_ref()
                            ),
                        );
                    }
                }
                Some(formula)
            }
            Err(e) => {
                self.wrong(text, e.to_string());
                None
            }
        }
    }
}
