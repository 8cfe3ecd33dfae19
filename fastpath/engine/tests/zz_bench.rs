#![allow(clippy::panic, reason = "x")]
#[path = "bed/bed.rs"]
mod bed;
use bed::frames::*;
use bed::talk::Talk;
use bed::*;
use penstock_engine::*;
use std::time::Instant;
#[test]
fn perf() {
    let mut bed = Bed::with(
        Config {
            max_connections: 1 << 20,
            max_connections_per_port: 1 << 20,
            ..config()
        },
        nic::Capacities {
            flow: 1 << 18,
            ..capacities()
        },
    );
    let talks: Vec<Talk> = (0..20000u16)
        .map(|n| Talk {
            sport: 10000 + n,
            ..Talk::new("a", "c")
        })
        .collect();
    for t in &talks {
        for (back, flags, seq, ack) in [
            (false, SYN, 1000u32, 0u32),
            (true, SYN | ACK, 5000, 1001),
            (false, ACK, 1001, 5001),
        ] {
            let (sp, dp) = if back {
                (t.dport, t.sport)
            } else {
                (t.sport, t.dport)
            };
            let f = build(
                &t.headers(
                    &bed,
                    back,
                    Layer4::Tcp {
                        sport: sp,
                        dport: dp,
                        flags,
                        seq,
                        ack,
                    },
                ),
                0,
            );
            let (n, p) = if back {
                (1, bed.place("c").device_port())
            } else {
                (0, bed.place("a").device_port())
            };
            bed.arrive(n, p, &f);
        }
    }
    let frames: Vec<Vec<u8>> = talks
        .iter()
        .map(|t| {
            build(
                &t.headers(
                    &bed,
                    false,
                    Layer4::Tcp {
                        sport: t.sport,
                        dport: 80,
                        flags: ACK,
                        seq: 1001,
                        ack: 5001,
                    },
                ),
                20,
            )
        })
        .collect();
    let port = bed.place("a").device_port();
    let now = bed.now;
    let node = &mut bed.nodes[0];
    let mut buf = vec![0u8; 2048];
    let mut sink = 0;
    for (what, set) in [("20k flows", &frames[..]), ("1 flow", &frames[..1])] {
        let t0 = Instant::now();
        let rounds = 2_000_000 / set.len();
        for _ in 0..rounds {
            for f in set {
                buf[128..128 + f.len()].copy_from_slice(f);
                let mut fr = Frame::new(&mut buf, 128, f.len()).unwrap();
                if let Outcome::Send { .. } =
                    node.engine.process(now, port, &mut fr, &mut node.outbox)
                {
                    sink += 1;
                }
            }
        }
        println!(
            "{what}: {:.1} ns/packet nic {}",
            t0.elapsed().as_nanos() as f64 / (rounds * set.len()) as f64,
            node.engine.counters().nic.packets
        );
    }
    // first packets
    let syns: Vec<Vec<u8>> = (0..50000u32)
        .map(|n| {
            let t = Talk {
                sport: n as u16,
                dport: 81 + (n >> 16) as u16,
                ..Talk::new("a", "c")
            };
            let h = Headers {
                src_mac: Default::default(),
                dst_mac: Default::default(),
                vlan: 0,
                src: penstock_flow::Addr::from_v4([10, 0, 1, 10]),
                dst: penstock_flow::Addr::from_v4([10, 0, 1, 12]),
                ttl: 64,
                l4: Layer4::Tcp {
                    sport: t.sport,
                    dport: t.dport,
                    flags: SYN,
                    seq: 1,
                    ack: 0,
                },
            };
            let _ = h;
            h
        })
        .map(|mut h| {
            h.src_mac = penstock_flow::Mac([0x02, 0x11, 0, 100, 1, 10]);
            h.dst_mac = penstock_flow::Mac([0x02, 0x11, 0, 100, 1, 12]);
            build(&h, 0)
        })
        .collect();
    let t0 = Instant::now();
    for f in &syns {
        buf[128..128 + f.len()].copy_from_slice(f);
        let mut fr = Frame::new(&mut buf, 128, f.len()).unwrap();
        if let Outcome::Send { .. } = node.engine.process(now, port, &mut fr, &mut node.outbox) {
            sink += 1;
        }
    }
    println!(
        "first packets: {:.1} ns sink {sink} opened {}",
        t0.elapsed().as_nanos() as f64 / syns.len() as f64,
        node.engine.counters().connections.opened
    );
}
