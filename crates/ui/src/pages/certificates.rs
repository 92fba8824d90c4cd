//! The programs that were measured after the end of a run, and checks of their records.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flopsmith_protocol::{CandidateId, Digest, Measurement, Verdict};
use flopsmith_report::text::{number, percent, share};
use flopsmith_run::shell;
use flopsmith_run::summary::{Certified, Facts};
use serde::{Deserialize, Serialize};

use super::frame::{Frame, Link, url, words};
use super::program::find;
use super::{Site, outcome};
use crate::refusal::Refusal;
use crate::runs::Run;

/// The folder of a run's records.
const FOLDER: &str = "certified";
/// Bytes of the longest record that is read.
const LONGEST: u64 = 32 << 20;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    rows: Vec<Row>,
    refused: Vec<Link>,
    concluded: bool,
    command: Option<String>,
}

#[derive(Serialize)]
struct Row {
    candidate: String,
    url: String,
    program_url: String,
    gflops: String,
    ratio: String,
    interval: String,
    spread: String,
    ended: String,
    busy: String,
}

#[derive(Serialize)]
struct OneContext {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    checks: Vec<Check>,
    passed: bool,
    layouts: Vec<String>,
    program_url: String,
}

/// A check of a record.
#[derive(Serialize)]
struct Check {
    name: &'static str,
    passed: bool,
    words: String,
}

/// The certificates of a run.
///
/// # Errors
/// There is no such run.
pub fn certificates(site: &Site, name: &str) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let facts = run.facts();
    let base = url(&run);
    let candidate = |id: &CandidateId| format!("{base}/candidates/{id}");
    let refused = facts.refused.iter();
    let context = Context {
        frame: Frame::of(&run, "Certificates", &snapshot).live(&run),
        rows: facts.certified.iter().map(|of| row(&base, of)).collect(),
        refused: refused
            .map(|id| Link::new(candidate(id), id.as_str()))
            .collect(),
        concluded: facts.concluded,
        command: command(&run, &facts),
    };
    site.show("certificates.html", &context)
}

/// The command that measures the best program again; none in a run over many problems.
fn command(run: &Run, facts: &Facts) -> Option<String> {
    if facts.certified.is_empty() || !facts.problems.is_empty() {
        return None;
    }
    Some(shell::bench(&run.folder, &run.settings()?, None))
}

fn row(base: &str, of: &Certified) -> Row {
    let m = &of.measurement;
    let certificate = m.certificate.as_ref();
    Row {
        candidate: of.candidate.to_string(),
        url: format!("{base}/certificates/{}", of.candidate),
        program_url: format!("{base}/candidates/{}", of.candidate),
        gflops: number(m.gflops),
        ratio: number(m.ratio),
        interval: format!("{} to {}", number(m.interval.low), number(m.interval.high)),
        spread: certificate.map_or_else(|| "–".to_owned(), |of| percent(of.layout_spread)),
        ended: words(m.stop.name()),
        busy: of.machine_busy.clone().unwrap_or_default(),
    }
}

/// One certificate, with checks of its record.
///
/// # Errors
/// There is no such run or certificate.
pub fn certificate(site: &Site, name: &str, id: &str) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let facts = run.facts();
    let of = facts
        .certified
        .iter()
        .find(|of| of.candidate.as_str() == id);
    let of = of.ok_or_else(|| {
        Refusal::not_found("the run has no such certificate; its page of certificates lists all")
    })?;
    let base = url(&run);
    let source = match &snapshot.view {
        Some(view) => source(view, of)?,
        None => None,
    };
    let checks = checks(&run, of, source.as_deref());
    let certificate = of.measurement.certificate.as_ref();
    let layouts = certificate.map_or(&[][..], |of| of.layout_ratios.as_slice());
    let frame = Frame::of(&run, id, &snapshot);
    let context = OneContext {
        frame: frame.below(Link::new(format!("{base}/certificates"), "Certificates")),
        facts: about(of),
        passed: checks.iter().all(|check| check.passed),
        checks,
        layouts: layouts.iter().map(|ratio| number(*ratio)).collect(),
        program_url: format!("{base}/candidates/{id}"),
    };
    site.show("certificate.html", &context)
}

/// The source of a certified program in the outcomes of its run; none if its outcome is not there.
fn source(view: &crate::index::View, of: &Certified) -> Result<Option<String>, Refusal> {
    let Some(number) = find(view, of.candidate.as_str())? else {
        return Ok(None);
    };
    let Some(record) = view.record(number)? else {
        return Ok(None);
    };
    let outcome = outcome(view, &record)?;
    let was_right = matches!(outcome.verdict, Verdict::Measured { .. });
    Ok(was_right.then_some(outcome.source))
}

fn about(of: &Certified) -> Vec<(&'static str, String)> {
    let m = &of.measurement;
    let mut facts = vec![
        ("GFLOPS", number(m.gflops)),
        ("Ratio to the plain reference", number(m.ratio)),
        (
            "Interval",
            format!(
                "{} to {} ({})",
                number(m.interval.low),
                number(m.interval.high),
                percent(m.interval.confidence)
            ),
        ),
        ("Share of the peak", share(m.share_of_peak)),
        ("Measurement ended", words(m.stop.name())),
    ];
    if let Some(sizes) = &m.sizes {
        facts.push(("Verified at", sizes.to_string()));
    }
    if let Some(certificate) = &m.certificate {
        facts.push(("Spread over layouts", percent(certificate.layout_spread)));
        if let Some(seconds) = certificate.cold_seconds_per_call {
            facts.push(("Seconds of a call without cached data", number(seconds)));
        }
        if let Some(ratio) = certificate.cold_ratio {
            facts.push(("Ratio without cached data", number(ratio)));
        }
    }
    facts.push(("Attestation of the machine", m.attestation.to_string()));
    if let Some(busy) = &of.machine_busy {
        facts.push(("The machine was busy", busy.clone()));
    }
    if let Some(record) = &of.record {
        facts.push(("Record", record.clone()));
    }
    facts
}

/// The parts of a record that are checked. The samples are skipped.
#[derive(Deserialize)]
struct Record {
    source: String,
    measurement: Measurement,
    attestation_json: String,
}

fn checks(run: &Run, of: &Certified, source: Option<&str>) -> Vec<Check> {
    let check = |name, passed: bool, good: &str, bad: &str| Check {
        name,
        passed,
        words: match passed {
            true => good.to_owned(),
            false => bad.to_owned(),
        },
    };
    let record = match read(run, of) {
        Ok(record) => record,
        Err(words) => {
            return vec![Check {
                name: "Record",
                passed: false,
                words,
            }];
        }
    };
    let attested = Digest::of(record.attestation_json.as_bytes());
    vec![
        check("Record", true, "It is there and can be read.", ""),
        check(
            "Measurement",
            record.measurement == of.measurement,
            "The record has the numbers of run.json.",
            "The record has other numbers than run.json.",
        ),
        check(
            "Machine",
            attested == of.measurement.attestation,
            "The attestation in the record has the digest that the measurement names.",
            "The attestation in the record has another digest than the measurement names.",
        ),
        check(
            "Program",
            source == Some(record.source.as_str()),
            "The record has the program of the candidate's outcome.",
            match source {
                Some(_) => "The record has another program than the candidate's outcome.",
                None => "The candidate has no measured outcome in outcomes.jsonl.",
            },
        ),
    ]
}

fn read(run: &Run, of: &Certified) -> Result<Record, String> {
    let path = path(run, of).ok_or("run.json names no record in the folder of records.")?;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?
            .take(LONGEST + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| format!("It cannot be read: {error}."))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("It is longer than {LONGEST} bytes."));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("It is damaged: {error}."))
}

/// The path of a record. A path to any other place than the folder of records is none.
fn path(run: &Run, of: &Certified) -> Option<PathBuf> {
    let file = of
        .record
        .as_deref()?
        .strip_prefix(FOLDER)?
        .strip_prefix('/')?;
    // The rules of ids leave no way out of the folder.
    CandidateId::new(file.strip_suffix(".json")?).ok()?;
    Some(run.folder.join(FOLDER).join(file))
}
