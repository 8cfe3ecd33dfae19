//! An explanation for people.

use std::fmt::Write as _;

use penstock_api::v1;
use penstock_api::v1::route::Hop;
use penstock_api::v1::tier_says::Outcome;
use penstock_flow::tuple::proto;

/// All of it. Writing to a string does not fail.
pub(super) fn answer(packet: &str, answer: &v1::ExplainResponse) -> String {
    let v1::ExplainResponse {
        verdict: _,
        steps,
        source_ip: _,
        destination_ip: _,
        route,
        entries,
    } = answer;
    let mut out = format!("{}  {packet}\n", answer.verdict().as_str_name());
    for step in steps {
        self::step(&mut out, step);
    }
    if let Some(route) = route {
        let _ = writeln!(out, "  route    {}", self::route(route));
    }
    for (i, entry) in entries.iter().enumerate() {
        let head = if i == 0 { "entries" } else { "" };
        let _ = writeln!(out, "  {head:<7}  {}", self::entry(entry));
    }
    out
}

fn step(out: &mut String, step: &v1::Step) {
    let v1::Step {
        direction: _,
        node,
        port,
        verdict: _,
        // The reason names it.
        rule: _,
        reason,
        tiers,
        near_misses,
        audit,
        stateful,
        log,
        device_id,
        first_packet: _,
        established: _,
    } = step;
    let way = match step.direction() {
        v1::Direction::Egress => "egress",
        v1::Direction::Ingress | v1::Direction::Unspecified => "ingress",
    };
    let port = if port.is_empty() { "no port" } else { port };
    let verdict = step.verdict();
    let _ = writeln!(
        out,
        "  {way:<7}  {}  {port} on {node}",
        verdict.as_str_name()
    );
    let mut line = |text: &str| {
        let _ = writeln!(out, "           {text}");
    };
    line(reason);
    if !audit.is_empty() {
        line(&format!("in audit: {audit}"));
    }
    for v1::NearMiss { rule, why } in near_misses {
        line(&format!("  {rule}: {why}"));
    }
    if *log {
        line("the rule has it logged");
    }
    for says in tiers {
        tier(&mut line, says);
    }
    line(&format!(
        "enforced: {}",
        enforced(
            step.first_packet(),
            step.established(),
            verdict,
            *stateful,
            *device_id
        )
    ));
}

fn tier(line: &mut dyn FnMut(&str), says: &v1::TierSays) {
    let v1::TierSays {
        tier: _,
        outcome: _,
        matches,
        matches_left_out,
    } = says;
    let name = match says.tier() {
        v1::Tier::Admin => "admin",
        v1::Tier::Baseline => "baseline",
        v1::Tier::Tenant | v1::Tier::Unspecified => "tenant",
    };
    let outcome = match says.outcome() {
        Outcome::Decided => "decides",
        Outcome::Passed => "passes on to the next tier",
        Outcome::Closed => "selects the port, and no rule allows the packet",
        Outcome::NotSelected => "does not select the port in this direction",
        Outcome::NoMatch | Outcome::Unspecified => "no rule matches",
    };
    line(&format!("{name:<8}  {outcome}"));
    for found in matches {
        let v1::RuleMatch {
            rule,
            action: _,
            decides,
            audit,
        } = found;
        let note = match (decides, audit) {
            (true, _) => "  <- counts",
            (false, true) => "  (in audit, does not count)",
            (false, false) => "",
        };
        let action = found.action().as_str_name();
        line(&format!("            {action:<6}  {rule}{note}"));
    }
    if *matches_left_out > 0 {
        line(&format!(
            "            and {matches_left_out} more that match"
        ));
    }
}

fn enforced(
    first: v1::Enforcer,
    established: v1::Enforcer,
    verdict: v1::Action,
    stateful: bool,
    device_id: u32,
) -> String {
    let by = |enforcer| match enforcer {
        v1::Enforcer::NicFlow => format!("NIC {device_id}, stage flow"),
        v1::Enforcer::NicMapping => format!("NIC {device_id}, stage mapping"),
        v1::Enforcer::Software | v1::Enforcer::Unspecified => "software".to_owned(),
    };
    let first = by(first);
    match (verdict, established) {
        (v1::Action::Allow, v1::Enforcer::Unspecified) if !stateful => {
            format!(
                "each packet by {first}: the rule is stateless, replies need a rule of their own"
            )
        }
        (v1::Action::Allow, v1::Enforcer::Unspecified) => {
            format!("first packet by {first}; the other end refuses it, so no connection is made")
        }
        (v1::Action::Allow, then) => {
            format!(
                "first packet by {first}, then the connection by {}",
                by(then)
            )
        }
        _ => format!("each packet by {first}"),
    }
}

fn route(route: &v1::Route) -> String {
    let v1::Route {
        vni,
        mapping,
        nexthop,
        hop,
    } = route;
    let hop = match hop {
        Some(Hop::Local(v1::LocalHop {
            port,
            attachment,
            vlan,
        })) => {
            let tag = match vlan {
                0 => String::new(),
                vlan => format!(", VLAN {vlan}"),
            };
            format!("{port} on the same NIC, interface {attachment}{tag}")
        }
        Some(Hop::Tunnel(v1::TunnelHop {
            source_vtep,
            destination_vtep,
            node,
            device_id,
            mtu,
        })) => format!(
            "VXLAN {source_vtep} -> {destination_vtep} with VNI {vni}, to NIC {device_id} of {node}; \
             IP packets up to {mtu} bytes"
        ),
        None => "nowhere".to_owned(),
    };
    format!("{mapping} in VNI {vni} is next hop {nexthop}: {hop}")
}

fn entry(entry: &v1::FlowEntry) -> String {
    let v1::FlowEntry {
        node,
        device_id,
        ingress_port,
        vni,
        source_ip,
        destination_ip,
        protocol,
        source_port,
        destination_port,
        nexthop,
        to_port: _,
    } = entry;
    let from = if ingress_port.is_empty() {
        "the wire"
    } else {
        ingress_port
    };
    let icmp = [u32::from(proto::ICMP), u32::from(proto::ICMPV6)].contains(protocol);
    let flow = if icmp {
        let kind = destination_port >> 8;
        format!("{source_ip} -> {destination_ip} ICMP type {kind}, its identifier")
    } else {
        let source = endpoint(source_ip, *source_port);
        let destination = endpoint(destination_ip, *destination_port);
        format!("{source} -> {destination} protocol {protocol}")
    };
    format!("{node} NIC {device_id}: from {from}, VNI {vni}, {flow}: to next hop {nexthop}")
}

fn endpoint(ip: &str, port: u32) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}
