//! The names of core types.

use crate::folder::Folder;
use machine::CpuMask;

/// The kind of the CPU's core, from the name of the perf event source on hybrid x86, or from the MIDR on arm64.
pub(crate) fn kind(sys: &Folder, folder: &Folder, number: usize) -> Option<String> {
    for (pmu, name) in [
        ("cpu_core", "p-core"),
        ("cpu_lowpower", "lp-e-core"),
        ("cpu_atom", "e-core"),
    ] {
        let cpus = sys.at("devices").at(pmu).text("cpus");
        let cpus = cpus.and_then(|cpus| cpus.parse::<CpuMask>().ok());
        if cpus.is_some_and(|cpus| cpus.contains(number)) {
            return Some(name.to_owned());
        }
    }
    let midr = folder.text("regs/identification/midr_el1")?;
    let midr = u64::from_str_radix(midr.trim_start_matches("0x"), 16).ok()?;
    Some(arm_name((midr >> 24) as u8, (midr >> 4) as u16 & 0xfff))
}

/// For texts such as `0x41` and `0xd03`.
pub(crate) fn arm_name_of(implementer: &str, part: &str) -> Option<String> {
    let hex = |text: &str| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(arm_name(u8::try_from(hex(implementer)?).ok()?, hex(part)?))
}

fn arm_name(implementer: u8, part: u16) -> String {
    match arm_core(implementer, part) {
        Some(name) => name.to_owned(),
        None => format!("arm-{implementer:02x}-{part:03x}"),
    }
}

/// The core's name by implementer and part number (arch/arm64/include/asm/cputype.h, and util-linux's lscpu-arm.c).
fn arm_core(implementer: u8, part: u16) -> Option<&'static str> {
    Some(match (implementer, part) {
        (0x41, 0xd03) => "cortex-a53",
        (0x41, 0xd04) => "cortex-a35",
        (0x41, 0xd05) => "cortex-a55",
        (0x41, 0xd07) => "cortex-a57",
        (0x41, 0xd08) => "cortex-a72",
        (0x41, 0xd09) => "cortex-a73",
        (0x41, 0xd0a) => "cortex-a75",
        (0x41, 0xd0b) => "cortex-a76",
        (0x41, 0xd0c) => "neoverse-n1",
        (0x41, 0xd0d) => "cortex-a77",
        (0x41, 0xd0e) => "cortex-a76ae",
        (0x41, 0xd40) => "neoverse-v1",
        (0x41, 0xd41) => "cortex-a78",
        (0x41, 0xd42) => "cortex-a78ae",
        (0x41, 0xd44) => "cortex-x1",
        (0x41, 0xd46) => "cortex-a510",
        (0x41, 0xd47) => "cortex-a710",
        (0x41, 0xd48) => "cortex-x2",
        (0x41, 0xd49) => "neoverse-n2",
        (0x41, 0xd4b) => "cortex-a78c",
        (0x41, 0xd4c) => "cortex-x1c",
        (0x41, 0xd4d) => "cortex-a715",
        (0x41, 0xd4e) => "cortex-x3",
        (0x41, 0xd4f) => "neoverse-v2",
        (0x41, 0xd80) => "cortex-a520",
        (0x41, 0xd81) => "cortex-a720",
        (0x41, 0xd82) => "cortex-x4",
        (0x41, 0xd83) => "neoverse-v3ae",
        (0x41, 0xd84) => "neoverse-v3",
        (0x41, 0xd85) => "cortex-x925",
        (0x41, 0xd87) => "cortex-a725",
        (0x41, 0xd8e) => "neoverse-n3",
        (0x61, 0x022) => "icestorm",
        (0x61, 0x023) => "firestorm",
        _ => return None,
    })
}
