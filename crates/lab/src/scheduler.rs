//! A scheduler to measure: one of Equipoise's policies, or a foreign source file.

use crate::elsewhere::{Recipe, Start, Workers};
use machine::Machine;
use machine::input::BadInput;
use native::{Global, Kernel, Object};
use policy::Policy;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// A scheduler with its settings: the subject of a table's column.
#[derive(Clone)]
pub struct Scheduler {
    name: String,
    code: Code,
    kernel: Kernel,
}

#[derive(Clone)]
enum Code {
    Policy(Policy, &'static Object),
    Foreign {
        object: Arc<Object>,
        globals: Vec<Global>,
        /// The processes that run the scheduler, unless this process does.
        workers: Option<Arc<Workers>>,
    },
}

impl Scheduler {
    /// Equipoise's scheduler under a built-in policy, or under a policy in a file.
    pub fn policy(name_or_path: &str) -> Result<Scheduler, Box<BadInput>> {
        Scheduler::policy_in(name_or_path, Kernel::default())
    }

    /// Equipoise's scheduler under a policy as in [`Scheduler::policy`], run in `kernel`.
    pub fn policy_in(name_or_path: &str, kernel: Kernel) -> Result<Scheduler, Box<BadInput>> {
        Scheduler::under(Policy::find(name_or_path)?, kernel)
    }

    /// Equipoise's scheduler under `policy`, run in `kernel`. It is an error if the scheduler does not
    /// compile, or is not in the folder that `EQUIPOISE_OBJECTS` names.
    pub fn under(policy: Policy, kernel: Kernel) -> Result<Scheduler, Box<BadInput>> {
        let object = policy.object_in(kernel).map_err(|error| {
            let expected = "expected the object of one of Equipoise's schedulers";
            Box::new(BadInput::whole(error.to_string(), expected))
        })?;
        Ok(Scheduler {
            name: policy.name.clone(),
            kernel,
            code: Code::Policy(policy, object),
        })
    }

    /// Any sched_ext scheduler in C, under the name that it gives itself (`ops.name`). `sources` are its files; an
    /// error about the whole scheduler names the first of them. Headers are also searched for in the folders `include`.
    /// A scheduler that Linux would refuse to load is an error: a licence that is not GPL-compatible, an invalid name,
    /// or a function that the newest simulated kernel lacks.
    pub fn foreign(sources: &[&Path], include: &[&Path]) -> Result<Scheduler, Box<BadInput>> {
        Scheduler::foreign_in(sources, include, Kernel::default())
    }

    /// A scheduler in C as in [`Scheduler::foreign`], compiled for `kernel`.
    pub fn foreign_in(
        sources: &[&Path],
        include: &[&Path],
        kernel: Kernel,
    ) -> Result<Scheduler, Box<BadInput>> {
        let object = Object::compile_all(sources, include, kernel).map_err(|error| {
            Box::new(BadInput::whole(
                error.to_string(),
                "expected a sched_ext scheduler in C that compiles",
            ))
        })?;
        let file = sources.first().map_or(Path::new(""), |first| first);
        Scheduler::compiled(file, object)
    }

    /// A scheduler in C as in [`Scheduler::foreign`], from an object that has been compiled from `file`.
    pub fn compiled(file: &Path, object: Object) -> Result<Scheduler, Box<BadInput>> {
        let refused = |message: String, expected: &str| {
            let message = format!("{}: {message}", file.display());
            Box::new(BadInput::whole(message, expected))
        };
        let license = object.license().unwrap_or_default();
        if !GPL_COMPATIBLE.contains(&license) {
            let message = match license {
                "" => {
                    "it has no licence; Linux offers its functions only to programs under the GPL"
                        .to_owned()
                }
                other => format!(
                    "its licence is `{other}`; Linux offers its functions only to programs under the GPL"
                ),
            };
            return Err(refused(
                message,
                "expected char _license[] SEC(\"license\") = \"GPL\";",
            ));
        }
        let name = simulator::scheduler_name(&object).map_err(|message| {
            refused(
                message,
                "expected an ops.name that Linux takes, in SCX_OPS_DEFINE(..., .name = \"...\")",
            )
        })?;
        Ok(Scheduler {
            name,
            kernel: object.kernel(),
            code: Code::Foreign {
                object: Arc::new(object),
                globals: Vec::new(),
                workers: None,
            },
        })
    }

    /// The warnings about a scheduler in C ([`native::Object::warnings`]). There are none about Equipoise's own
    /// schedulers.
    pub fn warnings(&self) -> Vec<String> {
        match &self.code {
            Code::Policy(..) => Vec::new(),
            Code::Foreign { object, .. } => object.warnings(),
        }
    }

    /// Does a scheduler in C have this variable?
    pub fn has(&self, variable: &str) -> bool {
        self.is_foreign() && self.object().variable(variable).is_some()
    }

    /// The variables of a scheduler in C that can be set, which are the `const volatile` ones.
    pub fn settable(&self) -> impl Iterator<Item = &str> {
        let object = self.is_foreign().then(|| self.object());
        object.into_iter().flat_map(|object| {
            let named = object.constants().map(|(name, _)| name);
            named.filter(|name| object.is_settable(name))
        })
    }

    /// Sets a variable of a scheduler in C, as a loader does. It is an error if the variable does
    /// not exist, is not `const volatile`, or cannot hold the value.
    pub fn set(&mut self, variable: &str, value: impl Into<i128>) -> Result<(), Box<BadInput>> {
        if let Code::Foreign {
            object, globals, ..
        } = &mut self.code
        {
            let global = global(&self.name, object, variable, value.into())?;
            globals.retain(|other| other.symbol != variable);
            globals.push(global);
        }
        Ok(())
    }

    /// Makes a scheduler in C, with its current settings and name, run in processes of its own. `start` starts these
    /// processes, which build the machine and the workload of all runs from `recipe`.
    pub fn run_elsewhere(&mut self, recipe: &Recipe, start: &Start) {
        if let Code::Foreign {
            object,
            globals,
            workers,
        } = &mut self.code
        {
            let new = Workers::new(start.clone(), recipe, &self.name, object, globals);
            *workers = Some(Arc::new(new));
        }
    }

    /// The processes that run the scheduler, if this process does not.
    pub(crate) fn workers(&self) -> Option<&Workers> {
        match &self.code {
            Code::Foreign { workers, .. } => workers.as_deref(),
            Code::Policy(..) => None,
        }
    }

    /// This policy with the CPUs at their highest frequency; `None` for a foreign scheduler.
    pub(crate) fn at_full_speed(&self) -> Option<Scheduler> {
        let Code::Policy(policy, object) = &self.code else {
            return None;
        };
        let policy = policy.with(["frequency=false"].into_iter()).ok()?;
        Some(Scheduler {
            name: policy.name.clone(),
            code: Code::Policy(policy, object),
            kernel: self.kernel,
        })
    }

    /// Renames the scheduler, to distinguish it from another one with the same name.
    pub fn rename(&mut self, name: String) {
        self.name = name;
    }

    /// The scheduler's name, which its column in a table has, too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scheduler's description, in one line.
    pub fn description(&self) -> &str {
        match &self.code {
            Code::Policy(policy, _) => &policy.description,
            Code::Foreign { .. } => "a scheduler in C",
        }
    }

    /// Is the scheduler foreign?
    pub fn is_foreign(&self) -> bool {
        matches!(self.code, Code::Foreign { .. })
    }

    /// The scheduler's code.
    pub fn object(&self) -> &Object {
        match &self.code {
            Code::Policy(_, object) => object,
            Code::Foreign { object, .. } => object,
        }
    }

    /// The scheduler's code that also records reasons, if there is such code. Both codes make the same decisions.
    /// Errors are as for [`Scheduler::under`].
    pub fn explaining_object(&self) -> Result<&Object, native::Error> {
        match &self.code {
            Code::Policy(policy, _) => policy.explaining_object_in(self.kernel),
            Code::Foreign { object, .. } => Ok(object),
        }
    }

    /// Is this a policy that ignores control groups, although its scheduler supports them?
    pub(crate) fn lacks_groups(&self) -> bool {
        match &self.code {
            Code::Policy(policy, _) => policy.settings.get("task_groups") == Some(0),
            Code::Foreign { .. } => false,
        }
    }

    /// The globals that hold the scheduler's settings, for `machine`.
    pub fn globals(&self, machine: &Machine) -> Vec<Global> {
        match &self.code {
            Code::Policy(policy, _) => policy.globals(machine),
            Code::Foreign { globals, .. } => globals.clone(),
        }
    }

    /// The globals to read after a run ([`simulator::Config::read`]).
    pub(crate) fn counters_symbol(&self) -> &'static [&'static str] {
        match &self.code {
            Code::Policy(..) => &[policy::Counters::SYMBOL],
            Code::Foreign { .. } => &[],
        }
    }

    /// The scheduler's counters, from the globals read; `None` for a foreign scheduler.
    pub(crate) fn counters(&self, read: &[Vec<u8>]) -> Option<policy::Counters> {
        policy::Counters::from_bytes(read.first()?)
    }
}

/// `license_is_gpl_compatible()` of include/linux/license.h.
const GPL_COMPATIBLE: [&str; 6] = [
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
];

fn global(
    scheduler: &str,
    object: &Object,
    symbol: &str,
    value: i128,
) -> Result<Global, Box<BadInput>> {
    let bad = |message: String, expected: &str| {
        let message = format!("scheduler `{scheduler}`: {message}");
        Err(Box::new(BadInput::whole(message, expected)))
    };
    let Some(size) = object.global_size(symbol) else {
        return bad(
            format!("no global variable `{symbol}`"),
            "expected the name of a `const volatile` variable of the scheduler",
        );
    };
    if !object.is_settable(symbol) {
        let why = match object.constants().any(|(name, _)| name == symbol) {
            true => "the compiler has replaced it by its value",
            false => "the scheduler itself writes to it",
        };
        return bad(
            format!("`{symbol}` is not `const volatile`; {why}"),
            "expected the name of a `const volatile` variable of the scheduler",
        );
    }
    let Some(range) = range(size, object.is_unsigned(symbol)) else {
        return bad(
            format!("`{symbol}` has {size} bytes"),
            "expected a variable of 1, 2, 4 or 8 bytes",
        );
    };
    if !range.contains(&value) {
        return bad(
            format!("{value} does not fit `{symbol}`, which has {size} bytes"),
            &format!(
                "expected an integer from {} to {}",
                range.start(),
                range.end()
            ),
        );
    }
    Ok(Global {
        symbol: symbol.to_owned(),
        bytes: integer_bytes(value, size),
    })
}

/// The values that a C integer of `size` bytes can hold; `None` if there is no integer of that size. A number for a
/// signed integer may also be written as its bits, such as `0xffffffff`.
fn range(size: usize, is_unsigned: bool) -> Option<RangeInclusive<i128>> {
    if ![1, 2, 4, 8].contains(&size) {
        return None;
    }
    let bits = 8 * size;
    let least = match is_unsigned {
        true => 0,
        false => -(1i128 << (bits - 1)),
    };
    Some(least..=(1i128 << bits) - 1)
}

/// Converts `value` to a C integer of `size` bytes, in this machine's byte order.
fn integer_bytes(value: i128, size: usize) -> Vec<u8> {
    let mut bytes = value.to_le_bytes()[..size].to_vec();
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_the_size_of_their_variable() {
        let largest = i128::from(u64::MAX);
        assert_eq!(integer_bytes(1, 1), vec![1]);
        assert_eq!(integer_bytes(-1, 4), vec![0xff; 4]);
        assert_eq!(integer_bytes(largest, 8), vec![0xff; 8]);
        assert_eq!(range(1, true), Some(0..=255));
        assert_eq!(range(1, false), Some(-128..=255));
        assert_eq!(range(8, true), Some(0..=largest));
        assert_eq!(range(8, false), Some(i128::from(i64::MIN)..=largest));
        assert_eq!(range(16, true), None);
    }
}
