use super::*;
use crate::Reproduction;
use std::cell::Cell;

/// Leaves out the columns of published schedulers.
fn without(_: Peer) -> Result<std::result::Result<Scheduler, String>> {
    Ok(Err("no published scheduler here".to_owned()))
}

#[test]
fn every_builtin_experiment_is_well_formed_and_named_after_its_file() {
    for name in Experiment::names() {
        let experiment =
            Experiment::find(name, None, &without).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(experiment.name, name);
        assert!(experiment.rows().count() > 0);
    }
}

#[test]
fn mistakes_are_said_with_their_line() {
    let (_, _, good) = BUILTIN
        .iter()
        .find(|(name, ..)| *name == "mixed-capacity")
        .unwrap();
    for (from, to, says) in [
        ("policy = \"cfs\"", "policy = \"bfs\"", "bfs"),
        ("machine = \"tc2\"", "machine = \"tc3\"", "tc2-smp"),
        (
            "[27.22, 27.71, 24.14]",
            "[27.22, 27.71]",
            "2 numbers for 3 columns",
        ),
        (
            "[27.22, 27.71, 24.14]",
            "[27.22, 27.71, \"?\"]",
            "\"-\" where none",
        ),
        ("date = \"2013-03-25\"", "when = \"2013-03-25\"", "when"),
    ] {
        assert_eq!(good.matches(from).count(), 1, "{from}");
        let error = Experiment::parse("e.toml", &good.replace(from, to), None, &without)
            .err()
            .unwrap();
        let text = format!("{} {}", error.message(), error.expected());
        let line = good.lines().position(|line| line.contains(from)).unwrap() + 1;
        assert!(text.starts_with(&format!("e.toml:{line}:")), "{text}");
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn mistakes_in_its_loads_and_machines_are_said_with_their_line() {
    let (_, _, good) = BUILTIN.iter().find(|(name, ..)| *name == "small").unwrap();
    for (from, to, says) in [
        ("\"cpus\": [0]", "\"cpu\": [0]", "unknown key `cpu`"),
        ("\"cpus\": [0]", "\"cpus\": [4]", "bound to CPU 4"),
        ("capacity = 512", "capacity = 0", "capacity"),
    ] {
        assert_eq!(good.matches(from).count(), 1, "{from}");
        let error = Experiment::parse("e.toml", &good.replace(from, to), None, &without)
            .err()
            .unwrap();
        let line = good.lines().position(|line| line.contains(from)).unwrap() + 1;
        let start = format!("e.toml:{line}: ");
        assert!(error.message().starts_with(&start), "{error}");
        assert!(error.message().contains(says), "{error}");
    }
}

/// An experiment with a column of a published scheduler, which only one of two blocks has.
const PUBLISHED: &str = r#"
name = "e"
title = "An experiment"
[[column]]
name = "EEVDF"
policy = "eevdf"
[[column]]
name = "lavd"
scheduler = "scx_lavd"
blocks = ["one core"]
[[column]]
name = "ours"
policy = "equipoise"
[[block]]
name = "one core"
machine = "smp-2"
[[block.row]]
name = "busy"
workload = "busy:duration=1ms"
metric = "work"
unit = "s"
published.avg = [1, 2, 3]
[[block]]
name = "two cores"
machine = "smp-2"
[[block.row]]
name = "busy"
workload = "busy:duration=1ms"
metric = "work"
unit = "s"
published.avg = [4, 5]
"#;

/// The names and the published numbers of the columns of each block.
fn columns(experiment: &Experiment) -> Vec<Vec<(&str, Option<f64>)>> {
    let of_block = |block| {
        let names = experiment.columns_of(block).map(|column| &*column.name);
        let numbers = block.rows[0].published[&Stat::Avg].iter();
        let numbers = numbers.map(|number| number.map(|number| number.value));
        names.zip(numbers).collect()
    };
    experiment.blocks.iter().map(of_block).collect()
}

#[test]
fn a_published_scheduler_is_loaded_if_a_row_of_its_blocks_is_run() {
    let text = PUBLISHED.replacen("name = \"busy\"", "name = \"other\"", 1);
    for (rows, loaded) in [("other", 1), ("busy", 0)] {
        let count = Cell::new(0);
        let load = |_| {
            count.set(count.get() + 1);
            Ok(Ok(Scheduler::policy("cfs")?))
        };
        let rows = Pattern::new(rows).unwrap();
        let experiment = Experiment::parse("e.toml", &text, Some(&rows), &load).unwrap();
        assert_eq!(count.get(), loaded, "{rows}");
        assert_eq!(experiment.columns.len(), 2 + loaded);
    }
}

#[test]
fn a_published_scheduler_is_a_column_of_the_blocks_that_it_names() {
    let loads = |_| Ok(Ok(Scheduler::policy("cfs")?));
    let experiment = Experiment::parse("e.toml", PUBLISHED, None, &loads).unwrap();
    let (eevdf, lavd, ours) = (
        ("EEVDF", Some(1.0)),
        ("lavd", Some(2.0)),
        ("ours", Some(3.0)),
    );
    let second = vec![("EEVDF", Some(4.0)), ("ours", Some(5.0))];
    assert_eq!(columns(&experiment), [vec![eevdf, lavd, ours], second]);
    assert_eq!(experiment.columns[1].scheduler.name(), "cfs");
    assert_eq!(experiment.cases().len(), 5);
    assert!(experiment.left_out.is_empty());
}

#[test]
fn a_column_whose_scheduler_cannot_be_run_is_left_out_with_its_numbers() {
    let experiment = Experiment::parse("e.toml", PUBLISHED, None, &without).unwrap();
    let first = vec![("EEVDF", Some(1.0)), ("ours", Some(3.0))];
    let second = vec![("EEVDF", Some(4.0)), ("ours", Some(5.0))];
    assert_eq!(columns(&experiment), [first, second]);
    assert_eq!(
        experiment.left_out,
        ["Column `lavd` is left out: no published scheduler here."]
    );
}

#[test]
fn a_row_names_the_columns_to_which_its_load_was_fitted() {
    let with = |names: &str| {
        let fitted = format!("published.avg = [4, 5]\nfitted = [{names}]");
        let text = PUBLISHED.replace("published.avg = [4, 5]", &fitted);
        Experiment::parse("e.toml", &text, None, &without)
    };
    let experiment = with("\"ours\"").unwrap();
    let reproduction = Reproduction::without_runs(experiment);
    let cells = reproduction.cells();
    let fitted: Vec<_> = cells.iter().filter(|cell| cell.fitted).collect();
    assert_eq!(fitted.len(), 1);
    assert_eq!((fitted[0].block, fitted[0].column), ("two cores", "ours"));
    let error = with("\"lavd\"").err().unwrap();
    assert_eq!(error.message(), "e.toml:32: the block has no such column");
}

#[test]
fn mistakes_in_a_column_are_said_with_their_line() {
    for (from, to, says) in [
        ("\"scx_lavd\"", "\"scx_lavdd\"", "scx_lavd"),
        ("[\"one core\"]", "[\"no core\"]", "one core"),
        ("[1, 2, 3]", "[1, 2]", "2 numbers for 3 columns"),
    ] {
        let text = PUBLISHED.replace(from, to);
        let error = Experiment::parse("e.toml", &text, None, &without)
            .err()
            .unwrap();
        let line = text.lines().position(|line| line.contains(to)).unwrap() + 1;
        let start = format!("e.toml:{line}: ");
        assert!(error.message().starts_with(&start), "{error}");
        let text = format!("{error} {}", error.expected());
        assert!(text.contains(says), "{text}");
    }
    let both = PUBLISHED.replace("scheduler = ", "policy = \"cfs\"\nscheduler = ");
    let error = Experiment::parse("e.toml", &both, None, &without)
        .err()
        .unwrap();
    assert!(error.message().starts_with("e.toml:8: "), "{error}");
}

#[test]
fn a_column_can_have_parameters_of_its_own() {
    let text = PUBLISHED.replacen(
        "policy = \"equipoise\"",
        "policy = \"equipoise\"\nparameters = \"threads=3\"",
        1,
    );
    let loads = |_| Ok(Ok(Scheduler::policy("cfs")?));
    let experiment = Experiment::parse("e.toml", &text, None, &loads).unwrap();
    let cases = experiment.cases();
    let names: Vec<&str> = cases.iter().map(|case| case.workload.name()).collect();
    let (without, with) = ("busy:duration=1ms", "busy:duration=1ms,threads=3");
    assert_eq!(names, [without, without, with, without, with]);

    let wrong = text.replace("threads=3", "thread=3");
    let error = Experiment::parse("e.toml", &wrong, None, &loads)
        .err()
        .unwrap();
    let line = wrong
        .lines()
        .position(|line| line.contains("thread=3"))
        .unwrap()
        + 1;
    let start = format!("e.toml:{line}: ");
    assert!(error.message().starts_with(&start), "{error}");
    assert!(error.message().contains("thread"), "{error}");
}

#[test]
fn a_scale_applies_to_columns_with_parameters_of_their_own() {
    let text = PUBLISHED
        .replace("busy:duration=1ms", "blackscholes")
        .replace("metric = \"work\"", "metric = \"time\"")
        .replace(
            "policy = \"equipoise\"",
            "policy = \"equipoise\"\nparameters = \"threads=3\"",
        );
    let mut experiment = Experiment::parse("e.toml", &text, None, &without).unwrap();
    assert!(experiment.scale(10).unwrap());
    let cases = experiment.cases();
    let names: Vec<&str> = cases.iter().map(|case| case.workload.name()).collect();
    let (without, with) = ("blackscholes:scale=10", "blackscholes:threads=3,scale=10");
    assert_eq!(names, [without, with, without, with]);
}

#[test]
fn a_block_can_have_a_remark() {
    let text = include_str!("../../experiments/mixed-capacity.toml");
    let smp = "machine = \"tc2-smp\"";
    let with = text.replace(smp, &format!("{smp}\nremark = \"Why so.\""));
    let remark = |text| {
        let blocks = Experiment::parse("e.toml", text, None, &without)
            .unwrap()
            .blocks;
        blocks.last().unwrap().remark.clone()
    };
    assert_eq!(remark(text), None);
    assert_eq!(remark(&with).as_deref(), Some("Why so."));
}

#[test]
fn rows_can_be_left_out() {
    let mut experiment = Experiment::find("mixed-capacity", None, &without).unwrap();
    experiment.retain_rows(|row| row == "hackbench");
    assert_eq!(experiment.rows().count(), 2);
    experiment.retain_rows(|_| false);
    assert!(experiment.blocks.is_empty());
}
