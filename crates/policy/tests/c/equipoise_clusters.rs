//! `scheduler/equipoise` on two clusters of two CPUs: which CPU takes or gives up which task, and the effects
//! of a tick and a stop.

use crate::common::compile;
use crate::equipoise_kernel::FOUR_CPUS;
use libloading::{Library, Symbol};

/// CPUs 0 and 1 are cluster 0, 2 and 3 cluster 1. Each CPU runs the task of its number; task 4 wakes up or is
/// new. Only the first task of each queue exists.
const CLUSTERS: &str = r#"
    volatile struct tunables tunables = { .slice = 3 * MS, .lag = 6 * MS, .preempt_after = MS, .unfairness = 5 * MS,
        .sync_burst = MS / 20, .prefer = PREFER_BALANCED };
    static struct task_struct task[5];
    static struct task_state state[5], waiting;
    static cpumask_t of_first;

    /* Starts with these capacities, of 1024. With @threads, each cluster is a core of two threads. */
    void begin(u32 capacity0, u32 capacity1, bool threads)
    {
        u32 capacity[] = { capacity0, capacity1 };

        begin_kernel(50 * NSEC_PER_SEC);
        of_first.bits[0] = 15;
        nr_clusters = 2;
        for (u32 i = 0; i < 2; i++) {
            clusters[i] = (struct cluster){ .clock = { .now = CLOCK, .weight = 2 << 20 }, .worth = 1 << 20, .nr_cpus = 2, .full_capacity = capacity[i],
                .limit = SCHED_POWER_SCALE, .cpu = { 2 * i, 2 * i + 1 } };
            cpu_levels[2 * i].thread_speed = threads ? 1024 * 5 / 8 : 1024;
        }
        rank_clusters();
        for (u32 i = 0; i < 5; i++) {
            begin_task(&task[i], i + 1, &allowed);
            state[i] = (struct task_state){ .weight = 1024, .full_weight = 1 << 20, .whole = ~0ULL, .cluster = i / 2 & 1,
                .recent = 500 * MS, .recent_at = kernel.now,
                .fair = { .vtime = CLOCK, .weight = i < 4 ? 1 << 20 : 0 } };
            task[i].equipoise_storage[0] = &state[i];
            task[i].thread_info.cpu = i & 3;
        }
        for (u32 i = 0; i < QUEUES; i++) {
            begin_task(&first[i], 100 + i, &of_first);
            first[i].equipoise_storage[0] = &waiting;
        }
        waiting = state[4];
        for (u32 cpu = 0; cpu < 4; cpu++) {
            cpu_states[cpu] = (struct cpu_state){ .cluster = cpu / 2, .slot = cpu % 2,
                .siblings = threads ? 3 : 1 << cpu % 2, .charged_at = kernel.now,
                .progress = 500 * MS, .pid = cpu + 1 };
            cores[cpu] = (struct rq){ .cpu = cpu, .curr = &task[cpu] };
        }
    }

    /* The task that runs on CPU @i, or the first waiting task (4), has recently done @more work than others. */
    void worked(u32 i, s64 more)
    {
        if (i < 4)
            cpu_states[i].progress += more;
        (i < 4 ? &state[i] : &waiting)->recent += more;
    }
    void is_fair(u64 progress) { machine_progress = progress; }
    void pin(u32 i) { task[i].nr_cpus_allowed = 1; }
    void idles(u32 cpu)
    {
        cores[cpu].curr = NULL;
        set_idle(cpu);
    }
    void waits(u32 cluster, u32 count, s64 ahead)
    {
        queued[cluster_dsq(cluster)] = count;
        first[cluster_dsq(cluster)].scx.dsq_vtime = CLOCK + ahead;
        clusters[cluster].clock.weight += (u64)count << 20;
        somebody_waits(cluster);
    }
    void is_kept(u32 cpu, s64 ahead)
    {
        queued[own_dsq(cpu)] = 1;
        first[own_dsq(cpu)].scx.dsq_vtime = CLOCK + ahead;
        set_bit_once(&cluster_of(cpu)->keeping, cpu_at(cpu)->slot);
    }
    void first_may_run_on(u64 cpus) { of_first.bits[0] = cpus; }
    void ran(u32 i, s64 ns)
    {
        task[i].se.sum_exec_runtime += ns;
        task[i].scx.slice -= ns;
    }
    void bursts(u32 i, u64 ns)
    {
        state[i].burst = ns;
        cpu_states[i & 3].burst = ns;
    }
    void woke(u32 i, u64 usually_after, u64 since)
    {
        state[i].after_wakeup = usually_after;
        cpu_states[i & 3].after_wakeup = usually_after;
        cpu_states[i & 3].woke_at = kernel.now - since;
    }
    u64 after_wakeup(u32 i) { return state[i].after_wakeup; }
    void naps(u32 i, u64 ns) { state[i].nap = ns; }
    void passes(u64 ns) { kernel.now += ns; }
    void exits(u32 i) { task[i].flags |= PF_EXITING; }
    void ran_past(u32 cpu, u64 ns) { cpu_at(cpu)->ran_past = ns; }
    void yields_on(u32 cpu) { cpu_at(cpu)->yields = true; }
    void ask(u32 cpu, u32 kind, u32 target, s32 pid) { cpu_at(cpu)->request = make_request(kind, target, pid, 0); }

    u32 kind(u32 cpu) { return request_kind(cpu_at(cpu)->request); }
    u32 target(u32 cpu) { return request_target(cpu_at(cpu)->request); }
    s32 pid(u32 cpu) { return request_pid(cpu_at(cpu)->request); }
    void is_crowded_since(u32 cpu, u64 ns) { cpu_at(cpu)->crowd_at = kernel.now - ns; }
    u64 timer(u32 cpu) { return timer_ns[cpu]; }
    void timer_fires(u32 cpu)
    {
        kernel.cpu = cpu;
        end_turn(NULL, NULL, &timers[cpu]);
    }
    u32 kicked(u32 cpu) { return kicks[cpu]; }
    s64 clock_ahead(u32 cluster) { return clusters[cluster].clock.now - CLOCK; }
    s64 ahead(u32 i) { return state[i].fair.vtime - CLOCK; }
    u64 burst(u32 i) { return state[i].burst; }
    u64 slice(u32 i) { return task[i].scx.slice; }
    void is_worth(u32 cluster, u64 weight) { clusters[cluster].worth = weight; }

    u32 is_evened_out(u32 cpu) { return even_out(&task[cpu], &state[cpu], cpu); }
    /* Does @cpu, which finds no waiting task, ask for a running one? */
    u32 pulls_running(u32 cpu)
    {
        look_again(cpu, pull_running(cpu));
        for (u32 i = 0; i < 4; i++)
            if (asks_for_task(cpu_at(i)->request) && request_target(cpu_at(i)->request) == cpu)
                return true;
        return false;
    }
    u32 offers_running(u32 cpu) { return offer_running(&task[cpu], cpu); }
    u32 calls_idle(u32 cluster) { return call_idle(clusters[cluster].cpu[0]); }
    u32 with_waker(u32 cpu)
    {
        kernel.cpu = cpu;
        kernel.current = &task[cpu];
        return stays_with_waker(&task[4], cpu);
    }
    u32 goes_on_at(u32 cpu) { return goes_on(&task[cpu], &state[cpu], cpu); }
    void ticks(u32 cpu)
    {
        kernel.cpu = cpu;
        equipoise_tick(&task[cpu]);
    }
    void gets_cpu_now(u32 i) { equipoise_running(&task[i]); }
    void weighs(u32 i) { equipoise_set_weight(&task[i], 100); }
    void stops(u32 cpu, u32 runnable) { equipoise_stopping(&task[cpu], runnable); }
    void goes_idle(u32 cpu) { equipoise_update_idle(cpu, true); }
    void leaves_idle(u32 cpu) { equipoise_update_idle(cpu, false); }
    u32 is_idle(u32 cpu) { return cluster_of(cpu)->idle >> cpu_at(cpu)->slot & 1; }
    void released(u32 cpu) { equipoise_cpu_release(cpu, NULL); }
    u32 takes_from(u32 cpu) { return (find_first_queue(cpu), this_first()->dsq); }
    u32 own_queue(u32 cpu) { return own_dsq(cpu); }
"#;

const MS: i64 = 1_000_000;
const SEND: i64 = 1;
const SWAP: i64 = 2;
const PULL: i64 = 3;

struct Clusters(Library);

impl Clusters {
    fn new(capacity0: u32, capacity1: u32, threads: bool) -> Clusters {
        let clusters = Clusters(compile(&format!("{FOUR_CPUS}{CLUSTERS}")));
        let begin: Symbol<unsafe extern "C" fn(u32, u32, bool)> =
            unsafe { clusters.0.get(b"begin") }.unwrap();
        unsafe { begin(capacity0, capacity1, threads) };
        clusters
    }

    /// Equal CPUs of one thread each.
    fn equal() -> Clusters {
        Clusters::new(1024, 1024, false)
    }

    /// Calls a function of up to four arguments, each of which the ABI passes in a register of its own.
    fn call(&self, what: &str, arguments: &[i64]) -> i64 {
        let function: Symbol<unsafe extern "C" fn(i64, i64, i64, i64) -> i64> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        let argument = |i: usize| arguments.get(i).copied().unwrap_or(0);
        unsafe { function(argument(0), argument(1), argument(2), argument(3)) }
    }

    fn number(&self, what: &str, arguments: &[i64]) -> i64 {
        i64::from(self.call(what, arguments) as i32)
    }

    fn says(&self, what: &str, arguments: &[i64]) -> bool {
        self.number(what, arguments) != 0
    }

    /// The pending request to `cpu`, if any: kind, target and pid.
    fn request(&self, cpu: i64) -> Option<(i64, i64, i64)> {
        let kind = self.number("kind", &[cpu]);
        let request = (
            kind,
            self.number("target", &[cpu]),
            self.number("pid", &[cpu]),
        );
        (kind != 0).then_some(request)
    }
}

#[test]
fn a_tick_takes_what_is_far_behind_elsewhere() {
    for (more, expected) in [(-4 * MS, None), (-6 * MS, Some((PULL, 1, 101)))] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[1, 1, 0]);
        clusters.call("worked", &[4, more]);
        assert_eq!(clusters.says("is_evened_out", &[0]), expected.is_some());
        assert_eq!(clusters.request(0), expected, "{more}");
    }
}

#[test]
fn a_tick_takes_nothing_from_one_that_is_behind() {
    for (fair, expected) in [(499 * MS, true), (500 * MS, false)] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[1, 1, 0]);
        clusters.call("worked", &[4, -6 * MS]);
        clusters.call("is_fair", &[fair]);
        assert_eq!(clusters.says("is_evened_out", &[0]), expected, "{fair}");
    }
}

/// A task that waits where the load is no larger will catch up.
#[test]
fn a_tick_takes_nothing_from_a_smaller_load() {
    for (own, expected) in [(0, true), (1, false), (2, false)] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, own, 0]);
        clusters.call("waits", &[1, 1, 0]);
        clusters.call("worked", &[4, -6 * MS]);
        assert_eq!(clusters.says("is_evened_out", &[0]), expected, "{own}");
    }
}

#[test]
fn a_task_that_is_ahead_changes_places() {
    let clusters = Clusters::new(1024, 512, false);
    clusters.call("worked", &[0, 20 * MS]);
    clusters.call("worked", &[3, -20 * MS]);
    clusters.call("is_evened_out", &[0]);
    assert_eq!(clusters.request(3), Some((SWAP, 0, 4)));
}

#[test]
fn a_fast_cpu_takes_over_what_a_slow_one_runs() {
    let clusters = Clusters::new(1024, 512, false);
    clusters.call("idles", &[0]);
    clusters.call("worked", &[3, -MS]);
    clusters.call("pulls_running", &[0]);
    assert_eq!(clusters.request(3), Some((SEND, 0, 4)));
    assert_eq!(clusters.request(2), None);
    assert!(clusters.says("kicked", &[3]));

    let clusters = Clusters::new(1024, 512, false);
    clusters.call("worked", &[3, -MS]);
    clusters.call("pin", &[3]);
    clusters.call("pulls_running", &[0]);
    assert_eq!(clusters.request(3), None);
    assert_eq!(clusters.request(2), Some((SEND, 0, 3)));

    let clusters = Clusters::new(1024, 512, true);
    assert!(!clusters.says("pulls_running", &[0]));
    clusters.call("idles", &[1]);
    assert!(clusters.says("pulls_running", &[0]));

    let equal = Clusters::equal();
    assert!(!equal.says("pulls_running", &[0]));
}

#[test]
fn a_slow_cpu_sends_its_task_to_a_fast_one() {
    let clusters = Clusters::new(512, 1024, false);
    assert!(!clusters.says("offers_running", &[0]));
    clusters.call("idles", &[2]);
    assert!(clusters.says("offers_running", &[0]));
    assert_eq!(clusters.request(0), Some((SEND, 2, 1)));
    assert!(!clusters.says("offers_running", &[1]), "it is claimed");

    let clusters = Clusters::new(512, 1024, false);
    clusters.call("idles", &[2]);
    clusters.call("pin", &[0]);
    assert!(!clusters.says("offers_running", &[0]));
    let clusters = Clusters::new(1024, 512, false);
    clusters.call("idles", &[2]);
    assert!(!clusters.says("offers_running", &[0]), "it is slower");
}

#[test]
fn one_of_two_threads_leaves_its_core() {
    let clusters = Clusters::new(1024, 1024, true);
    clusters.call("idles", &[2]);
    assert!(!clusters.says("offers_running", &[1]), "half a core idles");
    clusters.call("idles", &[3]);
    assert!(clusters.says("offers_running", &[0]));
    assert_eq!(clusters.request(0), Some((SEND, 2, 1)));
    assert!(!clusters.says("offers_running", &[1]), "the other one goes");

    let clusters = Clusters::new(1024, 1024, true);
    clusters.call("idles", &[2]);
    clusters.call("idles", &[3]);
    clusters.call("pin", &[0]);
    assert!(
        !clusters.says("offers_running", &[0]),
        "it may run here only"
    );
    assert!(clusters.says("offers_running", &[1]));
    assert_eq!(clusters.request(1), Some((SEND, 2, 2)));
}

#[test]
fn an_idle_cpu_is_called_for_what_it_may_run() {
    for (cpus, called) in [(0b1111, true), (0b0011, false)] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, 1, 0]);
        clusters.call("first_may_run_on", &[cpus]);
        clusters.call("idles", &[2]);
        assert_eq!(clusters.says("calls_idle", &[0]), called);
        assert_eq!(clusters.says("kicked", &[2]), called);
    }
}

/// A tick in the waiting task's own cluster also wakes the idle CPU, for a task that no wakeup has announced.
#[test]
fn a_tick_calls_an_idle_cpu() {
    let clusters = Clusters::equal();
    clusters.call("waits", &[0, 1, 0]);
    clusters.call("idles", &[2]);
    clusters.call("ticks", &[0]);
    assert!(clusters.says("kicked", &[2]));
}

/// A CPU that becomes idle just as a task was queued for it takes that task, so other CPUs must not treat it as idle: a
/// task sent to its local queue would wait there while other CPUs idle (schbench on two CPUs of Linux 7.3: 1 % of the
/// workers for a millisecond). A queued task that may not run on the idle CPU makes no difference.
#[test]
fn a_cpu_with_a_waiting_task_is_not_idle() {
    for (cpus, idle) in [(0b1111, false), (0b0010, true)] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, 1, 0]);
        clusters.call("first_may_run_on", &[cpus]);
        clusters.call("goes_idle", &[0]);
        assert_eq!(clusters.says("is_idle", &[0]), idle);
        assert_eq!(clusters.says("kicked", &[0]), !idle);
    }
}

#[test]
fn a_slice_ends_if_others_wait() {
    for (ran, waits, ends, timer) in [
        (MS, true, false, 2 * MS),
        (4 * MS, true, true, 0),
        (MS, false, false, 0),
        (90 * MS, false, false, 0),
    ] {
        let clusters = Clusters::equal();
        if waits {
            clusters.call("waits", &[0, 1, 0]);
        }
        clusters.call("ran", &[0, ran]);
        clusters.call("ticks", &[0]);
        let case = format!("{ran} ns, waits: {waits}");
        assert_eq!(clusters.call("slice", &[0]) == 0, ends, "{case}");
        assert_eq!(clusters.call("timer", &[0]), timer, "{case}");
    }
}

#[test]
fn a_timer_ends_the_turn_of_a_task_that_runs_for_long() {
    for (burst, sleeps, timer, stops) in [
        (9 * MS, false, 3 * MS, true),
        (9 * MS, true, 3 * MS, false),
        (MS, false, 0, false),
    ] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, 1, 0]);
        clusters.call("bursts", &[0, burst]);
        clusters.call("gets_cpu_now", &[0]);
        assert_eq!(clusters.call("timer", &[0]), timer);
        if sleeps {
            clusters.call("stops", &[0, 0]);
        }
        clusters.call("timer_fires", &[0]);
        assert_eq!(clusters.says("kicked", &[0]), stops);
    }
}

/// In a crowd, and for 32 ms after one, turns end at ticks.
#[test]
fn a_timer_ends_no_turn_in_a_crowd() {
    for (since, timer) in [(31 * MS, 0), (33 * MS, 3 * MS)] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, 1, 0]);
        clusters.call("bursts", &[0, 9 * MS]);
        clusters.call("is_crowded_since", &[0, since]);
        clusters.call("gets_cpu_now", &[0]);
        assert_eq!(clusters.call("timer", &[0]), timer);
    }
}

/// A task whose slice is over continues if its next deadline comes first and it has not yielded.
#[test]
fn the_earliest_deadline_goes_on() {
    for (first, yields, goes_on) in [
        // The task has had 3 ms, and asks for 3 ms more.
        (6 * MS + 1, false, true),
        (6 * MS, false, false),
        (7 * MS, true, false),
    ] {
        let clusters = Clusters::equal();
        clusters.call("waits", &[0, 1, first]);
        clusters.call("bursts", &[0, 9 * MS]);
        clusters.call("ran", &[0, 3 * MS]);
        if yields {
            clusters.call("yields_on", &[0]);
        }
        assert_eq!(clusters.says("goes_on_at", &[0]), goes_on, "{first}");
    }
    let alone = Clusters::equal();
    alone.call("ran", &[0, 3 * MS]);
    assert!(alone.says("goes_on_at", &[0]));
    assert_eq!(alone.call("clock_ahead", &[0]), 3 * MS / 2, "two tasks run");
}

#[test]
fn a_task_that_sleeps_calls_the_cpu_that_was_claimed() {
    for (runnable, called) in [(1, false), (0, true)] {
        let clusters = Clusters::equal();
        clusters.call("ask", &[0, SEND, 2, 1]);
        clusters.call("stops", &[0, runnable]);
        assert_eq!(clusters.says("kicked", &[2]), called);
        assert_eq!(clusters.request(0).is_none(), called);
    }
}

#[test]
fn a_real_time_task_keeps_none_waiting() {
    let clusters = Clusters::equal();
    clusters.call("is_kept", &[1, -MS]);
    assert_eq!(clusters.number("takes_from", &[0]), 0);
    clusters.call("released", &[1]);
    assert_eq!(
        clusters.number("takes_from", &[0]),
        clusters.number("own_queue", &[1])
    );
}

/// A woken task stays with a waker that usually sleeps soon after a wakeup, however long the waker runs before. The
/// woken task does not stay with a waker that usually continues or has continued, that exits, or whose CPU has bypassed
/// waiting tasks for as long as a wakeup must wait to preempt.
#[test]
fn a_task_stays_with_a_waker_that_sleeps_soon() {
    let stays = |prepare: &dyn Fn(&Clusters)| {
        let clusters = Clusters::equal();
        clusters.call("bursts", &[0, MS]);
        clusters.call("woke", &[0, 20_000, 0]);
        clusters.call("waits", &[0, 1, 0]);
        prepare(&clusters);
        clusters.says("with_waker", &[0])
    };
    assert!(stays(&|_| {}));
    assert!(!stays(&|clusters| {
        clusters.call("woke", &[0, MS, 0]);
    }));
    assert!(!stays(&|clusters| {
        clusters.call("woke", &[0, 20_000, MS]);
    }));
    assert!(!stays(&|clusters| {
        clusters.call("exits", &[0]);
    }));
    assert!(!stays(&|clusters| {
        clusters.call("ran_past", &[0, MS]);
    }));
}

/// The time that a task runs on after its first wakeup of a turn is an average. A turn that ends before the task
/// sleeps gives only a lower bound of that time.
#[test]
fn a_waker_runs_on_for_a_usual_time() {
    for (runnable, since, after) in [(0, 4, 7), (0, 12, 9), (1, 4, 8), (1, 12, 9)] {
        let clusters = Clusters::equal();
        clusters.call("woke", &[0, 8 * MS, since * MS]);
        clusters.call("stops", &[0, runnable]);
        assert_eq!(clusters.call("after_wakeup", &[0]), after * MS);
    }
    let clusters = Clusters::equal();
    clusters.call("woke", &[0, 8 * MS, 4 * MS]);
    clusters.call("gets_cpu_now", &[0]);
    clusters.call("stops", &[0, 0]);
    assert_eq!(
        clusters.call("after_wakeup", &[0]),
        8 * MS,
        "it wakes no task"
    );
}

/// A fast CPU whose own task naps takes over no task from a slow CPU if the nap is too short for a gain, which depends
/// on the slow CPU's speed. The fast CPU does not wait for a task that sleeps for longer than usual, or that was
/// preempted.
#[test]
fn a_fast_cpu_waits_for_a_task_that_comes_back_soon() {
    for (slow, nap, runnable, late, takes) in [
        (512, 190_000, 0, 0, false),
        (512, 210_000, 0, 0, true),
        (256, 140_000, 0, 0, true),
        (512, 190_000, 0, 200_000, true),
        (512, 190_000, 1, 0, true),
    ] {
        let clusters = Clusters::new(1024, slow, false);
        clusters.call("naps", &[0, nap]);
        clusters.call("stops", &[0, runnable]);
        clusters.call("idles", &[0]);
        clusters.call("passes", &[late]);
        assert_eq!(clusters.says("pulls_running", &[0]), takes, "{slow} {nap}");
    }
}

/// If the task does not come back within twice the time after which the moves would have paid, the CPU looks again,
/// unless it has left its idle state since.
#[test]
fn a_fast_cpu_whose_task_does_not_come_back_looks_again() {
    for leaves in [false, true] {
        let clusters = Clusters::new(1024, 512, false);
        clusters.call("naps", &[0, 190_000]);
        clusters.call("stops", &[0, 0]);
        clusters.call("idles", &[0]);
        assert!(!clusters.says("pulls_running", &[0]));
        assert_eq!(clusters.call("timer", &[0]), 400_000);
        if leaves {
            clusters.call("leaves_idle", &[0]);
        }
        clusters.call("passes", &[400_000]);
        clusters.call("timer_fires", &[0]);
        assert_eq!(clusters.says("kicked", &[0]), !leaves);
        assert!(clusters.says("pulls_running", &[0]));
    }
}

#[test]
fn a_new_weight_counts_at_once() {
    let clusters = Clusters::equal();
    clusters.call("weighs", &[0]);
    clusters.call("weighs", &[4]);
    assert_eq!([0, 1].map(|cpu| clusters.number("kicked", &[cpu])), [1, 0]);
}

/// A task's usual burst is an average, in which the last burst counts a quarter.
#[test]
fn a_burst_is_an_average() {
    let clusters = Clusters::equal();
    clusters.call("bursts", &[0, 8 * MS]);
    clusters.call("ran", &[0, 4 * MS]);
    clusters.call("stops", &[0, 0]);
    assert_eq!(clusters.call("burst", &[0]), 7 * MS);
}

/// Virtual time is the work that a CPU does: half as much on a CPU of half the speed, and 5/8 on a
/// hardware thread alongside a busy one.
#[test]
fn a_slow_cpu_charges_less() {
    let ran = |clusters: &Clusters, cpu: i64| {
        clusters.call("ran", &[cpu, 4 * MS]);
        clusters.call("stops", &[cpu, 1]);
        clusters.call("ahead", &[cpu])
    };
    let clusters = Clusters::new(1024, 512, false);
    assert_eq!(ran(&clusters, 0), 4 * MS);
    assert_eq!(ran(&clusters, 2), 2 * MS);
    let threads = Clusters::new(1024, 512, true);
    assert_eq!(ran(&threads, 0), 4 * MS * 5 / 8);
}
