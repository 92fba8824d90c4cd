//! SEARCH/REPLACE blocks.
//!
//! ```text
//! <<<<<<< SEARCH
//! lines of the program, exactly as they stand there
//! =======
//! the lines that replace them
//! >>>>>>> REPLACE
//! ```
//!
//! Each marker is a line of its own. The lines to search for must stand in the program once. Blocks are applied one after the
//! other, each to the result of the one before. White space at the ends of lines does not count.

use std::fmt;

use crate::difference::{Part, lines};

const SEARCH: &str = "<<<<<<< SEARCH";
const DIVIDER: &str = "=======";
const REPLACE: &str = ">>>>>>> REPLACE";

/// Most blocks of an answer.
const MOST: usize = 64;

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The lines to search for, one at least, without white space at their ends.
    pub search: Vec<String>,
    /// The lines that replace them; none removes them.
    pub replace: Vec<String>,
}

/// The fault of an edit. Lines count from 1, those of an answer over the whole answer, and so do blocks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A marker stands where another one is due.
    #[error(
        "line {line} is `{found}`, and `{due}` is due there; write each block as SEARCH, =======, REPLACE"
    )]
    Marker {
        /// The line of the answer.
        line: usize,
        /// The marker that stands there.
        found: Marker,
        /// The marker that is due.
        due: Marker,
    },
    /// The answer ends within a block.
    #[error(
        "the block that begins in line {line} has no `{due}`; end it, or write a shorter answer"
    )]
    Open {
        /// The line of the answer in which the block begins.
        line: usize,
        /// The marker that is missing.
        due: Marker,
    },
    /// A block searches for nothing.
    #[error("block {block} searches for no text; repeat the lines of the program that it replaces")]
    Empty {
        /// The block.
        block: usize,
    },
    /// There are too many blocks.
    #[error("the answer has more than {most} blocks; write the whole program instead")]
    Many {
        /// The most blocks of an answer.
        most: usize,
    },
    /// The text of a block does not stand in the program.
    #[error("block {block} searches for text that the program does not have{}; copy the lines exactly as they stand there", .missing.as_ref().map(|line| format!(": no line is `{line}`")).unwrap_or_default())]
    Missing {
        /// The block.
        block: usize,
        /// The first line of its text that is no line of the program; none if each of them is.
        missing: Option<String>,
    },
    /// The text of a block stands in the program several times.
    #[error(
        "block {block} searches for text that stands in the program {count} times; add lines before or after it"
    )]
    Ambiguous {
        /// The block.
        block: usize,
        /// How often it stands there.
        count: usize,
    },
    /// The blocks leave the program as it is.
    #[error("the blocks change nothing; replace some lines by others")]
    Same,
}

/// The markers of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// Begins a block, and the text to search for.
    Search,
    /// Ends that text.
    Divider,
    /// Ends the block.
    Replace,
}

impl Marker {
    fn of(line: &str) -> Option<Self> {
        match line.trim_end() {
            SEARCH => Some(Self::Search),
            DIVIDER => Some(Self::Divider),
            REPLACE => Some(Self::Replace),
            _ => None,
        }
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Search => SEARCH,
            Self::Divider => DIVIDER,
            Self::Replace => REPLACE,
        })
    }
}

/// A block that is being read.
struct Reading {
    line: usize,
    block: Block,
    divided: bool,
}

/// The blocks of an answer; none if it has no marker. Text outside of blocks does not count, and a line of `=` there is text.
///
/// # Errors
/// Markers that make no blocks, and blocks without a text to search for.
pub fn blocks(answer: &str) -> Result<Vec<Block>, Error> {
    let mut all: Vec<Block> = Vec::new();
    let mut open: Option<Reading> = None;
    for (line, text) in (1..).zip(answer.lines()) {
        let marker = Marker::of(text);
        let fault = |found, due| Error::Marker { line, found, due };
        match (&mut open, marker) {
            (None, Some(Marker::Search)) => {
                open = Some(Reading {
                    line,
                    block: Block {
                        search: Vec::new(),
                        replace: Vec::new(),
                    },
                    divided: false,
                });
            }
            (None, Some(Marker::Replace)) => {
                return Err(fault(Marker::Replace, Marker::Search));
            }
            (None, _) => {}
            (Some(reading), Some(Marker::Divider)) if !reading.divided => reading.divided = true,
            (Some(reading), Some(found)) => {
                let due = match reading.divided {
                    true => Marker::Replace,
                    false => Marker::Divider,
                };
                if found != due {
                    return Err(fault(found, due));
                }
                if all.len() == MOST {
                    return Err(Error::Many { most: MOST });
                }
                let empty = reading.block.search.iter().all(String::is_empty);
                if empty {
                    return Err(Error::Empty {
                        block: all.len() + 1,
                    });
                }
                if let Some(reading) = open.take() {
                    all.push(reading.block);
                }
            }
            (Some(reading), None) => {
                let side = match reading.divided {
                    true => &mut reading.block.replace,
                    false => &mut reading.block.search,
                };
                side.push(text.trim_end().to_owned());
            }
        }
    }
    match open {
        None => Ok(all),
        Some(Reading { line, divided, .. }) => Err(Error::Open {
            line,
            due: match divided {
                true => Marker::Replace,
                false => Marker::Divider,
            },
        }),
    }
}

/// The program after all blocks, with `\n` at the end of each line.
///
/// # Errors
/// A block whose text does not stand in the program exactly once, and blocks that change nothing. No part of the edit is applied
/// then.
pub fn apply(program: &str, blocks: &[Block]) -> Result<String, Error> {
    let before: Vec<String> = program.lines().map(|l| l.trim_end().to_owned()).collect();
    let mut lines = before.clone();
    for (number, block) in (1..).zip(blocks) {
        let wanted = block.search.as_slice();
        if wanted.is_empty() {
            return Err(Error::Empty { block: number });
        }
        let mut found = (0..lines.len()).filter(|at| lines[*at..].starts_with(wanted));
        let (at, more) = (found.next(), found.count());
        let Some(at) = at else {
            let missing = wanted.iter().find(|line| !lines.contains(line));
            return Err(Error::Missing {
                block: number,
                missing: missing.cloned(),
            });
        };
        if more > 0 {
            return Err(Error::Ambiguous {
                block: number,
                count: more + 1,
            });
        }
        lines.splice(at..at + wanted.len(), block.replace.iter().cloned());
    }
    if lines == before {
        return Err(Error::Same);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    Ok(text)
}

/// The differences of two programs, for people and models: removed lines begin with `-`, added ones with `+`, and up to `context`
/// equal lines stand around them with a blank. White space at the ends of lines does not count.
pub fn difference(before: &str, after: &str, context: usize) -> String {
    let mut shown = lines(&bare(before), &bare(after), context);
    if shown.last().is_some_and(|(part, _)| *part == Part::LeftOut) {
        shown.pop();
    }
    let mut text = String::new();
    for (part, line) in shown {
        let (sign, line) = match part {
            Part::Both => (" ", line),
            Part::Removed => ("-", line),
            Part::Added => ("+", line),
            Part::LeftOut => ("...", ""),
        };
        text.push_str(sign);
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The lines of a text without white space at their ends.
fn bare(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROGRAM: &str = "void f(int n) {\n  int a = 0;\n  a += n;\n  a += n;\n}\n";

    fn block(search: &str, replace: &str) -> String {
        format!("{SEARCH}\n{search}{DIVIDER}\n{replace}{REPLACE}\n")
    }

    fn edited(answer: &str) -> Result<String, Error> {
        apply(PROGRAM, &blocks(answer)?)
    }

    #[test]
    fn blocks_are_applied_one_after_the_other() {
        let answer = format!(
            "Two changes:\n=======\n{}and\n{}",
            block("  int a = 0;\n", "  int a = 1;   \n  int b = 2;\n"),
            block("  int b = 2;\n  a += n;\n", "")
        );
        let wanted = "void f(int n) {\n  int a = 1;\n  a += n;\n}\n";
        assert_eq!(edited(&answer).unwrap(), wanted);
        let windows = answer.replace('\n', "\r\n");
        assert_eq!(edited(&windows).unwrap(), wanted);
        assert_eq!(blocks("no edit\n=======\n").unwrap(), []);
    }

    #[test]
    fn a_fault_is_named_with_its_place_and_its_cure() {
        let open = format!("{SEARCH}\n  int a = 0;\n");
        let cases = [
            (open.clone(), "begins in line 1 has no `=======`"),
            (format!("{open}{DIVIDER}\nx\n"), "has no `>>>>>>> REPLACE`"),
            (format!("{open}{SEARCH}\n"), "line 3 is `<<<<<<< SEARCH`"),
            (format!("\n{REPLACE}\n"), "line 2 is `>>>>>>> REPLACE`"),
            (
                format!("{open}{DIVIDER}\n{DIVIDER}\n"),
                "line 4 is `=======`, and `>>>>>>> REPLACE` is due",
            ),
            (block("\n", "int b;\n"), "block 1 searches for no text"),
            (block("  a += n;\n", ""), "stands in the program 2 times"),
            (block("  int a = 0;\n}\n", ""), "does not have; copy"),
            (block("  int a = 0;\n int b;\n", ""), "no line is ` int b;`"),
            (block("  int a = 0;\n", "  int a = 0;\n"), "change nothing"),
            (block("x\n", "").repeat(MOST + 1), "more than 64 blocks"),
        ];
        for (answer, words) in cases {
            let error = edited(&answer).unwrap_err().to_string();
            assert!(error.contains(words), "{answer}: {error}");
        }
    }

    #[test]
    fn a_difference_shows_the_changed_lines_and_some_around_them() {
        let after = PROGRAM.replace("int a = 0;", "int a = 1;");
        assert_eq!(
            difference(PROGRAM, &after, 1),
            " void f(int n) {\n-  int a = 0;\n+  int a = 1;\n   a += n;\n"
        );
        assert_eq!(difference(PROGRAM, PROGRAM, 3), "");
        let long: String = (0..9).map(|n| format!("{n}\n")).collect();
        let changed = long.replace("7\n", "");
        assert_eq!(difference(&long, &changed, 1), "...\n 6\n-7\n 8\n");
    }

    /// Lines of few letters, so that texts occur several times.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[ab]{0,2}", 0..12)
    }

    proptest! {
        #[test]
        fn a_text_that_occurs_once_is_replaced_and_no_other(
            program in lines(), from in 0usize..12, count in 1usize..4, replace in lines()
        ) {
            let from = from.min(program.len());
            let to = (from + count).min(program.len());
            let search = program[from..to].to_vec();
            let occurs = (0..program.len()).filter(|at| program[*at..].starts_with(&search)).count();
            let result = apply(&program.join("\n"), &[Block { search: search.clone(), replace: replace.clone() }]);
            let mut wanted = program.clone();
            wanted.splice(from..to, replace);
            // `lines` of a text has no empty last line.
            if search.is_empty() {
                prop_assert_eq!(result, Err(Error::Empty { block: 1 }));
            } else if program.last().is_some_and(|line| !line.is_empty()) {
                match occurs {
                    1 if wanted == program => prop_assert_eq!(result, Err(Error::Same)),
                    1 => prop_assert_eq!(result, Ok(wanted.join("\n") + "\n")),
                    count => prop_assert_eq!(result, Err(Error::Ambiguous { block: 1, count })),
                }
            }
        }

        #[test]
        fn any_answer_is_read_or_refused_and_its_blocks_can_be_written_again(
            parts in prop::collection::vec(prop::sample::select(vec![SEARCH, DIVIDER, REPLACE, "x", "", " y"]), 0..20)
        ) {
            let answer = parts.join("\n");
            if let Ok(read) = blocks(&answer) {
                let written: String = read
                    .iter()
                    .map(|b| block(
                        &b.search.iter().map(|l| format!("{l}\n")).collect::<String>(),
                        &b.replace.iter().map(|l| format!("{l}\n")).collect::<String>(),
                    ))
                    .collect();
                prop_assert_eq!(blocks(&written), Ok(read));
            }
        }

        #[test]
        fn a_difference_has_all_lines_of_both_programs(a in lines(), b in lines()) {
            let text = difference(&(a.join("\n") + "\n"), &(b.join("\n") + "\n"), 100);
            let side = |without: char| -> Vec<String> {
                let lines = text.lines().filter(|line| !line.starts_with(without));
                lines.map(|line| line[1..].to_owned()).collect()
            };
            if a != b && !a.is_empty() && !b.is_empty() {
                prop_assert_eq!(side('+'), a);
                prop_assert_eq!(side('-'), b);
            }
        }
    }
}
