//! A capture through a bed: each packet is put in where it came from, and followed.
//!
//! The time is the capture's, in nanoseconds since its first packet; between two
//! packets the engines' timers run. Where it goes back, it stands still.

mod clock;
mod flow;
mod locate;
mod record;

use penstock_policies::model::{Model, PortName, VpcName};

use crate::bed::{Bed, BedError, LONGEST_WAY, Released, Sizes, Way};
use crate::capture::Captured;

pub use flow::{Flow, protocol};
pub use record::{Note, Record, Source, Summary, Verdict};

use clock::Clock;
use locate::{Spot, Whereabouts};

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ports of other VPCs send nothing.
    pub vpc: Option<VpcName>,
    /// How large engines are.
    pub sizes: Sizes,
}

/// Why a replay ends early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is no such VPC.
    #[error("VPC {0} is not declared; name one that is")]
    NoVpc(VpcName),
    /// Several ports send such frames.
    #[error(
        "packet {number} can come from each of {}: they have the same MAC and address; choose a VPC",
        names(.candidates)
    )]
    Ambiguous {
        /// Which packet.
        number: u64,
        /// The ports.
        candidates: Vec<PortName>,
    },
    /// The documents do not make a bed.
    #[error(transparent)]
    Bed(#[from] BedError),
}

/// By so much later than it is due a timer may run.
const WHEEL: u64 = 10 * clock::MS;

fn names(ports: &[PortName]) -> String {
    let names: Vec<_> = ports.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// See the module's contract.
#[derive(Debug)]
pub struct Replay<'m> {
    bed: Bed<'m>,
    whereabouts: Whereabouts,
    clock: Clock,
    number: u64,
    summary: Summary,
    /// How long fragments wait at most.
    patience: u64,
}

impl<'m> Replay<'m> {
    /// Before the first packet.
    ///
    /// # Errors
    /// If the documents do not have the VPC, or have too many names.
    pub fn new(model: &'m Model, options: Options) -> Result<Self, ReplayError> {
        let Options { vpc, sizes } = options;
        if let Some(vpc) = vpc.as_ref().filter(|vpc| !model.vpcs.contains_key(*vpc)) {
            return Err(ReplayError::NoVpc(vpc.clone()));
        }
        let patience = sizes.engine.fragment_wait;
        let bed = Bed::new(model, sizes)?;
        Ok(Self {
            whereabouts: Whereabouts::new(&bed, vpc.as_ref()),
            bed,
            clock: Clock::default(),
            number: 0,
            summary: Summary::default(),
            patience,
        })
    }

    /// The bed, for names and numbers.
    #[must_use]
    pub const fn bed(&self) -> &Bed<'m> {
        &self.bed
    }

    /// Replays one packet. What comes out is told oldest first: packets that had
    /// waited until then, this one, and those that had waited for it.
    ///
    /// # Errors
    /// If it can come from several ports, or a node cannot be made.
    pub fn packet(&mut self, captured: &Captured<'_>) -> Result<Vec<Record>, ReplayError> {
        self.number += 1;
        self.summary.packets = self.number;
        let mut notes = Vec::new();
        let now = self.clock.advance(captured.time, &mut notes);
        self.summary.clamped = self.clock.clamped();
        let mut records = self.pass_time(now)?;
        let cut = captured.data.len() < captured.length as usize;
        if cut {
            self.summary.cut += 1;
            notes.push(Note::Cut {
                captured: captured.data.len() as u32,
                length: captured.length,
            });
        }
        let frame = captured.data;
        let spot = self.whereabouts.locate(self.number, &self.bed, frame)?;
        let source = spot.source();
        let (way, from) = self.put(now, &spot, frame)?;
        let verdict = Verdict::of(source, way.get(from..).unwrap_or_default());
        records.push(Record {
            number: self.number,
            time: self.clock.since_first(now),
            length: captured.length,
            captured: captured.data.len() as u32,
            flow: Flow::of(frame, matches!(source, Source::Wire(_))),
            source,
            verdict,
            way,
            notes,
        });
        self.summary.count(verdict);
        records.extend(self.waited(now));
        Ok(records)
    }

    /// After the last packet: time goes on until nothing waits. What is then in
    /// [`summary`](Self::summary) of connections is as the last packet left it.
    ///
    /// # Errors
    /// If a node cannot be made.
    pub fn wait(&mut self) -> Result<Vec<Record>, ReplayError> {
        let connections = self.bed.connections();
        self.summary.connections = connections
            .map(|(node, live)| (node.clone(), live))
            .collect();
        let mut records = Vec::new();
        let mut end = self.clock.now();
        // What is let go at one node may have to wait at the next.
        for _ in 0..LONGEST_WAY {
            if self.bed.is_waiting() {
                end += self.patience + WHEEL;
                records.extend(self.pass_time(end)?);
            }
        }
        Ok(records)
    }

    /// All packets so far.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Puts a frame in; its way, and where in it the frame itself begins.
    fn put(&mut self, now: u64, spot: &Spot, frame: &[u8]) -> Result<(Way, usize), ReplayError> {
        let number = self.number;
        Ok(match spot {
            Spot::Port(id) | Spot::Stranger(Some(id)) => {
                (self.bed.send(now, number, *id, frame)?, 0)
            }
            Spot::Stranger(None) => (Way::new(), 0),
            Spot::Wire { vtep, sender } => {
                let mut way = Way::new();
                // It had passed the sender's node before it was seen on the wire: what
                // that one knows of the connection, replies will need.
                if let Some((id, inner)) = sender {
                    way.extend(self.bed.send_no_further(now, number, *id, inner)?);
                }
                let from = way.len();
                way.extend(self.bed.receive(now, number, *vtep, frame)?);
                (way, from)
            }
        })
    }

    fn pass_time(&mut self, now: u64) -> Result<Vec<Record>, ReplayError> {
        let mut records = Vec::new();
        self.clock.gap(now);
        while let Some(then) = self.clock.next_tick() {
            self.bed.tick(then)?;
            records.extend(self.waited(then));
        }
        Ok(records)
    }

    /// Packets whose wait is over.
    fn waited(&mut self, now: u64) -> Vec<Record> {
        let mut records = Vec::new();
        for Released { number, frame, way } in self.bed.take_released() {
            let source = way
                .first()
                .and_then(|passage| passage.sender)
                .map_or(Source::Later, Source::Port);
            let verdict = Verdict::of(source, &way);
            self.summary.count_late(verdict);
            let length = frame.len() as u32;
            records.push(Record {
                number,
                time: self.clock.since_first(now),
                length,
                captured: length,
                flow: Flow::of(&frame, source == Source::Later),
                source,
                verdict,
                way,
                notes: vec![Note::Waited],
            });
        }
        records
    }
}
