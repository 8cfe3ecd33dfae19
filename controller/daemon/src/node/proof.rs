//! Nothing is written to a NIC before it is proved: every entry, in the form in which it
//! is written, does what the declared resources say, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use p4runtime::pipeline::{Entry, acl, mapping, nexthop, underlay, vport};
use p4runtime::{Bits, Field, Ternary};
use penstock_flow::{Addr, Mac, Prefix};
use penstock_policies::nic::Interfaces;
use penstock_verify::{Acl, AclAction, Bind, Hop, Host, Limits, Report, Row};

use super::nic::Desired;
use crate::plan::NodePlan;

/// Why an entry cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry of table {0} is not the controller's to write")]
pub(super) struct NotOurs(&'static str);

/// What was found about each NIC's program.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// Programs that must not be written, and why.
    pub(super) refused: BTreeMap<u32, String>,
}

/// Proves the programs of a node's NICs, away from the threads that serve.
pub(super) async fn prove(
    plan: &NodePlan,
    interfaces: Interfaces,
    macs: BTreeMap<u32, Mac>,
    tables: &BTreeMap<u32, Desired>,
) -> Proof {
    let ids: BTreeSet<u32> = tables.keys().copied().collect();
    let all_refused = |why: &str| Proof {
        refused: ids.iter().map(|id| (*id, why.to_owned())).collect(),
    };
    let mut programs = BTreeMap::new();
    for (id, desired) in tables {
        let entries = desired.entries.values().map(|(entry, _)| row(entry));
        match entries.collect::<Result<Vec<Row>, NotOurs>>() {
            Ok(rows) => programs.insert(*id, rows),
            Err(error) => return all_refused(&error.to_string()),
        };
    }
    let host = Host {
        interfaces,
        macs,
        live: false,
        programs,
    };
    let (names, node) = (Arc::clone(&plan.names), plan.node.clone());
    let proved = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let report =
            penstock_verify::node(&names.model, &names.ids, &node, &host, Limits::default());
        tracing::debug!(
            node = node.as_str(),
            rows = report.rows,
            cells = report.cells,
            proved = report.is_proved(),
            elapsed = ?begun.elapsed(),
            "programs looked at"
        );
        report
    });
    match proved.await {
        Ok(report) => judged(plan, &report, &ids),
        Err(error) => all_refused(&format!("the proof was interrupted: {error}")),
    }
}

fn judged(plan: &NodePlan, report: &Report, ids: &BTreeSet<u32>) -> Proof {
    if let Some(first) = report.gaps.first() {
        tracing::warn!(
            node = plan.node.as_str(),
            count = report.gaps.len(),
            first = %first,
            "programs leave something out"
        );
    }
    let mut refused = BTreeMap::new();
    for id in ids {
        let wrong = report.violations.iter().filter(|it| it.device_id == *id);
        let unproved = report.unproved.as_ref().map(ToString::to_string);
        let first = wrong.clone().next().map(ToString::to_string).or(unproved);
        if let Some(first) = first {
            let more = match wrong.count() {
                0 | 1 => String::new(),
                all => format!("; and {} more like this", all - 1),
            };
            refused.insert(*id, format!("{first}{more}"));
        }
    }
    Proof { refused }
}

/// An entry as the checker reads it.
pub(super) fn row(entry: &Entry) -> Result<Row, NotOurs> {
    Ok(match entry {
        Entry::Vport(entry) => Row::Vport {
            device_port: entry.key.device_port,
            vlan: tag(entry.key.vlan),
            bind: match entry.action {
                vport::Action::SetPort { port_id, vpc } => Bind::Port {
                    port: port_id,
                    vni: vni(vpc),
                },
                vport::Action::SetUplink => Bind::Uplink,
                vport::Action::SetFrontEnd { .. } => Bind::FrontEnd,
            },
        },
        Entry::Underlay(entry) => {
            let underlay::Action::Decap { vpc } = entry.action;
            Row::Underlay {
                src_vtep: Addr(entry.key.src_vtep),
                dst_vtep: Addr(entry.key.dst_vtep),
                vni: vni(entry.key.vni),
                decap: vni(vpc),
            }
        }
        Entry::SpoofGuard(entry) => Row::SpoofGuard {
            port: entry.key.port_id,
            mac: mac(entry.key.src_mac),
            ip: Addr(entry.key.src_ip),
        },
        Entry::Acl(entry) => Row::Acl(static_rule(entry)),
        Entry::Mapping(entry) => {
            let mapping::Action::SetNexthop { nexthop_id } = entry.action;
            let len = u8::try_from(entry.key.dst.prefix_len()).ok();
            let dst = len.and_then(|len| Prefix::new(Addr(entry.key.dst.value()), len));
            Row::Mapping {
                vni: vni(entry.key.vpc),
                dst: dst.ok_or(NotOurs("mapping"))?,
                nexthop: nexthop_id,
            }
        }
        Entry::Nexthop(entry) => Row::Nexthop {
            id: entry.key.nexthop_id,
            hop: hop(&entry.action),
        },
        Entry::Fence(_)
        | Entry::RdmaQp(_)
        | Entry::RdmaPair(_)
        | Entry::Flow(_)
        | Entry::Drops(_) => return Err(NotOurs(entry.key().table().name())),
    })
}

fn hop(action: &nexthop::Action) -> Hop {
    match *action {
        nexthop::Action::ToPort {
            device_port,
            vlan,
            dst_mac,
        } => Hop::ToPort {
            device_port,
            vlan: tag(vlan),
            mac: mac(dst_mac),
        },
        nexthop::Action::ToVtep {
            src_vtep,
            dst_vtep,
            src_mac,
            dst_mac,
            vni: wire,
            mtu,
            device_port,
        } => Hop::ToVtep {
            src_vtep: Addr(src_vtep),
            dst_vtep: Addr(dst_vtep),
            src_mac: mac(src_mac),
            dst_mac: mac(dst_mac),
            vni: vni(wire),
            mtu,
            device_port,
        },
        nexthop::Action::ToFrontEnd { device_port, .. } => Hop::ToFrontEnd { device_port },
    }
}

fn static_rule(entry: &acl::Entry) -> Acl {
    let key = &entry.key;
    Acl {
        priority: key.priority.get().unsigned_abs(),
        direction: narrow(key.direction, |bit| u8::from(bit.get() != 0)),
        vni: narrow(key.vpc, vni),
        port: narrow(key.port_id, |it| it),
        src: narrow(key.src, |it| it),
        dst: narrow(key.dst, |it| it),
        proto: narrow(key.proto, |it| it),
        sport: (key.sport.low(), key.sport.high()),
        dport: (key.dport.low(), key.dport.high()),
        action: match entry.action {
            acl::Action::AclAllow => AclAction::Allow,
            acl::Action::AclDrop => AclAction::Drop,
            acl::Action::AclAsk => AclAction::Ask,
        },
    }
}

fn narrow<T: Field, U>(of: Ternary<T>, to: impl Fn(T) -> U) -> penstock_verify::Ternary<U> {
    penstock_verify::Ternary {
        value: to(of.value()),
        mask: to(of.mask()),
    }
}

fn mac(bits: Bits<48>) -> Mac {
    let [_, _, rest @ ..] = bits.get().to_be_bytes();
    Mac(rest)
}

/// 24 bits; what did not fit would be no VPC's.
fn vni(bits: Bits<24>) -> u32 {
    u32::try_from(bits.get()).unwrap_or(u32::MAX)
}

/// 12 bits; what did not fit would be no port's.
fn tag(bits: Bits<12>) -> u16 {
    u16::try_from(bits.get()).unwrap_or(u16::MAX)
}
