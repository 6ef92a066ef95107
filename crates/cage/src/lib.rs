//! The cage: processes that may compute and nothing else, for the code and the files of strangers.
//!
//! `docs/design/cage.md` states what it promises, what it trusts, and how each promise is tested.

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
pub use watch::{LOOK_EVERY, Progress, Verdict, Watch, cpu_time};
