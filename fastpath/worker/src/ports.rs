//! Device ports: which host interface or DPDK device each number stands for.
//!
//! Uplinks have the numbers 1 to 16, in the order of their NICs' device ids; interfaces
//! that policy attaches have those from 17 on. An interface keeps its number as long
//! as policy names it, over restarts too, because the controller's tables name it.
//!
//! An interface that is missing, or goes away, is an error in its port's status; it is
//! attached as soon as it is there (again).

mod attachments;
pub mod dpdk;
mod links;
pub mod memory;
mod numbers;
mod shield;

use std::collections::BTreeMap;
use std::fmt;

use penstock_flow::Mac;

pub use attachments::{Attached, Attachments, State};
pub use links::{Link, Links};
pub use numbers::{FIRST_ATTACHMENT, Numbers};

use crate::config::Uplink;
use crate::lcore::Queues;

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The underlay. The host may have its own use of the interface.
    Uplink {
        /// Bytes of an IP packet; `None`: what the device has.
        mtu: Option<u16>,
    },
    /// A workload. With `shield`, nothing that it sends reaches the host's own stack.
    Workload {
        /// Whether to see to it.
        shield: bool,
    },
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A kernel interface, through a packet socket.
    Interface(String),
    /// A DPDK device.
    Devargs(String),
}

impl From<&Uplink> for Source {
    fn from(uplink: &Uplink) -> Self {
        match uplink {
            Uplink::Devargs(devargs) => Self::Devargs(devargs.clone()),
            Uplink::Interface(name) => Self::Interface(name.clone()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "interface {name}"),
            Self::Devargs(devargs) => write!(f, "device {devargs}"),
        }
    }
}

/// A device port, ready to be polled.
#[derive(Debug)]
pub struct Opened {
    /// Its own address.
    pub mac: Mac,
    /// Bytes of an IP packet that it carries.
    pub mtu: u16,
    /// To be polled by one lcore, and to come back before the port is closed.
    pub queues: Box<dyn Queues>,
}

/// Why a port is not there.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The host has no such interface.
    #[error(
        "there is no interface {0} in the worker's network namespace; create it or move it there"
    )]
    NoInterface(String),
    /// The operator's list does not hold it.
    #[error(
        "interface {0} matches no pattern of attachments.allow; add one, or attach another interface"
    )]
    NotAllowed(String),
    /// It is an uplink.
    #[error("interface {0} is an uplink of this node; attach another interface")]
    IsUplink(String),
    /// Its name is none.
    #[error("{0:?} is no interface's name: 1 to 15 characters, without spaces, '/', ':' and ','")]
    BadName(String),
    /// The kernel's answer about the interface.
    #[error("interface {interface}: {operation} failed: {reason}")]
    Kernel {
        /// Which.
        interface: String,
        /// What was tried.
        operation: &'static str,
        /// What the kernel says.
        reason: String,
    },
    /// The host cannot be kept out of it.
    #[error(
        "interface {interface}: its frames cannot be kept from the host's own stack: {reason}; \
         load the kernel module cls_bpf, or set attachments.shield = false and filter yourself"
    )]
    Shield {
        /// Which.
        interface: String,
        /// What the kernel says.
        reason: String,
    },
    /// The underlay's packets do not fit it.
    #[error(
        "interface {interface} has MTU {has}, and the NIC's mtu is {wanted}; raise the one or lower the other"
    )]
    SmallUplink {
        /// Which.
        interface: String,
        /// What it has.
        has: u32,
        /// What the configuration says.
        wanted: u16,
    },
    /// Its frames do not fit.
    #[error(
        "interface {interface} has MTU {mtu}; buffers carry at most {most}: lower it, or set \
         nic.mtu for larger buffers"
    )]
    Mtu {
        /// Which.
        interface: String,
        /// What it has.
        mtu: u32,
        /// What fits.
        most: u16,
    },
    /// All numbers are in use.
    #[error("all {0} device ports are in use; detach some")]
    NoNumber(u32),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] ::dpdk::Error),
    /// The polling thread.
    #[error(transparent)]
    Mailbox(#[from] crate::mailbox::MailboxError),
    /// The polling thread's table of ports.
    #[error(transparent)]
    Add(#[from] crate::lcore::AddError),
    /// A control thread failed.
    #[error("the control thread failed: {0}")]
    Control(String),
}

/// Makes device ports.
#[tonic::async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// The interface, if the host has it.
    async fn link(&self, interface: &str) -> Result<Option<Link>, PortError>;

    /// Opens a port under a number that is not open.
    async fn open(
        &self,
        device_port: u32,
        source: &Source,
        purpose: Purpose,
    ) -> Result<Opened, PortError>;

    /// What the driver counts at the ports that are open, by number.
    async fn stats(&self) -> BTreeMap<u32, ::dpdk::Stats>;

    /// Closes a port whose queues are gone. Its shield stays: a worker that stops, or
    /// crashes, opens nothing.
    async fn close(&self, device_port: u32) -> Result<(), PortError>;

    /// Gives a workload's interface back to the host: takes its shield away.
    async fn release(&self, interface: &str) -> Result<(), PortError>;
}
