//! The command's output: tables for a terminal, HTML pages, JSON, explanations, and the events of a run as
//! Linux would trace them.
//!
//! - A [`Page`] has the content but not the form: [`Table`]s, charts and remarks. [`terminal()`] prints a page, and
//!   [`html()`] draws it. JSON output has a contract of its own, see [`json`].
//! - [`events`] makes Linux's tracepoints of a run, for trace files and for tables.
//! - [`explain::Explanation`] says why threads waited or ran slowly.
//!
//! ```
//! use report::{Page, Style, Table, terminal};
//!
//! let table = Table {
//!     header: vec!["task".to_owned(), "ms".to_owned()],
//!     text_columns: 1,
//!     rows: vec![vec!["ui".into(), "1.5".into()]],
//!     ..Table::default()
//! };
//! let page = Page { title: "Times".to_owned(), tables: vec![table], ..Page::default() };
//! assert!(terminal(&page, Style::default()).contains("ui    1.5"));
//! ```

mod chart;
mod comparison;
pub mod csv;
pub mod events;
pub mod explain;
mod figures;
mod first_run;
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
pub use comparison::{Shown, Told, change, comparison, results};
pub use figures::{Figures, Shown as ShownRun};
pub use first_run::{FirstRun, Recorder};
pub use html::{fragment, html};
pub use machine::machine;
pub use page::Page;
pub use picture::picture;
pub use reproduction::reproduction;
pub use table::{Cell, Table, Tone};
pub use terminal::{Style, terminal};
