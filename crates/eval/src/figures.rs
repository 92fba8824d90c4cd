//! Results as bar charts, like the figures of Nichols et al., 2024: each metric by number of draws, by suite and by
//! problem, with a bar for each model.

use flopsmith_report::bars::{Bar, BarChart, BarGroup, MOST_GROUPS, Quantity};
use flopsmith_report::bench::BenchTable;
use flopsmith_report::evaluation::{EvaluationReport, Figures};
use flopsmith_reward::metrics::Metric;
use flopsmith_run::digits::counted;

use crate::results::{Group, Judged, Results};
use crate::tell;

/// A metric of some number of draws.
type OfDraws = fn(u32) -> Metric;

/// A chart with the name of its file, without ending.
pub struct Named {
    /// The name.
    pub file: String,
    /// The chart.
    pub chart: BarChart,
}

/// The page with all charts and tables.
pub fn page(results: &Results) -> EvaluationReport {
    let config = &results.config;
    let models = counted(config.models.len() as u64, "model");
    let problems = counted(config.problems.len() as u64, "problem");
    let figures = sections(results).into_iter().map(|(title, lead, charts)| {
        let charts = charts.into_iter().map(|named| named.chart);
        Figures {
            title,
            lead,
            charts: charts.collect(),
        }
    });
    let table = |(title, grid): (String, flopsmith_bench::Grid)| BenchTable {
        title,
        columns: grid
            .columns
            .iter()
            .map(|(name, is_number)| ((*name).to_owned(), *is_number))
            .collect(),
        rows: grid.rows,
        notes: Vec::new(),
    };
    let mut tables: Vec<BenchTable> = tell::grids(results).into_iter().map(table).collect();
    if let Some(last) = tables.last_mut() {
        last.notes = tell::notes(results);
    }
    let mut facts = vec![
        ("task".to_owned(), crate::page::word(&config.task)),
        ("temperature".to_owned(), config.temperature.to_string()),
        ("top-p".to_owned(), config.top_p.to_string()),
        ("seed".to_owned(), config.seed.to_string()),
        ("purpose".to_owned(), crate::page::word(&config.purpose)),
    ];
    facts.extend(results.machine.iter().map(|(n, v)| (n.clone(), v.clone())));
    EvaluationReport {
        title: format!("{models} on {problems}"),
        facts,
        figures: figures.collect(),
        tables,
    }
}

/// All charts, each for a file of its own.
pub fn charts(results: &Results) -> Vec<Named> {
    let sections = sections(results).into_iter();
    sections.flat_map(|(_, _, charts)| charts).collect()
}

/// Headings, leads and charts.
fn sections(results: &Results) -> Vec<(String, String, Vec<Named>)> {
    const PASS: &str = "Probability that at least one of k answers is correct, or builds. Whiskers are 95 % intervals of a bootstrap over problems and answers.";
    const SPEED: &str = "Expected speedup over the problem's plain reference of the fastest of k answers; answers that fail count 0. The dashed line is the reference.";
    let speedup: OfDraws = Metric::Speedup;
    let pass: OfDraws = Metric::Pass;
    let build: OfDraws = Metric::Build;
    let mut found = Vec::new();
    for &threads in &results.config.threads {
        let on = match results.config.threads.len() {
            1 => String::new(),
            _ => format!(" on {}", counted(threads.into(), "thread")),
        };
        let of = Of { results, threads };
        let shares = vec![
            of.by_draws("pass", &format!("pass@k{on}"), pass, Quantity::Share),
            of.by_draws("build", &format!("build@k{on}"), build, Quantity::Share),
        ];
        let speeds = vec![of.by_draws(
            "speedup",
            &format!("speedup@k{on}"),
            speedup,
            Quantity::Times,
        )];
        found.push((format!("Correct answers{on}"), PASS.to_owned(), shares));
        found.push((format!("Speed of answers{on}"), SPEED.to_owned(), speeds));
        for (name, level) in LEVELS {
            let count = of.names(level).len();
            if count < 2 {
                continue;
            }
            let mut charts = of.by_level(("speedup", speedup, Quantity::Times), (name, level), &on);
            charts.extend(of.by_level(("pass", pass, Quantity::Share), (name, level), &on));
            found.push((format!("By {name}{on}"), String::new(), charts));
        }
    }
    found
}

/// A level of groups.
type Level = fn(&Judged) -> &[Group];

const LEVELS: [(&str, Level); 2] = [
    ("suite", |judged| &judged.suites[..]),
    ("problem", |judged| &judged.problems[..]),
];

/// The results at one number of threads.
struct Of<'a> {
    results: &'a Results,
    threads: u32,
}

impl Of<'_> {
    /// The models, in the order of the configuration.
    fn models(&self) -> impl Iterator<Item = &Judged> {
        let models = self.results.models.iter();
        models.filter(move |judged| judged.threads == self.threads)
    }

    fn chart(&self, title: String, quantity: Quantity, groups: Vec<BarGroup>) -> BarChart {
        BarChart {
            title,
            series: self.models().map(|judged| judged.model.clone()).collect(),
            groups,
            quantity,
        }
    }

    fn file(&self, name: &str) -> String {
        match self.results.config.threads.len() {
            1 => name.to_owned(),
            _ => format!("{name}-{}-threads", self.threads),
        }
    }

    /// The metric over all problems, by the number of draws.
    fn by_draws(&self, name: &str, title: &str, metric: OfDraws, quantity: Quantity) -> Named {
        let groups = self.results.config.draws.iter().map(|k| BarGroup {
            name: format!("k = {k}"),
            bars: self.models().map(|j| bar(&j.all, metric(*k))).collect(),
        });
        Named {
            file: self.file(name),
            chart: self.chart(title.to_owned(), quantity, groups.collect()),
        }
    }

    /// The names of the groups of a level, each once.
    fn names(&self, level: Level) -> Vec<&str> {
        let groups = self.models().flat_map(level);
        let mut names: Vec<&str> = groups.map(|group| group.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The metric of one draw by group, in as many charts as the names need.
    fn by_level(
        &self,
        (short, metric, quantity): (&str, OfDraws, Quantity),
        (word, level): (&str, Level),
        on: &str,
    ) -> Vec<Named> {
        let names = self.names(level);
        let charts = names.len().div_ceil(MOST_GROUPS);
        let parts = names.chunks(MOST_GROUPS).enumerate();
        parts
            .map(|(number, names)| {
                let groups = names.iter().map(|name| BarGroup {
                    name: (*name).to_owned(),
                    bars: self
                        .models()
                        .map(|judged| {
                            let mut groups = level(judged).iter();
                            let group = groups.find(|group| group.name == *name);
                            group.and_then(|group| bar(group, metric(1)))
                        })
                        .collect(),
                });
                let (part, tail) = match charts {
                    1 => (String::new(), String::new()),
                    _ => (
                        format!(" ({} of {charts})", number + 1),
                        format!("-{:02}", number + 1),
                    ),
                };
                let file = self.file(&format!("{short}-by-{word}"));
                Named {
                    file: format!("{file}{tail}"),
                    chart: self.chart(
                        format!("{short}@1 by {word}{on}{part}"),
                        quantity,
                        groups.collect(),
                    ),
                }
            })
            .collect()
    }
}

/// The bar of a metric, if it is defined.
fn bar(group: &Group, metric: Metric) -> Option<Bar> {
    let number = group.number(metric)?;
    Some(Bar {
        value: number.value,
        low: number.low,
        high: number.high,
    })
}

#[cfg(test)]
mod tests {
    use flopsmith_report::bars;
    use flopsmith_report::evaluation::html;

    use super::*;
    use crate::evaluation::Troubles;
    use crate::folder::OfProblem;
    use crate::folder::tests::answer;
    use crate::outcome::State;
    use crate::results::tests::{evaluation, outcome};

    /// Model `a` has a fast and a wrong answer to the first of `problems`, and model `b` a fast one.
    fn results(problems: usize, threads: &[u32]) -> Results {
        let answers = vec![
            answer("a", 1, Some("fast")),
            answer("a", 2, None),
            answer("b", 1, Some("fast")),
        ];
        let outcomes = threads.iter().map(|threads| {
            let mut outcome = outcome("fast", State::Measured, 2f64.ln());
            outcome.threads = *threads;
            outcome
        });
        let mut evaluation = evaluation(answers, outcomes.collect());
        let first = evaluation.config.problems[0].clone();
        evaluation.config.threads = threads.to_vec();
        evaluation.config.draws = vec![1];
        evaluation
            .config
            .problems
            .extend((1..problems).map(|n| OfProblem {
                problem: format!("more_{n:02}"),
                ..first.clone()
            }));
        Results::of(&evaluation, Troubles::new())
    }

    #[test]
    fn each_model_has_a_bar_of_each_metric_with_its_interval() {
        let results = results(1, &[1]);
        let charts = charts(&results);
        let files: Vec<&str> = charts.iter().map(|named| named.file.as_str()).collect();
        assert_eq!(files, ["pass", "build", "speedup"]);
        let values = |place: usize| -> Vec<f64> {
            let bars = charts[place].chart.groups[0].bars.iter().flatten();
            bars.map(|bar| bar.value).collect()
        };
        assert_eq!(charts[0].chart.series, ["a", "b"]);
        assert_eq!(values(0), [0.5, 1.0]);
        // Four times the reference, and half of the answers.
        let speeds = values(2);
        assert!((speeds[0] - 2.0).abs() < 1e-9 && (speeds[1] - 4.0).abs() < 1e-9);
        let bar = charts[2].chart.groups[0].bars[0].unwrap_or_default();
        assert!(bar.low <= bar.value && bar.value <= bar.high, "{bar:?}");
    }

    #[test]
    fn many_problems_have_several_charts_with_names_of_their_own() {
        let results = results(8, &[1, 2]);
        let charts = charts(&results);
        let mut files: Vec<&str> = charts.iter().map(|named| named.file.as_str()).collect();
        assert!(
            files.contains(&"speedup-by-problem-1-threads-02"),
            "{files:?}"
        );
        assert!(files.contains(&"pass-by-problem-2-threads-01"), "{files:?}");
        let all = files.len();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), all);
        let of_problems = charts
            .iter()
            .filter(|named| named.file.starts_with("speedup-by-problem-1-threads"));
        let groups: usize = of_problems.map(|named| named.chart.groups.len()).sum();
        assert_eq!(groups, 8);
        // Problems without an answer have a place without a bar.
        let page = html(&page(&results));
        assert!(page.contains("more_07") && page.contains("2 models on 8 problems"));
        assert!(
            charts
                .iter()
                .any(|named| bars::file(&named.chart).is_some())
        );
    }
}
