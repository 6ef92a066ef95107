//! Columns in Arrow's memory layout, and the C structures that export them
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>,
//! <https://arrow.apache.org/docs/format/CStreamInterface.html>). The crate `arrow` is only under
//! Apache-2.0, so code under GPL-2.0-only may not link it.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

macro_rules! values {
    ($($kind:ident($type:ty), $format:literal, $name:literal;)*) => {
        pub enum Values {
            $($kind(Vec<$type>),)*
        }

        $(impl From<Vec<$type>> for Values {
            fn from(values: Vec<$type>) -> Values {
                Values::$kind(values)
            }
        })*

        impl Values {
            /// Arrow's format string.
            fn format(&self) -> &'static CStr {
                match self { $(Values::$kind(_) => $format,)* }
            }

            fn name(&self) -> &'static str {
                match self { $(Values::$kind(_) => $name,)* }
            }

            fn len(&self) -> usize {
                match self { $(Values::$kind(values) => values.len(),)* }
            }

            pub fn bytes(&self) -> &[u8] {
                match self { $(Values::$kind(values) => {
                    let size = size_of_val(values.as_slice());
                    // SAFETY: numbers have no padding, and any byte may be read as u8.
                    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size) }
                })* }
            }

            /// The numbers from which [`Values::bytes`] made `bytes`, if there is such a type.
            fn of_bytes(name: &str, bytes: &[u8]) -> Option<Values> {
                match name {
                    $($name => {
                        let each = bytes.chunks_exact(size_of::<$type>());
                        let number = |bytes: &[u8]| <$type>::from_ne_bytes(bytes.try_into().unwrap());
                        Some(Values::$kind(each.map(number).collect()))
                    })*
                    _ => None,
                }
            }

            fn chosen(&self, rows: &[usize]) -> Values {
                match self { $(Values::$kind(values) => {
                    Values::$kind(rows.iter().map(|&row| values[row]).collect())
                })* }
            }
        }
    };
}

values! {
    I8(i8), c"c", "int8";
    U16(u16), c"S", "uint16";
    I32(i32), c"i", "int32";
    U32(u32), c"I", "uint32";
    I64(i64), c"l", "int64";
    U64(u64), c"L", "uint64";
    F32(f32), c"f", "float";
    F64(f64), c"g", "double";
}

/// Booleans, eight per byte, with the first one in the lowest bit.
#[derive(PartialEq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn get(&self, row: usize) -> bool {
        self.bytes[row / 8] >> (row % 8) & 1 != 0
    }

    fn zeros(&self) -> usize {
        (0..self.len).filter(|&row| !self.get(row)).count()
    }
}

impl FromIterator<bool> for Bits {
    fn from_iter<I: IntoIterator<Item = bool>>(values: I) -> Bits {
        let mut bits = Bits {
            bytes: Vec::new(),
            len: 0,
        };
        for value in values {
            if bits.len.is_multiple_of(8) {
                bits.bytes.push(0);
            }
            let last = bits.len / 8;
            bits.bytes[last] |= u8::from(value) << (bits.len % 8);
            bits.len += 1;
        }
        bits
    }
}

/// Texts, one after another.
#[derive(Clone, PartialEq)]
pub struct Texts {
    /// The start of each text, and then the end of the last text.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Texts {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.offsets.windows(2).map(|ends| {
            let text = &self.bytes[ends[0] as usize..ends[1] as usize];
            str::from_utf8(text).expect("texts were made of texts")
        })
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Texts {
        let (mut offsets, mut bytes) = (vec![0], Vec::new());
        for text in texts {
            bytes.extend_from_slice(text.as_ref().as_bytes());
            offsets.push(bytes.len() as i32);
        }
        Texts { offsets, bytes }
    }
}

enum Data {
    Numbers(Values),
    Truths(Bits),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Data::Numbers(values) => values.bytes(),
            Data::Truths(bits) => &bits.bytes,
        }
    }
}

/// A column. Copies share the memory.
#[derive(Clone)]
pub struct Column {
    data: Arc<Data>,
    /// The rows that have a value; `None` if all rows have a value.
    valid: Option<Arc<Bits>>,
    /// The texts of the dictionary, if the numbers are indices into a dictionary.
    texts: Option<Arc<Texts>>,
}

impl Column {
    pub fn numbers(values: impl Into<Values>) -> Column {
        Column {
            data: Arc::new(Data::Numbers(values.into())),
            valid: None,
            texts: None,
        }
    }

    /// A column of numbers, of which only the `valid` ones count.
    pub fn where_(values: impl Into<Values>, valid: Bits) -> Column {
        Column {
            valid: (valid.zeros() > 0).then(|| Arc::new(valid)),
            ..Column::numbers(values)
        }
    }

    pub fn optional<T: Copy + Default>(values: impl IntoIterator<Item = Option<T>>) -> Column
    where
        Values: From<Vec<T>>,
    {
        let values: Vec<Option<T>> = values.into_iter().collect();
        let valid = values.iter().map(Option::is_some).collect();
        let values: Vec<T> = values.into_iter().map(Option::unwrap_or_default).collect();
        Column::where_(values, valid)
    }

    pub fn truths(values: impl IntoIterator<Item = bool>) -> Column {
        Column {
            data: Arc::new(Data::Truths(values.into_iter().collect())),
            valid: None,
            texts: None,
        }
    }

    /// A column of texts. The dictionary has the texts in the order of their first occurrence.
    pub fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> Column {
        let (mut texts, mut places) = (Vec::new(), HashMap::new());
        let mut place = |text: &'a str| {
            *places.entry(text).or_insert_with(|| {
                texts.push(text);
                texts.len() as i32 - 1
            })
        };
        let column = Column::optional(values.into_iter().map(|text| text.map(&mut place)));
        let texts: Texts = texts.into_iter().collect();
        column.of(&Arc::new(texts))
    }

    /// A column of the texts in `texts` to which this column's numbers are indices.
    pub fn of(self, texts: &Arc<Texts>) -> Column {
        Column {
            texts: Some(Arc::clone(texts)),
            ..self
        }
    }

    pub fn len(&self) -> usize {
        match &*self.data {
            Data::Numbers(values) => values.len(),
            Data::Truths(bits) => bits.len,
        }
    }

    pub fn values(&self) -> Option<&Values> {
        match &*self.data {
            Data::Numbers(values) => Some(values),
            Data::Truths(_) => None,
        }
    }

    /// Arrow's name of the type.
    pub fn kind(&self) -> &'static str {
        match &*self.data {
            Data::Numbers(values) => values.name(),
            Data::Truths(_) => "bool",
        }
    }

    pub fn dictionary(&self) -> Option<&Texts> {
        self.texts.as_deref()
    }

    pub fn chosen(&self, rows: &[usize]) -> Column {
        let bits = |bits: &Bits| -> Bits { rows.iter().map(|&row| bits.get(row)).collect() };
        let data = match &*self.data {
            Data::Numbers(values) => Data::Numbers(values.chosen(rows)),
            Data::Truths(truths) => Data::Truths(bits(truths)),
        };
        let valid = self.valid.as_deref().map(bits);
        Column {
            data: Arc::new(data),
            valid: valid.filter(|valid| valid.zeros() > 0).map(Arc::new),
            texts: self.texts.clone(),
        }
    }

    /// The column's buffers, from which [`Column::of_parts`] makes it.
    pub fn parts(&self) -> (&[u8], Option<&[u8]>) {
        let valid = self.valid.as_deref();
        (self.data.bytes(), valid.map(|bits| &*bits.bytes))
    }

    /// A column of `len` rows; `None` if the arguments are not the parts of a column.
    pub fn of_parts(
        kind: &str,
        len: usize,
        (data, valid): (&[u8], Option<&[u8]>),
        texts: Option<Texts>,
    ) -> Option<Column> {
        let bits = |bytes: &[u8]| Bits {
            bytes: bytes.to_vec(),
            len,
        };
        let is_long = |bytes: &[u8]| bytes.len() == len.div_ceil(8);
        let data = match kind {
            "bool" => Data::Truths(Some(bits(data)).filter(|_| is_long(data))?),
            _ => Data::Numbers(Values::of_bytes(kind, data).filter(|values| values.len() == len)?),
        };
        if valid.is_some_and(|valid| !is_long(valid)) {
            return None;
        }
        Some(Column {
            data: Arc::new(data),
            valid: valid.map(|valid| Arc::new(bits(valid))),
            texts: texts.map(Arc::new),
        })
    }

    fn format(&self) -> &'static CStr {
        match &*self.data {
            Data::Numbers(values) => values.format(),
            Data::Truths(_) => c"b",
        }
    }
}

impl PartialEq for Column {
    fn eq(&self, other: &Column) -> bool {
        self.kind() == other.kind() && self.parts() == other.parts() && self.texts == other.texts
    }
}

/// `struct ArrowSchema`.
#[repr(C)]
pub struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub struct Stream {
    get_schema: unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int,
    get_next: unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut Stream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

/// `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// The memory to which a structure points. The structure's `release` drops this memory, together with the parts that
/// the consumer has not taken over. A part that the consumer has taken over no longer has a `release`.
struct Owned<T, Keep> {
    children: Vec<*mut T>,
    dictionary: *mut T,
    /// Buffers that live as long as the structure.
    keep: Keep,
}

impl<T, Keep> Owned<T, Keep> {
    fn new(children: Vec<T>, dictionary: Option<T>, keep: Keep) -> Box<Owned<T, Keep>> {
        let boxed = |one: T| Box::into_raw(Box::new(one));
        Box::new(Owned {
            children: children.into_iter().map(boxed).collect(),
            dictionary: dictionary.map_or(null_mut(), boxed),
            keep,
        })
    }
}

impl<T, Keep> Drop for Owned<T, Keep> {
    fn drop(&mut self) {
        let all = self.children.iter().copied().chain([self.dictionary]);
        for one in all.filter(|one| !one.is_null()) {
            // SAFETY: new() made the pointer from a box, and only this code takes it back.
            drop(unsafe { Box::from_raw(one) });
        }
    }
}

macro_rules! released {
    ($type:ident, $owned:ty) => {
        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure has not been released, and was not moved to a consumer.
                    unsafe { release(self) }
                }
            }
        }

        impl $type {
            unsafe extern "C" fn release(this: *mut $type) {
                // SAFETY: the consumer passes the structure that it received, and only once.
                unsafe {
                    drop(Box::from_raw((*this).private.cast::<$owned>()));
                    (*this).release = None;
                }
            }
        }

        // SAFETY: the buffers are shared and never written; all other data has one owner.
        unsafe impl Send for $type {}
    };
}

type SchemaOwned = Owned<Schema, CString>;
type ArrayOwned = Owned<Array, (Vec<*const c_void>, Option<Column>, Option<Arc<Texts>>)>;

released!(Schema, SchemaOwned);
released!(Array, ArrayOwned);
released!(Stream, Batch);

impl Schema {
    fn new(
        format: &'static CStr,
        name: &str,
        children: Vec<Schema>,
        dictionary: Option<Schema>,
    ) -> Schema {
        let name = CString::new(name).expect("columns are named without NUL");
        let mut owned = SchemaOwned::new(children, dictionary, name);
        Schema {
            format: format.as_ptr(),
            name: owned.keep.as_ptr(),
            metadata: null(),
            flags: NULLABLE,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: owned.dictionary,
            release: Some(Schema::release),
            private: Box::into_raw(owned).cast(),
        }
    }

    pub fn of_rows(columns: &[(String, Column)]) -> Schema {
        let of = |(name, column): &(String, Column)| {
            let texts = column.texts.as_ref();
            let texts = texts.map(|_| Schema::new(c"u", "", Vec::new(), None));
            Schema::new(column.format(), name, Vec::new(), texts)
        };
        let mut rows = Schema::new(c"+s", "", columns.iter().map(of).collect(), None);
        rows.flags = 0;
        rows
    }
}

impl Array {
    fn new(
        length: usize,
        null_count: usize,
        buffers: Vec<*const c_void>,
        (children, dictionary): (Vec<Array>, Option<Array>),
        (column, texts): (Option<Column>, Option<Arc<Texts>>),
    ) -> Array {
        let mut owned = ArrayOwned::new(children, dictionary, (buffers, column, texts));
        Array {
            length: length as i64,
            null_count: null_count as i64,
            offset: 0,
            n_buffers: owned.keep.0.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.keep.0.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: owned.dictionary,
            release: Some(Array::release),
            private: Box::into_raw(owned).cast(),
        }
    }

    fn of_texts(texts: &Arc<Texts>) -> Array {
        let offsets = texts.offsets.as_ptr().cast();
        let buffers = vec![null(), offsets, texts.bytes.as_ptr().cast()];
        let keep = (None, Some(Arc::clone(texts)));
        Array::new(
            texts.offsets.len() - 1,
            0,
            buffers,
            (Vec::new(), None),
            keep,
        )
    }

    fn of_column(column: &Column) -> Array {
        let (data, valid) = column.parts();
        let valid = valid.map_or(null(), |valid| valid.as_ptr().cast());
        let zeros = column.valid.as_ref().map_or(0, |valid| valid.zeros());
        let parts = (Vec::new(), column.texts.as_ref().map(Array::of_texts));
        let buffers = vec![valid, data.as_ptr().cast()];
        let keep = (Some(column.clone()), None);
        Array::new(column.len(), zeros, buffers, parts, keep)
    }

    fn of_rows(rows: usize, columns: &[(String, Column)]) -> Array {
        let columns = columns.iter().map(|(_, column)| Array::of_column(column));
        let parts = (columns.collect(), None);
        Array::new(rows, 0, vec![null()], parts, (None, None))
    }
}

struct Batch {
    columns: Arc<Vec<(String, Column)>>,
    rows: usize,
    given: bool,
}

impl Stream {
    pub fn new(rows: usize, columns: Arc<Vec<(String, Column)>>) -> Stream {
        let batch = Box::new(Batch {
            columns,
            rows,
            given: false,
        });
        Stream {
            get_schema: Stream::get_schema,
            get_next: Stream::get_next,
            get_last_error: Stream::get_last_error,
            release: Some(Stream::release),
            private: Box::into_raw(batch).cast(),
        }
    }

    unsafe extern "C" fn get_schema(this: *mut Stream, out: *mut Schema) -> c_int {
        // SAFETY: the consumer passes a stream that has not been released, and room for a schema.
        unsafe {
            let batch = &*(*this).private.cast::<Batch>();
            out.write(Schema::of_rows(&batch.columns));
        }
        0
    }

    unsafe extern "C" fn get_next(this: *mut Stream, out: *mut Array) -> c_int {
        // SAFETY: the consumer passes a stream that has not been released, and room for an array.
        unsafe {
            let batch = &mut *(*this).private.cast::<Batch>();
            match std::mem::replace(&mut batch.given, true) {
                false => out.write(Array::of_rows(batch.rows, &batch.columns)),
                // A released array marks the end of the stream.
                true => (*out).release = None,
            }
        }
        0
    }

    unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
        null()
    }
}
