//! Tables with columns of fixed kinds, independent of a file format.

use anyhow::Result;

/// The content of a column's cells. Each cell may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A number in double precision.
    Real,
    /// True or false.
    Flag,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Missing,
    Text(String),
    Integer(i64),
    Real(f64),
    Flag(bool),
}

impl Cell {
    /// Anything that can be printed.
    pub fn text(value: impl ToString) -> Self {
        Self::Text(value.to_string())
    }

    /// A whole number; missing if it has more than 63 bits.
    pub fn integer(value: impl TryInto<i64>) -> Self {
        value.try_into().map_or(Self::Missing, Self::Integer)
    }

    /// The cell of `value`, or a missing one.
    pub fn or_missing<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Missing, cell)
    }
}

/// A column of a table whose rows are made from `R`.
pub struct Column<R> {
    /// Its name.
    pub name: &'static str,
    /// The content of its cells.
    pub kind: Kind,
    /// The cell of a row: missing, or of this kind.
    pub of: fn(&R) -> Cell,
}

impl<R> Column<R> {
    /// A column.
    pub const fn new(name: &'static str, kind: Kind, of: fn(&R) -> Cell) -> Self {
        Self { name, kind, of }
    }
}

/// The cells of a row.
pub fn row<R>(columns: &[Column<R>], of: &R) -> Vec<Cell> {
    columns.iter().map(|column| (column.of)(of)).collect()
}

/// A file that a table is written to.
pub trait Sink {
    /// Appends a row, with a cell for each column.
    fn row(&mut self, row: Vec<Cell>) -> Result<()>;

    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<()>;
}
