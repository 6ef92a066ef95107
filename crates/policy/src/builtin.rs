//! The presets (`policies/` in the source tree), and the search for a policy by name.

use crate::Policy;
use cage::text::quoted;
use machine::input::{self, BadInput};
use std::path::Path;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            concat!("policies/", $name, ".toml"),
            include_str!(concat!("../policies/", $name, ".toml")),
        )),*]
    };
}

/// The name, file and text of each preset. A preset comes after the preset that it extends; EEVDF and our own policies
/// come before the other designs.
const BUILTIN: &[(&str, &str, &str)] = builtin![
    "eevdf",
    "eevdf-6.12",
    "equipoise",
    "equipoise-performance",
    "equipoise-power",
    "cfs",
    "cfs-pelt",
    "capacity",
    "cfs-3.10",
    "newidle-limit",
    "powersaving",
    "schedutil-cfs",
    "schedutil",
    "linaro-mp",
    "hperf",
];

/// Today's Linux and our own policies, which are compared by default.
const USUAL: &[&str] = &[
    "eevdf",
    "equipoise",
    "equipoise-performance",
    "equipoise-power",
];

impl Policy {
    /// The names of the presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|&(name, ..)| name)
    }

    /// The presets to compare if none is named: the baseline, which is today's Linux, and our own policies.
    pub fn usual() -> impl Iterator<Item = &'static str> {
        USUAL.iter().copied()
    }

    /// The other presets: published designs, and earlier versions of Linux.
    pub fn published() -> impl Iterator<Item = &'static str> {
        Policy::names().filter(|name| !USUAL.contains(name))
    }

    /// The preset with this name, otherwise the policy in the file with this path. A name that has a slash or ends in
    /// `.toml` is always the name of a file. A preset may be followed by settings, as in a policy file:
    /// `capacity:newidle_limit_ns=5000000,misfit=false`.
    pub fn find(name_or_path: &str) -> Result<Policy, Box<BadInput>> {
        if let Some((name, settings)) = name_or_path.split_once(':')
            && preset(name).is_some()
        {
            return extended(name_or_path, name, settings);
        }
        if let Some((file, text)) = preset(name_or_path) {
            return Policy::parse(file, text);
        }
        let path = Path::new(name_or_path);
        let is_path = name_or_path.contains('/') || name_or_path == input::STDIN;
        if is_path || name_or_path.ends_with(".toml") || path.exists() {
            return Policy::load(path);
        }
        let expected = match name_or_path.starts_with("scx_") || name_or_path.ends_with(".c") {
            true => {
                format!("expected a policy; `--scheduler {name_or_path}` takes a scheduler in C")
            }
            false => format!(
                "{}, or the path of a policy file",
                input::one_of(name_or_path, Policy::names())
            ),
        };
        Err(Box::new(BadInput::whole(
            format!("no policy is called `{name_or_path}`"),
            expected,
        )))
    }

    /// This policy with the changes `settings`, each of the form `NAME=VALUE`. The name of a changed preset lists the
    /// changes: `capacity:misfit=false`.
    pub fn with<'a>(
        &self,
        settings: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Policy, Box<BadInput>> {
        let given: Vec<&str> = settings.clone().collect();
        let changed = self
            .settings
            .changed(&given.join(" "), &as_toml(settings))?;
        let base = self.name.split(':').next().unwrap_or(&self.name);
        let original = preset(base).map(|(file, text)| Policy::parse(file, text));
        let from = original
            .transpose()?
            .map_or_else(|| self.settings.clone(), |base| base.settings);
        let differing = from.list().zip(changed.list()).filter(|(a, b)| a != b);
        let differing: Vec<String> = differing
            .map(|(_, (setting, value))| format!("{}={}", setting.key, setting.show(value)))
            .collect();
        let colon = if differing.is_empty() { "" } else { ":" };
        Ok(Policy {
            name: format!("{base}{colon}{}", differing.join(",")),
            settings: changed,
            ..self.clone()
        })
    }

    /// The file of the preset `name`, if there is one.
    pub fn source(name: &str) -> Option<&'static str> {
        preset(name).map(|(_, text)| text)
    }

    /// The policy described in the file `path`.
    pub fn load(path: &Path) -> Result<Policy, Box<BadInput>> {
        let text = input::description(path, "policy file")?;
        Policy::parse(&input::shown(path), &text)
    }
}

/// The preset `base` with `settings` (`NAME=VALUE,...`), under the name `whole`.
fn extended(whole: &str, base: &str, settings: &str) -> Result<Policy, Box<BadInput>> {
    let base = Policy::find(base)?;
    let nothing = settings.split(',').find(|setting| setting.ends_with('='));
    if let Some(name) = nothing.map(|setting| setting.trim_end_matches('=')) {
        return Err(Box::new(BadInput::whole(
            format!("{whole}: `{name}` has no value"),
            format!("expected {name}=VALUE; `equipoise policy show` lists the settings"),
        )));
    }
    let text = as_toml(settings.split(','));
    Ok(Policy {
        name: whole.to_owned(),
        description: format!("{}; with {settings}", base.description),
        settings: base.settings.changed(whole, &text)?,
        scheduler: base.scheduler,
    })
}

/// Converts `settings`, each of the form `NAME=VALUE`, to lines of a policy file.
fn as_toml<'a>(settings: impl Iterator<Item = &'a str>) -> String {
    settings.map(|text| setting(text) + "\n").collect()
}

/// Converts `NAME=VALUE` to TOML. In `text` a word needs no quotes, because a shell would remove them.
fn setting(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    // A number with a unit, such as `3ms`, is a word, too; without quotes, the error would be about TOML.
    let amount = |value: &str| {
        value.starts_with(|c: char| c.is_ascii_digit())
            && value.ends_with(|c: char| c.is_ascii_alphabetic())
            && value.chars().all(|c| word(c) || c == '.')
            && !["0x", "0o", "0b"]
                .iter()
                .any(|base| value.starts_with(base))
    };
    match text.split_once('=') {
        Some((name, value))
            if (value.starts_with(|c: char| c.is_ascii_alphabetic())
                && value.chars().all(word)
                && !["true", "false"].contains(&value))
                || amount(value) =>
        {
            format!("{name}=\"{value}\"")
        }
        // A line must be exactly one setting.
        Some((name, value)) if text.contains(char::is_control) => {
            format!("{}={}", quoted(name), quoted(value))
        }
        None if text.contains(char::is_control) => quoted(text),
        _ => text.to_owned(),
    }
}

/// The file name and text of the preset `name`.
pub(crate) fn preset(name: &str) -> Option<(&'static str, &'static str)> {
    let (_, file, text) = BUILTIN.iter().find(|(preset, ..)| *preset == name)?;
    Some((file, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_sets_nothing_else() {
        let cfs = Policy::find("cfs").unwrap();
        for text in [
            "newidle_limit_ns=1\nload_tracking=\"pelt\"",
            "newidle_limit_ns\n=1",
            "load_tracking=\"pelt\"\r\nnewidle_limit_ns=1",
            "a\nb",
        ] {
            assert!(cfs.with([text].into_iter()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_number_with_a_unit_is_an_error_about_the_setting() {
        let cfs = Policy::find("cfs").unwrap();
        for value in ["3ms", "1.5ms", "3_000us"] {
            let text = format!("newidle_limit_ns={value}");
            let error = cfs.with([&*text].into_iter()).err().unwrap();
            let message = format!("newidle_limit_ns is \"{value}\"");
            assert!(error.message().contains(&message), "{error:?}");
            assert!(error.expected().contains("a whole number"), "{error:?}");
        }
        for value in ["3_000", "0xff"] {
            let text = format!("newidle_limit_ns={value}");
            assert!(cfs.with([&*text].into_iter()).is_ok(), "{value}");
        }
    }

    #[test]
    fn every_preset_is_well_formed_and_named_after_its_file() {
        for name in Policy::names() {
            let policy = Policy::find(name).unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(policy.name, name);
        }
    }

    #[test]
    fn the_usual_presets_exist_and_begin_with_the_baseline() {
        assert_eq!(Policy::usual().next(), Some("eevdf"));
        assert!(Policy::usual().all(|name| preset(name).is_some()));
        let both = Policy::usual().count() + Policy::published().count();
        assert_eq!(both, Policy::names().count());
    }

    #[test]
    fn each_design_adds_its_own_to_the_one_before() {
        let changes = |base: &str, name: &str| -> Vec<(&str, String)> {
            let [base, settings] = [base, name].map(|name| Policy::find(name).unwrap().settings);
            let changed = base.list().zip(settings.list()).filter(|(a, b)| a != b);
            let shown = changed.map(|(_, (setting, value))| (&*setting.key, setting.show(value)));
            shown.collect()
        };
        let expected = |changes: &[(&'static str, &str)]| -> Vec<(&str, String)> {
            let owned = changes.iter().map(|&(key, value)| (key, value.to_owned()));
            owned.collect()
        };
        assert_eq!(
            changes("cfs", "cfs-pelt"),
            expected(&[("load_tracking", "pelt")])
        );
        assert_eq!(
            changes("cfs-pelt", "capacity"),
            expected(&[("misfit", "true"), ("idle_pull", "true")])
        );
        assert_eq!(
            changes("cfs-3.10", "newidle-limit"),
            expected(&[("newidle_limit_ns", "5000000")])
        );
        assert_eq!(
            changes("cfs", "powersaving"),
            expected(&[("sched_balance_policy", "powersaving")])
        );
    }

    #[test]
    fn a_preset_takes_settings_of_ones_own() {
        for pelt in ["cfs:load_tracking=pelt", "cfs:load_tracking=\"pelt\""] {
            let settings = Policy::find(pelt).unwrap().settings;
            assert_eq!(settings.get("load_tracking"), Some(1));
        }
        let policy = Policy::find("capacity:newidle_limit_ns=5000000,misfit=false").unwrap();
        let mut expected = Policy::find("capacity").unwrap().settings;
        expected.set("newidle_limit_ns", 5_000_000);
        expected.set("misfit", 0);
        assert_eq!(policy.settings, expected);
        assert_eq!(
            policy.name,
            "capacity:newidle_limit_ns=5000000,misfit=false"
        );
        for wrong in [
            "cfs:misfit",
            "cfs:misfit=1",
            "cfs:no_such=1",
            "cfs:extends=\"cfs\"",
            "cfs:load_tracking=true",
            "cfs:load_tracking=wait",
        ] {
            let error = Policy::find(wrong).unwrap_err();
            assert!(error.message().starts_with(wrong), "{}", error.message());
        }
    }

    #[test]
    fn a_changed_policy_is_named_after_what_differs() {
        let policy = Policy::find("capacity:idle_pull=false").unwrap();
        let other = policy
            .with(["misfit=false", "idle_pull=true"].into_iter())
            .unwrap();
        assert_eq!(other.name, "capacity:misfit=false");
        assert_eq!(other.settings, Policy::find(&other.name).unwrap().settings);
        let same = other.with(["misfit=true"].into_iter()).unwrap();
        assert_eq!(same.settings, Policy::find("capacity").unwrap().settings);
        assert_eq!(same.name, "capacity");
        for (wrong, message) in [
            ("misfti=true", "misfti=true:1: unknown setting `misfti`"),
            ("extends=cfs", "extends=cfs:1: unknown setting `extends`"),
            ("misfit", "misfit:1: "),
            (
                "load_tracking=weight",
                "load_tracking=weight:1: misfit requires load_tracking = \"pelt\"",
            ),
        ] {
            let error = policy
                .with(["misfit=true", wrong].into_iter().skip(1))
                .unwrap_err();
            assert!(error.message().starts_with(message), "{}", error.message());
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Policy::find("o1").unwrap_err();
        assert!(error.message().contains("`o1`"));
        assert!(error.expected().contains("cfs-pelt"));
        assert!(
            Policy::find("no/such.toml")
                .unwrap_err()
                .message()
                .starts_with("no/such.toml: ")
        );
    }

    #[test]
    fn a_setting_without_a_value_is_named() {
        let error = Policy::find("cfs:misfit=").unwrap_err();
        assert_eq!(error.message(), "cfs:misfit=: `misfit` has no value");
        assert!(error.expected().starts_with("expected misfit=VALUE"));
    }
}
