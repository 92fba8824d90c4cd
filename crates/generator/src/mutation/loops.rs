//! Hints to the compiler at loops, prefetches, and the order of two loops, in C and C++.

use std::ops::Range;

use flopsmith_protocol::{Technique, TechniqueSet};
use rand::Rng;

use super::Edit;
use super::lex::Tokens;

/// Repetitions that a new hint asks for.
const REPETITIONS: [u32; 4] = [2, 3, 4, 8];

/// A place where a hint or a prefetch can be put or taken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// A loop that can have this hint: the byte of its keyword.
    Put(usize, New),
    /// Bytes that can be left out.
    Remove(Range<usize>),
}

/// A hint that a loop does not have yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum New {
    /// Repeat the body.
    Unroll,
    /// No iteration depends on another one through memory.
    Ivdep,
    /// The same, in OpenMP's words.
    Simd,
}

impl Hint {
    /// The edit that puts it or takes it off.
    pub fn edit(&self, source: &str, rng: &mut impl Rng) -> Edit {
        let (at, new) = match self {
            Self::Remove(range) => return Edit::of(range.clone(), String::new()),
            Self::Put(at, new) => (*at, new),
        };
        let hint = match new {
            New::Unroll => {
                let count = REPETITIONS[rng.random_range(0..REPETITIONS.len())];
                format!("#pragma GCC unroll {count}\n")
            }
            New::Ivdep => "#pragma GCC ivdep\n".to_owned(),
            New::Simd => "#pragma omp simd\n".to_owned(),
        };
        let line = line_start(source, at);
        match source[line..at].trim().is_empty() {
            // The hint has a line of its own, with the indentation of the loop.
            true => Edit::of(line..line, format!("{}{hint}", &source[line..at])),
            false => Edit::of(at..at, format!("\n{hint}")),
        }
    }
}

/// The first byte of a line.
fn line_start(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The hints that can be put or taken off, and the prefetches that can be removed, within the permitted techniques.
pub(super) fn hints(tokens: &Tokens<'_>, permitted: TechniqueSet) -> Vec<Hint> {
    let mut found = Vec::new();
    for at in 0..tokens.all.len() {
        if tokens.all[at].directive > 0 {
            continue;
        }
        match tokens.text(at) {
            "for" if tokens.text(at + 1) == "(" => {
                let (old, removable) = hints_of(tokens, at);
                found.extend(removable.into_iter().map(Hint::Remove));
                let new = [
                    (New::Unroll, permitted.contains(Technique::Unroll)),
                    (New::Ivdep, true),
                    (New::Simd, permitted.contains(Technique::Simd)),
                ];
                let start = tokens.all[at].start;
                let new = new
                    .into_iter()
                    .filter(|(new, may)| *may && old.admits(*new));
                found.extend(new.map(|(new, _)| Hint::Put(start, new)));
            }
            "__builtin_prefetch" | "_mm_prefetch" => {
                // The rest is an empty statement.
                if let Some(close) = tokens.partner(at + 1).filter(|_| is_statement(tokens, at))
                    && tokens.text(at + 1) == "("
                    && tokens.text(close + 1) == ";"
                {
                    let range = tokens.all[at].start..tokens.all[close].end;
                    found.push(Hint::Remove(range));
                }
            }
            _ => {}
        }
    }
    found
}

/// True if a statement begins at a token.
fn is_statement(tokens: &Tokens<'_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return false;
    };
    tokens.all[before].directive > 0 || matches!(tokens.text(before), ";" | "{" | "}" | ")")
}

/// The hints in front of a loop.
#[derive(Debug, Clone, Copy, Default)]
struct Old {
    unroll: bool,
    ivdep: bool,
    /// A hint of OpenMP, which must stand directly in front of its loop.
    omp: bool,
}

impl Old {
    fn admits(self, new: New) -> bool {
        let without_omp = !self.omp;
        match new {
            New::Unroll => without_omp && !self.unroll,
            New::Ivdep => without_omp && !self.ivdep,
            New::Simd => without_omp && !self.unroll && !self.ivdep,
        }
    }
}

/// The hints in front of the loop whose keyword is at `at`, and the bytes of those that can be taken off.
fn hints_of(tokens: &Tokens<'_>, mut at: usize) -> (Old, Vec<Range<usize>>) {
    let (mut old, mut removable) = (Old::default(), Vec::new());
    while let Some(before) = at.checked_sub(1)
        && tokens.all[before].directive > 0
    {
        let directive = tokens.directive(before);
        let words: Vec<&str> = directive.clone().map(|at| tokens.text(at)).collect();
        match words.as_slice() {
            ["#", "pragma", "GCC", "unroll", ..] => old.unroll = true,
            ["#", "pragma", "GCC", "ivdep", ..] => old.ivdep = true,
            ["#", "pragma", "omp", "simd", ..] => old.omp = true,
            ["#", "pragma", "omp", ..] => {
                old.omp = true;
                at = directive.start;
                continue;
            }
            _ => break,
        }
        let bytes = tokens.all[directive.start].start..tokens.all[directive.end - 1].end;
        removable.push(whole_line(tokens.source, bytes));
        at = directive.start;
    }
    (old, removable)
}

/// These bytes with the rest of their line, if nothing but blanks stands there.
fn whole_line(source: &str, bytes: Range<usize>) -> Range<usize> {
    let start = line_start(source, bytes.start);
    let rest = &source[bytes.end..];
    let end = rest.find('\n').map(|end| bytes.end + end + 1);
    match end {
        Some(end)
            if source[start..bytes.start].trim().is_empty()
                && source[bytes.end..end].trim().is_empty() =>
        {
            start..end
        }
        _ => bytes,
    }
}

/// The head of a loop: the tokens of its brackets.
#[derive(Debug, Clone, Copy)]
struct Head {
    open: usize,
    close: usize,
}

impl Head {
    fn of(tokens: &Tokens<'_>, at: usize) -> Option<Self> {
        let is_loop = tokens.text(at) == "for" && tokens.text(at + 1) == "(";
        let close = tokens.partner(at + 1).filter(|_| is_loop)?;
        Some(Self {
            open: at + 1,
            close,
        })
    }

    /// The variable that the head begins with.
    fn variable<'s>(self, tokens: &Tokens<'s>) -> Option<&'s str> {
        let sign = (self.open..self.close).find(|at| tokens.text(*at) == "=")?;
        let is_plain = tokens.is_word(sign - 1) && tokens.text(sign + 1) != "=";
        is_plain.then(|| tokens.text(sign - 1))
    }

    fn has(self, tokens: &Tokens<'_>, word: &str) -> bool {
        (self.open..self.close).any(|at| tokens.text(at) == word)
    }

    fn bytes(self, tokens: &Tokens<'_>) -> Range<usize> {
        tokens.all[self.open].start..tokens.all[self.close].end
    }
}

/// Two loops, one directly in the other, whose heads can change places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    outer: Range<usize>,
    inner: Range<usize>,
}

impl Order {
    /// The edits that exchange the two loops.
    pub fn edits(&self, source: &str) -> Vec<Edit> {
        let (outer, inner) = (self.outer.clone(), self.inner.clone());
        let (of_outer, of_inner) = (&source[outer.clone()], &source[inner.clone()]);
        vec![
            Edit::of(outer, of_inner.to_owned()),
            Edit::of(inner, of_outer.to_owned()),
        ]
    }
}

/// The pairs of loops that can change places: the inner one is the whole body of the outer one, and the head of neither names the
/// variable of the other. Dependences are not looked at: verification judges the result.
pub(super) fn orders(tokens: &Tokens<'_>, permitted: TechniqueSet) -> Vec<Order> {
    if !permitted.contains(Technique::LoopReorder) {
        return Vec::new();
    }
    let pair = |at: usize| {
        if tokens.all[at].directive > 0 {
            return None;
        }
        let outer = Head::of(tokens, at)?;
        let body = outer.close + 1;
        let inner = match tokens.text(body) {
            "{" => {
                let inner = Head::of(tokens, body + 1)?;
                let close = tokens.partner(body)?;
                let is_whole = statement_end(tokens, inner.close + 1) == Some(close);
                Some(inner).filter(|_| is_whole)?
            }
            _ => Head::of(tokens, body)?,
        };
        let (first, second) = (outer.variable(tokens)?, inner.variable(tokens)?);
        let is_free = first != second && !inner.has(tokens, first) && !outer.has(tokens, second);
        is_free.then(|| Order {
            outer: outer.bytes(tokens),
            inner: inner.bytes(tokens),
        })
    };
    (0..tokens.all.len()).filter_map(pair).collect()
}

/// The token behind the statement that begins at a token; none for statements that are not followed here.
fn statement_end(tokens: &Tokens<'_>, mut at: usize) -> Option<usize> {
    loop {
        match tokens.text(at) {
            "{" => return Some(tokens.partner(at)? + 1),
            "for" | "while" => at = tokens.partner(at + 1)? + 1,
            "if" | "do" | "switch" | "" => return None,
            _ => break,
        }
    }
    loop {
        at = match tokens.text(at) {
            ";" => return Some(at + 1),
            "" | "}" => return None,
            "(" | "[" | "{" => tokens.partner(at)? + 1,
            _ => at + 1,
        };
    }
}
