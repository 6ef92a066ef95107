//! The compilation of Equipoise's own schedulers. This crate's build script includes this file, too, so the file uses
//! only the standard library.

use crate::compile::{self, Call};
use crate::schedulers::SCHEDULERS;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// An object of one of [`SCHEDULERS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Own {
    pub name: &'static str,
    /// The scheduler's folder in `scheduler/`.
    pub folder: &'static str,
    /// Whether the scheduler records the reasons for its decisions (`scheduler/explain.bpf.h`).
    pub explains: bool,
}

impl Own {
    /// All objects, which are two of each scheduler.
    pub fn all() -> impl Iterator<Item = Own> {
        let both = |&(name, folder)| {
            [false, true].map(|explains| Own {
                name,
                folder,
                explains,
            })
        };
        SCHEDULERS.iter().flat_map(both)
    }

    /// The name of the object's file in a folder of objects.
    pub fn file(self) -> String {
        match self.explains {
            true => format!("{}.explaining.so", self.name),
            false => format!("{}.so", self.name),
        }
    }

    /// Compiles the object from the source in the folder `sources` with the simulated kernel's headers in the folder
    /// `include`. Returns the result of `finish` for that call. The error is a complete message.
    pub fn compile<T>(
        self,
        sources: &Path,
        include: &Path,
        finish: impl FnOnce(Call) -> Result<T, String>,
    ) -> Result<T, String> {
        let compiler = compile::compiler();
        let mut flags = compile::FLAGS.to_vec();
        flags.extend(accepts_gcc_flag(&compiler).then_some(GCC_FLAG));
        flags.extend(self.explains.then_some("-DEQUIPOISE_EXPLAINS"));
        let compiled = finish(Call {
            compiler: &compiler,
            flags: &flags,
            include: &[include],
            confine: &|_| {},
            finish: |command| command.output(),
            sources: &[&sources.join(self.folder).join("main.bpf.c")],
        });
        compiled.map_err(|said| format!("the scheduler {} does not compile:\n{said}", self.name))
    }
}

/// GCC inserts the address of an array's element into each access to it (-ftree-forwprop), and then computes the
/// address again after each branch, which takes a tenth of the instructions of `eevdf`. This option disables that pass;
/// other compilers do not know it.
const GCC_FLAG: &str = "-fno-tree-forwprop";

/// Does the compiler accept [`GCC_FLAG`]? The answer is kept, because one compiler makes all of these objects.
fn accepts_gcc_flag(compiler: &[OsString]) -> bool {
    static ACCEPTS: OnceLock<bool> = OnceLock::new();
    *ACCEPTS.get_or_init(|| {
        let mut command = Command::new(&compiler[0]);
        command.args(&compiler[1..]);
        command.args(["-Werror", GCC_FLAG, "-fsyntax-only", "-x", "c", "/dev/null"]);
        let run = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    })
}
