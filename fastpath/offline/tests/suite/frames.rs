//! Frames as hosts send them, written by an outside crate.

use std::net::IpAddr;

use etherparse::PacketBuilder;

pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
pub(crate) const RST: u8 = 4;

/// The gateway's MAC, the same everywhere.
pub(crate) const GATEWAY: [u8; 6] = [0x02, 0, 0x5e, 0, 0, 1];

pub(crate) const fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum L4 {
    /// Flags, and sequence and acknowledgement numbers.
    Tcp(u8, u32, u32),
    Udp,
    /// Of the gateway's, or whoever has the address.
    Ping,
}

/// One end: MAC, address, port.
pub(crate) type End<'a> = ([u8; 6], &'a str, u16);

pub(crate) fn frame(from: End<'_>, to: End<'_>, vlan: u16, ttl: u8, l4: L4, len: usize) -> Vec<u8> {
    let ((src_mac, src, sport), (dst_mac, dst, dport)) = (from, to);
    let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
    let payload = vec![0x5a; len];
    let mut out = Vec::new();
    let ether = PacketBuilder::ethernet2(src_mac, dst_mac);
    macro_rules! ip {
        ($link:expr) => {
            match (src, dst) {
                (IpAddr::V4(s), IpAddr::V4(d)) => $link.ipv4(s.octets(), d.octets(), ttl),
                (IpAddr::V6(s), IpAddr::V6(d)) => $link.ipv6(s.octets(), d.octets(), ttl),
                _ => panic!("two families"),
            }
        };
    }
    let ip = if vlan == 0 {
        ip!(ether)
    } else {
        ip!(ether.single_vlan(vlan.try_into().unwrap()))
    };
    match l4 {
        L4::Tcp(flags, seq, ack) => {
            let mut tcp = ip.tcp(sport, dport, seq, 60_000);
            if flags & SYN != 0 {
                tcp = tcp.syn();
            }
            if flags & RST != 0 {
                tcp = tcp.rst();
            }
            if flags & ACK != 0 {
                tcp = tcp.ack(ack);
            }
            tcp.write(&mut out, &payload).unwrap();
        }
        L4::Udp => ip.udp(sport, dport).write(&mut out, &payload).unwrap(),
        L4::Ping => ip
            .icmpv4_echo_request(sport, 1)
            .write(&mut out, &payload)
            .unwrap(),
    }
    out
}

pub(crate) fn arp(src_mac: [u8; 6], sender: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut out = [[0xff; 6], src_mac].concat();
    out.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    out.extend(src_mac);
    out.extend(sender);
    out.extend([0; 6]);
    out.extend(target);
    out
}

/// A frame in a tunnel of `vni` from one VTEP to another.
pub(crate) fn tunnelled(from: [u8; 4], to: [u8; 4], vni: u32, inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![8, 0, 0, 0];
    payload.extend((vni << 8).to_be_bytes());
    payload.extend(inner);
    let mut out = Vec::new();
    PacketBuilder::ethernet2([2, 0x99, 0, 0, 0, 1], [2, 0x99, 0, 0, 0, 2])
        .ipv4(from, to, 64)
        .udp(50_000, 4789)
        .write(&mut out, &payload)
        .unwrap();
    out
}
