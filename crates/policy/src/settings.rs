//! The settings of a policy: the table `scheduler/settings.def` and the tables of the schedulers' folders, in Rust.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

/// One setting of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name in a policy file, which ends in its unit, if it has one, such as `_ns`.
    pub key: String,
    /// The setting's meaning.
    pub meaning: &'static str,
    /// The permitted values.
    pub kind: Kind,
    /// The value in a policy that extends no other.
    pub default: u64,
    /// Whether the setting is in `struct tunables`, and so may change while the scheduler runs. Otherwise it is in
    /// `struct policy`.
    pub live: bool,
    /// The option without which a switch may not be true.
    pub requires: Option<Requirement>,
}

/// An option that another setting must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The name in C of the required option.
    pub option: &'static str,
    /// The reason for the requirement.
    pub why: &'static str,
}

/// The permitted values of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number within these bounds.
    Number {
        /// The bounds.
        range: RangeInclusive<u64>,
        /// Whether the number is for one CPU, and scales with the number of CPUs.
        scaled: bool,
    },
    /// `false` (0) or `true` (1).
    Switch,
    /// One of these options.
    Choice(Vec<Choice>),
}

/// A value with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The constant's name in C.
    pub name: &'static str,
    /// The constant's value in C.
    pub value: u64,
    /// The word in a policy file.
    pub word: &'static str,
    /// The meaning of the choice.
    pub meaning: &'static str,
}

enum Row {
    Number(
        &'static str,
        &'static str,
        u64,
        [u64; 2],
        bool,
        &'static str,
    ),
    Switch(&'static str, bool, &'static str),
    Choice(&'static str, &'static str, bool, &'static str),
    Option(Choice),
    Requires(Requirement),
}

macro_rules! row {
    (NS $name:ident, $default:literal, $least:literal, $most:literal, $($meaning:literal)+) => {
        Row::Number(stringify!($name), "_ns", $default, [$least, $most], false, concat!($($meaning),+))
    };
    (SCALED_NS $name:ident, $default:literal, $least:literal, $most:literal, $($meaning:literal)+) => {
        Row::Number(stringify!($name), "_ns", $default, [$least, $most], true, concat!($($meaning),+))
    };
    (NUMBER $name:ident, $default:literal, $least:literal, $most:literal, $($meaning:literal)+) => {
        Row::Number(stringify!($name), "", $default, [$least, $most], false, concat!($($meaning),+))
    };
    (SWITCH $name:ident, $default:literal, $($meaning:literal)+) => {
        Row::Switch(stringify!($name), $default, concat!($($meaning),+))
    };
    (CHOICE $name:ident, $default:ident, $($meaning:literal)+) => {
        Row::Choice(stringify!($name), stringify!($default), false, concat!($($meaning),+))
    };
    (LIVE_CHOICE $name:ident, $default:ident, $($meaning:literal)+) => {
        Row::Choice(stringify!($name), stringify!($default), true, concat!($($meaning),+))
    };
    (OPTION $name:ident, $value:literal, $word:literal, $($meaning:literal)+) => {
        Row::Option(Choice {
            name: stringify!($name),
            value: $value,
            word: $word,
            meaning: concat!($($meaning),+),
        })
    };
    (REQUIRES $option:ident, $($why:literal)+) => {
        Row::Requires(Requirement {
            option: stringify!($option),
            why: concat!($($why),+),
        })
    };
}

macro_rules! settings {
    ($($kind:ident($($column:tt)*))*) => { &[$(row!($kind $($column)*)),*] };
}

const TABLES: &[(&str, &[Row])] = include!(concat!(env!("OUT_DIR"), "/settings.rs"));

/// The settings of policies for `scheduler`, in the order of `struct policy` and `struct tunables`.
pub fn of(scheduler: &str) -> &'static [Setting] {
    static SETTINGS: OnceLock<Vec<Vec<Setting>>> = OnceLock::new();
    let all = SETTINGS.get_or_init(|| TABLES.iter().map(|(_, rows)| read(rows)).collect());
    let index = TABLES.iter().position(|(name, _)| *name == scheduler);
    &all[index.expect("every scheduler has a table")]
}

fn read(rows: &[Row]) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    // The C name of the default of the last CHOICE, until its OPTIONs have been read.
    let mut default_name = "";
    for row in rows {
        match *row {
            Row::Number(name, unit, default, [least, most], scaled, meaning) => {
                settings.push(Setting {
                    key: format!("{name}{unit}"),
                    meaning,
                    kind: Kind::Number {
                        range: least..=most,
                        scaled,
                    },
                    default,
                    live: true,
                    requires: None,
                });
            }
            Row::Switch(name, default, meaning) => settings.push(Setting {
                key: name.to_owned(),
                meaning,
                kind: Kind::Switch,
                default: default.into(),
                live: false,
                requires: None,
            }),
            Row::Choice(name, default, live, meaning) => {
                default_name = default;
                settings.push(Setting {
                    key: name.to_owned(),
                    meaning,
                    kind: Kind::Choice(Vec::new()),
                    default: 0,
                    live,
                    requires: None,
                });
            }
            Row::Option(choice) => {
                let Some(Setting {
                    kind: Kind::Choice(choices),
                    default,
                    ..
                }) = settings.last_mut()
                else {
                    panic!("an OPTION follows its CHOICE");
                };
                choices.push(choice);
                if choice.name == default_name {
                    *default = choice.value;
                }
            }
            Row::Requires(requirement) => {
                let last = settings.last_mut();
                let switch = last.filter(|last| last.kind == Kind::Switch);
                switch.expect("a REQUIRES follows its SWITCH").requires = Some(requirement);
            }
        }
    }
    settings
}

impl Setting {
    /// `value` as text.
    pub fn show(&self, value: u64) -> String {
        match &self.kind {
            Kind::Number { .. } => value.to_string(),
            Kind::Switch => (value != 0).to_string(),
            Kind::Choice(choices) => {
                let choice = choices.iter().find(|choice| choice.value == value);
                choice.map_or_else(|| value.to_string(), |choice| choice.word.to_owned())
            }
        }
    }

    /// `value` in TOML, as in a policy file: a word has quotes.
    pub fn toml(&self, value: u64) -> String {
        match &self.kind {
            Kind::Choice(_) => format!("{:?}", self.show(value)),
            _ => self.show(value),
        }
    }

    /// The value that a policy file gives the setting; `None` if the setting does not permit it.
    pub(crate) fn value(&self, given: &toml::Value) -> Option<u64> {
        match (&self.kind, given) {
            (Kind::Number { range, .. }, toml::Value::Integer(given)) => {
                u64::try_from(*given).ok().filter(|n| range.contains(n))
            }
            (Kind::Switch, toml::Value::Boolean(given)) => Some(u64::from(*given)),
            (Kind::Choice(choices), toml::Value::String(given)) => choices
                .iter()
                .find(|choice| choice.word == given)
                .map(|choice| choice.value),
            _ => None,
        }
    }

    /// The words that the setting may have as its value.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        match &self.kind {
            Kind::Number { .. } => Vec::new(),
            Kind::Switch => vec!["true", "false"],
            Kind::Choice(choices) => choices.iter().map(|choice| choice.word).collect(),
        }
    }

    pub(crate) fn expected(&self) -> String {
        match &self.kind {
            Kind::Number { range, .. } => {
                format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
            }
            Kind::Switch => "expected a boolean, true or false".to_owned(),
            Kind::Choice(choices) => {
                let words: Vec<String> = choices
                    .iter()
                    .map(|choice| format!("\"{}\" ({})", choice.word, choice.meaning))
                    .collect();
                format!("expected {}", words.join(", "))
            }
        }
    }
}

/// The values of all settings of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    table: &'static [Setting],
    values: Vec<u64>,
}

impl Settings {
    pub(crate) fn new(scheduler: &str) -> Settings {
        let table = of(scheduler);
        Settings {
            table,
            values: table.iter().map(|setting| setting.default).collect(),
        }
    }

    /// Each setting with its value, in the order of `struct policy` and `struct tunables`.
    pub fn list(&self) -> impl Iterator<Item = (&'static Setting, u64)> {
        self.table.iter().zip(self.values.iter().copied())
    }

    pub(crate) fn find(&self, key: &str) -> Option<&'static Setting> {
        self.table.iter().find(|setting| setting.key == key)
    }

    /// The value of the setting called `key`; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<u64> {
        let index = self.table.iter().position(|setting| setting.key == key)?;
        Some(self.values[index])
    }

    pub(crate) fn set(&mut self, key: &str, value: u64) {
        let index = self.table.iter().position(|setting| setting.key == key);
        self.values[index.expect("one of the table")] = value;
    }
}
