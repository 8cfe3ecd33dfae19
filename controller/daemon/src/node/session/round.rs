//! One round: policy, then every NIC's tables, then the report.

use std::collections::{BTreeMap, HashMap};

use penstock_flow::{Addr, Mac};
use penstock_policies::nic::Interfaces;
use tokio::task::JoinSet;

use super::{Error, Session};
use crate::dial;
use crate::node::desired;
use crate::node::nic::{Desired, Nic, OpenError, Synced};
use crate::node::policy::LinkError;
use crate::node::proof;
use crate::plan::{NodePlan, Plan};
use crate::status::{Problem, Reason};

impl Session<'_> {
    /// Brings everything to the plan; answers whether nothing is left to retry.
    pub(super) async fn round(
        &mut self,
        plan: &Plan,
        target: &NodePlan,
        full: bool,
    ) -> Result<bool, Error> {
        match self.link.ensure(&target.policy).await {
            Ok(()) => {}
            Err(LinkError::Stream(status)) => return Err(Error::Policy(status)),
            Err(error) => {
                self.fail(Problem::new(Reason::PolicyRefused, error.to_string()));
                return Ok(false);
            }
        }
        let mut problems = self.attachment_problems(target);
        let interfaces = self.interfaces();
        let mut failure = None;
        let mut syncs = JoinSet::new();
        let tables = desired::tables(target, &interfaces, &self.uplink_macs())?;
        let mut refused = self.prove(target, &interfaces, &tables).await;
        // A NIC that is no longer declared keeps what it has.
        self.nics.retain(|id, _| tables.contains_key(id));
        self.settled.retain(|id, _| tables.contains_key(id));
        self.counts.retain(|id, _| tables.contains_key(id));
        self.states.retain(|id, _| tables.contains_key(id));
        for (device_id, desired) in tables {
            self.look_at_uplink(device_id);
            if let Err(problem) = self.check_nic(target, device_id) {
                self.note_nic(device_id, &problem);
                failure.get_or_insert(problem);
                continue;
            }
            // The program before stays, which was proved.
            if let Some(why) = refused.remove(&device_id) {
                let problem = Problem::new(Reason::NotProved, why);
                tracing::error!(
                    node = self.name,
                    device_id,
                    why = problem.message,
                    "a program is not written, because it is not proved"
                );
                self.settled.remove(&device_id);
                self.note_nic(device_id, &problem);
                failure.get_or_insert(problem);
                continue;
            }
            if !full && self.settled.get(&device_id) == Some(&desired) {
                continue;
            }
            self.settled.remove(&device_id);
            match self.nic(device_id).await {
                Ok(mut nic) => {
                    syncs.spawn(async move {
                        let result = nic.sync(&desired).await;
                        (device_id, nic, desired, result)
                    });
                }
                Err(OpenError::NotPrimary(id)) => return Err(Error::NotPrimary(id)),
                Err(error) => {
                    let message = format!("NIC {device_id}: {error}");
                    let problem = Problem::new(Reason::NicNotOpen, message);
                    self.note_nic(device_id, &problem);
                    failure.get_or_insert(problem);
                }
            }
        }
        let (mut writes, mut drift) = (0, 0);
        while let Some(joined) = syncs.join_next().await {
            let Ok((device_id, nic, desired, result)) = joined else {
                failure.get_or_insert(Problem::new(Reason::Internal, "a sync was interrupted"));
                continue;
            };
            match result {
                Ok(mut synced) => {
                    self.keep_state(device_id, &mut synced);
                    writes += synced.writes;
                    drift += synced.drift;
                    self.log(device_id, &synced);
                    self.nics.insert(device_id, nic);
                    if synced.problems.is_empty() && synced.leftovers.is_none() {
                        self.settled.insert(device_id, desired);
                    }
                    self.counts.insert(device_id, synced.entries);
                    problems.extend(synced.problems);
                    if let Some(problem) = synced.leftovers {
                        failure.get_or_insert(problem);
                    }
                }
                // Unknown what was applied: the NIC is opened and read anew.
                Err(status) => {
                    let message = format!("NIC {device_id}: {}", dial::words(&status));
                    let problem = Problem::new(Reason::NicFailed, message);
                    self.note_nic(device_id, &problem);
                    failure.get_or_insert(problem);
                }
            }
        }
        let retry = failure.is_some()
            || problems
                .values()
                .any(|problem| problem.reason != Reason::AttachmentNotFound);
        let entries = self.count_entries();
        let narrow = self.narrow(target);
        let complaint = self.link.complaint().map(str::to_owned);
        let generation = self.link.generation();
        let nics = self.states.clone();
        self.context.board.update(self.name, |report| {
            report.generation = generation;
            if failure.is_none() {
                report.revision = plan.revision;
            }
            report.failure = failure;
            report.problems = problems;
            report.entries = entries;
            report.nics = nics;
            report.narrow = narrow;
            report.complaint = complaint;
            report.writes += writes;
            report.drift += drift;
        });
        Ok(!retry)
    }

    /// Looks at programs that have not been looked at; answers which must not be written.
    async fn prove(
        &mut self,
        target: &NodePlan,
        interfaces: &Interfaces,
        tables: &BTreeMap<u32, Desired>,
    ) -> BTreeMap<u32, String> {
        if self.proved.0 == target.revision && self.proved.1 == *tables {
            return BTreeMap::new();
        }
        let macs = self.uplink_macs();
        let proof = proof::prove(target, interfaces.clone(), macs, tables).await;
        if proof.refused.is_empty() {
            self.proved = (target.revision, tables.clone());
        }
        proof.refused
    }

    fn fail(&self, problem: Problem) {
        tracing::warn!(
            node = self.name,
            reason = problem.reason.name(),
            message = problem.message,
            "not programmed"
        );
        self.context
            .board
            .update(self.name, |report| report.failure = Some(problem));
    }

    fn log(&self, device_id: u32, synced: &Synced) {
        if synced.drift > 0 {
            tracing::warn!(
                node = self.name,
                device_id,
                entries = synced.drift,
                "tables had changed behind the controller's back"
            );
        }
        if synced.writes > 0 {
            tracing::info!(
                node = self.name,
                device_id,
                writes = synced.writes,
                refused = synced.problems.len(),
                "tables written"
            );
        }
    }

    /// Takes the open NIC, or opens it.
    async fn nic(&mut self, device_id: u32) -> Result<Nic, OpenError> {
        if let Some(nic) = self.nics.remove(&device_id) {
            return Ok(nic);
        }
        Nic::open(
            self.channel.clone(),
            device_id,
            &self.context.elections,
            self.context.limits,
            &self.lost.0,
            None,
        )
        .await
    }

    /// Whether the worker has the NIC that is declared.
    fn check_nic(&self, target: &NodePlan, device_id: u32) -> Result<(), Problem> {
        let declared = target
            .names
            .model
            .nodes
            .get(&target.node)
            .and_then(|node| node.nics.get(&device_id));
        let found = self.info.nics.iter().find(|nic| nic.device_id == device_id);
        match (declared, found) {
            (Some(declared), Some(found)) => {
                let theirs = <[u8; 16]>::try_from(found.vtep.as_slice())
                    .ok()
                    .map(Addr::from_octets);
                if theirs == Some(declared.vtep) {
                    return Ok(());
                }
                let theirs = theirs.map_or("none".to_owned(), |address| address.to_string());
                Err(Problem::new(
                    Reason::NicMismatch,
                    format!(
                        "NIC {device_id} is declared with vtep {}, the worker has {theirs}; \
                         correct one of them",
                        declared.vtep
                    ),
                ))
            }
            _ => Err(Problem::new(
                Reason::NicNotFound,
                format!(
                    "the worker has no NIC {device_id}, only {:?}; correct the node's nics",
                    self.info
                        .nics
                        .iter()
                        .map(|nic| nic.device_id)
                        .collect::<Vec<_>>()
                ),
            )),
        }
    }

    /// NICs whose uplink takes less than is declared of the underlay.
    fn narrow(&self, target: &NodePlan) -> Vec<String> {
        let declared = target.names.model.nodes.get(&target.node);
        let nics = declared.iter().flat_map(|node| &node.nics);
        nics.filter_map(|(id, nic)| {
            let found = self.info.nics.iter().find(|it| it.device_id == *id)?;
            let has = self.link.uplink_mtu(*id).unwrap_or(found.uplink_mtu);
            let says = u32::from(nic.underlay_mtu);
            (has < says).then(|| {
                let most = has.saturating_sub(nic.overhead().into());
                format!(
                    "NIC {id}'s uplink has MTU {has}, underlayMtu says {says}: tenants' packets above {most} \
                     bytes are answered with \"fragmentation needed\" or \"packet too big\""
                )
            })
        })
        .collect()
    }

    fn interfaces(&self) -> Interfaces {
        Interfaces {
            ports: self
                .link
                .attachments()
                .iter()
                .filter(|(_, attachment)| attachment.device_port != 0)
                .map(|(id, attachment)| (*id, attachment.device_port))
                .collect(),
            uplinks: self
                .info
                .nics
                .iter()
                .filter(|nic| nic.uplink_port != 0)
                .map(|nic| (nic.device_id, nic.uplink_port))
                .collect(),
        }
    }

    fn uplink_macs(&self) -> BTreeMap<u32, Mac> {
        let nics = self.info.nics.iter().filter_map(|nic| {
            let mac = <[u8; 6]>::try_from(nic.uplink_mac.as_slice()).ok()?;
            Some((nic.uplink_port, Mac(mac)))
        });
        nics.collect()
    }

    fn attachment_problems(&self, target: &NodePlan) -> BTreeMap<String, Problem> {
        let mut problems = BTreeMap::new();
        for (id, port) in &target.policy.ports {
            let attachment = self.link.attachments().get(id);
            if attachment.is_some_and(|it| it.device_port != 0) {
                continue;
            }
            let why = match attachment {
                Some(it) if !it.error.is_empty() => it.error.as_str(),
                _ => "the worker does not say why",
            };
            let message = format!(
                "attachment {:?} is not found on {}: {why}",
                port.attachment, self.name
            );
            problems.insert(
                port.name.clone(),
                Problem::new(Reason::AttachmentNotFound, message),
            );
        }
        problems
    }

    fn count_entries(&self) -> HashMap<String, u64> {
        let mut entries = HashMap::new();
        for (owner, count) in self.counts.values().flatten() {
            *entries.entry(owner.to_string()).or_default() += count;
        }
        entries
    }
}
