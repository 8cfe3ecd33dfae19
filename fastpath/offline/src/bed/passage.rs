//! One engine's part in a packet's way.

use penstock_engine::{Engine, Frame, Outbox, Outcome};
use penstock_flow::packet::{Outer, parse_outer};
use penstock_flow::{Addr, DropReason};
use penstock_policies::model::NodeName;

use super::ends::{self, End, Subject};
use super::{Bed, Node};

/// What one engine made of a packet.
#[derive(Clone, Debug)]
pub struct Passage {
    /// Whose engine.
    pub node: NodeName,
    /// The port that sent it; none: it came by an uplink.
    pub sender: Option<u32>,
    /// What became of it.
    pub fate: Fate,
    /// Who did that, where it went on.
    pub carried: Option<Carried>,
    /// What policy and connections say at the packet's ends that are here.
    pub ends: Vec<End>,
    /// The frame as the engine left it.
    pub frame: Vec<u8>,
}

impl Passage {
    /// Why it ended here, if it was dropped.
    #[must_use]
    pub const fn reason(&self) -> Option<DropReason> {
        match self.fate {
            Fate::Dropped(reason) => Some(reason),
            _ => None,
        }
    }
}

/// How a packet left an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To the port of this id.
    ToPort(u32),
    /// To an interface on which no port has such a tag.
    ToNobody,
    /// By an uplink, into a tunnel to this VTEP or, without one, to whoever had asked.
    ToWire {
        /// The other end.
        vtep: Option<Addr>,
    },
    /// For this reason.
    Dropped(DropReason),
    /// It was for the engine, and wants no answer.
    Consumed,
    /// A fragment that came before the first one of its packet.
    Waits,
}

/// Who dealt with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carried {
    /// The NIC's own stages.
    Nic,
    /// The slow path.
    Software,
    /// The slow path, which has answered it.
    Answered,
}

impl Carried {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Software => "software",
            Self::Answered => "answered",
        }
    }
}

impl Bed<'_> {
    /// A frame arrives at an engine that is there.
    pub(super) fn arrive(
        &mut self,
        now: u64,
        number: u64,
        index: usize,
        device_port: u32,
        frame: &[u8],
    ) -> Option<Passage> {
        self.pass(
            now,
            number,
            index,
            device_port,
            frame,
            |engine, frame, out| engine.process(now, device_port, frame, out),
        )
    }

    /// A frame whose wait is over: its number, how it was kept, what became of it.
    pub(super) fn resume(&mut self, now: u64, index: usize) -> Option<(u64, Vec<u8>, Passage)> {
        loop {
            let node = self.nodes.get_mut(index)?.as_mut()?;
            let release = node.engine.next_release()?;
            let device_port = release.device_port();
            let Some((number, frame)) = node.waiting.remove(&release.place()) else {
                continue;
            };
            let decide = |engine: &mut Engine, frame: &mut Frame<'_>, out: &mut Outbox| {
                engine.resume(now, release, frame, out)
            };
            if let Some(passage) = self.pass(now, number, index, device_port, &frame, decide) {
                return Some((number, frame, passage));
            }
        }
    }

    fn pass(
        &mut self,
        now: u64,
        number: u64,
        index: usize,
        device_port: u32,
        bytes: &[u8],
        decide: impl FnOnce(&mut Engine, &mut Frame<'_>, &mut Outbox) -> Outcome,
    ) -> Option<Passage> {
        let planned = self.plan.nodes.get(index)?;
        let node = self.nodes.get_mut(index)?.as_mut()?;
        let subject = Subject::of(&self.plan, index, &node.engine, device_port, bytes);
        let before = ends::known(&node.engine, now, &subject);
        let carried = Tally::of(&node.engine);
        let (outcome, frame) = node.run(bytes, decide)?;
        let carried = carried.since(&node.engine);
        let fate = match outcome {
            Outcome::Drop(reason) => Fate::Dropped(reason),
            Outcome::Consumed => Fate::Consumed,
            Outcome::Hold { place } => {
                keep(node, place, number, &frame);
                Fate::Waits
            }
            // One engine has all flows of its node.
            Outcome::HandOver { .. } => Fate::Dropped(DropReason::HandoverFull),
            Outcome::Send { device_port } if planned.uplink_at(device_port).is_some() => {
                let vtep = match parse_outer(&frame) {
                    Ok(Outer::Vxlan(tunnel)) => Some(tunnel.dst_vtep),
                    _ => None,
                };
                Fate::ToWire { vtep }
            }
            Outcome::Send { device_port } => {
                let vlan = ends::vlan_of(&frame);
                let place = self.plan.place_at(index, device_port, vlan);
                place.map_or(Fate::ToNobody, |place| Fate::ToPort(place.id))
            }
        };
        let ends = ends::after(&node.engine, now, &subject, before, fate, carried, &frame);
        let passage = Passage {
            node: planned.name.clone(),
            sender: subject.sender,
            fate,
            carried,
            ends,
            frame,
        };
        self.answer_underlay(now, index);
        Some(passage)
    }
}

fn keep(node: &mut Node, place: u32, number: u64, frame: &[u8]) {
    node.waiting.insert(place, (number, frame.to_vec()));
}

/// What an engine has counted.
#[derive(Clone, Copy)]
struct Tally {
    nic: u64,
    slow: u64,
    answered: u64,
}

impl Tally {
    fn of(engine: &Engine) -> Self {
        let counters = engine.counters();
        Self {
            nic: counters.nic.packets,
            slow: counters.slow.packets,
            answered: counters.answered,
        }
    }

    fn since(self, engine: &Engine) -> Option<Carried> {
        let now = Self::of(engine);
        if now.answered > self.answered {
            Some(Carried::Answered)
        } else if now.nic > self.nic {
            Some(Carried::Nic)
        } else if now.slow > self.slow {
            Some(Carried::Software)
        } else {
            None
        }
    }
}
