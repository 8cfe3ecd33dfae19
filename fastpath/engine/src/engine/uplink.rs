//! What the underlay says to the VTEP itself: ARP, ND and ping.

use penstock_flow::build::{self, NaFlags};
use penstock_flow::packet::{Arp, ArpOp, IcmpError, Kind, L4, NdKind, Packet, VXLAN_PORT};
use penstock_flow::tuple::proto;
use penstock_flow::{Addr, DropReason, Mac, Prefix};

use super::Nic;
use super::gateway::echo_reply;
use crate::frame::{Frame, Outcome};
use crate::neighbours::Question;
use crate::nic::TableError;
use crate::nic::rows::PathMtu;
use crate::outbox::Outbox;

const ADVERTISEMENT_LEN: usize = 86;
/// RFC 8200, section 5.
const LEAST_MTU: usize = 1280;
/// RFC 8201, section 4: ten minutes, then the way may have become better.
const PATH_MTU_BELIEVED: u64 = 600 * 1_000_000_000;
const PATH_ERRORS_PER_SECOND: u32 = 10;
/// RFC 5227, section 1.1: two, so far apart; one more, since neighbours may be
/// as new as we are.
pub(super) const ANNOUNCEMENTS: u8 = 3;
const ANNOUNCE_PAUSE: u64 = 2 * 1_000_000_000;

impl Nic {
    /// ARP or ND from the uplink: neighbours are learnt, the VTEP is answered
    /// for.
    pub(super) fn underlay_neighbour(
        &mut self,
        now: u64,
        frame: &mut Frame<'_>,
        packet: &Packet,
    ) -> Result<Outcome, DropReason> {
        if let Some((addr, mac)) = announced(packet) {
            self.neighbours.learn(now, addr, mac);
        }
        let (target, question) = match &packet.kind {
            Kind::Arp(Arp {
                op,
                sender_ip,
                target_ip,
                ..
            }) => {
                // An announcement asks nothing.
                let asks = *op == ArpOp::Request && sender_ip != target_ip;
                (*target_ip, asks)
            }
            Kind::Ip(ip) => match ip.l4_kind {
                L4::Neighbour(nd) => match nd.kind {
                    NdKind::NeighbourSolicitation => (nd.target, true),
                    NdKind::NeighbourAdvertisement => (nd.target, false),
                    // The way to other VTEPs is configured.
                    _ => return Err(DropReason::UnhandledControl),
                },
                _ => return Err(DropReason::NotForUs),
            },
        };
        if !question {
            return Ok(Outcome::Consumed);
        }
        if target != self.config.vtep {
            return Err(DropReason::NotForUs);
        }
        let mac = self.config.uplink_mac;
        let len = match packet.kind {
            Kind::Arp(_) => build::arp_reply(frame.data_mut(), packet, mac),
            Kind::Ip(_) => {
                let len = frame.len().max(ADVERTISEMENT_LEN);
                frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
                let flags = NaFlags {
                    router: false,
                    override_cached: true,
                };
                build::neighbour_advertisement(frame.data_mut(), packet, mac, flags)
            }
        }
        .map_err(|_| DropReason::UnhandledControl)?;
        frame.set_len(len).map_err(|_| DropReason::NoHeadroom)?;
        Ok(Outcome::Send {
            device_port: self.config.uplink_port,
        })
    }

    /// Neither tunnel nor neighbour discovery: ping for the VTEP, and what
    /// routers say about its tunnels.
    pub(super) fn underlay_other(
        &mut self,
        now: u64,
        frame: &mut Frame<'_>,
        packet: &Packet,
    ) -> Result<Outcome, DropReason> {
        let ip = packet.ip().ok_or(DropReason::NotForUs)?;
        if ip.tuple.dst != self.config.vtep {
            return Err(DropReason::NotForUs);
        }
        match &ip.l4_kind {
            L4::Echo => {
                echo_reply(frame.data_mut(), packet, ip, self.config.uplink_mac)?;
                Ok(Outcome::Send {
                    device_port: self.config.uplink_port,
                })
            }
            L4::IcmpError(error) => self.path_error(now, error),
            _ => Err(DropReason::NotForUs),
        }
    }

    /// An ICMP error about one of our tunnels: "too big" lowers what that way
    /// is given, for a while and never below what IPv6 promises.
    fn path_error(&mut self, now: u64, error: &IcmpError) -> Result<Outcome, DropReason> {
        let inner = &error.inner;
        let ours =
            inner.src == self.config.vtep && inner.proto == proto::UDP && inner.dport == VXLAN_PORT;
        if !ours {
            return Err(DropReason::UnrelatedError);
        }
        if error.mtu != 0 {
            // It costs a walk over the next hops, and anybody can send one.
            if !self.path_errors.take(now, PATH_ERRORS_PER_SECOND) {
                return Err(DropReason::RateLimited);
            }
            // An overhead counts the outer Ethernet header, which is not in the
            // way's MTU, and not the inner one, which is: they are of one size.
            let overhead = if inner.dst.is_v4() {
                build::VXLAN_V4_OVERHEAD
            } else {
                build::VXLAN_V6_OVERHEAD
            };
            let mtu = usize::try_from(error.mtu)
                .unwrap_or(usize::MAX)
                .saturating_sub(overhead)
                .clamp(LEAST_MTU, usize::from(u16::MAX));
            let path = PathMtu {
                mtu: mtu as u16,
                until: now.saturating_add(PATH_MTU_BELIEVED),
            };
            self.tables.lower_mtu(inner.dst, path);
        }
        Ok(Outcome::Consumed)
    }

    /// What another lcore has received for all: learns, answers nothing.
    pub(super) fn observe(&mut self, now: u64, packet: &Packet) {
        if let Some((addr, mac)) = announced(packet) {
            self.neighbours.learn(now, addr, mac);
        }
        if let Some(error) = self.about_a_tunnel(packet) {
            // Whoever processed it has counted what is wrong with it.
            let _ = self.path_error(now, &error);
        }
    }

    /// An ICMP error that has come for the VTEP.
    pub(super) fn about_a_tunnel(&self, packet: &Packet) -> Option<IcmpError> {
        let ip = packet.ip()?;
        match ip.l4_kind {
            L4::IcmpError(error) if ip.tuple.dst == self.config.vtep => Some(error),
            _ => None,
        }
    }

    /// Who is asked for the way to this VTEP.
    pub(super) fn first_hop(&self, vtep: Addr) -> Result<Addr, TableError> {
        let local: &Prefix = &self.config.underlay;
        if local.contains(vtep) {
            return Ok(vtep);
        }
        self.config
            .gateway
            .filter(|g| g.is_v4() == vtep.is_v4())
            .ok_or(TableError::Invalid {
                table: crate::nic::Table::Nexthop,
                field: "dst_vtep",
                value: 0,
                remedy: "use one on the underlay's own prefix, or give the NIC a gateway",
            })
    }

    /// Says where the VTEP is, a few times after attaching: it may have been
    /// elsewhere before.
    pub(super) fn announce(&mut self, now: u64, out: &mut Outbox) {
        if self.announcements == 0 || now < self.announce_at {
            return;
        }
        let (mac, vtep) = (self.config.uplink_mac, self.config.vtep);
        let sent = out.push(self.config.uplink_port, |buffer| {
            if vtep.is_v4() {
                build::arp_request(buffer, mac, vtep, vtep, None).ok()
            } else {
                let flags = NaFlags {
                    router: false,
                    override_cached: true,
                };
                build::unsolicited_advertisement(buffer, mac, vtep, flags).ok()
            }
        });
        if sent {
            self.announcements -= 1;
            self.announce_at = now.saturating_add(ANNOUNCE_PAUSE);
        }
    }

    /// Sends what questions are due.
    pub(super) fn ask_neighbours(&mut self, now: u64, budget: u32, out: &mut Outbox) {
        let (port, mac, vtep) = (
            self.config.uplink_port,
            self.config.uplink_mac,
            self.config.vtep,
        );
        self.neighbours
            .tick(now, budget, |Question { addr, known }| {
                out.push(port, |buffer| {
                    if addr.is_v4() {
                        build::arp_request(buffer, mac, vtep, addr, known).ok()
                    } else {
                        build::neighbour_solicitation(buffer, mac, vtep, addr, known).ok()
                    }
                })
            });
    }
}

/// Where a neighbour says it is.
fn announced(packet: &Packet) -> Option<(Addr, Mac)> {
    match &packet.kind {
        Kind::Arp(arp) => Some((arp.sender_ip, arp.sender_mac)),
        Kind::Ip(ip) => match ip.l4_kind {
            L4::Neighbour(nd) => match nd.kind {
                NdKind::NeighbourSolicitation => nd.source_mac.map(|mac| (ip.tuple.src, mac)),
                NdKind::NeighbourAdvertisement => nd.target_mac.map(|mac| (nd.target, mac)),
                _ => None,
            },
            _ => None,
        },
    }
}
