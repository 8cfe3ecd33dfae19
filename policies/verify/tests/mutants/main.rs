//! Bugs planted into programs that are right: each is found, and called what it is.

use std::collections::BTreeMap;

use penstock_flow::Addr;
use penstock_policies::model::{Model, NodeName, PortName};
use penstock_policies::{Ids, document};
use penstock_verify::{Host, Limits, Report, Row, offline};

mod acl;
mod forwarding;

/// The network and its programs, to be spoilt.
pub(crate) struct Bed {
    pub(crate) model: Model,
    pub(crate) ids: Ids,
    pub(crate) hosts: BTreeMap<NodeName, Host>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let text = include_str!("network.yaml");
        let model = document::parse("network.yaml", text.as_bytes())
            .validate()
            .expect("a valid set");
        let mut ids = Ids::default();
        ids.assign(&model).expect("ids");
        let hosts = offline::hosts(&model, &ids).expect("programs");
        Self { model, ids, hosts }
    }

    /// By `x/p1` of tenant a, or `b/x/r1`.
    pub(crate) fn id(&self, short: &str) -> u32 {
        let parts: Vec<&str> = short.split('/').collect();
        let (tenant, vpc, port) = match parts.as_slice() {
            [vpc, port] => ("a", *vpc, *port),
            [tenant, vpc, port] => (*tenant, *vpc, *port),
            _ => unreachable!("{short}"),
        };
        let name = format!("tenants/{tenant}/vpcs/{vpc}/ports/{port}");
        self.ids.ports[&PortName::parse(&name).expect("a name")]
    }

    /// NIC 1 or 2 of node one, or 3, that of node two.
    pub(crate) fn rows(&mut self, nic: u32) -> &mut Vec<Row> {
        let (node, device_id) = if nic == 3 {
            ("nodes/two", 1)
        } else {
            ("nodes/one", nic)
        };
        let node = NodeName::parse(node).expect("a name");
        let host = self.hosts.get_mut(&node).expect("a host");
        host.programs.get_mut(&device_id).expect("a NIC")
    }

    pub(crate) fn device_port(&self, node: &str, id: u32) -> u32 {
        let node = NodeName::parse(node).expect("a name");
        self.hosts[&node].interfaces.ports[&id]
    }

    pub(crate) fn proof(&self) -> Report {
        penstock_verify::nodes(&self.model, &self.ids, &self.hosts, Limits::default())
    }
}

pub(crate) fn addr(text: &str) -> Addr {
    text.parse::<std::net::IpAddr>().expect("an address").into()
}
