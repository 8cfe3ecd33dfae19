//! Lists of rules.

use alloc::string::String;
use alloc::vec::Vec;

use penstock_flow::Prefix;

use super::{GroupId, SetId, Vni};

/// The rules of one security group or policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Full resource name.
    pub name: String,
    /// The VPC it belongs to.
    pub vni: Vni,
    /// When it is asked.
    pub tier: Tier,
    /// Among lists of its tier, low first. The tenant tier has none.
    pub priority: u16,
    /// The ports that it speaks of.
    pub applies: Applies,
    /// Tenant tier: these ports' ingress is closed except for what a rule allows.
    /// A rule of a direction that is not selected says nothing.
    pub selects_ingress: bool,
    /// Tenant tier: the same of their egress.
    pub selects_egress: bool,
    /// It decides nothing; what it would refuse is told.
    pub audit: bool,
    /// What becomes of connections that a change of it refuses.
    pub on_change: OnChange,
    /// As declared.
    pub rules: Vec<Rule>,
}

/// When a list is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// First.
    Admin,
    /// After what admin rules pass on or say nothing of.
    Tenant,
    /// Where no tenant list selects the port.
    Baseline,
}

/// The ports that a list speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applies {
    /// Every port of its VPC.
    Vpc,
    /// Members of any of these, ascending.
    Groups(Vec<GroupId>),
}

/// What becomes of connections that a changed list refuses, or had admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnChange {
    /// They go by the new judgement.
    #[default]
    Reevaluate,
    /// They go on until they end.
    Persist,
    /// They are cut, whatever the new judgement.
    Drop,
}

/// A rule of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Full name: `LIST/rules/RULE`.
    pub name: String,
    /// Which way it looks.
    pub direction: Direction,
    /// What it says.
    pub action: Action,
    /// Among rules of its list, low first. The tenant tier has none.
    pub priority: u16,
    /// `None`: any.
    pub protocol: Option<Protocol>,
    /// Source ports, both ends included; empty: all.
    pub source_ports: Vec<(u16, u16)>,
    /// Destination ports, both ends included; empty: all.
    pub ports: Vec<(u16, u16)>,
    /// ICMP type; `None`: all.
    pub icmp_type: Option<u8>,
    /// ICMP code; `None`: all.
    pub icmp_code: Option<u8>,
    /// The other end.
    pub peers: Peers,
    /// What it allows opens a connection, to which replies belong. Of rules that
    /// do not allow, always true.
    pub stateful: bool,
    /// What it decides is told.
    pub log: bool,
}

/// What a rule says. The order is that of rules of equal priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It may not pass.
    Deny,
    /// It may not pass, and its sender is told.
    Reject,
    /// The next tier decides.
    Pass,
    /// It may pass.
    Allow,
}

/// As seen from the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the port.
    Ingress,
    /// From the port.
    Egress,
}

/// A rule's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// By IANA number. UDP is without `RoCEv2`.
    Number(u8),
    /// `RoCEv2`: UDP to port 4791.
    Roce,
}

/// The other end of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Whoever it is.
    Everyone,
    /// Any of these; none: no one.
    Any(Vec<Peer>),
}

impl Peers {
    /// Those that are named one by one.
    #[must_use]
    pub fn named(&self) -> &[Peer] {
        match self {
            Self::Everyone => &[],
            Self::Any(peers) => peers,
        }
    }
}

/// One of a rule's other ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Inside `prefix` and in none of `except`.
    Cidr {
        /// Where.
        prefix: Prefix,
        /// Holes in it.
        except: Vec<Prefix>,
    },
    /// Inside one of a set's prefixes.
    Set(SetId),
    /// An address whose endpoint is a member.
    Group(GroupId),
}

impl Rule {
    /// A rule that allows everyone everything in one direction.
    #[must_use]
    pub const fn allow(name: String, direction: Direction) -> Self {
        Self {
            name,
            direction,
            action: Action::Allow,
            priority: DEFAULT_PRIORITY,
            protocol: None,
            source_ports: Vec::new(),
            ports: Vec::new(),
            icmp_type: None,
            icmp_code: None,
            peers: Peers::Everyone,
            stateful: true,
            log: false,
        }
    }
}

/// The priority of lists and rules that do not say.
pub const DEFAULT_PRIORITY: u16 = 1000;

impl List {
    /// The list of a security group: enforced, selecting nothing yet.
    #[must_use]
    pub fn of_group(name: String, vni: Vni, group: GroupId) -> Self {
        Self {
            name,
            vni,
            tier: Tier::Tenant,
            priority: DEFAULT_PRIORITY,
            applies: Applies::Groups(Vec::from([group])),
            selects_ingress: false,
            selects_egress: false,
            audit: false,
            on_change: OnChange::Reevaluate,
            rules: Vec::new(),
        }
    }

    /// Whether its rules of this direction speak.
    #[must_use]
    pub const fn speaks(&self, direction: Direction) -> bool {
        match (self.tier, direction) {
            (Tier::Admin | Tier::Baseline, _) => true,
            (Tier::Tenant, Direction::Ingress) => self.selects_ingress,
            (Tier::Tenant, Direction::Egress) => self.selects_egress,
        }
    }
}

impl List {
    /// Whether it decides as another one does: all but what is told, and what
    /// becomes of connections.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let Self {
            name,
            vni,
            tier,
            priority,
            applies,
            selects_ingress,
            selects_egress,
            audit,
            on_change: _,
            rules,
        } = self;
        *name == other.name
            && *vni == other.vni
            && *tier == other.tier
            && *priority == other.priority
            && *applies == other.applies
            && *selects_ingress == other.selects_ingress
            && *selects_egress == other.selects_egress
            && *audit == other.audit
            && rules.len() == other.rules.len()
            && rules
                .iter()
                .zip(&other.rules)
                .all(|(a, b)| a.says_the_same_of_peers(b) && a.peers == b.peers)
    }
}

impl Rule {
    /// Whether it decides as another one does about the peers that they name.
    pub(crate) fn says_the_same_of_peers(&self, other: &Self) -> bool {
        let Self {
            name,
            direction,
            action,
            priority,
            protocol,
            source_ports,
            ports,
            icmp_type,
            icmp_code,
            peers: _,
            stateful,
            log: _,
        } = self;
        *name == other.name
            && *direction == other.direction
            && *action == other.action
            && *priority == other.priority
            && *protocol == other.protocol
            && *source_ports == other.source_ports
            && *ports == other.ports
            && *icmp_type == other.icmp_type
            && *icmp_code == other.icmp_code
            && *stateful == other.stateful
    }
}
