//! `equipoise.Workload`.

use crate::assignments;
use crate::error::{bad, bad_input};
use crate::table::{Columns, Table};
use ::machine::Machine as Simulated;
use ::machine::input;
use ::trace::import;
use ::workload::{Metric, Start, Workload as Load};
use lab::Described;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use report::json::{better_name, goal_name};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tasks' behaviour: a benchmark's model, an rt-app file, or a recorded load.
#[pyclass(frozen, module = "equipoise")]
pub struct Workload {
    pub load: Shared,
    source: Source,
    notes: Vec<String>,
}

/// The source of a workload, from which another process can make the same workload.
#[derive(Clone)]
struct Source {
    name: String,
    /// The name and the text of the file of a workload that is not a benchmark.
    text: Option<(String, String)>,
    params: Vec<String>,
    nodes: Option<String>,
}

impl Workload {
    /// A description from which another process can make the same workload, and the nodes to which
    /// it is bound.
    pub fn described(&self) -> (Described, Option<String>) {
        let Source {
            name,
            text,
            params,
            nodes,
        } = self.source.clone();
        let params = Some(params.join(",")).filter(|params| !params.is_empty());
        let described = match (text, params) {
            (Some((file, text)), params) => Described::Text {
                name,
                file,
                text,
                params,
            },
            (None, None) => Described::Named(name),
            (None, Some(params)) => Described::Named(format!("{name}:{params}")),
        };
        (described, nodes)
    }
}

impl Source {
    fn load(self) -> PyResult<Workload> {
        let params = self.params.join(",");
        let load = match &self.text {
            Some((file, text)) => {
                let params = Some(params.as_str()).filter(|params| !params.is_empty());
                ::workload::parse(&self.name, file, text, params)
            }
            None if params.is_empty() => ::models::load(&self.name),
            None => ::models::load(&format!("{}:{params}", self.name)),
        };
        let mut load = load.map_err(bad_input)?;
        if let Some(nodes) = &self.nodes {
            load = ::workload::bind(load, nodes);
        }
        Ok(Workload {
            load: Shared(load.into()),
            source: self,
            notes: Vec::new(),
        })
    }
}

#[pymethods]
impl Workload {
    #[new]
    #[pyo3(signature = (name, *, cpunodebind=None, **parameters))]
    fn new(
        name: &str,
        cpunodebind: Option<String>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Workload> {
        let (name, mut params) = match name.rsplit_once(':') {
            Some((name, params)) => (name, vec![params.to_owned()]),
            None => (name, Vec::new()),
        };
        params.extend(assignments(parameters)?);
        let path = Path::new(name);
        let builtin = ::models::builtin().any(|(known, _)| known == name);
        let is_file = !builtin && path.is_file();
        let text = is_file.then(|| input::read(path, "rt-app JSON file or recording"));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let source = Source {
            text: match text {
                Some(text) => Some((name.to_owned(), text.map_err(bad_input)?)),
                None => None,
            },
            name: if is_file {
                stem.into_owned()
            } else {
                name.to_owned()
            },
            params,
            nodes: cpunodebind,
        };
        source.load()
    }

    #[staticmethod]
    #[pyo3(signature = (description, name="rt-app", *, cpunodebind=None, **parameters))]
    fn from_rt_app(
        description: &Bound<'_, PyAny>,
        name: &str,
        cpunodebind: Option<String>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Workload> {
        let text = match description.cast::<PyString>() {
            Ok(text) => text.to_string(),
            Err(_) if description.is_instance_of::<PyDict>() => {
                let options = PyDict::new(description.py());
                options.set_item("indent", 1)?;
                let json = description.py().import("json")?;
                let text = json.call_method("dumps", (description,), Some(&options))?;
                text.extract()?
            }
            Err(_) => {
                let kind = description.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "an rt-app description is a dict or a str of JSON, not {kind}"
                )));
            }
        };
        let source = Source {
            name: name.to_owned(),
            text: Some((format!("<{name}>"), text)),
            params: assignments(parameters)?,
            nodes: cpunodebind,
        };
        source.load()
    }

    #[staticmethod]
    #[pyo3(signature = (trace, machine=None, *, name=None))]
    fn from_trace(
        trace: PathBuf,
        machine: Option<PyRef<'_, crate::machine::Machine>>,
        name: Option<String>,
    ) -> PyResult<Workload> {
        let file = input::shown(&trace);
        let opened = File::open(&trace)
            .map_err(|error| bad_input(input::unreadable(&trace, "trace", &error)))?;
        let machine = machine.map(|machine| machine.machine.clone());
        let imported = import::import(&file, BufReader::new(opened), machine.as_deref());
        let imported = imported.map_err(bad_input)?;
        let text = serde_json::to_string(&imported.recording)
            .map_err(|error| bad(format!("{file}: {error}"), "expected a trace of a load"))?;
        let stem = trace.file_stem().unwrap_or_default().to_string_lossy();
        let source = Source {
            name: name.unwrap_or_else(|| stem.into_owned()),
            text: Some((file, text)),
            params: Vec::new(),
            nodes: None,
        };
        let summary = imported.summary;
        let mut notes = vec![format!(
            "{} in {:.3} s, {} lost; {}",
            machine::counted(summary.events, "event", "events"),
            summary.span_ns as f64 / 1e9,
            summary.lost,
            machine::counted(imported.recording.threads.len(), "thread", "threads")
        )];
        notes.extend(summary.notes);
        Ok(Workload {
            notes,
            ..source.load()?
        })
    }

    #[staticmethod]
    fn names() -> Vec<&'static str> {
        ::models::builtin().map(|(name, _)| name).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        self.load.name()
    }

    #[getter]
    fn description(&self) -> &str {
        self.load.description()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    #[getter]
    fn metrics(&self) -> Table {
        let metrics = self.load.metrics();
        let goal = |metric: &Metric| metric.role.goal().map(goal_name);
        Columns::default()
            .text("metric", metrics.iter().map(|metric| &*metric.name))
            .text("unit", metrics.iter().map(|metric| metric.unit.name()))
            .text(
                "better",
                metrics.iter().map(|metric| better_name(metric.better)),
            )
            .text("goal", metrics.iter().map(goal))
            .table()
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let name = match &self.source.text {
            Some(_) => "",
            None => self.source.name.as_str(),
        };
        for param in ::models::parameters(name) {
            all.set_item(param.name, param.show(param.default))?;
        }
        Ok(all)
    }

    /// The content of a pickle, which also identifies a sweep's chunk.
    fn _source(&self) -> Parts {
        let Source {
            name,
            text,
            params,
            nodes,
        } = self.source.clone();
        (name, text, params, nodes)
    }

    #[staticmethod]
    fn _of_source(
        name: String,
        text: Option<(String, String)>,
        params: Vec<String>,
        nodes: Option<String>,
    ) -> PyResult<Workload> {
        Source {
            name,
            text,
            params,
            nodes,
        }
        .load()
    }

    fn __repr__(&self) -> String {
        format!("equipoise.Workload({:?})", self.load.name())
    }

    fn __reduce__<'py>(slf: Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        Ok((slf.get_type().getattr("_of_source")?, slf.get()._source()))
    }
}

type Parts = (
    String,
    Option<(String, String)>,
    Vec<String>,
    Option<String>,
);

#[derive(Clone)]
pub struct Shared(Arc<dyn Load>);

impl Load for Shared {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn metrics(&self) -> &[Metric] {
        self.0.metrics()
    }

    fn inner(&self) -> Option<&dyn Load> {
        Some(&*self.0)
    }

    fn of_run(&self, run: u32, count: u32) -> Option<Box<dyn Load>> {
        self.0.of_run(run, count)
    }

    fn start(&self, machine: &Simulated) -> Start {
        self.0.start(machine)
    }
}
