//! Nodes and their NICs.

use std::collections::BTreeMap;

use super::parse::{authority, unicast};
use super::{At, LIMITS};
use crate::document;
use crate::model::{Nic, Node, NodeName};

/// What carries the least tenant MTU.
const LEAST_MTU: u16 = 626;

impl<'a> At<'_, 'a> {
    pub(super) fn node(&mut self, name: NodeName, spec: &'a document::Node) {
        let document::Node {
            worker_address,
            nics,
        } = spec;
        let worker = self.worker(worker_address);
        let mut sound = self.some("spec.nics", nics);
        let mut found = BTreeMap::new();
        for (i, nic) in self
            .within("spec.nics", nics, LIMITS.nics_per_node)
            .iter()
            .enumerate()
        {
            let path = format!("spec.nics[{i}]");
            match self.nic(&path, nic) {
                Some((id, nic)) => {
                    if found.insert(id, nic).is_some() {
                        let message = format!("{id} is used twice");
                        self.problem(
                            format!("{path}.deviceId"),
                            message,
                            "give each NIC of a node its own",
                        );
                        sound = false;
                    }
                }
                None => sound = false,
            }
        }
        if let Some(worker_address) = worker
            && sound
        {
            self.check.model.nodes.insert(
                name,
                Node {
                    worker_address,
                    nics: found,
                },
            );
        }
    }

    fn worker(&mut self, text: &'a str) -> Option<String> {
        let field = "spec.workerAddress";
        let worker = self.parsed(field, authority(text))?;
        let me = self.declared_name();
        if let Some(other) = self.check.claims.workers.insert(worker.clone(), me)
            && other != me
        {
            self.problem(
                field,
                format!("{worker} is used by {other}"),
                "a worker serves one node",
            );
            return None;
        }
        Some(worker)
    }

    fn nic(&mut self, path: &str, nic: &'a document::Nic) -> Option<(u32, Nic)> {
        let document::Nic {
            device_id,
            vtep,
            underlay_mtu,
        } = nic;
        let id = (1..=16).contains(device_id).then_some(*device_id);
        if id.is_none() {
            let message = if *device_id == 0 {
                "is missing".to_owned()
            } else {
                format!("{device_id} is out of range")
            };
            self.problem(format!("{path}.deviceId"), message, "use 1 to 16");
        }
        let vtep_field = format!("{path}.vtep");
        let mut vtep = self.parsed(&vtep_field, unicast(vtep));
        let me = self.declared_name();
        if let Some(addr) = vtep
            && let Some(other) = self.check.claims.vteps.insert(addr, me)
        {
            let message = format!("{addr} is used by {other}");
            self.problem(vtep_field, message, "give each NIC its own VTEP");
            vtep = None;
        }
        let mtu = if *underlay_mtu == 0 {
            1600
        } else {
            *underlay_mtu
        };
        let mtu = u16::try_from(mtu).ok().filter(|mtu| *mtu >= LEAST_MTU);
        if mtu.is_none() {
            let message = format!("{underlay_mtu} is no MTU for an underlay");
            let suggestion = format!("use {LEAST_MTU} to 65535; 1600 is the default");
            self.problem(format!("{path}.underlayMtu"), message, suggestion);
        }
        Some((
            id?,
            Nic {
                vtep: vtep?,
                underlay_mtu: mtu?,
            },
        ))
    }
}
