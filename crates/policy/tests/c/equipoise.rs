//! The parts of `scheduler/equipoise` that need no kernel: bounds of virtual time, and requests between CPUs.

use crate::common::compile;
use libloading::{Library, Symbol};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn vtime() -> Library {
    compile(
        r#"#include <scx/common.bpf.h>
        #include "equipoise/vtime.h"
        u64 bound(u64 vtime, u64 clock, s64 behind, s64 ahead) { return bound_vtime(vtime, clock, behind, ahead); }
        s64 behind(s64 lag, s64 sleeper, s64 most) { return sleeper_behind(lag, sleeper, most); }"#,
    )
}

fn request() -> Library {
    compile(
        r#"#include <scx/common.bpf.h>
        #include "equipoise/request.h"
        u64 make(u32 kind, u32 target, s32 pid, s32 peer) { return make_request(kind, target, pid, peer); }
        u32 kind(u64 request) { return request_kind(request); }
        u32 target(u64 request) { return request_target(request); }
        s32 pid(u64 request) { return request_pid(request); }
        s32 peer(u64 request) { return request_peer(request); }
        bool post(u64 *word, u64 request) { return post_request(word, request); }
        u64 take(u64 *word) { return take_request(word); }
        bool take_this(u64 *word, u64 request) { return take_this_request(word, request); }"#,
    )
}

/// A virtual time within its bounds stays; one beyond them becomes the nearest bound, also where the clock wraps.
#[test]
fn virtual_time_is_bounded_on_both_sides() {
    let library = vtime();
    let bound: Symbol<unsafe extern "C" fn(u64, u64, i64, i64) -> u64> =
        unsafe { library.get(b"bound") }.unwrap();
    let far = 1i64 << 40;
    proptest!(|(clock: u64, lag in -far..far, behind in 0..far, ahead in 0..far)| {
        let bounded = unsafe { bound(clock.wrapping_sub(lag as u64), clock, behind, ahead) };
        let expected = lag.clamp(-ahead, behind);
        prop_assert_eq!(clock.wrapping_sub(bounded) as i64, expected);
        prop_assert_eq!(unsafe { bound(bounded, clock, behind, ahead) }, bounded);
    });
}

/// A task that was owed more than sleepers are before it slept is owed it afterwards, up to the most that any is.
#[test]
fn lag_survives_a_sleep() {
    let library = vtime();
    let behind: Symbol<unsafe extern "C" fn(i64, i64, i64) -> i64> =
        unsafe { library.get(b"behind") }.unwrap();
    for (lag, owed) in [(-5, 6), (0, 6), (6, 6), (7, 7), (20, 20), (21, 20)] {
        assert_eq!(unsafe { behind(lag, 6, 20) }, owed, "lag {lag}");
    }
}

#[test]
fn a_request_is_what_was_asked() {
    let library = request();
    let make: Symbol<unsafe extern "C" fn(u32, u32, i32, i32) -> u64> =
        unsafe { library.get(b"make") }.unwrap();
    let word = |name: &[u8]| -> Symbol<unsafe extern "C" fn(u64) -> u32> {
        unsafe { library.get(name) }.unwrap()
    };
    let (kind, target, pid, peer) = (word(b"kind"), word(b"target"), word(b"pid"), word(b"peer"));
    // PID_MAX_LIMIT is 2^22.
    proptest!(|(k in 1u32..=4, t in 0u32..4096, p in 0i32..1 << 22, q in 0i32..1 << 22)| {
        unsafe {
            let request = make(k, t, p, q);
            prop_assert_eq!((kind(request), target(request)), (k, t));
            prop_assert_eq!((pid(request) as i32, peer(request) as i32), (p, q));
        }
    });
}

/// Of requests that several CPUs post, each that was accepted is taken once: none overwrites another.
#[test]
fn no_request_is_lost_or_taken_twice() {
    const POSTERS: u64 = 3;
    const EACH: u64 = 20_000;
    let library = request();
    let post: Symbol<unsafe extern "C" fn(*mut u64, u64) -> bool> =
        unsafe { library.get(b"post") }.unwrap();
    let take: Symbol<unsafe extern "C" fn(*mut u64) -> u64> =
        unsafe { library.get(b"take") }.unwrap();
    let take_this: Symbol<unsafe extern "C" fn(*mut u64, u64) -> bool> =
        unsafe { library.get(b"take_this") }.unwrap();
    let (post, take, take_this) = (*post, *take, *take_this);
    let word = AtomicU64::new(0);
    let taken: Vec<AtomicU64> = (0..POSTERS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let posters: Vec<_> = (0..POSTERS)
            .map(|poster| {
                let word = &word;
                scope.spawn(move || {
                    for sequence in 0..EACH {
                        while !unsafe { post(word.as_ptr(), sequence << 8 | (poster + 1)) } {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        for taker in 0..2 {
            let (word, taken, over) = (&word, &taken, &over);
            scope.spawn(move || {
                loop {
                    let last = over.load(Ordering::SeqCst);
                    let mut request = word.load(Ordering::SeqCst);
                    if taker == 0 {
                        request = unsafe { take(word.as_ptr()) };
                    } else if request == 0 || !unsafe { take_this(word.as_ptr(), request) } {
                        request = 0;
                    }
                    if request != 0 {
                        taken[(request & 0xff) as usize - 1].fetch_add(1, Ordering::Relaxed);
                    } else if last {
                        break;
                    }
                }
            });
        }
        for poster in posters {
            poster.join().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    for taken in &taken {
        assert_eq!(taken.load(Ordering::Relaxed), EACH);
    }
}
