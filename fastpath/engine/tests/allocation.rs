//! Nothing is allocated on a packet's way: not for the first packet of a
//! connection, not for a denial, not by a timer.
#![allow(clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "bed/bed.rs"]
mod bed;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bed::frames::{ACK, FIN, Headers, Layer4, RST, SYN, build};
use bed::pieces::{Cut, evenly, piece};
use bed::talk::Talk;
use bed::world::{DEVICE, UPLINK};
use bed::{Bed, MS, SECOND};
use penstock_engine::{Frame, Outcome};
use penstock_flow::{Addr, DropReason};

const UDP: Layer4 = Layer4::Udp {
    sport: 4000,
    dport: 80,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands everything to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Runs `frames` through node 0 and counts; `None` is a tick.
fn run(bed: &mut Bed, frames: &[Option<(u32, Vec<u8>)>]) -> (u64, Vec<Outcome>) {
    let mut buffer = vec![0_u8; 4096];
    let mut outcomes = Vec::with_capacity(frames.len());
    let node = &mut bed.nodes[0];
    let mut kept = vec![(0, [0_u8; 2048]); node.engine.places() as usize];
    let before = ALLOCATIONS.with(Cell::get);
    for frame in frames {
        bed.now += MS;
        node.outbox.clear();
        match frame {
            None => node.engine.tick(bed.now, &mut node.outbox),
            Some((port, bytes)) => {
                buffer[128..128 + bytes.len()].copy_from_slice(bytes);
                let mut frame = Frame::new(&mut buffer, 128, bytes.len()).expect("fits");
                let outcome = node
                    .engine
                    .process(bed.now, *port, &mut frame, &mut node.outbox);
                outcomes.push(outcome);
                if let Outcome::Hold { place } = outcome {
                    let (len, kept) = &mut kept[place as usize];
                    *len = frame.len();
                    kept[..*len].copy_from_slice(frame.data());
                }
            }
        }
        while let Some(release) = node.engine.next_release() {
            let (len, kept) = &kept[release.place() as usize];
            buffer[128..128 + len].copy_from_slice(&kept[..*len]);
            let mut frame = Frame::new(&mut buffer, 128, *len).expect("fits");
            node.engine
                .resume(bed.now, release, &mut frame, &mut node.outbox);
        }
    }
    (ALLOCATIONS.with(Cell::get) - before, outcomes)
}

#[test]
fn neither_packets_nor_timers_allocate() {
    let mut bed = Bed::new();
    bed.change(|_, policy| {
        // e is closed, so something is denied.
        bed::world::put_group(
            policy,
            7,
            bed::world::group(bed::world::BLUE, true, true, vec![]),
        );
        if let Some(port) = policy.ports.get_mut(&5) {
            port.groups = vec![7];
        }
    });
    let mut frames = Vec::new();
    for n in 0..400_u16 {
        let talk = Talk {
            sport: 10_000 + n,
            v6: n % 2 == 0,
            ..Talk::new("a", ["b", "c", "e", "d"][usize::from(n) % 4])
        };
        let tcp = |back: bool, flags, seq, ack| Layer4::Tcp {
            sport: if back { talk.dport } else { talk.sport },
            dport: if back { talk.sport } else { talk.dport },
            flags,
            seq,
            ack,
        };
        let mut push = |back: bool, l4, ttl, len| {
            let h = Headers {
                ttl,
                ..talk.headers(&bed, back, l4)
            };
            let from = bed.place(if back { talk.b } else { talk.a });
            if from.node == 0 {
                frames.push(Some((from.device_port(), build(&h, len))));
            }
        };
        push(false, tcp(false, SYN, 1000, 0), 64, 0);
        push(true, tcp(true, SYN | ACK, 5000, 1001), 64, 0);
        push(false, tcp(false, ACK, 1001, 5001), 64, 0);
        push(false, tcp(false, ACK, 1001, 5001), 64, 100);
        push(false, tcp(false, ACK, 1001, 5001), 1, 100);
        push(false, tcp(false, ACK, 1001, 5001), 64, 1480);
        let end = if n % 3 == 0 { FIN | ACK } else { RST | ACK };
        push(false, tcp(false, end, 1101, 5001), 64, 0);
        let udp = build(&talk.headers(&bed, false, UDP), 3000);
        let mut cuts = evenly(&udp, 1000);
        cuts.rotate_left(usize::from(n) % 4);
        cuts.push(Cut {
            begin: 1000 + usize::from(n % 5) * 8,
            end: 2000,
            more: true,
        });
        let device_port = bed.place("a").device_port();
        for cut in cuts.into_iter().skip(usize::from(n) % 2) {
            frames.push(Some((device_port, piece(&udp, n.into(), cut))));
        }
        if n % 10 == 0 {
            frames.push(None);
        }
    }
    let a = bed.place("a");
    let mut arp = vec![0; 60];
    for target in [bed.place("c").ip(false), Addr::from_v4([10, 0, 1, 1])] {
        penstock_flow::build::arp_request(&mut arp, a.mac, a.ip(false), target, None)
            .expect("fits");
        frames.push(Some((a.device_port(), arp.clone())));
    }
    frames.push(Some((UPLINK, vec![0; 64])));
    let (allocations, outcomes) = run(&mut bed, &frames);
    assert_eq!(allocations, 0);
    let c = bed.counters(0);
    assert!(c.nic.packets > 0 && c.slow.packets > 500, "{c:?}");
    assert!(c.connections.evicted > 0 && c.answered > 100, "{c:?}");
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Drop(_))));
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Hold { .. })));
    for reason in [DropReason::Fragment, DropReason::FragmentTimeout] {
        assert!(c.dropped(reason) > 0, "{c:?}");
    }

    // All time out, or are judged again; then nothing is left.
    bed.now += 8000 * SECOND;
    let ticks: Vec<_> = (0..50).map(|_| None).collect();
    assert_eq!(run(&mut bed, &ticks).0, 0);
    assert_eq!(bed.counters(0).connections.live, 0);
    let flows = penstock_engine::nic::Table::Flow;
    assert_eq!(bed.nodes[0].engine.occupancy(DEVICE, flows), Some(0));
}

#[test]
fn judging_again_allocates_nothing_either() {
    let mut bed = Bed::new();
    for n in 0..60 {
        Talk {
            sport: 10_000 + n,
            ..Talk::new("a", "c")
        }
        .open(&mut bed);
    }
    bed.change(|_, policy| {
        bed::world::put_group(
            policy,
            7,
            bed::world::group(bed::world::BLUE, true, true, vec![]),
        );
        if let Some(port) = policy.ports.get_mut(&1) {
            port.groups = vec![7];
        }
    });
    let ticks: Vec<_> = (0..10).map(|_| None).collect();
    assert_eq!(run(&mut bed, &ticks).0, 0);
    assert_eq!(bed.counters(0).connections.revoked, 60);
    assert_eq!(bed.counters(0).connections.live, 0);
}

#[test]
fn what_policy_says_beside_yes_and_no_allocates_nothing() {
    use penstock_rules::model::{Action, Applies, Direction, List, OnChange, Rule, Tier};
    let put = |bed: &mut Bed, deny_web: bool| {
        bed.change(|_, policy| {
            let tcp = Some(penstock_flow::tuple::proto::TCP);
            let rule = |name, port: u16| {
                bed::world::rule(name, Direction::Egress, tcp, &[(port, port)], vec![])
            };
            let list = |name: &str, rules| List {
                tier: Tier::Admin,
                applies: Applies::Vpc,
                rules,
                ..List::of_group(name.into(), bed::world::BLUE, 0)
            };
            let web = Rule {
                action: if deny_web {
                    Action::Deny
                } else {
                    Action::Allow
                },
                ..rule("web", 80)
            };
            let says = [
                Rule {
                    action: Action::Reject,
                    ..rule("no", 81)
                },
                Rule {
                    stateful: false,
                    log: true,
                    ..rule("each", 82)
                },
                Rule {
                    action: Action::Deny,
                    ..rule("maybe", 80)
                },
            ];
            policy.lists.insert(
                8,
                List {
                    on_change: OnChange::Persist,
                    ..list("persist", vec![web])
                },
            );
            policy.lists.insert(9, list("says", says[..2].to_vec()));
            policy.lists.insert(
                10,
                List {
                    audit: true,
                    priority: 1,
                    ..list("audit", says[2..].to_vec())
                },
            );
        });
    };
    let mut bed = Bed::new();
    put(&mut bed, false);
    let mut frames = Vec::new();
    for n in 0..120 {
        let talk = Talk {
            sport: 10_000 + n,
            dport: 80 + n % 3,
            v6: n % 2 == 0,
            ..Talk::new("a", ["b", "c"][usize::from(n / 3) % 2])
        };
        let syn = Layer4::Tcp {
            sport: talk.sport,
            dport: talk.dport,
            flags: SYN,
            seq: 1000,
            ack: 0,
        };
        let device_port = bed.place("a").device_port();
        frames.push(Some((
            device_port,
            build(&talk.headers(&bed, false, syn), 0),
        )));
    }
    assert_eq!(run(&mut bed, &frames).0, 0);
    put(&mut bed, true);
    let ticks: Vec<_> = (0..10).map(|_| None).collect();
    assert_eq!(run(&mut bed, &ticks).0, 0);
    let c = bed.counters(0);
    assert_eq!((c.judged.rejected, c.judged.logged), (40, 40), "{c:?}");
    assert_eq!((c.judged.would_drop, c.judged.stateless), (40, 40), "{c:?}");
    assert_eq!((c.connections.persisted, c.connections.revoked), (40, 0));
    assert_eq!(bed.nodes[0].engine.allowed().count(), 40);
}
