//! The kernel's interfaces, through netlink.

use penstock_flow::Mac;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::{Handle, LinkUnspec};
use tokio_stream::StreamExt as _;

use super::{PortError, shield};

/// ENODEV: no such interface.
const NO_DEVICE: i32 = -19;

/// An interface of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Changes when an interface is made anew under its old name.
    pub index: u32,
    /// Administratively up.
    pub up: bool,
    /// Something is at the other end.
    pub carrier: bool,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Its address; all zero where it has none.
    pub mac: Mac,
}

/// The interfaces of the network namespace that the worker was started in.
#[derive(Clone)]
pub struct Links {
    handle: Handle,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").finish_non_exhaustive()
    }
}

impl Links {
    /// Opens a netlink socket; its traffic is a task of the calling runtime.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> std::io::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// The interface of that name, if there is one.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub async fn find(&self, interface: &str) -> Result<Option<Link>, PortError> {
        let request = self.handle.link().get().match_name(interface.to_owned());
        let mut answers = std::pin::pin!(request.execute());
        match answers.next().await {
            None => Ok(None),
            Some(Ok(message)) => Ok(Some(read(&message))),
            Some(Err(rtnetlink::Error::NetlinkError(error)))
                if error.code.is_some_and(|code| code.get() == NO_DEVICE) =>
            {
                Ok(None)
            }
            Some(Err(error)) => Err(failed(interface, "looking it up", &error)),
        }
    }

    /// Sets the interface up, administratively.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn set_up(&self, interface: &str, link: Link) -> Result<(), PortError> {
        let message = LinkUnspec::new_with_index(link.index).up().build();
        let request = self.handle.link().set(message);
        request
            .execute()
            .await
            .map_err(|error| failed(interface, "setting it up", &error))
    }

    /// Keeps what comes in from the host's own stack; see [`shield`].
    ///
    /// # Errors
    /// The kernel cannot.
    pub async fn raise_shield(&self, interface: &str, link: Link) -> Result<(), PortError> {
        shield::raise(&self.handle, interface, link).await
    }

    /// Undoes [`raise_shield`](Self::raise_shield).
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn lower_shield(&self, interface: &str, link: Link) -> Result<(), PortError> {
        shield::lower(&self.handle, interface, link).await
    }
}

fn failed(interface: &str, operation: &'static str, error: &rtnetlink::Error) -> PortError {
    PortError::Kernel {
        interface: interface.to_owned(),
        operation,
        reason: error.to_string(),
    }
}

fn read(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::LowerUp),
        mtu: 0,
        mac: Mac::default(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Address(bytes) => {
                if let Ok(mac) = bytes.as_slice().try_into() {
                    link.mac = Mac(mac);
                }
            }
            _ => {}
        }
    }
    link
}
