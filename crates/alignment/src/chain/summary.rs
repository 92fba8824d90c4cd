//! The comparison of the four models: tables, verdicts and charts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flopsmith_bench::{Grid, markdown_table};
use flopsmith_eval::compare::{Verdict, of_pairs};
use flopsmith_eval::{Judged, Results};
use flopsmith_report::bars::{Bar, BarChart, BarGroup, Quantity};
use flopsmith_report::bench::BenchTable;
use flopsmith_report::evaluation::{EvaluationReport, Figures, html};
use flopsmith_reward::metrics::Metric;
use flopsmith_run::digits::{share, significant};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::MODELS;
use super::state::{Stage, replace};

/// The file of the summary.
const JSON: &str = "comparison.json";
/// The summary as a page with charts, and as tables in Markdown.
const HTML: &str = "comparison.html";
const MARKDOWN: &str = "comparison.md";

/// The pairs of models that are compared: each with the one that it was made of, and the expected order of speeds.
const PAIRS: [(&str, &str); 5] = [
    ("base", "sft"),
    ("sft", "dpa"),
    ("sft", "rlpf"),
    ("dpa", "rlpf"),
    ("base", "rlpf"),
];

/// A metric with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    value: f64,
    low: f64,
    high: f64,
}

/// A model at a set of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    model: String,
    answers: usize,
    correct: usize,
    /// Answers that this machine failed to evaluate; no metric counts them.
    unmeasured: usize,
    build: Option<Estimate>,
    pass: Option<Estimate>,
    speedup: Option<Estimate>,
    fast: Option<Estimate>,
    geometric_mean: Option<Estimate>,
}

/// The models at a task and a set of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// The task, `write` or `optimise`.
    task: String,
    /// The problems, `training` or `held_out`.
    problems: String,
    /// Their names.
    names: Vec<String>,
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
    /// Problems that could not be evaluated, with the reasons.
    troubles: BTreeMap<String, String>,
}

/// The results of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    sets: Vec<Set>,
    /// Numbers of the trainings' reports, by stage and name.
    trainings: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Row {
    fn of(judged: &Judged) -> Self {
        let counts = judged.all.counts;
        let of = |metric: Metric| {
            let number = judged.all.number(metric)?;
            Some(Estimate {
                value: number.value,
                low: number.low,
                high: number.high,
            })
        };
        Self {
            model: judged.model.clone(),
            answers: counts.answers,
            correct: counts.correct,
            unmeasured: counts.unmeasured,
            build: of(Metric::Build(1)),
            pass: of(Metric::Pass(1)),
            speedup: of(Metric::Speedup(1)),
            fast: of(Metric::Fast(1.0)),
            geometric_mean: of(Metric::GeometricMean),
        }
    }
}

impl Set {
    /// The results of an evaluation, which lies in a folder.
    ///
    /// # Errors
    /// Wrong usage: the folder's files are damaged.
    pub fn of(task: &str, problems: &str, folder: &Path, results: &Results) -> Result<Self> {
        let names = results.config.problems.iter().map(|p| p.problem.clone());
        Ok(Self {
            task: task.to_owned(),
            problems: problems.to_owned(),
            names: names.collect(),
            rows: results.models.iter().map(Row::of).collect(),
            verdicts: of_pairs(folder, &PAIRS)?,
            troubles: results.troubles.clone(),
        })
    }

    fn title(&self) -> String {
        let task = match self.task.as_str() {
            "optimise" => "Optimise the reference",
            _ => "Write from the description",
        };
        let problems = self.problems.replace('_', "-");
        format!("{task}, {} {problems} problems", self.names.len())
    }

    fn grid(&self) -> Grid {
        let part = |e: Option<Estimate>| e.map_or_else(dash, |e| share(e.value));
        let times = |e: Option<Estimate>| e.map_or_else(dash, |e| significant(e.value, 3));
        let rows = self.rows.iter().map(|row| {
            vec![
                row.model.clone(),
                row.answers.to_string(),
                part(row.build),
                part(row.pass),
                times(row.speedup),
                row.speedup.map_or_else(dash, |e| interval(e.low, e.high)),
                part(row.fast),
                times(row.geometric_mean),
            ]
        });
        Grid {
            columns: vec![
                ("model", false),
                ("answers", true),
                ("build@1", true),
                ("pass@1", true),
                ("speedup@1", true),
                ("95 % interval", false),
                ("fast_1", true),
                ("geo. mean", true),
            ],
            rows: rows.collect(),
        }
    }

    /// Sentences about the differences, and about all that is missing.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .verdicts
            .iter()
            .filter(|v| v.metric == Metric::Speedup(1).name())
            .map(verdict)
            .collect();
        let unmeasured = self.rows.iter().filter(|row| row.unmeasured > 0);
        notes.extend(unmeasured.map(|row| {
            format!(
                "{}: {} of {} answers could not be evaluated, and no number counts them",
                row.model, row.unmeasured, row.answers
            )
        }));
        let none = self.rows.iter().filter(|row| row.correct == 0);
        notes.extend(none.map(|row| format!("{}: no answer is correct", row.model)));
        let troubles = self.troubles.iter();
        notes.extend(troubles.map(|(p, why)| format!("{p}: nothing could be evaluated: {why}")));
        notes
    }
}

/// A sentence about a difference in speed.
fn verdict(verdict: &Verdict) -> String {
    let Verdict {
        a,
        b,
        difference,
        low,
        high,
        chance,
        real,
        ..
    } = verdict;
    let ends = interval(*low, *high);
    let by = significant(difference.abs(), 3);
    let chance = significant(*chance, 2);
    match (*real, *difference > 0.0) {
        (true, true) => format!(
            "{b} is faster than {a}: speedup@1 {by} more, difference {ends}, chance {chance}"
        ),
        (true, false) => format!(
            "{b} is slower than {a}: speedup@1 {by} less, difference {ends}, chance {chance}"
        ),
        (false, _) => format!(
            "{b} and {a} are not told apart: difference of speedup@1 {ends}, chance {chance}"
        ),
    }
}

fn interval(low: f64, high: f64) -> String {
    format!("[{}, {}]", significant(low, 3), significant(high, 3))
}

fn dash() -> String {
    "–".to_owned()
}

/// The numbers of a training's report that the summary shows, with their places.
const NUMBERS: [(Stage, &str, &str); 8] = [
    (Stage::Sft, "perplexity", "/training/perplexity"),
    (Stage::RewardModel, "accuracy", "/validation/accuracy"),
    (Stage::Dpa, "accuracy", "/validation/accuracy"),
    (Stage::Rlpf, "first_score", "/first_score"),
    (Stage::Rlpf, "last_score", "/last_score"),
    (Stage::Rlpf, "last_kl", "/last_kl"),
    (Stage::Rlpf, "validation_before", "/validation_before/mean"),
    (Stage::Rlpf, "validation", "/validation/mean"),
];

impl Summary {
    /// The summary of all sets, with numbers of the trainings in these folders.
    ///
    /// # Errors
    /// The report of a training cannot be read.
    pub fn of(sets: Vec<Set>, trained: &[(Stage, PathBuf)]) -> Result<Self> {
        let mut trainings: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
        for (stage, folder) in trained {
            let path = folder.join("training.json");
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let report: Value = serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged", path.display()))?;
            for (of, name, place) in NUMBERS {
                if of == *stage
                    && let Some(number) = report.pointer(place).and_then(Value::as_f64)
                {
                    let numbers = trainings.entry(stage.name().to_owned()).or_default();
                    numbers.insert(name.to_owned(), number);
                }
            }
        }
        Ok(Self { sets, trainings })
    }

    /// Reads the summary in a folder.
    ///
    /// # Errors
    /// There is none, or it is damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(JSON);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Writes the page and the tables into `whole`, and the numbers into `folder`.
    ///
    /// # Errors
    /// Files cannot be written.
    pub fn write(&self, folder: &Path, whole: &Path) -> Result<()> {
        replace(&whole.join(HTML), &html(&self.page()))?;
        replace(&whole.join(MARKDOWN), &(self.markdown().join("\n") + "\n"))?;
        // Last: with this file the stage has its result.
        let text = serde_json::to_string_pretty(self)? + "\n";
        replace(&folder.join(JSON), &text)
    }

    /// The tables with what is to be said about them.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for set in &self.sets {
            lines.push(set.title());
            lines.extend(set.grid().lines());
            lines.extend(set.notes().into_iter().map(|note| format!("  {note}")));
            lines.push(String::new());
        }
        lines.extend(self.trained());
        lines
    }

    fn markdown(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for set in &self.sets {
            lines.extend([format!("**{}**", set.title()), String::new()]);
            lines.extend(markdown_table(&set.grid()));
            lines.push(String::new());
            lines.extend(set.notes().into_iter().map(|note| format!("- {note}")));
            lines.push(String::new());
        }
        lines.extend(self.trained().into_iter().map(|note| format!("- {note}")));
        lines
    }

    /// Sentences about the trainings.
    fn trained(&self) -> Vec<String> {
        let number = |stage: Stage, name: &str| {
            let numbers = self.trainings.get(stage.name())?;
            numbers.get(name).copied()
        };
        let mut lines = Vec::new();
        if let Some(perplexity) = number(Stage::Sft, "perplexity") {
            let perplexity = significant(perplexity, 3);
            lines.push(format!(
                "sft: perplexity {perplexity} of validation answers"
            ));
        }
        for (stage, name) in [(Stage::RewardModel, "reward model"), (Stage::Dpa, "dpa")] {
            if let Some(accuracy) = number(stage, "accuracy") {
                lines.push(format!(
                    "{name}: {} of validation pairs in the right order",
                    share(accuracy)
                ));
            }
        }
        let score = |name| number(Stage::Rlpf, name);
        if let (Some(first), Some(last), Some(kl)) =
            (score("first_score"), score("last_score"), score("last_kl"))
        {
            let [first, last, kl] = [first, last, kl].map(|n| significant(n, 3));
            lines.push(format!(
                "rlpf: mean score {first} in the first steps, {last} in the last, divergence {kl} nats an answer"
            ));
        }
        if let (Some(before), Some(after)) = (score("validation_before"), score("validation")) {
            let [before, after] = [before, after].map(|n| significant(n, 3));
            lines.push(format!(
                "rlpf: mean score of validation exercises {before} before, {after} after"
            ));
        }
        lines
    }

    fn page(&self) -> EvaluationReport {
        let chart = |title: &str, quantity, of: fn(&Row) -> Option<Estimate>| BarChart {
            title: title.to_owned(),
            series: MODELS.map(str::to_owned).into(),
            groups: self
                .sets
                .iter()
                .map(|set| BarGroup {
                    name: format!("{}, {}", set.task, set.problems.replace('_', "-")),
                    bars: MODELS
                        .iter()
                        .map(|model| {
                            let mut rows = set.rows.iter();
                            let row = rows.find(|row| row.model == *model)?;
                            of(row).map(|Estimate { value, low, high }| Bar { value, low, high })
                        })
                        .collect(),
                })
                .collect(),
            quantity,
        };
        let charts = vec![
            chart("speedup@1", Quantity::Times, |row| row.speedup),
            chart("pass@1", Quantity::Share, |row| row.pass),
            chart("build@1", Quantity::Share, |row| row.build),
        ];
        let mut tables: Vec<BenchTable> = self
            .sets
            .iter()
            .map(|set| {
                let grid = set.grid();
                let columns = grid.columns.iter();
                BenchTable {
                    title: set.title(),
                    columns: columns
                        .map(|(n, is_number)| ((*n).to_owned(), *is_number))
                        .collect(),
                    rows: grid.rows,
                    notes: set.notes(),
                }
            })
            .collect();
        tables.push(BenchTable {
            title: "Trainings".to_owned(),
            notes: self.trained(),
            ..BenchTable::default()
        });
        EvaluationReport {
            title: "Performance alignment: four models".to_owned(),
            facts: Vec::new(),
            figures: vec![Figures {
                title: "The models side by side".to_owned(),
                lead: "Expected speedup over the problem's plain reference, where answers that fail count 0, and shares of answers that are correct and that build. Whiskers are 95 % intervals of a bootstrap over problems and answers.".to_owned(),
                charts,
            }],
            tables,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
