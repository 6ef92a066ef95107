//! Facts about the running kernel that sysfs does not show.

use crate::folder;
use crate::found::Found;
use rustix::time::{ClockId, clock_getres};
use std::path::Path;

/// Finds `CONFIG_HZ` of the running kernel from the coarse clocks, which advance once per tick.
pub fn tick_hz() -> u32 {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    (1e9 / tick.tv_nsec as f64).round() as u32
}

impl Found {
    /// Adds the known facts about the running kernel.
    pub fn add_running_kernel(&mut self) {
        self.hz = Some(tick_hz());
        self.irq_time_accounting = irq_time_accounting(Path::new("/"));
    }
}

/// Does the kernel of the computer at `root` account interrupt time separately from task time
/// (`CONFIG_IRQ_TIME_ACCOUNTING`)? `None` if the command line does not turn it off and the kernel's
/// configuration cannot be read. Distributions install the configuration in one of these places.
fn irq_time_accounting(root: &Path) -> Option<bool> {
    let read = |name: &str| folder::read(&root.join(name)).ok();
    let options = read("proc/cmdline").unwrap_or_default();
    if options
        .split_whitespace()
        .any(|option| option == "tsc=noirqtime")
    {
        return Some(false);
    }
    let release = read("proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let config = read(&format!("boot/config-{release}"))
        .or_else(|| read(&format!("lib/modules/{release}/config")))?;
    Some(
        config
            .lines()
            .any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_tick_is_one_that_kernels_have() {
        assert!((100..=1000).contains(&tick_hz()), "{}", tick_hz());
    }

    #[test]
    fn the_configuration_or_an_option_tells_of_irq_time() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let found = || irq_time_accounting(root.path());
        write("proc/cmdline", "root=/dev/vda quiet\n");
        write("proc/sys/kernel/osrelease", "7.3.4\n");
        assert_eq!(found(), None);
        write("lib/modules/7.3.4/config", "CONFIG_IRQ_TIME_ACCOUNTING=y\n");
        assert_eq!(found(), Some(true));
        write(
            "boot/config-7.3.4",
            "# CONFIG_IRQ_TIME_ACCOUNTING is not set\n",
        );
        assert_eq!(found(), Some(false));
        write(
            "boot/config-7.3.4",
            "CONFIG_HZ=250\nCONFIG_IRQ_TIME_ACCOUNTING=y\n",
        );
        assert_eq!(found(), Some(true));
        write("proc/cmdline", "root=/dev/vda tsc=noirqtime quiet\n");
        assert_eq!(found(), Some(false));
    }
}
