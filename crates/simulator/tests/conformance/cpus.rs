//! CPUs: kicks, idle tracking and choosing among idle CPUs, losing a CPU to a higher class.

use crate::support::*;
use machine::{CpuMask, Level};
use native::{Kernel, Object};
use workload::{Op, SchedPolicy, TaskSpec};

/// A scheduler with one queue for all tasks, which places each task on CPU 0 first. `after` is executed when a task has
/// been queued.
fn queueing(after: &str, slice: &str) -> Object {
    let text = format!(
        "#define SHARED 0
        s32 BPF_STRUCT_OPS_SLEEPABLE(q_init) {{ return scx_bpf_create_dsq(SHARED, -1); }}
        s32 BPF_STRUCT_OPS(q_select, struct task_struct *p, s32 prev_cpu, u64 wake_flags) {{ return 0; }}
        void BPF_STRUCT_OPS(q_enqueue, struct task_struct *p, u64 enq_flags)
        {{
            scx_bpf_dsq_insert(p, SHARED, {slice}, enq_flags);
            {after}
        }}
        void BPF_STRUCT_OPS(q_dispatch, s32 cpu, struct task_struct *prev) {{ scx_bpf_dsq_move_to_local(SHARED); }}
        void BPF_STRUCT_OPS(q_running, struct task_struct *p) {{ note(\"running\", p, 0); }}"
    );
    let ops =
        ".init = (void *)q_init, .select_cpu = (void *)q_select, .enqueue = (void *)q_enqueue,
        .dispatch = (void *)q_dispatch, .running = (void *)q_running";
    scheduler(&text, ops)
}

/// `a` wakes at 2 ms, when `z` is running on CPU 0.
fn waking_beside_a_spinner() -> impl workload::Workload {
    tasks(|| {
        let a = TaskSpec {
            timer_slack_ns: Some(0),
            ..task("a", [sleep_for(2), run_for(1)])
        };
        [a, bound("z", 0, [run_for(50)])]
    })
}

fn a_runs(scheduler: &Object) -> (i32, u64) {
    let ran = run(&machine(2), &waking_beside_a_spinner(), scheduler);
    let lines = ran.lines();
    let last = lines.iter().rfind(|line| line.task == "a").unwrap();
    (last.cpu, last.at)
}

#[test]
fn an_idle_cpu_is_kicked_to_dispatch() {
    assert_eq!(
        a_runs(&queueing(
            "scx_bpf_kick_cpu(1, SCX_KICK_IDLE);",
            "SCX_SLICE_DFL"
        )),
        (1, 2 * MS)
    );
    assert_eq!(
        a_runs(&queueing("scx_bpf_kick_cpu(1, 0);", "SCX_SLICE_DFL")),
        (1, 2 * MS)
    );
    // No other CPU is notified, so `a` waits for the spinner's slice to end.
    let (cpu, at) = a_runs(&queueing("", "SCX_SLICE_DFL"));
    assert!(cpu == 0 && at >= 20 * MS, "{cpu} {at}");
}

#[test]
fn a_busy_cpu_ignores_an_idle_kick_and_keeps_its_task_when_kicked() {
    let (_, idle) = a_runs(&queueing(
        "scx_bpf_kick_cpu(0, SCX_KICK_IDLE);",
        "SCX_SLICE_DFL",
    ));
    let (_, plain) = a_runs(&queueing("scx_bpf_kick_cpu(0, 0);", "SCX_SLICE_DFL"));
    assert!(idle >= 20 * MS && plain >= 20 * MS, "{idle} {plain}");
}

#[test]
fn a_preempting_kick_ends_the_slice() {
    let kick = "if (p->comm[0] == 'a') scx_bpf_kick_cpu(0, SCX_KICK_PREEMPT);";
    assert_eq!(a_runs(&queueing(kick, "SCX_SLICE_INF")), (0, 2 * MS));
}

#[test]
fn the_last_task_of_a_cpu_is_enqueued_if_the_scheduler_wants_that() {
    let text = format!(
        "{FIFO}
        void BPF_STRUCT_OPS(last_enqueue, struct task_struct *p, u64 enq_flags)
        {{
            note(enq_flags & SCX_ENQ_LAST ? \"last\" : \"enqueue\", p, 0);
            scx_bpf_dsq_insert(p, enq_flags & SCX_ENQ_LAST ? SCX_DSQ_LOCAL : SHARED, 8000000, enq_flags);
        }}"
    );
    let ops = ".init = (void *)fifo_init, .enqueue = (void *)last_enqueue,
        .dispatch = (void *)fifo_dispatch, .flags = SCX_OPS_ENQ_LAST";
    let workload = tasks(|| [bound("a", 0, [run_for(40)])]);
    let ran = run(&machine(1), &workload, &scheduler(&text, ops));
    assert_eq!(ran.tasks("enqueue").len(), 1);
    assert!(ran.tasks("last").len() >= 3, "{:?}", ran.log());
    assert_eq!(ran.outcome.simulated_ns, 40 * MS, "it runs on at once");
}

/// A scheduler whose ops.select_cpu() notes the result of `number` when `a` wakes up.
fn selecting(number: &str) -> Object {
    let text = format!(
        "{FIFO}
        static s32 number(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {{
            bool idle = false;
            {number}
        }}
        s32 BPF_STRUCT_OPS(number_select, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {{
            if (wake_flags & SCX_WAKE_TTWU && p->comm[0] == 'a')
                note(\"number\", p, number(p, prev_cpu, wake_flags));
            return prev_cpu;
        }}"
    );
    scheduler(&text, "FIFO_OPS, .select_cpu = (void *)number_select")
}

fn number_beside(busy: &'static [usize], machine: &machine::Machine, number: &str) -> i64 {
    let workload = Starter { busy };
    run(machine, &workload, &selecting(number)).numbers("number")[0]
}

/// A load of spinners that are bound to the CPUs `busy`, and of `a`, which runs on CPU 0 and then sleeps until 10 ms.
struct Starter {
    busy: &'static [usize],
}

impl workload::Workload for Starter {
    fn name(&self) -> &str {
        "starter"
    }
    fn description(&self) -> &str {
        "a task that wakes among spinners"
    }
    fn metrics(&self) -> &[workload::Metric] {
        &[]
    }
    fn start(&self, machine: &machine::Machine) -> workload::Start {
        let anywhere = workload::Op::SetAffinity(Box::new(machine.all_cpus()));
        let a = bound(
            "a",
            0,
            [
                anywhere,
                workload::Op::SleepUntil { at: 10 * MS },
                run_for(1),
            ],
        );
        let spinner = |&cpu: &usize| bound("z", cpu, [run_for(100)]);
        workload::Start {
            tasks: std::iter::once(a)
                .chain(self.busy.iter().map(spinner))
                .collect(),
            ..workload::Start::default()
        }
    }
}

#[test]
fn idle_masks_say_which_cpus_are_idle() {
    let weight = "const struct cpumask *mask = scx_bpf_get_idle_cpumask(); s32 weight = bpf_cpumask_weight(mask); \
                  scx_bpf_put_idle_cpumask(mask); return weight;";
    assert_eq!(number_beside(&[0], &machine(4), weight), 3);
    assert_eq!(number_beside(&[0, 1, 3], &machine(4), weight), 1);
    assert_eq!(number_beside(&[0, 1, 2, 3], &machine(4), weight), 0);
    let cores = "const struct cpumask *mask = scx_bpf_get_idle_smtmask(); s32 weight = bpf_cpumask_weight(mask); \
                 scx_bpf_put_idle_cpumask(mask); return weight;";
    assert_eq!(
        number_beside(&[0], &smt_machine(2), cores),
        2,
        "CPU 1 has a busy sibling"
    );
    assert_eq!(
        number_beside(&[0], &machine(4), cores),
        3,
        "without SMT, the idle CPUs"
    );
}

#[test]
fn an_idle_cpu_is_claimed_once() {
    let twice =
        "return scx_bpf_test_and_clear_cpu_idle(1) * 10 + scx_bpf_test_and_clear_cpu_idle(1);";
    assert_eq!(number_beside(&[0], &machine(2), twice), 10);
    let pick = "s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
        return cpu * 1000 + scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);";
    assert_eq!(
        number_beside(&[0, 1, 2], &machine(4), pick),
        3 * 1000 - 16,
        "then EBUSY"
    );
    let any = "return scx_bpf_pick_any_cpu(p->cpus_ptr, 0) >= 0;";
    assert_eq!(
        number_beside(&[0, 1], &machine(2), any),
        1,
        "any, if none is idle"
    );
}

#[test]
fn an_idle_core_is_preferred() {
    let pick = "return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) / 2;";
    assert_eq!(number_beside(&[0, 2, 6], &smt_machine(4), pick), 2);
    let core = "return scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);";
    assert_eq!(number_beside(&[0, 2, 4, 6], &smt_machine(4), core), -16);
    let dfl = "return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle) * 10 + idle;";
    assert_eq!(
        number_beside(&[1, 2], &smt_machine(3), dfl) / 20,
        2,
        "rather than CPU 0, which is idle"
    );
}

#[test]
fn the_default_choice_is_the_previous_cpu_then_an_idle_one() {
    let dfl = "return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle) * 10 + idle;";
    assert_eq!(number_beside(&[1], &machine(3), dfl), 1, "CPU 0, idle");
    assert_eq!(number_beside(&[0, 1], &machine(3), dfl), 21, "CPU 2, idle");
    assert_eq!(
        number_beside(&[0, 1], &machine(2), dfl),
        0,
        "CPU 0, not idle"
    );
    let sync = "return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags | SCX_WAKE_SYNC, &idle) * 10 + idle;";
    assert_eq!(
        number_beside(&[0], &machine(2), sync),
        1,
        "the waker's CPU while another is idle"
    );
    assert_eq!(
        number_beside(&[0, 1], &machine(2), sync),
        0,
        "not when all are busy"
    );
}

#[test]
fn a_cpu_woken_for_nothing_is_idle_again() {
    // ops.select_cpu() claims CPU 1. After the kick, CPU 1 looks for work, and finds none.
    let text = format!(
        "{FIFO}
        s32 BPF_STRUCT_OPS(nothing_select, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        {{
            if (p->comm[0] == 'a' && wake_flags & SCX_WAKE_TTWU) {{
                note(\"claimed\", p, scx_bpf_test_and_clear_cpu_idle(1));
                scx_bpf_kick_cpu(1, SCX_KICK_IDLE);
            }}
            return prev_cpu;
        }}"
    );
    let scheduler = scheduler(&text, "FIFO_OPS, .select_cpu = (void *)nothing_select");
    let workload = tasks(|| {
        let naps = [sleep_for(2), sleep_for(2), sleep_for(2)];
        [task("a", naps)]
    });
    let claimed = run(&machine(3), &workload, &scheduler).numbers("claimed");
    assert!(
        claimed.iter().filter(|&&claimed| claimed == 1).count() >= 2,
        "{claimed:?}"
    );
}

#[test]
fn update_idle_is_called_on_changes() {
    let text = r#"
    void BPF_STRUCT_OPS(idle_update, s32 cpu, bool idle) { if (cpu == 1) note(idle ? "idle" : "busy", NULL, 0); }
    "#;
    let ops = ".update_idle = (void *)idle_update, .flags = SCX_OPS_KEEP_BUILTIN_IDLE";
    let workload = tasks(|| {
        [
            bound("a", 1, [run_for(1), sleep_for(1), run_for(1)]),
            bound("b", 0, [run_for(9)]),
        ]
    });
    let log = run(&machine(2), &workload, &scheduler(text, ops)).log();
    assert!(log.windows(2).all(|pair| pair[0] != pair[1]), "{log:?}");
    assert!(
        log.iter().filter(|what| *what == "busy").count() >= 2,
        "{log:?}"
    );
}

const PREEMPTED: &str = r#"
    void BPF_STRUCT_OPS(lost, s32 cpu, struct scx_cpu_release_args *args)
    {
        note("release", args->task, args->reason);
        note("reenqueued", NULL, scx_bpf_reenqueue_local());
    }
    void BPF_STRUCT_OPS(regained, s32 cpu, struct scx_cpu_acquire_args *args) { note("acquire", NULL, cpu); }
    void BPF_STRUCT_OPS(local_enqueue, struct task_struct *p, u64 enq_flags)
    {
        if (enq_flags & SCX_ENQ_REENQ)
            note("again", p, 0);
        scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_INF, enq_flags);
    }
    void BPF_STRUCT_OPS(local_running, struct task_struct *p) { note("running", p, 0); }
"#;

#[test]
fn a_real_time_task_takes_the_cpu_and_gives_it_back() {
    let ops = ".cpu_release = (void *)lost, .cpu_acquire = (void *)regained,
        .enqueue = (void *)local_enqueue, .running = (void *)local_running";
    let workload = tasks(|| {
        [
            fifo("rt", 0, [sleep_for(2), run_for(3)]),
            bound("a", 0, [run_for(10)]),
            bound("b", 0, [run_for(10)]),
        ]
    });
    // In Linux 7.3, the tasks are enqueued again later, and the call returns nothing.
    for (kernel, at_once) in [(Kernel::V6_12, 2), (Kernel::V7_3, 0)] {
        let scheduler = scheduler_in(kernel, PREEMPTED, ops).unwrap();
        taken_and_given_back(&run(&machine(1), &workload, &scheduler), at_once);
    }
}

fn taken_and_given_back(ran: &Ran, at_once: i64) {
    let lines = ran.lines();
    let at = |what: &str, nth: usize| {
        let mut found = lines.iter().filter(|line| line.what == what);
        found.nth(nth).map(|line| line.at)
    };
    let releases: Vec<_> = lines.iter().filter(|line| line.what == "release").collect();
    let last = releases.last().unwrap();
    assert_eq!(
        (last.task.as_str(), last.number, last.at),
        ("rt", 0, 2 * MS)
    );
    assert_eq!(at("acquire", releases.len() - 1), Some(5 * MS));
    // `a` was running and `b` waiting. Both tasks were handed back, and `a` comes first.
    assert_eq!(*ran.numbers("reenqueued").last().unwrap(), at_once);
    let again = ran.tasks("again");
    assert_eq!(again[again.len() - 2..], ["a", "b"]);
    let running = ran.tasks("running");
    assert_eq!(running[running.len() - 3..], ["a", "a", "b"]);
}

#[test]
fn real_time_tasks_run_by_priority_and_in_turn() {
    let text = "void BPF_STRUCT_OPS(nothing, struct task_struct *p) {}";
    let scheduler = scheduler(text, ".running = (void *)nothing");
    let workload = tasks(|| {
        let policy = |priority| workload::SchedPolicy::Fifo { priority };
        let of = |name: &str, priority| TaskSpec {
            policy: policy(priority),
            ..bound(
                name,
                0,
                [sleep_for(1), run_for(1), workload::Op::Yield, run_for(1)],
            )
        };
        [
            of("low", 10),
            of("high", 20),
            of("also", 20),
            bound("ext", 0, [sleep_for(1), run_for(1)]),
        ]
    });
    let (_, recording) = record(&machine(1), &workload, &scheduler);
    let names = ["low", "high", "also", "ext"];
    let next = |line: &str| {
        let (_, next) = line.split_once("next: (\"")?;
        let name = next.split('"').next()?.to_owned();
        names.contains(&name.as_str()).then_some(name)
    };
    let order: Vec<_> = recording.text.lines().filter_map(next).collect();
    assert_eq!(
        order[order.len() - 6..],
        ["high", "also", "high", "also", "low", "ext"],
        "{order:?}"
    );
}

/// The time in ms when the last task ends. Each task does some ms of work on a CPU of its own.
fn all_done_ms(cpus_and_work: [(usize, u64); 2]) -> u64 {
    let mut machine = smt_machine(2);
    machine.core_types[0].smt_throughput = 5 << 18;
    let workload = tasks(|| cpus_and_work.map(|(cpu, work)| bound("t", cpu, [run_for(work)])));
    run(
        &machine,
        &workload,
        &queueing("scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);", "SCX_SLICE_INF"),
    )
    .outcome
    .simulated_ns
        / MS
}

#[test]
fn virtual_cpus_share_those_of_the_host() {
    let done_us = |host_cpus, work: [u64; 3]| {
        let mut machine = machine(3);
        machine.host_cpus = host_cpus;
        machine.core_types[0].costs.context_switch_ns = 50_000;
        let [a, b, c] = work;
        let workload =
            tasks(|| [(0, a), (1, b), (2, c)].map(|(cpu, work)| bound("t", cpu, [run_for(work)])));
        let kick = "scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);";
        let ran = run(&machine, &workload, &queueing(kick, "SCX_SLICE_INF"));
        ran.outcome.simulated_ns / 1000
    };
    // The shell's switches come first, then one for each task.
    let shell = done_us(None, [10, 10, 10]) - 10_050;
    assert_eq!(done_us(Some(3), [10, 10, 10]), shell + 10_050);
    assert_eq!(done_us(Some(1), [10, 10, 10]), shell + 3 * 10_050);
    assert_eq!(done_us(Some(2), [10, 10, 10]), shell + 3 * 10_050 / 2);
    // All tasks do their work one after another.
    assert_eq!(done_us(Some(1), [2, 6, 9]), shell + 17_150);
}

#[test]
fn threads_of_a_core_share_what_it_can_do() {
    assert_eq!(all_done_ms([(0, 10), (2, 10)]), 10);
    // Together, two threads do 1.25 times the work of one, so each does 0.625 times that work.
    assert_eq!(all_done_ms([(0, 10), (1, 10)]), 16);
    // The shorter task ends after 8 ms; the other then has 5 ms left and the core to itself.
    assert_eq!(all_done_ms([(0, 10), (1, 5)]), 13);
}

/// `push_rt_tasks()`: a real-time task that is preempted goes at once to a CPU whose task is less urgent, and does not
/// wait until that CPU reschedules.
#[test]
fn a_preempted_real_time_task_is_pushed() {
    for hog in [false, true] {
        let workload = tasks(|| {
            let both = Op::SetAffinity(Box::new(CpuMask::first_n(2)));
            let low = TaskSpec {
                policy: SchedPolicy::Fifo { priority: 10 },
                ..bound("low", 0, [run_for(1), both, run_for(50)])
            };
            let hog = bound("hog", 1, [run_for(if hog { 100 } else { 0 })]);
            // The shell creates the task last that keeps the CPU.
            [fifo("high", 0, [sleep_for(10), run_for(20)]), hog, low]
        });
        let scheduler = scheduler(FIFO, "FIFO_OPS");
        let (_, recording) = record(&machine(2), &workload, &scheduler);
        let ends = recording.ends();
        let (_, low) = ends.iter().find(|(name, _)| name == "low").unwrap();
        assert_eq!(low / MS, 51, "beside a hog: {hog}");
    }
}

/// `select_fallback_rq()`: a CPU that the task may use, of the node where it last ran.
#[test]
fn a_choice_that_is_not_allowed_is_replaced_by_a_cpu_of_the_same_node() {
    let text = "
        s32 BPF_STRUCT_OPS(choose, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
        { return wake_flags & SCX_WAKE_FORK ? 3 : 2; }
        void BPF_STRUCT_OPS(queue, struct task_struct *p, u64 enq_flags)
        {
            note(\"enqueue\", p, scx_bpf_task_cpu(p));
            scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
        }";
    let ops = ".select_cpu = (void *)choose, .enqueue = (void *)queue";
    let mut machine = machine(4);
    let nodes = [0, 2].map(|first| (first..first + 2).collect::<CpuMask>());
    machine.levels.push(Level {
        name: "PKG",
        spans: nodes.into(),
    });
    let workload = tasks(|| {
        [TaskSpec {
            affinity: Some([1, 3].into_iter().collect()),
            ..task("a", [run_for(1), sleep_for(1), run_for(1)])
        }]
    });
    let ran = run(&machine, &workload, &scheduler(text, ops));
    assert_eq!(ran.numbers("enqueue"), [3, 3]);
}
