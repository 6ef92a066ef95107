//! The limit that stops a CPU that runs out of work too often from searching: the scheduler's own C is compared with
//! the rules of "[RFC] sched: Limit idle_balance() when it is being used too frequently".

use crate::common;
use libloading::{Library, Symbol};

const MS: u64 = 1_000_000;

fn scheduler(limit_ns: u64) -> Library {
    common::compile(&format!(
        r#"#include <scx/common.bpf.h>
        #include "linux/cfs/main.bpf.c"
        volatile struct tunables tunables = {{ .newidle_limit = {limit_ns}ULL, .sched_migration_cost = 500000 }};
        const volatile struct machine machine = {{ .tick_ns = 10000000, .nr_cpus = 1 }};
        static struct equipoise_kernel kernel;
        void init(void)
        {{
            equipoise_kernel = &kernel;
            __builtin_memset(rq_of(0), 0, sizeof(struct fair_rq));
            init_rq(0, 0);
        }}
        int ask(u64 now) {{ return newidle_limited(rq_of(0), now); }}
        int balances(u64 now, u64 avg_idle)
        {{
            rq_of(0)->avg_idle = avg_idle;
            return newidle_wanted(rq_of(0), now);
        }}"#
    ))
}

/// For each of these times in ns, at which the CPU runs out of work: is the CPU limited then?
fn limited(limit_ns: u64, times: impl IntoIterator<Item = u64>) -> Vec<bool> {
    let library = scheduler(limit_ns);
    // SAFETY: the functions are as declared above.
    unsafe {
        let init: Symbol<unsafe extern "C" fn()> = library.get("init").unwrap();
        let ask: Symbol<unsafe extern "C" fn(u64) -> i32> = library.get("ask").unwrap();
        init();
        times.into_iter().map(|now| ask(now) != 0).collect()
    }
}

#[test]
fn it_takes_a_row_of_short_times_to_be_limited() {
    // The average starts at 20 limits, which are 100 ms, and goes an eighth of the way to 1 ms each time: 1 + 99 *
    // (7/8)^n is below 5 from n = 25 on (the first is far from time 0).
    let answers = limited(5 * MS, (0..40).map(|n| 1000 * MS + n * MS));
    let first = answers.iter().position(|&limited| limited).unwrap();
    let formula = (1..)
        .find(|&n| 1.0 + 99.0 * 0.875f64.powi(n) < 5.0)
        .unwrap();
    assert_eq!(first as i32, formula);
    assert!(answers[first..].iter().all(|&limited| limited));
}

#[test]
fn a_long_time_is_a_fresh_start() {
    let often = (0..40).map(|n| 1000 * MS + n * MS);
    let answers = limited(
        5 * MS,
        often.chain([1039 * MS + 101 * MS, 1039 * MS + 102 * MS]),
    );
    assert!(answers[39] && !answers[40] && !answers[41]);
}

#[test]
fn rare_times_and_no_limit_are_never_limited() {
    assert!(!limited(5 * MS, (0..200).map(|n| n * 6 * MS)).contains(&true));
    assert!(!limited(0, (0..200).map(|n| n * 1000)).contains(&true));
}

/// While a CPU usually idles for less time than a migration costs, idle_balance() returns before it updates the
/// average. So such times do not count.
#[test]
fn times_at_which_it_would_idle_too_shortly_do_not_count() {
    let library = scheduler(5 * MS);
    // SAFETY: the functions are as declared above.
    let (init, balances): (
        Symbol<unsafe extern "C" fn()>,
        Symbol<unsafe extern "C" fn(u64, u64) -> i32>,
    ) = unsafe {
        (
            library.get(b"init").unwrap(),
            library.get(b"balances").unwrap(),
        )
    };
    let first_skipped = |short: u64| {
        unsafe { init() };
        for n in 0..short {
            assert_eq!(unsafe { balances(1000 * MS + n * MS, 499_999) }, 0);
        }
        (0..100).position(|n| unsafe { balances(1000 * MS + (short + n) * MS, 500_000) } == 0)
    };
    let without = first_skipped(0);
    assert!(without.is_some());
    for short in [20, 40, 99] {
        assert_eq!(first_skipped(short), without, "{short}");
    }
}
