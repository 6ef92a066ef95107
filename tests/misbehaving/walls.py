"""The wall that must stop each fault: a pattern of its message. A scheduler that is stopped by another wall is no test
of this one. The first pattern whose name matches counts."""

import re

ADDRESS = "accessed an invalid address"
CALL = r"made a system call, which a BPF program cannot do"
ENDLESS = "did not return"
LIBRARY = "is a function of the C library, which BPF does not have"
CONSTRUCTOR = "it has a constructor, a destructor, an _init"
READ_ONLY = "read-only"
DATA_AND_CODE = "both code and data, or an executable stack"

WALLS = [(re.compile(name), re.compile(wall)) for name, wall in (
    # Code that runs at load, in the cage, and that no check of the object has found.
    (r"^load ends", "ended without a result"),
    (r"^load loops", ENDLESS),
    (r"^load faults", ADDRESS),
    (r"^load calls", CALL + ".*while it was loaded"),
    (r"^load needs", "cannot be loaded: .*Permission denied"),
    # An object that a check refuses, or else the dynamic loader, in the cage.
    (r"^object with DT_(INIT|INIT_ARRAY|PREINIT_ARRAY)$", CONSTRUCTOR),
    (r"^object with DT_(NEEDED|RPATH|RUNPATH|AUDIT|DEPAUDIT|AUXILIARY|FILTER)", "it loads other libraries"),
    (r"^object with (writable code|an executable stack)", DATA_AND_CODE),
    (r"^object with (two dynamic segments|no segments|no sections|65535 segments)", "a dynamic section that the dynamic loader does not"),
    (r"^object with (32 bits|big-endian|65534 segments|segments|sections|names)", "the compiled object is unreadable"),
    (r"^object with (a relocation (that|of a (copy|thread))|of another machine)", "addresses that only the dynamic loader can find"),
    (r"^object with", f"cannot be loaded|while it was loaded|was ended by signal (6|11)|ended without a result|{ADDRESS}"),
    # Calls.
    (r"^(call_(?!null|data|wild)|libc_(?!abort|exit$|_exit$|write$)|end_thread)", CALL),
    (r"^syscall ", CALL),
    (r"^state: (waits|yields)", ENDLESS),
    (r"^state: (no library|thread pointer|alternate stack)", "was ended by signal 11"),
    (r"^state: signals itself", "was ended by signal 6"),
    (r"^state: exceptions of numbers", "a division that BPF does not have"),
    (r"^state: (alignment|no memory)", ADDRESS),
    (r"^message: (zeroes|longest|failed twice)", "sent an impossible message"),
    (r"^message: (begun|many of no events)", ENDLESS),
    (r"^message: words without end", "ended without a result"),
    (r"^message: two messages", "ended without a result.* error: two"),
    (r"^message: escapes", r"\\u\{1b\}\[2J\\u\{7\}"),
    (r"^slow: ", ENDLESS),
    (r"^old_system_call", "made a system call, which a BPF program cannot do, by another architecture's rules"),
    (r"^libc_abort", "was ended by signal 6"),
    (r"^libc_(exit|_exit)$", "ended without a result"),
    (r"^libc_write", "sent an impossible message"),
    (r"^undeclared_", "is neither a function of Linux nor of scx's library"),
    (r"^declared_", LIBRARY),
    # The faults of an op.
    (r"^(endless_loop|hoard in|block_signals)", ENDLESS),
    (r"^(endless_recursion|large_frame|read_|write_(null|wild|code|text|table)|call_(null|data|wild)|smash_stack|lose_stack|"
     r"privileged|error_of_wild_text|lookup_|read_port)", ADDRESS),
    (r"^(write_constant|write_ops)", "it wrote to `"),
    (r"^write_|^assign_constant", READ_ONLY),
    (r"^trap", "an invalid instruction"),
    (r"^(breakpoint|single_step)", "a breakpoint"),
    (r"^error in", "scx_bpf_error: on purpose"),
    (r"^exit in", "unregistered from BPF: on purpose"),
    (r"^(kick_negative|kick_absent|idle_of_absent|perf_of_absent|select_cpu_returns)", "invalid CPU"),
    (r"^kick_contradiction", "PREEMPT/WAIT cannot"),
    (r"^perf_too_high", "[Ii]nvalid cpuperf"),
    (r"^(leak_|lock_kept|rcu_kept|iterator_kept)", "without releasing|without ending|returned with"),
    (r"^double_", "releases an object that does not exist"),
    (r"^iterator_ended_twice", "ends an iterat"),
    (r"^iterator_not_begun", "continues an iterat"),
    (r"^timer_outside", "timer"),
    (r"^insert_null", r"NULL where a task|calls scx_bpf_dsq_insert\(\)"),
    (r"^float", "SSE|floating|general"),
    (r"^(init|init_task|cgroup_init)_returns", r"ops\.\w+\(\) (failed|returned an invalid errno)"),
    (r"^enqueue (to_no_dsq|to_builtin)", "non-existent DSQ"),
    (r"^enqueue to_no_cpu", "invalid CPU 4000"),
    (r"^enqueue with_flags", "invalid enq_flags"),
    (r"^enqueue (twice|mixed)", "already direct-dispatched"),
    (r"^enqueue vtime_to_local", "cannot use vtime ordering"),
    (r"^enqueue another", "trying to direct-dispatch"),
    (r"^enqueue consumed", r"calls scx_bpf_dsq_move_to_local\(\)"),
    (r"^(enqueue|dispatch (nothing|after_100_nothing|other_dsq)|file: never_dispatches)", "runnable task stall"),
    (r"^dispatch (no_dsq|a_local_one)", "invalid DSQ ID"),
    (r"^dispatch cancels", "dispatch buffer underflow"),
    (r"^dispatch wild_iterator", CALL),
    (r"^dispatch creates", "it may sleep"),
    (r"^dispatch destroys", "attempting to destroy"),
    (r"^(dispatch|running) ", "events without time passing"),
    # Stopped at compile time, by the compiler's own cage.
    (r"^file: (include (shadow|beside|elsewhere|process)|include_endless|a_pipe|a_link|a_folder|a_terminal)", "Permission denied"),
    (r"^file: incbin", "Permission denied|cannot open|can't open|file not found"),
    (r"^file: (include_itself|itself)", "nested depth"),
    (r"^file: macros_double", "of memory|of CPU time|takes more than 25 s"),
    (r"^file: data_of_gigabytes", "writes more than 256 MiB"),
    # Refused when the object is read.
    (r"^file: (large_bss|constant of gigabytes)", "more than 1 GiB"),
    (r"^file: (_init|_fini|ifunc|constructor|destructor|section (?!\.preinit))", CONSTRUCTOR),
    (r"^file: section \.preinit", "not allowed in DSO"),
    (r"^file: (weak_|thread_local)", LIBRARY),
    (r"^file: (code_and_data|executable_stack)", DATA_AND_CODE),
    (r"^file: initialised_elsewhere", "is declared, but not defined"),
    (r"^file: map of", "its inner maps hold maps themselves"),
    (r"^file: symbol (moved|before)", "is not within its section"),
    (r"^file: symbol of", "is not within its section"),
    (r"^file: name of escapes", "a name with control characters"),
    (r"^file: decoy dynamic section", "a dynamic section that the dynamic loader does not use"),
    (r"^file: no_license", "it has no licence"),
    (r"^file: other_license", "its licence is"),
    (r"^file: no_ops", "is a macro that no header defines"),
    (r"^file: two_ops", "more than one sched_ext_ops"),
    (r"^file: (empty|zeroes)$", "no sched_ext_ops"),
    (r"^file: (empty_name|long_name|very_long_name|name_of)", r"ops\.name"),
    (r"^file: unknown_flags", "has unknown"),
    (r"^file: timeout", "timeout_ms is"),
    (r"^file: batch", "dispatch_max_batch"),
    (r"^file: (op_of_one|op_of_data)", ADDRESS),
    (r"^file: op_of_another_type", "may sleep"),
    (r"^file: (op_of_no_function|absent_op|syntax|unclosed|not_utf_8|not_c|error)", "error:"),
    (r"^file: a_header_that_is_not", "no header <absent.h>"),
    (r"^file: deep_brackets", "error|memory|terminated"),
    (r"^file: hoard (entries|queued)", "no more"),
    (r"^file: hoard timers", "timers expire"),
    (r"^file: says_escapes", r"error: two"),
    (r"^file: map kind", r"map type \d+ is not supported"),
    (r"^file: map no_entries", "no entries"),
    (r"^file: map (negative|queue)", "keys of"),
    (r"^file: map (large|largest)", "an array of"),
    (r"^file: map storage", "values of"),
)]


def wall_of(name):
    """The pattern of the message for the fault `name`."""
    for pattern, wall in WALLS:
        if pattern.search(name):
            return wall
    raise KeyError(f"no wall is named for {name}")
