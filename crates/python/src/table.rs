//! Arrow tables for libraries that accept Arrow's PyCapsule interface: pandas, polars, pyarrow,
//! DuckDB.

use crate::arrow::{Column, Schema, Stream, Texts, Values};
use crate::error::bad;
use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};
use std::sync::Arc;

/// The name, type, buffer, validity bits and dictionary of each column.
type Pickled = (
    String,
    String,
    Vec<u8>,
    Option<Vec<u8>>,
    Option<Vec<String>>,
);

/// Columns of equal length, by name (Arrow). Texts are dictionaries: a categorical in pandas.
///
/// Libraries that accept Arrow take the table directly: `pandas.DataFrame.from_arrow(table)`,
/// `polars.DataFrame(table)`, `pyarrow.table(table)`.
#[pyclass(frozen, module = "equipoise")]
#[derive(Clone, PartialEq)]
pub struct Table {
    rows: usize,
    columns: Arc<Vec<(String, Column)>>,
}

impl Table {
    pub fn column(&self, name: &str) -> Option<&Column> {
        let found = self.columns.iter().find(|(own, _)| own == name);
        found.map(|(_, column)| column)
    }
}

#[pymethods]
impl Table {
    /// Arrow's PyCapsule interface. Casting to another schema is left to the consumer.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = Stream::new(self.rows, Arc::clone(&self.columns));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = Schema::of_rows(&self.columns);
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.rows
    }

    /// The numbers of rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns.len())
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The table as a `pyarrow.Table`, without a copy.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = wanted(slf.py(), "to_pyarrow()", "pyarrow", "pandas")?;
        module.call_method1("table", (slf,))
    }

    /// The table as a `pandas.DataFrame`: texts as categoricals, numbers without a copy if none is missing.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(
        slf: Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        wanted(slf.py(), "to_pandas()", "pandas", "pandas")?;
        let table = Table::to_pyarrow(slf)?;
        table.call_method("to_pandas", (), options)
    }

    /// The table as a `polars.DataFrame`, without a copy.
    fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = wanted(slf.py(), "to_polars()", "polars", "polars")?;
        module.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        let kind = |column: &Column| match column.dictionary() {
            Some(_) => "text",
            None => column.kind(),
        };
        let columns = self.columns.iter();
        let columns = columns.map(|(name, column)| format!("  {name}: {}", kind(column)));
        let columns: Vec<String> = columns.collect();
        format!(
            "equipoise.Table of {} rows\n{}",
            self.rows,
            columns.join("\n")
        )
    }

    /// The output in a notebook: pandas' table if pandas is installed, otherwise the columns.
    fn _repr_html_(slf: Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let text = slf.get().__repr__();
        match Table::to_pandas(slf, None) {
            Ok(frame) => frame.call_method0("_repr_html_")?.extract(),
            Err(error) if error.is_instance_of::<PyModuleNotFoundError>(py) => {
                Ok(format!("<pre>{text}</pre>"))
            }
            Err(error) => Err(error),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Table>().is_ok_and(|other| other.get() == self)
    }

    fn __reduce__<'py>(
        slf: Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let columns = slf.get().columns.iter().map(|(name, column)| {
            let (data, valid) = column.parts();
            let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
            let texts = column.dictionary();
            let texts: Option<Vec<&str>> = texts.map(|texts| texts.iter().collect());
            (name, column.kind(), bytes(data), valid.map(bytes), texts)
        });
        let columns = PyList::new(py, columns.collect::<Vec<_>>())?;
        let make = slf.get_type().getattr("_of_columns")?;
        Ok((make, (slf.get().rows, columns).into_pyobject(py)?))
    }

    /// Makes a table from the content of a pickle.
    #[staticmethod]
    fn _of_columns(rows: usize, columns: Vec<Pickled>) -> PyResult<Table> {
        let column = |(name, kind, data, valid, texts): Pickled| {
            let texts: Option<Texts> = texts.map(|texts| texts.iter().collect());
            let column = Column::of_parts(&kind, rows, (&data, valid.as_deref()), texts);
            match column {
                Some(column) => Ok((name, column)),
                None => Err(bad(
                    format!("column `{name}` is damaged"),
                    "expected a pickled table",
                )),
            }
        };
        let columns = columns.into_iter().map(column).collect::<PyResult<_>>()?;
        Ok(Table {
            rows,
            columns: Arc::new(columns),
        })
    }
}

/// The module `name`, which `what` requires. If it is missing, the error names the `extra` that
/// installs it.
fn wanted<'py>(
    py: Python<'py>,
    what: &str,
    name: &str,
    extra: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(name).or_else(|error| {
        if error.is_instance_of::<PyModuleNotFoundError>(py) {
            py.import("equipoise.errors")?
                .call_method1("require", (what, extra))?;
        }
        Err(error)
    })?;
    Ok(module.into_any())
}

#[derive(Default)]
pub struct Columns(Vec<(String, Column)>);

impl Columns {
    pub fn text<'a, T: Into<Option<&'a str>>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Columns {
        self.column(name, Column::texts(values.into_iter().map(Into::into)))
    }

    pub fn optional<T: Copy + Default>(
        self,
        name: &str,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Columns
    where
        Values: From<Vec<T>>,
    {
        self.column(name, Column::optional(values))
    }

    pub fn numbers<T>(self, name: &str, values: impl IntoIterator<Item = T>) -> Columns
    where
        Values: From<Vec<T>>,
    {
        let values: Vec<T> = values.into_iter().collect();
        self.column(name, Column::numbers(values))
    }

    pub fn truths(self, name: &str, values: impl IntoIterator<Item = bool>) -> Columns {
        self.column(name, Column::truths(values))
    }

    pub fn column(mut self, name: &str, column: Column) -> Columns {
        self.0.push((name.to_owned(), column));
        self
    }

    /// Finishes the table. All columns must have the same length.
    pub fn table(self) -> Table {
        let rows = self.0.first().map_or(0, |(_, column)| column.len());
        assert!(self.0.iter().all(|(_, column)| column.len() == rows));
        Table {
            rows,
            columns: Arc::new(self.0),
        }
    }
}
