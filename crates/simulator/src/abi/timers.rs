//! `bpf_timer`s.

use crate::abi::layout::{self as abi, BpfTimer, Map};
use crate::abi::maps::MapVariable;

/// A timer's callback, which gets the map variable, the key and the value that contains the timer.
pub type Callback = unsafe extern "C" fn(*mut *const Map, *mut u8, *mut u8) -> i32;

/// Limits on the number of a scheduler's timers, and on their expiries per ms of simulated time. They allow many timers
/// for each CPU, but few enough expiries for the run to come to an end.
const MOST_TIMERS: usize = 1 << 16;
const MOST_EXPIRIES: u32 = 20_000;
const PERIOD_NS: u64 = 1_000_000;

/// The timers that the scheduler has initialised.
#[derive(Default)]
pub struct Timers {
    all: Vec<Timer>,
    /// The address of the timer whose callback runs, if any.
    pub calling: Option<usize>,
    /// The generation of new timers; expiries of forgotten timers have an older generation.
    generation: u32,
    /// The start of the current counting period, in ns, and the number of expiries in that period.
    period: u64,
    expiries: u32,
}

struct Timer {
    /// The timer's address in C, which is in a value of `map`.
    address: usize,
    map: MapVariable,
    callback: Option<Callback>,
    /// The context of the program that set the callback, whose permissions the callback has.
    context: u32,
    /// The CPU that started the timer.
    cpu: usize,
    /// A number that changes with each start and cancellation; an expiry of an older generation is void.
    generation: u32,
    active: bool,
}

/// The expiry of a timer, void if the timer was started or cancelled since.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expiry {
    timer: u32,
    generation: u32,
}

/// The call to make when a timer expires.
pub struct Due {
    /// The CPU whose softirq makes the call.
    pub cpu: usize,
    pub callback: Callback,
    /// The callback's context ([`crate::scx::call::kf`]).
    pub context: u32,
    /// The map, and the timer's address in a value of it.
    pub map: MapVariable,
    pub address: usize,
}

impl Timers {
    /// `bpf_timer_init()` of the timer at `timer`, in a value of `map`. The error is an errno.
    pub fn init(&mut self, timer: &mut BpfTimer, map: MapVariable) -> Result<(), i32> {
        if timer.id != 0 {
            return Err(abi::EBUSY);
        }
        if self.all.len() == MOST_TIMERS {
            return Err(abi::ENOMEM);
        }
        self.all.push(Timer {
            address: std::ptr::from_ref(timer).addr(),
            map,
            callback: None,
            context: 0,
            cpu: 0,
            generation: self.generation,
            active: false,
        });
        timer.id = self.all.len() as u64;
        Ok(())
    }

    /// Is `id` that of the timer at `address`?
    pub fn has(&self, address: usize, id: u64) -> bool {
        let timer = self.all.get(id.wrapping_sub(1) as usize);
        timer.is_some_and(|timer| timer.address == address)
    }

    /// The index and the state of `timer`. Ids begin at 1; an uninitialised timer has id 0.
    fn find(&mut self, timer: &BpfTimer) -> Result<(u32, &mut Timer), i32> {
        let index = timer.id.wrapping_sub(1);
        let timer = self.all.get_mut(index as usize).ok_or(abi::EINVAL)?;
        Ok((index as u32, timer))
    }

    /// `bpf_timer_set_callback()` by code in `context`.
    pub fn set_callback(
        &mut self,
        timer: &BpfTimer,
        callback: Option<Callback>,
        context: u32,
    ) -> Result<(), i32> {
        let (_, timer) = self.find(timer)?;
        timer.callback = callback;
        timer.context = context;
        Ok(())
    }

    /// `bpf_timer_start()` by code on `cpu` at `now`, in ns. Returns the time of the expiry, and its event.
    pub fn start(
        &mut self,
        timer: &BpfTimer,
        cpu: usize,
        now: u64,
        ns: u64,
        flags: u64,
    ) -> Result<(u64, Expiry), i32> {
        if flags & !(abi::TIMER_ABS | abi::TIMER_CPU_PIN) != 0 {
            return Err(abi::EINVAL);
        }
        let (index, timer) = self.find(timer)?;
        if timer.callback.is_none() {
            return Err(abi::EINVAL);
        }
        timer.cpu = cpu;
        timer.active = true;
        timer.generation = timer.generation.wrapping_add(1);
        let at = match flags & abi::TIMER_ABS {
            0 => now.saturating_add(ns),
            _ => ns.max(now),
        };
        let expiry = Expiry {
            timer: index,
            generation: timer.generation,
        };
        Ok((at, expiry))
    }

    /// `bpf_timer_cancel()`: was the timer running? A callback that cancelled its own timer would wait for itself.
    pub fn cancel(&mut self, timer: &BpfTimer) -> Result<bool, i32> {
        if self.calling == Some(std::ptr::from_ref(timer).addr()) {
            return Err(abi::EDEADLK);
        }
        let (_, timer) = self.find(timer)?;
        timer.generation = timer.generation.wrapping_add(1);
        Ok(std::mem::take(&mut timer.active))
    }

    /// Forgets all timers, because the scheduler has exited.
    pub fn forget(&mut self) {
        let newest = self.all.iter().map(|timer| timer.generation).max();
        self.generation = newest.map_or(self.generation, |newest| newest.wrapping_add(1));
        self.all.clear();
    }

    /// Counts an expiry at `now`, in ns. Returns whether there are more expiries than allowed.
    pub fn are_too_many(&mut self, now: u64) -> bool {
        if now - self.period >= PERIOD_NS {
            (self.period, self.expiries) = (now, 0);
        }
        self.expiries += 1;
        self.expiries > MOST_EXPIRIES
    }

    /// Stops the timer that expires, and returns the call to make; `None` if the expiry is void.
    pub fn expire(&mut self, expiry: Expiry) -> Option<Due> {
        let timer = self.all.get_mut(expiry.timer as usize)?;
        if timer.generation != expiry.generation || !std::mem::take(&mut timer.active) {
            return None;
        }
        Some(Due {
            cpu: timer.cpu,
            callback: timer.callback?,
            context: timer.context,
            map: timer.map,
            address: timer.address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    unsafe extern "C" fn callback(_: *mut *const Map, _: *mut u8, _: *mut u8) -> i32 {
        0
    }

    #[test]
    fn a_timer_expires_once_and_only_as_it_was_last_started() {
        let mut timers = Timers::default();
        let mut timer = BpfTimer { id: 0, reserved: 0 };
        assert_eq!(timers.cancel(&timer), Err(abi::EINVAL));
        assert_eq!(timers.init(&mut timer, MapVariable(null_mut())), Ok(()));
        assert_eq!(
            timers.init(&mut timer, MapVariable(null_mut())),
            Err(abi::EBUSY)
        );
        assert_eq!(
            timers.start(&timer, 3, 100, 50, 0).map(|_| ()),
            Err(abi::EINVAL)
        );
        timers.set_callback(&timer, Some(callback), 0).unwrap();
        let (at, first) = timers.start(&timer, 3, 100, 50, 0).unwrap();
        assert_eq!(at, 150);
        let (at, second) = timers.start(&timer, 2, 100, 70, abi::TIMER_ABS).unwrap();
        assert_eq!(at, 100);
        assert!(timers.expire(first).is_none());
        let due = timers.expire(second).unwrap();
        assert_eq!((due.cpu, due.address), (2, (&raw const timer).addr()));
        assert!(timers.expire(second).is_none());
        assert_eq!(timers.cancel(&timer), Ok(false));
        let (_, third) = timers.start(&timer, 3, 100, 50, 0).unwrap();
        assert_eq!(timers.cancel(&timer), Ok(true));
        assert!(timers.expire(third).is_none());
    }
}
