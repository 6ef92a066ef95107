//! `bpf_timer`s.

use crate::abi::instance::Instance;
use crate::abi::layout::{self as abi, BpfTimer, Map};
use crate::events::What;
use crate::kernel::Kernel;
use crate::scx::call::kf;
use std::ffi::c_void;

/// One initialised timer.
pub struct Timer {
    timer: *mut BpfTimer,
    map: *mut c_void,
    callback: *mut c_void,
    /// The CPU that started it.
    cpu: usize,
    /// Changes with each start and cancellation; an expiry of an older one is void.
    generation: u32,
    active: bool,
}

impl Kernel<'_> {
    pub fn timer_init(&mut self, timer: *mut BpfTimer, map: *mut c_void) -> i64 {
        // SAFETY: C passes a timer of a map value.
        let id = unsafe { &mut (*timer).id };
        if *id != 0 {
            return -i64::from(abi::EBUSY);
        }
        self.bpf.timers.push(Timer {
            timer,
            map,
            callback: std::ptr::null_mut(),
            cpu: 0,
            generation: 0,
            active: false,
        });
        *id = self.bpf.timers.len() as u64;
        0
    }

    fn timer(&mut self, timer: *mut BpfTimer) -> Option<(usize, &mut Timer)> {
        // SAFETY: as above. Ids begin at 1; 0 is a timer that was not initialised.
        let index = unsafe { (*timer).id }.checked_sub(1)? as usize;
        self.bpf.timers.get_mut(index).map(|timer| (index, timer))
    }

    pub fn timer_set_callback(&mut self, timer: *mut BpfTimer, callback: *mut c_void) -> i64 {
        match self.timer(timer) {
            Some((_, timer)) => {
                timer.callback = callback;
                0
            }
            None => -i64::from(abi::EINVAL),
        }
    }

    pub fn timer_start(&mut self, timer: *mut BpfTimer, ns: u64, flags: u64) -> i64 {
        if flags & !(abi::TIMER_ABS | abi::TIMER_CPU_PIN) != 0 {
            return -i64::from(abi::EINVAL);
        }
        let (now, cpu) = (self.now(), self.this_cpu());
        let Some((index, timer)) = self
            .timer(timer)
            .filter(|(_, timer)| !timer.callback.is_null())
        else {
            return -i64::from(abi::EINVAL);
        };
        timer.cpu = cpu;
        timer.active = true;
        timer.generation = timer.generation.wrapping_add(1);
        let generation = timer.generation;
        let at = if flags & abi::TIMER_ABS != 0 {
            ns.max(now)
        } else {
            now.saturating_add(ns)
        };
        self.events.push(
            at,
            What::BpfTimer {
                timer: index as u32,
                generation,
            },
        );
        0
    }

    /// Returns 1 if it was running, as `hrtimer_cancel()` does.
    pub fn timer_cancel(&mut self, timer: *mut BpfTimer) -> i64 {
        match self.timer(timer) {
            Some((_, timer)) => {
                timer.generation = timer.generation.wrapping_add(1);
                i64::from(std::mem::take(&mut timer.active))
            }
            None => -i64::from(abi::EINVAL),
        }
    }

    /// A timer expires: its callback runs in softirq context of the CPU that started it.
    pub fn bpf_timer_expired(&mut self, index: usize, generation: u32) {
        let timer = &mut self.bpf.timers[index];
        if !timer.active || timer.generation != generation {
            return;
        }
        timer.active = false;
        let (cpu, callback, map) = (timer.cpu, timer.callback, timer.map);
        let timer = timer.timer.cast::<u8>();
        // SAFETY: the map variable that the timer was initialised with.
        let runtime: &Map = unsafe { &*Instance::map_of(map) };
        let Some((mut key, value)) = self.entry_around(runtime, timer) else {
            return;
        };
        self.enter(cpu);
        self.charge_irq(cpu, self.cpus[cpu].costs.timer_irq_ns);
        // SAFETY: bpf_timer's callback type.
        let timer_callback: unsafe extern "C" fn(*mut c_void, *mut u8, *mut u8) -> i32 =
            unsafe { std::mem::transmute(callback) };
        crate::scx::call::call_op!(
            self,
            kf::UNLOCKED,
            timer_callback,
            map,
            key.as_mut_ptr(),
            value
        );
        self.leave(cpu);
    }
}
