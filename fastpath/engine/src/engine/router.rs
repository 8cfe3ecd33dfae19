//! Router discovery: the gateway says that it is there, and nothing else.
//!
//! Ports have addresses before they have links, so an advertisement carries no
//! prefix to make one from: only the default route and the subnet's MTU.

use penstock_flow::checksum::Sum;
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac};

/// Ethernet, IPv6, the message, and two options.
pub(super) const ADVERTISEMENT_LEN: usize = 86;
/// The gateway's link-local address, made of its MAC (RFC 4291, appendix A).
pub(super) const LINK_LOCAL: Addr = Addr(0xfe80_0000_0000_0000_0000_5eff_fe00_0001);
const ALL_NODES: Addr = Addr(0xff02_0000_0000_0000_0000_0000_0000_0001);
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOURCE_LINK_LAYER: u8 = 1;
const MTU: u8 = 5;
/// Seconds that the default route is good for without another advertisement.
/// The longest there is (RFC 4861, section 6.2.1): nobody sends any unasked.
const LIFETIME: u16 = 9000;

/// The advertisement for whoever asks from `asker` (`::`: for all) at `mac`.
pub(super) fn advertisement(asker: Addr, mac: Mac, mtu: u16) -> [u8; ADVERTISEMENT_LEN] {
    let to = if asker == Addr(0) { ALL_NODES } else { asker };
    let [l0, l1] = LIFETIME.to_be_bytes();
    let [m0, m1] = mtu.to_be_bytes();
    // Hop limit 64, no flags, no times; then two options.
    let mut message = [0; 32];
    let fields: [(usize, &[u8]); 4] = [
        (0, &[ROUTER_ADVERTISEMENT, 0, 0, 0, 64, 0, l0, l1]),
        (16, &[SOURCE_LINK_LAYER, 1]),
        (18, &Mac::GATEWAY.0),
        (24, &[MTU, 1, 0, 0, 0, 0, m0, m1]),
    ];
    for (at, bytes) in fields {
        for (to, from) in message.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    let sum = Sum::default()
        .pseudo(LINK_LOCAL, to, proto::ICMPV6, message.len() as u16)
        .bytes(&message)
        .finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = [0x60, 0, 0, 0, 0, message.len() as u8, proto::ICMPV6, 255];

    let mut frame = [0; ADVERTISEMENT_LEN];
    let parts: [&[u8]; 7] = [
        &mac.0,
        &Mac::GATEWAY.0,
        &[0x86, 0xdd],
        &header,
        &LINK_LOCAL.octets(),
        &to.octets(),
        &message,
    ];
    let bytes = parts.into_iter().flatten();
    for (to, from) in frame.iter_mut().zip(bytes) {
        *to = *from;
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_flow::packet::{self, L4, NdKind};

    #[test]
    fn is_a_valid_advertisement_from_the_gateways_own_address() {
        let host = Mac([2, 0, 0, 0, 0, 1]);
        for asker in [Addr(0), Addr(0xfe80 << 112 | 7)] {
            let frame = advertisement(asker, host, 1450);
            let packet = packet::parse(&frame).expect("well-formed");
            let ip = packet.ip().expect("IPv6");
            let L4::Neighbour(nd) = ip.l4_kind else {
                panic!("{ip:?}")
            };
            assert_eq!(nd.kind, NdKind::RouterAdvertisement);
            assert_eq!(nd.source_mac, Some(Mac::GATEWAY));
            assert_eq!(usize::from(ip.end), frame.len());
        }
    }
}
