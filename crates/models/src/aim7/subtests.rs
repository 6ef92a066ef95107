//! AIM7's subtests: the computing time of each, its operations that affect other users, and its weights in the mixes.
//!
//! The mixes are those that HP's kernel developers ran (the repository davidlohr/areaim:
//! `osdl-aim-7/data/workfile.*`, which give each subtest its weight in a mix).
//!
//! The operations are counted in the subtests' source (davidlohr/areaim, `osdl-aim-7/src`), for files of ten blocks of
//! 1 KiB, which is the size with so many users. Reads and writes of a private file, pipes, sockets and signals to
//! oneself affect no other user, and count as computing.

use super::at_speed;
use Call::{Entry, Fifo, Fork, Link, List, Open, Script, Search, Sleep, Sync, System};

/// An operation on an object that users share or wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates or removes a file in the one directory of a file system in which all its users work.
    Entry,
    /// Adds a name to a file in the directory of [`Call::Entry`], or removes one of several names.
    Link,
    /// Creates or removes a file in the tree of directories that `disk_src` searches.
    Search,
    /// Opens an existing file with `O_CREAT`, in the same directory as [`Call::Entry`].
    Open,
    /// Creates or removes a pipe in the working directory.
    Fifo,
    /// Lists `/bin` to its end.
    List,
    /// Writes with `O_SYNC`.
    Sync,
    /// Forks a child that exits, and waits for it.
    Fork,
    /// Forks a child that executes a script, which starts a program, and waits for it.
    Script,
    /// As [`Call::Script`], but with `system(3)`, which forks once more and first starts a shell.
    System,
    /// Executes a script that sleeps for [`SLEEP_NS`], and waits for it.
    Sleep,
}

/// The sleep of `aim_2.sh`, as the subtest calls it.
pub const SLEEP_NS: u64 = 5_000_000_000;

/// The maximum number of kinds of calls in a subtest.
pub const MOST_CALLS: usize = 2;

/// The mixes, by the names of their workfiles.
pub const MIXES: [&str; 9] = [
    "alltests",
    "compute",
    "custom",
    "disk",
    "fserver",
    "high_systime",
    "new_fserver",
    "shared",
    "short",
];

#[derive(Debug)]
pub struct Subtest {
    pub name: &'static str,
    /// The subtest's time alone on a current machine, in us.
    alone_us: u64,
    /// The subtest's weight in each of [`MIXES`]; 0: it is not in the mix.
    pub weights: [u32; MIXES.len()],
    /// The subtest's system calls, with their numbers.
    pub calls: &'static [(Call, u32)],
}

impl Subtest {
    /// The subtest's work, including locks, in ns at the speed of the machine of AIM7's published figures.
    pub fn work_ns(&self) -> u64 {
        at_speed(1000 * self.alone_us)
    }

    /// Does the driver give the subtest a directory (`DISKS`)? `shared_memory` gets one, but does not use it.
    pub fn has_directory(&self) -> bool {
        let in_directory = |call| matches!(call, Entry | Link | Search | Open | Sync);
        self.name == "shared_memory" || self.calls.iter().any(|&(call, _)| in_directory(call))
    }
}

const fn subtest(
    name: &'static str,
    alone_us: u64,
    weights: [u32; MIXES.len()],
    calls: &'static [(Call, u32)],
) -> Subtest {
    Subtest {
        name,
        alone_us,
        weights,
        calls,
    }
}

/// All subtests. Their times are the CPU times of each subtest alone, including children, on a Xeon of 2024 under Linux
/// 6.18 (`getrusage(2)` around the loops of `reaim -o -y`). Files were on ext4, except that those of synchronous and
/// direct I/O were on tmpfs, because RAM disks take no time. The times of `signal_test` and `shell_rtns_2` are
/// estimated by comparison with other subtests.
#[rustfmt::skip]
pub const SUBTESTS: &[Subtest] = &[
    subtest("add_double",        4_900, [30, 50,  0,  0,  0,  0,  0, 30,  0], &[]),
    subtest("add_float",         3_300, [30,  0,  0,  0,  0,  0,  0, 30,  0], &[]),
    subtest("add_int",           8_300, [30, 30,  0,  0, 20,  0, 20, 30,  0], &[]),
    subtest("add_long",          8_300, [30, 30,  0,  0, 20,  0, 20, 30,  0], &[]),
    subtest("add_short",         3_300, [30,  0,  0,  0, 20,  0, 20, 30,  0], &[]),
    subtest("array_rtns",        2_300, [10, 10,  0,  0,  0,  0,  0, 10,  0], &[]),
    subtest("brk_test",          6_000, [10,  0,  0,  0,  0, 20,  0, 10,  0], &[]),
    subtest("creat_clo",         1_400, [10,  0, 10,  0, 20, 20, 20, 10,  0], &[(Open, 999), (Entry, 2)]),
    subtest("dgram_pipe",           74, [10,  0, 10,  0,  0, 10,  0, 10, 20], &[]),
    subtest("dir_rtns_1",        1_800, [10,  0, 10,  0, 20, 10, 20, 10,  0], &[(List, 76)]),
    subtest("disk_bcp",             28, [20,  0, 20, 20,  0,  0,  0,  0,  0], &[(Entry, 3)]),
    subtest("disk_brd",              6, [20,  0, 20, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_brr",             27, [20,  0, 20, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_brw",             25, [20,  0, 20, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_bwrt",            23, [20,  0, 20, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_cp",              24, [20, 10, 20, 20, 30,  0, 30, 20,  0], &[(Entry, 3)]),
    subtest("disk_dio_cp",           9, [ 0,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_dio_rd",           6, [ 0,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_dio_rr",          26, [ 0,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_dio_rw",          22, [ 0,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_dio_wrt",          9, [ 0,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2)]),
    subtest("disk_rd",              26, [20, 30, 20, 20, 30,  0, 30, 20,  0], &[(Entry, 2)]),
    subtest("disk_rr",              36, [20,  0, 20, 20, 30,  0, 30, 20,  0], &[(Entry, 2)]),
    subtest("disk_rw",              36, [20,  0, 20, 20, 30,  0, 30, 20,  0], &[(Entry, 2)]),
    subtest("disk_src",            280, [20, 10, 20, 20, 30,  0, 30, 20,  0], &[(Search, 86)]),
    subtest("disk_wrt",             20, [20, 20, 20, 20, 30,  0, 30, 20,  0], &[(Entry, 2)]),
    subtest("div_double",        8_700, [10, 40,  0,  0,  0,  0,  0, 10,  0], &[]),
    subtest("div_float",         7_400, [10,  0,  0,  0,  0,  0,  0, 10,  0], &[]),
    subtest("div_int",           1_400, [10, 30,  0,  0, 10,  0, 10, 10,  0], &[]),
    subtest("div_long",          2_300, [10,  0,  0,  0, 10,  0, 10, 10,  0], &[]),
    subtest("div_short",         1_400, [10,  0,  0,  0, 10,  0, 10, 10,  0], &[]),
    subtest("exec_test",        12_000, [20,  0,  0,  0,  0, 20,  0, 20,  0], &[(Script, 5)]),
    subtest("fifo_test",            55, [10,  0, 10,  0,  0,  0,  0,  0,  0], &[(Fifo, 2)]),
    subtest("fork_test",        11_000, [10,  0, 10,  0,  0, 10,  0, 10,  0], &[(Fork, 100)]),
    subtest("jmp_test",              9, [10,  0,  0,  0, 10,  0, 10, 10, 20], &[]),
    subtest("link_test",           170, [10,  0, 10,  0, 20, 20, 20, 10,  0], &[(Link, 140), (Entry, 2)]),
    subtest("matrix_rtns",           3, [10, 50,  0,  0,  0,  0,  0, 10, 20], &[]),
    subtest("mem_rtns_1",        1_300, [10, 40,  0,  0, 40,  0, 40, 10,  0], &[]),
    subtest("mem_rtns_2",            6, [10, 40,  0,  0, 10,  0, 10, 10, 20], &[]),
    subtest("misc_rtns_1",          87, [10,  0, 10,  0, 20, 10, 20, 10, 20], &[]),
    subtest("mul_double",        4_600, [20, 50,  0,  0,  0,  0,  0, 20,  0], &[]),
    subtest("mul_float",         4_600, [20,  0,  0,  0,  0,  0,  0, 20,  0], &[]),
    subtest("mul_int",             130, [20, 30,  0,  0, 10,  0, 10, 20, 20], &[]),
    subtest("mul_long",            130, [20, 30,  0,  0, 10,  0, 10, 20, 20], &[]),
    subtest("mul_short",           160, [20,  0,  0,  0, 10,  0, 10, 20, 20], &[]),
    subtest("new_raph",             23, [10, 40,  0,  0,  0,  0,  0, 10, 20], &[]),
    subtest("num_rtns_1",           61, [10, 40,  0,  0,  0,  0,  0, 10, 20], &[]),
    subtest("page_test",         2_400, [10, 50, 10,  0,  0, 20,  0, 10,  0], &[]),
    subtest("pipe_cpy",             36, [10,  0, 10,  0,  0, 30,  0, 10, 20], &[]),
    subtest("ram_copy",             13, [10,  0,  0,  0, 20,  0, 20, 10, 20], &[]),
    subtest("series_1",              3, [10, 40,  0,  0,  0,  0,  0, 10, 20], &[]),
    subtest("shared_memory",        97, [10, 10, 10,  0,  0, 10,  0, 10, 20], &[]),
    subtest("shell_rtns_1",      4_000, [20,  0,  0,  0,  0, 20,  0, 20,  0], &[(System, 1)]),
    subtest("shell_rtns_2",      3_000, [10,  0,  0,  0,  0, 10,  0,  0,  0], &[(System, 1), (Sleep, 1)]),
    subtest("shell_rtns_3",      3_800, [10,  0,  0,  0,  0, 10,  0,  0,  0], &[(System, 1)]),
    subtest("sieve",            14_000, [30, 30, 30,  0,  0,  0,  0, 10,  0], &[]),
    subtest("signal_test",         700, [10,  0, 10,  0, 10, 10, 10, 10,  0], &[]),
    subtest("sort_rtns_1",         920, [10,  0,  0,  0, 30,  0, 30, 10,  0], &[]),
    subtest("stream_pipe",          76, [10, 20, 10,  0,  0, 10,  0, 10, 20], &[]),
    subtest("string_rtns",         700, [50, 30,  0,  0, 30,  0, 30, 30,  0], &[]),
    subtest("sync_disk_cp",         16, [20,  0,  0, 20,  5,  0,  0, 10,  0], &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_rw",         15, [20,  0, 20, 20,  5,  0,  0, 10,  0], &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_update",     18, [20,  0,  0, 20,  0,  0,  0,  0,  0], &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_wrt",        13, [20,  0,  0, 20,  5,  0,  0, 10,  0], &[(Entry, 2), (Sync, 5)]),
    subtest("tcp_test",          1_100, [10,  0, 10,  0, 10, 10, 10, 10, 20], &[]),
    subtest("trig_rtns",         1_500, [10, 40,  0,  0,  0,  0,  0, 10,  0], &[]),
    subtest("udp_test",            360, [10, 20, 10,  0, 40, 10, 40, 10, 20], &[]),
];
