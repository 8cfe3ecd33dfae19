//! Other underlays, and several NICs in one engine.

use penstock_engine::nic::{Entry, Hop, Op, Update};
use penstock_engine::{AttachError, Engine, Frame, NicConfig, Outbox, Outcome, PolicyChange};
use penstock_flow::{Addr, DropReason, Mac, Prefix};
use penstock_rules::Ruleset;
use std::sync::Arc;

use crate::bed::frames::{ACK, Headers, Layer4, SYN, build, read};
use crate::bed::talk::Talk;
use crate::bed::world::{BLUE, addr, places, policy, uplink_mac, vtep};
use crate::bed::{Bed, MS, SECOND, capacities, config};

#[test]
fn over_ipv6_all_is_the_same() {
    for v6 in [false, true] {
        for (a, b) in [("a", "c"), ("e", "d"), ("x", "y")] {
            let mut bed = Bed::over_v6();
            let talk = Talk {
                v6,
                ..Talk::new(a, b)
            };
            talk.open(&mut bed);
            for back in [false, true] {
                let fate = talk.data(&mut bed, back);
                assert_eq!(fate.at(), if back { a } else { b });
                read(fate.frame());
                assert!(!talk.udp(&mut bed, back).at().is_empty());
            }
        }
    }
}

/// a on NIC 1 and b on NIC 2 of one engine, whose uplinks meet in a switch.
struct TwoNics {
    engine: Engine,
    out: Outbox,
    now: u64,
}

fn nic(device_id: u32) -> NicConfig {
    NicConfig {
        device_id,
        vtep: vtep(device_id as usize),
        uplink_port: device_id,
        uplink_mac: uplink_mac(device_id as usize),
        underlay: Prefix::new(Addr::from_v4([192, 0, 2, 0]), 120).expect("a prefix"),
        gateway: None,
        mtu: 1500,
        capacities: capacities(),
        entry_write_ns: 0,
    }
}

impl TwoNics {
    fn new() -> Self {
        let mut engine = Engine::new(config());
        let all = places();
        for id in [1, 2] {
            engine.attach_nic(nic(id)).expect("attaches");
            let (own, other) = (id as usize, 3 - id as usize);
            let (near, far) = if id == 1 { (0, 1) } else { (1, 0) };
            let (near, far) = (&all[near], &all[far]);
            let mut entries = vec![
                Entry::Vport {
                    device_port: 10 + id,
                    vlan: 0,
                    port_id: near.id,
                    vni: BLUE,
                },
                Entry::Underlay {
                    src_vtep: vtep(other),
                    dst_vtep: vtep(own),
                    vni: BLUE,
                    decap_vni: BLUE,
                },
                Entry::SpoofGuard {
                    port_id: near.id,
                    mac: near.mac,
                    ip: near.ip(false),
                },
                Entry::Nexthop {
                    id: 1,
                    hop: Hop::ToPort {
                        device_port: 10 + id,
                        vlan: 0,
                        dst_mac: near.mac,
                    },
                },
                Entry::Nexthop {
                    id: 2,
                    hop: Hop::ToVtep {
                        src_vtep: vtep(own),
                        dst_vtep: vtep(other),
                        src_mac: uplink_mac(own),
                        dst_mac: Mac::default(),
                        vni: BLUE,
                        mtu: 1450,
                        device_port: id,
                    },
                },
            ];
            for (place, nexthop) in [(near, 1), (far, 2)] {
                entries.push(Entry::Mapping {
                    vni: BLUE,
                    dst: Prefix::new(place.ip(false), 128).expect("a host"),
                    nexthop,
                });
            }
            for entry in entries {
                let update = Update {
                    op: Op::Insert,
                    entry,
                };
                engine.write(id, &update).expect("writes");
            }
        }
        let rules = Ruleset::compile(policy(0, &all)).expect("compiles");
        engine.set_policy(100 * SECOND, PolicyChange::new(None, Arc::new(rules)));
        let mut this = Self {
            engine,
            out: Outbox::new(),
            now: 100 * SECOND,
        };
        this.engine.tick(this.now, &mut this.out);
        this.drain();
        this
    }

    fn drain(&mut self) {
        let frames: Vec<(u32, Vec<u8>)> = self
            .out
            .frames()
            .map(|(port, frame)| (port, frame.to_vec()))
            .collect();
        self.out.clear();
        // The rest is advertised to ports.
        for (port, frame) in frames.into_iter().filter(|(port, _)| *port < 3) {
            self.send(3 - port, &frame);
        }
    }

    /// Follows a frame to where it leaves the engine for good.
    fn send(&mut self, device_port: u32, frame: &[u8]) -> (Outcome, Vec<u8>) {
        self.now += MS;
        let mut buffer = vec![0; frame.len() + 512];
        buffer[128..128 + frame.len()].copy_from_slice(frame);
        let mut lent = Frame::new(&mut buffer, 128, frame.len()).expect("fits");
        let outcome = self
            .engine
            .process(self.now, device_port, &mut lent, &mut self.out);
        let bytes = lent.data().to_vec();
        match outcome {
            Outcome::Send { device_port } if device_port < 3 => self.send(3 - device_port, &bytes),
            _ => (outcome, bytes),
        }
    }
}

#[test]
fn two_nics_of_one_engine_are_as_remote_as_two_nodes() {
    let mut two = TwoNics::new();
    let all = places();
    let mut tcp = |back: bool, flags, seq, ack| {
        let (from, to) = if back {
            (&all[1], &all[0])
        } else {
            (&all[0], &all[1])
        };
        let (sport, dport) = if back { (80, 4000) } else { (4000, 80) };
        let l4 = Layer4::Tcp {
            sport,
            dport,
            flags,
            seq,
            ack,
        };
        let h = Headers {
            src_mac: from.mac,
            dst_mac: to.mac,
            vlan: 0,
            src: from.ip(false),
            dst: to.ip(false),
            ttl: 64,
            l4,
        };
        let (sent, arrives) = if back { (12, 11) } else { (11, 12) };
        let (outcome, _) = two.send(sent, &build(&h, 0));
        assert_eq!(
            outcome,
            Outcome::Send {
                device_port: arrives
            }
        );
    };
    tcp(false, SYN, 1000, 0);
    tcp(true, SYN | ACK, 5000, 1001);
    for i in 0..10 {
        tcp(
            i % 2 == 1,
            ACK,
            1001 + 4000 * (i % 2),
            5001 - 4000 * (i % 2),
        );
    }
    let c = two.engine.counters();
    assert_eq!(c.connections.live, 2);
    assert_eq!(c.offload.live, 2);
    assert_eq!(c.nic.packets, 2 * 9);
    for id in [1, 2] {
        let flows = two.engine.occupancy(id, penstock_engine::nic::Table::Flow);
        assert_eq!(flows, Some(2), "NIC {id}");
    }
}

#[test]
fn what_cannot_be_attached_says_why() {
    let mut engine = Engine::new(config());
    engine.attach_nic(nic(1)).expect("attaches");
    let good = nic(2);
    for (bad, want) in [
        (nic(1), AttachError::DeviceTaken(1)),
        (
            NicConfig {
                device_id: 0,
                ..good.clone()
            },
            AttachError::NoDevice,
        ),
        (
            NicConfig {
                uplink_port: 1,
                ..good.clone()
            },
            AttachError::UplinkTaken(1),
        ),
        (
            NicConfig {
                uplink_port: 64,
                ..good.clone()
            },
            AttachError::UplinkOutOfRange { port: 64, max: 63 },
        ),
    ] {
        assert_eq!(engine.attach_nic(bad), Err(want));
    }
    let mixed = NicConfig {
        gateway: Some(addr("2001:db8::1")),
        ..good.clone()
    };
    assert!(matches!(
        engine.attach_nic(mixed),
        Err(AttachError::MixedFamilies { .. })
    ));
    engine.attach_nic(good).expect("attaches");
    let mut out = Outbox::new();
    let mut buffer = [0; 300];
    let mut frame = Frame::new(&mut buffer, 128, 64).expect("fits");
    assert_eq!(
        engine.process(1, 9, &mut frame, &mut out),
        Outcome::Drop(DropReason::UnknownPort)
    );
}

#[test]
fn an_engine_can_be_given_to_its_lcore() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Engine>();
    is_send::<Outbox>();
}
