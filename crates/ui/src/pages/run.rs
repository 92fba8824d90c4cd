//! One run: its numbers, curves, stages, outcomes by reason, archive and machines.

use flopsmith_actors::role::recorder::files;
use flopsmith_protocol::{MachineFacts, StageChanged, TechniqueSet};
use flopsmith_report::text::{duration, excerpt, number, percent, tick};
use flopsmith_report::{CellRow, heat};
use flopsmith_run::local;
use serde::Serialize;

use super::curves::{Points, best_so_far, correct_rate, mean_gflops, mean_reward};
use super::frame::{Frame, Link, counted, float, maybe, party, url, words};
use super::{Site, outcome};
use crate::chart::{Chart, Curve};
use crate::index::View;
use crate::query::{self, Query};
use crate::refusal::Refusal;
use crate::runs::Run;
use crate::totals::{Speed, Totals};
use crate::watched::Snapshot;

/// Problems that the page lists.
const MOST_PROBLEMS: usize = 100;
/// Stage changes and machines that the page lists, the newest.
const MOST_LINES: usize = 50;
/// Characters of the example of a reason.
const EXAMPLE: usize = 200;

#[derive(Serialize)]
struct Context {
    frame: Frame,
    facts: Vec<(&'static str, String)>,
    links: Vec<Link>,
    charts: Vec<String>,
    reasons: Vec<Reason>,
    problems: Vec<Problem>,
    more_problems: usize,
    archive: Option<Archive>,
    stages: Vec<Stage>,
    machines: Vec<Machine>,
}

#[derive(Serialize)]
struct Reason {
    name: String,
    party: &'static str,
    count: String,
    url: String,
    example: String,
    example_url: String,
}

#[derive(Serialize)]
struct Problem {
    name: String,
    url: String,
    archive_url: String,
    judged: String,
    correct: String,
    gflops: String,
    ratio: String,
    best_url: Option<String>,
}

#[derive(Serialize)]
struct Archive {
    problem: String,
    map: String,
    legend: String,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    anchor: String,
    name: String,
    tried: String,
    correct: String,
    gflops: String,
    again: bool,
    url: Option<String>,
}

#[derive(Serialize)]
struct Stage {
    step: u64,
    problem: String,
    from: u32,
    to: u32,
    reason: String,
}

#[derive(Serialize)]
struct Machine {
    node: String,
    class: String,
    problem: String,
    peak: String,
    reference: String,
}

/// The page of a run. The query may name the problem whose archive is shown.
///
/// # Errors
/// There is no such run, or its files cannot be read.
pub fn run(site: &Site, name: &str, query: &Query) -> Result<String, Refusal> {
    let run = site.runs.get(name)?;
    let ends = site.runs.page_ends();
    let snapshot = site.runs.outcomes(&run, ends);
    let training = site.runs.read(&run.training, ends);
    let totals = &snapshot.totals;
    let mut frame = Frame::of(&run, name, &snapshot).top_of_run();
    if let (None, Some(covered)) = (snapshot.covered(), training.covered()) {
        frame = frame.again(&format!(
            "The trained steps of this run are being read: {} so far. The curve of the reward is of that part.",
            percent(covered)
        ));
    }
    let base = url(&run);
    let context = Context {
        frame: frame.live(&run),
        facts: facts(&run, &snapshot),
        links: links(&base, name, snapshot.view.is_some()),
        charts: charts(totals, mean_reward(&training)?),
        reasons: match &snapshot.view {
            Some(view) => reasons(&run, view, totals)?,
            None => Vec::new(),
        },
        problems: problems(&run, &snapshot),
        more_problems: totals.problems.len().saturating_sub(MOST_PROBLEMS),
        archive: archive(&run, &snapshot, query.get("problem")),
        stages: stages(&run)?,
        machines: machines(&run)?,
    };
    site.show("run.html", &context)
}

/// Links to the pages of a run. A run without outcomes has no pages of programs yet.
fn links(base: &str, name: &str, has_outcomes: bool) -> Vec<Link> {
    let link = |page: &str, words: &str| Link::new(format!("{base}/{page}"), words);
    let mut links = Vec::new();
    if has_outcomes {
        links.push(link("programs", "Programs"));
        links.push(link("programs?sort=speed", "Fastest programs"));
        links.push(link("tree", "Tree of programs"));
    }
    links.push(link("steps", "Steps"));
    links.push(link("nodes", "Nodes"));
    links.push(link("certificates", "Certificates"));
    let alone = format!("/compare?{}", query::of("run", name));
    links.push(Link::new(alone, "Curves alone"));
    links
}

fn facts(run: &Run, snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let (facts, totals) = (run.facts(), &snapshot.totals);
    let mut shown = vec![
        ("State", run.state(&facts).to_owned()),
        ("Job", facts.job.clone()),
        (
            "Problem",
            match facts.problems.len() {
                0 => facts.problem.clone(),
                many => format!("{many} problems"),
            },
        ),
        ("Started", local::time(facts.started_unix_ms)),
        ("Time of all sessions", duration(facts.seconds)),
        ("Last outcome", local::time(u64::from(totals.newest) * 1000)),
        (
            "Last step",
            totals
                .last_step()
                .map_or_else(|| "–".to_owned(), |step| step.to_string()),
        ),
        ("Outcomes", counted(totals.count)),
        ("Correct programs", maybe(totals.correct_rate(), percent)),
        ("Failures of the machine", counted(totals.parties[2])),
    ];
    if let (1, Some(of)) = (totals.problems.len(), totals.problems.values().next())
        && let Some(best) = of.best()
    {
        let words = match of.again {
            Some(_) => "",
            None => ", measured once",
        };
        let (gflops, ratio) = (float(best.gflops), float(best.ratio));
        shown.push((
            "Best program",
            format!("{gflops} GFLOPS, {ratio}× the plain reference{words}"),
        ));
    }
    let unreadable = snapshot.view.as_ref().map_or(0, |view| view.unreadable);
    if unreadable > 0 {
        shown.push(("Unreadable lines of outcomes.jsonl", counted(unreadable)));
    }
    shown
}

fn charts(totals: &Totals, reward: Points) -> Vec<String> {
    let curve = |name: &str, points: Points| Curve {
        name: name.to_owned(),
        points,
        band: Vec::new(),
    };
    let chart = |title, floor, ceiling, format, curves: &[Curve]| {
        let chart = Chart {
            title,
            floor,
            ceiling,
            format,
            curves,
        };
        chart.html()
    };
    let zero = Some(0.0);
    let speed = match totals.problems.len() {
        0 | 1 => chart(
            "Speed, GFLOPS",
            zero,
            None,
            tick as fn(f64) -> String,
            &[
                curve("best so far", best_so_far(totals, |step| step.best_gflops)),
                curve("mean of all samples", mean_gflops(totals)),
            ],
        ),
        // Speeds of different problems cannot be compared.
        _ => chart(
            "Best ratio to the plain reference so far",
            zero,
            None,
            tick,
            &[curve("", best_so_far(totals, |step| step.best_ratio))],
        ),
    };
    let correct = curve("", correct_rate(totals));
    let reward = curve("", reward);
    let charts = [
        speed,
        chart("Correct programs", zero, Some(1.0), percent, &[correct]),
        chart("Mean reward", None, None, number, &[reward]),
    ];
    charts
        .into_iter()
        .filter(|chart| !chart.is_empty())
        .collect()
}

fn reasons(run: &Run, view: &View, totals: &Totals) -> Result<Vec<Reason>, Refusal> {
    let mut reasons: Vec<_> = totals.reasons.iter().collect();
    reasons.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.count));
    let base = url(run);
    let shown = reasons
        .into_iter()
        .map(|(reason, of)| -> Result<Reason, Refusal> {
            let name = view.names.reasons.name(*reason);
            let example = match view.record(of.example)? {
                Some(record) => detail(view, &record)?,
                None => String::new(),
            };
            Ok(Reason {
                name: words(name),
                party: party(of.party),
                count: counted(of.count),
                url: format!("{base}/programs?{}", query::of("reason", name)),
                example,
                example_url: format!("{base}/programs/{}", of.example),
            })
        });
    shown.collect()
}

/// The words of an outcome about itself, on one line.
fn detail(view: &View, record: &crate::index::Record) -> Result<String, Refusal> {
    use flopsmith_protocol::Verdict;
    Ok(match outcome(view, record)?.verdict {
        Verdict::Measured { measurement } => {
            format!("{} GFLOPS", number(measurement.gflops))
        }
        Verdict::Rejected { detail, .. }
        | Verdict::Infrastructure { detail, .. }
        | Verdict::Unknown { detail, .. } => excerpt(&detail, EXAMPLE),
    })
}

fn problems(run: &Run, snapshot: &Snapshot) -> Vec<Problem> {
    let Some(view) = &snapshot.view else {
        return Vec::new();
    };
    let base = url(run);
    let problems = snapshot.totals.problems.iter().take(MOST_PROBLEMS);
    let shown = problems.map(|(problem, of)| {
        let name = view.names.problems.name(*problem);
        let link = query::of("problem", name);
        let best = of.best();
        Problem {
            name: name.to_owned(),
            url: format!("{base}/programs?{link}&sort=speed"),
            archive_url: format!("{base}?{link}#archive"),
            judged: counted(of.judged),
            correct: counted(of.correct),
            gflops: best.map_or_else(|| "–".to_owned(), |best| float(best.gflops)),
            ratio: best.map_or_else(|| "–".to_owned(), |best| float(best.ratio)),
            best_url: best.map(|best| format!("{base}/programs/{}", best.number)),
        }
    });
    shown.collect()
}

/// The archive of the wanted problem, or of the first one.
fn archive(run: &Run, snapshot: &Snapshot, wanted: Option<&str>) -> Option<Archive> {
    let view = snapshot.view.as_ref()?;
    let problems = &view.names.problems;
    let problem = match wanted {
        Some(name) => problems.number(name)?,
        None => *snapshot.totals.problems.keys().next()?,
    };
    let cells = snapshot
        .totals
        .cells
        .range((problem, 0)..=(problem, u32::MAX));
    let cells: Vec<_> = cells
        .map(|((_, bits), cell)| (TechniqueSet::of_bits(*bits), cell))
        .collect();
    let speed = |speed: Option<Speed>| speed.map(|speed| f64::from(speed.gflops));
    let rows: Vec<CellRow> = cells
        .iter()
        .map(|(techniques, cell)| CellRow {
            techniques: *techniques,
            tried: cell.tried,
            correct: cell.correct,
            best_gflops: speed(cell.again),
            unconfirmed_gflops: speed(cell.first.filter(|_| cell.again.is_none())),
            ..CellRow::default()
        })
        .collect();
    let best = rows
        .iter()
        .filter_map(|row| row.best_gflops.or(row.unconfirmed_gflops));
    let top = best.fold(1e-9, f64::max);
    let base = url(run);
    let mut sorted = cells;
    let fastest = |cell: &crate::totals::Cell| cell.again.or(cell.first);
    let gflops = |cell| fastest(cell).map_or(-1.0, |speed| speed.gflops);
    sorted.sort_by(|one, other| gflops(other.1).total_cmp(&gflops(one.1)));
    let shown = sorted.into_iter().map(|(set, cell)| Cell {
        anchor: heat::anchor(set),
        name: heat::name(set),
        tried: counted(cell.tried),
        correct: counted(cell.correct),
        gflops: fastest(cell).map_or_else(|| "–".to_owned(), |speed| float(speed.gflops)),
        again: cell.again.is_some(),
        url: fastest(cell).map(|speed| format!("{base}/programs/{}", speed.number)),
    });
    Some(Archive {
        problem: problems.name(problem).to_owned(),
        map: heat::html(pool(run, &rows), &rows, top),
        legend: heat::legend(top),
        cells: shown.collect(),
    })
}

/// The techniques of the archive view: those of the run, unless their sets would be too many to draw.
fn pool(run: &Run, rows: &[CellRow]) -> TechniqueSet {
    let found = rows
        .iter()
        .fold(TechniqueSet::EMPTY, |pool, row| pool.union(row.techniques));
    let pool = run.settings().map(|settings| settings.sqd.techniques);
    let pool = pool.unwrap_or_default().union(found);
    match pool.len() < heat::MOST {
        true => pool,
        false => found,
    }
}

fn stages(run: &Run) -> Result<Vec<Stage>, Refusal> {
    let changes: Vec<StageChanged> = run.tail(files::STAGES)?;
    let newest = changes.into_iter().rev().take(MOST_LINES);
    let shown = newest.map(|change| Stage {
        step: change.step,
        problem: change.problem.to_string(),
        from: change.from,
        to: change.to,
        reason: change.reason,
    });
    Ok(shown.collect())
}

fn machines(run: &Run) -> Result<Vec<Machine>, Refusal> {
    let machines: Vec<MachineFacts> = run.tail(files::MACHINES)?;
    let newest = machines.into_iter().rev().take(MOST_LINES);
    let shown = newest.map(|machine| Machine {
        node: machine.node.to_string(),
        class: machine.machine_class.to_string(),
        problem: machine
            .problem
            .map_or_else(String::new, |problem| problem.to_string()),
        peak: number(machine.peak_gflops),
        reference: number(machine.reference_gflops),
    });
    Ok(shown.collect())
}
