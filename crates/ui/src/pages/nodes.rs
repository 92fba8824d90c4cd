//! The nodes of a run, by its log: noise, failures, last outcomes, attestations, time by role, dead letters.

use std::collections::BTreeMap;

use flopsmith_actors::role::recorder::{DeadLine, files};
use flopsmith_actors::role::timer::QUARANTINE;
use flopsmith_protocol::{MachineFacts, UnknownCause};
use flopsmith_report::text::{duration, excerpt, number, percent};
use flopsmith_run::local;
use flopsmith_run::summary::Facts;
use serde_json::{Map, Value};

use super::frame::{Frame, Link, counted, maybe, url, words};
use super::sheet::{NUMBER, Sheet, Sheets, TEXT, WORDS};
use super::{Site, outcome};
use crate::index::{Party, View};
use crate::query;
use crate::refusal::Refusal;
use crate::runs::Run;
use crate::totals::Totals;
use crate::watched::Snapshot;

/// Nodes that the page lists, those with the newest outcomes.
const MOST_NODES: usize = 200;
/// Attestations and dead letters that the page lists, the newest.
const MOST_LINES: usize = 50;
/// Characters of the reason of a dead letter.
const REASON: usize = 300;

/// The page of the nodes of a run.
///
/// # Errors
/// There is no such run, or its files cannot be read.
pub fn nodes(site: &Site, name: &str) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let snapshot = site.runs.outcomes(&run, site.runs.page_ends());
    let facts = run.facts();
    let mut links = Vec::new();
    if site.cluster.is_some() {
        links.push(Link::new("/cluster", "Cluster"));
    }
    let mut sheets = vec![of_nodes(&snapshot)?, roles(&facts)];
    sheets.extend([
        failures(&run, &snapshot),
        attestations(&run)?,
        letters(&run)?,
    ]);
    let page = Sheets {
        frame: Frame::of(&run, "Nodes", &snapshot).live(&run),
        links,
        lead: "Queues and live states of nodes are those of a cluster; this page tells what the run's folder knows.",
        facts: state(&run, &facts, &snapshot.totals),
        sheets,
    };
    site.show("sheets.html", &page)
}

fn state(run: &Run, facts: &Facts, totals: &Totals) -> Vec<(&'static str, String)> {
    let waited = facts.shares.by_role.get(QUARANTINE).copied();
    let waited = waited.unwrap_or_default() * facts.shares.seconds;
    let elsewhere = run.settings().is_some_and(|of| of.evaluate.workers);
    vec![
        ("Nodes with an outcome", counted(totals.nodes.len() as u64)),
        (
            "Time in quarantine",
            match elsewhere {
                // Only their own logs tell.
                true => "known to the workers alone".to_owned(),
                false => duration(waited),
            },
        ),
        (
            "Programs timed while others used the cores",
            match elsewhere {
                true => "known to the workers alone".to_owned(),
                false => counted(facts.disturbed),
            },
        ),
        ("Failures of machines", counted(totals.parties[2])),
        ("Last outcome", local::time(u64::from(totals.newest) * 1000)),
    ]
}

fn of_nodes(snapshot: &Snapshot) -> Result<Sheet, Refusal> {
    let columns = [
        ("Node", WORDS),
        ("Class", WORDS),
        ("Last outcome", WORDS),
        ("Measured", NUMBER),
        ("Refused", NUMBER),
        ("Machine failed", NUMBER),
        ("Unknown", NUMBER),
        ("Work", NUMBER),
        ("Noise", NUMBER),
        ("Noise of the worst tenth", NUMBER),
        ("Not precise", NUMBER),
    ];
    let sheet = Sheet::new("nodes", "Nodes", &columns, "No node sent an outcome yet.");
    let mut sheet = sheet.lead("Work is the time of compiling, verifying and timing. Noise is the median over measurements of the deviation of call times from their median, to within a fifth; a node with more of it than others of its class is disturbed.");
    let Some(view) = &snapshot.view else {
        return Ok(sheet);
    };
    let mut nodes: Vec<_> = snapshot.totals.nodes.iter().collect();
    nodes.sort_by_key(|(_, of)| std::cmp::Reverse(of.seconds.1));
    for (node, of) in nodes.into_iter().take(MOST_NODES) {
        let own = of.noise.count();
        let share = (own > 0).then(|| of.imprecise as f64 / own as f64);
        let [measured, refused, failed, unknown] = of.parties.map(counted);
        sheet.add(
            None,
            [
                view.names.nodes.name(*node).to_owned(),
                class(view, of.example)?,
                local::time(u64::from(of.seconds.1) * 1000),
                measured,
                refused,
                failed,
                unknown,
                duration(of.work),
                maybe(of.noise.quantile(0.5), percent),
                maybe(of.noise.quantile(0.9), percent),
                maybe(share, percent),
            ],
        );
    }
    Ok(sheet)
}

/// The machine class of an outcome; a dash if its line cannot be read.
fn class(view: &View, number: u64) -> Result<String, Refusal> {
    let class = view.record(number)?.and_then(|record| {
        let outcome = outcome(view, &record).ok()?;
        Some(outcome.machine_class.to_string())
    });
    Ok(class.unwrap_or_else(|| "–".to_owned()))
}

fn roles(facts: &Facts) -> Sheet {
    let columns = [("Role", WORDS), ("Share", NUMBER), ("Time", NUMBER)];
    let empty = "The run has not told its time yet.";
    let sheet = Sheet::new("roles", "Time by role", &columns, empty);
    let mut sheet = sheet.lead("The share of the time of all sessions in which a role held cores of the run's own process. Quarantine is time in which a timer waited for a quiet machine.");
    let mut roles: Vec<(&str, f64)> = facts
        .shares
        .by_role
        .iter()
        .map(|(role, share)| (role.as_str(), *share))
        .collect();
    if facts.shares.seconds > 0.0 {
        roles.push(("idle", facts.shares.idle));
    }
    roles.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (role, share) in roles {
        let time = duration(share * facts.shares.seconds);
        sheet.add(None, [words(role), percent(share), time]);
    }
    sheet
}

/// Failures that no program is to blame for, by reason. Requests of a policy are none.
fn failures(run: &Run, snapshot: &Snapshot) -> Sheet {
    let columns = [("Reason", WORDS), ("Number", NUMBER)];
    let empty = "No machine failed.";
    let mut sheet = Sheet::new("failures", "Failures of machines", &columns, empty);
    let Some(view) = &snapshot.view else {
        return sheet;
    };
    let base = url(run);
    let reasons = snapshot.totals.reasons.iter();
    let blameless = |party: Party| matches!(party, Party::Infrastructure | Party::Unknown);
    for (reason, of) in reasons.filter(|(_, of)| blameless(of.party)) {
        let name = view.names.reasons.name(*reason);
        if name == UnknownCause::Asked.name() {
            continue;
        }
        let link = format!("{base}/programs?{}", query::of("reason", name));
        sheet.add(Some(link), [words(name), counted(of.count)]);
    }
    sheet
}

/// The attestations of the run's machines, and what changed from one to the next of a node.
fn attestations(run: &Run) -> Result<Sheet, Refusal> {
    let columns = [
        ("Node", WORDS),
        ("Class", WORDS),
        ("Processor", WORDS),
        ("Threads", NUMBER),
        ("Peak, GFLOPS", NUMBER),
        ("Changed since the one before", TEXT),
        ("Digest", WORDS),
    ];
    let empty = "No machine attested its state yet.";
    let mut sheet = Sheet::new(
        "attestations",
        "Attestations, the newest first",
        &columns,
        empty,
    );
    let machines: Vec<MachineFacts> = run.tail(files::MACHINES)?;
    let mut before: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut rows = Vec::new();
    for machine in machines {
        let node = machine.node.to_string();
        let state: Map<String, Value> =
            serde_json::from_str(&machine.attestation_json).unwrap_or_default();
        let changed = match before.get(&node) {
            None => "the first".to_owned(),
            Some(before) => changed(before, &state),
        };
        let text = |key: &str| match state.get(key) {
            Some(Value::String(text)) => excerpt(text, 60),
            Some(other) => excerpt(&other.to_string(), 60),
            None => "–".to_owned(),
        };
        rows.push([
            node.clone(),
            machine.machine_class.to_string(),
            text("cpu_model"),
            text("threads"),
            number(machine.peak_gflops),
            changed,
            machine.attestation.short().to_owned(),
        ]);
        before.insert(node, state);
    }
    for row in rows.into_iter().rev().take(MOST_LINES) {
        sheet.add(None, row);
    }
    Ok(sheet)
}

/// The fields in which two attestations differ.
fn changed(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| before.get(*key) != after.get(*key));
    match keys.is_empty() {
        true => "nothing".to_owned(),
        false => {
            let names: Vec<String> = keys.into_iter().map(|key| words(key)).collect();
            excerpt(&names.join(", "), 200)
        }
    }
}

/// Work of the run that no node could do.
fn letters(run: &Run) -> Result<Sheet, Refusal> {
    let columns = [
        ("Number", WORDS),
        ("About", WORDS),
        ("Queue", WORDS),
        ("Delivered", NUMBER),
        ("Reason", TEXT),
    ];
    let mut sheet = Sheet::new("dead", "Dead letters", &columns, "There are none.");
    let letters: Vec<DeadLine> = run.tail(files::DEAD)?;
    for letter in letters.into_iter().rev().take(MOST_LINES) {
        sheet.add(
            None,
            [
                letter.sequence.to_string(),
                letter.id.unwrap_or_else(|| "no message".to_owned()),
                letter.subject,
                letter.attempts.to_string(),
                excerpt(&letter.reason, REASON),
            ],
        );
    }
    Ok(sheet)
}
