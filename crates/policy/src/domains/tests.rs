use super::*;
use machine::Level;
use proptest::prelude::*;

fn of(name: &str) -> Domains {
    Domains::new(&Machine::find(name).unwrap(), Linux::V3_9)
}

fn mask(list: &str) -> CpuMask {
    list.parse().unwrap()
}

#[test]
fn two_clusters_make_two_levels() {
    let tc2 = of("tc2");
    assert_eq!(
        tc2.to_string(),
        "MC 0-1: 0 | 1\nMC 2-4: 2 | 3 | 4\nPKG 0-4: 0-1 | 2-4\n"
    );
    assert_eq!(
        tc2.cpus,
        [vec![0, 2], vec![0, 2], vec![1, 2], vec![1, 2], vec![1, 2]]
    );
    assert!(!tc2.domains[0].flags.has(Flags::PREFER_SIBLING));
    assert!(tc2.domains[2].flags.has(Flags::PREFER_SIBLING));
}

#[test]
fn one_cluster_makes_one_level() {
    let smp = of("tc2-smp");
    assert_eq!(smp.to_string(), "MC 0-1: 0 | 1\n");
    assert_eq!(smp.cpus, [vec![0], vec![0]]);
}

#[test]
fn one_cpu_has_no_domain() {
    let mut machine = Machine::find("tc2-smp").unwrap();
    machine.cpus.truncate(1);
    machine
        .levels
        .iter_mut()
        .for_each(|level| level.spans = vec![mask("0")]);
    let domains = Domains::new(&machine, Linux::V3_9);
    assert!(domains.domains.is_empty());
    assert_eq!(domains.cpus, [Vec::<usize>::new()]);
}

#[test]
fn a_lone_cpu_in_its_cluster_skips_the_level() {
    let mut machine = Machine::find("tc2").unwrap();
    let spans = |lists: &[&str]| lists.iter().map(|list| mask(list)).collect::<Vec<_>>();
    machine.levels = vec![
        Level {
            name: "SMT",
            spans: spans(&["0", "1", "2-3", "4"]),
        },
        Level {
            name: "MC",
            spans: spans(&["0-1", "2-3", "4"]),
        },
        Level {
            name: "PKG",
            spans: spans(&["0-4"]),
        },
    ];
    let domains = Domains::new(&machine, Linux::V3_9);
    assert_eq!(
        domains.to_string(),
        "SMT 2-3: 2 | 3\nMC 0-1: 0 | 1\nPKG 0-4: 0-1 | 2-3 | 4\n"
    );
    assert_eq!(domains.cpus[4], [2]);
}

#[test]
fn nodes_make_a_level_for_each_distance() {
    let domains = of("hp-8s-80c-ht");
    let first: Vec<String> = domains.of(0).map(Domain::to_string).collect();
    assert_eq!(first[0], "SMT 0,80: 0 | 80");
    assert!(first[1].starts_with("MC 0-9,80-89: 0,80 | 1,81 | "));
    assert!(
        domains
            .of(0)
            .nth(1)
            .unwrap()
            .flags
            .has(Flags::PREFER_SIBLING)
    );
    assert_eq!(first[2], "NUMA 0-19,80-99: 0-9,80-89 | 10-19,90-99");
    assert_eq!(first[3], "NUMA 0-39,80-119: 0-19,80-99 | 20-39,100-119");
    assert_eq!(first[4], "NUMA 0-159: 0-39,80-119 | 40-79,120-159");
    assert_eq!(first.len(), 5);
    assert!(
        domains
            .of(0)
            .all(|domain| domain.flags.has(Flags::WAKE_AFFINE))
    );
}

#[test]
fn tasks_are_not_placed_on_nodes_too_far_away() {
    let mut machine = Machine::find("smp-2x8").unwrap();
    machine.numa.distances = vec![vec![10, 40], vec![40, 10]];
    let domains = Domains::new(&machine, Linux::V3_9);
    let top = domains.of(0).last().unwrap();
    assert_eq!(top.level, "NUMA");
    assert!(
        !top.flags
            .has(Flags::WAKE_AFFINE | Flags::BALANCE_FORK | Flags::BALANCE_EXEC)
    );
    assert!(top.flags.has(Flags::BALANCE_NEWIDLE));
}

#[test]
fn a_second_level_cache_is_a_domain_in_6_12() {
    let text = "name = \"modules\"\n[core.e]\n[[package]]\n[[package.cluster]]\ncore = \"e\"\ncpus = \"0-3\"\n\
                [[package.cache]]\nlevel = 2\ncpus = [\"0-1\", \"2-3\"]\n\
                [[package.cache]]\nlevel = 3\ncpus = [\"0-3\"]\n";
    let machine = Machine::parse("modules.toml", text).unwrap();
    let now = Domains::new(&machine, Linux::V6_12);
    assert_eq!(
        now.to_string(),
        "CLS 0-1: 0 | 1\nCLS 2-3: 2 | 3\nMC 0-3: 0-1 | 2-3\n"
    );
    assert!(now.domains[0].flags.has(Flags::SHARE_PKG_RESOURCES));
    let then = Domains::new(&machine, Linux::V3_9).to_string();
    assert_eq!(then, "MC 0-3: 0 | 1 | 2 | 3\n");
}

fn of_6_12(name: &str) -> Domains {
    Domains::new(&Machine::find(name).unwrap(), Linux::V6_12)
}

#[test]
fn domains_of_unlike_cpus_are_marked_in_6_12() {
    let tc2 = of_6_12("tc2");
    let asymmetric = Flags::ASYM_CPUCAPACITY | Flags::ASYM_CPUCAPACITY_FULL;
    let flags: Vec<_> = tc2.domains.iter().map(|domain| domain.flags).collect();
    assert!(!flags[0].has(asymmetric) && flags[0].has(Flags::PREFER_SIBLING));
    assert!(flags[2].has(Flags::ASYM_CPUCAPACITY) && flags[2].has(Flags::ASYM_CPUCAPACITY_FULL));
    assert!(flags[2].has(Flags::PREFER_SIBLING));
    assert!(
        of_6_12("smp-8")
            .domains
            .iter()
            .all(|domain| !domain.flags.has(asymmetric))
    );
    assert_eq!(
        [tc2.domains[0].imbalance_pct, tc2.domains[1].max_interval],
        [117, 6]
    );
}

/// Hardware threads are not ranked among each other; ranked CPUs have equal capacities.
#[test]
fn ranked_cpus_are_packed_at_all_levels_but_smt_in_6_12() {
    let machine = Machine::find("alder-lake").unwrap();
    let domains = Domains::new(&machine, Linux::V6_12);
    for (cpu, expected) in [
        (0, [("SMT", false), ("MC", true)]),
        (20, [("CLS", true), ("MC", true)]),
    ] {
        let packed = |domain: &Domain| (domain.level, domain.flags.has(Flags::ASYM_PACKING));
        assert_eq!(domains.of(cpu).map(packed).collect::<Vec<_>>(), expected);
        assert!(
            domains
                .of(cpu)
                .all(|domain| !domain.flags.has(Flags::ASYM_CPUCAPACITY))
        );
    }
    let then = Domains::new(&machine, Linux::V3_9);
    assert!(
        then.of(0)
            .all(|domain| !domain.flags.has(Flags::ASYM_PACKING))
    );
}

/// With two nodes, one task for each cache of a node is allowed; the level above two nodes allows more.
#[test]
fn a_node_may_have_as_many_tasks_as_6_12_says() {
    let allowed: Vec<u32> = of_6_12("hp-8s-80c-ht")
        .of(0)
        .map(|domain| domain.imb_numa_nr)
        .collect();
    assert_eq!(allowed[2..], [2, 2, 4]);
    assert!(
        of_6_12("hp-8s-80c-ht")
            .of(0)
            .last()
            .unwrap()
            .flags
            .has(Flags::NUMA)
    );
}

proptest! {
    #[test]
    fn groups_partition_domains_that_grow(
        machine in machine::arbitrary::machine(),
        linux in prop_oneof![Just(Linux::V3_9), Just(Linux::V6_12), Just(Linux::Described)],
    ) {
        let domains = Domains::new(&machine, linux);
        for domain in &domains.domains {
            let union = domain.groups.iter().fold(CpuMask::EMPTY, |all, group| all.or(group));
            prop_assert_eq!(union, domain.span);
            let sum: usize = domain.groups.iter().map(CpuMask::count).sum();
            prop_assert_eq!(sum, domain.span.count());
            prop_assert!(domain.span.count() > 1);
        }
        for cpu in 0..machine.cpus.len() {
            let spans: Vec<&CpuMask> = domains.of(cpu).map(|domain| &domain.span).collect();
            prop_assert!(spans.iter().all(|span| span.contains(cpu)));
            prop_assert!(spans.windows(2).all(|pair| pair[0] != pair[1] && pair[0].is_subset(pair[1])));
        }
        let online = machine.all_cpus();
        if online.count() > 1 {
            let top = domains.of(online.first().unwrap()).last().map(|domain| domain.span);
            prop_assert_eq!(top, Some(online));
        }
    }
}
