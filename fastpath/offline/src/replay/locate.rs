//! Where a captured frame came from.

use std::collections::HashMap;

use penstock_flow::packet::{self, ETHERTYPE_VLAN, Kind, Outer, Packet, parse_outer};
use penstock_flow::{Addr, Mac, build};
use penstock_policies::model::VpcName;
use penstock_rules::model::Vni;

use super::{ReplayError, Source};
use crate::bed::{Bed, vlan_of};

/// Where a frame is put in.
#[derive(Clone, Debug)]
pub(super) enum Spot {
    /// This port sent it.
    Port(u32),
    /// No port has this source; this one has its MAC.
    Stranger(Option<u32>),
    /// It was seen on the underlay, on its way to this VTEP.
    Wire {
        vtep: Addr,
        /// Which port had sent what is in the tunnel, and how.
        sender: Option<(u32, Vec<u8>)>,
    },
}

impl Spot {
    pub(super) const fn source(&self) -> Source {
        match self {
            Self::Port(id) => Source::Port(*id),
            Self::Stranger(id) => Source::Nobody(*id),
            Self::Wire { vtep, .. } => Source::Wire(*vtep),
        }
    }
}

/// Who has which addresses.
#[derive(Debug)]
pub(super) struct Whereabouts {
    by_mac: HashMap<(Mac, u16), Vec<u32>>,
    by_address: HashMap<(Vni, Addr), u32>,
}

impl Whereabouts {
    /// Ports of `vpc` only, or of all.
    pub(super) fn new(bed: &Bed<'_>, vpc: Option<&VpcName>) -> Self {
        let mut by_mac: HashMap<_, Vec<u32>> = HashMap::new();
        let mut by_address = HashMap::new();
        for place in bed.places() {
            for ip in &place.port.ips {
                by_address.insert((place.vni, *ip), place.id);
            }
            if vpc.is_none_or(|vpc| *vpc == place.name.vpc()) {
                let key = (place.port.mac, place.port.vlan);
                by_mac.entry(key).or_default().push(place.id);
            }
        }
        Self { by_mac, by_address }
    }

    pub(super) fn locate(
        &self,
        number: u64,
        bed: &Bed<'_>,
        frame: &[u8],
    ) -> Result<Spot, ReplayError> {
        let Some([_, _, _, _, _, _, a, b, c, d, e, f]) = frame.first_chunk::<12>() else {
            return Ok(Spot::Stranger(None));
        };
        let key = (Mac([*a, *b, *c, *d, *e, *f]), vlan_of(frame));
        let same_mac = self.by_mac.get(&key).map_or(&[][..], Vec::as_slice);
        let packet = packet::parse(frame).ok();
        let own: Vec<u32> = same_mac
            .iter()
            .copied()
            .filter(|id| {
                bed.place(*id)
                    .is_some_and(|place| is_own(&place.port.ips, packet.as_ref()))
            })
            .collect();
        if let Some(id) = single(number, bed, &own)? {
            return Ok(Spot::Port(id));
        }
        if let Some(spot) = self.on_the_wire(bed, frame) {
            return Ok(spot);
        }
        Ok(Spot::Stranger(single(number, bed, same_mac)?))
    }

    fn on_the_wire(&self, bed: &Bed<'_>, frame: &[u8]) -> Option<Spot> {
        let tunnel = match parse_outer(frame).ok()? {
            Outer::Vxlan(tunnel) => tunnel,
            Outer::Other(packet) => {
                let vtep = packet.ip()?.tuple.dst;
                bed.uplink(vtep)?;
                let sender = None;
                return Some(Spot::Wire { vtep, sender });
            }
            Outer::Neighbour(_) => return None,
        };
        let vtep = tunnel.dst_vtep;
        bed.uplink(vtep)?;
        let inner = frame.get(usize::from(tunnel.inner)..usize::from(tunnel.end))?;
        let sender = self.sender(bed, tunnel.src_vtep, tunnel.vni, inner);
        Some(Spot::Wire { vtep, sender })
    }

    /// Which port had sent what is in a tunnel, and the frame as it was then: before
    /// its node put the gateway's MAC into it.
    fn sender(&self, bed: &Bed<'_>, vtep: Addr, vni: Vni, inner: &[u8]) -> Option<(u32, Vec<u8>)> {
        let packet = packet::parse(inner).ok()?;
        let id = *self.by_address.get(&(vni, packet.ip()?.tuple.src))?;
        let place = bed.place(id)?;
        let lives = bed.uplink(vtep)?;
        if *lives.name != place.port.node || lives.device_id != place.port.nic {
            return None;
        }
        let mut frame = inner.to_vec();
        if packet.src_mac == Mac::GATEWAY {
            build::set_macs(&mut frame, Mac::GATEWAY, place.port.mac);
        }
        if place.port.vlan != 0 {
            let [high, low] = ETHERTYPE_VLAN.to_be_bytes();
            let [tag_high, tag_low] = place.port.vlan.to_be_bytes();
            frame.splice(12..12, [high, low, tag_high, tag_low]);
        }
        Some((id, frame))
    }
}

/// Whether a port with these addresses sends such a packet. What cannot be read, or
/// has no address yet, has only its MAC to be known by.
fn is_own(ips: &[Addr], packet: Option<&Packet>) -> bool {
    let src = match packet.map(|packet| &packet.kind) {
        None => return true,
        Some(Kind::Arp(arp)) => arp.sender_ip,
        Some(Kind::Ip(ip)) => ip.tuple.src,
    };
    let unspecified = [Addr(0), Addr::from_v4([0; 4])].contains(&src);
    let link_local = src.0 >> 118 == 0xfe80 >> 6;
    unspecified || link_local || ips.contains(&src)
}

fn single(number: u64, bed: &Bed<'_>, ids: &[u32]) -> Result<Option<u32>, ReplayError> {
    match ids {
        [] => Ok(None),
        [id] => Ok(Some(*id)),
        several => Err(ReplayError::Ambiguous {
            number,
            candidates: several
                .iter()
                .filter_map(|id| bed.port_name(*id).cloned())
                .collect(),
        }),
    }
}
