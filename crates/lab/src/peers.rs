//! Published schedulers by name: the places of their sources, and the substitutes for their loaders (`peers/`).

mod fetch;

pub use fetch::fetch_sources;

use crate::Scheduler;
use machine::input::{self, BadInput};
use native::Kernel;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static LIST: LazyLock<BTreeMap<String, Entry>> = LazyLock::new(|| {
    toml::from_str(include_str!("../peers/peers.toml")).expect("the list in peers/ is valid")
});

/// The files that replace the schedulers' loaders, and their headers.
const PARTS: &[(&str, &str)] = &[
    ("scx_arena.h", include_str!("../peers/scx_arena.h")),
    (
        "scx_beerland.bpf.c",
        include_str!("../peers/scx_beerland.bpf.c"),
    ),
    (
        "scx_bpfland.bpf.c",
        include_str!("../peers/scx_bpfland.bpf.c"),
    ),
    (
        "scx_central.bpf.c",
        include_str!("../peers/scx_central.bpf.c"),
    ),
    (
        "scx_cosmos.bpf.c",
        include_str!("../peers/scx_cosmos.bpf.c"),
    ),
    ("scx_flash.bpf.c", include_str!("../peers/scx_flash.bpf.c")),
    (
        "scx_flatcg.bpf.c",
        include_str!("../peers/scx_flatcg.bpf.c"),
    ),
    ("scx_forge.bpf.c", include_str!("../peers/scx_forge.bpf.c")),
    ("scx_lavd.bpf.c", include_str!("../peers/scx_lavd.bpf.c")),
    (
        "scx_layered.bpf.c",
        include_str!("../peers/scx_layered.bpf.c"),
    ),
    ("scx_chaos.bpf.c", include_str!("../peers/scx_chaos.bpf.c")),
    (
        "scx_pandemonium.bpf.c",
        include_str!("../peers/scx_pandemonium.bpf.c"),
    ),
    ("scx_layered.h", include_str!("../peers/scx_layered.h")),
    ("scx_p2dq.bpf.c", include_str!("../peers/scx_p2dq.bpf.c")),
    ("scx_p2dq.h", include_str!("../peers/scx_p2dq.h")),
    ("scx_pair.bpf.c", include_str!("../peers/scx_pair.bpf.c")),
    ("scx_qmap.bpf.c", include_str!("../peers/scx_qmap.bpf.c")),
    ("scx_rusty.bpf.c", include_str!("../peers/scx_rusty.bpf.c")),
    ("scx_smt.h", include_str!("../peers/scx_smt.h")),
    (
        "scx_tickless.bpf.c",
        include_str!("../peers/scx_tickless.bpf.c"),
    ),
];

/// The environment variable that names the folder with the sources.
const VARIABLE: &str = "EQUIPOISE_SCHEDULERS";

/// The entry of a scheduler in the list; paths are relative to the folder with the sources.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The folder with the scheduler's files in C.
    folder: PathBuf,
    /// The scheduler's main file, if it requires no work of a loader.
    main: Option<PathBuf>,
    /// The scheduler's other files.
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    include: Vec<PathBuf>,
}

/// A published scheduler, whose sources this computer may lack.
#[derive(Clone, Copy)]
pub struct Peer {
    name: &'static str,
    entry: &'static Entry,
}

impl Peer {
    /// The names of the published schedulers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LIST.keys().map(String::as_str)
    }

    /// The published scheduler of this name.
    pub fn find(name: &str) -> Result<Peer, Box<BadInput>> {
        match LIST.get_key_value(name) {
            Some((name, entry)) => Ok(Peer { name, entry }),
            None => Err(bad(
                format!("no published scheduler is called `{name}`"),
                input::one_of(name, Peer::names()),
            )),
        }
    }

    /// The scheduler's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The path of the folder with the scheduler's main files on this computer, which may not exist.
    pub fn folder(&self) -> PathBuf {
        sources().join(&self.entry.folder)
    }

    /// The packages that have the scheduler's sources, each with its version: a crate (`NAME-VERSION`) or a kernel
    /// (`linux-RELEASE`).
    pub fn packages(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let Entry {
            folder, include, ..
        } = self.entry;
        std::iter::once(folder).chain(include).map(|path| {
            let package = path.iter().next().and_then(|first| first.to_str());
            let package = package.expect("the list's paths are relative and UTF-8");
            let version = package.rsplit_once('-').map_or("", |(_, version)| version);
            (package, version)
        })
    }

    /// A folder with the scheduler's sources or headers that is missing on this computer, if any.
    pub fn missing(&self) -> Option<PathBuf> {
        let sources = sources();
        let mut folders = self.packages().map(|(package, _)| sources.join(package));
        folders.find(|folder| !folder.is_dir())
    }

    /// The way to get the scheduler's sources, for messages.
    fn remedy(&self) -> String {
        format!(
            "`equipoise scheduler fetch {}` fetches them, and {VARIABLE} may name another folder",
            self.name
        )
    }

    /// The reason why the scheduler cannot be run here, and what to do; `None` if it can be run.
    pub fn obstacle(&self) -> Option<String> {
        let lacking = cage::lacks().join(" and ");
        if !lacking.is_empty() {
            return Some(format!(
                "this kernel lacks {lacking}, which isolates schedulers in C"
            ));
        }
        let folder = self.missing()?;
        Some(format!(
            "no sources in {}; {}",
            folder.display(),
            self.remedy()
        ))
    }

    /// Compiles the scheduler for `kernel`, with the settings that its loader has by default.
    /// Headers are also searched for in the folders `include`.
    pub fn load(&self, include: &[&Path], kernel: Kernel) -> Result<Scheduler, Box<BadInput>> {
        let Peer { name, entry } = self;
        if let Some(folder) = self.missing() {
            return Err(bad(
                format!("{name}: no sources in {}", folder.display()),
                format!("expected its sources; {}", self.remedy()),
            ));
        }
        let sources = sources();
        let folder = sources.join(&entry.folder);
        let failed = |error: std::io::Error| {
            bad(
                format!("{name}: {error}"),
                "expected a temporary folder".into(),
            )
        };
        let parts = tempfile::tempdir().map_err(failed)?;
        for (file, text) in PARTS {
            std::fs::write(parts.path().join(file), text).map_err(failed)?;
        }
        let main = match &entry.main {
            Some(main) => folder.join(main),
            None => parts.path().join(format!("{name}.bpf.c")),
        };
        let others = entry.files.iter().map(|file| folder.join(file));
        let files: Vec<PathBuf> = std::iter::once(main).chain(others).collect();
        let headers = entry.include.iter().map(|headers| sources.join(headers));
        let headers: Vec<PathBuf> = std::iter::once(folder.clone()).chain(headers).collect();
        let headers = headers.iter().map(PathBuf::as_path);
        Scheduler::foreign_in(
            &files.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
            &headers.chain(include.iter().copied()).collect::<Vec<_>>(),
            kernel,
        )
    }
}

/// The folder with the sources of the published schedulers.
fn sources() -> PathBuf {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return folder.into();
    }
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.filter(|folder| folder.is_absolute());
    let caches = caches.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    caches.unwrap_or_default().join("equipoise/schedulers")
}

fn bad(message: String, expected: String) -> Box<BadInput> {
    Box::new(BadInput::whole(message, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_scheduler_has_a_main_file() {
        for (name, entry) in &*LIST {
            let part = format!("{name}.bpf.c");
            let has_part = PARTS.iter().any(|(file, _)| *file == part);
            assert!(entry.main.is_some() != has_part, "{name}");
        }
    }
}
