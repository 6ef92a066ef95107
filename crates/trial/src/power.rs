//! Energy that the machine measures: RAPL's packages through the kernel's powercap
//! (Documentation/power/powercap/powercap.rst), or counters of hwmon (Documentation/hwmon/sysfs-interface.rst).

use detect::EnergyCounter as Counter;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading(BTreeMap<String, Counter>);

impl Reading {
    /// The counters of RAPL below `sys` or, if there are none, those of hwmon. The result is empty if the machine has
    /// none, or if this process may not read them.
    pub fn now(sys: &Path) -> Reading {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let list = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        let mut packages = detect::rapl(sys);
        packages.retain(|name, _| !name.contains('/') && name != "psys");
        if !packages.is_empty() {
            return Reading(packages);
        }
        let sensors = list(sys.join("class/hwmon")).flat_map(|entry| list(entry.path()));
        let sensor = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let is_energy = name.starts_with("energy") && name.ends_with("_input");
            let counter = Counter {
                uj: number(entry.path()).filter(|_| is_energy)?,
                range_uj: u64::MAX,
            };
            Some((entry.path().display().to_string(), counter))
        };
        Reading(sensors.filter_map(sensor).collect())
    }

    /// The energy since `before`, in uJ, if no counter started again more than once. `None` if there are no counters.
    pub fn since(&self, before: &Reading) -> Option<u64> {
        let used = |(name, now): (&String, &Counter)| Some(now.since(*before.0.get(name)?));
        let all: Option<Vec<u64>> = self.0.iter().map(used).collect();
        all.filter(|it| !it.is_empty()).map(|it| it.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
    }

    #[test]
    fn packages_count_once_and_over_their_range() {
        let sys = tempfile::tempdir().unwrap();
        let zone = |place: &str, name: &str, uj: &str| {
            let folder = sys.path().join("class/powercap").join(place);
            let range = ("max_energy_range_uj", "999\n");
            write(&folder, &[("name", name), ("energy_uj", uj), range]);
        };
        let write_all = |first: &str, second: &str| {
            zone("intel-rapl:0", "package-0\n", first);
            zone("intel-rapl:1", "package-1\n", second);
            zone("intel-rapl:0:0", "core\n", "7\n");
            zone("intel-rapl:2", "psys\n", "9\n");
        };
        assert_eq!(Reading::now(sys.path()).since(&Reading::default()), None);
        write_all("10\n", "990\n");
        let before = Reading::now(sys.path());
        write_all("30\n", "10\n");
        assert_eq!(Reading::now(sys.path()).since(&before), Some(20 + 20));
    }

    #[test]
    fn without_rapl_sensors_count() {
        let sys = tempfile::tempdir().unwrap();
        let sensor = sys.path().join("class/hwmon/hwmon0");
        write(
            &sensor,
            &[("energy1_input", "5\n"), ("temp1_input", "40000\n")],
        );
        let before = Reading::now(sys.path());
        write(
            &sensor,
            &[("energy1_input", "12\n"), ("temp1_input", "50000\n")],
        );
        assert_eq!(Reading::now(sys.path()).since(&before), Some(7));
    }
}
