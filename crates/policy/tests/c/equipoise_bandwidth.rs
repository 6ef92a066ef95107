//! `scheduler/equipoise/bandwidth.h`: the CPU time that a control group may use.

use crate::common::compile;
use libloading::{Library, Symbol};
use proptest::prelude::*;

const BANDWIDTH: &str = r#"#include <scx/common.bpf.h>
    #include "equipoise/bandwidth.h"
    static struct bandwidth limit;
    void begin(u64 period_us, u64 quota_us, u64 burst_us, u64 now)
    {
        begin_bandwidth(&limit, period_us, quota_us, burst_us, now);
    }
    void end(void) { limit.period = 0; }
    bool limited(void) { return is_limited(&limit); }
    bool out(void) { return has_run_out(&limit); }
    void refill(u64 now) { refill_bandwidth(&limit, now); }
    bool spend(u64 ran) { return spend_bandwidth(&limit, ran); }
    s64 left(void) { return limit.left; }
    u64 period_end(void) { return limit.period_end; }"#;

const US: u64 = 1000;
/// `LONGEST_DEBT`, in ns.
const LONGEST_DEBT: u64 = 10_000_000_000;

struct Limit(Library);

impl Limit {
    fn new() -> Limit {
        Limit(compile(BANDWIDTH))
    }

    c_fns! {
        fn begin(period_us: u64, quota_us: u64, burst_us: u64, now: u64);
        fn refill(now: u64);
        fn spend(ran: u64) -> bool;
        fn end();
    }

    fn says(&self, what: &str) -> bool {
        let says: Symbol<unsafe extern "C" fn() -> bool> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { says() }
    }

    fn number(&self, what: &str) -> i64 {
        let number: Symbol<unsafe extern "C" fn() -> i64> =
            unsafe { self.0.get(what.as_bytes()) }.unwrap();
        unsafe { number() }
    }
}

/// The kernel's limits on a period, in us, and on a quota, which is at most what 64 CPUs can use; a burst is at most
/// the quota.
fn limits() -> impl Strategy<Value = (u64, u64, u64)> {
    (1_000..=1_000_000u64).prop_flat_map(|period| {
        (1_000..=64 * period.max(1_000)).prop_flat_map(move |quota| {
            (Just(period), Just(quota), prop_oneof![Just(0), 0..=quota])
        })
    })
}

/// The remaining time by definition, period by period: each period adds the quota, up to quota plus burst,
/// and a debt is paid back within 10 s at most.
struct Model {
    period: u64,
    quota: i64,
    most: i64,
    left: i64,
    period_end: u64,
}

impl Model {
    fn refill(&mut self, now: u64) {
        let least = -((LONGEST_DEBT / self.period) as i64) * self.quota;
        if now >= self.period_end {
            self.left = self.left.max(least);
        }
        while now >= self.period_end {
            self.left = (self.left + self.quota).min(self.most);
            self.period_end += self.period;
        }
    }
}

/// However time passes and is spent, the remaining time equals its definition, even after long pauses. A
/// group that spends only while time remains gets no more than its quotas, its burst, and one overdraft.
#[test]
fn the_remaining_quota_belongs_to_each_period() {
    let limit = Limit::new();
    let steps = proptest::collection::vec((0..3_000_000_000u64, 0..8_000_000u64, 0..10u32), 1..80);
    proptest!(|((period, quota, burst) in limits(), start in 0..1u64 << 50, steps in steps)| {
        limit.begin(period, quota, burst, start);
        let mut model = Model {
            period: period * US,
            quota: (quota * US) as i64,
            most: ((quota + burst) * US) as i64,
            left: (quota * US) as i64,
            period_end: start + period * US,
        };
        let (mut now, mut spent, mut overdrawn) = (start, 0, 0);
        for (pause, ran, often) in steps {
            // The step is usually within a period, sometimes many periods long.
            now += if often == 0 { pause } else { pause % (period * US) };
            limit.refill(now);
            model.refill(now);
            prop_assert_eq!(limit.number("left"), model.left);
            prop_assert_eq!(limit.number("period_end") as u64, model.period_end);
            if !limit.says("out") {
                let before = model.left;
                model.left -= ran as i64;
                spent += ran;
                prop_assert_eq!(limit.spend(ran), model.left <= 0, "{} left, {} spent", before, ran);
                overdrawn = overdrawn.max((-model.left).max(0) as u64);
            }
            let periods = 1 + (now - start) / (period * US);
            prop_assert!(spent <= periods * quota * US + burst * US + overdrawn);
        }
    });
}

/// A group that always has runnable tasks, and that notices only after up to 4 ms that no time is left, gets its quota
/// over time, whatever the quota is.
#[test]
fn overdrawn_quota_is_paid_back() {
    let limit = Limit::new();
    proptest!(ProptestConfig::with_cases(64), |(period in 5_000..=1_000_000u64, percent in 5..95u64, tick in 1..4_000u64)| {
        let quota = (period * percent / 100).max(1_000);
        limit.begin(period, quota, 0, 0);
        let (mut now, mut ran) = (0, 0);
        while now < 200 * period * US {
            limit.refill(now);
            if limit.says("out") {
                now = limit.number("period_end") as u64;
                continue;
            }
            limit.spend(tick * US);
            ran += tick * US;
            now += tick * US;
        }
        let due = now as f64 * quota as f64 / period as f64;
        let off = (ran as f64 - due).abs() / due;
        prop_assert!(off < 0.01 + 1.0 / 200.0 + tick as f64 / (200.0 * quota as f64), "{ran} of {due}");
    });
}

/// A group that has overdrawn by far more than ten seconds' quota is throttled for ten seconds: after 30 s
/// sched_ext would end the scheduler.
#[test]
fn a_debt_is_forgiven_after_ten_seconds() {
    let limit = Limit::new();
    limit.begin(1_000_000, 1_000, 0, 0);
    limit.spend(257_000 * US);
    let runs_again = (1..300u64).find(|second| {
        limit.refill(second * 1_000_000 * US);
        !limit.says("out")
    });
    assert_eq!(runs_again, Some(11));
}

#[test]
fn it_runs_out_once() {
    let limit = Limit::new();
    limit.begin(100_000, 20_000, 0, 0);
    assert!(limit.says("limited"));
    assert!(!limit.spend(19_999 * US));
    assert!(!limit.says("out"));
    assert!(limit.spend(US));
    assert!(limit.says("out"));
    assert!(!limit.spend(US));
    limit.refill(100_000 * US - 1);
    assert!(limit.says("out"));
    limit.refill(100_000 * US);
    assert!(!limit.says("out"));
    assert_eq!(limit.number("left"), 19_999 * US as i64);
    limit.end();
    assert!(!limit.says("limited"));
}

/// The largest quota that the kernel accepts (`max_bw_runtime_us`, about 2^44 us) is limited to what all CPUs can use,
/// and causes no overflow.
#[test]
fn a_huge_quota_is_no_limit() {
    let limit = Limit::new();
    limit.begin(1_000, 1 << 44, 1 << 44, 0);
    for second in 1..100 {
        limit.refill(second * 1_000_000_000);
        assert!(!limit.spend(1_000_000_000));
    }
}
