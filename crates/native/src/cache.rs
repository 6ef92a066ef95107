//! Compiled objects in the user's cache, so that nothing is compiled twice.
//!
//! The key of an object is everything that determines it: the compiler, the flags and the preprocessed source, with all
//! that it includes. If the flags ask for debug information, from which messages about a fault take a line, the files'
//! names and line numbers belong to the key, too; otherwise a changed comment leaves the key alone. The preprocessor
//! therefore runs each time, which is quick, but the compiler runs only for new input. If an entry is broken, or the
//! cache cannot be written, or another user could have written to the cache, the compiler runs, without a message.

use crate::compile::Call;
use cage::Checked;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The number of objects to keep, which are the most recently used ones.
const MOST: usize = 500;

/// The length of the digest at the end of an entry, in bytes.
const DIGEST: usize = 32;

/// The longest entry, in bytes: the longest file that a compiler may write, and the digest.
const LONGEST: u64 = (256 << 20) + DIGEST as u64;

pub(crate) struct Cache {
    /// The folder; `None` if no objects are kept.
    folder: Option<Checked>,
}

impl Cache {
    /// The cache in `equipoise/objects` of `$XDG_CACHE_HOME`, otherwise of `~/.cache`.
    pub fn of_user() -> Cache {
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
            .or_else(|| Some(std::env::home_dir()?.join(".cache")));
        Cache::below(cache.as_deref())
    }

    fn below(cache: Option<&Path>) -> Cache {
        let folder =
            cache.and_then(|cache| Checked::make(cache, "equipoise/objects".as_ref()).ok());
        Cache { folder }
    }

    /// The folder and the name of the object that `call` produces, if there can be one.
    fn entry(&self, call: Call, work: &Path) -> Result<Option<(&Checked, String)>, String> {
        let key = key(call, &work.join("source.i"))?;
        Ok(self.folder.as_ref().zip(key))
    }

    /// The shared object that `call` produced before. The error is the preprocessor's message, or says that the cache
    /// does not have the object.
    pub fn find(&self, call: Call, work: &Path) -> Result<Vec<u8>, String> {
        let entry = self.entry(call, work)?;
        let object = entry.and_then(|(folder, name)| read(folder, &name));
        object.ok_or_else(|| "not in the cache".to_owned())
    }

    /// The shared object that `call` produces, taken from the cache if possible. Intermediate files stay in the folder
    /// `work`. The error is the compiler's message.
    pub fn compile(&self, call: Call, work: &Path) -> Result<Vec<u8>, String> {
        let entry = self.entry(call, work)?;
        if let Some((folder, name)) = &entry
            && let Some(object) = read(folder, name)
        {
            return Ok(object);
        }
        let output = work.join("object.so");
        call.compile(&output)?;
        let object = fs::read(&output).map_err(|error| error.to_string())?;
        if let Some((folder, name)) = &entry {
            // A cache that cannot be written is not an error.
            let _ = write(folder, name, &object);
        }
        Ok(object)
    }
}

/// The key of the object, if it can be determined. The preprocessed source is written to the file `preprocessed`. The
/// error is the preprocessor's message.
fn key(call: Call, preprocessed: &Path) -> Result<Option<String>, String> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    };
    let has_lines = call.flags.iter().any(|flag| flag.starts_with("-g"));
    for source in 0..call.sources.len() {
        let mut command = call.of_source(source);
        call.run(command.args(["-E", "-o"]).arg(preprocessed))?;
        let text = fs::read(preprocessed)
            .map_err(|error| format!("{}: {error}", preprocessed.display()))?;
        add(&match has_lines {
            true => without_folders(&text),
            false => without_lines(&text),
        });
    }
    let Some(first) = identity(&call.compiler[0]) else {
        return Ok(None);
    };
    // Several words may be programs, as in `ccache gcc`.
    let others = call.compiler[1..].iter().filter_map(|word| identity(word));
    for (path, version) in std::iter::once(first).chain(others) {
        add(path.as_os_str().as_bytes());
        add(&version);
    }
    call.compiler[1..]
        .iter()
        .for_each(|word| add(word.as_bytes()));
    call.flags.iter().for_each(|flag| add(flag.as_bytes()));
    let digits = digest.finalize();
    Ok(Some(
        digits.iter().map(|byte| format!("{byte:02x}")).collect(),
    ))
}

/// The text `preprocessed` without the folders in its line markers (`# LINE "FILE" FLAGS`). The folder of the headers
/// is a new one each time, and messages do not contain folders.
fn without_folders(preprocessed: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(preprocessed.len());
    for line in preprocessed.split_inclusive(|&byte| byte == b'\n') {
        let quote = line.iter().position(|&byte| byte == b'"');
        let slash = line.iter().rposition(|&byte| byte == b'/');
        match quote.zip(slash) {
            Some((quote, slash)) if quote < slash && line.starts_with(b"# ") => {
                text.extend_from_slice(&line[..=quote]);
                text.extend_from_slice(&line[slash + 1..]);
            }
            _ => text.extend_from_slice(line),
        }
    }
    text
}

fn without_lines(preprocessed: &[u8]) -> Vec<u8> {
    let lines = preprocessed.split_inclusive(|&byte| byte == b'\n');
    let kept = lines.filter(|line| !line.starts_with(b"# ") && !line.trim_ascii().is_empty());
    kept.flatten().copied().collect()
}

/// The identity of a program: its file, with its modification time and size, which an update changes. `None` if
/// `compiler` is not a program.
fn identity(compiler: &OsStr) -> Option<(PathBuf, Vec<u8>)> {
    let found = if compiler.as_bytes().contains(&b'/') {
        PathBuf::from(compiler)
    } else {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(compiler))
            .find(|path| path.is_file())?
    };
    let path = found.canonicalize().ok()?;
    let file = path.metadata().ok().filter(|file| file.is_file())?;
    let version = format!("{} {:?}", file.len(), file.modified().ok()?);
    Some((path, version.into_bytes()))
}

/// The object in the entry `name`, if it exists and is complete. The read counts as a use of the entry.
fn read(folder: &Checked, name: &str) -> Option<Vec<u8>> {
    let (mut object, file) = folder.read(name, LONGEST).ok()?;
    let digest = object.split_off(object.len().checked_sub(DIGEST)?);
    if Sha256::digest(&object)[..] != digest[..] {
        return None;
    }
    let _ = file.set_modified(SystemTime::now());
    Some(object)
}

/// Writes the entry `name` atomically, and removes the least recently used entries if there are too many.
fn write(folder: &Checked, name: &str, object: &[u8]) -> io::Result<()> {
    folder.write(name, &[object, &Sha256::digest(object)].concat())?;
    let mut used = folder.files()?;
    used.sort();
    let surplus = used.len().saturating_sub(MOST);
    let mut oldest = used.iter().take(surplus);
    oldest.try_for_each(|(_, name)| folder.remove(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt as _;

    const OBJECTS: &str = "equipoise/objects";

    /// A source with a header of its own, and a cache.
    struct Setup(tempfile::TempDir);

    impl Setup {
        fn new() -> Setup {
            let setup = Setup(tempfile::tempdir().unwrap());
            fs::write(
                setup.path("a.c"),
                "#include \"a.h\"\nint f(void) { return A; }\n",
            )
            .unwrap();
            fs::write(setup.path("a.h"), "#define A 1\n").unwrap();
            setup
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn cache(&self) -> Cache {
            Cache::below(Some(&self.path("")))
        }

        fn compile_with(&self, cache: &Cache, flags: &[&str]) -> Vec<u8> {
            let call = Call {
                compiler: &compile::compiler(),
                flags,
                include: &[],
                confine: &|_| {},
                finish: |command| command.output(),
                sources: &[&self.path("a.c")],
            };
            let work = tempfile::tempdir().unwrap();
            cache.compile(call, work.path()).unwrap()
        }

        fn compile(&self) -> Vec<u8> {
            self.compile_with(&self.cache(), PLAIN)
        }

        fn folder(&self) -> Checked {
            self.cache().folder.unwrap()
        }

        fn names(&self) -> Vec<String> {
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            self.entries().iter().map(name).collect()
        }

        fn entries(&self) -> Vec<PathBuf> {
            let entries = fs::read_dir(self.path(OBJECTS)).unwrap();
            entries.map(|entry| entry.unwrap().path()).collect()
        }
    }

    /// A content of the cache that no compiler would produce.
    const MARK: &[u8] = b"from the cache";

    const PLAIN: &[&str] = &["-shared", "-fPIC"];
    const DEBUG: &[&str] = &["-g", "-shared", "-fPIC"];

    fn marked() -> Setup {
        marked_with(PLAIN)
    }

    fn marked_with(flags: &[&str]) -> Setup {
        let setup = Setup::new();
        let object = setup.compile_with(&setup.cache(), flags);
        assert!(object.starts_with(b"\x7fELF"));
        write(&setup.folder(), &setup.names()[0], MARK).unwrap();
        setup
    }

    #[test]
    fn the_same_bytes_are_compiled_once() {
        let setup = marked();
        assert_eq!(setup.compile(), MARK);
        // Text that the preprocessor drops does not change the key, and neither does the folder.
        fs::write(setup.path("a.h"), "#define A 1 /* one */\n").unwrap();
        assert_eq!(setup.compile(), MARK);
        assert_eq!(setup.entries().len(), 1);
        let elsewhere = Setup::new();
        elsewhere.compile();
        assert_eq!(elsewhere.names(), setup.names());
    }

    #[test]
    fn a_changed_source_header_or_flag_is_compiled_anew() {
        let setup = marked();
        assert_ne!(
            setup.compile_with(&setup.cache(), &["-O2", "-shared", "-fPIC"]),
            MARK
        );
        fs::write(setup.path("a.h"), "#define A 2\n").unwrap();
        assert_ne!(setup.compile(), MARK);
        fs::write(setup.path("a.c"), "int f(void) { return 3; }\n").unwrap();
        assert_ne!(setup.compile(), MARK);
        assert_eq!(setup.entries().len(), 4);
    }

    #[test]
    fn an_updated_compiler_behind_a_wrapper_compiles_anew() {
        let setup = Setup::new();
        let compiler = ["sh".into(), setup.path("wrapped").into_os_string()];
        let compile = |text: &str| {
            fs::write(&compiler[1], text).unwrap();
            let call = Call {
                compiler: &compiler,
                flags: PLAIN,
                include: &[],
                confine: &|_| {},
                finish: |command| command.output(),
                sources: &[&setup.path("a.c")],
            };
            let work = tempfile::tempdir().unwrap();
            setup.cache().compile(call, work.path()).unwrap()
        };
        compile("exec cc \"$@\"\n");
        write(&setup.folder(), &setup.names()[0], MARK).unwrap();
        assert_eq!(compile("exec cc -O2 \"$@\"\n")[..4], *b"\x7fELF");
    }

    #[test]
    fn lines_and_names_of_files_count_if_there_is_debug_information() {
        for (flags, counts) in [(DEBUG, true), (PLAIN, false)] {
            let setup = marked_with(flags);
            let text = fs::read_to_string(setup.path("a.c")).unwrap();
            for first in ["/* A comment. */\n", "#line 5\n", "#line 1 \"b.c\"\n"] {
                fs::write(setup.path("a.c"), format!("{first}{text}")).unwrap();
                let object = setup.compile_with(&setup.cache(), flags);
                assert_eq!(object != MARK, counts, "{first}");
            }
        }
    }

    #[test]
    fn a_broken_entry_is_compiled_anew() {
        let setup = marked();
        let entry = &setup.entries()[0];
        let whole = fs::read(entry).unwrap();
        let mut changed = whole.clone();
        changed[3] ^= 1;
        for broken in [&changed[..], &whole[..whole.len() - 1], &whole[..3], &[]] {
            fs::write(entry, broken).unwrap();
            let object = setup.compile();
            assert!(object.starts_with(b"\x7fELF"));
            assert_eq!(read(&setup.folder(), &setup.names()[0]), Some(object));
        }
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_no_error() {
        let setup = Setup::new();
        let file = setup.path("a.c");
        for folder in [Some(&*file), None] {
            let object = setup.compile_with(&Cache::below(folder), &["-shared", "-fPIC"]);
            assert!(object.starts_with(b"\x7fELF"));
        }
    }

    #[test]
    fn an_entry_that_another_user_may_have_written_is_compiled_anew() {
        let setup = marked();
        let entry = &setup.entries()[0];
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(entry, 0o666);
        assert!(setup.compile().starts_with(b"\x7fELF"));
        let setup = marked();
        mode(&setup.path(OBJECTS), 0o777);
        assert!(setup.compile().starts_with(b"\x7fELF"));
        mode(&setup.path(OBJECTS), 0o700);
        assert_eq!(setup.compile(), MARK);
        // Only root can make a cache of another user.
        let owned = |path: &Path, by| std::os::unix::fs::chown(path, Some(by), None).is_ok();
        if owned(&setup.path(OBJECTS), 65534) {
            assert!(setup.compile().starts_with(b"\x7fELF"));
            assert!(owned(&setup.path(OBJECTS), 0) && owned(&setup.entries()[0], 65534));
            assert!(setup.compile().starts_with(b"\x7fELF"));
            write(&setup.folder(), &setup.names()[0], MARK).unwrap();
        }
        // A pipe could block a reader forever, and a link may lead to any file.
        let entry = &setup.entries()[0];
        let moved = setup.path("moved");
        fs::rename(entry, &moved).unwrap();
        let made = std::process::Command::new("mkfifo").arg(entry).status();
        assert!(made.unwrap().success());
        assert!(setup.compile().starts_with(b"\x7fELF"));
        fs::remove_file(entry).unwrap();
        std::os::unix::fs::symlink(&moved, entry).unwrap();
        assert!(setup.compile().starts_with(b"\x7fELF"));
    }

    #[test]
    fn the_objects_that_were_used_last_are_kept() {
        let setup = marked();
        let used = setup.entries()[0].clone();
        let long_ago = SystemTime::UNIX_EPOCH;
        for number in 0..MOST {
            let file = File::create(setup.path(&format!("{OBJECTS}/{number}"))).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        File::open(&used).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(setup.compile(), MARK);
        fs::write(setup.path("a.h"), "#define A 2\n").unwrap();
        setup.compile();
        assert_eq!(setup.entries().len(), MOST);
        assert!(used.exists());
    }

    #[test]
    fn the_compiler_s_message_is_the_error() {
        let setup = Setup::new();
        for (text, said) in [("int f( {}\n", "error:"), ("#include \"b.h\"\n", "b.h")] {
            fs::write(setup.path("a.c"), text).unwrap();
            let call = Call {
                compiler: &compile::compiler(),
                flags: &[],
                include: &[],
                confine: &|_| {},
                finish: |command| command.output(),
                sources: &[&setup.path("a.c")],
            };
            let error = setup.cache().compile(call, setup.0.path()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
