//! A trial in one file, to keep or to send: a tar archive compressed with zstd.
//!
//! The archive has `trial.json` ([`Bundle`]), `machine.toml`, the kernel's version and configuration, the topology from
//! sysfs, the recording as a workload, and the page. The command line and the names of threads may reveal something
//! about the user, so they are replaced unless the user allows them.

use crate::{About, Fault, Outcome, Plan, Turn};
use machine::input::BadInput;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::errors::ReadFrameHeaderError::SkipFrame;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use workload::recording::Recording;

/// The version of the format.
const VERSION: u32 = 1;
/// The name of the file with the results.
const RESULTS: &str = "trial.json";
/// The largest bundle that is read, in bytes, before and after decompression.
const MOST_COMPRESSED: u64 = 256 << 20;
const MOST: u64 = 1 << 30;
/// The largest sum of a turn's figures, in ns or a count: more than an hour on 2000 CPUs.
const MOST_OF_TURN: f64 = 1e16;
/// The files of a CPU's folder in sysfs that describe the topology.
const OF_CPU: [&str; 3] = ["topology", "cache", "cpufreq"];
const CPU_FILES: [&str; 2] = ["cpu_capacity", "online"];

/// The results of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    version: u32,
    /// The computer and the load.
    pub about: About,
    /// The schedulers.
    pub plan: Plan,
    /// All samples.
    pub outcome: Outcome,
    /// The result of tuning, if the trial tuned a policy.
    #[serde(default)]
    pub tuning: Option<Tuning>,
}

/// The settings of a policy that suit the load of a trial, by simulation, and the best of them, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The columns of `rows`: the policy, and figures.
    pub header: Vec<String>,
    /// A row for each setting that changes a figure.
    pub rows: Vec<Vec<String>>,
    /// The policy with the best setting, such as `equipoise:slice_ns=1500000`; `None` if no setting is clearly better
    /// than the defaults.
    pub best: Option<String>,
    /// A trial of `best` beside the defaults.
    pub measured: Option<(Plan, Outcome)>,
}

/// The version of a bundle of any version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The parts of a bundle apart from the results.
pub struct More<'a> {
    /// The machine file.
    pub machine: Option<String>,
    /// A recorded turn under the kernel's own scheduler.
    pub recording: Option<&'a Recording>,
    /// The page, as HTML.
    pub page: String,
}

impl Bundle {
    /// Makes the bundle's results. Unless `names` is set, the names of threads and the command line are replaced.
    pub fn new(
        about: &About,
        plan: &Plan,
        outcome: &Outcome,
        tuning: Option<&Tuning>,
        names: bool,
    ) -> Bundle {
        let mut bundle = Bundle {
            version: VERSION,
            about: about.clone(),
            plan: plan.clone(),
            outcome: outcome.clone(),
            tuning: tuning.cloned(),
        };
        if !names {
            bundle.hide();
        }
        bundle
    }

    fn hide(&mut self) {
        self.about.load = "a load".to_owned();
        let mut names = Names::default();
        hide(&mut self.plan, &mut self.outcome, &mut names);
        let tuned = self.tuning.as_mut().and_then(|it| it.measured.as_mut());
        if let Some((plan, outcome)) = tuned {
            hide(plan, outcome, &mut names);
        }
    }

    /// The content of the file.
    pub fn write(&self, more: &More<'_>, names: bool) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            archive.append_data(&mut header, name, bytes)
        };
        add(RESULTS, &serde_json::to_vec_pretty(self)?)?;
        add("page.html", more.page.as_bytes())?;
        if let Some(machine) = &more.machine {
            add("machine.toml", machine.as_bytes())?;
        }
        if let Some(recording) = more.recording {
            let mut recording = recording.clone();
            if !names {
                recording.description.clear();
                let mut names = Names::default();
                for thread in &mut recording.threads {
                    thread.name = names.of(&thread.name);
                }
            }
            add("recording.json", &serde_json::to_vec(&recording)?)?;
        }
        for (name, bytes) in of_kernel().into_iter().chain(topology(Path::new("/sys"))) {
            add(&name, &bytes)?;
        }
        let tar = archive.into_inner()?;
        Ok(compress_to_vec(&tar[..], CompressionLevel::Fastest))
    }

    /// Reads the results in `file`. It is an error if the file is not a bundle, or is of another version.
    pub fn read(file: &Path) -> Result<Bundle, Box<BadInput>> {
        let bad = |message: String| {
            let message = format!("{}: {message}", file.display());
            let expected = "expected a bundle of `equipoise trial --bundle`";
            Box::new(BadInput::whole(message, expected))
        };
        let mut bytes = Vec::new();
        let opened = fs::File::open(file).map_err(|error| bad(error.to_string()))?;
        let read = opened.take(MOST_COMPRESSED).read_to_end(&mut bytes);
        read.map_err(|error| bad(error.to_string()))?;
        let text = results(&bytes).map_err(bad)?;
        Bundle::parse(&text).map_err(bad)
    }

    fn parse(text: &str) -> Result<Bundle, String> {
        let bad = |error| format!("{RESULTS}: {error}");
        let Version { version } = serde_json::from_str(text).map_err(bad)?;
        if version != VERSION {
            return Err(format!(
                "the bundle has version {version}; this program reads version {VERSION}"
            ));
        }
        let bundle: Bundle = serde_json::from_str(text).map_err(bad)?;
        let tuned = bundle.tuning.as_ref().and_then(|it| it.measured.as_ref());
        let is_tuned_well = tuned.is_none_or(|(plan, outcome)| matches(plan, outcome));
        let outcomes = tuned.map(|it| &it.1).into_iter().chain([&bundle.outcome]);
        let is_possible = outcomes
            .flat_map(|it| it.blocks.iter().flatten())
            .all(is_possible);
        if !(is_tuned_well && matches(&bundle.plan, &bundle.outcome)) {
            return Err(format!(
                "{RESULTS}: the blocks do not match the schedulers: expected a turn of each scheduler in each block"
            ));
        }
        match is_possible {
            true => Ok(bundle),
            false => Err(format!("{RESULTS}: a turn has impossible figures")),
        }
    }
}

/// Can a computer measure the figures of this turn? Their sums are then far from overflows.
fn is_possible(turn: &Turn) -> bool {
    let recorded = turn.recorded.iter();
    let threads = recorded.clone().flat_map(|it| &it.threads);
    let of_threads = threads.map(|it| {
        let counts = [it.ran_ns, it.turns, it.migrations, it.periods, it.missed];
        let all = counts.iter().chain(&it.latencies_ns);
        all.map(|&it| it as f64).sum::<f64>()
    });
    let of_recorded = recorded
        .clone()
        .map(|it| (it.events as f64) + (it.switches as f64));
    let recorded_sum = of_threads.chain(of_recorded).sum::<f64>();
    let scale = recorded.map(|it| it.scale(turn)).sum::<f64>();
    let others = [turn.cpu_ns, turn.waited_ns, turn.switches, turn.energy_uj];
    let others = others.into_iter().flatten().chain([turn.elapsed_ns]);
    let others = others.chain(turn.busy_ns.values().copied());
    recorded_sum * scale.max(1.0) < MOST_OF_TURN
        && others.map(|it| it as f64).sum::<f64>() < MOST_OF_TURN
        && turn.frames_ms.iter().all(|it| *it > 0.0)
}

/// Does each block have a turn of each scheduler?
fn matches(plan: &Plan, outcome: &Outcome) -> bool {
    let removed = outcome.removed.iter().map(|it| &it.scheduler);
    let mut named = outcome.schedulers.iter().chain(removed);
    let turns = outcome.schedulers.len();
    named.all(|&index| index < plan.schedulers.len())
        && outcome.blocks.iter().all(|it| it.len() == turns)
}

/// Replaces what may reveal something about the user.
fn hide(plan: &mut Plan, outcome: &mut Outcome, names: &mut Names) {
    for scheduler in &mut plan.schedulers {
        scheduler.name = without_folders(&scheduler.name);
    }
    if let Some(Fault::Command(why) | Fault::System(why)) = &mut outcome.ended {
        *why = "the load failed".to_owned();
    }
    for removed in &mut outcome.removed {
        // The kernel's reason names a task in parentheses.
        let why = removed.why.split(" (").next().unwrap_or_default();
        removed.why = without_folders(why);
    }
    let turns = outcome.blocks.iter_mut().flatten();
    let recorded = turns.filter_map(|turn| turn.recorded.as_mut());
    for thread in recorded.flat_map(|it| &mut it.threads) {
        thread.name = names.of(&thread.name);
    }
}

/// The content of [`RESULTS`] in the compressed archive `bytes`.
fn results(bytes: &[u8]) -> Result<String, String> {
    let tar = unpacked(bytes)?;
    let mut archive = tar::Archive::new(&tar[..]);
    // Behind the end of an archive there may be another archive.
    archive.set_ignore_zeros(true);
    let mut found = None;
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let mut entry = entry.map_err(|error| error.to_string())?;
        let is_results = |path: &Path| path.strip_prefix(".").unwrap_or(path) == Path::new(RESULTS);
        if entry.path().is_ok_and(|it| is_results(&it)) {
            let mut text = String::new();
            let read = entry.read_to_string(&mut text);
            read.map_err(|error| error.to_string())?;
            if found.replace(text).is_some() {
                return Err("several bundles in one file".to_owned());
            }
        }
    }
    found.ok_or_else(|| format!("no {RESULTS}"))
}

/// The content of all frames of zstd in `bytes`. Some compressors write several, or begin with a frame to skip.
fn unpacked(mut bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut content = Vec::new();
    while content.is_empty() || !bytes.is_empty() {
        let decoder = match StreamingDecoder::new(&mut bytes) {
            Ok(decoder) => decoder,
            Err(FrameDecoderError::ReadFrameHeaderError(SkipFrame { length, .. })) => {
                bytes = bytes.get(length as usize..).unwrap_or_default();
                continue;
            }
            Err(_) => return Err("not compressed with zstd".to_owned()),
        };
        let left = MOST - content.len() as u64;
        let read = decoder.take(left).read_to_end(&mut content);
        read.map_err(|error| match bytes.is_empty() {
            true => "the file is cut off".to_owned(),
            false => error.to_string(),
        })?;
    }
    Ok(content)
}

/// Meaningless substitutes for names. Equal names have equal substitutes.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn of(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        let number = *self.0.entry(name.to_owned()).or_insert(next);
        format!("thread-{number}")
    }
}

/// A command line or a message without the folders of paths.
fn without_folders(text: &str) -> String {
    let words = text.split(' ').map(|word| word.rsplit('/').next());
    let words: Vec<&str> = words.map(Option::unwrap_or_default).collect();
    words.join(" ")
}

fn of_kernel() -> Vec<(String, Vec<u8>)> {
    let version = fs::read_to_string("/proc/version").unwrap_or_default();
    let version = without_builder(&version).into_bytes();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let packed = fs::read("/proc/config.gz").ok();
    let config = match packed {
        Some(packed) => Some(("kernel.config.gz", packed)),
        None => fs::read(format!("/boot/config-{}", release.trim()))
            .ok()
            .map(|it| ("kernel.config", it)),
    };
    let files = std::iter::once(("kernel.version", version)).chain(config);
    files
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .collect()
}

/// The text of `/proc/version` without the first parentheses, which name the user and the host that built the kernel.
fn without_builder(version: &str) -> String {
    let (before, rest) = version.split_once(" (").unwrap_or((version, ""));
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

fn topology(sys: &Path) -> Vec<(String, Vec<u8>)> {
    let cpus = Path::new("devices/system/cpu");
    let mut files: Vec<PathBuf> = ["online", "possible"].map(|it| cpus.join(it)).to_vec();
    for cpu in crate::host::numbered(&sys.join(cpus), "cpu") {
        let folder = cpus.join(format!("cpu{cpu}"));
        files.extend(CPU_FILES.map(|it| folder.join(it)));
        for part in OF_CPU {
            below(sys, &folder.join(part), &mut files);
        }
    }
    let content = |file: PathBuf| {
        Some((
            format!("sys/{}", file.display()),
            fs::read(sys.join(file)).ok()?,
        ))
    };
    files.into_iter().filter_map(content).collect()
}

fn below(sys: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(sys.join(folder))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = folder.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_file() => files.push(path),
            Ok(kind) if kind.is_dir() && entry.file_name() != "power" => below(sys, &path, files),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorded, Removed, Scheduler, Thread, Turn};

    fn bundle(names: bool) -> Bundle {
        let thread = |name: &str| Thread {
            name: name.to_owned(),
            latencies_ns: vec![1000, 2000],
            ..Thread::default()
        };
        let turn = Turn {
            elapsed_ns: 1_000_000_000,
            is_timed: true,
            recorded: Some(Recorded {
                threads: vec![thread("secret"), thread("other"), thread("secret")],
                ..Recorded::default()
            }),
            ..Turn::default()
        };
        let scheduler = |name: &str| Scheduler {
            name: name.to_owned(),
            loader: Some(vec!["/home/me/scx_x".into()]),
        };
        let about = About {
            load: "/home/me/secret --token 1".to_owned(),
            ..About::default()
        };
        let plan = Plan {
            schedulers: vec![Scheduler::own(), scheduler("/home/me/scx_x -s 5")],
            rounds: 2,
            until_decided: false,
            seed: 7,
        };
        let outcome = Outcome {
            schedulers: vec![0],
            blocks: vec![vec![turn]],
            removed: vec![Removed {
                scheduler: 1,
                block: 0,
                why: "EXIT: a stall (secret[7] failed to run for 30 s)".to_owned(),
            }],
            ended: Some(Fault::Command("secret: no such file".to_owned())),
            ..Outcome::default()
        };
        let tuning = Tuning {
            measured: Some((plan.clone(), outcome.clone())),
            ..Tuning::default()
        };
        Bundle::new(&about, &plan, &outcome, Some(&tuning), names)
    }

    fn written(bundle: &Bundle) -> Vec<u8> {
        let more = More {
            machine: Some("name = \"x\"".to_owned()),
            recording: None,
            page: String::new(),
        };
        bundle.write(&more, false).unwrap()
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.tar.zst");
        let bundle = bundle(true);
        fs::write(&file, written(&bundle)).unwrap();
        let mut read = Bundle::read(&file).unwrap();
        // The bundle omits the path of the loader, which is of no use elsewhere.
        let loader = bundle.plan.schedulers[1].loader.clone();
        let (plan, _) = read.tuning.as_mut().unwrap().measured.as_mut().unwrap();
        for plan in [plan, &mut read.plan] {
            plan.schedulers[1].loader.clone_from(&loader);
        }
        assert_eq!(read, bundle);
    }

    #[test]
    fn a_bundle_may_be_packed_again() {
        let tar = unpacked(&written(&bundle(true))).unwrap();
        let mut again = tar::Builder::new(Vec::new());
        for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (mut header, mut content) = (entry.header().clone(), Vec::new());
            entry.read_to_end(&mut content).unwrap();
            header.as_gnu_mut().unwrap().name = [0; 100];
            let name = format!("./{}", entry.path().unwrap().display());
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            again.append(&header, &content[..]).unwrap();
        }
        let again = again.into_inner().unwrap();
        // As pzstd, with a frame to skip and several frames.
        let mut packed = [
            &0x184D_2A50u32.to_le_bytes()[..],
            &4u32.to_le_bytes(),
            b"size",
        ]
        .concat();
        for part in again.chunks(1000) {
            packed.extend(compress_to_vec(part, CompressionLevel::Fastest));
        }
        Bundle::parse(&results(&packed).unwrap()).unwrap();
    }

    #[test]
    fn nothing_personal_is_in_it_unless_allowed() {
        let text = serde_json::to_string(&bundle(false)).unwrap();
        for personal in ["secret", "/home", "token", "\"other\""] {
            assert!(!text.contains(personal), "{personal}: {text}");
        }
        assert!(text.contains("scx_x -s 5") && text.contains("thread-1"));
        assert!(
            serde_json::to_string(&bundle(true))
                .unwrap()
                .contains("secret")
        );
    }

    #[test]
    fn the_reason_for_a_removal_has_no_folders() {
        let mut bundle = bundle(true);
        let why = "/home/me/scx_x: Permission denied (os error 13)";
        bundle.outcome.removed[0].why = why.to_owned();
        bundle.hide();
        assert_eq!(bundle.outcome.removed[0].why, "scx_x: Permission denied");
    }

    #[test]
    fn a_kernel_that_the_user_has_built_does_not_name_the_user() {
        let version = "Linux version 6.12.9 (me@my-pc) (gcc (Debian) 14.2, GNU ld 2.43) #1 SMP\n";
        let expected = "Linux version 6.12.9 (gcc (Debian) 14.2, GNU ld 2.43) #1 SMP\n";
        assert_eq!(without_builder(version), expected);
        assert_eq!(
            without_builder("Linux version 6.12.9\n"),
            "Linux version 6.12.9\n"
        );
        assert_eq!(without_builder(""), "");
    }

    #[test]
    fn a_wrong_file_is_one_message() {
        let folder = tempfile::tempdir().unwrap();
        let message = |bytes: &[u8]| {
            let file = folder.path().join("b.tar.zst");
            fs::write(&file, bytes).unwrap();
            Bundle::read(&file).unwrap_err().render(false)
        };
        assert!(message(b"no archive").contains("b.tar.zst: not compressed with zstd"));
        assert!(message(b"").contains("expected a bundle"));
        let empty = tar::Builder::new(Vec::new()).into_inner().unwrap();
        let empty = compress_to_vec(&empty[..], CompressionLevel::Fastest);
        assert!(message(&empty).contains("no trial.json"));
        let whole = written(&bundle(false));
        for length in [whole.len() / 2, whole.len() - 1] {
            assert!(message(&whole[..length]).contains("the file is cut off"));
        }
        assert!(message(&[&whole[..], &whole].concat()).contains("several bundles"));
        let newer = "{\"version\": 2}";
        assert!(
            Bundle::parse(newer)
                .unwrap_err()
                .contains("version 2; this program")
        );
        let mut unfit = bundle(false);
        unfit.outcome.schedulers = vec![0, 1];
        assert!(message(&written(&unfit)).contains("do not match the schedulers"));
        unfit.outcome.schedulers = vec![0];
        let spoil: [fn(&mut Turn); 4] = [
            |it| it.frames_ms = vec![16.0, 0.0],
            |it| {
                it.busy_ns = [("a", u64::MAX), ("b", 1)]
                    .map(|(kind, ns)| (kind.to_owned(), ns))
                    .into()
            },
            |it| it.recorded.as_mut().unwrap().threads[0].latencies_ns = vec![u64::MAX, 1],
            |it| it.recorded.as_mut().unwrap().threads[0].periods = u64::MAX,
        ];
        for spoil in spoil {
            let mut crafted = unfit.clone();
            spoil(&mut crafted.outcome.blocks[0][0]);
            assert!(message(&written(&crafted)).contains("impossible figures"));
        }
        unfit.version = 9;
        assert!(message(&written(&unfit)).contains("version 9; this program reads version 1"));
        let nowhere = Bundle::read(Path::new("/nowhere"))
            .unwrap_err()
            .render(false);
        assert!(nowhere.contains("/nowhere: No such file"), "{nowhere}");
    }
}
