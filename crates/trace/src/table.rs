//! The events that a trace may have, one row each: the kernel's names, and the fields with their types. Every format is
//! read and written by these rows. `values.rs` makes an event's values in the order of its row, and makes an event from
//! its values.

/// An event, as the kernel declares it.
pub struct Row {
    /// The event's folder in tracefs.
    pub system: &'static str,
    /// The event's name.
    pub name: &'static str,
    /// The number of the event's message in Perfetto's `FtraceEvent`; 0 if there is none.
    pub perfetto: u32,
    /// The event's fields, in order.
    pub fields: &'static [Field],
}

/// A field of an event.
pub struct Field {
    /// The field's name in tracefs's `format`.
    pub name: &'static str,
    /// The field's type.
    pub kind: Type,
    /// The field's number in Perfetto's message; 0 if the message has no such field.
    pub perfetto: u32,
    /// The field's name in the event's text; empty if the text has only the value.
    pub key: &'static str,
    /// The text between the previous field and this one.
    pub before: &'static str,
}

/// The types of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// The name of a task.
    Comm,
    /// The path of a control group.
    Path,
    /// A pid.
    Pid,
    /// `int`.
    Int,
    /// A CPU in three digits.
    Cpu,
    /// A bit for each reason to sleep.
    State,
    /// `u32`.
    U32,
    /// `short`.
    Short,
    /// `unsigned long`.
    Ulong,
    /// `unsigned long long`.
    Ulonglong,
    /// The address of code.
    Code,
    /// The place of a text behind the fields.
    Place,
    /// A text up to the end of the record.
    Rest,
}

/// The largest number of fields of an event.
pub const MOST_FIELDS: usize = 8;
/// The maximum length of task names, in bytes (`TASK_COMM_LEN`, without the final NUL).
pub const COMM_LEN: usize = 15;

impl Type {
    /// The declaration of a field of this type in C, where `{}` stands for its name; its size in bytes; whether it is
    /// signed; and its conversion for printf.
    fn c(self) -> (&'static str, usize, bool, &'static str) {
        match self {
            Type::Comm => ("char {}[16]", COMM_LEN + 1, true, "%s"),
            Type::Path => ("char {}[64]", 64, true, "%s"),
            Type::Pid => ("pid_t {}", 4, true, "%d"),
            Type::Int => ("int {}", 4, true, "%d"),
            Type::Cpu => ("int {}", 4, true, "%03d"),
            Type::State => ("long {}", 8, true, "%s"),
            Type::U32 => ("u32 {}", 4, false, "%lu"),
            Type::Short => ("short {}", 2, true, "%hd"),
            Type::Ulong => ("unsigned long {}", 8, false, "%lu"),
            Type::Ulonglong => ("unsigned long long {}", 8, false, "%llu"),
            Type::Code => ("unsigned long {}", 8, false, "%ps"),
            Type::Place => ("__data_loc char[] {}", 4, true, "%s"),
            Type::Rest => ("char {}[]", 0, true, "%s"),
        }
    }

    /// The size of a field of this type in bytes; 0 if the field extends to the end.
    pub fn size(self) -> usize {
        self.c().1
    }

    /// Is the type a text?
    pub fn is_text(self) -> bool {
        use Type::*;
        matches!(self, Comm | Path | Place | Rest)
    }

    /// Is the type signed?
    pub fn is_signed(self) -> bool {
        self.c().2
    }
}

impl Field {
    /// The field's declaration in C.
    pub fn declaration(&self) -> String {
        self.kind.c().0.replace("{}", self.name)
    }

    /// The conversion with which printf prints the field, with its key.
    pub fn conversion(&self) -> String {
        let conversion = self.kind.c().3;
        match self.key {
            "" => conversion.to_owned(),
            key => format!("{key}={conversion}"),
        }
    }

    /// The argument for this field in the event's print format.
    pub fn argument(&self) -> String {
        let name = self.name;
        match self.kind {
            Type::State => format!(
                "REC->{name} ? __print_flags(REC->{name}, \"|\", {{ 1, \"S\" }}, {{ 2, \"D\" }}, {{ 16, \"X\" }}) : \"R\""
            ),
            Type::U32 => format!("(unsigned long)REC->{name}"),
            Type::Code => format!("(void *)REC->{name}"),
            Type::Place => format!("__get_str({name})"),
            _ => format!("REC->{name}"),
        }
    }

    /// Gives the field a different name in text than in tracefs.
    const fn key(mut self, key: &'static str) -> Field {
        self.key = key;
        self
    }

    /// Puts `before`, instead of a space, between the previous field and this one.
    const fn after(mut self, before: &'static str) -> Field {
        self.before = before;
        self
    }
}

const fn field(name: &'static str, kind: Type, perfetto: u32) -> Field {
    Field {
        name,
        kind,
        perfetto,
        key: name,
        before: " ",
    }
}

macro_rules! rows {
    ($($kind:ident: $system:expr, $name:literal, $perfetto:literal, $fields:expr;)*) => {
        /// An event's row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// All rows, in their order.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// The row of this kind.
            pub fn row(self) -> &'static Row {
                const ROWS: &[Row] = &[$(Row { system: $system, name: $name, perfetto: $perfetto, fields: $fields },)*];
                &ROWS[self as usize]
            }
        }
    };
}

const WAKEUP: &[Field] = &[
    field("comm", Type::Comm, 1),
    field("pid", Type::Pid, 2),
    field("prio", Type::Int, 3),
    field("target_cpu", Type::Cpu, 5),
];
const POWER: &[Field] = &[field("state", Type::U32, 1), field("cpu_id", Type::U32, 2)];
const PELT: &[Field] = &[
    field("cpu", Type::Int, 0),
    field("load", Type::Ulong, 0),
    field("runnable", Type::Ulong, 0),
    field("util", Type::Ulong, 0),
    field("update_time", Type::Ulonglong, 0),
];
const MOVED: &[Field] = &[
    field("object", Type::Ulonglong, 0),
    field("bytes", Type::Ulonglong, 0),
];

/// The system of the probes that `equipoise record` makes; other probes of this system may have the same names.
const PROBE: &str = "kprobes";

rows! {
    Mark: "ftrace", "print", 3, &[
        field("ip", Type::Code, 1).key(""),
        field("buf", Type::Rest, 2).key("").after(": "),
    ];
    Switch: "sched", "sched_switch", 4, &[
        field("prev_comm", Type::Comm, 1),
        field("prev_pid", Type::Pid, 2),
        field("prev_prio", Type::Int, 3),
        field("prev_state", Type::State, 4),
        field("next_comm", Type::Comm, 5).after(" ==> "),
        field("next_pid", Type::Pid, 6),
        field("next_prio", Type::Int, 7),
    ];
    Waking: "sched", "sched_waking", 20, WAKEUP;
    Wakeup: "sched", "sched_wakeup", 17, WAKEUP;
    WakeupNew: "sched", "sched_wakeup_new", 114, WAKEUP;
    Migrate: "sched", "sched_migrate_task", 491, &[
        field("comm", Type::Comm, 1),
        field("pid", Type::Pid, 2),
        field("prio", Type::Int, 3),
        field("orig_cpu", Type::Int, 4),
        field("dest_cpu", Type::Int, 5),
    ];
    Fork: "sched", "sched_process_fork", 239, &[
        field("parent_comm", Type::Comm, 1).key("comm"),
        field("parent_pid", Type::Pid, 2).key("pid"),
        field("child_comm", Type::Comm, 3),
        field("child_pid", Type::Pid, 4),
    ];
    Exit: "sched", "sched_process_exit", 238, &[
        field("comm", Type::Comm, 1),
        field("pid", Type::Pid, 2),
        field("prio", Type::Int, 4),
    ];
    Rename: "task", "task_rename", 236, &[
        field("pid", Type::Pid, 1),
        field("oldcomm", Type::Comm, 2),
        field("newcomm", Type::Comm, 3),
        field("oom_score_adj", Type::Short, 4),
    ];
    Idle: "power", "cpu_idle", 13, POWER;
    Frequency: "power", "cpu_frequency", 11, POWER;
    Capacity: "sched", "sched_cpu_capacity", 0, &[
        field("cpu", Type::Int, 0),
        field("capacity", Type::Ulong, 0),
        field("capacity_orig", Type::Ulong, 0),
        field("capacity_curr", Type::Ulong, 0),
    ];
    PeltTask: "sched", "sched_pelt_se", 0, &[
        field("cpu", Type::Int, 0),
        field("path", Type::Path, 0),
        field("comm", Type::Comm, 0),
        field("pid", Type::Int, 0),
        field("load", Type::Ulong, 0),
        field("runnable", Type::Ulong, 0),
        field("util", Type::Ulong, 0),
        field("update_time", Type::Ulonglong, 0),
    ];
    PeltFair: "sched", "sched_pelt_cfs", 0, &[
        field("cpu", Type::Int, 0),
        field("path", Type::Path, 0),
        field("load", Type::Ulong, 0),
        field("runnable", Type::Ulong, 0),
        field("util", Type::Ulong, 0),
        field("update_time", Type::Ulonglong, 0),
    ];
    PeltRt: "sched", "sched_pelt_rt", 0, PELT;
    PeltDl: "sched", "sched_pelt_dl", 0, PELT;
    Printk: "bpf_trace", "bpf_trace_printk", 0, &[field("bpf_string", Type::Place, 0).key("")];
    Call: "raw_syscalls", "sys_enter", 0, &[
        field("id", Type::Ulong, 0),
        field("args", Type::Ulong, 0),
    ];
    PipeRead: PROBE, "pipe_read", 0, MOVED;
    PipeWrite: PROBE, "pipe_write", 0, MOVED;
    SocketRead: PROBE, "unix_stream_recvmsg", 0, MOVED;
    SocketWrite: PROBE, "unix_stream_sendmsg", 0, MOVED;
    Pinned: PROBE, "sched_setaffinity", 0, &[
        field("task", Type::Int, 0),
        field("cpus", Type::Ulonglong, 0),
    ];
    Scheduled: PROBE, "__sched_setscheduler", 0, &[
        field("task", Type::Int, 0),
        field("policy", Type::Int, 0),
        field("runtime", Type::Ulonglong, 0),
    ];
}

impl Kind {
    /// The kind of event with this name, if a reader needs such events.
    pub fn read(name: &str) -> Option<Kind> {
        let mut all = Kind::ALL.iter().copied();
        all.find(|kind| kind.is_read() && kind.row().name == name)
    }

    /// The kind of event with this number in Perfetto's `FtraceEvent`, if a reader needs such events.
    pub fn of_perfetto(number: u32) -> Option<Kind> {
        let mut all = Kind::ALL.iter().copied();
        all.find(|kind| kind.is_read() && kind.row().perfetto == number)
    }

    /// Is this kind of event in the traces that are written?
    pub fn is_written(self) -> bool {
        self.row().system != PROBE && self != Kind::Call && self != Kind::Waking
    }

    fn is_read(self) -> bool {
        use Kind::*;
        self.may_be_of_others()
            || matches!(
                self,
                Mark | Switch | Waking | Wakeup | WakeupNew | Fork | Frequency
            )
    }

    /// May events of this name have other fields? A probe may have any name, and not every trace has
    /// the arguments of system calls.
    pub fn may_be_of_others(self) -> bool {
        self == Kind::Call || self.row().system == PROBE
    }
}
