//! Lists of rules.

use penstock_rules::model::{
    Action, Applies, Direction, List, ListId, OnChange, Peer, Peers, Protocol, Rule, Tier,
};
use penstock_slowpath_api::v1;

use super::{Result, each, group_ids, id, invalid, prefix, vni};

pub(super) fn list(path: &str, message: v1::List) -> Result<(ListId, List)> {
    let v1::List {
        id: list_id,
        vni: v,
        name,
        tier: in_tier,
        priority: p,
        applies: to,
        selects_ingress,
        selects_egress,
        audit,
        on_change: change,
        rules,
    } = message;
    let list = List {
        vni: vni(&format!("{path}.vni"), v)?,
        tier: tier(&format!("{path}.tier"), in_tier)?,
        priority: priority(&format!("{path}.priority"), p)?,
        applies: applies(&format!("{path}.applies"), to)?,
        selects_ingress,
        selects_egress,
        audit,
        on_change: on_change(&format!("{path}.on_change"), change)?,
        rules: each(&format!("{path}.rules"), rules, rule)?,
        name,
    };
    Ok((id(&format!("{path}.id"), list_id)?, list))
}

fn tier(path: &str, value: i32) -> Result<Tier> {
    match v1::Tier::try_from(value) {
        Ok(v1::Tier::Admin) => Ok(Tier::Admin),
        Ok(v1::Tier::Tenant) => Ok(Tier::Tenant),
        Ok(v1::Tier::Baseline) => Ok(Tier::Baseline),
        Ok(v1::Tier::Unspecified) | Err(_) => unknown(path, value),
    }
}

fn on_change(path: &str, value: i32) -> Result<OnChange> {
    match v1::OnChange::try_from(value) {
        Ok(v1::OnChange::Reevaluate) => Ok(OnChange::Reevaluate),
        Ok(v1::OnChange::Persist) => Ok(OnChange::Persist),
        Ok(v1::OnChange::Cut) => Ok(OnChange::Drop),
        Ok(v1::OnChange::Unspecified) | Err(_) => unknown(path, value),
    }
}

fn action(path: &str, value: i32) -> Result<Action> {
    match v1::Action::try_from(value) {
        Ok(v1::Action::Deny) => Ok(Action::Deny),
        Ok(v1::Action::Reject) => Ok(Action::Reject),
        Ok(v1::Action::Pass) => Ok(Action::Pass),
        Ok(v1::Action::Allow) => Ok(Action::Allow),
        Ok(v1::Action::Unspecified) | Err(_) => unknown(path, value),
    }
}

fn unknown<T>(path: &str, value: i32) -> Result<T> {
    invalid(
        path.to_owned(),
        value,
        "not said, or a value that this worker does not know; upgrade the worker first",
    )
}

fn priority(path: &str, value: u32) -> Result<u16> {
    u16::try_from(value).or_else(|_| invalid(path.to_owned(), value, "0 to 65535"))
}

fn applies(path: &str, message: Option<v1::list::Applies>) -> Result<Applies> {
    match message {
        Some(v1::list::Applies::Vpc(true)) => Ok(Applies::Vpc),
        Some(v1::list::Applies::Groups(v1::Groups { ids })) => {
            Ok(Applies::Groups(group_ids(&format!("{path}.groups"), ids)?))
        }
        Some(v1::list::Applies::Vpc(false)) | None => invalid(
            path.to_owned(),
            "nothing",
            "say that it applies to the VPC, or to which groups",
        ),
    }
}

fn rule(path: &str, message: v1::Rule) -> Result<Rule> {
    let v1::Rule {
        name,
        ingress,
        action: does,
        priority: p,
        protocol: speaks,
        source_ports,
        ports,
        icmp_type,
        icmp_code,
        peers: ends,
        stateless,
        log,
    } = message;
    let byte = |field: &str, value: u32| {
        u8::try_from(value).or_else(|_| invalid(format!("{path}.{field}"), value, "0 to 255"))
    };
    let protocol = match speaks {
        None => None,
        Some(v1::rule::Protocol::Number(number)) => {
            Some(Protocol::Number(byte("protocol", number)?))
        }
        Some(v1::rule::Protocol::Roce(true)) => Some(Protocol::Roce),
        Some(v1::rule::Protocol::Roce(false)) => {
            return invalid(
                format!("{path}.roce"),
                false,
                "true, or another protocol, or none for any",
            );
        }
    };
    let peers = match ends {
        None => Peers::Everyone,
        Some(v1::Peers { any }) => Peers::Any(each(&format!("{path}.peers"), any, peer)?),
    };
    Ok(Rule {
        direction: if ingress {
            Direction::Ingress
        } else {
            Direction::Egress
        },
        action: action(&format!("{path}.action"), does)?,
        priority: priority(&format!("{path}.priority"), p)?,
        protocol,
        source_ports: each(&format!("{path}.source_ports"), source_ports, port_range)?,
        ports: each(&format!("{path}.ports"), ports, port_range)?,
        icmp_type: icmp_type.map(|t| byte("icmp_type", t)).transpose()?,
        icmp_code: icmp_code.map(|c| byte("icmp_code", c)).transpose()?,
        peers,
        stateful: !stateless,
        log,
        name,
    })
}

fn port_range(path: &str, message: v1::PortRange) -> Result<(u16, u16)> {
    let v1::PortRange { first, last } = message;
    match (u16::try_from(first), u16::try_from(last)) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => invalid(
            path.to_owned(),
            format!("{first}-{last}"),
            "0 to 65535, the lower first",
        ),
    }
}

fn peer(path: &str, message: v1::Peer) -> Result<Peer> {
    match message.peer {
        Some(v1::peer::Peer::Group(group)) => Ok(Peer::Group(id(&format!("{path}.group"), group)?)),
        Some(v1::peer::Peer::PrefixSet(set)) => {
            Ok(Peer::Set(id(&format!("{path}.prefix_set"), set)?))
        }
        Some(v1::peer::Peer::Cidr(v1::Cidr { prefix: p, except })) => {
            let Some(p) = p else {
                return invalid(format!("{path}.cidr.prefix"), "nothing", "name the prefix");
            };
            Ok(Peer::Cidr {
                prefix: prefix(&format!("{path}.cidr.prefix"), p)?,
                except: each(&format!("{path}.cidr.except"), except, prefix)?,
            })
        }
        None => invalid(
            path.to_owned(),
            "nothing",
            "a peer of a kind that this worker does not know; upgrade the worker first",
        ),
    }
}
