//! Two simple TCP peers over a network that loses, repeats and delays, with the
//! tracker between them: no segment of an honest peer is ever invalid, and when
//! both are done, so is the tracker.

use std::collections::VecDeque;

use penstock_flow::conntrack::tcp::{State, Tracker};
use penstock_flow::conntrack::{Direction, Verdict};
use penstock_flow::packet::Tcp;
use proptest::prelude::*;

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const MSS: u32 = 100;

/// A peer that sends `bytes` and then its FIN, one segment at a time, and
/// repeats it until it is acknowledged.
#[derive(Clone, Debug)]
struct Peer {
    iss: u32,
    bytes: u32,
    active: bool,
    /// Our stream, counted from the SYN: what is acknowledged.
    acked: u32,
    /// The other's stream: what has arrived in order, with its start.
    peer_iss: Option<u32>,
    received: u32,
    peer_fin: bool,
}

impl Peer {
    fn new(active: bool, iss: u32, bytes: u32) -> Self {
        Self {
            iss,
            bytes,
            active,
            acked: 0,
            peer_iss: None,
            received: 0,
            peer_fin: false,
        }
    }

    fn done(&self) -> bool {
        self.peer_fin && self.acked == self.bytes + 2
    }

    /// What it would send now, if its timer went off.
    fn next(&self) -> Option<Tcp> {
        let (mut flags, mut len) = (0, 0);
        match self.acked {
            0 if !self.active && self.peer_iss.is_none() => return None,
            0 => flags |= SYN,
            sent if sent <= self.bytes => len = MSS.min(self.bytes + 1 - sent),
            sent if sent == self.bytes + 1 => flags |= FIN,
            _ => {}
        }
        // A segment that can carry the FIN may.
        if len > 0 && self.acked + len == self.bytes + 1 {
            flags |= FIN;
        }
        let mut ack = 0;
        if let Some(peer) = self.peer_iss {
            flags |= ACK;
            ack = peer.wrapping_add(self.received);
        }
        Some(Tcp {
            flags,
            wscale: (flags & SYN != 0).then_some(3),
            seq: self.iss.wrapping_add(self.acked),
            ack,
            window: 1000,
            payload_len: len as u16,
        })
    }

    fn receive(&mut self, tcp: &Tcp) {
        if tcp.flags & ACK != 0 {
            let acked = tcp.ack.wrapping_sub(self.iss);
            if acked <= self.bytes + 2 {
                self.acked = self.acked.max(acked);
            }
        }
        if tcp.flags & SYN != 0 && self.peer_iss.is_none() {
            self.peer_iss = Some(tcp.seq);
            self.received = 1;
            return;
        }
        let Some(peer) = self.peer_iss else { return };
        if tcp.seq.wrapping_sub(peer) == self.received && tcp.flags & SYN == 0 {
            self.received += u32::from(tcp.payload_len);
            if tcp.flags & FIN != 0 && !self.peer_fin {
                self.received += 1;
                self.peer_fin = true;
            }
        }
    }
}

/// One step of the world.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A peer's timer: its segment passes the tracker and is lost, put in
    /// flight, or put in flight twice.
    Send(Direction, u8),
    /// One of the segments in flight to a peer arrives.
    Arrive(Direction, u8),
    /// The NIC has carried the flow for a while.
    Offload,
}

fn step() -> impl Strategy<Value = Step> {
    let side = prop_oneof![Just(Direction::Original), Just(Direction::Reply)];
    prop_oneof![
        6 => (side.clone(), 0_u8..4).prop_map(|(d, n)| Step::Send(d, n)),
        6 => (side, 0_u8..3).prop_map(|(d, n)| Step::Arrive(d, n)),
        1 => Just(Step::Offload),
    ]
}

struct World {
    peers: [Peer; 2],
    flight: [VecDeque<Tcp>; 2],
    tracker: Option<Tracker>,
}

impl World {
    fn send(&mut self, from: Direction, copies: u8) {
        let Some(tcp) = self.peers[from as usize].next() else {
            return;
        };
        match &mut self.tracker {
            None if from == Direction::Original => {
                self.tracker = Some(Tracker::open(&tcp).expect("a SYN"));
            }
            // Nobody speaks before the opener here: its side is admitted.
            None => return,
            Some(tracker) => {
                let before = *tracker;
                let verdict = tracker.packet(from, &tcp);
                let passes = matches!(verdict, Verdict::Pass | Verdict::PassQuietly);
                assert!(passes, "{verdict:?} for {from:?} {tcp:?} at {before:?}");
            }
        }
        for _ in 0..copies {
            self.flight[from.reverse() as usize].push_back(tcp);
        }
    }

    fn offload(&mut self) {
        if let Some(tracker) = &mut self.tracker
            && tracker.state() == State::Established
        {
            tracker.moved_unseen();
        }
    }

    fn arrive(&mut self, to: Direction, which: u8) {
        let flight = &mut self.flight[to as usize];
        let which = usize::from(which).min(flight.len().saturating_sub(1));
        if let Some(tcp) = flight.remove(which) {
            self.peers[to as usize].receive(&tcp);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn honest_peers_are_never_invalid(
        iss in any::<(u32, u32)>(),
        bytes in (0_u32..600, 0_u32..600),
        crossing in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let mut world = World {
            peers: [Peer::new(true, iss.0, bytes.0), Peer::new(crossing, iss.1, bytes.1)],
            flight: [VecDeque::new(), VecDeque::new()],
            tracker: None,
        };
        for step in steps {
            match step {
                Step::Send(from, copies) => world.send(from, copies.min(2)),
                Step::Arrive(to, which) => world.arrive(to, which),
                Step::Offload => world.offload(),
            }
        }
        // Now the network recovers.
        for _ in 0..60 {
            for side in [Direction::Original, Direction::Reply] {
                while !world.flight[side as usize].is_empty() {
                    world.arrive(side, 0);
                }
                world.send(side, 1);
            }
        }
        prop_assert!(world.peers.iter().all(Peer::done), "{:?}", world.peers);
        let state = world.tracker.expect("open").state();
        prop_assert_eq!(state, State::TimeWait, "{:?}", world.peers);
    }
}
