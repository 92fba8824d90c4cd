//! Two models held against each other: `flopsmith eval compare`.
//!
//! Both sides answered the same problems. Ratios of two folders were measured at different times; they are compared as
//! ratios to the baseline kernel, which ran beside the programs each time.

mod pairs;

use std::path::{Path, PathBuf};

use anyhow::Result;
use flopsmith_bench::{Grid, markdown_table};
use flopsmith_reward::metrics::{Difference, Metric, Pair, differences, holm};
use flopsmith_run::console::{data, usage};
use flopsmith_run::digits::{counted, significant};
use flopsmith_run::exit;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::Format;
use crate::folder::{Evaluation, OfProblem};
use crate::results::{Part, Programs, Side, reference};

pub use pairs::{Verdict, of_pairs};

/// Number of resamples of a comparison. The least chance that can be found is two in so many.
const RESAMPLES: usize = 10_000;
/// The chance at which a difference is real, corrected for all comparisons.
const REAL: f64 = 0.05;
/// The metrics that are compared over all problems.
const METRICS: [Metric; 4] = [
    Metric::Build(1),
    Metric::Pass(1),
    Metric::Speedup(1),
    Metric::Fast(1.0),
];

/// A model in an evaluation's folder.
struct Named {
    folder: PathBuf,
    evaluation: Evaluation,
    model: String,
}

impl Named {
    /// Reads `FOLDER` or `FOLDER#MODEL`.
    fn read(word: &str) -> Result<Self> {
        let whole = Path::new(word);
        let (folder, model) = match word.rsplit_once('#') {
            Some((folder, model)) if !whole.exists() => (Path::new(folder), Some(model)),
            _ => (whole, None),
        };
        let evaluation = Evaluation::read(folder)?;
        let names: Vec<&str> = evaluation
            .config
            .models
            .iter()
            .map(|m| m.name.as_str())
            .collect();
        let model = match (model, &names[..]) {
            (Some(model), names) if names.contains(&model) => model,
            (None, [only]) => *only,
            (named, _) => {
                let why = named.map_or_else(
                    || "several models".to_owned(),
                    |model| format!("no model `{model}`"),
                );
                let all: Vec<String> = names
                    .iter()
                    .map(|name| format!("{}#{name}", folder.display()))
                    .collect();
                return Err(usage(format!(
                    "the evaluation in {} has {why}; name one of {}",
                    folder.display(),
                    all.join(", ")
                )));
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            model: model.to_owned(),
            evaluation,
        })
    }

    fn words(&self) -> String {
        format!("{} ({})", self.model, self.folder.display())
    }

    fn problem(&self, problem: &str) -> Option<&OfProblem> {
        let mut problems = self.evaluation.config.problems.iter();
        problems.find(|p| p.problem == problem)
    }

    fn has_threads(&self, threads: u32) -> bool {
        self.evaluation.config.threads.contains(&threads)
    }
}

/// A comparison.
#[derive(Debug, Serialize)]
struct Comparison {
    threads: u32,
    /// The problem; none for all problems together.
    problem: Option<String>,
    metric: String,
    a: f64,
    b: f64,
    /// `b` less `a`, with its 95 % interval.
    difference: f64,
    low: f64,
    high: f64,
    /// The chance of so large a difference between equal models.
    chance: f64,
    /// The same, corrected for the number of comparisons.
    corrected_chance: f64,
    /// True if the difference is real.
    real: bool,
    /// Number of problems that both models have the metric for.
    problems: usize,
}

/// The comparison of two models.
#[derive(Debug, Serialize)]
struct Comparisons {
    a: String,
    b: String,
    comparisons: Vec<Comparison>,
    /// Problems and models that are left out, each with its reason.
    left_out: Vec<String>,
}

/// Compares two models and prints the differences. Returns the exit code.
///
/// # Errors
/// Wrong usage: folders without an evaluation, and evaluations that do not compare.
pub fn run(a: &str, b: &str, format: Format) -> Result<u8> {
    let (a, b) = (Named::read(a)?, Named::read(b)?);
    let compared = compared(&a, &b)?;
    match format {
        Format::Json => data(&serde_json::to_string(&compared)?),
        Format::Csv => data(csv(&compared)?.trim_end()),
        Format::Text => {
            for line in heading(&compared) {
                data(&line);
            }
            grid(&compared).lines().iter().for_each(|line| data(line));
            notes(&compared).iter().for_each(|line| data(line));
        }
        Format::Markdown => {
            let table = markdown_table(&grid(&compared));
            let mut lines = heading(&compared);
            lines.push(String::new());
            lines.extend(table);
            lines.push(String::new());
            lines.extend(notes(&compared).into_iter().map(|note| format!("- {note}")));
            lines.iter().for_each(|line| data(line));
        }
    }
    Ok(exit::OK)
}

fn compared(a: &Named, b: &Named) -> Result<Comparisons> {
    same_settings(a, b)?;
    let ours = &a.evaluation.config;
    let common: Vec<(&OfProblem, &OfProblem)> = ours
        .problems
        .iter()
        .filter_map(|problem| Some((problem, b.problem(&problem.problem)?)))
        .collect();
    let mut left_out = Vec::new();
    for (one, other) in [(a, b), (b, a)] {
        let problems = one.evaluation.config.problems.iter();
        let alone = problems.filter(|p| other.problem(&p.problem).is_none());
        left_out.extend(alone.map(|p| format!("{}: only {} answered it", p.problem, one.words())));
    }
    if common.is_empty() {
        return Err(usage(format!(
            "{} and {} answered no common problem",
            a.words(),
            b.words()
        )));
    }
    let threads: Vec<u32> = ours
        .threads
        .iter()
        .copied()
        .filter(|t| b.has_threads(*t))
        .collect();
    if threads.is_empty() {
        return Err(usage(format!(
            "{} and {} were evaluated with different numbers of threads; evaluate one of them again with the other's --threads",
            a.words(),
            b.words()
        )));
    }
    let mut found = Vec::new();
    for threads in threads {
        let mut parts: Vec<(&str, Part, Part)> = Vec::new();
        for (problem, other) in &common {
            same_problem(a, b, problem, other, threads)?;
            let id = problem.problem.as_str();
            // One reference for both: that of either folder was measured at another time.
            let reference = reference(&a.evaluation, id, threads)
                .or_else(|| reference(&b.evaluation, id, threads));
            let mut programs = Programs::default();
            // Within one folder identical programs have one measurement.
            let second = usize::from(!same_folder(a, b));
            let mut part = |named: &Named, number| {
                let side = Side {
                    evaluation: &named.evaluation,
                    number,
                    model: &named.model,
                };
                side.part(problem, threads, reference, &mut programs)
            };
            parts.push((id, part(a, 0), part(b, second)));
        }
        for (id, a, b) in &parts {
            for part in [a, b] {
                if part.is_empty() {
                    left_out.push(format!("{id}: no answer of one model was evaluated"));
                }
            }
        }
        let pairs: Vec<(&str, Pair<'_>)> = parts
            .iter()
            .map(|(id, a, b)| {
                let (a, b) = (&a.samples, &b.samples);
                (*id, Pair { a, b })
            })
            .collect();
        found.extend(of_threads(threads, &pairs, ours.seed));
    }
    let chances: Vec<f64> = found.iter().map(|c| c.chance).collect();
    for (comparison, corrected) in found.iter_mut().zip(holm(&chances)) {
        comparison.corrected_chance = corrected;
        comparison.real = corrected <= REAL;
    }
    left_out.sort();
    left_out.dedup();
    Ok(Comparisons {
        a: a.words(),
        b: b.words(),
        comparisons: found,
        left_out,
    })
}

/// All comparisons at a number of threads: each metric over all problems, and the speedup for each of several problems.
fn of_threads(threads: u32, pairs: &[(&str, Pair<'_>)], seed: u64) -> Vec<Comparison> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all: Vec<Pair<'_>> = pairs.iter().map(|(_, pair)| *pair).collect();
    let over_all = differences(&all, &METRICS, RESAMPLES, &mut rng);
    let mut found: Vec<Comparison> = METRICS
        .iter()
        .zip(over_all)
        .filter_map(|(metric, difference)| Some(comparison(threads, None, *metric, &difference?)))
        .collect();
    if pairs.len() > 1 {
        for (id, pair) in pairs {
            let metric = Metric::Speedup(1);
            let difference = differences(&[*pair], &[metric], RESAMPLES, &mut rng);
            let difference = difference.into_iter().flatten();
            found.extend(difference.map(|d| comparison(threads, Some(*id), metric, &d)));
        }
    }
    found
}

fn comparison(
    threads: u32,
    problem: Option<&str>,
    metric: Metric,
    difference: &Difference,
) -> Comparison {
    Comparison {
        threads,
        problem: problem.map(str::to_owned),
        metric: metric.name(),
        a: difference.a,
        b: difference.b,
        difference: difference.difference,
        low: difference.low,
        high: difference.high,
        chance: difference.chance,
        corrected_chance: 1.0,
        real: false,
        problems: difference.problems,
    }
}

fn same_folder(a: &Named, b: &Named) -> bool {
    let whole = |named: &Named| {
        let folder = &named.folder;
        folder.canonicalize().unwrap_or_else(|_| folder.clone())
    };
    whole(a) == whole(b)
}

/// Refuses models that had another task or were measured by another standard.
fn same_settings(a: &Named, b: &Named) -> Result<()> {
    let (ours, theirs) = (&a.evaluation.config, &b.evaluation.config);
    let settings = [
        ("task", ours.task == theirs.task),
        ("purpose", ours.purpose == theirs.purpose),
        ("method", ours.method == theirs.method),
        ("sanitize", ours.sanitize == theirs.sanitize),
    ];
    let differ: Vec<&str> = settings
        .iter()
        .filter(|(_, same)| !same)
        .map(|(name, _)| *name)
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    Err(usage(format!(
        "{} and {} do not compare: their evaluations differ in {}; evaluate one of them again with the other's options",
        a.words(),
        b.words(),
        differ.join(", ")
    )))
}

/// Refuses a problem whose definition, shown program, permitted techniques or machine differ.
fn same_problem(
    a: &Named,
    b: &Named,
    ours: &OfProblem,
    theirs: &OfProblem,
    threads: u32,
) -> Result<()> {
    let id = &ours.problem;
    let refuse = |why: String| {
        Err(usage(format!(
            "{} and {} do not compare at {id}: {why}; evaluate one of them again",
            a.words(),
            b.words()
        )))
    };
    if ours.digest != theirs.digest {
        return refuse("its definition, or the choice of its workloads, is another one".into());
    }
    if ours.program != theirs.program {
        return refuse("the models were to optimise different programs (--program)".into());
    }
    if ours.permitted != theirs.permitted {
        return refuse(format!(
            "programs might use {} in one evaluation and {} in the other",
            ours.permitted.words(),
            theirs.permitted.words()
        ));
    }
    let facts = |named: &Named| named.evaluation.facts(id, threads);
    if let (Some(ours), Some(theirs)) = (facts(a), facts(b))
        && let Some((what, one, other)) = ours.differing(&theirs, true).first()
    {
        return refuse(format!(
            "{what} is `{one}` in one evaluation and `{other}` in the other"
        ));
    }
    Ok(())
}

fn heading(compared: &Comparisons) -> Vec<String> {
    vec![format!("A: {}", compared.a), format!("B: {}", compared.b)]
}

fn grid(compared: &Comparisons) -> Grid {
    let all = &compared.comparisons;
    let threads = all.iter().any(|c| c.threads != 1);
    let mut columns = vec![("problem", false)];
    if threads {
        columns.push(("threads", true));
    }
    columns.extend([
        ("metric", false),
        ("A", true),
        ("B", true),
        ("B − A", true),
        ("95 % interval", false),
        ("chance", true),
        ("better", false),
    ]);
    let rows = all.iter().map(|c| {
        let mut cells = vec![c.problem.clone().unwrap_or_else(|| "all".into())];
        if threads {
            cells.push(c.threads.to_string());
        }
        let three = |value: f64| significant(value, 3);
        cells.extend([
            c.metric.clone(),
            three(c.a),
            three(c.b),
            three(c.difference),
            format!("[{}, {}]", three(c.low), three(c.high)),
            significant(c.corrected_chance, 2),
            verdict(c).to_owned(),
        ]);
        cells
    });
    Grid {
        rows: rows.collect(),
        columns,
    }
}

fn verdict(comparison: &Comparison) -> &'static str {
    match (comparison.real, comparison.difference > 0.0) {
        (false, _) => "not told apart",
        (true, true) => "B",
        (true, false) => "A",
    }
}

fn notes(compared: &Comparisons) -> Vec<String> {
    let mut notes = vec![format!(
        "chance: of so large a difference between equal models, corrected for {} (Holm); a difference is real at 5 % or less",
        counted(compared.comparisons.len() as u64, "comparison")
    )];
    let out = compared.left_out.iter();
    notes.extend(out.map(|why| format!("not compared: {why}")));
    notes
}

fn csv(compared: &Comparisons) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for comparison in &compared.comparisons {
        writer.serialize(comparison)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[cfg(test)]
mod tests;
