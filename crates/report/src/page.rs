//! The content of an output, independent of its form.

use crate::timeline::Timeline;
use crate::{Chart, Figures, Table};

/// The content of a page: a title, tables, and charts.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The headline.
    pub title: String,
    /// Lines under the headline.
    pub notes: Vec<String>,
    /// The conclusion in words, such as a line for each goal.
    pub verdict: Vec<String>,
    /// The tables.
    pub tables: Vec<Table>,
    /// Lines under the tables.
    pub remarks: Vec<String>,
    /// Pictures; a terminal leaves them out.
    pub charts: Vec<Chart>,
    /// Pictures of a few periods; a terminal leaves them out.
    pub timelines: Vec<Timeline>,
    /// Figures that only an HTML page shows.
    pub figures: Option<Figures>,
}
