//! The programs of a problem as a drawn tree: which was made from which, and how the best one came about. With a filter, the programs
//! that fit it and their ancestors.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::time::Instant;

use flopsmith_protocol::UnknownCause;
use flopsmith_report::heat::{self, SHADES, shade};
use flopsmith_report::text::{coordinate as c, escape, excerpt, number, percent};
use serde::Serialize;

use super::frame::{Frame, counted, float, url, words};
use super::programs::{self, Choice};
use super::{Site, view};
use crate::find::{Filter, Found, search_in};
use crate::index::{Party, Record, View};
use crate::lineage::{Families, Row};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::Run;

/// Programs on a page.
const ROWS: usize = 150;
/// Programs of the line of the best one that are drawn, the newest.
const MOST_LINE: usize = 50;
/// Problems that the form offers.
const MOST_OFFERED: usize = 300;

const WIDTH: f64 = 640.0;
/// Height of a row, and width of a column.
const HIGH: f64 = 26.0;
const WIDE: f64 = 18.0;
/// Columns that are drawn; programs further to the right stand in the last one.
const MOST_COLUMNS: u32 = 14;
/// Width of a character, roughly.
const CHARACTER: f64 = 6.4;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    action: String,
    problem: String,
    /// Names of problems, and which is shown.
    problems: Vec<(String, bool)>,
    /// Value, name, and which is chosen.
    colours: [(&'static str, &'static str, bool); 2],
    reasons: Vec<Choice>,
    techniques: Vec<Choice>,
    text: String,
    /// How far a search for a text came; empty without one.
    searched: String,
    /// Where the search goes on.
    on: Option<String>,
    /// True if the programs have to fit conditions.
    filtered: bool,
    legend: String,
    best: String,
    best_lead: String,
    families: String,
    /// Empty without a family.
    summary: String,
    earlier: Option<String>,
    later: Option<String>,
}

/// The property of a program that its colour shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Speed,
    Stage,
}

/// The tree of a run's programs for a problem. The query may name the problem, the page, the property that colours show, and conditions
/// on programs.
///
/// # Errors
/// There is no such run or problem, the query has no meaning, or the run's files cannot be read.
pub fn tree(site: &Site, name: &str, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let ends = site.runs.page_ends();
    let snapshot = site.runs.outcomes(&run, ends);
    let attempts = site.runs.read(&run.attempts, ends);
    let mut frame = Frame::of(&run, "Tree of programs", &snapshot).live_list(&run, query);
    if let (None, Some(covered)) = (snapshot.covered(), attempts.covered()) {
        frame = frame.again(&format!(
            "The attempts of this run are being read: {} so far. Parents that are not read yet are missing.",
            percent(covered)
        ));
    }
    // Finding the families counts as a part of the search.
    let search_ends = site.runs.search_ends();
    let view = view(&snapshot)?;
    let totals = &snapshot.totals;
    let colour = match query.get("colour") {
        None | Some("speed") => Colour::Speed,
        Some("stage") => Colour::Stage,
        Some(_) => {
            return Err(Refusal::malformed(
                "there is no such colour; `colour` is `speed` or `stage`",
            ));
        }
    };
    let names = &view.names.problems;
    let problem = match query.get("problem") {
        Some(name) => names.number(name),
        None => totals.problems.keys().next().copied(),
    };
    let problem = problem.ok_or_else(|| {
        Refusal::not_found("the run has no program for this problem; choose another one")
    })?;
    let mut families = Families::of(view, attempts.view.as_ref(), problem)?;
    let wanted = Wanted::of(view, query, &families, search_ends)?;
    if let Some(wanted) = &wanted {
        families.leave(&wanted.numbers);
    }
    let rows = families.rows();
    let last = rows.len().div_ceil(ROWS).max(1);
    let page = query.number::<usize>("page")?.unwrap_or(1).clamp(1, last);
    let shown = (page - 1) * ROWS..rows.len().min(page * ROWS);
    let drawing = Drawing {
        run: &run,
        view,
        families: &families,
        colour,
        wanted: wanted.as_ref().map(|wanted| &wanted.numbers),
        top: f64::from(families.top()).max(1e-9),
    };
    let best = totals.problems.get(&problem).and_then(|of| of.best());
    let best = match best.filter(|_| page == 1 && wanted.is_none()) {
        Some(best) => view.record(best.number)?,
        None => None,
    };
    let line = best.map_or_else(Vec::new, |best| families.line_of(&best));
    let first = line.len().saturating_sub(MOST_LINE);
    let base = format!("{}/tree", url(&run));
    let link =
        |name: &str, value: u64| format!("{base}?{}", query.with(name, Some(&value.to_string())));
    let search = wanted.as_ref().and_then(|wanted| wanted.search.as_ref());
    let context = Context {
        frame,
        problem: names.name(problem).to_owned(),
        problems: offered(names.all(), names.name(problem)),
        colours: [
            ("speed", "speed", colour == Colour::Speed),
            ("stage", "stage", colour == Colour::Stage),
        ],
        reasons: programs::offered(view.names.reasons.all(), query.get("reason")),
        techniques: programs::techniques(query),
        text: query.get("text").unwrap_or_default().to_owned(),
        searched: search.map_or_else(String::new, searched),
        on: search.and_then(|of| of.next).map(|next| link("from", next)),
        filtered: wanted.is_some(),
        legend: drawing.legend(),
        best: match line.len() {
            0 | 1 => String::new(),
            all => drawing.html(&line, first..all, "The best program and its ancestors")?,
        },
        best_lead: lead(line.len(), first),
        families: match rows.is_empty() {
            true => String::new(),
            false => drawing.html(rows, shown.clone(), "Families of programs")?,
        },
        summary: summary(&families, wanted.as_ref(), &shown),
        earlier: (page < last).then(|| link("page", page as u64 + 1)),
        later: (page > 1).then(|| link("page", page as u64 - 1)),
        action: base.clone(),
    };
    site.show("tree.html", &context)
}

/// The programs that fit the conditions of a query.
struct Wanted {
    numbers: HashSet<u64>,
    /// The search for a text, if there is one.
    search: Option<Found>,
}

impl Wanted {
    /// None without conditions.
    fn of(
        view: &View,
        query: &Query,
        families: &Families,
        search_ends: Instant,
    ) -> Result<Option<Self>, Refusal> {
        // The families are those of one problem.
        let filter = Filter {
            problem: None,
            step: None,
            ..programs::filter(query, view)?
        };
        let text = query.get("text");
        if filter == Filter::default() && text.is_none() {
            return Ok(None);
        }
        let mut numbers = families.numbers();
        if filter != Filter::default() {
            let of_families: HashSet<u64> = std::mem::take(&mut numbers).into_iter().collect();
            view.backward(view.count, |number, bytes| {
                if of_families.contains(&number) && filter.accepts(bytes) {
                    numbers.push(number);
                }
                true
            })?;
        }
        let Some(text) = text else {
            let numbers = numbers.into_iter().collect();
            return Ok(Some(Self {
                numbers,
                search: None,
            }));
        };
        let from = query.number("from")?.unwrap_or(0);
        let found = search_in(view, &numbers, text, from, search_ends)?;
        Ok(Some(Self {
            numbers: found.rows.iter().map(|(number, _)| *number).collect(),
            search: Some(found),
        }))
    }
}

/// How far a search came.
fn searched(found: &Found) -> String {
    format!(
        "{} found; searched {} of {} programs, the newest first.",
        counted(found.rows.len() as u64),
        counted(found.searched),
        counted(found.of)
    )
}

/// The problems that the form offers, and the one that is shown.
fn offered(all: &[String], shown: &str) -> Vec<(String, bool)> {
    let offered = all.iter().take(MOST_OFFERED);
    let mut offered: Vec<_> = offered.map(|name| (name.clone(), name == shown)).collect();
    if offered.iter().all(|(_, chosen)| !chosen) {
        offered.push((shown.to_owned(), true));
    }
    offered
}

fn lead(line: usize, left_out: usize) -> String {
    let ancestors = flopsmith_report::text::counted(line.saturating_sub(1) as u64, "ancestor");
    let mut lead = format!("The fastest program, at the end, and its {ancestors}.");
    if left_out > 0 {
        lead.push_str(&format!(
            " The first {} are not drawn.",
            counted(left_out as u64)
        ));
    }
    lead
}

fn summary(families: &Families, wanted: Option<&Wanted>, shown: &Range<usize>) -> String {
    let rows = families.rows();
    if rows.is_empty() {
        return String::new();
    }
    let first = rows.iter().filter(|row| row.parent.is_none()).count();
    let count = |number: usize| counted(number as u64);
    let mut summary = format!(
        "{} to {} of {} programs in {}, the family with the fastest program first.",
        count(shown.start + 1),
        count(shown.end),
        count(rows.len()),
        match first {
            1 => "one family".to_owned(),
            many => format!("{} families", count(many)),
        }
    );
    if let Some(wanted) = wanted {
        let fit = wanted.numbers.len();
        summary.push_str(&format!(
            " Fitting the conditions: {}; the others, drawn faintly, are their ancestors.",
            count(fit)
        ));
    }
    if families.is_cut {
        summary.push_str(" Only the newest programs with parents are looked at.");
    }
    summary
}

/// The drawing of some rows.
struct Drawing<'a> {
    run: &'a Run,
    view: &'a View,
    families: &'a Families,
    colour: Colour,
    /// The programs that fit the conditions; none without conditions.
    wanted: Option<&'a HashSet<u64>>,
    /// The speed at the upper end of the colours.
    top: f64,
}

impl Drawing<'_> {
    /// The rows of a range. Lines lead over its ends to parents and children that are not in it.
    fn html(&self, rows: &[Row], shown: Range<usize>, name: &str) -> Result<String, Refusal> {
        let height = HIGH * shown.len() as f64;
        let x = |column: u32| WIDE * (f64::from(column.min(MOST_COLUMNS)) + 0.6);
        let y = |row: usize| HIGH * (row as f64 - shown.start as f64 + 0.5);
        let (mut edges, mut programs) = (String::new(), String::new());
        // Lines from programs above the range to children below it.
        let above = rows.iter().take(shown.start);
        let passing = above.filter(|row| row.until as usize >= shown.end);
        let passing: BTreeSet<u32> = passing.map(|row| row.column.min(MOST_COLUMNS)).collect();
        for column in passing {
            edges.push_str(&format!(
                "<path class=\"edge\" d=\"M{} 0 V{}\"/>",
                c(x(column)),
                c(height)
            ));
        }
        for place in shown.clone() {
            let Some(row) = rows.get(place) else {
                break;
            };
            let (right, down) = (x(row.column), y(place));
            let parent = row.parent.map(|parent| parent as usize);
            if let Some((parent, above)) = parent.and_then(|at| Some((at, rows.get(at)?))) {
                let from = match shown.contains(&parent) {
                    true => y(parent),
                    false => 0.0,
                };
                edges.push_str(&format!(
                    "<path class=\"edge\" d=\"M{} {} V{} H{}\"/>",
                    c(x(above.column)),
                    c(from),
                    c(down),
                    c(right)
                ));
                programs.push_str(&self.program(row, Some(above), (right, down))?);
            } else {
                programs.push_str(&self.program(row, None, (right, down))?);
            }
            if row.until as usize >= shown.end {
                edges.push_str(&format!(
                    "<path class=\"edge\" d=\"M{} {} V{}\"/>",
                    c(right),
                    c(down),
                    c(height)
                ));
            }
        }
        let name = escape(name);
        Ok(format!(
            "<div class=\"scroll\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\"><svg class=\"tree\" viewBox=\"0 0 {WIDTH} {}\" role=\"group\" aria-label=\"{name}\">{edges}{programs}</svg></div>",
            c(height)
        ))
    }

    /// A program: its circle and its words, which lead to its page.
    fn program(
        &self,
        row: &Row,
        parent: Option<&Row>,
        (x, y): (f64, f64),
    ) -> Result<String, Refusal> {
        let node = self.families.node(row);
        let Some(record) = self.view.record(node.number)? else {
            return Ok(String::new());
        };
        let (origin, anchor) = match parent {
            Some(parent) => {
                let parent = self.families.node(parent).number;
                (format!(", made from program {parent}"), "#difference")
            }
            None => (", the first of its family".to_owned(), ""),
        };
        let label = self.label(row, &record);
        let room = ((WIDTH - x - 12.0) / CHARACTER) as usize;
        let fits = self.wanted.is_none_or(|of| of.contains(&node.number));
        let (class, role) = match fits {
            true => ("", ""),
            false => (
                " class=\"between\"",
                ", an ancestor of one that fits the conditions",
            ),
        };
        Ok(format!(
            "<a{class} href=\"{}/programs/{number}{anchor}\"><title>Program {number}{origin}{role}</title><circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"6\"/><text x=\"{}\" y=\"{}\">{}</text></a>",
            escape(&url(self.run)),
            self.class(row, &record),
            c(x),
            c(y),
            c(x + 12.0),
            c(y + 4.0),
            escape(&excerpt(&label, room)),
            number = node.number,
        ))
    }

    fn label(&self, row: &Row, record: &Record) -> String {
        let node = self.families.node(row);
        let what = match node.party {
            Party::Measured => {
                let confirmed = if node.confirmed { ", confirmed" } else { "" };
                format!("{} GFLOPS{confirmed}", float(node.gflops))
            }
            Party::Rejected | Party::Infrastructure | Party::Unknown => {
                words(self.view.names.reasons.name(record.reason))
            }
        };
        let stage = match self.colour {
            Colour::Speed => String::new(),
            Colour::Stage => format!(" · stage {}", node.stage),
        };
        let techniques = record.techniques.map_or_else(String::new, |techniques| {
            format!(" · {}", heat::name(techniques))
        });
        format!(
            "{} · {what} · step {}{stage}{techniques}",
            node.number, record.step
        )
    }

    fn class(&self, row: &Row, record: &Record) -> String {
        let node = self.families.node(row);
        let reason = || self.view.names.reasons.name(record.reason);
        match (node.party, self.colour) {
            (Party::Measured, Colour::Speed) => {
                format!("h{}", shade(f64::from(node.gflops), self.top))
            }
            (Party::Measured, Colour::Stage) => of_stage(node.stage),
            (Party::Rejected, _) => "refused".to_owned(),
            (Party::Unknown, _) if reason() == UnknownCause::Asked.name() => "asked".to_owned(),
            (Party::Infrastructure | Party::Unknown, _) => "lost".to_owned(),
        }
    }

    /// Lists the colours with their meanings, as HTML.
    fn legend(&self) -> String {
        let mut legend = String::from("<ul class=\"legend\">");
        let mut add = |class: &str, words: &str| {
            legend.push_str(&format!(
                "<li><svg class=\"key\" viewBox=\"0 0 28 8\" aria-hidden=\"true\"><circle class=\"{class}\" cx=\"22\" cy=\"4\" r=\"3.5\"/></svg>{}</li>",
                escape(words)
            ));
        };
        match self.colour {
            Colour::Speed => {
                for step in 0..SHADES {
                    let at = |step: usize| number(self.top * step as f64 / SHADES as f64);
                    let words = match step + 1 {
                        SHADES => format!("≥ {} GFLOPS", at(step)),
                        next => format!("{}–{}", at(step), at(next)),
                    };
                    add(&format!("h{step}"), &words);
                }
            }
            Colour::Stage => {
                let rows = self.families.rows().iter();
                let stages: BTreeSet<u16> = rows.map(|row| self.families.node(row).stage).collect();
                // Stages of one colour share a line.
                for colour in 0..STAGES {
                    let same = stages.iter().filter(|stage| *stage % STAGES == colour);
                    let same: Vec<String> = same.map(u16::to_string).collect();
                    if !same.is_empty() {
                        let words = excerpt(&format!("stage {}", same.join(", ")), 60);
                        add(&of_stage(colour), &words);
                    }
                }
            }
        }
        add("refused", "refused");
        add("asked", "a request instead of a program");
        add("lost", "the machine failed, or unknown");
        legend.push_str("</ul>");
        legend
    }
}

/// Colours of stages in the style sheet of reports.
const STAGES: u16 = 8;

fn of_stage(stage: u16) -> String {
    format!("f{}", stage % STAGES + 1)
}
