//! The time that a scheduler's callbacks take.

/// The callbacks of a running scheduler, by their names in `struct sched_ext_ops`; the last name stands for the
/// scheduler's program at the tracepoint of that name.
pub const CALLBACKS: [&str; 17] = [
    "select_cpu",
    "enqueue",
    "dequeue",
    "dispatch",
    "tick",
    "runnable",
    "running",
    "stopping",
    "quiescent",
    "yield",
    "update_idle",
    "set_weight",
    "init_task",
    "exit_task",
    "enable",
    "disable",
    "sched_switch",
];

/// The longest time in s for which `scx_equipoise --costs` measures callbacks: a day.
pub const LONGEST_COSTS_S: u32 = 86_400;

/// The cost of each callback of one scheduler, in the order of [`CALLBACKS`], in ns per call on the machine's fastest
/// core type at its highest frequency. The cost includes the kernel functions that the callback calls. A callback that
/// is not measured is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callbacks(pub [u64; CALLBACKS.len()]);
