//! The costs of schedulers' callbacks.

use super::CallbacksFile;
use super::reader::Reader;
use crate::Callbacks;
use std::collections::BTreeMap;

impl Reader<'_> {
    pub(super) fn callbacks(
        &self,
        schedulers: &BTreeMap<String, CallbacksFile>,
    ) -> BTreeMap<String, Callbacks> {
        let read = |(name, file): (&String, _)| (name.clone(), self.callbacks_of(file));
        schedulers.iter().map(read).collect()
    }

    fn callbacks_of(&self, file: &CallbacksFile) -> Callbacks {
        let given = [
            &file.select_cpu,
            &file.enqueue,
            &file.dequeue,
            &file.dispatch,
            &file.tick,
            &file.runnable,
            &file.running,
            &file.stopping,
            &file.quiescent,
            &file.r#yield,
            &file.update_idle,
            &file.set_weight,
            &file.init_task,
            &file.exit_task,
            &file.enable,
            &file.disable,
            &file.sched_switch,
        ];
        Callbacks(given.map(|ns| self.cost_or_none(ns)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{CALLBACKS, Machine};

    const MACHINE: &str =
        "name = \"m\"\n[core.c]\n[[package]]\n[[package.cluster]]\ncore = \"c\"\ncpus = \"0-1\"\n";

    #[test]
    fn each_callback_has_its_own_cost() {
        let costs: String = CALLBACKS
            .iter()
            .enumerate()
            .map(|(i, name)| format!("{name} = {}\n", 100 + i))
            .collect();
        let file = format!("{MACHINE}[callbacks.scx_x]\nsource = \"made up\"\n{costs}");
        let machine = Machine::parse("m.toml", &file).unwrap();
        let expected: Vec<u64> = (0..CALLBACKS.len() as u64).map(|i| 100 + i).collect();
        assert_eq!(machine.callbacks["scx_x"].0.as_slice(), expected);
    }

    #[test]
    fn an_unknown_callback_is_an_error_with_its_line() {
        let file = format!("{MACHINE}[callbacks.scx_x]\nsource = \"made up\"\nselect = 1\n");
        let error = Machine::parse("m.toml", &file).unwrap_err();
        assert!(
            error.message().starts_with("m.toml:9: "),
            "{}",
            error.message()
        );
        assert!(error.message().contains("select"), "{}", error.message());
    }
}
