//! Ports.

use std::collections::BTreeSet;

use penstock_flow::{Addr, Mac};

use super::parse::{last, mac, unicast};
use super::{At, LIMITS};
use crate::document::{self, Kind};
use crate::model::{
    GroupName, Nic, NodeName, Port, PortName, Subnet, SubnetName, VpcName, gateway,
};
use crate::suggest::quote;

/// Linux: IFNAMSIZ without the terminating zero.
const LONGEST_INTERFACE: usize = 15;

/// RFC 8200, section 5.
const LEAST_IPV6_MTU: u16 = 1280;

impl<'a> At<'_, 'a> {
    pub(super) fn port(&mut self, name: PortName, spec: &'a document::Port) {
        let document::Port {
            subnet,
            node,
            nic,
            attachment,
            vlan,
            mac: mac_text,
            ips,
            security_groups,
            labels,
        } = spec;
        let vpc = name.vpc();
        self.parent(Kind::Vpc, vpc.as_str());
        let below = format!("{vpc}/");
        let subnet = self
            .reference("spec.subnet", Kind::Subnet, &below, subnet)
            .and_then(|name| SubnetName::parse(&name).ok());
        let node = self
            .reference("spec.node", Kind::Node, "", node)
            .and_then(|name| NodeName::parse(&name).ok());
        let nic_id = if *nic == 0 { 1 } else { *nic };
        let found_nic = node.as_ref().and_then(|node| self.nic_exists(node, nic_id));
        let vlan = self.vlan(*vlan);
        let attached = self.attachment(node.as_ref(), nic_id, attachment, vlan);
        let mac = self.mac(&vpc, mac_text);
        let found_subnet = subnet
            .as_ref()
            .and_then(|s| self.check.model.subnets.get(s).cloned());
        let ips = self.ips(&vpc, subnet.as_ref().zip(found_subnet.as_ref()), ips);
        let groups = self.groups(&below, security_groups);
        self.labels(labels);
        if let (Some(nic), Some(subnet), Some(found), Some(node)) =
            (found_nic, &subnet, &found_subnet, &node)
        {
            self.mtu_fits(nic, subnet, found, node, nic_id);
            self.one_family(nic, &vpc);
        }
        if let (Some(subnet), Some(node), Some(vlan), true, Some(mac)) =
            (subnet, node, vlan, attached, mac)
        {
            let port = Port {
                subnet,
                node,
                nic: nic_id,
                attachment: attachment.clone(),
                vlan,
                mac,
                ips,
                groups,
                labels: labels.clone(),
            };
            self.check.model.ports.insert(name, port);
        }
    }

    fn nic_exists(&mut self, node: &NodeName, id: u32) -> Option<Nic> {
        let nics = &self.check.model.nodes.get(node)?.nics;
        if let Some(nic) = nics.get(&id) {
            return Some(*nic);
        }
        let ids: Vec<_> = nics.keys().map(ToString::to_string).collect();
        let message = format!("{node} has no NIC with device id {id}");
        self.problem("spec.nic", message, format!("it has {}", ids.join(", ")));
        None
    }

    fn vlan(&mut self, vlan: u32) -> Option<u16> {
        let found = u16::try_from(vlan).ok().filter(|v| *v <= 4094);
        if found.is_none() {
            self.problem(
                "spec.vlan",
                format!("{vlan} is no VLAN"),
                "use 1 to 4094, or 0 for untagged",
            );
        }
        found
    }

    fn attachment(
        &mut self,
        node: Option<&NodeName>,
        nic: u32,
        attachment: &'a str,
        vlan: Option<u16>,
    ) -> bool {
        let field = "spec.attachment";
        if attachment.is_empty() {
            self.problem(
                field,
                "is missing",
                "write the host's name of the interface, e.g. blue-web",
            );
            return false;
        }
        let form = attachment.len() <= LONGEST_INTERFACE
            && attachment
                .bytes()
                .all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':'))
            && !matches!(attachment, "." | "..");
        if !form {
            let message = format!("{} is not an interface name", quote(attachment));
            self.problem(
                field,
                message,
                "use 1 to 15 visible ASCII characters without / and :",
            );
            return false;
        }
        let (Some(node), Some(vlan)) = (node, vlan) else {
            return true;
        };
        let me = self.declared_name();
        let claims = &mut self.check.claims;
        let key = (node.clone(), attachment, vlan);
        if let Some(other) = claims.attachments.insert(key, me)
            && other != me
        {
            let vlan = if vlan == 0 {
                String::new()
            } else {
                format!(" with VLAN {vlan}")
            };
            let message = format!("{attachment}{vlan} on {node} is used by {other}");
            self.problem(field, message, "give each port its own interface or VLAN");
            return false;
        }
        let (first, other) = *claims
            .attachment_nics
            .entry((node.clone(), attachment))
            .or_insert((nic, me));
        if first != nic {
            let message = format!("{attachment} on {node} belongs to NIC {first} by {other}");
            self.problem(
                "spec.nic",
                message,
                format!("an interface belongs to one NIC; use {first}"),
            );
            return false;
        }
        true
    }

    fn mac(&mut self, vpc: &VpcName, text: &'a str) -> Option<Mac> {
        let mac = self.parsed("spec.mac", mac(text))?;
        let me = self.declared_name();
        if let Some(other) = self.check.claims.macs.insert((vpc.clone(), mac), me)
            && other != me
        {
            self.problem(
                "spec.mac",
                format!("{mac} is used by {other}"),
                "give each port of a VPC its own",
            );
            return None;
        }
        Some(mac)
    }

    fn ips(
        &mut self,
        vpc: &VpcName,
        subnet: Option<(&SubnetName, &Subnet)>,
        texts: &'a [String],
    ) -> Vec<Addr> {
        self.some("spec.ips", texts);
        let me = self.declared_name();
        let mut found = Vec::with_capacity(texts.len());
        for (i, text) in self
            .within("spec.ips", texts, LIMITS.ips_per_port)
            .iter()
            .enumerate()
        {
            let field = format!("spec.ips[{i}]");
            let Some(ip) = self.parsed(&field, unicast(text)) else {
                continue;
            };
            if let Some((name, subnet)) = subnet
                && let Some((message, suggestion)) = misplaced(ip, name, subnet)
            {
                self.problem(field, message, suggestion);
                continue;
            }
            if let Some(other) = self.check.claims.ips.insert((vpc.clone(), ip), me) {
                let message = if other == me {
                    format!("{ip} is given twice")
                } else {
                    format!("{ip} is used by {other}")
                };
                self.problem(field, message, "give each port of a VPC its own addresses");
                continue;
            }
            found.push(ip);
        }
        found
    }

    fn groups(&mut self, below: &str, texts: &'a [String]) -> BTreeSet<GroupName> {
        let mut found = BTreeSet::new();
        let field = "spec.securityGroups";
        for (i, text) in self
            .within(field, texts, LIMITS.groups_per_port)
            .iter()
            .enumerate()
        {
            let field = format!("{field}[{i}]");
            let name = self.reference(&field, Kind::SecurityGroup, below, text);
            // An unsound name has been told where it was declared.
            if let Some(name) = name.and_then(|name| GroupName::parse(&name).ok())
                && !found.insert(name)
            {
                self.problem(
                    field,
                    format!("{} is given twice", quote(text)),
                    "name each group once",
                );
            }
        }
        found
    }

    fn labels(&mut self, labels: &'a std::collections::BTreeMap<String, String>) {
        let field = "spec.labels";
        if labels.len() > LIMITS.labels_per_port {
            let message = format!(
                "{} labels are more than {}",
                labels.len(),
                LIMITS.labels_per_port
            );
            self.problem(field, message, "keep fewer");
        }
        for (key, value) in labels {
            if key.is_empty() {
                self.problem(field, "a label has no key", "write key: value");
            }
            self.text(field, key);
            self.text(field, value);
        }
    }

    /// The least packet that IPv6 promises fits the underlay. A larger MTU of the
    /// subnet's may not: see [`crate::mtu`].
    fn mtu_fits(&mut self, nic: Nic, name: &SubnetName, subnet: &Subnet, node: &NodeName, id: u32) {
        let need = LEAST_IPV6_MTU + nic.overhead();
        let v6 = subnet.cidrs.iter().any(|cidr| !cidr.is_v4());
        let key = (name.clone(), node.clone(), id);
        if v6 && need > nic.underlay_mtu && self.check.claims.narrow.insert(key) {
            let message = format!(
                "{name} has IPv6, whose packets of {LEAST_IPV6_MTU} bytes need {need} on the underlay; \
                 NIC {id} of {node} has {}",
                nic.underlay_mtu
            );
            let suggestion = format!("raise the underlay's MTU and underlayMtu to {need}, or more");
            self.problem("spec.subnet", message, suggestion);
        }
    }

    /// All VTEPs of a VPC can reach each other.
    fn one_family(&mut self, nic: Nic, vpc: &VpcName) {
        let me = self.declared_name();
        let v4 = nic.vtep.is_v4();
        let (first, other) = *self
            .check
            .claims
            .families
            .entry(vpc.clone())
            .or_insert((v4, me));
        if first != v4 {
            let message = format!(
                "its NIC's VTEP {} is of another address family than {other}'s",
                nic.vtep
            );
            self.problem(
                "spec.nic",
                message,
                "give the NICs of a VPC's ports VTEPs of one family",
            );
        }
    }
}

/// Why a port of this subnet cannot have this address.
fn misplaced(ip: Addr, name: &SubnetName, subnet: &Subnet) -> Option<(String, String)> {
    let Some(prefix) = subnet.cidrs.iter().find(|p| p.contains(ip)) else {
        let cidrs: Vec<_> = subnet.cidrs.iter().map(ToString::to_string).collect();
        let message = format!("{ip} is outside {name} ({})", cidrs.join(", "));
        return Some((message, "pick an address of the subnet".to_owned()));
    };
    let what = if ip == prefix.addr() {
        "network address"
    } else if ip == gateway(*prefix) {
        "gateway"
    } else if prefix.is_v4() && ip == last(*prefix) {
        "broadcast address"
    } else {
        return None;
    };
    let free = Addr(gateway(*prefix).0 + 1);
    let suggestion = format!("use {free} or another address after it");
    Some((format!("{ip} is the {what} of {name}"), suggestion))
}
