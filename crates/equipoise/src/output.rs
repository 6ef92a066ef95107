//! Output of results. Files are written under temporary names in their folders, and renamed when everything has
//! succeeded, so that no file is ever half written.

use crate::cli::{Format, Output};
use crate::error::Error;
use crate::interrupt::{self, STOP};
use crate::say;
use crate::stdout;
use clap::ValueEnum as _;
use console::Term;
use lab::{Case, Runs};
use machine::input::{self, BadInput};
use report::{Page, Style, csv, html, json, picture, terminal};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trace::write::Kind;

/// The size in bytes up to which an incomplete trace is kept in memory; a larger trace goes to a temporary file in the
/// output's folder.
const SPOOLED_IN_MEMORY: usize = 1 << 16;

/// A function that makes a text on demand.
pub type View<'a> = Box<dyn Fn() -> String + 'a>;

/// A result that has a name of its own.
pub struct Document<'a> {
    /// The file's name in the output folder, without its extension.
    pub name: String,
    /// The document as a page, for tables, HTML and pictures.
    pub page: Page,
    pub json: View<'a>,
    pub csv: View<'a>,
}

pub struct All<'a> {
    pub json: View<'a>,
    pub csv: View<'a>,
}

/// Files that are complete but do not have their final names yet.
#[derive(Default)]
pub struct Staged {
    files: Vec<(NamedTempFile, PathBuf)>,
    /// The paths of files whose names the user did not give.
    named: Vec<PathBuf>,
}

impl Staged {
    /// Adds a file with the output of `fill`, which will get the name `path` or, if another of these files has that
    /// name, the next free name, such as `path.2.txt`. Returns the name.
    pub fn add(
        &mut self,
        path: &Path,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let name = free_name(path, |name| {
            self.files.iter().all(|(_, other)| other != name)
        });
        let folder = match is_device(path) {
            true => std::env::temp_dir(),
            false => folder_of(path).to_owned(),
        };
        let mut file = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|error| Error::write(path, &error))?;
        interrupt::half_written(file.path());
        let mut out = BufWriter::new(file.as_file_mut());
        fill(&mut out)?;
        out.flush().map_err(|error| Error::write(path, &error))?;
        drop(out);
        self.files.push((file, name.clone()));
        Ok(name)
    }

    /// Puts all files in their places, and prints on standard error the names that the user did not
    /// give.
    pub fn commit(self) -> Result<(), Error> {
        for (file, path) in self.files {
            match is_device(&path) {
                true => copy(&file, &path),
                false => file.persist(&path).map(drop).map_err(|error| error.error),
            }
            .map_err(|error| Error::write(&path, &error))?;
        }
        for path in self.named {
            say!("written: {}", path.display());
        }
        Ok(())
    }
}

/// Writes `documents`, and the files that are `staged`. `all` combines all documents into one JSON
/// or CSV text for standard output; it is `None` if the command has only one document.
pub fn emit(
    output: &Output,
    documents: &[Document<'_>],
    all: Option<All<'_>>,
    mut staged: Staged,
) -> Result<(), Error> {
    let pages: Vec<&Page> = documents.iter().map(|document| &document.page).collect();
    if picture(&pages).is_none() {
        expect_text(output)?;
    }
    let Some(folder) = &output.out else {
        staged.commit()?;
        return print(&text(output.format, documents, all));
    };
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, &error))?;
    for document in documents {
        let (extension, text) = match output.format {
            Format::Table => ("txt", terminal(&document.page, Style::default())),
            Format::Json => ("json", (document.json)()),
            Format::Csv => ("csv", (document.csv)()),
            Format::Html => (
                "html",
                html(&document.name, std::slice::from_ref(&document.page)),
            ),
            Format::Svg => ("svg", picture(&[&document.page]).unwrap_or_default()),
        };
        expect_escaped(&text);
        let path = folder.join(format!("{}.{extension}", document.name));
        staged.add(&path, |out| {
            out.write_all(text.as_bytes())
                .map_err(|error| Error::write(&path, &error))
        })?;
    }
    staged.commit()
}

/// Refuses a picture of a result that has no chart.
pub fn expect_text(output: &Output) -> Result<(), Error> {
    match output.format {
        Format::Svg => bad(
            "--format svg: this result has no chart".to_owned(),
            "expected a result of `compare`, `reproduce` or `explain --diff`",
        ),
        _ => Ok(()),
    }
}

fn bad(message: String, expected: &str) -> Result<(), Error> {
    Err(Error::Input(Box::new(BadInput::whole(message, expected))))
}

pub fn show(output: &Output, name: &str, page: Page) -> Result<(), Error> {
    show_with(output, name, page, Staged::default())
}

/// Shows a page as [`show`] does, and puts the `staged` files in their places.
pub fn show_with(output: &Output, name: &str, page: Page, staged: Staged) -> Result<(), Error> {
    let document = Document {
        name: name.to_owned(),
        json: Box::new(|| json::page(&page)),
        csv: Box::new(|| csv::page(&page)),
        page: page.clone(),
    };
    emit(output, &[document], None, staged)
}

/// Writes `text`, whose format the end of `name` says, to standard output or a file called `name`. Refuses any other
/// format.
pub fn write_text(output: &Output, name: &str, text: &str) -> Result<(), Error> {
    let (_, own) = name.rsplit_once('.').unwrap_or_default();
    let asked = output.format.to_possible_value();
    let asked = asked.as_ref().map_or("", |value| value.get_name());
    if output.format != Format::Table && asked != own {
        return bad(
            format!("--format {asked}: the result is a .{own} file"),
            "expected no --format",
        );
    }
    let Some(folder) = &output.out else {
        return print(text);
    };
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, &error))?;
    expect_escaped(text);
    let path = folder.join(name);
    let mut staged = Staged::default();
    staged.add(&path, |out| {
        out.write_all(text.as_bytes())
            .map_err(|error| Error::write(&path, &error))
    })?;
    staged.commit()
}

fn text(format: Format, documents: &[Document<'_>], all: Option<All<'_>>) -> String {
    let each = |of: fn(&Document<'_>) -> String| documents.iter().map(of).collect::<String>();
    match format {
        Format::Json => all.map_or_else(|| each(|document| (document.json)()), |all| (all.json)()),
        Format::Csv => all.map_or_else(|| each(|document| (document.csv)()), |all| (all.csv)()),
        Format::Html => {
            let pages: Vec<Page> = documents
                .iter()
                .map(|document| document.page.clone())
                .collect();
            html("Equipoise", &pages)
        }
        Format::Svg => {
            let pages: Vec<&Page> = documents.iter().map(|document| &document.page).collect();
            picture(&pages).unwrap_or_default()
        }
        Format::Table => {
            let term = Term::stdout();
            let style = Style {
                colour: console::colors_enabled(),
                width: width(&term),
            };
            let pages: Vec<String> = documents
                .iter()
                .map(|document| terminal(&document.page, style))
                .collect();
            pages.join("\n")
        }
    }
}

/// The width of the output in columns: `COLUMNS` or, if that is not set, the width of the terminal, if the output is
/// one.
fn width(term: &Term) -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.parse().ok());
    asked
        .filter(|&columns| columns > 0)
        .or_else(|| term.size_checked().map(|(_, columns)| columns))
}

/// Checks in debug builds that text from outside has been escaped, which finds a writer that does not escape it.
fn expect_escaped(text: &str) {
    debug_assert!(cage::text::is_safe(text), "not escaped: {text:?}");
}

/// Prints to standard output. It is not an error if a reader, such as `head`, closes the pipe early.
pub fn print(text: &str) -> Result<(), Error> {
    check_stdout()?;
    // Colours are escape sequences.
    if !console::colors_enabled() {
        expect_escaped(text);
    }
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The result of writing to standard output.
pub fn written(result: io::Result<()>) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::write(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Checks that the output can be written, before any run, which may take long.
pub fn check_place(output: &Output) -> Result<(), Error> {
    match &output.out {
        None => check_stdout(),
        Some(folder) if folder.exists() && !folder.is_dir() => bad(
            format!("{}: not a folder", folder.display()),
            "expected a folder for the results",
        ),
        // A missing folder will be made in its nearest existing parent.
        Some(folder) => {
            let mut there = folder.ancestors().filter(|folder| folder.is_dir());
            check_folder(there.next().unwrap_or(Path::new(".")))
        }
    }
}

pub fn check_trace(trace: Option<&Path>) -> Result<(), Error> {
    trace.map_or(Ok(()), |file| {
        trace_kind(file)?;
        check_file(file)
    })
}

/// Checks that `file` can be written, before any run.
pub fn check_file(file: &Path) -> Result<(), Error> {
    if is_device(file) {
        return Ok(());
    }
    let folder = folder_of(file);
    if !folder.is_dir() {
        let message = format!("{}: no such folder", file.display());
        return bad(message, "expected a folder that exists");
    }
    if file.is_dir() {
        let message = format!("{}: this is a folder", file.display());
        return bad(message, "expected the name of a file");
    }
    check_folder(folder)
}

/// Checks that a file can be created in `folder`, which detects what permissions do not show, such as a full or
/// read-only file system.
fn check_folder(folder: &Path) -> Result<(), Error> {
    match tempfile::tempfile_in(folder) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::write(folder, &error)),
    }
}

fn check_stdout() -> Result<(), Error> {
    match stdout::is_closed() {
        true => Err(Error::Write("standard output is closed".to_owned())),
        false => Ok(()),
    }
}

/// Is `path` something to write to, such as /dev/stdout or a pipe, which a file must not replace?
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

fn copy(file: &NamedTempFile, device: &Path) -> io::Result<()> {
    let mut device = OpenOptions::new().write(true).open(device)?;
    io::copy(&mut file.reopen()?, &mut device).map(drop)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// The part of a message that says that the name of `file` must end in one of the `known` extensions, which `expected`
/// describes.
pub fn one_of_extensions<'a>(
    file: &Path,
    known: impl IntoIterator<Item = &'a str>,
    expected: &str,
) -> String {
    let own = file.extension().unwrap_or_default().to_string_lossy();
    let expected = format!("expected a name that ends in {expected}");
    input::suggest(&format!(".{own}"), known, &expected)
}

fn trace_kind(file: &Path) -> Result<Kind, Error> {
    Kind::of(file).ok_or_else(|| {
        Error::Input(Box::new(BadInput::whole(
            format!("{}: unknown kind of trace", file.display()),
            one_of_extensions(
                file,
                trace::write::EXTENSIONS.map(|(extension, _)| extension),
                trace::write::EXPECTED,
            ),
        )))
    })
}

/// Traces the first run of each of `cases` to `file`. If there are several cases, each has a file with the case's name
/// before the extension. Returns no files if the command is to stop.
pub fn trace(file: &Path, cases: &[(String, Case<'_>)], runs: &Runs) -> Result<Staged, Error> {
    match interrupt::check().and_then(|()| traces(file, cases, runs)) {
        Err(Error::Stopped) => {
            say!("{}: not written", file.display());
            Ok(Staged::default())
        }
        result => result,
    }
}

fn traces(file: &Path, cases: &[(String, Case<'_>)], runs: &Runs) -> Result<Staged, Error> {
    let kind = trace_kind(file)?;
    let mut staged = Staged::default();
    for (name, case) in cases {
        let path = match cases {
            [_] => file.to_owned(),
            _ => with_name(file, name),
        };
        let path = staged.add(&path, |out| {
            let spool = tempfile::spooled_tempfile_in(SPOOLED_IN_MEMORY, folder_of(&path));
            let mut writer = report::events::writer(kind, out, case.machine, spool);
            let traced = match kind.has_decisions() {
                true => lab::explain_until,
                false => lab::trace_until,
            };
            traced(case, runs, writer.as_mut(), &STOP)?;
            writer.finish().map_err(|error| Error::write(&path, &error))
        })?;
        if path != file {
            staged.named.push(path);
        }
    }
    Ok(staged)
}

fn with_name(file: &Path, name: &str) -> PathBuf {
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    file.with_extension(format!("{}.{extension}", file_name(name)))
}

/// The first name that `is_free` of `path`, `path.2.txt`, `path.3.txt` and so on.
pub fn free_name(path: &Path, is_free: impl Fn(&Path) -> bool) -> PathBuf {
    let names = (2..).map(|nr: u32| with_name(path, &nr.to_string()));
    let mut names = iter::once(path.to_owned()).chain(names);
    names.find(|it| is_free(it)).expect("some number is free")
}

/// The longest part of a file's name that is made from names; Linux allows 255 bytes with the rest.
const LONGEST_NAME: usize = 200;

/// `name` as part of a file's name, which a leading dot does not hide.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+=".contains(c);
    let is_dot = |place: usize, c: char| place == 0 && c == '.';
    name.char_indices()
        .take(LONGEST_NAME)
        .map(|(place, c)| match plain(c) && !is_dot(place, c) {
            true => c,
            false => '-',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_before_the_extension() {
        let path = with_name(Path::new("a/t.txt"), "Mixed cpu_power/x");
        assert_eq!(path, Path::new("a/t.Mixed-cpu_power-x.txt"));
        assert_eq!(file_name("../x"), "-.-x");
        assert_eq!(file_name(&"x".repeat(300)).len(), LONGEST_NAME);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        check_file(&link).unwrap();
        let mut staged = Staged::default();
        let write = |out: &mut dyn Write| {
            out.write_all(b"text")
                .map_err(|error| Error::write(&link, &error))
        };
        staged.add(&link, write).unwrap();
        staged.commit().unwrap();
        assert_eq!(std::fs::read(&link).unwrap(), b"");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn results_of_the_same_name_do_not_replace_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut staged = Staged::default();
        for text in ["one", "two", "three"] {
            let write = |out: &mut dyn Write| {
                out.write_all(text.as_bytes())
                    .map_err(|error| Error::write(&path, &error))
            };
            staged.add(&path, write).unwrap();
        }
        staged.commit().unwrap();
        let names = ["a.txt", "a.2.txt", "a.3.txt"];
        let texts = names.map(|name| std::fs::read_to_string(folder.path().join(name)).unwrap());
        assert_eq!(texts, ["one", "two", "three"]);
    }

    #[test]
    fn a_file_is_in_its_place_only_when_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let mut staged = Staged::default();
        let write = |out: &mut dyn Write| {
            out.write_all(b"text")
                .map_err(|error| Error::write(Path::new("a"), &error))
        };
        staged.add(&path, write).unwrap();
        assert!(!path.exists());
        staged.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"text");

        let mut staged = Staged::default();
        let fails = |out: &mut dyn Write| {
            write(out)?;
            Err(Error::Write("no".to_owned()))
        };
        staged.add(&folder.path().join("b.txt"), fails).unwrap_err();
        drop(staged);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
