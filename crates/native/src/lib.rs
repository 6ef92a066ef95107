//! Schedulers as native objects: the C headers that a sched_ext scheduler sees when it is built for
//! the simulated kernel, the compiler call, and what the object says of itself (its maps, its
//! globals, its ops).

/// A scheduler compiled for this machine, ready to be loaded any number of times.
#[derive(Debug)]
pub struct Object {}

/// The value of a global variable of the scheduler, set before it is loaded, as a loader sets
/// `skel->rodata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The C variable's name.
    pub symbol: String,
    /// Its bytes; must be as long as the variable.
    pub bytes: Vec<u8>,
}

/// Why a scheduler could not be compiled or understood. The message is complete: it has the file,
/// the line and the compiler's own words where it has any.
#[derive(Debug)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Object {
    /// Equipoise's own scheduler (`scheduler/`), compiled when this crate was.
    pub fn equipoise() -> &'static Object {
        todo!()
    }

    /// Compiles `source`, any sched_ext scheduler in C. `$CC`, else `cc`, is the compiler.
    pub fn compile(_source: &std::path::Path) -> Result<Object, Error> {
        todo!()
    }

    /// The size in bytes of the global variable `symbol`, if there is one.
    pub fn global_size(&self, _symbol: &str) -> Option<usize> {
        todo!()
    }
}
