//! The live state of a cluster, as `flopsmith top` and `flopsmith dead list` tell it.

use flopsmith_report::text::{duration, excerpt};
use flopsmith_run::cluster::{Node, Queue, Run};
use flopsmith_run::local;

use super::Site;
use super::frame::{Frame, counted, url};
use super::sheet::{NUMBER, Sheet, Sheets, TEXT, WORDS};
use crate::cluster::Seen;
use crate::refusal::Refusal;

/// Characters of the reason of a dead letter.
const REASON: usize = 300;
/// Rows of runs and their problems.
const MOST_ROWS: usize = 100;

/// The page of the cluster. It is to be loaded again after two seconds.
///
/// # Errors
/// The window was started without a broker.
pub fn cluster(site: &Site) -> Result<String, Refusal> {
    let Some(cluster) = &site.cluster else {
        return Err(Refusal::not_found(
            "this window shows no cluster; start it with --nats URL, the address of the cluster's NATS server",
        ));
    };
    let state = cluster.state();
    let notice = match (&state.seen, &state.error) {
        (Some(_), _) => String::new(),
        (None, Some(error)) => format!("The cluster cannot be seen: {error}"),
        (None, None) => "The state of the cluster is being read.".to_owned(),
    };
    let frame = Frame::new("Cluster").again(&notice);
    let mut page = Sheets {
        frame,
        links: Vec::new(),
        lead: "Nodes are found in the newest outcomes. A node in quarantine hands its work to others until its machine is quiet, so its silence grows; its log tells why.",
        facts: Vec::new(),
        sheets: Vec::new(),
    };
    if let Some(seen) = &state.seen {
        page.facts = facts(seen);
        page.sheets = vec![queues(seen), nodes(seen), runs(site, seen), letters(seen)];
    }
    site.show("sheets.html", &page)
}

fn facts(seen: &Seen) -> Vec<(&'static str, String)> {
    let board = &seen.board;
    let mut facts = vec![
        (
            "Age of this state",
            duration(seen.at.elapsed().as_secs_f64()),
        ),
        ("Version of the NATS server", board.server.clone()),
        ("Outcomes kept", counted(board.outcomes)),
        ("Dead letters", counted(board.dead_letters)),
    ];
    for (kind, name) in [
        ("measured", "Measured in the last minute"),
        ("rejected", "Refused in the last minute"),
        ("infrastructure", "Failures of machines in the last minute"),
        ("unknown", "Unknown in the last minute"),
    ] {
        let count = board.verdicts.get(kind).copied().unwrap_or_default();
        facts.push((name, counted(count)));
    }
    facts
}

fn queues(seen: &Seen) -> Sheet {
    let empty = "No queue has had work.";
    let mut sheet = Sheet::of("queues", "Queues", &Queue::COLUMNS, empty);
    for queue in &seen.board.queues {
        sheet.add(None, queue.cells());
    }
    sheet
}

fn nodes(seen: &Seen) -> Sheet {
    let empty = "No node sent an outcome in the last ten minutes.";
    let sheet = Sheet::of("nodes", "Nodes", &Node::COLUMNS, empty);
    let mut sheet = sheet.lead("Silent is the time since the last outcome, best the fastest program in GFLOPS. Noise is the median deviation of call times in the newest measurements.");
    for node in &seen.board.nodes {
        sheet.add(None, node.cells());
    }
    sheet
}

fn runs(site: &Site, seen: &Seen) -> Sheet {
    let mut sheet = Sheet::of("runs", "Runs", &Run::COLUMNS, "No run is known.");
    let mut rows = seen.board.runs.iter().flat_map(|run| {
        // The folder of the run may be on another machine.
        let known = site.runs.get(&run.run).ok();
        let mut own = known.map(|known| url(&known));
        run.rows().map(move |row| (own.take(), row))
    });
    for (own, row) in rows.by_ref().take(MOST_ROWS) {
        sheet.add(own, row);
    }
    match rows.next() {
        Some(_) => sheet.lead("Only the first 100 rows are shown; `flopsmith top` prints all."),
        None => sheet,
    }
}

fn letters(seen: &Seen) -> Sheet {
    let columns = [
        ("number", WORDS),
        ("since", WORDS),
        ("queue", WORDS),
        ("about", WORDS),
        ("delivered", NUMBER),
        ("reason", TEXT),
    ];
    let sheet = Sheet::new("dead", "Dead letters", &columns, "There are none.");
    let mut sheet =
        sheet.lead("The newest messages that no worker could finish. `flopsmith dead show` prints one, and `flopsmith dead retry` gives it out again.");
    for letter in &seen.letters {
        sheet.add(
            None,
            [
                letter.number.to_string(),
                local::time(letter.died_unix_ms),
                letter.queue.clone(),
                letter.about.clone().unwrap_or_else(|| "no message".into()),
                letter.attempts.to_string(),
                excerpt(&letter.reason, REASON),
            ],
        );
    }
    sheet
}
