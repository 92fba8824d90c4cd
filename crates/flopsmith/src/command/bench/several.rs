//! Several programs, or one of which there is more to say: a table, objects, or rows.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::inputs::Program;
use super::rows::{self, Row};
use super::stages::Stages;
use super::{Order, lines, table, watch};
use crate::args::BenchFormat;
use crate::exit::{self, data, say, usage};
use crate::interrupt;

/// Evaluates all programs, prints what became of them, and stays if that was asked for.
pub fn run(order: Order) -> Result<ExitCode> {
    let listening = order.watch.then(interrupt::Watch::start).transpose()?;
    let mut several = Several::new(&order)?;
    let total = order.programs.len();
    for (n, program) in order.programs.iter().enumerate() {
        say(&format!("[{}/{total}] {} ...", n + 1, program.name));
        let rows = several.measure(program);
        if listening.as_ref().is_some_and(|l| l.asked().is_cancelled()) {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        say_why(&rows);
        several.take(rows);
    }
    several.arrange();
    several.print();
    match listening {
        Some(listening) => Ok(watch::run(several, &order.programs, listening.asked())),
        None => Ok(ExitCode::from(several.code())),
    }
}

/// All programs and where they are measured.
pub struct Several<'a> {
    order: &'a Order<'a>,
    stages: Stages,
    against: Option<Against>,
    /// What is known so far.
    rows: Vec<Row>,
    /// Something could not be kept.
    trouble: bool,
}

impl<'a> Several<'a> {
    fn new(order: &'a Order<'a>) -> Result<Self> {
        let mut stages = Stages::new(order)?;
        let against = match &order.against {
            Some(program) => {
                say(&format!(
                    "measuring {}, to compare with it ...",
                    program.name
                ));
                Some(Against::measure(program, &mut stages)?)
            }
            None => None,
        };
        Ok(Self {
            order,
            stages,
            against,
            rows: Vec::new(),
            trouble: false,
        })
    }

    /// Measures a program and keeps its object, if that was asked for.
    pub fn measure(&mut self, program: &Program) -> Vec<Row> {
        let mut measured = self.stages.measure(program);
        if let (Some(keep), Some(object)) = (&self.order.keep, &measured.object)
            && let Err(error) = keep.save(&program.stem, object, self.stages.sandbox())
        {
            say(&format!("error: {error:#}"));
            self.trouble = true;
        }
        if let Some(against) = &self.against {
            against.compare(&mut measured.rows);
        }
        measured.rows
    }

    /// Takes up what a program came to, in the place of what it came to before.
    pub fn take(&mut self, rows: Vec<Row>) {
        self.rows
            .retain(|old| !rows.iter().any(|new| new.file == old.file));
        self.rows.extend(rows);
    }

    /// Puts all in order and sees anew which of them can be told apart.
    pub fn arrange(&mut self) {
        rows::arrange(&mut self.rows);
    }

    /// What a program came to, by the number of threads.
    pub fn of<'b>(&'b self, file: &'b str) -> impl Iterator<Item = &'b Row> {
        self.rows.iter().filter(move |row| row.file == file)
    }

    /// How results are printed.
    pub fn format(&self) -> BenchFormat {
        self.order.format
    }

    /// A row for a program that reads objects.
    pub fn object(&self, row: &Row) -> Value {
        lines::object_of_several(self.order.problem_name, row, self.against.is_some())
    }

    /// A row for a program that reads tables.
    pub fn csv(&self, row: &Row) -> String {
        lines::csv(self.order.problem_name, row)
    }

    fn print(&self) {
        match self.order.format {
            BenchFormat::Text => {
                let against = self.against.as_ref().map(|a| a.name.as_str());
                for line in table::lines(&self.rows, against) {
                    data(&line);
                }
            }
            BenchFormat::Json => {
                for row in &self.rows {
                    data(&self.object(row).to_string());
                }
            }
            BenchFormat::Csv => {
                data(&lines::csv_header());
                for row in &self.rows {
                    data(&self.csv(row));
                }
            }
        }
    }

    fn code(&self) -> u8 {
        let trouble = if self.trouble {
            exit::INFRASTRUCTURE
        } else {
            exit::OK
        };
        rows::code(&self.rows).max(trouble)
    }
}

/// Says on stderr why a program was not measured: the table has no room for it.
pub fn say_why(rows: &[Row]) {
    let reasons: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| Some(why(&row.refusal()?, row.detail())))
        .collect();
    for reason in reasons {
        say(&reason);
    }
}

fn why(refusal: &str, detail: &str) -> String {
    let mut words = format!("  {refusal}");
    for line in detail.trim().lines() {
        words.push_str("\n    ");
        words.push_str(line);
    }
    words
}

/// The program all others are compared with.
struct Against {
    name: String,
    rows: Vec<Row>,
}

impl Against {
    fn measure(program: &Program, stages: &mut Stages) -> Result<Self> {
        let rows = stages.measure(program).rows;
        for row in &rows {
            let Some(refusal) = row.refusal() else {
                continue;
            };
            let words = format!(
                "--against {}: {}",
                program.name,
                why(&refusal, row.detail()).trim_start()
            );
            return Err(match row.said().2 {
                exit::CANDIDATE => usage(words),
                _ => anyhow::anyhow!(words),
            });
        }
        Ok(Self {
            name: program.name.clone(),
            rows,
        })
    }

    fn compare(&self, rows: &mut [Row]) {
        for row in rows {
            let same_timer = self.rows.iter().find(|r| r.threads == row.threads);
            row.to_against = same_timer.and_then(|other| Some(row.own?.over(other.own?)));
        }
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::wrong;

    use super::super::rows::tests::{fast, row};
    use super::*;

    #[test]
    fn ratios_are_to_the_other_program_at_the_same_number_of_threads() {
        let against = Against {
            name: "best.c".into(),
            rows: vec![fast("best.c", 1, 40.0), fast("best.c", 2, 80.0)],
        };
        let mut rows = [
            fast("a.c", 1, 60.0),
            fast("a.c", 2, 60.0),
            row("b.c", 1, wrong()),
        ];
        against.compare(&mut rows);
        let ratios = rows.map(|r| r.to_against.map(|c| (c.ratio * 1000.0).round()));
        assert_eq!(ratios, [Some(1500.0), Some(750.0), None]);
    }

    #[test]
    fn a_refusal_is_said_with_what_the_compiler_said() {
        assert_eq!(why("refused: timeout", ""), "  refused: timeout");
        assert_eq!(
            why("refused: compile_error", "line 3\n  int x = ;\n"),
            "  refused: compile_error\n    line 3\n      int x = ;"
        );
    }
}
