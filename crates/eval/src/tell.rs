//! Results as text.

use flopsmith_bench::Grid;
use flopsmith_config::Money;
use flopsmith_reward::metrics::Metric;
use flopsmith_run::digits::{counted, share, significant};
use flopsmith_run::roofline::CACHED;

use crate::folder::OfProblem;
use crate::results::{Group, Judged, Number, Refusal, Results};

/// Longest example of a refusal on a line, characters.
const LONGEST: usize = 120;

/// A level of tables: its title, the heading of its names, and its groups.
type Level = (&'static str, &'static str, fn(&Judged) -> &[Group]);

/// The tables with what explains them.
pub fn lines(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for (title, grid) in grids(results) {
        if !lines.is_empty() {
            lines.extend([String::new(), title]);
        }
        lines.extend(grid.lines());
    }
    lines.push(String::new());
    lines.extend(notes(results));
    lines
}

/// All tables with their titles: over all problems, by suite and kind where there are several, and by problem.
pub fn grids(results: &Results) -> Vec<(String, Grid)> {
    let mut grids = vec![(
        "All problems".to_owned(),
        grid(results, None, |judged| std::slice::from_ref(&judged.all)),
    )];
    let several = |of: fn(&Judged) -> &[Group]| results.models.iter().any(|m| of(m).len() > 1);
    let levels: [Level; 3] = [
        ("By suite", "suite", |judged| &judged.suites[..]),
        ("By limit of the roofline", "limit", |judged| {
            &judged.kinds[..]
        }),
        ("By problem", "problem", |judged| &judged.problems[..]),
    ];
    for (title, name, of) in levels {
        if several(of) {
            grids.push((title.to_owned(), grid(results, Some(name), of)));
        }
    }
    if !results.spending.is_empty() {
        grids.push(("Requests to endpoints".to_owned(), requests(results)));
    }
    grids
}

/// The requests to endpoints, and what they cost.
fn requests(results: &Results) -> Grid {
    let rows = results.spending.iter().map(|(model, spending)| {
        vec![
            model.clone(),
            spending.requests.to_string(),
            spending.failed.to_string(),
            spending.amount.input_tokens.to_string(),
            spending.amount.output_tokens.to_string(),
            match spending.amount.cost == Money::ZERO {
                true => dash(),
                false => spending.amount.cost.to_string(),
            },
        ]
    });
    Grid {
        columns: vec![
            ("model", false),
            ("requests", true),
            ("failed", true),
            ("input tokens", true),
            ("output tokens", true),
            ("cost", true),
        ],
        rows: rows.collect(),
    }
}

fn grid(results: &Results, name: Option<&'static str>, of: fn(&Judged) -> &[Group]) -> Grid {
    let most = results.config.draws.iter().copied().max().unwrap_or(1);
    let threads = results.config.threads != [1];
    let mut columns = vec![("model", false)];
    if threads {
        columns.push(("threads", true));
    }
    match name {
        Some(name) => columns.push((name, false)),
        None => columns.push(("problems", true)),
    }
    columns.extend([
        ("answers", true),
        ("build@1", true),
        ("pass@1", true),
        ("speedup@1", true),
        ("95 % interval", false),
    ]);
    if most > 1 {
        columns.push(("speedup@k", true));
    }
    columns.extend([
        ("fast_1", true),
        ("geo. mean", true),
        ("of roof", true),
        ("SOL", true),
    ]);
    let mut rows = Vec::new();
    let mut groups: Vec<(&Judged, &Group)> = results
        .models
        .iter()
        .flat_map(|judged| of(judged).iter().map(move |group| (judged, group)))
        .collect();
    if name.is_some() {
        // The models of one group below each other.
        groups.sort_by(|a, b| a.1.name.cmp(&b.1.name));
    }
    for (judged, group) in groups {
        let number = |metric: Metric| group.number(metric);
        let part = |metric| number(metric).map_or_else(dash, |n| share(n.value));
        let times = |metric| number(metric).map_or_else(dash, |n| significant(n.value, 3));
        let mut cells = vec![judged.model.clone()];
        if threads {
            cells.push(judged.threads.to_string());
        }
        cells.push(match name {
            Some(_) => group.name.clone(),
            None => match group.counts.unasked {
                0 => group.counts.problems.to_string(),
                unasked => {
                    let all = group.counts.problems;
                    format!("{} of {all}", all - unasked)
                }
            },
        });
        cells.extend([
            group.counts.answers.to_string(),
            part(Metric::Build(1)),
            part(Metric::Pass(1)),
            times(Metric::Speedup(1)),
            number(Metric::Speedup(1)).map_or_else(dash, interval),
        ]);
        if most > 1 {
            cells.push(times(Metric::Speedup(most)));
        }
        cells.extend([
            part(Metric::Fast(1.0)),
            times(Metric::GeometricMean),
            part(Metric::ShareOfRoof),
            times(Metric::SolScore),
        ]);
        rows.push(cells);
    }
    Grid { columns, rows }
}

fn dash() -> String {
    "–".to_owned()
}

fn interval(number: Number) -> String {
    format!(
        "[{}, {}]",
        significant(number.low, 3),
        significant(number.high, 3)
    )
}

/// The problems that no prompt of the evaluation states, for the time before models answer.
pub fn unstated(problems: &[OfProblem]) -> Vec<String> {
    let unstated = problems.iter().filter_map(|p| p.unstated.as_ref());
    let lines = unstated.map(|why| format!("note: not asked: {why}"));
    lines.collect()
}

/// The lines below the tables: what the columns mean, and every answer that failed or was not evaluated.
pub fn notes(results: &Results) -> Vec<String> {
    let mut notes = vec![
        "speedup@k: expected speedup over the problem's reference of the fastest of k answers; answers that fail count 0"
            .to_owned(),
        "fast_1: share of answers that are correct and faster than the reference; geo. mean: over correct answers only"
            .to_owned(),
        "of roof, SOL: share of the roof, and score between 0.5 at the reference and 1 at the roof; answers that fail count 0"
            .to_owned(),
    ];
    if results.models.iter().any(exceeds_roof) {
        notes.push(format!("of roof above 100 %: {CACHED}"));
    }
    if let Some(most) = results.config.draws.iter().max().filter(|most| **most > 1) {
        notes.push(format!("k of the column speedup@k: {most}"));
    }
    for judged in &results.models {
        let counts = judged.all.counts;
        let threads = match results.config.threads.len() {
            1 => String::new(),
            _ => format!(" on {}", counted(judged.threads.into(), "thread")),
        };
        let failed: usize = judged.refusals.iter().map(|refusal| refusal.count).sum();
        let of = |count: usize| format!("{count} of {}", counted(counts.answers as u64, "answer"));
        if failed > 0 {
            notes.push(format!("{}{threads}: {} failed", judged.model, of(failed)));
            notes.extend(judged.refusals.iter().map(refusal));
        }
        if counts.unmeasured > 0 {
            notes.push(format!(
                "{}{threads}: {} could not be evaluated by this machine, and no number counts them; the same command evaluates them again",
                judged.model,
                of(counts.unmeasured)
            ));
            notes.extend(judged.unmeasured.iter().map(refusal));
        }
        if counts.unanswered > 0 {
            notes.push(format!(
                "{}{threads}: {} of {} are missing, and no number counts them; the same command asks for them again",
                judged.model,
                counts.unanswered,
                counted((counts.answers + counts.unanswered) as u64, "answer")
            ));
            notes.extend(judged.unanswered.iter().map(refusal));
        }
        if counts.unasked > 0 {
            let (were, them) = match counts.unasked {
                1 => ("was", "it"),
                _ => ("were", "them"),
            };
            notes.push(format!(
                "{}{threads}: {} of {} {were} not asked, as the style of the prompts (--prompt) cannot state {them}, and no number counts {them}",
                judged.model,
                counts.unasked,
                counted(counts.problems as u64, "problem"),
            ));
            let unasked = judged.unasked.iter();
            notes.extend(
                unasked.map(|of| format!("  {}: {}: {}", of.reason, of.problem, of.detail)),
            );
        }
        if let Some(mean) = judged.all.number(Metric::GeometricMean)
            && mean.problems < counts.problems
        {
            notes.push(format!(
                "{}{threads}: the geo. mean is that of the {} of {} with a correct answer",
                judged.model,
                mean.problems,
                counted(counts.problems as u64, "problem")
            ));
        }
        if counts.unconverged > 0 {
            notes.push(format!(
                "{}{threads}: the times of {} did not converge; the lower ends of their intervals count",
                judged.model,
                of(counts.unconverged)
            ));
        }
    }
    for (model, spending) in &results.spending {
        if spending.assumed > 0 {
            notes.push(format!(
                "{model}: the cost of {} is not known and counts with the most that it can be",
                counted(spending.assumed, "request")
            ));
        }
    }
    for (problem, why) in &results.troubles {
        notes.push(format!("{problem}: nothing could be evaluated: {why}"));
    }
    notes
}

/// True if a share of the roof that the tables show is above 1.
fn exceeds_roof(judged: &Judged) -> bool {
    let levels = [&judged.suites, &judged.kinds, &judged.problems];
    let groups = levels.into_iter().flatten();
    let mut groups = std::iter::once(&judged.all).chain(groups);
    groups.any(|group| {
        let share = group.number(Metric::ShareOfRoof);
        share.is_some_and(|share| share.value > 1.0)
    })
}

/// A reason with its example on one line.
fn refusal(refusal: &Refusal) -> String {
    let Refusal {
        reason,
        count,
        problem,
        sample,
        example,
    } = refusal;
    let line = example.lines().map(str::trim).find(|line| !line.is_empty());
    let line = line.map_or_else(String::new, |line| {
        let cut: String = line
            .chars()
            .filter(|c| !c.is_control())
            .take(LONGEST)
            .collect();
        format!(": {cut}")
    });
    format!("  {count} × {reason}, e.g. answer {sample} to {problem}{line}")
}
