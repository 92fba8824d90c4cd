//! Results as CSV and as Markdown.

use anyhow::Result;
use flopsmith_bench::markdown_table;

use crate::results::{Group, Judged, Results};
use crate::tell;

/// The columns of the CSV file.
const COLUMNS: [&str; 13] = [
    "model",
    "threads",
    "level",
    "name",
    "metric",
    "value",
    "low",
    "high",
    "problems",
    "answers",
    "correct",
    "unmeasured",
    "unasked",
];

/// A row for each number; a metric that is not defined has no value.
///
/// # Errors
/// None in practice: the rows are written to memory.
pub fn csv(results: &Results) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for judged in &results.models {
        let levels: [(&str, &[Group]); 4] = [
            ("all", std::slice::from_ref(&judged.all)),
            ("suite", &judged.suites),
            ("kind", &judged.kinds),
            ("problem", &judged.problems),
        ];
        for (level, groups) in levels {
            for group in groups {
                for row in rows(results, judged, level, group) {
                    writer.write_record(row)?;
                }
            }
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn rows(results: &Results, judged: &Judged, level: &str, group: &Group) -> Vec<[String; 13]> {
    let metrics = results.metrics(judged.threads).into_iter();
    metrics
        .map(|metric| {
            let number = group.number(metric);
            let of = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
            [
                judged.model.clone(),
                judged.threads.to_string(),
                level.to_owned(),
                group.name.clone(),
                metric.name(),
                of(number.map(|n| n.value)),
                of(number.map(|n| n.low)),
                of(number.map(|n| n.high)),
                number.map_or(0, |n| n.problems).to_string(),
                group.counts.answers.to_string(),
                group.counts.correct.to_string(),
                group.counts.unmeasured.to_string(),
                group.counts.unasked.to_string(),
            ]
        })
        .collect()
}

/// The tables, with machine and settings.
pub fn markdown(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for (title, grid) in tell::grids(results) {
        lines.extend([format!("**{title}**"), String::new()]);
        lines.extend(markdown_table(&grid));
        lines.push(String::new());
    }
    // Examples are text that a model wrote or caused, so they stand in a block that shows them as they are.
    lines.push("```text".to_owned());
    let notes = tell::notes(results).into_iter();
    lines.extend(notes.map(|note| note.replace("```", "'''")));
    lines.push("```".to_owned());
    lines.push(String::new());
    let config = &results.config;
    let machine = results.machine.iter();
    let mut about: Vec<String> = machine
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    about.push(format!(
        "task: {}, temperature {}, top-p {}, seed {}, purpose {}",
        word(&config.task),
        config.temperature,
        config.top_p,
        config.seed,
        word(&config.purpose)
    ));
    about.push(format!("Flopsmith {}", results.flopsmith));
    lines.extend(about.into_iter().map(|line| format!("- {line}")));
    lines
}

/// The word of a setting in files.
pub(crate) fn word(setting: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(setting).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::evaluation::Troubles;
    use crate::folder::tests::answer;
    use crate::outcome::State;
    use crate::results::tests::{evaluation, outcome};

    fn results() -> Results {
        let answers = vec![
            answer("a", 1, Some("fast")),
            answer("a", 2, None),
            answer("b", 1, Some("wrong")),
        ];
        let mut wrong = outcome("wrong", State::Rejected, 0.0);
        wrong.detail = "\n```|evil|\u{7}\nsecond line".into();
        let outcomes = vec![outcome("fast", State::Measured, 0.0), wrong];
        let troubles = Troubles::from([("lost".to_owned(), "no memory".to_owned())]);
        Results::of(&evaluation(answers, outcomes), troubles)
    }

    #[test]
    fn csv_has_a_row_for_each_metric_of_each_level() {
        let results = results();
        let text = csv(&results).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
        let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
        // Two models, four levels with a group each.
        assert_eq!(rows.len(), 2 * 4 * results.metrics(1).len());
        let found = |model: &str, metric: &str| {
            let mut rows = rows.iter();
            let row = rows.find(|r| &r[0] == model && &r[2] == "problem" && &r[4] == metric);
            row.unwrap()[5].to_owned()
        };
        assert_eq!(found("a", "pass@1"), "0.5");
        assert_eq!(found("b", "geometric_mean_speedup"), "");
    }

    #[test]
    fn a_share_above_the_roof_is_explained() {
        let told = |share: f64| {
            let mut fast = outcome("fast", State::Measured, 0.0);
            fast.reference.share_of_roof = Some(share);
            let answers = vec![answer("a", 1, Some("fast"))];
            let results = Results::of(&evaluation(answers, vec![fast]), Troubles::new());
            tell::lines(&results).join("\n")
        };
        // The program is half as fast as the reference.
        let explained = "of roof above 100 %";
        assert!(told(9.0).contains(explained), "{}", told(9.0));
        assert!(!told(0.1).contains(explained), "{}", told(0.1));
    }

    #[test]
    fn tables_name_every_answer_that_failed() {
        let results = results();
        let text = tell::lines(&results).join("\n");
        for part in [
            "a: 1 of 2 answers failed",
            "1 × format, e.g. answer 2 to dot",
            "1 × wrong_result, e.g. answer 1 to dot: ```|evil|",
            "lost: nothing could be evaluated: no memory",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            !text.contains('\u{7}') && !text.contains("second line"),
            "{text}"
        );
        let page = markdown(&results);
        assert_eq!(
            page.iter().filter(|line| line.starts_with("```")).count(),
            2
        );
        assert!(
            page.iter().any(|line| line.contains("temperature 0.2")),
            "{page:?}"
        );
    }
}
