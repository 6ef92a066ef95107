//! `equipoise.Machine`.

use crate::error::{bad, bad_input};
use crate::table::{Columns, Table};
use ::machine::input;
use detect::Found;
use lab::Described;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A machine to simulate.
#[pyclass(frozen, module = "equipoise")]
pub struct Machine {
    pub machine: Arc<::machine::Machine>,
    file: String,
    text: String,
    warnings: Vec<String>,
}

impl Machine {
    /// A description from which another process can make the same machine.
    pub fn described(&self) -> Described {
        Described::Text {
            name: self.machine.name.clone(),
            file: self.file.clone(),
            text: self.text.clone(),
            params: None,
        }
    }

    fn parse(file: &str, text: String) -> PyResult<Machine> {
        let machine = ::machine::Machine::parse(file, &text).map_err(bad_input)?;
        Ok(Machine {
            warnings: machine.warnings.clone(),
            machine: Arc::new(machine),
            file: file.to_owned(),
            text,
        })
    }
}

#[pymethods]
impl Machine {
    #[new]
    fn new(name: &str) -> PyResult<Machine> {
        let (file, text) = ::machine::Machine::source(name).map_err(bad_input)?;
        Machine::parse(&file, text.into_owned())
    }

    #[staticmethod]
    #[pyo3(signature = (text, file="<machine>"))]
    fn from_toml(text: String, file: &str) -> PyResult<Machine> {
        Machine::parse(file, text)
    }

    #[staticmethod]
    #[pyo3(signature = (*, sysfs=None, hwloc=None, dtb=None, name="detected"))]
    fn detect(
        sysfs: Option<PathBuf>,
        hwloc: Option<PathBuf>,
        dtb: Option<PathBuf>,
        name: &str,
    ) -> PyResult<Machine> {
        let found = found(sysfs, hwloc, dtb)?;
        let file = found.machine_file(name);
        let mut machine = Machine::parse(&format!("{name}.toml"), file.text)?;
        machine.warnings.splice(0..0, file.warnings);
        Ok(machine)
    }

    #[staticmethod]
    fn names() -> Vec<&'static str> {
        ::machine::Machine::names().collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.machine.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.machine.description
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    #[getter]
    fn cpus(&self) -> Table {
        let machine = &self.machine;
        let cluster = |cpu: usize| {
            let clusters = machine.clusters();
            clusters.iter().position(|span| span.contains(cpu))
        };
        let number = |number: usize| number as u16;
        let cores = || {
            machine
                .cpus
                .iter()
                .map(|cpu| &machine.core_types[cpu.core_type])
        };
        let khz = |core: &::machine::CoreType| core.opps.last().map(|opp| opp.khz);
        let all = 0..machine.cpus.len();
        Columns::default()
            .numbers::<u16>("cpu", all.clone().map(number))
            .text("core_type", cores().map(|core| core.name.as_str()))
            .numbers::<u32>("capacity", machine.cpus.iter().map(|cpu| cpu.capacity))
            .optional::<u16>("cluster", all.clone().map(|cpu| cluster(cpu).map(number)))
            .numbers::<u16>("node", all.map(|cpu| number(machine.node_of(cpu))))
            .optional::<u32>("khz", cores().map(khz))
            .table()
    }

    #[getter]
    fn has_power(&self) -> bool {
        self.machine.power.is_some()
    }

    fn to_toml(&self) -> &str {
        &self.text
    }

    fn __len__(&self) -> usize {
        self.machine.cpus.len()
    }

    fn __repr__(&self) -> String {
        format!("equipoise.Machine({:?})", self.machine.name)
    }

    fn __reduce__<'py>(slf: Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let from = slf.get_type().getattr("from_toml")?;
        let Machine { text, file, .. } = slf.get();
        Ok((from, (text.clone(), file.clone())))
    }
}

fn found(sysfs: Option<PathBuf>, hwloc: Option<PathBuf>, dtb: Option<PathBuf>) -> PyResult<Found> {
    match (sysfs, hwloc, dtb) {
        (None, Some(file), None) => {
            let text = input::read(&file, "hwloc XML file").map_err(bad_input)?;
            detect::hwloc(&file.to_string_lossy(), &text).map_err(bad_input)
        }
        (None, None, Some(file)) => {
            let blob = input::read_bytes(&file, "device tree blob").map_err(bad_input)?;
            detect::device_tree(&file.to_string_lossy(), &blob).map_err(bad_input)
        }
        (sysfs, None, None) => {
            let folder = sysfs.as_deref().unwrap_or(Path::new("/sys"));
            let mut found = detect::sysfs(folder).map_err(|message| {
                let message = format!("{}: no machine: {message}", folder.display());
                bad(
                    message,
                    "expected /sys, a copy of it, an archive of a copy, or a /proc/cpuinfo",
                )
            })?;
            if sysfs.is_none() {
                found.add_running_kernel();
            }
            Ok(found)
        }
        _ => Err(bad(
            "more than one source is given",
            "expected one of sysfs, hwloc and dtb",
        )),
    }
}
