//! BPF besides sched_ext: maps, task storage, timers, CPU masks, printing.

use crate::support::*;
use native::Global;

/// Runs `checks` in ops.init(). If the condition of a `CHECK(condition)` is false, the run ends with an error that
/// contains the condition.
pub fn check(declarations: &str, checks: &str) {
    let text = format!(
        "#define CHECK(cond) ({{ if (!(cond)) {{ scx_bpf_error(\"not: %s\", #cond); return -EINVAL; }} }})
        {declarations}
        s32 BPF_STRUCT_OPS_SLEEPABLE(check_init) {{ u32 key, other; u64 value, *at; {checks} return 0; }}"
    );
    let workload = tasks(|| [task("a", [run_for(1)])]);
    run(
        &machine(4),
        &workload,
        &scheduler(&text, ".init = (void *)check_init"),
    );
}

fn map(kind: &str, entries: u32) -> String {
    format!(
        "struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __uint(max_entries, {entries});
        __type(key, u32); __type(value, u64); }} map SEC(\".maps\");"
    )
}

#[test]
fn arrays() {
    check(
        &map("ARRAY", 3),
        "key = 2; value = 7;
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == 0);
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == 0);
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == 7);
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_NOEXIST) == -EEXIST);
        CHECK(bpf_map_delete_elem(&map, &key) == -EINVAL);
        CHECK(bpf_map_update_elem(&map, &key, &value, 77) == -EINVAL);
        key = 3;
        CHECK(!bpf_map_lookup_elem(&map, &key));
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == -E2BIG);",
    );
}

#[test]
fn core_s_macros() {
    check(
        "struct link { struct link *next; char name[8]; u64 number; } links[7];
        struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 3); __uint(key_size, 4);
                 __uint(value_size, 8); __uint(pinning, LIBBPF_PIN_BY_NAME); } pinned SEC(\".maps\");",
        "char name[8];
        for (key = 0; key < 6; key++)
            links[key].next = &links[key + 1];
        links[6] = (struct link){ .name = \"last\", .number = 7 };
        CHECK(BPF_CORE_READ(&links[0], next, next, next, next, next, next, number) == 7);
        CHECK(BPF_CORE_READ(&links[1], next, next, next, next, next, next, number) == 0);
        CHECK(BPF_CORE_READ_STR_INTO(&name, &links[5], next, name) == 5 && name[3] == 't');
        CHECK(BPF_CORE_READ_BITFIELD_PROBED(&links[6], number) == 7);
        struct link *same = bpf_rdonly_cast(&links[6], bpf_core_type_id_kernel(struct task_struct));
        CHECK(same->number == 7 && bpf_core_type_matches(struct task_struct));",
    );
}

#[test]
fn per_cpu_arrays() {
    check(
        &map("PERCPU_ARRAY", 2),
        "key = 1; value = 9;
        for (u32 cpu = 0; cpu < 4; cpu++)
            *(u64 *)bpf_map_lookup_percpu_elem(&map, &key, cpu) = cpu + 1;
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == bpf_get_smp_processor_id() + 1);
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == 0);
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == 9);
        CHECK(!bpf_map_lookup_percpu_elem(&map, &key, 4));
        key = 2;
        CHECK(!bpf_map_lookup_percpu_elem(&map, &key, 0));",
    );
}

#[test]
fn hashes() {
    check(
        &format!(
            "{}
            static long add(void *map, u32 *key, u64 *value, u64 *sum) {{ *sum += *key * 1000 + *value; return 0; }}
            static long stop(void *map, u32 *key, u64 *value, u64 *sum) {{ return 1; }}",
            map("HASH", 2)
        ),
        "key = 5; value = 7;
        CHECK(!bpf_map_lookup_elem(&map, &key));
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_EXIST) == -ENOENT);
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_NOEXIST) == 0);
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_NOEXIST) == -EEXIST);
        at = bpf_map_lookup_elem(&map, &key);
        CHECK(at && *at == 7);
        *at = 8;
        key = 6;
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == 0);
        other = 7;
        CHECK(bpf_map_update_elem(&map, &other, &value, BPF_ANY) == -E2BIG);
        value = 0;
        CHECK(bpf_for_each_map_elem(&map, add, &value, 0) == 2);
        CHECK(value == 11015);
        CHECK(bpf_for_each_map_elem(&map, stop, &value, 0) == 1);
        CHECK(bpf_for_each_map_elem(&map, stop, &value, 1) == -EINVAL);
        key = 5;
        CHECK(bpf_map_delete_elem(&map, &key) == 0);
        CHECK(bpf_map_delete_elem(&map, &key) == -ENOENT);
        CHECK(*at == 8);
        CHECK(!bpf_map_lookup_elem(&map, &key));",
    );
}

#[test]
fn an_lru_hash_removes_the_entry_that_was_used_the_longest_time_ago() {
    for kind in ["LRU_HASH", "LRU_PERCPU_HASH"] {
        check(
            &map(kind, 2),
            "for (key = 0; key < 100; key++) {
                value = key;
                CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == 0);
                other = 0;
                CHECK(bpf_map_lookup_elem(&map, &other));
            }
            key = 99; other = 98;
            at = bpf_map_lookup_elem(&map, &key);
            CHECK(at && *at == 99);
            CHECK(!bpf_map_lookup_elem(&map, &other));",
        );
    }
}

#[test]
fn per_cpu_hashes() {
    check(
        &format!(
            "{}
            static long add(void *map, u32 *key, u64 *value, u64 *sum) {{ *sum += *value; return 0; }}",
            map("PERCPU_HASH", 2)
        ),
        "key = 5; value = 7; other = 6;
        CHECK(!bpf_map_lookup_percpu_elem(&map, &key, 1));
        CHECK(bpf_map_update_elem(&map, &key, &value, BPF_ANY) == 0);
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == 7);
        for (u32 cpu = 1; cpu < 4; cpu++) {
            at = bpf_map_lookup_percpu_elem(&map, &key, cpu);
            CHECK(at && *at == 0);
            *at = cpu;
        }
        CHECK(*(u64 *)bpf_map_lookup_elem(&map, &key) == 7);
        CHECK(*(u64 *)bpf_map_lookup_percpu_elem(&map, &key, 3) == 3);
        CHECK(!bpf_map_lookup_percpu_elem(&map, &key, 4));
        value = 0;
        CHECK(bpf_for_each_map_elem(&map, add, &value, 0) == 1 && value == 7);
        CHECK(bpf_map_delete_elem(&map, &other) == -ENOENT);
        CHECK(bpf_map_delete_elem(&map, &key) == 0);",
    );
}

/// Creates the map `wrong` of `kind` with the members `rest`. The error is the message with which the run ends.
fn creation(kind: &str, rest: &str) -> Result<(), String> {
    let text =
        format!("struct {{ __uint(type, BPF_MAP_TYPE_{kind}); {rest} }} wrong SEC(\".maps\");");
    let workload = tasks(|| [task("a", [run_for(1)])]);
    let scheduler = scheduler(&text, ".timeout_ms = 1000");
    let ran = try_run(&machine(1), &workload, &scheduler, &[], None);
    ran.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_map_that_is_not_supported_is_named() {
    let array = "struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); }";
    let inner = format!("__uint(max_entries, 2); __array(values, {array});");
    for (kind, rest) in [
        ("HASH_OF_MAPS", format!("__type(key, u32); {inner}")),
        (
            "PERF_EVENT_ARRAY",
            "__uint(key_size, 4); __uint(value_size, 4);".to_owned(),
        ),
    ] {
        let expected = format!("map `wrong`: BPF_MAP_TYPE_{kind} is not supported");
        assert_eq!(creation(kind, &rest).unwrap_err(), expected);
    }
}

#[test]
fn values_have_the_kernels_limits() {
    let of = |kind: &str, bytes: u32| {
        let members = "__uint(max_entries, 1); __uint(key_size, 4)";
        creation(kind, &format!("{members}; __uint(value_size, {bytes});"))
    };
    for (kind, most) in [("PERCPU_ARRAY", 32 << 10), ("HASH", 4 << 20)] {
        assert_eq!(of(kind, most), Ok(()));
        let refused = of(kind, most + 8).unwrap_err();
        assert!(
            refused.contains(&format!("expected at most {most}")),
            "{refused}"
        );
    }
    assert_eq!(of("ARRAY", 8 << 20), Ok(()));
}

#[test]
fn queues_and_stacks() {
    for (kind, first, second) in [("QUEUE", 1, 2), ("STACK", 2, 1)] {
        check(
            &format!(
                "struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __uint(max_entries, 2);
                __type(value, u64); }} map SEC(\".maps\");"
            ),
            &format!(
                "CHECK(bpf_map_pop_elem(&map, &value) == -ENOENT);
                value = 1; CHECK(bpf_map_push_elem(&map, &value, 0) == 0);
                value = 2; CHECK(bpf_map_push_elem(&map, &value, 0) == 0);
                value = 3; CHECK(bpf_map_push_elem(&map, &value, 0) == -E2BIG);
                CHECK(bpf_map_peek_elem(&map, &value) == 0 && value == {first});
                CHECK(bpf_map_pop_elem(&map, &value) == 0 && value == {first});
                CHECK(bpf_map_pop_elem(&map, &value) == 0 && value == {second});
                CHECK(bpf_map_peek_elem(&map, &value) == -ENOENT);"
            ),
        );
    }
}

#[test]
fn maps_in_maps() {
    check(
        "struct inner { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1);
            __type(key, u32); __type(value, u64); } one SEC(\".maps\"), two SEC(\".maps\");
        struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 3); __uint(key_size, 4);
            __array(values, struct inner); } outer SEC(\".maps\") = { .values = { &one, &two } };",
        "void *inner;
        key = 0; other = 1; value = 5;
        inner = bpf_map_lookup_elem(&outer, &other);
        CHECK(inner && bpf_map_update_elem(inner, &key, &value, 0) == 0);
        CHECK(*(u64 *)bpf_map_lookup_elem(&two, &key) == 5);
        CHECK(*(u64 *)bpf_map_lookup_elem(&one, &key) == 0);
        other = 2;
        CHECK(!bpf_map_lookup_elem(&outer, &other));",
    );
}

#[test]
fn cpu_masks() {
    check(
        "",
        "struct bpf_cpumask *a = bpf_cpumask_create(), *b = bpf_cpumask_create(), *c = bpf_cpumask_create();
        const struct cpumask *all = scx_bpf_get_possible_cpumask();
        CHECK(a && b && c);
        CHECK(scx_bpf_nr_cpu_ids() == 4 && bpf_cpumask_weight(all) == 4);
        CHECK(bpf_cpumask_empty((void *)a) && bpf_cpumask_first((void *)a) >= 4);
        bpf_cpumask_set_cpu(1, a);
        bpf_cpumask_set_cpu(3, a);
        bpf_cpumask_set_cpu(2, b);
        bpf_cpumask_set_cpu(3, b);
        CHECK(bpf_cpumask_test_cpu(1, (void *)a) && !bpf_cpumask_test_cpu(0, (void *)a));
        CHECK(bpf_cpumask_first((void *)a) == 1 && bpf_cpumask_first_zero((void *)a) == 0);
        CHECK(bpf_cpumask_first_and((void *)a, (void *)b) == 3);
        CHECK(bpf_cpumask_and(c, (void *)a, (void *)b) && bpf_cpumask_weight((void *)c) == 1);
        bpf_cpumask_or(c, (void *)a, (void *)b);
        CHECK(bpf_cpumask_weight((void *)c) == 3);
        bpf_cpumask_xor(c, (void *)a, (void *)b);
        CHECK(bpf_cpumask_weight((void *)c) == 2 && !bpf_cpumask_test_cpu(3, (void *)c));
        CHECK(bpf_cpumask_subset((void *)a, all) && !bpf_cpumask_subset(all, (void *)a));
        CHECK(bpf_cpumask_intersects((void *)a, (void *)b) && !bpf_cpumask_equal((void *)a, (void *)b));
        bpf_cpumask_copy(c, (void *)a);
        CHECK(bpf_cpumask_equal((void *)a, (void *)c));
        CHECK(bpf_cpumask_test_and_clear_cpu(1, c) && !bpf_cpumask_test_and_clear_cpu(1, c));
        CHECK(!bpf_cpumask_test_and_set_cpu(1, c) && bpf_cpumask_test_and_set_cpu(1, c));
        bpf_cpumask_clear_cpu(1, c);
        CHECK(bpf_cpumask_any_distribute((void *)c) == 3);
        CHECK(bpf_cpumask_any_and_distribute((void *)a, (void *)b) == 3);
        bpf_cpumask_clear(c);
        CHECK(bpf_cpumask_empty((void *)c));
        bpf_cpumask_release(a);
        bpf_cpumask_release(b);
        bpf_cpumask_release(c);
        scx_bpf_put_cpumask(all);
        (void)key; (void)other; (void)value; (void)at;",
    );
}

#[test]
fn tasks_keep_their_storage_until_they_exit() {
    let text = r#"
    struct context { u64 runs; };
    struct { __uint(type, BPF_MAP_TYPE_TASK_STORAGE); __uint(map_flags, BPF_F_NO_PREALLOC);
             __type(key, int); __type(value, struct context); } contexts SEC(".maps"), others SEC(".maps");
    s32 BPF_STRUCT_OPS(store, struct task_struct *p, struct scx_init_task_args *args)
    {
        note("absent", p, !bpf_task_storage_get(&contexts, p, 0, 0));
        return bpf_task_storage_get(&contexts, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) ? 0 : -ENOMEM;
    }
    void BPF_STRUCT_OPS(count, struct task_struct *p)
    {
        struct context *context = bpf_task_storage_get(&contexts, p, 0, 0);

        note("runs", p, context ? ++context->runs : -1);
        note("other", p, bpf_task_storage_delete(&others, p));
    }
    "#;
    let ops = ".init_task = (void *)store, .running = (void *)count";
    let workload = tasks(|| {
        let twice = || [run_for(1), sleep_for(1), run_for(1)];
        [bound("a", 0, twice()), bound("b", 0, twice())]
    });
    let ran = run(&machine(1), &workload, &scheduler(text, ops));
    assert_eq!(ran.numbers("absent"), [1, 1]);
    for task in ["a", "b"] {
        let lines = ran.lines().into_iter();
        let runs: Vec<_> = lines
            .filter(|line| line.what == "runs" && line.task == task)
            .collect();
        assert_eq!(
            runs.iter().map(|line| line.number).collect::<Vec<_>>(),
            [1, 2]
        );
    }
    assert_eq!(ran.numbers("other"), [-2; 4], "ENOENT");
}

/// Runs two timers, `first` and `second`, that are in a map of `kind`, and returns the recorded lines, without the
/// results of the first calls. ops.init() executes `start`, and each expiry executes `expired`.
fn timers(kind: &str, expired: &str, start: &str) -> Vec<Line> {
    let text = format!(
        r#"
    struct holder {{ u64 count; struct bpf_timer timer; }};
    struct {{ __uint(type, BPF_MAP_TYPE_{kind}); __uint(max_entries, 2);
              __type(key, u32); __type(value, struct holder); }} timers SEC(".maps");
    static struct holder *holder_of(u32 key)
    {{
        struct holder zero = {{}};

        if (!bpf_map_lookup_elem(&timers, &key))
            bpf_map_update_elem(&timers, &key, &zero, BPF_ANY);
        return bpf_map_lookup_elem(&timers, &key);
    }}
    static int expired(void *map, u32 *key, struct holder *holder)
    {{
        holder->count++;
        note("expired", NULL, *key * 100 + holder->count);
        {expired}
        return 0;
    }}
    s32 BPF_STRUCT_OPS_SLEEPABLE(timer_init)
    {{
        struct bpf_timer *first = &holder_of(0)->timer, *second = &holder_of(1)->timer;

        note("result", NULL, bpf_timer_start(first, 1, 0));
        note("result", NULL, bpf_timer_init(first, &timers, 2));
        enum {{ CLOCK_BOOTTIME = 7 }}; /* Schedulers define it themselves. */
        bpf_timer_init(first, &timers, CLOCK_BOOTTIME);
        note("result", NULL, bpf_timer_init(first, &timers, CLOCK_MONOTONIC));
        bpf_timer_init(second, &timers, CLOCK_MONOTONIC);
        bpf_timer_set_callback(first, expired);
        bpf_timer_set_callback(second, expired);
        {start}
        return 0;
    }}"#
    );
    let workload = tasks(|| [task("a", [run_for(10)])]);
    let ran = run(
        &machine(2),
        &workload,
        &scheduler(&text, ".init = (void *)timer_init"),
    );
    assert_eq!(
        ran.numbers("result")[..3],
        [-22, -22, -16],
        "EINVAL before bpf_timer_init() and for another clock, EBUSY after it"
    );
    ran.lines()
        .into_iter()
        .filter(|line| line.what != "result" || line.at > 0)
        .collect()
}

fn times(lines: &[Line]) -> Vec<(i64, u64)> {
    lines
        .iter()
        .map(|line| (line.number, line.at / 1000))
        .collect()
}

#[test]
fn timers_expire_once_repeat_themselves_and_take_absolute_times() {
    for kind in ["ARRAY", "HASH"] {
        let again =
            "if (*key == 0 && holder->count < 3) bpf_timer_start(&holder->timer, 1000000, 0);";
        let start = "bpf_timer_start(first, 2000000, 0); bpf_timer_start(second, 4500000, BPF_F_TIMER_ABS);";
        let lines = timers(kind, again, start);
        assert_eq!(
            times(&lines),
            [(1, 2000), (2, 3000), (3, 4000), (101, 4500)],
            "{kind}"
        );
    }
}

#[test]
fn a_timer_runs_on_the_cpu_that_started_it() {
    let start = "bpf_timer_start(first, 1000000, BPF_F_TIMER_CPU_PIN);";
    let lines = timers("ARRAY", "", start);
    assert_eq!(
        (lines.len(), lines[0].cpu),
        (1, 0),
        "ops.init() runs on CPU 0"
    );
}

#[test]
fn a_timer_can_be_cancelled_and_started_anew() {
    let start = "bpf_timer_start(first, 1000000, 0);
        note(\"cancel\", NULL, bpf_timer_cancel(first));
        note(\"cancel\", NULL, bpf_timer_cancel(first));
        bpf_timer_start(second, 1000000, 0); bpf_timer_start(second, 3000000, 0);
        note(\"cancel\", NULL, bpf_timer_start(second, 3000000, 1 << 5));";
    let lines = timers("ARRAY", "", start);
    assert_eq!(times(&lines), [(1, 0), (0, 0), (-22, 0), (101, 3000)]);
}

#[test]
fn a_timer_s_callback_cannot_cancel_the_timer() {
    let cancel = "note(\"cancel\", NULL, bpf_timer_cancel(&holder->timer));";
    let lines = timers("ARRAY", cancel, "bpf_timer_start(first, 1000000, 0);");
    assert!(times(&lines).contains(&(-35, 1000)), "{:?}", times(&lines));
}

#[test]
fn can_loop_and_cond_break_end_a_loop() {
    check(
        "",
        "u64 rounds = 0, more = 0;
        while (can_loop)
            rounds++;
        CHECK(rounds == BPF_MAX_LOOPS);
        for (;;) {
            cond_break;
            more++;
        }
        for (;;) {
            cond_break_label(out);
            more++;
        }
        out:
        CHECK(more == 0);",
    );
}

#[test]
fn loops_clocks_and_formats() {
    check(
        "static long add(u32 i, u64 *sum) { *sum += i; return *sum > 20; }",
        "int i, sum = 0;
        u64 total = 0;
        bpf_for(i, 2, 5) sum += i;
        CHECK(sum == 9);
        CHECK(i == 4);
        bpf_repeat(4) sum++;
        CHECK(sum == 13);
        sum = 0;
        bpf_for(i, 0, 10) { i = 0; sum++; }
        CHECK(sum == 10);
        bpf_for(i, 0, sum) sum = 5;
        CHECK(sum == 5 && i == 5);
        bpf_for(i, 7, 3) sum = 0;
        bpf_for(i, 0, BPF_MAX_LOOPS + 1) sum = 0;
        bpf_repeat(BPF_MAX_LOOPS + 1) sum = 0;
        CHECK(sum == 5);
        int *number;
        bpf_for_each(num, number, 0, 4) sum += *number;
        CHECK(sum == 11);
        CHECK(bpf_loop(5, add, &total, 0) == 5 && total == 10);
        CHECK(bpf_loop(BPF_MAX_LOOPS + 1, add, &total, 0) == -E2BIG);
        CHECK(bpf_loop(1, add, &total, 1) == -EINVAL);
        total = 19;
        CHECK(bpf_loop(9, add, &total, 0) == 3 && total == 22);
        CHECK(bpf_ktime_get_ns() == 0 && bpf_jiffies64() == 0);
        CHECK(!bpf_strncmp(\"select_cpu\", 9, \"select_cp\"));
        CHECK(bpf_strncmp(\"abc\", 3, \"abd\") < 0);
        (void)key; (void)other; (void)value; (void)at;",
    );
}

#[test]
fn reads_that_may_fail_and_formats() {
    check(
        "",
        "char text[4], line[32];
        volatile u64 null = 0;
        struct task_struct *none = (void *)null;
        CHECK(bpf_probe_read_kernel_str(text, sizeof(text), \"abcdef\") == 4 && !__builtin_strcmp(text, \"abc\"));
        CHECK(bpf_probe_read_kernel_str(text, sizeof(text), \"x\") == 2 && !__builtin_strcmp(text, \"x\"));
        CHECK(bpf_probe_read_kernel_str(text, 0, \"x\") == 0);
        CHECK(bpf_probe_read_kernel_str(text, sizeof(text), none) == -ERANGE && !text[0]);
        value = 7;
        CHECK(bpf_probe_read_kernel(&value, sizeof(value), &none->start_time) == -ERANGE && !value);
        CHECK(bpf_probe_read_kernel(&value, sizeof(value), &null) == 0 && !value);
        const char format[] = \"%s %d\";
        u64 data[2] = { (u64)\"ab\", 5 };
        CHECK(bpf_snprintf(line, sizeof(line), format, data, sizeof(data)) == 5);
        CHECK(!__builtin_strcmp(line, \"ab 5\"));
        CHECK(bpf_snprintf(line, sizeof(line), format, data, 12) == -EINVAL);
        CHECK(bpf_snprintf(line, sizeof(line), format, data, 13 * 8) == -EINVAL);
        CHECK(bpf_snprintf(line, sizeof(line), \"x\", NULL, 0) == 2);
        (void)key; (void)other; (void)at;",
    );
}

#[test]
fn printed_lines_are_traced_with_their_times() {
    let text = "void BPF_STRUCT_OPS(say, struct task_struct *p) { bpf_printk(\"%s runs on %d\", p->comm, scx_bpf_task_cpu(p)); }";
    let scheduler = scheduler(text, ".running = (void *)say");
    let workload = tasks(|| [bound("a", 1, [run_for(1)])]);
    let (_, recording) = record(&machine(2), &workload, &scheduler);
    assert!(
        recording.printed.contains(&"a runs on 1".to_owned()),
        "{:?}",
        recording.printed
    );
}

#[test]
fn the_number_of_cpus_is_set_as_loaders_do() {
    let text = "const volatile u32 nr_cpu_ids;
        s32 BPF_STRUCT_OPS_SLEEPABLE(say_init) { note(\"cpus\", NULL, nr_cpu_ids); return 0; }";
    let scheduler = scheduler(text, ".init = (void *)say_init");
    let workload = tasks(|| [task("a", [run_for(1)])]);
    assert_eq!(run(&machine(3), &workload, &scheduler).numbers("cpus"), [3]);
    let given = [Global {
        symbol: "nr_cpu_ids".into(),
        bytes: 2u32.to_ne_bytes().into(),
    }];
    let ran = try_run(&machine(3), &workload, &scheduler, &given, None)
        .ok()
        .unwrap();
    assert_eq!(ran.numbers("cpus"), [2]);
}

#[test]
fn programs_at_tracepoints_see_every_switch() {
    let text = format!(
        "{FIFO}
        SEC(\"tp_btf/sched_switch\")
        int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
        {{
            if (next->pid != 1000 && prev->pid != 1000)
                note(preempt ? \"preempts\" : \"follows\", next, scx_bpf_cpu_curr(0) == next);
            return 0;
        }}"
    );
    let workload = tasks(|| {
        [
            bound("low", 0, [run_for(5)]),
            fifo("rt", 0, [sleep_for(2), run_for(1)]),
        ]
    });
    let ran = run(&machine(1), &workload, &scheduler(&text, "FIFO_OPS"));
    let log = ran.log();
    // The shell's own switches are omitted.
    assert_eq!(log, ["preempts rt", "follows low"]);
    assert!(ran.lines().iter().all(|line| line.number == 1));
}

#[test]
fn a_tracepoint_that_does_not_exist_is_named() {
    let text = format!(
        "{FIFO} SEC(\"tp_btf/sched_stat_wait\") int BPF_PROG(on_wait, struct task_struct *p) {{ return 0; }}"
    );
    let workload = tasks(|| [bound("a", 0, [run_for(1)])]);
    let error = try_run(
        &machine(1),
        &workload,
        &scheduler(&text, "FIFO_OPS"),
        &[],
        None,
    )
    .err()
    .unwrap()
    .to_string();
    assert!(
        error.contains("on_wait()") && error.contains("`sched_stat_wait`"),
        "{error}"
    );
}
