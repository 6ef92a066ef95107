//! Published schedulers by name: the places of their sources, and the substitutes for their loaders
//! (`peers/`).

use crate::error::Error;
use machine::input::{self, BadInput};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The list of published schedulers.
const LIST: &str = include_str!("../peers/peers.toml");

/// The loaders' parts and their headers.
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
    /// The folder with its files in C.
    folder: PathBuf,
    /// Its main file, for a scheduler that needs no loader's part.
    main: Option<PathBuf>,
    /// Its other files.
    #[serde(default)]
    files: Vec<PathBuf>,
    /// Folders with headers.
    #[serde(default)]
    include: Vec<PathBuf>,
}

/// A published scheduler, ready to compile.
pub struct Peer {
    files: Vec<PathBuf>,
    include: Vec<PathBuf>,
    /// The folder with the loader's part.
    _parts: TempDir,
}

impl Peer {
    /// Its files; the first is the main one.
    pub fn files(&self) -> Vec<&Path> {
        self.files.iter().map(PathBuf::as_path).collect()
    }

    /// The folders with headers.
    pub fn include(&self) -> Vec<&Path> {
        self.include.iter().map(PathBuf::as_path).collect()
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

/// The published scheduler that `files` names, unless they are files.
pub fn find(files: &[PathBuf]) -> Result<Option<Peer>, Error> {
    let [name] = files else {
        return Ok(None);
    };
    let Some(name) = name
        .to_str()
        .filter(|_| !name.exists() && name.extension().is_none())
    else {
        return Ok(None);
    };
    let mut list: BTreeMap<String, Entry> =
        toml::from_str(LIST).expect("the list in peers/ is valid");
    let Some(entry) = list.remove(name) else {
        let names = list.keys().map(String::as_str);
        return Err(bad(
            format!("`{name}`: neither a file nor a published scheduler has this name"),
            input::one_of(name, names),
        ));
    };
    let sources = sources();
    let folder = sources.join(&entry.folder);
    if !folder.is_dir() {
        return Err(bad(
            format!("{name}: no sources in {}", folder.display()),
            format!(
                "expected the sources that tests/fetch-schedulers fetches; {VARIABLE} may name another folder"
            ),
        ));
    }
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
    let headers = entry.include.iter().map(|headers| sources.join(headers));
    Ok(Some(Peer {
        files: std::iter::once(main).chain(others).collect(),
        include: std::iter::once(folder.clone()).chain(headers).collect(),
        _parts: parts,
    }))
}

fn bad(message: String, expected: String) -> Error {
    Error::Input(Box::new(BadInput::whole(message, expected)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_published_scheduler_has_a_main_file() {
        let list: BTreeMap<String, Entry> = toml::from_str(LIST).unwrap();
        for (name, entry) in list {
            let part = format!("{name}.bpf.c");
            let has_part = PARTS.iter().any(|(file, _)| *file == part);
            assert!(entry.main.is_some() != has_part, "{name}");
        }
    }
}
