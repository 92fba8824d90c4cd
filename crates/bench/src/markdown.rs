//! Results as tables in Markdown, to paste into an issue or a pull request.

use crate::legend::{legend, of_all_sizes};
use crate::outputs::AtSize;
use crate::rows::Row;
use crate::table::{Grid, grid, refusals};
use crate::{Order, crossover, page, workloads};

/// Everything that `--format markdown` prints, as one text.
pub fn page(order: &Order, results: &[AtSize]) -> String {
    let lines = match results {
        [one] if order.sizes.is_empty() => of_one_size(one, order),
        several => {
            let mut lines = vec![heading(order), String::new()];
            lines.extend(several.iter().flat_map(|result| of_a_size(result, order)));
            lines.extend(after_all_sizes(several, order));
            lines
        }
    };
    lines.join("\n") + "\n"
}

/// True if a file begins like such a text.
pub fn is_own(begin: &[u8]) -> bool {
    begin.starts_with(b"**")
}

/// A table with a heading, its legend, and the machine.
pub fn of_one_size(result: &AtSize, order: &Order) -> Vec<String> {
    let against = against(order);
    let mut lines = vec![heading(order), String::new()];
    lines.extend(table(&grid(&result.rows, against)));
    if let Some(each) = workloads::grid(&result.rows) {
        lines.extend([String::new(), "**Workloads**".to_owned(), String::new()]);
        lines.extend(table(&each));
    }
    let mut notes = refusals(&result.rows);
    if result
        .rows
        .iter()
        .any(|row| row.done.verdict.measurement().is_some())
    {
        notes.extend(legend(&result.rows, against));
    }
    lines.extend(end(order, std::slice::from_ref(result), notes));
    lines
}

/// The heading and the table of one of several sizes.
pub fn of_a_size(result: &AtSize, order: &Order) -> Vec<String> {
    let mut lines = vec![
        format!("**{}**", text(&result.problem.timed_size())),
        String::new(),
    ];
    lines.extend(table(&grid(&result.rows, against(order))));
    lines.push(String::new());
    lines
}

/// The end of the tables of several sizes.
pub fn after_all_sizes(results: &[AtSize], order: &Order) -> Vec<String> {
    let mut lines = Vec::new();
    let leads = crossover::leads(results);
    if !leads.is_empty() {
        lines.extend(["**Fastest by size**".to_owned(), String::new()]);
        lines.extend(table(&crossover::grid(&leads)));
    }
    let rows: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
    let mut notes: Vec<String> = Vec::new();
    for line in results.iter().flat_map(|result| refusals(&result.rows)) {
        if !notes.contains(&line) {
            notes.push(line);
        }
    }
    if rows
        .iter()
        .any(|row| row.done.verdict.measurement().is_some())
    {
        notes.extend(of_all_sizes(&rows, against(order)));
    }
    lines.extend(end(order, results, notes));
    lines
}

/// The title of all tables.
pub fn heading(order: &Order) -> String {
    let threads: Vec<String> = order.threads.iter().map(u32::to_string).collect();
    let plural = if order.threads == [1] { "" } else { "s" };
    let size = match order.sizes.len() {
        0 => format!(" at {}", order.problem.timed_size()),
        _ => String::new(),
    };
    format!(
        "**{}{} on {} thread{plural}**",
        text(order.problem.id.as_str()),
        text(&size),
        threads.join(", ")
    )
}

/// The comparison with a saved result, the legend, and the machine.
fn end(order: &Order, results: &[AtSize], notes: Vec<String>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut notes = notes;
    if let Some(compare) = &order.compare {
        let rows: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
        let (grid, of_saved) = compare.grid(&rows);
        lines.extend([
            String::new(),
            format!("**Compared with {}**", compare.title()),
            String::new(),
        ]);
        lines.extend(table(&grid));
        notes.extend(of_saved);
    }
    lines.push(String::new());
    lines.extend(notes.iter().map(|note| format!("- {}", text(note))));
    let facts = page::facts(order, results);
    lines.extend(facts.iter().map(|(name, value)| match name.as_str() {
        "flags" => format!("- {name}: `{}`", value.replace('`', "'")),
        _ => format!("- {name}: {}", text(value)),
    }));
    lines
}

fn against<'a>(order: &'a Order<'_>) -> Option<&'a str> {
    order.against.as_ref().map(|program| program.name.as_str())
}

/// The lines of a table; none without rows.
pub fn table(grid: &Grid) -> Vec<String> {
    if grid.rows.is_empty() {
        return Vec::new();
    }
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let headings = grid
        .columns
        .iter()
        .map(|(heading, _)| text(heading))
        .collect();
    let sides = grid.columns.iter().map(|(_, numbers)| match numbers {
        true => "---:".to_owned(),
        false => ":---".to_owned(),
    });
    let mut lines = vec![line(headings), line(sides.collect())];
    for row in &grid.rows {
        lines.push(line(row.iter().map(|cell| text(cell)).collect()));
    }
    lines
}

/// Text that Markdown shows as it is: on one line, without tables, emphasis, links or tags of its own.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '<' | '[' | ']' | '\\' | '~' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::announce::tests::usual;
    use crate::rows::arrange;
    use crate::rows::tests::{by_compute, fast, unsure};

    #[test]
    fn a_file_has_the_table_of_each_size_and_is_known_again() {
        let mut order = usual();
        let at = |n: i64| Arc::new(order.problem.timed_at([("n".to_owned(), n)].into()));
        let both = [at(64), at(128)];
        let results = both
            .clone()
            .map(|problem| AtSize::new(problem, vec![fast("a.c", 1, 40.0)]));
        let one = page(&order, &results[..1]);
        assert!(one.starts_with("**dgemm at n = "), "{one}");
        assert!(one.contains("| a.c | 40.00 |"), "{one}");
        order.sizes = both.to_vec();
        let several = page(&order, &results);
        assert!(
            several.starts_with("**dgemm on 1 thread**\n\n"),
            "{several}"
        );
        for size in ["**n = 64**", "**n = 128**"] {
            assert!(several.contains(size), "{several}");
        }
        assert!(is_own(one.as_bytes()) && is_own(several.as_bytes()));
        assert!(!is_own(b"void dgemm(int n) {}"));
    }

    #[test]
    fn a_table_says_which_columns_hold_numbers_and_cells_stay_cells() {
        let cells = Grid {
            columns: vec![("file", false), ("GFLOPS", true)],
            rows: vec![
                vec!["a|b_c.c".into(), "40.00".into()],
                vec!["x\ny".into(), String::new()],
            ],
        };
        let expected = [
            "| file | GFLOPS |",
            "| :--- | ---: |",
            "| a\\|b\\_c.c | 40.00 |",
            "| x y |  |",
        ];
        assert_eq!(table(&cells), expected);
        assert!(
            table(&Grid {
                columns: vec![],
                rows: vec![]
            })
            .is_empty()
        );
    }

    #[test]
    fn rows_are_those_of_the_text_and_a_backquote_stays() {
        let mut rows = [fast("a.c", 1, 40.0), unsure("b.c", 20.0)];
        rows[0].place = Some(by_compute());
        rows[1].place = Some(by_compute());
        arrange(&mut rows, 1);
        let lines = table(&grid(&rows, None));
        assert_eq!(
            lines[0],
            "| rank | file | GFLOPS | call | min | median | spread | ratio | 95 % interval | roof | group | techniques |"
        );
        assert!(lines[2].starts_with("| 1 | a.c | 40.00 | 838.9 µs | 830.5 µs | 847.2 µs | 1.00 % | 40.00 | \\[39.84, 40.16\\] | 80.0 % compute | a |"), "{lines:?}");
        assert!(lines[3].starts_with("| \\~ | b.c | 20.00 |"), "{lines:?}");
        assert_eq!(text("`main`, <b>"), "`main`, \\<b>");
    }
}
