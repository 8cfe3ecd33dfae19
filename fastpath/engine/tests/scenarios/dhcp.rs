//! DHCPv4: who is answered what, and that nobody answers in the gateway's place.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use penstock_flow::{Addr, DropReason, Mac};

use crate::bed::world::{Place, gateway};
use crate::bed::{Bed, Fate, SECOND};

const XID: [u8; 4] = [1, 2, 3, 4];

/// Whatever a test wants to say wrongly is a field here.
#[derive(Clone)]
struct V4 {
    kind: u8,
    src_mac: Mac,
    src: [u8; 4],
    dst: [u8; 4],
    ports: (u16, u16),
    broadcast: bool,
    ciaddr: [u8; 4],
    giaddr: [u8; 4],
    chaddr: Mac,
    options: Vec<u8>,
}

impl V4 {
    fn of(place: &Place, kind: u8) -> Self {
        Self {
            kind,
            src_mac: place.mac,
            src: [0; 4],
            dst: [255; 4],
            ports: (68, 67),
            broadcast: false,
            ciaddr: [0; 4],
            giaddr: [0; 4],
            chaddr: place.mac,
            options: Vec::new(),
        }
    }

    fn with(mut self, code: u8, value: &[u8]) -> Self {
        self.options.extend([code, value.len() as u8]);
        self.options.extend(value);
        self
    }

    fn frame(&self, vlan: u16) -> Vec<u8> {
        let mut message = vec![1, 1, 6, 0];
        message.extend(XID);
        message.extend([0, 0, if self.broadcast { 0x80 } else { 0 }, 0]);
        message.extend(self.ciaddr);
        message.extend([0; 8]);
        message.extend(self.giaddr);
        message.extend(self.chaddr.0);
        message.resize(236, 0);
        message.extend([99, 130, 83, 99, 53, 1, self.kind]);
        message.extend(&self.options);
        message.push(255);
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(self.src_mac.0, [0xff; 6])
            .ipv4(self.src, self.dst, 64)
            .udp(self.ports.0, self.ports.1)
            .write(&mut frame, &message)
            .expect("writes");
        tagged(vlan, frame)
    }
}

pub(super) fn tagged(vlan: u16, mut frame: Vec<u8>) -> Vec<u8> {
    if vlan != 0 {
        frame.splice(12..12, [0x81, 0, 0, vlan as u8]);
    }
    frame
}

/// The answer as an outside crate reads it, its UDP checksum verified.
pub(super) struct Heard {
    pub(super) dst_mac: [u8; 6],
    pub(super) src: Addr,
    pub(super) dst: Addr,
    pub(super) message: Vec<u8>,
}

pub(super) fn heard(frame: &[u8]) -> Heard {
    let p = SlicedPacket::from_ethernet(frame).expect("a good frame");
    let (src, dst) = match &p.net {
        Some(NetSlice::Ipv4(ip)) => (
            Addr::from_v4(ip.header().source()),
            Addr::from_v4(ip.header().destination()),
        ),
        Some(NetSlice::Ipv6(ip)) => (
            Addr::from_octets(ip.header().source()),
            Addr::from_octets(ip.header().destination()),
        ),
        other => panic!("no IP: {other:?}"),
    };
    let Some(TransportSlice::Udp(udp)) = &p.transport else {
        panic!("no UDP: {:?}", p.transport)
    };
    let header = udp.to_header();
    let sum = match (src.v4_octets(), dst.v4_octets()) {
        (Some(s), Some(d)) => header.calc_checksum_ipv4_raw(s, d, udp.payload()),
        _ => header.calc_checksum_ipv6_raw(src.octets(), dst.octets(), udp.payload()),
    };
    assert_eq!(sum.expect("short"), header.checksum);
    Heard {
        dst_mac: frame[..6].try_into().expect("six"),
        src,
        dst,
        message: udp.payload().to_vec(),
    }
}

/// Options of an answer; each once.
fn options4(message: &[u8]) -> std::collections::BTreeMap<u8, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut rest = &message[240..];
    while let [code, len, more @ ..] = rest {
        if *code == 255 {
            break;
        }
        let (value, more) = more.split_at(usize::from(*len));
        assert!(found.insert(*code, value.to_vec()).is_none());
        rest = more;
    }
    found
}

#[test]
fn a_port_gets_its_address_and_what_goes_with_it() {
    let mut bed = Bed::new();
    for name in ["a", "b", "y"] {
        let me = bed.place(name);
        let own = me.ip(false).v4_octets().expect("IPv4");
        let router = gateway(me.subnet, false).v4_octets().expect("IPv4");
        // Kind, options, current address; then what is answered and whether it
        // is a lease.
        for (kind, asks, ciaddr, says) in [
            (1, None, [0; 4], 2),
            (1, Some([10, 9, 9, 9]), [0; 4], 2),
            (3, Some(own), [0; 4], 5),
            (3, None, own, 5),
            (3, Some([10, 0, 1, 77]), [0; 4], 6),
            (3, None, [10, 0, 1, 77], 6),
            (8, None, own, 5),
        ] {
            for broadcast in [false, true] {
                let mut ask = V4::of(&me, kind).with(61, b"\x01abcdef");
                if let Some(addr) = asks {
                    ask = ask.with(50, &addr);
                }
                ask.broadcast = broadcast;
                ask.ciaddr = ciaddr;
                let fate = bed.send(name, &ask.frame(me.vlan));
                assert_eq!(fate.at(), name, "{kind} {asks:?} {fate:?}");
                let answer = heard(fate.frame());
                let o = options4(&answer.message);
                assert_eq!(answer.message[4..8], XID);
                assert_eq!(o[&53], [says], "{kind} {asks:?}");
                assert_eq!(o[&54], router);
                assert_eq!(o[&61], b"\x01abcdef");
                assert_eq!(answer.src, Addr::from_v4(router));
                let nak = says == 6;
                let lease = !nak && kind != 8;
                assert_eq!(o.contains_key(&51), lease);
                let yours = if lease { own } else { [0; 4] };
                assert_eq!(answer.message[16..20], yours);
                if nak {
                    assert!(!o.contains_key(&1) && !o.contains_key(&3));
                } else {
                    assert_eq!(o[&1], [255, 255, 255, 0]);
                    assert_eq!(o[&3], router);
                    assert_eq!(o[&26], 1450_u16.to_be_bytes());
                    assert!(!o.contains_key(&121));
                }
                let to_all = nak || broadcast && ciaddr == [0; 4];
                let (ip, mac) = if to_all {
                    ([255; 4], [0xff; 6])
                } else {
                    (own, me.mac.0)
                };
                assert_eq!((answer.dst, answer.dst_mac), (Addr::from_v4(ip), mac));
                assert!(answer.message.len() >= 300);
            }
        }
        for kind in [4, 7] {
            let fate = bed.send(name, &V4::of(&me, kind).frame(me.vlan));
            assert_eq!(fate, Fate::Consumed);
        }
    }
}

#[test]
fn an_address_outside_its_subnet_comes_with_routes() {
    let mut bed = Bed::new();
    bed.change(|_, policy| {
        for port in policy.ports.values_mut() {
            port.ips = vec![Addr::from_v4([172, 16, 0, 5])];
        }
    });
    let me = bed.place("a");
    let fate = bed.send("a", &V4::of(&me, 1).frame(0));
    let o = options4(&heard(fate.frame()).message);
    assert_eq!(o[&1], [255; 4]);
    assert_eq!(o[&121], [32, 10, 0, 1, 1, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
}

#[test]
fn what_is_not_the_ports_own_is_refused() {
    let mut bed = Bed::new();
    let (me, other) = (bed.place("a"), bed.place("b"));
    let stolen = other.ip(false).v4_octets().expect("IPv4");
    let ask = V4::of(&me, 3).with(50, &[10, 0, 1, 10]);
    let spoofed = DropReason::SpoofedNeighbour;
    let unhandled = DropReason::UnhandledControl;
    let cases: Vec<(&str, V4, DropReason)> = vec![
        (
            "MAC",
            V4 {
                src_mac: other.mac,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "chaddr",
            V4 {
                chaddr: other.mac,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "source",
            V4 {
                src: stolen,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "ciaddr",
            V4 {
                kind: 1,
                ciaddr: stolen,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "inform",
            V4 {
                kind: 8,
                ciaddr: stolen,
                ..V4::of(&me, 8)
            },
            spoofed,
        ),
        (
            "relay",
            V4 {
                giaddr: [10, 0, 1, 10],
                ..ask.clone()
            },
            unhandled,
        ),
        (
            "to another",
            V4 {
                dst: stolen,
                ..ask.clone()
            },
            unhandled,
        ),
        ("another server's", ask.clone().with(54, &stolen), unhandled),
        (
            "offers",
            V4 {
                kind: 2,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "acknowledges",
            V4 {
                kind: 5,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "as a server",
            V4 {
                ports: (67, 68),
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "unnoticed",
            V4 {
                ports: (9, 68),
                dst: stolen,
                ..ask.clone()
            },
            spoofed,
        ),
        (
            "no type",
            V4 {
                kind: 0,
                ..ask.clone()
            },
            DropReason::Malformed,
        ),
        (
            "twice",
            ask.clone().with(50, &[10, 0, 1, 10]),
            DropReason::Malformed,
        ),
        (
            "too long",
            ask.clone().with(61, &[7; 200]),
            DropReason::Malformed,
        ),
        (
            "too short",
            ask.clone().with(61, &[7]),
            DropReason::Malformed,
        ),
    ];
    for (what, ask, want) in cases {
        let fate = bed.send("a", &ask.frame(0));
        assert_eq!(fate.reason(), Some(want), "{what}: {fate:?}");
    }
    let denied = bed.counters(0).drops.iter().sum::<u64>();
    assert_eq!(denied, 16);
}

#[test]
fn questions_are_limited_port_by_port() {
    let mut bed = Bed::new();
    let (a, b) = (bed.place("a"), bed.place("b"));
    let limit = crate::bed::config().questions_per_second;
    let frame = V4::of(&a, 1).frame(0);
    let answered = |bed: &mut Bed| bed.send("a", &frame).at() == "a";
    let n = (0..limit + 50).filter(|_| answered(&mut bed)).count();
    assert_eq!(n as u32, limit);
    let late = bed.send("a", &frame);
    assert_eq!(late.reason(), Some(DropReason::RateLimited));
    assert_eq!(bed.send("b", &V4::of(&b, 1).frame(b.vlan)).at(), "b");
    bed.wait(SECOND);
    assert!(answered(&mut bed));
}

#[test]
fn ports_are_told_about_their_router_again_and_again() {
    let mut bed = Bed::new();
    bed.told.clear();
    bed.wait(1300 * SECOND);
    for place in bed.places.clone() {
        let told: Vec<_> = (bed.told.iter())
            .filter(|(n, port, _)| (*n, *port) == (place.node, place.device_port()))
            .map(|(_, _, frame)| penstock_flow::packet::parse(frame).expect("good"))
            .filter(|packet| packet.vlan == place.vlan)
            .collect();
        assert!((1..=3).contains(&told.len()), "{}: {told:?}", place.name);
    }
}
