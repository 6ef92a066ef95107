//! The network adapter's section.

use super::NetworkFile;
use super::reader::{Reader, Result};
use super::topology::Topology;
use crate::Network;
use toml::Spanned;

impl Reader<'_> {
    pub(super) fn network(
        &self,
        file: &Option<NetworkFile>,
        topology: &Topology,
    ) -> Result<Option<Network>> {
        let Some(file) = file else {
            return Ok(None);
        };
        let count = |value: &Spanned<u64>, what: &str, most: u64| -> Result<u64> {
            if (1..=most).contains(value.get_ref()) {
                return Ok(*value.get_ref());
            }
            self.bad(
                value.span(),
                format!("{what} is {}", value.get_ref()),
                format!("expected 1 to {most}"),
            )
        };
        let (cpu, cpus) = (*file.irq_cpu.get_ref(), topology.cpus.len());
        if cpu >= cpus || topology.offline.contains(cpu) {
            return self.bad(
                file.irq_cpu.span(),
                format!("there is no CPU {cpu}"),
                format!("expected a CPU below {cpus} that is online"),
            );
        }
        Ok(Some(Network {
            driver: file.driver,
            link_kbit: count(&file.link_kbit, "link_kbit", 1_000_000_000)?,
            packet_bytes: count(&file.packet_bytes, "packet_bytes", 65_536)?,
            irq_cpu: *file.irq_cpu.get_ref(),
            irq_ns: self.cost(&file.irq_ns, 1),
            tx_packet_ns: self.cost(&file.tx_packet_ns, 1),
            rx_packet_ns: self.cost(&file.rx_packet_ns, 1),
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;

    #[test]
    fn errors_name_their_line() {
        let good = include_str!("../../machines/hikey-6220.toml");
        for (key, to, says) in [
            ("link_kbit", "0", "expected 1 to"),
            ("packet_bytes", "1000000", "expected 1 to 65536"),
            ("irq_cpu", "8", "below 8"),
            ("irq_ns", "2000000000", "longer than a second"),
        ] {
            let line = good
                .lines()
                .position(|line| line.starts_with(&format!("{key} =")))
                .unwrap();
            let text: Vec<String> = good
                .lines()
                .enumerate()
                .map(|(number, text)| match number == line {
                    true => format!("{key} = {to}"),
                    false => text.to_owned(),
                })
                .collect();
            let error = Machine::parse("f.toml", &text.join("\n")).unwrap_err();
            let said = format!("{} {}", error.message(), error.expected());
            assert!(said.contains(says), "{said}");
            assert!(said.starts_with(&format!("f.toml:{}:", line + 1)), "{said}");
        }
    }
}
