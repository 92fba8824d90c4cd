//! Several runs beside each other. Runs of one configuration that differ in their seeds are drawn as a mean with a band.

use std::collections::BTreeMap;

use flopsmith_report::text::{number, percent, tick};
use serde::Serialize;

use super::Site;
use super::curves::{Points, best_so_far, correct_rate, mean_reward};
use super::frame::{Frame, counted, float, maybe, url};
use crate::chart::{Chart, Curve, MOST_CURVES, mean};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::runs::Run;
use crate::totals::Totals;

/// Most runs that are compared.
const MOST: usize = 16;

/// Settings in which runs of one configuration may differ.
const OWN: [&str; 3] = ["seed", "budget_seconds", "nats"];

#[derive(Serialize)]
struct Context {
    frame: Frame,
    charts: Vec<String>,
    rows: Vec<Row>,
    left_out: usize,
    grouped: bool,
    /// Number of curves in a chart, if there are more.
    most_curves: Option<usize>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    url: String,
    group: String,
    seed: String,
    steps: String,
    outcomes: String,
    correct: String,
    best: String,
}

/// The data of a run that curves are made of.
struct Compared {
    name: String,
    /// The configuration without what differs between seeds.
    configuration: String,
    seed: String,
    totals: std::sync::Arc<Totals>,
    reward: Points,
}

/// The curves of the runs that the query names.
///
/// # Errors
/// The query names no run, or one that is not there.
pub fn compare(site: &Site, query: &Query) -> Result<String, Refusal> {
    let mut names: Vec<&str> = query.all("run").collect();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let left_out = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    if names.is_empty() {
        return Err(Refusal::malformed(
            "no run is chosen; tick runs on the first page, and press Compare",
        ));
    }
    let mut frame = Frame::new("Compare runs");
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    let ends = site.runs.page_ends();
    for name in names {
        let run = site.runs.get(name)?;
        let snapshot = site.runs.outcomes(&run, ends);
        let training = site.runs.read(&run.training, ends);
        if snapshot.covered().is_some() || training.covered().is_some() {
            frame = frame.again(
                "The outcomes or the trained steps of some runs are being read; the curves are of what was read so far.",
            );
        }
        let (configuration, seed) = configuration(&run);
        all.push(Compared {
            name: run.name.clone(),
            configuration,
            seed,
            totals: snapshot.totals,
            reward: mean_reward(&training)?,
        });
        rows.push(url(&run));
    }
    let groups = grouped(&all);
    let title = |of: &Compared| {
        let group = groups
            .iter()
            .find(|(_, runs)| runs.iter().any(|run| run.name == of.name));
        group.map_or_else(String::new, |(title, _)| title.clone())
    };
    let rows = all
        .iter()
        .zip(rows)
        .map(|(of, url)| row(of, url, title(of)));
    let context = Context {
        frame,
        charts: charts(&groups),
        rows: rows.collect(),
        left_out,
        grouped: groups.len() < all.len(),
        most_curves: (groups.len() > MOST_CURVES).then_some(MOST_CURVES),
    };
    site.show("compare.html", &context)
}

/// The configuration of a run without what its seed may differ in, and its seed.
fn configuration(run: &Run) -> (String, String) {
    let text = flopsmith_config::read_text(&run.folder.join("config.toml")).unwrap_or_default();
    let Ok(mut table) = text.parse::<toml::Table>() else {
        return (run.name.clone(), String::new());
    };
    let seed = table.get("seed").map(toml::Value::to_string);
    for own in OWN {
        table.remove(own);
    }
    (table.to_string(), seed.unwrap_or_default())
}

type Group<'a> = (String, Vec<&'a Compared>);

/// The runs by configuration, in the order of the first run of each.
fn grouped(all: &[Compared]) -> Vec<Group<'_>> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in all {
        let place = *places.entry(&run.configuration).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.1.push(run),
            None => groups.push((run.name.clone(), vec![run])),
        }
    }
    for (title, runs) in &mut groups {
        if runs.len() > 1 {
            let others = flopsmith_report::text::counted(runs.len() as u64 - 1, "more seed");
            *title = format!("{title} and {others}");
        }
    }
    groups
}

fn charts(groups: &[Group<'_>]) -> Vec<String> {
    let curves = |of: &dyn Fn(&Compared) -> Points| {
        let curves = groups.iter().map(|(title, runs)| match runs[..] {
            [run] => Curve {
                name: title.clone(),
                points: of(run),
                band: Vec::new(),
            },
            _ => {
                let all: Vec<Points> = runs.iter().map(|run| of(run)).collect();
                mean(title.clone(), &all)
            }
        });
        let curves = curves.filter(|curve| !curve.points.is_empty());
        curves.take(MOST_CURVES).collect::<Vec<_>>()
    };
    let chart = |title, floor, ceiling, format, curves: Vec<Curve>| {
        let chart = Chart {
            title,
            floor,
            ceiling,
            format,
            curves: &curves,
        };
        chart.html()
    };
    let zero = Some(0.0);
    let charts = [
        chart(
            "Best ratio to the plain reference so far",
            zero,
            None,
            tick as fn(f64) -> String,
            curves(&|run| best_so_far(&run.totals, |step| step.best_ratio)),
        ),
        chart(
            "Best GFLOPS so far",
            zero,
            None,
            tick,
            curves(&|run| best_so_far(&run.totals, |step| step.best_gflops)),
        ),
        chart(
            "Correct programs",
            zero,
            Some(1.0),
            percent,
            curves(&|run| correct_rate(&run.totals)),
        ),
        chart(
            "Mean reward",
            None,
            None,
            number,
            curves(&|run| run.reward.clone()),
        ),
    ];
    charts
        .into_iter()
        .filter(|chart| !chart.is_empty())
        .collect()
}

fn row(of: &Compared, url: String, group: String) -> Row {
    let totals = &of.totals;
    let problems = totals.problems.len();
    let best = totals.problems.values().next().and_then(|of| of.best());
    Row {
        name: of.name.clone(),
        url,
        group,
        seed: of.seed.clone(),
        steps: counted(totals.steps.len() as u64),
        outcomes: counted(totals.count),
        correct: maybe(totals.correct_rate(), percent),
        best: match best {
            _ if problems > 1 => format!("{} of {problems} solved", totals.solved()),
            Some(best) => format!("{} GFLOPS, {}×", float(best.gflops), float(best.ratio)),
            None => "–".into(),
        },
    }
}
