//! The policy file: its TOML shape, and how one extends another.
//!
//! ```toml
//! name = "eager"
//! description = "cfs-pelt that migrates more readily"
//! extends = "cfs-pelt"                # a preset; without it `scheduler` and every setting must be given
//! sched_migration_cost_ns = 100_000   # settings as in policies/cfs.toml
//! ```

use crate::{
    BalancePolicy, Hmp, LoadTracking, Policy, RtCapacity, Settings, TunableScaling, builtin,
};
use machine::input::{self, BadInput};
use native::SCHEDULERS;
use serde::Deserialize;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    name: Spanned<String>,
    description: String,
    extends: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
    sched_latency_ns: Option<Spanned<u64>>,
    sched_min_granularity_ns: Option<Spanned<u64>>,
    sched_wakeup_granularity_ns: Option<Spanned<u64>>,
    tunable_scaling: Option<TunableScaling>,
    sched_migration_cost_ns: Option<Spanned<u64>>,
    sched_nr_migrate: Option<Spanned<u64>>,
    load_tracking: Option<LoadTracking>,
    misfit: Option<bool>,
    idle_pull: Option<bool>,
    newidle_limit_ns: Option<Spanned<u64>>,
    sched_balance_policy: Option<BalancePolicy>,
    sched_burst_threshold_ns: Option<Spanned<u64>>,
    frequency: Option<bool>,
    frequency_rt: Option<bool>,
    frequency_dl: Option<bool>,
    frequency_irq: Option<bool>,
    frequency_rate_limit_ns: Option<Spanned<u64>>,
    scale_rt_capacity: Option<RtCapacity>,
    wake_affine_idle: Option<bool>,
    hmp: Option<Hmp>,
    hmp_up_threshold: Option<Spanned<u64>>,
    hmp_down_threshold: Option<Spanned<u64>>,
    hmp_full_threshold: Option<Spanned<u64>>,
    hmp_next_up_ns: Option<Spanned<u64>>,
    hmp_next_down_ns: Option<Spanned<u64>>,
}

/// The kernel's bounds of the granularities (`min_sched_granularity_ns`, kernel/sysctl.c).
const GRANULARITY_NS: RangeInclusive<u64> = 100_000..=1_000_000_000;
/// Its bounds of the wakeup granularity; the migration cost and the limit have none there.
const UP_TO_A_SECOND_NS: RangeInclusive<u64> = 0..=1_000_000_000;
/// Of a task's or a runqueue's runnable average (`hmp_theshold_from_sysfs()` of Linaro's kernel).
const HMP_THRESHOLD: RangeInclusive<u64> = 0..=1024;
/// A pass holds the runqueues' attention for as long as this many tasks take.
const NR_MIGRATE: RangeInclusive<u64> = 1..=1024;

impl Policy {
    /// The policy that `text`, the content of `file`, describes.
    pub fn parse(file: &str, text: &str) -> Result<Policy, Box<BadInput>> {
        let policy: PolicyFile = input::from_toml(file, text)?;
        let reader = Reader { file, text };
        reader.name(&policy.name)?;
        let base = policy
            .extends
            .as_ref()
            .map(|base| reader.base(base))
            .transpose()?;
        let scheduler = reader.scheduler(&policy, base.as_ref())?;
        let settings = reader.settings(&policy, base.map(|base| base.settings))?;
        Ok(Policy {
            name: policy.name.into_inner(),
            description: policy.description,
            scheduler,
            settings,
        })
    }
}

/// The file being read, for what has to be said about it.
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

    /// Presets only extend presets that come before them, so this ends.
    fn base(&self, base: &Spanned<String>) -> Result<Policy, Box<BadInput>> {
        match builtin::preset(base.get_ref()) {
            Some((file, text)) if file != self.file => Policy::parse(file, text),
            _ => self.bad(
                base.span(),
                format!("`{}` cannot be extended", base.get_ref()),
                builtin::expected_names(),
            ),
        }
    }

    /// What extends a policy is for the same scheduler: its settings are that one's.
    fn scheduler(
        &self,
        policy: &PolicyFile,
        base: Option<&Policy>,
    ) -> Result<&'static str, Box<BadInput>> {
        let base = base.map(|base| base.scheduler);
        let Some(name) = &policy.scheduler else {
            return self.given(base, policy, "scheduler");
        };
        let known = SCHEDULERS.iter().find(|known| *known == name.get_ref());
        match known {
            Some(&known) if base.is_none_or(|base| base == known) => Ok(known),
            _ => self.bad(
                name.span(),
                format!("the scheduler is `{}`", name.get_ref()),
                format!("expected {}", base.unwrap_or(&SCHEDULERS.join(" or "))),
            ),
        }
    }

    fn settings(
        &self,
        policy: &PolicyFile,
        base: Option<Settings>,
    ) -> Result<Settings, Box<BadInput>> {
        let number =
            |value: &Option<Spanned<u64>>, what: &str, range, base: Option<u64>| match value {
                Some(value) => self.within(value, what, range),
                None => self.given(base, policy, what),
            };
        Ok(Settings {
            sched_latency_ns: number(
                &policy.sched_latency_ns,
                "sched_latency_ns",
                GRANULARITY_NS,
                base.map(|base| base.sched_latency_ns),
            )?,
            sched_min_granularity_ns: number(
                &policy.sched_min_granularity_ns,
                "sched_min_granularity_ns",
                GRANULARITY_NS,
                base.map(|base| base.sched_min_granularity_ns),
            )?,
            sched_wakeup_granularity_ns: number(
                &policy.sched_wakeup_granularity_ns,
                "sched_wakeup_granularity_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.sched_wakeup_granularity_ns),
            )?,
            tunable_scaling: self.given(
                policy
                    .tunable_scaling
                    .or(base.map(|base| base.tunable_scaling)),
                policy,
                "tunable_scaling",
            )?,
            sched_migration_cost_ns: number(
                &policy.sched_migration_cost_ns,
                "sched_migration_cost_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.sched_migration_cost_ns),
            )?,
            sched_nr_migrate: number(
                &policy.sched_nr_migrate,
                "sched_nr_migrate",
                NR_MIGRATE,
                base.map(|base| base.sched_nr_migrate.into()),
            )? as u32,
            load_tracking: self.given(
                policy.load_tracking.or(base.map(|base| base.load_tracking)),
                policy,
                "load_tracking",
            )?,
            misfit: self.given(
                policy.misfit.or(base.map(|base| base.misfit)),
                policy,
                "misfit",
            )?,
            idle_pull: self.given(
                policy.idle_pull.or(base.map(|base| base.idle_pull)),
                policy,
                "idle_pull",
            )?,
            newidle_limit_ns: number(
                &policy.newidle_limit_ns,
                "newidle_limit_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.newidle_limit_ns),
            )?,
            sched_balance_policy: self.given(
                policy
                    .sched_balance_policy
                    .or(base.map(|base| base.sched_balance_policy)),
                policy,
                "sched_balance_policy",
            )?,
            sched_burst_threshold_ns: number(
                &policy.sched_burst_threshold_ns,
                "sched_burst_threshold_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.sched_burst_threshold_ns),
            )?,
            frequency: self.given(
                policy.frequency.or(base.map(|base| base.frequency)),
                policy,
                "frequency",
            )?,
            frequency_rt: self.given(
                policy.frequency_rt.or(base.map(|base| base.frequency_rt)),
                policy,
                "frequency_rt",
            )?,
            frequency_dl: self.given(
                policy.frequency_dl.or(base.map(|base| base.frequency_dl)),
                policy,
                "frequency_dl",
            )?,
            frequency_irq: self.given(
                policy.frequency_irq.or(base.map(|base| base.frequency_irq)),
                policy,
                "frequency_irq",
            )?,
            frequency_rate_limit_ns: number(
                &policy.frequency_rate_limit_ns,
                "frequency_rate_limit_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.frequency_rate_limit_ns),
            )?,
            scale_rt_capacity: self.given(
                policy
                    .scale_rt_capacity
                    .or(base.map(|base| base.scale_rt_capacity)),
                policy,
                "scale_rt_capacity",
            )?,
            wake_affine_idle: self.given(
                policy
                    .wake_affine_idle
                    .or(base.map(|base| base.wake_affine_idle)),
                policy,
                "wake_affine_idle",
            )?,
            hmp: self.given(policy.hmp.or(base.map(|base| base.hmp)), policy, "hmp")?,
            hmp_up_threshold: number(
                &policy.hmp_up_threshold,
                "hmp_up_threshold",
                HMP_THRESHOLD,
                base.map(|base| base.hmp_up_threshold.into()),
            )? as u32,
            hmp_down_threshold: number(
                &policy.hmp_down_threshold,
                "hmp_down_threshold",
                HMP_THRESHOLD,
                base.map(|base| base.hmp_down_threshold.into()),
            )? as u32,
            hmp_full_threshold: number(
                &policy.hmp_full_threshold,
                "hmp_full_threshold",
                HMP_THRESHOLD,
                base.map(|base| base.hmp_full_threshold.into()),
            )? as u32,
            hmp_next_up_ns: number(
                &policy.hmp_next_up_ns,
                "hmp_next_up_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.hmp_next_up_ns),
            )?,
            hmp_next_down_ns: number(
                &policy.hmp_next_down_ns,
                "hmp_next_down_ns",
                UP_TO_A_SECOND_NS,
                base.map(|base| base.hmp_next_down_ns),
            )?,
        })
    }

    fn given<T>(
        &self,
        value: Option<T>,
        policy: &PolicyFile,
        what: &str,
    ) -> Result<T, Box<BadInput>> {
        match value {
            Some(value) => Ok(value),
            None => self.bad(
                policy.name.span(),
                format!("`{what}` is missing"),
                format!("expected `{what}`, or `extends = ` a policy that has it"),
            ),
        }
    }

    fn within(
        &self,
        value: &Spanned<u64>,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Box<BadInput>> {
        if range.contains(value.get_ref()) {
            return Ok(*value.get_ref());
        }
        self.bad(
            value.span(),
            format!("{what} is {}", value.get_ref()),
            format!("expected {} to {}", range.start(), range.end()),
        )
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
        let capacity = Policy::find("capacity").unwrap().settings;
        let expected = Settings {
            idle_pull: false,
            sched_latency_ns: 20_000_000,
            ..capacity
        };
        assert_eq!(policy.settings, expected);
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        let cases = [
            ("extends = \"cfs\"\nmisfti = true", "p.toml:4: ", "misfit"),
            ("extends = \"cfs\"\nmisfit = 1", "p.toml:4: ", "a boolean"),
            (
                "extends = \"eevdf\"",
                "p.toml:3: `eevdf` cannot be extended",
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
                "scheduler = \"cfs\"\nmisfit = true",
                "p.toml:1: `sched_latency_ns` is missing",
                "extends",
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
