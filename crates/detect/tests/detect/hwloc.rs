//! hwloc's XML.

use crate::{kinds, level, machine};

const HYBRID: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000003f" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x0000003f" gp_index="2">
      <info name="CPUModel" value="A hybrid"/>
      <object type="NUMANode" os_index="0" cpuset="0x0000003f" gp_index="3" local_memory="1"/>
      <object type="L3Cache" cpuset="0x0000003f" gp_index="4" cache_size="12582912" depth="3" cache_type="0">
        <object type="L2Cache" cpuset="0x00000003" cache_size="1310720" depth="2" cache_type="0">
          <object type="Core" os_index="0" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
        <object type="L2Cache" cpuset="0x0000000c" cache_size="1310720" depth="2" cache_type="0">
          <object type="L1iCache" cpuset="0x0000000c" cache_size="32768" depth="1" cache_type="2"/>
          <object type="Core" os_index="4" cpuset="0x0000000c">
            <object type="PU" os_index="2" cpuset="0x00000004"/>
            <object type="PU" os_index="3" cpuset="0x00000008"/>
          </object>
        </object>
        <object type="L2Cache" cpuset="0x00000030" cache_size="2097152" depth="2" cache_type="0">
          <object type="Core" os_index="8" cpuset="0x00000010"><object type="PU" os_index="4" cpuset="0x00000010"/></object>
          <object type="Core" os_index="9" cpuset="0x00000020"><object type="PU" os_index="5" cpuset="0x00000020"/></object>
        </object>
      </object>
    </object>
  </object>
  <cpukind cpuset="0x00000030"><info name="CoreType" value="IntelAtom"/><info name="FrequencyMaxMHz" value="3900"/></cpukind>
  <cpukind cpuset="0x0000000f"><info name="CoreType" value="IntelCore"/><info name="FrequencyMaxMHz" value="5200"/></cpukind>
</topology>
"#;

#[test]
fn a_hybrid() {
    let (machine, warnings) = machine(detect::hwloc("h.xml", HYBRID).unwrap());
    assert_eq!(kinds(&machine), ["p-core 1024: 0-3", "e-core 768: 4-5"]);
    assert_eq!(
        [
            level(&machine, "SMT"),
            level(&machine, "CLS"),
            level(&machine, "MC")
        ],
        ["0-1 2-3", "0-1 2-3 4-5", "0-5"]
    );
    assert_eq!(machine.caches.len(), 4);
    assert_eq!(machine.description, "A hybrid");
    assert!(
        warnings[0].contains("only from the highest frequency"),
        "{warnings:?}"
    );
}

#[test]
fn kinds_have_the_names_of_their_cores() {
    let kinds_with = |infos: [&str; 2]| {
        let part = |cpus: &str, info: &str| format!("<cpukind cpuset=\"{cpus}\">{info}</cpukind>");
        let cut = HYBRID.find("  <cpukind").unwrap();
        let xml = format!(
            "{}{}{}</topology>",
            &HYBRID[..cut],
            part("0xf", infos[0]),
            part("0x30", infos[1])
        );
        let implementer = "<info name=\"CPUImplementer\" value=\"0x41\"/>";
        let xml = xml.replace(
            "<info name=\"CPUModel\"",
            &format!("{implementer}<info name=\"CPUModel\""),
        );
        let (machine, warnings) = machine(detect::hwloc("h.xml", &xml).unwrap());
        assert_eq!(
            warnings,
            ["no data on the CPUs' speeds, so all CPUs count as equal"]
        );
        kinds(&machine)
    };
    let info = |name: &str, value: &str| format!("<info name=\"{name}\" value=\"{value}\"/>");
    for (name, values, names) in [
        (
            "CoreType",
            ["IntelAtom", "IntelLowPower"],
            ["e-core", "lp-e-core"],
        ),
        (
            "CPUPart",
            ["0xd85", "0xd87"],
            ["cortex-x925", "cortex-a725"],
        ),
        ("CPUPart", ["0xd85", "0xfff"], ["cortex-x925", "arm-41-fff"]),
        (
            "DarwinCompatible",
            ["apple,firestorm;ARM,v8", "apple,icestorm"],
            ["firestorm", "icestorm"],
        ),
    ] {
        let infos = values.map(|value| info(name, value));
        let expected = [
            format!("{} 1024: 0-3", names[0]),
            format!("{} 1024: 4-5", names[1]),
        ];
        assert_eq!(kinds_with([&infos[0], &infos[1]]), expected);
    }
}

#[test]
fn a_cache_above_the_fourth_level_is_left_out() {
    let fifth = HYBRID.replace(
        "<object type=\"L3Cache\"",
        "<object type=\"Cache\" cpuset=\"0x0000003f\" cache_size=\"67108864\" depth=\"5\" cache_type=\"0\"/>\n      \
         <object type=\"L3Cache\"",
    );
    assert_ne!(fifth, HYBRID);
    let (machine, _) = machine(detect::hwloc("h.xml", &fifth).unwrap());
    assert_eq!(machine.caches.len(), 4);
}

#[test]
fn nodes_have_their_distances() {
    let pu = |number: usize| {
        format!(
            "<object type=\"PU\" os_index=\"{number}\" cpuset=\"0x{:x}\"/>",
            1 << number
        )
    };
    let node = |number: usize, set: &str, pus: String| {
        format!(
            "<object type=\"Package\" os_index=\"{number}\" cpuset=\"{set}\">\
             <object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{set}\"/>{pus}</object>"
        )
    };
    let text = format!(
        "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0xf\">{}{}</object>\
         <distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\
         <indexes length=\"4\">0 1 </indexes><u64values length=\"12\">10 21 21 10 </u64values></distances2></topology>",
        node(0, "0x5", pu(0) + &pu(2)),
        node(1, "0xa", pu(1) + &pu(3)),
    );
    let (machine, _) = machine(detect::hwloc("n.xml", &text).unwrap());
    assert_eq!(machine.numa.distances, [[10, 21], [21, 10]]);
    assert_eq!(level(&machine, "PKG"), "0,2 1,3");
}

#[test]
fn errors_name_their_line() {
    for (from, to, line, says) in [
        ("</topology>\n", "", 30, "never closed"),
        (
            "<object type=\"PU\" os_index=\"0\"",
            "<object type=\"PU\" os_index=\"x\"",
            11,
            "no os_index",
        ),
        ("cache_size=\"12582912\"", "", 8, "no cache_size"),
        (
            "cpuset=\"0x00000030\"><info",
            "cpuset=\"0xg\"><info",
            29,
            "no valid cpuset",
        ),
        (
            "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">",
            "<x/><!--",
            0,
            "not XML",
        ),
    ] {
        assert_eq!(HYBRID.matches(from).count(), 1, "{from}");
        let error = detect::hwloc("h.xml", &HYBRID.replace(from, to)).unwrap_err();
        let said = error.message();
        assert!(said.contains(says), "{said}");
        assert!(
            line == 0 || said.starts_with(&format!("h.xml:{line}: ")),
            "{line}: {said}"
        );
    }
    let unclosed = HYBRID.replace("</topology>", "</x>");
    let said = |text: &str| {
        detect::hwloc("h.xml", text)
            .unwrap_err()
            .message()
            .to_owned()
    };
    assert_eq!(said(&unclosed), said(&unclosed.replace('\n', "\r\n")));
    assert!(
        detect::hwloc("h.xml", "<svg/>")
            .unwrap_err()
            .message()
            .contains("not a topology")
    );
    assert!(
        detect::hwloc("h.xml", "<topology/>")
            .unwrap_err()
            .message()
            .contains("no CPU")
    );
    assert!(detect::hwloc("h.xml", "").is_err());
}

fn packages(packages: &[(&str, &[usize])], others: &str) -> String {
    let package = |(number, (inside, cpus)): (usize, &(&str, &[usize]))| {
        let set: usize = cpus.iter().map(|cpu| 1 << cpu).sum();
        let pus: String = cpus
            .iter()
            .map(|cpu| {
                let set = 1 << cpu;
                format!(
                    "<object type=\"Core\" cpuset=\"0x{set:x}\"><object type=\"PU\" os_index=\"{cpu}\" \
                     cpuset=\"0x{set:x}\"/></object>"
                )
            })
            .collect();
        format!(
            "<object type=\"Package\" os_index=\"{number}\" cpuset=\"0x{set:x}\">{inside}{pus}</object>"
        )
    };
    let packages: String = packages.iter().enumerate().map(package).collect();
    format!(
        "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0xff\">{packages}</object>{others}</topology>"
    )
}

fn node(number: usize, set: &str) -> String {
    format!("<object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{set}\"/>")
}

/// Nodes 0 and 1 have the CPUs, nodes 2 and 3 HBM beside them, node 4 memory of CXL for all.
#[test]
fn memory_beside_a_node_is_no_node_of_its_own() {
    let first = node(0, "0x3") + &node(2, "0x3") + &node(4, "0xf");
    let second = node(1, "0xc") + &node(3, "0xc");
    let distances = "<distances2 type=\"NUMANode\" nbobjs=\"4\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\
        <indexes length=\"8\">0 1 2 3 </indexes>\
        <u64values length=\"1\">10 21 13 23 21 10 23 13 13 23 10 23 23 13 23 10 </u64values></distances2>";
    let text = packages(&[(&first, &[0, 1]), (&second, &[2, 3])], distances);
    let (machine, warnings) = machine(detect::hwloc("h.xml", &text).unwrap());
    assert_eq!(level(&machine, "PKG"), "0-1 2-3");
    assert_eq!(machine.numa.distances, [[10, 21], [21, 10]]);
    assert_eq!(
        warnings,
        ["left out: nodes 2, 3, 4 have memory and no CPUs of their own"]
    );
}

#[test]
fn cpus_of_a_missing_node_are_one_of_their_own() {
    let text = packages(&[(&node(0, "0x3"), &[0, 1]), ("", &[2, 3])], "");
    let (machine, warnings) = machine(detect::hwloc("h.xml", &text).unwrap());
    assert_eq!(level(&machine, "PKG"), "0-1 2-3");
    assert!(
        warnings[0].contains("the nodes of CPUs 2-3 are missing"),
        "{warnings:?}"
    );
}

#[test]
fn what_a_machine_file_cannot_say_is_listed() {
    let group = "<object type=\"Group\" cpuset=\"0x6\" subtype=\"of two\"/>";
    let text = packages(&[(group, &[0, 1]), ("", &[2, 3])], "");
    let (_, warnings) = machine(detect::hwloc("h.xml", &text).unwrap());
    assert_eq!(
        warnings,
        [
            "left out: the packages 0-1 2-3",
            "left out: the groups or dies 1-2"
        ]
    );
}

/// Version 1 has relative latencies of the objects at a depth below an object, here of the cores and of the nodes.
#[test]
fn distances_of_version_1_are_read() {
    let node = |number: usize, set: &str, pus: &str| {
        format!("<object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{set}\">{pus}</object>")
    };
    let pu = |cpu: usize| {
        format!(
            "<object type=\"PU\" os_index=\"{cpu}\" cpuset=\"0x{:x}\"/>",
            1 << cpu
        )
    };
    let distances = |depth: usize, values: [f64; 4]| {
        let values: String = values
            .iter()
            .map(|it| format!("<latency value=\"{it:.6}\"/>"))
            .collect();
        format!(
            "<distances nbobjs=\"2\" relative_depth=\"{depth}\" latency_base=\"10.000000\">{values}</distances>"
        )
    };
    let text = format!(
        "<topology><object type=\"Machine\" cpuset=\"0x3\">{}{}{}{}</object></topology>",
        distances(2, [1.0, 9.0, 9.0, 1.0]),
        distances(1, [1.0, 2.1, 2.1, 1.0]),
        node(0, "0x1", &pu(0)),
        node(3, "0x2", &pu(1)),
    );
    let (machine, _) = machine(detect::hwloc("v1.xml", &text).unwrap());
    assert_eq!(machine.numa.distances, [[10, 21], [21, 10]]);
}

#[test]
fn version_1_lists_cpus_that_are_offline() {
    let all = "cpuset=\"0x3\" complete_cpuset=\"0x3\"";
    let text = format!(
        "<topology><object type=\"Machine\" {all} online_cpuset=\"0x1\">\
         <object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/><object type=\"PU\" os_index=\"1\" cpuset=\"0x2\"/>\
         </object></topology>"
    );
    let (machine, _) = machine(detect::hwloc("v1.xml", &text).unwrap());
    assert_eq!(machine.all_cpus().to_string(), "0");
    assert_eq!(machine.offline.to_string(), "1");
}

#[test]
fn sets_of_more_than_sixty_four_cpus_are_read() {
    let text = packages(&[("", &[0])], "").replace("cpuset=\"0x1\"", "cpuset=\"0x1,,0x1\"");
    let second = "<object type=\"PU\" os_index=\"64\" cpuset=\"0x1,,0x0\"/></object></object>";
    let text = text.replacen("</object></object>", second, 1);
    let (machine, _) = machine(detect::hwloc("h.xml", &text).unwrap());
    assert_eq!(level(&machine, "SMT"), "0,64");
    assert_eq!(machine.offline.count(), 63);
}

#[test]
fn no_value_of_an_attribute_is_too_much() {
    let groups = "<object type=\"Group\" subtype=\"Cluster\" cpuset=\"0x3\"/><object type=\"Die\" cpuset=\"0xc\"/>";
    let distances = "<distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\
                     <indexes length=\"4\">0 1 </indexes><u64values length=\"12\">10 21 21 10 </u64values></distances2>";
    let node = "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x30\"/>";
    let text = HYBRID
        .replace(
            "<object type=\"L3Cache\"",
            &format!("{groups}{node}<object type=\"L3Cache\""),
        )
        .replace(
            "os_index=\"0\" cpuset=\"0x0000003f\" gp_index=\"3\"",
            "os_index=\"0\" cpuset=\"0xf\" gp_index=\"3\"",
        )
        .replace("</topology>", &format!("{distances}</topology>"));
    let quotes: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
    let values = quotes.chunks_exact(2).map(|two| two[0] + 1..two[1]);
    let numbers = ["10 21 21 10 ", "0 1 "]
        .map(|numbers| text.find(numbers).unwrap())
        .map(|at| at..at + 1);
    for place in values.chain(numbers) {
        for odd in [
            "",
            "0",
            "1",
            "-1",
            "4095",
            "4294967295",
            "18446744073709551615",
            "0x0",
            "0x1",
            "0x6",
            "0xf...f",
            "PU",
            "Core",
        ] {
            let mut odd_text = text.clone();
            odd_text.replace_range(place.clone(), odd);
            if let Ok(found) = detect::hwloc("h.xml", &odd_text) {
                machine(found);
            }
        }
    }
}
