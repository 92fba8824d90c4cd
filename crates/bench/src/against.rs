//! The program of `--against`, with which all others are compared.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use flopsmith_measure::ranking::LogRatio;
use flopsmith_run::console::usage;
use flopsmith_run::exit;

use crate::inputs::Program;
use crate::rows::Row;
use crate::several::why;
use crate::stages::Stages;

/// The program that all others are compared with.
pub struct Against {
    /// Its name.
    pub name: String,
    /// Its speed relative to the baseline, by the number of threads.
    own: BTreeMap<u32, LogRatio>,
}

impl Against {
    /// Measures the program, and returns its rows as well.
    pub fn measure(program: &Program, stages: &mut Stages) -> Result<(Self, Vec<Row>)> {
        let measured = stages.measure(program)?.context("stopped")?;
        let mut rows = measured.rows;
        for row in &rows {
            let Some(refusal) = row.refusal() else {
                continue;
            };
            let words = format!(
                "--against {}: {}",
                program.name,
                why(&refusal, &row.detail_for_people()).trim_start()
            );
            return Err(match row.said().2 {
                exit::CANDIDATE => usage(words),
                _ => anyhow::anyhow!(words),
            });
        }
        for row in &mut rows {
            row.against = true;
        }
        Ok((Self::of(&program.name, &rows), rows))
    }

    fn of(name: &str, rows: &[Row]) -> Self {
        Self {
            name: name.to_owned(),
            own: rows
                .iter()
                .filter_map(|r| Some((r.threads, r.own?)))
                .collect(),
        }
    }

    /// Sets the ratios of these rows to it.
    pub fn compare(&self, rows: &mut [Row]) {
        for row in rows {
            let same_timer = self.own.get(&row.threads);
            row.to_against = same_timer.and_then(|other| Some(row.own?.over(*other)));
        }
    }
}

#[cfg(test)]
mod tests {
    use flopsmith_test_support::wrong;

    use super::*;
    use crate::rows::tests::{fast, row};

    #[test]
    fn ratios_are_to_the_other_program_at_the_same_number_of_threads() {
        let best = [fast("best.c", 1, 40.0), fast("best.c", 2, 80.0)];
        let against = Against::of("best.c", &best);
        let mut rows = [
            fast("a.c", 1, 60.0),
            fast("a.c", 2, 60.0),
            row("b.c", 1, wrong()),
        ];
        against.compare(&mut rows);
        let ratios = rows.map(|r| r.to_against.map(|c| (c.ratio * 1000.0).round()));
        assert_eq!(ratios, [Some(1500.0), Some(750.0), None]);
    }
}
