//! The scheduler's global variables, which are found by name in the object's BTF. The native
//! object's variables are found by its debugging information, so user space sets the same variables
//! in both objects.

use anyhow::{Context, Result, bail};
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::{AsRawLibbpf, OpenObject};
use native::Global;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

pub fn switched_on(symbol: &str) -> Global {
    Global {
        symbol: symbol.to_owned(),
        bytes: vec![1],
    }
}

/// Sets `globals` in an object that is not yet loaded.
pub fn set(object: &mut OpenObject, globals: &[Global]) -> Result<()> {
    let variables = variables(object)?;
    for Global { symbol, bytes } in globals {
        let Some((section, range)) = variables.get(symbol) else {
            bail!("the scheduler has no variable `{symbol}`");
        };
        if range.len() < bytes.len() {
            bail!(
                "the scheduler's `{symbol}` has {} bytes, fewer than {}",
                range.len(),
                bytes.len()
            );
        }
        // libbpf names the map of a section after the object and the section.
        let mut map = object
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(section.as_str()))
            .with_context(|| format!("the scheduler has no section {section}"))?;
        map.initial_value_mut()
            .and_then(|value| value.get_mut(range.start..range.start + bytes.len()))
            .with_context(|| format!("`{symbol}` is not within {section}"))?
            .copy_from_slice(bytes);
    }
    Ok(())
}

/// A variable of whole words, which the scheduler reads while they change.
///
/// # Safety
///
/// `T` has no padding.
pub unsafe fn words<T>(variable: &mut T) -> &[AtomicU64] {
    const { assert!(align_of::<T>() >= align_of::<AtomicU64>()) }
    let count = size_of::<T>() / size_of::<AtomicU64>();
    // SAFETY: the pointer is aligned, within the variable, and borrowed with it.
    unsafe { std::slice::from_raw_parts(std::ptr::from_mut(variable).cast(), count) }
}

pub fn has(object: &OpenObject, symbol: &str) -> Result<bool> {
    Ok(variables(object)?.contains_key(symbol))
}

/// The section of every global variable, and the variable's place in that section.
fn variables(object: &OpenObject) -> Result<HashMap<String, (String, Range<usize>)>> {
    // SAFETY: the pointer is the object's own and is not kept.
    let raw = unsafe { object.as_libbpf_object().as_ref() };
    let btf = Btf::from_bpf_object(raw)?.context("the scheduler has no BTF")?;
    let mut found = HashMap::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let section_name = name(&section);
        for entry in section.iter() {
            if let Some(variable) = btf.type_by_id::<Var<'_>>(entry.ty) {
                let start = entry.offset as usize;
                let place = (section_name.clone(), start..start + entry.size);
                found.insert(name(&variable), place);
            }
        }
    }
    Ok(found)
}

fn name(item: &BtfType<'_>) -> String {
    item.name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
