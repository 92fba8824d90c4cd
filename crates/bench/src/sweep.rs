//! Output for several sizes: a table of each size as soon as it is done, and the fastest programs by size at the end.

use anyhow::Result;
use flopsmith_run::console::{Usage, data, say};
use flopsmith_run::{exit, interrupt};

use crate::legend::{by_threads, of_all_sizes};
use crate::outputs::{self, AtSize};
use crate::rate::{Unit, common_unit};
use crate::rows::{Row, worse};
use crate::several::Several;
use crate::stream::crossover;
use crate::{Format, Order, crossover as fastest, lines, markdown, table};

/// Evaluates all programs at each size, and prints the results.
pub fn run(order: Order) -> Result<u8> {
    let listening = interrupt::Watch::start()?;
    let stopped = listening.asked();
    match order.format {
        Format::Csv => data(&lines::csv_header()),
        Format::Markdown => {
            data(&markdown::heading(&order));
            data("");
        }
        Format::Text | Format::Json | Format::Jsonl => {}
    }
    let total = order.sizes.len();
    let mut results: Vec<AtSize> = Vec::new();
    let mut code = exit::OK;
    for (n, problem) in order.sizes.iter().enumerate() {
        if stopped.is_cancelled() {
            break;
        }
        say(&format!(
            "size {} of {total}: {}",
            n + 1,
            problem.timed_size()
        ));
        let several = Several::new(&order, problem, stopped).and_then(|mut several| {
            several.measure_all(stopped).inspect_err(|_| {
                if !stopped.is_cancelled() {
                    several.print_incomplete();
                }
            })?;
            Ok(several)
        });
        let several = match several {
            Ok(several) => several,
            // Ctrl-c also reaches the measured process, so a failure after a stop request has no meaning.
            Err(_) if stopped.is_cancelled() => break,
            // A failure at the first size is mostly one of all sizes.
            Err(error) if n == 0 => return Err(error),
            Err(error) => {
                say(&format!("error at {}: {error:#}", problem.timed_size()));
                code = worse(code, code_of(&error));
                continue;
            }
        };
        if order.format == Format::Text && !results.is_empty() {
            data("");
        }
        print(&several, &order, stopped.is_cancelled());
        code = worse(code, several.code());
        results.push(several.into_result());
    }
    print_end(&results, &order);
    if stopped.is_cancelled() {
        code = exit::INTERRUPTED;
    }
    Ok(outputs::write(order, &results, code))
}

fn code_of(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        exit::USAGE
    } else {
        exit::INFRASTRUCTURE
    }
}

/// Prints the results of one size.
fn print(several: &Several, order: &Order, interrupted: bool) {
    let result = several.result();
    match order.format {
        Format::Text => {
            for line in table_of(result, several.against_name()) {
                data(&line);
            }
            several.print_refusals();
        }
        Format::Markdown => {
            for line in markdown::of_a_size(result, order) {
                data(&line);
            }
        }
        Format::Json | Format::Jsonl | Format::Csv => several.print_rows(interrupted),
    }
}

/// A heading with the speeds that the numbers refer to, and the table; none without rows.
fn table_of(result: &AtSize, against: Option<&str>) -> Vec<String> {
    let table = table::grid(&result.rows, against).lines();
    if table.is_empty() {
        return table;
    }
    std::iter::once(heading(result)).chain(table).collect()
}

fn heading(result: &AtSize) -> String {
    let rows = &result.rows;
    let unit = common_unit(rows.iter()).unwrap_or(Unit::Gflops);
    let reference = by_threads(rows, unit, &|row| row.reference_gflops);
    let roof = by_threads(rows, unit, &|row| row.place.as_ref().map(|p| p.roof_gflops));
    let mut words = result.problem.timed_size();
    // Where no program could be timed, the reference was not measured.
    if !reference.is_empty() {
        words.push_str(&format!(": plain reference {reference}"));
    }
    if !roof.is_empty() {
        words.push_str(&format!("; roof {roof}"));
    }
    words
}

/// Prints what concerns all sizes.
fn print_end(results: &[AtSize], order: &Order) {
    match order.format {
        Format::Text => {
            for line in end_of(results, order) {
                data(&line);
            }
        }
        Format::Markdown => {
            for line in markdown::after_all_sizes(results, order) {
                data(&line);
            }
        }
        Format::Jsonl => data(&crossover(&fastest::leads(results)).to_string()),
        Format::Json | Format::Csv => {}
    }
}

/// The legend, the fastest programs by size, and the comparison with a saved result.
fn end_of(results: &[AtSize], order: &Order) -> Vec<String> {
    let rows: Vec<&Row> = results.iter().flat_map(|result| &result.rows).collect();
    let measured = |row: &&Row| row.done.verdict.measurement().is_some();
    let mut lines = Vec::new();
    if rows.iter().any(measured) {
        let against = order.against.as_ref().map(|program| &*program.name);
        lines.push(String::new());
        lines.extend(of_all_sizes(&rows, against));
    }
    let leads = fastest::leads(results);
    if !leads.is_empty() {
        lines.extend([String::new(), "fastest by size".to_owned()]);
        lines.extend(fastest::grid(&leads).lines());
    }
    if let Some(compare) = order.compare.as_ref().filter(|_| !rows.is_empty()) {
        lines.extend(compare.lines(&rows));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tests::{by_memory, fast, unmeasured};
    use crate::saved::tests::problem;

    #[test]
    fn each_table_says_its_size_and_what_its_numbers_refer_to() {
        let mut result = AtSize::new(problem(), vec![fast("a.c", 1, 1.25)]);
        let lines = table_of(&result, None);
        assert_eq!(lines[0], "n = 8: plain reference 1.000 GFLOPS");
        assert!(
            lines[1].starts_with("rank  file  GFLOPS ") && lines[1].contains("GB/s"),
            "{lines:?}"
        );
        result.rows[0].place = Some(by_memory());
        let lines = table_of(&result, None);
        assert_eq!(
            lines[0],
            "n = 8: plain reference 0.1250 GB/s; roof 0.3125 GB/s"
        );
        result.rows = vec![unmeasured("w.c")];
        assert_eq!(table_of(&result, None)[0], "n = 8");
        result.rows.clear();
        assert!(table_of(&result, None).is_empty());
    }
}
