//! AIM7's subtests, and the mixes of them.
//!
//! After the AIM Multiuser Benchmark, Suite VII, as HP's kernel developers ran it (the repository
//! davidlohr/areaim: `osdl-aim-7/data/workfile.*`, which give each subtest its weight in a mix).

/// What a subtest does, as far as a scheduler can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Arithmetic, sorting, strings, memory of its own: computes.
    Compute,
    /// Pipes, sockets, shared memory, signals: system calls, some of which take a lock that all users
    /// share.
    Ipc,
    /// Creates, links and lists files: works under the lock of a directory's file system.
    Namespace,
    /// Reads, writes and copies files through the page cache: computes, and takes the file system's
    /// lock to allocate blocks and to log.
    Buffered,
    /// Writes that wait for the device (`sync_disk_*`), and direct I/O (`disk_dio_*`).
    Synchronous,
    /// fork, exec and shells: children, and the locks of address spaces.
    Process,
}

use Kind::{Buffered, Compute, Ipc, Namespace, Process, Synchronous};

/// Each subtest's kind.
const SUBTESTS: &[(&str, Kind)] = &[
    ("add_double", Compute),
    ("add_float", Compute),
    ("add_int", Compute),
    ("add_long", Compute),
    ("add_short", Compute),
    ("array_rtns", Compute),
    ("brk_test", Compute),
    ("creat_clo", Namespace),
    ("dgram_pipe", Ipc),
    ("dir_rtns_1", Namespace),
    ("disk_bcp", Buffered),
    ("disk_brd", Buffered),
    ("disk_brr", Buffered),
    ("disk_brw", Buffered),
    ("disk_bwrt", Buffered),
    ("disk_cp", Buffered),
    ("disk_dio_cp", Synchronous),
    ("disk_dio_rd", Synchronous),
    ("disk_dio_rr", Synchronous),
    ("disk_dio_rw", Synchronous),
    ("disk_dio_wrt", Synchronous),
    ("disk_rd", Buffered),
    ("disk_rr", Buffered),
    ("disk_rw", Buffered),
    ("disk_src", Namespace),
    ("disk_wrt", Buffered),
    ("div_double", Compute),
    ("div_float", Compute),
    ("div_int", Compute),
    ("div_long", Compute),
    ("div_short", Compute),
    ("exec_test", Process),
    ("fifo_test", Ipc),
    ("fork_test", Process),
    ("jmp_test", Compute),
    ("link_test", Namespace),
    ("matrix_rtns", Compute),
    ("mem_rtns_1", Compute),
    ("mem_rtns_2", Compute),
    ("misc_rtns_1", Compute),
    ("mul_double", Compute),
    ("mul_float", Compute),
    ("mul_int", Compute),
    ("mul_long", Compute),
    ("mul_short", Compute),
    ("new_raph", Compute),
    ("num_rtns_1", Compute),
    ("page_test", Compute),
    ("pipe_cpy", Ipc),
    ("ram_copy", Compute),
    ("series_1", Compute),
    ("shared_memory", Ipc),
    ("shell_rtns_1", Process),
    ("shell_rtns_2", Process),
    ("shell_rtns_3", Process),
    ("sieve", Compute),
    ("signal_test", Ipc),
    ("sort_rtns_1", Compute),
    ("stream_pipe", Ipc),
    ("string_rtns", Compute),
    ("sync_disk_cp", Synchronous),
    ("sync_disk_rw", Synchronous),
    ("sync_disk_update", Synchronous),
    ("sync_disk_wrt", Synchronous),
    ("tcp_test", Ipc),
    ("trig_rtns", Compute),
    ("udp_test", Ipc),
];

/// A mix: of so many jobs (the weight) each of these subtests is one.
pub type Mix = (&'static str, &'static [(u32, &'static str)]);

/// The mixes, by the names of their workfiles.
pub const MIXES: &[Mix] = &[
    (
        "alltests",
        &[
            (30, "add_double"),
            (30, "add_float"),
            (30, "add_int"),
            (30, "add_long"),
            (30, "add_short"),
            (10, "array_rtns"),
            (10, "brk_test"),
            (10, "creat_clo"),
            (10, "dgram_pipe"),
            (10, "dir_rtns_1"),
            (20, "disk_bcp"),
            (20, "disk_brd"),
            (20, "disk_brr"),
            (20, "disk_brw"),
            (20, "disk_bwrt"),
            (20, "disk_cp"),
            (20, "disk_rd"),
            (20, "disk_rr"),
            (20, "disk_rw"),
            (20, "disk_src"),
            (20, "disk_wrt"),
            (10, "div_double"),
            (10, "div_float"),
            (10, "div_int"),
            (10, "div_long"),
            (10, "div_short"),
            (20, "exec_test"),
            (10, "fifo_test"),
            (10, "fork_test"),
            (10, "jmp_test"),
            (10, "link_test"),
            (10, "matrix_rtns"),
            (10, "mem_rtns_1"),
            (10, "mem_rtns_2"),
            (10, "misc_rtns_1"),
            (20, "mul_double"),
            (20, "mul_float"),
            (20, "mul_int"),
            (20, "mul_long"),
            (20, "mul_short"),
            (10, "new_raph"),
            (10, "num_rtns_1"),
            (10, "page_test"),
            (10, "pipe_cpy"),
            (10, "ram_copy"),
            (10, "series_1"),
            (10, "shared_memory"),
            (20, "shell_rtns_1"),
            (10, "shell_rtns_2"),
            (10, "shell_rtns_3"),
            (30, "sieve"),
            (10, "signal_test"),
            (10, "sort_rtns_1"),
            (10, "stream_pipe"),
            (50, "string_rtns"),
            (20, "sync_disk_cp"),
            (20, "sync_disk_rw"),
            (20, "sync_disk_update"),
            (20, "sync_disk_wrt"),
            (10, "tcp_test"),
            (10, "trig_rtns"),
            (10, "udp_test"),
        ],
    ),
    (
        "compute",
        &[
            (50, "add_double"),
            (30, "add_int"),
            (30, "add_long"),
            (10, "array_rtns"),
            (10, "disk_cp"),
            (30, "disk_rd"),
            (10, "disk_src"),
            (20, "disk_wrt"),
            (40, "div_double"),
            (30, "div_int"),
            (50, "matrix_rtns"),
            (40, "mem_rtns_1"),
            (40, "mem_rtns_2"),
            (50, "mul_double"),
            (30, "mul_int"),
            (30, "mul_long"),
            (40, "new_raph"),
            (40, "num_rtns_1"),
            (50, "page_test"),
            (40, "series_1"),
            (10, "shared_memory"),
            (30, "sieve"),
            (20, "stream_pipe"),
            (30, "string_rtns"),
            (40, "trig_rtns"),
            (20, "udp_test"),
        ],
    ),
    (
        "custom",
        &[
            (10, "creat_clo"),
            (10, "dgram_pipe"),
            (10, "dir_rtns_1"),
            (20, "disk_bcp"),
            (20, "disk_brd"),
            (20, "disk_brr"),
            (20, "disk_brw"),
            (20, "disk_bwrt"),
            (20, "disk_cp"),
            (20, "disk_rd"),
            (20, "disk_rr"),
            (20, "disk_rw"),
            (20, "disk_src"),
            (20, "disk_wrt"),
            (10, "fifo_test"),
            (10, "fork_test"),
            (10, "link_test"),
            (10, "misc_rtns_1"),
            (10, "page_test"),
            (10, "pipe_cpy"),
            (10, "shared_memory"),
            (30, "sieve"),
            (10, "signal_test"),
            (10, "stream_pipe"),
            (20, "sync_disk_rw"),
            (10, "tcp_test"),
            (10, "udp_test"),
        ],
    ),
    (
        "disk",
        &[
            (20, "disk_bcp"),
            (20, "disk_brd"),
            (20, "disk_brr"),
            (20, "disk_brw"),
            (20, "disk_bwrt"),
            (20, "disk_cp"),
            (20, "disk_dio_cp"),
            (20, "disk_dio_rd"),
            (20, "disk_dio_rr"),
            (20, "disk_dio_rw"),
            (20, "disk_dio_wrt"),
            (20, "disk_rd"),
            (20, "disk_rr"),
            (20, "disk_rw"),
            (20, "disk_src"),
            (20, "disk_wrt"),
            (20, "sync_disk_cp"),
            (20, "sync_disk_rw"),
            (20, "sync_disk_update"),
            (20, "sync_disk_wrt"),
        ],
    ),
    (
        "fserver",
        &[
            (20, "add_int"),
            (20, "add_long"),
            (20, "add_short"),
            (20, "creat_clo"),
            (20, "dir_rtns_1"),
            (30, "disk_cp"),
            (30, "disk_rd"),
            (30, "disk_rr"),
            (30, "disk_rw"),
            (30, "disk_src"),
            (30, "disk_wrt"),
            (10, "div_int"),
            (10, "div_long"),
            (10, "div_short"),
            (10, "jmp_test"),
            (20, "link_test"),
            (40, "mem_rtns_1"),
            (10, "mem_rtns_2"),
            (20, "misc_rtns_1"),
            (10, "mul_int"),
            (10, "mul_long"),
            (10, "mul_short"),
            (20, "ram_copy"),
            (10, "signal_test"),
            (30, "sort_rtns_1"),
            (30, "string_rtns"),
            (5, "sync_disk_cp"),
            (5, "sync_disk_rw"),
            (5, "sync_disk_wrt"),
            (10, "tcp_test"),
            (40, "udp_test"),
        ],
    ),
    (
        "high_systime",
        &[
            (20, "brk_test"),
            (20, "creat_clo"),
            (10, "dgram_pipe"),
            (10, "dir_rtns_1"),
            (20, "exec_test"),
            (10, "fork_test"),
            (20, "link_test"),
            (10, "misc_rtns_1"),
            (20, "page_test"),
            (30, "pipe_cpy"),
            (10, "shared_memory"),
            (20, "shell_rtns_1"),
            (10, "shell_rtns_2"),
            (10, "shell_rtns_3"),
            (10, "signal_test"),
            (10, "stream_pipe"),
            (10, "tcp_test"),
            (10, "udp_test"),
        ],
    ),
    (
        "new_fserver",
        &[
            (20, "add_int"),
            (20, "add_long"),
            (20, "add_short"),
            (20, "creat_clo"),
            (20, "dir_rtns_1"),
            (30, "disk_cp"),
            (30, "disk_rd"),
            (30, "disk_rr"),
            (30, "disk_rw"),
            (30, "disk_src"),
            (30, "disk_wrt"),
            (10, "div_int"),
            (10, "div_long"),
            (10, "div_short"),
            (10, "jmp_test"),
            (20, "link_test"),
            (40, "mem_rtns_1"),
            (10, "mem_rtns_2"),
            (20, "misc_rtns_1"),
            (10, "mul_int"),
            (10, "mul_long"),
            (10, "mul_short"),
            (20, "ram_copy"),
            (10, "signal_test"),
            (30, "sort_rtns_1"),
            (30, "string_rtns"),
            (10, "tcp_test"),
            (40, "udp_test"),
        ],
    ),
    (
        "shared",
        &[
            (30, "add_double"),
            (30, "add_float"),
            (30, "add_int"),
            (30, "add_long"),
            (30, "add_short"),
            (10, "array_rtns"),
            (10, "brk_test"),
            (10, "creat_clo"),
            (10, "dgram_pipe"),
            (10, "dir_rtns_1"),
            (20, "disk_cp"),
            (20, "disk_rd"),
            (20, "disk_rr"),
            (20, "disk_rw"),
            (20, "disk_src"),
            (20, "disk_wrt"),
            (10, "div_double"),
            (10, "div_float"),
            (10, "div_int"),
            (10, "div_long"),
            (10, "div_short"),
            (20, "exec_test"),
            (10, "fork_test"),
            (10, "jmp_test"),
            (10, "link_test"),
            (10, "matrix_rtns"),
            (10, "mem_rtns_1"),
            (10, "mem_rtns_2"),
            (10, "misc_rtns_1"),
            (20, "mul_double"),
            (20, "mul_float"),
            (20, "mul_int"),
            (20, "mul_long"),
            (20, "mul_short"),
            (10, "new_raph"),
            (10, "num_rtns_1"),
            (10, "page_test"),
            (10, "pipe_cpy"),
            (10, "ram_copy"),
            (10, "series_1"),
            (10, "shared_memory"),
            (20, "shell_rtns_1"),
            (10, "sieve"),
            (10, "signal_test"),
            (10, "sort_rtns_1"),
            (10, "stream_pipe"),
            (30, "string_rtns"),
            (10, "sync_disk_cp"),
            (10, "sync_disk_rw"),
            (10, "sync_disk_wrt"),
            (10, "tcp_test"),
            (10, "trig_rtns"),
            (10, "udp_test"),
        ],
    ),
    (
        "short",
        &[
            (20, "dgram_pipe"),
            (20, "jmp_test"),
            (20, "matrix_rtns"),
            (20, "mem_rtns_2"),
            (20, "misc_rtns_1"),
            (20, "mul_int"),
            (20, "mul_long"),
            (20, "mul_short"),
            (20, "new_raph"),
            (20, "num_rtns_1"),
            (20, "pipe_cpy"),
            (20, "ram_copy"),
            (20, "series_1"),
            (20, "shared_memory"),
            (20, "stream_pipe"),
            (20, "tcp_test"),
            (20, "udp_test"),
        ],
    ),
];

/// How the jobs of `mix` divide among kinds of subtests.
pub fn kinds(mix: &Mix) -> Vec<(Kind, u32)> {
    let mut kinds: Vec<(Kind, u32)> = Vec::new();
    for &(weight, subtest) in mix.1 {
        let kind = kind(subtest);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum += weight,
            None => kinds.push((kind, weight)),
        }
    }
    kinds
}

fn kind(subtest: &str) -> Kind {
    let found = SUBTESTS.iter().find(|(name, _)| *name == subtest);
    found.expect("every subtest of a mix has a kind").1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subtest_is_used_and_has_a_kind() {
        for (name, _) in SUBTESTS {
            let used = MIXES
                .iter()
                .any(|(_, tests)| tests.iter().any(|(_, test)| test == name));
            assert!(used, "{name}");
        }
        for mix in MIXES {
            let all: u32 = mix.1.iter().map(|(weight, _)| weight).sum();
            assert_eq!(kinds(mix).iter().map(|(_, sum)| sum).sum::<u32>(), all);
        }
    }

    #[test]
    fn a_disk_mix_is_mostly_disk() {
        let of = |name: &str| kinds(MIXES.iter().find(|mix| mix.0 == name).unwrap());
        assert!(
            of("disk")
                .iter()
                .all(|(kind, _)| *kind != Compute && *kind != Process)
        );
        assert!(
            of("new_fserver")
                .iter()
                .all(|(kind, _)| *kind != Synchronous)
        );
        assert!(of("fserver").contains(&(Synchronous, 15)));
    }
}
