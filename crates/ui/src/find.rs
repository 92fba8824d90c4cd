//! Which programs a list shows: filters, orders, pages, and the search for a text.
//!
//! Filters read the index alone. A text is searched for in the log, for a limited time; the list says how far the search
//! came, and the next one goes on there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Instant;

use flopsmith_protocol::Technique;
use serde::Deserialize;

use crate::index::{LENGTH, Raw, Record, View, bit};

/// Programs on a page.
pub const ROWS: usize = 50;

/// Last page of a list. Behind it, filters find programs sooner than turning pages does.
pub const MOST_PAGES: usize = 200;

/// Programs that a search for a text looks at, if they are ordered by speed.
const MOST_ORDERED: usize = ROWS * MOST_PAGES;

/// Conditions on programs. Without any, every program is accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter {
    /// The problem.
    pub problem: Option<Wanted>,
    /// The reason of the verdict.
    pub reason: Option<Wanted>,
    /// A technique that was detected.
    pub technique: Option<Technique>,
    /// The step.
    pub step: Option<u32>,
}

/// A name that a program has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The name of this number.
    Number(u16),
    /// A name that no program has.
    Unknown,
}

impl Wanted {
    /// The name of this number, if there is one.
    pub fn of(number: Option<u16>) -> Self {
        number.map_or(Wanted::Unknown, Wanted::Number)
    }

    fn is(self, number: u16) -> bool {
        self == Wanted::Number(number)
    }
}

impl Filter {
    /// True if the program of these bytes is accepted.
    pub fn accepts(&self, bytes: &[u8; LENGTH]) -> bool {
        let raw = Raw(bytes);
        self.problem.is_none_or(|wanted| wanted.is(raw.problem()))
            && self.reason.is_none_or(|wanted| wanted.is(raw.reason()))
            && self.step.is_none_or(|step| step == raw.step())
            && self
                .technique
                .is_none_or(|technique| raw.is_detected() && raw.techniques() & bit(technique) != 0)
    }
}

/// Orders of programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    #[default]
    Newest,
    /// The fastest first.
    Speed,
    /// The largest ratio to the plain reference first.
    Ratio,
}

impl Order {
    /// The number that is compared: larger ones come first. Speeds are not negative, so their bits have their order.
    fn key(self, bytes: &[u8; LENGTH]) -> u32 {
        match self {
            Order::Newest => 0,
            Order::Speed => Raw(bytes).gflops().max(0.0).to_bits(),
            Order::Ratio => Raw(bytes).ratio().max(0.0).to_bits(),
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The programs, with their numbers.
    pub rows: Vec<(u64, Record)>,
    /// Number of programs that the filter accepts.
    pub matches: u64,
}

/// The page of this number, from 0.
///
/// # Errors
/// The index cannot be read.
pub fn page(view: &View, filter: &Filter, order: Order, number: usize) -> io::Result<Page> {
    let skipped = number.min(MOST_PAGES - 1) * ROWS;
    let mut numbers = Vec::new();
    let matches = match order {
        Order::Newest if *filter == Filter::default() => {
            let end = view.count.saturating_sub(skipped as u64);
            numbers.extend((end.saturating_sub(ROWS as u64)..end).rev());
            view.count
        }
        Order::Newest => {
            let mut matches = 0;
            view.backward(view.count, |number, bytes| {
                if filter.accepts(bytes) {
                    if (skipped..skipped + ROWS).contains(&(matches as usize)) {
                        numbers.push(number);
                    }
                    matches += 1;
                }
                true
            })?;
            matches
        }
        Order::Speed | Order::Ratio => {
            let (ordered, matches) = first(view, filter, order, skipped + ROWS)?;
            numbers.extend(ordered.into_iter().skip(skipped));
            matches
        }
    };
    let mut rows = Vec::new();
    for number in numbers {
        rows.extend(view.record(number)?.map(|record| (number, record)));
    }
    Ok(Page { rows, matches })
}

/// The numbers of the first `most` accepted programs in an order, and the number of all. Of equal ones the newest comes
/// first.
fn first(view: &View, filter: &Filter, order: Order, most: usize) -> io::Result<(Vec<u64>, u64)> {
    let mut matches = 0;
    let mut best: BinaryHeap<Reverse<(u32, u64)>> = BinaryHeap::with_capacity(most + 1);
    view.forward(0, |number, bytes| {
        if filter.accepts(bytes) {
            matches += 1;
            let entry = Reverse((order.key(bytes), number));
            let full = best.len() >= most;
            if !full || best.peek().is_some_and(|worst| entry < *worst) {
                if full {
                    best.pop();
                }
                best.push(entry);
            }
        }
        true
    })?;
    // The smallest `Reverse` is the largest entry.
    let ordered = best.into_sorted_vec();
    let numbers = ordered.into_iter().map(|Reverse((_, number))| number);
    Ok((numbers.collect(), matches))
}

/// The result of a search for a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The programs with the text, with their numbers.
    pub rows: Vec<(u64, Record)>,
    /// Place at which the search goes on; none if it is at its end.
    pub next: Option<u64>,
    /// Number of places that were looked at, with those of earlier parts of the search.
    pub searched: u64,
    /// Number of places in all.
    pub of: u64,
}

/// Searches sources for a text, from a place on, until the page is full or `deadline` is over. With [`Order::Newest`] a
/// place is a number of records from the end; else it is one among the first 10,000 of the order.
///
/// # Errors
/// The index or the log cannot be read.
pub fn search(
    view: &View,
    filter: &Filter,
    order: Order,
    text: &str,
    from: u64,
    deadline: Instant,
) -> io::Result<Found> {
    if order != Order::Newest {
        let (ordered, _) = first(view, filter, order, MOST_ORDERED)?;
        return search_in(view, &ordered, text, from, deadline);
    }
    let mut search = Search::new(view, text, deadline);
    // The search goes on while this is true.
    let mut on = Ok(true);
    view.backward(view.count.saturating_sub(from), |number, bytes| {
        if filter.accepts(bytes) {
            on = search.look(view.count - 1 - number, number);
        }
        matches!(on, Ok(true))
    })?;
    if on? {
        search.found.searched = view.count;
    }
    Ok(search.end(view.count))
}

/// Searches the sources of these programs as [`search`] does. A place is one among `numbers`.
///
/// # Errors
/// The index or the log cannot be read.
pub fn search_in(
    view: &View,
    numbers: &[u64],
    text: &str,
    from: u64,
    deadline: Instant,
) -> io::Result<Found> {
    let of = numbers.len() as u64;
    let mut search = Search::new(view, text, deadline);
    search.found.searched = from.min(of);
    for (place, number) in (0..).zip(numbers).skip(from as usize) {
        if !search.look(place, *number)? {
            break;
        }
    }
    Ok(search.end(of))
}

/// A search under way.
struct Search<'a> {
    view: &'a View,
    needle: Needle<'a>,
    deadline: Instant,
    found: Found,
}

impl<'a> Search<'a> {
    fn new(view: &'a View, text: &'a str, deadline: Instant) -> Self {
        Self {
            view,
            needle: Needle::new(text),
            deadline,
            found: Found::default(),
        }
    }

    /// Looks at the program of a place. The search goes on if this is true.
    fn look(&mut self, place: u64, number: u64) -> io::Result<bool> {
        let Some(record) = self.view.record(number)? else {
            return Ok(true);
        };
        let found = &mut self.found;
        if self.needle.is_in(&self.view.line(&record)?) {
            found.rows.push((number, record));
        }
        found.searched = place + 1;
        Ok(found.rows.len() < ROWS && Instant::now() < self.deadline)
    }

    /// The places that it found among `of`.
    fn end(self, of: u64) -> Found {
        let searched = self.found.searched;
        Found {
            of,
            next: (searched < of).then_some(searched),
            ..self.found
        }
    }
}

/// A text that lines are searched for.
struct Needle<'a> {
    text: &'a str,
    /// As a line spells it.
    escaped: String,
}

#[derive(Deserialize)]
struct Source {
    source: String,
}

impl<'a> Needle<'a> {
    fn new(text: &'a str) -> Self {
        let quoted = serde_json::Value::from(text).to_string();
        let escaped = quoted[1..quoted.len() - 1].to_owned();
        Self { text, escaped }
    }

    /// True if the source of a line has the text. Most lines are not parsed: without the text they lack its spelling, too.
    fn is_in(&self, line: &[u8]) -> bool {
        let Ok(line) = str::from_utf8(line) else {
            return false;
        };
        line.contains(&self.escaped)
            && serde_json::from_str(line).is_ok_and(|of: Source| of.source.contains(self.text))
    }
}

#[cfg(test)]
mod tests;
