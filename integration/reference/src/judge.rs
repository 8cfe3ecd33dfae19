//! The truth table: admin, then tenant, then baseline, then the VPC's default.

use penstock_flow::Addr;
use penstock_policies::explain::Direction;
use penstock_policies::model::{Action, Mode, Model, Port, PortName, Rule, Tier, VpcName};

use crate::matching::{applies, is_member, matches};

/// A packet that no connection owns, as one port sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who is asked.
    pub port: PortName,
    /// Whether the packet enters or leaves the port.
    pub direction: Direction,
    /// The other end.
    pub peer: Addr,
    /// IANA number.
    pub protocol: u8,
    /// Source port.
    pub source_port: u16,
    /// Destination port; ICMP: type times 256, and code.
    pub destination_port: u16,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
    /// It is dropped, and its sender is told.
    Reject,
}

/// What has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A rule, by its full name.
    Rule(String),
    /// The port is selected, and no rule allows it.
    Closed,
    /// The VPC's default.
    Default,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What becomes of the packet.
    pub verdict: Verdict,
    /// What has decided.
    pub by: By,
    /// What is allowed makes a connection.
    pub stateful: bool,
    /// The rule wants it logged.
    pub log: bool,
    /// It passes, and what is in audit would have stopped it.
    pub would_stop: Option<By>,
}

/// One security group's rules, or one policy's.
struct List<'a> {
    name: &'a str,
    tier: Tier,
    priority: u16,
    /// Tenant tier: it closes the port in the packet's direction.
    selects: bool,
    audit: bool,
    rules: &'a [Rule],
}

/// Judges a packet; `None`: there is no such port.
#[must_use]
pub fn judge(model: &Model, packet: &Packet) -> Option<Judged> {
    let port = model.ports.get(&packet.port)?;
    let home = packet.port.vpc();
    let default_allow = model.vpcs.get(&home)?.default_allow;
    let lists = lists(model, &home, port, packet);
    let enforced: Vec<&List<'_>> = lists.iter().filter(|list| !list.audit).collect();
    let mut judged = decide(model, &home, &enforced, default_allow, packet);
    if judged.verdict == Verdict::Allow {
        let all: Vec<&List<'_>> = lists.iter().collect();
        let strict = decide(model, &home, &all, default_allow, packet);
        judged.would_stop = (strict.verdict != Verdict::Allow).then_some(strict.by);
    }
    Some(judged)
}

/// A rule that matches a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Full name.
    pub rule: String,
    /// What it says.
    pub action: Action,
    /// Its list is in audit.
    pub audit: bool,
}

/// All rules of a tier that match a packet at a port that exists, in the order in which
/// they are asked; whether the tier is asked at all is no matter.
#[must_use]
pub fn matching(model: &Model, tier: Tier, packet: &Packet) -> Vec<Match> {
    let home = packet.port.vpc();
    let Some(port) = model.ports.get(&packet.port) else {
        return Vec::new();
    };
    let lists = lists(model, &home, port, packet);
    let mut found: Vec<(&List<'_>, &Rule)> = lists
        .iter()
        .filter(|list| list.tier == tier && (tier != Tier::Tenant || list.selects))
        .flat_map(|list| list.rules.iter().map(move |rule| (list, rule)))
        .filter(|(_, rule)| matches(model, &home, rule, packet))
        .collect();
    found.sort_by_key(|(list, rule)| {
        let priorities = match tier {
            Tier::Tenant => (0, 0),
            Tier::Admin | Tier::Baseline => (list.priority, rule.priority),
        };
        (
            priorities,
            restrictive(rule.action),
            !rule.stateful,
            list.name,
            rule.name.as_str(),
        )
    });
    let told = found.into_iter().map(|(list, rule)| Match {
        rule: format!("{}/rules/{}", list.name, rule.name),
        action: rule.action,
        audit: list.audit,
    });
    told.collect()
}

/// Everything that speaks of the port.
fn lists<'a>(model: &'a Model, home: &VpcName, port: &Port, packet: &Packet) -> Vec<List<'a>> {
    let mut lists = Vec::new();
    for (name, group) in &model.groups {
        if is_member(model, name, &packet.port, port) {
            lists.push(List {
                name: name.as_str(),
                tier: Tier::Tenant,
                priority: 0,
                selects: group.directions.contains(&packet.direction),
                audit: group.mode == Mode::Audit,
                rules: &group.rules,
            });
        }
    }
    for (name, policy) in &model.policies {
        if name.vpc() == *home && applies(model, home, policy, &packet.port, port) {
            lists.push(List {
                name: name.as_str(),
                tier: policy.tier,
                priority: policy.priority,
                selects: policy.directions.contains(&packet.direction),
                audit: policy.mode == Mode::Audit,
                rules: &policy.rules,
            });
        }
    }
    lists
}

fn decide(
    model: &Model,
    home: &VpcName,
    lists: &[&List<'_>],
    default_allow: bool,
    packet: &Packet,
) -> Judged {
    if let Some(judged) = ordered(model, home, lists, Tier::Admin, packet) {
        return judged;
    }
    let mut selecting = lists
        .iter()
        .filter(|list| list.tier == Tier::Tenant && list.selects)
        .peekable();
    if selecting.peek().is_some() {
        // A connection is made if any rule would make one.
        let found = selecting
            .flat_map(|list| list.rules.iter().map(|rule| (list.name, rule)))
            .filter(|(_, rule)| matches(model, home, rule, packet))
            .min_by_key(|(list, rule)| (!rule.stateful, *list, rule.name.as_str()));
        return match found {
            Some((list, rule)) => by_rule(list, rule, Verdict::Allow),
            None => plain(Verdict::Deny, By::Closed),
        };
    }
    if let Some(judged) = ordered(model, home, lists, Tier::Baseline, packet) {
        return judged;
    }
    let verdict = if default_allow {
        Verdict::Allow
    } else {
        Verdict::Deny
    };
    plain(verdict, By::Default)
}

/// The first rule of a tier, unless it passes the packet on.
fn ordered(
    model: &Model,
    home: &VpcName,
    lists: &[&List<'_>],
    tier: Tier,
    packet: &Packet,
) -> Option<Judged> {
    let (list, rule) = lists
        .iter()
        .filter(|list| list.tier == tier)
        .flat_map(|list| list.rules.iter().map(move |rule| (list, rule)))
        .filter(|(_, rule)| matches(model, home, rule, packet))
        .min_by_key(|(list, rule)| {
            (
                list.priority,
                rule.priority,
                restrictive(rule.action),
                !rule.stateful,
                list.name,
                rule.name.as_str(),
            )
        })?;
    let verdict = match rule.action {
        Action::Pass => return None,
        Action::Allow => Verdict::Allow,
        Action::Deny => Verdict::Deny,
        Action::Reject => Verdict::Reject,
    };
    Some(by_rule(list.name, rule, verdict))
}

const fn restrictive(action: Action) -> u8 {
    match action {
        Action::Deny => 0,
        Action::Reject => 1,
        Action::Pass => 2,
        Action::Allow => 3,
    }
}

fn by_rule(list: &str, rule: &Rule, verdict: Verdict) -> Judged {
    Judged {
        verdict,
        by: By::Rule(format!("{list}/rules/{}", rule.name)),
        stateful: rule.stateful,
        log: rule.log,
        would_stop: None,
    }
}

fn plain(verdict: Verdict, by: By) -> Judged {
    Judged {
        verdict,
        by,
        stateful: true,
        log: false,
        would_stop: None,
    }
}
