//! Frames as hosts send them, written and read by an outside crate.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, Mac};

pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
pub(crate) const FIN: u8 = 1;
pub(crate) const RST: u8 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Layer4 {
    Tcp {
        sport: u16,
        dport: u16,
        flags: u8,
        seq: u32,
        ack: u32,
    },
    Udp {
        sport: u16,
        dport: u16,
    },
    /// Echo request or reply.
    Echo {
        id: u16,
        reply: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(crate) src_mac: Mac,
    pub(crate) dst_mac: Mac,
    pub(crate) vlan: u16,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) ttl: u8,
    pub(crate) l4: Layer4,
}

/// The frame, with `len` bytes of payload.
pub(crate) fn build(h: &Headers, len: usize) -> Vec<u8> {
    let payload = vec![0x5a; len];
    let ether = PacketBuilder::ethernet2(h.src_mac.0, h.dst_mac.0);
    let mut out = Vec::new();
    macro_rules! finish {
        ($ip:expr) => {{
            let ip = $ip;
            match h.l4 {
                Layer4::Tcp {
                    sport,
                    dport,
                    flags,
                    seq,
                    ack,
                } => {
                    let mut tcp = ip.tcp(sport, dport, seq, 60_000);
                    if flags & SYN != 0 {
                        tcp = tcp.syn();
                    }
                    if flags & FIN != 0 {
                        tcp = tcp.fin();
                    }
                    if flags & RST != 0 {
                        tcp = tcp.rst();
                    }
                    if flags & ACK != 0 {
                        tcp = tcp.ack(ack);
                    }
                    tcp.write(&mut out, &payload)
                }
                Layer4::Udp { sport, dport } => ip.udp(sport, dport).write(&mut out, &payload),
                Layer4::Echo { id, reply } => match (h.src.is_v4(), reply) {
                    (true, false) => ip.icmpv4_echo_request(id, 1).write(&mut out, &payload),
                    (true, true) => ip.icmpv4_echo_reply(id, 1).write(&mut out, &payload),
                    (false, false) => ip.icmpv6_echo_request(id, 1).write(&mut out, &payload),
                    (false, true) => ip.icmpv6_echo_reply(id, 1).write(&mut out, &payload),
                },
            }
            .expect("writes into memory")
        }};
    }
    macro_rules! addressed {
        ($link:expr) => {
            match (h.src.v4_octets(), h.dst.v4_octets()) {
                (Some(src), Some(dst)) => finish!($link.ipv4(src, dst, h.ttl)),
                _ => finish!($link.ipv6(h.src.octets(), h.dst.octets(), h.ttl)),
            }
        };
    }
    if h.vlan == 0 {
        addressed!(ether)
    } else {
        let tag = etherparse::VlanId::try_new(h.vlan).expect("a VLAN");
        addressed!(ether.single_vlan(tag))
    }
    out
}

/// What a test looks at in a frame that a host receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) src_mac: Mac,
    pub(crate) dst_mac: Mac,
    pub(crate) vlan: u16,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) proto: u8,
    pub(crate) ttl: u8,
    /// ICMP type and code, or the destination port.
    pub(crate) what: u16,
}

/// Reads a frame and checks every checksum in it.
pub(crate) fn read(frame: &[u8]) -> Seen {
    let p = SlicedPacket::from_ethernet(frame).expect("a good frame");
    let Some(etherparse::LinkSlice::Ethernet2(ether)) = &p.link else {
        panic!("no Ethernet: {p:?}")
    };
    let vlan = match p.vlan_ids().first() {
        Some(id) => id.value(),
        None => 0,
    };
    let (src, dst, ttl) = match &p.net {
        Some(NetSlice::Ipv4(ip)) => {
            let h = ip.header();
            assert_eq!(
                h.header_checksum(),
                h.to_header().calc_header_checksum(),
                "IPv4 checksum"
            );
            (
                Addr::from_v4(h.source()),
                Addr::from_v4(h.destination()),
                h.ttl(),
            )
        }
        Some(NetSlice::Ipv6(ip)) => {
            let h = ip.header();
            (
                Addr::from_octets(h.source()),
                Addr::from_octets(h.destination()),
                h.hop_limit(),
            )
        }
        other => panic!("no IP: {other:?}"),
    };
    let (proto, what) = match &p.transport {
        Some(TransportSlice::Tcp(t)) => {
            let h = t.to_header();
            let sum = match (src.v4_octets(), dst.v4_octets()) {
                (Some(s), Some(d)) => h.calc_checksum_ipv4_raw(s, d, t.payload()),
                _ => h.calc_checksum_ipv6_raw(src.octets(), dst.octets(), t.payload()),
            };
            assert_eq!(sum.expect("short"), h.checksum, "TCP checksum");
            (proto::TCP, t.destination_port())
        }
        Some(TransportSlice::Udp(u)) => (proto::UDP, u.destination_port()),
        Some(TransportSlice::Icmpv4(i)) => {
            assert_eq!(
                i.header().icmp_type.calc_checksum(i.payload()),
                i.checksum(),
                "ICMP checksum"
            );
            (proto::ICMP, u16::from_be_bytes([i.type_u8(), i.code_u8()]))
        }
        Some(TransportSlice::Icmpv6(i)) => {
            assert!(
                i.is_checksum_valid(src.octets(), dst.octets()),
                "ICMPv6 checksum"
            );
            (
                proto::ICMPV6,
                u16::from_be_bytes([i.type_u8(), i.code_u8()]),
            )
        }
        other => panic!("no transport: {other:?}"),
    };
    Seen {
        src_mac: Mac(ether.source()),
        dst_mac: Mac(ether.destination()),
        vlan,
        src,
        dst,
        proto,
        ttl,
        what,
    }
}
