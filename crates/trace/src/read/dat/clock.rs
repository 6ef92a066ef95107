//! The clock of the events' times, which trace-cmd writes to the options of `trace.dat` (trace-cmd.dat.v7(5) describes
//! them; version 6 has the same options).

use super::{Input, Wrong, text};

/// The option TRACECLOCK: the content of tracefs's `trace_clock`, which has the current clock in brackets. The text
/// may be empty.
const TRACECLOCK: u16 = 4;
/// The option TSC2NSEC: a multiplier, a shift and an offset, for the clock `x86-tsc`.
const TSC2NSEC: u16 = 14;

/// The clocks that count ns (`in_ns` in `trace_clocks[]` of the kernel's kernel/trace/trace.c). The others count
/// ticks of the processor (`x86-tsc`), of 10 ms (`uptime`), or events (`counter`).
const IN_NS: [&str; 7] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai"];
/// The clocks whose ticks TSC2NSEC converts; the second is trace-cmd's name for the first with the option.
const TSC: [&str; 2] = ["x86-tsc", "tsc2nsec"];

const EXPECTED: &str = "expected a clock that counts ns; record with `trace-cmd record -C mono`, or with `-C tsc2nsec` for the processor's clock";

/// Converts times to ns: `time * mult >> shift`.
#[derive(Clone, Copy)]
pub struct Clock {
    mult: u32,
    shift: u32,
}

impl Clock {
    const NS: Clock = Clock { mult: 1, shift: 0 };

    /// The time `at` in ns. An offset would change nothing, because the import needs only differences.
    pub fn ns(self, at: u64) -> u64 {
        let scaled = u128::from(at) * u128::from(self.mult);
        let ns = scaled.checked_shr(self.shift).unwrap_or(0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The options about the clock.
#[derive(Default)]
pub struct Options<'a> {
    /// The content of the option TRACECLOCK, if the file has it.
    listed: Option<&'a str>,
    tsc: Option<Clock>,
}

impl<'a> Options<'a> {
    /// Reads all options, up to a zero.
    pub fn read(input: &mut Input<'a>) -> Result<Options<'a>, Wrong> {
        let mut options = Options::default();
        loop {
            let id = input.u16()?;
            if id == 0 {
                return Ok(options);
            }
            let size = input.u32()? as usize;
            let data = input.take(size)?;
            match (id, data) {
                (TRACECLOCK, _) => options.listed = Some(text(data)),
                (TSC2NSEC, &[a, b, c, d, e, f, g, h, ..]) => {
                    let mult = u32::from_le_bytes([a, b, c, d]);
                    let shift = u32::from_le_bytes([e, f, g, h]);
                    options.tsc = (mult > 0).then_some(Clock { mult, shift });
                }
                _ => {}
            }
        }
    }

    /// The clock of the events. `input` is after the places of the events, where the current clock follows if the file
    /// has the option TRACECLOCK.
    pub fn clock(self, input: &mut Input<'a>) -> Result<Clock, Wrong> {
        let at = input.at;
        let Some(listed) = self.listed else {
            return Ok(self.tsc.unwrap_or(Clock::NS));
        };
        // Some versions of trace-cmd left this text out, or wrote it damaged.
        let name = input.sized().ok().and_then(|name| current(text(name)));
        match (name.or_else(|| current(listed)), self.tsc) {
            (Some(name), Some(tsc)) if TSC.contains(&name) => Ok(tsc),
            (Some(name), _) if !IN_NS.contains(&name) => Err(Wrong {
                at,
                message: format!("the clock `{name}` does not count ns"),
                expected: EXPECTED,
            }),
            _ => Ok(Clock::NS),
        }
    }
}

/// The name in brackets, from `local [mono] boot`.
fn current(clocks: &str) -> Option<&str> {
    Some(clocks.split_once('[')?.1.split_once(']')?.0)
}
