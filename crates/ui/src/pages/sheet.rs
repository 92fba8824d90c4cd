//! Pages that are facts and tables: the nodes of a run, and a cluster.

use flopsmith_run::console::Column;
use serde::Serialize;

use super::frame::{Frame, Link};

/// The class of a column of words, of one of long texts, and of one of numbers.
pub const WORDS: &str = "words";
/// See [`WORDS`].
pub const TEXT: &str = "words wide-text";
/// See [`WORDS`].
pub const NUMBER: &str = "";

/// A page of tables.
#[derive(Serialize)]
pub struct Sheets {
    /// The frame.
    pub frame: Frame,
    /// Links above the facts.
    pub links: Vec<Link>,
    /// A sentence above the facts.
    pub lead: &'static str,
    /// The facts.
    pub facts: Vec<(&'static str, String)>,
    /// The tables.
    pub sheets: Vec<Sheet>,
}

/// A table.
#[derive(Serialize)]
pub struct Sheet {
    id: &'static str,
    title: &'static str,
    lead: &'static str,
    /// Heading and class of each column; the first one names the rows.
    columns: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
    /// The sentence in the place of an empty table.
    empty: &'static str,
}

/// A row of a table.
#[derive(Serialize)]
struct Row {
    name: String,
    url: Option<String>,
    /// Class and text of the cells behind the name.
    cells: Vec<(&'static str, String)>,
}

impl Sheet {
    /// A table without rows.
    pub fn new(
        id: &'static str,
        title: &'static str,
        columns: &[(&'static str, &'static str)],
        empty: &'static str,
    ) -> Self {
        Self {
            id,
            title,
            lead: "",
            columns: columns.to_vec(),
            rows: Vec::new(),
            empty,
        }
    }

    /// A table with the columns of a terminal's.
    pub fn of(
        id: &'static str,
        title: &'static str,
        columns: &[Column<'static>],
        empty: &'static str,
    ) -> Self {
        let class = |numbers: bool| if numbers { NUMBER } else { WORDS };
        let columns = columns.iter().map(|(name, n)| (*name, class(*n)));
        let columns: Vec<_> = columns.collect();
        Self::new(id, title, &columns, empty)
    }

    /// With a sentence above the table.
    pub fn lead(mut self, lead: &'static str) -> Self {
        self.lead = lead;
        self
    }

    /// Adds a row of a cell for each column; `url` is where its name leads.
    pub fn add(&mut self, url: Option<String>, cells: impl IntoIterator<Item = String>) {
        let mut cells = cells.into_iter();
        let name = cells.next().unwrap_or_default();
        let classes = self.columns.iter().skip(1).map(|(_, class)| *class);
        self.rows.push(Row {
            name,
            url,
            cells: classes.zip(cells).collect(),
        });
    }
}
