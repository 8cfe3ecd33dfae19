//! Rows that speak for themselves: all tables but `acl` and `mapping`.

use penstock_flow::{Addr, Mac};

use super::Nic;
use crate::facts::Known;
use crate::finding::Wrong;
use crate::row::{Bind, Hop, Row};

impl Nic<'_> {
    pub(super) fn vport(&mut self, row: &Row, device_port: u32, vlan: u16, bind: Bind) {
        match bind {
            Bind::FrontEnd => self.wrong(row, Wrong::FrontEnd, None),
            Bind::Uplink => {
                if self.uplink != Some(device_port) || vlan != 0 {
                    self.wrong(row, Wrong::NoUplink, None);
                }
            }
            Bind::Port { port, vni } => {
                let there = self.there.get(&(device_port, vlan));
                let Some(known) = there.and_then(|id| self.facts.ports.get(id)) else {
                    return self.wrong(row, Wrong::Nobody, None);
                };
                if known.id != port {
                    self.wrong(row, Wrong::OtherPort(known.name.clone()), None);
                }
                self.same_vni(row, known.vni, vni);
            }
        }
    }

    fn same_vni(&mut self, row: &Row, expected: u32, found: u32) {
        if expected != found {
            self.wrong(row, Wrong::Vni { expected, found }, None);
        }
    }

    pub(super) fn spoof_guard(&mut self, row: &Row, port: u32, mac: Mac, ip: Addr) {
        let Some(known) = self.facts.ports.get(&port) else {
            return self.wrong(row, Wrong::NoPort(port), None);
        };
        if !self.is_here(known) {
            return self.wrong(row, Wrong::PortElsewhere(known.name.clone()), None);
        }
        if known.port.mac != mac {
            let expected = known.port.mac;
            self.wrong(
                row,
                Wrong::Mac {
                    expected,
                    found: mac,
                },
                None,
            );
        }
        if !known.port.ips.contains(&ip) {
            let port = known.name.clone();
            self.wrong(row, Wrong::Address { port, ip }, None);
        }
    }

    pub(super) fn underlay(&mut self, row: &Row, src: Addr, dst: Addr, vni: u32, decap: u32) {
        let Some(vpc) = self.facts.vpcs.get(&vni) else {
            return self.wrong(row, Wrong::NoVpc(vni), None);
        };
        self.same_vni(row, vni, decap);
        if dst != self.place.vtep {
            let expected = self.place.vtep;
            self.wrong(
                row,
                Wrong::OwnVtep {
                    expected,
                    found: dst,
                },
                None,
            );
        }
        if !self.place.vpcs.contains(&vni) {
            self.wrong(row, Wrong::VpcElsewhere((*vpc).clone()), None);
        }
        // The VNI on the wire is that of the receiving VPC.
        let other = self.facts.vteps.get(&src);
        let may_send = src != self.place.vtep
            && other
                .and_then(|nic| self.facts.nics.get(nic))
                .is_some_and(|place| place.vpcs.iter().any(|it| self.facts.may_meet(*it, vni)));
        if !may_send {
            self.wrong(row, Wrong::Stranger(src), None);
        }
    }

    pub(crate) fn is_here(&self, known: &Known<'_>) -> bool {
        known.port.node == *self.name && known.port.nic == self.device_id
    }

    /// Whether some VPC of this NIC may speak to the port.
    fn concerns(&self, known: &Known<'_>) -> bool {
        let mut here = self.place.vpcs.iter();
        here.any(|vni| self.facts.may_meet(*vni, known.vni))
    }

    pub(super) fn nexthop(&mut self, row: &Row, id: u32, hop: &Hop) {
        let Some(known) = self.facts.ports.get(&id).copied() else {
            return self.wrong(row, Wrong::NoPort(id), None);
        };
        if !self.concerns(&known) {
            return self.wrong(row, Wrong::Unconcerned(known.name.clone()), None);
        }
        let here = self.is_here(&known);
        match *hop {
            Hop::ToFrontEnd { .. } => self.wrong(row, Wrong::FrontEnd, None),
            Hop::ToPort {
                device_port,
                vlan,
                mac,
            } if here => self.local(row, &known, device_port, vlan, mac),
            Hop::ToVtep { .. } if !here => self.remote(row, &known, hop),
            Hop::ToPort { .. } | Hop::ToVtep { .. } => {
                let port = known.name.clone();
                self.wrong(row, Wrong::Way { port, here }, None);
            }
        }
    }

    fn local(&mut self, row: &Row, known: &Known<'_>, device_port: u32, vlan: u16, mac: Mac) {
        match self.host.interfaces.ports.get(&known.id).copied() {
            None => self.wrong(row, Wrong::Nobody, None),
            Some(expected) if expected != device_port => {
                let (port, found) = (known.name.clone(), device_port);
                let wrong = Wrong::DevicePort {
                    port,
                    expected,
                    found,
                };
                self.wrong(row, wrong, None);
            }
            Some(_) => {}
        }
        if vlan != known.port.vlan {
            let (expected, found) = (known.port.vlan, vlan);
            self.wrong(row, Wrong::Vlan { expected, found }, None);
        }
        self.same_mac(row, known.port.mac, mac);
    }

    fn same_mac(&mut self, row: &Row, expected: Mac, found: Mac) {
        if expected != found {
            self.wrong(row, Wrong::Mac { expected, found }, None);
        }
    }

    fn remote(&mut self, row: &Row, known: &Known<'_>, hop: &Hop) {
        let Hop::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni,
            mtu,
            device_port,
        } = *hop
        else {
            return;
        };
        if src_vtep != self.place.vtep {
            let (expected, found) = (self.place.vtep, src_vtep);
            self.wrong(row, Wrong::OwnVtep { expected, found }, None);
        }
        let other = self.facts.nics.get(&(&known.port.node, known.port.nic));
        if let Some(other) = other {
            if dst_vtep != other.vtep {
                let (port, expected, found) = (known.name.clone(), other.vtep, dst_vtep);
                let wrong = Wrong::Vtep {
                    port,
                    expected,
                    found,
                };
                self.wrong(row, wrong, None);
            }
            let expected = self.place.room.min(other.room);
            if mtu != expected {
                self.wrong(
                    row,
                    Wrong::Mtu {
                        expected,
                        found: mtu,
                    },
                    None,
                );
            }
        }
        self.same_vni(row, known.vni, vni);
        if self.uplink != Some(device_port) {
            let (expected, found) = (self.uplink, device_port);
            self.wrong(row, Wrong::Uplink { expected, found }, None);
        }
        // Zero leaves it to the worker.
        let open = Mac::default();
        let own = self.uplink.and_then(|uplink| self.host.macs.get(&uplink));
        if src_mac != open && own != Some(&src_mac) {
            self.same_mac(row, own.copied().unwrap_or(open), src_mac);
        }
        if dst_mac != open && (!self.host.live || dst_mac.is_multicast()) {
            self.same_mac(row, open, dst_mac);
        }
    }
}
