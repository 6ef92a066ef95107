//! Finding a workload: a benchmark or a file of `workloads/` by name, or any rt-app file or recording by path.

use crate::benchmark::Benchmark;
use crate::{
    aim7, antutu, busy, cyclictest, fork_chain, hackbench, iperf, kbuild, oltp, parsec,
    request_response, schbench, specjbb, spin_barrier, sysbench,
};
use machine::input::{self, BadInput};
use std::path::Path;
use workload::rtapp::{self, RtApp};
use workload::{Args, Param, Placement, Workload};

const BENCHMARKS: &[&Benchmark] = &[
    &sysbench::BENCHMARK,
    &hackbench::BENCHMARK,
    &cyclictest::BENCHMARK,
    &iperf::BENCHMARK,
    &busy::BENCHMARK,
    &kbuild::BENCHMARK,
    &specjbb::BENCHMARK,
    &request_response::NETPERF,
    &request_response::TBENCH,
    &request_response::PIPE,
    &oltp::READ_ONLY,
    &oltp::READ_WRITE,
    &schbench::BENCHMARK,
    &schbench::BENCHMARK_2016,
    &spin_barrier::BENCHMARK,
    &fork_chain::BENCHMARK,
    &parsec::streamcluster::BENCHMARK,
    &parsec::bodytrack::BENCHMARK,
    &parsec::blackscholes::BENCHMARK,
    &antutu::BENCHMARK,
];

fn benchmarks() -> impl Iterator<Item = &'static Benchmark> {
    BENCHMARKS.iter().copied().chain(&aim7::BENCHMARKS)
}

macro_rules! rt_app_files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../workloads/", $name, ".json")))),*]
    };
}

/// The files of `workloads/`, by stem.
const FILES: &[(&str, &str)] = rt_app_files![
    "app-start",
    "audio",
    "browser",
    "game",
    "heavy-and-light",
    "mixed",
    "pipeline",
    "ramp",
    "rt-and-fair",
    "rt-cfs-pinned",
    "rt-pinned",
    "spinners",
    "video-call",
];

/// The names that [`load`] knows, each with a one-line description.
pub fn builtin() -> impl Iterator<Item = (&'static str, String)> {
    let benchmarks =
        benchmarks().map(|benchmark| (benchmark.name, benchmark.description.to_owned()));
    let files = FILES
        .iter()
        .map(|&(name, text)| (name, rtapp::description(text)));
    benchmarks.chain(files)
}

/// The rt-app file of the built-in workload `name`, if it has one.
pub fn source(name: &str) -> Option<&'static str> {
    let (_, text) = FILES.iter().find(|(file, _)| *file == name)?;
    Some(text)
}

/// The parameters of the workload that [`load`] finds for `name`. Every rt-app file takes the parameters of
/// [`rtapp::PARAMS`].
pub fn parameters(name: &str) -> &'static [Param] {
    benchmark(name).map_or(rtapp::PARAMS, |benchmark| benchmark.params)
}

/// The workloads that plus signs join in `names`. A plus sign may also be part of a file's name.
pub fn parts(names: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = Some(names);
    while let Some(text) = rest {
        let mut ends = text
            .match_indices('+')
            .map(|(at, _)| at)
            .chain([text.len()]);
        let file = ends.clone().rfind(|&end| is_file(&text[..end]));
        let end = file.or_else(|| ends.next()).unwrap_or(text.len());
        parts.push(&text[..end]);
        rest = text.get(end + 1..);
    }
    parts
}

/// Is `load` the path of a file, perhaps with parameters?
fn is_file(load: &str) -> bool {
    let exists = |path: &str| Path::new(path).exists();
    let is_one = |params: &str| !params.contains('+');
    let parts = load.rsplit_once(':');
    exists(load) || parts.is_some_and(|(path, params)| is_one(params) && exists(path))
}

/// The workload `name_or_path`: a benchmark (`sysbench-cpu`), one of this project's rt-app files (`mixed`), or the path
/// of an rt-app file or a recording. After a colon come its parameters (`sysbench-cpu:threads=5`,
/// `my.json:duration=2`). Any workload also takes the parameters of a [`Placement`]:
/// `kbuild:jobs=16,group=/app,nice=5`. Several workloads that are joined by plus signs run at once. The error names the
/// file and line, or the parameter, and what was expected.
pub fn load(name_or_path: &str) -> Result<Box<dyn Workload>, Box<BadInput>> {
    let parts = parts(name_or_path);
    if parts.len() > 1 {
        let parts = parts.into_iter().map(load).collect::<Result<_, _>>()?;
        return Ok(workload::together(name_or_path, parts));
    }
    let (name, params) = match name_or_path.rsplit_once(':') {
        Some((name, params)) if !Path::new(name_or_path).exists() => (name, Some(params)),
        _ => (name_or_path, None),
    };
    if let (Some(placement), rest) = Placement::read(name, params)? {
        let alone = match rest {
            None => name.to_owned(),
            Some(rest) => format!("{name}:{rest}"),
        };
        return Ok(placement.around(name_or_path, load(&alone)?));
    }
    if let Some(benchmark) = benchmark(name) {
        return benchmark.load(name_or_path, params);
    }
    if let Some(text) = source(name) {
        let duration = Args::read(name, rtapp::PARAMS, params)?.given("duration");
        let file = format!("workloads/{name}.json");
        return Ok(Box::new(RtApp::parse(name_or_path, &file, text, duration)?));
    }
    let path = Path::new(name);
    let is_name = path.extension().is_none() && path.components().count() <= 1;
    if is_name && name != input::STDIN && !path.exists() {
        let names = input::one_of_described(name, builtin());
        return Err(Box::new(BadInput::whole(
            format!("unknown workload `{name}`"),
            format!("{names}, or an rt-app JSON file"),
        )));
    }
    load_file(path, params)
}

/// The workload in the rt-app file or recording `path`, with these parameters.
pub fn load_file(path: &Path, params: Option<&str>) -> Result<Box<dyn Workload>, Box<BadInput>> {
    let text = input::description(path, "rt-app JSON file or recording")?;
    let stem = match path == Path::new(input::STDIN) {
        true => "stdin".into(),
        false => path.file_stem().unwrap_or_default().to_string_lossy(),
    };
    workload::parse(&stem, &input::shown(path), &text, params)
}

fn benchmark(name: &str) -> Option<&'static Benchmark> {
    benchmarks().find(|benchmark| benchmark.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::fake::{self, Kernel};

    #[test]
    fn every_builtin_loads_by_its_name() {
        for (name, description) in builtin() {
            let workload = load(name).unwrap();
            assert_eq!(workload.name(), name);
            assert_eq!(workload.description(), description);
            assert!(!description.is_empty() && !description.contains('\n'));
            assert!(!workload.metrics().is_empty(), "{name}");
        }
    }

    #[test]
    fn every_file_of_workloads_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let mut stems: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        stems.sort();
        let embedded: Vec<_> = FILES.iter().map(|(name, _)| *name).collect();
        assert_eq!(stems, embedded);
    }

    #[test]
    fn every_file_of_workloads_measures_all_its_metrics() {
        for (name, _) in FILES {
            let workload = load(name).unwrap();
            let kernel = Kernel::run(&*workload, 4);
            // `time` has no sample if the duration ends the run.
            let first = usize::from(!kernel.left().is_empty());
            for (index, metric) in workload.metrics().iter().enumerate().skip(first) {
                let samples = kernel.recorder.samples(index);
                assert!(!samples.is_empty(), "{name}: {}", metric.name);
            }
        }
    }

    #[test]
    fn a_path_is_a_file_and_takes_a_duration() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/workloads/mixed.json");
        let duration = |name: &str| {
            let workload = load(name).unwrap();
            assert_eq!(workload.name(), "mixed");
            workload.start(&fake::machine(1)).duration_ns
        };
        assert_eq!(duration(path), Some(5_000_000_000));
        assert_eq!(duration(&format!("{path}:duration=20ms")), Some(20_000_000));
    }

    #[test]
    fn a_plus_sign_may_be_part_of_a_files_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my+load.json");
        std::fs::write(&path, r#"{ "tasks": { "a": { "run": 1000 } } }"#).unwrap();
        let path = path.to_str().unwrap();
        let with = format!("{path}:duration=20ms");
        assert_eq!(parts(path), [path]);
        assert_eq!(parts(&with), [&*with]);
        let three = format!("busy:threads=2+{with}+mixed");
        assert_eq!(parts(&three), ["busy:threads=2", &*with, "mixed"]);
        assert_eq!(load(&with).unwrap().name(), "my+load");
        assert_eq!(parts("busy+"), ["busy", ""]);
        let no_file = format!("{path}x+mixed");
        assert_eq!(parts(&no_file).len(), 3);
    }

    #[test]
    fn wrong_names_are_one_message() {
        let error = |name| load(name).err().unwrap();
        assert!(error("sysbench").message().contains("unknown workload"));
        assert!(error("sysbench").expected().contains("sysbench-cpu"));
        assert!(error("busy+").message().starts_with("unknown workload ``"));
        assert!(error("no/such.json").message().contains("no/such.json"));
        assert!(error("busy:thread=2").message().contains("thread"));
        assert!(error("busy:").message().contains("busy"));
        assert!(error("mixed:loops=2").expected().contains("duration"));
    }
}
