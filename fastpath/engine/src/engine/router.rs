//! Router discovery: the gateway says that it is there, to whoever asks and to
//! every port now and then, as its default route would run out otherwise.
//!
//! Ports have their addresses from the policy, so no prefix is to make one from:
//! an advertisement says which one is on the link, that DHCPv6 gives addresses
//! where the port has any, and the subnet's MTU.

use penstock_flow::checksum::Sum;
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac, Prefix};
use penstock_rules::Ruleset;
use penstock_rules::model::Port;

use super::Engine;
use crate::outbox::Outbox;

/// The gateway's link-local address, made of its MAC (RFC 4291, appendix A).
pub(super) const LINK_LOCAL: Addr = Addr(0xfe80_0000_0000_0000_0000_5eff_fe00_0001);
/// The longest advertisement.
pub(super) const MOST_LEN: usize = HEADERS_LEN + 64;
const HEADERS_LEN: usize = 54;
const ALL_NODES: Addr = Addr(0xff02_0000_0000_0000_0000_0000_0000_0001);
const ALL_NODES_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Addresses, and everything else, by DHCPv6.
const MANAGED: u8 = 0xc0;
const ON_LINK: u8 = 0x80;
/// Seconds that the default route is good for without another advertisement:
/// the longest there is (RFC 4861, section 6.2.1).
const LIFETIME: u16 = 9000;
/// Between two advertisements that nobody asked for; there MaxRtrAdvInterval.
pub(super) const INTERVAL: u64 = 600 * 1_000_000_000;
/// Bindings that one tick looks at.
const BINDINGS_PER_TICK: u32 = 16;

/// What a port is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advertisement {
    mtu: u16,
    prefix: Option<Prefix>,
    /// The port has IPv6 addresses.
    managed: bool,
}

impl Advertisement {
    /// `None` where the port's subnet is IPv4 alone.
    pub(super) fn of(rules: &Ruleset, port: &Port) -> Option<Self> {
        let subnet = rules.subnet(port.subnet)?;
        subnet.gateways.iter().find(|gateway| !gateway.is_v4())?;
        Some(Self {
            mtu: subnet.mtu,
            prefix: subnet.prefixes.iter().find(|p| !p.is_v4()).copied(),
            managed: port.ips.iter().any(|ip| !ip.is_v4()),
        })
    }

    /// Writes the frame for whoever asks from `asker` (`::`: for all) at `mac`
    /// and returns its length.
    pub(super) fn write(&self, out: &mut [u8; MOST_LEN], asker: Addr, mac: Mac) -> usize {
        let (to, mac) = match asker {
            Addr(0) => (ALL_NODES, ALL_NODES_MAC),
            asker => (asker, mac),
        };
        let [l0, l1] = LIFETIME.to_be_bytes();
        let [m0, m1] = self.mtu.to_be_bytes();
        let flags = if self.managed { MANAGED } else { 0 };
        let prefix = self.prefix.map(|prefix| {
            // For ever, and no address is to be made from it.
            let mut option = [0; 32];
            option[..4].copy_from_slice(&[3, 4, prefix.len(), ON_LINK]);
            option[4..12].fill(0xff);
            option[16..].copy_from_slice(&prefix.addr().octets());
            option
        });
        let prefix: &[u8] = prefix.as_ref().map_or(&[], |option| option);
        let len = 32 + prefix.len();
        let header = [0x60, 0, 0, 0, 0, len as u8, proto::ICMPV6, 255];
        let parts: [&[u8]; 13] = [
            &mac.0,
            &Mac::GATEWAY.0,
            &[0x86, 0xdd],
            &header,
            &LINK_LOCAL.octets(),
            &to.octets(),
            // Hop limit 64, no times.
            &[ROUTER_ADVERTISEMENT, 0, 0, 0, 64, flags, l0, l1],
            &[0; 8],
            // Source link-layer address.
            &[1, 1],
            &Mac::GATEWAY.0,
            // MTU.
            &[5, 1, 0, 0],
            &[0, 0, m0, m1],
            prefix,
        ];
        for (to, from) in out.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        let end = HEADERS_LEN + len;
        let sum = Sum::default()
            .pseudo(LINK_LOCAL, to, proto::ICMPV6, len as u16)
            .bytes(out.get(HEADERS_LEN..end).unwrap_or_default())
            .finish();
        out[HEADERS_LEN + 2..HEADERS_LEN + 4].copy_from_slice(&sum.to_be_bytes());
        end
    }
}

impl Engine {
    /// Advertises to those ports whose time it is, some bindings per tick.
    pub(super) fn advertise(&mut self, now: u64, out: &mut Outbox) {
        let Some(rules) = self.policies.rules() else {
            return;
        };
        if self.config.shard.index != 0 {
            // Another does.
            return;
        }
        for nic in &mut self.nics {
            let vport = &nic.tables.vport;
            for _ in 0..BINDINGS_PER_TICK.min(vport.capacity()) {
                nic.advertised = (nic.advertised + 1) % vport.capacity().max(1);
                let Some((&(device_port, vlan), (id, _))) = vport.at(nic.advertised) else {
                    continue;
                };
                if !self.devices.is_home(device_port, vlan, *id) {
                    continue;
                }
                let (Some(port), Some(state)) = (rules.port(*id), self.ports.get_mut(id)) else {
                    continue;
                };
                if now < state.advertise_at {
                    continue;
                }
                state.advertise_at = now.saturating_add(INTERVAL);
                let Some(say) = Advertisement::of(rules, port) else {
                    continue;
                };
                let sent = out.push(device_port, |buffer| {
                    let mut frame = [0; MOST_LEN];
                    let len = say.write(&mut frame, Addr(0), port.mac);
                    tagged(buffer, frame.get(..len)?, vlan)
                });
                if !sent {
                    // There is no room now.
                    state.advertise_at = now;
                    return;
                }
            }
        }
    }
}

/// Copies a frame with a tag; 0: none.
fn tagged(out: &mut [u8], frame: &[u8], vlan: u16) -> Option<usize> {
    let (macs, rest) = frame.split_at_checked(12)?;
    let [hi, lo] = vlan.to_be_bytes();
    let tag: &[u8] = &[0x81, 0, hi, lo];
    let tag = if vlan == 0 { &[] } else { tag };
    let len = frame.len() + tag.len();
    let room = out.get_mut(..len)?.iter_mut();
    for (to, from) in room.zip([macs, tag, rest].into_iter().flatten()) {
        *to = *from;
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_flow::packet::{self, L4, NdKind};

    #[test]
    fn is_a_valid_advertisement_from_the_gateways_own_address() {
        let host = Mac([2, 0, 0, 0, 0, 1]);
        for asker in [Addr(0), Addr(0xfe80 << 112 | 7)] {
            for prefix in [None, Prefix::new(Addr(0xfd << 120), 64)] {
                let mut frame = [0; MOST_LEN];
                let say = Advertisement {
                    mtu: 1450,
                    prefix,
                    managed: true,
                };
                let len = say.write(&mut frame, asker, host);
                let packet = packet::parse(&frame[..len]).expect("well-formed");
                let ip = packet.ip().expect("IPv6");
                let L4::Neighbour(nd) = ip.l4_kind else {
                    panic!("{ip:?}")
                };
                assert_eq!(nd.kind, NdKind::RouterAdvertisement);
                assert_eq!(nd.source_mac, Some(Mac::GATEWAY));
                assert_eq!(usize::from(ip.end), len);
                assert_eq!(packet.dst_mac.is_multicast(), asker == Addr(0));
            }
        }
    }
}
