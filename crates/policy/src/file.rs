//! The policy file: its TOML shape, and the way in which one file extends another.
//!
//! ```toml
//! name = "eager"
//! description = "cfs-pelt that migrates more readily"
//! extends = "cfs-pelt"                # a preset; without it, `scheduler = "cfs"`, and the defaults of its tables
//! sched_migration_cost_ns = 100_000   # settings, as `equipoise policy show cfs` lists them
//! ```

use crate::settings::{Kind, Setting};
use crate::{Policy, Settings, builtin};
use machine::input::{self, BadInput};
use native::SCHEDULERS;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// The keys that are not settings.
#[derive(Deserialize)]
struct Head {
    name: Spanned<String>,
    description: String,
    extends: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
}

const HEAD: [&str; 4] = ["name", "description", "extends", "scheduler"];

impl Policy {
    /// The policy that `text`, the content of `file`, describes.
    pub fn parse(file: &str, text: &str) -> Result<Policy, Box<BadInput>> {
        let head: Head = input::from_toml(file, text)?;
        let reader = Reader { file, text };
        reader.name(&head.name)?;
        let base = head
            .extends
            .as_ref()
            .map(|base| reader.base(base))
            .transpose()?;
        let scheduler = reader.scheduler(&head, base.as_ref())?;
        let settings = base.map_or_else(|| Settings::new(scheduler), |base| base.settings);
        let settings = reader.settings(&settings, &HEAD)?;
        Ok(Policy {
            name: head.name.into_inner(),
            description: head.description,
            scheduler,
            settings,
        })
    }
}

impl Settings {
    /// These settings with the changes in `text`, which consists of those lines of a policy file that are settings.
    /// `name` is the text's name in messages.
    pub(crate) fn changed(&self, name: &str, text: &str) -> Result<Settings, Box<BadInput>> {
        Reader { file: name, text }.settings(self, &[])
    }
}

/// The file being read, for messages.
struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn bad<T>(
        &self,
        at: Range<usize>,
        message: String,
        expected: String,
    ) -> Result<T, Box<BadInput>> {
        Err(Box::new(BadInput::at(
            self.file, self.text, at, message, expected,
        )))
    }

    fn name(&self, name: &Spanned<String>) -> Result<(), Box<BadInput>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.get_ref().is_empty() || !name.get_ref().chars().all(plain) {
            return self.bad(
                name.span(),
                format!("`{}` cannot be a policy's name", name.get_ref()),
                "expected letters, digits, `-`, `_` and `.`".to_owned(),
            );
        }
        Ok(())
    }

    /// A preset extends only presets that come before it, so this recursion terminates.
    fn base(&self, base: &Spanned<String>) -> Result<Policy, Box<BadInput>> {
        match builtin::preset(base.get_ref()) {
            Some((file, text)) if file != self.file => Policy::parse(file, text),
            _ => self.bad(
                base.span(),
                format!("`{}` cannot be extended", base.get_ref()),
                input::one_of(base.get_ref(), Policy::names()),
            ),
        }
    }

    /// Determines the policy's scheduler. A policy that extends another one has the same scheduler, because settings
    /// belong to a scheduler.
    fn scheduler(&self, head: &Head, base: Option<&Policy>) -> Result<&'static str, Box<BadInput>> {
        let base = base.map(|base| base.scheduler);
        let Some(name) = &head.scheduler else {
            return match base {
                Some(base) => Ok(base),
                None => self.bad(
                    head.name.span(),
                    "`scheduler` is missing".to_owned(),
                    "expected `scheduler`, or `extends` with a policy that has a scheduler"
                        .to_owned(),
                ),
            };
        };
        let names: Vec<&'static str> = SCHEDULERS.iter().map(|&(name, _)| name).collect();
        let known = names.iter().find(|known| *known == name.get_ref());
        match known {
            Some(&known) if base.is_none_or(|base| base == known) => Ok(known),
            _ => self.bad(
                name.span(),
                format!("the scheduler is `{}`", name.get_ref()),
                input::one_of(name.get_ref(), base.map_or(names, |base| vec![base])),
            ),
        }
    }

    /// `base` with the changes of the file. Keys in `head` are not settings.
    fn settings(&self, base: &Settings, head: &[&str]) -> Result<Settings, Box<BadInput>> {
        let mut settings = base.clone();
        type Table = BTreeMap<Spanned<String>, Spanned<toml::Value>>;
        let table: Table = input::from_toml(self.file, self.text)?;
        let mut given: Vec<_> = table
            .iter()
            .filter(|(key, _)| !head.contains(&key.get_ref().as_str()))
            .collect();
        given.sort_by_key(|(key, _)| key.span().start);
        for &(key, value) in &given {
            let Some(setting) = settings.find(key.get_ref()) else {
                let known = settings.list().map(|(setting, _)| setting.key.as_str());
                return self.bad(
                    key.span(),
                    format!("unknown setting `{}`", key.get_ref()),
                    input::one_of(key.get_ref(), known),
                );
            };
            match setting.value(value.get_ref()) {
                Some(value) => settings.set(&setting.key, value),
                None => {
                    return self.bad(
                        value.span(),
                        format!("{} is {}", setting.key, value.get_ref()),
                        match value.get_ref().as_str() {
                            Some(word) => {
                                input::suggest(word, setting.words(), &setting.expected())
                            }
                            None => setting.expected(),
                        },
                    );
                }
            }
        }
        let places: Vec<_> = given
            .iter()
            .map(|(key, _)| (key.get_ref().as_str(), key.span()))
            .collect();
        self.needs(&settings, &places)?;
        Ok(settings)
    }

    /// Checks that the settings which each setting requires have the required values. `given` has the places of the
    /// file's settings, in order.
    fn needs(
        &self,
        settings: &Settings,
        given: &[(&str, Range<usize>)],
    ) -> Result<(), Box<BadInput>> {
        for (switch, value) in settings.list() {
            let Some(requirement) = switch.requires.filter(|_| value != 0) else {
                continue;
            };
            let option = |setting: &Setting| match &setting.kind {
                Kind::Choice(choices) => {
                    let mut choices = choices.iter();
                    choices
                        .find(|choice| choice.name == requirement.option)
                        .copied()
                }
                _ => None,
            };
            let mut all = settings.list();
            let found = all.find_map(|(other, has)| Some((other, has, option(other)?)));
            let Some((other, has, choice)) = found.filter(|(_, has, choice)| *has != choice.value)
            else {
                continue;
            };
            // The extended policy has been checked, so the file must name one of the two settings.
            let (key, named) = (&*switch.key, &*other.key);
            let at = given.iter().rfind(|(name, _)| [key, named].contains(name));
            return self.bad(
                at.map_or(0..0, |(_, at)| at.clone()),
                format!(
                    "{key} requires {named} = \"{}\", but it is \"{}\"",
                    choice.word,
                    other.show(has)
                ),
                format!(
                    "expected {named} = \"{}\" with {key}: {}",
                    choice.word, requirement.why
                ),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, Box<BadInput>> {
        Policy::parse(
            "p.toml",
            &format!("name = \"p\"\ndescription = \"d\"\n{text}\n"),
        )
    }

    #[test]
    fn an_extension_changes_what_it_names_alone() {
        let policy =
            parse("extends = \"capacity\"\nidle_pull = false\nsched_latency_ns = 20_000_000")
                .unwrap();
        let mut expected = Policy::find("capacity").unwrap().settings;
        expected.set("idle_pull", 0);
        expected.set("sched_latency_ns", 20_000_000);
        assert_eq!(policy.settings, expected);
    }

    /// "The patches requires load-balancing to be based on entity load-tracking".
    #[test]
    fn misfit_needs_load_tracking() {
        for (text, line) in [
            ("extends = \"cfs\"\nidle_pull = true\nmisfit = true", 5),
            ("extends = \"capacity\"\nload_tracking = \"weight\"", 4),
            (
                "scheduler = \"cfs\"\nload_tracking = \"weight\"\nmisfit = true",
                5,
            ),
        ] {
            let error = parse(text).unwrap_err();
            let message = format!(
                "p.toml:{line}: misfit requires load_tracking = \"pelt\", but it is \"weight\""
            );
            assert_eq!(error.message(), message, "{text}");
            assert!(error.expected().contains("load_tracking = \"pelt\""));
        }
        for text in [
            "extends = \"cfs\"\nmisfit = true\nload_tracking = \"pelt\"",
            "extends = \"cfs\"\nidle_pull = true",
            "extends = \"capacity\"\nmisfit = false\nload_tracking = \"weight\"",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    /// In the posting, kernel/sysctl.c has only a lower bound (`extra1 = &zero`) for sched_idle_balance_limit.
    #[test]
    fn the_limit_of_newidle_balancing_is_any_int() {
        let limit = |ns: u64| parse(&format!("extends = \"cfs\"\nnewidle_limit_ns = {ns}"));
        let policy = limit(2_147_483_647).unwrap();
        assert_eq!(policy.settings.get("newidle_limit_ns"), Some(2_147_483_647));
        assert!(limit(2_147_483_648).is_err());
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        let cases = [
            (
                "extends = \"cfs\"\nmisfti = true",
                "p.toml:4: unknown setting `misfti`",
                "misfit",
            ),
            ("extends = \"cfs\"\nmisfit = 1", "p.toml:4: ", "a boolean"),
            (
                "extends = \"o1\"",
                "p.toml:3: `o1` cannot be extended",
                "cfs-pelt",
            ),
            (
                "extends = \"cfs\"\n\nsched_nr_migrate = 0",
                "p.toml:5: sched_nr_migrate is 0",
                "1 to 1024",
            ),
            (
                "extends = \"cfs\"\nload_tracking = \"wait\"",
                "p.toml:4: ",
                "pelt",
            ),
            (
                "misfit = true",
                "p.toml:1: `scheduler` is missing",
                "extends",
            ),
            (
                "extends = \"cfs\"\nmisfit = 2000-01-01",
                "p.toml:4: misfit is 2000-01-01",
                "a boolean",
            ),
            (
                "extends = \"cfs\"\nnewidle_limit_ns = -1",
                "p.toml:4: newidle_limit_ns is -1",
                "0 to 2147483647",
            ),
            (
                "scheduler = \"o1\"",
                "p.toml:3: the scheduler is `o1`",
                "cfs",
            ),
            ("misfit = ", "p.toml:3: ", "expected"),
        ];
        for (text, message, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(
                error.message().starts_with(message),
                "{text}: {}",
                error.message()
            );
            assert!(
                format!("{} {}", error.message(), error.expected()).contains(expected),
                "{text}: {} {}",
                error.message(),
                error.expected()
            );
        }
        let nameless = Policy::parse(
            "p.toml",
            "name = \"\"\ndescription = \"\"\nextends = \"cfs\"\n",
        );
        assert!(nameless.unwrap_err().message().starts_with("p.toml:1: "));
    }
}
