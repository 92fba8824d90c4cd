//! Tables as Apache Parquet, by its columns' own writers: no array library stands between.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use crate::table::{Cell, Kind, Sink};

/// Rows of a row group. This many rows are in memory.
const GROUP: usize = 16_384;

/// A table that is being written. Each column is optional.
pub struct ParquetTable<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    kinds: Vec<Kind>,
    rows: Vec<Vec<Cell>>,
}

impl<W: Write + Send> ParquetTable<W> {
    /// Writes the beginning of a file whose table has this name and these columns.
    pub fn begin(name: &str, columns: Vec<(&str, Kind)>, to: W) -> Result<Self> {
        let mut schema = format!("message {name} {{\n");
        for (column, kind) in &columns {
            schema.push_str(&match kind {
                Kind::Text => format!("optional BYTE_ARRAY {column} (STRING);\n"),
                Kind::Integer => format!("optional INT64 {column};\n"),
                Kind::Real => format!("optional DOUBLE {column};\n"),
                Kind::Flag => format!("optional BOOLEAN {column};\n"),
            });
        }
        schema.push('}');
        let schema = parse_message_type(&schema).context("the columns are no Parquet schema")?;
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(to, Arc::new(schema), properties)
            .context("cannot write Parquet")?;
        Ok(Self {
            writer,
            kinds: columns.iter().map(|(_, kind)| *kind).collect(),
            rows: Vec::new(),
        })
    }

    /// Writes the rows so far as a row group.
    fn write_group(&mut self) -> parquet::errors::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (place, kind) in self.kinds.iter().enumerate() {
            let cells: Vec<&Cell> = self.rows.iter().filter_map(|row| row.get(place)).collect();
            if let Some(mut column) = group.next_column()? {
                write_column(&mut column, *kind, &cells)?;
                column.close()?;
            }
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    kind: Kind,
    cells: &[&Cell],
) -> parquet::errors::Result<()> {
    match kind {
        Kind::Text => batch::<ByteArrayType>(column, cells, |cell| match cell {
            Cell::Text(text) => Some(ByteArray::from(text.as_str())),
            _ => None,
        }),
        Kind::Integer => batch::<Int64Type>(column, cells, |cell| match cell {
            Cell::Integer(number) => Some(*number),
            _ => None,
        }),
        Kind::Real => batch::<DoubleType>(column, cells, |cell| match cell {
            Cell::Real(number) => Some(*number),
            _ => None,
        }),
        Kind::Flag => batch::<BoolType>(column, cells, |cell| match cell {
            Cell::Flag(flag) => Some(*flag),
            _ => None,
        }),
    }
}

/// Writes the cells that are there, and where they are (definition levels: 1 there, 0 missing).
fn batch<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: &[&Cell],
    value: fn(&Cell) -> Option<T::T>,
) -> parquet::errors::Result<()> {
    let found: Vec<Option<T::T>> = cells.iter().map(|cell| value(cell)).collect();
    let levels: Vec<i16> = found.iter().map(|v| i16::from(v.is_some())).collect();
    let values: Vec<T::T> = found.into_iter().flatten().collect();
    let writer = column.typed::<T>();
    writer.write_batch(values.as_slice(), Some(levels.as_slice()), None)?;
    Ok(())
}

impl<W: Write + Send> Sink for ParquetTable<W> {
    fn row(&mut self, row: Vec<Cell>) -> Result<()> {
        self.rows.push(row);
        match self.rows.len() < GROUP {
            true => Ok(()),
            false => self.write_group().context("cannot write Parquet"),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write_group().context("cannot write Parquet")?;
        let table = *self;
        table.writer.close().context("cannot write Parquet")?;
        Ok(())
    }
}
