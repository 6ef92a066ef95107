//! Expectations of a good scheduler, from published complaints about others. The loads are so small
//! that the right result is known, or that of EEVDF or of a thread alone is.

use crate::common::{file, json};
use crate::rt_app::{self, entry, mean};
use serde_json::Value;

fn run(machine: &str, tasks: &str, policy: &str) -> Value {
    rt_app::run(machine, 4, tasks, policy, "1")
}

/// The time that a piece of work of `thread` takes under `equipoise`, us.
fn takes(machine: &str, tasks: &str, thread: &str) -> f64 {
    mean(&run(machine, tasks, "equipoise"), &format!("{thread}/run"))
}

/// The least and the greatest of the mean times that a piece of work takes the `instances` of a
/// thread, us.
fn least_and_most(result: &Value, thread: &str, instances: std::ops::Range<u32>) -> (f64, f64) {
    let times = instances.map(|index| mean(result, &format!("{thread}-{index}/run")));
    times.fold((f64::MAX, 0.0), |(least, most), time| {
        (least.min(time), most.max(time))
    })
}

const HEAVY: &str = r#""heavy": { "loop": -1, "run": 10000 }"#;
const LIGHT: &str = r#""light": { "instance": 5, "loop": -1, "run": 200, "timer": { "ref": "unique", "period": 10000 } }"#;

/// A thread that saturates a core runs on a fast one, however light the machine's load is
/// (scx#3259: a game on E cores at half its frame rate).
#[test]
fn a_heavy_thread_among_light_ones_is_as_fast_as_alone() {
    for machine in ["lunar-lake", "alder-lake", "sm8250", "tc2"] {
        let alone = takes(machine, HEAVY, "heavy");
        let among = takes(machine, &format!("{HEAVY}, {LIGHT}"), "heavy");
        assert!(among < 1.03 * alone, "{machine}: {among} us, alone {alone}");
    }
}

/// A thread that runs for 1 ms of every 16 asks for less than its share beside eight loops on two CPUs, which lose
/// little if it comes first.
#[test]
fn a_thread_of_short_runs_does_not_wait_for_loops() {
    let loops = r#""loop": { "instance": 8, "loop": -1, "run": 100000 }"#;
    let short =
        r#""short": { "loop": -1, "run": 1000, "timer": { "ref": "unique", "period": 16100 } }"#;
    let result = run("smp-2", &format!("{loops}, {short}"), "equipoise");
    let waited = entry(&result, "short/wu_lat")["p99"].as_f64().unwrap();
    assert!(waited < 500.0, "{waited} us");
}

/// With no more threads than fast cores, no thread runs on a slow core or shares a core: a nice-0
/// thread is as fast alongside nice-19 threads as alone.
#[test]
fn a_nice_thread_takes_no_sibling_while_a_core_idles() {
    let front = r#""front": { "loop": -1, "run": 5000 }"#;
    let back = r#""back": { "instance": 3, "priority": 19, "loop": -1, "run": 5000 }"#;
    for machine in ["smt-4", "lunar-lake"] {
        let alone = takes(machine, front, "front");
        let beside = takes(machine, &format!("{back}, {front}"), "front");
        assert!(
            beside < 1.02 * alone,
            "{machine}: {beside} us, alone {alone}"
        );
    }
}

/// An idle slow core is better than the second hardware thread of a busy fast core: nine threads on
/// eight fast cores and a slow one do the work of eight fast cores and a slow one.
#[test]
fn an_idle_slow_core_comes_before_half_a_fast_one() {
    let tasks = |count| format!(r#""loop": {{ "instance": {count}, "loop": -1, "run": 5000 }}"#);
    let eight = takes("alder-lake", &tasks(8), "loop");
    let nine = takes("alder-lake", &tasks(9), "loop");
    let slow = r#""loop": { "cpus": [16], "loop": -1, "run": 5000 }"#;
    let slow = takes("alder-lake", slow, "loop");
    let best = 9.0 / (8.0 / eight + 1.0 / slow);
    assert!(nine < 1.01 * best, "{nine} us, at best {best}");
}

/// No CPU idles next to a CPU with two movable tasks, wherever other tasks are pinned (kSTEP's bug
/// 9: an idle CPU that never pulls): four loops on four CPUs, two of them bound to one CPU each, are
/// as fast as alone.
#[test]
fn an_idle_cpu_pulls_where_others_are_kept_apart() {
    let tasks = r#""a": { "cpus": [0], "loop": -1, "run": 5000 }, "d": { "cpus": [3], "loop": -1, "run": 5000 },
        "c": { "instance": 2, "cpus": [1, 2], "loop": -1, "run": 5000 }"#;
    let alone = takes(
        "smp-8",
        r#""a": { "cpus": [0], "loop": -1, "run": 5000 }"#,
        "a",
    );
    let result = run("smp-8", tasks, "equipoise");
    for thread in ["a", "d", "c-2", "c-3"] {
        let time = mean(&result, &format!("{thread}/run"));
        assert!(time < 1.01 * alone, "{thread}: {time} us, alone {alone}");
    }
}

/// The weight of one task hides no idle core from others (Wasted Cores, group imbalance): 64
/// threads alongside two of nice -20, on eight nodes of ten cores, all have a core to themselves.
#[test]
fn a_heavy_loner_hides_no_idle_core() {
    let tasks = r#""loner": { "instance": 2, "priority": -20, "loop": -1, "run": 5000 },
        "many": { "instance": 64, "loop": -1, "run": 5000 }"#;
    let result = run("hp-8s-80c", tasks, "equipoise");
    let most = entry(&result, "many/run")["max"].as_f64().unwrap();
    assert!(most < 1.1 * 5000.0, "{most} us");
}

/// SCHED_IDLE yields at once: threads that sleep and work are as fast alongside it as alone.
#[test]
fn sched_idle_is_in_nobodys_way() {
    let front = r#""front": { "instance": 2, "loop": -1, "run": 2000, "sleep": 5000 }"#;
    let back = r#""back": { "instance": 4, "policy": "SCHED_IDLE", "loop": -1, "run": 5000 }"#;
    let alone = takes("smp-2", front, "front");
    let beside = takes("smp-2", &format!("{front}, {back}"), "front");
    assert!(beside < 1.02 * alone, "{beside} us, alone {alone}");
}

/// Three equal loops share two CPUs equally, whatever their weight: the two that share a CPU change
/// over time.
#[test]
fn equal_threads_have_equal_parts_however_light_they_are() {
    for how in [
        r#""priority": 0"#,
        r#""priority": 5"#,
        r#""priority": 19"#,
        r#""policy": "SCHED_IDLE""#,
    ] {
        let tasks = format!(r#""loop": {{ "instance": 3, {how}, "loop": -1, "run": 5000 }}"#);
        let (least, most) = least_and_most(&run("smp-2", &tasks, "equipoise"), "loop", 0..3);
        assert!(most < 1.02 * least, "{how}: {least} to {most} us");
    }
}

/// A thread that is bound to a CPU, as kernel threads are, gets its turn beside many loops that are bound to the same
/// CPU, although all of these loops are behind the tasks of other CPUs.
#[test]
fn a_crowd_that_is_pinned_keeps_nobody_waiting() {
    let tasks = r#""pinned": { "instance": 30, "cpus": [0], "loop": -1, "run": 100000 },
        "free": { "instance": 6, "loop": -1, "run": 100000 },
        "kthread": { "cpus": [0], "loop": -1, "run": 50, "timer": { "ref": "unique", "period": 20000 } }"#;
    let late = |policy| entry(&run("smp-2", tasks, policy), "kthread/wu_lat")["p99"].clone();
    let (equipoise, eevdf) = (late("equipoise"), late("eevdf"));
    assert!(
        equipoise.as_f64().unwrap() < 2.0 * eevdf.as_f64().unwrap(),
        "{equipoise} us, {eevdf} us"
    );
}

/// Tasks of fast and slow CPUs may get far apart before they change places, but a wakeup does not
/// wait for that. It waits at most for a turn (4 ms: a slice, rounded up to the next tick) of each
/// of the 60 others on two CPUs.
#[test]
fn unfairness_between_clusters_delays_no_wakeup() {
    let tasks = r#""loop": { "instance": 40, "loop": -1, "run": 100000 },
        "nap": { "instance": 20, "loop": -1, "run": 2000, "sleep": 3000 },
        "thread": { "loop": -1, "run": 50, "timer": { "ref": "unique", "period": 20000 } }"#;
    let result = run("smp-2", tasks, "equipoise:unfairness_ns=10000000000");
    let late = entry(&result, "thread/wu_lat")["p99"].as_f64().unwrap();
    assert!(late < 60.0 / 2.0 * 4000.0, "{late} us");
}

/// The SCHED_IDLE thread among 61 threads on a CPU also runs before the kernel's watchdog ends the
/// scheduler.
#[test]
fn sched_idle_is_not_starved_until_the_watchdog_comes() {
    let tasks = r#""loop": { "instance": 60, "cpus": [0], "loop": -1, "run": 100000 },
        "back": { "cpus": [0], "policy": "SCHED_IDLE", "loop": -1, "run": 100000 }"#;
    rt_app::run("smp-2", 50, tasks, "equipoise", "1");
}

/// Pinned loops cannot be taken by other CPUs: no idle CPU is woken up for them.
#[test]
fn a_task_that_may_not_move_wakes_no_idle_cpu() {
    let tasks = r#""loop": { "instance": 2, "cpus": [0], "loop": -1, "run": 5000 }"#;
    let result = run("smp-2x8", tasks, "equipoise");
    let in_vain = result["counters"][0]["balancing"]["newidle_calls"].as_f64();
    assert!(in_vain.unwrap() < 20.0, "{in_vain:?} looks in 4 s");
}

/// Wrong capacities do no harm: with equal capacities for all CPUs, half of which are slow, the
/// machine does no less work than under EEVDF.
#[test]
fn flat_capacities_leave_no_cpu_idle() {
    let text = include_str!("../../../../machines/lunar-lake.toml");
    let flat = text.replace("\ncapacity = 686\n", "\ncapacity = 1024\n");
    assert_ne!(text, flat);
    let (_folder, machine) = file("flat.toml", flat);
    let tasks = r#""loop": { "instance": 8, "loop": -1, "run": 5000 }"#;
    let mean_time = |policy| mean(&run(&machine, tasks, policy), "loop/run");
    let (equipoise, eevdf) = (mean_time("equipoise"), mean_time("eevdf"));
    assert!(equipoise < 1.02 * eevdf, "{equipoise} us, {eevdf} us");
}

/// A thread that computes after a long sleep, on a CPU that idled, begins at the frequency of the
/// last time (util_est), as under EEVDF: it does not wait for the CPU's utilization to rise.
#[test]
fn after_a_sleep_a_thread_has_the_frequency_that_it_had() {
    let thread =
        r#""burst": { "loop": -1, "run": 20000, "timer": { "ref": "unique", "period": 150000 } }"#;
    for machine in ["alder-lake", "zen4-x3d"] {
        let mine = takes(machine, thread, "burst");
        let eevdf = mean(&run(machine, thread, "eevdf"), "burst/run");
        assert!(mine < 1.05 * eevdf, "{machine}: {mine} us, eevdf {eevdf}");
    }
}

/// The CPU time of each of the `threads` of a task that does pieces of work of `us`, s. Threads are
/// numbered through all tasks.
fn cpu_time(result: &Value, task: &str, threads: std::ops::Range<u32>, us: f64) -> Vec<f64> {
    let pieces = |index| entry(result, &format!("{task}-{index}/run"))["n"].as_f64();
    threads
        .map(|index| pieces(index).unwrap() * us / 1e6)
        .collect()
}

/// A thread that sleeps for 20 us after each 200 us gets its share alongside threads that never
/// sleep, whatever their nice level and the machine. Beside eight threads of nice 0 on eight CPUs its share is 8/11 of
/// a CPU, and it asks for 0.65 to 0.74 (a sleep ends late by the timer's slack of 50 us).
#[test]
fn a_thread_that_sleeps_little_is_not_starved() {
    for (machine, cpus) in [
        ("smp-8", 8),
        ("smp-2", 2),
        ("lunar-lake", 8),
        ("raspberry-pi-5", 4),
    ] {
        for nice in [0, 19] {
            let tasks = format!(
                r#""short": {{ "instance": 3, "loop": -1, "run": 200, "sleep": 20 }},
                "spin": {{ "instance": {cpus}, "priority": {nice}, "loop": -1, "run": 1000 }}"#
            );
            let equipoise = cpu_time(&run(machine, &tasks, "equipoise"), "short", 0..3, 200.0);
            let eevdf = cpu_time(&run(machine, &tasks, "eevdf"), "short", 0..3, 200.0);
            let least = |times: &[f64]| times.iter().copied().fold(f64::MAX, f64::min);
            assert!(
                least(&equipoise) > 0.95 * least(&eevdf),
                "{machine}, nice {nice}: {equipoise:?} s, eevdf {eevdf:?}"
            );
        }
    }
}

/// A task whose demand rises suddenly gets the frequency for it as fast as under EEVDF: its runtime
/// since the wakeup counts at each tick, as work done and not as running time on a slow CPU.
#[test]
fn the_frequency_follows_a_task_that_runs_on() {
    let tasks = r#""ramp": { "loop": 2, "phases": {
            "light": { "loop": 50, "run": 1000, "timer": { "ref": "unique", "period": 10000 } },
            "heavy": { "loop": 50, "run": 8000, "timer": { "ref": "unique", "period": 10000 } } } }"#;
    for machine in ["snb-laptop", "alder-lake"] {
        let mine = takes(machine, tasks, "ramp");
        let eevdf = mean(&run(machine, tasks, "eevdf"), "ramp/run");
        assert!(mine < 1.02 * eevdf, "{machine}: {mine} us, eevdf {eevdf}");
    }
}

#[test]
fn threads_that_timers_wake_together_stay_at_low_frequencies() {
    let tasks = r#""light": { "instance": 4, "loop": -1, "run": 300, "timer": { "ref": "unique", "period": 20000 } }"#;
    let mine = takes("sm8250", tasks, "light");
    let fastest = mean(&run("sm8250", tasks, "equipoise-performance"), "light/run");
    assert!(mine > 2.0 * fastest, "{mine} us, at the highest {fastest}");
}

/// CPUs for which tasks wait run at their highest frequency, though the tasks that run are light. Otherwise the heavy
/// thread, which gives way to the light ones, takes as long as its period.
#[test]
fn tasks_that_wait_raise_the_frequency() {
    let tasks = r#""heavy": { "loop": -1, "run": 60000, "timer": { "ref": "unique", "period": 100000 } },
        "light": { "instance": 8, "loop": -1, "run": 1000, "timer": { "ref": "unique", "period": 10000 } }"#;
    let mine = takes("raspberry-pi-5", tasks, "heavy");
    assert!(mine < 87_000.0, "{mine} us");
}

/// A single thread runs on the fastest core, such as a phone's prime core, even if others are
/// nearly as fast.
#[test]
fn a_thread_alone_has_the_prime_core() {
    let mine = takes("sm8250", HEAVY, "heavy");
    let eevdf = mean(&run("sm8250", HEAVY, "eevdf"), "heavy/run");
    assert!(mine < 1.02 * eevdf, "{mine} us, eevdf {eevdf}");
}

/// Among equal loops, none waits for two rounds of the others: a CPU whose queue is behind takes no
/// further tasks, and CPUs that take tasks from others give up their own in return.
#[test]
fn no_loop_waits_for_two_rounds_of_the_others() {
    let longest = |machine, loops, policy| {
        let tasks = format!(r#""loop": {{ "instance": {loops}, "loop": -1, "run": 1000 }}"#);
        entry(&run(machine, &tasks, policy), "loop/run")["max"].as_f64()
    };
    for (machine, loops, most) in [("snb-laptop", 48, 1.7), ("smp-2x8", 96, 2.6)] {
        let equipoise = longest(machine, loops, "equipoise").unwrap();
        let eevdf = longest(machine, loops, "eevdf").unwrap();
        assert!(
            equipoise < most * eevdf,
            "{machine}: {equipoise} us, eevdf {eevdf}"
        );
    }
}

/// When a real-time thread keeps a CPU, the threads that waited there share the other CPU. The
/// thread becomes a real-time thread while it runs, as with `chrt`; sched_ext reports this only by
/// ops.disable().
#[test]
fn no_thread_waits_for_a_cpu_that_a_real_time_thread_has() {
    let tasks = r#""rt": { "policy": "SCHED_FIFO", "cpus": [0], "delay": 100000, "loop": -1, "run": 1000 },
        "hog": { "instance": 4, "loop": -1, "run": 1000 }"#;
    let times = cpu_time(&run("smp-2", tasks, "equipoise"), "hog", 1..5, 1000.0);
    assert!(times.iter().all(|&time| time > 0.9), "{times:?} s of 4");
}

#[test]
fn a_crowd_elsewhere_hides_no_thread_that_waits() {
    let tasks = r#""crowd": { "instance": 24, "cpus": [4, 5, 6, 7], "loop": -1, "run": 1000 },
        "free": { "instance": 8, "loop": -1, "run": 1000 }"#;
    let times = cpu_time(&run("smp-8", tasks, "equipoise"), "free", 24..32, 1000.0);
    assert!(
        times.iter().all(|&time| (1.8..2.2).contains(&time)),
        "{times:?} s of 4"
    );
}

/// A real-time thread may take a CPU that has just been chosen for another thread, which then gets a different one.
/// The deadline server's look for other work on the CPU of such a thread does not make that CPU idle.
#[test]
fn no_thread_is_sent_to_a_cpu_that_a_real_time_thread_takes() {
    let tasks = r#""rt": { "policy": "SCHED_FIFO", "loop": -1, "run": 20000, "timer": { "ref": "rt", "period": 30000, "mode": "absolute" } },
        "p": { "loop": -1, "run": 957, "timer": { "ref": "p", "period": 8333, "mode": "absolute" } },
        "hog": { "instance": 4, "loop": -1, "run": 5000 }"#;
    let result = rt_app::run("snb-laptop", 4, tasks, "equipoise", "4");
    let waited = entry(&result, "p/wu_lat")["max"].as_f64().unwrap();
    assert!(waited < 2_000.0, "{waited} us");
}

/// A thread that may use one CPU of a cluster does not wait there behind eight loops of that CPU only because the
/// cluster's other CPUs have little to do.
#[test]
fn a_thread_waits_where_the_cpus_that_it_may_use_have_least_to_do() {
    let tasks = r#""bound": { "instance": 8, "cpus": [4], "loop": -1, "run": 5000 },
        "loop": { "instance": 3, "cpus": [5, 6, 7], "loop": -1, "run": 5000 },
        "p": { "cpus": [4, 7], "loop": -1, "run": 1737, "timer": { "ref": "p", "period": 5000, "mode": "absolute" } }"#;
    let missed = mean(&run("sm8250", tasks, "equipoise"), "p/missed");
    assert!(missed < 3.0, "{missed} %");
}

/// A thread that comes to wait for a CPU on which a loop ran alone waits for a turn of 3 ms at most, and not for the
/// next tick, which comes after 10 ms.
#[test]
fn a_turn_ends_between_ticks_when_a_thread_comes_to_wait() {
    let tasks = r#""loop": { "cpus": [1], "loop": -1, "run": 5000 },
        "other": { "cpus": [0, 1], "loop": -1, "run": 5000 },
        "p": { "cpus": [1], "loop": -1, "run": 1263, "timer": { "ref": "p", "period": 5000, "mode": "absolute" } }"#;
    let missed = mean(
        &rt_app::run("tc2-smp", 4, tasks, "equipoise", "4"),
        "p/missed",
    );
    assert!(missed < 1.0, "{missed} %");
}

/// A thread that draws frames keeps its fast CPU when a herd wakes up on an idle machine, because the herd's threads on
/// slow CPUs are hardly behind their due.
#[test]
fn a_herd_on_slow_cpus_does_not_take_the_fast_one() {
    let tasks = r#""frame": { "loop": -1, "run": 3858, "timer": { "ref": "frame", "period": 8333 } },
        "herd": { "instance": 8, "loop": -1, "run": 2800, "timer": { "ref": "unique", "period": 50000, "mode": "absolute" } }"#;
    let missed = |policy| {
        mean(
            &rt_app::run("sm8250", 4, tasks, policy, "4"),
            "frame/missed",
        )
    };
    let (equipoise, eevdf) = (missed("equipoise"), missed("eevdf"));
    assert!(equipoise < eevdf + 1.0, "{equipoise} %, eevdf {eevdf} %");
}

fn relative_to_eevdf(machine: &str, workload: &str, metric: &str) -> f64 {
    let measured = |policy| {
        let mut args = vec!["compare", "--machine", machine, "--policy", policy];
        args.extend(["--workload", workload, "--runs", "1", "--format", "json"]);
        mean(&json(&args), metric)
    };
    measured("equipoise") / measured("eevdf")
}

/// A database's thread computes an answer for 50 to 150 us, sends it, and sleeps: its client stays on its CPU. If the
/// client went to another CPU each time, fast CPUs would idle for moments, and take over running tasks in each.
#[test]
fn clients_of_a_database_stay_beside_it() {
    for machine in ["apple-m1", "sm8250"] {
        let load = "oltp-read-only:threads=6,time=500ms";
        let done = relative_to_eevdf(machine, load, "transactions");
        assert!(done > 0.95, "{machine}: {done}");
    }
}

/// A new task does not sleep soon after a wakeup: in the first milliseconds of hackbench no receiver waits behind its
/// sender for a tick.
#[test]
fn a_new_sender_goes_on() {
    let time = relative_to_eevdf("zen4-x3d", "hackbench:groups=1,fds=2,loops=50", "time");
    assert!(time < 1.1, "{time}");
}

#[test]
fn a_crowd_is_recognized_at_once() {
    let time = relative_to_eevdf("tc2-smp", "hackbench:groups=2,fds=2,loops=300", "time");
    assert!(time < 1.1, "{time}");
}

/// A fast CPU whose thread sleeps for 100 us takes over no thread that runs on a slow one: the thread would move twice.
#[test]
fn a_short_nap_moves_no_thread() {
    for machine in ["apple-m1", "sm8250"] {
        let done = relative_to_eevdf(machine, "schbench:workers=6,time=1s", "requests");
        assert!(done > 0.95, "{machine}: {done}");
    }
}

/// A heavy thread that changes CPUs in its run leaves its utilization where it goes to sleep: the clock that all CPUs
/// share stays as high for the light threads as under `eevdf`.
#[test]
fn a_thread_that_moves_keeps_the_frequency_up() {
    for machine in ["hikey-6220", "snb-laptop"] {
        let run = relative_to_eevdf(machine, "heavy-and-light", "light/run");
        assert!(run < 1.08, "{machine}: {run}");
    }
}
