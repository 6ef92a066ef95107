//! The conditions under which this computer measures. If these conditions change, turns are incomparable.

use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The conditions at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The governors of the CPUs (`scaling_governor`).
    pub governors: BTreeSet<String>,
    /// Does a battery discharge?
    pub on_battery: bool,
    /// May the hardware exceed the highest sustainable frequency?
    pub has_turbo: bool,
    /// The number of times that the hardware has throttled cores or packages because of heat, since the computer started,
    /// over all CPUs.
    pub throttled: u64,
    /// The time for which the computer has been suspended since its start.
    pub suspended: Duration,
    /// The CPUs that are online, as the kernel lists them.
    pub online: String,
}

impl Conditions {
    /// Reads the current conditions; `sys` is `/sys`.
    pub fn now(sys: &Path) -> Conditions {
        Conditions {
            suspended: suspended(),
            ..Conditions::of(sys)
        }
    }

    fn of(sys: &Path) -> Conditions {
        let text = |path: &str| {
            let text = fs::read_to_string(sys.join(path)).unwrap_or_default();
            text.trim().to_owned()
        };
        let mut found = Conditions {
            has_turbo: text("devices/system/cpu/intel_pstate/no_turbo") == "0"
                || text("devices/system/cpu/cpufreq/boost") == "1",
            online: text("devices/system/cpu/online"),
            ..Conditions::default()
        };
        for cpu in numbered(&sys.join("devices/system/cpu"), "cpu") {
            let cpu = format!("devices/system/cpu/cpu{cpu}");
            let governor = text(&format!("{cpu}/cpufreq/scaling_governor"));
            if !governor.is_empty() {
                found.governors.insert(governor);
            }
            let throttle = |kind: &str| {
                let count = text(&format!("{cpu}/thermal_throttle/{kind}_throttle_count"));
                count.parse::<u64>().unwrap_or(0)
            };
            found.throttled += throttle("core") + throttle("package");
        }
        let supplies = fs::read_dir(sys.join("class/power_supply")).into_iter();
        for supply in supplies.flatten().flatten() {
            let read =
                |file: &str| fs::read_to_string(supply.path().join(file)).unwrap_or_default();
            // The batteries of mice and keyboards have the scope Device.
            found.on_battery |= read("type").trim() == "Battery"
                && read("scope").trim() != "Device"
                && read("status").trim() == "Discharging";
        }
        found
    }

    /// Warnings for the user before the first turn, each of which is a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.on_battery {
            warnings.push("The battery is discharging, and its charge can change the CPUs' speed. Connect the computer to power.".to_owned());
        }
        if self.governors.len() > 1 {
            let names: Vec<&str> = self.governors.iter().map(String::as_str).collect();
            warnings.push(format!(
                "CPUs have different governors: {}.",
                names.join(", ")
            ));
        }
        warnings
    }

    /// Notes about the governors, and about turbo, which makes the speed depend on the temperature.
    pub fn notes(&self) -> Vec<String> {
        let governors: Vec<&str> = self.governors.iter().map(String::as_str).collect();
        let governor = match governors.as_slice() {
            [] => None,
            names => Some(format!("governor {}", names.join(", "))),
        };
        let turbo = self.has_turbo.then(|| {
            "turbo is on, so the CPUs' speed depends on their temperature; blocks in random order even that out"
                .to_owned()
        });
        governor.into_iter().chain(turbo).collect()
    }

    /// The reason, if any, why turns between `before` and now cannot be compared with other turns.
    pub fn disturbed_since(&self, before: &Conditions) -> Option<String> {
        if self.suspended > before.suspended + Duration::from_millis(10) {
            return Some("the computer was suspended".to_owned());
        }
        if self.throttled > before.throttled {
            return Some("CPUs were throttled because of heat".to_owned());
        }
        if self.governors != before.governors {
            return Some("the governor changed".to_owned());
        }
        if self.on_battery != before.on_battery {
            return Some("the power supply changed".to_owned());
        }
        (self.online != before.online).then(|| "CPUs went offline or came online".to_owned())
    }
}

/// The time in suspend, which `CLOCK_BOOTTIME` counts and `CLOCK_MONOTONIC` does not.
fn suspended() -> Duration {
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let monotonic = read(ClockId::Monotonic);
    read(ClockId::Boottime).saturating_sub(monotonic)
}

/// The numbers of the files in `folder` whose names are `name` and a number, in ascending order.
pub fn numbered(folder: &Path, name: &str) -> Vec<usize> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(name)?.parse().ok();
    let mut numbers: Vec<usize> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The kinds of cores of a computer.
#[derive(Clone, Debug, Default)]
pub struct Kinds(BTreeMap<usize, String>);

impl Kinds {
    /// The kinds by the capacity that the kernel gives each CPU, where 1024 is that of the largest CPU. Without
    /// capacities, all CPUs are of one kind.
    pub fn of(sys: &Path) -> Kinds {
        let cpus = sys.join("devices/system/cpu");
        let kind = |cpu: usize| {
            let text = fs::read_to_string(cpus.join(format!("cpu{cpu}/cpu_capacity")));
            let capacity = text.ok().and_then(|it| it.trim().parse::<u32>().ok());
            (
                cpu,
                capacity.map_or("all CPUs".to_owned(), |it| format!("capacity {it}")),
            )
        };
        Kinds(numbered(&cpus, "cpu").into_iter().map(kind).collect())
    }

    /// The time in ns for which CPUs were busy since the computer started, by kind of core. `stat` is the text of
    /// `/proc/stat` (proc_stat(5)), whose unit is 10 ms.
    pub fn busy_ns(&self, stat: &str) -> BTreeMap<String, u64> {
        let mut busy = BTreeMap::new();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let cpu = words
                .next()
                .and_then(|it| it.strip_prefix("cpu")?.parse().ok());
            let Some(kind) = cpu.and_then(|cpu: usize| self.0.get(&cpu)) else {
                continue;
            };
            let ticks: Vec<u64> = words.map_while(|it| it.parse().ok()).collect();
            // Busy time is user, nice, system, irq and softirq, without idle and iowait.
            let used = [0, 1, 2, 5, 6]
                .iter()
                .filter_map(|&it| ticks.get(it))
                .sum::<u64>();
            *busy.entry(kind.clone()).or_default() += used * 10_000_000;
        }
        busy
    }
}

/// The average frequency of the CPUs that report a frequency, in kHz.
pub fn khz(sys: &Path) -> Option<u64> {
    let cpus = sys.join("devices/system/cpu");
    let of = |cpu: usize| {
        let text = fs::read_to_string(cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq")));
        text.ok()?.trim().parse::<u64>().ok()
    };
    let all: Vec<u64> = numbered(&cpus, "cpu").into_iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.iter().sum::<u64>() / all.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sys: &Path, file: &str, text: &str) {
        let path = sys.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn laptop() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        let cpu = "devices/system/cpu";
        for (nr, capacity) in [(0, "1024\n"), (1, "512\n")] {
            write(
                sys.path(),
                &format!("{cpu}/cpu{nr}/cpufreq/scaling_governor"),
                "powersave\n",
            );
            write(
                sys.path(),
                &format!("{cpu}/cpu{nr}/cpufreq/scaling_cur_freq"),
                "2000000\n",
            );
            write(
                sys.path(),
                &format!("{cpu}/cpu{nr}/thermal_throttle/core_throttle_count"),
                "3\n",
            );
            write(sys.path(), &format!("{cpu}/cpu{nr}/cpu_capacity"), capacity);
        }
        write(
            sys.path(),
            "devices/system/cpu/intel_pstate/no_turbo",
            "0\n",
        );
        write(sys.path(), "class/power_supply/BAT0/type", "Battery\n");
        write(sys.path(), "class/power_supply/BAT0/status", "Full\n");
        sys
    }

    #[test]
    fn a_quiet_laptop_has_no_warning() {
        let sys = laptop();
        let now = Conditions::of(sys.path());
        assert_eq!(now.warnings(), [""; 0]);
        assert_eq!(now.notes().len(), 2);
        assert_eq!(now.disturbed_since(&now), None);
        assert_eq!(khz(sys.path()), Some(2_000_000));
    }

    #[test]
    fn each_change_disturbs() {
        let changes = [
            (
                "devices/system/cpu/cpu0/cpufreq/scaling_governor",
                "performance\n",
                "the governor changed",
            ),
            (
                "devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
                "4\n",
                "CPUs were throttled because of heat",
            ),
            // The package is throttled while each of its cores is cool enough, so its count stays below the cores' counts.
            (
                "devices/system/cpu/cpu1/thermal_throttle/package_throttle_count",
                "1\n",
                "CPUs were throttled because of heat",
            ),
            (
                "class/power_supply/BAT0/status",
                "Discharging\n",
                "the power supply changed",
            ),
            (
                "devices/system/cpu/online",
                "0\n",
                "CPUs went offline or came online",
            ),
        ];
        for (file, text, why) in changes {
            let sys = laptop();
            let before = Conditions::of(sys.path());
            write(sys.path(), file, text);
            let now = Conditions::of(sys.path());
            assert_eq!(now.disturbed_since(&before).as_deref(), Some(why));
        }
        let later = Conditions {
            suspended: Duration::from_secs(60),
            ..Conditions::default()
        };
        assert!(later.disturbed_since(&Conditions::default()).is_some());
    }

    #[test]
    fn a_battery_and_unlike_governors_are_warnings() {
        let sys = laptop();
        write(
            sys.path(),
            "class/power_supply/BAT0/status",
            "Discharging\n",
        );
        write(
            sys.path(),
            "devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "performance\n",
        );
        let warnings = Conditions::of(sys.path()).warnings();
        assert!(warnings[0].contains("battery"), "{warnings:?}");
        assert!(
            warnings[1].contains("performance, powersave"),
            "{warnings:?}"
        );
        write(sys.path(), "class/power_supply/BAT0/scope", "Device\n");
        assert!(!Conditions::of(sys.path()).on_battery);
    }

    #[test]
    fn busy_time_is_by_kind_of_core() {
        let sys = laptop();
        let stat =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 50 4 5 6\ncpu1 1 0 0 100 0 0 0 0\nintr 5\n";
        let busy = Kinds::of(sys.path()).busy_ns(stat);
        let expected = [("capacity 1024", 150_000_000), ("capacity 512", 10_000_000)];
        let expected = expected.map(|(kind, ns)| (kind.to_owned(), ns));
        assert_eq!(busy, expected.into());
    }
}
