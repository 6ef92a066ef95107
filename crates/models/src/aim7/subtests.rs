//! AIM7's subtests: the computing time of each, and its operations that affect other users.
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

/// A subtest.
#[derive(Debug)]
pub struct Subtest {
    pub name: &'static str,
    /// The subtest's time alone on a current machine, in us.
    alone_us: u64,
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

const fn subtest(name: &'static str, alone_us: u64, calls: &'static [(Call, u32)]) -> Subtest {
    Subtest {
        name,
        alone_us,
        calls,
    }
}

pub fn find(name: &str) -> &'static Subtest {
    let found = SUBTESTS.iter().find(|subtest| subtest.name == name);
    found.expect("every subtest of a mix is known")
}

/// All subtests. Their times are the CPU times of each subtest alone, including children, on a Xeon of 2024 under Linux
/// 6.18 (`getrusage(2)` around the loops of `reaim -o -y`). Files were on ext4, except that those of synchronous and
/// direct I/O were on tmpfs, because RAM disks take no time. The times of `signal_test` and `shell_rtns_2` are
/// estimated by comparison with other subtests.
pub const SUBTESTS: &[Subtest] = &[
    subtest("add_double", 4_900, &[]),
    subtest("add_float", 3_300, &[]),
    subtest("add_int", 8_300, &[]),
    subtest("add_long", 8_300, &[]),
    subtest("add_short", 3_300, &[]),
    subtest("array_rtns", 2_300, &[]),
    subtest("brk_test", 6_000, &[]),
    subtest("creat_clo", 1_400, &[(Open, 999), (Entry, 2)]),
    subtest("dgram_pipe", 74, &[]),
    subtest("dir_rtns_1", 1_800, &[(List, 76)]),
    subtest("disk_bcp", 28, &[(Entry, 3)]),
    subtest("disk_brd", 6, &[(Entry, 2)]),
    subtest("disk_brr", 27, &[(Entry, 2)]),
    subtest("disk_brw", 25, &[(Entry, 2)]),
    subtest("disk_bwrt", 23, &[(Entry, 2)]),
    subtest("disk_cp", 24, &[(Entry, 3)]),
    subtest("disk_dio_cp", 9, &[(Entry, 2)]),
    subtest("disk_dio_rd", 6, &[(Entry, 2)]),
    subtest("disk_dio_rr", 26, &[(Entry, 2)]),
    subtest("disk_dio_rw", 22, &[(Entry, 2)]),
    subtest("disk_dio_wrt", 9, &[(Entry, 2)]),
    subtest("disk_rd", 26, &[(Entry, 2)]),
    subtest("disk_rr", 36, &[(Entry, 2)]),
    subtest("disk_rw", 36, &[(Entry, 2)]),
    subtest("disk_src", 280, &[(Search, 86)]),
    subtest("disk_wrt", 20, &[(Entry, 2)]),
    subtest("div_double", 8_700, &[]),
    subtest("div_float", 7_400, &[]),
    subtest("div_int", 1_400, &[]),
    subtest("div_long", 2_300, &[]),
    subtest("div_short", 1_400, &[]),
    subtest("exec_test", 12_000, &[(Script, 5)]),
    subtest("fifo_test", 55, &[(Fifo, 2)]),
    subtest("fork_test", 11_000, &[(Fork, 100)]),
    subtest("jmp_test", 9, &[]),
    subtest("link_test", 170, &[(Link, 140), (Entry, 2)]),
    subtest("matrix_rtns", 3, &[]),
    subtest("mem_rtns_1", 1_300, &[]),
    subtest("mem_rtns_2", 6, &[]),
    subtest("misc_rtns_1", 87, &[]),
    subtest("mul_double", 4_600, &[]),
    subtest("mul_float", 4_600, &[]),
    subtest("mul_int", 130, &[]),
    subtest("mul_long", 130, &[]),
    subtest("mul_short", 160, &[]),
    subtest("new_raph", 23, &[]),
    subtest("num_rtns_1", 61, &[]),
    subtest("page_test", 2_400, &[]),
    subtest("pipe_cpy", 36, &[]),
    subtest("ram_copy", 13, &[]),
    subtest("series_1", 3, &[]),
    subtest("shared_memory", 97, &[]),
    subtest("shell_rtns_1", 4_000, &[(System, 1)]),
    subtest("shell_rtns_2", 3_000, &[(System, 1), (Sleep, 1)]),
    subtest("shell_rtns_3", 3_800, &[(System, 1)]),
    subtest("sieve", 14_000, &[]),
    subtest("signal_test", 700, &[]),
    subtest("sort_rtns_1", 920, &[]),
    subtest("stream_pipe", 76, &[]),
    subtest("string_rtns", 700, &[]),
    subtest("sync_disk_cp", 16, &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_rw", 15, &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_update", 18, &[(Entry, 2), (Sync, 5)]),
    subtest("sync_disk_wrt", 13, &[(Entry, 2), (Sync, 5)]),
    subtest("tcp_test", 1_100, &[]),
    subtest("trig_rtns", 1_500, &[]),
    subtest("udp_test", 360, &[]),
];
