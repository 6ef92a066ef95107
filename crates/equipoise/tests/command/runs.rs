//! `reproduce` and `compare`: the JSON contract, and equal results from equal inputs.

use crate::common::{file, files, json, run, run_badly, stdout, text, words};
use serde_json::Value;

const BUSY: [&str; 7] = [
    "compare",
    "--machine",
    "tc2",
    "--workload",
    "busy:threads=3,duration=100ms",
    "--policy",
    "cfs",
];

fn compare(more: &[&'static str]) -> Vec<&'static str> {
    [&BUSY[..], more].concat()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn has(value: &Value, wanted: &[&str]) {
    let keys = keys(value);
    for key in wanted {
        assert!(keys.contains(key), "{key} is not in {value}");
    }
}

/// Without a source there are no published figures: the table has a column for each scheduler, and
/// the schedulers' counters.
#[test]
fn a_table_that_was_not_published_has_what_is_simulated_alone() {
    let row = |name: &str, unit: &str| {
        format!(
            "[[block.row]]\nname = \"{name}\"\nworkload = \"hackbench:groups=2,loops=20\"\n\
             metric = \"{name}\"\nunit = \"{unit}\"\n"
        )
    };
    let text = [
        "name = \"counted\"\ntitle = \"What is counted\"\nruns = 1\n".to_owned(),
        "[[column]]\nname = \"one\"\npolicy = \"cfs\"\npublished = false\n".to_owned(),
        "[[block]]\nname = \"all\"\nmachine = \"smp-8\"\n".to_owned(),
        row("newidle_attempts", "1/s/CPU"),
        row("newidle_time", "%"),
    ];
    let (_folder, path) = file("counted.toml", text.concat());
    let table = stdout(&["reproduce", &path]);
    has!(table, "simulated only");
    assert_eq!(table.matches("published").count(), 1, "{table}");
    assert!(!table.contains("agreement"), "{table}");
    let result = json(&["reproduce", &path, "--format", "json"]);
    let experiment = &result["experiments"][0];
    assert!(experiment["source"].is_null());
    let average = |row: &str| {
        let mut cells = experiment["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["row"] == row && cell["stat"] == "avg");
        cell.unwrap()["simulated"].as_f64().unwrap()
    };
    assert!(average("newidle_attempts") > 1.0);
    assert!((0.0..100.0).contains(&average("newidle_time")));
}

/// Two files may have experiments of the same name, such as a file and its changed copy.
#[test]
fn experiments_of_the_same_name_do_not_replace_each_other() {
    let experiment = r#"
name = "mine"
title = "A run"
runs = 1
[[column]]
name = "one"
policy = "cfs"
published = false
[[block]]
name = "all"
machine = "smp-2"
[[block.row]]
name = "r"
workload = "hackbench:groups=1,loops=3"
metric = "time"
unit = "s"
"#;
    let (_folder, path) = file("mine.toml", experiment);
    let folder = tempfile::tempdir().unwrap();
    let (out, trace) = (folder.path().join("out"), folder.path().join("t.txt"));
    let out_and_trace = [
        "--out",
        out.to_str().unwrap(),
        "--trace",
        trace.to_str().unwrap(),
    ];
    let output = run(&[&["reproduce", &path, &path], &out_and_trace[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(files(&out), ["mine.2.txt", "mine.txt"]);
    assert_eq!(
        files(folder.path()),
        ["out", "t.mine.all.r.one.2.txt", "t.mine.all.r.one.txt"]
    );
}

/// Without `--policy`, today's Linux and our own policies are compared; the published designs only
/// on request.
#[test]
fn a_comparison_has_the_published_designs_only_on_request() {
    let results = |more: &[&str]| {
        let load = ["--machine", "smp-2", "--workload", "busy:duration=10ms"];
        let args = [&["compare"], &load[..], &["--runs", "1"], more].concat();
        json(&[&args[..], &["--format", "json"]].concat())
    };
    let names = |result: &Value| -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for entry in result["results"].as_array().unwrap() {
            let name = entry["policy"].as_str().unwrap().to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let usual = names(&results(&[]));
    assert_eq!(
        usual,
        [
            "eevdf",
            "equipoise",
            "equipoise-performance",
            "equipoise-power"
        ]
    );
    let all = names(&results(&["--all-policies"]));
    assert!(all.starts_with(&usual));
    assert_eq!(all.len(), policy::Policy::names().count());

    let args = BUSY[..5].iter().copied().chain(["--runs", "1"]);
    let table = stdout(&args.collect::<Vec<_>>());
    has!(table, "--all-policies adds 11 published designs");
    let one = stdout(&compare(&["--runs", "1"]));
    assert!(!one.contains("--all-policies"), "{one}");
    run_badly(&compare(&["--all-policies"]));
}

#[test]
fn reproduce_keeps_its_contract() {
    let result = json("reproduce mixed-capacity --runs 1 --rows sysbench_[12]t --format json");
    assert_eq!(result["schema"], 2);
    let experiment = &result["experiments"][0];
    assert_eq!(experiment["name"], "mixed-capacity");
    assert!(
        experiment["source"]
            .as_str()
            .unwrap()
            .contains("2013-03-25")
    );
    let cells = experiment["cells"].as_array().unwrap();
    // There are two blocks of two rows. Each row has four statistics and the table's three columns,
    // some of whose cells are not in the table.
    let ours: Vec<_> = cells
        .iter()
        .filter(|cell| ["Linux 7.3", "equipoise"].contains(&cell["column"].as_str().unwrap()))
        .collect();
    assert!(ours.len() == 2 * 2 * 4 * 2 && ours.iter().all(|cell| cell["published"].is_null()));
    let of_the_table = ["3.9-rc2", "+shi", "+shi+patches"];
    let theirs = cells
        .iter()
        .filter(|cell| of_the_table.contains(&cell["column"].as_str().unwrap()));
    assert_eq!(theirs.count(), 2 * 2 * 4 * 3);
    for cell in cells {
        has(
            cell,
            &[
                "row",
                "column",
                "stat",
                "unit",
                "published",
                "simulated",
                "runs",
            ],
        );
        assert_eq!(cell["runs"], 1);
        if cell["stat"] == "change" {
            // The first column is the baseline of the changes.
            assert_eq!(cell["simulated"].is_null(), cell["column"] == "3.9-rc2");
            continue;
        }
        assert!(cell["simulated"].as_f64().unwrap() > 0.0, "{cell}");
        let (value, limit) = (
            cell["simulated"].as_f64().unwrap(),
            cell["limit"].as_f64().unwrap(),
        );
        assert!(value >= limit, "{cell}");
    }
    has(
        &experiment["summary"],
        &[
            "mean_abs_error_pct",
            "mean_abs_error_pct_of_all",
            "sign_agreement_pct",
        ],
    );
    // The work of a request was fitted to one thread's time, and nothing to the time of two.
    for cell in cells.iter().filter(|cell| cell["block"] == "SMP") {
        let one = cell["row"] == "sysbench_1t" && !cell["published"].is_null();
        assert_eq!(cell["fitted"], one, "{cell}");
    }
    let text = stdout("reproduce mixed-capacity --runs 1 --rows sysbench_1t");
    has!(text, "0.0 % *");
    has!(text, "with the cells marked *");
}

#[test]
fn compare_keeps_its_contract() {
    let result = json(&compare(&[
        "--policy", "capacity", "--runs", "3", "--format", "json",
    ]));
    has(
        &result,
        &[
            "schema", "machine", "workload", "seeds", "verdict", "results", "counters",
        ],
    );
    assert_eq!(
        (&result["schema"], &result["machine"]),
        (&2.into(), &"tc2".into())
    );
    let results = result["results"].as_array().unwrap();
    assert!(results.len() >= 2 && results.len().is_multiple_of(2));
    for entry in results {
        has(
            entry,
            &[
                "policy", "metric", "unit", "better", "goal", "decides", "part", "judged", "best",
                "n", "mean", "min", "max", "p50", "p95", "p99", "p999", "runs",
            ],
        );
        assert!(["lower", "higher", "neither"].contains(&entry["better"].as_str().unwrap()));
        let runs = entry["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3);
        let samples: u64 = runs.iter().map(|run| run["n"].as_u64().unwrap()).sum();
        assert_eq!(samples, entry["n"].as_u64().unwrap());
        let order =
            ["min", "p50", "p95", "p99", "p999", "max"].map(|key| entry[key].as_f64().unwrap());
        assert!(order.is_sorted(), "{entry}");
    }
    let counters = result["counters"].as_array().unwrap();
    let policies: Vec<_> = counters.iter().map(|entry| &entry["policy"]).collect();
    assert_eq!(policies, ["cfs", "capacity"]);
    for entry in counters {
        has(
            entry,
            &[
                "policy",
                "context_switches",
                "migrations",
                "wakeups",
                "balance_calls",
                "energy_j",
                "simulated_s",
            ],
        );
        assert!(entry["simulated_s"].as_f64().unwrap() > 0.0);
        assert!(entry["context_switches"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn tables_and_pages_have_all_rows_and_columns() {
    let args = words("reproduce mixed-capacity --runs 2 --rows sysbench_*");
    let names = [
        "3.9-rc2",
        "+shi+patches",
        "sysbench_1t",
        "sysbench_5t",
        "Mixed cpu_power",
        "limit",
    ];
    let table = stdout(&args);
    let page = stdout(&[&args[..], &["--format", "html"]].concat());
    for name in names {
        assert!(table.contains(name), "{name} is not in {table}");
        assert!(page.contains(name), "{name} is not in the page");
    }
    assert!(!table.contains("cyclictest"));
    // A chart of averages and one of changes for each of three rows in two blocks.
    assert_eq!(page.matches("<svg").count(), 12);

    let table = stdout(&compare(&["--policy", "capacity", "--runs", "2"]));
    for name in ["cfs", "capacity", "change", "Throughput"] {
        assert!(table.contains(name), "{name} is not in {table}");
    }
    assert!(!table.contains("migrations"));
    let all = stdout(&compare(&["--policy", "capacity", "--runs", "2", "--all"]));
    for name in ["switches", "migrations", "p95", "thread_work"] {
        assert!(all.contains(name), "{name} is not in {all}");
    }
}

#[test]
fn reproduce_announces_how_much_it_runs_unless_experiments_are_named() {
    let args = words("reproduce --runs 1 --rows sysbench_2t");
    has!(
        text(&run(&args).stderr),
        " runs of the experiments mixed-capacity\n"
    );
    let named = [&args[..], &["mixed-capacity"]].concat();
    assert_eq!(text(&run(&named).stderr), "");
}

#[test]
fn jobs_have_no_influence() {
    let one = words("--policy capacity --runs 5 --format json --jobs 1");
    let two = words("--policy capacity --runs 5 --format json --jobs 2");
    assert_eq!(stdout(&compare(&one)), stdout(&compare(&two)));

    let args = words("reproduce mixed-capacity --runs 2 --rows sysbench_2t --format json");
    let one = stdout(&[&args[..], &["--jobs", "1"]].concat());
    let two = stdout(&[&args[..], &["--jobs", "2"]].concat());
    assert_eq!(one, two);
}

#[test]
fn the_seed_decides() {
    let args = |seed| compare(&["--runs", "2", "--format", "json", "--seed", seed]);
    let (one, other) = (json(&args("1")), json(&args("2")));
    assert_ne!(
        (&one["results"], &one["counters"]),
        (&other["results"], &other["counters"])
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for format in ["table", "json", "csv", "html", "svg"] {
        let text = || stdout(&compare(&["--runs", "2", "--all", "--format", format]));
        assert!(text() == text(), "{format}");
    }
}

#[test]
fn traces_repeat_byte_for_byte() {
    for name in ["t.txt", "t.json", "t.dat", "t.perfetto-trace"] {
        let traces = [(); 2].map(|()| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            let mut args = compare(&["--runs", "2", "--trace"]);
            args.push(path.to_str().unwrap());
            stdout(&args);
            assert_eq!(files(folder.path()), [name]);
            std::fs::read(path).unwrap()
        });
        let names = traces[0].windows(4).filter(|bytes| bytes == b"busy");
        assert!(names.count() > 0, "{name}");
        assert!(traces[0] == traces[1], "{name} differs");
    }
}

#[test]
fn several_schedulers_have_a_trace_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    let mut args = compare(&["--policy", "capacity", "--runs", "1", "--trace"]);
    args.push(path.to_str().unwrap());
    let output = run(&args);
    assert!(output.status.success());
    assert_eq!(files(folder.path()), ["t.capacity.txt", "t.cfs.txt"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("t.cfs.txt\n") && said.contains("t.capacity.txt\n"),
        "{said}"
    );
}

const FIFO: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u64 slice = 20000000;
s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init) { return scx_bpf_create_dsq(0, -1); }
void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags) {
    scx_bpf_dsq_insert(p, 0, slice, enq_flags);
}
void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev) {
    scx_bpf_dsq_move_to_local(0);
}
SCX_OPS_DEFINE(fifo_ops, .enqueue = (void *)fifo_enqueue, .dispatch = (void *)fifo_dispatch,
    .init = (void *)fifo_init, .name = "fifo");
"#;

#[test]
fn a_scheduler_in_c_is_a_column_like_any_other() {
    let (_folder, source) = file("fifo.bpf.c", FIFO);
    let switches = |setting: &str| {
        let mut args = vec![
            "compare",
            "--machine",
            "tc2-smp",
            "--workload",
            "busy:threads=4",
        ];
        args.extend(["--policy", "cfs", "--runs", "1", "--format", "json"]);
        args.extend(["--set", setting, "--scheduler", &source]);
        let result = json(&args);
        let (own, foreign) = (&result["counters"][0], &result["counters"][1]);
        assert_eq!(
            (&own["policy"], &foreign["policy"]),
            (&"cfs".into(), &"fifo".into())
        );
        assert!(own["balance_calls"].is_number() && foreign["balance_calls"].is_null());
        foreign["context_switches"].as_f64().unwrap()
    };
    // With two busy threads per CPU, slices a tenth as long mean ten times as many switches. The
    // slices are a little shorter than ten ticks and one, because the time of the tick itself does
    // not count as the task's.
    let (long, short) = (switches("slice=95000000"), switches("slice=9500000"));
    assert!(short > 5.0 * long, "{short} and {long} switches");
}

const STALLS: &str = r#"
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u64 slice_ns = 1000000;
const volatile u8 small = 1;
void BPF_STRUCT_OPS(stalls_enqueue, struct task_struct *p, u64 enq_flags) {}
SCX_OPS_DEFINE(stalls_ops, .enqueue = (void *)stalls_enqueue, .name = "stalls");
"#;

#[test]
fn a_failed_run_is_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("stalls.bpf.c");
    std::fs::write(&source, STALLS).unwrap();
    let out = folder.path().join("out");
    let mut args = compare(&["--runs", "3", "--set", "slice_ns=5", "--scheduler"]);
    args.extend([source.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let output = run(&args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    for part in ["stalls", "tc2", "run 0", "seed"] {
        assert!(stderr.contains(part), "{part} is not in {stderr}");
    }
    assert_eq!(files(folder.path()), ["stalls.bpf.c"]);
}

#[test]
fn a_setting_must_fit_the_scheduler() {
    let (_folder, source) = file("stalls.bpf.c", STALLS);
    // The bytes of -1 are the largest number of an unsigned variable, here a slice of 585 years.
    for (setting, says) in [
        ("no_such=1", "slice_ns, small"),
        ("small=300", "expected an integer from 0 to 255"),
        (
            "slice_ns=-1",
            "expected an integer from 0 to 18446744073709551615",
        ),
    ] {
        let args = compare(&["--set", setting, "--scheduler", source.clone().leak()]);
        has!(run_badly(&args), says);
    }
}

#[test]
fn a_workload_can_be_kept_to_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let mut args = vec!["compare", "--machine", "smp-2x8", "--workload"];
    args.extend([
        "hackbench:groups=2,loops=2",
        "--policy",
        "cfs",
        "--runs",
        "1",
    ]);
    args.extend(["--cpunodebind", "1", "--trace", file.to_str().unwrap()]);
    stdout(&args);
    let trace = std::fs::read_to_string(&file).unwrap();
    let runs: Vec<&str> = trace
        .lines()
        .filter(|line| line.contains("next_comm=hackbench"))
        .collect();
    let cpu = |line: &str| -> usize {
        let (_, rest) = line.split_once('[').unwrap();
        rest[..3].parse().unwrap()
    };
    assert!(runs.len() > 100);
    assert!(runs.iter().all(|line| (8..16).contains(&cpu(line))));
}

/// The share of time, the attempts, and the attempts that the limit prevented, under `cfs` and
/// `newidle-limit`.
fn newidle(machine: &'static str) -> [(f64, f64, f64); 2] {
    let workload = "cyclictest:threads=80,interval=2ms,distance=0us,duration=1s";
    let mut args = vec!["compare", "--machine", machine, "--workload", workload];
    args.extend(["--policy", "cfs", "--policy", "newidle-limit"]);
    args.extend(["--runs", "1", "--format", "json"]);
    let result = json(&args);
    [0, 1].map(|policy| {
        let counted = &result["counters"][policy]["balancing"];
        let number = |name: &str| counted[name].as_f64().unwrap();
        (
            number("newidle_time_pct"),
            number("newidle_calls"),
            number("newidle_limited"),
        )
    })
}

#[test]
fn looking_for_work_takes_time_where_memory_is_described() {
    let [cfs, limit] = newidle("hp-8s-80c");
    assert!(cfs.0 > 0.1 && cfs.2 == 0.0, "{cfs:?}");
    assert!(
        limit.0 < cfs.0 / 2.0 && limit.1 < cfs.1 / 2.0,
        "{limit:?} {cfs:?}"
    );
    assert!(limit.2 > limit.1, "{limit:?}");
    let [undescribed, _] = newidle("smp-2x8");
    assert!(
        undescribed.0 == 0.0 && undescribed.1 > 0.0,
        "{undescribed:?}"
    );
}
