//! A node's engine, and what its polling thread would keep.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_engine::nic::{Op, Update};
use penstock_engine::{Config, Engine, Frame, NicConfig, Outbox, Outcome, PolicyChange};
use penstock_flow::{Addr, Prefix};
use penstock_policies::model::Model;
use penstock_policies::{Ids, compile, nic};
use penstock_rules::Ruleset;

use super::plan::Planned;
use super::{BedError, Sizes, tables};

/// Before a frame: the outer headers.
const HEADROOM: usize = 128;
/// Behind it: an answer may be longer than its question.
const TAILROOM: usize = 2048;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) outbox: Outbox,
    /// Frames that wait, by place, with their numbers.
    pub(super) waiting: BTreeMap<u32, (u64, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl Node {
    /// As a worker is when it has all that the controller has for it.
    pub(super) fn new(
        now: u64,
        model: &Model,
        ids: &Ids,
        planned: &Planned<'_>,
        sizes: &Sizes,
    ) -> Result<Self, BedError> {
        let config = &sizes.engine;
        let ports = planned.interfaces.ports.len();
        let mut engine = Engine::new(Config {
            max_device_ports: config.max_device_ports.max(planned.device_ports()),
            max_ports: config
                .max_ports
                .max(u32::try_from(ports).unwrap_or(u32::MAX)),
            ..config.clone()
        });
        let programs = nic::programs(model, ids, planned.name, &planned.interfaces)?;
        for uplink in &planned.uplinks {
            let device_id = uplink.device_id;
            let program = programs.get(&device_id).cloned().unwrap_or_default();
            let attached = engine.attach_nic(NicConfig {
                device_id,
                vtep: uplink.vtep,
                uplink_port: uplink.device_port,
                uplink_mac: uplink.mac,
                underlay: everything(uplink.vtep),
                gateway: None,
                mtu: uplink.mtu,
                capacities: tables::room(&program, sizes.nic),
                entry_write_ns: 0,
            });
            attached.map_err(|error| BedError::Attach {
                node: planned.name.clone(),
                device_id,
                error,
            })?;
            for entry in tables::entries(&program, uplink.mac) {
                let op = Op::Insert;
                let written = engine.write(device_id, &Update { op, entry });
                written.map_err(|error| BedError::Table {
                    node: planned.name.clone(),
                    device_id,
                    error,
                })?;
            }
        }
        let policy = compile::policy(model, ids, planned.name, 1)?;
        let ruleset = Ruleset::compile(policy).map_err(|error| BedError::Rules {
            node: planned.name.clone(),
            error,
        })?;
        let change = PolicyChange::new(None, Arc::new(ruleset));
        // Nothing was in force: nothing retires.
        let _none = engine.set_policy(now, change);
        Ok(Self {
            engine,
            outbox: Outbox::new(),
            waiting: BTreeMap::new(),
            buffer: Vec::new(),
        })
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.engine.tick(now, &mut self.outbox);
        while self.engine.take_retired().is_some() {}
    }

    /// Runs the engine over a frame; what it has left of it. `None`: the frame is
    /// larger than memory can be.
    pub(super) fn run(
        &mut self,
        bytes: &[u8],
        decide: impl FnOnce(&mut Engine, &mut Frame<'_>, &mut Outbox) -> Outcome,
    ) -> Option<(Outcome, Vec<u8>)> {
        let size = HEADROOM + bytes.len() + TAILROOM;
        self.buffer.clear();
        self.buffer.resize(HEADROOM, 0);
        self.buffer.extend_from_slice(bytes);
        self.buffer.resize(size, 0);
        let mut frame = Frame::new(&mut self.buffer, HEADROOM, bytes.len()).ok()?;
        let outcome = decide(&mut self.engine, &mut frame, &mut self.outbox);
        Some((outcome, frame.data().to_vec()))
    }
}

/// Of an underlay without routers everybody is a neighbour.
const fn everything(vtep: Addr) -> Prefix {
    const ALL: [Prefix; 2] = [all(Addr(0), 0), all(Addr::from_v4([0; 4]), 96)];
    ALL[vtep.is_v4() as usize]
}

/// Only asked while compiling.
const fn all(addr: Addr, len: u8) -> Prefix {
    match Prefix::new(addr, len) {
        Some(prefix) => prefix,
        None => unreachable!(),
    }
}
