//! Resources as lines of a table.

use penstock_api::v1;
use penstock_policies::document::{self, Kind, Spec, Tier};

use super::status;
use crate::failure::Failure;
use crate::message::document_of;
use crate::output;

/// One line per resource; with columns of its own for a kind.
pub(super) fn table(found: &[v1::Resource], kind: Option<Kind>) -> Result<String, Failure> {
    let rows = found
        .iter()
        .map(|resource| {
            let document = document_of(resource)?;
            Ok((resource, document))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let name = |r: &v1::Resource| r.name.clone();
    let word = status::word;
    Ok(match kind {
        None => output::table(
            ["KIND", "NAME", "STATUS", "REASON"],
            rows.iter().map(|(r, d)| {
                [
                    d.spec.kind().name().to_owned(),
                    name(r),
                    word(r),
                    status::reason(r),
                ]
            }),
        ),
        Some(Kind::Port) => output::table(
            [
                "NAME",
                "NODE",
                "NIC",
                "ATTACHMENT",
                "VLAN",
                "MAC",
                "IPS",
                "GROUPS",
                "STATUS",
            ],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Port(p) => Some([
                    name(r),
                    p.node.clone(),
                    default(p.nic, 1),
                    p.attachment.clone(),
                    if p.vlan == 0 {
                        String::new()
                    } else {
                        p.vlan.to_string()
                    },
                    p.mac.clone(),
                    p.ips.join(","),
                    p.security_groups.join(","),
                    word(r),
                ]),
                _ => None,
            }),
        ),
        Some(Kind::Vpc) => output::table(
            ["NAME", "VNI", "CIDRS", "DEFAULT", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Vpc(v) => Some([
                    name(r),
                    v.vni.to_string(),
                    v.cidrs.join(","),
                    v.default_action
                        .unwrap_or(document::Action::Deny)
                        .word()
                        .to_owned(),
                    word(r),
                ]),
                _ => None,
            }),
        ),
        Some(Kind::Subnet) => output::table(
            ["NAME", "CIDRS", "MTU", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Subnet(s) => {
                    Some([name(r), s.cidrs.join(","), default(s.mtu, 1500), word(r)])
                }
                _ => None,
            }),
        ),
        Some(Kind::SecurityGroup) => output::table(
            ["NAME", "RULES", "DIRECTIONS", "MODE", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::SecurityGroup(g) => {
                    let rules = g.rules.len().to_string();
                    let mode = mode(g.mode);
                    Some([name(r), rules, directions(&g.directions), mode, word(r)])
                }
                _ => None,
            }),
        ),
        Some(Kind::Policy) => output::table(
            [
                "NAME",
                "TIER",
                "PRIORITY",
                "APPLIES TO",
                "RULES",
                "DIRECTIONS",
                "MODE",
                "STATUS",
            ],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Policy(p) => {
                    let is_tenant = p.tier == Some(Tier::Tenant);
                    Some([
                        name(r),
                        p.tier.map_or("", Tier::word).to_owned(),
                        if is_tenant {
                            String::new()
                        } else {
                            p.priority.unwrap_or(1000).to_string()
                        },
                        applies_to(p.applies_to.as_ref()),
                        p.rules.len().to_string(),
                        if is_tenant {
                            directions(&p.directions)
                        } else {
                            String::new()
                        },
                        mode(p.mode),
                        word(r),
                    ])
                }
                _ => None,
            }),
        ),
        Some(Kind::PrefixSet) => output::table(
            ["NAME", "PREFIXES", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::PrefixSet(s) => Some([name(r), s.prefixes.len().to_string(), word(r)]),
                _ => None,
            }),
        ),
        Some(Kind::Peering) => output::table(
            ["NAME", "PEER", "STATUS", "REASON"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Peering(p) => Some([name(r), p.peer.clone(), word(r), status::reason(r)]),
                _ => None,
            }),
        ),
        Some(Kind::Tenant) => output::table(
            ["NAME", "DISPLAY NAME", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Tenant(t) => Some([name(r), t.display_name.clone(), word(r)]),
                _ => None,
            }),
        ),
        Some(Kind::Node) => output::table(
            ["NAME", "WORKER", "NICS", "STATUS"],
            rows.iter().filter_map(|(r, d)| match &d.spec {
                Spec::Node(n) => Some([
                    name(r),
                    n.worker_address.clone(),
                    n.nics.len().to_string(),
                    word(r),
                ]),
                _ => None,
            }),
        ),
    })
}

fn directions(ways: &[document::Direction]) -> String {
    let ways = if ways.is_empty() {
        document::Direction::ALL
    } else {
        ways
    };
    let ways: Vec<_> = ways.iter().map(|way| way.word()).collect();
    ways.join(",")
}

fn mode(mode: Option<document::Mode>) -> String {
    mode.unwrap_or(document::Mode::Enforce).word().to_owned()
}

/// How many of what a policy names.
fn applies_to(applies_to: Option<&document::AppliesTo>) -> String {
    let Some(document::AppliesTo {
        security_groups,
        ports,
        selector,
    }) = applies_to
    else {
        return "every port".to_owned();
    };
    let parts = [
        (security_groups.len(), "groups"),
        (ports.len(), "ports"),
        (usize::from(selector.is_some()), "selector"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    parts.join(", ")
}

/// A number, or the default that zero stands for.
pub(super) fn default(value: u32, default: u32) -> String {
    if value == 0 { default } else { value }.to_string()
}
