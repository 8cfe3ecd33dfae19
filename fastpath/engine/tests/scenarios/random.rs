//! Whatever arrives: no panic, every frame accounted for, tenants apart.

use penstock_flow::Addr;
use proptest::prelude::*;

use crate::bed::frames::{Headers, Layer4, build};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, UPLINK, uplink_mac, vtep};
use crate::bed::{Bed, Fate, MS, SECOND};

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "x", "y"];

/// A good frame of some port, for damaging.
fn frame(bed: &Bed, from: usize, to: usize, kind: u8, back: bool, tunnel: bool) -> Vec<u8> {
    let talk = Talk::new(NAMES[from % 7], NAMES[to % 7]);
    let talk = Talk {
        v6: kind & 1 == 1,
        ..talk
    };
    let flags = [2, 16, 18, 17, 4, 0][usize::from(kind) % 6];
    let l4 = match kind % 4 {
        0 | 1 => Layer4::Tcp {
            sport: 40_000,
            dport: 80,
            flags,
            seq: 1000,
            ack: 5000,
        },
        2 => Layer4::Udp {
            sport: 40_000,
            dport: 80,
        },
        _ => Layer4::Echo { id: 1, reply: back },
    };
    let inner = build(&talk.headers(bed, back, l4), 40);
    if !tunnel {
        return inner;
    }
    let template = penstock_flow::build::Template::new(&penstock_flow::build::Encap {
        src_mac: uplink_mac(0),
        dst_mac: uplink_mac(1),
        src: vtep(0),
        dst: vtep(1),
        vni: BLUE,
        ttl: 64,
    })
    .expect("one family");
    let mut out = vec![0; template.len()];
    out.extend(inner);
    template.write(&mut out, 50_000, 0).expect("fits");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_frames_end_somewhere(
        frames in proptest::collection::vec(
            (
                (0..7_usize, 0..7_usize, any::<u8>(), any::<bool>(), any::<bool>()),
                proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
                any::<Option<u8>>(),
                0..2_usize,
            ),
            1..60,
        ),
    ) {
        let mut bed = Bed::new();
        for ((from, to, kind, back, tunnel), damage, cut, node) in frames {
            let mut bytes = frame(&bed, from, to, kind, back, tunnel);
            for (at, value) in damage {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(usize::from(cut));
            }
            let port = if tunnel {
                UPLINK
            } else {
                bed.place(NAMES[if back { to } else { from }]).device_port()
            };
            let fate = bed.arrive(node, port, &bytes);
            if let Fate::Delivered { port, .. } = fate {
                prop_assert_ne!(port, "?");
            }
            bed.now += MS;
            bed.check();
        }
        bed.tick();
    }

    #[test]
    fn noise_ends_somewhere(
        frames in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..200), 0..64_u32, 0..2_usize),
            1..40,
        ),
    ) {
        let mut bed = Bed::new();
        for (bytes, port, node) in frames {
            bed.arrive(node, port, &bytes);
            bed.check();
        }
    }

    /// Whatever a tenant's port sends under its own addresses, it arrives in
    /// its own VPC or not at all.
    #[test]
    fn tenants_stay_apart(
        steps in proptest::collection::vec(
            (0..7_usize, 0..4_u8, 0..4_u8, any::<bool>(), 0..6_u8, any::<bool>(), 0..30_u64),
            1..80,
        ),
    ) {
        let mut bed = Bed::new();
        for (from, subnet, host, v6, kind, gateway, pause) in steps {
            let me = bed.place(NAMES[from]);
            let dst = if v6 {
                let s = format!("fd00:{subnet}::{}", 10 + host);
                s.parse::<std::net::IpAddr>().expect("an address").into()
            } else {
                Addr::from_v4([10, 0, subnet, 10 + host])
            };
            let flags = [2, 16, 18, 17][usize::from(kind) % 4];
            let l4 = if kind < 4 {
                Layer4::Tcp { sport: 40_000, dport: 80, flags, seq: 1000, ack: 5000 }
            } else {
                Layer4::Udp { sport: 80, dport: 80 }
            };
            let h = Headers {
                src_mac: me.mac,
                dst_mac: if gateway { penstock_flow::Mac::GATEWAY } else { bed.place("c").mac },
                vlan: me.vlan,
                src: me.ip(v6),
                dst,
                ttl: 9,
                l4,
            };
            let fate = bed.send(NAMES[from], &build(&h, 9));
            if let Fate::Delivered { port, .. } = fate {
                let to = bed.place(port);
                prop_assert_eq!(to.vni, me.vni);
                prop_assert!(to.ips.contains(&dst));
            }
            bed.now += pause * SECOND;
            bed.tick();
        }
    }
}
