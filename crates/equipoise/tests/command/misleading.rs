//! Results that once misled users. Each test runs the command, and checks the sentence that it now prints.

use crate::common::{json, root, stdout, words};
use crate::rt_app;
use serde_json::Value;

/// A scheduler in tests/misleading, or a load of `tools.matrix`.
fn file(name: &str) -> String {
    let folder = match name.ends_with(".json") {
        true => "tests/loads",
        false => "crates/equipoise/tests/misleading",
    };
    let path = root().join(folder).join(name);
    path.to_str().unwrap().to_owned()
}

fn compare(machine: &str, workload: &str, more: &[&str]) -> String {
    let args = ["compare", "--machine", machine, "--workload", workload];
    stdout(&[&args[..], more].concat())
}

fn line<'a>(said: &'a str, start: &str) -> &'a str {
    let found = said.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line begins with {start}: {said}"))
}

/// A scheduler that never inserts tasks of nice > 0 has fewer loops, not faster ones.
#[test]
fn threads_that_do_not_run_come_first() {
    let drop = file("never-inserts-nice.bpf.c");
    let more = ["--policy", "eevdf", "--scheduler", &drop, "--runs", "10"];
    let said = compare("tc2", "mixed", &more);
    let first = said.split("\n\n").nth(1).unwrap().lines().next().unwrap();
    assert!(
        first.starts_with("Under drop, background-3 (from 0.4"),
        "{said}"
    );
    assert!(first.contains("background-4") && first.ends_with("were runnable and did not run."));
    let throughput = line(&said, "Throughput: ");
    has!(throughput, "drop is worst: ");
    has!(throughput, " times the time under eevdf (at least ");
    assert!(line(&said, "Best for ").ends_with(": eevdf."), "{said}");

    let more = [&more[..], &["--format", "json"]].concat();
    let args = ["compare", "--machine", "tc2", "--workload", "mixed"];
    let result = json(&[&args[..], &more].concat());
    let stalled = result["stalled"].as_array().unwrap();
    assert!(
        stalled
            .iter()
            .all(|it| it["policy"] == "drop" && it["runs"] == 10)
    );
    let of = |policy: &str| {
        entry(&result, policy, "background/period")["n"]
            .as_u64()
            .unwrap()
    };
    assert!(10 * of("drop") < of("eevdf"));
    let background = entry(&result, "drop", "background/period");
    assert_eq!(background["against_first"]["verdict"], "worse");
    let threads = result["threads"].as_array().unwrap();
    let waits = |policy: &str| -> f64 {
        let mut own = threads.iter().filter(|it| it["policy"] == policy);
        own.find(|it| it["thread"] == "background-3").unwrap()["longest_wait_ms"]
            .as_f64()
            .unwrap()
    };
    assert!(waits("drop") > 4_000.0 && waits("eevdf") < 1_000.0);
}

fn entry<'a>(result: &'a Value, policy: &str, metric: &str) -> &'a Value {
    let mut entries = result["results"].as_array().unwrap().iter();
    let found = entries.find(|it| it["policy"] == policy && it["metric"] == metric);
    found.unwrap_or_else(|| panic!("no {metric}"))
}

/// What `explain` says on tc2 of a scheduler that never inserts tasks of nice > 0.
fn explain_drop(workload: &str, more: &[&str]) -> String {
    let drop = file("never-inserts-nice.bpf.c");
    let args = ["explain", "--machine", "tc2", "--workload", workload];
    stdout(&[&args[..], &["--scheduler", &drop], more].concat())
}

#[test]
fn an_open_wait_is_explained() {
    let said = explain_drop("mixed", &["--task", "background", "--at", "3s"]);
    assert!(!said.contains("None of these threads waited"), "{said}");
    let first = line(&said, "background-");
    has!(
        first,
        "and did not run until the end of the run because the scheduler did not dispatch it while CPU"
    );
}

#[test]
fn a_period_that_ends_in_an_open_wait_is_explained_by_it() {
    let tasks = r#""ui": { "run": 1000, "priority": 5, "timer": { "ref": "unique", "period": 10000 } },
        "loop": { "instance": 5, "run": 1000 }"#;
    let load = rt_app::file(5, tasks);
    let load = load.path().to_str().unwrap();
    let said = explain_drop(load, &["--task", "ui", "--worst", "1"]);
    has!(
        line(&said, "ui missed its deadline at"),
        "did not run until the end of the run"
    );
}

/// A deadlock in a load with a duration leaves the figures of the time before it.
#[test]
fn a_deadlock_that_a_duration_ends_is_said() {
    let tasks = r#""a": { "loop": 5, "lock": "x", "sleep": 1000, "lock2": "y", "unlock": "y", "unlock2": "x" },
        "b": { "loop": 5, "lock": "y", "sleep": 1000, "lock2": "x", "unlock": "x", "unlock2": "y" }"#;
    let load = rt_app::file(1, tasks);
    let load = load.path().to_str().unwrap();
    let each = "] waits for mutex `";
    let said = compare(
        "tc2",
        load,
        &["--policy", "eevdf", "--policy", "cfs", "--runs", "2"],
    );
    for policy in ["eevdf", "cfs"] {
        let said = line(
            &said,
            &format!("Under {policy}, no thread can run from 0.0"),
        );
        assert_eq!(said.matches(each).count(), 2, "{said}");
    }
    let why = stdout(&["explain", "--machine", "tc2", "--workload", load]);
    has!(line(&why, "Deadlock: no thread can run from 0.0"), each);
}

/// Under a scheduler that always gives a CPU to the same thread, that thread's loops are short.
#[test]
fn a_mean_per_loop_does_not_reward_starvation() {
    let lifo = file("runs-the-last-first.bpf.c");
    let load = file("eight-bound-to-one-cpu.json");
    let more = ["--policy", "eevdf", "--scheduler", &lifo, "--runs", "5"];
    let said = compare("tc2", &load, &more);
    has!(said, "\nUnder lifo, bound-");
    for goal in ["Throughput: ", "Fairness: "] {
        assert!(line(&said, goal).contains("lifo is worst"), "{said}");
    }
    let all = compare("tc2", &load, &[&more[..], &["--all"]].concat());
    has!(all, "did not run from ms on");
}

/// Energy is for the work done, and no reason is given that no run has tested.
#[test]
fn energy_is_for_the_same_work() {
    let more = ["--policy", "eevdf", "--policy", "cfs", "--runs", "10"];
    let said = compare("odroid-xu3", "mixed:duration=1s", &more);
    // A run of the same policy without frequencies explains nothing.
    assert!(
        said.contains(
            "under eevdf:frequency=false, for the same work. So frequencies explain less than half"
        ),
        "{said}"
    );
    let table = said
        .split("\n\n")
        .find(|table| table.starts_with("Energy\n"));
    assert!(table.unwrap().contains("same work"), "{said}");
    let energy = line(&said, "Energy: ");
    assert!(
        energy.contains("for the same work (") && energy.contains(" less was done)"),
        "{said}"
    );
    let args = words("compare --machine odroid-xu3 --workload mixed:duration=1s");
    let result = json(&[&args[..], &more, &["--format", "json"]].concat());
    let mut goals = result["verdict"].as_array().unwrap().iter();
    let energy = goals.find(|goal| goal["goal"] == "energy").unwrap();
    let cfs = &energy["standings"][1];
    let joules = |policy: &str| entry(&result, policy, "energy")["mean"].as_f64().unwrap();
    let less = 100.0 * (1.0 - joules("cfs") / joules("eevdf"));
    let for_work = -cfs["change_pct"].as_f64().unwrap();
    assert!(cfs["work_pct"].as_f64().unwrap() < -5.0, "{cfs}");
    assert!(for_work < less - 5.0, "{for_work} {less}");
}

/// One thread plays audio. It takes more energy under schedutil than under cfs, but not if schedutil sets no
/// frequencies.
#[test]
fn a_reason_for_energy_is_tested_by_a_run_without_it() {
    let more = ["-p", "cfs", "-p", "schedutil", "--runs", "3"];
    let said = compare("snb-laptop", "audio:duration=1", &more);
    let test = line(&said, "energy: schedutil:frequency=false takes ");
    assert!(
        test.ends_with("So frequencies explain most of the difference."),
        "{said}"
    );
    let more = ["-p", "eevdf", "-p", "schedutil", "--runs", "3"];
    assert!(!compare("snb-laptop", "audio:duration=1", &more).contains("frequency=false"));
}

/// Energy of one kind of work is given for each unit of it.
#[test]
fn joules_are_by_loop() {
    let load = rt_app::file(1, r#""loop": { "run": 1000, "sleep": 500, "loop": -1 }"#);
    let args = ["-p", "eevdf", "-p", "cfs", "--runs", "2"];
    let said = compare("odroid-xu3", load.path().to_str().unwrap(), &args);
    let table = said
        .split("\n\n")
        .find(|table| table.starts_with("Energy\n"))
        .unwrap();
    assert!(
        table.contains("for each") && table.contains("loop") && table.contains("mJ"),
        "{said}"
    );
}

#[test]
fn the_best_for_every_goal_is_worse_for_none() {
    let policies = words("--policy eevdf --policy cfs --policy equipoise --policy hperf");
    let more = [&policies[..], &["--runs", "5"]].concat();
    for (machine, load) in [
        ("odroid-xu3", "game+kbuild:jobs=4"),
        ("lunar-lake", "mixed:duration=2"),
        ("tc2", "mixed:duration=2"),
    ] {
        let said = compare(machine, load, &more);
        let best = said
            .lines()
            .find_map(|line| line.strip_prefix("Best for ")?.split_once(": "));
        for name in best
            .into_iter()
            .flat_map(|(_, names)| names.trim_end_matches('.').split(", "))
        {
            for goal in ["Latency: ", "Throughput: ", "Energy: ", "Fairness: "] {
                let line = said
                    .lines()
                    .find(|line| line.starts_with(goal))
                    .unwrap_or_default();
                assert!(!line.contains(&format!("{name} is worst")), "{said}");
            }
        }
    }
}

#[test]
fn a_price_is_a_difference() {
    let said = compare("lunar-lake", "mixed", &["--runs", "20"]);
    for line in said.lines().filter(|line| line.contains("has a price: ")) {
        let prices = line.split_once("has a price: ").unwrap().1;
        for price in prices
            .trim_end_matches('.')
            .split(", ")
            .filter(|price| price.contains(" ± "))
        {
            let numbers: Vec<f64> = price
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            let [size, margin] = numbers[..] else {
                panic!("{price}")
            };
            assert!(size > margin && size >= 1.0, "{price}");
        }
    }
}

#[test]
fn the_same_runs_are_shown_once() {
    let policies = words("--policy eevdf --policy equipoise --policy equipoise-power --runs 2");
    let said = compare("lunar-lake", "mixed:duration=1", &policies);
    line(&said, "equipoise-power has the same runs as equipoise");
    let rows = |name: &str| {
        said.lines()
            .filter(|line| line.starts_with(&format!(" {name} ")))
            .count()
    };
    assert_eq!(
        (rows("equipoise-power"), rows("equipoise") > 0),
        (0, true),
        "{said}"
    );
    assert_eq!(said.matches("equipoise-power").count(), 1, "{said}");
}

#[test]
fn ignored_groups_are_said() {
    let lifo = file("runs-the-last-first.bpf.c");
    let load = file("groups-100-and-1.json");
    let more = ["--policy", "equipoise", "--scheduler", &lifo, "--runs", "2"];
    let said = compare("smp-2", &load, &more);
    let note =
        "Control groups are ignored under lifo, where all threads count as members of one group";
    has!(said, note);
    for (policy, ignores) in [
        ("equipoise", false),
        ("eevdf", false),
        ("eevdf-6.12", false),
        ("cfs", false),
        ("hperf", true),
    ] {
        let said = compare("smp-2", &load, &["--policy", policy, "--runs", "2"]);
        let note = format!("Control groups are ignored under {policy}");
        assert_eq!(said.contains(&note), ignores, "{policy}: {said}");
    }
}

/// A scheduler may know some settings of groups and not others, and sched_ext reports quotas since Linux 6.17.
#[test]
fn ignored_settings_of_groups_are_said() {
    let weights = file("knows-weights.bpf.c");
    let load = file("groups-quota-and-idle.json");
    let said = compare("smp-2", &load, &["--scheduler", &weights, "--runs", "1"]);
    for note in [
        "cpu.max is ignored under weights, where no quota is enforced",
        "cpu.idle is ignored under weights",
    ] {
        assert!(said.contains(note), "{note}: {said}");
    }
    assert!(!said.contains("cpu.weight is ignored"), "{said}");
    assert!(!said.contains("Control groups are ignored"), "{said}");
    let both = words("--policy eevdf --policy equipoise --runs 1 --kernel");
    let said = compare("smp-2", &load, &[&both[..], &["7.3"]].concat());
    assert!(!said.contains("ignored under"), "{said}");
    let said = compare("smp-2", &load, &[&both[..], &["6.12"]].concat());
    let note = "cpu.max is ignored under equipoise, where no quota is enforced";
    has!(said, note);
    assert_eq!(said.matches("ignored under").count(), 2, "{said}");
}

/// A CPU that has found no task and is about to idle takes the tasks whose group may run again.
#[test]
fn the_end_of_a_period_reaches_a_cpu_that_is_about_to_idle() {
    let load = "hackbench:groups=2,loops=50,group=/x/y,quota=1.5";
    let options = ["--policy", "newidle-limit", "--runs", "1", "--seed", "1"];
    let said = compare("epyc-2s", load, &options);
    line(&said, " newidle-limit ");
}

#[test]
fn no_time_is_longer_than_its_window() {
    let mut slow = 0;
    for machine in ["odroid-xu3", "rk3588", "sm8250", "tc2", "lunar-lake"] {
        for policy in ["eevdf", "equipoise"] {
            let args = [
                "explain",
                "--machine",
                machine,
                "--workload",
                "game",
                "--policy",
                policy,
                "--worst",
                "20",
            ];
            let result = json(&[&args[..], &["--format", "json"]].concat());
            let of = |kind: &str| result[kind].as_array().unwrap().clone();
            let ns = |of: &Value, what: &str| of[what].as_u64().unwrap();
            for response in of("slow") {
                slow += 1;
                let window = ns(&response, "to_ns") - ns(&response, "from_ns");
                let idle = response["idle_ns"].as_array().unwrap();
                assert!(
                    idle.iter().all(|it| it.as_u64().unwrap() <= window),
                    "{response}"
                );
                assert!(ns(&response, "ran_ns") <= window, "{response}");
            }
            for wait in of("waits") {
                let window = ns(&wait, "to_ns") - ns(&wait, "from_ns");
                let idled = wait["idled"].as_array().unwrap();
                assert!(idled.iter().all(|it| ns(it, "ns") <= window), "{wait}");
            }
            let said = stdout(&args);
            for (title, table) in tables(&said) {
                let Some(window) = title.split(" took ").nth(1).and_then(milliseconds) else {
                    continue;
                };
                for line in table.lines().filter(|line| line.contains(" idles, for ")) {
                    let idle = milliseconds(line.split(" idles, for ").nth(1).unwrap()).unwrap();
                    assert!(idle <= window * 1.01, "{machine} {policy} {title}: {line}");
                }
            }
        }
    }
    assert!(slow > 0);
}

/// The first line of each of a page's tables, and the other lines.
fn tables(said: &str) -> impl Iterator<Item = (&str, &str)> {
    said.split("\n\n")
        .filter_map(|table| table.split_once('\n'))
}

fn milliseconds(text: &str) -> Option<f64> {
    let mut words = text.split(' ');
    let number: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches([',', ';', ':', '.']);
    Some(match unit {
        "s" => number * 1e3,
        "ms" => number,
        "us" => number / 1e3,
        "ns" => number / 1e6,
        _ => return None,
    })
}

/// The worst miss was once attributed to a nice value, although a fast CPU idled for long enough.
#[test]
fn a_cpu_that_idled_comes_before_a_nice_value() {
    let said = stdout("explain --machine tc2 --workload mixed --policy eevdf --exact");
    let first = said.split("\n\n").nth(1).unwrap().lines().next().unwrap();
    assert!(!first.contains("nice value"), "{first}");
    has!(first, "missed its deadline");
    assert!(
        first.contains("because CPU ") && first.contains(" idled for "),
        "{first}"
    );
}

/// The command once said about a thread that waited for a herd that the other CPU had idled for 4 ms: while the thread
/// itself ran, before the herd came and after it.
#[test]
fn a_cpu_that_idled_while_the_thread_ran_is_no_cause() {
    let tasks = r#""ui": {"loop": -1, "run": 4000, "priority": 10,
                          "timer": {"ref": "t", "period": 16000, "mode": "absolute"}},
                   "herd": {"instance": 6, "delay": 2000, "loop": -1, "run": 7000,
                            "timer": {"ref": "unique", "period": 160000}}"#;
    let load = rt_app::file(1, tasks);
    let args = "explain --machine smp-2 --policy equipoise --task ui --worst 6 --workload";
    let said = stdout(
        &args
            .split(' ')
            .chain(load.path().to_str())
            .collect::<Vec<_>>(),
    );
    let missed = line(&said, "ui missed its deadline");
    has!(missed, "it waited 21");
    assert!(!missed.contains("idled for"), "{missed}");
}

#[test]
fn busy_cpus_are_not_the_reason_that_nothing_differs() {
    let more = ["--policy", "eevdf", "--policy", "equipoise", "--runs", "3"];
    let said = compare("smp-2", "spinners:duration=1", &more);
    if let Some(line) = said
        .lines()
        .find(|line| line.starts_with("This comparison cannot tell"))
    {
        assert!(!line.contains("keeps them busier"), "{said}");
    }
    let idle = compare("smp-8", "busy:threads=2,duration=1", &more);
    let line = line(&idle, "This comparison cannot tell");
    has!(line, "A load that keeps them busier");
}

/// Runs that do not differ have no interval, and a note says why.
#[test]
fn runs_without_noise_are_no_certainty() {
    let load = file("heavier-loops-beside-lighter.json");
    let policies = ["--policy", "eevdf", "--policy", "equipoise"];
    let exact = [&policies[..], &["--runs", "4", "--exact"]].concat();
    let said = compare("smp-2", &load, &exact);
    let says = "Hardly anything in this load depends on the seed";
    assert_eq!(said.contains(says), !said.contains(" ± "), "{said}");
    assert!(!said.contains("± 0.0 %"), "{said}");
    let noisy = compare(
        "tc2",
        "mixed:duration=1",
        &["--policy", "eevdf", "--policy", "cfs", "--runs", "4"],
    );
    assert!(!noisy.contains(says) && noisy.contains(" ± "), "{noisy}");
}

/// Exact runs of pools of spinners are nearly the same sequence of events. With the noise of a machine, all runs
/// differ, and by more than exact runs do.
#[test]
fn a_load_without_noise_of_its_own_has_that_of_a_machine() {
    let pool = |nr: u32| {
        format!(
            r#""p{nr}": {{ "instance": 2, "run": {}, "loop": -1 }}"#,
            900 + 10 * nr
        )
    };
    let pools: Vec<String> = (0..4).map(pool).collect();
    let load = rt_app::file(2, &pools.join(", "));
    let args = [
        "compare",
        "-m",
        "smp-2",
        "-w",
        load.path().to_str().unwrap(),
        "--json",
    ];
    let of = |more: &[&str]| {
        let policies = ["-p", "eevdf", "-p", "equipoise", "--runs", "6"];
        let result = json(&[&args[..], &policies, more].concat());
        let periods = entry(&result, "eevdf", "p0/period")["runs"].clone();
        let means = periods.as_array().unwrap().iter();
        means
            .map(|run| run["mean"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    let spread = |means: &[f64]| {
        let (least, most) = (
            means.iter().copied().fold(f64::MAX, f64::min),
            means.iter().copied().fold(0.0, f64::max),
        );
        most / least - 1.0
    };
    let (noisy, exact) = (of(&[]), of(&["--exact"]));
    assert!(noisy.windows(2).all(|two| two[0] != two[1]), "{noisy:?}");
    assert!(spread(&noisy) > spread(&exact), "{noisy:?} {exact:?}");
    assert_eq!(noisy, of(&[]));
}

#[test]
fn throttled_time_is_not_wasted() {
    let text = r#"{ "taskgroups": { "/l": { "cpu.max": "10000 100000" } },
        "tasks": { "spin": { "instance": 3, "run": 1000, "loop": -1, "taskgroup": "/l" } },
        "global": { "duration": 2 } }"#;
    let (_folder, load) = crate::common::file("quota.json", text);
    let args = ["compare", "-m", "smp-2", "-w", &load, "-p", "equipoise"];
    let result = json(&[&args[..], &["--runs", "1", "--json"]].concat());
    let wasted = entry(&result, "equipoise", "wasted")["mean"]
        .as_f64()
        .unwrap();
    assert!(wasted < 100.0, "{wasted} ms");
}
