//! `trace.dat`, trace-cmd's file (version 6, as in trace-cmd.dat.v6.5(5)): the formats of the
//! events, and for each CPU the pages of its ring buffer.

use super::Format;
use super::dat_head::Head;
use super::text::Fields;
use super::tracepoint::{COMM_LEN, Class, Record, SwitchComm, Tracepoint, comm, idle_state};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use tempfile::SpooledTempFile;

const PAGE: usize = 4096;
/// A page's time and length.
const PAGE_HEADER: usize = 16;
/// The bits (of 32) of an event's time since the previous one, ns; the others are its length or
/// kind.
const DELTA_BITS: u32 = 27;
const TIME_EXTEND: u32 = 30;

/// A field of an event: as C declares it, its bytes, and whether it is signed.
struct Field(&'static str, usize, bool);

/// A kind of event. Its text form, `print`, is C for printf.
struct Kind {
    system: &'static str,
    name: &'static str,
    fields: &'static [Field],
    print: &'static str,
}

const COMM: usize = COMM_LEN + 1;
const PATH: usize = 64;

/// Kinds are numbered from here on; that of `print` is ftrace's own number.
const PRINT_ID: u16 = 5;
const FIRST_ID: u16 = 300;

const PRINT: Kind = Kind {
    system: "ftrace",
    name: "print",
    fields: &[
        Field("unsigned long ip", 8, false),
        Field("char buf[]", 0, true),
    ],
    print: "\"%ps: %s\", (void *)REC->ip, REC->buf",
};

/// The events, in the order that [`kind_of`] assumes.
const KINDS: [Kind; 15] = [
    Kind {
        system: "sched",
        name: "sched_switch",
        fields: &[
            Field("char prev_comm[16]", COMM, true),
            Field("pid_t prev_pid", 4, true),
            Field("int prev_prio", 4, true),
            Field("long prev_state", 8, true),
            Field("char next_comm[16]", COMM, true),
            Field("pid_t next_pid", 4, true),
            Field("int next_prio", 4, true),
        ],
        print: "\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=%s next_pid=%d \
                next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, REC->prev_state ? \
                __print_flags(REC->prev_state, \"|\", { 1, \"S\" }, { 2, \"D\" }, { 16, \"X\" }) : \"R\", \
                REC->next_comm, REC->next_pid, REC->next_prio",
    },
    wakeup("sched_wakeup"),
    wakeup("sched_wakeup_new"),
    Kind {
        system: "sched",
        name: "sched_migrate_task",
        fields: &[
            Field("char comm[16]", COMM, true),
            Field("pid_t pid", 4, true),
            Field("int prio", 4, true),
            Field("int orig_cpu", 4, true),
            Field("int dest_cpu", 4, true),
        ],
        print: "\"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d\", REC->comm, REC->pid, REC->prio, \
                REC->orig_cpu, REC->dest_cpu",
    },
    Kind {
        system: "sched",
        name: "sched_process_fork",
        fields: &[
            Field("char parent_comm[16]", COMM, true),
            Field("pid_t parent_pid", 4, true),
            Field("char child_comm[16]", COMM, true),
            Field("pid_t child_pid", 4, true),
        ],
        print: "\"comm=%s pid=%d child_comm=%s child_pid=%d\", REC->parent_comm, REC->parent_pid, \
                REC->child_comm, REC->child_pid",
    },
    Kind {
        system: "sched",
        name: "sched_process_exit",
        fields: &[
            Field("char comm[16]", COMM, true),
            Field("pid_t pid", 4, true),
            Field("int prio", 4, true),
        ],
        print: "\"comm=%s pid=%d prio=%d\", REC->comm, REC->pid, REC->prio",
    },
    Kind {
        system: "task",
        name: "task_rename",
        fields: &[
            Field("pid_t pid", 4, true),
            Field("char oldcomm[16]", COMM, true),
            Field("char newcomm[16]", COMM, true),
            Field("short oom_score_adj", 2, true),
        ],
        print: "\"pid=%d oldcomm=%s newcomm=%s oom_score_adj=%hd\", REC->pid, REC->oldcomm, REC->newcomm, \
                REC->oom_score_adj",
    },
    power("cpu_idle"),
    power("cpu_frequency"),
    Kind {
        system: "sched",
        name: "sched_cpu_capacity",
        fields: &[
            Field("int cpu", 4, true),
            Field("unsigned long capacity", 8, false),
            Field("unsigned long capacity_orig", 8, false),
            Field("unsigned long capacity_curr", 8, false),
        ],
        print: "\"cpu=%d capacity=%lu capacity_orig=%lu capacity_curr=%lu\", REC->cpu, REC->capacity, \
                REC->capacity_orig, REC->capacity_curr",
    },
    Kind {
        system: "sched",
        name: "sched_pelt_se",
        fields: &[
            Field("int cpu", 4, true),
            Field("char path[64]", PATH, true),
            Field("char comm[16]", COMM, true),
            Field("int pid", 4, true),
            Field("unsigned long load", 8, false),
            Field("unsigned long runnable", 8, false),
            Field("unsigned long util", 8, false),
            Field("unsigned long long update_time", 8, false),
        ],
        print: "\"cpu=%d path=%s comm=%s pid=%d load=%lu runnable=%lu util=%lu update_time=%llu\", REC->cpu, \
                REC->path, REC->comm, REC->pid, REC->load, REC->runnable, REC->util, REC->update_time",
    },
    Kind {
        system: "sched",
        name: "sched_pelt_cfs",
        fields: &[
            Field("int cpu", 4, true),
            Field("char path[64]", PATH, true),
            Field("unsigned long load", 8, false),
            Field("unsigned long runnable", 8, false),
            Field("unsigned long util", 8, false),
            Field("unsigned long long update_time", 8, false),
        ],
        print: "\"cpu=%d path=%s load=%lu runnable=%lu util=%lu update_time=%llu\", REC->cpu, REC->path, \
                REC->load, REC->runnable, REC->util, REC->update_time",
    },
    pelt("sched_pelt_rt"),
    pelt("sched_pelt_dl"),
    Kind {
        system: "bpf_trace",
        name: "bpf_trace_printk",
        fields: &[Field("__data_loc char[] bpf_string", 4, true)],
        print: "\"%s\", __get_str(bpf_string)",
    },
];

const fn wakeup(name: &'static str) -> Kind {
    Kind {
        system: "sched",
        name,
        fields: &[
            Field("char comm[16]", COMM, true),
            Field("pid_t pid", 4, true),
            Field("int prio", 4, true),
            Field("int target_cpu", 4, true),
        ],
        print: "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu",
    }
}

const fn power(name: &'static str) -> Kind {
    Kind {
        system: "power",
        name,
        fields: &[Field("u32 state", 4, false), Field("u32 cpu_id", 4, false)],
        print: "\"state=%lu cpu_id=%lu\", (unsigned long)REC->state, (unsigned long)REC->cpu_id",
    }
}

const fn pelt(name: &'static str) -> Kind {
    Kind {
        system: "sched",
        name,
        fields: &[
            Field("int cpu", 4, true),
            Field("unsigned long load", 8, false),
            Field("unsigned long runnable", 8, false),
            Field("unsigned long util", 8, false),
            Field("unsigned long long update_time", 8, false),
        ],
        print: "\"cpu=%d load=%lu runnable=%lu util=%lu update_time=%llu\", REC->cpu, REC->load, REC->runnable, \
                REC->util, REC->update_time",
    }
}

/// The number of an event's kind.
fn id_of(event: &Tracepoint<'_>) -> u16 {
    let index = KINDS
        .iter()
        .position(|kind| Some(kind.name) == event.name());
    index.map_or(PRINT_ID, |index| FIRST_ID + index as u16)
}

/// The first fields of all events: kind, flags, preemption count and pid.
const COMMON: [Field; 4] = [
    Field("unsigned short common_type", 2, false),
    Field("unsigned char common_flags", 1, false),
    Field("unsigned char common_preempt_count", 1, false),
    Field("int common_pid", 4, true),
];

/// The offset of a field in an event, after `end` bytes, with C's alignment.
fn place(field: &Field, end: usize) -> usize {
    match field {
        Field(_, 2 | 4 | 8, _) => end.next_multiple_of(field.1),
        _ => end,
    }
}

/// `format` in the folder of an event in tracefs.
fn format_of(kind: &Kind, id: u16) -> String {
    let mut text = format!("name: {}\nID: {id}\nformat:\n", kind.name);
    let mut end = 0;
    for (index, field) in COMMON.iter().chain(kind.fields).enumerate() {
        if index == COMMON.len() {
            text.push('\n');
        }
        let offset = place(field, end);
        let Field(declaration, size, signed) = field;
        text.push_str(&format!(
            "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{};\n",
            u8::from(*signed)
        ));
        end = offset + size;
    }
    text + &format!("\nprint fmt: {}\n", kind.print)
}

/// An event's bytes, field by field.
struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    fields: std::slice::Iter<'static, Field>,
}

impl Encoder<'_> {
    fn field(&mut self) -> usize {
        let Some(field) = self.fields.next() else {
            unreachable!("an event has a value for each of its fields and no more");
        };
        self.out.resize(place(field, self.out.len()), 0);
        field.1
    }

    fn int(&mut self, value: impl TryInto<i64>) -> &mut Self {
        let size = self.field();
        let value = value.try_into().unwrap_or(i64::MAX);
        self.out.extend_from_slice(&value.to_le_bytes()[..size]);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let size = self.field();
        let end = self.out.len() + size;
        let most = text.len().min(size - 1);
        self.out.extend_from_slice(&text.as_bytes()[..most]);
        self.out.resize(end, 0);
        self
    }
}

/// The bytes of `record`, replacing the content of `out`.
fn encode(record: &Record<'_>, out: &mut Vec<u8>) {
    let (cpu, id) = (record.cpu, id_of(&record.event));
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&record.current.1.to_le_bytes());
    let kind = match id {
        PRINT_ID => &PRINT,
        _ => &KINDS[usize::from(id - FIRST_ID)],
    };
    let fields = kind.fields.iter();
    let mut to = Encoder { out, fields };
    match record.event {
        Tracepoint::SchedSwitch {
            prev,
            prev_prio,
            prev_state,
            next,
            next_prio,
        } => {
            to.text(&SwitchComm(prev, cpu).to_string());
            to.int(prev.1).int(prev_prio).int(prev_state.bits());
            to.text(&SwitchComm(next, cpu).to_string());
            to.int(next.1).int(next_prio);
        }
        Tracepoint::SchedWakeup {
            task,
            prio,
            target_cpu,
            ..
        } => {
            to.text(&comm(task.0)).int(task.1).int(prio).int(target_cpu);
        }
        Tracepoint::SchedMigrateTask {
            task,
            prio,
            orig_cpu,
            dest_cpu,
        } => {
            to.text(&comm(task.0)).int(task.1).int(prio);
            to.int(orig_cpu).int(dest_cpu);
        }
        Tracepoint::SchedProcessFork { parent, child_pid } => {
            to.text(&comm(parent.0)).int(parent.1);
            to.text(&comm(parent.0)).int(child_pid);
        }
        Tracepoint::SchedProcessExit { task, prio } => {
            to.text(&comm(task.0)).int(task.1).int(prio);
        }
        Tracepoint::TaskRename {
            pid,
            oldcomm,
            newcomm,
        } => {
            to.int(pid).text(&comm(oldcomm)).text(&comm(newcomm)).int(0);
        }
        Tracepoint::CpuIdle { state } => {
            to.int(idle_state(state)).int(cpu);
        }
        Tracepoint::CpuFrequency { state } => {
            to.int(state).int(cpu);
        }
        Tracepoint::SchedCpuCapacity { orig, curr } => {
            to.int(cpu).int(orig).int(orig).int(curr);
        }
        Tracepoint::SchedPeltSe { cpu, task, average } => {
            to.int(cpu).text("(null)").text(&comm(task.0)).int(task.1);
            to.averages(average);
        }
        Tracepoint::SchedPelt { class, average } => {
            to.int(cpu);
            if class == Class::Fair {
                to.text("/");
            }
            to.averages(average);
        }
        Tracepoint::BpfTracePrintk { .. } => {
            let text = Fields(record).to_string();
            // `__data_loc`: the length, and the offset; the text follows.
            let begin = to.out.len() + 4;
            to.int((((text.len() as u64 + 1) << 16) | begin as u64) as u32);
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        Tracepoint::Counter { .. } | Tracepoint::Decision { .. } => {
            to.int(0);
            out.extend_from_slice(Fields(record).to_string().as_bytes());
            out.extend_from_slice(b"\n\0");
        }
    }
}

impl Encoder<'_> {
    fn averages(&mut self, average: super::Averages) {
        for level in [average.load, average.runnable, average.util] {
            self.int(level.round() as u64);
        }
        self.int(average.updated);
    }
}

/// The current page of a CPU, and the places of the full ones.
struct Buffer {
    page: Vec<u8>,
    last: u64,
    /// The full pages, by their numbers in the spool.
    full: Vec<u64>,
}

/// Writes the file. The pages of all CPUs wait in the spool until the end, because the file is
/// ordered by CPU.
pub(crate) struct Dat<W> {
    out: W,
    cpus: Vec<Buffer>,
    spool: io::Result<BufWriter<SpooledTempFile>>,
    spooled: u64,
    comms: BTreeMap<i32, String>,
    event: Vec<u8>,
}

impl<W: Write> Dat<W> {
    /// A trace of `cpus` CPUs.
    pub fn new(out: W, cpus: usize, spool: SpooledTempFile) -> Dat<W> {
        let buffer = || Buffer {
            page: Vec::with_capacity(PAGE),
            last: 0,
            full: Vec::new(),
        };
        Dat {
            out,
            cpus: std::iter::repeat_with(buffer).take(cpus).collect(),
            spool: Ok(BufWriter::new(spool)),
            spooled: 0,
            comms: BTreeMap::new(),
            event: Vec::new(),
        }
    }

    /// Adds `event` to the pages of `cpu`.
    fn append(&mut self, cpu: usize, now: u64) {
        let buffer = &mut self.cpus[cpu];
        self.event.resize(self.event.len().next_multiple_of(4), 0);
        // The length, possibly once more, and a time that takes more bits.
        let most = self.event.len() + 4 + 4 + 8;
        if !buffer.page.is_empty() && buffer.page.len() + most > PAGE {
            flush(buffer, &mut self.spool, &mut self.spooled);
        }
        if buffer.page.is_empty() {
            buffer.page.extend_from_slice(&now.to_le_bytes());
            buffer.page.extend_from_slice(&[0; 8]);
            buffer.last = now;
        }
        let mut put = |word: u32| buffer.page.extend_from_slice(&word.to_le_bytes());
        let mut delta = now - buffer.last;
        if delta >> DELTA_BITS > 0 {
            put(TIME_EXTEND | ((delta as u32) << 5));
            put((delta >> DELTA_BITS) as u32);
            delta = 0;
        }
        let words = (self.event.len() / 4) as u32;
        match words {
            ..=28 => put(words | (delta as u32) << 5),
            _ => {
                put((delta as u32) << 5);
                put(self.event.len() as u32 + 4);
            }
        }
        buffer.page.extend_from_slice(&self.event);
        buffer.last = now;
    }

    fn write(&mut self) -> io::Result<()> {
        for buffer in &mut self.cpus {
            if !buffer.page.is_empty() {
                flush(buffer, &mut self.spool, &mut self.spooled);
            }
        }
        let spool = std::mem::replace(&mut self.spool, Err(io::ErrorKind::Other.into()))?;
        let mut spool = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        let pages: Vec<usize> = self.cpus.iter().map(|buffer| buffer.full.len()).collect();
        self.out.write_all(&head(&self.comms).bytes(&pages))?;
        let mut page = [0; PAGE];
        for number in self.cpus.iter().flat_map(|buffer| &buffer.full) {
            spool.seek(SeekFrom::Start(number * PAGE as u64))?;
            spool.read_exact(&mut page)?;
            self.out.write_all(&page)?;
        }
        self.out.flush()
    }
}

/// The page goes to the spool.
fn flush(
    buffer: &mut Buffer,
    spool: &mut io::Result<BufWriter<SpooledTempFile>>,
    spooled: &mut u64,
) {
    let length = (buffer.page.len() - PAGE_HEADER) as u64;
    buffer.page[8..PAGE_HEADER].copy_from_slice(&length.to_le_bytes());
    buffer.page.resize(PAGE, 0);
    if let Ok(file) = spool
        && let Err(error) = file.write_all(&buffer.page)
    {
        *spool = Err(error);
    }
    buffer.page.clear();
    buffer.full.push(*spooled);
    *spooled += 1;
}

/// The head as Linux's tracefs would have it.
fn head(comms: &BTreeMap<i32, String>) -> Head {
    let header_page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{PAGE_HEADER};\tsize:{};\tsigned:1;\n",
        PAGE - PAGE_HEADER
    );
    let header_event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                        \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
                        \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for (kind, id) in KINDS.iter().zip(FIRST_ID..) {
        let formats = systems.entry(kind.system).or_default();
        formats.push(format_of(kind, id).into_bytes());
    }
    let lines: String = comms
        .iter()
        .map(|(pid, comm)| format!("{pid} {comm}\n"))
        .collect();
    Head {
        big_endian: false,
        long: 8,
        page: PAGE,
        header_page: header_page.into_bytes(),
        header_event: header_event.as_bytes().to_vec(),
        ftrace: vec![format_of(&PRINT, PRINT_ID).into_bytes()],
        systems: systems
            .into_iter()
            .map(|(name, formats)| (name.to_owned(), formats))
            .collect(),
        comms: lines.into_bytes(),
    }
}

impl<W: Write> Format for Dat<W> {
    fn record(&mut self, record: Record<'_>) {
        if let Tracepoint::SchedSwitch { next, .. } = record.event
            && next.1 != 0
            && !self.comms.contains_key(&next.1)
        {
            self.comms.insert(next.1, comm(next.0).into_owned());
        }
        self.event.clear();
        encode(&record, &mut self.event);
        self.append(record.cpu, record.now);
    }

    fn finish(&mut self, _: u64) -> io::Result<()> {
        self.write()
    }
}
