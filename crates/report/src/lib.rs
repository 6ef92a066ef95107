//! The command's output: tables for a terminal, HTML pages, JSON, and traces of scheduling events.
//!
//! Tables and pages are made from a [`Page`], which has the content and not the form; JSON has its
//! own contract, see [`json`].

mod chart;
mod comparison;
pub mod csv;
pub mod events;
pub mod explain;
mod html;
pub mod json;
mod machine;
pub mod measured;
mod moves;
mod number;
mod page;
mod picture;
mod power;
mod reproduction;
mod table;
mod terminal;
mod timeline;
mod verdict;

pub use chart::{Bar, Chart, Colour};
pub use comparison::{Shown, Told, comparison, results};
pub use html::{Figures, FirstRun, Recorder, ShownRun, fragment, html};
pub use machine::machine;
pub use page::Page;
pub use picture::picture;
pub use reproduction::reproduction;
pub use table::{Cell, Table, Tone};
pub use terminal::{Style, terminal};
