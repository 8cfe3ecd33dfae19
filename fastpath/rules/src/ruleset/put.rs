//! What a delta names, put in place and checked.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use penstock_flow::Addr;

use super::apply::Change;
use super::{Compiled, Ladder, Member, Named, Network};
use crate::delta::endpoint_name;
use crate::error::CompileError;
use crate::model::{Endpoint, GroupId, Port, PortId, PrefixSet, SetId, Subnet, SubnetId, Vni, Vpc};

impl Change<'_> {
    pub(super) fn network(
        &self,
        vni: Vni,
        what: &dyn Fn() -> String,
    ) -> Result<&Network, CompileError> {
        let network = self.next.network(vni);
        network.ok_or_else(|| CompileError::UnknownVpc { what: what(), vni })
    }

    /// A group of which something in the VPC is a member.
    pub(super) fn member_group(
        &self,
        group: GroupId,
        vni: Vni,
        what: &dyn Fn() -> String,
    ) -> Result<(), CompileError> {
        let known = self.next.groups.get(&group);
        if known.is_some_and(|named| named.it.vni == vni) {
            return Ok(());
        }
        Err(CompileError::UnknownGroup {
            what: what(),
            group,
        })
    }

    pub(super) fn put_vpcs(&mut self, vpcs: BTreeMap<Vni, Vpc>) -> Result<(), CompileError> {
        for (vni, vpc) in &vpcs {
            for peer in &vpc.peers {
                if !vpcs.contains_key(peer) && !self.next.vpcs.contains(peer) {
                    return Err(CompileError::UnknownVpc {
                        what: format!("VPC {vni}, by a peering,"),
                        vni: *peer,
                    });
                }
            }
        }
        for (vni, vpc) in vpcs {
            match self.next.vpcs.get_mut(&vni) {
                Some(network) => Arc::make_mut(network).vpc = vpc,
                None => drop(self.next.vpcs.insert(vni, Arc::new(Network::new(vpc)))),
            }
        }
        Ok(())
    }

    pub(super) fn put_subnets(
        &mut self,
        subnets: BTreeMap<SubnetId, Subnet>,
    ) -> Result<(), CompileError> {
        for subnet in subnets.values() {
            self.network(subnet.vni, &|| format!("subnet {}", subnet.name))?;
        }
        let all = Arc::make_mut(&mut self.next.subnets);
        for (id, subnet) in subnets {
            *self.vpc_uses.entry(subnet.vni).or_default() += 1;
            let before = all.by_id.insert(id, subnet);
            if let Some(before) = before {
                *self.vpc_uses.entry(before.vni).or_default() -= 1;
            }
        }
        self.settle_gateways()
    }

    /// Ports are looked through for the ones that name them: it happens seldom.
    pub(super) fn remove_subnets(&mut self, gone: &[SubnetId]) -> Result<(), CompileError> {
        let all = Arc::make_mut(&mut self.next.subnets);
        for id in gone {
            let Some(subnet) = all.by_id.remove(id) else {
                return Err(CompileError::NotHere {
                    what: format!("subnet {id}"),
                });
            };
            *self.vpc_uses.entry(subnet.vni).or_default() -= 1;
        }
        self.settle_gateways()?;
        for (_, port) in self.next.ports() {
            if gone.contains(&port.subnet) {
                return Err(unknown_subnet(port));
            }
        }
        Ok(())
    }

    fn settle_gateways(&mut self) -> Result<(), CompileError> {
        let all = Arc::make_mut(&mut self.next.subnets);
        all.gateways.clear();
        for (id, subnet) in &all.by_id {
            for gateway in &subnet.gateways {
                let other = all.gateways.insert((subnet.vni, *gateway), *id);
                if other.is_some_and(|other| other != *id) {
                    return Err(CompileError::GatewayTwice {
                        vni: subnet.vni,
                        gateway: *gateway,
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn put_set(&mut self, id: SetId, set: PrefixSet) -> Result<(), CompileError> {
        self.network(set.vni, &|| format!("prefix set {}", set.name))?;
        let vni = set.vni;
        let set = Arc::new(set);
        if let Some(named) = self.next.sets.get_mut(&id) {
            Arc::make_mut(named).it = set;
            let naming = self.next.vpcs.iter().filter(|(_, n)| n.names_set(id));
            self.touched_sets.extend(naming.map(|(vni, _)| (*vni, id)));
            return Ok(());
        }
        *self.vpc_uses.entry(vni).or_default() += 1;
        self.next.sets.insert(id, Arc::new(Named::new(set)));
        Ok(())
    }

    pub(super) fn put_endpoint(
        &mut self,
        key: (Vni, Addr),
        endpoint: Endpoint,
    ) -> Result<(), CompileError> {
        let (vni, addr) = key;
        let what = || format!("endpoint {addr}");
        self.network(vni, &what)?;
        let mut groups = endpoint.groups.clone();
        groups.sort_unstable();
        groups.dedup();
        for group in &groups {
            self.member_group(*group, vni, &what)?;
            *self.group_uses.entry(*group).or_default() += 1;
        }
        *self.vpc_uses.entry(vni).or_default() += 1;
        let member = Member::new(&endpoint, &groups);
        if let Some(before) = self.next.put_member(key, member) {
            self.forget_member(vni, &before);
        }
        self.work.endpoints += 1;
        Ok(())
    }

    pub(super) fn remove_endpoint(&mut self, key: (Vni, Addr)) -> Result<(), CompileError> {
        let Some(before) = self.next.remove_member(key) else {
            return Err(CompileError::NotHere {
                what: endpoint_name(key),
            });
        };
        self.forget_member(key.0, &before);
        self.work.endpoints += 1;
        Ok(())
    }

    fn forget_member(&mut self, vni: Vni, before: &Member) {
        *self.vpc_uses.entry(vni).or_default() -= 1;
        for group in before.groups() {
            *self.group_uses.entry(*group).or_default() -= 1;
        }
    }

    pub(super) fn put_port(&mut self, id: PortId, mut port: Port) -> Result<(), CompileError> {
        let what = format!("port {}", port.name);
        self.network(port.vni, &|| what.clone())?;
        let subnet = self.next.subnet(port.subnet);
        if subnet.is_none_or(|subnet| subnet.vni != port.vni) {
            return Err(unknown_subnet(&port));
        }
        port.groups.sort_unstable();
        port.groups.dedup();
        for group in &port.groups {
            self.member_group(*group, port.vni, &|| what.clone())?;
            *self.group_uses.entry(*group).or_default() += 1;
        }
        *self.vpc_uses.entry(port.vni).or_default() += 1;
        let compiled = Compiled {
            port,
            ingress: Ladder::default(),
            egress: Ladder::default(),
        };
        if let Some(before) = self.next.ports.insert(id, Arc::new(compiled)) {
            self.forget_port(&before.port);
        }
        Ok(())
    }

    pub(super) fn remove_port(&mut self, id: PortId) -> Result<(), CompileError> {
        let Some(before) = self.next.ports.remove(&id) else {
            return Err(CompileError::NotHere {
                what: format!("port {id}"),
            });
        };
        self.forget_port(&before.port);
        self.work.ports += 1;
        Ok(())
    }

    fn forget_port(&mut self, before: &Port) {
        *self.vpc_uses.entry(before.vni).or_default() -= 1;
        for group in &before.groups {
            *self.group_uses.entry(*group).or_default() -= 1;
        }
    }
}

fn unknown_subnet(port: &Port) -> CompileError {
    CompileError::UnknownSubnet {
        port: port.name.clone(),
        subnet: port.subnet,
    }
}
