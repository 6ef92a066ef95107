//! The energy of the comparison.

use super::Energy;
use super::lanes::kind_of;
use crate::number::number;
use crate::{Cell, Table};
use lab::Comparison;
use simulator::Part;

/// The mean energy of a run under each policy; `None` if power is not known.
pub(super) fn energy(comparison: &Comparison, names: &[&str]) -> Option<Energy> {
    let machine = &comparison.machine;
    let kind = |part: Part| kind_of(machine, part);
    let parts = &comparison
        .measured
        .first()?
        .runs
        .first()?
        .energy
        .as_ref()?
        .parts;
    let mut kinds: Vec<String> = Vec::new();
    for &(part, _) in parts {
        let kind = kind(part);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let measured = names.iter().zip(&comparison.measured);
    let policies: Vec<(String, Vec<f64>)> = measured
        .map(|(name, measured)| {
            let of = |wanted: &String| measured.mean_energy_j(|part| kind(part) == *wanted);
            let joules = kinds.iter().map(|kind| of(kind).unwrap_or(0.0));
            ((*name).to_owned(), joules.collect())
        })
        .collect();
    let row = |name: &str, joules: &dyn Fn(&[f64]) -> f64| -> Vec<Cell> {
        let cells = policies.iter().map(|(_, all)| number(joules(all)).into());
        std::iter::once(name.into()).chain(cells).collect()
    };
    let mut rows: Vec<Vec<Cell>> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| row(kind, &|joules| joules[index]))
        .collect();
    rows.push(row("all", &|joules| joules.iter().sum()));
    let mut header = vec!["part".to_owned()];
    header.extend(names.iter().map(|name| (*name).to_owned()));
    let table = Table {
        title: "Energy by part, J, mean of the runs".to_owned(),
        header,
        text_columns: 1,
        rows,
        ..Table::default()
    };
    Some(Energy {
        kinds,
        policies,
        table,
    })
}
