//! What a proof finds.

use std::fmt;

use penstock_flow::{Addr, Mac};
use penstock_policies::model::{NodeName, PortName, VpcName};

use crate::row::Table;

/// The outcome of a proof.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// NICs looked at.
    pub nics: usize,
    /// Rows looked at.
    pub rows: usize,
    /// Intervals and cells looked at.
    pub cells: u64,
    /// Rows that do what they should not.
    pub violations: Vec<Violation>,
    /// Rows that are missing.
    pub gaps: Vec<Gap>,
    /// Why the proof is not complete.
    pub unproved: Option<Unproved>,
}

impl Report {
    /// Whether every row is shown to be right. Missing ones do not count.
    #[must_use]
    pub const fn is_proved(&self) -> bool {
        self.violations.is_empty() && self.unproved.is_none()
    }

    /// The first reason why it is not.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        let violation = self.violations.first().map(ToString::to_string);
        violation.or_else(|| self.unproved.as_ref().map(ToString::to_string))
    }
}

/// Why a proof is not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// It would cost too much.
    #[error("not proved: more than {0} cells")]
    Cells(u64),
    /// Packets go from tunnel to tunnel.
    #[error("not proved: a packet goes through more than {0} tunnels")]
    Tunnels(usize),
    /// An `acl` row has an address mask that is no prefix.
    #[error("not proved: the address mask {mask:x} of acl row {row} is no prefix")]
    Mask {
        /// The row.
        row: String,
        /// The mask.
        mask: u128,
    },
    /// The node or NIC is not in the model.
    #[error("not proved: NIC {device_id} of {node} is not declared")]
    NoNic {
        /// The node.
        node: NodeName,
        /// Its NIC.
        device_id: u32,
    },
}

/// A row that does what it should not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The node.
    pub node: NodeName,
    /// Which of its NICs.
    pub device_id: u32,
    /// The table.
    pub table: Table,
    /// The row, in words.
    pub row: String,
    /// What is wrong.
    pub wrong: Wrong,
    /// A packet that shows it, where there is one.
    pub packet: Option<Packet>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            device_id,
            table,
            row,
            wrong,
            packet,
        } = self;
        write!(
            f,
            "NIC {device_id} of {node}, table {table}, row [{row}]: {wrong}"
        )?;
        match packet {
            Some(packet) => write!(f, "; packet: {packet}"),
            None => Ok(()),
        }
    }
}

/// A row that is missing: something is not forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The node.
    pub node: NodeName,
    /// Which of its NICs.
    pub device_id: u32,
    /// The table.
    pub table: Table,
    /// What is not forwarded.
    pub what: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            device_id,
            table,
            what,
        } = self;
        write!(
            f,
            "NIC {device_id} of {node}, table {table}: not forwarded: {what}"
        )
    }
}

/// A concrete packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source.
    pub src: Addr,
    /// Destination.
    pub dst: Addr,
    /// IANA number; none: any.
    pub proto: Option<u8>,
    /// Source port.
    pub sport: u16,
    /// Destination port, or ICMP type and code.
    pub dport: u16,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            src,
            dst,
            proto,
            sport,
            dport,
        } = self;
        match proto {
            None => write!(f, "{src} -> {dst}"),
            Some(proto @ (1 | 58)) => write!(
                f,
                "{src} -> {dst} protocol {proto} type {} code {}",
                dport >> 8,
                dport & 0xff
            ),
            Some(proto) => write!(f, "{src}:{sport} -> {dst}:{dport} protocol {proto}"),
        }
    }
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Two rows have one key.
    #[error("another row has the same key")]
    Twice,
    /// A device port and VLAN at which no port of this NIC is.
    #[error("no port of this NIC is there")]
    Nobody,
    /// Bound as something else.
    #[error("{0} is there")]
    OtherPort(PortName),
    /// An uplink that is none.
    #[error("the uplink of this NIC is not there")]
    NoUplink,
    /// A front end, of which the model has none.
    #[error("no front-end network is declared")]
    FrontEnd,
    /// The wrong VPC.
    #[error("the VNI is {expected}, not {found}")]
    Vni {
        /// What it should be.
        expected: u32,
        /// What it is.
        found: u32,
    },
    /// A VNI that no VPC has.
    #[error("no VPC has VNI {0}")]
    NoVpc(u32),
    /// A VPC that is not on this NIC.
    #[error("{0} has no port on this NIC")]
    VpcElsewhere(VpcName),
    /// A number that no port has.
    #[error("no port has id {0}: what is left of one that is gone")]
    NoPort(u32),
    /// A port on another NIC.
    #[error("{0} is not on this NIC")]
    PortElsewhere(PortName),
    /// A port of a VPC that is neither on this NIC nor peered with one that is.
    #[error("{0} concerns no VPC of this NIC")]
    Unconcerned(PortName),
    /// The wrong MAC.
    #[error("the MAC is {expected}, not {found}")]
    Mac {
        /// What it should be.
        expected: Mac,
        /// What it is.
        found: Mac,
    },
    /// An address that the port does not have.
    #[error("{port} does not have {ip}")]
    Address {
        /// The port.
        port: PortName,
        /// The address.
        ip: Addr,
    },
    /// A tunnel that ends elsewhere.
    #[error("this NIC's VTEP is {expected}, not {found}")]
    OwnVtep {
        /// What it should be.
        expected: Addr,
        /// What it is.
        found: Addr,
    },
    /// A tunnel from no NIC that may send it.
    #[error("no NIC at {0} has ports that may send here with this VNI")]
    Stranger(Addr),
    /// The port is behind another VTEP.
    #[error("{port} is behind VTEP {expected}, not {found}")]
    Vtep {
        /// The port.
        port: PortName,
        /// What it should be.
        expected: Addr,
        /// What it is.
        found: Addr,
    },
    /// An address that is somebody else's, or nobody's.
    #[error("{ip} is sent to {to}; it belongs to {}", belongs(.owner))]
    Astray {
        /// The address.
        ip: Addr,
        /// Where it is sent.
        to: PortName,
        /// Whose it is.
        owner: Option<PortName>,
    },
    /// The wrong interface.
    #[error("{port} is at device port {expected}, not {found}")]
    DevicePort {
        /// The port.
        port: PortName,
        /// What it should be.
        expected: u32,
        /// What it is.
        found: u32,
    },
    /// The wrong tag.
    #[error("the VLAN is {expected}, not {found}")]
    Vlan {
        /// What it should be.
        expected: u16,
        /// What it is.
        found: u16,
    },
    /// Not by the uplink.
    #[error("the uplink is device port {expected:?}, not {found}")]
    Uplink {
        /// What it should be.
        expected: Option<u32>,
        /// What it is.
        found: u32,
    },
    /// The wrong MTU.
    #[error("the MTU is {expected}, not {found}")]
    Mtu {
        /// What it should be.
        expected: u16,
        /// What it is.
        found: u16,
    },
    /// Into a tunnel, though the port is here, or the other way round.
    #[error("{port} is on {} NIC", if *.here { "this" } else { "another" })]
    Way {
        /// The port.
        port: PortName,
        /// Whether it is on this NIC.
        here: bool,
    },
    /// Rows of equal priority say different things.
    #[error("a row of equal priority says something else")]
    Ambiguous,
    /// A drop of what policy allows.
    #[error("drops what may open a connection at {0}")]
    DropsAllowed(PortName),
    /// A drop of what policy rejects.
    #[error("drops what {0} rejects: the sender is to be told")]
    DropsRejected(PortName),
    /// A drop of what is to be logged.
    #[error("drops what is to be logged at {0}")]
    DropsLogged(PortName),
    /// A drop of what may belong to a connection opened by the other end.
    #[error("drops what may be a reply at {0}")]
    DropsReply(PortName),
    /// A drop of what may belong to a connection that persists.
    #[error("drops what may belong to a connection that persists at {0}")]
    DropsPersisting(PortName),
    /// An allow of what policy refuses.
    #[error("allows what is refused at {0}")]
    AllowsRefused(PortName),
    /// An allow of what makes a connection.
    #[error("allows what needs a connection at {0}")]
    AllowsStateful(PortName),
    /// An allow of what is to be logged.
    #[error("allows what is to be logged at {0}")]
    AllowsLogged(PortName),
    /// An allow without its reverse.
    #[error("allows what has no stateless way back at {0}")]
    AllowsOneWay(PortName),
}

fn belongs(owner: &Option<PortName>) -> &str {
    owner.as_ref().map_or("nobody", PortName::as_str)
}
