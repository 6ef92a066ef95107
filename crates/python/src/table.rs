//! Arrow tables for libraries that accept Arrow's PyCapsule interface: pandas, polars, pyarrow,
//! DuckDB.

use crate::error::bad;
use arrow_array::types::{ArrowPrimitiveType, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StructArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use pyo3::exceptions::{PyModuleNotFoundError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use std::sync::Arc;

/// Columns of equal length, by name (Arrow). Texts are dictionaries: a categorical in pandas.
///
/// Libraries that accept Arrow take the table directly: `pandas.DataFrame.from_arrow(table)`,
/// `polars.DataFrame(table)`, `pyarrow.table(table)`.
#[pyclass(frozen, module = "equipoise")]
#[derive(Clone)]
pub struct Table(RecordBatch);

impl Table {
    pub fn batch(&self) -> &RecordBatch {
        &self.0
    }

    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

#[pymethods]
impl Table {
    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.schema();
        let rows: ArrayRef = Arc::new(StructArray::from(self.0.clone()));
        let field = Field::new_struct("", schema.fields().clone(), false);
        let rows = ArrayIterator::new(std::iter::once(Ok(rows)), field.into());
        Ok(to_stream_pycapsule(py, Box::new(rows), requested_schema)?)
    }

    /// Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema().as_ref())?)
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.num_rows(), self.0.num_columns())
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The same as a `pyarrow.Table`, without a copy.
    fn to_pyarrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        wanted(slf.py(), "pyarrow", "pandas")?.call_method1("table", (slf,))
    }

    /// The same as a `pandas.DataFrame`: texts as categoricals, numbers without a copy where none is missing.
    #[pyo3(signature = (**options))]
    fn to_pandas<'py>(
        slf: Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        wanted(slf.py(), "pandas", "pandas")?;
        let table = Table::to_pyarrow(slf)?;
        table.call_method("to_pandas", (), options)
    }

    /// The same as a `polars.DataFrame`, without a copy.
    fn to_polars<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        wanted(slf.py(), "polars", "polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        let schema = self.schema();
        let columns: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| format!("  {}: {}", field.name(), field.data_type()))
            .collect();
        let rows = self.0.num_rows();
        format!("equipoise.Table of {rows} rows\n{}", columns.join("\n"))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other
            .cast::<Table>()
            .is_ok_and(|other| other.get().0 == self.0)
    }

    fn __reduce__<'py>(
        slf: Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let bytes = PyBytes::new(py, &written(&slf.get().0).map_err(internal)?);
        let read = slf.get_type().getattr("_of_bytes")?;
        Ok((read, PyTuple::new(py, [bytes])?))
    }

    /// Makes a table from an Arrow IPC stream, the format of a pickle.
    #[staticmethod]
    fn _of_bytes(bytes: &[u8]) -> PyResult<Table> {
        let mut batches = StreamReader::try_new(bytes, None).map_err(internal)?;
        match batches.next() {
            Some(batch) => Ok(Table(batch.map_err(internal)?)),
            None => Err(bad("no table", "expected an Arrow stream of one batch")),
        }
    }
}

fn written(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.into_inner()
}

fn internal(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The module `name`, which `pip install equipoise[extra]` installs.
fn wanted<'py>(py: Python<'py>, name: &str, extra: &str) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(name).map_err(|error| {
        if error.is_instance_of::<PyModuleNotFoundError>(py) {
            let message =
                format!("{name} is not installed; expected `pip install 'equipoise[{extra}]'`");
            PyModuleNotFoundError::new_err(message)
        } else {
            error
        }
    })?;
    Ok(module.into_any())
}

/// Builds a table column by column.
#[derive(Default)]
pub struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// Adds a column of texts.
    pub fn text<'a, T: Into<Option<&'a str>>>(
        self,
        name: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Columns {
        let array: DictionaryArray<Int32Type> = values.into_iter().map(Into::into).collect();
        self.array(name, Arc::new(array))
    }

    /// Adds a column of numbers, some of which may be missing.
    pub fn optional<T: ArrowPrimitiveType>(
        self,
        name: &str,
        values: impl IntoIterator<Item = Option<T::Native>>,
    ) -> Columns {
        let array: PrimitiveArray<T> = PrimitiveArray::from_iter(values);
        self.array(name, Arc::new(array))
    }

    /// Adds a column of numbers.
    pub fn numbers<T: ArrowPrimitiveType>(
        self,
        name: &str,
        values: impl IntoIterator<Item = T::Native>,
    ) -> Columns {
        let array: PrimitiveArray<T> = PrimitiveArray::from_iter_values(values);
        self.array(name, Arc::new(array))
    }

    /// Adds a column of truth values.
    pub fn truths(self, name: &str, values: impl IntoIterator<Item = bool>) -> Columns {
        let array: BooleanArray = values.into_iter().map(Some).collect();
        self.array(name, Arc::new(array))
    }

    /// Adds an existing column.
    pub fn array(mut self, name: &str, array: ArrayRef) -> Columns {
        // Every column may have nulls, whatever its contents: tables of one kind have the same
        // schema.
        self.fields
            .push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
        self
    }

    /// Finishes the table. All columns must have the same length.
    pub fn table(self) -> Table {
        let schema = Arc::new(Schema::new(self.fields));
        Table(RecordBatch::try_new(schema, self.arrays).expect("columns of one length"))
    }
}
