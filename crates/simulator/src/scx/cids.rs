//! Cids number the CPUs by topology: the threads of a core are consecutive, as are the cores of a cache and the caches of
//! a node (kernel/sched/ext/cid.c of Linux 7.3). Shards are ranges of cids.

use crate::abi::layout::CidTopo;
use crate::abi::shared::Shared;
use machine::{CpuMask, MAX_CPUS, Machine};

/// `SCX_CID_SHARD_SIZE_DFL`.
const SHARD_SIZE: usize = 24;
/// `SCX_CID_SHARD_MAX_CPUS`.
const MAX_SHARD: usize = 512;

/// The words of a `struct scx_cmask`: its header takes two.
const MASK_WORDS: usize = 2 + MAX_CPUS / 64 + 1;

/// The mapping between CPUs and cids.
pub struct Cids {
    /// Whether the scheduler is in cid form.
    pub form: bool,
    cpu_to_cid: Shared<[i32]>,
    cid_to_cpu: Shared<[i32]>,
    topology: Vec<CidTopo>,
    /// The `struct scx_cmask` that ops get.
    scratch: Shared<[u64]>,
}

const NOWHERE: CidTopo = CidTopo {
    core_cid: -1,
    core_idx: -1,
    llc_cid: -1,
    llc_idx: -1,
    node_cid: -1,
    node_idx: -1,
    shard_cid: -1,
    shard_idx: -1,
};

impl Cids {
    /// `scx_cid_init()`, for shards of `shard_size` CPUs; 0 means the default.
    pub fn new(machine: &Machine, shard_size: u32, form: bool) -> Cids {
        let shard_size = match shard_size {
            0 => SHARD_SIZE,
            size => (size as usize).min(MAX_SHARD),
        };
        let nr_cpus = machine.cpus.len();
        let online = machine.all_cpus();
        let mut order = Vec::with_capacity(nr_cpus);
        let mut topology = Vec::with_capacity(nr_cpus);
        let mut at = CidTopo {
            core_idx: -1,
            llc_idx: -1,
            node_idx: -1,
            shard_idx: -1,
            ..NOWHERE
        };
        let mut left = online;
        while let Some(first) = left.first() {
            let nodes = machine.nodes();
            let node = nodes.iter().find(|span| span.contains(first));
            let mut in_node = node.map_or(left, |node| node.and(&left));
            (at.node_cid, at.node_idx) = (order.len() as i32, at.node_idx + 1);
            while let Some(first) = in_node.first() {
                let caches = machine.last_level_caches();
                let cache = caches.iter().find(|span| span.contains(first));
                let mut in_cache = cache.map_or(CpuMask::one(first), |cache| cache.and(&in_node));
                (at.llc_cid, at.llc_idx) = (order.len() as i32, at.llc_idx + 1);
                let shards = Shards::of(machine, &in_cache, shard_size);
                let (mut shard, mut cores, mut cpus) = (0, 0, 0);
                (at.shard_cid, at.shard_idx) = (order.len() as i32, at.shard_idx + 1);
                while let Some(first) = in_cache.first() {
                    let core = machine.siblings(first).and(&in_cache);
                    if cores > 0
                        && (cores >= shards.cores(shard) || cpus + core.count() > shard_size)
                    {
                        (shard, cores, cpus) = (shard + 1, 0, 0);
                        (at.shard_cid, at.shard_idx) = (order.len() as i32, at.shard_idx + 1);
                    }
                    (cores, cpus) = (cores + 1, cpus + core.count());
                    (at.core_cid, at.core_idx) = (order.len() as i32, at.core_idx + 1);
                    for cpu in core.iter() {
                        order.push(cpu as i32);
                        topology.push(at);
                    }
                    in_cache = in_cache.without(&core);
                    in_node = in_node.without(&core);
                    left = left.without(&core);
                }
            }
        }
        let mut in_shard = shard_size;
        for cpu in (0..nr_cpus).filter(|&cpu| !online.contains(cpu)) {
            if in_shard == shard_size {
                in_shard = 0;
                (at.shard_cid, at.shard_idx) = (order.len() as i32, at.shard_idx + 1);
            }
            in_shard += 1;
            topology.push(CidTopo {
                shard_cid: at.shard_cid,
                shard_idx: at.shard_idx,
                ..NOWHERE
            });
            order.push(cpu as i32);
        }
        let mut cpu_to_cid = vec![0; nr_cpus];
        for (cid, &cpu) in order.iter().enumerate() {
            cpu_to_cid[cpu as usize] = cid as i32;
        }
        Cids {
            form,
            cpu_to_cid: cpu_to_cid.into_boxed_slice().into(),
            cid_to_cpu: order.into_boxed_slice().into(),
            topology,
            scratch: vec![0; MASK_WORDS].into_boxed_slice().into(),
        }
    }

    /// The tables from CPU to cid and back.
    pub fn tables(&self) -> (*const i32, *const i32) {
        (
            self.cpu_to_cid.as_ptr().cast(),
            self.cid_to_cpu.as_ptr().cast(),
        )
    }

    #[inline]
    pub fn of_cpu(&self, cpu: usize) -> i32 {
        self.cpu_to_cid[cpu]
    }

    /// The CPU of `cid`, if there is one.
    pub fn cpu(&self, cid: i32) -> Option<usize> {
        let cpu = usize::try_from(cid)
            .ok()
            .and_then(|cid| self.cid_to_cpu.get(cid));
        cpu.map(|&cpu| cpu as usize)
    }

    pub fn topology(&self, cid: usize) -> CidTopo {
        self.topology[cid]
    }

    /// `cpus` as a `struct scx_cmask`, valid until the next call.
    pub fn mask(&mut self, cpus: &CpuMask) -> *mut u64 {
        let nr_cids = self.cpu_to_cid.len() as u32;
        let words = nr_cids.div_ceil(64) + 1;
        self.scratch.fill(0);
        // `base`, `nr_cids`, `alloc_words`, and padding.
        let header = [0u32, nr_cids, words, 0];
        for (word, pair) in self.scratch.iter_mut().zip(header.chunks(2)) {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&pair[0].to_ne_bytes());
            bytes[4..].copy_from_slice(&pair[1].to_ne_bytes());
            *word = u64::from_ne_bytes(bytes);
        }
        for cpu in cpus.iter() {
            let cid = self.cpu_to_cid[cpu] as usize;
            self.scratch[2 + cid / 64] |= 1 << (cid % 64);
        }
        self.scratch.as_ptr().cast()
    }

    /// `scx_bpf_cid_override()`; the error is the message of a scheduler error.
    pub fn replace(&mut self, cpu_to_cid: &[i32], shard_start: &[i32]) -> Result<(), String> {
        let nr_cpus = self.cpu_to_cid.len();
        let name = "scx_bpf_cid_override";
        if cpu_to_cid.len() != nr_cpus {
            return Err(format!(
                "{name}: cpu_to_cid expected {nr_cpus} entries, got {}",
                cpu_to_cid.len()
            ));
        }
        if shard_start.is_empty() || shard_start.len() > nr_cpus {
            return Err(format!(
                "{name}: invalid shard_start count {}",
                shard_start.len()
            ));
        }
        if shard_start[0] != 0 {
            return Err(format!(
                "{name}: shard_start[0] must be 0, got {}",
                shard_start[0]
            ));
        }
        for (index, pair) in shard_start.windows(2).enumerate() {
            let index = index + 1;
            if pair[1] <= pair[0] {
                return Err(format!("{name}: shard_start not increasing at [{index}]"));
            }
            if pair[1] as usize >= nr_cpus {
                return Err(format!(
                    "{name}: shard_start[{index}]={} >= {nr_cpus}",
                    pair[1]
                ));
            }
        }
        let ends = shard_start[1..].iter().copied().chain([nr_cpus as i32]);
        for (index, (&start, end)) in shard_start.iter().zip(ends).enumerate() {
            if (end - start) as usize > MAX_SHARD {
                return Err(format!(
                    "{name}: shard[{index}] span {} exceeds max {MAX_SHARD}",
                    end - start
                ));
            }
        }
        let mut cid_to_cpu = vec![-1; nr_cpus];
        for (cpu, &cid) in cpu_to_cid.iter().enumerate() {
            let slot = usize::try_from(cid)
                .ok()
                .and_then(|cid| cid_to_cpu.get_mut(cid));
            match slot {
                None => return Err(format!("invalid cid {cid}")),
                Some(-1) => cid_to_cpu[cid as usize] = cpu as i32,
                Some(_) => return Err(format!("cid {cid} assigned to multiple cpus")),
            }
        }
        self.cpu_to_cid.copy_from_slice(cpu_to_cid);
        self.cid_to_cpu.copy_from_slice(&cid_to_cpu);
        for (cid, topology) in self.topology.iter_mut().enumerate() {
            let shard = shard_start.partition_point(|&start| start as usize <= cid) - 1;
            *topology = CidTopo {
                shard_cid: shard_start[shard],
                shard_idx: shard as i32,
                ..NOWHERE
            };
        }
        Ok(())
    }
}

/// The division of a cache's cores into shards, which is as even as possible (`calc_shard_layout()`).
struct Shards {
    cores: usize,
    /// The number of shards with one more core.
    larger: usize,
}

impl Shards {
    fn of(machine: &Machine, cache: &CpuMask, size: usize) -> Shards {
        let first_of_core = |&cpu: &usize| machine.siblings(cpu).and(cache).first() == Some(cpu);
        let cores = cache.iter().filter(first_of_core).count();
        let shards = cache.count().div_ceil(size).max(1);
        Shards {
            cores: cores / shards,
            larger: cores % shards,
        }
    }

    fn cores(&self, shard: usize) -> usize {
        self.cores + usize::from(shard < self.larger)
    }
}
