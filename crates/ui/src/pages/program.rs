//! One program: its source, verdict and measurement, and what differs from its parent.

use flopsmith_agent::difference::{Part, lines};
use flopsmith_agent::results::cut;
use flopsmith_protocol::{Measurement, Outcome, Verdict};
use flopsmith_report::clock::Clock;
use flopsmith_report::text::{number, percent, share};
use flopsmith_report::{heat, source};
use flopsmith_run::local;
use serde::Serialize;

use super::frame::{Frame, Link, Row, purpose, url, words};
use super::{Site, outcome, view};
use crate::index::{Raw, Record, View, hash};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::Run;

/// Bytes of a source, and of the words of a verdict, that are shown.
const MOST_TEXT: usize = 256 << 10;
/// Lines of a difference that are shown.
const MOST_LINES: usize = 3000;
/// Unchanged lines that are shown on each side of a change.
const AROUND: usize = 3;
/// Programs made from this one that are listed.
const MOST_CHILDREN: usize = 50;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    links: Vec<Link>,
    reason: String,
    detail: String,
    source: String,
    source_bytes: usize,
    is_cut: bool,
    parent: Option<Row>,
    children: Vec<Row>,
    difference: Option<Difference>,
    against: String,
    workloads: Vec<AtWorkload>,
}

/// A row of the table of workloads.
#[derive(Serialize)]
struct AtWorkload {
    name: String,
    gflops: String,
    ratio: String,
    /// An undisturbed call, the fastest one, the median and the spread.
    clock: [String; 4],
}

#[derive(Serialize)]
struct Difference {
    number: u64,
    url: String,
    is_parent: bool,
    lines: Vec<(&'static str, &'static str, String)>,
    is_cut: bool,
}

/// The page of a program by its number. The query may name another program to compare it with.
///
/// # Errors
/// There is no such run or program, the query has no meaning, or the run's files cannot be read.
pub fn program(site: &Site, name: &str, number: u64, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let ends = site.runs.page_ends();
    let snapshot = site.runs.outcomes(&run, ends);
    let attempts = site.runs.read(&run.attempts, ends);
    let base = url(&run);
    let frame = Frame::of(&run, format!("Program {number}"), &snapshot);
    let frame = frame.below(Link::new(format!("{base}/programs"), "Programs"));
    let view = view(&snapshot)?;
    let record = record(view, number)?;
    let of = outcome(view, &record)?;
    let attempts = attempts.view.as_ref();
    let (parent, children) = relatives(view, attempts, number, &record)?;
    let against = query.number::<u64>("against")?;
    let other = against.or(parent);
    let difference = match other {
        Some(other) => Some(difference(&run, view, other, parent == Some(other), &of)?),
        None => None,
    };
    let row = |number: u64| -> Result<Option<Row>, Refusal> {
        let record = view.record(number)?;
        Ok(record.map(|record| Row::new(&run, &view.names, number, &record)))
    };
    let mut rows = Vec::new();
    for child in children {
        rows.extend(row(child)?);
    }
    let measurement = of.verdict.measurement();
    let context = Context {
        frame,
        facts: facts(&of, measurement),
        links: links(&base, number, view.count, &of),
        reason: words(of.verdict.kind()),
        detail: detail(&of.verdict),
        source: source::html(&cut(&of.source, MOST_TEXT)),
        source_bytes: of.source.len(),
        is_cut: of.source.len() > MOST_TEXT,
        parent: match parent {
            Some(parent) => row(parent)?,
            None => None,
        },
        children: rows,
        difference,
        against: against.map_or_else(String::new, |number| number.to_string()),
        workloads: measurement.map(workloads).unwrap_or_default(),
    };
    site.show("program.html", &context)
}

/// The number of the program of a candidate, for links that name candidates.
///
/// # Errors
/// There is no such run or candidate, or the run's files cannot be read.
pub fn number_of(site: &Site, name: &str, candidate: &str) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let found = find(view(&snapshot)?, candidate)?;
    match found {
        Some(number) => Ok(format!("{}/programs/{number}", url(&run))),
        None => Err(Refusal::not_found(
            "the run has no outcome of this candidate yet; load the page again later",
        )),
    }
}

/// The number of the outcome of a candidate.
pub fn find(view: &View, candidate: &str) -> Result<Option<u64>, Refusal> {
    let wanted = hash(candidate);
    let mut found = None;
    view.backward(view.count, |number, bytes| {
        if Raw(bytes).id() == wanted {
            found = Some(number);
        }
        found.is_none()
    })?;
    Ok(found)
}

fn record(view: &View, number: u64) -> Result<Record, Refusal> {
    view.record(number)?.ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no program {number}; the run has {} so far, numbered from 0",
            view.count
        ))
    })
}

/// The numbers of the parent and of the children of a program, also of those that an agent made from it.
fn relatives(
    view: &View,
    attempts: Option<&View>,
    number: u64,
    record: &Record,
) -> Result<(Option<u64>, Vec<u64>), Refusal> {
    let (mut wanted, mut bred) = (record.parent, Vec::new());
    if let Some(attempts) = attempts {
        attempts.forward(0, |_, bytes| {
            let raw = Raw(bytes);
            if wanted == 0 && raw.id() == record.id {
                wanted = raw.parent();
            }
            // Each turn of a conversation is a line.
            let is_new = raw.parent() == record.id && !bred.contains(&raw.id());
            if is_new && bred.len() < MOST_CHILDREN {
                bred.push(raw.id());
            }
            true
        })?;
        bred.sort_unstable();
    }
    let (mut parent, mut children) = (None, Vec::new());
    view.forward(0, |other, bytes| {
        let raw = Raw(bytes);
        if wanted != 0 && raw.id() == wanted && other != number {
            parent = Some(other);
        }
        let is_child = raw.parent() == record.id || bred.binary_search(&raw.id()).is_ok();
        if is_child && children.len() < MOST_CHILDREN {
            children.push(other);
        }
        true
    })?;
    Ok((parent, children))
}

fn difference(
    run: &Run,
    view: &View,
    other: u64,
    is_parent: bool,
    of: &Outcome,
) -> Result<Difference, Refusal> {
    let before = outcome(view, &record(view, other)?)?;
    let (before, after) = (cut(&before.source, MOST_TEXT), cut(&of.source, MOST_TEXT));
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let lines = lines(&before, &after, AROUND);
    let shown = lines.iter().take(MOST_LINES).map(|(part, line)| {
        let (class, sign) = match part {
            Part::Both => ("both", " "),
            Part::Removed => ("removed", "−"),
            Part::Added => ("added", "+"),
            Part::LeftOut => ("left-out", " "),
        };
        (class, sign, (*line).to_owned())
    });
    Ok(Difference {
        number: other,
        url: format!("{}/programs/{other}", url(run)),
        is_parent,
        lines: shown.collect(),
        is_cut: lines.len() > MOST_LINES,
    })
}

/// Links to the programs before and after a program, of the `count` programs of the run, and to its step.
fn links(base: &str, number: u64, count: u64, of: &Outcome) -> Vec<Link> {
    let mut links = Vec::new();
    if let Some(before) = number.checked_sub(1) {
        links.push(Link::new(
            format!("{base}/programs/{before}"),
            "Program before",
        ));
    }
    if number + 1 < count {
        links.push(Link::new(
            format!("{base}/programs/{}", number + 1),
            "Program after",
        ));
    }
    links.push(Link::new(
        format!("{base}/steps/{}", of.candidate.step),
        format!("Step {}", of.candidate.step),
    ));
    links
}

fn detail(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Measured { .. } => String::new(),
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail, .. } => cut(detail, MOST_TEXT),
    }
}

fn facts(of: &Outcome, measurement: Option<&Measurement>) -> Vec<(&'static str, String)> {
    let candidate = &of.candidate;
    let seconds: f32 = of.stage_seconds.iter().sum();
    let mut facts = vec![
        ("Candidate", candidate.id.to_string()),
        ("Problem", candidate.problem.to_string()),
        ("Purpose", purpose(candidate.purpose).to_owned()),
        (
            "Step, stage",
            format!("{}, {}", candidate.step, candidate.stage),
        ),
        (
            "Sample",
            format!("{} of group {}", candidate.sample, candidate.group),
        ),
        ("Permitted", heat::name(candidate.permitted)),
        (
            "Detected",
            of.techniques
                .map_or_else(|| "detection did not run".to_owned(), heat::name),
        ),
    ];
    if let Some(policy) = candidate.policy {
        facts.push(("Policy", policy.to_string()));
    }
    if candidate.exploration {
        facts.push(("Exploration", "the sampler changed a number".to_owned()));
    }
    if let Some(bits) = of.vector_bits {
        facts.push(("Vectors in the binary", format!("{bits} bits")));
    }
    if let Some(m) = measurement {
        facts.extend(measured(m));
    }
    facts.push((
        "Work",
        format!(
            "{} s of compiling, verifying and timing",
            number(f64::from(seconds))
        ),
    ));
    facts.push(("Node", format!("{}, class {}", of.node, of.machine_class)));
    facts.push(("Decided", local::time(of.decided_unix_ms)));
    facts
}

fn measured(m: &Measurement) -> Vec<(&'static str, String)> {
    let [_, minimum, median, spread] = Clock::of(m).cells();
    let mut facts = vec![
        ("GFLOPS", number(m.gflops)),
        (
            "Ratio to the plain reference",
            format!(
                "{}, {} interval {} to {}",
                number(m.ratio),
                percent(m.interval.confidence),
                number(m.interval.low),
                number(m.interval.high)
            ),
        ),
        ("Seconds of a call", number(m.seconds_per_call)),
        ("Fastest call", minimum),
        ("Median call", median),
        ("Spread of the calls", spread),
        ("Share of the peak", share(m.share_of_peak)),
        (
            "Calls",
            format!(
                "{} in {} rounds, {} of them outlying",
                m.calls, m.rounds, m.outlying
            ),
        ),
        ("Measurement ended", words(m.stop.name())),
    ];
    if m.reused {
        facts.push((
            "Reused",
            "an identical program was measured before".to_owned(),
        ));
    }
    if let Some(sizes) = &m.sizes {
        facts.push(("Verified at", sizes.to_string()));
    }
    if let Some(certificate) = &m.certificate {
        facts.push(("Spread over layouts", percent(certificate.layout_spread)));
    }
    facts.push(("Attestation of the machine", m.attestation.to_string()));
    facts
}

fn workloads(m: &Measurement) -> Vec<AtWorkload> {
    let rows = m.workloads.iter().map(|at| AtWorkload {
        name: at.name.clone(),
        gflops: number(at.gflops),
        ratio: number(at.ratio),
        clock: Clock::of_workload(at).cells(),
    });
    rows.collect()
}
