"""Faults of schedulers: each fault in C, and the places where it can be put. walls.py says what must stop each of them.

Harmless faults that Linux's verifier accepts are not here: a division by zero (its result is 0), an
error from ops.exit() (the scheduler is already leaving), a dispatch of a task that is no longer queued (it is ignored).
"""

# Faults for any op. Each body may use `sink`, `one` and `zero`, whose values the compiler does not know, `cpu` (this
# CPU), and `task` (the op's task; NULL if it has none).
ANYWHERE = {
    "endless_loop": "for (;;) sink++;",
    "endless_recursion": "faulty_deep(one);",
    "large_frame": "faulty_large();",
    "read_null": "sink = *(volatile u64 *)zero;",
    "write_null": "*(volatile u64 *)zero = 1;",
    "read_wild": "sink = *(volatile u64 *)(one << 62);",
    "write_wild": "*(volatile u64 *)(0xdead0000 + one) = 1;",
    "read_past_end": "for (u64 i = 0;; i++) sink += faulty_array[i];",
    "write_code": "*(volatile u64 *)faulty_deep = 0;",
    "write_text": "*(volatile char *)\"text\" = 'T';",
    "write_constant": "*(volatile u64 *)&slice = 7;",
    "write_ops": "*(void *volatile *)&faulty_ops.enqueue = (void *)zero;",
    "write_table": "equipoise_kernel = (void *)zero; sink = scx_bpf_nr_cpu_ids();",
    "call_null": "((void (*)(void))zero)();",
    "call_data": "((void (*)(void))faulty_array)();",
    "call_wild": "((void (*)(void))(one << 46))();",
    "smash_stack": "for (u64 i = 0; i < 1 << 20; i++) ((volatile u64 *)__builtin_frame_address(0))[i] = one;",
    "lose_stack": 'asm volatile("xor %%esp, %%esp; push %%rax" ::: "memory");',
    "trap": "__builtin_trap();",
    "breakpoint": 'asm volatile("int3");',
    "single_step": 'asm volatile("pushf; orl $0x100, (%%rsp); popf; nop" ::: "memory");',
    "privileged": 'asm volatile("hlt");',
    "read_port": 'asm volatile("in $0x80, %%al" ::: "rax");',
    "old_system_call": 'asm volatile("int $0x80" :: "a"(1L), "b"(0L) : "memory");',
    "error": 'scx_bpf_error("on purpose");',
    "error_of_wild_text": 'scx_bpf_error("%s", (char *)one);',
    "exit": 'scx_bpf_exit(7, "on purpose");',
    "kick_negative": "scx_bpf_kick_cpu(-(s32)one, 0);",
    "kick_absent": "scx_bpf_kick_cpu(1 << 20, 0);",
    "kick_contradiction": "scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE | SCX_KICK_PREEMPT);",
    "perf_too_high": "scx_bpf_cpuperf_set(cpu, 4096);",
    "perf_of_absent": "sink = scx_bpf_cpuperf_cap(-(s32)one);",
    "idle_of_absent": "sink = scx_bpf_test_and_clear_cpu_idle(-(s32)one);",
    "leak_cpumask": "sink = (u64)bpf_cpumask_create();",
    "leak_object": "sink = (u64)bpf_obj_new(struct faulty_object);",
    "leak_task": "sink = (u64)bpf_task_acquire(bpf_get_current_task_btf());",
    "leak_cgroup": "sink = (u64)bpf_cgroup_from_id(1);",
    "leak_idle_mask": "sink = (u64)scx_bpf_get_idle_cpumask();",
    "double_release": "struct bpf_cpumask *m = bpf_cpumask_create(); bpf_cpumask_release(m); bpf_cpumask_release(m);",
    "double_drop": "struct faulty_object *o = bpf_obj_new(struct faulty_object); bpf_obj_drop(o); bpf_obj_drop(o);",
    "hoard": "for (;;) sink = (u64)bpf_obj_new(struct faulty_object);",
    "iterator_kept": "struct bpf_iter_scx_dsq it; bpf_iter_scx_dsq_new(&it, 0, 0);",
    "iterator_ended_twice": "struct bpf_iter_scx_dsq it; bpf_iter_scx_dsq_new(&it, 0, 0); bpf_iter_scx_dsq_destroy(&it); bpf_iter_scx_dsq_destroy(&it);",
    "iterator_not_begun": "struct bpf_iter_scx_dsq it = {}; bpf_iter_scx_dsq_next(&it);",
    "timer_outside": "static struct timed outside; bpf_timer_init(&outside.timer, &faulty_timers, CLOCK_MONOTONIC);",
    "lock_kept": "bpf_spin_lock(&faulty_lock);",
    "rcu_kept": "bpf_rcu_read_lock();",
    "insert_null": "scx_bpf_dsq_insert((void *)zero, 0, slice, 0);",
    "lookup_null": "sink = *(u64 *)bpf_map_lookup_elem(&faulty_map, (void *)zero);",
    "lookup_unchecked": "u32 absent = 99; sink = *(volatile u64 *)bpf_map_lookup_elem(&faulty_map, &absent);",
    "block_signals": "faulty_call(\"sigprocmask\", 2, (long)&faulty_signals, 0, 0, 0, 0); for (;;) sink++;",
    "end_thread": "faulty_call(\"syscall\", 60, 0, 0, 0, 0, 0);",
}

# Functions that use up memory with an endless hash or queue, or time with timers that leave none for tasks.
HOARDS = {
    "entries": """struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 1 << 30); __type(key, u64);
	__type(value, struct { char bytes[4096]; }); } hoard SEC(".maps");
static void faulty_hoard(void) { static char bytes[4096]; for (u64 i = 0; ; i++)
	if (bpf_map_update_elem(&hoard, &i, bytes, 0)) { scx_bpf_error("no more"); return; } }
""",
    "queued": """struct { __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 1 << 30); __type(value, struct { char bytes[4096]; }); }
	hoard SEC(".maps");
static void faulty_hoard(void) { static char bytes[4096]; for (;;)
	if (bpf_map_push_elem(&hoard, bytes, 0)) { scx_bpf_error("no more"); return; } }
""",
    "timers": """struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1000); __type(key, u32); __type(value, struct timed); }
	hoard SEC(".maps");
static int again(void *map, u32 *key, struct timed *timed) { bpf_timer_start(&timed->timer, 1, 0); return 0; }
static void faulty_hoard(void) { for (u32 i = 0; i < 1000; i++) { struct timed *t = bpf_map_lookup_elem(&hoard, &i);
	if (t) { bpf_timer_init(&t->timer, &hoard, CLOCK_MONOTONIC); bpf_timer_set_callback(&t->timer, again);
		bpf_timer_start(&t->timer, 1, 0); } } }
""",
}

# Bodies of an op that are refused before anything runs, each with a similar body that is accepted.
COMPILED = {
    name: (f"{what} = {value};", f"sink = (u64){what};")
    for name, what, value in (
        ("write_pid", "task->pid", "1"), ("write_comm", "task->comm[0]", "'x'"), ("write_weight", "task->scx.weight", "1"),
        ("write_prio", "task->prio", "1"), ("write_cpu", "task->thread_info.cpu", "1"),
        ("write_vruntime", "task->se.sum_exec_runtime", "1"), ("write_cpumask", "task->cpus_mask.bits[0]", "0"),
        ("write_rq", "bpf_per_cpu_ptr(&runqueues, 0)->nr_running", "1"),
        ("write_curr", "bpf_per_cpu_ptr(&runqueues, 0)->curr", "task"),
        ("write_cgroup", "scx_bpf_task_cgroup(task)->level", "7"), ("assign_constant", "slice", "7"),
    )
}
COMPILED["write_cgroup"] = (COMPILED["write_cgroup"][0], "bpf_cgroup_release(scx_bpf_task_cgroup(task));")
COMPILED["float"] = ("volatile double half = one; half /= 2; sink = half;", "volatile u64 half = one; half /= 2; sink = half;")

# Calls of the C library, which BPF does not have.
for call in ("abort()", "exit(0)", "_exit(0)", "raise(9)", "fork()", "vfork()", "getpid()", "kill(0, 9)", "pause()",
             "malloc(1)", "free((void *)one)", 'puts("x")', 'system("true")', 'fopen("x", "w")', "longjmp((void *)one, 1)",
             "pthread_create((void *)one, 0, 0, 0)", "pthread_exit(0)", "signal(11, 0)", "sleep(1)", 'getenv("HOME")',
             'dlopen("libc.so.6", 2)', "mmap(0, 4096, 7, 34, -1, 0)", "socket(2, 1, 0)", 'open("/etc/passwd", 0)',
             "alarm(1)", "setjmp((void *)one)"):
    name = call.split("(")[0]
    COMPILED[f"undeclared_{name}"] = (f"sink = (u64){call};", "sink = (u64)bpf_get_prandom_u32();")
    COMPILED[f"declared_{name}"] = (f"{{ extern long {name}(); sink = (u64){call}; }}",
                                    "{ extern void *memmove(void *, const void *, unsigned long); "
                                    "memmove((void *)&sink, (void *)&one, one * 8); }")

# System calls by the instruction itself, with number and arguments for x86-64.
for name, number, a, b, c in (
    ("read", 0, "0L", "&sink", "8L"), ("write", 1, "1L", '"hello"', "5L"), ("open", 2, '"left"', "66L", "0L"),
    ("mmap", 9, "0L", "4096L", "7L"), ("mprotect", 10, "&sink", "4096L", "7L"), ("sigaction", 13, "11L", "0L", "0L"),
    ("pause", 34, "0L", "0L", "0L"), ("getpid", 39, "0L", "0L", "0L"), ("socket", 41, "2L", "1L", "0L"),
    ("clone", 56, "17L", "0L", "0L"), ("fork", 57, "0L", "0L", "0L"), ("vfork", 58, "0L", "0L", "0L"),
    ("execve", 59, '"/bin/sh"', "0L", "0L"), ("exit", 60, "0L", "0L", "0L"), ("kill", 62, "0L", "9L", "0L"),
    ("unlink", 87, '"faulty.bpf.c"', "0L", "0L"), ("ptrace", 101, "0L", "0L", "0L"), ("setsid", 112, "0L", "0L", "0L"),
    ("exit_group", 231, "0L", "0L", "0L"), ("seccomp", 317, "0L", "0L", "0L"), ("bpf", 321, "0L", "0L", "0L"),
):
    ANYWHERE[f"call_{name}"] = (f'asm volatile("syscall" : "=a"(sink) : "a"({number}ULL), "D"({a}), "S"({b}), "d"({c}) '
                                f': "rcx", "r11", "memory");')

# Bodies that replace the body of an op: (op, body). Their correct twins have the op's own body.
INSTEAD = {}

# Code before the body of ops.enqueue().
IN_ENQUEUE = {}

# Calls of the C library. The code finds the library from one of the few functions that it may call: it goes back to
# the library's first page, and from there uses its tables.
FIND_LIBC = r"""
extern void *memmove(void *, const void *, unsigned long);
struct elf { char magic[4], rest[28]; u64 headers, sections; u32 flags; u16 size, header_size, header_count; };
struct header { u32 type, flags; u64 offset, address, physical, file_size, size, align; };
struct dynamic { u64 tag, value; };
struct symbol { u32 name; unsigned char info, other; u16 section; u64 value, size; };
static bool faulty_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}
static u64 faulty_libc(const char *name)
{
	u64 base = (u64)&memmove & ~4095ULL, symbols = 0, texts = 0;
	while (*(volatile u32 *)base != 0x464c457f)
		base -= 4096;
	struct elf *elf = (void *)base;
	struct header *header = (void *)(base + elf->headers);
	for (int i = 0; i < elf->header_count; i++) {
		if (header[i].type != 2)
			continue;
		for (struct dynamic *d = (void *)(base + header[i].address); d->tag; d++) {
			if (d->tag == 5)
				texts = d->value;
			if (d->tag == 6)
				symbols = d->value;
		}
	}
	for (struct symbol *s = (void *)symbols; (u64)s < texts; s++)
		if (s->value && s->section && faulty_same((char *)texts + s->name, name))
			return base + s->value;
	return 0;
}
static __maybe_unused long faulty_call(const char *name, long a, long b, long c, long d, long e, long f)
{
	long (*function)(long, long, long, long, long, long) = (void *)faulty_libc(name);
	return function(a, b, c, d, e, f);
}
static __maybe_unused long faulty_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long (*function)(long, long, long, long, long, long, long) = (void *)faulty_libc("syscall");
	return function(number, a, b, c, d, e, f);
}
"""
LIBC = {
    "chmod": '(long)"secret", 04755', "chown": '(long)"secret", 1, 1', "utimes": '(long)"secret", 0',
    "setxattr": '(long)"secret", (long)"user.x", (long)"y", 1', "open": '(long)"secret", 0',
    "creat": '(long)"left", 0644', "unlink": '(long)"secret"', "rename": '(long)"secret", (long)"left"',
    "mkdir": '(long)"left", 0755', "symlink": '(long)"/etc/passwd", (long)"left"', "read": "0, (long)&sink, 8",
    "socket": "2, 2, 0", "socketpair": "1, 1, 0, (long)&sink", "pipe": "(long)&sink", "dup": "1",
    "kill": "getppid, 9", "tgkill": "getppid, getppid, 9", "setpriority": "0, getppid, 19",
    "sched_setscheduler": "getppid, 1, (long)&one", "prlimit": "getppid, 4, 0, (long)&sink",
    "process_vm_readv": "getppid, 0, 0, 0, 0, 0", "ptrace": "16, getppid", "fork": "", "vfork": "",
    "execve": '(long)"/bin/true", 0, 0', "system": '(long)"touch left"', "mlockall": "1", "shmget": "0, 4096, 0600",
    "inotify_init": "", "ioctl": '0, 0x5412, (long)"x"', "reboot": "0", "sethostname": '(long)"x", 1',
    "clock_settime": "0, (long)faulty_array", "mount": "0, 0, 0, 0, 0", "unshare": "0", "setns": "1, 0",
    "setsid": "", "setuid": "0", "prctl": "15, (long)\"x\"", "personality": "0x400000", "mprotect": "(long)faulty_array & -4096L, 4096, 7",
    "mmap": "0, 4096, 7, 34, -1, 0", "mremap": "(long)faulty_array & -4096L, 4096, 8192, 3, (long)faulty_array & -4096L",
    "shm_open": '(long)"/left", 66, 0600', "memfd_create": '(long)"x", 0', "syscall": "323, 0",
    "sigaction": "11, (long)faulty_array, 0", "raise": "9", "abort": "", "pause": "", "sleep": "1000", "exit": "0", "_exit": "0",
    "pthread_create": "(long)&sink, 0, (long)faulty_deep, 0", "dlopen": '(long)"libutil.so.1", 2', "bind": "1, 0, 0", "sendto": "1, 0, 0, 0, 0, 0",
    "accept": "1, 0, 0", "lchown": '(long)"secret", 1, 1', "truncate": '(long)"secret", 0', "link": '(long)"secret", (long)"left"',
    "timer_create": "0, 0, (long)&sink", "timerfd_create": "0, 0", "epoll_create": "1", "eventfd": "0, 0", "splice": "1, 0, 2, 0, 1, 0",
    "sendfile": "1, 0, 0, 1", "getdents64": "1, (long)faulty_array, 64", "chdir": '(long)"/"', "chroot": '(long)"/"', "umask": "0",
    "wait": "0", "getrusage": "0, (long)faulty_array", "setrlimit": "0, (long)faulty_array", "nice": "1",
    "close": "1", "write": '1, (long)"hello", 5', "dprintf": '2, (long)"\\033[2Jhello\\n"',
}
# getppid() is not allowed either, so these calls name process 1.
for call, arguments in LIBC.items():
    arguments = ", ".join((arguments.replace("getppid", "1").split(", ") if arguments else []) + ["0"] * 6)
    words, depth, kept = [], 0, ""
    for c in arguments + ",":
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            words.append(kept.strip())
            kept = ""
        else:
            kept += c
    IN_ENQUEUE[f"libc_{call}"] = f'sink = faulty_call("{call}", {", ".join(words[:6])});'
# More system calls, by number.
for call, number, arguments in (
    ("clone3", 435, "(long)faulty_array, 64"), ("clone of a thread", 56, "0x10f00, 0"), ("io_uring_setup", 425, "1, (long)faulty_array"),
    ("io_setup", 206, "1, (long)&sink"), ("userfaultfd", 323, "1"), ("memfd_secret", 447, "0"), ("pidfd_open", 434, "1, 0"),
    ("pidfd_getfd", 438, "1, 1, 0"), ("death signal", 157, "1, 0"), ("name", 157, "15, (long)\"x\""), ("subreaper", 157, "36, 1"),
    ("no seccomp", 157, "22, 0"), ("close_range", 436, "0, 10, 0"), ("process_vm_writev", 311, "1, 0, 0, 0, 0"),
    ("process_madvise", 440, "1, 0, 0, 4"), ("robust list", 273, "(long)faulty_array, 24"), ("restartable sequence", 334, "0, 32, 1, 0"),
    ("thread pointer", 158, "0x1002, 0"), ("local descriptors", 154, "1, (long)faulty_array, 16"), ("ports", 172, "3"),
    ("memory barriers", 324, "1, 0"), ("affinity", 203, "0, 8, (long)&one"), ("tkill", 200, "1, 9"),
    ("queued signal", 129, "1, 9, (long)faulty_array"), ("timer", 38, "0, (long)faulty_array"), ("nanosleep", 35, "(long)faulty_array, 0"),
    ("landlock", 444, "0, 0, 1"), ("seccomp listener", 317, "1, 8, (long)faulty_array"), ("keys", 250, "0, -3"), ("swapoff", 168, "(long)\"/\""),
    ("perf", 298, "(long)faulty_array, 0, -1, -1, 0"), ("vmsplice", 278, "1, (long)faulty_array, 1, 0"), ("tee", 276, "1, 2, 1, 0"),
    ("sync", 162, ""), ("quotactl", 179, "0, 0, 0, 0"), ("getdents", 217, "1, (long)faulty_array, 64"), ("statx", 332, "-100, (long)\"/\", 0, 0, 0"),
    ("open_tree", 428, "-100, (long)\"/\", 0"), ("name_to_handle_at", 303, "-100, (long)\"/\", 0, 0, 0"), ("fanotify", 300, "0, 0"),
    # Calls that are allowed, but not with these arguments.
    ("poisoned memory", 28, "(long)faulty_array & -4096L, 4096, 100"), ("merged memory", 28, "(long)faulty_array & -4096L, 4096, 12"),
    ("locked memory", 9, "0, 4096, 3, 0x2022, -1, 0"), ("huge pages", 9, "0, 2 << 20, 3, 0x40022, -1, 0"), ("shared memory", 9, "0, 4096, 3, 0x21, -1, 0"),
    ("a futex of another", 202, "(long)faulty_array, 6, 0, 0, 0, 0"), ("a futex that moves waiters", 202, "(long)faulty_array, 3, 1, 1, (long)&sink, 0"),
    ("a signal to all", 234, "-1, -1, 6"), ("an action for faults", 13, "11, (long)faulty_array, 0, 8"),
    ("a write elsewhere", 1, "0, (long)\"left\", 4"), ("a file's flags", 72, "1, 4, 2048"), ("a copied pipe", 72, "1, 0, 10"),
):
    arguments = [argument for argument in arguments.split(", ") if argument]
    arguments = ", ".join(([str(number)] + arguments + ["0"] * 6)[:7])
    IN_ENQUEUE[f"syscall {call}"] = f"sink = faulty_syscall({arguments});"

# The processor's state, and the process's own.
IN_ENQUEUE |= {
    "state: thread pointer": 'asm volatile("wrfsbase %0" :: "r"(zero)); sink = *(volatile u64 *)zero;',
    "state: alternate stack": 'u64 stack[3] = { 0x1000, 0, 1 << 20 }; faulty_call("sigaltstack", (long)stack, 0, 0, 0, 0, 0); faulty_deep(1 << 20);',
    "state: alignment": 'asm volatile("pushf; orl $0x40000, (%%rsp); popf" ::: "memory"); sink = *(volatile u64 *)((char *)faulty_array + 1);',
    "state: exceptions of numbers": 'u32 all = 0; asm volatile("ldmxcsr %0; divss %%xmm0, %%xmm0" :: "m"(all) : "xmm0");',
    "state: no memory": 'faulty_call("munmap", (long)faulty_array & -4096L, 4096, 0, 0, 0, 0); sink = faulty_array[0];',
    "state: no library": 'faulty_call("munmap", (long)&memmove & -4096L, 1 << 20, 0, 0, 0, 0); faulty_call("getpid", 0, 0, 0, 0, 0, 0);',
    "state: waits": 'faulty_syscall(202, (long)faulty_array, 0, 0, 0, 0, 0);',
    "state: waits again and again": 'u64 soon[2] = { 0, 10000000 }; for (;;) faulty_syscall(202, (long)faulty_array, 0, 0, (long)soon, 0, 0);',
    "state: yields": 'for (;;) faulty_call("sched_yield", 0, 0, 0, 0, 0, 0);',
    "state: signals itself": 'for (;;) faulty_syscall(234, faulty_syscall(39, 0, 0, 0, 0, 0, 0), faulty_syscall(186, 0, 0, 0, 0, 0, 0), 6, 0, 0, 0);',
    # Messages: the length and the kind of each; kind 0 is a list of events.
    "message: many of no events": 'static char none[6] = { 2 }; for (;;) faulty_call("write", 1, (long)none, 6, 0, 0, 0);',
    "message: longest": 'static u32 long_one = ~0U; for (;;) faulty_call("write", 1, (long)&long_one, 4, 0, 0, 0);',
    "message: begun": 'static u32 begun = 9; faulty_call("write", 1, (long)&begun, 4, 0, 0, 0); for (;;) sink++;',
    "message: zeroes": 'static char page[4096]; for (;;) faulty_call("write", 1, (long)page, 4096, 0, 0, 0);',
    "message: words without end": 'for (;;) faulty_call("write", 2, (long)"words ", 6, 0, 0, 0);',
    "message: two messages": 'static char said[] = "one\\nerror: two\\n"; faulty_call("write", 2, (long)said, 15, 0, 0, 0); faulty_call("_exit", 3, 0, 0, 0, 0, 0);',
    "message: failed twice": 'static char two[] = { 4, 0, 0, 0, 2, 6, 1, \'x\', 4, 0, 0, 0, 2, 6, 1, \'x\' }; faulty_call("write", 1, (long)two, 16, 0, 0, 0);',
    "message: escapes": 'static char said[] = { 8, 0, 0, 0, 2, 6, 5, 27, \'[\', \'2\', \'J\', 7 }; faulty_call("write", 1, (long)said, 12, 0, 0, 0); faulty_call("_exit", 0, 0, 0, 0, 0, 0);',
}
# Calls that all return, but each takes some seconds.
IN_ENQUEUE["slow: every call"] = "for (volatile u64 i = 0; i < 1000000000; i++);"

for value in ("-1", "5", "64", "1024", "1 << 30", "(s32)(1U << 31)", "-4096", "~0"):
    INSTEAD[f"select_cpu_returns {value}"] = ("select_cpu", f"return {value};")
for value in ("-1", "-12", "-4095", "(s32)(1U << 31)"):
    for op in ("init", "init_task", "cgroup_init"):
        INSTEAD[f"{op}_returns {value}"] = (op, f"return {value};")
for what, body in {
    "to_no_dsq": "scx_bpf_dsq_insert(p, 77, slice, 0);",
    "to_no_cpu": "scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 4000, slice, 0);",
    "to_invalid": "scx_bpf_dsq_insert(p, SCX_DSQ_INVALID, slice, 0);",
    "to_builtin": "scx_bpf_dsq_insert(p, 1ULL << 63 | 99, slice, 0);",
    "with_flags": "scx_bpf_dsq_insert(p, 0, slice, 1ULL << 60);",
    "twice": "scx_bpf_dsq_insert(p, 0, slice, 0); scx_bpf_dsq_insert(p, 0, slice, 0);",
    "twice_elsewhere": "scx_bpf_dsq_insert(p, 0, slice, 0); scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, 0);",
    "mixed": "scx_bpf_dsq_insert(p, 0, slice, 0); scx_bpf_dsq_insert_vtime(p, 0, slice, 1, 0);",
    "vtime_to_local": "scx_bpf_dsq_insert_vtime(p, SCX_DSQ_LOCAL, slice, 1, 0);",
    "another": "scx_bpf_dsq_insert(p->group_leader == p ? p->real_parent : p, 0, slice, 0);",
    "nothing": "",
    "to_unread": "scx_bpf_dsq_insert(p, 1, slice, 0);",
    "every_tenth_lost": "if (++calls % 10) scx_bpf_dsq_insert(p, 0, slice, 0);",
    "after_100_lost": "if (++calls < 100) scx_bpf_dsq_insert(p, 0, slice, 0);",
    "only_from_cpu_1": "if (cpu == 1) scx_bpf_dsq_insert(p, 0, slice, 0);",
    "consumed": "scx_bpf_dsq_insert(p, 0, slice, 0); scx_bpf_dsq_move_to_local(0);",
}.items():
    INSTEAD[f"enqueue {what}"] = ("enqueue", body)
for what, body in {
    "nothing": "",
    "after_100_nothing": "if (++calls < 100) scx_bpf_dsq_move_to_local(0);",
    "no_dsq": "scx_bpf_dsq_move_to_local(77);",
    "other_dsq": "scx_bpf_dsq_move_to_local(1);",
    "a_local_one": "scx_bpf_dsq_move_to_local(SCX_DSQ_LOCAL);",
    "cancels": "scx_bpf_dispatch_cancel();",
    "wild_iterator": "scx_bpf_dsq_move((void *)one, prev, 0, 0);",
    "creates": "scx_bpf_create_dsq(5, -1);",
    "destroys": "scx_bpf_destroy_dsq(0);",
}.items():
    INSTEAD[f"dispatch {what}"] = ("dispatch", body)
for what, body in {
    "kicks_itself": "scx_bpf_kick_cpu(cpu, 0);",
    "preempts_itself": "scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);",
    "kicks_all": "for (s32 i = 0; i < 5; i++) scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT);",
}.items():
    # In the other ops, time passes between two calls.
    INSTEAD[f"dispatch {what}"] = ("dispatch", body)
    # Without preemption the same task continues, and ops.running() is not called again.
    if what != "kicks_itself":
        INSTEAD[f"running {what}"] = ("running", body)
