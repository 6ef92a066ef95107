//! Kfuncs on maps, timers and memory, and functions that only the simulated kernel has.

use super::checks::status;
use crate::abi::args::{Bytes, ForEach, FromC};
use crate::abi::layout::{self as abi, BpfTimer, Map};
use crate::abi::maps::MapVariable;
use crate::abi::objects::{release, zeroed};
use crate::abi::timers;
use crate::events::What;
use crate::kernel::Kernel;
use crate::scx::call::call;
use crate::{EXPLAINED_NUMBERS, Event};
use machine::CpuMask;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// The words of the value of `key` that are a timer or a pointer to an object (`__kptr`). In an array, an update leaves
/// them alone (`copy_map_value()`); in a hash, a new value without them replaces the old one (`check_and_free_fields()`).
fn special_words(
    kernel: &mut Kernel<'_>,
    map: &Map,
    cpu: usize,
    key: &[u8],
) -> Vec<(*mut u64, u64)> {
    let instance = &mut kernel.bpf.instance;
    let value = instance.maps.lookup(map, cpu, key).cast::<u64>();
    let words = match value.is_null() {
        true => 0,
        false => map.value_size as usize / 8,
    };
    let words = (0..words).map(|index| value.wrapping_add(index));
    // SAFETY: a value is aligned, and has these words.
    let words = words.map(|at| (at, unsafe { at.read() }));
    let (timers, objects) = (&kernel.bpf.timers, &instance.objects);
    let is_special =
        |&(at, word): &(*mut u64, u64)| timers.has(at.addr(), word) || objects.has(word as usize);
    words.filter(is_special).collect()
}

kfuncs! {
    fn storage_get(
        _kernel,
        map: &Map,
        slot: &Cell<*mut c_void>,
        init: Bytes,
        _flags: u64
    ) -> *mut c_void {
        let storage = zeroed(map.value_size as usize);
        if storage.is_null() {
            return storage;
        }
        init.copy_to(map, storage.cast());
        slot.set(storage);
        storage
    }

    fn storage_delete(_kernel, _map: &Map, slot: &Cell<*mut c_void>) {
        release(slot.replace(null_mut()));
    }

    fn map_lookup(kernel, map: &Map, cpu: u32, key: Bytes) -> *mut u8 {
        kernel.bpf.instance.maps.lookup(map, cpu as usize, key.key(map))
    }

    fn map_update(kernel, map: &Map, key: Bytes, value: Bytes, flags: u64) -> i64 {
        let (cpu, key) = (kernel.this_cpu(), key.key(map));
        let special = special_words(kernel, map, cpu, key);
        let maps = &mut kernel.bpf.instance.maps;
        let updated = maps.update(map, cpu, key, value.value(map), flags);
        if updated.is_ok() {
            let replaces = maps.is_hash(map);
            for (at, word) in special {
                // SAFETY: the words are in the value, which stays where it is.
                unsafe { at.write(if replaces { 0 } else { word }) };
                let timer = BpfTimer { id: word, reserved: 0 };
                if replaces && kernel.bpf.timers.cancel(&timer).is_err() {
                    kernel.bpf.instance.objects.free(with_exposed_provenance_mut(word as usize));
                }
            }
        }
        status(updated)
    }

    fn map_delete(kernel, map: &Map, key: Bytes) -> i64 {
        status(kernel.bpf.instance.maps.delete(map, key.key(map)))
    }

    fn map_push(kernel, map: &Map, value: Bytes, flags: u64) -> i64 {
        status(kernel.bpf.instance.maps.push(map, value.value(map), flags))
    }

    fn map_pop(kernel, map: &Map, value: Bytes, stay: bool) -> i64 {
        status(kernel.bpf.instance.maps.pop(map, value.value(map), stay))
    }

    /// Calls `callback` for each entry until a callback returns a value other than 0.
    fn map_for_each(
        kernel,
        map: &Map,
        variable: MapVariable,
        callback: ForEach,
        context: *mut c_void
    ) -> i64 {
        let cpu = kernel.this_cpu();
        let entries = match kernel.bpf.instance.maps.entries(map, cpu) {
            Ok(entries) => entries,
            Err(errno) => return -i64::from(errno),
        };
        let mut seen = 0;
        for (mut key, value) in entries {
            seen += 1;
            if call!(kernel, callback, variable.0, key.as_mut_ptr(), value, context) != 0 {
                break;
            }
        }
        seen
    }

    fn timer_init(kernel, timer: &mut BpfTimer, map: MapVariable, clock: u64) -> i64 {
        let address = std::ptr::from_ref(timer).addr();
        let clocks = [abi::CLOCK_REALTIME, abi::CLOCK_MONOTONIC, abi::CLOCK_BOOTTIME];
        if !clocks.contains(&clock) {
            return -i64::from(abi::EINVAL);
        }
        if kernel.bpf.instance.maps.entry_around(map.map(), address).is_none() {
            kernel.verifier_error("has a timer that is not in a value of its map");
            return -i64::from(abi::EINVAL);
        }
        status(kernel.bpf.timers.init(timer, map))
    }

    fn timer_set_callback(
        kernel,
        timer: &mut BpfTimer,
        callback: Option<timers::Callback>
    ) -> i64 {
        let context = kernel.scx.context.mask;
        status(kernel.bpf.timers.set_callback(timer, callback, context))
    }

    fn timer_start(kernel, timer: &mut BpfTimer, ns: u64, flags: u64) -> i64 {
        let (cpu, now) = (kernel.this_cpu(), kernel.now());
        let started = kernel.bpf.timers.start(timer, cpu, now, ns, flags);
        status(started.map(|(at, expiry)| kernel.events.push(at, What::BpfTimer(expiry))))
    }

    /// Returns 1 if the timer was running, as `hrtimer_cancel()` does.
    fn timer_cancel(kernel, timer: &mut BpfTimer) -> i64 {
        match kernel.bpf.timers.cancel(timer) {
            Ok(running) => running.into(),
            Err(errno) => -i64::from(errno),
        }
    }

    fn alloc(kernel, size: u64) -> *mut c_void {
        kernel.bpf.instance.objects.alloc(size as usize)
    }

    /// `bpf_refcount_acquire()`.
    fn keep(kernel, object: *mut c_void) {
        if !kernel.bpf.instance.objects.keep(object) {
            kernel.verifier_error("uses an object that does not exist, or no longer exists");
        }
    }

    fn free(kernel, object: *mut c_void) {
        if !kernel.bpf.instance.objects.free(object) {
            kernel.verifier_error("releases an object that does not exist, or no longer exists");
        }
    }

    fn random(kernel) -> u32 {
        kernel.rng.bits() as u32
    }

    /// `sd_llc_id`: the first of the CPUs that share `cpu`'s last-level cache; -1 if the machine has no CPU `cpu`.
    fn llc_id(kernel, cpu: i32) -> i32 {
        let Ok(cpu) = usize::try_from(cpu) else {
            return -1;
        };
        let caches = kernel.machine.last_level_caches();
        let cache = caches.iter().find(|span| span.contains(cpu));
        cache.and_then(CpuMask::first).map_or(-1, |first| first as i32)
    }

    /// The time for which `cpu` has been busy (`/proc/stat`), in ns, for a loader's part; 0 if the machine has no CPU
    /// `cpu`.
    fn busy_ns(kernel, cpu: i32) -> u64 {
        let known = (cpu as u32 as usize) < kernel.machine.cpus.len();
        let now = kernel.now();
        if known { kernel.cpus[cpu as usize].busy_until(now) } else { 0 }
    }

    fn explain(kernel, decision: u32, pid: i32, cpu: i32, numbers: &[i64; EXPLAINED_NUMBERS]) {
        if kernel.trace.is_none() {
            return;
        }
        let task = kernel.task(pid);
        let event = Event::Decision {
            decision,
            task: task.as_ref().map(|task| (&*task.name, pid)),
            waited_for: task.as_ref().map_or("nothing", |task| task.waits_for.get()),
            cpu: usize::try_from(cpu).ok(),
            numbers,
        };
        kernel.traced(kernel.this_cpu(), event);
    }
}
