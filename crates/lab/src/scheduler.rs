//! A scheduler to measure: one of Equipoise's policies, or somebody else's source file.

use machine::Machine;
use machine::input::BadInput;
use native::{Global, Object};
use policy::Policy;
use std::path::Path;

/// A scheduler with its settings: what a column of a table is about.
pub struct Scheduler {
    name: String,
    code: Code,
}

enum Code {
    Policy(Policy),
    Foreign {
        object: Object,
        globals: Vec<Global>,
    },
}

impl Scheduler {
    /// Equipoise's scheduler under a policy that comes with it, or one in a file.
    pub fn policy(name_or_path: &str) -> Result<Scheduler, Box<BadInput>> {
        let policy = Policy::find(name_or_path)?;
        Ok(Scheduler {
            name: policy.name.clone(),
            code: Code::Policy(policy),
        })
    }

    /// Any sched_ext scheduler in C, called by its file's name. `settings` are values for its global
    /// variables, as a loader sets them; a variable that this scheduler does not have, or that is too
    /// small for its value, is an error.
    pub fn foreign(source: &Path, settings: &[(String, i64)]) -> Result<Scheduler, Box<BadInput>> {
        let object = Object::compile(source).map_err(|error| {
            Box::new(BadInput::whole(
                error.to_string(),
                "expected a sched_ext scheduler in C that compiles",
            ))
        })?;
        let globals = settings
            .iter()
            .map(|(symbol, value)| global(&object, symbol, *value))
            .collect::<Result<_, _>>()?;
        let name = source.file_name().map_or_else(
            || source.to_string_lossy().into_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        Ok(Scheduler {
            name: name
                .trim_end_matches(".c")
                .trim_end_matches(".bpf")
                .to_owned(),
            code: Code::Foreign { object, globals },
        })
    }

    /// What the column is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is it somebody else's?
    pub fn is_foreign(&self) -> bool {
        matches!(self.code, Code::Foreign { .. })
    }

    /// The code.
    pub fn object(&self) -> &Object {
        match &self.code {
            Code::Policy(policy) => policy.object(),
            Code::Foreign { object, .. } => object,
        }
    }

    /// The settings, for `machine`.
    pub fn globals(&self, machine: &Machine) -> Vec<Global> {
        match &self.code {
            Code::Policy(policy) => policy.globals(machine),
            Code::Foreign { globals, .. } => globals.clone(),
        }
    }

    /// The globals to read after a run ([`simulator::Config::read`]).
    pub(crate) fn counters_symbol(&self) -> &'static [&'static str] {
        match &self.code {
            Code::Policy(_) => &[policy::Counters::SYMBOL],
            Code::Foreign { .. } => &[],
        }
    }

    /// What the scheduler counted, from what was read; `None` for one that is not Equipoise's.
    pub(crate) fn counters(&self, read: &[Vec<u8>]) -> Option<policy::Counters> {
        policy::Counters::from_bytes(read.first()?)
    }
}

fn global(object: &Object, symbol: &str, value: i64) -> Result<Global, Box<BadInput>> {
    let bad = |message: String, expected: &str| Err(Box::new(BadInput::whole(message, expected)));
    let Some(size) = object.global_size(symbol) else {
        return bad(
            format!("the scheduler has no global variable `{symbol}`"),
            "expected the name of a `const volatile` variable of the scheduler",
        );
    };
    match integer_bytes(value, size) {
        Some(bytes) => Ok(Global {
            symbol: symbol.to_owned(),
            bytes,
        }),
        None => bad(
            format!("{value} does not fit `{symbol}`, which has {size} bytes"),
            "expected a variable of 1, 2, 4 or 8 bytes, and a value in its range",
        ),
    }
}

/// `value` as a C integer of `size` bytes, signed or unsigned, in this machine's byte order.
fn integer_bytes(value: i64, size: usize) -> Option<Vec<u8>> {
    if ![1, 2, 4, 8].contains(&size) {
        return None;
    }
    let bits = 8 * size as u32;
    let fits = bits == 64 || (-(1i64 << (bits - 1))..1i64 << bits).contains(&value);
    let bytes = value.to_le_bytes();
    fits.then(|| {
        let mut bytes = bytes[..size].to_vec();
        if cfg!(target_endian = "big") {
            bytes.reverse();
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_the_size_of_their_variable() {
        assert_eq!(integer_bytes(1, 1), Some(vec![1]));
        assert_eq!(integer_bytes(-1, 4), Some(vec![0xff; 4]));
        assert_eq!(integer_bytes(255, 1), Some(vec![255]));
        assert_eq!(integer_bytes(256, 1), None);
        assert_eq!(integer_bytes(-129, 1), None);
        assert_eq!(integer_bytes(i64::MIN, 8).map(|bytes| bytes.len()), Some(8));
        assert_eq!(integer_bytes(0, 16), None);
    }
}
