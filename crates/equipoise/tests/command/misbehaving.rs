//! Errors that Linux's verifier would refuse in a foreign scheduler, and faults that would end the
//! command by a signal, each give one message. `tests/misbehave` has hundreds of such schedulers.

use crate::common::text;
use crate::foreign::{LINE, Scheduler, compare, fifo, fifo_with};

const OBJECT: &str = "struct large { char bytes[1 << 20]; };";

#[test]
fn an_op_releases_each_reference_once() {
    let unbalanced = [
        "bpf_cpumask_create();",
        "bpf_task_acquire(p);",
        "scx_bpf_task_cgroup(p);",
        "scx_bpf_get_idle_cpumask();",
        "bpf_obj_new(struct large);",
        "bpf_rcu_read_lock();",
        "static struct bpf_spin_lock lock; bpf_spin_lock(&lock);",
        "bpf_task_release(p);",
    ];
    for body in unbalanced {
        Scheduler::new(OBJECT, body).fails(3, &["its enqueue()", "without releasing", "verifier"]);
    }
    let twice = [
        "struct bpf_cpumask *m = bpf_cpumask_create(); bpf_cpumask_release(m); bpf_cpumask_release(m);",
        "struct large *o = bpf_obj_new(struct large); bpf_obj_drop(o); bpf_obj_drop(o);",
    ];
    for body in twice {
        Scheduler::new(OBJECT, body).fails(
            3,
            &["its enqueue()", "releases an object that does not exist"],
        );
    }
}

#[test]
fn references_stored_in_a_map_or_released_are_no_leaks() {
    let source = fifo_with(
        r#"
struct object { struct bpf_cpumask __kptr *mask; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, struct object); }
    objects SEC(".maps");
static void today(struct task_struct *p, u64 enq_flags)
{
    u32 first = 0;
    struct object *object = bpf_map_lookup_elem(&objects, &first);
    struct bpf_cpumask *mask = bpf_cpumask_create();

    if (!object || !mask)
        return;
    bpf_cpumask_release(bpf_cpumask_acquire(mask));
    mask = bpf_kptr_xchg(&object->mask, mask);
    if (mask)
        bpf_cpumask_release(mask);
    bpf_rcu_read_lock();
    bpf_cgroup_release(scx_bpf_task_cgroup(p));
    bpf_rcu_read_unlock();
}
"#,
    );
    let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn constants_cannot_be_changed() {
    for (variable, write) in [
        ("slice", "*(volatile u64 *)&slice = 7;"),
        ("fifo_ops", "*(void *volatile *)&fifo_ops.tick = p;"),
    ] {
        let today = format!(
            "extern struct sched_ext_ops fifo_ops;\nstatic void today(struct task_struct *p, u64 enq_flags) {{ {write} }}"
        );
        let source = fifo_with(&today);
        let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{says}");
        has!(says, &format!("wrote to `{variable}`"));
    }
    for body in [
        "p->pid = 1;",
        "p->scx.weight = 1;",
        "bpf_per_cpu_ptr(&runqueues, 0)->nr_running = 1;",
    ] {
        Scheduler::new("", body).fails(2, &[LINE, "read-only"]);
    }
}

#[test]
fn operations_that_bpf_lacks_are_refused() {
    let float = "\tvolatile double half = one; half /= 2; sink = half;";
    Scheduler::new("", float).fails(2, &[LINE, "error"]);
    #[cfg(target_arch = "x86_64")]
    Scheduler::new("", "\tasm volatile(\"int3\");")
        .fails(3, &["its enqueue()", LINE, "breakpoint"]);
}

#[test]
fn memory_has_an_end_and_a_pointer_to_nothing_a_line() {
    let hoard = "for (int i = 0; i < 2000; i++) if (!bpf_obj_new(struct large)) { scx_bpf_error(\"no more\"); break; }";
    Scheduler::new(OBJECT, hoard).fails(3, &["no more"]);
    let map = "struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 1); __type(key, u32); \
               __type(value, u64); } map SEC(\".maps\");";
    let lookup = "sink = (u64)bpf_map_lookup_elem(&map, (void *)zero);";
    Scheduler::new(map, lookup).fails(3, &["its enqueue()", LINE, "accessed an invalid address"]);
}

#[test]
fn maps_that_linux_refuses_are_refused() {
    for (map, part) in [
        (
            "__uint(type, BPF_MAP_TYPE_HASH); __type(key, u32); __type(value, u64);",
            "no entries",
        ),
        (
            "__uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u64); __type(value, u64);",
            "keys of 8 bytes",
        ),
        (
            "__uint(type, BPF_MAP_TYPE_TASK_STORAGE); __type(key, u32); __type(value, struct large);",
            "values of 1048576 bytes",
        ),
    ] {
        let source = fifo(
            "a",
            "GPL",
            &format!("{OBJECT}\nstruct {{ {map} }} wrong SEC(\".maps\");"),
        );
        let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
        let says = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{says}");
        assert!(says.contains("`wrong`") && says.contains(part), "{says}");
    }
}

#[test]
fn the_message_says_what_the_linker_found() {
    let source = fifo("a", "GPL", "extern u64 absent; u64 *pointer = &absent;");
    let output = compare(&[("a.bpf.c", &source)], &["--scheduler", "a.bpf.c"]);
    let says = text(&output.stderr);
    assert!(
        says.contains("a.bpf.c") && says.contains("absent"),
        "{says}"
    );
    let output = compare(
        &[("a.bpf.c", &fifo("a\\033[2J", "GPL", ""))],
        &["--scheduler", "a.bpf.c"],
    );
    assert!(
        !text(&output.stderr).contains('\u{1b}'),
        "{}",
        text(&output.stderr)
    );
}

/// `tests/misbehave` has the sources that take the compiler long, or much memory.
#[test]
fn the_compiler_writes_no_more_than_there_is_room_for() {
    Scheduler::new("u64 large[1 << 28] = { 1 };", "sink = large[one];").fails(
        2,
        &[
            "faulty.bpf.c: the compiler writes more than 256 MiB",
            "expected less, or maps",
        ],
    );
}
