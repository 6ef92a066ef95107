//! The cage: processes that may only compute, for the code and the files of strangers; and functions that make the text
//! of strangers safe for the place where it is written.
//!
//! - [`apart`] runs a function in a separate process that may only compute; [`Ended`] says how that process ended.
//! - [`Files`] and [`Folder`] are the files that a caged compiler may read and write.
//! - [`Watch`] decides whether a process that no longer answers is stuck.
//! - [`text`] escapes names and messages for a terminal, for HTML, JSON and CSV:
//!
//! ```
//! // An escape sequence of a thread's name would otherwise act on the terminal.
//! assert!(!cage::text::is_safe("ui\u{1b}[2J"));
//! assert!(cage::text::is_safe(&cage::text::plain("ui\u{1b}[2J")));
//! ```
//!
//! `docs/design/cage.md` states what the cage promises, what it trusts, and how each promise is tested.

mod apart;
mod compiler;
mod files;
mod folder;
mod limits;
mod process;
mod rights;
mod supervisor;
mod system_calls;
pub mod text;
mod watch;

pub use apart::{Ended, apart};
pub use compiler::Files;
pub use files::{Checked, read_regular};
pub use folder::Folder;
pub use limits::{deadline, finish, reached, set as limit};
pub use process::{close, load, prepare};
pub use rights::{has_landlock, inherit_nothing, is_uncaged, lacks, nothing, run_uncaged};
pub use supervisor::shell_status;
pub use watch::{LOOK_EVERY, Progress, Verdict, Watch, cpu_time};
