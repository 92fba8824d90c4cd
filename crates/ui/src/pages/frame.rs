//! The frame that all pages have around their content, and the words that several of them use.

use flopsmith_report::text::{count, number, percent};
use flopsmith_run::local;
use serde::Serialize;

use crate::index::{Names, Party, Record};
use crate::query::Query;
use crate::runs::Run;
use crate::watched::Snapshot;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its address.
    pub url: String,
    /// Its text.
    pub name: String,
}

impl Link {
    /// A link.
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: name.into(),
        }
    }
}

/// The frame of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The heading.
    title: String,
    /// The pages above this one.
    trail: Vec<Link>,
    /// Where events tell that there is something new.
    events: Option<String>,
    /// True if the page is to be loaded again soon.
    again: bool,
    /// A notice about the whole page for its reader.
    notice: Option<String>,
}

impl Frame {
    /// A page right below the first one.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            trail: vec![Link::new("/", "Runs")],
            events: None,
            again: false,
            notice: None,
        }
    }

    /// The first page.
    pub fn first(title: &str) -> Self {
        Self {
            trail: Vec::new(),
            ..Self::new(title)
        }
    }

    /// A page of a run, with a notice while its outcomes are being read.
    pub fn of(run: &Run, title: impl Into<String>, snapshot: &Snapshot) -> Self {
        let mut frame = Self::new(title);
        frame.trail.push(Link::new(url(run), run.name.clone()));
        if let Some(covered) = snapshot.covered() {
            frame.again = true;
            frame.notice = Some(format!(
                "The outcomes of this run are being read: {} so far. The numbers below are of that part.",
                percent(covered)
            ));
        }
        frame
    }

    /// With a page above it.
    pub fn below(mut self, link: Link) -> Self {
        self.trail.push(link);
        self
    }

    /// Without the page of its run above it.
    pub fn top_of_run(mut self) -> Self {
        self.trail.truncate(1);
        self
    }

    /// With the events of a run.
    pub fn live(mut self, run: &Run) -> Self {
        self.events = Some(format!("{}/events", url(run)));
        self
    }

    /// With the events of a run on the first page of a list. Later pages would move away from their reader, and searches for a text
    /// take long.
    pub fn live_list(self, run: &Run, query: &Query) -> Self {
        let is_first = query.get("page").is_none_or(|page| page == "1");
        let searches = query.get("text").is_some_and(|text| !text.is_empty());
        match is_first && !searches {
            true => self.live(run),
            false => self,
        }
    }

    /// A page that is to be loaded again soon, for this reason.
    pub fn again(mut self, notice: &str) -> Self {
        self.again = true;
        self.notice = Some(notice.to_owned());
        self
    }
}

/// The address of a run.
pub fn url(run: &Run) -> String {
    format!("/runs/{}", run.name)
}

/// A program in a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    number: u64,
    url: String,
    step: u32,
    step_url: String,
    problem: String,
    techniques: String,
    reason: String,
    party: &'static str,
    note: &'static str,
    gflops: String,
    ratio: String,
    decided: String,
}

impl Row {
    /// The row of a record.
    pub fn new(run: &Run, names: &Names, number: u64, record: &Record) -> Self {
        let run = url(run);
        let is_measured = record.party == Party::Measured;
        let shown = |value: f32| match is_measured {
            true => float(value),
            false => "–".to_owned(),
        };
        Self {
            number,
            url: format!("{run}/programs/{number}"),
            step: record.step,
            step_url: format!("{run}/steps/{}", record.step),
            problem: names.problems.name(record.problem).to_owned(),
            techniques: record
                .techniques
                .map_or_else(|| "–".to_owned(), flopsmith_report::heat::name),
            reason: words(names.reasons.name(record.reason)),
            party: party(record.party),
            note: note(record),
            gflops: shown(record.gflops),
            ratio: shown(record.ratio),
            decided: local::time(u64::from(record.seconds) * 1000),
        }
    }
}

/// A note about a program in a list for its reader.
fn note(record: &Record) -> &'static str {
    match record {
        Record {
            converged: false,
            party: Party::Measured,
            ..
        } => "not precise",
        Record { reused: true, .. } => "of an identical program",
        record if record.repeats() => "measured again",
        Record {
            exploration: true, ..
        } => "exploration",
        _ => "",
    }
}

/// A number of single precision.
pub fn float(value: f32) -> String {
    number(f64::from(value))
}

/// A number that may be missing.
pub fn maybe(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

/// A count of something that may be larger than memory.
pub fn counted(value: u64) -> String {
    count(value)
}

/// A name of code as words.
pub fn words(name: &str) -> String {
    flopsmith_report::text::words(name)
}

/// The party of an outcome in words.
pub fn party(party: Party) -> &'static str {
    match party {
        Party::Measured => "measured",
        Party::Rejected => "refused",
        Party::Infrastructure => "machine failed",
        Party::Unknown => "unknown",
    }
}

/// The names of purposes for people.
pub fn purpose(purpose: flopsmith_protocol::Purpose) -> &'static str {
    use flopsmith_protocol::Purpose;
    match purpose {
        Purpose::Train => "train",
        Purpose::EvaluateStart => "evaluate before",
        Purpose::EvaluateEnd => "evaluate after",
        Purpose::Search => "search",
        Purpose::Certify => "measure again",
    }
}
