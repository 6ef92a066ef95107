//! A machine as described by hwloc's XML (`lstopo machine.xml`).

mod numa;

use crate::folder::hex_mask;
use crate::found::Measure;
use crate::found::{Cpu, Found};
use crate::kind::arm_name_of;
use machine::input::BadInput;
use machine::{Cache, CpuMask};
use roxmltree::{Document, Error, Node, ParsingOptions};

/// The machine that `text`, the content of `file`, describes in version 1, 2 or 3 of hwloc's format.
pub fn hwloc(file: &str, text: &str) -> Result<Found, Box<BadInput>> {
    let options = ParsingOptions {
        // Each file begins with the name of its DTD.
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let line = match error {
            // The parser has no line for a truncated file.
            Error::UnclosedRootNode | Error::UnexpectedEndOfStream => text.lines().count(),
            _ => error.pos().row as usize,
        };
        let start: usize = text
            .split_inclusive('\n')
            .take(line.saturating_sub(1))
            .map(str::len)
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
        let machine = objects(root, &["Machine", "System"]).next();
        let set = |name: &str| hex_mask(machine?.attribute(name)?);
        // Only version 1 of hwloc, which also lists CPUs that are offline, has this attribute.
        let listed_online = set("online_cpuset");
        for pu in objects(root, &["PU"]) {
            let cpu: usize = self.number(pu, "os_index")?;
            if cpu >= machine::MAX_CPUS {
                let message = format!("CPU {cpu}");
                let expected = format!("expected CPUs below {}", machine::MAX_CPUS);
                return Err(self.bad(pu, message, &expected));
            }
            if listed_online.is_none_or(|online| online.contains(cpu)) {
                found.cpus.insert(cpu, Cpu::default());
            }
        }
        let Some(&last) = found.cpus.keys().last() else {
            return Err(self.bad(root, "no CPU", "expected objects of type PU"));
        };
        let online = found.online();
        found.offline = set("complete_cpuset")
            .unwrap_or(CpuMask::EMPTY)
            .or(&CpuMask::first_n(last + 1))
            .without(&online);
        for core in objects(root, &["Core"]) {
            let core = self.cpuset(core)?.and(&online);
            for cpu in core.iter() {
                found.cpus.entry(cpu).and_modify(|cpu| cpu.siblings = core);
            }
        }
        // Since hwloc 2.5, Linux's clusters are groups of this subtype.
        let is_cluster = |group: &Node| group.attribute("subtype") == Some("Cluster");
        for cluster in objects(root, &["Group"]).filter(is_cluster) {
            let cluster = self.cpuset(cluster)?.and(&online);
            for cpu in cluster.iter() {
                let set = |cpu: &mut Cpu| cpu.cluster = Some(cluster);
                found.cpus.entry(cpu).and_modify(set);
            }
        }
        for (&number, cpu) in &mut found.cpus {
            if cpu.siblings.is_empty() {
                cpu.siblings = CpuMask::one(number);
            }
        }
        self.caches(root, &mut found)?;
        self.kinds(root, &mut found)?;
        let groups = objects(root, &["Group", "Die"]).filter(|group| !is_cluster(group));
        let groups = self.spans(groups, &online)?;
        self.nodes(root, &mut found, &groups)?;
        found.tidy();
        Ok(found)
    }

    /// The online CPUs of each of `objects`, without duplicates and without sets of all CPUs.
    fn spans<'a, 'input: 'a>(
        &self,
        objects: impl Iterator<Item = Node<'a, 'input>>,
        online: &CpuMask,
    ) -> Result<Vec<CpuMask>, Box<BadInput>> {
        let mut spans = Vec::new();
        for object in objects {
            // In version 1, objects without CPUs have no `cpuset`.
            let span = match object.has_attribute("cpuset") {
                true => self.cpuset(object)?.and(online),
                false => CpuMask::EMPTY,
            };
            if !span.is_empty() && span != *online && !spans.contains(&span) {
                spans.push(span);
            }
        }
        Ok(spans)
    }

    fn caches(&self, root: Node, found: &mut Found) -> Result<(), Box<BadInput>> {
        for cache in objects(root, &["Cache", "L2Cache", "L3Cache", "L4Cache"]) {
            // An instruction cache.
            if cache.attribute("cache_type") == Some("2") {
                continue;
            }
            let bytes: u64 = self.number(cache, "cache_size")?;
            found.caches.push(Cache {
                level: self.number(cache, "depth")?,
                cpus: self.cpuset(cache)?,
                size_kib: u32::try_from(bytes >> 10).ok(),
            });
        }
        Ok(())
    }

    /// Reads the kinds of CPUs, which files have since hwloc 2.4.
    fn kinds(&self, root: Node, found: &mut Found) -> Result<(), Box<BadInput>> {
        for kind in root
            .descendants()
            .filter(|node| node.has_tag_name("cpukind"))
        {
            let (cpus, name) = (self.cpuset(kind)?, core_name(kind, root));
            let value = |name, unit| info(kind, name)?.parse::<u64>().ok()?.checked_mul(unit);
            let measures = [
                (Measure::MaxFrequency, value("FrequencyMaxMHz", 1000)),
                (Measure::LinuxCapacity, value("LinuxCapacity", 1)),
            ];
            let of_kind = found.cpus.iter_mut();
            for (_, cpu) in of_kind.filter(|(number, _)| cpus.contains(**number)) {
                cpu.kind = name.clone().or(cpu.kind.take());
                let known = measures
                    .iter()
                    .filter_map(|&(measure, value)| Some((measure, value?)));
                cpu.measures.extend(known);
            }
        }
        Ok(())
    }
}

fn objects<'a, 'input: 'a>(
    root: Node<'a, 'input>,
    types: &'static [&'static str],
) -> impl Iterator<Item = Node<'a, 'input>> {
    root.descendants().filter(|node| {
        let has = |name| types.contains(&name);
        node.has_tag_name("object") && node.attribute("type").is_some_and(has)
    })
}

fn info<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let infos = node.children().filter(|child| child.has_tag_name("info"));
    let mut named = infos.filter(|info| info.attribute("name") == Some(name));
    named.find_map(|info| info.attribute("value"))
}

/// The name of the cores of a kind of CPU: Intel's, Arm's (since hwloc 2.14, by the fields of the MIDR in which the
/// kinds differ; the other fields belong to the package), or that of macOS, such as `apple,icestorm;ARM,v8`.
fn core_name(kind: Node, root: Node) -> Option<String> {
    let intel = match info(kind, "CoreType") {
        Some("IntelCore") => Some("p-core"),
        Some("IntelAtom") => Some("e-core"),
        // hwloc has this type since 2.13.
        Some("IntelLowPower") => Some("lp-e-core"),
        _ => None,
    };
    let macos = || {
        info(kind, "DarwinCompatible")?
            .split(';')
            .next()?
            .split(',')
            .nth(1)
    };
    if let Some(name) = intel.or_else(macos) {
        return Some(name.to_owned());
    }
    let mut packages = objects(root, &["Package"]);
    let common = || packages.find_map(|package| info(package, "CPUImplementer"));
    arm_name_of(
        info(kind, "CPUImplementer").or_else(common)?,
        info(kind, "CPUPart")?,
    )
}

fn description(root: Node) -> String {
    let count = objects(root, &["Package", "Socket"]).count();
    let infos = root.descendants().filter(|node| node.has_tag_name("info"));
    let models = infos.filter(|info| info.attribute("name") == Some("CPUModel"));
    let model = models.filter_map(|info| info.attribute("value")).next();
    match model {
        Some(model) if count > 1 => format!("{count} x {}", model.trim()),
        Some(model) => model.trim().to_owned(),
        None => "a machine described by hwloc".to_owned(),
    }
}
