//! `--prefer auto`: the preference follows the platform profile, which a laptop's user or
//! power-profiles-daemon sets.

use crate::control::Control;
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const PROFILE: &str = "/sys/firmware/acpi/platform_profile";

/// The time to wait while another change of the policy is under way.
const AGAIN: Duration = Duration::from_secs(1);

pub struct Profile(File);

impl Profile {
    pub fn open() -> Result<Profile> {
        Profile::open_at(Path::new(PROFILE))
    }

    fn open_at(path: &Path) -> Result<Profile> {
        let file = File::open(path).with_context(|| {
            format!(
                "there is no platform profile to follow ({}); expected --prefer performance, balanced or power",
                path.display()
            )
        })?;
        Ok(Profile(file))
    }

    /// The current preference, which is a value of the setting `prefer`.
    pub fn preference(&mut self) -> Result<&'static str> {
        let mut profile = String::new();
        let read = self.0.rewind();
        read.and_then(|()| self.0.read_to_string(&mut profile))
            .context("cannot read the platform profile")?;
        Ok(preference(profile.trim()))
    }

    /// Waits until the profile has changed since the last reading (`sysfs_notify()`).
    fn wait(&self) -> Result<()> {
        let mut fds = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut fds, None).context("cannot watch the platform profile")?;
        Ok(())
    }

    /// Starts a thread that changes the policy with the profile until the process ends.
    pub fn follow(mut self, control: Arc<Control>) {
        thread::spawn(move || {
            let error = loop {
                let preferred = self.wait().and_then(|()| self.preference());
                match preferred {
                    Ok(word) => {
                        log::info!("the platform profile prefers {word}");
                        while !control.change(&format!("prefer={word}")) {
                            thread::sleep(AGAIN);
                        }
                    }
                    Err(error) => break error,
                }
            };
            log::warn!("no longer following the platform profile: {error:#}");
        });
    }
}

/// The setting `prefer` for a profile, which has the kernel's name (Documentation/ABI/testing/sysfs-platform_profile).
fn preference(profile: &str) -> &'static str {
    match profile {
        "low-power" | "cool" | "quiet" => "power",
        "balanced-performance" | "performance" | "max-power" => "performance",
        // This covers `balanced`, and `custom`, which has no fixed meaning.
        _ => "balanced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Policy;

    #[test]
    fn a_profile_is_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("platform_profile");
        let message = Profile::open_at(&path).err().unwrap().to_string();
        assert!(message.contains("no platform profile"), "{message}");
        for (name, expected) in [
            ("low-power\n", "power"),
            ("balanced\n", "balanced"),
            ("performance\n", "performance"),
            ("custom\n", "balanced"),
        ] {
            std::fs::write(&path, name).unwrap();
            let mut profile = Profile::open_at(&path).unwrap();
            assert_eq!(profile.preference().unwrap(), expected);
            assert_eq!(profile.preference().unwrap(), expected);
        }
    }

    #[test]
    fn the_preference_of_a_profile_is_a_value_of_the_setting() {
        let equipoise = Policy::find("equipoise").unwrap();
        for profile in ["quiet", "balanced", "performance"] {
            let change = format!("prefer={}", preference(profile));
            equipoise.with([&*change].into_iter()).unwrap();
        }
    }
}
