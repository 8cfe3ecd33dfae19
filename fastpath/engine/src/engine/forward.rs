//! The last stage: next hop, rewrite, out.
//!
//! In two steps: [`plan`] looks at everything that may stop the packet and
//! changes nothing; [`Plan::execute`] then writes. So a packet that is stopped
//! is still as it came, for an ICMP error to quote.

use penstock_flow::build;
use penstock_flow::packet::{ETHERNET_LEN, ETHERTYPE_VLAN, Ip, Packet, VLAN_TAG_LEN};
use penstock_flow::{Addr, DropReason, Mac};

use super::Nic;
use super::arrival::Arrival;
use crate::device::Devices;
use crate::frame::{Frame, Outcome};
use crate::nic::Hop;
use crate::nic::exact::NONE;

/// RFC 3168: congestion experienced.
const CE: u8 = 3;

/// A way out on which nothing stands in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    way: Way,
    routed: bool,
    /// The underlay's congestion mark goes inside (RFC 6040).
    mark: bool,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Port {
        device_port: u32,
        vlan: u16,
        dst_mac: Mac,
    },
    Tunnel {
        device_port: u32,
        /// The next hop's slot, where the outer headers are prepared.
        slot: u32,
        dst_mac: Mac,
    },
}

/// Why there is no way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Larger than this.
    TooBig {
        mtu: u16,
    },
    Other(DropReason),
}

impl From<Blocked> for DropReason {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::TooBig { .. } => Self::Oversized,
            Blocked::Other(reason) => reason,
        }
    }
}

/// The way to next hop `id` for this packet.
pub(super) fn plan(
    nic: &Nic,
    devices: &Devices,
    arrival: &Arrival,
    frame: &Frame<'_>,
    packet: &Packet,
    ip: &Ip,
    id: u32,
) -> Result<Plan, Blocked> {
    let no_route = Blocked::Other(DropReason::NoRoute);
    let slot = nic.tables.nexthop.find(&id).ok_or(no_route)?;
    let (_, nexthop) = nic.tables.nexthop.at(slot).ok_or(no_route)?;
    let routed = arrival.routed(packet);
    if routed && ip.ttl <= 1 {
        return Err(Blocked::Other(DropReason::TtlExceeded));
    }
    let bytes = frame.len().saturating_sub(ETHERNET_LEN);
    let way = match nexthop.hop {
        Hop::ToPort {
            device_port,
            vlan,
            dst_mac,
        } => {
            // The device would lose it without a word.
            let mtu = devices.mtu(device_port);
            if bytes > usize::from(mtu) {
                return Err(Blocked::TooBig { mtu });
            }
            let room = if vlan == 0 { 0 } else { VLAN_TAG_LEN };
            if frame.start() < room {
                return Err(Blocked::Other(DropReason::NoHeadroom));
            }
            Way::Port {
                device_port,
                vlan,
                dst_mac,
            }
        }
        Hop::ToVtep {
            dst_vtep,
            dst_mac,
            mtu,
            device_port,
            ..
        } => {
            if arrival.wire {
                return Err(Blocked::Other(DropReason::Reflected));
            }
            let overhead = if dst_vtep.is_v4() {
                build::VXLAN_V4_OVERHEAD
            } else {
                build::VXLAN_V6_OVERHEAD
            };
            // An overhead counts the outer Ethernet header, which is not in the
            // device's MTU, and not the inner one, which is: they are of one size.
            let device = usize::from(devices.mtu(device_port)).saturating_sub(overhead);
            let mtu = match nexthop.path {
                Some(path) if arrival.now < path.until => mtu.min(path.mtu),
                _ => mtu,
            }
            .min(device as u16);
            if bytes > usize::from(mtu) {
                return Err(Blocked::TooBig { mtu });
            }
            let dst_mac = if nexthop.neighbour == NONE {
                dst_mac
            } else {
                nic.neighbours
                    .mac(nexthop.neighbour)
                    .ok_or(Blocked::Other(DropReason::NeighbourUnresolved))?
            };
            if frame.start() < overhead {
                return Err(Blocked::Other(DropReason::NoHeadroom));
            }
            Way::Tunnel {
                device_port,
                slot,
                dst_mac,
            }
        }
        Hop::ToFrontEnd { .. } => return Err(Blocked::Other(DropReason::NoRoute)),
    };
    let mark = arrival.outer_ecn == CE;
    if mark && ip.tos & CE == 0 {
        // The sender could not be told (RFC 6040, section 4.2).
        return Err(Blocked::Other(DropReason::Congested));
    }
    Ok(Plan { way, routed, mark })
}

impl Plan {
    /// Rewrites the frame and sends it. `sport` is the outer source port.
    pub(super) fn execute(
        &self,
        nic: &Nic,
        frame: &mut Frame<'_>,
        packet: &Packet,
        ip: &Ip,
        sport: u16,
    ) -> Result<Outcome, DropReason> {
        let mut src = packet.src_mac;
        if self.routed {
            build::decrement_ttl(frame.data_mut(), packet)?;
            src = Mac::GATEWAY;
        }
        if self.mark {
            mark_congestion(frame.data_mut(), packet, ip);
        }
        match self.way {
            Way::Port {
                device_port,
                vlan,
                dst_mac,
            } => {
                build::set_macs(frame.data_mut(), dst_mac, src);
                tag(frame, vlan)?;
                Ok(Outcome::Send { device_port })
            }
            Way::Tunnel {
                device_port,
                slot,
                dst_mac,
            } => {
                let template = nic
                    .tables
                    .nexthop
                    .at(slot)
                    .and_then(|(_, nexthop)| nexthop.outer.as_ref())
                    .ok_or(DropReason::NoRoute)?;
                build::set_macs(frame.data_mut(), packet.dst_mac, src);
                frame
                    .prepend(template.len())
                    .map_err(|_| DropReason::NoHeadroom)?;
                let data = frame.data_mut();
                template
                    .write(data, sport, ip.tos)
                    .map_err(|_| DropReason::Oversized)?;
                // The neighbour's of now: the template may be older.
                if let Some(to) = data.first_chunk_mut() {
                    *to = dst_mac.0;
                }
                Ok(Outcome::Send { device_port })
            }
        }
    }
}

/// Puts an 802.1Q tag before the EtherType; 0: none.
pub(super) fn tag(frame: &mut Frame<'_>, vlan: u16) -> Result<(), DropReason> {
    if vlan == 0 {
        return Ok(());
    }
    frame
        .prepend(VLAN_TAG_LEN)
        .map_err(|_| DropReason::NoHeadroom)?;
    let data = frame.data_mut();
    if data.len() < ETHERNET_LEN + VLAN_TAG_LEN {
        return Err(DropReason::Truncated);
    }
    data.copy_within(4..16, 0);
    let ([t0, t1], [hi, lo]) = (ETHERTYPE_VLAN.to_be_bytes(), vlan.to_be_bytes());
    if let Some(tag) = data.get_mut(12..16) {
        tag.copy_from_slice(&[t0, t1, hi, lo]);
    }
    Ok(())
}

/// Takes a tag off, and moves the packet's offsets along.
pub(super) fn untag(frame: &mut Frame<'_>, packet: &mut Packet) -> Result<(), DropReason> {
    if usize::from(packet.l3) != ETHERNET_LEN + VLAN_TAG_LEN {
        return Ok(());
    }
    frame.data_mut().copy_within(0..12, 4);
    frame.strip(4).map_err(|_| DropReason::Truncated)?;
    packet.l3 -= 4;
    if let penstock_flow::packet::Kind::Ip(ip) = &mut packet.kind {
        ip.l4 -= 4;
        ip.end -= 4;
    }
    Ok(())
}

/// Sets congestion experienced in the inner header.
fn mark_congestion(data: &mut [u8], packet: &Packet, ip: &Ip) {
    let Some(header) = data.get_mut(usize::from(packet.l3)..) else {
        return;
    };
    if ip.v6 {
        // Traffic class: low half of byte 0, high half of byte 1.
        if let Some(b) = header.get_mut(1) {
            *b |= CE << 4;
        }
    } else if let Some(h) = header.first_chunk_mut::<12>() {
        let old = u16::from_be_bytes([h[0], h[1]]);
        h[1] |= CE;
        let new = u16::from_be_bytes([h[0], h[1]]);
        let sum = u16::from_be_bytes([h[10], h[11]]);
        let sum = penstock_flow::checksum::update(sum, old, new);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The far end of a next hop that is a tunnel.
pub(super) fn far_vtep(nic: &Nic, id: u32) -> Option<Addr> {
    match nic.tables.nexthop.get(&id)?.hop {
        Hop::ToVtep { dst_vtep, .. } => Some(dst_vtep),
        Hop::ToPort { .. } | Hop::ToFrontEnd { .. } => None,
    }
}
