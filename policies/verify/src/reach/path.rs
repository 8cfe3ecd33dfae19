//! Where packets end, and how they get there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use penstock_flow::{Addr, Mac};
use penstock_policies::model::{NodeName, PortName, VpcName};

use crate::Unproved;

/// Where packets end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// At a port of this VPC.
    Vpc(VpcName),
    /// At a device port where no port is.
    Nobody(NodeName, u32),
    /// At an underlay address that is no NIC's.
    Outside(Addr),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vpc(name) => name.fmt(f),
            Self::Nobody(node, device_port) => {
                write!(f, "device port {device_port} of {node}, where no port is")
            }
            Self::Outside(vtep) => write!(f, "{vtep}, which is no NIC's VTEP"),
        }
    }
}

/// A packet and its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Who sends it.
    pub from: PortName,
    /// Source MAC.
    pub mac: Mac,
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Row by row.
    pub steps: Vec<String>,
    /// Where it ends.
    pub to: Destination,
    /// The port that gets it.
    pub port: Option<PortName>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            mac,
            src,
            dst,
            steps,
            to,
            port,
        } = self;
        writeln!(f, "{from} sends {src} -> {dst} from MAC {mac}")?;
        for step in steps {
            writeln!(f, "  {step}")?;
        }
        match port {
            Some(port) => write!(f, "and {port} gets it"),
            None => write!(f, "and it goes to {to}"),
        }
    }
}

/// Everything that is reached.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// A packet for each VPC and where its packets end.
    pub pairs: BTreeMap<(VpcName, Destination), Path>,
    /// Intervals followed.
    pub cells: u64,
    /// Why it is not everything.
    pub unproved: Option<Unproved>,
    pub(super) peered: BTreeSet<(VpcName, VpcName)>,
}

impl Reach {
    /// Packets that end where they should not.
    pub fn leaks(&self) -> impl Iterator<Item = &Path> {
        self.pairs
            .iter()
            .filter(|((from, to), _)| match to {
                Destination::Vpc(to) => {
                    from != to && !self.peered.contains(&(from.clone(), to.clone()))
                }
                Destination::Nobody(..) | Destination::Outside(_) => true,
            })
            .map(|(_, path)| path)
    }

    /// A packet from one VPC to the other.
    #[must_use]
    pub fn between(&self, from: &VpcName, to: &VpcName) -> Option<&Path> {
        let key = (from.clone(), Destination::Vpc(to.clone()));
        self.pairs.get(&key)
    }
}
