//! Energy measured by the machine: RAPL, through the kernel's powercap
//! (Documentation/power/powercap/powercap.rst).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// An energy counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The energy since an unknown start, in uJ.
    pub uj: u64,
    /// The value at which the counter starts again from 0, in uJ.
    pub range_uj: u64,
}

impl Counter {
    /// The energy from `before` to now, in uJ, if the counter started again at most once.
    pub fn since(self, before: Counter) -> u64 {
        match self.uj.checked_sub(before.uj) {
            Some(uj) => uj,
            None => self
                .range_uj
                .saturating_sub(before.uj)
                .saturating_add(self.uj + 1),
        }
    }
}

/// The counters of the sysfs at `sys` by domain: `package-0`; `psys`, which includes the packages; and parts of a
/// package, such as `package-0/core` and `package-0/dram`. The result is empty if there is no RAPL, or if the process
/// may not read the files.
pub fn rapl(sys: &Path) -> BTreeMap<String, Counter> {
    let powercap = sys.join("class/powercap");
    let text = |zone: &Path, file: &str| {
        let text = fs::read_to_string(zone.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let number = |zone: &Path, file: &str| text(zone, file)?.parse().ok();
    let zones = fs::read_dir(&powercap).into_iter().flatten().flatten();
    let mut counters = BTreeMap::new();
    for zone in zones {
        let (file, path) = (zone.file_name(), zone.path());
        // intel-rapl:0 is a package, and intel-rapl:0:1 is a part of that package.
        let Some(place) = file
            .to_str()
            .and_then(|name| name.strip_prefix("intel-rapl:"))
        else {
            continue;
        };
        let (Some(mut name), Some(uj)) = (text(&path, "name"), number(&path, "energy_uj")) else {
            continue;
        };
        if let Some((package, _)) = place.split_once(':') {
            let package = powercap.join(format!("intel-rapl:{package}"));
            name = format!("{}/{name}", text(&package, "name").unwrap_or_default());
        }
        let range_uj = number(&path, "max_energy_range_uj").unwrap_or(u64::MAX);
        counters.insert(name, Counter { uj, range_uj });
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_named_after_their_package() {
        let sys = tempfile::tempdir().unwrap();
        let zone = |place: &str, files: &[(&str, &str)]| {
            let zone = sys.path().join("class/powercap").join(place);
            fs::create_dir_all(&zone).unwrap();
            for (file, text) in files {
                fs::write(zone.join(file), text).unwrap();
            }
        };
        let range = ("max_energy_range_uj", "999\n");
        zone("intel-rapl", &[("enabled", "1\n")]);
        zone(
            "intel-rapl:1",
            &[("name", "package-1\n"), ("energy_uj", "5\n"), range],
        );
        zone(
            "intel-rapl:1:0",
            &[("name", "dram\n"), ("energy_uj", "7\n"), range],
        );
        zone("intel-rapl:0", &[("name", "package-0\n")]);
        zone("dtpm:0", &[("name", "soc\n"), ("energy_uj", "7\n")]);
        let counter = |uj| Counter { uj, range_uj: 999 };
        let expected = [("package-1", counter(5)), ("package-1/dram", counter(7))];
        let expected = expected.map(|(name, counter)| (name.to_owned(), counter));
        assert_eq!(rapl(sys.path()), expected.into());
        assert!(rapl(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_counter_that_started_again_went_on_counting() {
        let counter = |uj| Counter { uj, range_uj: 999 };
        assert_eq!(counter(30).since(counter(10)), 20);
        assert_eq!(counter(10).since(counter(990)), 20);
    }
}
