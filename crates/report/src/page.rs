//! What is shown, whatever shows it.

use crate::{Chart, Figures};

/// A title, tables, and charts.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The headline.
    pub title: String,
    /// Lines under the headline.
    pub notes: Vec<String>,
    /// What follows from all below, in words; a line for each goal.
    pub verdict: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Lines under the tables.
    pub remarks: Vec<String>,
    /// Pictures; a terminal leaves them out.
    pub charts: Vec<Chart>,
    /// What only an HTML page has.
    pub figures: Option<Figures>,
}

/// A table with as many cells in each row as in its header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the table is about; may be empty.
    pub title: String,
    /// The columns' names; a line feed separates a name above from one below.
    pub header: Vec<String>,
    /// How many of the columns, from the left, are text; the rest are numbers.
    pub text_columns: usize,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// How it says it.
    pub tone: Tone,
}

/// How a cell is set off from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    #[default]
    Plain,
    /// Of minor interest.
    Dim,
    /// The best of its kind.
    Best,
    /// A change for the better that is more than chance.
    Better,
    /// A change for the worse that is more than chance.
    Worse,
}

impl Cell {
    /// A cell of a certain tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text, Tone::Plain)
    }
}
