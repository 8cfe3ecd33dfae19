//! Where addresses are sent, over the whole address space.

use penstock_flow::Addr;

use super::Nic;
use crate::finding::{Packet, Wrong};
use crate::lpm::Span;
use crate::row::Row;

impl Nic<'_> {
    pub(super) fn mapping(&mut self, rows: &[Row], vni: u32, spans: &[Span]) {
        let here = self.place.vpcs.contains(&vni);
        for span in spans {
            if !self.spend(1) {
                return;
            }
            let Some(row) = rows.get(span.row) else {
                continue;
            };
            let Some(vpc) = self.facts.vpcs.get(&vni) else {
                self.wrong(row, Wrong::NoVpc(vni), None);
                continue;
            };
            if !here {
                self.wrong(row, Wrong::VpcElsewhere((*vpc).clone()), None);
                continue;
            }
            let Some(to) = self.facts.ports.get(&span.id).copied() else {
                self.wrong(row, Wrong::NoPort(span.id), None);
                continue;
            };
            // No port has more addresses than this loop has rounds.
            let mut ip = Some(span.low);
            while let Some(at) = ip.filter(|at| *at <= span.high) {
                let owner = self.facts.owner(vni, Addr(at));
                if owner.map(|owner| owner.id) != Some(to.id) {
                    let wrong = Wrong::Astray {
                        ip: Addr(at),
                        to: to.name.clone(),
                        owner: owner.map(|owner| owner.name.clone()),
                    };
                    let packet = self.sender(vni, Addr(at));
                    self.wrong(row, wrong, packet);
                    break;
                }
                ip = at.checked_add(1);
            }
        }
    }

    /// A packet that a port of this NIC may send there.
    fn sender(&self, vni: u32, dst: Addr) -> Option<Packet> {
        let ports = self
            .place
            .ports
            .iter()
            .filter_map(|id| self.facts.ports.get(id));
        let mut ips = ports
            .filter(|known| known.vni == vni)
            .flat_map(|known| &known.port.ips);
        let src = *ips.find(|ip| ip.is_v4() == dst.is_v4())?;
        Some(Packet {
            src,
            dst,
            proto: None,
            sport: 0,
            dport: 0,
        })
    }
}
