//! Tables, independent of their form.

/// A table whose rows have as many cells as its header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The table's subject; may be empty.
    pub title: String,
    /// The columns' names; a line feed separates an upper from a lower name.
    pub header: Vec<String>,
    /// The number of text columns, from the left; the other columns have numbers.
    pub text_columns: usize,
    /// The number of adjacent columns of numbers that stay together if a narrow terminal folds the table; 0 means 1.
    pub together: usize,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// The number of rows, at the end of the table, that a page shows only on request.
    pub folded: usize,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The cell's text.
    pub text: String,
    /// The cell's emphasis.
    pub tone: Tone,
}

/// The emphasis of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No emphasis.
    #[default]
    Plain,
    /// Of minor interest.
    Dim,
    /// The best of its kind.
    Best,
    /// A significant improvement.
    Better,
    /// A significant deterioration.
    Worse,
}

impl Cell {
    /// A cell with a certain tone.
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
