//! Tables as comma-separated values.

use std::io::{self, Write};

use anyhow::{Context, Result};

use crate::table::{Cell, Kind, Sink};

/// A table that is being written. A missing cell is empty.
pub struct CsvTable<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> CsvTable<W> {
    /// Writes the names of the columns.
    pub fn begin(columns: &[(&str, Kind)], to: W) -> Result<Self> {
        let mut table = Self {
            writer: csv::Writer::from_writer(to),
        };
        table.write(columns.iter().map(|(name, _)| (*name).to_owned()))?;
        Ok(table)
    }

    fn write(&mut self, cells: impl Iterator<Item = String>) -> Result<()> {
        let written = self.writer.write_record(cells);
        // As an error of the stream, so that a closed pipe is recognised.
        written.map_err(io::Error::from).context("cannot write CSV")
    }
}

impl<W: Write> Sink for CsvTable<W> {
    fn row(&mut self, row: Vec<Cell>) -> Result<()> {
        self.write(row.into_iter().map(|cell| match cell {
            Cell::Missing => String::new(),
            Cell::Text(text) => text,
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
        }))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.writer.flush().context("cannot write CSV")
    }
}
