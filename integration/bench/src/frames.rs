//! The flows: UDP between many clients and one server of the same VPC.
//!
//! Each client is a port of its own: a VLAN of one interface. Every frame says in
//! its payload which flow it belongs to and why it was sent, so whoever sees it
//! leave knows without asking.

use std::net::Ipv4Addr;

use penstock_flow::Mac;

/// Clients with flows.
pub const CLIENTS: u32 = 1000;
/// Flows of each.
pub const FLOWS_EACH: u32 = 100;
/// All of them.
pub const FLOWS: u32 = CLIENTS * FLOWS_EACH;
/// A client that may open whatever it likes, whichever policy is in force.
pub const PERMITTED: u32 = CLIENTS;
/// A client that may open nothing.
pub const FORBIDDEN: u32 = CLIENTS + 1;
/// All ports but the server's.
pub const ENDS: u32 = CLIENTS + 2;
/// The server's UDP port.
pub const SERVICE: u16 = 7000;

/// Bytes of a frame without a tag, checksum excluded.
const LEN: usize = 60;
const PAYLOAD: usize = 14 + 20 + 8;
const TAG: usize = 4;

/// Why a frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A flow that no change concerns.
    Background = 0,
    /// A flow whose permission comes and goes.
    Target = 1,
    /// A new flow that is always allowed.
    Permitted = 2,
    /// A new flow that is never allowed.
    Forbidden = 3,
}

impl Class {
    /// All of them, by number.
    pub const ALL: [Self; 4] = [
        Self::Background,
        Self::Target,
        Self::Permitted,
        Self::Forbidden,
    ];
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a client.
    Request = 0,
    /// From the server.
    Reply = 1,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Why.
    pub class: Class,
    /// Which way.
    pub way: Way,
    /// Of which client.
    pub client: u32,
    /// Which of the client's flows: its UDP port above the first.
    pub flow: u16,
}

/// A client's address.
#[must_use]
pub fn client_ip(client: u32) -> Ipv4Addr {
    // The first addresses of a subnet are not for ports.
    Ipv4Addr::from_bits(0x0a01_0010 + client)
}

/// A client's MAC.
#[must_use]
pub fn client_mac(client: u32) -> Mac {
    let [_, _, high, low] = client.to_be_bytes();
    Mac([2, 0, 0, 1, high, low])
}

/// A client's VLAN.
#[must_use]
pub fn client_vlan(client: u32) -> u32 {
    client + 1
}

/// The server's address.
pub const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 1, 255, 1);
/// The server's MAC.
pub const SERVER_MAC: Mac = Mac([2, 0, 0, 2, 0, 1]);
/// The clients' first UDP port.
const FIRST_PORT: u16 = 1024;

/// A buffer for one frame.
#[derive(Debug)]
pub struct Writer([u8; LEN + TAG]);

impl Default for Writer {
    fn default() -> Self {
        Self([0; LEN + TAG])
    }
}

impl Writer {
    /// The frame of this label.
    pub fn write(&mut self, label: Label) -> &[u8] {
        let Label {
            class,
            way,
            client,
            flow,
        } = label;
        let mac = client_mac(client);
        let (dst, src) = match way {
            Way::Request => (SERVER_MAC, mac),
            Way::Reply => (mac, SERVER_MAC),
        };
        let tag = match way {
            Way::Request => TAG,
            Way::Reply => 0,
        };
        let frame = &mut self.0[..LEN + tag];
        frame[..6].copy_from_slice(&dst.0);
        frame[6..12].copy_from_slice(&src.0);
        if tag > 0 {
            let vlan = client_vlan(client) as u16;
            frame[12..14].copy_from_slice(&[0x81, 0]);
            frame[14..16].copy_from_slice(&vlan.to_be_bytes());
        }
        frame[12 + tag..14 + tag].copy_from_slice(&[8, 0]);
        let inner = &mut frame[14 + tag..];
        let len = inner.len() as u16;
        let (ip, port) = (client_ip(client), FIRST_PORT.wrapping_add(flow));
        let (src, dst, sport, dport) = match way {
            Way::Request => (ip, SERVER_IP, port, SERVICE),
            Way::Reply => (SERVER_IP, ip, SERVICE, port),
        };
        inner[..2].copy_from_slice(&[0x45, 0]);
        inner[2..4].copy_from_slice(&len.to_be_bytes());
        // No fragment; TTL 64; UDP; the checksum below.
        inner[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
        inner[12..16].copy_from_slice(&src.octets());
        inner[16..20].copy_from_slice(&dst.octets());
        let sum: u32 = inner[..20]
            .chunks_exact(2)
            .map(|b| u32::from(u16::from_be_bytes([b[0], b[1]])))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        inner[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        inner[20..22].copy_from_slice(&sport.to_be_bytes());
        inner[22..24].copy_from_slice(&dport.to_be_bytes());
        inner[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        // UDP over IPv4 may go without a checksum.
        inner[26..28].copy_from_slice(&[0, 0]);
        inner[28] = class as u8;
        inner[29] = way as u8;
        inner[30..34].copy_from_slice(&client.to_be_bytes());
        inner[34..36].copy_from_slice(&flow.to_be_bytes());
        &frame[..]
    }
}

/// What a frame is that the worker sends; `None` for frames of its own.
#[must_use]
pub fn read(frame: &[u8]) -> Option<Label> {
    let tag = if frame.get(12..14)? == [0x81, 0] {
        TAG
    } else {
        0
    };
    if frame.get(12 + tag..14 + tag)? != [8, 0] || *frame.get(14 + tag + 9)? != 17 {
        return None;
    }
    let payload = frame.get(PAYLOAD + tag..)?;
    let class = *Class::ALL.get(usize::from(*payload.first()?))?;
    let way = match payload.get(1)? {
        0 => Way::Request,
        _ => Way::Reply,
    };
    Some(Label {
        class,
        way,
        client: u32::from_be_bytes(payload.get(2..6)?.try_into().ok()?),
        flow: u16::from_be_bytes(payload.get(6..8)?.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_says_what_it_is() {
        let mut writer = Writer::default();
        for class in Class::ALL {
            for way in [Way::Request, Way::Reply] {
                let label = Label {
                    class,
                    way,
                    client: 999,
                    flow: 40_000,
                };
                assert_eq!(read(writer.write(label)), Some(label));
            }
        }
        assert_eq!(read(&[0; 60]), None);
    }
}
