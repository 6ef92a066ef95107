"""A correct scheduler in C, and the same scheduler with a fault."""

from dataclasses import dataclass

import elf
import objects
from faults import ANYWHERE, COMPILED, FIND_LIBC, IN_ENQUEUE, INSTEAD
from files import FILES, TWINS
from walls import wall_of


@dataclass
class Case:
    """A misbehaving scheduler."""
    name: str
    # Text or bytes.
    text: object
    # The correct twin: the scheduler without the fault.
    twin: str
    # The change of the scheduler's object after its compilation, if any: a function from bytes to
    # bytes.
    change: object = None

    def wall(self):
        """The pattern of the message of the wall that must stop the scheduler."""
        return wall_of(self.name)


# Name, result and arguments, the task, whether it is called often on tc2 under `mixed`, and its
# correct body.
OPS = {
    "select_cpu": ("s32", "struct task_struct *p, s32 prev_cpu, u64 wake_flags", "p", True,
                   "bool idle; return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);"),
    "enqueue": ("void", "struct task_struct *p, u64 enq_flags", "p", True,
                "scx_bpf_dsq_insert(p, 0, slice, enq_flags);"),
    "dispatch": ("void", "s32 of, struct task_struct *prev", "prev", True, "scx_bpf_dsq_move_to_local(0);"),
    "runnable": ("void", "struct task_struct *p, u64 enq_flags", "p", True, ""),
    "running": ("void", "struct task_struct *p", "p", True, ""),
    "stopping": ("void", "struct task_struct *p, bool runnable", "p", True, ""),
    "quiescent": ("void", "struct task_struct *p, u64 deq_flags", "p", True, ""),
    "tick": ("void", "struct task_struct *p", "p", True, ""),
    "update_idle": ("void", "s32 of, bool idle", "NULL", True, ""),
    "set_weight": ("void", "struct task_struct *p, u32 weight", "p", False, ""),
    "init_task": ("s32", "struct task_struct *p, struct scx_init_task_args *args", "p", False, "return 0;"),
    "enable": ("void", "struct task_struct *p", "p", False, ""),
    "disable": ("void", "struct task_struct *p", "p", False, ""),
    "exit_task": ("void", "struct task_struct *p, struct scx_exit_task_args *args", "p", False, ""),
    "cgroup_init": ("s32", "struct cgroup *cgrp, struct scx_cgroup_init_args *args", "NULL", False, "return 0;"),
    "init": ("s32", "void", "NULL", False, "start_timer(); return scx_bpf_create_dsq(0, -1) ?: scx_bpf_create_dsq(1, -1);"),
    "exit": ("void", "struct scx_exit_info *info", "NULL", False, ""),
    # This is not an op, but it is called like one.
    "timer": ("int", "void *map, u32 *key, struct bpf_timer *timer", "NULL", True,
              "bpf_timer_start(timer, 1000000, 0); return 0;"),
    "sched_switch": ("int", "bool preempt, struct task_struct *prev, struct task_struct *next", "next", True, "return 0;"),
}

HEAD = """#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u64 slice = 5000000;
volatile u64 sink, one = 1, zero, calls;
u64 faulty_array[8];
u64 faulty_signals = ~0ULL;
struct faulty_object { char bytes[1 << 20]; };
private(faulty) struct bpf_spin_lock faulty_lock;
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 4); __type(key, u32); __type(value, u64); }
	faulty_map SEC(".maps");
struct timed { struct bpf_timer timer; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct timed); }
	faulty_timers SEC(".maps");
extern struct sched_ext_ops faulty_ops;
static __noinline u64 faulty_deep(u64 n)
{
	volatile u64 frame[500];
	frame[n] = n;
	return n ? faulty_deep(n + one * 0) + frame[n] : 0;
}
/* A function that has this frame in a branch takes it when it begins. */
static __noinline __maybe_unused void faulty_large(void)
{
	volatile char large[256 << 20];
	large[sink] = 1;
	sink = large[one];
}
static int timer(void *map, u32 *key, struct bpf_timer *timer);
static __maybe_unused void start_timer(void)
{
	u32 first = 0;
	struct timed *timed = bpf_map_lookup_elem(&faulty_timers, &first);
	if (!timed)
		return;
	bpf_timer_init(&timed->timer, &faulty_timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timed->timer, timer);
	bpf_timer_start(&timed->timer, 1000000, 0);
}
"""

# An error of a scheduler that is already exiting has no effect, as in Linux.
LEAVING = ("disable", "exit_task", "exit")
IGNORED = ("error", "exit", "kick_negative", "kick_absent", "kick_contradiction", "perf_too_high", "perf_of_absent",
           "idle_of_absent", "insert_null")

# The time of the fault in ops that are called often; other ops have the fault in every call.
WHEN = {"at_first": "++calls == 1", "at_100": "++calls == 100", "on_cpu_1": "cpu == 1"}


def source(op=None, body=None, instead=False):
    """The scheduler with `body` before the body of `op`, or `instead` of it."""
    text = HEAD
    for name, (result, arguments, task, _, right) in OPS.items():
        does = right
        if name == op:
            known = f"s32 cpu = bpf_get_smp_processor_id(); struct task_struct *task = {task}; (void)cpu; (void)task;"
            last = "" if result == "void" or "return" in body else right
            does = f"{known}\n{body}\n{last if instead else right}"
        if name == "timer":
            head = f"static int timer({arguments})"
        elif name == "sched_switch":
            head = f'SEC("tp_btf/sched_switch") int BPF_PROG(faulty_sched_switch, {arguments})'
        elif arguments == "void":
            head = f"{result} BPF_STRUCT_OPS_SLEEPABLE(faulty_{name})"
        else:
            head = f"{result} BPF_STRUCT_OPS(faulty_{name}, {arguments})"
        text += f"{head}\n{{\n{does}\n}}\n"
    ops = [name for name in OPS if name not in ("timer", "sched_switch")]
    members = "".join(f"\t.{name} = (void *)faulty_{name},\n" for name in ops)
    return f'{text}SCX_OPS_DEFINE(faulty_ops,\n{members}\t.flags = SCX_OPS_KEEP_BUILTIN_IDLE, .timeout_ms = 200, .name = "faulty");\n'


def with_libc(text):
    """`text` with the functions that find the C library, if it calls them."""
    return text.replace("static int timer(", FIND_LIBC + "static int timer(", 1) if "faulty_call(" in text or "faulty_syscall(" in text else text


def case(name, op, test, body):
    """The scheduler whose `op` executes `body` if `test` holds; its twin never executes it."""
    return Case(name, with_libc(source(op, f"if ({test}) {{ {body} }}")),
                with_libc(source(op, f"if (one == 2 && ({test})) {{ {body} }}")))


def all_of_them():
    """All misbehaving schedulers."""
    for fault, body in ANYWHERE.items():
        for op, (_, _, _, often, _) in OPS.items():
            for when, test in WHEN.items() if often else [("always", "one")]:
                # A timer expires on the CPU on which it was started, CPU 0.
                if (op, when) == ("timer", "on_cpu_1") or (op in LEAVING and fault in IGNORED):
                    continue
                yield case(f"{fault} in {op} {when}", op, test, body)
    for fault, (body, right) in COMPILED.items():
        yield Case(fault, source("enqueue", body), source("enqueue", right))
    for fault, body in IN_ENQUEUE.items():
        yield case(fault, "enqueue", "one", body)
    for fault, (op, body) in INSTEAD.items():
        yield Case(fault, source(op, body, instead=True), source(op, f"if (one == 2) {{ {body} }}"))
    for fault, (what, by) in FILES.items():
        twin = TWINS.get(fault)
        yield Case(f"file: {fault}", by if what is None else source().replace(what, by),
                   source().replace(*twin) if twin else source())
    for fault, body in objects.AT_LOAD.items():
        yield Case(f"load {fault}", objects.text_of(source(), body), objects.text_of(source(), body), objects.changed)
    for change in elf.CHANGES:
        yield Case(f"object with {change}", source(), source(), elf.changed(change))
