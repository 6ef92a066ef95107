//! A machine as described by hwloc's XML (`lstopo machine.xml`).

use crate::capacity::Measure;
use crate::found::{Cpu, Found};
use crate::sysfs::hex_mask;
use machine::input::BadInput;
use machine::{Cache, CpuMask};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// The machine that `text`, the content of `file`, describes in version 1 or 2 of the format.
pub fn hwloc(file: &str, text: &str) -> Result<Found, Box<BadInput>> {
    let options = ParsingOptions {
        // Each file begins with the name of its DTD.
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let line = error.pos().row as usize;
        let start: usize = text
            .lines()
            .take(line.saturating_sub(1))
            .map(|line| line.len() + 1)
            .sum();
        let message = format!("not XML: {error}");
        Box::new(BadInput::at(
            file,
            text,
            start..start,
            message,
            "expected hwloc's XML",
        ))
    })?;
    let reader = Reader { file, text };
    let root = document.root_element();
    if !root.has_tag_name("topology") {
        return Err(reader.bad(
            root,
            "this is not a topology",
            "expected <topology>, as lstopo writes it",
        ));
    }
    reader.machine(root)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn bad(&self, node: Node, message: impl Into<String>, expected: &str) -> Box<BadInput> {
        let at = node.range();
        Box::new(BadInput::at(self.file, self.text, at, message, expected))
    }

    fn cpuset(&self, node: Node) -> Result<CpuMask, Box<BadInput>> {
        let set = node.attribute("cpuset").and_then(hex_mask);
        set.ok_or_else(|| self.bad(node, "no valid cpuset", "expected one such as 0x0000000f"))
    }

    fn number<T: std::str::FromStr>(&self, node: Node, name: &str) -> Result<T, Box<BadInput>> {
        let number = node.attribute(name).and_then(|value| value.parse().ok());
        number.ok_or_else(|| {
            let expected = format!("expected {name}, a number");
            self.bad(node, format!("no {name} that fits"), &expected)
        })
    }

    fn machine(&self, root: Node) -> Result<Found, Box<BadInput>> {
        let mut found = Found {
            description: description(root),
            source: "hwloc's XML".to_owned(),
            ..Found::default()
        };
        let mut nodes: BTreeMap<usize, CpuMask> = BTreeMap::new();
        let mut cores: Vec<CpuMask> = Vec::new();
        for object in root
            .descendants()
            .filter(|node| node.has_tag_name("object"))
        {
            match object.attribute("type").unwrap_or_default() {
                "PU" => {
                    let cpu: usize = self.number(object, "os_index")?;
                    if cpu >= machine::MAX_CPUS {
                        return Err(self.bad(
                            object,
                            format!("CPU {cpu}"),
                            "expected CPUs below 1024",
                        ));
                    }
                    found.cpus.insert(cpu, Cpu::default());
                }
                "Core" => cores.push(self.cpuset(object)?),
                "NUMANode" => {
                    nodes.insert(self.number(object, "os_index")?, self.cpuset(object)?);
                }
                "Cache" | "L2Cache" | "L3Cache" | "L4Cache" => {
                    // 2 means an instruction cache; a machine file has at most four levels.
                    if object.attribute("cache_type") == Some("2")
                        || !(2..=4).contains(&self.number::<u32>(object, "depth")?)
                    {
                        continue;
                    }
                    let bytes: u64 = self.number(object, "cache_size")?;
                    found.caches.push(Cache {
                        level: self.number(object, "depth")?,
                        cpus: self.cpuset(object)?,
                        size_kib: u32::try_from(bytes >> 10).ok().filter(|&kib| kib > 0),
                    });
                }
                _ => {}
            }
        }
        let Some(&last) = found.cpus.keys().last() else {
            return Err(self.bad(root, "no CPU", "expected objects of type PU"));
        };
        let online = found.online();
        found.offline = CpuMask::first_n(last + 1).without(&online);
        for (&number, cpu) in &mut found.cpus {
            let core = cores.iter().find(|core| core.contains(number));
            cpu.siblings = core.map_or(CpuMask::one(number), |core| core.and(&online));
        }
        self.kinds(root, &mut found)?;
        nodes.retain(|_, cpus| cpus.intersects(&online));
        found.distances = self.distances(root, &nodes)?;
        found.nodes = nodes.into_values().map(|cpus| cpus.and(&online)).collect();
        let in_nodes = found
            .nodes
            .iter()
            .fold(CpuMask::EMPTY, |all, node| all.or(node));
        if in_nodes != online {
            (found.nodes, found.distances) = (Vec::new(), Vec::new());
        }
        found.tidy();
        Ok(found)
    }

    /// The kinds of CPU (since hwloc 2.4).
    fn kinds(&self, root: Node, found: &mut Found) -> Result<(), Box<BadInput>> {
        for kind in root
            .descendants()
            .filter(|node| node.has_tag_name("cpukind"))
        {
            let cpus = self.cpuset(kind)?;
            for info in kind.children().filter(|node| node.has_tag_name("info")) {
                let name = info.attribute("name").unwrap_or_default();
                let value = info.attribute("value").unwrap_or_default();
                for (_, cpu) in found
                    .cpus
                    .iter_mut()
                    .filter(|(number, _)| cpus.contains(**number))
                {
                    let mut measure = |measure, unit: u32| {
                        let value = value
                            .parse::<u32>()
                            .ok()
                            .and_then(|value| value.checked_mul(unit));
                        cpu.measures.extend(value.map(|value| (measure, value)));
                    };
                    match (name, value) {
                        ("FrequencyMaxMHz", _) => measure(Measure::MaxFrequency, 1000),
                        ("LinuxCapacity", _) => measure(Measure::LinuxCapacity, 1),
                        ("CoreType", "IntelCore") => cpu.kind = Some("p-core".to_owned()),
                        ("CoreType", "IntelAtom") => cpu.kind = Some("e-core".to_owned()),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// The distances between `nodes`, in their order; empty if the file lacks any of them.
    fn distances(
        &self,
        root: Node,
        nodes: &BTreeMap<usize, CpuMask>,
    ) -> Result<Vec<Vec<u32>>, Box<BadInput>> {
        let latencies = root.descendants().find(|node| {
            node.has_tag_name("distances2")
                && node.attribute("type") == Some("NUMANode")
                && node
                    .attribute("name")
                    .is_none_or(|name| name == "NUMALatency")
        });
        let Some(latencies) = latencies else {
            return Ok(Vec::new());
        };
        let list = |tag: &str| -> Result<Vec<u32>, Box<BadInput>> {
            let mut all = Vec::new();
            for part in latencies.children().filter(|node| node.has_tag_name(tag)) {
                for number in part.text().unwrap_or_default().split_whitespace() {
                    let number = number.parse();
                    all.push(number.map_err(|_| {
                        self.bad(part, "not numbers", "expected a list of numbers")
                    })?);
                }
            }
            Ok(all)
        };
        let (indexes, values) = (list("indexes")?, list("u64values")?);
        let count = indexes.len();
        if values.len() != count * count {
            return Err(self.bad(
                latencies,
                format!("{} distances of {count} nodes", values.len()),
                "expected a distance for each pair of nodes",
            ));
        }
        let places: Option<Vec<usize>> = nodes
            .keys()
            .map(|node| indexes.iter().position(|&index| index as usize == *node))
            .collect();
        let Some(places) = places.filter(|places| places.len() > 1) else {
            return Ok(Vec::new());
        };
        let row = |&a: &usize| places.iter().map(|&b| values[a * count + b]).collect();
        Ok(places.iter().map(row).collect())
    }
}

/// The model name of its CPUs, and the number of packages.
fn description(root: Node) -> String {
    let objects = || {
        root.descendants()
            .filter(|node| node.has_tag_name("object"))
    };
    let packages =
        objects().filter(|node| matches!(node.attribute("type"), Some("Package" | "Socket")));
    let count = packages.count();
    let infos = root.descendants().filter(|node| node.has_tag_name("info"));
    let models = infos.filter(|info| info.attribute("name") == Some("CPUModel"));
    let model = models.filter_map(|info| info.attribute("value")).next();
    match model {
        Some(model) if count > 1 => format!("{count} x {}", model.trim()),
        Some(model) => model.trim().to_owned(),
        None => "a machine described by hwloc".to_owned(),
    }
}
