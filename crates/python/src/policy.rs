//! `equipoise.Policy`.

use crate::assignments;
use crate::error::{bad, bad_input};
use crate::table::{Columns, Table};
use lab::Scheduler;
use native::{Kernel, Object};
use policy::{Kind, Policy as Preset, Setting};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A scheduler with its settings.
#[pyclass(frozen, module = "equipoise")]
pub struct Policy {
    pub scheduler: Scheduler,
    source: Source,
}

enum Source {
    Preset(Box<Preset>),
    /// A scheduler in C: its file, the compiled object, and the values that were set for its variables.
    Foreign(PathBuf, Vec<u8>, Vec<(String, i64)>),
}

impl Policy {
    fn of(preset: Preset) -> PyResult<Policy> {
        let scheduler = Scheduler::under(preset.clone(), Kernel::default()).map_err(bad_input)?;
        Ok(Policy {
            scheduler,
            source: Source::Preset(Box::new(preset)),
        })
    }

    fn compiled(file: PathBuf, image: Vec<u8>, settings: Vec<(String, i64)>) -> PyResult<Policy> {
        let shown = file.display().to_string();
        let object = Object::read(&shown, image.clone())
            .map_err(|error| bad(error.to_string(), "expected a compiled scheduler"))?;
        let mut scheduler = Scheduler::compiled(&file, object).map_err(bad_input)?;
        for (variable, value) in &settings {
            scheduler.set(variable, *value).map_err(bad_input)?;
        }
        Ok(Policy {
            scheduler,
            source: Source::Foreign(file, image, settings),
        })
    }

    fn preset(&self) -> PyResult<&Preset> {
        match &self.source {
            Source::Preset(preset) => Ok(preset),
            Source::Foreign(file, ..) => Err(bad(
                format!("{}: a scheduler in C has no policy file", file.display()),
                "expected one of Equipoise's policies",
            )),
        }
    }
}

/// Converts `value` to a value of the variable `name` of a scheduler in C.
fn number(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| {
        bad(
            format!("{name}={value}: not a valid number"),
            "expected a whole number of 64 bits",
        )
    })
}

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (name, **settings))]
    fn new(name: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        let policy = Preset::find(name).map_err(bad_input)?;
        let settings = assignments(settings)?;
        if settings.is_empty() {
            return Policy::of(policy);
        }
        let settings = settings.iter().map(String::as_str);
        Policy::of(policy.with(settings).map_err(bad_input)?)
    }

    #[staticmethod]
    #[pyo3(signature = (text, file="<policy>"))]
    fn from_toml(text: &str, file: &str) -> PyResult<Policy> {
        Policy::of(Preset::parse(file, text).map_err(bad_input)?)
    }

    #[staticmethod]
    #[pyo3(signature = (*files, include=None, kernel=None, **settings))]
    fn from_c(
        files: &Bound<'_, PyTuple>,
        include: Option<Vec<PathBuf>>,
        kernel: Option<&str>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Policy> {
        let files: Vec<PathBuf> = files.extract()?;
        let include = include.unwrap_or_default();
        let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let folders: Vec<&Path> = include.iter().map(PathBuf::as_path).collect();
        let kernel = kernel.map_or(Ok(Kernel::default()), str::parse);
        let kernel = kernel.map_err(|expected| bad("from_c(): no such kernel", expected))?;
        let scheduler = Scheduler::foreign_in(&paths, &folders, kernel).map_err(bad_input)?;
        let image = scheduler.object().image(&[]);
        let image = image
            .map_err(|error| bad(error.to_string(), "expected a scheduler"))?
            .bytes;
        let mut values = Vec::new();
        for (name, value) in settings.into_iter().flatten() {
            values.push((name.extract()?, number(&name, &value)?));
        }
        Policy::compiled(files.into_iter().next().unwrap_or_default(), image, values)
    }

    /// This scheduler under the name `name`, either from a pickle or to distinguish several
    /// schedulers in C with the same name.
    fn named(&self, name: String) -> PyResult<Policy> {
        let mut scheduler = self.scheduler.clone();
        scheduler.rename(name.clone());
        let source = match &self.source {
            Source::Preset(preset) => Source::Preset(Box::new(Preset {
                name,
                ..Preset::clone(preset)
            })),
            Source::Foreign(file, image, settings) => {
                Source::Foreign(file.clone(), image.clone(), settings.clone())
            }
        };
        Ok(Policy { scheduler, source })
    }

    #[pyo3(name = "with_settings", signature = (**settings))]
    fn with_settings(&self, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Policy> {
        if let Source::Foreign(file, image, before) = &self.source {
            let mut values = before.clone();
            for (name, value) in settings.into_iter().flatten() {
                values.push((name.extract()?, number(&name, &value)?));
            }
            return Policy::compiled(file.clone(), image.clone(), values);
        }
        let settings = assignments(settings)?;
        let changed = self.preset()?.with(settings.iter().map(String::as_str));
        Policy::of(changed.map_err(bad_input)?)
    }

    #[staticmethod]
    fn names() -> Vec<&'static str> {
        Preset::names().collect()
    }

    #[staticmethod]
    fn usual() -> Vec<&'static str> {
        Preset::usual().collect()
    }

    #[getter]
    fn name(&self) -> &str {
        self.scheduler.name()
    }

    #[getter]
    fn description(&self) -> &str {
        self.scheduler.description()
    }

    #[getter]
    fn is_foreign(&self) -> bool {
        self.scheduler.is_foreign()
    }

    #[getter]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        match &self.source {
            Source::Preset(preset) => {
                for (setting, value) in preset.settings.list() {
                    match setting.kind {
                        Kind::Number { .. } => all.set_item(&setting.key, value)?,
                        Kind::Switch => all.set_item(&setting.key, value != 0)?,
                        Kind::Choice(_) => all.set_item(&setting.key, setting.show(value))?,
                    }
                }
            }
            Source::Foreign(.., settings) => {
                for (name, value) in settings {
                    all.set_item(name, value)?;
                }
            }
        }
        Ok(all)
    }

    #[getter]
    fn space(&self) -> PyResult<Table> {
        let settings: Vec<(&Setting, u64)> = self.preset()?.settings.list().collect();
        let all = || settings.iter().map(|(setting, _)| *setting);
        let range = |setting: &Setting| match &setting.kind {
            Kind::Number { range, .. } => Some((*range.start(), *range.end())),
            _ => None,
        };
        let choices = |setting: &Setting| match &setting.kind {
            Kind::Choice(choices) => {
                let words: Vec<&str> = choices.iter().map(|choice| choice.word).collect();
                Some(words.join(" "))
            }
            _ => None,
        };
        let kind = |setting: &Setting| match setting.kind {
            Kind::Number { .. } => "number",
            Kind::Switch => "switch",
            Kind::Choice(_) => "choice",
        };
        let shown: Vec<String> = settings
            .iter()
            .map(|(setting, value)| setting.show(*value))
            .collect();
        let choices: Vec<Option<String>> = all().map(choices).collect();
        Ok(Columns::default()
            .text("setting", all().map(|setting| setting.key.as_str()))
            .text("kind", all().map(kind))
            .text("value", shown.iter().map(String::as_str))
            .optional::<u64>("least", all().map(|setting| Some(range(setting)?.0)))
            .optional::<u64>("most", all().map(|setting| Some(range(setting)?.1)))
            .text("choices", choices.iter().map(Option::as_deref))
            .text("meaning", all().map(|setting| setting.meaning))
            .table())
    }

    #[pyo3(signature = (name=None, description=None))]
    fn to_toml(&self, name: Option<&str>, description: Option<&str>) -> PyResult<String> {
        let preset = self.preset()?;
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        };
        let name = Some(name.unwrap_or(&preset.name)).filter(|name| !name.is_empty());
        let name: String = name.unwrap_or("-").chars().map(plain).collect();
        let text = |text: &str| serde_json::to_string(text).expect("a text is JSON, and so TOML");
        let description = description.unwrap_or(&preset.description);
        let mut lines = vec![
            format!("name = {}", text(&name)),
            format!("description = {}", text(description)),
            format!("scheduler = {}", text(preset.scheduler)),
        ];
        let settings = preset.settings.list();
        lines.extend(
            settings.map(|(setting, value)| format!("{} = {}", setting.key, setting.toml(value))),
        );
        Ok(lines.join("\n") + "\n")
    }

    #[pyo3(signature = (path, name=None, description=None))]
    fn save(&self, path: PathBuf, name: Option<&str>, description: Option<&str>) -> PyResult<()> {
        let text = self.to_toml(name, description)?;
        write_whole(&path, &text)
            .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    }

    #[staticmethod]
    fn _compiled(
        file: PathBuf,
        image: Vec<u8>,
        settings: Vec<(String, i64)>,
        name: String,
    ) -> PyResult<Policy> {
        Policy::compiled(file, image, settings)?.named(name)
    }

    #[staticmethod]
    fn _of_toml(text: &str, name: String) -> PyResult<Policy> {
        Policy::from_toml(text, "<policy>")?.named(name)
    }

    /// The content of a pickle, which also identifies a sweep's chunk.
    fn _source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let name = self.scheduler.name().to_owned();
        match &self.source {
            Source::Preset(_) => (self.to_toml(None, None)?, name).into_pyobject(py),
            Source::Foreign(file, image, settings) => {
                let image = PyBytes::new(py, image);
                (file.clone(), image, settings.clone(), name).into_pyobject(py)
            }
        }
    }

    fn __repr__(&self) -> String {
        format!("equipoise.Policy({:?})", self.scheduler.name())
    }

    fn __reduce__<'py>(
        slf: Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let make = match slf.get().source {
            Source::Preset(_) => "_of_toml",
            Source::Foreign(..) => "_compiled",
        };
        Ok((slf.get_type().getattr(make)?, slf.get()._source(slf.py())?))
    }
}

/// Writes `text` to the file `path`, which is never half written.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        // A device, such as /dev/stdout, is written to, not replaced.
        return fs::write(path, text);
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
