//! The scheduler's counters: `scheduler/counters.def` in Rust.

use bytemuck::{Pod, Zeroable};
use machine::MAX_CPUS;

include!(concat!(env!("OUT_DIR"), "/counters.rs"));

macro_rules! counters {
    ($(COUNTER($name:ident, $label:literal, $what:literal))*) => {
        /// `struct counters`, summed over all CPUs.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
        #[repr(C)]
        pub struct Counters {
            $(#[doc = $what] pub $name: u64,)*
        }

        /// The rows of `scheduler/counters.def`, by their names in that file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, non_camel_case_types)]
        pub enum CounterRow {
            $($name,)*
        }

        impl Counters {
            /// All counters, in the order of the fields.
            pub const ALL: &[Counter] = &[$(Counter {
                row: CounterRow::$name,
                name: stringify!($name),
                label: $label,
                what: $what,
                of: |counters| counters.$name,
            }),*];
        }
    };
}
with_counters!(counters);

/// One of the counters.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The row.
    pub row: CounterRow,
    /// The field's name.
    pub name: &'static str,
    /// A short name, for output with many counters in a line.
    pub label: &'static str,
    /// The counter's meaning, with its unit, if any.
    pub what: &'static str,
    /// Returns the counter's value.
    pub of: fn(&Counters) -> u64,
}

impl Counters {
    /// The scheduler's global variable with the counters.
    pub const SYMBOL: &str = "counters";

    /// The counters in the bytes of [`Counters::SYMBOL`]; `None` if `bytes` has the wrong length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Counters> {
        const SIZE: usize = size_of::<Counters>();
        let mut sums = Counters::default();
        for cpu in bytes.chunks(SIZE) {
            let words = cpu.chunks(8).map(bytemuck::pod_read_unaligned::<u64>);
            let sums: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut sums));
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum += word;
            }
        }
        (bytes.len() == MAX_CPUS * SIZE).then_some(sums)
    }
}
