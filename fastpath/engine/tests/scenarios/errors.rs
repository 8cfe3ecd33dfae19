//! ICMP errors: made by the gateway, and carried for connections.

use etherparse::PacketBuilder;
use penstock_engine::{Config, nic::Capacities};
use penstock_flow::packet::{self, L4};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, DropReason, Mac};

use crate::bed::frames::{Headers, Layer4, build, read};
use crate::bed::talk::Talk;
use crate::bed::world::gateway;
use crate::bed::{Bed, Fate, SECOND, capacities, config};

const UDP: Layer4 = Layer4::Udp {
    sport: 40_000,
    dport: 80,
};

/// The quoted flow of an ICMP error.
fn quoted(frame: &[u8]) -> (penstock_flow::Tuple, u32) {
    let ip = *packet::parse(frame).expect("good").ip().expect("IP");
    match ip.l4_kind {
        L4::IcmpError(e) => (e.inner, e.mtu),
        other => panic!("{other:?}"),
    }
}

#[test]
fn time_exceeded_comes_from_the_subnets_gateway_and_not_too_often() {
    for v6 in [false, true] {
        let mut bed = Bed::with(
            Config {
                icmp_errors_per_second: 3,
                ..config()
            },
            capacities(),
        );
        for from in ["a", "b"] {
            let talk = Talk {
                v6,
                ..Talk::new(from, "d")
            };
            for (ttl, answered) in [(1, true), (0, true), (2, false), (1, true), (1, false)] {
                let h = Headers {
                    ttl,
                    ..talk.headers(&bed, false, UDP)
                };
                let fate = bed.send(from, &build(&h, 10));
                match (ttl, answered) {
                    (2, _) => assert_eq!((fate.at(), read(fate.frame()).ttl), ("d", 1)),
                    (_, true) => {
                        assert_eq!(fate.at(), from);
                        let seen = read(fate.frame());
                        assert_eq!(seen.src, gateway(1, v6));
                        assert_eq!((seen.src_mac, seen.dst_mac), (Mac::GATEWAY, h.src_mac));
                        assert_eq!(seen.vlan, h.vlan);
                        assert_eq!(seen.what, if v6 { 0x0300 } else { 0x0b00 });
                    }
                    (_, false) => {
                        assert_eq!(fate.reason(), Some(DropReason::TtlExceeded));
                    }
                }
            }
            // In the same subnet nobody routes.
            let near = Talk {
                v6,
                ..Talk::new("a", "c")
            };
            let h = Headers {
                ttl: 1,
                ..near.headers(&bed, false, UDP)
            };
            assert_eq!(bed.send("a", &build(&h, 10)).at(), "c");
        }
    }
}

#[test]
fn too_big_is_answered_before_and_during_a_connection() {
    for v6 in [false, true] {
        let mut bed = Bed::new();
        let talk = Talk {
            v6,
            ..Talk::new("a", "c")
        };
        for round in 0..3 {
            let fate = talk.send(&mut bed, false, UDP, 1500);
            assert_eq!(fate.at(), "a", "{round}: {fate:?}");
            let seen = read(fate.frame());
            assert_eq!(seen.src, gateway(1, v6));
            let (flow, mtu) = quoted(fate.frame());
            assert_eq!((flow.dst, mtu), (talk.dst(&bed), 1450));
            assert_eq!(talk.udp(&mut bed, false).at(), "c");
            assert_eq!(talk.udp(&mut bed, true).at(), "a");
        }
        // To a local port there is no such limit.
        let local = Talk {
            v6,
            ..Talk::new("a", "b")
        };
        assert_eq!(local.send(&mut bed, false, UDP, 1500).at(), "b");
    }
}

#[test]
fn the_gateway_answers_ping_and_nothing_else() {
    let mut bed = Bed::new();
    for v6 in [false, true] {
        for subnet in [1, 2] {
            let b = bed.place("b");
            let ping = |l4| Headers {
                src_mac: b.mac,
                dst_mac: Mac::GATEWAY,
                vlan: b.vlan,
                src: b.ip(v6),
                dst: gateway(subnet, v6),
                ttl: 64,
                l4,
            };
            let echo = Layer4::Echo {
                id: 7,
                reply: false,
            };
            let fate = bed.send("b", &build(&ping(echo), 56));
            assert_eq!(fate.at(), "b");
            let seen = read(fate.frame());
            assert_eq!((seen.src, seen.dst), (gateway(subnet, v6), b.ip(v6)));
            assert_eq!((seen.src_mac, seen.dst_mac), (Mac::GATEWAY, b.mac));
            assert_eq!(seen.what, if v6 { 0x8100 } else { 0x0000 });
            let other = bed.send("b", &build(&ping(UDP), 0));
            assert_eq!(other.reason(), Some(DropReason::UnhandledControl));
        }
    }
}

/// "Port unreachable" from `from`, quoting what `frame` carries.
pub(crate) fn unreachable(bed: &Bed, from: &str, to: Addr, frame: &[u8]) -> Vec<u8> {
    let from = bed.place(from);
    let ip = &frame[14..];
    let quote = &ip[..ip.len().min(100)];
    let mut out = Vec::new();
    let to_mac = bed
        .places
        .iter()
        .find(|p| p.ips.contains(&to))
        .expect("someone")
        .mac;
    let ether = PacketBuilder::ethernet2(from.mac.0, to_mac.0);
    match (from.ip(false).v4_octets(), to.v4_octets()) {
        (Some(src), Some(dst)) => ether
            .ipv4(src, dst, 64)
            .icmpv4_raw(3, 3, [0; 4])
            .write(&mut out, quote),
        _ => ether
            .ipv6(from.ip(true).octets(), to.octets(), 64)
            .icmpv6_raw(1, 4, [0; 4])
            .write(&mut out, quote),
    }
    .expect("writes");
    out
}

#[test]
fn an_error_about_a_known_flow_arrives_and_others_do_not() {
    for (a, b) in [("a", "c"), ("x", "y")] {
        for v6 in [false, true] {
            let mut bed = Bed::new();
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            let sent = talk.udp(&mut bed, false).frame().to_vec();
            let asker = bed.place(a).ip(v6);
            let error = unreachable(&bed, b, asker, &sent);
            let fate = bed.send(b, &error);
            assert_eq!(fate.at(), a, "{fate:?}");
            let (flow, _) = quoted(fate.frame());
            assert_eq!((flow.src, flow.dport), (asker, 80));
            assert!(matches!(flow.proto, proto::UDP));

            let other = Talk {
                sport: 41_000,
                ..talk
            };
            let h = other.headers(
                &bed,
                false,
                Layer4::Udp {
                    sport: 41_000,
                    dport: 80,
                },
            );
            let error = unreachable(&bed, b, asker, &build(&h, 64));
            assert_eq!(
                bed.send(b, &error),
                Fate::Dropped {
                    node: 1,
                    reason: DropReason::UnrelatedError
                }
            );
        }
    }
}

#[test]
fn an_error_goes_only_to_whoever_sent_the_packet() {
    let mut bed = Bed::new();
    let sent = Talk::new("a", "c").udp(&mut bed, false).frame().to_vec();
    let victim = bed.place("b").ip(false);
    let error = unreachable(&bed, "c", victim, &sent);
    assert_eq!(
        bed.send("c", &error).reason(),
        Some(DropReason::UnrelatedError)
    );
}

#[test]
fn nobody_gets_an_error_about_what_another_has_sent() {
    let mut bed = Bed::new();
    let talk = Talk::new("a", "c");
    talk.udp(&mut bed, false);
    let own = talk.udp(&mut bed, true).frame().to_vec();
    let error = unreachable(&bed, "c", bed.place("a").ip(false), &own);
    assert_eq!(
        bed.send("c", &error).reason(),
        Some(DropReason::UnrelatedError)
    );
}

#[test]
fn dhcp_says_why_it_is_not_carried() {
    let mut bed = Bed::with(config(), Capacities { ..capacities() });
    let talk = Talk::new("a", "c");
    let dhcp = Headers {
        src: Addr::from_v4([0; 4]),
        dst: Addr::from_v4([255; 4]),
        dst_mac: Mac::BROADCAST,
        l4: Layer4::Udp {
            sport: 68,
            dport: 67,
        },
        ..talk.headers(&bed, false, UDP)
    };
    // Zeros are no DHCP.
    let fate = bed.send("a", &build(&dhcp, 240));
    assert_eq!(fate.reason(), Some(DropReason::Malformed));
    bed.wait(SECOND);
}
