//! One lcore's datapath.

mod arrival;
mod carry;
mod commit;
mod control;
mod dhcp;
mod errors;
mod fence;
mod first;
mod forward;
mod fragments;
mod gateway;
mod offload;
mod read;
mod records;
mod rejudge;
mod room;
mod router;
mod slow;
mod stages;
mod steer;
mod uplink;
mod write;

use alloc::vec::Vec;

use penstock_flow::DropReason;
use penstock_flow::hash::FlowHash;
use penstock_flow::packet::{Outer, parse_outer};
use penstock_rules::model::PortId;

use crate::bucket::Bucket;
use crate::config::{AttachError, Config, NicConfig};
use crate::connections::Connections;
use crate::counters::Counters;
use crate::device::{Devices, Role};
use crate::fragments::Fragments;
use crate::frame::{Frame, Outcome};
use crate::homes::Homes;
use crate::neighbours::Neighbours;
use crate::nic::driver::Driver;
use crate::nic::exact::Exact;
use crate::nic::tables::Tables;
use crate::outbox::Outbox;
use crate::policies::{Policies, PolicyChange, Retired};
use crate::ring::Records;

pub use fence::Fenced;
pub use steer::Owner;

/// Neighbours that one tick looks at.
const NEIGHBOURS_PER_TICK: u32 = 256;

/// A NIC and its end of the underlay.
#[derive(Debug)]
pub(crate) struct Nic {
    config: NicConfig,
    /// What the controller writes.
    tables: Tables,
    /// What the engine writes.
    driver: Driver,
    /// Fences of each batch, without the one over everything.
    fences: [u32; 2],
    /// The batch at work is done when the driver has passed this mark.
    drained_at: u64,
    neighbours: Neighbours,
    /// ICMP errors about tunnels that are looked at.
    path_errors: Bucket,
    /// Announcements of the VTEP still to send, and when.
    announcements: u8,
    announce_at: u64,
    /// The vport slot whose port was looked at last, for advertisements.
    advertised: u32,
}

/// What the engine keeps about a tenant's port that is bound here.
#[derive(Clone, Copy, Debug, Default)]
struct PortState {
    /// Vport entries that lead to it.
    bindings: u32,
    /// Its connections.
    connections: u32,
    /// ICMP errors to it.
    errors: Bucket,
    /// Connections that it opens.
    opens: Bucket,
    /// Records of what was denied to it.
    denials: Bucket,
    /// Records of what passes and is to be told.
    logs: Bucket,
    /// Records of what lists in audit would refuse.
    audits: Bucket,
    /// Its ARP, ND and DHCP.
    questions: Bucket,
    /// When it is next told about its router.
    advertise_at: u64,
}

/// One lcore's datapath; see the crate's contract.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    hash: FlowHash,
    nics: Vec<Nic>,
    devices: Devices,
    ports: Exact<PortId, PortState>,
    policies: Policies,
    connections: Connections,
    /// Connections of ports beyond their shares; see `room`.
    beyond_shares: u32,
    sweep: rejudge::Sweep,
    fences: fence::Fences,
    /// The latest time that it was told.
    now: u64,
    /// Until then connections may be taken up in their midst.
    recovering: u64,
    counters: Counters,
    records: Records,
    scratch: gateway::Scratch,
    fragments: Fragments,
    /// What is known of the piece that is on its way.
    given: Option<fragments::Given>,
}

impl Engine {
    /// An engine without NICs and without policy. Takes all memory that it will
    /// need for connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            hash: FlowHash::new(config.seed),
            nics: Vec::new(),
            devices: Devices::new(config.max_device_ports),
            ports: Exact::new(config.max_ports, config.seed),
            policies: Policies::new(),
            connections: Connections::new(&config),
            beyond_shares: 0,
            sweep: rejudge::Sweep::default(),
            fences: fence::Fences::new(),
            now: 0,
            recovering: 0,
            counters: Counters::default(),
            records: Records::new(config.max_drop_records),
            scratch: gateway::Scratch::new(),
            fragments: Fragments::new(&config),
            given: None,
            config,
        }
    }

    /// Adds a NIC. Takes all memory that its tables will need.
    ///
    /// # Errors
    /// Where its id or its uplink is taken or out of range.
    pub fn attach_nic(&mut self, config: NicConfig) -> Result<(), AttachError> {
        config.check(self.devices.limit())?;
        if self.nic_index(config.device_id).is_some() {
            return Err(AttachError::DeviceTaken(config.device_id));
        }
        if self.devices.role(config.uplink_port) != Role::None {
            return Err(AttachError::UplinkTaken(config.uplink_port));
        }
        self.devices.set_uplink(config.uplink_port, self.nics.len());
        self.nics.push(Nic {
            tables: Tables::new(&config.capacities, self.config.seed),
            driver: Driver::new(&config.capacities, config.entry_write_ns, self.config.seed),
            fences: [0; 2],
            drained_at: 0,
            // One more: a changed next hop wants its new one before it lets go.
            neighbours: Neighbours::new(
                config.capacities.nexthop.saturating_add(1),
                self.config.seed,
                self.config.shard,
            ),
            path_errors: Bucket::default(),
            // One of a worker's engines speaks for all.
            announcements: match self.config.shard.index {
                0 => uplink::ANNOUNCEMENTS,
                _ => 0,
            },
            announce_at: 0,
            advertised: 0,
            config,
        });
        Ok(())
    }

    /// Which port is behind which interface; answers what was said before. What `vport`
    /// tables say otherwise carries nothing. Until it is told, they alone decide.
    pub fn set_homes(&mut self, homes: Homes) -> Option<Homes> {
        self.devices.set_homes(homes)
    }

    /// Bytes of an IP packet that a device port can send; until it is told, any.
    pub fn set_device_mtu(&mut self, device_port: u32, mtu: u16) {
        self.devices.set_mtu(device_port, mtu);
    }

    /// Takes one frame that arrived on `device_port` and says what becomes of
    /// it. The frame is rewritten in place, unless it has to wait.
    pub fn process(
        &mut self,
        now: u64,
        device_port: u32,
        frame: &mut Frame<'_>,
        out: &mut Outbox,
    ) -> Outcome {
        self.now = now;
        let bytes = frame.len();
        self.counters.received.add(bytes);
        if let Some(port) = self.devices.counters_mut(device_port) {
            port.received.add(bytes);
        }
        let result = self.receive(now, device_port, frame);
        self.conclude(now, device_port, frame, out, result)
    }

    fn receive(
        &mut self,
        now: u64,
        device_port: u32,
        frame: &mut Frame<'_>,
    ) -> Result<Outcome, DropReason> {
        let role = self.devices.role(device_port);
        if let Role::Local { nic, .. } | Role::Uplink { nic } = role {
            self.catch_up(nic);
        }
        match role {
            Role::Local { nic, .. } => self.port_frame(now, nic, device_port, frame),
            Role::Uplink { nic } => self.uplink_frame(now, nic, device_port, frame),
            Role::None => Err(DropReason::UnknownPort),
        }
    }

    /// Counts how a frame that came in on `device_port` has ended.
    fn conclude(
        &mut self,
        now: u64,
        device_port: u32,
        frame: &Frame<'_>,
        out: &mut Outbox,
        result: Result<Outcome, DropReason>,
    ) -> Outcome {
        if let Some(port) = self.devices.counters_mut(device_port) {
            port.dropped += u64::from(result.is_err());
        }
        if result == Err(DropReason::NeighbourUnresolved)
            && let Role::Local { nic, .. } = self.devices.role(device_port)
            && let Some(nic) = self.nics.get_mut(nic)
        {
            // Somebody waits for it: one question now, if one is due.
            nic.ask_neighbours(now, 1, out);
        }
        match result {
            Ok(Outcome::Send { device_port }) => {
                self.counters.sent.add(frame.len());
                if let Some(port) = self.devices.counters_mut(device_port) {
                    port.sent.add(frame.len());
                }
                Outcome::Send { device_port }
            }
            Ok(Outcome::Consumed) => {
                self.counters.consumed += 1;
                Outcome::Consumed
            }
            Ok(Outcome::Hold { place }) => {
                self.counters.waiting += 1;
                Outcome::Hold { place }
            }
            Ok(Outcome::HandOver { lcore, ports }) => {
                self.counters.received.take_back(frame.len());
                if let Some(port) = self.devices.counters_mut(device_port) {
                    port.received.take_back(frame.len());
                }
                Outcome::HandOver { lcore, ports }
            }
            Ok(Outcome::Drop(reason)) | Err(reason) => {
                self.counters.drop(reason);
                Outcome::Drop(reason)
            }
        }
    }

    /// A frame from an uplink that another lcore has processed: what it says
    /// about neighbours and about the way to them is learnt here too, and nothing
    /// is answered.
    pub fn observe(&mut self, now: u64, device_port: u32, frame: &[u8]) {
        if let Role::Uplink { nic } = self.devices.role(device_port)
            && let Ok(Outer::Neighbour(packet) | Outer::Other(packet)) = parse_outer(frame)
            && packet.vlan == 0
            && let Some(nic) = self.nics.get_mut(nic)
        {
            nic.observe(now, &packet);
        }
    }

    /// A frame that arrived on `device_port` and never got to the engine that was
    /// to process it: counted here as received and dropped.
    pub fn refuse(&mut self, device_port: u32, bytes: usize, reason: DropReason) {
        self.counters.received.add(bytes);
        self.counters.drop(reason);
        if let Some(port) = self.devices.counters_mut(device_port) {
            port.received.add(bytes);
            port.dropped += 1;
        }
    }

    /// What time brings: timers, re-judging, questions to neighbours. Bounded
    /// work; to be called about once a millisecond.
    pub fn tick(&mut self, now: u64, out: &mut Outbox) {
        self.now = now;
        for nic in &mut self.nics {
            nic.announce(now, out);
            nic.ask_neighbours(now, NEIGHBOURS_PER_TICK, out);
        }
        self.advertise(now, out);
        for index in 0..self.nics.len() {
            self.complete(index);
        }
        self.expire(now);
        self.fragments.expire(now);
        if !self.tend_fences() {
            self.sweep(now);
        }
    }

    /// Puts a policy in force, for the slow path from the next packet on. What it
    /// may close is fenced: from when [the fences stand](Self::fences_stand) no NIC
    /// answers by what was in force before. Costs the same however many
    /// connections there are. Answers an older policy that has to go, where there
    /// are too many.
    pub fn set_policy(&mut self, now: u64, change: PolicyChange) -> Option<Retired> {
        self.now = now;
        if self.policies.rules().is_some() {
            // What a change cuts must not be taken up again at its next packet.
            self.recovering = 0;
        }
        let (retired, regions) = self.policies.set(change);
        for region in &regions {
            self.raise(None, region, false);
        }
        self.sweep.start(self.connections.slots());
        retired
    }

    /// Until then, or the next change of policy, TCP connections may be taken up
    /// in their midst where the policy in force lets one of their ends open
    /// them: for a restart that has lost the table.
    pub fn recover_until(&mut self, then: u64) {
        self.recovering = then;
    }

    /// An older policy that is needed no longer; to be called after `tick`
    /// until `None`.
    pub fn take_retired(&mut self) -> Option<Retired> {
        self.policies.take(self.sweep.running())
    }

    /// A NIC has done by now what it had the time for.
    fn catch_up(&mut self, nic: usize) {
        let is_busy = |nic: &Nic| nic.driver.is_busy();
        if self.nics.get(nic).is_some_and(is_busy) {
            self.complete(nic);
        }
    }

    fn nic_index(&self, device_id: u32) -> Option<usize> {
        self.nics
            .iter()
            .position(|n| n.config.device_id == device_id)
    }

    /// A frame from the underlay: a tunnel's, or for the VTEP itself.
    fn uplink_frame(
        &mut self,
        now: u64,
        nic: usize,
        device_port: u32,
        frame: &mut Frame<'_>,
    ) -> Result<Outcome, DropReason> {
        let outer = parse_outer(frame.data())?;
        if outer.vlan() != 0 {
            // Of another network on the same wire.
            return Err(DropReason::NotForUs);
        }
        let tunnel = match outer {
            Outer::Vxlan(tunnel) => tunnel,
            Outer::Neighbour(packet) => {
                let this = self.nics.get_mut(nic).ok_or(DropReason::UnknownPort)?;
                let outcome = this.underlay_neighbour(now, frame, &packet);
                self.counters.answered += u64::from(matches!(outcome, Ok(Outcome::Send { .. })));
                return outcome;
            }
            Outer::Other(packet) => {
                let this = self.nics.get_mut(nic).ok_or(DropReason::UnknownPort)?;
                let outcome = this.underlay_other(now, frame, &packet);
                self.counters.answered += u64::from(matches!(outcome, Ok(Outcome::Send { .. })));
                return outcome;
            }
        };
        let len = frame.len();
        let outcome = self.tunnel_frame(now, nic, device_port, frame, &tunnel)?;
        if let Outcome::Hold { .. } | Outcome::HandOver { .. } = outcome {
            // As it came: nothing but its bounds has changed.
            let came = frame.prepend(usize::from(tunnel.inner));
            came.and_then(|()| frame.set_len(len))
                .map_err(|_| DropReason::NoHeadroom)?;
        }
        Ok(outcome)
    }
}
