//! What changes between two models: which ports may talk to whom, before and after.
//!
//! The answer is exact. Ports about which the rules of both models say the same are one
//! class, and so are addresses outside between the ends of all prefixes; between the
//! numbers at which rules begin and end, protocols and ports are one cell. So one
//! packet for each pair of classes and each cell speaks for all, and both models
//! judge it as workers would. Pairs whose lists and memberships are the same in both are
//! not judged. Ports of different VPCs, peered ones too, exchange nothing and are left out.

mod cells;
mod classes;
mod ranges;
mod side;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use penstock_rules::model::Direction;
use penstock_rules::{Fate, Query};

use crate::compile::CompileError;
use crate::ids::{Ids, OutOfIds};
use crate::model::{Model, NodeName, PortName, VpcName};
use cells::{Cell, Cells};
use classes::{Class, Classes};
use side::Side;

pub use told::{Change, Difference, Effect, Family, Outcome, Traffic};

/// Packets that are judged at most, if nobody says otherwise.
pub const LIMIT: u64 = 5_000_000;

/// Two models cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    /// It would take too long.
    #[error(
        "more than {limit} packets would have to be judged, {pairs} pairs of alike ports so far; \
         raise --limit, or compare one VPC at a time with --vpc"
    )]
    TooMuch {
        /// How many may be.
        limit: u64,
        /// How far it came.
        pairs: u64,
    },
    /// A model cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Every number has been given.
    #[error(transparent)]
    Ids(#[from] OutOfIds),
    /// A model's policy cannot be compiled.
    #[error("the policy cannot be compiled: {0}")]
    Rules(#[from] penstock_rules::CompileError),
}

/// Two models side by side.
#[derive(Debug)]
pub struct Comparison {
    sides: [Side; 2],
    ports: Ids,
}

/// A packet of a connection, as the port sees it that judged it.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The port.
    pub port: &'a PortName,
    /// Of the connection's opener, as seen by the port.
    pub direction: Direction,
    /// The other end.
    pub peer: penstock_flow::Addr,
    /// IANA protocol number.
    pub protocol: u8,
    /// As the opener sent it.
    pub source_port: u16,
    /// As the opener sent it.
    pub destination_port: u16,
}

impl Comparison {
    /// Compiles both.
    ///
    /// # Errors
    /// If one does not compile, which a valid model does.
    pub fn new(before: &Model, after: &Model) -> Result<Self, DiffError> {
        // The same name has one number on both sides, so lists compare as they are.
        let mut ids = Ids::default();
        ids.assign(before)?;
        let first = ids.clone();
        ids.assign(after)?;
        let mut ports = ids.clone();
        for (name, id) in &first.ports {
            ports.ports.entry(name.clone()).or_insert(*id);
        }
        Ok(Self {
            sides: [Side::new(before, &first)?, Side::new(after, &ids)?],
            ports,
        })
    }

    /// What changes, in one VPC or in all.
    ///
    /// # Errors
    /// If more than `limit` packets had to be judged.
    pub fn difference(&self, vpc: Option<&VpcName>, limit: u64) -> Result<Difference, DiffError> {
        let [before, after] = &self.sides;
        let all: BTreeSet<&VpcName> = before.vpcs.keys().chain(after.vpcs.keys()).collect();
        let mut difference = Difference::default();
        for name in all
            .into_iter()
            .filter(|it| vpc.is_none_or(|vpc| vpc == *it))
        {
            self.vpc(name, limit, &mut difference)?;
        }
        Ok(difference)
    }

    /// Whether the later model cuts a connection that the earlier one lets live.
    #[must_use]
    pub fn cuts(&self, live: &Live<'_>) -> bool {
        let Some(port) = self.ports.ports.get(live.port) else {
            return false;
        };
        let query = Query {
            direction: live.direction,
            port: *port,
            peer: live.peer,
            proto: live.protocol,
            sport: live.source_port,
            dport: live.destination_port,
        };
        let [before, after] = &self.sides;
        let was = before.ruleset.judge(&query);
        let is = after.ruleset.judge(&query);
        let old = Some(&before.ruleset);
        was.allow() && after.ruleset.fate(old, was.decision, &is, &query) == Fate::Cut
    }

    fn vpc(&self, vpc: &VpcName, limit: u64, into: &mut Difference) -> Result<(), DiffError> {
        let classes = Classes::of(&self.sides, &self.ports, vpc);
        let mut found: BTreeMap<Vec<Traffic>, Vec<(usize, usize)>> = BTreeMap::new();
        for (f, from) in classes.all.iter().enumerate() {
            for (t, to) in classes.all.iter().enumerate() {
                let is_changed = from.egress_changed || to.ingress_changed;
                if !is_changed || from.is_v4 != to.is_v4 || !from.can_send_to(to, f == t) {
                    continue;
                }
                into.pairs += 1;
                let cells = Cells::of(from, to);
                into.packets += cells.count();
                if into.packets > limit {
                    let pairs = into.pairs;
                    return Err(DiffError::TooMuch { limit, pairs });
                }
                let changed: Vec<(Cell, Outcome, Outcome)> = cells
                    .iter()
                    .filter_map(|cell| {
                        let [before, after] = [0, 1].map(|side| self.judge(side, from, to, &cell));
                        (before != after).then_some((cell, before, after))
                    })
                    .collect();
                if !changed.is_empty() {
                    found
                        .entry(cells::collapse(changed))
                        .or_default()
                        .push((f, t));
                }
            }
        }
        told::tell(vpc, &classes, found, into);
        Ok(())
    }

    /// One packet from one class to another.
    fn judge(&self, side: usize, from: &Class, to: &Class, cell: &Cell) -> Outcome {
        let Some((side, from, to)) = self.sides.get(side).and_then(|this| {
            Some((
                this,
                from.sides.get(side)?.as_ref()?,
                to.sides.get(side)?.as_ref()?,
            ))
        }) else {
            return Outcome::Deny;
        };
        let judge = |direction, port: Option<u32>, peer| {
            let query = Query {
                direction,
                port: port?,
                peer,
                proto: cell.number,
                sport: cell.source_ports.0,
                dport: cell.ports.0,
            };
            Some(side.ruleset.judge(&query))
        };
        let egress = judge(Direction::Egress, from.port, to.addr);
        let ingress = judge(Direction::Ingress, to.port, from.addr);
        Outcome::of([egress, ingress])
    }
}

/// Every port on one node: what a port is judged by does not depend on where it is.
fn on_one_node(model: &Model) -> Option<(Model, NodeName)> {
    let node = model.nodes.keys().next()?.clone();
    let mut model = model.clone();
    for port in model.ports.values_mut() {
        port.node = node.clone();
    }
    Some((model, node))
}
