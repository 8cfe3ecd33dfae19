//! Whose frame it is: the shard of its flow.
//!
//! A connection's packets meet in one engine whichever port they came from and
//! whichever way they run: the shard is a symmetric hash of the inner flow. The VPC is
//! left out of it, because a reply between peered VPCs comes with another one; the
//! engine's connections are found by port and flow alone, too. An ICMP error goes to the
//! shard of the flow that it quotes, and a fragment, which may not know its ports, to
//! that of its two addresses.
//!
//! Nothing is checked here that a decision depends on, nothing is counted and the frame is
//! not touched: its owner looks at it as if it had just arrived.

use penstock_flow::Tuple;
use penstock_flow::hash;
use penstock_flow::packet::{self, Ip, Kind, L4, Outer, Packet, parse_outer};

use super::Engine;
use crate::device::Role;

/// Which of a worker's engines a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Whichever has received it.
    Here,
    /// The one with this index.
    Lcore(u16),
    /// Whichever has received it processes it, and all others [observe](Engine::observe)
    /// it.
    Everyone,
}

impl Engine {
    /// Whose frame this is. To be asked only where there are several engines.
    #[must_use]
    pub fn owner(&self, device_port: u32, frame: &[u8]) -> Owner {
        let packet = match self.devices.role(device_port) {
            Role::None => return Owner::Here,
            Role::Local { .. } => packet::parse(frame),
            Role::Uplink { nic } => match parse_outer(frame) {
                Ok(Outer::Vxlan(tunnel)) => {
                    let inner = usize::from(tunnel.inner)..usize::from(tunnel.end);
                    packet::parse(frame.get(inner).unwrap_or_default())
                }
                Ok(Outer::Neighbour(_)) => return Owner::Everyone,
                Ok(Outer::Other(packet)) => return self.of_the_underlay(nic, &packet),
                Err(reason) => Err(reason),
            },
        };
        match packet {
            Ok(Packet {
                kind: Kind::Ip(ip), ..
            }) => self.of_a_flow(&ip),
            // Answered, or dropped, by whoever has it.
            Ok(_) | Err(_) => Owner::Here,
        }
    }

    /// The shard of a flow, given in either direction.
    #[must_use]
    pub fn shard_of(&self, flow: &Tuple) -> u16 {
        hash::shard(self.hash.flow(0, flow), self.config.shard.count)
    }

    /// Whether a flow, given in either direction, is of this engine's shard.
    #[must_use]
    pub fn owns(&self, flow: &Tuple) -> bool {
        self.shard_of(flow) == self.config.shard.index
    }

    fn of_a_flow(&self, ip: &Ip) -> Owner {
        let shard = match &ip.l4_kind {
            L4::Neighbour(_) | L4::Dhcp(_) => return Owner::Here,
            L4::IcmpError(error) => self.shard_of(&error.inner),
            L4::Fragment(_) => self.shard_of(&Tuple {
                proto: 0,
                sport: 0,
                dport: 0,
                ..ip.tuple
            }),
            L4::Tcp(_) | L4::Udp | L4::Echo | L4::Other => self.shard_of(&ip.tuple),
        };
        if shard == self.config.shard.index {
            return Owner::Here;
        }
        Owner::Lcore(shard)
    }

    /// What routers say about tunnels concerns all engines' next hops.
    fn of_the_underlay(&self, nic: usize, packet: &Packet) -> Owner {
        match self.nics.get(nic) {
            Some(nic) if nic.about_a_tunnel(packet).is_some() => Owner::Everyone,
            _ => Owner::Here,
        }
    }
}
